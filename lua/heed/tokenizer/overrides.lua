-- Options of tokenizer_config.json that stand above the tokenizer.json beside it: classes of
-- transformers make parts of the tokenizer anew where the two disagree.

local added = require "heed.tokenizer.added"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local special = require "heed.tokenizer.special"
local vocabularies = require "heed.tokenizer.vocabularies"

local overrides = {}

local FILE <const> = "tokenizer_config.json"
local DEPTH <const> = 128


local function is_null(value) return value == nil or rawequal(value, json.null) end


-- A member of a tokenizer.json, whose members begin where parts say.
local function value_of(parts, name)
  return parts[name] and (json.value(parts.text, parts[name]))
end


-- Classes whose texts begin and end as options say.
local PIECES <const> = {CodeLlamaTokenizer = true, GemmaTokenizer = true, LlamaTokenizer = true}

-- Classes that normalize as options say, beside those that a vocab.txt may have.
local MORE <const> = {FunnelTokenizer = true, LayoutLMv2Tokenizer = true, MPNetTokenizer = true}


-- Tokens around a text -----------------------------------------------------------------

-- A member of an object, or nothing.
local function at(object, name)
  local value = type(object) == "table" and rawget(object, name)
  if value and not is_null(value) then return value end
end


local function list_in(object, name)
  local value = at(object, name)
  return type(value) == "table" and value or {}
end


-- Names of the tokens before a text and of those behind it, as a post-processor has them; nothing
-- where it is of another kind.
local function around(processor)
  local kind, sides = at(processor, "type"), {{}, {}}
  if kind == "Sequence" then
    local found = sides
    for _, each in ipairs(list_in(processor, "processors")) do
      if at(each, "type") ~= "ByteLevel" then found = around(each) end
    end
    return found
  elseif kind == "TemplateProcessing" then
    local side = 1
    for _, piece in ipairs(list_in(processor, "single")) do
      local token = at(at(piece, "SpecialToken"), "id")
      if type(token) == "string" then table.insert(sides[side], token) else side = 2 end
    end
    return sides
  elseif kind == nil or kind == "ByteLevel" then
    return sides
  end
end


-- The id of a token that was added, from 0.
local function id_of(parts, name)
  for _, token in ipairs(list_in({value_of(parts, "added_tokens")}, 1)) do
    if at(token, "content") == name then return at(token, "id") end
  end
  refuse.with('%s: one of the added tokens of tokenizer.json expected as a token around texts, got '
              .. '%s', FILE, refuse.quoted(name))
end


-- A post-processor of names before a text and behind it, around both texts of a pair.
local function template(parts, sides)
  local tokens, single, pair = {}, {}, {}
  local function put(list, names, of)
    for _, name in ipairs(names) do
      local id = id_of(parts, name)
      tokens[name] = {id = name, ids = json.array{id}, tokens = json.array{name}}
      list[#list + 1] = {SpecialToken = {id = name, type_id = of}}
    end
  end
  for i, text in ipairs{"A", "B"} do
    for _, list in ipairs{pair, i == 1 and single or nil} do
      put(list, sides[1], i - 1)
      list[#list + 1] = {Sequence = {id = text, type_id = i - 1}}
      put(list, sides[2], i - 1)
    end
  end
  return {type = "TemplateProcessing", single = json.array(single), pair = json.array(pair),
          special_tokens = tokens}
end


-- The tokens on a side of a text, by an option: that of its part, or none; or the file's own.
local function side_of(config, names, part, own)
  local flag = added.option(config, ("add_%s_token"):format(part), nil)
  if flag == nil then return own end
  if not flag then return {} end
  if names[part] then return {names[part]} end
  if #own > 0 then return own end
  refuse.with('%s: "add_%s_token" is true, but there is no %s_token', FILE, part, part)
end


local function is_same(a, b)
  return #a == #b and table.concat(a, "\0") == table.concat(b, "\0")
end


-- The post-processor that options make, or nothing where the file's does what they say.
local function processor_of(config, parts, names)
  local own = around(value_of(parts, "post_processor"))
  if not own then return nil end
  local sides = {side_of(config, names, "bos", own[1]), side_of(config, names, "eos", own[2])}
  if is_same(sides[1], own[1]) and is_same(sides[2], own[2]) then return nil end
  return template(parts, sides)
end


-- Normalizers --------------------------------------------------------------------------

-- Whether accents go, which follows the case unless a file says it.
local function strips(value, lower)
  if is_null(value) then return lower end
  return value
end


-- The normalizer that options make, or nothing where the file's does what they say.
local function normalizer_of(config, parts)
  local own = value_of(parts, "normalizer")
  if at(own, "type") ~= "BertNormalizer" then return nil end
  local option = added.option
  local made = {}
  for name, value in next, own do made[name] = value end
  made.lowercase = option(config, "do_lower_case", own.lowercase)
  made.handle_chinese_chars = option(config, "tokenize_chinese_chars", own.handle_chinese_chars)
  if config.strip_accents ~= nil then
    made.strip_accents = option(config, "strip_accents", json.null)
  end
  if made.lowercase == own.lowercase and made.handle_chinese_chars == own.handle_chinese_chars
     and strips(made.strip_accents, made.lowercase) == strips(own.strip_accents, own.lowercase) then
    return nil
  end
  return made
end


-- The file -----------------------------------------------------------------------------

-- Where the members of a tokenizer.json begin.
local function parts_of(text)
  local parts = {text = text}
  json.members(text, text:find("%S"), function(_, from, _, name)
    if name ~= "text" then parts[name] = from end
    return json.behind(text, from)
  end)
  return parts
end


local function replaced(parts, name, value)
  local text = json.encode(value)
  if not parts[name] then
    local first = parts.text:find("{", 1, true)
    return ('%s"%s":%s,%s'):format(parts.text:sub(1, first), name, text, parts.text:sub(first + 1))
  end
  return parts.text:sub(1, parts[name] - 1) .. text
         .. parts.text:sub(json.behind(parts.text, parts[name]))
end


---Whether texts that are too long lose their first ids; nil where nothing says it.
---@param folder string
---@param config table of its tokenizer_config.json
---@return boolean?
function overrides.is_left(folder, config)
  local side = at(config, "truncation_side")
  if side == nil then return nil end
  if side == "left" or side == "right" then return side == "left" end
  refuse.with('%s/%s: "truncation_side": left or right expected, got %s', folder, FILE,
              refuse.quoted(tostring(side)))
end


---The text of a tokenizer.json as the tokenizer_config.json beside it wants it.
---@param folder string
---@param files heed.tokenizer.files of the folder
---@param text string
---@return string
function overrides.apply(folder, files, text)
  local config = files.config
  local class = at(config, "tokenizer_class")
  class = type(class) == "string" and class:gsub("Fast$", "") or ""
  local is_pieces, is_bert = PIECES[class], vocabularies.BERTS[class] or MORE[class]
  if not (is_pieces or is_bert) or not json.check(text, DEPTH) or not text:find("^%s*{") then
    return text
  end
  local parts = parts_of(text)
  if is_bert then
    local made = normalizer_of(config, parts)
    return made and replaced(parts, "normalizer", made) or text
  end
  local made = processor_of(config, parts, special.names(folder, files, {}))
  return made and replaced(parts, "post_processor", made) or text
end


return overrides
