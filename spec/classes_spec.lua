-- model:score and model:classify: what sentence-transformers' CrossEncoder and transformers'
-- pipelines compute (spec/golden/models/st), and refusals.

local close = require "spec.support.close"
local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"

local ST <const> = directories.HERE .. "st/"
local FILES <const> = {["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
                       ["tokenizer.json"] = "tokenizer.json",
                       ["tokenizer_config.json"] = "tokenizer_config.json"}

-- Pairs by their query, with places among all; and tensors.
local function expectation(name)
  local c = assert(json.decode(directories.read(ST .. name .. "/expect.json")))
  local groups, by = {}, {}
  for i, pair in ipairs(c.pairs) do
    local g = by[pair[1]] or {query = pair[1], texts = {}, places = {}}
    if not by[pair[1]] then groups[#groups + 1] = g end
    by[pair[1]] = g
    g.texts[#g.texts + 1], g.places[#g.places + 1] = pair[2], i
  end
  return groups, assert(heed.load(ST .. name .. "/expect.safetensors"))
end


local function near(got, wanted, what)
  assert.is_true(close(got, wanted, 2e-5, 1e-5),
                 ("%s: %.8g expected, got %.8g"):format(what, wanted, got))
end


-- The scores of all pairs beside some.
local function check_scores(m, groups, wanted, given)
  assert.is_true(#groups > 2)
  for _, g in ipairs(groups) do
    local scores = m:score(g.query, g.texts, given)
    assert.equal("float32", scores.dtype)
    assert.is_false(scores.requires_grad)
    for k, s in ipairs(scores:totable()) do near(s, wanted[g.places[k]], g.query .. k) end
  end
end


local function changed(name, change, files)
  return directories.make("st/" .. name, files or FILES, change)
end


describe("model:score", function()
  it("gives the scores of sentence-transformers, in order, alone as in a batch", function()
    local groups, e = expectation "cross_encoder"
    local m = assert(heed.models.load(ST .. "cross_encoder"))
    check_scores(m, groups, e.scores)
    for _, size in ipairs{1, 3} do check_scores(m, groups, e.scores, {batch = size}) end
    local calls = 0
    local handle = m.body:register_forward_hook(function() calls = calls + 1 end)
    for n, wanted in pairs{[32] = 1, [33] = 2} do
      local texts = {}
      for i = 1, n do texts[i] = "a" end
      calls = 0
      m:score("b", texts)
      assert.equal(wanted, calls)
    end
    handle:remove()
    for _, g in ipairs(groups) do
      for k, text in ipairs(g.texts) do
        near(m:score(g.query, text), e.scores[g.places[k]], "alone")
      end
    end
  end)

  it("is the logit where the directory says so, under either key", function()
    local groups, e = expectation "cross_encoder"
    local IDENTITY <const> = "torch.nn.modules.linear.Identity"
    for _, change in ipairs{
      function(c) c.sbert_ce_default_activation_function = IDENTITY end,
      function(c) c.sentence_transformers = {activation_fn = IDENTITY, version = "4.0.1"} end,
    } do
      local place <close> = changed("cross_encoder", change)
      check_scores(assert(heed.models.load(place.path)), groups, e.logits:reshape(-1))
    end
    local place <close> = changed("cross_encoder", function(c)
      c.sentence_transformers = {activation_fn = "torch.nn.Mish"}
    end)
    assert.matches('config.json: the activation "torch.nn.Mish" is not known',
                   select(2, heed.models.load(place.path)))
  end)

  it("gives types of pairs where the directory's tokenizer does", function()
    local groups, e = expectation "cross_encoder"
    local g = groups[1]
    local function far(c)
      local place <close> = changed "cross_encoder"
      if c then directories.write(place.path .. "/tokenizer_config.json", json.encode(c))
      else assert(os.remove(place.path .. "/tokenizer_config.json")) end
      local m = assert(heed.models.load(place.path))
      local scores, most = m:score(g.query, g.texts, {max = 36}):totable(), 0
      for k, s in ipairs(scores) do
        local wanted = e.scores[g.places[k]]
        most = math.max(most, s - wanted, wanted - s)
      end
      return most
    end
    assert.is_true(far() < 1e-5)
    assert.is_true(far{tokenizer_class = "BertTokenizer"} < 1e-5)
    assert.is_true(far{tokenizer_class = "PreTrainedTokenizerFast"} > 1e-4)
    assert.is_true(far{tokenizer_class = "TokenizersBackend"} > 1e-4)
    local inputs = json.array{"input_ids", "token_type_ids"}
    assert.is_true(far{tokenizer_class = "TokenizersBackend", model_input_names = inputs} < 1e-5)
    inputs = json.array{"input_ids"}
    assert.is_true(far{tokenizer_class = "BertTokenizer", model_input_names = inputs} > 1e-4)
  end)

  it("gives no types to a model that has one alone", function()
    local place <close> = changed("cross_encoder", function(c) c.type_vocab_size = 1 end)
    local file = place.path .. "/model.safetensors"
    local tensors = assert(heed.load(file))
    for name, t in pairs(tensors) do
      if name:find "token_type" then tensors[name] = t:narrow(1, 1, 1):contiguous() end
    end
    assert(heed.save(file, tensors))
    directories.write(place.path .. "/tokenizer_config.json",
                      json.encode{tokenizer_class = "BertTokenizer"})
    local m = assert(heed.models.load(place.path))
    local ids = m.tokenizer:encode("a", {pair = "b"}):unsqueeze(1)
    near(m:score("a", "b"), heed.no_grad(m, ids):sigmoid():item(), "score")
  end)

  it("takes special tokens that a text spells as tokens, unless asked not to", function()
    local m = assert(heed.models.load(ST .. "cross_encoder"))
    local a, b = m:score("q", "x [SEP] y"), m:score("q", "x [SEP] y", {parse = false})
    assert.is_false(close(a, b, 0, 1e-6))
  end)

  it("refuses what it does not take", function()
    local m = assert(heed.models.load(ST .. "cross_encoder"))
    local function why(...) return message(m.score, m, ...) end
    assert.matches("score: a string expected as query, got nil", why())
    assert.matches("score: a text, or a list of texts expected, got nil", why "q")
    assert.matches("score: a text, or a list of texts expected, got an empty table", why("q", {}))
    assert.matches("score: a text expected at position 2, got 5", why("q", {"a", 5}))
    assert.matches("score: unknown option 'batchs'; did you mean 'batch'", why("q", "a", {batchs =
                   1}))
    assert.matches("unknown option 'pair'; write the query and the texts, which are the pairs",
                   why("q", "a", {pair = "b"}))
    assert.matches("unknown option 'x'; there are batch, max, parse$", why("q", "a", {x = 1}))
    assert.matches("at least 1 expected as option max, got 0", why("q", "a", {max = 0}))
    assert.matches("score: option max: 4 to 176 expected, got 1", why("q", "a", {max = 1}))
    assert.matches("at most 3 arguments", why("q", "a", {}, 3))
    local three = assert(heed.models.load(ST .. "cross_encoder_3"))
    assert.matches("a model with one label expected, got 3: LABEL_0, LABEL_1, LABEL_2; "
                   .. "model:classify", message(three.score, three, "q", "a"))
    local other = assert(heed.models.load(directories.HERE .. "electra"))
    assert.matches("score: a reranker expected", message(other.score, other, "q", "a"))
    assert.matches("classify: a model with classes expected",
                   message(other.classify, other, "q", "a"))
  end)
end)


describe("model:classify", function()
  it("gives names and probabilities of pairs", function()
    local groups, e = expectation "cross_encoder_3"
    local m = assert(heed.models.load(ST .. "cross_encoder_3"))
    for _, g in ipairs(groups) do
      local first = {}
      for k in ipairs(g.texts) do first[k] = g.query end
      for k, class in ipairs(m:classify(first, {pair = g.texts})) do
        local wanted, sum = e.logits[g.places[k]]:softmax(1):totable(), 0
        for i, p in ipairs(wanted) do
          near(class.probabilities["LABEL_" .. i - 1], p, "probability")
          sum = sum + class.probabilities["LABEL_" .. i - 1]
        end
        near(sum, 1, "sum")
        near(class.probability, math.max(table.unpack(wanted)), "best")
        assert.equal(class.probability, class.probabilities[class.label])
      end
      local one = m:classify(g.query, {pair = g.texts[1]})
      near(one.probability, m:classify(first, {pair = g.texts})[1].probability, "alone")
    end
  end)

  it("has the file's names, and classes each by itself where it says so", function()
    local place <close> = changed("cross_encoder_3", function(c)
      c.id2label = {["0"] = "good", ["1"] = "bad", ["2"] = "none"}
      c.problem_type = "multi_label_classification"
    end)
    local m = assert(heed.models.load(place.path))
    local class = m:classify "a text"
    local ids = m.tokenizer:encode "a text"
    local wanted = heed.no_grad(m, ids:unsqueeze(1))[1]:sigmoid():totable()
    for i, name in ipairs{"good", "bad", "none"} do
      near(class.probabilities[name], wanted[i], name)
    end
    local one = assert(heed.models.load(ST .. "cross_encoder"))
    near(one:classify("a", {pair = "b"}).probability, one:score("a", "b"), "one class")
    for dtype, other in pairs{float64 = "float64", bfloat16 = "float32"} do
      one = assert(heed.models.load(ST .. "cross_encoder", {dtype = dtype}))
      assert.equal(other, one:score("a", {"b"}).dtype)
    end
    local bare <close> = changed("cross_encoder_3", function(c)
      c.id2label, c.label2id, c.num_labels = nil, nil, 3
    end)
    local names = {}
    class = assert(heed.models.load(bare.path)):classify "a"
    for name in pairs(class.probabilities) do names[#names + 1] = name end
    table.sort(names)
    assert.same({"LABEL_0", "LABEL_1", "LABEL_2"}, names)
  end)

  it("names the first of classes that are as probable", function()
    local m = assert(heed.models.load(ST .. "cross_encoder_3"))
    heed.no_grad(function() m.head.out.weight:zero_() m.head.out.bias:zero_() end)
    assert.equal("LABEL_0", m:classify("a").label)
  end)

  it("gives the classes of tokens, with their bytes", function()
    local place <close> = changed("cross_encoder_3", function(c)
      c.architectures = json.array{"BertForTokenClassification"}
      c.id2label = {["0"] = "O", ["1"] = "B-PER", ["2"] = "I-PER"}
    end)
    local m = assert(heed.models.load(place.path))
    local text = "Zwölf cats"
    local ids, offsets = m.tokenizer:encode(text, {offsets = true})
    local wanted = heed.no_grad(m, ids:unsqueeze(1))[1]:softmax(-1)
    local list, names = m:classify{text, "x"}, {"O", "B-PER", "I-PER"}
    assert.equal(2, #list)
    assert.equal(#ids - 2, #list[1])             -- those around a text do not count
    for i, class in ipairs(list[1]) do
      local p, best = wanted[i + 1]:max(1)
      assert.equal(names[best:item()], class.label)
      near(class.probability, p:item(), "token")
      assert.same(offsets[i + 1]:totable(), {class.first, class.last})
    end
    assert.equal("Zwölf cats", text:sub(list[1][1].first, list[1][#list[1]].last))
    assert.same({}, m:classify "")
    assert.equal(1, #m:classify(text, {max = 3}))
    local special = m:classify "[SEP]"
    assert.same({1, 5}, {special[1].first, special[#special].last})
    assert.is_true(#m:classify("[SEP]", {parse = false}) > #special)
    assert.matches("option pair: this model gives classes of a text's tokens",
                   message(m.classify, m, "a", {pair = "b"}))
    assert.matches("score: a reranker expected", message(m.score, m, "q", "a"))
  end)

  it("refuses what it does not take", function()
    local m = assert(heed.models.load(ST .. "cross_encoder_3"))
    local function why(...) return message(m.classify, m, ...) end
    assert.matches("classify: option pair: 2 texts expected, got 1$",
                   why({"a", "b"}, {pair = "c"}))
    assert.matches("classify: option pair: 1 text expected, got 2$", why("a", {pair = {"b", "c"}}))
    assert.matches("option max: 4 to 176 expected, got 3", why("a", {pair = "b", max = 3}))
    assert.matches("classify: option pair: a text expected at position 1, got true",
                   why("a", {pair = {true}}))
    assert.matches("classify: a text, or a list of texts expected, got 3", why(3))
    local place <close> = changed("cross_encoder_3", function(c) c.problem_type = "regression" end)
    local other = assert(heed.models.load(place.path))
    assert.matches("gives numbers, not classes", message(other.classify, other, "a"))
    local content = assert(json.decode(directories.read(ST .. "cross_encoder_3/tokenizer.json")))
    content.post_processor = json.null
    directories.write(place.path .. "/tokenizer.json", json.encode(content))
    other = assert(heed.models.load(place.path))
    assert.matches("classify: a text with tokens expected at position 2",
                   message(other.classify, other, {"a", ""}))
    other = assert(heed.models.load(directories.HERE .. "modernbert_classifier"))
    other.tokenizer = m.tokenizer
    assert.matches("classify: option max: at least 3 expected, got 2$",      -- no row for each
                   message(other.classify, other, "a", {max = 2}))
  end)

  it("is refused with the directory where names of classes are none", function()
    local function why(labels)
      local place <close> = changed("cross_encoder_3", function(c) c.id2label = labels end)
      return select(2, heed.models.load(place.path))
    end
    assert.matches("names of classes by their numbers expected", why{["0"] = 1, ["1"] = "b",
                   ["2"] = "c"})
    assert.matches("names of classes by their numbers expected", why{x = "a", y = "b", z = "c"})
    assert.matches("names of 3 classes expected, got one more", why{["0"] = "a", ["1"] = "b",
                   ["5"] = "c"})
    for names, wanted in pairs{[{"A", "A", "B"}] = '"A" for 0 and 1',
                               [{"A", "B", "B"}] = '"B" for 1 and 2'} do
      local labels = {}
      for i, name in ipairs(names) do labels[tostring(i - 1)] = name end
      assert.matches('config.json: "id2label": a name of its own expected for each class, got '
                     .. wanted .. "$", why(labels))
    end
  end)
end)
