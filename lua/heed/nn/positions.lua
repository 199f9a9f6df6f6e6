-- Layers that add positions to features: sinusoids, and rows that are learnt.

local attending = require "heed.nn.attending"
local core = require "heed.core"
local recording = require "heed.internal.recording"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local places = require "heed.attention.places"
local sinusoids = require "heed.attention.sinusoids"

local is_tensor = heed.is_tensor
local count, kind = options.count, options.kind

local positions = {}


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
  local p = places.of_keys(keys)
  if p:size(-1) < T then
    heed.fail("%s: at least %d keys expected, got %s", who, T, kind(keys))
  end
  return places.check_positions(who, p:narrow(-1, p:size(-1) - T + 1, T), B, T)
end


local function places_in_cache(who, o, B, T)
  attending.check_cache(who, o.cache)
  local at = o.cache:positions(T, {keys = o.keys, lengths = o.lengths})
  return is_tensor(at) and places.check_positions(who, at, B, T) or at
end


local function check_lengths(who, lengths, B)
  if lengths == nil then return end
  local good = is_tensor(lengths) and lengths.dtype == "int64" and lengths:dim() == 1
               and lengths:size(1) == B
  if good then return end
  heed.fail("%s: lengths of type int64 and shape (%d) expected, got %s", who, B,
            options.typed(lengths))
end


-- Where the tokens of x stand: an offset, or a tensor.
local function read_call(who, x, given)
  if not is_tensor(x) or x:dim() ~= 2 and x:dim() ~= 3 then
    heed.fail("%s: features of shape (B, T, D) or (T, D) expected as x, got %s", who, kind(x))
  end
  local B, T = x:dim() == 3 and x:size(1) or 1, x:size(-2)
  local o = options.given(who, given, CALL)
  check_lengths(who, o.lengths, B)
  if o.cache == nil and o.keys == nil then return places.check_place(who, o, B, T), T end
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


---Adds sines and cosines of positions. A formula gives them, so no length is too long.
---@class heed.Sinusoidal: heed.Module
---@field length integer|false
---@field dim integer|false
---@overload fun(length?: integer, dim?: integer, options?: table): heed.Sinusoidal
local Sinusoidal = extend("position.Sinusoidal", {forward = 2})
positions.Sinusoidal = Sinusoidal


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
  local o = sinusoids.check(who, options.read(who, given, {base = 10000, layout = "interleaved"}))
  self.base, self.layout = o.base, o.layout
end


-- The table (T, D) or (B, T, D) for x.
local function rows_for(self, x, place, T)
  local D, dtype, device = x:size(-1), x.dtype, x.device
  sinusoids.check("position.Sinusoidal", self)
  local function make(p) return sinusoids.waves(p, D, self, device):to(dtype) end
  if is_tensor(place) then return make(place:to(device)) end
  local key = ("sinusoidal %d %s %s %s %.17g"):format(D, dtype, device, self.layout, self.base)
  return (places.rows_of(key, make, place, T, device))
end


---@param x heed.Tensor (B, T, D), or (T, D)
---@param given? heed.position.call
---@return heed.Tensor of the same shape
function Sinusoidal:forward(x, given)
  local who <const> = "position.Sinusoidal"
  local place, T = read_call(who, x, given)
  if self.dim then check_width(who, x, field.count(self, "dim")) end
  if not x.dtype:find("float") then
    heed.fail("%s: a float type expected as x, got %s", who, x.dtype)
  end
  return x + rows_for(self, x, place, T)
end


function Sinusoidal:describe()
  if not self.dim then return "" end
  local dim = field.count(self, "dim")
  return self.length and ("%d, %d"):format(field.count(self, "length"), dim) or tostring(dim)
end


local calls = {list = false}           -- of such layers, while somebody asks


---Adds a row that is learnt for each position: an embedding of positions.
---@class heed.Learned: heed.Module
---@field weight heed.Tensor (length, dim); row 1 is position 0
---@overload fun(length: integer, dim: integer): heed.Learned
local Learned = extend("position.Learned", {init = 3, forward = 2})
positions.Learned = Learned


---@param length integer how many positions there are
---@param dim integer
function Learned:init(length, dim, given)
  local who <const> = "position.Learned"
  length, dim = count(who, "length", length), count(who, "dim", dim)
  options.read(who, given, {})
  self.weight = parameter.empty(length, dim)
  self:reset()
end


---Draws the first weights, anew: as an nn.Embedding's.
function Learned:reset()
  parameter.draw(field.tensor(self, "weight"), "normal_", 0, 1)
end


-- Refuses positions that have no row. A GPU's values stay there: it reports them later.
local function check_rows(length, place, T)
  local last = 0
  if not is_tensor(place) then
    last = math.max(place + T - 1, 0)
  elseif recording.reaches(place) and place:numel() > 0 then
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
function Learned:forward(x, given)
  local place, T = read_call("position.Learned", x, given)
  if calls.list then calls.list[#calls.list + 1] = {layer = self, length = T} end
  local weight = field.matrix(self, "weight")
  check_width("position.Learned", x, weight:size(2))
  check_rows(weight:size(1), place, T)
  if is_tensor(place) then return x + heed.embedding(place:to(x.device) + 1, weight) end
  return x + weight:narrow(1, place + 1, T)
end


---Calls a function, and tells which layers of learnt positions were called with so many tokens.
---@param T integer
---@param f function
---@param ... any
---@return heed.Learned[]
function positions.asked(T, f, ...)
  local list, asked = {}, {}
  core.commit_during("position", {fields = {calls, "list", list}},
                     {fields = {calls, "list", calls.list}}, f, ...)
  for _, call in ipairs(list) do
    if call.length == T then asked[#asked + 1] = call.layer end
  end
  return asked
end


function Learned:describe()
  return ("%d, %d"):format(field.matrix(self, "weight"):size())
end


return positions
