-- plot.grid: pictures in lines and columns, such as the weights of all heads.

local axis = require "heed.plot.axis"
local heat = require "heed.plot.heat"
local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any, kind = options.any, options.kind


-- Lists --------------------------------------------------------------------

-- The matrices of a tensor, their places as titles, and how many stand beside each other.
local function matrices_of(x)
  if x:dim() ~= 3 and x:dim() ~= 4 or x:numel() == 0 then
    heed.fail("grid: a tensor of rank 3 or 4 with elements expected, got %s", kind(x))
  end
  local list, titles = {}, {}
  for b = 1, x:dim() == 4 and #x or 1 do
    local heads = x:dim() == 4 and x[b] or x
    for h = 1, #heads do
      list[#list + 1] = heads[h]
      titles[#list] = x:dim() == 4 and ("[%d, %d]"):format(b, h) or ("[%d]"):format(h)
    end
  end
  return list, titles, x:dim() == 4 and x:size(2) or nil
end


-- Heat maps ----------------------------------------------------------------

-- Bounds that all matrices share.
local function common_scale(list, given)
  local lists = {}
  for k = 1, #list do
    local rows = values.table(list[k])
    local rank = heed.is_tensor(list[k]) and list[k]:dim() or 2
    if type(rows) ~= "table" or rank ~= 2 then
      heed.fail("grid: a matrix expected at [%d], got %s%s", k, kind(list[k]),
                rank > 2 and "; a tensor of several is an argument by itself" or "")
    end
    for _, row in ipairs(rows) do lists[#lists + 1] = values.numbers("grid", row) end
  end
  return axis.of("grid", lists, given)
end


local HEAT <const> = {"cells", "columns", "mark", "rows"}

-- The heat maps of matrices, each with its title.
local function heats_of(list, titles, given)
  local scale, panels = common_scale(list, given), {}
  for k, m in ipairs(list) do
    local o = {min = scale.min, max = scale.max, title = titles and titles[k]}
    for _, name in ipairs(HEAT) do o[name] = given[name] end
    panels[k] = heat(m, o).lines[1][1]
  end
  return panels
end


-- Refuses options of heat maps beside pictures, which have their own.
local function refuse_heat(given)
  for _, name in ipairs{"cells", "columns", "mark", "max", "min", "rows", "titles"} do
    if given[name] ~= nil then
      heed.fail("grid: option %s is one of matrices, but pictures are given", name)
    end
  end
end


-- Lines --------------------------------------------------------------------

local function in_lines(panels, across)
  local lines = {}
  for from = 1, #panels, across do
    lines[#lines + 1] = table.move(panels, from, math.min(from + across - 1, #panels), 1, {})
  end
  return lines
end


---@class heed.plot.grid
---@field across? integer how many stand beside each other; unless given, the heads of a tensor
---(B, H, T, S), and as many as make the grid a square of anything else
---@field cells? boolean|string|any[][]|heed.Tensor|fun(i: integer, j: integer): any of matrices, as
---`plot.heat` has it; so are columns, mark and rows
---@field columns? any[]|heed.Tensor labels of the columns
---@field mark? any[][]|heed.Tensor|fun(i: integer, j: integer): boolean cells with red text
---@field max? number of all matrices; their largest value unless given
---@field min? number of all matrices; their least value unless given
---@field rows? any[]|heed.Tensor labels of the rows
---@field title? string above all
---@field titles? any[]|heed.Tensor a title for each matrix; its place in a tensor unless given

local KNOWN <const> = {
  across = any, cells = any, columns = any, mark = any, max = any, min = any, rows = any,
  title = any, titles = any,
}

---Pictures in lines and columns: the matrices of a tensor (H, T, S) or (B, H, T, S), such as
---attention weights, or of a list, as heat maps of one scale; or a list of pictures.
---@param list heed.Tensor|heed.Plot[]|(heed.Tensor|number[][])[]
---@param given? heed.plot.grid
---@return heed.Plot
return function(list, given, ...)
  options.no_more("grid", 2, ...)
  given = options.read("grid", given, KNOWN)
  local titles, across, panels
  if heed.is_tensor(list) then list, titles, across = matrices_of(list:detach()) end
  if type(list) ~= "table" or #list == 0 then
    heed.fail("grid: a tensor of rank 3 or 4 or a list of pictures expected, got %s", kind(list))
  end
  list = options.whole("grid", list)
  for k = 2, #list do
    if picture.is(list[k]) and not picture.is(list[1]) then
      heed.fail("grid: matrices or pictures alone expected, got %s at [1] and a picture at [%d]; "
                .. "heed.plot.heat(matrix) is a picture", kind(list[1]), k)
    end
  end
  if picture.is(list[1]) then
    refuse_heat(given)
    panels = picture.panels("grid", list)
  else
    panels = heats_of(list, values.labels("grid", given.titles, #list, "titles") or titles, given)
  end
  across = given.across and options.count("grid", "option across", given.across) or across
  return picture.new(in_lines(panels, across or math.ceil(math.sqrt(#panels))),
                     values.title("grid", "title", given.title))
end
