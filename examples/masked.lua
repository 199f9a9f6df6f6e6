-- Learns to tell which words were hidden, as BERT does.
--                                                      lua5.4 examples/masked.lua [steps [picture]]
--
--   given   the old [MASK] drinks milk and the [MASK] dog chews bones
--   wanted          cat                        old
--
-- 15 % of the words are to be predicted, and the loss counts these alone. No rule tells the model
-- which animal does what, and that both adjectives are alike: it learns that from the sentences.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 1000), arg[2] or "masked.png"
assert(steps, "usage: lua5.4 examples/masked.lua [steps [picture]]")
local DIM, HEADS, LAYERS, LENGTH = 32, 4, 2, 11
local WORDS = tasks.tokens.masked.x


local Reader = nn.Module:extend("Reader")

function Reader:init()
  self.embed = nn.Embedding(#WORDS, DIM)
  self.position = heed.position.Learned(LENGTH, DIM)
  self.encoder = nn.Encoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.head = nn.Linear(DIM, #WORDS)
end

function Reader:forward(ids)                                -- ids (B, T)
  return self.head(self.encoder(self.position(self.embed(ids))))      -- (B, T, #WORDS)
end


heed.manual_seed(0)
local model = Reader()

heed.train{
  model = model, batches = tasks.masked{size = 64}, steps = steps,
  loss = function(logits, y)                                -- targets of -100 do not count
    return heed.cross_entropy(logits:flatten(1, 2), y:flatten())
  end,
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}),
  schedule = optim.warmup(50, optim.cosine(steps)),
}

model:eval()
local x, y = tasks.masked{size = 5000, rule = "plain"}()
local right = heed.accuracy(heed.no_grad(model, x), y)

-- The best guesses that look at no other word: one for all, or one for each place.
local function best_guess(targets)
  local hidden = targets[targets:ne(-100)]
  return heed.one_hot(hidden, #WORDS):sum(1):max():item(), #hidden
end
local one, hidden = best_guess(y)
local by_place = 0
for t = 1, LENGTH do by_place = by_place + best_guess(y:select(2, t)) end
local line = "%.2f %% of %d hidden words right; always the same guess: %.2f %%, by place: %.2f %%"
print(line
  :format(100 * right, hidden, 100 * one / hidden, 100 * by_place / hidden))


-- Where hidden words look.
local words = {}
for word in ("the old [MASK] drinks milk and the [MASK] dog chews bones"):gmatch("%S+") do
  words[#words + 1] = word
end
local ids = {}
for t, word in ipairs(words) do
  for id, known in ipairs(WORDS) do ids[t] = known == word and id or ids[t] end
end
local sum = heed.zeros(LENGTH, LENGTH)
model:on_weights(function(_, weights)                       -- (1, H, T, T)
  sum = sum + weights:mean({1, 2}) / LAYERS
end)
local best = heed.no_grad(model, heed.tensor{ids}):argmax(-1)[1]
print(table.concat(words, " "))
print(table.concat(heed.lookup(WORDS, best), " "))

local picture = plot.heat(sum[{ {3, 8, 5} }], {
  title = "where hidden words look", rows = heed.lookup(WORDS, best[{ {3, 8, 5} }]),
  columns = words,
})
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
