-- Activations as layers, and what options name them by.

local core = require "heed.core"
local extend = require "heed.nn.extend"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local refuse_tensor = require "heed.nn.refuse_tensor"

local no_more = options.no_more

local activations = {}


-- One row for each activation: its layer, the function that it calls, and how many arguments that
-- takes behind x, which the layer is made with.
local ACTIVATIONS = {
  {"ELU", "elu", 1},
  {"GELU", "gelu", 1},
  {"Hardtanh", "hardtanh", 2},
  {"LeakyReLU", "leaky_relu", 1},
  {"LogSigmoid", "logsigmoid", 0},
  {"LogSoftmax", "log_softmax", 1},
  {"Mish", "mish", 0},
  {"ReLU", "relu", 0},
  {"SiLU", "silu", 0},
  {"Sigmoid", "sigmoid", 0},
  {"Softmax", "softmax", 1},
  {"Softplus", "softplus", 2},
  {"Tanh", "tanh", 0},
}

-- The function's argument where a layer is made without one.
local FIRST_ARGUMENT = {LogSoftmax = -1, Softmax = -1}


-- The layer of a function, which refuses at once what the function would: nn.LeakyReLU(0.2).
local function activation_layer(name, f, most)
  local who, call = "nn." .. name, heed[f]
  local Activation = extend(who, {forward = 1})

  function Activation:init(...)
    refuse_tensor(name, f, most > 0 and "..." or "", (...))
    no_more(who, most, select(most + 1, ...))
    local first = FIRST_ARGUMENT[name]
    local given = (...) == nil and first and {first, n = 1} or table.pack(...)
    local any_rank = heed.zeros(1, 1, 1, 1, 1, 1, 1, 1, {device = "cpu"})
    core.called(who, call, any_rank, table.unpack(given, 1, given.n))
    self.arguments = given
  end

  function Activation:forward(x)
    local given = self.arguments
    return call(x, table.unpack(given, 1, given.n))
  end

  function Activation:describe()
    local texts = {}
    for i = 1, self.arguments.n do
      local argument = self.arguments[i]
      texts[i] = type(argument) == "table" and "..." or tostring(argument)
    end
    return table.concat(texts, ", ")
  end

  return Activation
end

---The layers, by the names of their classes.
activations.layers = {}

local by_function = {}             -- the same, by the names of their functions
for _, row in ipairs(ACTIVATIONS) do
  local class = activation_layer(table.unpack(row))
  activations.layers[row[1]], by_function[row[2]] = class, class
end


-- Gated linear units, by the activations of their gates: Shazeer, GLU Variants Improve
-- Transformer, 2020.
local GATED = {geglu = "gelu", glu = "sigmoid", reglu = "relu", swiglu = "silu"}


---The activation of a gate that an option names as a whole, such as "swiglu"; nil for others.
---@param name any
---@return string?
function activations.of_gate(name)
  return GATED[name]
end


---The activation that an option names: "gelu", a function, a layer, or a layer's class.
---@param who string
---@param value any
---@return function
function activations.find(who, value)
  if type(value) ~= "string" then
    local is_class = type(value) == "table" and not Module.is(value) and value.__is_module
    if is_class then value = value() end
    return options.callable(who, "activation", value)
  end
  if by_function[value] then return by_function[value]() end
  local names = options.names(GATED)
  for name in pairs(by_function) do names[#names + 1] = name end
  table.sort(names)
  heed.fail("%s: unknown activation '%s'; %s", who, value, options.hint(value, names))
end


return activations
