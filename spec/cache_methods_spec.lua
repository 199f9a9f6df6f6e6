-- nn.Cache between steps: what it is asked, what changes it, and what it refuses.

local heed = require "heed"
local message = require "spec.support.message"
local stepping = require "spec.support.stepping"

local nn, Model = heed.nn, stepping.Model
local near, padded, stepped = stepping.near, stepping.padded, stepping.stepped

local CAUSAL <const> = {causal = true}


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

  it("says whether columns have moved, whatever changed it", function()
    local model, x = model_and_x()
    local function of(tokens, given, lengths)
      local cache = nn.Cache(given)
      model(x:narrow(2, 1, tokens), {cache = cache, lengths = lengths})
      return cache
    end
    local changes = {
      function(cache) return cache:truncate(2) end,
      function(cache) return cache:reorder{3, 1} end,
      function(cache) return cache:clone() end,
    }
    assert.is_false(nn.Cache():has_moved())
    for _, change in ipairs(changes) do
      assert.is_false(change(of(3)):has_moved())
      assert.is_false(change(of(3, {window = 8})):has_moved())
      assert.is_true(change(of(3, nil, heed.tensor{3, 1, 2})):has_moved())
    end
    for first, moved in pairs{[0] = true, [1] = false} do      -- padding of all rows is dropped
      local cache = nn.Cache()
      local keys = heed.tensor{{first, 1, 1}, {0, 1, 1}, {0, 0, 1}}:gt(0)
      model(x:narrow(2, 1, 3), {cache = cache, keys = keys})
      assert.equal(moved, cache:clone():has_moved())
      assert.equal(2 + first, cache:length())
      if not moved then
        assert.is_false(cache:clone():reorder{1, 3}:has_moved())
        assert.is_true(cache:clone():reorder{3, 2}:has_moved())
      end
    end
    assert.is_true(of(6, {window = 4}):reorder{3, 1}:has_moved())
    assert.is_true(of(6, {window = 4}):clone():has_moved())
  end)

  it("takes keys of all columns, also after it forgot the last ones", function()
    local model, x = model_and_x()
    local cache, keys = nn.Cache(), heed.ones(3, 5):gt(0)
    model(x:narrow(2, 1, 6), {cache = cache, causal = true})
    cache:truncate(4)
    near(model(x:narrow(2, 5, 1), {cache = cache, causal = true, keys = keys}),
         model(x:narrow(2, 1, 5), CAUSAL):narrow(2, 5, 1))
  end)

  it("takes lengths that are equal from all layers of a step, and refuses others", function()
    local cache, first, second, third = nn.Cache(), nn.ReLU(), nn.ReLU(), nn.ReLU()
    local x, k = heed.zeros(2, 3, 8), heed.zeros(2, 1, 3, 4)
    for _, layer in ipairs{first, second} do
      cache:place(layer, x, heed.tensor{2, 3})
      cache:append(layer, k, k)
      cache:commit(layer)
    end
    assert.equal(3, cache:length())
    for _, other in ipairs{heed.tensor{3, 3}, heed.tensor{2.0, 3}, 5, "2", true, {2, 3}} do
      assert.matches("the lengths and keys of the layers before expected, got others",
                     message(cache.place, cache, third, x, other))
    end
    assert.matches("nn.Cache: 2 rows expected, as before, got 1",
                   message(cache.place, cache, third, x:narrow(1, 1, 1), heed.tensor{2, 3}))
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

  it("may be told of the keys of all calls each time", function()
    local model, x = model_and_x()
    local keys = heed.ones(3, 8)
    keys[{1, {1, 2}}], keys[{2, {1, 1}}] = 0, 0
    keys = keys:gt(0)
    local told, once = nn.Cache(), nn.Cache()
    for i, T in ipairs{4, 1, 3} do
      local S = ({4, 5, 8})[i]
      local part, now = x:narrow(2, S - T + 1, T), keys:narrow(2, 1, S)
      local first = i == 1 and now or nil
      local function flat(at) return heed.is_tensor(at) and at:totable() or at end
      assert.same(flat(once:positions(T, {keys = first})), flat(told:positions(T, {keys = now})))
      local y = model(part, {cache = told, causal = true, keys = now})
      near(y, model(part, {cache = once, causal = true, keys = first}))
    end
    assert.matches("keys as in the calls before expected, with 6 tokens of row 1, got 8",
                   message(model, x, {cache = told, keys = heed.ones(3, 16):gt(0)}))
  end)

  it("takes the last columns of all keys as those of the call", function()
    local model, x = model_and_x()
    local keys = heed.tensor{{true, true, true, true}, {true, true, true, false},
                             {true, true, false, false}}
    local part, first = x:narrow(2, 3, 2), x:narrow(2, 1, 2)
    local told, once = nn.Cache(), nn.Cache()
    for _, cache in ipairs{told, once} do model(first, {cache = cache, causal = true}) end
    local y = model(part, {cache = told, causal = true, keys = keys})
    local wanted = model(part, {cache = once, causal = true, keys = keys:narrow(2, 3, 2)})
    near(y:narrow(1, 1, 1), wanted:narrow(1, 1, 1))
    near(y[{2, 1}], wanted[{2, 1}])
    assert.same(once:positions(1):totable(), told:positions(1):totable())
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
    for _, window in ipairs{false, 2} do                -- where only the shorter rows go on
      local cache = nn.Cache{window = window or nil}
      model(x:narrow(2, 1, 6), {cache = cache, lengths = heed.tensor{6, 1, 3}})
      assert.equal(3, cache:reorder{2, 3}:length())
      assert.same({{1}, {3}}, cache:positions(1):totable())
      assert.equal(3, cache:reorder{2}:length())
      assert.equal(3, cache:positions(1))
    end
    local cache = nn.Cache()
    model(x, {cache = cache})
    assert.matches("reorder: rows from 1 to 3 expected, got 0 at position 2",
                   message(cache.reorder, cache, {1, 0}))
    assert.matches("reorder: rows from 1 to 3 expected, got 4 at position 1",
                   message(cache.reorder, cache, heed.tensor{4}))
    for _, none in ipairs{{}, heed.zeros(0, {dtype = "int64"})} do
      assert.matches("reorder: at least one row expected", message(cache.reorder, cache, none))
    end
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
    for i = 1, #inputs do near(got[i], wanted[i]) end
    local lengths, cache = heed.tensor{3, 1, 2}, nn.Cache{window = 3, keep = 1}
    model(x:narrow(2, 1, 3), {cache = cache, causal = true, lengths = lengths})
    got = gradients(stepped(model, x, {3, 1, 4}, cache, CAUSAL))
    for i = 1, #inputs do assert.is_true(got[i]:isfinite():all(), i) end
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

  it("copies what it holds of a context, with its padding", function()
    heed.manual_seed(4)
    local layer = nn.DecoderLayer(8, 2)
    local x, context = heed.randn(2, 5, 8), heed.randn(2, 4, 8)
    local o = {causal = true, context_lengths = heed.tensor{4, 2}}
    for _, options in ipairs{{}, {capacity = 8}} do
      heed.no_grad(function()
        local cache, whole = nn.Cache(options), layer(x, context, o)
        o.cache = cache
        near(layer(x:narrow(2, 1, 3), context, o), whole:narrow(2, 1, 3))
        local copy = cache:clone()
        assert.equal(tostring(cache), tostring(copy))
        for _, one in ipairs{copy, cache} do
          near(layer(x:narrow(2, 4, 2), nil, {cache = one, causal = true}), whole:narrow(2, 4, 2))
        end
        o.cache = nil
      end)
    end
  end)

  it("counts keys from the first one again when all tokens are forgotten", function()
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(2, 5, 8)
    local function try(n, lengths)
      local cache = nn.Cache()
      layer(x:narrow(2, 1, 4), {cache = cache, lengths = lengths})
      cache:truncate(n)
      return (pcall(layer, x:narrow(2, 1, 1), {cache = cache, mask = heed.mask.prefix(2)}))
    end
    local uneven = heed.tensor{4, 2}
    assert.same({true, true, true, false},
                {try(0, uneven), try(0), try(2), try(2, uneven)})
    assert.is_false(try(1, uneven))
  end)

  it("refuses every mask by the number of a key, once columns have moved", function()
    local masks, layer, x = heed.mask, nn.MultiHeadAttention(8, 2), heed.randn(2, 5, 8)
    local function try(mask, lengths)
      local cache = nn.Cache()
      layer(x:narrow(2, 1, 4), {cache = cache, lengths = lengths})
      return pcall(layer, x:narrow(2, 5, 1), {cache = cache, mask = mask})
    end
    local by_number = {masks.lengths(heed.tensor{5, 3}), masks.prefix(2), masks.causal{offset = 4},
                       masks.prefix(heed.tensor{2, 1})}
    for _, mask in ipairs(by_number) do
      assert.is_true(try(mask))
      local good, why = try(mask, heed.tensor{4, 2})
      assert.is_false(good, tostring(mask))
      assert.matches("option mask: one that counts from the query's position expected", why)
    end
    for _, mask in ipairs{masks.causal(), masks.window(2), masks.every(2)} do
      assert.is_true(try(mask, heed.tensor{4, 2}), tostring(mask))
    end
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
    for _, lengths in ipairs{heed.tensor{1.0, 2, 2}, heed.tensor{{1, 2, 2}}} do
      assert.matches("an int64 tensor of shape %(3%) expected as lengths", why{lengths = lengths})
    end
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
    cache = nn.Cache()
    layer(x, cache)
    assert.matches("commit" .. wanted, message(cache.commit, cache, layer))
    k = heed.zeros(2, 1, 5, 4)
    assert.matches("append" .. wanted, message(cache.append, cache, layer, k, k))
    cache:place(layer, x:narrow(2, 1, 5))
    assert.matches("commit" .. wanted, message(cache.commit, cache, layer))
  end)

  it("takes sizes, shows what it holds, and has methods", function()
    local model, x = model_and_x()
    local cache = nn.Cache{window = 4, keep = 1}
    assert.equal("Cache(0 tokens in 0 rows, 0 layers, window 4, keep 1)", tostring(cache))
    model(x, {cache = cache})
    assert.equal("Cache(8 tokens in 3 rows, 2 layers, window 4, keep 1)", tostring(cache))
    local cross, of_context = nn.MultiHeadAttention(8, 2), nn.Cache()
    cross(x, heed.randn(3, 5, 8), {cache = of_context})
    assert.equal("Cache(0 tokens in 0 rows, 1 layers, 1 of a context)", tostring(of_context))
    assert.is_false(nn.Cache{capacity = 4}.window)
    assert.equal(0, nn.Cache{capacity = 4}.keep)
    for name, wrong in pairs{v = {k = x}, keys = {k = x, v = x, keys = 3},
                             lengths = {k = x, v = x, lengths = 3}} do
      assert.matches("store: a tensor expected as " .. name .. " of the context, got ",
                     message(of_context.store, of_context, cross, wrong))
    end
    assert.matches("as window, got 0", message(nn.Cache, {window = 0}))
    assert.matches("option keep: it goes with a window", message(nn.Cache, {keep = 2}))
    assert.matches("unknown option 'windw'; did you mean 'window'", message(nn.Cache, {windw = 2}))
    assert.matches("got 5 as argument 2", message(nn.Cache, {}, 5))
    assert.matches("there is no 'reodrer'; did you mean 'reorder'",
                   message(function() return cache:reodrer{1} end))
    assert.matches("write cache:truncate%(...%)", message(function() cache.truncate(2) end))
    assert.matches("length: no argument expected, got 5", message(cache.length, cache, 5))
    for name, most in pairs{append = 5, attended = 1, clone = 0, commit = 1, context = 1,
                            has_moved = 0, length = 0, place = 4, positions = 2, reorder = 1,
                            store = 2, truncate = 1} do
      local given = table.pack(cache)
      given[most + 2] = 5
      assert.matches(("%s: .*expected, got 5 as argument %d$"):format(name, most + 1),
                     message(cache[name], table.unpack(given, 1, most + 2)))
    end
  end)
end)


describe("a cache that much was done to", function()
  local random = math.random

  -- The tokens that each row has seen, and its results.
  local function new_rows(B)
    local rows = {}
    for b = 1, B do rows[b] = {x = heed.zeros(1, 0, 8), y = heed.zeros(1, 0, 8)} end
    return rows
  end

  local function longest(rows)
    local n = 0
    for _, row in ipairs(rows) do n = math.max(n, row.x:size(2)) end
    return n
  end

  -- One call, with padding behind the tokens, and at either side in the first.
  local function call(model, cache, rows, first)
    local T = random(5)
    local x, lengths, o, from = heed.randn(#rows, T, 8), {}, {}, {}
    for b = 1, #rows do lengths[b], from[b] = random(0, T), 1 end
    if random(3) == 1 then
      for b = 1, #rows do lengths[b] = T end
    elseif first and random(2) == 1 then
      x, o, from = padded(x, lengths, "left")
    else
      o.lengths = heed.tensor(lengths)
    end
    o.cache, o.causal = cache, true
    local y = heed.no_grad(model, x, o)
    for b, row in ipairs(rows) do
      row.x = heed.cat({row.x, x:narrow(1, b, 1):narrow(2, from[b], lengths[b])}, 2)
      row.y = heed.cat({row.y, y:narrow(1, b, 1):narrow(2, from[b], lengths[b])}, 2)
    end
  end

  local function reorder(cache, rows)
    local ids, new = {}, {}
    for i = 1, random(4) do
      ids[i] = random(#rows)
      new[i] = {x = rows[ids[i]].x, y = rows[ids[i]].y}
    end
    cache:reorder(ids)
    return new
  end

  local function truncate(cache, rows)
    local n = random(0, cache:length())
    local cut = cache:length() - n
    cache:truncate(n)
    for _, row in ipairs(rows) do
      local left = math.max(row.x:size(2) - cut, 0)
      row.x, row.y = row.x:narrow(2, 1, left), row.y:narrow(2, 1, left)
    end
  end

  it("gives every row what it gives alone", function()
    math.randomseed(1)
    heed.manual_seed(1)
    for _ = 1, 60 do
      local window = random(2) == 1 and random(6) or nil
      local keep = window and random(0, 4) or 0
      local cache, rows = nn.Cache{window = window, keep = keep}, new_rows(random(4))
      local model = Model{kv_heads = 2 ^ random(0, 2), rope = random(2) == 1}
      for i = 1, random(6) do
        call(model, cache, rows, i == 1)
        if random(4) == 1 then rows = reorder(cache, rows) end
        local whole = not window or cache:length() < window + keep
        if whole and random(4) == 1 then truncate(cache, rows) end
        if random(4) == 1 then cache = cache:clone() end
        assert.equal(longest(rows), cache:length())
      end
      local o = {causal = true}
      if window then o.mask = heed.mask.window(window - 1) | heed.mask.prefix(keep) end
      for _, row in ipairs(rows) do near(row.y, heed.no_grad(model, row.x, o)) end
    end
  end)
end)
