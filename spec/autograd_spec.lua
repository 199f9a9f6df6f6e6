-- Gradients from Lua: backward and grad, what records and what doesn't, functions of the user's.

local heed = require "heed"

local function leaf(values, dtype)
  return heed.tensor(values, {requires_grad = true, dtype = dtype or "float32"})
end

local function values(t) return t:totable() end


describe("backward", function()
  it("adds to the gradients of leaves", function()
    local x = leaf{1, 2, 3};
    (x * x):sum():backward()
    assert.same({2, 4, 6}, values(x.grad));
    (x * 3):sum():backward()
    assert.same({5, 7, 9}, values(x.grad))
    assert.is_nil(leaf{1}.grad)
    assert.is_nil(heed.ones(2).grad)
  end)

  it("takes the gradient of what is no single number", function()
    local x = leaf{1, 2};
    (x * x):backward(heed.tensor{1.0, 10.0})
    assert.same({2, 40}, values(x.grad))
    assert.error_matches(function() (x * x):backward() end, "backward: a gradient is needed.*%(2%)")
    assert.error_matches(function() (x * x):backward(heed.ones(3)) end, "backward.*%(3%).*%(2%)")
    assert.error_matches(function() (x * x):backward(1) end, "backward: a tensor expected, got 1")
  end)

  it("frees the graph, unless it is to be retained", function()
    collectgarbage()
    collectgarbage()
    local x = leaf{2}
    local nodes = heed.graph_nodes()
    local y = x:exp():sin():sum()
    y:backward(nil, {retain_graph = true})
    local once = x.grad:clone()
    y:backward{retain_graph = false}
    assert.is_true((once * 2):allclose(x.grad))
    assert.error_matches(function() y:backward() end, "freed.*retain_graph")
    y = nil                                                              -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.equal(nodes, heed.graph_nodes())
  end)

  it("is refused where there is no graph", function()
    assert.error_matches(function() heed.ones(1):backward() end, "no graph")
    assert.error_matches(function() leaf{1}:detach():backward() end, "no graph")
    assert.error_matches(function() leaf{1}:sum():backward{retain = true} end,
                         "'retain'.*'retain_graph'")
    assert.error_matches(function() leaf{1}:sum():backward(nil, {retain_graph = 1}) end,
                         "'retain_graph'.*true or false")
    assert.error_matches(function() leaf{1}:sum():backward(nil, 5) end, "options expected, got 5")
  end)

  it("names what changed a value that it needs", function()
    local x = leaf{1, 2}
    local y = x * 2
    local z = y:square()
    y:add_(1)
    assert.error_matches(function() z:sum():backward() end, "square: .*changed in place by add_")
    assert.is_nil(x.grad)
  end)

  it("that fails leaves all gradients as they were", function()
    local x, w = leaf{1}, leaf{1}
    local bad = heed.custom {
      forward = function(_, t) return t * 1 end, backward = function() error "no" end,
    };
    (x * 2):sum():backward()
    local y = bad(x) * w
    assert.has_error(function() y:sum():backward() end)
    assert.same({2}, values(x.grad))
    assert.is_nil(w.grad)
  end)

  it("goes through a long chain without deep recursion", function()
    local x = leaf{1}
    local y = x
    local n = heed.default_device() == "cpu" and 100000 or 3000     -- an emulated GPU is slow
    for _ = 1, n do y = y + 0.5 end
    y:sum():backward()
    assert.same({1}, values(x.grad))
    y = x                                                                -- luacheck: ignore
    for _ = 1, n do y = y * 1 end
    y = nil                                                              -- luacheck: ignore
    collectgarbage()
  end)
end)


describe("grad", function()
  it("gives gradients without touching those of leaves", function()
    local x, w = leaf{1, 2}, leaf{3, 4}
    local gs = heed.grad((x * w):sum(), {x, w})
    assert.same({3, 4}, values(gs[1]))
    assert.same({1, 2}, values(gs[2]))
    assert.is_nil(x.grad)
    assert.same({2, 4}, values(heed.grad((x * x):sum(), x)))
  end)

  it("is of any tensor on the way, and false or nil where there is no way", function()
    local x, other = leaf{1, 2}, leaf{1}
    local y = x * 3
    assert.same({2, 2}, values(heed.grad((y * 2):sum(), y)))
    local gs = heed.grad((x * 3):sum(), {other, x})
    assert.is_false(gs[1])
    assert.same({3, 3}, values(gs[2]))
    assert.is_nil(heed.grad((x * 3):sum(), other))
  end)

  it("takes a gradient to start with, and options", function()
    local x = leaf{1, 2}
    local y = x * x
    assert.same({2, 40}, values(heed.grad(y, x, heed.tensor{1.0, 10.0}, {retain_graph = true})))
    assert.same({2, 4}, values(heed.grad(y:sum(), x, {retain_graph = true})))
    assert.error_matches(function() heed.grad(y, x) end, "gradient is needed")
    assert.error_matches(function() heed.grad(y, 5) end, "grad: argument 'xs'.*got 5")
    assert.error_matches(function() heed.grad(y, {x, 5}) end, "grad.*position 2, got 5")
    assert.error_matches(function() heed.grad(5, x) end, "grad: a tensor expected, got 5")
  end)
end)


describe("requires_grad", function()
  it("is set, read and taken back", function()
    local x = heed.ones(2)
    assert.is_false(x.requires_grad)
    assert.equal(x, x:requires_grad_())
    assert.is_true(x.requires_grad and x.is_leaf)
    assert.is_false((x * 2).is_leaf)
    x.requires_grad = false
    assert.is_false(x.requires_grad)
    assert.is_true(x:requires_grad_(true).requires_grad)
    assert.is_false(x:requires_grad_(false).requires_grad)
  end)

  it("belongs to leaves of a float type", function()
    assert.error_matches(function() heed.tensor{1}:requires_grad_() end, "int64")
    assert.error_matches(function() leaf{1}:exp():requires_grad_(false) end, "leaf.*detach")
    assert.error_matches(function() heed.ones(1):requires_grad_(1) end, "true or false")
    assert.error_matches(function() heed.ones(1).requires_grad = 1 end, "true or false")
    assert.error_matches(function() heed.ones(1, {requires_grad = 1}) end, "true or false")
  end)

  it("lets gradients be assigned and cleared", function()
    local x = leaf{1, 2}
    x.grad = heed.tensor{5.0, 6.0}
    x:sum():backward()
    assert.same({6, 7}, values(x.grad))
    x.grad = nil
    assert.is_nil(x.grad)
    assert.error_matches(function() x.grad = heed.ones(3) end, "grad: shape %(2%) expected")
    assert.error_matches(function() x.grad = heed.tensor{1, 2} end, "grad: type float32.*int64")
    assert.error_matches(function() x.grad = 5 end, "grad: a tensor or nil expected, got 5")
    assert.error_matches(function() heed.ones(1).grad = heed.ones(1) end, "leaf")
  end)

  it("ends with detach", function()
    local x = leaf{1, 2}
    local d = (x * 2):detach()
    assert.is_false(d.requires_grad);
    (d * x):sum():backward()
    assert.same({2, 4}, values(x.grad))
  end)
end)


describe("in-place work", function()
  it("is part of the graph", function()
    local x = leaf{1, 2}
    local y = x * 1
    y:mul_(3):add_(x)
    y:select(1, 1):zero_()
    y:sum():backward()
    assert.same({0, 4}, values(x.grad))
  end)

  it("changes the losses of all positions", function()
    local x = heed.randn(2, 3, 4):requires_grad_()
    local labels = heed.ones(2, 4):to("int64")
    local losses = heed.cross_entropy(x, labels, {reduction = "none"})
    losses:mul_(heed.full({2, 4}, 2))
    losses:sum():backward()
    local y = x:detach():requires_grad_()
    heed.cross_entropy(y, labels, {reduction = "sum"}):backward()
    assert.is_true(x.grad:allclose(y.grad * 2))
  end)

  it("is refused on leaves and on expanded tensors", function()
    local x = leaf{1, 2}
    assert.error_matches(function() x:add_(1) end, "add_: a leaf.*no_grad")
    assert.error_matches(function() x:select(1, 1):zero_() end, "leaf")
    heed.no_grad(function() x:add_(1) end)
    assert.same({2, 3}, values(x:detach()))
    assert.error_matches(function() heed.ones(1):expand(3):add_(1) end, "add_.*expanded")
  end)
end)


describe("no_grad", function()
  it("makes views that are not changed in place where gradients are recorded", function()
    local w = heed.ones(2, 2):requires_grad_()
    local x = w * 2
    local of_x, of_w = heed.no_grad(function() return x[1], w[1] end)
    local of_zeros = heed.no_grad(function() return heed.zeros(2, 2)[1] end)
    for _, view in ipairs {of_x, of_w, of_x[{}]} do
      assert.error_matches(function() view:mul_(3) end, "mul_: a view that was made without")
    end
    assert.error_matches(function() of_zeros:add_(x[1]) end, "add_: a view that was made without")
    of_zeros:add_(1)
    of_zeros:set_(heed.ones(2, 2))
    local row = of_zeros[1]
    of_zeros:mul_(w)
    assert.is_true(row.requires_grad)
    heed.no_grad(function() of_x:mul_(3) end)
    assert.same({{6, 6}, {2, 2}}, x:totable())
  end)

  local w = leaf{1, 2}

  it("records nothing, and passes arguments and results through", function()
    local results = table.pack(heed.no_grad(function(...) return (w * 2).requires_grad, ... end,
                                            1, nil, 3, nil))
    assert.same({false, 1, nil, 3, nil, n = 5}, results)
    assert.is_true((w * 2).requires_grad)
    assert.equal(0, select("#", heed.no_grad(function() end)))
  end)

  it("ends with errors too, which pass through as they are", function()
    local own = {}
    local good, err = pcall(heed.no_grad, error, own)
    assert.is_false(good)
    assert.equal(own, err)
    assert.is_true(heed.is_grad_enabled())
    local trace = select(2, xpcall(heed.no_grad, debug.traceback, function()
      local function the_culprit() error "here" end
      the_culprit()
    end))
    assert.matches("the_culprit", trace)
  end)

  it("nests, and enable_grad within it records", function()
    heed.no_grad(function()
      assert.is_false(heed.is_grad_enabled())
      heed.enable_grad(function()
        assert.is_true((w * 2).requires_grad)
        heed.no_grad(function() assert.is_false(heed.is_grad_enabled()) end)
        assert.is_true(heed.is_grad_enabled())
      end)
      assert.is_false(heed.is_grad_enabled())
    end)
  end)

  it("calls whatever can be called", function()
    assert.equal(5, heed.no_grad(setmetatable({}, {__call = function(_, n) return n end}), 5))
    assert.error_matches(function() heed.no_grad() end, "no_grad: a function expected, got no")
    assert.error_matches(function() heed.no_grad(5) end, "no_grad: a function expected, got 5")
    assert.error_matches(function() heed.enable_grad{} end, "enable_grad: a function.*table")
  end)

  it("rests while its coroutine does", function()
    local step = coroutine.wrap(function()
      heed.no_grad(function()
        for _ = 1, 3 do coroutine.yield((w * 2).requires_grad) end
      end)
      coroutine.yield((w * 2).requires_grad)
    end)
    for _ = 1, 3 do
      assert.is_false(step())
      assert.is_true((w * 2).requires_grad)
    end
    assert.is_true(step())
  end)

  it("holds in coroutines that are resumed within it", function()
    local inner = coroutine.wrap(function()
      while true do coroutine.yield(heed.is_grad_enabled()) end
    end)
    assert.is_true(inner())
    assert.is_false(heed.no_grad(inner))
    assert.is_true(inner())
    assert.is_false(heed.no_grad(function() return coroutine.wrap(heed.is_grad_enabled)() end))
  end)

  it("is forgotten with a coroutine that is never resumed, or closed", function()
    for _, close in ipairs {coroutine.close, function() end} do
      local co = coroutine.create(function() heed.no_grad(coroutine.yield) end)
      coroutine.resume(co)
      close(co)
      co = nil                                                           -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.is_true(heed.is_grad_enabled())
    end
  end)
end)


describe("coroutines", function()
  it("share tensors, graphs and errors", function()
    local w = leaf{3}
    local co = coroutine.create(function()
      local y = w * 2
      local x = coroutine.yield(y)
      error(heed.ones(2) + x)
    end)
    local _, y = coroutine.resume(co)
    y:sum():backward()
    assert.same({2}, values(w.grad))
    local good, message = coroutine.resume(co, heed.ones(3))
    assert.is_false(good)
    assert.matches("add: shapes", message)
    co = nil                                                             -- luacheck: ignore
    collectgarbage()
    assert.same({6}, values(y:detach()))
    for _ = 1, 3 do local _ = heed.zeros(512, 1024) end   -- collections need a live state
  end)

  it("may be many", function()
    local sum = 0
    for i = 1, 200 do
      sum = sum + coroutine.wrap(function() return heed.full({i}, 1):sum():item() end)()
    end
    assert.equal(200 * 201 // 2, sum)
  end)
end)


describe("custom", function()
  local cube = heed.custom {
    forward = function(ctx, x)
      ctx.x = x
      return x ^ 3
    end,
    backward = function(ctx, g) return 3 * ctx.x ^ 2 * g end,
  }

  it("has the gradient that its backward gives", function()
    local x = leaf{2}
    cube(x):sum():backward()
    assert.same({12}, values(x.grad))
    assert.is_true(heed.gradcheck(cube, heed.tensor{1.0, -2.0}))
    assert.is_true(heed.gradcheck(function(t) return cube(t:sin()):exp() end, heed.tensor{0.5}))
  end)

  it("records nothing where no gradient is wanted", function()
    assert.is_false(cube(heed.ones(1)).requires_grad)
    assert.is_false(heed.no_grad(cube, leaf{1}).requires_grad)
  end)

  it("takes any arguments and gives any results", function()
    local received
    local f = heed.custom {
      forward = function(_, n, a, name, b) return a * n, name, b * n, heed.tensor{1, 2} end,
      backward = function(_, ...)
        received = table.pack(...)
        local ga, _, gb = ...
        return nil, ga and ga * 2, nil, gb and gb * 2
      end,
    }
    local a, b = leaf{1}, leaf{2}
    local y, name, z, integers = f(2, a, "sum", b)
    assert.equal("sum", name)
    assert.is_false(integers.requires_grad);
    (y * 5):sum():backward()
    assert.equal(4, received.n)
    assert.same({5}, values(received[1]))
    assert.is_nil(received[3])
    assert.same({10}, values(a.grad))
    assert.is_nil(b.grad)
    assert.same({4}, values(z:detach()))
  end)

  it("may give back what it was given", function()
    local same = heed.custom {
      forward = function(_, x) return x end, backward = function(_, g) return g * 7 end,
    }
    local x = leaf{1}
    same(x):sum():backward()
    assert.same({7}, values(x.grad))
    assert.is_true(x.is_leaf)
  end)

  it("refuses what is no gradient", function()
    local x, n = leaf{1, 2}, leaf{3}
    local function backward(...)
      local results = table.pack(...)
      local f = heed.custom {
        forward = function(_, a) return a * 1 end,
        backward = function() return table.unpack(results, 1, results.n) end,
      }
      return function() f(x, "text"):sum():backward() end
    end
    backward(nil)()
    backward()()
    assert.is_nil(x.grad)
    assert.error_matches(backward(heed.ones(3)), "custom.*input 1.*%(3%).*%(2%)")
    assert.error_matches(backward(5), "custom: backward gave a number as gradient 1")
    assert.error_matches(backward{}, "custom: backward gave a table as gradient 1")
    assert.error_matches(backward(nil, n), "custom.*argument 2, which is no tensor")
    assert.error_matches(backward(nil, nil, n), "custom.*argument 3")
    local gone = heed.ones(2)
    gone:release()
    assert.error_matches(backward(gone), "custom: backward gave a")
    assert.is_nil(x.grad)
  end)

  it("lets errors of backward through as they are, and works afterwards", function()
    local own = {}
    local x = leaf{1}
    local f = heed.custom {
      forward = function(_, a) return a * 1 end, backward = function() error(own) end,
    }
    local y = f(x) * 2
    local _, err = pcall(y.backward, y:sum())
    assert.equal(own, err)
    assert.is_true(heed.is_grad_enabled());
    (x * 2):sum():backward()
    assert.same({2}, values(x.grad))
    local yields = heed.custom {
      forward = function(_, a) return a * 1 end, backward = function() coroutine.yield() end,
    }
    local _, message = coroutine.wrap(function()
      return pcall(function() yields(x):sum():backward() end)
    end)()
    assert.matches("yield", message)
  end)

  it("records nothing within its functions, which may have graphs of their own", function()
    local x, recorded, derivative = leaf{3}, nil, nil
    local f = heed.custom {
      forward = function(_, a) recorded = heed.is_grad_enabled() return a * a end,
      backward = function(_, g)
        recorded = recorded or heed.is_grad_enabled()
        derivative = heed.enable_grad(function()
          local t = leaf{3}
          return heed.grad((t * t):sum(), t)
        end)
        return g * derivative
      end,
    }
    f(x):sum():backward()
    assert.is_false(recorded)
    assert.same({6}, values(x.grad))
  end)

  it("is refused without both functions", function()
    assert.error_matches(function() heed.custom{forward = print} end, "'backward' is missing")
    assert.error_matches(function() heed.custom(5) end, "custom.*got 5")
    assert.error_matches(function() heed.custom{forwards = print} end, "'forwards'.*'forward'")
    assert.error_matches(function()
      heed.custom{forward = print, backward = print, foo = 1}
    end, "custom: unknown option 'foo'")
    assert.error_matches(function()
      heed.custom{forward = 1, backward = print}
    end, "custom.*function expected as forward")
  end)

  it("keeps what its backward needs, in a scope too", function()
    local x = leaf{2}
    local y = heed.scope(function() return cube(x + 1) end)
    y:sum():backward()
    assert.same({27}, values(x.grad))
  end)

  it("frees backward with the graph", function()
    local x = leaf{1}
    local weak = setmetatable({}, {__mode = "k"})
    do
      local f = heed.custom {
        forward = function(ctx, a) weak[ctx] = true return a * 1 end,
        backward = function(_, g) return g end,
      }
      f(x):sum():backward()
      f(x)
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)


describe("checkpoint", function()
  local w = heed.randn(4, 4, {requires_grad = true})
  local x = heed.randn(3, 4, {requires_grad = true})

  local function gradients(f)
    x.grad, w.grad = nil, nil
    heed.manual_seed(3)
    f():sum():backward()
    return x.grad, w.grad
  end

  local function net(t) return t:matmul(w):dropout(0.5):tanh() end

  it("gives what the function gives, with the same random numbers again", function()
    local gx, gw = gradients(function() return net(net(x)) end)
    local cx, cw = gradients(function()
      return heed.checkpoint(net, heed.checkpoint(net, x))
    end)
    assert.is_true(gx:equal(cx) and gw:allclose(cw, {atol = 1e-6}))
  end)

  it("keeps nothing of the function's graph meanwhile", function()
    local before = heed.graph_nodes()
    local y = heed.checkpoint(function(t)
      for _ = 1, 100 do t = t * 1.01 end
      return t
    end, x)
    assert.is_true(heed.graph_nodes() < before + 10)
    y:sum():backward()
  end)

  it("leaves the generator where it was", function()
    heed.manual_seed(5)
    local plain = net(x)
    local after = heed.rand(1)[1]
    heed.manual_seed(5)
    local y = heed.checkpoint(net, x)
    assert.is_true(y:equal(plain))
    local state = heed.rng_state()
    y:sum():backward()
    assert.is_true(state:equal(heed.rng_state()))
    assert.equal(after, heed.rand(1)[1])
  end)

  it("does so when the function raises the second time", function()
    local runs = 0
    local y = heed.checkpoint(function(t)
      runs = runs + 1
      if runs == 2 then heed.rand(5) error "not again" end
      return t * w
    end, heed.ones(4, {requires_grad = true}))
    local state = heed.rng_state()
    assert.error_matches(function() y:sum():backward() end, "not again")
    assert.is_true(state:equal(heed.rng_state()))
  end)

  it("works for parameters that only the function knows, and for none", function()
    w.grad = nil
    local ones = heed.ones(1, 4)
    heed.checkpoint(function() return ones:matmul(w) end):sum():backward()
    assert.same(heed.ones(4, 4):totable(), values(w.grad))
    local gs = heed.grad(heed.checkpoint(function(t) return t:matmul(w) end, x):sum(), {w, x})
    local wanted = {x:detach():sum(1):unsqueeze(2), w:detach():sum(2):unsqueeze(1)}
    for i, g in ipairs(wanted) do assert.is_true((gs[i] - g):abs():max():item() < 1e-5) end
    assert.same(heed.ones(4, 4):totable(), values(w.grad))
  end)

  it("passes arguments and results through", function()
    local results = table.pack(heed.checkpoint(function(...) return ... end, nil, 2, nil))
    assert.same({nil, 2, nil, n = 3}, results)
    heed.no_grad(function() assert.equal(5, heed.checkpoint(function(n) return n end, 5)) end)
    assert.error_matches(function() heed.checkpoint(5) end, "checkpoint.*function")
  end)

  it("notices a function that gives something else the second time", function()
    local function fickle(second)
      local first = true
      return heed.checkpoint(function(t)
        local y = first and t * 2 or second(t)
        first = false
        return y
      end, x):sum()
    end
    local shrunk = fickle(function(t) return t:sum() end)
    assert.error_matches(function() shrunk:backward() end, "shape %(%) now, had %(3, 4%)")
    local gone = fickle(function() end)
    assert.error_matches(function() gone:backward() end, "checkpoint: result 1 is nil now")
  end)
end)


describe("gradcheck", function()
  it("passes what is right and fails what is wrong, saying where", function()
    assert.is_true(heed.gradcheck(function(a, b) return a:matmul(b) end,
                                  {heed.randn(2, 3), heed.randn(3, 2)}))
    local wrong = heed.custom {
      forward = function(_, x) return x * 2 end, backward = function(_, g) return g end,
    }
    local good, message = heed.gradcheck(wrong, heed.tensor{1.0, 2.0})
    assert.is_false(good)
    assert.matches("input 1, element 1: 0%.%d+ by backward, 1%.%d+ by differences", message)
    assert.is_false((heed.gradcheck(function(x) return x:detach() * 2 end, heed.ones(2))))
    assert.is_true((heed.gradcheck(function(x) return x * 0 end, heed.ones(2))))
  end)

  it("is refused for what has no gradient", function()
    local function is_one(x) return x:eq(1) end
    assert.error_matches(function() heed.gradcheck(is_one, heed.ones(1)) end, "gradcheck.*float")
    assert.error_matches(function() heed.gradcheck(5, heed.ones(1)) end, "gradcheck.*function")
    assert.error_matches(function() heed.gradcheck(print, 5) end, "gradcheck: .*xs, got 5")
    assert.error_matches(function() heed.gradcheck(print, heed.ones(1), {a = 1}) end, "'a'")
  end)
end)
