-- The states of all generators: the CPU's, and those of the GPUs that are in use.

local core = require "heed.core"
local heed = require "heed"

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


return rng
