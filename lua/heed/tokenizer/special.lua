-- The tokens that have a part of their own, such as the one that texts are padded with: which they
-- are, by the files of a model's directory.

local core = require "heed.core"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local special = {}

---The parts that a token may have.
special.PARTS = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"}

-- The files that name them, by what they are in tables of `special.files`.
local FILES <const> = {config = "tokenizer_config.json", map = "special_tokens_map.json"}


---@class heed.tokenizer.files
---@field config table what tokenizer_config.json has; empty where there is none
---@field map table what special_tokens_map.json has

local function decoded(text)
  local value, why = json.decode(text)
  if why then refuse.with("%s", why) end
  if type(value) ~= "table" or json.is_array(value) then refuse.with("a table expected") end
  return value
end


---Reads the files of a folder that name special tokens, each once.
---@param folder string
---@return heed.tokenizer.files
function special.files(folder)
  local files = {}
  for name, file in pairs(FILES) do
    local path = folder .. "/" .. file
    local value, why = refuse.try(decoded, core.read_file(path) or "{}")
    files[name] = value or refuse.with("%s: %s", path, why)
  end
  return files
end


-- The name of a token: a text, or a table with its content.
local function name_of(value, part)
  if value == nil or rawequal(value, json.null) then return nil end
  if type(value) == "table" then value = value.content end
  if type(value) ~= "string" then refuse.with("a token expected as %s_token", part) end
  return value
end


-- Adds the tokens of a file that another one did not name.
local function take(config, names)
  for _, part in ipairs(special.PARTS) do
    names[part] = names[part] or name_of(config[part .. "_token"], part)
  end
  return names
end


---The names of a folder's special tokens, by their parts.
---@param folder string
---@param files heed.tokenizer.files of the folder
---@param names table<string, string> those of files that have none; tokenizer.json's
---@return table<string, string>
function special.names(folder, files, names)
  local found = {}
  for _, name in ipairs{"config", "map"} do
    local _, why = refuse.try(take, files[name], found)
    if why then refuse.with("%s/%s: %s", folder, FILES[name], why) end
  end
  for part, name in pairs(names) do found[part] = found[part] or name end
  return found
end


return special
