-- SentencePiece's .model files: what SentencePiece 0.2 makes of texts. Ids count from 0 as it has
-- them.

local base64 = require "spec.support.base64"
local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"
local pieces = require "spec.support.pieces"

-- Protocol buffers

local function varint(n)
  local bytes = ""
  repeat
    local low = n & 127
    n = n >> 7
    bytes = bytes .. string.char(n ~= 0 and low | 128 or low)
  until n == 0
  return bytes
end

local function field(number, text) return varint(number << 3 | 2) .. varint(#text) .. text end

local function number_field(number, value) return varint(number << 3) .. varint(value) end

local function piece(name, score, kind)
  return field(1, field(1, name) .. string.pack("<B f", 2 << 3 | 5, score) ..
               (kind and number_field(3, kind) or ""))
end

local START <const> = piece("<unk>", 0, 2) .. piece("<s>", 0, 3) .. piece("</s>", 0, 3)
local UNIGRAM <const> = ""
local BPE <const> = field(2, number_field(3, 2))

local function tiny()
  local list = {START}
  for i, name in ipairs{"ab", "▁a", "abc", "bc", "▁ab", "▁▁", "cab"} do
    list[#list + 1] = piece(name, 1 - i)
  end
  for i, name in ipairs{"▁", "a", "b", "c", "é"} do list[#list + 1] = piece(name, -20 - i) end
  return table.concat(list)
end

local function load(bytes, name)
  local path = os.tmpname()
  files.write(path .. (name or ".model"), bytes)
  local tok, why = heed.tokenizer.load(path .. (name or ".model"))
  os.remove(path .. (name or ".model"))
  os.remove(path)
  return tok, why
end

local function cut(tok, text, parse)
  local ids = tok:encode(text, {parse = parse}):totable()
  for i = 1, #ids do ids[i] = ids[i] - 1 end
  return ids
end


describe("a .model file", function()
  it("of XLM-R's kind gives the ids of SentencePiece", function()
    local folder = "spec/golden/tokenizers/"
    local file = json.decode(files.read(folder .. "xlm_roberta/tokenizer.json"))
    local list, vocabulary = {START}, file.model.vocab
    for i = 5, #vocabulary - 1 do list[#list + 1] = piece(vocabulary[i][1], vocabulary[i][2]) end
    local map = base64.bytes(files.read(folder .. "unigram_charsmap/charsmap.txt"))
    local tok = assert(load(table.concat(list) .. field(3, field(2, map))))
    local cases = json.decode(files.read(folder .. "xlm_roberta/cases.json")).cases
    local others, same = 0, 0
    for _, case in ipairs(cases) do
      local expected, found = {}, false                       -- found: an added token
      for i, id in ipairs(case.sentencepiece_ids or case.ids) do
        expected[i] = id == 3 and 0 or id - 1
      end
      for _, token in ipairs(file.added_tokens) do
        found = found or case.text:find(token.content, 1, true)
      end
      if case.sentencepiece_ids or not found then
        assert.same(expected, cut(tok, case.text), case.text)
        if case.sentencepiece_ids then others = others + 1 else same = same + 1 end
      end
    end
    assert.is_true(others > 5 and same > 200)
  end)

  it("has bytes for what its pieces have not, where it says so", function()
    local list = {tiny()}
    for byte = 0, 255 do list[#list + 1] = piece(("<0x%02X>"):format(byte), 0, 6) end
    for falls_back, wanted in pairs{[0] = {4, 0}, {4, 15 + 0xc3, 15 + 0xa4}} do
      for model = 1, 2 do
        local trainer = field(2, number_field(3, model) .. number_field(35, falls_back))
        local tok = assert(load(table.concat(list) .. trainer))
        assert.same(wanted, cut(tok, "a\u{e4}"))
      end
    end
  end)

  it("of BPE joins the pair whose piece has the highest score", function()
    local trimming = assert(load(tiny() .. BPE))
    local plain = assert(load(tiny() .. BPE .. field(3, number_field(4, 0))))
    for text, ids in pairs{
      abcab = {10, 5, 3}, ["abc cab"] = {10, 5, 10, 9}, ["aéxy"] = {4, 14, 0},
      bcabca = {10, 6, 5, 11}, [""] = {}, ["▁a"] = {10, 4}, ["<s>ab"] = {10, 0, 3},
    } do
      assert.same(ids, cut(trimming, text), text)
      assert.same(ids, cut(plain, text), text)
    end
    assert.same({4, 10, 6}, cut(trimming, "  a  bc "))
    assert.same({8, 4, 8, 6, 10}, cut(plain, "  a  bc "))
    assert.equal("abc cab", trimming:decode((trimming:encode "abc cab")))
    assert.equal("  a  bc ", plain:decode((plain:encode "  a  bc ")))
  end)

  it("of BPE joins pieces of equal scores in their order", function()
    local list, letters = {START, piece("▁", 0)}, "abcdefghijklmnopqrstuvwxyz"
    for i = 1, #letters do list[#list + 1] = piece(letters:sub(i, i), -1) end
    for i = 1, #letters - 1 do list[#list + 1] = piece(letters:sub(i, i + 1), 0) end
    assert.equal("▁|ab|cd|ef|gh|ij|kl|mn|op|qr|st|uv|wx|yz",
                 pieces(assert(load(table.concat(list) .. BPE)), letters))
  end)

  it("has no text that becomes a control piece, but where it is asked for", function()
    for _, model in ipairs{UNIGRAM, BPE} do
      local tok = assert(load(tiny() .. piece("<", -30) .. piece("s", -30) .. piece(">", -30) ..
                              piece("<0x41>", 0, 6) .. model))
      assert.same({10, 15, 16, 17, 3}, cut(tok, "<s>ab"))
      assert.same({1, 3}, cut(tok, "<s>ab", true))
      assert.same({10, 15, 16, 17, 3}, cut(tok, "<s>ab"))
      assert.same({10, 15, 0, 17}, cut(tok, "<0x41>"))
    end
  end)

  it("is found in a folder without a tokenizer.json", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    for _, name in ipairs{"tokenizer.model", "sentencepiece.bpe.model", "spiece.model"} do
      local path = folder .. "/" .. name
      files.write(path, tiny() .. BPE)
      assert.equal(15, #assert(heed.tokenizer.load(folder)))
      os.remove(path)
    end
    local none, why = heed.tokenizer.load(folder)
    assert.is_nil(none)
    assert.matches("tokenizer.json", why)
    os.execute("rmdir " .. folder)
  end)

  describe("in a folder", function()
    local folder

    before_each(function()
      folder = os.tmpname()
      os.remove(folder)
      assert(os.execute("mkdir " .. folder))
    end)
    after_each(function() os.execute("rm -r " .. folder) end)

    -- A tokenizer of a file, with tables beside it.
    local function beside(bytes, others)
      files.write(folder .. "/tokenizer.model", bytes)
      for _, name in ipairs{"tokenizer_config", "added_tokens", "config"} do
        os.remove(folder .. "/" .. name .. ".json")
        if others[name] then
          files.write(folder .. "/" .. name .. ".json", json.encode(others[name]))
        end
      end
      return heed.tokenizer.load(folder)
    end

    it("has the tokens around texts that its class or its options want", function()
      local function cut_by(config, others)
        others = others or {tokenizer_config = config}
        return pieces(assert(beside(tiny() .. BPE, others)), "ab")
      end
      assert.equal("▁ab", cut_by{})
      assert.equal("<s>|▁ab", cut_by{tokenizer_class = "LlamaTokenizer"})
      assert.equal("<s>|▁ab", cut_by(nil, {config = {model_type = "mistral"}}))
      assert.equal("▁ab", cut_by(nil, {config = {model_type = "other"}}))
      assert.equal("▁ab|</s>", cut_by{tokenizer_class = "LlamaTokenizerFast",
                                      add_bos_token = false, add_eos_token = true})
      assert.equal("<s>|▁ab|</s>", cut_by{add_bos_token = true, add_eos_token = true})
      assert.equal("ab", cut_by{add_prefix_space = false})
    end)

    it("has the tokens that other files add", function()
      local tok = assert(beside(tiny() .. BPE, {
        tokenizer_config = {pad_token = "<pad>"}, added_tokens = {["<a>"] = 15, ["<b>"] = 16},
      }))
      assert.equal("▁ab|<a>|c|<b>|<pad>|</s>", pieces(tok, "ab<a>c<b><pad></s>", {parse = true}))
      assert.same({16, 17, 18}, {tok:id "<a>", tok:id "<b>", tok:special().pad})
      assert.equal("ab<a>c<b>", tok:decode(tok:encode("ab<a>c<b><pad></s>", {parse = true})))
    end)

    it("has the tokens that other files name, behind its own or among them", function()
      local config = {bos_token = "</s>", pad_token = "<pad>"}
      for _, model in ipairs{UNIGRAM, BPE} do
        local tok = assert(beside(tiny() .. model, {tokenizer_config = config}))
        local parts = tok:special()
        assert.same({3, 16}, {parts.bos, parts.pad})
        assert.equal("ab", tok:decode(tok:encode("ab<pad></s>", {parse = true})))
      end
    end)

    it("puts a mark behind special tokens where its options say so", function()
      for legacy, wanted in pairs{[true] = "▁a|</s>|▁ab", [false] = "▁a|</s>|ab"} do
        local tok = assert(beside(tiny() .. BPE, {tokenizer_config = {legacy = legacy}}))
        assert.equal(wanted, pieces(tok, "a</s>ab", {parse = true}))
        tok = assert(beside(tiny() .. BPE .. field(3, number_field(4, 0)),
                            {tokenizer_config = {legacy = legacy}}))
        assert.equal(legacy and "▁a|▁|</s>|▁|▁ab" or "▁a|▁|</s>|▁ab",
                     pieces(tok, "a </s> ab", {parse = true}))
      end
    end)

    it("of T5 has tokens for gaps, an end, and a mark behind each token", function()
      local config = {tokenizer_class = "T5Tokenizer", extra_ids = 3}
      local tok = assert(beside(tiny() .. UNIGRAM, {tokenizer_config = config}))
      assert.equal(18, #tok)
      assert.same({18, 16}, {tok:id "<extra_id_0>", tok:id "<extra_id_2>"})
      assert.equal("▁ab|<extra_id_1>|▁a|</s>", pieces(tok, "ab<extra_id_1>a", {parse = true}))
      local plain = assert(beside(tiny() .. UNIGRAM .. field(3, number_field(4, 0)),
                                  {tokenizer_config = config}))
      assert.equal("▁ab|▁|<extra_id_1>|▁|▁a|</s>",
                   pieces(plain, "ab <extra_id_1> a", {parse = true}))
      local _, types = tok:encode("a", {pair = "a", types = true})
      assert.same({1, 1, 1, 1}, types:totable())
      config.pad_token, config.cls_token = "<none>", "<first>"
      tok = assert(beside(tiny() .. UNIGRAM, {tokenizer_config = config}))
      assert.same({18, 19, 20}, {tok:id "<extra_id_0>", tok:id "<none>", tok:id "<first>"})
      assert.equal("a", tok:decode(tok:encode("<none>a<first>", {parse = true})))
      config.pad_token, config.cls_token, config.extra_ids = nil, nil, nil
      assert.equal(115, #assert(beside(tiny() .. UNIGRAM, {tokenizer_config = config})))
      config.additional_special_tokens = json.array{"<extra_id_0>", "<extra_id_1>"}
      tok = assert(beside(tiny() .. UNIGRAM, {tokenizer_config = config}))
      assert.same({17, 17}, {#tok, tok:id "<extra_id_0>"})
      config.added_tokens_decoder = {["15"] = {content = "<extra_id_0>", special = true}}
      tok = assert(beside(tiny() .. UNIGRAM, {tokenizer_config = config}))
      assert.same({16, 17}, {tok:id "<extra_id_0>", tok:id "<extra_id_1>"})
    end)

    it("is refused where its class has other ids", function()
      local function why(others) return select(2, beside(tiny() .. BPE, others)) end
      local wanted = "a tokenizer.json expected beside the class XLMRobertaTokenizer: " ..
                     "SentencePiece's files alone"
      assert.matches(wanted, why{tokenizer_config = {tokenizer_class = "XLMRobertaTokenizerFast"}})
      assert.matches(wanted, why{config = {model_type = "xlm-roberta"}})
      assert.matches("a name expected as tokenizer_class",
                     why{tokenizer_config = {tokenizer_class = 1}})
      assert.matches("a count of at most 10000 expected as extra_ids",
                     why{tokenizer_config = {tokenizer_class = "T5Tokenizer", extra_ids = -1}})
      assert.matches('the token "<s>" has the id 1 there, and is added as 0',
                     why{tokenizer_config = {added_tokens_decoder = {["0"] = {content = "<s>"}}}})
    end)
  end)

  it("is refused where it is none, or has what is not known", function()
    for bytes, wanted in pairs{
      [""] = "pieces expected", ["\x0a\xff"] = "a number does not end",
      ["\x0a\x05a"] = "a field reaches beyond the end", ["\x0b"] = "a field of type 3",
      [("\xff"):rep(12)] = "a number of more than 64 bits", ["\x08\x01"] = "field 1 of type 0",
      [field(1, number_field(1, 3))] = "field 'name' of type 0",
      [tiny():sub(1, -3)] = "a field reaches beyond the end",
      [tiny() .. field(1, string.pack("<B f", 2 << 3 | 5, -9) .. field(1, "zz")):sub(1, -2)] =
        "a field reaches beyond the end",
      [tiny() .. piece("ab", 1)] = 'two pieces "ab"',
      [tiny() .. piece("x", 0, 5)] = 'piece "x": kind 5 is not known',
      [tiny() .. piece("x", 0 / 0)] = 'piece "x": a finite score expected',
      [tiny() .. piece(("x"):rep(513), 0)] = "a piece of at most 512 bytes of UTF-8 expected",
      [tiny() .. piece("\xff", 0)] = "a piece of at most 512 bytes of UTF-8 expected",
      [piece("a", 0)] = "a piece for what is unknown expected",
      [tiny() .. field(2, number_field(3, 3))] = "model type 3 is not known",
      [tiny() .. field(2, number_field(24, 1))] = "treat_whitespace_as_suffix is not known",
      [tiny() .. field(3, number_field(5, 0))] = "escape_whitespaces = false is not known",
      [tiny() .. field(3, field(2, "map"))] = "the normalizer Precompiled: a tree and texts",
    } do
      local tok, why = load(bytes)
      assert.is_nil(tok)
      assert.matches("tokenizer.load: .*" .. wanted:gsub("%p", "%%%0"), why)
    end
  end)

  it("survives damage", function()
    local state = 9
    local function draw(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return state // 65536 % n
    end
    local whole = tiny() .. BPE .. field(3, number_field(4, 0))
    for i = 1, 400 do
      local bytes = whole
      for _ = 1, 1 + i % 3 do
        local at = 1 + draw(#bytes)
        bytes = bytes:sub(1, at - 1) .. string.char(draw(256)) .. bytes:sub(at + draw(2) + draw(2))
      end
      local tok, why = load(bytes)
      if tok then tok:encode("abc  <s> é\xff x") else assert.matches("tokenizer.load: ", why) end
    end
  end)
end)
