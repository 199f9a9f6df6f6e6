-- Heed's side of the comparison on the CPU; side.lua has the protocol. Its argument is the number
-- of threads.

local here = arg[0]:gsub("[^/]*$", "")
local heed = require "heed"
local serve = dofile(here .. "side.lua")

local factories = dofile(here .. "models.lua")
for name, factory in pairs(dofile(here .. "texts.lua")) do factories[name] = factory end

-- The processor's seconds of n calls, which do not count who else was at work; with several threads
-- those of the wall.
local function seconds(f, n)
  local clock = heed.threads() == 1 and os.clock or heed.clock
  local began = clock()
  for _ = 1, n do f() end
  return clock() - began
end

local side = {
  name = ("heed (%s)"):format(heed.level()), factories = factories,
  seconds = seconds, window = 0.01,
}

function side.place(x) return x.dtype == "float32" and x:to(side.dtype) or x end

serve(side)
