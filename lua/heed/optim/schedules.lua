-- Schedules: functions from the step's number, which counts from 1, to what a rate is multiplied
-- with.

local options = require "heed.internal.options"

local schedules = {}

---@alias heed.Schedule fun(step: integer): number

-- A schedule whose steps are checked; `who` made it.
local function schedule(who, factor)
  return function(step, ...)
    options.no_more(who, 1, ...)
    return factor(options.count(who, "step", step))
  end
end


local function check_schedule(who, known, steps, given, ...)
  options.no_more(who, 2, ...)
  return options.count(who, "steps", steps), options.read(who, given, known)
end


---Half a cosine wave from 1 down to `min`, then `min`.
---@param steps integer
---@param given? {min: number} 0 unless given
---@return heed.Schedule
function schedules.cosine(steps, given, ...)
  local n, o = check_schedule("optim.cosine", {min = 0}, steps, given, ...)
  return schedule("optim.cosine", function(step)
    local done = math.min((step - 1) / n, 1)
    return o.min + (1 - o.min) * (1 + math.cos(math.pi * done)) / 2
  end)
end


---A straight line between two factors, then the second.
---@param steps integer
---@param given? {from: number, to: number} from 1 to 0 unless given
---@return heed.Schedule
function schedules.linear(steps, given, ...)
  local n, o = check_schedule("optim.linear", {from = 1, to = 0}, steps, given, ...)
  return schedule("optim.linear", function(step)
    return o.from + (o.to - o.from) * math.min((step - 1) / n, 1)
  end)
end


---Multiplies by `gamma` after every so many steps.
---@param steps integer
---@param given? {gamma: number} 0.1 unless given
---@return heed.Schedule
function schedules.step(steps, given, ...)
  local n, o = check_schedule("optim.step", {gamma = 0.1}, steps, given, ...)
  return schedule("optim.step", function(step)
    return o.gamma ^ ((step - 1) // n)
  end)
end


---Grows to 1 over so many steps; another schedule takes over from there, if one is given.
---@param steps integer
---@param next? heed.Schedule
---@return heed.Schedule
function schedules.warmup(steps, next, ...)
  options.no_more("optim.warmup", 2, ...)
  steps = options.count("optim.warmup", "steps", steps, 0)
  if next ~= nil then options.callable("optim.warmup", "the schedule that follows", next) end
  return schedule("optim.warmup", function(step)
    if step <= steps then return step / steps end
    return next and next(step - steps) or 1
  end)
end


return schedules
