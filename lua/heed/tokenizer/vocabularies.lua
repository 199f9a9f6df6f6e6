-- Vocabularies as older models have them, as the text of a tokenizer.json: BERT's vocab.txt,
-- GPT-2's vocab.json with merges.txt, and SentencePiece's files.

local added = require "heed.tokenizer.added"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"
local template = require "heed.files.template"

local vocabularies = {}

---Special tokens of classes whose files may not name them, by their parts.
vocabularies.BERT = {unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]"}
vocabularies.GPT2 = {bos = "<|endoftext|>", eos = "<|endoftext|>", unk = "<|endoftext|>"}
vocabularies.PIECES = {bos = "<s>", eos = "</s>", unk = "<unk>", pad = "<pad>"}


-- The lines of a file, without the line end of Windows.
local function lines_of(text)
  local list = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\r?\n") do list[#list + 1] = line end
  return list
end


---Classes that cut texts as BERT's does.
vocabularies.BERTS = {
  BertTokenizer = true, ConvBertTokenizer = true, DistilBertTokenizer = true,
  DPRContextEncoderTokenizer = true, DPRQuestionEncoderTokenizer = true, DPRReaderTokenizer = true,
  ElectraTokenizer = true, LayoutLMTokenizer = true, LxmertTokenizer = true,
  MobileBertTokenizer = true, RetriBertTokenizer = true, SqueezeBertTokenizer = true,
}

-- Refuses a class that cuts texts otherwise.
local function check_class(class, known, files)
  if class and not known[class] then
    refuse.with("a tokenizer.json expected beside the class %s: %s alone are not known of it",
                class, files)
  end
end


-- The name of a special token.
local function name_of(says, part, default)
  local token = says.named[part]
  return token and token.content or default
end


---BERT's vocabulary, a token on each line, whose ids count from 0.
---@param says heed.tokenizer.says
---@param text string of vocab.txt
---@return string json
function vocabularies.pieces(says, text)
  local ids, config, own = {}, says.config, {}
  check_class(says.class, vocabularies.BERTS, "a vocab.txt")
  for i, name in ipairs(lines_of(text)) do
    if ids[name] then refuse.with("the token '%s' of line %d stands there twice", name, i) end
    ids[name] = i - 1
  end
  for part, default in next, vocabularies.BERT do own[part] = name_of(says, part, default) end
  for _, part in ipairs{"unk", "cls", "sep"} do
    if not ids[own[part]] then refuse.with("a line with %s expected", own[part]) end
  end
  local option = added.option
  return json.encode{
    added_tokens = added.tokens(ids, says, {own.pad, own.unk, own.cls, own.sep, own.mask}),
    normalizer = {type = "BertNormalizer", clean_text = true,
                  handle_chinese_chars = option(config, "tokenize_chinese_chars", true),
                  strip_accents = option(config, "strip_accents", json.null),
                  lowercase = option(config, "do_lower_case", true)},
    pre_tokenizer = {type = "BertPreTokenizer"},
    post_processor = {type = "BertProcessing", cls = json.array{own.cls, ids[own.cls]},
                      sep = json.array{own.sep, ids[own.sep]}},
    decoder = {type = "WordPiece", prefix = "##", cleanup = true},
    model = {type = "WordPiece", unk_token = own.unk, continuing_subword_prefix = "##",
             max_input_chars_per_word = 100, vocab = ids},
  }
end


-- Two tokens on each line; the first line may name the version.
local function merges_of(text)
  local list = {}
  for i, line in ipairs(lines_of(text)) do
    if not (i == 1 and line:find("^#version")) and line ~= "" then list[#list + 1] = line end
  end
  return json.array(list)
end


-- The template of texts that begin, or end, with tokens: options of the configuration say whether
-- they do, or else those of a class.
local function around(tokens, says, names, class)
  local function token(part)
    local flag = ("add_%s_token"):format(part)
    if not added.option(says.config, flag, class[flag] or false) then return nil end
    local name = name_of(says, part, names[part])
    for _, each in ipairs(tokens) do
      if each.content == name then return {name, each.id} end
    end
    refuse.with("a token %s expected, which texts get", name)
  end
  local first, last = token "bos", token "eos"
  return template{first = first, last = last, between = first, of = class.has_one_type and 0 or 1}
end


---GPT-2's vocabulary, of a table of ids and a list of merges.
---@param says heed.tokenizer.says
---@param text string of vocab.json
---@param merges string of merges.txt
---@return string json
function vocabularies.bytes(says, text, merges)
  local ids = json.decode(text)
  check_class(says.class, {GPT2Tokenizer = true}, "vocab.json and merges.txt")
  if type(ids) ~= "table" or json.is_array(ids) then refuse.with("a table of ids expected") end
  local defaults = {}
  for part, name in next, vocabularies.GPT2 do
    if not says.named[part] then defaults[1] = name end
  end
  local tokens = added.tokens(ids, says, defaults)
  return json.encode{
    added_tokens = tokens, post_processor = around(tokens, says, vocabularies.GPT2, {}),
    pre_tokenizer = {type = "ByteLevel", use_regex = true,
                     add_prefix_space = added.option(says.config, "add_prefix_space", false)},
    decoder = {type = "ByteLevel"},
    model = {type = "BPE", vocab = ids, merges = merges_of(merges)},
  }
end


---@class heed.tokenizer.class
---@field add_bos_token? boolean texts begin with a token unless the configuration says otherwise
---@field add_eos_token? boolean they end with one
---@field has_one_type? boolean both texts of a pair are of one type
---@field extra_ids? integer how many tokens <extra_id_0>, ... follow, the last one first

local MOST_GAPS <const>, LLAMA <const> = 10000, {add_bos_token = true}
-- Classes whose ids are those of SentencePiece.
---@type table<string, heed.tokenizer.class>
local CLASSES <const> = {
  CodeLlamaTokenizer = LLAMA, GemmaTokenizer = LLAMA, LlamaTokenizer = LLAMA,
  T5Tokenizer = {add_eos_token = true, has_one_type = true, extra_ids = 100},
}


-- Classes of models, where the files do not name that of their tokenizer.
local OF_MODELS <const> = {
  camembert = "CamembertTokenizer", gemma = "GemmaTokenizer", gemma2 = "GemmaTokenizer",
  gemma3_text = "GemmaTokenizer", llama = "LlamaTokenizer", m2m_100 = "M2M100Tokenizer",
  mbart = "MBartTokenizer", mistral = "LlamaTokenizer", mt5 = "T5Tokenizer", t5 = "T5Tokenizer",
  ["xlm-roberta"] = "XLMRobertaTokenizer",
}


-- Gives the tokens of T5 that stand for gaps their ids, behind all others, where no file does.
local function number_gaps(says, count, n)
  local own, listed = {}, 0
  for _, token in ipairs(says.list) do
    local i = token.content:match("^<extra_id_(%d+)>$")
    if i and token.id then return end
    if i then listed = listed + 1 end
  end
  if listed > 0 then count = listed end
  for i = count - 1, 0, -1 do
    own[#own + 1] = {content = ("<extra_id_%d>"):format(i), id = n + #own, special = true,
                     normalized = false, single_word = false, lstrip = false, rstrip = false}
  end
  table.move(says.list, 1, #says.list, #own + 1, own)
  says.list = own
end


---The pieces of SentencePiece's file, with the tokens and options of the files beside it.
---@param says heed.tokenizer.says
---@param bytes string
---@return string json
function vocabularies.sentences(says, bytes)
  local config, name = says.config, says.class or OF_MODELS[says.model_type or ""]
  check_class(name, CLASSES, "SentencePiece's files")
  local class = CLASSES[name or ""] or {}
  local is_bare = not added.option(config, "add_prefix_space", true)
  local content = sentencepiece.content_of(bytes, is_bare)
  local vocab, ids, n, own = content.model.vocab, {}, 0, {}
  for key, value in next, vocab do
    if json.is_array(vocab) then ids[value[1]] = key - 1 else ids[key] = value end
    n = n + 1
  end
  if class.extra_ids then
    local count = config.extra_ids or class.extra_ids
    if math.type(count) ~= "integer" or count < 0 or count > MOST_GAPS then
      refuse.with("a count of at most %d expected as extra_ids", MOST_GAPS)
    end
    number_gaps(says, count, n)
  end
  local tokens = added.tokens(ids, says, {})
  for _, token in ipairs(tokens) do own[token.content] = token end
  for _, token in ipairs(content.added_tokens) do
    local other = own[token.content]
    if other then other.special = other.special or token.special
    else tokens[#tokens + 1] = token
    end
  end
  local way = content.pre_tokenizer
  local always = class.has_one_type or added.option(config, "legacy", false)
  if always and way.prepend_scheme == "first" then way.prepend_scheme = "always" end
  content.added_tokens = tokens
  content.post_processor = around(tokens, says, vocabularies.PIECES, class)
  return json.encode(content)
end


return vocabularies
