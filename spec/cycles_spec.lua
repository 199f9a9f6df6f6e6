-- Lua's collector sees the Lua values that a graph holds: cycles through them are collected, and no
-- value is collected that a backward pass still calls.

local heed = require "heed"

local CPU <const> = heed.default_device() == "cpu"
local MANY <const> = CPU and 10000 or 300
local SOME <const> = CPU and 1000 or 100

local function leaf(values)
  return heed.tensor(values, {requires_grad = true, dtype = "float32"})
end

local function collect()
  collectgarbage()
  collectgarbage()
end

local collecting = false           -- do backward functions collect all that they can?

local function double(held)
  return heed.custom {
    forward = function(_, a) return a * 2 end,
    backward = function(_, g)
      if collecting then collect() end
      return g * 2, held and nil
    end,
  }
end

local w <const> = leaf{1, 2}

local Keeps = heed.nn.Module:extend("Keeps")
function Keeps:init() self.inner = heed.nn.Linear(2, 2) end
function Keeps:forward(x)
  self.last = heed.checkpoint(function(t) return self.inner(t) end, x)
  return self.last
end


-- Each makes a cycle with a tensor in it.
local cycles = {
  ["from a custom's function to its result"] = function()
    local held = {}
    held.y = double(held)(w)
  end,
  ["from a custom's context to its result"] = function()
    local kept
    local f = heed.custom {
      forward = function(ctx, a) kept = ctx return a * 2 end,
      backward = function(_, g) return g end,
    }
    kept.y = f(w)
  end,
  ["from a custom's function to what was made from its result"] = function()
    local held = {}
    held.y = (double(held)(w):exp() + w)[{{1, 1}}]:sum()
  end,
  ["through several results"] = function()
    local held = {}
    local f = heed.custom {
      forward = function(_, a) return a * 2, a * 3 end,
      backward = function(_, g) return g, held and nil end,
    }
    held.one, held.two = f(w)
    held.values, held.indices = held.two:max(1)
  end,
  ["through lists and options"] = function()
    local held = {}
    local y = double(held)(w)
    held.y = heed.cat({w, y}, 1):sum{dim = 1, keepdim = true}
    held.z = heed.layer_norm(w, {2}, {weight = y})
  end,
  ["from one custom to another and back"] = function()
    local held = {}
    held.y = double(held)(double(held)(w)) * double(held)(w)
  end,
  ["from a checkpoint's function to its result"] = function()
    local y
    y = heed.checkpoint(function(t) return y and t or t * 2 end, w)
  end,
  ["of checkpoints within checkpoints"] = function()
    local held = {}
    local function inner(t) return held.y and t or t:exp() end
    held.y = heed.checkpoint(function(t) return heed.checkpoint(inner, t) * 2 end, w * 1)
  end,
  ["from a checkpoint to its input, which its result is copied into"] = function()
    local x = w * 1
    x:copy_(heed.checkpoint(function(t) return t * 2 end, x))
  end,
  ["from a checkpoint to its input, a row of which it is assigned to"] = function()
    local x = heed.stack{w, w}
    x[1] = heed.checkpoint(function(t) return t:sum(1) end, x)
  end,
  ["of a module that keeps its last output"] = function() Keeps()(w) end,
  ["in a scope, with what is kept"] = function()
    heed.scope(function()
      local held = {}
      held.y = heed.keep(double(held)(w))
    end)
  end,
  ["in a coroutine that rests"] = function()
    local co
    co = coroutine.wrap(function()
      local y = double(co)(w)
      coroutine.yield()
      return y
    end)
    co()
  end,
}


local often = {
  ["from a custom's function to its result"] = MANY,
  ["from a checkpoint's function to its result"] = MANY,
  ["of a module that keeps its last output"] = MANY,
}

describe("a cycle", function()
  for _, mode in ipairs {"incremental", "generational"} do
    for name, make in pairs(cycles) do
      it(name .. " is collected, " .. mode, function()
        collectgarbage(mode)
        collect()
        local nodes, live, lua = heed.graph_nodes(), heed.memory().live, collectgarbage "count"
        for _ = 1, often[name] or SOME do make() end
        local meanwhile = heed.graph_nodes() - nodes
        collect()
        collectgarbage "incremental"
        assert.is_true(meanwhile < 5000, ("%d nodes meanwhile"):format(meanwhile))
        assert.equal(nodes, heed.graph_nodes())
        assert.equal(live, heed.memory().live)
        assert.is_true(collectgarbage "count" - lua < 300)
      end)
    end
  end
end)


-- y's gradient by w, after all that can be collected is.
local function gradient(y)
  collect()
  w.grad = nil
  y:sum():backward{retain_graph = true}
  return w.grad:totable()
end


-- The same where the pass frees the graph, and all that can be is collected meanwhile too.
local function gradient_of_freed(y, pass)
  collect()
  w.grad, collecting = nil, true
  local good, g = pcall(pass, y:sum())
  collecting = false
  return good and (g or w.grad):totable() or g
end

local function twice(t) return double()(t) end


describe("a function that a backward pass calls", function()
  it("lives with what was made from its result", function()
    assert.same({2, 2}, gradient(twice(w)))
    assert.same({8, 8}, gradient(twice(twice(twice(w)))))
    assert.same({1, 3}, gradient(heed.cat({w, twice(w)[{{2, 2}}]}, 1) + heed.zeros(3)))
    assert.same({2, 0}, gradient((heed.stack{w, twice(w)}:t()[1][{{2, 2}}])))
    assert.same({0, 2}, gradient((twice(w):max(1))))
    assert.same({2, 2}, gradient(twice(w):to("float64"):clone()))
    assert.same({2, 8}, gradient(heed.rms_norm(w:detach(), {2}, {weight = twice(w * w) / 2})
                                 * w:detach():square():mean():sqrt()))
  end)

  it("lives with what it was written into, and with all that shares this", function()
    local x = w * 1
    x:add_(twice(w))
    assert.same({3, 3}, gradient(x))
    local row = heed.stack{w, w}
    row[2] = twice(w)
    assert.same({3, 3}, gradient(row))
    local whole = heed.stack{w, w}
    local before, other = whole[1], whole:t()
    whole[1]:copy_(twice(w))
    assert.same({2, 2}, gradient(before))
    whole:add_(twice(w))
    whole = nil
    assert.same({7, 7}, gradient(other))
    assert.is_nil(whole)
  end)

  it("lives with another handle on the same tensor", function()
    local x = w * 1
    local same = heed.no_grad(x.contiguous, x)
    x:add_(twice(w))
    x = nil
    assert.same({3, 3}, gradient(same))
    assert.is_nil(x)
  end)

  it("lives with a gradient that leads to it", function()
    local kept
    local outer = heed.custom {
      forward = function(_, a) return a * 1 end,
      backward = function(_, g) kept = g return g end,
    }
    local inner = heed.custom {
      forward = function(_, a) return a * 1 end,
      backward = function(_, g)
        return heed.enable_grad(function() return g + twice(w):detach() * 0 + twice(w) end)
      end,
    }
    inner(outer(leaf{1, 1})):sum():backward()
    collect()
    assert.same({2, 2}, gradient(kept))
  end)

  it("lives while it is needed by a graph that is retained", function()
    local y = twice(w):sum()
    assert.same({2, 2}, gradient(y))
    assert.same({2, 2}, gradient(y))
  end)

  it("lives while a pass frees the functions before it", function()
    local function grad(y) return heed.grad(y, w) end
    for _, pass in ipairs {w.backward, grad} do
      assert.same({8, 8}, gradient_of_freed(twice(twice(twice(w))), pass))
      assert.same({10, 10}, gradient_of_freed(twice(twice(twice(w)) + w), pass))
      local x = w * 1
      local other = x:t()
      x:add_(twice(twice(twice(w))))
      x = nil
      assert.same({9, 9}, gradient_of_freed(other, pass))
      assert.is_nil(x)
    end
  end)

  it("lives between checkpoints, behind views that were changed in place", function()
    local function sine(t) return t:sin() end
    local y = w * 0.5
    for _ = 1, 4 do
      y = heed.checkpoint(sine, y:clone())
      y:t():mul_(0.75)
      y:register_hook(function() collect() end)
    end
    local found, plain = gradient_of_freed(y, y.backward), w * 0.5
    for _ = 1, 4 do plain = plain:sin() * 0.75 end
    assert.same(gradient(plain), found)
  end)

  it("is missed with a message where a script took it away", function()
    local y = twice(w)
    debug.setuservalue(y, nil, 1)
    assert.error_matches(function() gradient(y) end,
                         "^[^\n]*custom: backward was collected")
  end)

  it("gives a finaliser that comes too late a message, and the next pass its gradient", function()
    local good, why
    do
      local held = {}
      held.y = double(held)(w)
      setmetatable(held, {__gc = function() good, why = pcall(gradient, held.y) end})
    end
    collect()
    assert.is_true(good or why:find "collected" ~= nil)
    assert.same({2, 2}, gradient(twice(w)))
  end)

  it("goes with its graph, though a tensor stays", function()
    local held = setmetatable({{}}, {__mode = "v"})
    local y = double(held[1])(w)
    y:sum():backward()
    collect()
    assert.is_nil(held[1])
    assert.is_false(y.is_leaf)
  end)

  it("leaves nothing at a tensor that its result is written into where nothing is recorded",
     function()
    local x, row = leaf{0, 0}, leaf{{0, 0}, {0, 0}}
    local function write()
      for _ = 1, SOME do
        heed.no_grad(function()
          local y = heed.enable_grad(twice, w)
          x:add_(y)
          row[1] = y
        end)
      end
      collect()
    end
    write()
    local before = collectgarbage "count"
    write()
    assert.is_true(collectgarbage "count" - before < SOME / 20)
    assert.same({4 * SOME, 8 * SOME}, x:detach():totable())
    assert.same({2, 4}, row[1]:detach():totable())
  end)
end)


describe("a chain of functions, each of which has the tensor before it", function()
  for mode, length in pairs {incremental = MANY, generational = 10 * MANY} do
    it("is collected without deep recursion, " .. mode, function()
      collect()
      collectgarbage(mode)
      local nodes, y = heed.graph_nodes(), w
      for _ = 1, length do y = double(y)(y) end
      assert.is_true(heed.graph_nodes() - nodes >= length)
      y = nil
      collect()
      collectgarbage "incremental"
      assert.equal(nodes, heed.graph_nodes())
      assert.is_nil(y)
    end)
  end
end)


describe("random graphs", function()
  -- Random steps, drawn by r, on the variables in v: some call functions, share memory, or write.
  local steps = {
    function(v, r) return twice(v[r(#v)]) end,
    function(v, r) return heed.checkpoint(function(t) return t:sin() end, v[r(#v)]) end,
    function(v, r) return v[r(#v)] + v[r(#v)] end,
    function(v, r) return v[r(#v)]:t() end,
    function(v, r) return v[r(#v)][{{2, 1, -1}}] end,
    function(v, r) return heed.stack({v[r(#v)], v[r(#v)]}, 1)[r(2)] end,
    function(v, r) v[r(#v)]:add_(v[r(#v)]) end,
    function(v, r) v[r(#v)]:select(1, 1):copy_(v[r(#v)]:select(2, 2)) end,
    function(v, r) v[r(#v)][r(2)] = v[r(#v)][r(2)] end,
    function(v, r) return heed.no_grad(function() return v[r(#v)]:contiguous() end) end,
  }

  -- The gradient after such steps, or the error; where 'all' is true, nothing is collected.
  local function outcome(seed, all)
    local x = heed.tensor({{0.3, -0.2}, {0.5, 0.7}}, {dtype = "float64", requires_grad = true})
    local v, kept = {x, x * 1}, {}
    math.randomseed(seed)
    for _ = 1, math.random(3, 25) do
      local good, y = pcall(steps[math.random(#steps)], v, math.random)
      local how = math.random(4)
      if good and y then
        local at = math.min(math.random(2, 5), #v + 1)
        kept[#kept + 1] = all and v[at] or nil
        v[at] = y
      end
      if not all and how <= 2 then collectgarbage(how == 1 and "collect" or "step") end
    end
    local y = v[math.random(#v)]
    if not all then v = nil collect() end
    collecting = not all
    local good, why = pcall(function() y:sum():backward() end)
    collecting = false
    return good and x.grad:totable() or why, v, kept
  end

  it("have the gradients that they have when nothing is collected", function()
    for seed = 1, SOME // 30 do
      local found = outcome(seed, false)
      assert.same((outcome(seed, true)), found, "seed " .. seed)
    end
  end)
end)
