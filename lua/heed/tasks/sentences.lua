-- Tasks with small sentences: classification, tagging, prediction of masked words.

local heed = require "heed"
local mask = require "heed.data.mask"
local options = require "heed.internal.options"
local task = require "heed.tasks.task"

-- Classification -----------------------------------------------------------

local FILLERS = {"the", "film", "was", "and", "its", "music", "so"}
local GOOD, BAD = {"good", "great", "fine"}, {"bad", "dull", "poor"}
local OPINIONS = task.joined(FILLERS, {"not"}, GOOD, BAD)
local NOT = #FILLERS + 1


-- Words (length) with one opinion; an opinion that is not the first word follows "not" in half of
-- the cases.
local function opinion(dice, length)
  local words = {}
  for t = 1, length do words[t] = dice(NOT) end
  local at, word = dice(length), NOT + dice(#GOOD + #BAD)
  words[at] = word
  if at > 1 then words[at - 1] = dice(2) == 1 and NOT or dice(#FILLERS) end
  return words
end


-- The class of words: 2, positive, if a good word does not follow "not" or a bad one does; else 1.
local function feeling(words)
  for t, word in ipairs(words) do
    if word > NOT then
      return ((word - NOT <= #GOOD) ~= (words[t - 1] == NOT)) and 2 or 1
    end
  end
end


local FEELINGS = {
  opinion = function(x)
    local y = {}
    for b, words in ipairs(x:totable()) do y[b] = feeling(words) end
    return task.ids(y)
  end,
}


---@class heed.tasks.classification.options
---@field length? integer of a sentence; 8 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "opinion"|fun(x: heed.Tensor): heed.Tensor the class (size) of ids (size, length)

---Is a sentence positive? One of its words is an opinion, and counts as its opposite right behind
---"not"; "not" elsewhere means nothing.
---
---   x  so not the film not bad was music     y  positive
---@param given? heed.tasks.classification.options
---@return fun(): heed.Tensor, heed.Tensor batch ids (size, length) and classes 1 and 2 (size)
local function classification(given, ...)
  local who = "tasks.classification"
  options.no_more(who, 1, ...)
  local o = task.read(who, given, {length = 8, rule = options.any})
  local rule = task.rule(who, o.rule, FEELINGS, "opinion")
  task.check_words(who, o.size, o.length)
  return task.endless(who, o, function()
    local dice, rows = task.dice(), {}
    for b = 1, o.size do rows[b] = opinion(dice, o.length) end
    local x = task.ids(rows)
    return x, task.checked(who, rule(x), "int64", o.size)
  end)
end


-- Tagging ------------------------------------------------------------------

local TAGS = {"determiner", "adjective", "pronoun", "conjunction", "noun", "verb"}

-- Words by tag; nouns and verbs are the same words, and only the word before tells them apart.
local BY_TAG = {
  {"the", "a"}, {"big", "new"}, {"she", "he"}, {"and"},
  {"duck", "fish", "saw", "watch", "rock", "play"},
}
local TAGGED = task.joined(table.unpack(BY_TAG))

local FIRST = {1}                            -- the id of each tag's first word
for tag = 2, #BY_TAG do FIRST[tag] = FIRST[tag - 1] + #BY_TAG[tag - 1] end

local DETERMINER <const>, ADJECTIVE <const>, PRONOUN <const> = 1, 2, 3
local CONJUNCTION <const>, NOUN <const>, VERB <const> = 4, 5, 6


local function phrase(dice, tags)
  local form = dice(3)
  if form == 1 then
    tags[#tags + 1] = PRONOUN
    return
  end
  tags[#tags + 1] = DETERMINER
  if form == 2 then tags[#tags + 1] = ADJECTIVE end
  tags[#tags + 1] = NOUN
end


-- Tags of clauses, "the new duck saw a fish and she …", cut at a length.
local function grammar(dice, length)
  local tags = {}
  repeat
    phrase(dice, tags)
    tags[#tags + 1] = VERB
    phrase(dice, tags)
    tags[#tags + 1] = CONJUNCTION
  until #tags >= length
  return table.move(tags, 1, length, 1, {})
end


-- The tag of a word, by the word before it.
local function tag_of(word, before)
  for tag = DETERMINER, CONJUNCTION do
    if word < FIRST[tag + 1] then return tag end
  end
  local follows = before and before < FIRST[PRONOUN]
  return follows and NOUN or VERB
end


local TAGGERS = {
  grammar = function(x)
    local rows = x:totable()
    for _, row in ipairs(rows) do
      for t = #row, 1, -1 do row[t] = tag_of(row[t], row[t - 1]) end
    end
    return task.ids(rows)
  end,
}


---@class heed.tasks.tagging.options
---@field length? integer of a sentence; 12 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "grammar"|fun(x: heed.Tensor): heed.Tensor a tag for each of the ids (size, length)

---Tags each word. Nouns and verbs are the same words, and only the word before tells them apart.
---
---   x  the new duck  saw  a   fish     y  determiner adjective noun verb determiner noun
---@param given? heed.tasks.tagging.options
---@return fun(): heed.Tensor, heed.Tensor batch ids and tags, both (size, length)
local function tagging(given, ...)
  local who = "tasks.tagging"
  options.no_more(who, 1, ...)
  local o = task.read(who, given, {length = 12, rule = options.any})
  local rule = task.rule(who, o.rule, TAGGERS, "grammar")
  task.check_words(who, o.size, o.length)
  return task.endless(who, o, function()
    local dice, rows = task.dice(), {}
    for b = 1, o.size do
      rows[b] = grammar(dice, o.length)
      for t, tag in ipairs(rows[b]) do
        local words = tag == VERB and NOUN or tag
        rows[b][t] = FIRST[words] - 1 + dice(#BY_TAG[words])
      end
    end
    local x = task.ids(rows)
    return x, task.checked(who, rule(x), "int64", o.size, o.length)
  end)
end


-- Masked words ---------------------------------------------------------------

local AGES = {"young", "old", "big", "small"}
local ANIMALS = {"cat", "dog", "cow", "bird", "bear", "monkey", "squirrel", "horse"}
local DOES = {"drinks", "chews", "eats", "seeks", "loves", "peels", "hides", "pulls"}
local WHAT = {"milk", "bones", "grass", "seeds", "honey", "bananas", "nuts", "carts"}
local FACTS = task.joined({"the", "and"}, AGES, ANIMALS, DOES, WHAT, {"[MASK]"})
local FACT = task.by_token(FACTS)
local WORDS <const> = 11                     -- of both clauses


-- "the old cat drinks milk and the old dog chews bones": an animal determines its verb and its
-- object, and both clauses have one adjective.
local function facts(dice)
  local adjective, words = AGES[dice(#AGES)], {}
  for clause = 1, 2 do
    local animal = dice(#ANIMALS)
    if clause == 2 then words[#words + 1] = "and" end
    for _, word in ipairs{"the", adjective, ANIMALS[animal], DOES[animal], WHAT[animal]} do
      words[#words + 1] = word
    end
  end
  for t, word in ipairs(words) do words[t] = FACT[word] end
  return words
end


local MASKS = {
  bert = function(x, o)
    return mask(x, {mask = #FACTS, vocabulary = #FACTS - 1, rate = o.rate})
  end,
  plain = function(x, o) return mask(x, {mask = #FACTS, keep = 0, random = 0, rate = o.rate}) end,
}


---@class heed.tasks.masked.options
---@field rate? number how many words are to be predicted; 0.15 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "bert"|"plain"|fun(x: heed.Tensor, o: table): heed.Tensor, heed.Tensor of ids (size,
---11) the inputs and the targets, as data.mask gives them; "plain" hides all behind the mask

---Predicts masked words. The mask is the last token.
---
---   x  the old [MASK] drinks milk and …     y  -100 -100 cat -100 …
---@param given? heed.tasks.masked.options
---@return fun(): heed.Tensor, heed.Tensor batch ids (size, 11), and what is hidden, else -100
local function masked(given, ...)
  local who = "tasks.masked"
  options.no_more(who, 1, ...)
  local o = task.read(who, given, {rate = 0.15, rule = options.any})
  options.probability(who, "option rate", o.rate)
  local rule = task.rule(who, o.rule, MASKS, "bert")
  task.check_words(who, o.size, WORDS)
  return task.endless(who, o, function()
    local dice, rows = task.dice(), {}
    for b = 1, o.size do rows[b] = facts(dice) end
    local x = task.ids(rows)
    local length = x:size(2)
    local inputs, targets = heed.no_grad(rule, x, o)
    return task.checked(who, inputs, "int64", o.size, length),
           task.checked(who, targets, "int64", o.size, length)
  end)
end


return {
  tasks = {classification = classification, masked = masked, tagging = tagging},
  tokens = {
    classification = {x = OPINIONS, y = {"negative", "positive"}},
    masked = {x = FACTS, y = FACTS},
    tagging = {x = TAGGED, y = TAGS},
  },
}
