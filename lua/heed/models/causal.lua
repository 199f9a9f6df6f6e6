-- A model of words, one after the other: ids become features, a stack of layers works on them, and
-- a linear layer gives logits of the next id. Families differ in the stack's options.

local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heed = require "heed"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local Model = require "heed.models.model"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local part = require "heed.nn.part"
local positions = require "heed.nn.positions"
local texts = require "heed.models.texts"
local transformer = require "heed.nn.transformer"

local WHO <const> = "models.CausalModel"

local causal = {}


---A model of words.
---@class heed.CausalModel: heed.models.Model
---@field words heed.Embedding
---@field position heed.Learned|false
---@field body heed.Decoder|heed.Encoder
---@field head heed.Linear|false
local CausalModel = extend("models.CausalModel", {forward = 2, hidden = 2}, Model)

---@class heed.models.causal
---@field vocabulary integer
---@field dim integer
---@field heads integer
---@field layers integer
---@field stack table options of nn.Decoder
---@field bidirectional? boolean each token sees those behind it, too
---@field embed_scale? number of the features that ids become
---@field logit_scale? number
---@field logit_cap? number
---@field positions? integer learnt ones
---@field head? boolean whether there are logits
---@field head_bias? boolean
---@field tied? boolean whether the logits' weights are those of the ids


---@param config table
---@param o heed.models.causal
local function fill(self, config, o)
  self.config, self.tokenizer, self.sentences = config, false, false
  self.writes = o.head and not o.bidirectional or false
  self.words = layers.Embedding(o.vocabulary, o.dim)
  self.position = o.positions and positions.Learned(o.positions, o.dim) or false
  if not o.bidirectional then o.stack.cross = false end
  local Stack = o.bidirectional and transformer.Encoder or transformer.Decoder
  self.body = Stack(o.dim, o.heads, o.layers, o.stack)
  self.head = o.head and layers.Linear(o.dim, o.vocabulary, {bias = o.head_bias or false}) or false
  if o.head and o.tied then self.head.weight = self.words.weight end
  self.embed_scale = o.embed_scale or false
  self.logit_scale, self.logit_cap = o.logit_scale or false, o.logit_cap or false
end

-- Whether a call takes option last, and none of the caller's code sees it.
function CausalModel:gives_last() return Module.is(self.head) end

local make = maker(CausalModel, WHO, fill)


-- Where tokens stand, for learnt positions; the layers of such a model take none.
local function add_positions(self, x, o)
  local position = part.of(WHO, self, "position")
  if o.positions ~= nil then x = position(x, {positions = o.positions})
  else x = position(x, {cache = o.cache, keys = o.keys, lengths = o.lengths}) end
  o.positions = nil
  return x
end


-- Features times a number that is rounded to their type first, as models were trained.
local function scaled(x, by)
  return x * heed.full({}, by, {device = x.device, dtype = x.dtype})
end


---The features behind the last layer.
---@param ids heed.Tensor (B, T), or (T); from 1
---@param given? heed.transformer.call
---@return heed.Tensor features (B, T, dim), or (T, dim)
---@return heed.Tensor[]? weights of each layer, with option weights
function CausalModel:hidden(ids, given)
  local o = options.passed(self.__name, given, "cache")
  local x = texts.embedded(WHO, self, ids)
  if self.embed_scale then x = scaled(x, field.factor(self, "embed_scale")) end
  if self.position then x = add_positions(self, x, o) end
  return part.of(WHO, self, "body")(x, o)
end


-- Option last, and the options besides it.
local function read_last(given)
  local o = options.passed(WHO, given, "cache")
  if o.last == nil then return false, o end
  if type(o.last) ~= "boolean" then
    heed.fail("%s: a boolean expected as option last, got %s", WHO, options.kind(o.last))
  elseif o.last and o.keys ~= nil then
    heed.fail("%s: option last: lengths expected instead of keys, for where sequences end", WHO)
  end
  local is_last = o.last
  o.last = nil
  return is_last, o
end


-- The features of each sequence's last token, (B, 1, dim), or (1, dim).
local function last_of(x, lengths)
  local dim = x:dim() - 1
  if lengths == nil then return x:narrow(dim, x:size(dim), 1) end
  if dim == 1 then return x:index_select(1, lengths) end
  return x[{heed.arange(#x, {device = x.device}), lengths}]:unsqueeze(2)
end


---@class heed.causal.call: heed.transformer.call
---@field last? boolean the logits behind each sequence's last token alone, of which option lengths,
---each at least 1, says where it stands

---@param ids heed.Tensor (B, T), or (T); from 1
---@param given? heed.causal.call
---@return heed.Tensor logits (B, T, vocabulary), with option last (B, 1, vocabulary); or features,
---of a model without a head
---@return heed.Tensor[]? weights of each layer, with option weights
function CausalModel:forward(ids, given)
  local is_last, o = read_last(given)
  local x, weights = self:hidden(ids, o)
  if is_last then x = last_of(x, o.lengths) end
  if not self.head then return x, weights end
  x = part.call(WHO, self, "head", x)
  if self.logit_scale then x = x * field.factor(self, "logit_scale") end
  local cap = self.logit_cap and field.factor(self, "logit_cap")
  if cap then x = (x / cap):tanh() * cap end
  return x, weights
end


function CausalModel:describe()
  return field.table(self, "config", "a configuration").model_type
end

causal.make = make


-- Whether models of a class have logits.
local ENDINGS <const> = {ForCausalLM = true, LMHeadModel = true, Model = false}


---Makes the model of a family, whose options stand in `o`.
---@param c heed.models.Config
---@param o table of the class, with `head_name`, the name of the logits' weights
---@param tensors table<string, heed.Tensor> the file's
---@return heed.CausalModel
function causal.new(c, o, tensors)
  o.vocabulary, o.head = c:count("vocab_size"), ENDINGS[c:ending(ENDINGS)]
  local name = o.head_name or "lm_head.weight"
  local tie = c:may_flag("tie_word_embeddings", o.tie)
  o.tied = tie == true or tie == nil and not tensors[name]
  if o.tied then tensors[name] = nil end            -- some files have it all the same
  c:finish()
  return make(c.values, o)
end


return causal
