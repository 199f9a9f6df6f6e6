-- Phi-1, 1.5 and 2: Y. Li et al. (2023), "Textbooks are all you need II". Attention and MLP side by
-- side behind one norm, rope of a part of each head, biases everywhere.

local causal = require "heed.models.causal"
local encoder = require "heed.models.encoder"
local llama = require "heed.models.llama"
local names = require "heed.models.names"

local phi = {}

phi.names = names.with(llama.names, {
  {"layers.%d.self_attn.dense", "body.layers.%d.attend.out"},
  {"layers.%d.mlp.fc1", "body.layers.%d.mlp.up"},
  {"layers.%d.mlp.fc2", "body.layers.%d.mlp.down"},
  {"final_layernorm", "body.norm"},
})


function phi.build(c, tensors)
  local dim, heads = c:count("hidden_size"), c:count("num_attention_heads")
  c:only("qk_layernorm", false)
  local model = causal.new(c, {
    dim = dim, heads = heads, layers = c:count("num_hidden_layers"), head_bias = true,
    stack = {
      norm = "pre", norm_type = encoder.norm(c:number("layer_norm_eps", 1e-5)), parallel = true,
      activation = c:activation("hidden_act", "gelu_new"), hidden = c:count("intermediate_size"),
      kv_heads = c:count("num_key_value_heads", heads),
      rope = c:rope(c:head_dim(dim, heads), {base = 10000, fraction = 0.5}),
    },
  }, tensors)
  for _, layer in ipairs(model.body.layers) do layer.norm2 = layer.norm1 end
  return model
end


return phi
