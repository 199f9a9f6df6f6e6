-- Normalizers of heed.tokenizer beside those of the package `tokenizers`: the same texts come out,
-- and the same places of their characters.

local tokenizer_of = require "spec.support.tokenizer_of"

-- A tokenizer whose tokens are bytes, in order.
local function bytes_behind(normalizer, added)
  local names = {}
  for byte = 0, 255 do
    local itself = byte > 32 and byte < 127 or byte > 160 and byte ~= 173
    local point = itself and byte or byte < 33 and 256 + byte or byte < 161 and 162 + byte or 323
    names[#names + 1] = ('"%s":%d'):format(utf8.char(point):gsub('["\\]', "\\%0"), byte)
  end
  return ([[{"added_tokens":[%s],"normalizer":%s,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false},
    "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{%s},"merges":[]}}]]):format(
    added or "", normalizer, table.concat(names, ","))
end

local function load(normalizer, added)
  return tokenizer_of(bytes_behind(normalizer, added))
end

local function bert(clean, ideographs, accents, lower)
  return ([[{"type":"BertNormalizer","clean_text":%s,"handle_chinese_chars":%s,"strip_accents":%s,
             "lowercase":%s}]]):format(clean, ideographs, accents, lower)
end

local nfc, nfd = '{"type":"NFC"}', '{"type":"NFD"}'
local nfkc, nfkd = '{"type":"NFKC"}', '{"type":"NFKD"}'
local lower, accents = '{"type":"Lowercase"}', '{"type":"StripAccents"}'
local uncased, cased = bert(true, true, "null", true), bert(true, true, false, false)
local plain = bert(false, false, true, false)
local replace = [[{"type":"Replace","pattern":{"Regex":"\\s+|[aé]b"},"content":"é▁"}]]
local prepend = '{"type":"Prepend","prepend":"▁x"}'
local strip = '{"type":"Strip","strip_left":true,"strip_right":true}'
local left = '{"type":"Strip","strip_left":true,"strip_right":false}'
local all = ('{"type":"Sequence","normalizers":[%s]}'):format(table.concat({
  nfd, accents, lower, '{"type":"Replace","pattern":{"String":"a"},"content":"ée"}', nfc,
  '{"type":"Strip","strip_left":false,"strip_right":true}', '{"type":"Prepend","prepend":"_"}',
}, ","))

-- Normalizer, text, what becomes of it, and the bytes of the text that its characters came from.
local CASES <const> = {
  {uncased, "a\u{33c}\u{11235}b", "a\u{11235}b", "0-1 1-3 7-8"},
  {uncased, "a\u{302e}\u{11235}b", "a\u{11235}\u{302e}b", "0-1 1-4 4-8 8-9"},
  {cased, "a\u{302e}\u{11235}b", "a\u{302e}\u{11235}b", "0-1 1-4 4-8 8-9"},
  {nfc, "e\u{301}x", "\u{e9}x", "0-1 3-4"},
  {nfc, "a\u{323}\u{302}", "\u{1ead}", "0-1"},
  {nfc, "a\u{302}\u{323}", "\u{1ead}", "0-1"},
  {nfc, "\u{212b}", "\u{c5}", "0-3"},
  {nfc, "\u{1100}\u{1161}\u{11a8}", "\u{ac01}", "0-3"},
  {nfc, "\u{344}", "\u{308}\u{301}", "0-2 0-2"},
  {nfc, "\u{301}a", "\u{301}a", "0-2 2-3"},
  {nfc, "a\u{335}\u{323}\u{301}\u{327}x", "\u{1ea1}\u{335}\u{327}\u{301}x",
   "0-1 3-5 5-7 7-9 9-10"},
  {nfc, "\u{958}", "\u{915}\u{93c}", "0-3 0-3"},
  {nfd, "\u{e9}", "e\u{301}", "0-2 0-2"},
  {nfd, "a\u{302}\u{323}", "a\u{323}\u{302}", "0-1 1-3 3-5"},
  {nfd, "\u{ac01}", "\u{1100}\u{1161}\u{11a8}", "0-3 0-3 0-3"},
  {nfd, "\u{1e9b}\u{323}", "\u{17f}\u{323}\u{307}", "0-3 3-5 3-5"},
  {nfd, "\u{1e69}x", "s\u{323}\u{307}x", "0-3 0-3 0-3 3-4"},
  {nfkc, "\u{fb01}x", "fix", "0-3 0-3 3-4"},
  {nfkc, "\u{2460}", "1", "0-3"},
  {nfkc, "\u{1e9b}\u{323}", "\u{1e69}", "0-3"},
  {nfkc, "\u{ff76}\u{ff9e}", "\u{30ac}", "0-3"},
  {nfkd, "\u{bd}", "1\u{2044}2", "0-2 0-2 0-2"},
  {nfkd, "\u{1e9b}\u{323}", "s\u{323}\u{307}", "0-3 3-5 3-5"},
  {nfkd, "\u{3300}", "\u{30a2}\u{30cf}\u{309a}\u{30fc}\u{30c8}", "0-3 0-3 0-3 0-3 0-3"},
  {lower, "\u{c0}\u{c9}a", "\u{e0}\u{e9}a", "0-2 2-4 4-5"},
  {lower, "\u{130}I", "i\u{307}i", "0-2 0-2 2-3"},
  {lower, "\u{391}\u{3a3}", "\u{3b1}\u{3c3}", "0-2 2-4"},
  {lower, "\u{216b}\u{24b6}", "\u{217b}\u{24d0}", "0-3 3-6"},
  {lower, "\u{1e9e}", "\u{df}", "0-3"},
  {lower, "\u{10400}", "\u{10428}", "0-4"},
  {accents, "e\u{301}\u{20dd}", "e", "0-1"},
  {accents, "\u{e9}", "\u{e9}", "0-2"},
  {accents, "\u{93e}", "", ""},
  {uncased, "\u{c7}a va\u{9}\u{200b}x\u{0}\u{fffd}y", "ca va xy",
   "0-2 2-3 3-4 4-5 5-6 6-7 10-11 15-16"},
  {uncased, "\u{4e2d}A\u{e9}", " \u{4e2d} ae", "0-3 0-3 0-3 3-4 4-6"},
  {uncased, "\u{c0}\u{130}\u{c9}\u{a0}\u{b}", "aie ", "0-2 2-4 4-6 6-8"},
  {uncased, "\u{ac01}", "\u{1100}\u{1161}\u{11a8}", "0-3 0-3 0-3"},
  {cased, "\u{c9}a\u{4e2d}\u{3000}x", "\u{c9}a \u{4e2d}  x", "0-2 2-3 3-6 3-6 3-6 6-9 9-10"},
  {cased, "\u{8c48}\u{20000}", " \u{8c48}  \u{20000} ", "0-3 0-3 0-3 3-7 3-7 3-7"},
  {plain, "\u{c9}\u{9}A\u{4e2d}", "E\u{9}A\u{4e2d}", "0-2 2-3 3-4 4-7"},
  {plain, "e\u{301}\u{20dd}", "e\u{20dd}", "0-1 3-6"},
  {replace, "a  b\u{9}\u{a}c", "a\u{e9}\u{2581}b\u{e9}\u{2581}c", "0-1 2-3 2-3 3-4 5-6 5-6 6-7"},
  {replace, "ab \u{e9}b", "\u{e9}\u{2581}\u{e9}\u{2581}\u{e9}\u{2581}", "1-2 1-2 2-3 2-3 5-6 5-6"},
  {replace, "  ", "\u{e9}\u{2581}", "1-2 1-2"},
  {prepend, "\u{e9}x", "\u{2581}x\u{e9}x", "0-2 0-2 0-2 2-3"},
  {prepend, "", "", ""},
  {prepend, "\u{301}", "\u{2581}x\u{301}", "0-2 0-2 0-2"},
  {strip, "  a b \u{2003}", "a b", "2-3 3-4 4-5"},
  {strip, " \u{9} ", "", ""},
  {strip, "x", "x", "0-1"},
  {left, "  a ", "a ", "2-3 3-4"},
  {all, "  \u{c4}\u{e4}\u{301}  ", "_  \u{e9}e\u{e9}e", "0-1 0-1 1-2 2-4 2-4 4-6 4-6"},
  {all, " ", "", ""},
  {all, "b", "_b", "0-1 0-1"},
}


-- The bytes that each character came from, half open from 0.
local function origins(text, offsets)
  local list, at = {}, offsets:totable()
  for position in utf8.codes(text) do
    list[#list + 1] = ("%d-%d"):format(at[position][1] - 1, at[position][2])
  end
  return table.concat(list, " ")
end


describe("normalizers", function()
  it("rewrite texts, and know where characters came from", function()
    local known = {}
    for _, case in ipairs(CASES) do
      local normalizer, text, wanted, places = table.unpack(case)
      local tok = known[normalizer] or assert(load(normalizer))
      known[normalizer] = tok
      local ids, offsets = tok:encode(text, {offsets = true})
      local at = ("%s of %q"):format(normalizer, text)
      assert.equal(wanted, tok:decode(ids), at)
      assert.equal(places, origins(wanted, offsets), at)
    end
  end)

  -- Python's unicodedata gives the same for each character that Unicode 14.0 has.
  it("rewrite each character as the tables of Unicode 15.0 have it", function()
    local function digest(normalizer)
      local tok, sum = assert(load(normalizer)), 0
      for first = 0, 0x10ffff, 0x800 do
        local list = {}
        for c = first, first + 0x7ff do list[#list + 1] = utf8.char(c) end
        local text = table.concat(list, "\n")
        local other = first ~= 0xd800 and tok:decode(tok:encode(text)) or text
        if other ~= text then
          for _, c in utf8.codes(other) do sum = (sum ~ c) * 0x100000001b3 end
        end
      end
      return ("%016x"):format(sum)
    end
    for normalizer, wanted in pairs{
      [nfc] = "e7a6cc41cab015cc", [nfkd] = "de5de1b95b6b3d0a", [lower] = "dea0f3a0342c0105",
      [accents] = "873afb0291157515",
    } do
      assert.equal(wanted, digest(normalizer), normalizer)
    end
  end)

  it("count places from the start of the text behind added tokens", function()
    local tok = assert(load(nfc, '{"id":256,"content":"<a>","normalized":false}'))
    local ids, offsets = tok:encode("e\u{301}<a>e\u{301}", {offsets = true})
    assert.equal("é<a>é", tok:decode(ids))
    assert.same({{1, 1}, {1, 1}, {4, 6}, {7, 7}, {7, 7}}, offsets:totable())
  end)

  it("find added tokens in normalized texts, as their own text is normalized", function()
    local tok = assert(load(lower, [[{"id":256,"content":"<É>","normalized":true},
                                     {"id":257,"content":"<A>","normalized":false}]]))
    local function ids(text) return tok:encode(text):totable() end
    assert.same({257}, ids "<é>")
    assert.same({257}, ids "<É>")
    assert.same({258}, ids "<A>")
    assert.equal("<a>", tok:decode(ids "<a>"))
    tok = assert(load(accents, '{"id":256,"content":"\u{301}","normalized":true}'))
    assert.equal("ab", tok:decode(tok:encode "a\u{301}b"))
  end)

  it("keep bytes that are no UTF-8, which BertNormalizer drops", function()
    for _, normalizer in ipairs{nfc, nfd, nfkc, nfkd, lower, accents, plain, left} do
      local tok = assert(load(normalizer))
      assert.equal("a\xff\xc3b\x80", tok:decode(tok:encode "a\xff\xc3b\x80"), normalizer)
    end
    local tok = assert(load(nfc))
    assert.equal("\xff\u{301}é\xcc", tok:decode(tok:encode "\xff\u{301}e\u{301}\xcc"))
    tok = assert(load(uncased))
    assert.equal("ab", tok:decode(tok:encode "A\xff\xc3B\x80"))
  end)

  it("set ideographs apart, from the first to the last of each block", function()
    local tok = assert(load(bert(false, true, false, false)))
    local blocks = {{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df},
                    {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}}
    local inside = {}
    for _, block in ipairs(blocks) do inside[block[1]], inside[block[2]] = true, true end
    for _, block in ipairs(blocks) do
      for _, c in ipairs{block[1] - 1, block[1], block[2], block[2] + 1} do
        local text = utf8.char(c)
        local wanted = inside[c] and (" %s "):format(text) or text
        assert.equal("x" .. wanted .. "y", tok:decode(tok:encode("x" .. text .. "y")), text)
      end
    end
  end)

  it("order any number of marks, and a long text", function()
    local tok = assert(load(nfd))
    local marks = ("\u{301}\u{323}"):rep(40000)
    local wanted = "a" .. ("\u{323}"):rep(40000) .. ("\u{301}"):rep(40000) .. "b"
    assert.equal(wanted, tok:decode(tok:encode("a" .. marks .. "b")))
    tok = assert(load(lower))
    local text = ("Ä lange ZEILE. "):rep(20000)
    assert.equal(("ä lange zeile. "):rep(20000), tok:decode(tok:encode(text)))
  end)

  it("are refused by name", function()
    local function said(normalizer)
      local tok, why = load(normalizer)
      return tok == nil and why
    end
    assert.matches("the normalizer 'NFX' is not known", said '{"type":"NFX"}')
    assert.matches("the normalizer 'Nmx' is not known",
                   said '{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Nmx"}]}')
    assert.matches("the normalizer is not of a known kind", said '{"type":"Sequence"}')
    assert.matches("the normalizer is not of a known kind", said "3")
    assert.matches("the normalizer Replace: a pattern of some text expected",
                   said '{"type":"Replace","content":"x"}')
    assert.matches("the normalizer's text is not of a known kind",
                   said '{"type":"Replace","pattern":{"String":"a"}}')
    assert.matches("the normalizer's text is not of a known kind", said '{"type":"Prepend"}')
  end)
end)
