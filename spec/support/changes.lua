-- Calls that change state, as spec/atomic_spec.lua and spec/c/lua_memory.c break them off.
--
-- Each case has a name and a function that makes something anew, always the same: it returns the
-- call, and what the call may change, as a table of functions, tensors and tables of these; `text`
-- puts that into words.

local heed = require "heed"
local nn, optim, tasks = heed.nn, heed.optim, heed.tasks

local changes = {cases = {}}


local function digest(value)
  if heed.is_tensor(value) then
    local bytes = value:detach():to("cpu"):contiguous():data()
    return ("%s %s %s %s"):format(value.dtype, value.device, value.shape, bytes)
  elseif type(value) == "function" then
    return digest(value())
  elseif type(value) ~= "table" then
    return tostring(value)
  end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = tostring(key) .. " = " .. digest(value[key]) end
  return "{" .. table.concat(parts, "\n") .. "}"
end


---All that a state holds, as text; a state that cannot be read is unlike any other.
function changes.text(state)
  local good, text = pcall(digest, state)
  return good and text or "wrong: " .. tostring(text)
end


---A case's states before and after the whole call.
function changes.whole(case)
  case.make()()                    -- what is made once is made now
  local call, state = case.make()
  local before = changes.text(state)
  call()
  return before, changes.text(state)
end


---Whether a call, which `broken` makes and may break off, leaves one of two states; and whether it
---was broken off.
function changes.keeps(case, before, after, broken)
  local call, state = case.make()
  local off = broken(call)
  local now = changes.text(state)
  return now == before and off or now == after, off
end


local function case(name, make)
  changes.cases[#changes.cases + 1] = {name = name, make = function()
    heed.manual_seed(7)
    return make()
  end}
end


local function mlp()
  return nn.Sequential{nn.Linear(2, 3), nn.Dropout(0.1), nn.Linear(3, 2)}
end


-- A model with gradients, and all that is to be seen of it.
local function trained()
  local model = mlp()
  heed.mse_loss(model(heed.ones(4, 2)), heed.zeros(4, 2)):backward()
  local function modes()
    local list = {}
    for _, module in model:named_modules() do list[#list + 1] = tostring(module.training) end
    return table.concat(list, " ")
  end
  local function gradients()
    local list = {}
    for i, p in ipairs(model:parameters()) do
      list[i] = {tostring(p.requires_grad), p.dtype, p.grad or "none"}
    end
    return list
  end
  return model, {modes, gradients, function() return model:state() end, heed.rng_state}
end


-- Modules --------------------------------------------------------------------------------

case("model:load_state(s)", function()
  local model, state = trained()
  local other = mlp():state()
  return function() model:load_state(other) end, state
end)

case("model:load_state(s, {strict = false})", function()
  local model, state = trained()
  local other = mlp():state()
  other["1.bias"] = nil
  return function() model:load_state(other, {strict = false}) end, state
end)

case("model:zero_grad()", function()
  local model, state = trained()
  return function() model:zero_grad() end, state
end)

for _, name in ipairs{"eval", "freeze"} do
  case(("model:%s()"):format(name), function()
    local model, state = trained()
    return function() model[name](model) end, state
  end)
end

case("model:quantize", function()
  local model = nn.Sequential{nn.Linear(32, 2), nn.Linear(2, 32), nn.Linear(32, 1)}:to("cpu")
  model(heed.ones(1, 32, {device = "cpu"})):sum():backward()      -- no other device has blocks
  return function() model:quantize("q8_0", {except = {"3"}}) end, function()
    local list, gradients = model:parameters(), {}
    for i, p in ipairs(list) do gradients[i] = p.requires_grad and p.grad or "frozen" end
    return {list, gradients}
  end
end)

case("model:freeze(false)", function()
  local model, state = trained()
  model:freeze()
  return function() model:freeze(false) end, state
end)

-- A profile that was broken off has ended.
case("heed.profile(f)", function()
  local model, x = mlp(), heed.ones(4, 2)
  local hooks, core = require "heed.nn.hooks", require "heed.core"
  local function nothing() end
  return function() heed.profile(model, x) end, {
    core.layer, function() return getmetatable(hooks.of).__index == hooks.made end,
    function() return (pcall(core.measured, nothing)) end,
  }
end)


case("nn.lora(model, options)", function()
  local model, state = trained()
  local function adapters()
    local n = 0
    for path in model:named_modules() do n = n + (path:find("adapter", 1, true) and 1 or 0) end
    return n
  end
  state[#state] = adapters               -- not the generator: adapters are drawn as all layers are
  return function() nn.lora(model, {targets = {"1", "3"}, rank = 1}) end, state
end)

case("model:train()", function()
  local model, state = trained()
  model:eval()
  model[1]:train()
  return function() model:train() end, state
end)

case("model:on_weights(f)", function()
  local model = nn.EncoderLayer(2, 1, 2)
  local function callbacks()
    local n = 0
    for _, module in model:named_modules() do n = n + (module:weights_callback() and 1 or 0) end
    return tostring(n)
  end
  return function() model:on_weights(print) end, {callbacks}
end)

local function hooked()
  local m, calls = nn.Identity(), 0
  local function count() calls = calls + 1 end
  local function called()
    calls = 0
    m(1)
    return tostring(calls)
  end
  return m, count, called
end

case("module:register_forward_hook(f)", function()
  local m, count, called = hooked()
  m:register_forward_hook(count)
  return function() m:register_forward_hook(count) end, {called}
end)

case("the removal of a module's hook", function()
  local m, count, called = hooked()
  m:register_forward_pre_hook(count)
  local handle = m:register_forward_hook(count)
  return function() handle:remove() end, {called}
end)


-- Optimisers and moves -------------------------------------------------------------------

local function optimized(make, given)
  local model, state = trained()
  local parameters = model:parameters()
  local groups = {{params = {parameters[1], parameters[2]}}, {params = {parameters[3]}, lr = 0.2}}
  local opt = make(groups, given or {lr = 0.1})
  opt:step()
  opt:step()
  state[#state + 1] = function() return opt:state() end
  state[#state + 1] = function()
    local list = {}
    for i, group in ipairs(opt.groups) do
      for name, value in pairs(group.options) do list[i .. name] = value end
    end
    return list
  end
  return opt, model, state
end

local kinds = {SGD = {lr = 0.1, momentum = 0.9}, Adam = {lr = 0.1}, Lion = {lr = 0.1}}

for _, kind in ipairs{"SGD", "Adam", "Lion"} do
  case("opt:step(), of " .. kind, function()
    local opt, _, state = optimized(optim[kind], kinds[kind])
    return function() opt:step() end, state
  end)
end

case("opt:step(), the first", function()
  local model, state = trained()
  local opt = optim.Adam(model:parameters())
  state[#state + 1] = function() return opt:state() end
  return function() opt:step() end, state
end)

case("opt:step(), without a gradient of a parameter", function()
  local opt, model, state = optimized(optim.SGD, kinds.SGD)
  model[1].weight.grad = nil
  return function() opt:step() end, state
end)

case("opt:step(), where a parameter lags behind", function()
  local opt, model, state = optimized(optim.SGD, kinds.SGD)
  local g = model[1].weight.grad
  model[1].weight.grad = nil
  opt:step()
  model[1].weight.grad = g
  return function() opt:step() end, state
end)

case("opt.lr = 1", function()
  local opt, _, state = optimized(optim.Adam)
  return function() opt.lr = 1 end, state
end)

case("opt.options.momentum = 0.5, which needs a state", function()
  local opt, _, state = optimized(optim.SGD)
  return function() opt.options.momentum = 0.5 end, state
end)

case("opt:load_state(s)", function()
  local opt, _, state = optimized(optim.Adam)
  local loaded = optimized(optim.Adam, {lr = 0.3}):state()
  return function() opt:load_state(loaded) end, state
end)

for _, forget in ipairs{true, false} do
  case(("opt:zero_grad{set_to_none = %s}"):format(forget), function()
    local opt, _, state = optimized(optim.Adam)
    return function() opt:zero_grad{set_to_none = forget} end, state
  end)
end

case('model:to("float64"), which an optimiser and averages follow', function()
  local opt, model, state = optimized(optim.Adam)
  local ema = optim.EMA(model)
  model.plain = heed.ones(2)
  state[#state + 1] = function() return {opt:state(), ema:state(), model.plain} end
  return function() model:to("float64") end, state
end)


case("heed.train with a schedule, which an error ends: the rates", function()
  local opt, model = optimized(optim.SGD)
  local steps = 0
  local function batches()
    steps = steps + 1
    assert(steps < 3, "no more")
    return heed.ones(1, 2), heed.zeros(1, 2)
  end
  local given = {
    model = model, optimizer = opt, batches = batches, loss = heed.mse_loss, print = false,
    schedule = function() return 0.5 end,
  }
  return function() pcall(heed.train, given) end, {function()
    return {opt.groups[1].lr, opt.groups[2].lr}
  end}
end)


-- Averages -------------------------------------------------------------------------------

local function averaged(given)
  local model, state = trained()
  local ema = optim.EMA(model, given or {decay = 0.5})
  heed.no_grad(function()
    for _, p in ipairs(model:parameters()) do p:add_(1) end
  end)
  state[#state + 1] = function() return ema:state() end
  return ema, model, state
end

case("ema:update()", function()
  local ema, _, state = averaged()
  return function() ema:update() end, state
end)

case("ema:update(), with warmup", function()
  local ema, _, state = averaged{warmup = true}
  return function() ema:update() end, state
end)

case("ema:apply(f)", function()
  local ema, _, state = averaged()
  return function() ema:apply(function() return 1 end) end, state
end)

case("ema:apply(f), where f fails", function()
  local ema, _, state = averaged()
  return function() pcall(ema.apply, ema, error) end, state
end)

case("ema:load_state(s)", function()
  local ema, model, state = averaged()
  ema:update()
  local other = optim.EMA(model)
  other:update()
  local loaded = other:state()
  return function() ema:load_state(loaded) end, state
end)


-- Scalers --------------------------------------------------------------------------------

local function scaled()
  local opt, _, state = optimized(optim.Adam)
  local scaler = optim.Scaler{growth_interval = 1}
  state[#state + 1] = function()
    local flags = {scaler.found[opt] or "none", scaler.stepped[opt] or "none"}
    return {scaler:state(), tostring(flags[1]), tostring(flags[2])}
  end
  return scaler, opt, state
end

case("scaler:unscale_(opt)", function()
  local scaler, opt, state = scaled()
  return function() scaler:unscale_(opt) end, state
end)

case("scaler:step(opt), which divides", function()
  local scaler, opt, state = scaled()
  return function() scaler:step(opt) end, state
end)

case("scaler:step(opt), which divides and finds no finite gradient", function()
  local scaler, opt, state = scaled()
  heed.no_grad(function() opt.parameters[1].grad:mul_(math.huge) end)
  return function() scaler:step(opt) end, state
end)

case("scaler:step(opt), after unscale_", function()
  local scaler, opt, state = scaled()
  scaler:unscale_(opt)
  return function() scaler:step(opt) end, state
end)

case("scaler:update()", function()
  local scaler, opt, state = scaled()
  scaler:step(opt)
  return function() scaler:update() end, state
end)

case("scaler:load_state(s)", function()
  local scaler, _, state = scaled()
  local other, opt = scaled()
  other:step(opt)
  other:update()
  local loaded = other:state()
  return function() scaler:load_state(loaded) end, state
end)


-- Caches ---------------------------------------------------------------------------------

local function cached(given)
  local model = nn.Decoder(2, 1, 2, {hidden = 2, cross = true, context_dim = 2}):eval()
  local cache, context = nn.Cache(given), heed.randn(2, 2, 2)
  heed.no_grad(model, heed.randn(2, 3, 2), context, {cache = cache})
  local function next_step()
    local copy = cache:clone()
    return heed.no_grad(model, heed.ones(2, 1, 2), context, {cache = copy})
  end
  return cache, {next_step, function() return tostring(cache) .. cache:length() end}
end

for _, given in ipairs{{}, {capacity = 6}} do
  local name = given.capacity and "with a capacity" or "that grows"
  case("cache:reorder(ids), of one " .. name, function()
    local cache, state = cached(given)
    return function() cache:reorder{2, 2} end, state
  end)

  case("cache:truncate(n), of one " .. name, function()
    local cache, state = cached(given)
    return function() cache:truncate(2) end, state
  end)
end

case("cache:pass(f), where f fails", function()
  local cache, state = cached{}
  state[#state + 1] = function() return tostring(cache.inside) end
  return function() pcall(cache.pass, cache, error) end, state
end)


-- Generators -----------------------------------------------------------------------------

case("heed.sample(logits, {seed = 3})", function()
  local logits = heed.randn(2, 5)
  return function() heed.sample(logits, {seed = 3, temperature = 1}) end, {heed.rng_state}
end)

case("heed.generate(model, ids, {seed = 3})", function()
  local model = nn.Sequential{nn.Embedding(4, 4), nn.Dropout(0.5)}
  model[1]:eval()
  local function modes() return tostring(model[1].training) .. tostring(model[2].training) end
  return function()
    heed.generate(model, {1, 2}, {seed = 3, max = 2, cache = false})
  end, {modes, heed.rng_state}
end)

case("a batch of a task with a seed", function()
  local next_batch = tasks.sorting{size = 1, length = 2, seed = 3}
  return function() next_batch() end, {heed.rng_state}
end)

local function batches()
  local b = heed.data.batches(heed.arange(3), {size = 2, epochs = 3, seed = 5})
  b()
  return b, {heed.rng_state, function() return b:state() end}
end

case("a batch of an epoch", function()
  local b, state = batches()
  return function() b() end, state
end)

case("the first batch of an epoch", function()
  local b, state = batches()
  b()
  return function() b() end, state
end)

case("batches:load_state(s)", function()
  local b, state = batches()
  local other = batches()
  other()
  local loaded = other:state()
  return function() b:load_state(loaded) end, state
end)

case("the second run of a checkpoint", function()
  local x = heed.ones(3, {requires_grad = true})
  local y = heed.checkpoint(function(t) return t:dropout(0.5):exp() end, x):sum()
  return function() y:backward() end, {heed.rng_state, function() return x.grad or "none" end}
end)


return changes
