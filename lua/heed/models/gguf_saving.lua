-- Models into GGUF files, the inverse of gguf.lua. What a model computes and the keys of its
-- architecture cannot say is refused by name: the metadata are read again, and make a model that
-- must be alike, before anything is written.

local blocks = require "heed.internal.blocks"
local building = require "heed.models.building"
local core = require "heed.core"
local generation = require "heed.models.generation"
local gguf = require "heed.models.gguf"
local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local gguf_types = require "heed.files.gguf_types"
local gguf_vocabulary = require "heed.files.gguf_vocabulary"
local gguf_writer = require "heed.files.gguf_writer"
local heed = require "heed"
local layout = require "heed.models.gguf_layout"
local loading = require "heed.tokenizer.loading"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local rope = require "heed.attention.rope"
local save = require "heed.save"
local saving = require "heed.models.saving"

local quoted = refuse.quoted

local gguf_saving = {}

local WHO <const>, QUANTIZATION <const> = "models.save", 2     -- the version of blocks

-- Keys of how files were written, and of what tensors are of.
local WRITTEN <const> = {gguf_types.ALIGNMENT, "split.no", "split.count", "split.tensors.count"}
local TYPES <const> = {"general.file_type", "general.quantization_version"}

---@class heed.gguf.saved
---@field metadata table<string, any>
---@field types table<string, string>
---@field left table<string, string> what the file does not say, and why

local function put(w, key, value, type)
  if value ~= nil then w.metadata[key], w.types[key] = value, type end
end


-- Keys of the architecture ------------------------------------------------------

-- The factors that divide frequencies of no kind that a key names: float32 (pairs).
local function factors_of(head_dim, o)
  local plain = rope.frequencies(head_dim, {base = o.base, fraction = o.fraction}, 1)
  return (plain / rope.frequencies(head_dim, o, 1)):float()
end


-- Keys of the scaling of rope, or its factors as a tensor.
local function put_rope(w, prefix, c, tensors)
  local o = c.ropes.full_attention
  local scaling = o and o.scaling or {}
  local kind = scaling.rope_type or "default"
  put(w, prefix .. "rope.freq_base", o and o.base, "float32")
  if kind == "default" then return end
  if kind ~= "linear" and kind ~= "yarn" then
    tensors[layout.FREQUENCIES] = factors_of(c.taken.head_dim, o)
    return
  end
  put(w, prefix .. "rope.scaling.type", kind, "string")
  put(w, prefix .. "rope.scaling.factor", scaling.factor, "float32")
  put(w, prefix .. "rope.scaling.original_context_length",
      scaling.original_max_position_embeddings, "uint32")
end


local function put_keys(w, name, c, tensors)
  local row, prefix, taken = layout.architectures[name], name .. ".", c.taken
  put(w, "general.architecture", name, "string")
  for key, there in next, layout.keys do
    local is_said = there[1] ~= "sliding_window" or row.slides
    if is_said then put(w, prefix .. key, taken[there[1]], there[2]) end
  end
  for _, key in ipairs(layout.widths) do put(w, prefix .. key, taken.head_dim, "uint32") end
  put(w, prefix .. "vocab_size", taken.vocab_size, "uint32")
  put_rope(w, prefix, c, tensors)
end


-- Tensors ----------------------------------------------------------------------

-- A tensor as the file has it: lists are float32, as llama.cpp computes with them.
local function converted(t, name, row, swaps, head_dim)
  if t:dim() == 1 and t.dtype ~= "float64" then t = t:float() end
  if row.plus_one and name:find("norm%.weight$") then t = t + 1 end
  return swaps and layout.is_turned(name) and t:index_select(1, layout.pairing(t, head_dim)) or t
end


local function tensors_of(published, row, c)
  local o = c.ropes.full_attention
  local swaps = row.pairs and o and not o.interleaved
  local all = {}
  for name, t in next, published do
    local there = layout.written(name, row)
    all[there] = heed.no_grad(converted, t, name, row, swaps, c.taken.head_dim)
  end
  return all
end


-- Whether the pairs of a model's rope lie as the file's reader takes them.
local function check_pairs(row, c)
  for kind, o in next, c.ropes do
    if o.interleaved and not row.pairs then
      refuse.with("rope of pairs side by side has no form in GGUF for models of type %s (%s)",
                  row.type, kind)
    end
  end
end


-- What differs between a model and one that the file would give, as text; nil: nothing does.
local function difference(model, w, published)
  local all = {[layout.FREQUENCIES] = w.tensors[layout.FREQUENCIES]}
  for name, t in next, published do all[name] = t end
  local values = gguf.values(w.metadata, all)
  local source = gguf.source(w.metadata["general.architecture"])
  local why = building.difference(WHO, model, values, all, source)
  return why and why .. " in a model of such keys"
end


-- Words ------------------------------------------------------------------------

local LARGEST_ID <const> = (1 << 32) - 1
local TOKENIZERS <const> = "GGUF has the tokenizer's"       -- in the place of the model's id

-- An id of generation_config.json, where it is given.
local function id_of(key, id)
  if id == nil or math.type(id) == "integer" and id >= 0 and id <= LARGEST_ID then return id end
  refuse.with("generation_config.json: %s of 32 bits expected for a .gguf file, got %s", key,
              options.kind(id))
end

-- The ids that end a text: that of the tokenizer first; and whether the model has it, too, or says
-- nothing of ends.
local function ends_of(own, special)
  local value, ends = own.eos_token_id, {special.eos}
  local has_it = value == nil or special.eos == nil
  for _, id in options.entries(type(value) == "table" and value or {value}) do
    if rawequal(id, special.eos) then has_it = true
    else ends[#ends + 1] = id_of("eos_token_id", id) end
  end
  return ends, has_it
end


local function put_ends(w, own, special)
  local ends, has_it = ends_of(own, special)
  if #ends > 1 + #layout.ends then
    refuse.with("generation_config.json: at most %d eos_token_id expected for a .gguf file, got %d",
                1 + #layout.ends, #ends)
  end
  put(w, "tokenizer.ggml." .. gguf_tokenizer.ids.eos, ends[1], "uint32")
  for i, key in ipairs(layout.ends) do put(w, key, ends[i + 1], "uint32") end
  local bos = own.bos_token_id
  put(w, "tokenizer.ggml." .. gguf_tokenizer.ids.bos, special.bos or id_of("bos_token_id", bos),
      "uint32")
  if not has_it then w.left["generation_config.json: eos_token_id"] = TOKENIZERS .. ", too" end
  if special.bos and bos ~= nil and not rawequal(bos, special.bos) then
    w.left["generation_config.json: bos_token_id"] = TOKENIZERS
  end
end


-- Keys of generation_config.json that say nothing of how words are chosen.
local IDLE <const> = {bos_token_id = true, eos_token_id = true, pad_token_id = true,
                      do_sample = true, repetition_penalty = true}

-- A number of generation_config.json, where it is given, as a type of GGUF has it.
local function number_of(key, value, type)
  local is_finite = math.type(value) and value - value == 0
  if value == nil or is_finite and gguf_writer.holds(type, value) then return value end
  refuse.with("generation_config.json: %s as %s expected for a .gguf file, got %s", key, type,
              options.kind(value))
end

-- How words are drawn, as llama.cpp takes it; what has no key is left, and told.
local function put_draws(w, own)
  local known, draws = {}, own.do_sample == true
  for key, row in next, layout.draws do
    known[row[1]] = draws
    if draws then put(w, key, number_of(row[1], own[row[1]], row[2]), row[2]) end
  end
  if draws and own.temperature == nil then put(w, "general.sampling.temp", 1.0, "float32") end
  put(w, layout.PENALTY, number_of("repetition_penalty", own.repetition_penalty, "float32"),
      "float32")
  for name, value in next, own do
    local is_idle = known[name] or IDLE[name] or name:sub(1, 1) == "_"
                    or type(value) == "boolean" or name == "transformers_version"
    if not is_idle then w.left["generation_config.json: " .. name] = "GGUF has no key for it" end
  end
end


local function put_chats(w, model)
  local list = {}
  for name, source in next, model.chats.sources do
    if name ~= "default" then list[#list + 1] = name end
    put(w, "tokenizer.chat_template" .. (name == "default" and "" or "." .. name), source, "string")
  end
  table.sort(list)
  if #list > 0 then put(w, "tokenizer.chat_templates", list, "string[]") end
end


-- The text of a tokenizer.json that a model's tokenizer was read from; nil: its directory has none.
local function source_of(model)
  local tok, origin = model.tokenizer, rawget(model, "origin")
  local is_read = rawequal(getmetatable(tok), loading.Tokenizer)
  if is_read and tok.file then return tok.file end
  if not rawequal(origin.tokenizer, tok) then
    heed.fail("models.save: the model has another tokenizer than its directory, %s, and not one "
              .. "that heed has trained", quoted(origin.path))
  end
  local text = loading.source(origin.path)
  if text and not is_read or is_read and not text then
    refuse.with(is_read and "%s has the model's tokenizer no more"
                or "the tokenizer of %s cannot be read", quoted(origin.path))
  end
  return text
end


local function put_tokenizer(w, model, rows)
  local text = source_of(model)
  if not text then
    put(w, "tokenizer.ggml.model", gguf_tokenizer.NONE, "string")
    return {}
  end
  local special = {}
  for part, id in next, model.tokenizer:special() do special[part] = id - 1 end
  local metadata, types, left = gguf_vocabulary.metadata(text, rows, special)
  for key, value in next, metadata do put(w, key, value, types[key]) end
  for name, why in next, left do w.left[name] = why end
  if model.tokenizer.left then w.left["truncation_side"] = "GGUF has no key for it" end
  return special
end


-- The whole ------------------------------------------------------------------------

-- The metadata of a model that came from a directory.
local function described(w, model, name, c)
  put_keys(w, name, c, w.tensors)
  local own = generation.of(model)
  put_ends(w, own, put_tokenizer(w, model, c.taken.vocab_size))
  put_draws(w, own)
  put_chats(w, model)
end


local function copied(list)
  local own = {}
  for key, value in next, list do own[key] = value end
  return own
end


-- Keys of how words are chosen and where they end, anew; the tokenizer's own ids stay.
local function put_words(w, model)
  local own, special = generation.of(model), {}
  for _, part in ipairs{"bos", "eos"} do
    special[part] = w.metadata["tokenizer.ggml." .. gguf_tokenizer.ids[part]]
  end
  for _, key in ipairs(layout.ends) do w.metadata[key], w.types[key] = nil, nil end
  for key in next, layout.draws do w.metadata[key], w.types[key] = nil, nil end
  w.metadata[layout.PENALTY], w.types[layout.PENALTY] = nil, nil
  put_ends(w, own, special)
  put_draws(w, own)
end


-- The metadata of a model that came from a file are those of the file; keys whose values have
-- changed since are written anew.
local function kept(w, model, name, c, published)
  local from = model.origin.gguf
  if not rawequal(model.origin.tokenizer, model.tokenizer) then
    heed.fail("models.save: the model has another tokenizer than its file, %s",
              quoted(model.origin.path))
  end
  w.metadata, w.types = copied(from.metadata), copied(from.types)
  for _, key in ipairs(WRITTEN) do w.metadata[key], w.types[key] = nil, nil end
  if generation.text(model) ~= model.origin.generation then put_words(w, model) end
  local unchanged = w.tensors[layout.FREQUENCIES] == nil
  local own = {metadata = {}, types = {}, left = {}, tensors = w.tensors}
  put_keys(own, name, c, w.tensors)
  if unchanged and not difference(model, w, published) then return end
  for key, value in next, own.metadata do put(w, key, value, own.types[key]) end
end


-- Says what tensors are of, where the file does not yet.
local function put_types(w, from)
  local same, has_blocks = from and not from.is_typed, false
  for name, t in next, w.tensors do
    same = same and from.dtypes[name] == t.dtype
    has_blocks = has_blocks or blocks[t.dtype] ~= nil
  end
  if same then return end
  for _, key in ipairs(TYPES) do w.metadata[key], w.types[key] = nil, nil end
  if has_blocks then put(w, TYPES[2], QUANTIZATION, "uint32") end
end


local function check_free(path, replace)
  local file <close>, _, missing = core.open_file(path)
  if (file or not missing) and not replace then
    refuse.with("%s is there; option replace = true writes over it", path)
  end
end


---Writes a model's file, whole or not at all.
---@param path string
---@param model heed.models.Model
---@param replace boolean whether a file that is there is written over
---@param dtype? string of its matrices; nil: as they are
---@return table<string, string>|true left what the file does not say, and why
function gguf_saving.save(path, model, replace, dtype)
  local origin = model.origin
  local name = layout.name_of(model.config.model_type)
  local row = layout.architectures[name]
  local published = saving.values(names.collect(model, {
    names = origin.source.names, prefix = "model.", shapes = {},
  }), dtype)
  local c = building.read(WHO, model.config, published, {name = "model.config", keys = {}})
  check_pairs(row, c)
  local w = {metadata = {}, types = {}, left = {}, tensors = tensors_of(published, row, c)}
  if origin.gguf then kept(w, model, name, c, published)
  else described(w, model, name, c) end
  if model.sentences then w.left["modules.json"] = "GGUF has no key for vectors of texts" end
  local other = difference(model, w, published)
  if other then
    refuse.with("architecture %s of GGUF cannot say all of this model: %s", name, other)
  end
  put_types(w, origin.gguf)
  check_free(path, replace)
  local done, why = save.save(path, w.tensors, w.metadata, w.types)
  if not done then refuse.with("%s", (why:gsub("^save: ", ""))) end
  return next(w.left) and w.left or true
end


return gguf_saving
