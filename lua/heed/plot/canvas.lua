-- A canvas of a terminal: dots, of which `dx` by `dy` make a letter; braille in colour, else ASCII.
--
-- Dots lie on layers. In a letter the highest layer hides the others; layer 0 is grey.

local colour = require "heed.plot.colour"
local ink = require "heed.plot.ink"

local Canvas = {}
Canvas.__index = Canvas

local LETTERS <const> = "*o+x#"
local BRAILLE <const> = 0x2800
local BITS <const> = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}


---@param columns integer
---@param lines integer
---@param in_colour boolean
function Canvas.new(columns, lines, in_colour)
  local dx, dy = in_colour and 2 or 1, in_colour and 4 or 1
  return setmetatable({
    columns = columns, lines = lines, in_colour = in_colour, cells = {},
    dx = dx, dy = dy, width = columns * dx, height = lines * dy,
  }, Canvas)
end


---The layer of a series.
---@param s integer
---@return integer
function Canvas.layer(s) return (s - 1) % #colour.lines + 1 end


---The sign of a series in a legend.
---@param s integer
---@param in_colour boolean
---@return string of one letter
function Canvas.key(s, in_colour)
  local layer = Canvas.layer(s)
  if in_colour then return ink.paint(ink.front(colour.lines[layer]), "━") end
  return LETTERS:sub(layer, layer)
end


---Sets one dot, counted from 0, y upwards; nothing outside the canvas.
---@param x integer
---@param y integer
---@param layer integer
function Canvas:dot(x, y, layer)
  if x < 0 or x >= self.width or y < 0 or y >= self.height then return end
  local down = self.height - 1 - y
  local key = down // self.dy * self.columns + x // self.dx
  local cell = self.cells[key]
  if not cell or cell.layer < layer then
    cell = {layer = layer, dots = 0}
    self.cells[key] = cell
  end
  if cell.layer == layer then
    cell.dots = cell.dots | BITS[down % self.dy + 1][x % self.dx + 1]
  end
end


---Sets the dots of a column between two heights.
---@param x integer
---@param a integer
---@param b integer
---@param layer integer
function Canvas:bar(x, a, b, layer)
  for y = math.max(0, math.min(a, b)), math.min(self.height - 1, math.max(a, b)) do
    self:dot(x, y, layer)
  end
end


local function letter(self, cell)
  if not cell then return " " end
  if not self.in_colour then
    return cell.layer == 0 and "." or LETTERS:sub(cell.layer, cell.layer)
  end
  local codes = cell.layer == 0 and "2;38;2;128;128;128" or ink.front(colour.lines[cell.layer])
  return ink.paint(codes, utf8.char(BRAILLE + cell.dots))
end


---The letters of a line.
---@param l integer from 0, downwards
---@return string
function Canvas:line(l)
  local letters = {}
  for c = 0, self.columns - 1 do
    letters[#letters + 1] = letter(self, self.cells[l * self.columns + c])
  end
  return table.concat(letters)
end


return Canvas
