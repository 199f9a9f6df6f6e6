-- Parts of tokenizers that SentencePiece brought: the normalizer Precompiled, and Metaspace. The
-- package `tokenizers` 0.23 gave texts, ids and offsets, which count from 0 as it has them.

local base64 = require "spec.support.base64"
local files = require "spec.support.files"
local json = require "heed.files.json"
local load = require "spec.support.tokenizer_of"

-- A text, what it is normalized to, and the places of its tokens.
local CLUSTERS <const> = {
  {"plain", "plain", {{0, 5}}},
  {"\u{ff21}\u{ff42}\u{ff43}\u{ff11}", "Abc1", {{0, 12}}},
  {"\u{fb01}n", "fin", {{0, 4}}},
  {"a\u{301}", "\u{e1}", {{0, 1}}},
  {"A\u{30a}\u{301}", "\u{c5}", {{0, 1}}},
  {"\u{2460}\u{301}x", "1x", {{0, 6}}},
  {"\u{fb01}\u{301}x", "fix", {{0, 6}}},
  {"\u{bd}\u{308}", "1\u{2044}2", {{0, 4}}},
  {"\u{d}\u{a}", " ", {{0, 1}}},
  {"a\u{d}\u{301}b", "a \u{301}b", {{0, 5}}},
  {"\u{9}tab", " tab", {{0, 4}}},
  {"\u{600}\u{ff21}", "\u{600}A", {{0, 5}}},
  {"\u{600}a", "\u{600}a", {{0, 3}}},
  {"\u{600}\u{301}", "\u{600}\u{301}", {{0, 4}}},
  {"\u{e9}\u{200d}", "\u{e9}\u{200d}", {{0, 5}}},
  {"\u{a9}\u{200d}\u{ae}", "\u{a9}\u{200d}\u{ae}", {{0, 7}}},
  {"\u{1100}\u{1161}\u{301}", "\u{1100}\u{1161}\u{301}", {{0, 8}}},
  {"\u{ac01}\u{11a7}\u{301}", "\u{ac01}\u{11a7}\u{301}", {{0, 8}}},
  {"\u{1100}\u{1161}\u{11a8}", "\u{1100}\u{1161}\u{11a8}", {{0, 9}}},
  {"\u{ac00}\u{11a8}\u{301}", "\u{ac00}\u{11a8}\u{301}", {{0, 8}}},
  {"\u{ac01}\u{11a8}\u{301}", "\u{ac01}\u{11a8}\u{301}", {{0, 8}}},
  {"\u{1161}\u{301}", "\u{1161}\u{301}", {{0, 5}}},
  {"\u{ff76}\u{ff9e}", "\u{30ab}\u{3099}", {{0, 6}}},
  {"\u{ff76}\u{301}", "\u{30ab}", {{0, 3}}},
  {"\u{e19}\u{e33}", "\u{e19}\u{e4d}\u{e32}", {{0, 6}}},
  {"\u{915}\u{93c}\u{301}", "\u{915}\u{93c}\u{301}", {{0, 8}}},
  {"\u{c5}\u{323}", "\u{c5}\u{323}", {{0, 4}}},
  {"x\u{ad}\u{ff21}", "x\u{ad}A", {{0, 6}}},
  {"\u{200b}\u{ff21}b", " Ab", {{0, 7}}},
  {"\u{2028}\u{ff21}", " A", {{0, 6}}},
  {"\u{1038}\u{ff21}", "\u{1038}A", {{0, 6}}},
  {"\u{ff41}\u{1038}", "a\u{1038}", {{0, 6}}},
  {"\u{ff41}\u{903}", "a\u{903}", {{0, 6}}},
  {"\u{1f1e9}\u{1f1ea}\u{301}", "\u{1f1e9}\u{1f1ea}\u{301}", {{0, 10}}},
  {"", "", {}},
  {"\u{ad}\u{ff21}\u{301}b", "\u{ad}Ab", {{0, 8}}},
  {"\u{feff}", " ", {{0, 3}}},
  {"\u{b2}\u{301}\u{b2}", "22", {{0, 6}}},
  {"\u{85}\u{ff21}", "\u{85}A", {{0, 5}}},
  {"\u{7e}\u{301}", "\u{7e}\u{301}", {{0, 3}}},
  {"\u{7f}\u{301}", "\u{301}", {{0, 1}}},
  {"\u{9f}\u{301}", "\u{301}", {{0, 2}}},
  {"\u{a0}\u{301}", " ", {{0, 2}}},
  {"\u{ff21}\u{fe0f}", "A\u{fe0f}", {{0, 6}}},
  {"\u{600}\u{ff21}\u{301}", "\u{600}A\u{301}", {{0, 7}}},
  {"\u{3300}", "\u{30a2}\u{30d1}\u{30fc}\u{30c8}", {{0, 3}}},
  {"\u{3d3}\u{301}", "\u{38e}", {{0, 2}}},
  {"\u{344}", "\u{308}\u{301}", {{0, 2}}},
  {"\u{133}\u{301}", "ij", {{0, 4}}},
  {"\u{fb2c}", "\u{5e9}\u{5bc}\u{5c1}", {{0, 3}}},
  {"\u{ff21}\u{300}\u{301}", "A\u{300}\u{301}", {{0, 7}}},
  {"\u{ff21}\u{300}\u{301}\u{302}", "A\u{300}\u{301}\u{302}", {{0, 9}}},
  {"\u{dcf}\u{dca}", "\u{dcf}\u{dca}", {{0, 6}}},
}

-- A pre-tokenizer; then texts, ids and offsets.
local MARKS <const> = {
  always = {
    [=[{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}]=],
    {"a b", {4, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {4, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2, 3}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {4, 12, 4, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {3, 3}, {{0, 1}, {1, 2}}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 3, 2, 7}, {{0, 1}, {0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 4, 2, 4}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}},
  },
  first = {
    [=[{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]=],
    {"a b", {4, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {4, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2, 3}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {4, 12, 1, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {3, 3}, {{0, 1}, {1, 2}}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 3, 2, 7}, {{0, 1}, {0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 10, 4}, {{0, 3}, {3, 5}, {5, 7}}},
  },
  never = {
    [=[{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true}]=],
    {"a b", {1, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {10, 3, 4}, {{0, 2}, {2, 3}, {3, 5}}},
    {"a", {1}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2, 3}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {1, 12, 1, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {11, 4, 9, 3, 9, 1}, {{0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {3, 3}, {{0, 1}, {1, 2}}},
    {"a▁a", {1, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {8, 3, 2, 7}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 10, 4}, {{0, 3}, {3, 5}, {5, 7}}},
  },
  whole = {
    [=[{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false}]=],
    {"a b", {3, 5, 2}, {{0, 1}, {0, 2}, {2, 3}}},
    {"ab  a", {4, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {3, 5, 2, 3}, {{0, 1}, {1, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {4, 12, 3, 5, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {4, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {6}, {{0, 2}}},
    {"a▁a", {3, 5, 1}, {{0, 1}, {0, 4}, {4, 5}}},
    {"_a b_", {3, 7, 5, 2, 7}, {{0, 1}, {0, 1}, {1, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 4, 2, 4}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}},
  },
  older = {
    [=[{"type":"Metaspace","replacement":"▁","add_prefix_space":true}]=],
    {"a b", {4, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {4, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2, 3}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {4, 12, 4, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {3, 3}, {{0, 1}, {1, 2}}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 3, 2, 7}, {{0, 1}, {0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 4, 2, 4}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}},
  },
  behind = {
    [=[{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},
      {"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}]}]=],
    {"a b", {4, 3, 2}, {{0, 1}, {2, 3}, {2, 3}}},
    {"ab  a", {4, 2, 4}, {{0, 1}, {1, 2}, {4, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2}, {{1, 2}, {3, 4}, {3, 4}}},
    {"a<s>a b<s> a", {4, 12, 4, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {6, 7}, {6, 7}, {7, 10}, {11, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {3, 4}, {4, 5}, {6, 7}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {}, {}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 3, 2, 7}, {{0, 1}, {0, 2}, {3, 4}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 4, 2, 4}, {{0, 3}, {3, 4}, {4, 5}, {6, 7}}},
  },
  behind_first = {
    [=[{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},
      {"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]}]=],
    {"a b", {4, 2}, {{0, 1}, {2, 3}}},
    {"ab  a", {4, 2, 1}, {{0, 1}, {1, 2}, {4, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {1, 2}, {{1, 2}, {3, 4}}},
    {"a<s>a b<s> a", {4, 12, 1, 2, 12, 1}, {{0, 1}, {1, 4}, {4, 5}, {6, 7}, {7, 10}, {11, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 1, 9, 9, 1}, {{0, 2}, {0, 2}, {3, 4}, {4, 5}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {}, {}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 2, 7}, {{0, 1}, {0, 2}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 10, 1}, {{0, 3}, {3, 5}, {6, 7}}},
  },
  before = {
    [=[{"type":"Sequence","pretokenizers":[{"type":"Metaspace",
      "replacement":"▁","prepend_scheme":"always","split":true},
      {"type":"Digits","individual_digits":true}]}]=],
    {"a b", {4, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {4, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {4}, {{0, 1}}},
    {"▁a", {4}, {{0, 4}}},
    {" a b ", {4, 3, 2, 3}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {4, 12, 4, 3, 2, 12, 4},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {3, 11, 4, 9, 3, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {3, 3}, {{0, 1}, {1, 2}}},
    {"a▁a", {4, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {3, 8, 3, 2, 7}, {{0, 1}, {0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 4, 2, 4}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}},
  },
  mark = {
    [=[{"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":true}]=],
    {"a b", {8, 7, 2}, {{0, 1}, {1, 2}, {2, 3}}},
    {"ab  a", {8, 2, 7, 8}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}}},
    {"a", {8}, {{0, 1}}},
    {"▁a", {7, 4}, {{0, 3}, {0, 4}}},
    {" a b ", {8, 7, 2, 7}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"a<s>a b<s> a", {8, 12, 8, 7, 2, 12, 8},
     {{0, 1}, {1, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 10}, {10, 12}}},
    {"<s>", {12}, {{0, 3}}},
    {"é a1 1a", {7, 11, 8, 9, 7, 9, 1}, {{0, 2}, {0, 2}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {"", {}, {}},
    {"  ", {7, 7}, {{0, 1}, {1, 2}}},
    {"a▁a", {8, 4}, {{0, 1}, {1, 5}}},
    {"_a b_", {8, 7, 2, 7}, {{0, 2}, {2, 3}, {3, 4}, {4, 5}}},
    {"<s>ab a", {12, 8, 2, 8}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}}},
  },
}

local function cut(tok, text)
  local ids, offsets = tok:encode(text, {special = false, parse = true, offsets = true})
  ids, offsets = ids:totable(), offsets:totable()
  for i = 1, #ids do
    ids[i] = ids[i] - 1
    offsets[i][1] = offsets[i][1] - 1
  end
  return ids, offsets
end


describe("the normalizer Precompiled", function()
  local map = files.read "spec/golden/tokenizers/unigram_charsmap/charsmap.txt"
  local pieces = {{"<unk>", 0}}
  for i = 0, 255 do pieces[i + 2] = {("<0x%02X>"):format(i), -1} end

  local function with(table)
    return load(json.encode{
      model = {type = "Unigram", vocab = json.array(pieces), unk_id = 0, byte_fallback = true},
      normalizer = {type = "Precompiled", precompiled_charsmap = table},
      decoder = {type = "ByteFallback"},
    })
  end

  it("looks clusters up as the package does", function()
    local tok = assert(with(map))
    for _, case in ipairs(CLUSTERS) do
      local ids, offsets = tok:encode(case[1], {offsets = true})
      assert.equal(case[2], tok:decode(ids))
      local places, last = {}, nil
      for _, at in ipairs(offsets:totable()) do
        if not last or last[1] ~= at[1] - 1 or last[2] ~= at[2] then
          last = {at[1] - 1, at[2]}
          places[#places + 1] = last
        end
      end
      assert.same(case[3], places, case[1])
    end
    local long = ("\u{ff21}\u{301}"):rep(70000)
    assert.equal(("A"):rep(70000), tok:decode((tok:encode(long))))
    assert.equal("\xff A\xe3\x80", tok:decode((tok:encode("\xff\t\u{ff21}\xe3\x80"))))
  end)

  it("may have a table without texts", function()
    local tok = assert(with "BAAAAAAAAAA=")
    assert.equal("ab", tok:decode((tok:encode "ab")))
  end)

  it("leaves characters whose texts would begin behind all of them, or within one", function()
    local units = {}
    for i = 0, 127 do units[i] = 0 end
    for letter, place in pairs{a = 0, b = 2, c = 3, d = 4, e = 5} do     -- of "h", "\u{e9}"
      local at = letter:byte()
      units[at] = at | 1 << 8 | 8 << 10         -- its leaf is at a distance of 8
      units[at ~ 8] = place
    end
    local bytes = string.pack("<I4", 512)
    for i = 0, 127 do bytes = bytes .. string.pack("<I4", units[i]) end
    local tok = assert(with(base64.text(bytes .. "h\0\u{e9}\0")))
    assert.equal("hx\u{e9}ce", tok:decode((tok:encode "axbcde")))    -- an empty one takes the d
  end)

  it("refuses tables that are none", function()
    for table, wanted in pairs{
      ["?"] = "base64 expected", ["AAAA"] = "a tree and texts expected", [""] = "a tree and texts",
      ["AAAAA"] = "base64 expected", ["/////wAAAAA="] = "a tree and texts expected",
      ["BAAAAAAAAAD/"] = "texts in UTF-8 expected", ["AwAAAAAAAAAA"] = "a tree and texts expected",
    } do
      local tok, why = with(table)
      assert.is_nil(tok)
      assert.matches("the normalizer Precompiled: " .. wanted, why, 1, true)
    end
    for _, case in ipairs{{6, 8}, {6, 2}, {4, 3}, {0, 8}, {8, 7}, {4, 0}} do
      local tok, why = with(base64.text(string.pack("<I4", case[1]) .. ("\0"):rep(case[2])))
      assert.is_nil(tok)
      assert.matches("a tree and texts expected", why, 1, true)
    end
    local tok, why = with(3)
    assert.is_nil(tok)
    assert.matches("the normalizer's table", why)
  end)

  it("survives tables whose tree is damaged", function()
    local TREE <const> = string.unpack("<I4", base64.bytes(map:sub(1, 8))) * 4 // 3
    local state = 5
    local function draw(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return state // 65536 % n
    end
    local texts = {}
    for i, case in ipairs(CLUSTERS) do texts[i] = case[1] end
    local all = table.concat(texts, " ")
    local whole = assert(with(map)):encode(all):totable()
    local changed = 0
    for _ = 1, 60 do
      local parts, at = {}, 1
      while at < TREE - 4000 do                -- damaged texts behind the tree are refused
        local width, letter = (at == 1 and 8 or 1) + draw(2000), 1 + draw(64)
        parts[#parts + 1] = map:sub(at, at + width - 1) .. base64.DIGITS:sub(letter, letter)
        at = at + width + 1
      end
      local ids = assert(with(table.concat(parts) .. map:sub(at))):encode(all):totable()
      if #ids ~= #whole then changed = changed + 1 end
    end
    assert.is_true(changed > 10, changed .. " tables gave other ids")
  end)
end)


describe("the pre-tokenizer Metaspace", function()
  local VOCABULARY <const> = [=[
    [["<unk>",0],["a",-2],["b",-2],["▁",-2.5],["▁a",-3],["a▁",-1],["▁▁",-4],["_",-2],["_a",-2],
     ["1",-2],["ab",-3],["é",-3]]]=]

  local function with(before)
    return load(([=[{"model":{"type":"Unigram","unk_id":0,"vocab":%s},"pre_tokenizer":%s,
      "added_tokens":[{"id":12,"content":"<s>","special":true}]}]=]):format(VOCABULARY, before))
  end

  for name, case in pairs(MARKS) do
    it(name .. " cuts as the package does", function()
      local tok = assert(with(case[1]))
      for i = 2, #case do
        local ids, offsets = cut(tok, case[i][1])
        assert.same(case[i][2], ids, case[i][1])
        assert.same(case[i][3], offsets, case[i][1])
      end
    end)
  end

  it("has any character for the blank, of four bytes too", function()
    local tok = assert(with('{"type":"Metaspace","replacement":"\u{10000}"}'))
    assert.same(tok:encode("\u{10000}a"):totable(), tok:encode("a"):totable())
  end)

  it("reads older files", function()
    local one = assert(with('{"type":"Metaspace","replacement":"▁","add_prefix_space":false}'))
    local other = assert(with(MARKS.never[1]))
    for _, text in ipairs{"a b", " a", ""} do
      assert.same(other:encode(text):totable(), one:encode(text):totable())
    end
  end)

  it("says what it does not take", function()
    for before, wanted in pairs{
      ['{"type":"Metaspace"}'] = "one character as 'replacement' expected",
      ['{"type":"Metaspace","replacement":"ab"}'] = "one character as 'replacement' expected",
      ['{"type":"Metaspace","replacement":"▁","prepend_scheme":"last"}'] =
        "'prepend_scheme' always, first or never expected",
      ['{"type":"Sequence","pretokenizers":[' .. MARKS.never[1] .. "," .. MARKS.first[1] .. "]}"] =
        "one of it, or of add_prefix_space, expected",
    } do
      local tok, why = with(before)
      assert.is_nil(tok)
      assert.matches("the pre-tokenizer Metaspace: " .. wanted, why, 1, true)
    end
  end)
end)
