-- Steps of an nn.Cache: every layer takes part in each of them once, whatever the store.

local heed = require "heed"
local options = require "heed.internal.options"

local fail = heed.fail

---@class heed.cache.step
---@field T integer how many tokens it adds
---@field first boolean whether layers still come in
---@field done integer how many layers are done

local steps = {}

local SELF <const> = "nn.Cache"


---Whether no layer has come to the end of a step: there is no step yet, or its call failed.
---@param cache heed.Cache
---@return boolean
function steps.is_empty(cache)
  local step = cache.step
  return not step or step.first and step.done == 0
end


-- Refuses a step that a part of the layers has done.
local function check_finished(cache)
  if cache.step.done == 0 then return end
  for _, layer in ipairs(cache.order) do
    if cache.slots[layer].step ~= cache.step then
      fail("%s: the last call did not reach %s: it failed, or goes on still, or the layer is not "
           .. "always called; make a new nn.Cache()", SELF, layer.__name)
    end
  end
end


---Whether the cache holds the columns of whole steps; a step with a missing layer is refused.
---@param cache heed.Cache
---@param store table the store of the cache
---@return boolean
function steps.is_started(cache, store)
  store.check_capture()
  if steps.is_empty(cache) then return false end
  check_finished(cache)
  return true
end


---Whether a layer's call belongs to the present step. A new step begins where the layer has done
---the present one, and where no layer has: then its call failed.
---@param cache heed.Cache
---@param layer heed.Module
---@return boolean
function steps.joined(cache, layer)
  local step, slot = cache.step, cache.slots[layer]
  if steps.is_empty(cache) then return false end
  if not slot and not step.first then
    fail("%s: it holds the keys of another model, or of a call that failed: %s was not there when "
         .. "it began; make a new nn.Cache()", SELF, layer.__name)
  elseif step.done == 0 then
    return false
  elseif slot and slot.step == step then
    check_finished(cache)
    return false
  end
  return true
end


---What a cache holds of a layer, nil before the layer's first step.
---@param cache heed.Cache
---@param layer heed.Module
---@param cross boolean whether it attends to a context
---@return table? slot
function steps.slot_of(cache, layer, cross)
  local slot = cache.slots[layer]
  if slot and (slot.context ~= nil) ~= cross then
    fail("%s: %s attended to %s before", SELF, layer.__name,
         cross and "its own input" or "a context")
  end
  return slot
end


---Refuses a method that is called out of order.
---@param cache heed.Cache
---@param who string
---@param layer heed.Module
---@param good any whether the arguments are right
function steps.check_order(cache, who, layer, good)
  if good and cache.turn == layer then return end
  fail("%s: cache:place(layer, x), cache:append(layer, k, v) with the keys and values of x, then "
       .. "cache:commit(layer) expected", who)
end


---Refuses keys and values that are not those of the step. With a capacity, a call must say whether
---it is causal.
---@param cache heed.Cache
---@param layer heed.Module
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@param causal any
function steps.check_appended(cache, layer, k, v, causal)
  local step = cache.step
  steps.check_order(cache, "append", layer, step and k:size(3) == step.T and v:size(3) == step.T)
  if type(causal) == "boolean" or causal == nil and not cache.capacity then return end
  fail("append: a boolean expected behind v, whether the call is causal, got %s",
       options.kind(causal))
end


---Makes the pending slot the layer's own.
---@param cache heed.Cache
---@param layer heed.Module
function steps.commit(cache, layer)
  local step, slot = cache.step, cache.pending
  if not cache.slots[layer] then table.insert(cache.order, layer) end
  slot.step = step
  cache.slots[layer] = slot
  step.done = step.done + 1
  cache.turn, cache.pending = false, false
end


---Makes one step of all steps so far, which every layer has done.
---@param cache heed.Cache
---@param step table
function steps.merge(cache, step)
  step.done, step.first = #cache.order, false
  cache.step = step
  for _, layer in ipairs(cache.order) do cache.slots[layer].step = step end
end


---Refuses a call with another number of tokens than its step.
---@param step heed.cache.step
---@param x heed.Tensor (B, T, ...)
function steps.check_tokens(step, x)
  if step.T == x:size(2) then return end
  fail("%s: %d tokens expected, as in the layers before, got %d", SELF, step.T, x:size(2))
end


return steps
