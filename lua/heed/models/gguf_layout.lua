-- What GGUF calls the parts of models, both ways: architectures, keys, and tensors.
--
-- What converters change, as llama.cpp's conversion/*.py have it: rows of queries and keys of
-- Llama's kinds are ordered so that rotary pairs lie side by side, and Gemma's norms hold 1 + w.

local heed = require "heed"
local refuse = require "heed.internal.refuse"

local gguf_layout = {}

gguf_layout.FREQUENCIES = "rope_freqs.weight"       -- divides those of rope, one for each pair

-- Names of tensors, by the part behind "blk.N." or the whole.
local LAYER <const> = {
  attn_k = "self_attn.k_proj", attn_k_norm = "self_attn.k_norm", attn_norm = "input_layernorm",
  attn_output = "self_attn.o_proj", attn_q = "self_attn.q_proj", attn_q_norm = "self_attn.q_norm",
  attn_v = "self_attn.v_proj", ffn_down = "mlp.down_proj", ffn_gate = "mlp.gate_proj",
  ffn_norm = "post_attention_layernorm", ffn_up = "mlp.up_proj",
}
local WHOLE <const> = {output = "lm_head", output_norm = "model.norm",
                       token_embd = "model.embed_tokens"}

-- In Gemma the norm before the MLP has a name of its own.
local GEMMA <const> = {
  ffn_norm = "pre_feedforward_layernorm", post_attention_norm = "post_attention_layernorm",
  post_ffw_norm = "post_feedforward_layernorm",
}
for part, there in next, LAYER do GEMMA[part] = GEMMA[part] or there end

---@class heed.gguf.architecture
---@field type string the model_type
---@field also? string another one, whose models are the same where they have a form in GGUF
---@field class string of the config's architectures
---@field may_bias? boolean queries, keys, values and what comes of them may have biases
---@field pairs? boolean rows of queries and keys lie in rotary pairs
---@field plus_one? boolean norms hold 1 + w
---@field slides? boolean some layers see a window
---@field layer? table<string, string> names of tensors
---@field largest? integer layers of the model whose scores are divided by the root of dim / heads,
---and not of the features of a head
---@field more? table<string, any> keys that the metadata lack

---@type table<string, heed.gguf.architecture>
gguf_layout.architectures = {
  llama = {type = "llama", also = "mistral", class = "LlamaForCausalLM", pairs = true,
           may_bias = true},
  qwen2 = {type = "qwen2", class = "Qwen2ForCausalLM"},
  qwen3 = {type = "qwen3", class = "Qwen3ForCausalLM"},
  smollm3 = {type = "smollm3", class = "SmolLM3ForCausalLM", pairs = true},
  gemma2 = {type = "gemma2", class = "Gemma2ForCausalLM", plus_one = true, layer = GEMMA,
            slides = true, largest = 46, more = {hidden_activation = "gelu_pytorch_tanh"}},
  gemma3 = {type = "gemma3_text", class = "Gemma3ForCausalLM", plus_one = true, layer = GEMMA,
            slides = true, largest = 62, more = {hidden_activation = "gelu_pytorch_tanh"}},
}

---@class heed.gguf.key
---@field [1] string what a config.json calls it
---@field [2] string its type

---Keys of an architecture, behind its name.
---@type table<string, heed.gguf.key>
gguf_layout.keys = {
  ["attention.head_count"] = {"num_attention_heads", "uint32"},
  ["attention.head_count_kv"] = {"num_key_value_heads", "uint32"},
  ["attention.key_length"] = {"head_dim", "uint32"},
  ["attention.layer_norm_rms_epsilon"] = {"rms_norm_eps", "float32"},
  ["attention.sliding_window"] = {"sliding_window", "uint32"},
  attn_logit_softcapping = {"attn_logit_softcapping", "float32"},
  block_count = {"num_hidden_layers", "uint32"},
  context_length = {"max_position_embeddings", "uint32"},
  embedding_length = {"hidden_size", "uint32"},
  feed_forward_length = {"intermediate_size", "uint32"},
  final_logit_softcapping = {"final_logit_softcapping", "float32"},
  ["rope.freq_base"] = {"rope_theta", "float32"},
}

---Keys of counts that each file has.
gguf_layout.counts = {"attention.head_count", "block_count", "embedding_length",
                      "feed_forward_length"}

---Keys of widths that a config.json has no key for: they are the features of a head.
gguf_layout.widths = {"attention.value_length", "rope.dimension_count"}

---Keys on which nothing that a model computes hangs.
gguf_layout.idle = {"rope.scaling.finetuned", "vocab_size"}

---Further tokens that end a text, beside that of the key eos_token_id.
gguf_layout.ends = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}

---Keys of how words are drawn, and what a generation_config.json calls them.
gguf_layout.draws = {
  ["general.sampling.min_p"] = {"min_p", "float32"},
  ["general.sampling.temp"] = {"temperature", "float32"},
  ["general.sampling.top_k"] = {"top_k", "int32"},
  ["general.sampling.top_p"] = {"top_p", "float32"},
}
gguf_layout.PENALTY = "general.sampling.penalty_repeat"


---Refuses an architecture that is not known.
---@param name any
---@return heed.gguf.architecture
function gguf_layout.architecture(name)
  local row = type(name) == "string" and rawget(gguf_layout.architectures, name)
  if row then return row end
  local known = {}
  for kind in next, gguf_layout.architectures do known[#known + 1] = kind end
  table.sort(known)
  refuse.with("general.architecture: one of %s expected, got %s", table.concat(known, ", "),
              type(name) == "string" and refuse.quoted(name) or "none")
end


---The name of the architecture of a model_type.
---@param kind any
---@return string
function gguf_layout.name_of(kind)
  local known = {}
  for name, row in next, gguf_layout.architectures do
    if row.type == kind or row.also == kind then return name end
    known[#known + 1] = row.type
    known[#known + 1] = row.also
  end
  table.sort(known)
  refuse.with("one of %s expected as model_type for a .gguf file, got %s; a path without .gguf "
              .. "writes a directory", table.concat(known, ", "),
              type(kind) == "string" and refuse.quoted(kind) or type(kind))
end


---The name that a tensor of a file has in a directory; nil: none is known.
---@param name string
---@param row heed.gguf.architecture
---@return string?
function gguf_layout.published(name, row)
  local i, part, suffix = name:match("^blk%.(%d+)%.(.+)%.(%l+)$")
  if i then
    local there = (row.layer or LAYER)[part]
    return there and ("model.layers.%d.%s.%s"):format(math.tointeger(tonumber(i)) or -1, there,
                                                      suffix)
  end
  part, suffix = name:match("^(.+)%.(%l+)$")
  return part and WHOLE[part] and WHOLE[part] .. "." .. suffix
end


---Whether the rows of a tensor are features of heads that rope turns.
---@param name string in a directory
---@return boolean
function gguf_layout.is_turned(name) return name:find("self_attn%.[qk]_proj%.") ~= nil end


---An order for rows of heads whose pairs that rope turns lie half a head apart: in it they lie side
---by side.
---@param t heed.Tensor
---@param head_dim integer
---@param back? boolean the inverse
---@return heed.Tensor rows int64 (N), on the tensor's device
function gguf_layout.pairing(t, head_dim, back)
  local n, half, order = t:size(1), head_dim // 2, {}
  for row = 0, n - 1 do
    local i, first = row % head_dim, row - row % head_dim
    local there = back and 2 * (i % half) + i // half or i % 2 * half + i // 2
    order[row + 1] = first + there + 1
  end
  return heed.tensor(order, {dtype = "int64", device = t.device})
end


local function key_of(map, value)
  for key, other in next, map do
    if other == value then return key end
  end
end


---The inverse; a tensor whose name is not known is refused.
---@param name string in a directory
---@param row heed.gguf.architecture
---@return string
function gguf_layout.written(name, row)
  local i, part, suffix = name:match("^model%.layers%.(%d+)%.(.+)%.(%l+)$")
  local there = i and key_of(row.layer or LAYER, part)
  if there then return ("blk.%s.%s.%s"):format(i, there, suffix) end
  part, suffix = name:match("^(.+)%.(%l+)$")
  there = part and key_of(WHOLE, part)
  if there then return there .. "." .. suffix end
  refuse.with("there is no name in GGUF for the tensor %s", refuse.quoted(name))
end


return gguf_layout
