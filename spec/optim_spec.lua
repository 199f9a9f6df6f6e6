-- Optimisers: PyTorch's paths, states, and what is refused.

local close = require "spec.support.close"
local heed = require "heed"
local golden = require "spec.golden"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

local KINDS <const> = {}
for line in io.lines("src/op/optimizers.def") do
  KINDS[#KINDS + 1] = line:match("^OPTIMIZER %(%u+, (%w+)")
end


local function parameter(...)
  return nn.Parameter(heed.tensor{...})
end


-- The same steps for any optimiser: sum(scale * (x - target)^2).
local function descend(x, opt, case)
  local loss = (golden.tensor(case.scale) * (x - golden.tensor(case.target)) ^ 2):sum()
  opt:zero_grad()
  loss:backward()
  opt:step()
end


local FACTORIES = {
  ["SGD lr 0.1"] = {"SGD", {lr = 0.1}},
  ["SGD lr 0.1 momentum 0.9"] = {"SGD", {lr = 0.1, momentum = 0.9}},
  ["SGD lr 0.1 momentum 0.9 nesterov weight_decay 0.01"] =
    {"SGD", {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01}},
  ["SGD lr 0.1 momentum 0.9 dampening 0.5"] =
    {"SGD", {lr = 0.1, momentum = 0.9, dampening = 0.5}},
  ["Adam lr 0.01"] = {"Adam", {lr = 0.01}},
  ["Adam lr 0.01 weight_decay 0.1"] = {"Adam", {lr = 0.01, weight_decay = 0.1}},
  ["Adam lr 0.01 amsgrad"] = {"Adam", {lr = 0.01, amsgrad = true}},
  ["AdamW lr 0.01 weight_decay 0.1 betas 0.8 0.95 eps 1e-6"] =
    {"AdamW", {lr = 0.01, weight_decay = 0.1, betas = {0.8, 0.95}, eps = 1e-6}},
}


describe("an optimiser", function()
  for _, case in ipairs(golden.read("optimisers")) do
    if case.path then
      it("follows PyTorch's path: " .. case.name, function()
        local name, o = table.unpack(FACTORIES[case.name])
        local x, path = nn.Parameter(golden.tensor(case.start)), {}
        local opt = optim[name]({x}, o)
        for i = 1, case.path.shape[1] do
          descend(x, opt, case)
          path[i] = x:detach():clone()
        end
        assert.is_nil(golden.difference(heed.stack(path), case.path, 2e-5, 1e-7))
      end)
    else
      it("has gradients that are clipped as PyTorch does: " .. case.name, function()
        local ps = {parameter(0.0), parameter(0.0, 0.0)}
        ps[1].grad, ps[2].grad = heed.tensor{3.0}, heed.tensor{4.0, 12.0}
        assert.equal(case.norm, optim.clip_grad_norm(ps, 5):item())
        local clipped = heed.cat{ps[1].grad, ps[2].grad}
        assert.is_nil(golden.difference(clipped, case.clipped, 2e-6))
      end)
    end
  end

  it("leaves a parameter without gradient as it is, and counts its steps apart", function()
    local a, b, alone = parameter(1.0), parameter(1.0), parameter(1.0)
    local both = optim.Adam({a, b}, {lr = 0.1})
    local other = optim.Adam({alone}, {lr = 0.1})
    for step = 1, 5 do
      a.grad = heed.tensor{0.5 * step}
      if step > 2 then b.grad, alone.grad = heed.tensor{1.0 * step}, heed.tensor{1.0 * step} end
      both:step()
      other:step()
      if step == 2 then assert.equal(1, b:item()) end
    end
    assert.is_true(b:equal(alone))
  end)

  -- Beside a parameter that has no gradient, each of the others is looked at.
  it("steps as far where all have gradients as where one has none", function()
    for _, kind in ipairs(KINDS) do
      local options = {lr = 0.1, momentum = kind == "SGD" and 0.9 or nil}
      local first, second = heed.randn(3), heed.randn(2, 2)
      local gradient = {heed.randn(3), heed.randn(2, 2)}
      local function run(...)
        local ps = {first:clone():requires_grad_(), second:clone():requires_grad_(), ...}
        local opt = heed.optim[kind](ps, options)
        for i = 1, 6 do
          for k = 1, 2 do ps[k].grad = (i ~= 3 or k ~= 2) and gradient[k] * i or nil end
          opt:step()
        end
        return ps, opt:state()
      end
      local alone, state = run()
      local beside, other = run(heed.ones(1):requires_grad_())
      for k = 1, 2 do assert.is_true(alone[k]:equal(beside[k]), kind) end
      assert.same({6, 5}, state.step:totable())
      assert.same({6, 5, 0}, other.step:totable())
    end
  end)

  -- Parameters that stand at the same step go on together, without their gradients in a list.
  it("steps as one where all stand alike, also of one parameter", function()
    for _, n in ipairs{1, 3} do
      local list = {}
      for i = 1, n do
        list[i] = parameter(1.0)
        list[i].grad = heed.ones(1)
      end
      local opt, apart = optim.Adam(list), 0
      opt:step()
      debug.sethook(function()
        if debug.getinfo(2, "n").name == "add_step" then apart = apart + 1 end
      end, "c")
      opt:step()
      debug.sethook()
      assert.equal(0, apart)
      assert.is_true(list[1]:item() < 0.9985)
    end
  end)

  it("says which parameter was released, and steps on without a gradient", function()
    local a, b = heed.ones(2):requires_grad_(), heed.ones(2):requires_grad_()
    local opt = heed.optim.Adam{a, b}
    for _ = 1, 2 do
      a.grad, b.grad = heed.ones(2), heed.ones(2)
      opt:step()
    end
    opt:zero_grad()
    local before = a:clone()
    opt:step()
    assert.is_true(before:equal(a))
    assert.same({2, 2}, opt:state().step:totable())
    a.grad = heed.ones(2)
    b:release()
    assert.error_matches(function() opt:step() end, "released")
    assert.is_true(before:equal(a))
  end)

  it("reads its rate at every step", function()
    local p = parameter(1.0)
    local opt = optim.SGD({p}, {lr = 1})
    p.grad = heed.tensor{1.0}
    opt.lr = 0.25
    opt:step()
    assert.equal(0.75, p:item())
  end)

  it("refuses numbers that are none, where they are set", function()
    local p = parameter(1.0)
    for _, kind in ipairs(KINDS) do
      local opt = optim[kind]({p}, {lr = 0.1})
      for _, lr in ipairs{"0.1", false, -1, 0 / 0, math.huge} do
        assert.matches("^[^:]*optim_spec.lua:%d+: optim." .. kind .. ": .* lr, got ",
                       message(function() opt.lr = lr end))
        assert.matches("as .*lr, got ", message(function() opt.options.lr = lr end))
      end
      assert.matches("a number expected as option weight_decay, got the string '0.1'",
                     message(function() opt.options.weight_decay = "0.1" end))
      assert.matches("at least 0 expected as weight_decay, got %-1",
                     message(function() opt.options.weight_decay = -1 end))
      assert.equal(0.1, opt.lr)
      opt.options.weight_decay = 0.5
      assert.equal(0.5, opt.options.weight_decay)
      opt.options.lr = 0.25
      assert.equal(0.25, opt.lr)
    end
  end)

  it("refuses fields that it does not have", function()
    local opt = optim.Adam{parameter(1.0)}
    assert.matches("^[^:]*optim_spec.lua:%d+: optim.Adam: there is no 'lrr'; did you mean 'lr'",
                   message(function() opt.lrr = 3 end))
    assert.matches("there is no 'stepp'; did you mean 'step'",
                   message(function() opt:stepp() end))
    assert.matches("there is no 'weight_decay'; write opt.options.weight_decay",
                   message(function() opt.weight_decay = 0 end))
    assert.matches("there is no 'nothing'; there are compare",
                   message(function() return opt.nothing end))
    assert.matches("unknown option 'lrr'", message(function() opt.options.lrr = 3 end))
    for _, name in ipairs{"options", "parameters", "groups"} do
      assert.matches("optim.Adam: '" .. name .. "' cannot be set; lr and the fields of opt.options",
                     message(function() opt[name] = {} end))
    end
    assert.matches("the name of a field expected, got 1", message(function() opt[1] = 2 end))
    assert.matches("optim.Adam: a field expected, got 'step', which is a method",
                   message(function() opt.step = print end))
    assert.matches("there is no 'param_groups'; write opt.groups",
                   message(function() return opt.param_groups end))
  end)

  it("refuses surplus arguments", function()
    local p = parameter(1.0)
    local opt = optim.Adam({p}, {})
    local function refused(most, ...)
      local wanted = most == 0 and "no argument" or most == 1 and "at most 1 argument"
                     or ("at most %d arguments"):format(most)
      assert.matches((": %s expected, got 5 as argument %d$"):format(wanted, most + 1),
                     message(...))
    end
    for _, make in ipairs{optim.SGD, optim.Adam, optim.AdamW, optim.Lion, optim.EMA} do
      refused(2, make, {p}, {}, 5)
    end
    refused(1, optim.split, nn.Linear(1, 1), 5)
    refused(1, optim.Scaler, {}, 5)
    refused(0, opt.step, opt, 5)
    refused(1, opt.zero_grad, opt, {}, 5)
    refused(0, opt.state, opt, 5)
    refused(1, opt.compare, opt, {}, 5)
    refused(1, opt.load_state, opt, opt:state(), 5)
    assert.matches("at most 1 argument expected, got 5 as argument 3$",
                   message(opt.load_state, opt, opt:state(), nil, 5))
    for _, make in ipairs{optim.cosine, optim.linear, optim.step} do
      refused(2, make, 5, {}, 5)
      refused(1, make(5), 1, 5)
    end
    refused(2, optim.warmup, 5, print, 5)
    refused(1, optim.warmup(5), 1, 5)
    local ema, scaler = optim.EMA{p}, optim.Scaler()
    for object, methods in pairs{
      [ema] = {compare = 1, load_state = 1, state = 0, update = 0},
      [scaler] = {compare = 1, get_scale = 0, load_state = 1, scale = 1, state = 0, step = 1,
                  unscale_ = 1, update = 0},
      [optim.plateau()] = {compare = 1, load_state = 1, state = 0, update = 1},
    } do
      for name, most in pairs(methods) do
        refused(most, object[name], object, table.unpack({{}, 5}, 2 - most))
      end
    end
    assert.matches("clip_grad_norm: at most 4 arguments expected, got 6 as argument 5",
                   message(optim.clip_grad_norm, {p}, 1, 2, {}, 6))
    assert.matches("a list expected, got one with the string 'bias' as a key",
                   message(optim.SGD, {p, bias = parameter(2.0)}))
  end)

  it("goes up when it maximises", function()
    for _, kind in ipairs(KINDS) do
      local p = parameter(1.0)
      p.grad = heed.tensor{1.0}
      optim[kind]({p}, {lr = 0.1, maximize = true, weight_decay = 0}):step()
      assert.is_true(p:item() > 1)
    end
  end)

  it("forgets gradients, or sets them to 0", function()
    local p = parameter(1.0, 2.0)
    local opt = optim.SGD{p}
    p.grad = heed.ones(2)
    opt:zero_grad({set_to_none = false})
    assert.equal(0, p.grad:sum():item())
    opt:zero_grad()
    assert.is_nil(p.grad)
    local q, g = parameter(1.0), heed.ones(1)
    opt = optim.SGD{p, q}
    q.grad = g
    opt:zero_grad({set_to_none = false})
    assert.is_nil(p.grad)
    assert.equal(0, g:item())                        -- in place
    opt:zero_grad({})
    assert.is_nil(q.grad)
  end)

  it("holds when its parameters are moved to another type", function()
    local layer = nn.Linear(2, 1)
    local opt = optim.Adam(layer:parameters())
    layer(heed.ones(1, 2)):sum():backward()
    opt:step()
    layer:to("float64")
    local before = layer.weight:detach():clone()
    layer(heed.ones(1, 2, {dtype = "float64"})):sum():backward()
    opt:step()
    assert.is_false(before:equal(layer.weight))
    assert.equal("float64", opt:state()["exp_avg.1"].dtype)
  end)

  it("lets parameters move on while the collector takes it, whose tensors go first", function()
    local function trained(m)
      local opt = optim.AdamW(m:parameters())
      m(heed.ones(1, 2)):sum():backward()
      opt:step()
      return opt
    end
    for _, make in ipairs{trained, optim.EMA} do
      local m, kept = nn.Linear(2, 2), nil
      do
        local box = setmetatable({}, {__gc = function(o) kept = o.held end})
        box.held = make(m)
      end
      collectgarbage()
      assert.matches("released", message(kept.state, kept))
      m:to("float64")
      assert.equal("float64", m.weight.dtype)
    end
  end)

  it("survives a scope that its steps are in", function()
    local layer = nn.Linear(2, 1)
    local opt = optim.Adam(layer:parameters())
    for _ = 1, 3 do
      heed.scope(function()
        opt:zero_grad()
        layer(heed.ones(1, 2)):sum():backward()
        opt:step()
      end)
    end
    assert.equal(3, opt:state().step[1])
  end)

  it("refuses what is no list of parameters", function()
    assert.matches("such as model:parameters%(%), got Linear", message(optim.Adam, nn.Linear(1, 1)))
    local model = nn.Sequential{nn.Linear(1, 1)}
    assert.matches("parameters%(%), got Sequential", message(optim.Adam, model))
    assert.matches("parameters%(%), got Sequential", message(optim.clip_grad_norm, model, 1))
    assert.matches("got an empty table", message(optim.SGD, {}))
    assert.matches("a tensor expected as parameter 1, got 3", message(optim.SGD, {3}))
    local p = parameter(1.0)
    local with_holes = {p, nil, parameter(2.0), nil}      -- biases, say, that are not there
    assert.matches("a tensor expected as parameter 2, got nil", message(optim.SGD, with_holes))
    assert.matches("a tensor expected as parameter 2, got nil",
                   message(optim.clip_grad_norm, with_holes, 1))
    assert.matches("every parameter once expected, got parameter 1 as 2",
                   message(optim.SGD, {p, p}))
  end)

  it("refuses what can never be trained", function()
    local p = parameter(1.0)
    for _, make in ipairs{optim.Adam, optim.AdamW, optim.Lion, optim.SGD} do
      assert.matches("that requires grad expected as parameter 2, got a tensor of shape %(1%)",
                     message(make, {p, heed.ones(1)}))
      assert.matches("a leaf expected as parameter 1, got a tensor of shape %(%) that was computed",
                     message(make, {p:sum() * 2}))
    end
    local frozen = nn.Parameter(heed.ones(1), {requires_grad = false})    -- may thaw
    local opt = optim.SGD({p, frozen}, {lr = 1})
    frozen:requires_grad_()
    frozen:sum():backward()
    opt:step()
    assert.equal(0, frozen:item())
  end)

  it("refuses options that make no sense", function()
    local list = {parameter(1.0)}
    assert.matches("at least 0 expected as lr, got %-1", message(optim.Adam, list, {lr = -1}))
    assert.matches("at least 0 expected as lr", message(optim.Adam, list, {lr = 0 / 0}))
    assert.matches("betas%[1%], got 1", message(optim.Adam, list, {betas = {1, 0.9}}))
    assert.matches("two numbers expected as betas, got 1",
                   message(optim.Adam, list, {betas = {0}}))
    assert.matches("betas%[2%], got true", message(optim.Adam, list, {betas = {0.9, true}}))
    assert.matches("betas, got 3", message(optim.Adam, list, {betas = {0.9, 0.9, 0.9}}))
    assert.matches("nesterov needs momentum", message(optim.SGD, list, {nesterov = true}))
    assert.matches("no dampening, got momentum 0.9 and dampening 0.5",
                   message(optim.SGD, list, {nesterov = true, momentum = 0.9, dampening = 0.5}))
    assert.matches("a finite number expected as dampening, got inf",
                   message(optim.SGD, list, {momentum = 0.9, dampening = math.huge}))
    assert.equal(-0.5, optim.SGD(list, {momentum = 0.9, dampening = -0.5}).options.dampening)
    assert.matches("optim.SGD: a value expected as lr, got nil",
                   message(function() optim.SGD(list).lr = nil end))
    assert.matches("did you mean 'momentum'", message(optim.SGD, list, {momentun = 0.9}))
    assert.matches("there are amsgrad, betas", message(optim.Adam, list, {step_length = 1}))
  end)

  it("counts on where an option that a state needs is set between steps", function()
    local function run(kind, first, at, later)
      local p = nn.Parameter(heed.tensor({1.0}, {dtype = "float64"}))
      local opt = optim[kind]({p}, first)
      for i = 1, 8 do
        if i == at then
          for name, value in pairs(later) do opt.options[name] = value end
          assert.equal(i - 1, opt:state().step:item())
        end
        p.grad = heed.ones(1, {dtype = "float64"})
        opt:step()
      end
      assert.equal(8, opt:state().step:item())
      return p:item()
    end
    local on, off = {lr = 0.1, amsgrad = true}, {lr = 0.1, amsgrad = false}
    for _, kind in ipairs{"Adam", "AdamW"} do
      local wanted = run(kind, on)
      assert.equal(wanted, run(kind, off, 6, {amsgrad = true}))
      assert.equal(wanted, run(kind, on, 6, {amsgrad = false}))
    end
    assert.is_true(close(run("Adam", on), 0.2, 0, 1e-6))
    run("SGD", {lr = 0.1, momentum = 0.9}, 6, {momentum = 0})
    run("SGD", {lr = 0.1}, 6, {momentum = 0.9})
  end)
end)


describe("a pair of an optimiser's options", function()
  local p = parameter(1.0)

  it("is its own, which entries that are written change at once", function()
    local betas = {0.9, 0.5}
    local first, second = optim.Adam({p}, {betas = betas}), optim.Adam({p}, {betas = betas})
    betas[1] = 0
    assert.same({0.9, 0.5}, first.options.betas)
    first.options.betas[2] = 0.75
    assert.same({0.9, 0.75}, first.groups[1].options.betas)
    assert.same({0.9, 0.5}, second.options.betas)
    betas = {0.25, 0.75}
    second.options.betas = betas
    betas[1] = 0.5
    assert.equal("0.25 0.75", table.concat(second.options.betas, " "))
    assert.same({0.25, 0.75}, {table.unpack(second.options.betas)})
    local copy = optim.Adam({p}, second.options)
    copy.options.betas[1] = 0.125
    assert.equal(0.25, second.options.betas[1])
    first.options.betas = second.groups[1].options.betas
    second.options.betas[2] = 0.5
    assert.same({0.25, 0.75}, first.options.betas)
    second.options.betas[2] = 0.75
    local entries = {}
    for i, value in pairs(second.options.betas) do entries[i] = value end
    assert.same({0.25, 0.75}, entries)
  end)

  it("reaches all groups, or one", function()
    local opt = optim.Adam{{params = {p}}, {params = {parameter(2.0)}}}
    opt.options.betas[1] = 0.5
    for _, group in ipairs(opt.groups) do assert.same({0.5, 0.999}, group.options.betas) end
    opt.groups[2].options.betas[1] = 0.25
    assert.same({0.5, 0.999}, opt.groups[1].options.betas)
    assert.matches("groups differ in betas; read opt.groups%[i%].options.betas",
                   message(function() opt.options.betas[1] = 0 end))
  end)

  it("refuses what makes no pair, and stays", function()
    local opt = optim.Adam({p}, {betas = {0.9, 0.5}})
    for _, case in ipairs{
      {1, nil, "a value expected as betas%[1%], got nil"},
      {2, "x", "a number expected as betas%[2%], got the string 'x'"},
      {1, 1.5, "from 0 to below 1 expected as betas%[1%], got 1.5"},
      {1, 0 / 0, "expected as betas%[1%], got %-?nan"},
      {3, 0.5, "betas has entries 1 and 2, got 3"},
      {"eps", 3, "betas has entries 1 and 2, got the string 'eps'"},
    } do
      assert.matches("^[^:]*optim_spec.lua:%d+: optim.Adam: .*" .. case[3],
                     message(function() opt.options.betas[case[1]] = case[2] end))
    end
    for _, case in ipairs{
      {{0.9, 0.99, eps = 3}, "two numbers expected as betas, got the string 'eps' as a key"},
      {{0.9, "x"}, "a number expected as betas%[2%], got the string 'x'"},
      {{[2] = 0.9}, "two numbers expected as betas, got 1"},
      {setmetatable({}, {__pairs = error, __index = error, __len = error}), "betas, got 0"},
      {{0.9, [3] = 0.9}, "a number expected as betas%[2%], got nil"},
    } do
      assert.matches(case[2], message(function() opt.options.betas = case[1] end))
      assert.matches(case[2], message(optim.Adam, {p}, {betas = case[1]}))
    end
    assert.same({0.9, 0.5}, opt.options.betas)
  end)

  it("stays where a script writes into the table that pairs walks", function()
    local opt = optim.Adam({p}, {betas = {0.9, 0.5}})
    for _, of in ipairs{opt.options, opt.groups[1].options, opt.options.betas} do
      local _, walked = pairs(of)
      for name in pairs(walked) do rawset(walked, name, "x") end
    end
    assert.same({0.9, 0.5}, opt.options.betas)
    assert.equal(1e-3, opt.lr)
  end)
end)


describe("an optimiser's state", function()
  local function run(opt, p, from, to)
    for step = from, to do
      p.grad = heed.tensor{1.0, -0.5} * step
      opt:step()
    end
  end

  for _, kind in ipairs(KINDS) do
    it("lets another one go on bit for bit: " .. kind, function()
      local given = {lr = 0.1, momentum = kind == "SGD" and 0.9 or nil}
      if kind:find("Adam") then given.amsgrad = true end
      local p = parameter(1.0, 2.0)
      local opt = optim[kind]({p}, given)
      run(opt, p, 1, 3)
      opt.lr = 0.05
      local q = nn.Parameter(p:detach():clone())
      local other = optim[kind]({q}, given)
      other:load_state(opt:state())
      assert.equal(0.05, other.lr)
      run(opt, p, 4, 6)
      run(other, q, 4, 6)
      assert.equal(p:data(), q:data())
    end)
  end

  it("lists all that does not fit, and loads nothing", function()
    local p = parameter(1.0, 2.0)
    local opt = optim.Adam{p}
    run(opt, p, 1, 2)
    local state = opt:state()
    state["exp_avg.1"], state.other = nil, heed.zeros(1)
    state["exp_avg_sq.1"] = heed.zeros(3)
    local fresh = optim.Adam{p}
    local e = message(fresh.load_state, fresh, state)
    assert.matches("exp_avg.1: float32 %(2%) is missing", e)
    assert.matches("exp_avg_sq.1: float32 %(2%) expected, got float32 %(3%)", e)
    assert.matches("other: not expected", e)
    assert.equal(0, fresh:state().step[1])
    assert.matches("step: int64 %(1%) is missing", message(fresh.load_state, fresh, {}))
    assert.same({"step: int64 (1) is missing"}, (fresh:compare{lr = state.lr}))
  end)

  it("is refused where its numbers make no sense", function()
    local p = parameter(1.0, 2.0)
    local opt = optim.Adam{p}
    run(opt, p, 1, 2)
    for name, value in pairs{lr = heed.tensor(-1.0, {dtype = "float64"}), step = heed.tensor{-3}} do
      local state = opt:state()
      state[name] = value
      local fresh = optim.Adam{p}
      assert.matches(name .. ": .*at least 0 expected, got %-",
                     message(fresh.load_state, fresh, state))
      assert.equal(1e-3, fresh.lr)
    end
    local state, fresh = opt:state(), optim.Adam{p}
    state.lr = heed.tensor(math.huge, {dtype = "float64"})
    assert.same({"lr: at least 0 expected, got inf"}, (fresh:compare(state)))
    state = optim.Adam({p}, {lr = 0}):state()        -- no step was made, at no rate
    assert.same({}, (fresh:compare(state)))
    opt:load_state(state)
    assert.equal(0, opt.lr)
    assert.same({0}, opt:state().step:totable())
    assert.is_nil(opt:state()["exp_avg.1"])
  end)

  it("has the states of parameters that did steps, and is refused with others", function()
    local p, q = parameter(1.0, 2.0), parameter(1.0)
    local opt = optim.Adam{p, q}
    run(opt, p, 1, 2)
    local state, names = opt:state(), {}
    for name in pairs(state) do names[#names + 1] = name end
    table.sort(names)
    assert.same({"exp_avg.1", "exp_avg_sq.1", "lr", "step"}, names)
    assert.same({2, 0}, state.step:totable())
    state["exp_avg.2"] = heed.zeros(1)
    assert.same({"exp_avg.2: not expected"}, (opt:compare(state)))
  end)

  it("says so where the same shapes come in another order", function()
    local p, q = parameter(1.0, 2.0), parameter(1.0)
    p.grad, q.grad = heed.ones(2), heed.ones(1)
    local opt, other = optim.Adam{p, q}, optim.Adam{q, p}
    opt:step()
    assert.matches("the same shapes .* another order.*from right to left",
                   message(other.load_state, other, opt:state()))
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
