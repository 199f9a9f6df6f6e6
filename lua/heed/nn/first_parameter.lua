-- The first parameter of a model, which shows the device and the type of all: found without a list
-- of the others.

local function first_of(module, seen)
  seen[module] = true
  for _, field in ipairs(module:fields()) do
    local value, found = field.value, nil
    if field.role == "parameter" then found = value
    elseif field.role == "module" and not seen[value] then found = first_of(value, seen) end
    if found then return found end
  end
end


---@param model heed.Module
---@return heed.Tensor? parameter nil of a model without any
return function(model) return first_of(model, {}) end
