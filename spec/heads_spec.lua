-- Heads of published models beside those of spec/golden/models: their logits are what the formulas
-- of their classes say of the body's features, with weights under the names of published files.

local close = require "spec.support.close"
local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"

local function gelu(x) return x:gelu() end
local function relu(x) return x:relu() end
local function tanh(x) return x:tanh() end

-- A head: the model whose body it stands on, its class, and the names of its tensors. One without
-- `dense` is a layer; `first`: of the first token alone; `words`: with the weights of the words;
-- `unbiased`: with biases in the last layer alone.
local HEADS <const> = {
  {"albert", "AlbertForSequenceClassification", first = true, dense = "pooler",
   activation = tanh, out = "classifier"},
  {"bert_reranker", "BertForMaskedLM", dense = "cls.predictions.transform.dense",
   activation = gelu, norm = "cls.predictions.transform.LayerNorm", out = "cls.predictions",
   words = "bert.embeddings.word_embeddings.weight"},
  {"bert_reranker", "BertForTokenClassification", out = "classifier"},
  {"distilbert", "DistilBertForMaskedLM", dense = "vocab_transform", activation = gelu,
   norm = "vocab_layer_norm", out = "vocab_projector",
   words = "distilbert.embeddings.word_embeddings.weight"},
  {"distilbert", "DistilBertForSequenceClassification", first = true, dense = "pre_classifier",
   activation = relu, out = "classifier"},
  {"distilbert", "DistilBertForTokenClassification", out = "classifier"},
  {"electra", "ElectraForSequenceClassification", first = true, dense = "classifier.dense",
   activation = gelu, out = "classifier.out_proj"},
  {"electra", "ElectraForTokenClassification", out = "classifier"},
  {"modernbert_classifier", "ModernBertForMaskedLM", dense = "head.dense", activation = gelu,
   norm = "head.norm", eps = 1e-5, unbiased = true, out = "decoder",
   words = "model.embeddings.tok_embeddings.weight"},
  {"modernbert_classifier", "ModernBertForTokenClassification", dense = "head.dense",
   activation = gelu, norm = "head.norm", eps = 1e-5, unbiased = true, out = "classifier"},
  {"mpnet", "MPNetForMaskedLM", dense = "lm_head.dense", activation = gelu,
   norm = "lm_head.layer_norm", out = "lm_head", words = "embeddings.word_embeddings.weight"},
  {"mpnet", "MPNetForSequenceClassification", first = true, dense = "classifier.dense",
   activation = tanh, out = "classifier.out_proj"},
  {"mpnet", "MPNetForTokenClassification", out = "classifier"},
  {"roberta", "RobertaForSequenceClassification", first = true, dense = "classifier.dense",
   activation = tanh, out = "classifier.out_proj"},
  {"roberta", "RobertaForTokenClassification", out = "classifier"},
}

local CLASSES <const>, DIM <const> = 3, 32
local OF_HEADS <const> = {"^classifier%.", "^decoder%.", "^head%.", "^lm_head%.",
                          "^pre_classifier%."}


-- The weights of a body, with those of a head, which are drawn.
local function weights_of(path, head)
  local all = {}
  for name, t in pairs(assert(heed.load(path))) do
    local is_head = false
    for _, pattern in ipairs(OF_HEADS) do is_head = is_head or name:find(pattern) end
    if not is_head then all[name] = t end
  end
  local function add(layer, ...)
    all[layer .. ".weight"] = heed.randn(...)
    if not head.unbiased then all[layer .. ".bias"] = heed.randn((...)) end
  end
  if head.dense then add(head.dense, DIM, DIM) end
  if head.norm then add(head.norm, DIM) end
  if not head.words then all[head.out .. ".weight"] = heed.randn(CLASSES, DIM) end
  all[head.out .. ".bias"] = heed.randn(head.words and #all[head.words] or CLASSES)
  return all
end


-- The logits of features (B, T, DIM), by the formula.
local function logits_of(x, head, weights)
  local function of(layer) return weights[layer .. ".weight"], weights[layer .. ".bias"] end
  if head.first then x = x:select(2, 1) end
  if head.dense then x = head.activation(heed.linear(x, of(head.dense))) end
  if head.norm then
    local scale, shift = of(head.norm)
    x = x:layer_norm({DIM}, scale, shift, head.eps or 1e-12)
  end
  return heed.linear(x, weights[head.words or head.out .. ".weight"], weights[head.out .. ".bias"])
end


describe("a head", function()
  for _, head in ipairs(HEADS) do
    it("gives the logits of its formula: " .. head[2], function()
      local place <close> = directories.make(head[1], nil, function(c)
        c.architectures = json.array{head[2]}
        c.id2label = {["0"] = "a", ["1"] = "b", ["2"] = "c"}
        c.label2id = nil
      end)
      local path = place.path .. "/model.safetensors"
      local weights = weights_of(path, head)
      assert(heed.save(path, weights))
      local m = assert(heed.models.load(place.path, {dtype = "float64"}))
      for name, t in pairs(weights) do weights[name] = t:to "float64" end
      local ids = heed.tensor{{5, 9, 7, 3}, {4, 2, 8, 6}}
      local got, x = heed.no_grad(m, ids), heed.no_grad(m.hidden, m, ids)
      local wanted = logits_of(x, head, weights)
      assert.equal(tostring(wanted.shape), tostring(got.shape))
      local list = wanted:flatten():totable()
      for i, value in ipairs(got:flatten():totable()) do
        assert.is_true(close(value, list[i], 1e-9, 1e-9), ("%.12g, %.12g"):format(value, list[i]))
      end
    end)
  end
end)
