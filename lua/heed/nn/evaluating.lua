-- Calls a function without gradients while a model is in eval mode; behind it each module has its
-- own mode again, also after an error. Several such calls may overlap, in coroutines: a module has
-- its mode again when the last of them has ended.

local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local Module = require "heed.nn.module"
local running = require "heed.internal.running"

local WEAK <const> = {__mode = "k"}

-- module -> its calls: {running = boolean, modes = {module -> its own mode}}
local calls_of = setmetatable({}, WEAK)


-- A module that trains is in the hands of no other call: one that was left, and never ends, say.
local function add(call, module, on, back)
  if module.training or not calls_of[module] then calls_of[module] = setmetatable({}, WEAK) end
  local first = running(calls_of[module], call)
  local mode = module.training
  if first then mode = first.modes[module] end
  call.modes[module] = mode
  calls_of[module][call] = true
  fields.add(on, module, "training", false, module.training)
  fields.add(back, module, "training", mode)
end


-- A value that, when it is closed, keeps the modules of other running calls in eval mode.
local function holding(call, back)
  return setmetatable({}, {__close = function()
    for i = 1, #back, 3 do
      local module = back[i]
      if call.modes[module] ~= nil then
        if running(calls_of[module], call) then back[i + 2] = false end
        calls_of[module][call] = nil
      end
    end
  end})
end


local function during(who, model, f)
  if not Module.is(model) then return f() end
  local call, on, back = {running = false, modes = {}}, {}, {}
  for _, module in model:named_modules() do add(call, module, on, back) end
  fields.add(on, call, "running", true)
  fields.add(back, call, "running", false)
  return core.commit_during(who, {fields = on}, {fields = back}, function()
    local _ <close> = holding(call, back)
    return f()
  end)
end


---@param who string the function that errors name
---@param model any what is no module has no mode
---@param f fun(): ...
---@return any ... what f returns
return function(who, model, f)
  return heed.no_grad(function() return during(who, model, f) end)
end
