-- What stands in a layer's field and is called: another layer, or what a user put in its place.

local heed = require "heed"
local hooks = require "heed.nn.hooks"
local options = require "heed.internal.options"

local is_tensor, made = heed.is_tensor, hooks.made

local part = {}

-- Functions, and modules that their classes made, that were found in a field once.
local known = setmetatable({}, {__mode = "k"})

---The same, for layers whose calls are too short for a function's call: where `known[value]` is
---nil, `part.of` refuses the value, or notes it.
---@type table<any, true>
part.known = known


---Refuses a class of modules: a call of it would make one more.
---@param who string
---@param name string
---@param value any
function part.refuse_class(who, name, value)
  if type(value) ~= "table" or not rawget(value, "__is_module") then return end
  local class = tostring(rawget(value, "__name"))
  heed.fail("%s: a module expected as %s, got its class; %s(...) makes one", who, name, class)
end


local function check(who, name, value)
  options.callable(who, name, value)
  part.refuse_class(who, name, value)
  if type(value) == "function" or made[value] == false then known[value] = true end
  return value
end


---The value of a field, which can be called.
---@param who string the layer, as messages name it
---@param layer heed.Module
---@param name string of the field
---@return function|heed.Module
function part.of(who, layer, name)
  local value = layer[name]
  if known[value] then return value end
  return check(who, "field '" .. name .. "'", value)
end


---An entry of a list of layers, which can be called.
---@param who string
---@param list table
---@param i integer
---@return function|heed.Module
function part.at(who, list, i)
  return check(who, "layer " .. i, list[i])
end


---Refuses what is no tensor, as the result of a field's value.
---@param who string
---@param name string of the field
---@param y any
---@return heed.Tensor y
function part.result(who, name, y)
  if is_tensor(y) then return y end
  heed.fail("%s: a tensor expected from field '%s', got %s", who, name, options.kind(y))
end


---Calls a field's value with a tensor; the result is a tensor, too.
---@param who string
---@param layer heed.Module
---@param name string of the field
---@param x heed.Tensor
---@return heed.Tensor
function part.call(who, layer, name, x)
  return part.result(who, name, (part.of(who, layer, name)(x)))
end


return part
