-- Gemma, Gemma 2 and 3 (text), EmbeddingGemma: Gemma Team (2024), "Gemma"; "Gemma 2"; (2025),
-- "Gemma 3 technical report". Norms multiply by 1 + weight, and ids' features are times sqrt(dim).

local causal = require "heed.models.causal"
local llama = require "heed.models.llama"
local masks = require "heed.mask"
local names = require "heed.models.names"

-- Layers of Gemma have two norms, those of 2 and 3 have four.
local gemma, sandwich = {names = llama.names}, {}

sandwich.names = names.with(llama.names, {
  {"layers.%d.input_layernorm", "body.layers.%d.norm1"},
  {"layers.%d.post_attention_layernorm", "body.layers.%d.out_norm1"},
  {"layers.%d.pre_feedforward_layernorm", "body.layers.%d.norm2"},
  {"layers.%d.post_feedforward_layernorm", "body.layers.%d.out_norm2"},
})


local function read(c, o)
  o.plus_one, o.tie, o.head_dim = true, true, 256
  local all = llama.read(c, o)
  all.embed_scale = math.sqrt(all.dim)
  all.stack.attention_bias = c:flag("attention_bias", false)
  return all
end


function gemma.build(c, tensors)
  local o = read(c, {activation = c:get("hidden_activation") and "hidden_activation" or nil})
  c:get("hidden_act")
  c:only("use_bidirectional_attention", false)
  return causal.new(c, o, tensors)
end


-- Gemma 2 and 3 norm the ends of each part too, and have scales and caps of their own.
local function add_scales(c, o, cap, logit_cap)
  o.stack.norm = "sandwich"
  o.stack.scale = c:number("query_pre_attn_scalar", 256) ^ -0.5
  o.stack.softcap = c:may_number("attn_logit_softcapping", cap)
  o.logit_cap = c:may_number("final_logit_softcapping", logit_cap)
end


local second = {names = sandwich.names}

function second.build(c, tensors)
  local o = read(c, {activation = "hidden_activation"})
  add_scales(c, o, 50, 30)
  c:only("use_bidirectional_attention", false)
  o.stack.each = llama.windows(c, c:may_count("sliding_window", 4096), function(i)
    return i % 2 == 0
  end)
  return causal.new(c, o, tensors)
end


-- Layers that see a window have a rope of their own, which is never scaled. A model that is not
-- causal sees half of the window on either side.
local function windows(c, o)
  local w, pattern = c:count("sliding_window", 4096), c:count("sliding_window_pattern",
                                                              c:get("_sliding_window_pattern") or 6)
  local slides = llama.windows(c, w, function(i) return (i + 1) % pattern ~= 0 end)
  local mask = o.bidirectional and masks.window(w // 2, w // 2) or nil
  local near = c:rope(o.head_dim, {base = 10000, layers = "sliding_attention",
                                   local_base = "rope_local_base_freq"})
  return function(i)
    local window = slides(i)
    return window and {mask = mask or window.mask, rope = near}
  end
end


local third = {names = sandwich.names}

function third.build(c, tensors)
  local o = read(c, {activation = "hidden_activation", rope = false})
  add_scales(c, o)
  o.bidirectional = c:flag("use_bidirectional_attention", false)
  o.stack.qk_norm = o.stack.norm_type
  o.stack.rope = c:rope(o.head_dim, {base = 1000000, layers = "full_attention"})
  o.stack.each = windows(c, o)
  return causal.new(c, o, tensors)
end


return {gemma = gemma, gemma2 = second, gemma3_text = third}
