-- Two towers, of texts and of pictures, whose vectors lie in one space: CLIP, A. Radford et al.
-- (2021), "Learning transferable visual models"; SigLIP, X. Zhai et al. (2023), "Sigmoid loss for
-- language image pre-training".

local causal = require "heed.models.causal"
local Config = require "heed.models.config"
local encoder = require "heed.models.encoder"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heed = require "heed"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local mlp = require "heed.nn.mlp"
local Model = require "heed.models.model"
local MultiHeadAttention = require "heed.nn.multihead"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local pool = require "heed.nn.pool"
local vision = require "heed.models.vision"

local Linear, Parameter = layers.Linear, parameter.Parameter
local POOL <const>, WHO <const> = "models.AttentionPool", "models.DualModel"


-- One vector of a picture, by attention from a learnt query: J. Lee et al. (2019), "Set
-- transformer".
local AttentionPool = extend("models.AttentionPool", {forward = 1})

local function fill_pool(self, dim, heads, hidden, o)
  self.probe = Parameter(heed.zeros(1, 1, dim))
  self.attend = MultiHeadAttention(dim, heads)
  self.norm = o.norm_type(dim)
  self.mlp = mlp.MLP(dim, hidden, {activation = o.activation})
end

local new_pool = maker(AttentionPool, POOL, fill_pool)

function AttentionPool:forward(x)
  local probe = field.tensor(self, "probe"):expand(x:size(1), 1, -1)
  local y = part.result(POOL, "attend", (part.of(POOL, self, "attend")(probe, x)))
  return (y + part.call(POOL, self, "mlp", part.call(POOL, self, "norm", y))):select(2, 1)
end


---Two towers.
---@class heed.DualModel: heed.models.Model
---@field text heed.CausalModel
---@field picture heed.VisionModel
local DualModel = extend("models.DualModel", {
  forward = 3, texts = 2, pictures = 1,
}, Model)


---@param config table
---@param o {text: table, picture: table, width: integer, eos: integer|false} `eos` counts from 0
local function fill(self, config, o)
  self.config, self.tokenizer, self.sentences = config, false, false
  self.text = causal.make(config, o.text)
  self.picture = vision.make(config, o.picture)
  self.eos = o.eos
  self.text_project = Linear(o.text.dim, o.width, {bias = not o.eos})
  local s = o.picture.stack
  self.pool = not o.eos and new_pool(o.picture.dim, o.picture.heads, s.hidden, s) or false
  self.picture_norm = o.eos and s.norm_type(o.picture.dim) or false
  self.picture_project = o.eos and Linear(o.picture.dim, o.width, {bias = false}) or false
  self.logit_scale = Parameter(o.eos and heed.zeros{} or heed.zeros(1))
  self.logit_bias = not o.eos and Parameter(heed.zeros(1)) or false
end

local make = maker(DualModel, WHO, fill)


local first = pool.Pool("first")

-- The id that old files have for the end of texts, where the largest id is meant: transformers,
-- modeling_clip.py.
local LARGEST <const> = 2

-- The features of each text at its end; at its beginning where it has none, as transformers has it.
local function at_end(x, ids, eos)
  if eos == LARGEST then
    return x[{heed.arange(ids:size(1), {device = ids.device}), ids:argmax(2)}]
  end
  local ends = ids:eq(eos + 1)
  local begins = heed.arange(ids:size(2), {device = ids.device}):eq(1)
  return first(x, {keys = ends | begins & ends:any(2, true):logical_not()})
end


-- Refuses ids of another rank, which are no texts, and texts that have no position.
local function check_ids(ids)
  if not options.is_alive(ids) or ids:dim() == 2 and ids:size(2) > 0 then return end
  heed.fail("%s: ids of shape (B, T) expected, T at least 1, got %s", WHO, options.kind(ids))
end


---Vectors of texts, of length 1. CLIP's are those of the first end token, or of the first position
---where there is none, SigLIP's those of the last position: it was trained with texts that are
---padded to its length.
---@param ids heed.Tensor (B, T); from 1
---@param given? heed.transformer.call
---@return heed.Tensor vectors (B, D)
function DualModel:texts(ids, given)
  check_ids(ids)
  local x = part.result(WHO, "text", (part.of(WHO, self, "text")(ids, given)))
  local eos = self.eos and field.count(self, "eos", 0)
  x = eos and at_end(x, ids, eos) or x:select(2, -1)
  return part.call(WHO, self, "text_project", x):normalize(2, -1)
end


---Vectors of pictures, of length 1.
---@param pixels heed.Tensor (B, C, H, W), scaled as the model was trained
---@return heed.Tensor vectors (B, D)
function DualModel:pictures(pixels)
  local x = part.call(WHO, self, "picture", pixels)
  if self.pool then return part.call(WHO, self, "pool", x):normalize(2, -1) end
  x = part.call(WHO, self, "picture_norm", x:select(2, 1))
  return part.call(WHO, self, "picture_project", x):normalize(2, -1)
end


---@param ids heed.Tensor (B, T)
---@param pixels heed.Tensor (N, C, H, W)
---@param given? heed.transformer.call of the texts
---@return heed.Tensor logits (B, N)
function DualModel:forward(ids, pixels, given)
  local scale = field.tensor(self, "logit_scale"):exp()
  local y = self:texts(ids, given):matmul(self:pictures(pixels).T) * scale
  return self.logit_bias and y + field.tensor(self, "logit_bias") or y
end


function DualModel:describe()
  return field.table(self, "config", "a configuration").model_type
end


-- Configurations ------------------------------------------------------------

local function section(c, name)
  local values = c:object(name) or c:refuse(name, "an object expected, got none")
  return Config.new(values)
end


local function text_options(c, norm, bidirectional)
  return {
    vocabulary = c:count("vocab_size"), dim = c:count("hidden_size"),
    heads = c:count("num_attention_heads"), layers = c:count("num_hidden_layers"),
    positions = c:count("max_position_embeddings"), head = false, bidirectional = bidirectional,
    stack = {
      norm = "pre", norm_type = norm, activation = c:activation("hidden_act"),
      hidden = c:count("intermediate_size"),
    },
  }
end


-- The names of a tower's layers.
local function tower(all, file, module)
  local function add(a, b)
    all[#all + 1] = {file .. ".encoder.layers.%d." .. a, module .. ".body.layers.%d." .. b}
  end
  for short, long in pairs{q_proj = "query", k_proj = "key", v_proj = "value", out_proj = "out"} do
    add("self_attn." .. short, "attend." .. long)
  end
  add("layer_norm1", "norm1")
  add("layer_norm2", "norm2")
  add("mlp.fc1", "mlp.up")
  add("mlp.fc2", "mlp.down")
  return all
end


local function names_of(own)
  local all = {
    ignored = {"embeddings%.position_ids$"},
    {"text_model.embeddings.token_embedding", "text.words"},
    {"text_model.embeddings.position_embedding", "text.position"},
    {"text_model.final_layer_norm", "text.body.norm"},
    {"vision_model.embeddings.patch_embedding", "picture.patches.project", as = vision.rows},
    {"vision_model.embeddings.position_embedding", "picture.patches.position"},
    {"logit_scale", "logit_scale"},
  }
  tower(all, "text_model", "text")
  tower(all, "vision_model", "picture")
  return table.move(own, 1, #own, #all + 1, all)
end


-- An older copy of a section, which must say the same.
local function check_copy(c, name, values)
  for key, value in next, c:object(name) or {} do
    if type(value) ~= "table" and values.values[key] ~= nil and values.values[key] ~= value then
      c:refuse(name, "%s as %s expected, as in the section, got %s", tostring(values.values[key]),
               key, tostring(value))
    end
  end
end


local clip = {}

clip.names = names_of{
  {"vision_model.embeddings.class_embedding", "picture.patches.class_token", as = vision.token},
  {"vision_model.pre_layrnorm", "picture.norm"},
  {"vision_model.post_layernorm", "picture_norm"},
  {"text_projection", "text_project"},
  {"visual_projection", "picture_project"},
}

function clip.build(c)
  local t, v = section(c, "text_config"), section(c, "vision_config")
  local eos = t:count("eos_token_id")
  local norm = encoder.norm(t:number("layer_norm_eps", 1e-5))
  local text = text_options(t, norm)
  local picture = vision.read(v, encoder.norm(v:number("layer_norm_eps", 1e-5)))
  picture.class_token, picture.bias, picture.norm = true, false, picture.stack.norm_type
  picture.stack.final_norm = false
  local width = c:count("projection_dim", 512)
  c:get("logit_scale_init_value")
  check_copy(c, "text_config_dict", t)
  check_copy(c, "vision_config_dict", v)
  c:ending{Model = true}
  for _, values in ipairs{t, v} do
    values:get("projection_dim")
    values:finish()
  end
  c:finish()
  return make(c.values, {text = text, picture = picture, width = width, eos = eos})
end


local siglip = {}

siglip.names = names_of{
  {"vision_model.post_layernorm", "picture.body.norm"},
  {"text_model.head", "text_project"},
  {"vision_model.head.probe", "pool.probe"},
  {"vision_model.head.attention.in_proj_weight",
   {"pool.attend.query.weight", "pool.attend.key.weight", "pool.attend.value.weight"}},
  {"vision_model.head.attention.in_proj_bias",
   {"pool.attend.query.bias", "pool.attend.key.bias", "pool.attend.value.bias"}},
  {"vision_model.head.attention.out_proj", "pool.attend.out"},
  {"vision_model.head.layernorm", "pool.norm"},
  {"vision_model.head.mlp.fc1", "pool.mlp.up"},
  {"vision_model.head.mlp.fc2", "pool.mlp.down"},
  {"logit_bias", "logit_bias"},
}

function siglip.build(c)
  local t, v = section(c, "text_config"), section(c, "vision_config")
  local text = text_options(t, encoder.norm(t:number("layer_norm_eps", 1e-6)), true)
  local picture = vision.read(v, encoder.norm(v:number("layer_norm_eps", 1e-6)))
  picture.class_token, picture.bias = false, true
  v:only("vision_use_head", true)
  c:ending{Model = true}
  local width = t:count("projection_size", text.dim)
  t:finish()
  v:finish()
  c:finish()
  return make(c.values, {text = text, picture = picture, width = width, eos = false})
end


return {clip = clip, siglip = siglip}
