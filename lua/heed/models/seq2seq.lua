-- A model that reads one sequence and writes another: an encoder, a decoder that attends to what it
-- gives, and logits of the next id. Both share the features of ids.

local attending = require "heed.nn.attending"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heed = require "heed"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local Model = require "heed.models.model"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local places = require "heed.attention.places"
local positions = require "heed.nn.positions"
local texts = require "heed.models.texts"
local transformer = require "heed.nn.transformer"

local WHO <const> = "models.SequenceModel"

local seq2seq = {}


---A model that reads one sequence and writes another.
---@class heed.SequenceModel: heed.models.Model
---@field words heed.Embedding
---@field source heed.models.Side
---@field target heed.models.Side
---@field head heed.Linear|false
---@field logit_bias heed.Tensor|false (1, vocabulary)
local SequenceModel = extend("models.SequenceModel", {
  forward = 3, hidden = 3, encode = 2, decode = 3,
}, Model)


---One side of a model: positions, a norm, and layers.
---@class heed.models.Side: heed.Module
---@field position heed.Learned|false
---@field norm heed.LayerNorm|false
---@field bias heed.Bias|false that all layers share
---@field body heed.Encoder|heed.Decoder
local Side = extend("models.Side", {forward = 3})


---@param Stack function
---@param dim integer
---@param heads integer
---@param o {layers: integer, stack: table, positions: integer?, norm: function?, bias: any}
local function fill_side(self, Stack, dim, heads, o)
  self.position = o.positions and positions.Learned(o.positions, dim) or false
  self.first = o.first or 0
  self.norm = o.norm and o.norm(dim) or false
  self.bias = o.bias or false
  o.stack.position_bias = o.bias
  self.body = Stack(dim, heads, o.layers, o.stack)
end

local new_side = maker(Side, "models.Side", fill_side)


-- Where tokens stand, which are rows of a table from `first` on.
local function add_positions(side, x, o)
  local at = o.positions
  if at == nil and o.cache then
    attending.check_cache("models.Side", o.cache)
    at = o.cache:positions(x:size(-2), {keys = o.keys, lengths = o.lengths})
  end
  if at == nil and o.keys ~= nil then at = places.of_keys(o.keys) end
  o.positions = nil
  local position, first = part.of("models.Side", side, "position"), field.count(side, "first", 0)
  if at == nil or math.type(at) == "integer" then
    return position(x, {offset = (at or 0) + first})
  end
  return position(x, {positions = heed.is_tensor(at) and at + first or at})
end


---@param x heed.Tensor (B, T, dim)
---@param o table options of the stack, a table of the call's own
---@param context? heed.Tensor (B, S, dim)
function Side:forward(x, o, context)
  if self.position then x = add_positions(self, x, o) end
  if self.norm then x = part.call("models.Side", self, "norm", x) end
  local body = part.of("models.Side", self, "body")
  if context ~= nil then return body(x, context, o) end
  return body(x, o)
end


---@param config table
---@param o {vocabulary: integer, dim: integer, source: table, target: table, tied: boolean,
---embed_scale: number?, out_scale: number?, logit_bias: boolean?}
local function fill(self, config, o)
  self.config, self.tokenizer, self.sentences = config, false, false
  self.writes, self.is_sequence = true, true
  self.words = layers.Embedding(o.vocabulary, o.dim)
  self.source = new_side(transformer.Encoder, o.dim, o.source.heads, o.source)
  self.target = new_side(transformer.Decoder, o.dim, o.target.heads, o.target)
  self.head = layers.Linear(o.dim, o.vocabulary, {bias = false})
  if o.tied then self.head.weight = self.words.weight end
  self.logit_bias = o.logit_bias and parameter.Parameter(heed.zeros(1, o.vocabulary)) or false
  self.embed_scale, self.out_scale = o.embed_scale or false, o.out_scale or false
end

local make = maker(SequenceModel, WHO, fill)


local function embedded(self, ids)
  local x = texts.embedded(WHO, self, ids)
  return self.embed_scale and x * field.factor(self, "embed_scale") or x
end


---The features that the decoder attends to.
---@param source heed.Tensor (B, S), or (S); ids from 1
---@param given? heed.transformer.call
---@return heed.Tensor features (B, S, dim), or (S, dim)
---@return heed.Tensor[]? weights
function SequenceModel:encode(source, given)
  local o = options.passed("encode", given, "keys")
  return part.of(WHO, self, "source")(embedded(self, source), o)
end


-- Features behind the last layer of the decoder.
local function decoded(self, target, context, given)
  local o = options.passed("decode", given, "cache")
  return part.of(WHO, self, "target")(embedded(self, target), o, context)
end


local function logits_of(self, x)
  x = part.result(WHO, "target", x)
  if self.out_scale then x = x * field.factor(self, "out_scale") end
  x = part.call(WHO, self, "head", x)
  return self.logit_bias and x + field.tensor(self, "logit_bias") or x
end


---Logits of the next ids, of what `encode` gave: `heed.generate` calls it, as
---`function(...) return model:decode(...) end` with option `context`.
---@param target heed.Tensor (B, T), or (T); ids from 1
---@param context heed.Tensor (B, S, dim), or (S, dim)
---@param given? heed.transformer.call
---@return heed.Tensor logits (B, T, vocabulary)
---@return heed.Tensor[]? weights
---@return heed.Tensor[]? cross_weights
function SequenceModel:decode(target, context, given)
  local x, weights, cross_weights = decoded(self, target, context, given)
  return logits_of(self, x), weights, cross_weights
end


-- The features of the target; options are the decoder's, `context_` before those about the source.
local function run(self, source, target, given)
  local o = options.passed(self.__name, given, "cache")
  local context = self:encode(source, {keys = o.context_keys, lengths = o.context_lengths})
  return decoded(self, target, context, o)
end


---The features of the target behind the last layer.
---@param source heed.Tensor (B, S); ids from 1
---@param target heed.Tensor (B, T)
---@param given? heed.transformer.call
---@return heed.Tensor features (B, T, dim)
function SequenceModel:hidden(source, target, given)
  return run(self, source, target, given)
end


---@param source heed.Tensor (B, S); ids from 1
---@param target heed.Tensor (B, T)
---@param given? heed.transformer.call `context_lengths` and `context_keys` say which of the source
---are there
---@return heed.Tensor logits (B, T, vocabulary)
---@return heed.Tensor[]? weights
---@return heed.Tensor[]? cross_weights
function SequenceModel:forward(source, target, given)
  local x, weights, cross_weights = run(self, source, target, given)
  return logits_of(self, x), weights, cross_weights
end


function SequenceModel:describe()
  return field.table(self, "config", "a configuration").model_type
end


---Makes the model of a family.
---@param c heed.models.Config
---@param o table of the class, with `tie`, where the file does not say it
---@param tensors table<string, heed.Tensor>
---@return heed.SequenceModel
function seq2seq.new(c, o, tensors)
  c:ending{ForConditionalGeneration = true}
  o.vocabulary = c:count("vocab_size")
  local tie = c:may_flag("tie_word_embeddings", o.tie)
  o.tied = tie == true or tie == nil and not tensors["lm_head.weight"]
  if o.tied then tensors["lm_head.weight"] = nil end
  c:finish()
  return make(c.values, o)
end


return seq2seq
