-- A group of an optimiser's parameters, which have their options in common.
--
-- A step is one fused call of the core for all parameters, in lists that are made once.

local recording = require "heed.internal.recording"
local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"

local fail = heed.fail

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
---@field even boolean whether all have their states and did as many steps
---@field counts integer[] else: the steps of each parameter
---@field steps any[] what core.optim_step takes of all groups, while they are even, and
---@field at integer where this one's values begin in it, from 0
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


-- Pairs as scripts see them, with functions that copy what these show.
local pair_views = setmetatable({}, {__mode = "k"})

-- A pair of the group's own, of one that a script gave, whose metamethods are not called.
local function own_pair(who, name, pair, known)
  local own, n = {}, 0
  for key, value in next, pair_views[pair] and pair_views[pair]() or pair do
    if math.type(key) ~= "integer" or key < 1 then
      fail("%s: two numbers expected as %s, got %s as a key", who, name, options.kind(key))
    end
    own[key], n = value, n + 1
  end
  if n ~= 2 then fail("%s: two numbers expected as %s, got %d", who, name, n) end
  for i = 1, 2 do
    if type(own[i]) ~= "number" then
      fail("%s: a number expected as %s[%d], got %s", who, name, i, options.kind(own[i]))
    end
    check_number(who, ("%s[%d]"):format(name, i), own[i], known)
  end
  return own
end


-- The types are those of the defaults. Pairs become the group's own.
local function check_options(who, o, rows)
  for name, known in pairs(rows) do
    local kind = type(known.default)
    if kind == "table" then
      o[name] = own_pair(who, name, o[name], known)
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


-- A list of no states or gradients, one for each parameter.
local function none(parameters)
  local list = {}
  for i in ipairs(parameters) do list[i] = false end
  return list
end


-- Values of a step in a list for core.optim_step.
local VALUES <const> = 6
local LISTS <const>, NUMBER <const> = 4, 6


-- Adds to a list of fields the states that steps with these numbers need, of those in memory.
local function arrange(self, numbers, memory, list)
  local names, lists = states_of(self.kind, numbers), {}
  for k, name in ipairs(names) do lists[k] = memory[name] end
  fields.add(list, self, "names", names)
  fields.add(list, self, "lists", lists)
  fields.add(list, self.steps, self.at + LISTS, lists)
  fields.add(list, self, "prepared", {})
  fields.add(list, self, "even", false)
end


-- The steps of each parameter, which its counts are where not all have as many.
local function counts_of(self)
  local counts = {}
  for i in ipairs(self.parameters) do counts[i] = self:count(i) end
  return counts
end


---Adds to a list of fields those that set options, which are checked as what was given at first.
---@param values table<string, any> by the names of options
---@param list any[]
function Group:change_all(values, list)
  local o = options.read(self.who, values, self.numbers)
  check_options(self.who, o, KINDS[self.kind].options)
  for name in pairs(values) do fields.add(list, self.numbers, name, o[name]) end
  if #states_of(self.kind, o) ~= #self.names then
    fields.add(list, self, "counts", counts_of(self))
    arrange(self, o, self.memory, list)
  end
end


---The same with one option.
---@param name string
---@param value any
---@param list any[]
function Group:change(name, value, list)
  if self.known[name] == nil then
    core.refuse_option(self.who, name, options.names(self.known))      -- NaN and nil, too
  end
  if value == nil then fail("%s: a value expected as %s, got nil", self.who, name) end
  self:change_all({[name] = value}, list)
end


---Sets an option.
---@param name string
---@param value any
function Group:set(name, value)
  local list = {}
  self:change(name, value, list)
  core.set_fields(list)
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


-- An option that is a pair as scripts see it. An entry that is written sets the option.
local function pair_view(who, name, get, set)
  local function copy() return {table.unpack(get(name))} end
  local function set_entry(i, value)
    if i ~= 1 and i ~= 2 then
      fail("%s: %s has entries 1 and 2, got %s", who, name, options.kind(i))
    elseif value == nil then
      fail("%s: a value expected as %s[%d], got nil", who, name, i)
    end
    local pair = copy()
    pair[i] = value
    set(name, pair)
  end
  local view = Group.proxy(function(i) return get(name)[i] end, set_entry, copy)
  getmetatable(view).__len = function() return 2 end
  pair_views[view] = copy
  return view
end


---Options as scripts see them: what is written is checked and takes effect, or raises.
---@param who string
---@param known table<string, any> by their names, whose values have their types
---@param get fun(name: any): any
---@param set fun(name: any, value: any)
---@return table
function Group.options_view(who, known, get, set)
  local views = {}
  for name, value in pairs(known) do
    if type(value) == "table" then views[name] = pair_view(who, name, get, set) end
  end
  local function seen(name)
    local value = get(name)
    return views[name] or value
  end
  return Group.proxy(seen, set, function()
    local all = {}
    for name in pairs(known) do all[name] = seen(name) end
    return all
  end)
end


-- The group as scripts see it.
local function seen(self)
  local shown = {
    parameters = table.move(self.parameters, 1, #self.parameters, 1, {}),
    options = Group.options_view(self.who, self.known,
                                 function(name) return self.numbers[name] end,
                                 function(name, value) self:set(name, value) end),
  }
  local known = {lr = self.numbers.lr, options = shown.options, parameters = shown.parameters}
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
---@param steps any[] the optimiser's
---@return heed.Optimizer.inner
function Group.new(kind, who, parameters, o, steps)
  check_options(who, o, KINDS[kind].options)
  local numbers = {}
  for name, value in pairs(o) do numbers[name] = value end
  local self = setmetatable({
    kind = kind, who = who, known = o, numbers = numbers, parameters = {}, counts = {}, memory = {},
    names = {}, lists = {}, prepared = {}, even = false, steps = steps, at = #steps,
  }, Group)
  table.move({kind, self.parameters, false, {}, numbers, 1}, 1, VALUES, #steps + 1, steps)
  for i, p in ipairs(parameters) do self.parameters[i], self.counts[i] = p, 0 end
  for _, row in ipairs(KINDS[kind].states) do self.memory[row.name] = none(parameters) end
  local list = {}
  arrange(self, numbers, self.memory, list)
  core.set_fields(list)
  self.seen = seen(self)
  parameter.on_move(self, follow)
  return self
end


---All options, in a table of the caller's own.
---@return table<string, number|boolean|number[]>
function Group:all_options()
  local all = {}
  for name in pairs(self.known) do
    local value = self.numbers[name]
    all[name] = type(value) == "table" and {value[1], value[2]} or value
  end
  return all
end


-- The numbers of a step, as the captured work has them.
local function numbers_of(self, step)
  local numbers = self:all_options()
  numbers.step = step
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


---The steps that parameter i has done.
---@param i integer
---@return integer
function Group:count(i)
  return self.even and self.steps[self.at + NUMBER] - 1 or self.counts[i]
end


---Whether an optimiser's state tells of parameter i: not where it has become blocks, which no step
---changes.
---@param i integer
---@return boolean
function Group:is_saved(i) return not parameter.in_blocks(self.parameters[i]) end


-- The steps of each parameter, in `counts`.
local function counted(self)
  for i = 1, self.even and #self.parameters or 0 do self.counts[i] = self:count(i) end
  self.even = false                -- last: whatever is cut off before begins anew
  return self.counts
end


-- A captured step counts its replays by itself. Lua counts along, and sets the numbers that changed
-- otherwise. The replay is refused if the captured step made state tensors, if the state tensors
-- have been replaced since, or if the parameters have different step numbers by now.
local function note(self, number, gradients, lists, made)
  local moved, before, memory = {}, {}, copied(lists)
  local last, last_step = numbers_of(self, number), number
  for i, g in ipairs(gradients) do
    if g then moved[#moved + 1], before[i] = i, self:count(i) end
  end
  local function ready()
    if #made > 0 or #memory ~= #self.lists then return false end
    for _, i in ipairs(moved) do
      if self:count(i) ~= self:count(moved[1]) then return false end
      for k, list in ipairs(memory) do
        if self.lists[k][i] ~= list[i] then return false end
      end
    end
    return true
  end
  local function advance()
    local counts = counted(self)
    local step = counts[moved[1]] + 1
    for _, i in ipairs(moved) do before[i], counts[i] = counts[i], step end
    last_step, last.step = last.step, last.step + 1
    if same_numbers(self, step, last) then return nil end
    last = numbers_of(self, step)
    return last
  end
  local function undo()            -- the work did not come to this step
    for i, count in pairs(before) do counted(self)[i] = count end
    for k = 1, #made, 3 do made[k][made[k + 1]] = false end
    last.step = last_step
  end
  local notes = recording.running().notes
  notes[#notes + 1] = {ready = ready, advance = advance, undo = undo}
end


-- The lists of states, with those that parameter i lacks; fields that put these into the group's
-- own lists; whether the parameter's states begin with this step, which fills them.
local function with_states(self, i, lists, made)
  local before = #made
  for k, states in ipairs(self.lists) do
    if not states[i] then
      lists = lists == self.lists and copied(lists) or lists
      lists[k][i] = heed.keep(heed.zeros_like(self.parameters[i]))
      fields.add(made, states, i, lists[k][i])
    end
  end
  self.prepared[i] = #made == before or nil
  return lists, #made > before and KINDS[self.kind].fills
end


-- Puts a gradient among those of a step's number; false stands for those of other parameters.
local function add_gradient(apart, number, i, gradient, parameters)
  local gradients = apart[number] or none(parameters)
  gradients[i], apart[number] = gradient, gradients
end


---Adds a step along the gradients to those that one call of the core makes, and to a list the
---fields that it sets. Parameters that had no gradient in some step lag behind, and have a step of
---another number.
---@param steps any[] as for core.optim_step
---@param list any[]
---@param scaled? table<heed.Tensor, heed.Tensor> other gradients, by parameter
function Group:add_step(steps, list, scaled)
  local apart, counts, made, lists, even = {}, {}, {}, self.lists, true
  for i, p in ipairs(self.parameters) do
    local g, count, begins = scaled and scaled[p] or p.grad, self:count(i), false
    if g then
      if not self.prepared[i] then lists, begins = with_states(self, i, lists, made) end
      add_gradient(apart, begins and 1 or count + 1, i, g, self.parameters)
      count = count + 1
    end
    counts[i] = count
    even = even and g ~= nil and count == counts[1]
  end
  for number, gradients in pairs(apart) do
    if recording.running() then note(self, number, gradients, lists, made) end
    table.move({self.kind, self.parameters, gradients, lists, self.numbers, number}, 1, VALUES,
               #steps + 1, steps)
  end
  table.move(made, 1, #made, #list + 1, list)
  fields.add(list, self, "counts", counts)
  fields.add(list, self, "even", even)
  fields.add(list, self.steps, self.at + NUMBER, counts[1] + 1)      -- read while all are even
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
