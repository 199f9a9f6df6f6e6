-- Heat maps for gnuplot: square cells, text in them, and a scale at their side.

local Script = require "heed.plot.script"
local axis = require "heed.plot.axis"
local colour = require "heed.plot.colour"
local ink = require "heed.plot.ink"

local number, quote, LETTER = Script.number, Script.quote, Script.LETTER
local longest = ink.longest

local heat = {}

local CELL = 34            -- a cell's side
local INNER = 430          -- the width that many cells share
local MAX_SHARP = 4096     -- more cells are one image, fewer are drawn with gaps between them
local SCALE = 58           -- the width of the scale
local SEAM = 0.015         -- half the gap, in cells
local BOLD = 8.5           -- the width of a bold letter, at 11 points


-- The width of a cell that its text fits into.
local function cell_width(panel, side)
  local n = 0
  for _, line in ipairs(panel.cells or {}) do n = math.max(n, longest(line)) end
  return n > 0 and math.max(side, n * BOLD + 16) or side
end


---The size of a panel, and the margins around it.
---@param panel table
---@return table
function heat.measure(panel)
  local side = math.min(CELL, math.max(1, INNER // math.max(panel.width, panel.height)))
  local cell = cell_width(panel, side)
  local head = longest(panel.columns) * LETTER
  local title = panel.title and ink.width(panel.title) * 9 or 0
  return {
    width = panel.width * cell, height = panel.height * side,
    before = panel.rows and longest(panel.rows) * LETTER + 12 or 28,
    behind = math.max(SCALE, title - panel.width * cell),
    above = panel.title and 32 or 10, below = head + 6 > cell and head + 16 or 26,
    cell = cell, side = side, rotated = head + 6 > cell,
  }
end


local function add_scale(script, panel, box)
  local low, high = axis.widened(panel.scale, 0)
  script:add("set cbrange [%s:%s]", number(low), number(high))
  script:add("set colorbox user origin screen %s, screen %s size screen %s, screen %s noborder",
    script:x(box.left + box.width + 10), script:y(box.top + box.height),
    number(9 / script.width), number(box.height / script.height))
  script:add("set cbtics %s scale 0 font ',9' offset -0.8,0 tc rgb '%s'",
    number(Script.step(high - low, math.max(2, box.height // 34))), Script.PALE)
  script:add "set format cb '%g'"
end


-- Red is legible on white only, so that a marked text stands on a white badge.
local function add_badge(script, text, i, j, box)
  local wide = box.side * 0.64 + (ink.width(text) - 1) * BOLD
  script:add("set object ellipse center first %d, first %d size first %s, first 0.64 "
    .. "front fc rgb '#ffffff' fs solid noborder", j, i, number(wide / box.cell))
end


local function text_colour(panel, i, j)
  local value = panel.values[i][j]
  if value ~= value then return Script.PALE end
  local light = colour.is_light(colour.at(axis.within(panel.scale, value)))
  return light and "#1a1a1a" or "#ffffff"
end


local function add_text(script, panel, i, j, box)
  local text, value = panel.cells[i][j], panel.values[i][j]
  if text == "" then return end
  local marked = panel.marks and panel.marks[i][j]
  if marked and value == value then add_badge(script, text, i, j, box) end
  script:add("set label %s at first %d, first %d center front tc rgb '%s' font 'sans-serif%s,11'",
    quote(text), j, i, marked and colour.hex(colour.red) or text_colour(panel, i, j),
    marked and ":Bold" or "")
end


local function add_data(script, panel, name)
  local least, most = panel.scale.min, panel.scale.max
  script:add("%s << EOD", name)
  for i = 1, panel.height do
    for j = 1, panel.width do
      local value = panel.values[i][j]
      if value == value then value = math.max(least, math.min(most, value)) end
      script:add("%d %d %s", j, i, number(value))
    end
  end
  script:add "EOD"
end


-- Draws white cells, and coloured ones upon them; many cells are drawn as one image.
local function add_plot(script, panel, name)
  if panel.width * panel.height > MAX_SHARP then
    return script:add("plot %s using 1:2:3 with image", name)
  end
  local half = number(0.5 - SEAM)
  script:add("set object rectangle from graph 0, graph 0 to graph 1, graph 1 behind "
    .. "fc rgb '#efefef' fs solid noborder")
  script:add("plot %s using 1:2:(%s):(%s) with boxxyerror fs solid noborder lc rgb '#ffffff', "
    .. "%s using 1:2:(%s):(%s):3 with boxxyerror fs solid noborder lc palette",
    name, half, half, name, half, half)
end


---Adds a panel.
---@param script table
---@param panel table
---@param box table the size from `measure`, and its position
---@param name string for its data
function heat.add(script, panel, box, name)
  add_data(script, panel, name)
  script:frame(box)
  script:title(box, panel.title)
  script:add("set xrange [0.5:%d.5]; set yrange [%d.5:0.5]", panel.width, panel.height)
  script:add "unset border; unset key"
  script:places("x", panel.columns, panel.width, box.rotated)
  script:places("y", panel.rows, panel.height, false)
  add_scale(script, panel, box)
  for i = 1, panel.cells and panel.height or 0 do
    for j = 1, panel.width do add_text(script, panel, i, j, box) end
  end
  add_plot(script, panel, name)
end


return heat
