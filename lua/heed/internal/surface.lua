-- The table `heed` with what C defines and `fail` alone. The files that heed/init.lua is assembled
-- from take it from here; all other files require "heed", where it is complete.

local core = require "heed.core"

---@class heed
local heed = {core = core}

for name, value in pairs(core.public) do heed[name] = value end


local format, raise = string.format, core.raise

---Raises an error at the first line outside heed's own Lua.
---@param message string a format, where more arguments follow
---@param ... any
function heed.fail(message, ...)
  if type(message) ~= "string" and type(message) ~= "number" then
    raise("fail: a string expected as message, got " .. type(message))
  end
  if select("#", ...) > 0 then message = format(message, ...) end
  raise(message)
end


return heed
