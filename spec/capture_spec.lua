-- Captured work: n calls do what n calls of the function itself do, bit for bit.

local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"

-- Composed operations read values back.
local it = os.getenv "HEED_BUILD" == "basic" and pending or it

-- A small model, its data, and a step on both; the same again for the same seed.
local function training(make)
  heed.manual_seed(1)
  local model = nn.Sequential{nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)}
  model:to(heed.default_device())
  local opt = make(model:parameters())
  local function step(x, y)
    opt:zero_grad()
    local loss = heed.cross_entropy(model(x), y)
    loss:backward()
    optim.clip_grad_norm(model:parameters(), 0.5)
    opt:step()
    return loss
  end
  local batches = {}
  for i = 1, 8 do
    batches[i] = {heed.randn(5, 6, {device = "cpu"}):to(heed.default_device()),
                  heed.randint(1, 3, {5}, {device = "cpu"}):to(heed.default_device())}
  end
  return model, opt, step, batches
end

local function weights_of(model)
  local list = {}
  for _, p in ipairs(model:parameters()) do list[#list + 1] = p:data() end
  return list
end

local OPTIMISERS = {
  SGD = function(ps) return optim.SGD(ps, {lr = 0.1, momentum = 0.9, dampening = 0.1}) end,
  Adam = function(ps) return optim.Adam(ps, {lr = 0.01}) end,
  AdamW = function(ps) return optim.AdamW(ps, {lr = 0.01, amsgrad = true}) end,
  Lion = function(ps) return optim.Lion(ps, {lr = 0.01, weight_decay = 0.1}) end,
  groups = function(ps)
    local groups = {{params = {ps[1]}}}
    for i = 2, #ps do groups[i] = {params = {ps[i]}, lr = i / 100} end
    return optim.AdamW(groups, {lr = 0.01})
  end,
}

local function halve(opt)
  for _, group in ipairs(opt.groups) do group.lr = group.lr / 2 end
end


describe("capture", function()
  it("gives arguments within tables as copies of what they are in that call", function()
    local x, given = heed.ones(2), {}
    local f = heed.capture(function(t)
      return {inner = {t}, part = t:narrow(1, 2, 1), twice = t * 2}
    end)
    for i = 1, 4 do
      x:fill_(i)
      given[i] = f(x)
    end
    for i = 2, 4 do                                    -- the first is the argument itself
      local parts = {given[i].inner[1]:totable(), given[i].part:totable()}
      assert.same({{i, i}, {i}}, parts)
    end
    x:fill_(9)
    assert.same({4, 4}, given[4].inner[1]:totable())
  end)

  it("has one kind of calls for equal names in tables, wherever these are in memory", function()
    local n, given = 0, {}
    local f = heed.capture(function(t)
      n = n + 1
      return t[1] * 2
    end)
    for k = 1, 2 do
      given[k] = {heed.ones(2)}
      for i = 1, 8 do
        local digit = k == 1 and i or 9 - i
        given[k][("long"):rep(20) .. digit] = digit
      end
    end
    for i = 1, 3 do f(given[i % 2 + 1]) end
    assert.equal(2, n)
  end)

  it("has a kind of calls for each value that is no tensor's, also in tables", function()
    local x, y, n = heed.ones(2), heed.ones(2), 0
    local f = heed.capture(function(t)
      n = n + 1
      return t * 2
    end)
    local function around(inner)
      inner.me = inner
      return inner
    end
    local function two()
      local t = {}
      t.me = {me = t}
      return t
    end
    local makers = {
      function() return 1 end, function() return 1.0 end, function() return "1" end,
      function() return true end, function() return false end, function() return nil, 1 end,
      function() return nil, nil end, function() return print end, function() return pairs end,
      function() return {} end, function() return {1} end, function() return {{1}} end,
      function() return {1, 2} end, function() return {2, 1} end, function() return {1}, 2 end,
      function() return {a = 1} end, function() return {a = 2} end, function() return {b = 1} end,
      function() return {1, a = 1, [true] = 2} end, function() return {1, a = 1, [false] = 2} end,
      function() return {[true] = 1, [false] = 2} end, function() return around{} end,
      function() return around{1} end, function() return two() end,
      function() return {[around{}] = 1} end, function() return x end, function() return y end,
      function() return {x} end, function() return {x, y} end, function() return {y, y} end,
      function() return heed.ones(3) end, function() return heed.ones(2, 1) end,
      function() return heed.ones(2, {dtype = "int64"}) end,
    }
    for _, make in ipairs(makers) do
      n = 0
      for _ = 1, 3 do f(x, make()) end
      assert.equal(2, n)
    end
    for _, make in ipairs(makers) do
      n = 0
      f(x, make())
      assert.equal(0, n)
    end
    local why = select(2, pcall(f, heed.quantize(heed.ones(32), "q8_0")))
    assert.matches("capture: values expected in arguments, got blocks of type q8_0", why, 1, true)
  end)

  it("keeps 64 kinds of calls, and drops the one that was called longest ago", function()
    local n, x = 0, heed.ones(2)
    local f = heed.capture(function(t, k)
      n = n + 1
      return t * k
    end)
    local function call(from, to, times)
      local before = n
      for k = from, to do
        for _ = 1, times do assert.same({k, k}, f(x, k):totable()) end
      end
      return n - before
    end
    assert.equal(2 * 64, call(1, 64, 3))           -- once as it is, once as it is recorded
    assert.equal(0, call(1, 64, 1))
    assert.equal(2, call(65, 65, 3))
    assert.equal(0, call(2, 65, 1))
    assert.equal(2, call(1, 1, 3))
  end)

  it("calls a function that works on nothing each time", function()
    local n = 0
    local f = heed.capture(function()
      n = n + 1
      return n
    end)
    for i = 1, 5 do assert.equal(i, f()) end
    local x = heed.ones(2)
    for i = 6, 9 do assert.equal(i, f(x)) end
  end)

  for name, make in pairs(OPTIMISERS) do
    it("trains with " .. name .. " as the step itself does", function()
      local one, opt, step, batches = training(make)
      local losses = {}
      for i, batch in ipairs(batches) do
        if i == 6 then halve(opt) end
        losses[i] = step(table.unpack(batch)):item()
      end
      local other, again, plain = training(make)
      local captured = heed.capture(plain)
      for i, batch in ipairs(batches) do
        if i == 6 then halve(again) end
        assert.equal(losses[i], captured(table.unpack(batch)):item())
      end
      assert.same(weights_of(one), weights_of(other))
      assert.same(opt:state().step:totable(), again:state().step:totable())
    end)
  end

  it("notices momentum that is set later", function()
    local function run(wrap)
      local model, opt, step, batches = training(function(ps) return optim.SGD(ps, {lr = 0.1}) end)
      local f = wrap(step)
      for i, batch in ipairs(batches) do
        if i == 5 then opt.options.momentum = 0.9 end
        f(table.unpack(batch))
      end
      return weights_of(model)
    end
    assert.same(run(function(f) return f end), run(heed.capture))
  end)

  it("converts weights anew in each replay, and moves their averages", function()
    local function run(wrap)
      local model, _, step, batches = training(function(ps) return optim.SGD(ps, {lr = 0.1}) end)
      local ema = optim.EMA(model, {decay = 0.5})
      local f = wrap(function(x, y)
        local loss = heed.autocast("bfloat16", step, x, y)
        ema:update()
        return loss
      end)
      local losses = {}
      for i, batch in ipairs(batches) do losses[i] = f(table.unpack(batch)):item() end
      return losses, ema:apply(weights_of, model)
    end
    local losses, averages = run(function(f) return f end)
    local again, same = run(heed.capture)
    assert.same(losses, again)
    assert.same(averages, same)
  end)

  it("refuses the update of averages that stand in the weights, and their warmup", function()
    local x, layer = heed.ones(2), nn.Linear(2, 1, {bias = false}):to("cpu")
    local ema, warm = optim.EMA(layer, {decay = 0.5}), optim.EMA(layer, {warmup = true})
    layer:to(x.device)
    local update = heed.capture(function(y) ema:update() return y + 1 end)
    for _ = 1, 3 do update(x) end
    assert.error_matches(function() ema:apply(update, x) end, "apply has put the averages into")
    assert.equal(3, ema:state().updates:item())
    local warmup = heed.capture(function(y) warm:update() return y + 1 end)
    warmup(x)
    assert.error_matches(function() warmup(x) end,
                         "update: warmup cannot be captured: its decay changes")
    assert.equal(1, warm:state().updates:item())
  end)

  it("keeps apart what has other shapes or other numbers", function()
    local f = heed.capture(function(x, k) return x * k end)
    for _ = 1, 3 do
      assert.same({2, 4}, f(heed.tensor{1.0, 2.0}, 2):totable())
      assert.same({3, 6, 9}, f(heed.tensor{1.0, 2.0, 3.0}, 3):totable())
      assert.same({4, 8}, f(heed.tensor{1.0, 2.0}, 4):totable())
    end
  end)

  it("gives new random numbers in every call", function()
    local f = heed.capture(function(x) return heed.dropout(x, 0.5) end)
    local x, results = heed.ones(200), {}
    for _ = 1, 5 do
      local bytes = f(x):data()
      assert.is_nil(results[bytes])
      results[bytes] = true
    end
  end)

  -- f and its capture on tensors of their own, call by call: weights, gradients, results.
  local function same_as_eager(calls, make)
    local eager = {}
    for pass = 1, 2 do
      heed.manual_seed(3)
      local w = heed.tensor({1, 2, 3}, {dtype = "float32", requires_grad = true})
      local other = pass == 1 and function(f) return f end or heed.capture
      local call = make(w, other)
      for i = 1, calls do
        local y = call(i)
        local now = {w:totable(), w.grad and w.grad:totable() or "none",
                     heed.is_tensor(y) and y:totable() or y or "none"}
        if pass == 1 then eager[i] = now else assert.same(eager[i], now, "call " .. i) end
      end
    end
  end

  local function ones(n, x) return heed.full({n, 3}, x * 1.0) end

  local function stepping(w, opt)
    return function(x)
      opt:zero_grad()
      local loss = (x * w):square():sum()
      loss:backward()
      opt:step()
      return loss
    end
  end

  it("counts steps across shapes, eager calls and loaded states", function()
    for _, make in pairs(OPTIMISERS) do
      same_as_eager(14, function(w, other)
        local opt = make({w})
        local eager = stepping(w, opt)
        local step, kept = other(eager), nil
        return function(i)
          if i == 6 then
            kept = opt:state()
            for name, t in pairs(kept) do kept[name] = t:clone() end
          end
          if i == 9 then opt:load_state(kept) end
          if i == 11 then opt.options.weight_decay = 0.1 end
          if i == 11 and opt.options.eps then opt.options.eps = 1e-3 end
          return (i % 5 == 4 and eager or step)(ones(1 + i % 2, i / 10))
        end
      end)
    end
  end)

  it("leaves the gradients that the function leaves", function()
    same_as_eager(12, function(w, other)          -- two batches to a step, which is taken outside
      local opt = optim.Adam({w}, {lr = 0.1})
      local push = other(function(x) (x * w):square():sum():backward() end)
      return function(i)
        if i % 2 == 1 then opt:zero_grad() end
        push(ones(2, i / 10))
        if i % 2 == 0 then opt:step() end
      end
    end)
    same_as_eager(8, function(w, other)           -- gradients set to 0, not forgotten
      local opt = optim.SGD({w}, {lr = 0.1})
      local push = other(function(x)
        opt:zero_grad{set_to_none = false}
        return (x * w):square():sum():backward()
      end)
      return function(i)
        if i == 5 then w.grad = nil end
        push(ones(2, i / 10))
        opt:step()
      end
    end)
  end)

  it("holds what it works on, and notices other memory", function()
    local w = heed.ones(4, 4)
    local f = heed.capture(function(x) w:add_(1) return w * x end)
    for _ = 1, 3 do f(heed.ones(4, 4)) end
    w:release()
    local others = {}
    for i = 1, 60 do others[i] = heed.zeros(4, 4) end
    pcall(f, heed.ones(4, 4))
    for _, t in ipairs(others) do assert.equal(0, t:sum():item()) end
    same_as_eager(10, function(v, other)
      local opt = optim.Adam({v}, {lr = 0.1})
      local step = other(stepping(v, opt))
      return function(i)
        if i == 4 or i == 7 then heed.no_grad(v.set_, v, v:detach() * 2) end
        if i == 6 then v:requires_grad_(false) v:requires_grad_(true) end
        return step(ones(2, i / 10))
      end
    end)
  end)

  it("outlives graphs that are collected while it is captured", function()
    local old
    local f = heed.capture(function(x)
      old = nil
      collectgarbage()
      return x + 1
    end)
    f(heed.ones(2))
    old = heed.capture(function(x) return x * 2 end)
    for _ = 1, 3 do old(heed.ones(2)) end
    for i = 1, 3 do assert.same({i + 1, i + 1}, f(heed.full({2}, i * 1.0)):totable()) end
  end)

  it("replays the step of an optimiser with one parameter", function()
    for _, kind in ipairs{"SGD", "Adam"} do
      local p, calls = heed.nn.Parameter(heed.ones(3)), 0
      local opt = heed.optim[kind]({p}, {lr = 0.5})
      local step = heed.capture(function(x)
        calls = calls + 1
        opt:zero_grad()
        local loss = (p * x):sum()
        loss:backward()
        opt:step()
        return loss
      end)
      local losses = {}
      for i = 1, 7 do losses[i] = step(heed.ones(3)):item() end
      local before = calls
      for i = 8, 12 do losses[i] = step(heed.ones(3)):item() end
      assert.equal(before, calls, kind)
      for i = 2, 12 do assert.is_true(losses[i] < losses[i - 1]) end
    end
  end)

  it("counts the steps of each parameter between replays", function()
    local function trained(wrap)
      local p, q = heed.nn.Parameter(heed.ones(2)), heed.nn.Parameter(heed.ones(2))
      local opt = heed.optim.Adam({p, q}, {lr = 0.1})
      local function step(x, both)
        opt:zero_grad()
        local loss = (p * p * x):sum()
        if both then loss = loss + (q * q * x):sum() end
        loss:backward()
        opt:step()
      end
      local alone = wrap(function(x) step(x, false) end)
      local of_q = wrap(function(x)              -- the first parameter has no gradient
        opt:zero_grad()
        local loss = (q * x):sum()
        loss:backward()
        opt:step()
      end)
      for i, name in ipairs{"both", "alone", "q", "both", "alone", "both", "alone", "both",
                            "q", "alone", "q", "q", "both"} do
        local x = heed.tensor{0.5 * i, 7.0 - i}
        if name == "both" then step(x, true) elseif name == "q" then of_q(x) else alone(x) end
      end
      return p:detach():totable(), q:detach():totable()
    end
    assert.same({trained(function(f) return f end)}, {trained(heed.capture)})
  end)

  it("sees betas that are set, and those that change within their list", function()
    local calls = 0
    same_as_eager(9, function(w, other)
      local opt = optim.Adam({w}, {lr = 0.1})
      local eager = stepping(w, opt)
      local step = other(function(x)
        calls = calls + 1
        return eager(x)
      end)
      return function(i)
        if i == 5 then opt.options.betas = {0.5, 0.999} end
        if i == 6 then opt.options.betas = {0.5, 0.75} end
        if i == 7 then opt.options.betas[1] = 0.25 end
        if i == 8 then opt.options.betas[2] = 0.5 end
        return step(ones(2, i / 10))
      end
    end)
    assert.is_true(calls < 9 + 4, calls)          -- all others were replayed
  end)

  it("sets the numbers of a captured step where they changed, and no others", function()
    local core = require "heed.core"
    local w, rates = heed.ones(3, {requires_grad = true}), {}
    local opt = optim.Adam({w}, {lr = 0.1})
    local step, set_step = heed.capture(stepping(w, opt)), core.capture_set_step
    function core.capture_set_step(work, which, numbers)
      rates[#rates + 1] = numbers.lr
      return set_step(work, which, numbers)
    end
    for i = 1, 8 do
      if i == 6 then opt.lr = 0.05 end
      step(ones(2, i / 10))
    end
    core.capture_set_step = set_step
    assert.same({0.05}, rates)
    assert.equal(8, opt:state().step:item())
  end)

  it("keeps calls apart by the number of their arguments", function()
    local f = heed.capture(function(...)
      local sum = 0
      for i = 1, select("#", ...) do
        local t = select(i, ...)
        sum = sum + (t ~= nil and t or 0)
      end
      return sum * 1, select("#", ...)
    end)
    local x, y = heed.tensor{1.0}, heed.tensor{2.0}
    for _ = 1, 3 do
      for n, wanted in ipairs{{1, 1, x}, {3, 2, x, y}, {1, 2, x, nil}, {3, 3, x, y, nil},
                              {3, 3, x, nil, y}} do
        local sum, count = f(table.unpack(wanted, 3, wanted[2] + 2))
        assert.same({wanted[1], wanted[2]}, {sum:item(), count}, n)
      end
    end
  end)

  -- A call with distinct tensors alone is compared with the latest recording before its kind is
  -- spelt out.
  it("finds the recording of plain tensors quickly", function()
    local f = heed.capture(function(x, y, n) return x + y * (n or 1) end)
    local function spelt(...)
      local n = 0
      debug.sethook(function()
        if debug.getinfo(2, "n").name == "read_call" then n = n + 1 end
      end, "c")
      f(...)
      debug.sethook()
      return n
    end
    local x, y = heed.ones(2), heed.ones(2)
    for _ = 1, 3 do f(x, y) end
    assert.equal(0, spelt(x, y))
    assert.equal(0, spelt(heed.zeros(2), x))
    assert.equal(1, spelt(x, x))
    assert.equal(1, spelt(x, y, 2))
    assert.equal(1, spelt(x, heed.ones(1)))
  end)

  it("keeps calls apart that are different", function()
    local f = heed.capture(function(x, k) return x + (type(k) == "table" and k.by or k) end)
    local function sum(...) return f(heed.zeros(1, {dtype = "float64"}), ...):item() end
    for _ = 1, 3 do
      for _, k in ipairs{0.3, 0.1 + 0.2, 3, 3.0} do assert.equal(k, sum(k)) end
    end
    local t = {}
    for i = 1, 4 do
      t.by = heed.tensor(i)
      assert.equal(i, sum(t))
      assert.equal(i + 0.5, sum{by = heed.tensor(i + 0.5)})
      assert.equal(i, sum{by = i})
    end
    local g = heed.capture(function(x, ...) return x + select("#", ...) end)
    for _ = 1, 3 do
      assert.equal(1, g(heed.zeros(1), "a; string b"):item())
      assert.equal(2, g(heed.zeros(1), "a", "b"):item())
    end
  end)

  it("changes its arguments, and gives results that may be released", function()
    same_as_eager(5, function(_, other)
      local x = heed.zeros(3)
      local f = other(function(a, b) a:add_(1) return a + b end)
      return function()
        local y <close> = f(x, x)
        return {x:totable(), y:totable()}
      end
    end)
    same_as_eager(5, function(w, other)           -- an argument that is trained
      local f = other(function(a) return (a * a):sum():backward() end)
      return function() f(w) end
    end)
  end)

  it("gives tensors that it did not make as they are now", function()
    local layer = nn.Linear(2, 2)
    local w = layer.weight
    local f = heed.capture(function(x) return x + 1, w, nil end)
    local g = heed.capture(function(x) return x + 1, w:detach(), nil end)
    for i = 1, 6 do
      if i == 3 then heed.no_grad(w.set_, w, heed.full({2, 2}, 3.0)) end
      if i == 5 then layer:to("float64") end
      for _, call in ipairs{f, g} do
        local _, t, none = call(heed.ones(2))
        assert.is_nil(none)
        assert.equal(w:data(), t:data())
        assert.equal(w.dtype, t.dtype)
      end
    end
  end)

  it("reads the CPU's tensors anew", function()
    same_as_eager(12, function(_, other)
      local scale = heed.tensor(1.0, {device = "cpu"})
      local f = other(function(x) return (x:to(heed.default_device()) * scale):sum() end)
      return function(i)
        if i % 3 == 0 then scale:fill_(i) end
        return f(heed.full({3}, i * 1.0, {device = "cpu"}))
      end
    end)
  end)

  it("moves an optimiser's memory with the parameters", function()
    local layer = nn.Linear(2, 2)
    local opt = optim.Adam(layer:parameters())
    layer(heed.ones(1, 2)):sum():backward()
    opt:step()
    layer:to("float64")
    assert.equal("float64", opt:state()["exp_avg.1"].dtype)
  end)

  it("refuses what reads a value back, and goes on without", function()
    local f = heed.capture(function(x) return x:sum():item() end)
    local x = heed.ones(3)
    assert.equal(3, f(x))
    assert.error_matches(function() f(x) end, "read back.*captured")
    assert.equal(3, x:sum():item())
  end)

  if heed.default_device() ~= "cpu" then
    it("has the memory that calls before it left", function()
      local f = heed.capture(function(x) return (x + 1 + x * 2 + (x - 3)):sum() end)
      local x = heed.ones(3 << 20)
      collectgarbage()
      heed.cuda.empty_cache()
      local now = heed.cuda.memory()
      heed.cuda.limit(now.live + now.cached + (96 << 20))
      for _ = 1, 3 do assert.equal(6 << 20, f(x):item()) end
      heed.cuda.limit(1 << 60)
    end)

    it("refuses to measure a time, and goes on without", function()
      local f = heed.capture(function(x)
        return select(2, heed.cuda.elapsed(function() return x + 1 end))
      end)
      local x = heed.ones(3)
      f(x)
      assert.error_matches(function() f(x) end, "elapsed: not while cuda:0 is captured")
      assert.is_true(heed.cuda.elapsed(function() return x + 1 end) >= 0)
    end)

    it("refuses what works on the CPU", function()
      local f = heed.capture(function(x)
        local y = heed.ones(2, {device = "cpu"}) + 1
        return x + 1, y
      end)
      local x = heed.ones(3)
      f(x)
      assert.error_matches(function() f(x) end, "works on cpu while the work of cuda:0 is captured")
      assert.equal(6, (x + 1):sum():item())
    end)
  end
end)
