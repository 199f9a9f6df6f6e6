-- Regular expressions of tokenizers: where they cut texts, beside what the package `tokenizers`
-- does (bench/patterns.py); what is refused, and how.

local files = require "spec.support.files"
local json = require "heed.files.json"
local load = require "spec.support.tokenizer_of"


local function load_pattern(pattern, given)
  local split = {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated"}
  for name, value in pairs(given or {}) do split[name] = value end
  return load(json.encode{
    model = {type = "WordLevel", vocab = {u = 0}, unk_token = "u"}, pre_tokenizer = split,
  })
end

-- The pieces of a text, each of which is a word that no vocabulary has.
local function pieces(pattern, text, given)
  local _, offsets = assert(load_pattern(pattern, given)):encode(text, {offsets = true})
  local list = {}
  for i, range in ipairs(offsets:totable()) do list[i] = text:sub(range[1], range[2]) end
  return list
end


describe("a regular expression", function()
  it("cuts texts where the package does", function()
    local cases = json.decode(assert(files.read "spec/golden/regex.json"))
    assert.equal(400, #cases)
    for _, case in ipairs(cases) do
      local pattern, text, wanted = table.unpack(case)
      assert.same(wanted, pieces(pattern, text), ("%q in %q"):format(pattern, text))
    end
  end)

  -- Python's unicodedata has the same categories for each character of Unicode 14.0.
  it("knows the category of each character, as Unicode 15.0 has it", function()
    local names = {"Cc", "Cf", "Cn", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd",
                   "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So",
                   "Zl", "Zp", "Zs"}
    local list, sum = {}, 0
    for c = 0, 0x10ffff do
      if c < 0xd800 or c > 0xdfff then list[#list + 1] = utf8.char(c) end
    end
    local text = table.concat(list)
    for bit = 0, 4 do                              -- of a category's number
      local set = {}
      for i, name in ipairs(names) do
        if i >> bit & 1 == 1 then set[#set + 1] = ("\\p{%s}"):format(name) end
      end
      local tok = load_pattern(("[%s]+"):format(table.concat(set)), {behavior = "Removed"})
      local _, offsets = tok:encode(text, {offsets = true})
      for _, range in ipairs(offsets:totable()) do
        for i = 1, 2 do sum = (sum ~ range[i]) * 0x100000001b3 end
      end
    end
    assert.equal("0a41a769d3a926c3", ("%016x"):format(sum))
  end)

  for name, case in pairs{
    ["the leftmost match, and of alternatives the first"] = {"ab|abc|b", "xabcb",
                                                             {"x", "ab", "c", "b"}},
    ["as many as there are"] = {"a+", "aabaaa", {"aa", "b", "aaa"}},
    ["as few as are needed"] = {"a+?b?", "aab", {"a", "ab"}},
    ["so many"] = {"a{2}", "aaaaa", {"aa", "aa", "a"}},
    ["from so many on"] = {"a{2,}", "abaaa", {"ab", "aaa"}},
    ["so many at most"] = {"a{1,2}", "aaa", {"aa", "a"}},
    ["nothing, where a repetition keeps what follows"] = {"a*+a", "aaa", {"aaa"}},
    ["less, where what follows needs it"] = {"a*ab", "aaab", {"aaab"}},
    ["what is ahead"] = {"\\s+(?!\\S)|\\s+", "a  b ", {"a", " ", " ", "b", " "}},
    ["what must be ahead"] = {"a(?=b)", "abac", {"a", "bac"}},
    ["any case"] = {"(?i:'s|k)", "a'SbKKs", {"a", "'S", "b", "K", "K", "s"}},
    ["the long s in any case"] = {"(?i:s)x?", "aſxS", {"a", "ſx", "S"}},
    ["characters by their numbers"] = {"\\x4B|\\x4f|\\u00E9|\\u20aC|\\x2F|\\x3A", "aKOé€b/:b",
                                       {"a", "K", "O", "é", "€", "b", "/", ":", "b"}},
    ["one of several letters beyond ASCII"] = {"[éß-ñλ]", "éaåλbóñ",
                                               {"é", "a", "å", "λ", "bó", "ñ"}},
    ["lines"] = {"^a|b$", "ab\nab\na", {"a", "b", "\n", "a", "b", "\n", "a"}},
    ["any character but the newline"] = {".", "é\na", {"é", "\n", "a"}},
    ["what is empty, between two characters"] = {"(?=b)", "abab", {"a", "ba", "b"}},
  } do
    it("matches " .. name, function()
      local pattern, text, wanted = table.unpack(case)
      assert.same(wanted, pieces(pattern, text))
    end)
  end

  it("that matches nothing cuts by each behaviour as one that matches something", function()
    for behavior, wanted in pairs{
      Isolated = {"xy", "by"}, Removed = {"xy", "by"}, MergedWithPrevious = {"xy", "by"},
      MergedWithNext = {"xy", "by"}, Contiguous = {"xy", "by"},
    } do
      for _, invert in ipairs{false, true} do
        local removed = behavior == "Removed" and invert
        assert.same(removed and {} or wanted,
                    pieces("(?=b)", "xyby", {behavior = behavior, invert = invert}), behavior)
      end
    end
  end)

  for pattern, why in pairs{
    ["a**"] = "a repetition of a repetition is not known at '**'",
    ["(a)*"] = "a repeated group is not known at '(a)*'",
    ["(?:a)+"] = "a repeated group is not known", ["(?:a){2}"] = "a repeated group is not known",
    ["(?:a)?+"] = "a repeated group is not known",
    ["(a"] = "the group does not end at '(a'", ["a)"] = "a group's end without its start at ')'",
    ["[a"] = "the class does not end at '[a'", ["[]"] = "the class does not end",
    ["[z-a]"] = "a range expected at 'z-a]'", ["[a-\\d]"] = "a range expected",
    ["[a[b]]"] = "a class inside a class is not known at '[b]]'",
    ["[a&&b]"] = "a class inside a class is not known at '&&b]'",
    ["*a"] = "nothing to repeat at '*a'", ["|{2}"] = "nothing to repeat",
    ["a{x}"] = "{m}, {m,} or {m,n} expected at '{x}'", ["a{2,1}"] = "{m}, {m,} or {m,n} expected",
    ["a{,2}"] = "{m}, {m,} or {m,n} expected",
    ["\\q"] = "an unknown escape at '\\q'", ["\\1"] = "an unknown escape",
    ["\\b"] = "an unknown escape", ["a\\"] = "an unknown escape at '\\'",
    ["\\x6"] = "hexadecimal digits expected at '\\x6'", ["\\u12g4"] = "hexadecimal digits expected",
    ["\\p{Xx}"] = "no such category at '\\p{Xx}'", ["\\p{L"] = "no such category",
    ["\\pL"] = "'{' expected at '\\pL'",
    ["(?<=a)b"] = "an unknown group at '(?<=a)b'", ["(?>a)"] = "an unknown group",
    ["(?i)a"] = "an unknown group",
    ["(?i:é)"] = "a letter beyond ASCII in any case is not known at 'é)'",
    ["(?i:[a-c])"] = "a range in any case is not known at 'a-c])'",
    [("("):rep(33) .. (")"):rep(33)] = "too many groups inside each other",
    [("a"):rep(4097)] = "more than 4096 bytes at 'aaaa",
  } do
    it(("refuses %s"):format(pattern:sub(1, 12)), function()
      local tok, message = load_pattern(pattern)
      assert.is_nil(tok)
      assert.is_truthy(message:find("regular expression: " .. why, 1, true), message)
    end)
  end

  it("refuses a repetition of a repetition", function()
    for _, first in ipairs{"?", "*", "+", "{2}", "*?", "++"} do
      for _, second in ipairs{"?", "*", "+", "{2}"} do
        local own = #first == 1 and (second == "?" or second == "+") or first .. second == "{2}?"
        local _, message = load_pattern("a" .. first .. second)
        local refused = message and message:find("a repetition of a repetition is not known at '"
                                                 .. first .. second, 1, true)
        assert.equal(not own, refused ~= nil, first .. second)
      end
    end
  end)

  -- Escapes of JSON are read in place: what they leave behind the pattern is none of it.
  it("ends where its text does", function()
    local text = json.encode{
      model = {type = "WordLevel", vocab = {u = 0}, unk_token = "u"},
      pre_tokenizer = {type = "Split", pattern = {Regex = "a][bcd"}, behavior = "Isolated"},
    }
    local tok, message = load((text:gsub('"a%]', '"\\u0061]')))
    assert.is_nil(tok)
    assert.is_truthy(message:find("the class does not end at '[bcd'", 1, true), message)
  end)

  it("quotes no half of a character", function()
    for i = 0, 3 do
      local _, message = load_pattern("\\q" .. ("a"):rep(i) .. ("\u{10000}"):rep(30))
      local quoted = message:match("at '(.*)'")
      assert.is_truthy(utf8.len(quoted))
      assert.is_true(#quoted > 36 and #quoted <= 40, quoted)
    end
  end)

  it("that comes back too often is refused as it runs", function()
    local tok = assert(load_pattern(("a*"):rep(9) .. "b"))
    assert.same({1}, tok:encode("b"):totable())
    assert.error_matches(function() tok:encode(("a"):rep(60)) end,
                         "regular expression: more than 11%d%d%d%d steps for one match")
    assert.same({1}, tok:encode("b"):totable())
  end)

  it("goes from part to part in one step", function()
    assert.same({("a"):rep(110)}, pieces(("a?"):rep(8) .. "b", ("a"):rep(110)))   -- two: up to 81
  end)
end)
