-- Calls of layers that free what they made on the way as soon as they return. The next layer finds
-- that memory in the processor's caches, and takes it again; Lua's collector would free it some
-- layers later.

local core = require "heed.core"
local foreign = require "heed.nn.foreign"
local heed = require "heed"
local recording = require "heed.internal.recording"

local hooked, is_tensor, numel, scope = core.hooked, heed.is_tensor, heed.numel, heed.scope
local warn <const> = rawget(_G, "warn")         -- Lua's own

local freeing = {}

-- Elements of the features: what a layer makes of fewer stays in the caches for long.
local LARGE <const> = 1 << 16


-- Whether only heed's code runs in a call of a layer. Others could keep what is made meanwhile.
local function is_alone(layer, ...)
  return not recording.running() and not hooked() and rawequal(rawget(_G, "warn"), warn)
         and foreign.is_free_of(layer, ...)
end


---A layer's results for features and options. What it made on the way is freed where features are
---large, no gradients are recorded, and only heed's code runs.
---@param layer any what can be called
---@param x any
---@param ... any
---@return any ...
function freeing.call(layer, x, ...)
  if is_tensor(x) and numel(x) >= LARGE and not heed.is_grad_enabled()
     and is_alone(layer, ...) then
    return scope(layer, x, ...)
  end
  return layer(x, ...)
end


return freeing
