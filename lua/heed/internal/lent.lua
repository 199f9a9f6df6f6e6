-- Calls that have the modes of modules, or the values of parameters, in their hands until they end.
--
-- Such calls may overlap, in coroutines. One may be suspended there, or be left for good: then an
-- optimiser's step would be lost, or follow gradients of eval mode, and is refused. What a call had
-- that was left is given back where the next one begins, or a step is refused.

local core = require "heed.core"

local collect = collectgarbage or function() end

local lent = {}

---The calls that have modules in eval mode.
---@type table<heed.Module, table<heed.lent.call, true>>
lent.modes = setmetatable({}, {__mode = "k"})

---@class heed.lent.call
---@field running boolean
---@field has_values? boolean whether the call holds the parameters' own values
---@field left? boolean whether its coroutine was collected, in which it was suspended
---@field why fun(parameters: table<heed.Tensor, true>): string? why these take no step meanwhile,
---and what to do
---@field give_back fun() ends a call that was left

-- The calls that have not ended, which live until then: a call may have the only values of
-- parameters.
local calls = {}


---A call that runs, other than the one that is given.
---@generic T: {running: boolean}
---@param among table<T, true>
---@param call T
---@return T?
function lent.other(among, call)
  for other in pairs(among) do
    if other ~= call and other.running then return other end
  end
end


---Begins a call. What it returns is to be closed where the call ends, by `close`.
---@param call heed.lent.call
---@param close fun()
---@return table
function lent.begin(call, close)
  calls[call] = true
  local function ended()
    calls[call] = nil
    close()
  end
  return setmetatable({}, {__close = ended, __gc = function() call.left = true end})
end


---Gives back what calls had that were left.
---@return boolean any whether there were such calls
function lent.give_back()
  local any = false
  for call in pairs(calls) do
    if call.left then
      calls[call], any = nil, true
      call.give_back()
    end
  end
  return any
end


-- Why parameters take no step now, or no other memory; nil: they do.
local function why(parameters, values_alone)
  local set = {}
  for _, p in ipairs(parameters) do set[p] = true end
  for call in pairs(calls) do
    if call.has_values or not values_alone then
      local reason, remedy = call.why(set)
      if reason then return reason, remedy end
    end
  end
end


---Whether parameters take a step.
---@param parameters heed.Tensor[]
---@return boolean
function lent.is_free(parameters) return next(calls) == nil or not why(parameters) end


---Why parameters take no step; nil: they do. What calls had that were left is given back.
---@param parameters heed.Tensor[]
---@param values_alone? boolean whether only calls that hold values count: why the parameters take
---no other memory
---@return string?
function lent.refusal(parameters, values_alone)
  if next(calls) == nil then return nil end
  local reason, remedy = why(parameters, values_alone)
  if not reason then return nil end
  core.works "cpu"            -- the core keeps the coroutine that called it last: now this one
  collect()
  local any = lent.give_back() and not why(parameters, values_alone)
  remedy = any and "it was left in a coroutine, and has ended now" or remedy
  return remedy and reason .. "; " .. remedy or reason
end


return lent
