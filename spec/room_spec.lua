-- A cache of a fixed capacity: steps give what the pass over all tokens gives, also captured.

local heed = require "heed"
local stepping = require "spec.support.stepping"

local nn, Model = heed.nn, stepping.Model
local near, stepped = stepping.near, stepping.stepped

local CAUSAL <const> = {causal = true}

local models = {
  ["no positions"] = function() return Model{} end,
  ["rotary positions"] = function() return Model{rope = true} end,
  ["sinusoidal positions"] = function() return Model({}, heed.position.Sinusoidal()) end,
  ["learnt positions"] = function() return Model({}, heed.position.Learned(32, 8)) end,
  ["grouped heads"] = function() return Model{kv_heads = 2, rope = true} end,
  ["norms of queries and keys"] = function() return Model{qk_norm = true, rope = true} end,
  ["values of another size"] = function() return Model{value_dim = 3, rope = true} end,
  ["a sink"] = function() return Model{sink = true, rope = true} end,
  ["memory"] = function() return Model{memory = 3, rope = true} end,
}


local function room(n) return nn.Cache{capacity = n} end


-- x token by token, the first n of them at once; step is made by `wrap`.
local function decoded(model, x, n, cache, wrap)
  local step = wrap(function(t) return model(t, {cache = cache, causal = true}) end)
  local parts = {model(x:narrow(2, 1, n), {cache = cache, causal = true})}
  for i = n + 1, x:size(2) do parts[#parts + 1] = step(x:narrow(2, i, 1)):clone() end
  return heed.cat(parts, 2)
end

local function eager(f) return f end


describe("a step with a cache of a fixed capacity", function()
  for name, make in pairs(models) do
    it("equals the pass over all tokens, with " .. name, function()
      heed.manual_seed(1)
      local model, x = make(), heed.randn(2, 9, 8)
      heed.no_grad(function()
        local whole = model(x, CAUSAL)
        for _, chunks in ipairs{{4, 1, 1, 1, 1, 1}, {1, 3, 5}, {9}} do
          near(stepped(model, x, chunks, room(12), CAUSAL), whole)
        end
        local by_hand = decoded(model, x, 3, room(9), eager)
        local captured = decoded(model, x, 3, room(9), heed.capture)
        near(captured, whole)
        assert.equal(by_hand:data(), captured:data())
      end)
    end)
  end

  it("serves a decoder, whose context is encoded once", function()
    heed.manual_seed(2)
    local model = nn.Transformer(8, 2, {layers = 2, norm = "pre"}):eval()
    heed.no_grad(function()
      local source, target = heed.randn(2, 5, 8), heed.randn(2, 7, 8)
      local whole, cache = model(source, target), room(8)
      local step = heed.capture(function(t) return model(source, t, {cache = cache}) end)
      for i = 1, 7 do near(step(target:narrow(2, i, 1)), whole:narrow(2, i, 1)) end
      assert.equal(7, cache:length())
    end)
  end)

  it("goes back, and goes on in other rows", function()
    heed.manual_seed(3)
    local model, x = Model{rope = true}, heed.randn(2, 6, 8)
    heed.no_grad(function()
      local cache = room(8)
      local whole = model(x, CAUSAL)
      stepped(model, x, {5, 1}, cache, CAUSAL)
      assert.equal(6, cache:length())
      local copy = cache:clone()
      cache:truncate(4)
      local function rest(c, t) return stepped(model, t:narrow(2, 5, 2), {1, 1}, c, CAUSAL) end
      near(rest(cache, x), whole:narrow(2, 5, 2))
      assert.equal(6, copy:length())
      local other = x:index_select(1, heed.tensor{2, 1})
      near(rest(copy:truncate(4):reorder{2, 1}, other), model(other, CAUSAL):narrow(2, 5, 2))
    end)
  end)

  if heed.default_device() == "cpu" then it("is said to be full", function()
    local model = Model{}
    heed.no_grad(function()
      local cache, x = room(4), heed.randn(1, 1, 8)
      local long = heed.randn(1, 5, 8)
      assert.error_matches(function() model(long, {cache = cache, causal = true}) end,
                           "room for 4 positions, got 5")
      local step = heed.capture(function(t) return model(t, {cache = cache, causal = true}) end)
      for _ = 1, 4 do step(x) end
      assert.error_matches(function() step(x) end, "5.*1 to 4")
    end)
  end) end

  it("refuses what it cannot count", function()
    local model, x = Model{}, heed.randn(2, 3, 8)
    local function refused(pattern, o)
      o.cache = o.cache or room(4)
      assert.error_matches(function() heed.no_grad(model, x, o) end, pattern)
    end
    refused("option lengths: not with a capacity", {lengths = heed.tensor{1, 3}})
    refused("option keys: not with a capacity", {keys = heed.ones(2, 3):gt(0)})
    refused("option mask: not with a cache that has a capacity", {mask = heed.mask.window(1)})
    refused("option bias: not with a cache that has a capacity", {bias = heed.bias.alibi(4)})
    local cache = room(8)
    heed.no_grad(model, x, {cache = cache})
    assert.error_matches(function() heed.no_grad(model, x:narrow(1, 1, 1), {cache = cache}) end,
                         "2 rows expected, as before, got 1")
    assert.error_matches(function() cache:reorder{1} end, "as many rows as before expected, 2")
    assert.error_matches(function() cache:truncate(9) end, "at most 3 tokens expected, got 9")
    assert.error_matches(function() model(x, {cache = room(4)}) end, "holds no gradients")
    assert.error_matches(function() nn.Cache{capacity = 4, window = 2} end, "capacity or window")
    assert.error_matches(function() nn.Cache{capacity = 0} end, "capacity")
    assert.error_matches(function() return room(4).lenght end, "lenght")
    assert.matches("capacity 4", tostring(room(4)))
  end)
end)
