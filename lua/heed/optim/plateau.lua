-- A schedule that makes the rate smaller where a loss no longer falls: PyTorch's ReduceLROnPlateau.
--
--   local plateau = optim.plateau{patience = 3}
--   plateau:update(validate())                   -- after each validation
--   opt.lr = 1e-3 * plateau(step)                -- heed.train does so: schedule = plateau

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local state = require "heed.files.state"

local fail = heed.fail

---@class heed.Plateau
local Plateau = {__name = "Plateau"}

local KNOWN <const> = {
  cooldown = 0, eps = 1e-8, factor = 0.1, min = 0, mode = "min", patience = 10, threshold = 1e-4,
  threshold_mode = "rel", warmup = 0,
}

local ELSEWHERE <const> = {min_lr = "min, a part of the optimiser's rate"}


local function is_plateau(value)
  return type(value) == "table" and rawequal(getmetatable(value), Plateau)
end


local function check_word(name, value, one, other)
  if value == one or value == other then return end
  fail("optim.plateau: '%s' or '%s' expected as option %s, got %s", one, other, name,
       options.kind(value))
end


---@class heed.plateau.options
---@field mode? "min"|"max" what is better, less or more; "min" unless given
---@field factor? number what the rate is multiplied by, below 1; 0.1 unless given
---@field patience? integer updates without a better value that change nothing; 10 unless given
---@field threshold? number by how much a value must be better; 1e-4 unless given
---@field threshold_mode? "rel"|"abs" a part of the best value, or a distance; "rel" unless given
---@field cooldown? integer updates after a change that do not count; 0 unless given
---@field min? number the least factor; 0 unless given
---@field eps? number the least change of the factor; 1e-8 unless given
---@field warmup? integer steps in which the factor grows from 0 on, as `optim.warmup` has it; 0
---unless given

---A schedule whose factor falls where a value does not get better.
---@param given? heed.plateau.options
---@return heed.Plateau
local function make(given, ...)
  options.no_more("optim.plateau", 1, ...)
  local o = options.read("optim.plateau", given, KNOWN, ELSEWHERE)
  check_word("mode", o.mode, "min", "max")
  check_word("threshold_mode", o.threshold_mode, "rel", "abs")
  for _, name in ipairs{"patience", "cooldown", "warmup"} do
    o[name] = options.count("optim.plateau", "option " .. name, o[name], 0)
  end
  for _, name in ipairs{"factor", "threshold", "min", "eps"} do
    options.positive("optim.plateau", "option " .. name, o[name])
  end
  if o.factor >= 1 then
    fail("optim.plateau: a number below 1 expected as option factor, got %s", o.factor)
  end
  return setmetatable({
    options = o, rate = 1.0, best = o.mode == "min" and math.huge or -math.huge, bad = 0,
    cooling = 0,
  }, Plateau)
end


-- Whether a value is better than the best one; NaN is not.
local function is_better(self, value)
  local o, best = self.options, self.best
  local sign = o.mode == "min" and -1 or 1
  local least = o.threshold_mode == "rel" and best * (1 + sign * o.threshold)
                or best + sign * o.threshold
  if o.mode == "min" then return value < least end
  return value > least
end


-- The factor behind a change, which is left out where it is too small.
local function reduced(self)
  local rate = math.max(self.rate * self.options.factor, self.options.min)
  return self.rate - rate > self.options.eps and rate or self.rate
end


---Counts a value, such as the loss of a validation: makes the factor smaller where too many of them
---in a row were no better.
---@param value number
---@return number factor
function Plateau:update(value)
  if type(value) ~= "number" then
    fail("update: a number expected as value, got %s", options.kind(value))
  end
  local better = is_better(self, value)
  local best, bad = better and value or self.best, better and 0 or self.bad + 1
  local cooling, rate = self.cooling, self.rate
  if cooling > 0 then cooling, bad = cooling - 1, 0 end
  if bad > self.options.patience then
    rate, cooling, bad = reduced(self), self.options.cooldown, 0
  end
  core.set_fields{self, "best", best + 0.0, self, "bad", bad, self, "cooling", cooling,
                  self, "rate", rate}
  return rate
end


-- The factor, as of any schedule.
function Plateau:__call(step, ...)
  options.no_more("optim.plateau", 1, ...)
  options.count("optim.plateau", "step", step)
  local warmup = self.options.warmup
  return step < warmup and self.rate * step / warmup or self.rate
end


---The factor, the best value, and how many updates were no better or are left to cool down.
---@return table<string, heed.Tensor>
function Plateau:state()
  return {factor = heed.tensor(self.rate, {dtype = "float64"}),
          best = heed.tensor(self.best, {dtype = "float64"}),
          num_bad_epochs = heed.tensor(self.bad), cooldown_counter = heed.tensor(self.cooling)}
end


---Lists how a state differs from what this schedule would load.
---@param given table<string, heed.Tensor>
---@return string[] problems empty if it fits
function Plateau:compare(given)
  state.check("load_state", given)
  local slots = {}
  for name, value in pairs(self:state()) do slots[#slots + 1] = {names = {name}, value = value} end
  local problems = state.compare(slots, given)
  if #problems > 0 then return problems end
  local factor = given.factor:item()
  if not (factor >= 0 and factor <= 1) then problems[1] = "factor: from 0 to 1 expected" end
  for _, name in ipairs{"num_bad_epochs", "cooldown_counter"} do
    if given[name]:item() < 0 then problems[#problems + 1] = name .. ": at least 0 expected" end
  end
  return problems
end


---Goes on from a state.
---@param given table<string, heed.Tensor>
function Plateau:load_state(given, ...)
  state.check_arguments("load_state", 1, given, ...)
  state.refuse("load_state", self:compare(given))
  core.set_fields{self, "rate", given.factor:item(), self, "best", given.best:item(),
                  self, "bad", given.num_bad_epochs:item(),
                  self, "cooling", given.cooldown_counter:item()}
end


function Plateau:__tostring()
  return ("schedule of plateaus, factor = %g"):format(self.rate)
end


options.closed(Plateau, "optim.plateau")
options.guard(Plateau, {compare = 1, load_state = math.huge, state = 0, update = 1},
              {is = is_plateau, what = "a plateau", variable = "plateau"})


return {plateau = make, is = is_plateau}
