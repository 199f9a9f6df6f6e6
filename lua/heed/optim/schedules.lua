-- Schedules: functions from the step's number, which counts from 1, to what a rate is multiplied
-- with.

local heed = require "heed"
local options = require "heed.internal.options"
local plateau = require "heed.optim.plateau"

local schedules = {}

---@alias heed.Schedule fun(step: integer): number

---@class heed.one_cycle.options
---@field pct_start? number the part of the steps in which the rate grows; 0.3 unless given
---@field anneal_strategy? "cos"|"linear" half a cosine wave or a line; "cos" unless given
---@field div_factor? number by which the first rate is smaller than the largest; 25 unless given
---@field final_div_factor? number by which the last rate is smaller than the first; 1e4 unless
---given
---@field three_phase? boolean down to the first rate as fast as up, then to the last one; false
---unless given

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


-- Half a cosine wave, or a line, from one factor to another; `done` is from 0 to 1.
local ANNEALING <const> = {
  cos = function(from, to, done) return to + (from - to) / 2 * (1 + math.cos(math.pi * done)) end,
  linear = function(from, to, done) return from + (to - from) * done end,
}

local ONE_CYCLE <const> = {
  anneal_strategy = "cos", div_factor = 25, final_div_factor = 1e4, pct_start = 0.3,
  three_phase = false,
}

local function check_one_cycle(o)
  local who <const> = "optim.one_cycle"
  if not rawget(ANNEALING, o.anneal_strategy) then
    heed.fail("%s: 'cos' or 'linear' expected as option anneal_strategy, got %s", who,
              options.kind(o.anneal_strategy))
  end
  options.probability(who, "option pct_start", o.pct_start)
  for _, name in ipairs{"div_factor", "final_div_factor"} do
    if options.positive(who, "option " .. name, o[name]) == 0 then
      heed.fail("%s: a finite number above 0 expected as option %s, got 0", who, name)
    end
  end
end


-- The phases of a cycle: where each ends, in steps from 0, and the factors there.
local function phases_of(n, o)
  local first, peak = 1 / o.div_factor, o.pct_start * n - 1
  local last = {n - 1, first / o.final_div_factor}
  if o.three_phase then return {{peak, 1}, {2 * o.pct_start * n - 2, first}, last}, first end
  return {{peak, 1}, last}, first
end


---PyTorch's OneCycleLR: up to 1 from 1 / div_factor, then down to 1 / div_factor /
---final_div_factor, where it stays. The optimiser's rate is max_lr; its momentum does not cycle.
---@param steps integer
---@param given? heed.one_cycle.options
---@return heed.Schedule
function schedules.one_cycle(steps, given, ...)
  local n, o = check_schedule("optim.one_cycle", ONE_CYCLE, steps, given, ...)
  check_one_cycle(o)
  local phases, first = phases_of(n, o)
  local anneal = ANNEALING[o.anneal_strategy]
  return schedule("optim.one_cycle", function(step)
    local at, begin, from = math.min(step, n) - 1, 0, first
    for i, phase in ipairs(phases) do
      local stop, to = phase[1], phase[2]
      if at <= stop or i == #phases then
        return anneal(from, to, stop > begin and (at - begin) / (stop - begin) or 1)
      end
      begin, from = stop, to
    end
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
  if plateau.is(next) then
    heed.fail("optim.warmup: a plateau learns losses, which would not reach it here; "
              .. "optim.plateau{warmup = %d} begins so itself", steps)
  end
  return schedule("optim.warmup", function(step)
    if step <= steps then return step / steps end
    return next and next(step - steps) or 1
  end)
end


return schedules
