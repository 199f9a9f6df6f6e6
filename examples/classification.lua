-- Learns what a sentence says of a film, with three ways to make one vector of its words.
--                                              lua5.4 examples/classification.lua [steps [picture]]
--   given   so not the film not bad was music
--   wanted  positive
--
-- An opinion after "not" counts as its opposite, and "not" elsewhere means nothing, so a bag of
-- words is not enough. Pooling takes the mean of the words' features, their largest values, or the
-- features of the first word alone, which then has to gather those of the others.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 600), arg[2] or "classification.png"
assert(steps, "usage: lua5.4 examples/classification.lua [steps [picture]]")
local DIM, HEADS, LAYERS, LENGTH = 32, 2, 2, 8
local WORDS, CLASSES = tasks.tokens.classification.x, tasks.tokens.classification.y


local Critic = nn.Module:extend("Critic")

function Critic:init(way)
  self.embed = nn.Embedding(#WORDS, DIM)
  self.position = heed.position.Learned(LENGTH, DIM)
  self.encoder = nn.Encoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.classify = nn.Classifier(DIM, #CLASSES, {pool = way})
end

function Critic:forward(ids)                                -- ids (B, T)
  return self.classify(self.encoder(self.position(self.embed(ids))))  -- (B, #CLASSES)
end


local x, y = tasks.classification{size = 5000, length = LENGTH, seed = 1}()

local function trained(way)
  heed.manual_seed(0)
  local model = Critic(way)
  heed.train{
    model = model, loss = heed.cross_entropy, steps = steps, print = false,
    batches = tasks.classification{size = 64, length = LENGTH},
    optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}), schedule = optim.cosine(steps),
  }
  model:eval()
  local right = heed.accuracy(heed.no_grad(model, x), y)
  print(("%-5s pooling: %.2f %% of 5000 fresh sentences right"):format(way, 100 * right))
  return model
end


-- Where the words look: from the opinion to the word before it, from all to the opinion.
local words, ids, panels = {}, {}, {}
for word in ("so not the film not bad was music"):gmatch("%a+") do
  for id, known in ipairs(WORDS) do ids[#words + 1] = known == word and id or ids[#words + 1] end
  words[#words + 1] = word
end
for i, way in ipairs{"mean", "max", "first"} do
  local model = trained(way)
  local sum = heed.zeros(LENGTH, LENGTH)
  model:on_weights(function(_, weights)                        -- (1, HEADS, T, T)
    sum = sum + weights:mean({1, 2}) / LAYERS
  end)
  local class = heed.no_grad(model, heed.tensor{ids}):argmax(-1)
  panels[i] = plot.heat(sum, {
    title = ("%s: %s"):format(way, heed.lookup(CLASSES, class)[1]), rows = words, columns = words,
  })
end
local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
