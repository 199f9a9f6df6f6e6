-- Cases of the rows that view, copy, join and index: see spec/support/cases.lua.

local array = require "spec.support.array"
local close = require "spec.support.close"
local heed = require "heed"

local along, build, map, new, pick = array.along, array.build, array.map, array.new, array.pick
local copy = array.copy

local function same(x) return x end

local function shaped(...)
  local shape = {...}
  return function(x) return new(shape, x) end
end

-- Rows along an axis, picked by f(position) for n positions.
local function picked(axis, n, f)
  return function(x)
    return along(x, axis, function(row)
      local result = {}
      for i = 1, n do result[i] = row[f(i, #row)] end
      return result
    end)
  end
end

local function join(axis, ...)
  local arrays, starts, shape = {...}, {}, nil
  for k, a in ipairs(arrays) do
    shape = shape or copy(a.shape)
    starts[k] = k == 1 and 0 or starts[k - 1] + arrays[k - 1].shape[axis]
  end
  shape[axis] = starts[#arrays] + arrays[#arrays].shape[axis]
  return build(shape, function(i)
    local k = #arrays
    while i[axis] <= starts[k] do k = k - 1 end
    local own = copy(i)
    own[axis] = own[axis] - starts[k]
    return array.at(arrays[k], own)
  end)
end

local function unsqueezed(x, axis)
  local shape = copy(x.shape)
  table.insert(shape, axis, 1)
  return new(shape, x)
end

-- x with src at the positions of an index along axis 2.
local function scattered(index, combine)
  return function(x, src)
    local y = new(x.shape, x)
    build({#index, #index[1]}, function(i)
      local at = (i[1] - 1) * x.shape[2] + index[i[1]][i[2]]
      y[at] = combine(y[at], array.at(src, i))
    end)
    return y
  end
end

-- Values and positions of rows in order; equal values keep theirs.
local function order(row, descending)
  local positions = {}
  for i = 1, #row do positions[i] = i end
  table.sort(positions, function(a, b)
    if row[a] ~= row[b] then
      if descending then return row[a] > row[b] end
      return row[a] < row[b]
    end
    return a < b
  end)
  return positions
end

local function ordered(axis, descending, n)
  return function(x)
    local function taken(row, i) return row[i] end
    local function positions(row)
      return table.move(order(row, descending), 1, n or #row, 1, {})
    end
    return along(x, axis, function(row)
      local values = {}
      for i, p in ipairs(positions(row)) do values[i] = taken(row, p) end
      return values
    end), along(x, axis, positions)
  end
end

local function kept_where(f)
  return function(x)
    return build(x.shape, function(i)
      local rank = #x.shape
      return f(i[rank] - i[rank - 1]) and array.at(x, i) or 0
    end)
  end
end

local function clipped(low, high)
  return function(x)
    return map(function(v) return math.min(math.max(v, low), high) end, x)
  end
end

local edges = {{{1, 1}}, {{0, 3}}}
local all_edges = {{{1, 1}}, {{0, 3}}, {{}}}
local mask = {1, 0, 1}
local function bools() return heed.tensor{true, false, true} end
local function flat(x) return new({#x}, x) end

local list = {
  {"view", function(x) return x:contiguous():view(3, 4) end, {2, 6}, types = "all",
   value = shaped(3, 4)},
  {"view of one", function(x) return x:contiguous():view(1, -1) end, {1, 1}, types = "all",
   value = function(x) return new({1, #x}, x) end, also = {{{}}}},
  {"view of none", function(x) return x:contiguous():view(3, 0) end, {0, 3}, types = "all",
   value = shaped(3, 0), gradient = false},
  {"reshape", function(x) return x:reshape(4, -1) end, {2, 6}, types = "all", value = shaped(4, 3)},
  {"reshape of one", function(x) return x:reshape(1, 1, 1) end, {1, 1}, types = "all",
   value = shaped(1, 1, 1), also = {{{}}}},
  {"transpose", function(x) return x:transpose(1, 3) end, {2, 3, 4}, types = "all",
   value = function(x) return array.transpose(x, 1, 3) end, also = {{{1, 1, 1}}, {{0, 2, 3}}}},
  {"t", function(x) return x:t() end, {2, 3}, types = "all",
   value = function(x) return #x.shape < 2 and x or array.transpose(x, 1, 2) end,
   also = {{{1, 1}}, {{0, 3}}, {{}}, {{3}}}, refuses = {{{2, 2, 2}}}},
  {"permute", function(x) return x:permute(3, 1, 2) end, {2, 3, 4}, types = "all",
   value = function(x)
     local s = x.shape
     return pick({s[3], s[1], s[2]}, x, function(i) return {i[2], i[3], i[1]} end)
   end, also = {{{1, 1, 1}}, {{2, 0, 3}}}},
  {"expand", function(x) return x:expand(4, 3, 5) end, {3, 1}, types = "all", expand = 1,
   value = function(x) return build({4, 3, 5}, function(i) return x[i[2]] end) end},
  {"expand of one", function(x) return x:expand(2, 3) end, {1, 1}, types = "all",
   value = function(x) return build({2, 3}, function() return x[1] end) end, also = {{{}}, {{1}}}},
  {"expand_as", function(x, y) return x:expand_as(y) end, {3, 1}, {2, 3, 4}, types = "all",
   value = function(x, y) return build(copy(y.shape), function(i)
     return array.broadcast_at(x, i)
   end) end, constant = {[2] = true}, also = {{{1}, {0}}, {{}, {2}}}},
  {"broadcast_to", function(x) return x:broadcast_to(2, 3, 4) end, {3, 1}, types = "all",
   expand = 1, value = function(x) return build({2, 3, 4}, function(i) return x[i[2]] end) end,
   refuses = {{{2, 2}}, {{1, 1, 1, 1}}}},
  {"movedim", function(x) return x:movedim({1, -1}, {2, 1}) end, {2, 3, 4}, types = "all",
   value = function(x)
     local s = x.shape
     return pick({s[3], s[1], s[2]}, x, function(i) return {i[2], i[3], i[1]} end)
   end, also = {{{1, 1, 1}}, {{2, 0, 3}}}, refuses = {{{3}}, {{}}}},
  {"movedim of one", function(x) return x:movedim(1, -1) end, {2, 3, 4}, types = "all",
   value = function(x)
     local s = x.shape
     return pick({s[2], s[3], s[1]}, x, function(i) return {i[3], i[1], i[2]} end)
   end},
  {"narrow", function(x) return x:narrow(2, 2, 2) end, {2, 4}, types = "all",
   value = picked(2, 2, function(i) return i + 1 end), also = {{{0, 3}}}, refuses = {{{}}}},
  {"slice", function(x) return x:slice(2, 4, 1, -2) end, {2, 5}, types = "all",
   value = picked(2, 2, function(i) return 6 - 2 * i end), also = {{{0, 5}}}, refuses = {{{}}}},
  {"slice, rising", function(x) return x:slice(1, 1, -1, 2) end, {5, 2}, types = "all",
   value = function(x)
     return picked(1, (x.shape[1] + 1) // 2, function(i) return 2 * i - 1 end)(x)
   end, also = {{{1, 1}}}},
  {"select", function(x) return x:select(2, -1) end, {2, 4}, types = "all",
   value = function(x)
     return pick({x.shape[1]}, x, function(i) return {i[1], x.shape[2]} end)
   end, also = edges, refuses = {{{}}}},
  {"squeeze", function(x) return x:squeeze(2) end, {2, 1, 4}, types = "all",
   value = function(x)
     local shape = copy(x.shape)
     if shape[2] == 1 then table.remove(shape, 2) end
     return new(shape, x)
   end, also = {{{1, 1}}, {{0, 1}}, {{2, 3}}}},
  {"squeeze of all", function(x) return x:squeeze() end, {1, 3, 1}, types = "all",
   value = shaped(3), expand = 2},
  {"unsqueeze", function(x) return x:unsqueeze(-1) end, {2, 4}, types = "all",
   value = function(x) return unsqueezed(x, #x.shape + 1) end, also = all_edges},
  {"flatten", function(x) return x:flatten(2) end, {2, 3, 4}, types = "all", value = shaped(2, 12)},
  {"flatten of all", function(x) return x:flatten() end, {2, 3}, types = "all", value = flat,
   also = all_edges},
  {"unflatten", function(x) return x:unflatten(2, 3, -1) end, {2, 6}, types = "all",
   value = shaped(2, 3, 2), refuses = {{{2, 5}}, {{6}}, {{}}}},
  {"unflatten of the last", function(x) return x:unflatten(-1, {2, 2}) end, {3, 4}, types = "all",
   value = shaped(3, 2, 2)},
  {"unfold", function(x) return x:unfold(1, 3, 1) end, {6}, types = "all", value = function(x)
    return build({#x - 2, 3}, function(i) return x[i[1] + i[2] - 1] end)
  end},
  {"unfold of an axis", function(x) return x:unfold(2, 2, 2) end, {2, 5}, types = "all",
   value = function(x)
     return build({x.shape[1], 2, 2}, function(i)
       return array.at(x, {i[1], 2 * i[2] - 2 + i[3]})
     end)
   end, also = {{{0, 5}}}, refuses = {{{1, 1}}, {{}}}},
  {"diagonal", function(x) return x:diagonal(1) end, {4, 5}, types = "all", value = function(x)
    local n = math.max(0, math.min(x.shape[1], x.shape[2] - 1))
    return pick({n}, x, function(i) return {i[1], i[1] + 1} end)
  end, also = {{{1, 1}}, {{0, 3}}}, refuses = {{{3}}, {{}}}},
  {"diagonal below, of other axes", function(x) return x:diagonal(-1, 3, 1) end, {3, 2, 4},
   types = "all", value = function(x)
     return pick({2, 3}, x, function(i) return {i[2], i[1], i[2] + 1} end)
   end},
  {"diag_embed", function(x) return x:diag_embed() end, {2, 3}, types = "all", value = function(x)
    local n = x.shape[#x.shape]
    return build({x.shape[1], n, n}, function(i)
      return i[2] == i[3] and array.at(x, {i[1], i[2]}) or 0
    end)
  end, also = {{{1, 1}}, {{0, 3}}, {{2, 0}}}, refuses = {{{}}}},
  {"diag_embed below, of other axes", function(x) return x:diag_embed(-1, 3, 1) end, {2, 3},
   types = "all", value = function(x)
     return build({4, 2, 4}, function(i)
       return i[3] == i[1] + 1 and array.at(x, {i[2], i[1]}) or 0
     end)
   end},
  {"diag", function(x) return x:diag(1) end, {3}, types = "all", value = function(x)
    local n = #x + 1
    return build({n, n}, function(i) return i[2] == i[1] + 1 and x[i[1]] or 0 end)
  end, also = {{{1}}, {{0}}}, refuses = {{{}}, {{2, 2, 2}}}},
  {"diag of a matrix", function(x)
    local y = x:diag(-1)
    assert(y:is_contiguous())
    return y
  end, {4, 3}, types = "all", value = function(x)
    return pick({math.max(0, math.min(x.shape[1] - 1, x.shape[2]))}, x, function(i)
      return {i[1] + 1, i[1]}
    end)
  end, also = {{{1, 1}}, {{0, 3}}}},
  {"split", function(x) return heed.cat(x:split(2, 2), 1) end, {2, 4}},
  {"chunk", function(x) return x:chunk(3, 1)[2] end, {5, 2}},
  {"unbind", function(x) return x:unbind(1)[2] * x:unbind(1)[1] end, {2, 3}},
  {"index with ranges", function(x) return x[{{2, 3}, {4, 1, -2}}] end, {3, 4}},

  {"clone", function(x) return x:clone() end, {2, 3}, types = "all", value = same,
   also = all_edges},
  {"contiguous", function(x)
    local y = x:contiguous()
    assert(y:is_contiguous())
    return y
  end, {2, 3}, types = "all", value = same, also = all_edges},
  {"to", function(x) return x:to("float32"):to("float64") * 0 + x end, {2, 3}, types = {"float64"},
   refuses_types = false, value = same},
  {"to float64", function(x) return x:to("float64") end, {2, 3}, types = "all", gives = "float64",
   value = same, also = all_edges},
  {"to int64", function(x) return x:to("int64") end, {2, 3}, types = "all", gives = "int64",
   value = function(x)
     return map(function(v) return math.tointeger(v < 0 and math.ceil(v) or math.floor(v)) end, x)
   end, also = all_edges, gradient = false},
  {"to bool", function(x) return x:to("bool") end, {2, 3}, types = "all", gives = "bool",
   value = same, also = all_edges, gradient = false},
  {"copy", function(x, y) return heed.copy(x, y) end, {2, 3}, {3}, types = "all",
   value = function(x, y) return map(function(_, b) return b end, x, y) end,
   also = {{{1, 1}, {}}, {{0, 3}, {3}}, {{}, {}}}, refuses = {{{3}, {2, 3}}}},
  {"fill", function(x, y) return heed.fill(x, y) end, {2, 3}, {}, types = "all",
   value = function(x, y) return map(function() return y[1] end, x) end,
   also = {{{1, 1}, {}}, {{0, 3}, {}}, {{}, {}}}, refuses = {{{3}, {3}}}},
  {"zero", function(x) return heed.zero(x) end, {2, 3}, types = "all",
   value = function(x) return map(function() return 0 end, x) end, also = all_edges},
  {"cat", function(a, b) return heed.cat({a, b}, 2) end, {2, 3}, {2, 4}, types = "all",
   value = function(a, b) return join(2, a, b) end,
   also = {{{1, 1}, {1, 0}}, {{0, 2}, {0, 3}}}, refuses = {{{}, {}}, {{2, 1}, {3, 1}}}},
  {"cat of many", function(a, b)
    local many = {}
    for i = 1, 67 do many[i] = i % 2 == 0 and a or b end
    return heed.cat(many, 1)
  end, {1, 2}, {2, 2}, types = "all", value = function(a, b)
    local many = {}
    for i = 1, 67 do many[i] = i % 2 == 0 and a or b end
    return join(1, table.unpack(many))
  end},
  {"join", function(a, b) return heed.join({a, b, a}, 1) end, {2, 3}, {1, 3}, types = "all",
   value = function(a, b) return join(1, a, b, a) end, also = {{{0, 3}, {1, 3}}, {{1}, {1}}},
   refuses = {{{}, {}}}},
  {"stack", function(a, b) return heed.stack({a, b}, 2) end, {2, 3}, {2, 3}, types = "all",
   value = function(a, b) return join(2, unsqueezed(a, 2), unsqueezed(b, 2)) end,
   also = {{{1, 1}, {1, 1}}, {{0, 3}, {0, 3}}}, refuses = {{{2}, {3}}}},
  {"stack of rank 0", function(a, b) return heed.stack({a, b}, 1) end, {}, {}, types = "all",
   value = function(a, b) return new({2}, {a[1], b[1]}) end},

  {"gather", function(x) return x:gather(2, heed.tensor{{1, 1}, {4, -3}}) end, {2, 4},
   types = "all", value = function(x)
     local index = {{1, 1}, {4, 2}}
     return pick({2, 2}, x, function(i) return {i[1], index[i[1]][i[2]]} end)
   end},
  {"gather of one", function(x) return x:gather(1, heed.tensor{1}) end, {1}, types = "all",
   value = shaped(1)},
  {"gather of none", function(x) return x:gather(1, heed.tensor{{1, 1, 1}}:narrow(1, 1, 0)) end,
   {2, 3}, types = "all", value = shaped(0, 3), gradient = false},
  {"scatter", function(x, s) return x:scatter(2, heed.tensor{{1, 3}, {4, 2}}, s) end,
   {2, 4}, {2, 2}, types = "all",
   value = scattered({{1, 3}, {4, 2}}, function(_, v) return v end)},
  {"scatter_add", function(x, s) return x:scatter_add(2, heed.tensor{{1, 1}, {4, 2}}, s) end,
   {2, 4}, {2, 2}, types = "all", value = scattered({{1, 1}, {4, 2}}, function(a, v)
     return a + v
   end)},
  {"scatter of a part", function(x, s) return x:scatter(2, heed.tensor{{1, 3}, {4, 2}}, s) end,
   {2, 4}, {3, 4}, types = "all", row = "scatter",
   value = scattered({{1, 3}, {4, 2}}, function(_, v) return v end)},
  {"scatter_add of a part", function(x, s)
    return x:scatter_add(2, heed.tensor{{1, 1}, {4, 2}}, s)
  end, {2, 4}, {3, 4}, types = "all", row = "scatter_add",
   value = scattered({{1, 1}, {4, 2}}, function(a, v) return a + v end)},
  {"index_add", function(x, s) return x:index_add(1, heed.tensor{3, 1, 3}, s) end,
   {3, 2}, {3, 2}, types = "all", value = function(x, s)
     return build({3, 2}, function(i)
       local k = i[2]
       local own, first, second = array.at(x, i), array.at(s, {1, k}), array.at(s, {2, k})
       return i[1] == 1 and own + second or i[1] == 2 and own or own + first + array.at(s, {3, k})
     end)
   end, refuses = {{{3, 2}, {2, 2}}, {{3, 2}, {3}}, {{}, {3}}}},
  {"index_add, scaled", function(x, s)
    return x:index_add(-1, heed.tensor(2), s, {alpha = -3})
  end, {2, 3}, {2, 1}, types = "numbers", refuses_types = false, value = function(x, s)
    return build({2, 3}, function(i)
      return array.at(x, i) - (i[2] == 2 and 3 * s[i[1]] or 0)
    end)
  end},
  {"take_along_dim", function(x) return x:take_along_dim(heed.tensor{{4, 1}}, 2) end, {3, 4},
   types = "all", value = function(x)
     return pick({x.shape[1], 2}, x, function(i) return {i[1], i[2] == 1 and 4 or 1} end)
   end, also = {{{1, 4}}, {{0, 4}}}, refuses = {{{4}}, {{}}}},
  {"take_along_dim of one row", function(x)
    return x:take_along_dim(heed.tensor{{4, 1}, {-1, 4}})
  end, {2, 3}, types = "all", value = function(x) return new({4}, {x[4], x[1], x[6], x[4]}) end},
  {"take", function(x) return heed.take(x, {heed.tensor{1, 3, -1}, heed.tensor{2, 1, 1}}) end,
   {3, 4}, types = "all", value = function(x)
     local rows, columns = {1, 3, 3}, {2, 1, 1}
     return pick({3}, x, function(i) return {rows[i[1]], columns[i[1]]} end)
   end},
  {"index with tensors", function(x)
    return x[{heed.tensor{1, 3, 3}, heed.tensor{2, 1, 1}}]
  end, {3, 4}},
  {"index with a mask", function(x) return x[heed.tensor{true, false, true}] end, {3, 4}},
  {"take with bools", function(x) return heed.take(x, {bools()}) end, {3, 4}, types = "all",
   value = function(x) return pick({2, 4}, x, function(i) return {2 * i[1] - 1, i[2]} end) end},
  {"put", function(x, v) return heed.put(x, {heed.tensor{3, 1}}, v) end, {3, 4}, {2, 4},
   types = "all", value = function(x, v)
     return build({3, 4}, function(i)
       return array.at(i[1] == 2 and x or v, {i[1] == 1 and 2 or i[1] == 3 and 1 or 2, i[2]})
     end)
   end},
  {"put, accumulated", function(x, v) return heed.put(x, {heed.tensor{2, 2}}, v, true) end,
   {3, 4}, {2, 4}, types = "all", value = function(x, v)
     return build({3, 4}, function(i)
       local own = array.at(x, i)
       return i[1] ~= 2 and own or own + array.at(v, {1, i[2]}) + array.at(v, {2, i[2]})
     end)
   end},
  {"index_select", function(x) return x:index_select(2, heed.tensor{4, 1, 1}) end, {2, 4},
   types = "all", value = picked(2, 3, function(i) return i == 1 and 4 or 1 end),
   also = {{{0, 4}}}, refuses = {{{}}}},
  {"masked_fill", function(x) return x:masked_fill(bools(), 7) end, {2, 3}, types = "all",
   value = function(x)
     return map(function(a, m) return m == 1 and 7 or a end, x, new({3}, mask))
   end, also = {{{1, 1}}, {{0, 3}}, {{0, 1}}}},
  {"masked_select", function(x) return x:masked_select(heed.tensor{{true}, {false}, {true}}) end,
   {3, 4}, types = "all", value = function(x)
     local taken = {}
     for i = 1, #x do
       if (i - 1) // 4 ~= 1 then taken[#taken + 1] = x[i] end
     end
     return flat(taken)
   end, also = {{{3, 0}}}},
  {"masked_select by value", function(x) return x:masked_select(x:detach():gt(0)) end, {3, 4}},
  {"embedding", function(w) return heed.embedding(heed.tensor{{1, 3}, {3, 2}}, w) end, {4, 3},
   types = "all", value = function(w)
     local ids = {{1, 3}, {3, 2}}
     return pick({2, 2, 3}, w, function(i) return {ids[i[1]][i[2]], i[3]} end)
   end},
  {"embedding with padding", function(w)
    local y = heed.embedding(heed.tensor{2, 1, 2}, w, 2)
    return y * heed.tensor({{0}, {1}, {0}}, {dtype = w.dtype})       -- has no gradient by w[2]
  end, {4, 3}, types = "all", value = function(w)
    return build({3, 3}, function(i) return i[1] == 2 and w[i[2]] or 0 end)
  end},
  {"topk", function(x) return x:topk(2) end, {3, 5}, types = "all", gives = {"same", "int64"},
   value = ordered(2, true, 2), expand = 1},
  {"sort", function(x) return x:sort(1, true) end, {5, 2}, types = "all",
   gives = {"same", "int64"}, value = ordered(1, true), expand = 2, also = edges},
  {"sort, rising", function(x) return x:sort() end, {2, 5}, types = "all",
   gives = {"same", "int64"}, value = ordered(-1, false), expand = 1, also = all_edges},
  {"argsort", function(x) return x:argsort(2, true) end, {3, 5}, types = "all", gives = "int64",
   value = function(x) return select(2, ordered(2, true)(x)) end, also = edges},
  {"tril", function(x) return x:tril(-1) end, {4, 4}, types = "all",
   value = kept_where(function(d) return d <= -1 end), also = edges, refuses = {{{3}}, {{}}}},
  {"triu", function(x) return x:triu() end, {2, 3, 4}, types = "all",
   value = kept_where(function(d) return d >= 0 end), also = edges, refuses = {{{3}}, {{}}}},
  {"roll", function(x) return x:roll(2, 2) end, {2, 5}, types = "all",
   value = function(x)
     return picked(2, x.shape[2], function(i, n) return (i - 3) % n + 1 end)(x)
   end, also = {{{1, 1}}, {{2, 0}}}},
  {"roll of all", function(x) return x:roll(-2) end, {2, 3}, types = "all", value = function(x)
    return build(x.shape, function(i)
      return x[((i[1] - 1) * 3 + i[2] + 1) % 6 + 1]
    end)
  end},
  {"flip", function(x) return x:flip(1) end, {4, 2}, types = "all",
   value = function(x)
     return picked(1, x.shape[1], function(i, n) return n + 1 - i end)(x)
   end, also = edges},
  {"repeat_interleave", function(x) return x:repeat_interleave(3, 2) end, {2, 3}, types = "all",
   value = function(x)
     return picked(2, 3 * x.shape[2], function(i) return (i + 2) // 3 end)(x)
   end, also = edges},
  {"tile", function(x) return x:tile(2, 3) end, {2, 3}, types = "all", value = function(x)
    local s = x.shape
    return pick({2 * s[1], 3 * s[2]}, x, function(i)
      return {(i[1] - 1) % s[1] + 1, (i[2] - 1) % s[2] + 1}
    end)
  end, also = edges},
  {"pad", function(x) return heed.pad(x, {1, 2, 0, 1}) end, {2, 3}, types = "all",
   value = function(x)
     local s = x.shape
     return build({s[1] + 1, s[2] + 3}, function(i)
       local inside = i[1] <= s[1] and i[2] > 1 and i[2] <= s[2] + 1
       return inside and array.at(x, {i[1], i[2] - 1}) or 0
     end)
   end, also = edges},
  {"pad, cropping", function(x) return heed.pad(x, {-1, 1}, "constant", 3) end, {2, 3},
   types = "all", value = function(x)
     return build({2, 3}, function(i) return i[2] < 3 and array.at(x, {i[1], i[2] + 1}) or 3 end)
   end},
  {"constant_pad_nd", function(x) return heed.constant_pad_nd(x, {1, 0}, 2) end, {2, 3},
   types = "numbers", refuses_types = false, value = function(x)
     local s = x.shape
     return build({s[1], s[2] + 1}, function(i)
       return i[2] > 1 and array.at(x, {i[1], i[2] - 1}) or 2
     end)
   end, also = edges},
  {"pad by reflection", function(x) return heed.pad(x, {2, 1, -1, 1}, "reflect") end, {4, 3},
   types = "all", value = function(x)
     local rows, columns = {2, 3, 4, 3}, {3, 2, 1, 2, 3, 2}
     return pick({4, 6}, x, function(i) return {rows[i[1]], columns[i[2]]} end)
   end, refuses = {{{4, 2}}, {{1, 3}}, {{3}}}},
  {"pad with the edge", function(x) return heed.pad(x, {1, 2}, "replicate") end, {2, 2},
   types = "all", value = function(x)
     local columns = {1, 1, 2, 2, 2}
     return pick({x.shape[1], 5}, x, function(i) return {i[1], columns[i[2]]} end)
   end, also = {{{0, 2}}}, refuses = {{{2, 0}}, {{}}}},
  {"pad, around", function(x) return heed.pad(x, {2, 1}, {mode = "circular"}) end, {2, 3},
   types = "all", value = function(x)
     local columns = {2, 3, 1, 2, 3, 1}
     return pick({2, 6}, x, function(i) return {i[1], columns[i[2]]} end)
   end, refuses = {{{2, 1}}}},
  {"nan_to_num", function(x)
    local bad = heed.tensor({{0 / 0, 1 / 0, -1 / 0, 0}}, {dtype = x.dtype})
    return (x + bad):nan_to_num(7, 8, -9)
  end, {3, 4}, value = function(x)
    return build({3, 4}, function(i) return ({7, 8, -9})[i[2]] or array.at(x, i) end)
  end, refuses_types = false},
  {"nan_to_num of whole numbers", function(x) return x:nan_to_num() end, {2, 3}, types = "all",
   value = same, also = all_edges},
  {"clamp", function(x) return x:clamp(-1, 1) end, {3, 4}, types = "numbers", refuses_types = false,
   value = clipped(-1, 1), also = all_edges},
  {"clamp from below", function(x) return x:clamp{min = 1} end, {3, 4}, types = "numbers",
   refuses_types = false, value = clipped(1, math.huge)},
  {"clip", function(x) return x:clip(nil, 1) end, {3, 4}, types = "numbers", refuses_types = false,
   value = clipped(-math.huge, 1), also = all_edges},

  {"one_hot", function(x) return heed.one_hot(x, 9) end, {2, 3}, types = {"int64"},
   gives = "int64", low = 0.5, high = 4, value = function(x)
     local shape = copy(x.shape)
     shape[#shape + 1] = 9
     return build(shape, function(i)
       return array.broadcast_at(x, {table.unpack(i, 1, #i - 1)}) == i[#i] and 1 or 0
     end)
   end, also = all_edges},
  {"isclose", function(x, y) return x:isclose(y, 0.5, 0.25) end, {3, 4}, {4}, types = "all",
   gives = "bool", value = function(x, y)
     return map(function(a, b) return close(a, b, 0.5, 0.25) and 1 or 0 end, x, y)
   end, also = {{{}, {}}, {{0, 3}, {3}}}, refuses = {{{3}, {2}}}},
  {"nonzero", function(x) return x:nonzero() end, {2, 3}, types = "all", gives = "int64",
   value = function(x)
     local found, rank = {}, #x.shape
     build(x.shape, function(i)
       if array.at(x, i) ~= 0 then table.move(i, 1, rank, #found + 1, found) end
     end)
     return new({rank > 0 and #found // rank or #x * (x[1] ~= 0 and 1 or 0), rank}, found)
   end, also = all_edges},
}

return list
