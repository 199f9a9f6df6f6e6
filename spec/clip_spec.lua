-- Clipping of gradients by their norm, and schedules.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"


local function parameter(...)
  return nn.Parameter(heed.tensor{...})
end


describe("clip_grad_norm", function()
  it("leaves small gradients as they are", function()
    local p = parameter(0.0, 0.0)
    p.grad = heed.tensor{0.3, -0.4}
    assert.is_true(optim.clip_grad_norm({p}, 1):allclose(heed.tensor(0.5)))
    assert.is_true(p.grad:equal(heed.tensor{0.3, -0.4}))
  end)

  it("refuses what is no tensor, or none any more", function()
    local core = require "heed.core"
    local p, gone = parameter(0.0), parameter(0.0)
    p.grad = heed.tensor{3.0}
    assert.matches("clip_grad_norm: a tensor expected as parameter 2, got 5",
                   message(optim.clip_grad_norm, {p, 5}, 1))
    assert.matches("a tensor expected, got the string 'x'",
                   message(core.clip_gradients, {p, "x"}, 2, 1))
    gone:release()
    assert.matches("clip_grad_norm: the tensor was released",
                   message(optim.clip_grad_norm, {p, gone}, 1))
    assert.equal(3, p.grad:item())
  end)

  it("takes other norms, and parameters without gradients", function()
    local p, q = parameter(0.0, 0.0), parameter(0.0)
    p.grad = heed.tensor{3.0, -4.0}
    assert.equal(4, optim.clip_grad_norm({p, q}, 1, {norm_type = math.huge}):item())
    assert.equal(0, optim.clip_grad_norm({q}, 1):item())
    p.grad = heed.tensor{3.0, -4.0}
    assert.equal(7, optim.clip_grad_norm({p}, 10, 1):item())
    assert.equal(5, optim.clip_grad_norm({p}, 10, nil, {error_if_nonfinite = true}):item())
    assert.matches("clip_grad_norm: .*'norm'", message(optim.clip_grad_norm, {p}, 1, {norm = 1}))
    assert.matches("clip_grad_norm: .* string 'x'", message(optim.clip_grad_norm, {p}, 1, "x"))
  end)

  it("takes one tensor, and 0 as the largest norm", function()
    local p = parameter(0.0, 0.0)
    p.grad = heed.tensor{3.0, -4.0}
    assert.equal(5, optim.clip_grad_norm(p, 0):item())
    assert.same({0, 0}, p.grad:totable())
  end)

  it("refuses a largest norm that is none", function()
    local p = parameter(0.0, 0.0)
    p.grad = heed.tensor{3.0, -4.0}
    for _, max in ipairs{-1, 0 / 0} do
      assert.matches("^[^:]*clip_spec.lua:%d+: clip_grad_norm: a number of at least 0 expected as "
                     .. "max, got ", message(function() optim.clip_grad_norm({p}, max) end))
    end
    assert.matches("as norm_type, got nan", message(optim.clip_grad_norm, {p}, 1, 0 / 0))
    assert.same({3, -4}, p.grad:totable())
    optim.clip_grad_norm({p}, math.huge)
    assert.same({3, -4}, p.grad:totable())
  end)

  it("refuses options that would not count", function()
    local p = parameter(0.0, 0.0)
    p.grad = heed.tensor{3.0, -4.0}
    local function refused(...) return message(optim.clip_grad_norm, {p}, 1, ...) end
    assert.matches("clip_grad_norm: a number expected as norm_type, got the string 'inf'",
                   refused("inf", {error_if_nonfinite = true}))
    assert.matches("clip_grad_norm: a number expected as norm_type, got a table",
                   refused({norm_type = 1}, {error_if_nonfinite = true}))
    assert.matches("clip_grad_norm: argument 'norm_type' is given twice",
                   refused(1, {norm_type = math.huge}))
    assert.matches("a table of options expected, got false", refused(nil, false))
    assert.same({3, -4}, p.grad:totable())
    assert.equal(7, optim.clip_grad_norm({p}, 10, nil, {norm_type = 1}):item())
  end)

  it("refuses a norm that is not finite, with error_if_nonfinite", function()
    local p = parameter(0.0, 0.0)
    p.grad = heed.tensor{math.huge, 1.0}
    assert.matches("clip_grad_norm: gradients whose norm is finite expected",
                   message(optim.clip_grad_norm, {p}, 1, {error_if_nonfinite = true}))
    assert.matches("infinite or NaN",
                   message(optim.clip_grad_norm, {p}, 1, 2, {error_if_nonfinite = true}))
    assert.same({math.huge, 1}, p.grad:totable())
    assert.equal(math.huge, optim.clip_grad_norm({p}, 1):item())
  end)

  -- By the formula, in plain Lua.
  local function expected(lists, max)
    local sum = 0
    for _, list in ipairs(lists) do
      for _, x in ipairs(list) do sum = sum + x * x end
    end
    return sum ^ 0.5, math.min(max / (sum ^ 0.5 + 1e-6), 1)
  end

  it("takes every type and layout, many of them, and empty ones", function()
    for dtype, tolerance in pairs{float32 = 1e-6, float64 = 1e-12, float16 = 2e-3,
                                  bfloat16 = 2e-2} do
      local ps, lists, views = {}, {}, {}
      for i = 1, 70 do                          -- more than a list of stack can have at once
        local g = heed.randn(i % 7, 3, 41):to(dtype)
        ps[i] = nn.Parameter(heed.zeros(41, 3, i % 7, {dtype = dtype}))
        ps[i].grad = i % 3 == 0 and g:transpose(1, 3):flip{2} or g:transpose(1, 3)
        views[i], lists[i] = ps[i].grad, ps[i].grad:double():flatten():totable()
      end
      local norm, factor = expected(lists, 3)
      local got = optim.clip_grad_norm(ps, 3)
      assert.equal(dtype, got.dtype)
      assert.is_true(close(got:item() / norm, 1, tolerance))
      for i, list in ipairs(lists) do
        assert.equal(views[i]:data(), ps[i].grad:data())        -- in place
        local now = ps[i].grad:double():flatten()
        local wanted = heed.tensor(list, {dtype = "float64"}):view(-1) * factor
        assert.is_true(now:allclose(wanted, {rtol = tolerance, atol = 1e-6}), dtype)
      end
    end
  end)

  it("gives one norm, whatever the threads, and in its range, whatever the values", function()
    local p = nn.Parameter(heed.zeros(300, 301))
    p.grad = heed.randn(300, 301)
    local threads, norms = heed.threads(), {}
    for n = 1, 4 do
      heed.threads(n)
      norms[n] = optim.clip_grad_norm({p}, math.huge):item()
    end
    heed.threads(threads)
    assert.same({norms[1], norms[1], norms[1], norms[1]}, norms)
    for _, x in ipairs{1e30, 1e-30} do
      local q = parameter(0.0, 0.0)
      q.grad = heed.tensor{3 * x, 4 * x}
      assert.is_true(close(optim.clip_grad_norm({q}, 1):item() / (5 * x), 1, 1e-6))
    end
    local half = nn.Parameter(heed.zeros(2, {dtype = "float16"}))
    half.grad = heed.tensor({6e4, 6e4}, {dtype = "float16"})     -- a norm beyond float16
    assert.equal(math.huge, optim.clip_grad_norm({half}, 1):item())
    assert.is_true(half.grad:float():allclose(heed.full({2}, 0.5 ^ 0.5), {rtol = 1e-3}))
  end)

  it("goes on with infinities and NaN as numbers do", function()
    for _, case in ipairs{{math.huge, {0 / 0, 0}}, {0 / 0, {0 / 0, 0 / 0}}} do
      local p = parameter(0.0, 0.0)
      p.grad = heed.tensor{case[1], 1.0}
      optim.clip_grad_norm({p}, 1)
      assert.is_true(p.grad:allclose(heed.tensor(case[2]), {equal_nan = true}))
    end
  end)

  it("scales a gradient that two parameters have once for each", function()
    local p, q = nn.Parameter(heed.zeros(40000)), nn.Parameter(heed.zeros(40000))
    local g = heed.ones(40000)
    p.grad, q.grad = g, g
    local norm = 80000 ^ 0.5
    assert.is_true(close(optim.clip_grad_norm({p, q}, 1):item() / norm, 1, 1e-6))
    assert.is_true(g:allclose(heed.full({40000}, norm ^ -2), {rtol = 1e-4}))
  end)

  -- A device that clips does so in one work; squares of float64 are taken one by one.
  local it_clips = os.getenv "HEED_BUILD" == "basic" and pending or it
  it_clips("is the same work for any number of gradients", function()
    local core = require "heed.core"
    local function works(n, dtype, ...)
      local list = {}
      for i = 1, n do
        list[i] = nn.Parameter(heed.zeros(i, {dtype = dtype}))
        list[i].grad = heed.ones(i, {dtype = dtype})
      end
      local before = core.works(heed.default_device())
      optim.clip_grad_norm(list, 1, ...)
      return core.works(heed.default_device()) - before
    end
    assert.equal(works(1, "float32"), works(9, "float32"))
    assert.is_true(works(9, "float64") > works(1, "float64"))
    assert.is_true(works(9, "float32", 1) > works(1, "float32", 1))
  end)

  it("is a change that a graph notices", function()
    local p = parameter(2.0)
    p.grad = heed.tensor({5.0}):requires_grad_():detach()
    local x = parameter(3.0)
    local y = (x * p.grad):sum()
    optim.clip_grad_norm({p}, 1)
    assert.matches("changed in place by mul_", message(y.backward, y))
  end)

  it("has no gradient itself, where gradients have one", function()
    local p = parameter(2.0)
    for _, power in ipairs{1, 2} do
      p.grad = heed.tensor{5.0}
      p.grad:requires_grad_()
      assert.is_false(optim.clip_grad_norm({p}, 1, power).requires_grad)
      assert.near(1, p.grad:item(), 1e-5)
    end
  end)

  it("leaves alone what lies between the rows of a gradient", function()
    local p, all = nn.Parameter(heed.zeros(3, 2)), heed.ones(3, 4)
    p.grad = all:narrow(2, 1, 2)
    assert.near(6 ^ 0.5, optim.clip_grad_norm({p}, 1):item(), 1e-6)
    assert.equal(6, all:narrow(2, 3, 2):sum():item())
    assert.near(1, p.grad:norm():item(), 1e-5)
  end)
end)


describe("a schedule", function()
  local function near(a, b) assert.is_true(close(a, b, 0, 1e-12), a .. " ~= " .. b) end

  it("falls along a cosine", function()
    local rate = optim.cosine(100, {min = 0.1})
    near(1, rate(1))
    near(0.55, rate(51))
    near(0.1, rate(101))
    near(0.1, rate(1000))
  end)

  it("falls along a line", function()
    local rate = optim.linear(10, {from = 1, to = 0.5})
    near(1, rate(1))
    near(0.75, rate(6))
    near(0.5, rate(12))
  end)

  it("falls in steps", function()
    local rate = optim.step(5, {gamma = 0.5})
    near(1, rate(5))
    near(0.5, rate(6))
    near(0.25, rate(11))
  end)

  it("warms up, then hands over", function()
    local rate = optim.warmup(10, optim.linear(10))
    near(0.1, rate(1))
    near(1, rate(10))
    near(1, rate(11))
    near(0.9, rate(12))
    near(1, optim.warmup(10)(50))
  end)

  it("has PyTorch's factors unless others are given", function()
    near(0, optim.cosine(4)(5))
    near(0.5, optim.linear(4)(3))
    near(0, optim.linear(4)(5))
    near(1, optim.step(2)(2))
    near(0.1, optim.step(2)(3))
    near(1, optim.warmup(0)(1))
    near(0.75, optim.warmup(0, optim.linear(4))(2))
  end)

  it("refuses what is no step", function()
    local schedules = {optim.cosine(5), optim.linear(5), optim.step(5), optim.warmup(5),
                       optim.warmup(5, optim.cosine(5))}
    for _, rate in ipairs(schedules) do
      for _, step in ipairs{"a", 0, -1, 1.5, 0 / 0, {}} do
        assert.matches("^[^:]*clip_spec.lua:%d+: optim.%l+: a whole number of at least 1 expected "
                       .. "as step, got ", message(function() rate(step) end))
      end
      assert.matches("as step, got nil", message(rate))
    end
  end)

  it("refuses what is no number of steps", function()
    assert.matches("optim.cosine: a whole number of at least 1", message(optim.cosine, 0))
    assert.matches("optim.warmup: a whole number of at least 0 expected as steps, got %-1",
                   message(optim.warmup, -1))
    assert.matches("a function expected as the schedule that follows, got 3",
                   message(optim.warmup, 1, 3))
  end)
end)
