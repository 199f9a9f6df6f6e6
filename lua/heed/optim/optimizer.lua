-- The class of all optimisers: groups of parameters, their steps, their state.

local recording = require "heed.internal.recording"
local core = require "heed.core"
local Group = require "heed.optim.group"
local heed = require "heed"
local lent = require "heed.internal.lent"
local options = require "heed.internal.options"
local parameters_of = require "heed.optim.parameters"
local state = require "heed.files.state"
local torch_names = require "heed.internal.torch_names"

local fail, optim_step = heed.fail, core.optim_step

---@class heed.Optimizer
---@field groups heed.Optimizer.group[]
---@field lr number the rate of all groups; may be set at any time, for all of them
---@field options table all options, by PyTorch's names; they may be set at any time, too, for all
---groups. Options that may differ between groups are fields of the groups. A pair that is set is
---copied; what is written into the pair that is read, options.betas[1] = 0.95, sets the option.
---@field parameters heed.Tensor[] of all groups
local Optimizer = {__name = "Optimizer"}

local function INNER() end           -- the key of what scripts don't see


local function refuse_field(self, name)
  local inner = self[INNER]
  local known = {lr = inner.groups[1].numbers.lr}
  for _, t in ipairs{inner.fields, Optimizer} do
    for key, value in next, t do known[key] = value end
  end
  if inner.groups[1].known[name] ~= nil then
    fail("%s: there is no '%s'; write opt.options.%s", inner.who, name, name)
  end
  return options.refuse_name(inner.who, name, known, torch_names.optimizer)
end


function Optimizer:__index(name)
  local inner = type(self) == "table" and rawget(self, INNER)
  if not inner then
    fail("__index: an optimizer expected as the first argument, got %s", options.kind(self))
  end
  local fields = inner.fields
  if fields[name] ~= nil then return fields[name] end
  if name == "lr" then return fields.options.lr end
  if Optimizer[name] ~= nil then return Optimizer[name] end
  return refuse_field(self, name)
end


-- The rate stands among the other options, where it is checked.
function Optimizer:__newindex(name, value)
  local inner = self[INNER]
  if name == "lr" then
    inner.fields.options.lr = value
  elseif Optimizer[name] ~= nil then
    fail("%s: a field expected, got '%s', which is a method", inner.who, name)
  elseif inner.fields[name] ~= nil then
    fail("%s: '%s' cannot be set; lr and the fields of opt.options can", inner.who, name)
  else
    refuse_field(self, name)
    fail("%s: the name of a field expected, got %s", inner.who, options.kind(name))
  end
end


local function is_optimizer(value)
  return type(value) == "table" and rawequal(getmetatable(value), Optimizer)
end


local function same(a, b)
  if type(a) ~= "table" then return a == b end
  for i, value in ipairs(a) do
    if b[i] ~= value then return false end
  end
  return true
end


-- The options that all groups have in common.
local function common(who, groups)
  local function get(name)
    local value = groups[1].numbers[name]
    for i = 2, #groups do
      if not same(value, groups[i].numbers[name]) then
        fail("%s: the groups differ in %s; read opt.groups[i].%s%s", who, name,
             name == "lr" and "" or "options.", name)
      end
    end
    return value
  end
  local function set(name, value)
    local list = {}
    for _, group in ipairs(groups) do group:change(name, value, list) end
    core.set_fields(list)
  end
  return Group.options_view(who, groups[1].known, get, set)
end


-- Groups as they were given: lists of parameters with their own options, or one list.
local function read_groups(who, given, o)
  local first = type(given) == "table" and not getmetatable(given) and given[1]
  if type(first) ~= "table" or getmetatable(first) then return {{params = given, options = o}} end
  options.check_list(who, given)
  local groups, known = {}, {params = options.any}
  for name, value in pairs(o) do known[name] = value end
  for i = 1, options.last(given) do
    local group = given[i]
    if type(group) ~= "table" or getmetatable(group) then
      fail("%s: {params = ...} expected as group %d, got %s", who, i, options.kind(group))
    end
    local read = options.read(who, group, known, torch_names.optimizer_options)
    groups[i] = {params = read.params, options = read}
    read.params = nil
  end
  return groups
end


---@param kind string the name of its row in src/op/optimizers.def
---@param who string
---@param given heed.Tensor[]|table[] parameters, or groups: {params = list, ...}
---@param o table options, all of them
---@return heed.Optimizer
function Optimizer.make(kind, who, given, o)
  local groups, places, taken, steps = {}, {}, {}, {}
  local fields = {groups = {}, parameters = {}}
  local read = read_groups(who, given, o)
  for i, group in ipairs(read) do
    parameters_of.check(who, group.params, taken, #read > 1 and i or nil)
    parameters_of.check_trainable(who, group.params, #read > 1 and i or nil)
    groups[i] = Group.new(kind, who, group.params, group.options, steps)
    fields.groups[i] = groups[i].seen
    for k, p in ipairs(group.params) do
      fields.parameters[#places + 1] = p
      places[#places + 1] = {group = groups[i], i = k}
    end
  end
  fields.options = common(who, groups)
  local inner = {
    who = who, kind = kind, groups = groups, places = places, fields = fields,
    steps = steps,
  }
  return setmetatable({[INNER] = inner}, Optimizer)
end


-- A step where all parameters of each group have as many steps; false if any has no gradient.
local function step_even(inner, list)
  for _, group in ipairs(inner.groups) do
    if not group.even then return false end
  end
  return optim_step(inner.steps, list)
end


-- Refuses a step while a call has the parameters' values, or their modules' modes, in its hands.
local function check_free(parameters)
  local why = lent.refusal(parameters)
  if why then fail("step: %s", why) end
  if recording.running() then
    recording.expect(function() return lent.is_free(parameters) end)
  end
end


-- One step along the gradients, with which the fields of a list are set, if there is one. Gradients
-- by parameter, in `scaled`, take the place of those that there are, which are set to them.
local function step(self, list, scaled)
  local inner = self[INNER]
  check_free(inner.fields.parameters)
  if not scaled and not recording.running() and step_even(inner, list) then return end
  local steps, targets, operands = {}, {}, {}
  list = list or {}
  for _, group in ipairs(inner.groups) do group:add_step(steps, list, scaled) end
  for p, g in pairs(scaled or {}) do
    targets[#targets + 1], operands[#operands + 1] = p.grad, g
  end
  optim_step(steps, list, targets, operands)
end


---One step along the gradients. A parameter without one stays as it is.
function Optimizer:step() step(self) end


-- The changes that set all gradients to 0.
local function zeros_for(parameters)
  local gradients, zeros, zero = {}, {}, {}
  for _, p in ipairs(parameters) do
    local g = p.grad
    if g then
      zero[g.device] = zero[g.device] or heed.zeros({}, {device = g.device})
      gradients[#gradients + 1], zeros[#zeros + 1] = g, zero[g.device]
    end
  end
  return {targets = gradients, operands = zeros}
end


---Forgets the gradients, or sets them to 0 in place.
---@param given? {set_to_none: boolean} true unless given
function Optimizer:zero_grad(given)
  local forget = given == nil
    or options.read("zero_grad", given, {set_to_none = true}).set_to_none
  local parameters = self[INNER].fields.parameters
  if forget then core.commit("zero_grad", {takers = parameters})
  else core.commit("zero_grad", zeros_for(parameters)) end
end


-- The number of each parameter's steps, and the rate of each group, as tensors.
local function numbers(self)
  local counts, rates = {}, {}
  for i, group in ipairs(self[INNER].groups) do
    for k in ipairs(group.parameters) do
      counts[#counts + 1] = group:is_saved(k) and group:count(k) or 0
    end
    rates[i] = group.numbers.lr
  end
  return {
    step = heed.tensor(counts, {dtype = "int64"}),
    lr = heed.tensor(#rates == 1 and rates[1] or rates, {dtype = "float64"}),
  }
end


---The optimiser's state, as tensors by name, such as "exp_avg.1": parameters are counted through
---all groups. Weights that have become blocks have no steps, and no states.
---@return table<string, heed.Tensor>
function Optimizer:state()
  local tensors = numbers(self)
  for n, at in ipairs(self[INNER].places) do
    for k, name in ipairs(at.group:is_saved(at.i) and at.group.names or {}) do
      local t = at.group.lists[k][at.i]
      if t then tensors[name .. "." .. n] = t:detach() end
    end
  end
  return tensors
end


local NO_STATE <const> = "an optimiser's state has 'step', 'lr', and such names as 'exp_avg.1'"

-- Numbers that no step can be made with.
local function wrong_numbers(given)
  local problems = {}
  local function check(name, n)
    if n >= 0 and n < math.huge then return end
    problems[#problems + 1] = ("%s: at least 0 expected, got %s"):format(name, options.kind(n))
  end
  for _, rate in ipairs(given.lr:flatten():totable()) do check("lr", rate) end
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
  local problems = state.compare(slots, {step = given.step, lr = given.lr})
  if #problems == 0 then problems = wrong_numbers(given) end
  if #problems > 0 then              -- nothing else can be judged
    return problems, given.step == nil and (select(2, state.compare(slots, given)) or NO_STATE)
  end
  local counts = given.step:totable()
  for n, at in ipairs(self[INNER].places) do
    local is_there = counts[n] > 0 and at.group:is_saved(at.i)
    for _, name in ipairs(is_there and at.group.names or {}) do
      slots[#slots + 1] = {names = {name .. "." .. n}, value = at.group.parameters[at.i]}
    end
  end
  return state.compare(slots, given)
end


---Goes on from a state. If anything in it does not fit, one error lists all that doesn't, and
---nothing is loaded.
---@param given table<string, heed.Tensor>
function Optimizer:load_state(given, ...)
  state.check_arguments("load_state", 1, given, ...)
  state.refuse("load_state", self:compare(given))
  local counts, rates, before = given.step:totable(), given.lr:flatten():totable(), 0
  local list = {}
  heed.no_grad(function()
    for i, group in ipairs(self[INNER].groups) do
      group:load(given, counts, before, rates[i], list)
      before = before + #group.parameters
    end
  end)
  core.set_fields(list)
end


function Optimizer:__tostring()
  local inner, n, rates = self[INNER], 0, {}
  for _, p in ipairs(inner.fields.parameters) do n = n + p:numel() end
  for i, group in ipairs(inner.groups) do rates[i] = ("%g"):format(group.numbers.lr) end
  return ("%s of %d tensors, %d numbers, lr = %s"):format(
    inner.kind:lower(), #inner.fields.parameters, n, table.concat(rates, ", "))
end


-- The fields that set the rate of each group.
local function rate_fields(self, rates)
  local list = {}
  for i, group in ipairs(self[INNER].groups) do group:change("lr", rates[i], list) end
  return list
end


-- The options of each group, whatever a script has put into `groups`.
local function options_of(self)
  local list = {}
  for i, group in ipairs(self[INNER].groups) do list[i] = group:all_options() end
  return list
end


-- The fields that set options of groups, by the numbers of groups and the names of options.
local function option_fields(self, values)
  local list = {}
  for i, group in ipairs(self[INNER].groups) do group:change_all(values[i] or {}, list) end
  return list
end


local make = Optimizer.make
Optimizer.make = nil

options.guard(Optimizer, {compare = 1, load_state = math.huge, state = 0, step = 0, zero_grad = 1},
              {is = is_optimizer, what = "an optimizer", variable = "opt"})


return {is = is_optimizer, make = make, option_fields = option_fields, options_of = options_of,
        rate_fields = rate_fields, step = step}
