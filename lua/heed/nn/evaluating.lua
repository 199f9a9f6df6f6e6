-- Calls a function without gradients while a model is in eval mode; behind it each module has its
-- own mode again, also after an error. Several such calls may overlap, in coroutines: a module has
-- its mode again when the last of them has ended. While one is suspended, parameters of modules
-- that were in training mode take no step.

local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local lent = require "heed.internal.lent"
local Module = require "heed.nn.module"

local WEAK <const> = {__mode = "k"}

-- module -> its calls: {running = boolean, modes = {module -> its own mode}}
local calls_of = lent.modes


-- A module that trains is in the hands of no other call: one that was left, and never ends, say.
local function add(call, module, on, back)
  if module.training or not calls_of[module] then calls_of[module] = {} end
  local first = lent.other(calls_of[module], call)
  local mode = module.training
  if first then mode = first.modes[module] end
  call.modes[module] = mode
  calls_of[module][call] = true
  fields.add(on, module, "training", false, module.training)
  fields.add(back, module, "training", mode)
end


-- Keeps the modules of other running calls in eval mode.
local function hold(call, back)
  for i = 1, #back, 3 do
    local module = back[i]
    local calls = call.modes[module] ~= nil and calls_of[module]
    if calls then
      if lent.other(calls, call) then back[i + 2] = false end
      calls[call] = nil
    end
  end
end


-- Gives the modules of a call that was left their modes, where nobody has set them since.
local function give_back(call)
  local list = {}
  call.running = false
  for module, mode in pairs(call.modes) do
    local calls = calls_of[module]
    if calls and calls[call] then
      calls[call] = nil
      if not lent.other(calls, call) then fields.add(list, module, "training", mode) end
    end
  end
  core.set_fields(list)
end


-- A module of one of these parameters that is in eval mode by this call alone.
local function held(call, parameters)
  for module, mode in pairs(call.modes) do
    local calls = mode and module.training == false and calls_of[module]
    if calls and calls[call] then
      for _, field in ipairs(Module.fields(module)) do
        if parameters[field.value] then return module end
      end
    end
  end
end


local function new_call(who)
  local call = {running = false, modes = setmetatable({}, WEAK)}
  function call.give_back() give_back(call) end
  function call.why(parameters)
    local module = held(call, parameters)
    if not module then return nil end
    return ("modules in training mode expected, but a call of %s, which has not ended, has %s in "
            .. "eval mode"):format(who, module.__name), "coroutine.close, or m:train(), ends that"
  end
  return call
end


local function during(who, model, f)
  if not Module.is(model) then return f{} end
  lent.give_back()
  local call, on, back, modules = new_call(who), {}, {}, {}
  for module in model:modules() do
    modules[#modules + 1] = module
    add(call, module, on, back)
  end
  fields.add(on, call, "running", true)
  fields.add(back, call, "running", false)
  return core.commit_during(who, {fields = on}, {fields = back}, function()
    local _ <close> = lent.begin(call, function() hold(call, back) end)
    return f(modules)
  end)
end


---@param who string the function that errors name
---@param model any what is no module has no mode
---@param f fun(modules: heed.Module[]): ... gets the model and all below
---@return any ... what f returns
return function(who, model, f)
  return heed.no_grad(function() return during(who, model, f) end)
end
