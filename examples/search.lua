-- Finds texts by what they say: vectors in an index, a question, ranked answers, and the words that
-- were attended to.
--                                       lua5.4 examples/search.lua [steps]
--                                       lua5.4 examples/search.lua MODEL FOLDER QUESTION
--
-- MODEL is a directory as sentence-transformers has them, FOLDER has files of text. Without them a
-- small model learns here which of the tales in tales.txt a sentence is from: the sentence, and the
-- tale without it, are to have vectors that are more alike than those of other tales.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local DIM, BATCH, MODEL, FOLDER, QUESTION = 64, 32, arg[1], arg[2], arg[3]
local USAGE <const> = "usage: lua5.4 examples/search.lua [steps], or MODEL FOLDER QUESTION"

-- The words of a text with the largest weights (T).
local function looked_at(words, weights)
  local each, order, seen, list = weights:totable(), {}, {}, {}
  for t = 1, #words do order[t] = t end
  table.sort(order, function(a, b) return each[a] > each[b] end)
  for _, t in ipairs(order) do
    if #list < 5 and #words[t] > 2 and not seen[words[t]] then list[#list + 1] = words[t] end
    seen[words[t]] = true
  end
  return table.concat(list, ", ")
end

-- The texts that are most like a question, by their vectors (N, D) and its own (D).
local function answer(texts, vectors, question, look)
  local positions = {}
  for i = 1, #texts do positions[i] = i end
  local index = heed.search.index{dim = vectors:size(2), kind = "int8"}
  local keys, scores = index:add(positions, vectors):query(question, 3)
  for i, key in ipairs(keys) do
    local text = texts[key]
    local start = text:gsub("%s+", " "):sub(1, 70)
    print(("%.3f  %s...\n       %s"):format(scores[i], start, look(text)))
  end
end

-- A model of a directory: the words that all heads of its last layer look at.
if FOLDER then
  local model, texts = assert(QUESTION, USAGE) and assert(heed.models.load(MODEL)), {}
  for path in io.popen(("find '%s' -type f | sort"):format(FOLDER)):lines() do
    local file <close> = assert(io.open(path))
    texts[#texts + 1] = path .. " " .. file:read("a")
  end
  return answer(texts, model:embed(texts), model:embed(QUESTION), function(text)
    if not rawget(model, "body") then return "" end           -- a table of vectors
    local ids, at = model.tokenizer:encode(text, {offsets = true, max = model.limit or 512})
    local words = {}
    for i, bytes in ipairs(at:totable()) do words[i] = text:sub(bytes[1], bytes[2]) end
    local _, weights = heed.no_grad(model.hidden, model, ids:unsqueeze(1), {weights = true})
    return looked_at(words, weights[#weights]:mean({1, 2}):sum(1))
  end)
end

local Reader = nn.Module:extend("Reader")

function Reader:init(vocabulary)
  self.embed = nn.Embedding(vocabulary, DIM)
  self.asks = nn.Parameter(heed.randn(1, 1, DIM))           -- which words tell a tale from others?
  self.attend = nn.MultiHeadAttention(DIM, 1, {bias = false})
end

function Reader:forward(ids, lengths)                       -- (B, T) -> vectors (B, DIM)
  local y, weights = self.attend(self.asks:expand(#ids, 1, DIM), self.embed(ids),
                                 {lengths = lengths, weights = true})
  return y:squeeze(2):normalize(2, -1), weights             -- (B, 1, 1, T)
end

local file <close> = assert(io.open(arg[0]:match("^(.*)/") .. "/tales.txt"))
local tales, sentences = {}, {}
for tale in (file:read("a") .. "\n\n"):gmatch("(.-)\n\n+") do
  tales[#tales + 1], sentences[#sentences + 1] = tale, {}
  for sentence in tale:gmatch("[^.]+%.") do table.insert(sentences[#tales], sentence) end
end
local function plain(text) return (text:lower():gsub("[^%a]+", " ")) end
local vocabulary = heed.data.words(plain(table.concat(tales, " ")))

heed.manual_seed(0)
local model, steps = Reader(#vocabulary), tonumber(MODEL or 400) or error(USAGE, 0)
local function read(texts)
  local rows = {}
  for i, text in ipairs(texts) do rows[i] = vocabulary:encode(plain(text)) end
  return model(heed.pad(rows))
end

heed.train{
  model = function(pair)                                    -- how alike they are (B, B)
    return read(pair[1]):matmul(read(pair[2]).T) * 10
  end,
  loss = heed.cross_entropy, steps = steps,
  batches = function()
    local some, rest = {}, {}
    for i, at in ipairs(heed.randperm(#tales)[{{1, BATCH}}]:totable()) do
      local all, k = sentences[at], heed.randint(1, #sentences[at], {}):item()
      some[i] = all[k]
      rest[i] = table.concat(all, "", 1, k - 1) .. table.concat(all, "", k + 1)
    end
    return {some, rest}, heed.arange(BATCH)
  end,
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}),
}

local vectors, asked, right = heed.no_grad(read, tales), {}, 0
for i, list in ipairs(sentences) do asked[i] = list[2] end
local best = heed.search.similarity(heed.no_grad(read, asked), vectors):argmax(2)
for i, at in ipairs(best:totable()) do right = right + (at == i and 1 or 0) end
print(("%d of %d tales found by their second sentence"):format(right, #tales))

print("the crow looked at a silver key")
local question = heed.no_grad(read, {"the crow looked at a silver key"})[1]
answer(tales, vectors, question, function(text)
  local words = {}
  for word in plain(text):gmatch("%S+") do words[#words + 1] = word end
  local _, weights = heed.no_grad(read, {text})
  return looked_at(words, weights:flatten())
end)
