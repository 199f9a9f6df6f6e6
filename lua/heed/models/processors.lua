-- Keys of generation_config.json that change logits: which ids may not come, and which must.

local generation = require "heed.models.generation"
local heed = require "heed"

-- Each maker gives a function of the logits (V) of the next id, all ids so far (those of the
-- prompt, too) and how many are the prompt's, which changes the logits; or nothing, where the key
-- is absent.
local MAKERS = {}


local function at(ids, logits)
  return heed.tensor(ids, {dtype = "int64", device = logits.device})
end


local function suppress(logits, ids) logits[at(ids, logits)] = -math.huge end


local function force(logits, ids)
  local list = at(ids, logits)
  local kept = logits[list]
  logits:fill_(-math.huge)
  logits[list] = kept
end


-- Ids that once followed the last n - 1 ids.
function MAKERS.no_repeat_ngram_size(c)
  local n = generation.count(c.own, "no_repeat_ngram_size") or 0
  if n == 0 then return nil end
  return function(logits, ids)
    local banned = {}
    for from = 1, #ids - n + 1 do
      local k = 1
      while k < n and ids[from + k - 1] == ids[#ids - n + 1 + k] do k = k + 1 end
      if k == n then banned[#banned + 1] = ids[from + n - 1] end
    end
    if #banned > 0 then suppress(logits, banned) end
  end
end


function MAKERS.min_length(c)
  local n = generation.count(c.own, "min_length") or 0
  if n == 0 or #c.ends == 0 then return nil end
  return function(logits, ids)
    if c.before + #ids < n then suppress(logits, c.ends) end
  end
end


function MAKERS.min_new_tokens(c)
  local n = generation.count(c.own, "min_new_tokens") or 0
  if n == 0 or #c.ends == 0 then return nil end
  return function(logits, ids, prompt)
    if #ids - prompt < n then suppress(logits, c.ends) end
  end
end


function MAKERS.forced_bos_token_id(c)
  local forced = generation.ids(c.own, "forced_bos_token_id", c.most)
  if #forced == 0 then return nil end
  return function(logits, ids)
    if c.before + #ids == 1 then force(logits, forced) end
  end
end


function MAKERS.forced_eos_token_id(c)
  local forced = generation.ids(c.own, "forced_eos_token_id", c.most)
  if #forced == 0 then return nil end
  return function(logits, ids, prompt)
    if #ids - prompt == c.max - 1 then force(logits, forced) end
  end
end


function MAKERS.suppress_tokens(c)
  local list = generation.known(generation.ids(c.own, "suppress_tokens"), c.most)
  if #list == 0 then return nil end
  return function(logits) suppress(logits, list) end
end


function MAKERS.begin_suppress_tokens(c)
  local list = generation.known(generation.ids(c.own, "begin_suppress_tokens"), c.most)
  local behind = #generation.ids(c.own, "forced_bos_token_id") > 0 and 1 or 0
  if #list == 0 then return nil end
  return function(logits, ids, prompt)
    local forced = c.before + prompt == 1 and behind or 0
    if #ids == prompt + forced then suppress(logits, list) end
  end
end


local ORDER <const> = {
  "no_repeat_ngram_size", "min_length", "min_new_tokens", "forced_bos_token_id",
  "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
}


---A function for option logits of heed.generate that does what the file says, and then what the
---caller's own function does.
---@param c {own: table, before: integer, ends: integer[], max: integer, most: integer,
---rows: integer[][]} `before` says how many ids a cache has, `most` how many the model knows; rows
---are the prompts behind the cache
---@param more? function
---@return function?
return function(c, more)
  local list = {}
  for _, name in ipairs(ORDER) do list[#list + 1] = MAKERS[name](c) end
  if #list == 0 then return more end
  return function(logits, ids, row)
    local prompt = c.rows[row]
    local all = table.move(ids, 1, #ids, #prompt + 1, table.move(prompt, 1, #prompt, 1, {}))
    for _, change in ipairs(list) do change(logits, all, #prompt) end
    if more then return more(logits, ids, row) or logits end
    return logits
  end
end
