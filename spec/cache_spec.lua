-- nn.Cache: a step with a cache gives what the pass over all tokens gives, and each row of a padded
-- batch what it gives alone.

local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn

local NEAR <const> = {rtol = 1e-5, atol = 1e-5}

local function near(a, b)
  assert.equal(tostring(a.shape), tostring(b.shape))
  local good = a:allclose(b, NEAR)
  assert(good, good or ("differs by %g"):format((a - b):abs():max():item()))
end


-- x in chunks of so many tokens; the results, joined.
local function stepped(model, x, chunks, cache, o)
  local parts, at = {}, 1
  for i, n in ipairs(chunks) do
    local given = {cache = cache}
    for name, value in pairs(o or {}) do given[name] = value end
    parts[i] = model(x:narrow(2, at, n), given)
    at = at + n
  end
  return heed.cat(parts, 2)
end


-- Layers one after the other, which pass on their options; positions are added at the front.
local Model = nn.Module:extend("Model")

function Model:init(options, position)
  self.position = position or false
  self.layers = {nn.MultiHeadAttention(8, 4, options), nn.MultiHeadAttention(8, 4, options)}
end

function Model:forward(x, o)
  if self.position then x = self.position(x, {cache = o.cache, keys = o.keys}) end
  for _, layer in ipairs(self.layers) do x = x + layer(x, o) end
  return x
end


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

-- The first tokens of each row with padding on a side; the options that say so, and the column of
-- each row's first token.
local function padded(tokens, lengths, side)
  local B, T = tokens:size()
  local x, present, from = heed.randn(tokens.shape), heed.zeros(B, T), {}
  for b, n in ipairs(lengths) do
    from[b] = side == "left" and T - n + 1 or 1
    x[b]:narrow(1, from[b], n):copy_(tokens[b]:narrow(1, 1, n))
    present[b]:narrow(1, from[b], n):fill_(1)
  end
  if side == "right" then return x, {lengths = heed.tensor(lengths)}, from end
  return x, {keys = present:gt(0)}, from
end


local CAUSAL <const> = {causal = true}


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
    assert.matches("option bias: a cache with keep",
                   message(layer, x, {
                     cache = nn.Cache{window = 3, keep = 1}, bias = heed.randn(11),
                   }))
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


describe("a cache", function()
  local function model_and_x()
    heed.manual_seed(8)
    return Model{rope = true, kv_heads = 2}, heed.randn(3, 8, 8)
  end

  local function rows_of(x, ids) return x:index_select(1, heed.tensor(ids)) end

  it("says how long it is, and where the next tokens stand", function()
    local model, x = model_and_x()
    local cache = nn.Cache()
    assert.equal(0, cache:length())
    assert.equal(0, cache:positions(4))
    model(x, {cache = cache, lengths = heed.tensor{8, 8, 8}})
    assert.equal(8, cache:length())
    assert.equal(8, cache:positions(4))
    cache = nn.Cache()
    local left = heed.tensor{{0, 0, 1}, {0, 1, 1}, {0, 1, 1}}:gt(0)
    assert.same({{0, 0, 0}, {0, 0, 1}, {0, 0, 1}}, cache:positions(3, {keys = left}):totable())
    model(x:narrow(2, 1, 3), {cache = cache, keys = left})
    assert.equal(2, cache:length())              -- a column of padding alone is dropped
    assert.same({{1, 2}, {2, 3}, {2, 3}}, cache:positions(2):totable())
    assert.equal("int64", cache:positions(2).dtype)
  end)

  it("takes padding behind the tokens of any call", function()
    local model, x = model_and_x()
    local cache, lengths = nn.Cache(), {{2, 3, 1}, {1, 3, 3}, {2, 0, 1}}
    local parts = x:split({3, 3, 2}, 2)
    local rows, got = {{}, {}, {}}, {{}, {}, {}}
    for i, part in ipairs(parts) do
      local y = model(part, {cache = cache, causal = true, lengths = heed.tensor(lengths[i])})
      for b, n in ipairs(lengths[i]) do
        table.insert(rows[b], part:narrow(1, b, 1):narrow(2, 1, n))
        table.insert(got[b], y:narrow(1, b, 1):narrow(2, 1, n))
      end
    end
    for b = 1, 3 do near(heed.cat(got[b], 2), model(heed.cat(rows[b], 2), CAUSAL)) end
    assert.equal(6, cache:length())
    assert.matches("padding on the left in the first call only, got row 2 whose first token is "
                   .. "column 2", message(model, parts[3], {
                     cache = cache, keys = heed.tensor{{1, 1}, {0, 1}, {1, 1}}:gt(0),
                   }))
  end)

  it("hides padding where calls are not causal", function()
    local model, x = model_and_x()
    for _, side in ipairs{"left", "right"} do
      local lengths = {2, 4, 1}
      local start, o, from = padded(x:narrow(2, 1, 4), lengths, side)
      o.cache = nn.Cache()
      local y, later = model(start, o), model(x:narrow(2, 5, 2), {cache = o.cache})
      for b, n in ipairs(lengths) do
        local one, alone = x:narrow(1, b, 1), nn.Cache()
        near(y:narrow(1, b, 1):narrow(2, from[b], n), model(one:narrow(2, 1, n), {cache = alone}))
        near(later:narrow(1, b, 1), model(one:narrow(2, 5, 2), {cache = alone}))
      end
    end
  end)

  it("puts rows into another order, and has more or fewer of them", function()
    local model, x = model_and_x()
    for _, ids in ipairs{{2, 3, 1}, {1, 1, 3, 3, 2}, {3}, heed.tensor{2, 2}} do
      local cache, list = nn.Cache(), heed.is_tensor(ids) and ids:totable() or ids
      local lengths = {3, 1, 2}
      heed.no_grad(model, x:narrow(2, 1, 3), {
        cache = cache, causal = true, lengths = heed.tensor(lengths),
      })
      heed.no_grad(stepped, model, x:narrow(2, 4, 2), {1, 1}, cache, CAUSAL)
      assert.equal(cache, cache:reorder(ids))
      local new = rows_of(x, list):narrow(2, 6, 3)
      local later = heed.no_grad(stepped, model, new, {1, 2}, cache, CAUSAL)
      for i, b in ipairs(list) do
        local old = x:narrow(1, b, 1)
        local row = heed.cat({old:narrow(2, 1, lengths[b]), old:narrow(2, 4, 2),
                              new:narrow(1, i, 1)}, 2)
        near(later:narrow(1, i, 1), model(row, CAUSAL):narrow(2, lengths[b] + 3, 3))
      end
    end
    local cache = nn.Cache()
    model(x, {cache = cache})
    assert.matches("reorder: rows from 1 to 3 expected, got 0 at position 2",
                   message(cache.reorder, cache, {1, 0}))
    assert.matches("reorder: rows from 1 to 3 expected, got 4 at position 1",
                   message(cache.reorder, cache, heed.tensor{4}))
    assert.matches("reorder: an int64 tensor of one dimension, or a list of rows expected, got a "
                   .. "tensor", message(cache.reorder, cache, heed.tensor{1.0}))
  end)

  it("reorders what it holds of a context, with its padding", function()
    heed.manual_seed(9)
    local layer, x, context = nn.MultiHeadAttention(8, 2), heed.randn(2, 1, 8), heed.randn(2, 4, 8)
    local lengths, cache = heed.tensor{2, 4}, nn.Cache()
    layer(x, context, {cache = cache, lengths = heed.tensor{3}})
    cache:reorder{2, 1, 1}
    near(layer(rows_of(x, {1, 1, 2}), {cache = cache}),
         layer(rows_of(x, {1, 1, 2}), rows_of(context, {2, 1, 1}), {lengths = heed.tensor{3}}))
    cache = nn.Cache()
    layer(x, context, {cache = cache, lengths = lengths})
    cache:reorder{2, 1, 1}
    near(layer(rows_of(x, {1, 1, 2}), {cache = cache}),
         layer(rows_of(x, {1, 1, 2}), rows_of(context, {2, 1, 1}), {
           lengths = heed.tensor{4, 2, 2},
         }))
  end)

  it("forgets the last tokens", function()
    local model, x = model_and_x()
    for _, lengths in ipairs{{4, 4, 4}, {2, 4, 1}} do
      local cache = nn.Cache()
      local o = {cache = cache, causal = true, lengths = heed.tensor(lengths)}
      heed.no_grad(function()
        model(x:narrow(2, 1, 4), o)
        stepped(model, x:narrow(2, 5, 3), {1, 2}, cache, CAUSAL)
        cache:truncate(5)
        assert.equal(5, cache:length())
        local later = stepped(model, x:narrow(2, 7, 2), {1, 1}, cache, CAUSAL)
        for b, n in ipairs(lengths) do
          local one = x:narrow(1, b, 1)
          local row = heed.cat({one:narrow(2, 1, n), one:narrow(2, 5, 1), one:narrow(2, 7, 2)}, 2)
          near(later:narrow(1, b, 1), model(row, CAUSAL):narrow(2, n + 2, 2))
        end
        cache:truncate(0)
        near(model(x, {cache = cache, causal = true}), model(x, CAUSAL))
      end)
    end
    local cache = nn.Cache{window = 3}
    model(x, {cache = cache})
    assert.matches("truncate: at most 8 tokens expected, got 9", message(cache.truncate, cache, 9))
    assert.matches("the tokens before the window of 3 are forgotten",
                   message(cache.truncate, cache, 7))
  end)

  it("is copied, and each goes its own way", function()
    local model, x = model_and_x()
    heed.no_grad(function()
      local cache = nn.Cache()
      stepped(model, x:narrow(2, 1, 4), {2, 1, 1}, cache, CAUSAL)
      local copy = cache:clone()
      near(stepped(model, x:narrow(2, 5, 4), {1, 3}, cache, CAUSAL),
           model(x, CAUSAL):narrow(2, 5, 4))
      local other = heed.cat({x:narrow(2, 1, 4), x:narrow(2, 1, 2)}, 2)
      near(model(x:narrow(2, 1, 2), {cache = copy, causal = true}),
           model(other, CAUSAL):narrow(2, 5, 2))
      assert.equal(6, copy:length())
      assert.equal(8, cache:length())
      copy = cache:clone()
      for _, one in ipairs{cache:truncate(5), copy} do
        near(model(x:narrow(2, 1, 1), {cache = one, causal = true}),
             model(heed.cat({x:narrow(2, 1, one:length() - 1), x:narrow(2, 1, 1)}, 2), CAUSAL)
               :narrow(2, one:length(), 1))
      end
      assert.equal(0, nn.Cache():clone():length())
    end)
  end)

  it("gives the gradients of the pass over all tokens", function()
    local model, x = model_and_x()
    x:requires_grad_()
    local w = heed.randn(x.shape)
    local inputs = model:parameters()
    table.insert(inputs, x)
    local function gradients(y) return heed.grad((y * w):sum(), inputs) end
    local wanted = gradients(model(x, CAUSAL))
    local got = gradients(stepped(model, x, {3, 1, 4}, nn.Cache(), CAUSAL))
    for i, g in ipairs(got) do near(g, wanted[i]) end
    local lengths, cache = heed.tensor{3, 1, 2}, nn.Cache{window = 3, keep = 1}
    model(x:narrow(2, 1, 3), {cache = cache, causal = true, lengths = lengths})
    for i, g in ipairs(gradients(stepped(model, x, {3, 1, 4}, cache, CAUSAL))) do
      assert.is_true(g:isfinite():all(), i)
    end
  end)

  it("writes nothing into what a graph has saved", function()
    local model, x = model_and_x()
    local cache = nn.Cache()
    local y = stepped(model, x:narrow(2, 1, 5), {3, 2}, cache, CAUSAL)
    cache:truncate(4)
    heed.no_grad(stepped, model, x:narrow(2, 5, 4), {1, 1, 1, 1}, cache, CAUSAL)
    y:sum():backward()
    near(model.layers[2].out.bias.grad, heed.ones(8) * 15)
  end)

  it("holds 16-bit types", function()
    local model, x = model_and_x()
    for _, dtype in ipairs{"bfloat16", "float16"} do
      local narrow = x:to(dtype)
      local whole = model:to(dtype)(narrow, CAUSAL)
      local y = heed.no_grad(stepped, model, narrow, {3, 1, 4}, nn.Cache(), CAUSAL)
      assert.equal(dtype, y.dtype)
      assert.is_true(y:float():allclose(whole:float(), {rtol = 0.02, atol = 0.02}))
    end
  end)

  it("outlives a scope", function()
    local model, x = model_and_x()
    local cache = nn.Cache()
    for i, part in ipairs(x:split(2, 2)) do
      local y = heed.no_grad(heed.scope, model, part, {cache = cache, causal = true})
      near(y, model(x, CAUSAL):narrow(2, 2 * i - 1, 2))
    end
  end)

  it("is for one model, one batch, one type, and calls that succeed", function()
    local model, x = model_and_x()
    local cache = nn.Cache()
    stepped(model, x, {7, 1}, cache)
    assert.matches("nn.Cache: it holds the keys of another model, or of a call that failed: "
                   .. "MultiHeadAttention was not there", message(Model{}, x, {cache = cache}))
    assert.matches("nn.Cache: 3 rows expected, as before, got 2",
                   message(model, x:narrow(1, 1, 2), {cache = cache}))
    assert.matches("the cache knows where the queries stand",
                   message(model, x, {cache = cache, causal = true, offset = 1}))
    assert.matches("keys of type float32 expected, as before, got float64",
                   message(model:to("float64"), x:to("float64"), {cache = cache}))
    model:to("float32")
    assert.equal(8, cache:length())
    local wrong = heed.ones(1, 1, 3, 3):gt(0)
    assert.matches("argument 'mask'", message(model, x, {cache = cache, mask = wrong}))
    cache = nn.Cache()
    model(x, {cache = cache, causal = true})
    assert.is_false(pcall(model, x, {cache = cache, mask = wrong}))
    near(model(x:narrow(2, 1, 1), {cache = cache, causal = true}),    -- which left no trace
         model(heed.cat({x, x:narrow(2, 1, 1)}, 2), CAUSAL):narrow(2, 9, 1))
    model.layers[2].forward = function() error("mine") end
    assert.matches("mine", message(model, x, {cache = cache}))
    model.layers[2].forward = nil
    assert.matches("the last call did not reach MultiHeadAttention",
                   message(model, x, {cache = cache}))
    assert.matches("the last call did not reach", message(cache.length, cache))
  end)

  it("refuses masks by the number of a key, once columns have moved", function()
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(2, 6, 8)
    local function try(cache, lengths)
      local o = {cache = cache, lengths = lengths, mask = heed.mask.window(1) | heed.mask.prefix(2)}
      layer(x:narrow(2, 1, 4), o)
      o.lengths = nil
      return pcall(layer, x:narrow(2, 5, 1), o)
    end
    assert.is_true(try(nn.Cache()))
    assert.is_true(try(nn.Cache(), heed.tensor{4, 4}))
    for _, cache in ipairs{nn.Cache(), nn.Cache{window = 2}} do
      local good, why = try(cache, heed.tensor{3, cache.window and 4 or 2})
      assert.is_false(good)
      assert.matches("option mask: one that counts from the query's position expected.*"
                     .. "got window%(1, 0%) | prefix%(2%)", why)
    end
    assert.is_false((try(nn.Cache{window = 2})))
  end)

  it("refuses padding that it can't hold", function()
    local model, x = model_and_x()
    local function why(o)
      o.cache = nn.Cache()
      return message(model, x:narrow(2, 1, 3), o)
    end
    assert.matches("padding at the ends of a row expected as keys, got row 2 with holes",
                   why{keys = heed.tensor{{1, 1, 1}, {1, 0, 1}, {1, 1, 1}}:gt(0)})
    assert.matches("bool tensor of shape %(3, 3%) expected as keys",
                   why{keys = heed.ones(3, 4):gt(0)})
    assert.matches("lengths from 0 to 3 expected, got 4 at position 2",
                   why{lengths = heed.tensor{1, 4, 2}})
    assert.matches("an int64 tensor of shape %(3%) expected as lengths",
                   why{lengths = heed.tensor{1.0, 2, 2}})
  end)

  it("serves layers of one's own", function()
    local Own = nn.Module:extend("Own")

    function Own:init() self.all = nn.Linear(4, 12) end

    function Own:forward(x, cache)
      local q, k, v = table.unpack(self.all(x):unsqueeze(2):chunk(3, 4))      -- (B, 1, T, 4)
      if not cache then return heed.attention(q, k, v, CAUSAL) end
      local at = cache:place(self, x)
      assert.equal(cache.step.from.length, at)
      local all_k, all_v, mask = cache:append(self, k, v)
      local y = heed.attention(q, all_k, all_v, {causal = true, mask = mask})
      cache:commit(self)
      return y
    end

    local layer, x, cache = Own(), heed.randn(2, 5, 4), nn.Cache{window = 9}
    local whole = layer(x)
    near(layer(x:narrow(2, 1, 3), cache), whole:narrow(3, 1, 3))
    near(layer(x:narrow(2, 4, 2), cache), whole:narrow(3, 4, 2))
    local k, wanted = heed.zeros(2, 1, 2, 4), ": cache:place%(layer, x%), .* expected"
    assert.matches("append" .. wanted, message(cache.append, nn.Cache(), layer, k, k))
    assert.matches("append" .. wanted, message(cache.append, cache, layer, k, k))
    cache:place(layer, x)
    assert.matches("append" .. wanted, message(cache.append, cache, layer, k, k))
    assert.matches("commit" .. wanted, message(cache.commit, cache, layer))
  end)

  it("takes sizes, shows what it holds, and has methods", function()
    local model, x = model_and_x()
    local cache = nn.Cache{window = 4, keep = 1}
    assert.equal("Cache(0 tokens in 0 rows, 0 layers, window 4, keep 1)", tostring(cache))
    model(x, {cache = cache})
    assert.equal("Cache(8 tokens in 3 rows, 2 layers, window 4, keep 1)", tostring(cache))
    assert.matches("as window, got 0", message(nn.Cache, {window = 0}))
    assert.matches("option keep: it goes with a window", message(nn.Cache, {keep = 2}))
    assert.matches("unknown option 'windw'; did you mean 'window'", message(nn.Cache, {windw = 2}))
    assert.matches("got 5 as argument 2", message(nn.Cache, {}, 5))
    assert.matches("there is no 'reodrer'; did you mean 'reorder'",
                   message(function() return cache:reodrer{1} end))
    assert.matches("write cache:truncate%(...%)", message(function() cache.truncate(2) end))
    assert.matches("length: no argument expected, got 5", message(cache.length, cache, 5))
  end)
end)
