-- Llama 2 and 3, SmolLM2, TinyLlama, and the parts of all that are like them: H. Touvron et al.
-- (2023), "Llama 2"; Llama Team (2024), "The Llama 3 herd of models".

local causal = require "heed.models.causal"
local layers = require "heed.nn.layers"
local masks = require "heed.mask"

local llama = {}

llama.names = {
  prefix = {"model.", "language_model.model.", "model.language_model."},
  ignored = {"rotary_emb%.inv_freq$"},
  {"embed_tokens", "words"},
  {"layers.%d.input_layernorm", "body.layers.%d.norm1"},
  {"layers.%d.self_attn.q_proj", "body.layers.%d.attend.query"},
  {"layers.%d.self_attn.k_proj", "body.layers.%d.attend.key"},
  {"layers.%d.self_attn.v_proj", "body.layers.%d.attend.value"},
  {"layers.%d.self_attn.o_proj", "body.layers.%d.attend.out"},
  {"layers.%d.self_attn.q_norm", "body.layers.%d.attend.query_norm"},
  {"layers.%d.self_attn.k_norm", "body.layers.%d.attend.key_norm"},
  {"layers.%d.post_attention_layernorm", "body.layers.%d.norm2"},
  {"layers.%d.mlp.gate_proj", "body.layers.%d.mlp.gate"},
  {"layers.%d.mlp.up_proj", "body.layers.%d.mlp.up"},
  {"layers.%d.mlp.down_proj", "body.layers.%d.mlp.down"},
  {"norm", "body.norm"},
  {"lm_head", "head", bare = true},
}


---A maker of norms, with the file's epsilon.
---@param c heed.models.Config
---@param eps number where the file does not say it
---@param plus_one? boolean
---@return fun(dim: integer): heed.RMSNorm
function llama.norm(c, eps, plus_one)
  local o = {eps = c:number("rms_norm_eps", eps), plus_one = plus_one}
  return function(dim) return layers.RMSNorm(dim, o) end
end


---Option `each` of a stack, where some layers see a window of so many positions, the
---present one included.
---@param c heed.models.Config
---@param w integer? nil: none does
---@param slides fun(i: integer): boolean which do, by the layer's number from 0, where the file has
---no list
---@return (fun(i: integer): table?)?
function llama.windows(c, w, slides)
  local types = c:list("layer_types", c:count("num_hidden_layers"))
  for _, word in ipairs(types or {}) do
    if word ~= "full_attention" and word ~= "sliding_attention" then
      c:refuse("layer_types", "only full_attention and sliding_attention are known, got %s",
               tostring(word))
    elseif word == "sliding_attention" and not w then
      c:refuse("layer_types", "a sliding_window expected for sliding_attention, got none")
    end
  end
  if not w then return nil end
  local window = {mask = masks.window(w - 1, math.huge)}
  return function(i)
    if types then return types[i] == "sliding_attention" and window or nil end
    return slides(i - 1) and window or nil
  end
end


---@class heed.models.llama
---@field also? table<string, string> other names of kinds of rope's scaling
---@field activation? string the key of the activation; else it is "hidden_act"
---@field base? number of rope, where the file does not say it
---@field eps? number of the norms, likewise
---@field head_dim? integer likewise
---@field plus_one? boolean of the norms
---@field rope? false where the family has more than one
---@field tie? boolean whether logits share the weights of the ids, likewise

---The keys that all families share: sizes, and options of the stack.
---@param c heed.models.Config
---@param o heed.models.llama
---@return heed.models.causal
function llama.read(c, o)
  local dim, heads = c:count("hidden_size"), c:count("num_attention_heads")
  local head_dim = c:head_dim(dim, heads, o.head_dim)
  return {
    dim = dim, heads = heads, layers = c:count("num_hidden_layers"), head_dim = head_dim,
    tie = o.tie,
    stack = {
      norm = "pre", norm_type = llama.norm(c, o.eps or 1e-6, o.plus_one), gated = true,
      activation = c:activation(o.activation or "hidden_act"), bias = false, head_dim = head_dim,
      hidden = c:count("intermediate_size"), kv_heads = c:count("num_key_value_heads", heads),
      rope = o.rope ~= false and c:rope(head_dim, {base = o.base or 10000, also = o.also}) or nil,
    },
  }
end


function llama.build(c, tensors)
  local o = llama.read(c, {})
  o.stack.attention_bias = c:flag("attention_bias", false)
  o.stack.mlp_bias = c:flag("mlp_bias", false)
  return causal.new(c, o, tensors)
end


return llama
