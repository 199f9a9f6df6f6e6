-- Pictures as values: lines of panels, each line from left to right.

local core = require "heed.core"
local heed = require "heed"
local gnuplot = require "heed.plot.gnuplot"
local options = require "heed.internal.options"
local terminal = require "heed.plot.terminal"
local torch_names = require "heed.internal.torch_names"
local values = require "heed.plot.values"
local whole = require "heed.files.whole"

local picture = {}

---@class heed.Plot a picture: `print` draws it
---@field lines table[][] panels
---@field title? string
local Plot = {__name = "heed.Plot"}


function Plot:__index(name)
  local value = Plot[name]
  if value == nil and name ~= "title" then
    return options.refuse_name("picture", name, Plot, torch_names.picture)
  end
  return value
end


---@param lines table[][] panels
---@param title? string above all of them
---@return heed.Plot
function picture.new(lines, title)
  return setmetatable({lines = lines, title = title}, Plot)
end


---A picture of one chart.
---@param who string
---@param panel table what it shows: its axes x and y, series, ground and note
---@param given {title: string?, x: string?, y: string?} what is written around it
---@return heed.Plot
function picture.chart(who, panel, given)
  panel.kind, panel.title = "chart", values.title(who, "title", given.title)
  panel.x.title, panel.y.title = values.title(who, "x", given.x), values.title(who, "y", given.y)
  return picture.new{{panel}}
end



---@param value any
---@return boolean
function picture.is(value)
  return type(value) == "table" and rawequal(getmetatable(value), Plot)
end


---The panels of a list of pictures, of which each is one or a row.
---@param who string
---@param list any[]
---@return table[]
function picture.panels(who, list)
  local panels = {}
  for k = 1, #list do
    local part = list[k]
    if not picture.is(part) then
      heed.fail("%s: a picture expected at [%d], got %s", who, k, options.kind(part))
    elseif #part.lines > 1 or part.title then
      heed.fail("%s: a picture of one line expected at [%d], got a grid", who, k)
    end
    table.move(part.lines[1], 1, #part.lines[1], #panels + 1, panels)
  end
  return panels
end


-- Reads an environment variable; a state without 'os' has none.
local function getenv(name) return os and os.getenv(name) end

local function has_colour()
  local depth, refused = getenv "COLORTERM", getenv "NO_COLOR"
  return (depth == "truecolor" or depth == "24bit") and (refused or "") == "" and heed.isatty()
end


---The picture as text.
---@param colour? boolean 24-bit colour and braille, or ASCII; unless given, what the terminal can
---do
---@param columns? integer how wide it may be; the terminal's width, or 80, unless given
---@return string
function Plot:text(colour, columns)
  if colour == nil then colour = has_colour() end
  if columns ~= nil then columns = options.count("text", "columns", columns) end
  columns = columns or math.tointeger(tonumber(getenv "COLUMNS" or "")) or 80
  return terminal.draw(self, colour, math.max(20, columns))
end


function Plot:__tostring()
  return self:text()
end


---Writes the picture as PNG or SVG, by the ending of the path. Needs gnuplot.
---@param path string
---@return true? done
---@return string? message
function Plot:save(path)
  whole.check_path("save", path)
  local format = path:lower():match "%.(%w+)$"
  if format ~= "png" and format ~= "svg" then
    heed.fail("save: a path that ends in .png or .svg expected, got %s", options.kind(path))
  end
  local bytes, why = gnuplot.render(self, format)
  if not bytes then return nil, "save: " .. why end
  local done, problem = core.write_file(path, {bytes})
  if not done then return nil, "save: " .. problem end
  return true
end


options.guard(Plot, {save = 1, text = 2},
              {is = picture.is, what = "a picture", variable = "picture"})

return picture
