-- Factories of rows about tokenizers, whose files and texts vocabularies.py makes; text_side.py has
-- the same of other libraries.

local heed = require "heed"

local FOLDER <const> = arg[0]:gsub("[^/]*$", "") .. "../build/bench/"
local PIECE <const> = 4096           -- bytes of what is encoded at once, at least

local factories = {}


-- A text cut at ends of lines.
local function pieces(language)
  local file <close> = assert(io.open(FOLDER .. language .. ".txt", "rb"))
  local text, at, list = file:read "a", 1, {}
  while at <= #text do
    local finish = text:find("\n", at + PIECE, true) or #text
    list[#list + 1] = text:sub(at, finish)
    at = finish + 1
  end
  return list
end


local function encoded(tokenizer, texts)
  local ids = {}
  for i, text in ipairs(texts) do
    ids[i] = tokenizer:encode(text, {parse = true, special = false})
  end
  return ids
end


for _, kind in ipairs{"bpe", "wordpiece", "unigram"} do
  for _, language in ipairs{"english", "code"} do
    local function opened()
      return heed.tokenizer.load(FOLDER .. "tokenizer_" .. kind), pieces(language)
    end

    factories[("encode_%s_%s"):format(kind, language)] = function()
      local tokenizer, texts = opened()
      return function() return encoded(tokenizer, texts) end
    end

    factories[("decode_%s_%s"):format(kind, language)] = function()
      local tokenizer, texts = opened()
      local list = encoded(tokenizer, texts)
      return function()
        for i, ids in ipairs(list) do texts[i] = tokenizer:decode(ids, {special = true}) end
        return table.concat(texts)
      end
    end
  end
end

for _, kind in ipairs{"bpe", "unigram"} do
  factories["open_" .. kind] = function()
    local path = FOLDER .. "tokenizer_large_" .. kind .. ".json"
    return function() return assert(heed.tokenizer.load(path)) end
  end
end


return factories
