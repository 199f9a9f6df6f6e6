-- Values of a chat template, as Python has them: texts, numbers, booleans, none, what is undefined,
-- lists and maps that keep their order.

local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local Text = require "heed.models.chat.text"

local values = {}

---@class heed.chat.List
---@field n integer
local List = {__name = "a list"}

---@class heed.chat.Map
---@field names string[]
---@field at table<string, any>
---@field mark string of its names
local Map = {__name = "a map"}

---@class heed.chat.Undefined
---@field what string
local Undefined = {}

---What a template knows of the loop that it is in.
---@class heed.chat.Loop
---@field list heed.chat.List
---@field i integer
local Loop = {__name = "a loop"}

values.none = setmetatable({}, {__name = "none"})

local DEPTH <const> = 64                   -- of lists and tables within each other


local function is_of(class)
  return function(value) return rawequal(getmetatable(value), class) end
end

values.is_list, values.is_map, values.is_undefined = is_of(List), is_of(Map), is_of(Undefined)


---@param items any[]
---@param n? integer
function values.list(items, n)
  items.n = n or #items
  return setmetatable(items, List)
end


---@param mark? string
function values.map(mark) return setmetatable({names = {}, at = {}, mark = mark or "t"}, Map) end


---@param list heed.chat.List
---@param i integer
function values.loop(list, i) return setmetatable({list = list, i = i}, Loop) end


---@param map heed.chat.Map
---@param name string
---@param value any
function values.set(map, name, value)
  if map.at[name] == nil then map.names[#map.names + 1] = name end
  map.at[name] = value
end


---@param what string
function values.undefined(what) return setmetatable({what = what}, Undefined) end


-- What a host gives -----------------------------------------------------------------

-- Roles that a message may have without becoming part of what it says: templates make special
-- tokens of them.
local ROLES <const> = {
  assistant = true, developer = true, ["function"] = true, ipython = true, model = true,
  system = true, tool = true, user = true,
}


-- A value as JSON or Lua has it, whose texts are a message's.
local function leaf(value, name)
  if rawequal(value, json.null) then return values.none end
  if type(value) == "string" then
    return Text.of(value, name == "role" and ROLES[value] and "t" or "m")
  elseif type(value) == "number" or type(value) == "boolean" then
    return value
  end
  heed.fail("chat: a text, a number, a boolean, a list or a table expected as %s, got %s", name,
            options.kind(value))
end


local function from_list(t, n, name, depth)
  local items = {}
  for i = 1, n do items[i] = values.from(rawget(t, i), name, depth + 1) end
  return values.list(items, n)
end


local function from_table(t, name, depth)
  if depth > DEPTH then heed.fail("chat: %s: nested too deep", name) end
  local names = {}
  for key in next, t do
    if math.type(key) == "integer" then names = nil break end
    if type(key) ~= "string" then
      heed.fail("chat: %s: names expected in a table, got %s", name, options.kind(key))
    end
    names[#names + 1] = key
  end
  if not names then
    options.check_list("chat", t)
    return from_list(t, options.last(t), name, depth)
  elseif #names == 0 then
    return values.list{}
  end
  table.sort(names)
  local map = values.map("m")
  for _, key in ipairs(names) do
    values.set(map, key, values.from(rawget(t, key), key, depth + 1))
  end
  return map
end


---A value of Lua: a table with positions is a list, one with names a map, in their order.
---@param value any
---@param name string of it, for messages
---@param depth? integer
---@return any
function values.from(value, name, depth)
  if type(value) == "table" and not rawequal(value, json.null) then
    return from_table(value, name, depth or 1)
  end
  return leaf(value, name)
end


local read_json

local function add_element(text, at, items)
  local behind
  items[#items + 1], behind = read_json(text, at, "an element")
  return behind
end


local function add_member(text, at, map, name)
  local value, behind = read_json(text, at, name)
  values.set(map, name, value)
  return behind
end


function read_json(text, at, name)
  local c = text:sub(at, at)
  if c == "{" then
    local map = values.map("m")
    return map, json.members(text, at, add_member, map)
  elseif c == "[" then
    local items = {}
    local behind = json.elements(text, at, add_element, items)
    return values.list(items), behind
  end
  local value, behind = json.value(text, at)
  return leaf(value, name), behind
end


---A value of a text in JSON, whose maps keep the order of their names.
---@param text string
---@param name string of it, for messages
---@return any
function values.from_json(text, name)
  local good, why = json.check(text, DEPTH)
  if not good then heed.fail("chat: %s: %s", name, why) end
  return (read_json(text, text:match("^%s*()"), name))
end


-- What Python does with values --------------------------------------------------------

---@param value any
---@return string
function values.kind(value)
  if value == nil then return "nothing" end
  if type(value) == "boolean" or type(value) == "number" then return tostring(value) end
  if Text.is(value) then return options.kind(value.bytes) end
  if values.is_undefined(value) then return value.what .. ", which is not defined" end
  return type(value) == "function" and "a macro" or getmetatable(value).__name
end


---@param value any
---@return boolean
function values.truth(value)
  if type(value) == "number" then return value ~= 0 end
  if Text.is(value) then return value.bytes ~= "" end
  if values.is_list(value) then return value.n > 0 end
  if values.is_map(value) then return #value.names > 0 end
  return value and value ~= values.none and not values.is_undefined(value)
end


-- A number as Python's repr() has it, which writes whole ones below 1e16 without an exponent.
local function number_text(n)
  if math.type(n) == "integer" then return tostring(n) end
  if n ~= n then return "nan" end
  if math.abs(n) == math.huge then return n > 0 and "inf" or "-inf" end
  if n % 1 == 0 and math.abs(n) < 1e16 then return ("%.1f"):format(n) end
  for digits = 15, 17 do
    local s = ("%." .. digits .. "g"):format(n)
    if tonumber(s) == n then return s:find("[.e]") and s or ("%.16e"):format(n) end
  end
end


---A value as a text, as Python's str() has it.
---@param value any
---@return heed.chat.Text
function values.text(value)
  if Text.is(value) then return value end
  if value == true then return Text.of("True") end
  if value == false then return Text.of("False") end
  if value == values.none then return Text.of("None") end
  if type(value) == "number" then return Text.of(number_text(value)) end
  if values.is_undefined(value) then return Text.of("") end
  heed.fail("chat: the template writes %s as a text", values.kind(value))
end


-- Whether a number is the one that a boolean is in Python.
local function is_same(number, boolean)
  return type(number) == "number" and type(boolean) == "boolean" and number == (boolean and 1 or 0)
end


---@param a any
---@param b any
---@return boolean
function values.equal(a, b)
  if Text.is(a) and Text.is(b) then return a.bytes == b.bytes end
  if values.is_list(a) and values.is_list(b) then
    for i = 1, a.n do
      if i > b.n or not values.equal(a[i], b[i]) then return false end
    end
    return a.n == b.n
  elseif values.is_map(a) and values.is_map(b) then
    for _, name in ipairs(a.names) do
      if b.at[name] == nil or not values.equal(a.at[name], b.at[name]) then return false end
    end
    return #a.names == #b.names
  end
  return rawequal(a, b) or values.is_undefined(a) and values.is_undefined(b)
         or math.type(a) and math.type(b) and a == b or is_same(a, b) or is_same(b, a)
end


---Whether a is less than b.
---@param a any
---@param b any
---@return boolean
function values.less(a, b)
  if Text.is(a) and Text.is(b) then return a.bytes < b.bytes end
  if type(a) == "number" and type(b) == "number" then return a < b end
  heed.fail("chat: the template compares %s and %s", values.kind(a), values.kind(b))
end


---Whether a collection holds a value.
---@param value any
---@param inside any
---@return boolean
function values.holds(inside, value)
  if Text.is(inside) and Text.is(value) then
    return inside.bytes:find(value.bytes, 1, true) ~= nil
  elseif values.is_list(inside) then
    for i = 1, inside.n do
      if values.equal(inside[i], value) then return true end
    end
    return false
  elseif values.is_map(inside) then
    return Text.is(value) and inside.at[value.bytes] ~= nil
  elseif values.is_undefined(inside) then
    return false
  end
  heed.fail("chat: the template looks for %s in %s", values.kind(value), values.kind(inside))
end


---The elements of a value that a loop goes through.
---@param value any
---@return heed.chat.List
function values.elements(value)
  if values.is_list(value) then return value end
  if values.is_undefined(value) then return values.list{} end
  if values.is_map(value) then
    local names = {}
    for i, name in ipairs(value.names) do names[i] = Text.of(name, value.mark) end
    return values.list(names)
  end
  heed.fail("chat: the template goes through %s", values.kind(value))
end


local LOOP <const> = {
  index = function(_, i) return i end,
  index0 = function(_, i) return i - 1 end,
  revindex = function(list, i) return list.n - i + 1 end,
  revindex0 = function(list, i) return list.n - i end,
  first = function(_, i) return i == 1 end,
  last = function(list, i) return i == list.n end,
  length = function(list) return list.n end,
  previtem = function(list, i) return list[i - 1] end,
  nextitem = function(list, i) return list[i + 1] end,
}


local function loop_member(loop, key, what)
  local f = Text.is(key) and LOOP[key.bytes]
  if f then return f(loop.list, loop.i) end
  heed.fail("chat: the template's loop has no member %s that is known", what)
end


---A member of a map by its name, or an element of a list by its position from 0, or from the end.
---@param value any
---@param key any a text or a number
---@param what string how the template writes it
---@return any
function values.get(value, key, what)
  if values.is_undefined(value) then
    heed.fail("chat: the template asks %s for a member", values.kind(value))
  end
  local found
  if rawequal(getmetatable(value), Loop) then found = loop_member(value, key, what) end
  if values.is_map(value) and Text.is(key) then found = value.at[key.bytes] end
  if values.is_list(value) and math.type(key) == "integer" then
    found = value[key < 0 and value.n + key + 1 or key + 1]
  elseif Text.is(value) and math.type(key) == "integer" then
    found = values.slice(value, key, key ~= -1 and key + 1 or nil)
    if found.bytes == "" then found = nil end
  end
  if found == nil then return values.undefined(what) end
  return found
end


-- Positions of a slice, as Python has them: clipped, from the end where they are negative.
local function bounds(n, from, to, step)
  local low, high = 0, n
  if step < 0 then low, high = -1, n - 1 end
  local function at(i, default)
    if i == nil then return default end
    return math.max(math.min(i < 0 and i + n or i, high), low)
  end
  if step > 0 then return at(from, low), at(to, high) end
  return at(from, high), at(to, low)
end


---A part of a list or a text.
---@param value any
---@param from? integer
---@param to? integer
---@param step? integer
---@return any
function values.slice(value, from, to, step)
  step = step or 1
  if step == 0 then heed.fail("chat: the template takes a slice with step 0") end
  if Text.is(value) and step == 1 then
    from, to = bounds(value:length(), from, to, 1)
    return value:sub(value:offset(from + 1), value:offset(to + 1) - 1)
  elseif not values.is_list(value) then
    heed.fail("chat: the template takes a slice of %s", values.kind(value))
  end
  local items = {}
  from, to = bounds(value.n, from, to, step)
  for i = from, to + (step > 0 and -1 or 1), step do items[#items + 1] = value[i + 1] end
  return values.list(items)
end


return values
