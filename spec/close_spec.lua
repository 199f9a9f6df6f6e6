-- The comparison of numbers that other specs use.

local close = require "spec.support.close"

local huge, nan = math.huge, 0 / 0


describe("close", function()
  it("is isclose's rule for finite numbers", function()
    assert.is_true(close(1.5, 1, 0.25, 0.25))
    assert.is_false(close(1.51, 1, 0.25, 0.25))
    assert.is_true(close(-3, -2, 0.5))
    assert.is_false(close(2, 2.5, 0.1))
    assert.is_true(close(0, 0, 0))
  end)

  it("takes an infinity for the same one alone", function()
    assert.is_true(close(huge, huge, 0))
    assert.is_true(close(-huge, -huge, 0))
    for _, pair in ipairs{{huge, -huge}, {huge, 1}, {1, huge}, {-1e308, -huge}, {nan, huge}} do
      assert.is_false(close(pair[1], pair[2], 1, 1))
    end
  end)

  it("takes NaN for NaN alone", function()
    assert.is_true(close(nan, nan, 0))
    assert.is_false(close(nan, 1, 1, huge))
    assert.is_false(close(1, nan, 1, huge))
  end)
end)
