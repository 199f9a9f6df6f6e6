-- Pictures in PNG: chunks and colours (PNG specification, second edition). C inflates the pixels by
-- the system's zlib.

local core = require "heed.core"
local heed = require "heed"
local refuse = require "heed.internal.refuse"

local png = {}

---How a file begins.
png.SIGNATURE = "\x89PNG\r\n\x1a\n"

local RATIO <const> = 1032           -- bytes that deflate makes of one, at most

-- For each type of colour the samples of a pixel, and the bits that a sample may have.
local GREY <const>, COLOUR <const>, PALETTE <const> = 0, 2, 3
local SAMPLES <const> = {[GREY] = 1, [COLOUR] = 3, [PALETTE] = 1, [4] = 2, [6] = 4}
local DEPTHS <const> = {
  [GREY] = "1 2 4 8 16", [COLOUR] = "8 16", [PALETTE] = "1 2 4 8", [4] = "8 16", [6] = "8 16",
}


-- Chunks -----------------------------------------------------------------

-- The kind and the bytes of the chunk at a position, and the position behind it.
local function chunk_at(text, at)
  local left = #text - at + 1 - 12
  if left < 0 then refuse.with("the file ends within a chunk") end
  local n, kind = string.unpack(">I4c4", text, at)
  if n > left then
    refuse.with("the file ends within its chunk %s", refuse.quoted(kind))
  end
  local sum = string.unpack(">I4", text, at + 8 + n)
  if core.crc32(text:sub(at + 4, at + 7 + n)) ~= sum then
    refuse.with("its chunk %s is damaged: the checksum differs", refuse.quoted(kind))
  end
  return kind, text:sub(at + 8, at + 7 + n), at + 12 + n
end


local ONCE <const> = {IHDR = true, PLTE = true, tRNS = true}

-- The chunks that make the picture, by their kinds; those of pixels, IDAT, joined. Kinds that begin
-- with a small letter may be left out.
local function read_chunks(text)
  local found, pixels, at = {}, {}, #png.SIGNATURE + 1
  repeat
    local kind, bytes, next_at = chunk_at(text, at)
    at = next_at
    if not found.IHDR and kind ~= "IHDR" then refuse.with("a chunk IHDR expected first") end
    if kind == "IDAT" then pixels[#pixels + 1] = bytes
    elseif ONCE[kind] then
      if found[kind] then refuse.with("its chunk %s is there twice", kind) end
      found[kind] = bytes
    elseif kind ~= "IEND" and kind:find("^%u") then
      refuse.with("its chunk %s is not known", refuse.quoted(kind))
    end
  until kind == "IEND"
  found.IDAT = table.concat(pixels)
  return found
end


local function check_header(h, n)
  local depths = DEPTHS[h.colour]
  if not depths or not (" " .. depths .. " "):find(" " .. h.depth .. " ", 1, true) then
    refuse.with("colours of type %d with %d bits are none of PNG's", h.colour, h.depth)
  elseif h.packing ~= 0 or h.filter ~= 0 or h.interlaced > 1 then
    refuse.with("its compression or filter is not known")
  elseif h.interlaced == 1 then
    refuse.with("it is interlaced, which is not read; convert it: pngtopnm a.png >a.ppm "
                .. "(apt install netpbm)")
  end
  if h.width < 1 or h.height < 1 or h.height > RATIO * n // (h.row + 1) then
    refuse.with("%d x %d pixels do not fit into %d bytes", h.width, h.height, n)
  end
end


-- The header: sizes, and `row`, the bytes of a row.
local function header_of(found)
  if #found.IHDR ~= 13 then refuse.with("13 bytes expected in IHDR, got %d", #found.IHDR) end
  local h = {}
  h.width, h.height, h.depth, h.colour, h.packing, h.filter, h.interlaced =
    string.unpack(">I4I4BBBBB", found.IHDR)
  h.samples = SAMPLES[h.colour] or 1
  h.row = (h.width * h.samples * h.depth + 7) // 8
  check_header(h, #found.IDAT)
  return h
end


-- Pixels -----------------------------------------------------------------

-- The bytes of all rows: uint8 (H, row).
local function rows_of(h, bytes)
  local all = core.called("data.image", heed.empty, h.height * (h.row + 1),
                          {dtype = "uint8", device = "cpu"})
  local done, why = core.called("data.image", core.png_rows, all, bytes, h.height, h.row,
                                math.max(1, h.samples * h.depth // 8))
  if not done then refuse.with("%s", why) end
  return all:narrow(1, 1, h.height * h.row):view(h.height, h.row)
end


-- Samples of less than 8 bits, the first ones in the highest bits: int64 (H, W).
local function unpacked(rows, h)
  local wide, parts = rows:to("int64"), {}
  for shift = 8 - h.depth, 0, -h.depth do
    parts[#parts + 1] = wide // (1 << shift) % (1 << h.depth)
  end
  return heed.stack(parts, 3):view(h.height, h.row * #parts):narrow(2, 1, h.width)
end


-- Samples (H, W, n): uint8, or int64 of 16 bits.
local function samples_of(rows, h)
  if h.depth == 8 then return rows:view(h.height, h.width, h.samples) end
  if h.depth == 16 then
    local pairs_of = rows:view(h.height, h.width, h.samples, 2):to("int64")
    return pairs_of:select(4, 1) * 256 + pairs_of:select(4, 2)
  end
  return unpacked(rows, h):reshape(h.height, h.width, 1)
end


-- The colours of a palette: uint8 (n, 3), or (n, 4) where some are transparent.
local function palette_of(found)
  local bytes, clear = found.PLTE, found.tRNS
  if not bytes or #bytes % 3 ~= 0 or #bytes < 3 or #bytes > 3 * 256 then
    refuse.with("a palette of 1 to 256 colours expected, 3 bytes each")
  end
  local n = #bytes // 3
  local colours = heed.frombytes(bytes, {n, 3}, {dtype = "uint8", device = "cpu"})
  if not clear then return colours end
  if #clear > n then refuse.with("%d colours and %d transparencies", n, #clear) end
  local alpha = heed.frombytes(clear .. ("\xff"):rep(n - #clear), {n, 1},
                               {dtype = "uint8", device = "cpu"})
  return heed.cat({colours, alpha}, 2)
end


local function coloured(samples, h, found)
  local colours, ids = palette_of(found), samples:to("int64"):reshape(-1) + 1
  local most = ids:max():item()
  if most > #colours then
    refuse.with("a pixel has colour %d of a palette of %d", most, #colours)
  end
  return colours:index_select(1, ids):view(h.height, h.width, -1)
end


---Reads a picture: (C, H, W) with 1 channel of grey, 3 of colours, and one more of transparency
---where there is one; uint8, or int64 of 16 bits.
---@param text string
---@return heed.Tensor
function png.parse(text)
  local found = read_chunks(text)
  local h = header_of(found)
  if found.tRNS and h.colour ~= PALETTE then
    refuse.with("a transparent colour, chunk tRNS, is read of palettes alone")
  end
  local picture = samples_of(rows_of(h, found.IDAT), h)
  if h.colour == PALETTE then picture = coloured(picture, h, found)
  elseif h.depth < 8 then picture = (picture * (255 // ((1 << h.depth) - 1))):to("uint8") end
  return picture:permute(3, 1, 2):contiguous():to(heed.default_device())
end


return png
