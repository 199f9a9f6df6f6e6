-- OLMo 2: OLMo Team (2025), "2 OLMo 2 Furious". Norms stand behind attention and MLP, and those of
-- queries and keys take all heads at once.

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"
local names = require "heed.models.names"

local olmo2 = {}

olmo2.names = names.with(llama.names, {
  {"layers.%d.post_attention_layernorm", "body.layers.%d.norm1"},
  {"layers.%d.post_feedforward_layernorm", "body.layers.%d.norm2"},
})


function olmo2.build(c, tensors)
  local o = llama.read(c, {eps = 1e-5})
  o.stack.attention_bias = c:flag("attention_bias", false)
  o.stack.norm = "output"
  o.stack.qk_norm, o.stack.qk_norm_all = o.stack.norm_type, true
  return causal.new(c, o, tensors)
end


return olmo2
