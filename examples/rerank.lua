-- Answers a question in two steps: a table of vectors finds candidates among many texts, quickly,
-- and a model that reads question and text together puts them in order.
--
--        lua5.4 examples/rerank.lua [EMBEDDER RERANKER FILE QUESTION]
--
-- EMBEDDER and RERANKER are directories as sentence-transformers has them, FILE has a text in each
-- paragraph. Without them two tiny models of the specs read tales.txt: their weights are random,
-- and so is their taste.

local heed = require "heed"

local TINY = "spec/golden/models/st/"
local HERE = arg[0]:match("^(.*)/") .. "/"
local embedder = assert(heed.models.load(arg[1] or TINY .. "model2vec"))
local reranker = assert(heed.models.load(arg[2] or TINY .. "cross_encoder"))
local question = arg[4] or "who found a silver key?"


local file <close> = assert(io.open(arg[3] or HERE .. "tales.txt"))
local texts = {}
for text in (file:read("a") .. "\n\n"):gmatch("(.-)\n%s*\n") do
  if text:find("%S") then texts[#texts + 1] = text:gsub("%s+", " ") end
end

-- Once for all texts; index:save(path) would keep it.
local vectors, positions = embedder:embed(texts), {}
for i = 1, #texts do positions[i] = i end
local index = heed.search.index{dim = vectors:size(2), kind = "int8"}
index:add(positions, vectors)
print(index)

-- For each question.
local found, likeness = index:query(embedder:embed(question), 10)
local candidates = heed.lookup(texts, heed.tensor(found))
local scores = reranker:score(question, candidates)
local order = scores:argsort(-1, true):totable()

print(question)
for place = 1, math.min(3, #order) do
  local at = order[place]
  print(("%.3f, %.3f at place %d before: %s..."):format(scores[at], likeness[at], at,
                                                         candidates[at]:sub(1, 50)))
end
