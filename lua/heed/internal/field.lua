-- What stands in a layer's field and is not called: sizes, numbers, tensors. A program may have
-- written anything else there; these functions refuse it, by the layer's name and the field's,
-- where Lua would raise an error of its own.

local heed = require "heed.internal.surface"
local options = require "heed.internal.options"

local field = {}

local SMALL <const> = 1024

---Sizes by themselves, for layers whose calls are too short for a function's call: what is not
---here, `field.count` looks at.
---@type table<integer, integer>
field.sizes = {}
for n = 1, SMALL do field.sizes[n] = n end


local function named(name) return "field '" .. name .. "'" end

-- The layer's class, or heed's class that it extends.
local function who(layer) return layer.__kin end


---A whole number.
---@param layer heed.Module
---@param name string of the field
---@param least? integer as in `options.count`
---@return integer
function field.count(layer, name, least)
  return options.count(who(layer), named(name), layer[name], least)
end


---A finite number from 0 on.
---@param layer heed.Module
---@param name string
---@return number
function field.positive(layer, name)
  return options.positive(who(layer), named(name), layer[name])
end


---Whether a layer is in training mode.
---@param layer heed.Module
---@return boolean
function field.trains(layer)
  local training = layer.training
  if training == true or training == false then return training end
  field.refuse(layer, "training", training, "a boolean")
end


---A number from 0 to 1.
---@param layer heed.Module
---@param name string
---@return number
function field.probability(layer, name)
  return options.probability(who(layer), named(name), layer[name])
end


---@param layer heed.Module
---@param name string
---@param value any
---@param what string what is expected
function field.refuse(layer, name, value, what)
  heed.fail("%s: %s expected as field '%s', got %s", who(layer), what, name, options.kind(value))
end


---@param layer heed.Module
---@param name string
---@return heed.Tensor
function field.tensor(layer, name)
  local t = layer[name]
  if heed.is_tensor(t) then return t end
  return field.refuse(layer, name, t, "a tensor")
end


---What features are multiplied by.
---@param layer heed.Module
---@param name string
---@return number|heed.Tensor
function field.factor(layer, name)
  local value = layer[name]
  if type(value) == "number" or heed.is_tensor(value) then return value end
  return field.refuse(layer, name, value, "a number or a tensor")
end


---@param layer heed.Module
---@param name string
---@return heed.Tensor of rank 2
function field.matrix(layer, name)
  local t = layer[name]
  if heed.is_tensor(t) and t:dim() == 2 then return t end
  return field.refuse(layer, name, t, "a matrix")
end


---@param layer heed.Module
---@param name string
---@param what string what the table is of, such as "a list of layers"
---@return table
function field.table(layer, name, what)
  local t = layer[name]
  if type(t) == "table" then return t end
  return field.refuse(layer, name, t, what)
end


---A copy of a table of values by names; its metatable is a program's, and says nothing.
---@param layer heed.Module
---@param name string
---@return table<string, any>
function field.record(layer, name)
  local own = {}
  for key, value in next, field.table(layer, name, "a table") do
    if type(key) ~= "string" then
      heed.fail("%s: a table with strings as keys expected as field '%s', got one with %s as a key",
                who(layer), name, options.kind(key))
    end
    own[key] = value
  end
  return own
end


return field
