-- Models in GGUF files: metadata become the keys of a config.json, and tensors get the names that
-- directories have, so that the same families read both.
--
-- Keys of the architecture that are not known here are refused by name. What converters change, as
-- llama.cpp's conversion/*.py have it: rows of queries and keys of Llama's kinds are ordered so
-- that rotary pairs lie side by side, and Gemma's norms hold 1 + w.

local Config = require "heed.models.config"
local core = require "heed.core"
local json = require "heed.files.json"
local reader = require "heed.files.gguf"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local gguf = {}

-- Names of tensors, by the part behind "blk.N." or the whole.
local LAYER <const> = {
  attn_k = "self_attn.k_proj", attn_k_norm = "self_attn.k_norm", attn_norm = "input_layernorm",
  attn_output = "self_attn.o_proj", attn_q = "self_attn.q_proj", attn_q_norm = "self_attn.q_norm",
  attn_v = "self_attn.v_proj", ffn_down = "mlp.down_proj", ffn_gate = "mlp.gate_proj",
  ffn_norm = "post_attention_layernorm", ffn_up = "mlp.up_proj",
}
local WHOLE <const> = {output = "lm_head", output_norm = "model.norm",
                       token_embd = "model.embed_tokens"}
local FREQUENCIES <const> = "rope_freqs.weight"

-- In Gemma the norm before the MLP has a name of its own.
local GEMMA <const> = {
  ffn_norm = "pre_feedforward_layernorm", post_attention_norm = "post_attention_layernorm",
  post_ffw_norm = "post_feedforward_layernorm",
}

---@class heed.gguf.architecture
---@field type string the model_type
---@field class string of the config's architectures
---@field pairs? boolean rows of queries and keys lie in rotary pairs
---@field plus_one? boolean norms hold 1 + w
---@field layer? table<string, string> names of tensors that differ
---@field more? table<string, any> keys that the metadata lack

---@type table<string, heed.gguf.architecture>
local ARCHITECTURES <const> = {
  llama = {type = "llama", class = "LlamaForCausalLM", pairs = true},
  qwen2 = {type = "qwen2", class = "Qwen2ForCausalLM"},
  qwen3 = {type = "qwen3", class = "Qwen3ForCausalLM"},
  smollm3 = {type = "smollm3", class = "SmolLM3ForCausalLM", pairs = true},
  gemma2 = {type = "gemma2", class = "Gemma2ForCausalLM", plus_one = true, layer = GEMMA,
            more = {hidden_activation = "gelu_pytorch_tanh"}},
  gemma3 = {type = "gemma3_text", class = "Gemma3ForCausalLM", plus_one = true, layer = GEMMA,
            more = {hidden_activation = "gelu_pytorch_tanh"}},
}

-- Keys of an architecture, and what a config.json calls them; false: nothing that a model computes
-- hangs on it.
local KEYS <const> = {
  ["attention.head_count"] = "num_attention_heads",
  ["attention.head_count_kv"] = "num_key_value_heads",
  ["attention.key_length"] = "head_dim",
  ["attention.layer_norm_rms_epsilon"] = "rms_norm_eps",
  ["attention.sliding_window"] = "sliding_window",
  attn_logit_softcapping = "attn_logit_softcapping",
  block_count = "num_hidden_layers",
  context_length = "max_position_embeddings",
  embedding_length = "hidden_size",
  feed_forward_length = "intermediate_size",
  final_logit_softcapping = "final_logit_softcapping",
  ["rope.freq_base"] = "rope_theta",
  vocab_size = false,
}


-- The scaling of rope by its keys; nil where there is none.
local function rope_scaling(take, factors)
  local kind, factor = take("rope.scaling.type"), take("rope.scaling.factor")
  local original = take("rope.scaling.original_context_length")
  take("rope.scaling.finetuned")
  if kind == "none" or kind == nil then kind = nil end
  if factors then
    if kind then refuse.with("rope_freqs beside rope.scaling.type are not known") end
    return {rope_type = "longrope", short_factor = factors, long_factor = factors, factor = 1.0,
            attention_factor = 1.0, original_max_position_embeddings = original}
  end
  if kind ~= nil and kind ~= "linear" and kind ~= "yarn" then
    refuse.with('rope.scaling.type: "none", "linear" or "yarn" expected, got %s',
                quoted(tostring(kind)))
  end
  return kind and {rope_type = kind, factor = factor, original_max_position_embeddings = original}
end


-- Widths that a config.json has no key for: they must be what it says elsewhere.
local function check_widths(values, take)
  local head = values.head_dim or values.hidden_size // values.num_attention_heads
  for _, key in ipairs{"attention.value_length", "rope.dimension_count"} do
    local n = take(key)
    if n ~= nil and n ~= head then
      refuse.with("%s: %d expected, the features of a head, got %s", key, head, tostring(n))
    end
  end
end


local function is_count(n) return math.type(n) == "integer" and n >= 1 and n <= 1 << 24 end

-- The values of a config.json.
local function values_of(metadata, name, row, tensors)
  local prefix, taken, values = name .. ".", {}, {}
  local function take(key)
    taken[prefix .. key] = true
    return metadata[prefix .. key]
  end
  for key, there in next, KEYS do
    local value = take(key)
    if there then values[there] = value end
  end
  for _, key in ipairs{"hidden_size", "num_attention_heads", "num_hidden_layers"} do
    if not is_count(values[key]) then
      refuse.with("%s: a count expected for %s, got %s", name, key, tostring(values[key]))
    end
  end
  local factors = tensors[FREQUENCIES]
  tensors[FREQUENCIES] = nil
  if factors and (factors:dim() ~= 1 or factors.dtype ~= "float32") then
    refuse.with("the tensor %s: a list of float32 expected", quoted(FREQUENCIES))
  end
  values.rope_scaling = rope_scaling(take, factors and factors:totable())
  values.rope_interleaved = row.pairs or nil
  check_widths(values, take)
  for key in next, metadata do
    if key:sub(1, #prefix) == prefix and not taken[key] then
      refuse.with("the key %s is not known, and may change what the model computes", quoted(key))
    end
  end
  local words = tensors["model.embed_tokens.weight"]
  values.vocab_size = words and words:size(1) or nil
  values.model_type, values.architectures = row.type, json.array{row.class}
  if not row.more then values.hidden_act = "silu" end
  for key, value in next, row.more or {} do values[key] = value end
  return values
end


-- The name that a tensor has in a directory.
local function name_of(name, row)
  local i, part, suffix = name:match("^blk%.(%d+)%.(.+)%.(%l+)$")
  if i then
    local there = row.layer and row.layer[part] or LAYER[part]
    return there and ("model.layers.%d.%s.%s"):format(math.tointeger(tonumber(i)) or -1, there,
                                                      suffix)
  end
  part, suffix = name:match("^(.+)%.(%l+)$")
  return part and WHOLE[part] and WHOLE[part] .. "." .. suffix
end


-- All tensors by these names. Those that have none keep their own, and are refused by it later.
local function renamed(tensors, row)
  local all = {}
  for name, t in next, tensors do
    local there = name_of(name, row) or name
    if row.plus_one and there:find("norm%.weight$") then t = t - 1 end
    all[there] = t
  end
  return all
end


-- What the metadata say about words: the template of chats, and the ids and names of the begin and
-- the end.
local function words_of(metadata)
  local template, list = metadata["tokenizer.chat_template"], metadata["tokenizer.ggml.tokens"]
  local words = {template = type(template) == "string" and template or nil, tokens = {},
                 generation = {}}
  for _, name in ipairs{"bos_token", "eos_token"} do
    local id = metadata["tokenizer.ggml." .. name .. "_id"]
    local token = math.type(id) == "integer" and type(list) == "table" and list[id + 1]
    if type(token) == "string" then
      words.tokens[name], words.generation[name .. "_id"] = token, id
    end
  end
  return words
end


---Reads a model's file.
---@param path string
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@param mapped? boolean
---@return heed.models.Config
---@return table<string, heed.Tensor> tensors by the names of directories
---@return {template: string?, tokens: table<string, string>, generation: table} words
function gguf.read(path, place, mapped)
  local file <close>, why = core.open_file(path)
  if not file then refuse.with("%s", why) end
  if not reader.is(file) then refuse.with("no GGUF file") end
  if mapped then raw.map(file, path) end
  local tensors, metadata = reader.read(file, path, place, mapped)
  local name = metadata["general.architecture"]
  local row = type(name) == "string" and rawget(ARCHITECTURES, name)
  if not row then
    local known = {}
    for kind in next, ARCHITECTURES do known[#known + 1] = kind end
    table.sort(known)
    refuse.with("general.architecture: one of %s expected, got %s", table.concat(known, ", "),
                type(name) == "string" and quoted(name) or "none")
  end
  tensors = renamed(tensors, row)
  return Config.new(values_of(metadata, name, row, tensors)), tensors, words_of(metadata)
end


return gguf
