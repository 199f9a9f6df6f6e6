-- heed.optim: optimisers, schedules, clipping, averages and loss scaling, by PyTorch's formulas and
-- names.
--
--   local opt = optim.AdamW(model:parameters(), {lr = 3e-4})
--   local rate = optim.warmup(100, optim.cosine(900))
--   for step = 1, 1000 do
--     opt:zero_grad()
--     loss(model, batch()):backward()
--     optim.clip_grad_norm(model:parameters(), 1)
--     opt.lr = 3e-4 * rate(step)
--     opt:step()
--   end
--
-- Where a batch is too large for the memory, the gradients of several add up:
--
--   for _ = 1, 4 do (loss(model, batch()) / 4):backward() end

local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

local optim = {}

for _, file in ipairs{"kinds", "clip", "schedules"} do
  for name, f in pairs(require("heed.optim." .. file)) do optim[name] = f end
end
optim.EMA = require("heed.optim.average").EMA
optim.plateau = require("heed.optim.plateau").plateau
optim.Scaler = require("heed.optim.scaler").Scaler


return options.strict("heed.optim", optim, torch_names.optim)
