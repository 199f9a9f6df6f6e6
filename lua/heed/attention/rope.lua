-- Rotary positions: Su et al. 2021, section 3.2. Angles are computed in float64, then rounded to
-- the type in which they are used, on the device where they are used.

local heed = require "heed"
local options = require "heed.internal.options"
local places = require "heed.attention.places"
local scaled = require "heed.attention.rope_scaling"

local is_tensor, kind, rotate_pairs = heed.is_tensor, options.kind, heed.rotate_pairs

local rope = {}


---@class heed.position.rope
---@field base? number 10000 unless given
---@field offset? integer the position of x's first token; 0 unless given
---@field positions? heed.Tensor (T) or (B, T) int64, from 0
---@field fraction? number of the columns that are rotated, from the first on; 1 unless given
---@field interleaved? boolean pairs are columns 1 and 2, 3 and 4, as in GPT-J; else column i and
---i + D/2, as in Llama
---@field scaling? table `rope_scaling` or `rope_parameters` of a model's config.json
---@field max_position_embeddings? integer what stands beside it there; an offset that leads beyond
---it is told once by Lua's `warn`, which `lua -W` shows

local ROPE = {
  base = options.any, fraction = options.any, interleaved = false,
  max_position_embeddings = options.any, offset = options.any, positions = options.any,
  scaling = options.any,
}


-- How many columns are rotated.
local function rotated_columns(who, D, fraction)
  if type(fraction) ~= "number" or not (fraction > 0 and fraction <= 1) then
    heed.fail("%s: a fraction above 0, at most 1, expected, got %s", who, kind(fraction))
  end
  local n = math.floor(D * fraction)
  if n < 2 or n % 2 == 1 then
    heed.fail("%s: an even number of columns (head_dim of attention), at least 2, expected, got "
              .. "%d%s", who, n, fraction < 1 and (": %g of %d"):format(fraction, D) or "")
  end
  return n
end


-- Rules that are kept -------------------------------------------------------

---@class heed.rope.entry
---@field rule heed.RotaryRule
---@field by? table the options that it was made for, where it is kept
---@field key? table the name of its kept angles

local MOST_KEPT <const> = 8              -- models have one, or one for each kind of layer

local entries, latest = {}, 0


-- A copy of a table of plain values; nil: others are in it.
local function plain_copy(t)
  local copy = {}
  for name, value in pairs(t) do
    if type(value) == "table" or type(value) == "userdata" then return nil end
    copy[name] = value
  end
  return copy
end


-- Are all values of t those of a plain copy, and are there no others?
local function is_copied(t, copy)
  local n = 0
  for name, value in pairs(t) do
    if not rawequal(rawget(copy, name), value) then return false end
    n = n + 1
  end
  for _ in next, copy do n = n - 1 end
  return n == 0
end


local function is_same_scaling(given, copy)
  if type(given) ~= "table" or not copy then return rawequal(given, copy) end
  return is_copied(given, copy)
end


-- The entry for D columns and these options, if it is kept.
local function kept_entry(D, o)
  for _, e in ipairs(entries) do
    local by = e.by
    if by.D == D and rawequal(by.base, o.base) and rawequal(by.fraction, o.fraction)
       and rawequal(by.most, o.max_position_embeddings)
       and is_same_scaling(o.scaling, by.scaling) then return e end
  end
end


local function new_rule(who, D, o)
  local fraction, base = scaled.plain(who, o)
  local n = rotated_columns(who, D, fraction)
  return scaled.rule(who, n // 2, base, o.scaling, o.max_position_embeddings)
end


-- The entry for D columns and these options. A rule that is kept is made by the copy of scaling by
-- which it is found: a script's table may say something else whenever it is read.
local function entry_of(who, D, o)
  local entry = kept_entry(D, o)
  if entry then return entry end
  local copy = type(o.scaling) == "table" and plain_copy(o.scaling) or nil
  local is_kept = o.scaling == nil or copy ~= nil
  o.scaling = copy or o.scaling
  entry = {rule = new_rule(who, D, o)}
  if not is_kept then return entry end
  entry.by = {D = D, base = o.base, fraction = o.fraction, most = o.max_position_embeddings,
              scaling = copy}
  latest = latest % MOST_KEPT + 1
  entries[latest] = entry
  return entry
end


-- Cosines and sines (..., T, pairs) of the angles at positions (..., T).
local function angles_of(p, rule, reach, dtype)
  local angles = p:to("float64"):unsqueeze(-1) * rule:frequencies(reach, p.device)
  return (angles:cos() * rule.attention_factor):to(dtype),
         (angles:sin() * rule.attention_factor):to(dtype)
end


-- The same at a tensor of positions; with an axis for heads, where there is one.
local function angles_at(place, rule, dtype, device, has_heads)
  local p = places.common(place:to(device))
  if p:dim() == 2 and has_heads then p = p:unsqueeze(2) end
  return angles_of(p, rule, p, dtype)
end


-- The name of kept angles, which is made once for as long as the same are asked for. What they
-- reach depends on the positions where these are a tensor: "tensor".
local function key_of(entry, dtype, device, reach)
  local now = entry.key
  if not now or now.dtype ~= dtype or now.device ~= device or now.reach ~= reach then
    now = {dtype = dtype, device = device, reach = reach}
    now.text = ("rope %s %s %s %s"):format(dtype, device, reach, entry.rule.key)
    entry.key = now
  end
  return now.text
end


-- Cosines and sines for x (..., T, D), which are kept for the next call.
local function angles_for(x, place, T, entry)
  local dtype, device, rule = x.dtype == "float64" and "float64" or "float32", x.device, entry.rule
  if is_tensor(place) then
    local has_heads = x:dim() == 4
    local key = key_of(entry, dtype, device, has_heads and "tensor, heads" or "tensor")
    return places.rows_at(key, angles_at, place, rule, dtype, device, has_heads)
  end
  local reach = rule:reach(place + T)
  local key = key_of(entry, dtype, device, reach)
  return places.rows_of(key, angles_of, place, T, device, rule, reach, dtype)
end


local warned = {}                        -- rules and lengths

-- Says once, by Lua's `warn`, that positions go beyond those that a model was made for.
local function warn_beyond(rule, most, last)
  most = most or rule.options.max_position_embeddings
  if not most or last <= most or rule.way.grows then return end
  local key = ("%s %d"):format(rule.key, most)
  local warn = rawget(_G, "warn")
  if warned[key] or not warn then return end
  warned[key] = true
  warn(("heed: position.rope: position %d is beyond max_position_embeddings, %d: a model is worse "
        .. "there than within it; option scaling, or a cache with a window, keeps it within")
       :format(last - 1, most))
end


local function check_features(who, x)
  if not is_tensor(x) or x:dim() < 2 or x:dim() > 4 then
    heed.fail("%s: a shape such as (B, H, T, D), (B, T, D) or (T, D) expected as x, got %s", who,
              kind(x))
  elseif not x.dtype:find("float") then
    heed.fail("%s: a float type expected as x, got %s", who, x.dtype)
  end
end


---Whether the frequencies of these options depend on how many positions there are.
---@param o heed.position.rope
---@return boolean
function rope.depends_on_length(o)
  return scaled.depends_on_length(o.scaling)
end


---The part of a number of positions on which the frequencies of these options depend; 0: none.
---@param D integer columns
---@param o heed.position.rope ones that `rope` took
---@param length integer
---@return integer
function rope.reach(D, o, length)
  return new_rule("rope", D, o):reach(length)
end


---The most positions whose frequencies are those of one, of options that depend on their number.
---@param D integer columns
---@param o heed.position.rope ones that `rope` took
---@return number
function rope.constant_to(D, o)
  return new_rule("rope", D, o):constant_to()
end


---The frequencies of these options, one for each pair of columns that is rotated, and what cosines
---and sines are multiplied by.
---@param D integer columns
---@param o heed.position.rope ones that `rope` took
---@param length integer how many positions there are
---@return heed.Tensor (pairs) float64
---@return number
function rope.frequencies(D, o, length)
  local rule = new_rule("rope", D, o)
  return rule:frequencies(rule:reach(length), "cpu"), rule.attention_factor
end


-- Rotates x by options that were read.
local function rotated(who, x, o)
  local B, T, D = x:dim() > 2 and x:size(1) or 1, x:size(-2), x:size(-1)
  local place = places.check_place(who, o, B, T)
  local entry = entry_of(who, D, o)
  if x:numel() == 0 then return x end
  if not is_tensor(place) then warn_beyond(entry.rule, o.max_position_embeddings, place + T) end
  local cos, sin = angles_for(x, o.positions or place, T, entry)
  return rotate_pairs(x, cos, sin, o.interleaved)
end


local WHO <const> = "position.rope"

---Rotates each pair of columns by position times frequency, so that products of queries and keys
---tell how far apart they stand: Su et al. 2021, 3.2. 16-bit types are computed in float32.
---@param x heed.Tensor (B, H, T, D), (B, T, D) or (T, D)
---@param given? heed.position.rope
---@return heed.Tensor of the same shape and type
function rope.rope(x, given, ...)
  options.no_more(WHO, 2, ...)
  check_features(WHO, x)
  return rotated(WHO, x, options.read(WHO, given, ROPE))
end


---The same for a layer, whose options do not say where tokens stand.
---@param x heed.Tensor
---@param given heed.position.rope
---@param at integer|heed.Tensor offset, or positions
---@return heed.Tensor
function rope.rope_at(x, given, at)
  check_features(WHO, x)
  local o = options.read(WHO, given, ROPE)
  o[is_tensor(at) and "positions" or "offset"] = at
  return rotated(WHO, x, o)
end


return rope
