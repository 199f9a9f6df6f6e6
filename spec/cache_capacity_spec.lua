-- A cache of a fixed capacity: steps give what the pass over all tokens gives, also captured.

local heed = require "heed"
local stepping = require "spec.support.stepping"

local nn, Model = heed.nn, stepping.Model
local near, stepped = stepping.near, stepping.stepped

-- Composed operations read values back.
local it = os.getenv "HEED_BUILD" == "basic" and pending or it

local CAUSAL <const> = {causal = true}
local ON_CPU <const> = heed.default_device() == "cpu"
-- A GPU's number of tokens is not read before a step.
local FULL <const> = ON_CPU and "room for 4 positions, got 5"
                     or "index [5-8] at position 1 is outside"

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


local function capacity(n) return nn.Cache{capacity = n} end


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
          near(stepped(model, x, chunks, capacity(12), CAUSAL), whole)
        end
        local by_hand = decoded(model, x, 3, capacity(9), eager)
        local captured = decoded(model, x, 3, capacity(9), heed.capture)
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
      local whole, cache = model(source, target), capacity(8)
      local calls = 0
      local step = heed.capture(function(t)
        calls = calls + 1
        return model(source, t, {cache = cache})
      end)
      for i = 1, 7 do near(step(target:narrow(2, i, 1)), whole:narrow(2, i, 1)) end
      assert.equal(7, cache:length())
      assert.is_true(calls < 5, calls)           -- the others were replayed
    end)
  end)

  it("goes back, and goes on in other rows", function()
    heed.manual_seed(3)
    local model, x = Model{rope = true}, heed.randn(2, 6, 8)
    heed.no_grad(function()
      local cache = capacity(8)
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

  it("is said to be full, and goes on after truncate", function()
    heed.manual_seed(4)
    local model, x = Model{rope = true}, heed.randn(1, 5, 8)
    heed.no_grad(function()
      local whole, cache = model(x, CAUSAL), capacity(4)
      if ON_CPU then
        assert.error_matches(function() model(x, {cache = cache, causal = true}) end,
                             "room for 4 positions, got 5")
        assert.equal(0, cache:length())
      end
      local step = heed.capture(function(t) return model(t, {cache = cache, causal = true}) end)
      local function take(i) return step(x:narrow(2, i, 1)) end
      for i = 1, 4 do near(take(i), whole:narrow(2, i, 1)) end
      for _ = 1, 3 do
        assert.error_matches(function() take(5):sum():item() end, FULL)
        assert.equal(4, cache:length())
      end
      cache:truncate(2)
      for i = 3, 4 do near(take(i), whole:narrow(2, i, 1)) end
      assert.equal(4, cache:length())
    end)
  end)

  it("gives weights a column for each position", function()
    local layer, x, cache = nn.MultiHeadAttention(8, 4), heed.randn(1, 3, 8), capacity(5)
    heed.no_grad(function()
      local _, whole = layer(x, {causal = true, weights = true})
      local _, weights = layer(x, {causal = true, weights = true, cache = cache})
      assert.equal("(1, 4, 3, 5)", tostring(weights.shape))
      near(weights, heed.cat({whole, heed.zeros(1, 4, 3, 2)}, 4))
    end)
  end)

  it("attends to the keys of the first call alone, as one that grows", function()
    local attention = require "heed.internal.attention"
    local run, seen = attention.run, {}
    attention.run = function(q, k, ...)
      seen[#seen + 1] = k:size(3)
      return run(q, k, ...)
    end
    local mask = heed.mask.window(1)
    local done, why = pcall(heed.no_grad, function()
      for _, o in ipairs{{causal = true}, {}, {causal = true, mask = mask}} do
        local layer, x = nn.MultiHeadAttention(8, 4, {rope = true}), heed.randn(2, 3, 8)
        o.cache = nn.Cache()
        local grown = layer(x, o)
        o.cache = capacity(5)
        assert.is_true(grown:equal(layer(x, o)))
        o.causal = true
        layer(x:narrow(2, 1, 1), o)
      end
    end)
    attention.run = run
    assert(done, why)
    assert.same({3, 3, 5, 3, 3, 5, 3, 3, 5}, seen)
  end)

  for what, mask in pairs{
    ["a window"] = heed.mask.window(2), ["every other key"] = heed.mask.every(2),
    ["a joined mask"] = heed.mask.window(1) | heed.mask.every(3) & ~heed.mask.window(3),
  } do
    it("takes a mask of distances: " .. what, function()
      for _, o in ipairs{{}, {rope = true}, {kv_heads = 2}} do
        local layer, x = nn.MultiHeadAttention(8, 4, o), heed.randn(2, 9, 8)
        heed.no_grad(function()
          local whole, cache = layer(x, {causal = true, mask = mask}), capacity(11)
          local function call(t) return layer(t, {cache = cache, causal = true, mask = mask}) end
          near(call(x:narrow(2, 1, 4)), whole:narrow(2, 1, 4))
          near(call(x:narrow(2, 5, 1)), whole:narrow(2, 5, 1))
          near(call(x:narrow(2, 6, 2)), whole:narrow(2, 6, 2))
          cache:truncate(3)
          local single = {cache = cache, mask = mask}
          for i = 4, 9 do near(layer(x:narrow(2, i, 1), single), whole:narrow(2, i, 1)) end
        end)
      end
    end)
  end

  it("replays steps with a mask of distances", function()
    local mask = heed.mask.window(2)
    local layer, x = nn.MultiHeadAttention(8, 4, {mask = mask}), heed.randn(1, 9, 8)
    heed.no_grad(function()
      local whole, cache = layer(x, {causal = true}), capacity(9)
      local other = capacity(9)                            -- of which the recording makes the row
      local step = heed.capture(function(t, which)
        return layer(t, {cache = which and cache or other})
      end)
      for _, which in ipairs{true, false} do
        layer(x:narrow(2, 1, 2), {cache = which and cache or other, causal = true})
        for i = 3, 9 do near(step(x:narrow(2, i, 1), which), whole:narrow(2, i, 1)) end
      end
    end)
  end)

  it("refuses what it cannot count", function()
    local model, x = Model{}, heed.randn(2, 3, 8)
    local function refused(pattern, o)
      o.cache = o.cache or capacity(4)
      assert.error_matches(function() heed.no_grad(model, x, o) end, pattern)
    end
    refused("option lengths: not with a capacity", {lengths = heed.tensor{1, 3}})
    refused("option keys: not with a capacity", {keys = heed.ones(2, 3):gt(0)})
    for _, mask in ipairs{heed.mask.window(1), heed.mask.prefix(2), heed.ones(3, 3):gt(0),
                          heed.mask.tensor(heed.ones(3, 3):gt(0)) & heed.mask.causal()} do
      refused("option mask: not with a cache that has a capacity", {mask = mask})
    end
    refused("option mask: not with a cache that has a capacity",
            {mask = heed.mask.prefix(2), causal = true})
    refused("option bias: not with a cache that has a capacity", {bias = heed.bias.alibi(4)})
    local cache = capacity(8)
    heed.no_grad(model, x, {cache = cache})
    assert.error_matches(function() heed.no_grad(model, x:narrow(1, 1, 1), {cache = cache}) end,
                         "2 rows expected, as before, got 1")
    assert.error_matches(function() cache:reorder{1} end, "as many rows as before expected, 2")
    assert.error_matches(function() cache:truncate(9) end, "at most 3 tokens expected, got 9")
    assert.error_matches(function() model(x, {cache = capacity(4)}) end, "holds no gradients")
    assert.error_matches(function() nn.Cache{capacity = 4, window = 2} end, "capacity or window")
    assert.error_matches(function() nn.Cache{capacity = 0} end, "capacity")
    assert.error_matches(function() return capacity(4).lenght end, "lenght")
    assert.matches("0 of 4 tokens", tostring(capacity(4)))
  end)
end)


describe("a call that is not causal, with a cache of a fixed capacity", function()
  local makes = {
    ["a layer"] = function() return nn.MultiHeadAttention(8, 4, {rope = true}) end,
    ["a layer of one head"] = function()
      local layer = nn.Attention(8)
      return function(x, o) return (layer(x, {cache = o.cache, weights = false})) end
    end,
    ["an encoder"] = function() return nn.Encoder(8, 4, 2, {norm = "pre", rope = true}):eval() end,
    ["a decoder"] = function()
      local model = nn.Decoder(8, 4, 2, {cross = false}):eval()
      return function(x, o) return model(x, {cache = o.cache, causal = false}) end
    end,
  }
  for name, make in pairs(makes) do
    it("attends to all keys that are there: " .. name, function()
      heed.manual_seed(5)
      local model, x = make(), heed.randn(2, 9, 8)
      heed.no_grad(function()
        for _, chunks in ipairs{{9}, {3, 2, 2, 1, 1}, {2, 2, 2, 2}} do
          local whole = stepped(model, x, chunks, nn.Cache())
          near(stepped(model, x, chunks, capacity(12)), whole)
          local step = heed.capture(function(t, o) return model(t, o) end)
          near(stepped(function(...) return step(...):clone() end, x, chunks, capacity(12)), whole)
        end
      end)
    end)
  end

  it("is told apart from a causal one", function()
    local cache, layer, x = capacity(4), nn.MultiHeadAttention(8, 4), heed.randn(1, 2, 8)
    local k = heed.zeros(1, 4, 2, 2)
    heed.no_grad(function()
      cache:place(layer, x)
      assert.error_matches(function() cache:append(layer, k, k) end,
                           "a boolean expected .*causal, got nil")
      local _, _, mask = cache:append(layer, k, k, false)
      assert.not_equal(tostring(mask), tostring(select(3, cache:append(layer, k, k, true))))
    end)
  end)
end)


describe("a call that failed, with a cache", function()
  -- A decoder whose second layer may be told to fail.
  local function failing()
    local model = nn.Decoder(8, 4, 2, {norm = "pre", cross = false, rope = true}):eval()
    local second, o = model.layers[2], {}
    local forward = second.forward
    second.forward = function(...)
      if o.fails then error("boom", 0) end
      return forward(...)
    end
    return model, o
  end

  for name, new in pairs{grows = function() return nn.Cache() end,
                         ["has a capacity"] = function() return capacity(16) end} do
    it("is noticed by one that " .. name, function()
      heed.manual_seed(6)
      local model, o = failing()
      local x = heed.randn(1, 4, 8)
      heed.no_grad(function()
        local cache = new()
        local function call() return model(x, {cache = cache}) end
        o.fails = true
        assert.error_matches(call, "boom")
        o.fails = false
        assert.error_matches(call, "of a call that failed.*make a new nn.Cache")
        cache = new()
        near(call(), model(x))
        o.fails = true
        assert.error_matches(call, "boom")
        o.fails = false
        assert.error_matches(call, "the last call did not reach.*make a new nn.Cache")
        assert.error_matches(function() cache:length() end, "did not reach")
        assert.error_matches(function() cache:reorder{1} end, "did not reach")
        assert.error_matches(function() cache:truncate(0) end, "did not reach")
      end)
    end)

    it("is noticed by one that " .. name .. " where it failed behind its last layer", function()
      heed.manual_seed(7)
      local Outer, o = nn.Module:extend("Outer"), {}
      function Outer:init() self.body = failing() end
      function Outer:forward(x, given)
        local y = self.body(x, given)
        if o.fails then error("boom", 0) end
        return y
      end
      local model, x = Outer():eval(), heed.randn(1, 4, 8)
      local wanted = heed.no_grad(model, x)
      heed.no_grad(function()
        local cache = new()
        local function call(t) return model(t, {cache = cache}) end
        o.fails = true
        assert.error_matches(function() call(x) end, "boom")
        o.fails = false
        assert.error_matches(function() call(x) end, "of a call that failed.*make a new nn.Cache")
        cache = new()
        near(call(x:narrow(2, 1, 2)), wanted:narrow(2, 1, 2))
        o.fails = true
        assert.error_matches(function() call(x:narrow(2, 3, 1)) end, "boom")
        o.fails = false
        for _ = 1, 2 do
          assert.error_matches(function() call(x:narrow(2, 3, 1)) end,
                               "failed behind its last layer, and 1 token.*truncate")
        end
        assert.equal(3, cache:length())
        cache:truncate(2)
        near(call(x:narrow(2, 3, 2)), wanted:narrow(2, 3, 2))
      end)
    end)

    it("is noticed by one that " .. name .. " where a function failed in a pass", function()
      local layer, x = nn.MultiHeadAttention(8, 4):eval(), heed.randn(1, 3, 8)
      heed.no_grad(function()
        local cache, fails = new(), false
        local function twice(t, o)
          local y = layer(layer(t, o), o)
          if fails then error("boom", 0) end
          return y
        end
        local wanted = twice(x, {causal = true})
        local function call(t) return cache:pass(twice, t, {causal = true, cache = cache}) end
        call(x:narrow(2, 1, 2))
        fails = true
        assert.error_matches(function() call(x:narrow(2, 3, 1)) end, "boom")
        fails = false
        assert.error_matches(function() call(x:narrow(2, 3, 1)) end, "failed behind its last")
        cache:truncate(2)
        near(call(x:narrow(2, 3, 1)), wanted:narrow(2, 3, 1))
      end)
    end)

    it("counts nothing where one that " .. name .. " was refused", function()
      local model, x = failing(), heed.randn(1, 3, 8)
      heed.no_grad(function()
        local cache = new()
        local function refused(o)
          o.cache = cache
          assert.error(function() model(x, o) end)
        end
        refused{mask = heed.ones(2, 2):gt(0)}
        refused{keys = heed.ones(7, 3):gt(0)}
        assert.equal(0, cache:length())
        near(model(x, {cache = cache}), model(x))
        refused{mask = heed.ones(2, 2):gt(0)}
        refused{scale = "much"}
        assert.equal(3, cache:length())
        local again = heed.cat({x, x}, 2)
        near(model(x, {cache = cache}), model(again):narrow(2, 4, 3))
      end)
    end)
  end
end)


describe("a cache, while work is captured,", function()
  -- f's first call is no captured one.
  local function captured(f, ...)
    local g = heed.capture(f)
    g(...)
    return g(...)
  end

  it("may not grow", function()
    local layer, x = nn.MultiHeadAttention(8, 4), heed.randn(1, 1, 8)
    local context = heed.randn(1, 5, 8)
    for _, cache in ipairs{nn.Cache(), nn.Cache{window = 3}} do
      local cross = nn.Cache()
      local uses = {
        function(t) return layer(t, {causal = true, cache = cache}) end,
        function(t) return layer(t, context, {cache = cross}) end,
        function(t) return t + cache:length() end,
        function(t) return t + cache:place(layer, t) end,
        function(t) return t + cache:positions(1) end,
        function(t) cache:reorder{1} return t + 1 end,
        function(t) cache:truncate(1) return t + 1 end,
        function(t) cache:clone() return t + 1 end,
      }
      for _, f in ipairs(uses) do
        heed.no_grad(assert.error_matches, function() captured(f, x) end,
                     "cannot be captured, .*nn.Cache{capacity = n}")
      end
      assert.equal(1, cache:length())
    end
    local LM = nn.Module:extend("LM")
    function LM:init() self.embed, self.layer = nn.Embedding(8, 8), layer end
    function LM:forward(ids, o) return self.layer(self.embed(ids), o) end
    local model = heed.capture(LM())
    assert.error_matches(function() heed.generate(model, heed.tensor{1, 2}, {max = 4}) end,
                         "cannot be captured, .*nn.Cache{capacity = n}")
  end)

  it("has its buffers already", function()
    local layer, x, context = nn.MultiHeadAttention(8, 4), heed.randn(1, 1, 8), heed.randn(1, 5, 8)
    local cache = capacity(4)
    local function step(t) return layer(t, {causal = true, cache = cache}) end
    local function cross(t) return layer(t, context, {cache = cache}) end
    for _, f in ipairs{step, cross} do
      local g = heed.capture(f)
      cache = capacity(4)
      heed.no_grad(g, x)
      cache = capacity(4)
      assert.error_matches(function() heed.no_grad(g, x) end, "cannot be captured; call .* before")
      heed.no_grad(f, x)
      heed.no_grad(g, x)
      assert.equal(f == step and 2 or 0, cache:length())
    end
  end)

  it("is never taken for one that is gone", function()
    local layer, x = nn.MultiHeadAttention(8, 4), heed.randn(1, 2, 8)
    heed.no_grad(function()
      local first = layer(x, {cache = capacity(4)})
      local step = heed.capture(function(t, cache) return layer(t, {cache = cache}) end)
      for i = 1, 200 do
        near(step(x, capacity(4)), first)
        if i % 10 == 0 then collectgarbage() end
      end
    end)
  end)

  it("serves all layers of a step", function()
    local a, b, x = nn.MultiHeadAttention(8, 4), nn.MultiHeadAttention(8, 4), heed.randn(1, 1, 8)
    heed.no_grad(function()
      local cache = capacity(8)
      local function call(layer) return function(t) return layer(t, {cache = cache}) end end
      local first, second = heed.capture(call(a)), heed.capture(call(b))
      second(first(x))
      assert.equal(1, cache:length())
      assert.error_matches(function() second(first(x)) end, "all layers of a model expected")
      cache = capacity(8)
      call(b)(call(a)(x))
      call(a)(x)
      assert.error_matches(function() second(x) end, "all layers of a model expected")
      cache = capacity(8)
      first = heed.capture(call(a))
      call(b)(first(x))
      first(x)
      assert.error_matches(function() first(x) end, "did not reach")
    end)
  end)
end)


describe("rows of a context, in a cache of a fixed capacity,", function()
  it("change places in all layers, and nowhere else", function()
    heed.manual_seed(7)
    local model = nn.Decoder(8, 2, 2, {norm = "pre"}):eval()
    local context, x = heed.randn(2, 5, 8), heed.randn(2, 3, 8)
    local lengths, other = heed.tensor{5, 2}, heed.tensor{2, 1}
    heed.no_grad(function()
      local cache = capacity(4)
      local function step(c, t, i)
        local o = {cache = c, context_lengths = lengths}
        return model(t:narrow(2, i, 1), context, o)
      end
      local whole = model(x, context, {context_lengths = lengths})
      step(cache, x, 1)
      local copy = cache:clone()
      cache:reorder(other)
      assert.equal(lengths:data(), heed.tensor{5, 2}:data())
      near(step(copy, x, 2), whole:narrow(2, 2, 1))
      local moved = model(x:narrow(2, 2, 1):index_select(1, other), {cache = cache})
      near(moved, whole:narrow(2, 2, 1):index_select(1, other))
    end)
  end)
end)
