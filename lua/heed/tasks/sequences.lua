-- Tasks from a sequence to one of the same length: sorting, copy, reverse.

local options = require "heed.internal.options"
local task = require "heed.tasks.task"

local RULES = {
  ascending = function(x) return (x:sort(2)) end,
  backwards = function(x) return x:flip(2) end,
  descending = function(x) return (x:sort(2, true)) end,
  same = function(x) return x:clone() end,
}


---@class heed.tasks.sequence.options
---@field digits? integer how many there are; 10 unless given, from 0 to 9
---@field length? integer of a sequence; 10 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "ascending"|"descending"|"same"|"backwards"|fun(x: heed.Tensor): heed.Tensor what
---becomes of ids (size, length)

local function maker(name, default)
  local who = "tasks." .. name
  return function(given, ...)
    options.no_more(who, 1, ...)
    local o = task.read(who, given, {digits = 10, length = 10, rule = options.any})
    local rule = task.rule(who, o.rule, RULES, default)
    return task.endless(who, o, function()
      local x = task.digits(o)
      return x, task.checked(who, rule(x), "int64", o.size, o.length)
    end)
  end
end


local both = {x = task.DIGITS, y = task.DIGITS}

return {
  tasks = {
    ---The same digits, in order.
    ---
    ---   x  3 1 8 1     y  1 1 3 8
    ---@type fun(given?: heed.tasks.sequence.options): fun(): heed.Tensor, heed.Tensor
    sorting = maker("sorting", "ascending"),

    ---The same digits once more.
    ---
    ---   x  3 1 8 1     y  3 1 8 1
    ---@type fun(given?: heed.tasks.sequence.options): fun(): heed.Tensor, heed.Tensor
    copy = maker("copy", "same"),

    ---The same digits from the end.
    ---
    ---   x  3 1 8 1     y  1 8 1 3
    ---@type fun(given?: heed.tasks.sequence.options): fun(): heed.Tensor, heed.Tensor
    reverse = maker("reverse", "backwards"),
  },
  tokens = {sorting = both, copy = both, reverse = both},
}
