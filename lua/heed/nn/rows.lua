-- Embeddings in blocks: their rows, and what is computed of them, are float32.

local blocks = require "heed.internal.blocks"
local heed = require "heed"

local rows = {}

local OTHERS <const> = {bfloat16 = true, float16 = true, float64 = true}


---Refuses other floating types than float32 for a module of which an embedding is in blocks.
---@param module heed.Module
---@param targets string[] devices and types
function rows.check(module, targets)
  local other
  for _, target in ipairs(targets) do
    if type(target) == "string" and OTHERS[target] then other = target end
  end
  if not other then return end
  for name, part in module:named_modules() do
    local weight = getmetatable(part).gives_rows and rawget(part, "weight")
    if heed.is_tensor(weight) and rawget(blocks, weight.dtype) then
      heed.fail("to: float32 expected beside %s in blocks of %s, whose rows are float32, got '%s'",
                name == "" and "weight" or name .. ".weight", weight.dtype, other)
    end
  end
end


return rows
