-- Captured work: n calls do what n calls of the function itself do, bit for bit.

local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"

-- A small model, its data, and a step on both; the same again for the same seed.
local function training(make)
  heed.manual_seed(1)
  local model = nn.Sequential{nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)}
  model:to(heed.default_device())
  local opt = make(model:parameters())
  local function step(x, y)
    opt:zero_grad()
    local loss = heed.cross_entropy(model(x), y)
    loss:backward()
    optim.clip_grad_norm(model:parameters(), 0.5)
    opt:step()
    return loss
  end
  local batches = {}
  for i = 1, 8 do
    batches[i] = {heed.randn(5, 6, {device = "cpu"}):to(heed.default_device()),
                  heed.randint(1, 3, {5}, {device = "cpu"}):to(heed.default_device())}
  end
  return model, opt, step, batches
end

local function weights_of(model)
  local list = {}
  for _, p in ipairs(model:parameters()) do list[#list + 1] = p:data() end
  return list
end

local OPTIMISERS = {
  SGD = function(ps) return optim.SGD(ps, {lr = 0.1, momentum = 0.9, dampening = 0.1}) end,
  Adam = function(ps) return optim.Adam(ps, {lr = 0.01}) end,
  AdamW = function(ps) return optim.AdamW(ps, {lr = 0.01, amsgrad = true}) end,
}


describe("capture", function()
  for name, make in pairs(OPTIMISERS) do
    it("trains with " .. name .. " as the step itself does", function()
      local one, opt, step, batches = training(make)
      local losses = {}
      for i, batch in ipairs(batches) do
        if i == 6 then opt.lr = opt.lr / 2 end
        losses[i] = step(table.unpack(batch)):item()
      end
      local other, again, plain = training(make)
      local captured = heed.capture(plain)
      for i, batch in ipairs(batches) do
        if i == 6 then again.lr = again.lr / 2 end
        assert.equal(losses[i], captured(table.unpack(batch)):item())
      end
      assert.same(weights_of(one), weights_of(other))
      assert.same(opt:state().step:totable(), again:state().step:totable())
    end)
  end

  it("keeps apart what has other shapes or other numbers", function()
    local f = heed.capture(function(x, k) return x * k end)
    for _ = 1, 3 do
      assert.same({2, 4}, f(heed.tensor{1.0, 2.0}, 2):totable())
      assert.same({3, 6, 9}, f(heed.tensor{1.0, 2.0, 3.0}, 3):totable())
      assert.same({4, 8}, f(heed.tensor{1.0, 2.0}, 4):totable())
    end
  end)

  it("draws new random numbers in every call", function()
    local f = heed.capture(function(x) return heed.dropout(x, 0.5) end)
    local x, seen = heed.ones(200), {}
    for _ = 1, 5 do
      local bytes = f(x):data()
      assert.is_nil(seen[bytes])
      seen[bytes] = true
    end
  end)

  if heed.default_device() ~= "cpu" then
    it("refuses what reads a value back, and goes on without", function()
      local f = heed.capture(function(x) return x:sum():item() end)
      local x = heed.ones(3)
      assert.equal(3, f(x))
      assert.error_matches(function() f(x) end, "read back.*captured")
      assert.equal(3, x:sum():item())
    end)

    it("refuses what works on the processor", function()
      local f = heed.capture(function(x)
        local y = heed.ones(2, {device = "cpu"}) + 1
        return x + 1, y
      end)
      local x = heed.ones(3)
      f(x)
      assert.error_matches(function() f(x) end, "works on cpu while the work of cuda:0 is captured")
      assert.equal(6, (x + 1):sum():item())
    end)
  end
end)
