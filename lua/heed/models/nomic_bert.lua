-- Nomic Embed 1 and 1.5: Z. Nussbaum et al. (2024), "Nomic Embed". BERT with rope and a gated MLP.
-- Its first files say their sizes by the keys of GPT-2.

local encoder = require "heed.models.encoder"
local heed = require "heed"

local nomic = {}

nomic.names = {
  prefix = {"bert.", "model."},
  {"embeddings.word_embeddings", "words"},
  {"embeddings.token_type_embeddings", "types"},
  {"emb_ln", "norm"},
  {"encoder.layers.%d.attn.Wqkv", {
    "body.layers.%d.attend.query", "body.layers.%d.attend.key", "body.layers.%d.attend.value",
  }},
  {"encoder.layers.%d.attn.out_proj", "body.layers.%d.attend.out"},
  {"encoder.layers.%d.norm1", "body.layers.%d.norm1"},
  {"encoder.layers.%d.mlp.fc11", "body.layers.%d.mlp.up"},
  {"encoder.layers.%d.mlp.fc12", "body.layers.%d.mlp.gate"},
  {"encoder.layers.%d.mlp.fc2", "body.layers.%d.mlp.down"},
  {"encoder.layers.%d.norm2", "body.layers.%d.norm2"},
}

nomic.endings = {Model = {ignored = {"pooler%."}}}

-- Keys of the first files, by the value that heed has.
local ONLY <const> = {
  causal = false, parallel_block = false, parallel_block_tied_norm = false, prenorm = false,
  rotary_emb_fraction = 1.0, rotary_emb_interleaved = false, scale_attn_weights = true,
  use_rms_norm = false, scale_attn_by_inverse_layer_idx = false, activation_function = "swiglu",
  mlp_fc1_bias = false, mlp_fc2_bias = false, qkv_proj_bias = false,
}
local IDLE <const> = {
  "max_trained_positions", "n_positions", "pad_vocab_size_multiple", "use_xentropy",
  "fused_bias_fc", "fused_dropout_add_ln", "reorder_and_upcast_attn",
  "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
  "summary_use_proj", "dense_seq_output", "last_layer_subset",
}


-- The keys of the first files, under the names of later ones.
local function read_old(c)
  for name, value in next, ONLY do c:only(name, value) end
  c:only("rotary_emb_scale_base", nil)
  local factor = c:may_number("rotary_scaling_factor")
  local rope = {base = c:number("rotary_emb_base", 1000)}
  if factor then
    rope.scaling = {rope_type = "dynamic", factor = factor}
    rope.max_position_embeddings = c:count("max_trained_positions", 2048)
  end
  return c:count("n_embd"), c:count("n_head"), c:count("n_layer"), c:count("n_inner"),
         c:number("layer_norm_epsilon", 1e-12), rope
end


local function read_new(c)
  local dim, heads = c:count("hidden_size"), c:count("num_attention_heads")
  c:only("hidden_act", "silu")
  local rope = c:rope(c:head_dim(dim, heads), {base = 1000})
  return dim, heads, c:count("num_hidden_layers"), c:count("intermediate_size"),
         c:number("layer_norm_eps", 1e-12), rope
end


function nomic.build(c, tensors)
  for _, name in ipairs(IDLE) do c:get(name) end
  local read = c.values.n_embd ~= nil and read_old or read_new
  local dim, heads, n, hidden, eps, rope = read(c)
  local norm = encoder.norm(eps)
  return encoder.new(c, {
    dim = dim, heads = heads, layers = n, types = c:count("type_vocab_size", 2), norm = norm,
    stack = {norm_type = norm, activation = heed.silu, gated = true, bias = false,
             hidden = hidden, rope = rope},
  }, tensors, nomic)
end


return nomic
