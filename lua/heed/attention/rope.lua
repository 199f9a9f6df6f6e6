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


-- Cosines and sines of the angles at positions (..., T) -> (..., T, n / 2).
local function angles_of(p, rule, reach, dtype)
  local angles = p:to("float64"):unsqueeze(-1) * rule:frequencies(reach, p.device)
  return (angles:cos() * rule.attention_factor):to(dtype),
         (angles:sin() * rule.attention_factor):to(dtype)
end


-- Cosines and sines for x (..., T, D); kept for the next call where an offset says all.
local function angles_for(x, place, T, rule)
  local dtype, device = x.dtype == "float64" and "float64" or "float32", x.device
  if is_tensor(place) then
    local p = place:to(device)
    if p:dim() == 2 and x:dim() == 4 then p = p:unsqueeze(2) end
    return angles_of(p, rule, p, dtype)
  end
  local reach = rule:reach(place + T)
  local function make(p) return angles_of(p, rule, reach, dtype) end
  local key = ("rope %s %s %d %s"):format(dtype, device, reach, rule.key)
  return places.rows_of(key, make, place, T, device)
end


-- Rotates pairs (a, b) of columns: (a cos - b sin, b cos + a sin). The products are added up in
-- place, which saves a quarter of the time.
local function rotate(x, cos, sin, interleaved)
  local shape, axis = {x:size()}, interleaved and -1 or -2
  local pairs_there = shape[#shape] // 2
  shape[#shape] = interleaved and pairs_there or 2
  shape[#shape + 1] = interleaved and 2 or pairs_there
  local a, b = table.unpack(x:reshape(shape):unbind(axis))
  return heed.stack({(a * cos):sub_(b * sin), (b * cos):add_(a * sin)}, axis):flatten(-2)
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


---Rotates each pair of columns by position times frequency, so that products of queries and keys
---tell how far apart they stand: Su et al. 2021, 3.2. 16-bit types are computed in float32.
---@param x heed.Tensor (B, H, T, D), (B, T, D) or (T, D)
---@param given? heed.position.rope
---@return heed.Tensor of the same shape and type
function rope.rope(x, given, ...)
  local who <const> = "position.rope"
  options.no_more(who, 2, ...)
  check_features(who, x)
  local o = options.read(who, given, ROPE)
  local B, T, D = x:dim() > 2 and x:size(1) or 1, x:size(-2), x:size(-1)
  local place = places.check_place(who, o, B, T)
  local fraction, base = scaled.plain(who, o)
  local n = rotated_columns(who, D, fraction)
  local rule = scaled.rule(who, n // 2, base, o.scaling, o.max_position_embeddings)
  if x:numel() == 0 then return x end
  if not is_tensor(place) then warn_beyond(rule, o.max_position_embeddings, place + T) end
  local cos, sin = angles_for(x, place, T, rule)
  local y = rotate((n < D and x:narrow(-1, 1, n) or x):to(cos.dtype), cos, sin, o.interleaved)
  y = y:to(x.dtype)
  return n < D and heed.cat({y, x:narrow(-1, n + 1, D - n)}, -1) or y
end


return rope
