-- Tokenizers from files: whatever the format, a file becomes the text of a tokenizer.json, which is
-- read then. What is malformed is refused by `refuse.with`.

local added = require "heed.tokenizer.added"
local core = require "heed.core"
local gguf = require "heed.files.gguf"
local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local overrides = require "heed.tokenizer.overrides"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"
local special = require "heed.tokenizer.special"
local vocabularies = require "heed.tokenizer.vocabularies"

local native <const> = core.text

local loading = {}

---@class heed.Tokenizer
---@field native userdata the tokenizer of C
---@field parts table<string, integer> ids of special tokens
---@field file string|false of a trained one: the text of its tokenizer.json
---@field config string|false and of its tokenizer_config.json
---@field left boolean whether texts that are too long lose their first ids
local Tokenizer = {__name = "heed.Tokenizer"}
Tokenizer.__index = Tokenizer

loading.Tokenizer = Tokenizer

-- Names of SentencePiece's file in a folder.
local MODELS <const> = {"tokenizer.model", "sentencepiece.bpe.model", "spiece.model",
                        "sentencepiece.model"}


-- What a reader makes of a file's text; its refusal names the file.
local function within(path, reader, ...)
  local result, why = refuse.try(reader, ...)
  return result or refuse.with("%s: %s", path, why)
end


---A tokenizer of a tokenizer.json's text; special tokens that have these names get their parts.
---@param text string
---@param names table<string, string>
---@return heed.Tokenizer
function loading.parse(text, names)
  local found, message = native.read(text)
  if not found then refuse.with("%s", message) end
  local tok = setmetatable({native = found, parts = {pad = native.padding(found)}, file = false,
                            config = false, left = native.left(found)}, Tokenizer)
  for part, name in pairs(names) do
    tok.parts[part] = native.find(found, name) or tok.parts[part]
  end
  return tok
end


---The tokenizer of a GGUF file's metadata.
---@param metadata table<string, any>
---@return heed.Tokenizer
function loading.of_metadata(metadata)
  return loading.parse(gguf_tokenizer.to_json(metadata), gguf_tokenizer.special(metadata))
end


local function read_gguf(path)
  local file <close>, why = core.open_file(path)
  if not file then refuse.with("%s", why) end
  return within(path, function() return loading.of_metadata(gguf.metadata(file)) end)
end


-- The text of a file, or nil where there is none.
local function read(path) return core.read_file(path) or nil end

-- The result of a reader of a file's text and of the small files beside it.
local function with_others(folder, files, path, reader, ...)
  return within(path, function(...) return reader(added.read(folder, files), ...) end, ...)
end


-- The text of a tokenizer.json that a folder's files come to, where it stands, and the special
-- tokens of such files.
local function source_of(folder, files)
  local path = folder .. "/tokenizer.json"
  local text, why = core.read_file(path)
  if text then return within(path, overrides.apply, folder, files, text), path, {} end
  local merges = read(folder .. "/merges.txt")
  path = folder .. "/vocab.json"
  local vocabulary = merges and read(path)
  if vocabulary then
    return with_others(folder, files, path, vocabularies.bytes, vocabulary, merges), path,
           vocabularies.GPT2
  end
  path = folder .. "/vocab.txt"
  vocabulary = read(path)
  if vocabulary then
    return with_others(folder, files, path, vocabularies.pieces, vocabulary), path,
           vocabularies.BERT
  end
  for _, name in ipairs(MODELS) do
    path = folder .. "/" .. name
    local bytes = read(path)
    if bytes then
      return with_others(folder, files, path, vocabularies.sentences, bytes), path,
             vocabularies.PIECES
    end
  end
  return nil, why
end


---The text of a tokenizer.json that a folder's files come to; nil where there are none.
---@param folder string
---@return string?
function loading.source(folder)
  local text = source_of(folder, special.files(folder))
  return text
end


local function read_folder(folder)
  local files = special.files(folder)
  local text, path, names = source_of(folder, files)
  if not text then refuse.with("%s", path) end
  local tok = within(path, loading.parse, text, special.names(folder, files, names))
  local left = overrides.is_left(folder, files.config)
  if left ~= nil then tok.left = left end
  return tok
end


local function read_text(path)
  local text, why = core.read_file(path)
  return text or refuse.with("%s", why)
end


---Reads the tokenizer of a folder or a file.
---@param path string
---@return heed.Tokenizer
function loading.load(path)
  if path:sub(-5) == ".gguf" then return read_gguf(path) end
  if path:sub(-5) == ".json" then return within(path, loading.parse, read_text(path), {}) end
  if path:sub(-6) ~= ".model" then return read_folder(path) end
  local text = within(path, sentencepiece.to_json, read_text(path))
  return within(path, loading.parse, text, {})
end


return loading
