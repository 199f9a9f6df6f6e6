-- SentencePiece's .model files: what they say, as the text of a tokenizer.json.
--
-- The file is a message of protocol buffers. SentencePiece and the package `tokenizers` differ
-- where a normalizer composes (the longest match counts here) and in added tokens, which
-- SentencePiece does not look for in a text.

local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local char, sub, unpack = string.char, string.sub, string.unpack
local reject, quoted = refuse.with, refuse.quoted

local sentencepiece = {}

local MARK <const> = "\u{2581}"
sentencepiece.MARK = MARK             -- of a word's beginning
local MOST_BYTES <const> = 512     -- of a piece

---Kinds of pieces, in GGUF as well.
sentencepiece.kinds = {NORMAL = 1, UNKNOWN = 2, CONTROL = 3, GIVEN = 4, UNUSED = 5, BYTE = 6}
local kinds = sentencepiece.kinds
local NORMAL <const>, UNKNOWN <const>, CONTROL <const> = kinds.NORMAL, kinds.UNKNOWN, kinds.CONTROL
local GIVEN <const>, UNUSED <const>, BYTE <const> = kinds.GIVEN, kinds.UNUSED, kinds.BYTE


-- Protocol buffers. Readers take the bytes and a position, and give a value and the position behind
-- it; where the bytes end too early, they refuse.

local function varint(bytes, at)
  local value = 0
  for shift = 0, 63, 7 do
    local byte = bytes:byte(at)
    if not byte then reject("a number does not end") end
    value = value | (byte & 127) << shift
    at = at + 1
    if byte < 128 then return value, at end
  end
  reject("a number of more than 64 bits")
end


local function text(bytes, at)
  local n
  n, at = varint(bytes, at)
  if n < 0 or n > #bytes - at + 1 then reject("a field reaches beyond the end") end
  return sub(bytes, at, at + n - 1), at + n
end


local function fixed(format, size)
  return function(bytes, at)
    if #bytes - at + 1 < size then reject("a field reaches beyond the end") end
    return unpack(format, bytes, at)
  end
end

local readers <const> = {[0] = varint, [1] = fixed("<d", 8), [2] = text, [5] = fixed("<f", 4)}


-- The numbers, types and values of a message's fields, one after the other.
local function fields(bytes)
  local at = 1
  return function()
    if at > #bytes then return nil end
    local tag, value
    tag, at = varint(bytes, at)
    local read = readers[tag & 7]
    if not read then reject("a field of type %d", tag & 7) end
    value, at = read(bytes, at)
    return tag >> 3, tag & 7, value
  end
end


-- The fields of a message by the names in `known`: {[number] = {name, type}}; others are skipped.
local function message(bytes, known, into)
  for number, kind, value in fields(bytes) do
    local field = known[number]
    if field then
      if field[2] ~= kind then reject("field '%s' of type %d", field[1], kind) end
      into[field[1]] = value
    end
  end
  return into
end


-- The contents of the file

local PIECE <const> = {{"name", 2}, {"score", 5}, {"kind", 0}}
local TRAINER <const> = {[3] = {"model", 0}, [24] = {"suffixes", 0}, [35] = {"bytes", 0}}
local NORMALIZER <const> = {[2] = {"map", 2}, [3] = {"prefix", 0}, [4] = {"trims", 0},
                            [5] = {"marks", 0}}


---Refuses a piece that is none, or that is known.
---@param piece {name: string, score: number, kind: integer}
---@param known table<string, table>
function sentencepiece.check_piece(piece, known)
  local name = piece.name
  if not utf8.len(name) or #name > MOST_BYTES then
    reject("a piece of at most %d bytes of UTF-8 expected, got %s", MOST_BYTES, quoted(name))
  elseif known[name] then reject("two pieces %s", quoted(name))
  elseif piece.kind < NORMAL or piece.kind > BYTE or piece.kind == UNUSED then
    reject("piece %s: kind %d is not known", quoted(name), piece.kind)
  elseif piece.score ~= piece.score or math.abs(piece.score) > 3e38 then
    reject("piece %s: a finite score expected", quoted(name))
  end
end


local function read(bytes)
  local pieces, known = {}, {}
  local model = {pieces = pieces, known = known, model = 1, suffixes = 0, bytes = 0, map = "",
                 prefix = 1, trims = 1, marks = 1}
  for number, kind, value in fields(bytes) do
    if number <= 3 and kind ~= 2 then reject("field %d of type %d", number, kind) end
    if number == 1 then
      local piece = message(value, PIECE, {name = "", score = 0, kind = NORMAL})
      sentencepiece.check_piece(piece, known)
      pieces[#pieces + 1] = piece
      known[piece.name] = piece
    elseif number == 2 then message(value, TRAINER, model)
    elseif number == 3 then message(value, NORMALIZER, model)
    end
  end
  if #pieces == 0 then reject("pieces expected") end
  if model.model ~= 1 and model.model ~= 2 then
    reject("model type %d is not known: unigram (1) or BPE (2) expected", model.model)
  elseif model.suffixes ~= 0 then reject("treat_whitespace_as_suffix is not known")
  elseif model.marks == 0 then reject("escape_whitespaces = false is not known")
  end
  return model
end


-- The same as tokenizer.json

local function unknown_of(model)
  for i, piece in ipairs(model.pieces) do
    if piece.kind == UNKNOWN then return i - 1, piece.name end
  end
  reject("a piece for what is unknown expected")
end


-- Whether each piece has its mark in front, so that no piece reaches into another word.
local function are_words(model)
  for _, piece in ipairs(model.pieces) do
    if piece.name:find(MARK, 2, true) then return false end
  end
  return true
end


local function unigram(model)
  local list = {}
  for i, piece in ipairs(model.pieces) do list[i] = json.array{piece.name, piece.score} end
  return {type = "Unigram", vocab = json.array(list), unk_id = (unknown_of(model)),
          byte_fallback = model.bytes ~= 0, bytes_in_text = false}
end


-- The merges that make a piece: all pairs of pieces that it falls into.
local function add_merges(model, piece, merges)
  local name = piece.name
  for at = 2, #name do
    if name:byte(at) & 0xc0 ~= 0x80 then
      local left, right = model.known[sub(name, 1, at - 1)], model.known[sub(name, at)]
      if left and right and left.kind == NORMAL and right.kind == NORMAL then
        merges[#merges + 1] = {left.name, right.name, score = piece.score, at = #merges}
      end
    end
  end
end


-- The piece with the highest score is made first.
local function bpe(model)
  local vocabulary, merges = {}, {}
  for i, piece in ipairs(model.pieces) do
    vocabulary[piece.name] = i - 1
    if piece.kind == NORMAL then add_merges(model, piece, merges) end
  end
  table.sort(merges, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    return a.at < b.at
  end)
  for i, merge in ipairs(merges) do merges[i] = json.array{merge[1], merge[2]} end
  local _, unknown = unknown_of(model)
  return {type = "BPE", vocab = vocabulary, merges = json.array(merges), unk_token = unknown,
          fuse_unk = true, byte_fallback = model.bytes ~= 0}
end


local function added(model)
  local list = {}
  for i, piece in ipairs(model.pieces) do
    local special = piece.kind == UNKNOWN or piece.kind == CONTROL
    if special or piece.kind == GIVEN then
      list[#list + 1] = {id = i - 1, content = piece.name, special = special, normalized = false,
                         single_word = false, lstrip = false, rstrip = false}
    end
  end
  return json.array(list)
end


local DIGITS <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
sentencepiece.DIGITS = DIGITS          -- of base64

local function base64(bytes)
  local missing = -#bytes % 3
  local coded = (bytes .. ("\0"):rep(missing)):gsub("...", function(three)
    local word = unpack(">I3", three)
    return char(DIGITS:byte((word >> 18) + 1), DIGITS:byte((word >> 12 & 63) + 1),
                DIGITS:byte((word >> 6 & 63) + 1), DIGITS:byte((word & 63) + 1))
  end)
  return sub(coded, 1, #coded - missing) .. ("="):rep(missing)
end


local function replace(pattern, content)
  return {type = "Replace", pattern = {Regex = pattern}, content = content}
end


local function normalizer(model)
  local list = {}
  if model.map ~= "" then
    list[1] = {type = "Precompiled", precompiled_charsmap = base64(model.map), longest = true}
  end
  if model.trims ~= 0 then
    list[#list + 1] = replace("^ +| +$", "")
    list[#list + 1] = replace(" {2,}", " ")
  end
  return {type = "Sequence", normalizers = json.array(list)}
end


local function decoder(model)
  local list = {
    {type = "Replace", pattern = {String = MARK}, content = " "}, {type = "ByteFallback"},
    {type = "Fuse"},
  }
  if model.prefix ~= 0 then
    list[4] = {type = "Strip", content = " ", start = 1, stop = 0}
  end
  return {type = "Sequence", decoders = json.array(list)}
end


---Pieces as what a tokenizer.json says.
---@param model table pieces {name, score, kind}, and by name in `known`; model 1 (unigram) or 2;
---and the flags suffixes, bytes, prefix, trims, with the bytes of a `map`
---@return table
function sentencepiece.content(model)
  return {
    model = (model.model == 1 and unigram or bpe)(model), added_tokens = added(model),
    normalizer = normalizer(model), decoder = decoder(model),
    pre_tokenizer = {type = "Metaspace", replacement = MARK, split = are_words(model),
                     prepend_scheme = model.prefix ~= 0 and "first" or "never", doubles = true},
  }
end


---The bytes of a .model file as what a tokenizer.json says; refuses what is not known.
---@param bytes string
---@param is_bare? boolean no mark is put before a text
---@return table
function sentencepiece.content_of(bytes, is_bare)
  local model = read(bytes)
  if is_bare then model.prefix = 0 end
  return sentencepiece.content(model)
end


---The same as text.
---@param bytes string
---@return string
function sentencepiece.to_json(bytes) return json.encode(sentencepiece.content_of(bytes)) end


return sentencepiece
