-- heed.models.save: all tiny models back into directories, which load again bit for bit and have
-- the tensors of those that they came from; what is refused.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"

local HERE <const> = directories.HERE
local free, read, write = directories.free, directories.read, directories.write

local NAMES <const> = {
  "albert", "bart", "bert_reranker", "clip", "distilbert", "electra", "gemma2",
  "gemma3_bidirectional", "gpt2", "gpt_neox", "granite", "mistral", "modernbert_classifier",
  "mpnet", "nomic_bert", "olmo2", "phi", "phi3_partial", "qwen2", "qwen3", "roberta", "siglip",
  "smollm3", "t5", "vit", "st/bert_concat", "st/cross_encoder", "st/cross_encoder_3",
  "st/model2vec", "st/model2vec_float16", "st/static_embedding",
}


-- Fields of models that may be true.
local MARKS <const> = {is_sequence = true, leaves_unknown = true, writes = true}


local function same_tensors(a, b, what)
  for name, t in pairs(a) do
    assert.is_truthy(b[name], what .. ": " .. name)
    assert.equal(t.dtype, b[name].dtype)
    assert.equal(tostring(t.shape), tostring(b[name].shape), name)
    assert.is_true(t:equal(b[name]), what .. ": " .. name)
  end
  for name in pairs(b) do assert.is_truthy(a[name], what .. ": " .. name) end
end


describe("models.save", function()
  for _, name in ipairs(NAMES) do
    it("writes what was read: " .. name, function()
      local place <close> = free()
      local m = assert(heed.models.load(HERE .. name))
      assert.is_true(heed.models.save(place.path, m))
      local again = assert(heed.models.load(place.path))
      same_tensors(m:state(), again:state(), "state")
      for field, value in next, m do
        assert.is_true(value ~= true or MARKS[field], field)       -- parts that it lacks are false
      end
      local file = "/model.safetensors"
      local tensors, metadata = heed.load(place.path .. file)
      same_tensors(assert(heed.load(HERE .. name .. file)), tensors, "file")
      assert.equal("pt", metadata.format)
      for _, other in ipairs{"config.json", "tokenizer.json", "modules.json",
                             "1_Pooling/config.json"} do
        local f = io.open(HERE .. name .. "/" .. other)
        if f then
          f:close()
          assert.equal(read(HERE .. name .. "/" .. other), read(place.path .. "/" .. other), other)
        end
      end
      if m.sentences then assert.is_true(m:embed("a text"):equal(again:embed "a text")) end
    end)
  end

  it("writes whole numbers of 8 bits as floats, which they are here", function()
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "st/model2vec_int8"))
    assert(heed.models.save(place.path, m))
    local texts = {"a text", "", "another one of words"}
    local again = assert(heed.models.load(place.path))
    assert.is_true(m:embed(texts):equal(again:embed(texts)))
    local tensors = heed.load(HERE .. "st/model2vec_int8/model.safetensors")
    local own = heed.load(place.path .. "/model.safetensors")
    assert.is_true(tensors.mapping:equal(own.mapping) and tensors.weights:equal(own.weights))
    assert.equal("float32", own.embeddings.dtype)
  end)

  it("writes folders of modules, with weights as they are now", function()
    local from <close> = directories.make "electra"
    local list = {}
    for i, row in ipairs{{"Transformer", ""}, {"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}} do
      list[i] = {idx = i, name = "x", path = row[2], type = "x." .. row[1]}
      if i > 1 then assert(os.execute(("mkdir %s/%s"):format(from.path, row[2]))) end
    end
    write(from.path .. "/modules.json", json.encode(json.array(list)))
    write(from.path .. "/1_Pooling/config.json", "{}")
    write(from.path .. "/2_Dense/config.json", '{"in_features": 32, "out_features": 5}')
    assert(heed.save(from.path .. "/2_Dense/model.safetensors",
                     {["linear.weight"] = heed.randn(5, 32), ["linear.bias"] = heed.randn(5)}))
    local m = assert(heed.models.load(from.path))
    heed.no_grad(function()
      for _, p in ipairs(m:parameters()) do p:mul_(0.5) end
    end)
    local place <close> = free()
    assert(heed.models.save(place.path, m))
    local again = assert(heed.models.load(place.path))
    same_tensors(m:state(), again:state(), "state")
    local rows = {{1, 5, 6}, {2, 3}}
    assert.is_true(m:embed(rows):equal(again:embed(rows)))
    local all = nn.lora(again, {rank = 2, targets = {"linear"}})
    assert.matches("the adapter at 'sentences.dense.1.linear' is not merged",
                   message(heed.models.save, place.path, again))
    heed.no_grad(function()
      for _, p in ipairs(all:parameters()) do p:uniform_(-1, 1) end
    end)
    all:merge()
    assert(heed.models.save(place.path, again))
    local third = assert(heed.models.load(place.path))
    assert.is_true(third:embed(rows):equal(again:embed(rows)))
    assert.is_false(third:embed(rows):equal(m:embed(rows)))
  end)

  it("says another type and configuration where the model has them", function()
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "st/cross_encoder_3", {dtype = "bfloat16"}))
    m.config.id2label["1"] = "good"
    assert(heed.models.save(place.path, m))
    local c = json.decode(read(place.path .. "/config.json"))
    assert.equal("good", c.id2label["1"])
    local again = assert(heed.models.load(place.path))
    assert.equal("bfloat16", again:parameters()[1].dtype)
    assert.equal("good", again.classes.names[2])
    local half <close> = free()
    assert(heed.models.save(half.path, m:to("float16")))
    assert.equal("float16", json.decode(read(half.path .. "/config.json")).dtype)
  end)

  it("writes over its own files, and over others only where it is told to", function()
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "qwen2"))
    assert(heed.models.save(place.path, m))
    assert(heed.models.save(place.path, heed.no_grad(function()
      m.words.weight:mul_(2)
      return m
    end)))
    assert.is_true(m.words.weight:equal(heed.models.load(place.path).words.weight))
    local foreign <close> = directories.make "qwen3"
    local before = read(foreign.path .. "/config.json")
    local done, why = heed.models.save(foreign.path, m)
    assert.is_nil(done)
    assert.matches("^models.save: .*/config.json is there, and models.save has not written it; "
                   .. "option replace = true", why)
    assert.equal(before, read(foreign.path .. "/config.json"))
    assert(heed.models.save(foreign.path, m, {replace = true}))
    assert.is_true(m.words.weight:equal(heed.models.load(foreign.path).words.weight))
  end)

  it("may write where the model came from, mapped or not", function()
    for _, mapped in ipairs{true, false} do
      local place <close> = directories.make "electra"
      local m = assert(heed.models.load(place.path, {mapped = mapped}))
      heed.no_grad(function() m.words.weight:mul_(3) end)
      assert.matches("model.safetensors is there", select(2, heed.models.save(place.path, m)))
      assert(heed.models.save(place.path, m, {replace = true}))
      same_tensors(m:state(), assert(heed.models.load(place.path)):state(), "state")
    end
  end)

  it("writes the configuration that the model was read with, whatever its file says now", function()
    local from <close> = directories.make "gpt2"
    local file = from.path .. "/config.json"
    local before, m = read(file), assert(heed.models.load(from.path))
    write(file, read(HERE .. "mistral/config.json"))
    local place <close> = free()
    assert(heed.models.save(place.path, m))
    assert.equal(before, read(place.path .. "/config.json"))
    assert(os.remove(file))
    assert(heed.models.save(place.path, m))
    assert.equal(before, read(place.path .. "/config.json"))
    assert(heed.models.load(place.path))
  end)

  it("refuses what it cannot write", function()
    local m = assert(heed.models.load(HERE .. "qwen2"))
    local f = heed.models.save
    assert.matches("models.save: a model that models.load gave expected, got Linear",
                   message(f, "/tmp/x", nn.Linear(2, 2)))
    assert.matches("a model that models.load gave expected, got nil", message(f, "/tmp/x"))
    assert.matches("a path expected, got the string ''", message(f, "", m))
    assert.matches("unknown option 'overwrite'", message(f, "/tmp/x", m, {overwrite = true}))
    assert.matches("models.save: .*/no/such/place: cannot make this folder",
                   select(2, f("/no/such/place", m)))
    local file = os.tmpname()
    assert.matches("cannot make this folder: Not a directory", select(2, f(file, m)))
    os.remove(file)
    m.tokenizer = {}
    assert.matches("another tokenizer than its directory", message(f, "/tmp/x", m))
    m = assert(heed.models.load(HERE .. "qwen2"))
    m.extra = nn.Linear(2, 2, {bias = false})
    assert.matches("models.save: no name for 'extra.weight'", message(f, "/tmp/x", m))
    local place <close> = free()
    m = assert(heed.models.load(HERE .. "qwen2"))
    nn.lora(m, {rank = 2})
    assert.matches("the adapter at '.*' is not merged", message(f, place.path, m))
  end)

  it("refuses a model whose files went meanwhile", function()
    local from <close> = directories.make("st/model2vec_int8", {
      ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
      ["tokenizer.json"] = "tokenizer.json",
    })
    local m, place <close> = assert(heed.models.load(from.path)), free()
    assert(os.remove(from.path .. "/tokenizer.json"))
    assert.matches("tokenizer.json.*; models.save copies it",
                   select(2, heed.models.save(place.path, m)))
  end)

  it("copies all files of a tokenizer in a module's folder", function()
    local from <close> = directories.make("st/static_embedding", {
      ["config_sentence_transformers.json"] = "config_sentence_transformers.json",
    })
    local golden, folder = HERE .. "st/static_embedding/", from.path .. "/0_StaticEmbedding"
    assert(os.execute("mkdir " .. folder))
    for _, name in ipairs{"model.safetensors", "tokenizer.json"} do
      write(folder .. "/" .. name, read(golden .. name))
    end
    write(folder .. "/special_tokens_map.json", "{}")
    local list = json.decode(read(golden .. "modules.json"))
    list[1].path = "0_StaticEmbedding"
    write(from.path .. "/modules.json", json.encode(list))
    local place <close> = free()
    assert(heed.models.save(place.path, assert(heed.models.load(from.path))))
    assert.equal("{}", read(place.path .. "/0_StaticEmbedding/special_tokens_map.json"))
    assert(heed.models.load(place.path))
  end)

  it("writes the values of blocks, also of those that lie otherwise in files", function()
    for _, name in ipairs{"phi3_partial", "gpt2", "gpt_neox", "nomic_bert", "siglip", "qwen2"} do
      local place <close> = free()
      local m = assert(heed.models.load(HERE .. name, {quantize = "q8_0"}))
      assert.is_true(heed.models.save(place.path, m, {dtype = "float32"}))
      local again, n = assert(heed.models.load(place.path)):state(), 0
      for path, t in pairs(m:state()) do
        if t.dtype == "q8_0" then n = n + 1 end
        assert.is_true(t:to("float32"):equal(again[path]), path)
      end
      assert.is_true(n > 0, name)
    end
    local all = assert(heed.models.load(HERE .. "phi3_partial", {quantize = "q8_0"})):published()
    assert.equal("float32", all["model.layers.0.self_attn.qkv_proj.weight"].dtype)
    assert.equal("q8_0", all["model.layers.0.self_attn.o_proj.weight"].dtype)
  end)

  it("says another type in sections of the configuration, too", function()
    local from <close> = directories.make("clip", nil, function(c)
      c.text_config.dtype, c.vision_config.torch_dtype = "float32", "float32"
    end)
    local place <close> = free()
    local m = assert(heed.models.load(from.path))
    assert(heed.models.save(place.path, m, {dtype = "bfloat16"}))
    local c = json.decode(read(place.path .. "/config.json"))
    assert.same({"bfloat16", "bfloat16", "bfloat16"},
                {c.dtype, c.text_config.dtype, c.vision_config.torch_dtype})
    assert.is_nil(c.text_config.torch_dtype)
    assert(heed.models.load(place.path))
    for _, case in ipairs{{"bfloat16", nil, nil, "float16"}, {nil, "bfloat16", "float16", nil},
                          {"bfloat16", "bfloat16", "float16", "float16"},
                          {nil, nil, nil, "float16"}} do
      local old <close> = directories.make("siglip", nil, function(own)
        own.torch_dtype, own.dtype = case[2], case[1]
        own.task_specific_params = {dtype = "other"}
      end)
      local half <close> = free()
      assert(heed.models.save(half.path, assert(heed.models.load(old.path)), {dtype = "float16"}))
      c = json.decode(read(half.path .. "/config.json"))
      assert.same({torch = case[3], own = case[4]}, {torch = c.torch_dtype, own = c.dtype})
      assert.same({}, {c.text_config.dtype, c.text_config.torch_dtype})
      assert.equal("other", c.task_specific_params.dtype)
    end
  end)

  it("refuses parameters of other sizes than the configuration says", function()
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "gpt2"))
    local V, D = m.words.weight:size(1), m.words.weight:size(2)
    m.words.weight = nn.Parameter(heed.cat{m.words.weight:detach(), heed.zeros(1, D)})
    assert.matches("head.weight and words.weight are two tensors, and one in a model of",
                   select(2, heed.models.save(place.path, m)))
    m.head.weight = m.words.weight
    local done, why = heed.models.save(place.path, m)
    assert.is_nil(done)
    assert.matches(("head.weight has shape %%(%d, %d%%), and %%(%d, %d%%) in a model of ")
                   :format(V + 1, D, V, D), why)
    m.config.vocab_size = V + 1
    assert(heed.models.save(place.path, m))
    assert.equal(V + 1, assert(heed.models.load(place.path)).words.weight:size(1))
  end)

  it("says whether the head is tied to the embedding, as it is in the model", function()
    local ids = heed.tensor({{3, 4, 5}}, {dtype = "int64"})
    local function saved(m, path)
      assert(heed.models.save(path, m))
      local again = assert(heed.models.load(path))
      local rows = m.is_sequence and {ids, ids} or {ids}
      assert.is_true(m(table.unpack(rows)):equal(again(table.unpack(rows))))
      return again
    end
    for _, name in ipairs{"gemma2", "gpt2", "bart", "t5"} do
      local m = assert(heed.models.load(HERE .. name))
      assert.is_true(rawequal(m.head.weight, m.words.weight), name)
      m.head.weight = nn.Parameter(m.words.weight:detach() * 2)
      local place <close> = free()
      local other <close> = free()
      local again = saved(m, place.path)
      assert.is_false(again.config.tie_word_embeddings)
      again.head.weight = again.words.weight
      local third = saved(again, other.path)
      assert.is_true(third.config.tie_word_embeddings, name)
      assert.is_true(rawequal(third.head.weight, third.words.weight))
    end
    local m = assert(heed.models.load(HERE .. "gemma2"))
    local all = nn.lora(m, {rank = 2, targets = {"head"}})
    heed.no_grad(function()
      for _, p in ipairs(all:parameters()) do p:uniform_(-1, 1) end
    end)
    all:merge()
    local place <close> = free()
    local again = saved(m, place.path)
    assert.is_false(again.head.weight:equal(again.words.weight))
  end)

  it("refuses a model that the configuration does not give", function()
    local cases = {
      {"roberta", "head.out.weight and words.weight are two tensors, and one", function(m)
        m.head.out.weight = nn.Parameter(m.words.weight:detach():clone())
      end},
      {"mistral", "body.layers.2 is nil, and DecoderLayer", function(m)
        m.body.layers[2] = nil
      end},
      {"mistral", "body.layers.1.attend.query.bias is a tensor of shape %(%d+%), and false",
       function(m)
        local q = m.body.layers[1].attend.query
        q.bias = nn.Parameter(heed.zeros(q.weight:size(1)))
      end},
      {"mistral", "body.layers.1.mlp.activation is a function other than", function(m)
        m.body.layers[1].mlp.activation = heed.relu
      end},
    }
    for _, case in ipairs(cases) do
      local place <close> = free()
      local m = assert(heed.models.load(HERE .. case[1]))
      case[3](m)
      local done, why = heed.models.save(place.path, m)
      assert.is_nil(done)
      assert.matches("models.save: config.json cannot say all of this model: " .. case[2]
                     .. " in a model of model.config", why)
      assert.is_nil(io.open(place.path))
    end
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "mistral"))
    m.config.num_attention_heads = 5
    assert.matches("models.save: config.json: nn.MultiHeadAttention: heads as a multiple of ",
                   select(2, heed.models.save(place.path, m)))
    m.config.num_attention_heads = 4
    m.body.layers[1].dropout.p, m.body.layers[2].attend.dropout = 0.1, 0.1
    assert.is_true(heed.models.save(place.path, m))          -- which are for training alone
  end)

  it("writes over no file of another program, whichever it is", function()
    local m = assert(heed.models.load(HERE .. "qwen2"))
    for _, name in ipairs{"model.safetensors", "model.safetensors.index.json", "config.json"} do
      local place <close> = free()
      assert(os.execute(("mkdir %s %s/%s"):format(place.path, place.path, name)))
      local done, why = heed.models.save(place.path, m)
      assert.is_nil(done)
      assert.matches("/" .. name .. " is there, and models.save has not written it", why)
    end
    local place <close> = free()
    assert(heed.models.save(place.path, m))
    assert(heed.save(place.path .. "/model.safetensors", m:state()))
    assert.matches("model.safetensors is there", select(2, heed.models.save(place.path, m)))
  end)

  it("leaves no files of another model in force", function()
    local place <close> = free()
    local m = assert(heed.models.load(HERE .. "st/bert_concat"))
    assert(heed.models.save(place.path, m))
    local before = read(place.path .. "/config.json")
    local other = assert(heed.models.load(HERE .. "qwen2"))
    for _, replace in ipairs{false, true} do
      local done, why = heed.models.save(place.path, other, {replace = replace})
      assert.is_nil(done)
      assert.matches("^models.save: .*/[%w_]+.json is there, which this model lacks and would be "
                     .. "read with; remove it first", why)
      assert.equal(before, read(place.path .. "/config.json"))
    end
    assert(heed.models.save(place.path, m))
    local licensed <close> = free()
    assert(os.execute("mkdir -p " .. licensed.path))
    write(licensed.path .. "/LICENSE", "MIT")
    assert(heed.models.save(licensed.path, other))
    assert.equal("MIT", read(licensed.path .. "/LICENSE"))
    for _, name in ipairs{"modules.json", "1_Pooling/tokenizer.json"} do
      local own <close> = free()
      assert(os.execute(("mkdir -p %s/1_Pooling"):format(own.path)))
      write(own.path .. "/" .. name, "{}")
      local saved = name == "modules.json" and other or m
      local done, why = heed.models.save(own.path, saved)
      assert.is_nil(done)
      assert.matches(name .. " is there, which this model lacks", why)
    end
  end)

  it("leaves no index of shards beside one file of weights", function()
    local place <close> = directories.make "qwen2"
    local index = place.path .. "/model.safetensors.index.json"
    assert(os.rename(place.path .. "/model.safetensors", place.path .. "/a.safetensors"))
    local map = {}
    for name in pairs(heed.load(place.path .. "/a.safetensors")) do map[name] = "a.safetensors" end
    write(index, json.encode{weight_map = map})
    local m = assert(heed.models.load(place.path))
    assert.matches("index.json is there", select(2, heed.models.save(place.path, m)))
    assert(heed.models.save(place.path, m, {replace = true}))
    local now, names = json.decode(read(index)), {}
    for name in pairs(heed.load(place.path .. "/model.safetensors")) do
      names[name] = "model.safetensors"
    end
    assert.same(names, now.weight_map)
    local bytes = 0
    for _, t in pairs(heed.load(place.path .. "/model.safetensors")) do
      bytes = bytes + #t:data()
    end
    assert.equal(bytes, now.metadata.total_size)
    assert(heed.models.save(place.path, m))
  end)
end)
