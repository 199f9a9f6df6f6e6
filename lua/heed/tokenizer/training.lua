-- heed.tokenizer.train: byte-level BPE and WordPiece, learnt from texts, as a tokenizer.json.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local special = require "heed.tokenizer.special"
local torch_names = require "heed.internal.torch_names"

local fail, kind = heed.fail, options.kind
local native <const>, null <const> = core.text, json.null

local training = {}

local WHO <const> = "tokenizer.train"

-- The part of each special token, in the order of their ids.
local ORDER <const> = {"pad", "unk", "bos", "eos", "cls", "sep", "mask"}
local BERT <const> = {pad = "[PAD]", unk = "[UNK]", cls = "[CLS]", sep = "[SEP]", mask = "[MASK]"}


-- How texts are cut -------------------------------------------------------

local function split(pattern, bytes)
  return {type = "Sequence", pretokenizers = json.array{
    {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated", invert = false}, bytes,
  }}
end


local kinds = {}

function kinds.bpe(o)
  local bytes = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
                 use_regex = o.pattern == nil}
  return {
    normalizer = null, pre_tokenizer = o.pattern and split(o.pattern, bytes) or bytes,
    decoder = {type = "ByteLevel", add_prefix_space = true, trim_offsets = true, use_regex = true},
    model = {type = "BPE", dropout = null, unk_token = null, continuing_subword_prefix = null,
             end_of_word_suffix = null, fuse_unk = false, byte_fallback = false,
             ignore_merges = false},
  }
end


function kinds.wordpiece(o)
  return {
    normalizer = {type = "BertNormalizer", clean_text = true, handle_chinese_chars = true,
                  strip_accents = null, lowercase = o.lower},
    pre_tokenizer = {type = "BertPreTokenizer"},
    decoder = {type = "WordPiece", prefix = "##", cleanup = true},
    model = {type = "WordPiece", continuing_subword_prefix = "##", max_input_chars_per_word = 100},
  }
end


-- The same parts around a model without tokens, which a trainer reads.
local function untrained(parts)
  return json.encode{
    normalizer = parts.normalizer, pre_tokenizer = parts.pre_tokenizer,
    model = {type = "BPE", vocab = {}, merges = json.array{},
             continuing_subword_prefix = parts.model.continuing_subword_prefix},
  }
end


-- What was given ----------------------------------------------------------

local function is_part(key)
  for _, part in ipairs(special.PARTS) do if part == key then return true end end
  return false
end


local function check_name(name, where)
  if type(name) == "string" and name ~= "" and utf8.len(name) then return name end
  fail("%s: a text of UTF-8 expected as option special%s, got %s", WHO, where, kind(name))
end


-- Special tokens in their order, and the names of those that have a part.
local function special_of(given, defaults)
  local list, names, seen = {}, {}, {}
  for part, name in pairs(defaults) do names[part] = name end
  if given ~= nil and (type(given) ~= "table" or getmetatable(given)) then
    fail("%s: a table expected as option special, got %s", WHO, kind(given))
  end
  for key, name in pairs(given or {}) do
    if type(key) == "string" then
      if not is_part(key) then
        fail("%s: option special: unknown part '%s'; %s", WHO, key,
             options.hint(key, special.PARTS))
      end
      names[key] = check_name(name, "." .. key)
    end
  end
  local function add(name)
    if not seen[name] then list[#list + 1] = name end
    seen[name] = true
  end
  for _, part in ipairs(ORDER) do if names[part] then add(names[part]) end end
  for i = 1, rawlen(given or {}) do add(check_name(rawget(given, i), ("[%d]"):format(i))) end
  return list, names
end


local function feed(trainer, text, what)
  if type(text) ~= "string" then
    fail("%s: a string expected as %s, got %s", WHO, what, kind(text))
  end
  core.called(WHO, native.feed, trainer, text)
end


-- Feeds a text, or those of a list, or those that a function gives until nil.
local function feed_all(trainer, o)
  if (o.text == nil) == (o.texts == nil) then
    fail("%s: one of the options text and texts expected, got %s", WHO,
         o.text == nil and "none" or "both")
  elseif o.text ~= nil then feed(trainer, o.text, "option text")
  elseif type(o.texts) == "function" then
    local i = 0
    for text in o.texts do
      i = i + 1
      feed(trainer, text, ("text %d"):format(i))
    end
  elseif type(o.texts) == "table" then
    options.check_list(WHO, o.texts)
    for i = 1, options.last(o.texts) do
      feed(trainer, rawget(o.texts, i), ("text %d"):format(i))
    end
  else
    fail("%s: a list of texts or a function expected as option texts, got %s", WHO, kind(o.texts))
  end
end


-- The file ----------------------------------------------------------------

local function added_tokens(list)
  local added = {}
  for i, name in ipairs(list) do
    added[i] = {id = i - 1, content = name, special = true, normalized = false,
                single_word = false, lstrip = false, rstrip = false}
  end
  return json.array(added)
end


-- BERT's tokens around texts, where there are both.
local function around(names, ids)
  if not (names.cls and names.sep) then return null end
  return {type = "BertProcessing", cls = json.array{names.cls, ids[names.cls]},
          sep = json.array{names.sep, ids[names.sep]}}
end


local function file_of(parts, tokens, merges, list, names)
  local ids = {}
  for i, name in ipairs(tokens) do ids[name] = i - 1 end
  parts.model.vocab = ids
  if parts.model.type == "BPE" then parts.model.merges = json.array(merges)
  else parts.model.unk_token = names.unk
  end
  return json.encode{
    version = "1.0", truncation = null, padding = null, added_tokens = added_tokens(list),
    normalizer = parts.normalizer, pre_tokenizer = parts.pre_tokenizer,
    post_processor = around(names, ids), decoder = parts.decoder, model = parts.model,
  }
end


local ANY <const> = options.any

local OPTIONS <const> = {
  bpe = {kind = "", text = ANY, texts = ANY, vocabulary = ANY, special = ANY, least = 2,
         pattern = ANY},
  wordpiece = {kind = "", text = ANY, texts = ANY, vocabulary = ANY, special = ANY, least = 2,
               lower = true, characters = 1000},
}


local function read_options(given)
  local which = type(given) == "table" and rawget(given, "kind") or nil
  local o = options.read(WHO, given, OPTIONS[which] or OPTIONS.bpe,
                         torch_names.tokenizer_train)
  if not OPTIONS[which] then
    fail("%s: 'bpe' or 'wordpiece' expected as option kind, got %s", WHO, kind(which))
  end
  o.vocabulary = options.count(WHO, "option vocabulary", o.vocabulary)
  for _, name in ipairs{"least", "characters"} do
    if o[name] then o[name] = options.count(WHO, "option " .. name, o[name]) end
  end
  if o.pattern ~= nil and type(o.pattern) ~= "string" then
    fail("%s: a string expected as option pattern, got %s", WHO, kind(o.pattern))
  end
  return o
end


---Learns a tokenizer from texts, by the options of `heed.tokenizer.train`.
---@param given table
---@return string file the text of its tokenizer.json
---@return table<string, string> names of special tokens, by their parts
function training.file(given)
  local o = read_options(given)
  local list, names = special_of(o.special, o.kind == "wordpiece" and BERT or {})
  local parts = kinds[o.kind](o)
  local trainer = core.called(WHO, native.trainer, untrained(parts))
  feed_all(trainer, o)
  local tokens, merges = core.called(WHO, native.make, trainer, list, o.vocabulary, o.least,
                                     o.characters or 0)
  return file_of(parts, tokens, merges, list, names), names
end


---The text of a tokenizer_config.json that names special tokens.
---@param names table<string, string> by their parts
---@return string
function training.config(names)
  local config = {tokenizer_class = "PreTrainedTokenizerFast"}
  for part, name in pairs(names) do config[part .. "_token"] = name end
  return json.encode(config)
end


return training
