-- nn.Cache: a step with a cache gives what the pass over all tokens gives, and each row of a padded
-- batch what it gives alone.

local heed = require "heed"
local message = require "spec.support.message"
local stepping = require "spec.support.stepping"

local nn, Model = heed.nn, stepping.Model
local near, padded, stepped = stepping.near, stepping.padded, stepping.stepped

local CAUSAL <const> = {causal = true}

local LLAMA <const> = {
  rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4,
  original_max_position_embeddings = 16,
}

local function shifted(q, k, offset)
  local T, D = q:size(3), q:size(4)
  local device = {device = q.device}
  local at = heed.is_tensor(offset) and offset or heed.arange(offset, offset + T - 1, device)
  local waves = heed.sin(at:float():unsqueeze(-1) * heed.arange(D, device):float())
  if waves:dim() == 3 then waves = waves:unsqueeze(2) end
  return q + waves, k - waves
end

local models = {
  ["no positions"] = function() return Model{} end,
  ["rotary positions"] = function() return Model{rope = true} end,
  ["rotary positions that are scaled"] = function()
    return Model{rope = {base = 100, fraction = 1, scaling = LLAMA}}
  end,
  ["sinusoidal positions"] = function() return Model({}, heed.position.Sinusoidal()) end,
  ["learnt positions"] = function() return Model({}, heed.position.Learned(32, 8)) end,
  ["a position function"] = function() return Model{position = shifted} end,
  ["grouped heads"] = function() return Model{kv_heads = 2, rope = true} end,
  ["norms of queries and keys"] = function() return Model{qk_norm = true, rope = true} end,
  ["values of another size"] = function() return Model{value_dim = 3, rope = true} end,
  ["a gate"] = function() return Model{gate = true} end,
  ["slopes"] = function() return Model{position_bias = heed.bias.alibi(4)} end,
  ["buckets of distances"] = function()
    local bias = heed.bias.t5{heads = 4, buckets = 8, distance = 16, bidirectional = false}
    heed.no_grad(function() bias:parameters()[1]:normal_() end)
    return Model{position_bias = bias}
  end,
  ["a window in its mask"] = function() return Model{mask = heed.mask.window(2), rope = true} end,
  ["a sink"] = function() return Model{sink = true, rope = true} end,
  ["memory"] = function() return Model{memory = 3, rope = true, qk_norm = true} end,
}


describe("a step with a cache", function()
  for name, make in pairs(models) do
    it("equals the pass over all tokens, with " .. name, function()
      heed.manual_seed(1)
      local model, x = make(), heed.randn(2, 9, 8)
      local whole = model(x, CAUSAL)
      for _, chunks in ipairs{{4, 1, 1, 1, 1, 1}, {1, 3, 5}, {9}, {0, 9}} do
        near(stepped(model, x, chunks, nn.Cache(), CAUSAL), whole)
        heed.no_grad(function()
          near(stepped(model, x, chunks, nn.Cache(), CAUSAL), whole)
        end)
      end
    end)

    it("equals each row alone, padded on either side, with " .. name, function()
      heed.manual_seed(2)
      local model, tokens = make(), heed.randn(3, 5, 8)
      local nexts, lengths = heed.randn(3, 4, 8), {3, 5, 1}
      for _, side in ipairs{"left", "right", "keys on the right"} do
        local x, o, from = padded(tokens, lengths, side)
        local cache = nn.Cache()
        o.cache, o.causal = cache, true
        local first = heed.no_grad(model, x, o)
        assert.equal(5, cache:length())
        local later = heed.no_grad(stepped, model, nexts, {1, 2, 1}, cache, CAUSAL)
        for b, n in ipairs(lengths) do
          local row = heed.cat({tokens:narrow(1, b, 1):narrow(2, 1, n), nexts:narrow(1, b, 1)}, 2)
          local alone = model(row, CAUSAL)
          near(first:narrow(1, b, 1):narrow(2, from[b], n), alone:narrow(2, 1, n))
          near(later:narrow(1, b, 1), alone:narrow(2, n + 1, 4))
        end
      end
    end)
  end
end)


describe("a step of one sequence, or of nn.Attention", function()
  it("tells where tokens stand in no sequences, too", function()
    local model, cache = Model{rope = true}, nn.Cache()
    for i = 1, 3 do
      local x = heed.randn(0, 2, 8)
      assert.equal("(0, 2, 8)", tostring(model(x, {causal = true, cache = cache}).shape))
      assert.equal(2 * i, cache:length())
      assert.equal(2 * i, cache:positions(2))
    end
  end)

  it("equals the pass over all tokens", function()
    for _, layer in ipairs{nn.MultiHeadAttention(8, 2, {rope = true}), nn.Attention(8, 4)} do
      local x, context = heed.randn(6, 8), heed.randn(5, 8)
      local own, other = nn.Cache(), nn.Cache()
      local whole, weights = layer(x, {causal = true, weights = true})
      local crossing = nn.Attention(8)
      local whole2 = crossing(x, context)
      for i, part in ipairs(x:split(2, 1)) do
        local y, some = layer(part, {causal = true, weights = true, cache = own})
        near(y, whole:narrow(1, 2 * i - 1, 2))
        near(some, weights:narrow(-2, 2 * i - 1, 2):narrow(-1, 1, 2 * i))
        near((crossing(part, i == 1 and context or nil, {cache = other})),
             whole2:narrow(1, 2 * i - 1, 2))
      end
    end
  end)
end)


describe("a step of a model that attends to a context", function()
  local Decoder = nn.Module:extend("Decoder")

  function Decoder:init(options)
    self.attend = nn.MultiHeadAttention(8, 2, {rope = true})
    self.cross = nn.MultiHeadAttention(8, 4, options)
  end

  function Decoder:forward(x, context, o)
    x = x + self.attend(x, {cache = o.cache, causal = true})
    return x + self.cross(x, context, {
      cache = o.cache, lengths = o.context_lengths, keys = o.context_keys,
    })
  end

  local function decoder(options)
    heed.manual_seed(6)
    return Decoder(options), heed.randn(2, 5, 8), heed.randn(2, 7, 6)
  end

  for name, options in pairs{
    ["as it is"] = {}, ["with grouped heads"] = {kv_heads = 2}, ["with memory"] = {memory = 2},
    ["with norms"] = {qk_norm = true},
  } do
    it("equals the pass over all tokens, " .. name, function()
      options.context_dim = 6
      local model, x, context = decoder(options)
      local keys = heed.tensor{{0, 0, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0, 0}}:gt(0)
      for _, padding in ipairs{{}, {context_lengths = heed.tensor{3, 7}}, {context_keys = keys}} do
        local whole, cache = model(x, context, padding), nn.Cache()
        local first = model(x:narrow(2, 1, 2), context, {
          cache = cache, context_lengths = padding.context_lengths,
          context_keys = padding.context_keys,
        })
        near(first, whole:narrow(2, 1, 2))
        near(model(x:narrow(2, 3, 1), context, {cache = cache}), whole:narrow(2, 3, 1))
        near(model(x:narrow(2, 4, 2), nil, {cache = cache}), whole:narrow(2, 4, 2))
      end
    end)
  end

  it("computes keys and values of the context once", function()
    local model, x, context = decoder{context_dim = 6}
    local calls, key = 0, model.cross.key.forward
    model.cross.key.forward = function(...)
      calls = calls + 1
      return key(...)
    end
    stepped(function(part, o) return model(part, context, o) end, x, {2, 1, 1, 1}, nn.Cache())
    assert.equal(1, calls)
  end)

  it("goes with one context, of the same shape", function()
    local model, x, context = decoder{context_dim = 6}
    local cache = nn.Cache()
    model(x, context, {cache = cache})
    assert.matches("a context of shape %(2, 7, ...%) expected, which option cache holds, got a "
                   .. "tensor of shape %(2, 3, 6%)",
                   message(model, x, context:narrow(2, 1, 3), {cache = cache}))
    local own = nn.MultiHeadAttention(8, 2)
    cache = nn.Cache()
    own(x, {cache = cache})
    assert.matches("MultiHeadAttention attended to its own input before",
                   message(own, x, heed.randn(2, 3, 8), {cache = cache}))
  end)

  it("tells rope where its queries stand in the context", function()
    local layer = nn.MultiHeadAttention(8, 2, {rope = true})
    local x, context, cache = heed.randn(1, 3, 8), heed.randn(1, 5, 8), nn.Cache()
    assert.matches("rope needs option positions", message(layer, x, context, {cache = cache}))
    local whole = layer(x, context, {positions = heed.arange(2, 4)})
    layer(x:narrow(2, 1, 1), context, {positions = heed.tensor{2}, cache = cache})
    near(layer(x:narrow(2, 2, 2), {positions = heed.tensor{3, 4}, cache = cache}),
         whole:narrow(2, 2, 2))
  end)
end)


describe("a cache that grows", function()
  it("gives a mask only where a query may not attend to some key that is there", function()
    local layer, x = nn.ReLU(), heed.zeros(2, 2, 8)
    local k = heed.zeros(2, 1, 2, 4)
    local function last_mask(options, ...)
      local cache, mask = nn.Cache(options), nil
      for _, lengths in ipairs{...} do
        cache:place(layer, x, lengths or nil)
        mask = select(3, cache:append(layer, k, k))
        cache:commit(layer)
      end
      return mask and mask:dense(2, 1, 2, 2 * select("#", ...)):select(2, 1):totable() or nil
    end
    local whole, short, all = heed.tensor{2, 2}, heed.tensor{2, 1}, {true, true}
    assert.is_nil(last_mask({}, false))
    assert.is_nil(last_mask({}, whole, false, whole))
    assert.same({{all, all}, {{true, false}, {true, false}}}, last_mask({}, short))
    local uneven = {false, true, true, true}
    assert.same({{{true, true, true, true}, {true, true, true, true}}, {uneven, uneven}},
                last_mask({}, short, whole))
    assert.is_nil(last_mask({window = 4}, false, false))
    assert.is_nil(last_mask({window = 2, keep = 2}, false, false))
    assert.is_not_nil(last_mask({window = 3}, false, false))
    assert.is_not_nil(last_mask({window = 2, keep = 1}, false, false))
  end)
end)


describe("a cache with a window", function()
  local function layer_and_x(options)
    heed.manual_seed(7)
    return nn.MultiHeadAttention(8, 2, options), heed.randn(2, 11, 8)
  end

  local CHUNKS <const> = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 1, 2, 1, 1}, {2, 7, 2}, {11}}

  it("forgets what a mask of that width hides", function()
    for _, options in ipairs{{rope = true}, {position_bias = heed.bias.alibi(2)}} do
      local layer, x = layer_and_x(options)
      for window = 1, 4 do
        local whole = layer(x, {mask = heed.mask.window(window - 1), causal = true})
        for _, chunks in ipairs(CHUNKS) do
          local cache = nn.Cache{window = window}
          near(stepped(layer, x, chunks, cache, CAUSAL), whole)
          assert.equal(11, cache:length())
          near(heed.no_grad(stepped, layer, x, chunks, nn.Cache{window = window}, CAUSAL), whole)
        end
      end
    end
  end)

  it("keeps the first positions where it is told to", function()
    local layer, x = layer_and_x{rope = true}
    local mask = heed.mask.window(2) | heed.mask.prefix(2)
    local whole = layer(x, {mask = mask, causal = true})
    for _, chunks in ipairs(CHUNKS) do
      near(stepped(layer, x, chunks, nn.Cache{window = 3, keep = 2}, CAUSAL), whole)
      near(heed.no_grad(stepped, layer, x, chunks, nn.Cache{window = 3, keep = 2}, CAUSAL), whole)
    end
    for name, value in pairs{bias = heed.randn(11), mask = heed.mask.window(5)} do
      assert.matches("option " .. name .. ": not with a cache that keeps the first positions",
                     message(layer, x, {cache = nn.Cache{window = 3, keep = 1}, [name] = value}))
    end
  end)

  it("does both for each row of a padded batch", function()
    local layer, x = layer_and_x{rope = true}
    local lengths = {2, 4}
    for _, keep in ipairs{0, 1, 3} do
      local mask = heed.mask.window(1) | heed.mask.prefix(keep)
      for _, side in ipairs{"left", "right"} do
        local start, o = padded(x:narrow(2, 1, 4), lengths, side)
        o.cache, o.causal = nn.Cache{window = 2, keep = keep}, true
        layer(start, o)
        local later = stepped(layer, x:narrow(2, 5, 7), {2, 1, 1, 3}, o.cache, CAUSAL)
        for b, n in ipairs(lengths) do
          local one = x:narrow(1, b, 1)
          local row = heed.cat({one:narrow(2, 1, n), one:narrow(2, 5, 7)}, 2)
          local whole = layer(row, {mask = mask, causal = true})
          near(later:narrow(1, b, 1), whole:narrow(2, n + 1, 7))
        end
      end
    end
  end)

  it("keeps them where a later call has padding, too", function()
    local layer = layer_and_x{rope = true}
    local cache, lengths = nn.Cache{window = 2, keep = 3}, {{2, 4}, {5, 5}, {2, 1}, {2, 2}}
    local rows, got = {{}, {}}, {{}, {}}
    for i, T in ipairs{4, 5, 2, 2} do
      local part = heed.randn(2, T, 8)
      local y = layer(part, {cache = cache, causal = true, lengths = heed.tensor(lengths[i])})
      for b, n in ipairs(lengths[i]) do
        rows[b][i], got[b][i] = part[{{b, b}, {1, n}}], y[{{b, b}, {1, n}}]
      end
    end
    local mask = heed.mask.window(1) | heed.mask.prefix(3)
    for b = 1, 2 do
      near(heed.cat(got[b], 2), layer(heed.cat(rows[b], 2), {mask = mask, causal = true}))
    end
  end)

  it("holds no more than it needs", function()
    local layer = nn.MultiHeadAttention(8, 2)
    local cache, most = nn.Cache{window = 4}, 0
    heed.no_grad(function()
      for _ = 1, 200 do
        layer(heed.randn(1, 1, 8), {cache = cache, causal = true})
        for _, slot in pairs(cache.slots) do most = math.max(most, slot.held.k:size(3)) end
      end
    end)
    assert.is_true(most <= 8, most)
  end)
end)
