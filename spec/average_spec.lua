-- Averages of weights, and the scaler of losses.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"


local function parameter(...)
  return nn.Parameter(heed.tensor{...})
end

local function set(p, value)
  heed.no_grad(p.fill_, p, value)
end


describe("an average of weights", function()
  it("follows its formula, with and without warmup", function()
    for _, warmup in ipairs{false, true} do
      local p = nn.Parameter(heed.full({3}, 1.0, {dtype = "float64"}))
      local ema, average = optim.EMA({p}, {decay = 0.9, warmup = warmup}), 1
      for n = 1, 100 do
        set(p, n % 5)
        ema:update()
        local decay = warmup and math.min(0.9, (1 + n) / (10 + n)) or 0.9
        average = decay * average + (1 - decay) * (n % 5)
        assert.is_true(close(ema:state()["average.1"][2], average, 0, 1e-12))
      end
      assert.equal(100, ema:state().updates:item())
    end
  end)

  it("stands in the weights while a function runs, and not behind it", function()
    local layer = nn.Linear(2, 1)
    local ema = optim.EMA(layer, {decay = 0.5})
    local before, changed = layer.weight:detach():clone(), heed.full({1, 2}, 4.0)
    heed.no_grad(layer.weight.copy_, layer.weight, changed)
    ema:update()
    local weight, more, none = ema:apply(function(a, b)
      assert.matches("apply has put the averages into them", message(ema.update, ema))
      return layer.weight:detach():clone(), a, b
    end, 7, nil)
    assert.is_true(weight:allclose((before + changed) / 2, {atol = 1e-6}))
    assert.same({7}, {more, none})
    assert.is_true(layer.weight:equal(changed))
    assert.matches("broken", message(ema.apply, ema, function() error("broken") end))
    assert.is_true(layer.weight:equal(changed))
    ema:update()
    assert.matches("^averages of 2 tensors, decay = 0.5, 2 updates$", tostring(ema))
  end)

  it("of a weight that was released leave the moves of other models alone", function()
    local layer, other = nn.Linear(2, 1), nn.Linear(2, 1)
    local opt, ema = optim.AdamW(layer:parameters()), optim.EMA(layer)
    layer.weight.grad = heed.ones(1, 2)
    opt:step()
    layer.weight:release()
    other:to("float64")
    assert.equal("float64", other.bias.dtype)
    assert.is_truthy(opt and ema)
  end)

  it("keeps 0.999 of itself at each update, from the first on", function()
    local ema = optim.EMA{parameter(1.0), parameter(2.0)}
    assert.same({decay = 0.999, warmup = false}, ema.options)
    local p = nn.Parameter(heed.ones(1, {dtype = "float64"}))
    for decay, wanted in pairs{[0] = 5, [1] = 1} do
      set(p, 1)
      local own = optim.EMA({p}, {decay = decay})
      set(p, 5)
      own:update()
      assert.same({wanted}, own:state()["average.1"]:totable())
    end
    assert.same({2}, ema:state()["average.2"]:totable())
  end)

  it("stands in the weights within another apply, until the outer one ends", function()
    local p = parameter(1.0)
    local ema = optim.EMA({p}, {decay = 0.5})
    set(p, 3)
    ema:update()
    ema:apply(function()
      ema:apply(function() assert.equal(2, p:item()) end)
      assert.equal(2, p:item())
      assert.matches("apply has put the averages into them", message(ema.update, ema))
    end)
    assert.equal(3, p:item())
    ema:update()
    assert.equal(2.5, ema:state()["average.1"]:item())
  end)

  it("leaves a capture of update what it was", function()
    local p, x, runs = parameter(1.0), heed.ones(1), 0
    local ema = optim.EMA({p}, {decay = 0.5})
    local f = heed.capture(function(y)
      runs = runs + 1
      ema:update()
      return y + p
    end)
    for _ = 1, 3 do f(x) end
    local before = runs
    ema:apply(function() end)
    f(x)
    assert.equal(before, runs)
  end)

  it("of halves is float32, and moves with the weights", function()
    local layer = nn.Linear(2, 1):to("bfloat16")
    local ema = optim.EMA(layer, {decay = 0.999})
    set(layer.weight, 1)
    ema:load_state((function()
      local state = ema:state()
      state["average.weight"] = heed.full({1, 2}, 0.5)
      return state
    end)())
    ema:update()
    assert.is_true(close(ema:state()["average.weight"]:sum():item(), 2 * 0.5005, 0, 1e-6))
    layer:to("float64")
    assert.equal("float64", ema:state()["average.weight"].dtype)
    ema:update()
    layer:to("float16")
    for _, average in ipairs{ema, optim.EMA(layer)} do
      assert.equal("float32", average:state()["average.weight"].dtype)
    end
  end)

  it("has a state, and refuses what does not fit", function()
    local layer = nn.Linear(2, 1)
    local ema = optim.EMA(layer)
    ema:update()
    local state, fresh = ema:state(), optim.EMA(nn.Linear(2, 1))
    fresh:load_state(state)
    assert.equal(1, fresh:state().updates:item())
    assert.equal(state["average.weight"]:data(), fresh:state()["average.weight"]:data())
    fresh:load_state(optim.EMA(layer):state())
    assert.equal(0, fresh:state().updates:item())
    state["average.bias"], state.other = heed.zeros(3), heed.zeros(1)
    local why = message(fresh.load_state, fresh, state)
    assert.matches("average.bias: float32 %(1%) expected, got float32 %(3%)", why)
    assert.matches("other: not expected", why)
    state = fresh:state()
    state.updates = nil
    assert.same({"updates: int64 () is missing"}, (fresh:compare(state)))
    assert.matches("updates: at least 0", table.concat(fresh:compare{
      updates = heed.tensor(-1), ["average.weight"] = heed.zeros(1, 2),
      ["average.bias"] = heed.zeros(1)}))
  end)

  it("leaves out weights in blocks, which nothing trains", function()
    local model = nn.Sequential{nn.Linear(64, 64), nn.Linear(64, 32, {bias = false})}
    model:quantize("q8_0")
    local ema = optim.EMA(model, {decay = 0.5})
    heed.no_grad(model[1].bias.add_, model[1].bias, 2)
    ema:update()
    local state, x = ema:state(), heed.randn(2, 64)
    assert.is_nil(state["average.1.weight"])
    assert.is_true((state["average.1.bias"] + 1):allclose(model[1].bias))
    assert.is_true(ema:apply(model, x):equal(model[2](heed.linear(x, model[1].weight,
                                                                 state["average.1.bias"]))))
    for _, given in ipairs{model[2], model[2]:parameters()} do
      assert.matches("optim.EMA: .*parameters expected", message(optim.EMA, given))
    end
  end)

  it("refuses blocks within apply, before anything changes, and gives copies for them", function()
    local model = nn.Sequential{nn.Linear(64, 64), nn.Linear(64, 33)}
    local ema = optim.EMA(model, {decay = 1})
    for _, p in ipairs(model:parameters()) do set(p, 7) end
    assert.matches("quantize: .* apply has put the averages into them; ema:apply%(m.clone, m%)",
                   message(ema.apply, ema, function() model[1]:quantize("q8_0") end))
    local left = coroutine.wrap(function() ema:apply(coroutine.yield) end)
    left()
    assert.matches("quantize: .* apply has put the averages",
                   message(model.quantize, model, "q8_0"))
    left()
    for _, p in ipairs(model:parameters()) do
      assert.is_true(p.requires_grad and p:equal(heed.full_like(p, 7)))
    end
    local copy = ema:apply(model.clone, model)
    copy:quantize("q8_0")
    assert.equal("q8_0", copy[1].weight.dtype)
    assert.is_true(copy[1].bias:equal(ema:state()["average.1.bias"]))
  end)

  it("lets a model have blocks that is put into eval mode meanwhile", function()
    local evaluating = require "heed.nn.evaluating"
    local model = nn.Linear(64, 64)
    evaluating("spec", model, function() model:quantize("q8_0") end)
    assert.equal("q8_0", model.weight.dtype)
  end)

  it("and optimisers leave out weights that become blocks later", function()
    local model, x = nn.Linear(64, 64), heed.randn(2, 64)
    local ema, opt = optim.EMA(model, {decay = 0.5}), optim.Adam(model:parameters())
    local function step()
      opt:zero_grad()
      model(x):square():sum():backward()
      opt:step()
      ema:update()
    end
    step()
    local ema_before, opt_before = ema:state(), opt:state()
    model:quantize("q4_0")
    nn.Linear(2, 2):to("float64")                            -- a move that all follow
    step()
    local weight = model.weight == opt.parameters[1] and 1 or 2
    local state, steps = ema:state(), opt:state()
    assert.same({nil, 2}, {state["average.weight"], state.updates:item()})
    assert.matches("^averages of 1 tensors", tostring(ema))
    assert.same({nil, 0, 2}, {steps["exp_avg." .. weight], steps.step[weight],
                              steps.step[3 - weight]})
    ema:apply(function() assert.is_true(model.bias:equal(state["average.bias"])) end)
    assert.is_false(model.bias:equal(state["average.bias"]))
    for _, other in ipairs{ema, optim.EMA(model)} do other:load_state(state) end
    for _, other in ipairs{opt, optim.Adam(model:parameters())} do
      other:load_state(steps)
      for name, t in pairs(steps) do assert.is_true(other:state()[name]:equal(t), name) end
    end
    step()
    assert.matches("average.weight: not expected", message(ema.load_state, ema, ema_before))
    assert.matches("exp_avg." .. weight .. ": not expected",
                   message(opt.load_state, opt, opt_before))
  end)

  it("makes lists of its weights once, until these or the averages are others", function()
    local model, x = nn.List{nn.Linear(1, 1), nn.Linear(1, 1)}, heed.ones(1)
    local ema = optim.EMA(model, {decay = 0.5})
    local function average() return ema:state()["average.1.bias"] end
    local function updated(value)
      set(model[1].bias, value)
      ema:update()
      return average():item()
    end
    ema:update()
    local lists = ema.lists
    ema:update()
    assert.is_true(rawequal(lists, ema.lists))
    local state = ema:state()
    state["average.1.bias"] = x * 2
    ema:load_state(state)
    assert.equal(3, updated(4))
    model:to("float64")
    assert.equal(4, updated(5))
    assert.equal("float64", average().dtype)
  end)

  it("leaves out what a program makes blocks of", function()
    local wide, bias = nn.Parameter(heed.ones(1, 32)), parameter(1.0)
    local ema = optim.EMA({wide, bias}, {decay = 0.5})
    ema:update()
    wide:requires_grad_(false):set_(wide:detach():to "q8_0")
    set(bias, 3)
    ema:update()
    assert.equal(2, ema:state()["average.2"]:item())
  end)

  it("refuses what it does not take", function()
    local p = parameter(1.0)
    assert.matches("optim.EMA: a list of tensors expected, .* got 3", message(optim.EMA, 3))
    assert.matches("a number from 0 to 1 expected as decay, got 2",
                   message(optim.EMA, {p}, {decay = 2}))
    assert.matches("did you mean 'decay'", message(optim.EMA, {p}, {dekay = 2}))
    assert.matches("every parameter once", message(optim.EMA, {p, p}))
    assert.matches("a module with parameters expected", message(optim.EMA, nn.ReLU()))
    local ema = optim.EMA{p}
    assert.matches("apply: averages expected .*; write ema:apply%(...%)", message(ema.apply, print))
    assert.matches("apply: a function expected as f, got 3", message(ema.apply, ema, 3))
    assert.matches("expected, got 5 as argument 1", message(ema.update, ema, 5))
  end)
end)


describe("a scaler of losses", function()
  local function with_gradient(value)
    local p = parameter(1.0, 2.0)
    p.grad = heed.tensor{value, 1.0}
    return p, optim.SGD({p}, {lr = 1})
  end

  it("scales losses, divides gradients once, and steps", function()
    local p = parameter(1.0, 2.0)
    local opt, scaler = optim.SGD({p}, {lr = 0.5}), optim.Scaler{init_scale = 8}
    local loss = (p * heed.tensor{1.0, 3.0}):sum()
    assert.equal(8 * 7, scaler:scale(loss):item())
    assert.equal("float32", scaler:scale(heed.tensor(1, {dtype = "float16"})).dtype)
    scaler:scale(loss):backward()
    assert.same({8, 24}, p.grad:totable())
    scaler:unscale_(opt)
    assert.same({1, 3}, p.grad:totable())
    assert.matches("unscale_: one call for each update", message(scaler.unscale_, scaler, opt))
    assert.is_true(scaler:step(opt))
    assert.same({0.5, 0.5}, p:detach():totable())
    assert.matches("step: one call for each update", message(scaler.step, scaler, opt))
    scaler:update()
    assert.matches("update: a step expected since the last update", message(scaler.update, scaler))
  end)

  it("leaves float64 as it is, and counts what each optimiser found until it is updated", function()
    local scaler = optim.Scaler{init_scale = 4}
    assert.equal("float64", scaler:scale(heed.tensor(1, {dtype = "float64"})).dtype)
    assert.equal("float32", scaler:scale(heed.tensor(1, {dtype = "bfloat16"})).dtype)
    for _, values in ipairs{{math.huge, 1}, {1, math.huge}} do
      local before = scaler:get_scale()
      for _, value in ipairs(values) do
        local _, opt = with_gradient(value)
        assert.equal(value == 1, scaler:step(opt))
      end
      scaler:update()
      assert.equal(before / 2, scaler:get_scale())
    end
    local p, opt = with_gradient(4.0)
    for _ = 1, 2 do
      p.grad = heed.ones(2)
      scaler:unscale_(opt)
      assert.is_true(scaler:step(opt))
      scaler:update()
    end
    assert.equal(2, scaler:state().growth_tracker:item())
    assert.equal("scaler of losses, scale = 1", tostring(scaler))
  end)

  it("grows beyond whole numbers, and may stay as it is", function()
    local _, opt = with_gradient(1.0)
    local scaler = optim.Scaler{init_scale = 1 << 62, growth_interval = 1}
    scaler:step(opt)
    scaler:update()
    assert.equal(2.0 ^ 63, scaler:get_scale())
    local still = optim.Scaler{init_scale = 2, growth_factor = 1, backoff_factor = 1,
                               growth_interval = 1}
    for _, value in ipairs{1.0, math.huge} do
      still:step(select(2, with_gradient(value)))
      still:update()
      assert.equal(2, still:get_scale())
    end
    assert.same({init_scale = 65536, growth_factor = 2, backoff_factor = 0.5,
                 growth_interval = 2000}, optim.Scaler().options)
    assert.equal(65536, optim.Scaler():get_scale())
  end)

  it("divides as a step of its own what unscale_ divides before one", function()
    local w, g = heed.randn(40, 3), heed.randn(40, 3)
    local function stepped(unscales)
      local p = nn.Parameter(w:clone())
      local opt, scaler = optim.Adam{p}, optim.Scaler{init_scale = 3}
      p.grad = g:clone()
      local held = p.grad
      if unscales then scaler:unscale_(opt) end
      assert.is_true(scaler:step(opt))
      assert.is_true(held:equal(p.grad))
      return {p:data(), p.grad:data(), opt:state()["exp_avg.1"]:data()}
    end
    local apart, together = stepped(true), stepped(false)
    for i = 1, 3 do assert.is_true(apart[i] == together[i], i) end
  end)

  it("leaves a step out where a gradient is not finite, and is halved", function()
    for _, value in ipairs{math.huge, -math.huge, 0 / 0} do
      local p, opt = with_gradient(value)
      local scaler = optim.Scaler{init_scale = 1024}
      assert.is_false(scaler:step(opt))
      assert.same({1, 2}, p:detach():totable())
      scaler:update()
      assert.equal(512, scaler:get_scale())
      assert.same({0}, opt:state().step:totable())
    end
  end)

  it("grows after enough good steps in a row", function()
    local scaler = optim.Scaler{init_scale = 4, growth_interval = 3, growth_factor = 3,
                                backoff_factor = 0.25}
    local scales = {}
    for i, value in ipairs{1, 1, math.huge, 1, 1, 1, 1, 1, 1} do
      local _, opt = with_gradient(value)
      scaler:step(opt)
      scaler:update()
      scales[i] = scaler:get_scale()
    end
    assert.same({4, 4, 1, 1, 1, 3, 3, 3, 9}, scales)
    local other = optim.Scaler()
    other:load_state(scaler:state())
    assert.equal(9, other:get_scale())
    assert.matches("scale: above 0 expected", message(other.load_state, other, {
      scale = heed.tensor(0, {dtype = "float64"}), growth_tracker = heed.tensor(0)}))
  end)

  it("lists all that is wrong with a state", function()
    local state = {scale = heed.tensor(-1, {dtype = "float64"}), growth_tracker = heed.tensor(-1)}
    assert.same({"scale: above 0 expected", "growth_tracker: at least 0 expected"},
                optim.Scaler():compare(state))
    state.scale = heed.tensor(2, {dtype = "float64"})
    assert.same({"growth_tracker: at least 0 expected"}, optim.Scaler():compare(state))
    assert.same({"growth_tracker: int64 () is missing"},
                optim.Scaler():compare{scale = heed.tensor(2, {dtype = "float64"})})
    state.scale = heed.tensor(math.huge, {dtype = "float64"})
    state.growth_tracker = heed.tensor(0)
    assert.same({"scale: above 0 expected"}, optim.Scaler():compare(state))
  end)

  it("refuses what makes no sense", function()
    assert.matches("did you mean 'init_scale'", message(optim.Scaler, {initscale = 1}))
    assert.matches("above 0 expected as init_scale, got 0", message(optim.Scaler, {init_scale = 0}))
    assert.matches("growth_factor of at least 1", message(optim.Scaler, {growth_factor = 0.5}))
    assert.matches("backoff_factor of at most 1 expected, got 2 and 3",
                   message(optim.Scaler, {backoff_factor = 3}))
    for _, name in ipairs{"init_scale", "growth_factor", "backoff_factor"} do
      assert.matches("optim.Scaler: a finite number above 0 expected as " .. name .. ", got inf",
                     message(optim.Scaler, {[name] = math.huge}))
    end
    assert.matches("at least 1 expected as growth_interval",
                   message(optim.Scaler, {growth_interval = 0}))
    local scaler = optim.Scaler()
    assert.matches("scale: a tensor expected as loss, got 3", message(scaler.scale, scaler, 3))
    assert.matches("step: an optimizer expected, got nil", message(scaler.step, scaler))
    local p = nn.Parameter(heed.ones(1, {dtype = "float16"}))
    p.grad = heed.ones(1, {dtype = "float16"})
    assert.matches("unscale_: gradients of float32 expected, got float16 for parameter 1",
                   message(scaler.step, scaler, optim.SGD{p}))
  end)
end)


describe("training", function()
  local function data(n)
    heed.manual_seed(3)
    local xs, ys, i = {}, {}, 0
    for k = 1, n do xs[k], ys[k] = heed.randn(8, 4), heed.randn(8, 2) end
    return function()
      i = i + 1
      return xs[i], ys[i]
    end
  end

  local function model_and(optimizer)
    heed.manual_seed(5)
    local model = nn.Sequential{nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)}
    return model, optimizer(model)
  end

  local function weights(model)
    local list = {}
    for i, p in ipairs(model:parameters()) do list[i] = p:detach():flatten() end
    return heed.cat(list)
  end

  local function sgd(m) return optim.SGD(m:parameters(), {lr = 0.1}) end

  it("averages the gradients of several batches, and drops those left over", function()
    local model, opt = model_and(sgd)
    local run = heed.train{model = model, optimizer = opt, loss = heed.mse_loss, batches = data(7),
                           accumulate = 3, print = false}
    local other, its = model_and(sgd)
    local batches, losses = data(7), {}
    for step = 1, 2 do
      local xs, ys = {}, {}
      for k = 1, 3 do xs[k], ys[k] = batches() end
      local loss = heed.mse_loss(other(heed.cat(xs)), heed.cat(ys))
      its:zero_grad()
      loss:backward()
      its:step()
      losses[step] = loss:item()
    end
    assert.equal(2, run.steps)
    assert.is_true(heed.tensor(run.losses):allclose(heed.tensor(losses)))
    assert.is_true(weights(model):allclose(weights(other), {atol = 1e-6}))
  end)

  it("multiplies each group's own rate, logs them, and gives them back", function()
    local model, opt = model_and(function(m)
      return optim.AdamW({{params = {m[1].weight}}, {params = {m[1].bias}, lr = 0.5}}, {lr = 0.1})
    end)
    local seen, path = {}, os.tmpname()
    heed.train{model = model, optimizer = opt, loss = heed.mse_loss, batches = data(3), clip = 1,
               schedule = function(step) return 1 / step end, print = false, log = path,
               on_step = function(step)
                 seen[step] = {opt.groups[1].lr, opt.groups[2].lr}
               end}
    assert.same({{0.1, 0.5}, {0.05, 0.25}, {0.1 / 3, 0.5 / 3}}, seen)
    assert.equal(0.1, opt.groups[1].lr)
    assert.equal(0.5, opt.groups[2].lr)
    local file = assert(io.open(path))
    assert.matches('"lr":%[0.1,0.5%]', file:read("l"))
    file:close()
    os.remove(path)
  end)

  it("runs in mixed precision, scaled in float16, and averages weights", function()
    local function train(options)
      local model, opt = model_and(sgd)
      for name, value in pairs{model = model, optimizer = opt, batches = data(20), print = false} do
        options[name] = value
      end
      local dtypes = {}
      options.loss = function(y, target)
        dtypes[y.dtype] = true
        return heed.mse_loss(y, target)
      end
      if options.average then options.average = optim.EMA(model, {decay = 0.5}) end
      return heed.train(options).losses, dtypes, options.average, model
    end
    local full = train{}
    for _, low in ipairs{"bfloat16", "float16"} do
      local losses, dtypes = train{autocast = low}
      assert.same({[low] = true}, dtypes)
      assert.is_true(heed.tensor(losses):allclose(heed.tensor(full), {rtol = 0.05}))
    end
    local scaler = optim.Scaler{init_scale = 2 ^ 40}
    train{autocast = "float16", scaler = scaler}
    assert.is_true(scaler:get_scale() < 2 ^ 40)
    local _, _, average, model = train{average = true}
    assert.equal(20, average:state().updates:item())
    local mean = average:apply(weights, model):clone()
    assert.is_false(mean:equal(weights(model)))
  end)

  it("leaves a scaler ready for the next run where a step fails", function()
    local model, opt = model_and(sgd)
    local scaler, batches = optim.Scaler(), data(9)
    local function run(options)
      for name, value in pairs{model = model, optimizer = opt, loss = heed.mse_loss, steps = 2,
                               batches = batches, scaler = scaler, autocast = "float16",
                               print = false} do
        options[name] = value
      end
      return heed.train(options)
    end
    local before, step = weights(model):clone(), scaler.step
    assert.matches("no rate", message(run, {schedule = function() error("no rate") end}))
    assert.matches("train: a number of at least 0 expected as clip, got %-1",
                   message(run, {clip = -1}))
    rawset(scaler, "step", function() error("interrupted") end)
    assert.matches("interrupted", message(run, {clip = 1}))
    rawset(scaler, "step", nil)
    assert.is_true(rawequal(scaler.step, step) and before:equal(weights(model)))
    assert.equal(2, run{clip = math.huge}.steps)
  end)

  it("clips gradients after they are divided by their scale", function()
    local ends = {}
    for i, scaler in ipairs{false, optim.Scaler{init_scale = 1024}} do
      local model, opt = model_and(sgd)
      heed.train{model = model, optimizer = opt, batches = data(6), loss = heed.mse_loss,
                 clip = 0.01, scaler = scaler or nil, print = false}
      ends[i] = weights(model)
    end
    assert.is_true(ends[1]:equal(ends[2]))
    assert.is_false(ends[1]:equal(weights(model_and(sgd))))
  end)

  it("goes on bit for bit, with all that has a state", function()
    local path = os.tmpname()
    os.remove(path)
    path = path .. ".safetensors"
    local function train(steps, checkpoint)
      local model, opt = model_and(function(m) return optim.AdamW(optim.split(m)) end)
      local average, scaler = optim.EMA(model), optim.Scaler{growth_interval = 3}
      local run = heed.train{
        model = model, optimizer = opt, average = average, scaler = scaler, autocast = "float16",
        accumulate = 2, batches = data(20), loss = heed.mse_loss, steps = steps, print = false,
        checkpoint = checkpoint and path, resume = checkpoint and true or false,
      }
      return run.losses, weights(model), average:state(), scaler:get_scale()
    end
    local losses, ends, averages, scale = train(8)
    train(5, true)
    local again, its_ends, its_averages, its_scale = train(8, true)
    assert.same(losses, again)
    assert.equal(ends:data(), its_ends:data())
    assert.equal(averages["average.1.weight"]:data(), its_averages["average.1.weight"]:data())
    assert.equal(scale, its_scale)
    local model, opt = model_and(function(m) return optim.AdamW(optim.split(m)) end)
    local why = message(heed.train, {model = model, optimizer = opt, batches = data(20), steps = 9,
                                     loss = heed.mse_loss, checkpoint = path, resume = true})
    assert.matches("average.updates: not expected", why)
    assert.matches("scaler.scale: not expected", why)
    os.remove(path)
  end)

  it("refuses options that make no sense", function()
    local function refused(name, value)
      local model, opt = model_and(sgd)
      return message(heed.train, {model = model, optimizer = opt, batches = data(1),
                                  loss = heed.mse_loss, [name] = value})
    end
    assert.matches("at least 1 expected as accumulate, got 0", refused("accumulate", 0))
    assert.matches("'bfloat16' or 'float16' expected as autocast, got the string 'half'",
                   refused("autocast", "half"))
    assert.matches("a scaler expected, such as optim.Scaler{}, got true", refused("scaler", true))
    assert.matches("averages expected, such as optim.EMA%(model%), got true",
                   refused("average", true))
  end)
end)
