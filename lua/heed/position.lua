-- heed.position: where tokens stand, told to a model. Positions count from 0.
--
--   local position = require "heed.position"
--   x = x + position.sinusoidal(T, D)                  -- (T, D): Vaswani et al. 2017, 3.5
--   local pos = position.Learned(512, 64)              -- a layer: pos(x) adds its rows to x
--   q, k = position.rope(q), position.rope(k)          -- turned by angles: Su et al. 2021
--
-- All are made of angles: a position times a frequency. They are computed in float64, then rounded
-- to the type in which they are used, on the device where they are used.

local capture = require "heed.capture"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.options"
local parameter = require "heed.nn.parameter"
local scaled = require "heed.rope_scaling"

local is_tensor = heed.is_tensor
local count, kind = options.count, options.kind

local position = {}

local FARTHEST <const> = 1 << 52   -- float64 has all positions up to here


-- What is kept ------------------------------------------------------------

local MOST_KEPT <const> = 16       -- tables, by what they depend on
local LARGEST <const> = 1 << 20    -- numbers in one that is kept
local BLOCK <const> = 256          -- rows: tables begin and end at multiples of it

local kept, order, latest = {}, {}, 0


-- In the place of the oldest. Not in a capture, whose results have no values until a replay.
local function keep(key, value, numbers)
  if capture.notes or numbers > LARGEST then return end
  if kept[key] == nil then
    latest = latest % MOST_KEPT + 1
    if order[latest] then kept[order[latest]] = nil end
    order[latest] = key
  end
  for _, t in ipairs(value) do heed.keep(t) end
  kept[key] = value
end


-- Rows for the positions from `offset` on, of tables that `make` computes for positions (rows);
-- those around them are made at once, since the next step needs them.
local function rows_of(key, make, offset, T, device)
  local found = kept[key]
  if not found or offset < found.first or offset + T > found.last then
    local first, last = offset // BLOCK * BLOCK, -(-(offset + T) // BLOCK) * BLOCK
    found = {make(heed.arange(last - first, {dtype = "float64", device = device}) + (first - 1))}
    found.first, found.last = first, last
    keep(key, found, found[1]:numel())
  end
  local rows = {}
  for i, t in ipairs(found) do rows[i] = t:narrow(1, offset - found.first + 1, T) end
  return table.unpack(rows)
end


-- Where tokens stand -------------------------------------------------------

local function check_offset(who, offset)
  offset = count(who, "offset", offset == nil and 0 or offset, 0)
  if offset <= FARTHEST then return offset end
  heed.fail("%s: an offset of at most %d expected, got %d", who, FARTHEST, offset)
end


-- Positions as (T), or (B, T), for features (B, T, D) or (T, D).
local function check_positions(who, p, B, T)
  local good = is_tensor(p) and p.dtype == "int64" and (p:dim() == 1 or p:dim() == 2)
               and p:size(-1) == T and (p:dim() == 1 or p:size(1) == 1 or p:size(1) == B)
  if not good then
    heed.fail("%s: positions of type int64 and shape (%d) or (%d, %d) expected, got %s%s", who, T,
              B, T, kind(p), is_tensor(p) and " and type " .. p.dtype or "")
  end
  return p:dim() == 2 and p:size(1) == 1 and p:squeeze(1) or p
end


-- An offset, or a tensor of positions.
local function check_place(who, o, B, T)
  if o.positions == nil then return check_offset(who, o.offset) end
  if o.offset ~= nil then heed.fail("%s: either offset or positions expected, got both", who) end
  return check_positions(who, o.positions, B, T)
end


---Positions in rows that are padded, at the left or anywhere: how many keys there are before each
---one. What is padding has the position of the key before it, or 0.
---@param keys heed.Tensor (..., T) bool: which are there
---@return heed.Tensor positions (..., T) int64, from 0
function position.of_keys(keys, ...)
  options.no_more("position.of_keys", 1, ...)
  if not is_tensor(keys) or keys.dtype ~= "bool" or keys:dim() == 0 then
    heed.fail("position.of_keys: keys as a bool tensor of shape (B, T) expected, got %s%s",
              kind(keys), is_tensor(keys) and " and type " .. keys.dtype or "")
  end
  return (keys:to("int64"):cumsum(-1) - 1):clamp{min = 0}
end


-- Sines and cosines --------------------------------------------------------

-- base ^ (-2 i / dim) for i from 0: the frequencies of `dim` columns, in pairs.
local function frequencies(base, dim, device)
  local i = heed.arange((dim + 1) // 2, {dtype = "float64", device = device}) - 1
  return heed.pow(base, i * (-2 / dim))
end


-- Positions (..., T) -> (..., T, D). An odd width ends with a sine.
local function waves(p, D, o, device)
  local angles = p:to("float64"):unsqueeze(-1) * frequencies(o.base, D, device)
  local sines, cosines = angles:sin(), angles:cos():narrow(-1, 1, D // 2)
  if o.layout == "concatenated" then return heed.cat({sines, cosines}, -1) end
  if D % 2 == 1 then cosines = angles:cos() end
  return heed.stack({sines, cosines}, -1):flatten(-2):narrow(-1, 1, D)
end


local LAYOUTS <const> = {"concatenated", "interleaved"}

-- What sinusoids are made by: {base, layout}, of options that may hold more.
local function check_waves(who, o)
  if not (options.positive(who, "base", o.base) > 0) then
    heed.fail("%s: a base above 0 expected, got %s", who, kind(o.base))
  end
  if o.layout ~= LAYOUTS[1] and o.layout ~= LAYOUTS[2] then
    heed.fail("%s: unknown layout '%s'; %s", who, o.layout, options.hint(o.layout, LAYOUTS))
  end
  return o
end


---@class heed.position.sinusoidal
---@field base? number 10000 unless given
---@field layout? "interleaved"|"concatenated" sines and cosines in turns, as in the paper; or all
---sines, then all cosines
---@field offset? integer the position of row 1; 0 unless given
---@field dtype? string "float32" unless given
---@field device? string

---Sines and cosines of positions: column 2i + 1 is sin(p / base^(2i / D)), column 2i + 2 the cosine
---of the same, for i from 0. Vaswani et al. 2017, 3.5; row 1 is the paper's position 0.
---@param T integer rows
---@param D integer columns; an odd width ends with a sine
---@param given? heed.position.sinusoidal
---@return heed.Tensor (T, D)
function position.sinusoidal(T, D, given, ...)
  local who <const> = "position.sinusoidal"
  options.no_more(who, 3, ...)
  T, D = count(who, "T", T, 0), count(who, "D", D)
  local o = check_waves(who, options.read(who, given, {
    base = 10000, device = options.any, dtype = "float32", layout = "interleaved",
    offset = options.any,
  }))
  if not o.dtype:find("float") then
    heed.fail("%s: a float type expected as dtype, got '%s'", who, o.dtype)
  end
  local before = check_offset(who, o.offset) - 1
  local p = heed.arange(T, {dtype = "float64", device = o.device}) + before
  return waves(p, D, o, p.device):to(o.dtype)
end


-- Layers that add themselves -------------------------------------------------

---@class heed.position.call
---@field offset? integer the position of x's first token; 0 unless given
---@field positions? heed.Tensor (T) or (B, T) int64, from 0
---@field cache? heed.Cache x comes behind what it holds
---@field keys? heed.Tensor (B, S) bool: which keys are there, in rows padded at the left; the last
---T of them are x's own; with a cache all of them are
---@field lengths? heed.Tensor (B) how many tokens each row has: without a cache, padding behind
---them moves none

local CALL = {
  cache = options.any, keys = options.any, lengths = options.any, offset = options.any,
  positions = options.any,
}


-- The positions of the last T keys.
local function places_of_keys(who, keys, B, T)
  local p = position.of_keys(keys)
  if p:size(-1) < T then
    heed.fail("%s: at least %d keys expected, got %s", who, T, kind(keys))
  end
  return check_positions(who, p:narrow(-1, p:size(-1) - T + 1, T), B, T)
end


local function places_in_cache(who, o, B, T)
  if type(o.cache) ~= "table" then
    heed.fail("%s: an nn.Cache expected as cache, got %s", who, kind(o.cache))
  end
  local at = o.cache:positions(T, {keys = o.keys, lengths = o.lengths})
  return is_tensor(at) and check_positions(who, at, B, T) or at
end


local function check_lengths(who, lengths, B)
  if lengths == nil then return end
  local good = is_tensor(lengths) and lengths.dtype == "int64" and lengths:dim() == 1
               and lengths:size(1) == B
  if good then return end
  heed.fail("%s: lengths of type int64 and shape (%d) expected, got %s%s", who, B, kind(lengths),
            is_tensor(lengths) and " and type " .. lengths.dtype or "")
end


-- Where the tokens of x stand: an offset, or a tensor.
local function read_call(who, x, given)
  if not is_tensor(x) or x:dim() ~= 2 and x:dim() ~= 3 then
    heed.fail("%s: features of shape (B, T, D) or (T, D) expected as x, got %s", who, kind(x))
  end
  local B, T = x:dim() == 3 and x:size(1) or 1, x:size(-2)
  local o = options.read(who, given, CALL)
  check_lengths(who, o.lengths, B)
  if o.cache == nil and o.keys == nil then return check_place(who, o, B, T), T end
  if o.offset ~= nil or o.positions ~= nil then
    heed.fail("%s: either offset, or positions, or cache and keys expected, got several", who)
  end
  if o.cache ~= nil then return places_in_cache(who, o, B, T), T end
  return places_of_keys(who, o.keys, B, T), T
end


local function check_width(who, x, D)
  if x:size(-1) == D then return end
  heed.fail("%s: %d features expected as the last dimension of x, got %s", who, D, kind(x))
end


---Adds sines and cosines of positions. They follow from a formula, so no length is too long.
---@class heed.Sinusoidal: heed.Module
---@field length integer|false
---@field dim integer|false
---@overload fun(length?: integer, dim?: integer, options?: table): heed.Sinusoidal
local Sinusoidal = Module:extend("Sinusoidal")
position.Sinusoidal = Sinusoidal


-- The arguments (), (dim) or (length, dim), before the options.
local function sizes_of(who, length, dim, given, ...)
  options.no_more(who, 3, ...)
  if type(length) == "table" and dim == nil then length, given = nil, length end
  if type(dim) == "table" and given == nil then dim, given = nil, dim end
  if dim == nil then length, dim = nil, length end
  return length ~= nil and count(who, "length", length),
         dim ~= nil and count(who, "dim", dim), given
end


---@param length? integer how many positions are expected; more are no error
---@param dim? integer of the features; any unless given, also alone: `Sinusoidal(dim)`
---@param given? {base: number, layout: string} 10000 and "interleaved" unless given
function Sinusoidal:init(length, dim, given, ...)
  local who <const> = "position.Sinusoidal"
  length, dim, given = sizes_of(who, length, dim, given, ...)
  self.length, self.dim = length, dim
  local o = check_waves(who, options.read(who, given, {base = 10000, layout = "interleaved"}))
  self.base, self.layout = o.base, o.layout
end


-- The table (T, D) or (B, T, D) for x.
function Sinusoidal:rows(x, place, T)
  local D, dtype, device = x:size(-1), x.dtype, x.device
  local function make(p) return waves(p, D, self, device):to(dtype) end
  if is_tensor(place) then return make(place:to(device)) end
  local key = ("sinusoidal %d %s %s %s %.17g"):format(D, dtype, device, self.layout, self.base)
  return (rows_of(key, make, place, T, device))
end


---@param x heed.Tensor (B, T, D), or (T, D)
---@param given? heed.position.call
---@return heed.Tensor of the same shape
function Sinusoidal:forward(x, given, ...)
  local who <const> = "position.Sinusoidal"
  options.no_more(who, 2, ...)
  local place, T = read_call(who, x, given)
  if self.dim then check_width(who, x, self.dim) end
  if not x.dtype:find("float") then
    heed.fail("%s: a float type expected as x, got %s", who, x.dtype)
  end
  return x + self:rows(x, place, T)
end


function Sinusoidal:describe()
  if not self.dim then return "" end
  return (self.length and self.length .. ", " or "") .. self.dim
end


---Adds a row that is learnt for each position: an embedding of positions.
---@class heed.Learned: heed.Module
---@field weight heed.Tensor (length, dim); row 1 is position 0
---@overload fun(length: integer, dim: integer): heed.Learned
local Learned = Module:extend("Learned")
position.Learned = Learned


---@param length integer how many positions there are
---@param dim integer
function Learned:init(length, dim, given, ...)
  local who <const> = "position.Learned"
  options.no_more(who, 3, ...)
  length, dim = count(who, "length", length), count(who, "dim", dim)
  options.read(who, given, {})
  self.weight = parameter.Parameter(heed.empty(length, dim))
  self:reset()
end


---Draws the first weights, anew: as an nn.Embedding's.
function Learned:reset()
  parameter.draw(self.weight, "normal_", 0, 1)
end


-- Refuses positions that have no row. A GPU's values stay there: it reports them later.
function Learned:check(place, T)
  local length, last = self.weight:size(1), 0
  if not is_tensor(place) then
    last = math.max(place + T - 1, 0)
  elseif capture.reaches(place) and place:numel() > 0 then
    last = place:min():item()
    if last >= 0 then last = place:max():item() end
  end
  if last >= 0 and last < length then return end
  heed.fail("position.Learned: positions from 0 to %d expected, since its length is %d, got %d",
            length - 1, length, last)
end


---@param x heed.Tensor (B, T, dim), or (T, dim)
---@param given? heed.position.call
---@return heed.Tensor of the same shape
function Learned:forward(x, given, ...)
  options.no_more("position.Learned", 2, ...)
  local place, T = read_call("position.Learned", x, given)
  check_width("position.Learned", x, self.weight:size(2))
  self:check(place, T)
  if is_tensor(place) then return x + heed.embedding(place:to(x.device) + 1, self.weight) end
  return x + self.weight:narrow(1, place + 1, T)
end


function Learned:describe()
  return ("%d, %d"):format(self.weight:size())
end


-- Rotary positions -----------------------------------------------------------

---@class heed.position.rope
---@field base? number 10000 unless given
---@field offset? integer the position of x's first token; 0 unless given
---@field positions? heed.Tensor (T) or (B, T) int64, from 0
---@field fraction? number of the columns that are turned, from the first on; 1 unless given
---@field interleaved? boolean pairs are columns 1 and 2, 3 and 4, as in GPT-J; else column i and
---i + D/2, as in Llama
---@field scaling? table `rope_scaling` or `rope_parameters` of a model's config.json
---@field max_position_embeddings? integer what stands beside it there

local ROPE = {
  base = options.any, fraction = options.any, interleaved = false,
  max_position_embeddings = options.any, offset = options.any, positions = options.any,
  scaling = options.any,
}


-- How many columns are turned.
local function turned_columns(who, D, fraction)
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
local function turns(p, rule, reach, dtype)
  local angles = p:to("float64"):unsqueeze(-1) * rule:frequencies(reach, p.device)
  return (angles:cos() * rule.attention_factor):to(dtype),
         (angles:sin() * rule.attention_factor):to(dtype)
end


-- The same for x, which has the shape (..., T, D); kept for the next call where an offset says all.
local function turns_for(x, place, T, rule)
  local dtype, device = x.dtype == "float64" and "float64" or "float32", x.device
  if is_tensor(place) then
    local p = place:to(device)
    if p:dim() == 2 and x:dim() == 4 then p = p:unsqueeze(2) end
    return turns(p, rule, p, dtype)
  end
  local reach = rule:reach(place + T)
  local function make(p) return turns(p, rule, reach, dtype) end
  local key = ("rope %s %s %d %s"):format(dtype, device, reach, rule.key)
  return rows_of(key, make, place, T, device)
end


-- Turns pairs (a, b) of columns: (a cos - b sin, b cos + a sin). The products are added up in
-- place, which saves a quarter of the time.
local function turn(x, cos, sin, interleaved)
  local shape, axis = {x:size()}, interleaved and -1 or -2
  local pairs_there = shape[#shape] // 2
  shape[#shape] = interleaved and pairs_there or 2
  shape[#shape + 1] = interleaved and 2 or pairs_there
  local a, b = table.unpack(x:reshape(shape):unbind(axis))
  return heed.stack({(a * cos):sub_(b * sin), (b * cos):add_(a * sin)}, axis):flatten(-2)
end


local function check_features(who, x)
  if not is_tensor(x) or x:dim() < 2 or x:dim() > 4 then
    heed.fail("%s: a shape such as (B, H, T, D), (B, T, D) or (T, D) expected as x, got %s", who,
              kind(x))
  elseif not x.dtype:find("float") then
    heed.fail("%s: a float type expected as x, got %s", who, x.dtype)
  end
end


---Turns each pair of columns by position times frequency, so that products of queries and keys tell
---how far apart they stand: Su et al. 2021, 3.2. 16-bit types are computed in float32.
---@param x heed.Tensor (B, H, T, D), (B, T, D) or (T, D)
---@param given? heed.position.rope
---@return heed.Tensor of the same shape and type
function position.rope(x, given, ...)
  local who <const> = "position.rope"
  options.no_more(who, 2, ...)
  check_features(who, x)
  local o = options.read(who, given, ROPE)
  local B, T, D = x:dim() > 2 and x:size(1) or 1, x:size(-2), x:size(-1)
  local place = check_place(who, o, B, T)
  local fraction, base = scaled.plain(who, o)
  local n = turned_columns(who, D, fraction)
  local rule = scaled.rule(who, n // 2, base, o.scaling, o.max_position_embeddings)
  if x:numel() == 0 then return x end
  local cos, sin = turns_for(x, place, T, rule)
  local y = turn((n < D and x:narrow(-1, 1, n) or x):to(cos.dtype), cos, sin, o.interleaved)
  y = y:to(x.dtype)
  return n < D and heed.cat({y, x:narrow(-1, n + 1, D - n)}, -1) or y
end


return options.strict("heed.position", position)
