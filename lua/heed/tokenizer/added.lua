-- The small files of a folder beside a vocabulary that has no tokenizer.json: special tokens,
-- tokens that were added, and options.

local core = require "heed.core"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local special = require "heed.tokenizer.special"

local quoted = refuse.quoted

local added = {}

---@class heed.tokenizer.added
---@field id? integer from 0, where a file says it
---@field content string
---@field special boolean
---@field normalized boolean
---@field single_word boolean
---@field lstrip boolean
---@field rstrip boolean

---@class heed.tokenizer.says
---@field config table of tokenizer_config.json
---@field class? string the tokenizer's, without "Fast"
---@field model_type? string of config.json
---@field named table<string, heed.tokenizer.added> tokens by their parts
---@field list heed.tokenizer.added[] others, in the order in which they get ids


local function is_given(value) return value ~= nil and not rawequal(value, json.null) end


-- The table of a file, which is empty where there is none.
local function read(folder, file)
  local text = core.read_file(folder .. "/" .. file)
  if not text then return {} end
  local value, why = json.decode(text)
  if why then refuse.with("%s: %s", file, why) end
  if type(value) ~= "table" or json.is_array(value) then
    refuse.with("a table expected in %s", file)
  end
  return value
end


---A flag of tokenizer_config.json, or the default where there is none.
---@param config table
---@param name string
---@param default any
---@return any
function added.option(config, name, default)
  local value = config[name]
  if not is_given(value) then return default end
  if type(value) ~= "boolean" then refuse.with("true or false expected as %s", name) end
  return value
end


-- A token by its name, or by a table with its name and flags.
local function token_of(value, what, is_special, id)
  local token = type(value) == "table" and value or {content = value}
  if type(token.content) ~= "string" or token.content == "" then
    refuse.with("a token expected as %s", what)
  end
  local own = {content = token.content, id = id}
  own.special = is_special or added.option(token, "special", false)
  own.normalized = added.option(token, "normalized", not own.special)
  for _, name in ipairs{"single_word", "lstrip", "rstrip"} do
    own[name] = added.option(token, name, false)
  end
  return own
end


-- Special tokens without a part.
local function more_of(files, list)
  for _, file in ipairs(files) do
    for _, key in ipairs{"additional_special_tokens", "extra_special_tokens"} do
      local values, names = file[key], {}
      if not is_given(values) then values = {} end
      if type(values) ~= "table" then refuse.with("tokens expected as %s", key) end
      for name in next, values do names[#names + 1] = name end
      table.sort(names)
      for _, name in ipairs(names) do list[#list + 1] = token_of(values[name], key, true) end
    end
  end
end


local function id_of(value)
  local id = math.tointeger(tonumber(value))
  if id and id >= 0 then return id end
  refuse.with("the id of an added token expected, got %s", tostring(value))
end


-- Tokens with ids: of tokenizer_config.json, or else of added_tokens.json.
local function numbered(config, folder, is_special)
  local list, decoder = {}, config.added_tokens_decoder
  if is_given(decoder) then
    if type(decoder) ~= "table" then refuse.with("tokens by their ids expected") end
    for id, token in next, decoder do
      list[#list + 1] = token_of(token, "added_tokens_decoder", false, id_of(id))
    end
  else
    for name, id in next, read(folder, "added_tokens.json") do
      list[#list + 1] = token_of(name, "added_tokens.json", is_special[name] or false, id_of(id))
    end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end


---Reads a folder's files.
---@param folder string
---@param files heed.tokenizer.files those of them that name special tokens
---@return heed.tokenizer.says
function added.read(folder, files)
  local config, map = files.config, files.map
  local named, is_special, last = {}, {}, {}
  for _, part in ipairs(special.PARTS) do
    local key = part .. "_token"
    local value = is_given(config[key]) and config[key] or map[key]
    if is_given(value) then
      named[part] = token_of(value, key, true)
      is_special[named[part].content] = true
    end
  end
  more_of({config, map}, last)
  for _, token in ipairs(last) do is_special[token.content] = true end
  local list = numbered(config, folder, is_special)
  for _, part in ipairs(special.PARTS) do list[#list + 1] = named[part] end
  table.move(last, 1, #last, #list + 1, list)
  local class, kind = config.tokenizer_class, read(folder, "config.json").model_type
  if is_given(class) and type(class) ~= "string" then
    refuse.with("a name expected as tokenizer_class")
  end
  return {config = config, named = named, list = list, model_type = kind,
          class = is_given(class) and class:gsub("Fast$", "") or nil}
end


---The tokens that are added to a vocabulary: those that a text is searched for.
---@param ids table<string, integer> of the vocabulary
---@param says heed.tokenizer.says
---@param defaults string[] special tokens, where the vocabulary has them
---@return heed.tokenizer.added[]
function added.tokens(ids, says, defaults)
  local list, by_name, largest = {}, {}, -1
  for _, id in next, ids do largest = math.max(largest, id) end
  local function put(token)
    local name = token.content
    local known, id = by_name[name], ids[name] or token.id or largest + 1
    if token.id and id ~= token.id then
      refuse.with("the token %s has the id %d there, and is added as %d", quoted(name), id,
                  token.id)
    elseif known then
      known.special = known.special or token.special
      return
    end
    local own = {}
    for key, value in next, token do own[key] = value end
    own.id, by_name[name], largest = id, own, math.max(largest, id)
    list[#list + 1] = own
  end
  for _, token in ipairs(says.list) do put(token) end
  for _, name in ipairs(defaults) do
    if ids[name] then put(token_of(name, name, true)) end
  end
  return json.array(list)
end


return added
