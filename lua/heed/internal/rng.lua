-- The states of all generators: the CPU's, and those of the GPUs that are in use; and generators
-- of their own, for what has a seed of its own.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"

local rng = {}

local MOST_DEVICES <const> = 16


---The states as tensors by name: "rng", "rng.cuda:0".
---@return table<string, heed.Tensor>
function rng.states()
  local states = {rng = heed.rng_state()}
  for index = 0, MOST_DEVICES - 1 do
    local device = "cuda:" .. index
    if core.works(device) > 0 then states["rng." .. device] = heed.cuda.rng_state(nil, device) end
  end
  return states
end


---Restores what `states` holds; a generator that it does not name stays as it is.
---@param states table<string, heed.Tensor>
function rng.restore(states)
  heed.rng_state(states.rng)
  for index = 0, heed.cuda.device_count() - 1 do
    local state = states["rng.cuda:" .. index]
    if state then heed.cuda.rng_state(state, index) end
  end
end


---@class heed.rng.own draws from the module's generator, or from one of its own
---@field at heed.Tensor|false the state of its own
local Own = {}
Own.__index = Own


local function keep_state(self, state, ...)
  self.at = heed.keep(state)
  return ...
end


---Calls f(...); the CPU's random numbers come from this generator meanwhile.
---@param f function
---@param ... any
---@return any ... what f returned
function Own:run(f, ...)
  if not self.at then return f(...) end
  return keep_state(self, core.with_generators({rng = self.at}, f, ...))
end


---Calls f(...) as `run` does, and leaves this generator as it was.
---@param f function
---@param ... any
---@return heed.Tensor|false at the state in which f would leave it: `at` from now on, or false
---@return any ... what f returned
function Own:draw(f, ...)
  if not self.at then return false, f(...) end
  return core.with_generators({rng = self.at}, f, ...)
end


---A generator of its own for what was given a seed; without one it is the module's.
---@param who string
---@param seed? any
---@return heed.rng.own
function rng.own(who, seed)
  local self = setmetatable({at = false}, Own)
  if seed == nil then return self end
  if type(seed) ~= "number" or not math.tointeger(seed) then
    heed.fail("%s: a whole number expected as option seed, got %s", who, options.kind(seed))
  end
  self.at = heed.keep(core.rng_seeded(seed))
  return self
end


return rng
