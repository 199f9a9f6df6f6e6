-- Models back into directories, as published ones are kept: config.json, tensors under their
-- published names, and the files beside them, copied.

local blocks = require "heed.internal.blocks"
local building = require "heed.models.building"
local core = require "heed.core"
local first_parameter = require "heed.nn.first_parameter"
local generation = require "heed.models.generation"
local gguf_directory = require "heed.models.gguf_directory"
local heed = require "heed"
local json = require "heed.files.json"
local names = require "heed.models.names"
local refuse = require "heed.internal.refuse"
local safetensors = require "heed.files.safetensors"
local save = require "heed.save"
local sentences = require "heed.models.sentences"

local quoted = refuse.quoted

local saving = {}

local WEIGHTS <const>, CONFIG <const> = "model.safetensors", "config.json"
local GENERATION <const> = "generation_config.json"
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


-- Whether something has a name, also a folder or a file that cannot be read.
local function is_there(path)
  local file <close>, _, missing = core.open_file(path)
  return file ~= nil or not missing
end


-- The names that files beside the weights may have in a directory with these folders, but
-- config.json.
local function names_beside(folders)
  local list = table.move(BESIDE, 1, #BESIDE, 1, {})
  for _, folder in ipairs(folders) do
    list[#list + 1] = folder .. "/" .. CONFIG
    for _, name in ipairs(BESIDE) do list[#list + 1] = folder .. "/" .. name end
  end
  return list
end


-- The files of a directory that are copied, by their names in it, and the folders that they need.
local function files_of(path)
  local list, folders = {}, sentences.folders(path)
  for _, name in ipairs(names_beside(folders)) do
    if is_there(path .. "/" .. name) then list[#list + 1] = name end
  end
  return list, folders
end


-- Types of tensors, as config.json names them.
local function dtype_of(model)
  return first_parameter(model).dtype
end


---Where a model came from, kept with it.
---@class heed.models.origin
---@field path string
---@field source heed.models.source
---@field files string[] that are copied
---@field folders string[]
---@field config string|false what config.json says, in one spelling; false where there is none
---@field text string? of config.json, as it was read
---@field dtype string
---@field generation string? how words are chosen, in one spelling; nil: the model writes none
---@field tokenizer any

---Notes what a directory has beside the weights.
---@param path string
---@param model heed.models.Model
---@param source heed.models.source
---@return heed.models.origin
function saving.origin(path, model, source)
  local files, folders = files_of(path)
  local text = core.read_file(path .. "/" .. CONFIG)
  return {
    path = path, source = source, files = files, folders = folders, dtype = dtype_of(model),
    config = text ~= nil and json.encode(model.config), text = text, tokenizer = model.tokenizer,
    generation = generation.text(model),
  }
end


-- Writing --------------------------------------------------------------

-- The text of a file of the directory that the model came from.
local function original(origin, name)
  local text, why = core.read_file(origin.path .. "/" .. name)
  return text or refuse.with("%s; models.save copies it", why)
end


-- Whether a configuration and tensors become a model that is alike.
local function gives(model, c, tensors)
  return building.difference("models.save", model, c, tensors) == nil
end


-- The configuration by which the tensors become a model that is alike. Whether the head is tied to
-- the embedding is as in the model, where its family can say so.
local function config_of(model, origin, tensors)
  local c = model.config
  if origin.source.folder then return c end          -- of a table of vectors, which is of no family
  local why = building.difference("models.save", model, c, tensors)
  if not why then return c end
  for _, tied in ipairs{false, true} do
    local own = {tie_word_embeddings = tied}
    for name, value in next, c do
      if own[name] == nil then own[name] = value end
    end
    if refuse.try(gives, model, own, tensors) then return own end
  end
  refuse.with("config.json cannot say all of this model: %s in a model of model.config", why)
end


-- A configuration with another type of tensors, which its sections may name, too.
local function with_dtype(c, dtype, is_section)
  local own = {}
  for name, value in next, c do
    local is_part = not is_section and type(value) == "table" and not json.is_array(value)
                    and name:find("_config$")
    own[name] = is_part and with_dtype(value, dtype, true) or value
  end
  if own.torch_dtype ~= nil then own.torch_dtype = dtype end
  if own.dtype ~= nil or own.torch_dtype == nil and not is_section then own.dtype = dtype end
  return own
end


-- config.json: as it was read, unless the configuration or the tensors' type is another one now.
local function config_text(model, origin, dtype, tensors)
  local c = config_of(model, origin, tensors)
  dtype = dtype or dtype_of(model)
  if dtype ~= origin.dtype then return json.encode(with_dtype(c, dtype)) .. "\n" end
  local is_same = json.encode(c) == origin.config
  return is_same and origin.text or json.encode(c) .. "\n"
end


-- generation_config.json where it is written anew: from a GGUF file, or with what has changed since
-- it was read; nil: it is copied, or there is none.
local function generation_text(model, origin)
  local own = generation.text(model)
  local is_new = own and (own ~= origin.generation or origin.gguf and next(model.generation))
  return is_new and own .. "\n" or nil
end


-- All small files: name and text; `tensors` are those of the model.
local function texts_of(model, origin, dtype, tensors)
  local list = origin.gguf and gguf_directory.texts(model) or {}
  local words = generation_text(model, origin)
  if words then list[#list + 1] = {GENERATION, words} end
  for _, name in ipairs(origin.files) do
    if not (words and name == GENERATION) then list[#list + 1] = {name, original(origin, name)} end
  end
  if origin.config then
    list[#list + 1] = {CONFIG, config_text(model, origin, dtype, tensors)}
  end
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


-- All files of tensors: name and tensors, the model's own first.
local function tensors_of(model, origin, dtype)
  local folder = (origin.source.folder or origin.path):sub(#origin.path + 2)
  local list = {{(folder == "" and "" or folder .. "/") .. WEIGHTS,
                 saving.values(model:published(), dtype)}}
  for i, dense in ipairs(model.sentences and model.sentences.dense or {}) do
    local at = ("sentences.dense.%d.linear"):format(i)
    list[#list + 1] = {dense.folder .. "/" .. WEIGHTS,
                       saving.values(names.collect(dense.linear, dense.source, at), dtype)}
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


-- Refuses to write over what another program has written, file by file; texts beside weights of
-- models.save are its own, too.
local function check_free(path, texts, weights)
  local function refuse_foreign(name)
    refuse.with("%s/%s is there, and models.save has not written it; option replace = true writes "
                .. "over it", path, name)
  end
  local is_own = is_ours(path .. "/" .. weights[1][1])
  for _, row in ipairs(is_own and {} or texts) do
    local there, _, missing = core.read_file(path .. "/" .. row[1])
    if not missing and there ~= row[2] then refuse_foreign(row[1]) end
  end
  for _, row in ipairs(weights) do
    local file = path .. "/" .. row[1]
    if is_there(file) and not is_ours(file) then refuse_foreign(row[1]) end
  end
end


-- Refuses files of another model that would be read beside the new weights.
local function check_left(path, texts, beside)
  local written = {}
  for _, row in ipairs(texts) do written[row[1]] = true end
  for _, name in ipairs(beside) do
    local is_read = not name:find "LICENSE[^/]*$"
    if is_read and not written[name] and is_there(path .. "/" .. name) then
      refuse.with("%s/%s is there, which this model lacks and would be read with; remove it first",
                  path, name)
    end
  end
end


-- The indices of shards that are there, as indices of one file, so that no program reads shards in
-- the place of the new weights.
local function indices_of(path, weights)
  local list = {}
  for _, row in ipairs(weights) do
    local name = row[1] .. ".index.json"
    if is_there(path .. "/" .. name) then
      local bytes, map = 0, {}
      for tensor, t in next, row[2] do
        bytes = bytes + safetensors.bytes_of(t)
        map[tensor] = row[1]:match "[^/]*$"
      end
      list[#list + 1] = {name, json.encode{metadata = {total_size = bytes}, weight_map = map}}
    end
  end
  return list
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
---@param beside? string[] names of files that are read with these, where they are there
---@return true
function saving.write(path, folders, weights, texts, replace, beside)
  make_folders(path, {})
  local indices = indices_of(path, weights)
  texts = table.move(texts, 1, #texts, #indices + 1, indices)
  if not replace then check_free(path, texts, weights) end
  check_left(path, texts, beside or {})
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
  local weights = tensors_of(model, origin, dtype)
  local beside = names_beside(origin.folders)
  beside[#beside + 1] = CONFIG
  return saving.write(path, origin.folders, weights,
                      texts_of(model, origin, dtype, weights[1][2]), replace, beside)
end


return saving
