-- Limits of tokenizer.json: values at a limit are taken, and values one beyond it are refused.

local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local tokenizer_of = require "spec.support.tokenizer_of"

-- A BPE model of single characters beside these parts.
local function with(parts)
  local file = {model = {type = "BPE", vocab = {["?"] = 0, a = 1, b = 2}, merges = json.array{},
                         unk_token = "?"}}
  for name, part in pairs(parts) do file[name] = part end
  return tokenizer_of(json.encode(file))
end

local function list(n, part)
  local parts = json.array{}
  for i = 1, n do parts[i] = part end
  return parts
end

local function split(pattern)
  return {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated", invert = false}
end

local function strip(start, stop)
  return {decoder = {type = "Strip", content = "a", start = start, stop = stop}}
end

local function template(type_id)
  local pieces = json.array{{Sequence = {id = "A", type_id = type_id}}}
  return {post_processor = {type = "TemplateProcessing", single = pieces, pair = pieces,
                            special_tokens = {}}}
end

local function pretokenizers(n)
  local parts = list(n, {type = "WhitespaceSplit"})
  return {pre_tokenizer = {type = "Sequence", pretokenizers = parts}}
end

local function decoders(n)
  return {decoder = {type = "Sequence", decoders = list(n, {type = "ByteFallback"})}}
end

local function wordpiece(most)
  return {model = {type = "WordPiece", vocab = {["?"] = 0}, unk_token = "?",
                   max_input_chars_per_word = most}}
end

local function pattern(text) return {pre_tokenizer = split(text)} end

local function groups(n) return pattern(("("):rep(n) .. "a" .. (")"):rep(n)) end

local function marked(mark)
  return {pre_tokenizer = {type = "Metaspace", replacement = mark, prepend_scheme = "always"}}
end


describe("a limit of tokenizer.json", function()
  for name, case in pairs{
    ["of pre-tokenizers"] = {pretokenizers(8), pretokenizers(9),
                             "at most 8 pre-tokenizers expected"},
    ["of decoders"] = {decoders(8), decoders(9), "at most 8 decoders expected"},
    ["of what a decoder strips at the start"] = {
      strip(16, 0), strip(17, 0), "the decoder Strip: 'start' and 'stop' from 0 to 16 expected"},
    ["of what a decoder strips at the end"] = {
      strip(0, 16), strip(0, 17), "the decoder Strip: 'start' and 'stop' from 0 to 16 expected"},
    ["of types of texts"] = {template(255), template(256),
                             "the template's type_id is not of a known kind"},
    ["of digits of a whole number"] = {wordpiece(999999999999999), wordpiece(1000000000000000),
                                       "a count as 'max_input_chars_per_word' expected"},
    ["of a pattern's bytes"] = {
      pattern(("a"):rep(4096)), pattern(("a"):rep(4097)),
      "regular expression: more than 4096 bytes at '" .. ("a"):rep(40) .. "'"},
    ["of a pattern's groups"] = {groups(32), groups(33), "too many groups inside each other"},
    ["of a pattern's counts"] = {pattern "a{99999}", pattern "a{100000}",
                                 "{m}, {m,} or {m,n} expected at '{100000}'"},
    ["of a pattern's higher counts"] = {pattern "a{1,99999}", pattern "a{1,100000}",
                                        "{m}, {m,} or {m,n} expected at '{1,100000}'"},
    ["of a mark's bytes"] = {
      marked "\u{10000}", marked "\u{10000}a",
      "the pre-tokenizer Metaspace: one character as 'replacement' expected"},
  } do
    it(name .. " is itself within", function()
      assert(with(case[1]))
      local tok, why = with(case[2])
      assert.is_nil(tok)
      assert.is_truthy(why:find(case[3], 1, true), why)
    end)
  end

  it("of a refused pattern's text is 40 bytes", function()
    for n, wanted in pairs{[38] = "\\q" .. ("a"):rep(38), [39] = "\\q" .. ("a"):rep(38)} do
      local _, why = with(pattern("\\q" .. ("a"):rep(n)))
      assert.is_truthy(why:find("an unknown escape at '" .. wanted .. "'", 1, true), why)
    end
  end)

  it("of FixedLength is itself the length of a word", function()
    for length, wanted in pairs{[1] = 3, [2] = 2, [10000] = 2} do
      local text = ("a"):rep(length < 3 and 3 or length + 1)
      local tok = assert(with{
        model = {type = "WordLevel", vocab = {["?"] = 0}, unk_token = "?"},
        pre_tokenizer = {type = "FixedLength", length = length},
      })
      local _, offsets = tok:encode(text, {offsets = true})
      local places = offsets:totable()
      assert.equal(wanted, #places)
      assert.same({1, length}, places[1])
      assert.same({(wanted - 1) * length + 1, #text}, places[wanted])
    end
  end)

  it("of ids is the file's size", function()
    local function file(id)
      local text = ('{"model":{"type":"WordLevel","vocab":{"a":%d},"unk_token":"a"}}'):format(id)
      return text .. (" "):rep(200 - #text)
    end
    assert.equal(200, #assert(tokenizer_of(file(199))))
    local tok, why = tokenizer_of(file(200))
    assert.is_nil(tok)
    assert.is_truthy(why:find("a token's id below the file's size expected, got 'a'", 1, true), why)
  end)

  it("of lists inside each other is 64 with the file's own table", function()
    local function file(n)
      return ('{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"more":%s}')
             :format(("["):rep(n) .. ("]"):rep(n))
    end
    assert(tokenizer_of(file(63)))
    local tok, why = tokenizer_of(file(64))
    assert.is_nil(tok)
    local at = file(64):find("[", 1, true) + 63
    assert.is_truthy(why:find("the JSON: nested too deep at byte " .. at, 1, true), why)
  end)

  it("of a quoted name is 60 bytes, of a token's 80, and of a word's 60", function()
    for n, shown in pairs{[60] = 60, [61] = 60} do
      local _, why = with{decoder = {type = ("x"):rep(n)}}
      assert.is_truthy(why:find("the decoder '" .. ("x"):rep(shown) .. "' is not known", 1, true))
      local tok = assert(with{model = {type = "WordLevel", vocab = {a = 0}, unk_token = "?"}})
      assert.error_matches(function() tok:encode(("x"):rep(n)) end,
                           "expected, got '" .. ("x"):rep(shown) .. "'$")
    end
    for n, shown in pairs{[80] = 80, [81] = 80} do
      local _, why = with{model = {type = "WordLevel", vocab = {[("x"):rep(n)] = 1e6}}}
      assert.is_truthy(why:find("size expected, got '" .. ("x"):rep(shown) .. "'", 1, true), why)
    end
  end)

  it("of the steps of a pattern is 100000, and 256 for each byte that is left", function()
    local tok = assert(with(pattern(("a*"):rep(9) .. "b")))
    for _, n in ipairs{60, 100} do
      assert.error_matches(function() tok:encode(("a"):rep(n)) end,
                           ("regular expression: more than %d steps for one match")
                           :format(100000 + 256 * n))
    end
  end)

  it("of ids is shared by two texts, the longer of which loses first", function()
    local tok = assert(with{})
    for first = 0, 6 do
      for second = 0, 6 do
        for most = 1, 13 do
          -- As the package does it: the shorter keeps all that it may.
          local less = math.min(first, second)
          local more = less > most and less or math.max(less, most - less)
          if less + more > most then
            less = most // 2
            more = less + most % 2
          end
          if first + second <= most then less, more = nil, nil end
          local a = not less and first or first > second and more or less
          local b = not less and second or first > second and less or more
          for _, left in ipairs{false, true} do
            local it = left and assert(with{truncation = {direction = "Left"}}) or tok
            local one, two = ("b"):rep(first - 1) .. "a", ("b"):rep(second - 1) .. "a"
            if first == 0 then one = "" end
            if second == 0 then two = "" end
            local ids, offsets, types = it:encode(one, {pair = two, max = most, offsets = true,
                                                        types = true})
            local counts, places = {0, 0}, offsets:totable()
            for i, of in ipairs(types:totable()) do
              counts[of] = counts[of] + 1
              local skipped = left and (of == 1 and first - a or second - b) or 0
              assert.equal(skipped + counts[of], places[i][1])
            end
            assert.same({a, b}, counts, ("%d %d %d"):format(first, second, most))
            assert.equal(a + b, #ids)
          end
        end
      end
    end
  end)

  it("of a pattern is 128 groups and repetitions, and any number of other parts", function()
    local function trained(by)
      return pcall(heed.tokenizer.train,
                   {kind = "bpe", text = "ab", vocabulary = 260, pattern = by})
    end
    for _, part in ipairs{"a?", "(?:a)"} do
      assert.is_true(trained(("ab^"):rep(1000) .. part:rep(128)))
      local good, why = trained(part:rep(129))
      assert.is_false(good)
      assert.is_truthy(why:find("too many groups and repetitions", 1, true), why)
    end
  end)

  it("of a text that a normalizer makes is 64 times the text, and 64 KiB", function()
    local function growing(times, added)
      return assert(with{
        model = {type = "WordLevel", vocab = {["?"] = 0}, unk_token = "?"}, added_tokens = added,
        normalizer = {type = "Replace", pattern = {String = "a"}, content = ("b"):rep(times)},
      })
    end
    local marks = json.array{{id = 1, content = "x", special = false, normalized = false}}
    local text = ("a"):rep(10000)
    assert.equal(1, #growing(70):encode(text))
    for _, case in ipairs{{growing(71), text}, {growing(140, marks), ("ax"):rep(10000)}} do
      local why = message(case[1].encode, case[1], case[2], {parse = true})
      assert.is_truthy(why:find("a text that grows by at most 64 times expected", 1, true), why)
    end
  end)

  it("of what stands around a text is 4096 pieces, and 8 texts", function()
    local function around(n, texts)
      local single = json.array{}
      for i = 1, texts or 1 do single[i] = {Sequence = {id = "A", type_id = 0}} end
      for i = 2, n do single[i] = {SpecialToken = {id = "?", type_id = 0}} end
      return with{
        model = {type = "WordLevel", vocab = {["?"] = 0}, unk_token = "?"},
        post_processor = {
          type = "TemplateProcessing", single = single, pair = json.array{},
          special_tokens = {["?"] = {id = "?", ids = json.array{0}, tokens = json.array{"?"}}},
        },
      }
    end
    assert.equal(4096, #assert(around(4096)):encode "a")
    assert.equal(8, #assert(around(1, 8)):encode "a")
    assert.is_nil(around(1, 9))
    local tok, why = around(4097)
    assert.is_nil(tok)
    assert.is_truthy(why:find("at most 4096 pieces expected", 1, true), why)
  end)

  it("of the texts that a decoder makes is 16 times the file", function()
    local file = json.encode{
      model = {type = "WordLevel", vocab = {[("a"):rep(100)] = 0}, unk_token = "?"},
      decoder = {type = "Replace", content = ("x"):rep(320), pattern = {Regex = "."}},
    }
    local function sized(n) return tokenizer_of(file .. (" "):rep(n - #file)) end
    assert.equal(32000, #assert(sized(2000)):decode{1})
    local tok, why = sized(1999)
    assert.is_nil(tok)
    assert.is_truthy(why:find("texts of at most 16 times the file expected", 1, true), why)
  end)

  -- The first token keeps its prefix, which the others lose: the text is longer than theirs.
  it("of a text in memory is that with its first token's prefix", function()
    local prefix = ("#"):rep(200000)
    local tok = assert(with{
      model = {type = "WordLevel", vocab = {[prefix .. "b"] = 0, x = 1}, unk_token = "?"},
      decoder = {type = "WordPiece", prefix = prefix, cleanup = false},
    })
    local ids = {1}
    for i = 2, 75001 do ids[i] = 2 end
    assert.is_true(tok:decode(ids) == prefix .. "b" .. (" x"):rep(75000))
  end)
end)
