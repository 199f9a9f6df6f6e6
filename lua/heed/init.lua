-- heed: attention and transformers for Lua.
--
-- The module is what C defines (heed.core, documented in heed/meta.lua) with what is written in
-- Lua on top of it (heed.tensor, heed.overload); heed.nn and the like load when first touched.

local core = require "heed.core"

-- Errors blame the first line outside this folder.
core.home(debug.getinfo(1, "S").source:match("^(.*[/\\])") or "")

---@class heed
local heed = {core = core, _VERSION = "heed 0.1"}

-- What C defines for the Lua half alone.
local inner = {
  capture_begin = true, capture_end = true, crc32 = true, graph_changes = true,
  graph_state = true, home = true, methods = true, optim_step = true, raise = true,
  read_file = true, record = true, replay = true, replay_step = true, version = true, widen = true,
  works = true, write_file = true,
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


-- heed.capture, heed.save and heed.load are functions of a file; the others are files themselves.
local homes = {
  capture = "capture", load = "save", nn = "nn", optim = "optim", plot = "plot",
  position = "position", save = "save", tasks = "tasks", train = "train",
}

local function is_there(file)
  return package.preload[file] or package.searchpath(file, package.path)
end

-- What there is, loaded or not.
local function all_names()
  local names = {}
  for name in pairs(heed) do names[name] = true end
  for name, home in pairs(homes) do names[name] = is_there("heed." .. home) and true end
  return names
end


setmetatable(heed, {
  __index = function(_, name)
    local home = homes[name] and "heed." .. homes[name]
    if not home then return require("heed.options").refuse_name("heed", name, all_names()) end
    if not is_there(home) then
      heed.fail("heed: there is no '%s' here: the module %s is not installed", name, home)
    end
    local part = require(home)
    if home == "heed.save" or home == "heed.capture" then part = part[name] end
    heed[name] = part
    return part
  end,
})

package.loaded["heed"] = heed        -- the files below require it
require "heed.tensor"
require "heed.overload"
core.methods = nil                   -- scripts cannot reach the methods of tensors

return heed
