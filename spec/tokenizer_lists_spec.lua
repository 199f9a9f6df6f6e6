-- Lists of texts and of pairs, types of tokens, rows of ids that are decoded, and the special
-- tokens that a model's directory names.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"
local tokenizer_of = require "spec.support.tokenizer_of"

local VOCAB <const> = {a = 0, b = 1, ["[S]"] = 2, ["[C]"] = 3}
local BERT <const> = {type = "BertProcessing", sep = {"[S]", 2}, cls = {"[C]", 3}}
local ROBERTA <const> = {type = "RobertaProcessing", sep = {"[S]", 2}, cls = {"[C]", 3},
                         trim_offsets = true, add_prefix_space = true}
local BYTES <const> = {type = "ByteLevel", add_prefix_space = true, trim_offsets = true}

local function text(type_id, id) return {Sequence = {id = id, type_id = type_id}} end
local function token(type_id, id) return {SpecialToken = {id = id, type_id = type_id}} end

local TEMPLATE <const> = {
  type = "TemplateProcessing", single = {token(0, "[C]"), text(0, "A")},
  pair = {token(3, "[C]"), text(5, "A"), token(0, "[S]"), text(7, "B"), token(9, "[S]")},
  special_tokens = {["[C]"] = {id = "[C]", ids = {3}, tokens = {"[C]"}},
                    ["[S]"] = {id = "[S]", ids = {2}, tokens = {"[S]"}}},
}

local function file_of(post, more)
  local file = {model = {type = "WordLevel", vocab = VOCAB, unk_token = "a"},
                pre_tokenizer = {type = "Whitespace"}, post_processor = post}
  for name, value in pairs(more or {}) do file[name] = value end
  return json.encode(file)
end

local function with(post, more) return assert(tokenizer_of(file_of(post, more))) end

local function wanted(list)
  for i, n in ipairs(list) do list[i] = n + 1 end
  return list
end

local function message(f, ...)
  local ok, why = pcall(f, ...)
  assert.is_false(ok)
  return why
end


describe("types of tokens", function()
  -- With special tokens, and without: ids and types of "a b" and "b", as the package has them.
  local CASES <const> = {
    {nil, {0, 1, 1}, {0, 0, 1}, {0, 0, 1}}, {BYTES, {0, 1, 1}, {0, 0, 1}, {0, 0, 1}},
    {BERT, {3, 0, 1, 2, 1, 2}, {0, 0, 0, 0, 1, 1}, {0, 0, 1}},
    {ROBERTA, {3, 0, 1, 2, 2, 1, 2}, {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}},
    {TEMPLATE, {3, 0, 1, 2, 1, 2}, {3, 5, 5, 0, 7, 9}, {5, 5, 7}},
    {{type = "Sequence", processors = {BYTES, BERT}}, {3, 0, 1, 2, 1, 2}, {0, 0, 0, 0, 1, 1},
     {0, 0, 1}},
  }

  it("are the post-processor's", function()
    for i = 1, 6 do
      local case = CASES[i]
      local tok = with(case[1])
      local ids, types = tok:encode("a b", {pair = "b", types = true})
      assert.same(wanted(case[2]), ids:totable())
      assert.equal("int64", types.dtype)
      assert.same(wanted(case[3]), types:totable())
      ids, types = tok:encode("a b", {pair = "b", types = true, special = false})
      assert.same({1, 2, 2}, ids:totable())
      assert.same(wanted(case[4]), types:totable())
      local _, one = tok:encode("a", {types = true})
      for _, n in ipairs(one:totable()) do assert.equal(1, n) end
    end
  end)

  it("come behind offsets, and not unless asked for", function()
    local tok = with(BERT)
    local ids, offsets, types = tok:encode("a", {pair = "b", offsets = true, types = true})
    assert.equal("(5, 2)", tostring(offsets.shape))
    assert.same({1, 1, 1, 2, 2}, types:totable())
    assert.equal(5, #ids)
    local _, none = tok:encode("a")
    assert.is_nil(none)
  end)

  it("are refused where a file's are none", function()
    local broken = json.decode(json.encode(TEMPLATE))
    broken.pair[2].Sequence.type_id = 256
    local tok, why = tokenizer_of(file_of(broken))
    assert.is_nil(tok)
    assert.matches("the template's type_id is not of a known kind", why)
  end)
end)


describe("offsets that are trimmed", function()
  -- A text that is one token, its name, and the token's place with a blank in front of all texts
  -- and without, from 0 as the package has them; y and w become "a  " and "  a".
  local CASES <const> = {
    {"y", "a  ", 0, 1}, {"by", "ba  ", 0, 0}, {"bby", "bba  ", 0, 1}, {"bbby", "bbba  ", 0, 2},
    {"w", "  a", 1, 1}, {"bw", "b  a", 0, 2}, {"wb", "  ab", 2, 2}, {"b ", "b ", 0, 1},
    {"a\t", "a\t", 0, 1}, {"   ", "   ", 3, 3}, {"  bb", "  bb", 2, 4}, {"\u{120}\u{120}",
    "\u{120}\u{120}", 2, 2}, {" b", " b", 0, 2, 1, 2}, {"\r", "\r", 0, 0, 1, 1},
    {"b\x0b\x0e", "b\x0b\x0e", 0, 3},
  }

  it("lose the blanks of a name, where a place has as many", function()
    local vocab = {["?"] = 0}
    for i, case in ipairs(CASES) do vocab[case[2]] = i end
    local function becomes(from, to)
      return {type = "Replace", pattern = {String = from}, content = to}
    end
    for _, spaced in ipairs{true, false} do
      local tok = assert(tokenizer_of(json.encode{
        model = {type = "WordLevel", vocab = vocab, unk_token = "?"},
        normalizer = {type = "Sequence", normalizers = {becomes("y", "a  "), becomes("w", "  a")}},
        post_processor = {type = "ByteLevel", add_prefix_space = spaced, trim_offsets = true},
      }))
      for i, case in ipairs(CASES) do
        local ids, offsets = tok:encode(case[1], {offsets = true})
        local first = not spaced and case[5] or case[3]
        assert.same({i + 1}, ids:totable())
        assert.same({{first + 1, not spaced and case[6] or case[4]}}, offsets:totable(), case[1])
      end
    end
  end)
end)


describe("a list", function()
  it("may have texts and pairs, which are padded to the longest", function()
    local tok = with(BERT, {padding = {pad_id = 2, pad_token = "[S]"}})
    local ids, lengths, types = tok:encode({"b", {"a b", "b"}, "b b"}, {types = true})
    assert.same({wanted{3, 1, 2, 2, 2, 2}, wanted{3, 0, 1, 2, 1, 2}, wanted{3, 1, 1, 2, 2, 2}},
                ids:totable())
    assert.same({3, 6, 4}, lengths:totable())
    assert.same({{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 2, 2}, {1, 1, 1, 1, 1, 1}}, types:totable())
    local _, _, none = tok:encode{"a"}
    assert.is_nil(none)
  end)

  it("keeps each pair to the limit", function()
    local tok = with(BERT)
    local ids = tok:encode({{"a a a a", "b b"}, {"a", "b"}}, {max = 6})
    assert.same({wanted{3, 0, 0, 2, 1, 2}, wanted{3, 0, 2, 1, 2, 0}}, ids:totable())
  end)

  it("that holds something else is refused by its position", function()
    local tok = with(BERT)
    assert.matches("encode: a text or a list of two expected at position 2, got a list of 1",
                   message(tok.encode, tok, {"a", {"b"}}))
    assert.matches("at position 1, got an empty table", message(tok.encode, tok, {{}}))
    assert.matches("a string expected as the second text of pair 1, got 3",
                   message(tok.encode, tok, {{"a", 3}}))
    assert.matches("a string expected as text 1, got 3", message(tok.encode, tok, {3}))
    assert.matches("option pair, got a list; write pairs as {text, other}",
                   message(tok.encode, tok, {"a"}, {pair = "b"}))
    assert.matches("one text expected with option offsets, got a list$",
                   message(tok.encode, tok, {"a"}, {offsets = true}))
    local heard = setmetatable({"a", "b"}, {__index = error, __len = error})
    assert.matches("a string expected as text 1", message(tok.encode, tok, {heard}))
  end)
end)


describe("rows of ids", function()
  local tok = with(BERT, {added_tokens = {
    {id = 2, content = "[S]", special = true, normalized = false},
    {id = 3, content = "[C]", special = true, normalized = false},
  }})

  it("are decoded as a list, with encode's lengths or without", function()
    assert.same({"a b", "b"}, tok:decode(tok:encode{"a b", "b"}))
    assert.same({"a b", "b a"}, tok:decode((tok:encode{"a b", "b"})))
    local ids, lengths = tok:encode{"a b", "b"}
    assert.same({"[C] a b [S]", "[C] b [S]"}, tok:decode(ids, lengths, {special = true}))
    assert.same({"[C] a b [S]", "[C] b [S]"}, tok:decode(ids, {special = true, lengths = {4, 3}}))
    assert.same({"", ""}, tok:decode(ids, {lengths = {0, 1}}))
    assert.same({}, tok:decode(ids:narrow(1, 1, 0)))
  end)

  it("may be lists and tensors", function()
    assert.same({"a", "b b", ""}, tok:decode{{1}, heed.tensor{2, 2}, {}})
    assert.same({"a", "b"}, tok:decode({{1, 2}, heed.tensor{2, 2}}, {lengths = {1, 1}}))
    assert.equal("", tok:decode{})
  end)

  it("say what is wrong in which of them", function()
    local function said(...) return message(tok.decode, tok, ...) end
    assert.matches("rows of ids expected where lengths are given", said({1, 2}, {lengths = {1}}))
    assert.matches("length 2: at most 1 expected, got 2", said({{1}, {2}}, {lengths = {1, 2}}))
    assert.matches("2 lengths expected, got a list of 1", said({{1}, {2}}, {lengths = {1}}))
    assert.matches("2 lengths expected, got 3", said({{1}, {2}}, {lengths = 3}))
    assert.matches("2 lengths expected, got a tensor", said({{1}, {2}}, heed.zeros(2, 2)))
    assert.matches("decode: row 2: ids expected, int64 of rank 1 or 2, or a list, got 5",
                   said{{1}, 5})
    assert.matches("decode: row 2: an id expected at position 1, got 1.5", said{{1}, {1.5}})
    assert.matches("decode: an id expected at position 2, got true", said{1, true})
    assert.matches("decode: an id expected at position 1, got the string '1'", said{"1"})
    assert.matches("decode: an entry expected at position 2, since there is one at 3",
                   said{1, nil, 2})
    assert.matches("decode: a list expected, got one with the string 'ids' as a key",
                   said{ids = {1}})
    assert.equal(tok:decode{1, 2}, tok:decode{heed.tensor(1), 2.0})
    assert.matches("encode: a text, or a list of texts expected, got an empty table",
                   message(tok.encode, tok, {}))
    assert.matches("ids from 1 to 4 expected, got 9 at position 1", said{{1}, {9}})
    assert.matches("at most 2 arguments expected", said({1}, {special = true}, 5))
    assert.matches("unknown option 'length'; did you mean 'lengths'", said({{1}}, {length = 1}))
  end)
end)


describe("special tokens", function()
  local function load(list)
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir '" .. folder .. "'"))
    for name, bytes in pairs(list) do files.write(folder .. "/" .. name, bytes) end
    local tok, why = heed.tokenizer.load(folder)
    assert(os.execute("rm -r '" .. folder .. "'"))
    return tok, why
  end
  local NAME <const> = "tokenizer.json"
  local CONFIG <const>, MAP <const> = "tokenizer_config.json", "special_tokens_map.json"

  it("are those of the directory's files, the first of which counts", function()
    local tok = assert(load{
      [NAME] = file_of(nil, {padding = {pad_id = 0, pad_token = "a"}}),
      [CONFIG] = '{"pad_token":"[C]","eos_token":{"content":"[S]"},"bos_token":null}',
      [MAP] = '{"pad_token":"b","bos_token":"b","mask_token":"none"}',
    })
    assert.same({pad = 4, eos = 3, bos = 2}, tok:special())
    assert.same({{1, 2}, {1, 4}}, (tok:encode{"a b", "a"}):totable())
    tok:special().pad = 1
    assert.equal(4, tok:special().pad)
  end)

  it("are what the file pads with, by name or else by id, or none", function()
    for padding, pad in pairs{['{"pad_token":"b","pad_id":0}'] = 2, ['{"pad_id":3}'] = 4,
                              ['{"pad_id":4}'] = false, ['{"pad_token":"x"}'] = false,
                              ["null"] = false} do
      local tok = assert(tokenizer_of((file_of(nil, {padding = "?"}):gsub('"%?"', padding))))
      assert.equal(pad or nil, tok:special().pad)
      assert.same({{1, 2}, {1, pad or 1}}, (tok:encode{"a b", "a"}):totable())
    end
  end)

  it("of older files are their classes'", function()
    local tok = assert(load{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\nx\n[PAD]\n"})
    assert.same({unk = 1, cls = 2, sep = 3, pad = 5}, tok:special())
    assert.equal(5, (tok:encode{"x", "x x"})[1]:totable()[4])
    local config = '{"pad_token":"x"}'
    tok = assert(load{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\nx\n[PAD]\n", [CONFIG] = config})
    assert.equal(4, tok:special().pad)
  end)

  it("of broken files are refused with the file's name", function()
    for bytes, why in pairs{["{"] = "byte 2", ["[]"] = "a table expected",
                            ['{"pad_token":3}'] = "a token expected as pad_token"} do
      local tok, said = load{[NAME] = file_of(nil), [MAP] = bytes}
      assert.is_nil(tok)
      assert.matches("special_tokens_map.json: .*" .. why, said)
    end
  end)

  it("are found by the names that other libraries have", function()
    local tok = with(nil)
    assert.matches("there is no 'pad_id'; write tok:special%(%).pad",
                   message(function() return tok.pad_id end))
    assert.matches("there is no 'eos_token_id'; write tok:special%(%).eos",
                   message(function() return tok.eos_token_id end))
  end)
end)
