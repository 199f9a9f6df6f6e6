-- Folders without a tokenizer.json: BERT's vocab.txt, and GPT-2's vocab.json with merges.txt, give
-- what the golden tokenizers give.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"

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
    local model = golden("bpe_gpt2", "tokenizer.json").model
    local merges = {"#version: 0.2"}
    for _, merge in ipairs(model.merges) do
      merges[#merges + 1] = type(merge) == "table" and table.concat(merge, " ") or merge
    end
    local list = {["vocab.json"] = json.encode(model.vocab),
                  ["merges.txt"] = table.concat(merges, "\n") .. "\n"}
    compare("bpe_gpt2", assert(load(list)))
    list["tokenizer_config.json"] = '{"tokenizer_class":"RobertaTokenizer"}'
    local tok, why = load(list)
    assert.is_nil(tok)
    assert.matches("tokenizer.load: .*a tokenizer.json expected beside the class RobertaTokenizer",
                   why)
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
    assert.matches("a table expected in tokenizer_config.json",
                   said{["vocab.txt"] = "[UNK]\n[CLS]\n[SEP]\n", ["tokenizer_config.json"] = "3"})
    assert.matches("vocab.json: a table of ids expected",
                   said{["vocab.json"] = "[1]", ["merges.txt"] = ""})
    assert.matches("cannot open", said{["vocab.json"] = "{}"})
  end)
end)
