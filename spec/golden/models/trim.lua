-- Makes the directories beside this file of tiny models that transformers saved with random weights
-- and ran: lua5.4 spec/golden/models/trim.lua FROM NAME...
--
-- Of the vocabulary those ids stay that the cases use, in the order that they had: all numbers stay
-- what they were, and the best of the logits, too, since each best one is among those ids.

local heed = require "heed"
local json = require "heed.files.json"

local HERE <const> = arg[0]:match("^(.*)/")
local KEPT <const> = {
  "input_ids", "attention_mask", "token_type_ids", "last_hidden_state", "logits",
  "pooler_output", "greedy", "greedy_short", "greedy_long", "prompts", "prompts_mask",
  "short_prompts", "short_prompts_mask", "long_prompts", "long_prompts_mask",
  "decoder_input_ids", "decoder_attention_mask", "encoder_last_hidden_state", "pixel_values",
  "text_embeds", "image_embeds", "logits_per_text",
}
local IDS <const> = {
  input_ids = true, greedy = true, greedy_short = true, greedy_long = true, prompts = true,
  short_prompts = true, long_prompts = true, decoder_input_ids = true,
}
local FIRST <const> = 4              -- ids that always stay: special ones


local function base(name) return name:match("[%w_]+$") end

local function is_kept(name)
  for _, known in ipairs(KEPT) do
    if base(name) == known and (name == known or name == "long." .. known) then return true end
  end
  return false
end


-- The ids that stay, from 0, and where each of them stands then, from 0.
local function kept_ids(expect, special)
  local seen, list, at = {}, {}, {}
  for id = 0, FIRST - 1 do seen[id] = true end
  for _, id in ipairs(special) do seen[id] = true end
  for name, t in pairs(expect) do
    if IDS[base(name)] then
      for _, id in ipairs(t:reshape(-1):totable()) do seen[id] = true end
    end
  end
  for id in pairs(seen) do list[#list + 1] = id end
  table.sort(list)
  for i, id in ipairs(list) do at[id] = i - 1 end
  return list, at
end


local function read(path)
  local file = io.open(path)
  local text = file and file:read "a"
  if file then file:close() end
  return text
end


local function write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  file:close()
end


-- Whether a value is an id that a configuration names.
local function special_ids(c)
  local list = {}
  for name, value in pairs(c) do
    if name:find("_token_id$") then
      for _, id in ipairs(type(value) == "table" and value or {value}) do
        if math.type(id) == "integer" and id >= 0 and id < c.vocab_size then
          list[#list + 1] = id
        end
      end
    end
  end
  return list
end


local function renumber(c, at, n)
  local words = c.text_config or c
  for name, value in pairs(words) do
    if name:find("_token_id$") and at[value] then words[name] = at[value] end
  end
  words.vocab_size = n
  return json.encode(c) .. "\n"
end


local function tensors_of(from)
  local tensors = heed.load(from .. "/model.safetensors")
  if tensors then return tensors end
  tensors = {}
  local index = assert(json.decode(read(from .. "/model.safetensors.index.json")))
  local seen = {}
  for _, file in pairs(index.weight_map) do
    if not seen[file] then
      for name, t in pairs(assert(heed.load(from .. "/" .. file))) do tensors[name] = t end
    end
    seen[file] = true
  end
  return tensors
end


local function trim(from, to)
  local c = assert(json.decode(read(from .. "/config.json")))
  c = c.text_config or c
  local V = c.vocab_size
  local expect, kept = assert(heed.load(from .. "/expect.safetensors")), {}
  for name, t in pairs(expect) do
    if is_kept(name) then kept[name] = t end
  end
  local list, at = {}, {}
  local tensors = tensors_of(from)
  if V then
    list, at = kept_ids(kept, special_ids(c))
    local rows = heed.tensor(list, {dtype = "int64"}) + 1
    for name, t in pairs(tensors) do
      if t:dim() > 0 and t:size(1) == V then tensors[name] = t:index_select(1, rows)
      elseif t:dim() > 0 and t:size(-1) == V then tensors[name] = t:index_select(-1, rows) end
    end
    local table_of = heed.full({V}, -1, {dtype = "int64"})
    for id, place in pairs(at) do table_of[id + 1] = place end
    for name, t in pairs(kept) do
      if IDS[base(name)] then kept[name] = table_of[t + 1]
      elseif base(name) == "logits" and t:size(-1) == V then
        kept[name] = t:index_select(-1, rows)
      end
    end
  end
  assert(os.execute("mkdir -p " .. to))
  assert(heed.save(to .. "/model.safetensors", tensors))
  assert(heed.save(to .. "/expect.safetensors", kept))
  for _, file in ipairs{"config.json", "config_v4.json"} do
    local text = read(from .. "/" .. file)
    if text then write(to .. "/" .. file, renumber(assert(json.decode(text)), at, V and #list)) end
  end
end


for i = 2, #arg do trim(arg[1] .. "/" .. arg[i], HERE .. "/" .. arg[i]) end
