-- heed: attention and transformers for Lua.
--
-- The module is what C makes public (core.public, documented in heed/meta.lua) with what is written
-- in Lua on top of it (heed/internal); heed.nn and the like load when first touched.
-- The fields of heed.core itself are C's functions for the Lua half alone.

-- This file is also read by those that it refuses: no syntax here that Lua 5.1 lacks.
if _VERSION ~= "Lua 5.4" then
  error("heed needs Lua 5.4, this is " .. (_G.jit and _G.jit.version or _VERSION), 0)
end

local core = require "heed.core"

core.home()                          -- errors are raised at the first line outside this folder

local heed = require "heed.internal.surface"
local options = require "heed.internal.options"
local shown = require "heed.internal.shown"
local torch_names = require "heed.internal.torch_names"

heed._VERSION = "heed 0.1"


-- Parts that are files, and functions with the file that returns them in a table.
local parts = {
  bias = "bias", constrain = "constrain", data = "data", mask = "mask", models = "models",
  nn = "nn", optim = "optim", plot = "plot", position = "position", search = "search",
  tasks = "tasks", tokenizer = "tokenizer", train = "train",
}
local functions = {
  accuracy = "data", capture = "capture", confusion_matrix = "data", f1 = "data",
  generate = "generate", help = "help", load = "save", perplexity = "data", precision = "data",
  profile = "profile", quantize = "quantize", recall = "data", sample = "generate", save = "save",
}

-- The names of all parts and functions, loaded or not.
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
      return options.refuse_name("heed", name, all_names(), torch_names.heed)
    end
    local part = require("heed." .. file)
    if functions[name] then part = part[name] end
    heed[name] = part
    return part
  end,
  __tostring = function() return shown.heed(parts) end,
})

require "heed.internal.tensor"
require "heed.internal.custom"
require "heed.internal.overload"
require "heed.internal.attention"
require "heed.internal.compositions"
require "heed.internal.names"
core.methods = nil                   -- scripts cannot reach the methods of tensors

return heed
