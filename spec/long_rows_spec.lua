-- Reductions of rows so long that they are cut into parts, which are reduced apart and joined: what
-- stands at an end of a part, or in one part alone, counts as in a short row. And the gradients of
-- a norm's weights, which blocks of rows add up apart, and of softmax in rows of all lengths.

local close = require "spec.support.close"
local device = require "spec.support.device"
local heed = require "heed"
local layouts = require "spec.support.layouts"
local near = require "spec.support.near"

local N <const> = 150001                   -- three parts of 65,536 elements, or nine of a column's
local NAN <const>, HUGE <const> = 0 / 0, math.huge
local TYPES <const> = {float32 = 1e-5, float64 = 1e-12, bfloat16 = 1e-2, int64 = 0}   -- rtol

local ends = {[1] = 2, [65536] = 3, [65537] = 5, [N] = 7}

-- A number that fills a row, others in it, a reduction over axis 1, its value, and a position.
local cases = {
  {1, ends, "sum", N - 4 + 17}, {1, ends, "prod", 210}, {1, {}, "sum", N},
  {0, {[70000] = 3, [140000] = 3}, "max", 3, 70000}, {0, {[N] = 3}, "max", 3, N},
  {0, {[1] = 3, [65537] = 2}, "max", 3, 1}, {-5, {[65537] = -1}, "max", -1, 65537},
  {-5, {}, "max", -5, 1},
  {0, {[70000] = -3, [140000] = -3}, "min", -3, 70000}, {0, {[N] = -3}, "min", -3, N},
  {0, {[1] = -3, [65537] = -2}, "min", -3, 1}, {5, {[65536] = 1}, "min", 1, 65536},
  {0, {[N] = 1}, "any", 1}, {0, {[1] = 1}, "any", 1}, {0, {}, "any", 0},
  {1, {[N] = 0}, "all", 0}, {1, {[1] = 0}, "all", 0}, {1, {}, "all", 1},
  {0, {[1] = 2, [65537] = 3, [N] = 6}, "norm", 7, floats = true},
  {1, ends, "mean", (N - 4 + 17) / N, floats = true},
  {512, {[1] = 768, [70000] = 256}, "var", 2 * 256 ^ 2 / (N - 1), floats = true},
  {512, {[65536] = 768, [N] = 256}, "std", 256 * math.sqrt(2 / (N - 1)), floats = true},
  {0, {}, "logsumexp", math.log(N), floats = true},
  {-HUGE, {[1] = 1, [N] = 1}, "logsumexp", 1 + math.log(2), floats = true},
  {0, {[N] = 1000}, "logsumexp", 1000, floats = true},
  {0, {[1] = 1000}, "logsumexp", 1000, floats = true},
  {-HUGE, {}, "logsumexp", -HUGE, floats = true},
  {0, {[70000] = HUGE}, "logsumexp", HUGE, floats = true},
  {0, {[70000] = NAN, [140000] = 9}, "max", NAN, 70000, floats = true},
  {0, {[1000] = 9, [140000] = NAN}, "max", NAN, 140000, floats = true},
  {0, {[70000] = NAN, [140000] = NAN}, "min", NAN, 70000, floats = true},
}

local function reduced(name, x)
  if name == "norm" then return x:norm(2, 1) end
  return x[name](x, 1)
end

-- Rows of a type: as one piece, with gaps, and as columns beside others.
local function rows_of(full, others, dtype)
  local blank = heed.full({N}, full):to(dtype)
  local row = blank:clone()
  for at, value in pairs(others) do row[at] = value end
  local five = heed.stack({row, blank, row, blank, row}, 2)
  return {["one piece"] = row, gaps = five[{{}, 3}], columns = five, blank = blank}
end

local function numbers(t) return t:double():reshape(-1):totable() end


describe("a row in parts", function()
  for dtype, rtol in pairs(TYPES) do
    it("has the reductions of a row, in " .. dtype, function()
      for i, case in ipairs(cases) do
        local full, others, name, wanted, position = table.unpack(case, 1, 5)
        if not case.floats or dtype ~= "int64" then
          local rows = rows_of(full, others, dtype)
          local plain = numbers((reduced(name, rows.blank)))[1]
          for layout, x in pairs(rows) do
            local values, positions = reduced(name, x)
            for k, value in ipairs(numbers(values)) do
              local is_blank = layout == "blank" or k % 2 == 0
              local what = ("case %d, %s, %s, number %d"):format(i, name, layout, k)
              assert.is_true(close(value, is_blank and plain or wanted, rtol), what)
              local at = positions and numbers(positions)[k]
              assert.equal(position and (is_blank and 1 or position), at, what)
            end
          end
        end
      end
    end)
  end
end)


describe("a row of more parts than are kept at a time", function()
  setup(device.cpu)
  teardown(device.back)

  it("is summed up to its last element", function()
    local n = 1024 * 65536 + 3
    assert.equal(n, heed.ones(1, "uint8"):expand(n):sum():item())
  end)
end)


describe("the gradients of a norm's weights", function()
  local function mean(x) return x:mean(-1, true) end

  for _, rows in ipairs{0, 1, 1000, 30007, 50001} do
    it(("add up %d rows"):format(rows), function()
      local x = heed.randn({rows, 5}, {dtype = "float64"})
      local g = heed.randn({rows, 5}, {dtype = "float64"})
      local weight = heed.ones(5, {dtype = "float64", requires_grad = true})
      local bias = heed.zeros(5, {dtype = "float64", requires_grad = true})
      local centred = x - mean(x)
      local function sums(size) return (g * size / (mean(size:square()) + 1e-5):sqrt()):sum(1) end
      heed.layer_norm(x, {5}, weight, bias):backward(g)
      near(sums(centred), weight.grad, 1e-9, 1e-9, "layer_norm")
      near(g:sum(1), bias.grad, 1e-9, 1e-9, "bias")
      weight.grad = nil
      heed.rms_norm(x, {5}, weight, {eps = 1e-5}):backward(g)
      near(sums(x), weight.grad, 1e-9, 1e-9, "rms_norm")
    end)
  end
end)


describe("the gradient of softmax", function()
  local RTOL <const> = {float32 = 1e-4, float64 = 1e-10}
  local lengths = {1, 2, 3, 7, 24, 25}             -- and from 4 vectors of AVX-512 on to 8 of them
  for n = 40, 130, 3 do lengths[#lengths + 1] = n end

  it("is right in rows of every length, and that of its logarithm", function()
    layouts.on_each_level(function(level)
      for dtype, rtol in pairs(RTOL) do
        for _, n in ipairs(lengths) do
          local x, g = heed.randn({3, n}, {dtype = dtype}), heed.randn({3, n}, {dtype = dtype})
          x:requires_grad_()
          local y, exact = x:detach():double():softmax(-1), g:double()
          local what = ("%s, %s, %d elements"):format(level, dtype, n)
          x:softmax(-1):backward(g)
          near(y * (exact - (exact * y):sum(-1, true)), x.grad, rtol, rtol, what)
          x.grad = nil
          x:log_softmax(-1):backward(g)
          near(exact - y * exact:sum(-1, true), x.grad, rtol, rtol, what .. ", logarithm")
        end
      end
    end)
  end)
end)
