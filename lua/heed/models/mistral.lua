-- Mistral 7B, Ministral: A. Jiang et al. (2023), "Mistral 7B". Llama with a window in all layers.

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"

local mistral = {names = llama.names}


function mistral.build(c, tensors)
  local o = llama.read(c, {})
  local w = c:may_count("sliding_window", 4096)
  o.stack.each = llama.windows(c, w, function() return true end)
  return causal.new(c, o, tensors)
end


return mistral
