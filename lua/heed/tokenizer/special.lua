-- The tokens that have a part of their own, such as the one that texts are padded with: which they
-- are, by the files of a model's directory.

local core = require "heed.core"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local special = {}

---The parts that a token may have.
special.PARTS = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"}

local FILES <const> = {"tokenizer_config.json", "special_tokens_map.json"}


-- The name of a token: a text, or a table with its content.
local function name_of(value, part)
  if value == nil or rawequal(value, json.null) then return nil end
  if type(value) == "table" then value = value.content end
  if type(value) ~= "string" then refuse.with("a token expected as %s_token", part) end
  return value
end


-- Adds the tokens of a file that another one did not name.
local function take(text, names)
  local config, why = json.decode(text)
  if why then refuse.with("%s", why) end
  if type(config) ~= "table" or json.is_array(config) then refuse.with("a table expected") end
  for _, part in ipairs(special.PARTS) do
    names[part] = names[part] or name_of(config[part .. "_token"], part)
  end
  return names
end


---The names of a folder's special tokens, by their parts.
---@param folder string
---@param names table<string, string> those of files that have none; tokenizer.json's
---@return table<string, string>? names
---@return string? message
function special.read(folder, names)
  local found = {}
  for _, file in ipairs(FILES) do
    local path = folder .. "/" .. file
    local text = core.read_file(path)
    local _, why = refuse.try(take, text or "{}", found)
    if why then return nil, ("%s: %s"):format(path, why) end
  end
  for part, name in pairs(names) do found[part] = found[part] or name end
  return found
end


return special
