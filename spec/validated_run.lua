-- A training run with validations, which ends early and can be killed: validation_spec starts it in
-- a process of its own.

local data = require "heed.data"
local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"
require "spec.support.device"          -- for a process of its own


---@param o {checkpoint: string, every: integer?, kill: integer?, log: string?, resume: boolean?}
---@return heed.Module model
---@return table run
---@return table state
---@return heed.Plateau schedule
return function(o)
  heed.manual_seed(5)
  local x = heed.randn(60, 4)
  local y = x:select(2, 1):gt(x:select(2, 2)):to("int64") + 1
  local model = nn.Sequential{nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 2)}
  local schedule = optim.plateau{patience = 0, threshold = 0.02, factor = 0.5}
  local state = {seen = 0, least = math.huge, drawn = heed.zeros(1), name = "a", list = {0.5}}
  local run = heed.train{
    model = model, optimizer = optim.AdamW(model:parameters(), {lr = 0.05}), schedule = schedule,
    loss = heed.cross_entropy, steps = 400, print = false, state = state,
    batches = data.batches(x:narrow(1, 1, 40), y:narrow(1, 1, 40), {size = 7}),
    validate = {batches = data.batches(x:narrow(1, 41, 20), y:narrow(1, 41, 20), {size = 6}),
                every = 5, steps = 3},
    keep = "best", patience = 6, log = o.log,
    checkpoint = o.checkpoint, every = o.every or 8, resume = o.resume,
    on_step = function(step, loss)
      state.seen, state.least = state.seen + 1, math.min(state.least, loss)
      state.drawn, state.list[1] = heed.rand(1), state.list[1] + loss
      if step == o.kill then os.execute("kill -9 $PPID") end
    end,
  }
  return model, run, state, schedule
end
