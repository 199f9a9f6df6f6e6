-- Checks of elementwise rows, for spec/table_spec.lua: values on every type and layout against
-- spec/support/reference.lua, gradients against differences of the same functions.

local heed = require "heed"
local checks = require "spec.support.checks"
local layouts = require "spec.support.layouts"
local reference = require "spec.support.reference"

local close, compare, stored = reference.close, reference.compare, reference.stored
local expect, is_float, leaf = checks.expect, checks.is_float, checks.leaf
local lay, tolerance = layouts.lay, reference.tolerance
local layout_names, weights = checks.layout_names, checks.weights

local elementwise = {}

local SHAPE, COUNT = {2, 3, 4}, 24


-- Inputs ------------------------------------------------------------------------------------------

-- The type that a row gives for inputs of a type, or nil where it refuses them.
local function result_type(row, dtype)
  if row.domain == "TEST" then return "bool" end
  if row.domain == "FLT" and not is_float[dtype] then return "float32" end
  if row.domain == "NUM" and dtype == "bool" then return nil end
  return dtype
end

-- Numbers that a type holds, between the bounds of an entry, and its others.
local function operand(entry, dtype, seed)
  local low, high = entry[2] or -3, entry[3] or 3
  if is_float[dtype] then
    local list, more = layouts.numbers(COUNT, low, high, seed), entry.more or {}
    for i, v in ipairs(more) do list[COUNT - #more + i] = v end
    for i = 1, entry.signed and COUNT or 0, 3 do list[i] = -list[i] end
    return stored(list, dtype)
  end
  local list, least, most = {}, math.ceil(low), math.floor(high)
  if dtype == "uint8" then least = math.max(least, 0) end
  if dtype == "bool" then least, most = 0, 1 end
  for i = 1, COUNT do list[i] = least + (i * i + seed) % (most - least + 1) end
  return list
end

-- The first of each row of four, and a list that repeats them.
local function first_column(list)
  local first, wide = {}, {}
  for i = 1, COUNT, 4 do first[#first + 1] = list[i] end
  for i = 1, COUNT do wide[i] = first[(i - 1) // 4 + 1] end
  return first, wide
end

-- {name, tensor, its list} for each layout.
local function laid_out(list, dtype)
  local all = {}
  for k, name in ipairs(layout_names) do
    all[k] = {name, lay[name](reference.tensor(list, dtype, SHAPE)), list}
  end
  local first, wide = first_column(list)
  local column = reference.tensor(first, dtype, {2, 3, 1})
  all[#all + 1] = {"expanded", layouts.expanded(column, 3, 4), wide}
  return all
end

-- The results of f for the elements of all lists.
local function applied(f, dtype, lists)
  local wanted = {}
  for i = 1, #lists[1] do
    local values = {}
    for k, list in ipairs(lists) do values[k] = list[i] end
    wanted[i] = reference.converted(f(table.unpack(values)), dtype)
  end
  return wanted
end

elementwise.applied = applied


-- Values ------------------------------------------------------------------------------------------

-- The argument of a check: the row, its name for messages, the call, its function in plain Lua,
-- its entry in spec/support/reference.lua, the types of its inputs for a type.
local function call_of(row, entry, f, args, ties)
  return {
    row = row, entry = entry, f = f, ties = ties, args = args,
    name = row.name .. (#args > 0 and " with " .. args[1] or ""),
    op = function(...)
      local xs = {...}
      table.move(args, 1, #args, #xs + 1, xs)
      return heed[row.name](table.unpack(xs))
    end,
    types = function(dtype, k) return entry.condition and k == 1 and "bool" or dtype end,
  }
end

-- One element, rank 0 and no elements.
local function check_edges(c, dtype, gives, lists)
  for _, shape in ipairs {{1, 1}, {}, {0, 4}} do
    local n, xs, ones = shape[1] == 0 and 0 or 1, {}, {}
    for k, list in ipairs(lists) do
      ones[k] = table.move(list, 1, n, 1, {})
      xs[k] = reference.tensor(ones[k], c.types(dtype, k), shape)
    end
    local y = c.op(table.unpack(xs))
    expect(gives, y.dtype, c.name)
    expect(table.concat(shape, " "), table.concat({y:size()}, " "), c.name)
    compare(c.name, y, applied(c.f, gives, ones), tolerance[gives])
  end
end

local function check_in_place(c, which, y, xs)
  if not c.row.in_place or xs[1].dtype ~= y.dtype then return end
  local own = xs[1]:contiguous():clone()
  local rest = table.move(xs, 2, #xs, 1, {})
  table.move(c.args, 1, #c.args, #rest + 1, rest)
  expect(own, heed[c.row.name .. "_"](own, table.unpack(rest)), which .. " in place")
  compare(which .. " in place", own, checks.flat(y), 0)
end

-- Each layout of the first input with several of the others.
local function check_type(c, dtype, gives, lists)
  local laid, n = {}, #lists
  for k, list in ipairs(lists) do laid[k] = laid_out(list, c.types(dtype, k)) end
  for i = 1, #laid[1] do
    for shift = 0, n > 1 and 2 or 0 do
      local xs, own, which = {}, {}, {c.name, dtype}
      for k = 1, n do
        local l = laid[k][(i - 1 + shift * (k - 1)) % #laid[k] + 1]
        which[k + 2], xs[k], own[k] = l[1], l[2], l[3]
      end
      which = table.concat(which, " ")
      local y = c.op(table.unpack(xs))
      expect(gives, y.dtype, which)
      compare(which, y, applied(c.f, gives, own), tolerance[gives])
      check_in_place(c, which, y, xs)
    end
  end
end

local function check_values(c)
  for _, dtype in ipairs(reference.types) do
    local gives, lists, xs = result_type(c.row, dtype), {}, {}
    for k = 1, c.row.inputs do
      local own = c.types(dtype, k)
      lists[k] = operand(c.entry, own, #c.name + 5 * k)
      xs[k] = reference.tensor(lists[k], own, SHAPE)
    end
    if gives == nil then checks.raises(c.name .. " of " .. dtype, c.op, table.unpack(xs))
    elseif is_float[dtype] or #c.args == 0 then
      check_type(c, dtype, gives, lists)
      check_edges(c, dtype, gives, lists)
    end
  end
end


-- Gradients ---------------------------------------------------------------------------------------

-- Is the point far from those where a row of the table may have a kink? Kinks are halves near 0 for
-- one input; for more, where one is a multiple of another.
local function smooth(a, b, c)
  if not b then return math.abs(a) > 4 or math.abs(2 * a - math.floor(2 * a + 0.5)) > 0.02 end
  local ratio = a / b
  if c and not (smooth(a, c) and smooth(b, c)) then return false end
  return math.abs(a - b) > 0.01 and math.abs(ratio - math.floor(ratio + 0.5)) > 0.01
end

-- The derivative by argument k, by differences of the fourth order; false near a kink.
local function derivative(c, k, lists, i)
  local at, f, h = {}, c.f, 3e-4
  for j, list in ipairs(lists) do at[j] = list[i] end
  if not c.entry.condition and not smooth(table.unpack(at)) then return false end
  local function value(step)
    local own = table.move(at, 1, #at, 1, {})
    own[k] = own[k] + step
    return f(table.unpack(own))
  end
  return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
end

-- Leaves, and their layouts, the first of which is number n; a condition has no gradient.
local function leaves_of(c, lists, dtype, n)
  local leaves, xs, wanting = {}, {}, {}
  for k, list in ipairs(lists) do
    local own = c.types(dtype, k)
    leaves[k] = own == dtype and leaf(list, dtype, SHAPE) or reference.tensor(list, own, SHAPE)
    xs[k] = lay[layout_names[(n + k - 2) % #layout_names + 1]](leaves[k])
    if own == dtype then wanting[#wanting + 1] = leaves[k] end
  end
  return xs, wanting
end

local function check_layouts(c, lists)
  local w, wanted, skipped = weights(COUNT), {}, c.entry.condition and 1 or 0
  for k = 1 + skipped, #lists do
    local own = {}
    for i = 1, COUNT do
      local d = derivative(c, k, lists, i)
      own[i] = d and d * w[i]
    end
    wanted[k - skipped] = own
  end
  for n, layout in ipairs(layout_names) do
    local xs, leaves = leaves_of(c, lists, "float64", n)
    for k, g in ipairs(checks.gradients(leaves, c.op(table.unpack(xs)))) do
      for i = 1, COUNT do
        if wanted[k][i] then
          close(("%s, %s, input %d, element %d"):format(c.name, layout, k, i), g[i], wanted[k][i],
                1e-7)
        end
      end
    end
  end
end

-- Input k is expanded: its gradient is the sum of its elements' derivatives.
local function check_expanded(c, lists, k)
  local first, wide = first_column(lists[k])
  local xs, own = leaves_of(c, lists, "float64", 1), table.move(lists, 1, #lists, 1, {})
  own[k] = wide
  local x, w = leaf(first, "float64", {2, 3, 1}), weights(COUNT)
  xs[k] = layouts.expanded(x, 3, 4)
  local g = checks.gradients({x}, c.op(table.unpack(xs)))[1]
  for n = 1, #first do
    local sum = 0
    for i = 4 * n - 3, 4 * n do
      local d = derivative(c, k, own, i)
      sum = sum and d and sum + w[i] * d
    end
    local name = ("%s, expanded input %d, element %d"):format(c.name, k, n)
    if sum then close(name, g[n], sum, 1e-6) end
  end
end

-- In the other types, at numbers that these hold.
local function check_other_type(c, lists, dtype)
  local own = {}
  for k, list in ipairs(lists) do own[k] = stored(list, dtype) end
  local xs, leaves = leaves_of(c, own, dtype, 1)
  local ys, exact = leaves_of(c, own, "float64", 1)
  checks.near(c.name, dtype, checks.gradients(leaves, c.op(table.unpack(xs))),
              checks.gradients(exact, c.op(table.unpack(ys))))
end

-- Gradients of zero stay zero.
local function check_zeros(c, lists)
  local xs, leaves = leaves_of(c, lists, "float64", 1)
  local y = c.op(table.unpack(xs))
  y:backward(heed.zeros_like(y))
  for k, x in ipairs(leaves) do assert(x.grad:eq(0):all(), c.name .. ", zeros, input " .. k) end
end

-- Where differences do not say what the derivative is.
local function check_ties(c)
  local n = c.row.inputs
  for _, tie in ipairs(c.ties or {}) do
    for _, dtype in ipairs(reference.floats) do
      local leaves = {}
      for k = 1, n do leaves[k] = leaf({tie[k]}, dtype, {1}) end
      for k, g in ipairs(checks.gradients(leaves, c.op(table.unpack(leaves)))) do
        close(("%s at %g, %s, input %d"):format(c.name, tie[1], dtype, k), g[1],
              weights(1)[1] * tie[n + k], checks.coarse[dtype] or 1e-12)
      end
    end
  end
end

local function check_gradients(c)
  local lists = {}
  for k = 1, c.row.inputs do
    lists[k] = operand(c.entry, c.types("float64", k), #c.name + 7 * k)
  end
  check_layouts(c, lists)
  for k = c.entry.condition and 2 or 1, #lists do check_expanded(c, lists, k) end
  for _, dtype in ipairs {"float32", "float16", "bfloat16"} do check_other_type(c, lists, dtype) end
  check_zeros(c, lists)
  check_ties(c)
end


-- The entry of a row in spec/support/reference.lua, or nil.
function elementwise.entry(row)
  local tests = {reference.unary_tests, reference.tests, {}}
  local lists = {reference.unary, reference.binary, reference.ternary}
  if row.domain ~= "TEST" then return lists[row.inputs][row.name] end
  local f = tests[row.inputs][row.name]
  return f and {f, -2, 2, more = {0 / 0, 1 / 0, -1 / 0, 0, 1, 2, 1}}
end

---Numbers for the inputs of a row in a type, as tensors whose layouts differ; and those that have
---a gradient.
function elementwise.inputs(row, dtype, layout)
  local c, lists = call_of(row, elementwise.entry(row), nil, {}), {}
  for k = 1, row.inputs do lists[k] = operand(c.entry, c.types(dtype, k), 5 * k) end
  return leaves_of(c, lists, dtype, layout)
end

function elementwise.check(row)
  local entry = elementwise.entry(row)
  local calls = {{{}, entry[1], ties = entry.ties}}
  table.move(entry.calls or {}, 1, #(entry.calls or {}), 2, calls)
  for _, call in ipairs(calls) do
    local c = call_of(row, entry, call[2], call[1], call.ties)
    check_values(c)
    if row.differentiable then check_gradients(c) end
  end
end

return elementwise
