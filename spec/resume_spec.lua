-- heed.train going on from a checkpoint: what it takes over, and what it refuses while all stays as
-- it was.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

local path, model

before_each(function()
  path = os.tmpname()
  os.remove(path)
  model = nn.Linear(3, 1)
end)

after_each(function()
  for _, behind in ipairs{"", ".best", ".log"} do os.remove(path .. behind) end
end)


local function batches() return heed.ones(2, 3), heed.zeros(2, 1) end

-- A run that goes on from the checkpoint, if there is one; its optimiser, the rates of its steps.
local function train(changes)
  local rates = {}
  local o = {
    model = model, loss = heed.mse_loss, batches = batches, steps = 4, every = 2, print = false,
    optimizer = optim.SGD(model:parameters(), {lr = 0.1}), checkpoint = path, resume = true,
  }
  o.on_step = function() rates[#rates + 1] = o.optimizer.lr end
  for name, value in pairs(changes or {}) do o[name] = value end
  return heed.train(o), o.optimizer, rates
end

-- Validations that give these losses by their steps, after which a run dies at one.
local function validations(losses, death)
  return function(step)
    if step == death then error "killed" end
    return losses[step]
  end
end

local function validated(losses, changes, death)
  local o = {keep = "best", validate = {every = 1, loss = validations(losses, death)}}
  for name, value in pairs(changes or {}) do o[name] = value end
  return train(o)
end

local function best_file()
  local _, metadata = heed.load(path .. ".best")
  return tonumber(metadata.step)
end


describe("the best weights of a run that resumes", function()
  local FALLING <const> = {5, 4, 3, 2, 1, 9, 9, 9}

  it("are named as those in their file, which a killed run has written last", function()
    local function killed() return validated(FALLING, {steps = 8, every = 4}, 6) end
    assert.matches("killed", message(killed))
    assert.equal(5, best_file())
    local run = validated({[5] = 7, [6] = 8}, {steps = 6})
    assert.same({step = 5, loss = 1, path = path .. ".best"}, run.best)
    assert.equal(5, best_file())
  end)

  it("are those of a run that never stopped, if it computes the same", function()
    assert.matches("killed", message(validated, FALLING, {steps = 8, every = 4}, 6))
    local run = validated(FALLING, {steps = 8})
    assert.same({5, 5, 1}, {run.best.step, best_file(), run.best.loss})
    run = validated({[9] = 0.5}, {steps = 9})
    assert.same({9, 9, 0.5}, {run.best.step, best_file(), run.best.loss})
  end)

  it("are refused if they are of another run", function()
    validated(FALLING)
    local text = "has the weights of step %d, whose loss was %s, but the best validation of the "
                 .. "checkpoint is that of step 4, with 2"
    for _, case in ipairs{{3, "2"}, {4, "2.5"}, {5, "2"}, {5, "2.5"}} do
      local weights = {format = "heed.train best 1", step = tostring(case[1]), loss = case[2]}
      assert(heed.save(path .. ".best", model:state(), weights))
      assert.matches(text:format(case[1], case[2]), message(validated, FALLING, {steps = 5}), 1,
                     true)
    end
    for _, name in ipairs{"step", "loss"} do
      local weights = {format = "heed.train best 1", step = "4", loss = "2", [name] = "x"}
      assert(heed.save(path .. ".best", model:state(), weights))
      assert.matches("no best weights of heed.train", message(validated, FALLING, {steps = 5}))
    end
  end)

  it("are not forgotten by a run without validations", function()
    validated{5, 1, 3, 3}
    assert.matches("the checkpoint has losses of validations, but option validate is missing",
                   message(train, {steps = 6}))
    assert.equal(2, validated({[5] = 3, [6] = 3}, {steps = 6}).best.step)
  end)
end)


describe("the rates of a run that resumes", function()
  local function half() return 0.5 end

  it("are those of the checkpoint, without the factor of its schedule", function()
    train{schedule = half}
    local optimizer = optim.SGD(model:parameters(), {lr = 0.7})
    local _, _, rates = train{steps = 6, schedule = half, optimizer = optimizer}
    assert.equal(0.1, optimizer.lr)
    optimizer.lr = 0.7
    train{steps = 8, schedule = half, optimizer = optimizer,
          on_step = function() rates[#rates + 1] = optimizer.lr end}
    assert.same({0.05, 0.05, 0.05, 0.05}, rates)
    optimizer.lr = 0.7
    train{steps = 9, optimizer = optimizer}
    assert.equal(0.1, optimizer.lr)
  end)

  it("are those of each group", function()
    local function groups(one, other)
      return optim.SGD{{params = {model.weight}, lr = one}, {params = {model.bias}, lr = other}}
    end
    local function none() end
    train{optimizer = groups(0.1, 0.2), schedule = half, on_step = none}
    local optimizer = groups(1, 1)
    train{optimizer = optimizer, schedule = half, steps = 5, on_step = none}
    assert.same({0.1, 0.2}, {optimizer.groups[1].lr, optimizer.groups[2].lr})
  end)

  it("are those that on_step has set, so that it ends as one without a break", function()
    local function run(steps)
      heed.manual_seed(1)
      model = nn.Linear(3, 1)
      local groups = {{params = {model.weight}}, {params = {model.bias}, lr = 0.2}}
      local optimizer = optim.SGD(groups, {lr = 0.1})
      local given = {optimizer = optimizer, steps = steps, every = 100}
      function given.batches() return heed.randn(4, 3), heed.ones(4, 1) end
      function given.on_step(step)
        if step == 2 then optimizer.groups[1].lr = 0.01 end
        if step == 6 then optimizer.groups[2].lr = 0.02 end
      end
      train(given)
      return {model.weight:data(), model.bias:data(), optimizer.groups[1].lr,
              optimizer.groups[2].lr}
    end
    local whole = run(8)
    assert.same({0.01, 0.02}, {whole[3], whole[4]})
    os.remove(path)
    run(4)
    assert.same(whole, run(8))
  end)

  it("are the optimiser's own where an older checkpoint has none", function()
    train()
    local tensors, metadata = heed.load(path)
    tensors.rates, metadata.batches = nil, nil
    assert(heed.save(path, tensors, metadata))
    local optimizer = optim.SGD(model:parameters(), {lr = 0.7})
    train{optimizer = optimizer, steps = 5}
    assert.equal(0.1, optimizer.lr)              -- as its state has it
  end)
end)


describe("options of groups, in a run that resumes,", function()
  -- A run with an optimiser of two groups that on_step changes.
  local function run(make, change, steps, o)
    heed.manual_seed(1)
    model = nn.Linear(3, 1)
    local optimizer = make({{params = {model.weight}}, {params = {model.bias}}}, o)
    train{
      optimizer = optimizer, steps = steps, every = 100, on_step = change(optimizer),
      batches = function() return heed.randn(4, 3), heed.ones(4, 1) end,
    }
    return {model.weight:data(), model.bias:data()}, optimizer
  end

  local function change_adam(optimizer)
    return function(step)
      if step == 2 then optimizer.groups[1].options.weight_decay = 0.5 end
      if step == 3 then optimizer.options.betas[1] = 0.5 end
      if step == 6 then optimizer.groups[2].options.maximize = true end
    end
  end

  local function change_sgd(optimizer)
    local options = optimizer.options
    return function(step)
      if step == 2 then options.nesterov = false end
      if step == 3 then options.dampening = 0.5 end
    end
  end

  it("are the optimiser's, whatever a program has put into its list of groups", function()
    local function change(optimizer)
      return function(step)
        if step == 2 then optimizer.groups[3] = {} end
        if step == 4 then optimizer.groups[2] = nil end
      end
    end
    assert.is_table(run(optim.SGD, change, 5, {lr = 0.1}))
  end)

  it("are those that on_step has set, so that it ends as one without a break", function()
    local sgd = {lr = 0.1, momentum = 0.9, nesterov = true}
    for change, given in pairs{[change_adam] = {optim.AdamW, {lr = 0.1}},
                               [change_sgd] = {optim.SGD, sgd}} do
      local make, o = table.unpack(given)
      os.remove(path)
      local whole = run(make, change, 9, o)
      os.remove(path)
      run(make, change, 4, o)
      run(make, change, 7, o)
      assert.same(whole, (run(make, change, 9, o)))
    end
  end)

  it("are the program's where the run did not change them", function()
    run(optim.AdamW, change_adam, 4)
    local _, optimizer = run(optim.AdamW, change_adam, 5, {eps = 0.25, weight_decay = 0.75})
    local first, second = optimizer.groups[1].options, optimizer.groups[2].options
    assert.same({0.25, 0.5, 0.75}, {second.eps, first.weight_decay, second.weight_decay})
  end)

  it("are refused where they do not fit, while all stays as it was", function()
    run(optim.AdamW, change_adam, 4)
    local tensors, metadata = heed.load(path)
    assert.equal(0.5, tensors["options.1.weight_decay"]:item())
    assert.is_nil(tensors["options.2.weight_decay"] or tensors["options.1.lr"])
    for key, case in pairs{
      ["options.1.weight_decay"] = {heed.tensor(-1.0), "weight_decay"},
      ["options.2.betas"] = {heed.ones(3), "two numbers expected as betas, got 3"},
      ["options.2.maximize"] = {heed.tensor(1.0), "a boolean expected as option maximize"},
      ["options.2.momentum"] = {heed.tensor(1.0), "unknown option 'momentum'"},
      ["options.3.eps"] = {heed.tensor(1.0), "options of other groups of parameters"},
      ["options.x"] = {heed.tensor(1.0), "options of other groups of parameters"},
    } do
      local damaged = {[key] = case[1]}
      for name, t in pairs(tensors) do damaged[name] = damaged[name] or t end
      assert(heed.save(path, damaged, metadata))
      local weight
      local function make(...)
        weight = model.weight:data()
        return optim.AdamW(...)
      end
      assert.matches(case[2], message(run, make, change_adam, 5), 1, true)
      assert.equal(weight, model.weight:data())
    end
  end)
end)


describe("parameters of a loss, in a run that resumes,", function()
  -- A run whose optimiser has a number of the loss, and that number.
  local function run(steps, size)
    heed.manual_seed(1)
    model = nn.Linear(3, 1)
    local w = nn.Parameter(heed.zeros(size or 1))
    train{
      steps = steps, every = 100, optimizer = optim.Adam({w, model.weight}, {lr = 0.1}),
      batches = function() return heed.randn(4, 3), heed.ones(4, 1) end,
      loss = function(y, wanted)
        return heed.mse_loss(y, wanted) * (-w):exp():sum() + w:sum()
      end,
    }
    return {model.weight:data(), w:data()}
  end

  it("are what they were, as its weights", function()
    local whole = run(8)
    os.remove(path)
    run(4)
    assert.same(whole, run(8))
    assert.matches("\n  parameters.1: float32 %(2%) expected, got float32 %(1%)",
                   message(run, 9, 2))
    local tensors, metadata = heed.load(path)
    assert.equal(whole[2], tensors["parameters.1"]:data())
    assert.is_nil(tensors["parameters.2"])
    tensors["parameters.1"] = nil
    assert(heed.save(path, tensors, metadata))
    assert.matches("\n  parameters.1: float32 %(1%) is missing", message(run, 9))
  end)

  it("are not saved where they are not finite", function()
    local w = nn.Parameter(heed.zeros(1))
    assert.matches("train: after step 2 the parameter 1 of the optimizer is not finite; no "
                   .. "checkpoint of this run was written", message(train, {
      optimizer = optim.SGD({w, model.weight}, {lr = 0.1}),
      on_step = function() heed.no_grad(w.fill_, w, math.huge) end,
    }))
  end)
end)


describe("a plateau", function()
  it("begins with a warm-up of its own, and is refused behind another", function()
    local plateau = optim.plateau{warmup = 4, patience = 0, factor = 0.5}
    assert.same({0.25, 0.75, 1, 1}, {plateau(1), plateau(3), plateau(4), plateau(5)})
    plateau:update(1)
    plateau:update(1)
    assert.same({0.25, 0.5}, {plateau(2), plateau(9)})
    assert.matches("optim.warmup: a plateau learns losses, which would not reach it here; "
                   .. "optim.plateau{warmup = 3} begins so itself",
                   message(optim.warmup, 3, plateau), 1, true)
    assert.matches("option warmup", message(optim.plateau, {warmup = -1}))
  end)
end)


describe("batches of a run that resumes", function()
  it("go on behind those that it took, though it takes others for a step", function()
    local n = 0
    local function numbered()
      n = n + 1
      return heed.ones(2, 3), heed.zeros(2, 1) + n
    end
    train{batches = numbered, accumulate = 3}
    assert.equal(12, n)
    n = 0
    train{batches = numbered, steps = 5}
    assert.equal(13, n)
    n = 0
    train{batches = numbered, steps = 6, accumulate = 2}
    assert.equal(15, n)
  end)

  -- Batches with a state, of which a call of load_state fails.
  local function stateful(fails)
    local at = {n = 0}
    return setmetatable({
      at = at,
      state = function() return {n = heed.tensor(at.n)} end,
      load_state = function(_, state)
        assert(not fails, "no such batches")
        at.n = state.n:item()
      end,
    }, {__call = function()
      at.n = at.n + 1
      return batches()
    end})
  end

  it("that fail leave those of validations and the generators as they were", function()
    local function one() return {batches = stateful(), every = 1, steps = 1} end
    train{batches = stateful(), validate = one()}
    local validate = one()
    assert.matches("no such batches", message(train, {
      batches = stateful(true), validate = validate, steps = 6}))
    assert.equal(0, validate.batches.at.n)
    os.remove(path)
    train()
    model = nn.Linear(3, 1)
    local generator, weight = heed.rng_state():data(), model.weight:data()
    assert.matches("no batch", message(train, {steps = 6, batches = function()
      heed.rand(3)
      error "no batch"
    end}))
    assert.same({generator, weight}, {heed.rng_state():data(), model.weight:data()})
  end)
end)


describe("the log of a run that resumes", function()
  it("is read before anything changes", function()
    train()
    model = nn.Linear(3, 1)
    local file <close> = assert(io.open(path .. ".log", "w"))
    file:write "hello\n"
    file:close()
    heed.rand(1)
    local weight, generator = model.weight:data(), heed.rng_state():data()
    assert.matches("is no log: its lines are no JSON",
                   message(train, {steps = 6, log = path .. ".log"}))
    assert.same({weight, generator}, {model.weight:data(), heed.rng_state():data()})
  end)

  it("keeps its lines where the run cannot go on", function()
    train{log = path .. ".log"}
    local function fail() error "no batch" end
    assert.matches("no batch", message(train, {steps = 6, log = path .. ".log", batches = fail}))
    local n = 0
    for _ in io.lines(path .. ".log") do n = n + 1 end
    assert.equal(4, n)
  end)
end)


describe("a validation", function()
  it("that fails leaves the generators as they were", function()
    local function broken() error(heed.rand(1) and "broken") end
    local generator
    assert.matches("broken", message(train, {
      checkpoint = nil, resume = false, every = nil,
      validate = {batches = broken, every = 1},
      loss = function(y)
        generator = heed.rng_state():data()
        return (y * y):mean()
      end,
    }))
    assert.equal(generator, heed.rng_state():data())
  end)
end)


describe("training", function()
  it("switches all parts to training mode, which on_step may change", function()
    local dropout = nn.Dropout(0.5)
    model = nn.Sequential{nn.Linear(3, 1), dropout}
    model:eval()
    local modes = {}
    train{on_step = function()
      modes[#modes + 1] = dropout.training
      dropout:eval()
    end, validate = function() return 1 end}
    assert.same({true, false, false, false}, modes)
    assert.is_true(model.training)
  end)
end)
