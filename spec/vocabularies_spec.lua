-- Folders without a tokenizer.json: BERT's vocab.txt, and GPT-2's vocab.json with merges.txt, give
-- what the golden tokenizers give.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"
local pieces = require "spec.support.pieces"

local GOLDEN <const> = "spec/golden/tokenizers/"

local function golden(name, file) return json.decode(files.read(GOLDEN .. name .. "/" .. file)) end

-- A tokenizer of files by their names, or nil and why not.
local function load(list)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir '" .. folder .. "'"))
  for name, text in pairs(list) do files.write(folder .. "/" .. name, text) end
  local tok, why = heed.tokenizer.load(folder)
  assert(os.execute("rm -r '" .. folder .. "'"))
  return tok, why
end

-- The model's tokens, a line each.
local function lines_of(vocabulary)
  local list = {}
  for name, id in pairs(vocabulary) do list[id + 1] = name end
  return table.concat(list, "\n") .. "\n"
end

-- Do both give the same ids and offsets for the texts of the cases without added tokens?
local function compare(name, tok)
  local whole = assert(heed.tokenizer.load(GOLDEN .. name))
  local count = 0
  for _, case in ipairs(golden(name, "cases.json").cases) do
    if not case.text:find "[<%[]" then
      local ids, offsets = tok:encode(case.text, {offsets = true})
      local wanted, places = whole:encode(case.text, {offsets = true})
      assert.same(wanted:totable(), ids:totable(), case.text)
      assert.same(places:totable(), offsets:totable(), case.text)
      assert.equal(whole:decode(wanted), tok:decode(ids), case.text)
      count = count + 1
    end
  end
  assert.is_true(count > 150)
end

-- GPT-2's two files with others beside them.
local function beside(others)
  local model, merges = golden("bpe_gpt2", "tokenizer.json").model, {"#version: 0.2"}
  for i, merge in ipairs(model.merges) do
    merges[i + 1] = type(merge) == "table" and table.concat(merge, " ") or merge
  end
  local list = {["vocab.json"] = json.encode(model.vocab),
                ["merges.txt"] = table.concat(merges, "\n") .. "\n"}
  for name, value in pairs(others) do
    list[name] = type(value) == "table" and json.encode(value) or value
  end
  return list, assert(heed.tokenizer.load(GOLDEN .. "bpe_gpt2"))
end


describe("a folder without tokenizer.json", function()
  it("may have vocab.txt, for text in lower case or not", function()
    local uncased = lines_of(golden("wordpiece_uncased", "tokenizer.json").model.vocab)
    compare("wordpiece_uncased", assert(load{["vocab.txt"] = uncased}))
    compare("wordpiece_uncased", assert(load{["vocab.txt"] = uncased:gsub("\n", "\r\n")}))
    local cased = lines_of(golden("wordpiece_cased", "tokenizer.json").model.vocab)
    compare("wordpiece_cased", assert(load{
      ["vocab.txt"] = cased,
      ["tokenizer_config.json"] = '{"do_lower_case":false,"strip_accents":null}'}))
  end)

  it("reads the options of vocab.txt", function()
    local lines = "[UNK]\n[CLS]\n[SEP]\ne\n\u{e9}\n\u{4e2d}\n##\u{4e2d}\n"
    local function ids(config, text)
      local tok = assert(load{["vocab.txt"] = lines, ["tokenizer_config.json"] = config})
      return tok:encode(text, {special = false}):totable()
    end
    assert.same({4, 4}, ids("{}", "E \u{c9}"))
    assert.same({5}, ids('{"strip_accents":false}', "\u{c9}"))
    assert.same({1, 4}, ids('{"do_lower_case":false,"strip_accents":true}', "E \u{e9}"))
    assert.same({6, 6}, ids("{}", "\u{4e2d}\u{4e2d}"))
    assert.same({6, 7}, ids('{"tokenize_chinese_chars":false}', "\u{4e2d}\u{4e2d}"))
    local tok = assert(load{["vocab.txt"] = lines})
    assert.same({2, 4, 3}, tok:encode("e"):totable())
    assert.equal("e", tok:decode(tok:encode "e"))
    assert.same({3}, tok:encode("[SEP]", {special = false, parse = true}):totable())
  end)

  it("may have vocab.json and merges.txt", function()
    local list = beside{}
    compare("bpe_gpt2", assert(load(list)))
    list["tokenizer_config.json"] = '{"tokenizer_class":"RobertaTokenizer"}'
    local tok, why = load(list)
    assert.is_nil(tok)
    assert.matches("tokenizer.load: .*a tokenizer.json expected beside the class RobertaTokenizer",
                   why)
  end)

  it("has the tokens that added_tokens.json adds", function()
    local _, whole = beside{}
    local tok = assert(load((beside{
      ["added_tokens.json"] = {["<|im_start|>"] = #whole, ["<|im_end|>"] = #whole + 1},
      ["special_tokens_map.json"] = {eos_token = "<|im_end|>"},
    })))
    local ids = tok:encode("x<|im_start|>a<|im_end|>", {parse = true})
    assert.equal("x<|im_start|>a<|im_end|>", tok:decode(ids, {special = true}))
    assert.same({#whole + 1, #whole + 2}, {ids[2], ids[4]})
    assert.equal("x<|im_start|>a", tok:decode(ids))                  -- an end is special
    assert.equal(#whole + 2, tok:special().eos)
    assert.equal("x|<|im_start|>|a", pieces(tok, "x<|im_start|>a"))
  end)

  it("has the tokens that tokenizer_config.json adds, with their flags", function()
    local _, whole = beside{}
    local tok = assert(load((beside{["tokenizer_config.json"] = {
      additional_special_tokens = json.array{"<x>", "<y>"}, pad_token = "<pad>",
      added_tokens_decoder = {[("%d"):format(#whole)] = {content = "<t>", lstrip = true,
                                                         special = false}},
    }})))
    assert.equal("a|<t>|Ġb|<x>|<y>|<pad>", pieces(tok, "a <t> b<x><y><pad>", {parse = true}))
    assert.same({#whole + 1, #whole + 2, #whole + 3, #whole + 4},
                {tok:id "<t>", tok:id "<pad>", tok:id "<x>", tok:id "<y>"})
    assert.equal("a<t>", tok:decode(tok:encode("a <t><x>", {parse = true})))
    assert.equal(#whole + 2, tok:special().pad)
  end)

  it("begins, ends and blanks texts as tokenizer_config.json says", function()
    local config = {tokenizer_class = "GPT2Tokenizer", add_bos_token = true, add_eos_token = true,
                    bos_token = {content = "<s>", normalized = true}, eos_token = "</s>",
                    add_prefix_space = true, unk_token = json.null}
    local tok = assert(load((beside{["tokenizer_config.json"] = config})))
    assert.equal("<s>|Ġa|</s>", pieces(tok, "a"))
    assert.equal("<s>|Ġa|</s>|<s>|Ġa|</s>", pieces(tok, "a", {pair = "a"}))
    local types = select(2, tok:encode("a", {pair = "a", types = true}))
    assert.same({1, 1, 1, 2, 2, 2}, types:totable())
    assert.equal("<s>|Ġa|<s>|</s>", pieces(tok, "a<s>", {parse = true}))
    config.add_bos_token, config.add_prefix_space = false, false
    tok = assert(load((beside{["tokenizer_config.json"] = config})))
    assert.equal("a|</s>", pieces(tok, "a"))
  end)

  it("has the special tokens of vocab.txt under the names that are given", function()
    local lines = "<unk>\n<s>\n</s>\nfoo\na\n[\n]\nmask\n"
    local files_of = {["vocab.txt"] = lines, ["added_tokens.json"] = {Foo = 8},
      ["tokenizer_config.json"] = {tokenizer_class = "BertTokenizerFast", cls_token = "<s>",
                                   sep_token = "</s>", unk_token = "<unk>", mask_token = "[mask]"}}
    for name, value in pairs(files_of) do
      if type(value) == "table" then files_of[name] = json.encode(value) end
    end
    local tok = assert(load(files_of))
    assert.equal("<s>|a|Foo|[mask]|</s>", pieces(tok, "a foo[mask]", {parse = true}))
    assert.equal("<s>|a|Foo|[|mask|]|</s>", pieces(tok, "a foo[mask]"))
    assert.equal(10, tok:special().mask)
    files_of["special_tokens_map.json"] = '{"bos_token":"Foo"}'     -- not normalized then
    tok = assert(load(files_of))
    assert.equal("<s>|foo|Foo|</s>", pieces(tok, "foo Foo", {parse = true}))
    files_of["special_tokens_map.json"] = '{"additional_special_tokens":["Foo"]}'
    tok = assert(load(files_of))
    assert.equal("<s>|foo|Foo|</s>", pieces(tok, "foo Foo", {parse = true}))
    files_of["special_tokens_map.json"] = nil
    files_of["tokenizer_config.json"] = nil
    assert.matches("a line with %[UNK%] expected", select(2, load(files_of)))
  end)

  it("refuses what the files beside the vocabulary say wrongly", function()
    local function why(others)
      local tok, text = load((beside(others)))
      return tok == nil and text
    end
    local function config(given) return why{["tokenizer_config.json"] = given} end
    assert.matches("a token expected as eos_token", config{eos_token = json.array{}})
    assert.matches("a token expected as bos_token", config{bos_token = ""})
    assert.matches("true or false expected as lstrip",
                   config{bos_token = {content = "a", lstrip = 1}})
    assert.matches("true or false expected as add_bos_token", config{add_bos_token = "yes"})
    assert.matches("tokens expected as extra_special_tokens", config{extra_special_tokens = 1})
    assert.matches("tokens by their ids expected", config{added_tokens_decoder = 1})
    assert.matches("the id of an added token expected, got x",
                   config{added_tokens_decoder = {x = {content = "a"}}})
    assert.matches("the id of an added token expected, got %-1",
                   why{["added_tokens.json"] = {a = -1}})
    assert.matches('the token "a" has the id %d+ there, and is added as 3',
                   why{["added_tokens.json"] = {a = 3}})
    assert.matches("a table expected in added_tokens.json", why{["added_tokens.json"] = "[]"})
    assert.matches("special_tokens_map.json: ", why{["special_tokens_map.json"] = "{"})
    local class = json.encode{tokenizer_class = "BertJapaneseTokenizer"}
    assert.matches("a tokenizer.json expected beside the class BertJapaneseTokenizer: a vocab.txt",
                   select(2, load{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\n",
                                  ["tokenizer_config.json"] = class}))
  end)

  it("says what is wrong in such files", function()
    local function said(list)
      local tok, why = load(list)
      return tok == nil and why
    end
    assert.matches("vocab.txt: a line with %[UNK%] expected", said{["vocab.txt"] = "a\n"})
    assert.matches("the token 'a' of line 5 stands there twice",
                   said{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\na\na\n"})
    assert.matches("true or false expected as do_lower_case",
                   said{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\n",
                        ["tokenizer_config.json"] = '{"do_lower_case":3}'})
    assert.matches("tokenizer_config.json: a table expected",
                   said{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\n", ["tokenizer_config.json"] = "3"})
    assert.matches("vocab.json: a table of ids expected",
                   said{["vocab.json"] = "[1]", ["merges.txt"] = ""})
    assert.matches("cannot open", said{["vocab.json"] = "{}"})
  end)
end)


describe("a special token", function()
  it("is none of a text's, which is said with what gives its id", function()
    for kind, text in pairs{words = "[PAD]", chars = "a\n"} do
      local special = kind == "words" and "[PAD]" or "\n"
      local v = heed.data[kind]("a b", {special = {special}})
      local good, why = pcall(v.encode, v, text)
      assert.is_false(good)
      assert.matches('is a special token, which is none of a text\'s; its id is ' .. kind .. ":id(",
                     why, 1, true)
      assert.equal(1, v:id(special))
    end
  end)
end)
