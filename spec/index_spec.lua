-- x[index] and x[index] = value: numbers, ranges, steps, masks, positions, and all of them mixed.

local heed = require "heed"
local device = require "spec.support.device"

local x = heed.arange(12):reshape(3, 4)      -- rows 1 to 4, 5 to 8, 9 to 12

local function values(t) return t:totable() end


describe("a number as index", function()
  it("gives a view of a row, and of a vector an element", function()
    assert.same({1, 2, 3, 4}, values(x[1]))
    assert.same({9, 10, 11, 12}, values(x[-1]))
    assert.equal(7, x[2][3])
    assert.equal(8, x[2][-1])
    assert.same({1, 2, 3, 4}, values(x[1.0]))
    local y = x:clone()
    y[2]:fill_(0)
    assert.same({0, 0, 0, 0}, values(y[2]))
  end)

  it("reads an element as Lua's integer, float or boolean", function()
    assert.equal("integer", math.type(x[1][1]))
    assert.equal("integer", math.type(heed.tensor({1}, {dtype = "uint8"})[1]))
    assert.equal("float", math.type(heed.tensor{1.0}[1]))
    for _, dtype in ipairs {"float16", "bfloat16", "float64"} do
      assert.equal(0.5, heed.tensor({0.5}, {dtype = dtype})[1])
    end
    assert.is_true(heed.tensor{false, true}[2])
    assert.equal(math.mininteger, heed.tensor{math.mininteger}[1])
    assert.equal(2 ^ 53 + 1 | 0, heed.tensor{2 ^ 53 + 1 | 0}[1])
  end)

  it("ends ipairs, and is refused beyond", function()
    local rows = {}
    for i, row in ipairs(x) do rows[i] = row:sum():item() end
    assert.same({10, 26, 42}, rows)
    local elements = {}
    for i, value in ipairs(heed.tensor{3, 1, 2}) do elements[i] = value end
    assert.same({3, 1, 2}, elements)
    for _ in ipairs(heed.zeros(0)) do error "an empty tensor has no elements" end
    assert.is_nil(x[4])
    assert.error_matches(function() return x[5] end, "index: position 5 lies outside of 1 to 3")
    assert.error_matches(function() return x[-4] end, "index: position %-4")
    assert.error_matches(function() return x[0] end, "index: position 0.*count from 1")
    assert.error_matches(function() return x[1.5] end, "index.*'position'.*whole number.*1.5")
    assert.error_matches(function() return x[0 / 0] end, "index.*whole number")
    assert.error_matches(function() return x[1e300] end, "index.*whole number")
    assert.error_matches(function() return heed.tensor(5)[1] end, "rank 0.*item")
  end)
end)


describe("a table as index", function()
  it("has an index for each axis", function()
    assert.equal(12, x[{3, -1}])
    assert.equal(12, x[{3, 4.0}])
    assert.same({3, 7, 11}, values(x[{{}, 3}]))
    assert.same({5, 6, 7, 8}, values(x[{2}]))
    assert.same({5, 6, 7, 8}, values(x[{2, {}}]))
    assert.same(values(x), values(x[{}]))
    assert.same(values(x), values(x[{{}, {}}]))
  end)

  it("takes ranges that count both ends, from either side", function()
    assert.same({{2, 3}, {6, 7}}, values(x[{{1, 2}, {2, 3}}]))
    assert.same({11, 12}, values(x[{3, {-2, -1}}]))
    assert.same({{5, 6, 7, 8}}, values(x[{{2, 2}}]))
    assert.same({1, 3}, values(x[{1, {1, 4, 2}}]))
    assert.same({2, 4}, values(x[{1, {2, 4, 2}}]))
    assert.same({4, 3, 2, 1}, values(x[{1, {4, 1, -1}}]))
    assert.same({4, 2}, values(x[{1, {-1, 1, -2}}]))
    assert.same({12, 11}, values(x[{3, {4, 3, -1}}]))
  end)

  it("gives nothing for ranges that end before they begin, as Lua's for does", function()
    assert.same({0}, {x[{1, {3, 2}}]:size()})
    assert.same({0, 4}, {x[{{1, 0}}]:size()})
    assert.same({0}, {x[{1, {1, 2, -1}}]:size()})
    assert.same({0, 4}, {x[{{4, 3}}]:size()})
  end)

  it("is refused when it selects nothing that is there", function()
    assert.error_matches(function() return x[{1, 2, 3}] end, "index: indices for 3 dim.*has 2")
    assert.error_matches(function() return x[{1, 5}] end, "index: position 5.*1 to 4")
    assert.error_matches(function() return x[{1, 0}] end, "index:.*from 1")
    assert.error_matches(function() x[4] = 1 end, "index: position 4 lies outside of 1 to 3")
    assert.error_matches(function() return x[{{2}}] end, "got one entry; .*{2, %-1}")
    assert.error_matches(function() return x[{{}, {1, {1, 3}}}] end, "got a table .*tensor{1, 3}")
    assert.error_matches(function() return x[{{1, 9}}] end, "position 9.*size 3")
    assert.error_matches(function() return x[{{0, 2}}] end, "from 1")
    assert.error_matches(function() return x[{{1, 2, 0}}] end, "step of 0")
    assert.error_matches(function() return x[{{1}}] end, "index: a range is")
    assert.error_matches(function() return x[{{1, 2, 3, 4}}] end, "index: a range is.*4 entries")
    assert.error_matches(function() return x[{{from = 1}}] end, "index: a range is")
    assert.error_matches(function() return x[{{1, "2"}}] end, "index.*'to'.*string")
    assert.error_matches(function() return x[{{1, 2.5}}] end, "index.*'to'.*2.5")
    assert.error_matches(function() return x[{"1"}] end, "index: a position, a range or a.*string")
    assert.error_matches(function() return x[{1, true}] end, "x:eq%(2%)")
    assert.error_matches(function() return x[true] end, "x:eq%(2%)")
    assert.error_matches(function() return x[nil] end, "index: a position.* expected, got nil")
    assert.error_matches(function() return x[print] end, "index: a position.*, got a function")
    assert.error_matches(function() return x[io.stdout] end, "index: a position.* expected")
    assert.error_matches(function() return x[{1, 1, 1, 1, 1, 1, 1, 1, 1}] end, "9 indices.*8")
  end)

  it("gives views, which share what is written", function()
    local y = heed.zeros(3, 4)
    y[{{}, {4, 2, -2}}]:copy_(heed.tensor{{1, 2}, {3, 4}, {5, 6}})
    assert.same({{0, 2, 0, 1}, {0, 4, 0, 3}, {0, 6, 0, 5}}, values(y))
    y[{}]:fill_(7)
    assert.equal(7 * 12, y:sum():item())
    y[{2}][{{2, 3}}]:zero_()
    assert.same({7, 0, 0, 7}, values(y[2]))
  end)
end)


describe("a tensor as index", function()
  it("picks rows by position, repeated and from the end", function()
    assert.same({{9, 10, 11, 12}, {1, 2, 3, 4}}, values(x[heed.tensor{3, 1}]))
    assert.same({{1, 2, 3, 4}, {1, 2, 3, 4}}, values(x[heed.tensor{1, -3}]))
    assert.same({{{5, 6, 7, 8}}, {{9, 10, 11, 12}}}, values(x[heed.tensor{{2}, {3}}]))
    assert.same({5, 6, 7, 8}, values(x[heed.tensor(2)]))
    assert.same({0, 4}, {x[heed.tensor({}, {dtype = "int64"})]:size()})
  end)

  it("picks pairs together with others, which broadcast", function()
    assert.same({5, 10}, values(x[{heed.tensor{2, 3}, heed.tensor{1, 2}}]))
    assert.same({{1, 2}, {9, 10}}, values(x[{heed.tensor{{1}, {3}}, heed.tensor{1, 2}}]))
    local last = heed.tensor{4, 2, 1}
    assert.same({4, 6, 9}, values(x[{heed.arange(3), last}]))
    local z, where = x:view(3, 2, 2):clone(), {heed.tensor{3, 1, 3}, heed.tensor{1, 2, 2}}
    assert.same({{9, 10}, {3, 4}, {11, 12}}, values(z[where]))
    z[where] = heed.zeros(3, 2, "int64")
    assert.same({{{1, 2}, {0, 0}}, {{5, 6}, {7, 8}}, {{0, 0}, {0, 0}}}, values(z))
  end)

  it("counts from the end in each of several, also expanded, and in captured work", function()
    local rows, columns = heed.tensor{{-1}, {2}, {-3}}, heed.tensor{4, -4, -1, 1}
    local wanted = {{12, 9, 12, 9}, {8, 5, 8, 5}, {4, 1, 4, 1}}
    local function picked(t, r, c) return t[{r, c}] end
    assert.same(wanted, values(picked(x, rows, columns)))
    assert.same(wanted, values(picked(x, heed.tensor{{3}, {2}, {1}}, columns)))
    assert.same({10, 6}, values(picked(x, heed.tensor{3, -2}, heed.tensor(-3):expand(2))))
    local f = heed.capture(picked)
    for _ = 1, 4 do assert.same(wanted, values(f(x, rows, columns))) end
    assert.same({{9, 12, 9, 12}, {5, 8, 5, 8}, {1, 4, 1, 4}}, values(f(x, rows, -columns)))
    local y = heed.zeros(3, 4)
    y[{rows, columns}] = heed.ones(3, 4)
    assert.same({{1, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 0, 1}}, values(y))
    for _, i in ipairs{-4, 0, 4} do
      local where = {heed.tensor{1, i}, heed.tensor{-1, 2}}
      local _, why = pcall(function() return x[where]:totable() end)
      assert.matches(("index %d at position 2 is outside 1 to 3"):format(i), why, 1, true)
    end
  end)

  it("has no end to count from where it is an id or a label", function()
    for _, f in ipairs{
      function() return heed.embedding(heed.tensor{1, -1}, heed.ones(3, 2)):totable() end,
      function() return heed.one_hot(heed.tensor{1, -1}, 3):totable() end,
    } do
      local _, why = pcall(f)
      assert.matches("index -1 at position 2 is outside 1 to 3", why, 1, true)
    end
  end)

  it("stands beside numbers and ranges", function()
    assert.same({4, 1}, values(x[{1, heed.tensor{-1, 1}}]))
    assert.same({{2, 1}, {6, 5}}, values(x[{{1, 2}, heed.tensor{2, 1}}]))
    assert.same({{4, 1}, {8, 5}, {12, 9}}, values(x[{{}, heed.tensor{4, 1}}]))
    local z = heed.arange(24):reshape(2, 3, 4)
    assert.same({{1, 3}, {13, 15}}, values(z[{{}, 1, heed.tensor{1, 3}}]))
    assert.same({2, 2, 3}, {z[{{}, {}, heed.tensor{1, 4}}]:transpose(2, 3):size()})
  end)

  it("picks by booleans, of one axis or of several", function()
    assert.same({11, 12}, values(x[x:gt(10)]))
    assert.same({{5, 6, 7, 8}}, values(x[heed.tensor{false, true, false}]))
    assert.same({{1, 3}, {5, 7}, {9, 11}}, values(x[{{}, heed.tensor{true, false, true, false}}]))
    assert.same({0}, {x[x:gt(100)]:size()})
    local z = heed.arange(8):reshape(2, 2, 2)
    assert.same({{1, 2}, {7, 8}}, values(z[heed.tensor{{true, false}, {false, true}}]))
    assert.same({2, 8}, values(z[{heed.tensor{{true, false}, {false, true}}, 2}]))
  end)

  it("picks a tensor without axes by a boolean without axes, as a vector", function()
    local scalar, yes = heed.tensor(3.5), heed.tensor(true)
    assert.same({3.5}, scalar:masked_select(yes):totable())
    assert.same({}, scalar:masked_select(yes:logical_not()):totable())
  end)

  it("is taken along the one axis that a tensor without axes counts as having", function()
    local scalar, index, src = heed.tensor(5), heed.tensor(1, {dtype = "int64"}), heed.tensor(7)
    for name, wanted in pairs{gather = 5, scatter = 7, scatter_add = 12} do
      local y = scalar[name](scalar, 1, index, name ~= "gather" and src or nil)
      assert.equal(0, y:dim())
      assert.equal(wanted, y:item())
    end
  end)

  it("gives one number for all the sum of its gradients", function()
    local index = heed.tensor{{1, 3}, {2, 1}, {4, 2}}
    for _, name in ipairs{"scatter", "scatter_add"} do
      local number = heed.tensor(2.0, {requires_grad = true})
      heed.zeros(3, 4)[name](heed.zeros(3, 4), 2, index, number):sum():backward()
      assert.equal(6, number.grad:item())
    end
  end)

  it("is read as it was where its own tensor is written", function()
    local index, src = heed.tensor{{2, 2}, {3, 3}, {1, 1}}, heed.tensor{{1, 3}, {1, 2}, {2, 1}}
    for _, name in ipairs{"scatter", "scatter_add"} do
      local a, b = index:clone(), index:clone()
      a[name .. "_"](a, 1, a, src)
      b[name .. "_"](b, 1, index, b)
      assert.is_true(a:equal(index[name](index, 1, index, src)))
      assert.is_true(b:equal(index[name](index, 1, index, index)))
    end
    local a, b = index[{{}, 1}]:clone(), index[{{}, 1}]:clone()
    a[a], b[index[{{}, 1}]] = heed.tensor{10, 20, 30}, b
    assert.same({{30, 10, 20}, {1, 2, 3}}, {a:totable(), b:totable()})
  end)

  it("is refused when it is of another type, or points outside", function()
    assert.error_matches(function() return x[heed.tensor{1.0}] end, "int64 or bool.*float32")
    assert.error_matches(function() return x[heed.tensor({1}, {dtype = "uint8"})] end, "uint8")
    assert.error_matches(function() return x[heed.tensor(true)] end, "rank 0")
    assert.error_matches(function() return heed.take(x, {heed.tensor{1}, heed.tensor(true)}) end,
                         "take: .*entry 2: .*got bool of rank 0")
    assert.error_matches(function() return x[heed.tensor{4}] end, "4.*1 to 3")
    assert.error_matches(function() return x[heed.tensor{0}] end, "0")
    assert.error_matches(function() return x[heed.tensor{-4}] end, "%-4")
    assert.error_matches(function() return x[heed.tensor{true, false}] end,
                         "bools of shape %(2%).*%(3, 4%)")
    assert.error_matches(function()
      return x[{heed.tensor{1, 2, 3}, heed.tensor{1, 2}}]
    end, "broadcast")
    local gone = heed.tensor{1}
    gone:release()
    assert.error_matches(function() return x[gone] end, "released")
  end)
end)


describe("an assignment", function()
  local y

  before_each(function() y = heed.zeros(3, 4) end)

  it("writes a number, a boolean, a table or a tensor", function()
    y[1] = 5
    y[2] = {1, 2, 3, 4}
    y[3] = heed.tensor{4.0, 3.0, 2.0, 1.0}
    assert.same({{5, 5, 5, 5}, {1, 2, 3, 4}, {4, 3, 2, 1}}, values(y))
    local bools = heed.zeros(2, {dtype = "bool"})
    bools[1] = true
    assert.same({true, false}, values(bools))
    local integers = heed.zeros(2, {dtype = "int64"})
    integers[-1] = math.maxinteger
    assert.same({0, math.maxinteger}, values(integers))
  end)

  it("writes to every kind of index", function()
    y[{2, {2, 3}}] = {7, 8}
    y[{{}, 4}] = heed.tensor{1.0, 2.0, 3.0}
    y[{-1, 1}] = -1
    y[{1, {3, 1, -1}}] = {1, 2, 3}
    assert.same({{3, 2, 1, 1}, {0, 7, 8, 2}, {-1, 0, 0, 3}}, values(y))
    y[{}] = 9
    assert.equal(9 * 12, y:sum():item())
  end)

  it("writes through positions and masks", function()
    y[heed.tensor{3, 1}] = heed.tensor{{1.0}, {2.0}}
    assert.same({{2, 2, 2, 2}, {0, 0, 0, 0}, {1, 1, 1, 1}}, values(y))
    y[y:eq(0)] = -1
    y[{heed.tensor{1, 3}, heed.tensor{4, 4}}] = heed.tensor{8.0, 9.0}
    assert.same({{2, 2, 2, 8}, {-1, -1, -1, -1}, {1, 1, 1, 9}}, values(y))
    y[{heed.tensor{true, false, true}, {1, 2}}] = 0
    assert.same({{0, 0, 2, 8}, {-1, -1, -1, -1}, {0, 0, 1, 9}}, values(y))
    y[{2, heed.tensor{1, 1, 1}}] = heed.tensor{1.0, 2.0, 3.0}
    assert.equal(3, y[{2, 1}])
  end)

  it("broadcasts, and converts as copy_ does", function()
    y[{{}, {1, 2}}] = heed.tensor{1, 2}
    assert.same({1, 2, 0, 0}, values(y[3]))
    local integers = heed.zeros(2, {dtype = "int64"})
    integers[1] = 1.5
    integers[integers:eq(0)] = -1.5
    assert.same({1, -1}, values(integers))
    y[{}] = heed.tensor{{1}, {2}, {3}}
    assert.same({3, 3, 3, 3}, values(y[3]))
    y[1], y[{2, 3}] = heed.tensor{{{1, 2, 3, 4}}}, heed.tensor{9}
    y[{{}, heed.tensor{{1, 4}}}] = heed.tensor{{{{5, 6}}}}
    y[y:eq(6)] = heed.tensor{{7}}
    assert.same({{5, 2, 3, 7}, {5, 2, 9, 7}, {5, 3, 3, 7}}, values(y))
  end)

  it("is exact when it reads what it writes", function()
    local v = heed.arange(6)
    v[{{2, 6}}] = v[{{1, 5}}]
    assert.same({1, 1, 2, 3, 4, 5}, values(v))
    v = heed.arange(6)
    v[{{1, 6}}] = v[{{6, 1, -1}}]
    assert.same({6, 5, 4, 3, 2, 1}, values(v))
    v = heed.arange(4)
    v[heed.tensor{1, 2, 3, 4}] = v:flip(1)
    assert.same({4, 3, 2, 1}, values(v))
  end)

  it("is exact in place beside another view of what it writes", function()
    local t, square = heed.arange(1, 1000), heed.arange(1, 1600):reshape(40, 40)
    local wanted = t:narrow(1, 2, 999) + t:narrow(1, 1, 999)
    assert.is_true(t:narrow(1, 2, 999):add_(t:narrow(1, 1, 999)):equal(wanted))
    wanted = square + square:transpose(1, 2):contiguous()
    assert.is_true(square:add_(square:transpose(1, 2)):equal(wanted))
  end)

  it("is refused when it doesn't fit, and writes nothing then", function()
    local before = y:clone()
    for message, f in pairs {
      ["shape"] = function() y[1] = {1, 2, 3} end,
      ["string"] = function() y[1] = "5" end,
      ["got nil"] = function() y[1] = nil end,
      ["position 4"] = function() y[4] = 1 end,
      ["from 1"] = function() y[0] = 1 end,
      ["indices"] = function() y[{1, 2, 3}] = 1 end,
      ["1 to 3"] = function() y[heed.tensor{1, 4}] = 1 end,
      ["%(1, 2%).*%(2, 4%)"] = function() y[heed.tensor{1, 2}] = heed.tensor{{1.0, 2.0}} end,
      ["'colour'"] = function() y.colour = 1 end,
      ["x:eq"] = function() y[false] = 1 end,
    } do
      assert.error_matches(f, message)
      if message ~= "1 to 3" or not device.gpu then           -- a GPU writes the others
        assert.is_true(y:equal(before), message)
      end
      y:copy_(before)
    end
    assert.error_matches(function() heed.zeros(1):expand(3)[{}] = 1 end, "expanded")
  end)
end)


describe("an index and gradients", function()
  it("are recorded through views, positions and masks", function()
    local w = heed.arange(6, {dtype = "float32", requires_grad = true})
    local m = w:reshape(2, 3)
    local sum = m[1]:sum() + m[{2, {1, 2}}]:sum() * 2 + m[{{}, heed.tensor{3, 3}}]:sum() * 10
      + m[m:gt(5)]:sum() * 100
    sum:backward()
    assert.same({1, 1, 21, 2, 2, 120}, values(w.grad))
  end)

  it("are recorded through an assignment", function()
    local w = heed.ones(3, {requires_grad = true})
    local y = heed.zeros(2, 3)
    y[1] = w * 2
    y[{2, {1, 2}}] = w[{{2, 3}}] * 5
    y[{1, 3}] = 0;
    (y * 10):sum():backward()
    assert.same({20, 70, 50}, values(w.grad))
  end)

  it("are recorded through an assignment by positions along all of eight axes", function()
    local w, ends = heed.ones(2, {requires_grad = true}), heed.tensor{1, 2}
    local y = heed.zeros(2, 2, 2, 2, 2, 2, 2, 2)
    y[{ends, ends, ends, ends, ends, ends, ends, ends}] = w * 2;
    (y * heed.arange(y:numel()):view(y.shape)):sum():backward()
    assert.same({2, 512}, values(w.grad))
  end)

  it("are never cut silently: an element with a graph is no plain number", function()
    local w = heed.tensor({{1.0, 2.0}}, {requires_grad = true})
    assert.error_matches(function() return w[1][2] end, "x:select%(1, 2%)")
    assert.error_matches(function() return w[{1, 2}] end, "x:select%(1, 1%):select%(1, 2%)")
    assert.error_matches(function() for _ in ipairs(w[1]) do error() end end, "cut its gradient")
    assert.equal(2, w[1]:select(1, 2):item())
    assert.equal(2, w:detach()[1][2])
    assert.equal(2, heed.no_grad(function() return w[1][2] end))
    assert.is_nil(w[1][3])
    assert.error_matches(function() w[1] = 0 end, "leaf")
  end)
end)


-- Rows of one index have a kernel of their own, for dense positions, rows and tables; a table that
-- is a transposed view goes by the general one.
describe("rows by one index", function()
  local WIDTHS <const> = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 300, 700}

  local function columns_first(t) return t:t():contiguous():t() end

  local function ids(n, rows) return heed.randint(rows, {n}) end

  it("are the same as by the general path, whatever the width, type and place of a row", function()
    heed.manual_seed(1)
    for _, dtype in ipairs{"float32", "float64", "float16", "int64", "uint8", "bool"} do
      for _, width in ipairs(WIDTHS) do
        local wide = (heed.randn(9, width + 3) * 50):to(dtype)
        local position = ids(40, 9)
        local table_, rows = wide[{{}, {2, width + 1}}], heed.randn(40, width):abs():to(dtype)
        local slow = columns_first(table_)
        local label = dtype .. " " .. width
        local third = position[{{1, 40, 3}}]
        local function same(f, ...) assert.is_true(f(table_, ...):equal(f(slow, ...)), label) end
        same(function(t) return heed.embedding(position, t) end)
        same(table_.index_select, 1, position)
        same(table_.index_select, 1, third)
        if dtype ~= "bool" then
          local sum = table_:clone():index_add(1, position, rows)
          assert.is_true(sum:equal(columns_first(table_):index_add(1, position, rows)), label)
        end
        local fast, general = wide:clone(), columns_first(wide)
        fast[{position, {2, width + 1}}] = rows
        general[{position, {2, width + 1}}] = rows
        assert.is_true(fast:equal(general), label)               -- columns beside it are untouched
      end
    end
  end)

  it("are added up in one order, whatever the number of threads", function()
    heed.manual_seed(2)
    local threads, position, rows = heed.threads(), ids(3000, 7), heed.randn(3000, 301)
    local sums = {}
    for n = 1, 3 do
      heed.threads(n)
      local w = heed.zeros(7, 301):requires_grad_()
      heed.embedding(position, w):backward(rows)
      sums[n] = w.grad
    end
    heed.threads(threads)
    assert.is_true(sums[2]:equal(sums[1]) and sums[3]:equal(sums[1]))
    local exact = heed.zeros(7, 301, {dtype = "float64"}):index_add(1, position, rows:to("float64"))
    assert.is_true(sums[1]:to("float64"):allclose(exact, {rtol = 1e-4, atol = 1e-3}))
  end)

  it("are refused before anything is written", function()
    local y = heed.zeros(5, 3)
    for _, bad in ipairs{0, 6, math.maxinteger, math.mininteger} do
      local position = heed.ones(700, {dtype = "int64"})
      position[600] = bad
      assert.error_matches(function() heed.embedding(position, y) end, "600.*1 to 5")
    end
    local position = heed.tensor{1, 2, 6}
    assert.error_matches(function() y:index_add_(1, position, heed.ones(3, 3)) end, "1 to 5")
    if not device.gpu then assert.equal(0, y:sum():item()) end   -- a GPU writes the others
  end)
end)


describe("a diagonal", function()
  it("begins where its offset says, down to one element and none", function()
    local y = x[{{1, 2}, {1, 3}}]                               -- 1 2 3, and 5 6 7
    for offset, wanted in pairs{[-2] = {}, [-1] = {5}, [0] = {1, 6}, [1] = {2, 7}, [2] = {3},
                                [3] = {}} do
      assert.same(wanted, values(y:diagonal(offset)))
      assert.same(wanted, values(y:diagonal(-offset, 2, 1)))
    end
    y = x:clone()
    y:diagonal(3):fill_(0)
    assert.same({1, 2, 3, 0}, values(y[1]))
  end)
end)


describe("slice", function()
  -- The positions from start on, or nil where a bound lies outside.
  local function walked(n, start, stop, step)
    local least = (step > 0 or n > 0) and 1 or 0
    if start < least or stop < 0 or step > 0 and (start > n + 1 or stop > n) then return nil end
    if step < 0 and (start > n or stop < 1 or stop > n + 1) then return nil end
    local list = {}
    for i = start, stop, step do list[#list + 1] = i end
    return list
  end

  it("walks up and down, as far as both bounds lie within or just outside", function()
    for _, n in ipairs{0, 1, 4} do
      local line = heed.arange(4):narrow(1, 1, n)
      for _, step in ipairs{-3, -2, -1, 1, 2, 3} do
        for start = 0, n + 2 do
          for stop = 0, n + 2 do
            local wanted = walked(n, start, stop, step)
            local good, y = pcall(heed.slice, line, 1, start, stop, step)
            local what = ("%d: %d, %d, %d"):format(n, start, stop, step)
            assert.equal(wanted ~= nil, good, what)
            if wanted then assert.same(wanted, y:totable(), what) end
          end
        end
      end
    end
  end)
end)


describe("powers of whole numbers", function()
  it("are whole from 0 on", function()
    local whole = heed.tensor{2, 0, -3}
    assert.same({1, 1, 1}, whole:pow(0):totable())
    assert.same({2, 0, -3}, whole:pow(1):totable())
    assert.error_matches(function() whole:pow(-1) end, "no power of %-1")
  end)
end)
