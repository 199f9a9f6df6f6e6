-- Operations that PyTorch does otherwise by the arguments behind the tensor: `where` as a method,
-- `max` and `min` of two tensors, `div` and `round` with options, and the like. All other
-- operations are C's alone.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local method = require "heed.internal.method"
local options = require "heed.internal.options"

local called = core.called
local fail, is_tensor = heed.fail, heed.is_tensor


-- A named argument, where the value is a table of options.
local function named(value, name)
  return type(value) == "table" and rawget(value, name)
end


-- A copy of options, with another value for one name.
local function with(given, name, value)
  local new = {[name] = value}
  for key, other in pairs(given) do
    if key ~= name then new[key] = other end
  end
  return new
end


-- Choosing ---------------------------------------------------------------

local where = heed.where

method.only("where", function(x, condition, ...)
  if named(condition, "condition") then return where(with(condition, "input", x)) end
  return where(condition, x, ...)
end)


for name, pairwise in pairs {max = "maximum", min = "minimum"} do
  method.around(name, function(reduce, kin)
    local choose = kin[pairwise]
    return function(x, y, ...)
      if is_tensor(y) or named(y, "other") then return called(name, choose, x, y, ...) end
      return reduce(x, y, ...)
    end
  end)
end


-- Rounding ---------------------------------------------------------------

local function is_integer(x)
  if is_tensor(x) then return not x.dtype:find("float") end
  return math.type(x) ~= "float"
end


-- Whole numbers towards 0 without floats, which can't hold large ones; y may be a view of x.
local function divide(kin, x, y, mode, in_place)
  if mode == "floor" then return kin["floor_divide" .. in_place](x, y) end
  if is_integer(x) and is_integer(y) then
    local z = kin.sub(x, kin.fmod(x, y)):floor_divide(y)
    return in_place == "_" and kin.copy_(x, z) or z
  end
  return kin["trunc" .. in_place](kin["div" .. in_place](x, y))
end


local function check_mode(name, mode, given)
  options.read(name, given, {rounding_mode = options.any, other = options.any})
  if mode ~= "floor" and mode ~= "trunc" then
    fail("%s: argument 'rounding_mode': one of floor, trunc expected, got %s", name,
         options.kind(mode))
  end
end


for _, in_place in ipairs {"", "_"} do
  local name = "div" .. in_place
  method.around(name, function(exact, kin)
    return function(x, y, given)
      if named(y, "rounding_mode") then y, given = y.other, y end
      local mode = named(given, "rounding_mode")
      if not mode then return exact(x, y, given) end
      check_mode(name, mode, given)
      return called(name, divide, kin, x, y, mode, in_place)
    end
  end)
end


local function check_decimals(name, x, given)
  local n = options.read(name, given, {decimals = 0}).decimals
  if not math.tointeger(n) then
    fail("%s: argument 'decimals': a whole number expected, got %g", name, n)
  elseif n ~= 0 and is_tensor(x) and is_integer(x) then
    fail("%s: argument 'input': a float type expected beside decimals, got %s", name, x.dtype)
  end
  return n
end


for _, in_place in ipairs {"", "_"} do
  local name = "round" .. in_place
  method.around(name, function(round, kin)
    local mul, div = kin["mul" .. in_place], kin["div" .. in_place]
    local function rounded(x, n)
      local scale = 10.0 ^ math.abs(n)
      if n < 0 then return mul(round(div(x, scale)), scale) end
      return div(round(mul(x, scale)), scale)
    end
    return function(x, given, ...)
      if not named(given, "decimals") then return round(x, given, ...) end
      local n = check_decimals(name, x, given)
      if n == 0 then return round(x) end
      return called(name, rounded, x, n)
    end
  end)
end


-- Reducing ---------------------------------------------------------------

method.around("norm", function(norm)
  return function(x, p, ...)
    if p == "fro" then p = 2 elseif named(p, "p") == "fro" then p = with(p, "p", 2) end
    return norm(x, p, ...)
  end
end)


for _, name in ipairs {"var", "std"} do
  method.around(name, function(f)
    return function(x, dim, ...)
      if type(dim) == "boolean" then return f(x, nil, dim, ...) end
      return f(x, dim, ...)
    end
  end)
end


-- Repeating --------------------------------------------------------------

local function check_counts(x, counts, dim)
  local n = x:size(dim)
  if counts.dtype ~= "int64" or counts:dim() > 1 then
    fail("repeat_interleave: argument 'repeats': a vector of type int64 expected, got one of type "
         .. "%s and shape %s", counts.dtype, tostring(counts.shape))
  elseif counts:numel() ~= n and counts:numel() ~= 1 then
    fail("repeat_interleave: argument 'repeats': %d counts expected for dimension %d of shape %s, "
         .. "got %d", n, dim, tostring(x.shape), counts:numel())
  elseif counts:numel() > 0 and counts:min():item() < 0 then
    fail("repeat_interleave: argument 'repeats': a number of times expected, got %d",
         counts:min():item())
  end
  return counts:expand(n)
end


-- Position i counts[i] times: a 1 where each begins, and those added up. Repeats of none begin
-- where the next one does.
local function repeated_positions(counts)
  local total = counts:double():sum():item()         -- does not overflow, as their sum might
  if total >= 2 ^ 53 then
    fail("repeat_interleave: argument 'repeats': %.0f times in all are too many elements", total)
  end
  total = math.tointeger(total)
  local starts = counts:cumsum(1) - counts + 1
  local marks = heed.zeros(total + 1, {dtype = "int64", device = counts.device})
  return marks:scatter_add_(1, starts, heed.ones_like(counts)):narrow(1, 1, total):cumsum(1)
end


local function repeat_by(x, counts, dim)
  if dim == nil then x, dim = x:reshape(-1), 1 end
  return x:index_select(dim, repeated_positions(check_counts(x, counts, dim)))
end


local function repeat_interleave(times, x, counts, ...)
  local given = named(counts, "repeats") and counts or ...
  if is_tensor(named(counts, "repeats")) then counts = counts.repeats end
  if not is_tensor(counts) or not is_tensor(x) then return times(x, counts, ...) end
  local dim = given
  if type(given) == "table" then
    local known = {repeats = options.any, dim = options.any}
    dim = options.read("repeat_interleave", given, known).dim
  end
  return called("repeat_interleave", repeat_by, x, counts, dim)
end

method.around("repeat_interleave", function(times)
  return function(...) return repeat_interleave(times, ...) end
end)


-- Sequences --------------------------------------------------------------

-- heed.pad of a list makes a tensor of its lists: heed/internal/pad.lua.
method.around("pad", function(pad, kin)
  if kin ~= heed then return pad end
  return function(x, ...)
    if type(x) == "table" then return require "heed.internal.pad"(x, ...) end
    return pad(x, ...)
  end
end)
