-- heed.pad of lists: makes one padded tensor of sequences, and a tensor of their lengths.

local heed = require "heed.internal.surface"
local options = require "heed.internal.options"

local fail, kind = heed.fail, options.kind


-- Converts a sequence to a list of integers; returns also the device if it was a tensor.
local function sequence(list, i)
  if heed.is_tensor(list) then
    if list.dtype == "int64" and list:dim() == 1 then return list:totable(), list.device end
    fail("pad: an int64 tensor of rank 1 expected at position %d, got %s", i,
         options.typed(list))
  elseif type(list) ~= "table" then
    fail("pad: a list of ids expected at position %d, got %s", i, kind(list))
  end
  local ids = {}
  for j = 1, options.last(list) do
    ids[j] = type(list[j]) == "number" and math.tointeger(list[j])
      or fail("pad: an id expected at position (%d, %d), got %s", i, j, kind(list[j]))
  end
  return ids
end


-- All sequences as tables, the length of the longest, and a device.
local function sequences(lists)
  if type(lists) ~= "table" then fail("pad: a list of lists expected, got %s", kind(lists)) end
  options.check_list("pad", lists)
  local all, longest, device = {}, 0, nil
  for i = 1, options.last(lists) do
    local ids, where = sequence(lists[i], i)
    all[i], longest, device = ids, math.max(longest, #ids), device or where
  end
  if #all == 0 then fail("pad: at least one list expected, got none") end
  return all, longest, device
end


local function width_of(length, longest)
  if length == nil then return longest end
  length = options.count("pad", "option length", length, 0)
  if length >= longest then return length end
  fail("pad: an option length of at least %d expected, which the longest list has, got %d",
       longest, length)
end


local function filled(ids, width, value, left)
  local row, shift = {}, left and width - #ids or 0
  for j = 1, width do row[j] = ids[j - shift] or value end
  return row
end


-- Adds `more` columns of one value to rows (B, T).
local function widened(t, more, value, left)
  if more == 0 then return t end
  return t:pad(left and {more, 0} or {0, more}, {value = value})
end


---@class heed.pad.options
---@field value? integer what stands where a list has ended; 1 unless given, -100 for targets
---@field length? integer of all sequences, at least that of the longest, which it is unless given
---@field side? "right"|"left" where padding stands; right unless given

---One tensor of lists of different lengths. Padding is the id 1 unless given, which embeddings
---take: pass the lengths on, and what padding holds never counts. Lists are not cut.
---@param lists (integer[]|heed.Tensor)[] lists of ids, or int64 tensors of rank 1
---@param given? heed.pad.options
---@return heed.Tensor ids int64 (B, T)
---@return heed.Tensor lengths int64 (B)
return function(lists, given, ...)
  options.no_more("pad", 2, ...)
  local o = options.read("pad", given, {length = options.any, side = "right", value = 1})
  if o.side ~= "right" and o.side ~= "left" then
    fail("pad: 'right' or 'left' expected as option side, got %s", kind(o.side))
  end
  local value = math.tointeger(o.value)
  if not value then fail("pad: an id expected as option value, got %s", kind(o.value)) end
  local all, longest, device = sequences(lists)
  local left, width, rows, lengths = o.side == "left", width_of(o.length, longest), {}, {}
  for i, ids in ipairs(all) do rows[i], lengths[i] = filled(ids, longest, value, left), #ids end
  local how = {dtype = "int64", device = device}
  local t = longest > 0 and heed.tensor(rows, how) or heed.zeros(#rows, 0, how)
  return widened(t, width - longest, value, left), heed.tensor(lengths, how)
end
