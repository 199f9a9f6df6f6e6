-- Options of tokenizer_config.json beside a tokenizer.json: applied where the class is one whose
-- parts transformers makes of them, and ignored elsewhere.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"

local FILES <const> = {["tokenizer.json"] = "tokenizer.json"}


-- The tokenizer of a directory with a configuration and a changed tokenizer.json, or why not.
local function load(name, config, change)
  local place <close> = directories.make(name, FILES)
  if change then
    local path = place.path .. "/tokenizer.json"
    local c = assert(json.decode(directories.read(path)))
    change(c)
    directories.write(path, json.encode(c))
  end
  directories.write(place.path .. "/tokenizer_config.json", json.encode(config))
  return heed.tokenizer.load(place.path)
end


local function names_of(tok, text, o)
  local list = {}
  for i, id in ipairs(assert(tok):encode(text, o):totable()) do list[i] = tok:token(id) end
  return list
end


describe("options of BERT's classes", function()
  local TEXT <const> = "Caf\u{e9} CATS \u{4e2d}\u{6587} na\u{ef}ve"

  -- Ids by a configuration, and by a tokenizer.json that says the same itself.
  local function check(options, normalizer, own)
    local function with(values)
      return function(c)
        for key, value in pairs(values or {}) do c.normalizer[key] = value end
      end
    end
    for _, class in ipairs{"BertTokenizer", "BertTokenizerFast", "MPNetTokenizerFast"} do
      local config = {tokenizer_class = class}
      for key, value in pairs(options) do config[key] = value end
      local got = assert(load("st/cross_encoder_3", config, with(own)))
      local wanted = assert(load("st/cross_encoder_3", {}, with(normalizer)))
      assert.same(wanted:encode(TEXT):totable(), got:encode(TEXT):totable())
      config.tokenizer_class = "PreTrainedTokenizerFast"
      got = assert(load("st/cross_encoder_3", config, with(own)))
      wanted = assert(load("st/cross_encoder_3", {}, with(own)))
      assert.same(wanted:encode(TEXT):totable(), got:encode(TEXT):totable())
    end
    return assert(load("st/cross_encoder_3", {}, with(normalizer))):encode(TEXT):totable()
  end

  it("change the normalizer of the file", function()
    local plain = check({}, {})
    assert.same(plain, check({do_lower_case = true, strip_accents = json.null}, {}))
    assert.same(plain, check({strip_accents = true}, {}))
    assert.not_same(plain, check({do_lower_case = false}, {lowercase = false}))
    check({strip_accents = false}, {strip_accents = false})
    check({do_lower_case = false}, {lowercase = false, strip_accents = true},
          {strip_accents = true})
    check({tokenize_chinese_chars = false}, {handle_chinese_chars = false})
    check({do_lower_case = true}, {lowercase = true}, {lowercase = false})
    check({strip_accents = json.null}, {strip_accents = json.null}, {strip_accents = false})
  end)

  it("are those of related classes too", function()
    local function read(class, lower)
      return load("st/cross_encoder_3", {tokenizer_class = class, do_lower_case = lower})
    end
    local lower, plain = names_of(read(nil, true), "CATS"), names_of(read("Bert", false), "CATS")
    local upper = names_of(read("BertTokenizer", false), "CATS")
    assert.same(lower, plain)
    assert.not_same(lower, upper)
    for _, name in ipairs{
      "ConvBert", "DPRContextEncoder", "DPRQuestionEncoder", "DPRReader", "DistilBert", "Electra",
      "Funnel", "LayoutLM", "LayoutLMv2", "Lxmert", "MPNet", "MobileBert", "RetriBert",
      "SqueezeBert",
    } do
      assert.same(upper, names_of(read(name .. "Tokenizer", false), "CATS"), name)
    end
  end)

  it("are nothing to a normalizer of another kind", function()
    local function none(c) c.normalizer = {type = "NFC"} end
    local tok = load("st/cross_encoder_3",
                     {tokenizer_class = "BertTokenizer", do_lower_case = true}, none)
    local wanted = load("st/cross_encoder_3", {}, none)
    assert.same(names_of(wanted, TEXT), names_of(tok, TEXT))
  end)

  it("are refused where they are none", function()
    local _, why = load("st/cross_encoder_3", {tokenizer_class = "BertTokenizer",
                                               do_lower_case = "yes"})
    assert.matches("tokenizer.json: true or false expected as do_lower_case", why)
  end)
end)


describe("options of Llama's and Gemma's classes", function()
  local BOS <const>, EOS <const> = "<|begin_of_text|>", "<|eot_id|>"

  local function config(options)
    local c = {tokenizer_class = "LlamaTokenizerFast", bos_token = {content = BOS},
               eos_token = EOS}
    for key, value in pairs(options) do c[key] = value end
    return c
  end

  it("change the tokens around a text, and around both of a pair", function()
    local plain = load("llama3", {})
    local middle = names_of(plain, "a", {special = false})
    assert.same({BOS, middle[1]}, names_of(plain, "a"))
    local function check(options, begins, ends, change)
      for _, class in ipairs{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizerFast"} do
        local c = config(options)
        c.tokenizer_class = class
        local tok, wanted, pair = load("llama3", c, change), {}, {}
        for i = 1, 2 do
          for _, name in ipairs{begins and BOS or "", middle[1], ends and EOS or ""} do
            if name ~= "" then
              if i == 1 then wanted[#wanted + 1] = name end
              pair[#pair + 1] = name
            end
          end
        end
        assert.same(wanted, names_of(tok, "a"))
        assert.same(pair, names_of(tok, "a", {pair = "a"}))
        assert.same(middle, names_of(tok, "a", {special = false}))
      end
    end
    check({add_bos_token = false}, false, false)
    check({add_eos_token = true}, true, true)
    check({add_bos_token = true, add_eos_token = true}, true, true)
    check({add_bos_token = false, add_eos_token = true}, false, true)
    check({add_bos_token = true}, true, false, function(c) c.post_processor = json.null end)
    check({add_bos_token = true}, true, false, function(c) c.post_processor = nil end)
    check({add_bos_token = true}, true, false, function(c)
      c.post_processor = {type = "ByteLevel", add_prefix_space = false, trim_offsets = false}
    end)
  end)

  it("change nothing where the file does what they say, or of another class", function()
    local plain = names_of(load("llama3", {}), "a b", {pair = "c"})
    for _, c in ipairs{config{add_bos_token = true, add_eos_token = false}, config{},
                       {tokenizer_class = "LlamaTokenizer", add_bos_token = true},
                       config{tokenizer_class = "Qwen2Tokenizer", add_bos_token = false}} do
      assert.same(plain, names_of(load("llama3", c), "a b", {pair = "c"}))
    end
  end)

  it("are refused where there is no such token", function()
    local _, why = load("llama3", {tokenizer_class = "LlamaTokenizer", add_eos_token = true})
    assert.matches('tokenizer_config.json: "add_eos_token" is true, but there is no eos_token$',
                   why)
    _, why = load("llama3", config{add_eos_token = true, eos_token = "nobody"})
    assert.matches("one of the added tokens of tokenizer.json expected as a token around texts, "
                   .. 'got "nobody"$', why)
    _, why = load("llama3", config{add_eos_token = 1})
    assert.matches("true or false expected as add_eos_token", why)
  end)
end)


describe("truncation_side", function()
  it("stands above the direction of the tokenizer.json", function()
    local function ids(config, direction)
      local tok, why = load("llama3", config, function(c)
        c.truncation = {direction = direction, max_length = 9, strategy = "LongestFirst",
                        stride = 0}
      end)
      return tok and tok:encode("one two three", {special = false, max = 2}):totable() or why
    end
    local first, last = ids({truncation_side = "right"}, "Right"),
                        ids({truncation_side = "left"}, "Right")
    assert.not_same(first, last)
    assert.same(last, ids({}, "Left"))
    assert.same(last, ids({truncation_side = json.null}, "Left"))
    assert.same(first, ids({truncation_side = "right"}, "Left"))
    assert.same(first, ids({}, "Right"))
    assert.matches("tokenizer.json: .*the truncation's direction", ids({}, "Top"))
  end)

  it("says which tokens of texts that are too long are left out", function()
    local plain = load("llama3", {truncation_side = "right"})
    local left = load("llama3", {truncation_side = "left"})
    local function cut(list, n) return table.move(list, #list - n + 1, #list, 1, {}) end
    local a = plain:encode("one two three four five", {special = false}):totable()
    local b = plain:encode("six seven eight nine", {special = false}):totable()
    assert.is_true(#a > 4 and #b > 3)
    local function ids(tok, o) return tok:encode("one two three four five", o):totable() end
    assert.same(table.move(a, 1, 3, 1, {}), ids(plain, {special = false, max = 3}))
    assert.same(cut(a, 3), ids(left, {special = false, max = 3}))
    assert.same(a, ids(left, {special = false, max = #a}))
    local wanted = cut(a, 3)
    table.insert(wanted, 1, plain:id "<|begin_of_text|>")
    assert.same(wanted, ids(left, {max = 4}))
    local got, offsets, types = left:encode("one two three four five", {
      pair = "six seven eight nine", special = false, max = 7, offsets = true, types = true,
    })
    local first = types:eq(1):sum():item()
    assert.is_true(first == 3 or first == 4)
    wanted = cut(a, first)
    table.move(cut(b, 7 - first), 1, 7 - first, #wanted + 1, wanted)
    assert.same(wanted, got:totable())
    assert.equal(#"six seven eight nine", offsets[7][2])
    assert.same({1, 2}, {types[first], types[first + 1]})
  end)
end)
