-- Cases of the rows that reduce or scan, and of products: see spec/support/cases.lua.

local array = require "spec.support.array"
local heed = require "heed"

local along, map, new, reduce = array.along, array.map, array.new, array.reduce

local function sum(list)
  local total = 0
  for _, v in ipairs(list) do total = total + v end
  return total
end

local function mean(list) return sum(list) / #list end

local function variance(correction)
  return function(list)
    local m, total = mean(list), 0
    for _, v in ipairs(list) do total = total + (v - m) ^ 2 end
    return total / (#list - correction)
  end
end

local function deviation(list) return math.sqrt(variance(1)(list)) end

local function product(list)
  local total = 1
  for _, v in ipairs(list) do total = total * v end
  return total
end

-- The first position of the largest by 'better'.
local function position(better)
  return function(list)
    local best = 1
    for i = 2, #list do
      if better(list[i], list[best]) then best = i end
    end
    return best
  end
end

local function greater(a, b) return a > b end
local function less(a, b) return a < b end
local argmax, argmin = position(greater), position(less)
local function max(list) return list[argmax(list)] end
local function min(list) return list[argmin(list)] end

local function logsumexp(list)
  local top, total = max(list), 0
  for _, v in ipairs(list) do total = total + math.exp(v - top) end
  return top + math.log(total)
end

local function norm(p)
  return function(list)
    local total = 0
    for _, v in ipairs(list) do
      total = p == math.huge and math.max(total, math.abs(v)) or total + math.abs(v) ^ p
    end
    return p == math.huge and total or total ^ (1 / p)
  end
end

local function running(f)
  return function(list)
    local total
    local result = {}
    for i, v in ipairs(list) do
      total = total and f(total, v) or v
      result[i] = total
    end
    return result
  end
end

local running_sum = running(function(a, b) return a + b end)
local running_product = running(function(a, b) return a * b end)

local function softmax(list)
  local result, total = {}, logsumexp(list)
  for i, v in ipairs(list) do result[i] = math.exp(v - total) end
  return result
end

local function log_softmax(list)
  local result, total = {}, logsumexp(list)
  for i, v in ipairs(list) do result[i] = v - total end
  return result
end

local function any(list)
  for _, v in ipairs(list) do
    if v ~= 0 then return 1 end
  end
  return 0
end

local function all(list)
  for _, v in ipairs(list) do
    if v == 0 then return 0 end
  end
  return 1
end

-- References of a reduction and of a scan.
local function reduced(f, axes, keep)
  return function(x) return reduce(x, axes and #x.shape > 0 and axes or nil, f, keep) end
end

local function scanned(f, axis)
  return function(x) return along(x, axis, f) end
end

local edges = {{{1, 1}}, {{}}, {{0, 3}}}
local filled_edges = {{{1, 1}}, {{}}}

local list = {
  {"sum", function(x) return x:sum() end, {2, 3, 4}, types = "all", gives = "count",
   value = reduced(sum), also = edges},
  {"sum of axes", function(x) return x:sum({1, -1}, true) end, {2, 3, 4}, types = "all",
   gives = "count", value = reduced(sum, {1, 3}, true), also = {{{0, 3, 2}}, {{1, 1, 1}}}},
  {"sum of axes apart", function(x) return x:sum{1, 3} end, {2, 3, 2, 3},
   types = "all", gives = "count", value = reduced(sum, {1, 3})},
  {"mean", function(x) return x:mean(2) end, {2, 3, 4}, value = reduced(mean, {2}),
   also = {{{1, 1}}}},
  {"mean of all", function(x) return x:mean() end, {2, 3}, value = reduced(mean),
   also = filled_edges},
  {"var", function(x) return x:var(2) end, {3, 5}, value = reduced(variance(1), {2}),
   also = {{{1, 2}}, {{0, 2}}}},
  {"var of all, uncorrected", function(x) return x:var{unbiased = false} end, {3, 5},
   value = reduced(variance(0)), also = filled_edges},
  {"std", function(x) return x:std(1) end, {4, 3}, value = reduced(deviation, {1}), expand = 2,
   also = {{{2, 1}}}},
  {"max of an axis", function(x) return x:max(2) end, {3, 5}, types = "all",
   gives = {"same", "int64"}, expand = 1, also = {{{1, 1}}, {{0, 2}}},
   value = function(x) return reduce(x, {2}, max), reduce(x, {2}, argmax) end},
  {"max", function(x) return x:max() end, {3, 5}, types = "all", expand = false,
   value = reduced(max), also = filled_edges, refuses = {{{0, 3}}}},
  {"min of all", function(x) return x:min() end, {3, 5}, types = "all", expand = false,
   value = reduced(min), also = filled_edges, refuses = {{{0, 3}}}},
  {"min of an axis", function(x) return x:min(1, true) end, {3, 5}, types = "all",
   gives = {"same", "int64"}, expand = 2, also = {{{1, 1}}, {{2, 0}}},
   value = function(x) return reduce(x, {1}, min, true), reduce(x, {1}, argmin, true) end},
  {"amax", function(x) return x:amax{1, 3} end, {3, 2, 4}, types = "all", expand = false,
   value = reduced(max, {1, 3}), also = {{{1, 1, 1}}, {{2, 0, 3}}}, refuses = {{{0, 2, 3}}, {{3}}}},
  {"amax of all", function(x) return x:amax() end, {3, 5}, types = "all", expand = false,
   value = reduced(max), also = filled_edges, refuses = {{{0, 3}}}},
  {"amin", function(x) return x:amin(-1, true) end, {3, 5}, types = "all", expand = 1,
   value = reduced(min, {2}, true), also = {{{1, 1}}, {{0, 2}}, {{}}}, refuses = {{{2, 0}}}},
  {"argmax", function(x) return x:argmax(2) end, {3, 5}, types = "all", gives = "int64",
   value = reduced(argmax, {2}), also = {{{1, 1}}, {{0, 2}}}},
  {"argmax of all", function(x) return x:argmax() end, {3, 5}, types = "all", gives = "int64",
   value = reduced(argmax), also = filled_edges},
  {"argmin", function(x) return x:argmin(1, true) end, {3, 5}, types = "all", gives = "int64",
   value = reduced(argmin, {1}, true), also = {{{1, 1}}}},
  {"logsumexp", function(x) return x:logsumexp(2) end, {3, 5}, types = "all", gives = "float",
   value = reduced(logsumexp, {2}), also = {{{1, 1}}}},
  {"norm", function(x) return x:norm() end, {3, 4}, value = reduced(norm(2)), also = edges},
  {"norm 3 of an axis", function(x) return x:norm(3, 2) end, {3, 4}, value = reduced(norm(3), {2})},
  {"norm 1", function(x) return x:norm(1, 1) end, {3, 4}, value = reduced(norm(1), {1})},
  {"norm inf", function(x) return x:norm(math.huge, 2) end, {3, 4}, expand = 1,
   value = reduced(norm(math.huge), {2})},
  {"prod", function(x) return x:prod(2) end, {3, 4}, types = "all", gives = "count",
   value = reduced(product, {2}), also = {{{1, 1}}, {{2, 0}}}},
  {"prod of all", function(x) return x:prod() end, {2, 3}, types = "all", gives = "count",
   value = reduced(product), also = edges},
  {"cumsum", function(x) return x:cumsum(2) end, {3, 4}, types = "all", gives = "count",
   value = scanned(running_sum, 2), also = {{{1, 1}}, {{2, 0}}}},
  {"cumsum of the first axis", function(x) return x:cumsum(1) end, {3, 4}, types = "all",
   gives = "count", value = scanned(running_sum, 1), also = filled_edges},
  {"cumprod", function(x) return x:cumprod(2) end, {3, 4}, types = "all", gives = "count",
   value = scanned(running_product, 2), also = {{{1, 1}}, {{2, 0}}}},
  {"cumprod of the first axis", function(x) return x:cumprod(1) end, {3, 4}, types = "all",
   gives = "count", value = scanned(running_product, 1), also = filled_edges},
  {"cumprod with zeros", function(x)
    local zeros = heed.tensor({{1, 0, 1, 1}, {0, 1, 1, 0}, {1, 1, 1, 0}}, {dtype = x.dtype})
    return (x * zeros):cumprod(2)
  end, {3, 4}, second = false, types = "all", gives = "count", value = function(x)
    local mask = array.new({3, 4}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0})
    return along(map(function(a, b) return a * b end, x, mask), 2, running_product)
  end},
  {"any", function(x) return x:any(2) end, {3, 4}, types = "all", gives = "bool",
   value = reduced(any, {2}), also = {{{1, 1}}, {{2, 0}}}},
  {"any of all", function(x) return heed.tensor(x:any()) end, {3, 4}, types = "all", gives = "bool",
   value = reduced(any), also = edges},
  {"all", function(x) return x:all(1, true) end, {3, 4}, types = "all", gives = "bool",
   value = reduced(all, {1}, true), also = {{{1, 1}}, {{0, 2}}}},
  {"all of all", function(x) return heed.tensor(x:all()) end, {3, 4}, types = "all", gives = "bool",
   value = reduced(all), also = edges},
  {"softmax", function(x) return x:softmax(-1) end, {3, 4}, types = "all", gives = "float",
   value = scanned(softmax, -1), also = edges},
  {"softmax of the first axis", function(x) return x:softmax(1) end, {3, 4, 2}, types = "all",
   gives = "float", value = scanned(softmax, 1)},
  {"softmax of an axis of four", function(x) return x:softmax(2) end, {2, 3, 2, 2},
   types = "all", gives = "float", value = scanned(softmax, 2)},
  {"log_softmax", function(x) return x:log_softmax(2) end, {3, 4}, types = "all", gives = "float",
   value = scanned(log_softmax, 2), also = {{{1, 1}}, {{0, 3}}}},

  {"matmul", heed.matmul, {3, 4}, {4, 5}, types = "numbers", value = array.matmul,
   also = {{{1, 1}, {1, 1}}, {{0, 4}, {4, 2}}, {{2, 0}, {0, 3}}}, refuses = {{{}, {}}}},
  {"matmul of vectors", heed.matmul, {4}, {4}, types = "numbers", value = array.matmul},
  {"matmul with a vector", heed.matmul, {3, 4}, {4}, types = "numbers", value = array.matmul},
  {"vector with matmul", heed.matmul, {4}, {4, 3}, types = "numbers", row = "matmul",
   value = array.matmul},
  {"matmul of batches", heed.matmul, {2, 1, 3, 4}, {5, 4, 2}, types = "numbers",
   value = array.matmul},
  {"bmm", heed.bmm, {2, 3, 4}, {2, 4, 5}, types = "numbers", value = array.matmul,
   also = {{{1, 1, 1}, {1, 1, 1}}, {{0, 2, 3}, {0, 3, 2}}}, refuses = {{{2, 2}, {2, 2}}}},
  {"einsum", function(a, b) return heed.einsum("bik,bjk->bij", a, b) end, {2, 3, 4}, {2, 5, 4},
   types = "all", value = function(a, b) return array.matmul(a, array.transpose(b, 2, 3)) end,
   also = {{{1, 1, 1}, {1, 1, 1}}, {{2, 0, 1}, {2, 1, 1}}}},
  {"einsum, summed", function(a, b) return heed.einsum("ij,jk", a, b) end, {2, 3}, {3, 4},
   types = "all", value = array.matmul},
  {"einsum, diagonal", function(a) return heed.einsum("ii->i", a) end, {4, 4}, types = "all",
   value = function(a) return array.pick({a.shape[1]}, a, function(i) return {i[1], i[1]} end) end},
  {"einsum, diagonal of one row", function(a) return heed.einsum("ii->i", a) end, {1, 4},
   types = "all",
   value = function(a) return array.pick({4}, a, function(i) return {1, i[1]} end) end},
  {"einsum, diagonal of one column", function(a) return heed.einsum("ii->i", a) end, {4, 1},
   types = "all",
   value = function(a) return array.pick({4}, a, function(i) return {i[1], 1} end) end},
  {"einsum, dots", function(a, b) return heed.einsum("...ij,...jk->...ik", a, b) end,
   {2, 3, 4}, {1, 4, 2}, types = "all", value = array.matmul},
  {"linear", heed.linear, {2, 3, 4}, {5, 4}, {5}, types = "numbers", value = function(x, w, b)
    return map(function(p, q) return p + q end, array.matmul(x, array.transpose(w, 1, 2)), b)
  end, also = {{{1}, {1, 1}, {1}}, {{0, 4}, {2, 4}, {2}}}},
  {"linear without bias", function(x, w) return heed.linear(x, w) end, {3, 4}, {5, 4},
   types = "numbers", value = function(x, w) return array.matmul(x, array.transpose(w, 1, 2)) end},
  {"outer", heed.outer, {3}, {4}, types = "all", value = function(a, b)
    return array.build({a.shape[1], b.shape[1]}, function(i) return a[i[1]] * b[i[2]] end)
  end, also = {{{1}, {1}}, {{0}, {2}}}, refuses = {{{}, {}}}},
  {"addmm", heed.addmm, {3, 5}, {3, 4}, {4, 5}, types = "numbers", value = function(x, a, b)
    return map(function(p, q) return p + q end, x, array.matmul(a, b))
  end, also = {{{5}, {2, 3}, {3, 5}}, {{}, {1, 1}, {1, 1}}, {{3}, {2, 0}, {0, 3}}},
   refuses = {{{3}, {2, 2}, {2, 2}}, {{2, 1, 2}, {1, 2}, {2, 2}}, {{2}, {2}, {2, 2}}}},
  {"addmm, scaled", function(x, a, b) return heed.addmm(x, a, b, {beta = 3, alpha = -2}) end,
   {4}, {3, 2}, {2, 4}, types = "numbers", value = function(x, a, b)
     return map(function(p, q) return 3 * p - 2 * q end, x, array.matmul(a, b))
   end},
  {"baddbmm", function(x, a, b) return heed.baddbmm(x, a, b, 2) end, {2, 1, 5}, {2, 3, 4},
   {2, 4, 5}, types = "numbers", value = function(x, a, b)
     return map(function(p, q) return 2 * p + q end, x, array.matmul(a, b))
   end, also = {{{1}, {1, 1, 1}, {1, 1, 1}}}, refuses = {{{2, 2}, {2, 2}, {2, 2}}}},
  {"baddbmm without the first", function(x, a, b)
    return heed.baddbmm(x / 0, a, b, {beta = 0, alpha = 0.5})
  end, {2, 3, 3}, {2, 3, 2}, {2, 2, 3}, constant = {true}, value = function(_, a, b)
    return map(function(p) return 0.5 * p end, array.matmul(a, b))
  end},
  {"trace", heed.trace, {3, 4}, types = "all", gives = "count", value = function(x)
    local total = 0
    for i = 1, math.min(x.shape[1], x.shape[2]) do total = total + array.at(x, {i, i}) end
    return new({}, {total})
  end, also = {{{1, 1}}, {{0, 3}}, {{3, 2}}}, refuses = {{{3}}, {{2, 2, 2}}}},
  {"dot", heed.dot, {5}, {5}, types = "numbers", value = array.matmul,
   also = {{{1}, {1}}, {{0}, {0}}}, refuses = {{{}, {}}}},
}

return list
