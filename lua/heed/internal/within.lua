-- The tokens that lie within the lengths of their sequences.

local heed = require "heed.internal.surface"
local recording = require "heed.internal.recording"


---Bools (B, T). A GPU's lengths are not read, nor in a capture: beyond T is T there.
---@param who string
---@param lengths heed.Tensor int64 (B)
---@param T integer
---@return heed.Tensor
return function(who, lengths, T)
  if recording.reaches(lengths) and #lengths > 0 then
    local least, most = lengths:min():item(), lengths:max():item()
    if least < 0 or most > T then
      heed.fail("%s: lengths from 0 to %d expected, got %d", who, T, least < 0 and least or most)
    end
  end
  return heed.arange(T, {device = lengths.device}):le(lengths:unsqueeze(2))
end
