-- Functions whose batches never end, so that what would wait for their end refuses them.

local endless = {}

local known = setmetatable({}, {__mode = "k"})


---@generic F: function
---@param f F
---@return F f which never gives nil
function endless.mark(f)
  known[f] = true
  return f
end


---Whether a value was marked.
---@param value any
---@return boolean
function endless.is(value) return value ~= nil and known[value] == true end


return endless
