-- Values as Lua source: what a call of the fuzzers is made of. Each function takes a generator of
-- spec/fuzz/random.lua and gives the text of an expression.

local values = {}

local concat = table.concat

values.floats = {"float32", "float64", "float16", "bfloat16"}
values.dtypes = {"float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"}

-- Sizes between some thousands and 2^31 are not among them: a call must be refused, or be quick.
local NUMBERS = {
  "0", "1", "-1", "2", "-2", "3", "5", "-0.0", "0.5", "-0.5", "1.5", "1e-3", "2.0", "3.0", "7.25",
  "(0/0)", "math.huge", "-math.huge", "1e300", "-1e300", "1e-320", "65504", "3e38", "1e19",
  "math.maxinteger", "math.mininteger", "math.maxinteger - 1", "math.mininteger + 1", "1 << 62",
  "1 << 61", "1 << 60", "1 << 40", "-(1 << 40)", "1 << 32", "(1 << 32) + 1", "1 << 31",
  "(1 << 31) - 1", "-(1 << 31)", "2.0^53", "2.0^63", "-2.0^63", "64", "65", "8", "9", "-8",
}
local STRINGS = {
  '""', '"a"', '"\\0"', '"float32"', '"float32\\0"', '"cpu"', '"cuda"', '"cuda:0"', '"mean"',
  '"sum"', '"none"', '"%d%s%n"', '"1"', '"dim"', '("x"):rep(5000)', '"\\xff\\xfe"', '"ij,jk->ik"',
  '"int64"', '"\\n"', '"tanh"', '("["):rep(300)', '"tensor"',
}
local FUNCTIONS = {
  "function() end", "function(...) return ... end", 'function() error("raised on purpose") end',
  "function() error({}) end", "function() error() end", "function() coroutine.yield() end",
  "function(x) return x:exp() end", "function(x) return heed.sum(x) end",
  "function(x) x:release() return x end", "function(x) x:add_(1) return x end",
  "function() collectgarbage() return heed.ones(2) end", "tostring", "heed.exp", "pcall",
  "function(x) return heed.no_grad(function() return x * 2 end) end",
  "function(x) x:sum():backward() return x end", "function(x) return {x, y = x} end",
  "function(_, g) return g end", "function(ctx, x) ctx.n = 1 return x * x end", "error",
  "function(_, _, g) return g, g, g, g end", "function() return 1, nil, false, {} end",
  "coroutine.wrap(function(x) coroutine.yield(x) end)", "coroutine.yield", "heed.add",
}
local TABLES = {
  "{}", "{1}", "{0}", "{-1}", "{1, 2}", "{2, 3}", "{1, nil, 3}", "{1.5}", '{"a"}', "{true, false}",
  "{{1, 2}, {3, 4}}", "{{1, 2}, {3}}", "{{}}", "{{}, {}}", "{1, {2}}", "{[0] = 1}", "{[2^53] = 1}",
  "{[1 << 62] = 1}", "{n = 3}", "{dim = 1}", "{dim = 99}", '{dim = "x"}', "{dims = 1}",
  "{keepdim = 1}", "{dtype = 5}", '{dtype = "int64"}', '{["dim\\0x"] = 1}', "{[{}] = 1}",
  "{[1.5] = 1}", "{size = {2}}", '{device = "cpu"}', "{device = false}", "{requires_grad = 1}",
  "{requires_grad = true}", '{reduction = "max"}', "{eps = (0/0)}", "{1, 2, dim = 1}",
  "{math.huge}", "{math.mininteger, math.maxinteger}", "{1 << 40, 1 << 40}", "{{{{{{{{{1}}}}}}}}}",
  "(function() local t = {} t[1], t.x = t, t return t end)()",
  'setmetatable({}, {__index = function() error("raised on purpose") end})',
  'setmetatable({}, {__len = function() error("raised on purpose") end, __name = "odd"})',
  'setmetatable({}, {__pairs = function() error("raised on purpose") end, __name = 5})',
  'setmetatable({}, {__tostring = function() return 1 end, __metatable = false})',
  "setmetatable({1, 2}, {__len = function() return 1 << 40 end})",
  "setmetatable({}, {__call = function(_, x) return x end, __close = 1})",
  "setmetatable({1, 2, 3}, {__index = function(_, i) return i end})",
  "setmetatable({}, {__gc = true, __mode = 'kv'})", "heed.ones(2, 3).shape", "heed",
}
local OTHERS = {
  "nil", "nil", "true", "false", "io.stdout", "coroutine.create(print)", "coroutine.running()",
  "heed.nn.Linear(2, 3)", "heed.nn.ReLU", "heed.zeros(2, 0)", "heed.zeros({})", "heed.tensor(5)",
  "heed.optim.SGD({heed.ones(1, {requires_grad = true})})", "heed.ones({1, 1, 1, 1, 1, 1, 1, 1})",
  "(function() local t = heed.ones(2) t:release() return t end)()",
  "{heed.ones(2), heed.ones(2)}", "{heed.ones(2), heed.ones(3)}", "{heed.ones(2), 5, nil, {}}",
  "{mask = heed.ones(2)}", "{weight = heed.ones(2)}", "{bias = heed.ones(2, 2)}",
  "{heed.tensor{1}}", "heed.tensor{1, 2}", "heed.tensor{0, -5}", "heed.tensor{true, false}",
}


function values.shape_text(shape) return "{" .. concat(shape, ", ") .. "}" end


function values.shape(r, most)
  local rank = r:pick{0, 1, 1, 2, 2, 2, 3, 3, 4, 5}
  return r:list(math.min(rank, most or rank), function()
    return r:chance(0.06) and 0 or r:pick{1, 1, 2, 2, 3, 3, 4, 5, 7}
  end)
end


local SPECIAL = {
  "0/0", "1/0", "-1/0", "0.0", "-0.0", "1e-40", "65504.0", "3e38", "1e300", "-1.0", "1.0", "0.5",
}
local WHOLE = {
  "math.mininteger", "math.maxinteger", "0", "1", "-1", "255", "256", "1 << 53", "-(1 << 62)",
}

-- The same few values again and again, in a tensor that is made from a list.
local function special(r, shape, dtype, options)
  local n, from = 1, dtype:find("float") and SPECIAL or WHOLE
  for _, size in ipairs(shape) do n = n * size end
  if n > 400 then return nil end
  if dtype == "bool" then from = {"true", "false"} end
  local list = r:list(n, function() return r:pick(from) end)
  if n == 0 then return ("heed.zeros(%s, %s)"):format(values.shape_text(shape), options) end
  return ("heed.tensor({%s}, %s):reshape(%s)")
    :format(concat(list, ", "), options, values.shape_text(shape))
end


-- Elements row by row.
local function dense(r, shape, dtype, o)
  local float = dtype:find("float")
  local options = ('{dtype = "%s"%s}'):format(dtype, o.grad and float and ", requires_grad = true"
                                                     or "")
  local text = values.shape_text(shape)
  local odd = not o.tame and r:chance(0.12) and special(r, shape, dtype, options)
  if odd then return odd end
  if float and r:chance(0.1) then return ("heed.ones(%s, %s)"):format(text, options) end
  if float then return ("heed.randn(%s, %s)"):format(text, options) end
  if dtype == "bool" then return ('heed.randint(0, 1, %s):to("bool")'):format(text) end
  local low, high = o.low or (dtype == "uint8" and 0 or -3), o.high or 5
  return ('heed.randint(%d, %d, %s):to("%s")'):format(low, high, text, dtype)
end


local function with(shape, k, size)
  local other = table.move(shape, 1, #shape, 1, {})
  other[k] = size
  return other
end


local function index(shape, k, entry)
  local entries = {}
  for i = 1, #shape do entries[i] = i == k and entry or "{}" end
  return "[{" .. concat(entries, ", ") .. "}]"
end


-- Views of that shape: by the base's shape, and what follows the base.
local views = {}

function views.transposed(_, shape)
  local reversed, order = {}, {}
  for i = 1, #shape do
    reversed[i], order[i] = shape[#shape + 1 - i], #shape + 1 - i
  end
  return reversed, ":permute(" .. concat(order, ", ") .. ")"
end

function views.stepped(r, shape)
  local k = r:integer(1, #shape)
  local n = shape[k]
  return with(shape, k, 2 * n), n > 0 and index(shape, k, ("{1, %d, 2}"):format(2 * n)) or ""
end

function views.flipped(r, shape)
  local k = r:integer(1, #shape)
  return shape, shape[k] > 0 and index(shape, k, ("{%d, 1, -1}"):format(shape[k])) or ""
end

function views.expanded(r, shape)
  return with(shape, r:integer(1, #shape), 1), ":expand(" .. values.shape_text(shape) .. ")"
end

function views.narrowed(r, shape)
  local k = r:integer(1, #shape)
  return with(shape, k, shape[k] + 2), (":narrow(%d, 2, %d)"):format(k, shape[k])
end

function views.selected(r, shape)
  if #shape == 8 then return shape, "" end       -- a base has at most 8 axes
  local k, base = r:integer(1, #shape), table.move(shape, 1, #shape, 1, {})
  table.insert(base, k, 3)
  return base, (":select(%d, 2)"):format(k)
end

local VIEWS = {"transposed", "stepped", "flipped", "expanded", "narrowed", "selected"}


---A tensor of this shape and type. o: grad, it may require a gradient; tame, nothing special
---among its values; low and high, of integers; dense, it is no view.
function values.tensor(r, shape, dtype, o)
  o = o or {}
  local base, view = shape, ""
  if #shape > 0 and not o.dense and r:chance(0.45) then
    base, view = views[r:pick(VIEWS)](r, shape)
  end
  if view == "" then base = shape end
  return dense(r, base, dtype, o) .. view
end


---A shape that broadcasts with this one.
function values.broadcast(r, shape)
  local first = r:integer(1, #shape + 1)
  local other = table.move(shape, first, #shape, 1, {})
  for i = 1, #other do
    if r:chance(0.2) then other[i] = 1 end
  end
  return other
end


function values.any_tensor(r)
  return values.tensor(r, values.shape(r), r:pick(values.dtypes), {grad = r:chance(0.3)})
end


function values.number(r) return r:pick(NUMBERS) end
function values.string(r) return r:pick(STRINGS) end
function values.callable(r) return r:pick(FUNCTIONS) end
function values.table(r) return r:pick(TABLES) end


local NAMES = {
  "dim", "keepdim", "dtype", "device", "requires_grad", "weight", "reduction", "p", "eps", "alpha",
  "mask", "causal", "scale", "dropout", "lr", "bias", "size", "index", "x", "limit", "unbiased",
}

---Anything at all.
function values.nasty(r)
  local kind = r:integer(1, 12)
  if kind <= 3 then return values.number(r) end
  if kind == 4 then return values.string(r) end
  if kind == 5 then return values.callable(r) end
  if kind <= 7 then return values.table(r) end
  if kind <= 9 then return values.any_tensor(r) end
  if kind == 10 then return ("{%s = %s}"):format(r:pick(NAMES), values.nasty(r)) end
  return r:pick(OTHERS)
end

return values
