-- ALBERT: Z. Lan et al. (2020), "ALBERT". One layer's weights serve all layers, and ids have fewer
-- features than these.

local bert = require "heed.models.bert"
local encoder = require "heed.models.encoder"
local heed = require "heed"

local albert = {pooler = "pooler.weight"}

local LAYER <const> = "encoder.albert_layer_groups.0.albert_layers.0."

albert.names = {
  prefix = {"albert."},
  ignored = {"embeddings%.position_ids$"},
  {"embeddings.word_embeddings", "words"},
  {"embeddings.position_embeddings", "position"},
  {"embeddings.token_type_embeddings", "types"},
  {"embeddings.LayerNorm", "norm"},
  {"encoder.embedding_hidden_mapping_in", "project"},
  {LAYER .. "attention.query", "body.layers.1.attend.query"},
  {LAYER .. "attention.key", "body.layers.1.attend.key"},
  {LAYER .. "attention.value", "body.layers.1.attend.value"},
  {LAYER .. "attention.dense", "body.layers.1.attend.out"},
  {LAYER .. "attention.LayerNorm", "body.layers.1.norm1"},
  {LAYER .. "ffn", "body.layers.1.mlp.up"},
  {LAYER .. "ffn_output", "body.layers.1.mlp.down"},
  {LAYER .. "full_layer_layer_norm", "body.layers.1.norm2"},
  {"pooler", "pooler"},
}

albert.endings = {
  Model = {ignored = {"^predictions%."}},
  ForSequenceClassification = {
    head = {pool = "first", dense = true, activation = function() return heed.tanh end},
    names = {{"pooler", "head.dense"}, {"classifier", "head.out", bare = true}},
  },
}


function albert.build(c, tensors)
  local o = bert.read_typed(c)
  o.width = c:count("embedding_size", 128)
  c:only("num_hidden_groups", 1)
  c:only("inner_group_num", 1)
  for _, name in ipairs{"down_scale_factor", "gap_size", "net_structure_type",
                        "num_memory_blocks"} do
    c:get(name)
  end
  local model, names = encoder.new(c, o, tensors, albert)
  for i = 2, o.layers do model.body.layers[i] = model.body.layers[1] end
  return model, names
end


return albert
