-- GPT-2: A. Radford et al. (2019), "Language models are unsupervised multitask learners". Learnt
-- positions; matrices in files are (inputs, outputs).

local causal = require "heed.models.causal"
local encoder = require "heed.models.encoder"

local gpt2 = {}

gpt2.names = {
  prefix = {"transformer."},
  ignored = {"attn%.bias$", "attn%.masked_bias$"},
  {"wte", "words"},
  {"wpe", "position"},
  {"h.%d.ln_1", "body.layers.%d.norm1"},
  {"h.%d.attn.c_attn", {
    "body.layers.%d.attend.query", "body.layers.%d.attend.key", "body.layers.%d.attend.value",
  }, transposed = true},
  {"h.%d.attn.c_proj", "body.layers.%d.attend.out", transposed = true},
  {"h.%d.ln_2", "body.layers.%d.norm2"},
  {"h.%d.mlp.c_fc", "body.layers.%d.mlp.up", transposed = true},
  {"h.%d.mlp.c_proj", "body.layers.%d.mlp.down", transposed = true},
  {"ln_f", "body.norm"},
  {"lm_head", "head", bare = true},
}

-- Of tasks that are no models of words.
local IDLE <const> = {
  "n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
  "summary_proj_to_labels", "summary_type", "summary_use_proj",
}


function gpt2.build(c, tensors)
  for _, name in ipairs(IDLE) do c:get(name) end
  c:only("scale_attn_by_inverse_layer_idx", false)
  c:only("scale_attn_weights", true)
  local dim = c:count("n_embd")
  return causal.new(c, {
    dim = dim, heads = c:count("n_head"), layers = c:count("n_layer"),
    positions = c:count("n_positions"), tie = true,
    stack = {
      norm = "pre", norm_type = encoder.norm(c:number("layer_norm_epsilon", 1e-5)),
      activation = c:activation("activation_function", "gelu_new"),
      hidden = c:count("n_inner", 4 * dim),
    },
  }, tensors)
end


return gpt2
