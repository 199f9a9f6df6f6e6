-- Every row of ops.def, with its gradient, its gradient's graph and its variant in place, while a
-- request for memory fails: the call fails and says why, or gives what it gives anyhow; its
-- arguments are as they were, and the next call is right. Each request fails with HEED_SWEEP=1;
-- without it, one of STRIDE.

local fail_after, compose = ...
local cases = require "spec.support.cases"
local changes = require "spec.support.changes"
local checks = require "spec.support.checks"
local elementwise = require "spec.support.elementwise"
local heed = require "heed"
local rows = require "spec.support.rows"
local structured = require "spec.support.structured"

local STRIDE <const> = os.getenv "HEED_SWEEP" == "1" and 1 or 5
local LONG <const> = 20000
local AGAIN <const> = 8                -- of the calls that failed one is made again

local tried, tries = 0, 0


-- Calls f while request n fails, and all after it if `onwards`: whether one failed, then as pcall.
local function starved(n, onwards, f, ...)
  heed.manual_seed(7)
  fail_after(n, onwards)
  local results = table.pack(pcall(f, ...))
  return fail_after(-1), table.unpack(results, 1, results.n)
end

local function same(what, wanted, value)
  local text = changes.text(value)
  if text ~= wanted then error(("%s: %q expected, got %q"):format(what, wanted, text), 0) end
end

local function try_once(what, make, f, wanted, before, n, onwards)
  local arguments = {make()}
  local failed, good, result = starved(n, onwards, f, table.unpack(arguments))
  if good then same(what, wanted, result)
  else
    local why = tostring(result)                         -- a kernel's own has no size
    if not why:find "[%w_.]+: not enough memory: " and not why:find ": not enough memory$" then
      error(what .. ": " .. why, 0)
    end
    same(what .. ", its arguments", before, arguments)
    if n // STRIDE % AGAIN == 0 then
      local _, fine, value = starved(-1, false, f, make())
      if not fine then error(what .. ", then " .. tostring(value), 0) end
      same(what .. ", then", wanted, value)
    end
  end
  tried = tried + 1
  return failed
end

-- make() gives arguments for f, always the same. Of requests one in 'stride' fails.
local function try(name, make, f, stride)
  stride = stride or STRIDE
  local before = changes.text{make()}
  local _, good, result = starved(-1, false, f, make())
  if not good then error(name .. ": " .. tostring(result), 0) end
  local wanted = changes.text(result)
  tries = tries + 1
  for _, onwards in ipairs{false, true} do
    local n, failed = tries % stride, true
    while failed do
      local what = ("%s without request %d%s"):format(name, n, onwards and " and all after" or "")
      failed = try_once(what, make, f, wanted, before, n, onwards)
      n = n + stride * (onwards and 8 or 1)
    end
  end
end


-- The weighed sum of the results that have a gradient.
local function total(ys)
  local sum
  for _, y in ipairs(ys) do
    if y.requires_grad then
      local w = heed.tensor(checks.weights(y:numel()), {dtype = "float32"}):reshape(y.shape)
      local own = (y:float() * w):sum()
      sum = sum and sum + own or own
    end
  end
  return sum
end

-- The results of f and the gradients of the leaves of its inputs.
local function try_gradients(name, inputs, f, dtype, options)
  local leaves
  local function make()
    local xs
    xs, leaves = inputs(dtype)
    return table.unpack(xs)
  end
  try(("%s in %s%s"):format(name, dtype, options and ", create_graph" or ""), make, function(...)
    local ys = {f(...)}
    local sum = total(ys)
    return {ys, sum and heed.grad(sum, leaves, options)}
  end)
end


local function try_elementwise(row)
  local f = heed[row.name]
  local function inputs(dtype) return elementwise.inputs(row, dtype, 2) end
  try_gradients(row.name, inputs, f, "float32", row.differentiable and {create_graph = true})
  if row.in_place then
    try(row.name .. "_", function()
      local xs = inputs "float32"
      for k, x in ipairs(xs) do xs[k] = x:detach():clone() end
      return table.unpack(xs)
    end, heed[row.name .. "_"])
  end
end

local function try_case(case)
  local types = type(case.types) == "table" and case.types or {"float32", "bfloat16"}
  local function inputs(dtype) return structured.inputs(case, dtype, 2) end
  try_gradients(case[1], inputs, case[2], types[1])
  compose(true)
  try_gradients(case[1] .. ", composed,", inputs, case[2], types[2] or types[1])
  compose(false)
  if case.second then try_gradients(case[1], inputs, case[2], types[1], {create_graph = true}) end
end

-- A check that goes through all of its row: what fails in it for another reason is wrong.
local function try_check(case)
  local n, failed = 0, true
  while failed do
    local good, result
    failed, good, result = starved(n, false, case.check)
    if not good and not tostring(result):find("not enough memory", 1, true) then
      error(("%s without request %d: %s"):format(case[1], n, result), 0)
    end
    n, tried = n + 1 + n // (40 // STRIDE), tried + 1
  end
end


heed.threads(1)
for _, row in ipairs(rows.list) do
  if row.elementwise then try_elementwise(row) end
  for _, case in ipairs(cases.values[row.name] or {}) do
    if case.check then try_check(case) else try_case(case) end
  end
end

-- A shuffle, a copy over what it reads, and rows too long for what kernels have on the stack.
try("randperm", function() return 50 end, heed.randperm, 1)
try("copy_", function() return heed.arange(1, 50) end, function(x)
  x:narrow(1, 2, 49):copy_(x:narrow(1, 1, 49))
  return x
end, 1)
for name, f in pairs{
  softmax = function(x) return x:softmax(2) end,
  log_softmax = function(x) return x:log_softmax(2) end,
  layer_norm = function(x) return heed.layer_norm(x, {x.shape[2]}) end,
  rms_norm = function(x) return heed.rms_norm(x, x.shape[2]) end,
  sort = function(x) return (x:sort(2)) end, topk = function(x) return (x:topk(9, 2)) end,
  sum = function(x) return x:sum(1) end, var = function(x) return x:var(1) end,
  cumsum = function(x) return x:cumsum(2) end, gelu = function(x) return x:t():gelu() end,
  argsort = function(x) return x:argsort(2) end,
} do
  for _, dtype in ipairs{"float32", "bfloat16", "float64"} do
    try(name .. " of long rows in " .. dtype, function()
      return (heed.arange(1, 2 * LONG) % 17 - 8):view(2, LONG):to(dtype):requires_grad_(true)
    end, function(x)
      local y = f(x)
      local sum = (y:double() * heed.arange(1, y:numel()):view(y.shape):double()):sum()
      return {sum, sum.requires_grad and heed.grad(sum, x):double():sum() or nil}
    end, 1)
  end
end

return ("%d calls"):format(tried)
