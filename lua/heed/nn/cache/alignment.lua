-- How the sequences of a batch are aligned while a cache grows.
--
-- Sequences differ in length and are aligned at their ends: the next token of every sequence goes
-- to the same column, distances are counted from the end, and padding is at the front.
--
--     .  a1 a2       length 3, pad {1, 0}
--     b1 b2 b3
--
-- A call of T columns may hold padding of its own, at either side of a sequence: the *spans* of the
-- call are the first and last column of each sequence that are tokens. All layers of a model share
-- these plain values.

local heed = require "heed"
local options = require "heed.internal.options"

---@class heed.cache.alignment
---@field batch integer how many sequences
---@field length integer tokens of the longest
---@field pad integer[] for each sequence, how many tokens it has less
---@field came integer columns of all calls, with padding
---@field moved boolean whether columns are not where they were when they came

---@class heed.cache.alignment.spans
---@field first integer[] for each sequence
---@field last integer[] 0 where a sequence has no token

local alignment = {}


local function filled(n, value)
  local list = {}
  for i = 1, n do list[i] = value end
  return list
end


---Sequences with no token.
---@param batch integer
---@return heed.cache.alignment
function alignment.empty(batch)
  return {batch = batch, length = 0, pad = filled(batch, 0), came = 0, moved = false}
end


---How many sequences a call without keys and values before it has, by its lengths or keys.
---@param who string
---@param padded any
---@return integer
function alignment.batch_of(who, padded)
  if heed.is_tensor(padded) and padded:dim() > 0 then return padded:size(1) end
  heed.fail("%s: an int64 tensor of shape (B) expected as lengths, or a bool tensor of shape (B, "
            .. "T) as keys, got %s", who, options.kind(padded))
end


-- The first and last true of a list; and whether all between them are.
local function span(present)
  local first, last, n = 1, 0, 0
  for i, here in ipairs(present) do
    if here then
      if n == 0 then first = i end
      last, n = i, n + 1
    end
  end
  return first, last, n == last - first + 1
end


-- The columns of a call's keys, which may tell of the calls before, too: as they were.
local function keys_of_call(who, from, T, keys)
  local good = heed.is_tensor(keys) and keys.dtype == "bool" and keys:dim() == 2
               and keys:size(1) == from.batch
  if good and keys:size(2) == T then return keys end
  if not good or keys:size(2) ~= from.came + T then
    heed.fail("%s: a bool tensor of shape (%d, %d) expected as keys, true where the call's tokens "
              .. "are, got %s", who, from.batch, T, options.typed(keys))
  end
  for b, n in ipairs(keys:narrow(2, 1, from.came):sum(2):totable()) do
    if n ~= from.length - from.pad[b] then
      heed.fail("%s: keys as in the calls before expected, with %d tokens of row %d, got %d", who,
                from.length - from.pad[b], b, n)
    end
  end
  return keys:narrow(2, from.came + 1, T)
end


local function spans_of_keys(who, keys)
  local first, last = {}, {}
  for b, present in ipairs(keys:totable()) do
    local whole
    first[b], last[b], whole = span(present)
    if not whole then
      heed.fail("%s: with a cache, padding at the ends of a row expected as keys, got row %d with "
                .. "holes", who, b)
    end
  end
  return {first = first, last = last}
end


local function cut_to_lengths(who, spans, lengths, T)
  if not heed.is_tensor(lengths) or lengths.dtype ~= "int64" or lengths:dim() > 1 then
    heed.fail("%s: an int64 tensor of shape (%d) expected as lengths, got %s", who, #spans.last,
              options.typed(lengths))
  end
  for b, n in ipairs(lengths:expand(#spans.last):totable()) do
    if n < 0 or n > T then
      heed.fail("%s: lengths from 0 to %d expected, got %d at position %d", who, T, n, b)
    end
    spans.last[b] = math.min(spans.last[b], n)
    if spans.last[b] < spans.first[b] then spans.first[b], spans.last[b] = 1, 0 end
  end
end


local function is_full(spans, T)
  for b, last in ipairs(spans.last) do
    if spans.first[b] ~= 1 or last ~= T then return false end
  end
  return true
end


---The spans of a call, or nil where all its columns are tokens.
---@param who string
---@param from heed.cache.alignment
---@param T integer
---@param lengths? heed.Tensor int64 (B)
---@param keys? heed.Tensor bool (B, T), or with the columns of all calls before
---@return heed.cache.alignment.spans?
function alignment.spans(who, from, T, lengths, keys)
  if lengths == nil and keys == nil then return nil end
  local spans = keys ~= nil and spans_of_keys(who, keys_of_call(who, from, T, keys))
                or {first = filled(from.batch, 1), last = filled(from.batch, T)}
  if lengths ~= nil then cut_to_lengths(who, spans, lengths, T) end
  return not is_full(spans, T) and spans or nil
end


---The alignment behind a call; how far each sequence moved to the right; and how many columns were
---padding in all of them and are gone.
---@param from heed.cache.alignment
---@param T integer
---@param spans? heed.cache.alignment.spans
---@return heed.cache.alignment to
---@return integer[]? shift nil where the call has no padding
---@return integer? gone
function alignment.advance(from, T, spans)
  if not spans then
    return {
      batch = from.batch, length = from.length + T, pad = from.pad, came = from.came + T,
      moved = from.moved,
    }
  end
  local pad, shift, gone, moved = {}, {}, math.huge, from.moved
  for b = 1, from.batch do
    shift[b] = T - spans.last[b]
    moved = moved or shift[b] > 0
    pad[b] = from.pad[b] + shift[b] + spans.first[b] - 1
    gone = math.min(gone, pad[b])
  end
  for b = 1, from.batch do pad[b] = pad[b] - gone end
  local to = {
    batch = from.batch, length = from.length + T - gone, pad = pad, came = from.came + T,
    moved = moved or gone > 0,
  }
  return to, shift, gone
end


---Where the tokens of a call stand, from 0.
---@param from heed.cache.alignment
---@param T integer
---@param spans? heed.cache.alignment.spans
---@param device string
---@return integer|heed.Tensor positions of the first token where all sequences agree, or (B, T)
function alignment.positions(from, T, spans, device)
  local start, same = {}, true
  for b = 1, from.batch do
    start[b] = from.length - from.pad[b] - (spans and spans.first[b] - 1 or 0)
    same = same and start[b] == start[1] and start[b] >= 0
  end
  if same then return start[1] or from.length end
  local columns = heed.arange(0, T - 1, {device = device})
  return (heed.tensor(start, {device = device}):unsqueeze(2) + columns):clamp{min = 0}
end


---Sequences without their last tokens.
---@param from heed.cache.alignment
---@param length integer of the longest sequence
---@return heed.cache.alignment
function alignment.truncate(from, length)
  local pad = {}
  for b, n in ipairs(from.pad) do pad[b] = math.min(n, length) end
  return {
    batch = from.batch, length = length, pad = pad, came = from.came - (from.length - length),
    moved = from.moved and length > 0,
  }
end


---Sequences in another order, repeated or left out. Columns that are padding in all of them are
---gone.
---@param from heed.cache.alignment
---@param ids integer[] from 1
---@return heed.cache.alignment
function alignment.reorder(from, ids)
  local pad, gone = {}, #ids > 0 and math.huge or 0
  for i, b in ipairs(ids) do
    pad[i] = from.pad[b]
    gone = math.min(gone, pad[i])
  end
  for i in ipairs(ids) do pad[i] = pad[i] - gone end
  return {
    batch = #ids, length = from.length - gone, pad = pad, came = from.came,
    moved = from.moved or gone > 0,
  }
end


return alignment
