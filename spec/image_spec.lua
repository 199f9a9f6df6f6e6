-- Pictures from files: PPM, PGM, and what is refused.

local heed = require "heed"
local data = heed.data

local path = os.tmpname()

local function read(text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return data.image(path)
end

teardown(function() os.remove(path) end)


describe("data.image", function()
  it("has channels, rows and columns", function()
    local x = assert(read("P6\n2 1\n255\n" .. "\1\2\3\4\5\255"))
    assert.equal("(3, 1, 2)", tostring(x.shape))
    assert.equal("uint8", x.dtype)
    assert.is_true(x:equal(heed.tensor({{{1, 4}}, {{2, 5}}, {{3, 255}}}, {dtype = "uint8"})))
    assert.is_true(assert(read("P5 # grey\n#\n 1\t2 # two\n255\r\n7"))
      :equal(heed.tensor({{{10}, {55}}}, {dtype = "uint8"})))     -- one space ends the header
  end)

  it("names what is malformed", function()
    for text, message in pairs {
      ["P6\n2 1\n255\n12345"] = "6 bytes expected for 2 x 1 pixels, got 5",
      ["P6\n2 1\n255\n1234567"] = "6 bytes expected for 2 x 1 pixels, got 7",
      ["P6\n2 1\n255"] = "6 bytes expected for 2 x 1 pixels, got 0",
      ["P6\n999999999 999999999\n255\n"] = "bytes expected for 999999999 x 999999999 pixels, got 0",
      ["P6\n9999999999 1\n255\n"] = "a number from 1 to 999999999 expected as its width",
      ["P6\n2 -1\n255\n"] = "a number from 1 to 999999999 expected as its height",
      ["P6\n2 0\n255\n"] = "a number from 1 to 999999999 expected as its height",
      ["P5\n1 1\n"] = "expected as its largest value",
      ["P5\n1 1\n65535\n12"] = "255 expected as its largest value, got 65535",
      ["\xFF\xD8\xFF\xE0"] = "this is a JPEG", ["GIF89a"] = "this is a GIF",
      ["P3\n1 1\n255\n1 2 3"] = "this is plain text", [""] = "which begin with \\x89PNG, P6, P5",
    } do
      local x, why = read(text)
      assert.is_nil(x)
      assert.is_truthy(why:find("data.image: " .. path .. ": ", 1, true), why)
      assert.is_truthy(why:find(message, 1, true), why)
    end
  end)

  it("gives nil and a message where there is no file, and raises where there is no path", function()
    local x, why = data.image("/nonexistent/a.ppm")
    assert.is_nil(x)
    assert.is_truthy(why:find("data.image: /nonexistent/a.ppm: ", 1, true), why)
    for _, wrong in ipairs {"", "a\0b", 3, {}} do
      assert.error_matches(function() data.image(wrong) end, "data%.image: .*a path expected")
    end
    assert.error_matches(function() data.image(path, 2) end, "data%.image")
  end)
end)
