-- Functions that make layers of models. Their classes have no `init` for it: scripts reach classes,
-- and what a loader hands over is in no form that a script could know.

local core = require "heed.core"

---A function that makes a layer, whose parts `fill(layer, ...)` sets. What fails for want of
---memory, say, is told as the layer's.
---@param class any
---@param who string as messages name it
---@param fill fun(layer: heed.Module, ...)
---@return fun(...): heed.Module
return function(class, who, fill)
  return function(...)
    local layer = class()
    core.called(who, fill, layer, ...)
    return layer
  end
end
