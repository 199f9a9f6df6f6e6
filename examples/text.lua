-- Learns to write, one character after the other, from 40 KB of small tales.
--                                          lua5.4 examples/text.lua [steps [picture [a text file]]]
--
-- A GPT in small: a decoder that sees 64 characters at a time and predicts the next one of each.
-- Then it continues a few words, with a cache of the keys and values of the text so far.

local heed = require "heed"
local data, nn, optim, plot = heed.data, heed.nn, heed.optim, heed.plot

local steps, path = tonumber(arg[1] or 1200), arg[2] or "text.png"
assert(steps, "usage: lua5.4 examples/text.lua [steps [picture [a text file]]]")
local DIM, HEADS, LAYERS, LENGTH, SIZE = 64, 4, 2, 64, 16


local Writer = nn.Module:extend("Writer")

function Writer:init(n)
  self.embed = nn.Embedding(n, DIM)
  self.decoder = nn.Decoder(DIM, HEADS, LAYERS, {norm = "pre", cross = false, rope = true})
  self.head = nn.Linear(DIM, n)
end

function Writer:forward(ids, o)                             -- ids (B, T)
  return self.head(self.decoder(self.embed(ids), o))        -- (B, T, n)
end


local file <close> = assert(io.open(arg[3] or arg[0]:gsub("[^/]*$", "tales.txt")))
local text = file:read("a")
local chars = data.chars(text)
local ids = chars:encode(text)
local train_ids = ids:narrow(1, 1, #ids * 9 // 10)          -- the last tenth is kept for the test
local test_ids = ids:narrow(1, #train_ids + 1, #ids - #train_ids)

heed.manual_seed(0)
local model = Writer(#chars)
print(("%d characters, %d of them different"):format(#ids, #chars))

local function loss(logits, y) return heed.cross_entropy(logits:flatten(1, 2), y:flatten()) end
heed.train{
  model = model, loss = loss, steps = steps, clip = 1,
  batches = data.windows(train_ids, {length = LENGTH, size = SIZE}),
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3, weight_decay = 0.01}),
  schedule = optim.warmup(50, optim.cosine(steps)),
}

model:eval()
local x, y = data.windows(test_ids, {length = LENGTH, size = 64, seed = 1})()
local bits = heed.no_grad(function() return loss(model(x), y):item() / math.log(2) end)
local shares = heed.one_hot(ids, #chars):sum(1):to("float32") / #ids
local alone = -(shares * shares:log2()):sum():item()
print(("%.2f bits a character on text that it never saw; from how often each is used: %.2f")
  :format(bits, alone))


-- A cache that forgets what is further back than the windows of training.
local prompt = "One morning a fox found "
io.write("\n", prompt)
local new = heed.generate(model, chars:encode(prompt), {
  max = 300, temperature = 0.5, top_p = 0.95, seed = 1, cache = nn.Cache{window = LENGTH},
  on_token = function(id) io.write(chars.tokens[id]) end,
})
print(("\n\n%d characters written"):format(#new))


-- Where it looks: each row is a character that is about to write the next.
local line, panels = "Nobody owns the ", {}
local letters = heed.lookup(chars.tokens, chars:encode(line))
model.decoder.layers[1]:on_weights(function(_, weights)        -- (1, HEADS, T, T)
  for h = 1, 2 do
    panels[h] = plot.heat(weights[{1, h}], {
      title = "layer 1, head " .. h, rows = letters, columns = letters,
    })
  end
end)
heed.no_grad(model, chars:encode(line):unsqueeze(1))
local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
