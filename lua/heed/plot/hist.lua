-- plot.hist: how often numbers fall into bins.

local axis = require "heed.plot.axis"
local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any = options.any

local BINS <const>, MOST_BINS <const> = 20, 10000
local LEAST <const> = 0.5      -- where a logarithmic axis of counts begins, so that 1 is seen


-- All numbers as one tensor, float64 on the CPU.
local function flat(list)
  local x = list
  if not heed.is_tensor(list) then
    x = heed.tensor(values.numbers("hist", list), {dtype = "float64", device = "cpu"})
  end
  if x:numel() == 0 then heed.fail("hist: numbers expected, got an empty tensor") end
  return x:detach():to("cpu", "float64"):reshape(-1)
end


-- Leaves the numbers of a mask, and notes how many others there were, and why.
local function keep(x, mask, left_out, why)
  local kept = x:masked_select(mask)
  local n = x:numel() - kept:numel()
  if n > 0 then left_out[#left_out + 1] = ("%d %s"):format(n, why) end
  return kept
end


-- The numbers that an axis can show.
local function shown(x, log, left_out)
  x = keep(x, ~x:isnan(), left_out, "NaN")
  x = keep(x, x:abs():lt(axis.HUGE), left_out, "infinite")
  return log and keep(x, x:gt(0), left_out, "not above 0") or x
end


-- The axis of the bins, and the numbers on it.
local function axis_of(x, given, log, left_out)
  local ends = x:numel() > 0 and {x:min():item(), x:max():item()} or {}
  local a = axis.of("hist", {ends}, given, log)
  return a, keep(x, x:ge(a.min) & x:le(a.max), left_out, "outside")
end


-- Makes equal bounds differ: a bound that was given stays, unless both were.
local function widen(a, given)
  if a.min < a.max then return end
  local low, high = axis.widened(a, 0)
  local alike = (given.min == nil) == (given.max == nil)
  if alike or given.min == nil then a.min = low end
  if alike or given.max == nil then a.max = high end
end


-- How many numbers each bin has. The last one has its upper bound, too.
local function counts(x, a, bins)
  local low, high = a.min, a.max
  if a.log then x, low, high = x:log(), math.log(low), math.log(high) end
  local bin = ((x - low) / (high - low) * bins):floor():clamp(0, bins - 1):to("int64") + 1
  return heed.bincount(bin, {minlength = bins}):totable()
end


local function boxes_of(numbers, a)
  local boxes, bins = {}, #numbers
  for k, n in ipairs(numbers) do
    local low, high = axis.value(a, (k - 1) / bins), axis.value(a, k / bins)
    boxes[k] = {low = low, high = high, value = n + 0.0}
  end
  return boxes
end


-- The axis of the counts.
local function upwards(numbers, log)
  local most = math.max(1, table.unpack(numbers))
  return {min = log and LEAST or 0.0, max = most + 0.0, log = log, whole = not log}
end


---@class heed.plot.hist
---@field bins? integer how many bins of equal width, at most 10000; 20 unless given
---@field log? "x"|"y"|"xy" logarithmic axes: of the numbers, of the counts
---@field max? number where the last bin ends; the largest number unless given
---@field min? number where the first bin begins; the least number unless given
---@field title? string
---@field x? string what the numbers are
---@field y? string what stands above the counts

local KNOWN <const> = {
  bins = BINS, log = any, max = any, min = any, title = any, x = any, y = any,
}

---A histogram of the elements of a tensor of any shape, or of a list. Below it stands how many
---numbers are in no bin: NaN, infinities, those outside min and max.
---@param list number[]|heed.Tensor
---@param given? heed.plot.hist
---@return heed.Plot
return function(list, given, ...)
  options.no_more("hist", 2, ...)
  given = options.read("hist", given, KNOWN)
  local bins, log = options.count("hist", "option bins", given.bins),
                    axis.logarithmic("hist", given.log)
  if bins > MOST_BINS then
    heed.fail("hist: at most %d expected as option bins, got %d", MOST_BINS, bins)
  end
  local left_out = {}
  local a, x = axis_of(shown(flat(list), log.x, left_out), given, log.x, left_out)
  widen(a, given)
  local numbers = counts(x, a, bins)
  local y = upwards(numbers, log.y)
  return picture.chart("hist", {
    x = a, y = y, ground = y.min, series = {{draw = "boxes", boxes = boxes_of(numbers, a)}},
    note = #left_out > 0 and "left out: " .. table.concat(left_out, ", ") or nil,
  }, given)
end
