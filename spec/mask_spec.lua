-- heed.mask: each mask and their combinations against the same rules in plain Lua loops, densely
-- and through attention, fused and composed, with gradients; what must not pass through; messages.

local core = require "heed.core"
local heed = require "heed"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"

local mask, inner = heed.mask, require "heed.internal.rule"
local NAN <const> = 0 / 0

-- B, H, Hk, T, S: within a tile and beyond, more queries than keys and fewer.
local SIZES = {
  {1, 1, 1, 1, 1}, {2, 2, 2, 5, 7}, {2, 4, 2, 9, 3}, {2, 2, 1, 1, 90}, {1, 1, 1, 150, 40},
  {1, 2, 1, 70, 130},
}

-- Rules: the mask, and the rule in Lua, of b, h, i and j from 1; p is the query's position from 0.
local function rules(B, T, S)
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
    ["causal from far"] = {mask.causal{offset = math.maxinteger}, function() return true end},
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
    every = {mask.every(3), function(_, _, i, j) return (position(i) - (j - 1)) % 3 == 0 end},
    ["every key"] = {mask.every(1), function() return true end},
    ["every one of many"] = {mask.every(20), function(_, _, i, j)
      return (position(i) - (j - 1)) % 20 == 0
    end},
    ["every one beyond all"] = {mask.every(math.maxinteger), function(_, _, i, j)
      return position(i) == j - 1
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
  ["a & b, dilated,"] = {"causal", "every", function(a, b) return a & b end,
                         function(a, b) return a and b end},
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
  local found = {y = y, weights = weights, lse = lse}
  for name, x in pairs{dq = q, dk = k, dv = v} do found[name] = assert(x.grad, name) end
  return found
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
    for name, rule in pairs(combined(rules(B, T, S))) do
      local dense = by_hand(rule[2], B, H, T, S)
      local good, why = pcall(f, rule[1], dense, q, k, v)
      if not good then error(("%s, T = %d, S = %d: %s"):format(name, T, S, why), 0) end
    end
  end
end


describe("a mask", function()
  it("is checked by C too", function()
    local rule = {core.mask_words().every, 0}
    assert.matches("every: a distance from 1 on expected, got 0",
                   message(core.attention_mask, {1, 1, 2, 2}, rule))
  end)

  -- The table of masks is src/op/masks.def: what it has must be among the rules above.
  it("is tried by every word of the table of masks", function()
    local words, tried = core.mask_words(), {}
    for _, one in pairs(combined(rules(2, 5, 7))) do
      local rule, at = inner.resolve(one[1], 2, 1, 5, 7, 4, heed.empty(0).device), 1
      while at <= #rule do
        tried[rule[at]] = true
        at = at + 1 + words[rule[at]].numbers
      end
    end
    for n = 0, #words do
      assert.is_true(tried[n] == true, "no rule has the word " .. words[n].name)
    end
  end)

  it("is the rule that it is called, densely", function()
    each("float32", function(m, dense)
      assert.is_true(m:dense(table.unpack(dense.shape)):equal(dense))
    end)
  end)

  it("gives attention, and its gradients, of the dense mask", function()
    layouts.on_each_level(function()
      each("float32", function(m, dense, q, k, v)
        local wanted = results(function(...) return plain(dense, {}, ...) end, q, k, v)
        compare(results(attending{mask = m}, q, k, v), wanted, 1e-5)
      end)
    end)
  end)

  it("gives them closely in float64, with a softcap, fused and composed", function()
    for _, fused in ipairs {true, false} do
      each("float64", function(m, dense, q, k, v)
        local wanted = results(function(...) return plain(dense, {softcap = 2}, ...) end, q, k, v)
        compare(results(attending{mask = m, softcap = 2, fused = fused}, q, k, v), wanted, 1e-11)
      end)
    end
  end)

  it("gives weights, which dropout thins", function()
    each("float32", function(m, dense, q, k, v)
      local y, weights = heed.attention(q, k, v, {mask = m, dropout = 0.3, weights = true})
      local _, all = plain(dense, {}, q, k, v)
      local kept = weights:ne(0)
      assert.is_true(weights:allclose(all * kept / 0.7, {atol = 1e-5}))
      local shared = q:size(2) // k:size(2)
      assert.is_true(y:allclose(weights:matmul(v:repeat_interleave(shared, 2)), {atol = 1e-5}))
    end)
  end)

  it("gives the gradients of its dense mask with dropout", function()
    each("float32", function(m, dense, q, k, v)
      local function dropped(given)
        heed.manual_seed(5)
        return results(attending{mask = given, dropout = 0.4}, q, k, v)
      end
      local state = heed.rng_state()
      compare(dropped(m), dropped(dense), 1e-5)
      heed.rng_state(state)
    end)
  end)

  it("joins `causal`, `lengths` and each other by and", function()
    local q, k = heed.randn(2, 1, 20, 4), heed.randn(2, 1, 25, 4)
    local lengths = heed.tensor{25, 9}
    local m = mask.window(6, 2)
    local one = heed.attention(q, k, k, {mask = m, causal = true, lengths = lengths})
    local other = heed.attention(q, k, k, {mask = m & mask.lengths(lengths) & mask.causal()})
    assert.is_true(one:allclose(other, {atol = 1e-6}))
  end)

  it("takes queries of rank 3 and 2, and predicates of them", function()
    local x, bools = heed.randn(2, 9, 4), heed.rand(2, 9, 9):gt(0.5)
    local masks = {
      mask.causal() & mask.keys(heed.rand(2, 9):gt(0.3)), mask.tensor(bools),
      mask.predicate(function(b, _, i, j) return (i + j + b) % 2 == 0 end),
    }
    for n, m in ipairs(masks) do
      local dense = n == 2 and bools or m:dense(2, 1, 9, 9):squeeze(2)
      local y = heed.attention(x, x, x, {mask = m})
      assert.is_true(y:equal(heed.attention(x, x, x, {mask = dense})))
    end
    local m = mask.predicate(function(_, _, i, j) return i ~= j end)
    local y = heed.attention(x[1], x[1], x[1], {mask = m})
    assert.is_true(y:equal(heed.attention(x[1], x[1], x[1], {mask = heed.eye(9):eq(0)})))
  end)

  it("asks a predicate once for each shape", function()
    local asked = 0
    local m = mask.predicate(function(b, h, i, j)
      asked = asked + 1
      assert(b == nil and h == nil)
      return i >= j
    end, {batch = false, heads = false})
    local x = heed.randn(2, 3, 4, 8)
    for _ = 1, 3 do
      heed.scope(function() heed.attention(x, x, x, {mask = m & mask.causal()}) end)
    end
    assert.equal(16, asked)
    m:dense(1, 1, 2, 5)
    assert.equal(26, asked)
  end)

  it("gives the same bits whatever the number of threads is", function()
    local threads = heed.threads()
    local x = heed.randn(1, 2, 300, 16)
    local m = (mask.window(40, 3) | mask.prefix(5)) & ~mask.tensor(heed.rand(300, 300):gt(0.9))
    local found = {}
    for n = 1, 2 do
      heed.threads(n)
      found[n] = results(attending{mask = m, bias = heed.bias.relative(heed.ones(2, 9))}, x, x, x)
    end
    heed.threads(threads)
    for name, y in pairs(found[1]) do assert.is_true(y:equal(found[2][name]), name) end
  end)

  it("of positions is the same in steps with a cache", function()
    local layer = require("heed.nn").MultiHeadAttention(8, 2)
    local x = heed.randn(1, 9, 8)
    for _, m in ipairs {mask.every(3), mask.every(2) & mask.window(5, 0)} do
      local cache = require("heed.nn").Cache()
      local whole = layer(x, {mask = m, causal = true})
      for i = 1, 9 do
        local y = layer(x:narrow(2, i, 1), {mask = m, causal = true, cache = cache})
        assert.is_true(y:allclose(whole:narrow(2, i, 1), {atol = 1e-5}))
      end
    end
  end)

  it("draws every third key", function()
    local drawn = tostring(mask.every(3) & heed.ones(3, 4):ne(0)):gsub("^%C+\n", "")
    assert.equal("  · ■ · ·\n  · · ■ ·\n  ■ · · ■", drawn)
  end)

  it("needs memory that grows with the lengths alone", function()
    local n = 2048
    local x = heed.randn(1, 1, n, 8):requires_grad_()
    local ids = heed.randint(1, 4, {n}):sort(-1)
    local m = mask.window(100, 0) & mask.documents(ids) | mask.prefix(3)
    collectgarbage()
    local before = heed.memory()
    heed.memory{limit = before.live + before.cached + n * n}     -- a quarter of one score matrix
    local good, why = pcall(function()
      heed.attention(x, x, x, {mask = m, bias = heed.bias.alibi(1)}):sum():backward()
    end)
    heed.memory{limit = before.limit}
    if os.getenv "HEED_BUILD" == "basic" then assert.matches("memory limit", why)
    else assert.is_true(good, why) end
  end)
end)


describe("what a mask blocks", function()
  -- Key 3 is blocked for all, and query 2 may attend to nothing but key 1.
  local function blocking(n)
    return mask.predicate(function(_, _, i, j) return j ~= 3 and (i ~= 2 or j == 1) end),
           ~mask.tensor(heed.arange(n):eq(3)) & (mask.prefix(1) | ~mask.blocks(1, 0))
  end

  for _, bad in ipairs {NAN, math.huge, -math.huge} do
    it(("does not leak, be it %g, in keys and values"):format(bad), function()
      for _, fused in ipairs {true, false} do
        for _, n in ipairs {5, 90} do
          for _, m in ipairs {blocking(n)} do
            local q, k, v = heed.randn(1, 2, n, 4), heed.randn(1, 2, n, 4), heed.randn(1, 2, n, 4)
            k[{{}, {}, 3}], v[{{}, {}, 3}] = bad, bad
            local found = results(attending{mask = m, fused = fused}, q, k, v)
            for name, x in pairs(found) do assert.is_false(x:isnan():any(), name) end
          end
        end
      end
    end)

    it(("does not leak, be it %g, in a query"):format(bad), function()
      for _, fused in ipairs {true, false} do
        for _, n in ipairs {5, 90} do
          local x = heed.randn(1, 1, n, 4)
          local q = x:clone()
          q[{1, 1, 2}] = bad
          local found = results(attending{mask = (blocking(n)), fused = fused}, q, x, x)
          assert.is_false(found.dk[{1, 1, {2, n}}]:isnan():any())
          assert.is_false(found.dv[{1, 1, {2, n}}]:isnan():any())
          assert.is_false(found.y[{1, 1, {3, n}}]:isnan():any())
        end
      end
    end)
  end

  it("leaves rows without any key at 0, with gradients of 0, also beside a sink", function()
    for _, fused in ipairs {true, false} do
      local x = heed.randn(2, 2, 6, 4):requires_grad_()
      local sink = heed.randn(2):requires_grad_()
      local y, weights = heed.attention(x, x, x, {
        mask = mask.window(3, 0) & mask.lengths(heed.tensor{0, 6}), sink = sink, weights = true,
        fused = fused,
      })
      assert.equal(0, y[1]:abs():sum():item())
      assert.equal(0, weights[1]:abs():sum():item())
      y:square():sum():backward()
      assert.equal(0, x.grad[1]:abs():sum():item())
      assert.is_false(x.grad:isnan():any() or sink.grad:isnan():any())
      assert.is_true(sink.grad:ne(0):all())
    end
  end)
end)


describe("a sink", function()
  local function with_column(q, k, v, sink)
    local s = q:matmul(k.mT) / q:size(4) ^ 0.5
    local B, H, T = s:size()
    s = heed.cat({s, sink:view(1, H, 1, 1):expand(B, H, T, 1)}, 4)
    return s:softmax(-1)[{{}, {}, {}, {1, k:size(3)}}]:matmul(v), s:logsumexp(-1)
  end

  it("is one more logit, whose value is nothing", function()
    for _, fused in ipairs {true, false} do
      local found, wanted = {}, {}
      local q, k, v = heed.randn(2, 3, 4, 5), heed.randn(2, 3, 70, 5), heed.randn(2, 3, 70, 6)
      for n, attend in ipairs {function(...)
        local y, _, lse = heed.attention(select(1, ...), select(2, ...), (select(3, ...)), {
          sink = select(4, ...), lse = true, fused = fused})
        return y, lse
      end, with_column} do
        local list = {copy_of(q), copy_of(k), copy_of(v), copy_of(heed.tensor{0.5, -2.0, 30.0})}
        local y, lse = attend(table.unpack(list))
        local sum = y:square():sum() + lse:sin():sum()
        sum:backward()
        local at = n == 1 and found or wanted
        at.y, at.lse = y, lse
        for i, x in ipairs(list) do at[i] = assert(x.grad, i) end
      end
      compare(found, wanted, 1e-5)
    end
  end)

  it("is a float for each head", function()
    local x = heed.randn(1, 2, 3, 4)
    for _, sink in ipairs {heed.zeros(3), heed.zeros(2, 1), heed.ones(2):ne(0), 1, true} do
      assert.matches("attention: argument 'sink': a float tensor of shape %(2%)",
                     message(heed.attention, x, x, x, {sink = sink}))
    end
    local y = heed.randn(3, 4)
    assert.equal("(3, 4)", tostring(heed.attention(y, y, y, {sink = heed.zeros(1)}).shape))
  end)
end)


describe("heed.mask", function()
  local x = heed.randn(2, 2, 5, 4)

  it("prints the rule and draws it", function()
    assert.equal("causal() & ~prefix(1)\n  · · ·\n  · ■ ·\n  · ■ ■",
                 tostring(mask.causal() & ~mask.prefix(1)):gsub("^(%C+)\n.*", "%1")
                 .. "\n" .. tostring(mask.causal() & ~mask.prefix(1)
                                     & mask.tensor(heed.ones(3, 3):ne(0))):gsub("^%C+\n", ""))
    assert.matches("^%(causal%(%) & window%(2, math.huge%)%) | prefix%(2%)\n",
                   tostring(mask.causal() & mask.window(2, math.huge) | mask.prefix(2)))
    assert.matches("sequence 1 of 2", tostring(mask.lengths(heed.tensor{1, 2})))
    local long = mask.lengths(heed.tensor{2, 12})              -- columns for the longest of them
    local _, lines = tostring(long):gsub("\n  ■ ■" .. (" ·"):rep(10), "")
    assert.equal(12, lines)
  end)

  it("stays as it is, and knows its names", function()
    local m = mask.causal()
    assert.is_true(mask.is(m))
    assert.is_false(mask.is(x) or mask.is({}) or mask.is(nil))
    assert.matches("stays as it is", message(function() m.rule = {} end))
    assert.matches("heed.mask: there is no 'casual'", message(function() return mask.casual end))
    assert.matches("mask: there is no 'dence'", message(function() return m.dence end))
  end)

  it("refuses what is no rule", function()
    local keys = heed.ones(2, 5):ne(0)
    for what, call in pairs {
      ["mask.causal: .*'offest'.*'offset'"] = function() mask.causal{offest = 1} end,
      ["mask.causal: a whole number"] = function() mask.causal{offset = 1.5} end,
      ["mask.window: .*at least 0 expected as argument 'left', got %-1"] = function()
        mask.window(-1)
      end,
      ["mask.lengths: argument 'lengths': an int64 tensor"] = function() mask.lengths(keys) end,
      ["mask.keys: argument 'keys': a bool tensor"] = function() mask.keys(x) end,
      ["mask.tensor: argument 't': .*'bias'"] = function() mask.tensor(x) end,
      ["mask.documents: argument 'ids'"] = function() mask.documents({1, 2}) end,
      ["mask.blocks: .*argument 'size', got 0"] = function() mask.blocks(0) end,
      ["mask.prefix: .*argument 'n'"] = function() mask.prefix("2") end,
      ["mask.every: .*at least 1 expected as argument 'n', got 0"] = function() mask.every(0) end,
      ["mask.every: .*argument 'n', got 1.5"] = function() mask.every(1.5) end,
      ["mask.predicate: a function"] = function() mask.predicate(x) end,
      ["mask.predicate: .*'heads'"] = function() mask.predicate(print, {head = false}) end,
      ["a boolean expected, got nil"] = function()
        mask.predicate(function() end):dense(1, 1, 1, 1)
      end,
      ["mask: a mask or a bool tensor expected, got true"] = function()
        return mask.causal() & true
      end,
      ["mask.tensor: .*float32.*'bias'"] = function() return x & mask.causal() end,
      ["mask:dense: .*argument 'S', got nil"] = function() mask.causal():dense(1, 2, 3) end,
    } do
      assert.matches(what, message(call))
    end
  end)

  local function refuses(q, m, what)
    local why = message(heed.attention, q, q, q, {mask = m})
    assert.matches("attention: argument 'mask': ", why, 1, true)
    assert.matches(what, why)
  end

  it("is refused by attention where it does not fit", function()
    for what, m in pairs {
      ["keys: a bool tensor of a shape that broadcasts to %(2, 5%)"] =
        mask.keys(heed.ones(3, 5):ne(0)),
      ["documents: an int64 tensor"] = mask.documents(heed.tensor{1, 6}),
      ["tensor: a bool tensor"] = mask.tensor(heed.ones(4, 5):ne(0)),
      ["a mask of heed.mask or a bool tensor expected"] = {},
      ["called 'bias'"] = heed.bias.alibi(2),
    } do
      refuses(x, m, what)
    end
    local y, cpu = x:to("cpu"), {device = "cpu"}               -- a GPU reports values later
    refuses(y, mask.lengths(heed.tensor({1, 6}, cpu)), "keys from 0 to 5 expected, got 6")
    refuses(y, mask.prefix(heed.tensor({1, -6}, cpu)), "numbers of keys .* expected, got %-6")
    assert.matches("stands in a table, as in {mask = m}",
                   message(heed.attention, x, x, x, mask.causal()))
    assert.matches("'mask'", message(heed.attention, x, x, x, {bias = mask.causal()}))
    assert.matches("attention: at most 4 arguments expected, got true as argument 5",
                   message(heed.attention, x, x, x, {mask = mask.causal()}, true))
    assert.matches("attention: unknown option 'causl'.*'causal'",
                   message(heed.attention, x, x, x, {mask = mask.causal(), causl = true}))
  end)

  it("gives way to a tensor's operators on either side", function()
    local bools = heed.rand(5, 5):gt(0.5)
    local wanted = bools & mask.causal():dense(1, 1, 5, 5)[{1, 1}]
    for _, m in ipairs {bools & mask.causal(), mask.causal() & bools} do
      assert.is_true(m:dense(1, 1, 5, 5)[{1, 1}]:equal(wanted))
    end
    assert.is_true((bools | mask.causal()):dense(1, 1, 5, 5)[{1, 1}]
                   :equal(bools | mask.causal():dense(1, 1, 5, 5)[{1, 1}]))
  end)

  it("takes a rule of any length", function()
    local m, wanted = mask.prefix(0), heed.zeros(1, 1, 30, 30):ne(0)
    for n = 1, 150 do
      local part = heed.rand(30, 30):gt(0.99)
      m, wanted = n % 2 == 0 and m | part or mask.tensor(part) | m, wanted | part
      if n % 5 == 0 then m = m | mask.blocks(n) & mask.window(0, 0) end
    end
    wanted = wanted | heed.eye(30):ne(0)
    assert.is_true(m:dense(1, 1, 30, 30):equal(wanted))
    local y = heed.randn(30, 4)
    assert.is_true(heed.attention(y, y, y, {mask = m})
                   :equal(heed.attention(y, y, y, {mask = wanted[{1, 1}]})))
  end)
end)


describe("a chain of operators", function()
  local function chain(n)
    local m = heed.mask.causal()
    for i = 1, n do m = m | heed.mask.window(i % 3, i % 5) end
    return m
  end

  it("takes memory by its length", function()
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    local m = chain(2000)
    collectgarbage()
    local grown = collectgarbage "count" - before
    assert.is_true(grown < 4096, grown .. " KiB")
    local few = heed.mask.causal() | heed.mask.window(2, 4)
    assert.is_true(m:dense(1, 1, 8, 9):equal(few:dense(1, 1, 8, 9)))
    assert.is_true((~m):dense(1, 1, 8, 9):equal((~few):dense(1, 1, 8, 9)))
  end)

  it("has the text of its operators, long or short", function()
    local text, m = "causal()", chain(200)
    for i = 1, 200 do
      local joined = i == 1 and "%s | window(%d, %d)" or "(%s) | window(%d, %d)"
      text = joined:format(text, i % 3, i % 5)
    end
    assert.equal(text, tostring(m):match "^[^\n]*")
    assert.equal("~(" .. text .. ")", tostring(~m):match "^[^\n]*")
  end)

  it("ends at a depth, and at a number of words", function()
    local deepest = chain(10000)
    assert.error_matches(function() return deepest | heed.mask.causal() end,
                         "mask: at most 10000 operators within each other expected")
    assert.error_matches(function()
      local m = heed.mask.causal()
      for _ = 1, 100 do m = m & m end
    end, "mask: operators that join at most 1048576 words and numbers expected, got 2097151")
    local m = heed.mask.causal()
    for _ = 1, 18 do m = m & m end                  -- from 3 to 2^20 - 1 words
    m = ~m
    assert.error_matches(function() return ~m end, "at most 1048576 words .* got 1048577")
  end)
end)
