-- Tensors as Lua sees them: made, read, indexed, assigned, printed.

local heed = require "heed"
local device = require "spec.support.device"
local message = require "spec.support.message"


describe("a tensor is made", function()
  it("on the device that its options named, whatever finalizers make of them", function()
    local rows, on, junk, o = {}, true, nil, nil
    for i = 1, 20000 do rows[i] = {i} end
    local function again()
      setmetatable({}, {__gc = function()
        if o then o.device = nil end
        junk = {}
        for i = 1, 50 do junk[i] = ("j"):rep(70) .. i end
        if on then again() end
      end})
    end
    for _ = 1, 5 do again() end
    collectgarbage("incremental", 50, 100, 13)
    for n = 1, 9 do
      o = {device = ("d"):rep(75) .. n}
      assert.matches("got 'dddd", message(heed.tensor, rows, o))
    end
    collectgarbage("incremental", 200, 100, 13)
    on = false
    assert.is_table(junk)
  end)

  it("from numbers, bools, tables and tensors", function()
    assert.equal("int64", heed.tensor{1, 2}.dtype)
    assert.equal("float32", heed.tensor{1, 2.5}.dtype)
    assert.equal("bool", heed.tensor{true, false}.dtype)
    assert.equal("float64", heed.tensor({1}, {dtype = "float64"}).dtype)
    assert.equal(0, heed.tensor(3):dim())
    assert.same({{1, 2}, {3, 4}}, heed.tensor{{1, 2}, {3, 4}}:totable())
    local a = heed.tensor(2.5)
    assert.same({2.5, 1.0}, heed.tensor{a, 1}:totable())
    local x = heed.tensor{1.0}
    local y = heed.tensor(x)
    y[1] = 7
    assert.equal(1.0, x[1])
    assert.same({0}, {heed.tensor{}:size()})
  end)

  it("of a type that is named alone, or with options behind it", function()
    assert.equal("float32", heed.tensor({1}, "float32").dtype)
    assert.equal("float64", heed.zeros(2, "float64").dtype)
    assert.is_true(heed.tensor({1}, "float64", {requires_grad = true}).requires_grad)
    assert.same({7}, heed.frombytes(heed.tensor{7}:data(), {1}, "int64"):totable())
    assert.error_matches(function() heed.tensor(1, "int63") end, "tensor.*int63")
    assert.error_matches(function() heed.tensor(1, 5) end, "tensor: a table of options")
  end)

  it("from lists that hold nothing else: options stand behind them", function()
    for _, f in ipairs {
      function() heed.tensor{1, 2, dtype = "float64"} end,
      function() heed.tensor{dtype = "float64"} end,
      function() heed.tensor{{1, 2}, {3, 4, dtype = "float64"}} end,
      function() heed.zeros{2, 3, dtype = "int64"} end,
      function() heed.zeros(2):reshape{2, 1, dtype = "int64"} end,
      function() heed.frombytes("", {0, dtype = "int64"}) end,
      function() heed.cat{heed.ones(1), heed.ones(1), dtype = 1} end,
      function() heed.ones(2)[1] = {1, dtype = "bool"} end,
    } do assert.error_matches(f, "%l+: a list expected.*'dtype'; options stand in a table") end
    assert.error_matches(function() heed.tensor{[1] = 1, [3] = 3} end, "%[3%] and none at %[2%]")
    assert.error_matches(function() heed.tensor{1, [2.5] = 3} end, "with 2.5 as a key")
    assert.error_matches(function() return heed.ones(2)[{1, a = 2}] end, "index: .*'a'")
    assert.error_matches(function() return heed.ones(2)[{{1, 2, step = 1}}] end, "index: .*'step'")
    assert.error_matches(function() heed.grad(heed.ones(1), {a = 2}) end, "grad: .*'a'")
  end)

  it("by ranges that count both ends", function()
    assert.same({1, 2, 3, 4, 5}, heed.arange(5):totable())
    assert.same({2, 3, 4, 5}, heed.arange(2, 5):totable())
    assert.same({5, 3, 1}, heed.arange(5, 1, -2):totable())
    assert.same({0.0, 0.5, 1.0}, heed.arange(0, 1, 0.5):totable())
    for _, step in ipairs{0.1, -0.1} do                   -- 3 * 0.1 lies beyond 0.3
      local row = heed.arange(0, step < 0 and -0.3 or 0.3, step, {dtype = "float64"})
      assert.same({4, step < 0 and -0.3 or 0.3}, {#row, row[-1]})
    end
    assert.equal(10, #heed.arange(0, 1 - 1e-9, 0.1))
    assert.same({}, heed.arange(0.0, -1.0):totable())     -- nothing is written to no elements
    for _, step in ipairs{1, -1, 0.5, -0.5} do
      assert.same({3}, heed.arange(3, 3, step):totable())
    end
    assert.same({0, 1 - 0x4p-52}, heed.arange(0.0, 1 - 0x4p-52, {dtype = "float64"}):totable())
    assert.same({0}, heed.arange(0.0, 1 - 0x5p-52, {dtype = "float64"}):totable())
    assert.same({}, heed.arange(0):totable())
    assert.same({0.0, 0.25, 0.5, 0.75, 1.0}, heed.linspace(0, 1, 5):totable())
    assert.equal(0.1 + (3 / 7 - 0.1) / 2,                  -- from the end it is another number
                 heed.linspace(0.1, 3 / 7, 3, {dtype = "float64"})[2])
    for _ = 1, 20 do
      local r = heed.randint(6, {50})
      assert.is_true(r:ge(1):all() and r:le(6):all())
    end
    local p = heed.randperm(9):sort()
    assert.same({1, 2, 3, 4, 5, 6, 7, 8, 9}, p:totable())
  end)

  it("like another, full of something, or as an identity", function()
    local x = heed.zeros(2, 3, {dtype = "float64"})
    for _, name in ipairs {"zeros", "ones", "empty", "rand", "randn"} do
      local y = heed[name .. "_like"](x)
      assert.equal("(2, 3) float64", tostring(y.shape) .. " " .. y.dtype)
    end
    assert.same({{7, 7}}, heed.full({1, 2}, 7):totable())
    assert.same({{1.0, 0.0}, {0.0, 1.0}}, heed.eye(2):totable())
    assert.same({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}, heed.eye(2, 3):totable())
    assert.same({{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}}, heed.eye(3, 2):totable())
    for _, size in ipairs{{0, 0}, {0, 3}, {3, 0}} do
      assert.same(size, heed.eye(size[1], size[2]).shape)
    end
    assert.equal(1, heed.eye(1, 9000):sum():item())     -- its diagonal is one number, no row
    assert.equal(0, heed.zeros{}:dim())
  end)

  it("from bytes, and gives them back", function()
    local types = {"float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"}
    for _, dtype in ipairs(types) do
      local x = heed.tensor({{1, 0, 1}, {0, 1, 1}}, {dtype = dtype})
      local y = heed.frombytes(x:data(), {2, 3}, {dtype = dtype})
      assert.is_true(x:equal(y), dtype)
      assert.equal(x:t():data(), x:t():contiguous():data())
    end
  end)

  it("from more bytes than are copied between two polls", function()
    local bytes = ("seven++"):rep((5 << 19) // 7)
    assert.is_true(heed.frombytes(bytes, {#bytes}, "uint8"):data() == bytes)
  end)
end)


describe("a copy from one layout to another", function()
  local layouts = {
    dense = function(m, n, dtype) return heed.zeros(m, n, dtype) end,
    apart = function(m, n, dtype) return heed.zeros(m, n + 2, dtype)[{{}, {2, n + 1}}] end,
    steps = function(m, n, dtype) return heed.zeros(m, 2 * n, dtype)[{{}, {1, -1, 2}}] end,
    backwards = function(m, n, dtype) return heed.zeros(m, n, dtype)[{{}, {-1, 1, -1}}] end,
    across = function(m, n, dtype) return heed.zeros(n, m, dtype):t() end,
    deep = function(m, n, dtype) return heed.zeros(n, 3, m, dtype)[{{}, 2}]:t() end,
  }

  local function assert_copies(m, n, from_type, to_type)
    local x = (heed.arange(m * n) % 101):view(m, n)
    for from_name, from_layout in pairs(layouts) do
      local from = from_layout(m, n, from_type):copy_(x)
      for to_name, to_layout in pairs(layouts) do
        local to = to_layout(m, n, to_type):copy_(from)
        assert.is_true(to:equal(x:to(to_type)), ("(%d, %d): %s %s to %s %s"):format(
          m, n, from_name, from_type, to_name, to_type))
      end
    end
  end

  it("has all elements, of any two types", function()
    local types = {"float32", "float64", "float16", "bfloat16", "int64", "uint8"}
    for _, from in ipairs(types) do
      for _, to in ipairs(types) do
        assert_copies(3, 5, from, to)
        assert_copies(700, 7, from, to)
        assert_copies(67, 130, from, to)
      end
    end
  end)

  it("has those of rows that are moved in parts", function()
    for _, types in ipairs{{"float32", "float32"}, {"float16", "float32"}, {"int64", "uint8"}} do
      assert_copies(2, (1 << 18) + 5, types[1], types[2])
      assert_copies((1 << 18) + 5, 2, types[1], types[2])
    end
  end)
end)


describe("a number that a type cannot hold", function()
  setup(device.cpu)
  teardown(device.back)

  it("becomes the nearest one, and 0 where it is none", function()
    local given = {1e30, 2.0 ^ 63, 9.2e18, 255.5, 255.0, 2.9, -0.9, -2.9, -2.0 ^ 63, -1e30, 0 / 0,
                   math.huge, -math.huge}
    local wanted = {
      int64 = {math.maxinteger, math.maxinteger, 9200000000000000000, 255, 255, 2, 0, -2,
               math.mininteger, math.mininteger, 0, math.maxinteger, math.mininteger},
      uint8 = {255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 255, 0},
    }
    for dtype, values in pairs(wanted) do
      local numbers = {}
      for i, value in ipairs(given) do numbers[i] = heed.tensor(value, {dtype = "float64"}) end
      assert.same(values, heed.tensor(numbers, {dtype = dtype}):totable())
      assert.same(values, heed.tensor(given, {dtype = dtype}):totable())
      for i, value in ipairs(given) do
        local x = heed.zeros(2, {dtype = dtype})
        x[1], x[2] = value, numbers[i]
        assert.same({values[i], values[i]}, x:totable())
        assert.same({values[i]}, heed.full({1}, value, {dtype = dtype}):totable())
      end
    end
  end)
end)


describe("a GPU", function()
  it("may be meant by its number as by its name", function()
    local x = heed.ones(2, {device = "cpu"})
    local function outcome(method, ...)
      local good, y = pcall(x[method], x, ...)
      return good and y.device or y
    end
    for number, name in pairs{[0] = "cuda:0", [15] = "cuda:15"} do
      assert.equal(outcome("to", name), outcome("cuda", number))
      assert.equal(outcome("to", name), outcome("cuda", name))
    end
    assert.equal(outcome("cuda", 0), outcome "cuda")
    for _, odd in ipairs{-1, 1.5, "cpu", {}} do
      assert.matches("cuda: argument 'device': a GPU's number from 0, or its name, expected, got ",
                     outcome("cuda", odd), 1, true)
    end
  end)
end)


describe("a shape", function()
  it("prints, compares and counts from both ends", function()
    local s = heed.zeros(2, 3).shape
    assert.equal("(2, 3)", tostring(s))
    assert.equal(3, s[-1])
    assert.equal(2, s[1])
    assert.is_nil(s[3])
    assert.error_matches(function() return s[0] end, "shape: dimensions count from 1, got 0")
    assert.is_true(s == heed.ones(2, 3).shape)
    assert.is_false(s == heed.ones(3, 2).shape)
    local B, T = heed.zeros(2, 3):size()
    assert.same({2, 3}, {B, T})
    assert.equal(3, heed.zeros(2, 3):size(-1))
    assert.equal(2, #heed.zeros(2, 3))
  end)

  it("joins text", function()
    assert.equal("shape (2, 3)", "shape " .. heed.zeros(2, 3).shape)
    assert.equal("(2)(3, 1)", heed.zeros(2).shape .. heed.zeros(3, 1).shape)
    assert.equal("(2)5", heed.zeros(2).shape .. 5)
  end)
end)


describe("a transposed tensor", function()
  local x = heed.arange(24, {dtype = "float32"}):reshape(2, 3, 4)

  it("has all axes in reverse as T, the last two exchanged as mT", function()
    assert.same({{1, 4}, {2, 5}, {3, 6}}, heed.tensor{{1, 2, 3}, {4, 5, 6}}.T:totable())
    assert.same({{1, 4}, {2, 5}, {3, 6}}, heed.tensor{{1, 2, 3}, {4, 5, 6}}.mT:totable())
    assert.is_true(x.T:equal(x:permute(3, 2, 1)))
    assert.is_true(x.mT:equal(x:transpose(2, 3)))
    assert.same({1, 2}, heed.tensor{1, 2}.T:totable())
    assert.equal(5, heed.tensor(5).T:item())
    assert.error_matches(function() return heed.tensor{1, 2}.mT end,
                         "mT: at least 2 dimensions expected, got a tensor of shape %(2%)")
  end)

  it("has the strides of PyTorch's views in another shape, down to one element", function()
    local y = heed.zeros(4, 6).T
    assert.same({1, 6}, y:stride())
    assert.same({3, 1, 6}, y:view(2, 3, 4):stride())
    assert.same({6}, y[{{1, 1}, {1, 1}}]:view(1):stride())
  end)

  it("is a view with a gradient", function()
    local y = heed.zeros(2, 3)
    y.T[1] = 7
    y.mT[3] = 5
    assert.same({{7, 0, 5}, {7, 0, 5}}, y:totable())
    assert.is_true(heed.gradcheck(function(t) return t.T * t.T, t.mT:exp() end, x * 0.01))
  end)
end)


describe("lookup", function()
  local words = {"red", "green", "blue"}

  it("gives the words that ids stand for, in their shape", function()
    assert.equal("green", heed.lookup(words, 2))
    assert.equal("green", heed.lookup(words, 2.0))
    assert.equal("blue", heed.lookup(words, heed.tensor{0.1, 0.2, 0.9}:argmax()))
    assert.same({"blue", "red"}, heed.lookup(words, heed.tensor{3, 1}))
    assert.same({{"red"}, {"blue"}}, heed.lookup(words, heed.tensor{{1}, {3}}))
    assert.same({{}, {}}, heed.lookup(words, heed.zeros(2, 0, "int64")))
    assert.same({"red"}, heed.lookup(words, heed.tensor({1}, "uint8")))
    assert.same({"ten", "two"}, heed.lookup({[2] = "two", [10] = "ten"}, heed.tensor{10, 2}))
  end)

  it("refuses ids without a word, and says where", function()
    assert.error_matches(function() heed.lookup(words, heed.tensor{{1, 2}, {4, 1}}) end,
                         "lookup: id 4 at position %(2, 1%) lies outside of 1 to 3")
    assert.error_matches(function() heed.lookup(words, heed.tensor{1, 4}) end,
                         "lookup: id 4 at position %(2%) lies outside of 1 to 3")
    assert.error_matches(function() heed.lookup(words, heed.tensor(0)) end,
                         "lookup: id 0 lies outside of 1 to 3")
    assert.error_matches(function() heed.lookup(words, -1) end, "lookup: id %-1 lies")
    assert.error_matches(function() heed.lookup(words, heed.tensor{1.0}) end,
                         "lookup: argument 'ids': .*int64 tensor expected, got .*float32")
    assert.error_matches(function() heed.lookup(words, {1, 2}) end, "'ids': .*got a table")
    assert.error_matches(function() heed.lookup(words, 1.5) end, "'ids': .*got 1.5")
    assert.error_matches(function() heed.lookup("red", 1) end, "'words': a table expected, got the")
    assert.error_matches(function() heed.lookup(words, heed.zeros(1, 0, "int64"):expand(1 << 40, 0))
                         end, "lookup: at most 16777216 entries")
  end)
end)


describe("a list that is longer than anybody wants", function()
  local long, empty = heed.zeros(1):expand(1 << 40), heed.zeros(1, 0):expand(1 << 40, 0)

  it("is refused by name", function()
    for name, f in pairs {
      totable = function() return empty:totable() end,
      split = function() return long:split(1) end,
      chunk = function() return heed.zeros(0):chunk(1 << 40) end,
      unbind = function() return empty:unbind() end,
    } do assert.error_matches(f, name .. ": .*at most 16777216 .*, got .*%(") end
    assert.error_matches(function() return long:totable() end, "totable: at most 16777216")
    assert.error_matches(function() return long:chunk(math.maxinteger) end, "chunk: a list of at")
    assert.error_matches(function()
      return heed.zeros(1, 1, 0):expand(1 << 12, 1 << 12, 0):totable()
    end, "totable: at most 16777216")
  end)

  it("is no list of few, whatever they hold", function()
    assert.equal(2, #long:chunk(2))
    assert.equal(2, #long:split(1 << 39))
    assert.same({}, heed.zeros(0, 1 << 40):totable())
    assert.equal(2, #empty:split(1 << 39))
    local none, all = table.unpack(heed.ones(3):split{0, 3})
    assert.same({{}, {1, 1, 1}}, {none:totable(), all:totable()})
    for i, row in ipairs(empty) do
      assert.equal("(0)", tostring(row.shape))
      if i == 3 then break end
    end
  end)
end)


describe("a boolean", function()
  it("is Lua's for any, all, equal and allclose", function()
    local a, b = heed.tensor{1, 2}, heed.tensor{1, 2}
    assert.is_true(a:eq(b):all())
    assert.is_false(a:ne(b):any())
    assert.is_true(a:equal(b))
    assert.is_false(a:equal(heed.tensor{1, 2, 3}))
    assert.is_true(heed.tensor{1.0}:allclose(heed.tensor{1.0005}, {atol = 1e-3}))
    assert.is_false(heed.tensor{1.0}:allclose(heed.tensor{1.1}))
    assert.same({true, true}, heed.tensor{{1, 0}, {0, 1}}:any(2):totable())
  end)
end)


describe("an index", function()
  local x = heed.arange(12):reshape(3, 4)

  it("takes numbers, ranges, steps, and counts from the end", function()
    assert.same({1, 2, 3, 4}, x[1]:totable())
    assert.same({9, 10, 11, 12}, x[-1]:totable())
    assert.equal(12, x[{3, -1}])
    assert.equal(3, x[1][3])
    assert.same({{2, 3}, {6, 7}}, x[{{1, 2}, {2, 3}}]:totable())
    assert.same({1, 5, 9}, x[{{}, 1}]:totable())
    assert.same({4, 2}, x[{1, {4, 1, -2}}]:totable())
    assert.same({{1, 3}, {5, 7}, {9, 11}}, x[{{}, {1, 4, 2}}]:totable())
    assert.equal(2.0, #x[{{2, -1}}])
  end)

  it("takes tensors of positions and of bools", function()
    assert.same({{9, 10, 11, 12}, {1, 2, 3, 4}}, x[heed.tensor{3, 1}]:totable())
    assert.same({5, 10}, x[{heed.tensor{2, 3}, heed.tensor{1, 2}}]:totable())
    assert.same({11, 12}, x[x:gt(10)]:totable())
    assert.same({{5, 6, 7, 8}}, x[heed.tensor{false, true, false}]:totable())
    assert.same({4, 1}, x[{1, heed.tensor{-1, 1}}]:totable())
  end)

  it("ends where ipairs wants it to", function()
    local rows = 0
    for i, row in ipairs(x) do
      rows = i
      assert.equal(4, #row)
    end
    assert.equal(3, rows)
    assert.is_nil(x[4])
    assert.has_error(function() return x[5] end)
  end)

  it("can be assigned to", function()
    local y = heed.zeros(3, 4)
    y[1] = 5
    y[{2, {2, 3}}] = {7, 8}
    y[{{}, 4}] = heed.tensor{1.0, 2.0, 3.0}
    y[heed.tensor{3}] = -1
    y[y:eq(8)] = 80
    y[{heed.tensor{1, 2}, heed.tensor{1, 1}}] = heed.tensor{100.0, 200.0}
    assert.same({{100.0, 5.0, 5.0, 1.0}, {200.0, 7.0, 80.0, 2.0}, {-1.0, -1.0, -1.0, -1.0}},
                y:totable())
  end)

  it("does not cut gradients silently", function()
    local w = heed.tensor({1.0, 2.0}, {requires_grad = true})
    assert.error_matches(function() return w[1] end, "select%(1, 1%)")
    assert.equal(1.0, w:select(1, 1):item())
    assert.equal(2.0, heed.no_grad(function() return w[2] end))
  end)
end)


describe("a printed tensor", function()
  setup(device.cpu)
  teardown(device.back)

  it("has aligned columns and a footer", function()
    assert.equal("   1.0000  -2.0000\n   3.0000   4.5000\n[float32 (2, 2) cpu]",
                 tostring(heed.tensor{{1, -2}, {3, 4.5}}))
    assert.matches("^ *1 +2 +30 %[int64 %(3%) cpu%]$", tostring(heed.tensor{1, 2, 30}))
    assert.matches("%[float32 %(2%) cpu grad%]", tostring(heed.ones(2, {requires_grad = true})))
    assert.matches("%(1, %., %.%) =", tostring(heed.zeros(2, 2, 2)))
    assert.matches("true", tostring(heed.tensor{true}))
  end)

  it("is a number where it has no axes", function()
    assert.equal("0.5000", tostring(heed.tensor(0.5)))
    assert.equal("7", tostring(heed.tensor(7)))
    assert.equal("nan", tostring(heed.tensor(0 / 0)):gsub("-", "", 1))
    assert.equal("inf", tostring(heed.tensor(math.huge)))
    assert.equal("loss 0.5000", "loss " .. heed.tensor(0.5))
  end)

  it("takes formats and options, and is never long", function()
    assert.matches("0%.333 ", heed.tensor{1 / 3}:format("%.3f"))
    assert.matches("^1%.0000e%-05  2", tostring(heed.tensor{1e-5, 2e-5}))
    local big = tostring(heed.zeros(2000, 2000))
    assert.is_true(#big < 2000)
    assert.matches("%.%.%.", big)
    heed.printoptions{precision = 2}
    assert.matches("0%.33 ", tostring(heed.tensor{1 / 3}))
    heed.printoptions{precision = 4}
    assert.matches("%(0, 3%)", tostring(heed.zeros(0, 3)))
  end)
end)


describe("functions of the user's", function()
  it("are differentiable through custom, and checked", function()
    local cube = heed.custom {
      forward = function(ctx, x) ctx.x = x return x ^ 3 end,
      backward = function(ctx, g) return 3 * ctx.x ^ 2 * g end,
    }
    assert.is_true(heed.gradcheck(cube, heed.tensor{1.0, 2.0}))
    local wrong = heed.custom {
      forward = function(_, x) return x * 2 end, backward = function(_, g) return g end,
    }
    assert.is_false(heed.gradcheck(wrong, heed.tensor{1.0, 2.0}))
  end)

  it("that fail in backward leave gradients as they were", function()
    local x = heed.tensor({1.0}, {requires_grad = true})
    local y = heed.custom {
      forward = function(_, t) return t + 0 end, backward = function() error "no way back" end,
    }
    local z = heed.custom {
      forward = function(_, t) return t + 0 end, backward = function() return heed.zeros(5) end,
    }
    assert.error_matches(function() y(x):backward() end, "no way back")
    assert.error_matches(function() z(x):backward() end, "shape")
    assert.is_nil(x.grad)
    assert.is_true(heed.is_grad_enabled())
  end)

  it("run again under checkpoint, with the same random numbers", function()
    local w = heed.randn(4, 4, {requires_grad = true})
    local x = heed.randn(3, 4, {requires_grad = true})
    local function f(t) return t:matmul(w):dropout(0.5):tanh() end
    heed.manual_seed(3)
    f(x):sum():backward()
    local gx, gw = x.grad, w.grad
    x.grad, w.grad = nil, nil
    heed.manual_seed(3)
    heed.checkpoint(f, x):sum():backward()
    local near = {atol = 1e-6}
    assert.is_true(gx:allclose(x.grad, near) and gw:allclose(w.grad, near))
  end)

  it("record nothing under no_grad, which ends however they end", function()
    local w = heed.ones(2, {requires_grad = true})
    assert.is_false(heed.no_grad(function() return (w * 2).requires_grad end))
    pcall(heed.no_grad, function() error "x" end)
    assert.is_true((w * 2).requires_grad)
    assert.same({2.0, 2.0}, heed.grad((w * w):sum(), {w})[1]:totable())
    assert.is_nil(w.grad)
  end)
end)
