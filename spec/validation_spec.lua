-- heed.train with validations: early stopping, best weights, the program's own state, epochs, and
-- the progress bar beside what callbacks print.

local close = require "spec.support.close"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"
local validated_run = require "spec.validated_run"
local Validation = require "heed.train.validation"

local path, best

before_each(function()
  path = os.tmpname()
  os.remove(path)
  best = path .. ".best"
end)

after_each(function()
  os.remove(path)
  os.remove(best)
  os.remove(path .. ".log")
end)

local function contents(name)
  local file <close> = assert(io.open(name, "rb"))
  return file:read("a")
end

local function options(more)
  local model = nn.Linear(3, 1)
  local o = {
    model = model, loss = heed.mse_loss, optimizer = optim.SGD(model:parameters(), {lr = 0.1}),
    batches = function() return heed.ones(2, 3), heed.zeros(2, 1) end, steps = 20, print = false,
  }
  for name, value in pairs(more or {}) do o[name] = value end
  return o
end

-- A function that gives these losses in turn.
local function losses_of(list)
  local n = 0
  return function()
    n = n + 1
    return list[n]
  end
end


describe("a run with validations", function()
  it("validates in the types that it trains in", function()
    for _, low in ipairs{false, "bfloat16"} do
      local seen = {}
      heed.train(options{
        autocast = low or nil, steps = 2,
        validate = {every = 1, steps = 1, batches = function()
          return heed.ones(2, 3), heed.zeros(2, 1)
        end, loss = function(y, target)
          seen[y.dtype] = true
          return heed.mse_loss(y, target)
        end},
      })
      assert.same({[low or "float32"] = true}, seen)
    end
  end)

  -- Runs it in another process, which finds the module as this one does.
  local function run_apart(o)
    local call = ("require'spec.validated_run'{checkpoint=%q,kill=%d,log=%q,resume=%s}")
      :format(path, o.kill, path .. ".log", o.resume or false)
    local function quoted(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
    return os.execute(("LUA_PATH=%s LUA_CPATH=%s %s -e %s"):format(
      quoted(package.path), quoted(package.cpath), os.getenv("LUA") or "lua5.4", quoted(call)))
  end

  it("that was killed ends bit for bit as the whole one", function()
    local whole_path = path .. "whole"
    local model, run, state, schedule = validated_run{checkpoint = whole_path,
                                                      log = whole_path .. ".log"}
    local generator = heed.rng_state():data()
    assert.equal("patience", run.ended)
    assert.is_true(run.steps > 40 and run.steps < 400, run.steps)
    local last = run.steps
    for _, o in ipairs{{kill = 27}, {kill = 38, resume = true}, {kill = last - 1, resume = true}} do
      local _, how, signal = run_apart(o)
      assert.is_true(how == "signal" or signal == 137)
    end
    local other, again, own, its_schedule =
      validated_run{checkpoint = path, log = path .. ".log", resume = true}
    assert.same(run.losses, again.losses)
    assert.same(run.validation, again.validation)
    assert.same({run.steps, run.ended, run.best.step, run.best.loss},
                {again.steps, again.ended, again.best.step, again.best.loss})
    assert.equal(generator, heed.rng_state():data())
    for name, t in pairs(model:state()) do
      assert.equal(t:data(), other:state()[name]:data(), name)
    end
    for name, t in pairs(schedule:state()) do
      assert.equal(t:item(), its_schedule:state()[name]:item(), name)
    end
    assert.is_true(schedule(1) < 1)
    assert.equal(contents(whole_path .. ".best"), contents(best))
    assert.equal(contents(whole_path .. ".log"), contents(path .. ".log"))
    assert.equal(contents(whole_path), contents(path))
    assert.same({state.seen, state.least, state.list[1], state.name},
                {own.seen, own.least, own.list[1], own.name})
    assert.equal(state.drawn:item(), own.drawn:item())
    assert.equal(run.steps, own.seen)
    other, again = validated_run{checkpoint = path, log = path .. ".log", resume = true}
    assert.same({last, "patience"}, {again.steps, again.ended})
    assert.is_true(other[1].weight:equal(model[1].weight))
    for _, name in ipairs{"", ".best", ".log"} do os.remove(whole_path .. name) end
  end)

  it("stops after so many that are no better, and keeps the best weights", function()
    local weights, lines = {}, {}
    local o = options{
      validate = {loss = losses_of{3, 2, 5, 1, 1, 0 / 0, 4, 9}, every = 2}, patience = 3,
      keep = "best", checkpoint = path, print = function(line) lines[#lines + 1] = line end,
    }
    o.on_step = function(step) weights[step] = o.model.weight:detach():clone() end
    local run = heed.train(o)
    assert.same({14, "patience"}, {run.steps, run.ended})
    assert.same({2, 4, 6, 8, 10, 12, 14}, run.validation.steps)
    assert.same({step = 8, loss = 1, path = best}, run.best)
    local tensors, metadata = assert(heed.load(best))
    assert.is_true(tensors.weight:equal(weights[8]))
    assert.same({"8", 1}, {metadata.step, tonumber(metadata.loss)})
    nn.Linear(3, 1):load_state(tensors)
    assert.matches("^step 2/20  loss %S+  validation 3.0000  lr 0.1  %S+ steps/s", lines[1])
    assert.equal("ended after step 14: 3 validations in a row were no better than that of step 8, "
                 .. "1.0000", lines[#lines])
  end)

  it("has no best one where no loss is a number, and stops after so many of them", function()
    local run = heed.train(options{validate = {loss = losses_of{0 / 0, 0 / 0, 0 / 0}, every = 2},
                                   patience = 2})
    assert.same({4, "patience"}, {run.steps, run.ended})
    assert.is_nil(run.best)
    assert.equal(2, #run.validation.losses)
  end)

  it("computes the mean of batches by their rows, in eval mode and without gradients", function()
    local model, seen = nn.Sequential{nn.Dropout(0.5), nn.Linear(3, 1)}, {}
    local x, y = heed.randn(7, 3), heed.randn(7, 1)
    local run = heed.train(options{
      model = model, optimizer = optim.SGD(model:parameters(), {lr = 0}), steps = 4,
      validate = {batches = heed.data.batches(x, y, {size = 3, shuffle = false}), every = 2,
                  loss = function(p, wanted)
                    seen[#seen + 1] = {model.training, model[1].training, p.requires_grad}
                    return heed.mse_loss(p, wanted)
                  end},
      on_step = function() assert(model.training and model[1].training) end,
    })
    assert.same({false, false, false}, seen[1])
    assert.equal(6, #seen)
    local all = heed.mse_loss(model:eval()(x), y):item()
    assert.is_true(close(run.validation.losses[1], all, 1e-5))
    assert.equal(run.validation.losses[1], run.validation.losses[2])
    local first = heed.train(options{steps = 2, validate = {
      batches = function() return x:narrow(1, 1, 2), y:narrow(1, 1, 2) end, every = 1, steps = 3,
    }})
    assert.equal(2, #first.validation.losses)
  end)

  it("writes them into the log", function()
    local o = options{validate = {loss = losses_of{0.5, 0 / 0}, every = 2}, steps = 4,
                      log = path .. ".log"}
    heed.train(o)
    local entries = {}
    for line in io.lines(path .. ".log") do entries[#entries + 1] = json.decode(line) end
    assert.is_nil(entries[1].validation)
    assert.equal(0.5, entries[2].validation)
    assert.equal(json.null, entries[4].validation)
  end)

  it("leaves modes and files as they were where one fails", function()
    local o = options{validate = {loss = function(step)
      if step == 4 then error("stop", 0) end
      return 1
    end, every = 2}, keep = "best", checkpoint = path, every = 2}
    assert.equal("stop", message(heed.train, o))
    assert.is_true(o.model.training)
    local _, metadata = assert(heed.load(path))
    assert.equal("2", metadata.step)
    os.remove(best)
    assert(os.execute(("mkdir '%s'"):format(best)))
    o = options{validate = function() return 1 end, keep = "best", checkpoint = path, steps = 100}
    assert.matches("train: the best weights cannot be written: ", message(heed.train, o))
    _, metadata = assert(heed.load(path))
    assert.equal("2", metadata.step)
    o.resume = true
    assert.matches("train: the best weights cannot be read: ", message(heed.train, o))
  end)

  it("refuses what it cannot work with", function()
    local function said(more) return message(heed.train, options(more)) end
    assert.matches("option patience is about validations", said{patience = 3})
    assert.matches("option keep is about validations", said{keep = "best"})
    local v = function() return 1 end
    assert.matches("'best' expected as keep, got true",
                   said{validate = v, keep = true, checkpoint = path})
    assert.matches("keep needs a checkpoint", said{validate = v, keep = "best"})
    for _, own in ipairs{"run", "run.safetensors"} do
      local log = own:gsub("^run", "run.best")
      assert.matches("train: log and the best weights are one file, " .. log,
                     said{validate = v, keep = "best", checkpoint = own, log = log}, 1, true)
    end
    assert.matches("as patience, got 0", said{validate = v, patience = 0})
    assert.matches("as every of validate, got 0", said{validate = {loss = v, every = 0}})
    assert.matches("a function expected as loss of validate, got nil", said{validate = {}})
    assert.matches("a function expected as batches of validate, got 3",
                   said{validate = {batches = 3}})
    assert.matches("steps of validate count its batches", said{validate = {loss = v, steps = 2}})
    assert.matches("did you mean 'every'", said{validate = {loss = v, evry = 2}})
    assert.matches("a number expected from validate, got nil",
                   said{validate = {loss = function() end, every = 1}})
    assert.matches("the validation of step 1 has no batch",
                   said{validate = {batches = function() end, every = 1}})
    assert.matches("validate expected beside a schedule of plateaus",
                   said{schedule = optim.plateau()})
  end)
end)


describe("what a checkpoint has of validations", function()
  local function new() return Validation.new{model = nn.Linear(1, 1), validate = print} end
  local steps, losses = heed.tensor{2, 4}, heed.tensor({0.5, 0.25}, {dtype = "float64"})

  it("is counted again; nothing of it is none", function()
    local v = new()
    assert.is_true(v:load(new():state()))
    assert.same({}, v.steps)
    assert.is_true(v:load{steps = steps, losses = losses})
    assert.same({{2, 4}, {0.5, 0.25}, 0.25, 4, 0},
                {v.steps, v.losses, v.best, v.best_step, v.bad})
    local again = new()
    assert.is_true(again:load(v:state()))
    assert.same({v.steps, v.losses}, {again.steps, again.losses})
  end)

  it("is refused where it is damaged", function()
    for _, state in ipairs{
      {steps = steps}, {losses = losses}, {steps = steps, losses = losses:narrow(1, 1, 1)},
      {steps = steps:double(), losses = losses}, {steps = steps, losses = losses:float()},
      {steps = steps:view(2, 1), losses = losses}, {steps = steps, losses = losses:view(2, 1)},
      {steps = steps, losses = 3}, {other = steps},
    } do
      local v = new()
      assert.is_false(v:load(state))
      assert.same({}, v.steps)
    end
  end)
end)


describe("the program's own state", function()
  it("comes back, in the same tables", function()
    local inner = {n = 1}
    local given = {
      inner = inner, [3] = "three", ["3"] = 3, inf = math.huge, nan = 0 / 0, int = 2, float = 2.0,
      tiny = 5e-324, yes = true, no = false, bytes = "a\xff\0", t = heed.tensor{1.5, 2}, none = {},
    }
    local function train(steps, resume)
      return heed.train(options{state = given, checkpoint = path, steps = steps, resume = resume})
    end
    train(2)
    inner.n, inner.more, given[3], given.t, given.added = 2, 3, nil, nil, "x"
    given.int, given.float, given.inf = 0, 0, 0
    train(2, true)
    assert.is_true(rawequal(given.inner, inner))
    assert.same({n = 1}, inner)
    assert.same({1.5, 2}, given.t:totable())
    assert.is_true(given.nan ~= given.nan)
    given.t, given.nan = nil, nil
    assert.same({inner = {n = 1}, [3] = "three", ["3"] = 3, inf = math.huge, int = 2, float = 2.0,
                 tiny = 5e-324, yes = true, no = false, bytes = "a\xff\0", none = {}}, given)
    assert.same({"integer", "float"}, {math.type(given.int), math.type(given.float)})
  end)

  it("is refused where it cannot be saved, and where the checkpoint differs", function()
    local function said(state, more)
      local o = options{state = state, checkpoint = path, steps = 1}
      for name, value in pairs(more or {}) do o[name] = value end
      return message(heed.train, o)
    end
    assert.matches("a table expected as option state, got 3", said(3))
    assert.matches("got a function as state.a.b", said{a = {b = print}})
    assert.matches("got 1.5 as a key of state", said{[1.5] = 1})
    local circle = {}
    circle.own = circle
    assert.matches("nested too deep, or in a circle", said(circle))
    assert.matches("a table expected as option state, got", said(setmetatable({}, {})))
    assert.matches("option state is for checkpoints",
                   message(heed.train, options{state = {}}))
    heed.train(options{checkpoint = path, steps = 1})
    assert.matches("the checkpoint has no state of the program, but option state is given",
                   said({}, {resume = true}))
    heed.train(options{checkpoint = path, steps = 1, state = {}})
    assert.matches("has a state of the program, but option state is missing",
                   said(nil, {resume = true}))
  end)
end)


describe("epochs", function()
  it("begin again where steps are given, and the batches can", function()
    local x, y = heed.randn(6, 3), heed.randn(6, 1)
    local function batches() return heed.data.batches(x, y, {size = 2}) end
    local run = heed.train(options{batches = batches(), steps = 10})
    assert.same({10, "steps"}, {run.steps, run.ended})
    run = heed.train(options{batches = batches(), steps = 5, accumulate = 2})
    assert.equal(5, run.steps)
    local o = options{batches = batches()}
    o.steps = nil
    run = heed.train(o)
    assert.same({3, "batches"}, {run.steps, run.ended})
  end)

  it("that cannot begin again end the run, which says so", function()
    local n, lines = 0, {}
    local run = heed.train(options{
      batches = function()
        n = n + 1
        if n <= 3 then return heed.ones(2, 3), heed.zeros(2, 1) end
      end,
      print = function(line) lines[#lines + 1] = line end,
    })
    assert.same({3, "batches"}, {run.steps, run.ended})
    assert.equal("the batches ended after step 3 of 20", lines[#lines])
  end)
end)


describe("the progress bar", function()
  -- The lines of a terminal after a text: \r goes back, \27[K wipes the rest.
  local function screen(text)
    local lines, at = {""}, 0
    for part in (text:gsub("\27%[K", "\1")):gmatch(".") do
      local line = lines[#lines]
      if part == "\n" then lines[#lines + 1], at = "", 0
      elseif part == "\r" then at = 0
      elseif part == "\1" then lines[#lines] = line:sub(1, at)
      else lines[#lines], at = line:sub(1, at) .. part .. line:sub(at + 2), at + 1 end
    end
    return lines
  end

  it("stands below what callbacks print", function()
    local written, stdout, isatty = {}, io.stdout, heed.isatty
    local function write(...) written[#written + 1] = table.concat{...} end
    rawset(io, "stdout", {write = function(_, ...) write(...) end, flush = function() end})
    heed.isatty = function() return true end
    local o = options{on_step = function(step) write("step " .. step .. " is done\n") end}
    o.print = nil
    local good, why = pcall(heed.train, o)
    rawset(io, "stdout", stdout)
    heed.isatty = isatty
    assert(good, why)
    local text = table.concat(written)
    local lines, _, bars = screen(text), text:gsub("is done\n\r%[", "")
    assert.equal(20, bars)                     -- it stands again behind each step
    for step = 1, 20 do assert.equal(("step %d is done"):format(step), lines[step]) end
    assert.matches("^%[#+%]  step 20/20  loss %S+  lr 0.1  %S+ steps/s  %S+ samples/s$", lines[21])
    assert.same({"", 22}, {lines[22], #lines})
  end)
end)
