-- GPT-NeoX, Pythia: S. Black et al. (2022), "GPT-NeoX-20B". Attention and MLP side by side, rope of
-- a part of each head; queries, keys and values lie together, head by head.

local causal = require "heed.models.causal"
local encoder = require "heed.models.encoder"

local neox = {}


-- The names, in which the packed rows depend on how many heads there are.
local function names_for(heads)
  return {
    prefix = {"gpt_neox."},
    ignored = {"attention%.bias$", "attention%.masked_bias$", "rotary_emb%.inv_freq$"},
    {"embed_in", "words"},
    {"layers.%d.input_layernorm", "body.layers.%d.norm1"},
    {"layers.%d.attention.query_key_value", {
      "body.layers.%d.attend.query", "body.layers.%d.attend.key", "body.layers.%d.attend.value",
    }, heads = heads},
    {"layers.%d.attention.dense", "body.layers.%d.attend.out"},
    {"layers.%d.post_attention_layernorm", "body.layers.%d.norm2"},
    {"layers.%d.mlp.dense_h_to_4h", "body.layers.%d.mlp.up"},
    {"layers.%d.mlp.dense_4h_to_h", "body.layers.%d.mlp.down"},
    {"final_layer_norm", "body.norm"},
    {"embed_out", "head", bare = true},
  }
end


function neox.build(c, tensors)
  local dim, heads = c:count("hidden_size"), c:count("num_attention_heads")
  local old = {base = c:get("rotary_emb_base") or 10000, fraction = c:get("rotary_pct") or 0.25}
  c:only("is_decoder", false)
  return causal.new(c, {
    dim = dim, heads = heads, layers = c:count("num_hidden_layers"), head_name = "embed_out.weight",
    stack = {
      norm = "pre", norm_type = encoder.norm(c:number("layer_norm_eps", 1e-5)),
      activation = c:activation("hidden_act", "gelu"), hidden = c:count("intermediate_size"),
      attention_bias = c:flag("attention_bias", true),
      parallel = c:flag("use_parallel_residual", true), rope = c:rope(c:head_dim(dim, heads), old),
    },
  }, tensors), names_for(heads)
end


return neox
