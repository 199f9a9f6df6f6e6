-- Where the specs make their tensors: on the processor, or where HEED_DEVICE says. Wrong calls are
-- told at their line there too: that a card tells of them late has a spec of its own.

local heed = require "heed"

local name = os.getenv "HEED_DEVICE"

if name then
  heed.default_device(name)
  heed.cuda.blocking(true)
end
