-- Calls of layers that free what they made on the way as soon as they return. The next layer finds
-- that memory in the processor's caches, and takes it again; Lua's collector would free it some
-- layers later.

local foreign = require "heed.nn.foreign"
local heed = require "heed"
local recording = require "heed.internal.recording"

local is_tensor, numel, scope = heed.is_tensor, heed.numel, heed.scope

local freeing = {}

-- Elements of the features: what a layer makes of fewer stays in the caches for long.
freeing.LARGE = 1 << 16


---A layer's results for features and options. What it made on the way is freed where they are
---large, no gradients are recorded, and none of the caller's code runs, which could keep it.
---@param layer any what can be called
---@param x any
---@param ... any
---@return any ...
function freeing.call(layer, x, ...)
  if is_tensor(x) and numel(x) >= freeing.LARGE and not heed.is_grad_enabled()
     and not recording.running() and foreign.is_free_of(layer, ...) then
    return scope(layer, x, ...)
  end
  return layer(x, ...)
end


return freeing
