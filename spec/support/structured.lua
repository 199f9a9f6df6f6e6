-- Checks of the cases of spec/support/cases.lua, for spec/table_spec.lua: values on every type and
-- layout, gradients against differences.

local array = require "spec.support.array"
local checks = require "spec.support.checks"
local layouts = require "spec.support.layouts"
local reference = require "spec.support.reference"

local close, expect, is_float, leaf = reference.close, checks.expect, checks.is_float, checks.leaf
local stored = reference.stored

local structured = {}

local MOST = 12                     -- elements of an input whose gradient is compared, about

local taken_by = {
  floats = reference.floats, all = reference.types,
  numbers = {"float64", "float32", "float16", "bfloat16", "int64", "uint8"},
}

local function result_type(gives, dtype)
  if gives == nil or gives == "same" then return dtype end
  if gives == "count" then return is_float[dtype] and dtype or "int64" end
  if gives == "float" then return is_float[dtype] and dtype or "float32" end
  if gives == "statistic" then return dtype == "float64" and dtype or "float32" end
  return gives
end

-- The numbers of input k, as the type holds them.
local function operand(case, k, shape, dtype)
  local list = layouts.numbers(array.numel(shape), case.low or -2, case.high or 2,
                               10 * #case[1] + k)
  if not is_float[dtype] then
    for i, v in ipairs(list) do list[i] = 2 * v end
  end
  return stored(list, dtype)
end

-- A tensor that has a layout; the leaf that it is a view of; the leaf's elements; and a function
-- that makes the array of the tensor's elements from them.
local function laid_out(case, name, list, dtype, shape, make)
  local own = array.new(shape, list)
  local function same(a) return a end
  if name ~= "expanded" then
    local x = make(own, dtype, shape)
    return layouts.lay[name](x), x, own, same
  end
  if #shape == 0 or #list == 0 then return nil end
  local axis, small = case.expand or #shape, array.copy(shape)
  small[axis] = 1
  local first = array.pick(small, own, function(i) return i end)
  local x = make(first, dtype, small)
  return layouts.expanded(x, axis, shape[axis]), x, first, function(a)
    return array.build(shape, function(i) return array.broadcast_at(a, i) end)
  end
end

-- Lists of these for all inputs, whose layouts differ but for 'expanded'; nil where that cannot be.
local function inputs(case, shapes, dtype, layout, make)
  local xs, leaves, arrays, widen = {}, {}, {}, {}
  local names = checks.layout_names
  for k, shape in ipairs(shapes) do
    local name = layout
    if layout ~= "expanded" then name = names[(layout + k - 2) % #names + 1] end
    local list = operand(case, k, shape, dtype)
    local own = case.constant and case.constant[k] and reference.tensor or make
    xs[k], leaves[k], arrays[k], widen[k] = laid_out(case, name, list, dtype, shape, own)
    if xs[k] == nil then return nil end
  end
  return xs, leaves, arrays, widen
end

local function check_values(case, shapes, dtype, layout)
  local xs, _, arrays, widen = inputs(case, shapes, dtype, layout, reference.tensor)
  if xs == nil then return end
  for k, a in ipairs(arrays) do arrays[k] = widen[k](a) end
  local name = ("%s, %s, layout %s, rank %d"):format(case[1], dtype, layout, #(shapes[1] or {}))
  local ys, wanted = {case[2](table.unpack(xs))}, {case.value(table.unpack(arrays))}
  expect(#wanted, #ys, name .. ": results")
  for k, y in ipairs(ys) do
    local gives = case.gives
    local own = result_type(type(gives) == "table" and gives[k] or gives, dtype)
    local shape, numbers = wanted[k].shape, {}
    expect(own, y.dtype, name)
    expect(table.concat(shape, " "), table.concat({y:size()}, " "), name .. ": shape")
    for i = 1, array.numel(shape) do numbers[i] = reference.converted(wanted[k][i], own) end
    reference.compare(name, y, numbers, 3 * math.max(reference.tolerance[own],
                                                     reference.tolerance[dtype]))
  end
end

---The inputs of a case in a type: leaves where it is differentiable, laid out as number `layout` of
---checks.layout_names says and the next ones; and the leaves that have a gradient.
function structured.inputs(case, dtype, layout)
  local make = case.gradient and leaf or reference.tensor
  local xs, leaves = inputs(case, {table.unpack(case, 3)}, dtype, layout, make)
  local wanting = {}
  for _, x in ipairs(leaves) do
    if x.requires_grad then wanting[#wanting + 1] = x end
  end
  return xs, wanting
end

local function all_layouts()
  local list = {"expanded"}
  for n in ipairs(checks.layout_names) do list[n + 1] = n end
  return list
end

function structured.check_values(case)
  local shapes, taken = {table.unpack(case, 3)}, {}
  local list = case.types or "floats"
  for _, dtype in ipairs(taken_by[list] or list) do
    taken[dtype] = true
    for _, layout in ipairs(all_layouts()) do check_values(case, shapes, dtype, layout) end
    for _, others in ipairs(case.also or {}) do check_values(case, others, dtype, 1) end
    for _, others in ipairs(case.refuses or {}) do
      local xs = inputs(case, others, dtype, 1, reference.tensor)
      checks.raises(case[1] .. " of a wrong shape", case[2], table.unpack(xs))
    end
  end
  for _, dtype in ipairs(case.refuses_types ~= false and reference.types or {}) do
    if not taken[dtype] then
      local xs = inputs(case, shapes, dtype, 1, reference.tensor)
      checks.raises(case[1] .. " of " .. dtype, case[2], table.unpack(xs))
    end
  end
end

-- The weighed sum of the results that have a gradient, in plain Lua, or of heed's own.
local function total(case, arrays, which)
  local sum, results = 0
  if case.value then results = {case.value(table.unpack(arrays))}
  else
    local xs = {}
    for k, a in ipairs(arrays) do xs[k] = reference.tensor(a, "float64", a.shape) end
    results = {case[2](table.unpack(xs))}
    for k, y in ipairs(results) do results[k] = checks.flat(y) end
  end
  for k, y in ipairs(results) do
    local w = checks.weights(#y)
    for i = 1, which[k] and #y or 0 do sum = sum + w[i] * y[i] end
  end
  return sum
end

-- The derivative of that sum by element i of leaf k.
local function difference(case, arrays, widen, which, k, i)
  local h, own = 1e-5, {}
  local own_leaf = array.new(arrays[k].shape, arrays[k])
  for j, a in ipairs(arrays) do own[j] = widen[j](a) end
  local function value(step)
    own_leaf[i] = arrays[k][i] + step
    own[k] = widen[k](own_leaf)
    return total(case, own, which)
  end
  return (value(h) - value(-h)) / (2 * h)
end

local function check_gradients(case, shapes, layout)
  local xs, leaves, arrays, widen = inputs(case, shapes, "float64", layout, leaf)
  if xs == nil then return end
  local name = ("%s, layout %s"):format(case[1], layout)
  local ys, which, wanting = {case[2](table.unpack(xs))}, {}, {}
  for n, y in ipairs(ys) do which[n] = y.requires_grad end
  for k, x in ipairs(leaves) do
    if x.requires_grad then wanting[#wanting + 1] = k end
  end
  local own = {}
  for n, k in ipairs(wanting) do own[n] = leaves[k] end
  local gs = checks.gradients(own, table.unpack(ys))
  for n, k in ipairs(wanting) do
    local count = #arrays[k]
    expect(count, #gs[n], name)
    local step = math.max(1, count // MOST)
    for i = 1 + (tonumber(layout) or 0) % step, count, step do
      close(("%s, input %d, element %d"):format(name, k, i), gs[n][i],
            difference(case, arrays, widen, which, k, i), 1e-6)
    end
  end
end

-- Gradients in the other types against those in float64 at the same numbers.
local function check_type(case, shapes, dtype)
  local exact, own, xs, ys = {}, {}, {}, {}
  for k, shape in ipairs(shapes) do
    local list = operand(case, k, shape, dtype)
    local make = case.constant and case.constant[k] and reference.tensor or leaf
    xs[k], ys[k] = make(list, dtype, shape), make(list, "float64", shape)
    if make == leaf then own[#own + 1], exact[#exact + 1] = xs[k], ys[k] end
  end
  checks.near(case[1], dtype, checks.gradients(own, case[2](table.unpack(xs))),
              checks.gradients(exact, case[2](table.unpack(ys))))
end

function structured.check_gradients(case)
  local shapes = {table.unpack(case, 3)}
  for _, layout in ipairs(all_layouts()) do
    if layout ~= "expanded" or case.expand ~= false then check_gradients(case, shapes, layout) end
  end
  for _, others in ipairs(case.also or {}) do check_gradients(case, others, 1) end
  if type(case.types) ~= "table" then
    for _, dtype in ipairs {"float32", "float16", "bfloat16"} do check_type(case, shapes, dtype) end
  end
end

return structured
