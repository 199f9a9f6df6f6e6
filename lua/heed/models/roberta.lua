-- RoBERTa, XLM-R, CamemBERT, as BGE-M3 and multilingual E5 have them: Y. Liu et al. (2019),
-- "RoBERTa"; A. Conneau et al. (2020). BERT whose positions do not count padding, with other heads.

local bert = require "heed.models.bert"
local encoder = require "heed.models.encoder"
local heed = require "heed"
local names = require "heed.models.names"

local roberta = {pooler = bert.pooler}

roberta.names = names.with(bert.names, {})
roberta.names.prefix = {"roberta."}

roberta.endings = {
  Model = {ignored = {"^lm_head%."}},
  ForMaskedLM = {
    head = {outputs = function() return false end, dense = true,
            activation = function() return heed.gelu end, norm = bert.head_norm},
    ignored = {"pooler%.", "^lm_head%.decoder%."},
    names = {
      {"lm_head.dense", "head.dense", bare = true},
      {"lm_head.layer_norm", "head.norm", bare = true},
      {"lm_head", "head.out", bare = true},
    },
  },
  ForSequenceClassification = {
    head = {pool = "first", dense = true, activation = function() return heed.tanh end},
    ignored = {"pooler%."},
    names = {
      {"classifier.dense", "head.dense", bare = true},
      {"classifier.out_proj", "head.out", bare = true},
    },
  },
  ForTokenClassification = bert.token_head,
}


function roberta.build(c, tensors)
  local o = bert.read_typed(c)
  o.pad = c:id("pad_token_id", 1)
  return encoder.new(c, o, tensors, roberta)
end


return roberta
