-- heed.nn: modules, layers and attention.
--
--   local nn = require "heed.nn"
--   local model = nn.Sequential{nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)}
--   print(model)

local nn = {}

local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local torch_names = require "heed.internal.torch_names"

nn.Module = require "heed.nn.module"
nn.Parameter = parameter.Parameter
nn.Buffer = parameter.Buffer
nn.Cache = require "heed.nn.cache"
nn.init = require "heed.nn.initialise"

for name, class in pairs(require("heed.nn.activations").layers) do nn[name] = class end

for _, file in ipairs{
  "heed.nn.layers", "heed.nn.attention", "heed.nn.list", "heed.nn.lora", "heed.nn.mlp",
  "heed.nn.patches", "heed.nn.pool", "heed.nn.quantize", "heed.nn.torch", "heed.nn.transformer",
} do
  for name, value in pairs(require(file)) do nn[name] = value end
end


return options.strict("heed.nn", nn, torch_names.nn)
