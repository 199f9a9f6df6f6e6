-- Options of layers by which families of models differ, each beside its formula.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"


local function close(a, b) assert.is_true(a:allclose(b, {atol = 1e-6}), tostring(a - b)) end


-- Draws all parameters, those that begin as 0 or 1 too.
local function drawn(m)
  heed.manual_seed(5)
  heed.no_grad(function()
    for _, p in ipairs(m:parameters()) do p:normal_(0, 0.5) end
  end)
  return m
end


describe("an RMSNorm with plus_one", function()
  it("scales by 1 + weight", function()
    local norm = drawn(nn.RMSNorm(6, {eps = 1e-6, plus_one = true}))
    local plain = nn.RMSNorm(6, {eps = 1e-6})
    heed.no_grad(function() plain.weight:copy_(norm.weight + 1) end)
    local x = heed.randn(2, 6)
    close(norm(x), plain(x))
    assert.is_true(nn.RMSNorm(3, {plus_one = true}).weight:eq(0):all())
  end)

  it("rounds 16-bit types once", function()
    local norm = drawn(nn.RMSNorm(64, {eps = 1e-6, plus_one = true})):to("bfloat16")
    local x = heed.randn(8, 64):to("bfloat16")
    local wide = heed.rms_norm(x:to("float32"), {64}, norm.weight:to("float32") + 1, {eps = 1e-6})
    assert.equal("bfloat16", norm(x).dtype)
    assert.is_true(norm(x):equal(wide:to("bfloat16")))
  end)

  it("needs a weight", function()
    assert.matches("option plus_one: there is no weight with elementwise_affine = false",
                   message(nn.RMSNorm, 3, {plus_one = true, elementwise_affine = false}))
  end)
end)


describe("attention with options of its own", function()
  local x = heed.randn(2, 4, 8)

  it("scales and caps scores at every call, unless the call says otherwise", function()
    local plain = nn.MultiHeadAttention(8, 2)
    for name, value in pairs{scale = 0.7, softcap = 0.3} do
      local layer = nn.MultiHeadAttention(8, 2, {[name] = value})
      layer:load_state(plain:state())
      close((layer(x)), (plain(x, {[name] = value})))
      close((layer(x, {[name] = 0.2})), (plain(x, {[name] = 0.2})))
      assert.is_false((layer(x)):allclose((plain(x))))
      assert.matches("a number above 0 expected as option " .. name .. ", got 0",
                     message(nn.MultiHeadAttention, 8, 2, {[name] = 0}))
      assert.matches("expected as option " .. name .. ", got true",
                     message(nn.MultiHeadAttention, 8, 2, {[name] = true}))
    end
  end)

  it("has norms of queries and keys that a function makes, or of all heads at once", function()
    local sizes = {}
    local function make(dim)
      sizes[#sizes + 1] = dim
      return nn.RMSNorm(dim, {eps = 0.25})
    end
    local each = nn.MultiHeadAttention(8, 2, {kv_heads = 1, qk_norm = make})
    local all = nn.MultiHeadAttention(8, 2, {kv_heads = 1, qk_norm = make, qk_norm_all = true})
    assert.same({4, 4, 8, 4}, sizes)
    drawn(all)
    local plain = nn.MultiHeadAttention(8, 2, {kv_heads = 1})
    for _, name in ipairs{"query", "key", "value", "out"} do plain[name] = all[name] end
    plain.query = nn.Sequential{all.query, all.query_norm}
    plain.key = nn.Sequential{all.key, all.key_norm}
    close((all(x)), (plain(x)))
    assert.equal(0.25, each.key_norm.options.eps)
  end)

  it("refuses norms that do not go together", function()
    local make = nn.MultiHeadAttention
    assert.matches("option qk_norm_all: it goes with qk_norm",
                   message(make, 8, 2, {qk_norm_all = true}))
    assert.matches("option memory: not with qk_norm_all",
                   message(make, 8, 2, {qk_norm = true, qk_norm_all = true, memory = 1}))
    assert.matches("a function expected as option qk_norm, got 3",
                   message(make, 8, 2, {qk_norm = 3}))
  end)

  it("has biases where options say so", function()
    local layer = nn.MultiHeadAttention(8, 2, {out_bias = false})
    assert.is_truthy(layer.query.bias)
    assert.is_false(layer.out.bias)
    local block = nn.EncoderLayer(8, 2, {bias = false, attention_bias = true, out_bias = false})
    assert.is_truthy(block.attend.key.bias)
    assert.is_false(block.attend.out.bias)
    assert.is_false(block.mlp.up.bias)
    assert.is_false(block.norm1.bias)
    assert.is_truthy(nn.EncoderLayer(8, 2, {bias = false, mlp_bias = true}).mlp.down.bias)
  end)
end)


describe("rope whose angles depend on the length", function()
  local scaling = {rope_type = "longrope", short_factor = {1, 1}, long_factor = {3, 5},
                   original_max_position_embeddings = 6}
  local rope = {scaling = scaling, max_position_embeddings = 12}
  local layer, x = nn.MultiHeadAttention(8, 2, {rope = rope}), heed.randn(1, 8, 8)

  it("refuses a cache whose keys were turned by others", function()
    local cache = nn.Cache()
    layer(x[{{}, {1, 4}}], {cache = cache, causal = true})
    layer(x[{{}, {5, 6}}], {cache = cache, causal = true})
    assert.matches("option cache: at 7 positions rope turns all keys by other angles than at 6; "
                   .. "call the model with all tokens and an empty cache",
                   message(layer, x[{{}, {7, 7}}], {cache = cache, causal = true}))
    for row = 1, 2 do                          -- the longest of two, wherever it stands
      local lengths = heed.tensor{2, 2}
      lengths[row] = 5
      local o = {cache = nn.Cache(), causal = true, lengths = lengths}
      layer(x[{{}, {1, 5}}]:expand(2, 5, 8), o)
      o.lengths = nil
      layer(x[{{}, {6, 6}}]:expand(2, 1, 8), o)
      assert.same({2, 0, 8}, {layer(heed.zeros(2, 0, 8), o):size()})
      assert.matches("option cache: at 7 positions rope turns all keys by other angles than at 6",
                     message(layer, x[{{}, {7, 7}}]:expand(2, 1, 8), o))
    end
    cache:truncate(0)
    local whole = layer(x, {causal = true})
    close((layer(x, {cache = cache, causal = true})), whole)
    heed.no_grad(function()
      local o = {cache = nn.Cache{capacity = 12}, causal = true}
      assert.matches("option cache: a capacity of at most 6 expected, since rope turns all keys by "
                     .. "other angles where there are more, got 12; nn.Cache() grows, and "
                     .. "heed.generate begins anew with it there", message(layer, x, o), 1, true)
      local dynamic = nn.MultiHeadAttention(8, 2, {rope = {
        scaling = {rope_type = "dynamic", factor = 2}, max_position_embeddings = 5}})
      assert.matches("a capacity of at most 5 expected", message(dynamic, x, o))
      o = {cache = nn.Cache{capacity = 6}, causal = true}
      close((layer(x[{{}, {1, 4}}], o)), (layer(x[{{}, {1, 4}}], {causal = true})))
    end)
  end)

  it("makes heed.generate begin anew there", function()
    local Model = nn.Module:extend("Model")
    function Model:init(layers)
      self.embed = nn.Embedding(9, 8)
      self.body = nn.Decoder(8, 2, layers, {cross = false, rope = rope, norm = "pre"})
    end
    function Model:forward(ids, o)
      return self.body(self.embed(ids), o):matmul(self.embed.weight.T)
    end
    heed.manual_seed(2)
    local m, single = drawn(Model(2)), drawn(Model(1))
    assert.same(heed.generate(single, {3}, {max = 9, cache = false}):totable(),
                heed.generate(single, {3}, {max = 9}):totable())
    for _, beams in ipairs{false, 2} do
      local o = {max = 9, beams = beams or nil}
      local wanted = heed.generate(m, {{3, 4, 5}, {1}}, {max = 9, beams = o.beams, cache = false})
      local got = heed.generate(m, {{3, 4, 5}, {1}}, o)
      for b, ids in ipairs(wanted) do assert.same(ids:totable(), got[b]:totable()) end
      o.cache = nn.Cache()
      assert.same(wanted[1]:totable(), heed.generate(m, {3, 4, 5}, o):totable())
      assert.equal(3 + 9 - 1, o.cache:length())
    end
    local cache = nn.Cache()
    m(heed.tensor{{1, 2}}, {cache = cache})
    assert.matches("at 7 positions rope turns", message(heed.generate, m, {3}, {max = 9,
                                                                               cache = cache}))
  end)
end)


describe("a transformer layer", function()
  local x = heed.randn(2, 4, 8)

  it("may have its norms behind its parts", function()
    local layer = drawn(nn.EncoderLayer(8, 2, {norm = "output"}))
    local y = x + layer.norm1((layer.attend(x)))
    close((layer(x)), y + layer.norm2(layer.mlp(y)))
    assert.is_truthy(nn.Encoder(8, 2, 1, {norm = "output"}).norm)
  end)

  it("may have its parts side by side", function()
    local layer = drawn(nn.DecoderLayer(8, 2, {norm = "pre", parallel = true, cross = false,
                                               residual_scale = 2, branch_scale = 0.5}))
    local a = layer.attend(layer.norm1(x), {causal = true})
    close((layer(x)), x * 2 + a * 0.5 + layer.mlp(layer.norm2(x)) * 0.5)
    assert.matches("option parallel: norm = 'pre' expected, got the string 'post'",
                   message(nn.EncoderLayer, 8, 2, {parallel = true}))
    assert.matches("option parallel: norm = 'pre' and cross = false expected",
                   message(nn.DecoderLayer, 8, 2, {parallel = true, norm = "pre"}))
  end)

  it("may scale what its parts add", function()
    local layer = drawn(nn.EncoderLayer(8, 2, {norm = "pre", branch_scale = 0.25}))
    local y = x + layer.attend(layer.norm1(x)) * 0.25
    close((layer(x)), y + layer.mlp(layer.norm2(y)) * 0.25)
  end)
end)


describe("a stack whose layers differ", function()
  it("asks option each for what is different", function()
    local window, asked = heed.mask.window(1, 0), {}
    local stack = nn.Encoder(8, 2, 3, {rope = true, each = function(i)
      asked[#asked + 1] = i
      return i == 2 and {mask = window, rope = false} or nil
    end})
    assert.same({1, 2, 3}, asked)
    local first, second = stack.layers[1].attend, stack.layers[2].attend
    assert.is_truthy(first.rope)
    assert.is_false(first.mask)
    assert.is_false(second.rope)
    assert.equal(window, second.mask)
    assert.is_true(first.query.weight:equal(second.query.weight))
  end)

  it("refuses other answers", function()
    local function each(value)
      return message(nn.Encoder, 8, 2, 2, {each = function() return value end})
    end
    assert.matches("a table of options expected from option each, got 3", each(3))
    assert.matches("unknown option 'maks'", each{maks = 1})
    assert.matches("a function expected as option each, got 3",
                   message(nn.Decoder, 8, 2, 1, {each = 3}))
  end)
end)
