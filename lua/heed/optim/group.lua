-- A group of an optimiser's parameters, which have their options in common.
--
-- A step is one fused call of the core for all parameters of the group. The lists that it takes
-- are made once; each step only puts the gradients in.

local capture = require "heed.capture"
local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"

local fail = heed.fail
local optim_step = core.optim_step

---A row of src/op/optimizers.def. Objects hold its name: a script can reach what they hold.
---@class heed.Optimizer.kind
---@field options table<string, {default: any, least?: number, below?: number}>
---@field states {name: string, option?: string}[] one with an option is there where that is not 0
---@field fills boolean whether the first step of a state fills it, instead of starting from 0

---@type table<string, heed.Optimizer.kind>
local KINDS <const> = core.optimizers()

---@class heed.Optimizer.group
---@field lr number may be set at any time
---@field options table all options, by PyTorch's names; they may be set at any time, too
---@field parameters heed.Tensor[] a list of its own

---A group as steps work on it. Scripts see a heed.Optimizer.group of it, `seen`.
---@class heed.Optimizer.inner
---@field parameters heed.Tensor[]
---@field names string[] of the states that a step needs now
---@field memory table<string, (heed.Tensor|false)[]> all states, by name
---@field counts integer[] steps of each parameter
---@field even boolean whether all have their states, and as many steps
local Group = {}
Group.__index = Group


local function check_number(who, name, value, known)
  if known.least == 0 and known.below == math.huge then
    options.positive(who, name, value)
  elseif known.below == math.huge then
    if math.abs(value) < math.huge then return end
    fail("%s: a finite number expected as %s, got %s", who, name, options.kind(value))
  elseif not (value >= known.least and value < known.below) then
    fail("%s: a number from %g to below %g expected as %s, got %s", who, known.least, known.below,
         name, value)
  end
end


local function check_pair(who, name, pair, known)
  if #pair ~= 2 then fail("%s: two numbers expected as %s, got %d", who, name, #pair) end
  for i, value in ipairs(pair) do
    if type(value) ~= "number" then
      fail("%s: two numbers expected as %s, got %s", who, name, options.kind(value))
    end
    check_number(who, ("%s[%d]"):format(name, i), value, known)
  end
end


-- The types are those of the defaults.
local function check_options(who, o, rows)
  for name, known in pairs(rows) do
    local kind = type(known.default)
    if kind == "table" then
      check_pair(who, name, o[name], known)
    elseif kind == "number" then
      check_number(who, name, o[name], known)
    end
  end
  if o.nesterov and (o.momentum <= 0 or o.dampening ~= 0) then
    fail("%s: nesterov needs momentum and no dampening, got momentum %s and dampening %s",
         who, o.momentum, o.dampening)
  end
end


-- The names of the states that steps with these options need.
local function states_of(kind, o)
  local names = {}
  for _, state in ipairs(KINDS[kind].states) do
    local value = state.option == nil or o[state.option]
    if value and value ~= 0 then names[#names + 1] = state.name end
  end
  return names
end


-- A list of no states, one for each parameter.
local function none(parameters)
  local list = {}
  for i = 1, #parameters do list[i] = false end
  return list
end


-- Adds to a list of fields the states that steps with these numbers need, of those in memory.
local function arrange(self, numbers, memory, list)
  local names, lists = states_of(self.kind, numbers), {}
  for k, name in ipairs(names) do lists[k] = memory[name] end
  fields.add(list, self, "names", names)
  fields.add(list, self, "lists", lists)
  fields.add(list, self, "prepared", {})
  fields.add(list, self, "even", false)
end


---Adds to a list of fields those that set an option, which is checked as what was given at first.
---@param name string
---@param value any
---@param list any[]
function Group:change(name, value, list)
  local o = {}
  if value == nil then fail("%s: a value expected as %s, got nil", self.who, name) end
  options.read(self.who, {[name] = value}, self.known)
  for key in pairs(self.known) do o[key] = self.numbers[key] end
  o[name] = value
  check_options(self.who, o, KINDS[self.kind].options)
  fields.add(list, self.numbers, name, value)
  if #states_of(self.kind, o) ~= #self.names then arrange(self, o, self.memory, list) end
end


---Sets an option.
---@param name string
---@param value any
function Group:set(name, value)
  local list = {}
  self:change(name, value, list)
  core.commit(self.who, {fields = list})
end


---A table whose fields are read and set by functions.
---@param get fun(name: any): any
---@param set fun(name: any, value: any)
---@param all fun(): table what pairs walks
---@return table
function Group.proxy(get, set, all)
  return setmetatable({}, {
    __index = function(_, name) return get(name) end,
    __newindex = function(_, name, value) set(name, value) end,
    __pairs = function() return pairs(all()) end,
  })
end


-- The group as scripts see it.
local function seen(self)
  local shown = {
    parameters = table.move(self.parameters, 1, #self.parameters, 1, {}),
    options = Group.proxy(function(name) return self.numbers[name] end,
                          function(name, value) self:set(name, value) end,
                          function() return self.numbers end),
  }
  local known = {lr = true, options = true, parameters = true}
  local function refuse(name)
    if self.known[name] ~= nil then
      fail("%s: a group has no '%s'; write group.options.%s", self.who, name, name)
    end
    return options.refuse_name(self.who, name, known, {params = "group.parameters"})
  end
  local function set(name, value)
    if name ~= "lr" then
      if not shown[name] then refuse(name) end
      fail("%s: lr and the options of a group can be set, got %s", self.who, options.kind(name))
    end
    self:set("lr", value)
  end
  return Group.proxy(function(name)
    if name == "lr" then return self.numbers.lr end
    return shown[name] or refuse(name)
  end, set, function() return shown end)
end


-- The state moves to the devices and types of the parameters.
local function follow(self, becomes, list)
  for _, states in pairs(self.memory) do
    parameter.follow(list, states, self.parameters, becomes)
  end
end


---@param kind string a name of KINDS
---@param who string
---@param parameters heed.Tensor[] that were checked
---@param o table options, all of them
---@return heed.Optimizer.inner
function Group.new(kind, who, parameters, o)
  check_options(who, o, KINDS[kind].options)
  local numbers = {}
  for name, value in pairs(o) do numbers[name] = value end
  local self = setmetatable({
    kind = kind, who = who, known = o, numbers = numbers, parameters = {}, gradients = {},
    counts = {}, begins = {}, memory = {}, made = false,
  }, Group)
  for i, p in ipairs(parameters) do
    self.parameters[i], self.gradients[i], self.counts[i] = p, false, 0
  end
  for _, row in ipairs(KINDS[kind].states) do self.memory[row.name] = none(parameters) end
  local list = {}
  arrange(self, numbers, self.memory, list)
  core.commit(who, {fields = list})
  self.seen = seen(self)
  parameter.on_move(self, follow)
  return self
end


-- The numbers of a step, as the captured work has them.
local function numbers_of(self, step)
  local numbers = {step = step}
  for name in pairs(self.known) do
    local value = self.numbers[name]
    numbers[name] = type(value) == "table" and {value[1], value[2]} or value
  end
  return numbers
end


-- Are the numbers of this step those of `last`, which are as `numbers_of` gives them?
local function same_numbers(self, step, last)
  if step ~= last.step then return false end
  for name in pairs(self.known) do
    local a, b = self.numbers[name], last[name]
    if type(a) == "table" then
      if a[1] ~= b[1] or a[2] ~= b[2] then return false end
    elseif a ~= b then
      return false
    end
  end
  return true
end


local function copied(lists)
  local copies = {}
  for k, list in ipairs(lists) do copies[k] = table.move(list, 1, #list, 1, {}) end
  return copies
end


-- A captured step counts its replays by itself. Lua counts along, and sets the numbers that changed
-- otherwise. The replay is refused if the captured step made state tensors, if the state tensors
-- have been replaced since, or if the parameters have different step numbers by now.
local function note(self, number, gradients)
  local moved, before, memory, made = {}, {}, copied(self.lists), self.made
  local last, last_step = numbers_of(self, number), number
  for i, g in ipairs(gradients) do
    if g then moved[#moved + 1], before[i] = i, self.counts[i] end
  end
  local function ready()
    if made or #memory ~= #self.lists then return false end
    for _, i in ipairs(moved) do
      if self.counts[i] ~= self.counts[moved[1]] then return false end
      for k, list in ipairs(memory) do
        if self.lists[k][i] ~= list[i] then return false end
      end
    end
    return true
  end
  local function again()
    local step = self.counts[moved[1]] + 1
    for _, i in ipairs(moved) do before[i], self.counts[i] = self.counts[i], step end
    self.even = false
    last_step, last.step = last.step, last.step + 1
    if same_numbers(self, step, last) then return nil end
    last = numbers_of(self, step)
    self.numbers.step = step
    return self.numbers
  end
  local function undo()            -- the work did not come to this step
    for i, count in pairs(before) do self.counts[i] = count end
    self.even, last.step = false, last_step
  end
  local notes = capture.running().notes
  notes[#notes + 1] = {ready = ready, again = again, undo = undo}
end


local function call(self, number, gradients)
  self.numbers.step = number
  optim_step(self.kind, self.parameters, gradients, self.lists, self.numbers)
  self.numbers.step = nil
  if capture.running() then note(self, number, gradients) end
end


-- Parameters that had no gradient in some step lag behind: one call for each step number.
local function call_apart(self)
  local apart = {}
  for i, g in ipairs(self.gradients) do
    local number = self.begins[i] and 1 or self.counts[i] + 1
    if g and not apart[number] then
      apart[number] = {}
      for j = 1, #self.parameters do apart[number][j] = false end
    end
    if g then apart[number][i] = g end
  end
  for number, gradients in pairs(apart) do call(self, number, gradients) end
end


-- Makes the state tensors that parameter i lacks. A state that is filled begins with its step.
local function prepare(self, i)
  for _, list in ipairs(self.lists) do
    if not list[i] then
      list[i] = heed.keep(heed.zeros_like(self.parameters[i]))
      self.made = true             -- in this step
      self.begins[i] = KINDS[self.kind].fills
    end
  end
  self.prepared[i] = true
end


-- A step of parameters that are even; false if one has no gradient.
local function step_together(self)
  local counts = self.counts
  self.numbers.step = counts[1] + 1
  local done = optim_step(self.kind, self.parameters, nil, self.lists, self.numbers)
  self.numbers.step = nil
  if not done then return false end
  for i = 1, #counts do counts[i] = counts[i] + 1 end
  return true
end


---One step along the gradients.
function Group:step()
  if self.even and not capture.running() and step_together(self) then return end
  local parameters, gradients, counts = self.parameters, self.gradients, self.counts
  local prepared, begins = self.prepared, self.begins
  local number, apart
  self.made = false
  for i = 1, #parameters do
    local g = parameters[i].grad
    gradients[i] = g or false
    if g then
      if not prepared[i] then prepare(self, i) end
      local own = begins[i] and 1 or counts[i] + 1
      number = number or own
      apart = apart or number ~= own
    end
  end
  if apart then call_apart(self) elseif number then call(self, number, gradients) end
  self.even = #parameters > 0
  for i = 1, #parameters do
    if gradients[i] then
      gradients[i], counts[i], begins[i] = false, counts[i] + 1, nil
    else
      self.even = false
    end
    self.even = self.even and counts[i] == counts[1]
  end
end


---Adds to a list of fields the states and counts of its parameters, from those of an optimiser's,
---and its rate.
---@param given table<string, heed.Tensor> states by name and position
---@param counts integer[] of all of the optimiser's parameters
---@param before integer parameters of the groups before it
---@param rate number
---@param list any[]
function Group:load(given, counts, before, rate, list)
  local memory = {}
  for name in pairs(self.memory) do memory[name] = none(self.parameters) end
  for _, name in ipairs(self.names) do
    for i, p in ipairs(self.parameters) do
      local t = given[name .. "." .. before + i]
      memory[name][i] = t and heed.keep(t:to(p.device):clone()) or false
    end
  end
  self:change("lr", rate, list)
  fields.add(list, self, "memory", memory)
  fields.add(list, self, "counts",
             table.move(counts, before + 1, before + #self.parameters, 1, {}))
  arrange(self, self.numbers, memory, list)
end


return Group
