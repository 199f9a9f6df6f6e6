-- The tokens of a text by their names.

---@param tok heed.Tokenizer
---@param text string
---@param o? table options of encode
---@return string names with "|" between them
return function(tok, text, o)
  local names = {}
  for i, id in ipairs(tok:encode(text, o):totable()) do names[i] = tok:token(id) end
  return table.concat(names, "|")
end
