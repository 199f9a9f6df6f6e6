-- Heads of models of whole texts: pooling, a linear layer with an activation, a norm, and a
-- linear layer that gives logits, of classes or of words. Families have some of these.

local extend = require "heed.nn.extend"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local Module = require "heed.nn.module"
local part = require "heed.nn.part"
local pool = require "heed.nn.pool"

local WHO <const> = "models.Head"

local heads = {}


---@class heed.models.Head: heed.Module
---@field pool heed.Pool|false
---@field dense heed.Linear|false
---@field norm heed.LayerNorm|false
---@field out heed.Linear
local Head = extend("models.Head", {forward = 2})

---@class heed.models.head
---@field outputs integer|false false: as many as words, with the weights of the ids
---@field pool? string how a text's features become one; without it, logits of each token
---@field dense? boolean
---@field dense_bias? boolean
---@field activation? fun(x: heed.Tensor): heed.Tensor
---@field norm? fun(dim: integer): heed.Module
---@field out_bias? boolean


---@param dim integer
---@param o heed.models.head
---@param words heed.Tensor (vocabulary, width)
local function fill(self, dim, o, words)
  local width = o.outputs and dim or words:size(2)
  self.pool = o.pool and pool.Pool(o.pool) or false
  self.dense = o.dense and layers.Linear(dim, width, {bias = o.dense_bias ~= false}) or false
  self.activation = o.activation or false
  self.norm = o.norm and o.norm(width) or false
  self.out = layers.Linear(width, o.outputs or words:size(1), {bias = o.out_bias ~= false})
  if not o.outputs then self.out.weight = words end
end

local new_head = maker(Head, WHO, fill)


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given {keys: heed.Tensor?, lengths: heed.Tensor?}
---@return heed.Tensor logits
function Head:forward(x, given)
  if self.pool then x = part.of(WHO, self, "pool")(x, given) end
  for _, name in ipairs{"dense", "activation", "norm"} do
    if self[name] then x = part.call(WHO, self, name, x) end
  end
  return part.call(WHO, self, "out", x)
end

heads.new = new_head


---Whether a head gives logits of classes: not of words, whose weights are those of the ids.
---@param head any
---@param words heed.Embedding?
---@return boolean
function heads.is_of_classes(head, words)
  local out = rawequal(getmetatable(head), Head) and head.out
  if not out then return false end
  return not (Module.is(out) and Module.is(words) and rawequal(out.weight, words.weight))
end


-- How many classes the file names.
local function classes(c)
  local labels, n = c:object("id2label"), 0
  for _ in next, labels or {} do n = n + 1 end
  return n > 0 and n or c:count("num_labels", 2)
end


---The options of a head, in which functions of the configuration stand for what it says.
---@param c heed.models.Config
---@param given table
---@return heed.models.head
function heads.options(c, given)
  local o = {}
  for name, value in next, given do
    if type(value) == "function" then value = value(c) end
    o[name] = value
  end
  if o.outputs == nil then o.outputs = classes(c) end
  return o
end


---The names of a model with its head.
---@param all heed.models.names
---@param ending heed.models.ending
---@return heed.models.names
function heads.names(all, ending)
  local own = table.move(all, 1, #all, 1, {prefix = all.prefix, ignored = {}})
  for _, rule in ipairs(ending.names or {}) do own[#own + 1] = rule end
  for _, patterns in ipairs{all.ignored or {}, ending.ignored or {}} do
    table.move(patterns, 1, #patterns, #own.ignored + 1, own.ignored)
  end
  return own
end


return heads
