-- Draws curves as text: braille dots in colour, or letters of ASCII.
--
-- A line is the mean of the numbers that share a column; the range of these numbers lies
-- behind it, grey dots or points.

local colour = require "heed.plot.colour"
local ink = require "heed.plot.ink"

local paint = ink.paint

local HEIGHT = 10
local MIN_WIDTH, MAX_WIDTH = 16, 72
local LETTERS = "*o+x#"
local RANGE = 0                -- the layer behind the lines
local BRAILLE = 0x2800
local dots = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

local function is_finite(x) return x - x == 0 end


-- The least, mean and largest of the numbers from one index to another.
local function summary(values, from, to)
  local low, high, sum, n = math.huge, -math.huge, 0.0, 0
  for i = math.max(from, 1), math.min(to, #values) do
    local value = values[i]
    if is_finite(value) then
      low, high, sum, n = math.min(low, value), math.max(high, value), sum + value, n + 1
    end
  end
  return low, sum / n, high
end


-- Interpolates a series linearly at a position; least, mean and largest are equal.
local function between(values, position)
  local i = math.floor(position)
  local a, b = values[i], values[i + 1]
  local value = a or 0 / 0
  if a and position > i then value = b and a + (b - a) * (position - i) or 0 / 0 end
  return value, value, value
end


-- The least, mean and largest number of a series in column k of n.
local function column(series, last, k, n)
  local per = last / series.every / n          -- numbers in a column
  if per > 1 then
    return summary(series.values, math.floor((k - 1) * per) + 1, math.floor(k * per))
  end
  local step = n > 1 and 1 + (k - 1) * (last - 1) / (n - 1) or 1
  return between(series.values, step / series.every)
end


-- A canvas is a grid of dots; `dx` by `dy` dots make a letter.

local function new_canvas(columns, in_colour)
  local dx, dy = in_colour and 2 or 1, in_colour and 4 or 1
  return {
    columns = columns, in_colour = in_colour, cells = {},
    dx = dx, dy = dy, width = columns * dx, height = HEIGHT * dy,
  }
end


-- Sets one dot, counted from 0, y downwards. The highest layer in a letter hides the others.
local function dot(canvas, x, y, layer)
  local key = y // canvas.dy * canvas.columns + x // canvas.dx
  local cell = canvas.cells[key]
  if not cell or cell.layer < layer then
    cell = {layer = layer, dots = 0}
    canvas.cells[key] = cell
  end
  if cell.layer == layer then
    cell.dots = cell.dots | dots[y % canvas.dy + 1][x % canvas.dx + 1]
  end
end


-- Sets the dots of a column between two heights.
local function bar(canvas, x, a, b, layer)
  for y = math.max(0, math.min(a, b)), math.min(canvas.height - 1, math.max(a, b)) do
    dot(canvas, x, canvas.height - 1 - y, layer)
  end
end


-- The dot for a value, counted from 0 upwards; values outside the bounds are one dot outside.
local function height_of(canvas, panel, value)
  local top = canvas.height - 1
  local t = panel.max > panel.min and (value - panel.min) / (panel.max - panel.min) or 0.5
  return math.floor(math.max(-1, math.min(top + 1, t * top)) + 0.5)
end


local function draw_series(canvas, panel, s)
  local layer, before = (s - 1) % #colour.lines + 1, nil
  for k = 1, canvas.width do
    local low, mean, high = column(panel.series[s], panel.last, k, canvas.width)
    local y
    if is_finite(mean) then
      y = height_of(canvas, panel, mean)
      bar(canvas, k - 1, height_of(canvas, panel, low), height_of(canvas, panel, high), RANGE)
      local from = before and before ~= y and (before < y and before + 1 or before - 1) or y
      bar(canvas, k - 1, from, y, layer)       -- joined with the dot to its left
    end
    before = y
  end
end


-- Lines.

local function letter(canvas, cell)
  if not cell then return " " end
  if not canvas.in_colour then
    return cell.layer == RANGE and "." or LETTERS:sub(cell.layer, cell.layer)
  end
  local codes = cell.layer == RANGE and "2;38;2;128;128;128" or ink.front(colour.lines[cell.layer])
  return paint(codes, utf8.char(BRAILLE + cell.dots))
end


local function add_canvas(block, canvas, low, high, margin)
  local wall = canvas.in_colour and "│" or "|"
  for l = 0, HEIGHT - 1 do
    local line = {ink.right(l == 0 and high or l == HEIGHT - 1 and low or "", margin - 1), wall}
    for c = 0, canvas.columns - 1 do
      line[#line + 1] = letter(canvas, canvas.cells[l * canvas.columns + c])
    end
    ink.add(block, table.concat(line), block.width)
  end
end


local function add_axis(block, panel, in_colour, margin)
  local n, last = block.width - margin, ("%d"):format(panel.last)
  local corner, floor = "+", "-"
  if in_colour then corner, floor = "└", "─" end
  ink.add(block, (" "):rep(margin - 1) .. corner .. floor:rep(n), block.width)
  local free = math.max(0, n - 1 - #last)
  local name = ink.centre(free > 3 and ink.cut(panel.x or "", free - 2) or "", free)
  ink.add_text(block, (" "):rep(margin) .. panel.first .. name .. last)
end


local function add_legend(block, panel, in_colour)
  local texts, n = {}, -2
  for s, series in ipairs(panel.series) do
    if not series.label then return end
    local layer = (s - 1) % #colour.lines + 1
    local key = LETTERS:sub(layer, layer)
    if in_colour then key = paint(ink.front(colour.lines[layer]), "━") end
    texts[s] = key .. " " .. series.label
    n = n + 4 + ink.width(series.label)
  end
  if n <= block.width then ink.add(block, table.concat(texts, "  "), n) end
end


---Draws curves as a block.
---@param panel table
---@param in_colour boolean
---@param available integer columns
---@return table
return function(panel, in_colour, available)
  local block = {width = math.max(MIN_WIDTH, math.min(MAX_WIDTH, available))}
  local span = panel.max - panel.min
  local low, high = ink.short(panel.min, span), ink.short(panel.max, span)
  local margin = math.max(#low, #high) + 1
  local canvas = new_canvas(math.max(1, block.width - margin), in_colour)
  if panel.title then ink.add_text(block, panel.title, in_colour and "1") end
  if panel.y then ink.add_text(block, panel.y) end
  for s in ipairs(panel.series) do draw_series(canvas, panel, s) end
  add_canvas(block, canvas, low, high, margin)
  add_axis(block, panel, in_colour, margin)
  add_legend(block, panel, in_colour)
  return block
end
