-- Limits of what files may say, each at its exact value, and what .model files become, asked of the
-- modules that read them.

local alike = require "heed.models.alike"
local header = require "heed.files.header"
local nn = require "heed.nn"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"


describe("a piece of SentencePiece", function()
  local function why(name, score, kind, known)
    return select(2, refuse.try(sentencepiece.check_piece, {name = name, score = score or 0,
                                                            kind = kind or 1}, known or {}))
  end

  it("has as many bytes as the format may give it, and no more", function()
    assert.is_nil(why(("x"):rep(512)))
    assert.is_nil(why(("é"):rep(256)))
    for _, name in ipairs{("x"):rep(513), "\xff"} do
      assert.matches("a piece of at most 512 bytes of UTF-8 expected, got \"", why(name), 1, true)
    end
    assert.is_nil(why(""))
    assert.matches('two pieces "a"$', why("a", 0, 1, {a = {}}))
  end)

  it("is of a kind that is known", function()
    for kind, good in pairs{[0] = false, true, true, true, true, false, true, false} do
      assert.equal(good, why("a", 0, kind) == nil, kind)
      if not good then
        assert.matches(('piece "a": kind %d is not known'):format(kind), why("a", 0, kind), 1, true)
      end
    end
  end)

  it("has a finite score", function()
    for _, good in ipairs{3e38, -3e38, 0, -1e10} do assert.is_nil(why("a", good)) end
    for _, bad in ipairs{3.1e38, -3.1e38, math.huge, -math.huge, 0 / 0} do
      assert.matches('piece "a": a finite score expected', why("a", bad), 1, true)
    end
  end)
end)


-- A message's fields, as protocol buffers have them.
describe("a .model file of SentencePiece", function()
  local function varint(n)
    local bytes = {}
    while n > 127 do
      bytes[#bytes + 1], n = string.char(n & 127 | 128), n >> 7
    end
    return table.concat(bytes) .. string.char(n)
  end

  local function number(field, n) return varint(field << 3) .. varint(n) end

  local function bytes_of(field, bytes) return varint(field << 3 | 2) .. varint(#bytes) .. bytes end

  local function piece(name, score, kind)
    return bytes_of(1, bytes_of(1, name) .. (score and "\x15" .. string.pack("<f", score) or "")
                       .. (kind and number(3, kind) or ""))
  end

  local PIECES <const> = piece("<unk>", 0, 2) .. piece("<s>", 0, 3) .. piece("\u{2581}a", -1.5)
                         .. piece("a", -2) .. piece("b", -2.5) .. piece("ab", -0.5)
                         .. piece("\u{2581}ab", -0.25) .. piece("word", -9, 4)
                         .. piece("\u{2581}", -3)

  local function content(more, is_bare)
    return refuse.try(sentencepiece.content_of, PIECES .. (more or ""), is_bare)
  end

  local function refusal(bytes)
    local found, why = refuse.try(sentencepiece.content_of, bytes)
    assert.is_nil(found)
    return why
  end

  local function token(id, name, special)
    return {id = id, content = name, special = special, normalized = false, single_word = false,
            lstrip = false, rstrip = false}
  end

  local REPLACE <const> = {type = "Replace", pattern = {String = "\u{2581}"}, content = " "}
  local TRIMS <const> = {
    {type = "Replace", pattern = {Regex = "^ +| +$"}, content = ""},
    {type = "Replace", pattern = {Regex = " {2,}"}, content = " "},
  }
  local STRIP <const> = {type = "Strip", content = " ", start = 1, stop = 0}

  it("becomes all parts of a tokenizer.json: Unigram", function()
    local found = content()
    assert.same({
      model = {type = "Unigram", unk_id = 0, byte_fallback = false, bytes_in_text = false,
               vocab = {{"<unk>", 0}, {"<s>", 0}, {"\u{2581}a", -1.5}, {"a", -2}, {"b", -2.5},
                        {"ab", -0.5}, {"\u{2581}ab", -0.25}, {"word", -9}, {"\u{2581}", -3}}},
      added_tokens = {token(0, "<unk>", true), token(1, "<s>", true), token(7, "word", false)},
      normalizer = {type = "Sequence", normalizers = TRIMS},
      decoder = {type = "Sequence",
                 decoders = {REPLACE, {type = "ByteFallback"}, {type = "Fuse"}, STRIP}},
      pre_tokenizer = {type = "Metaspace", replacement = "\u{2581}", split = true,
                       prepend_scheme = "first", doubles = true},
    }, found)
    assert.is_true(content(bytes_of(2, number(35, 1))).model.byte_fallback)
  end)

  it("becomes all parts of a tokenizer.json: BPE, whose merges are all pairs of pieces", function()
    local found = content(bytes_of(2, number(3, 2)))
    assert.same({
      type = "BPE", unk_token = "<unk>", fuse_unk = true, byte_fallback = false,
      vocab = {["<unk>"] = 0, ["<s>"] = 1, ["\u{2581}a"] = 2, a = 3, b = 4, ab = 5,
               ["\u{2581}ab"] = 6, word = 7, ["\u{2581}"] = 8},
      merges = {{"\u{2581}", "ab"}, {"\u{2581}a", "b"}, {"a", "b"}, {"\u{2581}", "a"}},
    }, found.model)
    assert.is_true(content(bytes_of(2, number(3, 2) .. number(35, 1))).model.byte_fallback)
    local same = content(bytes_of(2, number(3, 2)) .. piece("aab", -0.25) .. piece("aa", -0.25)
                         .. piece("x", -1, 4) .. piece("ax", -0.1) .. piece("<s>a", 5))
    assert.same({{"\u{2581}", "ab"}, {"\u{2581}a", "b"}, {"a", "ab"}, {"aa", "b"}, {"a", "a"}},
                {table.unpack(same.model.merges, 1, 5)})
    assert.equal(7, #same.model.merges)              -- none of pieces that are not normal
  end)

  it("has flags of how texts are normalized", function()
    local function parts(flags, is_bare)
      local found = content(bytes_of(3, flags), is_bare)
      return found.normalizer.normalizers, found.pre_tokenizer.prepend_scheme,
             found.decoder.decoders[4]
    end
    assert.same({TRIMS, "first", STRIP}, {parts ""})
    assert.same({TRIMS, "never"}, {parts("", true)})
    assert.same({TRIMS, "never"}, {parts(number(3, 0))})
    assert.same({{}, "first", STRIP}, {parts(number(4, 0))})
    for map, coded in pairs{["\0"] = "AA==", ["\255\254"] = "//4=", ["abc"] = "YWJj",
                            ["\0\16\131\16\81\135"] = "ABCDEFGH", ["\xfb\xf0\x3e?"] = "+/A+Pw=="} do
      assert.same({{{type = "Precompiled", precompiled_charsmap = coded, longest = true}}, "first",
                   STRIP}, {parts(bytes_of(2, map) .. number(4, 0))})
    end
    assert.is_false(content(piece("a\u{2581}", 0)).pre_tokenizer.split)
    assert.is_true(content(piece("\u{2581}\u{e9}", 0)).pre_tokenizer.split)
    assert.is_false(content(piece("\u{2581}\u{2581}", 0)).pre_tokenizer.split)
  end)

  it("may have fields that are not known, and is refused where one is broken", function()
    local double, float = "\x51" .. ("\0"):rep(8), "\x55" .. ("\0"):rep(4)
    for _, more in ipairs{number(9, 1 << 62), bytes_of(9, "abc"), double, float, bytes_of(9, ""),
                          bytes_of(2, number(1, 3) .. double)} do
      assert.same(content(), content(more))
    end
    for why, bytes in pairs{
      ["a number does not end"] = PIECES .. "\x80",
      ["a number of more than 64 bits"] = PIECES .. number(9, 0):sub(1, 1) .. ("\x80"):rep(10),
      ["a field of type 3"] = PIECES .. "\x4b", ["a field of type 7"] = PIECES .. "\x4f",
      ["field 1 of type 0"] = number(1, 1), ["field 3 of type 0"] = PIECES .. number(3, 1),
      ["field 2 of type 0"] = PIECES .. number(2, 1),
      ["field 'model' of type 2"] = PIECES .. bytes_of(2, bytes_of(3, "a")),
      ["field 'map' of type 0"] = PIECES .. bytes_of(3, number(2, 1)),
      ["field 'score' of type 0"] = bytes_of(1, number(2, 1)),
      ["pieces expected"] = "",
      ["model type 0 is not known: unigram (1) or BPE (2) expected"]
        = PIECES .. bytes_of(2, number(3, 0)),
      ["model type 3 is not known: unigram (1) or BPE (2) expected"]
        = PIECES .. bytes_of(2, number(3, 3)),
      ["treat_whitespace_as_suffix is not known"] = PIECES .. bytes_of(2, number(24, 1)),
      ["escape_whitespaces = false is not known"] = PIECES .. bytes_of(3, number(5, 0)),
      ["a piece for what is unknown expected"] = piece("a", 0),
      ['two pieces "a"'] = PIECES .. piece("a", 1),
    } do
      assert.equal(why, refusal(bytes))
    end
    local beyond = "a field reaches beyond the end"
    for _, more in ipairs{bytes_of(9, "abc"):sub(1, -2), double:sub(1, -2), float:sub(1, -2),
                          "\x4a" .. ("\xff"):rep(9) .. "\1"} do
      assert.equal(beyond, refusal(PIECES .. more))
    end
    assert.is_nil(select(2, content("\x48" .. ("\xff"):rep(9) .. "\1")))      -- 64 bits, all set
  end)
end)


describe("the header of safetensors", function()
  local function why(inner)
    local text = ('{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]%s}}'):format(inner)
    local found, no = refuse.try(header.read, text)
    return no or found.odd
  end

  it("nests one table more than it needs, and no more", function()
    assert.is_true(not why "")
    assert.equal("t", why ',"x":[[1]]')                   -- a field that the format does not have
    assert.matches("^invalid header: nested too deep", why ',"x":[[[1]]]')
    assert.matches("^invalid header: nested too deep", why ',"x":[{"a":[1]}]')
  end)

  it("has so many entries of metadata, and two of heed's", function()
    local function read(n)
      local list = {}
      for i = 1, n do list[i] = ('"k%d":"v"'):format(i) end
      return refuse.try(header.read, '{"__metadata__":{' .. table.concat(list, ",") .. "}}")
    end
    assert.equal("v", assert(read((1 << 14) + 2)).metadata.k16386)
    assert.equal("invalid metadata: at most 16386 entries expected",
                 select(2, read((1 << 14) + 3)))
  end)
end)


describe("models.alike", function()
  it("takes ropes for the same whose frequencies float32 makes so", function()
    local function rope_of(factor, attention)
      local m = nn.Module()
      m.head_dim = 4
      m.rope = {base = 10000, scaling = {rope_type = "longrope", short_factor = {1, factor},
                                         long_factor = {1, 1}, factor = 2,
                                         attention_factor = attention or 1,
                                         original_max_position_embeddings = 64}}
      return m
    end
    assert.is_nil(alike(rope_of(2), rope_of(2)))
    assert.is_nil(alike(rope_of(2), rope_of(2 * (1 + 2e-7))))
    for _, factor in ipairs{2 * (1 + 4e-6), 2 * (1 - 4e-6), 3} do
      assert.matches("^rope turns", alike(rope_of(2), rope_of(factor)))
      assert.matches("^rope turns", alike(rope_of(factor), rope_of(2)))
    end
    assert.is_nil(alike(rope_of(2), rope_of(2, 1 + 5e-7)))
    for _, attention in ipairs{1 + 3e-6, 1 - 3e-6} do
      assert.matches("^rope turns", alike(rope_of(2), rope_of(2, attention)))
    end
  end)
end)
