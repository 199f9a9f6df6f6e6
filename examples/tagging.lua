-- Learns what each word of a sentence is.             lua5.4 examples/tagging.lua [steps [picture]]
--
--   given   the        new       duck  saw   a          fish
--   wanted  determiner adjective noun  verb  determiner noun
--
-- "duck", "fish" and "saw" are nouns or verbs, by their place: a table of words gets half of them
-- wrong. One layer of attention looks at the word before, which decides.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 500), arg[2] or "tagging.png"
assert(steps, "usage: lua5.4 examples/tagging.lua [steps [picture]]")
local DIM, HEADS, LENGTH = 32, 2, 12
local WORDS, TAGS = tasks.tokens.tagging.x, tasks.tokens.tagging.y


local Tagger = nn.Module:extend("Tagger")

function Tagger:init()
  self.embed = nn.Embedding(#WORDS, DIM)
  self.position = heed.position.Learned(LENGTH, DIM)
  self.layer = nn.EncoderLayer(DIM, HEADS, {norm = "pre"})
  self.head = nn.Linear(DIM, #TAGS)
end

function Tagger:forward(ids)                                -- ids (B, T)
  return self.head(self.layer(self.position(self.embed(ids))))        -- (B, T, #TAGS)
end


heed.manual_seed(0)
local model = Tagger()

heed.train{
  model = model, batches = tasks.tagging{size = 32, length = LENGTH}, steps = steps,
  loss = function(logits, y) return heed.cross_entropy(logits:flatten(1, 2), y:flatten()) end,
  optimizer = optim.AdamW(model:parameters(), {lr = 5e-3}), schedule = optim.cosine(steps),
}

model:eval()
local x, y = tasks.tagging{size = 2000, length = LENGTH}()
local logits = heed.no_grad(model, x)
local exact = logits:argmax(-1):eq(y):all(2):to("float32"):mean():item()

-- The best that a table of words can do: for each word, the tag that it has most often.
local counts = heed.zeros(#WORDS, #TAGS)
counts = counts:view(-1):scatter_add(1, ((x - 1) * #TAGS + y):view(-1), heed.ones(x:numel()))
local table_right = counts:view(#WORDS, #TAGS):max(2):sum():item() / x:numel()
print(("%.2f %% of the tags, %.2f %% of 2000 fresh sentences right; a table of words: %.2f %%")
  :format(100 * heed.accuracy(logits, y), 100 * exact, 100 * table_right))


-- Where it looks: one word to the left.
local panels = {}
model:on_weights(function(_, weights)                          -- (B, HEADS, T, T)
  for h = 1, HEADS do
    panels[h] = plot.heat(weights[{1, h}], {
      title = "head " .. h, rows = heed.lookup(WORDS, x[1]), columns = heed.lookup(WORDS, x[1]),
    })
  end
end)
heed.no_grad(model, x:narrow(1, 1, 1))
local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
