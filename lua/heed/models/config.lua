-- config.json of a model's directory: its keys, in the spellings of transformers 4 and 5.
--
-- A family reads the keys that it knows. Those that nobody has read in the end are refused by name,
-- unless they are known to change nothing here: an unknown part would give wrong numbers silently.

local core = require "heed.core"
local foreign = require "heed.nn.foreign"
local heed = require "heed"
local json = require "heed.files.json"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local rope = require "heed.attention.rope"

local quoted = refuse.quoted

---@class heed.models.Config
---@field source heed.models.config.source
---@field values table<string, any> as the file has them
---@field known table<string, true> the keys that were read
---@field taken table<string, any> what they came to, defaults included
---@field ropes table<string, heed.position.rope> by the kind of layers, "full_attention" or another
local Config = {}
Config.__index = Config

-- Keys about training, generation, tokens and the file itself. No value of theirs changes what a
-- model computes from ids.
local IDLE = {}
for name in ([[
  _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path architectures
  attention_dropout attention_probs_dropout_prob attn_pdrop auto_map bad_words_ids
  begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout
  classifier_dropout_prob cls_token_id decoder_start_token_id deterministic_flash_attn
  directionality diversity_penalty do_sample dropout dtype early_stopping embd_pdrop
  embedding_dropout encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty
  finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing hidden_dropout
  hidden_dropout_prob id2label initializer_cutoff_factor initializer_factor initializer_range
  is_llama_config keys_to_ignore_at_inference label2id language layerdrop length_penalty
  mask_token_id max_length min_length mlp_dropout model_type no_repeat_ngram_size num_beam_groups
  num_beams num_labels num_return_sequences output_attentions output_hidden_states output_past
  output_scores pad_token_id pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
  pooler_size_per_head pooler_type prefix pretraining_tp problem_type pruned_heads
  remove_invalid_values repetition_penalty resid_pdrop return_dict return_dict_in_generate
  sentence_transformers sbert_ce_default_activation_function sep_token_id suppress_tokens
  task_specific_params temperature tokenizer_class top_k top_p torch_dtype torchscript
  transformers.js_config transformers_version typical_p use_cache use_bfloat16 use_flash_attn
  _num_labels
]]):gmatch "%S+" do IDLE[name] = true end

-- Keys of parts that a model may lack, by the value that says so.
local WITHOUT = {
  add_cross_attention = false, cross_attention_hidden_size = false, is_decoder = false,
  is_encoder_decoder = false, tf_legacy_loss = false, tie_encoder_decoder = false,
  use_mrope = false, use_qk_norm = false,
}


---Reads the file of a directory.
---@param path string of the directory
---@return heed.models.Config
function Config.read(path)
  local file = path .. "/config.json"
  local text, why = core.read_file(file)
  if not text then refuse.with("%s", why) end
  local values, message = json.decode(text)
  if values == nil then refuse.with("%s: %s", file, message) end
  if type(values) ~= "table" or json.is_array(values) then
    refuse.with("%s: an object expected", file)
  end
  return Config.new(values)
end


---Where values come from, for messages.
---@class heed.models.config.source
---@field name string of the file, or of its part
---@field keys table<string, string> what it calls keys, where that is another name

local JSON <const> = {name = "config.json", keys = {}}

---@param values table<string, any>
---@param source? heed.models.config.source nil: a config.json
---@return heed.models.Config
function Config.new(values, source)
  local own = {source = source or JSON, values = values, known = {}, taken = {}, ropes = {}}
  return setmetatable(own, Config)
end


---Refuses what the file says.
---@param format string
---@param ... any
function Config:fail(format, ...)
  refuse.with("%s: %s", self.source.name, format:format(...))
end


-- A key as its file has it.
local function key_of(self, name) return quoted(self.source.keys[name] or name) end


---Refuses what a key says.
---@param name string
---@param format string
---@param ... any
function Config:refuse(name, format, ...)
  self:fail("%s: %s", key_of(self, name), format:format(...))
end


local function shown(value)
  if type(value) == "string" then return quoted(value) end
  if type(value) == "table" then return json.is_array(value) and "a list" or "an object" end
  return tostring(value)
end


---The value of a key, nil for null.
---@param name string
---@param otherwise? any where the file lacks the key
---@return any
function Config:get(name, otherwise)
  self.known[name] = true
  local value = self.values[name]
  if value == nil then value = otherwise end
  if rawequal(value, json.null) then value = nil end
  self.taken[name] = value
  return value
end


-- The value of a key, which is good or missing.
function Config:checked(name, otherwise, good, wanted)
  local value = self:get(name)
  if value == nil then value = otherwise end
  if value == nil then
    self:fail("%s expected, %s, got none", key_of(self, name), wanted)
  end
  self.taken[name] = value
  if not good(value) then self:refuse(name, "%s expected, got %s", wanted, shown(value)) end
  return value
end


local MOST <const> = 1 << 24          -- no size or number of ids in a model is beyond

local function is_count(value)
  return math.type(value) == "integer" and value >= 1 and value <= MOST
end

---@param name string
---@param otherwise? integer where the file does not say it
---@return integer
function Config:count(name, otherwise)
  return self:checked(name, otherwise, is_count, ("a whole number from 1 to %d"):format(MOST))
end


local function is_number_of(value)
  return math.type(value) == "integer" and value >= 0 and value <= MOST
end

---@param name string
---@param otherwise? integer
---@return integer 0, too
function Config:number_of(name, otherwise)
  return self:checked(name, otherwise, is_number_of, ("a whole number from 0 to %d"):format(MOST))
end


local function is_id(value)
  return math.type(value) == "integer" and value >= 0 and value < MOST
end

---@param name string
---@param otherwise? integer
---@return integer from 0 on
function Config:id(name, otherwise)
  return self:checked(name, otherwise, is_id, ("an id from 0 to %d"):format(MOST - 1))
end


local function is_positive(value)
  return type(value) == "number" and value > 0 and value < math.huge
end

---@param name string
---@param otherwise? number
---@return number above 0
function Config:number(name, otherwise)
  return self:checked(name, otherwise, is_positive, "a finite number above 0")
end


local function is_flag(value) return type(value) == "boolean" end

---A count of a part that null says the model lacks.
---@param name string
---@param otherwise? integer where the file lacks the key
---@return integer?
function Config:may_count(name, otherwise)
  if self:get(name, otherwise) == nil then return nil end
  return self:count(name, otherwise)
end


---The same of a number.
---@param name string
---@param otherwise? number where the file lacks the key
---@return number?
function Config:may_number(name, otherwise)
  if self:get(name, otherwise) == nil then return nil end
  return self:number(name, otherwise)
end


---@param name string
---@param otherwise? boolean
---@return boolean
function Config:flag(name, otherwise)
  return self:checked(name, otherwise, is_flag, "true or false")
end

---@param name string
---@param otherwise? boolean
---@return boolean? flag nil where neither file nor caller says it
function Config:may_flag(name, otherwise)
  if self:get(name) == nil and otherwise == nil then return nil end
  return self:flag(name, otherwise)
end


local function is_word(value) return type(value) == "string" end

---@param name string
---@param otherwise? string
---@return string
function Config:word(name, otherwise)
  return self:checked(name, otherwise, is_word, "a string")
end


---How many features each head has, which a key may say.
---@param dim integer
---@param heads integer
---@param otherwise? integer where the file lacks it; without it dim / heads
---@return integer
function Config:head_dim(dim, heads, otherwise)
  local known = self:get("head_dim") or otherwise
  if known then return self:count("head_dim", otherwise) end
  if dim % heads == 0 then
    self.taken.head_dim = dim // heads
    return dim // heads
  end
  self:fail("features of %d heads expected, got %d in all", heads, dim)
end


---@param name string
---@param n integer its length
---@return any[]? list nil where there is none
function Config:list(name, n)
  local list = self:get(name)
  if list == nil then return nil end
  if not json.is_array(list) or #list ~= n then
    self:refuse(name, "a list of %d expected, one for each layer, got %s", n, shown(list))
  end
  return list
end


---@param name string
---@return table? object nil where there is none
function Config:object(name)
  local value = self:get(name)
  if value == nil then return nil end
  if type(value) ~= "table" or json.is_array(value) then
    self:refuse(name, "an object expected, got %s", shown(value))
  end
  return value
end


---How a model ends: the part behind the family's name in the name of its class.
---@param kinds table<string, any> those that are known, such as "ForCausalLM"
---@return string kind
function Config:ending(kinds)
  local list = self:get("architectures")
  local class = type(list) == "table" and list[1]
  if type(class) ~= "string" then
    self:fail("%s expected, a list with the name of a class, got none",
              key_of(self, "architectures"))
  end
  local known, found = {}, nil
  for kind in next, kinds do
    local longer = class:sub(-#kind) == kind and (not found or #kind > #found)
    found = longer and kind or found
    known[#known + 1] = "..." .. kind
  end
  if found then return found end
  table.sort(known)
  self:refuse("architectures", "one of %s expected, got %s", table.concat(known, ", "),
              quoted(class))
end


---Refuses a key's value unless it is one.
---@param name string
---@param wanted any
function Config:only(name, wanted)
  local value = self:get(name)
  if value == nil or value == wanted then return end
  self:refuse(name, "only %s is known here, got %s", shown(wanted), shown(value))
end


local function with(f, argument)
  return foreign.adopt(function(x) return f(x, argument) end)
end

local GELU <const>, TANH_GELU <const>, SILU <const> = with(heed.gelu), with(heed.gelu, "tanh"),
                                                      with(heed.silu)
local quick_gelu <const> = foreign.adopt(function(x) return x * (x * 1.702):sigmoid() end)

-- Activations by their names in transformers: equal ones are one function.
local ACTIVATIONS = {
  gelu = GELU, gelu_fast = TANH_GELU, gelu_new = TANH_GELU, gelu_python = GELU,
  gelu_pytorch_tanh = TANH_GELU, quick_gelu = quick_gelu, relu = with(heed.relu), silu = SILU,
  swish = SILU, tanh = with(heed.tanh),
}

---The function of an activation that a key names.
---@param name string
---@param otherwise? string
---@return fun(x: heed.Tensor): heed.Tensor
function Config:activation(name, otherwise)
  return self:activation_of(name, self:word(name, otherwise))
end


---The function of an activation that a part of a key's word names.
---@param name string
---@param word string
---@return fun(x: heed.Tensor): heed.Tensor
function Config:activation_of(name, word)
  return ACTIVATIONS[word] or self:refuse(name, "the activation %s is not known", quoted(word))
end


-- Rotary positions --------------------------------------------------------

-- The parameters of a kind of layers, in transformers 5; nil in older files.
local function new_parameters(self, layers)
  local given = self:object("rope_parameters")
  if not given then return nil end
  local nested = false
  for _, value in next, given do nested = nested or type(value) == "table"
                                                   and not json.is_array(value) end
  if not nested then return given end
  local own = layers and given[layers]
  if type(own) ~= "table" then
    self:refuse("rope_parameters", "those of %s expected", layers or "one kind of layers")
  end
  return own
end


local WIDEST <const> = 1 << 16        -- features of a head, of which rope makes tables

-- Refuses what heed's rope refuses: another kind of scaling, a list of another length.
local function check_rope(self, head_dim, o)
  if head_dim > WIDEST then
    self:fail("rope of heads of at most %d features expected, got %d", WIDEST, head_dim)
  end
  local good, why = pcall(rope.rope, heed.empty({1, head_dim}, {device = "cpu"}), o)
  if good then return o end
  local message = type(why) == "string" and why:match("position%.rope: (.*)")
  if not message then error(why, 0) end
  self:fail("rope: %s", message)
end


-- The kind of scaling, which gets its present name.
local function kind_of(scaling, also)
  local name = scaling.rope_type or scaling.type
  name = also and also[name] or name
  scaling.rope_type, scaling.type = name, nil
  return name
end


---How a model turns queries and keys, as an option of heed's layers.
---@param head_dim integer
---@param o {base: number, layers: string?, local_base: string?, also: table?} the base where the
---file does not say it, and the kind of layers; `local_base` names an old key with the base of
---layers that are not scaled; `also` has other names of kinds of scaling
---@return heed.position.rope
function Config:rope(head_dim, o)
  local scaling = new_parameters(self, o.layers)
  local theta, old = self:get("rope_theta"), self:object("rope_scaling")
  local is_local = not scaling and o.local_base
  if is_local then theta, old = self:get(o.local_base), nil end
  scaling = reading.without_nulls(scaling or old or {rope_type = "default"})
  local name, original = kind_of(scaling, o.also), self:get("original_max_position_embeddings")
  if original and (name == "longrope" or name == "su") then
    scaling.original_max_position_embeddings = original
  end
  local base = scaling.rope_theta or theta or o.base
  local fraction = scaling.partial_rotary_factor or self:get("partial_rotary_factor") or o.fraction
  scaling.rope_theta, scaling.partial_rotary_factor = nil, nil
  local rule = check_rope(self, head_dim, {
    base = base, fraction = fraction, scaling = scaling,
    interleaved = self:flag("rope_interleaved", false),        -- of GGUF files
    max_position_embeddings = self:get("max_position_embeddings"),
  })
  self.ropes[o.layers or "full_attention"] = rule
  return rule
end


-- The end ------------------------------------------------------------------

---Refuses keys that nobody has read, by name.
function Config:finish()
  for name, value in next, self.values do
    local idle = IDLE[name] or self.known[name] or rawequal(value, json.null)
                 or WITHOUT[name] ~= nil and WITHOUT[name] == value
    if not idle then
      self:fail("the key %s, %s, is not known in models of type %s, and may change what they "
                .. "compute", key_of(self, name), shown(value),
                quoted(tostring(self.values.model_type)))
    end
  end
end


return Config
