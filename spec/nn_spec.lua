-- Modules and layers: fields, names, states, printing, first weights, PyTorch's numbers.

local heed = require "heed"
local device = require "spec.support.device"
local golden = require "spec.golden"
local message = require "spec.support.message"
local nn = require "heed.nn"


local function names(iterator)
  local list = {}
  for name in iterator do list[#list + 1] = name end
  return list
end


local function two_layers()
  local Model = nn.Module:extend("Model")
  function Model:init()
    self.first = nn.Linear(2, 3)
    self.second = nn.Linear(3, 1)
  end
  function Model:forward(x) return self.second(self.first(x):relu()) end
  return Model()
end


describe("a module", function()
  it("calls init when made and forward when called", function()
    local Twice = nn.Module:extend("Twice")
    function Twice:init(by) self.by = by end
    function Twice:forward(x, more) return x * self.by, more end
    local y, more = Twice(2)(heed.tensor{1.5}, "more")
    assert.equal(3, y:item())
    assert.equal("more", more)
  end)

  it("lists parameters in the order of first setting", function()
    local m = two_layers()
    assert.same({"first.weight", "first.bias", "second.weight", "second.bias"},
                names(m:named_parameters()))
    m.first = nn.Linear(2, 3, {bias = false})
    assert.same({"first.weight", "second.weight", "second.bias"}, names(m:named_parameters()))
    assert.equal(m.first.weight, m:parameters()[1])
  end)

  it("finds modules and parameters in lists", function()
    local m = nn.Module:extend("Model")()
    m.layers = {nn.Linear(1, 1, {bias = false})}
    m.layers[2] = nn.ReLU()
    m.tables = {nn.Parameter(heed.zeros(2))}
    assert.same({"layers.1.weight", "tables.1"}, names(m:named_parameters()))
    assert.same({"layers.1", "layers.2"}, names(m:children()))
  end)

  it("finds none under keys that are neither names nor numbers", function()
    local m = nn.Module()
    m.list = {nn.Linear(1, 1), [true] = nn.Linear(1, 1), [print] = nn.Linear(1, 1), [1.5] = "text"}
    assert.same({"list.1.weight", "list.1.bias"}, names(m:named_parameters()))
    assert.matches("Module: there is no 'lits'; did you mean 'list'",
                   message(function() return m.lits end))
  end)

  it("takes no plain tensor for a parameter", function()
    local m = nn.Module:extend("Model")()
    m.plain = heed.randn(3)
    m.buffer = nn.Buffer(heed.zeros(2))
    assert.same({}, m:parameters())
    local state = m:state()
    assert.equal("buffer", next(state))
    assert.is_nil(next(state, "buffer"))
  end)

  it("counts shared weights once", function()
    local m = two_layers()
    m.again, m.tied = m.first, m.second.weight
    assert.equal(4, #m:parameters())
    assert.same({"", "first", "second"}, names(m:named_modules()))
  end)

  it("iterates over its fields in order", function()
    local m = nn.Module:extend("Model")()
    m.c, m.b = 1, 2
    m.a = 3
    m.b = nil
    assert.same({"c", "a"}, names(pairs(m)))
  end)

  it("inherits methods and metamethods", function()
    local Base = nn.Module:extend("Base")
    function Base:init(n) self.n = n end
    function Base:__len() return self.n end
    local Derived = Base:extend("Derived")
    function Derived:forward() return self.n + 1 end
    local m = Derived(4)
    assert.equal(5, m())
    assert.equal(4, #m)
  end)

  it("says so when a layer is called with a colon", function()
    local m = two_layers()
    local e = message(function() m:first(heed.zeros(1, 2)) end)
    assert.matches("nn_spec.lua:%d+: first: the Model itself came as input", e)
    assert.matches("model%.first%(x%)", e)
  end)

  it("says that forward is missing", function()
    assert.matches("Model: no forward defined", message(nn.Module:extend("Model")(), 1))
  end)

  it("switches all modules below between training and evaluation", function()
    local m = nn.Sequential{nn.Dropout(0.5), nn.Sequential{nn.Dropout(0.5)}}
    assert.is_true(m[2][1].training)
    assert.equal(m, m:eval())
    assert.is_false(m[2][1].training)
    m:train()
    assert.is_true(m[2][1].training)
  end)

  it("applies a function to the modules below, then to itself", function()
    local seen, m = {}, two_layers()
    m:apply(function(module) seen[#seen + 1] = module end)
    assert.same({m.first, m.second, m}, seen)
  end)

  it("moves its tensors within their handles", function()
    local m = two_layers()
    m.ids, m.plain, m.tied = heed.tensor{1, 2}, heed.zeros(2), m.first.weight
    local weight = m.first.weight
    m(heed.ones(1, 2)):sum():backward()
    m:to("float64")
    assert.equal(weight, m.first.weight)
    assert.equal(weight, m.tied)
    assert.equal("float64", weight.dtype)
    assert.equal("float64", weight.grad.dtype)
    assert.equal("float64", m.plain.dtype)
    assert.equal("int64", m.ids.dtype)
    assert.is_true(weight.requires_grad)
    m(heed.ones(1, 2, {dtype = "float64"})):sum():backward()
  end)

  it("forgets gradients", function()
    local m = two_layers()
    m(heed.ones(1, 2)):sum():backward()
    assert.is_not_nil(m.first.weight.grad)
    m:zero_grad()
    assert.is_nil(m.first.weight.grad)
  end)
end)


describe("a module's state", function()
  it("makes another module the same", function()
    local a, b = two_layers(), two_layers()
    local handle = b.first.weight
    b:load_state(a:state())
    assert.equal(handle, b.first.weight)
    assert.is_true(a.first.weight:equal(b.first.weight))
    a.first.weight:detach():zero_()
    assert.is_false(a.first.weight:equal(b.first.weight))
  end)

  it("lists all that does not fit, and loads nothing", function()
    local m = two_layers()
    local before, state = m.first.weight:clone(), two_layers():state()
    state["first.bias"] = nil
    state["second.bias"] = heed.zeros(2)
    state["second.weight"] = state["second.weight"]:to("float64")
    state.other = heed.zeros(1)
    local e = message(m.load_state, m, state)
    assert.matches("first.bias: float32 %(3%) is missing", e)
    assert.matches("second.bias: float32 %(1%) expected, got float32 %(2%)", e)
    assert.matches("second.weight: float32 %(1, 3%) expected, got float64", e)
    assert.matches("other: not expected", e)
    assert.is_true(before:equal(m.first.weight))
  end)

  it("holds shared weights once, and takes them under any of their names", function()
    local m = two_layers()
    m.tied = m.first.weight
    local state = m:state()
    assert.is_nil(state.tied)
    state.tied, state["first.weight"] = heed.ones(3, 2), nil
    m:load_state(state)
    assert.equal(6, m.first.weight:sum():item())
  end)
end)


describe("a printed module", function()
  it("shows shapes and counts as a tree", function()
    local m = two_layers()
    m.scale = nn.Parameter(heed.zeros(1200))
    m.tied = m.first.weight
    assert.equal(table.concat({
      "Model                                            1,213",
      "  first   Linear(2, 3)  weight (3, 2)  bias (3)      9",
      "  second  Linear(3, 1)  weight (1, 3)  bias (1)      4",
      "  scale   Parameter     (1200)                   1,200",
      "  tied    Parameter     = first.weight",
    }, "\n"), tostring(m))
  end)
end)


describe("a parameter", function()
  it("requires a gradient and shares the values of its tensor", function()
    local t = heed.zeros(2)
    local p = nn.Parameter(t)
    assert.is_true(p.requires_grad)
    t:fill_(3)
    assert.equal(6, p:sum():item())
    assert.is_false(nn.Parameter(t, {requires_grad = false}).requires_grad)
  end)

  it("outlives the scope that it was made in", function()
    local p, b
    heed.scope(function() p, b = nn.Parameter(heed.ones(2)), nn.Buffer(heed.zeros(1)) end)
    assert.same({1, 1, 0}, heed.cat{p:detach(), b}:totable())
  end)

  it("must be a tensor", function()
    assert.matches("nn.Parameter: a tensor expected, got 3", message(nn.Parameter, 3))
  end)
end)


describe("options", function()
  it("that are unknown suggest the nearest one", function()
    local e = message(function() nn.Linear(3, 4, {bais = false}) end)
    assert.matches("nn_spec.lua:%d+: nn.Linear: unknown option 'bais'; did you mean 'bias'?", e)
  end)

  it("of the wrong type are refused", function()
    assert.matches("a boolean expected as option bias, got 1", message(nn.Linear, 3, 4, {bias = 1}))
    assert.matches("a table of options expected, got 5", message(nn.Linear, 3, 4, 5))
    assert.matches("options by name expected", message(nn.Linear, 3, 4, {false}))
  end)
end)


describe("sizes", function()
  it("may be whole floats", function()
    assert.equal(2, nn.Linear(6 / 2, 4 / 2).weight:size(1))
  end)

  it("are refused when they are none", function()
    for _, size in ipairs{-1, 1.5, 0 / 0, math.huge, "4", {}} do
      assert.matches("nn.Linear: a whole number", message(nn.Linear, 3, size))
    end
    assert.matches("a whole number of at least 1", message(nn.Embedding, 0, 4))
  end)
end)


describe("Sequential", function()
  it("passes on first values, through functions too", function()
    local seq = nn.Sequential{nn.Attention(4, 2), heed.relu, nn.Linear(4, 3)}
    assert.equal("(2, 5, 3)", tostring(seq(heed.randn(2, 5, 4)).shape))
    assert.equal("Attention", seq[1].__name)
    assert.equal(3, #seq)
  end)

  it("takes one list", function()
    assert.matches("nn.Sequential{a, b}", message(nn.Sequential, nn.ReLU(), nn.ReLU()))
    assert.matches("nn.Sequential: at most 1 argument expected, got 2 as argument 2",
                   message(nn.Sequential, {}, 2))
    assert.matches("a function expected as layer 2, got 3", message(nn.Sequential, {nn.ReLU(), 3}))
    assert.matches("a function expected as layer 2, got nil",
                   message(nn.Sequential, {nn.ReLU(), nil, nn.ReLU(), nil}))
  end)
end)


describe("an activation", function()
  it("passes on what it was made with", function()
    assert.equal(-0.5, nn.LeakyReLU(0.5)(heed.tensor{-1.0}):item())
    assert.equal(0, nn.ReLU()(heed.tensor{-1.0}):item())
    assert.matches("nn.LeakyReLU: at most 1 argument expected, got 5 as argument 2",
                   message(nn.LeakyReLU, 0.1, 5))
    assert.matches("nn.ReLU: no argument expected, got 5 as argument 1", message(nn.ReLU, 5))
    local x = heed.randn(2, 3)
    assert.is_true(nn.Softmax()(x):equal(heed.softmax(x, -1)))
    assert.is_true(nn.GELU({approximate = "tanh"})(x):equal(heed.gelu(x, "tanh")))
  end)
end)


describe("a norm", function()
  it("has no parameters without elementwise_affine", function()
    local x = heed.randn(2, 4)
    for _, name in ipairs {"LayerNorm", "RMSNorm"} do
      local norm = nn[name](4, {elementwise_affine = false})
      assert.equal(0, #norm:parameters())
      assert.is_true(norm(x):allclose(nn[name](4)(x)))
      assert.matches("^" .. name .. "%(2, 4%)", tostring(nn[name]{2, 4}))
    end
    assert.equal(1, #nn.LayerNorm(4, {bias = false}):parameters())
  end)
end)


describe("Dropout", function()
  it("works while training only", function()
    local x, layer = heed.ones(1000), nn.Dropout(0.25)
    local kept = layer(x):gt(0):sum():item()
    assert.is_true(650 < kept and kept < 850)
    layer:eval()
    assert.is_true(layer(x):equal(x))
  end)

  it("takes a probability", function()
    assert.matches("a number from 0 to 1", message(nn.Dropout, 1.5))
    assert.matches("a number from 0 to 1", message(nn.Dropout, 0 / 0))
  end)
end)


describe("MLP", function()
  it("goes to the hidden width and back", function()
    local m = nn.MLP(4, 8, {activation = "gelu", out_dim = 2})
    local x = heed.randn(3, 4)
    assert.is_true(m(x):allclose(m.down(heed.gelu(m.up(x)))))
    assert.same({"up.weight", "up.bias", "down.weight", "down.bias"}, names(m:named_parameters()))
  end)

  it("takes activations by name, as functions and as layers", function()
    for _, f in ipairs{"silu", heed.silu, nn.SiLU(), nn.SiLU} do
      assert.equal("(1, 4)", tostring(nn.MLP(4, 8, {activation = f})(heed.zeros(1, 4)).shape))
    end
    assert.matches("unknown activation 'gleu'; did you mean 'gelu'",
                   message(nn.MLP, 4, 8, {activation = "gleu"}))
  end)
end)


describe("first weights", function()
  local layers = {
    ["Linear(3, 4)"] = function() return nn.Linear(3, 4) end,
    ["Linear(4, 2, {bias = false})"] = function() return nn.Linear(4, 2, {bias = false}) end,
    ["Embedding(10, 5)"] = function() return nn.Embedding(10, 5) end,
    ["Sequential{Linear(5, 20), ReLU, Linear(20, 1)}"] = function()
      return nn.Sequential{nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1)}
    end,
    ["MultiHeadAttention dim 8 heads 2"] = function() return nn.MultiHeadAttention(8, 2) end,
    ["EncoderLayer dim 8 heads 2 feed-forward 12"] = function()
      return nn.EncoderLayer(8, 2, 12)
    end,
    ["DecoderLayer dim 8 heads 2 feed-forward 12"] = function()
      return nn.DecoderLayer(8, 2, 12)
    end,
  }

  for seed, rows in pairs(golden.read("first_weights")) do
    for name, weights in pairs(rows) do
      it(("of %s are PyTorch's from seed %d"):format(name, seed), function()
        heed.manual_seed(seed)
        local state = nn.to_torch(layers[name:match("^(.-) %(PyTorch.*$") or name]())
        for key, row in pairs(weights) do
          assert.is_nil(golden.difference(state[key], row, 2e-6, 1e-9), key)
          state[key] = nil
        end
        assert.is_nil(next(state))
      end)
    end
  end
end)


describe("a layer without inputs", function()
  it("begins with a bias of 0", function()
    local layer = nn.Linear(0, 3)
    assert.same({0, 0, 0}, layer.bias:totable())
    assert.same({{0, 0, 0}}, layer(heed.ones(1, 0)):totable())
  end)

  it("is the only one whose numbers are not drawn", function()
    heed.manual_seed(5)
    local layer = nn.Linear(1, 3)
    heed.manual_seed(5)
    local weight = heed.empty(3, 1, {device = "cpu"}):uniform_(-1, 1)
    local bias = heed.empty(3, {device = "cpu"}):uniform_(-1, 1)
    assert.is_true(layer.weight:cpu():allclose(weight))
    assert.is_true(layer.bias:cpu():allclose(bias))
  end)
end)


describe("a layer with given weights", function()
  local layers = {
    ["LayerNorm(6)"] = function() return nn.LayerNorm(6) end,
    ["RMSNorm(6), eps 1e-6"] = function() return nn.RMSNorm(6, {eps = 1e-6}) end,
    ["Linear(5, 3)"] = function() return nn.Linear(5, 3) end,
    ["Embedding(7, 4), ids from 0 as PyTorch counts"] = function() return nn.Embedding(7, 4) end,
  }

  local function load(layer, weights)
    local state = {}
    for name, row in pairs(weights) do state[name] = golden.tensor(row) end
    layer:load_state(state)
  end

  local function inputs_of(case)
    local inputs = {}
    for i, row in ipairs(case.inputs) do
      local t = golden.tensor(row)
      inputs[i] = t.dtype == "int64" and t + 1 or t:requires_grad_(true)
    end
    return inputs
  end

  local function check_gradients(layer, gradients)
    for name, p in layer:named_parameters() do
      assert.is_nil(golden.difference(p.grad, gradients[name], 1e-5, 1e-5), name)
    end
  end

  local function check_inputs(case, inputs)
    for i, x in ipairs(inputs) do
      if heed.is_tensor(x) and x.requires_grad then
        assert.is_nil(golden.difference(x.grad, case.grad_inputs[i], 1e-5, 1e-5), "input " .. i)
      end
    end
  end

  local function compute(case, layer)
    local inputs = inputs_of(case)
    if case.lengths then inputs[#inputs + 1] = {lengths = heed.tensor(case.lengths)} end
    local y = layer(table.unpack(inputs))
    assert.is_nil(golden.difference(y, case.out, 1e-5, 1e-5))
    y:backward(golden.tensor(case.grad_out))
    check_inputs(case, inputs)
  end

  -- The file's gradients of these weights are, in each case, the sum over all cases of one layer.
  it("computes what PyTorch does: MultiHeadAttention(8, 2), case by case", function()
    local layer, gradients = nn.MultiHeadAttention(8, 2), {}
    for _, case in ipairs(golden.read("layers")) do
      if case.weights.in_proj_weight then
        load(layer, golden.unpack_heads(case.weights))
        compute(case, layer)
        gradients[#gradients + 1] = golden.unpack_heads(case.grad_weights)
      end
    end
    assert.equal(3, #gradients)
    for _, wanted in ipairs(gradients) do check_gradients(layer, wanted) end
  end)

  for _, case in ipairs(golden.read("layers")) do
    if not case.weights.in_proj_weight then
      it("computes what PyTorch does: " .. case.name, function()
        local layer = layers[case.name]()
        load(layer, case.weights)
        compute(case, layer)
        check_gradients(layer, case.grad_weights)
      end)
    end
  end
end)


describe("nn.Attention", function()
  it("has the shapes of the lecture notes", function()
    local y, weights = nn.Attention(4, 2)(heed.randn(10, 20, 4))
    assert.equal("(10, 20, 4)", tostring(y.shape))
    assert.equal("(10, 20, 20)", tostring(weights.shape))
  end)

  it("is softmax(Q K^T / sqrt(d)) V", function()
    local layer, x = nn.Attention(4, 2), heed.randn(3, 5, 4)
    local y, weights = layer(x)
    local Q, K, V = layer.Wq(x), layer.Wk(x), layer.Wv(x)
    local A = heed.softmax(Q:matmul(K:transpose(-2, -1)) / 2 ^ 0.5, -1)
    assert.is_true(weights:allclose(A, {atol = 1e-6}))
    assert.is_true(y:allclose(layer.Wc(A:matmul(V)), {atol = 1e-6}))
  end)
end)


describe("MultiHeadAttention", function()
  it("gives weights, per head, only with the option", function()
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(2, 5, 8)
    assert.equal(1, select("#", layer(x)))
    local y, weights = layer(x, {weights = true})
    assert.equal("(2, 2, 5, 5)", tostring(weights.shape))
    assert.is_true(y:allclose(layer(x), {atol = 1e-6}))
    assert.is_true(weights:sum(-1):allclose(heed.ones(2, 2, 5), {atol = 1e-6}))
  end)

  it("takes a single sequence", function()
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(5, 8)
    local y, weights = layer(x, {weights = true})
    assert.equal("(2, 5, 5)", tostring(weights.shape))
    assert.is_true(y:allclose(layer(x:unsqueeze(1)):squeeze(1), {atol = 1e-6}))
  end)

  it("attends to a context of another length and width", function()
    local layer = nn.MultiHeadAttention(8, 2, {context_dim = 6})
    local y, weights = layer(heed.randn(2, 3, 8), heed.randn(2, 7, 6), {weights = true})
    assert.equal("(2, 3, 8)", tostring(y.shape))
    assert.equal("(2, 2, 3, 7)", tostring(weights.shape))
  end)

  it("is causal, masked and cut to lengths by its options", function()
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(2, 4, 8)
    local _, causal = layer(x, {causal = true, weights = true})
    assert.is_true(causal:equal(causal:tril()))
    local _, cut = layer(x, {lengths = heed.tensor{4, 2}, weights = true})
    assert.equal(0, cut[2]:narrow(3, 3, 2):sum():item())
    local mask = heed.ones(4, 4):tril():to("bool")
    local _, masked = layer(x, {mask = mask, weights = true})
    assert.is_true(masked:allclose(causal, {atol = 1e-6}))
  end)

  it("shares keys and values among groups, and normalises per head", function()
    local layer = nn.MultiHeadAttention(8, 4, {kv_heads = 2, qk_norm = true, bias = false})
    assert.equal("(4, 8)", tostring(layer.key.weight.shape))
    assert.is_falsy(layer.out.bias)
    assert.equal("(2, 3, 8)", tostring(layer(heed.randn(2, 3, 8)).shape))
    local wide = nn.MultiHeadAttention(8, 4, {head_dim = 6})
    assert.equal("(24, 8)", tostring(wide.query.weight.shape))
  end)

  it("and nn.Attention refuse a mask of rank 3, whose first axis may mean two things", function()
    local x = heed.randn(2, 4, 8)
    local padding = heed.tensor{{true, true, true, false}, {true, false, false, false}}
    for _, layer in ipairs{nn.MultiHeadAttention(8, 2), nn.Attention(8)} do
      local wrong = padding:unsqueeze(2)
      assert.matches("option 'mask': .*%(T, S%), %(B, 1, T, S%).*%(1, H, T, S%).*lengths.*"
                     .. "got a tensor of shape %(2, 1, 4%)", message(layer, x, {mask = wrong}))
      assert.matches("option 'bias': .*got a tensor of shape %(2, 1, 4%)",
                     message(layer, x, {bias = wrong:float()}))
      assert.matches("option 'mask'", message(layer, x[1], {mask = wrong}))
      local cut = layer(x, {lengths = heed.tensor{3, 1}})
      local masked = layer(x, {mask = padding:reshape(2, 1, 1, 4)})
      assert.is_true(masked:allclose(cut, {atol = 1e-6}))
      assert.is_false(masked:allclose((layer(x)), {atol = 1e-6}))
      local one = layer(x[1], {mask = padding[1]:reshape(1, 1, 1, 4)})
      assert.is_true(one:allclose(cut[1], {atol = 1e-6}))
    end
    local heads = heed.ones(2, 2, 4, 4):gt(0)
    assert.matches("option 'mask'", message(nn.Attention(8), x, {mask = heads}))
  end)

  it("and nn.Attention refuse lengths beyond the keys", function()
    for _, layer in ipairs{nn.MultiHeadAttention(8, 2), nn.Attention(8)} do
      local why = message(layer, heed.randn(2, 4, 8), {lengths = heed.tensor{4, 5}})
      local wanted = "attention: argument 'lengths': .* from 0 to 4 expected, got 5"
      if device.gpu then wanted = "attention: length 5 at position 2 is outside 0 to 4" end
      assert.matches(wanted, why)
    end
  end)

  it("drops weights while training only", function()
    local layer, x = nn.MultiHeadAttention(8, 2, {dropout = 0.5}), heed.randn(2, 6, 8)
    assert.is_false(layer(x):equal(layer(x)))
    layer:eval()
    assert.is_true(layer(x):equal(layer(x)))
  end)

  it("refuses what cannot be", function()
    assert.matches("dim 8 and 3 heads", message(nn.MultiHeadAttention, 8, 3))
    assert.matches("4 heads and 3 kv_heads", message(nn.MultiHeadAttention, 8, 4, {kv_heads = 3}))
    local layer = nn.MultiHeadAttention(8, 2)
    assert.matches("a tensor expected as x, got nil", message(layer))
    assert.matches("rank 3 expected as x, got a tensor", message(layer, heed.zeros(8)))
    assert.matches("did you mean 'causal'", message(layer, heed.zeros(1, 2, 8), {casual = true}))
  end)
end)


describe("on_weights", function()
  it("hands out all attention weights under the modules' names", function()
    local Model = nn.Module:extend("Model")
    function Model:init()
      self.layers = {nn.MultiHeadAttention(4, 2), nn.Attention(4)}
    end
    function Model:forward(x) return (self.layers[2](self.layers[1](x))) end

    local model, x, got = Model(), heed.randn(1, 3, 4), {}
    model:on_weights(function(name, weights) got[name] = tostring(weights.shape) end)
    local y = model(x)
    assert.same({["layers.1"] = "(1, 2, 3, 3)", ["layers.2"] = "(1, 3, 3)"}, got)
    got = {}
    model:on_weights()
    assert.is_true(model(x):allclose(y, {atol = 1e-6}))
    assert.same({}, got)
  end)

  it("is what the message about its former name says", function()
    local good, why = pcall(function() nn.Linear(2, 2):capture(print) end)
    assert.is_false(good)
    assert.matches("Linear: there is no 'capture'; write m:on_weights(f)", why, 1, true)
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
