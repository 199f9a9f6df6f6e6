-- SmolLM3: E. Bakouch et al. (2025). Llama without rope in every fourth layer, as in B. Yang et al.
-- (2025), "Rope to Nope and back again".

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"

local smollm3 = {names = llama.names}


-- Whether layer i, from 1, has rope: a list says so by 1.
local function with_rope(c, n)
  local list = c:list("no_rope_layers", n)
  local interval = c:count("no_rope_layer_interval", 4)
  return function(i)
    if list then return list[i] == 1 or list[i] == true end
    return i % interval ~= 0
  end
end


function smollm3.build(c, tensors)
  local o = llama.read(c, {base = 2000000, tie = true})
  o.stack.attention_bias = c:flag("attention_bias", false)
  o.stack.mlp_bias = c:flag("mlp_bias", false)
  local turns, w = with_rope(c, o.layers), c:may_count("sliding_window")
  if not c:flag("use_sliding_window", false) then w = nil end
  local window = llama.windows(c, w, function(i) return not turns(i + 1) end)
  o.stack.each = function(i)
    local mask = window and window(i)
    return {mask = mask and mask.mask or nil, rope = turns(i) and o.stack.rope}
  end
  return causal.new(c, o, tensors)
end


return smollm3
