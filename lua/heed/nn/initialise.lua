-- heed.nn.init: first weights, drawn in place. Names, formulas and the order of random numbers are
-- those of torch.nn.init, so that a seed gives the same weights.
--
--   nn.init.xavier_uniform_(layer.weight)
--   nn.init.trunc_normal_(layer.weight, {std = 0.02})
--
-- Arguments behind the tensor may stand in a table by their names. Numbers are the CPU's on every
-- device. Inputs and outputs are those of a weight (outputs, inputs, ...).

local heed = require "heed"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"

local fail, kind = heed.fail, options.kind
local draw = parameter.draw

local init = {}

local DOUBLES <const> = {dtype = "float64", device = "cpu"}


-- The arguments behind the tensor, by name: `order` has a name and a default for each. Callers give
-- them one by one, in a table, or some in each way.
local function read(who, t, order, ...)
  if not heed.is_tensor(t) or not t.dtype:find("float") then
    fail("%s: a tensor of a float type expected, got %s", who, options.typed(t))
  end
  local given, known, values = {}, {}, table.pack(...)
  if type(values[values.n]) == "table" then
    for name, value in pairs(values[values.n]) do given[name] = value end
    values[values.n] = nil
  end
  options.no_more(who, #order + 1, table.unpack(values, #order + 1, values.n))
  for i, entry in ipairs(order) do
    local name = entry[1]
    known[name] = entry[2]
    if values[i] ~= nil and given[name] ~= nil then fail("%s: %s was given twice", who, name) end
    if values[i] ~= nil then given[name] = values[i] end
  end
  return options.read(who, given, known)
end


-- Numbers whose bounds fans give; of none, fans may be 0.
local function spread(t, name, ...)
  if t:numel() > 0 then draw(t, name, ...) end
  return t
end


-- How many numbers each output is made of, and how many outputs each input has a part in.
local function fans(who, t)
  local outputs, inputs = t:size()
  if t:dim() < 2 then fail("%s: at least two dimensions expected, got %s", who, kind(t)) end
  local each = t:numel() // math.max(outputs * inputs, 1)
  return inputs * each, outputs * each
end


---Every number from `a` to `b` alike.
---@param t heed.Tensor
---@param ... any a 0, b 1
---@return heed.Tensor t
function init.uniform_(t, ...)
  local o = read("nn.init.uniform_", t, {{"a", 0}, {"b", 1}}, ...)
  draw(t, "uniform_", o.a, o.b)
  return t
end


---The normal distribution.
---@param t heed.Tensor
---@param ... any mean 0, std 1
---@return heed.Tensor t
function init.normal_(t, ...)
  local o = read("nn.init.normal_", t, {{"mean", 0}, {"std", 1}}, ...)
  draw(t, "normal_", o.mean, options.positive("nn.init.normal_", "std", o.std))
  return t
end


---One number everywhere.
---@param t heed.Tensor
---@param ... any val
---@return heed.Tensor t
function init.constant_(t, ...)
  local o = read("nn.init.constant_", t, {{"val", options.any}}, ...)
  if type(o.val) ~= "number" then
    fail("nn.init.constant_: a number expected as val, got %s", kind(o.val))
  end
  return heed.no_grad(t.fill_, t, o.val)
end


---0 everywhere.
---@param t heed.Tensor
---@return heed.Tensor t
function init.zeros_(t, ...)
  read("nn.init.zeros_", t, {}, ...)
  return heed.no_grad(t.fill_, t, 0)
end


---1 everywhere.
---@param t heed.Tensor
---@return heed.Tensor t
function init.ones_(t, ...)
  read("nn.init.ones_", t, {}, ...)
  return heed.no_grad(t.fill_, t, 1)
end


---1 on the diagonal, else 0: a linear layer that passes on what comes.
---@param t heed.Tensor (outputs, inputs)
---@return heed.Tensor t
function init.eye_(t, ...)
  read("nn.init.eye_", t, {}, ...)
  if t:dim() ~= 2 then fail("nn.init.eye_: two dimensions expected, got %s", kind(t)) end
  local rows, columns = t:size()
  return heed.no_grad(t.copy_, t, heed.eye(rows, columns, {device = t.device}))
end


-- Glorot and Bengio 2010, 4.2.1: variances stay the same, forward and backward.
local function glorot(who, t, ...)
  local o = read(who, t, {{"gain", 1}}, ...)
  local inputs, outputs = fans(who, t)
  return o.gain * math.sqrt(2 / (inputs + outputs))
end


---Uniform numbers whose variance is gain^2 2 / (inputs + outputs): Glorot and Bengio 2010.
---@param t heed.Tensor (outputs, inputs, ...)
---@param ... any gain 1
---@return heed.Tensor t
function init.xavier_uniform_(t, ...)
  local bound = math.sqrt(3) * glorot("nn.init.xavier_uniform_", t, ...)
  return spread(t, "uniform_", -bound, bound)
end


---Normal numbers whose variance is gain^2 2 / (inputs + outputs): Glorot and Bengio 2010.
---@param t heed.Tensor (outputs, inputs, ...)
---@param ... any gain 1
---@return heed.Tensor t
function init.xavier_normal_(t, ...)
  return spread(t, "normal_", 0, glorot("nn.init.xavier_normal_", t, ...))
end


local GAINS <const> = {
  leaky_relu = function(slope) return math.sqrt(2 / (1 + slope ^ 2)) end,
  linear = 1, relu = math.sqrt(2), selu = 3 / 4, sigmoid = 1, tanh = 5 / 3,
}


---By how much weights must be larger before an activation, for variances to stay the same.
---@param nonlinearity string "leaky_relu", "linear", "relu", "selu", "sigmoid" or "tanh"
---@param param? number the slope of leaky_relu; 0.01 unless given
---@return number
function init.calculate_gain(nonlinearity, param, ...)
  local who <const> = "nn.init.calculate_gain"
  options.no_more(who, 2, ...)
  local gain = type(nonlinearity) == "string" and GAINS[nonlinearity]
  if not gain then
    fail("%s: an activation expected as nonlinearity, got %s; %s", who, kind(nonlinearity),
         options.hint(tostring(nonlinearity), options.names(GAINS)))
  end
  if type(gain) == "number" then return gain end
  if param ~= nil and type(param) ~= "number" then
    fail("%s: a number expected as param, got %s", who, kind(param))
  end
  return gain(param or 0.01)
end


-- He et al. 2015, 2.2: the same for activations that let half pass.
local function he(who, t, ...)
  local o = read(who, t, {{"a", 0}, {"mode", "fan_in"}, {"nonlinearity", "leaky_relu"}}, ...)
  local inputs, outputs = fans(who, t)
  if o.mode ~= "fan_in" and o.mode ~= "fan_out" then
    fail("%s: unknown mode '%s'; %s", who, o.mode, options.hint(o.mode, {"fan_in", "fan_out"}))
  end
  local gain = init.calculate_gain(o.nonlinearity, o.a)
  return gain / math.sqrt(o.mode == "fan_in" and inputs or outputs)
end


---Uniform numbers whose variance is gain^2 / inputs, or / outputs: He et al. 2015.
---@param t heed.Tensor (outputs, inputs, ...)
---@param ... any a 0 (the slope of leaky_relu), mode "fan_in", nonlinearity "leaky_relu"
---@return heed.Tensor t
function init.kaiming_uniform_(t, ...)
  local bound = math.sqrt(3) * he("nn.init.kaiming_uniform_", t, ...)
  return spread(t, "uniform_", -bound, bound)
end


---Normal numbers whose variance is gain^2 / inputs, or / outputs: He et al. 2015.
---@param t heed.Tensor (outputs, inputs, ...)
---@param ... any a 0 (the slope of leaky_relu), mode "fan_in", nonlinearity "leaky_relu"
---@return heed.Tensor t
function init.kaiming_normal_(t, ...)
  return spread(t, "normal_", 0, he("nn.init.kaiming_normal_", t, ...))
end


-- How much of the standard normal distribution lies below x.
local function below(x)
  return (1 + heed.tensor(x / math.sqrt(2), DOUBLES):erf():item()) / 2
end


-- Normal numbers. While some are out of bounds all are drawn again, and only theirs are replaced.
local function redrawn(t, o)
  local at = {dtype = t.dtype, device = "cpu"}
  local low, high = heed.tensor(o.a, at), heed.tensor(o.b, at)
  local x = t:normal_(o.mean, o.std)
  while true do
    local out = x:lt(low):logical_or(x:gt(high))
    if not out:any() then return x end
    x = heed.where(out, heed.empty_like(t):normal_(o.mean, o.std), x)
  end
end


-- Uniform numbers, kept as often as the density there is high, by its highest between the bounds.
local function accepted(t, o)
  local mode = math.max(o.a, math.min(o.mean, o.b))
  local highest = -0.5 * ((mode - o.mean) / o.std) ^ 2
  local x, pending = t, nil
  repeat
    local new = heed.empty_like(t):uniform_(o.a, o.b)
    x = pending and heed.where(pending, new, x) or new
    local density = ((new - o.mean) / o.std):square() * -0.5 - highest
    local refused = heed.empty_like(t):uniform_():log():gt(density)
    pending = pending and pending:logical_and(refused) or refused
  until not pending:any()
  return x
end


-- The ways above are PyTorch's. They serve bounds within as many deviations of the mean, where
-- uniform numbers are kept in one of 18 tries or more, and densities in halves are not yet coarse.
local NEAR <const> = {float64 = 8, float32 = 8, float16 = 3, bfloat16 = 3}


-- Can all of it be told apart, and is all of it finite, in t's type?
local function holds(t, o, most)
  local n = heed.tensor({o.mean, o.std, o.a, o.b, o.b - o.a}, DOUBLES)
  local gap = (n:to(t.dtype):double() - n):abs()
  local mean, std = gap[1], gap[2]
  return mean <= o.std / 8 and std <= o.std / 8
         and (most or n:to(t.dtype):isfinite():all())
end


-- Draws float64 numbers by `propose` until each is kept, where `keep` gives the logarithm of its
-- chance to be.
local function kept(shape, propose, keep)
  local x, pending = nil, nil
  repeat
    local new = propose(heed.rand(shape, DOUBLES))
    local refused = heed.rand(shape, DOUBLES):log():gt(keep(new))
    x = pending and heed.where(pending, new, x) or new
    pending = pending and pending:logical_and(refused) or refused
  until not pending:any()
  return x
end


-- How far numbers lie from a bound that is `from` deviations above the mean, in deviations up to
-- `width`. Far out an exponential distribution is close to what is left of the normal one (Robert
-- 1995, "Simulation of truncated normal variables"), nearer by a uniform one, where that is narrow.
local function beyond(shape, from, width)
  if from >= 1 then
    local all <const> = heed.tensor(-from * width, DOUBLES):expm1()
    return kept(shape, function(u) return (u * all):log1p() / -from end,
                function(d) return d:square() * -0.5 end)
  end
  local mode = math.max(from, 0)
  return kept(shape, function(u) return u * width end,
              function(d) return (mode ^ 2 - (d + from):square()) * 0.5 end)
end


-- Numbers between all other bounds, in float64.
local function anywhere(shape, o)
  if o.a == o.b then return heed.full(shape, o.a, DOUBLES) end
  local from, to = (o.a - o.mean) / o.std, (o.b - o.mean) / o.std
  local width = (o.b - o.a) / o.std
  local above = not (from + to < 0)                 -- is more of it above the mean than below?
  local nearest = above and from or -to
  if nearest < 1 and width > 2 then
    local z = kept(shape, function(u) return heed.empty_like(u):normal_() end,
                   function(z) return z:ge(from):logical_and(z:le(to)):double():log() end)
    return (z * o.std + o.mean):clamp(o.a, o.b)
  end
  local far = beyond(shape, nearest, width) * o.std
  return (above and far + o.a or -far + o.b):clamp(o.a, o.b)
end


---The normal distribution between `a` and `b`, drawn as PyTorch 2.15 draws it: what lies elsewhere
---is drawn again; where that is most of it, from a uniform distribution. Where bounds are many
---deviations away from the mean, from an exponential one.
---@param t heed.Tensor
---@param ... any mean 0, std 1, a -2, b 2
---@return heed.Tensor t
function init.trunc_normal_(t, ...)
  local who <const> = "nn.init.trunc_normal_"
  local o = read(who, t, {{"mean", 0}, {"std", 1}, {"a", -2}, {"b", 2}}, ...)
  if not (o.std > 0 and o.std < math.huge) then
    fail("%s: a finite number above 0 expected as std, got %s", who, kind(o.std))
  elseif not (o.mean - o.mean == 0) then
    fail("%s: a finite number expected as mean, got %s", who, kind(o.mean))
  elseif not (o.a <= o.b) then
    fail("%s: b at least a expected, got a %g and b %g", who, o.a, o.b)
  elseif o.a == math.huge or o.b == -math.huge then
    fail("%s: numbers between the bounds expected, got a %g and b %g", who, o.a, o.b)
  end
  local from, to = (o.a - o.mean) / o.std, (o.b - o.mean) / o.std
  local part = below(to) - below(from)
  local most = part > 0.3              -- as PyTorch has it
  local near = most or math.max(math.abs(from), math.abs(to)) <= NEAR[t.dtype]
  return heed.no_grad(function()
    if not (near and holds(t, o, most)) then return t:copy_(anywhere(t.shape, o)) end
    local x = heed.empty(t.shape, {dtype = t.dtype, device = "cpu"})
    return t:copy_((most and redrawn or accepted)(x, o))
  end)
end


-- The columns of a, (m, n) with m >= n, made orthonormal one after the other (Gram and Schmidt),
-- each of them twice: Giraud et al. 2005. The result is the Q of a QR decomposition whose R has a
-- positive diagonal.
local function orthonormal(a)
  local q = heed.zeros_like(a)
  for j = 1, a:size(2) do
    local v = a:select(2, j)
    for _ = 1, 2 do v = v - q:matmul(q.mT:matmul(v)) end
    q:select(2, j):copy_(v / v:norm())
  end
  return q
end


---Rows, or columns where there are fewer of them, that are orthogonal and of length `gain`: Saxe et
---al. 2014.
---@param t heed.Tensor (outputs, inputs, ...)
---@param ... any gain 1
---@return heed.Tensor t
function init.orthogonal_(t, ...)
  local who <const> = "nn.init.orthogonal_"
  local o = read(who, t, {{"gain", 1}}, ...)
  if t:dim() < 2 then fail("%s: at least two dimensions expected, got %s", who, kind(t)) end
  if t:numel() == 0 then return t end
  return heed.no_grad(function()
    local a = heed.empty(t:size(1), t:numel() // t:size(1), {dtype = t.dtype, device = "cpu"})
    a = a:normal_():to("float64")
    local q = #a < a:size(2) and orthonormal(a.mT).mT or orthonormal(a)
    return t:copy_((q * o.gain):reshape(t.shape))
  end)
end


return options.strict("heed.nn.init", init)
