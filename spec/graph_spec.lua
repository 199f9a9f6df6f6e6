-- The values that a graph keeps, and its state after a backward pass: a freed graph holds nothing,
-- and an error says that it is freed.

local heed = require "heed"

local function leaf(values)
  return heed.tensor(values, {requires_grad = true, dtype = "float32"})
end

-- Nodes that f's results hold by themselves.
local function nodes_of(f)
  collectgarbage()
  collectgarbage()
  local before = heed.graph_nodes()
  local kept = table.pack(f())
  collectgarbage()
  collectgarbage()
  return heed.graph_nodes() - before, kept
end

local function refused(y)
  assert.error_matches(function() y:sum():backward() end, "backward: the graph was freed.*retain")
end


describe("a recorded call", function()
  it("keeps what wanted gradients need, and nothing else: that may change", function()
    local w, x = leaf{2, 3}, heed.tensor{5.0, 7.0}
    for _, product in ipairs{heed.mul, function(a, b) return heed.mul(b, a) end} do
      w.grad = nil
      local h = w * 1
      local y = product(x, h)
      h:add_(1)
      y:sum():backward()
      assert.same({5, 7}, w.grad:totable())
    end
  end)
end)


describe("a node", function()
  local function plain() return heed.tensor({1, 2}, {dtype = "float32"}) end

  -- Nodes that are there when f is done, and what it returns is held.
  local function assert_nodes(n, f)
    assert.equal(n, (nodes_of(f)))
  end

  it("of a leaf goes when it stops to be one", function()
    assert_nodes(1, function() return plain():requires_grad_() end)
    assert_nodes(1, function() return plain():requires_grad_():requires_grad_() end)
    assert_nodes(0, function() return plain():requires_grad_():requires_grad_(false) end)
    assert_nodes(0, function() return plain():requires_grad_(false) end)
    assert_nodes(1, function()
      local x = plain():requires_grad_():requires_grad_(false)
      return x:requires_grad_()
    end)
  end)

  it("is there for each step of a graph, and for none without one", function()
    assert_nodes(2, function() return plain():requires_grad_():exp() end)
    assert_nodes(3, function() return plain():requires_grad_():exp():sum() end)
    assert_nodes(0, function() return plain():requires_grad_():exp():detach() end)
    assert_nodes(0, function() return heed.no_grad(heed.exp, plain():requires_grad_()) end)
    assert_nodes(2, function() return plain():requires_grad_():view(2, 1) end)
    assert_nodes(2, function()
      local x = plain():requires_grad_()
      return x + x
    end)
    assert_nodes(3, function()
      return heed.cat{plain():requires_grad_(), plain():requires_grad_()}
    end)
  end)

  it("goes with the memory, the gradient and the change that it was of", function()
    assert_nodes(0, function()
      local x = plain():requires_grad_():exp()
      x:set_(plain())
      return x
    end)
    assert_nodes(1, function()
      local x = plain():requires_grad_()
      heed.no_grad(x.set_, x, plain())
      return x
    end)
    assert_nodes(1, function()
      local x = plain():requires_grad_()
      x:sum():backward()
      x.grad = plain()
      x.grad = nil
      return x
    end)
    assert_nodes(3, function() return plain():requires_grad_():exp():mul_(2) end)
    assert_nodes(0, function()
      local x = plain():requires_grad_()
      local y = plain()
      y:copy_(x:exp())
      return y:detach()
    end)
    assert_nodes(0, function() plain():requires_grad_():exp():register_hook(print) end)
    assert_nodes(0, function() plain():requires_grad_():exp():retain_grad() end)
  end)

  it("does not begin with a change of a part that has no gradient", function()
    local x = leaf{1, 1}
    for _, dtype in ipairs{"int64", "bool"} do
      local whole = heed.zeros(3, dtype)
      whole[1] = x:sum()
      whole:narrow(1, 2, 2):copy_(x)
      assert.is_false(whole.requires_grad)
      assert.same({dtype == "bool" and true or 2}, whole[{{1, 1}}]:totable())
    end
    local ones = heed.zeros(3)
    ones:narrow(1, 1, 2):ge_(x)
    assert.is_false(ones.requires_grad)
    local doubled = x:tile(2) * 2
    doubled:narrow(1, 2, 2):ge_(x)
    doubled:sum():backward()
    assert.same({2, 2}, x.grad:totable())
  end)
end)


describe("a leaf that is frozen", function()
  local function freeze(w)
    assert.is_false(w:requires_grad_(false).requires_grad)
    return w
  end

  it("is the same leaf when it is thawed, with its hooks, for graphs that are there", function()
    local w, seen = leaf{1, 2}, 0
    w:register_hook(function() seen = seen + 1 end)
    local y, z = (w * 2):sum(), (w * 5):sum()
    freeze(w):requires_grad_()
    y:backward()
    assert.same({2, 2}, w.grad:totable())
    freeze(w).requires_grad = true
    assert.is_nil(w.grad)                                  -- which it loses
    z:backward();
    (w * 3):sum():backward()
    assert.same({8, 8}, w.grad:totable())
    assert.equal(3, seen)
    assert.same({3, 3}, heed.grad((freeze(w):requires_grad_() * 3):sum(), w):totable())
  end)

  it("gets nothing meanwhile, though others do", function()
    local w, x = leaf{1, 2}, leaf{5, 7}
    local y = (w * x):sum()
    y:backward(nil, {retain_graph = true})
    freeze(w)
    y:backward(nil, {retain_graph = true})
    assert.is_nil(w.grad)
    assert.same({2, 4}, x.grad:totable())
    assert.is_nil((heed.grad(y, w, {retain_graph = true})))
    w:requires_grad_()
    assert.is_nil(w.grad)
    y:backward()
    assert.same({5, 7}, w.grad:totable())
  end)

  it("may take over other memory, or a graph, meanwhile", function()
    local w = leaf{1, 2}
    local y = (w * 2):sum()
    freeze(w):set_(heed.ones(3, {dtype = "float64"}))
    w:requires_grad_();
    (w * w):sum():backward()
    assert.same({2, 2, 2}, w.grad:totable())
    assert.equal("float64", w.grad.dtype)
    assert.error_matches(function() y:backward() end, "a leaf is float64 of shape %(3%) now")
    local v, x = leaf{1, 2}, leaf{3, 4}
    local z = (v + v):sum()
    freeze(v):mul_(x)
    z:backward()
    assert.is_nil(v.grad)
    v:sum():backward()
    assert.same({1, 2}, x.grad:totable())
    assert.error_matches(function() v:requires_grad_(false) end, "only a leaf")
  end)
end)


describe("a graph after backward", function()
  local x = leaf{1, 2}

  local function chain(n)
    local y = x
    for _ = 1, n do y = y * 1.5 end
    return y:sum()
  end

  it("is let go, but for the step of what is kept", function()
    assert.equal(1, (nodes_of(function()
      local y = chain(100)
      y:backward()
      return y
    end)))
    assert.equal(101, (nodes_of(function()
      local y = chain(100)
      y:backward{retain_graph = true}
      return y
    end)))
    assert.equal(1, (nodes_of(function()
      local y = chain(100)
      heed.grad(y, x)
      return y
    end)))
  end)

  it("leaves no leaf of a gradient that was retained", function()
    assert.equal(0, (nodes_of(function()
      local y = x * 2
      y:retain_grad()
      y:sum():backward()
      assert.same({1, 1}, y.grad:totable())
    end)))
  end)

  it("stays where no gradient came by", function()
    local first = heed.custom {
      forward = function(_, a, b) return a + b end, backward = function(_, g) return g end,
    }
    local z = x:exp()
    first(x * 2, z):sum():backward()
    x.grad = nil
    z:sum():backward()
    assert.is_true(x.grad:equal(x:detach():exp()))
    refused(z)
  end)

  it("refuses a second pass, wherever that reaches it", function()
    local once = leaf{1}:sum()
    once:backward{create_graph = false}
    refused(once)
    local shared = x * 3
    local base = shared * 1
    local view, laid = base:select(1, 1), shared * 1
    laid[1] = x:select(1, 2)
    local double = heed.custom {
      forward = function(_, a) return a * 2, a * 3 end,
      backward = function(_, g, h) return g and g * 2 or h * 3 end,
    }
    local first, second = double(shared)
    local _, weights, lse = heed.attention(shared:view(2, 1), shared:view(2, 1),
                                           shared:view(2, 1), {weights = true, lse = true})
    for _, y in ipairs {view, laid, first, lse} do y:sum():backward{retain_graph = true} end
    for _, y in ipairs {view, laid, first, lse} do
      pcall(function() y:sum():backward() end)
      refused(y)
    end
    for _, y in ipairs {shared, base, second, weights, shared:exp(), base[{}]} do refused(y) end
    base:add_(1)
    refused(base)
    refused(view)
    assert.error_matches(function() heed.grad(second:sum(), x) end, "freed")
    x.grad = nil
  end)

  it("may be part of a checkpoint's, or be passed again within a backward function", function()
    local y = heed.checkpoint(function(t) return (t * x):exp() end, x * 2)
    y:sum():backward()
    refused(y)
    local again, z
    again = heed.custom {
      forward = function(_, a) return a * 2 end,
      backward = function(_, g)
        if z then
          local y2 = z
          z = nil
          y2:backward(heed.ones(2))
        end
        return g * 2
      end,
    }
    z = again(x * 1)
    refused(z)
    x.grad = nil
  end)

  it("may be long, and is freed step by step", function()
    local y = x
    local n = heed.default_device() == "cpu" and 200000 or 3000
    for i = 1, n do
      y = y * 1.0
      if i % 50000 == 0 then collectgarbage() end
    end
    y = y:sum()
    y:backward()
    collectgarbage()
    collectgarbage()
    assert.is_true(heed.graph_nodes() < 100)
    refused(y)
  end)
end)


describe("a pass for no tensors", function()
  it("leaves gradients as they are", function()
    local x = leaf{1, 2}
    assert.same({}, heed.grad((x * 2):sum(), {}))
    assert.is_nil(x.grad)
  end)
end)


describe("a pass for leaves that have gradients", function()
  it("adds nothing where one of these became something else", function()
    for _, other in ipairs{heed.zeros(5), heed.zeros(2, "int64"), heed.zeros(2, "float64")} do
      local first, x, last = leaf{1, 1}, leaf{1, 1}, leaf{1, 1}
      local function product() return (first * x * last):sum() end
      product():backward()
      x.grad:set_(other)
      assert.error_matches(function() product():backward() end, ("backward: a leaf's gradient is "
        .. "%s of shape %%(%d%%) on %s now.*float32 of shape %%(2%%)"):format(other.dtype, #other,
                                                                            other.device))
      assert.same({1, 1}, first.grad:totable())
      assert.same({1, 1}, last.grad:totable())
      assert.equal(0, x.grad:sum():item())
      x.grad = nil
      product():backward()
      assert.same({2, 2}, first.grad:totable())
      assert.same({1, 1}, x.grad:totable())
    end
  end)

  it("does not meet the leaf's own memory, which no gradient lies in", function()
    for _, at in ipairs{{leaf = 1, within = 3, beside = 4}, {leaf = 4, within = 2, beside = 1}} do
      local buffer = heed.ones(6)
      local x = buffer:narrow(1, at.leaf, 3):detach():requires_grad_()
      for _, own in ipairs{x, x:detach(), buffer:narrow(1, at.within, 3)} do
        assert.error_matches(function() x.grad = own end,
                             "grad: the gradient lies in one stretch of memory.*clone%(%) it")
      end
      assert.is_nil(x.grad)
      x.grad = buffer:narrow(1, at.beside, 3)
      x:mul(2):sum():backward()
      assert.same({1, 1, 1}, x:totable())
      assert.same({3, 3, 3}, buffer:narrow(1, at.beside, 3):totable())
    end
  end)

  it("reads them as they were", function()
    for _, which in ipairs{1, 2} do
      local leaves = {leaf{1, 2}, leaf{3, 4}}
      local one, other = leaves[which], leaves[3 - which]
      one.grad, other.grad = heed.tensor({1, 2}, "float32"), heed.zeros(2)
      heed.custom {
        forward = function(_, a, b) return a + b end,
        backward = function() return one.grad, one.grad end,
      }(leaves[1], leaves[2]):sum():backward()
      assert.same({2, 4}, one.grad:totable())
      assert.same({1, 2}, other.grad:totable())
    end
  end)
end)


describe("a checkpoint", function()
  it("refuses arguments that were changed in place after the call", function()
    local x = leaf{1, 2}
    local function square(a, factor) return a * a * factor end
    for i = 1, 2 do
      local args = {x * 1, heed.tensor(3.0)}
      local y = heed.checkpoint(square, args[1], args[2]):sum()
      args[i]:mul_(5)
      assert.error_matches(function() y:backward() end,
                           "checkpoint: argument " .. i .. " was changed in place")
      assert.is_nil(x.grad)
    end
    local given = x:detach():clone():requires_grad_()
    local y = heed.checkpoint(square, given, 3.0):sum()
    heed.no_grad(given.set_, given, heed.tensor{5.0, 6}:clone())
    assert.error_matches(function() y:backward() end,
                         "checkpoint: argument 1 was changed in place after the call.*version 1, "
                         .. "called at 0")
    local number = heed.tensor(3.0)
    heed.checkpoint(square, x * 1, number):sum():backward()
    assert.same({6, 12}, x.grad:totable())
  end)
end)


describe("a backward function of the user's", function()
  it("may not change the gradient that it gets, which other nodes have too", function()
    local twice = heed.custom{
      forward = function(_, a) return a * 2 end,
      backward = function(_, g) return g:mul_(2) end,
    }
    local x = leaf{1, 2}
    local h = x * 1
    assert.error_matches(function() (twice(h) + h):backward(heed.ones(2)) end,
                         "custom: backward changed a gradient in place.*clone%(%)")
    assert.is_nil(x.grad)
  end)

  local function with(backward)
    return heed.custom {
      forward = function(ctx, a) ctx.a = a * 1 return a * 2 end, backward = backward,
    }
  end

  it("may collect and release whatever it reaches", function()
    local x = leaf{1, 2}
    local h, y = x * 3, nil
    y = with(function(ctx, g)
      local twice = g * 2
      for _, t in ipairs {g, ctx.a, h, y} do t:release() end
      collectgarbage()
      collectgarbage()
      return twice
    end)(h)
    y:backward(heed.ones(2))
    assert.same({6, 6}, x.grad:totable())
    assert.error_matches(function() return y + h end, "released")
  end)

  it("may release the leaf that its gradient is for", function()
    local x, other = leaf{1, 2}, leaf{1, 1}
    with(function(_, g)
      x:release()
      collectgarbage()
      return g
    end)(x * other):sum():backward()
    assert.same({1, 2}, other.grad:totable())
  end)

  it("that is stopped by a hook leaves gradients as they were, and passes go on", function()
    local x = leaf{1, 2}
    local y = with(function(_, g)
      repeat g = g * 1 until not g
    end)(x):sum()
    local function stop() error("stopped", 0) end
    debug.sethook(stop, "", 10000)
    local good, why = pcall(y.backward, y)
    debug.sethook()
    assert.is_false(good)
    assert.equal("stopped", why)
    assert.is_nil(x.grad)
    x:sum():backward()
    assert.same({1, 1}, x.grad:totable())
  end)

  it("may give what is no number, which arrives", function()
    local x = leaf{1, 2}
    with(function(_, g) return g * (0 / 0) end)(x):sum():backward()
    assert.is_true(x.grad:isnan():all())
  end)
end)
