-- BERT, as MiniLM, BGE, E5, GTE, mxbai and Arctic have it, and rerankers: J. Devlin et al. (2019),
-- "BERT". Families that are like it read the same keys.

local encoder = require "heed.models.encoder"
local heed = require "heed"

local bert = {pooler = "pooler.dense.weight"}

bert.names = {
  prefix = {"bert."},
  ignored = {"embeddings%.position_ids$", "embeddings%.token_type_ids$"},
  {"embeddings.word_embeddings", "words"},
  {"embeddings.position_embeddings", "position"},
  {"embeddings.token_type_embeddings", "types"},
  {"embeddings.LayerNorm", "norm"},
  {"encoder.layer.%d.attention.self.query", "body.layers.%d.attend.query"},
  {"encoder.layer.%d.attention.self.key", "body.layers.%d.attend.key"},
  {"encoder.layer.%d.attention.self.value", "body.layers.%d.attend.value"},
  {"encoder.layer.%d.attention.output.dense", "body.layers.%d.attend.out"},
  {"encoder.layer.%d.attention.output.LayerNorm", "body.layers.%d.norm1"},
  {"encoder.layer.%d.intermediate.dense", "body.layers.%d.mlp.up"},
  {"encoder.layer.%d.output.dense", "body.layers.%d.mlp.down"},
  {"encoder.layer.%d.output.LayerNorm", "body.layers.%d.norm2"},
  {"pooler.dense", "pooler"},
}

-- The activation and the norm of a head, by what the file says.
function bert.activation(c) return c:activation("hidden_act", "gelu") end

function bert.head_norm(c) return encoder.norm(c:number("layer_norm_eps", 1e-12)) end

bert.token_head = {
  head = {}, ignored = {"pooler%."}, names = {{"classifier", "head.out", bare = true}},
}

bert.endings = {
  Model = {ignored = {"^cls%."}},
  ForMaskedLM = {
    head = {outputs = function() return false end, dense = true, activation = bert.activation,
            norm = bert.head_norm},
    ignored = {"pooler%.", "^cls%.seq_relationship", "^cls%.predictions%.decoder"},
    names = {
      {"cls.predictions.transform.dense", "head.dense", bare = true},
      {"cls.predictions.transform.LayerNorm", "head.norm", bare = true},
      {"cls.predictions", "head.out", bare = true},
    },
  },
  ForSequenceClassification = {
    head = {pool = "first", dense = true, activation = function() return heed.tanh end},
    names = {{"pooler.dense", "head.dense"}, {"classifier", "head.out", bare = true}},
  },
  ForTokenClassification = bert.token_head,
}


---Sizes, and options of the stack.
---@param c heed.models.Config
---@return heed.models.encoder
function bert.read(c)
  local norm = bert.head_norm(c)
  c:only("position_embedding_type", "absolute")
  c:only("is_decoder", false)
  return {
    dim = c:count("hidden_size"), heads = c:count("num_attention_heads"),
    layers = c:count("num_hidden_layers"), positions = c:count("max_position_embeddings"),
    norm = norm,
    stack = {
      norm_type = norm, activation = bert.activation(c), hidden = c:count("intermediate_size"),
    },
  }
end


---The same, and how many kinds of texts there are.
function bert.read_typed(c)
  local o = bert.read(c)
  o.types = c:count("type_vocab_size", 2)
  return o
end


function bert.build(c, tensors)
  return encoder.new(c, bert.read_typed(c), tensors, bert)
end


return bert
