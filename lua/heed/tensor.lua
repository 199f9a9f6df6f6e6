-- Tensor functions that need no C: they arrange arguments for those that do.

local core = require "heed.core"
local heed = require "heed"

local fail, is_tensor, methods = heed.fail, heed.is_tensor, core.methods

local unpack = table.unpack


-- Functions that are methods too.
local function both(name, f)
  heed[name], methods[name] = f, f
end


-- Splits the options from the end of an argument list.
local function take_options(...)
  local n = select("#", ...)
  if n == 0 then return nil, {n = 0} end
  local last = select(n, ...)
  if type(last) == "table" and getmetatable(last) == nil and #last == 0
      and next(last) ~= nil then
    return last, {n = n - 1, unpack({...}, 1, n - 1)}
  end
  return nil, {n = n, ...}
end


-- Making -----------------------------------------------------------------

local arange = heed.arange

---The numbers from `start` to `stop`, which counts too; `arange(stop)` starts at 1.
---@param ... number|table start, stop, step, options
---@return heed.Tensor
function heed.arange(...)
  local options, a = take_options(...)
  if a.n == 0 or a.n > 3 then fail("arange: 1 to 3 numbers expected, got %d", a.n) end
  local start, stop, step = unpack(a, 1, 3)
  if a.n == 1 then start, stop = 1, start end
  return arange(start, stop, step or 1, options)
end


local randint = heed.randint

---Whole numbers from `low` to `high`, both counted; without `low` from 1.
---@param ... integer|table low, high, size, options
---@return heed.Tensor
function heed.randint(...)
  local options, a = take_options(...)
  if a.n < 2 or a.n > 3 then
    fail("randint: (high, size) or (low, high, size) expected, got %d arguments", a.n)
  end
  if a.n == 2 then return randint(1, a[1], a[2], options) end
  return randint(a[1], a[2], a[3], options)
end


local function like_options(name, x, options)
  if not is_tensor(x) then fail("%s: a tensor expected, got %s", name, type(x)) end
  local all = {dtype = x.dtype, device = x.device}
  for key, value in pairs(options or {}) do all[key] = value end
  return all
end

for _, kind in ipairs {"zeros", "ones", "empty", "rand", "randn"} do
  local make, name = heed[kind], kind .. "_like"
  heed[name] = function(x, options)
    local all = like_options(name, x, options)
    return make({x:size()}, all)
  end
end

---A tensor of x's shape, type and device, full of one value.
---@param x heed.Tensor
---@param value number
---@param options? table
---@return heed.Tensor
function heed.full_like(x, value, options)
  local all = like_options("full_like", x, options)
  return heed.full({x:size()}, value, all)
end

---Whole numbers from `low` to `high`, both counted, in x's shape.
---@param x heed.Tensor
---@param low integer
---@param high integer
---@param options? table
---@return heed.Tensor
function heed.randint_like(x, low, high, options)
  local all = like_options("randint_like", x, options)
  return randint(low, high, {x:size()}, all)
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


local function check_count(name, argument, n)
  if math.type(n) == "float" and n == math.floor(n) then n = math.tointeger(n) end
  if math.type(n) ~= "integer" or n < 1 then
    fail("%s: argument '%s': a whole number of at least 1 expected, got %s", name, argument,
         tostring(n))
  end
  return n
end


---Parts of `size` elements along `dim` (the last may be shorter), or of the sizes in a list.
both("split", function(x, size, dim)
  dim = dim or 1
  local n, sizes = x:size(dim), size
  if type(size) ~= "table" then
    size, sizes = check_count("split", "size", size), {}
    for from = 1, math.max(n, 1), size do sizes[#sizes + 1] = math.min(size, n - from + 1) end
  end
  local sum = 0
  for _, s in ipairs(sizes) do sum = sum + s end
  if sum ~= n then
    fail("split: sizes that add up to %d expected, got %d, for a tensor of shape %s", n, sum,
         tostring(x.shape))
  end
  return parts(x, dim, sizes)
end)


---At most `n` parts of equal size along `dim`; the last may be shorter.
both("chunk", function(x, n, dim)
  n = check_count("chunk", "chunks", n)
  return x:split(math.max(1, (x:size(dim or 1) + n - 1) // n), dim)
end)


---The slices along `dim`, without it.
both("unbind", function(x, dim)
  local list = {}
  for i = 1, x:size(dim or 1) do list[i] = x:select(dim or 1, i) end
  return list
end)


-- Types ------------------------------------------------------------------

for name, dtype in pairs {float = "float32", double = "float64", half = "float16",
                          bfloat16 = "bfloat16", long = "int64", bool = "bool"} do
  methods[name] = function(x) return x:to(dtype) end
end
methods.cpu = function(x) return x:to("cpu") end


-- Comparison -------------------------------------------------------------

local close_options = {rtol = 1e-5, atol = 1e-8, equal_nan = false}

---Is |x - y| <= atol + rtol |y| everywhere?
both("allclose", function(x, y, options)
  local o = {}
  for key, value in pairs(close_options) do o[key] = value end
  for key, value in pairs(options or {}) do
    if o[key] == nil then fail("allclose: unknown option '%s'", tostring(key)) end
    o[key] = value
  end
  return heed.no_grad(function()
    local near = x:sub(y):abs():le(heed.abs(y):mul(o.rtol):add(o.atol)) | x:eq(y)
    if o.equal_nan then near = near | (x:isnan() & y:isnan()) end
    return near:all()
  end)
end)


-- Operations of the user's -----------------------------------------------

local function tensors_of(args)
  local list = {}
  for i = 1, args.n do
    if is_tensor(args[i]) then list[#list + 1] = args[i] end
  end
  return list
end


local function any_requires_grad(list)
  for _, t in ipairs(list) do
    if t.requires_grad then return true end
  end
  return false
end


-- Gradients for all arguments, less those of arguments that are no tensors.
local function only_tensors(args, ...)
  local all, list, n = {...}, {}, 0
  for i = 1, args.n do
    if is_tensor(args[i]) then n = n + 1; list[n] = all[i] or false end
  end
  return unpack(list, 1, n)
end


---A differentiable function of your own.
---
---`forward(ctx, ...)` gives the results, nothing in it is recorded; `backward(ctx, g, ...)` gets
---the results' gradients (nil for none) and gives one for each argument of forward, nil where
---there is none. `ctx` is a table for what backward needs.
---@param rules {forward: function, backward: function}
---@return function
function heed.custom(rules)
  if type(rules) ~= "table" or not rules.forward or not rules.backward then
    fail("custom: a table with the functions 'forward' and 'backward' expected")
  end
  return function(...)
    local ctx, args = {}, table.pack(...)
    local results = table.pack(heed.no_grad(rules.forward, ctx, ...))
    local inputs = tensors_of(args)
    if not heed.is_grad_enabled() or not any_requires_grad(inputs) then
      return unpack(results, 1, results.n)
    end
    for i = 1, results.n do
      if is_tensor(results[i]) then results[i] = results[i]:detach() end
    end
    core.record(tensors_of(results), inputs, function(...)
      return only_tensors(args, rules.backward(ctx, ...))
    end)
    return unpack(results, 1, results.n)
  end
end


-- Runs f once more, from the same random numbers, with gradients; gs are those of its results.
local function walk_again(f, args, state, gs)
  local inputs, found, now = {n = args.n}, {}, heed.rng_state()
  heed.rng_state(state)
  for i = 1, args.n do
    inputs[i] = args[i]
    if is_tensor(args[i]) and args[i].requires_grad then
      local catch = heed.custom {
        forward = function(_, x) return x end,
        backward = function(_, g) found[i] = g end,
      }
      inputs[i] = catch(args[i]:detach():requires_grad_())
    end
  end
  local results = tensors_of(table.pack(f(unpack(inputs, 1, inputs.n))))
  heed.rng_state(now)
  local sum
  for i, y in ipairs(results) do
    if gs[i] and y.requires_grad then
      local part = (y * gs[i]):sum()
      sum = sum and sum + part or part
    end
  end
  if sum then sum:backward() end
  return found
end


---f(...), without keeping what its gradient needs: backward runs f again.
---@param f function
---@param ... any
---@return any ...
function heed.checkpoint(f, ...)
  if not heed.is_grad_enabled() then return f(...) end
  local args, state = table.pack(...), heed.rng_state()
  local run = heed.custom {
    forward = function(_, _, ...) return f(...) end,
    backward = function(_, ...)
      local found = heed.enable_grad(walk_again, f, args, state, table.pack(...))
      return nil, unpack(found, 1, args.n)
    end,
  }
  return run(heed.zeros({}, {requires_grad = true}), ...)   -- f's own leaves may want gradients
end


-- Gradient check ---------------------------------------------------------

-- A fixed mixture of all results, so that one number's gradient tests all of them.
local function mixture(...)
  local sum
  for _, y in ipairs(tensors_of(table.pack(...))) do
    if y.dtype:find("^float") then
      local weights = (heed.arange(y:numel(), {dtype = "float64"}) * 0.7):sin():reshape({y:size()})
      local part = (y * weights):sum()
      sum = sum and sum + part or part
    end
  end
  return sum or fail("gradcheck: f must give at least one tensor of a float type")
end


local function numeric_gradient(f, xs, k, eps)
  local flat = xs[k]:detach():reshape(-1)
  local slope = {}
  for i = 1, flat:numel() do
    local value = flat[i]
    flat[i] = value + eps
    local above = mixture(f(unpack(xs))):item()
    flat[i] = value - eps
    slope[i] = (above - mixture(f(unpack(xs))):item()) / (2 * eps)
    flat[i] = value
  end
  return slope
end


---Compares f's gradients with central differences, in float64.
---@param f function of the tensors in xs
---@param xs heed.Tensor|heed.Tensor[] copied as float64
---@param options? {eps: number, atol: number, rtol: number} 1e-6, 1e-5 and 1e-3 unless given
---@return boolean good, string? message of the worst element if not
function heed.gradcheck(f, xs, options)
  local o = {eps = 1e-6, atol = 1e-5, rtol = 1e-3}
  for key, value in pairs(options or {}) do
    if not o[key] then fail("gradcheck: unknown option '%s'", tostring(key)) end
    o[key] = value
  end
  if is_tensor(xs) then xs = {xs} end
  local leaves = {}
  for k, x in ipairs(xs) do
    leaves[k] = heed.tensor(x, {dtype = "float64"}):contiguous():requires_grad_()
  end
  local exact = heed.grad(mixture(f(unpack(leaves))), leaves)
  for k, x in ipairs(leaves) do
    local numeric = heed.no_grad(numeric_gradient, f, leaves, k, o.eps)
    local flat = exact[k] and exact[k]:reshape(-1)
    for i = 1, x:numel() do
      local a, n = flat and flat[i] or 0, numeric[i]
      if not (math.abs(a - n) <= o.atol + o.rtol * math.abs(n)) then
        return false, ("gradcheck: input %d, element %d: %g by the rule, %g by differences")
          :format(k, i, a, n)
      end
    end
  end
  return true
end


-- Devices ----------------------------------------------------------------

heed.cuda = {
  ---Is there a GPU? Otherwise false and the reason.
  available = function() return false, "built without CUDA" end,
  device_count = function() return 0 end,
}

return heed
