-- Where the specs make their tensors: on the processor, or where HEED_DEVICE says.

local name = os.getenv "HEED_DEVICE"

if name then require("heed").default_device(name) end
