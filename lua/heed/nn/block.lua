-- The layers of transformers: Vaswani et al., Attention Is All You Need, 2017.
--
-- A layer adds to its features what its parts make of them: attention among themselves (attend),
-- attention to a context (cross), and an MLP. The option `norm` says where the norms stand:
--
--   post       x = norm(x + part(x))             Vaswani et al. 2017; so unless given
--   pre        x = x + part(norm(x))             Xiong et al. 2020
--   sandwich   x = x + out_norm(part(norm(x)))   Ding et al., CogView, 2021
--   output     x = x + norm(part(x))             Liu et al., Swin Transformer V2, 2022

local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local MultiHeadAttention = require "heed.nn.multihead"
local call = require "heed.nn.block_call"
local layers = require "heed.nn.layers"
local mlp = require "heed.nn.mlp"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local torch_names = require "heed.internal.torch_names"

local any, count = options.any, options.count
local is_tensor, rank_of, size_of = heed.is_tensor, heed.dim, heed.size
local Dropout, LayerNorm, MLP = layers.Dropout, layers.LayerNorm, mlp.MLP

local block = {}


---@class heed.transformer.options
---@field norm? "post"|"pre"|"sandwich"|"output" where the norms stand, f a part of the layer:
---"post", norm(x + f(x)), unless given; "pre", x + f(norm(x)); "sandwich", x + norm(f(norm(x)));
---"output", x + norm(f(x))
---@field norm_type? "layer"|"rms"|function LayerNorm unless given; a function makes one: f(dim)
---@field eps? number of the norms, theirs unless given
---@field activation? string|function of the MLP: "relu" unless given; "swiglu" and its like too
---@field gated? boolean whether the MLP has a gate: any activation's
---@field bias? boolean of linear layers and norms; true unless given
---@field attention_bias? boolean of attention's linear layers, where it differs
---@field out_bias? boolean of attention's last one, where it differs from its others
---@field mlp_bias? boolean of the MLP's linear layers, where it differs
---@field dropout? number of attention's weights, within the MLP, and of what each part adds; 0
---@field attention_dropout? number of attention's weights alone; `dropout` unless given
---@field residual_scale? number of x where a part is added: DeepNorm's alpha; 1
---@field branch_scale? number of what a part adds; 1
---@field parallel? boolean attention and MLP are made of the same x: B. Wang and A. Komatsuzaki
---(2021), GPT-J; with norm "pre", and no context
---@field layer_scale? number first value of a learnt scale, for each feature, of what a part adds:
---LayerScale; none unless given
---@field kv_heads? integer as in nn.MultiHeadAttention, like what follows
---@field head_dim? integer
---@field value_dim? integer of each head's values
---@field qk_norm? boolean|function
---@field qk_norm_all? boolean
---@field scale? number of the scores
---@field softcap? number
---@field sink? boolean
---@field gate? boolean of the heads' outputs
---@field memory? integer
---@field rope? boolean|heed.position.rope among x alone, like what follows
---@field position? function
---@field position_bias? heed.bias one for all layers of a stack
---@field mask? heed.mask

local LAYER = {
  activation = any, attention_bias = any, attention_dropout = any, bias = true, branch_scale = 1,
  dropout = 0, eps = any, gated = false, layer_scale = any, mlp_bias = any, norm = "post",
  norm_type = any, parallel = false, residual_scale = 1,
}

-- Options of all attention layers, and of attention among x alone.
local ATTENTION = {
  gate = any, head_dim = any, kv_heads = any, memory = any, out_bias = any, qk_norm = any,
  qk_norm_all = any, scale = any, sink = any, softcap = any, value_dim = any,
}
local AMONG_X = {mask = any, position = any, position_bias = any, rope = any}


---The union of tables.
---@param ... table<string, any>
---@return table<string, any>
function block.joined(...)
  local all = {}
  for _, t in ipairs{...} do
    for name, value in pairs(t) do all[name] = value end
  end
  return all
end


---The options of both kinds of layers.
block.ENCODER_LAYER = block.joined(LAYER, ATTENTION, AMONG_X)
block.DECODER_LAYER = block.joined(block.ENCODER_LAYER, {context_dim = any, cross = true})


local NORMS = {layer = LayerNorm, rms = layers.RMSNorm}

---A norm as options say: `norm_type`, `eps` and `bias`.
---@param who string
---@param dim integer
---@param o heed.transformer.options
---@return heed.Module
function block.new_norm(who, dim, o)
  local kind = o.norm_type == nil and "layer" or o.norm_type
  if type(kind) ~= "string" then
    if Module.is(kind) then
      heed.fail("%s: a class or a function that makes a norm expected as norm_type, got %s",
                who, options.kind(kind))
    elseif o.eps ~= nil then
      heed.fail("%s: option eps: it goes with norm_type 'layer' or 'rms', not with a function", who)
    end
    local made = options.callable(who, "norm_type", kind)(dim)
    return options.callable(who, "what norm_type makes", made)
  end
  if not NORMS[kind] then
    heed.fail("%s: unknown norm_type '%s'; %s", who, kind, options.hint(kind, options.names(NORMS)))
  end
  local given = {eps = o.eps}
  if kind == "layer" then given.bias = o.bias end
  return NORMS[kind](dim, given)
end


-- Where the norms stand, which must be one of four words.
local PLACES = {output = true, post = true, pre = true, sandwich = true}

local function check_place(who, norm)
  if PLACES[norm] then return norm end
  heed.fail("%s: unknown norm '%s'; %s", who, norm, options.hint(norm, options.names(PLACES)))
end


-- Refuses parts side by side where one needs what the other has added.
local function check_parallel(who, o)
  if not o.parallel then return false end
  if o.norm ~= "pre" or o.cross then
    heed.fail("%s: option parallel: norm = 'pre'%s expected, got %s", who,
              o.cross and " and cross = false" or "", options.kind(o.norm))
  end
  return true
end


-- A layer of two or three parts: the base class of EncoderLayer and DecoderLayer.
local Layer = extend("nn.Layer", {})

-- The names of the fields that belong to part i.
local FIELDS = {}
for i = 1, 3 do
  FIELDS[i] = {norm = "norm" .. i, out_norm = "out_norm" .. i, scale = "scale" .. i}
end


-- Attention with those of a layer's options that are named, and with others.
local function new_attention(dim, heads, o, names, given)
  given.bias, given.dropout = o.attention_bias, o.attention_dropout
  if given.bias == nil then given.bias = o.bias end
  if given.dropout == nil then given.dropout = o.dropout end
  for name in pairs(names) do given[name] = o[name] end
  return MultiHeadAttention(dim, heads, given)
end


-- For each part its norms and its scale, false where there is none.
local function add_fields(self, who, dim, o)
  local parts = self.cross and 3 or 2
  for i = 1, 3 do self[FIELDS[i].norm] = i <= parts and block.new_norm(who, dim, o) end
  local sandwich = self.place == "sandwich"
  for i = 1, 3 do
    self[FIELDS[i].out_norm] = i <= parts and sandwich and block.new_norm(who, dim, o)
  end
  local first = o.layer_scale ~= nil and options.positive(who, "layer_scale", o.layer_scale)
  for i = 1, 3 do
    self[FIELDS[i].scale] = i <= parts and first and parameter.Parameter(heed.ones(dim) * first)
  end
end


-- Fields in the order of PyTorch's, which draws their first weights in it.
local function build(self, who, dim, heads, hidden, o)
  dim = count(who, "dim", dim)
  hidden = count(who, "hidden", hidden == nil and 4 * dim or hidden)
  self.dim, self.heads, self.hidden = dim, heads, hidden
  self.place = check_place(who, o.norm)
  self.parallel = check_parallel(who, o)
  self.residual_scale = options.positive(who, "residual_scale", o.residual_scale)
  self.branch_scale = options.positive(who, "branch_scale", o.branch_scale)
  self.attend = new_attention(dim, heads, o, block.joined(ATTENTION, AMONG_X), {})
  self.cross = o.cross
               and new_attention(dim, heads, o, ATTENTION, {context_dim = o.context_dim}) or false
  local mlp_bias = o.mlp_bias
  if mlp_bias == nil then mlp_bias = o.bias end
  self.mlp = MLP(dim, hidden, {
    activation = o.activation, bias = mlp_bias, dropout = o.dropout, gated = o.gated,
  })
  add_fields(self, who, dim, o)
  self.dropout = Dropout(o.dropout)
end


local function refuse_place(layer)
  field.refuse(layer, "place", layer.place, "'post', 'pre', 'sandwich' or 'output'")
end


-- The addition of part i, which a field names, to the features, and its other results.
local function branch(self, i, name, x, ...)
  local who, fields, place = self.__name, FIELDS[i], self.place
  local scale = self[fields.scale]
  if not PLACES[place] then refuse_place(self) end
  if place == "pre" or place == "sandwich" then x = part.of(who, self, fields.norm)(x) end
  local y, weights = part.of(who, self, name)(x, ...)
  y = part.result(who, name, y)
  local behind = place == "output" and "norm" or "out_norm"
  if self[fields[behind]] then y = part.of(who, self, fields[behind])(y) end
  y = part.of(who, self, "dropout")(y)
  if scale then y = y * field.factor(self, fields.scale) end
  if self.branch_scale ~= 1 then y = y * field.factor(self, "branch_scale") end
  return y, weights
end


-- The features x with what part i adds, which is y.
local function joined(self, i, x, y)
  if self.residual_scale ~= 1 then x = x * field.factor(self, "residual_scale") end
  x = x + y
  if self.place ~= "post" then return x end
  return part.of(self.__name, self, FIELDS[i].norm)(x)
end


-- Refuses what are no features of a layer's width.
local function check_features(who, layer, x)
  local dim = layer.dim
  local rank = is_tensor(x) and rank_of(x)
  if (rank == 2 or rank == 3) and size_of(x, -1) == dim then return end
  dim = field.count(layer, "dim")
  heed.fail("%s: features of shape (B, T, %d) or (T, %d) expected as x, got %s", who, dim, dim,
            options.kind(x))
end


-- A call of the two parts; whether it is causal unless it says otherwise.
local function without_context(self, who, causal, x, given, ...)
  check_features(who, self, x)
  local o = call.read(who, given, ...)
  local y, weights = branch(self, 1, "attend", x, call.of_self(o, causal))
  y = joined(self, 1, x, y)
  if self.parallel then return call.results(y + branch(self, 2, "mlp", x), o, weights) end
  return call.results(joined(self, 2, y, branch(self, 2, "mlp", y)), o, weights)
end


function Layer:describe()
  local text = ("%d, %d, %d"):format(field.count(self, "dim"), field.count(self, "heads"),
                                     field.count(self, "hidden"))
  if not PLACES[self.place] then refuse_place(self) end
  return self.place == "post" and text or ("%s, norm = %s"):format(text, self.place)
end


-- The third argument may be left out.
local function hidden_and_options(hidden, given)
  if type(hidden) == "table" and given == nil then return nil, hidden end
  return hidden, given
end


---Attention among x, then an MLP.
---@class heed.EncoderLayer: heed.Module
---@field dim integer
---@field heads integer
---@field hidden integer
---@field attend heed.MultiHeadAttention
---@field mlp heed.MLP
---@field norm1 heed.Module of attend
---@field norm2 heed.Module of the MLP
---@overload fun(dim: integer, heads: integer, hidden?: integer, options?: table): heed.EncoderLayer
local EncoderLayer = extend("nn.EncoderLayer", {init = 4}, Layer)
block.EncoderLayer = EncoderLayer


---@param dim integer of the features
---@param heads integer
---@param hidden? integer width of the MLP; 4 * dim unless given
---@param given? heed.transformer.options
function EncoderLayer:init(dim, heads, hidden, given)
  hidden, given = hidden_and_options(hidden, given)
  build(self, "nn.EncoderLayer", dim, heads, hidden,
             options.read("nn.EncoderLayer", given, block.ENCODER_LAYER, torch_names.layers))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return heed.Tensor? weights (B, heads, T, T), with option weights
function EncoderLayer:forward(x, given, ...)
  return without_context(self, "nn.EncoderLayer", false, x, given, ...)
end


---Causal attention among x, attention to a context, then an MLP.
---@class heed.DecoderLayer: heed.Module
---@field dim integer
---@field heads integer
---@field hidden integer
---@field attend heed.MultiHeadAttention
---@field cross heed.MultiHeadAttention|false
---@field mlp heed.MLP
---@field norm1 heed.Module of attend
---@field norm2 heed.Module of cross, or of the MLP where there is none
---@field norm3 heed.Module|false of the MLP
---@overload fun(dim: integer, heads: integer, hidden?: integer, options?: table): heed.DecoderLayer
local DecoderLayer = extend("nn.DecoderLayer", {init = 4}, Layer)
block.DecoderLayer = DecoderLayer


---@param dim integer of the features
---@param heads integer
---@param hidden? integer width of the MLP; 4 * dim unless given
---@param given? heed.transformer.options also `cross = false` for no attention to a context, and
---`context_dim`, the context's features, `dim` unless given
function DecoderLayer:init(dim, heads, hidden, given)
  hidden, given = hidden_and_options(hidden, given)
  local o = options.read("nn.DecoderLayer", given, block.DECODER_LAYER, torch_names.layers)
  if o.context_dim ~= nil and not o.cross then
    heed.fail("nn.DecoderLayer: option context_dim: there is no context with cross = false")
  end
  build(self, "nn.DecoderLayer", dim, heads, hidden, o)
end


-- Without a context, a cache must hold what is made of it: x itself is none.
local function check_cached(layer, context, o)
  if context ~= nil or o.cache:context(layer.cross) then return end
  heed.fail("nn.DecoderLayer: a context expected behind x, since the cache holds none yet, got nil")
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim); none with cross = false
---@param given? heed.transformer.call
---@return heed.Tensor y of the shape of x
---@return heed.Tensor? weights (B, heads, T, T), with option weights
---@return heed.Tensor? cross_weights (B, heads, T, S), with option weights
function DecoderLayer:forward(x, context, given, ...)
  if not self.cross then
    return without_context(self, "nn.DecoderLayer", true, x, context, given, ...)
  end
  check_features("nn.DecoderLayer", self, x)
  local o, weights, cross_weights
  context, o = call.read_context("nn.DecoderLayer", context, given, ...)
  check_cached(self, context, o)
  local y
  y, weights = branch(self, 1, "attend", x, call.of_self(o, true))
  x = joined(self, 1, x, y)
  y, cross_weights = branch(self, 2, "cross", x, context, call.of_context(o))
  x = joined(self, 2, x, y)
  return call.results(joined(self, 3, x, branch(self, 3, "mlp", x)), o, weights, cross_weights)
end


return block
