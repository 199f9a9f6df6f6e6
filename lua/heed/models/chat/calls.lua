-- What a chat template may call: filters, tests, methods of texts and maps, and functions. Each is
-- called with the value, the arguments as a list and those with a name; what it is defined with
-- gets the value, the arguments by the names of its parameters, and those beyond as a list. What is
-- not here is refused by its name.

local heed = require "heed"
local options = require "heed.internal.options"
local Text = require "heed.models.chat.text"
local values = require "heed.models.chat.values"

local calls = {filters = {}, functions = {}, map_methods = {}, tests = {}, text_methods = {}}

local function refuse(format, ...) heed.fail("chat: " .. format, ...) end


-- Arguments by the names of parameters; those beyond are refused, unless "..." stands there, behind
-- which are parameters that must be named.
local function bound(who, names, args, named)
  local a, rest, list = {}, {}, {}
  for name in names:gsub("%.%.%..*", ""):gmatch("[%w_]+") do list[#list + 1] = name end
  for i, value in ipairs(args) do
    if list[i] then a[list[i]] = value
    elseif names:find("...", 1, true) then rest[#rest + 1] = value
    else refuse("the template gives %d arguments to %s, which takes %d", #args, who, #list) end
  end
  for name, value in pairs(named) do
    if not (" " .. names .. " "):find(" " .. name .. " ", 1, true) then
      refuse("the template's %s has no argument '%s' that is known", who, name)
    end
    a[name] = value
  end
  return a, rest
end


local function define(kind, name, names, f)
  calls[kind][name] = function(value, args, named)
    return f(value, bound(name, names, args, named))
  end
end


local function define_all(kind, list)
  for name, each in pairs(list) do define(kind, name, each[1], each[2]) end
end


local function as_text(value, who)
  if Text.is(value) then return value end
  refuse("the template gives %s to %s, which takes a text", values.kind(value), who)
end


-- The bytes of an argument, or nothing where it is not there.
local function bytes_of(value, who) return value ~= nil and as_text(value, who).bytes or nil end


local function whole(value, who)
  if value == nil or math.type(value) == "integer" then return value end
  refuse("the template gives %s to %s, which takes a whole number", values.kind(value), who)
end


-- Letters ------------------------------------------------------------------------------

-- A text with other letters of ASCII; others would need tables of their own.
local function letters(who, change)
  return function(value)
    local text = values.text(value)
    if text.bytes:find("[\x80-\xff]") then
      refuse("the template's %s gets letters beyond ASCII, which are not known there", who)
    end
    return text:with(change(text.bytes))
  end
end

local function capital(s) return s:sub(1, 1):upper() .. s:sub(2):lower() end

local upper, lower = letters("upper", string.upper), letters("lower", string.lower)
local capitalize = letters("capitalize", capital)

-- Python's method begins a word behind all that is no letter, Jinja's filter behind blanks, opening
-- brackets and hyphens alone.
local title_method = letters("title", function(s) return (s:gsub("%a+", capital)) end)
local title = letters("title", function(s)
  return (s:gsub("[^-%s\x1c-\x1f({%[<]+", capital))
end)


local function strip(who, left, right)
  return function(value, a)
    local set = bytes_of(a.chars, who)
    return values.text(value):strip(set and Text.set(set), left, right)
  end
end


local function replace(value, a)
  local old, by = bytes_of(a.old, "replace"), as_text(a.new, "replace")
  if not old or old == "" then refuse("the template replaces an empty text") end
  return values.text(value):replace(old, by, whole(a.count, "replace"))
end


-- Methods --------------------------------------------------------------------------------

local function pairs_of(map)
  local items = {}
  for i, name in ipairs(map.names) do
    items[i] = values.list{Text.of(name, map.mark), map.at[name]}
  end
  return values.list(items)
end


local function values_of(map)
  local items = {}
  for i, name in ipairs(map.names) do items[i] = map.at[name] end
  return values.list(items)
end


local function starts_with(text, a)
  local start = as_text(a.prefix, "startswith").bytes
  return text.bytes:sub(1, #start) == start
end


local function ends_with(text, a)
  local ending = as_text(a.suffix, "endswith").bytes
  return ending == "" or text.bytes:sub(-#ending) == ending
end


local function split(text, a)
  local by = a.sep ~= values.none and bytes_of(a.sep, "split") or nil
  if by == "" then refuse("the template splits by an empty text") end
  if not by and a.maxsplit then refuse("the template's split has a count, and no separator") end
  return values.list(text:split(by, whole(a.maxsplit, "split")))
end


local function get(map, a)
  local found = map.at[as_text(a.key, "get").bytes]
  if found ~= nil then return found end
  if a.default ~= nil then return a.default end
  return values.none
end


define_all("text_methods", {
  capitalize = {"", capitalize}, endswith = {"suffix", ends_with}, lower = {"", lower},
  lstrip = {"chars", strip("lstrip", true, false)}, replace = {"old new count", replace},
  rstrip = {"chars", strip("rstrip", false, true)}, split = {"sep maxsplit", split},
  startswith = {"prefix", starts_with}, strip = {"chars", strip("strip", true, true)},
  title = {"", title_method}, upper = {"", upper},
})

define_all("map_methods", {
  get = {"key default", get}, items = {"", pairs_of}, keys = {"", values.elements},
  values = {"", values_of},
})


-- Tests ------------------------------------------------------------------------------------

local function is_number(value) return type(value) == "number" end

-- The number that a boolean is in Python, or the value itself.
local function as_number(value)
  if type(value) == "boolean" then return value and 1 or 0 end
  return value
end


local function has_type(name)
  return function(value) return math.type(value) == name end
end


local function is_value(wanted)
  return function(value) return value == wanted end
end


local function remainder(n)
  return function(value)
    value = as_number(value)
    return is_number(value) and value % 2 == n
  end
end


local function is_sequence(value)
  return Text.is(value) or values.is_list(value) or values.is_map(value)
end


local function equal(value, a) return values.equal(value, a.other) end

local function not_equal(value, a) return not values.equal(value, a.other) end


define_all("tests", {
  boolean = {"", function(value) return type(value) == "boolean" end},
  defined = {"", function(value) return not values.is_undefined(value) end},
  eq = {"other", equal}, equalto = {"other", equal}, ["=="] = {"other", equal},
  even = {"", remainder(0)}, ["false"] = {"", is_value(false)}, float = {"", has_type("float")},
  ["in"] = {"seq", function(value, a) return values.holds(a.seq, value) end},
  integer = {"", has_type("integer")}, iterable = {"", is_sequence},
  mapping = {"", values.is_map}, ne = {"other", not_equal}, ["!="] = {"other", not_equal},
  none = {"", is_value(values.none)},
  number = {"", function(value) return is_number(as_number(value)) end}, odd = {"", remainder(1)},
  sequence = {"", is_sequence}, string = {"", Text.is}, ["true"] = {"", is_value(true)},
  undefined = {"", values.is_undefined},
})


-- A function of a kind by its name.
local function find(kind, what, name)
  return calls[kind][name]
         or refuse("the template's %s '%s' is not known; %s", what, name,
                   options.hint(name, options.names(calls[kind])))
end


---@param name string
---@return function
function calls.test(name) return find("tests", "test", name) end


---@param name string
---@return function
function calls.filter(name) return find("filters", "filter", name) end


-- JSON ----------------------------------------------------------------------------------------

local ESCAPES <const> = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b",
  ["\f"] = "\\f",
}

local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    if c == "\127" then return c end
    return ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end


-- Numbers that Python's json.dumps() has other words for than its repr().
local WORDS <const> = {inf = "Infinity", ["-inf"] = "-Infinity", nan = "NaN"}

local json_of

-- The parts of a list or a map, in lines of their own where there is an indent.
local function enclosed(open, parts, close, indent, level)
  if #parts == 0 then return open .. close end
  if not indent then return open .. table.concat(parts, ", ") .. close end
  local inner, outer = "\n" .. indent:rep(level + 1), "\n" .. indent:rep(level)
  return open .. inner .. table.concat(parts, "," .. inner) .. outer .. close
end


function json_of(value, indent, level)
  if Text.is(value) then return quoted(value.bytes) end
  if value == values.none then return "null" end
  if type(value) == "boolean" then return tostring(value) end
  if is_number(value) then
    local text = values.text(value).bytes
    return WORDS[text] or text
  end
  local parts = {}
  if values.is_list(value) then
    for i = 1, value.n do parts[i] = json_of(value[i], indent, level + 1) end
    return enclosed("[", parts, "]", indent, level)
  elseif values.is_map(value) then
    for i, name in ipairs(value.names) do
      parts[i] = quoted(name) .. ": " .. json_of(value.at[name], indent, level + 1)
    end
    return enclosed("{", parts, "}", indent, level)
  end
  refuse("the template writes %s as JSON", values.kind(value))
end


-- A value as Python's json.dumps(value, ensure_ascii=False) writes it; all of it is a message's.
local function tojson(value, a)
  if a.ensure_ascii ~= nil and a.ensure_ascii ~= false then
    refuse("the template's tojson asks for ASCII, which is not known")
  end
  local indent = a.indent ~= values.none and whole(a.indent, "tojson") or nil
  return Text.of(json_of(value, indent and (" "):rep(indent), 0), "m")
end


-- Filters -------------------------------------------------------------------------------------

local function length(value)
  if Text.is(value) then return value:length() end
  return values.elements(value).n
end


local function joined(value, a)
  local by, parts = values.text(a.d or Text.of("")), {}
  local list = values.elements(value)
  for i = 1, list.n do
    if i > 1 and by.bytes ~= "" then parts[#parts + 1] = by end
    local x = list[i]
    if a.attribute then x = values.get(x, a.attribute, "an attribute") end
    parts[#parts + 1] = values.text(x)
  end
  return Text.join(parts)
end


-- The elements of a list that a test finds good, by an attribute of theirs or by themselves.
local function chosen(who, wanted)
  return function(value, a, rest)
    local list, items = values.elements(value), {}
    local test = a.test and calls.test(as_text(a.test, who).bytes)
    for i = 1, list.n do
      local x = list[i]
      if a.attribute then x = values.get(x, as_text(a.attribute, who), "an attribute") end
      local good = values.truth(x)
      if test then good = test(x, rest, {}) end
      if (good and true or false) == wanted then items[#items + 1] = list[i] end
    end
    return values.list(items)
  end
end


local function mapped(value, a, rest)
  local list, items = values.elements(value), {}
  local filter = not a.attribute and calls.filter(as_text(a.filter, "map").bytes)
  for i = 1, list.n do
    if filter then items[i] = filter(list[i], rest, {})
    else items[i] = values.get(list[i], as_text(a.attribute, "map"), "an attribute") end
  end
  return values.list(items)
end


-- Pairs in the order of names, whose case does not count; names that are equal then stay in theirs.
local function sorted_pairs(value)
  if not values.is_map(value) then
    refuse("the template gives %s to dictsort, which takes a map", values.kind(value))
  end
  local list, at = pairs_of(value), {}
  for i, pair in ipairs(list) do at[pair] = i end
  table.sort(list, function(one, other)
    local a, b = one[1].bytes:lower(), other[1].bytes:lower()
    if a ~= b then return a < b end
    return at[one] < at[other]
  end)
  return list
end


local function default(value, a)
  local empty = a.boolean ~= nil and values.truth(a.boolean) and not values.truth(value)
  if not empty and not values.is_undefined(value) then return value end
  if a.default_value == nil then return Text.of("") end
  return a.default_value
end


local function element(k, who)
  return function(value) return values.get(values.elements(value), k, who) end
end


local function reversed(value) return values.slice(values.elements(value), nil, nil, -1) end


-- The number that a text spells, as Python's int() and float() have it; or nothing.
local function spelt(s)
  s = s:match("^%s*(.-)%s*$"):gsub("(%d)_%f[%d]", "%1")
  return s:find("^[+-]?%.?%d[%d.eE+-]*$") and tonumber((s:gsub("^%+", ""))) or nil
end


local function beyond(n)
  return refuse("the template's int gets %s, which is not known with 64 bits", values.kind(n))
end


-- Prefixes that the digits of a base may have.
local PREFIXES <const> = {[2] = "^0[bB]", [8] = "^0[oO]", [16] = "^0[xX]"}

-- The whole number that a text spells in a base, as Python's int() has it; or nothing.
local function spelt_in(s, base)
  if base < 2 or base > 36 then refuse("the template's int takes bases from 2 to 36") end
  s = s:match("^%s*(.-)%s*$"):gsub("(%w)_%f[%w]", "%1")
  local sign, digits = s:match "^([+-]?)(%w+)$"
  digits = digits and PREFIXES[base] and digits:gsub(PREFIXES[base], "") or digits
  local n, wide = digits and tonumber(digits, base), 0.0
  if not n then return nil end
  for digit in digits:gmatch "." do wide = wide * base + tonumber(digit, base) end
  if wide > 2.0 ^ 63 or n < 0 then beyond(wide) end
  return sign == "-" and -n or n
end


local function as_integer(value, a)
  if values.is_undefined(value) then
    refuse("the template gives %s to int", values.kind(value))
  end
  local n = as_number(value)
  local base = whole(a.base, "int")
  if Text.is(value) then n = base and spelt_in(value.bytes, base) or spelt(value.bytes) end
  if not is_number(n) or n ~= n or n == math.huge or n == -math.huge then
    if a.default == nil then return 0 end
    return a.default
  end
  return math.tointeger(n >= 0 and math.floor(n) or math.ceil(n)) or beyond(n)
end


-- Lines but the first, and empty ones, moved to the right.
local function indented(value, a)
  local by, first = (" "):rep(whole(a.width, "indent") or 4), a.first and values.truth(a.first)
  local parts = {}
  for i, line in ipairs(values.text(value):split("\n")) do
    if i > 1 then parts[#parts + 1] = Text.of("\n") end
    if (i > 1 or first) and (line.bytes ~= "" or i == 1) then parts[#parts + 1] = Text.of(by) end
    parts[#parts + 1] = line
  end
  return Text.join(parts)
end


define_all("filters", {
  capitalize = {"", capitalize}, count = {"", length}, d = {"default_value boolean", default},
  default = {"default_value boolean", default}, dictsort = {"", sorted_pairs},
  first = {"", element(0, "first")}, indent = {"width first", indented},
  int = {"default base", as_integer}, items = {"", pairs_of}, join = {"d attribute", joined},
  last = {"", element(-1, "last")}, length = {"", length}, list = {"", values.elements},
  lower = {"", lower}, map = {"filter ... attribute", mapped},
  reject = {"test ...", chosen("reject", false)},
  rejectattr = {"attribute test ...", chosen("rejectattr", false)},
  replace = {"old new count", replace}, reverse = {"", reversed},
  safe = {"", function(value) return value end}, select = {"test ...", chosen("select", true)},
  selectattr = {"attribute test ...", chosen("selectattr", true)}, string = {"", values.text},
  title = {"", title}, tojson = {"indent ensure_ascii", tojson},
  trim = {"chars", strip("trim", true, true)}, upper = {"", upper},
})


-- Functions -----------------------------------------------------------------------------------

local MOST_RANGE <const> = 100000


local function range(args)
  local from, to, step = 0, whole(args[1], "range"), whole(args[3], "range") or 1
  if args[2] ~= nil then from, to = to, whole(args[2], "range") end
  if not to or step == 0 or (to - from) // step > MOST_RANGE then
    refuse("the template asks for a range that is too long")
  end
  local items = {}
  for i = from, to + (step > 0 and -1 or 1), step do items[#items + 1] = i end
  return values.list(items)
end


-- A map of the arguments with names, in the order of these.
local function namespace(_, named)
  local map = values.map()
  for _, name in ipairs(options.names(named)) do values.set(map, name, named[name]) end
  return map
end


local function strftime_now(args)
  local text = as_text(args[1], "strftime_now")
  local format = text.bytes
  if format:gsub("%%[aAbBdHIjmMpSUwWxXyYcZ%%]", ""):find("%", 1, true) then
    refuse("the template asks for the date as '%s', which is not known", format)
  end
  local clock = os and os.date
  if not clock then refuse("the template asks for the date, which this program does not tell") end
  return Text.of(clock(format), text.marks:match "m")
end


-- Functions have no value: arguments as they were given, and those with a name.
calls.functions = {
  dict = namespace, namespace = namespace, range = range, strftime_now = strftime_now,
  raise_exception = function(args)
    refuse("the template refuses the messages: %s", values.text(args[1]).bytes)
  end,
}

-- What Jinja knows besides.
calls.strange = {
  caller = true, cycler = true, joiner = true, kwargs = true, lipsum = true, self = true,
  super = true, varargs = true,
}


return calls
