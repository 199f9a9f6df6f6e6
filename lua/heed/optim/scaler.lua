-- Loss scaling, for gradients in float16: PyTorch's GradScaler.
--
--   local scaler = optim.Scaler()
--   local loss = heed.autocast("float16", function() return heed.cross_entropy(model(x), y) end)
--   scaler:scale(loss):backward()
--   scaler:unscale_(opt)                        -- where gradients are clipped, say
--   optim.clip_grad_norm(opt.parameters, 1)
--   scaler:step(opt)
--   scaler:update()

local recording = require "heed.internal.recording"
local core = require "heed.core"
local heed = require "heed"
local optimizer = require "heed.optim.optimizer"
local options = require "heed.internal.options"
local state = require "heed.files.state"

local fail = heed.fail

---@class heed.Scaler
local Scaler = {__name = "Scaler"}

local KNOWN <const> = {
  backoff_factor = 0.5, growth_factor = 2, growth_interval = 2000, init_scale = 65536,
}


local function is_scaler(value)
  return type(value) == "table" and rawequal(getmetatable(value), Scaler)
end


---@class heed.Scaler.options
---@field init_scale? number 65536 unless given
---@field growth_factor? number of the scale, after growth_interval steps; 2 unless given
---@field backoff_factor? number of the scale, where a gradient was not finite; 0.5 unless given
---@field growth_interval? integer steps in a row with finite gradients; 2000 unless given

---A scale of losses that keeps small gradients in float16's range.
---@param given? heed.Scaler.options
---@return heed.Scaler
local function make(given, ...)
  options.no_more("optim.Scaler", 1, ...)
  local o = options.read("optim.Scaler", given, KNOWN)
  for _, name in ipairs{"init_scale", "growth_factor", "backoff_factor"} do
    if not (o[name] > 0 and o[name] < math.huge) then
      fail("optim.Scaler: a finite number above 0 expected as %s, got %s", name,
           options.kind(o[name]))
    end
  end
  if o.growth_factor < 1 or o.backoff_factor > 1 then
    fail("optim.Scaler: growth_factor of at least 1 and backoff_factor of at most 1 expected, got "
         .. "%s and %s", o.growth_factor, o.backoff_factor)
  end
  o.growth_interval = options.count("optim.Scaler", "growth_interval", o.growth_interval)
  return setmetatable({options = o, factor = o.init_scale + 0.0, steady = 0, found = {},
                       stepped = {}}, Scaler)
end


---The scale that losses are multiplied with now.
---@return number
function Scaler:get_scale()
  local factor = self.factor
  recording.expect(function() return self.factor == factor end)
  return factor
end


-- Refuses a function that reads values back within a capture.
local function refuse_capture(who)
  if not recording.running() then return end
  fail("%s: a scaler's unscale_, step and update cannot be captured: call them after the captured "
       .. "function", who)
end


---The loss times the scale, to go backward from.
---@param loss heed.Tensor
---@return heed.Tensor
function Scaler:scale(loss)
  if not heed.is_tensor(loss) then
    fail("scale: a tensor expected as loss, got %s", options.kind(loss))
  end
  return loss:to(loss.dtype == "float64" and "float64" or "float32") * self:get_scale()
end


local function check_optimizer(who, opt)
  if optimizer.is(opt) then return end
  fail("%s: an optimizer expected, got %s", who, options.kind(opt))
end


-- The gradients of an optimiser's parameters.
local function gradients_of(opt)
  local list = {}
  for i, p in ipairs(opt.parameters) do
    local g = p.grad
    if g and g.dtype == "float16" then
      fail("unscale_: gradients of float32 expected, got float16 for parameter %d; keep weights in "
           .. "float32, and use heed.autocast", i)
    end
    list[#list + 1] = g
  end
  return list
end


local function with(map, key, value)
  local longer = {}
  for k, v in pairs(map) do longer[k] = v end
  longer[key] = value
  return longer
end


-- Whether a gradient is not finite once it is multiplied with `share`.
local function look_for(opt, share)
  return not (core.clip_gradients(opt.parameters, math.huge) * share):isfinite():item()
end


-- The change that divides gradients, with which the fields of a list are set.
local function divide(who, gradients, share, list)
  core.commit(who, {op = "mul", number = share, targets = gradients, fields = list})
end


---Divides the gradients of an optimiser's parameters by the scale; `step` does it first where this
---did not.
---@param opt heed.Optimizer
function Scaler:unscale_(opt)
  refuse_capture("unscale_")
  check_optimizer("unscale_", opt)
  if self.found[opt] ~= nil then
    fail("unscale_: one call for each update expected: these gradients were divided already")
  end
  local gradients, share = gradients_of(opt), 1 / self.factor
  local found = with(self.found, opt, look_for(opt, share))
  divide("unscale_", gradients, share, {self, "found", found})
end


-- The gradients of an optimiser's parameters, divided by the scale, by parameter.
local function divided(opt, share)
  local scaled = {}
  for _, p in ipairs(opt.parameters) do
    if p.grad then scaled[p] = p.grad * share end
  end
  return scaled
end


-- Divides the gradients and makes a step of them, or divides them alone where one is not finite.
local function unscale_and_step(self, opt, list)
  local gradients, share = gradients_of(opt), 1 / self.factor
  local found = look_for(opt, share)
  table.move({self, "found", with(self.found, opt, found)}, 1, 3, #list + 1, list)
  if found then divide("step", gradients, share, list)
  else optimizer.step(opt, list, heed.no_grad(divided, opt, share)) end
  return not found
end


---A step of the optimiser, unless a gradient is infinite or NaN.
---@param opt heed.Optimizer
---@return boolean done false: it was left out
function Scaler:step(opt)
  refuse_capture("step")
  check_optimizer("step", opt)
  if self.stepped[opt] then fail("step: one call for each update expected, got a second one") end
  local found, list = self.found[opt], {self, "stepped", with(self.stepped, opt, true)}
  if found == nil then return unscale_and_step(self, opt, list) end
  if found then core.set_fields(list) else optimizer.step(opt, list) end
  return not found
end


---Makes the scale smaller where a gradient was not finite, and larger after many steps where all
---were.
function Scaler:update()
  refuse_capture("update")
  if next(self.found) == nil then
    fail("update: a step expected since the last update, there was none")
  end
  local found, factor, steady = false, self.factor, self.steady + 1
  for _, one in pairs(self.found) do found = found or one end
  if found then
    factor, steady = factor * self.options.backoff_factor, 0
  elseif steady == self.options.growth_interval then
    factor, steady = factor * self.options.growth_factor, 0
  end
  core.set_fields{self, "found", {}, self, "stepped", {}, self, "factor", factor,
                  self, "steady", steady}
end


-- Calls f(...), and forgets which gradients were divided, however the call ends: those of a step
-- that failed are not used again.
local function during(who, self, f, ...)
  local back = {fields = {self, "found", {}, self, "stepped", {}}}
  return core.commit_during(who, {}, back, f, ...)
end


---The scale, and how many steps in a row had finite gradients.
---@return table<string, heed.Tensor>
function Scaler:state()
  return {scale = heed.tensor(self.factor, {dtype = "float64"}),
          growth_tracker = heed.tensor(self.steady)}
end


---Lists how a state differs from what this scaler would load.
---@param given table<string, heed.Tensor>
---@return string[] problems empty if it fits
function Scaler:compare(given)
  state.check("load_state", given)
  local slots = {}
  for name, value in pairs(self:state()) do slots[#slots + 1] = {names = {name}, value = value} end
  local problems = state.compare(slots, given)
  if #problems > 0 then return problems end
  local scale, steady = given.scale:item(), given.growth_tracker:item()
  if not (scale > 0 and scale < math.huge) then problems[1] = "scale: above 0 expected" end
  if steady < 0 then problems[#problems + 1] = "growth_tracker: at least 0 expected" end
  return problems
end


---Goes on from a state.
---@param given table<string, heed.Tensor>
function Scaler:load_state(given, ...)
  state.check_arguments("load_state", 1, given, ...)
  state.refuse("load_state", self:compare(given))
  core.set_fields{self, "factor", given.scale:item(), self, "steady", given.growth_tracker:item()}
end


function Scaler:__tostring()
  return ("scaler of losses, scale = %g"):format(self.factor)
end


options.closed(Scaler, "optim.Scaler")
options.guard(Scaler, {
  compare = 1, get_scale = 0, load_state = math.huge, scale = 1, state = 0, step = 1, unscale_ = 1,
  update = 0,
}, {is = is_scaler, what = "a scaler", variable = "scaler"})


return {Scaler = make, during = during, is = is_scaler}
