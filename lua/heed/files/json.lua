-- A small strict JSON: it reads what RFC 8259 allows and nothing else, and never runs code.
--
-- Arrays carry the metatable that `json.array` gives, so that `[]` stays an array when it is
-- written again; null is `json.null`, never nil; a number without fraction and exponent is an
-- integer where 64 bits hold it. Objects are written with their names sorted, so that equal values
-- give equal texts.

local heed = require "heed"
local refuse = require "heed.internal.refuse"

local find, match, sub = string.find, string.match, string.sub
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


-- Reading. Each reader takes the text and where its value begins, and gives the value and the
-- position behind it.

local read

local function skip(text, at)
  return find(text, "[^ \t\r\n]", at) or #text + 1
end


local function found(text, at)
  if at > #text then return "the end" end
  return quoted(sub(text, at, utf8.offset(text, 2, at) - 1))
end


local function expect(text, at, mark)
  at = skip(text, at)
  if sub(text, at, at) ~= mark then
    reject('expected "%s" at byte %d, got %s', mark, at, found(text, at))
  end
  return at + 1
end


-- After an element: is there one more?
local function more(text, at, close)
  at = skip(text, at)
  local mark = sub(text, at, at)
  if mark == "," then return true, at + 1 end
  if mark == close then return false, at + 1 end
  reject('expected "," or "%s" at byte %d, got %s', close, at, found(text, at))
end


local plain_escapes = {
  ['"'] = '"', ["\\"] = "\\", ["/"] = "/",
  b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}

local function hex4(text, at)
  return tonumber(match(text, "^\\u(%x%x%x%x)", at) or "", 16)
end


local function read_unicode_escape(text, at)
  local code = hex4(text, at)
  if not code then reject("bad \\u escape at byte %d", at) end
  if code < 0xD800 or code > 0xDFFF then return utf8.char(code), at + 6 end
  local low = hex4(text, at + 6)
  local paired = code < 0xDC00 and low and low >= 0xDC00 and low <= 0xDFFF
  if not paired then reject("half of a surrogate pair at byte %d", at) end
  return utf8.char(0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)), at + 12
end


local function read_escape(text, at)
  local letter = sub(text, at + 1, at + 1)
  if letter == "u" then return read_unicode_escape(text, at) end
  local plain = plain_escapes[letter]
  if not plain then reject("bad escape at byte %d", at) end
  return plain, at + 2
end


local function read_string(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = find(text, '[\0-\31"\\]', from)
    if not stop then reject("string at byte %d has no end", at) end
    parts[#parts + 1] = sub(text, from, stop - 1)
    local mark = sub(text, stop, stop)
    if mark == '"' then return table.concat(parts), stop + 1 end
    if mark ~= "\\" then reject("control character in a string at byte %d", stop) end
    parts[#parts + 1], from = read_escape(text, stop)
  end
end


local function read_number(text, at)
  local stop = match(text, "^-?%d+()", at)
  if not stop or find(text, "^-?0%d", at) then reject("bad number at byte %d", at) end
  stop = match(text, "^%.%d+()", stop) or stop
  stop = match(text, "^[eE][+-]?%d+()", stop) or stop
  local literal = sub(text, at, stop - 1)
  if literal == "-0" then return -0.0, stop end     -- an integer would lose the sign
  local value = tonumber(literal)      -- takes "." in every locale
  if not value or value - value ~= 0 then reject("number out of range at byte %d", at) end
  return value, stop
end


local function read_array(text, at, depth)
  local array, n, another = json.array {}, 0, true
  at = skip(text, at + 1)
  if sub(text, at, at) == "]" then return array, at + 1 end
  while another do
    n = n + 1
    array[n], at = read(text, at, depth - 1)
    another, at = more(text, at, "]")
  end
  return array, at
end


local function read_object(text, at, depth)
  local object, another = {}, true
  at = skip(text, at + 1)
  if sub(text, at, at) == "}" then return object, at + 1 end
  while another do
    at = skip(text, at)
    if sub(text, at, at) ~= '"' then
      reject("expected a name in quotes at byte %d, got %s", at, found(text, at))
    end
    local name, behind = read_string(text, at)
    if object[name] ~= nil then reject("duplicate name %s at byte %d", quoted(name), at) end
    object[name], at = read(text, expect(text, behind, ":"), depth - 1)
    another, at = more(text, at, "}")
  end
  return object, at
end


local function literal(word, value)
  return function(text, at)
    if sub(text, at, at + #word - 1) ~= word then
      reject("expected a value at byte %d, got %s", at, found(text, at))
    end
    return value, at + #word
  end
end


local readers = {
  ['"'] = read_string, ["["] = read_array, ["{"] = read_object, ["-"] = read_number,
  t = literal("true", true), f = literal("false", false), n = literal("null", json.null),
}
for digit = 0, 9 do readers[tostring(digit)] = read_number end


function read(text, at, depth)
  at = skip(text, at)
  local reader = readers[sub(text, at, at)]
  if depth < 0 and (reader == read_array or reader == read_object) then
    reject("nested too deep at byte %d", at)
  end
  if not reader then reject("expected a value at byte %d, got %s", at, found(text, at)) end
  return reader(text, at, depth)
end


local function read_document(text, depth)
  local _, bad = utf8.len(text)
  if bad then reject("invalid UTF-8 at byte %d", bad) end
  local value, at = read(text, 1, depth)
  at = skip(text, at)
  if at <= #text then reject("expected the end at byte %d, got %s", at, found(text, at)) end
  return value
end


---Reads one JSON value.
---@param text string
---@param depth? integer how many arrays and objects may stand within each other (128)
---@return any value or nil
---@return string? message
function json.decode(text, depth)
  if type(text) ~= "string" then
    heed.fail("json.decode: a string expected, got %s", math.type(text) or type(text))
  end
  return refuse.try(read_document, text, (depth or DEPTH) - 1)
end


-- Writing.

local short_escapes = {
  ['"'] = '\\"', ["\\"] = "\\\\",
  ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(c)
  return short_escapes[c] or ("\\u%04x"):format(c:byte())
end


local function string_text(value)
  if not utf8.len(value) then
    heed.fail("json.encode: UTF-8 expected, got the string %s", quoted(value))
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
  return nonfinite or heed.fail("json.encode: a finite number expected, got %s", tostring(value))
end


-- The length of a list, nil if the table is none.
local function length_of(value)
  local n, keys = #value, 0
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
      heed.fail("json.encode: a list or a table with strings as keys expected, got the key %s",
        tostring(name))
    end
    names[#names + 1] = name
  end
  table.sort(names, json.before)
  return names
end


local write

local function array_text(array, n, nonfinite, depth)
  local parts = {}
  for i = 1, n do parts[i] = write(array[i], nonfinite, depth - 1) end
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
  if depth < 0 then heed.fail("json.encode: nested too deep, or in a circle") end
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
  heed.fail("json.encode: a string, number, boolean, table or json.null expected, got %s", kind)
end


---Writes a value as JSON on one line, names sorted.
---@param value any
---@param nonfinite? string what to write for NaN and infinities, such as "null"; else they raise
---@return string
function json.encode(value, nonfinite)
  return write(value, nonfinite, DEPTH - 1)
end


return json
