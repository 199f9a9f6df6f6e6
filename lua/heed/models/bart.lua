-- BART: M. Lewis et al. (2020), "BART". Norms behind the parts, learnt positions from row 2 on.

local encoder = require "heed.models.encoder"
local seq2seq = require "heed.models.seq2seq"

local bart = {}

-- The names of one side, and of the norms of its layers.
local function side(all, name, field, norms)
  local file, module = "model." .. name .. ".", field .. "."
  local function add(a, b) all[#all + 1] = {file .. a, module .. b} end
  add("embed_positions", "position")
  add("layernorm_embedding", "norm")
  for part, at in pairs{self_attn = "attend", encoder_attn = "cross"} do
    for short, long in pairs{q_proj = "query", k_proj = "key", v_proj = "value",
                             out_proj = "out"} do
      add("layers.%d." .. part .. "." .. short, "body.layers.%d." .. at .. "." .. long)
    end
  end
  for i, norm in ipairs(norms) do add("layers.%d." .. norm, "body.layers.%d.norm" .. i) end
  add("layers.%d.fc1", "body.layers.%d.mlp.up")
  add("layers.%d.fc2", "body.layers.%d.mlp.down")
end

bart.names = {
  ignored = {"^model%.encoder%.embed_tokens%.weight$", "^model%.decoder%.embed_tokens%.weight$"},
  {"model.shared", "words"}, {"lm_head", "head"}, {"final_logits_bias", "logit_bias"},
}
side(bart.names, "encoder", "source", {"self_attn_layer_norm", "final_layer_norm"})
side(bart.names, "decoder", "target",
     {"self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"})

local FIRST <const> = 2              -- the row of position 0

-- Keys without a part in what is computed here.
local IDLE <const> = {
  "activation_dropout", "decoder_layerdrop", "encoder_layerdrop", "init_std",
  "is_encoder_decoder", "num_hidden_layers", "classif_dropout",
}


function bart.build(c, tensors)
  for _, name in ipairs(IDLE) do c:get(name) end
  c:only("normalize_before", false)
  c:only("add_final_layer_norm", false)
  c:only("normalize_embedding", true)
  c:only("add_bias_logits", false)
  c:only("static_position_embeddings", false)
  local dim, norm = c:count("d_model"), encoder.norm(1e-5)
  local function side_of(name)
    return {
      layers = c:count(name .. "_layers"), heads = c:count(name .. "_attention_heads"),
      positions = c:count("max_position_embeddings") + FIRST, first = FIRST, norm = norm,
      stack = {
        norm_type = norm, hidden = c:count(name .. "_ffn_dim"),
        activation = c:activation("activation_function", "gelu"),
      },
    }
  end
  return seq2seq.new(c, {
    dim = dim, source = side_of "encoder", target = side_of "decoder", tie = true,
    embed_scale = c:flag("scale_embedding", false) and dim ^ 0.5 or nil,
    logit_bias = tensors.final_logits_bias ~= nil,
  }, tensors)
end


return bart
