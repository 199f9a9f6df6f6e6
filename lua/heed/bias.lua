-- heed.bias: what is added to the scores of attention, as values that add up.
--
--   local bias = heed.bias.t5{heads = 8} + heed.bias.alibi(8)
--   heed.attention(q, k, v, {bias = bias})
--
-- Query i stands at position p = i + S - T among the keys j. A bias that depends on the distance
-- alone reaches kernels as its T + S - 1 values for each head, and never as a T x S matrix. A bias
-- is a module: a layer that holds it in a field trains, moves and saves its parameters.

local attention_values = require "heed.internal.attention_values"
local core = require "heed.core"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"

local POLLED <const> = 4096                  -- steps of a loop between two polls
local ARITY <const> = {distances = 3, matrix = 0}

local kind, is_tensor = options.kind, heed.is_tensor

local bias = {}

---@class heed.Bias: heed.Module
---@operator add(heed.Bias|heed.Tensor): heed.Bias
local Bias = extend("bias.Bias", ARITY)

Bias.is_bias = true


---Whether a value is a bias.
---@param value any
---@return boolean
function bias.is(value) return attention_values.is_bias(value) end

local is_bias = bias.is


-- Every class gives, for T queries and S keys and in the queries' type and place:
--   distances(T, S, q)   (H, T + S - 1): the values at p - j from 1 - T to S - 1, or nil
--   matrix()             a tensor that broadcasts against the scores, or nil
-- and `heads`, or false for any.
function Bias:distances() return nil end

function Bias:matrix() return nil end


-- Columns of a table (H, 2 R + 1) over distances j - p from -R to R, those beyond being cut off.
local function spread(values, T, S)
  local R = values:size(2) // 2
  local column = heed.arange(T - 1, 1 - S, -1, {device = values.device}):clamp(-R, R) + (R + 1)
  return values:index_select(2, column)
end


-- Linear biases ----------------------------------------------------------

-- The slopes of n heads: 2^(-8/n), 2^(-16/n) … for powers of 2; for others those of the power
-- of 2 below n, and then every second of the one above. O. Press et al. (2022), "Train short, test
-- long", section 3, and their code.
local function alibi_slopes(n)
  local lower, slopes = 1, {}
  while 2 * lower <= n do lower = 2 * lower end
  for h = 1, lower do
    if h % POLLED == 0 then core.poll("bias.alibi") end
    slopes[h] = 2.0 ^ (-8 * h / lower)
  end
  for h = 1, n - lower do slopes[lower + h] = 2.0 ^ (-4 * (2 * h - 1) / lower) end
  return slopes
end


---@class heed.Alibi: heed.Bias
local Alibi = extend("bias.Alibi", ARITY, Bias)

local SLOPES <const> = {float16 = "float32", bfloat16 = "float32"}


local function check_slopes(heads, slopes)
  if type(slopes) == "table" and #slopes == heads then
    for _, slope in ipairs(slopes) do options.positive("bias.alibi", "a slope", slope) end
    return slopes
  elseif is_tensor(slopes) and slopes:dim() == 1 and #slopes == heads then
    return slopes
  end
  heed.fail("bias.alibi: %d numbers, or a tensor of shape (%d), expected as option slopes, got %s",
            heads, heads, kind(slopes))
end


function Alibi:init(heads, given, ...)
  options.no_more("bias.alibi", 2, ...)
  local o = options.read("bias.alibi", given, {slopes = options.any})
  self.heads = options.count("bias.alibi", "heads", heads)
  core.check_entries("bias.alibi", self.heads, "slopes of the heads")
  self.slopes = o.slopes and check_slopes(self.heads, o.slopes) or alibi_slopes(self.heads)
end


function Alibi:distances(T, S, q)
  if not is_tensor(q) then
    heed.fail("distances: queries expected as the third argument, got %s", kind(q))
  end
  local slopes, dtype = self.slopes, SLOPES[q.dtype] or q.dtype
  if not is_tensor(slopes) then
    slopes = heed.tensor(slopes, {dtype = dtype, device = q.device})
  end
  local distance = heed.arange(1 - T, S - 1, {dtype = dtype, device = q.device}):abs()
  return -slopes:unsqueeze(2) * distance
end


function Alibi:describe() return tostring(self.heads) end


-- Tables over distances --------------------------------------------------

---@class heed.Relative: heed.Bias
local Relative = extend("bias.Relative", ARITY, Bias)


function Relative:init(values, ...)
  options.no_more("bias.relative", 1, ...)
  if not is_tensor(values) or values:dim() ~= 2 or values:size(2) % 2 == 0
     or not values.dtype:find("float") then
    heed.fail("bias.relative: a float tensor of shape (heads, 2 R + 1) expected, got %s",
              options.typed(values))
  end
  self.heads, self.table = values:size(1), values
end


function Relative:distances(T, S) return spread(field.matrix(self, "table"), T, S) end


function Relative:describe()
  return ("%d, %d"):format(field.count(self, "heads"), field.matrix(self, "table"):size(2) // 2)
end


---@class heed.T5: heed.Bias
---@field weight heed.Tensor (buckets, heads)
local T5 = extend("bias.T5", ARITY, Bias)


-- The bucket, from 1, of a distance j - p: half of the buckets are for keys behind the query, if
-- it sees any; half of the rest hold one distance each, the others grow up to the largest. C.
-- Raffel et al. (2020), "Exploring the limits of transfer learning", section 2.1, and their code.
local function t5_bucket(distance, buckets, largest, bidirectional)
  local first = 1
  if bidirectional then
    buckets = buckets // 2
    if distance > 0 then first = first + buckets end
    distance = math.abs(distance)
  else
    distance = math.max(-distance, 0)
  end
  local exact = buckets // 2
  if distance < exact then return first + distance end
  local steps = math.log(distance / exact) / math.log(largest / exact) * (buckets - exact)
  return first + math.min(exact + math.floor(steps), buckets - 1)
end


local function check_t5(o)
  for _, name in ipairs {"heads", "buckets", "distance"} do
    o[name] = options.count("bias.t5", "option " .. name, o[name])
  end
  local least = o.bidirectional and 4 or 2
  if o.buckets < least or o.bidirectional and o.buckets % 2 > 0 then
    heed.fail("bias.t5: %s expected as option buckets, got %d",
              o.bidirectional and "an even number from 4 on" or "a number from 2 on", o.buckets)
  end
  local exact = o.buckets // least
  if o.distance <= exact then
    heed.fail("bias.t5: more than %d expected as option distance, which %d buckets hold one by "
              .. "one, got %d", exact, o.buckets, o.distance)
  end
  return o
end


function T5:init(given, ...)
  options.no_more("bias.t5", 1, ...)
  local o = check_t5(options.read("bias.t5", given, {
    heads = options.any, buckets = 32, distance = 128, bidirectional = true,
  }))
  self.heads, self.buckets, self.distance = o.heads, o.buckets, o.distance
  self.bidirectional = o.bidirectional
  core.check_entries("bias.t5", 2.0 * o.distance + 1, "buckets of all distances")
  local columns = {}
  for d = -o.distance, o.distance do
    if d % POLLED == 0 then core.poll("bias.t5") end
    columns[#columns + 1] = t5_bucket(d, o.buckets, o.distance, o.bidirectional)
  end
  self.columns = heed.keep(heed.tensor(columns, {dtype = "int64"}))
  self.weight = parameter.Parameter(heed.empty(o.buckets, o.heads))
  self:reset()
end


---Draws the table anew: normal(0, 1), as an nn.Embedding.
function T5:reset() parameter.draw(field.tensor(self, "weight"), "normal_", 0, 1) end


function T5:distances(T, S)
  return spread(field.matrix(self, "weight"):index_select(1, self.columns).T, T, S)
end


function T5:describe()
  return ("%d, buckets = %d, distance = %d%s"):format(
    field.count(self, "heads"), field.count(self, "buckets"), field.count(self, "distance"),
    self.bidirectional and "" or ", causal")
end


-- Tensors and sums -------------------------------------------------------

---@class heed.TensorBias: heed.Bias
local TensorBias = extend("bias.TensorBias", ARITY, Bias)


function TensorBias:init(t, ...)
  options.no_more("bias.tensor", 1, ...)
  if not is_tensor(t) or not t.dtype:find("float") then
    heed.fail("bias.tensor: a float tensor expected, got %s%s", options.typed(t),
              is_tensor(t) and t.dtype == "bool" and "; who may attend is called 'mask'" or "")
  end
  self.heads, self.tensor = false, t
end


function TensorBias:matrix() return field.tensor(self, "tensor") end


function TensorBias:describe() return tostring(self:matrix().shape) end


---@class heed.BiasSum: heed.Bias
local Sum = extend("bias.BiasSum", ARITY, Bias)


local function as_bias(value)
  if is_bias(value) then return value end
  if is_tensor(value) then return TensorBias(value) end
  heed.fail("bias: a bias or a float tensor expected, got %s", options.typed(value))
end


function Sum:init(a, b)
  self.heads = a.heads or b.heads
  if a.heads and b.heads and a.heads ~= b.heads then
    heed.fail("bias: biases for as many heads expected, got %s + %s", tostring(a), tostring(b))
  end
  self.a = a
  self.b = b
end


local function added(x, y)
  if x and y then return x + y end
  return x or y
end


local function terms(self)
  local a, b = self.a, self.b
  if not is_bias(a) then field.refuse(self, "a", a, "a bias") end
  if not is_bias(b) then field.refuse(self, "b", b, "a bias") end
  return a, b
end


function Sum:distances(T, S, q)
  local a, b = terms(self)
  return added(a:distances(T, S, q), b:distances(T, S, q))
end


function Sum:matrix()
  local a, b = terms(self)
  return added(a:matrix(), b:matrix())
end


for _, class in ipairs {Bias, Alibi, Relative, T5, TensorBias, Sum} do
  function class.__add(a, b) return Sum(as_bias(a), as_bias(b)) end
end


---The bias as it is added to the scores of T queries and S keys.
---@param T integer
---@param S integer
---@return heed.Tensor (H, T, S), or what broadcasts to it
function Bias:dense(T, S, ...)
  options.no_more("bias:dense", 2, ...)
  T = options.count("bias:dense", "argument 'T'", T)
  S = options.count("bias:dense", "argument 'S'", S)
  core.check_room("bias:dense", 8.0 * T * S, "a matrix of the scores")
  local matrix = self:matrix()
  local distances = self:distances(T, S, matrix or heed.empty(0))
  if not distances then return matrix end
  local i = heed.arange(T, {device = distances.device}):unsqueeze(2)
  local at = (i - heed.arange(S, {device = distances.device}) + S):reshape(-1)
  return added(distances:index_select(2, at):view(-1, T, S), matrix)
end


-- Constructors -----------------------------------------------------------

----slope |p - j|: closer keys weigh more, without any parameter. O. Press et al. (2022).
---@param heads integer
---@param given? {slopes: number[]|heed.Tensor} of each head; theirs unless given; trained if they
---are an nn.Parameter
---@return heed.Alibi
function bias.alibi(heads, given, ...) return Alibi(heads, given, ...) end


---A trained number for each bucket of distances and each head; the first ones are drawn from
---normal(0, 1), as those of an nn.Embedding. C. Raffel et al. (2020).
---@param given {heads: integer, buckets: integer?, distance: integer?, bidirectional: boolean?}
---buckets: 32 unless given; from `distance` on, 128 unless given, all share the last one;
---`bidirectional`, true unless given: keys behind the query have buckets of their own
---@return heed.T5
function bias.t5(given, ...) return T5(given, ...) end


---A number for each head and each distance j - p, from -R to R; distances beyond R count as R.
---P. Shaw et al. (2018), "Self-attention with relative position representations", section 3.2.
---@param values heed.Tensor (heads, 2 R + 1); an nn.Parameter is trained
---@return heed.Relative
function bias.relative(values, ...) return Relative(values, ...) end


---A tensor that broadcasts against the scores.
---@param t heed.Tensor (B, H, T, S) less the dimensions that queries lack; an nn.Parameter is
---trained
---@return heed.TensorBias
function bias.tensor(t, ...) return TensorBias(t, ...) end


return options.strict("heed.bias", bias)
