-- heed.tasks: small tasks that show what attention can do. Each gives fresh batches for ever:
--
--   for x, y in tasks.counting{size = 32} do … end
--
--   local batch = tasks.counting{size = 32}
--   local x, y = batch()
--
-- What they give are ids, which count from 1: digit d is id d + 1. They draw from the module's
-- generator, or from one of their own if they get a seed.

local heed = require "heed"
local options = require "heed.options"

local tasks = {}


-- Puts another state into the module's generator while f runs; gives that state as f left it,
-- and what f returned.
local function with_generator(state, f, ...)
  local outer = heed.rng_state()
  heed.rng_state(state)
  local results = table.pack(pcall(f, ...))
  local left = heed.rng_state()
  heed.rng_state(outer)
  if not results[1] then error(results[2], 0) end
  return left, table.unpack(results, 2, results.n)
end


local function keep_state(hold, state, ...)
  hold.state = state
  return ...
end


local function check_seed(who, seed)
  if seed == nil or type(seed) == "number" and math.tointeger(seed) then return seed end
  heed.fail("%s: a whole number expected as option seed, got %s", who, options.kind(seed))
end


-- The function that gives the next batch; with a seed it has a generator of its own.
local function endless(draw, seed)
  if seed == nil then return function() return draw() end end
  local hold = {}
  hold.state = with_generator(heed.rng_state(), heed.manual_seed, seed)
  return function() return keep_state(hold, with_generator(hold.state, draw)) end
end


-- count(d) gives how many digits d there are in each sequence, (size, 1).
local FORMULAS = {
  more = function(count, o) return count(o.more):gt(count(o.than)) end,
  harder = function(count, o)
    return count(o.more):gt(count(o.than)) | count(5):eq(count(8))
  end,
}


local function formula_of(rule)
  if type(rule) ~= "string" then return options.callable("tasks.counting", "rule", rule) end
  if FORMULAS[rule] then return FORMULAS[rule] end
  heed.fail("tasks.counting: unknown rule '%s'; %s", rule,
            options.hint(rule, options.names(FORMULAS)))
end


local function check_digit(name, value, digits)
  local digit = options.count("tasks.counting", name, value, 0)
  if digit < digits then return digit end
  heed.fail("tasks.counting: a digit from 0 to %d expected as %s, got %d",
            digits - 1, name, digit)
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
function tasks.counting(given, ...)
  options.no_more("tasks.counting", 1, ...)
  local o = options.read("tasks.counting", given, {
    digits = 9, length = 10, more = 2, rule = options.any, seed = options.any, size = 100, than = 4,
  })
  local rule = formula_of(o.rule == nil and "more" or o.rule)
  for _, name in ipairs{"digits", "length", "size"} do
    o[name] = options.count("tasks.counting", name, o[name])
  end
  o.more = check_digit("more", o.more, o.digits)
  o.than = check_digit("than", o.than, o.digits)

  return endless(function()
    local x = heed.randint(1, o.digits, {o.size, o.length}, {device = "cpu"})
    x = x:to(heed.default_device())              -- the same sequences everywhere
    local function count(digit) return x:eq(digit + 1):sum(2, true) end
    return x, rule(count, o):to("float32")
  end, check_seed("tasks.counting", o.seed))
end


return options.strict("heed.tasks", tasks)
