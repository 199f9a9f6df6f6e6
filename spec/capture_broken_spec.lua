-- A captured call or a profile that an error cuts off, at any step of Lua's: it leaves nothing
-- behind. Hooks that were there before stop no captured call.

local core = require "heed.core"
local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"

-- Composed operations read values back; hooks need 'debug'.
local able = debug and os.getenv "HEED_BUILD" ~= "basic"
local it = able and it or pending

local STRIDE <const> = tonumber(os.getenv "HEED_STRIDE" or 5)   -- instructions between two cuts


-- f(...), cut off at its n-th instruction: did it come to its end?
local function cut(n, f, ...)
  local co = coroutine.create(f)
  debug.sethook(co, function() error("cut off", 0) end, "", n)
  local good, why = coroutine.resume(co, ...)
  if not good then assert.equal("cut off", why) end
  return good
end


describe("a captured call that is cut off", function()
  it("leaves heed as it was", function()
    local x, n, whole = heed.ones(2), 1, false
    while not whole do
      local f = heed.capture(function(t) return t + 1 end)
      f(x)
      whole = cut(n, f, x)
      assert.equal(2, x:sum():item())
      assert.same({2, 2}, f(x):totable())
      n = n + STRIDE
    end
  end)

  -- Weights after 0, 1, 2, … steps.
  local function training()
    local w = heed.ones(2, {requires_grad = true})
    local opt = optim.SGD({w}, {lr = 0.5, momentum = 0.5})
    return w, opt, function(x)
      opt:zero_grad()
      local loss = (w * x):sum()
      loss:backward()
      opt:step()
      return loss
    end
  end

  for _, eager in ipairs{1, 2} do
    it("takes a step of an optimiser or none, in call " .. eager + 1, function()
      local x, weights, w, _, step = heed.ones(2), {}, training()
      for i = 1, 4 do
        step(x)
        weights[i] = w:totable()
      end
      local n, whole = 1, false
      while not whole do
        local v, opt, plain = training()
        local f = heed.capture(plain)
        for _ = 1, eager do f(x) end
        whole = cut(n, f, x)
        local taken = opt:state().step:item()
        assert.is_true(taken == eager or taken == eager + 1, taken)
        assert.same(weights[taken], v:totable())
        f(x)
        assert.same(weights[taken + 1], v:totable())
        n = n + 3 * STRIDE
      end
    end)
  end
end)


describe("a captured step beside a debugger's hook", function()
  it("runs after its rate has changed, and the hook stays", function()
    local w = heed.ones(512, 512, {requires_grad = true, device = "cpu"})
    local opt = optim.AdamW({w}, {lr = 0.01})
    local f = heed.capture(function(x)
      opt:zero_grad()
      w:matmul(x):sum():backward()
      opt:step()
    end)
    local x, seen = heed.ones(512, 512, {device = "cpu"}), 0       -- enough work to be stopped
    local function hook() seen = seen + 1 end
    debug.sethook(hook, "l")
    local good, why = pcall(function()
      for i = 1, 6 do
        opt.lr = 0.01 / i
        f(x)
      end
    end)
    local last = debug.gethook()
    debug.sethook()
    assert.is_true(good, why)
    assert.equal(hook, last)
    assert.is_true(seen > 6, seen)
    assert.equal(6, opt:state().step:item())
  end)
end)


describe("a profile that is cut off", function()
  it("leaves no layer at work, and layers their names", function()
    local model, x, n, struck = nn.Sequential{nn.Identity()}, heed.ones(2), 0
    local function hook()
      debug.sethook()
      struck = true
      error("cut off", 0)
    end
    repeat
      n, struck = n + STRIDE, false
      pcall(function()
        debug.sethook(hook, "", n)
        heed.profile(model, x)
        debug.sethook()
      end)
      assert.equal(0, core.layer())
    until not struck
    local names = {}
    for _, layer in ipairs(heed.profile(nn.Sequential{nn.Linear(2, 2)}, x).layers) do
      names[#names + 1] = layer.name
    end
    table.sort(names)
    assert.same({"1", "Sequential"}, names)
  end)
end)
