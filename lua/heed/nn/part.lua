-- What stands in a layer's field and is called: another layer, or what a user put in its place.

local heed = require "heed"
local options = require "heed.internal.options"

local is_tensor = heed.is_tensor

local part = {}

-- Metatables that are tables: `__metatable` can show other values.
local tables = setmetatable({}, {__mode = "k"})


---The value of a field, which can be called.
---@param who string the layer, as messages name it
---@param layer heed.Module
---@param name string of the field
---@return function|heed.Module
function part.of(who, layer, name)
  local value = layer[name]
  local class = getmetatable(value)
  if tables[class] and class.__call then return value end
  if type(class) == "table" then tables[class] = true end
  return options.callable(who, "field '" .. name .. "'", value)
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
