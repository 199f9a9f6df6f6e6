-- Tensor functions that need no C: they arrange arguments for those that do.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local method = require "heed.internal.method"
local options = require "heed.internal.options"

local arguments, called = options.arguments, core.called
local fail, is_tensor = heed.fail, heed.is_tensor

local pack, unpack = table.pack, table.unpack

local LONGEST_LIST <const> = 1 << 24         -- more parts are a mistake, most likely


-- Arguments --------------------------------------------------------------

local FACTORY = {"dtype", "requires_grad", "device"}

-- The options of a factory, to be passed on; nil if there are none.
local function factory_options(a)
  local given = {}
  for _, name in ipairs(FACTORY) do given[name] = a[name] end
  return next(given) ~= nil and given or nil
end


local function check_tensor(who, x)
  if not is_tensor(x) then fail("%s: a tensor expected, got %s", who, options.kind(x)) end
end


local function check_count(who, name, n)
  local count = type(n) == "number" and math.tointeger(n)
  if count and count > 0 then return count end
  fail("%s: argument '%s': a whole number of at least 1 expected, got %s", who, name,
       options.kind(n))
end


-- A dimension of x, the first unless given, and its size.
local function check_dim(who, x, dim)
  local d = dim == nil and 1 or type(dim) == "number" and math.tointeger(dim)
  if d and d ~= 0 and d <= x:dim() and d >= -x:dim() then return d, x:size(d) end
  fail("%s: argument 'dim': a dimension of a tensor of shape %s expected, got %s", who,
       tostring(x.shape), options.kind(d or dim))
end


-- Making -----------------------------------------------------------------

local arange = heed.arange

---The numbers from `start` to `stop`, which counts too; `arange(stop)` starts at 1.
---@param ... number|table start, stop, step, options
---@return heed.Tensor
function heed.arange(...)
  local a = arguments("arange", {"start", "end", "step"}, FACTORY, ...)
  local start, stop = a.start, a["end"]
  if stop == nil then start, stop = nil, start end
  if stop == nil then fail("arange: argument 'end' is missing") end
  return arange(start or 1, stop, a.step or 1, factory_options(a))
end


local randint = heed.randint

---Whole numbers from `low` to `high`, both counted; without `low` from 1.
---@param ... integer|table low, high, size, options
---@return heed.Tensor
function heed.randint(...)
  local a = arguments("randint", {"low", "high", "size"}, FACTORY, ...)
  if a.high == nil or a.size == nil then
    if a.size == nil then a.low, a.high, a.size = nil, a.low, a.high
    else a.low, a.high = nil, a.low end
  end
  return randint(a.low or 1, a.high, a.size, factory_options(a))
end


-- Options that make a tensor like x.
local function like(x, a)
  return {dtype = a.dtype or x.dtype, device = a.device or x.device,
          requires_grad = a.requires_grad}
end

for _, kind in ipairs {"zeros", "ones", "empty", "rand", "randn"} do
  local name, make = kind .. "_like", heed[kind]
  heed[name] = function(x, ...)
    check_tensor(name, x)
    return called(name, make, {x:size()}, like(x, arguments(name, {}, FACTORY, ...)))
  end
end

local full = heed.full

---A tensor of x's shape, type and device, full of one value.
---@param x heed.Tensor
---@param ... number|table fill_value, options
---@return heed.Tensor
function heed.full_like(x, ...)
  check_tensor("full_like", x)
  local a = arguments("full_like", {"fill_value"}, FACTORY, ...)
  return called("full_like", full, {x:size()}, a.fill_value, like(x, a))
end

---Whole numbers in x's shape, from `low` to `high`, both counted; without `low` from 1.
---@param x heed.Tensor
---@param ... integer|table low, high, options
---@return heed.Tensor
function heed.randint_like(x, ...)
  check_tensor("randint_like", x)
  local a = arguments("randint_like", {"low", "high"}, FACTORY, ...)
  if a.high == nil then a.low, a.high = nil, a.low end
  return called("randint_like", randint, a.low or 1, a.high, {x:size()}, like(x, a))
end


-- Parts ------------------------------------------------------------------

local function parts(x, dim, sizes)
  local list, from = {}, 1
  for i, n in ipairs(sizes) do
    list[i] = x:narrow(dim, from, n)
    from = from + n
  end
  return list
end


local function check_length(who, n, x)
  if n > LONGEST_LIST then
    fail("%s: a list of at most %d parts expected, got %d of a tensor of shape %s", who,
         LONGEST_LIST, n, tostring(x.shape))
  end
end


-- Sizes of parts of n elements, the last as many as are left.
local function equal_sizes(n, size)
  local sizes = {}
  for from = 1, math.max(n, 1), size do sizes[#sizes + 1] = math.min(size, n - from + 1) end
  return sizes
end


local function no_sizes(n)
  local sizes = {}
  for i = 1, n do sizes[i] = 0 end
  return sizes
end


local function read_sizes(x, given, n)
  local sizes, sum = {}, 0
  for i, size in options.entries(given) do
    local count = type(size) == "number" and math.tointeger(size)
    if not count or count < 0 then
      fail("split: a size expected at position %d, got %s", i, options.kind(size))
    end
    sizes[i], sum = count, sum + count
  end
  if sum ~= n then
    fail("split: sizes that add up to %d expected, got %d, for a tensor of shape %s", n, sum,
         tostring(x.shape))
  end
  return sizes
end


---Parts of `size` elements along `dim` (the last may be shorter), or of the sizes in a list.
method.both("split", function(x, ...)
  check_tensor("split", x)
  local a = arguments("split", {"split_size", "dim"}, {}, ...)
  local dim, n = check_dim("split", x, a.dim)
  local size = a.split_size
  if type(size) == "table" then return parts(x, dim, read_sizes(x, size, n)) end
  check_count("split", "split_size", size)
  check_length("split", n // size, x)
  return parts(x, dim, equal_sizes(n, size))
end)


---At most `chunks` parts of equal size along `dim`; the last may be shorter. Of nothing, as many
---as `chunks`.
method.both("chunk", function(x, ...)
  check_tensor("chunk", x)
  local a = arguments("chunk", {"chunks", "dim"}, {}, ...)
  local dim, n = check_dim("chunk", x, a.dim)
  local chunks = check_count("chunk", "chunks", a.chunks)
  local size = n // chunks + (n % chunks > 0 and 1 or 0)
  check_length("chunk", size > 0 and n // size or chunks, x)
  return parts(x, dim, size > 0 and equal_sizes(n, size) or no_sizes(chunks))
end)


---The slices along `dim`, without it.
method.both("unbind", function(x, ...)
  check_tensor("unbind", x)
  local dim, n = check_dim("unbind", x, arguments("unbind", {"dim"}, {}, ...).dim)
  check_length("unbind", n, x)
  local list = {}
  for i = 1, n do list[i] = x:select(dim, i) end
  return list
end)


-- Types ------------------------------------------------------------------

for name, dtype in pairs {
  float = "float32", double = "float64", half = "float16", bfloat16 = "bfloat16", long = "int64",
  byte = "uint8", bool = "bool",
} do
  method.only(name, function(x) return x:to(dtype) end)
end

method.only("cpu", function(x) return x:to("cpu") end)

method.only("cuda", function(x, device)
  local index = device == nil and 0 or type(device) == "number" and math.tointeger(device)
  if index and index >= 0 then return x:to("cuda:" .. index) end
  if type(device) == "string" and device:find("^cuda") then return x:to(device) end
  fail("cuda: argument 'device': a GPU's number from 0, or its name, expected, got %s",
       options.kind(device))
end)


-- Values as words --------------------------------------------------------

-- The entries of `words` at nested lists of ids; `at` are the positions of what is looked at.
local function look_up(words, ids, at)
  if type(ids) == "table" then
    for i, id in ipairs(ids) do
      at[#at + 1] = i
      ids[i] = look_up(words, id, at)
      at[#at] = nil
    end
    return ids
  end
  local word = words[ids]
  if word ~= nil then return word end
  fail("lookup: id %d%s lies outside of 1 to %d", ids,
       #at > 0 and " at position (" .. table.concat(at, ", ") .. ")" or "", #words)
end


---The words that ids stand for, such as those of `logits:argmax(-1)`: of an integer or a tensor
---without dimensions one word, else nested lists in the tensor's shape.
---@param words table<integer, any> a list, or a table by id
---@param ids heed.Tensor|integer
---@return any
function heed.lookup(words, ids, ...)
  options.no_more("lookup", 2, ...)
  if type(words) ~= "table" then
    fail("lookup: argument 'words': a table expected, got %s", options.kind(words))
  end
  words = rawget(words, "tokens") or words               -- of a vocabulary
  if type(ids) == "number" and math.tointeger(ids) then return look_up(words, ids, {}) end
  if not is_tensor(ids) or ids.dtype ~= "int64" and ids.dtype ~= "uint8" then
    fail("lookup: argument 'ids': an integer or an int64 tensor expected, got %s",
         options.typed(ids))
  end
  return look_up(words, called("lookup", heed.totable, ids), {})
end


-- Comparison -------------------------------------------------------------

-- Checked here: the message of 'sub' would name an operation that was not called. A single element
-- may be on any device.
local function check_together(who, x, y)
  if x.device ~= y.device and x:dim() > 0 and y:dim() > 0 then
    fail("%s: argument 'other' is on %s, argument 'input' on %s; move one with to()", who,
         y.device, x.device)
  end
end


---Is |x - y| <= atol + rtol |y| everywhere? Without options 1e-8 and 1e-5.
method.both("allclose", function(x, y, ...)
  check_tensor("allclose", x)
  check_tensor("allclose", y)
  check_together("allclose", x, y)
  local a = arguments("allclose", {"rtol", "atol", "equal_nan"}, {}, ...)
  return called("allclose", heed.isclose, x, y, a):all()
end)


-- Hooks on gradients -----------------------------------------------------

---The handle that `register_hook` returns.
---@class heed.Hook
---@field private number integer
local Hook = {__name = "heed.Hook"}
Hook.__index = Hook

---Takes the function off its tensor; nothing if it is gone.
function Hook:remove() core.remove_hook(self.number) end

Hook.__close = function(self) self:remove() end

options.guard(Hook, {remove = 0}, {
  is = function(value) return type(value) == "table" and rawequal(getmetatable(value), Hook) end,
  what = "a hook", variable = "hook",
})

---Calls f with the gradient of x in a backward pass, which goes on with what f returns, if that is
---a tensor.
method.both("register_hook", function(x, f, ...)
  check_tensor("register_hook", x)
  options.no_more("register_hook", 2, ...)
  options.callable("register_hook", "argument 'hook'", f)
  if type(f) ~= "function" then
    local callable = f
    f = function(g) return callable(g) end
  end
  return setmetatable({number = core.add_hook(x, f)}, Hook)
end)


-- Gradient check ---------------------------------------------------------

local WHOLE <const> = {int64 = true, uint8 = true, bool = true}

-- A fixed mixture of all results, so that one number's gradient tests all of them.
local function mixture(...)
  local results, sum = pack(...), nil
  for i = 1, results.n do
    local y = results[i]
    if is_tensor(y) and y.dtype:find("float") then
      local positions = heed.arange(y:numel(), {dtype = "float64", device = y.device})
      local weights = (positions * 0.7):sin():reshape({y:size()})
      local part = (y * weights):sum()
      sum = sum and sum + part or part
    end
  end
  return sum or fail("gradcheck: f must give at least one tensor of a float type")
end


local function numeric_gradient(f, xs, k, eps)
  local flat = xs[k]:detach():reshape(-1)
  local gradient = {}
  for i = 1, flat:numel() do
    local value = flat[i]
    flat[i] = value + eps
    local above = mixture(f(unpack(xs))):item()
    flat[i] = value - eps
    gradient[i] = (above - mixture(f(unpack(xs))):item()) / (2 * eps)
    flat[i] = value
  end
  return gradient
end


local function exact_gradients(f, xs, given)
  local y = mixture(f(unpack(xs)))
  return y.requires_grad and heed.grad(y, xs, given) or {}
end


-- The first element of input k whose gradient is wrong, in words; nil if there is none.
local function difference(k, x, exact, numeric, o)
  local flat = exact and exact:reshape(-1)
  for i = 1, x:numel() do
    local a, n = flat and flat[i] or 0, numeric[i]
    if not (math.abs(a - n) <= o.atol + o.rtol * math.abs(n)) then
      return ("gradcheck: input %d, element %d: %g by backward, %g by differences")
        :format(k, i, a, n)
    end
  end
end


-- The function that gives f's gradients, with graphs.
local function derivative(f)
  return function(...)
    local xs = {...}
    local gradients = heed.enable_grad(exact_gradients, f, xs, {create_graph = true})
    for k, x in ipairs(xs) do gradients[k] = gradients[k] or x:detach() * 0 end
    return unpack(gradients)
  end
end


---Compares f's gradients with central differences, in float64.
---@param f function of the tensors in xs
---@param xs heed.Tensor|heed.Tensor[] copied as float64; integers and bools beside floats stay
---@param given? {eps: number, atol: number, rtol: number, order: integer} 1e-6, 1e-5, 1e-3 and 1
---unless given
---@return boolean good, string? message of the first wrong element if not
function heed.gradcheck(f, xs, given)
  options.callable("gradcheck", "f", f)
  local o = options.read("gradcheck", given, {eps = 1e-6, atol = 1e-5, rtol = 1e-3, order = 1})
  if math.type(o.order) ~= "integer" or o.order < 1 then
    fail("gradcheck: order: 1 or more expected, got %s", tostring(o.order))
  end
  for _ = 2, o.order do f = derivative(f) end
  if is_tensor(xs) then xs = {xs} end
  if type(xs) ~= "table" then
    fail("gradcheck: a tensor or a list of tensors expected as xs, got %s", options.kind(xs))
  end
  local copies, floats, beside = {}, {}, false
  xs = options.whole("gradcheck: xs", xs)
  if #xs == 0 then fail("gradcheck: at least one tensor expected in xs, got none") end
  for _, x in ipairs(xs) do
    check_tensor("gradcheck", x)
    beside = beside or not WHOLE[x.dtype]
  end
  for k, x in ipairs(xs) do
    local kept = beside and WHOLE[x.dtype]
    copies[k] = heed.tensor(x, {dtype = kept and x.dtype or "float64"})
    if not kept then floats[#floats + 1] = k copies[k]:requires_grad_() end
  end
  local exact = heed.enable_grad(exact_gradients, f, copies)
  for _, k in ipairs(floats) do
    local numeric = heed.no_grad(numeric_gradient, f, copies, k, o.eps)
    local message = difference(k, copies[k], exact[k], numeric, o)
    if message then return false, message end
  end
  return true
end
