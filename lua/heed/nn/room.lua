-- A cache of a fixed capacity: nn.Cache{capacity = n}.
--
-- Keys lie where their tokens stand, in buffers with room for all of them, and how many there are
-- is a tensor. So all steps of as many tokens are the same work, which heed.capture keeps:
--
--   local step = heed.capture(function(ids) return model(ids, {cache = cache, causal = true}) end)
--
-- A step adds to that number when its last layer is done. So one that fails on its way, as a replay
-- may without Lua's knowing, leaves it as it was, and the next one writes over its keys.

local capture = require "heed.capture"
local columns = require "heed.nn.columns"
local heed = require "heed"
local options = require "heed.internal.options"
local turns = require "heed.nn.turns"

local fail = heed.fail

local room = {}

---@class heed.Cache.fixed: heed.Cache
---@field capacity integer
---@field package at heed.Tensor|false int64 (1): the tokens before the next step

---@class heed.Cache.fixed.step: heed.turns.step
---@field batch integer
---@field capture table|nil what it is captured with
---@field columns heed.Tensor int64 (T): where its keys lie in the buffers
---@field positions heed.Tensor int64 (1, T)
---@field finish heed.Tensor int64 (1): how many tokens there are with its own
---@field masks table<boolean, heed.Mask> whether causal -> who may attend

local Fixed = {__name = "Cache"}
room.Cache = Fixed

local SELF <const> = "nn.Cache"


---@param capacity integer
---@return heed.Cache
function room.new(capacity)
  return setmetatable({
    window = false, keep = 0, capacity = capacity,
    slots = {},                      -- of each layer: its buffers, or what it made of a context
    order = {},                      -- layers that attend to their own input, as they came
    contexts = {},                   -- layers that attend to a context
    at = false, step = false, turn = false, pending = false,
  }, Fixed)
end


---Makes it a cache in all that it does not do in its own way.
---@param Cache table the class
function room.inherit(Cache)
  function Fixed:__index(name)
    local value = rawget(Fixed, name)
    if value == nil then value = rawget(Cache, name) end
    if value == nil then return options.refuse_name(SELF, name, Cache) end
    return value
  end
  for name in pairs(Cache) do
    local own = rawget(Fixed, name)
    if name:sub(1, 2) ~= "__" and own then
      Fixed[name] = function(self, ...)
        if Cache.is(self) then return own(self, ...) end
        return Cache[name](self, ...)
      end
    end
  end
end


-- Steps ------------------------------------------------------------------

-- How many columns of a buffer lie before those of tokens. A GPU that is told to write outside
-- writes to the first one, and says so later.
local function spare_columns(device) return device == "cpu" and 0 or 1 end


-- Only what may be read is checked here; the rest is where keys are written.
local function check_room(self, T)
  if not capture.reaches(self.at) then return end
  local n = self.at:item() + T
  if n > self.capacity then
    fail("%s: room for %d positions, got %d", SELF, self.capacity, n)
  end
end


-- A replay counts on what it cannot see: that there is room, and that f called all layers.
local function expect(self, step)
  capture.expect(function()
    check_room(self, step.T)
    return step.done == #self.order
  end)
end


local function make_step(self, x)
  local T, device, spare = x:size(2), x.device, spare_columns(x.device)
  if turns.is_empty(self) then
    self.at = heed.keep(heed.zeros(1, {dtype = "int64", device = device}))
  end
  check_room(self, T)
  local places = heed.arange(T, {device = device}) + self.at       -- positions, from 1
  local step = {
    T = T, batch = x:size(1), first = #self.order == 0, done = 0, capture = capture.notes,
    columns = spare > 0 and places + spare or places, positions = (places - 1):unsqueeze(1),
    finish = places:narrow(1, T, 1), masks = {},
  }
  if capture.notes then expect(self, step) end
  return step
end


-- The keys that are there: all of them, or for a causal call those up to each query.
local function mask_of(self, step, causal)
  if step.T == 1 or not causal then return heed.mask.lengths(step.finish) end
  local keys = heed.arange(0, self.capacity - 1, {device = self.at.device})
  return heed.mask.tensor(keys:le(step.positions:t()))
end


local function check_call(self, x, lengths, keys)
  local batch = turns.is_empty(self) and x:size(1) or self.step.batch
  if lengths ~= nil or keys ~= nil then
    fail("%s: option %s: not with a capacity", SELF, keys ~= nil and "keys" or "lengths")
  elseif x:size(1) ~= batch then
    fail("%s: %d rows expected, as before, got %d; another batch has a cache of its own", SELF,
         batch, x:size(1))
  end
end


-- Buffers that were made by captured work would be made again by each replay.
local function check_capture(slot)
  if slot or not capture.notes then return end
  fail("%s: the first call with it makes buffers, which cannot be captured; call the model once "
       .. "before with this cache", SELF)
end


-- All layers take part in a step with as many tokens, and are captured with it or not.
local function check_same(step, x)
  if step.T ~= x:size(2) then
    fail("%s: %d tokens expected, as in the layers before, got %d", SELF, step.T, x:size(2))
  elseif step.capture ~= capture.notes then
    fail("%s: all layers of a model expected in what is captured, got some of them", SELF)
  end
end


-- What layers call -------------------------------------------------------

function Fixed:place(layer, x, lengths, keys)
  check_capture(turns.slot_of(self, layer, false))
  check_call(self, x, lengths, keys)
  self.turn, self.pending = layer, false
  local step = turns.joined(self, layer)
  if step then check_same(step, x) else self.step = make_step(self, x) end
  return self.step.positions
end


local function buffer(self, t)
  local B, H, _, D = t:size()
  local n = spare_columns(t.device) + self.capacity
  return heed.keep(heed.zeros(B, H, n, D, {dtype = t.dtype, device = t.device}))
end


local function new_slot(self, k, v)
  k, v = buffer(self, k), buffer(self, v)
  local first = 1 + spare_columns(k.device)
  local function held(t) return heed.keep(t:narrow(3, first, self.capacity)) end
  return {all_k = k, all_v = v, k = held(k), v = held(v)}
end


function Fixed:append(layer, k, v, causal)
  local slot, step = turns.slot_of(self, layer, false), self.step
  turns.check_appended(self, layer, k, v, causal)
  if k.requires_grad or v.requires_grad then
    fail("%s: with a capacity it holds no gradients: heed.no_grad(model, ...)", SELF)
  end
  if slot then columns.check(SELF, slot, k) else slot = new_slot(self, k, v) end
  local where = {{}, {}, step.columns}
  slot.all_k[where], slot.all_v[where] = k, v
  self.pending = slot
  step.masks[causal] = step.masks[causal] or mask_of(self, step, causal)
  return slot.k, slot.v, step.masks[causal]
end


-- The first step cannot know which layer is its last.
function Fixed:commit(layer)
  local step = self.step
  turns.check(self, "commit", layer, self.pending)
  turns.commit(self, layer, self.pending)
  if step.done == (step.first and 1 or #self.order) then self.at:copy_(step.finish) end
end


function Fixed:has_moved() return false end


-- What models call -------------------------------------------------------

-- Of the step that comes next; nil where it is the first.
local function start_of(self)
  if turns.is_empty(self) then return nil end
  turns.check_finished(self)
  return self.at
end


local function settle(self)
  if not turns.is_empty(self) then turns.settle(self, {batch = self.step.batch}) end
end


function Fixed:length()
  local at = start_of(self)
  return at and math.min(at:item(), self.capacity) or 0
end


function Fixed:positions(T)
  T = options.count("positions", "the number of tokens", T, 0)
  local at = start_of(self)
  return at and (heed.arange(0, T - 1, {device = at.device}) + at):unsqueeze(1) or 0
end


function Fixed:reorder(ids)
  local t = heed.is_tensor(ids) and ids or heed.tensor(ids)
  start_of(self)
  for _, slot in pairs(self.slots) do
    for _, held in pairs(slot.context or {slot.all_k, slot.all_v}) do
      if t:numel() ~= held:size(1) then
        fail("reorder: as many rows as before expected, %d, since the cache has a capacity, got %d",
             held:size(1), t:numel())
      end
      held:copy_(held:index_select(1, t:to(held.device)))
    end
  end
  settle(self)
  return self
end


function Fixed:truncate(n)
  n = turns.kept(self, n)
  if self.at then self.at:fill_(n) end
  settle(self)
  return self
end


local function copy_of(self, slot)
  local copy = new_slot(self, slot.k, slot.v)
  copy.all_k:copy_(slot.all_k)
  copy.all_v:copy_(slot.all_v)
  return copy
end


function Fixed:clone()
  local copy, at = room.new(self.capacity), start_of(self)
  copy.at = at and heed.keep(at:clone()) or false
  for _, layer in ipairs(self.contexts) do copy:store(layer, self.slots[layer].context) end
  for _, layer in ipairs(self.order) do
    table.insert(copy.order, layer)
    copy.slots[layer] = copy_of(self, self.slots[layer])
  end
  if at then turns.settle(copy, {batch = self.step.batch}) end
  return copy
end


function Fixed:__tostring()
  return ("Cache(%d layers, capacity %d)"):format(#self.order + #self.contexts, self.capacity)
end


return room
