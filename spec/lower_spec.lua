-- The lower case of texts for models whose words have no capitals: a capital sigma at the end of a
-- word becomes the final one, as in Python.

local lower = require "heed.models.lower"

local char <const> = utf8.char
local SIGMA <const>, SMALL <const>, FINAL <const> = "\u{3a3}", "\u{3c3}", "\u{3c2}"

-- Is a sigma between these the end of a word?
local function is_final(before, after)
  local text = lower(before .. SIGMA .. after)
  local final, small = text:find(FINAL, 1, true), text:find(SMALL, 1, true)
  assert.is_true((final == nil) ~= (small == nil), text)
  return final ~= nil
end


describe("the lower case of a text", function()
  it("is C's where all is ASCII, and Unicode's beyond", function()
    assert.equal("", lower "")
    assert.equal("az [`{@ 09", lower "AZ [`{@ 09")
    assert.equal("\u{e4}\u{e9}\u{df} \u{436}", lower "\u{c4}\u{c9}\u{df} \u{416}")
  end)

  it("has final sigmas behind letters, and not before them", function()
    for first, last in pairs{[0x41] = 0x5a, [0x61] = 0x7a, [0x370] = 0x52f, [0xc0] = 0xd6,
                             [0xd8] = 0xf6, [0xf8] = 0x2af, [0x1e00] = 0x1fff,
                             [0xfb00] = 0xfb17} do
      for _, c in ipairs{first, last} do
        assert.is_true(is_final(char(c), ""), ("behind %x"):format(c))
        assert.is_false(is_final("a", char(c)), ("before %x"):format(c))
      end
    end
    for _, c in ipairs{0x20, 0x30, 0x40, 0x5b, 0x60, 0x7b, 0xbf, 0xd7, 0xf7, 0x530, 0x1dff, 0x2000,
                       0xfaff, 0xfb18, 0x4e00} do
      assert.is_false(is_final(char(c), ""), ("behind %x"):format(c))
      assert.is_true(is_final("a", char(c)), ("before %x"):format(c))
    end
    assert.is_false(is_final("", ""))
    assert.equal("a" .. SMALL, lower("A" .. SIGMA .. "\xff"):sub(1, 3))      -- no UTF-8
  end)

  it("looks beyond marks and signs within words", function()
    for _, c in ipairs{0x27, 0x2e, 0x3a, 0xad, 0xb7, 0x2019, 0x2b0, 0x301, 0x36f, 0x387} do
      local sign = char(c)
      assert.is_true(is_final("a" .. sign, ""), ("behind %x"):format(c))
      assert.is_true(is_final("a" .. sign .. sign, sign), ("behind two of %x"):format(c))
      assert.is_false(is_final("a", sign .. "b"), ("before %x"):format(c))
      assert.is_false(is_final(sign, ""), ("behind %x alone"):format(c))
    end
    for _, c in ipairs{0x26, 0x28, 0x2d, 0x2f, 0x39, 0x3b, 0xac, 0xae, 0xb6, 0xb8, 0x2018,
                       0x201a} do
      assert.is_false(is_final("a" .. char(c), ""), ("behind %x"):format(c))
      assert.is_true(is_final("a", char(c) .. "b"), ("before %x"):format(c))
    end
  end)
end)
