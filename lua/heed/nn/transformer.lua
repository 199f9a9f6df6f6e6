-- Layers of transformers, stacks of them, and the whole: Vaswani et al., Attention Is All You
-- Need, 2017.
--
-- A layer adds to its features what its parts make of them: attention among themselves (attend),
-- attention to a context (cross), and an MLP. The option `norm` says where the norms stand:
--
--   post       x = norm(x + part(x))             Vaswani et al. 2017; so unless given
--   pre        x = x + part(norm(x))             Xiong et al. 2020
--   sandwich   x = x + out_norm(part(norm(x)))   Ding et al., CogView, 2021

local heed = require "heed"
local Module = require "heed.nn.module"
local attention = require "heed.nn.attention"
local layers = require "heed.nn.layers"
local options = require "heed.options"
local parameter = require "heed.nn.parameter"

local any, count = options.any, options.count
local Dropout, LayerNorm, Linear, MLP = layers.Dropout, layers.LayerNorm, layers.Linear, layers.MLP
local MultiHeadAttention = attention.MultiHeadAttention

local transformer = {}


---@class heed.transformer.options
---@field norm? "post"|"pre"|"sandwich" where the norms stand: "post" unless given
---@field norm_type? "layer"|"rms"|function LayerNorm unless given; a function makes one: f(dim)
---@field eps? number of the norms, theirs unless given
---@field activation? string|function of the MLP: "relu" unless given; "swiglu" and its like too
---@field gated? boolean whether the MLP has a gate
---@field bias? boolean of linear layers and norms; true unless given
---@field dropout? number of attention's weights, within the MLP, and of what each part adds; 0
---@field attention_dropout? number of attention's weights alone; `dropout` unless given
---@field residual_scale? number of x where a part is added: DeepNorm's alpha; 1
---@field layer_scale? number first value of a learnt scale, for each feature, of what a part adds:
---LayerScale; none unless given
---@field kv_heads? integer this and what follows as in nn.MultiHeadAttention
---@field head_dim? integer
---@field qk_norm? boolean

local LAYER = {
  activation = any, attention_dropout = any, bias = true, dropout = 0, eps = any, gated = false,
  layer_scale = any, norm = "post", norm_type = any, residual_scale = 1,
}

-- What both kinds of attention in a layer take.
local ATTENTION = {head_dim = any, kv_heads = any, qk_norm = any}

-- What stands in both tables, and in others.
local function joined(...)
  local all = {}
  for _, t in ipairs{...} do
    for name, value in pairs(t) do all[name] = value end
  end
  return all
end


local ENCODER_LAYER = joined(LAYER, ATTENTION)
local DECODER_LAYER = joined(ENCODER_LAYER, {context_dim = any, cross = true})


---@class heed.transformer.call
---@field mask? any who may attend, bias? any what is added to the scores, and so on: see
---nn.MultiHeadAttention
---@field causal? boolean true for decoders, false for encoders unless given
---@field context_mask? any the same for the attention to the context
---@field weights? boolean whether attention's weights come back too

local SELF_CALL = {
  bias = any, causal = any, lengths = any, mask = any, weights = false,
}
local CROSS_CALL = joined(SELF_CALL, {
  context_bias = any, context_lengths = any, context_mask = any,
})


-- What of a call concerns the attention of x among itself.
local function self_call(o, causal)
  if o.causal ~= nil then causal = o.causal end
  return {
    bias = o.bias, causal = causal, lengths = o.lengths, mask = o.mask, weights = o.weights,
  }
end


-- And to the context.
local function cross_call(o)
  return {
    bias = o.context_bias, lengths = o.context_lengths, mask = o.context_mask, weights = o.weights,
  }
end


-- Context and options of a call: `has_context` says whether there is to be a context.
local function arguments(who, has_context, context, given, ...)
  if has_context then
    options.no_more(who, 3, ...)
    if not heed.is_tensor(context) then
      heed.fail("%s: a context expected behind x, or cross = false where it was made, got %s", who,
                options.kind(context))
    end
    return context, options.read(who, given, CROSS_CALL)
  end
  if heed.is_tensor(context) then
    heed.fail("%s: options expected behind x, since it has no cross-attention, got %s", who,
              options.kind(context))
  end
  options.no_more(who, 2, given, ...)
  return nil, options.read(who, context, SELF_CALL)
end


-- What a call returns: weights only where they are asked for.
local function results(x, o, weights, cross_weights)
  if not o.weights then return x end
  if cross_weights then return x, weights, cross_weights end
  return x, weights
end


local NORMS = {layer = LayerNorm, rms = layers.RMSNorm}

local function new_norm(who, dim, o)
  local kind = o.norm_type == nil and "layer" or o.norm_type
  if type(kind) ~= "string" then return options.callable(who, "norm_type", kind)(dim) end
  if not NORMS[kind] then
    heed.fail("%s: unknown norm_type '%s'; %s", who, kind, options.hint(kind, options.names(NORMS)))
  end
  local given = {eps = o.eps}
  if kind == "layer" then given.bias = o.bias end
  return NORMS[kind](dim, given)
end


-- Where the norms stand, which must be one of three words.
local PLACES = {post = true, pre = true, sandwich = true}

local function check_place(who, norm)
  if PLACES[norm] then return norm end
  heed.fail("%s: unknown norm '%s'; %s", who, norm, options.hint(norm, options.names(PLACES)))
end


-- A layer of two or three parts; what EncoderLayer and DecoderLayer share.
local Layer = Module:extend("Layer")

-- The names of the fields that belong to part i.
local FIELDS = {}
for i = 1, 3 do
  FIELDS[i] = {norm = "norm" .. i, out_norm = "out_norm" .. i, scale = "scale" .. i}
end


local function new_attention(dim, heads, o, context_dim)
  local dropout = o.attention_dropout
  if dropout == nil then dropout = o.dropout end
  local given = {bias = o.bias, context_dim = context_dim, dropout = dropout}
  for name in pairs(ATTENTION) do given[name] = o[name] end
  return MultiHeadAttention(dim, heads, given)
end


-- Fields in the order of PyTorch's, which draws their first weights in it.
function Layer:build(who, dim, heads, hidden, o)
  dim = count(who, "dim", dim)
  hidden = count(who, "hidden", hidden == nil and 4 * dim or hidden)
  self.place = check_place(who, o.norm)
  self.residual_scale = options.positive(who, "residual_scale", o.residual_scale)
  self.attend = new_attention(dim, heads, o)
  self.cross = o.cross and new_attention(dim, heads, o, o.context_dim) or false
  self.mlp = MLP(dim, hidden, {
    activation = o.activation, bias = o.bias, dropout = o.dropout, gated = o.gated,
  })
  self:add_fields(who, dim, o)
  self.dropout = Dropout(o.dropout)
end


-- For each part its norms and its scale, false where there is none.
function Layer:add_fields(who, dim, o)
  local parts = self.cross and 3 or 2
  for i = 1, 3 do self[FIELDS[i].norm] = i <= parts and new_norm(who, dim, o) end
  for i = 1, 3 do
    self[FIELDS[i].out_norm] = i <= parts and self.place == "sandwich" and new_norm(who, dim, o)
  end
  local first = o.layer_scale ~= nil and options.positive(who, "layer_scale", o.layer_scale)
  for i = 1, 3 do
    self[FIELDS[i].scale] = i <= parts and first and parameter.Parameter(heed.ones(dim) * first)
  end
end


-- The features with what part i adds, and what else the part returns.
function Layer:add(i, part, x, ...)
  local fields, post = FIELDS[i], self.place == "post"
  local norm, out_norm, scale = self[fields.norm], self[fields.out_norm], self[fields.scale]
  local y, weights = part(post and x or norm(x), ...)
  if out_norm then y = out_norm(y) end
  y = self.dropout(y)
  if scale then y = y * scale end
  if self.residual_scale ~= 1 then x = x * self.residual_scale end
  return post and norm(x + y) or x + y, weights
end


function Layer:describe()
  local dim, hidden = self.mlp.down.weight:size()
  local text = ("%d, %d, %d"):format(dim, self.attend.heads, hidden)
  return self.place == "post" and text or ("%s, norm = %s"):format(text, self.place)
end


-- The third argument may be left out.
local function hidden_and_options(hidden, given)
  if type(hidden) == "table" and given == nil then return nil, hidden end
  return hidden, given
end


---Attention among x, then an MLP.
---@class heed.EncoderLayer: heed.Module
---@field attend heed.MultiHeadAttention
---@field mlp heed.MLP
---@field norm1 heed.Module of attend
---@field norm2 heed.Module of the MLP
---@overload fun(dim: integer, heads: integer, hidden?: integer, options?: table): heed.EncoderLayer
local EncoderLayer = Layer:extend("EncoderLayer")
transformer.EncoderLayer = EncoderLayer


---@param dim integer of the features
---@param heads integer
---@param hidden? integer width of the MLP; 4 * dim unless given
---@param given? heed.transformer.options
function EncoderLayer:init(dim, heads, hidden, given, ...)
  options.no_more("nn.EncoderLayer", 4, ...)
  hidden, given = hidden_and_options(hidden, given)
  self:build("nn.EncoderLayer", dim, heads, hidden,
             options.read("nn.EncoderLayer", given, ENCODER_LAYER))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return heed.Tensor? weights (B, heads, T, T), with option weights
function EncoderLayer:forward(x, given, ...)
  local _, o = arguments("nn.EncoderLayer", false, given, ...)
  local weights
  x, weights = self:add(1, self.attend, x, self_call(o, false))
  x = self:add(2, self.mlp, x)
  return results(x, o, weights)
end


---Causal attention among x, attention to a context, then an MLP.
---@class heed.DecoderLayer: heed.Module
---@field attend heed.MultiHeadAttention
---@field cross heed.MultiHeadAttention|false
---@field mlp heed.MLP
---@field norm1 heed.Module of attend
---@field norm2 heed.Module of cross, or of the MLP where there is none
---@field norm3 heed.Module|false of the MLP
---@overload fun(dim: integer, heads: integer, hidden?: integer, options?: table): heed.DecoderLayer
local DecoderLayer = Layer:extend("DecoderLayer")
transformer.DecoderLayer = DecoderLayer


---@param dim integer of the features
---@param heads integer
---@param hidden? integer width of the MLP; 4 * dim unless given
---@param given? heed.transformer.options also `cross = false` for no attention to a context, and
---`context_dim`, the context's features, `dim` unless given
function DecoderLayer:init(dim, heads, hidden, given, ...)
  options.no_more("nn.DecoderLayer", 4, ...)
  hidden, given = hidden_and_options(hidden, given)
  self:build("nn.DecoderLayer", dim, heads, hidden,
             options.read("nn.DecoderLayer", given, DECODER_LAYER))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim); none with cross = false
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return heed.Tensor? weights (B, heads, T, T), with option weights
---@return heed.Tensor? cross_weights (B, heads, T, S), with option weights
function DecoderLayer:forward(x, context, given, ...)
  local o
  context, o = arguments("nn.DecoderLayer", self.cross, context, given, ...)
  local weights, cross_weights
  x, weights = self:add(1, self.attend, x, self_call(o, true))
  if self.cross then
    x, cross_weights = self:add(2, self.cross, x, context, cross_call(o))
  end
  x = self:add(self.cross and 3 or 2, self.mlp, x)
  return results(x, o, weights, cross_weights)
end


-- Layers one upon the other; what Encoder and Decoder share.
local Stack = Module:extend("Stack")

local STACK = {final_norm = any, hidden = any, layer_dropout = 0}
local ENCODER, DECODER = joined(ENCODER_LAYER, STACK), joined(DECODER_LAYER, STACK)


-- Layers that begin as copies of the first: nobody but the first draws weights, as in PyTorch.
local function copies(n, make)
  local list = {make()}
  local generator = heed.rng_state()
  for i = 2, n do
    list[i] = make()
    list[i]:load_state(list[1]:state())
  end
  heed.rng_state(generator)
  return list
end


function Stack:build(who, LayerClass, dim, heads, n, o)
  self.cross = o.cross or false
  local given = joined(o)
  for name in pairs(STACK) do given[name] = nil end
  self.layers = copies(count(who, "layers", n), function()
    return LayerClass(dim, heads, o.hidden, given)
  end)
  local final = o.final_norm
  if final == nil then final = o.norm ~= "post" end
  self.norm = final and new_norm(who, dim, o)
  self.layer_dropout = options.probability(who, "layer_dropout", o.layer_dropout)
end


-- A layer's results, or x where the layer is dropped: LayerDrop, Fan et al. 2020. A GPU decides for
-- itself, since its work may be captured, and replayed with other random numbers.
function Stack:call(layer, x, ...)
  local p = self.training and self.layer_dropout or 0
  if p == 0 then return layer(x, ...) end
  if x.device == "cpu" then
    if heed.rand(1):item() < p then return x, false, false end
    return layer(x, ...)
  end
  local y, weights, cross_weights = layer(x, ...)
  return heed.where(heed.rand(1, {device = x.device}):lt(p), x, y), weights, cross_weights
end


-- The features after all layers, and with option weights a list for each attention of a layer.
function Stack:run(x, o, ...)
  local weights, cross_weights = {}, self.cross and {}
  for i, layer in ipairs(self.layers) do
    local w, c
    x, w, c = self:call(layer, x, ...)
    weights[i] = w
    if cross_weights then cross_weights[i] = c end
  end
  if self.norm then x = self.norm(x) end
  return results(x, o, weights, cross_weights)
end


---Encoder layers one upon the other; a norm at the end unless their norms are post.
---@class heed.Encoder: heed.Module
---@field layers heed.EncoderLayer[]
---@field norm heed.Module|false
---@overload fun(dim: integer, heads: integer, layers: integer, options?: table): heed.Encoder
local Encoder = Stack:extend("Encoder")
transformer.Encoder = Encoder


---@class heed.Encoder.options: heed.transformer.options
---@field hidden? integer width of the MLPs; 4 * dim unless given
---@field final_norm? boolean whether a norm follows the last layer; unless given, not with "post"
---@field layer_dropout? number how likely it is that a layer is left out, while training; 0

---@param dim integer of the features
---@param heads integer
---@param n integer how many layers
---@param given? heed.Encoder.options
function Encoder:init(dim, heads, n, given, ...)
  options.no_more("nn.Encoder", 4, ...)
  self:build("nn.Encoder", EncoderLayer, dim, heads, n, options.read("nn.Encoder", given, ENCODER))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return (heed.Tensor|false)[]? weights of each layer, with option weights; false where it was
---dropped
function Encoder:forward(x, given, ...)
  local _, o = arguments("nn.Encoder", false, given, ...)
  return self:run(x, o, o)
end


---Decoder layers one upon the other; a norm at the end unless their norms are post.
---@class heed.Decoder: heed.Module
---@field layers heed.DecoderLayer[]
---@field norm heed.Module|false
---@overload fun(dim: integer, heads: integer, layers: integer, options?: table): heed.Decoder
local Decoder = Stack:extend("Decoder")
transformer.Decoder = Decoder


---@param dim integer of the features
---@param heads integer
---@param n integer how many layers
---@param given? heed.Encoder.options also `cross = false` for no attention to a context, and
---`context_dim`
function Decoder:init(dim, heads, n, given, ...)
  options.no_more("nn.Decoder", 4, ...)
  self:build("nn.Decoder", DecoderLayer, dim, heads, n, options.read("nn.Decoder", given, DECODER))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim); none with cross = false
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return (heed.Tensor|false)[]? weights of each layer, with option weights; false where it was
---dropped
---@return (heed.Tensor|false)[]? cross_weights likewise
function Decoder:forward(x, context, given, ...)
  local o
  context, o = arguments("nn.Decoder", self.cross, context, given, ...)
  if not self.cross then return self:run(x, o, o) end
  return self:run(x, o, context, o)
end


---An encoder, and a decoder that attends to what it gives: PyTorch's nn.Transformer.
---@class heed.Transformer: heed.Module
---@field encoder heed.Encoder
---@field decoder heed.Decoder
---@overload fun(dim: integer, heads: integer, options?: table): heed.Transformer
local Transformer = Module:extend("Transformer")
transformer.Transformer = Transformer

local SELF = "nn.Transformer"
local TRANSFORMER = joined(ENCODER, {final_norm = true, layers = any})
local TRANSFORMER_CALL = joined(CROSS_CALL, {source_bias = any, source_mask = any})


-- How many layers the encoder and the decoder have: 6 each, a number, or a list of two.
local function layer_counts(layers_of)
  if layers_of == nil then layers_of = 6 end
  if type(layers_of) ~= "table" then layers_of = {layers_of, layers_of} end
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
function Transformer:init(dim, heads, given, ...)
  options.no_more(SELF, 3, ...)
  local o = options.read(SELF, given, TRANSFORMER)
  local encoder_layers, decoder_layers = layer_counts(o.layers)
  o.layers = nil
  self.encoder = Encoder(dim, heads, encoder_layers, o)
  self.decoder = Decoder(dim, heads, decoder_layers, o)
  self:reset()
end


-- Glorot's uniform distribution.
local function draw_uniform(weight)
  local outputs, inputs = weight:size()
  local bound = math.sqrt(3) * math.sqrt(2 / (inputs + outputs))
  parameter.draw(weight, "uniform_", -bound, bound)
end


---Draws all matrices of attention and of the MLPs anew, so that layers are no copies: PyTorch does
---that at the end.
function Transformer:reset()
  for _, module in self:named_modules() do
    local class = getmetatable(module)
    if class == MultiHeadAttention then module:reset() end
    if class == Linear then draw_uniform(module.weight) end
  end
end


-- What of a call concerns the encoder.
local function source_call(o)
  return {
    bias = o.source_bias, lengths = o.context_lengths, mask = o.source_mask, weights = o.weights,
  }
end


-- And the decoder.
local function target_call(o)
  local call = joined(o)
  call.source_bias, call.source_mask = nil, nil
  return call
end


---@param source heed.Tensor (B, S, dim), or (S, dim)
---@param target heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.transformer.call the plain options are about the target;
---`context_lengths` and `context_keys` say which of the source are there, in both stacks;
---`context_mask` and `context_bias` are about the target's attention to the source, `source_mask`
---and `source_bias` about the source's to itself
---@return heed.Tensor y of the shape of target
---@return (heed.Tensor|false)[]? weights of each decoder layer, with option weights
---@return (heed.Tensor|false)[]? cross_weights likewise
---@return (heed.Tensor|false)[]? source_weights of each encoder layer
function Transformer:forward(source, target, given, ...)
  options.no_more(SELF, 3, ...)
  if not heed.is_tensor(target) then
    heed.fail("%s: a target expected, as in model(source, target), got %s", SELF,
              options.kind(target))
  end
  local o = options.read(SELF, given, TRANSFORMER_CALL)
  local context, source_weights = self.encoder(source, source_call(o))
  if not o.weights then return self.decoder(target, context, target_call(o)) end
  local y, weights, cross_weights = self.decoder(target, context, target_call(o))
  return y, weights, cross_weights, source_weights
end


return transformer
