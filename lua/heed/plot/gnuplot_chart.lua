-- Charts for gnuplot: lines, points and boxes on two axes. A line is smooth, over the numbers that
-- it averages.

local Script = require "heed.plot.script"
local axis = require "heed.plot.axis"
local colour = require "heed.plot.colour"
local ink = require "heed.plot.ink"

local number, quote = Script.number, Script.quote

local chart = {}

local WIDTH, HEIGHT = 340, 170
local MAX_POINTS = 1500     -- a series of more numbers is drawn by buckets
local BUCKETS = 600         -- at most, in such a series


-- The width of the tick labels at the left, in pixels.
local function tick_width(panel)
  local low, high = axis.ends(panel.y)
  return 6.5 * math.max(3, #low, #high) + 16
end


-- The height of the labels below, and whether they run downwards.
local function label_height(panel)
  local x = panel.x
  local long = ink.longest(x.names) * Script.LETTER
  if x.names and long + 6 > WIDTH / x.count then return long + 16, true end
  return 28, false
end


---The size of a panel, and the margins around it.
---@param panel table
---@return table
function chart.measure(panel)
  local labels, rotated = label_height(panel)
  return {
    width = WIDTH, height = HEIGHT, rotated = rotated,
    before = tick_width(panel) + (panel.y.title and 20 or 0), behind = 24,
    above = (panel.title or panel.series[1].label) and 32 or 10,     -- the legend's line, too
    below = labels + (panel.x.title and 20 or 0) + (panel.note and 14 or 0),
  }
end


-- Lines ------------------------------------------------------------------

-- The mean of the numbers that an axis shows in a window around each number. At the beginning,
-- which is steep, the window shrinks so that it stays centred; at the end it is cut.
local function smoothed(values, window, y)
  local sums, counts, result = {[0] = 0.0}, {[0] = 0}, {}
  for k, value in ipairs(values) do
    local good = axis.shows(y, value)
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


local function range(values, from, to, y)
  local low, high = math.huge, -math.huge
  for k = from, math.min(to, #values) do
    local value = values[k]
    if axis.shows(y, value) then low, high = math.min(low, value), math.max(high, value) end
  end
  return low, high     -- infinite if it shows none
end


-- Writes a line "step least largest smooth lone" for each number, or for each bucket; lone is the
-- smooth one again where no line leads to it. Returns how many numbers a line stands for, and
-- whether there is a lone one.
local function add_steps(script, panel, series, name)
  local values, y, lone = series.values, panel.y, false
  local smooth = series.smooth > 1 and smoothed(values, series.smooth, y) or values
  local per = #values > MAX_POINTS and -(-#values // BUCKETS) or 1
  local function mean(from)
    local value = smooth[math.min(from + per // 2, #values)]
    return from >= 1 and from <= #values and axis.shows(y, value) and value or nil
  end
  script:add("%s << EOD", name)
  for from = 1, #values, per do
    local low, high = range(values, from, from + per - 1, y)
    local middle, own = math.min(from + per // 2, #values), mean(from)
    local alone = own and not mean(from - per) and not mean(from + per)
    lone = lone or alone
    script:add("%d %s %s %s %s", middle * series.every, number(low), number(high),
               number(own or 0 / 0), number(alone and own or 0 / 0))
  end
  script:add "EOD"
  return per, lone
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


local function add_line(script, panel, series, name, rgb)
  local per, lone = add_steps(script, panel, series, name)
  local points = lone and ("%s using 1:5 with points pt 7 ps 0.5 lc rgb '#%s' notitle, ")
                          :format(name, rgb) or ""
  return background(series, name, per, rgb) .. points .. name .. " using 1:4 with lines lw 1.8"
end


-- Points and boxes -------------------------------------------------------

-- Writes points; those that would fall on one pixel are one.
local function add_points(script, panel, series, name)
  local x, y, seen = panel.x, panel.y, {}
  script:add("%s << EOD", name)
  for i, at in ipairs(series.xs) do
    local value = series.ys[i]
    local pixel = math.floor(axis.within(x, at) * 2 * WIDTH) * 4 * HEIGHT
                  + math.floor(axis.within(y, value) * 2 * HEIGHT)
    if not seen[pixel] then script:add("%s %s", number(at), number(value)) end
    seen[pixel] = true
  end
  script:add "EOD"
  return name .. " using 1:2 with points pt 7 ps 0.45"
end


local function add_boxes(script, panel, series, name)
  script:add("%s << EOD", name)
  for _, box in ipairs(series.boxes) do
    local value = axis.shows(panel.y, box.value) and box.value or panel.ground
    script:add("%s %s %s %s", number(box.low), number(box.high), number(panel.ground),
               number(value))
  end
  script:add "EOD"
  return name .. " using 1:4:1:2:3:4 with boxxyerror fs solid 0.85 noborder"
end


local add_data = {boxes = add_boxes, line = add_line, points = add_points}

-- Adds the data of a series; returns the plot command for it.
local function add_series(script, panel, s, name)
  local series = panel.series[s]
  local rgb = colour.hex(colour.lines[(s - 1) % #colour.lines + 1]):sub(2)
  local key = series.label and "title " .. quote(series.label) or "notitle"
  return ("%s lc rgb '#%s' %s"):format(add_data[series.draw](script, panel, series, name, rgb), rgb,
                                       key)
end


-- Axes -------------------------------------------------------------------

-- How much of an axis lies beyond its bounds: points at a bound are seen whole.
local MARGIN <const> = {boxes = 0, line = 0, points = 0.04}

local function add_ranges(script, panel)
  local x0, x1 = axis.widened(panel.x, MARGIN[panel.series[1].draw])
  local y0, y1 = axis.widened(panel.y, 0.04)
  if panel.ground == panel.y.min then y0 = panel.ground end     -- boxes stand on the axis
  script:add("set xrange [%s:%s]; set yrange [%s:%s]", number(x0), number(x1), number(y0),
             number(y1))
  for _, name in ipairs {"x", "y"} do
    if panel[name].log then script:add("set logscale %s", name) end
  end
end


local function add_x_ticks(script, panel, box)
  local x = panel.x
  if x.count then return script:places("x", x.names, x.count, box.rotated) end
  local step = "autofreq"
  if x.whole and not x.log then step = math.max(1, math.floor(Script.step(x.max, 6))) end
  script:add("set xtics %s nomirror out scale 0.4 norotate font ',9' tc rgb '%s'", step,
             Script.PALE)
  script:add("set format x '%s'", x.whole and "%.0f" or "%g")
end


local function add_axes(script, panel, box)
  script:add("set border 3 lc rgb '#bbbbbb'; set grid ytics lt 1 lw 0.6 lc rgb '#e8e8e8'")
  add_x_ticks(script, panel, box)
  script:add("set ytics autofreq nomirror out scale 0 norotate font ',9' tc rgb '%s'", Script.PALE)
  script:add "set format y '%g'"
  for _, name in ipairs {"x", "y"} do
    local title = panel[name].title
    if title then
      script:add("set %slabel %s font ',10' tc rgb '%s'", name, quote(title), Script.INK)
    end
  end
end


local function add_note(script, panel, box)
  if not panel.note then return end
  script:add("set label %s at screen %s, screen %s left font ',8' tc rgb '%s'", quote(panel.note),
             script:x(box.left), script:y(box.top + box.height + box.below - 6), Script.PALE)
end


---Adds a panel.
---@param script table
---@param panel table
---@param box table the size from `measure`, and its position
---@param name string for its data
function chart.add(script, panel, box, name)
  local parts = {}
  for s in ipairs(panel.series) do parts[s] = add_series(script, panel, s, name .. "_" .. s) end
  script:frame(box)
  script:title(box, panel.title)
  add_ranges(script, panel)
  add_axes(script, panel, box)
  add_note(script, panel, box)
  script:add("set key at screen %s, screen %s right center horizontal reverse Left samplen 1.5 "
    .. "font ',10' tc rgb '%s'", script:x(box.left + box.width), script:y(box.top - 14), Script.INK)
  script:add("plot %s", table.concat(parts, ", "))
end


return chart
