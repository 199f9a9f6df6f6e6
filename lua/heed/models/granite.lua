-- Granite 3: IBM (2024), "Granite 3.0 language models". Llama with multipliers, which come from
-- G. Yang et al. (2022), "Tensor programs V".

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"

local granite = {names = llama.names}


function granite.build(c, tensors)
  local o = llama.read(c, {})
  o.stack.attention_bias = c:flag("attention_bias", false)
  o.stack.mlp_bias = c:flag("mlp_bias", false)
  o.stack.scale = c:number("attention_multiplier", 1)          -- instead of 1 / sqrt(head_dim)
  o.stack.branch_scale = c:number("residual_multiplier", 1)
  o.embed_scale = c:number("embedding_multiplier", 1)
  o.logit_scale = 1 / c:number("logits_scaling", 1)
  return causal.new(c, o, tensors)
end


return granite
