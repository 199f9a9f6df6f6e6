-- plot.scatter: points of two coordinates, in classes or not.

local axis = require "heed.plot.axis"
local heed = require "heed"
local options = require "heed.internal.options"
local picture = require "heed.plot.picture"
local values = require "heed.plot.values"

local any = options.any


-- The points that have a place on both axes, and how many there are without one.
local function shown(xs, ys, ids, log)
  local points, x, y = {xs = {}, ys = {}, ids = ids and {}}, {log = log.x}, {log = log.y}
  for i = 1, #xs do
    if axis.shows(x, xs[i]) and axis.shows(y, ys[i]) then
      local n = #points.xs + 1
      points.xs[n], points.ys[n] = xs[i], ys[i]
      if ids then points.ids[n] = ids[i] end
    end
  end
  return points, #xs - #points.xs
end


-- The class of each point, and all classes in their order.
local function classes_of(list, n)
  if list == nil then return nil, {1} end
  local ids, all, seen = values.vector("scatter", list), {}, {}
  if #ids ~= n then
    heed.fail("scatter: %d classes expected, as there are points, got %d", n, #ids)
  end
  for i, id in ipairs(ids) do
    ids[i] = options.count("scatter", ("class %d"):format(i), id)
    if not seen[ids[i]] then all[#all + 1] = ids[i] end
    seen[ids[i]] = true
  end
  table.sort(all)
  return ids, all
end


local function series_of(points, classes, names)
  local all, of, ids = {}, {}, points.ids
  for s, class in ipairs(classes) do
    all[s] = {draw = "points", xs = {}, ys = {}, label = names[class] or ids and tostring(class)}
    of[class] = all[s]
  end
  for i, x in ipairs(points.xs) do
    local series = of[ids and ids[i] or 1]
    series.xs[#series.xs + 1], series.ys[#series.ys + 1] = x, points.ys[i]
  end
  return all
end


---@class heed.plot.scatter
---@field classes? integer[]|heed.Tensor a class for each point, from 1: each has a colour
---@field labels? string[] a name for each class; its number unless given
---@field log? "x"|"y"|"xy" logarithmic axes; such an axis has no place for numbers up to 0
---@field max? number the largest y to be seen
---@field min? number the least y to be seen
---@field title? string
---@field x? string what runs along the bottom
---@field y? string what runs upwards

local KNOWN <const> = {
  classes = any, labels = any, log = any, max = any, min = any, title = any, x = any, y = any,
}

---Points by their coordinates, such as features of two dimensions. Below them stands how many have
---no place: NaN and infinities.
---@param x number[]|heed.Tensor
---@param y number[]|heed.Tensor as many as there are in x
---@param given? heed.plot.scatter
---@return heed.Plot
return function(x, y, given, ...)
  options.no_more("scatter", 3, ...)
  given = options.read("scatter", given, KNOWN)
  local log = axis.logarithmic("scatter", given.log)
  local xs, ys = values.vector("scatter", x), values.vector("scatter", y)
  if #xs ~= #ys then
    heed.fail("scatter: as many numbers in y as in x expected, got %d and %d", #ys, #xs)
  end
  local ids, classes = classes_of(given.classes, #xs)
  local points, others = shown(xs, ys, ids, log)
  return picture.chart("scatter", {
    x = axis.of("scatter", {points.xs}, {}, log.x),
    y = axis.of("scatter", {points.ys}, given, log.y),
    series = series_of(points, classes, values.names("scatter", given.labels)),
    note = others > 0 and ("left out: %d"):format(others) or nil,
  }, given)
end
