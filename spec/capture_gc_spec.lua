-- Finalisers that run while work is captured: their own work is done at once, and is no part of it.

local heed = require "heed"

-- Composed operations read values back.
local it = os.getenv "HEED_BUILD" == "basic" and pending or it

local function finally(f) return setmetatable({}, {__gc = f}) end


describe("a finaliser while work is captured", function()
  local device = heed.default_device()
  before_each(function() heed.default_device("cpu") end)
  after_each(function() heed.default_device(device) end)

  it("works at once, and once", function()
    local total, sum, x = heed.zeros(3), nil, heed.ones(3)
    local f = heed.capture(function(t)
      local y = t + 1
      finally(function()
        total:add_(1)
        sum = (total * 2):sum():item()
      end)
      collectgarbage()
      return y * 2
    end)
    f(x)
    assert.same({1, 1, 1}, total:totable())
    for i = 2, 4 do
      assert.same({4, 4, 4}, f(x):totable())
      assert.same({2, 2, 2}, total:totable(), "call " .. i)
    end
    assert.equal(12, sum)
  end)

  it("works where the memory of tensors starts the collector, and leaves what is captured whole",
     function()
    local total, made, x = heed.zeros(1), 0, heed.ones(1 << 16)
    local function work(t)
      local y = t * 0
      for i = 1, 60 do
        local part = t * i
        made = made + 1
        finally(function()
          total:add_(1)
          assert(heed.zeros(1 << 16):sum():item() == 0)
        end)
        y = y + part
      end
      return y
    end
    local f = heed.capture(work)
    f(x)
    collectgarbage()
    assert.equal(60, total:item())
    for _ = 1, 3 do
      local y = f(x)
      collectgarbage()
      collectgarbage()
      assert.equal(120, made)
      assert.equal(120, total:item())
      assert.equal(1830, y:min():item())
      assert.equal(1830, y:max():item())
    end
  end)

  it("finds no value in what is captured, and no capture", function()
    local x, captured, said, doubled = heed.ones(2), heed.capture(function(t) return t * 2 end), {}
    captured(x)
    local f = heed.capture(function(t)
      local y = t + 1
      finally(function()
        for _, read in ipairs{function() return y + 1 end, function() return y:totable() end} do
          said[#said + 1] = select(2, pcall(read))
        end
        doubled = captured(x):totable()
      end)
      collectgarbage()
      return y
    end)
    f(x)
    said = {}
    assert.same({2, 2}, f(x):totable())
    assert.equal(2, #said)
    for _, why in ipairs(said) do assert.matches("a tensor has no value", why) end
    assert.same({2, 2}, doubled)
  end)

  it("works on the CPU while the CPU's work is captured, not while an accelerator's is", function()
    if device == "cpu" then return pending "no accelerator is here" end
    for _, where in ipairs{"cpu", device, "cpu"} do
      local x, done = heed.ones(2, {device = where}), {}
      local f = heed.capture(function(t)
        local y = t + 1
        for _ = 1, 2 do
          finally(function() done[#done + 1] = pcall(heed.ones, 1) end)
          collectgarbage()
          y = y + 1                                      -- work of the capture goes on
        end
        return y
      end)
      for _ = 1, 3 do assert.same({4, 4}, f(x):totable()) end
      assert.same({true, true, where == "cpu", where == "cpu"}, done)
    end
  end)

  it("leaves the collector as it was, which f may not start", function()
    local x = heed.ones(2)
    local f = heed.capture(function(t)
      collectgarbage("restart")
      return t + 1
    end)
    f(x)
    assert.error_matches(function() f(x) end,
                         "capture: f may not start Lua's collector while its work is captured")
    assert.is_true(collectgarbage("isrunning"))
    collectgarbage("stop")
    local g = heed.capture(function(t) return t + 1 end)
    for _ = 1, 3 do g(x) end
    local runs = collectgarbage("isrunning")
    collectgarbage("restart")
    assert.is_false(runs)
  end)
end)
