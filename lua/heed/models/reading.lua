-- JSON files of a model's directory, of which each may be missing.

local core = require "heed.core"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local reading = {}


---A copy of an object, less its members that are null.
---@param object table
---@return table
function reading.without_nulls(object)
  local own = {}
  for name, value in next, object do
    if not rawequal(value, json.null) then own[name] = value end
  end
  return own
end


---Refuses a path that names no folder: that of a file, or of nothing that is here.
---@param path string
---@param what string is wanted, for messages
function reading.check_folder(path, what)
  local file <close>, _, missing = core.open_file(path)
  if file then refuse.with("%s expected, got that of a file", what) end
  if not missing then return end
  refuse.with("there is no such folder; nothing is downloaded%s",
              path:sub(1, 1) == "~" and ", and '~' is a name as any other" or "")
end


---Reads a file that holds an object, or a list where that is wanted. What is null in an object is
---left out unless `whole`.
---@param path string
---@param name string of the file
---@param is_list? boolean
---@param whole? boolean
---@return table? value nil where there is no such file
function reading.json(path, name, is_list, whole)
  local text, why, missing = core.read_file(path .. "/" .. name)
  if not text then
    if missing then return nil end
    refuse.with("%s", why)
  end
  local value, message = json.decode(text)
  if value == nil then refuse.with("%s: %s", name, message) end
  if type(value) == "table" and json.is_array(value) == (is_list or false) then
    return (is_list or whole) and value or reading.without_nulls(value)
  end
  refuse.with("%s: %s expected", name, is_list and "a list" or "an object")
end


return reading
