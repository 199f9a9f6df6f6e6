-- plot.curve: lists of numbers, such as losses, as lines.

local axis = require "heed.plot.axis"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any = options.any


-- The value of an option for series s: an option is one count for all, or a list of counts.
local function option_for(s, value, name)
  if type(value) == "table" then value = value[s] end
  return value and options.count("curve", "option " .. name, value)
end


local function series_of(lists, given)
  local names, all = values.names("curve", given.labels), {}
  values.check_most("curve", "labels", names, #lists)
  for _, name in ipairs{"every", "smooth"} do
    local counts = given[name]
    if type(counts) == "table" then
      values.check_most("curve", "numbers as option " .. name, counts, #lists)
    end
  end
  for s, list in ipairs(lists) do
    all[s] = {
      draw = "line", values = list, label = names[s],
      every = option_for(s, given.every, "every") or 1,
      smooth = option_for(s, given.smooth, "smooth") or math.max(1, #list // 50),
    }
  end
  return all
end


-- The axis of steps: it begins at 0 unless a series has the number of step 1, or is logarithmic.
local function steps_of(all, log)
  local first, last = math.huge, 1
  for _, series in ipairs(all) do
    first = math.min(first, series.every)
    last = math.max(last, #series.values * series.every)
  end
  if first > 1 and not log then first = 0 end
  return {min = first, max = last, whole = true, log = log}
end


---@class heed.plot.curve
---@field every? integer|integer[] steps from one number to the next; 1 unless given
---@field labels? string[] a name for each series
---@field log? "x"|"y"|"xy" logarithmic axes; numbers up to 0 leave a gap on such an axis
---@field max? number
---@field min? number
---@field smooth? integer|integer[] how many numbers the line averages, 1 for none; a fiftieth of
---all unless given
---@field title? string
---@field x? string what runs along the bottom
---@field y? string what the numbers are

local KNOWN <const> = {
  every = any, labels = any, log = any, max = any, min = any, smooth = any, title = any, x = any,
  y = any,
}

-- The note of a logarithmic axis that shows no number.
local function note_of(lists, log)
  if not log.y then return nil end
  for _, list in ipairs(lists) do
    for _, value in ipairs(list) do
      if value > 0 then return nil end
    end
  end
  return "no number above 0"
end


---A curve, such as a loss; or several, from a list of lists.
---@param list number[]|heed.Tensor|(number[]|heed.Tensor)[]
---@param given? heed.plot.curve
---@return heed.Plot
return function(list, given, ...)
  options.no_more("curve", 2, ...)
  given = options.read("curve", given, KNOWN)
  local log = axis.logarithmic("curve", given.log)
  local lists = values.series("curve", list)
  local series = series_of(lists, given)
  return picture.chart("curve", {
    series = series, x = steps_of(series, log.x), y = axis.of("curve", lists, given, log.y),
    note = note_of(lists, log),
  }, given)
end
