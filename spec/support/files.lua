-- Files as whole texts, for specs and tools.

local files = {}


---@param path string
---@return string? text nil where there is no such file
function files.read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read("a")
end


---@param path string
---@param text string
function files.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end


return files
