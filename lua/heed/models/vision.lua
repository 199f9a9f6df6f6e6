-- A model of pictures: patches become features, a stack of layers works on them, and a head may
-- follow.

local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heads = require "heed.models.heads"
local maker = require "heed.models.maker"
local Model = require "heed.models.model"
local part = require "heed.nn.part"
local patches = require "heed.nn.patches"
local transformer = require "heed.nn.transformer"

local WHO <const> = "models.VisionModel"

local vision = {}


---A model of pictures.
---@class heed.VisionModel: heed.models.Model
---@field patches heed.Patches
---@field norm heed.LayerNorm|false before the first layer
---@field body heed.Encoder
---@field head heed.models.Head|heed.Module|false
local VisionModel = extend("models.VisionModel", {forward = 1, hidden = 1}, Model)


---@param config table
---@param o {dim: integer, heads: integer, layers: integer, stack: table, patch: integer,
---image: integer, channels: integer, class_token: boolean, bias: boolean, norm: function?,
---head: heed.models.head|false}
local function fill(self, config, o)
  self.config, self.tokenizer, self.sentences = config, false, false
  self.patches = patches.Patches(o.patch, o.dim, {
    channels = o.channels, bias = o.bias, class_token = o.class_token,
    positions = (o.image // o.patch) ^ 2 // 1,
  })
  self.norm = o.norm and o.norm(o.dim) or false
  self.body = transformer.Encoder(o.dim, o.heads, o.layers, o.stack)
  self.head = o.head and heads.new(o.dim, o.head) or false
end

local make = maker(VisionModel, WHO, fill)


---The features of patches behind the last layer, that of the class token first.
---@param pixels heed.Tensor (B, C, H, W), scaled as the model was trained
---@return heed.Tensor features (B, N, dim)
function VisionModel:hidden(pixels)
  local x = part.call(WHO, self, "patches", pixels)
  if self.norm then x = part.call(WHO, self, "norm", x) end
  return part.call(WHO, self, "body", x)
end


---@param pixels heed.Tensor (B, C, H, W)
---@return heed.Tensor logits (B, classes); or features, of a model without a head
function VisionModel:forward(pixels)
  local x = self:hidden(pixels)
  return self.head and part.of(WHO, self, "head")(x, {}) or x
end


function VisionModel:describe()
  return field.table(self, "config", "a configuration").model_type
end

vision.make = make


-- Tensors of files as nn.Patches has them: a convolution's weight as rows, and single ones without
-- axes of 1.
function vision.rows(t) return t:dim() == 4 and t:flatten(2) or t end

function vision.token(t) return t:dim() < 3 and t:reshape(1, 1, t:size(-1)) or t end

function vision.table(t) return t:dim() == 3 and t:squeeze(1) or t end


---Sizes that all families say with the same keys.
---@param c heed.models.Config
---@param norm fun(dim: integer): heed.Module
---@return table
function vision.read(c, norm)
  local image, patch = c:count("image_size"), c:count("patch_size")
  if image % patch ~= 0 then
    c:refuse("image_size", "a multiple of %d expected, got %d", patch, image)
  end
  return {
    dim = c:count("hidden_size"), heads = c:count("num_attention_heads"),
    layers = c:count("num_hidden_layers"), image = image, patch = patch,
    channels = c:count("num_channels", 3),
    stack = {
      norm = "pre", norm_type = norm, activation = c:activation("hidden_act"),
      hidden = c:count("intermediate_size"),
    },
  }
end


return vision
