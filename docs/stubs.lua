-- The parts of lua/heed/meta.lua that C knows: an operation's stub, its other names, and its
-- defaults out. Made again from the table of operations, so that texts and examples are all that is
-- written there by hand.

local heed = require "heed"

local stubs = {}

local WIDTH <const> = 100


-- An operation that the Lua half wraps takes other arguments than its row.
local function is_wrapped(row)
  local f = rawget(heed, row.name)
  return f == nil or debug.getinfo(f, "S").what ~= "C"
end

-- Rows whose stubs are written by hand: a method takes the arguments in another order or by their
-- types; or the in-place variant is the one that users know.
local ARRANGED <const> = {where = true, to = true, uniform = true, normal = true}

-- `end` is a word of Lua's.
local function name_of(parameter)
  return parameter.name == "end" and "end_" or parameter.name
end


local function arguments(row, first)
  local names = {}
  for i = first, #row.parameters do
    names[#names + 1] = name_of(row.parameters[i])
    if row.parameters[i].rest then
      names[#names + 1] = "..."
      break
    end
  end
  return table.concat(names, ", ")
end


local function stub(row)
  local owner, first = "heed.", 1
  if row.method then owner, first = "Tensor:", 2 end
  return ("function %s%s(%s) end"):format(owner, row.name, arguments(row, first))
end


-- `heed.abs, … = Tensor.abs, …`, on as many lines as the width asks for.
local function assignment(names, value)
  local line = table.concat(names, ", ") .. " = " .. value .. (", " .. value):rep(#names - 1)
  if #line <= WIDTH then return {line} end
  return {names[1] .. " = " .. value, table.unpack(assignment({table.unpack(names, 2)}, value))}
end


local function aliases(row)
  local names, own = {}, (row.method and "Tensor." or "heed.") .. row.name
  if row.in_place then names[#names + 1] = "Tensor." .. row.in_place end
  if row.method then names[#names + 1] = "heed." .. row.name end
  if row.in_place then names[#names + 1] = "heed." .. row.in_place end
  return #names > 0 and assignment(names, own) or {}
end


local function written(default)
  if type(default) == "string" then return ("%q"):format(default) end
  if math.type(default) ~= "float" then return tostring(default) end
  local text = ("%g"):format(default):gsub("e([-+])0+", "e%1")
  return text
end


---The sentence about a parameter that a caller may leave out; nil: there is none.
function stubs.default(parameter)
  return parameter.default ~= nil and written(parameter.default) .. " unless given" or nil
end


---The rows of the table of operations whose stubs are made of it, by their names.
function stubs.rows()
  local list = {}
  for _, row in ipairs(heed.core.operations()) do
    if not is_wrapped(row) and not ARRANGED[row.name] then list[row.name] = row end
  end
  return list
end


-- The lines that assign a row's other names, from line i on: how many there are.
local function count_aliases(lines, i, name)
  local n = 0
  while (lines[i + n] or ""):find("^[%w_., ]+ = Tensor%.[%w_]+")
        and lines[i + n]:match(" = Tensor%.([%w_]+)") == name do
    n = n + 1
  end
  return n
end


---The text of the reference with all stubs as the table of operations has them.
---@param text string
---@return string
function stubs.renew(text)
  local rows, lines, made = stubs.rows(), {}, {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  local i = 1
  while i <= #lines do
    local name = lines[i]:match("^function Tensor:([%w_]+)%(.*%) end$")
                 or lines[i]:match("^function heed%.([%w_]+)%(.*%) end$")
    local row = name and rows[name]
    if row then
      made[#made + 1] = stub(row)
      i = i + 1 + count_aliases(lines, i + 1, name)
      table.move(aliases(row), 1, 2, #made + 1, made)
    else
      made[#made + 1] = lines[i]
      i = i + 1
    end
  end
  return table.concat(made, "\n") .. "\n"
end


-- The lines above a stub that describe its parameters, by their names.
local function described(lines, i)
  local found = {}
  while lines[i - 1]:find("^%-%-%-") do
    i = i - 1
    local name, optional, text = lines[i]:match("^%-%-%-@param ([%w_.]+)(%??)%s*(.*)$")
    if name then found[name] = {optional = optional == "?", text = text} end
  end
  return found
end


local function fault_of(parameter, said)
  if not said then return "is not described" end
  local default = stubs.default(parameter)
  if said.optional ~= (default ~= nil or parameter.optional) then
    return said.optional and "cannot be left out" or "may be left out"
  end
  if default and not said.text:find(default, 1, true) then return "lacks: " .. default end
end


-- The parameters of a row that a reader sees: up to a list that takes all that follows.
local function seen(row)
  local list = {}
  for i = row.method and 2 or 1, #row.parameters do
    list[#list + 1] = row.parameters[i]
    if row.parameters[i].rest then break end
  end
  return list
end


---What the comments above stubs say otherwise than the table of operations.
---@param text string
---@return string[] sentences
function stubs.faults(text)
  local rows, lines, faults = stubs.rows(), {}, {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  for i, line in ipairs(lines) do
    local row = rows[line:match("^function Tensor:([%w_]+)%(") or
                     line:match("^function heed%.([%w_]+)%(")]
    local found = row and described(lines, i)
    for _, parameter in ipairs(row and seen(row) or {}) do
      local fault = fault_of(parameter, found[name_of(parameter)])
      if fault then faults[#faults + 1] = ("%s: %s %s"):format(row.name, parameter.name, fault) end
    end
    if row then rows[row.name] = nil end
  end
  for name in pairs(rows) do faults[#faults + 1] = name .. " has no stub" end
  table.sort(faults)
  return faults
end


return stubs
