-- Runs the examples of the reference and the blocks of the pages with other values in the place of
-- each argument: whatever they call is called so as well, before the call itself.

local blocks = require "spec.support.blocks"
local calls = require "spec.support.calls"
local heed = require "heed"
local inside = require "spec.support.inside"

local is_tensor = heed.is_tensor

local substitute = {}

-- Options that write files, or without which a call goes on for ever.
local LEFT <const> = {checkpoint = true, log = true, steps = true}


local function copied(t)
  local copy = {}
  for key, value in next, t do copy[key] = value end
  return copy
end


---Calls visit(changed, where) with the list of arguments in which a value has the place of one, of
---an entry of one that is a plain table, and behind all.
---@param arguments table with n
---@param value any
---@param visit fun(changed: table, where: string)
function substitute.each_place(arguments, value, visit)
  for i = 1, arguments.n do
    local own, changed = arguments[i], copied(arguments)
    changed[i] = value
    visit(changed, ("argument %d"):format(i))
    if type(own) == "table" and not debug.getmetatable(own) then
      for key in next, own do
        if not LEFT[key] then
          changed[i] = copied(own)
          changed[i][key] = value
          visit(changed, ("argument %d, entry %s"):format(i, tostring(key)))
        end
      end
    end
  end
  local changed = copied(arguments)
  changed.n = changed.n + 1
  changed[changed.n] = value
  visit(changed, ("argument %d"):format(changed.n))
end


-- How far calls go that train and write, in which errors come early.
local MOST <const> = {max = 4, steps = 12}

-- The arguments with no number above these.
local function shortened(arguments)
  local list = copied(arguments)
  for i = 1, arguments.n do
    local own = arguments[i]
    if type(own) == "table" and not debug.getmetatable(own) then
      list[i] = copied(own)
      for name, most in next, MOST do
        local value = own[name]
        if math.type(value) == "integer" and value > most then list[i][name] = most end
      end
    end
  end
  return list
end


-- The kinds of arguments, in words: of calls that have these in common one is tried.
local function kinds_of(arguments)
  local kinds = {}
  for i = 1, arguments.n do
    local value = arguments[i]
    local class = debug.getmetatable(value)
    kinds[i] = is_tensor(value) and "tensor" or type(value)
    if type(value) == "table" and class then kinds[i] = tostring(class.__name) end
    if type(value) == "table" and not class then
      local keys = {}
      for key in next, value do keys[#keys + 1] = tostring(key) end
      table.sort(keys)
      kinds[i] = "{" .. table.concat(keys, ",") .. "}"
    end
  end
  return table.concat(kinds, " ")
end


-- Puts functions in the place of those of heed's tables, of its classes and of tensors' metatable.
local Spies = {}
Spies.__index = Spies


-- f with `try` before each outermost call of it.
function Spies:on(what, f)
  if self.known[f] then return self.known[f] end
  local function spied(...)
    if self.busy then return f(...) end
    self.busy = true
    local arguments = table.pack(...)
    local kinds = what .. " " .. kinds_of(arguments)
    if not self.tried[kinds] then
      self.tried[kinds] = true
      self.try(what, f, shortened(arguments))
    end
    return self:result(pcall(f, ...))
  end
  self.known[f], self.known[spied] = spied, spied
  return spied
end


function Spies:result(good, ...)
  self.busy = false
  if not good then error((...), 0) end
  for i = 1, select("#", ...) do self:enter_class((select(i, ...))) end
  return ...
end


-- The class of an object of heed's.
function Spies:enter_class(object)
  local class = type(object) == "table" and debug.getmetatable(object)
  if inside.way(class) and rawget(class, "__name") then self:enter(class.__name, class) end
end


-- Metamethods that no example calls by their names, and what the Lua half alone calls.
local INNER <const> = {
  __close = true, __gc = true, __index = true, __newindex = true, __pairs = true,
  __tostring = true, core = true, fail = true,
}

function Spies:set(t, name, value)
  self.undo[#self.undo + 1] = {t, name, t[name]}
  rawset(t, name, value)
end


---Sets spies in a table of functions, in its classes and in what these extend.
---@param what string
---@param t table
function Spies:enter(what, t)
  if self.entered[t] then return end
  self.entered[t] = true
  for name, f in pairs(copied(t)) do
    local own = type(name) == "string" and not calls.SKIPPED[name] and not INNER[name]
    if own and type(f) == "function" then self:set(t, name, self:on(what .. "." .. name, f)) end
    if own and type(f) == "table" and inside.way(f) then self:enter(what .. "." .. name, f) end
  end
  local meta = debug.getmetatable(t)
  local make = meta and rawget(meta, "__call")
  if type(make) == "function" then self:set(meta, "__call", self:on(what, make)) end
  local base = meta and rawget(meta, "__index")
  if type(base) == "table" and inside.way(base) then self:enter(what, base) end
end


function Spies:enter_tensors()
  local class = debug.getmetatable(heed.zeros(1))
  local index = class.__index
  for name, f in pairs(copied(class)) do
    if type(f) == "function" and not INNER[name] then self:set(class, name, self:on(name, f)) end
  end
  local by_key = self:on("__index", index)
  self:set(class, "__index", function(x, name)
    if type(name) ~= "string" then return by_key(x, name) end
    local found = index(x, name)
    if type(found) ~= "function" or calls.SKIPPED[name] then return found end
    return self:on("x:" .. name, found)
  end)
  self:set(class, "__newindex", self:on("__newindex", class.__newindex))
end


function Spies:leave()
  for i = #self.undo, 1, -1 do rawset(table.unpack(self.undo[i], 1, 3)) end
end


local PAGES <const> = {
  "README.md", "docs/attention.md", "docs/from-pytorch.md", "docs/howto.md", "docs/memory.md",
  "docs/numbers.md", "docs/tour.md", "docs/training.md", "docs/transformers.md",
}

-- The examples of the reference, and the blocks of the pages.
local function texts()
  local list = {}
  for line in io.lines "lua/heed/meta.lua" do
    local text = line:match("^%-%-%-> (.*)$")
    local left = text and (text:match('^(.*) raises "(.*)"$') or text:match("^(.*) == (.-)$"))
    if left then list[#list + 1] = "local heed = require 'heed' return " .. left end
  end
  for _, page in ipairs(PAGES) do
    for kind, block in blocks.of(page) do
      if kind == "lua" then list[#list + 1] = block end
    end
  end
  return list
end


---Calls try(what, f, arguments) before each outermost call of a public function, of a method or of
---a metamethod that the examples of the reference and the blocks of the pages make: of such that
---train or write, with fewer steps than there.
---@param try fun(what: string, f: function, arguments: table)
function substitute.run(try)
  local spies = setmetatable({try = try, known = {}, tried = {}, entered = {}, undo = {},
                              busy = false}, Spies)
  local usual = print
  for name in pairs(calls.parts) do
    local part = name == "heed" and inside.heed or rawget(inside.heed, name)
    if part then spies:enter(name, part) end
  end
  spies:enter_tensors()
  rawset(_G, "print", function() end)
  for _, text in ipairs(texts()) do
    blocks.run(text, "example")
    spies.busy = false
  end
  rawset(_G, "print", usual)
  spies:leave()
end


return substitute
