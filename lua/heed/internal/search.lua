-- Finds entries of the reference by words: in their names, in their options, in their texts.

local classes = require "heed.internal.classes"
local synonyms = require "heed.internal.synonyms"
local torch_words = require "heed.internal.torch_words"

local search = {}


local function words_of(text)
  local words = {}
  for word in text:lower():gmatch("%S+") do words[#words + 1] = word end
  return words
end


local function has_all(text, words)
  text = text:lower()
  for _, word in ipairs(words) do
    if not text:find(word, 1, true) then return false end
  end
  return true
end


-- The options of a function, or of a class and of the calls of its objects: those of tables, and
-- arguments that may be left out, which a table may name as well.
local function options_of(known, entry)
  local list = {}
  for _, of in ipairs{entry, entry.called} do
    for _, param in ipairs(of.params) do
      local fields = classes.fields(known, param.type)
      if #fields == 0 and param.optional then fields = {param} end
      table.move(fields, 1, #fields, #list + 1, list)
    end
  end
  return list
end


-- The options with all words, in their names alone where some name has them.
local function matching(options, words)
  local names, texts = {}, {}
  for _, option in ipairs(options) do
    if has_all(option.name, words) then names[#names + 1] = option
    elseif has_all(option.name .. " " .. option.type, words) then texts[#texts + 1] = option end
  end
  return #names > 0 and names or texts
end


---@class heed.search.found
---@field entry heed.reference.entry
---@field options heed.classes.field[] those that have the words
---@field by_name boolean whether its name has them

local function add_found(list, seen, entry, options, by_name)
  if seen[entry] then return end
  seen[entry] = true
  list[#list + 1] = {entry = entry, options = options, by_name = by_name or false}
end


-- Adds to three lists what the words find: by names, by options, by texts.
local function collect(by, seen, entries, known, words)
  for _, entry in ipairs(entries) do
    if has_all(entry.path .. " " .. table.concat(entry.aliases, " "), words) then
      add_found(by.names, seen, entry, {}, true)
    end
  end
  for _, entry in ipairs(entries) do
    local options = matching(options_of(known, entry), words)
    if #options > 0 then add_found(by.options, seen, entry, options) end
  end
  for _, entry in ipairs(entries) do
    if has_all(entry.text, words) then add_found(by.texts, seen, entry, {}) end
  end
end


-- The names for which a text is another word of the field; the plural counts too.
local function other_words(text)
  local phrase = table.concat(words_of(text:gsub("[_-]", " ")), " ")
  return synonyms[phrase] or synonyms[(phrase:gsub("s$", ""))] or {}
end


-- The names of all words of the field that have the words in them, such as "grouped query".
local function longer_words(text)
  local phrases, names, words = {}, {}, words_of(text:gsub("[_-]", " "))
  for phrase in pairs(synonyms) do
    if has_all(phrase, words) then phrases[#phrases + 1] = phrase end
  end
  table.sort(phrases)
  for _, phrase in ipairs(phrases) do
    table.move(synonyms[phrase], 1, #synonyms[phrase], #names + 1, names)
  end
  return names
end


-- The words which something has, where others of several have nothing; else none.
local function known_words(entries, known, words)
  local list = {}
  for _, word in ipairs(words) do
    local seen, by = {}, {names = {}, options = {}, texts = {}}
    collect(by, seen, entries, known, {word})
    if next(seen) then list[#list + 1] = word end
  end
  return #list < #words and list or {}
end


-- Adds what has these names, or options of these names.
local function add_named(by, seen, entries, known, names)
  for _, name in ipairs(names) do
    for _, entry in ipairs(entries) do
      if entry.path == name then add_found(by.names, seen, entry, {}) end
    end
    for _, entry in ipairs(entries) do
      for _, option in ipairs(options_of(known, entry)) do
        if option.name == name then add_found(by.options, seen, entry, {option}) end
      end
    end
  end
end


---Finds entries by words, all of which they must have: by synonyms and names first, then by
---options, then by texts; where none has them, by synonyms with these words in them, and at last
---by those of the words that something has. A hyphen stands for the underscore of a name.
---@param entries heed.reference.entry[]
---@param known table the classes of the reference
---@param text string
---@return heed.search.found[]
function search.find(entries, known, text)
  local by, seen = {names = {}, options = {}, texts = {}}, {}
  add_named(by, seen, entries, known, other_words(text))
  local words = words_of((text:gsub("(%w)%-(%w)", "%1_%2")))
  collect(by, seen, entries, known, words)
  if not next(seen) then collect(by, seen, entries, known, words_of(text)) end
  if not next(seen) then add_named(by, seen, entries, known, longer_words(text)) end
  local left = not next(seen) and known_words(entries, known, words) or {}
  if #left > 0 then collect(by, seen, entries, known, left) end
  table.move(by.options, 1, #by.options, #by.names + 1, by.names)
  return table.move(by.texts, 1, #by.texts, #by.names + 1, by.names)
end


---What heed has for a name of PyTorch's.
---@param name string such as "torch.nn.ModuleList"
---@return string[] advice
function search.torch(name)
  local short, list, seen = not name:find ":" and name:match("[%w_]+$"), {}, {}
  for _, names in pairs(torch_words) do
    local advice = short and names[short]
    if advice and not seen[advice] then
      list[#list + 1], seen[advice] = advice, true
    end
  end
  table.sort(list)
  return list
end


---All that a search may be meant for: names, options, words of the field, PyTorch's names.
---@param entries heed.reference.entry[]
---@param known table the classes of the reference
---@return string[]
function search.candidates(entries, known)
  local list, seen = {}, {}
  local function add(name)
    if not seen[name] then list[#list + 1], seen[name] = name, true end
  end
  for _, entry in ipairs(entries) do
    add(entry.path)
    add(entry.path:match("[%w_]+$"))
    for _, option in ipairs(options_of(known, entry)) do add(option.name) end
  end
  for phrase in pairs(synonyms) do add(phrase) end
  for _, names in pairs(torch_words) do
    for name in pairs(names) do add(name) end
  end
  table.sort(list)
  return list
end


return search
