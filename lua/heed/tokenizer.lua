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
local loading = require "heed.tokenizer.loading"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local special = require "heed.tokenizer.special"
local torch_names = require "heed.internal.torch_names"
local training = require "heed.tokenizer.training"
local whole = require "heed.files.whole"

local fail, kind = heed.fail, options.kind
local native <const> = core.text

local Tokenizer <const> = loading.Tokenizer

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
---@field max? integer ids in all: the longer text loses its last ones, or its first ones where
---tokenizer_config.json has the truncation_side left, or else tokenizer.json that direction
---@field offsets? boolean int64 (T, 2) too, each token's first and last byte, false unless given
---@field types? boolean int64 (T) too, of which text of a pair each token is, from 1, as models of
---pairs want it; false unless given


local M = {}

---Reads a tokenizer: the tokenizer.json of a folder, or such a file; where there is none, BERT's
---vocab.txt, GPT-2's vocab.json with merges.txt, or SentencePiece's .model; or the tokenizer of a
---GGUF file.
---@param path string
---@return heed.Tokenizer? tokenizer
---@return string? message
function M.load(path, ...)
  options.no_more("tokenizer.load", 1, ...)
  whole.check_path("tokenizer.load", path)
  local tok, why = refuse.try(loading.load, path)
  if tok then return tok end
  return nil, "tokenizer.load: " .. why
end


---@class heed.tokenizer.train.options
---@field kind "bpe"|"wordpiece" byte-level BPE, as GPT-2 has it, or BERT's WordPiece
---@field text? string what it learns from
---@field texts? string[]|fun(): string? in its place: a list, or what gives one after the other
---@field vocabulary integer tokens in all, at most
---@field special? table<string|integer, string> names of special tokens: by their parts, as in
---{pad = "<pad>", eos = "<eos>"}, and others as a list; they have the first ids
---@field least? integer how often a pair must be there to become a token, 2 unless given
---@field pattern? string of bpe: a regular expression whose matches are words; or GPT-2's
---@field lower? boolean of wordpiece: letters lose case and accents, true unless given
---@field characters? integer of wordpiece: how many have tokens, 1000 unless given


---Learns a tokenizer from texts. The pair of neighbours that is there most often becomes a token,
---and of equally frequent ones that with the smaller ids: equal texts give equal tokenizers.
---@param given heed.tokenizer.train.options
---@return heed.Tokenizer
function M.train(given, ...)
  options.no_more("tokenizer.train", 1, ...)
  local file, names = training.file(given)
  local tok, why = refuse.try(loading.parse, file, names)
  if not tok then fail("tokenizer.train: %s", why) end
  tok.file, tok.config = file, training.config(names)
  return tok
end


-- Ids of one text, or of two, and where they are asked for its offsets and types.
local function encode_one(tok, text, pair, o)
  check_text("encode", "text", text)
  return core.called("encode", native.encode, tok.native, text, pair, o.special, o.parse, o.max,
                     o.offsets, o.types, tok.left)
end


-- Both texts of a pair, or the one that stands for itself.
local function texts_of(value, i)
  if type(value) ~= "table" or getmetatable(value) ~= nil then
    return check_text("encode", ("text %d"):format(i), value)
  end
  local n = rawlen(value)
  if n ~= 2 then
    fail("encode: a text or a list of two expected at position %d, got %s", i,
         n == 0 and kind(value) or ("a list of %d"):format(n))
  end
  return check_text("encode", ("the first text of pair %d"):format(i), rawget(value, 1)),
         check_text("encode", ("the second text of pair %d"):format(i), rawget(value, 2))
end


-- Texts, or pairs of them, as ids (B, T), their lengths, and types where they are asked for.
local function encode_all(tok, texts, o)
  options.check_list("encode", texts)
  if next(texts) == nil then
    fail("encode: a text, or a list of texts expected, got an empty table")
  end
  if o.pair ~= nil or o.offsets then
    fail("encode: one text expected with option %s, got a list%s", o.pair and "pair" or "offsets",
         o.pair and "; write pairs as {text, other}" or "")
  end
  local rows, types = {}, o.types and {}
  for i = 1, options.last(texts) do
    local text, pair = texts_of(rawget(texts, i), i)
    local ids, _, kinds = encode_one(tok, text, pair, o)
    rows[i] = ids
    if types then types[i] = kinds end
  end
  local ids, lengths = heed.pad(rows, {value = tok.parts.pad or 1})
  return ids, lengths, types and (heed.pad(types)) or nil
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


---Turns a text into ids, int64 (T), which count from 1. A list of texts, or of pairs {text, other},
---gives ids (B, T), which are padded with the file's own token or else with 1, and their lengths,
---int64 (B). Offsets and types follow where they are asked for.
---@param text string|(string|string[])[]
---@param given? heed.Tokenizer.encode.options
---@return heed.Tensor ids
---@return heed.Tensor? more of a list the lengths; offsets; types
---@return heed.Tensor? types
function Tokenizer:encode(text, given)
  local any = options.any
  local o = options.read("encode", given, {special = true, parse = any, pair = any, max = any,
                                           offsets = false, types = false},
                         torch_names.encode)
  o.parse = o.parse ~= nil and check_parse(o.parse)
  if o.pair ~= nil then check_text("encode", "option pair", o.pair) end
  if o.max ~= nil then o.max = options.count("encode", "option max", o.max) end
  if type(text) == "table" then return encode_all(self, text, o) end
  local ids, offsets, types = encode_one(self, text, o.pair, o)
  if o.offsets and o.types then return ids, offsets, types end
  if o.offsets or o.types then return ids, o.offsets and offsets or types end
  return ids
end


local function is_ids(value)
  return options.is_alive(value) and value.dtype == "int64" and value:dim() == 1
end


-- The text of ids, which are a list or a tensor of rank 1; `where` they stand.
local function decode_one(tok, ids, o, where)
  if is_ids(ids) then ids = ids:to("cpu"):contiguous()
  elseif type(ids) == "table" and not getmetatable(ids) then
    ids = heed.tensor(options.ids("decode" .. where, ids), {dtype = "int64", device = "cpu"})
  else
    fail("decode%s: ids expected, int64 of rank 1 or 2, or a list, got %s", where, kind(ids))
  end
  return core.called("decode", native.decode, tok.native, ids, o.special)
end


-- Rows of ids: those of a tensor (B, T), or a list of lists or tensors; nil: these are ids.
local function rows_of(ids)
  if options.is_alive(ids) and ids.dtype == "int64" and ids:dim() == 2 then
    local rows = {}
    for i = 1, #ids do rows[i] = ids[i] end
    return rows
  elseif type(ids) == "table" and not getmetatable(ids) then
    local first = rawget(ids, 1)
    return (is_ids(first) or type(first) == "table") and ids or nil
  end
end


-- How many ids of each row count.
local function lengths_of(lengths, n)
  if options.is_alive(lengths) and lengths:dim() == 1 then lengths = lengths:totable() end
  if type(lengths) ~= "table" or getmetatable(lengths) or rawlen(lengths) ~= n then
    fail("decode: %d lengths expected, got %s", n,
         type(lengths) == "table" and ("a list of %d"):format(rawlen(lengths)) or kind(lengths))
  end
  return lengths
end


local function first_of(row, n, i)
  n = options.count("decode", ("length %d"):format(i), n, 0)
  local most = is_ids(row) and #row or rawlen(row)
  if n > most then fail("decode: length %d: at most %d expected, got %d", i, most, n) end
  if is_ids(row) then return row:narrow(1, 1, n) end
  return table.move(row, 1, n, 1, {})
end


---The text that ids stand for; of ids (B, T), or of a list of rows, a list of texts, also with the
---lengths that `encode` gives behind the ids. Bytes that are no UTF-8 come out as they went in.
---@param ids heed.Tensor|integer[]|(heed.Tensor|integer[])[]
---@param lengths? heed.Tensor|{special?: boolean, lengths?: heed.Tensor|integer[]} how many ids of
---each row count; or the options
---@param given? {special: boolean} special tokens too, false unless given
---@return string|string[]
function Tokenizer:decode(ids, lengths, given)
  local any = options.any
  if heed.is_tensor(lengths) then
    given = options.read("decode", given, {special = false}, torch_names.decode)
    given.lengths = lengths
  else
    options.no_more("decode", 2, given)
    given = lengths
  end
  local o = options.read("decode", given, {special = false, lengths = any}, torch_names.decode)
  local rows = rows_of(ids)
  if not rows then
    if o.lengths ~= nil then fail("decode: rows of ids expected where lengths are given") end
    return decode_one(self, ids, o, "")
  end
  local n, texts = rawlen(rows), {}
  lengths = o.lengths ~= nil and lengths_of(o.lengths, n)
  for i = 1, n do
    local row = rawget(rows, i)
    if lengths and (is_ids(row) or type(row) == "table") then
      row = first_of(row, rawget(lengths, i), i)
    end
    texts[i] = decode_one(self, row, o, (": row %d"):format(i))
  end
  return texts
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
  local o = options.read("stream", given, {special = false}, torch_names.decode)
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


---The ids of tokens that have a part of their own, as the model's directory names them: bos, eos,
---unk, sep, pad, cls and mask; nil where it has none.
---@return table<string, integer>
function Tokenizer:special()
  local parts = {}
  for part, id in pairs(self.parts) do parts[part] = id end
  return parts
end


---Writes a trained tokenizer: its tokenizer.json, or in a folder that and a tokenizer_config.json
---with the names of special tokens. Each file is complete or as it was before.
---@param path string the folder, made where there is none, or the file, which ends in .json
---@return true? done
---@return string? message
function Tokenizer:save(path)
  whole.check_path("save", path)
  if not self.file then
    fail("save: a tokenizer that was trained expected; this one was read from a file, which can " ..
         "be copied")
  end
  local is_file = path:sub(-5) == ".json"
  local done, why = true, nil
  if not is_file then done, why = core.make_folder(path) end
  if done then
    done, why = core.write_file(is_file and path or path .. "/tokenizer.json", {self.file})
  end
  if done and not is_file then
    done, why = core.write_file(path .. "/tokenizer_config.json", {self.config})
  end
  if not done then return nil, "save: " .. why end
  return true
end


---The id of what has no token, where the file has one.
---@return integer?
function Tokenizer:unknown() return native.unknown(self.native) end


---How many ids there are.
---@return integer
function Tokenizer:__len() return native.count(self.native) end


function Tokenizer:__call()
  fail("tokenizer: it is not called itself; write tokenizer:encode(text)")
end


function Tokenizer:__tostring() return ("heed.Tokenizer(%d tokens)"):format(#self) end


function Stream:__tostring() return "heed.Tokenizer.Stream" end


options.guard(Tokenizer, {decode = 3, encode = 2, id = 1, save = 1, special = 0, stream = 1,
                          token = 1, unknown = 0},
              {is = is_tokenizer, what = "a tokenizer", variable = "tok"})

-- What to write for the names that other libraries have.
local ELSEWHERE <const> = {}
for _, part in ipairs(special.PARTS) do
  for _, name in ipairs{"_id", "_token", "_token_id"} do
    ELSEWHERE[part .. name] = "tok:special()." .. part
  end
end
options.strict("tokenizer", Tokenizer, ELSEWHERE)
options.guard(Stream, {finish = 0, push = 1},
              {is = function(value) return rawequal(getmetatable(value), Stream) end,
               what = "a stream", variable = "stream"})
options.strict("stream", Stream)

return options.strict("heed.tokenizer", M)
