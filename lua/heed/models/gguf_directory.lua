-- The small files of a directory for a model that came from a GGUF file.

local gguf_tokenizer = require "heed.files.gguf_tokenizer"
local json = require "heed.files.json"
local loading = require "heed.tokenizer.loading"

local gguf_directory = {}


-- Templates of chats as tokenizer_config.json has them.
local function template_of(sources)
  local list = {}
  for name, source in next, sources do list[#list + 1] = {name = name, template = source} end
  table.sort(list, function(a, b) return json.before(a.name, b.name) end)
  if #list == 0 then return nil end
  return #list == 1 and sources.default or json.array(list)
end


-- tokenizer_config.json: special tokens and templates.
local function tokenizer_config(model)
  local own = {tokenizer_class = "PreTrainedTokenizerFast", clean_up_tokenization_spaces = false}
  for role, name in next, model.chats.tokens do own[role] = name end
  own.chat_template = template_of(model.chats.sources)
  return own
end


---The texts of a directory that are about the tokenizer: names and texts.
---@param model heed.models.Model of a GGUF file
---@return {[1]: string, [2]: string}[]
function gguf_directory.texts(model)
  local origin, list = model.origin, {}
  local function add(name, value) list[#list + 1] = {name, json.encode(value) .. "\n"} end
  if rawequal(getmetatable(model.tokenizer), loading.Tokenizer) then
    list[1] = {"tokenizer.json", gguf_tokenizer.to_json(origin.gguf.metadata)}
    add("tokenizer_config.json", tokenizer_config(model))
  end
  return list
end


return gguf_directory
