-- Parts of tokenizer.json in small files of the spec's own: added tokens that stand alone, or take
-- blanks; affixes; bytes that are missing; and what is refused.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"
local names_of = require "spec.support.pieces"

-- A tokenizer of a table, or nil and why it is refused. An empty list of merges is no object.
local function made(t)
  local path = os.tmpname()
  files.write(path .. ".json", (json.encode(t):gsub('"merges":{}', '"merges":[]')))
  local tok, why = heed.tokenizer.load(path .. ".json")
  os.remove(path .. ".json")
  os.remove(path)
  return tok, why
end

-- A BPE model of these pieces, whose ids count from 0 in their order.
local function bpe(pieces, merges, more)
  local vocab = {}
  for i, piece in ipairs(pieces) do vocab[piece] = i - 1 end
  local model = {type = "BPE", vocab = vocab, merges = merges, unk_token = pieces[1]}
  for name, value in pairs(more or {}) do model[name] = value end
  return model
end

local function added(id, content, more)
  local t = {id = id, content = content, special = false, normalized = false, lstrip = false,
             rstrip = false, single_word = false}
  for name, value in pairs(more) do t[name] = value end
  return t
end

-- The tokens of a text without special ones, by their names.
local function pieces(tok, text) return names_of(tok, text, {special = false}) end


describe("an added token", function()
  local PIECES <const> = {"?", "a", "t", "c", "é", " ", ".", "\u{3000}"}

  it("that is a single word is found where no letter touches it", function()
    local tok = assert(made{model = bpe(PIECES, {}),
                            added_tokens = {added(8, "cat", {single_word = true})}})
    assert.equal("cat", pieces(tok, "cat"))
    assert.equal(" |cat|.", pieces(tok, " cat."))
    assert.equal("a|c|a|t", pieces(tok, "acat"))
    assert.equal("é|c|a|t", pieces(tok, "écat"))
    assert.equal("c|a|t|a", pieces(tok, "cata"))
    assert.equal("c|a|t|é", pieces(tok, "caté"))
    assert.equal("a|?|cat", pieces(tok, "a\xffcat"))      -- a byte that is no character parts words
    tok = assert(made{model = bpe(PIECES, {}), normalizer = {type = "Lowercase"},
                      added_tokens = {added(8, "cat", {single_word = true, normalized = true})}})
    assert.equal("c|a|t|a", pieces(tok, "CATA"))
    assert.equal("cat", pieces(tok, "CAT"))               -- whatever stood behind it before
  end)

  it("takes blanks of any length at the sides that it says", function()
    local text = "a \u{3000} <m> \u{3000} a"
    for _, o in ipairs{{true, true, "a|<m>|a"}, {true, false, "a|<m>| |\u{3000}| |a"},
                       {false, true, "a| |\u{3000}| |<m>|a"}} do
      local tok = assert(made{model = bpe(PIECES, {}), added_tokens = {
        added(8, "<m>", {lstrip = o[1], rstrip = o[2]}),
      }})
      assert.equal(o[3], pieces(tok, text))
      assert.equal("<m>", pieces(tok, "<m>"))
    end
  end)
end)


it("an added token has the id of the model's token of its name", function()
  local tok = assert(made{model = bpe({"?", "a", "b", "ab"}, {}),
                          added_tokens = {added(4, "ab", {special = true}), added(5, "<m>", {})}})
  assert.same({2, 4, 6, 3}, tok:encode("aab<m>b", {special = false, parse = true}):totable())
  assert.equal("a <m> b", tok:decode{2, 4, 6, 3})
  assert.equal(4, tok:id "ab")
end)


it("an added token is found in blanks that the one before it took", function()
  for _, case in ipairs{
    {"<r>     a", "<r>|  |  | |a", {{"<r>", {rstrip = true}}, {"  ", {}}}},
    {"a<r>  <l>a", "a|<r>|  |?|?|?|a", {{"<r>", {rstrip = true}}, {"  ", {}}}},
    {"a<r> <y>a", "a|<r>| <y>|a", {{"<r>", {rstrip = true}}, {" <y>", {}}}},
    {"a<r>  <l>a", "a|<r>|<l>|a", {{"<r>", {rstrip = true}}, {"<l>", {lstrip = true}}}},
    {" y  y  y a", " y | y | y |a", {{" y ", {rstrip = true}}}},
    {"<r>  ya", "<r>| y|a", {{"<r>", {rstrip = true}}, {" y", {lstrip = true}}}},
  } do
    local list = {}
    for i, token in ipairs(case[3]) do list[i] = added(2 + i, token[1], token[2]) end
    local tok = assert(made{model = bpe({"?", "a", " "}, {}), added_tokens = list})
    assert.equal(case[2], pieces(tok, case[1]))
  end
end)


it("Metaspace puts its mark before a first word that nothing was dropped before", function()
  local mark = "\u{2581}"
  local function first(normalizer, more)
    local way = {type = "Metaspace", replacement = mark, prepend_scheme = "first"}
    for name, value in pairs(more or {}) do way[name] = value end
    return assert(made{model = bpe({"?", "a", mark}, {}), normalizer = normalizer,
                       pre_tokenizer = way, added_tokens = {added(3, "<m>", {})}})
  end
  local strip = {type = "Strip", strip_left = true, strip_right = true}
  local clean = {type = "BertNormalizer", clean_text = true}
  for _, case in ipairs{{strip, " a", "a"}, {strip, "a", mark .. "|a"}, {clean, "\u{200b}a", "a"},
                        {clean, "\u{200b}a<m>a", "a|<m>|a"}, {clean, " a", mark .. "|a"}} do
    assert.equal(case[3], pieces(first(case[1]), case[2]))
  end
  assert.equal(mark .. "|a", pieces(first(strip, {doubles = true}), " a"))
end)


it("an added token that takes blanks loses them where offsets do", function()
  for prefix, wanted in pairs{
    [true] = {["a <m> b"] = "0-1 2-5 6-7", [" <m>"] = "0-4", ["  <m>  "] = "2-5",
              ["a\u{3000}<m>\u{3000}"] = "0-1 4-7", ["\u{3000}<m>a"] = "0-6 6-7"},
    [false] = {["a <m> b"] = "0-1 2-5 6-7", [" <m>"] = "1-4", ["  <m>  "] = "2-5",
               ["\u{3000}<m>a"] = "3-6 6-7"},
  } do
    local level = {type = "ByteLevel", add_prefix_space = prefix, trim_offsets = true}
    local tok = assert(made{
      model = bpe({"?", "a", "b", "Ġ"}, {}), post_processor = level,
      pre_tokenizer = {type = "ByteLevel", add_prefix_space = false},
      added_tokens = {added(4, "<m>", {lstrip = true, rstrip = true})},
    })
    for text, places in pairs(wanted) do
      local _, offsets = tok:encode(text, {special = false, offsets = true})
      local list = {}
      for i, at in ipairs(offsets:totable()) do list[i] = ("%d-%d"):format(at[1] - 1, at[2]) end
      assert.equal(places, table.concat(list, " "), text)
    end
  end
end)


describe("a BPE model", function()
  it("marks what goes on within a word, or ends it", function()
    local tok = assert(made{model = bpe({"?", "a", "##b", "ab", "##c"}, {{"a", "##b"}},
                                        {continuing_subword_prefix = "##"})})
    assert.equal("ab", pieces(tok, "ab"))
    assert.equal("a|##c", pieces(tok, "ac"))
    tok = assert(made{model = bpe({"?", "a", "b", "b</w>", "ab</w>"}, {{"a", "b</w>"}},
                                  {end_of_word_suffix = "</w>"})})
    assert.equal("ab</w>", pieces(tok, "ab"))
    assert.equal("b|b</w>", pieces(tok, "bb"))
  end)

  it("has affixes of up to 64 bytes, both at one character too", function()
    local prefix, suffix = ("p"):rep(64), ("s"):rep(64)
    local last = prefix .. "é" .. suffix
    local tok = assert(made{model = bpe({"?", "a", last}, {}, {
      continuing_subword_prefix = prefix, end_of_word_suffix = suffix,
    })})
    assert.equal("a|" .. last, pieces(tok, "aé"))
    local _, why = made{model = bpe({"?"}, {}, {end_of_word_suffix = suffix .. "s"})}
    assert.matches("a prefix or suffix of at most 64 bytes expected", why)
  end)

  it("joins words of any length, of few characters and of many", function()
    local tok = assert(made{model = bpe({"?", "a", "b", "ab"}, {{"a", "b"}})})
    for n = 1, 60 do
      local word = ("b"):rep(n % 2) .. ("ab"):rep(n // 2)
      local wanted = (n % 2 == 1 and "b|" or "") .. ("ab|"):rep(n // 2)
      assert.equal(wanted, pieces(tok, word) .. "|", n)
    end
  end)

  it("refuses an affix that is no short text", function()
    for _, name in ipairs{"continuing_subword_prefix", "end_of_word_suffix"} do
      for _, affix in ipairs{5, ("x"):rep(100000)} do
        local tok, why = made{model = bpe({"?", "a"}, {}, {[name] = affix})}
        assert.is_nil(tok)
        assert.matches("the BPE model: a prefix or suffix of at most %d+ bytes expected", why)
      end
    end
  end)
end)


describe("bytes of what is unknown", function()
  it("are the unknown token unless all of them are there", function()
    local vocab = {{"<unk>", 0}, {"a", -1}, {"<0xC3>", -2}, {"<0xA9>", -2}}
    local tok = assert(made{model = {type = "Unigram", unk_id = 0, byte_fallback = true,
                                     vocab = vocab}})
    assert.equal("a|<0xC3>|<0xA9>|a", pieces(tok, "aéa"))
    assert.equal("a|<unk>|a", pieces(tok, "aèa"))
  end)

  it("are decoded by their whole names alone", function()
    local tok = assert(made{model = bpe({"?", "<0x41>", "<0y41>", "<0x4G>", "<0x411>"}, {}),
                            decoder = {type = "ByteFallback"}})
    assert.equal("A<0y41><0x4G><0x411>", tok:decode{2, 3, 4, 5})
  end)

  it("wait in a stream for the rest of their character", function()
    local names = {"?"}
    for byte = 0, 255 do names[byte + 2] = ("<0x%02X>"):format(byte) end
    local tok = assert(made{model = bpe(names, {}), decoder = {type = "ByteFallback"}})
    local stream, texts = tok:stream(), {}
    for byte in ("\u{4f60}\u{10fffd}é"):gmatch(".") do
      texts[#texts + 1] = stream:push(byte:byte() + 2)
    end
    assert.same({"", "", "\u{4f60}", "", "", "", "\u{10fffd}", "", "é"}, texts)
  end)
end)


it("a part that lacks what it needs is refused", function()
  local function why(part)
    part.model = part.model or bpe({"?", "a"}, {})
    local tok, text = made(part)
    assert.is_nil(tok)
    return text
  end
  assert.matches("a text as 'content'", why{decoder = {type = "Replace", pattern = {String = "a"}}})
  for _, name in ipairs{"RobertaProcessing", "BertProcessing"} do
    assert.matches("the post%-processor: a token expected, got the id 9",
                   why{post_processor = {type = name, cls = {"?", 0}, sep = {"x", 9}}})
    for _, lacks in ipairs{{cls = {"?", 0}}, {sep = {"a", 1}}} do
      lacks.type = name
      assert.matches("the post-processor without 'cls' or 'sep'", why{post_processor = lacks}, 1,
                     true)
    end
  end
  assert.matches("the BPE model: a list as 'merges' expected",
                 why{model = {type = "BPE", vocab = {a = 0}, unk_token = "a", merges = 5}}, 1, true)
  assert.matches("a list as 'added_tokens' expected", why{added_tokens = 5}, 1, true)
  for wanted, merge in pairs{
    ["two tokens of the vocabulary"] = {"a", "x"}, ["two tokens"] = {"a"},
    ["halves that make a token of the vocabulary"] = {"aa", "a"},
  } do
    assert.matches("merge 2 of the BPE model: " .. wanted .. " expected",
                   why{model = bpe({"?", "a", "aa"}, {{"a", "a"}, merge})}, 1, true)
  end
  for _, merge in ipairs{"a a a", "aa", "a a ", ""} do
    assert.matches("merge 2 of the BPE model: two tokens expected",
                   why{model = bpe({"?", "a", "aa"}, {"a a", merge})}, 1, true)
  end
end)


it("a range of a pattern ends with the last ASCII character, or goes on behind it", function()
  for pattern, wanted in pairs{["[~-\x7f]"] = "a|\x7f|aé", ["[~-é]"] = "a|\x7f|a|é"} do
    local model = bpe({"?", "a", "é", "\x7f", "a\x7f", "aé"}, {{"a", "\x7f"}, {"a", "é"}})
    local tok = assert(made{model = model, pre_tokenizer = {
      type = "Split", pattern = {Regex = pattern}, behavior = "Isolated", invert = false,
    }})
    assert.equal(wanted, pieces(tok, "a\x7faé"))
  end
end)


it("a tokenizer that is dropped leaves no memory behind", function()
  local function used()
    collectgarbage()
    collectgarbage()
    return heed.memory().other
  end
  local function encode()
    local tok = assert(made{model = bpe({"?", "a", ("b"):rep(5000)}, {})})  -- a file of a block
    assert.equal(100000, #tok:encode(("a"):rep(100000)))
  end
  encode()                       -- after the first one, what is kept for later calls is there
  local before = used()
  encode()
  assert.equal(before, used())
end)
