-- Plain Lua arrays, the references of structured operations. An array is a list of numbers,
-- row by row, with its sizes in .shape; bools are 0 and 1 here.

local array = {}

function array.numel(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

function array.new(shape, list)
  local a = {shape = shape}
  for i = 1, array.numel(shape) do a[i] = list[i] end
  return a
end

-- f(i) for each index i (a list of positions, which changes), row by row.
function array.build(shape, f)
  local a, i = {shape = shape}, {}
  for k = 1, #shape do i[k] = 1 end
  for n = 1, array.numel(shape) do
    a[n] = f(i)
    for k = #shape, 1, -1 do
      i[k] = i[k] + 1
      if i[k] <= shape[k] then break end
      i[k] = 1
    end
  end
  return a
end

function array.at(a, i)
  local n = 0
  for k, size in ipairs(a.shape) do n = n * size + i[k] - 1 end
  return a[n + 1]
end

-- The element at index i, which may be longer, of an array that broadcasts.
function array.broadcast_at(a, i)
  local own, extra = {}, #i - #a.shape
  for k, size in ipairs(a.shape) do own[k] = size == 1 and 1 or i[k + extra] end
  return array.at(a, own)
end

function array.broadcast_shape(a, b)
  local shape, rank = {}, math.max(#a.shape, #b.shape)
  for k = 1, rank do
    local s, t = a.shape[k - rank + #a.shape] or 1, b.shape[k - rank + #b.shape] or 1
    shape[k] = s == 1 and t or s
  end
  return shape
end

-- f of the elements of all arrays at each index.
function array.map(f, a, ...)
  local others, shape = {...}, a.shape
  for _, b in ipairs(others) do shape = array.broadcast_shape({shape = shape}, b) end
  return array.build(shape, function(i)
    local values = {array.broadcast_at(a, i)}
    for k, b in ipairs(others) do values[k + 1] = array.broadcast_at(b, i) end
    return f(table.unpack(values))
  end)
end

-- An array of another shape whose element i is a's element f(i).
function array.pick(shape, a, f)
  return array.build(shape, function(i) return array.at(a, f(i)) end)
end

local function copy(list)
  return table.move(list, 1, #list, 1, {})
end

array.copy = copy

-- f(list) of the elements along the axes (nil: all of them), which are dropped, or kept as 1.
function array.reduce(a, axes, f, keep)
  local dropped, shape, inner = {}, {}, {}
  for k = 1, #a.shape do dropped[k] = axes == nil end
  for _, axis in ipairs(axes or {}) do dropped[axis] = true end
  for k, size in ipairs(a.shape) do
    inner[k] = dropped[k] and size or 1
    if keep then shape[k] = dropped[k] and 1 or size
    elseif not dropped[k] then shape[#shape + 1] = size end
  end
  return array.build(shape, function(i)
    local at, n, list = {}, 0, {}
    for k = 1, #a.shape do
      if keep or not dropped[k] then n = n + 1 end
      at[k] = dropped[k] and 1 or i[n]
    end
    array.build(inner, function(j)
      local own = {}
      for k = 1, #at do own[k] = dropped[k] and j[k] or at[k] end
      list[#list + 1] = array.at(a, own)
    end)
    return f(list)
  end)
end

-- Each row along an axis (negative: from the end) becomes f(row), all of one length.
function array.along(a, axis, f)
  if #a.shape == 0 then return {shape = {}, f({a[1]})[1]} end
  axis = axis < 0 and #a.shape + 1 + axis or axis
  local outer, shape, n = copy(a.shape), copy(a.shape), a.shape[axis]
  outer[axis] = 1
  local rows = array.build(outer, function(i)
    local row, own = {}, copy(i)
    for k = 1, n do
      own[axis] = k
      row[k] = array.at(a, own)
    end
    return f(row)
  end)
  local zeros = {}
  for k = 1, n do zeros[k] = 0 end
  shape[axis] = #f(zeros)
  return array.build(shape, function(i)
    local own = copy(i)
    own[axis] = 1
    return array.at(rows, own)[i[axis]]
  end)
end

-- (.., M, K) times (.., K, N); vectors as in matmul.
function array.matmul(a, b)
  local rows, columns = #a.shape > 1, #b.shape > 1
  local x = rows and a or array.new({1, a.shape[1]}, a)
  local y = columns and b or array.new({b.shape[1], 1}, b)
  local m, k = x.shape[#x.shape - 1], x.shape[#x.shape]
  local n = y.shape[#y.shape]
  local batch = array.broadcast_shape({shape = {table.unpack(x.shape, 1, #x.shape - 2)}},
                                      {shape = {table.unpack(y.shape, 1, #y.shape - 2)}})
  local shape, rank = copy(batch), #batch
  shape[rank + 1], shape[rank + 2] = m, n
  local result = array.build(shape, function(i)
    local sum, left, right = 0, copy(i), copy(i)
    for j = 1, k do
      left[rank + 2], right[rank + 1] = j, j
      sum = sum + array.broadcast_at(x, left) * array.broadcast_at(y, right)
    end
    return sum
  end)
  if rows and columns then return result end
  if rows then shape[rank + 2] = nil
  else
    table.remove(shape, rank + 1)
    if not columns then shape[#shape] = nil end
  end
  return array.new(shape, result)
end

function array.transpose(a, first, second)
  local shape = copy(a.shape)
  shape[first], shape[second] = shape[second], shape[first]
  return array.pick(shape, a, function(i)
    local own = copy(i)
    own[first], own[second] = own[second], own[first]
    return own
  end)
end

return array
