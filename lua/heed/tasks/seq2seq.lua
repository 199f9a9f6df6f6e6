-- Tasks from sequence to sequence: number words to digits, and dates to their ISO form.

local heed = require "heed"
local options = require "heed.internal.options"
local task = require "heed.tasks.task"

local WHO <const> = "tasks.seq2seq"

local MOST_WORDS <const> = 24                -- of a sequence and its target

-- Targets begin with [begin], end with [end], and are padded.
local MARKS = {"[begin]", "[end]", "[pad]"}

local ONES = {
  "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
  "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
}
local TENS = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
local MONTHS = {
  "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
  "november", "december",
}
local DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

local tokens = {
  dates = {x = task.joined(task.DIGITS, MONTHS, {"[pad]"}),
           y = task.joined(task.DIGITS, {"-"}, MARKS)},
  numbers = {x = task.joined(ONES, TENS, {"hundred", "thousand", "[pad]"}),
             y = task.joined(task.DIGITS, MARKS)},
}


-- Appends the words of a number from 1 to 999.
local function spell_hundreds(words, n)
  if n >= 100 then
    words[#words + 1] = ONES[n // 100]
    words[#words + 1] = "hundred"
  end
  n = n % 100
  if n >= 20 then words[#words + 1] = TENS[n // 10 - 1] end
  if n >= 20 then n = n % 10 end
  words[#words + 1] = ONES[n]
end


local function spell(n)
  local words = {}
  if n >= 1000 then
    spell_hundreds(words, n // 1000)
    words[#words + 1] = "thousand"
  end
  if n % 1000 > 0 then spell_hundreds(words, n % 1000) end
  return words
end


local function characters(words, text)
  for c in text:gmatch(".") do words[#words + 1] = c end
end


-- Each rule returns the words of x and the text of y.
local RULES = {
  numbers = function(dice, o)
    local n = dice(o.most)
    return spell(n), tostring(n)
  end,
  dates = function(dice)
    local year, month, words = 1899 + dice(200), dice(12), {}
    local day = dice(DAYS[month])
    if dice(2) == 1 then
      characters(words, tostring(day))
      words[#words + 1] = MONTHS[month]
    else
      words[#words + 1] = MONTHS[month]
      characters(words, tostring(day))
    end
    characters(words, tostring(year))
    return words, ("%d-%02d-%02d"):format(year, month, day)
  end,
}


local function encode(words, ids)
  local row = {}
  for t, word in ipairs(words) do row[t] = ids[word] end
  return row
end


---@class heed.tasks.seq2seq.options
---@field rule? "numbers"|"dates" numbers unless given
---@field most? integer the largest number, up to 999999; 999 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own

---One sequence becomes another of another length. Targets begin with [begin] and end with [end].
---
---   x  three hundred forty two [pad]     y  [begin] 3 4 2 [end]
---   x  march 5 1 9 8 4 [pad]             y  [begin] 1 9 8 4 - 0 3 - 0 5 [end]
---@param given? heed.tasks.seq2seq.options
---@return fun(): heed.Tensor, heed.Tensor, heed.Tensor batch ids (size, S), ids (size, T), and the
---lengths (size) of the first
local function seq2seq(given, ...)
  options.no_more(WHO, 1, ...)
  local o = task.read(WHO, given, {most = 999, rule = "numbers"})
  local rule = rawget(RULES, o.rule)
    or heed.fail("%s: unknown rule '%s'; %s", WHO, o.rule,
                 options.hint(o.rule, options.names(RULES)))
  if o.most > 999999 then
    heed.fail("%s: a number up to 999999 expected as most, got %d", WHO, o.most)
  end
  task.check_words(WHO, o.size, MOST_WORDS)
  local lists = tokens[o.rule]
  local from, to = task.by_token(lists.x), task.by_token(lists.y)
  return task.endless(WHO, o, function()
    local dice, xs, ys = task.dice(), {}, {}
    for b = 1, o.size do
      local words, text = rule(dice, o)
      local target = {"[begin]"}
      characters(target, text)
      target[#target + 1] = "[end]"
      xs[b], ys[b] = encode(words, from), encode(target, to)
    end
    local x, lengths = heed.pad(xs, {value = from["[pad]"]})
    return x, heed.pad(ys, {value = to["[pad]"]}), lengths
  end)
end


return {tasks = {seq2seq = seq2seq}, tokens = tokens}
