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
local FEW = 4096      -- pieces of a string that are joined

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
-- position behind it; asked to drop the value, it checks it and makes nothing of it.

local read

-- The next character that is no space: where it stands, and the character; "" at the end.
local function look(text, at)
  local here, _, mark = find(text, "([^ \t\r\n])", at)
  if here then return here, mark end
  return #text + 1, ""
end


local function found(text, at)
  if at > #text then return "the end" end
  return quoted(sub(text, at, utf8.offset(text, 2, at) - 1))
end


local function expect(text, at, wanted)
  local mark
  at, mark = look(text, at)
  if mark == wanted then return at + 1 end
  reject('expected "%s" at byte %d, got %s', wanted, at, found(text, at))
end


-- In an array or an object that begins at a position: where its first element begins, and the
-- character there; without elements nil, nil and the position behind it.
local function first(text, at, close)
  local mark
  at, mark = look(text, at + 1)
  if mark == close then return nil, nil, at + 1 end
  return at, mark
end


-- Behind an element: the same for the next one.
local function another(text, at, close)
  local mark
  at, mark = look(text, at)
  if mark == "," then return look(text, at + 1) end
  if mark == close then return nil, nil, at + 1 end
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


-- The rest of a string from its first escape on, in pieces that are joined once in a while.
local function read_escaped(text, at, from, stop, drop)
  local parts, few, n = {}, {}, 0
  while true do
    local mark, run = sub(text, stop, stop), not drop and sub(text, from, stop - 1)
    local letter
    if mark == '"' then
      few[n + 1] = run
      parts[#parts + 1] = not drop and table.concat(few, "", 1, n + 1) or nil
      return table.concat(parts), stop + 1
    end
    if mark ~= "\\" then reject("control character in a string at byte %d", stop) end
    letter, from = read_escape(text, stop)
    if not drop then
      few[n + 1], few[n + 2], n = run, letter, n + 2
      if n == FEW then parts[#parts + 1], n = table.concat(few, "", 1, n), 0 end
    end
    stop = find(text, '[\0-\31"\\]', from)
    if not stop then reject("string at byte %d has no end", at) end
  end
end


local function read_string(text, at, _, drop)
  local stop = find(text, '[\0-\31"\\]', at + 1)
  if not stop then reject("string at byte %d has no end", at) end
  if sub(text, stop, stop) ~= '"' then return read_escaped(text, at, at + 1, stop, drop) end
  return not drop and sub(text, at + 1, stop - 1), stop + 1
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


---Goes through an array.
---@param text string
---@param at integer where it begins
---@param take fun(text: string, at: integer, x: any): integer gets where each element begins, gives
---the position behind it
---@param x? any passed on
---@return integer behind
function json.elements(text, at, take, x)
  local from, _, behind = first(text, at, "]")
  while from do from, _, behind = another(text, take(text, from, x), "]") end
  return behind
end


---A member of an object.
---@param text string
---@param at integer where its name begins
---@return string name
---@return integer at where its value begins
---@return string mark the value's first character
function json.member(text, at)
  if sub(text, at, at) ~= '"' then
    reject("expected a name in quotes at byte %d, got %s", at, found(text, at))
  end
  local name, behind = read_string(text, at)
  return name, look(text, expect(text, behind, ":"))
end


---Goes through an object.
---@param text string
---@param at integer where it begins
---@param take fun(text: string, at: integer, x: any, name: string, name_at: integer): integer gets
---where each value begins, its name and where that begins; gives the position behind the value
---@param x? any passed on
---@return integer behind
function json.members(text, at, take, x)
  local from, _, behind = first(text, at, "}")
  while from do
    local name, value_at = json.member(text, from)
    from, _, behind = another(text, take(text, value_at, x, name, from), "}")
  end
  return behind
end


---Refuses a name that an object has twice.
---@param name string
---@param at integer
function json.refuse_duplicate(name, at)
  reject("duplicate name %s at byte %d", quoted(name), at)
end


local function read_array(text, at, depth, drop)
  local array, n = not drop and setmetatable({}, Array) or nil, 0
  local from, mark, behind = first(text, at, "]")
  while from do
    local value
    value, behind = read(text, from, mark, depth - 1, drop)
    if array then
      n = n + 1
      array[n] = value
    end
    from, mark, behind = another(text, behind, "]")
  end
  return array, behind
end


local function read_object(text, at, depth, drop)
  local object = not drop and {} or nil
  local from, _, behind = first(text, at, "}")
  while from do
    local name, value_at, mark = json.member(text, from)
    local value
    if object and object[name] ~= nil then json.refuse_duplicate(name, from) end
    value, behind = read(text, value_at, mark, depth - 1, drop)
    if object then object[name] = value end
    from, _, behind = another(text, behind, "}")
  end
  return object, behind
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


function read(text, at, mark, depth, drop)
  local reader = readers[mark]
  if depth < 0 and (reader == read_array or reader == read_object) then
    reject("nested too deep at byte %d", at)
  end
  if not reader then reject("expected a value at byte %d, got %s", at, found(text, at)) end
  return reader(text, at, depth, drop)
end


local function read_document(text, depth, drop)
  local _, bad = utf8.len(text)
  if bad then reject("invalid UTF-8 at byte %d", bad) end
  local from, mark = look(text, 1)
  local value, behind = read(text, from, mark, depth, drop)
  from, mark = look(text, behind)
  if mark ~= "" then reject("expected the end at byte %d, got %s", from, found(text, from)) end
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


---Whether a text is one JSON value, of which nothing is made. Names that come twice are not found.
---@param text string
---@param depth integer
---@return true? good
---@return string? message
function json.check(text, depth)
  local _, why = refuse.try(read_document, text, depth - 1, true)
  return not why or nil, why
end


---The value that begins at a position of a text that is right.
---@param text string
---@param at integer
---@return any value
---@return integer behind
function json.value(text, at) return read(text, at, sub(text, at, at), DEPTH) end


---The position behind that value, of which nothing is made.
---@param text string
---@param at integer
---@return integer behind
function json.behind(text, at)
  return select(2, read(text, at, sub(text, at, at), DEPTH, true))
end


---Whether it is an array or an object.
---@param text string
---@param at integer
---@return boolean
function json.is_nested(text, at) return find(text, "^[%[{]", at) ~= nil end


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
