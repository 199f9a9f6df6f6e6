-- Steps of an nn.Cache: every use of a layer takes part in each of them once, whatever the store.

local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local options = require "heed.internal.options"
local rule = require "heed.internal.rule"

local fail = heed.fail

---@class heed.cache.step
---@field T integer how many tokens it adds
---@field first boolean whether uses of layers still come in
---@field done integer how many uses are done
---@field pass {ended: boolean}|false|nil the pass that it began in

---@class heed.cache.use
---@field layer heed.Module
---@field index integer the layer's first use in a pass, its second, ...

local steps = {}

local SELF <const> = "nn.Cache"


---Whether no layer has come to the end of a step: there is no step yet, or its call failed.
---@param cache heed.Cache
---@return boolean
function steps.is_empty(cache)
  local step = cache.step
  return not step or step.first and step.done == 0
end


-- Passes and uses -----------------------------------------------------------------

-- The pass that runs, {ended = whether it came to its end}: the call of `cache:pass`, or else the
-- outermost call of a module that began after the cache was made; nil outside both.
local function pass_of(cache)
  return cache.inside or core.pass(cache.born)
end


-- Whether the present step began in the pass that runs.
function steps.runs(cache)
  local pass = pass_of(cache)
  return pass and not steps.is_empty(cache) and cache.step.pass == pass
end


---The use of a layer that begins, or goes on: the one behind those that the pass has done. A layer
---that is called outside passes is used once in each step.
---@param cache heed.Cache
---@param layer heed.Module
---@return heed.cache.use
function steps.use_of(cache, layer)
  if type(layer) ~= "table" then
    fail("%s: a layer expected, got %s", SELF, options.kind(layer))
  end
  local pass = pass_of(cache) or false
  if not pass or pass ~= cache.last_pass then
    cache.done = {}
    cache.last_pass = pass         -- last: an error before it leads here again
  end
  local index = (cache.done[layer] or 0) + 1
  local uses = cache.uses[layer] or {}
  cache.uses[layer] = uses
  uses[index] = uses[index] or {layer = layer, index = index}
  return uses[index]
end


---A use of a layer is done; its next one in this pass is another.
---@param cache heed.Cache
---@param use heed.cache.use
function steps.finish(cache, use)
  cache.done[use.layer] = use.index
end


-- A use of a layer in words.
local function name_of(use)
  return use.index == 1 and use.layer.__name
         or ("use %d of %s"):format(use.index, use.layer.__name)
end


-- Steps -------------------------------------------------------------------------

-- Refuses a step that a part of the uses has done.
local function check_finished(cache)
  if cache.step.done == 0 then return end
  for _, use in ipairs(cache.order) do
    if cache.slots[use].step ~= cache.step then
      fail("%s: the last call did not reach %s: it failed, or goes on still, or the layer is not "
           .. "always called; make a new nn.Cache()", SELF, name_of(use))
    end
  end
end


-- Refuses a step behind one whose call failed, or goes on still, although all uses have done it:
-- tokens that are tried again would be there twice.
local function check_ended(cache)
  local step = cache.step
  if not step.pass or step.pass.ended then return end
  fail(step.first and "%s: it holds the keys of a call that failed; make a new nn.Cache()"
       or "%s: the last call failed behind its last layer, and %d tokens of it are there; "
          .. "cache:truncate(cache:length() - %d) forgets them", SELF, step.T, step.T)
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


---Whether a use of a layer belongs to the present step. A new step begins where this use has done
---the present one, and where no use has: then its call failed.
---@param cache heed.Cache
---@param use heed.cache.use
---@return boolean
function steps.joined(cache, use)
  local step, slot = cache.step, cache.slots[use]
  if steps.is_empty(cache) then return false end
  if not slot and not step.first then
    fail("%s: it holds the keys of another model, or of a call that failed: %s was not there when "
         .. "it began; make a new nn.Cache()", SELF, name_of(use))
  elseif step.done == 0 then
    return false
  elseif slot and slot.step == step then
    check_finished(cache)
    check_ended(cache)
    return false
  end
  return true
end


---Whether the cache holds nothing yet of the use whose turn it is.
---@param cache heed.Cache
---@return boolean
function steps.is_new(cache) return not cache.slots[cache.turn] end


---The keys and values that a cache holds of a use of a layer, nil before its first step.
---@param cache heed.Cache
---@param use heed.cache.use
---@param cross boolean whether it attends to a context
---@return table? slot
function steps.slot_of(cache, use, cross)
  local slot = cache.slots[use]
  if slot and (slot.context ~= nil) ~= cross then
    fail("%s: %s attended to %s before", SELF, name_of(use),
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
  if good and cache.turn and rawequal(cache.turn.layer, layer) then return end
  fail("%s: cache:place(layer, x), cache:append(layer, k, v) with the keys and values of x, then "
       .. "cache:commit(layer) expected", who)
end


local function is_of_step(step, t)
  return heed.is_tensor(t) and t:dim() == 4 and t:size(3) == step.T
end


---Refuses keys and values that are not those of the step. With a capacity, a call must say whether
---it is causal.
---@param cache heed.Cache
---@param layer heed.Module
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@param causal any
---@param own any a mask of distances, or nil
function steps.check_appended(cache, layer, k, v, causal, own)
  local step = cache.step
  steps.check_order(cache, "append", layer, step and is_of_step(step, k) and is_of_step(step, v))
  if own ~= nil and not (cache.capacity and rule.is_of_distances(own)) then
    fail("append: a mask of distances expected behind causal, for a cache with a capacity, got %s",
         options.kind(own))
  end
  if type(causal) == "boolean" or causal == nil and not cache.capacity then return end
  fail("append: a boolean expected behind v, whether the call is causal, got %s",
       options.kind(causal))
end


local function with(list, value)
  local longer = table.move(list, 1, #list, 1, {})
  longer[#list + 1] = value
  return longer
end


---Makes the pending slot that of the use whose turn it is. What the store says that the last use of
---a step writes is written with it.
---@param cache heed.Cache
---@param store table the store of the cache
function steps.commit(cache, store)
  local step, slot, use = cache.step, cache.pending, cache.turn
  local done, layer, order, of_layer = step.done + 1, use.layer, cache.order, cache.done
  if not cache.slots[use] then
    order = with(order, use)
    cache.slots[use] = false
  end
  slot.step, of_layer[layer] = slot.step or false, of_layer[layer] or false      -- see fields.lua
  local list = {
    cache.slots, use, slot, cache, "order", order, step, "done", done, cache, "turn", false, cache,
    "pending", false, slot, "step", step, of_layer, layer, use.index,
  }
  local target, value = store.written(step, done, #order)
  if not target then return core.set_fields(list) end
  core.commit(SELF, {targets = {target}, operands = {value}, fields = list})
end


---Keeps what a use of a layer has of its context; it is done.
---@param cache heed.Cache
---@param use heed.cache.use
---@param context table<string, heed.Tensor>
function steps.add_context(cache, use, context)
  local list = {}
  fields.add(list, cache.slots, use, {context = context})
  fields.add(list, cache, "contexts", with(cache.contexts, use))
  fields.add(list, cache.done, use.layer, use.index)
  core.set_fields(list)
end


---Copies of all slots.
---@param cache heed.Cache
---@return table<heed.cache.use, table>
function steps.slots_of(cache)
  local slots = {}
  for use, slot in pairs(cache.slots) do
    local copy = {}
    for name, value in pairs(slot or {}) do copy[name] = value end
    slots[use] = slot and copy or nil
  end
  return slots
end


---The fields that make one step of all steps so far, which every use has done, with other slots.
---@param cache heed.Cache
---@param slots table<heed.cache.use, table> of all uses; they are nobody else's
---@param step? table nil: there was no step yet
---@return any[]
function steps.merged(cache, slots, step)
  if step then
    step.done, step.first = #cache.order, false
    for _, use in ipairs(cache.order) do slots[use].step = step end
  end
  return {cache, "slots", slots, cache, "step", step or cache.step}
end


---Refuses a call with another number of tokens than its step.
---@param step heed.cache.step
---@param x heed.Tensor (B, T, ...)
function steps.check_tokens(step, x)
  if step.T == x:size(2) then return end
  fail("%s: %d tokens expected, as in the layers before, got %d", SELF, step.T, x:size(2))
end


---Whether a value is a tensor of rows, as `reorder` takes it.
---@param ids any
---@return boolean
function steps.is_rows(ids)
  return heed.is_tensor(ids) and ids.dtype == "int64" and ids:dim() == 1
end


---The rows of a batch that `reorder` was given, as a list.
---@param ids heed.Tensor|integer[]
---@param batch integer
---@return integer[]
function steps.read_rows(ids, batch)
  if steps.is_rows(ids) then ids = ids:totable() end
  if type(ids) ~= "table" then
    fail("reorder: an int64 tensor of one dimension, or a list of rows expected, got %s",
         options.typed(ids))
  end
  options.check_list("reorder", ids)
  if next(ids) == nil then fail("reorder: at least one row expected, got none") end
  local rows = {}
  for i = 1, options.last(ids) do
    rows[i] = rawget(ids, i)
    local b = math.type(rows[i]) == "integer" and rows[i] or 0
    if b < 1 or b > batch then
      fail("reorder: rows from 1 to %d expected, got %s at position %d", batch,
           options.kind(rows[i]), i)
    end
  end
  return rows
end


return steps
