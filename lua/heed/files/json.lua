-- A small strict JSON: it reads what RFC 8259 allows and nothing else, in C, and never runs code.
--
-- Arrays carry the metatable that `json.array` gives, so that `[]` stays an array when it is
-- written again; null is `json.null`, never nil; a number without fraction and exponent is an
-- integer where 64 bits hold it. Objects are written with their names sorted, so that equal values
-- give equal texts.

local core = require "heed.core"
local heed = require "heed"
local refuse = require "heed.internal.refuse"

local find = string.find
local reject, quoted = refuse.with, refuse.quoted

local json = {}

local Array = {__name = "json.array"}
local DEPTH = 128     -- arrays and objects within each other

---The value that stands for null in a table.
json.null = setmetatable({}, {__name = "json.null", __tostring = function() return "null" end})


---Marks a list as an array, which matters when it is empty.
---@param list table
---@return table list the same one
function json.array(list)
  return setmetatable(list, Array)
end


---Whether a value was read from, or will be written as, a JSON array.
---@param value any
---@return boolean
function json.is_array(value)
  return rawequal(getmetatable(value), Array)
end


-- Reading ---------------------------------------------------------------

local function duplicate(name, at)
  return ("duplicate name %s at byte %d"):format(quoted(name), at)
end


---Refuses a name that an object has twice.
---@param name string
---@param at integer
function json.refuse_duplicate(name, at) reject("%s", duplicate(name, at)) end


---Reads one JSON value.
---@param text string
---@param depth? integer how many arrays and objects may stand within each other (128)
---@return any value or nil
---@return string? message
function json.decode(text, depth)
  if type(text) ~= "string" then
    heed.fail("json.decode: a string expected, got %s", math.type(text) or type(text))
  end
  local value, why, name, at = core.json.decode(text, depth or DEPTH, json.null, Array)
  if name then return nil, duplicate(name, at) end
  return value, why
end


---Whether a text is one JSON value, of which nothing is made. Names that come twice are not found.
---@param text string
---@param depth integer
---@return true? good
---@return string? message
function json.check(text, depth) return core.json.check(text, depth) end


-- Reading by positions: in a text that json.check has called right.

---Goes through an array.
---@param text string
---@param at integer where it begins
---@param take fun(text: string, at: integer, x: any): integer gets where each element begins, gives
---the position behind it
---@param x? any passed on
---@return integer behind
function json.elements(text, at, take, x)
  local from, behind = core.json.first(text, at)
  while from do from, behind = core.json.another(text, take(text, from, x), false) end
  return behind
end


---A member of an object.
---@param text string
---@param at integer where its name begins
---@return string name
---@return integer at where its value begins
function json.member(text, at) return core.json.member(text, at) end


---Goes through an object.
---@param text string
---@param at integer where it begins
---@param take fun(text: string, at: integer, x: any, name: string, name_at: integer): integer gets
---where each value begins, its name and where that begins; gives the position behind the value
---@param x? any passed on
---@return integer behind
function json.members(text, at, take, x)
  local from, behind = core.json.first(text, at)
  while from do
    local name, value_at = core.json.member(text, from)
    from, behind = core.json.another(text, take(text, value_at, x, name, from), true)
  end
  return behind
end


---The value that begins at a position.
---@param text string
---@param at integer
---@return any value
---@return integer behind
function json.value(text, at)
  local value, behind, name, place = core.json.value(text, at, json.null, Array)
  if name then json.refuse_duplicate(name, place) end
  return value, behind
end


---The position behind that value, of which nothing is made.
---@param text string
---@param at integer
---@return integer behind
function json.behind(text, at) return core.json.behind(text, at) end


---The entry of a tensor in a header of safetensors; a field that comes twice is refused.
---@param text string
---@param at integer where the value begins
---@param sizes any[] filled with the first nine elements of the shape
---@param offsets any[] with those of data_offsets
---@return integer behind
---@return string? dtype nil where no text is given
---@return integer? rank how many elements the shape has; nil where no list is given
---@return integer? ends likewise of data_offsets
---@return string? odd a name that is none of the format's
function json.entry(text, at, sizes, offsets)
  local behind, dtype, rank, ends, odd = core.json.entry(text, at, json.null, sizes, offsets)
  if not behind then json.refuse_duplicate(rank, ends) end
  return behind, dtype, rank, ends, odd
end


-- Writing ---------------------------------------------------------------

local short_escapes = {
  ['"'] = '\\"', ["\\"] = "\\\\",
  ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(c)
  return short_escapes[c] or ("\\u%04x"):format(c:byte())
end


local function string_text(value)
  if not utf8.len(value) then
    reject("UTF-8 expected, got the string %s", quoted(value))
  end
  return '"' .. value:gsub('[\0-\31"\\]', escape) .. '"'
end


-- The shortest of %.15g to %.17g that reads back as the same number.
local function float_text(value)
  local text
  for digits = 15, 17 do
    text = ("%%.%dg"):format(digits):format(value)
    text = text:gsub("[^%de+-]+", ".")     -- the locale's decimal point
    if tonumber(text) == value then break end
  end
  return find(text, "[.e]") and text or text .. ".0"
end


local function number_text(value, nonfinite)
  if math.type(value) == "integer" then return tostring(value) end
  if value - value == 0 then return float_text(value) end
  return nonfinite or reject("a finite number expected, got %s", tostring(value))
end


-- The length of a list, nil if the table is none.
local function length_of(value)
  local n, keys = rawlen(value), 0
  for _ in next, value do keys = keys + 1 end
  if n ~= keys or n == 0 and not json.is_array(value) then return nil end
  return n
end


---Whether one string stands before another by its bytes, in every locale (`<` asks the locale).
---@param a string
---@param b string
---@return boolean
function json.before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end


local function sorted_names(object)
  local names = {}
  for name in next, object do
    if type(name) ~= "string" then
      reject("a list or a table with strings as keys expected, got the key %s", tostring(name))
    end
    names[#names + 1] = name
  end
  table.sort(names, json.before)
  return names
end


local write

local function array_text(array, n, nonfinite, depth)
  local parts = {}
  for i = 1, n do parts[i] = write(rawget(array, i), nonfinite, depth - 1) end
  return "[" .. table.concat(parts, ",") .. "]"
end


local function object_text(object, nonfinite, depth)
  local parts = sorted_names(object)
  for i, name in ipairs(parts) do
    parts[i] = string_text(name) .. ":" .. write(object[name], nonfinite, depth - 1)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end


local function table_text(value, nonfinite, depth)
  if depth < 0 then reject("nested too deep, or in a circle") end
  local n = length_of(value)
  if n then return array_text(value, n, nonfinite, depth) end
  return object_text(value, nonfinite, depth)
end


function write(value, nonfinite, depth)
  local kind = type(value)
  if rawequal(value, json.null) then return "null" end
  if kind == "string" then return string_text(value) end
  if kind == "number" then return number_text(value, nonfinite) end
  if kind == "boolean" then return tostring(value) end
  if kind == "table" then return table_text(value, nonfinite, depth) end
  reject("a string, number, boolean, table or json.null expected, got %s", kind)
end


---A value as JSON on one line, names sorted.
---@param value any
---@param nonfinite? string what to write for NaN and infinities, such as "null"; else they are
---refused
---@return string? text nil where JSON has no form for the value
---@return string? message
function json.text(value, nonfinite)
  return refuse.try(write, value, nonfinite, DEPTH - 1)
end


---The same, where a value without a form is a wrong call.
---@param value any
---@param nonfinite? string
---@return string
function json.encode(value, nonfinite)
  local text, why = json.text(value, nonfinite)
  return text or heed.fail("json.encode: %s", why)
end


return json
