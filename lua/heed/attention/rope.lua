-- Rotary positions: Su et al. 2021, section 3.2. Angles are computed in float64, then rounded to
-- the type in which they are used, on the device where they are used.

local heed = require "heed"
local options = require "heed.internal.options"
local places = require "heed.attention.places"
local scaled = require "heed.attention.rope_scaling"

local is_tensor, kind = heed.is_tensor, options.kind

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
    heed.fail("%s: an even number of columns, at least 2, expected, got %d: %g of %d", who, n,
              fraction, D)
  end
  return n
end


-- What is turned, and how ---------------------------------------------------

---@class heed.rope.turn
---@field axis integer of the two columns of a pair, among (…, 2, pairs) or (…, pairs, 2)
---@field columns integer that are turned
---@field rule heed.RotaryRule
---@field sizes integer[] of the last two axes

local MOST_KEPT <const> = 8              -- turns: models have one, or one for each kind of layer

local turns, latest = {}, 0


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


-- The turn of D columns by these options, if it is kept.
local function kept_turn(D, o)
  for _, t in ipairs(turns) do
    local by = t.by
    if by.D == D and rawequal(by.base, o.base) and rawequal(by.fraction, o.fraction)
       and rawequal(by.most, o.max_position_embeddings) and by.interleaved == o.interleaved
       and is_same_scaling(o.scaling, by.scaling) then return t end
  end
end


local function new_turn(who, D, o)
  local fraction, base = scaled.plain(who, o)
  local n = rotated_columns(who, D, fraction)
  local rule = scaled.rule(who, n // 2, base, o.scaling, o.max_position_embeddings)
  return {
    axis = o.interleaved and -1 or -2, columns = n, rule = rule,
    sizes = o.interleaved and {n // 2, 2} or {2, n // 2},
  }
end


-- The turn of D columns by these options. One that is kept is made by the copy of scaling by which
-- it is found: a script's table may say something else whenever it is read.
local function turn_of(who, D, o)
  local turn = kept_turn(D, o)
  if turn then return turn end
  local copy = type(o.scaling) == "table" and plain_copy(o.scaling) or nil
  local is_kept = o.scaling == nil or copy ~= nil
  o.scaling = copy or o.scaling
  turn = new_turn(who, D, o)
  if not is_kept then return turn end
  turn.by = {D = D, base = o.base, fraction = o.fraction, most = o.max_position_embeddings,
             interleaved = o.interleaved, scaling = copy}
  latest = latest % MOST_KEPT + 1
  turns[latest] = turn
  return turn
end


-- Cosines of the angles at positions (..., T), with an axis of 1 for the two of a pair, and their
-- sines, of which the first is negative.
local function angles_of(p, turn, reach, dtype)
  local rule, axis = turn.rule, turn.axis
  local angles = p:to("float64"):unsqueeze(-1) * rule:frequencies(reach, p.device)
  local sin = angles:sin() * rule.attention_factor
  return (angles:cos() * rule.attention_factor):unsqueeze(axis):to(dtype),
         heed.stack({-sin, sin}, axis):to(dtype)
end


-- The same at a tensor of positions; with an axis for heads, where there is one.
local function angles_at(place, turn, dtype, device, has_heads)
  local p = places.common(place:to(device))
  if p:dim() == 2 and has_heads then p = p:unsqueeze(2) end
  return angles_of(p, turn, p, dtype)
end


-- The name of kept angles, which is made once for as long as the same are asked for. What they
-- reach depends on the positions where these are a tensor: "tensor".
local function key_of(turn, dtype, device, reach)
  local now = turn.key
  if not now or now.dtype ~= dtype or now.device ~= device or now.reach ~= reach then
    now = {dtype = dtype, device = device, reach = reach}
    now.text = ("rope %s %s %s %d %s"):format(dtype, device, reach, turn.axis, turn.rule.key)
    turn.key = now
  end
  return now.text
end


-- Cosines and sines for x (..., T, D), which are kept for the next call.
local function angles_for(x, place, T, turn)
  local dtype, device = x.dtype == "float64" and "float64" or "float32", x.device
  if is_tensor(place) then
    local has_heads = x:dim() == 4
    local key = key_of(turn, dtype, device, has_heads and "tensor, heads" or "tensor")
    return places.rows_at(key, angles_at, place, turn, dtype, device, has_heads)
  end
  local reach = turn.rule:reach(place + T)
  local key = key_of(turn, dtype, device, reach)
  return places.rows_of(key, angles_of, place, T, device, turn, reach, dtype)
end


-- Rotates pairs (a, b) of columns: (a cos - b sin, b cos + a sin). The products are added up in
-- place, which saves a quarter of the time.
local function rotate(x, cos, sin, turn)
  local pairs_there = x:unflatten(-1, turn.sizes)
  return (pairs_there * cos):add_(pairs_there:flip(turn.axis) * sin):flatten(-2)
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
  local fraction, base = scaled.plain("rope", o)
  local n = rotated_columns("rope", D, fraction)
  return scaled.rule("rope", n // 2, base, o.scaling, o.max_position_embeddings):reach(length)
end


---The frequencies of these options, one for each pair of columns that is turned, and what cosines
---and sines are multiplied by.
---@param D integer columns
---@param o heed.position.rope ones that `rope` took
---@param length integer how many positions there are
---@return heed.Tensor (pairs) float64
---@return number
function rope.frequencies(D, o, length)
  local fraction, base = scaled.plain("rope", o)
  local n = rotated_columns("rope", D, fraction)
  local rule = scaled.rule("rope", n // 2, base, o.scaling, o.max_position_embeddings)
  return rule:frequencies(rule:reach(length), "cpu"), rule.attention_factor
end


-- Rotates x by options that were read.
local function turned(who, x, o)
  local B, T, D = x:dim() > 2 and x:size(1) or 1, x:size(-2), x:size(-1)
  local place = places.check_place(who, o, B, T)
  local turn = turn_of(who, D, o)
  local n, rule = turn.columns, turn.rule
  if x:numel() == 0 then return x end
  if not is_tensor(place) then warn_beyond(rule, o.max_position_embeddings, place + T) end
  local cos, sin = angles_for(x, o.positions or place, T, turn)
  local y = rotate((n < D and x:narrow(-1, 1, n) or x):to(cos.dtype), cos, sin, turn)
  y = y:to(x.dtype)
  return n < D and heed.cat({y, x:narrow(-1, n + 1, D - n)}, -1) or y
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
  return turned(WHO, x, options.read(WHO, given, ROPE))
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
  return turned(WHO, x, o)
end


return rope
