-- Calls that change a model for their own time, in coroutines that take turns: the model is as the
-- calls want it until the last of them ends, and then as it was.

local heed = require "heed"
local message = require "spec.support.message"
local nn, optim = heed.nn, heed.optim
local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured

local PROMPTS <const>, COUNTS <const> = {A = {1, 2}, B = {5, 6, 7}}, {A = 2, B = 5}

local Writer = nn.Module:extend("Writer")

function Writer:init(vocabulary, dim)
  self.embed = nn.Embedding(vocabulary, dim)
  self.decoder = nn.Decoder(dim, 2, 1, {cross = false, rope = true, dropout = 0.5})
  self.head = nn.Linear(dim, vocabulary)
end

function Writer:forward(ids, o) return self.head(self.decoder(self.embed(ids), o)) end


describe("generation in coroutines that take turns", function()
  local model = Writer(12, 16)

  local function writing(name)
    return coroutine.create(function()
      return heed.generate(model, PROMPTS[name],
                           {max = COUNTS[name], on_token = function() coroutine.yield() end})
    end)
  end

  before_each(function()
    model:train()
    model.head:eval()
  end)

  local function check()
    assert.is_true(model.training and model.decoder.training and model.decoder.layers[1].training)
    assert.is_false(model.head.training)
  end

  it("is in eval mode to the end of each, and then as it was", function()
    local alone = {}
    for name, prompt in pairs(PROMPTS) do
      alone[name] = heed.generate(model, prompt, {max = COUNTS[name]})
    end
    for _, turns in ipairs{"AAABBBBBB", "ABABABBBB", "BAAABBBBB", "BABBBBBAA", "ABBBBBBAA"} do
      local runs, ids = {A = writing "A", B = writing "B"}, {}
      for name in turns:gmatch "." do
        local _, result = assert(coroutine.resume(runs[name]))
        ids[name] = result
      end
      assert.is_true(alone.A:equal(ids.A) and alone.B:equal(ids.B), turns)
      check()
    end
  end)

  it("is as it was when those that did not end are closed, or left", function()
    for _, order in ipairs{{1, 2}, {2, 1}} do
      local runs = {writing "A", writing "B"}
      for _, run in ipairs(runs) do coroutine.resume(run) end
      coroutine.close(runs[order[1]])
      assert.is_false(model.training)
      coroutine.close(runs[order[2]])
      check()
    end
    local left = writing "A"
    coroutine.resume(left)
    model:train()
    model.head:eval()
    heed.generate(model, {1}, {max = 1})
    check()
    coroutine.close(left)
    check()
  end)
end)


describe("averages that are applied in coroutines that take turns", function()
  it("leave the parameters their own values behind the last", function()
    local model = nn.Linear(2, 2)
    local average = optim.EMA(model)
    local applied = model.weight:detach():clone()
    heed.no_grad(function() model.weight:add_(1) end)
    local own = model.weight:detach():clone()
    local function run() return coroutine.wrap(function() average:apply(coroutine.yield) end) end
    for _, order in ipairs{{1, 2}, {2, 1}} do
      local runs = {run(), run()}
      for i = 1, 2 do
        runs[i]()
        assert.is_true(model.weight:equal(applied))
      end
      runs[order[1]]()
      assert.is_true(model.weight:equal(applied))
      runs[order[2]]()
      assert.is_true(model.weight:equal(own))
      average:update()
      average = optim.EMA(model)
      applied = own
      heed.no_grad(function() model.weight:add_(1) end)
      own = model.weight:detach():clone()
    end
  end)
end)


describe("a step of an optimiser", function()
  local function stepping(model, x)
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    return function()
      opt:zero_grad()
      model(x):sum():backward()
      opt:step()
    end
  end

  -- Begins f in a coroutine that is left in its first yield.
  local function leave(f) coroutine.wrap(f)() end

  it("is refused while averages are applied, and gives them back where that was left", function()
    local model, x = nn.Linear(2, 2), heed.ones(1, 2)
    local average, step = optim.EMA(model), stepping(model, x)
    step()
    local own = model.weight:detach():clone()
    local run = coroutine.create(function() average:apply(coroutine.yield) end)
    coroutine.resume(run)
    local why = "step: parameters of their own expected, but apply has put the averages into them$"
    assert.matches(why, message(step))
    coroutine.resume(run)
    step()
    heed.no_grad(function() model.weight:copy_(own) end)
    leave(function() average:apply(coroutine.yield) end)
    assert.is_false(model.weight:equal(own))
    assert.matches("it was left in a coroutine, and has ended now", message(step))
    assert.is_true(model.weight:equal(own))
    step()
    average:update()
    own = model.weight:detach():clone()
    leave(function() average:apply(coroutine.yield) end)
    assert.matches("update: .*it was left in a coroutine", message(average.update, average))
    assert.is_true(model.weight:equal(own))
    leave(function() average:apply(coroutine.yield) end)
    heed.no_grad(function() collectgarbage() end)
    assert.equal(3, average:apply(function() return 3 end))
    assert.is_true(model.weight:equal(own))
    step()
  end)

  if_fused("is refused after a captured step, too", function()
    local model, x = nn.Linear(2, 2), heed.ones(1, 2)
    local average, step = optim.EMA(model), heed.capture(stepping(model, x))
    for _ = 1, 3 do step() end
    average:apply(function() assert.matches("step: parameters of their own", message(step)) end)
    step()
  end)

  it("is refused while a call has the model in eval mode, and not where it trains again", function()
    local model = Writer(12, 16)
    local step = stepping(model, heed.tensor{{1, 2}})
    local function write()
      heed.generate(model, {1, 2}, {max = 3, on_token = function() coroutine.yield() end})
    end
    local run = coroutine.create(write)
    coroutine.resume(run)
    assert.matches("step: modules in training mode expected, but a call of generate, which has not "
                   .. "ended, has %w+ in eval mode; coroutine.close, or m:train%(%), ends that",
                   message(step))
    stepping(nn.Linear(2, 2), heed.ones(1, 2))()
    coroutine.close(run)
    step()
    leave(write)
    assert.matches("eval mode; it was left in a coroutine, and has ended now", message(step))
    assert.is_true(model.training and model.decoder.layers[1].training)
    step()
    leave(write)
    model:train()
    step()
    model:eval()
    leave(write)
    step()
    assert.is_false(model.training)
    model:train()
    leave(write)
    heed.no_grad(function() collectgarbage() end)
    heed.generate(model, {1}, {max = 1})
    assert.is_true(model.training and model.head.training)
  end)
end)
