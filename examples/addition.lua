-- Learns to add numbers of three digits, one id after the other.
--                                                    lua5.4 examples/addition.lua [steps [picture]]
--   given   0 5 7 + 9 6 4 =
--   wanted  1 2 0 1              the sum, its last digit first, as one adds by hand
--
-- A decoder like GPT sees all ids so far and predicts the next. Training shows it whole lines; then
-- the model writes the answer, id after id. Training shows a tenth of a million sums.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 1500), arg[2] or "addition.png"
assert(steps, "usage: lua5.4 examples/addition.lua [steps [picture]]")
local DIM, HEADS, LAYERS, DIGITS = 64, 4, 2, 3
local TOKENS = tasks.tokens.addition.x


local Adder = nn.Module:extend("Adder")

function Adder:init()
  self.embed = nn.Embedding(#TOKENS, DIM)
  self.position = heed.position.Learned(3 * DIGITS + 2, DIM)
  self.decoder = nn.Decoder(DIM, HEADS, LAYERS, {norm = "pre", cross = false})
  self.head = nn.Linear(DIM, #TOKENS)
end

function Adder:forward(ids, o)                              -- ids (B, T)
  local cache = o and o.cache                               -- keys and values so far
  local x = self.position(self.embed(ids), {cache = cache})
  return self.head(self.decoder(x, {cache = cache}))        -- (B, T, #TOKENS)
end


heed.manual_seed(0)
local model = Adder()

local sums = tasks.addition{size = 64, digits = DIGITS, rule = "reversed"}
local function batches()
  local question, answer = sums()
  return heed.cat({question, answer:narrow(2, 1, DIGITS)}, 2), answer
end

heed.train{
  model = model, batches = batches, steps = steps, clip = 1,
  loss = function(logits, answer)                           -- of the answer alone
    local predicted = logits:narrow(2, -1 - DIGITS, DIGITS + 1)
    return heed.cross_entropy(predicted:flatten(1, 2), answer:flatten())
  end,
  optimizer = optim.AdamW(model:parameters(), {lr = 2e-3}),
  schedule = optim.warmup(50, optim.cosine(steps)),
}

local x, y = tasks.addition{size = 2000, digits = DIGITS, rule = "reversed"}()
local answers = heed.stack(heed.generate(model, x, {max = DIGITS + 1}), 1)      -- (2000, 4)
local right = answers:eq(y):all(2):to("float32"):mean():item()
print(("%.2f %% of 2000 fresh sums right, written digit by digit"):format(100 * right))
for i = 1, 3 do
  local sum = heed.lookup(TOKENS, answers[i]:flip(1))
  print(table.concat(heed.lookup(TOKENS, x[i]), " "), table.concat(sum, " "))
end


-- Where it looks: to write a digit, it needs those of its place and the carry of the place before.
local panels, line = {}, heed.cat({x[1], y[1]}):narrow(1, 1, 3 * DIGITS + 2)
model.decoder.layers[1]:on_weights(function(_, weights)        -- (1, HEADS, T, T)
  for h = 1, HEADS do
    panels[h] = plot.heat(weights[{1, h, {-1 - DIGITS, -1}}], {
      title = "head " .. h, rows = heed.lookup(TOKENS, y[1]), columns = heed.lookup(TOKENS, line),
    })
  end
end)
heed.no_grad(model, line:unsqueeze(1))
local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
