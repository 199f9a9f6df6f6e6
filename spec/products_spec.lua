-- Products of matrices by every way of computing them: few rows, large blocks, many small ones; of
-- every type and layout, beside sums of products in float64.

local heed = require "heed"
local device = require "spec.support.device"
local files = require "spec.support.files"
local layouts = require "spec.support.layouts"

local UNIT = {float64 = 2 ^ -53, float32 = 2 ^ -24, float16 = 2 ^ -11, bfloat16 = 2 ^ -8}
local TYPES = {"float32", "float64", "bfloat16", "float16"}

local on_each_level = layouts.on_each_level

local function numbers(shape, seed, dtype)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return heed.tensor(layouts.numbers(n, -1, 1, seed)):reshape(shape):to(dtype or "float32")
end

-- The same matrix in other places: column by column, with gaps, from an odd offset.
local LAYOUTS = {
  plain = function(x) return x end,
  transposed = function(x) return x.mT:contiguous().mT end,
  spaced = function(x) return heed.stack({x, x}, -1):select(-1, 1) end,
  shifted = function(x)
    local rows, columns = x:size(-2), x:size(-1)
    local wide = heed.zeros(rows + 1, columns + 3, {dtype = x.dtype})
    local y = wide:narrow(1, 2, rows):narrow(2, 3, columns)
    y:copy_(x)
    return y
  end,
}

-- a b in float64, by elementwise products and sums, and the sums of absolute values.
local function reference(a, b)
  local x, y = a:to("float64"):unsqueeze(-1), b:to("float64"):unsqueeze(-3)
  local products = x * y
  return products:sum(-2), products:abs():sum(-2)
end

-- Sums are in float32 or better, and rounded once.
local function check(y, wanted, size, depth, name)
  local dtype = y.dtype
  local unit = dtype == "float64" and UNIT.float64 or UNIT.float32
  local bound = size * (unit * (4 + 2 * math.sqrt(depth))) + wanted:abs() * (UNIT[dtype] * 1.01)
                + (dtype == "float16" and 2 ^ -24 or 0)
  assert.is_true((y:to("float64") - wanted):abs():le(bound):all(), name)
end

-- M, K, N at the borders of tiles, lines, blocks of depth and of columns.
local SIZES = {
  {1, 1, 1}, {1, 40, 33}, {2, 17, 65}, {3, 257, 16}, {4, 8, 70}, {5, 300, 19}, {7, 9, 200},
  {8, 513, 17}, {9, 64, 31}, {12, 256, 33}, {13, 31, 128}, {25, 270, 48}, {26, 5, 50},
  {50, 40, 5}, {50, 131, 4}, {26, 290, 5}, {29, 390, 12}, {64, 64, 64}, {40, 20, 530},
  {33, 260, 70}, {33, 560, 70}, {25, 530, 48}, {6, 1100, 19}, {70, 1, 9}, {200, 12, 2},
  {60, 31, 3}, {90, 31, 1},
}


describe("a product on the CPU", function()
  setup(device.cpu)
  teardown(device.back)

  it("is the sum of products in every type, layout and level", function()
    for number, size in ipairs(SIZES) do
      local m, k, n = table.unpack(size)
      for _, dtype in ipairs(TYPES) do
        local a, b = numbers({m, k}, number, dtype), numbers({k, n}, number + 50, dtype)
        local bias = numbers({n}, number + 90, dtype)
        local wanted, sums = reference(a, b)
        local with_bias, sizes = wanted + bias:to("float64"), sums + bias:to("float64"):abs()
        on_each_level(function(level)
          for one, lay in pairs(LAYOUTS) do
            for other, lay_other in pairs(LAYOUTS) do
              local x, y = lay(a), lay_other(b)
              local name = ("%s %dx%dx%d %s, %s by %s"):format(level, m, k, n, dtype, one, other)
              check(x:matmul(y), wanted, sums, k, name)
              check(x:linear(y.mT, bias), with_bias, sizes, k, name .. ", bias")
            end
          end
        end)
      end
    end
  end)

  it("of 16-bit floats is that of float32, rounded once", function()
    for _, size in ipairs {{1, 700, 90}, {3, 20, 600}, {8, 300, 100}, {30, 280, 1100},
                           {30, 560, 600}} do
      local m, k, n = table.unpack(size)
      for _, dtype in ipairs {"bfloat16", "float16"} do
        local a, b = numbers({m, k}, 1, dtype), numbers({k, n}, 2, dtype)
        on_each_level(function(level)
          local exact = a:to("float32"):matmul(b:to("float32"))
          assert.is_true(exact:to(dtype):equal(a:matmul(b)), level .. " " .. dtype .. " " .. m)
        end)
      end
    end
  end)

  it("of bfloat16 rows with rows is right at any size and end of a row", function()
    for _, size in ipairs {{16, 2, 1}, {17, 34, 33}, {40, 66, 100}, {300, 31, 65},
                           {24, 2100, 31}} do
      local m, k, n = table.unpack(size)
      local x, w = numbers({m, k}, 3, "bfloat16"), numbers({n, k}, 4, "bfloat16")
      local bias, name = numbers({n}, 5, "bfloat16"), ("%dx%dx%d"):format(m, k, n)
      local wanted, sums = reference(x, w.mT)
      local more = bias:to("float64")
      on_each_level(function(level)
        for word, lay in pairs(LAYOUTS) do
          local y = lay(x):linear(lay(w), bias)
          check(y, wanted + more, sums + more:abs(), k, ("%s %s %s"):format(level, name, word))
        end
        assert.is_true(x:linear(w):narrow(1, 3, 9):equal(x:narrow(1, 2, m - 1):linear(w)
                       :narrow(1, 2, 9)), level .. " " .. name .. ": other rows beside it")
      end)
    end
  end)

  it("of bfloat16 keeps subnormal factors, and what is not finite", function()
    for place = 1, 2 do
      local x = heed.zeros(20, 40, {dtype = "bfloat16"})
      local w = heed.zeros(50, 40, {dtype = "bfloat16"})
      local small, large = place == 1 and x or w, place == 1 and w or x
      small:fill_(2.0 ^ -130)
      large:fill_(2.0 ^ 120)
      on_each_level(function(level)
        assert.equal(40 * 2.0 ^ -10, x:linear(w):float():max():item(), level)
        assert.equal(40 * 2.0 ^ -10, x:linear(w):float():min():item(), level)
      end)
    end
    local x, w = heed.ones(20, 40, {dtype = "bfloat16"}), heed.ones(50, 40, {dtype = "bfloat16"})
    x:narrow(1, 2, 1):narrow(2, 3, 1):fill_(math.huge)
    w:narrow(1, 5, 1):narrow(2, 3, 1):fill_(0)
    on_each_level(function(level)
      local y = x:linear(w):float()
      assert.is_true(y:isnan():sum():item() == 1 and y:isinf():sum():item() == 49, level)
    end)
  end)

  it("with wide and deep blocks is right at every column", function()
    local a, b = numbers({40, 530}, 1), numbers({530, 1100}, 2)
    local wanted = a:to("float64"):matmul(b:to("float64"))
    local size = a:to("float64"):abs():matmul(b:to("float64"):abs())
    on_each_level(function(level)
      check(a:matmul(b), wanted, size, 530, level)
      check(a:matmul(LAYOUTS.transposed(b)), wanted, size, 530, level .. ", transposed")
      check(a:t():contiguous():t():matmul(b), wanted, size, 530, level .. ", a transposed")
    end)
  end)

  it("has the same bits for any number of threads", function()
    local threads = heed.threads()
    local function on(n, f)
      heed.threads(n)
      local y = f()
      heed.threads(threads)
      return y
    end
    for _, dtype in ipairs(TYPES) do
      for _, size in ipairs {{1, 900, 2100}, {5, 900, 2100}, {70, 300, 1100}, {500, 900, 3},
                             {2, 9000, 130}} do
        local m, k, n = table.unpack(size)
        local a, b = numbers({m, k}, 1, dtype), numbers({k, n}, 2, dtype)
        local bias, turned = numbers({n}, 3, dtype), b:t():contiguous():t()
        local x, y64 = a:to("float64"), b:to("float64")
        local wanted = x:linear(y64.mT, bias:to("float64"))
        local sizes = x:abs():linear(y64:abs().mT, bias:to("float64"):abs())
        on_each_level(function(level)
          for _, y in ipairs {b, turned} do
            local name = ("%s %s, %d rows"):format(level, dtype, m)
            local one = on(1, function() return a:linear(y.mT, bias) end)
            local more = on(3, function() return a:linear(y.mT, bias) end)
            assert.is_true(one:equal(more), name)
            check(one, wanted, sizes, k, name)
          end
        end)
      end
    end
  end)

  it("gives NaN where zero meets infinity, and there alone", function()
    for _, dtype in ipairs(TYPES) do
      for _, rows in ipairs {1, 6, 40} do
        local a, b = heed.zeros(rows, 70, {dtype = dtype}), heed.ones(70, 37, {dtype = dtype})
        b[{70, 33}] = math.huge
        on_each_level(function(level)
          for where, lay in pairs(LAYOUTS) do
            local bad = a:matmul(lay(b)):isnan()
            local name = ("%s %s %d rows, %s"):format(level, dtype, rows, where)
            assert.equal(rows, bad:sum():item(), name)
            assert.is_true(bad:select(2, 33):all(), name)
          end
        end)
      end
    end
  end)

  it("of no depth is zero, or the bias", function()
    for _, dtype in ipairs(TYPES) do
      local x, w = heed.zeros(3, 0, {dtype = dtype}), heed.zeros(4, 0, {dtype = dtype})
      local bias = numbers({4}, 1, dtype)
      on_each_level(function(level)
        assert.is_true(x:matmul(w:t()):equal(heed.zeros(3, 4, {dtype = dtype})), level)
        assert.is_true(x:linear(w, bias):equal(bias:expand(3, 4)), level)
      end)
    end
  end)
end)


describe("a batch of products on the CPU", function()
  setup(device.cpu)
  teardown(device.back)

  -- Two ways of summing may differ by rounding; whole numbers have none.
  local function whole(shape, seed, dtype) return (numbers(shape, seed) * 4):round():to(dtype) end

  it("is each of them, whatever is broadcast, and however it lies", function()
    for _, size in ipairs {{1, 5, 10}, {1, 10, 50}, {10, 5, 10}, {10, 1, 50}, {5, 10, 10},
                           {3, 300, 7}, {2, 30, 1}, {1, 40, 600}} do
      local m, k, n = table.unpack(size)
      for _, dtype in ipairs(TYPES) do
        local a, b = whole({6, m, k}, 1, dtype), whole({6, k, n}, 2, dtype)
        on_each_level(function(level)
          for one, lay in pairs {plain = LAYOUTS.plain, transposed = LAYOUTS.transposed} do
            local name = ("%s %dx%dx%d %s %s"):format(level, m, k, n, dtype, one)
            local all = lay(a):bmm(lay(b))
            local left, right = lay(a[1]):matmul(lay(b)), lay(a):matmul(lay(b[1]))
            for i = 1, 6 do
              local wanted = reference(a[i], b[i])
              assert.is_true(all[i]:to("float64"):equal(wanted), name)
              assert.is_true(left[i]:to("float64"):equal((reference(a[1], b[i]))), name)
              assert.is_true(right[i]:to("float64"):equal((reference(a[i], b[1]))), name)
            end
          end
        end)
      end
    end
  end)

  -- One row and a matrix of more than 1 MiB are multiplied in a way of their own.
  it("of one row and a large matrix is that row's of more rows", function()
    for _, dtype in ipairs(TYPES) do
      for i, depth in ipairs{15, 64, 100, 576, 1031, 4096, 4200} do
        local columns = ((1 << 20) // (8 * depth) + 2) * 4 + i % 4
        local x = numbers({3, depth}, 3, dtype)
        local wide = numbers({columns, depth + 5}, 4, dtype)
        local bias = numbers({columns}, 5, dtype)
        for name, w in pairs{line = wide:narrow(2, 1, depth):contiguous(),
                             gaps = wide:narrow(2, 3, depth)} do
          on_each_level(function(level)
            local what = ("%s %s %dx%d %s"):format(level, name, columns, depth, dtype)
            local all = heed.linear(x, w, bias)
            for k = 1, 3, 2 do
              assert.is_true(heed.linear(x[{{k, k}}], w, bias):equal(all[{{k, k}}]), what)
            end
            assert.is_true(x[2]:matmul(w.mT):equal(x:matmul(w.mT)[2]), what)
          end)
        end
      end
    end
  end)

  -- Groups of 32 elements of each row as integers from -127 to 127, times what these count in.
  local function rounded(x)
    local groups = x:reshape(x:size(1), -1, 32)
    local most = groups:abs():amax(-1, true)
    local v = groups * (127 / most)
    return ((v:abs() + 0.5):floor() * v:sign() * (most / 127)):reshape(x.shape)
  end

  it("of rounded rows with blocks is exact but for its sums, on every level", function()
    local function check_blocks(w, what)
      for _, m in ipairs{1, 2, 4, 5, 9} do
        local x, bias = numbers({m, w:size(2)}, 11), numbers({w:size(1)}, 12)
        local wanted, size = reference(rounded(x), w:to("float32").mT)
        on_each_level(function(level)
          heed.matmul_precision "high"
          local y = heed.linear(x, w, bias)
          heed.matmul_precision "highest"
          check(y, wanted + bias:to("float64"), size + bias:abs():to("float64"), w:size(2),
                ("%s %s, %d rows"):format(level, what, m))
        end)
      end
    end
    for name in ("q2_k q3_k"):gmatch("%S+") do
      check_blocks(assert(heed.load("spec/golden/gguf/" .. name .. ".gguf"))["t.3x256"], name)
    end
    for name in ("q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k"):gmatch("%S+") do
      for _, n in ipairs(name:find "k" and {256, 768} or {32, 128, 160, 256, 448, 736, 768}) do
        check_blocks(heed.quantize(numbers({5, n}, n), name), ("%s of %d"):format(name, n))
      end
    end
  end)

  it("of rounded rows is infinite where a block's scale is, the last one's alone too", function()
    local name <const> = os.tmpname()
    local path <const> = name .. ".gguf"
    for _, n in ipairs{32, 160, 288, 448} do
      assert(heed.save(path, {w = heed.quantize(heed.ones(1, n), "q8_0")}))
      local text <const> = files.read(path)
      local ones <const> = ("\127"):rep(32)
      local _, last = text:find("^.*" .. ones)
      files.write(path, text:sub(1, last - 34) .. "\0\x7c" .. ones .. text:sub(last + 1))
      local w = assert(heed.load(path)).w
      on_each_level(function(level)
        heed.matmul_precision "high"
        local y = heed.linear(heed.ones(5, n), w)
        heed.matmul_precision "highest"
        assert.same({math.huge, math.huge}, {y:min():item(), y:max():item()}, level .. " " .. n)
      end)
    end
    os.remove(path)
    os.remove(name)
  end)

  it("adds up the largest quants of blocks, rounded or not", function()
    local row, signs = {}, {}
    for i = 1, 768 do
      row[i] = i % 16 == 1 and -1 or 31 / 32     -- of which one type has quants from -32 to 31
      signs[i] = i % 64 < 3 and -1 or 1
    end
    on_each_level(function(level)
      for name in ("q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k"):gmatch("%S+") do
        for _, sign in ipairs{1, -1} do
          local w = heed.quantize(heed.tensor({row, row, row, row, row}) * sign, name)
          local wide = w:to("float32")
          for _, x in ipairs{heed.ones(1, 768), heed.tensor({signs}, {dtype = "float32"})} do
            local wanted = heed.linear(x, wide)
            for _, precision in ipairs{"highest", "high"} do
              heed.matmul_precision(precision)
              local y = heed.linear(x, w)
              heed.matmul_precision "highest"
              assert.is_true(((y - wanted):abs() / wanted:abs()):max():item() < 1e-5,
                             ("%s %s %s %d"):format(level, name, precision, sign))
            end
          end
        end
      end
    end)
  end)
end)


describe("the precision of products on GPUs", function()
  it("is one of three names", function()
    assert.equal("highest", heed.matmul_precision())
    for _, name in ipairs{"high", "medium", "highest"} do
      assert.equal(name, heed.matmul_precision(name))
      assert.equal(name, heed.matmul_precision())
    end
    local long = ("x"):rep(50)
    for said, f in pairs{
      ["'highest', 'high' or 'medium' expected, got 'low'"] =
        function() heed.matmul_precision("low") end,
      ["expected, got '" .. long:sub(1, 40) .. "'"] = function() heed.matmul_precision(long) end,
      ["argument 'precision': a name expected, got 1"] = function() heed.matmul_precision(1) end,
      ["at most 1 argument expected, got 2"] = function() heed.matmul_precision("high", 1) end,
    } do
      assert.error_matches(f, said, 1, true)
    end
    assert.equal("highest", heed.matmul_precision(nil))
  end)
end)
