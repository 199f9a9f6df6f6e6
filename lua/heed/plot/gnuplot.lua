-- Draws pictures by gnuplot: its script is one temporary file, its image another.
--
-- A PNG has two pixels for each of the layout's. The user's paths never reach gnuplot or the
-- shell: the image comes back as a string.

local Script = require "heed.plot.script"
local colour = require "heed.plot.colour"
local core = require "heed.core"

local gnuplot = {}

local MARGIN, GAP = 12, 26
local MAX_PIXELS = 20000     -- of a side; larger pictures would need gigabytes

local painters = {
  curve = require "heed.plot.gnuplot_curve",
  heat = require "heed.plot.gnuplot_heat",
}


-- Places panels from left to right with their upper edges on one line; curves become as high as
-- the highest panel.
local function layout(panels)
  local boxes, left, above, height, bottom = {}, MARGIN, 0, 0, 0
  for k, panel in ipairs(panels) do
    local box = painters[panel.kind].measure(panel)
    boxes[k] = box
    box.left = left + box.before + (k > 1 and GAP or 0)
    left = box.left + box.width + box.behind
    above, height = math.max(above, box.above), math.max(height, box.height)
  end
  for k, box in ipairs(boxes) do
    box.top = MARGIN / 2 + above
    if panels[k].kind == "curve" then box.height = height end
    bottom = math.max(bottom, box.top + box.height + box.below)
  end
  return boxes, math.ceil(left + MARGIN / 2), math.ceil(bottom + MARGIN / 2)
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
---@param picture table
---@param format "png"|"svg"
---@param output string a path without control characters
---@return string? script nil if the picture is too large
---@return string? message
function gnuplot.script(picture, format, output)
  local panels = picture.panels or {picture}
  local boxes, width, height = layout(panels)
  local w, h = width * scales[format], height * scales[format]
  if math.max(w, h) > MAX_PIXELS then
    return nil, ("a picture of %d x %d pixels is too large"):format(w, h)
  end
  local script = Script.new(width, height)
  script:add "set encoding utf8"
  script:add(terminals[format], w, h)
  script:add("set output %s", Script.quote(output))
  script:add "set multiplot"
  for k, panel in ipairs(panels) do
    script:add "reset"
    script:add("set palette defined (%s)", palette())
    painters[panel.kind].add(script, panel, boxes[k], "$panel" .. k)
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
