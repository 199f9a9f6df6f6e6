-- MPNet: K. Song et al. (2020), "MPNet". BERT with one table of distances for all layers, and with
-- RoBERTa's positions.

local bert = require "heed.models.bert"
local bias = require "heed.bias"
local encoder = require "heed.models.encoder"
local names = require "heed.models.names"
local roberta = require "heed.models.roberta"

local mpnet = {pooler = bert.pooler}

mpnet.names = names.with(bert.names, {
  {"encoder.relative_attention_bias", "bias"},
  {"encoder.layer.%d.attention.attn.q", "body.layers.%d.attend.query"},
  {"encoder.layer.%d.attention.attn.k", "body.layers.%d.attend.key"},
  {"encoder.layer.%d.attention.attn.v", "body.layers.%d.attend.value"},
  {"encoder.layer.%d.attention.attn.o", "body.layers.%d.attend.out"},
  {"encoder.layer.%d.attention.LayerNorm", "body.layers.%d.norm1"},
})
mpnet.names.prefix = {"mpnet."}

mpnet.endings = roberta.endings


function mpnet.build(c, tensors)
  local o = bert.read(c)
  o.pad = c:id("pad_token_id", 1)
  c:get("relative_attention_num_buckets")         -- 32 whatever it says
  o.bias = bias.t5{heads = o.heads, buckets = 32, distance = 128}
  return encoder.new(c, o, tensors, mpnet)
end


return mpnet
