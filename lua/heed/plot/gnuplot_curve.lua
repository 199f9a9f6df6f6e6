-- Curves for gnuplot: a smooth line over the numbers that it averages.

local Script = require "heed.plot.script"
local colour = require "heed.plot.colour"
local ink = require "heed.plot.ink"

local number, quote = Script.number, Script.quote

local curve = {}

local WIDTH, HEIGHT = 340, 170
local MAX_POINTS = 1500     -- a series of more numbers is drawn by buckets
local BUCKETS = 600         -- at most, in such a series


-- The width of the tick labels at the left, in pixels.
local function tick_width(panel)
  local span = panel.max - panel.min
  return 6.5 * math.max(3, #ink.short(panel.min, span), #ink.short(panel.max, span)) + 16
end


---The size of a panel, and the margins around it.
---@param panel table
---@return table
function curve.measure(panel)
  return {
    width = WIDTH, height = HEIGHT,
    before = tick_width(panel) + (panel.y and 20 or 0), behind = 24,
    above = panel.title and 32 or 10, below = panel.x and 48 or 28,
  }
end


-- The mean of the finite numbers in a window around each number. At the beginning, which is steep,
-- the window shrinks so that it stays centred; at the end it is cut.
local function smoothed(values, window)
  local sums, counts, result = {[0] = 0.0}, {[0] = 0}, {}
  for k, value in ipairs(values) do
    local good = value - value == 0
    sums[k] = sums[k - 1] + (good and value or 0)
    counts[k] = counts[k - 1] + (good and 1 or 0)
  end
  for k = 1, #values do
    local reach = math.min(window // 2, k - 1)
    local before, last = k - reach - 1, math.min(k + reach, #values)
    result[k] = (sums[last] - sums[before]) / (counts[last] - counts[before])
  end
  return result
end


local function range(values, from, to)
  local low, high = math.huge, -math.huge
  for k = from, math.min(to, #values) do
    local value = values[k]
    if value - value == 0 then low, high = math.min(low, value), math.max(high, value) end
  end
  return low, high     -- infinite if no number is finite
end


-- Writes a line "step least largest smooth" for each number, or for each bucket; returns how many
-- numbers a line stands for.
local function add_data(script, series, name)
  local values = series.values
  local smooth = series.smooth > 1 and smoothed(values, series.smooth) or values
  local per = #values > MAX_POINTS and -(-#values // BUCKETS) or 1
  script:add("%s << EOD", name)
  for from = 1, #values, per do
    local middle = math.min(from + per // 2, #values)
    local low, high = range(values, from, from + per - 1)
    script:add("%d %s %s %s", middle * series.every, number(low), number(high),
      number(smooth[middle]))
  end
  script:add "EOD"
  return per
end


-- The plot command for the area behind the smooth line: the range of each bucket, or the numbers.
local function background(series, name, per, rgb)
  if per > 1 then
    return ("%s using 1:2:3 with filledcurves fs solid 0.25 noborder lc rgb '#%s' notitle, ")
      :format(name, rgb)
  elseif series.smooth > 1 then
    return ("%s using 1:2 with lines lw 0.8 lc rgb '#a0%s' notitle, "):format(name, rgb)
  end
  return ""
end


local function add_series(script, panel, s, name)
  local series = panel.series[s]
  local per = add_data(script, series, name)
  local rgb = colour.hex(colour.lines[(s - 1) % #colour.lines + 1]):sub(2)
  local key = series.label and "title " .. quote(series.label) or "notitle"
  local with = #series.values == 1 and "points pt 7 ps 0.5" or "lines lw 1.8"
  return background(series, name, per, rgb)
    .. ("%s using 1:4 with %s lc rgb '#%s' %s"):format(name, with, rgb, key)
end


local function add_ranges(script, panel)
  local low, high = panel.min, panel.max
  local margin = (high - low) * 0.04
  if margin == 0 then margin = math.max(0.5, math.abs(low) / 2) end
  script:add("set xrange [%d:%d]; set yrange [%s:%s]", panel.first,
    math.max(panel.last, panel.first + 1), number(low - margin), number(high + margin))
end


local function add_axes(script, panel)
  script:add("set border 3 lc rgb '#bbbbbb'; set grid ytics lt 1 lw 0.6 lc rgb '#e8e8e8'")
  script:add("set xtics %d nomirror out scale 0.4 norotate font ',9' tc rgb '%s'",
    math.max(1, math.floor(Script.step(panel.last, 6))), Script.PALE)
  script:add("set ytics autofreq nomirror out scale 0 norotate font ',9' tc rgb '%s'", Script.PALE)
  script:add "set format x '%.0f'; set format y '%g'"
  for _, axis in ipairs {"x", "y"} do
    if panel[axis] then
      script:add("set %slabel %s font ',10' tc rgb '%s'", axis, quote(panel[axis]), Script.INK)
    end
  end
end


---Adds a panel.
---@param script table
---@param panel table
---@param box table the size from `measure`, and its position
---@param name string for its data
function curve.add(script, panel, box, name)
  local parts = {}
  for s in ipairs(panel.series) do parts[s] = add_series(script, panel, s, name .. "_" .. s) end
  script:frame(box)
  script:title(box, panel.title)
  add_ranges(script, panel)
  add_axes(script, panel)
  script:add("set key at screen %s, screen %s right center horizontal reverse Left samplen 1.5 "
    .. "font ',10' tc rgb '%s'", script:x(box.left + box.width), script:y(box.top - 14), Script.INK)
  script:add("plot %s", table.concat(parts, ", "))
end


return curve
