-- Draws pictures by gnuplot: its script is one temporary file, its image another.
--
-- A PNG has two pixels for each of the layout's. The user's paths never reach gnuplot or the
-- shell: the image comes back as a string.

local Script = require "heed.plot.script"
local colour = require "heed.plot.colour"
local core = require "heed.core"
local ink = require "heed.plot.ink"

local gnuplot = {}

local MARGIN, GAP = 12, 26
local TITLE = 28             -- the height of the title above all panels
local MAX_PIXELS = 20000     -- of a side; larger pictures would need gigabytes

local painters = {
  chart = require "heed.plot.gnuplot_chart",
  heat = require "heed.plot.gnuplot_heat",
}


-- The size of each panel of each line; the charts of a line become as high as its highest panel.
local function measured(lines)
  local boxes = {}
  for l, panels in ipairs(lines) do
    local height = 0
    boxes[l] = {}
    for c, panel in ipairs(panels) do
      local box = painters[panel.kind].measure(panel)
      boxes[l][c], height = box, math.max(height, box.height)
    end
    for c, panel in ipairs(panels) do
      if panel.kind == "chart" then boxes[l][c].height = height end
    end
  end
  return boxes
end


-- Gives all boxes of a column one left edge; returns where the last column ends.
local function place_columns(boxes)
  local columns = {}
  for _, line in ipairs(boxes) do
    for c, box in ipairs(line) do
      local column = columns[c] or {before = 0, behind = 0}
      columns[c] = column
      column.before = math.max(column.before, box.before)
      column.behind = math.max(column.behind, box.width + box.behind)
    end
  end
  local right = MARGIN - GAP
  for c, column in ipairs(columns) do
    for _, line in ipairs(boxes) do
      if line[c] then line[c].left = right + GAP + column.before end
    end
    right = right + GAP + column.before + column.behind
  end
  return right
end


-- Gives all boxes of a line one upper edge; returns where the last line ends.
local function place_lines(boxes, top)
  local bottom = top
  for l, line in ipairs(boxes) do
    local above, start = 0, bottom + (l > 1 and GAP / 2 or 0)
    for _, box in ipairs(line) do above = math.max(above, box.above) end
    for _, box in ipairs(line) do
      box.top = start + above
      bottom = math.max(bottom, box.top + box.height + box.below)
    end
  end
  return bottom
end


-- Places panels from left to right and from top to bottom, below the title.
local function layout(picture)
  local boxes = measured(picture.lines)
  local right = place_columns(boxes)
  local bottom = place_lines(boxes, MARGIN / 2 + (picture.title and TITLE or 0))
  local title = picture.title and ink.width(picture.title) * 9 + MARGIN or 0
  return boxes, math.ceil(math.max(right, title) + MARGIN / 2), math.ceil(bottom + MARGIN / 2)
end


local terminals = {
  png = "set terminal pngcairo noenhanced truecolor size %d, %d font 'sans-serif,10' "
    .. "fontscale 2 linewidth 2 pointscale 2 background '#ffffff'",
  svg = "set terminal svg noenhanced size %d, %d dynamic font 'sans-serif,10' "
    .. "background '#ffffff'",
}
local scales = {png = 2, svg = 1}

local function palette()
  local steps = {}
  colour.each(function(t, rgb)
    steps[#steps + 1] = ("%s '%s'"):format(Script.number(t), colour.hex(rgb))
  end)
  return table.concat(steps, ", ")
end


---The script that draws a picture.
---@param picture heed.Plot
---@param format "png"|"svg"
---@param output string a path without control characters
---@return string? script nil if the picture is too large
---@return string? message
function gnuplot.script(picture, format, output)
  local boxes, width, height = layout(picture)
  local w, h = width * scales[format], height * scales[format]
  if math.max(w, h) > MAX_PIXELS then
    return nil, ("a picture of %d x %d pixels is too large"):format(w, h)
  end
  local script = Script.new(width, height)
  script:add "set encoding utf8"
  script:add(terminals[format], w, h)
  script:add("set output %s", Script.quote(output))
  script:add "set multiplot"
  for l, panels in ipairs(picture.lines) do
    for c, panel in ipairs(panels) do
      script:add "reset"
      if l + c == 2 then script:title({left = MARGIN, top = MARGIN / 2 + TITLE}, picture.title) end
      script:add("set palette defined (%s)", palette())
      painters[panel.kind].add(script, panel, boxes[l][c], ("$panel%d_%d"):format(l, c))
    end
  end
  script:add "unset multiplot; unset output"
  return table.concat(script, "\n") .. "\n"
end


-- Runs a script; returns whether gnuplot succeeded, and its message.
local function run(path)
  local pipe, why = io.popen("gnuplot -d '" .. path .. "' 2>&1 </dev/null")
  if not pipe then return false, why end
  local output = pipe:read("a")
  local _, _, code = pipe:close()
  if code == 127 then return false, "not found (apt install gnuplot-nox)" end
  return code == 0, output:match "line %d+: ([^\n]+)" or output:match "[^\n]+" or "no picture"
end


local function render(picture, format, script_path, image_path)
  local script, why = gnuplot.script(picture, format, image_path)
  if not script then return nil, why end
  local written, problem = core.write_file(script_path, {script})
  if not written then return nil, problem end
  local good, message = run(script_path)
  local image = good and core.read_file(image_path)
  if image and #image > 0 then return image end
  return nil, "gnuplot: " .. message
end


---Draws a picture.
---@param picture table
---@param format "png"|"svg"
---@return string? bytes of the image
---@return string? message
function gnuplot.render(picture, format)
  if not (io and io.popen and os and os.tmpname) then
    return nil, "gnuplot: no way to run it here"
  end
  local script_path, image_path = os.tmpname(), os.tmpname()
  local done, bytes, why = pcall(render, picture, format, script_path, image_path)
  os.remove(script_path)
  os.remove(image_path)
  if not done then error(bytes, 0) end
  return bytes, why
end


return gnuplot
