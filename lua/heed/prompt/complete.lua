-- Completion: what may stand at a place of a line of Lua. Names in scope, fields and methods of
-- values, options of calls.
--
-- Nothing of a script runs: its tables are read by rawget and next, and the values of calls are not
-- known. What heed's own functions take is read from the reference.

local classes = require "heed.internal.classes"
local entries = require "heed.help.entries"
local heed = require "heed"

local MOST_CLASSES <const> = 100     -- that a value inherits from

local KEYWORDS <const> = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
  "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
}


-- The line ----------------------------------------------------------------

-- The position behind a string that begins at `at`; nil where it does not end.
local function string_end(text, at)
  local quote = text:sub(at, at)
  while true do
    at = text:find("[\\" .. quote .. "]", at + 1)
    if not at then return nil end
    if text:sub(at, at) == quote then return at + 1 end
    at = at + 1                        -- what stands behind a backslash
  end
end


-- The position behind the string, comment or letter that begins at `at`; nil where a string or a
-- comment does not end.
local function skip(text, at)
  if text:find("^%-%-", at) then return nil end
  if text:find("^[\"']", at) then return string_end(text, at) end
  local level = text:match("^%[(=*)%[", at)
  if not level then return at + 1 end
  local _, stop = text:find("]" .. level .. "]", at, true)
  return stop and stop + 1
end


-- The positions of the brackets that are open at the end of a text; nil within a string.
local function open_brackets(text)
  local stack, at = {}, 1
  while at <= #text do
    local c = text:sub(at, at)
    local next_at = skip(text, at)
    if not next_at then return nil end
    if next_at == at + 1 then
      if c:find("[%(%[{]") then stack[#stack + 1] = at
      elseif c:find("[%)%]}]") then stack[#stack] = nil end
    end
    at = next_at
  end
  return stack
end


-- The path that a text ends with, such as "model.first", and whether anything stands before it that
-- it belongs to, such as the call in "f().first".
local function path_at_end(text)
  local path = text:match("[%a_][%w_%.:]*$")
  local before = path and text:sub(-#path - 1, -#path - 1)
  return path, before ~= nil and before:find("[%w_%.:%)%]\"']") ~= nil
end


-- Values ------------------------------------------------------------------

-- Calls f for the classes of a value, the nearest first, until it gives something.
local function each_class(value, f)
  local class = getmetatable(value)
  for _ = 1, MOST_CLASSES do
    if type(class) ~= "table" then return nil end
    local found = f(class)
    if found ~= nil then return found end
    local index = rawget(class, "__index")
    class = type(index) == "table" and not rawequal(index, class) and index or getmetatable(class)
  end
end


local function field(value, name)
  if rawequal(value, heed) then return entries.value_at(name) end
  if type(value) ~= "table" then return nil end
  local found = rawget(value, name)
  if found ~= nil then return found end
  return each_class(value, function(class) return rawget(class, name) end)
end


-- The value at a path of names that dots join, nil where it is not known.
local function value_at(globals, path)
  if path:find(":", 1, true) then return nil end
  local value = nil
  for name in path:gmatch("[^%.]+") do
    if value == nil then value = rawget(globals, name) else value = field(value, name) end
    if value == nil then return nil end
  end
  return value
end


-- Candidates --------------------------------------------------------------
-- Each of these adds names to a set.

local function add_keys(set, t, methods)
  for name, value in next, t do
    if type(name) == "string" and name:find("^%a[%w_]*$") and
       (not methods or type(value) == "function") then
      set[name] = true
    end
  end
end


-- The methods of tensors, and their fields.
local function add_tensor(set, methods)
  for _, entry in ipairs(entries.all()) do
    if entry.call:find("^x:") then
      set[entry.path] = true
      for _, alias in ipairs(entry.aliases) do set[alias] = true end
    end
  end
  local class = not methods and entries.known()["heed.Tensor"]
  for _, known in ipairs(class and class.fields or {}) do set[known.name] = true end
end


-- Adds the names of heed, of modules that are not loaded too.
local function add_heed(set)
  add_keys(set, heed)
  for _, group in ipairs(entries.groups()) do
    local part = group.title:match("^heed%.(%a[%w_]*)$")
    if part then set[part] = true end
    for _, entry in ipairs(group) do
      if entry.call:find("^heed%.[%w_]+%(") then set[entry.path] = true end
    end
  end
end


local function add_members(set, value, methods)
  if rawequal(value, heed) then return add_heed(set) end
  if heed.is_tensor(value) then return add_tensor(set, methods) end
  if type(value) == "string" and methods then return add_keys(set, string, true) end
  if type(value) ~= "table" then return end
  add_keys(set, value, methods)
  each_class(value, function(class) add_keys(set, class, methods) end)
end


-- The entry of a method. An object that is not known may be a tensor.
local function method_of(object, name)
  local wanted = (object == nil or heed.is_tensor(object)) and "^x:" or "^%l+:"
  for _, entry in ipairs(entries.by_name(name)) do
    if entry.call:find(wanted) then return entry end
  end
end


-- The entry of what a text calls: a method, a function, a class, or an object that is called.
local function called_by(globals, text)
  local path, more = path_at_end((text:gsub("%s+$", "")))
  if not path then return nil end
  local object, method = path:match("^(.*):([%a_][%w_]*)$")
  if more then return method_of(nil, method or path:match("[%w_]+$")) end
  if method then return method_of(value_at(globals, object), method) end
  local value = value_at(globals, path)
  local entry = value ~= nil and entries.by_value(value)[1]
  if entry or type(value) ~= "table" then return entry end
  entry = entries.by_value(getmetatable(value))[1]
  return entry and entry.called
end


-- Adds the options of a parameter: the fields of its class, or those in its braces.
local function add_fields(set, param)
  local fields = classes.fields(entries.known(), param.type)
  for _, option in ipairs(fields) do set[option.name] = true end
  for name in (param.type:match("^%b{}") or ""):gmatch("([%a_][%w_]*)%??:") do set[name] = true end
end


-- Adds the options of an entry. Those of an operation are its own arguments.
local function add_options_of(set, entry)
  for _, param in ipairs(entry.params) do add_fields(set, param) end
  if next(set) ~= nil or not entry.call:find("^x:") then return end
  for _, param in ipairs(entry.params) do
    if param.name:find("^%a") and param.name ~= "options" then set[param.name] = true end
  end
end


-- The options of the call in whose table a name begins: f{, f(…, {, f{a = 1, .
local function add_options(set, globals, before, stack)
  local brace = stack[#stack]
  if not brace or before:sub(brace, brace) ~= "{" or not before:find("[{,;]%s*$") then return end
  local callee = before:sub(1, brace - 1)
  if callee:find("[%(,]%s*$") then
    local parenthesis = stack[#stack - 1]
    if not parenthesis or before:sub(parenthesis, parenthesis) ~= "(" then return end
    callee = before:sub(1, parenthesis - 1)
  end
  local entry = called_by(globals, callee)
  if entry then add_options_of(set, entry) end
end


local function add_names(set, globals)
  add_keys(set, globals)
  for _, word in ipairs(KEYWORDS) do set[word] = true end
end


-- Adds what may stand behind `before`.
local function add_all(set, globals, before, stack)
  local sep = before:match("[^%.]([%.:])$")
  if sep then
    local path, more = path_at_end(before:sub(1, -2))
    local value = path and not more and value_at(globals, path)
    if value ~= nil and value ~= false then return add_members(set, value, sep == ":") end
    if sep == ":" and (not path or more) then add_tensor(set, true) end
    return
  end
  add_options(set, globals, before, stack)
  if next(set) == nil then add_names(set, globals) end
end


---The names that may go on at a position of a line, sorted; none within strings and comments. Of a
---call that has not run nothing is known but that it may give a tensor.
---@param globals table
---@param line string
---@param position integer how many bytes stand before it
---@return string[]
return function(globals, line, position)
  local head = line:sub(1, position)
  local word = head:match("[%w_]*$")
  local before = head:sub(1, #head - #word)
  local stack = open_brackets(before)
  if not stack or word:find("^%d") then return {} end
  local set, list = {}, {}
  add_all(set, globals, before, stack)
  for name in next, set do
    if name:sub(1, #word) == word then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end
