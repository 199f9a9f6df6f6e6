-- Parts of layers that other modules take the place of: projections, and what tells positions.

local heed = require "heed"
local nn = require "heed.nn"
local message_of = require "spec.support.message"


-- A projection without a field called weight: two thin layers.
local function thin(inputs, outputs)
  return nn.Sequential{nn.Linear(inputs, 2), nn.Linear(2, outputs)}
end


-- A layer whose matrix is computed.
local Tied = nn.Module:extend("Tied")

function Tied:init(other) self.other = other end

function Tied:forward(x) return x:matmul(self.other.weight.T) end


describe("a module in the place of a layer's part", function()
  local makers = {
    MultiHeadAttention = {function() return nn.MultiHeadAttention(8, 2, {gate = true}) end,
                          {"query", "key", "value", "out", "gate"}},
    Attention = {function() return nn.Attention(8) end, {"Wq", "Wk", "Wv", "Wc"}},
    MLP = {function() return nn.MLP(8, 8, {gated = true}) end, {"up", "gate", "down"}},
    GatedMLP = {function() return nn.GatedMLP(8, 8) end, {"up", "gate", "down"}},
    Classifier = {function() return nn.Classifier(8, 8) end, {"out"}},
    Patches = {function() return nn.Patches(2, 8, {channels = 2}) end, {"project"}},
  }

  for name, maker in pairs(makers) do
    it("of " .. name .. " is asked for what the layer needs", function()
      local x = name == "Patches" and heed.randn(1, 2, 4, 4) or heed.randn(2, 3, 8)
      for _, field in ipairs(maker[2]) do
        local layer = maker[1]()
        local before, linear = layer(x), layer[field]
        layer[field] = Tied(linear)
        layer[field].bias = linear.bias
        function layer.plus(t) return t end
        layer[field]:register_forward_hook(function(_, _, y) return y + linear.bias end)
        assert.is_true((layer(x):allclose(before, {atol = 1e-5})))
        layer[field] = thin(8, 8)
        layer(x):sum():backward()
        assert.is_truthy(layer[field][1].weight.grad)
        assert.matches("Sequential", tostring(layer))
        layer[field] = function() return 3 end
        assert.matches("nn." .. name .. ": a tensor expected from field '" .. field .. "', got 3",
                       message_of(layer, x), 1, true)
      end
    end)
  end

  it("draws its weights itself", function()
    local layer, drawn = nn.MultiHeadAttention(8, 2), 0
    layer.key, layer.out = Tied(layer.query), Tied(layer.query)
    assert.matches("reset: a layer with weights expected as field 'key', got a Tied without a "
                   .. "method reset", message_of(layer.reset, layer))
    function Tied.reset() drawn = drawn + 1 end
    local before = layer.query.weight:clone()
    layer:reset()
    assert.equal(2, drawn)
    assert.is_false((layer.query.weight:equal(before)))
    Tied.reset = nil
  end)

  it("of a model may be a function that calls it", function()
    local ids = heed.tensor{{3, 4, 5, 2}}
    for name, fields in pairs{
      albert = {"words", "project", "norm", "types", "position", "body"},
      bart = {"words", "source", "target", "head"}, gpt2 = {"words", "position", "body", "head"},
      mpnet = {"words", "position", "body"}, bert_reranker = {"types", "head"},
    } do
      local m = assert(heed.models.load("spec/golden/models/" .. name))
      local wanted = heed.no_grad(m, ids, m.is_sequence and ids or nil)
      for _, field in ipairs(fields) do
        local own = m[field]
        m[field] = function(...) return own(...) end
        assert.is_true(wanted:equal(heed.no_grad(m, ids, m.is_sequence and ids or nil)), field)
        m[field] = own
      end
    end
  end)

  it("is none of PyTorch's, and nothing of it is lost", function()
    local model = nn.Encoder(8, 2, 1)
    model.layers[1].attend.key = thin(8, 8)
    assert.matches("nn.to_torch: layers.1.attend.key: PyTorch's MultiheadAttention has a linear "
                   .. "layer there, got Sequential", message_of(nn.to_torch, model), 1, true)
    model = nn.Encoder(8, 2, 1)
    model.layers[1].attend.out.more = nn.Parameter(heed.zeros(2))
    assert.matches("layers.1.attend.out: PyTorch's", message_of(nn.to_torch, model), 1, true)
  end)
end)


-- A bias of distances by a small network: (T, S) -> (heads, T, S).
local Dynamic = nn.Module:extend("Dynamic")

function Dynamic:init(heads) self.net = nn.MLP(1, 8, {out_dim = heads}) end

function Dynamic:forward(T, S, q)
  local i = heed.arange(S - T + 1, S, {dtype = q.dtype}):unsqueeze(2)
  local distance = i - heed.arange(S, {dtype = q.dtype}):unsqueeze(1)
  return self.net(distance:unsqueeze(3)):permute(3, 1, 2)
end


describe("a module as position_bias", function()
  local x = heed.randn(2, 5, 8)

  it("is asked with the sizes, and adds what it gives to the scores", function()
    local bias = Dynamic(2)
    local layer = nn.MultiHeadAttention(8, 2, {position_bias = bias})
    local plain = nn.MultiHeadAttention(8, 2)
    plain:load_state(layer:state(), {strict = false})
    local matrix, more = bias(5, 5, x):unsqueeze(1), heed.randn(5, 5)
    local function same(a, b) assert.is_true((a:allclose(b, {atol = 1e-6}))) end
    same(layer(x), plain(x, {bias = matrix}))
    same(layer(x, {bias = more}), plain(x, {bias = matrix + more}))
    local context = heed.randn(2, 7, 8)
    same(layer(x, context), plain(x, context, {bias = bias(5, 7, x):unsqueeze(1)}))
    assert.equal(0, layer(heed.zeros(2, 0, 8)):numel())
  end)

  it("may be a function, and give a value of heed.bias", function()
    local layer = nn.MultiHeadAttention(8, 2, {
      position_bias = function() return heed.bias.alibi(2) + heed.bias.alibi(2) end,
    })
    local plain = nn.MultiHeadAttention(8, 2, {
      position_bias = heed.bias.alibi(2) + heed.bias.alibi(2),
    })
    plain:load_state(layer:state())
    assert.is_true((layer(x):equal(plain(x))))
    layer.position_bias = function() return heed.bias.alibi(3) end
    assert.matches("is for 3 heads", message_of(layer, x))
    layer.position_bias = function() return 3 end
    assert.matches("nn.MultiHeadAttention: a value of heed.bias or a float tensor expected from "
                   .. "field 'position_bias', got 3", message_of(layer, x), 1, true)
  end)

  it("adds up with the call's, whatever the two are", function()
    local plain, more = nn.MultiHeadAttention(8, 2), heed.randn(5, 5)
    local tensor, value = heed.randn(2, 5, 5), heed.bias.alibi(2)
    for _, own in ipairs{tensor, value} do
      local layer = nn.MultiHeadAttention(8, 2, {position_bias = function() return own end})
      plain:load_state(layer:state())
      for _, other in ipairs{more, value} do
        local whole = heed.bias.tensor(tensor)
        if own == value then whole = value end
        assert.is_true((layer(x, {bias = other}):allclose(plain(x, {bias = whole + other}),
                                                         {atol = 1e-6})))
      end
    end
  end)

  it("steps with a cache as it does at once", function()
    local model = nn.Decoder(8, 2, 2, {cross = false, position_bias = Dynamic(2)})
    local whole, cache, parts = model(x), nn.Cache(), {}
    for t = 1, 5 do parts[t] = model(x:narrow(2, t, 1), {cache = cache}) end
    assert.is_true(whole:allclose(heed.cat(parts, 2), {atol = 1e-5}))
  end)

  it("is one for all layers of a stack, found once, trained, moved, saved and cloned", function()
    for name, make in pairs{
      Encoder = function(o) return nn.Encoder(8, 2, 2, o), x end,
      Decoder = function(o) return nn.Decoder(8, 2, 2, o), x, x end,
      Transformer = function(o)
        o.layers = 1
        return nn.Transformer(8, 2, o), x, x
      end,
    } do
      local bias = Dynamic(2)
      local first = bias.net.up.weight:clone()
      local model, a, b = make{position_bias = bias}
      assert.is_true(bias.net.up.weight:equal(first), name)
      local count = 0
      for _, p in ipairs(model:parameters()) do
        if rawequal(p, bias.net.up.weight) then count = count + 1 end
      end
      assert.equal(1, count)
      model(a, b):square():sum():backward()
      assert.is_true(bias.net.up.weight.grad:abs():sum():item() > 0)
      local other = make{position_bias = Dynamic(2)}
      other:load_state(model:state())
      assert.is_true((other(a, b):equal(model(a, b))))
      assert.is_true((model:clone()(a, b):equal(model(a, b))))
      model:to("float64")
      assert.equal("float64", bias.net.up.weight.dtype)
    end
  end)
end)


describe("a module as position", function()
  local Turn = nn.Module:extend("Turn")

  function Turn:init() self.net = nn.Linear(4, 4) end

  function Turn:forward(q, k) return self.net(q), self.net(k) end

  it("is found once, trained and saved, and no stack draws its weights anew", function()
    local x, turn = heed.randn(2, 5, 8), Turn()
    local first = turn.net.weight:clone()
    local model = nn.Transformer(8, 2, {layers = 2, position = turn})
    assert.is_true((turn.net.weight:equal(first)))
    model(x, x):square():sum():backward()
    assert.is_truthy(turn.net.weight.grad)
    local names = {}
    for name in pairs(model:state()) do
      if name:find("position") then names[#names + 1] = name end
    end
    table.sort(names)
    assert.same({"encoder.layers.1.attend.position.net.bias",
                 "encoder.layers.1.attend.position.net.weight"}, names)
  end)
end)
