-- Stacks of transformer layers, and the whole: Vaswani et al., Attention Is All You Need, 2017.

local core = require "heed.core"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local freeing = require "heed.nn.freeing"
local MultiHeadAttention = require "heed.nn.multihead"
local block = require "heed.nn.block"
local call = require "heed.nn.block_call"
local recording = require "heed.internal.recording"
local initialise = require "heed.nn.initialise"
local Linear = require("heed.nn.layers").Linear
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local torch_names = require "heed.internal.torch_names"

local any, count, joined = options.any, options.count, block.joined

local transformer = {EncoderLayer = block.EncoderLayer, DecoderLayer = block.DecoderLayer}


-- Layers one upon the other: the base class of Encoder and Decoder.
local Stack = extend("nn.Stack", {})

local STACK = {each = any, final_norm = any, hidden = any, layer_dropout = 0}
local ENCODER, DECODER = joined(block.ENCODER_LAYER, STACK), joined(block.DECODER_LAYER, STACK)


local MODULE <const> = 2048                  -- bytes of a module beside its tensors, roughly

-- About how many bytes a layer takes.
local function bytes_of(layer)
  local bytes = 0
  for _ in layer:named_modules() do bytes = bytes + MODULE end
  return bytes + 4 * layer:numel()
end


-- Gives layer i the weights of the first, which are of the same names and sizes.
local function copy_into(who, layer, first, i)
  local state = first:state()
  local problems = layer:compare(state)
  if #problems > 0 then
    heed.fail("%s: option each: weights as those of layer 1 expected in layer %d, but of those %s",
              who, i, problems[1])
  end
  layer:load_state(state)
end


-- Layers that begin as copies of the first: nobody but the first draws weights, as in PyTorch.
local function copies(who, n, make)
  local list = {make(1)}
  core.check_room(who, (n - 1.0) * bytes_of(list[1]), ("a stack of %d layers"):format(n))
  core.with_generators({rng = heed.rng_state()}, function()
    for i = 2, n do
      list[i] = make(i)
      if not parameter.is_hollow() then copy_into(who, list[i], list[1], i) end
    end
  end)
  return list
end


-- Whether a norm follows the last layer.
local function wants_norm(who, o)
  if o.final_norm == nil then return o.norm ~= "post" end
  if type(o.final_norm) == "boolean" then return o.final_norm end
  heed.fail("%s: a boolean expected as option final_norm, got %s", who, options.kind(o.final_norm))
end


-- The options of layer i: those of all, and those that option each gives.
local function options_of(who, given, each, i)
  if each == nil then return given end
  local own = options.callable(who, "option each", each)(i)
  if own == nil then return given end
  if type(own) == "table" then return joined(given, own) end
  heed.fail("%s: a table of options expected from option each, got %s", who, options.kind(own))
end


local function build(self, who, LayerClass, dim, heads, n, o)
  self.dim, self.heads, self.cross = dim, heads, o.cross or false
  local given = joined(o)
  for name in pairs(STACK) do given[name] = nil end
  self.layers = copies(who, count(who, "layers", n), function(i)
    return LayerClass(dim, heads, o.hidden, options_of(who, given, o.each, i))
  end)
  self.norm = wants_norm(who, o) and block.new_norm(who, dim, o)
  self.layer_dropout = options.probability(who, "layer_dropout", o.layer_dropout)
end


-- A layer that is left out would not know what the cache holds.
local function check_cache(self, o)
  if o.cache == nil or self.layer_dropout == 0 or not field.trains(self) then return end
  heed.fail("nn.%s: option cache: not with layer_dropout while training; write model:eval()",
            self.__name)
end


-- Weights of attention that are 0 where a GPU drops their layer.
local function unless_dropped(dropped, weights)
  return heed.is_tensor(weights) and weights:masked_fill(dropped, 0) or weights
end


-- A layer's results, or x where the layer is dropped: LayerDrop, Fan et al. 2020. A GPU decides for
-- itself. A replay can't leave out a layer's gradients and random numbers, as the CPU does.
local function call_layer(self, layer, x, ...)
  local p = self.layer_dropout
  if p ~= 0 then
    field.probability(self, "layer_dropout")
    if not field.trains(self) then p = 0 end
  end
  if p == 0 or not heed.is_tensor(x) then return freeing.call(layer, x, ...) end
  if recording.running() and x.device == "cpu" then
    heed.fail("nn.%s: layer_dropout while training cannot be captured on the CPU: set it to 0, or "
              .. "write model:eval()", self.__name)
  end
  local drawn = heed.rand(1, {device = x.device})
  if x.device == "cpu" then
    if drawn:item() < p then return x, false, false end
    return layer(x, ...)
  end
  local y, weights, cross_weights = layer(x, ...)
  local dropped = drawn:lt(p)
  return heed.where(dropped, x, y), unless_dropped(dropped, weights),
         unless_dropped(dropped, cross_weights)
end


-- The layers, or what a program put in their place.
local function list_of(self)
  local who = "nn." .. self.__name
  if type(self.layers) ~= "table" then
    heed.fail("%s: a list of layers expected as field 'layers', got %s", who,
              options.kind(self.layers))
  end
  for i, layer in ipairs(self.layers) do
    if not Module.is(layer) then options.callable(who, "layer " .. i, layer) end
  end
  return self.layers
end


-- The features after all layers, and with option weights a list for each attention of a layer.
local function run(self, x, o, ...)
  check_cache(self, o)
  local weights, cross_weights = {}, {}
  for i, layer in ipairs(list_of(self)) do
    x, weights[i], cross_weights[i] = call_layer(self, layer, x, ...)
  end
  if self.norm then x = part.of("nn." .. self.__name, self, "norm")(x) end
  if self.cross then return call.results(x, o, weights, cross_weights) end
  return call.results(x, o, weights)
end


function Stack:describe()
  return ("%d, %d, %d"):format(field.count(self, "dim"), field.count(self, "heads"),
                               #field.table(self, "layers", "a list of layers"))
end


---Encoder layers one upon the other; a norm at the end unless their norms are post.
---@class heed.Encoder: heed.Module
---@field layers heed.EncoderLayer[]
---@field norm heed.Module|false
---@overload fun(dim: integer, heads: integer, layers: integer, options?: table): heed.Encoder
local Encoder = extend("nn.Encoder", {init = 4}, Stack)
transformer.Encoder = Encoder


---@class heed.Encoder.options: heed.transformer.options
---@field hidden? integer width of the MLPs; 4 * dim unless given
---@field final_norm? boolean whether a norm follows the last layer; unless given, not with "post"
---@field each? fun(i: integer): heed.transformer.options? what is different in layer i, such as its
---mask or rope; the layers' weights have the same sizes
---@field layer_dropout? number how likely it is that a layer is left out, while training; those
---that stay are as they are; 0

---@param dim integer of the features
---@param heads integer
---@param layers integer how many layers
---@param given? heed.Encoder.options
function Encoder:init(dim, heads, layers, given)
  build(self, "nn.Encoder", block.EncoderLayer, dim, heads, layers,
             options.read("nn.Encoder", given, ENCODER, torch_names.layers))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return (heed.Tensor|false)[]? weights of each layer, with option weights; false where it was
---dropped, zeros on a GPU
function Encoder:forward(x, given, ...)
  local o = call.read("nn.Encoder", given, ...)
  return run(self, x, o, o)
end


---Decoder layers one upon the other; a norm at the end unless their norms are post.
---@class heed.Decoder: heed.Module
---@field layers heed.DecoderLayer[]
---@field norm heed.Module|false
---@overload fun(dim: integer, heads: integer, layers: integer, options?: table): heed.Decoder
local Decoder = extend("nn.Decoder", {init = 4}, Stack)
transformer.Decoder = Decoder


---@param dim integer of the features
---@param heads integer
---@param layers integer how many layers
---@param given? heed.Encoder.options also `cross = false` for no attention to a context, and
---`context_dim`
function Decoder:init(dim, heads, layers, given)
  build(self, "nn.Decoder", block.DecoderLayer, dim, heads, layers,
             options.read("nn.Decoder", given, DECODER, torch_names.layers))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim); none with cross = false
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return (heed.Tensor|false)[]? weights of each layer, with option weights; false where it was
---dropped, zeros on a GPU
---@return (heed.Tensor|false)[]? cross_weights likewise
function Decoder:forward(x, context, given, ...)
  local o
  if not self.cross then
    o = call.read("nn.Decoder", context, given, ...)
    o.causal = o.causal == nil or o.causal
    return run(self, x, o, o)
  end
  context, o = call.read_context("nn.Decoder", context, given, ...)
  o.causal = o.causal == nil or o.causal
  return run(self, x, o, context, o)
end


---An encoder, and a decoder that attends to what it gives: PyTorch's nn.Transformer.
---@class heed.Transformer: heed.Module
---@field encoder heed.Encoder
---@field decoder heed.Decoder
---@overload fun(dim: integer, heads: integer, options?: table): heed.Transformer
local Transformer = extend("nn.Transformer", {init = 3, forward = 3})
transformer.Transformer = Transformer

local SELF = "nn.Transformer"
local TRANSFORMER = joined(ENCODER, {final_norm = true, layers = any})


-- How many layers the encoder and the decoder have: 6 each, a number, or a list of two.
local function layer_counts(layers_of)
  if layers_of == nil then layers_of = 6 end
  if type(layers_of) ~= "table" then layers_of = {layers_of, layers_of} end
  layers_of = options.whole(SELF .. ": option layers", layers_of)
  if #layers_of ~= 2 then
    heed.fail("%s: option 'layers': a number or {encoder's, decoder's} expected, got %d numbers",
              SELF, #layers_of)
  end
  return table.unpack(layers_of)
end


---@class heed.Transformer.options: heed.Encoder.options
---@field layers? integer|integer[] how many: of each, or {encoder's, decoder's}; 6 unless given
---@field final_norm? boolean whether a norm follows the last layers; true unless given, as in
---PyTorch

---@param dim integer of the features
---@param heads integer
---@param given? heed.Transformer.options
function Transformer:init(dim, heads, given)
  local o = options.read(SELF, given, TRANSFORMER, torch_names.layers)
  local encoder_layers, decoder_layers = layer_counts(o.layers)
  o.layers = nil
  self.encoder = Encoder(dim, heads, encoder_layers, o)
  self.decoder = Decoder(dim, heads, decoder_layers, o)
  self:reset()
end


-- The modules that tell positions, which options gave, and all below them.
local function given_modules(self)
  local given = {}
  for _, module in self:named_modules() do
    local is_attention = rawequal(getmetatable(module), MultiHeadAttention)
    for _, name in ipairs(is_attention and {"position", "position_bias"} or {}) do
      if Module.is(module[name]) then
        for below in module[name]:modules() do given[below] = true end
      end
    end
  end
  return given
end


---Draws all matrices of attention and of the MLPs anew, so that layers are no copies: PyTorch does
---that at the end. Modules that were given as `position` and `position_bias` stay as they are.
function Transformer:reset()
  local given = given_modules(self)
  for _, module in self:named_modules() do
    local class = getmetatable(module)
    if rawequal(class, MultiHeadAttention) then module:reset() end
    if rawequal(class, Linear) and not given[module] then
      initialise.xavier_uniform_(module.weight)
    end
  end
end


-- The first attention to the context, with which a cache holds it.
local function first_cross(self)
  local decoder = self.decoder
  local layers = Module.is(decoder) and rawget(decoder, "layers")
  local first = type(layers) == "table" and layers[1]
  local cross = Module.is(first) and rawget(first, "cross")
  if cross then return cross end
  if type(layers) == "table" then
    heed.fail("%s: option cache: layers that attend to a context expected in field 'decoder', got "
              .. "%s as the first one", SELF, options.kind(first))
  end
  heed.fail("%s: option cache: an nn.Decoder expected as field 'decoder', got %s", SELF,
            options.kind(decoder))
end


-- The decoder's context; nil where a cache holds it from an earlier call.
local function encoded(self, source, o)
  if o.cache and o.cache:context(first_cross(self)) then return nil, {} end
  return part.of(SELF, self, "encoder")(source, call.of_source(o))
end


---@class heed.Transformer.call: heed.transformer.call
---@field source_mask? any
---@field source_bias? any

---@param source heed.Tensor (B, S, dim), or (S, dim)
---@param target heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.Transformer.call the plain options are about the target;
---`context_lengths` and `context_keys` say which of the source are there, in both stacks;
---`context_mask` and `context_bias` are about the target's attention to the source, `source_mask`
---and `source_bias` about the source's to itself. With a cache the source is encoded once.
---@return heed.Tensor y of the shape of target
---@return (heed.Tensor|false)[]? weights of each decoder layer, with option weights
---@return (heed.Tensor|false)[]? cross_weights likewise
---@return (heed.Tensor|false)[]? source_weights of each encoder layer
function Transformer:forward(source, target, given)
  if not heed.is_tensor(target) then
    heed.fail("%s: a target expected, as in model(source, target), got %s", SELF,
              options.kind(target))
  end
  local o = call.read_source(SELF, given)
  local context, source_weights = encoded(self, source, o)
  local decoder, given_target = part.of(SELF, self, "decoder"), call.of_target(o)
  if not o.weights then return decoder(target, context, given_target) end
  local y, weights, cross_weights = decoder(target, context, given_target)
  return y, weights, cross_weights, source_weights
end


return transformer
