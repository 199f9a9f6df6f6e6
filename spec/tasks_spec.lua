-- The counting task: what it gives, against a count in plain Lua.

local heed = require "heed"
local message = require "spec.support.message"
local tasks = require "heed.tasks"


local function times(digit, row)
  local n = 0
  for _, id in ipairs(row) do n = n + (id == digit + 1 and 1 or 0) end
  return n
end


local FORMULAS = {
  more = function(row) return times(2, row) > times(4, row) end,
  harder = function(row)
    return times(2, row) > times(4, row) or times(5, row) == times(8, row)
  end,
}


describe("the counting task", function()
  it("gives ids of digits and one label for each sequence", function()
    local x, y = tasks.counting{size = 7, length = 5}()
    assert.equal("(7, 5)", tostring(x.shape))
    assert.equal("int64", x.dtype)
    assert.equal("(7, 1)", tostring(y.shape))
    assert.equal("float32", y.dtype)
    local many = tasks.counting{size = 1000}()
    assert.equal(1, many:min():item())
    assert.equal(9, many:max():item())
  end)

  it("has 100 sequences of 10 digits unless the options say otherwise", function()
    assert.equal("(100, 10)", tostring(tasks.counting()().shape))
  end)

  for name, rule in pairs(FORMULAS) do
    it("labels by its rule: " .. name, function()
      local x, y = tasks.counting{size = 300, rule = name, seed = 5}()
      local rows, labels = x:totable(), y:totable()
      for i, row in ipairs(rows) do assert.equal(rule(row) and 1 or 0, labels[i][1]) end
    end)
  end

  it("counts other digits, in other ranges, by other rules", function()
    local x, y = tasks.counting{digits = 3, more = 0, than = 2, size = 50}()
    for i, row in ipairs(x:totable()) do
      assert.equal(times(0, row) > times(2, row), y[i]:item() == 1)
    end
    local function same(count) return count(1):eq(count(2)) end
    x, y = tasks.counting{rule = same, size = 50}()
    for i, row in ipairs(x:totable()) do
      assert.equal(times(1, row) == times(2, row), y[i]:item() == 1)
    end
  end)

  it("draws from the module's generator", function()
    heed.manual_seed(3)
    local x = tasks.counting{size = 4}()
    heed.manual_seed(3)
    assert.is_true(x:equal(heed.randint(0, 8, {4, 10}, {device = "cpu"}):to(x.device) + 1))
  end)

  it("draws from its own generator if it has a seed", function()
    local a, b = tasks.counting{seed = 3, size = 4}, tasks.counting{seed = 3, size = 4}
    heed.manual_seed(1)
    local untouched = heed.rand(3, {device = "cpu"})
    heed.manual_seed(1)
    local first = a()
    assert.is_true(untouched:equal(heed.rand(3, {device = "cpu"})))
    assert.is_true(first:equal((b())))
    assert.is_true(a():equal((b())))
    assert.is_false(first:equal((b())))
  end)

  it("goes on for ever in a loop", function()
    local n = 0
    for x, y in tasks.counting{size = 2} do
      assert.equal(#x, #y)
      n = n + 1
      if n == 5 then break end
    end
    assert.equal(5, n)
  end)

  it("refuses what it cannot do", function()
    assert.matches("a digit from 0 to 8 expected as more, got 9",
                   message(tasks.counting, {more = 9}))
    assert.matches("did you mean 'harder'", message(tasks.counting, {rule = "hardr"}))
    assert.matches("at least 1 expected as size", message(tasks.counting, {size = 0}))
    assert.matches("did you mean 'length'", message(tasks.counting, {lenght = 4}))
  end)
end)
