-- Learns to reverse a sequence.                     lua5.4 examples/reversing.lua [steps [picture]]
--
--   given   3 2 8 2 0 4 7 1 5 2
--   wanted  2 5 1 7 4 0 2 8 2 3
--
-- The output depends on positions alone: one layer with one head is enough, and its weights show
-- the anti-diagonal.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 600), arg[2] or "reversing.png"
assert(steps, "usage: lua5.4 examples/reversing.lua [steps [picture]]")
local DIM, LENGTH = 32, 10


local Reverser = nn.Module:extend("Reverser")

function Reverser:init()
  self.embed = nn.Embedding(10, DIM)
  self.position = heed.position.Sinusoidal()
  self.layer = nn.EncoderLayer(DIM, 1, {norm = "pre"})
  self.head = nn.Linear(DIM, 10)
end

function Reverser:forward(ids)                              -- ids (B, T)
  return self.head(self.layer(self.position(self.embed(ids))))        -- (B, T, 10)
end


heed.manual_seed(0)
local model = Reverser()

heed.train{
  model = model, batches = tasks.reverse{size = 64, length = LENGTH}, steps = steps,
  loss = function(logits, y) return heed.cross_entropy(logits:flatten(1, 2), y:flatten()) end,
  optimizer = optim.AdamW(model:parameters(), {lr = 5e-3}), schedule = optim.cosine(steps),
}

model:eval()
local x, y = tasks.reverse{size = 5000, length = LENGTH}()
local logits = heed.no_grad(model, x)
local exact = logits:argmax(-1):eq(y):all(2):to("float32"):mean():item()
print(("%.2f %% of the digits, %.2f %% of 5000 fresh sequences right")
  :format(100 * heed.accuracy(logits, y), 100 * exact))


-- Where it looks: from each place to the one as far from the other end.
local picture
model:on_weights(function(_, weights)                          -- (B, 1, T, T)
  picture = plot.heat(weights[{1, 1}], {
    title = "attention", rows = heed.lookup(tasks.tokens.reverse.y, y[1]),
    columns = heed.lookup(tasks.tokens.reverse.x, x[1]),
  })
end)
heed.no_grad(model, x:narrow(1, 1, 1))
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
