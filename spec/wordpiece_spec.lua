-- WordPiece and pre-tokenizers: where tokens and words stand, as the package `tokenizers` has it.

local load = require "spec.support.tokenizer_of"

-- A tokenizer of a few pieces, of whose model and words 'given' has other options.
local function pieces(given)
  return ([[{"added_tokens":[%s],"pre_tokenizer":%s,"decoder":{"type":"WordPiece","prefix":"##"},
    "model":{%s"unk_token":%s,"continuing_subword_prefix":%s,"max_input_chars_per_word":%s,
    "vocab":{"[UNK]":0,"a":1,"##b":2,"ab":3,"##é":4,"##éb":5,"##":6,"b":7,"--c":8}}}]]):format(
    given.added or "", given.words or '{"type":"BertPreTokenizer"}',
    given.type or '"type":"WordPiece",', given.unknown or '"[UNK]"', given.prefix or '"##"',
    given.most or "100")
end

-- The words of a text, as the text has them, with the ids of their tokens, which count from 0.
local function cut(tok, text)
  local ids, offsets = tok:encode(text, {offsets = true})
  local list, at = {}, offsets:totable()
  for i, id in ipairs(ids:totable()) do
    list[i] = ("%s:%d"):format(text:sub(at[i][1], at[i][2]), id - 1)
  end
  return table.concat(list, " ")
end

-- Where a text is cut: its words between bars.
local function words(kind, text)
  local tok = assert(load(pieces{words = kind, most = 0}))
  return (cut(tok, text):gsub(":0 ", "|"):gsub(":0$", ""))
end


describe("WordPiece", function()
  it("takes the longest pieces from left to right", function()
    local tok = assert(load(pieces{}))
    assert.equal("a:1 éb:5", cut(tok, "aéb"))
    assert.equal("ab:3 b:2 é:4", cut(tok, "abbé"))
    assert.equal("abx:0 a:1", cut(tok, "abx a"))
    assert.equal("é:0", cut(tok, "é"))
    assert.equal("ab\xff:0 b:7", cut(tok, "ab\xff b"))
    assert.equal("", cut(tok, " "))
    local split = assert(load(pieces{words = '{"type":"WhitespaceSplit"}'}))
    assert.equal("##b:2 a:1 ##:6", cut(split, "##b a ##"))
    local added = assert(load(pieces{added = '{"id":9,"content":"abc","single_word":true}'}))
    assert.equal("abc:9 abcb:0", cut(added, "abc abcb"))      -- no part of another word
  end)

  it("knows no word of too many characters", function()
    local tok = assert(load(pieces{most = 4}))
    assert.equal("a:1 é:4 é:4 é:4", cut(tok, "aééé"))
    assert.equal("aéééé:0", cut(tok, "aéééé"))
    assert.equal("ab:3 b:2", cut(tok, "abb"))
    tok = assert(load(pieces{}))
    assert.equal("ab:3" .. (" b:2"):rep(98), cut(tok, "a" .. ("b"):rep(99)))
    assert.equal("a" .. ("b"):rep(100) .. ":0", cut(tok, "a" .. ("b"):rep(100)))
  end)

  it("has any prefix, or none", function()
    local tok = assert(load(pieces{prefix = '"--"'}))
    assert.equal("a:1 c:8", cut(tok, "ac"))
    assert.equal("aé:0", cut(tok, "aé"))
    tok = assert(load(pieces{prefix = '""', words = '{"type":"WhitespaceSplit"}'}))
    assert.equal("ab:3 a:1 ##b:2", cut(tok, "aba##b"))
  end)

  it("is known without its type, as older files have it", function()
    assert.equal("a:1 b:2", cut(assert(load((pieces{type = ""}):gsub('"ab":3', '"x":3'))), "ab"))
  end)

  it("refuses what it lacks", function()
    local function said(given)
      local tok, why = load(pieces(given))
      return tok == nil and why
    end
    assert.matches("the WordPiece model: the unk_token '%[X%]' is not known",
                   said{unknown = '"[X]"'})
    assert.matches("the WordPiece model: the unk_token is not of a known kind",
                   said{unknown = "null"})
    assert.matches("the WordPiece model: the prefix is not of a known kind", said{prefix = "3"})
    assert.matches("a count as 'max_input_chars_per_word' expected", said{most = '"x"'})
    assert.matches("the model is not of a known kind", said{type = '"type":null,'})
  end)
end)


describe("words", function()
  it("are what each pre-tokenizer makes of a text", function()
    local text = "It's  a, b--c 12½3 Ⅷ\u{200d}x+é"
    for kind, wanted in pairs{
      ['"BertPreTokenizer"'] = "It|'|s|a|,|b|-|-|c|12½3|Ⅷ\u{200d}x|+|é",
      ['"Whitespace"'] = "It|'|s|a|,|b|--|c|12|½|3|Ⅷ\u{200d}x|+|é",
      ['"WhitespaceSplit"'] = "It's|a,|b--c|12½3|Ⅷ\u{200d}x+é",
      ['"Punctuation"'] = "It|'|s  a|,| b|-|-|c 12½3 Ⅷ\u{200d}x|+|é",
      ['"Digits","individual_digits":true'] = "It's  a, b--c |1|2|½|3| |Ⅷ|\u{200d}x+é",
      ['"Digits","individual_digits":false'] = "It's  a, b--c |12½3| |Ⅷ|\u{200d}x+é",
    } do
      assert.equal(wanted, words(('{"type":%s}'):format(kind), text), kind)
    end
  end)

  it("are split with each behaviour", function()
    local function split(behaviour, invert)
      return words(([[{"type":"Split","pattern":{"Regex":"-+|x"},"behavior":"%s",
                       "invert":%s}]]):format(behaviour, invert), "x-ax--bxc-")
    end
    assert.equal("a|b|c", split("Removed", false))
    assert.equal("x|-|x|--|x|-", split("Removed", true))
    assert.equal("x|-|a|x|--|b|x|c|-", split("Isolated", false))
    assert.equal("x|-|ax|--|bx|c-", split("MergedWithPrevious", false))
    assert.equal("x|-a|x|--b|xc|-", split("MergedWithNext", false))
    assert.equal("x-|a|x--|b|x|c|-", split("Contiguous", false))
    assert.equal("a|c", words([[{"type":"Split","pattern":{"String":".*"},"behavior":"Removed",
                                 "invert":false}]], "a.*c"))
  end)

  it("are split again by each part of a sequence", function()
    assert.equal("a|1|.|b.|2", words([[{"type":"Sequence","pretokenizers":[
      {"type":"WhitespaceSplit"},{"type":"Digits","individual_digits":true},
      {"type":"Punctuation","behavior":"MergedWithPrevious"}]}]], "a1. b.2"))
  end)

  it("end where an added token of a single word may stand", function()
    local tok = assert(load(pieces{words = '{"type":"WhitespaceSplit"}', added =
      '{"id":9,"content":"cab","single_word":true,"normalized":false}'}))
    assert.equal("cab:9 a:1", cut(tok, "cab a"))
    for _, letter in ipairs{"é", "1", "_", "Ⅷ", "ⓐ", "\u{200c}", "\u{301}"} do
      assert.is_nil(cut(tok, "cab" .. letter):find(":9", 1, true), letter)
      assert.is_nil(cut(tok, letter .. "cab"):find(":9", 1, true), letter)
    end
    assert.equal("cab:9 ½:0", cut(tok, "cab½"))
  end)
end)
