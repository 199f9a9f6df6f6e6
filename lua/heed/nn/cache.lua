-- nn.Cache: the keys and values that a model's attention layers have computed, so that a step
-- computes those of new tokens alone.
--
--   local cache = nn.Cache()
--   local logits = model(prompt, {cache = cache})     -- (B, T)
--   logits = model(next, {cache = cache})             -- (B, 1), and so on
--
-- One cache serves a whole model: each layer has a slot of its own, found by the layer itself. A
-- call of the model is one *step* of the cache, the same for all layers; so a layer that a model
-- calls several times in one pass (ALBERT's) cannot have a cache: each call would be a step. Keys
-- are columns of (B, Hk, S, D), rows aligned at their ends (heed.nn.rows); new ones are written in
-- place into buffers that double, or joined by `cat` where gradients are recorded.

local capture = require "heed.capture"
local columns = require "heed.nn.columns"
local heed = require "heed"
local options = require "heed.internal.options"
local room = require "heed.nn.room"
local rows = require "heed.nn.rows"
local turns = require "heed.nn.turns"

local fail = heed.fail

---@class heed.Cache
---@field window integer|false how many of the last positions are kept
---@field keep integer how many of the first positions are kept besides
---@field capacity integer|false how many positions there is room for
---@overload fun(options?: heed.Cache.options): heed.Cache
local Cache = {__name = "Cache"}

---@class heed.Cache.options
---@field window? integer a query sees itself and the window - 1 positions before it; those further
---back are forgotten
---@field keep? integer the first positions, which a window does not forget: G. Xiao et al. (2023),
---"Efficient streaming language models with attention sinks"; 0 unless given
---@field capacity? integer room for so many positions, made once: then the work of a step is always
---the same, and `heed.capture` can keep it. Without gradients, padding, masks and biases. Weights
---of attention then have a column for each of these positions, 0 where no key is yet

local SELF <const> = "nn.Cache"


function Cache:__index(name)
  local value = Cache[name]
  if value == nil then return options.refuse_name(SELF, name, Cache) end
  return value
end


---Whether a value is a cache.
---@param value any
---@return boolean
function Cache.is(value)
  if type(value) ~= "table" then return false end
  local class = getmetatable(value)
  return class == Cache or class == room.Cache
end


local function new(window, keep)
  return setmetatable({
    window = window, keep = keep, capacity = false,
    slots = {},                      -- of each layer: what it holds
    order = {},                      -- layers that attend to their own input, as they came
    contexts = {},                   -- layers that attend to a context
    step = false,                    -- the present one, or the last
    turn = false,                    -- the layer at work
    pending = false,                 -- what it has appended
  }, Cache)
end


local function construct(_, given, ...)
  options.no_more(SELF, 1, ...)
  local o = options.read(SELF, given, {capacity = options.any, keep = 0, window = options.any})
  if o.capacity ~= nil then
    if o.window ~= nil then fail("%s: either capacity or window expected, got both", SELF) end
    return room.new(options.count(SELF, "capacity", o.capacity))
  end
  local keep = options.count(SELF, "keep", o.keep, 0)
  if o.window == nil and keep > 0 then fail("%s: option keep: it goes with a window", SELF) end
  return new(o.window ~= nil and options.count(SELF, "window", o.window), keep)
end


-- Steps ------------------------------------------------------------------

-- How many columns are kept between steps.
local function limit_of(self)
  return self.window and self.keep + self.window - 1 or math.huge
end


-- Where the tokens of each row begin and end among the columns of a step, stored ones first.
local function extents(step, spans)
  local begin, finish = {}, {}
  local from, stored = step.from, step.stored
  for b = 1, from.batch do
    local first, last = 1, step.T
    if spans then first, last = spans.first[b], spans.last[b] end
    if stored > 0 and first > 1 then
      fail("%s: padding on the left in the first call only, got row %d whose first token is "
           .. "column %d of a later one", SELF, b, first)
    end
    begin[b] = math.max(from.pad[b] - (from.length - stored), 0) + first - 1
    finish[b] = stored + last
  end
  return begin, finish
end


local function make_step(self, from, x, lengths, keys)
  local T = x:size(2)
  local step = {
    from = from, T = T, lengths = lengths, keys = keys, device = x.device,
    stored = math.min(from.length, limit_of(self)),
    first = #self.order == 0, done = 0,
  }
  step.spans = rows.spans(SELF, from, T, lengths, keys)
  step.begin, step.finish = extents(step, step.spans)
  step.to, step.shift, step.gone = rows.advance(from, T, step.spans)
  if from.length > step.stored then step.gone = 0 end   -- the first columns are no padding then
  step.positions = rows.positions(from, T, step.spans, x.device)
  return step
end


local function check_batch(batch, x)
  if x:size(1) == batch then return end
  fail("%s: %d rows expected, as before, got %d; cache:reorder(ids) changes them, another batch "
       .. "has a cache of its own", SELF, batch, x:size(1))
end


local function same_padding(a, b)
  if a == nil or b == nil then return a == b end
  return a == b or a.shape == b.shape and a:equal(b)
end


-- All layers take part in a step with as many columns, and with the same padding.
local function check_same(step, x, lengths, keys)
  if step.T ~= x:size(2) then
    fail("%s: %d tokens expected, as in the layers before, got %d", SELF, step.T, x:size(2))
  elseif not same_padding(step.lengths, lengths) or not same_padding(step.keys, keys) then
    fail("%s: the lengths and keys of the layers before expected, got others", SELF)
  end
end


-- The step that a layer's call belongs to: the present one, or a new one.
local function step_of(self, layer, x, lengths, keys)
  local now = self.step
  local step = turns.joined(self, layer)
  if turns.is_empty(self) then
    return make_step(self, rows.empty(x:size(1)), x, lengths, keys)
  end
  check_batch(now.to.batch, x)
  if not step then return make_step(self, now.done > 0 and now.to or now.from, x, lengths, keys) end
  check_same(step, x, lengths, keys)
  return step
end


local function both(a, b) return a and a & b or b end


-- Who may attend to whom besides what the call says: a mask, or nil for all.
local function mask_of(self, step)
  local S, begin, finish, m = step.stored + step.T, step.begin, step.finish, nil
  local function tensor(list) return heed.tensor(list, {device = step.device, dtype = "int64"}) end
  if self.window and S > self.keep + self.window then
    m = heed.mask.window(self.window - 1, math.huge)
    if self.keep > 0 then m = m | heed.mask.prefix(tensor(begin) + self.keep) end
  end
  if math.max(0, table.unpack(begin)) > 0 then m = both(m, ~heed.mask.prefix(tensor(begin))) end
  if math.min(S, table.unpack(finish)) < S then m = both(m, heed.mask.lengths(tensor(finish))) end
  return m
end


-- What layers call -------------------------------------------------------

-- Each step is other work than the one before.
local function refuse_captured()
  if not capture.notes then return end
  fail("%s: a cache that grows cannot be captured, since no step does the work of another; "
       .. "nn.Cache{capacity = n} can, with room for n positions", SELF)
end


---Begins a layer's part of a step, with T new tokens: where they stand. A layer that attends to
---its own input calls `place`, then `append`, then, when all went well, `commit`.
---@param layer heed.Module
---@param x heed.Tensor (B, T, ...)
---@param lengths? heed.Tensor (B) how many of a row's T columns are tokens; others follow them
---@param keys? heed.Tensor bool (B, T) which columns are tokens; others stand at either side. The
---columns of the calls before may stand in front of them
---@return integer|heed.Tensor positions of the first, from 0, where all rows agree; or (B, T)
function Cache:place(layer, x, lengths, keys)
  refuse_captured()
  turns.slot_of(self, layer, false)
  self.turn, self.pending = layer, false
  self.step = step_of(self, layer, x, lengths, keys)
  return self.step.positions
end


-- What is kept of a layer's columns after a step: aligned, and no more than a window asks for.
local function between_steps(self, step, held)
  local begin = {}
  for b, n in ipairs(step.begin) do
    begin[b] = step.shift and n + step.shift[b] - step.gone or n
  end
  if step.shift then held = columns.align(held, step.shift, step.gone) end
  return columns.slide(held, limit_of(self), self.keep, begin)
end


---All keys and values, stored ones first, and who may attend to them besides what the call says.
---@param layer heed.Module
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@param causal? boolean whether the call is: asked for by a cache with a capacity, whose mask says
---so, since its keys do not end where the queries do
---@return heed.Tensor k (B, Hk, S + T, D); with a capacity (B, Hk, capacity, D)
---@return heed.Tensor v (B, Hk, S + T, Dv); with a capacity (B, Hk, capacity, Dv)
---@return heed.Mask? mask
function Cache:append(layer, k, v, causal)
  local step, slot = self.step, turns.slot_of(self, layer, false)
  turns.check_appended(self, layer, k, v, causal)
  if slot then columns.check(SELF, slot.held, k) end
  local held = columns.extend(slot and slot.held, k, v)
  self.pending = between_steps(self, step, held)
  if step.mask == nil then step.mask = mask_of(self, step) or false end
  k, v = columns.read(held)
  return k, v, step.mask or nil
end


---Ends a layer's part of a step: what was appended is kept.
---@param layer heed.Module
function Cache:commit(layer)
  turns.check(self, "commit", layer, self.pending)
  turns.commit(self, layer, {held = self.pending})
end


---Whether the columns of the present step are not numbered as tokens are: the cache moved rows to
---their ends, or has forgotten some.
---@return boolean
function Cache:has_moved()
  local from = self.step.from
  return from.moved or from.length > self.step.stored
end


---The keys and values that a layer made of its context; nil before the first call.
---@param layer heed.Module
---@return {k: heed.Tensor, v: heed.Tensor, lengths: heed.Tensor?, keys: heed.Tensor?}?
function Cache:context(layer)
  if not self.capacity then refuse_captured() end
  local slot = self.slots[layer]
  return slot and slot.context or nil
end


---Keeps the keys and values that a layer made of its context; copies of them with a capacity, where
---`reorder` changes them in place.
---@param layer heed.Module
---@param context {k: heed.Tensor, v: heed.Tensor, lengths: heed.Tensor?, keys: heed.Tensor?}
function Cache:store(layer, context)
  if capture.notes then
    fail("%s: what a layer makes of its context is kept from the first call, which cannot be "
         .. "captured; call the model once before with this cache", SELF)
  end
  turns.slot_of(self, layer, true)
  local own = {}
  for name, t in pairs(context) do own[name] = heed.keep(self.capacity and t:clone() or t) end
  self.slots[layer] = {context = own}
  table.insert(self.contexts, layer)
end


-- What models call -------------------------------------------------------

local function present_rows(self)
  refuse_captured()
  if turns.is_empty(self) then return nil end
  turns.check_finished(self)
  return self.step.done == 0 and self.step.from or self.step.to
end


---How many tokens it has seen: those of the longest row.
---@return integer
function Cache:length()
  local now = present_rows(self)
  return now and now.length or 0
end


---Where the next T tokens stand, from 0.
---@param T integer
---@param given? {lengths: heed.Tensor, keys: heed.Tensor} the padding of the call to come
---@return integer|heed.Tensor positions of the first token where all rows agree; or int64 (B, T)
function Cache:positions(T, given)
  T = options.count("positions", "the number of tokens", T, 0)
  local o = options.read("positions", given, {keys = options.any, lengths = options.any})
  local now, padded = present_rows(self), o.keys or o.lengths
  if not now and not padded then return 0 end
  now = now or rows.empty(padded:size(1))
  local spans = rows.spans("positions", now, T, o.lengths, o.keys)
  return rows.positions(now, T, spans, padded and padded.device or self.step.device)
end


-- A list of rows, from a tensor or a list.
local function read_ids(ids, batch)
  if heed.is_tensor(ids) and ids.dtype == "int64" and ids:dim() == 1 then ids = ids:totable() end
  if type(ids) ~= "table" then
    fail("reorder: an int64 tensor of one dimension, or a list of rows expected, got %s",
         options.kind(ids))
  end
  options.check_list("reorder", ids)
  for i = 1, options.last(ids) do
    local b = math.type(ids[i]) == "integer" and ids[i] or 0
    if b < 1 or b > batch then
      fail("reorder: rows from 1 to %d expected, got %s at position %d", batch,
           options.kind(ids[i]), i)
    end
  end
  return ids
end


local function batch_of(self, now)
  local first = self.contexts[1]
  return now and now.batch or first and self.slots[first].context.k:size(1) or 0
end


---Puts rows into another order, as a search with beams does; there may be more of them, or fewer.
---@param ids heed.Tensor|integer[] which row each new one continues, from 1
---@return heed.Cache self
function Cache:reorder(ids)
  local now = present_rows(self)
  ids = read_ids(ids, batch_of(self, now))
  local to = now and rows.reorder(now, ids)
  local function chosen(t)
    return heed.keep(t:index_select(1, heed.tensor(ids, {device = t.device, dtype = "int64"})))
  end
  for _, layer in ipairs(self.contexts) do
    local context = {}
    for name, t in pairs(self.slots[layer].context) do context[name] = chosen(t) end
    self.slots[layer] = {context = context}
  end
  for _, layer in ipairs(self.order) do
    local slot = self.slots[layer]
    local held = columns.map(slot.held, chosen)
    slot.held = columns.last(held, math.min(to.length, limit_of(self)))
  end
  if to then turns.settle(self, {to = to, device = self.step.device}) end
  return self
end


---Keeps the first n tokens and forgets those behind them. What a window has forgotten does not come
---back: then it is refused.
---@param n integer how many remain, of the longest row
---@return heed.Cache self
function Cache:truncate(n)
  local length
  n, length = turns.kept(self, n)
  if n == length then return self end
  if length > limit_of(self) then
    fail("truncate: the tokens before the window of %d are forgotten", self.window)
  end
  for _, layer in ipairs(self.order) do
    local slot = self.slots[layer]
    slot.held = columns.cut(slot.held, length - n)
  end
  turns.settle(self, {to = rows.truncate(present_rows(self), n), device = self.step.device})
  return self
end


---A copy, which goes on by itself. What both hold is shared until one of them writes.
---@return heed.Cache
function Cache:clone()
  local copy, now = new(self.window, self.keep), present_rows(self)
  for _, layer in ipairs(self.contexts) do
    table.insert(copy.contexts, layer)
    copy.slots[layer] = self.slots[layer]
  end
  for _, layer in ipairs(self.order) do
    local slot = self.slots[layer]
    slot.held = columns.shared(slot.held)
    table.insert(copy.order, layer)
    copy.slots[layer] = {held = slot.held}
  end
  if now then turns.settle(copy, {to = now, device = self.step.device}) end
  return copy
end


function Cache:__tostring()
  local now = self.step and self.step.done > 0 and self.step.to
  local texts = {("%d tokens in %d rows"):format(now and now.length or 0, now and now.batch or 0)}
  texts[2] = ("%d layers"):format(#self.order + #self.contexts)
  if #self.contexts > 0 then texts[2] = texts[2] .. (", %d of a context"):format(#self.contexts) end
  if self.window then texts[3] = "window " .. self.window end
  if self.keep > 0 then texts[4] = "keep " .. self.keep end
  return "Cache(" .. table.concat(texts, ", ") .. ")"
end


options.guard(Cache, {
  append = 4, clone = 0, commit = 1, context = 1, has_moved = 0, length = 0, place = 4,
  positions = 2, reorder = 1, store = 2, truncate = 1,
}, {is = Cache.is, what = "a cache", variable = "cache"})


room.inherit(Cache)


return setmetatable(Cache, {__call = construct, __name = "class Cache"})
