-- Kinds of parts of tokenizer.json that few files have, beside the package `tokenizers` 0.23: the
-- same tokens, places and texts.

local json = require "heed.files.json"
local tokenizer_of = require "spec.support.tokenizer_of"

-- A BPE model of these pieces, whose ids count from 0 in their order.
local function bpe(pieces, merges)
  local vocab = {}
  for i, piece in ipairs(pieces) do vocab[piece] = i - 1 end
  return {type = "BPE", vocab = vocab, merges = json.array(merges or {}), unk_token = pieces[1]}
end

local function with(model, parts)
  local file = {model = model}
  for name, part in pairs(parts) do file[name] = part end
  return tokenizer_of(json.encode(file))
end

-- The tokens of a text and their bytes, half open from 0.
local function shown(tok, text)
  local ids, offsets = tok:encode(text, {special = false, parse = true, offsets = true})
  local names, places = {}, {}
  for i, id in ipairs(ids:totable()) do names[i] = tok:token(id) end
  for i, at in ipairs(offsets:totable()) do places[i] = ("%d-%d"):format(at[1] - 1, at[2]) end
  return table.concat(names, "|") .. "  " .. table.concat(places, " ")
end

local function compare(tok, cases)
  for text, wanted in pairs(cases) do
    assert.equal(wanted, shown(tok, text), ("%q"):format(text))
  end
end

local LETTERS <const> = bpe({"?", "a", "b", "c", " ", "é", "ab", "abc"},
                            {{"a", "b"}, {"ab", "c"}})
local BYTES <const> = bpe({"?", "Ġ", "a", "b", "Ã", "©", "Ġa", "Ã©", "Ġb"},
                          {{"Ġ", "a"}, {"Ã", "©"}, {"Ġ", "b"}})
local MARK <const> = json.array{{id = 9, content = "<m>", special = false, normalized = false}}
local SPACED <const> = {type = "ByteLevel", add_prefix_space = true, trim_offsets = true,
                        use_regex = true}


describe("the BPE model", function()
  local function added(content, parts, more)
    local model = bpe{"?", "a", "b"}
    for name, part in pairs(more or {}) do model[name] = part end
    parts.added_tokens = json.array{{id = 3, content = content, special = true}}
    return with(model, parts)
  end

  it("has no added tokens among its own", function()
    local function names(tok, text)
      return #tok:encode(text, {special = false}):eq(tok:id "?"):nonzero()
    end
    assert.equal(1, names(assert(added("c", {})), "acb"))
    local lower = assert(added("ab", {normalizer = {type = "Lowercase"}}, {ignore_merges = true}))
    assert.equal(2, #lower:encode("AB", {special = false}))
    local tok, why = added("c", {}, {merges = json.array{{"a", "c"}}})
    assert.is_nil(tok)
    assert.matches("two tokens of the vocabulary expected", why)
  end)
end)


describe("the normalizer", function()
  it("Nmt drops control characters and makes spaces of blanks and marks", function()
    compare(assert(with(LETTERS, {normalizer = {type = "Nmt"}})), {
      ["a\u{200b}b\x7fc"] = "a| |b|c  0-1 1-4 4-5 6-7",
      ["\1a\u{feff}\tb"] = "a| | |b  1-2 2-5 5-6 6-7",
      ["\u{85}a\u{8f}b"] = "?|ab  0-2 2-6",
      ["a\0b"] = "a|?|b  0-1 1-2 2-3",
    })
  end)

  it("Nmt changes these characters alone", function()
    local tok = assert(with(bpe{"?", "x", "y", " "}, {normalizer = {type = "Nmt"}}))
    local dropped, spaces = {}, {}
    for point = 1, 0xffff do
      if point < 0xd800 or point > 0xdfff then
        local tokens = shown(tok, "x" .. utf8.char(point) .. "y"):match("^(.-)  ")
        if tokens == "x|y" then dropped[#dropped + 1] = ("%x"):format(point)
        elseif tokens == "x| |y" and point ~= 32 then spaces[#spaces + 1] = ("%x"):format(point)
        end
      end
    end
    assert.equal("1 2 3 4 5 6 7 8 b e f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f 7f 8f 9f",
                 table.concat(dropped, " "))
    assert.equal("9 a c d 1680 200b 200c 200d 200e 200f 2028 2029 2581 feff fffd",
                 table.concat(spaces, " "))
  end)

  it("ByteLevel writes bytes as the characters of names", function()
    local tok = assert(with(BYTES, {normalizer = {type = "ByteLevel"}, decoder = SPACED,
                                    added_tokens = MARK}))
    compare(tok, {["a b"] = "a|Ġb  0-1 1-3", ["éa <m>b"] = "Ã©|a|Ġ|<m>|b  0-2 2-3 3-4 4-7 7-8"})
    assert.equal("éa <m>b", tok:decode(tok:encode "éa <m>b"))
    compare(tok, {["a\xc3\xa9\xc3"] = "a|Ã©|Ã  0-1 1-3 3-4"})
  end)
end)


describe("the pre-tokenizer", function()
  it("ByteLevel puts a blank in front of what has none", function()
    local parts = {pre_tokenizer = SPACED, decoder = SPACED, added_tokens = MARK}
    compare(assert(with(BYTES, parts)), {
      ["a b"] = "Ġa|Ġb  0-1 1-3", ["  a"] = "Ġ|Ġa  0-1 1-3", ["b<m>b"] = "Ġb|<m>|Ġb  0-1 1-4 4-5",
      ["éa"] = "Ġ|Ã©|a  0-2 0-2 2-3", ["<m>"] = "<m>  0-3", ["<m> a"] = "<m>|Ġa  0-3 3-5",
      [""] = "  ",
    })
    parts.post_processor = SPACED
    local tok = assert(with(BYTES, parts))
    compare(tok, {
      ["a b"] = "Ġa|Ġb  0-1 2-3", ["  a"] = "Ġ|Ġa  0-0 2-3", ["b<m>b"] = "Ġb|<m>|Ġb  0-1 1-4 5-5",
      ["éa"] = "Ġ|Ã©|a  0-0 0-2 2-3", ["<m> a"] = "<m>|Ġa  0-3 4-5",
    })
    assert.equal(" b<m> b", tok:decode(tok:encode "b<m>b"))
  end)

  it("that follows ByteLevel sees the characters of names", function()
    local model = bpe({"?", "Ã", "²", "Ã²", "1", "2", "3", "4", "12", "123", "1234", "Ġ", "Ġ1"},
                      {{"Ã", "²"}, {"1", "2"}, {"12", "3"}, {"123", "4"}, {"Ġ", "1"}})
    local bytes = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true}
    local function behind(...)
      local list = json.array{bytes, ...}
      return assert(with(model, {pre_tokenizer = {type = "Sequence", pretokenizers = list}}))
    end
    local three = {type = "Split", pattern = {Regex = "[0-9][0-9][0-9]"}, behavior = "Isolated",
                   invert = false}                                      -- as Falcon has it
    compare(behind({type = "Digits", individual_digits = false}, three), {
      ["ò"] = "Ã|²  0-2 0-2", ["ò1234"] = "Ã|²|123|4  0-2 0-2 2-5 5-6",
      [" 1234"] = "Ġ|123|4  0-1 1-4 4-5", [" 1ò"] = "Ġ|1|Ã|²  0-1 1-2 2-4 2-4",
    })
    compare(behind{type = "FixedLength", length = 3}, {
      ["1234"] = "123|4  0-3 3-4", ["òò"] = "Ã²|Ã|²  0-2 2-4 2-4",
    })
    bytes.use_regex = false
    compare(behind{type = "FixedLength", length = 3},
            {["ò1234"] = "Ã²|1|2|3|4  0-2 2-3 3-4 4-5 5-6"})
  end)

  it("CharDelimiterSplit drops what it splits at", function()
    compare(assert(with(LETTERS, {
      pre_tokenizer = {type = "CharDelimiterSplit", delimiter = "b"},
    })), {abcab = "a|c|a  0-1 2-3 3-4", bb = "  "})
  end)

  it("FixedLength cuts so many characters", function()
    compare(assert(with(LETTERS, {pre_tokenizer = {type = "FixedLength", length = 2}})),
            {["abcabcé"] = "ab|c|a|b|c|é  0-2 2-3 3-4 4-5 5-6 6-8",
             ["ééab"] = "é|é|ab  0-2 2-4 4-6"})
  end)

  it("Split takes a text for its pattern, whose signs stand for themselves", function()
    local function split(pattern)
      return with(LETTERS, {pre_tokenizer = {type = "Split", pattern = {String = pattern},
                                             behavior = "Removed", invert = false}})
    end
    compare(assert(split "b"), {abcab = "a|c|a  0-1 2-3 3-4"})
    compare(assert(split ".*"), {["ab.*ab"] = "ab|ab  0-2 4-6", ab = "ab  0-2"})
    local tok, why = split ""
    assert.is_nil(tok)
    assert.matches("the pre%-tokenizer Split: a pattern of some text expected", why)
  end)
end)


describe("the model WordLevel", function()
  local vocab = {["?"] = 0, a = 1, bc = 2, ["é"] = 3}
  local words = {pre_tokenizer = {type = "WhitespaceSplit"}}

  it("has a token for each word", function()
    local tok = assert(with({type = "WordLevel", vocab = vocab, unk_token = "?"}, words))
    compare(tok, {["a bc é d"] = "a|bc|é|?  0-1 2-4 5-7 8-9", abc = "?  0-3"})
    assert.equal("a bc é ?", tok:decode(tok:encode "a bc é d"))
  end)

  it("refuses a word that it does not know, without a token for those", function()
    local tok = assert(with({type = "WordLevel", vocab = vocab, unk_token = "none"}, words))
    assert.equal("a|bc  0-1 2-4", shown(tok, "a bc"))
    for _, call in ipairs{function() tok:encode "a longer" end,
                          function() tok:encode("a", {pair = "bc longer"}) end} do
      assert.has_error(call, "encode: the WordLevel model: a word of the vocabulary, or an " ..
        "unk_token in it, expected, got 'longer'")
    end
  end)
end)


describe("the decoder CTC", function()
  local PIECES <const> = {"?", "<p>", "|", "h", "e", "l", "o", ".", "n't", " "}
  -- Ids from 0, their text, and that without clean-up.
  local CASES <const> = {
    {{3, 3, 4, 1, 5, 5, 1, 5, 6, 2, 3}, "hello h", "hello|h"},
    {{2, 2, 7, 2, 8}, " . n't", "|.|n't"}, {{1}, "", ""}, {{}, "", ""},
    {{5, 1, 5, 5, 0, 0}, "ll?", "ll?"}, {{9, 7, 9, 9, 8}, " . n't", " . n't"},
  }

  it("joins equal neighbours and drops the padding between them", function()
    for _, cleanup in ipairs{true, false} do
      local tok = assert(with(bpe(PIECES), {decoder = {
        type = "CTC", pad_token = "<p>", word_delimiter_token = "|", cleanup = cleanup,
      }}))
      for _, case in ipairs(CASES) do
        local ids, stream, text = {}, tok:stream(), ""
        for i, id in ipairs(case[1]) do ids[i] = id + 1 end
        local wanted = case[cleanup and 2 or 3]
        assert.equal(wanted, tok:decode(ids))
        for _, id in ipairs(ids) do text = text .. stream:push(id) end
        assert.equal(wanted, text .. stream:finish())
        assert.equal(tok:decode{4}, stream:push(4) .. stream:finish())
      end
    end
  end)
end)


it("parts that lack something, or are not known, are refused by name", function()
  local function why(name, part)
    local tok, text = with(LETTERS, {[name] = part})
    assert.is_nil(tok)
    return text
  end
  for _, length in ipairs{0, 10001, "x"} do
    assert.matches("the pre%-tokenizer FixedLength: a 'length' from 1 to 10000 expected",
                   why("pre_tokenizer", {type = "FixedLength", length = length}))
  end
  assert.matches("CharDelimiterSplit: a 'delimiter' expected",
                 why("pre_tokenizer", {type = "CharDelimiterSplit", delimiter = ""}))
  assert.matches("the pre%-tokenizer 'UnicodeScripts' is not known",
                 why("pre_tokenizer", {type = "UnicodeScripts"}))
  assert.matches("CTC: texts as 'pad_token' and 'word_delimiter_token' expected",
                 why("decoder", {type = "CTC", pad_token = "x"}))
  local ctc = {type = "CTC", pad_token = "x", word_delimiter_token = "|"}
  for _, list in ipairs{{ctc, {type = "ByteFallback"}}, {{type = "ByteFallback"}, ctc}} do
    assert.matches("CTC: no other decoder beside it expected",
                   why("decoder", {type = "Sequence", decoders = list}))
  end
  local vocab = json.array{json.array{"?", 0.0}}
  for _, model in ipairs{{type = "Unigram", unk_id = 0, vocab = vocab},
                         {type = "WordPiece", unk_token = "?", vocab = {["?"] = 0}}} do
    local tok, text = with(model, {pre_tokenizer = SPACED})
    assert.is_nil(tok)
    assert.matches("ByteLevel: the model BPE or WordLevel expected, got " .. model.type, text)
  end
  local fallback = bpe{"?", "a"}
  fallback.byte_fallback = true
  assert.matches("a token for each byte expected where byte_fallback stands beside ByteLevel",
                 select(2, with(fallback, {pre_tokenizer = SPACED})))
  local mark = {type = "Metaspace", replacement = "▁", prepend_scheme = "always"}
  local bytes = {type = "ByteLevel", add_prefix_space = false}
  for name, part in pairs{Metaspace = mark, ByteLevel = bytes} do
    assert.matches(("the pre%%-tokenizer %s: no ByteLevel before it expected"):format(name),
                   why("pre_tokenizer", {type = "Sequence", pretokenizers = {bytes, part}}))
  end
  for _, list in ipairs{{SPACED, mark}, {mark, SPACED}, {SPACED, SPACED}} do
    assert.matches("one of it, or of add_prefix_space, expected",
                   why("pre_tokenizer", {type = "Sequence", pretokenizers = list}))
  end
end)
