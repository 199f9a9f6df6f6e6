-- Code of the caller's that a call of a module runs: it may do more than heed's own layers do, and
-- see, and keep, what is made meanwhile.

local heed = require "heed"
local hooks = require "heed.nn.hooks"
local kin = require "heed.nn.kin"
local Module = require "heed.nn.module"
local rule = require "heed.internal.rule"

local is_module = Module.is

local foreign = {}

local DEEPEST <const> = 8                   -- tables within each other that are looked into

kin.adopt_forward(Module.forward)           -- of classes that are not called, as those of biases

-- Functions of heed's own that may stand in a field: activations.
local own = {}
for _, value in next, heed do
  if type(value) == "function" then own[value] = true end
end


---Notes that a function is heed's own.
---@generic F: function
---@param f F
---@return F f
function foreign.adopt(f)
  own[f] = true
  return f
end


---The part of the caller's program that hears of a module's calls; nil where none does.
---@param module heed.Module
---@return "callback of weights"|"hook"|nil
function foreign.listener(module)
  return Module.weights_callback(module) and "callback of weights"
         or hooks.any(module) and "hook" or nil
end


---Whether a module's class is the caller's, or a method `forward` of its own.
---@param module heed.Module
---@return boolean
function foreign.is_class(module)
  return not kin.is_own(getmetatable(module)) or rawget(module, "forward") ~= nil
end


---Whether nothing of a module's own is the caller's. A script may have put another `forward` into
---the class.
---@param module heed.Module
---@return boolean
function foreign.is_own(module)
  return not foreign.is_class(module) and kin.is_own_forward(module.forward)
         and not foreign.listener(module)
end


-- Whether a table, and all that it leads to, holds heed's own code alone. `seen` has those that
-- were looked into.
local function is_own_table(t, seen, depth)
  if seen[t] then return true end
  seen[t] = true
  if depth > DEEPEST then return false end
  if is_module(t) then
    if not foreign.is_own(t) then return false end
  elseif getmetatable(t) ~= nil then
    return rule.is(t) and not rule.has_predicate(t)
  end
  for name, value in next, t do
    local kind = type(value)
    if kind == "function" and not own[value]
       or kind == "table" and type(name) ~= "table"        -- the list of a module's names
          and not is_own_table(value, seen, depth + 1) then
      return false
    end
  end
  return true
end


---Whether a call of a module with these arguments runs none of the caller's code: all parts are of
---heed's own classes, no functions but heed's stand in their fields, and nothing hears of it.
---@param module any
---@param ... any
---@return boolean
function foreign.is_free_of(module, ...)
  return is_module(module) and is_own_table({module, ...}, {}, 0)
end


return foreign
