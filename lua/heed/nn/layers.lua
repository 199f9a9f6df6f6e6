-- The layers that are not attention. First weights are drawn as PyTorch draws them: the same
-- distributions, in the same order.

local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.options"
local parameter = require "heed.nn.parameter"

local Parameter = parameter.Parameter
local count, read = options.count, options.read
local dropout, embedding, is_tensor = heed.dropout, heed.embedding, heed.is_tensor
local layer_norm, linear, rms_norm = heed.layer_norm, heed.linear, heed.rms_norm

local layers = {}


local function uniform(t, bound)
  parameter.draw(t, "uniform_", -bound, bound)
end


---y = x W^T + b, over the last dimension.
---@class heed.Linear: heed.Module
---@field weight heed.Tensor (outputs, inputs)
---@field bias heed.Tensor? (outputs)
---@overload fun(inputs: integer, outputs: integer, options?: {bias: boolean}): heed.Linear
local Linear = Module:extend("Linear")
layers.Linear = Linear


---@param inputs integer
---@param outputs integer
---@param given? {bias: boolean}
function Linear:init(inputs, outputs, given)
  inputs = count("nn.Linear", "inputs", inputs, 0)
  outputs = count("nn.Linear", "outputs", outputs, 0)
  local o = read("nn.Linear", given, {bias = true})
  self.weight = Parameter(heed.empty(outputs, inputs))
  if o.bias then self.bias = Parameter(heed.empty(outputs)) end
  self:reset()
end


-- PyTorch's steps, since they round: kaiming_uniform_(weight, a = sqrt(5)), which comes to
-- 1 / sqrt(inputs), and a bias within 1 / sqrt(inputs).
local function first_bounds(inputs)
  local a = math.sqrt(5)
  local gain = math.sqrt(2 / (1 + a ^ 2))
  return math.sqrt(3) * (gain / math.sqrt(inputs)), 1 / math.sqrt(inputs)
end


---Draws the first weights, anew.
function Linear:reset()
  local inputs = self.weight:size(2)
  local weight_bound, bias_bound = 0, 0
  if inputs > 0 then weight_bound, bias_bound = first_bounds(inputs) end
  uniform(self.weight, weight_bound)
  if self.bias then uniform(self.bias, bias_bound) end
end


local function refuse_type(x, wanted)
  if not x.dtype:find("float") then
    heed.fail("nn.Linear: a float type expected as input, got %s; x:to('%s'), or nn.Embedding "
              .. "for ids", x.dtype, wanted)
  end
  heed.fail("nn.Linear: %s expected as input, the type of its weight, got %s; x:to('%s') or "
            .. "model:to('%s')", wanted, x.dtype, wanted, x.dtype)
end


---@param x heed.Tensor (..., inputs)
---@return heed.Tensor y (..., outputs)
function Linear:forward(x)
  local weight = self.weight
  if is_tensor(x) and x.dtype ~= weight.dtype then refuse_type(x, weight.dtype) end
  return linear(x, weight, self.bias)
end


function Linear:describe()
  local outputs, inputs = self.weight:size()
  return ("%d, %d"):format(inputs, outputs)
end


---A row of its table for each id; ids count from 1.
---@class heed.Embedding: heed.Module
---@field weight heed.Tensor (count, dim)
---@overload fun(count: integer, dim: integer): heed.Embedding
local Embedding = Module:extend("Embedding")
layers.Embedding = Embedding


---@param rows integer how many ids there are
---@param dim integer
function Embedding:init(rows, dim, given)
  rows = count("nn.Embedding", "the number of ids", rows)
  dim = count("nn.Embedding", "dim", dim)
  read("nn.Embedding", given, {})
  self.weight = Parameter(heed.empty(rows, dim))
  self:reset()
end


---Draws the first weights, anew.
function Embedding:reset()
  parameter.draw(self.weight, "normal_", 0, 1)
end


---@param ids heed.Tensor (...)
---@return heed.Tensor features (..., dim)
function Embedding:forward(ids)
  return embedding(ids, self.weight)
end


function Embedding:describe()
  return ("%d, %d"):format(self.weight:size())
end


-- The shape that a norm covers: a number, or a list of sizes.
local function normalized_shape(who, shape)
  if type(shape) ~= "table" then return {count(who, "the last dimension", shape)} end
  local sizes = {}
  for i = 1, #shape do sizes[i] = count(who, "size " .. i, shape[i]) end
  if #sizes == 0 then heed.fail("%s: at least one size expected, got none", who) end
  return sizes
end


---Mean 0 and variance 1 over the last dimensions, then a scale and a shift that are learnt.
---@class heed.LayerNorm: heed.Module
---@field weight heed.Tensor?
---@field bias heed.Tensor?
---@overload fun(shape: integer|integer[], options?: heed.LayerNorm.options): heed.LayerNorm
local LayerNorm = Module:extend("LayerNorm")
layers.LayerNorm = LayerNorm


---@class heed.LayerNorm.options
---@field eps? number 1e-5 unless given
---@field bias? boolean true unless given
---@field elementwise_affine? boolean without it there is neither weight nor bias

---@param shape integer|integer[] the last dimension, or several
---@param given? heed.LayerNorm.options
function LayerNorm:init(shape, given)
  local o = read("nn.LayerNorm", given, {eps = 1e-5, bias = true, elementwise_affine = true})
  self.shape = normalized_shape("nn.LayerNorm", shape)
  self.options = {eps = o.eps}
  local affine = o.elementwise_affine
  if affine then self.weight = Parameter(heed.ones(self.shape)) end
  if affine and o.bias then self.bias = Parameter(heed.zeros(self.shape)) end
end


---@param x heed.Tensor (..., shape)
---@return heed.Tensor
function LayerNorm:forward(x)
  return layer_norm(x, self.shape, self.weight, self.bias, self.options)
end


function LayerNorm:describe()
  return table.concat(self.shape, ", ")
end


---Divides by the root of the mean square over the last dimensions; the scale is learnt.
---@class heed.RMSNorm: heed.Module
---@field weight heed.Tensor?
---@overload fun(shape: integer|integer[], options?: heed.RMSNorm.options): heed.RMSNorm
local RMSNorm = Module:extend("RMSNorm")
layers.RMSNorm = RMSNorm


---@class heed.RMSNorm.options
---@field eps? number the type's precision unless given
---@field elementwise_affine? boolean without it there is no weight

---@param shape integer|integer[] the last dimension, or several
---@param given? heed.RMSNorm.options
function RMSNorm:init(shape, given)
  local o = read("nn.RMSNorm", given, {eps = options.any, elementwise_affine = true})
  self.shape = normalized_shape("nn.RMSNorm", shape)
  self.options = {eps = o.eps}
  if o.elementwise_affine then self.weight = Parameter(heed.ones(self.shape)) end
end


---@param x heed.Tensor (..., shape)
---@return heed.Tensor
function RMSNorm:forward(x)
  return rms_norm(x, self.shape, self.weight, self.options)
end

RMSNorm.describe = LayerNorm.describe


---While training, drops each element with probability p and scales up the others.
---@class heed.Dropout: heed.Module
---@field p number
---@overload fun(p?: number): heed.Dropout
local Dropout = Module:extend("Dropout")
layers.Dropout = Dropout


---@param p? number 0.5 unless given
function Dropout:init(p)
  self.p = options.probability("nn.Dropout", "p", p == nil and 0.5 or p)
end


---@param x heed.Tensor
---@return heed.Tensor
function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return dropout(x, self.p)
end


function Dropout:describe()
  return tostring(self.p)
end


---One after the other: each layer gets the first value of the one before. `seq[1]` is the first.
---@class heed.Sequential: heed.Module
---@overload fun(layers: function[]): heed.Sequential
local Sequential = Module:extend("Sequential")
layers.Sequential = Sequential


---@param list function[] modules, or functions such as `heed.relu`
function Sequential:init(list, ...)
  if type(list) ~= "table" or Module.is(list) or select("#", ...) > 0 then
    heed.fail("nn.Sequential: one list of layers expected, as in nn.Sequential{a, b}, got %s",
              options.kind(list))
  end
  for i = 1, options.last(list) do
    self[i] = options.callable("nn.Sequential", "layer " .. i, list[i])
  end
end


---@param x any
---@return any
function Sequential:forward(x)
  for i = 1, #self do x = self[i](x) end
  return x
end


-- One row for each activation: its layer and the function that it calls.
local ACTIVATIONS = {
  ELU = "elu",
  GELU = "gelu",
  Hardtanh = "hardtanh",
  LeakyReLU = "leaky_relu",
  LogSigmoid = "logsigmoid",
  LogSoftmax = "log_softmax",
  Mish = "mish",
  ReLU = "relu",
  SiLU = "silu",
  Sigmoid = "sigmoid",
  Softmax = "softmax",
  Softplus = "softplus",
  Tanh = "tanh",
}

-- What is passed on where nothing is given.
local FIRST_ARGUMENT = {LogSoftmax = -1, Softmax = -1}


-- The layer of a function; what it is made with is passed on: nn.LeakyReLU(0.2).
local function activation_layer(name, f)
  local Activation = Module:extend(name)

  function Activation:init(...)
    self.arguments = {...}
    if #self.arguments == 0 then self.arguments[1] = FIRST_ARGUMENT[name] end
  end

  function Activation:forward(x)
    return f(x, table.unpack(self.arguments))
  end

  function Activation:describe()
    local texts = {}
    for i, argument in ipairs(self.arguments) do
      texts[i] = type(argument) == "table" and "..." or tostring(argument)
    end
    return table.concat(texts, ", ")
  end

  return Activation
end

for name, f in pairs(ACTIVATIONS) do layers[name] = activation_layer(name, heed[f]) end


---The activation that an option names: "gelu", a function, a layer, or a layer's class.
---@param who string
---@param value any
---@return function
local function activation(who, value)
  if type(value) ~= "string" then
    if type(value) == "table" and not Module.is(value) and value.is_module then value = value() end
    return options.callable(who, "activation", value)
  end
  for name, f in pairs(ACTIVATIONS) do
    if f == value then return layers[name]() end
  end
  local names = {}
  for _, f in pairs(ACTIVATIONS) do names[#names + 1] = f end
  table.sort(names)
  heed.fail("%s: unknown activation '%s'; %s", who, value, options.hint(value, names))
end


---The feed-forward block of a transformer: wider, an activation, and back.
---@class heed.MLP: heed.Module
---@field up heed.Linear
---@field down heed.Linear
---@overload fun(dim: integer, hidden: integer, options?: table): heed.MLP
local MLP = Module:extend("MLP")
layers.MLP = MLP


---@param dim integer
---@param hidden integer
---@param given? {activation: string|function, bias: boolean, dropout: number, out_dim: integer}
---"relu", true, 0 and `dim` unless given
function MLP:init(dim, hidden, given)
  local o = read("nn.MLP", given, {
    activation = options.any, bias = true, dropout = 0, out_dim = options.any,
  })
  self.up = Linear(count("nn.MLP", "dim", dim), count("nn.MLP", "hidden", hidden), {bias = o.bias})
  self.activation = activation("nn.MLP", o.activation == nil and "relu" or o.activation)
  self.dropout = Dropout(options.probability("nn.MLP", "dropout", o.dropout))
  self.down = Linear(hidden, count("nn.MLP", "out_dim", o.out_dim or dim), {bias = o.bias})
end


---@param x heed.Tensor (..., dim)
---@return heed.Tensor y (..., out_dim)
function MLP:forward(x)
  return self.down(self.dropout(self.activation(self.up(x))))
end


return layers
