-- A small training run that can be killed, which train_spec starts in a process of its own.

local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"
local tasks = require "heed.tasks"
require "spec.support.device"          -- for a process of its own


-- Ends this process at once, as a power cut would.
local function die()
  os.execute("kill -9 $PPID")
end


---@class resumable_run.options
---@field checkpoint? string
---@field every? integer 500 unless given
---@field kill? integer after this step
---@field log? string
---@field resume? boolean
---@field steps integer

---@param o resumable_run.options
---@return heed.Module model
---@return heed.Optimizer optimizer
---@return table run
return function(o)
  heed.manual_seed(11)
  local model = nn.Sequential{
    nn.Embedding(9, 4), nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh(), nn.Linear(4, 1),
  }
  local optimizer = optim.AdamW(model:parameters(), {lr = 0.01})
  local run = heed.train{
    model = model, optimizer = optimizer, batches = tasks.counting{size = 4, length = 3},
    loss = function(p, y) return heed.bce_with_logits(p:mean(2), y) end,
    steps = o.steps, schedule = optim.cosine(o.steps), clip = 1, print = false,
    checkpoint = o.checkpoint, every = o.checkpoint and (o.every or 500),
    resume = o.resume, log = o.log,
    on_step = function(step) if step == o.kill then die() end end,
  }
  return model, optimizer, run
end
