-- Every elementwise row, on every type, layout and level, against plain Lua in doubles.

local heed = require "heed"
local layouts = require "spec.support.layouts"
local reference = require "spec.support.reference"
local rows = require "spec.support.rows"

local abs, floor, huge = math.abs, math.floor, math.huge
local unary, binary, tests = reference.unary, reference.binary, reference.tests
local close, compare = reference.close, reference.compare
local floats, tolerance = reference.floats, reference.tolerance

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function integers(list)
  local t = {}
  for i, v in ipairs(list) do t[i] = floor(v * 3) end
  return t
end


describe("an operation in place", function()
  it("refuses results of another shape alike with a graph and without", function()
    local p = heed.ones(2, {requires_grad = true})
    for _, name in ipairs{"add_", "mul_", "maximum_"} do
      local messages = {}
      for i, x in ipairs{heed.ones(2), p * 1} do
        local good, why = pcall(x[name], x, heed.ones(3, 2))
        assert.is_false(good)
        messages[i] = why
        assert.is_true(x:eq(1):all())
      end
      assert.matches(name .. ": ", messages[1], 1, true)
      assert.equal(messages[1], messages[2])
    end
  end)
end)


describe("elementwise operations of one", function()
  for _, name in ipairs(sorted(unary)) do
    local row = unary[name]
    local list = layouts.numbers(24, row[2], row[3], #name)

    it(name .. " is right on every float type, layout and level", function()
      layouts.on_each_level(function(level)
        for _, dtype in ipairs(floats) do
          local stored, wanted = reference.stored(list, dtype), {}
          for i, v in ipairs(stored) do wanted[i] = row[1](v) end
          for _, layout in ipairs(layouts.names) do
            local y = heed[name](layouts[layout](list, dtype))
            assert.equal(dtype, y.dtype)
            compare(table.concat({name, level, dtype, layout}, " "), y, wanted, tolerance[dtype])
          end
        end
      end)
    end)

    it(name .. " takes no elements, one element, and integers", function()
      assert.same({2, 0}, {heed[name](heed.zeros(2, 0)):size()})
      local one = list[1]
      close(name, heed[name](heed.tensor(one, {dtype = "float64"})):item(), row[1](one), 1e-12)
      local numbers = integers(list)
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
          local x, y, wanted = reference.stored(a, dtype), reference.stored(b, dtype), {}
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
            local viewed = view(s)
            return heed[name](viewed, t:narrow(1, 1, 1)) +
                   heed[name](t:narrow(1, 2, 1), viewed)
          end
          local good, why = heed.gradcheck(f, {x, y}, {rtol = 1e-5, atol = 1e-6})
          assert.is_true(good, table.concat({name, level, layout, tostring(why)}, " "))
        end
      end)
    end)
  end

  it("divides integers towards minus infinity, and refuses zero", function()
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

  it("raises integers to negative powers that stand in a tensor, as PyTorch does", function()
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

  it("raises to numbers, of which some are other rows", function()
    for _, dtype in ipairs(floats) do
      local list = reference.stored({0.5, 1.5, 3}, dtype)
      local x = heed.tensor(list, {dtype = dtype})
      for _, power in ipairs{-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3} do
        local wanted = {}
        for i, v in ipairs(list) do wanted[i] = v ^ power end
        compare(("power %g, %s"):format(power, dtype), x ^ power, wanted, tolerance[dtype])
      end
    end
  end)
end)


describe("comparisons", function()
  local a, b = integers(layouts.numbers(24, -1, 1, 3)), integers(layouts.numbers(24, -1, 1, 4))
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

  it("recognise NaN and infinities", function()
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

  it("give a NaN that was clamped no gradient, as PyTorch", function()
    local x = heed.tensor({0 / 0, 0.5}, {requires_grad = true})
    x:clamp(-1, 1):sum():backward()
    assert.same({0.0, 1.0}, x.grad:totable())
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


-- The bits of all elements, so that -0 is not 0; NaN is NaN, with any sign.
local function bits(t)
  local list = t:reshape(-1):totable()
  for i = 1, #list do
    local number = math.type(list[i]) and list[i] == list[i]
    list[i] = number and string.pack("n", list[i]) or tostring(list[i]):gsub("^-nan", "nan")
  end
  return table.concat(list)
end

describe("the short way of small dense operands", function()
  local special = {0.0, -0.0, 1, -1, huge, -huge, 0 / 0, 1e-310, 1e-40, 3e38, -2.5, 0.5}

  local function filled(n, dtype, seed)
    local list = {}
    for i = 1, n do
      local k = (i * 5 + seed * 7) % (2 * #special) + 1
      list[i] = special[k] or (i * seed % 17 - 8) / 4
      if dtype == "int64" then list[i] = i * seed % 9 - 4 end
    end
    return heed.tensor(list, {dtype = dtype})
  end

  -- The same values, which take the general way: every other element.
  local function apart(t) return heed.stack({t, t}, t:dim() + 1):select(t:dim() + 1, 1) end

  local function same(what, f, ...)
    local wide = table.pack(...)
    for i = 1, wide.n do wide[i] = apart(wide[i]) end
    local short_good, short = pcall(f, ...)
    local long_good, long = pcall(f, table.unpack(wide, 1, wide.n))
    assert.equal(long_good, short_good, what)
    if not long_good then return assert.equal(long:match(": (.*)"), short:match(": (.*)"), what) end
    assert.equal(long.dtype, short.dtype, what)
    assert.is_true(bits(long) == bits(short), what)
  end

  for _, row in ipairs(rows.list) do
    if row.elementwise and row.domain ~= "PICK" then
      it("of " .. row.name .. " gives the bits of the general way", function()
        layouts.on_each_level(function(level)
          for _, dtype in ipairs{"float32", "float64", "int64"} do
            for _, n in ipairs{1, 7, 513, 1000} do
              local what = table.concat({row.name, level, dtype, n}, " ")
              local a, b, c = filled(n, dtype, 3), filled(n, dtype, 5), filled(n, dtype, 11)
              local f, operands = heed[row.name], {a, b, c}
              same(what, f, table.unpack(operands, 1, row.inputs))
              if row.inputs > 1 and n < 1000 then
                for _, number in ipairs{2, -0.5, true} do
                  local beside = what .. " and " .. tostring(number)
                  same(beside, function(x, y) return f(x, number, y) end,
                       table.unpack({a, c}, 1, row.inputs - 1))
                  same(beside .. ", swapped", function(x, y) return f(number, x, y) end,
                       table.unpack({a, c}, 1, row.inputs - 1))
                end
              end
            end
          end
        end)
      end)
    end
  end

  it("repeats what is broadcast along the first axes", function()
    local shapes = {{{3, 4}, {4}}, {{4}, {3, 4}}, {{2, 3, 4}, {3, 4}}, {{2, 3, 4}, {1, 1, 4}},
                    {{1, 4}, {3, 4}}, {{3, 4}, {}}, {{}, {}}, {{}, {5}}, {{4}, {1, 4}},
                    {{1, 4}, {4}}, {{3, 1}, {1, 4}}, {{3, 1}, {3, 4}}, {{2, 1, 4}, {3, 1}},
                    {{2, 3, 1}, {3, 1}}, {{128, 4}, {4}}, {{129, 4}, {4}}, {{2, 300}, {300}},
                    {{2, 0}, {}}, {{0}, {3, 0}}}
    layouts.on_each_level(function(level)
      for _, dtype in ipairs{"float32", "float64", "int64"} do
        for _, pair in ipairs(shapes) do
          local a, b = heed.zeros(pair[1]):numel(), heed.zeros(pair[2]):numel()
          local x = filled(a, dtype, 3):reshape(pair[1])
          local y = filled(b, dtype, 5):reshape(pair[2])
          local what = table.concat({level, dtype, tostring(x.shape), tostring(y.shape)}, " ")
          for _, name in ipairs{"sub", "lt", "logical_and"} do
            same(name .. what, heed[name], x, y)
            assert.equal(heed[name](apart(x), apart(y)).shape, heed[name](x, y).shape)
          end
          same("in place " .. what, function(s, t) return s:clone():sub_(t) end, x, y)
        end
      end
    end)
  end)

  it("ends where a thread's share does", function()
    for _, n in ipairs{1023, 1024, 1025, 8191, 8192, 8193, 20000} do
      local x, y = filled(n, "float32", 3), filled(n, "float32", 5)
      same("mul " .. n, heed.mul, x, y)
      same("maximum " .. n, heed.maximum, x, y)
    end
  end)

  it("writes in place what the general way writes", function()
    for _, dtype in ipairs{"float32", "float64", "int64"} do
      for _, name in ipairs{"add_", "mul_", "maximum_", "neg_"} do
        local x, y = filled(24, dtype, 3), filled(24, dtype, 5)
        local wide = apart(x)
        if name == "neg_" then x:neg_() wide:neg_() else x[name](x, y) wide[name](wide, y) end
        assert.is_true(bits(wide) == bits(x), name .. dtype)
        local own = filled(24, dtype, 3)
        local part, shifted = own[{{1, 12}}], own[{{2, 13}}]       -- overlaps what it writes
        local wanted = part + shifted
        part:add_(shifted)
        assert.is_true(bits(wanted) == bits(part), dtype)
      end
    end
  end)

  it("serves views at odd offsets, and leaves what lies around them", function()
    for _, dtype in ipairs{"float32", "float64", "int64"} do
      for from = 1, 9 do
        local x, y = filled(40, dtype, 3), filled(40, dtype, 5)
        local a, b = x[{{from, from + 20}}], y[{{12 - from, 32 - from}}]
        same(dtype .. from, heed.sub, a, b)
        local around = x:clone()
        a:mul_(b)
        assert.is_true(bits(around[{{1, from}}]:narrow(1, 1, from - 1)) ==
                       bits(x[{{1, from}}]:narrow(1, 1, from - 1)))
        assert.is_true(bits(around[{{from + 21, 40}}]) == bits(x[{{from + 21, 40}}]))
      end
    end
  end)
end)


-- Differences of sinc do not show its derivative's last digits near 0, where both terms cancel.
describe("the derivative of sinc", function()
  local function derivative(a)             -- by the series of sinc, which has all digits there
    local total, term = 0, 1
    for k = 1, 20 do
      term = -term * (math.pi * a) ^ 2 / (2 * k * (2 * k + 1))
      total = total + 2 * k * term / a
    end
    return total
  end

  it("has all digits where it changes from its series to its formula, and around", function()
    local list, wanted = {1e-9, 1e-3, 0.05, 0.1, 0.14999, 0.15001, 0.2, 0.5, 0.9}, {}
    for i = 1, #list do list[#list + 1] = -list[i] end
    for i, a in ipairs(list) do wanted[i] = derivative(a) end
    local x = heed.tensor(list, {dtype = "float64", requires_grad = true})
    x:sinc():sum():backward()
    compare("sinc", x.grad, wanted, 2e-14)
  end)
end)
