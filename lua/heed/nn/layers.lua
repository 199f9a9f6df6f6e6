-- The layers that are not attention. First weights are drawn as PyTorch draws them: the same
-- distributions, in the same order. An optional part that a layer lacks, such as its bias, is
-- false.

local core = require "heed.core"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local refuse_tensor = require "heed.nn.refuse_tensor"

local Parameter = parameter.Parameter
local count, no_more, read = options.count, options.no_more, options.read
local dropout, embedding, is_tensor = heed.dropout, heed.embedding, heed.is_tensor
local layer_norm, linear, rms_norm = heed.layer_norm, heed.linear, heed.rms_norm
local known, serves = part.known, core.serves

local layers = {}


local function uniform(t, bound)
  parameter.draw(t, "uniform_", -bound, bound)
end


---y = x W^T + b, over the last dimension.
---@class heed.Linear: heed.Module
---@field weight heed.Tensor (outputs, inputs)
---@field bias heed.Tensor|false (outputs)
---@overload fun(inputs: integer, outputs: integer, options?: {bias: boolean}): heed.Linear
local Linear = extend("nn.Linear", {init = 3, forward = 1})
layers.Linear = Linear


---@param inputs integer
---@param outputs integer
---@param given? {bias: boolean}
function Linear:init(inputs, outputs, given)
  inputs = count("nn.Linear", "inputs", inputs, 0)
  outputs = count("nn.Linear", "outputs", outputs, 0)
  local o = read("nn.Linear", given, {bias = true})
  self.weight = parameter.empty(outputs, inputs)
  self.bias = o.bias and Parameter(heed.empty(outputs))
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
  local weight, bias = field.tensor(self, "weight"), self.bias and field.tensor(self, "bias")
  local inputs = weight:size(2)
  local weight_bound, bias_bound = first_bounds(inputs)
  if inputs > 0 then uniform(weight, weight_bound) end
  if bias then uniform(bias, inputs > 0 and bias_bound or 0) end
end


-- Within heed.autocast, linear converts floats itself.
local function refuse_type(x, wanted)
  if not x.dtype:find("float") then
    heed.fail("nn.Linear: a float type expected as input, got %s; x:to('%s'), or nn.Embedding "
              .. "for ids", x.dtype, wanted)
  end
  if heed.autocast_dtype() then return end
  heed.fail("nn.Linear: %s expected as input, the type of its weight, got %s; x:to('%s') or "
            .. "model:to('%s')", wanted, x.dtype, wanted, x.dtype)
end


---@param x heed.Tensor (..., inputs)
---@return heed.Tensor y (..., outputs)
function Linear:forward(x)
  local weight = self.weight
  if not serves(weight, x) and is_tensor(x) then
    refuse_type(x, field.tensor(self, "weight").dtype)
  end
  return linear(x, weight, self.bias or nil)
end


function Linear:describe()
  local outputs, inputs = field.matrix(self, "weight"):size()
  return ("%d, %d"):format(inputs, outputs)
end


---A row of its table for each id; ids count from 1.
---@class heed.Embedding: heed.Module
---@field weight heed.Tensor (count, dim)
---@overload fun(rows: integer, dim: integer): heed.Embedding
local Embedding = extend("nn.Embedding", {init = 3, forward = 1})
layers.Embedding = Embedding
Embedding.gives_rows = true                     -- of its weight: see heed.nn.rows


---@param rows integer how many ids there are
---@param dim integer
function Embedding:init(rows, dim, given)
  rows = count("nn.Embedding", "the number of ids", rows)
  dim = count("nn.Embedding", "dim", dim)
  read("nn.Embedding", given, {})
  self.weight = parameter.empty(rows, dim)
  self:reset()
end


---Draws the first weights, anew.
function Embedding:reset()
  parameter.draw(field.tensor(self, "weight"), "normal_", 0, 1)
end


---@param ids heed.Tensor (...)
---@return heed.Tensor features (..., dim)
function Embedding:forward(ids)
  return embedding(ids, self.weight)
end


function Embedding:describe()
  return ("%d, %d"):format(field.matrix(self, "weight"):size())
end


-- The shape that a norm covers: a number, or a list of sizes.
local function normalized_shape(who, shape)
  if type(shape) ~= "table" then return {count(who, "the last dimension", shape)} end
  options.check_list(who, shape)
  local sizes = {}
  for i = 1, #shape do sizes[i] = count(who, "size " .. i, shape[i]) end
  if #sizes == 0 then heed.fail("%s: at least one size expected, got none", who) end
  return sizes
end


---Mean 0 and variance 1 over the last dimensions, then a scale and a shift that are learnt.
---@class heed.LayerNorm: heed.Module
---@field weight heed.Tensor|false
---@field bias heed.Tensor|false
---@overload fun(shape: integer|integer[], options?: heed.LayerNorm.options): heed.LayerNorm
local LayerNorm = extend("nn.LayerNorm", {init = 2, forward = 1})
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
  self.options = {eps = options.positive("nn.LayerNorm", "eps", o.eps)}
  self.weight = o.elementwise_affine and Parameter(heed.ones(self.shape))
  self.bias = o.elementwise_affine and o.bias and Parameter(heed.zeros(self.shape))
end


---@param x heed.Tensor (..., shape)
---@return heed.Tensor
function LayerNorm:forward(x)
  return layer_norm(x, self.shape, self.weight or nil, self.bias or nil, self.options)
end


local function sizes_of(norm)
  local shape, sizes = field.table(norm, "shape", "a list of sizes"), {}
  for i = 1, #shape do
    sizes[i] = count(norm.__kin, ("size %d of field 'shape'"):format(i), shape[i])
  end
  return table.concat(sizes, ", ")
end

LayerNorm.describe = sizes_of


---Divides by the root of the mean square over the last dimensions; the scale is learnt.
---@class heed.RMSNorm: heed.Module
---@field weight heed.Tensor|false
---@field plus_one boolean whether the scale is 1 + weight
---@overload fun(shape: integer|integer[], options?: heed.RMSNorm.options): heed.RMSNorm
local RMSNorm = extend("nn.RMSNorm", {init = 2, forward = 1})
layers.RMSNorm = RMSNorm


---@class heed.RMSNorm.options
---@field eps? number the type's precision unless given
---@field elementwise_affine? boolean without it there is no weight
---@field plus_one? boolean the scale is 1 + weight, which begins as 0: Gemma's; 16-bit types are
---scaled in float32 then

---@param shape integer|integer[] the last dimension, or several
---@param given? heed.RMSNorm.options
function RMSNorm:init(shape, given)
  local o = read("nn.RMSNorm", given, {
    eps = options.any, elementwise_affine = true, plus_one = false,
  })
  if o.plus_one and not o.elementwise_affine then
    heed.fail("nn.RMSNorm: option plus_one: there is no weight with elementwise_affine = false")
  end
  self.shape = normalized_shape("nn.RMSNorm", shape)
  self.options = {eps = o.eps ~= nil and options.positive("nn.RMSNorm", "eps", o.eps) or nil}
  local first = o.plus_one and heed.zeros or heed.ones
  self.weight = o.elementwise_affine and Parameter(first(self.shape))
  self.bias = false                -- as in a LayerNorm, for models that take either
  self.plus_one = o.plus_one
end


-- x normed and times 1 + weight, without rounding between.
local function scaled_past_one(self, x)
  local wide = x.dtype == "float64" and "float64" or "float32"
  local weight = field.tensor(self, "weight"):to(wide) + 1
  return rms_norm(x:to(wide), self.shape, weight, self.options):to(x.dtype)
end


---@param x heed.Tensor (..., shape)
---@return heed.Tensor
function RMSNorm:forward(x)
  if self.plus_one and is_tensor(x) then return scaled_past_one(self, x) end
  return rms_norm(x, self.shape, self.weight or nil, self.options)
end

RMSNorm.describe = sizes_of


---Its input, unchanged: in the place of a layer that a model may lack.
---@class heed.Identity: heed.Module
---@overload fun(): heed.Identity
local Identity = extend("nn.Identity", {forward = 1})
layers.Identity = Identity


---@generic T
---@param x T
---@return T
function Identity:forward(x)
  return x
end


---While training, drops each element with probability p and scales up the others.
---@class heed.Dropout: heed.Module
---@field p number
---@overload fun(p?: number): heed.Dropout
local Dropout = extend("nn.Dropout", {forward = 1})
layers.Dropout = Dropout


---@param p? number 0.5 unless given
function Dropout:init(p, ...)
  no_more("nn.Dropout", 1, ...)
  refuse_tensor("Dropout", "dropout", "...", p)
  self.p = options.probability("nn.Dropout", "p", p == nil and 0.5 or p)
end


---@param x heed.Tensor
---@return heed.Tensor
function Dropout:forward(x)
  if self.p == 0 or not field.trains(self) then return x end
  return dropout(x, self.p)
end


function Dropout:describe()
  return tostring(self.p)
end


---One after the other: each layer gets the first value of the one before; further arguments of a
---call, such as options, go to the first layer, which is `seq[1]`.
---@class heed.Sequential: heed.Module
---@overload fun(list: function[]): heed.Sequential
local Sequential = extend("nn.Sequential", {})
layers.Sequential = Sequential


---@param list function[] modules, or functions such as `heed.relu`
function Sequential:init(list, ...)
  if type(list) ~= "table" or Module.is(list) then
    heed.fail("nn.Sequential: one list of layers expected, as in nn.Sequential{a, b}, got %s",
              options.kind(list))
  end
  no_more("nn.Sequential", 1, ...)
  options.check_list("nn.Sequential", list)
  for i = 1, options.last(list) do
    self[i] = options.callable("nn.Sequential", "layer " .. i, list[i])
  end
end


---@param x any
---@param ... any
---@return any
function Sequential:forward(x, ...)
  local n = #self
  if n == 0 then
    no_more("nn.Sequential", 1, ...)
    return x
  end
  local layer = self[1]
  if not known[layer] then part.at("nn.Sequential", self, 1) end
  x = layer(x, ...)
  for i = 2, n do
    layer = self[i]
    if not known[layer] then part.at("nn.Sequential", self, i) end
    x = layer(x)
  end
  return x
end


return layers
