-- Calls of transformer layers and stacks: attention's options, a cache; wrong calls.

local heed = require "heed"
local near = require "spec.support.near"
local nn = require "heed.nn"


local function message(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end


describe("attention's options", function()
  it("reach the attention that they are about", function()
    local m = nn.DecoderLayer(8, 4, {
      kv_heads = 2, head_dim = 6, value_dim = 3, qk_norm = true, gate = true, memory = 2,
      sink = true, rope = true, context_dim = 5,
    })
    for _, attention in ipairs{m.attend, m.cross} do
      assert.same({2, 6, 3}, {attention.kv_heads, attention.head_dim, attention.value_dim})
      assert.is_truthy(attention.query_norm and attention.gate and attention.sink)
      assert.equal(2, attention.memory_keys:size(2))
    end
    assert.is_truthy(m.attend.rope)
    assert.is_falsy(m.cross.rope)
    assert.same({8, 5}, {m.attend.key.weight:size(2), m.cross.key.weight:size(2)})
    local x, context = heed.randn(2, 3, 8), heed.randn(2, 4, 5)
    assert.same(x.shape, m(x, context).shape)
    local count = 0
    local e = nn.Encoder(8, 2, 2, {position = function(q, k)
      count = count + 1
      return q, k
    end})
    e(x)
    assert.equal(2, count)
  end)

  it("may be one bias for all layers of a stack, and a mask", function()
    local bias = heed.bias.t5{heads = 2, buckets = 8, distance = 16}
    local m = nn.Encoder(8, 2, 3, {position_bias = bias, mask = heed.mask.window(1, 1)})
    for i = 1, 3 do assert.equal(bias, m.layers[i].attend.position_bias) end
    assert.equal(#nn.Encoder(8, 2, 3):parameters() + #bias:parameters(), #m:parameters())
    local x = heed.randn(1, 5, 8)
    local y, weights = m(x, {weights = true})
    assert.is_false(y:equal(nn.Encoder(8, 2, 3, {mask = heed.mask.window(1, 1)})(x)))
    for i = 1, 3 do assert.equal(0, weights[i][{1, 1, 1, {3, 5}}]:sum():item()) end
    ;(y * heed.randn(1, 5, 8)):sum():backward()
    assert.is_true(bias:parameters()[1].grad:abs():max():gt(1e-3):all())
    assert.matches("nn.to_torch: layers.1.attend.position_bias.*: PyTorch's layer has nothing",
                   message(nn.to_torch, m))
    local z = nn.Encoder(8, 2, 1)
    assert.is_true(z(x, {mask = heed.mask.causal()}):equal(z(x, {causal = true})))
  end)

  it("of a call reach it under its names for them", function()
    local function noted(attention)
      local got = {}
      function attention:forward(x, ...)
        local o = select("#", ...) == 1 and ... or select(2, ...)
        for name, value in pairs(o) do got[name] = value end
        return x, "weights"
      end
      return got
    end
    local cache, given = nn.Cache(), {}
    local own = {"bias", "causal", "keys", "lengths", "mask", "offset", "positions"}
    local both = {"cache", "fused", "scale", "softcap", "weights"}
    local of_context = {"bias", "keys", "lengths", "mask"}
    local self_wanted, context_wanted = {}, {}
    for _, name in ipairs(own) do given[name] = "own " .. name end
    for _, name in ipairs(both) do given[name] = name end
    for _, name in ipairs(of_context) do given["context_" .. name] = "context " .. name end
    given.cache, given.weights = cache, true
    for _, name in ipairs(own) do self_wanted[name] = "own " .. name end
    for _, name in ipairs(of_context) do context_wanted[name] = "context " .. name end
    for _, name in ipairs(both) do
      self_wanted[name], context_wanted[name] = given[name], given[name]
    end
    local layer, x = nn.DecoderLayer(8, 2), heed.randn(1, 2, 8)
    local to_self, to_context = noted(layer.attend), noted(layer.cross)
    layer(x, x, given)
    assert.same(self_wanted, to_self)
    assert.same(context_wanted, to_context)
  end)

  it("of a call likewise", function()
    local m = nn.DecoderLayer(8, 2)
    local x, context = heed.randn(2, 3, 8), heed.randn(2, 4, 8)
    local keys = heed.tensor{{true, true, true}, {true, true, false}}
    local context_keys = heed.tensor{{true, true, false, false}, {true, true, true, false}}
    local y = m(x, context, {keys = keys, context_keys = context_keys})
    assert.is_true(y:equal(m(x, context, {
      lengths = heed.tensor{3, 2}, context_lengths = heed.tensor{2, 3},
    })))
    assert.is_true(y:equal(m(x, context, {
      mask = keys:view(2, 1, 1, 3), context_mask = context_keys:view(2, 1, 1, 4),
    })))
    local bias, context_bias = heed.randn(3, 3), heed.randn(3, 4)
    local o = {bias = bias, context_bias = context_bias, scale = 0.3, softcap = 2, weights = true}
    local z, weights, cross = m(x, context, o)
    local h, wanted = m.attend(x, {
      bias = bias, scale = 0.3, softcap = 2, causal = true, weights = true,
    })
    assert.is_true(weights:equal(wanted))
    h = m.norm1(x + h)
    local c, wanted_cross = m.cross(h, context, {
      bias = context_bias, scale = 0.3, softcap = 2, weights = true,
    })
    assert.is_true(cross:equal(wanted_cross))
    h = m.norm2(h + c)
    assert.is_true(z:equal(m.norm3(h + m.mlp(h))))
  end)

  it("of a Transformer are about the source, the target, or what lies between", function()
    local m = nn.Transformer(8, 2, {layers = 1})
    local source, x = heed.randn(1, 4, 8), heed.randn(1, 3, 8)
    local o = {
      source_bias = heed.randn(4, 4), source_mask = heed.ones(4, 4):tril():gt(0),
      context_bias = heed.randn(3, 4), bias = heed.randn(3, 3), scale = 0.3,
    }
    local context = m.encoder(source, {bias = o.source_bias, mask = o.source_mask, scale = 0.3})
    local y = m.decoder(x, context, {bias = o.bias, context_bias = o.context_bias, scale = 0.3})
    assert.is_true(m(source, x, o):equal(y))
  end)
end)


describe("a cache", function()
  local function by_steps(f, x, widths)
    local outputs, first = {}, 1
    for i, width in ipairs(widths) do
      outputs[i] = f(x:narrow(2, first, width), first == 1)
      first = first + width
    end
    return heed.cat(outputs, 2)
  end

  it("gives steps what the full pass gives, whatever the norm", function()
    local x, context = heed.randn(2, 7, 8), heed.randn(2, 4, 8)
    for _, norm in ipairs{"post", "pre", "sandwich"} do
      local m = nn.Decoder(8, 2, 2, {norm = norm, rope = true, kv_heads = 1})
      local cache = nn.Cache()
      local y = by_steps(function(part) return m(part, context, {cache = cache}) end, x,
                         {3, 1, 2, 1})
      near(m(x, context), y, 1e-5, 1e-5, norm)
      assert.equal(7, cache:length())
      local alone = nn.Decoder(8, 2, 2, {norm = norm, cross = false})
      cache = nn.Cache()
      y = by_steps(function(part) return alone(part, {cache = cache}) end, x, {4, 2, 1})
      near(alone(x), y, 1e-5, 1e-5, norm)
    end
  end)

  it("takes rows of different lengths, padded on either side", function()
    local a, b, pad = heed.randn(1, 6, 8), heed.randn(1, 4, 8), heed.randn(1, 2, 8)
    local paddings = {
      {heed.cat({b:narrow(2, 1, 2), pad}, 2), {lengths = heed.tensor{4, 2}}},
      {heed.cat({pad, b:narrow(2, 1, 2)}, 2), {
        keys = heed.tensor{{true, true, true, true}, {false, false, true, true}},
      }},
    }
    local m = nn.Decoder(8, 2, 2, {cross = false, rope = true, norm = "pre"})
    for _, padding in ipairs(paddings) do
      local o = padding[2]
      o.cache = nn.Cache()
      m(heed.cat({a:narrow(2, 1, 4), padding[1]}, 1), o)
      for i = 1, 2 do
        local y = m(heed.cat({a:narrow(2, 4 + i, 1), b:narrow(2, 2 + i, 1)}, 1), {cache = o.cache})
        near(m(a):narrow(2, 4 + i, 1), y:narrow(1, 1, 1), 1e-5, 2e-6, "row 1, step " .. i)
        near(m(b):narrow(2, 2 + i, 1), y:narrow(1, 2, 1), 1e-5, 2e-6, "row 2, step " .. i)
      end
    end
  end)

  it("holds what is made of the context, which is needed once", function()
    local m = nn.Transformer(8, 2, {layers = 2})
    local source, x = heed.randn(2, 5, 8), heed.randn(2, 4, 8)
    local o = {context_lengths = heed.tensor{5, 3}}
    local wanted, calls = m(source, x, o), 0
    m.encoder:on_weights(function() calls = calls + 1 end)
    local cache = nn.Cache()
    local y = by_steps(function(part)
      return m(source, part, {cache = cache, context_lengths = o.context_lengths})
    end, x, {2, 1, 1})
    near(wanted, y, 1e-5, 2e-6, "steps")
    assert.equal(2, calls)                               -- one of each layer
    cache = nn.Cache()
    local context = m.encoder(source, {lengths = o.context_lengths})
    y = by_steps(function(part, first)
      if first then
        return m.decoder(part, context, {cache = cache, context_lengths = o.context_lengths})
      end
      return m.decoder(part, {cache = cache})
    end, x, {2, 1, 1})
    near(wanted, y, 1e-5, 2e-6, "steps without a context")
    assert.matches("calls_spec.lua.*nn.DecoderLayer: a context expected behind x, since the cache "
                   .. "holds none yet, got nil",
                   message(function() m.decoder(x, {cache = nn.Cache()}) end))
  end)

  it("counts a predicate's queries from where they stand", function()
    local function even(_, _, i, j) return (i - j) % 2 == 0 end
    local causal, many = heed.mask.causal(), heed.mask.causal()
    for _ = 1, 60 do many = many & heed.mask.predicate(even) end
    local x = heed.randn(2, 7, 8)
    for _, mask in ipairs{causal & heed.mask.predicate(even), many, causal & ~heed.mask.predicate(
        function(b, _, i, j) return i ~= j and (i + j + b) % 3 == 0 end, {batch = true})} do
      local layer = nn.MultiHeadAttention(8, 2, {mask = mask}):eval()
      local cache, steps = nn.Cache(), {}
      for _, part in ipairs{{1, 3}, {4, 4}, {5, 6}, {7, 7}} do
        steps[#steps + 1] = layer(x[{{}, part}], {cache = cache})
      end
      near(heed.cat(steps, 2), layer(x), 1e-5, 1e-6, tostring(mask))
      cache = nn.Cache{window = 2}
      layer(x, {cache = cache})
      assert.matches("option mask: one that counts from the query's position expected",
                     message(layer, x:narrow(2, 1, 1), {cache = cache}))
    end
  end)

  it("calls any layer of a decoder as a causal one", function()
    local x = heed.ones(1, 2, 8)
    for _, contexts in ipairs{{}, {x}} do
      local model, seen = nn.Decoder(8, 2, 1, {cross = #contexts > 0}), nil
      model.layers[1] = function(h, ...) seen = select(-1, ...).causal return h end
      local function call(o)
        local given = {x, contexts[1]}
        given[#given + 1] = o
        model(table.unpack(given))
        return seen
      end
      assert.same({true, true, false}, {call(nil), call{}, call{causal = false}})
    end
  end)

  it("is refused where it cannot be right", function()
    local m, x = nn.Encoder(8, 2, 2, {layer_dropout = 0.5}), heed.zeros(1, 2, 8)
    assert.matches("nn.Encoder: option cache: not with layer_dropout while training; write "
                   .. "model:eval%(%)", message(m, x, {cache = nn.Cache(), causal = true}))
    m:eval()
    assert.same(x.shape, m(x, {cache = nn.Cache(), causal = true}).shape)
    assert.matches("nn.Encoder: an nn.Cache expected as option cache, got an empty table",
                   message(m, x, {cache = {}}))
    local model = nn.Transformer(8, 2, {layers = 1})
    model.decoder = nn.Decoder(8, 2, 1, {cross = false})
    assert.matches("nn.Transformer: option cache: layers that attend to a context expected in "
                   .. "field 'decoder', got DecoderLayer.* as the first one",
                   message(model, x, x, {cache = nn.Cache()}))
  end)
end)


describe("wrong calls", function()
  local x = heed.zeros(1, 3, 8)

  it("of constructors are refused by name", function()
    for _, case in ipairs{
      {nn.EncoderLayer, {8, 2, {nrom = "pre"}},
       "nn.EncoderLayer: unknown option 'nrom'; did you mean 'norm'"},
      {nn.EncoderLayer, {8, 2, 4, {norm = "per"}}, "unknown norm 'per'; did you mean 'pre'"},
      {nn.EncoderLayer, {8, 2, {norm_type = "batch"}}, "unknown norm_type 'batch'"},
      {nn.EncoderLayer, {8, 2, {norm_type = nn.RMSNorm, eps = 1}},
       "option eps: it goes with norm_type 'layer' or 'rms'"},
      {nn.EncoderLayer, {8, 2, {norm_type = nn.RMSNorm(8)}},
       "a class or a function that makes a norm expected as norm_type, got RMSNorm"},
      {nn.Encoder, {8, 2, 2, {each = function(i) return {gate = i == 2} end}},
       "nn.Encoder: option each: weights as those of layer 1 expected in layer 2, .*gate"},
      {nn.EncoderLayer, {8, 2, {activation = "relu2"}}, "function%(x%) return x:relu%(%):square"},
      {nn.DecoderLayer, {8, 2, {norm_first = true}}, "'norm_first'.*write norm = \"pre\""},
      {nn.Encoder, {8, 2, 1, {rotary_pos_emb = true}}, "'rotary_pos_emb'.*write rope = true"},
      {nn.Decoder, {8, 2, 1, {one_kv_head = true}}, "write kv_heads = 1"},
      {nn.Transformer, {8, 2, {d_model = 8}}, "'d_model'.*the first argument"},
      {nn.EncoderLayer, {8, 2, {norm_type = 3}}, "a function expected as norm_type, got 3"},
      {nn.EncoderLayer, {8, 2, {norm_type = function() end}}, "as what norm_type makes, got nil"},
      {nn.EncoderLayer, {8, 2, {cross = true}}, "unknown option 'cross'"},
      {nn.EncoderLayer, {8, 2, {dropout = 2}}, "from 0 to 1 expected as dropout, got 2"},
      {nn.EncoderLayer, {8, 2, {layer_scale = "x"}}, "expected as layer_scale, got the string"},
      {nn.EncoderLayer, {8, 2, {residual_scale = -1}}, "as residual_scale, got %-1"},
      {nn.EncoderLayer, {8, 2, 0}, "nn.EncoderLayer: .* at least 1 expected as hidden, got 0"},
      {nn.EncoderLayer, {8, 3}, "dim as a multiple of heads expected"},
      {nn.DecoderLayer, {8, 2, {}, {}}, "expected as hidden, got an empty table"},
      {nn.Encoder, {8, 2}, "nn.Encoder: .* expected as layers, got nil"},
      {nn.Encoder, {8, 2, 1, {layer_dropout = -1}}, "layer_dropout, got %-1"},
      {nn.Encoder, {8, 2, 1 << 40},
       "nn.Encoder: memory limit of .*, a stack of 1099511627776 layers needs .* PiB more"},
      {nn.Encoder, {8, 2, 1, {final_norm = 1}}, "a boolean expected as option final_norm, got 1"},
      {nn.DecoderLayer, {8, 2, {cross = false, context_dim = 4}},
       "nn.DecoderLayer: option context_dim: there is no context with cross = false"},
      {nn.Decoder, {8, 2, 1, {layers = 2}}, "nn.Decoder: unknown option 'layers'"},
      {nn.Transformer, {8, 2, {layers = {1, 2, 3}}}, "{encoder's, decoder's} expected, got 3"},
      {nn.Transformer, {8, 2, {layers = {1, 2, x = 3}}},
       "option layers: a list expected, got one with the string 'x'"},
      {nn.Transformer, {8, 2, {layers = {1, nil, 2}}}, "option layers: an entry expected at"},
      {nn.Transformer, {8, 2, {cross = false}}, "nn.Transformer: unknown option 'cross'"},
    } do
      assert.matches("transformer_calls_spec.lua.*" .. case[3],
                     message(function() case[1](table.unpack(case[2])) end))
    end
  end)

  it("of layers are refused by name", function()
    local encoder, decoder = nn.Encoder(8, 2, 1), nn.Decoder(8, 2, 1)
    local alone, model = nn.Decoder(8, 2, 1, {cross = false}), nn.Transformer(8, 2, {layers = 1})
    for _, case in ipairs{
      {encoder, {x, x}, "nn.Encoder: options expected behind x, since it has no cross%-attention, "
                        .. "got a tensor of shape %(1, 3, 8%)"},
      {encoder, {x, {contxt_mask = 1}}, "nn.Encoder: unknown option 'contxt_mask'"},
      {encoder, {x, {context_mask = 1}}, "unknown option 'context_mask'"},
      {decoder, {x}, "nn.Decoder: a context expected behind x, or cross = false where it was made, "
                     .. "got nil"},
      {decoder, {x, {}}, "a context expected behind x, .* got nil"},
      {alone, {x, x}, "nn.Decoder: options expected behind x"},
      {alone, {x, {context_lengths = 1}}, "unknown option 'context_lengths'"},
      {model, {x}, "nn.Transformer: a target expected, as in model%(source, target%), got nil"},
      {model, {x, x, {sauce_mask = 1}}, "nn.Transformer: unknown option 'sauce_mask'"},
      {model, {x, heed.zeros(1, 3, 6)}, "nn.DecoderLayer: features of shape %(B, T, 8%) or %(T, "
       .. "8%) expected as x, got a tensor of shape %(1, 3, 6%)\n  in decoder.layers.1 %(Decoder"},
      {model, {nil, x}, "nn.EncoderLayer: features .* got nil\n  in encoder.layers.1"},
      {encoder, {heed.zeros(8)}, "nn.EncoderLayer: features .* of shape %(8%)"},
      {decoder, {x, heed.zeros(1, 3, 6)}, "in layers.1.cross.key %(Linear%(8, 8%)"},
    } do
      assert.matches("transformer_calls_spec.lua.*" .. case[3],
                     message(function() case[1](table.unpack(case[2])) end))
    end
  end)
end)
