-- The layers of a model take turns in each step of its nn.Cache, every layer once.
--
-- Which layers there are is known from the first step. A later one is whole when all of them are
-- done; where one is not, the call failed on its way, and the layers' keys are not of the same
-- tokens.

local heed = require "heed"
local options = require "heed.internal.options"

local fail = heed.fail

---@class heed.turns.step
---@field T integer how many tokens it adds
---@field first boolean whether layers still come in
---@field done integer how many layers are done

local turns = {}

local SELF <const> = "nn.Cache"


---Whether no layer has come to the end of a step: there is none yet, or its call failed.
---@param cache heed.Cache
---@return boolean
function turns.is_empty(cache)
  local step = cache.step
  return not step or step.first and step.done == 0
end


---Refuses a step where a layer is missing. One that no layer has done is none.
---@param cache heed.Cache
function turns.check_finished(cache)
  if cache.step.done == 0 then return end
  for _, layer in ipairs(cache.order) do
    if cache.slots[layer].step ~= cache.step then
      fail("%s: the last call did not reach %s: it failed, or goes on still, or the layer is not "
           .. "always called; make a new nn.Cache()", SELF, layer.__name)
    end
  end
end


---The present step, where a layer's call belongs to it. It does not where the layer has done it, or
---none has: it began with a call that failed.
---@param cache heed.Cache
---@param layer heed.Module
---@return heed.turns.step? step
function turns.joined(cache, layer)
  local step, slot = cache.step, cache.slots[layer]
  if turns.is_empty(cache) then return nil end
  if not slot and not step.first then
    fail("%s: it holds the keys of another model, or of a call that failed: %s was not there when "
         .. "it began; make a new nn.Cache()", SELF, layer.__name)
  elseif step.done == 0 then
    return nil
  elseif slot and slot.step == step then
    turns.check_finished(cache)
    return nil
  end
  return step
end


---What a cache holds of a layer, nil before its first turn.
---@param cache heed.Cache
---@param layer heed.Module
---@param cross boolean whether it attends to a context
---@return table? slot
function turns.slot_of(cache, layer, cross)
  local slot = cache.slots[layer]
  if not slot then return nil end
  if (slot.context ~= nil) ~= cross then
    fail("%s: %s attended to %s before", SELF, layer.__name,
         cross and "its own input" or "a context")
  end
  return slot
end


---Refuses what comes out of turn.
---@param cache heed.Cache
---@param who string
---@param layer heed.Module
---@param good any whether what came with it is right
function turns.check(cache, who, layer, good)
  if good and cache.turn == layer then return end
  fail("%s: cache:place(layer, x), cache:append(layer, k, v) with the keys and values of x, then "
       .. "cache:commit(layer) expected", who)
end


---Refuses what is not the keys and values of a step; and one with a capacity that is not told
---whether the call is causal.
---@param cache heed.Cache
---@param layer heed.Module
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@param causal any
function turns.check_appended(cache, layer, k, v, causal)
  local step = cache.step
  turns.check(cache, "append", layer, step and k:size(3) == step.T and v:size(3) == step.T)
  if type(causal) == "boolean" or causal == nil and not cache.capacity then return end
  fail("append: a boolean expected behind v, whether the call is causal, got %s",
       options.kind(causal))
end


---Ends a layer's turn.
---@param cache heed.Cache
---@param layer heed.Module
---@param slot table what the cache holds of it from now on
function turns.commit(cache, layer, slot)
  local step = cache.step
  if not cache.slots[layer] then table.insert(cache.order, layer) end
  slot.step = step
  cache.slots[layer] = slot
  step.done = step.done + 1
  cache.turn, cache.pending = false, false
end


---How many tokens `truncate` is told to keep, and how many there are.
---@param cache heed.Cache
---@param n any
---@return integer n
---@return integer length
function turns.kept(cache, n)
  local length = cache:length()
  n = options.count("truncate", "the number of tokens", n, 0)
  if n > length then fail("truncate: at most %d tokens expected, got %d", length, n) end
  return n, length
end


---Makes one step of all steps so far, which every layer has done.
---@param cache heed.Cache
---@param step table
function turns.settle(cache, step)
  step.done, step.first = #cache.order, false
  cache.step = step
  for _, layer in ipairs(cache.order) do cache.slots[layer].step = step end
end


return turns
