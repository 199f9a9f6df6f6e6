-- Sines and cosines of positions: Vaswani et al. 2017, section 3.5. Angles are computed in float64,
-- then rounded to the type in which they are used, on the device where they are used.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local places = require "heed.attention.places"

local count, kind = options.count, options.kind

local sinusoids = {}


-- base ^ (-2 i / dim) for i from 0: the frequencies of `dim` columns, in pairs.
local function frequencies(base, dim, device)
  local i = heed.arange((dim + 1) // 2, {dtype = "float64", device = device}) - 1
  return heed.pow(base, i * (-2 / dim))
end


---Sines and cosines of the angles of positions. An odd width ends with a sine.
---@param p heed.Tensor (..., T)
---@param D integer
---@param o {base: number, layout: string}
---@param device string
---@return heed.Tensor (..., T, D) in float64
function sinusoids.waves(p, D, o, device)
  local angles = p:to("float64"):unsqueeze(-1) * frequencies(o.base, D, device)
  local sines, cosines = angles:sin(), angles:cos():narrow(-1, 1, D // 2)
  if o.layout == "concatenated" then return heed.cat({sines, cosines}, -1) end
  if D % 2 == 1 then cosines = angles:cos() end
  return heed.stack({sines, cosines}, -1):flatten(-2):narrow(-1, 1, D)
end


local LAYOUTS <const> = {"concatenated", "interleaved"}

---Checks what sinusoids are made by: base and layout.
---@generic T
---@param who string
---@param o T
---@return T o
function sinusoids.check(who, o)
  if not (options.positive(who, "base", o.base) > 0) then
    heed.fail("%s: a base above 0 expected, got %s", who, kind(o.base))
  end
  if o.layout ~= LAYOUTS[1] and o.layout ~= LAYOUTS[2] then
    local word = options.text(who, "layout", o.layout)
    heed.fail("%s: unknown layout '%s'; %s", who, word, options.hint(word, LAYOUTS))
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
function sinusoids.sinusoidal(T, D, given, ...)
  local who <const> = "position.sinusoidal"
  options.no_more(who, 3, ...)
  T, D = count(who, "T", T, 0), count(who, "D", D)
  local o = sinusoids.check(who, options.read(who, given, {
    base = 10000, device = options.any, dtype = "float32", layout = "interleaved",
    offset = options.any,
  }))
  if not o.dtype:find("float") then
    heed.fail("%s: a float type expected as dtype, got '%s'", who, o.dtype)
  end
  core.check_room(who, 8.0 * T * D, "a table of angles")
  local before = places.check_offset(who, o.offset) - 1
  local p = heed.arange(T, {dtype = "float64", device = o.device}) + before
  return sinusoids.waves(p, D, o, p.device):to(o.dtype)
end


return sinusoids
