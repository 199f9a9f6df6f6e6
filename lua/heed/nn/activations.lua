-- Activations as layers, and what options name them by.

local core = require "heed.core"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local refuse_tensor = require "heed.nn.refuse_tensor"
local torch_names = require "heed.internal.torch_names"

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


-- Tables that were found to be a layer's arguments.
local lists = setmetatable({}, {__mode = "k"})

local function list_of(layer)
  local list = field.table(layer, "arguments", "a list of arguments")
  lists[list] = true
  return list
end


-- By how many arguments a function takes behind x: the method `forward` of its layer.
local forwards = {
  [0] = function(call)
    return function(_, x) return call(x) end
  end,
  function(call)
    return function(self, x)
      local given = self.arguments
      if not lists[given] then list_of(self) end
      return call(x, given[1])
    end
  end,
  function(call)
    return function(self, x)
      local given = self.arguments
      if not lists[given] then list_of(self) end
      return call(x, given[1], given[2])
    end
  end,
}


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
    list_of(self)
  end

  Activation.forward = forwards[most](call)

  function Activation:describe()
    local texts, given = {}, list_of(self)
    for i = 1, options.last(given) do
      local argument = given[i]
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
    local is_class = type(value) == "table" and not Module.is(value)
                     and rawget(value, "__is_module")
    if is_class then value = value() end
    return options.callable(who, "activation", value)
  end
  if by_function[value] then return by_function[value]() end
  local names = options.names(GATED)
  for name in pairs(by_function) do names[#names + 1] = name end
  table.sort(names)
  local written = torch_names.activations[value]
  if written then heed.fail("%s: unknown activation '%s'; write %s", who, value, written) end
  heed.fail("%s: unknown activation '%s'; %s", who, value, options.hint(value, names))
end


return activations
