-- heed.quantize: a tensor in blocks of few bits.

local check_type = require "heed.internal.block_type"
local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"

local M = {}


---A copy of a tensor in blocks, in which some elements of a row share a scale: `"q8_0"` has 8.5
---bits an element, `"q4_0"` 4.5, `"q4_k"` 4.5, `"q6_k"` 6.6. Rows, along the last dimension, are
---multiples of 32 elements, of 256 for the types that end in k. Products take it as weight
---(`heed.linear`, `x:matmul(w:t())`), as do `heed.embedding` and views by whole rows;
---`t:to("float32")` gives values again, and all else refuses it. The CPU makes the blocks, also
---those of a tensor on a GPU.
---> heed.quantize(heed.ones(2, 64), "q8_0").dtype == "q8_0"
---> heed.quantize(heed.ones(1, 32), "q4_0"):to("float32"):sum() == 32
---@param t heed.Tensor of a float type
---@param type string
---@return heed.Tensor
function M.quantize(t, type, ...)
  options.no_more("quantize", 2, ...)
  if not options.is_alive(t) then
    heed.fail("quantize: a tensor expected, got %s", options.kind(t))
  end
  if not t.dtype:find("float") then
    heed.fail("quantize: a tensor of a float type expected, got %s; t:to(\"float32\") gives one",
              t.dtype)
  end
  check_type("quantize", type)
  return core.called("quantize", heed.no_grad, t.to, t:detach(), type)
end


return M
