-- A model that sees a text as a whole: features of ids, positions and kinds of texts are added and
-- normed, a stack of layers works on them, and a head may follow. Families differ in the stack's
-- options, and in how positions are counted.

local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heads = require "heed.models.heads"
local heed = require "heed"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local Model = require "heed.models.model"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local part = require "heed.nn.part"
local places = require "heed.attention.places"
local positions = require "heed.nn.positions"
local texts = require "heed.models.texts"
local transformer = require "heed.nn.transformer"

local WHO <const> = "models.EncoderModel"

local encoder = {}


---A model of whole texts.
---@class heed.EncoderModel: heed.models.Model
---@field words heed.Embedding
---@field position heed.Learned|false
---@field types heed.Embedding|false
---@field norm heed.LayerNorm|false
---@field project heed.Linear|false
---@field bias heed.Bias|false that all layers share
---@field body heed.Encoder
---@field pooler heed.Linear|false
---@field head heed.models.Head|false
local EncoderModel = extend("models.EncoderModel", {forward = 2, hidden = 2}, Model)

---@class heed.models.encoder
---@field vocabulary integer
---@field dim integer
---@field heads integer
---@field layers integer
---@field stack table options of nn.Encoder
---@field width? integer of what is added, where it differs from dim
---@field positions? integer learnt ones
---@field pad? integer the id of padding, from 0, in models that do not count it: their first
---position is pad + 1, and that of padding is pad
---@field types? integer kinds of texts
---@field norm? fun(dim: integer): heed.Module
---@field bias? heed.Bias
---@field pooler? boolean
---@field head? table options of the head


---@param config table
---@param o heed.models.encoder
local function fill(self, config, o)
  local width = o.width or o.dim
  self.config, self.tokenizer, self.sentences = config, false, false
  self.words = layers.Embedding(o.vocabulary, width)
  self.position = o.positions and positions.Learned(o.positions, width) or false
  self.types = o.types and layers.Embedding(o.types, width) or false
  self.norm = o.norm and o.norm(width) or false
  self.project = width ~= o.dim and layers.Linear(width, o.dim) or false
  self.bias = o.bias or false
  o.stack.position_bias = o.bias
  self.body = transformer.Encoder(o.dim, o.heads, o.layers, o.stack)
  self.pooler = o.pooler and layers.Linear(o.dim, o.dim) or false
  self.head = o.head and heads.new(o.dim, o.head, self.words.weight) or false
  self.pad = o.pad or false
end

local make = maker(EncoderModel, WHO, fill)


-- Where tokens stand if padding is not counted, which has the position before the first.
local function behind_padding(ids, pad, o)
  local at = o.positions
  if at ~= nil then return heed.is_tensor(at) and at + (pad + 1) or at end
  local there = o.keys ~= nil and o.keys or heed.ne(ids, pad + 1)
  there = there:to("int64")
  return there:cumsum(-1) * there + pad
end


-- Adds learnt positions. Rows that are padded on the left, as option keys says, begin at 0, too.
local function add_positions(self, x, ids, o)
  local at = o.positions
  if self.pad then at = behind_padding(ids, field.count(self, "pad", 0), o)
  elseif at == nil and o.keys ~= nil then at = places.of_keys(o.keys) end
  o.positions = nil
  return part.of(WHO, self, "position")(x, {positions = at})
end


-- Adds the kind of text that each token is of; the first unless option types says so.
local function add_types(self, x, kinds)
  local types = self.types
  if kinds == nil and Module.is(types) then
    return x + field.matrix(types, "weight"):narrow(1, 1, 1):to(x.dtype)    -- of blocks, too
  end
  if kinds == nil then kinds = heed.ones({1}, {dtype = "int64", device = x.device}) end
  return x + part.call(WHO, self, "types", kinds)
end


local function read(self, given)
  local o = options.passed(self.__name, given, "keys")
  if o.cache ~= nil then
    heed.fail("%s: option cache: an encoder reads whole texts, and has no steps", self.__name)
  end
  local kinds = o.types
  if kinds ~= nil and not self.types then
    heed.fail("%s: option types: this model has one kind of text", self.__name)
  end
  o.types = nil
  return o, kinds
end


---@class heed.models.encoder.call: heed.transformer.call
---@field types? heed.Tensor int64 (B, T): of which text each token is, from 1

---The features behind the last layer.
---@param ids heed.Tensor (B, T), or (T); from 1
---@param given? heed.models.encoder.call
---@return heed.Tensor features (B, T, dim), or (T, dim)
---@return heed.Tensor[]? weights of each layer, with option weights
function EncoderModel:hidden(ids, given)
  local o, kinds = read(self, given)
  local x = texts.embedded(WHO, self, ids)
  if self.types then x = add_types(self, x, kinds) end
  if self.position then x = add_positions(self, x, ids, o) end
  if self.norm then x = part.call(WHO, self, "norm", x) end
  if self.project then x = part.call(WHO, self, "project", x) end
  return part.of(WHO, self, "body")(x, o)
end


---@param ids heed.Tensor (B, T), or (T); from 1
---@param given? heed.models.encoder.call
---@return heed.Tensor y logits (B, T, vocabulary) of masked words, (B, classes) or (B, T, classes);
---or features, of a model without a head
---@return heed.Tensor[]? weights of each layer, with option weights
function EncoderModel:forward(ids, given)
  local x, weights = self:hidden(ids, given)
  if not self.head then return x, weights end
  local head = part.of(WHO, self, "head")
  return head(x, {keys = given and given.keys, lengths = given and given.lengths}), weights
end


function EncoderModel:describe()
  return field.table(self, "config", "a configuration").model_type
end


---A maker of LayerNorms.
---@param eps number
---@param bias? boolean true unless false
---@return fun(dim: integer): heed.LayerNorm
function encoder.norm(eps, bias)
  return function(dim) return layers.LayerNorm(dim, {eps = eps, bias = bias ~= false}) end
end


---The head of a model, by the end of its class's name.
---@class heed.models.ending
---@field head? table options of the head
---@field names heed.models.rule[]
---@field ignored? string[]
---@field pooler? boolean whether the head has the pooler

---Makes the model of a family.
---@param c heed.models.Config
---@param o heed.models.encoder
---@param tensors table<string, heed.Tensor>
---@param family {names: heed.models.names, endings: table<string, heed.models.ending>}
---@return heed.EncoderModel
---@return heed.models.names
function encoder.new(c, o, tensors, family)
  local name = c:ending(family.endings)
  local ending = family.endings[name]
  if name == "ForMaskedLM" then c:only("tie_word_embeddings", true)
  else c:get("tie_word_embeddings") end
  o.head = ending.head and heads.options(c, ending.head)
  if family.pooler and not ending.head then
    o.pooler = tensors[family.pooler] ~= nil
    for _, prefix in ipairs(family.names.prefix) do
      o.pooler = o.pooler or tensors[prefix .. family.pooler] ~= nil
    end
  end
  o.vocabulary = c:count("vocab_size")
  c:finish()
  return make(c.values, o), heads.names(family.names, ending)
end


return encoder
