-- plot.bars: a bar for each number of one or several lists.

local axis = require "heed.plot.axis"
local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any = options.any

local FILLED <const> = 0.8     -- of a place; the rest lies between the bars of two places


-- The bars of series s of n: each place is shared by all series.
local function boxes_of(list, s, n)
  local boxes, width = {}, FILLED / n
  for k, value in ipairs(list) do
    local low = k - FILLED / 2 + (s - 1) * width
    boxes[k] = {low = low, high = low + width, value = value}
  end
  return boxes
end


local function check_lengths(lists)
  for _, list in ipairs(lists) do
    if #list ~= #lists[1] then
      heed.fail("bars: lists of equal length expected, got %d and %d", #lists[1], #list)
    end
  end
end


---@class heed.plot.bars
---@field columns? any[]|heed.Tensor what stands below each bar in place of its number, or before it
---@field labels? string[] a name for each series
---@field max? number
---@field min? number
---@field title? string
---@field x? string what runs along the bottom
---@field y? string what the numbers are

local KNOWN <const> = {
  columns = any, labels = any, max = any, min = any, title = any, x = any, y = any,
}

---A bar for each number, from 0 on; of a list of lists, those of one position stand beside each
---other. NaN and infinities have none.
---@param list number[]|heed.Tensor|(number[]|heed.Tensor)[]
---@param given? heed.plot.bars
---@return heed.Plot
return function(list, given, ...)
  options.no_more("bars", 2, ...)
  given = options.read("bars", given, KNOWN)
  local lists, series = values.series("bars", list), {}
  check_lengths(lists)
  local names, count = values.names("bars", given.labels), #lists[1]
  values.check_most("bars", "labels", names, #lists)
  for s, numbers in ipairs(lists) do
    series[s] = {draw = "boxes", label = names[s], boxes = boxes_of(numbers, s, #lists)}
  end
  local y = axis.of("bars", table.move(lists, 1, #lists, 2, {{0.0}}), given)
  return picture.chart("bars", {
    series = series, y = y, ground = math.max(y.min, math.min(y.max, 0.0)),
    x = axis.places(count, values.labels("bars", given.columns, count, "columns")),
  }, given)
end
