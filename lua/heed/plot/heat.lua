-- plot.heat: heat maps of matrices.

local axis = require "heed.plot.axis"
local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any, kind = options.any, options.kind


local function matrix(m)
  if heed.is_tensor(m) and m:dim() ~= 2 then
    heed.fail("heat: a matrix expected, got %s%s", kind(m),
              m:dim() > 2 and "; heed.plot.grid draws several" or "")
  end
  local lines = values.table(m)
  if type(lines) ~= "table" then heed.fail("heat: a matrix expected, got %s", kind(m)) end
  local rows = options.whole("heat", lines)
  for i, line in ipairs(rows) do
    rows[i] = values.numbers("heat", line)
    if #rows[i] ~= #rows[1] then
      heed.fail("heat: rows of equal length expected, got %d and %d", #rows[1], #rows[i])
    end
  end
  if #rows == 0 then heed.fail("heat: a matrix with elements expected, got an empty one") end
  return rows
end


-- Makes a function of (i, j) of a table of rows, of a tensor of the panel's shape or of such a
-- function.
local function lookup(panel, source, option)
  local h, w = panel.height, panel.width
  if heed.is_tensor(source)
     and (source:dim() ~= 2 or source:size(1) ~= h or source:size(2) ~= w) then
    heed.fail("heat: a tensor of shape (%d, %d) expected as option %s, got %s", h, w, option,
      kind(source))
  end
  source = values.table(source)
  if type(source) == "function" then return source end
  if type(source) ~= "table" then
    heed.fail("heat: a table of rows or a function expected as option %s, got %s", option,
      kind(source))
  end
  return function(i, j) return type(source[i]) == "table" and source[i][j] end
end


local function each_cell(panel, source, option, convert)
  if source == nil then return nil end
  local at, result = lookup(panel, source, option), {}
  for i = 1, panel.height do
    result[i] = {}
    for j = 1, panel.width do result[i][j] = convert(at(i, j)) end
  end
  return result
end


local function cell_text(value)
  return value ~= nil and value ~= false and values.text("heat", "a cell of option cells", value)
         or ""
end


-- Makes a function that writes each number as the text of its cell; NaN has no text.
local function numbers_of(rows, form)
  return function(i, j)
    local value = rows[i][j]
    if value ~= value then return "" end
    if form == true then return value end
    local good, text = pcall(string.format, form, value)
    if good then return text end
    heed.fail("heat: a format for %s, such as '%%.1f', expected as option cells, got %s",
      values.text("heat", "a cell", value), kind(form))
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

local KNOWN <const> = {
  cells = any, columns = any, mark = any, max = any, min = any, rows = any, title = any,
}

---A heat map of a matrix; NaN stays blank. Marked cells without text have an x.
---@param m number[][]|heed.Tensor of rank 2
---@param given? heed.plot.heat
---@return heed.Plot
return function(m, given, ...)
  options.no_more("heat", 2, ...)
  given = options.read("heat", given, KNOWN)
  local rows = matrix(m)
  local panel = {kind = "heat", values = rows, height = #rows, width = #rows[1]}
  panel.rows = values.labels("heat", given.rows, panel.height, "rows")
  panel.columns = values.labels("heat", given.columns, panel.width, "columns")
  panel.marks = each_cell(panel, given.mark, "mark", is_marked)
  local cells = given.cells or nil
  if cells == true or type(cells) == "string" then cells = numbers_of(rows, cells) end
  panel.cells = each_cell(panel, cells, "cells", cell_text)
    or each_cell(panel, panel.marks, "mark", function(marked) return marked and "x" or "" end)
  panel.scale = axis.of("heat", rows, given)
  panel.title = values.title("heat", "title", given.title)
  return picture.new{{panel}}
end
