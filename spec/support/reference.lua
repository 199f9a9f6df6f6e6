-- Every elementwise row in plain Lua, in doubles, and the range in which it is checked: the
-- reference of heed's loops, for all specs that go by row.

local asserted = require "spec.support.asserted"
local close = require "spec.support.close"
local heed = require "heed"

local exp, log, abs, floor, huge = math.exp, math.log, math.abs, math.floor, math.huge

local reference = {}

reference.floats = {"float64", "float32", "float16", "bfloat16"}
reference.types = {"float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"}
reference.tolerance = {
  float64 = 1e-12, float32 = 4e-6, float16 = 2e-3, bfloat16 = 1.6e-2, int64 = 0, uint8 = 0,
  bool = 0,
}


-- Functions that Lua's math lacks --------------------------------------------------------------

local function sign(a) return a > 0 and 1 or a < 0 and -1 or 0 end
local function tanh(a)
  local e = exp(-2 * abs(a))
  return sign(a) * (1 - e) / (1 + e)
end
local function sigmoid(a) return 1 / (1 + exp(-a)) end
local function log1p(a)
  local u = 1 + a
  return u == 1 and a or log(u) * a / (u - 1)
end
local function expm1(a)
  local u = exp(a)
  if u == 1 then return a end
  return u - 1 == -1 and -1 or (u - 1) * a / log(u)
end
local function softplus(a) return a > 0 and a + log1p(exp(-a)) or log1p(exp(a)) end
local function trunc(a) return a < 0 and -floor(-a) or floor(a) end
local function round(a)
  local low = floor(a)
  local rest = a - low
  if rest == 0.5 then return low % 2 == 0 and low or low + 1 end
  return rest < 0.5 and low or low + 1
end
local function erf(a)                -- Maclaurin's series: enough terms for |a| <= 4
  local sum, term = a, a
  for n = 1, 120 do
    term = -term * a * a / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end
local function gelu(a) return a * 0.5 * (1 + erf(a / math.sqrt(2))) end
local function gelu_tanh(a)
  return a * 0.5 * (1 + tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)))
end
local function sinc(a)               -- fmod is exact: large arguments lose nothing
  return a == 0 and 1 or math.sin(math.pi * math.fmod(a, 2)) / (math.pi * a)
end
local function remainder(a, b) return a - floor(a / b) * b end
local function is_nan(a) return a ~= a end
local function is_inf(a) return abs(a) == huge end

reference.sigmoid, reference.softplus, reference.erf = sigmoid, softplus, erf


-- The rows --------------------------------------------------------------------------------------

-- name = {reference, lowest, highest[, also for integers]}, between which numbers are taken;
--   more: other numbers, of other branches and magnitudes
--   ties: {x, derivative} where differences do not say what the derivative is (PyTorch's)
--   calls: {arguments, the reference with them, …}, with numbers between lowest and highest
reference.unary = {
  neg = {function(a) return -a end, -3, 3, true},
  abs = {abs, -3, 3, true, ties = {{0, 0}}},
  sign = {sign, -3, 3, true, ties = {{0, 0}}},
  square = {function(a) return a * a end, -3, 3, true},
  sqrt = {math.sqrt, 0.1, 9, more = {1e-4, 250}},
  rsqrt = {function(a) return 1 / math.sqrt(a) end, 0.1, 9, more = {400}},
  reciprocal = {function(a) return 1 / a end, 0.3, 4, more = {-0.4, -2.6, 64}},
  exp = {exp, -4, 4, more = {-20, 6}},
  exp2 = {function(a) return 2 ^ a end, -4, 4, more = {-20, 8.25}},
  expm1 = {expm1, -3, 3, more = {-12, 1e-3, 5}},
  log = {log, 0.05, 9, more = {500}}, log2 = {function(a) return log(a, 2) end, 0.05, 9,
                                              more = {500}},
  log1p = {log1p, -0.8, 5, more = {1e-3, 500}},
  sin = {math.sin, -6, 6, more = {100, -1234.5}}, cos = {math.cos, -6, 6, more = {100, -1234.5}},
  tan = {math.tan, -1.2, 1.2, more = {1.9, -2.4, 100}},
  asin = {math.asin, -0.9, 0.9}, acos = {math.acos, -0.9, 0.9},
  atan = {math.atan, -4, 4, more = {-50, 50}},
  sinh = {function(a) return (exp(a) - exp(-a)) / 2 end, -3, 3},
  cosh = {function(a) return (exp(a) + exp(-a)) / 2 end, -3, 3},
  tanh = {tanh, -4, 4, more = {-12, 12}},
  sinc = {sinc, -3, 3, more = {1e-6, -1e-3, 0.05, 7.25, -20.5},
          ties = {{0, 0}, {1e-3, -math.pi ^ 2 / 3 * 1e-3 * (1 - math.pi ^ 2 * 1e-7)}}},
  sigmoid = {sigmoid, -6, 6, more = {-30, 30}},
  logsigmoid = {function(a) return -softplus(-a) end, -6, 6, more = {-30, 30}},
  erf = {erf, -3, 3}, relu = {function(a) return math.max(a, 0) end, -3, 3, true,
                              ties = {{0, 0}}},
  leaky_relu = {function(a) return a > 0 and a or 0.01 * a end, -3, 3, ties = {{0, 0.01}}, calls = {
    {{0.25}, function(a) return a > 0 and a or 0.25 * a end},
  }},
  elu = {function(a) return a > 0 and a or expm1(a) end, -3, 3, more = {-12}, calls = {
    {{2.5}, function(a) return a > 0 and a or 2.5 * expm1(a) end, ties = {{0, 2.5}}},
  }},
  gelu = {gelu, -3, 3, more = {-4.2, 4.2}, calls = {{{"tanh"}, gelu_tanh}, {{"none"}, gelu}}},
  silu = {function(a) return a * sigmoid(a) end, -6, 6, more = {-30, 30}},
  mish = {function(a) return a * tanh(softplus(a)) end, -4, 4, more = {-25, 25}},
  softplus = {softplus, -6, 6, more = {-30, 19, 25}, calls = {
    {{0.5, 1}, function(a) return a * 0.5 > 1 and a or softplus(a * 0.5) / 0.5 end,
     ties = {{2, sigmoid(1)}}},
  }},
  hardtanh = {function(a) return math.max(-1, math.min(1, a)) end, -3, 3, true,
              ties = {{-1, 0}, {1, 0}}, calls = {
    {{-2, 0.5}, function(a) return math.max(-2, math.min(0.5, a)) end, ties = {{-2, 0}, {0.5, 0}}},
  }},
  floor = {floor, -3, 3, true, ties = {{2, 0}}}, ceil = {math.ceil, -3, 3, true, ties = {{2, 0}}},
  round = {round, -3, 3, true, ties = {{1.5, 0}}}, trunc = {trunc, -3, 3, true, ties = {{2, 0}}},
}

-- Here ties are {a, b, derivative by a, derivative by b}.
reference.binary = {
  add = {function(a, b) return a + b end, -3, 3, true, calls = {
    {{2.5}, function(a, b) return a + 2.5 * b end},
  }},
  sub = {function(a, b) return a - b end, -3, 3, true, calls = {
    {{-0.5}, function(a, b) return a + 0.5 * b end},
  }},
  mul = {function(a, b) return a * b end, -3, 3, true},
  div = {function(a, b) return a / b end, 0.5, 3, signed = true},
  floor_divide = {function(a, b) return floor(a / b) end, 0.5, 3, signed = true},
  remainder = {remainder, 0.5, 3, signed = true}, fmod = {math.fmod, 0.5, 3, signed = true},
  pow = {function(a, b) return a ^ b end, 0.2, 3,
         ties = {{0, 2, 0, 0}, {0, 0, 0, 0}, {0, 1, 1, 0}, {3, 0, 0, log(3)}}},
  atan2 = {math.atan, -3, 3, ties = {{0, 0, 0, 0}, {0, 2, 0.5, 0}, {-2, 0, 0, 0.5}}},
  hypot = {function(a, b) return math.sqrt(a * a + b * b) end, -3, 3},
  logaddexp = {function(a, b)
    local top = math.max(a, b)
    return top + log(exp(a - top) + exp(b - top))
  end, -6, 6, ties = {{1.5, 1.5, 0.5, 0.5}}},
  maximum = {math.max, -3, 3, true, ties = {{1.5, 1.5, 0.5, 0.5}}},
  minimum = {math.min, -3, 3, true, ties = {{1.5, 1.5, 0.5, 0.5}}},
}

reference.unary_tests = {
  isnan = is_nan, isinf = is_inf, isfinite = function(a) return not is_nan(a) and not is_inf(a) end,
  logical_not = function(a) return a == 0 end,
}

reference.tests = {
  eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
  lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
  gt = function(a, b) return a > b end, ge = function(a, b) return a >= b end,
  logical_and = function(a, b) return a ~= 0 and b ~= 0 end,
  logical_or = function(a, b) return a ~= 0 or b ~= 0 end,
  logical_xor = function(a, b) return (a ~= 0) ~= (b ~= 0) end,
}

reference.ternary = {
  where = {function(a, b, c) return a ~= 0 and b or c end, -3, 3, true, condition = true},
  lerp = {function(a, b, c) return a + c * (b - a) end, -3, 3},
  bound = {function(a, b, c) return math.min(math.max(a, b), c) end, -3, 3, true, ties = {
    {1, 1, 2, 0.5, 0.5, 0}, {2, 1, 2, 0.5, 0, 0.5}, {0, 1, 1, 0, 1, 0}, {2, 1, 1, 0, 0, 1},
    {1, 1, 1, 1, 0, 0},
  }},
}


-- Comparing -------------------------------------------------------------------------------------

function reference.close(name, got, wanted, tol)
  if not close(got, wanted, 0, tol * math.max(1, abs(wanted))) then
    error(("%s: %.9g expected, got %.9g"):format(name, wanted, got), 0)
  end
end

function reference.compare(name, y, wanted, tol)
  asserted.note()
  local flat = y:reshape(-1):totable()
  if #wanted ~= #flat then
    error(("%s: %d elements expected, got %d"):format(name, #wanted, #flat), 0)
  end
  for i = 1, #wanted do
    local got = flat[i]
    if type(got) == "boolean" and type(wanted[i]) == "number" then got = got and 1 or 0 end
    if got ~= wanted[i] then
      reference.close(name .. " element " .. i, got, wanted[i], tol)
    end
  end
end

-- The numbers as the type stores them, which the reference computes with; bools are 0 and 1.
function reference.stored(list, dtype)
  if dtype == "int64" or dtype == "uint8" or dtype == "bool" then
    local t = {}
    for i, v in ipairs(list) do
      if dtype == "bool" then t[i] = v > 0 and 1 or 0
      else t[i] = dtype == "uint8" and abs(floor(v)) & 255 or floor(v) end
    end
    return t
  end
  return heed.tensor(list, {dtype = dtype}):to("float64"):totable()
end

-- A tensor of this type and shape with these numbers, which it can hold.
function reference.tensor(list, dtype, shape)
  local own = list
  if dtype == "bool" then
    own = {}
    for i, v in ipairs(list) do own[i] = v ~= 0 end
  end
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return heed.tensor(table.move(own, 1, n, 1, {}), {dtype = dtype}):reshape(shape)
end

-- A number as a result of this type stores it.
function reference.converted(value, dtype)
  if dtype == "bool" then return value ~= 0 and value ~= false and 1 or 0 end
  if value == true or value == false then return value and 1 or 0 end
  if dtype == "uint8" then return math.tointeger(value) & 255 end
  return value
end

return reference
