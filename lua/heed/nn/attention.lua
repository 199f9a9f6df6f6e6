-- Attention layers: one head, as lecture notes write it, and several heads side by side.
--
-- They are called layer(x), layer(x, options), layer(x, context) or layer(x, context, options):
-- queries come from x, keys and values from the context, which is x itself unless given.

local heed = require "heed"
local Module = require "heed.nn.module"
local layers = require "heed.nn.layers"
local options = require "heed.options"
local parameter = require "heed.nn.parameter"

local attention = heed.attention
local Linear = layers.Linear
local count = options.count

---@class heed.attention.call
---@field mask? any who may attend: true where it may; (T, S), (B, 1, T, S) or (1, H, T, S), where
---1 may stand for any size; a tensor of rank 3 is refused, which may mean two things
---@field bias? heed.Tensor added to the scores; of such shapes, too
---@field lengths? heed.Tensor (B) how many keys there are in each sequence, at most S
---@field causal? boolean no key behind the query's position
---@field weights? boolean whether the weights come back too

local CALL = {
  bias = options.any, causal = false, lengths = options.any, mask = options.any, weights = false,
}


-- The first axis of three may be that of sequences or that of heads.
local function check_rank(who, name, t)
  if not heed.is_tensor(t) or t:dim() ~= 3 then return end
  heed.fail("%s: option '%s': a shape such as (T, S), (B, 1, T, S) for sequences, or (1, H, T, S) "
            .. "for heads expected, or option 'lengths' for padding, got %s", who, name,
            options.kind(t))
end


-- The context and the options, either of which may be left out.
local function arguments(who, x, context, given, ...)
  if select("#", ...) > 0 then options.no_more(who, 3, ...) end
  if given == nil and context ~= nil and not heed.is_tensor(context) then
    context, given = nil, context
  end
  local o = options.read(who, given, CALL)
  check_rank(who, "mask", o.mask)
  check_rank(who, "bias", o.bias)
  if context == nil then context = x end
  return context, o
end


-- A value, or another where there is none; false is one.
local function value_or(value, otherwise)
  if value == nil then return otherwise end
  return value
end


---Attention with one head.
---@class heed.Attention: heed.Module
---@overload fun(dim: integer, key_dim?: integer): heed.Attention
local Attention = Module:extend("Attention")


---@param dim integer of the features
---@param key_dim? integer of queries, keys and values; `dim` unless given
function Attention:init(dim, key_dim, ...)
  options.no_more("nn.Attention", 2, ...)
  dim = count("nn.Attention", "dim", dim)
  key_dim = count("nn.Attention", "key_dim", value_or(key_dim, dim))
  self.Wq = Linear(dim, key_dim)
  self.Wk = Linear(dim, key_dim)
  self.Wv = Linear(dim, key_dim)
  self.Wc = Linear(key_dim, dim)   -- back to the features
end


-- A mask or a bias for one head: (B, 1, T, S) -> (B, T, S), and (1, 1, T, S) -> (T, S).
local function of_one_head(name, t, rank)
  if not heed.is_tensor(t) or t:dim() ~= 4 then return t end
  if t:size(2) ~= 1 or rank == 2 and t:size(1) ~= 1 then
    heed.fail("nn.Attention: option '%s': a shape such as (%s, 1, T, S) expected, got %s", name,
              rank == 2 and "1" or "B", options.kind(t))
  end
  t = t:squeeze(2)
  return rank == 2 and t:squeeze(1) or t
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, dim), or (S, dim)
---@param given? heed.attention.call
---@return heed.Tensor output (B, T, dim), or (T, dim)
---@return heed.Tensor weights (B, T, S), or (T, S)
function Attention:forward(x, context, given, ...)
  local o
  context, o = arguments("nn.Attention", x, context, given, ...)
  o.weights = true
  local q, k, v = self.Wq(x), self.Wk(context), self.Wv(context)
  o.mask, o.bias = of_one_head("mask", o.mask, q:dim()), of_one_head("bias", o.bias, q:dim())
  local z, weights = attention(q, k, v, o)
  local capture_callback = self:capture_callback()
  if capture_callback then capture_callback(weights) end
  return self.Wc(z), weights
end


-- A Linear whose first weights its owner draws.
local Projection = Linear:extend("Linear")

function Projection:reset() end


---Attention with several heads side by side.
---@class heed.MultiHeadAttention: heed.Module
---@field query heed.Linear
---@field key heed.Linear
---@field value heed.Linear
---@field out heed.Linear
---@overload fun(dim: integer, heads: integer, options?: table): heed.MultiHeadAttention
local MultiHeadAttention = Module:extend("MultiHeadAttention")

local SELF = "nn.MultiHeadAttention"


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


---@class heed.MultiHeadAttention.options
---@field kv_heads? integer heads of keys and values, shared by groups of queries; `heads`
---@field head_dim? integer dim / heads unless given
---@field context_dim? integer features of the context; `dim` unless given
---@field qk_norm? boolean root mean square norms over each head's queries and keys
---@field bias? boolean true unless given
---@field dropout? number of the weights, while training; 0 unless given

---@param dim integer of the features
---@param heads integer
---@param given? heed.MultiHeadAttention.options
function MultiHeadAttention:init(dim, heads, given, ...)
  options.no_more(SELF, 3, ...)
  local o = options.read(SELF, given, {
    bias = true, context_dim = options.any, dropout = 0, head_dim = options.any,
    kv_heads = options.any, qk_norm = false,
  })
  dim, heads = count(SELF, "dim", dim), count(SELF, "heads", heads)
  o.kv_heads = count(SELF, "kv_heads", value_or(o.kv_heads, heads))
  check_heads(dim, heads, o)
  local head_dim = count(SELF, "head_dim", value_or(o.head_dim, dim // heads))
  self.heads, self.kv_heads, self.head_dim = heads, o.kv_heads, head_dim
  self.dropout = options.probability(SELF, "dropout", o.dropout)
  self:project(dim, count(SELF, "context_dim", value_or(o.context_dim, dim)), o.bias)
  self.query_norm = o.qk_norm and layers.RMSNorm(head_dim)
  self.key_norm = o.qk_norm and layers.RMSNorm(head_dim)
end


-- PyTorch makes `out` first, whose bias is drawn before it becomes 0.
function MultiHeadAttention:project(dim, context_dim, bias)
  local width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
  local out = Linear(width, dim, {bias = bias})
  self.query = Projection(dim, width, {bias = bias})
  self.key = Projection(context_dim, kv_width, {bias = bias})
  self.value = Projection(context_dim, kv_width, {bias = bias})
  self.out = out
  self:reset()
end


-- Glorot's uniform distribution, for a layer with so many inputs and outputs.
local function glorot(weight, inputs, outputs)
  local bound = math.sqrt(3) * math.sqrt(2 / (inputs + outputs))
  parameter.draw(weight, "uniform_", -bound, bound)
end


---Draws the first weights of queries, keys and values anew, as one layer if they have the same
---inputs, and sets all biases to 0: what PyTorch does.
function MultiHeadAttention:reset()
  local projections, rows = {self.query, self.key, self.value}, 0
  for _, p in ipairs(projections) do rows = rows + p.weight:size(1) end
  local packed = self.query.weight:size(2) == self.key.weight:size(2)
  heed.no_grad(function()
    for _, p in ipairs(projections) do
      local outputs, inputs = p.weight:size()
      glorot(p.weight, inputs, packed and rows or outputs)
    end
    for _, p in ipairs{self.query, self.key, self.value, self.out} do
      if p.bias then p.bias:zero_() end
    end
  end)
end


local function check_features(what, t, rank)
  if not heed.is_tensor(t) then
    heed.fail("%s: a tensor expected as %s, got %s", SELF, what, options.kind(t))
  elseif t:dim() ~= rank then
    heed.fail("%s: rank %d expected as %s, got %s", SELF, rank, what, options.kind(t))
  end
end


-- (B, T, heads * head_dim) -> (B, heads, T, head_dim)
local function split(x, heads, head_dim)
  local B, T = x:size()
  return x:view(B, T, heads, head_dim):transpose(2, 3)
end


-- (B, heads, T, head_dim) -> (B, T, heads * head_dim)
local function join(x)
  return x:transpose(2, 3):flatten(3)
end


---@param x heed.Tensor (B, T, dim)
---@param context heed.Tensor (B, S, context_dim)
---@param o heed.attention.call
---@return heed.Tensor output (B, T, dim)
---@return heed.Tensor? weights (B, heads, T, S)
function MultiHeadAttention:attend(x, context, o)
  local q = split(self.query(x), self.heads, self.head_dim)             -- (B, H, T, D)
  local k = split(self.key(context), self.kv_heads, self.head_dim)      -- (B, Hk, S, D)
  local v = split(self.value(context), self.kv_heads, self.head_dim)    -- (B, Hk, S, D)
  if self.query_norm then q, k = self.query_norm(q), self.key_norm(k) end
  local z, weights = attention(q, k, v, o)
  return self.out(join(z)), weights
end


-- Refuses x as its own context where keys are made of other features.
function MultiHeadAttention:check_self(x)
  local dim, context_dim = self.query.weight:size(2), self.key.weight:size(2)
  if dim == context_dim then return end
  heed.fail("%s: a context of %d features expected, as in layer(x, context), got %s alone",
            SELF, context_dim, options.kind(x))
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, context_dim), or (S, context_dim)
---@param given? heed.attention.call
---@return heed.Tensor output (B, T, dim), or (T, dim)
---@return heed.Tensor? weights (B, heads, T, S), or (heads, T, S), with option weights
function MultiHeadAttention:forward(x, context, given, ...)
  local o
  context, o = arguments(SELF, x, context, given, ...)
  if context == x then self:check_self(x) end
  local wanted, capture_callback = o.weights, self:capture_callback()
  o.weights = wanted or capture_callback ~= nil
  o.dropout = self.training and self.dropout or 0
  local single = heed.is_tensor(x) and x:dim() == 2
  check_features("x", x, single and 2 or 3)
  check_features("context", context, single and 2 or 3)
  if single then x, context = x:unsqueeze(1), context:unsqueeze(1) end
  local y, weights = self:attend(x, context, o)
  if single then
    y, weights = y:squeeze(1), weights and weights:squeeze(1)
  end
  if capture_callback then capture_callback(weights) end
  if wanted then return y, weights end
  return y
end


function MultiHeadAttention:describe()
  local text = ("%d, %d"):format(self.query.weight:size(2), self.heads)
  if self.kv_heads ~= self.heads then text = text .. ", kv_heads = " .. self.kv_heads end
  return text
end


return {Attention = Attention, MultiHeadAttention = MultiHeadAttention}
