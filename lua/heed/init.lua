-- heed: attention and transformers for Lua.
--
-- The module is what C defines (heed.core, documented in heed/meta.lua) with what is written in
-- Lua on top of it (heed.tensor, heed.overload); heed.nn and the like load when first touched.

local core = require "heed.core"

-- Errors are raised at the first line outside this folder.
core.home(debug.getinfo(1, "S").source:match("^(.*[/\\])") or "")

---@class heed
local heed = {core = core, _VERSION = "heed 0.1"}

-- What C defines for the Lua half alone.
local inner = {
  called = true, capture_begin = true, capture_changes = true, capture_end = true,
  capture_replay = true, capture_set_step = true, capture_state = true, crc32 = true, hint = true,
  home = true, methods = true, nearest = true, optim_step = true, raise = true, read_file = true,
  record = true, refuse_option = true, version = true, widen = true, works = true,
  write_file = true,
}
for name, value in pairs(core) do
  if not inner[name] then heed[name] = value end
end


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


-- heed.capture, heed.save and heed.load are functions of a file; the others are files themselves.
local files = {
  capture = "capture", load = "save", nn = "nn", optim = "optim", plot = "plot",
  position = "position", save = "save", tasks = "tasks", train = "train",
}

local function is_installed(module)
  return package.preload[module] or package.searchpath(module, package.path)
end

-- What there is, loaded or not.
local function all_names()
  local names = {}
  for name in pairs(heed) do names[name] = true end
  for name, file in pairs(files) do names[name] = is_installed("heed." .. file) and true end
  return names
end


setmetatable(heed, {
  __index = function(_, name)
    local module = files[name] and "heed." .. files[name]
    if not module then return require("heed.options").refuse_name("heed", name, all_names()) end
    if not is_installed(module) then
      heed.fail("heed: there is no '%s' here: the module %s is not installed", name, module)
    end
    local part = require(module)
    if module == "heed.save" or module == "heed.capture" then part = part[name] end
    heed[name] = part
    return part
  end,
})

package.loaded["heed"] = heed        -- the files below require it
require "heed.tensor"
require "heed.overload"
core.methods = nil                   -- scripts cannot reach the methods of tensors

return heed
