-- A tokenizer.json as the metadata of a GGUF file, the inverse of gguf_tokenizer.lua: byte BPE
-- whose splitting has a name, pieces that scores join, WordPiece, Unigram.
--
-- A part that those metadata cannot say is refused by name, since the file would give other ids;
-- where it matters for pairs of texts alone, it is told.

local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"

local quoted = refuse.quoted

local gguf_vocabulary = {}

local MARK <const>, kinds = sentencepiece.MARK, sentencepiece.kinds


local function reject(format, ...)
  refuse.with("its tokenizer has no form in GGUF: " .. format, ...)
end


-- A member, nil for null.
local function get(object, name)
  local value = type(object) == "table" and object[name]
  if value == false or rawequal(value, json.null) then return nil end
  return value or nil
end


-- Steps ----------------------------------------------------------------------

-- Members that change no ids.
local IDLE <const> = {add_prefix_space = {Metaspace = true}, str_rep = {Metaspace = true},
                      trim_offsets = {ByteLevel = true}}

-- Members that are not false where a step lacks them.
local DEFAULTS <const> = {BertNormalizer = {strip_accents = json.null},
                          ByteLevel = {use_regex = true}, Metaspace = {split = true}}

-- Where a step of Metaspace puts a mark; older files say whether it does.
local function scheme_of(step)
  local otherwise = step.add_prefix_space == false and "never" or "always"
  return get(step, "prepend_scheme") or otherwise
end


-- A step as text, in one spelling.
local function spelt(step)
  local own, defaults = {}, DEFAULTS[step.type] or {}
  for name, value in next, step do
    local is_idle = IDLE[name] and IDLE[name][step.type]
    local other = defaults[name]
    if other == nil then other = false end
    local says = not is_idle and value ~= other and not rawequal(value, json.null)
    if says then own[name] = value end
  end
  if own.type == "Metaspace" then own.prepend_scheme = scheme_of(step) end
  return json.encode(own)
end


-- The steps of a normalizer, pre-tokenizer or decoder, one after the other, as texts.
local function steps_of(part, list)
  list = list or {}
  if part == nil or rawequal(part, json.null) then return list end
  local inner = part.type == "Sequence"
                and (part.normalizers or part.pretokenizers or part.decoders)
  if not inner then list[#list + 1] = spelt(part) end
  for _, step in ipairs(inner or {}) do steps_of(step, list) end
  return list
end


local function same_steps(a, b)
  return table.concat(steps_of(a), "\n") == table.concat(steps_of(b), "\n")
end


-- Tokens around a text ---------------------------------------------------------

-- The parts of a template, each with its type: "A" and "B" are the texts, ids those of tokens.
local function spelt_template(list, special)
  local parts = {}
  for _, each in ipairs(list) do
    local text, token = get(each, "Sequence"), get(each, "SpecialToken")
    local ids = text and {text.id} or get(get(special, get(token, "id")), "ids")
    if type(ids) ~= "table" then reject("its post_processor") end
    for _, id in ipairs(ids) do
      parts[#parts + 1] = ("%s:%d"):format(id, get(text or token, "type_id") or 0)
    end
  end
  return parts
end


-- The templates of one text and of two, as lists of parts.
local function templates_of(part, otherwise)
  local kind = get(part, "type")
  if kind == nil or kind == "ByteLevel" then return otherwise end
  if kind == "Sequence" then
    for _, inner in ipairs(part.processors or {}) do otherwise = templates_of(inner, otherwise) end
    return otherwise
  elseif kind == "BertProcessing" or kind == "RobertaProcessing" then
    local first, last, is_bert = part.cls[2] .. ":0", part.sep[2] .. ":", kind == "BertProcessing"
    local pair = is_bert and {first, "A:0", last .. 0, "B:1", last .. 1}
                 or {first, "A:0", last .. 0, last .. 0, "B:0", last .. 0}
    return {single = {first, "A:0", last .. 0}, pair = pair}
  elseif kind ~= "TemplateProcessing" then reject("its post_processor %s", tostring(kind))
  end
  return {single = spelt_template(part.single, part.special_tokens),
          pair = spelt_template(part.pair, part.special_tokens)}
end

local PLAIN <const> = {single = {"A:0"}, pair = {"A:0", "B:1"}}


-- The ids before and behind a single text.
local function around(single)
  local before, behind = {}, {}
  local list = before
  for _, part in ipairs(single) do
    local id = math.tointeger(tonumber(part:match "^%d+"))
    if id then list[#list + 1] = id
    elseif rawequal(list, behind) then reject("its post_processor, which has a text twice")
    else list = behind
    end
  end
  return before, behind
end


-- The vocabulary -----------------------------------------------------------------

---@class heed.gguf.written
---@field tokens string[] by their ids, from 1
---@field kinds integer[]
---@field scores number[]
---@field values table<string, any> metadata behind "tokenizer.ggml."
---@field content table what tokenizer.json says
---@field finish? fun() what follows when all tokens are there

local function put_token(w, name, id, kind, rows)
  if math.type(id) ~= "integer" or id < 0 or id >= rows then
    reject("the token %s has the id %s, and the model %d ids", quoted(name), tostring(id), rows)
  elseif w.tokens[id + 1] and w.tokens[id + 1] ~= name then
    reject("two tokens of the id %d", id)
  end
  w.tokens[id + 1], w.kinds[id + 1] = name, kind
end


-- Added tokens, which a text is searched for.
local function put_added(w, rows)
  for _, token in ipairs(get(w.content, "added_tokens") or {}) do
    for _, name in ipairs{"lstrip", "rstrip", "single_word"} do
      if get(token, name) then reject("%s of %s", name, quoted(token.content)) end
    end
    if get(token, "normalized") and #steps_of(w.content.normalizer) > 0 then
      reject("normalized of %s", quoted(token.content))
    end
    put_token(w, token.content, token.id, token.special and kinds.CONTROL or kinds.GIVEN, rows)
  end
end


-- Ids without a token get names of their own, as converters of llama.cpp give them.
local function fill(w, rows)
  for i = 1, rows do
    if not w.tokens[i] then w.tokens[i], w.kinds[i] = ("[PAD%d]"):format(i - 1), kinds.UNUSED end
  end
end


local function put_unknown(w, name)
  for i, token in ipairs(w.tokens) do
    if token == name then
      w.kinds[i], w.values.unknown_token_id = kinds.UNKNOWN, i - 1
      return
    end
  end
  reject("there is no token for what is unknown")
end


-- Refuses flags of a model of merges that no metadata say.
local function check_flags(model, flags)
  for name, wanted in next, flags do
    local value = get(model, name) or false
    if value == "" then value = false end
    if value ~= wanted then reject("%s of its model", name) end
  end
end


-- The parts of a merge, which may have any blanks but spaces.
local function merge_of(merge)
  if type(merge) == "table" then return merge[1], merge[2] end
  return merge:match("^([^ ]+) ([^ ]+)$")
end


-- Byte BPE -------------------------------------------------------------------------

-- The name of how texts are split.
local function splitting_of(content)
  local names = {}
  for name in next, gguf_tokenizer.splitting do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local split = gguf_tokenizer.splitting[name]
    if same_steps(content.pre_tokenizer, gguf_tokenizer.pre_tokenizer(split))
       and same_steps(content.normalizer, split.nfc and {type = "NFC"} or nil)
       and (get(content.model, "ignore_merges") or false) == (split.whole or false) then
      return name
    end
  end
  reject("how it splits texts has no name there; the names %s are known", table.concat(names, ", "))
end


local function byte_pairs(w, rows)
  local model, merges = w.content.model, {}
  check_flags(model, {byte_fallback = false, continuing_subword_prefix = false, dropout = false,
                      end_of_word_suffix = false})
  if get(model, "unk_token") then reject("unk_token of its model") end
  for i, merge in ipairs(model.merges) do
    local a, b = merge_of(merge)
    if not a or (a .. b):find(" ", 1, true) then reject("a merge with blanks, number %d", i) end
    merges[i] = a .. " " .. b
  end
  w.values.model, w.values.pre, w.values.merges = "gpt2", splitting_of(w.content), merges
  for name, id in next, model.vocab do put_token(w, name, id, kinds.NORMAL, rows) end
end


-- Pieces with scores ----------------------------------------------------------------

local REPLACE <const> = {type = "Replace", pattern = {String = " "}, content = MARK}

-- Whether no piece has a mark behind its first character.
local function are_words(w)
  for _, name in next, w.tokens do
    if name:find(MARK, 2, true) then return false end
  end
  return true
end


-- Whether a mark is put before a text, as GGUF has it: before each part of a text between special
-- tokens, also where a blank stands there. Files of SentencePiece, whose mark `doubles`, say
-- nothing of special tokens in a text.
local function has_prefix(w)
  local content = w.content
  local steps = steps_of(content.normalizer)
  local prepends = steps[1] == spelt{type = "Prepend", prepend = MARK}
  if prepends then table.remove(steps, 1) end
  local way = content.pre_tokenizer
  local kind = get(way, "type")
  if #steps == 1 and steps[1] == spelt(REPLACE) then
    -- no step splits at marks; of blanks none is left
    if kind == nil or kind == "Split" and way.pattern.String == " " then return prepends end
  elseif #steps == 0 and not prepends and kind == "Metaspace" and way.replacement == MARK then
    local scheme = scheme_of(way)
    if way.split ~= false and not are_words(w) then
      reject("split of its pre_tokenizer beside pieces of several words")
    elseif scheme == "never" then return false
    elseif get(way, "doubles") then return true
    end
    reject("prepend_scheme %s of its pre_tokenizer", quoted(tostring(scheme)))
  end
  reject("its normalizer and pre_tokenizer beside merges of pieces")
end


-- Each piece that is made by merges, in their order, and the pairs that make it. Merges of added
-- tokens are left out: a text is searched for those before.
local function made_of(merges, kind_of)
  local order, pairs_of = {}, {}
  for _, merge in ipairs(merges) do
    local a, b = merge_of(merge)
    if not a then reject("a merge with blanks") end
    local name = a .. b
    local is_added = kind_of[name] ~= kinds.NORMAL or kind_of[a] ~= kinds.NORMAL
                     or kind_of[b] ~= kinds.NORMAL
    if is_added then goto continue end
    if not pairs_of[name] then
      order[#order + 1], pairs_of[name] = name, {}
    elseif order[#order] ~= name then reject("merges that make %s stand apart", quoted(name))
    end
    table.insert(pairs_of[name], a .. "\0" .. b)
    ::continue::
  end
  return order, pairs_of
end


-- Refuses merges that scores do not give: a score joins all pairs that make a piece.
local function check_merges(w, pairs_of, kind_of)
  local model = {pieces = {}, known = {}, model = 2, bytes = 0, map = "", prefix = 1, trims = 0}
  for i, name in ipairs(w.tokens) do
    local piece = {name = name, score = w.scores[i], kind = w.kinds[i]}
    model.pieces[i], model.known[name] = piece, piece
  end
  local _, wanted = made_of(sentencepiece.content(model).model.merges, kind_of)
  for name, list in next, wanted do
    local own = pairs_of[name] or reject("no merge makes the token %s", quoted(name))
    table.sort(list)
    table.sort(own)
    if table.concat(list, "\1") ~= table.concat(own, "\1") then
      reject("the merges that make the token %s are not all pairs of tokens that do", quoted(name))
    end
    pairs_of[name] = nil
  end
  local name = next(pairs_of)
  if name then reject("merges that make the token %s", quoted(name)) end
end


local function joined(w, rows)
  local model = w.content.model
  check_flags(model, {byte_fallback = true, continuing_subword_prefix = false, dropout = false,
                      end_of_word_suffix = false, fuse_unk = true, ignore_merges = false})
  for name, id in next, model.vocab do
    local is_byte = name:find("^<0x%x%x>$")
    put_token(w, name, id, is_byte and kinds.BYTE or kinds.NORMAL, rows)
  end
  w.values.model, w.values.pre = "llama", "default"
  w.values.add_space_prefix = has_prefix(w)
  w.finish = function()
    put_unknown(w, get(model, "unk_token") or "")
    local kind_of, rank = {}, {}
    for i, name in ipairs(w.tokens) do kind_of[name] = w.kinds[i] end
    local order, pairs_of = made_of(model.merges, kind_of)
    for i, name in ipairs(order) do rank[name] = i end
    for i, name in ipairs(w.tokens) do
      w.scores[i] = -1.0 * (rank[name] or w.kinds[i] == kinds.NORMAL and #order + i or 0)
    end
    check_merges(w, pairs_of, kind_of)
    w.values.scores = w.scores
  end
end


-- Unigram, WordPiece -------------------------------------------------------------

local function bytes_of(base64)
  local digits, bytes = {}, {}
  for i = 1, 64 do
    digits[sentencepiece.DIGITS:byte(i)] = i - 1
  end
  local bits, n = 0, 0
  for i = 1, #base64 do
    local digit = digits[base64:byte(i)]
    if digit then
      bits, n = (bits << 6 | digit) & 0xffffff, n + 6
      if n >= 8 then
        n = n - 8
        bytes[#bytes + 1] = string.char(bits >> n & 255)
      end
    end
  end
  return table.concat(bytes)
end


-- The map of a normalizer's characters.
local function map_of(part)
  if get(part, "type") == "Precompiled" then return bytes_of(part.precompiled_charsmap) end
  for _, step in ipairs(get(part, "normalizers") or {}) do
    local map = map_of(step)
    if map then return map end
  end
end


local function unigram(w, rows)
  local model, content = w.content.model, w.content
  for i, piece in ipairs(model.vocab) do
    local is_byte = piece[1]:find("^<0x%x%x>$") and get(model, "byte_fallback")
    put_token(w, piece[1], i - 1, is_byte and kinds.BYTE or kinds.NORMAL, rows)
    w.scores[i] = piece[2] + 0.0
  end
  local map, unknown = map_of(content.normalizer), get(model, "unk_id")
  w.values.model, w.values.precompiled_charsmap = "t5", map
  w.finish = function()
    put_unknown(w, w.tokens[(unknown or -1) + 1])
    for i = 1, rows do w.scores[i] = w.scores[i] or 0.0 end
    w.values.scores = w.scores
    local words, own = are_words(w), content.pre_tokenizer
    local pieces = {{name = MARK, score = 0.0, kind = kinds.UNKNOWN}}
    for i = 0, 3 do
      local like = sentencepiece.content{pieces = pieces, known = {}, model = 1, map = map or "",
                                         bytes = 0, prefix = i & 1, trims = i >> 1}
      like.pre_tokenizer.split = words
      if get(own, "prepend_scheme") == "always" and i & 1 == 1 then
        like.pre_tokenizer.prepend_scheme = "always"
      end
      if same_steps(like.normalizer, content.normalizer)
         and same_steps(like.pre_tokenizer, own) then
        w.values.add_space_prefix, w.values.remove_extra_whitespaces = i & 1 == 1, i >> 1 == 1
        return
      end
    end
    reject("its normalizer and pre_tokenizer beside Unigram")
  end
end


-- Pieces that begin a word get its mark, others lose their ##.
local function word_pieces(w, rows)
  local model, content = w.content.model, w.content
  check_flags(model, {continuing_subword_prefix = "##"})
  if get(model, "max_input_chars_per_word") ~= 100
     or not same_steps(content.normalizer, gguf_tokenizer.bert)
     or not same_steps(content.pre_tokenizer, {type = "BertPreTokenizer"}) then
    reject("of WordPiece the uncased one alone is known there")
  end
  w.values.model = "bert"
  for name, id in next, model.vocab do put_token(w, name, id, kinds.NORMAL, rows) end
  w.finish = function()
    put_unknown(w, model.unk_token)
    for i, name in ipairs(w.tokens) do
      local plain, there = w.kinds[i] ~= kinds.NORMAL or name:find("^%[.+%]$"), name
      if not plain then there = name:sub(1, 2) == "##" and name:sub(3) or MARK .. name end
      if gguf_tokenizer.word(there, w.kinds[i]) ~= name then
        reject("the token %s", quoted(name))
      end
      w.tokens[i] = there
    end
  end
end


-- The whole ------------------------------------------------------------------------

local MAKERS <const> = {Unigram = unigram, WordPiece = word_pieces}

local function maker_of(model)
  local kind = get(model, "type")
  if kind == "BPE" then return get(model, "byte_fallback") and joined or byte_pairs end
  return MAKERS[kind] or reject("its model %s", quoted(tostring(kind)))
end


-- Says what parts the texts of a pair, or tells that no metadata do.
local function put_pair(w, pair, is_around)
  local metadata = {["tokenizer.ggml.tokens"] = w.tokens}
  for name, value in next, w.values do metadata["tokenizer.ggml." .. name] = value end
  local sep, parted = gguf_tokenizer.ids.sep, "tokenizer.ggml.add_sep_token"
  local function gives(is_parted)
    metadata[parted] = is_parted
    local own = templates_of(gguf_tokenizer.around(metadata), PLAIN).pair
    return table.concat(own, " ") == table.concat(pair, " ")
  end
  if is_around and gives(false) then w.values.add_sep_token = false
  elseif not gives(nil) then
    metadata["tokenizer.ggml." .. sep] = w.values[sep] or w.values[gguf_tokenizer.ids.eos]
    if metadata["tokenizer.ggml." .. sep] and gives(true) then
      w.values.add_sep_token, w.values[sep] = true, metadata["tokenizer.ggml." .. sep]
    else w.left["tokenizer.json: pairs of texts"] = "GGUF has no form for the tokens around them"
    end
  end
end


-- The ids that a text begins and ends with; in WordPiece they are tokens of their own.
local function put_around(w, special)
  local templates = templates_of(w.content.post_processor, PLAIN)
  local before, behind = around(templates.single)
  if #before > 1 or #behind > 1 then reject("more than one token before or behind a text") end
  local is_bert = w.values.model == "bert"
  local first, last = is_bert and "cls" or "bos", is_bert and "sep" or "eos"
  for part, list in next, {[first] = before, [last] = behind} do
    if list[1] and special[part] and special[part] ~= list[1] then
      reject("a text gets the id %d, and the %s token is %d", list[1], part, special[part])
    end
    special[part] = list[1] or special[part]
  end
  if is_bert then
    if not (before[1] and behind[1]) then reject("no tokens around a text") end
  else w.values.add_bos_token, w.values.add_eos_token = #before == 1, #behind == 1
  end
  for part, id in next, special do w.values[gguf_tokenizer.ids[part]] = id end
  put_pair(w, templates.pair, before[1] or behind[1])
end


local TYPES <const> = {merges = "string[]", precompiled_charsmap = "uint8[]", scores = "float32[]",
                       token_type = "int32[]"}

---The metadata of a tokenizer, and the types of those that do not follow from their values.
---@param text string of a tokenizer.json
---@param rows integer how many ids the model has
---@param special table<string, integer> ids of special tokens, from 0, by their parts
---@return table<string, any> metadata
---@return table<string, string> types
---@return table<string, string> left what the metadata do not say, and why
function gguf_vocabulary.metadata(text, rows, special)
  local content = json.decode(text)
  local w = {tokens = {}, kinds = {}, scores = {}, values = {}, content = content, left = {}}
  maker_of(content.model)(w, rows)
  put_added(w, rows)
  fill(w, rows)
  if w.finish then w.finish() end
  local parts = {}
  for part, id in next, special do parts[part] = id end
  parts.unk = w.values.unknown_token_id or parts.unk
  put_around(w, parts)
  w.values.tokens, w.values.token_type = w.tokens, w.kinds
  local metadata, types = {}, {}
  for name, value in next, w.values do
    metadata["tokenizer.ggml." .. name], types["tokenizer.ggml." .. name] = value, TYPES[name]
  end
  return metadata, types, w.left
end


return gguf_vocabulary
