-- Decoders: what the package `tokenizers` 0.23 makes of ids, at once and one by one.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"
local tokenizer_of = require "spec.support.tokenizer_of"

-- Names of added tokens, whose ids begin behind those of the file.
local NAMES <const> = {
  "▁The", "▁", "##ing", ".", "n't", "'s", "do not", "a</w>", "</w>b", "<0xE2>", "<0x82>",
  "<0xac>", "<0xFF>", "▁▁x", "x▁y", " ", "é", "!",
}

-- Positions in NAMES.
local LISTS <const> = {
  {}, {1}, {1, 2}, {2, 2, 1}, {3, 1, 3, 4}, {5, 6, 7, 4, 18}, {8, 9, 8}, {10, 11, 12},
  {1, 10, 11, 12, 14}, {14, 15, 14}, {16, 1, 16}, {2, 16, 2}, {1, 5, 7, 8, 15, 2, 2},
  {18, 17, 3, 4, 6}, {2}, {8}, {3}, {10, 11, 12, 2, 2, 2},
}

local CASES <const> = {
  null = {
    [[null]],
    "", "▁The", "▁The ▁", "▁ ▁ ▁The", "##ing ▁The ##ing .", "n't 's do not . !",
    "a</w> </w>b a</w>", "<0xE2> <0x82> <0xac>", "▁The <0xE2> <0x82> <0xac> ▁▁x", "▁▁x x▁y ▁▁x",
    "  ▁The  ", "▁   ▁", "▁The n't do not a</w> x▁y ▁ ▁", "! é ##ing . 's", "▁", "a</w>", "##ing",
    "<0xE2> <0x82> <0xac> ▁ ▁ ▁",
  },
  metaspace = {
    [[{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}]],
    "", "The", "The ", "  The", "##ing The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", "The<0xE2><0x82><0xac>  x", "xx y  x", "  The ", "  ",
    "Then'tdo nota</w>x y  ", "!é##ing.'s", "", "a</w>", "##ing", "<0xE2><0x82><0xac>   ",
  },
  metaspace_never = {
    [[{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true}]],
    "", " The", " The ", "   The", "##ing The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", " The<0xE2><0x82><0xac>  x", "  xx y  x", "  The ", "   ",
    " Then'tdo nota</w>x y  ", "!é##ing.'s", " ", "a</w>", "##ing", "<0xE2><0x82><0xac>   ",
  },
  wordpiece = {
    [[{"type":"WordPiece","prefix":"##","cleanup":true}]],
    "", "▁The", "▁The ▁", "▁ ▁ ▁The", "##ing ▁Theing.", "n't's don't.!", "a</w> </w>b a</w>",
    "<0xE2> <0x82> <0xac>", "▁The <0xE2> <0x82> <0xac> ▁▁x", "▁▁x x▁y ▁▁x", "  ▁The  ", "▁   ▁",
    "▁Then't don't a</w> x▁y ▁ ▁", "! éing.'s", "▁", "a</w>", "##ing",
    "<0xE2> <0x82> <0xac> ▁ ▁ ▁",
  },
  wordpiece_plain = {
    [[{"type":"WordPiece","prefix":"##","cleanup":false}]],
    "", "▁The", "▁The ▁", "▁ ▁ ▁The", "##ing ▁Theing .", "n't 's do not . !", "a</w> </w>b a</w>",
    "<0xE2> <0x82> <0xac>", "▁The <0xE2> <0x82> <0xac> ▁▁x", "▁▁x x▁y ▁▁x", "  ▁The  ", "▁   ▁",
    "▁The n't do not a</w> x▁y ▁ ▁", "! éing . 's", "▁", "a</w>", "##ing",
    "<0xE2> <0x82> <0xac> ▁ ▁ ▁",
  },
  bpe = {
    [[{"type":"BPEDecoder","suffix":"</w>"}]],
    "", "▁The", "▁The▁", "▁▁▁The", "##ing▁The##ing.", "n't'sdo not.!", "a  ba",
    "<0xE2><0x82><0xac>", "▁The<0xE2><0x82><0xac>▁▁x", "▁▁xx▁y▁▁x", " ▁The ", "▁ ▁",
    "▁Then'tdo nota x▁y▁▁", "!é##ing.'s", "▁", "a", "##ing", "<0xE2><0x82><0xac>▁▁▁",
  },
  llama = {
    [[{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},
      {"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]}]],
    "", "The", "The ", "  The", "##ing The##ing.", "n't'sdo not.!", "a</w></w>ba</w>", "€",
    "The€  x", " xx y  x", " The ", "  ", "Then'tdo nota</w>x y  ", "!é##ing.'s", "", "a</w>",
    "##ing", "€   ",
  },
  strips = {
    [[{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},
      {"type":"Fuse"},
      {"type":"Strip","content":" ","start":2,"stop":2}]}]],
    false, "The", "The", " The", "##ing The##ing.", "n't'sdo not.!", "a</w></w>ba</w>", "€",
    "The€  x", "xx y  x", "The", false, "Then'tdo nota</w>x y", "!é##ing.'s", false, "a</w>",
    "##ing", "€ ",
  },
  strip_each = {
    [[{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"Strip","content":" ","start":1,"stop":1}]}]],
    "", "The", false, false, "##ingThe##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", "The<0xE2><0x82><0xac> x", " xx y x", false, false, false, "!é##ing.'s",
    false, "a</w>", "##ing", false,
  },
  regex = {
    [[{"type":"Replace","pattern":{"Regex":"[▁x]+"},"content":"_"}]],
    "", "_The", "_The_", "___The", "##ing_The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0_E2><0_82><0_ac>", "_The<0_E2><0_82><0_ac>_", "__y_", " _The ", "_ _",
    "_Then'tdo nota</w>_y__", "!é##ing.'s", "_", "a</w>", "##ing", "<0_E2><0_82><0_ac>___",
  },
  strip_level = {
    [[{"type":"Sequence","decoders":[{"type":"ByteLevel"},
      {"type":"Strip","content":"▁","start":1,"stop":0}]}]],
    "", "The", "The▁", "▁▁The", "##ing▁The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", "The<0xE2><0x82><0xac>▁▁x", "▁xx▁y▁▁x", " ▁The ", " ▁",
    "Then'tdo nota</w>x▁y▁▁", false, "", "a</w>", "##ing", "<0xE2><0x82><0xac>▁▁▁",
  },
  wordpiece_bare = {
    [[{"type":"WordPiece","prefix":"","cleanup":true}]],
    "", "▁The", "▁The▁", "▁▁▁The", "##ing▁The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", "▁The<0xE2><0x82><0xac>▁▁x", "▁▁xx▁y▁▁x", " ▁The ", "▁ ▁",
    "▁Then'tdo nota</w>x▁y▁▁", "!é##ing.'s", "▁", "a</w>", "##ing", "<0xE2><0x82><0xac>▁▁▁",
  },
  bytelevel = {
    [[{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}]],
    "", "▁The", "▁The▁", "▁▁▁The", "##ing▁The##ing.", "n't'sdo not.!", "a</w></w>ba</w>",
    "<0xE2><0x82><0xac>", "▁The<0xE2><0x82><0xac>▁▁x", "▁▁xx▁y▁▁x", " ▁The ", "▁ ▁",
    "▁Then'tdo nota</w>x▁y▁▁", false, "▁", "a</w>", "##ing", "<0xE2><0x82><0xac>▁▁▁",
  },
  strip_bytes = {
    [[{"type":"Sequence","decoders":[
      {"type":"ByteFallback"},
      {"type":"Fuse"},
      {"type":"Strip","content":"▁","start":3,"stop":3}]}]],
    false, "The", "The", "The", "##ing▁The##ing.", "n't'sdo not.!", "a</w></w>ba</w>", "€",
    "The€▁▁x", "xx▁y▁▁x", " ▁The ", " ", "Then'tdo nota</w>x▁y", "!é##ing.'s", false, "a</w>",
    "##ing", "€",
  },
}

local file = json.decode(files.read "spec/golden/tokenizers/bpe_llama3/tokenizer.json")
local FIRST <const> = 681

local function load(decoder, names)
  file.decoder, file.post_processor = json.decode(decoder), nil
  local added = {}
  for i, name in ipairs(names) do
    added[i] = {id = FIRST + i - 2, content = name, special = name == "<s>"}
  end
  file.added_tokens = json.array(added)
  return tokenizer_of(json.encode(file))
end

local function ids_of(list)
  local ids = {}
  for i, place in ipairs(list) do ids[i] = FIRST + place - 1 end
  return ids
end

-- The text of ids one by one, whose parts are whole characters.
local function streamed(tok, ids)
  local stream, parts = tok:stream{special = true}, {}
  for i, id in ipairs(ids) do
    parts[i] = stream:push(id)
    assert.is_truthy(utf8.len(parts[i]))
  end
  return table.concat(parts) .. stream:finish()
end


describe("the decoder", function()
  for name, case in pairs(CASES) do
    it(name .. " gives the texts of the package, at once and in a stream", function()
      local tok = assert(load(case[1], NAMES))
      for i, list in ipairs(LISTS) do
        local ids = ids_of(list)
        local text = tok:decode(ids, {special = true})
        if case[i + 1] then assert.equal(case[i + 1], text) end
        if utf8.len(text) then assert.equal(text, streamed(tok, ids)) end
      end
    end)
  end

  it("ByteFallback waits for the rest of a character, of each length", function()
    for _, character in ipairs{0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff} do
      local text, names = utf8.char(character), {}
      for i = 1, #text do names[i] = ("<0x%02X>"):format(text:byte(i)) end
      local stream = assert(load('{"type":"ByteFallback"}', names)):stream()
      for i = 1, #text - 1 do assert.equal("", stream:push(FIRST + i - 1)) end
      assert.equal(text, stream:push(FIRST + #text - 1))
    end
    for _, byte in ipairs{"<0xC1>", "<0xF5>", "<0x80>"} do        -- none begins a character
      local stream = assert(load('{"type":"ByteFallback"}', {byte})):stream()
      assert.equal(string.char(tonumber(byte:sub(2, 5))), stream:push(FIRST))
    end
  end)

  it("ByteFallback gives bytes as they are, also those that are no UTF-8", function()
    local tok = assert(load('{"type":"ByteFallback"}',
                            {"<0xE2>", "<0x82>", "<0xaC>", "x", "<0xFF>"}))
    assert.equal("\xe2\x82x", tok:decode(ids_of{1, 2, 4}))
    local stream = tok:stream()
    assert.equal("", stream:push(FIRST))
    assert.equal("", stream:push(FIRST + 1))
    assert.equal("\u{20ac}", stream:push(FIRST + 2))
    assert.equal("", stream:push(FIRST))
    assert.equal("\xe2x", stream:push(FIRST + 3))
    assert.equal("\xff", stream:push(FIRST + 4))
    assert.equal("\x82", stream:push(FIRST + 1))
    assert.equal("", stream:push(FIRST))
    assert.equal("\xe2", stream:finish())
  end)

  it("leaves special tokens out, at the ends too", function()
    local tok = assert(load(CASES.bpe[1], {"<s>", "a</w>", "b</w>"}))
    local ids = ids_of{1, 2, 1, 3, 1}
    assert.equal("a b", tok:decode(ids))
    assert.equal("<s>a <s>b <s>", tok:decode(ids, {special = true}))
    local stream, parts = tok:stream(), {}
    for i, id in ipairs(ids) do parts[i] = stream:push(id) end
    assert.same({"", "", "", "a ", ""}, parts)
    assert.equal("b", stream:finish())
    assert.equal("", stream:finish())
    assert.equal("", stream:push(ids[3]) .. stream:push(ids[2]))
    assert.equal("a", stream:finish())
    tok = assert(load('{"type":"Sequence","decoders":[' .. CASES.bpe[1] .. "," ..
                      CASES.metaspace[1] .. "]}", {"▁b</w>"}))
    assert.equal("b", tok:decode(ids_of{1}))
    assert.equal("b  b", tok:decode(ids_of{1, 1}))
    tok = assert(load(CASES.wordpiece[1], {"<s>", "a", "##b", "c"}))
    assert.equal("ab c", tok:decode(ids_of{1, 2, 3, 1, 4}))
    assert.equal("<s> ab <s> c", tok:decode(ids_of{1, 2, 3, 1, 4}, {special = true}))
  end)

  it("takes many ids, long texts and views", function()
    local long = ("long"):rep(30)
    local tok = assert(load(CASES.regex[1], {long, "x", "yz"}))
    local list = {}
    for i = 1, 70000 do list[i] = FIRST + i % 3 end
    local text = tok:decode(list)
    assert.equal(("_yz" .. long):rep(23333) .. "_", text)
    local ids = heed.tensor({{FIRST + 1, 1}, {FIRST + 2, 2}}, {dtype = "int64"})
    assert.equal("_yz", tok:decode(ids:t()[1]))
  end)

  it("says what it does not take", function()
    local function said(f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      return message
    end
    local tok = assert(load(CASES.bpe[1], NAMES))
    local last = #tok
    assert.matches("decode: ids from 1 to " .. last .. " expected, got 0 at position 2",
                   said(tok.decode, tok, {1, 0}))
    local stream = tok:stream()
    assert.matches("push: an id from 1 to " .. last .. " expected, got " .. last + 1,
                   said(stream.push, stream, last + 1))
    assert.matches("push: .*expected.*id", said(stream.push, stream, "a"))
    assert.matches("unknown option 'specials'", said(tok.stream, tok, {specials = true}))
    assert.matches("write stream:push", said(stream.push, 1))
    for decoder, wanted in pairs{
      ['{"type":"CTX"}'] = "the decoder 'CTX' is not known",
      ['{"type":"Replace","content":"x","pattern":{"String":""}}'] = "Replace: a pattern expected",
      ['{"type":"Replace","content":"x","pattern":{"Regex":"(a)*"}}'] = "a repeated group",
      ['{"type":"Replace","content":1,"pattern":{"String":"a"}}'] = "a text as 'content' expected",
      ['{"type":"Strip","content":"ab","start":1,"stop":0}'] = "Strip: one character expected",
      ['{"type":"Strip","content":"a","start":17,"stop":0}'] = "from 0 to 16 expected",
      ['{"type":"Metaspace"}'] = "Metaspace: one character expected",
      ['{"type":"WordPiece"}'] = "a text as 'prefix' expected",
      ['{"type":"BPEDecoder","suffix":""}'] = "a text as 'suffix' expected",
      ['{"type":"Sequence"}'] = "a list of decoders expected",
      ['{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"ByteFallback"}]}'] =
        "the decoder ByteLevel: one Strip at most behind it expected",
      ['{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]}'] =
        "one Strip at most behind it expected",
      ['{"type":"Sequence","decoders":[' .. ('{"type":"ByteFallback"},'):rep(8) ..
        '{"type":"ByteFallback"}]}'] = "at most 8 decoders expected",
      ['{"type":"Replace","content":"' .. ("x"):rep(9999) .. '","pattern":{"Regex":"."}}'] =
        "texts of at most 16 times the file expected",
    } do
      local none, why = load(decoder, NAMES)
      assert.is_nil(none)
      assert.matches(wanted, why, 1, true)
    end
  end)
end)
