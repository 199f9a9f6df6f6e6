-- Image patches: which figure is it, wherever it stands?

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local task = require "heed.tasks.task"

local WHO <const> = "tasks.patches"

local FIGURES = {
  {"#####", "#...#", "#...#", "#...#", "#####"},
  {"..#..", "..#..", "#####", "..#..", "..#.."},
  {"#...#", ".#.#.", "..#..", ".#.#.", "#...#"},
  {"..#..", ".#.#.", "#...#", ".#.#.", "..#.."},
}
local NAMES = {"square", "plus", "cross", "diamond"}
local WIDTH <const> = 5

-- The pixels of each figure: rows and columns from 0.
local INK = {}
for k, rows in ipairs(FIGURES) do
  INK[k] = {}
  for i, row in ipairs(rows) do
    for j in row:gmatch("()#") do table.insert(INK[k], {i - 1, j - 1}) end
  end
end


-- A blank picture with one figure, as side * side numbers.
local function picture(figure, top, left, side)
  local pixels = {}
  for k = 1, side * side do pixels[k] = 0.0 end
  for _, at in ipairs(INK[figure]) do pixels[(top + at[1]) * side + left + at[2] + 1] = 1.0 end
  return pixels
end


---@class heed.tasks.patches.options
---@field side? integer of the images in pixels, at least 5; 12 unless given
---@field noise? number standard deviation of what is added to each pixel; 0.1 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "any"|"centre"|fun(dice: function, room: integer): integer, integer where figures
---stand: their distances from the top and the left, from 0 to room

local RULES = {
  any = function(dice, room)
    local top = dice(room + 1) - 1
    return top, dice(room + 1) - 1
  end,
  centre = function(_, room) return room // 2, room // 2 end,
}


local function check_place(at, room)
  local whole = type(at) == "number" and math.tointeger(at)
  if whole and whole >= 0 and whole <= room then return whole end
  heed.fail("%s: two distances from 0 to %d expected from rule, got %s", WHO, room,
            options.kind(at))
end


---A square, a plus, a cross or a diamond, anywhere in a noisy image.
---@param given? heed.tasks.patches.options
---@return fun(): heed.Tensor, heed.Tensor batch images float32 (size, 1, side, side), and classes
---from 1 to 4 (size)
local function patches(given, ...)
  options.no_more(WHO, 1, ...)
  local o = task.read(WHO, given, {noise = 0.1, rule = options.any, side = 12})
  options.positive(WHO, "option noise", o.noise)
  local rule = task.rule(WHO, o.rule, RULES, "any")
  local room = options.count(WHO, "side", o.side, WIDTH) - WIDTH
  core.check_entries(WHO, 1.0 * o.size * o.side * o.side, "pixels of a batch")
  return task.endless(WHO, o, function()
    local dice, images, classes = task.dice(), {}, {}
    for b = 1, o.size do
      classes[b] = dice(#FIGURES)
      local top, left = rule(dice, room)
      images[b] = picture(classes[b], check_place(top, room), check_place(left, room), o.side)
    end
    local x = heed.tensor(images, {dtype = "float32", device = "cpu"})
    x = x + heed.randn(o.size, o.side * o.side, {device = "cpu"}) * o.noise
    return x:view(o.size, 1, o.side, o.side), task.ids(classes)
  end)
end


return {tasks = {patches = patches}, tokens = {patches = {y = NAMES}}}
