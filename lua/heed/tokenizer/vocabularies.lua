-- Vocabularies as older models have them, as the text of a tokenizer.json: BERT's vocab.txt, and
-- GPT-2's vocab.json with merges.txt.

local added = require "heed.tokenizer.added"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local vocabularies = {}

---Special tokens of classes whose files may not name them, by their parts.
vocabularies.BERT = {unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]"}
vocabularies.GPT2 = {bos = "<|endoftext|>", eos = "<|endoftext|>", unk = "<|endoftext|>"}


-- The lines of a file, without the line end of Windows.
local function lines_of(text)
  local list = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\r?\n") do list[#list + 1] = line end
  return list
end


-- Classes that cut texts as BERT's does.
local BERTS <const> = {
  BertTokenizer = true, ConvBertTokenizer = true, DistilBertTokenizer = true,
  DPRContextEncoderTokenizer = true, DPRQuestionEncoderTokenizer = true, DPRReaderTokenizer = true,
  ElectraTokenizer = true, LayoutLMTokenizer = true, LxmertTokenizer = true,
  MobileBertTokenizer = true, RetriBertTokenizer = true, SqueezeBertTokenizer = true,
}

-- Refuses a class that cuts texts otherwise.
local function check_class(config, known, files)
  local class = config.tokenizer_class
  if class == nil or rawequal(class, json.null) then return end
  local name = type(class) == "string" and class:gsub("Fast$", "") or ""
  if not known[name] then
    refuse.with("a tokenizer.json expected beside the class %s: %s alone are not known of it",
                tostring(class), files)
  end
end


-- The name of a special token.
local function name_of(says, part, default)
  local token = says.named[part]
  return token and token.content or default
end


---BERT's vocabulary, a token on each line, whose ids count from 0.
---@param text string of vocab.txt
---@param says heed.tokenizer.says
---@return string json
function vocabularies.pieces(text, says)
  local ids, config, own = {}, says.config, {}
  check_class(config, BERTS, "a vocab.txt")
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


-- The template of texts that begin, or end, with tokens, as options of the configuration say.
local function around(tokens, says)
  local pair, special, single = {}, {}, nil
  local function put(part, of)
    if not added.option(says.config, ("add_%s_token"):format(part), false) then return end
    local name = name_of(says, part, vocabularies.GPT2[part])
    for _, token in ipairs(tokens) do
      if token.content == name then
        special[name] = {id = name, ids = json.array{token.id}, tokens = json.array{name}}
      end
    end
    if not special[name] then refuse.with("a token %s expected, which texts get", name) end
    pair[#pair + 1] = {SpecialToken = {id = name, type_id = of}}
  end
  for of, name in ipairs{"A", "B"} do
    put("bos", of - 1)
    pair[#pair + 1] = {Sequence = {id = name, type_id = of - 1}}
    put("eos", of - 1)
    single = single or json.array(table.move(pair, 1, #pair, 1, {}))
  end
  return next(special) and {type = "TemplateProcessing", single = single, pair = json.array(pair),
                            special_tokens = special} or nil
end


---GPT-2's vocabulary, of a table of ids and a list of merges.
---@param text string of vocab.json
---@param merges string of merges.txt
---@param says heed.tokenizer.says
---@return string json
function vocabularies.bytes(text, merges, says)
  local ids = json.decode(text)
  check_class(says.config, {GPT2Tokenizer = true}, "vocab.json and merges.txt")
  if type(ids) ~= "table" or json.is_array(ids) then refuse.with("a table of ids expected") end
  local defaults = {}
  for part, name in next, vocabularies.GPT2 do
    if not says.named[part] then defaults[1] = name end
  end
  local tokens = added.tokens(ids, says, defaults)
  return json.encode{
    added_tokens = tokens, post_processor = around(tokens, says),
    pre_tokenizer = {type = "ByteLevel", use_regex = true,
                     add_prefix_space = added.option(says.config, "add_prefix_space", false)},
    decoder = {type = "ByteLevel"},
    model = {type = "BPE", vocab = ids, merges = merges_of(merges)},
  }
end


return vocabularies
