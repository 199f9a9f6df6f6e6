-- The store of a cache that grows: keys are columns of (B, Hk, S, D), and sequences are aligned at
-- their ends (heed.nn.cache.alignment). New columns are written in place into buffers that double,
-- or joined by `cat` where gradients are recorded. nn/cache/init.lua states the interface.

local alignment = require "heed.nn.cache.alignment"
local recording = require "heed.internal.recording"
local columns = require "heed.nn.cache.columns"
local core = require "heed.core"
local heed = require "heed"
local masks = require "heed.mask"
local options = require "heed.internal.options"
local steps = require "heed.nn.cache.steps"

local fail = heed.fail

local growing = {}

local SELF <const> = "nn.Cache"


-- Steps ------------------------------------------------------------------

-- Each step does other work than the one before.
function growing.check_capture()
  if not recording.running() then return end
  fail("%s: a cache that grows cannot be captured, since no step does the work of another; "
       .. "nn.Cache{capacity = n} can, with room for n positions", SELF)
end


function growing.check_call() end


-- How many columns are kept between steps.
local function limit_of(cache)
  return cache.window and cache.keep + cache.window - 1 or math.huge
end


-- Where the tokens of each sequence begin and end among the columns of a step, stored ones first.
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


local function make_step(cache, from, x, lengths, keys)
  local T = x:size(2)
  local step = {
    from = from, T = T, lengths = lengths, keys = keys, device = x.device,
    stored = math.min(from.length, limit_of(cache)),
    first = #cache.order == 0, done = 0,
  }
  step.spans = alignment.spans(SELF, from, T, lengths, keys)
  step.begin, step.finish = extents(step, step.spans)
  step.to, step.shift, step.gone = alignment.advance(from, T, step.spans)
  if from.length > step.stored then step.gone = 0 end   -- the first columns are no padding then
  step.positions = alignment.positions(from, T, step.spans, x.device)
  return step
end


local function check_batch(batch, x)
  if x:size(1) == batch then return end
  fail("%s: %d rows expected, as before, got %d; cache:reorder(ids) changes them, another batch "
       .. "has a cache of its own", SELF, batch, x:size(1))
end


function growing.new_step(cache, x, lengths, keys)
  local now = cache.step
  if steps.is_empty(cache) then
    return make_step(cache, alignment.empty(x:size(1)), x, lengths, keys)
  end
  check_batch(now.to.batch, x)
  return make_step(cache, now.done > 0 and now.to or now.from, x, lengths, keys)
end


local function same_padding(a, b)
  if a == nil or b == nil then return a == b end
  return a == b or options.is_alive(b) and a.shape == b.shape and a.dtype == b.dtype and a:equal(b)
end


-- All layers take part in a step with as many columns, and with the same padding.
function growing.check_same(cache, x, lengths, keys)
  local step = cache.step
  check_batch(step.to.batch, x)
  steps.check_tokens(step, x)
  if not same_padding(step.lengths, lengths) or not same_padding(step.keys, keys) then
    fail("%s: the lengths and keys of the layers before expected, got others", SELF)
  end
end


local function both(a, b) return a and a & b or b end


-- The mask of the step, which joins that of the call; nil if every query may attend to every key.
local function mask_of(cache, step)
  local S, begin, finish, m = step.stored + step.T, step.begin, step.finish, nil
  local function tensor(list) return heed.tensor(list, {device = step.device, dtype = "int64"}) end
  if cache.window and S > cache.keep + cache.window then
    m = masks.window(cache.window - 1, math.huge)
    if cache.keep > 0 then m = m | masks.prefix(tensor(begin) + cache.keep) end
  end
  if math.max(0, table.unpack(begin)) > 0 then m = both(m, ~masks.prefix(tensor(begin))) end
  if math.min(S, table.unpack(finish)) < S then m = both(m, masks.lengths(tensor(finish))) end
  return m
end


-- The columns of a layer that stay after a step: aligned, and no more than a window asks for.
local function between_steps(cache, step, held)
  local begin = {}
  for b, n in ipairs(step.begin) do
    begin[b] = step.shift and n + step.shift[b] - step.gone or n
  end
  if step.shift then held = columns.align(held, step.shift, step.gone) end
  return columns.slide(held, limit_of(cache), cache.keep, begin)
end


function growing.append(cache, slot, k, v)
  local step = cache.step
  if slot then columns.check(SELF, slot.held, k) end
  local held = columns.extend(slot and slot.held, k, v)
  local kept = between_steps(cache, step, held)
  if step.mask == nil then step.mask = mask_of(cache, step) or false end
  k, v = columns.read(held)
  return {held = kept}, k, v, step.mask or nil
end


function growing.written() return nil end


-- Whether columns moved or left before those of a step; between steps: of those that the next step
-- finds.
function growing.has_moved(cache)
  local step = cache.step
  local from = step.from or step.to
  return from.moved or from.length > (step.stored or limit_of(cache))
end


-- Between steps ----------------------------------------------------------

-- How the columns of all whole steps are aligned; nil before the first.
local function present(cache)
  if not steps.is_started(cache, growing) then return nil end
  return cache.step.done == 0 and cache.step.from or cache.step.to
end


function growing.length(cache)
  local now = present(cache)
  return now and now.length or 0
end


function growing.positions(cache, T, given)
  local o = options.read("positions", given, {keys = options.any, lengths = options.any})
  local now, padded = present(cache), o.keys or o.lengths
  if not now and not padded then return 0 end
  now = now or alignment.empty(alignment.batch_of("positions", padded))
  local spans = alignment.spans("positions", now, T, o.lengths, o.keys)
  return alignment.positions(now, T, spans, padded and padded.device or cache.step.device)
end


local function batch_of(cache, now)
  local first = cache.contexts[1]
  return now and now.batch or first and cache.slots[first].context.k:size(1) or 0
end


function growing.reorder(cache, ids)
  local now = present(cache)
  ids = steps.read_rows(ids, batch_of(cache, now))
  local to = now and alignment.reorder(now, ids)
  local function chosen(t)
    return heed.keep(t:index_select(1, heed.tensor(ids, {device = t.device, dtype = "int64"})))
  end
  local slots = {}
  for _, use in ipairs(cache.contexts) do
    local context = {}
    for name, t in pairs(cache.slots[use].context) do context[name] = chosen(t) end
    slots[use] = {context = context}
  end
  for _, use in ipairs(cache.order) do
    local held = columns.map(cache.slots[use].held, chosen)
    slots[use] = {held = columns.last(held, math.min(to.length, limit_of(cache)))}
  end
  local step = to and {to = to, device = cache.step.device} or nil
  core.set_fields(steps.merged(cache, slots, step))
end


function growing.truncate(cache, n, length)
  if n == length then return end
  if length > limit_of(cache) then
    fail("truncate: the tokens before the window of %d are forgotten", cache.window)
  end
  local slots, to = steps.slots_of(cache), alignment.truncate(present(cache), n)
  for _, use in ipairs(cache.order) do
    slots[use].held = columns.cut(slots[use].held, length - n)
  end
  core.set_fields(steps.merged(cache, slots, {to = to, device = cache.step.device}))
end


-- Both caches share columns until one of them writes.
function growing.clone(cache, copy)
  local now = present(cache)
  for _, use in ipairs(cache.order) do
    local slot = cache.slots[use]
    slot.held = columns.shared(slot.held)
    copy.slots[use] = {held = slot.held}
  end
  if now then
    core.set_fields(steps.merged(copy, copy.slots, {to = now, device = cache.step.device}))
  end
end


growing.own = heed.keep

growing.alignment, growing.limit = present, limit_of


-- Readers keep the values: the columns are no longer written to in place, as those behind
-- `truncate` would be.
function growing.read(_, slot)
  slot.held = columns.shared(slot.held)
  return columns.read(slot.held)
end


function growing.fill(_, slots, held, to, device)
  for use, has in pairs(held) do slots[use] = {held = columns.new(has.k, has.v)} end
  return {to = to, device = device}
end


return growing
