-- Models in GGUF files: metadata become the keys of a config.json, and tensors get the names that
-- directories have, so that the same families read both.
--
-- Keys of the architecture that are not known here are refused by name.

local blocks = require "heed.internal.blocks"
local Config = require "heed.models.config"
local core = require "heed.core"
local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local json = require "heed.files.json"
local layout = require "heed.models.gguf_layout"
local options = require "heed.internal.options"
local reader = require "heed.files.gguf"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local gguf = {}

local FREQUENCIES <const> = layout.FREQUENCIES


-- The shortest decimal number of which a float32 was made: 1e-06, not 9.9999999747524e-07.
local function shortest(value)
  local is_single = math.type(value) == "float" and value - value == 0
                    and string.unpack("<f", string.pack("<f", value)) == value
  for digits = 6, is_single and 9 or 0 do
    local n = tonumber(("%." .. digits .. "g"):format(value))
    if string.unpack("<f", string.pack("<f", n)) == value then return n end
  end
  return value
end


-- The scaling of rope by its keys; nil where there is none.
local function rope_scaling(take, factors)
  local kind, factor = take("rope.scaling.type"), take("rope.scaling.factor")
  local original = take("rope.scaling.original_context_length")
  if kind == "none" then kind = nil end
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
  for _, key in ipairs(layout.widths) do
    local n = take(key)
    if n ~= nil and n ~= values.head_dim then
      refuse.with("%s: %d expected, the features of a head, got %s", key, values.head_dim,
                  tostring(n))
    end
  end
end


local function is_count(n) return math.type(n) == "integer" and n >= 1 and n <= 1 << 24 end

-- The number by whose root products of queries and keys are divided.
local function scale_of(values, row)
  if values.num_hidden_layers ~= row.largest then return values.head_dim end
  return values.hidden_size // values.num_attention_heads
end


---The values of a config.json.
---@param metadata table<string, any>
---@param tensors table<string, heed.Tensor> by the names of directories
---@param interleaved? boolean whether pairs that rope turns lie side by side
---@return table<string, any>
function gguf.values(metadata, tensors, interleaved)
  local name = metadata["general.architecture"]
  local row, prefix, taken, values = layout.architecture(name), name .. ".", {}, {}
  local function take(key)
    taken[prefix .. key] = true
    return shortest(metadata[prefix .. key])
  end
  for _, key in ipairs(layout.idle) do take(key) end
  for key, there in next, layout.keys do values[there[1]] = take(key) end
  for _, key in ipairs(layout.counts) do
    local n = values[layout.keys[key][1]]
    if not is_count(n) then
      refuse.with("a count expected as %s, got %s", prefix .. key, options.kind(n))
    end
  end
  if not (type(values.rms_norm_eps) == "number" and values.rms_norm_eps > 0) then
    refuse.with("a number above 0 expected as %sattention.layer_norm_rms_epsilon, got %s", prefix,
                options.kind(values.rms_norm_eps))
  end
  local factors = tensors[FREQUENCIES]
  if factors and (factors:dim() ~= 1 or factors.dtype ~= "float32") then
    refuse.with("the tensor %s: a list of float32 expected", quoted(FREQUENCIES))
  end
  values.rope_scaling = rope_scaling(take, factors and json.array(factors:totable()))
  values.rope_interleaved = interleaved or nil
  values.head_dim = values.head_dim or values.hidden_size // values.num_attention_heads
  if not is_count(values.head_dim) then
    refuse.with("%s: a count expected as features of a head, got %s", name,
                tostring(values.head_dim))
  end
  check_widths(values, take)
  for key in next, metadata do
    if key:sub(1, #prefix) == prefix and not taken[key] then
      refuse.with("the key %s is not known, and may change what the model computes", quoted(key))
    end
  end
  local words = tensors["model.embed_tokens.weight"]
  values.vocab_size = words and words:dim() > 0 and words:size(1) or nil
  values.tie_word_embeddings = tensors["lm_head.weight"] == nil
  values.model_type, values.architectures = row.type, json.array{row.class}
  local has_bias = row.may_bias and tensors["model.layers.0.self_attn.q_proj.bias"]
  values.attention_bias = has_bias and true or nil
  if row.largest then values.query_pre_attn_scalar = scale_of(values, row) end
  if not row.more then values.hidden_act = "silu" end
  for key, value in next, row.more or {} do values[key] = value end
  return values
end


---The metadata of an architecture as a source of a configuration's values.
---@param name string
---@return heed.models.config.source
function gguf.source(name)
  local keys = {}
  for key, there in next, layout.keys do keys[there[1]] = name .. "." .. key end
  return {name = "metadata", keys = keys}
end


-- The type of activations: that of the ids' features, which those of a table in blocks have not.
local function type_of(tensors)
  local words = tensors["model.embed_tokens.weight"]
  return words and not blocks[words.dtype] and words.dtype or "float32"
end


-- All tensors by the names of directories, the floats among them of one type. Those that have no
-- name there keep their own, and are refused by it later.
local function renamed(tensors, row, place, is_typed)
  local all = {}
  for name, t in next, tensors do
    local there = layout.published(name, row) or name
    if all[there] then refuse.with("the tensor %s stands there twice", quoted(there)) end
    local is_norm = row.plus_one and there:find("norm%.weight$") and t.dtype:find("float")
    if is_norm then t = t - 1 end
    all[there] = t:dim() == 1 and name ~= FREQUENCIES and place(t) or t
  end
  local dtype = type_of(all)
  for name, t in next, all do
    local other = t.dtype ~= dtype and t.dtype:find("float") and name ~= FREQUENCIES
    if other and not is_typed then all[name] = core.lasting(t.to, t, dtype) end
  end
  return all
end


-- Orders the rows of queries and keys as directories have them. The source of each copy is released
-- at once; in the order of names, its memory serves the next layer's copy.
local function unpair(tensors, head_dim)
  for _, name in ipairs(options.names(tensors)) do
    local t = tensors[name]
    local has_rows = t:dim() == 2 or t:dim() == 1 and not blocks[t.dtype]
    local has_heads = has_rows and head_dim % 2 == 0 and t:size(1) % head_dim == 0
    if has_heads and layout.is_turned(name) then
      local rows = layout.pairing(t, head_dim, true)
      tensors[name] = core.lasting(t.index_select, t, 1, rows)
      t:release()
    end
  end
end


-- How words are chosen, as a generation_config.json has it, less what is no finite number there.
local function generation_of(metadata)
  local own, ends = {}, {}
  local function id(key)
    local value = metadata[key]
    return math.type(value) == "integer" and value or nil
  end
  local function number(key)
    local value = metadata[key]
    return type(value) == "number" and value - value == 0 and shortest(value) or nil
  end
  local keys = gguf_tokenizer.ids
  own.bos_token_id = id("tokenizer.ggml." .. keys.bos)
  ends[1] = id("tokenizer.ggml." .. keys.eos)
  for _, key in ipairs(layout.ends) do ends[#ends + 1] = id(key) end
  own.eos_token_id = #ends > 1 and ends or ends[1]
  for key, there in next, layout.draws do
    local value = number(key)
    if value then own[there[1]], own.do_sample = value, true end
  end
  own.repetition_penalty = number(layout.PENALTY)
  return own
end


-- What the metadata say about chats: templates by their names, and the texts of special tokens.
local function chats_of(metadata)
  local sources, tokens = {}, {}
  for key, value in next, metadata do
    local name = key:match("^tokenizer%.chat_template%.?(.*)$")
    if name and type(value) == "string" then sources[name == "" and "default" or name] = value end
  end
  for part, name in next, gguf_tokenizer.special(metadata) do tokens[part .. "_token"] = name end
  return sources, tokens
end


---What a model's file holds.
---@class heed.gguf.model
---@field config heed.models.Config
---@field tensors table<string, heed.Tensor> by the names of directories
---@field sources table<string, string> templates of chats, by their names
---@field tokens table<string, string> texts of special tokens, by their roles
---@field generation table what generation_config.json would say
---@field metadata table<string, any>
---@field types table<string, string> of the metadata
---@field dtypes table<string, string> of the file's tensors, by their names there
---@field is_paired boolean whether rows of queries and keys lie as in the file

---Reads a model's file.
---@param path string
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@param o {is_mapped: boolean, is_kept: boolean, is_typed: boolean} whether tensors are views of
---the file; whether they stay so, in its order; whether all floats get a type by `place`
---@return heed.gguf.model
function gguf.read(path, place, o)
  local file <close>, why = core.open_file(path)
  if not file then refuse.with("%s", why) end
  if not reader.is(file) then refuse.with("no GGUF file") end
  if o.is_mapped then raw.map(file, path) end
  local dtypes = {}
  local tensors, metadata, types = reader.read(file, path, function(t)
    return t:dim() == 1 and t or place(t)          -- lists are changed before they are placed
  end, o.is_mapped)
  for name, t in next, tensors do dtypes[name] = t.dtype end
  local name = metadata["general.architecture"]
  local row = layout.architecture(name)
  tensors = renamed(tensors, row, place, o.is_typed)
  local is_paired = row.pairs and o.is_kept or false
  local config = Config.new(gguf.values(metadata, tensors, is_paired), gguf.source(name))
  if row.pairs and not is_paired then unpair(tensors, config.values.head_dim) end
  tensors[FREQUENCIES] = nil
  local sources, tokens = chats_of(metadata)
  return {config = config, tensors = tensors, sources = sources, tokens = tokens,
          generation = generation_of(metadata), metadata = metadata, types = types,
          dtypes = dtypes, is_paired = is_paired}
end


return gguf
