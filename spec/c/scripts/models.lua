-- Writes the directory of a tiny model of sentences at 'path', with a tokenizer of its own.

local path = ...
local heed = require "heed"
local json = require "heed.files.json"

local WORDS <const> = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "dog", "ran", "a"}
local DIM <const> = 8

local function write(name, text)
  local file = assert(io.open(path .. "/" .. name, "w"))
  assert(file:write(text))
  assert(file:close())
end

local config = {
  model_type = "bert", architectures = {"BertModel"}, vocab_size = #WORDS, hidden_size = DIM,
  num_hidden_layers = 1, num_attention_heads = 2, intermediate_size = 16, hidden_act = "gelu",
  max_position_embeddings = 16, type_vocab_size = 2, layer_norm_eps = 1e-12, pad_token_id = 0,
}
write("config.json", json.encode(config))
write("vocab.txt", table.concat(WORDS, "\n") .. "\n")
write("tokenizer_config.json", '{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')
write("modules.json", [=[[
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
]]=])
write("1_Pooling/config.json", '{"pooling_mode_mean_tokens": true}')

heed.manual_seed(1)
local tensors = {}
local function add(name, ...) tensors[name] = heed.randn(...) end
add("embeddings.word_embeddings.weight", #WORDS, DIM)
add("embeddings.position_embeddings.weight", 16, DIM)
add("embeddings.token_type_embeddings.weight", 2, DIM)
local function linear(name, out, from)
  add(name .. ".weight", out, from)
  add(name .. ".bias", out)
end
local function norm(name)
  add(name .. ".weight", DIM)
  add(name .. ".bias", DIM)
end
norm "embeddings.LayerNorm"
local layer <const> = "encoder.layer.0."
for _, name in ipairs{"self.query", "self.key", "self.value", "output.dense"} do
  linear(layer .. "attention." .. name, DIM, DIM)
end
norm(layer .. "attention.output.LayerNorm")
linear(layer .. "intermediate.dense", 16, DIM)
linear(layer .. "output.dense", DIM, 16)
norm(layer .. "output.LayerNorm")
linear("pooler.dense", DIM, DIM)
assert(heed.save(path .. "/model.safetensors", tensors))
