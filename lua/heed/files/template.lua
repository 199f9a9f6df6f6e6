-- The template of a tokenizer.json: the tokens around one text, and around both texts of a pair.

local json = require "heed.files.json"

---Tokens, each its name and its id from 0.
---@class heed.template.around
---@field first? {[1]: string, [2]: integer} before a text
---@field last? {[1]: string, [2]: integer} behind each text
---@field between? {[1]: string, [2]: integer} before the second text of a pair
---@field of integer the type of the second text


---@param around heed.template.around
---@return table? post_processor nil where no token stands around a text
return function(around)
  local special = {}
  local function token(to, one, of)
    if not one then return end
    local name, id = one[1], one[2]
    special[name] = {id = name, ids = json.array{id}, tokens = json.array{name}}
    to[#to + 1] = {SpecialToken = {id = name, type_id = of}}
  end
  local function text(to, name, before, of)
    token(to, before, of)
    to[#to + 1] = {Sequence = {id = name, type_id = of}}
    token(to, around.last, of)
    return to
  end
  local single, pair = text({}, "A", around.first, 0), text({}, "A", around.first, 0)
  text(pair, "B", around.between, around.of)
  if next(special) == nil then return nil end
  return {type = "TemplateProcessing", single = json.array(single), pair = json.array(pair),
          special_tokens = special}
end
