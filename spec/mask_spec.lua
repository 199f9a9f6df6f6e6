-- heed.mask: each mask and their combinations against the same rules in plain Lua loops, densely and
-- through attention, fused and composed, with gradients; what must not pass through; messages.

local heed = require "heed"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"

local mask = heed.mask
local NAN <const> = 0 / 0

-- B, H, Hk, T, S: within a tile and beyond, more queries than keys and fewer.
local SIZES = {
  {1, 1, 1, 1, 1}, {2, 2, 2, 5, 7}, {2, 4, 2, 9, 3}, {2, 2, 1, 1, 90}, {1, 1, 1, 150, 40},
  {1, 2, 1, 70, 130},
}

-- Rules: the mask, and the rule in Lua, of b, h, i and j from 1; p is the query's position from 0.
local function rules(B, H, T, S)
  local lengths, prefixes = heed.randint(0, S, {B}), heed.randint(0, S + 2, {B})
  local keys, ids = heed.rand(B, S):gt(0.4), heed.randint(1, 3, {B, S}):sort(-1)
  local bools = heed.rand(B, 1, T, S):gt(0.5)
  local function at(t)
    local list = t:totable()
    return function(...)
      local value = list
      for _, n in ipairs {...} do value = value[n] end
      return value
    end
  end
  local length_of, prefix_of, key_of = at(lengths), at(prefixes), at(keys)
  local id_of, bool_of = at(ids), at(bools)
  local function position(i) return i - 1 + S - T end
  return {
    causal = {mask.causal(), function(_, _, i, j) return j - 1 <= position(i) end},
    ["causal from 2"] = {mask.causal{offset = 2}, function(_, _, i, j) return j <= i + 2 end},
    ["causal from -3"] = {mask.causal{offset = -3}, function(_, _, i, j) return j <= i - 3 end},
    window = {mask.window(3, 1), function(_, _, i, j)
      return j - 1 >= position(i) - 3 and j - 1 <= position(i) + 1
    end},
    ["a window without an end"] = {mask.window(2, math.huge), function(_, _, i, j)
      return j - 1 >= position(i) - 2
    end},
    lengths = {mask.lengths(lengths), function(b, _, _, j) return j <= length_of(b) end},
    keys = {mask.keys(keys), function(b, _, _, j) return key_of(b, j) end},
    prefix = {mask.prefix(4), function(_, _, _, j) return j <= 4 end},
    prefixes = {mask.prefix(prefixes), function(b, _, _, j) return j <= prefix_of(b) end},
    documents = {mask.documents(ids), function(b, _, i, j)
      local p = position(i)
      return p >= 0 and id_of(b, p + 1) == id_of(b, j)
    end},
    blocks = {mask.blocks(4, 1), function(_, _, i, j)
      local d = (j - 1) // 4 - position(i) // 4
      return d >= -1 and d <= 0
    end},
    ["blocks ahead"] = {mask.blocks(24, 0, math.huge), function(_, _, i, j)
      return (j - 1) // 24 >= position(i) // 24
    end},
    tensor = {mask.tensor(bools), function(b, _, i, j) return bool_of(b, 1, i, j) end},
    predicate = {mask.predicate(function(b, h, i, j) return (b + h + i * j) % 3 > 0 end),
                 function(b, h, i, j) return (b + h + i * j) % 3 > 0 end},
  }
end


-- Combinations of the rules by name: operators on masks, and the same on truth.
local COMBINED = {
  ["a & b"] = {"causal", "lengths", function(a, b) return a & b end,
               function(a, b) return a and b end},
  ["a | b"] = {"window", "prefix", function(a, b) return a | b end,
               function(a, b) return a or b end},
  ["~a"] = {"causal", "causal", function(a) return ~a end, function(a) return not a end},
  ["~(a & b)"] = {"documents", "causal", function(a, b) return ~(a & b) end,
                  function(a, b) return not (a and b) end},
  ["~a | b"] = {"blocks", "keys", function(a, b) return ~a | b end,
                function(a, b) return not a or b end},
  ["(a & ~b) | (b & ~a)"] = {"tensor", "window", function(a, b) return (a & ~b) | (b & ~a) end,
                             function(a, b) return a ~= b end},
  ["a & b & a | b"] = {"predicate", "prefixes", function(a, b) return a & b & a | b end,
                       function(_, b) return b end},
  ["more than a device takes"] = {"keys", "documents", function(a, b)
    return (a | b) & (b | ~a) | (a & b & (a | b)) | ~(a | ~b)
  end, function(a, b) return (a or b) and (b or not a) or (a and b) or not (a or not b) end},
}

local function combined(single)
  local all = {}
  for name, rule in pairs(single) do all[name] = rule end
  for name, c in pairs(COMBINED) do
    local a, b = single[c[1]], single[c[2]]
    all[name .. " of " .. c[1] .. " and " .. c[2]] = {c[3](a[1], b[1]), function(...)
      return c[4](a[2](...), b[2](...))
    end}
  end
  return all
end


-- By four loops: (B, H, T, S).
local function by_hand(may, B, H, T, S)
  local list = {}
  for b = 1, B do
    for h = 1, H do
      for i = 1, T do
        for j = 1, S do list[#list + 1] = may(b, h, i, j) end
      end
    end
  end
  return heed.tensor(list):view(B, H, T, S)
end


-- Attention as matrices: the output, the weights and the normalisers.
local function plain(dense, o, q, k, v)
  local shared = q:size(2) // k:size(2)
  k, v = k:repeat_interleave(shared, 2), v:repeat_interleave(shared, 2)
  local s = q:matmul(k.mT) / q:size(4) ^ 0.5
  if o.softcap then s = (s / o.softcap):tanh() * o.softcap end
  local none = dense:any(-1, true):logical_not()
  s = s:masked_fill(dense:logical_not(), -math.huge)
  local safe = s:masked_fill(none, 0)
  local weights = safe:softmax(-1):masked_fill(none, 0)
  local lse = safe:logsumexp(-1)
  return weights:matmul(v), weights, lse:masked_fill(none:squeeze(-1), 0)
end


local function copy_of(x)
  return x:detach():clone():requires_grad_()
end

-- Results and gradients of f(q, k, v), whose normalisers of -inf count as 0.
local function results(f, q, k, v)
  q, k, v = copy_of(q), copy_of(k), copy_of(v)
  local y, weights, lse = f(q, k, v)
  lse = lse:masked_fill(lse:eq(-math.huge), 0)
  local sum = (y * (y * 3):sin()):sum() + lse:cos():sum()
  sum:backward()
  return {y = y, weights = weights, lse = lse, dq = q.grad, dk = k.grad, dv = v.grad}
end


local function compare(found, wanted, near)
  for name, x in pairs(wanted) do
    if not found[name]:allclose(x, {rtol = near, atol = near}) then
      error(("%s differs by %g"):format(name, (found[name] - x):abs():max():item()), 2)
    end
  end
end


local function attending(o)
  return function(q, k, v)
    local given = {weights = true, lse = true}
    for name, value in pairs(o) do given[name] = value end
    return heed.attention(q, k, v, given)
  end
end


-- Calls f(name, mask, dense, q, k, v) for each mask and size.
local function each(dtype, f)
  heed.manual_seed(1)
  for _, size in ipairs(SIZES) do
    local B, H, Hk, T, S = table.unpack(size)
    local q = heed.randn(B, H, T, 8, {dtype = dtype})
    local k, v = heed.randn(B, Hk, S, 8, {dtype = dtype}), heed.randn(B, Hk, S, 5, {dtype = dtype})
    for name, rule in pairs(combined(rules(B, H, T, S))) do
      local dense = by_hand(rule[2], B, H, T, S)
      local good, why = pcall(f, rule[1], dense, q, k, v)
      if not good then error(("%s, T = %d, S = %d: %s"):format(name, T, S, why), 0) end
    end
  end
end


describe("a mask", function()
  it("is the rule that it is called, densely", function()
    each("float32", function(m, dense)
      assert.is_true(m:dense(table.unpack(dense.shape)):equal(dense))
    end)
  end)

  it("gives attention, and its gradients, of the dense mask", function()
    layouts.on_each_level(function()
      each("float32", function(m, dense, q, k, v)
        local wanted = results(function(...) return plain(dense, {}, ...) end, q, k, v)
        compare(results(attending{mask = m}, q, k, v), wanted, 2e-5)
      end)
    end)
  end)
end)
