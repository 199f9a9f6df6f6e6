-- One vector for a sequence: pooling over those tokens that are there, and a classifier on top.

local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local layers = require "heed.nn.layers"
local options = require "heed.internal.options"
local part = require "heed.nn.part"
local within = require "heed.internal.within"

local is_tensor = heed.is_tensor
local count, kind = options.count, options.kind

---@class heed.Pool.call
---@field lengths? heed.Tensor (B) int64: how many tokens each row has, the first of T
---@field keys? heed.Tensor (B, T) bool: which tokens are there

local CALL = {keys = options.any, lengths = options.any}


-- The tokens within the lengths, as bools (B, T).
local function keys_of_lengths(lengths, B, T)
  if not is_tensor(lengths) or lengths.dtype ~= "int64" or lengths:dim() ~= 1 or #lengths ~= B then
    heed.fail("nn.Pool: lengths of type int64 and shape (%d) expected, got %s", B,
              options.typed(lengths))
  end
  return within("nn.Pool", lengths, T)
end


local function check_keys(keys, B, T)
  if is_tensor(keys) and keys:dim() == 1 and B == 1 then keys = keys:unsqueeze(1) end
  if is_tensor(keys) and keys.dtype == "bool" and keys:dim() == 2 and keys:size(1) == B
     and keys:size(2) == T then
    return keys
  end
  heed.fail("nn.Pool: keys of type bool and shape (%d, %d) expected, got %s", B, T,
            options.typed(keys))
end


-- Which tokens are there, (B, T); nil for all.
local function keys_of(o, B, T)
  local keys = o.keys ~= nil and check_keys(o.keys, B, T) or nil
  if o.lengths == nil then return keys end
  local short = keys_of_lengths(o.lengths, B, T)
  return keys and keys & short or short
end


-- The features with a number instead of what stands where no key is: NaN perhaps.
local function hidden(x, keys, value)
  return x:masked_fill(~keys:unsqueeze(3), value)
end


-- Each way to pool: features (B, T, D), T at least 1, and keys (B, T) or nil -> (B, D). Rows
-- without tokens give 0.
local ways = {}

function ways.mean(x, keys)
  if not keys then return x:mean(2) end
  local share = keys:sum(2, true):clamp{min = 1}:to("float64") / x:size(2)
  return hidden(x, keys, 0):mean(2) / share:to(x.dtype)     -- no sum that float16 does not reach
end

function ways.max(x, keys)
  if not keys then return (x:max(2)) end
  local most = hidden(x, keys, -math.huge):max(2)
  return most:masked_fill(~keys:any(2, true), 0)
end

function ways.first(x, keys)
  if not keys then return x:select(2, 1) end
  return hidden(x, keys & keys:to("int64"):cumsum(2):eq(1), 0):sum(2)
end

function ways.last(x, keys)
  if not keys then return x:select(2, -1) end
  local number = keys:to("int64"):cumsum(2)
  return hidden(x, keys & number:eq(number:narrow(2, -1, 1)), 0):sum(2)
end


---The mean, the largest, the first or the last of a sequence's features, among tokens that are
---there.
---@class heed.Pool: heed.Module
---@field kind string
---@overload fun(way: "mean"|"max"|"first"|"last"): heed.Pool
local Pool = extend("nn.Pool", {init = 2, forward = 2})


---@param way "mean"|"max"|"first"|"last"
function Pool:init(way, given)
  options.read("nn.Pool", given, {})
  if type(way) ~= "string" or not ways[way] then
    heed.fail("nn.Pool: a way to pool expected, got %s; %s", kind(way),
              options.hint(tostring(way), options.names(ways)))
  end
  self.kind = way
end


local function way_of(self)
  local way = self.kind
  return type(way) == "string" and ways[way] or field.refuse(self, "kind", way, "a way to pool")
end


---@param x heed.Tensor (B, T, D), or (T, D)
---@param given? heed.Pool.call
---@return heed.Tensor pooled (B, D), or (D)
function Pool:forward(x, given)
  if not is_tensor(x) or x:dim() ~= 2 and x:dim() ~= 3 then
    heed.fail("nn.Pool: features of shape (B, T, D) or (T, D) expected as x, got %s", kind(x))
  end
  if x:dim() == 2 then return self:forward(x:unsqueeze(1), given):squeeze(1) end
  local B, T = x:size()
  local keys = keys_of(options.read("nn.Pool", given, CALL), B, T)
  if T == 0 then return x:sum(2) end
  return way_of(self)(x, keys)
end


function Pool:describe()
  way_of(self)
  return self.kind
end


---A class for a sequence: pooled features, and a linear layer that gives a logit for each class.
---@class heed.Classifier: heed.Module
---@field pool heed.Pool
---@field dropout heed.Dropout
---@field out heed.Linear
---@overload fun(dim: integer, classes: integer, options?: heed.Classifier.options): heed.Classifier
local Classifier = extend("nn.Classifier", {init = 3, forward = 2})


---@class heed.Classifier.options
---@field pool? "mean"|"max"|"first"|"last" "mean" unless given
---@field dropout? number of the pooled features, while training; 0 unless given
---@field bias? boolean true unless given

---@param dim integer of the features
---@param classes integer
---@param given? heed.Classifier.options
function Classifier:init(dim, classes, given)
  local who <const> = "nn.Classifier"
  dim, classes = count(who, "dim", dim), count(who, "classes", classes)
  local o = options.read(who, given, {bias = true, dropout = 0, pool = "mean"})
  self.pool = Pool(o.pool)
  self.dropout = layers.Dropout(options.probability(who, "dropout", o.dropout))
  self.out = layers.Linear(dim, classes, {bias = o.bias})
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.Pool.call
---@return heed.Tensor logits (B, classes), or (classes)
function Classifier:forward(x, given)
  local who <const> = "nn.Classifier"
  local y = part.of(who, self, "pool")(x, given)
  return part.call(who, self, "out", part.of(who, self, "dropout")(y))
end


return {Classifier = Classifier, Pool = Pool}
