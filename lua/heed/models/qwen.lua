-- Qwen2, 2.5 and 3: Qwen Team (2024), "Qwen2 technical report"; (2025), "Qwen3 technical report".
-- Qwen2 is Llama with biases of queries, keys and values; Qwen3 has norms of queries and keys.

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"

local qwen = {names = llama.names}


-- Layers from max_window_layers on slide, if the file says that any do.
local function windows(c)
  local first, w = c:number_of("max_window_layers", 28), c:may_count("sliding_window", 4096)
  if not c:flag("use_sliding_window", false) then w = nil end
  return llama.windows(c, w, function(i) return i >= first end)
end


function qwen.build(c, tensors)
  local is_third = c.values.model_type == "qwen3"
  local o = llama.read(c, {head_dim = is_third and 128 or nil})
  o.stack.each = windows(c)
  if is_third then
    o.stack.attention_bias, o.stack.qk_norm = c:flag("attention_bias", false), o.stack.norm_type
  else
    o.stack.attention_bias, o.stack.out_bias = true, false
  end
  return causal.new(c, o, tensors)
end


return qwen
