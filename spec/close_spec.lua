-- The comparisons of numbers and of tensors that other specs use.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local near = require "spec.support.near"

local huge, nan = math.huge, 0 / 0


describe("close", function()
  it("is isclose's rule for finite numbers", function()
    assert.is_true(close(1.5, 1, 0.25, 0.25))
    assert.is_false(close(1.51, 1, 0.25, 0.25))
    assert.is_true(close(-3, -2, 0.5))
    assert.is_false(close(-1, 1, 0.5))
    assert.is_false(close(2, 2.5, 0.1))
    assert.is_true(close(2.5, 2, 0.25))          -- the tolerance is of the wanted number
    assert.is_false(close(2, 2.5, 0.2 - 1e-9))
    assert.is_true(close(0, 0, 0))
    assert.is_false(close(1e-300, 0, 1))
  end)

  it("takes an infinity for the same one alone", function()
    assert.is_true(close(huge, huge, 0))
    assert.is_true(close(-huge, -huge, 0))
    for _, pair in ipairs{{huge, -huge}, {-huge, huge}, {huge, 1}, {1, huge}, {-1e308, -huge},
                          {nan, huge}, {-huge, nan}} do
      assert.is_false(close(pair[1], pair[2], 1, 1))
      assert.is_false(close(pair[1], pair[2], 1, huge))
    end
  end)

  it("takes NaN for NaN alone", function()
    assert.is_true(close(nan, nan, 0))
    assert.is_false(close(nan, 1, 1, huge))
    assert.is_false(close(1, nan, 1, huge))
  end)

  it("is what isclose gives", function()
    local numbers = {0.0, -0.0, 1, 1.1, -1, 3, huge, -huge, nan}
    for _, got in ipairs(numbers) do
      for _, wanted in ipairs(numbers) do
        local x, y = heed.tensor{got + 0.0}:double(), heed.tensor{wanted + 0.0}:double()
        local o = {rtol = 0.05, atol = 0.05, equal_nan = true}
        assert.equal(x:isclose(y, o):all(), close(x[1], y[1], 0.05, 0.05), got .. ", " .. wanted)
      end
    end
  end)

  it("is how specs compare numbers: none has a tolerance of its own", function()
    local files <close> = assert(io.popen("grep -lE 'abs\\(.* [-+] .*\\) *<' spec/*_spec.lua " ..
      "spec/training.lua spec/support/*.lua spec/support/cases/*.lua"))
    assert.equal("spec/support/close.lua\n", files:read("a"))
  end)
end)


describe("near", function()
  it("names the first number that differs, and the shape", function()
    local x = heed.tensor{{1, 2}, {3, huge}}
    near(x, x, 0, 0)
    near(x, x * 1.001, 0.01, 0)
    near(x, x + 0.25, 0, 0.25)
    assert.matches("weights, element 3: 3 expected, got 4",
                   message(near, x, heed.tensor{{1.0, 2, 4, 5}}:view(2, 2), 0, 0.5, "weights"))
    assert.matches("element 4: inf expected, got 3", message(near, x, x:clamp(0, 3), 1, huge))
    assert.matches("element 1: 1 expected, got %-?nan", message(near, x, x * nan, 1, huge))
    assert.matches("values: shape %(2, 2%) expected, got %(4%)", message(near, x, x:view(4), 1, 0))
  end)
end)
