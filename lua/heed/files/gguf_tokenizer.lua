-- The tokenizer in a GGUF file's metadata, as the text of a tokenizer.json: byte BPE, whose
-- splitting has a name alone; pieces that scores join, as Llama 2 has them; WordPiece; Unigram.
--
-- The metadata lack which tokens take the blanks beside them along, and how texts are normalized:
-- both follow from the names of the model and of its splitting, as in llama.cpp's
-- src/llama-vocab.cpp. Where a token or a name that texts need is missing, the file is refused.

local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"
local template = require "heed.files.template"

local quoted = refuse.quoted

local gguf_tokenizer = {}

local MARK <const>, kinds = sentencepiece.MARK, sentencepiece.kinds
local NORMAL <const>, UNKNOWN <const>, CONTROL <const> = kinds.NORMAL, kinds.UNKNOWN, kinds.CONTROL
local GIVEN <const>, UNUSED <const>, BYTE <const> = kinds.GIVEN, kinds.UNUSED, kinds.BYTE

---The keys of special tokens, by their parts.
gguf_tokenizer.ids = {
  bos = "bos_token_id", cls = "cls_token_id", eos = "eos_token_id", mask = "mask_token_id",
  pad = "padding_token_id", sep = "seperator_token_id", unk = "unknown_token_id",
}


-- What the metadata say ------------------------------------------------------

local function get(metadata, key) return metadata["tokenizer.ggml." .. key] end


-- A list, of `n` values of a type where that is given; nil where there is none.
local function list(metadata, key, kind, n)
  local values = get(metadata, key)
  if values == nil then return nil end
  if type(values) ~= "table" or n and #values ~= n then
    refuse.with("tokenizer.ggml.%s: a list%s expected", key, n and (" of %d"):format(n) or "")
  end
  for i, value in ipairs(values) do
    if type(value) ~= kind then
      refuse.with("tokenizer.ggml.%s: a %s expected at %d, got %s", key, kind, i, type(value))
    elseif kind == "string" and not utf8.len(value) then
      refuse.with("tokenizer.ggml.%s: UTF-8 expected at %d, got %s", key, i, quoted(value))
    end
  end
  return values
end


local function flag(metadata, key, otherwise)
  local value = get(metadata, key)
  if value == nil then return otherwise end
  if type(value) ~= "boolean" then
    refuse.with("tokenizer.ggml.%s: a boolean expected, got %s", key, type(value))
  end
  return value
end


-- The token, from 1, that a key names; nil where there is none.
local function named(metadata, key, tokens)
  local id = get(metadata, key)
  if id == nil then return nil end
  if math.type(id) ~= "integer" or id < 0 or id >= #tokens then
    refuse.with("tokenizer.ggml.%s: the id of one of %d tokens expected, got %s", key, #tokens,
                tostring(id))
  end
  return id + 1
end


---@class heed.gguf.vocabulary
---@field metadata table<string, any>
---@field tokens string[]
---@field kinds integer[] of each

local function read_vocabulary(metadata)
  local tokens = list(metadata, "tokens", "string")
  if not tokens or #tokens == 0 then
    refuse.with("tokenizer.ggml.tokens: a list of tokens expected")
  end
  local own = list(metadata, "token_type", "number", #tokens)
  return {metadata = metadata, tokens = tokens, kinds = own or {}}
end


-- Ids by tokens, of which each stands there once.
local function ids_of(v)
  local ids = {}
  for i, token in ipairs(v.tokens) do
    if ids[token] then
      refuse.with("tokenizer.ggml.tokens: %s stands there twice", quoted(token))
    end
    ids[token] = i - 1
  end
  return ids
end


local function added_tokens(v)
  local all = {}
  for i, token in ipairs(v.tokens) do
    local kind = v.kinds[i]
    local special = kind == CONTROL or kind == UNKNOWN
    if (special or kind == GIVEN) and token ~= "" then
      all[#all + 1] = {id = i - 1, content = token, special = special, normalized = false,
                       single_word = false, lstrip = false, rstrip = false}
    end
  end
  return json.array(all)
end


-- The template of tokens by their places, from 1, as in heed.template.around.
local function template_of(v, first, last, between, of)
  local function token(i) return i and {v.tokens[i], i - 1} end
  return template{first = token(first), last = token(last), between = token(between), of = of}
end


-- The token that a part names, which texts get.
local function needed(v, part)
  local key = gguf_tokenizer.ids[part]
  return named(v.metadata, key, v.tokens)
         or refuse.with("tokenizer.ggml.%s expected: texts get that token unless add_%s_token "
                        .. "is false", key, part)
end


-- The token before the second text of a pair, and this text's type, which is `of` unless one token
-- more parts the texts, as Roberta's. Texts of one type, as T5's, begin once; others as well where
-- they have an end and the file says that nothing parts them.
local function pairing(v, first, last, of)
  local is_parted = flag(v.metadata, "add_sep_token")
  if is_parted then return needed(v, "sep"), 0 end
  if of == 0 or last and is_parted == false then return nil, of end
  return first, of
end


-- The begin and the end that texts get: what keys say, else `begins` and `ends`.
local function around(v, of, begins, ends)
  local function part_of(part, otherwise)
    return flag(v.metadata, "add_" .. part .. "_token", otherwise) and needed(v, part) or nil
  end
  local first, last = part_of("bos", begins), part_of("eos", ends)
  local between, own = pairing(v, first, last, of)
  return template_of(v, first, last, between, own)
end


-- BERT's two texts: the second has an end alone.
local function around_words(v)
  local function one(part, other)
    return named(v.metadata, gguf_tokenizer.ids[part], v.tokens) or
           named(v.metadata, gguf_tokenizer.ids[other], v.tokens) or
           refuse.with("tokenizer.ggml.%s expected beside the model bert", gguf_tokenizer.ids[part])
  end
  local first, last = one("cls", "bos"), one("sep", "eos")
  local is_parted = flag(v.metadata, "add_sep_token")
  return template_of(v, first, last, is_parted and last or nil, is_parted and 0 or 1)
end


-- Byte BPE -------------------------------------------------------------------------

local LLAMA3 <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|]]
                       .. [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
local QWEN2 <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|]]
                      .. [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]

-- The splitting that llama.cpp calls default, and no published tokenizer has.
local DEFAULT <const> = {
  [[[\p{P}\$\+<=>\^~\|]+]],
  [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)]],
  [[\p{N}+]], "[0-9][0-9][0-9]",
}

---@class heed.gguf.splitting
---@field patterns? string[] of one Split after the other; GPT-2's own where there are none
---@field digits? boolean each digit is a piece
---@field whole? boolean a word that is a token stays one
---@field nfc? boolean
---@field bos? boolean a text has a begin unless the file says otherwise

---@type table<string, heed.gguf.splitting>
local SPLITTING <const> = {
  default = {patterns = DEFAULT}, ["gpt-2"] = {},
  ["llama-bpe"] = {patterns = {LLAMA3}, whole = true, bos = true},
  qwen2 = {patterns = {QWEN2}, nfc = true}, smollm = {digits = true},
}
local SAME <const> = {["llama-v3"] = "llama-bpe", llama3 = "llama-bpe"}
gguf_tokenizer.splitting = SPLITTING


---The pre-tokenizer of a splitting.
---@param split heed.gguf.splitting
---@return table
function gguf_tokenizer.pre_tokenizer(split)
  local parts = {}
  if split.digits then parts[1] = {type = "Digits", individual_digits = true} end
  for _, pattern in ipairs(split.patterns or {}) do
    parts[#parts + 1] = {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated",
                         invert = false}
  end
  parts[#parts + 1] = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
                       use_regex = not split.patterns}
  return {type = "Sequence", pretokenizers = json.array(parts)}
end


---How the package tokenizers writes the decoder of bytes.
gguf_tokenizer.bytes = {type = "ByteLevel", add_prefix_space = true, trim_offsets = true,
                        use_regex = true}

local function byte_pairs(v)
  local name = get(v.metadata, "pre")
  local split = type(name) == "string" and (rawget(SPLITTING, name)
                                            or rawget(SPLITTING, rawget(SAME, name) or ""))
  if not split then
    local known = {}
    for kind in next, SPLITTING do known[#known + 1] = kind end
    for kind in next, SAME do known[#known + 1] = kind end
    table.sort(known)
    refuse.with("tokenizer.ggml.pre: one of %s expected, got %s", table.concat(known, ", "),
                type(name) == "string" and quoted(name) or name == nil and "none" or type(name))
  end
  local merges = list(v.metadata, "merges", "string")
  if not merges then refuse.with("tokenizer.ggml.merges: a list expected beside the model gpt2") end
  return {
    added_tokens = added_tokens(v), normalizer = split.nfc and {type = "NFC"} or nil,
    pre_tokenizer = gguf_tokenizer.pre_tokenizer(split), decoder = gguf_tokenizer.bytes,
    post_processor = around(v, 1, split.bos or false, false),
    model = {type = "BPE", vocab = ids_of(v), merges = json.array(merges),
             ignore_merges = split.whole or false},
  }
end


-- Pieces with scores ----------------------------------------------------------------

local function pieces(v, kind, trims)
  local scores = list(v.metadata, "scores", "number", #v.tokens)
  if not scores then refuse.with("tokenizer.ggml.scores: a list of %d expected", #v.tokens) end
  local map = get(v.metadata, "precompiled_charsmap")
  if map ~= nil and type(map) ~= "string" then
    refuse.with("tokenizer.ggml.precompiled_charsmap: bytes expected, got %s", type(map))
  end
  local model = {pieces = {}, known = {}, model = kind, bytes = 0, map = map or "",
                 prefix = flag(v.metadata, "add_space_prefix", true) and 1 or 0,
                 trims = flag(v.metadata, "remove_extra_whitespaces", trims) and 1 or 0}
  for i, token in ipairs(v.tokens) do
    local piece = {name = token, score = scores[i] + 0.0, kind = v.kinds[i] or NORMAL}
    if piece.kind == UNUSED then piece.kind = CONTROL end
    if piece.kind == BYTE then model.bytes = 1 end
    sentencepiece.check_piece(piece, model.known)
    model.pieces[i], model.known[token] = piece, piece
  end
  local content = sentencepiece.content(model)
  -- the mark stands before each part of a text between special tokens, as llama.cpp has it
  if model.prefix ~= 0 then content.pre_tokenizer.prepend_scheme = "always" end
  return content
end


local function joined(v)
  local content = pieces(v, 2, false)
  content.post_processor = around(v, 1, true, false)
  return content
end


local function unigram(v)
  local content = pieces(v, 1, true)
  content.post_processor = around(v, 0, false, true)
  return content
end


-- WordPiece ----------------------------------------------------------------------------

---What texts become before WordPiece.
gguf_tokenizer.bert = {type = "BertNormalizer", clean_text = true, handle_chinese_chars = true,
                       strip_accents = json.null, lowercase = true}

---A token of WordPiece by its name in the file: a word's beginning has its mark there, and other
---pieces no longer their ##. Tokens that texts are searched for may have a mark or none.
---@param name string
---@param kind integer?
---@return string
function gguf_tokenizer.word(name, kind)
  if kind == CONTROL or kind == UNKNOWN then return name end
  if name:sub(1, #MARK) == MARK then return name:sub(#MARK + 1) end
  if kind == GIVEN or name:find("^%[.+%]$") then return name end
  return "##" .. name
end


local function word_pieces(v)
  local tokens = {}
  for i, token in ipairs(v.tokens) do tokens[i] = gguf_tokenizer.word(token, v.kinds[i]) end
  v.tokens = tokens
  local unknown = named(v.metadata, "unknown_token_id", tokens)
  if not unknown then
    refuse.with("tokenizer.ggml.unknown_token_id expected beside the model bert")
  end
  return {
    added_tokens = added_tokens(v), normalizer = gguf_tokenizer.bert,
    pre_tokenizer = {type = "BertPreTokenizer"}, post_processor = around_words(v),
    decoder = {type = "WordPiece", prefix = "##", cleanup = true},
    model = {type = "WordPiece", unk_token = tokens[unknown], continuing_subword_prefix = "##",
             max_input_chars_per_word = 100, vocab = ids_of(v)},
  }
end


---The template of metadata that say which tokens texts get; nil where they get none.
---@param metadata table<string, any>
---@return table?
function gguf_tokenizer.around(metadata)
  local v, model = read_vocabulary(metadata), get(metadata, "model")
  if model == "bert" then return around_words(v) end
  return around(v, model == "t5" and 0 or 1)
end


---Says that there is no tokenizer.
gguf_tokenizer.NONE = "none"

local MODELS <const> = {bert = word_pieces, gpt2 = byte_pairs, llama = joined, t5 = unigram}


---The names of special tokens, by their parts.
---@param metadata table<string, any>
---@return table<string, string>
function gguf_tokenizer.special(metadata)
  local tokens, names = get(metadata, "tokens"), {}
  for part, key in next, gguf_tokenizer.ids do
    local id = get(metadata, key)
    local name = math.type(id) == "integer" and type(tokens) == "table" and tokens[id + 1]
    names[part] = type(name) == "string" and name or nil
  end
  return names
end


---The metadata of a file as the text of a tokenizer.json; refuses what it does not know.
---@param metadata table<string, any>
---@return string
function gguf_tokenizer.to_json(metadata)
  local model = get(metadata, "model")
  if model == nil or model == gguf_tokenizer.NONE then
    refuse.with("tokenizer.ggml.model: there is none")
  end
  local content = type(model) == "string" and rawget(MODELS, model)
  if not content then
    refuse.with("tokenizer.ggml.model: bert, gpt2, llama or t5 expected, got %s",
                type(model) == "string" and quoted(model) or type(model))
  end
  return json.encode(content(read_vocabulary(metadata)))
end


return gguf_tokenizer
