-- Attention, fused, against attention composed from the other operations: results and gradients,
-- for every kind of mask and on every level; and what must not pass through a mask.

local heed = require "heed"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"

local NAN <const> = 0 / 0

-- B, H, Hk, T, S, D, Dv: below one tile of keys and one panel of queries, and beyond both.
local SIZES = {
  {1, 1, 1, 1, 1, 1, 1},
  {2, 2, 2, 5, 7, 8, 8},
  {2, 4, 2, 9, 3, 5, 7},
  {1, 2, 1, 70, 130, 16, 24},
}

local function dense_mask(B, H, T, S)
  return heed.rand(B, H, T, S):gt(0.3)
end

local KINDS = {
  plain = function() return {} end,
  causal = function() return {causal = true} end,
  lengths = function(B, _, _, S) return {lengths = heed.randint(0, S, {B})} end,
  ["a mask"] = function(B, H, T, S) return {mask = dense_mask(B, H, T, S)} end,
  ["a mask for all heads"] = function(_, _, T, S) return {mask = dense_mask(1, 1, T, S)} end,
  ["all masks at once"] = function(B, _, T, S)
    return {causal = true, lengths = heed.randint(0, S, {B}), mask = dense_mask(B, 1, T, S)}
  end,
  softcap = function() return {softcap = 2.5, causal = true} end,
  scale = function() return {scale = 0.3} end,
  bias = function(B, H, T, S) return {bias = heed.randn(B, H, T, S), causal = true} end,
  ["a bias for all batches"] = function(_, H, T, S) return {bias = heed.randn(H, T, S)} end,
}

local function leaf(...)
  return heed.randn(...):requires_grad_()
end

local function copy_of(x)
  return x:detach():clone():requires_grad_()
end

-- Results and gradients of one call, by name.
local function results(q, k, v, given, fused)
  local options = {fused = fused, weights = true, lse = true}
  for name, value in pairs(given) do options[name] = value end
  local leaves = {q = copy_of(q), k = copy_of(k), v = copy_of(v)}
  if given.bias then
    leaves.bias = copy_of(given.bias)
    options.bias = leaves.bias
  end
  local y, weights, lse = heed.attention(leaves.q, leaves.k, leaves.v, options)
  local finite = lse:isinf():logical_not()
  local sum = (y * (y * 3):sin()):sum() + heed.where(finite, lse, 0):cos():sum()
  sum:backward()
  local found = {y = y, weights = weights, lse = lse}
  for name, x in pairs(leaves) do found["the gradient of " .. name] = assert(x.grad, name) end
  return found
end


local function compare(fused, composed, near)
  for name, x in pairs(fused) do
    local good = x:allclose(composed[name]:to(x.dtype), {rtol = near, atol = near})
    if not good then
      error(("%s differs by %g"):format(name, (x - composed[name]):abs():max():item()))
    end
  end
end


describe("attention, fused and composed, agrees", function()
  for kind, make in pairs(KINDS) do
    it("with " .. kind, function()
      layouts.on_each_level(function()
        heed.manual_seed(3)
        for _, size in ipairs(SIZES) do
          local B, H, Hk, T, S, D, Dv = table.unpack(size)
          local q, k, v = leaf(B, H, T, D), leaf(B, Hk, S, D), leaf(B, Hk, S, Dv)
          local given = make(B, H, T, S)
          compare(results(q, k, v, given), results(q, k, v, given, false), 2e-5)
        end
      end)
    end)
  end

  it("in float64", function()
    heed.manual_seed(4)
    local f64 = {dtype = "float64"}
    local q, k = heed.randn(2, 2, 9, 4, f64), heed.randn(2, 1, 70, 4, f64)
    local given = {causal = true, lengths = heed.tensor{70, 3}}
    compare(results(q, k, k, given), results(q, k, k, given, false), 1e-12)
  end)

  it("in halves, to their precision", function()
    heed.manual_seed(5)
    for name, near in pairs{float16 = 2e-2, bfloat16 = 1e-1} do
      local q, k = heed.randn(2, 2, 9, 8):to(name), heed.randn(2, 2, 12, 8):to(name)
      compare(results(q, k, k, {causal = true}),
              results(q:float(), k:float(), k:float(), {causal = true}, false), near)
    end
  end)

  it("on views of every kind", function()
    heed.manual_seed(6)
    local base = {2, 3, 20, 8}
    local views = {
      transposed = function(x) return x:transpose(3, 4):contiguous():transpose(3, 4) end,
      ["heads last"] = function(x) return x:transpose(2, 3):contiguous():transpose(2, 3) end,
      sliced = function(x) return heed.cat({x, x}, 4)[{{}, {}, {}, {5, 12}}] end,
      strided = function(x) return heed.cat({x, x}, 3)[{{}, {}, {1, 40, 2}}] end,
      broadcast = function(x) return x:narrow(1, 1, 1):expand(2, 3, 20, 8) end,
    }
    for name, view in pairs(views) do
      local q, k, v = view(heed.randn(base)), view(heed.randn(base)), view(heed.randn(base))
      local one, other = heed.attention(q, k, v, {causal = true}),
                         heed.attention(q, k, v, {causal = true, fused = false})
      assert.is_true(one:allclose(other, {atol = 1e-5}), name)
    end
  end)

  it("with dropout, on the weights that it hands out", function()
    heed.manual_seed(7)
    local q, k, v = heed.randn(2, 2, 40, 8), heed.randn(2, 2, 70, 8), heed.randn(2, 2, 70, 8)
    local y, weights = heed.attention(q, k, v, {dropout = 0.4, weights = true})
    assert.is_true(y:allclose(weights:matmul(v), {atol = 1e-5}))
    assert.near(0.4, weights:eq(0):float():mean():item(), 0.02)
  end)

  it("with dropout, of doubles as exactly composed as fused", function()
    local q, k = heed.randn(2, 3, 5, 8):double(), heed.randn(2, 3, 7, 8):double()
    local function dropped(fused)
      heed.manual_seed(3)
      return heed.attention(q, k, k, {dropout = 0.3, fused = fused})
    end
    assert.is_true(dropped(true):allclose(dropped(false), {rtol = 0, atol = 1e-14}))
  end)
end)


-- Many small heads, one to a lane, against each batch by itself, which is too small for that way.
local SMALL = {{5, 7, 8, 8}, {10, 10, 5, 5}, {16, 16, 8, 8}, {32, 40, 3, 4}, {9, 64, 1, 2}}
local MANY <const> = 19            -- batches, of two heads

local function narrowed(given, n)
  local own = {}
  for name, value in pairs(given) do
    own[name] = heed.is_tensor(value) and value:size(1) == MANY and value:narrow(1, n, 1) or value
  end
  return own
end

-- Results and gradients, as a list; 'part' cuts inputs and gradients out of those of all batches.
local function small_results(leaves, grads, given, part)
  local inputs = {}
  for i, x in ipairs(leaves) do inputs[i] = part(x):clone():requires_grad_() end
  local options = {lse = true, weights = true}
  for name, value in pairs(given) do options[name] = value end
  local y, weights, lse = heed.attention(inputs[1], inputs[2], inputs[3], options)
  local sum = (y * part(grads[1])):sum()
  if grads[2] then sum = sum + (lse * part(grads[2])):sum() end
  sum:backward()
  local all = {y, weights, lse}
  for i, x in ipairs(inputs) do all[3 + i] = assert(x.grad, i) end
  return all
end

local function check_small(name, make, bad)
  for _, size in ipairs(SMALL) do
    local T, S, D, Dv = table.unpack(size)
    local q, k, v = heed.randn(MANY, 2, T, D), heed.randn(MANY, 2, S, D), heed.randn(MANY, 2, S, Dv)
    if bad then
      k[{{}, {}, S}] = bad
      v[{{}, {}, S}] = bad
    end
    local grads = {heed.randn(MANY, 2, T, Dv), D ~= 5 and heed.randn(MANY, 2, T)}
    local given = make(MANY, 2, T, S)
    local all = small_results({q, k, v}, grads, given, function(x) return x end)
    for n = 1, MANY, 6 do
      local one = small_results({q, k, v}, grads, narrowed(given, n),
                                function(x) return x:narrow(1, n, 1) end)
      for i, x in ipairs(all) do
        local own, other = x:narrow(1, n, 1), one[i]
        local a, b = own:masked_fill(own:isnan(), 0), other:masked_fill(other:isnan(), 0)
        assert(heed.equal(own:isnan(), other:isnan()) and
               (heed.equal(a, b) or bad and a:allclose(b, {atol = 1e-5})),
               ("%s, result %d of batch %d, %d queries"):format(name, i, n, T))
      end
    end
  end
end

describe("attention of many small heads has the bits of each batch alone", function()
  for _, name in ipairs {"plain", "causal", "lengths", "a mask", "a mask for all heads", "scale"} do
    it("with " .. name, function()
      layouts.on_each_level(function(level)
        heed.manual_seed(10)
        check_small(level .. " " .. name, KINDS[name])
      end)
    end)
  end

  it("or nearly so, with what is not finite behind a mask, and in front of it", function()
    layouts.on_each_level(function(level)
      heed.manual_seed(11)
      for _, bad in ipairs {NAN, math.huge} do
        check_small(level .. " blocked", function(_, _, _, S)
          return {mask = heed.arange(1, S):lt(S):expand(1, S)}
        end, bad)
      end
      check_small(level .. " causal", KINDS.causal, NAN)
    end)
  end)

  it("in float64, and agrees with the composed one", function()
    heed.manual_seed(12)
    local f64 = {dtype = "float64"}
    for _, size in ipairs(SMALL) do
      local T, S, D, Dv = table.unpack(size)
      local q, k, v = heed.randn(MANY, 1, T, D, f64), heed.randn(MANY, 1, S, D, f64),
                      heed.randn(MANY, 1, S, Dv, f64)
      for _, given in ipairs {{}, {causal = true}} do
        compare(results(q, k, v, given), results(q, k, v, given, false), 1e-12)
      end
    end
  end)
end)


-- Factors of the keys, from which scores rise and fall from tile to tile by more than exp's range.
-- Scores are whole numbers times powers of 2, which float32 holds exactly.
local COURSES = {
  level = {[1] = 1},
  rising = {[1] = 1, [65] = 16, [129] = 64, [200] = 256},
  falling = {[1] = 256, [65] = 16, [129] = 1},
  ["with one huge key"] = {[1] = 1, [333] = 1024, [334] = 1},
  ["rising a little"] = {[1] = 1, [65] = 2, [129] = 3, [193] = 4},
  ["that one key is far beyond"] = {[1] = 1, [100] = 0x1p100, [101] = 1},
}

describe("attention to scores", function()
  for name, course in pairs(COURSES) do
    it(name .. " is that in float64", function()
      layouts.on_each_level(function()
        heed.manual_seed(9)
        local factors, factor = {}, 1
        for j = 1, 400 do
          factor = course[j] or factor
          factors[j] = factor
        end
        local q = heed.randint(-1, 1, {1, 2, 70, 16}):float()
        local k = heed.randint(-1, 1, {1, 2, 400, 16}):float() * heed.tensor(factors):unsqueeze(-1)
        local v = heed.randn(1, 2, 400, 16)
        for _, causal in ipairs{false, true} do
          local options = {lse = true, scale = math.log(2), causal = causal}
          local y, _, lse = heed.attention(q, k, v, options)
          options.fused = false
          local exact, _, exact_lse = heed.attention(q:double(), k:double(), v:double(), options)
          assert.is_true(y:allclose(exact:float(), {rtol = 1e-5, atol = 1e-5}))
          assert.is_true(lse:allclose(exact_lse:float(), {rtol = 1e-6, atol = 1e-5}))
        end
      end)
    end)
  end
end)


describe("attention", function()
  it("of rows that may attend to nothing is 0, its lse -inf, its gradients 0", function()
    for _, fused in ipairs{true, false} do
      local q, k = leaf(1, 1, 3, 4), leaf(1, 1, 5, 4)
      local y, weights, lse = heed.attention(q, k, k, {
        lengths = heed.tensor{0}, weights = true, lse = true, fused = fused,
      })
      assert.equal(0, y:abs():sum():item())
      assert.equal(0, weights:abs():sum():item())
      assert.same({{{-math.huge, -math.huge, -math.huge}}}, lse:totable())
      y:sum():backward()
      assert.equal(0, q.grad:abs():sum():item())
      assert.equal(0, k.grad:abs():sum():item())
    end
  end)

  it("refuses lengths below 0 and beyond the keys", function()
    local x, cpu = heed.randn(2, 3, 4, {device = "cpu"}), {device = "cpu"}
    local y = heed.attention(x, x, x, {lengths = heed.tensor({3, 3}, cpu)})
    assert.is_true(y:equal(heed.attention(x, x, x)))
    local strided = heed.tensor({1, 2, -3, 4}, cpu)[{{1, 4, 2}}]
    for n, lengths in pairs {[-1] = heed.tensor({2, -1}, cpu), [-2] = -2, [-3] = strided,
                             [4] = heed.tensor({0, 4}, cpu), [5] = 5} do
      local why = message(heed.attention, x, x, x, {lengths = lengths})
      assert.matches("attention: argument 'lengths': numbers of keys from 0 to 3 expected, got "
                     .. n, why, 1, true)
    end
  end)

  it("of nothing, and to nothing", function()
    for _, fused in ipairs{true, false} do
      local none = heed.attention(heed.zeros(1, 2, 0, 4), heed.ones(1, 2, 3, 4),
                                  heed.ones(1, 2, 3, 4), {fused = fused})
      assert.same({1, 2, 0, 4}, {none:size()})
      local zeros, weights, lse = heed.attention(heed.ones(1, 2, 3, 4), heed.zeros(1, 2, 0, 4),
                                                 heed.zeros(1, 2, 0, 5),
                                                 {fused = fused, weights = true, lse = true})
      assert.same({1, 2, 3, 5}, {zeros:size()})
      assert.equal(0, zeros:abs():sum():item())
      assert.same({1, 2, 3, 0}, {weights:size()})
      assert.same({{{-math.huge, -math.huge, -math.huge}, {-math.huge, -math.huge, -math.huge}}},
                  lse:totable())
    end
  end)

  -- Position 3 of the keys is blocked for all queries; or query 2 is NaN, and blocked from key 4.
  for _, bad in ipairs{NAN, math.huge, -math.huge} do
    for _, fused in ipairs{true, false} do
      local how = fused and "fused" or "composed"

      it(("lets nothing of a blocked key of %g through, %s"):format(bad, how), function()
        for _, n in ipairs{5, 90} do
          heed.manual_seed(8)
          local q, k, v = heed.randn(1, 2, n, 4), heed.randn(1, 2, n, 4), heed.randn(1, 2, n, 4)
          local mask = heed.ones(n, n):ne(0)
          mask[{{}, 3}] = false
          k[{{}, {}, 3}], v[{{}, {}, 3}] = bad, bad
          local found = results(q, k, v, {mask = mask, causal = true}, fused)
          for name, x in pairs(found) do
            assert.is_true(not x:isnan():any(), name .. " holds NaN")
          end
        end
      end)

      it(("keeps a query of %g to the keys that it may attend to, %s"):format(bad, how), function()
        for _, n in ipairs{5, 90} do
          heed.manual_seed(9)
          local q, k = heed.randn(1, 1, n, 4), heed.randn(1, 1, n, 4)
          q[{1, 1, 2}] = bad
          local found = results(q, k, k, {causal = true}, fused)
          for _, name in ipairs{"the gradient of k", "the gradient of v", "weights"} do
            local part = name == "weights" and found.weights[{1, 1, {}, {3, n}}]
                         or found[name][{1, 1, {3, n}}]
            assert.is_false(part:isnan():any(), name .. " holds NaN")
          end
          assert.is_true(found.y[{1, 1, 2}]:isnan():all())
        end
      end)
    end
  end

  -- Composed attention has the matrix of scores: then the limit refuses it.
  it("uses memory that grows with the lengths, not with their product", function()
    local n = 2048
    local q = leaf(1, 1, n, 8)
    collectgarbage()
    local before = heed.memory()
    heed.memory{limit = before.live + before.cached + n * n}     -- a quarter of one score matrix
    local good, why = pcall(function()
      heed.attention(q, q, q, {causal = true}):sum():backward()
    end)
    heed.memory{limit = before.limit}
    if os.getenv "HEED_BUILD" == "basic" then
      assert.matches("attention: memory limit", why)
    else
      assert.is_true(good, why)
    end
  end)
end)


describe("a sink of minus infinity", function()
  it("is none", function()
    local x, none = heed.randn(1, 2, 3, 4), heed.full({2}, -math.huge)
    local y, _, lse = heed.attention(x, x, x, {lse = true})
    local sink = none:clone():requires_grad_()
    local z, _, other = heed.attention(x, x, x, {lse = true, sink = sink})
    assert.is_true(y:equal(z) and lse:equal(other))
    local sum = z:sum() + other:sum()
    sum:backward()
    assert.same({0, 0}, sink.grad:totable())
    local m = heed.nn.MultiHeadAttention(4, 2, {memory = 3, sink = true})
    heed.no_grad(function() m.sink:copy_(none) end)
    assert.is_true(m(heed.randn(1, 2, 4)):isfinite():all())
  end)
end)


describe("the result of attention", function()
  local function gradient_of(f, q)
    local own = copy_of(q);
    (f(own) * heed.arange(q:size(-1))):sum():backward()
    return own.grad
  end

  it("lies as the query: heads side by side are joined without a copy", function()
    local k, v = heed.randn(2, 3, 7, 4), heed.randn(2, 3, 7, 4)
    local apart = heed.randn(2, 3, 5, 4)
    local beside = apart:transpose(2, 3):contiguous():transpose(2, 3)
    local part = heed.randn(2, 5, 3, 12):narrow(4, 5, 4):transpose(2, 3)
    local cases = {
      {apart, false}, {beside, true}, {part, true}, {apart:transpose(2, 3):flip(3), false},
      {heed.randn(2, 3, 1, 4):expand(2, 3, 5, 4), false},
      {heed.randn(2, 1, 5, 4):expand(2, 3, 5, 4), false},
    }
    for i, case in ipairs(cases) do
      local q, wanted = table.unpack(case)
      local few = q:size(2) == 3 and k or k:narrow(2, 1, 1):expand(2, q:size(2), 7, 4)
      local values = q:size(2) == 3 and v or v:narrow(2, 1, 1):expand(2, q:size(2), 7, 4)
      local function f(x) return heed.attention(x, few, values) end
      local y, same = f(q), f(q:contiguous())
      assert.same(q.shape, y.shape)
      assert.is_true(y:equal(same), i)
      assert.is_true(same:is_contiguous(), i)
      if os.getenv "HEED_BUILD" ~= "basic" then      -- composed there
        assert.equal(not wanted, y:is_contiguous(), i)
        assert.equal(wanted, y:transpose(2, 3):is_contiguous(), i)
      end
      assert.is_true(gradient_of(f, q):equal(gradient_of(f, q:contiguous())), i)
    end
    local y = heed.attention(beside[1], k[1], v[1])                 -- of rank 3
    assert.is_true(y:equal(heed.attention(apart, k, v)[1]))
    for _, shape in ipairs{{2, 0, 5, 4}, {2, 3, 0, 4}, {2, 3, 1, 4}, {2, 1, 5, 4}} do
      local q = heed.randn(shape):transpose(2, 3):contiguous():transpose(2, 3)
      local one = heed.randn(2, shape[2], 7, 4)
      assert.same(q.shape, heed.attention(q, one, one).shape)
    end
    local wide = heed.attention(beside, k, heed.randn(2, 3, 7, 9))
    assert.same({2, 3, 5, 9}, {wide:size()})
    assert.is_true(heed.attention(heed.randn(5, 4), k[{1, 1}], v[{1, 1}]):is_contiguous())
  end)
end)


describe("attention beside a rule", function()
  it("may be causal, and have lengths, however long the rule is", function()
    local mask = heed.mask
    local q, k = heed.randn(2, 1, 20, 4), heed.randn(2, 1, 25, 4)
    local ends, lengths = mask.causal(), heed.tensor{25, 9}
    local function window(words) return mask.window(12 - words, 12) end
    local function bools() return mask.tensor(heed.rand(2, 1, 20, 25):gt(0.2)) end
    for first, next in pairs{[window(0)] = window, [~mask.every(3)] = window, [bools()] = bools} do
      local rule = first
      for words = 1, 9 do
        for ways = 0, 3 do
          local causal, short = ways & 1 ~= 0, ways & 2 ~= 0
          local y = heed.attention(q, k, k, {mask = rule, causal = causal,
                                             lengths = short and lengths or nil})
          local wanted = rule:dense(2, 1, 20, 25)
          if causal then wanted = wanted & ends:dense(2, 1, 20, 25) end
          if short then wanted = wanted & mask.lengths(lengths):dense(2, 1, 20, 25) end
          assert.is_true(y:allclose(heed.attention(q, k, k, {mask = wanted}), {atol = 1e-6}),
                         ("%d words, way %d"):format(words, ways))
        end
        rule = rule & next(words)
      end
    end
  end)

  it("makes no matrix of bools up to the longest rule that a device reads", function()
    local mask, n = heed.mask, 1024
    local q, lengths = heed.randn(1, 1, n, 4), heed.tensor{n - 9}
    local ids, bools = heed.randint(1, 4, {n}):sort(-1), heed.rand(1, 1, 1, n):gt(0.2)
    local function windows(count)                  -- joined: 2 count - 1 nodes
      local rule = mask.window(count, 0)
      for i = 2, count do rule = rule & mask.window(count - i, 0) end
      return rule
    end
    local documents = mask.documents(ids) & mask.documents(ids)
    for i, case in ipairs{
      {~windows(8)}, {~windows(7), {causal = true}},
      {~windows(6), {causal = true, lengths = lengths}},
      {documents & documents}, {documents & bools, {lengths = lengths}},
    } do
      local options = case[2] or {}
      options.mask = case[1]
      collectgarbage()
      local before = heed.memory()
      heed.memory{limit = before.live + before.other + n * n // 2}
      local good, why = pcall(heed.attention, q, q, q, options)
      heed.memory{limit = before.limit}
      if os.getenv "HEED_BUILD" == "basic" then assert.matches("memory limit", why)
      else assert.is_true(good, ("case %d: %s"):format(i, why)) end
    end
  end)
end)
