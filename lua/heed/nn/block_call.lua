-- The options that transformer layers and stacks are called with, and the attention that each of
-- them goes to.

local attending = require "heed.nn.attending"
local heed = require "heed"
local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

---@class heed.transformer.call
---@field mask? any who may attend, among x: as in nn.MultiHeadAttention, like what follows
---@field bias? any added to the scores
---@field causal? boolean no key behind the query's position; unless given true for decoders, false
---for encoders
---@field lengths? heed.Tensor (B) how many tokens of x there are in each sequence
---@field keys? heed.Tensor bool (B, T): which tokens of x are there
---@field offset? integer
---@field positions? heed.Tensor int64 (T) or (B, T): where the tokens of x stand, from 0
---@field context_mask? any who may attend to what of the context
---@field context_bias? any
---@field context_lengths? heed.Tensor (B)
---@field context_keys? heed.Tensor bool (B, S)
---@field cache? heed.Cache one for all attention layers of a model
---@field scale? number of all scores
---@field softcap? number of all scores
---@field fused? boolean
---@field weights? boolean whether attention's weights come back too

local call = {}

-- For each kind of attention: its options, and what they are called in a call of the layer.
local ANY = {
  cache = "cache", fused = "fused", scale = "scale", softcap = "softcap", weights = "weights",
}
local SELF = {
  bias = "bias", causal = "causal", keys = "keys", lengths = "lengths", mask = "mask",
  offset = "offset", positions = "positions",
}
local CONTEXT = {
  bias = "context_bias", keys = "context_keys", lengths = "context_lengths", mask = "context_mask",
}
local SOURCE = {
  bias = "source_bias", keys = "context_keys", lengths = "context_lengths", mask = "source_mask",
}


-- Defaults for all names that stand in some tables.
local function known(...)
  local all = {}
  for _, names in ipairs{ANY, ...} do
    for _, name in pairs(names) do all[name] = options.any end
  end
  all.weights = false
  return all
end


local WITHOUT_CONTEXT, WITH_CONTEXT = known(SELF), known(SELF, CONTEXT)
local WITH_SOURCE = known(SELF, CONTEXT, SOURCE)


-- The names that an attention has for its options, by their names in a call of the layer.
local function inverse(...)
  local names_there = {}
  for _, names in ipairs{ANY, ...} do
    for name, from in pairs(names) do names_there[from] = name end
  end
  return names_there
end


local TO_SELF, TO_CONTEXT, TO_SOURCE = inverse(SELF), inverse(CONTEXT), inverse(SOURCE)


local function read(who, given, names)
  local o = options.given(who, given, names, torch_names.transformer)
  if o.weights == nil then o.weights = false end        -- nn.Attention would return them
  if o.cache ~= nil then attending.check_cache(who, o.cache) end
  return o
end


---The options of a call that has no context.
---@param who string
---@param given any
---@return heed.transformer.call
function call.read(who, given, ...)
  if heed.is_tensor(given) then
    heed.fail("%s: options expected behind x, since it has no cross-attention, got %s", who,
              options.kind(given))
  end
  options.no_more(who, 2, ...)
  return read(who, given, WITHOUT_CONTEXT)
end


---Context and options of a call that has one, which a cache may hold already.
---@param who string
---@param context any
---@param given any
---@return heed.Tensor? context
---@return heed.transformer.call
function call.read_context(who, context, given, ...)
  options.no_more(who, 3, ...)
  if type(context) == "table" and given == nil then context, given = nil, context end
  local o = read(who, given, WITH_CONTEXT)
  if not heed.is_tensor(context) and (context ~= nil or o.cache == nil) then
    heed.fail("%s: a context expected behind x, or cross = false where it was made, got %s", who,
              options.kind(context))
  end
  return context, o
end


---The options of a call that has a source and a target.
---@param who string
---@param given any
---@return heed.transformer.call
function call.read_source(who, given)
  return read(who, given, WITH_SOURCE)
end


-- Options of a call under the names that an attention has for them.
local function pick(o, names_there)
  local picked = {}
  for from, value in next, o do
    local name = names_there[from]
    if name then picked[name] = value end
  end
  return picked
end


---The options of the attention among x.
---@param o heed.transformer.call
---@param causal boolean unless the call says otherwise
---@return heed.attention.call
function call.of_self(o, causal)
  local picked = pick(o, TO_SELF)
  if picked.causal == nil then picked.causal = causal end
  return picked
end


---The options of the attention to the context.
---@param o heed.transformer.call
---@return heed.attention.call
function call.of_context(o)
  return pick(o, TO_CONTEXT)
end


---The encoder's options, of a call with a source and a target.
---@param o heed.transformer.call
---@return heed.transformer.call
function call.of_source(o)
  local picked = pick(o, TO_SOURCE)
  picked.cache = nil
  return picked
end


---The decoder's options.
---@param o heed.transformer.call
---@return heed.transformer.call
function call.of_target(o)
  local picked = {}
  for name, value in next, o do
    if WITH_CONTEXT[name] ~= nil then picked[name] = value end
  end
  return picked
end


---The results of a call: weights only where the call asks for them.
---@param x heed.Tensor
---@param o heed.transformer.call
---@param ... any weights, of each kind of attention that there is
---@return heed.Tensor x
---@return any ...
function call.results(x, o, ...)
  if not o.weights then return x end
  return x, ...
end


return call
