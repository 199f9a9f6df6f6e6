-- Vectors of texts as sentence-transformers and Model2Vec compute them of whole directories,
-- through the tokenizer (spec/golden/models/st); what a table of vectors refuses.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"

local ST <const> = directories.HERE .. "st/"
local TOLERANCE <const>, FLOOR <const> = 2e-5, 1e-5


local function load(name) return assert(heed.models.load(ST .. name)) end

-- What the libraries computed: their texts, and tensors.
local function expectation(name)
  local c = assert(json.decode(directories.read(ST .. name .. "/expect.json")))
  local texts = {}
  for i, row in ipairs(c.texts) do texts[i] = row[1] end
  return texts, assert(heed.load(ST .. name .. "/expect.safetensors"))
end


local function close(got, wanted, what)
  assert.equal(tostring(wanted.shape), tostring(got.shape))
  assert.equal("float32", got.dtype)
  local far = ((got - wanted):abs() - wanted:abs() * TOLERANCE):max():item() / FLOOR
  assert.is_true(far < 1, ("%s: %.3g tolerances apart"):format(what or "vectors", far))
end


describe("a directory of vectors", function()
  it("gives those of sentence-transformers, with prompts that do not count", function()
    local texts, e = expectation "bert_concat"
    local m = load "bert_concat"
    close(m:embed(texts, {prompt = false}), e.vectors)
    for _, name in ipairs{"query", "passage"} do
      close(m:embed(texts, {prompt = name}), e["vectors." .. name], name)
    end
    close(m:embed(texts), e["vectors.passage"], "by default")
    local vectors = m:embed(texts, {prompt = false})
    close(m:similarity(vectors, vectors) / 32, e.similarity / 32, "similarity")
  end)

  it("may be a table of them alone", function()
    local texts, e = expectation "static_embedding"
    local m = load "static_embedding"
    close(m:embed(texts), e.vectors)
    close(m:embed(texts, {prompt = "query"}), e["vectors.query"], "query")
    assert.equal(0, m:embed(""):abs():max():item())
    close(m:similarity(m:embed(texts), m:embed(texts)), e.similarity, "similarity")
    assert.equal("StaticEmbedding", m:describe())
  end)

  for _, name in ipairs{"model2vec", "model2vec_int8", "model2vec_float16"} do
    it("may be a table of Model2Vec: " .. name, function()
      local texts, e = expectation(name)
      local m = load(name)
      close(m:embed(texts), e.vectors_exact)
      for i, text in ipairs(texts) do close(m:embed(text), e.vectors_exact[i], "alone " .. i) end
      for _, size in ipairs{1, 3} do close(m:embed(texts, {batch = size}), e.vectors_exact) end
    end)
  end

  it("of Model2Vec is read without modules.json, too, and is a module", function()
    local files = {["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
                   ["tokenizer.json"] = "tokenizer.json"}
    local place <close> = directories.make("st/model2vec_int8", files)
    local texts, e = expectation "model2vec_int8"
    local m = assert(heed.models.load(place.path))
    close(m:embed(texts), e.vectors_exact)
    local function typed(kind)
      local other <close> = directories.make("st/model2vec_int8", files, function(c)
        c.model_type, c.tokenizer_name = kind, kind == "bert" and c.tokenizer_name or nil
      end)
      return heed.models.load(other.path)
    end
    assert.equal("model2vec", assert(typed "model2vec"):describe())
    assert.matches('config.json: "hidden_size" expected', select(2, typed "bert"))
    assert.matches('config.json: "model_type" expected', select(2, typed(nil)))
    close(m:clone():embed(texts), e.vectors_exact, "clone")
    assert.equal("(1, 2, 20)", tostring(m(heed.tensor{{5, 6}}).shape))
    m.words.weight:requires_grad_(true)
    m:means(heed.tensor{{5, 6}}, heed.tensor{2}):sum():backward()
    assert.is_true(m.words.weight.grad:abs():sum():item() > 0)
    close(assert(heed.models.load(place.path, {dtype = "float32", mapped = true})):embed(texts),
          e.vectors_exact, "mapped")
  end)

  it("takes special tokens that a text spells as tokens, unless asked not to", function()
    local m = load "bert_concat"
    local asked = m:embed("a [SEP] b", {prompt = false})
    close(asked, m:embed({m.tokenizer:encode("a [SEP] b", {parse = true})}, {prompt = false})[1])
    local text = m:embed("a [SEP] b", {prompt = false, parse = false})
    assert.is_true((asked - text):abs():max():item() > 1e-3)
  end)

  it("cuts texts where it is asked to", function()
    local m = load "bert_concat"
    local long, short = m:embed("a b c d e f", {prompt = false, max = 4}), m:embed("a b", {prompt =
                                                                                          false})
    close(long, short)
    local words = ("a "):rep(600)
    for _, case in ipairs{{nil, 512}, {json.null, 600}, {(1 << 31) - 1, 600}, {3, 3}} do
      local place <close> = directories.make("st/model2vec", {
        ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
        ["tokenizer.json"] = "tokenizer.json",
      }, function(c) c.max_length = case[1] end)
      assert.equal(case[2], #assert(heed.models.load(place.path)):ids(words))
    end
    assert.matches("at least 1 expected as option max, got 0",
                   message(m.embed, m, "a", {max = 0}))
  end)
end)


describe("a table of vectors is refused", function()
  local FILES <const> = {["config.json"] = "config.json", ["model.safetensors"] =
                         "model.safetensors", ["tokenizer.json"] = "tokenizer.json",
                         ["modules.json"] = "modules.json"}

  local function why(f, change)
    local place <close> = directories.make("st/model2vec_int8", FILES, change)
    if f then
      local path = place.path .. "/model.safetensors"
      local tensors = assert(heed.load(path))
      f(tensors)
      assert(heed.save(path, tensors))
    end
    local m, text = heed.models.load(place.path)
    assert.is_nil(m)
    return text
  end

  it("where its tensors do not fit", function()
    assert.matches("the tensor embedding.weight, or embeddings is missing",
                   why(function(t) t.embeddings, t.weights, t.mapping = nil, nil, nil end))
    assert.matches('the tensor "embeddings" has shape %(80%), and %(tokens, features%) is expected',
                   why(function(t) t.embeddings = heed.ones(80) end))
    assert.matches('the tensor "weights" has shape %(3%), and %(550%) is expected',
                   why(function(t) t.weights = heed.ones(3) end))
    assert.matches('"mapping" is to hold rows from 0 to 79',
                   why(function(t) t.mapping[3] = 80 end))
    assert.matches('"mapping" is to hold rows from 0 to 79',
                   why(function(t) t.mapping[3] = -1 end))
    assert.matches('"mapping" is to hold rows from 0 to 79',
                   why(function(t) t.mapping = t.mapping:to("float32") end))
    assert.matches('"mapping" is to hold rows from 0 to 79', why(function(t)
      t.mapping, t.weights = heed.zeros(0, {dtype = "int64"}), heed.zeros(0)
    end))
    assert.matches('the tensor "more" has no place', why(function(t) t.more = heed.ones(1) end))
  end)

  it("where its configuration says what is not known", function()
    local function with(name, value) return why(nil, function(c) c[name] = value end) end
    assert.matches('the key "experts" is not known in tables of Model2Vec', with("experts", 3))
    assert.matches("true or false expected as normalize, got the string 'yes'",
                   with("normalize", "yes"))
    for _, n in ipairs{-1, 0, 1 << 31} do
      assert.matches("a length expected as max_length, got " .. n, with("max_length", n), 1, true)
    end
    assert.matches("a length expected as max_length, got the string 'x'", with("max_length", "x"))
  end)

  it("where it is called as others are", function()
    local m = load "model2vec_int8"
    assert.matches("no options expected, got a table", message(m, heed.tensor{{1}}, {lengths = 1}))
    for _, name in ipairs{"forward", "hidden"} do
      assert.matches("models.StaticModel: at most 2 arguments expected, got 5 as argument 3",
                     message(m[name], m, heed.tensor{{1}}, nil, 5), 1, true)
    end
    assert.matches("option prompt, got the string 'passage'", message(m.embed, m, "a",
                   {prompt = "passage"}))
  end)
end)


describe("model:ids and model:published", function()
  it("give ids with the tokens around texts, and of which text each is", function()
    local m = load "bert_concat"
    local ids, types = m:ids("a [SEP] b", {pair = "c"})
    assert.same(m.tokenizer:encode("a [SEP] b", {pair = "c", parse = true}):totable(), ids)
    assert.same({1, 1, 1, 1, 1, 2, 2}, types)
    assert.is_true(#m:ids("[SEP]", {parse = false}) > #m:ids "[SEP]")
    assert.equal(3, #m:ids("a b c", {max = 3}))
    assert.equal(m.limit, #m:ids(("a "):rep(m.limit)))
  end)

  it("refuse what they do not take", function()
    for _, name in ipairs{"bert_concat", "model2vec"} do
      local m = load(name)
      assert.matches("ids: .*got 3", message(m.ids, m, "a", 3))
      assert.matches("sped", message(m.ids, m, "a", {sped = 1}))
      assert.matches("no argument expected, got 5", message(m.published, m, 5))
      m.origin = false
      assert.matches("published: a model that models.load gave expected", message(m.published, m))
    end
    local m = load "model2vec"
    assert.matches("ids: option pair: a table of vectors takes one text",
                   message(m.ids, m, "a", {pair = "b"}))
  end)
end)
