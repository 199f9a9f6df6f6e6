-- Calls a function without gradients while a model is in eval mode; behind it each module has its
-- own mode again, also after an error.

local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local Module = require "heed.nn.module"


local function during(who, model, f)
  if not Module.is(model) then return f() end
  local on, back = {}, {}
  for _, module in model:named_modules() do
    fields.add(on, module, "training", false, module.training)
    fields.add(back, module, "training", module.training)
  end
  return core.commit_during(who, {fields = on}, {fields = back}, f)
end


---@param who string the function that errors name
---@param model any what is no module has no mode
---@param f fun(): ...
---@return any ... what f returns
return function(who, model, f)
  return heed.no_grad(function() return during(who, model, f) end)
end
