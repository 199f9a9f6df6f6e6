-- Fails where a tensor differs from the wanted one, by the rule of spec/support/close.lua.

local close = require "spec.support.close"


local function flat(t)
  return t:detach():to("cpu"):to("float64"):reshape(-1):totable()
end


---@param wanted heed.Tensor
---@param got heed.Tensor
---@param rtol number
---@param atol number
---@param what? any what the message names
return function(wanted, got, rtol, atol, what)
  what = what or "values"
  if tostring(wanted.shape) ~= tostring(got.shape) then
    error(("%s: shape %s expected, got %s"):format(what, wanted.shape, got.shape), 2)
  end
  local values = flat(got)
  for i, number in ipairs(flat(wanted)) do
    if not close(values[i], number, rtol, atol) then
      error(("%s, element %d: %.9g expected, got %.9g"):format(what, i, number, values[i]), 2)
    end
  end
end
