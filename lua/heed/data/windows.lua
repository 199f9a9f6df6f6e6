-- data.windows: pieces of a long text, and the same pieces shifted by one id.

local endless = require "heed.internal.endless"
local heed = require "heed"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"

local fail = heed.fail


local function check_ids(ids, length)
  if not heed.is_tensor(ids) or ids.dtype ~= "int64" or ids:dim() ~= 1 then
    fail("data.windows: argument 'ids': an int64 tensor of rank 1 expected, got %s",
         options.typed(ids))
  elseif #ids <= length then
    fail("data.windows: more than %d ids expected, the option length, got %d", length, #ids)
  end
end


---@class heed.data.windows.options
---@field length? integer of a window; 64 unless given
---@field size? integer windows in a batch; 32 unless given
---@field seed? integer of a generator of its own

---Batches for the prediction of the next id, for ever: windows that begin anywhere in a text.
---@param ids heed.Tensor int64 (N)
---@param given? heed.data.windows.options
---@return fun(): heed.Tensor, heed.Tensor batch x and y (size, length), y one id further on
return function(ids, given, ...)
  options.no_more("data.windows", 2, ...)
  local o = options.read("data.windows", given, {length = 64, seed = options.any, size = 32})
  local length = options.count("data.windows", "option length", o.length)
  local size = options.count("data.windows", "option size", o.size)
  check_ids(ids, length)
  local generator = rng.own("data.windows", o.seed)
  local along = heed.keep(heed.arange(0, length, {device = ids.device}):unsqueeze(1))
  return endless.mark(function()
    local starts = generator:run(heed.randint, 1, #ids - length, {size, 1}, {device = "cpu"})
    local both = ids[starts:to(ids.device) + along]                      -- (size, length + 1)
    return both:narrow(2, 1, length), both:narrow(2, 2, length)
  end)
end
