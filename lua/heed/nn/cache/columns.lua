-- Keys and values of one layer, as a value: columns of (B, H, S, D) in two buffers.
--
-- The layer's columns are the `count` ones behind the first `at`. Where no other value shares the
-- rest of the buffers, the columns are `open`: new ones are written behind them in place. Where
-- gradients are recorded, columns are copied instead: a graph's saved tensors must not change.

local heed = require "heed"
local options = require "heed.internal.options"

---@class heed.cache.columns
---@field k heed.Tensor (B, Hk, capacity, D)
---@field v heed.Tensor (B, Hk, capacity, Dv)
---@field at integer
---@field count integer
---@field open boolean

local columns = {}


---Two tensors as they are.
---@param k heed.Tensor (B, Hk, S, D)
---@param v heed.Tensor (B, Hk, S, Dv)
---@return heed.cache.columns
function columns.new(k, v)
  return {k = heed.keep(k), v = heed.keep(v), at = 0, count = k:size(3), open = false}
end


---@param held heed.cache.columns
---@return heed.Tensor k (B, Hk, S, D)
---@return heed.Tensor v (B, Hk, S, Dv)
function columns.read(held)
  return held.k:narrow(3, held.at + 1, held.count), held.v:narrow(3, held.at + 1, held.count)
end


local function widened(t, at, count, capacity)
  local B, H, _, D = t:size()
  local wide = heed.empty(B, H, capacity, D, {dtype = t.dtype, device = t.device})
  wide:narrow(3, 1, count):copy_(t:narrow(3, at + 1, count))
  return heed.keep(wide)
end


-- Buffers with space for T more columns. Doubling makes the copies of all steps together linear in
-- the number of columns.
local function reserve(held, T)
  local at, count = held.at, held.count
  if held.open and at + count + T <= held.k:size(3) then return held end
  local capacity = 2 * (count + T)
  return {
    k = widened(held.k, at, count, capacity), v = widened(held.v, at, count, capacity),
    at = 0, count = count, open = true,
  }
end


local function write(held, k, v)
  local T = k:size(3)
  local wide = reserve(held, T)
  local first = wide.at + wide.count + 1
  wide.k:narrow(3, first, T):copy_(k)
  wide.v:narrow(3, first, T):copy_(v)
  return {k = wide.k, v = wide.v, at = wide.at, count = wide.count + T, open = true}
end


---Columns with k and v behind them.
---@param held? heed.cache.columns
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@return heed.cache.columns
function columns.extend(held, k, v)
  if not held then return columns.new(k, v) end
  if not heed.is_grad_enabled() then return write(held, k, v) end
  local old_k, old_v = columns.read(held)
  return columns.new(heed.cat({old_k, k}, 3), heed.cat({old_v, v}, 3))
end


local function all_same(list)
  for i = 2, #list do
    if list[i] ~= list[1] then return false end
  end
  return true
end


-- Columns start[b] + 1 to start[b] + width of each sequence b: (B, H, S, D) -> (B, H, width, D).
-- Columns outside are padding of any value.
local function pick(t, start, width)
  local B, H, S, D = t:size()
  local first = start[1] or 0
  if all_same(start) and first >= 0 then return t:narrow(3, first + 1, width) end
  local device = {device = t.device}
  local index = heed.tensor(start, device):unsqueeze(2) + heed.arange(width, device)
  index = index:clamp{min = 1, max = S}:reshape(B, 1, width, 1)
  return t:gather(3, index:expand(B, H, width, D))
end


---Sequences moved to the right, without the first columns, which are then padding in all of them.
---@param held heed.cache.columns
---@param shift integer[] for each sequence
---@param gone integer
---@return heed.cache.columns
function columns.align(held, shift, gone)
  local start = {}
  for b, n in ipairs(shift) do start[b] = gone - n end
  local width, k, v = held.count - gone, columns.read(held)
  return columns.new(pick(k, start, width), pick(v, start, width))
end


---At most `limit` of them: the last ones, and the first `keep` of each sequence.
---@param held heed.cache.columns
---@param limit integer|number
---@param keep integer
---@param begin integer[] for each sequence, how many columns stand before its first
---@return heed.cache.columns
function columns.slide(held, limit, keep, begin)
  local over = held.count - limit
  if over <= 0 then return held end
  if keep == 0 then return columns.last(held, limit) end
  local start = {}
  for b, n in ipairs(begin) do start[b] = math.min(n, over) end
  local function kept(t)
    return heed.cat({pick(t, start, keep), t:narrow(3, over + keep + 1, limit - keep)}, 3)
  end
  local k, v = columns.read(held)
  return columns.new(kept(k), kept(v))
end


---The last n of them.
---@param held heed.cache.columns
---@param n integer
---@return heed.cache.columns
function columns.last(held, n)
  local at = held.at + held.count - n
  return {k = held.k, v = held.v, at = at, count = n, open = held.open}
end


---Without the last n.
---@param held heed.cache.columns
---@param n integer
---@return heed.cache.columns
function columns.cut(held, n)
  return {k = held.k, v = held.v, at = held.at, count = held.count - n, open = held.open}
end


---A second holder of the columns: the holder that writes first copies them.
---@param held heed.cache.columns
---@return heed.cache.columns
function columns.shared(held)
  return {k = held.k, v = held.v, at = held.at, count = held.count, open = false}
end


---The columns with f applied to both buffers, such as a choice of other sequences.
---@param held heed.cache.columns
---@param f fun(t: heed.Tensor): heed.Tensor
---@return heed.cache.columns
function columns.map(held, f)
  return {k = f(held.k), v = f(held.v), at = held.at, count = held.count, open = held.open}
end


---Refuses keys that do not go with those before them.
---@param who string
---@param held heed.cache.columns
---@param k heed.Tensor (B, Hk, T, D)
function columns.check(who, held, k)
  local B, H, _, D = held.k:size()
  local b, h, _, d = k:size()
  if B ~= b or H ~= h or D ~= d then
    heed.fail("%s: keys of shape (%d, %d, T, %d) expected, as before, got %s", who, B, H, D,
              options.kind(k))
  elseif held.k.device ~= k.device then
    heed.fail("%s: keys on %s expected, as before, got some on %s", who, held.k.device, k.device)
  elseif held.k.dtype ~= k.dtype then
    heed.fail("%s: keys of type %s expected, as before, got %s", who, held.k.dtype, k.dtype)
  end
end


return columns
