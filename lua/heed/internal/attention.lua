-- heed.attention: a call without masks, biases and sinks goes straight to C. Those are turned into
-- rules and tensors by heed.internal.attention_values, which the first of them loads.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local method = require "heed.internal.method"
local torch_names = require "heed.internal.torch_names"

local called, has_values = core.called, core.has_values

local attention = {}


-- The words to write for options of PyTorch's. Layers have an option for padding, which this lacks.
local elsewhere = setmetatable({
  key_padding_mask = "mask = m of shape (B, 1, 1, S), true where keys are; or lengths = n",
}, {__index = torch_names.attention})

core.tell_options("attention", {
  "mask", "bias", "lengths", "causal", "offset", "scale", "softcap", "sink", "dropout", "weights",
  "lse", "fused",
}, elsewhere)


local values

local function load_values()
  values = values or require "heed.internal.attention_values"
  return values
end


local attend_in_c = heed.attention

---heed.attention with options that are a layer's own, without a metatable: they may be changed.
---@param q heed.Tensor
---@param k heed.Tensor
---@param v heed.Tensor
---@param o heed.attention.options
---@return heed.Tensor y
---@return heed.Tensor? weights
---@return heed.Tensor? lse
function attention.run(q, k, v, o)
  local valued = o.mask ~= nil or o.bias ~= nil or o.sink ~= nil
  if valued and has_values(o) then
    return called("attention", load_values().attend, attend_in_c, q, k, v, o)
  end
  return attend_in_c(q, k, v, o)
end


method.around("attention", function(attend)
  return function(q, k, v, given, ...)
    if given ~= nil and has_values(given) then
      return called("attention", load_values().attend_given, attend, q, k, v, given, ...)
    end
    return attend(q, k, v, given, ...)
  end
end)


return attention
