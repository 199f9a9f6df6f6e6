-- The entries of the reference, found by names and by values. They are read when first needed, from
-- lua/heed/meta.lua and the comments of heed's other files.

local core = require "heed.core"
local heed = require "heed"
local reference = require "heed.internal.reference"

local entries = {}


-- In a program that carries the Lua half inside, its text; elsewhere that of the installed file.
local function source()
  local inside, text_of = pcall(require, "heed.sources")
  if inside then return text_of end
  return function(name)
    local path = package.searchpath(name, package.path)
    return path and core.read_file(path)
  end
end


local groups, known

local function read_all()
  if groups then return end
  local read = source()
  local good, text = pcall(read, "heed.meta")
  if not good or not text then
    heed.fail("help: heed's reference, heed/meta.lua, cannot be read in this program")
  end
  local _
  groups, _, known = reference.all(heed, read)
end


---Lists of entries, with titles.
---@return table[]
function entries.groups()
  read_all()
  return groups
end


---The classes of the reference, as `heed.internal.classes` reads them.
---@return table
function entries.known()
  read_all()
  return known
end


---The entries of all groups, as one list.
---@return heed.reference.entry[]
function entries.all()
  local list = {}
  for _, group in ipairs(entries.groups()) do table.move(group, 1, #group, #list + 1, list) end
  return list
end


-- A field of heed, or of what a script may have set in its place: no metamethod of a table runs.
local function field(value, name)
  if type(value) == "table" and not rawequal(value, heed) then return rawget(value, name) end
  local good, found = pcall(function() return value[name] end)
  return good and found or nil
end


---The value at a path from `heed` on, nil if there is none.
---@param path string
---@return any
function entries.value_at(path)
  local value = heed
  for name in path:gmatch("[%w_]+") do
    value = field(value, name)
    if value == nil then return nil end
  end
  return value
end


local function goes_by(entry, name)
  if entry.path == name or entry.path:match("[%w_]+$") == name then return true end
  for _, alias in ipairs(entry.aliases) do
    if alias == name then return true end
  end
  return false
end


---The entries of a name: its path, the end of it, or another name of the function.
---@param name string
---@return heed.reference.entry[]
function entries.by_name(name)
  local found = {}
  for _, entry in ipairs(entries.all()) do
    if goes_by(entry, name) then found[#found + 1] = entry end
  end
  return found
end


---The entries of a method of classes of models.
---@param method string ":hidden"
---@return heed.reference.entry[]
function entries.of_models(method)
  local found = {}
  for _, entry in ipairs(entries.all()) do
    if entry.path:match("^%l+model(:.*)$") == method then found[#found + 1] = entry end
  end
  return found
end


---The entries about a function or a class.
---@param value any
---@return heed.reference.entry[]
function entries.by_value(value)
  local methods, found = heed.zeros(0), {}
  for _, entry in ipairs(entries.all()) do
    local method = entry.call:find("^x:") and entry.path
    if rawequal(entries.value_at(entry.path), value) or
       method and rawequal(methods[method], value) then
      found[#found + 1] = entry
    end
  end
  return found
end


---The entries about the objects of a class that no module holds: of the functions that make them,
---and of their methods.
---@param class table
---@return heed.reference.entry[] makers
---@return heed.reference.entry[] methods
function entries.by_class(class)
  local name, makers, methods = rawget(class, "__name"):gsub("^heed%.", ""), {}, {}
  local object = name:match("[%w_]+$"):lower()
  for _, entry in ipairs(entries.all()) do
    local of, method = entry.path:match("^([%w_]+):([%w_]+)$")
    local made = not of and entry.returns[1] and entry.returns[1].type:match("^[%w_%.]+")
    if made == "heed." .. name then makers[#makers + 1] = entry end
    if of == object and rawget(class, method) then methods[#methods + 1] = entry end
  end
  return makers, methods
end


return entries
