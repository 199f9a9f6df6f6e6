-- Tokenizers in GGUF's metadata: they give the ids of the tokenizer.json that the metadata were
-- written from, and what has no form there is refused by name.

local directories = require "spec.support.directories"
local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local gguf_vocabulary = require "heed.files.gguf_vocabulary"
local heed = require "heed"
local json = require "heed.files.json"
local loading = require "heed.tokenizer.loading"
local pieces = require "spec.support.pieces"
local refuse = require "heed.internal.refuse"
local tokenizer_of = require "spec.support.tokenizer_of"

local FILE <const>, TOKENIZERS <const> = "spec/golden/gguf/llama.gguf", "spec/golden/tokenizers/"

local path

before_each(function() path = os.tmpname() .. ".gguf" end)
after_each(function()
  os.remove(path)
  os.remove((path:gsub("%.gguf$", "")))
end)


-- Metadata of a tokenizer.json, and the tokenizer that they give.
local function by_metadata(text, rows, special)
  local metadata, types, left = refuse.try(gguf_vocabulary.metadata, text, rows, special or {})
  if not metadata then return nil, types end
  assert(heed.save(path, {}, metadata, types))
  return assert(heed.tokenizer.load(path)), metadata, left
end

-- The ids and the types of a pair of texts.
local function pair_of(tok, text, pair)
  local ids, types = tok:encode(text, {pair = pair, types = true})
  return {ids:totable(), types:totable()}
end

-- The tokens of a pair and the types of its tokens.
local function shown(tok, text, pair)
  local ids, types = table.unpack(pair_of(tok, text, pair))
  for i, id in ipairs(ids) do ids[i] = tok:token(id) end
  return table.concat(ids, "|") .. " " .. table.concat(types)
end

-- Metadata of a model by their keys.
local function metadata_of(model, tokens, more)
  local own = {["tokenizer.ggml.model"] = model, ["tokenizer.ggml.tokens"] = tokens}
  for name, value in next, more do own["tokenizer.ggml." .. name] = value end
  return own
end

local function read(metadata) return assert(tokenizer_of(gguf_tokenizer.to_json(metadata))) end

local function refusal(metadata)
  local text, why = refuse.try(gguf_tokenizer.to_json, metadata)
  assert.is_nil(text)
  return why
end

local function golden(name) return json.decode(loading.source(TOKENIZERS .. name)) end


describe("a tokenizer in GGUF's metadata", function()
  for _, name in ipairs{"bpe_gpt2", "bpe_llama3", "qwen2", "smollm2", "wordpiece_uncased"} do
    it("gives the same ids: " .. name, function()
      local folder = TOKENIZERS .. name
      local tok = assert(heed.tokenizer.load(folder))
      local own, metadata = by_metadata(loading.source(folder), #tok + 2)
      assert.equal(#tok + 2, #metadata["tokenizer.ggml.tokens"])
      local n = 0
      for _, case in ipairs(json.decode(directories.read(folder .. "/cases.json")).cases) do
        for _, parse in ipairs{false, true} do
          local ids = tok:encode(case.text, {parse = parse})
          assert.is_true(ids:equal(own:encode(case.text, {parse = parse})), case.text)
          assert.equal(tok:decode(ids), own:decode(ids))
          n = n + 1
        end
      end
      assert.is_true(n > 100)
      for _, case in ipairs(json.decode(directories.read(folder .. "/cases.json")).pairs) do
        assert.same(pair_of(tok, case.text, case.pair), pair_of(own, case.text, case.pair))
      end
    end)
  end

  it("says pieces with scores, whose merges follow from them", function()
    local _, metadata = heed.load(FILE)
    local text = gguf_tokenizer.to_json(metadata)
    local special = {bos = 1, eos = 2}
    local _, own = by_metadata(text, 899, special)
    assert.equal(text, gguf_tokenizer.to_json(own))
    assert.is_true(own["tokenizer.ggml.add_bos_token"])
    assert.equal(0, own["tokenizer.ggml.unknown_token_id"])
    local content = json.decode(text)
    content.normalizer = {type = "Sequence", normalizers = json.array{
      {type = "Prepend", prepend = "▁"},
      {type = "Replace", pattern = {String = " "}, content = "▁"}}}
    content.pre_tokenizer = nil
    directories.write(path .. ".json", json.encode(content))
    local wanted = assert(heed.tokenizer.load(path .. ".json"))
    os.remove(path .. ".json")
    local tok = by_metadata(json.encode(content), 899, special)
    for _, s in ipairs{"Attention is all", " a  b", "</s>a</s> b", "naïve", ""} do
      assert.is_true(wanted:encode(s, {parse = true}):equal(tok:encode(s, {parse = true})), s)
    end
    content.normalizer = content.normalizer.normalizers[2]
    own = select(2, by_metadata(json.encode(content), 899, special))
    assert.is_false(own["tokenizer.ggml.add_space_prefix"])
    table.remove(content.model.merges, 40)
    assert.matches("no merge makes the token \"it\"",
                   select(2, by_metadata(json.encode(content), 899, special)))
  end)

  it("says Unigram as SentencePiece has it", function()
    local tokens, scores, kinds = {"<pad>", "</s>", "<unk>"}, {0.0, 0.0, 0.0}, {3, 3, 2}
    for i, piece in ipairs{"▁a", "▁", "a", "b", "ab", "<0x0A>"} do
      tokens[#tokens + 1], scores[#scores + 1], kinds[#kinds + 1] = piece, -0.5 * i, 1
    end
    kinds[#kinds] = 6
    local map = directories.read(TOKENIZERS .. "unigram_charsmap/charsmap.txt"):gsub("%s", "")
    for _, flags in ipairs{{true, true, "map"}, {false, false}} do
      local text = gguf_tokenizer.to_json{
        ["tokenizer.ggml.precompiled_charsmap"] = flags[3],
        ["tokenizer.ggml.model"] = "t5", ["tokenizer.ggml.tokens"] = tokens,
        ["tokenizer.ggml.scores"] = scores, ["tokenizer.ggml.token_type"] = kinds,
        ["tokenizer.ggml.add_space_prefix"] = flags[1],
        ["tokenizer.ggml.remove_extra_whitespaces"] = flags[2],
        ["tokenizer.ggml.eos_token_id"] = 1, ["tokenizer.ggml.unknown_token_id"] = 2,
      }
      text = text:gsub('"bWFw"', ('"%s"'):format(map))
      local own = select(2, by_metadata(text, 9))
      assert.same({flags[1], flags[2], true}, {own["tokenizer.ggml.add_space_prefix"],
        own["tokenizer.ggml.remove_extra_whitespaces"], own["tokenizer.ggml.add_eos_token"]})
      assert.equal(text, gguf_tokenizer.to_json(own))
    end
  end)

  it("is refused where ids would be others", function()
    for name, wanted in next, {
      bpe_llama2 = "are not all pairs of tokens that do", cl100k = "how it splits texts",
      clip = "end_of_word_suffix", o200k = "how it splits texts", phi3 = "rstrip of \"</s>\"",
      unigram = "beside Unigram", wordpiece_cased = "the uncased one alone",
    } do
      local found, why = by_metadata(loading.source(TOKENIZERS .. name), 5000)
      assert.is_nil(found)
      assert.matches(wanted, why)
    end
    local text = loading.source(TOKENIZERS .. "bpe_gpt2")
    assert.matches("has the id %d+, and the model 9 ids", select(2, by_metadata(text, 9)))
    text = loading.source(TOKENIZERS .. "bpe_llama3")
    assert.matches("a text gets the id 680, and the bos token is 7",
                   select(2, by_metadata(text, 700, {bos = 7})))
    local function changed(name, change)
      local file = assert(json.decode(loading.source(TOKENIZERS .. name)))
      change(file)
      return select(2, by_metadata(json.encode(file), 5000))
    end
    assert.matches("two tokens of the id 1", changed("bpe_gpt2", function(file)
      file.added_tokens[1].id = 1
    end))
    assert.matches('normalized of "%[PAD%]"', changed("wordpiece_uncased", function(file)
      file.added_tokens[1].normalized = true
    end))
    assert.matches("there is no token for what is unknown", changed("wordpiece_uncased",
                   function(file) file.model.unk_token = "[NONE]" end))
  end)
end)


describe("metadata of a tokenizer", function()
  it("are refused where values are of other types than theirs", function()
    local key = "tokenizer.ggml."
    local function pieces_with(more)
      local own = {scores = {0, 0}, token_type = {2, 1}, add_bos_token = true}
      for name, value in pairs(more) do own[name] = value end
      return metadata_of("llama", {"a", "b"}, own)
    end
    for wanted, metadata in pairs{
      [key .. 'model: bert, gpt2, llama or t5 expected, got "rwkv"'] = metadata_of("rwkv", {}, {}),
      [key .. "model: bert, gpt2, llama or t5 expected, got number"] = metadata_of(3, {}, {}),
      [key .. "tokens: a list of tokens expected"] = metadata_of("llama", {}, {}),
      [key .. "tokens: a list expected"] = metadata_of("llama", "a", {}),
      [key .. "tokens: a string expected at 2, got number"] = metadata_of("llama", {"a", 3}, {}),
      [key .. "tokens: UTF-8 expected at 1"] = metadata_of("llama", {"\xff"}, {}),
      [key .. 'tokens: "a" stands there twice'] =
        metadata_of("gpt2", {"a", "a"}, {pre = "gpt-2", merges = {}}),
      [key .. "scores: a list of 2 expected"] = pieces_with{scores = {0}},
      [key .. "scores: a number expected at 2, got string"] = pieces_with{scores = {0, "0"}},
      [key .. "token_type: a list of 2 expected"] = pieces_with{token_type = {1, 1, 1}},
      [key .. "add_space_prefix: a boolean expected, got number"] =
        pieces_with{add_space_prefix = 1},
      [key .. "bos_token_id: the id of one of 2 tokens expected, got 2"] =
        pieces_with{bos_token_id = 2},
      [key .. "bos_token_id: the id of one of 2 tokens expected, got -1"] =
        pieces_with{bos_token_id = -1},
      [key .. "precompiled_charsmap: bytes expected, got table"] =
        pieces_with{precompiled_charsmap = {1}},
    } do
      assert.matches(wanted, refusal(metadata), 1, true)
    end
    for _, metadata in ipairs{{}, metadata_of("none", {}, {})} do
      assert.equal(key .. "model: there is none", refusal(metadata))
    end
  end)
end)


describe("WordPiece in GGUF's metadata", function()
  local function words(more)
    local own = {token_type = {3, 2, 3, 3, 1, 1, 4, 4}, cls_token_id = 2, seperator_token_id = 3,
                 unknown_token_id = 1}
    for name, value in next, more do own[name] = value end
    return metadata_of("bert", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u{2581}a", "b", "foo",
                                "\u{2581}bar"}, own)
  end

  it("has added tokens as they are, whether a word's mark is before them or none", function()
    local tok = read(words{})
    assert.equal("[CLS]|a|##b|foo|bar|[SEP]", pieces(tok, "ab foo bar"))
    assert.equal("ab foo bar", tok:decode(tok:encode "ab foo bar"))
    local content = golden "wordpiece_uncased"
    local list = content.added_tokens
    local added = {id = list[#list].id + 5000, content = "new token", special = false}
    list[#list + 1] = added
    local own = by_metadata(json.encode(content), added.id + 1)
    assert.equal("new token", own:token(added.id + 1))
    assert.equal("a new token a", own:decode(own:encode "a new token a"))
    added.content = "\u{2581}new"
    assert.matches("the token \"\u{2581}new\"",
                   select(2, by_metadata(json.encode(content), added.id + 1)))
  end)

  it("parts the texts of a pair by one token, or by two", function()
    assert.equal("[CLS]|a|[SEP]|a|##b|[SEP] 111222", shown(read(words{}), "a", "ab"))
    assert.equal("[CLS]|a|[SEP]|[SEP]|a|##b|[SEP] 1111111",
                 shown(read(words{add_sep_token = true}), "a", "ab"))
  end)

  it("is refused where accents stay", function()
    local content = golden "wordpiece_uncased"
    content.normalizer.strip_accents = false
    assert.matches("the uncased one alone", select(2, by_metadata(json.encode(content), 5000)))
  end)
end)


describe("texts in GGUF's metadata", function()
  -- Letters, digits and a hyphen of byte BPE, with two special tokens.
  local function bytes(more)
    local own = {pre = "gpt-2", merges = {"Ġ -", "1 2", "12 3", "123 4"},
                 token_type = {3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}
    for name, value in next, more do own[name] = value end
    return metadata_of("gpt2", {"<s>", "</s>", "x", "y", "Ġ", "-", "Ġ-", "1", "2", "3", "4", "5",
                                "12", "123", "1234"}, own)
  end

  local function without(metadata, name)
    metadata["tokenizer.ggml." .. name] = nil
    return metadata
  end

  it("are split as the name says, which must be there", function()
    assert.equal("x|Ġ-|y|Ġ|1234|5", pieces(read(bytes{}), "x -y 12345"))
    assert.equal("x|Ġ|-|y|Ġ|123|4|5", pieces(read(bytes{pre = "default"}), "x -y 12345"))
    assert.matches("tokenizer.ggml.pre: one of .*gpt%-2, .* expected, got none",
                   refusal(without(bytes{}, "pre")))
  end)

  it("have no begin and no end that no token is named for", function()
    local both = {add_bos_token = true, bos_token_id = 0, add_eos_token = true, eos_token_id = 1}
    assert.equal("<s>|x|</s>", pieces(read(bytes(both)), "x"))
    assert.equal("x", pieces(read(bytes{bos_token_id = 0, eos_token_id = 1}), "x"))
    for _, part in ipairs{"bos", "eos"} do
      assert.matches(("%s_token_id expected: texts get that token unless add_%s_token is false")
                     :format(part, part), refusal(without(bytes(both), part .. "_token_id")))
    end
    assert.matches("bos_token_id expected", refusal(bytes{pre = "llama-bpe"}))
    both.add_sep_token = true
    assert.matches("seperator_token_id expected", refusal(bytes(both)))
    local bert = {token_type = {2, 3, 3, 1}, cls_token_id = 1, seperator_token_id = 2,
                  unknown_token_id = 0}
    for _, key in ipairs{"cls_token_id", "seperator_token_id", "unknown_token_id"} do
      local metadata = metadata_of("bert", {"[UNK]", "[CLS]", "[SEP]", "\u{2581}a"}, bert)
      assert.equal("[CLS]|a|[SEP]", pieces(read(metadata), "a"))
      assert.matches(key .. " expected beside the model bert", refusal(without(metadata, key)))
    end
  end)

  it("are pairs of the forms that the metadata say", function()
    local function pair(more)
      local own = {bos_token_id = 0, eos_token_id = 1, seperator_token_id = 1}
      for name, value in next, more do own[name] = value end
      return shown(read(bytes(own)), "x", "y")
    end
    assert.equal("x|y 12", pair{})
    assert.equal("<s>|x|<s>|y 1122", pair{add_bos_token = true})
    assert.equal("<s>|x|<s>|y 1122", pair{add_bos_token = true, add_sep_token = false})
    assert.equal("x|</s>|y|</s> 1122", pair{add_eos_token = true})
    local both = {add_bos_token = true, add_eos_token = true}
    assert.equal("<s>|x|</s>|<s>|y|</s> 111222", pair(both))
    both.add_sep_token = false
    assert.equal("<s>|x|</s>|y|</s> 11122", pair(both))
    both.add_sep_token = true
    assert.equal("<s>|x|</s>|</s>|y|</s> 111111", pair(both))
    local function piece(more)
      local own = {scores = {0.0, 0.0, 0.0, -1.0, -1.0}, token_type = {3, 3, 2, 1, 1},
                   bos_token_id = 0, eos_token_id = 1, seperator_token_id = 1, unknown_token_id = 2}
      for name, value in next, more do own[name] = value end
      local tokens = {"<s>", "</s>", "<unk>", "\u{2581}x", "\u{2581}y"}
      return shown(read(metadata_of("t5", tokens, own)), "x", "y")
    end
    assert.equal("\u{2581}x|</s>|\u{2581}y|</s> 1111", piece{})
    assert.equal("<s>|\u{2581}x|</s>|\u{2581}y|</s> 11111", piece{add_bos_token = true})
    assert.equal("<s>|\u{2581}x|</s>|</s>|\u{2581}y|</s> 111111",
                 piece{add_bos_token = true, add_sep_token = true})
  end)

  it("keep the form of their pairs, or it is told that they do not", function()
    local content = golden "bpe_gpt2"
    local first = {id = 4998, content = "<s>", special = true}
    local last = {id = 4999, content = "</s>", special = true}
    local names = {first, last}
    table.move(names, 1, 2, #content.added_tokens + 1, content.added_tokens)
    local function written(processor, special)
      content.post_processor = processor
      local text = json.encode(content)
      local own, metadata, left = by_metadata(text, 5000, special)
      local wanted = assert(tokenizer_of(text))
      assert.same(wanted:encode("a b"):totable(), own:encode("a b"):totable())
      local is_same = pcall(assert.same, pair_of(wanted, "a", "b"), pair_of(own, "a", "b"))
      assert.equal(is_same, next(left) == nil)
      return metadata["tokenizer.ggml.add_sep_token"], left
    end
    local cls, sep = json.array{first.content, first.id}, json.array{last.content, last.id}
    assert.is_true(written{type = "RobertaProcessing", cls = cls, sep = sep})
    assert.is_false(written{type = "BertProcessing", cls = cls, sep = sep})
    local tokens = {}
    for _, token in ipairs(names) do
      tokens[token.content] = {id = token.content, ids = json.array{token.id},
                               tokens = json.array{token.content}}
    end
    local function template(single, pair)
      local function list_of(text)
        local list = {}
        for name, of in text:gmatch "(%S)(%d)" do
          local token = name == "<" and first or name == ">" and last
          local kind = token and "SpecialToken" or "Sequence"
          list[#list + 1] = {[kind] = {id = token and token.content or name,
                                       type_id = math.tointeger(tonumber(of))}}
        end
        return json.array(list)
      end
      return written{type = "TemplateProcessing", single = list_of(single), pair = list_of(pair),
                     special_tokens = tokens}
    end
    assert.is_nil(template("<0 A0 >0", "<0 A0 >0 <1 B1 >1"))
    assert.is_false(template("<0 A0", "<0 A0 <1 B1"))
    assert.is_false(template("A0 >0", "A0 >0 B1 >1"))
    assert.is_nil(template("A0", "A0 B1"))
    for single, pair in next, {["<0 A0"] = "A0 B1", ["A0"] = "A0 >0 <0 B1", ["A0 >0"] = "A0 B1 >1",
                               ["<0 A0 >0"] = "<0 A0 >0 B0 >0"} do
      local is_parted, left = template(single, pair)
      assert.is_nil(is_parted)
      assert.same({["tokenizer.json: pairs of texts"] =
                     "GGUF has no form for the tokens around them"}, left)
    end
  end)
end)


describe("pieces in GGUF's metadata", function()
  -- Merges of characters that fall back to bytes, as a tokenizer.json has them.
  local function merged(tokens, merges, parts)
    local vocab = {["<unk>"] = 0}
    for i, token in ipairs(tokens) do vocab[token] = i end
    for byte = 0, 255 do vocab[("<0x%02X>"):format(byte)] = #tokens + 1 + byte end
    local content = {
      model = {type = "BPE", vocab = vocab, merges = json.array(merges), unk_token = "<unk>",
               fuse_unk = true, byte_fallback = true},
      added_tokens = json.array{{id = 0, content = "<unk>", special = true}},
      normalizer = {type = "Replace", pattern = {String = " "}, content = "\u{2581}"},
    }
    for name, value in next, parts or {} do content[name] = value or nil end
    return json.encode(content), #tokens + 257
  end

  it("may hold line ends, which merges are made of", function()
    local text, rows = merged({"a", "\n", "\n\n", "\ta", "\t"}, {"\n \n", "\t a"})
    local tok = assert(by_metadata(text, rows))
    assert.equal("\n\n|a|\ta", pieces(tok, "\n\na\ta"))
    text, rows = merged({"a", " ", "a "}, {json.array{"a", " "}})
    assert.is_truthy(by_metadata(text, rows))
  end)

  it("are joined in the order of their merges, whatever that of their ids", function()
    local text, rows = merged({"a", "b", "c", "ab", "bc"}, {"b c", "a b"})
    assert.equal("a|bc", pieces(assert(by_metadata(text, rows)), "abc"))
    text, rows = merged({"a", "b", "c", "ab", "bc"}, {"a b", "b c"})
    assert.equal("ab|c", pieces(assert(by_metadata(text, rows)), "abc"))
  end)

  it("are refused where Metaspace begins or splits texts otherwise", function()
    local mark = "\u{2581}"
    local function why(way, tokens, merges)
      way.type, way.replacement = "Metaspace", mark
      local text, rows = merged(tokens or {"a", mark, mark .. "a"},
                                merges or {mark .. " a"}, {normalizer = false, pre_tokenizer = way})
      local own, metadata = by_metadata(text, rows)
      if not own then return metadata end
      local wanted = assert(tokenizer_of(text))
      for _, s in ipairs{"a", " a", "a  a", "<unk>a<unk> a", ""} do
        assert.equal(pieces(wanted, s, {parse = true}), pieces(own, s, {parse = true}), s)
      end
      return metadata["tokenizer.ggml.add_space_prefix"]
    end
    assert.is_false(why{prepend_scheme = "never"})
    assert.is_false(why{add_prefix_space = false})
    assert.is_true(why{prepend_scheme = "always", doubles = true})
    for _, scheme in ipairs{"first", "always"} do
      assert.matches(('prepend_scheme "%s" of its pre_tokenizer'):format(scheme),
                     why{prepend_scheme = scheme, split = false})
    end
    assert.matches('prepend_scheme "always" of its pre_tokenizer', why{})
    local tokens, merges = {"a", mark, mark .. mark}, {mark .. " " .. mark}
    assert.matches("split of its pre_tokenizer beside pieces of several words",
                   why({prepend_scheme = "never"}, tokens, merges))
    assert.is_false(why({prepend_scheme = "never", split = false}, tokens, merges))
  end)

  it("may replace blanks before they are split at those, of which none is left", function()
    local mark = "\u{2581}"
    local replaced = {type = "Replace", pattern = {String = " "}, content = mark}
    local function why(way)
      local text, rows = merged({"a", mark, mark .. "a"}, {mark .. " a"},
                                {normalizer = replaced, pre_tokenizer = way})
      local own, metadata = by_metadata(text, rows)
      if not own then return metadata end
      local wanted = assert(tokenizer_of(text))
      for _, s in ipairs{"a", " a", "a  a", ""} do
        assert.equal(pieces(wanted, s), pieces(own, s), s)
      end
      return metadata["tokenizer.ggml.add_space_prefix"]
    end
    local function split(by)
      return {type = "Split", pattern = {String = by}, behavior = "Isolated"}
    end
    assert.is_false(why(false))
    assert.is_false(why(split " "))
    assert.matches("its normalizer and pre_tokenizer beside merges", why(split "a"))
    assert.matches("its normalizer and pre_tokenizer beside merges",
                   why{type = "Digits", individual_digits = true})
  end)

  it("of Unigram are split at marks unless the file says otherwise", function()
    local function why(split, inner)
      local content = {
        model = {type = "Unigram", unk_id = 0, vocab = json.array{
          json.array{"<unk>", 0.0}, json.array{"\u{2581}a", -1.0}, json.array{inner, -1.5},
        }},
        added_tokens = json.array{{id = 0, content = "<unk>", special = true}},
        pre_tokenizer = {type = "Metaspace", replacement = "\u{2581}", prepend_scheme = "always",
                         doubles = true, split = split},
      }
      local own, text = by_metadata(json.encode(content), 3)
      return own == nil and text
    end
    assert.is_false(why(nil, "b"))
    assert.is_false(why(true, "b"))
    assert.is_false(why(false, "a\u{2581}b"))
    for _, split in ipairs{{nil}, {true}} do
      assert.matches("beside Unigram", why(split[1], "a\u{2581}b"))
    end
  end)

  it("have a mark before each part of a text", function()
    local own = {scores = {0.0, 0.0, -1.0, -2.0, -3.0}, token_type = {3, 2, 1, 1, 1},
                 eos_token_id = 0, unknown_token_id = 1, add_bos_token = false}
    local tokens = {"</s>", "<unk>", "\u{2581}a", "a", "\u{2581}"}
    for model, wanted in next, {t5 = "\u{2581}a|</s>|\u{2581}a|</s>",
                                llama = "\u{2581}a|</s>|\u{2581}a"} do
      assert.equal(wanted, pieces(read(metadata_of(model, tokens, own)), "a</s>a", {parse = true}))
    end
  end)
end)
