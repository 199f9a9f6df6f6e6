-- nn.MultiHeadAttention: equal to PyTorch's; its further options equal products and softmaxes
-- written out by hand; calls that both attention layers take and refuse.

local golden = require "spec.golden"
local heed = require "heed"
local message = require "spec.support.message"
local near = require "spec.support.near"
local nn = heed.nn

local function close(a, b) near(b, a, 1e-5, 1e-5) end

local CAUSAL <const> = {causal = true}


describe("PyTorch's numbers:", function()
  -- Its seed, its file, our options.
  local cases = {
    {24, "mha_self_float_per_head", {}},
    {25, "mha_self_causal_padding", {}},
    {28, "mha_cross_kdim_vdim", {context_dim = 10, value_context_dim = 12}},
    {29, "mha_cross_kdim_nobias", {context_dim = 9, bias = false}},
  }

  -- Weights, or their gradients, under our names.
  local function named(found, prefix)
    local state = {["out.weight"] = found[prefix .. "out_proj.weight"],
                   ["out.bias"] = found[prefix .. "out_proj.bias"]}
    local packed, bias = found[prefix .. "in_proj_weight"], found[prefix .. "in_proj_bias"]
    packed, bias = packed and packed:chunk(3, 1), bias and bias:chunk(3, 1) or {}
    for i, child in ipairs{"query", "key", "value"} do
      state[child .. ".weight"] = packed and packed[i]
                                  or found[("%s%s_proj_weight"):format(prefix, child:sub(1, 1))]
      state[child .. ".bias"] = bias[i]
    end
    return state
  end

  -- The arguments of a run; its mask, (B, S) or (T, S), is true for keys that are not to be seen.
  local function call_of(found)
    local mask, o = found["mask.mask"], {weights = true, values = found["input.value"]}
    o.keys = found["mask.padding"] and found["mask.padding"]:logical_not()
    if mask and mask.dtype == "bool" then o.mask = mask:logical_not() end
    if mask and mask.dtype ~= "bool" then
      local B, T, S = found["input.query"]:size(1), mask:size(-2), mask:size(-1)
      o.bias = mask:dim() == 3 and mask:view(B, -1, T, S) or mask
    end
    return found["input.query"], found["input.key"], o
  end

  for _, case in ipairs(cases) do
    local seed, file, o = table.unpack(case)
    it(file, function()
      local found = golden.tensors("multihead/" .. file)
      heed.manual_seed(seed)
      local layer = nn.MultiHeadAttention(16, 4, o)
      local first, state = named(found, "first."), layer:state()
      for name, t in pairs(first) do near(t, state[name], 1e-6, 1e-9, name) end
      for name, t in pairs(named(found, "weight.")) do first[name] = t end
      layer:load_state(first)

      local x, context, call = call_of(found)
      for _, t in pairs{x, context, call.values} do t:requires_grad_() end
      local y, weights = layer(x, context, call)
      near(found.output, y, 1e-5, 1e-5, "output")
      near(found.weights_per_head, weights, 1e-5, 1e-5, "weights of each head")
      near(found.weights, weights:mean(2), 1e-5, 1e-5, "weights")
      y:backward(found.grad_output)
      for name, t in pairs(named(found, "grad.")) do
        local child, field = name:match("(%a+)%.(%a+)")
        near(t, layer[child][field].grad, 5e-5, 1e-5, name)
      end
      for name, t in pairs{query = x, key = context, value = call.values} do
        if found["grad_input." .. name] then
          near(found["grad_input." .. name], t.grad, 5e-5, 1e-5, name)
        end
      end
    end)
  end
end)


-- Everything written out: o is {mask, bias, scale, softcap, values, turn = function(t) … end}.
local function by_hand(layer, x, context, o)
  o = o or {}
  local B, H, Hk = x:size(1), layer.heads, layer.kv_heads
  local function split(t, heads)
    return t:view(B, t:size(2), heads, t:size(3) // heads):transpose(2, 3)
  end
  local function shared(t, dim) return t:repeat_interleave(H // Hk, dim) end
  local q, k = split(layer.query(x), H), split(layer.key(context), Hk)
  local v = shared(split(layer.value(o.values or context), Hk), 2)
  if layer.query_norm then q, k = layer.query_norm(q), layer.key_norm(k) end
  if o.turn then q, k = o.turn(q), o.turn(k) end
  local function scores_of(keys)
    local scores = q:matmul(keys.mT) * (o.scale or layer.head_dim ^ -0.5)
    return o.softcap and (scores / o.softcap):tanh() * o.softcap or scores
  end
  local scores = scores_of(shared(k, 2))
  if o.bias then scores = scores + o.bias end
  if o.mask then scores = scores:masked_fill(~o.mask, -math.huge) end
  local S = scores:size(4)
  if layer.memory_keys then
    local extra = layer.memory_keys
    if layer.key_norm then extra = layer.key_norm(extra) end
    scores = heed.cat({scores, scores_of(shared(extra, 1))}, -1)
    extra = shared(layer.memory_values, 1):unsqueeze(1):expand(B, -1, -1, -1)
    v = heed.cat({v, extra}, 3)
  end
  if layer.sink then
    scores = heed.cat({scores, layer.sink:reshape(1, H, 1, 1):expand(B, -1, q:size(3), 1)}, -1)
    v = heed.cat({v, heed.zeros(B, H, 1, v:size(4))}, 3)
  end
  local weights = scores:softmax(-1)
  local z = weights:matmul(v):transpose(2, 3):flatten(3)
  if layer.gate then z = z * layer.gate(x):sigmoid() end
  return layer.out(z), weights:narrow(-1, 1, S), scores:logsumexp(-1)
end


-- Parameters that are neither 0 nor 1.
local function stir(layer)
  heed.no_grad(function()
    for _, p in ipairs(layer:parameters()) do p:add_(heed.randn(p.shape) * 0.3) end
  end)
  return layer
end


-- The same values, weights, normalisers, and gradients of all parameters and inputs.
local function check(layer, x, context, call, o)
  local function gradients(y)
    local inputs = layer:parameters()
    table.insert(inputs, x)
    return heed.grad((y * heed.arange(y:numel()):view(y.shape):float():sin()):sum(), inputs)
  end
  x:requires_grad_()
  call.weights, call.lse = true, true
  local y, weights, lse = layer(x, context, call)
  local y2, weights2, lse2 = by_hand(layer, x, context, o)
  close(y, y2)
  close(weights, weights2)
  close(lse, lse2)
  local wanted, got = gradients(y2), gradients(y)
  for i = 1, #layer:parameters() + 1 do near(wanted[i], got[i], 5e-5, 1e-5, i) end
end


describe("nn.MultiHeadAttention written out", function()
  local causal = heed.ones(5, 5):tril():to("bool")

  for name, options in pairs{
    ["as it is"] = {}, ["with grouped heads"] = {kv_heads = 2},
    ["with norms of queries and keys"] = {qk_norm = true},
    ["with values of another size"] = {value_dim = 3, out_dim = 6},
    ["with a gate"] = {gate = true, bias = false, value_dim = 3},
    ["with memory"] = {memory = 2, qk_norm = true, kv_heads = 2, value_dim = 5},
    ["with a sink"] = {sink = true},
    ["with memory, a sink and a gate"] = {memory = 1, sink = true, gate = true},
  } do
    it("is the same, " .. name, function()
      heed.manual_seed(3)
      local layer, x = stir(nn.MultiHeadAttention(8, 4, options)), heed.randn(2, 5, 8)
      local bias = heed.randn(1, 4, 5, 5)
      check(layer, x, x, {}, {})
      check(layer, x, x, {causal = true, bias = bias}, {mask = causal, bias = bias})
      check(layer, x, x, {mask = causal, scale = 0.3, softcap = 2},
            {mask = causal, scale = 0.3, softcap = 2})
    end)
  end
end)


describe("queries and keys", function()
  local rope = {base = 50, interleaved = true}

  local function layer_and_x(options)
    heed.manual_seed(4)
    return stir(nn.MultiHeadAttention(8, 2, options)), heed.randn(2, 5, 8)
  end

  it("are turned by rope, from 0 or where positions says", function()
    local layer, x = layer_and_x{rope = rope, qk_norm = true}
    check(layer, x, x, {}, {turn = function(t) return heed.position.rope(t, rope) end})
    local places = heed.tensor{{0, 2, 4, 6, 8}, {5, 5, 6, 6, 7}}
    check(layer, x, x, {positions = places}, {turn = function(t)
      return heed.position.rope(t, {base = 50, interleaved = true, positions = places})
    end})
    assert.is_false(layer(x, {positions = places}):allclose(layer(x)))
  end)

  it("end together where there is a context", function()
    local layer, x = layer_and_x{rope = true}
    local whole = layer(x, CAUSAL)
    close(layer(x:narrow(2, 4, 2), x, {causal = true}), whole:narrow(2, 4, 2))
    close(layer(x:narrow(2, 2, 2), x, {causal = true, offset = 1}), whole:narrow(2, 2, 2))
  end)

  it("go through a function of one's own, which is told where they stand", function()
    local seen = {}
    local layer, x = layer_and_x{position = function(q, k, offset)
      seen = {tostring(q.shape), tostring(k.shape), offset}
      return q * 2, k * 0.25
    end}
    local plain = nn.MultiHeadAttention(8, 2)
    plain:load_state(layer:state())
    close(layer(x), plain(x, {scale = 0.5 * 4 ^ -0.5}))
    assert.same({"(2, 2, 5, 4)", "(2, 2, 5, 4)", 0}, seen)
    layer(x:narrow(2, 1, 2), x)
    assert.same({"(2, 2, 2, 4)", "(2, 2, 5, 4)", 3}, seen)
    layer.position = function(q) return q end
    assert.matches("a function expected that returns queries and keys, got a tensor .* and nil",
                   message(layer, x))
  end)

  it("have one way to be told", function()
    local f = function(q, k) return q, k end
    assert.matches("either rope or position expected, got both",
                   message(nn.MultiHeadAttention, 8, 2, {rope = true, position = f}))
    assert.matches("a function expected as position, got 5",
                   message(nn.MultiHeadAttention, 8, 2, {position = 5}))
    assert.matches("true or a table of options expected as rope, got 'half'",
                   (message(nn.MultiHeadAttention, 8, 2, {rope = "half"}):gsub("the string ", "")))
    assert.matches("unknown option 'bases'; did you mean 'base'",
                   message(nn.MultiHeadAttention, 8, 2, {rope = {bases = 5}}))
    assert.matches("option rope: offset comes with a call",
                   message(nn.MultiHeadAttention, 8, 2, {rope = {offset = 5}}))
    local layer, x = layer_and_x{}
    assert.matches("option positions: the layer was made with neither rope nor position",
                   message(layer, x, {positions = heed.arange(0, 4)}))
  end)
end)


describe("a bias of its own", function()
  it("is added to the call's, trained, saved and moved", function()
    heed.manual_seed(10)
    local bias = heed.bias.t5{heads = 2, buckets = 4, distance = 8}
    local layer, x = nn.MultiHeadAttention(8, 2, {position_bias = bias}), heed.randn(2, 5, 8)
    local weight, name = bias:parameters()[1], "position_bias.weight"
    heed.no_grad(weight.normal_, weight)
    local more = heed.randn(2, 1, 5, 5)
    check(layer, x, x, {bias = more}, {bias = bias:dense(5, 5) + more})
    assert.is_true(layer:state()[name]:equal(weight))
    layer:to("float64")
    assert.equal("float64", weight.dtype)
  end)

  it("and a mask of its own are values", function()
    local function why(o) return message(nn.MultiHeadAttention, 8, 2, o) end
    assert.matches("a value of heed.bias, a function or a module expected as option "
                   .. "position_bias, got a tensor",
                   why{position_bias = heed.zeros(2)})
    for _, value in ipairs{0, -1, 0 / 0, math.huge, "x", heed.zeros(1)} do
      for _, name in ipairs{"scale", "softcap"} do
        assert.matches("a number above 0 expected as option " .. name .. ", got ",
                       why{[name] = value})
      end
    end
    assert.matches("a module expected as option position_bias, got its class; Linear",
                   why{position_bias = nn.Linear})
    assert.matches("a value of heed.mask expected as option mask, got false", why{mask = false})
    local layer, x = nn.MultiHeadAttention(8, 2, {mask = heed.mask.window(1)}), heed.randn(1, 5, 8)
    local m = heed.ones(5, 5):tril() - heed.ones(5, 5):tril(-2)
    check(layer, x, x, {}, {mask = m:gt(0)})
    m[{{}, 1}] = 0
    heed.no_grad(function()
      close(layer(x, {keys = heed.tensor{{0, 1, 1, 1, 1}}:gt(0)}):narrow(2, 2, 4),
            by_hand(layer, x, x, {mask = m:gt(0)}):narrow(2, 2, 4))
    end)
  end)
end)


describe("a layer of attention", function()
  local x, context = heed.randn(2, 4, 8), heed.randn(2, 6, 8)
  local function layers() return ipairs{nn.MultiHeadAttention(8, 2), nn.Attention(8)} end

  it("takes a context with or without options", function()
    for _, layer in layers() do
      local plain, capped = (layer(x, context)), (layer(x, context, {softcap = 0.2}))
      close((layer(x, context, nil)), plain)
      close((layer(x, context, {})), plain)
      close((layer(x, x)), (layer(x)))
      close((layer(x, x, {softcap = 0.2})), (layer(x, {softcap = 0.2})))
      assert.is_false(capped:allclose(plain))
    end
  end)

  it("takes keys, lengths and a mask together", function()
    local keys = heed.tensor{{0, 1, 1, 1, 1, 1}, {1, 1, 0, 1, 0, 1}}:gt(0)
    local mask = heed.rand(4, 6):gt(0.2)
    local lengths = heed.tensor{5, 6}
    local there = heed.arange(6):le(lengths:unsqueeze(2))
    local all = keys:reshape(2, 1, 1, 6) & there:reshape(2, 1, 1, 6) & mask
    for _, layer in layers() do
      local y = layer(x, context, {keys = keys, lengths = lengths, mask = mask})
      close(y, (layer(x, context, {mask = all})))
      local one = layer(x[2], context[2], {keys = keys[2], mask = mask})
      close(one, (layer(x, context, {keys = keys, mask = mask}))[2])
      assert.matches("option 'keys': a bool tensor of shape %(2, 6%) expected, .*%(2, 4%)",
                     message(layer, x, context, {keys = heed.ones(2, 4):gt(0)}))
    end
  end)

  it("refuses keys of another shape, also where positions are counted from them", function()
    local layer = heed.nn.MultiHeadAttention(8, 2, {rope = true})
    for _, case in ipairs{{3, "3"}, {heed.ones(1, 2):gt(0), "a tensor of shape %(1, 2%)"},
                          {heed.ones(1, 3), "a tensor of shape %(1, 3%)"}} do
      assert.matches("option 'keys': a bool tensor of shape %(1, 3%) expected, true where keys "
                     .. "are, got " .. case[2],
                     message(layer, heed.ones(1, 3, 8), {keys = case[1]}))
    end
  end)

  it("gives nothing where there is no key", function()
    for _, layer in layers() do
      local none = heed.zeros(2, 4):gt(1)
      local y, weights = layer(x, {keys = none, weights = true})
      local bias = layer.heads == 1 and layer.Wc.bias or layer.out.bias
      close(y, bias:expand_as(y))
      assert.equal(0, weights:abs():sum():item())
    end
    local layer = nn.MultiHeadAttention(8, 2, {memory = 2})
    local y = layer(x, {keys = heed.zeros(2, 4):gt(1)})
    assert.is_false(y:allclose(layer.out.bias:expand_as(y)))
    y:sum():backward()
    for name, p in layer:named_parameters() do
      assert(not p.grad or p.grad:isfinite():all(), name)
    end
  end)

  it("makes values of other features where they are given", function()
    local values = heed.randn(2, 4, 3)
    local layer = nn.MultiHeadAttention(8, 2, {value_context_dim = 3})
    close(layer(x, {values = values}), (by_hand(layer, x, x, {values = values})))
    local single = nn.Attention(8)
    close((single(x, {values = x})), (single(x)))
  end)

  -- PyTorch draws them as one layer only where queries, keys and values have the same inputs.
  it("draws each projection by its own size where values are made of other features", function()
    for _, given in ipairs{{value_context_dim = 3}, {context_dim = 5}} do
      local layer = nn.MultiHeadAttention(8, 2, given)
      for _, name in ipairs{"query", "key", "value"} do
        local weight = layer[name].weight
        local bound = (6 / (weight:size(1) + weight:size(2))) ^ 0.5
        local largest = weight:abs():max():item()
        assert.is_true(largest <= bound and largest > 0.8 * bound, name)
      end
    end
  end)

  it("returns weights and normalisers in their places", function()
    for i, layer in layers() do
      local heads = i == 1 and "2, " or ""
      local _, none, some = layer(x, context, {lse = true, weights = false})
      assert.is_nil(none)
      assert.equal("(2, " .. heads .. "4)", tostring(some.shape))
      local y, weights, lse = layer(x[1], {lse = true, weights = true})
      assert.equal("(4, 8)", tostring(y.shape))
      assert.equal("(" .. heads .. "4, 4)", tostring(weights.shape))
      assert.equal("(" .. heads .. "4)", tostring(lse.shape))
      assert.equal(1, select("#", layer(x, {weights = false})))
    end
    assert.equal(2, select("#", nn.Attention(8)(x)))
  end)

  it("drops weights by the call's dropout instead of its own", function()
    local layer = nn.MultiHeadAttention(8, 2, {dropout = 0.5})
    assert.is_true(layer(x, {dropout = 0}):equal(layer(x, {dropout = 0})))
    layer:eval()
    assert.is_false(layer(x, {dropout = 0.5}):equal(layer(x)))
  end)

  it("refuses the weights of another as its context", function()
    for _, layer in layers() do
      local before = nn.Attention(8)
      local why = message(function() return layer(before(x)) end)
      assert.matches("the weights of another layer came as context; write b%(%(a%(x%)%)%)", why)
      assert.equal(8, (layer((before(x)))):size(3))
      assert.equal(8, (layer(before(x, {weights = false}))):size(3))
    end
  end)

  it("refuses what it does not take", function()
    for _, layer in layers() do
      assert.matches("unknown option 'caching'", message(layer, x, {caching = 1}))
      assert.matches("an nn.Cache expected as option cache, got an empty table",
                     message(layer, x, {cache = {}}))
      assert.matches("a boolean expected as option weights", message(layer, x, {weights = 1}))
      assert.matches("rank 3 expected as context", message(layer, x, context[1]))
      assert.matches("rank 3 expected as option values", message(layer, x, {values = x[1]}))
      assert.matches("got 5 as argument 4", message(layer, x, context, {}, 5))
    end
    for _, name in ipairs{"value_dim", "out_dim", "context_dim", "value_context_dim", "memory"} do
      assert.matches("expected as " .. name .. ", got false",
                     (message(nn.MultiHeadAttention, 8, 2, {[name] = false})
                      :gsub("a number expected as option memory", "expected as memory")))
    end
  end)

  it("has one sink", function()
    local sink, layer = heed.randn(2), nn.MultiHeadAttention(8, 2)
    local own = nn.MultiHeadAttention(8, 2, {sink = true})
    own:load_state(layer:state(), {strict = false})
    heed.no_grad(own.sink.copy_, own.sink, sink)
    close(layer(x, {sink = sink}), own(x))
    assert.matches("option sink: the layer has one of its own", message(own, x, {sink = sink}))
    for _, wrong in ipairs{sink:unsqueeze(1), sink:unsqueeze(2), heed.randn(3), heed.ones(2):gt(0),
                           2.5} do
      assert.matches("argument 'sink': a float tensor of shape (2), a number for each head, "
                     .. "expected, got ", message(layer, x, {sink = wrong}), 1, true)
    end
  end)

  it("has as many heads as it was made with, few or many", function()
    for heads, kv_heads in pairs{[1024] = 512, [1025] = 1025, [2050] = 1025} do
      local layer = nn.MultiHeadAttention(8, heads, {head_dim = 1, kv_heads = kv_heads})
      local y, weights = layer(x, {weights = true})
      assert.same({x.shape, heads}, {y.shape, weights:size(2)})
    end
  end)

  it("says what PyTorch's options are called", function()
    for _, layer in layers() do
      assert.matches("unknown option 'is_causal'; write causal = true$",
                     message(layer, x, {is_causal = true}):match("^[^\n]*"))
    end
    assert.matches("unknown option 'kdim'; write context_dim = n",
                   message(nn.MultiHeadAttention, 8, 2, {kdim = 4}))
    assert.matches("there is no 'MultiheadAttention'; write nn.MultiHeadAttention(dim, heads)",
                   message(function() return nn.MultiheadAttention end), 1, true)
  end)

  it("has its own parameters in its state, and draws them last", function()
    heed.manual_seed(5)
    local plain = nn.MultiHeadAttention(8, 4, {kv_heads = 2}):state()
    heed.manual_seed(5)
    local layer = nn.MultiHeadAttention(8, 4, {kv_heads = 2, memory = 3, sink = true, gate = true})
    local state = layer:state()
    for name, t in pairs(plain) do assert.is_true(t:equal(state[name]), name) end
    assert.equal("(2, 3, 2)", tostring(state.memory_keys.shape))
    assert.equal(0, state.sink:abs():sum():item())
    assert.equal(8, state["gate.bias"]:sum():item())
    assert.equal(0, state["gate.weight"]:abs():sum():item())
    layer:to("float64")
    assert.equal("float64", layer.memory_values.dtype)
    assert.is_true(heed.gradcheck(function(t) return layer(t, {sink = nil}) end,
                                  {heed.randn(1, 3, 8, {dtype = "float64", requires_grad = true})}))
  end)
end)


describe("capture", function()
  it("hands out the weights of each step, also with a cache", function()
    local layer, x = nn.MultiHeadAttention(8, 2, {rope = true}), heed.randn(1, 4, 8)
    local cache, shapes = nn.Cache(), {}
    local _, whole = layer(x, {causal = true, weights = true})
    layer:on_weights(function(_, weights)
      shapes[#shapes + 1] = tostring(weights.shape)
      local T, S = weights:size(3), weights:size(4)
      close(weights, whole:narrow(3, S - T + 1, T):narrow(4, 1, S))
    end)
    for _, part in ipairs(x:split({2, 1, 1}, 2)) do layer(part, {cache = cache, causal = true}) end
    assert.same({"(1, 2, 2, 2)", "(1, 2, 1, 3)", "(1, 2, 1, 4)"}, shapes)
  end)
end)


describe("a row that is padded at the left", function()
  it("is what it is alone, also beside memory keys, which no position turns", function()
    heed.manual_seed(1)
    local layer = nn.MultiHeadAttention(16, 4, {rope = true, memory = 2})
    local x = heed.randn(1, 3, 16)
    local padded = heed.cat({heed.randn(1, 2, 16), x}, 2)
    local keys = heed.tensor{{false, false, true, true, true}}
    local alone = layer(x, {causal = true})
    local y = layer(padded, {causal = true, keys = keys})
    assert.is_true(y:narrow(2, 3, 3):allclose(alone, {atol = 1e-5}))
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
