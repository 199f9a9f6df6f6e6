-- Every elementwise row, on every type, layout and level, against plain Lua in doubles.

local heed = require "heed"
local layouts = require "spec.support.layouts"

local exp, log, abs, floor, huge = math.exp, math.log, math.abs, math.floor, math.huge

-- Plain versions of what Lua's math lacks.
local function sign(a) return a > 0 and 1 or a < 0 and -1 or 0 end
local function tanh(a)
  local e = exp(-2 * abs(a))
  return sign(a) * (1 - e) / (1 + e)
end
local function sigmoid(a) return 1 / (1 + exp(-a)) end
local function log1p(a)
  local u = 1 + a
  return u == 1 and a or log(u) * a / (u - 1)
end
local function expm1(a)
  local u = exp(a)
  if u == 1 then return a end
  return u - 1 == -1 and -1 or (u - 1) * a / log(u)
end
local function softplus(a) return a > 0 and a + log1p(exp(-a)) or log1p(exp(a)) end
local function trunc(a) return a < 0 and -floor(-a) or floor(a) end
local function round(a)
  local low = floor(a)
  local rest = a - low
  if rest == 0.5 then return low % 2 == 0 and low or low + 1 end
  return rest < 0.5 and low or low + 1
end
local function erf(a)                -- Maclaurin's series: enough terms for |a| <= 4
  local sum, term = a, a
  for n = 1, 120 do
    term = -term * a * a / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end
local function gelu(a) return a * 0.5 * (1 + erf(a / math.sqrt(2))) end
local function remainder(a, b) return a - floor(a / b) * b end

-- name = {reference, lowest, highest[, also for whole numbers]}
local unary = {
  neg = {function(a) return -a end, -3, 3, true}, abs = {abs, -3, 3, true},
  sign = {sign, -3, 3, true}, square = {function(a) return a * a end, -3, 3, true},
  sqrt = {math.sqrt, 0.1, 9}, rsqrt = {function(a) return 1 / math.sqrt(a) end, 0.1, 9},
  reciprocal = {function(a) return 1 / a end, 0.3, 4}, exp = {exp, -4, 4},
  exp2 = {function(a) return 2 ^ a end, -4, 4}, expm1 = {expm1, -3, 3}, log = {log, 0.05, 9},
  log2 = {function(a) return log(a, 2) end, 0.05, 9}, log1p = {log1p, -0.8, 5},
  sin = {math.sin, -6, 6}, cos = {math.cos, -6, 6}, tan = {math.tan, -1.2, 1.2},
  asin = {math.asin, -0.9, 0.9}, acos = {math.acos, -0.9, 0.9}, atan = {math.atan, -4, 4},
  sinh = {function(a) return (exp(a) - exp(-a)) / 2 end, -3, 3},
  cosh = {function(a) return (exp(a) + exp(-a)) / 2 end, -3, 3}, tanh = {tanh, -4, 4},
  sigmoid = {sigmoid, -6, 6}, logsigmoid = {function(a) return -softplus(-a) end, -6, 6},
  erf = {erf, -3, 3}, relu = {function(a) return math.max(a, 0) end, -3, 3, true},
  leaky_relu = {function(a) return a > 0 and a or 0.01 * a end, -3, 3},
  elu = {function(a) return a > 0 and a or expm1(a) end, -3, 3}, gelu = {gelu, -3, 3},
  silu = {function(a) return a * sigmoid(a) end, -6, 6},
  mish = {function(a) return a * tanh(softplus(a)) end, -4, 4}, softplus = {softplus, -6, 6},
  hardtanh = {function(a) return math.max(-1, math.min(1, a)) end, -3, 3, true},
  floor = {floor, -3, 3, true}, ceil = {math.ceil, -3, 3, true}, round = {round, -3, 3, true},
  trunc = {trunc, -3, 3, true},
}

local binary = {
  add = {function(a, b) return a + b end, -3, 3, true},
  sub = {function(a, b) return a - b end, -3, 3, true},
  mul = {function(a, b) return a * b end, -3, 3, true},
  div = {function(a, b) return a / b end, 0.5, 3},
  floor_divide = {function(a, b) return floor(a / b) end, 0.5, 3},
  remainder = {remainder, 0.5, 3}, fmod = {math.fmod, 0.5, 3},
  pow = {function(a, b) return a ^ b end, 0.2, 3},
  atan2 = {math.atan, -3, 3},
  hypot = {function(a, b) return math.sqrt(a * a + b * b) end, -3, 3},
  maximum = {math.max, -3, 3, true}, minimum = {math.min, -3, 3, true},
}

local tests = {
  eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
  lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
  gt = function(a, b) return a > b end, ge = function(a, b) return a >= b end,
  logical_and = function(a, b) return a ~= 0 and b ~= 0 end,
  logical_or = function(a, b) return a ~= 0 or b ~= 0 end,
  logical_xor = function(a, b) return (a ~= 0) ~= (b ~= 0) end,
}

local tolerance = {float64 = 1e-12, float32 = 4e-6, float16 = 2e-3, bfloat16 = 1.6e-2}
local floats = {"float64", "float32", "float16", "bfloat16"}

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function close(name, got, wanted, tol)
  if got == wanted or (got ~= got and wanted ~= wanted) then return end
  local error_ = abs(got - wanted)
  assert.is_true(error_ <= tol * math.max(1, abs(wanted)),
                 ("%s: %.9g expected, got %.9g"):format(name, wanted, got))
end

local function compare(name, y, wanted, tol)
  local flat = y:reshape(-1):totable()
  assert.equal(#wanted, #flat, name)
  for i = 1, #wanted do close(name .. " element " .. i, flat[i], wanted[i], tol) end
end

-- What the type makes of the numbers, which is what the reference must see.
local function as_stored(list, dtype)
  return heed.tensor(list, {dtype = dtype}):to(dtype == "int64" and dtype or "float64"):totable()
end

local function whole(list)
  local t = {}
  for i, v in ipairs(list) do t[i] = floor(v * 3) end
  return t
end


describe("elementwise operations of one", function()
  for _, name in ipairs(sorted(unary)) do
    local row = unary[name]
    local list = layouts.numbers(24, row[2], row[3], #name)

    it(name .. " is right on every float type, layout and level", function()
      layouts.on_each_level(function(level)
        for _, dtype in ipairs(floats) do
          local stored, wanted = as_stored(list, dtype), {}
          for i, v in ipairs(stored) do wanted[i] = row[1](v) end
          for _, layout in ipairs(layouts.names) do
            local y = heed[name](layouts[layout](list, dtype))
            assert.equal(dtype, y.dtype)
            compare(table.concat({name, level, dtype, layout}, " "), y, wanted, tolerance[dtype])
          end
        end
      end)
    end)

    it(name .. " takes empty, single and whole numbers", function()
      assert.same({2, 0}, {heed[name](heed.zeros(2, 0)):size()})
      local one = list[1]
      close(name, heed[name](heed.tensor(one, {dtype = "float64"})):item(), row[1](one), 1e-12)
      local numbers = whole(list)
      if row[2] > 0 or row[2] > -1 and name ~= "log1p" then
        for i = 1, #numbers do numbers[i] = 1 end
      elseif name == "log1p" then
        for i = 1, #numbers do numbers[i] = abs(numbers[i]) end
      elseif name == "tan" or name == "erf" or name == "gelu" then
        for i = 1, #numbers do numbers[i] = 1 end
      end
      local y, wanted = heed[name](heed.tensor(numbers)), {}
      assert.equal(row[4] and "int64" or "float32", y.dtype)
      for i, v in ipairs(numbers) do wanted[i] = row[1](v) end
      compare(name, y, wanted, 4e-6)
    end)

    it(name .. " has the gradient that differences show, on every view and level", function()
      layouts.on_each_level(function(level)
        for layout, view in pairs(layouts.views) do
          local x = layouts.dense(layouts.numbers(24, row[2], row[3], #name + 7), "float64")
          local good, why = heed.gradcheck(function(t) return heed[name](view(t)) end, x,
                                           {rtol = 1e-5, atol = 1e-6})
          assert.is_true(good, table.concat({name, level, layout, tostring(why)}, " "))
        end
      end)
    end)
  end
end)


describe("elementwise operations of two", function()
  for _, name in ipairs(sorted(binary)) do
    local row = binary[name]
    local a, b = layouts.numbers(24, row[2], row[3], 3), layouts.numbers(24, row[2], row[3], 5)

    it(name .. " is right on every float type, layout and level", function()
      layouts.on_each_level(function(level)
        for _, dtype in ipairs(floats) do
          local x, y, wanted = as_stored(a, dtype), as_stored(b, dtype), {}
          for i = 1, 24 do wanted[i] = row[1](x[i], y[i]) end
          for _, left in ipairs(layouts.names) do
            for _, right in ipairs(layouts.names) do
              local z = heed[name](layouts[left](a, dtype), layouts[right](b, dtype))
              compare(table.concat({name, level, dtype, left, right}, " "), z, wanted,
                      tolerance[dtype])
            end
          end
        end
      end)
    end)

    it(name .. " broadcasts, and joins numbers on either side", function()
      local x = heed.tensor(a, {dtype = "float64"}):reshape(2, 3, 4)
      local row_, column = x[{1, {1, 1}}], x[{{}, {1, 1}, {1, 1}}]      -- (1, 4) and (2, 1, 1)
      local y = heed[name](row_, column)
      assert.equal("(2, 1, 4)", tostring(y.shape))
      for i = 1, 2 do
        for k = 1, 4 do
          close(name, y[{i, 1, k}], row[1](row_[{1, k}], column[{i, 1, 1}]), 1e-12)
        end
      end
      close(name, heed[name](2.5, x):select(1, 1)[{1, 1}], row[1](2.5, x[{1, 1, 1}]), 1e-12)
      close(name, heed[name](x, 1.5)[{2, 3, 4}], row[1](x[{2, 3, 4}], 1.5), 1e-12)
      assert.same({0, 4}, {heed[name](heed.zeros(0, 4), heed.zeros(4)):size()})
    end)

    it(name .. " has the gradients that differences show", function()
      layouts.on_each_level(function(level)
        for layout, view in pairs(layouts.views) do
          local x = layouts.dense(layouts.numbers(24, row[2], row[3], 11), "float64")
          local y = heed.tensor(layouts.numbers(4, row[2], row[3], 13), {dtype = "float64"})
          local function f(s, t)
            local seen = view(s)
            return heed[name](seen, t:narrow(1, 1, 1)) + heed[name](t:narrow(1, 2, 1), seen)
          end
          if name ~= "floor_divide" and name ~= "remainder" and name ~= "fmod" then
            local good, why = heed.gradcheck(f, {x, y}, {rtol = 1e-5, atol = 1e-6})
            assert.is_true(good, table.concat({name, level, layout, tostring(why)}, " "))
          end
        end
      end)
    end)
  end

  it("divides whole numbers towards minus infinity, and refuses zero", function()
    local a, b = heed.tensor{7, -7, 7, -7}, heed.tensor{2, 2, -2, -2}
    assert.same({3, -4, -4, 3}, (a // b):totable())
    assert.same({1, 1, -1, -1}, (a % b):totable())
    assert.same({1, -1, 1, -1}, a:fmod(b):totable())
    assert.has_error(function() return a // heed.tensor{1, 0, 1, 1} end)
    assert.has_error(function() return a % 0 end)
    local least = heed.tensor{math.mininteger}
    assert.equal(math.mininteger, (least // -1)[1])
    assert.equal(0, (least % -1)[1])
  end)

  it("raises whole numbers to negative powers that stand in a tensor, as PyTorch does", function()
    local a, b = heed.tensor{2, 1, -1, -1, 0, -3, 5}, heed.tensor{-1, -5, -3, -4, -2, -1, 2}
    layouts.on_each_level(function()
      assert.same({0, 1, -1, 1, 0, 0, 25}, a:pow(b):totable())
    end)
    assert.same({0, 1, -1, -1, 0, 0, 0}, a:pow(heed.tensor(-1)):totable())
    assert.same({0, 1, 4}, heed.pow(2, heed.tensor{-1, 0, 2}):totable())
    assert.error_matches(function() return a ^ -1 end, "pow.*negative")
    assert.error_matches(function() return heed.zeros(0, "int64") ^ -1 end, "pow.*negative")
    assert.error_matches(function() a:pow_(-2) end, "pow_.*negative")
  end)
end)


describe("comparisons", function()
  local a, b = whole(layouts.numbers(24, -1, 1, 3)), whole(layouts.numbers(24, -1, 1, 4))
  for _, name in ipairs(sorted(tests)) do
    it(name .. " gives bools on every type", function()
      layouts.on_each_level(function()
        for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16", "int64"} do
          for _, layout in ipairs(layouts.names) do
            local y = heed[name](layouts[layout](a, dtype), layouts.dense(b, dtype))
            assert.equal("bool", y.dtype)
            local flat = y:reshape(-1):totable()
            for i = 1, 24 do assert.equal(tests[name](a[i], b[i]), flat[i], name .. dtype) end
          end
        end
      end)
    end)
  end

  it("tells NaN and infinities", function()
    local x = heed.tensor{0 / 0, huge, -huge, 1.0}
    assert.same({true, false, false, false}, x:isnan():totable())
    assert.same({false, true, true, false}, x:isinf():totable())
    assert.same({false, false, false, true}, x:isfinite():totable())
    assert.same({false, true}, heed.tensor{3, 0}:logical_not():totable())
  end)
end)


describe("where, lerp and clamp", function()
  it("choose, mix and bound", function()
    local c = heed.tensor{true, false, true}
    assert.same({1, 20, 3}, heed.where(c, heed.tensor{1, 2, 3}, heed.tensor{10, 20, 30}):totable())
    assert.same({1.0, 0.0, 3.0}, heed.where(c, heed.tensor{1.0, 2.0, 3.0}, 0):totable())
    assert.same({2.5, 5.0}, heed.lerp(heed.tensor{0.0, 0.0}, heed.tensor{5.0, 10.0}, 0.5):totable())
    assert.same({-1, 0, 2}, heed.tensor{-5, 0, 5}:clamp(-1, 2):totable())
    assert.same({0, 0, 5}, heed.tensor{-5, 0, 5}:clamp{min = 0}:totable())
    assert.same({0, 0, 5}, heed.tensor{-5, 0, 5}:clip{min = 0}:totable())
    assert.same({-5, 0, 2}, heed.clip(heed.tensor{-5, 0, 5}, nil, 2):totable())
  end)

  it("work in place, and keep a type that has room", function()
    local x = heed.tensor{0.0, 10.0}
    assert.equal(x, x:lerp_(heed.tensor{1.0, 20.0}, 0.25))
    assert.same({0.25, 12.5}, x:totable())
    assert.same({0.5, 2.0}, x:clip_(0.5, 2):totable())
    assert.same({0.5, 2.5}, x:cumsum_(1):totable())
    local bytes = heed.tensor({200, 100}, {dtype = "uint8"})
    assert.same({200, 44}, bytes:clone():cumsum_(1):totable())
    assert.same({4, 4}, bytes:clone():hardtanh_(0, 4):totable())
    assert.equal("uint8", bytes:hardtanh(0, 4).dtype)
    assert.error_matches(function() heed.tensor{1}:lerp_(2, 0.5) end, "lerp_.*int64")
    assert.is_true(heed.gradcheck(function(a, b, w)
      return (a + 1):lerp_(b, w):cumsum_(1)
    end, {heed.tensor{0.5, -1}, heed.tensor{2.0, 3.0}, heed.tensor{0.25, 0.5}}))
  end)

  it("have the gradients that differences show", function()
    local x = layouts.dense(layouts.numbers(24, -3, 3, 2), "float64")
    local y = layouts.dense(layouts.numbers(24, -3, 3, 9), "float64")
    local w = layouts.dense(layouts.numbers(24, 0.1, 0.9, 4), "float64")
    local c = x:gt(0)
    assert.is_true(heed.gradcheck(function(a, b) return heed.where(c, a, b) end, {x, y}))
    assert.is_true(heed.gradcheck(heed.lerp, {x, y, w}))
    assert.is_true(heed.gradcheck(function(a) return a:clamp(-1.5, 1.5) end, x))
  end)

  it("do not leak a NaN from what was not chosen", function()
    local x = heed.tensor({1.0, 0 / 0}, {requires_grad = true})
    local y = heed.where(heed.tensor{true, false}, x, 0):sum()
    y:backward()
    assert.same({1.0, 0.0}, x.grad:totable())
  end)
end)


describe("operators", function()
  it("are the operations of their names", function()
    local a, b = heed.tensor{6.0, 8.0}, heed.tensor{4.0, 3.0}
    assert.same({10, 11}, (a + b):totable())
    assert.same({2, 5}, (a - b):totable())
    assert.same({24, 24}, (a * b):totable())
    assert.same({1.5, 8 / 3}, (a:double() / b:double()):totable())
    assert.same({1, 2}, (a // b):totable())
    assert.same({2, 2}, (a % b):totable())
    assert.same({36, 64}, (a ^ 2):totable())
    assert.same({-6, -8}, (-a):totable())
    local m, n = heed.tensor{true, true, false}, heed.tensor{true, false, false}
    assert.same({true, false, false}, (m & n):totable())
    assert.same({true, true, false}, (m | n):totable())
    assert.same({false, false, true}, (~m):totable())
  end)
end)
