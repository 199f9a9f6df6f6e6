-- ELECTRA: K. Clark et al. (2020), "ELECTRA". BERT whose ids may have fewer features than layers.

local bert = require "heed.models.bert"
local encoder = require "heed.models.encoder"
local names = require "heed.models.names"

local electra = {}

electra.names = names.with(bert.names, {{"embeddings_project", "project"}})
electra.names.prefix = {"electra."}

electra.endings = {
  Model = {ignored = {"^discriminator_predictions%.", "^generator_"}},
  ForSequenceClassification = {
    head = {pool = "first", dense = true, activation = bert.activation},
    names = {
      {"classifier.dense", "head.dense", bare = true},
      {"classifier.out_proj", "head.out", bare = true},
    },
  },
  ForTokenClassification = bert.token_head,
}


function electra.build(c, tensors)
  local o = bert.read_typed(c)
  o.width = c:count("embedding_size", 128)
  for _, name in ipairs{"summary_activation", "summary_last_dropout", "summary_type",
                        "summary_use_proj"} do
    c:get(name)
  end
  return encoder.new(c, o, tensors, electra)
end


return electra
