-- plot.row: pictures beside each other.

local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"

local kind = options.kind


---Pictures beside each other.
---@param list heed.Plot[]
---@return heed.Plot
return function(list, ...)
  options.no_more("row", 1, ...)
  if type(list) ~= "table" or #list == 0 then
    heed.fail("row: a list of pictures expected, got %s", kind(list))
  end
  return picture.new{picture.panels("row", list)}
end
