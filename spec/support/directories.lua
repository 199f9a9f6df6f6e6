-- Directories of models for specs: the tiny ones of spec/golden/models, changed.

local json = require "heed.files.json"

local directories = {HERE = "spec/golden/models/"}

local HERE <const> = directories.HERE


---@param path string
---@return string
function directories.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end


---@param path string
---@param text string
function directories.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end


---A path that is free, and is removed when it is closed.
---@return {path: string}
function directories.free()
  local path = os.tmpname()
  assert(os.remove(path))
  return setmetatable({path = path}, {__close = function() os.execute("rm -rf " .. path) end})
end


---A directory of its own with the files of a model, which is gone when it is closed.
---@param from string the model
---@param files? table<string, string> the model's files by their names here
---@param change? fun(c: table): table? gets and may give its configuration
---@return {path: string}
function directories.make(from, files, change)
  local path = os.tmpname()
  assert(os.remove(path))
  assert(os.execute("mkdir " .. path))
  files = files or {["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors"}
  for name, source in pairs(files) do
    directories.write(path .. "/" .. name, directories.read(HERE .. from .. "/" .. source))
  end
  if change then
    local c = assert(json.decode(directories.read(path .. "/config.json")))
    directories.write(path .. "/config.json", json.encode(change(c) or c))
  end
  return setmetatable({path = path}, {__close = function()
    assert(os.execute("rm -r " .. path))
  end})
end


return directories
