-- heed.models: models from directories, as published ones are kept.
--
--   local model = heed.models.load("a/model")
--   local logits = model(ids)                        -- int64 (B, T), from 1
--   local new = heed.generate(model, {5, 17, 3}, {max = 20})
--
-- config.json says which family a model is of (heed/models/FAMILY.lua) and how large; its tensors,
-- in safetensors, become the model's parameters without a copy.

local adapters = require "heed.nn.adapters"
local blocks = require "heed.internal.blocks"
local building = require "heed.models.building"
local Chat = require "heed.models.chat"
local check_blocks = require "heed.internal.block_type"
local classes = require "heed.models.classes"
local Config = require "heed.models.config"
local core = require "heed.core"
local families = require "heed.models.families"
local generation = require "heed.models.generation"
local gguf = require "heed.models.gguf"
local gguf_saving = require "heed.models.gguf_saving"
local heed = require "heed"
local loading = require "heed.tokenizer.loading"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local peft = require "heed.models.adapters"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local saving = require "heed.models.saving"
local sentences = require "heed.models.sentences"
local static = require "heed.models.static"
local texts = require "heed.models.texts"
local tokenizer = require "heed.tokenizer"
local torch_names = require "heed.internal.torch_names"
local weights = require "heed.models.weights"
local whole = require "heed.files.whole"

local fail, kind = heed.fail, options.kind

local M = {}


---@class heed.models.load.options
---@field device? string where the model is; the default device unless given
---@field dtype? string of its floating point tensors; the file's unless given
---@field mapped? boolean whether its tensors are views of the file, as `heed.load` has it; false
---unless given
---@field quantize? string a type of blocks, "q8_0", for the weights of linear layers and
---embeddings, as `model:quantize` has it; all else is float32. A model of which no weight has rows
---of whole blocks is refused. Files are mapped meanwhile
---@field packed? boolean whether products on the CPU keep copies of their matrices as they are read
---there, which makes later ones faster and takes as much memory again, of the types q2_k and q3_k
---several times as much: of those in float32 beside many rows, and of those in blocks beside rows
---that are rounded to 8 bits, as few as in a step of generation. Unless given, matrices have copies
---if they are not mapped, and those in blocks if the model does not generate

local FLOATS <const> = {bfloat16 = true, float16 = true, float32 = true, float64 = true}

-- `how` says what makes blocks, which no conversion to a type does.
local function check_dtype(who, dtype, how)
  if dtype == nil or FLOATS[dtype] then return end
  local advice = type(dtype) == "string" and rawget(blocks, dtype) and "; " .. how:format(dtype)
  fail("%s: float32, float64, float16 or bfloat16 expected as option dtype, got %s%s", who,
       kind(dtype), advice or "")
end


-- Does a path name a GGUF file? Endings that look alike are refused, as of "x.GGUF" or "x.gguf/".
local function is_gguf(who, path)
  if path:find("%.gguf$") then return true end
  if not path:lower():find("%.gguf/*$") then return false end
  fail("%s: a file's path that ends in '.gguf' expected, or one of a directory that does not look "
       .. "like it, got '%s'", who, path)
end


-- A message about a path, which it may begin with.
local function about(who, path, why)
  if why:sub(1, #path) == path then return ("%s: %s"):format(who, why) end
  return ("%s: %s: %s"):format(who, path, why)
end


local function device_of(o) return o.device or heed.default_device() end


-- A function that moves each tensor to its device and type before the next one is read. What goes
-- into blocks does so on the CPU, and to its device then, which never has its floats.
local function placing(o)
  local device = o.quantize and "cpu" or device_of(o)
  return function(t)
    local changes = o.dtype and not o.quantize and (FLOATS[t.dtype] or blocks[t.dtype])
    return (changes and core.lasting(t.to, t, o.dtype) or t):to(device)
  end
end


-- Whether files are mapped: what goes into blocks is read when it does, and never lies in memory
-- as a whole.
local function is_mapped(o) return o.mapped or o.quantize ~= nil end


-- In the place of a tokenizer that cannot be read: says so when it is used.
local function without_tokenizer(why)
  local function refuse_use() fail("%s", why) end
  return setmetatable({}, {
    __name = "heed.Tokenizer", __index = refuse_use, __len = refuse_use,
    __tostring = function() return "heed.Tokenizer(none)" end,
  })
end


local function read_tokenizer(path)
  local found, why = tokenizer.load(path)
  return found or without_tokenizer(why)
end


-- Matrices are read by products of many texts and long prompts. The blocks of a model that writes
-- are there for the sake of memory: they have copies where the caller says so.
local function pack(model, is_asked)
  local packs_blocks = is_asked or not model.writes
  for _, p in ipairs(model:parameters()) do
    if p:dim() == 2 and (p.dtype == "float32" or packs_blocks and blocks[p.dtype]) then
      core.pack(p)
    end
  end
end


-- Refuses a model of which no weight went into blocks.
local function check_quantized(parameters, kept, type)
  for _, p in ipairs(parameters) do
    if blocks[p.dtype] then return end
  end
  local name = options.names(kept)[1] or refuse.with("option quantize: no weight is a matrix")
  refuse.with("option quantize: no weight has rows of whole blocks of '%s', which are of %d "
              .. "elements: '%s' has %s", type, blocks[type].elements, name, kept[name])
end


-- Puts weights into blocks, all other floats into float32, as activations are, and the model on its
-- device. What is a view of a file then gets memory of its own, unless the caller wants views.
local function quantize(model, o)
  local parameters, before = model:parameters(), {}
  for _, p in ipairs(parameters) do before[p] = p.dtype end
  local good, kept = pcall(model.quantize, model, o.quantize)
  if not good then
    local message = type(kept) == "string" and kept:match("quantize: (.*: finite values of .*)")
    if message then refuse.with("%s", message) end
    error(kept, 0)
  end
  check_quantized(parameters, kept, o.quantize)
  model:to("float32")
  if device_of(o) ~= "cpu" then model:to(device_of(o)) end
  local changes = {takers = {}, givers = {}, gradients = {}}
  for _, p in ipairs(o.mapped and {} or parameters) do
    if p.dtype == before[p] and p.device == "cpu" then
      local n = #changes.takers + 1
      changes.takers[n], changes.givers[n], changes.gradients[n] = p, p:detach():clone(), false
    end
  end
  core.commit("models.load", changes)
  return kept
end


-- The model as the options want it; and which weights stay out of blocks, and why.
local function finished(model, o)
  local kept = o.quantize and quantize(model, o)
  if o.packed or (o.packed == nil and not o.mapped) then pack(model, o.packed) end
  return model:eval(), kept
end


-- A table of vectors, which has no family.
local function load_table(path, folder, o)
  local model, source = static.load(path, folder, placing(o), is_mapped(o), not o.mapped)
  model.tokenizer = read_tokenizer(folder)
  model.origin = saving.origin(path, model, source)
  o.packed = false                             -- no product reads them
  return finished(model, o)
end


-- The tokenizer of a file's metadata.
local function tokenizer_of(metadata, path)
  local found, why = refuse.try(loading.of_metadata, metadata)
  return found or without_tokenizer(("tokenizer.load: %s: %s"):format(path, why))
end


-- A model of a GGUF file, which has the tokenizer, too.
local function load_gguf(path, o)
  local is_typed = o.dtype ~= nil and not o.quantize
  local file = gguf.read(path, placing(o), {
    is_kept = o.mapped, is_mapped = is_mapped(o), is_typed = is_typed,
  })
  local model, table_of_names = building.model("models.load", file.config, file.tensors)
  local source = names.assign(model, table_of_names, file.tensors)
  model.sentences, model.limit, model.classes = false, false, false
  model.chats, model.generation = Chat.of(file.sources, file.tokens), file.generation
  model.tokenizer = tokenizer_of(file.metadata, path)
  model.origin = {
    path = path, source = source, tokenizer = model.tokenizer, files = {}, folders = {},
    config = true, generation = generation.text(model),
    gguf = {metadata = file.metadata, types = file.types, dtypes = file.dtypes,
            is_paired = file.is_paired, is_typed = is_typed},
  }
  return finished(model, o)
end


local function load(path, o)
  reading.check_folder(path, "the path of a folder, or of a .gguf file,")
  local folder = static.folder(path)
  if folder then return load_table(path, folder, o) end
  local c, place = Config.read(path), placing(o)
  families.of(c)                               -- whose refusal comes before any tensor is read
  local tensors = weights.read(path, place, is_mapped(o), not o.mapped)
  local model, table_of_names = building.model("models.load", c, tensors)
  local source = names.assign(model, table_of_names, tensors)
  model.sentences, model.limit = sentences.read(path, place), texts.limit(path, model) or false
  model.classes = classes.read(path, model)
  model.chats, model.generation = Chat.read(path), generation.read(path, model.config)
  model.tokenizer = read_tokenizer(path)
  model.origin = saving.origin(path, model, source)
  return finished(model, o)
end


---Loads a model from its directory: config.json, and model.safetensors or its shards; or from a
---GGUF file, whose weights stay in blocks (`heed.quantize`) unless `dtype` says otherwise.
---@param path string
---@param given? heed.models.load.options
---@return heed.models.Model? model nil where the directory is refused
---@return string|table<string, string>? message or, with option quantize, why weights stay as they
---are, by their names
function M.load(path, given, ...)
  options.no_more("models.load", 2, ...)
  whole.check_path("models.load", path)
  local o = options.read("models.load", given, {
    device = options.any, dtype = options.any, mapped = false, packed = options.any,
    quantize = options.any,
  }, torch_names.load)
  if o.packed ~= nil and type(o.packed) ~= "boolean" then
    fail("models.load: a boolean expected as option packed, got %s", kind(o.packed))
  end
  if o.device ~= nil then core.called("models.load", heed.zeros, 0, {device = o.device}) end
  check_dtype("models.load", o.dtype, "option quantize = '%s' puts weights into blocks")
  if o.quantize ~= nil then
    check_blocks("models.load", o.quantize)
    if o.dtype ~= nil and o.dtype ~= "float32" then
      fail("models.load: float32 expected as option dtype beside quantize, got %s", o.dtype)
    end
  end
  local model, why = refuse.try(path:lower():find("%.gguf$") and load_gguf or load, path, o)
  if model then return model, why or nil end
  return nil, about("models.load", path, why)
end


-- A model whose tensors are those of a directory, unless it `may_pair` rows as GGUF files do.
local function check_model(who, model, may_pair)
  local origin = nil
  if type(model) == "table" then origin = rawget(model, "origin") end
  if type(origin) ~= "table" then
    fail("%s: a model that models.load gave expected, got %s", who, kind(model))
  end
  if not may_pair and origin.gguf and origin.gguf.is_paired then
    fail("%s: rows in the order of directories expected, got a mapped GGUF file, %s; "
         .. "models.load without option mapped gives them", who, origin.path)
  end
end


---@class heed.models.save.options
---@field dtype? string another type of its floating point tensors, in which blocks are written too
---@field replace? boolean whether files of other programs are written over, or a .gguf file; false
---unless given


-- Refuses weights in blocks, which no other program reads in a directory.
local function check_values(model)
  for name, p in model:named_parameters() do
    if blocks[p.dtype] then
      fail("models.save: values expected, got blocks of type %s as '%s', which no other program "
           .. "reads in a directory; a path that ends in .gguf takes them, and option dtype writes "
           .. "their values", p.dtype, name)
    end
  end
end


---Saves a model that `models.load` gave as a directory that transformers, sentence-transformers and
---heed read: config.json, model.safetensors under the published names, and the files beside them,
---as the directory has them that the model came from, or as its GGUF file describes them. Changes
---of `model.generation` are written, too. Each file is complete or as it was before.
---Files that `models.save` has written are written over; a directory with other ones in their place
---is refused, unless `replace` is true. A file that the model lacks and that would be read with it,
---as a tokenizer or modules.json of another model, is refused in any case. Files of other names
---stay; an index of shards then names the one file of weights.
---Adapters that are merged are written as parts of the weights. A model that computes anything else
---than one of its config.json would is refused; there it says whether the head is tied to the
---embedding, as in the model. How features become vectors (modules.json) is copied, not compared.
---
---A path that ends in `.gguf` becomes a file that llama.cpp and heed read, weights in blocks
---included, of the architectures and tokenizers that `models.load` takes there. What its keys
---cannot say is refused, and so is a file that is there, unless `replace` is true.
---@param path string of the directory, which is made where there is none; or of a .gguf file
---@param model heed.models.Model
---@param given? heed.models.save.options
---@return true? done nil where files cannot be written, or the model has no form there
---@return string|table<string, string>? message or, of a .gguf file, why it does not say keys of
---generation_config.json, by their names
function M.save(path, model, given, ...)
  options.no_more("models.save", 3, ...)
  whole.check_path("models.save", path)
  local o = options.read("models.save", given, {dtype = options.any, replace = false})
  check_dtype("models.save", o.dtype, "model:quantize('%s') makes blocks of weights before")
  local is_file = is_gguf("models.save", path)
  check_model("models.save", model, is_file)
  if not is_file and not o.dtype then check_values(model) end
  local done, why = refuse.try((is_file and gguf_saving or saving).save, path, model, o.replace,
                               o.dtype)
  if done then return true, type(done) == "table" and done or nil end
  return nil, ("models.save: %s"):format(why)
end


---Saves the adapters of a model (`nn.lora`) as a directory that PEFT reads: adapter_config.json and
---adapter_model.safetensors.
---@param path string of the directory, which is made where there is none
---@param model heed.models.Model of a directory
---@param given? {replace: boolean} whether files of other programs are written over; false unless
---given
---@return true? done nil where files cannot be written
---@return string? message
function M.save_adapters(path, model, given, ...)
  options.no_more("models.save_adapters", 3, ...)
  whole.check_path("models.save_adapters", path)
  if is_gguf("models.save_adapters", path) then
    fail("models.save_adapters: a directory's path expected, got '%s'; adapters are no GGUF file",
         path)
  end
  local o = options.read("models.save_adapters", given, {replace = false})
  check_model("models.save_adapters", model)
  local done, why = refuse.try(peft.save, path, model, o.replace)
  if done then return true end
  return nil, ("models.save_adapters: %s"):format(why)
end


---Puts the adapters of a directory, as PEFT and `models.save_adapters` write them, beside linear
---layers of a model, and freezes all its other parameters. Where several layers of the model are
---one matrix in its files, each gets its rows.
---@param path string
---@param model heed.models.Model of a directory, without adapters
---@return heed.Lora? adapters as `nn.lora` gives them; nil where the directory is refused
---@return string? message
function M.load_adapters(path, model, ...)
  options.no_more("models.load_adapters", 2, ...)
  whole.check_path("models.load_adapters", path)
  check_model("models.load_adapters", model)
  adapters.check_none("models.load_adapters", model)
  local all, why = refuse.try(peft.load, path, model)
  if all then return all end
  return nil, about("models.load_adapters", path, why)
end


return options.strict("heed.models", M, torch_names.models)
