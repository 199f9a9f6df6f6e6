-- ModernBERT: B. Warner et al. (2024), "Smarter, better, faster, longer". Norms before the parts, a
-- gated MLP, and rope: of layers that see all, and of layers that see a window.

local encoder = require "heed.models.encoder"
local llama = require "heed.models.llama"
local layers = require "heed.nn.layers"
local masks = require "heed.mask"

local modernbert = {}

modernbert.names = {
  prefix = {"model."},
  {"embeddings.tok_embeddings", "words"},
  {"embeddings.norm", "norm"},
  {"layers.%d.attn_norm", "body.layers.%d.norm1"},
  {"layers.%d.attn.Wqkv", {
    "body.layers.%d.attend.query", "body.layers.%d.attend.key", "body.layers.%d.attend.value",
  }},
  {"layers.%d.attn.Wo", "body.layers.%d.attend.out"},
  {"layers.%d.mlp_norm", "body.layers.%d.norm2"},
  {"layers.%d.mlp.Wi", {"body.layers.%d.mlp.gate", "body.layers.%d.mlp.up"}},
  {"layers.%d.mlp.Wo", "body.layers.%d.mlp.down"},
  {"final_norm", "body.norm"},
}


local function norm(c)
  return encoder.norm(c:number("norm_eps", 1e-5), c:flag("norm_bias", false))
end

-- The layer before the logits, of all heads.
local function head(o)
  o.dense, o.norm = true, norm
  o.dense_bias = function(c) return c:flag("classifier_bias", false) end
  o.activation = function(c) return c:activation("classifier_activation", "gelu") end
  return o
end

local function pooling(c)
  local way = c:word("classifier_pooling", "cls")
  if way ~= "cls" and way ~= "mean" then
    c:refuse("classifier_pooling", "cls or mean expected, got %s", way)
  end
  return way == "cls" and "first" or "mean"
end

local BEFORE <const> = {{"head.dense", "head.dense", bare = true},
                        {"head.norm", "head.norm", bare = true}}

local function with_out(name)
  return {BEFORE[1], BEFORE[2], {name, "head.out", bare = true}}
end

modernbert.endings = {
  Model = {ignored = {"^head%.", "^decoder%."}},
  ForMaskedLM = {
    head = head{outputs = function() return false end,
                out_bias = function(c) return c:flag("decoder_bias", true) end},
    ignored = {"^decoder%.weight$"}, names = with_out "decoder",
  },
  ForSequenceClassification = {head = head{pool = pooling}, names = with_out "classifier"},
  ForTokenClassification = {head = head{}, names = with_out "classifier"},
}


-- Options of single layers: those that see a window have another rope.
local function differences(c, head_dim)
  local every = c:count("global_attn_every_n_layers", 3)
  local w = c:count("local_attention", 128)
  local slides = llama.windows(c, w, function(i) return i % every ~= 0 end)
  local all = c:rope(head_dim, {base = 160000, layers = "full_attention",
                                local_base = "global_rope_theta"})
  local near = c:rope(head_dim, {base = 10000, layers = "sliding_attention",
                                 local_base = "local_rope_theta"})
  local window = masks.window(w // 2, w // 2)
  return function(i)
    if slides(i) then return {mask = window, rope = near} end
    return {rope = all}
  end
end


function modernbert.build(c, tensors)
  local dim, heads, make = c:count("hidden_size"), c:count("num_attention_heads"), norm(c)
  for _, name in ipairs{"classifier_activation", "classifier_bias", "classifier_pooling",
                        "decoder_bias", "max_position_embeddings", "reference_compile",
                        "repad_logits_with_grad", "sparse_pred_ignore_index", "sparse_prediction",
                        "position_embedding_type", "layer_norm_eps"} do
    c:get(name)
  end
  local model, names = encoder.new(c, {
    dim = dim, heads = heads, layers = c:count("num_hidden_layers"), norm = make,
    stack = {
      norm = "pre", norm_type = make, bias = false, gated = true,
      activation = c:activation("hidden_activation", "gelu"), hidden = c:count("intermediate_size"),
      attention_bias = c:flag("attention_bias", false), mlp_bias = c:flag("mlp_bias", false),
      each = differences(c, c:head_dim(dim, heads)),
    },
  }, tensors, modernbert)
  model.body.layers[1].norm1 = layers.Identity()       -- what comes in is normed already
  return model, names
end


return modernbert
