-- The parts that all tasks share: options, rules, and endless batches.

local core = require "heed.core"
local endless = require "heed.internal.endless"
local heed = require "heed"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"

local fail = heed.fail

local task = {}

local BLOCK <const> = 256


---Reads a task's options; those whose default is a number are counts from 1.
---@param who string
---@param given any
---@param known table<string, any> besides size and seed
---@return table
function task.read(who, given, known)
  local all = {seed = options.any, size = 100}
  for name, default in pairs(known) do all[name] = default end
  local o = options.read(who, given, all)
  for name, default in pairs(all) do
    if math.type(default) == "integer" then o[name] = options.count(who, name, o[name]) end
  end
  return o
end


---Refuses a batch of more words than tables are to hold.
---@param who string
---@param size integer
---@param length integer
function task.check_words(who, size, length)
  core.check_entries(who, 1.0 * size * length, "words of a batch")
end


---The function that an option `rule` means: one of those with names, or a function of the user's.
---@param who string
---@param rule any
---@param named table<string, function>
---@param default string
---@return function
function task.rule(who, rule, named, default)
  if rule == nil then rule = default end
  if type(rule) ~= "string" then return options.callable(who, "rule", rule) end
  if rawget(named, rule) then return named[rule] end
  fail("%s: unknown rule '%s'; %s", who, rule, options.hint(rule, options.names(named)))
end


---Checks the result of a rule, which may be the user's function.
---@param who string
---@param y any
---@param dtype string
---@param ... integer the shape
---@return heed.Tensor
function task.checked(who, y, dtype, ...)
  local wanted = "(" .. table.concat({...}, ", ") .. ")"
  if options.is_alive(y) and y.dtype == dtype and tostring(y.shape) == wanted then return y end
  fail("%s: a tensor of type %s and shape %s expected from rule, got %s", who, dtype, wanted,
       options.typed(y))
end


---The function that returns the next batch: `draw` makes it on the CPU, so that its numbers are the
---same for each device.
---@param who string
---@param o table
---@param draw fun(): heed.Tensor, heed.Tensor, heed.Tensor?
---@return fun(): heed.Tensor, heed.Tensor, heed.Tensor?
function task.endless(who, o, draw)
  local generator = rng.own(who, o.seed)
  return endless.mark(function()
    local x, y, z = generator:run(draw)
    local device = heed.default_device()
    return x:to(device), y:to(device), z and z:to(device)
  end)
end


---Ids of random digits.
---@param o {digits: integer, size: integer, length: integer}
---@return heed.Tensor (size, length)
function task.digits(o)
  return heed.randint(1, o.digits, {o.size, o.length}, {device = "cpu"})
end


---A function of n that gives a whole number from 1 to n; numbers are drawn in blocks.
---@return fun(n: integer): integer
function task.dice()
  local numbers, i = {}, 0
  return function(n)
    if i == #numbers then
      numbers, i = heed.rand(BLOCK, {device = "cpu", dtype = "float64"}):totable(), 0
    end
    i = i + 1
    return math.floor(numbers[i] * n) + 1
  end
end


---Makes a tensor of ids of a table of rows.
---@param rows integer[][]|integer[]
---@return heed.Tensor
function task.ids(rows)
  return heed.tensor(rows, {dtype = "int64", device = "cpu"})
end


---Ids by token.
---@param tokens string[]
---@return table<string, integer>
function task.by_token(tokens)
  local ids = {}
  for id, token in ipairs(tokens) do ids[token] = id end
  return ids
end


---Concatenates lists.
---@param ... string[]
---@return string[]
function task.joined(...)
  local all = {}
  for _, list in ipairs{...} do table.move(list, 1, #list, #all + 1, all) end
  return all
end


task.DIGITS = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

return task
