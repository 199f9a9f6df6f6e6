-- Draws heat maps as text: coloured cells, or shades of ASCII on a terminal without colours.

local axis = require "heed.plot.axis"
local colour = require "heed.plot.colour"
local heads = require "heed.plot.heads"
local ink = require "heed.plot.ink"

local paint, width = ink.paint, ink.width

local SHADES = ".:-=+*#%@"     -- a space stands for a blank cell
local MAX_ROWS = 64            -- lines; more are averaged
local MAX_LABEL = 16           -- columns


-- Fitting a map to the terminal.

-- The mean of h x w values, without NaN.
local function mean(values, i, j, h, w)
  local sum, n = 0.0, 0
  for y = i, math.min(i + h - 1, #values) do
    for x = j, math.min(j + w - 1, #values[y]) do
      local value = values[y][x]
      if value == value then sum, n = sum + value, n + 1 end
    end
  end
  return sum / n
end


-- Only an axis whose elements are merged loses its labels.
local function pooled(panel, h, w)
  local values = {}
  for i = 1, panel.height, h do
    local line = {}
    for j = 1, panel.width, w do line[#line + 1] = mean(panel.values, i, j, h, w) end
    values[#values + 1] = line
  end
  return {
    values = values, height = #values, width = #values[1], scale = panel.scale,
    rows = h == 1 and panel.rows or nil, columns = w == 1 and panel.columns or nil,
    title = panel.title, note = ("a cell is the mean of %d x %d"):format(h, w),
  }
end


local function without_text(panel)
  return setmetatable({cells = false}, {__index = panel})
end


-- In colour a text has a space on both sides; in ASCII two shades stand before it, and brackets
-- around a marked one.
local function cell_width(panel, in_colour)
  if not panel.cells then return 2 end
  local n = 1
  for _, line in ipairs(panel.cells) do n = math.max(n, ink.longest(line)) end
  return n + (in_colour and 2 or 4)
end


-- A heat map that fits the columns, the width of its cells and that of its labels. A map that is
-- too wide first loses its texts, then the width of its cells, then detail; one of too many rows
-- loses detail along its columns alone, and its texts.
local function fit(panel, in_colour, available)
  local h = -(-panel.height // MAX_ROWS)
  local margin = h == 1 and panel.rows and math.min(MAX_LABEL, ink.longest(panel.rows)) + 1 or 0
  local cell, free = cell_width(panel, in_colour), math.max(1, available - margin)
  if h > 1 or panel.width * cell > free then panel, cell = without_text(panel), 2 end
  if panel.width * cell > free then cell = 1 end
  local w = -(-panel.width // (free // cell))
  if h > 1 or w > 1 then panel = pooled(panel, h, w) end
  local head = panel.columns and ink.longest(panel.columns) + 1 or 0
  if head > cell and head <= heads.MOST and panel.width * head <= free then cell = head end
  return panel, cell, margin
end


-- Cells. The bounds of a panel clamp a value; NaN is blank.

local function shade(t)
  local index = math.floor(t * (#SHADES - 1) + 0.5) + 1
  return SHADES:sub(index, index)
end


local function ascii_cell(panel, value, text, marked, cell)
  local mark = value == value and shade(axis.within(panel.scale, value)) or " "
  if not text then return cell > 2 and mark:rep(cell - 1) .. " " or mark:rep(cell) end
  local framed = marked and "[" .. text .. "]" or " " .. text .. " "
  return mark:rep(cell - width(framed)) .. framed
end


-- Red is legible on white only, so that a marked text stands on a white badge.
local function marked_cell(rgb, text, cell)
  local before = (cell - width(text)) // 2
  local around = ink.back(rgb)
  return paint(around, (" "):rep(before))
    .. paint("1;48;2;255;255;255;" .. ink.front(colour.red), text)
    .. paint(around, (" "):rep(cell - width(text) - before))
end


local function blank_cell(text, marked, cell)
  if not text or text == "" then return (" "):rep(cell) end
  return paint(marked and "1;" .. ink.front(colour.red) or "2", ink.centre(text, cell))
end


local function colour_cell(panel, value, text, marked, cell)
  if value ~= value then return blank_cell(text, marked, cell) end
  local rgb = colour.at(axis.within(panel.scale, value))
  if not text or text == "" then return paint(ink.back(rgb), (" "):rep(cell)) end
  if marked then return marked_cell(rgb, text, cell) end
  local front = colour.is_light(rgb) and {20, 20, 20} or {255, 255, 255}
  return paint(ink.back(rgb) .. ";" .. ink.front(front), ink.centre(text, cell))
end


-- Lines.

local function add_line(block, panel, i, in_colour, cell, margin)
  local draw, line = in_colour and colour_cell or ascii_cell, {}
  if margin > 0 then line[1] = ink.right(ink.cut(panel.rows[i], margin - 1), margin - 1) .. " " end
  for j = 1, panel.width do
    local text = panel.cells and panel.cells[i][j]
    local marked = panel.marks and panel.marks[i][j]
    line[#line + 1] = draw(panel, panel.values[i][j], text, marked, cell)
  end
  ink.add(block, table.concat(line), margin + panel.width * cell)
end


local function add_scale(block, panel, in_colour, margin, steps)
  local low, high = axis.ends(panel.scale)
  local parts = {}
  for k = 1, steps do
    local t = (k - 1) / (steps - 1)
    parts[k] = in_colour and paint(ink.back(colour.at(t)), " ") or shade(t)
  end
  local text = ("%s%s %s %s"):format((" "):rep(margin), low, table.concat(parts), high)
  ink.add(block, text, margin + #low + #high + 2 + steps)
end


---Draws a heat map as a block.
---@param panel table
---@param in_colour boolean
---@param available integer columns
---@return table
return function(panel, in_colour, available)
  local cell, margin
  panel, cell, margin = fit(panel, in_colour, available)
  local low, high = axis.ends(panel.scale)
  local ends = margin + #low + #high + 2
  local steps = math.min(#SHADES, available - ends)
  local note = panel.note and math.min(width(panel.note), available) or 0
  local block = {
    width = math.max(margin + panel.width * cell, note, steps > 1 and ends + steps or 0),
  }
  if panel.title then ink.add_text(block, panel.title, in_colour and "1") end
  if panel.columns then heads.add(block, panel.columns, cell, margin) end
  for i = 1, panel.height do add_line(block, panel, i, in_colour, cell, margin) end
  if steps > 1 then add_scale(block, panel, in_colour, margin, steps) end
  if panel.note then ink.add_text(block, panel.note) end
  return block
end
