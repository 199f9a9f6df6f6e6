-- Parts that the checks of rows share: expectations, layouts, weighted gradients.

local asserted = require "spec.support.asserted"
local layouts = require "spec.support.layouts"
local reference = require "spec.support.reference"

local checks = {}

checks.is_float = {float64 = true, float32 = true, float16 = true, bfloat16 = true}

-- How far gradients of a type may be from those in float64.
checks.coarse = {float32 = 2e-5, float16 = 1e-2, bfloat16 = 6e-2}

checks.layout_names = {}
for name in pairs(layouts.lay) do table.insert(checks.layout_names, name) end
table.sort(checks.layout_names)

function checks.expect(wanted, got, name)
  asserted.note()
  if wanted ~= got then
    error(("%s: %s expected, got %s"):format(name, wanted, got), 0)
  end
end

function checks.raises(name, ...)
  asserted.note()
  if pcall(...) then error(name .. " was not refused", 0) end
end

function checks.flat(t) return t:double():reshape(-1):totable() end

function checks.leaf(list, dtype, shape)
  return reference.tensor(list, dtype, shape):requires_grad_()
end

-- Factors for results, so that a gradient depends on its position; exact in float16.
function checks.weights(n)
  local list = {}
  for i = 1, n do list[i] = (i * 7 % 5 + 1) / 4 * (i % 3 == 0 and -1 or 1) end
  return list
end

-- The leaves' gradients for results that are weighed, as lists. Each leaf must have one.
function checks.gradients(leaves, ...)
  local total
  for _, x in ipairs(leaves) do x.grad = nil end
  for _, y in ipairs {...} do
    if y.requires_grad then
      local w = reference.tensor(checks.weights(y:numel()), "float64", {y:size()})
      local sum = (y:double() * w):sum()
      total = total and total + sum or sum
    end
  end
  total:backward()
  local gs = {}
  for k, x in ipairs(leaves) do
    gs[k] = checks.flat(x.grad or error(("input %d has no gradient"):format(k), 0))
  end
  return gs
end

-- Gradients of one type against those in float64.
function checks.near(name, dtype, gs, exact)
  if #gs ~= #exact then error(("%s: %d gradients for %d"):format(name, #gs, #exact), 0) end
  for k, g in ipairs(exact) do
    for i = 1, #g do
      reference.close(("%s, %s, input %d, element %d"):format(name, dtype, k, i), gs[k][i], g[i],
                      checks.coarse[dtype])
    end
  end
end

return checks
