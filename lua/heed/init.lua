-- heed: attention and transformers for Lua.
--
-- The module is what C makes public (core.public, documented in heed/meta.lua) with what is written
-- in Lua on top of it (heed.tensor, heed.overload); heed.nn and the like load when first touched.
-- The fields of heed.core itself are C's functions for the Lua half alone.

-- This file is also read by those that it refuses: no syntax here that Lua 5.1 lacks.
if tonumber(_VERSION:match("%d+%.%d+")) < 5.4 then
  error("heed needs Lua 5.4, this is " .. (_G.jit and _G.jit.version or _VERSION), 0)
end

local core = require "heed.core"

core.home()                          -- errors are raised at the first line outside this folder

---@class heed
local heed = {core = core, _VERSION = "heed 0.1"}

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


-- Parts that are files, and functions with the file that returns them in a table.
local parts = {
  bias = "bias", data = "data", mask = "mask", nn = "nn", optim = "optim", plot = "plot",
  position = "position", tasks = "tasks", train = "train",
}
local functions = {
  accuracy = "data", capture = "capture", generate = "generate", help = "help", load = "save",
  sample = "generate", save = "save",
}

-- What there is, loaded or not.
local function all_names()
  local names = {}
  for name in pairs(heed) do names[name] = true end
  for name in pairs(parts) do names[name] = true end
  for name in pairs(functions) do names[name] = true end
  return names
end


setmetatable(heed, {
  __index = function(_, name)
    local file = parts[name] or functions[name]
    if not file then
      return require("heed.options").refuse_name("heed", name, all_names(),
                                                 require("heed.torch_names").heed)
    end
    local part = require("heed." .. file)
    if functions[name] then part = part[name] end
    heed[name] = part
    return part
  end,
  __tostring = function() return require("heed.shown").heed(parts) end,
})

package.loaded["heed"] = heed        -- the files below require it
require "heed.tensor"
require "heed.overload"
require "heed.attention"
require "heed.compositions"
require "heed.names"
require "heed.shown"
core.methods = nil                   -- scripts cannot reach the methods of tensors

return heed
