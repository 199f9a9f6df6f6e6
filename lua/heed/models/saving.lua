-- Models back into directories, as published ones are kept: config.json, tensors under their
-- published names, and the files beside them, copied.

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local gguf_directory = require "heed.models.gguf_directory"
local heed = require "heed"
local json = require "heed.files.json"
local names = require "heed.models.names"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local save = require "heed.save"

local quoted = refuse.quoted

local saving = {}

local WEIGHTS <const>, CONFIG <const> = "model.safetensors", "config.json"
local MARK <const>, OURS <const> = "writer", "heed.models.save"      -- in the metadata of weights

-- Files beside the weights that a directory may have.
local BESIDE = {}
for name in ([[
  LICENSE LICENSE.txt
  added_tokens.json chat_template.jinja chat_template.json config_sentence_transformers.json
  generation_config.json merges.txt modules.json preprocessor_config.json processor_config.json
  sentence_albert_config.json sentence_bert_config.json sentence_camembert_config.json
  sentence_distilbert_config.json sentence_roberta_config.json sentence_xlm-roberta_config.json
  sentence_xlnet_config.json sentencepiece.bpe.model sentencepiece.model special_tokens_map.json
  spiece.model tokenizer.json tokenizer.model tokenizer_config.json vocab.json vocab.txt
]]):gmatch "%S+" do BESIDE[#BESIDE + 1] = name end


local function is_there(path)
  local file <close> = core.open_file(path)
  return file ~= nil
end


-- The folders that modules.json names.
local function folders_of(path)
  local list = {}
  for _, entry in ipairs(reading.json(path, "modules.json", true) or {}) do
    if entry.path ~= "" and entry.path ~= "." then list[#list + 1] = entry.path end
  end
  return list
end


-- The files of a directory that are copied, by their names in it, and the folders that they need.
local function files_of(path)
  local list, folders = {}, {}
  local function add(name)
    if is_there(path .. "/" .. name) then list[#list + 1] = name end
  end
  for _, name in ipairs(BESIDE) do add(name) end
  for _, folder in ipairs(folders_of(path)) do
    folders[#folders + 1] = folder
    add(folder .. "/" .. CONFIG)
    add(folder .. "/tokenizer.json")
    add(folder .. "/tokenizer_config.json")
  end
  return list, folders
end


-- Types of tensors, as config.json names them.
local function dtype_of(model)
  return model:parameters()[1].dtype
end


---Where a model came from, kept with it.
---@class heed.models.origin
---@field path string
---@field source heed.models.source
---@field files string[] that are copied
---@field folders string[]
---@field config string|false what config.json says, in one spelling; false where there is none
---@field dtype string
---@field tokenizer any

---Notes what a directory has beside the weights.
---@param path string
---@param model heed.models.Model
---@param source heed.models.source
---@return heed.models.origin
function saving.origin(path, model, source)
  local files, folders = files_of(path)
  return {
    path = path, source = source, files = files, folders = folders, dtype = dtype_of(model),
    config = is_there(path .. "/" .. CONFIG) and json.encode(model.config),
    tokenizer = model.tokenizer,
  }
end


-- Writing --------------------------------------------------------------

-- The text of a file of the directory that the model came from.
local function original(origin, name)
  local text, why = core.read_file(origin.path .. "/" .. name)
  return text or refuse.with("%s; models.save copies it", why)
end


-- config.json: as it came, unless the configuration or the tensors' type is another one now.
local function config_text(model, origin, dtype)
  local c = model.config
  dtype = dtype or dtype_of(model)
  if dtype == origin.dtype and json.encode(c) == origin.config then
    return original(origin, CONFIG)
  end
  local own = {}
  for name, value in next, c do own[name] = value end
  local key = own.torch_dtype ~= nil and "torch_dtype" or "dtype"
  if dtype ~= origin.dtype then own[key] = dtype end
  return json.encode(own) .. "\n"
end


-- All small files: name and text.
local function texts_of(model, origin, dtype)
  local list = origin.gguf and gguf_directory.texts(model) or {}
  for _, name in ipairs(origin.files) do list[#list + 1] = {name, original(origin, name)} end
  if origin.config then list[#list + 1] = {CONFIG, config_text(model, origin, dtype)} end
  return list
end


---Floats and blocks as values of another type.
---@param tensors table<string, heed.Tensor>
---@param dtype? string nil: as they are
---@return table<string, heed.Tensor>
function saving.values(tensors, dtype)
  local own = {}
  for name, t in next, tensors do
    local changes = dtype and (blocks[t.dtype] or t.dtype:find("float"))
    own[name] = changes and t:to(dtype) or t
  end
  return own
end


-- All files of tensors: name and tensors.
local function tensors_of(model, origin, dtype)
  local folder = (origin.source.folder or origin.path):sub(#origin.path + 2)
  local list = {{(folder == "" and "" or folder .. "/") .. WEIGHTS,
                 saving.values(model:published(), dtype)}}
  for _, dense in ipairs(model.sentences and model.sentences.dense or {}) do
    list[#list + 1] = {dense.folder .. "/" .. WEIGHTS,
                       saving.values(names.collect(dense.linear, dense.source), dtype)}
  end
  return list
end


-- What is there already ------------------------------------------------------------

-- Whether models.save has written the weights of a directory.
local function is_ours(file)
  if not is_there(file) then return false end
  local _, metadata = save.load(file, {device = "cpu", mapped = true})
  return type(metadata) == "table" and metadata[MARK] == OURS
end


-- Refuses to write over what another program has written.
local function check_free(path, texts, weights)
  if is_ours(path .. "/" .. weights[1][1]) then return end
  local function refuse_foreign(name)
    refuse.with("%s/%s is there, and models.save has not written it; option replace = true writes "
                .. "over it", path, name)
  end
  for _, row in ipairs(texts) do
    local there = core.read_file(path .. "/" .. row[1])
    if there and there ~= row[2] then refuse_foreign(row[1]) end
  end
  for _, row in ipairs(weights) do
    if is_there(path .. "/" .. row[1]) then refuse_foreign(row[1]) end
  end
end


-- Writing ------------------------------------------------------------------------------

local function make_folders(path, folders)
  local made, why = core.make_folder(path)
  for _, folder in ipairs(folders) do
    if made then made, why = core.make_folder(path .. "/" .. folder) end
  end
  if not made then refuse.with("%s", why) end
end


---Writes a directory: its folders, its tensors, its texts. The last text is the one that makes a
---loader take the directory for what it is.
---@param path string
---@param folders string[]
---@param weights {[1]: string, [2]: table<string, heed.Tensor>}[] file names and tensors
---@param texts {[1]: string, [2]: string}[]
---@param replace boolean whether files of other programs are written over
---@return true
function saving.write(path, folders, weights, texts, replace)
  make_folders(path, {})
  if not replace then check_free(path, texts, weights) end
  make_folders(path, folders)
  for _, row in ipairs(weights) do
    local done, why = save.save(path .. "/" .. row[1], row[2], {format = "pt", [MARK] = OURS})
    if not done then refuse.with("%s", (why:gsub("^save: ", ""))) end
  end
  for _, row in ipairs(texts) do
    local done, why = core.write_file(path .. "/" .. row[1], {row[2]})
    if not done then refuse.with("%s", why) end
  end
  return true
end


---Writes the directory of a model, config.json last.
---@param path string
---@param model heed.models.Model
---@param replace boolean
---@param dtype? string of its floats and blocks; nil: as they are
---@return true
function saving.save(path, model, replace, dtype)
  local origin = rawget(model, "origin")
  if not rawequal(origin.tokenizer, model.tokenizer) then
    heed.fail("models.save: the model has another tokenizer than its directory, %s, which heed "
              .. "does not write", quoted(origin.path))
  end
  return saving.write(path, origin.folders, tensors_of(model, origin, dtype),
                      texts_of(model, origin, dtype), replace)
end


return saving
