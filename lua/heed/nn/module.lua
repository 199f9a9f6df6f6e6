-- nn.Module: the class that layers and models are made from.
--
--   local Model = nn.Module:extend("Model")
--
--   function Model:init(dim)
--     self.first = nn.Linear(dim, 4 * dim)
--     self.second = nn.Linear(4 * dim, dim)
--   end
--
--   function Model:forward(x) return self.second(self.first(x):relu()) end
--
--   local model = Model(8)        -- calls init
--   local y = model(x)            -- calls forward
--
-- The names of an instance's fields are kept in the order of first setting, and the
-- fields are read whenever they are needed: nothing is registered, and nothing gets stale.
-- `parameters()` has this order, and an optimiser's state is saved by the positions in it. Lua sets
-- `self.a, self.b = f(), g()` from right to left, b first: one statement for each keeps order.
--
-- A name that was never set, and that no class has, raises when it is read. A field that is set
-- later is false in `init`: `self.cache = false`.

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local field_names = require "heed.nn.field_names"
local fields = require "heed.internal.fields"
local heed = require "heed"
local hooks = require "heed.nn.hooks"
local keys_of = require "heed.nn.keys"
local kin = require "heed.nn.kin"
local lent = require "heed.internal.lent"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local paths = require "heed.nn.path"
local rows = require "heed.nn.rows"
local state = require "heed.files.state"
local tree = require "heed.nn.tree"

local type, ended = type, core.ended   -- calls of layers take them from here
local is_module, hooks_of, made = field_names.is_module, hooks.of, hooks.made
local join = paths.join

---@class heed.Module
---@field training boolean whether layers such as Dropout are at work
---@operator call: ...
local Module = {__name = "Module", __is_module = true, training = true}

local NAMES <const> = field_names.KEY

-- The key of an instance's callback of `on_weights`: a function, as field_names.KEY is.
local function ON_WEIGHTS() end


---Whether a value is an instance of a module's class.
---@param value any
---@return boolean
function Module.is(value) return is_module(value) end


-- The metamethod __index of a class.
local function reader(class)
  return function(module, name)
    local value = class[name]
    if value ~= nil then return value end
    return field_names.absent(module, name)
  end
end

Module.__index = reader(Module)


-- Names that the library reads by itself hold what it expects.
local function check_field(self, name, value)
  if name == "training" and type(value) ~= "boolean" then
    heed.fail("%s: field 'training': a boolean expected, got %s", self.__name, options.kind(value))
  elseif type(Module[name]) == "function" and type(value) ~= "function" then
    heed.fail("%s: '%s' is a method of modules: call the field otherwise", self.__name, name)
  end
end


function Module:__newindex(name, value)
  local names = rawget(self, NAMES) or field_names.refuse_self(self, "__newindex")
  if name == nil or name ~= name then
    heed.fail("%s: %s is no name of a field", self.__name, options.kind(name))
  end
  if not names.known[name] then
    check_field(self, name, value)
    names.known[name] = parameter.role(value) or true
    names[#names + 1] = name
  end
  rawset(self, name, value)
end


-- pairs(m) iterates over the fields in the order of first setting.
function Module:__pairs()
  local names, i = rawget(self, NAMES) or field_names.refuse_self(self, "__pairs"), 0
  return function()
    repeat
      i = i + 1
      local value = rawget(self, names[i])
      if value ~= nil then return names[i], value end
    until names[i] == nil
  end
end


function Module:__tostring()
  return tree.draw(self)
end


local function is_plain(value)
  return type(value) == "table" and getmetatable(value) == nil
end


-- Appends the modules and tensors of a field: a table is flattened; a table within itself is not
-- entered.
local function flatten(found, name, value, above)
  local role = is_module(value) and "module" or parameter.role(value)
  if role then
    found[#found + 1] = {name = name, value = value, role = role}
  elseif is_plain(value) and not (above and above[value]) then
    above = above or {}
    above[value] = true
    for _, key in ipairs(keys_of(value)) do
      flatten(found, name .. "." .. tostring(key), value[key], above)
    end
    above[value] = nil
  end
end


---The modules and tensors in fields: name, value, and "module", "parameter", "buffer" or "tensor".
---@return {name: string, value: any, role: string}[]
function Module:fields()
  local found, names = {}, rawget(self, NAMES) or field_names.refuse_self(self, "fields")
  for i = 1, #names do
    local value = rawget(self, names[i])
    local kind = type(value)
    if kind == "table" or kind == "userdata" then flatten(found, tostring(names[i]), value) end
  end
  return found
end


-- m:layer(x) passes m itself to the layer: says so.
local function refuse_colon(layer, model)
  for _, field in ipairs(model:fields()) do
    if rawequal(field.value, layer) then
      local name, place = field.name, "." .. field.name
      if name:find "^%d" then
        name, place = "layer " .. name, "[" .. name .. "]"
      end
      heed.fail("%s: the %s itself came as input; call its layer with a dot, model%s(x)", name,
                model.__name, place)
    end
  end
end


function Module:__call(...)
  -- So that Lua makes no tail call: errors find this frame, and core.pass writes its stamp there.
  local _ <close> = nil
  local first = ...
  if type(first) == "table" and is_module(first) then refuse_colon(self, first) end
  local list = hooks_of[self]
  if list ~= false then
    if list == nil then field_names.refuse_self(self, "__call") end
    return ended(list.call(self, list, ...))
  end
  return ended(self:forward(...))
end


local function check_class(class, name)
  if type(class) == "table" and rawget(class, "__is_module") then return end
  heed.fail("%s: a class of modules expected as the first argument, got %s", name,
            options.kind(class))
end


local function construct(class, ...)
  check_class(class, "__call")
  local self = setmetatable({[NAMES] = {known = {}}}, class)
  made[self] = false
  self:init(...)
  return self
end


local CLASS = {
  __call = construct,
  __tostring = function(class)
    check_class(class, "__tostring")
    return "class " .. class.__name
  end,
}


---Makes a class of its own; `Class(...)` makes an instance and calls its `init`.
---@param name string as it is printed
---@return any class
function Module:extend(name, ...)
  if type(self) ~= "table" or type(name) ~= "string" then
    heed.fail('extend: a name expected, as in nn.Module:extend("Model"), got %s',
              options.kind(name))
  end
  options.no_more("extend", 1, ...)
  local class = {}
  for key, value in pairs(self) do   -- metamethods are not found by inheritance
    if type(key) == "string" and key:sub(1, 2) == "__" then class[key] = value end
  end
  class.__index, class.__name, class.__metatable = reader(class), name, nil
  local meta = {__index = self, __name = "class " .. name}
  for key, value in pairs(CLASS) do meta[key] = value end
  kin.derive(class)
  return setmetatable(class, meta)
end


---Sets the fields of a new instance; yours to define.
function Module:init(...)
  options.no_more(self.__name, 0, ...)
end


---Computes the module's results; yours to define.
---@return any
function Module:forward()
  heed.fail("%s: no forward defined; write function %s:forward(x)", self.__name, self.__name)
end


---The text between the parentheses of the printed module; yours to define.
---@return string
function Module:describe()
  return ""
end


-- A parameter that a plain tensor took the place of would be neither trained nor saved.
local function refuse_lost(module, path, name)
  if rawget(module, NAMES).known[name] ~= "parameter" then return end
  path = join(path, name)
  heed.fail("%s: field '%s' was a parameter and holds a plain tensor now; write nn.Parameter(t), "
            .. "or m.%s:copy_(t) within heed.no_grad", module.__name, path, path)
end


-- A plain tensor is no parameter, also where it looks like one.
local function refuse_plain(module, path, name, t)
  local released = not pcall(heed.numel, t)
  if released or not (t.requires_grad and t.is_leaf) then return end
  heed.fail("%s: field '%s' is a leaf that requires grad, but no parameter; nn.Parameter(t) is "
            .. "trained and saved, t:detach() is neither", module.__name, join(path, name))
end


-- Calls visit(path, value, seen) for what has a wanted role in this module and all below, in
-- order. A value that an earlier name has led to is visited with `seen` true; a module within
-- itself is not entered.
local function visit_all(module, path, wanted, visit, seen, above)
  if wanted.module then visit(path, module, seen[module]) end
  seen[module], above[module] = true, true
  for _, field in ipairs(module:fields()) do
    local name, value, role = field.name, field.value, field.role
    if role == "tensor" then
      refuse_lost(module, path, name)
      if wanted.parameter then refuse_plain(module, path, name, value) end
    end
    if role == "module" then
      if not above[value] then visit_all(value, join(path, name), wanted, visit, seen, above) end
    elseif wanted[role] then
      visit(join(path, name), value, seen[value])
      seen[value] = true
    end
  end
  above[module] = nil
end


-- The values of roles as a list of {name, value}, each once.
local function each(module, wanted)
  local list = {}
  visit_all(module, "", wanted, function(path, value, seen)
    if not seen then list[#list + 1] = {path, value} end
  end, {}, {})
  return list
end


local function iterate(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end


---All parameters in the order of their fields; shared ones once.
---@return heed.Tensor[]
function Module:parameters()
  local list = each(self, {parameter = true})
  for i, entry in ipairs(list) do list[i] = entry[2] end
  return list
end


---Iterates over names, such as "layers.1.weight", and parameters.
---@return fun(): string, heed.Tensor
function Module:named_parameters()
  return iterate(each(self, {parameter = true}))
end


---Iterates over names and modules: this one, whose name is "", and all below.
---@return fun(): string, heed.Module
function Module:named_modules()
  return iterate(each(self, {module = true}))
end


---Iterates over this module and all below.
---@return fun(): heed.Module
function Module:modules()
  local next_module = self:named_modules()
  return function() return (select(2, next_module())) end
end


---Iterates over the names and modules in the fields.
---@return fun(): string, heed.Module
function Module:children()
  local list, seen = {}, {}
  for _, field in ipairs(self:fields()) do
    if field.role == "module" and not seen[field.value] then
      seen[field.value] = true
      list[#list + 1] = {field.name, field.value}
    end
  end
  return iterate(list)
end


-- A module within itself is not entered.
local function apply_below(module, f, above)
  above[module] = true
  for _, child in module:children() do
    if not above[child] then apply_below(child, f, above) end
  end
  above[module] = nil
  f(module)
end


---Calls `f(module)` for the modules below, then for this one.
---@param f fun(module: heed.Module)
---@return heed.Module self
function Module:apply(f)
  options.callable("apply", "f", f)
  apply_below(self, f, {})
  return self
end


---Sets the mode of this module and all below, also where a suspended call has set another one.
---@param training? boolean true unless given
---@return heed.Module self
function Module:train(training)
  if training ~= nil and type(training) ~= "boolean" then
    heed.fail("train: true or false expected, got %s", options.kind(training))
  end
  local list = {}
  for _, module in self:named_modules() do
    fields.add(list, module, "training", training ~= false, module.training)
  end
  core.set_fields(list)
  for i = 1, #list, 3 do lent.modes[list[i]] = nil end
  return self
end


---Ends training, as `train(false)` does: dropout is off.
---@return heed.Module self
function Module:eval()
  return self:train(false)
end


---How many numbers all parameters have, shared ones counted once.
---@return integer
function Module:numel()
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end


---Whether the parameters are trained from now on. Frozen ones are in `parameters()` all the same,
---but get no gradient, and have lost the one that they had: no optimiser's step changes them.
---Weights in blocks stay frozen.
---@param frozen? boolean true unless given; false for parameters that are trained again
---@return heed.Module self
---@return table<string, string>? kept why, by the names of weights that stay frozen
function Module:freeze(frozen)
  if frozen ~= nil and type(frozen) ~= "boolean" then
    heed.fail("freeze: true or false expected, got %s", options.kind(frozen))
  end
  local kept = frozen == false and parameter.untrained(self:named_parameters()) or nil
  parameter.require_grad(self:parameters(), frozen == false)
  return self, kept
end


---Forgets the gradients.
function Module:zero_grad()
  core.commit("zero_grad", {takers = self:parameters()})
end


---Moves all tensors to a device or a floating point type, which weights in blocks, and integers, do
---not become. The handles stay the same, so that shared weights stay shared and optimisers go on.
---Beside an embedding in blocks, whose rows are float32, no other type is taken.
---@param ... string such as "cuda", "float64"
---@return heed.Module self
function Module:to(...)
  rows.check(self, {...})
  local list = each(self, {parameter = true, buffer = true, tensor = true})
  for i, entry in ipairs(list) do list[i] = entry[2] end
  parameter.move(list, {...})
  return self
end


-- Every saved tensor with all the names that lead to it.
local function slots(module)
  local list, of, known = {}, {}, {}
  visit_all(module, "", {parameter = true, buffer = true}, function(path, value)
    if known[path] then heed.fail("%s: two tensors are called '%s'", module.__name, path) end
    known[path] = true
    if not of[value] then
      of[value] = {names = {}, value = value}
      list[#list + 1] = of[value]
    end
    table.insert(of[value].names, path)
  end, {}, {})
  return list
end


---Parameters and buffers by name, shared ones under their first name. The tensors share their
---values with the module: `clone` those that must stay as they are.
---@return table<string, heed.Tensor>
function Module:state()
  local tensors = {}
  for _, slot in ipairs(slots(self)) do
    tensors[slot.names[1]] = slot.value:detach()
  end
  return tensors
end


---Lists how a state differs from what this module would load.
---@param given table<string, heed.Tensor>
---@return string[] problems empty if it fits
---@return string? hint why that may be
function Module:compare(given)
  state.check("load_state", given)
  return state.compare(slots(self), given)
end


-- Changes that give a module's tensors the values of a state, on the same devices; blocks, which
-- nothing writes into, get other memory. Several names of a tensor have one value.
local function changes_of(slot_list, given)
  local changes = {targets = {}, operands = {}, takers = {}, givers = {}, gradients = {}}
  for _, slot in ipairs(slot_list) do
    local own, value = slot.value, nil
    for _, name in ipairs(slot.names) do value = given[name] or value end
    if value and blocks[own.dtype] then
      local n = #changes.takers + 1
      changes.takers[n], changes.givers[n] = own, value:clone():to(own.device)
      changes.gradients[n] = false
    elseif value then
      local n = #changes.targets + 1
      changes.targets[n], changes.operands[n] = own, value:to(own.device)
    end
  end
  return changes
end


---Copies the values of a state into the module's own tensors. If anything in it does not fit,
---one error lists all that doesn't, and nothing is loaded. Weights in blocks take those of the
---same type, in memory of their own.
---@param given table<string, heed.Tensor>
---@param how? {strict: boolean} false: names may be missing or unexpected; these are returned
---@return heed.Module|string[] module itself; or the names that are missing
---@return string[]? unexpected
function Module:load_state(given, how, ...)
  state.check_arguments("load_state", 2, given, how, ...)
  local strict = options.read("load_state", how, {strict = true}).strict
  state.check("load_state", given)
  local all = slots(self)
  local found = state.differences(all, given)
  state.refuse("load_state", state.problems(found, strict))
  core.commit("load_state", heed.no_grad(changes_of, all, given))
  if strict then return self end
  return found.missing, found.unexpected
end


-- A copy of what stands in a field; `copies` has those that were made before, so that what is
-- shared stays shared. Functions, and tables with a metatable of their own, are no part of it.
local function copy(value, copies)
  if copies[value] then return copies[value] end
  local new = parameter.copy(value)
  if new == nil and (is_module(value) or is_plain(value)) then
    new = setmetatable({}, getmetatable(value))
    copies[value] = new
    if is_module(value) then made[new] = false end
    for key, part in next, value do
      if not rawequal(key, ON_WEIGHTS) then rawset(new, copy(key, copies), copy(part, copies)) end
    end
  end
  if new == nil then return value end
  copies[value] = new
  return new
end


---A module of its own with the same values: parameters, buffers and plain tensors are copied, those
---that are shared within it stay so, and tables in its fields are copied with what is in them.
---Functions are the same ones: what a closure refers to is not copied. Gradients, hooks, and the
---callback of `on_weights`, stay behind.
---@return heed.Module
function Module:clone()
  return copy(self, {})
end


---Passes all attention weights to `f(name, weights)` from now on; without `f`, no more.
---The names are those of `named_modules`.
---@param f? fun(name: string, weights: heed.Tensor)
---@return heed.Module self
function Module:on_weights(f)
  if f ~= nil then options.callable("on_weights", "the callback", f) end
  local list = {}
  for name, module in self:named_modules() do
    fields.add(list, module, ON_WEIGHTS, f and function(weights) f(name, weights) end or false)
  end
  core.set_fields(list)
  return self
end


---The callback that `on_weights` set, or nil; attention layers call it with their weights.
---@return fun(weights: heed.Tensor)?
function Module:weights_callback()
  return rawget(self, ON_WEIGHTS) or nil
end


---Calls `f(module, arguments)` before each `forward` from now on, with a list of the arguments and
---their number `n`. What it returns, unless nil, takes the places of the first arguments.
---@param f fun(module: heed.Module, arguments: table): ...
---@return heed.ModuleHook handle whose method `remove` takes the hook off
function Module:register_forward_pre_hook(f)
  return hooks.register(self, "register_forward_pre_hook", f, true)
end


---Calls `f(module, arguments, ...)` with all results after each `forward` from now on. What it
---returns, unless nil, takes the places of the first results. A call that fails has no results.
---@param f fun(module: heed.Module, arguments: table, ...: any): ...
---@return heed.ModuleHook handle whose method `remove` takes the hook off
function Module:register_forward_hook(f)
  return hooks.register(self, "register_forward_hook", f, false)
end


-- How many arguments methods take.
options.guard(Module, {
  apply = 1, children = 0, clone = 0, compare = 1, eval = 0, forward = math.huge,
  init = math.huge, fields = 0, freeze = 1, load_state = math.huge, modules = 0,
  named_modules = 0, named_parameters = 0, numel = 0, on_weights = 1, parameters = 0,
  register_forward_hook = 1, register_forward_pre_hook = 1, state = 0,
  to = math.huge, train = 1, weights_callback = 0, zero_grad = 0,
}, {is = is_module, what = "a module", variable = "m", own = "__call"})

core.frames(Module.__call, paths.words)


return setmetatable(Module, CLASS)
