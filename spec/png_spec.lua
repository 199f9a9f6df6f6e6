-- data.image: pictures in PNG, of all types of colour, and files that are none.

local core = require "heed.core"
local files = require "spec.support.files"
local heed = require "heed"

local path = os.tmpname()
local SIGNATURE <const> = "\x89PNG\r\n\x1a\n"

local function read(text)
  files.write(path, text)
  return heed.data.image(path)
end

teardown(function() os.remove(path) end)

local function chunk(kind, bytes)
  return string.pack(">s4", bytes):gsub("^....", "%0" .. kind, 1)
    .. string.pack(">I4", core.crc32(kind .. bytes))
end

-- A stream of zlib's in which bytes stand as they are.
local function stored(bytes)
  local a, b, parts = 1, 0, {"\x78\x01"}
  for i = 1, #bytes do
    a = (a + bytes:byte(i)) % 65521
    b = (b + a) % 65521
  end
  for from = 1, #bytes, 65535 do
    local part = bytes:sub(from, from + 65534)
    local last = from + 65534 >= #bytes and 1 or 0
    parts[#parts + 1] = string.pack("<BI2I2", last, #part, ~#part & 0xffff) .. part
  end
  return table.concat(parts) .. string.pack(">I2I2", b, a)
end

-- A file: width, height, depth, colour, then the bytes of its rows, each with its filter.
local function png(width, height, depth, colour, rows, more, o)
  o = o or {}
  local header = string.pack(">I4I4BBBBB", width, height, depth, colour, o.packing or 0,
                             o.filter or 0, o.interlaced or 0)
  return SIGNATURE .. chunk("IHDR", header) .. (more or "")
    .. chunk("IDAT", o.stream or stored(rows)) .. chunk("IEND", "")
end

local function uint8(list) return heed.tensor(list, {dtype = "uint8"}) end

-- Pixels that another program's zlib packed: 5 x 4 colours, whose rows have the filters 1 to 4.
local PACKED <const> = [[
89504e470d0a1a0a0000000d4948445200000005000000040802000000c95162170000000374455874610062dc49a23b
0000003b4944415478da63646060d040424c8c360c8c36bc8c36528c36ea8c3626cc4c510ca27222a27252a2728aa272
ea2c2079065e460629460675200200922a04b29cd5e0d10000000049454e44ae426082]]


describe("a PNG", function()
  it("is read with all filters of its rows", function()
    local x = assert(read((PACKED:gsub("%s", ""):gsub("..", function(hex)
      return string.char(tonumber(hex, 16))
    end))))
    assert.equal("(3, 4, 5)", tostring(x.shape))
    for i = 0, 3 do
      for j = 0, 4 do
        assert.same({j * 40 + i, i * 60, j * i * 13}, x[{{}, i + 1, j + 1}]:totable())
      end
    end
  end)

  it("has a palette of 256 colours at most, each with a transparency", function()
    local colours, clear = {}, {}
    for i = 0, 255 do colours[i + 1], clear[i + 1] = string.char(i, 0, 255 - i), string.char(i) end
    local palette = chunk("PLTE", table.concat(colours))
    assert.is_true(assert(read(png(2, 1, 8, 3, "\0\255\7", palette)))
      :equal(uint8{{{255, 7}}, {{0, 0}}, {{0, 248}}}))
    palette = palette .. chunk("tRNS", table.concat(clear))
    assert.is_true(assert(read(png(1, 1, 8, 3, "\0\255", palette)))
      :equal(uint8{{{255}}, {{0}}, {{0}}, {{255}}}))
  end)

  it("has channels of grey, colours and transparency", function()
    assert.is_true(assert(read(png(2, 1, 8, 0, "\0\5\9"))):equal(uint8{{{5, 9}}}))
    assert.is_true(assert(read(png(1, 2, 8, 2, "\0\1\2\3\0\4\5\6")))
      :equal(uint8{{{1}, {4}}, {{2}, {5}}, {{3}, {6}}}))
    assert.is_true(assert(read(png(1, 1, 8, 4, "\0\5\9"))):equal(uint8{{{5}}, {{9}}}))
    assert.is_true(assert(read(png(1, 1, 8, 6, "\0\1\2\3\255")))
      :equal(uint8{{{1}}, {{2}}, {{3}}, {{255}}}))
  end)

  it("of 16 bits is int64", function()
    local x = assert(read(png(2, 1, 16, 0, "\0\1\2\255\255")))
    assert.is_true(x:equal(heed.tensor{{{258, 65535}}}))
    x = assert(read(png(1, 1, 16, 2, "\1\0\1\0\2\0\3")))
    assert.is_true(x:equal(heed.tensor{{{1}}, {{2}}, {{3}}}))
  end)

  it("of fewer bits is grey from 0 to 255, its last byte in parts", function()
    assert.is_true(assert(read(png(10, 1, 1, 0, "\0\xA0\x40")))
      :equal(uint8{{{255, 0, 255, 0, 0, 0, 0, 0, 0, 255}}}))
    assert.is_true(assert(read(png(5, 1, 2, 0, "\0\x1B\xC0")))
      :equal(uint8{{{0, 85, 170, 255, 255}}}))
    assert.is_true(assert(read(png(3, 2, 4, 0, "\0\x1F\x20\2\x10\x10")))
      :equal(uint8{{{17, 255, 34}, {34, 255, 51}}}))
  end)

  it("has the colours of its palette", function()
    local palette = chunk("PLTE", "\1\2\3\4\5\6\7\8\9")
    assert.is_true(assert(read(png(3, 1, 8, 3, "\0\2\0\1", palette)))
      :equal(uint8{{{7, 1, 4}}, {{8, 2, 5}}, {{9, 3, 6}}}))
    assert.is_true(assert(read(png(3, 1, 2, 3, "\0\x84", palette .. chunk("tRNS", "\0\x80"))))
      :equal(uint8{{{7, 1, 4}}, {{8, 2, 5}}, {{9, 3, 6}}, {{255, 0, 128}}}))
  end)

  it("may have its pixels in many chunks, and others that say nothing of them", function()
    local whole = png(2, 1, 8, 0, "\0\5\9", chunk("gAMA", "\0\0\0\1"))
    local stream = stored("\0\5\9")
    local parts = {}
    for i = 1, #stream do parts[i] = chunk("IDAT", stream:sub(i, i)) end
    parts[#parts + 1] = chunk("IEND", "") .. "more"
    local split = whole:gsub("....IDAT.*$", "") .. table.concat(parts)
    assert.is_true(assert(read(whole)):equal(uint8{{{5, 9}}}))
    assert.is_true(assert(read(split)):equal(uint8{{{5, 9}}}))
  end)

  it("that is malformed is refused, and says why", function()
    local good = png(2, 1, 8, 0, "\0\5\9")
    local palette = chunk("PLTE", "\1\2\3")
    local cases = {
      {SIGNATURE, "the file ends within a chunk"},
      {good:sub(1, -13), "the file ends within a chunk"},
      {SIGNATURE .. string.pack(">I4", 0xffffffff) .. "IHDR" .. ("\0"):rep(30),
       'the file ends within its chunk "IHDR"'},
      {SIGNATURE .. chunk("IEND", ""), "a chunk IHDR expected first"},
      {SIGNATURE .. chunk("IHDR", "abc") .. chunk("IEND", ""), "13 bytes expected in IHDR, got 3"},
      {png(2, 1, 8, 0, "", chunk("IHDR", "")), "its chunk IHDR is there twice"},
      {png(2, 1, 8, 0, "\0\5\9", chunk("NEWS", "")), 'its chunk "NEWS" is not known'},
      {(good:gsub("\5\9", "\5\8")), 'its chunk "IDAT" is damaged: the checksum differs'},
      {png(2, 1, 3, 0, "\0\5\9"), "colours of type 0 with 3 bits are none of PNG's"},
      {png(2, 1, 4, 2, "\0\5\9"), "colours of type 2 with 4 bits are none of PNG's"},
      {png(2, 1, 8, 5, "\0\5\9"), "colours of type 5 with 8 bits are none of PNG's"},
      {png(2, 1, 8, 0, "\0\5\9", "", {packing = 1}), "its compression or filter is not known"},
      {png(2, 1, 8, 0, "\0\5\9", "", {filter = 1}), "its compression or filter is not known"},
      {png(2, 1, 8, 0, "\0\5\9", "", {interlaced = 2}), "its compression or filter is not known"},
      {png(2, 1, 8, 0, "\0\5\9", "", {interlaced = 1}), "it is interlaced, which is not read"},
      {png(0, 1, 8, 0, "\0"), "0 x 1 pixels do not fit into"},
      {png(1, 0, 8, 0, "\0"), "1 x 0 pixels do not fit into"},
      {png(0xffffffff, 0xffffffff, 16, 6, "\0"), "4294967295 x 4294967295 pixels do not fit into"},
      {png(100000, 1, 8, 0, "\0"), "100000 x 1 pixels do not fit into 12 bytes"},
      {png(12384, 1, 8, 0, "\0"), "12384 x 1 pixels do not fit into 12 bytes"},
      {png(12383, 1, 8, 0, "\0"), "its pixels are damaged, too few or too many"},
      {png(2, 1, 8, 0, "\0\5"), "its pixels are damaged, too few or too many"},
      {png(2, 1, 8, 0, "\0\5\9\1"), "its pixels are damaged, too few or too many"},
      {png(2, 1, 8, 0, "", "", {stream = "no stream"}), "its pixels are damaged"},
      {png(2, 1, 8, 0, "", "", {stream = stored("\0\5\9"):sub(1, -2)}), "its pixels are damaged"},
      {png(2, 1, 8, 0, "", "", {stream = ""}), "2 x 1 pixels do not fit into 0 bytes"},
      {png(2, 1, 8, 0, "\5\5\9"), "a row of its pixels has a filter that PNG does not know"},
      {png(2, 1, 8, 3, "\0\0\0"), "a palette of 1 to 256 colours expected"},
      {png(2, 1, 8, 3, "\0\0\0", chunk("PLTE", "")), "a palette of 1 to 256 colours expected"},
      {png(2, 1, 8, 3, "\0\0\0", chunk("PLTE", "ab")), "a palette of 1 to 256 colours expected"},
      {png(2, 1, 8, 3, "\0\0\0", chunk("PLTE", ("abc"):rep(257))), "a palette of 1 to 256"},
      {png(2, 1, 8, 3, "\0\0\1", palette), "a pixel has colour 2 of a palette of 1"},
      {png(2, 1, 8, 3, "\0\0\0", palette .. chunk("tRNS", "ab")), "1 colours and 2 transparencies"},
      {png(2, 1, 8, 0, "\0\5\9", chunk("tRNS", "\0\5")), "a transparent colour, chunk tRNS"},
    }
    for _, case in ipairs(cases) do
      local x, why = read(case[1])
      assert.is_nil(x, case[2])
      assert.matches("data.image: " .. path .. ": " .. case[2], why, 1, true)
    end
  end)

  it("of random bytes is never more than a message", function()
    heed.manual_seed(5)
    local good = png(7, 5, 8, 2, ("\4" .. ("abc"):rep(7)):rep(5), chunk("PLTE", "\1\2\3"))
    for i = 1, 300 do
      local at = heed.randint(1, #good, {}):item()
      local text = good:sub(1, at - 1) .. string.char(i % 256) .. good:sub(at + 1 + i % 3)
      local x, why = read(text)
      assert.is_true(heed.is_tensor(x) or type(why) == "string")
    end
  end)

  it("keeps within the limit of memory", function()
    local stream = stored(("\0"):rep(4001 * 500))
    local large = png(4000, 500, 8, 0, "", "", {stream = stream})
    assert.equal(4000 * 500, assert(read(large)):numel())
    collectgarbage()
    collectgarbage()
    local limit = heed.memory().limit
    heed.memory{limit = heed.memory().live + 1000000}
    local good, why = pcall(read, large)
    heed.memory{limit = limit}
    assert.is_false(good)
    assert.matches("data.image: ", why, 1, true)
  end)

  it("without zlib is refused, and says what to install", function()
    local rows = core.png_rows
    core.png_rows = function() return nil, "it needs zlib" end
    local x, why = read(png(2, 1, 8, 0, "\0\5\9"))
    core.png_rows = rows
    assert.is_nil(x)
    assert.matches("it needs zlib", why, 1, true)
  end)

  it("that gnuplot drew is read", function()
    if not os.execute "gnuplot --version >/dev/null 2>&1" then
      return pending "gnuplot is not installed"
    end
    assert(heed.plot.heat{{0, 1}}:save(path .. ".png"))
    local x = assert(heed.data.image(path .. ".png"))
    os.remove(path .. ".png")
    assert.equal("uint8", x.dtype)
    local lightest = heed.tensor({253, 231, 37}, {dtype = "uint8"}):view(3, 1, 1)
    assert.is_true(x:narrow(1, 1, 3):eq(lightest):all(1):any())
  end)
end)
