-- Layers of attention: that with one head, as lecture notes write it, and nn.MultiHeadAttention.

local attending = require "heed.nn.attending"
local attention = require "heed.internal.attention"
local extend = require "heed.nn.extend"
local layers = require "heed.nn.layers"
local MultiHeadAttention = require "heed.nn.multihead"
local options = require "heed.internal.options"
local part = require "heed.nn.part"

local Linear = layers.Linear
local count = options.count

---Attention with one head.
---@class heed.Attention: heed.Module
---@overload fun(dim: integer, key_dim?: integer): heed.Attention
local Attention = extend("nn.Attention", {init = 2, forward = 3})

Attention.heads = 1

local SELF <const> = "nn.Attention"
local read_call = attending.reader(SELF, true)


---@param dim integer of the features
---@param key_dim? integer of queries, keys and values; `dim` unless given
function Attention:init(dim, key_dim)
  dim = count(SELF, "dim", dim)
  if key_dim == nil then key_dim = dim end
  key_dim = count(SELF, "key_dim", key_dim)
  self.Wq = Linear(dim, key_dim)
  self.Wk = Linear(dim, key_dim)
  self.Wv = Linear(dim, key_dim)
  self.Wc = Linear(key_dim, dim)   -- back to the features
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param context? heed.Tensor (B, S, dim), or (S, dim)
---@param given? heed.attention.call `weights` is true unless given
---@return heed.Tensor output (B, T, dim), or (T, dim)
---@return heed.Tensor? weights (B, T, S), or (T, S)
---@return heed.Tensor? lse (B, T), or (T), with option lse
function Attention:forward(x, context, given)
  local call = read_call(self, x, context, given)
  attending.refuse_positions(call)
  local source, stored = call.context or call.x, call.stored
  local function heads_of(name, t) return part.call(SELF, self, name, t):unsqueeze(2) end
  local q = heads_of("Wq", call.x)                                    -- (B, 1, T, D)
  local k = stored and stored.k or heads_of("Wk", source)             -- (B, 1, S, D)
  local v = stored and stored.v or heads_of("Wv", call.values or source)
  attending.begin(call)
  local z, weights, lse = attending.attend(call, q, k, v, attention.run)
  weights, lse = weights and weights:squeeze(2), lse and lse:squeeze(2)
  return attending.results(call, part.call(SELF, self, "Wc", z:squeeze(2)), weights, lse)
end


return {Attention = Attention, MultiHeadAttention = MultiHeadAttention}
