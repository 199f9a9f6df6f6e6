-- Extremes: empty tensors, more elements than 31 bits count, logits beyond exp, norms of constants,
-- tables with metamethods.

local close = require "spec.support.close"
local heed = require "heed"
local device = require "spec.support.device"
local optim = require "heed.optim"

local huge, nan = math.huge, 0 / 0
local composed <const> = os.getenv "HEED_BUILD" == "basic"

local function leaf(...) return heed.tensor(...):requires_grad_() end

-- Lua's assert.same takes NaN for another NaN.
local function same(wanted, x)
  local list = x:reshape(-1):totable()
  assert.equal(#wanted, #list)
  for i, v in ipairs(wanted) do
    assert.is_true(list[i] == v or v ~= v and list[i] ~= list[i], ("%s at %d"):format(list[i], i))
  end
end

local function near(wanted, x)
  assert.is_true(heed.tensor(wanted):reshape(-1):allclose(x:detach():float():reshape(-1)))
end


describe("nothing", function()
  it("has the sum 0, the product 1, no mean, and nothing that is largest", function()
    local x = heed.zeros(0)
    same({0}, x:sum())
    same({1}, x:prod())
    same({nan}, x:mean())
    same({nan}, x:var())
    for _, p in ipairs{0, 0.5, 1, 2} do same({0}, x:norm(p)) end
    same({-huge}, x:logsumexp(1))
    assert.is_true(x:eq(1):all() and not x:eq(1):any())
    for _, name in ipairs {"max", "min", "argmax", "argmin"} do
      assert.error_matches(function() heed[name](x) end, name .. ": .*empty dimension.*%(0%)")
    end
  end)

  it("has a loss by labels: none in all, no mean, and none of each", function()
    local labels = heed.zeros(0):to("int64")
    for _, loss in ipairs{heed.nll_loss, heed.cross_entropy} do
      local x = heed.zeros(0, 3, {requires_grad = true})
      local y = loss(x, labels, {reduction = "sum"})
      assert.equal(0, y:item())
      y:backward()
      assert.equal("(0, 3)", tostring(x.grad.shape))
      assert.is_true(loss(x, labels):isnan():item())
      assert.equal("(0)", tostring(loss(x, labels, {reduction = "none"}).shape))
    end
  end)

  it("has gradients, which are nothing too", function()
    for _, f in ipairs {
      heed.sum, heed.prod, heed.mean, function(x) return x:softmax(1):sum() end,
      function(x) return x:logsumexp(1) end, function(x) return x:cumsum(1):sum() end,
      function(x) return heed.cat{x, x}:sum() end, function(x) return x[{{1, 0}}]:sum() end,
    } do
      local x = heed.zeros(0):requires_grad_()
      f(x):backward()
      assert.equal("(0)", tostring(x.grad.shape))
    end
  end)

  it("is summed to zeros by products, whose gradients are empty", function()
    local a, b = heed.zeros(2, 0):requires_grad_(), heed.zeros(0, 3):requires_grad_()
    local y = a:matmul(b)
    same({0, 0, 0, 0, 0, 0}, y:detach())
    y:sum():backward()
    assert.equal("(2, 0) (0, 3)", a.grad.shape .. " " .. b.grad.shape)
  end)

  it("is no loss: the mean of no labels is NaN, its gradients are 0", function()
    local none = heed.zeros(0, 3):requires_grad_()
    same({nan}, heed.cross_entropy(none, heed.zeros(0, "int64")):detach())
    local x = heed.ones(2, 3):requires_grad_()
    local y = heed.cross_entropy(x, heed.tensor{-100, -100})
    same({nan}, y:detach())
    y:backward()
    same({0, 0, 0, 0, 0, 0}, x.grad)
    for name, wanted in pairs{mean = nan, sum = 0} do      -- no rows need no classes
      local o, rows = {reduction = name}, heed.zeros(0, 0)
      same({wanted}, heed.cross_entropy(rows, heed.zeros(0, "int64"), o))
      same({wanted}, heed.nll_loss(rows, heed.zeros(0, "int64"), o))
      same({wanted}, heed.cross_entropy(rows, rows, o))
      same({wanted}, heed.binary_cross_entropy(rows, rows, o))
    end
  end)

  it("as a list of dimensions means all", function()
    local x = heed.ones(2, 3)
    same({6}, x:sum{})
    same({6}, x:sum{dim = {}})
    same({1}, x:mean{dim = {}})
  end)
end)


describe("more than 2^31 elements", function()
  setup(device.cpu)
  teardown(device.back)

  local n = (1 << 31) + 6

  it("are counted, reached from both ends, and refused beyond", function()
    local x = heed.tensor({5}, "uint8"):expand(n)
    assert.equal(n, x:numel())
    assert.same({5, 5}, {x[n], x[-n]})
    assert.same({5, 5, 5}, x[{{(1 << 31) + 1, (1 << 31) + 3}}]:totable())
    assert.same({5, 5}, x[heed.tensor{n, 1}]:totable())
    assert.error_matches(function() return x[n + 2] end, "position 2147483656.*1 to 2147483654")
    assert.error_matches(function() return x[heed.tensor{n + 1}] end, "index 2147483655")
    assert.error_matches(function() heed.one_hot(heed.tensor{1 << 31}, 3) end, "2147483648")
  end)

  if (os.getenv "HEED_BUILD" or "release") == "release" then       -- others take minutes
    it("are summed, each once", function()
      assert.equal(n, heed.ones(1, "uint8"):expand(n):sum():item())
    end)
  end
end)


describe("attention with more than 2^32 scores", function()
  -- A window: few of them are computed, and the last queries see the last keys alone.
  local T <const>, LAST <const>, WINDOW <const> = 65600, 70, 30

  local if_fused = composed and pending or it            -- composed: all scores are in memory

  if_fused("is that of the last queries alone, and so are its gradients", function()
    local function rows(n) return {1, 1, {T - n + 1, T}} end
    local x, options = {}, {mask = heed.mask.window(WINDOW)}
    for k = 1, 4 do x[k] = heed.randn(1, 1, T, 8):to("bfloat16") end
    local function results(n)
      local leaves = {}
      for k = 1, 3 do leaves[k] = x[k][rows(n)]:reshape(1, 1, n, 8):detach():requires_grad_() end
      local y = heed.attention(leaves[1], leaves[2], leaves[3], options)
      y:backward(x[4][rows(n)]:reshape(1, 1, n, 8))
      local got = {y:detach()}
      for k = 1, 3 do got[k + 1] = leaves[k].grad end
      return got
    end
    local all, few = results(T), results(LAST + WINDOW)
    for k = 1, 4 do
      local function last(list) return list[k][{1, 1, {-LAST, -1}}]:to("float32") end
      assert.is_true((last(all) - last(few)):abs():max():item() < 0.06)
    end
  end)
end)


describe("logits beyond what exp can hold", function()
  it("have finite softmax, logsumexp and losses", function()
    same({0.5, 0, 0.5}, heed.tensor{1e4, 0, 1e4}:softmax(1))
    same({0, 1, 0}, heed.tensor{-1e4, 0, -1e4}:softmax(1))
    near({1e4 + math.log(2)}, heed.tensor{1e4, 0, 1e4}:logsumexp(1))
    local x = leaf{{1e4, 0.0, -1e4}}
    local y = heed.cross_entropy(x, heed.tensor{2})
    near({1e4}, y)
    y:backward()
    same({1, -1, 0}, x.grad)
    near({1e3}, heed.cross_entropy(heed.tensor{{1e4, -1e4}}, heed.tensor{1},
                                   {label_smoothing = 0.1}))
    same({0}, heed.cross_entropy(heed.tensor{{7.0}, {-1e4}}, heed.tensor{1, 1}))
  end)

  it("that count for nothing have a loss of 0, which has no sign", function()
    local x, ids = heed.tensor{{-1.0, -huge}, {-2.0, -3.0}}, heed.tensor{-100, 2}
    local weight = heed.tensor{1.0, 0.0}
    for _, loss in ipairs{heed.nll_loss, heed.cross_entropy} do
      local y = loss(x, ids, weight, {reduction = "none"})
      for i = 1, 2 do assert.equal(huge, 1 / y[i]) end
    end
  end)

  it("of probabilities as wrong as can be have a gradient of their sign in every type", function()
    for _, dtype in ipairs{"float16", "bfloat16", "float32", "float64"} do
      local p = heed.tensor({1, 0}, {dtype = dtype, requires_grad = true})
      heed.binary_cross_entropy(p, 1 - p:detach(), {reduction = "sum"}):backward()
      same({1, -1}, p.grad:sign())
    end
  end)

  it("of minus infinity count for nothing; rows of nothing else have no softmax", function()
    local x = leaf{-huge, 0.0, 1.0}
    local y = x:softmax(1)
    near({0, 1 / (1 + math.exp(1)), math.exp(1) / (1 + math.exp(1))}, y)
    y:square():sum():backward()
    assert.is_true(x.grad:isfinite():all())
    same({nan, nan}, heed.full({2}, -huge):softmax(1))
    same({-huge}, heed.full({2}, -huge):logsumexp(1))
  end)
end)


describe("angles", function()
  it("of what is very small or large have gradients that are in range", function()
    for _, scale in ipairs{1e-170, 1e170} do
      local a, b = heed.tensor({3 * scale}, {dtype = "float64"}):requires_grad_(),
                   heed.tensor({4 * scale}, {dtype = "float64"}):requires_grad_()
      heed.atan2(a, b):backward()
      assert.is_true(close(a.grad:item() * scale, 0.16, 0, 1e-12))
      assert.is_true(close(b.grad:item() * scale, -0.12, 0, 1e-12))
    end
  end)
end)


describe("steps", function()
  it("have no slope, whatever the gradient that comes to them", function()
    for _, name in ipairs{"floor", "ceil", "round", "trunc", "sign"} do
      for _, dtype in ipairs{"float32", "bfloat16"} do
        local x = heed.tensor({0, 0.25, -1.5}, {dtype = dtype, requires_grad = true})
        x[name](x):backward(heed.tensor({huge, -huge, nan}, dtype))
        assert.same({0, 0, 0}, x.grad:totable(), name)
      end
    end
    local a, b = heed.tensor({1.0, -2.0}):requires_grad_(), heed.tensor{3.0, 4.0}:requires_grad_()
    a:floor_divide(b):backward(heed.tensor{huge, nan})
    assert.same({0, 0, 0, 0}, heed.cat{a.grad, b.grad}:totable())
    local gx = heed.grad(a:floor() * a, a, heed.tensor{huge, 1}, {create_graph = true})
    assert.same({huge, -2}, gx:totable())
  end)
end)


describe("norms", function()
  it("of what does not vary are 0, and so are their gradients", function()
    local x = heed.full({2, 4}, 5.0):requires_grad_()
    local y = x:layer_norm{4}
    y:square():sum():backward()
    same({0, 0, 0, 0, 0, 0, 0, 0}, y:detach())
    same({0, 0, 0, 0, 0, 0, 0, 0}, x.grad)
    same({0}, heed.tensor{{7.0}}:layer_norm{1})
    near({1}, heed.tensor{{7.0}}:rms_norm{1})
    local zeros = heed.zeros(1, 4):requires_grad_()
    zeros:rms_norm{4}:sum():backward()
    assert.is_true(zeros.grad:isfinite():all())
  end)

  it("of no rows give their weights zeros, whatever memory had", function()
    for _, name in ipairs{"layer_norm", "rms_norm"} do
      local w, bias, full = heed.ones(3):requires_grad_(), heed.zeros(3):requires_grad_(), {}
      for i = 1, 10 do full[i] = heed.full({3}, 7) end
      for i = 1, 10 do full[i]:release() end
      local given = name == "layer_norm" and {w, bias} or {w}
      heed[name](heed.zeros(0, 3), {3}, table.unpack(given)):sum():backward()
      for _, t in ipairs(given) do same({0, 0, 0}, t.grad) end
    end
  end)

  it("do not lose small differences in large numbers", function()
    for _, dtype in ipairs {"float32", "float64"} do
      local x = heed.tensor({0, 8, 16, 24}, {dtype = dtype})
      if dtype == "float64" or not composed then   -- composed: the mean has the type
        assert.is_true((x + 1e8):layer_norm{4}:allclose(x:layer_norm{4}, {atol = 1e-5}))
      end
      near({320 / 3}, (x + 1e8):var())
    end
  end)
end)


describe("NaN", function()
  it("is what it touches, is largest and smallest, and is sorted to the end", function()
    local x = heed.tensor{1.0, nan, 3.0}
    same({nan}, x:max())
    same({nan}, x:min())
    assert.same({2, 2}, {x:argmax():item(), x:argmin():item()})
    same({1, 3, nan}, (x:sort(1)))
    same({1, nan, 2}, x:clamp(0, 2))
    same({1, nan, 3}, x:relu())
    same({1, nan, 3}, x:maximum(heed.zeros(3)))
    same({nan}, x:sum())
  end)
end)


describe("Adam", function()
  local function after_step(options, g, steps)
    local p = leaf{1.0}
    local opt = optim.Adam({p}, options)
    p.grad = heed.tensor{g}
    if steps then
      opt:step()
      p:detach():fill_(1)
      local state = opt:state()
      state.step = heed.tensor{steps}
      opt:load_state(state)
    end
    opt:step()
    return p:detach()
  end

  it("takes a first step without eps, one at rate 0, and one after 2^60 others", function()
    near({0.9}, after_step({lr = 0.1, eps = 0}, 1e-10))
    same({1}, after_step({lr = 0}, 1e30))
    near({1 - 0.1 * 0.19 / 1.999e-3 ^ 0.5}, after_step({lr = 0.1}, 1.0, 1 << 60))
  end)
end)


describe("Lua's numbers", function()
  it("are sizes where they are whole, whatever their type, and no strings", function()
    assert.same({2, 3}, {heed.zeros(2.0, 3):size()})
    assert.error_matches(function() heed.zeros(2.0 ^ 53) end, "zeros: .*memory")
    assert.error_matches(function() heed.zeros("2") end, "zeros: .*string")
    assert.error_matches(function() return heed.ones(2)[-0.0] end, "count from 1")
  end)

  it("keep their type, all digits and the sign of zero", function()
    for _, i in ipairs {math.maxinteger, math.mininteger, (1 << 53) + 1} do
      assert.equal(i, heed.tensor{i}:item())
    end
    assert.equal("integer", math.type(heed.tensor{1}:sum():item()))
    assert.equal("float", math.type(heed.tensor{1.0}:sum():item()))
    assert.equal(-huge, 1 / heed.tensor{-0.0}:item())
  end)
end)


describe("a table that is not what it seems", function()
  local x

  before_each(function() x = heed.ones(2, 2) end)

  -- Its metamethods would release x while a call reads it.
  local function trap(list)
    local function spring() x:release() return 2 end
    return setmetatable(list, {__index = spring, __len = spring, __pairs = spring})
  end

  it("is read as it lies: no metamethod runs while a call holds tensors", function()
    assert.equal("(2, 2)", tostring(x[trap{}].shape))
    assert.equal("(2, 2)", tostring(heed.zeros(trap{2, 2}).shape))
    assert.equal("(4, 2)", tostring(heed.cat(trap{x, x}).shape))
    same({2, 2}, x:sum(trap{dim = 1}))
    same({4}, x:sum())
  end)

  it("is no list with holes, nor one without an end", function()
    assert.error_matches(function() heed.zeros{2, nil, 3} end, "zeros: .*got nil")
    local long = {}
    for i = 1, 100000 do long[i] = 1 end
    assert.error_matches(function() heed.zeros(long) end, "zeros: .*too many numbers")
    local endless = setmetatable({}, {__len = function() return math.maxinteger end})
    assert.equal("()", tostring(heed.zeros(endless).shape))
  end)

  it("may release what others use, between two calls", function()
    debug.sethook(function() x:release() end, "", 1)
    local good, why = pcall(function() return x + x end)
    debug.sethook()
    assert.is_false(good)
    assert.matches("add: .*released", why)
  end)
end)
