-- Reads tables of options: fills in defaults, and refuses unknown names.
-- The Lua half checks its arguments here alone; the words about unknown names are C's
-- (src/lua/lua_options.c). A default also gives its option's type; `options.any` stands where there
-- is none.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local shown = require "heed.internal.shown"

local options = {}

---In place of a default: nil unless given, of any type.
options.any = setmetatable({}, {__name = "options.any", __tostring = function() return "any" end})

local any, type = options.any, type              -- calls of layers take them from here


local function escape(c) return ("\\x%02x"):format(c:byte()) end

-- How a value of each type is described, where its type alone would say too little.
local words = {
  boolean = tostring, ["nil"] = tostring,
  number = function(n) return n ~= n and "nan" or tostring(n) end,     -- C libraries differ
  string = function(s)
    return #s > 40 and "a long string" or "the string '" .. s:gsub("[\0-\31\127]", escape) .. "'"
  end,
  table = function(t)
    local class = getmetatable(t)
    if type(class) == "table" and type(class.__name) == "string" then return class.__name end
    return next(t) == nil and "an empty table" or "a table"
  end,
  userdata = function(u)
    if not heed.is_tensor(u) then return "a userdata" end
    if not options.is_alive(u) then return "a released tensor" end
    return "a tensor of shape " .. tostring(u.shape)
  end,
}


---A value's kind in the words of a message, which are C's.
---@param value any
---@return string
function options.kind(value)
  local describe = words[type(value)]
  return describe and describe(value) or "a " .. type(value)
end


---The same, with the type of a tensor, for messages that ask for one.
---@param value any
---@return string
function options.typed(value)
  if not options.is_alive(value) then return options.kind(value) end
  return ("%s and type %s"):format(options.kind(value), value.dtype)
end


---The end of a message about an unknown word: the name that is most like it, or all names if
---none is near.
---@type fun(word: string, names: string[]): string
options.hint = core.hint


---The names in a table, sorted.
---@param t table<string, any>
---@return string[]
function options.names(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end


local FEW <const> = 12              -- names that a message lists where none is near

---Raises an error about a name that a module does not have; others, such as metamethods that
---a program looks for, are nil.
---@param who string
---@param name any
---@param known table<string, any> the names that there are
---@param elsewhere? table<string, string> what to write for names that PyTorch has
function options.refuse_name(who, name, known, elsewhere)
  if type(name) ~= "string" or not name:find("^%a") then return nil end
  if elsewhere and elsewhere[name] then
    heed.fail("%s: there is no '%s'; write %s", who, name, elsewhere[name])
  end
  local names = shown.public_names(known)
  local best, more = core.nearest(name, names), ""
  if best then
    more = ("; did you mean '%s'?"):format(best)
  elseif #names > 0 and #names <= FEW then
    more = "; there are " .. table.concat(names, ", ")
  end
  heed.fail("%s: there is no '%s'%s", who, name, more)
end


---Makes a module raise where a name is read that it does not have.
---@generic T
---@param who string
---@param module T
---@param elsewhere? table<string, string> what to write for names that PyTorch has
---@return T module
function options.strict(who, module, elsewhere)
  return setmetatable(module, {
    __index = function(_, name) return options.refuse_name(who, name, module, elsewhere) end,
    __tostring = function() return shown.module(who, module) end,
  })
end


local function refuse_option(who, name, known, elsewhere)
  if elsewhere and elsewhere[name] then
    heed.fail("%s: unknown option '%s'; write %s", who, name, elsewhere[name])
  end
  core.refuse_option(who, name, options.names(known))
end


local function refuse_type(who, name, value, default)
  heed.fail("%s: a %s expected as option %s, got %s", who, type(default), name, options.kind(value))
end


-- Has a table a class with a name, as a mask, a bias or a cache in the place of {mask = m}? Fields
-- of such a table are no options.
local function is_object(t)
  local class = getmetatable(t)
  return type(class) == "table" and rawget(class, "__name") ~= nil
end


-- Sets the options that were given, each of which is checked.
local function take(read, who, given, known, elsewhere)
  if type(given) ~= "table" or is_object(given) then
    heed.fail("%s: a table of options expected, got %s", who, options.kind(given))
  end
  for name, value in pairs(given) do
    local default = known[name]
    if default == nil then refuse_option(who, name, known, elsewhere) end
    if default ~= any and type(value) ~= type(default) then
      refuse_type(who, name, value, default)
    end
    read[name] = value
  end
  return read
end


---Reads a table of options.
---@param who string the function they were given to, as messages name it
---@param given table? what the caller passed
---@param known table<string, any> every option's default, or `options.any`
---@param elsewhere? table<string, string> what to write for options that PyTorch has
---@return table read a new table, with the defaults filled in
function options.read(who, given, known, elsewhere)
  local read = {}
  for name, default in pairs(known) do
    if default ~= any then read[name] = default end
  end
  return given == nil and read or take(read, who, given, known, elsewhere)
end


---The same without defaults, which then give types alone: an option that was not given is nil.
---@param who string
---@param given table?
---@param known table<string, any>
---@param elsewhere? table<string, string>
---@return table read
function options.given(who, given, known, elsewhere)
  return given == nil and {} or take({}, who, given, known, elsewhere)
end


---A copy of options that are checked where they are read; there are none where nil is given.
---@param who string
---@param given table?
---@param example string the name of one of them
---@return table<string, any> read
function options.passed(who, given, example)
  if given ~= nil and type(given) ~= "table" then
    heed.fail("%s: a table of options expected, got %s", who, options.kind(given))
  end
  local read = {}
  for name, value in pairs(given or {}) do
    if type(name) ~= "string" then core.refuse_option(who, name, {example}) end
    read[name] = value
  end
  return read
end


local function is_options(value)
  return type(value) == "table" and type(next(value)) == "string" and #value == 0
end


local function check_name(who, name, names, more)
  local known = {table.unpack(names)}
  for _, other in ipairs(more) do known[#known + 1] = other end
  for _, other in ipairs(known) do
    if name == other then return end
  end
  core.refuse_option(who, name, known)
end


---Reads arguments by PyTorch's names: `names` in this order, or they and `more` in a table at the
---end.
---@param who string
---@param names string[]
---@param more string[] what may stand in the table alone
---@param ... any
---@return table<string, any>
function options.arguments(who, names, more, ...)
  local n, read = select("#", ...), {}
  local given = n > 0 and select(n, ...)
  if is_options(given) then n = n - 1 else given = {} end
  if n > #names then heed.fail("%s: at most %d arguments expected, got %d", who, #names, n) end
  for i = 1, n do read[names[i]] = select(i, ...) end
  for name, value in pairs(given) do
    check_name(who, name, names, more)
    if read[name] ~= nil then heed.fail("%s: argument '%s' is given twice", who, name) end
    read[name] = value
  end
  return read
end


---Refuses arguments behind those that a function takes; nil is none.
---@param who string
---@param most integer how many it takes
---@param ... any what came behind them
function options.no_more(who, most, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if value ~= nil then
      local wanted = most == 0 and "no argument" or most == 1 and "at most 1 argument"
                     or ("at most %d arguments"):format(most)
      heed.fail("%s: %s expected, got %s as argument %d", who, wanted, options.kind(value),
                most + i)
    end
  end
end


---Makes objects refuse fields that they do not have, read or set.
---@param class table their metatable, with their methods
---@param who string
function options.closed(class, who)
  local function known(self)
    if type(self) ~= "table" then
      heed.fail("%s: an object expected as the first argument, got %s", who, options.kind(self))
    end
    local names = {}
    for _, t in ipairs{self, class} do
      for name in next, t do names[name] = true end
    end
    return names
  end
  function class:__index(name)
    if class[name] ~= nil then return class[name] end
    return options.refuse_name(who, name, known(self))
  end
  function class:__newindex(name)
    options.refuse_name(who, name, known(self))
    heed.fail("%s: the name of a field expected, got %s", who, options.kind(name))
  end
end


local function guarded(method, name, most, o)
  return function(self, ...)
    if not o.is(self) then
      heed.fail("%s: %s expected as the first argument, got %s; write %s:%s(%s)", name, o.what,
                options.kind(self), o.variable, name, most > 0 and "..." or "")
    end
    if select("#", ...) > most then options.no_more(name, most, select(most + 1, ...)) end
    return method(self, ...)
  end
end


-- Metamethods that a program may call by itself. Lua gives them more than the object.
local METAMETHODS <const> = {"__call", "__close", "__len", "__newindex", "__pairs", "__tostring"}

local function guarded_metamethod(method, name, o)
  return function(self, ...)
    if o.is(self) then return method(self, ...) end
    heed.fail("%s: %s expected as the first argument, got %s", name, o.what, options.kind(self))
  end
end


local guards = setmetatable({}, {__mode = "k"})      -- classes whose methods are guarded

---Makes methods refuse what they do not take, and say what to write where they were called with a
---dot.
---@param class table whose methods they are
---@param most table<string, integer> how many arguments each takes behind the object
---@param o {is: (fun(value: any): boolean), what: string, variable: string, own: string?} whether a
---value is an object of the class, what such a thing is called, and a name for one; `own` is the
---metamethod that checks its object by itself
function options.guard(class, most, o)
  guards[class] = true
  for name, n in pairs(most) do class[name] = guarded(class[name], name, n, o) end
  for _, name in ipairs(METAMETHODS) do
    local method = rawget(class, name)
    if method and name ~= o.own then class[name] = guarded_metamethod(method, name, o) end
  end
end


---Whether a value is a class of heed's whose methods are guarded.
---@param class any
---@return boolean
function options.is_guarded(class) return guards[class] == true end


---Whether a value is a tensor that was not released.
---@param value any
---@return boolean
function options.is_alive(value)
  return heed.is_tensor(value) and pcall(heed.numel, value)
end


---The last position of a list, also behind holes, where `#` may end.
---@param list table
---@return integer
function options.last(list)
  local last = 0
  for key in next, list do
    if math.type(key) == "integer" and key > last then last = key end
  end
  return last
end


local function next_entry(list, i)
  local value = rawget(list, i + 1)
  if value ~= nil then return i + 1, value end
end


---The entries of a list of the caller's, as ipairs gives them, but without its metamethods, one of
---which may have an entry for any position.
---@param list table
---@return fun(list: table, i: integer): integer?, any
---@return table list
---@return integer from
function options.entries(list) return next_entry, list, 0 end


---A table of those entries.
---@param list table
---@return any[]
function options.copied(list)
  local own = {}
  for i, value in options.entries(list) do own[i] = value end
  return own
end


---Refuses a table that is no list alone: with a key that is no position.
---@param who string
---@param list table
function options.check_list(who, list)
  for key in next, list do
    if math.type(key) ~= "integer" or key < 1 then
      heed.fail("%s: a list expected, got one with %s as a key", who, options.kind(key))
    end
  end
end


---A table of all entries of a list of the caller's; refuses other keys, and an entry behind a hole.
---@param who string whose list it is, too: "generate: the prompt"
---@param list table
---@return any[]
function options.whole(who, list)
  options.check_list(who, list)
  local own, last = options.copied(list), options.last(list)
  if #own == last then return own end
  heed.fail("%s: an entry expected at position %d, since there is one at %d, got nil", who,
            #own + 1, last)
end


---The ids of a list of the caller's, numbers or tensors of one; refuses all that are not whole.
---@param who string whose list it is, too: "decode: row 2"
---@param list table
---@return integer[]
function options.ids(who, list)
  local ids = options.whole(who, list)
  for i, id in ipairs(ids) do
    if options.is_alive(id) and id:dim() == 0 then id = id:item() end
    ids[i] = type(id) == "number" and math.tointeger(id)
             or heed.fail("%s: an id expected at position %d, got %s", who, i, options.kind(id))
  end
  return ids
end


---Checks a size or a count; a float without a fraction is one.
---@param who string
---@param what string
---@param value any
---@param least? integer 1 unless given
---@return integer
function options.count(who, what, value, least)
  least = least or 1
  local n = type(value) == "number" and math.tointeger(value)
  if n and n >= least then return n end
  heed.fail("%s: a whole number of at least %d expected as %s, got %s",
            who, least, what, options.kind(value))
end


---Checks a finite number from 0 on, such as a rate.
---@param who string
---@param what string
---@param value any
---@return number
function options.positive(who, what, value)
  if type(value) == "number" and value >= 0 and value < math.huge then return value end
  heed.fail("%s: a finite number of at least 0 expected as %s, got %s", who, what,
            options.kind(value))
end


---Checks a bound of a norm: a number from 0 on, be it infinite.
---@param who string
---@param what string
---@param value any
---@return number
function options.bound(who, what, value)
  if type(value) == "number" and value >= 0 then return value end
  heed.fail("%s: a number of at least 0 expected as %s, got %s", who, what, options.kind(value))
end


---Checks a probability: of dropping an element, for instance.
---@param who string
---@param what string
---@param value any
---@return number
function options.probability(who, what, value)
  if type(value) == "number" and value >= 0 and value <= 1 then return value end
  heed.fail("%s: a number from 0 to 1 expected as %s, got %s", who, what, options.kind(value))
end


---Checks that a value is a text, such as a word that one of several is named by.
---@param who string
---@param what string
---@param value any
---@return string
function options.text(who, what, value)
  if type(value) == "string" then return value end
  heed.fail("%s: a string expected as %s, got %s", who, what, options.kind(value))
end


---Whether a value can be called: a function, or a table such as a module.
---@param value any
---@return boolean
function options.is_callable(value)
  local class = getmetatable(value)
  return type(value) == "function" or type(class) == "table" and rawget(class, "__call") ~= nil
end


---Refuses a value that cannot be called.
---@param who string
---@param what string
---@param value any
---@return function
function options.callable(who, what, value)
  if options.is_callable(value) then return value end
  heed.fail("%s: a function expected as %s, got %s", who, what, options.kind(value))
end


return options
