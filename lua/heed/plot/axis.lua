-- Axes: from which number to which one runs, evenly or by its logarithm, and where a number stands
-- on it. The terminal and gnuplot draw by the same axes; the colours of a heat map are one, too.

local heed = require "heed"
local ink = require "heed.plot.ink"
local options = require "heed.internal.options"

local axis = {}

local LEAST <const> = 0x1p-1074     -- above 0

---Larger numbers count as infinite, so that differences are finite.
axis.HUGE = 1e300

---@class heed.plot.axis
---@field min number
---@field max number
---@field log? boolean whether equal factors are equally far apart
---@field whole? boolean whether its numbers are counts
---@field count? integer of places, 1 to `count`, that stand in the middle between halves
---@field names? string[] of these places
---@field title? string


---Whether a number has a place on an axis, be it outside its bounds.
---@param a heed.plot.axis
---@param value number
---@return boolean
function axis.shows(a, value)
  return math.abs(value) < axis.HUGE and (not a.log or value > 0)
end


local function check_bound(who, name, value, log)
  if value == nil then return nil end
  if type(value) ~= "number" or not (math.abs(value) < axis.HUGE) then
    heed.fail("%s: a finite number expected as option %s, got %s", who, name, options.kind(value))
  elseif log and value <= 0 then
    heed.fail("%s: a number above 0 expected as option %s beside a logarithmic axis, got %s", who,
              name, options.kind(value))
  end
  return value
end


---An axis by the options min and max, else by the least and the largest number that it shows.
---@param who string
---@param lists number[][]
---@param given {min: number?, max: number?}
---@param log? boolean
---@return heed.plot.axis
function axis.of(who, lists, given, log)
  local a, min, max = {log = log}, math.huge, -math.huge
  for _, list in ipairs(lists) do
    for _, value in ipairs(list) do
      if axis.shows(a, value) then min, max = math.min(min, value), math.max(max, value) end
    end
  end
  if min > max then min, max = log and 1.0 or 0.0, log and 10.0 or 1.0 end     -- it shows none
  local low = check_bound(who, "min", given.min, log)
  local high = check_bound(who, "max", given.max, log)
  a.min, a.max = low or math.min(min, high or min), high or math.max(max, low or max)
  if a.min > a.max then
    heed.fail("%s: min <= max expected, got %s and %s", who, tostring(a.min), tostring(a.max))
  end
  a.min, a.max = a.min + 0.0, a.max + 0.0
  return a
end


---An axis of places, one after the other.
---@param count integer
---@param names? string[]
---@return heed.plot.axis
function axis.places(count, names)
  return {min = 0.5, max = count + 0.5, count = count, names = names}
end


local LOGARITHMIC <const> = {
  x = {x = true}, y = {y = true}, xy = {x = true, y = true}, yx = {x = true, y = true},
}

---The axes that an option `log` makes logarithmic.
---@param who string
---@param log any
---@return {x: boolean?, y: boolean?}
function axis.logarithmic(who, log)
  if log == nil then return {} end
  return LOGARITHMIC[log]
         or heed.fail("%s: 'x', 'y' or 'xy' expected as option log, got %s", who, options.kind(log))
end


---Where a number stands that the axis shows: 0 at its least, 1 at its largest, beyond these
---outside; the middle at both where they are equal.
---@param a heed.plot.axis
---@param value number
---@return number
function axis.at(a, value)
  if a.max <= a.min then return value < a.min and -1 or value > a.max and 2 or 0.5 end
  if a.log then
    local low = math.log(a.min)
    return (math.log(value) - low) / (math.log(a.max) - low)
  end
  return (value - a.min) / (a.max - a.min)
end


---The same, from 0 to 1 for any number but NaN.
---@param a heed.plot.axis
---@param value number
---@return number
function axis.within(a, value)
  return axis.at(a, math.max(a.min, math.min(a.max, value)))
end


---The number at a place from 0 to 1.
---@param a heed.plot.axis
---@param t number
---@return number
function axis.value(a, t)
  if t <= 0 then return a.min elseif t >= 1 then return a.max end
  if a.log then return a.min ^ (1 - t) * a.max ^ t end
  return a.min + t * (a.max - a.min)
end


---Bounds that differ, which gnuplot needs, with a part of the axis more on both sides.
---@param a heed.plot.axis
---@param part number
---@return number
---@return number
function axis.widened(a, part)
  if a.log then
    local factor = a.max > a.min and math.exp((math.log(a.max) - math.log(a.min)) * part) or 2
    return math.max(a.min / factor, LEAST), a.max * factor
  end
  local more = a.max > a.min and (a.max - a.min) * part or math.max(0.5, math.abs(a.min) / 2)
  return a.min - more, a.max + more
end


---The labels of both ends.
---@param a heed.plot.axis
---@return string least
---@return string largest
function axis.ends(a)
  if a.names then return a.names[1], a.names[a.count] end
  if a.count then return "1", ("%d"):format(a.count) end
  if a.whole then return ("%.0f"):format(a.min), ("%.0f"):format(a.max) end
  local span = not a.log and a.max - a.min or nil
  return ink.short(a.min, span), ink.short(a.max, span)
end


return axis
