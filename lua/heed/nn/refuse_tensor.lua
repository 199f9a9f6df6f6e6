-- Refuses a tensor where a layer is made.

local heed = require "heed"
local options = require "heed.internal.options"


---A layer is made of sizes and options; a tensor goes to its function, or to the layer.
---@param name string of the layer's class
---@param f string its function in heed
---@param arguments string what stands behind the tensor, or ""
---@param t any the first argument
return function(name, f, arguments, t)
  if not heed.is_tensor(t) then return end
  heed.fail("nn.%s: makes a layer, got %s; write heed.%s(x%s), or nn.%s(%s)(x)", name,
            options.kind(t), f, arguments == "" and "" or ", " .. arguments, name, arguments)
end
