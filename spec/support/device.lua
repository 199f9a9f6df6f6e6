-- Where the specs make their tensors: on the processor, or where HEED_DEVICE says. Wrong calls are
-- describe at their line there too: that a card tells of them late has a spec of its own.

local device = {name = os.getenv "HEED_DEVICE" or "cpu"}

device.card = device.name ~= "cpu"

-- Numbers that are the processor's own, and its words, are checked on it alone:
--   setup(device.processor)
--   teardown(device.back)
function device.processor() require("heed").default_device("cpu") end
function device.back() require("heed").default_device(device.name) end

if device.card then
  device.back()
  require("heed").cuda.blocking(true)
end

return device
