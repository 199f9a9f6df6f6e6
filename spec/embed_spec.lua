-- Vectors of texts, as a directory says by modules.json and its folders: each part beside its
-- formula.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local tokenizer_of = require "spec.support.tokenizer_of"

local ROWS <const> = {{1, 5, 6, 2}, {1, 2}, {1, 9, 8, 7, 6, 5, 2}, {1, 3, 2}, {1, 4, 4, 4, 4, 2}}


local function write(place, name, value)
  directories.write(place.path .. "/" .. name, type(value) == "string" and value
                                               or json.encode(value))
end


-- A folder with a file.
local function add_folder(place, folder, c)
  assert(os.execute(("mkdir %s/%s"):format(place.path, folder)))
  write(place, folder .. "/config.json", c)
end


-- A directory of ELECTRA with modules, each {type, folder, configuration}.
local function directory(modules)
  local place, list = directories.make "electra", json.array{}
  list[1] = {type = "sentence_transformers.models.Transformer", path = "", idx = 0, name = "0"}
  for i, m in ipairs(modules) do
    list[i + 1] = {type = "x.y." .. m[1], path = m[2] or "", idx = i, name = tostring(i)}
    if m[3] then add_folder(place, m[2], m[3]) end
  end
  write(place, "modules.json", list)
  return place
end


local function pooled(c) return {"pooling.Pooling", "1_Pooling", c} end


local function load(place) return assert(heed.models.load(place.path)) end


local function close(a, b)
  assert.equal(tostring(b.shape), tostring(a.shape))
  assert.is_true(a:allclose(b, {atol = 2e-6}), tostring(a - b))
end


-- The features of each row alone.
local function features(m)
  local list = {}
  heed.no_grad(function()
    for i, row in ipairs(ROWS) do list[i] = m:hidden(heed.tensor{row})[1] end
  end)
  return list
end


-- The vectors that a function of a row's features gives.
local function each(m, f)
  local list = {}
  for i, x in ipairs(features(m)) do list[i] = f(x) end
  return heed.stack(list, 1)
end

local function mean(x) return x:mean(1) end


-- Features (T, D) -> (D), by the names of both spellings.
local WAYS <const> = {
  {"cls", "pooling_mode_cls_token", function(x) return x[1] end},
  {"max", "pooling_mode_max_tokens", function(x) return (x:max(1)) end},
  {"mean", "pooling_mode_mean_tokens", mean},
  {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", function(x)
    return x:sum(1) / math.sqrt(#x)
  end},
  {"weightedmean", "pooling_mode_weightedmean_tokens", function(x)
    local w = heed.arange(#x):to("float32")
    return (x * w:unsqueeze(2)):sum(1) / w:sum()
  end},
  {"lasttoken", "pooling_mode_lasttoken", function(x) return x[#x] end},
}


describe("vectors of texts", function()
  for _, way in ipairs(WAYS) do
    it("are pooled: " .. way[1], function()
      for _, c in ipairs{{[way[2]] = true, pooling_mode_cls_token = way[1] == "cls"},
                         {pooling_mode = way[1]}} do
        local place <close> = directory{pooled(c)}
        local m = load(place)
        close(m:embed(ROWS), each(m, way[3]))
      end
    end)
  end

  it("are joined in one order, and means where no way is named", function()
    local place <close> = directory{pooled{pooling_mode = json.array{"lasttoken", "max", "cls"}}}
    local m = load(place)
    close(m:embed(ROWS), each(m, function(x) return heed.cat({x[1], (x:max(1)), x[#x]}, 1) end))
    local plain <close> = directory{pooled{word_embedding_dimension = 32}}
    close(load(plain):embed(ROWS), each(m, mean))
  end)

  it("go through linear layers and a norm", function()
    local tanh = {in_features = 32, out_features = 6}
    local plain = {in_features = 6, out_features = 4, activation_function = "torch.nn.Identity"}
    local place <close> = directory{pooled{}, {"Dense", "2_Dense", tanh},
                                    {"Dense", "3_Dense", plain}, {"Normalize", "4_Normalize"}}
    heed.manual_seed(1)                  -- a short vector has large errors
    local a, b, bias = heed.randn(6, 32), heed.randn(4, 6), heed.randn(6)
    assert(heed.save(place.path .. "/2_Dense/model.safetensors",
                     {["linear.weight"] = a, ["linear.bias"] = bias}))
    assert(heed.save(place.path .. "/3_Dense/model.safetensors", {["linear.weight"] = b}))
    local m = load(place)
    local function wanted(x)
      local y = b:matmul((a:matmul(x:mean(1)) + bias):tanh())
      return y / y:square():sum():sqrt()
    end
    close(m:embed(ROWS), each(m, wanted))
    local cut = m:embed(ROWS, {dims = 2})
    close(cut, heed.normalize(each(m, wanted)[{{}, {1, 2}}], 2, -1))
    m:to("bfloat16")
    assert.equal("bfloat16", m:embed(ROWS).dtype)
    local full, blocks = load(place), assert(heed.models.load(place.path, {quantize = "q8_0"}))
    assert.equal("q8_0", blocks.sentences.dense[1].linear.weight.dtype)
    assert.is_true((blocks:embed(ROWS) - full:embed(ROWS)):abs():max():item() < 0.1)
  end)

  it("come back in order, alone as in a batch of any size", function()
    local place <close> = directory{pooled{}}
    local m = load(place)
    local all = m:embed(ROWS)
    for _, batch in ipairs{1, 2, 3, 50} do close(m:embed(ROWS, {batch = batch}), all) end
    for i, row in ipairs(ROWS) do close(m:embed({heed.tensor(row)})[1], all[i]) end
    assert.is_false(all.requires_grad)
    for dtype, wanted in pairs{float64 = "float64", bfloat16 = "float32"} do
      assert.equal(wanted, assert(heed.models.load(place.path, {dtype = dtype})):embed(ROWS).dtype)
    end
    for _, n in ipairs{5, 32} do close(m:embed(ROWS, {dims = n}), all[{{}, {1, n}}]) end
    local calls, many = 0, {}
    m.body:register_forward_hook(function() calls = calls + 1 end)
    for i = 1, 33 do
      many[i] = {i % 9 + 1}
      calls = 0
      m:embed(many)
      assert.equal(i > 32 and 2 or 1, calls)
    end
  end)
end)


-- A tokenizer of letters and blanks: a is 4, and texts stand between 1 and 2; or, `open`, behind 1
-- alone. A normalizer drops `dropped`.
local function tokenizer(open, dropped)
  local vocabulary = {["<s>"] = 0, ["</s>"] = 1, ["?"] = 2, ["Ġ"] = 29}
  for i = 0, 25 do vocabulary[string.char(("a"):byte() + i)] = 3 + i end
  local function special(id, content)
    return {id = id, content = content, special = true, single_word = false, lstrip = false,
            rstrip = false, normalized = false}
  end
  local function named(id, i) return {id = id, ids = json.array{i}, tokens = json.array{id}} end
  local function token(id) return {SpecialToken = {id = id, type_id = 0}} end
  local text = json.array{token "<s>", {Sequence = {id = "A", type_id = 0}},
                          not open and token "</s>" or nil}
  return {
    version = "1.0", added_tokens = json.array{special(0, "<s>"), special(1, "</s>")},
    normalizer = dropped and {type = "Replace", pattern = {String = dropped}, content = ""}
                 or json.null,
    truncation = json.null, padding = json.null,
    pre_tokenizer = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
                     use_regex = true},
    post_processor = {
      type = "TemplateProcessing", single = text, pair = text,
      special_tokens = {["<s>"] = named("<s>", 0), ["</s>"] = named("</s>", 1)},
    },
    decoder = {type = "ByteLevel", add_prefix_space = true, trim_offsets = true, use_regex = true},
    model = {type = "BPE", vocab = vocabulary, merges = json.array{}},
  }
end


describe("texts", function()
  local function with_texts(c, pooling)
    local place = directory{pooled(pooling or {})}
    write(place, "tokenizer.json", tokenizer())
    write(place, "config_sentence_transformers.json", c or {})
    return place
  end

  local PROMPTS <const> = {prompts = {query = "q ", none = ""}, default_prompt_name = "query"}

  it("are cut where the directory says so", function()
    local place <close> = with_texts()
    write(place, "sentence_bert_config.json", {max_seq_length = 4, do_lower_case = false})
    local m = load(place)
    close(m:embed{"abcdef", "ab"}, m:embed{{1, 4, 5, 2}, {1, 4, 5, 2}})
    close(m:embed "ab", m:embed({{1, 4, 5, 2}})[1])
    write(place, "sentence_bert_config.json", {do_lower_case = false})
    write(place, "tokenizer_config.json", {model_max_length = 3})
    close(load(place):embed "ab", m:embed({{1, 4, 2}})[1])
    write(place, "sentence_bert_config.json", {max_seq_length = (1 << 31) - 1})
    close(load(place):embed "ab", m:embed({{1, 4, 5, 2}})[1])
    for _, none in ipairs{0, 1 << 31} do
      write(place, "sentence_bert_config.json", {max_seq_length = none})
      close(load(place):embed "ab", m:embed({{1, 4, 2}})[1])
    end
    write(place, "tokenizer_config.json", {model_max_length = 1e30})
    local long = ("a"):rep(80)
    local row = {1, 2}
    for _ = 1, 62 do table.insert(row, 2, 4) end         -- 64 in all: max_position_embeddings
    close(load(place):embed(long), m:embed({row})[1])
  end)

  it("are not cut to nothing, or to more than the model has positions for", function()
    local m = assert(heed.models.load "spec/golden/models/st/bert_concat")
    for _, max in ipairs{1, 2, 177, 100000} do
      assert.matches("embed: option max: 3 to 176 expected, got " .. max,
                     message(m.embed, m, "a text", {max = max, prompt = false}))
    end
    for _, max in ipairs{3, 176} do
      assert.is_true(m:embed("a text", {max = max, prompt = false}):abs():max():item() > 0)
    end
    assert.matches("at least 1 expected as option max, got 0",
                   message(m.embed, m, {{1, 2}}, {max = 0}))
    assert.matches("embed: text 1: at most 1 ids expected with option max, got 3",
                   message(m.embed, m, {{1, 2, 3}, {2}}, {max = 1}))
    assert.equal(2, m:embed({{1, 2, 3}, {2}}, {max = 3}):dim())
    local place <close> = with_texts(PROMPTS, {include_prompt = false})
    m = load(place)
    assert.matches("option max: 5 to 64 expected, got 4", message(m.embed, m, "a", {max = 4}))
    close(m:embed("ab", {max = 5}), m:embed "a")
    local static = assert(heed.models.load "spec/golden/models/st/model2vec")
    assert.equal(20, #static:embed("a text", {max = 1}))
  end)

  it("have as many tokens as positions that are not those of padding", function()
    local place <close> = directories.make "roberta"
    write(place, "modules.json", json.array{{type = "x.Transformer", path = "."},
                                            {type = "x.Pooling", path = "1_Pooling"}})
    add_folder(place, "1_Pooling", {pooling_mode_x = false})
    local m = load(place)
    assert.equal(64, m.limit)                            -- of 66, the first two of padding
    assert.equal(1, #m:embed({{5}}, {max = 64}))
    assert.matches("option max: 1 to 64 expected, got 65", message(m.embed, m, {{5}}, {max = 65}))
    local ids = heed.tensor{{5, 9, 7}}
    local at = heed.arange(0, 2):unsqueeze(1)
    assert.is_true(m:hidden(ids, {positions = at}):equal(m:hidden(ids)))
  end)

  it("keep their last tokens where the directory says so, with the special ones", function()
    local place <close> = with_texts()
    write(place, "sentence_bert_config.json", {max_seq_length = 4})
    write(place, "tokenizer_config.json", {truncation_side = "left"})
    local m = load(place)
    close(m:embed{"abcdef", "ab"}, m:embed{{1, 8, 9, 2}, {1, 4, 5, 2}})
    local ids, offsets = m.tokenizer:encode("abcdef", {max = 4, offsets = true})
    assert.same({1, 8, 9, 2}, ids:totable())
    assert.same({{1, 0}, {5, 5}, {6, 6}, {1, 0}}, offsets:totable())
    write(place, "tokenizer_config.json", {truncation_side = "right"})
    close(load(place):embed "abcdef", m:embed({{1, 4, 5, 2}})[1])
    write(place, "tokenizer_config.json", {truncation_side = "top"})
    assert.matches('tokenizer_config.json: "truncation_side": left or right expected, got "top"',
                   message(m.embed, load(place), "a"))
  end)

  it("lose their case where the directory says so, with their prompt", function()
    local place <close> = with_texts{prompts = {query = "Q "}, default_prompt_name = "query"}
    write(place, "sentence_bert_config.json", {do_lower_case = true})
    local m = load(place)
    close(m:embed "AB</S>", m:embed("ab</s>", {parse = true}))
    close(m:embed "AB", m:embed({{1, 20, 30, 4, 5, 2}})[1])
    write(place, "sentence_bert_config.json", {do_lower_case = 1})
    assert.matches('sentence_bert_config.json: "do_lower_case": true or false expected, got "1"',
                   select(2, heed.models.load(place.path)))
    local lower = require "heed.models.lower"
    for text, wanted in pairs{
      ["\u{c9}T\u{c9} \u{130}x"] = "\u{e9}t\u{e9} i\u{307}x",
      ["\u{39f}\u{394}\u{39f}\u{3a3} \u{3a3}\u{39f}\u{3a3}."]
        = "\u{3bf}\u{3b4}\u{3bf}\u{3c2} \u{3c3}\u{3bf}\u{3c2}.",
      ["\u{3a3} A\u{3a3}'B A\u{3a3}' \u{3a3}"] = "\u{3c3} a\u{3c3}'b a\u{3c2}' \u{3c3}",
      ["A\xff\u{3a3}"] = "a\xff\u{3c3}", ["<A> \0B"] = "<a> \0b", [""] = "",
    } do
      assert.equal(wanted, lower(text))
    end
    local bytes, small = {}, {}
    for b = 0, 255 do
      bytes[b + 1] = string.char(b)
      small[b + 1] = b >= 0x41 and b <= 0x5a and string.char(b + 0x20) or bytes[b + 1]
    end
    assert.is_true(table.concat(small, " ") == lower(table.concat(bytes, " ")))
  end)

  it("stand behind a prompt", function()
    local place <close> = with_texts(PROMPTS)
    local m = load(place)
    local q, plain = m:embed({{1, 20, 30, 4, 2}})[1], m:embed({{1, 4, 2}})[1]
    close(m:embed "a", q)
    close(m:embed("a", {prompt = "query"}), q)
    close(m:embed("a", {prompt = "none"}), plain)
    close(m:embed("a", {prompt = false}), plain)
    close(m:embed("a", {prompt = "document"}), plain)            -- as in sentence-transformers 5
    assert.matches("the name of a prompt expected as option prompt, got the string 'quary'; did "
                   .. "you mean 'query'", message(m.embed, m, "a", {prompt = "quary"}))
  end)

  it("are pooled without the prompt's tokens where the directory says so", function()
    local place <close> = with_texts(PROMPTS, {pooling_mode = json.array{"cls", "weightedmean"},
                                               include_prompt = false})
    local m = load(place)
    local x = heed.no_grad(m.hidden, m, heed.tensor{{1, 20, 30, 4, 5, 2}})[1]
    local rest, w = x[{{4, 6}}], heed.tensor{4.0, 5.0, 6.0}
    close(m:embed "ab", heed.cat({rest[1], (rest * w:unsqueeze(2)):sum(1) / 15}, 1))
    close(m:embed("ab", {prompt = "none"}), m:embed({{1, 4, 5, 2}}, {prompt = false})[1])
  end)

  -- A prompt without tokens of its own ends at its last one, as in sentence-transformers.
  it("are pooled behind a prompt that has no token at its end, or none of its own", function()
    for _, case in ipairs{{true, nil, {1, 20, 30, 4, 5}, 4}, {true, "q ", {1, 4, 5}, 1},
                          {false, "q ", {1, 4, 5, 2}, 2}, {true, " ", {1, 20, 4, 5}, 3}} do
      local place <close> = with_texts(PROMPTS, {pooling_mode = "mean", include_prompt = false})
      write(place, "tokenizer.json", tokenizer(case[1], case[2]))
      local m = load(place)
      local x = heed.no_grad(m.hidden, m, heed.tensor{case[3]})[1]
      close(m:embed "ab", x[{{case[4], -1}}]:mean(1))
    end
  end)

  it("are refused where the tokenizer is, when it is used", function()
    local place <close> = directory{pooled{}}
    local m = load(place)
    assert.matches("tokenizer.load: .*tokenizer.json", message(m.embed, m, "a"))
    assert.matches("tokenizer.load: .*tokenizer.json",
                   message(function() return #m.tokenizer end))
    assert.equal("heed.Tokenizer(none)", tostring(m.tokenizer))
    close(m:embed(ROWS), each(m, mean))
  end)

  it("are refused where they are none", function()
    local place <close> = directory{pooled{}}
    local m = load(place)
    local function why(...) return message(m.embed, m, ...) end
    assert.matches("a text, or a list of texts expected, got an empty table", why{})
    assert.matches("a text, or a list of texts expected, got 3", why(3))
    assert.matches("a text or a list of ids expected at position 2, got true", why{{1}, true})
    assert.matches("embed: text 2: an id expected at position 1, got 1.5", why{{1}, {1.5}})
    assert.matches("embed: text 1: at least one id expected, got none", why{{}})
    assert.matches("text 2: at least one id", why{{1}, heed.zeros(0, {dtype = "int64"})})
    assert.matches("a list expected, got one with the string 'x' as a key", why{x = 1})
    assert.matches("unknown option 'prompts'", why(ROWS, {prompts = "x"}))
    assert.matches("at most 32 expected as option dims, got 33", why(ROWS, {dims = 33}))
    assert.matches("at least 1 expected as option batch, got 0", why(ROWS, {batch = 0}))
    local bare <close> = directories.make "electra"
    m = load(bare)
    assert.matches("a directory with modules.json expected", why(ROWS))
  end)
end)


describe("a directory of sentence-transformers is refused", function()
  local function why(modules, f)
    local place <close> = directory(modules)
    if f then f(place) end
    local m, text = heed.models.load(place.path)
    assert.is_nil(m)
    return text
  end

  it("with modules that heed lacks", function()
    assert.matches('the module "LSTM" is not known at position 2', why{{"models.LSTM", "1_LSTM"}})
    assert.matches("modules.json: Pooling expected", why{})
    assert.matches("modules.json: one Pooling expected", why{pooled{}, {"Pooling", "2", {}}})
    assert.matches('the module "" is not known at position 2', why{{"", ""}})
    assert.matches("modules.json: a model expected as the first module", why({}, function(place)
      write(place, "modules.json", "[]")
    end))
    assert.matches("modules.json: Dense before Pooling is not known", why{{"Dense", "1_Dense", {}}})
    assert.matches('the name of a folder beside it expected, got "../x"',
                   why{{"Pooling", "../x"}}, 1, true)
    assert.matches("1_Pooling/config.json expected", why{{"Pooling", "1_Pooling"}})
    assert.matches('the module "Pooling" is not known at position 1', why({}, function(place)
      add_folder(place, "1_Pooling", {})
      write(place, "modules.json", json.array{{type = "models.Pooling", path = "1_Pooling"}})
    end))
    assert.matches("modules.json: a list expected", why({}, function(place)
      write(place, "modules.json", {})
    end))
    for _, text in ipairs{"[1]", '[{"type":3,"path":""}]', '[{"type":"x","path":3}]'} do
      assert.matches("modules.json: a list of objects with type and path expected",
                     why({}, function(place) write(place, "modules.json", text) end))
    end
  end)

  it("with another way to pool, or activation", function()
    local several = json.array{"cls", "max", "splade", "mean", "lasttoken", "weightedmean"}
    for _, mode in ipairs{"splade", several} do
      assert.matches('Pooling: the way "splade" is not known', why{pooled{pooling_mode = mode}})
    end
    assert.matches('Pooling: the key "pooling_mode_x" is not known',
                   why{pooled{pooling_mode_x = true}})
    local function dense(c)
      return why{pooled{}, {"Dense", "2_Dense", c}}
    end
    assert.matches('the activation "torch.nn.Mish" is not known',
                   dense{activation_function = "torch.nn.Mish"})
    assert.matches("Dense: use_residual is not known", dense{use_residual = true})
    for _, name in ipairs{"in_features", "out_features"} do
      assert.matches("in_features and out_features expected", dense{[name] = 3})
    end
    local function sized(inputs, outputs, tensors)
      local own = {"Dense", "2_Dense", {in_features = inputs, out_features = outputs}}
      return why({pooled{}, own}, function(place)
        assert(heed.save(place.path .. "/2_Dense/model.safetensors", tensors))
      end)
    end
    local weight = {["linear.weight"] = heed.ones(3, 32)}
    for _, sizes in ipairs{{-1, 3}, {32, -1}, {32, 1 << 40}, {math.maxinteger, 3}} do
      assert.matches("2_Dense: linear.weight of shape (" .. sizes[2] .. ", " .. sizes[1]
                     .. ") expected, as out_features and in_features say, got (3, 32)",
                     sized(sizes[1], sizes[2], weight), 1, true)
    end
    assert.matches("2_Dense: no tensor linear.weight", sized(32, 3, {x = heed.ones(1)}))
    local own = {"Dense", "2_Dense", {in_features = 32, out_features = 3}}
    assert.matches("2_Dense/model.safetensors: checksum differs", why({pooled{}, own},
                                                                      function(place)
      local file = place.path .. "/2_Dense/model.safetensors"
      assert(heed.save(file, weight))
      directories.write(file, directories.read(file):sub(1, -2) .. "x")
    end))
  end)

  it("with prompts that are none", function()
    local function prompts(c)
      return why({pooled{}}, function(place)
        write(place, "config_sentence_transformers.json", c)
      end)
    end
    assert.matches('prompts: a string expected as "a"', prompts{prompts = {a = 1}})
    assert.matches("prompts: an object expected", prompts{prompts = json.array{"a", "b"}})
    assert.matches('one of the prompts expected, got "b"',
                   prompts{prompts = {a = "x"}, default_prompt_name = "b"})
    for _, odd in ipairs{"hamming", 3} do
      assert.matches("similarity_fn_name: cosine, dot, euclidean or manhattan expected, got \""
                     .. odd .. '"', prompts{similarity_fn_name = odd})
    end
  end)
end)


describe("vectors", function()
  it("are alike as the directory says", function()
    for _, word in ipairs{"cosine", "dot", "euclidean", "manhattan"} do
      local place <close> = directory{pooled{}}
      write(place, "config_sentence_transformers.json", {similarity_fn_name = word})
      local x = heed.arange(6):to("float32"):view(2, 3)
      assert.same(heed.search.similarity(x, x, {similarity = word}):totable(),
                  load(place):similarity(x, x):totable())
    end
  end)
end)


describe("a text for a table of vectors", function()
  it("is cut at as many characters as usual tokens have, and loses unknown ones then", function()
    local m = assert(heed.models.load "spec/golden/models/st/model2vec")
    local tok, lengths = m.tokenizer, {}
    for id = 1, #tok do lengths[id] = utf8.len(tok:token(id)) end
    table.sort(lengths)
    local usual, a = lengths[#lengths // 2], tok:id "a"
    assert.equal(3, usual)
    for _, unknown in ipairs{"☃", "\xed\xa0\x80"} do        -- half of a pair of UTF-16, too
      for most = 2, 6 do
        local function ids(n) return m:ids(unknown:rep(n) .. " a a a a", {max = most}) end
        assert.same({a}, ids(most * usual - 2))
        assert.same({}, ids(most * usual - 1))             -- the blank is the last character
        assert.same({}, ids(most * usual))
        assert.same({}, ids(most * usual + 1))
      end
    end
  end)

  it("is cut so by the only token, too, and by none", function()
    local m = assert(heed.models.load "spec/golden/models/st/model2vec")
    m.tokenizer = assert(tokenizer_of(json.encode{
      version = "1.0", added_tokens = json.array{},
      model = {type = "WordLevel", vocab = {ab = 0}, unk_token = "?"},
    }))
    assert.same({1}, m:ids("ab", {max = 1}))
    m = assert(heed.models.load "spec/golden/models/st/model2vec")
    m.tokenizer = assert(tokenizer_of(json.encode{
      version = "1.0", added_tokens = json.array{},
      model = {type = "BPE", vocab = {}, merges = json.array{}},
    }))
    assert.same({}, m:ids("ab", {max = 1}))
  end)
end)
