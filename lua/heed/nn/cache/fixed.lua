-- The store of a cache with a fixed capacity: nn.Cache{capacity = n}. nn/cache/init.lua states the
-- interface.
--
-- Keys lie where their tokens stand, in buffers with room for all of them, and the number of tokens
-- is a tensor, `cache.at`. All steps of as many tokens are therefore the same work, which
-- heed.capture keeps:
--
--   local step = heed.capture(function(ids) return model(ids, {cache = cache, causal = true}) end)
--
-- A step adds to that number when its last layer is done. A step that fails on its way, as a replay
-- may without Lua's knowing, leaves the number as it was, and the next step writes over its keys.

local recording = require "heed.internal.recording"
local core = require "heed.core"
local columns = require "heed.nn.cache.columns"
local heed = require "heed"
local masks = require "heed.mask"
local steps = require "heed.nn.cache.steps"

local fail = heed.fail

---@class heed.cache.fixed.step: heed.cache.step
---@field batch integer
---@field capture table|nil the notes of the recording that the step belongs to
---@field columns heed.Tensor int64 (T): where its keys lie in the buffers
---@field positions heed.Tensor int64 (1, T)
---@field finish heed.Tensor int64 (1): how many tokens there are with its own
---@field at heed.Tensor the cache's
---@field masks table<boolean|heed.Mask, heed.Mask> whether causal -> who may attend; a mask of
---distances, with which calls agree on causal -> both

local fixed = {}

local SELF <const> = "nn.Cache"


-- Steps ------------------------------------------------------------------

function fixed.check_capture() end


local function notes()
  local r = recording.running()
  return r and r.notes or nil
end


-- How many columns of a buffer lie before those of tokens. A GPU that is told to write outside
-- writes to the first one, and says so later.
local function spare_columns(device) return device == "cpu" and 0 or 1 end


-- Refuses more tokens than the capacity, where their number may be read without waiting; elsewhere
-- the write of the keys refuses them.
local function check_capacity(cache, T)
  if not recording.reaches(cache.at) then return end
  local n = cache.at:item() + T
  if n > cache.capacity then
    fail("%s: room for %d positions, got %d; a capacity of at least %d expected", SELF,
         cache.capacity, n, n)
  end
end


-- A replay relies on two facts that it cannot check: there is room, and f called all layers.
local function expect(cache, step)
  recording.expect(function()
    check_capacity(cache, step.T)
    return step.done == #cache.order
  end)
end


-- Writes tensors, after which the cache has one step, which all uses have done.
local function merge(who, cache, targets, operands)
  local step = not steps.is_empty(cache) and {batch = cache.step.batch} or nil
  core.commit(who, {targets = targets, operands = operands,
                    fields = steps.merged(cache, steps.slots_of(cache), step)})
end


function fixed.new_step(cache, x)
  local T, device, spare = x:size(2), x.device, spare_columns(x.device)
  if steps.is_empty(cache) then
    cache.at = heed.keep(heed.zeros(1, {dtype = "int64", device = device}))
  end
  check_capacity(cache, T)
  recording.undo(function()
    cache.turn, cache.pending = false, false
    if not steps.is_empty(cache) then merge(SELF, cache) end
  end)
  local places = heed.arange(T, {device = device}) + cache.at       -- positions, from 1
  local step = {
    T = T, batch = x:size(1), first = #cache.order == 0, done = 0, capture = notes(),
    columns = spare > 0 and places + spare or places, positions = (places - 1):unsqueeze(1),
    finish = places:narrow(1, T, 1), masks = {}, at = cache.at,
  }
  if recording.running() then expect(cache, step) end
  return step
end


-- Rows of masks of distances, for each cache: whether its last key, of as many as it has room for,
-- attends to each of them.
local WEAK <const> = {__mode = "k"}
local last_rows = setmetatable({}, WEAK)


local function last_row(cache, own)
  local rows = last_rows[cache]
  if rows and rows[own] then return rows[own] end
  local row = own:dense(1, 1, 1, cache.capacity):flatten():to(cache.at.device)
  -- Captured work gives the row its values, which never come if the recording is dropped.
  if recording.running() then return row end
  rows = rows or setmetatable({}, WEAK)
  last_rows[cache], rows[own] = rows, heed.keep(row)
  return row
end


-- A mask of distances, of queries where the step stands, among all columns. What it says of keys
-- behind a query does not count.
local function placed(cache, step, own)
  local row, n = last_row(cache, own), cache.capacity
  local keys = heed.arange(n, 2 * n - 1, {device = cache.at.device})
  return masks.tensor(row[(keys - step.positions:t()):clamp(1, n)])
end


-- The keys that are there: all of them, or for a causal call those up to each query.
local function mask_of(cache, step, causal)
  if step.T == 1 or not causal then return masks.lengths(step.finish) end
  local keys = heed.arange(0, cache.capacity - 1, {device = cache.at.device})
  return masks.tensor(keys:le(step.positions:t()))
end


-- A replay would make the buffers again that captured work makes.
local function check_first(slot)
  if slot or not recording.running() then return end
  fail("%s: the first call with it makes buffers, which cannot be captured; call the model once "
       .. "before with this cache", SELF)
end


function fixed.check_call(cache, slot, x, lengths, keys)
  check_first(slot)
  local batch = steps.is_empty(cache) and x:size(1) or cache.step.batch
  if lengths ~= nil or keys ~= nil then
    fail("%s: option %s: not with a capacity", SELF, keys ~= nil and "keys" or "lengths")
  elseif x:size(1) ~= batch then
    fail("%s: %d rows expected, as before, got %d; another batch has a cache of its own", SELF,
         batch, x:size(1))
  end
end


-- All layers take part in a step with as many tokens, and are captured with it or not.
function fixed.check_same(cache, x)
  steps.check_tokens(cache.step, x)
  if cache.step.capture ~= notes() then
    fail("%s: all layers of a model expected in what is captured, got some of them", SELF)
  end
end


local function buffer(cache, t)
  local B, H, _, D = t:size()
  local n = spare_columns(t.device) + cache.capacity
  return heed.keep(heed.zeros(B, H, n, D, {dtype = t.dtype, device = t.device}))
end


local function new_slot(cache, k, v)
  k, v = buffer(cache, k), buffer(cache, v)
  local first = 1 + spare_columns(k.device)
  local function held(t) return heed.keep(t:narrow(3, first, cache.capacity)) end
  return {all_k = k, all_v = v, k = held(k), v = held(v)}
end


function fixed.append(cache, slot, k, v, causal, own)
  local step = cache.step
  if k.requires_grad or v.requires_grad then
    fail("%s: with a capacity it holds no gradients: heed.no_grad(model, ...)", SELF)
  end
  if slot then columns.check(SELF, slot, k) else slot = new_slot(cache, k, v) end
  local where = {{}, {}, step.columns}
  slot.all_k[where], slot.all_v[where] = k, v
  local all = step.masks
  all[causal] = all[causal] or mask_of(cache, step, causal)
  if own == nil then return slot, slot.k, slot.v, all[causal] end
  all[own] = all[own] or all[causal] & placed(cache, step, own)
  return slot, slot.k, slot.v, all[own]
end


-- The first step does not show which layer is its last.
function fixed.written(step, done, uses)
  if done == (step.first and 1 or uses) then return step.at, step.finish end
end


function fixed.has_moved() return false end


-- Between steps ----------------------------------------------------------

function fixed.length(cache)
  return steps.is_started(cache, fixed) and math.min(cache.at:item(), cache.capacity) or 0
end


function fixed.positions(cache, T)
  if not steps.is_started(cache, fixed) then return 0 end
  return (heed.arange(0, T - 1, {device = cache.at.device}) + cache.at):unsqueeze(1)
end


local function batch_of(cache)
  local _, slot = next(steps.slots_of(cache))
  local held = slot and (slot.context and slot.context.k or slot.all_k)
  return held and held:size(1) or 0
end


-- The rows that `reorder` was given, as a tensor. They are checked where their values may be read;
-- elsewhere `index_select` refuses them.
local function rows_of(ids, batch)
  if steps.is_rows(ids) and not recording.reaches(ids) then return ids end
  return heed.tensor(steps.read_rows(ids, batch), {dtype = "int64"})
end


function fixed.reorder(cache, ids)
  local targets, operands = {}, {}
  steps.is_started(cache, fixed)
  local t = rows_of(ids, batch_of(cache))
  for _, slot in pairs(steps.slots_of(cache)) do
    for _, held in pairs(slot.context or {slot.all_k, slot.all_v}) do
      if t:numel() ~= held:size(1) then
        fail("reorder: as many rows as before expected, %d, since the cache has a capacity, got %d",
             held:size(1), t:numel())
      end
      targets[#targets + 1] = held
      operands[#targets] = held:index_select(1, t:to(held.device))
    end
  end
  merge("reorder", cache, targets, operands)
end


function fixed.truncate(cache, n)
  if not cache.at then return end
  local length = heed.full({1}, n, {dtype = "int64", device = cache.at.device})
  merge("truncate", cache, {cache.at}, {length})
end


-- Buffers hold values alone, also where a state's tensors require gradients.
local function filled(slot, k, v)
  local n = k:size(3)
  slot.k:narrow(3, 1, n):copy_(k:detach())
  slot.v:narrow(3, 1, n):copy_(v:detach())
  return slot
end


local function copy_of(cache, slot)
  return filled(new_slot(cache, slot.k, slot.v), slot.k, slot.v)
end


function fixed.clone(cache, copy)
  copy.at = not steps.is_empty(cache) and heed.keep(cache.at:clone())
  for _, use in ipairs(cache.order) do copy.slots[use] = copy_of(cache, cache.slots[use]) end
  if copy.at then
    core.set_fields(steps.merged(copy, copy.slots, {batch = cache.step.batch}))
  end
end


-- `reorder` writes contexts in place.
function fixed.own(t) return heed.keep(t:clone()) end


-- States -----------------------------------------------------------------

-- Tokens stand in columns of their own number: none is padding, and none has moved.
function fixed.alignment(cache)
  local n = fixed.length(cache)
  if n == 0 then return nil end
  local batch, pad = batch_of(cache), {}
  for b = 1, batch do pad[b] = 0 end
  return {batch = batch, length = n, pad = pad, came = n, moved = false}
end


function fixed.limit() return math.huge end


-- Views of the buffers, which the next step writes to.
function fixed.view(cache, slot)
  local n = fixed.length(cache)
  return slot.k:narrow(3, 1, n), slot.v:narrow(3, 1, n)
end


function fixed.read(cache, slot)
  local k, v = fixed.view(cache, slot)
  return k:clone(), v:clone()
end


function fixed.fill(cache, slots, held, to, device)
  if to.length > cache.capacity then
    fail("load_state: room for %d positions, got %d; a capacity of at least %d expected",
         cache.capacity, to.length, to.length)
  end
  for b, n in ipairs(to.pad) do
    if n > 0 or to.moved then
      fail("load_state: a cache with a capacity has no padding, got row %d with %d columns of it",
           b, n)
    end
  end
  for use, has in pairs(held) do
    slots[use] = filled(new_slot(cache, has.k, has.v), has.k, has.v)
  end
  local at = heed.full({1}, to.length, {dtype = "int64", device = device})
  return {batch = to.batch}, heed.keep(at)
end


return fixed
