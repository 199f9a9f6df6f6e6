-- The documents that the project grew from: examples print their numbers, to the digits printed.

local asserted = require "spec.support.asserted"
local close = require "spec.support.close"
local heed = require "heed"
local device = require "spec.support.device"

local function run(script)
  local lua = arg and arg[-1] and not arg[-1]:find("busted") and arg[-1] or "lua5.4"
  local pipe = assert(io.popen(("%s examples/%s.lua 2>&1"):format(lua, script)))
  local text = pipe:read("a")
  assert.is_true(pipe:close(), text)
  return text
end

-- All numbers of a text, as they are written.
local function numbers(text)
  local list = {}
  for number in text:gmatch("%-?%d+%.%d+e?[-+]?%d*") do list[#list + 1] = number end
  return list
end

-- The numbers of `wanted` stand in `text`, in their order and one after the other.
local function shows(text, wanted)
  asserted.note()
  local found, list = numbers(text), numbers(wanted)
  for from = 1, #found - #list + 1 do
    local k = 0
    while k < #list and found[from + k] == list[k + 1] do k = k + 1 end
    if k == #list then return true end
  end
  error("not printed in this order: " .. table.concat(list, " ") .. "\nin\n" .. text, 2)
end


describe("the single-head layer (seed 000)", function()
  it("gives the shapes of the notebook", function()
    local text = run "single_head"
    assert.matches("The shape of our input is %(10, 20, 4%)", text)
    assert.matches("The shape of our output is %(10, 20, 4%)", text)
    assert.matches("The shape of our attention matrices is %(10, 20, 20%)", text)
    assert.matches("the same: true", text)
  end)
end)


describe("scaled dot-product attention (seed 001)", function()
  setup(device.cpu)
  teardown(device.back)

  local text = run "scaled_dot_product"

  it("prints the notebook's weights", function()
    shows(text, [[0.3921 0.2020 0.0964 0.3094  0.2307 0.2815 0.3649 0.1228
                  0.4548 0.1400 0.0701 0.3350  0.1593 0.2621 0.4593 0.1193]])
  end)

  it("prints rows that add up to one, and agrees with the fused operation", function()
    assert.matches("Row sums.-\n[^\n]*1[.0]*%s+1[.0]*%s+1[.0]*%s+1", text)
    assert.matches("heed.attention agrees: true", text)
    assert.matches("attn shape:%s+%(1, 1, 4, 4%)", text)
    assert.matches("out shape:%s+%(1, 1, 4, 2%)", text)
  end)

  it("gives the same numbers through heed.attention", function()
    heed.manual_seed(0)
    local q, k, v = heed.randn(1, 1, 4, 3), heed.randn(1, 1, 4, 3), heed.randn(1, 1, 4, 2)
    local _, weights = heed.attention(q, k, v, {weights = true})
    shows(weights[{1, 1}]:format("%.4f"), [[0.3921 0.2020 0.0964 0.3094]])
  end)
end)


describe("attention by hand (seed 004)", function()
  setup(device.cpu)
  teardown(device.back)

  local text = run "by_hand"

  it("draws the notebook's tokens", function()
    shows(text, "0.8033 0.1748 0.0890 -0.6137")
    shows(text, "0.0462 -1.3683 0.3375 1.0111")
    shows(text, "-1.4352 0.9774 0.5220 1.2379")
  end)

  it("finds the notebook's scores", function()
    shows(text, "-2.8869 3.6531 -1.1920")
    shows(text, "0.0760 4.2115 4.1211")
    shows(text, "0.8152 -6.1015 1.6231")
  end)

  it("finds the notebook's weights", function()
    shows(text, "0.0014 0.9908 0.0078")
    shows(text, "0.0083 0.5183 0.4735")
    shows(text, "3.0824e-01 3.0549e-04 6.9145e-01")
  end)

  it("finds the notebook's results, one by one and as matrices", function()
    shows(text, "0.2117 1.0697 -3.3355 -4.9260")
    shows(text, "0.6486 0.9883 -2.4109 -3.0185")
    shows(text, "0.6463 0.8405 -1.6421 -0.0805")
    shows(text, [[0.2117 0.6486 0.6463  1.0697 0.9883 0.8405
                  -3.3355 -2.4109 -1.6421  -4.9260 -3.0185 -0.0805]])
  end)

  it("finds the notebook's two heads", function()
    shows(text, [[7.501 15.386 12.121 23.458 5.546 -7.499
                  4.221 4.875 -2.205 4.050 -4.525 5.155
                  1.891 3.035 3.399 2.733 2.958 -0.824
                  2.621 2.177 -4.974 -0.925 -1.928 3.726
                  -0.130 -0.250 3.700 0.948 9.384 0.697
                  2.524 1.555 -0.789 2.667 -0.459 4.428
                  0.056 -1.688 -1.537 -1.700 0.391 4.648
                  -1.352 -4.136 -8.878 -1.003 -12.857 -4.945]])
  end)

  it("draws the notebook's second input", function()
    heed.manual_seed(3)
    shows(heed.randn(8, 6):format("%.3f"), [[-0.077 0.360 -0.782 0.072 0.665 -0.287
      1.621 -1.597 -0.052 -0.306 0.249 -0.223  0.913 0.204 0.574 0.416 0.262 0.931
      -0.514 -1.652 1.046 0.522 -0.167 0.053  0.564 2.257 1.869 -1.195 0.998 0.459
      2.436 -0.147 -0.476 -0.293 -0.348 0.349  0.037 -0.068 0.429 -0.868 -0.271 0.142
      0.130 0.681 -0.958 0.064 0.659 0.819]])
  end)
end)


describe("the counting notebook (seed 002)", function()
  local golden = require("spec.golden").read("counting")

  it("has PyTorch's losses for 1,000 steps", function()
    local pipe = assert(io.popen("lua5.4 spec/support/counting.lua 2>&1"))
    local losses = {}
    for line in pipe:lines() do losses[#losses + 1] = tonumber(line) or error(line) end
    pipe:close()
    assert.equal(#golden.losses, #losses)
    for i, wanted in ipairs(golden.losses) do
      assert.is_true(close(losses[i], wanted, 0, 1e-4),
                     ("step %d: %.7f expected, got %.7f"):format(i, wanted, losses[i]))
    end
  end)
end)
