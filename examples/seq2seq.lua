-- Learns to read: number words become digits, and dates get one form.
--                                  lua5.4 examples/seq2seq.lua [steps [picture [numbers or dates]]]
--   given   three hundred forty two     march 5 1 9 8 4
--   wanted  3 4 2                       1 9 8 4 - 0 3 - 0 5
--
-- An encoder reads; a decoder writes id after id, and looks at the encoder's output by
-- cross-attention, whose queries and keys differ in number. Sequences are padded; lengths has their
-- lengths.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 1200), arg[2] or "seq2seq.png"
assert(steps, "usage: lua5.4 examples/seq2seq.lua [steps [picture [numbers or dates]]]")
local rule = arg[3] or "numbers"
local DIM, HEADS, LAYERS = 48, 4, 1
local SOURCE, TARGET = tasks.tokens[rule].x, tasks.tokens[rule].y
local BEGIN <const>, END <const>, PAD <const> = #TARGET - 2, #TARGET - 1, #TARGET


local Translator = nn.Module:extend("Translator")

function Translator:init()
  self.read_embed = nn.Embedding(#SOURCE, DIM)
  self.write_embed = nn.Embedding(#TARGET, DIM)
  self.position = heed.position.Sinusoidal()
  self.encoder = nn.Encoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.decoder = nn.Decoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.head = nn.Linear(DIM, #TARGET)
end

function Translator:read(x, lengths)                        -- ids (B, S)
  return self.encoder(self.position(self.read_embed(x)), {lengths = lengths})   -- (B, S, DIM)
end

function Translator:forward(y, context, o)                  -- ids (B, T), (B, S, DIM)
  local features = self.position(self.write_embed(y), {cache = o.cache})
  return self.head(self.decoder(features, context, o))      -- (B, T, #TARGET)
end


heed.manual_seed(0)
local model = Translator()
local pairs_of = tasks.seq2seq{size = 64, rule = rule, most = 999999}
local seen = {}                                             -- targets of training, as texts

-- The decoder gets the target up to each id, and is to say the next.
local function batches()
  local x, y, lengths = pairs_of()
  for _, words in ipairs(heed.lookup(TARGET, y)) do
    seen[table.concat(words):match(".-%[end")] = true
  end
  return {x, y:narrow(2, 1, y:size(2) - 1), lengths}, y:narrow(2, 2, y:size(2) - 1)
end

heed.train{
  model = function(batch)
    local x, y, lengths = table.unpack(batch)
    return model(y, model:read(x, lengths), {context_lengths = lengths})
  end,
  loss = function(logits, y)
    return heed.cross_entropy(logits:flatten(1, 2), y:flatten(), {ignore_index = PAD})
  end,
  batches = batches, steps = steps, clip = 1,
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}),
  schedule = optim.warmup(50, optim.cosine(steps)),
}

model:eval()
local x, y, lengths = tasks.seq2seq{size = 1000, rule = rule, most = 999999}()
local context = heed.no_grad(function() return model:read(x, lengths) end)
local written = heed.generate(model, heed.full({#x, 1}, BEGIN), {
  max = y:size(2), stop = END, context = context, context_lengths = lengths,
})

-- The text of a row of ids, up to its end. Then the share of unseen examples that are right.
local function text(row)
  return table.concat(heed.lookup(TARGET, row)):gsub("%[begin%]", ""):match("^[^%[]*")
end
local right, fresh, sources = 0, 0, heed.lookup(SOURCE, x)
for i = 1, #x do
  local wanted, got = text(y[i]), text(written[i])
  if not seen["[begin]" .. wanted .. "[end"] then
    fresh, right = fresh + 1, right + (wanted == got and 1 or 0)
  end
  if i <= 3 then print(table.concat(sources[i], " ", 1, lengths[i]) .. ": " .. got) end
end
print(("%.1f %% of %d fresh %s exactly right, written by heed.generate")
  :format(100 * right / fresh, fresh, rule))


-- Where the decoder looks to write each id: the words that it comes from.
local line = heed.cat({heed.tensor{BEGIN}, written[1]})
local picture
model.decoder.layers[LAYERS].cross:on_weights(function(_, weights)       -- (1, HEADS, T, S)
  local S = lengths[1]
  picture = plot.heat(weights[{1, {}, {1, -2}, {1, S}}]:mean(1), {
    title = "cross-attention", rows = heed.lookup(TARGET, written[1]),
    columns = table.move(sources[1], 1, S, 1, {}),
  })
end)
heed.no_grad(function()
  return model(line:unsqueeze(1), context:narrow(1, 1, 1), {context_lengths = lengths[{ {1, 1} }]})
end)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
