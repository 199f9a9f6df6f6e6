-- Where tokens stand, as callers say it: an offset or a tensor of positions, from 0. And rows of
-- tables that are computed for positions, kept for the next call.

local core = require "heed.core"
local recording = require "heed.internal.recording"
local heed = require "heed"
local options = require "heed.internal.options"

local is_tensor = heed.is_tensor
local count = options.count

local places = {}

local FARTHEST <const> = 1 << 52   -- float64 has all positions up to here


-- Tables that are kept -----------------------------------------------------

local MOST_KEPT <const> = 16       -- tables, by what they depend on
local LARGEST <const> = 1 << 20    -- numbers in one that is kept
local BLOCK <const> = 256          -- rows: tables begin and end at multiples of it

local kept, order, latest = {}, {}, 0


-- A table replaces the oldest one. A capture keeps none: its results have no values until a replay.
-- Whether the table is kept.
local function keep(key, value, numbers)
  if recording.running() or numbers > LARGEST then return false end
  if kept[key] == nil then
    latest = latest % MOST_KEPT + 1
    if order[latest] then kept[order[latest]] = nil end
    order[latest] = key
  end
  for _, t in ipairs(value) do heed.keep(t) end
  kept[key] = value
  return true
end


---Rows for the positions from `offset` on, of tables that `make` computes for positions (rows);
---those around them are made at once, since the next step needs them.
---@param key string what the tables depend on
---@param make fun(p: heed.Tensor, ...): heed.Tensor, ... of positions (rows) in float64
---@param offset integer
---@param T integer how many rows
---@param device string
---@param ... any what `make` gets, too
---@return heed.Tensor ... (T, ...) of each table
function places.rows_of(key, make, offset, T, device, ...)
  local found, is_kept = kept[key], true
  if not found or offset < found.first or offset + T > found.last then
    local first, last = offset // BLOCK * BLOCK, -(-(offset + T) // BLOCK) * BLOCK
    local p = heed.arange(last - first, {dtype = "float64", device = device}) + (first - 1)
    found = {make(p, ...)}
    found.first, found.last = first, last
    is_kept = keep(key, found, found[1]:numel())
  end
  local rows = found.rows
  if not rows or rows.offset ~= offset or rows.count ~= T then
    rows, is_kept = {offset = offset, count = T}, is_kept and not recording.running()
    for i, t in ipairs(found) do
      local row = t:narrow(1, offset - found.first + 1, T)
      rows[i] = is_kept and heed.keep(row) or row
    end
    if is_kept then found.rows = rows end
  end
  return table.unpack(rows)
end


-- Tables by the tensor of positions that they are for.
local held = setmetatable({}, {__mode = "k"})

---Rows for a tensor of positions, of tables that `make` computes; kept for as long as the tensor
---lives and has these values, since all layers of a pass ask for the same.
---@param key string what the tables depend on
---@param make fun(p: heed.Tensor, ...): heed.Tensor, ...
---@param p heed.Tensor of positions
---@param ... any what `make` gets, too
---@return heed.Tensor ...
function places.rows_at(key, make, p, ...)
  local run, version, of = recording.running(), core.version(p), held[p]
  if not of or of.version ~= version or not rawequal(of.run, run) then
    of = {run = run, version = version, found = {}}
  end
  local found = of.found[key]
  if not found then
    found = {make(p, ...)}
    if found[1]:numel() <= LARGEST then
      for _, t in ipairs(found) do heed.keep(t) end
      of.found[key], held[p] = found, of
    end
  end
  return table.unpack(found)
end


-- Where tokens stand -------------------------------------------------------

---An offset, checked; 0 unless given.
---@param who string
---@param offset any
---@return integer
function places.check_offset(who, offset)
  offset = count(who, "offset", offset == nil and 0 or offset, 0)
  if offset <= FARTHEST then return offset end
  heed.fail("%s: an offset of at most %d expected, got %d", who, FARTHEST, offset)
end


---Positions (T) where they are those of all rows: (1, T).
---@param p heed.Tensor
---@return heed.Tensor
function places.common(p) return p:dim() == 2 and p:size(1) == 1 and p:squeeze(1) or p end


---Positions as (T), or (B, T), for features (B, T, D) or (T, D).
---@param who string
---@param p any
---@param B integer
---@param T integer
---@return heed.Tensor
function places.check_positions(who, p, B, T)
  local good = is_tensor(p) and p.dtype == "int64" and (p:dim() == 1 or p:dim() == 2)
               and p:size(-1) == T and (p:dim() == 1 or p:size(1) == 1 or p:size(1) == B)
  if not good then
    heed.fail("%s: positions of type int64 and shape (%d) or (%d, %d) expected, got %s", who, T,
              B, T, options.typed(p))
  end
  return places.common(p)
end


---An offset, or a tensor of positions.
---@param who string
---@param o {offset: any, positions: any}
---@param B integer
---@param T integer
---@return integer|heed.Tensor
function places.check_place(who, o, B, T)
  if o.positions == nil then return places.check_offset(who, o.offset) end
  if o.offset ~= nil then heed.fail("%s: either offset or positions expected, got both", who) end
  return places.check_positions(who, o.positions, B, T)
end


---Positions in rows that are padded, at the left or anywhere: how many keys there are before each
---one. Padding has the position of the key before it, or 0.
---@param keys heed.Tensor (..., T) bool: which are there
---@return heed.Tensor positions (..., T) int64, from 0
function places.of_keys(keys, ...)
  options.no_more("position.of_keys", 1, ...)
  if not is_tensor(keys) or keys.dtype ~= "bool" or keys:dim() == 0 then
    heed.fail("position.of_keys: keys as a bool tensor of shape (B, T) expected, got %s",
              options.typed(keys))
  end
  return (keys:to("int64"):cumsum(-1) - 1):clamp{min = 0}
end


return places
