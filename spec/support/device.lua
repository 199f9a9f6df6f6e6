-- Where the specs make their tensors: on the CPU, or where HEED_DEVICE says. Wrong calls raise at
-- their line there too: that a GPU reports them asynchronously has a spec of its own.

local device = {name = os.getenv "HEED_DEVICE" or "cpu"}

device.gpu = device.name ~= "cpu"

-- Numbers that are the CPU's own, and its messages, are checked on it alone:
--   setup(device.cpu)
--   teardown(device.back)
function device.cpu() require("heed").default_device("cpu") end
function device.back() require("heed").default_device(device.name) end

if device.gpu then
  device.back()
  require("heed").cuda.blocking(true)
end

return device
