-- Models of tokenizers, small ones: BPE over characters, with all its options, and Unigram. The
-- package `tokenizers` 0.23 gave the ids and offsets.

local heed = require "heed"
local json = require "heed.files.json"
local load = require "spec.support.tokenizer_of"

-- A file; then texts, ids and offsets, which count from 0 as the package has them.
local CASES <const> = {
  penalty = {
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",12.0],["a",15.0],["uv",13.0]],
      "byte_fallback":false},"pre_tokenizer":null}]=],
    {"uva", {2, 1}, {{0, 2}, {2, 3}}},
    {"auvu", {1, 2, 0}, {{0, 1}, {1, 3}, {3, 4}}},
  },
  found_again = {
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",25.0],["a",26.0],["uv",25.0]],
      "byte_fallback":false},"pre_tokenizer":null}]=],
    {"uva", {2, 1}, {{0, 2}, {2, 3}}},
    {"uvuv", {0}, {{0, 4}}},
  },
  tie = {                                -- "ab" or an "a" and an unknown token, both -1
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",-1.0],["a",10.0],["ab",-1.0]],
      "byte_fallback":false},"pre_tokenizer":null}]=],
    {"ab", {2}, {{0, 2}}},
    {"aab", {1, 2}, {{0, 1}, {1, 3}}},
  },
  twice = {                              -- two pieces of one name
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.0],["ab",-9.0],
      ["a",-3.0],["b",-7.0]],"byte_fallback":false},"pre_tokenizer":null}]=],
    {"ab", {2}, {{0, 2}}},
    {"a", {3}, {{0, 1}}},
    {"aba", {2, 3}, {{0, 2}, {2, 3}}},
  },
  right = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
      "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
      "vocab":{"a":0,"b":1,"c":2,"bc":3,"abc":4},"merges":[["b","c"],["a","bc"]]},
      "pre_tokenizer":null}]=],
    {"abca", {4, 0}, {{0, 3}, {3, 4}}},
    {"aabcbc", {0, 4, 3}, {{0, 1}, {1, 4}, {4, 6}}},
  },
  unknown = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
      "byte_fallback":false,"ignore_merges":false,"vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"c":4,
      "abc":5,"é":6,"<0xE2>":7,"<0x82>":8,"<0xAC>":9,"<0x78>":10,"bc":11},"merges":[["a","b"],
      ["ab","c"],["b","c"]]},"pre_tokenizer":null}]=],
    {"abcab", {5, 3}, {{0, 3}, {3, 5}}},
    {"xya", {0, 0, 1}, {{0, 1}, {1, 2}, {2, 3}}},
    {"axbyyc", {1, 0, 2, 0, 0, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}}},
    {"€a€", {0, 1, 0}, {{0, 3}, {3, 4}, {4, 7}}},
    {"aé€xb", {1, 6, 0, 0, 2}, {{0, 1}, {1, 3}, {3, 6}, {6, 7}, {7, 8}}},
    {"ccba", {4, 4, 2, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
    {"bcabc", {11, 5}, {{0, 2}, {2, 5}}},
    {"日a日本", {0, 1, 0, 0}, {{0, 3}, {3, 4}, {4, 7}, {7, 10}}},
    {"", {}, {}},
    {"y", {0}, {{0, 1}}},
    {"abababc", {3, 3, 5}, {{0, 2}, {2, 4}, {4, 7}}},
  },
  fused = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,
      "byte_fallback":false,"ignore_merges":false,"vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"c":4,
      "abc":5,"é":6,"<0xE2>":7,"<0x82>":8,"<0xAC>":9,"<0x78>":10,"bc":11},"merges":[["a","b"],
      ["ab","c"],["b","c"]]},"pre_tokenizer":null}]=],
    {"abcab", {5, 3}, {{0, 3}, {3, 5}}},
    {"xya", {0, 1}, {{0, 2}, {2, 3}}},
    {"axbyyc", {1, 0, 2, 0, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}, {5, 6}}},
    {"€a€", {0, 1, 0}, {{0, 3}, {3, 4}, {4, 7}}},
    {"aé€xb", {1, 6, 0, 2}, {{0, 1}, {1, 3}, {3, 7}, {7, 8}}},
    {"ccba", {4, 4, 2, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
    {"bcabc", {11, 5}, {{0, 2}, {2, 5}}},
    {"日a日本", {0, 1, 0}, {{0, 3}, {3, 4}, {4, 10}}},
    {"", {}, {}},
    {"y", {0}, {{0, 1}}},
    {"abababc", {3, 3, 5}, {{0, 2}, {2, 4}, {4, 7}}},
  },
  dropped = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
      "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
      "vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"c":4,"abc":5,"é":6,"<0xE2>":7,"<0x82>":8,
      "<0xAC>":9,"<0x78>":10,"bc":11},"merges":[["a","b"],["ab","c"],["b","c"]]},
      "pre_tokenizer":null}]=],
    {"abcab", {5, 3}, {{0, 3}, {3, 5}}},
    {"ccba", {4, 4, 2, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
  },
  fallback = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
      "byte_fallback":true,"ignore_merges":false,"vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"c":4,
      "abc":5,"é":6,"<0xE2>":7,"<0x82>":8,"<0xAC>":9,"<0x78>":10,"bc":11},"merges":[["a","b"],
      ["ab","c"],["b","c"]]},"pre_tokenizer":null}]=],
    {"abcab", {5, 3}, {{0, 3}, {3, 5}}},
    {"€a€", {7, 8, 9, 1, 7, 8, 9}, {{0, 3}, {0, 3}, {0, 3}, {3, 4}, {4, 7}, {4, 7}, {4, 7}}},
    {"日a", {0, 1}, {{0, 3}, {3, 4}}},
    {"xa", {10, 1}, {{0, 1}, {1, 2}}},
    {"€", {7, 8, 9}, {{0, 3}, {0, 3}, {0, 3}}},
  },
  whole = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
      "byte_fallback":false,"ignore_merges":true,"vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"c":4,
      "abc":5,"é":6,"<0xE2>":7,"<0x82>":8,"<0xAC>":9,"<0x78>":10,"bc":11,"cab":12},
      "merges":[["a","b"],["ab","c"],["b","c"]]},"pre_tokenizer":{"type":"WhitespaceSplit"}}]=],
    {"cab cabc", {12, 4, 5}, {{0, 3}, {4, 5}, {5, 8}}},
    {"ab b cab", {3, 2, 12}, {{0, 2}, {3, 4}, {5, 8}}},
  },
  affixes = {
    [=[{"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":"##","end_of_word_suffix":"</w>","fuse_unk":false,
      "byte_fallback":false,"ignore_merges":false,"vocab":{"<unk>":0,"a":1,"b":2,"##a":3,
      "##b":4,"##b</w>":5,"a</w>":6,"##a</w>":7,"ab</w>":8,"ab":9,"##ab</w>":10},"merges":[["a",
      "##b</w>"],["a","##b"],["##a","##b</w>"]]},"pre_tokenizer":{"type":"WhitespaceSplit"}}]=],
    {"ab a b aab abab", {8, 6, 0, 1, 10, 9, 10},
     {{0, 2}, {3, 4}, {5, 6}, {7, 8}, {8, 10}, {11, 13}, {13, 15}}},
    {"x ax xa bab", {0, 1, 0, 0, 7, 2, 10},
     {{0, 1}, {2, 3}, {3, 4}, {5, 6}, {6, 7}, {8, 9}, {9, 11}}},
    {"aba", {9, 7}, {{0, 2}, {2, 3}}},
  },
  pieces = {
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.0],["b",-1.0],["ab",
      -2.0],["abc",-2.5],["c",-3.0],["bc",-0.25],["xyz",-40.0],["<0xC3>",-9.0],["é",-2.0]],
      "byte_fallback":false},"pre_tokenizer":null}]=],
    {"abcab", {1, 6, 3}, {{0, 1}, {1, 3}, {3, 5}}},
    {"xya", {0, 1}, {{0, 2}, {2, 3}}},
    {"xyz", {7}, {{0, 3}}},
    {"axbyyc", {1, 0, 2, 0, 5}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}, {5, 6}}},
    {"éa", {9, 1}, {{0, 2}, {2, 3}}},
    {"ccba", {5, 5, 2, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
    {"<unk>a", {0, 1}, {{0, 5}, {5, 6}}},
    {"日本a日", {0, 1, 0}, {{0, 6}, {6, 7}, {7, 10}}},
    {"abab", {3, 3}, {{0, 2}, {2, 4}}},
    {"xyzz", {7, 0}, {{0, 3}, {3, 4}}},
  },
  bytes = {
    [=[{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.5],["<0xC3>",-9.0],
      ["<0xA9>",-9.0],["<0x78>",-9.0],["xx",-100.0]],"byte_fallback":true},"pre_tokenizer":null}]=],
    {"aéa", {1, 2, 3, 1}, {{0, 1}, {1, 3}, {1, 3}, {3, 4}}},
    {"xxa", {5, 1}, {{0, 2}, {2, 3}}},
    {"yé", {0}, {{0, 3}}},
    {"x", {4}, {{0, 1}}},
    {"éé", {2, 3, 2, 3}, {{0, 4}, {0, 4}, {0, 4}, {0, 4}}},
    {"xéa", {4, 2, 3, 1}, {{0, 3}, {0, 3}, {0, 3}, {3, 4}}},
  },
}

local function cut(tok, text)
  local ids, offsets = tok:encode(text, {special = false, offsets = true})
  ids, offsets = ids:totable(), offsets:totable()
  for i = 1, #ids do
    ids[i] = ids[i] - 1
    offsets[i][1] = offsets[i][1] - 1
  end
  return ids, offsets
end


describe("the model", function()
  for name, case in pairs(CASES) do
    it(name .. " cuts as the package does", function()
      local tok = assert(load(case[1]))
      for i = 2, #case do
        for _ = 1, 2 do                                       -- cut, and known from before
          local ids, offsets = cut(tok, case[i][1])
          assert.same(case[i][2], ids, case[i][1])
          assert.same(case[i][3], offsets, case[i][1])
        end
      end
    end)
  end

  -- A tokenizer of these pieces, and the memory that it takes.
  local function unigram(names)
    local pieces = {'["<unk>",0]'}
    for i, name in ipairs(names) do pieces[i + 1] = ('["%s",-1]'):format(name) end
    collectgarbage()
    collectgarbage()
    local before = heed.memory().other
    local tok = assert(load(('{"model":{"type":"Unigram","unk_id":0,"vocab":[%s]}}'):format(
      table.concat(pieces, ","))))
    return tok, heed.memory().other - before
  end

  it("keeps the pieces of Unigram in memory that grows with their bytes", function()
    local numbers, words = {}, {""}
    for i = 1, 2000 do numbers[i] = ("%x.%d"):format(i * 7919 % 4096, i) end
    for i = 1, 4095 do                         -- all of two letters, up to 12 of them
      words[#words + 1], words[#words + 2] = words[i] .. "a", words[i] .. "b"
    end
    table.remove(words, 1)
    for _, names in ipairs{numbers, words} do
      local tok, bytes = unigram(names)
      assert.is_true(bytes < 4 << 20, bytes)           -- 1 MiB is for words, some for names
      for _, i in ipairs{1, 77, #names} do assert.same({i}, (cut(tok, names[i]))) end
    end
  end)

  it("finds no piece of Unigram that goes on behind the word's end, and the only one", function()
    local tok = assert(load(([=[{"added_tokens":[{"id":3,"content":"<s>"}],"model":{"type":
      "Unigram","unk_id":0,"vocab":[["<unk>",-9],["bcd<s>%s",-1],["b",-1]]}}]=]):format(
      ("x"):rep(400))))
    for _, text in ipairs{"bcd<s>", "bc<s>x"} do
      assert.same({2, 0, 3, 0}, (cut(tok, text .. ("x"):rep(400))))
    end
    assert.same({2, 3}, (cut(tok, "b<s>")))
    assert.matches("a list of pieces and scores as 'vocab' expected",
                   select(2, load('{"model":{"unk_id":0,"vocab":{"a":0}}}')))
    local single = assert(load('{"model":{"type":"Unigram","vocab":[["a",-1]]}}'))
    assert.same({0, 0}, (cut(single, "aa")))
  end)

  -- Pieces of all lengths that share beginnings, bytes of 0 among them, in texts of two of them:
  -- cut as cheaply as can be.
  it("finds each piece of Unigram among others that begin alike", function()
    local state, names, seen = 11, {}, {}
    local function draw(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return (state >> 16) % n + 1
    end
    local function add(name)
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
    for _, c in ipairs{"\0", "a", "b", "z"} do add(c) end
    for i = 1, 1500 do
      local bytes = {names[draw(#names)]:sub(1, draw(30))}
      for k = 2, draw(i % 3 == 0 and 30 or 4) do bytes[k] = ("\0abz"):sub(draw(4)):sub(1, 1) end
      add(table.concat(bytes))
    end
    local pieces = {'["<unk>",0]'}
    for i, name in ipairs(names) do
      pieces[i + 1] = ('["%s",-%d.5]'):format(name:gsub("\0", "\\u0000"), #name == 1 and 40 or 20)
    end
    local tok = assert(load(('{"model":{"type":"Unigram","unk_id":0,"vocab":[%s]}}'):format(
      table.concat(pieces, ","))))
    local function cost(name) return #name == 1 and 40.5 or 20.5 end
    for i, name in ipairs(names) do
      local text, best = name .. names[#names + 1 - i], {[0] = 0}
      for to = 1, #text do
        best[to] = math.huge
        for from = math.max(0, to - 60), to - 1 do
          local piece = text:sub(from + 1, to)
          if seen[piece] then best[to] = math.min(best[to], best[from] + cost(piece)) end
        end
      end
      local ids, sum, parts = cut(tok, text), 0, {}
      for k, id in ipairs(ids) do
        parts[k] = names[id]
        sum = sum + cost(names[id])
      end
      assert.equal(text, table.concat(parts))
      assert.equal(best[#text], sum, text)
    end
  end)

  it("sorts pieces of Unigram of a few letters, of which one begins otherwise", function()
    for _, first in ipairs{"", "a"} do
      local pieces, names = {('["%s???",0]'):format(first)}, {#first == 0 and "zbb" or "zbbb"}
      for i = 0, 124 do
        local k, letters = i * 57 % 125, {}
        for n = 1, 3 do
          letters[n], k = ("edcba"):sub(k % 5 + 1, k % 5 + 1), k // 5
        end
        table.insert(names, 1 + i * 31 % (i + 1), first .. table.concat(letters))
      end
      for i, name in ipairs(names) do pieces[i + 1] = ('["%s",-1]'):format(name) end
      local tok = assert(load(('{"model":{"type":"Unigram","unk_id":0,"vocab":[%s]}}'):format(
        table.concat(pieces, ","))))
      for i, name in ipairs(names) do assert.same({i, i}, (cut(tok, name:rep(2))), name) end
    end
  end)

  -- A score with an exponent is strtod's; one without is not. "xy" and "x", which "y" costs nothing
  -- beside, tie if both are the same double, and then the longer piece stays.
  it("reads scores of Unigram to the last bit", function()
    local numbers = {
      "9007199254740993", "9007199254740995", "9007199254740992", "4503599627370496.5",
      "4503599627370497.5", "0", "0.0000000000000000001", "9999999999999999999",
      "1.000000000000000055", "1.000000000000000056", "0.3333333333333333148",
      "18014398509481985", "1152921504606847105", "10.123456001281738", "98765432109876543210",
      "462.832530773368859", "9009112.9319995353", "5.325264812463955",    -- a little above a tie
    }
    local state = 5
    for i = 1, 1000 do
      local digits = {}
      for k = 1, i % 19 + 1 do
        state = (state * 1103515245 + 12345) % 2147483648
        digits[k] = (state >> 16) % (k == 1 and 9 or 10) + (k == 1 and 1 or 0)
      end
      local text = table.concat(digits)
      numbers[#numbers + 1] = #text > 1 and i % 3 > 0 and text:sub(1, i % (#text - 1) + 1) .. "." ..
                              text:sub(i % (#text - 1) + 2) or text
    end
    for _, sign in ipairs{"", "-"} do
      local pieces, count = {'["<unk>",-1e30]', '["y",0]'}, 0
      for i, number in ipairs(numbers) do
        for k = 0, 1 do
          local x = utf8.char(0x4e00 + 2 * i + k)
          local one, other = sign .. number, sign .. number .. "e0"
          if k == 1 then one, other = other, one end
          pieces[#pieces + 1] = ('["%s",%s],["%sy",%s]'):format(x, one, x, other)
        end
      end
      local tok = assert(load(('{"model":{"type":"Unigram","unk_id":0,"vocab":[%s]}}'):format(
        table.concat(pieces, ","))))
      for i, number in ipairs(numbers) do
        for k = 0, 1 do
          local ids = cut(tok, utf8.char(0x4e00 + 2 * i + k) .. "y")
          assert.same({2 * (2 * i + k) - 1}, ids, sign .. number)
          count = count + 1
        end
      end
      assert.equal(2 * #numbers, count)
    end
  end)

  it("cuts long words as it cuts short ones", function()
    for name, list in pairs{
      unknown = {"abcabx", {5, 3, 0}}, fallback = {"abcab\u{20ac}", {5, 3, 7, 8, 9}},
      pieces = {"abcabx", {1, 6, 3, 0}},
    } do
      local tok = assert(load(CASES[name][1]))
      local expected = {}
      for i = 1, 50 do table.move(list[2], 1, #list[2], (i - 1) * #list[2] + 1, expected) end
      assert.same(expected, (cut(tok, list[1]:rep(50))))
      local count = 3000
      assert.equal(#list[2] * count, #cut(tok, list[1]:rep(count)))
    end
  end)

  -- The package gives a pending unknown token behind the bytes, and joins it with the next one.
  it("gives an unknown token before the bytes that follow it", function()
    local text = CASES.fallback[1]:gsub('"fuse_unk":false', '"fuse_unk":true')
    local ids, offsets = cut(assert(load(text)), "\u{65e5}x\u{65e5}")
    assert.same({0, 10, 0}, ids)
    assert.same({{0, 3}, {3, 4}, {4, 7}}, offsets)
  end)

  it("makes a special token of what a normalizer wrote where those are asked for alone", function()
    for _, model in ipairs{
      [=[{"type":"Unigram","unk_id":0,
          "vocab":[["<unk>",0],["<s>",0],["<",-2],["s",-2],[">",-2]]}]=],
      [=[{"type":"BPE","vocab":{"<unk>":0,"<s>":1,"<":2,"s":3,">":4},"merges":[],
          "ignore_merges":true}]=],
    } do
      local tok = assert(load(([=[{"model":%s,"normalizer":{"type":"Replace",
        "pattern":{"String":"["},"content":"<"},"added_tokens":[{"id":1,"content":"<s>",
        "special":true}]}]=]):format(model)))
      for _, parse in ipairs{false, true, false, true} do
        local ids = tok:encode("[s>", {parse = parse}):totable()
        assert.same(parse and {2} or {3, 4, 5}, ids)
      end
    end
  end)

  it("with a token for each byte gives back any bytes", function()
    local vocabulary, pieces = {"<unk>", "a", "b", "é"}, {}
    for i = 0, 255 do vocabulary[#vocabulary + 1] = ("<0x%02X>"):format(i) end
    local by_name = {}
    for i, name in ipairs(vocabulary) do
      by_name[name] = i - 1
      pieces[i] = {name, -i}
    end
    local decoder = {type = "ByteFallback"}
    for _, model in ipairs{
      {type = "BPE", vocab = by_name, merges = json.array{}, unk_token = "<unk>",
       byte_fallback = true},
      {type = "Unigram", vocab = json.array(pieces), unk_id = 0, byte_fallback = true},
    } do
      local tok = assert(load(json.encode{model = model, decoder = decoder}))
      local state = 3
      for i = 1, 300 do
        local bytes = {}
        for k = 1, i % 70 do
          state = (state * 1103515245 + 12345) % 2147483648
          bytes[k] = i % 2 == 0 and string.char(state >> 16 & 255) or
            utf8.char(97 + (state >> 16 & 0x1ff))
        end
        local text = table.concat(bytes)
        assert.equal(text, tok:decode((tok:encode(text))))
      end
    end
  end)

  it("refuses what it does not know", function()
    local function refused(name, from, to)
      local text = CASES[name][1]:gsub("\n *", "")
      local a, b = text:find(from, 1, true)
      local tok, why = load(text:sub(1, a - 1) .. to .. text:sub(b + 1))
      assert.is_nil(tok)
      return why
    end
    assert.matches("unk_token 'none' is not known", refused("unknown", '"unk_token":"<unk>"',
                                                            '"unk_token":"none"'))
    assert.matches("'dropout' is not known", refused("unknown", '"dropout":null', '"dropout":0.5'))
    assert.matches("prefix or suffix of at most 64 bytes expected",
                   refused("affixes", '"##"', '"' .. ("#"):rep(65) .. '"'))
    assert.matches("merge 1 of the BPE model: a second half with the continuing prefix",
                   refused("affixes", '[["a","##b</w>"]', '[["a","b"]'))
    assert.matches("merge 1 .* halves that make a token", refused("unknown", '["a","b"]',
                                                                 '["b","a"]'))
    assert.matches("'unk_id' expected", refused("pieces", '"unk_id":0', '"unk_id":10'))
    for _, score in ipairs{'"x"', "-1e999", "1e201", "-1.1e200"} do
      assert.matches("a number from %-1e200 to 1e200 as a score", refused("pieces", "-2.5", score))
    end
    assert(load((CASES.pieces[1]:gsub("-2%.5", "-1e200"))))
    assert.matches("a piece and its score expected", refused("pieces", '["a",-1.0]', '["a"]'))
    assert.matches("a table of tokens as 'vocab'", refused("pieces", '"type":"Unigram"',
                                                           '"type":"BPE"'))
    assert.matches("a table of tokens as 'vocab'", refused("unknown", '"type":"BPE"',
                                                           '"type":"Unigram"'))
    local text = CASES.pieces[1]:gsub('"unk_id":0', '"unk_id":null')
    local tok = assert(load(text))
    assert.same({1, 6}, (cut(tok, "abc")))
    local good, why = pcall(tok.encode, tok, "abz")
    assert.is_false(good)
    assert.matches("encode: the Unigram model: 'unk_id' for a character that is no piece", why)
  end)
end)
