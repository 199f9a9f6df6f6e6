-- Vocabularies as older models have them, as the text of a tokenizer.json: BERT's vocab.txt, and
-- GPT-2's vocab.json with merges.txt.

local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"

local vocabularies = {}


-- The lines of a file, without the line end of Windows.
local function lines_of(text)
  local list = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\r?\n") do list[#list + 1] = line end
  return list
end


-- A flag, or the default where there is none.
local function option(config, name, default)
  local value = config[name]
  if value == nil or rawequal(value, json.null) then return default end
  if type(value) ~= "boolean" then refuse.with("true or false expected as %s", name) end
  return value
end


local function added_tokens(ids, names)
  local list = {}
  for _, name in ipairs(names) do
    if ids[name] then
      list[#list + 1] = {id = ids[name], content = name, special = true, normalized = false,
                         single_word = false, lstrip = false, rstrip = false}
    end
  end
  return json.array(list)
end


-- The options of tokenizer_config.json, or none.
local function read_config(text)
  if not text then return {} end
  local config = json.decode(text)
  if type(config) ~= "table" or json.is_array(config) then
    refuse.with("a table expected in tokenizer_config.json")
  end
  return config
end


---BERT's vocabulary, a token on each line, whose ids count from 0.
---@param text string of vocab.txt
---@param config? string of tokenizer_config.json
---@return string json
function vocabularies.pieces(text, config)
  local ids, given = {}, read_config(config)
  for i, name in ipairs(lines_of(text)) do
    if ids[name] then refuse.with("the token '%s' of line %d stands there twice", name, i) end
    ids[name] = i - 1
  end
  for _, name in ipairs{"[UNK]", "[CLS]", "[SEP]"} do
    if not ids[name] then refuse.with("a line with %s expected", name) end
  end
  return json.encode{
    added_tokens = added_tokens(ids, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}),
    normalizer = {type = "BertNormalizer", clean_text = true,
                  handle_chinese_chars = option(given, "tokenize_chinese_chars", true),
                  strip_accents = option(given, "strip_accents", json.null),
                  lowercase = option(given, "do_lower_case", true)},
    pre_tokenizer = {type = "BertPreTokenizer"},
    post_processor = {type = "BertProcessing", cls = json.array{"[CLS]", ids["[CLS]"]},
                      sep = json.array{"[SEP]", ids["[SEP]"]}},
    decoder = {type = "WordPiece", prefix = "##", cleanup = true},
    model = {type = "WordPiece", unk_token = "[UNK]", continuing_subword_prefix = "##",
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


---GPT-2's vocabulary, of a table of ids and a list of merges.
---@param text string of vocab.json
---@param merges string of merges.txt
---@param config? string of tokenizer_config.json
---@return string json
function vocabularies.bytes(text, merges, config)
  local ids, class = json.decode(text), read_config(config).tokenizer_class
  if type(ids) ~= "table" or json.is_array(ids) then refuse.with("a table of ids expected") end
  if class ~= nil and class ~= "GPT2Tokenizer" and class ~= "GPT2TokenizerFast" then
    refuse.with("a tokenizer.json expected beside the class %s: vocab.json and merges.txt alone " ..
                "are known of GPT2Tokenizer", tostring(class))
  end
  return json.encode{
    added_tokens = added_tokens(ids, {"<|endoftext|>"}),
    pre_tokenizer = {type = "ByteLevel", add_prefix_space = false, use_regex = true},
    decoder = {type = "ByteLevel"},
    model = {type = "BPE", vocab = ids, merges = merges_of(merges)},
  }
end


return vocabularies
