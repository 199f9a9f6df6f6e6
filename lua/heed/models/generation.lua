-- generation_config.json: how a model's words are chosen unless the caller says otherwise.

local field = require "heed.internal.field"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"

local fail = heed.fail

local generation = {}

-- What changes no words, or none that heed gives.
local HARMLESS <const> = {
  "_from_model_config", "cache_config", "cache_implementation", "compile_config",
  "continuous_batching_config", "disable_compile", "is_assistant", "low_memory", "max_cache_len",
  "output_attentions", "output_hidden_states", "output_logits", "output_scores", "pad_token_id",
  "prefill_chunk_size", "return_dict_in_generate", "return_legacy_cache", "transformers_version",
  "trust_remote_code", "use_cache",
  -- about a second model that guesses, which changes no words
  "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight",
  "assistant_lookbehind", "max_matching_ngram_size", "num_assistant_tokens",
  "num_assistant_tokens_schedule", "prompt_lookup_num_tokens", "speculation_type",
  "target_lookbehind", "use_mtp",
}

-- Keys that heed follows: values, and lists of such.
local KNOWN <const> = {
  "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "do_sample", "early_stopping",
  "eos_token_id", "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length",
  "max_new_tokens", "min_length", "min_new_tokens", "min_p", "no_repeat_ngram_size", "num_beams",
  "repetition_penalty", "stop_strings", "suppress_tokens", "temperature", "top_k", "top_p",
}

-- The values of other keys that change nothing.
local NEUTRAL <const> = {
  diversity_penalty = 0, encoder_no_repeat_ngram_size = 0, encoder_repetition_penalty = 1,
  epsilon_cutoff = 0, eta_cutoff = 0, guidance_scale = 1, num_beam_groups = 1,
  num_return_sequences = 1, penalty_alpha = 0, remove_invalid_values = false,
  renormalize_logits = false, token_healing = false, typical_p = 1,
}

local is_known = {}
for _, name in ipairs(HARMLESS) do is_known[name] = true end
for _, name in ipairs(KNOWN) do is_known[name] = true end


local SPECIAL <const> = {"bos_token_id", "decoder_start_token_id", "eos_token_id"}


---Reads the file of a directory; ids that it does not name are those of config.json.
---@param path string
---@param config table
---@return table
function generation.read(path, config)
  local own = reading.json(path, "generation_config.json") or {}
  config = reading.without_nulls(config)
  for _, name in ipairs(SPECIAL) do
    local value = config[name]
    if own[name] == nil and (math.type(value) or type(value) == "table") then own[name] = value end
  end
  return own
end


---A copy of what holds for a model, by the keys of the file.
---@param model heed.models.Model
---@return table<string, any>
function generation.of(model) return field.record(model, "generation") end


---The file's text for a model, by which changes since it was read are seen, too.
---@param model heed.models.Model
---@return string? text of JSON; nil for a model of which nothing says how words are chosen. Values
---without a form in JSON are refused
function generation.text(model)
  if rawget(model, "generation") == nil then return nil end
  local own = generation.of(model)
  for _, name in ipairs(KNOWN) do
    local is_empty = type(own[name]) == "table" and next(own[name]) == nil
    if is_empty and not rawequal(own[name], json.null) then own[name] = json.array{} end
  end
  local text = json.text(own)
  if text then return text end
  for _, name in ipairs(options.names(own)) do
    local good, why = json.text{[name] = own[name]}
    if not good then refuse.with("generation_config.json: %s: %s", refuse.quoted(name), why) end
  end
end


-- Refuses keys that would change the words, and that nobody knows.
local function check(own)
  for _, name in ipairs(options.names(own)) do
    local neutral = NEUTRAL[name]
    if not is_known[name] and (neutral == nil or own[name] ~= neutral) then
      fail("generate: generation_config.json: %s = %s is not known; option config = false goes "
           .. "without what the file says", name, options.kind(own[name]))
    end
  end
end


---What holds of the file: all of it, or special ids alone.
---@param own table
---@param all boolean
---@return table
function generation.used(own, all)
  if all then
    check(own)
    return own
  end
  local special = {}
  for _, name in ipairs(SPECIAL) do special[name] = own[name] end
  return special
end


local function wrong(name, wanted, value)
  fail("generate: generation_config.json: %s expected as %s, got %s", wanted, name,
       options.kind(value))
end


---Ids of a key, which count from 0 there and from 1 here.
---@param own table
---@param name string
---@param most? integer how many ids the model knows, where it must know those of the key
---@return integer[]
function generation.ids(own, name, most)
  local value, ids = own[name], {}
  if value == nil then return ids end
  for i, id in options.entries(type(value) == "table" and value or {value}) do
    ids[i] = math.type(id) == "integer" and id >= 0 and id + 1 or wrong(name, "ids", id)
    if most and ids[i] > most then wrong(name, ("ids of at most %d"):format(most - 1), id) end
  end
  return ids
end


---The ids that a model knows: no other one ever comes, and none need be kept from coming.
---@param ids integer[]
---@param most integer how many it knows
---@return integer[]
function generation.known(ids, most)
  local list = {}
  for _, id in ipairs(ids) do
    if id <= most then list[#list + 1] = id end
  end
  return list
end


---@param own table
---@param name string
---@return number?
function generation.number(own, name)
  local value = own[name]
  if value ~= nil and type(value) ~= "number" then wrong(name, "a number", value) end
  return value
end


---@param own table
---@param name string
---@return integer?
function generation.count(own, name)
  local value = generation.number(own, name)
  if value ~= nil and (math.type(value) ~= "integer" or value < 0) then
    wrong(name, "a whole number", value)
  end
  return value
end


---@param own table
---@param name string
---@return boolean?
function generation.flag(own, name)
  local value = own[name]
  if value ~= nil and type(value) ~= "boolean" then wrong(name, "a boolean", value) end
  return value
end


-- Beams ---------------------------------------------------------------------------------

local function set_beams(own, o)
  local beams = generation.count(own, "num_beams") or 1
  if o.beams == nil and beams > 1 and not o.drawn then o.beams = beams end
  if not o.beams then return end
  if o.length_penalty == nil then o.length_penalty = generation.number(own, "length_penalty") end
  if o.early_stopping == nil then
    o.early_stopping = generation.flag(own, "early_stopping")
  end
end


local DRAWN <const> = {"temperature", "top_k", "top_p", "min_p"}
local TOP_K <const> = 50                   -- of transformers, where the file says nothing

local function set_draws(own, o)
  local asked = generation.flag(own, "do_sample") and o.temperature ~= 0 and not o.beams
  if not asked and not o.drawn then return end
  for _, name in ipairs(DRAWN) do
    if o[name] == nil then o[name] = generation.number(own, name) end
  end
  if o.top_k == nil and asked then o.top_k = TOP_K end
  if o.top_k == 0 then o.top_k = nil end   -- as the file says that there is none
  if o.temperature == nil then o.temperature = 1 end
end


---Fills in the options that the caller did not give.
---@param own table
---@param o table
---@param prompt integer how long the longest prompt is, with what a cache has of it
function generation.fill(own, o, prompt)
  o.drawn = o.temperature ~= 0 and not o.beams
            and (o.temperature or o.top_k or o.top_p or o.min_p or o.seed) ~= nil
  set_beams(own, o)
  set_draws(own, o)
  o.drawn = nil
  if o.repetition_penalty == nil and not o.beams then
    o.repetition_penalty = generation.number(own, "repetition_penalty")
  elseif o.beams and (generation.number(own, "repetition_penalty") or 1) ~= 1 then
    fail("generate: generation_config.json: repetition_penalty is not known with beams")
  end
  if o.max == nil then
    local whole = generation.count(own, "max_length")
    o.max = generation.count(own, "max_new_tokens") or whole and math.max(whole - prompt, 0)
  end
end


return generation
