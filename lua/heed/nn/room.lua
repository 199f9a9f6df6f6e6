-- A cache of a fixed capacity: nn.Cache{capacity = n}.
--
-- Keys lie where their tokens stand, in buffers with room for all of them, and how many there are
-- is a tensor. So all steps of as many tokens are the same work, which heed.capture keeps:
--
--   local step = heed.capture(function(ids) return model(ids, {cache = cache, causal = true}) end)

local capture = require "heed.capture"
local columns = require "heed.nn.columns"
local heed = require "heed"
local options = require "heed.options"

local fail = heed.fail

local room = {}

---@class heed.Cache.fixed: heed.Cache
---@field capacity integer
---@field package at heed.Tensor|false int64 (1): the tokens before the next step
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
    at = false, step = false, turn = false,
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


-- The positions of T tokens behind `at`, (1, T).
local function positions_at(at, T)
  return (heed.arange(0, T - 1, {device = at.device}) + at):unsqueeze(1)
end


-- Query i, of position p[i], sees the keys up to there.
local function mask_of(self, positions, T)
  if T == 1 then return heed.mask.lengths(self.at) end
  local keys = heed.arange(0, self.capacity - 1, {device = self.at.device})
  return heed.mask.tensor(keys:le(positions:t()))
end


-- Only what may be read is checked here; the rest is where keys are written.
local function check_room(self, T)
  if not capture.reaches(self.at) then return end
  local n = self.at:item() + T
  if n > self.capacity then
    fail("%s: room for %d positions, got %d", SELF, self.capacity, n)
  end
end


local function make_step(self, x)
  local T = x:size(2)
  self.at = self.at or heed.keep(heed.zeros(1, {dtype = "int64", device = x.device}))
  check_room(self, T)
  local step = {T = T, batch = x:size(1), positions = positions_at(self.at, T)}
  self.at:add_(T)
  step.mask = mask_of(self, step.positions, T)
  return step
end


local function check_call(self, x, lengths, keys)
  local batch = self.step and self.step.batch or x:size(1)
  if lengths ~= nil or keys ~= nil then
    fail("%s: option %s: not with a capacity", SELF, keys ~= nil and "keys" or "lengths")
  elseif x:size(1) ~= batch then
    fail("%s: %d rows expected, as before, got %d; another batch has a cache of its own", SELF,
         batch, x:size(1))
  end
end


function Fixed:place(layer, x, lengths, keys)
  local slot = self.slots[layer]
  check_call(self, x, lengths, keys)
  if slot and slot.context then
    fail("%s: %s attended to a context before", SELF, layer.__name)
  end
  self.turn = layer
  if not self.step or slot and slot.step == self.step then self.step = make_step(self, x) end
  if self.step.T ~= x:size(2) then
    fail("%s: %d tokens expected, as in the layers before, got %d", SELF, self.step.T, x:size(2))
  end
  return self.step.positions
end


local function buffer(self, t)
  local B, H, _, D = t:size()
  return heed.keep(heed.zeros(B, H, self.capacity, D, {dtype = t.dtype, device = t.device}))
end


function Fixed:append(layer, k, v)
  local slot, step = self.slots[layer], self.step
  if self.turn ~= layer or k:size(3) ~= step.T then
    fail("append: cache:place(layer, x), then cache:append(layer, k, v) with the keys and values "
         .. "of x expected")
  elseif k.requires_grad or v.requires_grad then
    fail("%s: with a capacity it holds no gradients: heed.no_grad(model, ...)", SELF)
  end
  if not slot then
    slot = {k = buffer(self, k), v = buffer(self, v), step = false}
    self.slots[layer] = slot
    table.insert(self.order, layer)
  end
  columns.check(SELF, slot, k)
  local where = {{}, {}, step.positions:squeeze(1) + 1}
  slot.k[where], slot.v[where] = k, v
  return slot.k, slot.v, step.mask
end


function Fixed:commit(layer)
  self.slots[layer].step, self.turn = self.step, false
end


function Fixed:has_moved() return false end


function Fixed:length() return self.at and self.at:item() or 0 end


function Fixed:positions(T)
  return self.at and positions_at(self.at, options.count("positions", "the number of tokens", T, 0))
         or 0
end


function Fixed:reorder(ids)
  local t = heed.is_tensor(ids) and ids or heed.tensor(ids)
  for _, slot in pairs(self.slots) do
    for _, held in pairs(slot.context or {slot.k, slot.v}) do
      if t:numel() ~= held:size(1) then
        fail("reorder: as many rows as before expected, %d, since the cache has a capacity, got %d",
             held:size(1), t:numel())
      end
      held:copy_(held:index_select(1, t:to(held.device)))
    end
  end
  return self
end


function Fixed:truncate(n)
  local length = self:length()
  n = options.count("truncate", "the number of tokens", n, 0)
  if n > length then fail("truncate: at most %d tokens expected, got %d", length, n) end
  if self.at then self.at:fill_(n) end
  return self
end


function Fixed:clone()
  local copy = room.new(self.capacity)
  copy.at = self.at and heed.keep(self.at:clone())
  copy.step = self.step
  for _, layer in ipairs(self.contexts) do
    table.insert(copy.contexts, layer)
    copy.slots[layer] = self.slots[layer]
  end
  for _, layer in ipairs(self.order) do
    local slot = self.slots[layer]
    table.insert(copy.order, layer)
    copy.slots[layer] = {
      k = heed.keep(slot.k:clone()), v = heed.keep(slot.v:clone()), step = slot.step,
    }
  end
  return copy
end


function Fixed:__tostring()
  return ("Cache(%d layers, capacity %d)"):format(#self.order + #self.contexts, self.capacity)
end


return room
