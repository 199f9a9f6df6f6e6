-- Hooks on gradients, and gradients that tensors keep which are no leaves.

local heed = require "heed"
local message_of = require "spec.support.message"

local it_hooked = debug and it or pending

local function leaf(list) return heed.tensor(list, {requires_grad = true}) end

local function noted(list)
  return function(g) list[#list + 1] = g:totable() end
end


describe("register_hook", function()
  it("shows the whole gradient of a tensor, of several uses and before later hooks", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local y = x * 3
    y:register_hook(noted(seen))
    local z = (y * y + y):sum()
    z:backward()
    assert.same({{7, 13}}, seen)
    assert.same({21, 39}, x.grad:totable())
  end)

  it("also counts where it comes after what was computed from it", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local y = x * 3
    local z = (y * y):sum()
    heed.register_hook(y, noted(seen))
    y = nil                                        -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    z:backward()
    assert.same({{6, 12}}, seen)
  end)

  it("may give another gradient, one hook after the other", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local y = x * 3
    y:register_hook(function(g) return g * 2 end)
    y:register_hook(noted(seen))
    y:register_hook(function(g) return g + heed.tensor{0.0, 1.0} end)
    y:sum():backward()
    assert.same({{2, 2}}, seen)
    assert.same({6, 9}, x.grad:totable())
  end)

  it("takes a table that can be called", function()
    local x = leaf{1.0, 2.0}
    local twice = setmetatable({by = 2}, {__call = function(self, g) return g * self.by end})
    local y = x * 3
    y:register_hook(twice)
    y:sum():backward()
    assert.same({6, 6}, x.grad:totable())
  end)

  it("works on leaves, in each pass until it is removed", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local handle = x:register_hook(function(g)
      seen[#seen + 1] = g:totable()
      return g / 2
    end);
    (x * x):sum():backward();
    (x * x):sum():backward()
    assert.same({{2, 4}, {2, 4}}, seen)
    assert.same({2, 4}, x.grad:totable())
    handle:remove()
    handle:remove();
    (x * x):sum():backward()
    assert.equal(2, #seen)
    assert.same({4, 8}, x.grad:totable())
  end)

  it("is left at the end of a block that closes it", function()
    local x, seen = leaf{1.0}, {}
    do
      local _ <close> = x:register_hook(noted(seen))
      x:sum():backward()
    end
    x:sum():backward()
    assert.same({{1}}, seen)
  end)

  it("may remove itself and others, and begin a pass of its own", function()
    local x, seen, handles = leaf{2.0}, {}, {}
    local y = x * 3
    handles[1] = y:register_hook(function(g)
      seen[#seen + 1] = g:item()
      handles[1]:remove()
      handles[2]:remove()
      local u = leaf{5.0}
      local inner = heed.enable_grad(function() return (u * u):sum() end)
      seen[#seen + 1] = heed.grad(inner, u):item()
    end)
    handles[2] = y:register_hook(function() error "was removed" end)
    y:register_hook(noted(seen))
    local z = y:sum()
    z:backward(nil, {retain_graph = true})
    z:backward()
    assert.same({1, 10, {1}, {1}}, seen)
    assert.same({6}, x.grad:totable())
  end)

  -- Each step takes its time however many hooks there are: else this takes minutes.
  it("calls and removes very many, in their order", function()
    local x, hooks, called, N <const> = leaf{1.0}, {}, {}, 100000
    for i = 1, N do
      hooks[i] = x:register_hook(function()
        called[#called + 1] = i
        if i % 1000 == 1 then
          hooks[i]:remove()
          hooks[i + 2]:remove()
        end
      end)
    end
    (x * 2):backward()
    local n = 0
    for i = 1, N do
      if i % 1000 ~= 3 then
        n = n + 1
        if called[n] ~= i then assert.equal(i, called[n]) end
      end
    end
    assert.equal(n, #called)
    for i = N, 1, -1 do hooks[i]:remove() end;
    (x * 2):backward()
    assert.equal(n, #called)
  end)

  it("counts for heed.grad, of the one result that it stands on", function()
    local x, seen = leaf{{1.0, 5.0}, {7.0, 2.0}}, {}
    local y = x * 1
    y:register_hook(function(g) return g * 10 end)
    local values, positions = y:max(2)
    values:register_hook(noted(seen))
    assert.same({{0, 10}, {10, 0}}, heed.grad(values:sum(), x):totable())
    assert.same({{1, 1}}, seen)
    assert.is_nil(x.grad)
    assert.matches("does not require grad", message_of(positions.register_hook, positions, print))
  end)

  it("sees the value before a change in place", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local y = x * 3
    y:register_hook(noted(seen))
    y:mul_(2)
    y:sum():backward()
    assert.same({{2, 2}}, seen)
  end)

  it("is called with the types and devices of the tensor, from modules and checkpoints", function()
    local seen = {}
    local x = heed.tensor({1.0, 2.0}, {requires_grad = true, dtype = "float64"})
    heed.checkpoint(function(a)
      local y = a * 2
      if y.requires_grad then y:register_hook(function(g) seen[#seen + 1] = g.dtype end) end
      return y:sum()
    end, x):backward()
    assert.same({"float64"}, seen)
  end)

  it("refuses what it cannot take", function()
    local x = leaf{1.0, 2.0}
    local y = x * 1
    assert.matches("register_hook: a function expected", message_of(y.register_hook, y, 3))
    assert.matches("register_hook: the tensor has no gradient",
                   message_of(heed.register_hook, heed.ones(2), print))
    assert.matches("register_hook: a tensor expected, got 3", message_of(heed.register_hook, 3))
    y:sum():backward()
    assert.matches("register_hook: the graph was freed", message_of(y.register_hook, y, print))
  end)

  it("is at fault for what it gives, and gradients are as before", function()
    local function gives(what, pattern)
      local x = leaf{1.0, 2.0}
      x.grad = heed.tensor{7.0, 7.0}
      local y = x * 1
      y:register_hook(function(g) return what(g) end)
      local z = (y * y):sum()
      assert.matches(pattern, message_of(z.backward, z))
      assert.same({7, 7}, x.grad:totable())
    end
    local count = " as gradient %d; tensors for 1 inputs expected$"
    gives(function() return 3 end, "register_hook: the function gave a number" .. count:format(1))
    gives(function(g) return g, g end, "the function gave a tensor" .. count:format(2))
    gives(function(g) return g, nil, g end, "the function gave a tensor" .. count:format(3))
    gives(function(g) return g, "x" end, "the function gave a string" .. count:format(2))
    gives(function()
      local gone = heed.ones(2)
      gone:release()
      return gone
    end, "the function gave a released tensor" .. count:format(1))
    gives(function() return heed.ones(3) end, "register_hook: the hook gave.*%(3%).*%(2%)")
    gives(function(g) return g:to("float64") end, "register_hook: the hook gave float64")
    gives(function(g) g:mul_(2) end, "register_hook: the function changed a gradient in place")
    gives(function() error("mine", 0) end, "^mine$")
  end)

  it("is named in its own error, also after it caught an error of another pass", function()
    local x, inner, why = leaf{1.0}, leaf{2.0}, nil
    inner:register_hook(function() error "inner" end)
    x:register_hook(function()
      why = message_of(heed.enable_grad, function() (inner * 2):sum():backward() end)
      return 5
    end)
    assert.matches("register_hook: the function gave a number as gradient 1",
                   message_of(function() (x * 3):sum():backward() end))
    assert.matches("inner$", why)
  end)

  it("leaves the name of its pass to no later call", function()
    local x, short, long = leaf{1.0}, heed.ones(2), heed.ones(3)
    x:register_hook(function() error "no" end)
    local y = (x * 3):sum()
    assert.matches("no$", message_of(heed.grad, y, x))
    assert.matches("add: shapes", message_of(function() return short + long end))
  end)

  it("runs in the coroutine of its pass, also after one that ran another", function()
    local seen
    local function hook()
      seen[#seen + 1] = coroutine.running()
      assert.equal(2, coroutine.wrap(function() return (heed.ones(1) + 1):item() end)())
    end
    local function pass()
      local x = leaf{1.0}
      seen = {}
      for _ = 1, 2 do x:register_hook(hook) end
      (x * 2):sum():backward()
      for _, one in ipairs(seen) do assert.equal(coroutine.running(), one) end
      assert.equal(2, #seen)
    end
    pass()
    coroutine.wrap(pass)()
  end)

  -- Calls f in a finaliser that runs within the pass of a long chain from x.
  local function pass_with(x, f)
    local y = x
    for _ = 1, 40 + collectgarbage("count") // 512 do y = y * 1 end
    y:register_hook(function()
      collectgarbage()                             -- the next cycle finds what is garbage now
      setmetatable({}, {__gc = f})
    end)
    y:sum():backward()
  end

  it("runs in the coroutine of its pass, also after a finaliser that ran another", function()
    local x, ran, at = heed.ones(1 << 20, {requires_grad = true, device = "cpu"}), false, nil
    x:register_hook(function() at = coroutine.running() end)
    pass_with(x, function()
      ran = coroutine.wrap(function() return (heed.ones(1) + 1):item() == 2 end)()
    end)
    assert.is_true(ran)
    assert.equal(coroutine.running(), at)
  end)

  it_hooked("is in a pass that a debugger's hook stops, which a finaliser has set", function()
    local main = coroutine.running()
    for _, on_main in ipairs{false, true} do
      local x, set = heed.ones(1 << 20, {requires_grad = true, device = "cpu"}), false
      local function stop()
        debug.sethook(main)
        error("stop", 0)
      end
      local function f()
        debug.sethook(on_main and main or coroutine.running(), stop, "", 1)
        set = heed.ones(1):item() == 1
      end
      local co = coroutine.create(pass_with)
      local _, good = pcall(coroutine.resume, co, x, f)
      debug.sethook()
      assert.is_true(set)
      assert.is_false(good)
      assert.is_nil(x.grad)
    end
  end)

  it("is collected with a graph that it leads back to", function()
    local function make()
      local x = leaf{1.0}
      x:register_hook(function() return x end)
      local y = x * 2
      y:register_hook(function() return y end)
      return setmetatable({y, x}, {__mode = "v"})
    end
    collectgarbage()
    collectgarbage()
    local before = heed.graph_nodes()
    local weak = make()
    collectgarbage()
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
    assert.equal(before, heed.graph_nodes())
  end)

  it("is collected when it is removed, or its graph is freed, before its tensor is", function()
    local x, functions = heed.ones(2):requires_grad_(), setmetatable({}, {__mode = "k"})
    local y = x * 2
    local function hook(t)
      local two = heed.tensor{2}
      local function f(g) return g * two end
      functions[f] = true
      return t:register_hook(f)
    end
    hook(x):remove()
    hook(y)
    y:sum():backward()
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(functions))
    assert.same({{4, 4}, {2, 2}}, {x.grad:totable(), y:totable()})
  end)

  it("stays as long as its graph, whatever else is collected", function()
    local x, seen = leaf{1.0}, {}
    local z
    do
      local twice = heed.custom{forward = function(_, a) return a * 2 end,
                                backward = function(_, g) return g * 2 end}
      local y = twice(x)
      local handle = y:register_hook(noted(seen))
      y:register_hook(noted(seen))
      z = (y * 5):sum()
      handle:remove()
    end
    for _ = 1, 3 do collectgarbage() end
    z:backward()
    assert.same({{5}}, seen)
    assert.same({10}, x.grad:totable())
  end)

  it("stays as long as a gradient that has a graph, each of a list", function()
    local o = {create_graph = true}
    -- The gradient for a, 2 * 2b, from a list or alone, or that for b; and the other tensor.
    local function gradient(k)
      local a, b, seen = leaf{3.0}, leaf{5.0}, {}
      local twice = heed.custom{forward = function(_, t) return t * 2 end,
                                backward = function(_, g) return g * 2 end}
      local c, d = twice(a), twice(b)
      c:register_hook(noted(seen))
      d:register_hook(noted(seen))
      local y = (c * d):sum()
      if k == 3 then return heed.grad(y, a, o), b, seen end
      return heed.grad(y, {a, b}, o)[k], k == 1 and b or a, seen
    end
    for k = 1, 3 do
      local g, other, seen = gradient(k)
      for _ = 1, 3 do collectgarbage() end
      local n = #seen
      assert.same({4}, heed.grad(g, other):totable())
      assert.equal(n + 1, #seen)
    end
  end)
end)


describe("retain_grad", function()
  it("keeps the gradient of what is no leaf, and adds up", function()
    local x = leaf{1.0, 2.0}
    local y = x * 3
    assert.is_nil(y.grad)
    y:retain_grad()
    y:retain_grad()
    assert.is_nil(y.grad)
    local z = (y * y):sum()
    z:backward(nil, {retain_graph = true})
    assert.same({6, 12}, y.grad:totable())
    z:backward()
    assert.same({12, 24}, y.grad:totable())
    assert.same({36, 72}, x.grad:totable())
    y.grad = nil
    assert.is_nil(y.grad)
    assert.is_false(y.is_leaf)
  end)

  it("keeps what hooks made of it, for each result of its own", function()
    local x = leaf{{1.0, 5.0}, {7.0, 2.0}}
    local q = x:reshape(1, 1, 2, 2)
    local out, weights = heed.attention(q, q, q, {weights = true})
    out:retain_grad()
    heed.retain_grad(weights)
    out:register_hook(function(g) return g * 4 end);
    (out:sum() + 3 * weights:sum()):backward()
    assert.same({{{{4, 4}, {4, 4}}}}, out.grad:totable())
    assert.same({{{{3, 3}, {3, 3}}}}, weights.grad:totable())
  end)

  it("goes on when the tensor is changed in place, with the gradient of what it is now", function()
    local x = leaf{1.0, 2.0}
    local y = x * 2
    y:retain_grad()
    y:sum():backward(nil, {retain_graph = true})
    local seen = {}
    y:register_hook(noted(seen))
    y:mul_(3);
    (y * 5):sum():backward()
    assert.same({{6, 6}, {15, 15}}, {y.grad:totable(), seen[1]})
    heed.no_grad(y.zero_, y)
    assert.same({6, 6}, y.grad:totable())
  end)

  it("of a view goes on when its base is changed, and of a base when a view is", function()
    local x = leaf{1.0, 2.0}
    local y = x * 2
    local v = y:narrow(1, 2, 1)
    y:retain_grad()
    v:retain_grad()
    y:mul_(3)
    v:mul_(5);
    (y * 7):sum():backward(nil, {retain_graph = true})
    assert.same({7, 7}, y.grad:totable())
    assert.is_nil(v.grad)                          -- nothing was made of it since
    v:sum():backward()
    assert.same({{7, 8}, {1}}, {y.grad:totable(), v.grad:totable()})
    assert.same({42, 240}, x.grad:totable())
  end)

  it("may be moved by a hook that a pass calls", function()
    local x, seen = leaf{1.0, 2.0}, {}
    local y = x * 2
    y:retain_grad()
    y:register_hook(function(g) heed.enable_grad(y.add_, y, 1) seen[1] = g:totable() end)
    y:register_hook(function(g) seen[2] = g:totable() end)
    y:sum():backward()
    assert.same({{1, 1}, {1, 1}}, seen)
    assert.same({2, 2}, x.grad:totable())
  end)

  it("does nothing to a leaf, to heed.grad and to a pass that fails", function()
    local x = leaf{1.0, 2.0}
    x:retain_grad()
    local y = x * 2
    y:retain_grad()
    local z = y:sum()
    assert.same({2, 2}, heed.grad(z, x, nil, {retain_graph = true}):totable())
    assert.is_nil(y.grad)
    x:register_hook(function() error("no", 0) end)
    assert.matches("no", message_of(z.backward, z, nil, {retain_graph = true}))
    assert.is_nil(y.grad)
  end)

  it("refuses a tensor without a graph", function()
    assert.matches("retain_grad: the tensor has no gradient", message_of(heed.retain_grad,
                                                                           heed.ones(2)))
    assert.matches("at most 1", message_of(heed.retain_grad, leaf{1.0}, 2))
  end)
end)
