-- What calls and backward passes take on the CPU: operations, and the bytes of the tensors that
-- they make, where a copy more or a sum elsewhere would change no result.

local heed = require "heed"

-- Calls and bytes of the operations of f, by their names, without a collection on the way.
local function costs_of(f)
  collectgarbage()
  collectgarbage()
  collectgarbage "stop"
  local good, p = pcall(heed.profile, f)
  collectgarbage "restart"
  assert(good, p)
  local list = {}
  for _, record in ipairs(p.operations) do
    if record.name ~= "Lua" then
      list[#list + 1] = ("%s %d %d"):format(record.name, record.calls, record.bytes)
    end
  end
  table.sort(list)
  return table.concat(list, ", ")
end

local function ones(...) return heed.ones(...):to{device = "cpu"} end

-- Costs of the forward and the backward pass of f(w), for new w of 1000 elements.
local function costs_of_pass(f, g)
  local w = ones(1000):requires_grad_()
  return costs_of(function() f(w):backward(g) end)
end

local SUM <const> = ", sum 1 4, sum backward 1 0"


describe("a backward pass", function()
  local x = ones(1000)

  it("sums gradients in memory of its own: one sum for all of them", function()
    assert.equal("add 2 8000, add backward 2 0, backward 1 4, mul 3 12000, mul backward 3 12000" ..
                 SUM,
                 costs_of_pass(function(w) return (w * 2 + w * 3 + w * 4):sum() end))
    assert.equal("add 1 4000, add backward 1 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + w):sum() end))
    assert.equal("add 2 8000, add backward 2 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + w + w):sum() end))
  end)

  it("adds to the gradient that is there", function()
    local w = ones(1000):requires_grad_()
    for _ = 1, 2 do
      assert.equal("backward 1 4, mul 1 4000, mul backward 1 4000" .. SUM,
                   costs_of(function() (w * 2):sum():backward() end))
    end
  end)

  it("copies a gradient where somebody else has it", function()
    assert.equal("backward 1 0, mul 1 4000, mul backward 1 4000",
                 costs_of_pass(function(w) return w * 2 end, x))
    assert.equal("backward 1 4000, view 1 0, view backward 1 0",
                 costs_of_pass(function(w) return w:view(10, 100) end, x:view(10, 100)))
    local v = ones(1000):requires_grad_()
    assert.equal("add 1 4000, add backward 1 0, backward 1 8000",
                 costs_of_pass(function(w) return w + v end, x))
    assert.equal("backward 1 4004" .. SUM, costs_of_pass(function(w) return w:sum() end))
    assert.equal("backward 1 4000", costs_of_pass(function(w) return w end, ones(1):expand(1000)))
  end)

  it("sums over axes along which a tensor was broadcast once", function()
    local wide, tall = ones(2, 1000), ones(1000, 3)
    assert.equal("backward 1 4004, mul 1 8000, mul backward 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * wide):sum() end))
    assert.equal("add 1 12000, add backward 1 0, backward 1 4004" .. SUM ..
                 ", view 1 0, view backward 1 0",
                 costs_of_pass(function(w) return (w:view(1000, 1) + tall):sum() end))
  end)

  it("converts a gradient once, where types differ", function()
    assert.equal("backward 1 4008, sum 1 8, sum backward 1 0, to 1 8000, to backward 1 0",
                 costs_of_pass(function(w) return w:to("float64"):sum() end))
    local wide = x:to("float64")
    assert.equal("add 1 8000, add backward 1 0, backward 1 4008, sum 1 8, sum backward 1 0",
                 costs_of_pass(function(w) return (w + wide):sum() end))
  end)

  it("makes no gradient of what wants none", function()
    assert.equal("add 1 4000, add backward 1 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + 1):sum() end))
    assert.equal("backward 1 4, mul 1 4000, mul backward 1 4000" .. SUM,
                 costs_of_pass(function(w) return (w * x):sum() end))
    local v = ones(1000):requires_grad_()
    assert.equal("backward 1 4, mul 1 4000, mul backward 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * v):sum() end))
  end)

  it("through what was changed in place takes what a copy would", function()
    assert.equal("backward 1 4, mul 1 4000, mul backward 2 8000, mul_ 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * 1):mul_(2):sum() end))
  end)

  it("through views copies nothing", function()
    assert.equal("backward 1 4, index 1 0, slice backward 1 4000" .. SUM,
                 costs_of_pass(function(w) return w[{{1, 10}}]:sum() end))
    assert.equal("backward 1 4, mean 1 400, mean backward 1 400" .. SUM ..
                 ", view 1 0, view backward 1 4000",
                 costs_of_pass(function(w) return w:view(10, 100):mean(1):sum() end))
  end)
end)


describe("a call", function()
  local x = ones(1000)

  it("gives a view of what is like the result already", function()
    assert.equal("contiguous 1 0, expand 1 0, reshape 1 0", costs_of(function()
      x:to("float32")
      x:contiguous()
      x:reshape(10, 100)
      x:expand(1000)
      x:detach()
    end))
  end)

  it("in place copies an operand that overlaps it, and no other", function()
    local y = ones(1000)
    assert.equal("add_ 1 0, mul_ 1 0", costs_of(function() y:add_(1):mul_(y) end))
    local first, same = y:narrow(1, 1, 500), y:narrow(1, 1, 500)
    assert.equal("add_ 1 0", costs_of(function() first:add_(same) end))
    local shifted = y:narrow(1, 251, 500)
    assert.equal("add_ 1 2000", costs_of(function() first:add_(shifted) end))
    local other = ones(500)
    assert.equal("add_ 1 0", costs_of(function() first:add_(other) end))
  end)

  it("mixes types without conversions of their own", function()
    local h, n = x:to("bfloat16"), x:to("int64")
    assert.equal("add 1 4000", costs_of(function() return x + h end))
    assert.equal("add_ 1 0", costs_of(function() h:add_(x) end))
    assert.equal("mul 1 4000", costs_of(function() return n * 2.5 end))
    assert.equal("div 1 4000", costs_of(function() return n / n end))
  end)

  it("over rows beyond eight million elements is made of steps that can be stopped", function()
    if os.getenv "HEED_BUILD" == "basic" then return pending "all of it is made of steps" end
    local function of_row(n)
      local row = ones(1):expand(n)
      return tonumber(costs_of(function() row:softmax(1) end):match("^softmax 1 (%d+)$"))
    end
    assert.equal(4 << 23, of_row(1 << 23))
    assert.is_true(of_row((1 << 23) + 1) > 8 << 23)
  end)

  it("with powers and quotients makes its result alone", function()
    assert.equal("pow 4 16000", costs_of(function() return x ^ 2, x ^ 0.5, x ^ 3, x ^ -1 end))
    assert.equal("div 3 12000", costs_of(function() return x / 2, x / x, 1 / x end))
  end)
end)
