-- heed.optim: optimisers, schedules and clipping, by PyTorch's formulas and names.
--
--   local opt = optim.AdamW(model:parameters(), {lr = 3e-4})
--   local rate = optim.warmup(100, optim.cosine(900))
--   for step = 1, 1000 do
--     opt:zero_grad()
--     loss(model, batch()):backward()
--     optim.clip_grad_norm(model:parameters(), 1)
--     opt.lr = 3e-4 * rate(step)
--     opt:step()
--   end
--
-- Denormal numbers in an optimiser's state become 0, where they would stay for ever.
--
-- A step is one fused call of the core for all parameters. The lists that it takes are made
-- once; each step only puts the gradients in.

local capture = require "heed.capture"
local core = require "heed.core"
local heed = require "heed"
local options = require "heed.options"
local parameter = require "heed.nn.parameter"
local state = require "heed.state"
local torch_names = require "heed.torch_names"

local fail = heed.fail
local optim_step = core.optim_step

local optim = {}

---@class heed.Optimizer
---@field lr number may be set at any time
---@field options table all options, by PyTorch's names; they may be set at any time, too
---@field parameters heed.Tensor[]
local Optimizer = {__name = "Optimizer"}


local function refuse_field(self, name)
  local known = {lr = true}
  for _, t in ipairs{self, Optimizer} do
    for key in next, t do known[key] = true end
  end
  if self.numbers[name] ~= nil then
    fail("%s: there is no '%s'; write opt.options.%s", self.who, name, name)
  end
  return options.refuse_name(self.who, name, known, torch_names.optimizer)
end


-- The rate stands among the other numbers, where it is checked.
function Optimizer:__index(name)
  if name == "lr" then return self.numbers.lr end
  if Optimizer[name] ~= nil then return Optimizer[name] end
  return refuse_field(self, name)
end


function Optimizer:__newindex(name, value)
  if name == "lr" then
    self.options.lr = value
  elseif Optimizer[name] ~= nil then
    fail("%s: a field expected, got '%s', which is a method", self.who, name)
  else
    refuse_field(self, name)
    rawset(self, name, value)
  end
end


local function is_optimizer(value)
  return type(value) == "table" and getmetatable(value) == Optimizer
end


local function check_parameters(who, parameters)
  if type(parameters) ~= "table" or getmetatable(parameters) or #parameters == 0 then
    fail("%s: a list of tensors expected, such as model:parameters(), got %s",
         who, options.kind(parameters))
  end
  options.check_list(who, parameters)
  local seen = {}
  for i = 1, options.last(parameters) do
    local p = parameters[i]
    if not heed.is_tensor(p) then
      fail("%s: a tensor expected as parameter %d, got %s", who, i, options.kind(p))
    elseif seen[p] then
      fail("%s: every parameter once expected, got parameter %d as %d again", who, seen[p], i)
    end
    seen[p] = i
  end
end


-- Refuses what no step could ever change. An nn.Parameter may be frozen for a while.
local function check_trainable(who, parameters)
  for i, p in ipairs(parameters) do
    if not p.is_leaf then
      fail("%s: a leaf expected as parameter %d, got %s that was computed; p:detach() is one",
           who, i, options.kind(p))
    elseif not p.requires_grad and parameter.role(p) ~= "parameter" then
      fail("%s: a tensor that requires grad expected as parameter %d, got %s that does not; "
           .. "p:requires_grad_()", who, i, options.kind(p))
    end
  end
end


local function check_betas(who, betas)
  if #betas ~= 2 then fail("%s: two numbers expected as betas, got %d", who, #betas) end
  for i, beta in ipairs(betas) do
    if type(beta) ~= "number" then
      fail("%s: two numbers expected as betas, got %s", who, options.kind(beta))
    elseif not (beta >= 0 and beta < 1) then
      fail("%s: a number from 0 to below 1 expected as betas[%d], got %s", who, i, beta)
    end
  end
end


local function check_options(who, o)
  for name, value in pairs(o) do
    if type(value) == "number" and name ~= "dampening" then options.positive(who, name, value) end
  end
  if o.dampening and not (math.abs(o.dampening) < math.huge) then
    fail("%s: a finite number expected as dampening, got %s", who, options.kind(o.dampening))
  end
  if o.betas then check_betas(who, o.betas) end
  if o.nesterov and (o.momentum <= 0 or o.dampening ~= 0) then
    fail("%s: nesterov needs momentum and no dampening, got momentum %s and dampening %s",
         who, o.momentum, o.dampening)
  end
end


-- Moves the state to the devices and types of the parameters.
local function follow(self)
  for i, p in ipairs(self.parameters) do
    for _, list in ipairs(self.memory) do
      if list[i] then
        list[i] = list[i]:to(p.device):to(p.dtype)
        heed.keep(list[i])
      end
    end
  end
end


-- The options as scripts see them: what is set is checked as what was given at first. `numbers`
-- are those of the steps.
local function checked(who, numbers, first)
  local function set(_, name, value)
    local o = {}
    if value == nil then heed.fail("%s: a value expected as %s, got nil", who, name) end
    options.read(who, {[name] = value}, first)
    for key in pairs(first) do o[key] = numbers[key] end
    o[name] = value
    check_options(who, o)
    numbers[name] = value
  end
  return setmetatable({}, {__index = numbers, __newindex = set,
                           __pairs = function() return pairs(numbers) end})
end


-- `names` are those of the state tensors of each parameter.
local function make(kind, who, parameters, o, names)
  check_parameters(who, parameters)
  check_trainable(who, parameters)
  check_options(who, o)
  local numbers = {}
  for name, value in pairs(o) do numbers[name] = value end
  local self = setmetatable({
    who = who, kind = kind, names = names, numbers = numbers, options = checked(who, numbers, o),
    parameters = {}, gradients = {}, counts = {}, memory = {}, made = false,
  }, Optimizer)
  for k in ipairs(names) do self.memory[k] = {} end
  for i, p in ipairs(parameters) do
    self.parameters[i], self.gradients[i], self.counts[i] = p, false, 0
    for k in ipairs(names) do self.memory[k][i] = false end
  end
  parameter.on_move(self, follow)
  return self
end


---@class heed.SGD.options
---@field lr? number 0.001 unless given
---@field momentum? number 0 unless given
---@field dampening? number of the momentum; 0 unless given
---@field nesterov? boolean
---@field weight_decay? number 0 unless given
---@field maximize? boolean

---Stochastic gradient descent, with momentum if it is given.
---@param parameters heed.Tensor[]
---@param given? heed.SGD.options
---@return heed.Optimizer
function optim.SGD(parameters, given, ...)
  options.no_more("optim.SGD", 2, ...)
  local o = options.read("optim.SGD", given, {
    lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0, maximize = false,
  })
  return make("sgd", "optim.SGD", parameters, o, o.momentum ~= 0 and {"momentum_buffer"} or {})
end


local function adam(kind, who, weight_decay, parameters, given, ...)
  options.no_more(who, 2, ...)
  local o = options.read(who, given, {
    lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = weight_decay, amsgrad = false,
    maximize = false,
  })
  local names = {"exp_avg", "exp_avg_sq", o.amsgrad and "max_exp_avg_sq" or nil}
  return make(kind, who, parameters, o, names)
end


---@class heed.Adam.options
---@field lr? number 0.001 unless given
---@field betas? number[] {0.9, 0.999} unless given
---@field eps? number 1e-8 unless given
---@field weight_decay? number 0 unless given, for AdamW 0.01
---@field amsgrad? boolean
---@field maximize? boolean

---Adam; its weight decay is added to the gradients.
---@param parameters heed.Tensor[]
---@param given? heed.Adam.options
---@return heed.Optimizer
function optim.Adam(parameters, given, ...)
  return adam("adam", "optim.Adam", 0, parameters, given, ...)
end


---Adam whose weight decay shrinks the weights themselves.
---@param parameters heed.Tensor[]
---@param given? heed.Adam.options
---@return heed.Optimizer
function optim.AdamW(parameters, given, ...)
  return adam("adamw", "optim.AdamW", 1e-2, parameters, given, ...)
end


-- Makes the state tensors of parameter i.
local function make_state(self, i)
  for _, list in ipairs(self.memory) do
    if not list[i] then
      list[i] = heed.zeros_like(self.parameters[i])
      heed.keep(list[i])
      self.made = true             -- in this step
    end
  end
end


-- The numbers of a step, as the captured work has them.
local function numbers_of(self, step)
  local o = self.numbers
  local betas = o.betas or {0, 0}
  return {step = step, lr = o.lr, beta1 = betas[1], beta2 = betas[2], eps = o.eps,
          weight_decay = o.weight_decay, momentum = o.momentum, dampening = o.dampening}
end


local function same_numbers(a, b)
  for name, value in pairs(a) do
    if b[name] ~= value then return false end
  end
  return true
end


local function copied(lists)
  local copies = {}
  for k, list in ipairs(lists) do copies[k] = table.move(list, 1, #list, 1, {}) end
  return copies
end


-- A captured step counts its replays by itself. Lua counts along, and sets the numbers that changed
-- otherwise. It is not replayed if it made state tensors, if these are others since, or if its
-- parameters have different step numbers by now.
local function note(self, number, gradients)
  local moved, memory, made = {}, copied(self.memory), self.made
  local last = numbers_of(self, number)
  for i, g in ipairs(gradients) do
    if g then moved[#moved + 1] = i end
  end
  local function ready()
    if made then return false end
    for _, i in ipairs(moved) do
      if self.counts[i] ~= self.counts[moved[1]] then return false end
      for k, list in ipairs(memory) do
        if self.memory[k][i] ~= list[i] then return false end
      end
    end
    return true
  end
  local function again()
    local step = self.counts[moved[1]] + 1
    for _, i in ipairs(moved) do self.counts[i] = step end
    last.step = last.step + 1
    local now = numbers_of(self, step)
    if same_numbers(now, last) then return nil end
    last = now
    self.numbers.step = step
    return self.numbers
  end
  capture.notes[#capture.notes + 1] = {ready = ready, again = again}
end


local function call(self, number, gradients)
  self.numbers.step = number
  optim_step(self.kind, self.parameters, gradients, self.memory, self.numbers)
  if capture.notes then note(self, number, gradients) end
end


-- Parameters that had no gradient in some step lag behind: one call for each step number.
local function call_apart(self)
  local groups = {}
  for i, g in ipairs(self.gradients) do
    if g then
      local number = self.counts[i] + 1
      if not groups[number] then
        groups[number] = {}
        for j = 1, #self.parameters do groups[number][j] = false end
      end
      groups[number][i] = g
    end
  end
  for number, gradients in pairs(groups) do call(self, number, gradients) end
end


---One step along the gradients. A parameter without one stays as it is.
function Optimizer:step()
  local parameters, gradients, counts = self.parameters, self.gradients, self.counts
  local number, apart
  self.made = false
  for i = 1, #parameters do
    local g = parameters[i].grad
    gradients[i] = g or false
    if g then
      if counts[i] == 0 then make_state(self, i) end
      number = number or counts[i] + 1
      apart = apart or number ~= counts[i] + 1
    end
  end
  if apart then call_apart(self) elseif number then call(self, number, gradients) end
  for i = 1, #parameters do
    if gradients[i] then gradients[i], counts[i] = false, counts[i] + 1 end
  end
end


---Forgets the gradients, or sets them to 0 in place.
---@param given? {set_to_none: boolean} true unless given
function Optimizer:zero_grad(given)
  local forget = given == nil
    or options.read("zero_grad", given, {set_to_none = true}).set_to_none
  for _, p in ipairs(self.parameters) do
    if forget then
      p.grad = nil
    elseif p.grad then
      p.grad:zero_()
    end
  end
end


-- The number of each parameter's steps, and the rate, as tensors.
local function numbers(self)
  return {
    step = heed.tensor(self.counts, {dtype = "int64"}),
    lr = heed.tensor(self.numbers.lr, {dtype = "float64"}),
  }
end


---The optimiser's state, as tensors by name, such as "exp_avg.1".
---@return table<string, heed.Tensor>
function Optimizer:state()
  local tensors = numbers(self)
  for k, name in ipairs(self.names) do
    for i, t in ipairs(self.memory[k]) do
      if t then tensors[name .. "." .. i] = t:detach() end
    end
  end
  return tensors
end


-- Numbers that no step can be made with.
local function wrong_numbers(given)
  local problems = {}
  local function check(name, n)
    if n >= 0 and n < math.huge then return end
    problems[#problems + 1] = ("%s: at least 0 expected, got %s"):format(name, options.kind(n))
  end
  check("lr", given.lr:item())
  for _, count in ipairs(given.step:totable()) do check("step", count) end
  return problems
end


---Lists how a state differs from what this optimiser would load.
---@param given table<string, heed.Tensor>
---@return string[] problems empty if it fits
---@return string? hint why that may be
function Optimizer:compare(given)
  state.check("load_state", given)
  local slots = {}
  for name, value in pairs(numbers(self)) do slots[#slots + 1] = {names = {name}, value = value} end
  local problems, hint = state.compare(slots, {step = given.step, lr = given.lr})
  if #problems == 0 then problems = wrong_numbers(given) end
  if #problems > 0 then return problems, hint end   -- nothing else can be judged
  for i, count in ipairs(given.step:totable()) do
    for _, name in ipairs(count > 0 and self.names or {}) do
      slots[#slots + 1] = {names = {name .. "." .. i}, value = self.parameters[i]}
    end
  end
  return state.compare(slots, given)
end


---Goes on from a state. If anything in it does not fit, one error lists all that doesn't, and
---nothing is loaded.
---@param given table<string, heed.Tensor>
function Optimizer:load_state(given, more)
  state.refuse_metadata("load_state", more)
  if more ~= nil then options.no_more("load_state", 1, more) end
  state.refuse("load_state", self:compare(given))
  local memory = {}
  heed.no_grad(function()
    for k, name in ipairs(self.names) do
      memory[k] = {}
      for i, p in ipairs(self.parameters) do
        local t = given[name .. "." .. i]
        memory[k][i] = t and t:to(p.device):clone() or false
        if t then heed.keep(memory[k][i]) end
      end
    end
  end)
  self.counts, self.memory = given.step:totable(), memory
  self.lr = given.lr:item()
end


function Optimizer:__tostring()
  local n = 0
  for _, p in ipairs(self.parameters) do n = n + p:numel() end
  return ("%s of %d tensors, %d numbers, lr = %g"):format(self.kind, #self.parameters, n, self.lr)
end


options.guard(Optimizer, {compare = 1, load_state = 2, state = 0, step = 0, zero_grad = 1},
              {is = is_optimizer, what = "an optimizer", variable = "opt"})


---Scales the gradients down so that their norm, taken over all of them, is at most `max`.
---@param parameters heed.Tensor[]
---@param max number
---@param norm_type? number|table 2 unless given; or the options
---@param given? {norm_type: number, error_if_nonfinite: boolean} whether a norm that is infinite
---or NaN raises, which waits for a GPU
---@return heed.Tensor norm what it was, 0-dimensional
function optim.clip_grad_norm(parameters, max, norm_type, given, ...)
  options.no_more("clip_grad_norm", 4, ...)
  if type(norm_type) ~= "number" then norm_type, given = nil, given or norm_type end
  local o = options.read("clip_grad_norm", given, {
    error_if_nonfinite = false, norm_type = norm_type or 2,
  })
  if heed.is_tensor(parameters) then parameters = {parameters} end
  check_parameters("clip_grad_norm", parameters)
  if type(max) ~= "number" or not (max >= 0) then
    fail("clip_grad_norm: a number of at least 0 expected as max, got %s", options.kind(max))
  elseif o.norm_type ~= o.norm_type then
    fail("clip_grad_norm: a number expected as norm_type, got %s", options.kind(o.norm_type))
  end
  local gradients, norms = {}, {}
  for _, p in ipairs(parameters) do gradients[#gradients + 1] = p.grad end
  if #gradients == 0 then return heed.zeros({}) end
  for i, g in ipairs(gradients) do norms[i] = heed.norm(g, o.norm_type) end
  local norm = heed.norm(heed.stack(norms), o.norm_type)
  if o.error_if_nonfinite and not norm:isfinite():item() then
    fail("clip_grad_norm: gradients whose norm is finite expected; it is infinite or NaN")
  end
  local scale = heed.clamp(max / (norm + 1e-6), {max = 1})
  for _, g in ipairs(gradients) do g:mul_(scale) end
  return norm
end


-- Schedules: functions from the step's number, which counts from 1, to what the rate is
-- multiplied with.

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
function optim.cosine(steps, given, ...)
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
function optim.linear(steps, given, ...)
  local n, o = check_schedule("optim.linear", {from = 1, to = 0}, steps, given, ...)
  return schedule("optim.linear", function(step)
    return o.from + (o.to - o.from) * math.min((step - 1) / n, 1)
  end)
end


---Multiplies by `gamma` after every so many steps.
---@param steps integer
---@param given? {gamma: number} 0.1 unless given
---@return heed.Schedule
function optim.step(steps, given, ...)
  local n, o = check_schedule("optim.step", {gamma = 0.1}, steps, given, ...)
  return schedule("optim.step", function(step)
    return o.gamma ^ ((step - 1) // n)
  end)
end


---Grows to 1 over so many steps; another schedule takes over from there, if one is given.
---@param steps integer
---@param next? heed.Schedule
---@return heed.Schedule
function optim.warmup(steps, next, ...)
  options.no_more("optim.warmup", 2, ...)
  steps = options.count("optim.warmup", "steps", steps, 0)
  if next ~= nil then options.callable("optim.warmup", "the schedule that follows", next) end
  return schedule("optim.warmup", function(step)
    if step <= steps then return step / steps end
    return next and next(step - steps) or 1
  end)
end


return options.strict("heed.optim", optim, torch_names.optim)
