-- Exponential averages of weights, which often evaluate better than the weights themselves.
--
--   local ema = optim.EMA(model, {decay = 0.999})
--   for step = 1, 1000 do
--     …
--     opt:step()
--     ema:update()
--   end
--   local accuracy = ema:apply(evaluate, model)

local recording = require "heed.internal.recording"
local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local lent = require "heed.internal.lent"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local parameters_of = require "heed.optim.parameters"
local state = require "heed.files.state"

local fail = heed.fail

---@class heed.EMA
local EMA = {__name = "EMA"}

local HALVES <const> = {bfloat16 = true, float16 = true}


local function is_average(value)
  return type(value) == "table" and rawequal(getmetatable(value), EMA)
end


-- Names and parameters of what was given, without those in blocks, which nothing trains.
local function read(given)
  local names, list = {}, {}
  local function add(name, p)
    if not parameter.in_blocks(p) then names[#names + 1], list[#list + 1] = name, p end
  end
  if Module.is(given) then
    for name, p in given:named_parameters() do add(name, p) end
    if #list == 0 then fail("optim.EMA: a module with parameters expected, got one without") end
    return names, list
  end
  parameters_of.check("optim.EMA", given)
  for i, p in ipairs(given) do add(tostring(i), p) end
  if #list == 0 then fail("optim.EMA: parameters expected, got weights in blocks alone") end
  return names, list
end


-- The positions of parameters, but for those that have become blocks since.
local function places(self)
  local list = {}
  for i, p in ipairs(self.parameters) do
    if not parameter.in_blocks(p) then list[#list + 1] = i end
  end
  return list
end


-- The entries of a list at these positions.
local function chosen(list, at)
  local some = {}
  for k, i in ipairs(at) do some[k] = list[i] end
  return some
end


-- Averages of halves are float32: small changes of them would be rounded away.
local function type_of(p) return HALVES[p.dtype] and "float32" or p.dtype end


-- Has one of them become blocks?
local function any_in_blocks(weights)
  for _, p in ipairs(weights) do
    if parameter.in_blocks(p) then return true end
  end
  return false
end


-- The averages that an update moves, and their weights: lists that are kept until a weight becomes
-- blocks, or what they are of changes, of which the same commit takes them away.
local function lists_of(self)
  if not self.lists or any_in_blocks(self.lists.weights) then
    local at = places(self)
    self.lists = {averages = chosen(self.averages, at), weights = chosen(self.parameters, at)}
  end
  return self.lists
end


local function follow(self, becomes, list)
  fields.add(list, self, "lists", false)
  parameter.follow(list, self.averages, self.parameters, becomes, type_of)
  local first = self.parameters[1]
  if not options.is_alive(first) or not options.is_alive(self.replayed) then return end
  local device = (becomes[first] or first).device
  fields.add(list, self, "replayed", heed.keep(self.replayed:to(device)))
end


---@class heed.EMA.options
---@field decay? number what an average keeps of itself at an update; 0.999 unless given
---@field warmup? boolean at update n it keeps (1 + n) / (10 + n), where that is less

---Averages of parameters, which begin as their values now. Weights in blocks, which nothing trains,
---have none, and those that become blocks later are left out from then on.
---@param parameters heed.Module|heed.Tensor[]
---@param given? heed.EMA.options
---@return heed.EMA
local function make(parameters, given, ...)
  options.no_more("optim.EMA", 2, ...)
  local o = options.read("optim.EMA", given, {decay = 0.999, warmup = false})
  options.probability("optim.EMA", "decay", o.decay)
  local names, list = read(parameters)
  local self = setmetatable({options = o, names = names, parameters = list, averages = {},
                             lists = false, updates = 0, replayed = false, applied = 0,
                             calls = {}}, EMA)
  for i, p in ipairs(list) do
    self.averages[i] = heed.keep(p:detach():to(type_of(p)):clone())
  end
  self.replayed = heed.keep(heed.zeros({}, {dtype = "int64", device = list[1].device}))
  parameter.on_move(self, follow)
  return self
end


-- The share of its value that an average keeps at the next update, which is number n.
local function decay_of(self, n)
  local decay = self.options.decay
  if not self.options.warmup then return decay end
  if recording.running() then fail("update: warmup cannot be captured: its decay changes") end
  return math.min(decay, (1 + n) / (10 + n))
end


---Moves the averages towards the parameters: average = decay average + (1 - decay) parameter.
function EMA:update()
  local why = self.applied > 0 and lent.refusal(self.parameters)
  if why then fail("update: %s", why) end
  local averages, n = self.averages, self.updates + 1
  recording.expect(function() return self.averages == averages and self.applied == 0 end)
  local weight = 1 - decay_of(self, n)
  if recording.running() then
    heed.no_grad(self.replayed.add_, self.replayed, 1)
    n = self.updates
  end
  local lists = lists_of(self)
  core.commit("update", {op = "lerp", number = weight, targets = lists.averages,
                         operands = lists.weights, fields = {self, "updates", n}})
end


-- Prepares the end of a call of `apply`: where another one runs, the averages stay.
local function prepare_end(self, call, back)
  back.fields[3] = self.applied - 1
  self.calls[call] = nil
  if not lent.other(self.calls, call) then return end
  for i, own in pairs(call.own) do own:copy_(self.averages[i]) end
end


-- A call of `apply`, and the changes that end it.
local function new_call(self)
  local call, first = {own = {}, running = false, has_values = true}, lent.other(self.calls)
  local at = places(self)
  for _, i in ipairs(at) do
    call.own[i] = heed.keep((first and first.own[i] or self.parameters[i]):detach():clone())
  end
  local on = {targets = chosen(self.parameters, at), operands = chosen(self.averages, at),
              fields = {self, "applied", self.applied + 1, call, "running", true}}
  local back = {targets = on.targets, operands = chosen(call.own, at),
                fields = {self, "applied", self.applied, call, "running", false}}
  function call.give_back()
    prepare_end(self, call, back)
    core.commit("apply", back)
  end
  function call.why(parameters)
    for _, p in ipairs(on.targets) do
      if parameters[p] then
        return "parameters of their own expected, but apply has put the averages into them"
      end
    end
  end
  return call, on, back
end


---f(...), while the parameters have the averages' values; then they have their own again, also
---after an error. Of calls that overlap, in coroutines, the last one to end gives these back; an
---optimiser's step meanwhile, which would be lost, is refused, and so is `m:quantize`: a copy with
---the averages, `ema:apply(m.clone, m)`, takes it.
---@param f function
---@param ... any
---@return any ...
function EMA:apply(f, ...)
  options.callable("apply", "f", f)
  lent.give_back()
  local call, on, back = new_call(self)
  self.calls[call] = true
  return core.commit_during("apply", on, back, function(...)
    local _ <close> = lent.begin(call, function() prepare_end(self, call, back) end)
    return f(...)
  end, ...)
end


-- The number of updates. Captured updates are counted by their replays.
local function updates_of(self) return self.updates + self.replayed:item() end


---The averages by name, and how many updates there were.
---@return table<string, heed.Tensor>
function EMA:state()
  local tensors = {updates = heed.tensor(updates_of(self))}
  for _, i in ipairs(places(self)) do
    tensors["average." .. self.names[i]] = self.averages[i]:detach()
  end
  return tensors
end


---Lists how a state differs from what these averages would load.
---@param given table<string, heed.Tensor>
---@return string[] problems empty if it fits
---@return string? hint why that may be
function EMA:compare(given)
  state.check("load_state", given)
  local slots = {{names = {"updates"}, value = heed.tensor(0)}}
  for _, i in ipairs(places(self)) do
    slots[#slots + 1] = {names = {"average." .. self.names[i]}, value = self.averages[i]}
  end
  local problems, hint = state.compare(slots, given)
  local counted = #problems > 0 or given.updates:item() >= 0
  if not counted then problems[1] = "updates: at least 0 expected" end
  return problems, hint
end


---Goes on from a state.
---@param given table<string, heed.Tensor>
function EMA:load_state(given, ...)
  state.check_arguments("load_state", 1, given, ...)
  state.refuse("load_state", self:compare(given))
  local averages = table.move(self.averages, 1, #self.averages, 1, {})
  local none = heed.zeros_like(self.replayed)
  for _, i in ipairs(places(self)) do
    local t = given["average." .. self.names[i]]:detach()
    averages[i] = heed.keep(t:to(self.parameters[i].device):clone())
  end
  core.commit("load_state", {
    targets = {self.replayed}, operands = {none},
    fields = {self, "averages", averages, self, "lists", false,
              self, "updates", given.updates:item()},
  })
end


function EMA:__tostring()
  return ("averages of %d tensors, decay = %g, %d updates"):format(
    #places(self), self.options.decay, updates_of(self))
end


options.closed(EMA, "optim.EMA")
options.guard(EMA, {apply = math.huge, compare = 1, load_state = math.huge, state = 0, update = 0},
              {is = is_average, what = "averages", variable = "ema"})


return {EMA = make, is = is_average}
