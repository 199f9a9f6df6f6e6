-- heed.help: what is written about heed, printed.

local classes = require "heed.internal.classes"
local core = require "heed.core"
local entries = require "heed.help.entries"
local field_names = require "heed.nn.field_names"
local heed = require "heed"
local options = require "heed.internal.options"
local reference = require "heed.internal.reference"
local search = require "heed.internal.search"
local shown = require "heed.internal.shown"

local MOST_FOUND = 24               -- entries that a search prints

local help = {}


-- Finding ----------------------------------------------------------------

local function group_of(part)
  for _, group in ipairs(entries.groups()) do
    if group.title == "heed." .. part then return group end
  end
end


-- Printing ---------------------------------------------------------------

local function print_line(entry)
  print(entry.call)
  print("    " .. reference.sentence(entry.text))
end


-- "name?  what it is", on as many lines as it takes.
local function print_param(indent, name, param)
  local start = ("%s%s%s "):format(indent, name, param.optional and "?" or "")
  local line = start
  for word in (param.type .. (param.more or "")):gmatch("%S+") do
    if #line + 1 + #word > 100 and line ~= start then
      print(line)
      line = indent .. "   "
    end
    line = line .. " " .. word
  end
  print(line)
end


-- The arguments of a call, their options, and its results.
local function print_uses(entry)
  for _, param in ipairs(entry.params) do
    print_param("      ", param.name, param)
    for _, field in ipairs(classes.fields(entries.known(), param.type)) do
      print_param("        ", field.name, field)
    end
  end
  for _, result in ipairs(entry.returns) do print_param("      ", "->", result) end
end


local function print_entry(entry)
  print(entry.call)
  for line in (entry.text .. "\n"):gmatch("([^\n]*)\n") do print("    " .. line) end
  print_uses(entry)
  if entry.called then
    print("    " .. entry.called.call)
    print_uses(entry.called)
  end
  for _, example in ipairs(entry.examples) do print("    > " .. example) end
  if #entry.aliases > 0 then print("    Also " .. table.concat(entry.aliases, ", ")) end
end


local function print_group(group)
  print(group.title)
  local say = #group > 1 and print_line or print_entry
  for _, entry in ipairs(group) do say(entry) end
end


-- Classes of models have no name that a program writes: "causalmodel:hidden" is model:hidden.
local function short_name(entry, group)
  local part = group.title:match("^heed%.(.*)$")
  if entry.path:find("^%l+model:") then return (entry.path:gsub("^%l+:", "model:")) end
  if not part or entry.path:find(":") then return entry.path end
  return entry.path:gsub("^" .. part:gsub("%.", "%%.") .. "%.", "")
end


-- The names of entries, each once, below the titles of their groups.
local function print_groups(is_wanted)
  for _, group in ipairs(entries.groups()) do
    local names, seen = {}, {}
    for _, entry in ipairs(group) do
      local name = short_name(entry, group)
      if is_wanted(entry) and not seen[name] then names[#names + 1], seen[name] = name, true end
    end
    if #names > 0 then
      print(group.title)
      print(shown.wrapped(names, "  "))
    end
  end
  print('heed.help("softmax") says more, heed.help("mask") finds what has the word in it')
end


local function refuse_word(word)
  local closest = core.nearest(word:lower(), search.candidates(entries.all(), entries.known()))
  heed.fail("help: nothing is written about '%s'%s", word,
            closest and ("; did you mean '%s'?"):format(closest) or "")
end


-- The names of what was found by the word, but for entries that were printed.
local function print_more(found, printed)
  local list, seen = {}, {}
  for _, entry in ipairs(printed) do seen[entry] = true end
  for _, f in ipairs(found) do
    if not seen[f.entry] and f.by_name then list[#list + 1] = f.entry.path end
  end
  if #list > 0 then print(shown.wrapped({"See also", table.unpack(list)}, "")) end
end


-- A line for each that was found, with the options in which the words are.
local function print_found(found)
  for i = 1, math.min(#found, MOST_FOUND) do
    print_line(found[i].entry)
    for _, option in ipairs(found[i].options) do print_param("      ", option.name, option) end
  end
  local left = #found - MOST_FOUND
  if left > 0 then print(("and %d more; a further word leaves fewer"):format(left)) end
end


-- Entries by a name. "model:hidden" is that of all classes of models; "lora:state" is a method of
-- all modules, unless adapters have one of theirs.
local function entries_named(word)
  local named = entries.by_name(word)
  if #named == 0 and word:find "^model:" then named = entries.of_models(word:match ":.*") end
  local method = #named == 0 and word:match "^%l[%w_]*(:[%w_]+)$"
  return method and entries.by_name("module" .. method) or named
end


local function help_with_word(given)
  local word = given:gsub("^heed%.", ""):gsub("^x:", "")
  local group, named = group_of(word), entries_named(word)
  local found, advice = search.find(entries.all(), entries.known(), word), search.torch(word)
  if #found + #advice + #named == 0 and not group then refuse_word(given) end
  if group then print_group(group) end
  for _, entry in ipairs(group and {} or named) do print_entry(entry) end
  for _, line in ipairs(advice) do print(("for %s of PyTorch: %s"):format(given, line)) end
  if group or #named > 0 then return print_more(found, group or named) end
  print_found(found)
end


-- The name of a part that a value is.
local function part_of(value)
  for _, group in ipairs(entries.groups()) do
    local part = group.title:match("^heed%.(.*)$")
    if part and rawequal(entries.value_at(part), value) then return part end
  end
end


-- Whether something is written about the class of an object, which is printed: how such are made,
-- with the options where one function alone makes them, and a line for each method.
local function print_class(class)
  if not options.is_guarded(class) then return false end
  local makers, methods = entries.by_class(class)
  local say = #makers > 1 and print_line or print_entry
  for _, entry in ipairs(makers) do say(entry) end
  for _, entry in ipairs(methods) do print_line(entry) end
  return #makers + #methods > 0
end


local function is_method(entry) return entry.call:find("^x[:.%[]") ~= nil end


local function is_model(value)
  return field_names.is_module(value) and getmetatable(value).published ~= nil
end

local function print_model()
  print("a model, with these methods")
  print_groups(function(entry)
    return entry.call:find("^model:") ~= nil or entry.call:find("^module:") ~= nil
  end)
end


local function help_with_value(value)
  if heed.is_tensor(value) then
    print("a tensor, with these methods")
    return print_groups(is_method)
  end
  local part = part_of(value)
  if part then return print_group(group_of(part)) end
  local class = getmetatable(value)
  local found = entries.by_value(value)
  if #found == 0 and type(class) == "table" then found = entries.by_value(class) end
  if #found == 0 and is_model(value) then return print_model() end
  if #found == 0 and not print_class(class) then
    heed.fail("help: a name, or a function or a class of heed's, expected, got %s",
              options.kind(value))
  end
  for _, entry in ipairs(found) do print_entry(entry) end
end


---Prints what is written about a function, a class or an object: how it is called, what it does,
---examples; of a tensor the names of its methods. A name that nothing has finds what has that word
---in its name or text; without an argument it lists all there is.
---@param what? string|function|table a name, such as "softmax" or "nn.Linear", or the thing itself
function help.help(what, ...)
  options.no_more("help", 1, ...)
  if what == nil or rawequal(what, heed) then print_groups(function() return true end)
  elseif type(what) == "string" then help_with_word(what)
  else help_with_value(what) end
end


return help
