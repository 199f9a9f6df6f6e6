-- heed.tokenizer: tokenizers of published models, read from their tokenizer.json.
--
--   local tok = heed.tokenizer.load("a/model")      -- a folder, or the file itself
--   local ids = tok:encode("a text")                -- int64 (T), from 1
--   print(tok:decode(ids), #tok, tok:id("<|im_end|>"))
--
-- The parts that the file names are run as it says; one that is not known is refused by its name.
-- Special tokens that a text spells are text, unless `parse` asks for the tokens.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"
local vocabularies = require "heed.files.vocabularies"
local whole = require "heed.files.whole"

local fail, kind = heed.fail, options.kind
local native <const> = core.text

---@class heed.Tokenizer
---@field native userdata the tokenizer of C
local Tokenizer = {__name = "heed.Tokenizer"}
Tokenizer.__index = Tokenizer

local function is_tokenizer(value) return rawequal(getmetatable(value), Tokenizer) end


local function check_text(who, what, text)
  if type(text) == "string" then return text end
  fail("%s: a string expected as %s, got %s", who, what, kind(text))
end


---@class heed.Tokenizer.encode.options
---@field special? boolean the tokens that the model wants around a text, true unless given
---@field parse? boolean|heed.Tensor special tokens that a text spells become those, false unless
---given; or where they do: int64 (N, 2), the first and the last byte of parts of the text
---@field pair? string a second text
---@field max? integer ids in all: the longer text loses its last ones
---@field offsets? boolean int64 (T, 2) too, each token's first and last byte, false unless given
---@field types? boolean int64 (T) too, of which text of a pair each token is, from 1, as models of
---pairs want it; false unless given


local M = {}

local FILE <const> = "/tokenizer.json"


-- Names of SentencePiece's file in a folder.
local MODELS <const> = {"tokenizer.model", "sentencepiece.bpe.model", "spiece.model",
                        "sentencepiece.model"}

local function parse(text)
  local found, message = native.read(text)
  if not found then refuse.with("%s", message) end
  return setmetatable({native = found}, Tokenizer)
end


local function parse_model(bytes) return parse(sentencepiece.to_json(bytes)) end


local function parse_pieces(text, config) return parse(vocabularies.pieces(text, config)) end


local function parse_bytes(text, merges, config)
  return parse(vocabularies.bytes(text, merges, config))
end


-- The tokenizer of BERT's or GPT-2's files, or nothing where they are not there.
local function load_vocabulary(who, folder)
  local config = core.read_file(folder .. "/tokenizer_config.json") or nil
  local merges = core.read_file(folder .. "/merges.txt")
  if merges and core.read_file(folder .. "/vocab.json") then
    return whole.read(who, folder .. "/vocab.json", parse_bytes, merges, config)
  elseif core.read_file(folder .. "/vocab.txt") then
    return whole.read(who, folder .. "/vocab.txt", parse_pieces, config)
  end
end


-- The tokenizer of a folder: of tokenizer.json, or else of a vocabulary, or else of the first of
-- SentencePiece's names.
local function load_folder(who, folder)
  local tok, why = whole.read(who, folder .. FILE, parse)
  if tok or core.read_file(folder .. FILE) then return tok, why end
  local older, message = load_vocabulary(who, folder)
  if older or message then return older, message end
  for _, name in ipairs(MODELS) do
    local path = folder .. "/" .. name
    if core.read_file(path) then return whole.read(who, path, parse_model) end
  end
  return nil, why
end


---Reads a tokenizer: the tokenizer.json of a folder, or such a file; where there is none, BERT's
---vocab.txt, GPT-2's vocab.json with merges.txt, or SentencePiece's .model.
---@param path string
---@return heed.Tokenizer? tokenizer
---@return string? message
function M.load(path, ...)
  options.no_more("tokenizer.load", 1, ...)
  whole.check_path("tokenizer.load", path)
  if path:sub(-5) == ".json" then return whole.read("tokenizer.load", path, parse) end
  if path:sub(-6) == ".model" then return whole.read("tokenizer.load", path, parse_model) end
  return load_folder("tokenizer.load", path)
end


-- Ids, offsets and types of a text, by the options that were read.
local function encode_one(tok, text, o)
  check_text("encode", "text", text)
  return core.called("encode", native.encode, tok.native, text, o.pair, o.special, o.parse,
                     o.max)
end


-- Texts as ids (B, T), padded with `pad`, and their lengths.
local function encode_all(tok, texts, o)
  options.check_list("encode", texts)
  local single = o.pair and "pair" or o.offsets and "offsets" or o.types and "types"
  if single then fail("encode: one text expected with option %s, got a list", single) end
  local rows = {}
  for i = 1, options.last(texts) do rows[i] = encode_one(tok, texts[i], o) end
  return heed.pad(rows)
end


-- Where special tokens are found: everywhere, nowhere, or in parts of the text.
local function check_parse(given)
  if type(given) == "boolean" then return given end
  if options.is_alive(given) and given.dtype == "int64" and given:dim() == 2
     and given:size(2) == 2 then
    return given:to("cpu"):contiguous()
  end
  fail("encode: a boolean, or an int64 tensor of shape (N, 2) expected as option parse, got %s",
       kind(given))
end


---Turns a text into ids, int64 (T), which count from 1; a list of texts into ids (B, T), padded
---with 1, and their lengths, int64 (B).
---@param text string|string[]
---@param given? heed.Tokenizer.encode.options
---@return heed.Tensor ids
---@return heed.Tensor? lengths of a list, or offsets, or types
---@return heed.Tensor? types behind offsets
function Tokenizer:encode(text, given)
  local any = options.any
  local o = options.read("encode", given, {special = true, parse = any, pair = any, max = any,
                                           offsets = false, types = false})
  o.parse = o.parse ~= nil and check_parse(o.parse)
  if o.pair ~= nil then check_text("encode", "option pair", o.pair) end
  if o.max ~= nil then o.max = options.count("encode", "option max", o.max) end
  if type(text) == "table" then return encode_all(self, text, o) end
  local ids, offsets, types = encode_one(self, text, o)
  if o.offsets and o.types then return ids, offsets, types end
  if o.offsets or o.types then return ids, o.offsets and offsets or types end
  return ids
end


local function to_ids(ids)
  if options.is_alive(ids) and ids.dtype == "int64" and ids:dim() == 1 then
    return ids:to("cpu"):contiguous()
  elseif type(ids) == "table" and not getmetatable(ids) then
    return heed.tensor(ids, {dtype = "int64", device = "cpu"})
  end
  fail("decode: ids expected, int64 of rank 1 or a list, got %s", kind(ids))
end


---The text that ids stand for. Bytes that are no UTF-8 come out as they went in.
---@param ids heed.Tensor|integer[]
---@param given? {special: boolean} special tokens too; false unless given
---@return string
function Tokenizer:decode(ids, given)
  local o = options.read("decode", given, {special = false})
  return core.called("decode", native.decode, self.native, to_ids(ids), o.special)
end


---The text of ids that come one by one: `push` gives what is certain, in whole characters, and
---`finish` the rest.
---@class heed.Tokenizer.Stream
---@field tokenizer heed.Tokenizer
---@field native userdata the stream of C
local Stream = {__name = "heed.Tokenizer.Stream"}
Stream.__index = Stream


---The text that one id more makes certain, perhaps none.
---@param id integer
---@return string
function Stream:push(id)
  return core.called("push", native.push, self.tokenizer.native, self.native,
                     options.count("push", "id", id))
end


---The rest of the text. The stream is at the start of another one then.
---@return string
function Stream:finish()
  return core.called("finish", native.finish, self.tokenizer.native, self.native)
end


---Turns ids into text one by one, as a model gives them: no character is ever cut.
---@param given? {special: boolean} special tokens too; false unless given
---@return heed.Tokenizer.Stream
function Tokenizer:stream(given)
  local o = options.read("stream", given, {special = false})
  return setmetatable({tokenizer = self, native = native.stream(o.special)}, Stream)
end


---The id of a token by its name in the file, or nil.
---@param name string
---@return integer?
function Tokenizer:id(name)
  return native.find(self.native, check_text("id", "name", name))
end


---The name of a token in the file, or nil.
---@param id integer
---@return string?
function Tokenizer:token(id)
  return native.token(self.native, options.count("token", "id", id))
end


---The id of what has no token, where the file has one.
---@return integer?
function Tokenizer:unknown() return native.unknown(self.native) end


---How many ids there are.
---@return integer
function Tokenizer:__len() return native.count(self.native) end


function Tokenizer:__tostring() return ("heed.Tokenizer(%d tokens)"):format(#self) end


function Stream:__tostring() return "heed.Tokenizer.Stream" end


options.guard(Tokenizer, {decode = 2, encode = 2, id = 1, stream = 1, token = 1, unknown = 0},
              {is = is_tokenizer, what = "a tokenizer", variable = "tok"})
options.strict("tokenizer", Tokenizer)
options.guard(Stream, {finish = 0, push = 1},
              {is = function(value) return rawequal(getmetatable(value), Stream) end,
               what = "a stream", variable = "stream"})
options.strict("stream", Stream)

return options.strict("heed.tokenizer", M)
