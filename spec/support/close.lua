-- Whether a number is a wanted one, by isclose's rule: |got - wanted| <= atol + rtol * |wanted|.
-- An infinity equals the same infinity alone, and NaN equals NaN alone.

local asserted = require "spec.support.asserted"

local huge = math.huge


---@param got number
---@param wanted number
---@param rtol number
---@param atol? number 0 unless given
---@return boolean
return function(got, wanted, rtol, atol)
  asserted.note()
  if got == wanted then return true end
  if got ~= got or wanted ~= wanted then return got ~= got and wanted ~= wanted end
  if math.abs(got) == huge or math.abs(wanted) == huge then return false end
  return math.abs(got - wanted) <= rtol * math.abs(wanted) + (atol or 0)
end
