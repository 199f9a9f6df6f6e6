-- The counting task: are there more of one digit than of another?

local heed = require "heed"
local options = require "heed.internal.options"
local task = require "heed.tasks.task"

local WHO <const> = "tasks.counting"


-- Each rule gets count(d), the number of digits d in each sequence, (size, 1).
local RULES = {
  more = function(count, o) return count(o.more):gt(count(o.than)) end,
  harder = function(count, o)
    return count(o.more):gt(count(o.than)) | count(5):eq(count(8))
  end,
}


local function check_digit(name, value, digits)
  local digit = options.count(WHO, name, value, 0)
  if digit < digits then return digit end
  heed.fail("%s: a digit from 0 to %d expected as %s, got %d", WHO, digits - 1, name, digit)
end


---@class heed.tasks.counting.options
---@field more? integer the digit of which there must be more; 2 unless given
---@field than? integer the digit of which there must be fewer; 4 unless given
---@field digits? integer how many there are; 9 unless given, from 0 to 8
---@field length? integer of a sequence; 10 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "more"|"harder"|function

---Are there more 2s than 4s? A sequence of digits, and 1 where the rule holds.
---
---   x  3 2 8 2 0 4 7 1 5 2     y  1
---
---The rule "harder" also holds where there are as many 5s as 8s. A rule of your own gets
---`count`, which gives how often a digit is in each sequence, and returns a tensor of bools:
---`rule = function(count) return count(1):eq(count(2)) end`.
---@param given? heed.tasks.counting.options
---@return fun(): heed.Tensor, heed.Tensor batch ids (size, length) and bools as floats (size, 1)
local function counting(given, ...)
  options.no_more(WHO, 1, ...)
  local o = task.read(WHO, given, {
    digits = 9, length = 10, more = options.any, rule = options.any, than = options.any,
  })
  local rule = task.rule(WHO, o.rule, RULES, "more")
  o.more = check_digit("more", o.more == nil and 2 or o.more, o.digits)
  o.than = check_digit("than", o.than == nil and 4 or o.than, o.digits)
  return task.endless(WHO, o, function()
    local x = task.digits(o)
    local function count(digit)
      digit = options.count(WHO, "argument of count", digit, 0)
      return x:eq(digit + 1):sum(2, true)
    end
    return x, task.checked(WHO, rule(count, o), "bool", o.size, 1):to("float32")
  end)
end


return {tasks = {counting = counting}, tokens = {counting = {x = task.DIGITS}}}
