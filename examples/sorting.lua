-- Learns to sort ten digits, all of them at once.     lua5.4 examples/sorting.lua [steps [picture]]
--
--   given   3 2 8 2 0 4 7 1 5 2
--   wanted  0 1 2 2 2 3 4 5 7 8
--
-- Each place predicts the digit that belongs there, so it depends on all other places, which it
-- sees by attention alone. The model learns to sort from 64 examples a step.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 1000), arg[2] or "sorting.png"
assert(steps, "usage: lua5.4 examples/sorting.lua [steps [picture]]")
local DIM, HEADS, LAYERS, LENGTH = 32, 2, 2, 10


local Sorter = nn.Module:extend("Sorter")

function Sorter:init()
  self.embed = nn.Embedding(10, DIM)                        -- which digit
  self.position = heed.position.Learned(LENGTH, DIM)        -- and where it stands
  self.encoder = nn.Encoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.head = nn.Linear(DIM, 10)                            -- which digit belongs here
end

function Sorter:forward(ids)                                -- ids (B, T)
  return self.head(self.encoder(self.position(self.embed(ids))))      -- (B, T, 10)
end


heed.manual_seed(0)
local model = Sorter()
print(model)

heed.train{
  model = model, batches = tasks.sorting{size = 64, length = LENGTH}, steps = steps,
  loss = function(logits, y) return heed.cross_entropy(logits:flatten(1, 2), y:flatten()) end,
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}), schedule = optim.cosine(steps),
}

model:eval()
local x, y = tasks.sorting{size = 5000, length = LENGTH}()
local logits = heed.no_grad(model, x)
local exact = logits:argmax(-1):eq(y):all(2):to("float32"):mean():item()
print(("%.2f %% of the digits, %.2f %% of 5000 fresh sequences right")
  :format(100 * heed.accuracy(logits, y), 100 * exact))


-- Where the last layer looks: each place of the sorted row finds the digits that may stand there.
local panels = {}
model.encoder.layers[LAYERS]:on_weights(function(_, weights)   -- (B, HEADS, T, T)
  for h = 1, HEADS do
    panels[h] = plot.heat(weights[{1, h}], {
      title = "head " .. h, rows = heed.lookup(tasks.tokens.sorting.y, y[1]),
      columns = heed.lookup(tasks.tokens.sorting.x, x[1]),
    })
  end
end)
heed.no_grad(model, x:narrow(1, 1, 1))

local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
