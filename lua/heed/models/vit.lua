-- ViT: A. Dosovitskiy et al. (2021), "An image is worth 16x16 words".

local encoder = require "heed.models.encoder"
local heads = require "heed.models.heads"
local vision = require "heed.models.vision"

local vit = {}

vit.names = {
  prefix = {"vit."},
  ignored = {"pooler%.dense%."},
  {"embeddings.cls_token", "patches.class_token"},
  {"embeddings.position_embeddings", "patches.position.weight", as = vision.table},
  {"embeddings.patch_embeddings.projection", "patches.project", as = vision.rows},
  {"encoder.layer.%d.layernorm_before", "body.layers.%d.norm1"},
  {"encoder.layer.%d.attention.attention.query", "body.layers.%d.attend.query"},
  {"encoder.layer.%d.attention.attention.key", "body.layers.%d.attend.key"},
  {"encoder.layer.%d.attention.attention.value", "body.layers.%d.attend.value"},
  {"encoder.layer.%d.attention.output.dense", "body.layers.%d.attend.out"},
  {"encoder.layer.%d.layernorm_after", "body.layers.%d.norm2"},
  {"encoder.layer.%d.intermediate.dense", "body.layers.%d.mlp.up"},
  {"encoder.layer.%d.output.dense", "body.layers.%d.mlp.down"},
  {"layernorm", "body.norm"},
  {"classifier", "head.out", bare = true},
}

local HEADS <const> = {ForImageClassification = {pool = "first"}, Model = false}


function vit.build(c)
  local o = vision.read(c, encoder.norm(c:number("layer_norm_eps", 1e-12)))
  o.class_token, o.bias = true, true
  c:only("qkv_bias", true)
  for _, name in ipairs{"encoder_stride", "pooler_act", "pooler_output_size"} do c:get(name) end
  local head = HEADS[c:ending(HEADS)]
  o.head = head and heads.options(c, head)
  c:finish()
  return vision.make(c.values, o)
end


return vit
