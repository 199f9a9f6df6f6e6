-- heed: attention and transformers for Lua.
--
-- The module is what C defines (heed.core, documented in heed/meta.lua) with what is written in
-- Lua on top of it (heed.tensor); heed.nn and the like load when they are first touched.

local core = require "heed.core"

-- Errors blame the first line outside this folder.
core.home(debug.getinfo(1, "S").source:match("^(.*[/\\])") or "")

---@class heed
local heed = {core = core}

-- What C defines for the Lua half alone.
local inner = {
  crc32 = true, home = true, methods = true, optim_step = true, raise = true, read_file = true,
  record = true, widen = true, write_file = true,
}
for name, value in pairs(core) do
  if not inner[name] then heed[name] = value end
end


local format, raise = string.format, core.raise

---Raises an error that blames the first line outside heed's own Lua.
---@param message string a format, where more arguments follow
---@param ... any
function heed.fail(message, ...)
  if select("#", ...) > 0 then message = format(message, ...) end
  raise(message)
end


-- heed.save and heed.load live in one file; the others are files of their own name.
local homes = {
  load = "save", nn = "nn", optim = "optim", plot = "plot", position = "position", save = "save",
  tasks = "tasks", train = "train",
}

setmetatable(heed, {
  __index = function(_, name)
    local home = homes[name] and "heed." .. homes[name]
    if not home or not (package.preload[home] or package.searchpath(home, package.path)) then
      return nil
    end
    local part = require(home)
    if home == "heed.save" then part = part[name] end
    heed[name] = part
    return part
  end,
})

package.loaded["heed"] = heed        -- the files below require it
require "heed.tensor"
core.methods = nil                   -- scripts cannot reach the methods of tensors

return heed
