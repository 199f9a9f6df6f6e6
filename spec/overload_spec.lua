-- Calls whose meaning PyTorch chooses by the type of an argument: PyTorch's values, and gradients.

local heed = require "heed"

local x = heed.tensor{1.0, -2.5, 3.5}
local kept = heed.tensor{true, false, true}


describe("where", function()
  it("as a method begins with what is kept, as a function with the condition", function()
    assert.same({1, 0, 3.5}, x:where(kept, 0):totable())
    assert.same({1, 9, 3.5}, x:where(kept, {other = 9}):totable())
    assert.same({1, 8, 3.5}, x:where{condition = kept, other = heed.tensor{7, 8, 9}}:totable())
    assert.same({1, 0, 3.5}, heed.where(kept, x, 0):totable())
    local bytes = heed.tensor({5, 0, 7}, {dtype = "uint8"})
    assert.same({5, 2, 7}, bytes:where(kept, 2):totable())
    assert.same({true, true, true}, kept:where(kept, kept:logical_not()):totable())
  end)

  it("refuses what it does as a function", function()
    assert.error_matches(function() x:where(x, 0) end, "where: argument 'condition'.*bool")
    assert.error_matches(function() x:where(kept) end, "where: argument 'other' is missing")
    assert.error_matches(function() x:where(kept, heed.ones(4)) end, "where: shapes.*%(4%)")
  end)

  it("has the gradients that differences show", function()
    local function f(a, b) return a:where(kept, b) end
    assert.is_true(heed.gradcheck(f, {x, heed.tensor{2.0, 3.0, 4.0}}))
  end)
end)


describe("max and min", function()
  it("of two tensors are maximum and minimum", function()
    assert.same({1, 0, 3.5}, x:max(heed.zeros(3)):totable())
    assert.same({0, -2.5, 0}, heed.min(x, heed.tensor(0)):totable())
    assert.same({{2, 2, 3.5}, {4, 4, 4}}, x:max(heed.tensor{{2}, {4}}):totable())
    assert.same({0, -2.5, 0}, x:min{other = heed.zeros(3)}:totable())
    assert.error_matches(function() x:max(heed.ones(4)) end, "max: shapes.*%(4%)")
  end)

  it("else reduce", function()
    local values, positions = x:max(1)
    assert.equal(3.5, values:item())
    assert.equal(3, positions:item())
    assert.equal(-2.5, x:min():item())
    assert.same({-2.5}, (x:min{dim = 1, keepdim = true}):totable())
    assert.error_matches(function() x:max(9) end, "max.*9")
  end)

  it("have the gradients that differences show", function()
    assert.is_true(heed.gradcheck(function(a, b) return a:max(b), a:min(b) end,
                                  {x, heed.tensor{2.0, 3.0, -4.0}}))
  end)
end)


describe("div with a rounding mode", function()
  local a, b = heed.tensor{7, -7, 7, -7}, heed.tensor{2, 2, -2, -2}
  local wanted = {floor = {3, -4, -4, 3}, trunc = {3, -3, -3, 3}}

  for mode, list in pairs(wanted) do
    it("rounds by " .. mode .. ", whole numbers to whole ones", function()
      local o = {rounding_mode = mode}
      for _, dtype in ipairs{"int64", "float32", "float64", "float16"} do
        local y = a:to(dtype):clone()
        assert.same(list, y:div(b, o):totable())
        assert.equal(dtype, y:div(b, o).dtype)
        assert.equal(y, y:div_(b, o))
        assert.same(list, y:totable())
      end
      assert.equal("float32", a:div(2.0, o).dtype)
      assert.same({list[1], list[2]}, heed.div(a[{{1, 2}}], {other = 2, rounding_mode = mode})
                  :totable())
    end)
  end

  it("keeps the digits of large whole numbers", function()
    local big = heed.tensor{math.maxinteger, math.mininteger}
    assert.same({math.maxinteger // 3, -(math.maxinteger // 3)},
                big:div(3, {rounding_mode = "trunc"}):totable())
    local m = heed.tensor{{7, 2}, {-9, 5}}
    assert.same({{1, 0}, {-4, 1}}, m:div_(m:t(), {rounding_mode = "trunc"}):totable())
  end)

  it("passes no gradient, and refuses what it does not know", function()
    local leaf = heed.tensor({7.5}, {requires_grad = true})
    leaf:div(2, {rounding_mode = "floor"}):add(leaf:div(2, {rounding_mode = "trunc"})):backward()
    assert.same({0}, leaf.grad:totable())
    assert.error_matches(function() a:div(b, {rounding_mode = "up"}) end, "div: .*floor, trunc")
    assert.error_matches(function() a:div(0, {rounding_mode = "trunc"}) end, "div: .* by zero")
    assert.error_matches(function() a:div(b, {rounding_mode = "floor", f = 1}) end, "'f'")
    assert.error_matches(function() a:div(b, {rounding = "floor"}) end, "rounding")
    assert.error_matches(function() a:div_(b) end, "div_: .*int64")
  end)
end)


describe("round with decimals", function()
  it("rounds before or behind the point", function()
    local y = heed.tensor({1.25, -0.126, 1250.0}, {dtype = "float64"})
    assert.same({1.2, -0.1, 1250.0}, y:round{decimals = 1}:totable())
    assert.same({0.0, -0.0, 1200.0}, y:round{decimals = -2}:totable())
    assert.same({1, 0, 1250}, y:round{decimals = 0}:totable())
    assert.equal(y, y:round_{decimals = 1})
    assert.same({1.2, -0.1, 1250.0}, y:totable())
  end)

  it("is for floats, and a whole number", function()
    assert.error_matches(function() heed.tensor{1}:round{decimals = 1} end, "round: .*float.*int64")
    assert.error_matches(function() x:round{decimals = 0.5} end, "round: .*decimals.*0.5")
    assert.error_matches(function() x:round_{decimals = "1"} end, "round_: .*decimals")
  end)
end)


describe("short ways of reductions", function()
  it("are PyTorch's", function()
    assert.equal(x:norm():item(), x:norm("fro"):item())
    assert.same({x:norm():item()}, x:norm{p = "fro", keepdim = true}:totable())
    assert.error_matches(function() x:norm("nuc") end, "norm: argument 'p'")
    assert.equal(x:var{unbiased = false}:item(), x:var(false):item())
    assert.equal(x:std():item(), x:std(true):item())
    assert.equal(x:std(1, false):item(), heed.std(x, false):item())
  end)
end)


describe("repeat_interleave with a tensor", function()
  it("has a number for each element", function()
    local m = heed.tensor{{1, 2}, {3, 4}}
    local counts = heed.tensor{0, 2}
    assert.same({{3, 4}, {3, 4}}, m:repeat_interleave(counts, 1):totable())
    assert.same({{2, 2}, {4, 4}}, m:repeat_interleave(counts, {dim = -1}):totable())
    assert.same({1, 2, 2, 4}, m:repeat_interleave(heed.tensor{1, 2, 0, 1}):totable())
    assert.same({1, 1, 2, 2, 3, 3, 4, 4}, m:repeat_interleave(heed.tensor(2)):totable())
    assert.same({1, 1, 2, 2, 3, 3, 4, 4}, m:repeat_interleave(2):totable())
    assert.same({{3, 4}, {3, 4}}, m:repeat_interleave{repeats = counts, dim = 1}:totable())
    assert.same({{1, 2}, {1, 2}, {3, 4}, {3, 4}}, m:repeat_interleave{repeats = 2, dim = 1}
                :totable())
    assert.same({0, 2}, {m:repeat_interleave(heed.tensor{0, 0}, 1):size()})
    assert.same({0}, {heed.zeros(0):repeat_interleave(heed.tensor{3}):size()})
  end)

  it("has the gradients that differences show", function()
    local function f(a) return a:repeat_interleave(heed.tensor{2, 0, 3}) end
    assert.is_true(heed.gradcheck(f, x))
  end)

  it("refuses other counts", function()
    local function refused(pattern, ...)
      local args = table.pack(...)
      assert.error_matches(function()
        x:repeat_interleave(table.unpack(args, 1, args.n))
      end, "repeat_interleave: " .. pattern)
    end
    refused(".*3 counts expected.*got 2", heed.tensor{1, 2})
    refused(".*times expected, got %-1", heed.tensor{1, -1, 0})
    refused(".*int64.*float32", heed.tensor{1, 1.5, 0})
    refused(".*dimension 3", heed.tensor{1, 1, 0}, 3)
    for _, b in ipairs{1 << 62, 1 << 61, (1 << 63) - 1} do
      refused(".*'repeats': %d+ times in all are too many elements", heed.tensor{b, b, b})
    end
    refused(".*'dims'", heed.tensor{1, 1, 0}, {dims = 1})
  end)
end)
