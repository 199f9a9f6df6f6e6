-- heed.plot: heat maps and curves, as values. Printing one draws it in the terminal; `save`
-- writes a PNG or SVG through gnuplot.
--
--   print(plot.heat(weights, {rows = words, columns = words}))
--   plot.row{plot.heat(weights, {cells = digits}), plot.curve(losses)}:save "training.png"

local core = require "heed.core"
local heed = require "heed"
local gnuplot = require "heed.plot.gnuplot"
local ink = require "heed.plot.ink"
local options = require "heed.internal.options"
local terminal = require "heed.plot.terminal"
local whole = require "heed.files.whole"

local any, kind = options.any, options.kind

local plot = {}

local HUGE = 1e300     -- larger numbers count as infinite, so that differences are finite

---@class heed.Plot a picture: `print` draws it
local Plot = {__name = "heed.Plot"}
Plot.__index = Plot


-- Checks of arguments.

local readable = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function spell(c)
  return readable[c] or ("\\x%02x"):format(c:byte())
end


-- A label, a title or the text of a cell: one line of valid UTF-8, with numbers in few digits.
local function as_text(value)
  local integer = math.type(value) == "float" and math.tointeger(value)
  local text = tostring(integer or value)
  if math.type(value) == "float" and not integer then text = ink.short(value) end
  if not utf8.len(text) then text = text:gsub("[\128-\255]", spell) end
  return (text:gsub("[\0-\31\127]", spell))
end


-- Converts a tensor to nested tables and returns any other value unchanged.
local function as_table(value)
  if heed.is_tensor(value) then return value:detach():totable() end
  return value
end


local function as_number(who, value)
  if value == true then return 1.0 end
  if value == false then return 0.0 end
  if heed.is_tensor(value) and value:numel() == 1 then value = value:item() end
  if type(value) == "number" then return value + 0.0 end
  heed.fail("%s: a number expected, got %s", who, kind(value))
end


local function as_numbers(who, list)
  local given = as_table(list)
  if type(given) ~= "table" then
    heed.fail("%s: a list of numbers expected, got %s", who, kind(list))
  end
  local numbers = {}
  for k, value in ipairs(given) do numbers[k] = as_number(who, value) end
  if #numbers == 0 then heed.fail("%s: a list with numbers expected, got an empty one", who) end
  return numbers
end


local function check_bound(who, name, value)
  if value == nil or type(value) == "number" and math.abs(value) < HUGE then return value end
  heed.fail("%s: a finite number expected as option %s, got %s", who, name, kind(value))
end


-- The bounds of a scale: options min and max, else the least and the largest finite number.
local function bounds(who, lists, given)
  local min, max = math.huge, -math.huge
  for _, list in ipairs(lists) do
    for _, value in ipairs(list) do
      if math.abs(value) < HUGE then min, max = math.min(min, value), math.max(max, value) end
    end
  end
  if min > max then min, max = 0.0, 1.0 end     -- nothing finite
  local low, high = check_bound(who, "min", given.min), check_bound(who, "max", given.max)
  min, max = low or math.min(min, high or min), high or math.max(max, low or max)
  if min <= max then return min + 0.0, max + 0.0 end
  heed.fail("%s: min <= max expected, got %s and %s", who, tostring(min), tostring(max))
end


-- Heat maps.

local function matrix(m)
  if heed.is_tensor(m) and m:dim() ~= 2 then
    heed.fail("heat: a matrix expected, got %s", kind(m))
  end
  local lines = as_table(m)
  if type(lines) ~= "table" then heed.fail("heat: a matrix expected, got %s", kind(m)) end
  local values = {}
  for i, line in ipairs(lines) do
    values[i] = as_numbers("heat", line)
    if #values[i] ~= #values[1] then
      heed.fail("heat: rows of equal length expected, got %d and %d", #values[1], #values[i])
    end
  end
  if #values == 0 then heed.fail("heat: a matrix with elements expected, got an empty one") end
  return values
end


local function labels(list, n, option)
  if list == nil then return nil end
  local given = as_table(list)
  if type(given) ~= "table" or #given ~= n then
    heed.fail("heat: a list of %d labels expected as option %s, got %s", n, option,
      type(given) == "table" and #given or kind(list))
  end
  local texts = {}
  for k = 1, n do texts[k] = as_text(given[k]) end
  return texts
end


-- Makes a function of (i, j) of a table of rows, of a tensor or of such a function.
local function lookup(source, option)
  source = as_table(source)
  if type(source) == "function" then return source end
  if type(source) ~= "table" then
    heed.fail("heat: a table of rows or a function expected as option %s, got %s", option,
      kind(source))
  end
  return function(i, j) return type(source[i]) == "table" and source[i][j] end
end


local function each_cell(panel, source, option, convert)
  if source == nil then return nil end
  local at, result = lookup(source, option), {}
  for i = 1, panel.height do
    result[i] = {}
    for j = 1, panel.width do result[i][j] = convert(at(i, j)) end
  end
  return result
end


local function cell_text(value)
  return value ~= nil and value ~= false and as_text(value) or ""
end


-- Makes a function that writes each number as the text of its cell; NaN has no text.
local function numbers_of(values, form)
  return function(i, j)
    local value = values[i][j]
    if value ~= value then return "" end
    if form == true then return value end
    local good, text = pcall(string.format, form, value)
    if good then return text end
    heed.fail("heat: a format for %s, such as '%%.1f', expected as option cells, got %s",
      as_text(value), kind(form))
  end
end


local function is_marked(value)
  return value ~= nil and value ~= false and value ~= 0
end


---@class heed.plot.heat
---@field rows? any[]|heed.Tensor labels of the rows
---@field columns? any[]|heed.Tensor labels of the columns
---@field cells? boolean|string|any[][]|heed.Tensor|fun(i: integer, j: integer): any text in the
---cells: true for the numbers, a format such as "%.1f" for the numbers written so
---@field mark? any[][]|heed.Tensor|fun(i: integer, j: integer): boolean cells with red text
---@field min? number what the darkest colour stands for; the least value unless given
---@field max? number what the lightest colour stands for; the largest value unless given
---@field title? string

local heat_options = {
  cells = any, columns = any, mark = any, max = any, min = any, rows = any, title = any,
}

---A heat map of a matrix; NaN stays blank. Marked cells without text have an x.
---@param m number[][]|heed.Tensor of rank 2
---@param given? heed.plot.heat
---@return heed.Plot
function plot.heat(m, given, ...)
  options.no_more("heat", 2, ...)
  given = options.read("heat", given, heat_options)
  local values = matrix(m)
  local panel = {kind = "heat", values = values, height = #values, width = #values[1]}
  panel.rows = labels(given.rows, panel.height, "rows")
  panel.columns = labels(given.columns, panel.width, "columns")
  panel.marks = each_cell(panel, given.mark, "mark", is_marked)
  local cells = given.cells or nil
  if cells == true or type(cells) == "string" then cells = numbers_of(values, cells) end
  panel.cells = each_cell(panel, cells, "cells", cell_text)
    or each_cell(panel, panel.marks, "mark", function(marked) return marked and "x" or "" end)
  panel.min, panel.max = bounds("heat", values, given)
  panel.title = given.title and as_text(given.title)
  return setmetatable(panel, Plot)
end


-- Curves.

local function vector(list)
  if heed.is_tensor(list) and list:dim() ~= 1 then
    heed.fail("curve: a vector expected, got %s", kind(list))
  end
  return as_numbers("curve", list)
end


-- A list of lists or of vectors holds several series, a list of numbers one.
local function is_several(list)
  if heed.is_tensor(list) or type(list) ~= "table" then return false end
  local first = list[1]
  return heed.is_tensor(first) and first:dim() > 0 or type(first) == "table"
end


-- The value of an option for series s: an option is one count for all, or a list of counts.
local function option_for(s, value, name)
  if type(value) == "table" then value = value[s] end
  return value and options.count("curve", "option " .. name, value)
end


local function series_of(list, given)
  local names, all = given.labels or {}, {}
  if type(names) ~= "table" then
    heed.fail("curve: a list of names expected as option labels, got %s", kind(names))
  end
  local lists = is_several(list) and list or {list}
  for s = 1, math.max(1, #lists) do
    local values = vector(lists[s])
    all[s] = {
      values = values,
      label = names[s] ~= nil and as_text(names[s]) or nil,
      every = option_for(s, given.every, "every") or 1,
      smooth = option_for(s, given.smooth, "smooth") or math.max(1, #values // 50),
    }
  end
  return all
end


---@class heed.plot.curve
---@field every? integer|integer[] steps from one number to the next; 1 unless given
---@field labels? string[] a name for each series
---@field max? number
---@field min? number
---@field smooth? integer|integer[] how many numbers the line averages, 1 for none; a fiftieth of
---all unless given
---@field title? string
---@field x? string what runs along the bottom
---@field y? string what the numbers are

local curve_options = {
  every = any, labels = any, max = any, min = any, smooth = any, title = any, x = any, y = any,
}

---A curve, such as a loss; or several, from a list of lists.
---@param list number[]|heed.Tensor|(number[]|heed.Tensor)[]
---@param given? heed.plot.curve
---@return heed.Plot
function plot.curve(list, given, ...)
  options.no_more("curve", 2, ...)
  given = options.read("curve", given, curve_options)
  local panel = {kind = "curve", series = series_of(list, given), first = 0, last = 1}
  local lists = {}
  for s, series in ipairs(panel.series) do
    lists[s] = series.values
    panel.last = math.max(panel.last, #series.values * series.every)
    if series.every == 1 then panel.first = 1 end
  end
  panel.min, panel.max = bounds("curve", lists, given)
  for _, name in ipairs {"title", "x", "y"} do
    panel[name] = given[name] and as_text(given[name])
  end
  return setmetatable(panel, Plot)
end


-- Rows of pictures, and the methods of every picture.

---Pictures beside each other.
---@param list heed.Plot[]
---@return heed.Plot
function plot.row(list, ...)
  options.no_more("row", 1, ...)
  if type(list) ~= "table" or #list == 0 then
    heed.fail("row: a list of pictures expected, got %s", kind(list))
  end
  local panels = {}
  for k, part in ipairs(list) do
    if not rawequal(getmetatable(part), Plot) then
      heed.fail("row: a picture expected at [%d], got %s", k, kind(part))
    end
    for _, panel in ipairs(part.kind == "row" and part.panels or {part}) do
      panels[#panels + 1] = panel
    end
  end
  return setmetatable({kind = "row", panels = panels}, Plot)
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
    heed.fail("save: a path that ends in .png or .svg expected, got %s", kind(path))
  end
  local bytes, why = gnuplot.render(self, format)
  if not bytes then return nil, "save: " .. why end
  local done, problem = core.write_file(path, {bytes})
  if not done then return nil, "save: " .. problem end
  return true
end


options.guard(Plot, {save = 1, text = 2}, {
  is = function(value) return type(value) == "table" and rawequal(getmetatable(value), Plot) end,
  what = "a picture", variable = "picture",
})


return options.strict("heed.plot", plot)
