-- A reader of JSON in plain Lua, beside which json_spec holds the one in C. In a sealed state specs
-- read their own data with it.

local refuse = require "heed.internal.refuse"

local find, match, sub = string.find, string.match, string.sub
local reject, quoted = refuse.with, refuse.quoted

local null, Array     -- of the call that runs

-- Each reader takes the text and where its value begins, and gives the value and the position
-- behind it.
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


-- The rest of a string from its first escape on.
local function read_escaped(text, at, from, stop)
  local parts = {}
  while true do
    local mark = sub(text, stop, stop)
    parts[#parts + 1] = sub(text, from, stop - 1)
    if mark == '"' then return table.concat(parts), stop + 1 end
    if mark ~= "\\" then reject("control character in a string at byte %d", stop) end
    parts[#parts + 1], from = read_escape(text, stop)
    stop = find(text, '[\0-\31"\\]', from)
    if not stop then reject("string at byte %d has no end", at) end
  end
end


local function read_string(text, at)
  local stop = find(text, '[\0-\31"\\]', at + 1)
  if not stop then reject("string at byte %d has no end", at) end
  if sub(text, stop, stop) ~= '"' then return read_escaped(text, at, at + 1, stop) end
  return sub(text, at + 1, stop - 1), stop + 1
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


-- The name of a member, where its value begins, and the character there.
local function member(text, at)
  if sub(text, at, at) ~= '"' then
    reject("expected a name in quotes at byte %d, got %s", at, found(text, at))
  end
  local name, behind = read_string(text, at)
  return name, look(text, expect(text, behind, ":"))
end


local function read_array(text, at, depth)
  local array = setmetatable({}, Array)
  local from, mark, behind = first(text, at, "]")
  while from do
    array[#array + 1], behind = read(text, from, mark, depth - 1)
    from, mark, behind = another(text, behind, "]")
  end
  return array, behind
end


local function read_object(text, at, depth)
  local object = {}
  local from, _, behind = first(text, at, "}")
  while from do
    local name, value_at, mark = member(text, from)
    if object[name] ~= nil then reject("duplicate name %s at byte %d", quoted(name), from) end
    object[name], behind = read(text, value_at, mark, depth - 1)
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


local word_null = literal("null", true)

local function read_null(text, at)
  local _, behind = word_null(text, at)
  return null, behind
end


local readers = {
  ['"'] = read_string, ["["] = read_array, ["{"] = read_object, ["-"] = read_number,
  t = literal("true", true), f = literal("false", false), n = read_null,
}
for digit = 0, 9 do readers[tostring(digit)] = read_number end


function read(text, at, mark, depth)
  local reader = readers[mark]
  if depth < 0 and (reader == read_array or reader == read_object) then
    reject("nested too deep at byte %d", at)
  end
  if not reader then reject("expected a value at byte %d, got %s", at, found(text, at)) end
  return reader(text, at, depth)
end


local function read_document(text, depth)
  local _, bad = utf8.len(text)
  if bad then reject("invalid UTF-8 at byte %d", bad) end
  local from, mark = look(text, 1)
  local value, behind = read(text, from, mark, depth)
  from, mark = look(text, behind)
  if mark ~= "" then reject("expected the end at byte %d, got %s", from, found(text, from)) end
  return value
end


local json = {}

---Reads one JSON value, as heed.core.json.decode does; a name that comes twice is in the message.
---@param text string
---@param depth integer
---@param nothing any what stands for null
---@param of_arrays table the metatable of arrays
---@return any value or nil
---@return string? message
function json.decode(text, depth, nothing, of_arrays)
  null, Array = nothing, of_arrays
  return refuse.try(read_document, text, depth - 1)
end

return json
