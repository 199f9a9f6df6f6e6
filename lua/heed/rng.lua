-- Where all generators stand: the processor's, and those of the cards that are in use.

local core = require "heed.core"
local heed = require "heed"

local rng = {}

local MOST_DEVICES <const> = 16


---The states as tensors by name: "rng", "rng.cuda:0".
---@return table<string, heed.Tensor>
function rng.states()
  local states = {rng = heed.rng_state()}
  for card = 0, MOST_DEVICES - 1 do
    if core.works(card) > 0 then
      states["rng.cuda:" .. card] = heed.cuda.rng_state(nil, card)
    end
  end
  return states
end


---Sets back what `states` holds; a generator that it does not name stays as it is.
---@param states table<string, heed.Tensor>
function rng.restore(states)
  heed.rng_state(states.rng)
  for card = 0, heed.cuda.device_count() - 1 do
    local state = states["rng.cuda:" .. card]
    if state then heed.cuda.rng_state(state, card) end
  end
end


return rng
