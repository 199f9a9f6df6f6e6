-- data.image: pictures from files: PNG, and netpbm's binary formats, PPM (colours) and PGM (grey).

local heed = require "heed"
local options = require "heed.internal.options"
local png = require "heed.data.png"
local refuse = require "heed.internal.refuse"
local whole = require "heed.files.whole"

local CHANNELS <const> = {P5 = 1, P6 = 3}

-- Other formats by their first bytes, and a command that converts a file.
local others = {
  {"^\xFF\xD8\xFF", "a JPEG", "djpeg a.jpg >a.ppm (apt install libjpeg-turbo-progs)"},
  {"^GIF8", "a GIF", "giftopnm a.gif >a.ppm (apt install netpbm)"},
  {"^P[1-4]%s", "plain text, or of single bits", "ppmtoppm <a.pnm >a.ppm (apt install netpbm)"},
}


local function refuse_other(text)
  for _, other in ipairs(others) do
    if text:find(other[1]) then
      refuse.with("a PNG or a binary PPM or PGM expected, and this is %s; convert it: %s",
                  other[2], other[3])
    end
  end
  refuse.with("a PNG or a binary PPM or PGM expected, which begin with \\x89PNG, P6, P5")
end


-- A number of the header, behind spaces and comments, and the position behind it.
local function number(text, at, what)
  while text:find("^%s*#", at) do at = (text:find("\n", at, true) or #text) + 1 end
  local digits, stop = text:match("^%s*(%d+)()", at)
  local n = digits and #digits <= 9 and math.tointeger(digits)
  if n and n > 0 then return n, stop end
  refuse.with("invalid header: a number from 1 to 999999999 expected as its %s", what)
end


local function parse_ppm(text)
  local channels = CHANNELS[text:match("^(P%d)%s") or ""]
  if not channels then refuse_other(text) end
  local width, height, most, at
  width, at = number(text, 3, "width")
  height, at = number(text, at, "height")
  most, at = number(text, at, "largest value")
  if most ~= 255 then refuse.with("255 expected as its largest value, got %d", most) end
  local wanted, got = width * height * channels, #text - at
  if wanted ~= got then
    refuse.with("%d bytes expected for %d x %d pixels, got %d", wanted, width, height,
                math.max(0, got))
  end
  local pixels = heed.frombytes(text:sub(at + 1), {height, width, channels}, {dtype = "uint8"})
  return pixels:permute(3, 1, 2):contiguous()          -- (C, H, W)
end


local function parse(text)
  if text:sub(1, #png.SIGNATURE) == png.SIGNATURE then return png.parse(text) end
  return parse_ppm(text)
end


---The picture in a file: (3, H, W) of a colour picture, (1, H, W) of a grey one, as uint8. A PNG
---needs the system's zlib. It may have one channel more, which says how opaque a pixel is; of 16
---bits it is int64. PPM and PGM have one byte for each value. Other formats are refused with a
---command that converts them.
---@param path string
---@return heed.Tensor? picture
---@return string? message
return function(path, ...)
  options.no_more("data.image", 1, ...)
  return whole.read("data.image", path, parse)
end
