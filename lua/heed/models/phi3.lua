-- Phi-3, 3.5 and 4-mini: Microsoft (2024), "Phi-3 technical report". Llama with packed matrices,
-- and longrope, first called su and yarn, in those that were stretched.

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"
local names = require "heed.models.names"

local phi3 = {}

phi3.names = names.with(llama.names, {
  {"layers.%d.self_attn.qkv_proj", {
    "body.layers.%d.attend.query", "body.layers.%d.attend.key", "body.layers.%d.attend.value",
  }},
  {"layers.%d.mlp.gate_up_proj", {"body.layers.%d.mlp.gate", "body.layers.%d.mlp.up"}},
})


function phi3.build(c, tensors)
  local o = llama.read(c, {eps = 1e-5, also = {su = "longrope", yarn = "longrope"}})
  local w = c:may_count("sliding_window")
  c:only("full_attn_mod", 1)
  o.stack.each = llama.windows(c, w, function() return true end)
  return causal.new(c, o, tensors)
end


return phi3
