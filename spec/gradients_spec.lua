-- The gradient of every operation that is no elementwise row: by differences, in float64, on
-- views as well as on dense tensors. spec/support/cases.lua has the calls and their shapes.

local array = require "spec.support.array"
local cases = require "spec.support.cases"
local heed = require "heed"
local layouts = require "spec.support.layouts"

local function leaf(shape, seed, low, high)
  local list = layouts.numbers(array.numel(shape), low or -2, high or 2, seed)
  return heed.tensor(list, {dtype = "float64"}):reshape(shape)
end

-- f of the same numbers in a larger tensor, of which they are every second element.
local function through_views(f)
  return function(...)
    local views = {}
    for i, x in ipairs {...} do views[i] = layouts.lay.sliced(layouts.lay.transposed(x)) end
    return f(table.unpack(views))
  end
end


describe("gradients by differences", function()
  for i, case in ipairs(cases.list) do
    if case.gradient and not case.check then
      it("agree for " .. case[1], function()
        local xs = {}
        for k = 3, #case do xs[k - 2] = leaf(case[k], 10 * i + k, case.low, case.high) end
        layouts.on_each_level(function(level)
          for name, f in pairs {dense = case[2], views = through_views(case[2])} do
            local good, why = heed.gradcheck(f, xs, {rtol = 1e-5, atol = 1e-6})
            assert.is_true(good, ("%s, %s: %s"):format(level, name, why))
          end
        end)
      end)
    end
  end

  it("agree for a product with zeros", function()
    for _, row in ipairs {{2.0, 0.0, 3.0}, {0.0, 0.0, 3.0}, {1.0, 2.0, 3.0}} do
      assert.is_true(heed.gradcheck(function(x) return x:prod() end, heed.tensor(row)))
    end
  end)
end)


describe("gradients of what is not smooth", function()
  it("follow PyTorch where values tie", function()
    local x = heed.tensor({2.0, 2.0, 1.0}, {requires_grad = true})
    x:max():backward()
    assert.same({0.5, 0.5, 0.0}, x.grad:totable())
    x.grad = nil
    x:max(1):backward()
    assert.same({1.0, 0.0, 0.0}, x.grad:totable())
  end)

  it("go to what was found along each axis, which may stay", function()
    local x = heed.randn(2, 3, 4, {requires_grad = true})
    for dim = 1, 3 do
      for _, keepdim in ipairs{false, true} do
        for _, op in ipairs{"max", "min"} do
          local y = x[op](x, dim, keepdim)
          local _, at = x:detach()[op](x:detach(), dim, true)
          local g = heed.arange(1, y:numel()):float()
          local wanted = heed.zeros(2, 3, 4):scatter(dim, at, g:reshape(at.shape))
          x.grad = nil
          y:backward(g:reshape(y.shape))
          assert.is_true(x.grad:equal(wanted))
        end
      end
    end
  end)

  it("are kept by dropout for what was kept", function()
    local x = heed.ones(1000, {requires_grad = true})
    heed.manual_seed(1)
    local y = x:dropout(0.25)
    y:sum():backward()
    assert.is_true(x.grad:equal(y:detach()))
    local kept = y:detach():gt(0):sum():item()
    assert.is_true(kept > 690 and kept < 810, "kept " .. kept)
  end)

  it("are kept by dropout with a factor of their own type", function()
    for type, factor in pairs{float64 = 1 / (1 - 0.1), float32 = 0x1.1c71c8p+0} do
      for _, size in ipairs{{600}, {3, 2}} do
        local line = heed.ones(size, {dtype = type})
        assert.equal(factor, line:dropout(0.1):max():item(), type)
        assert.equal(factor, line:expand(9, table.unpack(size)):dropout(0.1):max():item(), type)
        assert.is_true(line:dropout(1):equal(heed.zeros_like(line)))
      end
    end
  end)
end)


describe("the backward pass", function()
  it("of weights fails where what they multiplied was changed in place", function()
    for _, name in ipairs{"linear", "matmul"} do
      local x, w = heed.ones(2, 3), heed.ones(3, 3):requires_grad_()
      local y = heed[name](x, w)
      x:add_(1)
      assert.error_matches(function() y:sum():backward() end,
                           name .. ": a value that its gradient needs was changed in place by add_")
      assert.is_nil(w.grad)
    end
  end)

  it("adds up what reaches a leaf on many ways", function()
    local x = heed.tensor({3.0}, {requires_grad = true})
    local y = x * x + x * 2 + x:expand(4):sum()
    y:sum():backward()
    assert.same({12.0}, x.grad:totable())
    ;(x * 5):sum():backward()
    assert.same({17.0}, x.grad:totable())
  end)

  it("takes a chain of a million operations", function()
    local x = heed.tensor({1.0}, {requires_grad = true})
    do
      local y = x
      for _ = 1, 1000000 do y = y + 1 end
      y:backward()
      assert.same({1.0}, x.grad:totable())
    end
    do
      local unused = x
      for _ = 1, 1000000 do unused = unused + 1 end
      assert.equal(1000001.0, unused:item())
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(heed.graph_nodes() < 100)
  end)

  it("frees the graph, unless asked to keep it", function()
    local x = heed.tensor({2.0}, {requires_grad = true})
    local y = (x * x):sum()
    y:backward(nil, {retain_graph = true})
    y:backward()
    assert.same({8.0}, x.grad:totable())
    assert.error_matches(function() y:backward() end, "freed")
  end)

  it("refuses a value that was changed in place after it was saved", function()
    local x = heed.tensor({2.0, 3.0}, {requires_grad = true})
    local y = x:exp()
    local z = (y * 1):sum() + y:sum()
    y:add_(1)
    assert.error_matches(function() z:backward() end, "in place")
    assert.is_nil(x.grad)
  end)

  it("refuses what was changed through views, detached tensors, assignments and no_grad", function()
    for _, change in ipairs {
      function(_, y) y[{{1, 1}}]:mul_(3) end, function(_, y) y:view(2, 1):mul_(3) end,
      function(_, y) y:detach():mul_(3) end, function(_, y) y[2] = 7 end,
      function(_, y) heed.no_grad(function() y:t():mul_(3) end) end,
      function(x) heed.no_grad(function() x:mul_(3) end) end,
    } do
      local x = heed.tensor({1.0, 2.0}, {requires_grad = true})
      local y = x * 1
      local z = (y:square() + x:square()):sum()
      change(x, y)
      assert.error_matches(function() z:backward() end, "square: .*changed in place by %l+_ ")
      assert.is_nil(x.grad)
    end
  end)

  it("names what changed a value last, be it in a replay", function()
    local x, w = heed.tensor({1.0, 2.0}, {requires_grad = true}), heed.ones(2)
    local f = heed.capture(function(t) return w:mul_(t) end)
    for _ = 1, 3 do f(heed.ones(2)) end
    w:add_(1)
    local y = (x * w):sum()
    f(heed.ones(2))
    assert.error_matches(function() y:backward() end, "changed in place by mul_ ")
  end)

  it("visits each step once, on however many ways it is reached", function()
    local x = heed.ones(1, {dtype = "float64", requires_grad = true})
    local y = x
    for _ = 1, 60 do y = y + y end
    y:backward()
    assert.equal(2 ^ 60, x.grad:item())
  end)

  it("takes into account what is done in place, through views too", function()
    local x = heed.tensor({1.0, 2.0, 3.0, 4.0}, {requires_grad = true})
    local y = x * 1
    y[{{2, 3}}] = y[{{2, 3}}] * 10
    y:narrow(1, 4, 1):mul_(5)
    y:sum():backward()
    assert.same({1.0, 10.0, 10.0, 5.0}, x.grad:totable())
  end)

  it("gives a base the graph of what is written into it", function()
    local w = heed.tensor({7.0, 8.0}, {requires_grad = true})
    local base = heed.zeros(2, 2)
    local row = base[2]
    row:copy_(w * 2)
    assert.is_true(base.requires_grad)
    ;(base * heed.tensor{{1.0, 1.0}, {3.0, 4.0}}):sum():backward()
    assert.same({6.0, 8.0}, w.grad:totable())
    assert.same({{0.0, 0.0}, {14.0, 16.0}}, base:detach():totable())
  end)

  it("refuses to change leaves and expanded memory in place", function()
    local x = heed.tensor({1.0, 2.0}, {requires_grad = true})
    assert.error_matches(function() x:add_(1) end, "leaf")
    assert.error_matches(function() x[1] = 5 end, "leaf")
    assert.error_matches(function() heed.zeros(1):expand(3):add_(1) end, "expanded")
    heed.no_grad(function() x:add_(1) end)
    assert.same({2.0, 3.0}, x:detach():totable())
  end)
end)


describe("gradients of what was changed in place", function()
  local function after(change)
    local x = heed.ones(2):requires_grad_()
    local y = x * 2
    change(y):sum():backward()
    return x.grad:totable()
  end

  it("reach through views that are older than their base", function()
    assert.same({8, 8}, after(function(a)
      local v = a:view{2}
      a:mul_(2)
      return a + v
    end))
    assert.same({8, 8}, after(function(a)
      local v, w = a:view{2}, a:view{2}
      v:add_(a)
      w:add_(v)
      return a
    end))
  end)

  it("are zeros where all was written over", function()
    assert.same({0, 0}, after(function(a) return a:copy_(heed.ones(2)) end))
    assert.same({0, 0}, after(function(a) return a:fill_(3) end))
    assert.same({0, 0}, after(function(a) return a:zero_() end))
  end)

  it("do not pass through what was drawn", function()
    local y = heed.full({64}, 3.0):requires_grad_() * 1
    local mean = y:bernoulli_():mean():item()            -- p is one half, whatever y held
    assert.is_true(mean > 0 and mean < 1)
    assert.is_false(y.requires_grad)
  end)

  it("leave memory alone that a view's base has given up", function()
    local w = heed.ones(4096):requires_grad_()
    local a = heed.ones(4096) * 2
    local v = a:view{64, 64}
    a:set_(heed.zeros(2))
    v:view{4096}:mul_(w)
    assert.is_false(a.requires_grad)
    local x = heed.ones(4):requires_grad_()
    local y = (x * 2):sum()
    x:set_(heed.zeros(2))
    assert.error_matches(function() y:backward() end, "a leaf is float32 of shape %(2%) now")
  end)

  it("know that a view wants one since its base does", function()
    local a = heed.zeros(4)
    local v = a:slice(1, 1, 2)
    a:add_(heed.ones(4):requires_grad_())
    assert.is_true(v.requires_grad)
    assert.is_false(v.is_leaf)
    local whole = heed.ones(2, 2)
    local row = whole[1]:requires_grad_()
    whole:requires_grad_();
    (row * 2):sum():backward()
    assert.same({2, 2}, row.grad:totable())
  end)
end)


describe("a backward pass within another", function()
  it("takes nothing from the outer one and adds nothing to it", function()
    local x, inner = heed.tensor{3.0}:requires_grad_()
    local y = x * 2
    local z = (y * y):sum()
    local f = heed.custom {
      forward = function(_, t) return t * 1 end,
      backward = function(_, g) inner = heed.grad(z, x, {retain_graph = true}) return g end,
    };
    (f(y):sum() + (y * 10):sum()):backward{retain_graph = true}
    assert.same({24}, inner:totable())
    assert.same({22}, x.grad:totable())
  end)

  it("is refused for more tensors than a node can hold", function()
    local xs = {}
    for i = 1, 65 do xs[i] = heed.ones(1):requires_grad_() end
    local f = heed.custom {
      forward = function(_, a) return a end, backward = function() end,
    }
    assert.error_matches(function() f(table.unpack(xs)) end, "at most 64 tensors")
  end)
end)


describe("a tensor argument without a gradient", function()
  local function refused(wanted, f, ...)
    local args = table.pack(...)
    assert.error_matches(function() f(table.unpack(args, 1, args.n)) end, wanted)
    assert.is_false(heed.no_grad(f, table.unpack(args, 1, args.n)).requires_grad)
  end

  it("is refused by name, not passed over", function()
    local x, w = heed.tensor{{-1.0, -2.0}, {-3.0, -0.5}}, heed.tensor{2.0, 3.0}:requires_grad_()
    local labels, scale = heed.tensor{1, 2}, heed.tensor(2.0):requires_grad_()
    for _, reduction in ipairs{"mean", "sum", "none"} do
      local o = {weight = w, reduction = reduction}
      refused("^nll_loss: there is no gradient for argument 'weight'$", heed.nll_loss, x, labels, o)
      o.weight = w * 2
      refused("^nll_loss: there is no gradient for argument 'weight'$", heed.nll_loss, x, labels, o)
    end
    local o = {weight = w:detach(), reduction = "sum"}
    assert.equal(3.5, heed.nll_loss(x, labels, o):item())
    refused("^full: argument 'fill_value': it requires grad, and would get no gradient",
            heed.full, {2}, scale)
    refused("^new_full: argument 'fill_value': it requires grad, and would get no gradient",
            x.new_full, x, {2}, scale)
    assert.same({2, 2}, heed.full({2}, scale, {dtype = "int64"}):totable())
    for _, loss in ipairs{"cross_entropy", "binary_cross_entropy"} do
      local target = loss == "cross_entropy" and labels or x:exp()
      local y = heed[loss](x:exp(), target, {weight = w})
      assert.error_matches(function() y:backward() end,
                           "^" .. loss .. ": there is no gradient for argument 'weight'$")
    end
  end)
end)


describe("a bound", function()
  it("takes the gradient of what it bounds, a tensor half of it", function()
    local x = heed.tensor{0.0, 1.0, 2.0}:requires_grad_()
    x:clamp(0, 2):sum():backward()
    assert.same({0, 1, 0}, x.grad:totable())
    local low, high = heed.tensor{0.0, 1.0, 0.0}, heed.tensor{2.0, 1.0, 2.0}
    for _, t in ipairs{x, low, high} do t:requires_grad_().grad = nil end
    x:clamp(low, high):sum():backward()
    assert.same({0.5, 1, 0.5}, x.grad:totable())
    assert.same({0.5, 0, 0}, low.grad:totable())
    assert.same({0, 0, 0.5}, high.grad:totable())
  end)

  it("that is infinite leaves all of it, or is none", function()
    for _, bounds in ipairs{{0, nil, {1, 0}}, {nil, 0, {0, 1}}, {-math.huge, math.huge, {1, 1}}} do
      local x = heed.tensor{math.huge, -math.huge}:requires_grad_()
      x:clamp{min = bounds[1], max = bounds[2]}:sum():backward()
      assert.same(bounds[3], x.grad:totable())
    end
  end)

  -- PyTorch 2.15 gives these numbers.
  it("shares it in the same way where there is one, beyond it, and with a graph", function()
    local values <const> = {0.0, 0.5, 1.0, 2.0, -1.0}
    local zeros, ones = heed.zeros(5), heed.ones(5)
    for i, case in ipairs{
      {{0, 1, 0, 0, 0}, function(x) return x:clamp(0, 1) end},
      {{0, 1, 0, 0, 0}, function(x) return (x * 1):clamp_(0, 1) end},
      {{0, 1, 0, 0, 0}, function(x) return x:clip(0, 1) end},
      {{0, 1, 1, 1, 0}, function(x) return x:clamp{min = 0} end},
      {{1, 1, 0, 0, 1}, function(x) return x:clamp{max = 1} end},
      {{0, 0, 0, 0, 0}, function(x) return x:clamp(1, 1) end},
      {{0.5, 1, 1, 1, 0}, function(x) return x:clamp{min = zeros} end, {0.5, 0, 0, 0, 1}},
      {{1, 1, 0.5, 0, 1}, function(x) return x:clamp{max = ones} end, nil, {0, 0, 0.5, 1, 0}},
      {{0.5, 1, 0.5, 0, 0}, function(x) return x:clamp(zeros, ones) end,
       {0.5, 0, 0, 0, 1}, {0, 0, 0.5, 1, 0}},
      {{0, 0, 0, 0, 0}, function(x) return x:clamp(ones, zeros) end,
       {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}},
    } do
      for _, create_graph in ipairs{false, true} do
        local x = heed.tensor(values)
        for _, t in ipairs{x, zeros, ones} do t:requires_grad_() end
        local y = case[2](x):sum()
        local g = heed.grad(y, {x, zeros, ones}, {create_graph = create_graph})
        assert.same(case[1], g[1]:totable(), "case " .. i)
        for k = 3, 4 do
          local got = g[k - 1] and g[k - 1]:totable() or nil
          assert.same(case[k], got, ("case %d, bound %d"):format(i, k - 2))
        end
      end
    end
  end)
end)


describe("gradcheck of several results", function()
  local wrong = heed.custom{
    forward = function(_, x) return x * 2 end, backward = function(_, g) return g end,
  }

  it("finds a wrong one among them, be they equal", function()
    for _, f in ipairs{
      function(x) local y = wrong(x) return y, y end,
      function(x) return wrong(x), wrong(x) end,
      function(x) return x * 2, wrong(x) end,
      function(x) return wrong(x), x * 2 end,
    } do
      assert.is_false((heed.gradcheck(f, heed.tensor{1.0, 2.0})))
    end
    assert.is_true((heed.gradcheck(function(x) return x * 2, x * 3 end, heed.tensor{1.0, 2.0})))
  end)
end)
