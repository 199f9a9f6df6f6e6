-- heed.bias: each bias against its formula in loops and against golden tables, through attention,
-- fused and composed, with gradients; sums; biases as modules; messages.

local device = require "spec.support.device"
local golden = require "spec.golden"
local heed = require "heed"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"

local bias, mask, nn = heed.bias, heed.mask, heed.nn
local F64 <const> = {dtype = "float64"}
local COMPOSED <const> = device.gpu and 1e-4 or 1e-5      -- products may be three of TF32

-- B, H, Hk, T, S: within a tile and beyond, more queries than keys and fewer.
local SIZES = {
  {1, 2, 1, 1, 1}, {2, 2, 2, 5, 7}, {2, 2, 1, 9, 3}, {1, 2, 2, 1, 90}, {1, 2, 1, 150, 40},
  {1, 2, 2, 70, 130},
}

-- The values of f(h, d) at d = j - p, as (H, T, S), and their positions in a table (H, 2 R + 1).
local function by_hand(f, H, T, S)
  local list = {}
  for h = 1, H do
    for i = 1, T do
      for j = 1, S do list[#list + 1] = f(h, (j - 1) - (i - 1 + S - T)) end
    end
  end
  return heed.tensor(list, F64):view(H, T, S)
end


local function clamped(values)
  local list, R = values:totable(), values:size(2) // 2
  return function(h, d) return list[h][math.max(-R, math.min(R, d)) + R + 1] end
end


-- Pairs of a bias and its formula.
local function formulas()
  local values = heed.randn(2, 7)
  local t5 = bias.t5{heads = 2, buckets = 8, distance = 20}
  local weight, bucket_of = t5.weight:totable(), {}
  for _, row in ipairs(golden.read("biases").buckets) do
    if row.buckets == 8 and row.distance == 20 and row.bidirectional then
      for n = 1, #row.runs, 2 do
        for _ = 1, row.runs[n + 1] do bucket_of[#bucket_of + 1] = row.runs[n] end
      end
    end
  end
  local function alibi(h, d) return -(2.0 ^ (-4 * h)) * math.abs(d) end
  local function of_t5(h, d) return weight[bucket_of[d + 301] + 1][h] end
  local relative = clamped(values)
  return {
    alibi = {bias.alibi(2), alibi},
    ["alibi with slopes"] = {bias.alibi(2, {slopes = {0.5, 0}}), function(h, d)
      return h == 1 and -0.5 * math.abs(d) or 0
    end},
    relative = {bias.relative(values), relative},
    ["relative, for all heads"] = {bias.relative(values[{{1, 1}}]), function(_, d)
      return relative(1, d)
    end},
    t5 = {t5, of_t5},
    sum = {t5 + bias.alibi(2) + bias.relative(values), function(h, d)
      return alibi(h, d) + relative(h, d) + of_t5(h, d)
    end},
  }
end


-- Results and gradients of attention, those of the bias's parameters too.
local function results(q, k, v, o, parameters)
  local leaves = {q = q, k = k, v = v}
  for name, x in pairs(leaves) do leaves[name] = x:detach():clone():requires_grad_() end
  for _, p in ipairs(parameters or {}) do p.grad = nil end
  local y, weights, lse = heed.attention(leaves.q, leaves.k, leaves.v, o)
  lse = lse:masked_fill(lse:isinf(), 0)
  local sum = (y * (y * 3):sin()):sum() + lse:cos():sum()
  sum:backward()
  local found = {y = y, weights = weights, lse = lse}
  for name, x in pairs(leaves) do found["d" .. name] = assert(x.grad, name) end
  for n, p in ipairs(parameters or {}) do found["parameter " .. n] = assert(p.grad, n) end
  return found
end


local function compare(what, found, wanted, near)
  for name, x in pairs(wanted) do
    if not found[name]:allclose(x, {rtol = near, atol = near}) then
      error(("%s: %s differs by %g"):format(what, name,
                                            (found[name] - x):abs():max():item()), 2)
    end
  end
end


local function each(dtype, f)
  heed.manual_seed(2)
  for name, pair in pairs(formulas()) do
    for _, size in ipairs(SIZES) do
      local B, H, Hk, T, S = table.unpack(size)
      local q = heed.randn(B, H, T, 8, {dtype = dtype})
      local k = heed.randn(B, Hk, S, 8, {dtype = dtype})
      local v = heed.randn(B, Hk, S, 5, {dtype = dtype})
      local dense = by_hand(pair[2], H, T, S):to(dtype)
      f(("%s, T = %d, S = %d"):format(name, T, S), pair[1], dense, q, k, v)
    end
  end
end


describe("a bias", function()
  it("is its formula", function()
    each("float32", function(what, b, dense, q, k)
      local found = b:dense(q:size(3), k:size(3))
      assert.is_true((found + heed.zeros_like(dense)):allclose(dense, {atol = 1e-6}), what)
    end)
  end)

  it("gives attention of the dense tensor, and gradients, on each level", function()
    layouts.on_each_level(function()
      each("float32", function(what, b, dense, q, k, v)
        local o = {weights = true, lse = true, causal = true, softcap = 3}
        o.bias = dense
        local wanted = results(q, k, v, o)
        o.bias = b
        compare(what, results(q, k, v, o), wanted, 1e-5)
      end)
    end)
  end)

  it("gives them composed, and with dropout", function()
    each("float32", function(what, b, dense, q, k, v)
      for _, o in ipairs {{fused = false}, {dropout = 0.3}} do
        o.lse, o.mask = true, mask.window(5, 2)
        o.bias = dense
        heed.manual_seed(3)
        local wanted = results(q, k, v, o)
        o.bias = b
        heed.manual_seed(3)
        compare(what, results(q, k, v, o), wanted, COMPOSED)
      end
    end)
  end)

  it("gives its parameters the gradients of a dense tensor made of them", function()
    heed.manual_seed(4)
    for _, size in ipairs(SIZES) do
      local B, H, Hk, T, S = table.unpack(size)
      local q, k = heed.randn(B, H, T, 8, F64), heed.randn(B, Hk, S, 8, F64)
      local values = nn.Parameter(heed.randn(H, 9, F64))
      local i = heed.arange(T):unsqueeze(2) + (S - T)
      local at = (heed.arange(S) - i):clamp(-4, 4) + 5                     -- (T, S)
      for _, fused in ipairs {true, false} do
        local o = {lse = true, mask = mask.window(30, 3), softcap = 2, fused = fused}
        o.bias = values:index_select(2, at:reshape(-1)):view(H, T, S)
        local wanted = results(q, k, k, o, {values})
        o.bias = bias.relative(values)
        compare("gradients", results(q, k, k, o, {values}), wanted, 1e-10)
      end
    end
  end)

  it("passes a gradient check", function()
    local x, values = heed.randn(1, 2, 3, 4, F64), heed.randn(2, 5, F64)
    local more = heed.randn(3, 3, F64)
    assert.is_true(heed.gradcheck(function(q, t, s)
      return heed.attention(q, x, x, {bias = bias.relative(t) + s, causal = true})
    end, {x, values, more}))
  end)

  it("adds up with biases and tensors, on either side", function()
    local x, t = heed.randn(2, 2, 5, 4), heed.randn(5, 5)
    local a = bias.alibi(2)
    local wanted = heed.attention(x, x, x, {bias = a:dense(5, 5) + t})
    for _, b in ipairs {a + t, t + a, bias.tensor(t) + a} do
      assert.is_true(bias.is(b))
      assert.is_true(heed.attention(x, x, x, {bias = b}):allclose(wanted, {atol = 1e-6}))
    end
    assert.is_true(heed.attention(x, x, x, {bias = bias.tensor(t)})
                   :equal(heed.attention(x, x, x, {bias = t})))
  end)

  it("works on queries of rank 3 and 2, of other types, and on none", function()
    local x = heed.randn(2, 5, 4)
    local one = bias.alibi(1)
    assert.is_true(heed.attention(x, x, x, {bias = one})
                   :allclose(heed.attention(x, x, x, {bias = one:dense(5, 5)}), {atol = 1e-6}))
    assert.is_true(heed.attention(x[1], x[1], x[1], {bias = one})
                   :allclose(heed.attention(x, x, x, {bias = one})[1], {atol = 1e-6}))
    for _, dtype in ipairs {"float16", "bfloat16", "float64"} do
      local y = heed.attention(x:to(dtype), x:to(dtype), x:to(dtype), {bias = one})
      assert.equal(dtype, y.dtype)
      assert.is_true(y:float():allclose(heed.attention(x, x, x, {bias = one}), {atol = 2e-2}))
    end
    local none = heed.zeros(2, 0, 4)
    assert.equal("(2, 0, 4)", tostring(heed.attention(none, x, x, {bias = one}).shape))
    assert.equal(0, heed.attention(x, none, none, {bias = one}):abs():sum():item())
  end)

  it("gives its gradients the same bits whatever the number of threads is", function()
    local threads, x = heed.threads(), heed.randn(1, 2, 400, 16)
    local t5, grads = bias.t5{heads = 2}, {}
    for n = 1, 2 do
      heed.threads(n)
      t5:zero_grad()
      heed.attention(x, x, x, {bias = t5}):square():sum():backward()
      grads[n] = t5.weight.grad:clone()
    end
    heed.threads(threads)
    assert.is_true(grads[1]:equal(grads[2]))
  end)

  it("needs memory that grows with the lengths alone, for gradients too", function()
    local n = 2048
    local x, t5 = heed.randn(1, 1, n, 8):requires_grad_(), bias.t5{heads = 1}
    collectgarbage()
    local before = heed.memory()
    heed.memory{limit = before.live + before.cached + n * n}     -- a quarter of one score matrix
    local good, why = pcall(function()
      heed.attention(x, x, x, {bias = t5 + bias.alibi(1), causal = true}):sum():backward()
    end)
    heed.memory{limit = before.limit}
    if os.getenv "HEED_BUILD" == "basic" then assert.matches("memory limit", why)
    else assert.is_true(good, why) end
  end)
end)


describe("golden", function()
  local tables = golden.read("biases")

  it("slopes are those of alibi", function()
    for heads, slopes in pairs(tables.slopes) do
      local found = bias.alibi(heads):dense(1, 2)              -- (heads, 1, 2): -slope and 0
      assert.is_true(found[{{}, 1, 1}]:allclose(-heed.tensor(slopes)), "of " .. heads)
    end
  end)

  it("buckets are those of t5", function()
    for _, row in ipairs(tables.buckets) do
      local b = bias.t5{heads = 1, buckets = row.buckets, distance = row.distance,
                        bidirectional = row.bidirectional}
      heed.no_grad(b.weight.copy_, b.weight, heed.arange(0, row.buckets - 1):unsqueeze(2))
      local at = b:distances(301, 301)                         -- of p - j from -300 to 300
      local wanted = {}
      for n = 1, #row.runs, 2 do
        for _ = 1, row.runs[n + 1] do table.insert(wanted, 1, row.runs[n] + 0.0) end
      end
      assert.same(wanted, at[1]:totable())
    end
  end)
end)


describe("a bias as a module", function()
  it("has parameters, which a layer that holds it trains and saves", function()
    local Layer = nn.Module:extend("Layer")
    function Layer:init() self.bias = bias.t5{heads = 2} + bias.alibi(2) end
    local layer = Layer()
    assert.same({32, 2}, {layer:parameters()[1]:size()})
    assert.is_truthy(layer:state()["bias.a.weight"])
    assert.same({}, bias.alibi(4):parameters())
    assert.equal(1, #bias.relative(nn.Parameter(heed.zeros(2, 3))):parameters())
    assert.equal(1, #bias.tensor(nn.Parameter(heed.zeros(3, 3))):parameters())
    local slopes = nn.Parameter(heed.tensor{0.5, 0.25})
    local x = heed.randn(1, 2, 6, 4)
    heed.attention(x, x, x, {bias = bias.alibi(2, {slopes = slopes})}):square():sum():backward()
    assert.is_true(slopes.grad:ne(0):all())
  end)

  it("draws the first weights of t5 as an nn.Embedding does", function()
    heed.manual_seed(6)
    local one = bias.t5{heads = 4, buckets = 16}.weight
    heed.manual_seed(6)
    assert.is_true(one:equal(nn.Embedding(16, 4).weight))
  end)

  it("prints its sizes", function()
    assert.matches("Alibi%(8%)", tostring(bias.alibi(8)))
    assert.matches("T5%(2, buckets = 32, distance = 128, causal%)",
                   tostring(bias.t5{heads = 2, bidirectional = false}))
    assert.matches("Relative%(2, 3%)", tostring(bias.relative(heed.zeros(2, 7))))
  end)

  it("refuses what it does not take", function()
    local x = heed.randn(1, 2, 3, 4)
    for what, call in pairs {
      ["heed.bias: there is no 'alibii'; did you mean 'alibi'"] = function() bias.alibii(2) end,
      ["bias.alibi: .* as heads, got nil"] = function() bias.alibi() end,
      ["distances: queries expected as the third argument, got nil"] = function()
        bias.alibi(2):distances(3, 3)
      end,
      ["bias.alibi: 3 numbers"] = function() bias.alibi(3, {slopes = {1, 2}}) end,
      ["bias.t5: .*option heads, got nil"] = function() bias.t5{} end,
      ["bias.t5: .*an even number from 4 on"] = function() bias.t5{heads = 1, buckets = 5} end,
      ["bias.t5: more than 8 expected as option distance"] = function()
        bias.t5{heads = 1, distance = 8}
      end,
      ["bias.relative: .*2 R %+ 1"] = function() bias.relative(heed.zeros(2, 4)) end,
      ["bias.tensor: .*'mask'"] = function() bias.tensor(heed.ones(2):ne(0)) end,
      ["bias: biases for as many heads"] = function() return bias.alibi(2) + bias.alibi(3) end,
      ["bias: a bias or a float tensor expected, got true"] = function()
        return bias.alibi(2) + true
      end,
      ["argument 'bias': Alibi is for 3 heads"] = function()
        heed.attention(x, x, x, {bias = bias.alibi(3)})
      end,
      ["argument 'relative': .*%(2, 5%) expected, got %(2, 4%)"] = function()
        heed.attention(x, x, x, {relative = heed.zeros(2, 4)})
      end,
    } do
      assert.matches(what, message(call))
    end
    for _, b in ipairs{bias.alibi(2), bias.t5{heads = 2}, bias.relative(heed.zeros(2, 7)),
                       bias.tensor(heed.zeros(2, 3, 3)), bias.alibi(2) + bias.t5{heads = 2}} do
      assert.matches("at most 3 arguments expected, got 4",
                     message(b.distances, b, 3, 3, heed.ones(1), 4))
      assert.matches("no argument expected, got 4", message(b.matrix, b, 4))
    end
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
