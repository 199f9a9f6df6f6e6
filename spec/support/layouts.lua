-- Layouts that every operation must take: the same values, lying differently in memory.

local heed = require "heed"
local sealed = require "spec.support.sealed"

local layouts = {}

-- Each gives a tensor of shape (2, 3, 4) with the values 1 to 24 of `list`, in order.
local SHAPE = {2, 3, 4}

function layouts.dense(list, dtype)
  return heed.tensor(list, {dtype = dtype}):reshape(SHAPE)
end

function layouts.transposed(list, dtype)
  return layouts.dense(list, dtype):permute(3, 1, 2):contiguous():permute(2, 3, 1)
end

function layouts.sliced(list, dtype)
  local wide = heed.zeros(2, 5, 9, {dtype = dtype})
  local part = wide[{{}, {2, 4}, {1, 8, 2}}]
  part:copy_(layouts.dense(list, dtype))
  return part
end

function layouts.reversed(list, dtype)
  return layouts.dense(list, dtype):flip(3)[{{}, {}, {4, 1, -1}}]
end

-- One step for all axes: it fuses to a single one.
function layouts.stepped(list, dtype)
  local wide = heed.zeros(2, 3, 4, 2, {dtype = dtype})
  local part = wide:select(4, 2)
  part:copy_(layouts.dense(list, dtype))
  return part
end

-- The views alone, for gradients: from a leaf of shape (2, 3, 4) to one of these layouts.
layouts.views = {
  dense = function(x) return x end,
  transposed = function(x) return x:transpose(1, 3) end,
  sliced = function(x) return x[{{}, {1, 3, 2}, {2, 4}}] end,
  broadcast = function(x) return x:narrow(2, 1, 1):expand(2, 5, 4) end,
  reversed = function(x) return x[{{}, {}, {4, 1, -1}}] end,
  stepped = function(x) return x:flatten()[{{1, 23, 2}}]:reshape(3, 4) end,
}

layouts.names = {"dense", "transposed", "sliced", "reversed", "stepped"}

-- The same tensor, of any shape, lying differently: each gives a view that gradients pass through.
layouts.lay = {
  dense = function(x) return x:contiguous() end,
  transposed = function(x)
    local order = {}
    for k = 1, x:dim() do order[k] = x:dim() + 1 - k end
    return x:permute(order):contiguous():permute(order)
  end,
  sliced = function(x)                     -- a step along every axis
    if x:dim() == 0 then return heed.stack({x, x, x}, 1):select(1, 2) end
    if x:numel() == 0 then return x end
    local y, wide = x, {}
    for k = 1, x:dim() do
      y, wide[k] = y:repeat_interleave(2, k), {1, 2 * x:size(k), 2}
    end
    return y[wide]
  end,
  flipped = function(x)                    -- negative strides
    if x:dim() == 0 or x:numel() == 0 then return x end
    local y, back = x, {}
    for k = 1, x:dim() do y, back[k] = y:flip(k), {x:size(k), 1, -1} end
    return y[back]
  end,
}

-- An axis of size 1 as if it had n: the stride is 0.
function layouts.expanded(x, axis, n)
  local shape = {x:size()}
  shape[axis] = n
  return x:expand(shape)
end

-- The instruction levels that this CPU has; in a sealed state the one that is set.
function layouts.levels()
  local list, now = {}, heed.level()
  if sealed.here then return {now} end
  for _, name in ipairs {"base", "avx2", "avx512", "neon"} do
    if pcall(heed.level, name) then list[#list + 1] = name end
  end
  heed.level(now)
  return list
end

-- Calls f(level) on each of them, and sets the former level again.
function layouts.on_each_level(f)
  local now = heed.level()
  for _, name in ipairs(layouts.levels()) do
    if name ~= now then heed.level(name) end
    local good, why = pcall(f, name)
    if name ~= now then heed.level(now) end
    if not good then error(name .. ": " .. tostring(why), 0) end
  end
end

-- Numbers that repeat from run to run without touching heed's generator.
function layouts.numbers(n, low, high, seed)
  local list, state = {}, (seed or 1) * 2654435761 % 2147483647
  for i = 1, n do
    state = state * 48271 % 2147483647
    list[i] = low + (high - low) * state / 2147483647
  end
  return list
end

return layouts
