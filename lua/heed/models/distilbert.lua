-- DistilBERT: V. Sanh et al. (2019), "DistilBERT". BERT with other names, without kinds of texts.

local encoder = require "heed.models.encoder"
local heed = require "heed"

local distilbert = {}

distilbert.names = {
  prefix = {"distilbert."},
  ignored = {"embeddings%.position_ids$"},
  {"embeddings.word_embeddings", "words"},
  {"embeddings.position_embeddings", "position"},
  {"embeddings.LayerNorm", "norm"},
  {"transformer.layer.%d.attention.q_lin", "body.layers.%d.attend.query"},
  {"transformer.layer.%d.attention.k_lin", "body.layers.%d.attend.key"},
  {"transformer.layer.%d.attention.v_lin", "body.layers.%d.attend.value"},
  {"transformer.layer.%d.attention.out_lin", "body.layers.%d.attend.out"},
  {"transformer.layer.%d.sa_layer_norm", "body.layers.%d.norm1"},
  {"transformer.layer.%d.ffn.lin1", "body.layers.%d.mlp.up"},
  {"transformer.layer.%d.ffn.lin2", "body.layers.%d.mlp.down"},
  {"transformer.layer.%d.output_layer_norm", "body.layers.%d.norm2"},
}

local function activation(c) return c:activation("activation", "gelu") end

local NORM <const> = encoder.norm(1e-12)          -- the file does not say it

distilbert.endings = {
  Model = {ignored = {"^vocab_"}},
  ForMaskedLM = {
    head = {outputs = function() return false end, dense = true, activation = activation,
            norm = function() return NORM end},
    ignored = {"^vocab_projector%.weight$"},
    names = {
      {"vocab_transform", "head.dense", bare = true},
      {"vocab_layer_norm", "head.norm", bare = true},
      {"vocab_projector", "head.out", bare = true},
    },
  },
  ForSequenceClassification = {
    head = {pool = "first", dense = true, activation = function() return heed.relu end},
    names = {
      {"pre_classifier", "head.dense", bare = true}, {"classifier", "head.out", bare = true},
    },
  },
  ForTokenClassification = {head = {}, names = {{"classifier", "head.out", bare = true}}},
}


function distilbert.build(c, tensors)
  for _, name in ipairs{"qa_dropout", "seq_classif_dropout", "tie_weights_",
                        "sinusoidal_pos_embds"} do
    c:get(name)
  end
  return encoder.new(c, {
    dim = c:count("dim"), heads = c:count("n_heads"), layers = c:count("n_layers"),
    positions = c:count("max_position_embeddings"), norm = NORM,
    stack = {norm_type = NORM, activation = activation(c), hidden = c:count("hidden_dim")},
  }, tensors, distilbert)
end


return distilbert
