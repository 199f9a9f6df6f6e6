-- Results of heed.custom and heed.checkpoint that would share memory with something else: with a
-- graph they are tensors of their own, so that changes in place are part of one graph alone.

local heed = require "heed"
local message_of = require "spec.support.message"

local function leaf(list) return heed.tensor(list, {requires_grad = true}) end

local function operation(forward)
  return heed.custom{
    forward = function(_, ...) return forward(...) end,
    backward = function(_, g, h) return h and g + h:view(2) or g end,
  }
end

local same = operation(function(x) return x end)

local makers = {
  custom = function(forward, ...) return operation(forward)(...) end,
  checkpoint = heed.checkpoint,
}


describe("a result of an operation of the user's", function()
  for name, make in pairs(makers) do
    it("is apart from an argument that it is, or is a part of: " .. name, function()
      local x = leaf{1.0, 2.0}
      for _, part in ipairs{function(t) return t end, function(t) return t:narrow(1, 1, 2) end} do
        local z = x * 1
        local y = make(part, z)
        y:mul_(3)
        assert.same({{3, 6}, {1, 2}}, {y:detach():totable(), z:detach():totable()})
        assert.same({3, 3}, heed.grad(y:sum(), x, {retain_graph = true}):totable())
        z:mul_(5)
        assert.same({{3, 6}, {5, 10}}, {y:detach():totable(), z:detach():totable()})
        assert.same({5, 5}, heed.grad(z:sum(), x):totable())
      end
    end)

    it("changes no leaf in place: " .. name, function()
      local w = leaf{1.0, 2.0}
      local y = make(function(t) return t end, w)
      y:mul_(3)
      assert.same({{1, 2}, {3, 6}}, {w:detach():totable(), y:detach():totable()})
      y:sum():backward()
      assert.same({3, 3}, w.grad:totable())
    end)

    it("is apart from another result: " .. name, function()
      local x = leaf{1.0, 2.0}
      local p, q = make(function(t)
        local y = t * 1
        return y, y:view(1, 2)
      end, x)
      p:mul_(2)
      assert.same({{1, 2}}, q:detach():totable())
      local both = p:sum() + q:sum()
      both:backward()
      assert.same({3, 3}, x.grad:totable())
    end)
  end

  it("is apart from a leaf that only the function knows", function()
    local w = leaf{1.0, 2.0}
    heed.checkpoint(function() return w end):mul_(3)
    assert.same({1, 2}, w:detach():totable())
  end)

  it("is the argument itself where there is no graph", function()
    local x = heed.ones(2)
    assert.equal(x, same(x))
    assert.equal(x, heed.no_grad(same, x))
  end)

  it("takes no copy of what it made alone", function()
    local made
    local f = operation(function(x) made = x * 2 return made end)
    local y = f(leaf{1.0, 2.0})
    heed.no_grad(made.fill_, made, 7)
    assert.same({7, 7}, y:detach():totable())
  end)
end)


describe("a checkpoint", function()
  it("gives gradients of gradients of what it passes on", function()
    local x = leaf{2.0}
    local y = heed.checkpoint(function(t) return t end, x * x) * x
    local g = heed.grad(y:sum(), x, {create_graph = true})
    assert.same({12}, g:totable())
    assert.same({12}, heed.grad(g:sum(), x):totable())
  end)

  it("joins the gradients of many results, those of gradients too", function()
    local x, N <const> = leaf{3.0}, 70
    local results = table.pack(heed.checkpoint(function(t)
      local ys = {}
      for i = 1, N do ys[i] = t * t * i end
      return table.unpack(ys)
    end, x))
    local sum = 0
    for i = 1, N do sum = sum + results[i] * x end
    local g = heed.grad(sum:sum(), x, {create_graph = true})     -- of 2485 x^3
    assert.same({2485 * 27}, g:totable())
    assert.same({2485 * 18}, heed.grad(g:sum(), x):totable())
  end)

  it("takes tensors that have a graph as arguments: those in closures have theirs freed", function()
    local x, calls = leaf{1.0, 2.0}, 0
    local h = x * 2
    local function given(t) return (t * t):sum() end
    local y = heed.checkpoint(given, h) + heed.checkpoint(given, h)
    y:backward()
    assert.same({16, 32}, x.grad:totable())
    x:register_hook(function() calls = calls + 1 end)
    local function closed() return (x * x):sum() end
    local z = heed.checkpoint(closed) + heed.checkpoint(closed)
    z:backward()
    assert.same({20, 40}, x.grad:totable())
    assert.equal(2, calls)                         -- with a part from each
    h = x * 2
    local function closes() return (h * h):sum() end
    local both = heed.checkpoint(closes) + heed.checkpoint(closes)
    assert.matches("the graph was freed by an earlier backward", message_of(both.backward, both))
  end)
end)
