-- Calls that hold tensors while they run let go of them in the end, also where they fail: what they
-- were given is released, and its memory is free.

local device = require "spec.support.device"
local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local N <const> = 1 << 12

local function ones(...) return heed.ones{...} end
local function leaf() return heed.ones({N}, {requires_grad = true}) end

local function live()
  collectgarbage()
  collectgarbage()
  return heed.memory().live
end

-- Calls f with each of what `make` gives, which are released behind it: nothing else keeps memory.
local function lets_go(make, f)
  local function once()
    local list = table.pack(make())
    f(table.unpack(list, 1, list.n))
    for _, t in ipairs(list) do t:release() end
  end
  once()                                     -- modules are loaded, caches are filled
  local before = live()
  for _ = 1, 3 do once() end
  assert.equal(before, live())
end

local function fails(f, ...) assert.is_false(pcall(f, ...)) end


describe("a call lets go of", function()
  setup(device.cpu)
  teardown(device.back)

  local function two() return ones(N), ones(N) end
  local function leaves() return leaf(), leaf() end

  it("tensors of lists and options", function()
    lets_go(two, function(x, y) heed.cat{x, y}:release() end)
    lets_go(two, function(x, y) heed.stack({x, y}, {dim = 1}):release() end)
    lets_go(two, function(x, y) heed.lerp(x, {["end"] = y, weight = 0.5}):release() end)
    lets_go(two, function(x, y) x:add_{other = y} end)
    lets_go(two, function(x, y) fails(heed.cat, {x, y, ones(2, 2)}) end)
    lets_go(two, function(x) fails(heed.mul, x, {other = ones(3)}) end)
    lets_go(two, function(x) fails(x.add_, x, {other = ones(3)}) end)
    lets_go(two, function(x, y) heed.einsum("i,i->", x, y):release() end)
    lets_go(two, function(x) heed.tensor(x):release() end)
    lets_go(two, function(x) heed.tensor(x, "float64"):release() end)
  end)

  it("indices and values", function()
    local function with_index() return ones(N, 2), heed.tensor{1, 2}, heed.tensor{2, 1} end
    lets_go(with_index, function(x, i, k) x[{i, k}]:release() end)
    lets_go(with_index, function(x, i, k) x[{i, k}] = 3 end)
    lets_go(with_index, function(x, i, k) x[{i, {}}] = k end)
    lets_go(with_index, function(x, i) x[{{2, -1}, i}] = ones(N - 1, 2) end)
    lets_go(with_index, function(x, i) fails(function() return x[{i, i, i}] end) end)
    lets_go(with_index, function(x, i) fails(function() x[{i, i}] = ones(3) end) end)
    lets_go(with_index, function(x) fails(function() return x[{{1, 2}, 9}] end) end)
    lets_go(with_index, function(x) x[{{}, 1}]:release() end)
  end)

  it("tensors of a backward pass", function()
    lets_go(leaves, function(p, q) (p * q):sum():backward() end)
    lets_go(leaves, function(p, q) heed.grad((p * q):sum(), {p, q}) end)
    lets_go(leaves, function(p, q) heed.grad((p * q):sum(), {p, q}, {create_graph = true}) end)
    lets_go(leaves, function(p, q) fails(heed.grad, (p * q), {p, q}) end)
    local function with_seed() return leaf(), ones(N) end
    lets_go(with_seed, function(p, seed) (p * 2):backward(seed) end)
    lets_go(with_seed, function(p, seed) heed.grad(p * 2, p, seed) end)
    lets_go(leaves, function(p)
      local handle = p:register_hook(function(g) return g * 2 end)
      p:sum():backward()
      handle:remove()
    end)
    lets_go(leaves, function(p)
      local handle = p:register_hook(function() error "mine" end)
      fails(function() (p * 2):sum():backward() end)
      handle:remove()
    end)
    lets_go(leaves, function(p, q) heed.checkpoint(function(a, b) return a * b end, p, q) end)
  end)

  it("parameters, gradients and states of optimisers", function()
    for _, name in ipairs{"SGD", "Adam", "AdamW", "Lion"} do
      lets_go(leaves, function(p, q)
        local opt = optim[name]({{params = {p}}, {params = {q}, lr = 0.5}});
        (p * q):sum():backward()
        opt:step()
        opt:step()
        opt:zero_grad()
        opt:step()
      end)
    end
    lets_go(leaves, function(p, q)
      (p * q):sum():backward()
      optim.clip_grad_norm({p, q}, 1)
    end)
    lets_go(leaves, function(p) fails(optim.clip_grad_norm, {p, 5}, 1) end)
  end)

  it("what modules and their averages keep", function()
    local function weights() return ones(64, 64), ones(64) end
    lets_go(weights, function(w, b)
      local layer, other = nn.Linear(64, 64), nn.Linear(64, 64)
      layer:load_state{weight = w, bias = b}
      local ema = optim.EMA(layer)
      ema:update()
      layer:to("float64"):to("float32")
      other:load_state(layer:state())
      fails(layer.load_state, layer, {weight = b, bias = b})
      layer:train(false)
    end)
  end)

  it("what is measured, and what draws", function()
    lets_go(two, function(x, y) heed.no_grad(function() return x * y end):release() end)
    lets_go(two, function(x, y) fails(heed.no_grad, function() error(x * y) end) end)
    lets_go(two, function(x) heed.rng_state(heed.rng_state()) heed.dropout(x, 0.5):release() end)
    lets_go(two, function(x, y) assert(x:equal(y) and not x:equal(ones(3))) end)
    lets_go(two, function(x, y) x:set_(y) end)
    lets_go(two, function(x) tostring(x):len() end)
    lets_go(two, function(x) assert(#x:totable() == N and #x:data() == 4 * N) end)
    lets_go(two, function(x) heed.tensor{{x:sum(), 1}, {2, 3}}:release() end)
  end)
end)


describe("heed.core lets go of", function()
  local core = require "heed.core"
  setup(device.cpu)
  teardown(device.back)

  local function two() return leaf(), ones(N) end

  it("targets and operands of steps", function()
    lets_go(two, function(p, x)
      assert.is_true(core.optim_step({}, nil, {p}, {x}))
      p.grad = ones(N)
      local steps = {"SGD", {p}, false, {}, {lr = 1}, 1}
      assert.is_true(core.optim_step(steps, nil, {p}, {x}))
      assert.is_true(core.optim_step({"SGD", {p}, {x}, {}, {lr = 1}, 1}))
      p.grad = nil
      assert.is_false(core.optim_step(steps, nil, {p}, {x}))
      fails(core.optim_step, {"SGD", {p}, {ones(3)}, {}, {lr = 1}, 1}, nil, {p}, {x})
      fails(core.optim_step, {}, nil, {p}, {ones(3)})
      core.clip_gradients({p}, 2)
    end)
    lets_go(two, function(p, x)
      p.grad = ones(N)
      local q, mean = leaf(), heed.zeros(N)
      q.grad = ones(N)
      assert.is_true(core.optim_step{"SGD", {p, q}, false, {{mean, x}}, {lr = 1, momentum = 0.5},
                                     1})
      q.grad = nil
      assert.is_false(core.optim_step{"SGD", {p, q}, false, {{mean, x}}, {lr = 1, momentum = 0.5},
                                      2})
    end)
  end)

  it("changes, made or not, and made for a call", function()
    lets_go(two, function(p, x)
      core.commit("f", {targets = {p}, operands = {x}})
      core.commit("f", {takers = {p}, givers = {x}, gradients = {x:clone()}})
      core.commit("f", {takers = {p}})
      fails(core.commit, "f", {targets = {p}, operands = {ones(3)}})
      core.commit_during("f", {targets = {p}, operands = {x}}, {targets = {p}, operands = {x}},
                         tostring, 1)
      fails(core.commit_during, "f", {targets = {p}, operands = {x}},
            {targets = {p}, operands = {x}}, error, "mine")
      fails(core.commit_during, "f", {targets = {p}, operands = {ones(3)}},
            {targets = {p}, operands = {x}}, tostring, 1)
      core.require_grad({p}, true)
      core.require_grad({p, x}, false)
    end)
  end)

  it("a call of which the work is measured", function()
    lets_go(two, function(_, x)
      core.measured(function() (x * 2):release() end)
      fails(core.measured, function() error(x * 2) end)
    end)
  end)
end)


describe("heed.core holds, where finalisers take them out of lists while it runs,", function()
  local core = require "heed.core"
  local SIDE <const>, LISTS <const> = 1024, 12
  setup(device.cpu)
  teardown(device.back)

  -- Calls f; every cycle of the collector within it empties the lists. Two cycles at least: the
  -- second one takes what stood in them.
  local function emptied(lists, f)
    local cycles, on = 0, true
    local function arm()
      setmetatable({}, {__gc = function()
        cycles = cycles + 1
        for _, list in ipairs(lists) do
          for i = #list, 1, -1 do list[i] = nil end
        end
        if on then arm() end
      end})
    end
    collectgarbage()
    collectgarbage()
    arm()
    f()
    on = false
    assert.is_true(cycles > 1)
  end

  -- Operands behind the second are the targets before them: they must be copied, which takes
  -- memory. The first target and the first two operands stand in the lists alone.
  local function check_writes(write)
    local function full(i) return heed.full({SIDE, SIDE}, i + 0.0) end
    local targets, operands, kept = {full(1), full(2)}, {full(-1), full(-2)}, {}
    for i = 3, LISTS do targets[i], operands[i] = full(i), targets[i - 1] end
    table.move(targets, 2, LISTS, 2, kept)
    emptied({targets, operands}, function() write(targets, operands) end)
    assert.is_true(kept[2]:eq(-2):all())
    for i = 3, LISTS do assert.is_true(kept[i]:eq(i - 1):all()) end
  end

  it("targets and operands of steps", function()
    check_writes(function(targets, operands) core.optim_step({}, nil, targets, operands) end)
  end)

  it("targets and operands of changes", function()
    check_writes(function(targets, operands)
      core.commit("f", {targets = targets, operands = operands})
    end)
  end)

  it("parameters, gradients and states of steps", function()
    local ps, gs, means, last = {}, {}, {}, nil
    for i = 1, LISTS do
      last = heed.full({SIDE, SIDE}, i + 0.0)
      ps[i], gs[i] = last, heed.full({SIDE, SIDE}, 2.0):t()
      means[i] = heed.zeros(SIDE, SIDE)
    end
    emptied({ps, gs, means}, function()
      core.optim_step{"SGD", ps, gs, {means}, {lr = 1, momentum = 0.5}, 1}
    end)
    assert.is_true(last:eq(LISTS - 2):all())
  end)
end)


describe("heed.core lets go of", function()
  local core = require "heed.core"
  local SIZE <const> = 4096
  setup(device.cpu)
  teardown(device.back)

  local function none() end

  local WRITES <const> = {
    steps = function(t, o) core.optim_step({}, nil, {t}, {o}) end,
    changes = function(t, o) core.commit("f", {targets = {t}, operands = {o}}) end,
    ["changes before a call"] = function(t, o)
      core.commit_during("f", {targets = {t}, operands = {o}}, {}, none)
    end,
    ["changes behind a call"] = function(t, o)
      core.commit_during("f", {}, {targets = {t}, operands = {o}}, none)
    end,
  }

  for name, write in pairs(WRITES) do
    it("the tensors of " .. name, function()
      collectgarbage()
      collectgarbage()
      local before = heed.memory().live
      local t, o = heed.zeros(SIZE), heed.ones(SIZE)
      write(t, o)
      assert.equal(1, t:totable()[SIZE])
      t:release()
      o:release()
      assert.is_true(heed.memory().live <= before)
    end)
  end

  it("changes behind a call, which are made once", function()
    local x = heed.ones(1)
    core.commit_during("f", {}, {targets = {x}, op = "mul", number = 2}, none)
    assert.equal(2, x:item())
  end)

  it("the name of changes", function()
    local x, short, long = heed.ones(1), heed.ones(2), heed.ones(3)
    core.commit("f", {targets = {x}, op = "mul", number = 2})
    assert.matches("add: shapes", select(2, pcall(function() return short + long end)))
  end)
end)
