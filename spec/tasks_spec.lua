-- The toy tasks, against plain Lua.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local tasks = require "heed.tasks"


local function times(digit, row)
  local n = 0
  for _, id in ipairs(row) do n = n + (id == digit + 1 and 1 or 0) end
  return n
end


local FORMULAS = {
  more = function(row) return times(2, row) > times(4, row) end,
  harder = function(row)
    return times(2, row) > times(4, row) or times(5, row) == times(8, row)
  end,
}


describe("the counting task", function()
  it("gives ids of digits and one label for each sequence", function()
    local x, y = tasks.counting{size = 7, length = 5}()
    assert.equal("(7, 5)", tostring(x.shape))
    assert.equal("int64", x.dtype)
    assert.equal("(7, 1)", tostring(y.shape))
    assert.equal("float32", y.dtype)
    local many = tasks.counting{size = 1000}()
    assert.equal(1, many:min():item())
    assert.equal(9, many:max():item())
  end)

  it("has 100 sequences of 10 digits unless the options say otherwise", function()
    assert.equal("(100, 10)", tostring(tasks.counting()().shape))
  end)

  for name, rule in pairs(FORMULAS) do
    it("labels by its rule: " .. name, function()
      local x, y = tasks.counting{size = 300, rule = name, seed = 5}()
      local rows, labels = x:totable(), y:totable()
      for i, row in ipairs(rows) do assert.equal(rule(row) and 1 or 0, labels[i][1]) end
    end)
  end

  it("counts other digits, in other ranges, by other rules", function()
    local x, y = tasks.counting{digits = 3, more = 0, than = 2, size = 50}()
    for i, row in ipairs(x:totable()) do
      assert.equal(times(0, row) > times(2, row), y[i]:item() == 1)
    end
    local function same(count) return count(1):eq(count(2)) end
    x, y = tasks.counting{rule = same, size = 50}()
    for i, row in ipairs(x:totable()) do
      assert.equal(times(1, row) == times(2, row), y[i]:item() == 1)
    end
  end)

  it("draws from the module's generator", function()
    heed.manual_seed(3)
    local x = tasks.counting{size = 4}()
    heed.manual_seed(3)
    assert.is_true(x:equal(heed.randint(0, 8, {4, 10}, {device = "cpu"}):to(x.device) + 1))
  end)

  it("draws from its own generator if it has a seed", function()
    local a, b = tasks.counting{seed = 3, size = 4}, tasks.counting{seed = 3, size = 4}
    heed.manual_seed(1)
    local untouched = heed.rand(3, {device = "cpu"})
    heed.manual_seed(1)
    local first = a()
    assert.is_true(untouched:equal(heed.rand(3, {device = "cpu"})))
    assert.is_true(first:equal((b())))
    assert.is_true(a():equal((b())))
    assert.is_false(first:equal((b())))
  end)

  it("goes on for ever in a loop", function()
    local n = 0
    for x, y in tasks.counting{size = 2} do
      assert.equal(#x, #y)
      n = n + 1
      if n == 5 then break end
    end
    assert.equal(5, n)
  end)

  it("refuses what it cannot do", function()
    assert.matches("a digit from 0 to 8 expected as more, got 9",
                   message(tasks.counting, {more = 9}))
    assert.matches("did you mean 'harder'", message(tasks.counting, {rule = "hardr"}))
    assert.matches("at least 1 expected as size", message(tasks.counting, {size = 0}))
    assert.matches("a number up to 999999 expected as most, got 1000000",
                   message(tasks.seq2seq, {most = 1000000}))
    assert.matches("did you mean 'length'", message(tasks.counting, {lenght = 4}))
    for name, words in pairs{masked = 11, seq2seq = 24} do           -- of a row, at most
      assert.matches(("tasks.%s: words of a batch: at most 16777216 entries in all tables expected,"
                      .. " got %d"):format(name, words << 30),
                     message(tasks[name], {size = 1 << 30}), 1, true)
    end
    assert.matches("a function expected as rule, got 5", message(tasks.counting, {rule = 5}))
    local function with(rule) return message(tasks.counting{size = 3, rule = rule}) end
    assert.matches("type bool and shape %(3, 1%) expected from rule, got 4",
                   with(function() return 4 end))
    assert.matches("expected from rule, got a tensor of shape %(3%) and type float32",
                   with(function() return heed.ones(3) end))
    assert.matches("expected as argument of count, got the string 'x'",
                   with(function(count) return count("x") end))
  end)
end)


-- All tasks: the same seed, the same batches; batches of the size asked for.
local NAMES = {
  "addition", "classification", "copy", "counting", "masked", "patches", "reverse", "seq2seq",
  "sorting", "tagging",
}

for _, name in ipairs(NAMES) do
  describe("the task " .. name, function()
    local make = tasks[name]

    it("draws from its own generator if it has a seed, else from the module's", function()
      heed.manual_seed(1)
      local untouched = heed.rng_state()
      local a, b = make{seed = 3, size = 4}, make{seed = 3, size = 4}
      local first, labels = a()
      local again, same_labels = b()
      assert.is_true(first:equal(again) and labels:equal(same_labels))
      assert.is_true(untouched:equal(heed.rng_state()))
      assert.is_false(first:equal((a())))
      local x = make{size = 4}()
      heed.manual_seed(1)
      assert.is_true(x:equal((make{size = 4}())))
    end)

    it("gives batches for ever, of 100 unless the options say otherwise", function()
      local x, y = make()()
      assert.equal(100, #x)
      assert.equal(100, #y)
      local n = 0
      for inputs, targets in make{size = 3} do
        assert.equal(3, #inputs)
        assert.equal(3, #targets)
        n = n + 1
        if n == 4 then break end
      end
    end)

    it("refuses options that it cannot take", function()
      assert.matches("tasks." .. name .. ": a whole number of at least 1 expected as size",
                     message(make, {size = 0}))
      assert.matches("tasks." .. name .. ": unknown option 'lenght'", message(make, {lenght = 1}))
      assert.matches("whole number expected as option seed", message(make, {seed = "x"}))
      assert.matches("rule", message(make, {rule = 5}))
      assert.matches("unknown rule 'nonesuch'", message(make, {rule = "nonesuch"}))
      assert.matches("a table of options expected", message(make, 3))
      assert.matches("at most 1 argument", message(make, {}, 3))
    end)
  end)
end


-- A number that each element changes.
local function sum_of(t)
  local sum = 0
  local function add(value)
    if type(value) == "table" then
      for _, inner in ipairs(value) do add(inner) end
    else sum = (sum * 31 + math.tointeger(value * 1000 // 1)) % 1000003
    end
  end
  add(t:totable())
  return sum
end


describe("the second batches of seed 7", function()
  it("are what they always were", function()
    for _, case in ipairs{
      {"addition", {}, 224409, 343548},
      {"addition", {digits = 5, rule = "reversed"}, 493397, 372834},
      {"classification", {}, 132234, 475072},
      {"classification", {length = 3}, 92336, 567027},
      {"copy", {}, 631568, 631568},
      {"counting", {}, 506100, 496949},
      {"counting", {digits = 8, length = 6, rule = "harder", than = 2}, 927187, 974609},
      {"counting", {more = 1, than = 3}, 506100, 803222},
      {"masked", {}, 325575, 819507},
      {"masked", {rate = 0.5, rule = "plain"}, 216823, 876493},
      {"patches", {noise = 0}, 341531, 316872},
      {"patches", {noise = 0, rule = "centre", side = 9}, 67591, 708160},
      {"reverse", {digits = 3, length = 4}, 536371, 248818},
      {"seq2seq", {}, 556888, 723939, 994037},
      {"seq2seq", {most = 999999}, 703187, 554052, 782216},
      {"seq2seq", {rule = "dates"}, 663899, 405479, 636426},
      {"sorting", {}, 631568, 696458},
      {"sorting", {rule = "descending"}, 631568, 711643},
      {"tagging", {}, 965243, 591274},
      {"tagging", {length = 14}, 847435, 965897},
    } do
      local options = case[2]
      options.seed = 7
      local batch = tasks[case[1]](options)
      batch()
      local sums = {}
      for i, t in ipairs{batch()} do sums[i] = sum_of(t) end
      assert.same({table.unpack(case, 3)}, sums, case[1])
    end
  end)
end)


-- Rows of digits, as numbers.
local function digits(t)
  local rows = t:totable()
  for _, row in ipairs(rows) do
    for i, id in ipairs(row) do row[i] = id - 1 end
  end
  return rows
end

local function words(list, t) return heed.lookup(list, t) end


describe("sequences", function()
  local RULES = {
    ascending = function(row) table.sort(row) end,
    descending = function(row) table.sort(row, function(a, b) return a > b end) end,
    same = function() end,
    backwards = function(row)
      for i = 1, #row // 2 do row[i], row[#row + 1 - i] = row[#row + 1 - i], row[i] end
    end,
  }
  local DEFAULT = {sorting = "ascending", copy = "same", reverse = "backwards"}

  for name, default in pairs(DEFAULT) do
    it("become others by their rule: " .. name, function()
      for rule, apply in pairs(RULES) do
        local x, y = tasks[name]{size = 20, length = 7, digits = 5, rule = rule}()
        assert.is_true(x:min():item() >= 1 and x:max():item() <= 5)
        local wanted = digits(x)
        for _, row in ipairs(wanted) do apply(row) end
        assert.same(wanted, digits(y))
      end
      local x, y = tasks[name]{seed = 1}()
      local _, same = tasks[name]{seed = 1, rule = default}()
      assert.is_true(y:equal(same))
      assert.equal("(100, 10)", tostring(x.shape))
    end)
  end

  it("take rules of one's own, and check what they give", function()
    local x, y = tasks.copy{rule = function(ids) return ids + 1 end}()
    assert.is_true(y:equal(x + 1))
    assert.matches("type int64 and shape %(2, 10%) expected from rule, got a tensor of shape %(2%)",
                   message(tasks.copy{size = 2, rule = function(ids) return ids:select(2, 1) end}))
  end)
end)


describe("addition", function()
  it("gives sums of its numbers, in either order", function()
    for _, rule in ipairs{"forward", "reversed"} do
      for _, n in ipairs{1, 3, 17} do
        local x, y = tasks.addition{digits = n, size = 50, rule = rule}()
        local lines = words(tasks.tokens.addition.x, x)
        for i, row in ipairs(words(tasks.tokens.addition.y, y)) do
          local a, b = table.concat(lines[i]):match("^(%d+)%+(%d+)=$")
          assert.equal(n, #a)
          local sum = table.concat(row)
          if rule == "reversed" then sum = sum:reverse() end
          assert.equal(n + 1, #sum)
          assert.equal(math.tointeger(tonumber(a)) + math.tointeger(tonumber(b)),
                       math.tointeger(tonumber(sum)))
        end
      end
    end
  end)

  it("refuses sums beyond 64 bits", function()
    assert.matches("at most 17 digits expected, got 18", message(tasks.addition, {digits = 18}))
  end)
end)


describe("classification", function()
  local GOOD = {good = true, great = true, fine = true}
  local BAD = {bad = true, dull = true, poor = true}

  it("tells what a sentence says of its film", function()
    local x, y = tasks.classification{size = 300, length = 6}()
    local classes = words(tasks.tokens.classification.y, y)
    local negated, plain = 0, 0
    for i, sentence in ipairs(words(tasks.tokens.classification.x, x)) do
      local opinions, positive = 0, nil
      for t, word in ipairs(sentence) do
        if GOOD[word] or BAD[word] then
          local turned = sentence[t - 1] == "not"
          opinions, positive = opinions + 1, (GOOD[word] or false) ~= turned
          negated, plain = negated + (turned and 1 or 0), plain + (turned and 0 or 1)
        end
      end
      assert.equal(1, opinions)
      assert.equal(positive and "positive" or "negative", classes[i])
    end
    assert.is_true(negated > 60 and plain > 60)
  end)
end)


describe("tagging", function()
  local FIXED = {
    the = "determiner", a = "determiner", big = "adjective", new = "adjective", she = "pronoun",
    he = "pronoun", ["and"] = "conjunction",
  }
  -- Words that may follow a word; a sentence begins with 'start'.
  local NEXT = {
    start = "determiner pronoun", conjunction = "determiner pronoun", determiner = "adjective noun",
    adjective = "noun", verb = "determiner pronoun", pronoun = "verb conjunction",
    noun = "verb conjunction",
  }

  it("gives sentences by the grammar, with their tags", function()
    local x, y = tasks.tagging{size = 200, length = 15}()
    local tags = words(tasks.tokens.tagging.y, y)
    local uses, seen = {}, {}
    for i, sentence in ipairs(words(tasks.tokens.tagging.x, x)) do
      local before, verb = "start", false
      for t, word in ipairs(sentence) do
        local tag = tags[i][t]
        assert.is_truthy(NEXT[before]:find(tag, 1, true), before .. " " .. tag)
        seen[before .. " " .. tag] = (seen[before .. " " .. tag] or 0) + 1
        if FIXED[word] then
          assert.equal(FIXED[word], tag)
        else
          assert.is_true(tag == "noun" or tag == "verb")
          uses[word .. " " .. tag] = true
        end
        -- Each clause has one verb, between its two phrases.
        if tag == "verb" then assert.is_false(verb) end
        verb = tag == "verb" or verb and tag ~= "conjunction"
        before = tag
      end
    end
    assert.is_true(uses["fish noun"] and uses["fish verb"])
    for before, list in pairs(NEXT) do
      for tag in list:gmatch "%a+" do assert.is_number(seen[before .. " " .. tag]) end
    end
    local determiners = seen["determiner adjective"] + seen["determiner noun"]
    assert.is_true(close(seen["determiner noun"] / determiners, 1 / 2, 0, 0.07))
    assert.is_true(close(seen["start pronoun"] / 200, 1 / 3, 0, 0.12))
  end)
end)


describe("masked words", function()
  local LINE = "^the (%a+) (%a+) (%a+) (%a+) and the (%a+) (%a+) (%a+) (%a+)$"

  it("hide words of sentences that are true", function()
    local facts = {}
    local x, y = tasks.masked{size = 400, rule = "plain", rate = 0.2}()
    local tokens = tasks.tokens.masked.x
    assert.is_true(x:eq(#tokens):equal(y:ne(-100)))
    local share = y:ne(-100):to("float32"):mean():item()
    assert.is_true(close(share, 0.2, 0, 0.03), share)
    for _, row in ipairs(words(tokens, heed.where(y:eq(-100), x, y))) do
      local alike, a, b, c, same, d, e, f = table.concat(row, " "):match(LINE)
      assert.equal(alike, same)
      for _, fact in ipairs{{a, b, c}, {d, e, f}} do
        facts[fact[1]] = facts[fact[1]] or fact[2] .. fact[3]
        assert.equal(facts[fact[1]], fact[2] .. fact[3])
      end
    end
  end)

  it("are hidden as BERT's unless the options say otherwise", function()
    local x, y = tasks.masked{size = 1000}()
    local chosen = y:ne(-100)
    local shown = x[chosen]:eq(#tasks.tokens.masked.x):to("float32"):mean():item()
    assert.is_true(close(shown, 0.8, 0, 0.04), shown)
    assert.is_true(close(chosen:to("float32"):mean():item(), 0.15, 0, 0.02))
  end)

  it("may be any word in the place of another", function()
    local x, y = tasks.masked{size = 4000, rate = 0.9, seed = 1}()
    local hidden = #tasks.tokens.masked.x                      -- the last one
    local seen, n = {}, 0
    for _, id in ipairs(x[y:ne(-100):logical_and(x:ne(y)):logical_and(x:ne(hidden))]:totable()) do
      if not seen[id] then seen[id], n = true, n + 1 end
    end
    assert.equal(hidden - 1, n)
    for id = 1, hidden - 1 do assert.is_true(seen[id], id) end
  end)
end)


describe("sequence to sequence", function()
  local UNITS = {
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    twenty = 20, thirty = 30, forty = 40, fifty = 50, sixty = 60, seventy = 70, eighty = 80,
    ninety = 90,
  }
  for n = 1, 19 do UNITS[UNITS[n]] = n end

  local function value_of(spoken)
    local total, part = 0, 0
    for _, word in ipairs(spoken) do
      if word == "hundred" then part = part * 100
      elseif word == "thousand" then total, part = total + part * 1000, 0
      else part = part + UNITS[word] end
    end
    return total + part
  end

  local function answer(row)
    return table.concat(row, ""):match("^%[begin%]([%d-]+)%[end%]([pad%[%]]*)$")
  end

  it("reads number words", function()
    local tokens = tasks.tokens.numbers
    for _, most in ipairs{9, 21, 999, 999999} do
      local x, y, lengths = tasks.seq2seq{most = most, size = 200, seed = 3}()
      local sources, targets = words(tokens.x, x), words(tokens.y, y)
      for i, n in ipairs(lengths:totable()) do
        local spoken = table.move(sources[i], 1, n, 1, {})
        for t = n + 1, #sources[i] do assert.equal("[pad]", sources[i][t]) end
        local value = value_of(spoken)
        assert.is_true(value >= 1 and value <= most)
        assert.equal(tostring(value), (answer(targets[i])))
      end
    end
  end)

  it("reads dates in two forms", function()
    local tokens = tasks.tokens.dates
    local x, y, lengths = tasks.seq2seq{rule = "dates", size = 200}()
    local sources, targets = words(tokens.x, x), words(tokens.y, y)
    local month_number = {}
    for k = 1, 12 do month_number[tokens.x[10 + k]] = k end
    for i, n in ipairs(lengths:totable()) do
      local said = table.concat(table.move(sources[i], 1, n, 1, {}))
      local day, month, year = said:match("^(%d+)(%a+)(%d%d%d%d)$")
      if not day then month, day, year = said:match("^(%a+)(%d+)(%d%d%d%d)$") end
      local wanted = ("%s-%02d-%02d"):format(year, month_number[month], day)
      assert.equal(wanted, (answer(targets[i])))
    end
  end)

  it("has all days of each month, but that which leap years have", function()
    local last, first_year, last_year = {}, math.huge, -math.huge
    local _, y = tasks.seq2seq{rule = "dates", size = 8000}()
    for _, target in ipairs(words(tasks.tokens.dates.y, y)) do
      local year, month, day = answer(target):match "^(%d+)%-(%d+)%-(%d+)$"
      year, month = tonumber(year), tonumber(month)
      first_year, last_year = math.min(first_year, year), math.max(last_year, year)
      last[month] = math.max(last[month] or 0, tonumber(day))
    end
    assert.same({31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}, last)
    assert.same({1900, 2099}, {first_year, last_year})
  end)
end)


describe("image patches", function()
  it("has one figure in each image, which tells its class", function()
    local x, y = tasks.patches{size = 100, side = 9, noise = 0}()
    assert.equal("(100, 1, 9, 9)", tostring(x.shape))
    assert.equal("float32", x.dtype)
    local ink, shapes, places = {16, 9, 9, 8}, {}, {}
    for i, class in ipairs(y:totable()) do
      local image = x[{i, 1}]
      assert.equal(ink[class], image:sum():item())
      local rows, columns = image:sum(2):gt(0), image:sum(1):gt(0)
      local top, left = rows:nonzero()[{1, 1}], columns:nonzero()[{1, 1}]
      places[top .. " " .. left] = true
      local figure = image:narrow(1, top, 5):narrow(2, left, 5)
      if shapes[class] then assert.is_true(shapes[class]:equal(figure)) end
      shapes[class] = figure
    end
    assert.equal(4, #shapes)
    assert.is_true(places["1 1"] or places["5 5"] or places["3 4"])
  end)

  it("adds noise, and puts figures where its rule says", function()
    local noisy = tasks.patches{seed = 1, noise = 0.5}()
    local noise = noisy - (tasks.patches{seed = 1, noise = 0}())
    assert.is_true(close(noise:std():item(), 0.5, 0, 0.02))
    local still = tasks.patches{size = 5, noise = 0, rule = "centre"}()
    assert.equal(0, still:narrow(3, 1, 3):sum():item())
    local corner = tasks.patches{size = 5, noise = 0, rule = function() return 0, 0 end}()
    assert.equal(0, corner:narrow(3, 6, 7):sum():item())
    assert.matches("two distances from 0 to 7 expected from rule, got 9",
                   message(tasks.patches{rule = function() return 9, 0 end}))
  end)
end)
