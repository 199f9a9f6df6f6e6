-- Addition: two numbers, digit by digit, and their sum.

local heed = require "heed"
local options = require "heed.internal.options"
local task = require "heed.tasks.task"

local WHO <const> = "tasks.addition"
local TOKENS = task.joined(task.DIGITS, {"+", "="})
local IDS = task.by_token(TOKENS)

local MOST_DIGITS <const> = 17       -- so that sums are integers of 64 bits


-- The ids of digits of numbers (size), most significant first: (size, width).
local function digits_of(numbers, width)
  local columns = {}
  for k = width, 1, -1 do
    columns[k] = numbers:remainder(10) + 1
    numbers = numbers:floor_divide(10)
  end
  return heed.stack(columns, 2)
end


local RULES = {
  forward = function(y) return y end,
  reversed = function(y) return y:flip(2) end,
}


---@class heed.tasks.addition.options
---@field digits? integer of each number; 3 unless given
---@field size? integer of a batch; 100 unless given
---@field seed? integer of a generator of its own
---@field rule? "forward"|"reversed"|fun(y: heed.Tensor): heed.Tensor the order of the sum's digits:
---reversed, its last digit comes first, as one adds by hand

---The sum of two numbers, digit by digit.
---
---   x  0 5 7 + 9 6 4 =     y  1 0 2 1
---@param given? heed.tasks.addition.options
---@return fun(): heed.Tensor, heed.Tensor batch ids (size, 2 digits + 2) and (size, digits + 1)
local function addition(given, ...)
  options.no_more(WHO, 1, ...)
  local o = task.read(WHO, given, {digits = 3, rule = options.any})
  if o.digits > MOST_DIGITS then
    heed.fail("%s: at most %d digits expected, got %d", WHO, MOST_DIGITS, o.digits)
  end
  local rule = task.rule(WHO, o.rule, RULES, "forward")
  local function sign(token) return heed.full({o.size, 1}, IDS[token], {device = "cpu"}) end
  return task.endless(WHO, o, function()
    local most = math.tointeger(10 ^ o.digits) - 1
    local a = heed.randint(0, most, {o.size}, {device = "cpu"})
    local b = heed.randint(0, most, {o.size}, {device = "cpu"})
    local x = heed.cat({digits_of(a, o.digits), sign "+", digits_of(b, o.digits), sign "="}, 2)
    local y = rule(digits_of(a + b, o.digits + 1))
    return x, task.checked(WHO, y, "int64", o.size, o.digits + 1)
  end)
end


return {tasks = {addition = addition}, tokens = {addition = {x = TOKENS, y = task.DIGITS}}}
