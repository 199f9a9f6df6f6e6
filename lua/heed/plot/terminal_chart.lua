-- Charts as text: lines, points and boxes on two axes.
--
-- A line is the mean of the numbers that share a column; the range of these numbers lies
-- behind it, grey dots or points.

local Canvas = require "heed.plot.canvas"
local axis = require "heed.plot.axis"
local heads = require "heed.plot.heads"
local ink = require "heed.plot.ink"

local HEIGHT <const> = 10
local MIN_WIDTH <const>, MAX_WIDTH <const> = 16, 72
local LYING <const> = 24               -- most bars that lie below each other
local RANGE <const> = 0                -- the layer behind the lines


-- The dot for a number, counted from 0; one dot outside for numbers outside the bounds.
local function place(a, value, dots)
  local top = dots - 1
  return math.floor(math.max(-1, math.min(top + 1, axis.at(a, value) * top)) + 0.5)
end


-- Lines ------------------------------------------------------------------

-- The least, mean and largest of the numbers from one index to another that an axis shows.
local function summary(numbers, from, to, y)
  local low, high, sum, n = math.huge, -math.huge, 0.0, 0
  for i = from, math.min(to, #numbers) do
    local value = numbers[i]
    if axis.shows(y, value) then
      low, high, sum, n = math.min(low, value), math.max(high, value), sum + value, n + 1
    end
  end
  return low, sum / n, high
end


-- Interpolates a series at a position, on a line that is straight on axis y; least, mean and
-- largest are equal.
local function between(numbers, position, y)
  local i = math.floor(position)
  local a, b = numbers[i], numbers[i + 1]
  local value = a or 0 / 0
  if a and position > i then
    local joined = b and axis.shows(y, a) and axis.shows(y, b)
    value = joined and axis.value({min = a, max = b, log = y.log}, position - i) or 0 / 0
  end
  return value, value, value
end


-- The least, mean and largest number of a series in column k of n.
local function column(panel, series, k, n)
  local x, every = panel.x, series.every
  local from, to = (k > 1 and axis.value(x, (k - 1) / n) or 0) / every, axis.value(x, k / n) / every
  if to - from > 1 then
    return summary(series.values, math.floor(from) + 1, math.floor(to), panel.y)
  end
  return between(series.values, axis.value(x, n > 1 and (k - 1) / (n - 1) or 0) / every,
                 panel.y)
end


local function draw_line(canvas, panel, series, layer)
  local y, before = panel.y, nil
  for k = 1, canvas.width do
    local low, mean, high = column(panel, series, k, canvas.width)
    local at
    if axis.shows(y, mean) then
      at = place(y, mean, canvas.height)
      canvas:bar(k - 1, place(y, low, canvas.height), place(y, high, canvas.height), RANGE)
      local from = before and before ~= at and (before < at and before + 1 or before - 1) or at
      canvas:bar(k - 1, from, at, layer)       -- joined with the dot to its left
    end
    before = at
  end
end


-- Points and boxes -------------------------------------------------------

local function draw_points(canvas, panel, series, layer)
  for i, x in ipairs(series.xs) do
    canvas:dot(place(panel.x, x, canvas.width), place(panel.y, series.ys[i], canvas.height), layer)
  end
end


-- A box is at least one column wide, and one dot high unless it is empty.
local function draw_boxes(canvas, panel, series, layer)
  local x, y, n = panel.x, panel.y, canvas.width
  local ground = place(y, panel.ground, canvas.height)
  for _, box in ipairs(series.boxes) do
    if axis.shows(y, box.value) and box.value ~= panel.ground then
      local from = math.floor(axis.at(x, box.low) * n + 0.5)
      local to = math.max(from, math.floor(axis.at(x, box.high) * n + 0.5) - 1)
      local top = place(y, box.value, canvas.height)
      for k = from, to do canvas:bar(math.min(k, n - 1), ground, top, layer) end
    end
  end
end


local draw = {boxes = draw_boxes, line = draw_line, points = draw_points}


-- Axes -------------------------------------------------------------------

local function add_canvas(block, canvas, low, high, margin)
  local wall = canvas.in_colour and "│" or "|"
  for l = 0, canvas.lines - 1 do
    local number = l == 0 and high or l == canvas.lines - 1 and low or ""
    ink.add(block, ink.right(number, margin - 1) .. wall .. canvas:line(l),
            margin + canvas.columns)
  end
end


-- The ends of the axis below a chart, or the names of its places where each has a column.
local function add_axis(block, panel, canvas, margin)
  local x, n = panel.x, canvas.columns
  local corner, floor = "+", "-"
  if canvas.in_colour then corner, floor = "└", "─" end
  ink.add(block, (" "):rep(margin - 1) .. corner .. floor:rep(n), margin + n)
  if x.names and x.count <= n then
    heads.add(block, x.names, n // x.count, margin)
    if x.title then ink.add_text(block, (" "):rep(margin) .. x.title) end
    return
  end
  local first, last = axis.ends(x)
  local free = math.max(1, n - #first - #last)
  local name = ink.centre(free > 3 and ink.cut(x.title or "", free - 2) or "", free)
  ink.add_text(block, (" "):rep(margin) .. first .. name .. last)
end


local function add_legend(block, panel, in_colour)
  local texts, n = {}, -2
  for s, series in ipairs(panel.series) do
    if not series.label then return end
    texts[s] = Canvas.key(s, in_colour) .. " " .. series.label
    n = n + 4 + ink.width(series.label)
  end
  if n <= block.width then ink.add(block, table.concat(texts, "  "), n) end
end


-- A canvas whose places have equally many columns.
local function canvas_for(panel, columns, in_colour)
  local count = panel.x.count
  if count and count <= columns then columns = columns // count * count end
  return Canvas.new(columns, HEIGHT, in_colour)
end


-- The lines below a chart.
local function notes(panel, canvas)
  local list, boxes = {panel.note}, panel.series[1].boxes
  local per = boxes and -(-#boxes // canvas.width) or 1
  if per > 1 then list[#list + 1] = ("%d bars share a column"):format(per) end
  return list
end


-- Lying bars ---------------------------------------------------------------

-- Whether bars lie, each behind its name: where a name is longer than a standing bar is wide.
local function is_lying(panel, columns)
  local x = panel.x
  return x.names and #panel.series == 1 and x.count <= LYING
         and ink.longest(x.names) >= columns // x.count
end


-- The number behind a lying bar; of one that the axis does not show there is neither.
local function number_of(box, y)
  return axis.shows(y, box.value) and ink.short(box.value) or ""
end


-- A bar on line k of a canvas, as high as the line but for one dot between bars in braille.
local function draw_lying(canvas, y, box, k, ground)
  if not axis.shows(y, box.value) or box.value == ground then return end
  local from, to = place(y, ground, canvas.width), place(y, box.value, canvas.width)
  local floor = canvas.height - k * canvas.dy
  for at = math.max(0, math.min(from, to)), math.min(canvas.width - 1, math.max(from, to)) do
    canvas:bar(at, floor + (canvas.dy > 1 and 1 or 0), floor + canvas.dy - 1, 1)
  end
end


local function add_lying(block, panel, in_colour)
  local boxes, y, numbers = panel.series[1].boxes, panel.y, {}
  local names = heads.shortened(panel.x.names, block.width // 2)
  for k, box in ipairs(boxes) do numbers[k] = number_of(box, y) end
  local margin, behind = ink.longest(names) + 1, ink.longest(numbers) + 1
  local canvas = Canvas.new(math.max(1, block.width - margin - behind), #boxes, in_colour)
  for k, box in ipairs(boxes) do draw_lying(canvas, y, box, k, panel.ground) end
  for k, name in ipairs(names) do
    ink.add(block, ink.right(name, margin - 1) .. (in_colour and "│" or "|") .. canvas:line(k - 1)
                   .. ink.right(numbers[k], behind), block.width)
  end
  add_axis(block, {x = y}, canvas, margin)
end


---Draws a chart as a block.
---@param panel table
---@param in_colour boolean
---@param available integer columns
---@return table
return function(panel, in_colour, available)
  local block = {width = math.max(MIN_WIDTH, math.min(MAX_WIDTH, available))}
  local low, high = axis.ends(panel.y)
  local margin = math.max(#low, #high) + 1
  local canvas = canvas_for(panel, math.max(1, block.width - margin), in_colour)
  if panel.title then ink.add_text(block, panel.title, in_colour and "1") end
  if is_lying(panel, canvas.columns) then
    add_lying(block, panel, in_colour)
    return block
  end
  if panel.y.title then ink.add_text(block, panel.y.title) end
  for s, series in ipairs(panel.series) do
    draw[series.draw](canvas, panel, series, Canvas.layer(s))
  end
  add_canvas(block, canvas, low, high, margin)
  add_axis(block, panel, canvas, margin)
  add_legend(block, panel, in_colour)
  for _, note in ipairs(notes(panel, canvas)) do ink.add_text(block, note) end
  return block
end
