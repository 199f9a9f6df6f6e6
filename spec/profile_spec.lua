-- heed.profile: what it counts, for which operation and which layer, and that it leaves no trace.

local close = require "spec.support.close"
local core = require "heed.core"
local heed = require "heed"
local message_of = require "spec.support.message"
local nn = heed.nn

local UNITS <const> = {s = 1, ms = 1e-3, us = 1e-6}

local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured

local function by_name(list)
  local found = {}
  for _, record in ipairs(list) do
    assert.is_nil(found[record.name], record.name)
    found[record.name] = record
  end
  return found
end

local function names(list)
  local found = {}
  for i, record in ipairs(list) do found[i] = record.name end
  table.sort(found)
  return found
end

local function sum(list, field)
  local total = 0
  for _, record in ipairs(list) do total = total + record[field] end
  return total
end

-- A model with layers in fields, in a list, in a closure and in none.
local Model = nn.Module:extend("Model")

function Model:init()
  self.first = nn.Linear(4, 8)
  self.layers = nn.List{nn.Linear(8, 8), nn.Sequential{nn.ReLU(), nn.Linear(8, 8)}}
  local hidden = nn.LayerNorm(8)
  self.norm = function(x) return hidden(x) end
end

function Model:forward(x)
  local y = self.first(x)
  for _, layer in ipairs(self.layers) do y = layer(y) end
  return self.norm(y):softmax(-1)
end


-- Bytes that are held when all garbage is gone.
local function held()
  collectgarbage()
  collectgarbage()
  local memory = heed.memory()
  return memory.live + memory.other
end


describe("heed.profile", function()
  it("returns what f returns, after the profile", function()
    local p, a, b, c = heed.profile(function(...) return select("#", ...), nil, ... end, 7)
    assert.equal("heed.Profile", getmetatable(p).__name)
    assert.same({1, nil, 7}, {a, b, c})
    assert.equal(1, select("#", heed.profile(function() end)))
  end)

  it("counts operations as messages name them, and the time between them", function()
    local x = heed.ones(100, 100)
    local p = heed.profile(function()
      for _ = 1, 3 do (x:matmul(x)):relu() end
      x:add_(1)
      heed.attention(x:view(1, 1, 100, 100), x:view(1, 1, 100, 100), x:view(1, 1, 100, 100),
                     {weights = true, mask = heed.mask.causal()})
    end)
    local found = by_name(p.operations)
    assert.same({"Lua", "add_", "attention", "matmul", "relu", "view"}, names(p.operations))
    assert.equal(3, found.matmul.calls)
    assert.equal(3, found.relu.calls)
    assert.equal(1, found.add_.calls)
    assert.equal(1, found.attention.calls)
    assert.equal(0, found.Lua.calls)
    assert.equal(3 * 40000, found.matmul.bytes)
    assert.equal(0, found.add_.bytes)
  end)

  it("adds up to the whole, the longest first", function()
    local x, clock = heed.randn(64, 64), os.clock()
    local p = heed.profile(function()
      for _ = 1, 200 do x:matmul(x):exp() end
    end)
    clock = os.clock() - clock
    assert.is_true(p.seconds > 0)
    assert.is_true(close(sum(p.operations, "seconds"), p.seconds, 0, 1e-9))
    assert.is_true(close(sum(p.operations, "share"), 1, 0, 1e-9))
    assert.equal(p.bytes, sum(p.operations, "bytes"))
    for i = 2, #p.operations do
      assert.is_true(p.operations[i - 1].seconds >= p.operations[i].seconds)
    end
    assert.is_true(p.operations[1].name ~= "Lua" or clock > 0)
  end)

  it("charges a slow stretch of Lua to Lua", function()
    local x = heed.ones(2)
    local p = heed.profile(function()
      x:relu()
      local stop = os.clock() + 0.05
      while os.clock() < stop do end
      x:relu()
    end)
    local found = by_name(p.operations)
    assert.is_true(found.Lua.seconds > 0.03)
    assert.is_true(found.relu.seconds < found.Lua.seconds)
  end)

  it("gives layers the paths that errors have, and what is within them", function()
    local model = Model()
    local p, y = heed.profile(model, heed.ones(2, 4))
    assert.same({2, 8}, {y:size()})
    assert.same({"LayerNorm(8)", "Model", "first", "layers.1", "layers.2", "layers.2.1",
                 "layers.2.2"}, names(p.layers))
    local found = by_name(p.layers)
    for _, record in pairs(found) do assert.equal(1, record.calls, record.name) end
    assert.equal("Linear(8, 8)", found["layers.2.2"].module)
    local whole, inner = found.Model, 0
    for name, record in pairs(found) do
      if name ~= "Model" then inner = inner + record.own end
    end
    assert.is_true(close(whole.seconds, whole.own + inner, 0, 1e-9))
    assert.is_true(found["layers.2"].seconds >= found["layers.2.2"].seconds)
    assert.equal(2 * 8 * 4, found.first.bytes)
    assert.is_true(whole.bytes > found.first.bytes)
    assert.equal(0, whole.backward)
  end)

  it("tells hundreds of layers apart", function()
    local list, x = {}, heed.ones(1, 2)
    for i = 1, 300 do list[i] = nn.Linear(2, 2) end
    local model = nn.Sequential(list)
    local p = heed.profile(function() for _ = 1, 3 do model(x) end end)
    local found = by_name(p.layers)
    for i = 1, 300 do
      assert.same({3, 3 * 8}, {found[tostring(i)].calls, found[tostring(i)].bytes})
    end
    assert.equal(301, #p.layers)
    assert.equal(900, by_name(p.operations).linear.calls)
  end)

  it("calls a layer by the field of its caller, though another way leads to it before", function()
    local Twice = nn.Module:extend "Twice"
    function Twice:init()
      self.first = nn.Sequential{nn.Linear(2, 2)}
      self.second = self.first[1]
    end
    function Twice:forward(x) return self.second(self.first(x)) end
    local p = heed.profile(Twice(), heed.ones(2))
    assert.same({"Twice", "first", "first.1", "second"}, names(p.layers))
  end)

  it("gives gradients to their operation and to the layer that recorded it", function()
    local model = Model()
    local opt = heed.optim.AdamW(model:parameters())
    local p = heed.profile(function()
      model(heed.ones(2, 4)):pow(2):sum():backward()
      opt:step()
    end)
    local found, layers = by_name(p.operations), by_name(p.layers)
    assert.equal(3, found["linear backward"].calls)
    assert.equal(1, found["softmax backward"].calls)
    assert.equal(1, found.backward.calls)
    assert.equal(1, found.AdamW.calls)
    for _, name in ipairs{"first", "layers.1", "layers.2.2", "LayerNorm(8)", "Model"} do
      assert.is_true(layers[name].backward > 0, name)
      assert.equal(1, layers[name].calls)
    end
    assert.is_true(layers.Model.backward > layers.first.backward)
    assert.is_true(layers.Model.backward < p.seconds)
    assert.is_true(found["linear backward"].bytes > 0)
  end)

  it("knows the layers of a graph that an earlier profile recorded", function()
    local model, y = nn.Sequential{nn.Linear(4, 4), nn.Linear(4, 1)}, nil
    heed.profile(function() y = model(heed.ones(1, 4)):sum() end)
    local p = heed.profile(function() y:backward() end)
    local layers = by_name(p.layers)
    assert.same({"1", "2", "Sequential"}, names(p.layers))
    assert.equal(0, layers["1"].calls)
    assert.equal(layers["1"].backward, layers["1"].seconds)
  end)

  it("counts what a function for a gradient, and a checkpoint, call", function()
    local layer = nn.Linear(4, 4)
    local p = heed.profile(function()
      local x = heed.ones(1, 4):requires_grad_()
      local y = heed.checkpoint(function(a) return layer(a):tanh() end, x)
      y:sum():backward()
    end)
    local found = by_name(p.operations)
    assert.equal(2, found.linear.calls)
    assert.equal(2, found.tanh.calls)
    assert.equal(1, found["tanh backward"].calls)
    assert.equal(2, by_name(p.layers)["Linear(4, 4)"].calls)
  end)

  it("names outermost layers where there are several", function()
    local one, other = nn.Sequential{nn.Linear(2, 2)}, Model()
    local p = heed.profile(function()
      one(heed.ones(2))
      other(heed.ones(1, 4))
    end)
    local found = by_name(p.layers)
    assert.is_truthy(found["Sequential.1"])
    assert.is_truthy(found["Model.layers.1"])
    assert.is_truthy(found.Model)
  end)

  it("measures memory: what was made, and the most at once", function()
    local before = held()
    local p = heed.profile(function()
      for _ = 1, 3 do
        heed.scope(function()
          local x = heed.zeros(1000, 1000, {device = "cpu"})
          x:relu()
        end)
      end
      heed.ones(10, {device = "cpu"})
    end)
    local found = by_name(p.operations)
    assert.equal(3 * 4000000, found.zeros.bytes)
    assert.equal(3 * 4000000, found.relu.bytes)
    assert.is_true(found.relu.peak >= before + 8000000)
    assert.is_true(found.relu.peak < before + 16000000)
    assert.is_true(found.ones.peak < found.relu.peak)
    assert.equal(found.relu.peak, p.peak)
    if heed.default_device() == "cpu" then           -- a GPU's tensors count in p.peak, too
      assert.is_true(heed.memory().peak >= p.peak)
    end
  end)

  it("counts an accelerator's tensors while they are held", function()
    if heed.default_device() == "cpu" then return pending "no accelerator is here" end
    local kept <const> = heed.zeros(1000, 1000)
    local before = held() + kept:numel() * 4
    local p = heed.profile(function()
      for _ = 1, 8 do
        heed.scope(function() heed.zeros(1000, 1000) end)
      end
    end)
    assert.is_true(p.peak >= before + 4000000)
    assert.is_true(p.peak < before + 12000000)
  end)

  it("gives the memory of its records back", function()
    local function other_after_some()
      for _ = 1, 5 do heed.profile(heed.zeros, 2) end
      collectgarbage()
      collectgarbage()
      return heed.memory().other
    end
    other_after_some()
    local before = other_after_some()
    assert.equal(before, other_after_some())
  end)

  it("gives it back at once where f fails", function()
    local x = heed.ones(2, {device = "cpu"})
    local function failing()
      x:mul_(1)
      error "no"
    end
    for _ = 1, 2 do collectgarbage() end
    pcall(heed.profile, failing)
    local before = heed.memory().other
    pcall(heed.profile, failing)
    assert.equal(before, heed.memory().other)
  end)

  it("follows layers into coroutines, and out of those that are suspended", function()
    local inner, outer = nn.Linear(2, 2), nn.Module:extend("Outer")
    local Waiting = nn.Module:extend("Waiting")
    function Waiting.forward(_, x)
      local y = x:exp()
      coroutine.yield()
      return y:tanh()
    end
    local waiting = Waiting()
    function outer.forward(_, x)
      local co = coroutine.wrap(function() return waiting(x) end)
      co()
      local y = x:relu()                 -- waiting is suspended
      return inner(y) + co()
    end
    local model = outer()
    local p = heed.profile(model, heed.ones(2))
    local found = by_name(p.layers)
    assert.same({"Linear(2, 2)", "Outer", "Waiting"}, names(p.layers))
    assert.equal(2 * 8, found.Waiting.bytes)
    assert.equal(8, found["Linear(2, 2)"].bytes)
    assert.equal(5 * 8, found.Outer.bytes)
    assert.equal(0, core.layer())
  end)

  it("forgets layers of coroutines that nobody resumes", function()
    local Waiting = nn.Module:extend("Waiting")
    function Waiting.forward(_, x)
      coroutine.yield()
      return x
    end
    local waiting, layer = Waiting(), nn.Linear(2, 2)
    local p = heed.profile(function()
      for _ = 1, 3 do
        for _ = 1, 5 do coroutine.wrap(function() waiting(1) end)() end
        collectgarbage()
        collectgarbage()
        layer(heed.ones(2))
        heed.zeros(100)
      end
    end)
    local found = by_name(p.layers)
    assert.equal(15, found.Waiting.calls)
    assert.equal(3, found["Linear(2, 2)"].calls)
    assert.equal(3 * 8, found["Linear(2, 2)"].bytes)
    assert.equal(0, found.Waiting.bytes)
    assert.equal(0, core.layer())
  end)

  it("takes none of Lua's memory for a call of a layer", function()
    local model, x, grown = nn.Sequential{nn.Identity(), nn.Identity()}, heed.ones(2), nil
    finally(function() collectgarbage "restart" end)
    heed.profile(function()
      for _ = 1, 2 do model(x) end
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      for _ = 1, 100 do model(x) end
      grown = collectgarbage "count" - before
    end)
    assert.is_true(grown < 8, ("%g KiB"):format(grown))
  end)

  it("finds the names of modules that came later, and of one that calls itself", function()
    local Deep = nn.Module:extend("Deep")
    function Deep.init(self) self.inner, self.later = nn.Linear(2, 2), false end
    function Deep.forward(self, x, depth)
      x = self.inner(x)
      if self.later then x = self.later(x) end
      return depth > 0 and self(x, depth - 1) or x
    end
    local deep = Deep()
    assert.same({"Deep", "inner"}, names(heed.profile(deep, heed.ones(2), 0).layers))
    deep.later = nn.Sequential{nn.Tanh()}
    local p = heed.profile(deep, heed.ones(2), 2)
    assert.same({"Deep", "inner", "later", "later.1"}, names(p.layers))
    local found = by_name(p.layers)
    assert.same({3, 3, 3}, {found.Deep.calls, found.inner.calls, found["later.1"].calls})
  end)

  it("knows the layers of a program that had none before it", function()
    local command = ("LUA_PATH='%s' LUA_CPATH='%s' %s -e '%s' 2>&1"):format(
      package.path, package.cpath, os.getenv "LUA" or "lua5.4", [[
        local heed = require "heed"
        local p = heed.profile(function() return heed.nn.Tanh()(heed.ones(2)) end)
        print(#p.layers, p.layers[1] and p.layers[1].name)]])
    local pipe <close> = assert(io.popen(command))
    assert.equal("1\tTanh\n", pipe:read "a")
  end)

  if_fused("has the operations and layers of captured steps", function()
    local device = heed.default_device()
    finally(function() heed.default_device(device) end)
    heed.default_device "cpu"                        -- whose works are measured one by one
    local model = Model()
    local opt = heed.optim.SGD(model:parameters())
    local step = heed.capture(function(x)
      opt:zero_grad()
      local loss = model(x):pow(2):mean()
      loss:backward()
      opt:step()
      return loss
    end)
    local x = heed.ones(2, 4, {device = "cpu"})
    for _ = 1, 3 do step(x) end
    local p = heed.profile(step, x)
    local found, layers = by_name(p.operations), by_name(p.layers)
    assert.is_true(found.linear.calls >= 3)
    assert.is_true(found["linear backward"].calls >= 3)
    assert.is_truthy(found.SGD)
    assert.same({"LayerNorm(8)", "Model", "first", "layers.1", "layers.2", "layers.2.1",
                 "layers.2.2"}, names(p.layers))
    assert.equal(0, layers.first.calls)
    assert.is_true(layers.first.backward > 0)
    assert.is_true(layers.first.seconds > layers.first.backward)
  end)

  it("ends with an error of f, which is raised as it is", function()
    local layer, thrown = nn.Linear(2, 2), {}
    local Failing = nn.Module:extend("Failing")
    function Failing.forward() error(thrown) end
    local failing = Failing()
    local good, why = pcall(heed.profile, function()
      layer(heed.ones(2))
      failing()
    end)
    assert.is_false(good)
    assert.equal(thrown, why)
    assert.equal(0, core.layer())
    assert.matches("linear: ", message_of(heed.profile, layer, heed.ones(3)))
    local p = heed.profile(function()
      pcall(failing)
      heed.zeros(2)
    end)
    assert.equal(8, p.bytes)
    assert.equal(0, by_name(p.layers).Failing.bytes)
    assert.is_true(by_name(p.layers).Failing.seconds < p.seconds)
  end)

  it("costs modules nothing when it is off", function()
    local hooks = require "heed.nn.hooks"
    local meta = getmetatable(hooks.of)
    local seen
    heed.profile(function() seen = meta.__index end)
    assert.is_function(seen)
    assert.equal(hooks.made, meta.__index)
    pcall(heed.profile, error)
    assert.equal(hooks.made, meta.__index)
    heed.profile(function() pcall(heed.profile, error) end)
    assert.equal(hooks.made, meta.__index)
    assert.matches("nowhere", message_of(core.capture_record, "nowhere", {}, error, error, error))
    assert.equal(hooks.made, meta.__index)
  end)

  it("leaves hooks of modules at work", function()
    local layer, seen = nn.Linear(2, 2), 0
    local hook = layer:register_forward_hook(function() seen = seen + 1 end)
    local p = heed.profile(layer, heed.ones(2))
    assert.equal(1, seen)
    assert.equal(1, by_name(p.layers)["Linear(2, 2)"].calls)
    hook:remove()
    layer(heed.ones(2))
    assert.equal(1, seen)
  end)

  if_fused("still sees layers behind what was captured within it", function()
    local model, x = Model():eval(), heed.ones(2, 4)
    local first = heed.capture(function(t) return model.first(t) end)
    local p = heed.no_grad(heed.profile, function()
      for _ = 1, 3 do first(x) end
      model(x)
    end)
    local found = by_name(p.layers)
    for _, name in ipairs{"Model", "Model.layers.1", "Model.layers.2.2"} do
      assert.equal(1, found[name] and found[name].calls, name)
    end
  end)

  it("refuses a second one, a captured one, a yield and what is no function", function()
    local none = function() end
    assert.matches("profile: another profile runs already",
                   message_of(heed.profile, function() heed.profile(none) end))
    assert.matches("profile: a function expected as f, got 1", message_of(heed.profile, 1))
    assert.matches("f may not yield while it is profiled",
                   message_of(coroutine.wrap(function()
                     heed.profile(function() coroutine.yield() end)
                   end)))
    local step = heed.capture(function(x)
      heed.profile(none)
      return x + 1
    end)
    local x = heed.ones(2, {device = "cpu"})
    step(x)
    assert.matches("profile: work is captured", message_of(step, x))
    assert.equal(0, heed.profile(none).bytes)
  end)

  it("has a picture of the longest", function()
    local p = heed.profile(nn.Sequential{nn.Linear(2, 2)}, heed.ones(2))
    local text = tostring(p:plot())
    assert.is_truthy(text:find("Lua", 1, true) and text:find("linear", 1, true))
    text = tostring(p:plot("layers"))
    assert.is_truthy(text:find("Sequential", 1, true) and text:find("ms", 1, true))
    assert.is_nil(text:find("Lua", 1, true))
    assert.matches("plot: 'operations' or 'layers' expected, got the string 'x'",
                   message_of(p.plot, p, "x"))
    local none = heed.profile(function() end)
    assert.matches("plot: there are no layers", message_of(none.plot, none, "layers"))
    assert.matches("write p:plot", message_of(p.plot))
    assert.matches("plot: at most 2 arguments expected, got 3", message_of(p.plot, p, nil, 1, 3))
    assert.matches("text: at most 1 argument expected, got 2", message_of(p.text, p, 1, 2))
  end)

  it("prints and draws as many as are asked for", function()
    local x = heed.ones(2, 4)
    local p = heed.profile(function()
      for _, name in ipairs{"relu", "exp", "abs", "neg", "sign", "floor", "ceil"} do x[name](x) end
    end)
    local _, all = p:text(100):gsub("\n", "")
    local _, few = p:text(2):gsub("\n", "")
    assert.equal(#p.operations - 2, all - few + 1)
    assert.matches("and " .. #p.operations - 2 .. " more", p:text(2))
    assert.equal(tostring(p), p:text(20))
    local function bars(...) return p:plot(...).lines[1][1].x.count end
    assert.equal(5, bars())
    assert.equal(7, bars("operations", 7))
    assert.matches("plot: .*the number of bars", message_of(function() p:plot(nil, 0) end))
    assert.matches("text: .*the number of rows", message_of(function() p:text "all" end))
  end)

  it("prints rows as wide as the longest name, with bars of at most 20 letters", function()
    local p = heed.profile(function() end)
    local list, seconds = p.operations, {2.5, 0.0125, 0.001, 0.0009994, 1e-7}
    for i = 1, 22 do
      list[i] = {name = ("é"):rep(i == 3 and 12 or 1) .. i, calls = 10 * i,
                 seconds = seconds[i] or 0, share = 0.5 / i, bytes = 1000 * i, peak = 5 * i}
    end
    p.seconds, p.bytes, p.peak = 1, 1025, 3
    local wanted = [[
1.00 s, 1.0 KiB made, peak 3 bytes

operation         calls        time    share       bytes        peak
é1                   10      2.50 s   50.0 %  1000 bytes     5 bytes  ####################
é2                   20    12.50 ms   25.0 %     2.0 KiB    10 bytes  ##########
éééééééééééé3        30     1.00 ms   16.7 %     2.9 KiB    15 bytes  #######
é4                   40    999.4 us   12.5 %     3.9 KiB    20 bytes  #####
é5                   50      0.1 us   10.0 %     4.9 KiB    25 bytes  ####
and 17 more]]
    assert.equal(wanted, p:text(5))
    local _, lines = tostring(p):gsub("\n", "")
    assert.equal(3 + 20, lines)
    assert.matches("\né20 +200 .*\nand 2 more$", tostring(p))
    assert.equal(tostring(p):gsub("\nand 2 more", "", 1), (p:text(22):gsub("\né21.*", "")))
    p.layers[1] = {name = "x", calls = 1, seconds = 0.25, share = 0, bytes = 1, peak = 0}
    assert.matches([[

and 21 more

layer     calls        time    share       bytes        peak
x             1   250.00 ms    0.0 %      1 byte     0 bytes]], p:text(1), 1, true)
    assert.equal([[
           é1|*******************   2500
           é2|*                     12.5
éééééééééééé3|*                        1
           é4|*                   0.9994
           é5|*                   0.0001
             +-------------------
              0      ms      2500]], p:plot():text(false, 40))
  end)

  it("prints bytes in units of 1024", function()
    for n, text in pairs{[0] = "0 bytes", [1] = "1 byte", [2] = "2 bytes", [1023] = "1023 bytes",
                         [1024] = "1.0 KiB", [1536] = "1.5 KiB", [1 << 20] = "1.0 MiB",
                         [1000 << 10] = "1000.0 KiB", [64 << 20] = "64.0 MiB"} do
      local p = heed.profile(heed.zeros, n, {dtype = "bool"})
      assert.matches(", " .. text .. " made", p:text(), 1, true)
    end
  end)

  it("prints tables", function()
    local p = heed.profile(Model(), heed.ones(2, 4))
    local text = tostring(p)
    for _, r in ipairs(p.operations) do
      local row = ("\n%s +%d +([%%d.]+) (%%a+) +%.1f %%%% "):format(r.name, r.calls, 100 * r.share)
      local n, unit = text:match(row)
      assert.is_string(n, row)
      assert.is_true(close(n * UNITS[unit], r.seconds, 0, 0.051 * UNITS[unit]), row)
    end
    for _, line in ipairs{"operation +calls +time +share +bytes +peak", "\nlinear  +3 ",
                          "\nlayer  +calls", "\nlayers%.2%.2 +1 ", "\n%S+ .*%% .*#+"} do
      assert.matches(line, text)
    end
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 100, line) end
    assert.matches("there is no 'time'; there are bytes, layers, operations, peak, plot, seconds",
                   message_of(function() return heed.profile(print).time end))
    assert.matches("Profile: there is no 'operation'", message_of(function()
      return heed.profile(function() end).operation
    end))
  end)
end)
