-- Attention with several heads side by side: A. Vaswani et al. (2017), "Attention is all you need",
-- section 3.2.2, with what models since have added to it.

local attending = require "heed.nn.attending"
local attention = require "heed.internal.attention"
local attention_values = require "heed.internal.attention_values"
local core = require "heed.core"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local kin = require "heed.nn.kin"
local layers = require "heed.nn.layers"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local rule = require "heed.internal.rule"
local torch_names = require "heed.internal.torch_names"

local Linear, Parameter = layers.Linear, parameter.Parameter
local any, count = options.any, options.count
local sizes = field.sizes
local flatten, size_of, transpose, view = heed.flatten, heed.size, heed.transpose, heed.view


-- A Linear whose first weights its owner draws.
local Projection = Linear:extend("Linear")
kin.adopt(Projection)

function Projection:reset() end


---Attention with several heads side by side.
---@class heed.MultiHeadAttention: heed.Module
---@field dim integer
---@field context_dim integer
---@field heads integer
---@field kv_heads integer
---@field query heed.Linear
---@field key heed.Linear
---@field value heed.Linear
---@field out heed.Linear
---@field query_norm heed.Module|false over each head's queries, or over all
---@field key_norm heed.Module|false
---@field position_bias heed.Bias|function|false
---@field sink heed.Tensor|false (heads)
---@field gate heed.Linear|false
---@field memory_keys heed.Tensor|false (kv_heads, memory, head_dim)
---@field memory_values heed.Tensor|false (kv_heads, memory, value_dim)
---@overload fun(dim: integer, heads: integer, options?: table): heed.MultiHeadAttention
local MultiHeadAttention = extend("nn.MultiHeadAttention", {
  init = 3, forward = 3, turns_alike = 2,
})

local SELF <const> = "nn.MultiHeadAttention"
local read_call = attending.reader(SELF, false)


---@class heed.MultiHeadAttention.options
---@field kv_heads? integer heads of keys and values, shared by groups of queries; `heads`
---@field head_dim? integer of queries and keys; dim / heads unless given
---@field value_dim? integer of each head's values; `head_dim` unless given
---@field context_dim? integer features that keys are made of; `dim` unless given
---@field value_context_dim? integer features that values are made of; `context_dim` unless given
---@field out_dim? integer features of the output; `dim` unless given
---@field qk_norm? boolean|function root mean square norms over each head's queries and keys:
---M. Dehghani et al. (2023), "Scaling vision transformers to 22 billion parameters", section 2; a
---function makes such a norm: f(features)
---@field qk_norm_all? boolean these norms take all heads at once: OLMo Team (2025), "2 OLMo 2
---Furious", section 2
---@field scale? number of the scores, at every call; 1 / sqrt(head_dim) where it is not given
---@field softcap? number of the scores, at every call
---@field rope? boolean|heed.position.rope rotary positions of queries and keys; or their options
---@field position? fun(q: heed.Tensor, k: heed.Tensor, offset: any): heed.Tensor, heed.Tensor
---called between projection and attention, with (B, H, T, D), (B, Hk, S, D) and where the first
---query stands: an integer, or a tensor of all positions (B, T)
---@field position_bias? heed.Bias|fun(T: integer, S: integer, q: heed.Tensor): any added to the
---scores at every call; a module or a function gives it for T queries, which are q, and S keys: a
---value of heed.bias, or a tensor that broadcasts to (B, heads, T, S)
---@field mask? heed.Mask who may attend at every call
---@field sink? boolean a learnt score for each head that takes part in the normaliser alone; first
---0, so that a head may attend to nothing: E. Miller (2023), "Attention is off by one"; learnt as
---in OpenAI (2025), "gpt-oss"
---@field gate? boolean each feature of the heads' outputs times sigmoid of a linear function of x,
---whose first weights are 0 and biases 1: J. Jumper et al. (2021), "Highly accurate protein
---structure prediction with AlphaFold", supplementary algorithm 7
---@field memory? integer how many learnt keys and values all queries attend to besides, whatever
---the masks: S. Sukhbaatar et al. (2019), "Augmenting self-attention with persistent memory".
---Weights leave out its columns, as those of a sink, so that rows may add up to less than 1;
---qk_norm is of its keys, too
---@field bias? boolean of the projections; true unless given
---@field out_bias? boolean of the last projection, where it differs from the others
---@field dropout? number of the weights, while training; 0 unless given

local OPTIONS = {
  bias = true, context_dim = any, dropout = 0, gate = false, head_dim = any, kv_heads = any,
  mask = any, memory = 0, out_bias = any, out_dim = any, position = any, position_bias = any,
  qk_norm = any, qk_norm_all = false, rope = any, scale = any, sink = false, softcap = any,
  value_context_dim = any, value_dim = any,
}


local function check_heads(dim, heads, o)
  if o.head_dim == nil and dim % heads ~= 0 then
    heed.fail("%s: dim as a multiple of heads expected, or head_dim, got dim %d and %d heads",
              SELF, dim, heads)
  end
  if heads % o.kv_heads ~= 0 then
    heed.fail("%s: heads as a multiple of kv_heads expected, got %d heads and %d kv_heads",
              SELF, heads, o.kv_heads)
  end
end


-- A parameter of normal numbers.
local function drawn(...)
  local t = parameter.empty(...)
  parameter.draw(t, "normal_", 0, 1)
  return t
end


-- A size among the options, or another where it is not given; false is none.
local function size(o, name, otherwise)
  o[name] = count(SELF, name, o[name] == nil and otherwise or o[name])
end


local function read_sizes(dim, heads, o)
  size(o, "kv_heads", heads)
  check_heads(dim, heads, o)
  size(o, "head_dim", dim // heads)
  size(o, "value_dim", o.head_dim)
  size(o, "context_dim", dim)
  size(o, "value_context_dim", o.context_dim)
  size(o, "out_dim", dim)
end


-- Loaded by the first layer that has them.
local function rope() return require "heed.attention.rope" end

-- The options of rope, false without it; refused at once, if rope will refuse them.
local function read_rope(given, head_dim)
  if given == nil or given == false then return false end
  if given ~= true and type(given) ~= "table" then
    heed.fail("%s: true or a table of options expected as rope, got %s", SELF, options.kind(given))
  end
  local o = {}
  for name, value in pairs(given == true and {} or given) do
    if name == "offset" or name == "positions" then
      heed.fail("%s: option rope: %s comes with a call, or from its cache", SELF, name)
    end
    o[name] = value
  end
  core.called(SELF, rope().rope, heed.empty(0, head_dim, {device = "cpu"}), o)
  return o
end


local function read_position(o)
  if o.position == nil then return false end
  if o.rope then heed.fail("%s: either rope or position expected, got both", SELF) end
  return options.callable(SELF, "position", o.position)
end


-- A value of heed.mask or heed.bias; a tensor is of one length, and comes with a call.
local function read_value(name, value, is, wanted)
  if value == nil or is(value) then return value or false end
  heed.fail("%s: %s expected as option %s, got %s", SELF, wanted, name, options.kind(value))
end


-- A function, called where attention knows its sizes, or a value of heed.bias.
local function read_bias(given)
  if options.is_callable(given) and not attention_values.is_bias(given) then
    part.refuse_class(SELF, "option position_bias", given)
    return given
  end
  return read_value("position_bias", given, attention_values.is_bias,
                    "a value of heed.bias, a function or a module")
end


-- A number above 0; false where it is not given.
local function read_number(o, name)
  local value = o[name]
  if value == nil then return false end
  if type(value) == "number" and value > 0 and value < math.huge then return value end
  heed.fail("%s: a number above 0 expected as option %s, got %s", SELF, name,
            options.kind(value))
end


-- The norm of the queries, or keys, of so many heads.
local function new_norm(o, heads)
  local make = o.qk_norm
  if make == nil or make == false then
    if o.qk_norm_all then heed.fail("%s: option qk_norm_all: it goes with qk_norm", SELF) end
    return false
  end
  local features = o.qk_norm_all and heads * o.head_dim or o.head_dim
  if make == true then return layers.RMSNorm(features) end
  if type(make) == "string" then
    heed.fail("%s: true, which is RMSNorm, or a function expected as option qk_norm, got %s", SELF,
              options.kind(make))
  end
  local made = options.callable(SELF, "option qk_norm", make)(features)
  return options.callable(SELF, "what qk_norm makes", made)
end


local function check_memory(o)
  if not o.qk_norm_all or o.memory == 0 then return end
  heed.fail("%s: option memory: not with qk_norm_all, whose norms take whole projections", SELF)
end


-- PyTorch makes `out` first, whose bias is drawn before it becomes 0.
local function add_projections(self, dim, o)
  local bias, out_bias = {bias = o.bias}, o.out_bias
  if out_bias == nil then out_bias = o.bias end
  local out = Linear(self.heads * o.value_dim, o.out_dim, {bias = out_bias})
  self.query = Projection(dim, self.heads * o.head_dim, bias)
  self.key = Projection(o.context_dim, o.kv_heads * o.head_dim, bias)
  self.value = Projection(o.value_context_dim, o.kv_heads * o.value_dim, bias)
  self.out = out
  self:reset()
end


-- Parts that PyTorch's layer lacks are made last, so that the other parts draw PyTorch's numbers.
local function add_extras(self, dim, o)
  local n = count(SELF, "memory", o.memory, 0)
  self.sink = o.sink and Parameter(heed.zeros(self.heads))
  self.gate = o.gate and Projection(dim, self.heads * o.value_dim)
  if o.gate then
    heed.no_grad(function()
      self.gate.weight:zero_()
      self.gate.bias:fill_(1)
    end)
  end
  self.memory_keys = n > 0 and drawn(self.kv_heads, n, o.head_dim)
  self.memory_values = n > 0 and drawn(self.kv_heads, n, o.value_dim)
end


---@param dim integer of the features
---@param heads integer
---@param given? heed.MultiHeadAttention.options
function MultiHeadAttention:init(dim, heads, given)
  local o = options.read(SELF, given, OPTIONS, torch_names.multihead)
  dim, heads = count(SELF, "dim", dim), count(SELF, "heads", heads)
  read_sizes(dim, heads, o)
  self.dim, self.context_dim = dim, o.context_dim
  self.heads, self.kv_heads = heads, o.kv_heads
  self.head_dim, self.value_dim = o.head_dim, o.value_dim
  self.dropout = options.probability(SELF, "dropout", o.dropout)
  add_projections(self, dim, o)
  check_memory(o)
  self.query_norm = new_norm(o, heads)
  self.key_norm = new_norm(o, o.kv_heads)
  self.norms_all = o.qk_norm_all
  self.scale, self.softcap = read_number(o, "scale"), read_number(o, "softcap")
  self.rope, self.position = read_rope(o.rope, o.head_dim), read_position(o)
  self.position_bias = read_bias(o.position_bias)
  self.mask = read_value("mask", o.mask, rule.is, "a value of heed.mask")
  add_extras(self, dim, o)
end


-- Glorot's uniform distribution, for a layer with so many inputs and outputs.
local function glorot(weight, inputs, outputs)
  local bound = math.sqrt(3) * math.sqrt(2 / (inputs + outputs))
  parameter.draw(weight, "uniform_", -bound, bound)
end


-- The matrix that a projection has as its parameter; other modules draw their weights themselves.
local function matrix_of(p)
  local weight = rawget(p, "weight")
  return parameter.role(weight) == "parameter" and weight:dim() == 2 and weight or nil
end


-- A function in the place of a projection has no weights that could be drawn.
local function check_projections(self)
  for _, name in ipairs{"query", "key", "value", "out"} do
    local p = self[name]
    local good = Module.is(p) and (matrix_of(p) or type(getmetatable(p).reset) == "function")
    if not good then
      heed.fail("%s: reset: a layer with weights expected as field '%s', got %s", SELF, name,
                Module.is(p) and "a " .. p.__name .. " without a method reset" or options.kind(p))
    end
  end
end


-- The rows of all matrices if they have the same inputs, and are drawn as one; or nil.
local function packed_rows(projections)
  local rows, inputs = 0, nil
  for _, p in ipairs(projections) do
    local weight = matrix_of(p)
    inputs = inputs or weight and weight:size(2)
    if not weight or weight:size(2) ~= inputs then return nil end
    rows = rows + weight:size(1)
  end
  return rows
end


local function draw_matrix(p, rows)
  local weight = matrix_of(p)
  if not weight then return p:reset() end
  local outputs, inputs = weight:size()
  glorot(weight, inputs, rows or outputs)
end


---Draws the first weights of queries, keys and values anew, as one layer if they have the same
---inputs, and sets all biases to 0: what PyTorch does. A module without a matrix of its own, in the
---place of a projection, draws its weights by its own method `reset`.
function MultiHeadAttention:reset()
  if parameter.is_hollow() then return end
  check_projections(self)
  local projections = {self.query, self.key, self.value}
  local rows = packed_rows(projections)
  heed.no_grad(function()
    for _, p in ipairs(projections) do draw_matrix(p, rows) end
    if not matrix_of(self.out) then self.out:reset() end
    for _, p in ipairs{self.query, self.key, self.value, self.out} do
      local bias = matrix_of(p) and rawget(p, "bias")
      if bias then bias:zero_() end
    end
  end)
end


-- The result of a field's layer, (B, T, heads * D), as (B, heads, T, D).
local function split(name, x, heads)
  local B, T, width, more = size_of(part.result(SELF, name, x))
  if not width or more or width % heads ~= 0 then
    heed.fail("%s: features for %d heads expected from field '%s', got %s", SELF, heads, name,
              options.kind(x))
  end
  return transpose(view(x, B, T, heads, width // heads), 2, 3)
end


-- (B, heads, T, D) -> (B, T, heads * D)
local function join(x)
  return flatten(transpose(x, 2, 3), 3)
end


-- Refuses x as its own context where keys are made of other features.
local function check_self(self, x)
  if self.dim == self.context_dim then return end
  heed.fail("%s: a context of %d features expected, as in layer(x, context), got %s alone",
            SELF, field.count(self, "context_dim"), options.kind(x))
end


local function norm(self, name, x)
  return part.result(SELF, name, part.of(SELF, self, name)(x))
end


-- Projected queries or keys as (B, heads, T, D), normed where the layer has a norm for them.
local function normed(self, name, norm_name, y, heads)
  if not self[norm_name] then return split(name, y, heads) end
  if not self.norms_all then return norm(self, norm_name, split(name, y, heads)) end
  return split(name, norm(self, norm_name, part.result(SELF, name, y)), heads)
end


-- Queries (B, H, T, D), and keys and values (B, Hk, S, D), which a cache may hold.
local function project(self, call)
  local stored, source = call.stored, call.context or call.x
  local q = part.of(SELF, self, "query")(call.x)
  q = normed(self, "query", "query_norm", q, sizes[self.heads] or field.count(self, "heads"))
  if stored then return q, stored.k, stored.v end
  if not call.context then check_self(self, call.x) end
  local kv_heads = sizes[self.kv_heads] or field.count(self, "kv_heads")
  local k = part.of(SELF, self, "key")(source)
  local v = part.of(SELF, self, "value")(call.values or source)
  k = normed(self, "key", "key_norm", k, kv_heads)
  return q, k, split("value", v, kv_heads)
end


-- A step does not tell where its queries stand among the keys of a context.
local function check_place(self, call)
  if self.position then
    heed.fail("%s: option cache: with a context, no position function can be called", SELF)
  elseif call.positions == nil then
    heed.fail("%s: option cache: with a context, rope needs option positions, too: where x stands "
              .. "in the context", SELF)
  end
end


local function through_position(self, q, k, offset)
  local new_q, new_k = part.of(SELF, self, "position")(q, k, offset)
  if heed.is_tensor(new_q) and heed.is_tensor(new_k) then return new_q, new_k end
  heed.fail("%s: option position: a function expected that returns queries and keys, got %s and %s",
            SELF, options.kind(new_q), options.kind(new_k))
end


-- How many positions the keys in the cache were turned for, and how many there are now.
local function lengths_at(call, at)
  if call.cache.capacity then return 1, call.cache.capacity end
  local before = heed.is_tensor(at) and at:narrow(-1, 1, 1):max():item() or at
  return before, before + size_of(call.x, 2)
end


-- Refuses a step whose angles are others than those that the cache's keys were turned by.
local function check_turned(self, call, at)
  if not (call.grows and self.rope and rope().depends_on_length(self.rope))
     or size_of(call.x, 2) == 0 then
    return
  end
  local before, now = lengths_at(call, at)
  if before == 0 or self:turns_alike(before, now) then return end
  if call.cache.capacity then
    heed.fail("%s: option cache: a capacity of at most %d expected, since rope turns all keys by "
              .. "other angles where there are more, got %d; nn.Cache() grows, and heed.generate "
              .. "begins anew with it there", SELF,
              math.floor(rope().constant_to(field.count(self, "head_dim"), self.rope)), now)
  end
  heed.fail("%s: option cache: at %d positions rope turns all keys by other angles than at %d; "
            .. "call the model with all tokens and an empty cache", SELF, now, before)
end


---Whether rope turns the tokens of sequences of both lengths by the same angles: options `scaling`
---may say otherwise.
---@param before integer
---@param now integer
---@return boolean
function MultiHeadAttention:turns_alike(before, now)
  if not self.rope then return true end
  local D, o = field.count(self, "head_dim"), field.table(self, "rope", "a table of options")
  return rope().reach(D, o, before) == rope().reach(D, o, now)
end


-- Tells queries and keys where they stand; keys of a context that a cache holds have been told.
local function place(self, call, q, k)
  if not (self.rope or self.position) then
    attending.refuse_positions(call)
    attending.begin(call)
    return q, k
  end
  local at_q, at_k = attending.places(call, size_of(k, 3))
  if call.cache and not call.grows then check_place(self, call) end
  if self.position then return through_position(self, q, k, at_q) end
  field.table(self, "rope", "a table of options")
  if call.cache then check_turned(self, call, at_q) end
  local turn = rope().rope_at
  return turn(q, self.rope, at_q), call.stored and k or turn(k, self.rope, at_k)
end


-- Attention to the keys and to the memory, joined by their normalisers: a softmax over both.
-- Masks, biases and the sink are of the keys alone.
local function attend_with_memory(self, q, k, v, o)
  local wants_lse, B = o.lse, q:size(1)
  local memory_k, memory_v = field.tensor(self, "memory_keys"), field.tensor(self, "memory_values")
  if self.key_norm then memory_k = norm(self, "key_norm", memory_k) end
  o.lse = true
  local z, weights, lse = attention.run(q, k, v, o)
  local own = {
    scale = o.scale, softcap = o.softcap, dropout = o.dropout, fused = o.fused, lse = true,
  }
  local function batch(t) return t:unsqueeze(1):expand(B, -1, -1, -1) end
  local m, _, lse_m = attention.run(q, batch(memory_k), batch(memory_v), own)
  local share = heed.sigmoid(lse - lse_m):unsqueeze(-1):to(z.dtype)      -- of the keys
  z = z * share + m * (1 - share)
  if wants_lse then lse = lse_m - heed.logsigmoid(lse_m - lse) end
  return z, weights and weights * share, wants_lse and lse or nil
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim)
---@param given? heed.attention.call
---@return heed.Tensor output (B, T, out_dim), or (T, out_dim)
---@return heed.Tensor? weights (B, heads, T, S), or (heads, T, S), with option weights
---@return heed.Tensor? lse (B, heads, T), or (heads, T), with option lse
function MultiHeadAttention:forward(x, context, given)
  local call, run = read_call(self, x, context, given), attention.run
  local q, k, v = project(self, call)
  q, k = place(self, call, q, k)
  if self.memory_keys then
    run = function(...) return attend_with_memory(self, ...) end
  end
  local z, weights, lse = attending.attend(call, q, k, v, run, self)
  z = join(z)
  if self.gate then
    z = z * part.result(SELF, "gate", part.of(SELF, self, "gate")(call.x)):sigmoid()
  end
  local y = part.result(SELF, "out", part.of(SELF, self, "out")(z))
  return attending.results(call, y, weights, lse)
end


function MultiHeadAttention:describe()
  local heads, kv_heads = field.count(self, "heads"), field.count(self, "kv_heads")
  local text = ("%d, %d"):format(field.count(self, "dim"), heads)
  if kv_heads ~= heads then text = text .. ", kv_heads = " .. kv_heads end
  return self.rope and text .. ", rope" or text
end


return MultiHeadAttention
