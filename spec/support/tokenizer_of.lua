-- A tokenizer of a text that tokenizer.json could hold.

local files = require "spec.support.files"
local heed = require "heed"


---@param text string
---@return heed.Tokenizer? tokenizer nil where it is refused
---@return string? message
return function(text)
  local name = os.tmpname()
  local path = name .. ".json"
  files.write(path, text)
  local tok, why = heed.tokenizer.load(path)
  os.remove(path)
  os.remove(name)
  return tok, why
end
