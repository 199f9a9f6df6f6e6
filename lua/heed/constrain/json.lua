-- JSON as RFC 8259 has it, byte by byte: the states of a text that may still become a value.
--
-- A state is a mode, what is still open around it ("{[" is a list in an object), and for some
-- modes how many bytes of a kind came. States are made when they are reached; those of equal keys
-- are one.

local json = {}

local BLANKS <const> = 16                  -- in a row
local DEPTH <const> = 32                   -- of lists and objects
local DIGITS <const> = 15                  -- of a number, before the point and behind it

---@class heed.constrain.state
---@field complete? boolean whether the text may end here
---@field next table<integer, heed.constrain.state|false> by the next byte, where that is known
---@field step? fun(byte: integer): heed.constrain.state|false

-- Each mode: a function of the next byte as a character, what is open, and the count; returns the
-- next mode, what is open then, and the count, or nothing.
local MODES = {}


local function is_blank(c) return c == " " or c == "\n" or c == "\t" or c == "\r" end


-- A mode in which blanks may come first.
local function with_blanks(name, mode)
  MODES[name] = function(c, open, n)
    if is_blank(c) then
      if n < BLANKS then return name, open, n + 1 end
      return nil
    end
    return mode(c, open)
  end
end


local LITERALS <const> = {t = "rue", f = "alse", n = "ull"}

-- The first character of a value.
local function begin_value(c, open)
  if c == '"' then return "text", open end
  if c == "{" and #open < DEPTH then return "first_name", open .. c end
  if c == "[" and #open < DEPTH then return "first_element", open .. c end
  if c == "-" then return "minus", open end
  if c == "0" then return "zero", open end
  if c:find("[1-9]") then return "whole", open, 1 end
  if LITERALS[c] then return "=" .. LITERALS[c], open end
end


local CLOSED <const> = {["}"] = "{", ["]"] = "["}

-- The separator behind a value.
local function go_on(c, open)
  local last = open:sub(-1)
  if c == "," and last == "{" then return "name", open end
  if c == "," and last == "[" then return "value", open end
  if CLOSED[c] and CLOSED[c] == last then return "behind", open:sub(1, -2) end
end

with_blanks("value", begin_value)
with_blanks("object", function(c, open) if c == "{" then return begin_value(c, open) end end)
with_blanks("first_element", function(c, open)
  if c == "]" then return go_on(c, open) end
  return begin_value(c, open)
end)
with_blanks("name", function(c, open) if c == '"' then return "name_text", open end end)
with_blanks("first_name", function(c, open)
  if c == "}" then return go_on(c, open) end
  if c == '"' then return "name_text", open end
end)
with_blanks("colon", function(c, open) if c == ":" then return "value", open end end)
with_blanks("inside", go_on)

for _, word in pairs(LITERALS) do
  for k = 1, #word do
    local rest = word:sub(k)
    MODES["=" .. rest] = function(c, open)
      if c ~= rest:sub(1, 1) then return nil end
      return #rest == 1 and "behind" or "=" .. rest:sub(2), open
    end
  end
end


-- Behind a value: blanks come where something is open.
function MODES.behind(c, open)
  if open == "" then return nil end
  if is_blank(c) then return "inside", open, 1 end
  return go_on(c, open)
end


-- Numbers --------------------------------------------------------------------------

-- A mode of digits: `more` says what else may come in the number.
local function digits(name, most, more)
  MODES[name] = function(c, open, n)
    if c:find("%d") then
      if n < most then return name, open, n + 1 end
      return nil
    elseif more[c] then
      return more[c], open, 0
    end
    return MODES.behind(c, open)
  end
end

function MODES.minus(c, open)
  if c == "0" then return "zero", open end
  if c:find("[1-9]") then return "whole", open, 1 end
end

digits("zero", 0, {["."] = "point", e = "exponent", E = "exponent"})
digits("whole", DIGITS, {["."] = "point", e = "exponent", E = "exponent"})
digits("fraction", DIGITS, {e = "exponent", E = "exponent"})
digits("power", 2, {})

function MODES.point(c, open) if c:find("%d") then return "fraction", open, 1 end end

function MODES.exponent(c, open)
  if c:find("%d") then return "power", open, 1 end
  if c == "+" or c == "-" then return "sign", open end
end

function MODES.sign(c, open) if c:find("%d") then return "power", open, 1 end end

local ENDS <const> = {behind = true, fraction = true, power = true, whole = true, zero = true}


-- Texts ---------------------------------------------------------------------------------

-- What may follow the first byte of a character in UTF-8: a range, and how many bytes of any kind
-- behind it.
local function following(byte)
  if byte < 0xc2 then return nil end
  if byte < 0xe0 then return "\x80", "\xbf", 0 end
  if byte == 0xe0 then return "\xa0", "\xbf", 1 end
  if byte == 0xed then return "\x80", "\x9f", 1 end
  if byte < 0xf0 then return "\x80", "\xbf", 1 end
  if byte == 0xf0 then return "\x90", "\xbf", 2 end
  if byte < 0xf4 then return "\x80", "\xbf", 2 end
  if byte == 0xf4 then return "\x80", "\x8f", 2 end
end


-- The modes of a text that ends in another mode.
local function add_texts(name, behind)
  local escape, hex, rest = name .. "\\", name .. "u", name .. "~"
  for byte = 0xc2, 0xf4 do
    local low, high, n = following(byte)
    MODES[name .. byte] = function(c, open)
      if c < low or c > high then return nil end
      return n == 0 and name or rest, open, n
    end
  end
  MODES[rest] = function(c, open, n)
    if c < "\x80" or c > "\xbf" then return nil end
    return n == 1 and name or rest, open, n - 1
  end
  MODES[name] = function(c, open)
    if c == '"' then return behind, open end
    if c == "\\" then return escape, open end
    if c:byte() >= 0x80 then return following(c:byte()) and name .. c:byte(), open end
    return c >= " " and name or nil, open
  end
  MODES[escape] = function(c, open)
    if c == "u" then return hex, open, 0 end
    return c:find('["\\/bfnrt]') and name or nil, open
  end
  MODES[hex] = function(c, open, n)                      -- no half of a surrogate pair
    if not c:find("%x") then return nil end
    if n == 0 and c:find("[dD]") then return hex .. "d", open end
    return n == 3 and name or hex, open, n + 1
  end
  MODES[hex .. "d"] = function(c, open)
    if c:find("[0-7]") then return hex, open, 2 end
  end
end

add_texts("text", "behind")
add_texts("name_text", "colon")


-- States -------------------------------------------------------------------------------------

---The state before a value.
---@param object boolean whether it must be an object
---@return heed.constrain.state
function json.start(object)
  local states = {}
  local function state_of(mode, open, n)
    local key = mode .. "|" .. open .. "|" .. n
    if not states[key] then
      states[key] = {
        complete = ENDS[mode] and open == "" or nil, next = {},
        step = function(byte)
          local to, around, count = MODES[mode](string.char(byte), open, n)
          return to and state_of(to, around, count or 0) or false
        end,
      }
    end
    return states[key]
  end
  return state_of(object and "object" or "value", "", 0)
end


return json
