-- States of PyTorch's names: the names of each layer, and states that are refused.

local heed = require "heed"
local nn = require "heed.nn"
local golden = require "spec.golden"


local function message(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end


-- "name (shape)" of each tensor, sorted.
local function listed(state)
  local list = {}
  for name, t in pairs(state) do list[#list + 1] = name .. " " .. tostring(t.shape) end
  table.sort(list)
  return list
end


local function same(a, b)
  assert.same(listed(a), listed(b))
  for name, t in pairs(a) do assert.is_true(t:equal(b[name]), name) end
end


describe("PyTorch's names", function()
  it("of attention are those of torch.nn.MultiheadAttention", function()
    local m = nn.MultiHeadAttention(8, 2)
    local state = nn.to_torch(m)
    assert.same({"in_proj_bias (24)", "in_proj_weight (24, 8)", "out_proj.bias (8)",
                 "out_proj.weight (8, 8)"}, listed(state))
    for i, name in ipairs{"query", "key", "value"} do
      assert.is_true(state.in_proj_weight[{{8 * i - 7, 8 * i}}]:equal(m[name].weight))
      assert.is_true(state.in_proj_bias[{{8 * i - 7, 8 * i}}]:equal(m[name].bias))
    end
    assert.same({"k_proj_weight (8, 5)", "out_proj.weight (8, 8)", "q_proj_weight (8, 8)",
                 "v_proj_weight (8, 5)"},
                listed(nn.to_torch(nn.MultiHeadAttention(8, 2, {context_dim = 5, bias = false}))))
    assert.same({"in_proj_bias (24)", "k_proj_weight (8, 5)", "out_proj.bias (8)",
                 "out_proj.weight (8, 8)", "q_proj_weight (8, 8)", "v_proj_weight (8, 5)"},
                listed(nn.to_torch(nn.MultiHeadAttention(8, 2, {context_dim = 5}))))
    assert.same({"k_proj_weight (8, 5)", "out_proj.weight (8, 8)", "q_proj_weight (8, 8)",
                 "v_proj_weight (8, 8)"}, listed(nn.to_torch(nn.MultiHeadAttention(8, 2, {
                   context_dim = 5, value_context_dim = 8, bias = false}))))
  end)

  it("of attention with a learnt key and value, and with values of other features", function()
    local m = nn.MultiHeadAttention(8, 2, {memory = 1, value_context_dim = 5, bias = false})
    local state = nn.to_torch(m)
    assert.same({"bias_k (1, 1, 8)", "bias_v (1, 1, 8)", "k_proj_weight (8, 8)",
                 "out_proj.weight (8, 8)", "q_proj_weight (8, 8)", "v_proj_weight (8, 5)"},
                listed(state))
    same(m:state(), nn.from_torch(state, m))
  end)

  it("lead to PyTorch's numbers", function()
    local _, rows = next(golden.part("first_weights"))
    local name_there = "dim 8 heads 2 feed-forward 12 (PyTorch: TransformerEncoderLayer)"
    local given = {}
    for name, row in pairs(rows["EncoderLayer " .. name_there]) do
      given[name] = golden.tensor(row):to(heed.default_device())
    end
    local m = nn.EncoderLayer(8, 2, 12)
    m:load_state(nn.from_torch(given, m))
    same(given, nn.to_torch(m))
    assert.is_true(m.attend.value.weight:equal(given["self_attn.in_proj_weight"][{{17, 24}}]))
    assert.is_true(m.mlp.down.weight:equal(given["linear2.weight"]))
  end)

  it("of layers are those of torch.nn.TransformerDecoderLayer", function()
    local m = nn.DecoderLayer(4, 2, 6, {bias = false})
    assert.same({"linear1.weight (6, 4)", "linear2.weight (4, 6)",
                 "multihead_attn.in_proj_weight (12, 4)", "multihead_attn.out_proj.weight (4, 4)",
                 "norm1.weight (4)", "norm2.weight (4)", "norm3.weight (4)",
                 "self_attn.in_proj_weight (12, 4)", "self_attn.out_proj.weight (4, 4)"},
                listed(nn.to_torch(m)))
    assert.is_true(nn.to_torch(m)["norm3.weight"]:equal(m.norm3.weight))
    nn.to_torch(m)["norm3.weight"]:fill_(7)               -- which shares its values
    nn.to_torch(m)["self_attn.in_proj_weight"]:fill_(7)   -- and which is a copy
    assert.same({7, 7, 7, 7}, m.norm3.weight:totable())
    assert.is_true(m.attend.query.weight:ne(7):all())
  end)

  it("reach into one's own modules: fields keep their names, positions count from 0", function()
    local Mine = nn.EncoderLayer:extend("Mine")
    local m = nn.Module:extend("Model")()
    m.embed = nn.Embedding(5, 4)
    m.blocks = {nn.Sequential{nn.Linear(4, 3), nn.ReLU(), nn.RMSNorm(3)}, nn.MLP(4, 4)}
    m.named = {first = nn.LayerNorm(4, {bias = false})}
    m.mine = Mine(4, 2, 4, {bias = false})
    m.mean, m.plain = nn.Buffer(heed.zeros(2)), heed.zeros(9)
    m.block2 = nn.Linear(1, 2, {bias = false})
    local state = nn.to_torch(m)
    assert.same({
      "block2.weight (2, 1)",
      "blocks.0.0.bias (3)", "blocks.0.0.weight (3, 4)", "blocks.0.2.weight (3)",
      "blocks.1.down.bias (4)", "blocks.1.down.weight (4, 4)", "blocks.1.up.bias (4)",
      "blocks.1.up.weight (4, 4)", "embed.weight (5, 4)", "mean (2)", "mine.linear1.weight (4, 4)",
      "mine.linear2.weight (4, 4)", "mine.norm1.weight (4)", "mine.norm2.weight (4)",
      "mine.self_attn.in_proj_weight (12, 4)", "mine.self_attn.out_proj.weight (4, 4)",
      "named.first.weight (4)",
    }, listed(state))
    same(m:state(), nn.from_torch(state, m))
  end)

  it("of whole models come back as they went, in every type", function()
    for _, dtype in ipairs{"float32", "bfloat16", "float64"} do
      local a = nn.Transformer(8, 2, {layers = 2, hidden = 4}):to(dtype)
      local b = nn.Transformer(8, 2, {layers = 2, hidden = 4}):to(dtype)
      b:load_state(nn.from_torch(nn.to_torch(a), b))
      same(a:state(), b:state())
    end
  end)

  it("of shared tensors are all written, and one is enough to read", function()
    local m = nn.Module:extend("Tied")()
    m.embed, m.attend = nn.Embedding(5, 4), nn.MultiHeadAttention(4, 2)
    m.again, m.head = m.attend, nn.Linear(4, 5, {bias = false})
    m.head.weight = m.embed.weight
    m.itself = m
    local state = nn.to_torch(m)
    assert.is_true(state["head.weight"]:equal(state["embed.weight"]))
    assert.is_true(state["again.in_proj_weight"]:equal(state["attend.in_proj_weight"]))
    for name in pairs(state) do
      if name:find("^attend") or name:find("^embed") then state[name] = nil end
    end
    m:load_state(nn.from_torch(state, m))
    state["again.in_proj_bias"] = nil
    assert.matches("attend.in_proj_bias: float32 %(12%) is missing",
                   message(nn.from_torch, state, m))
  end)
end)


describe("a state that does not fit", function()
  it("is refused with all names that are missing, unexpected or misshapen", function()
    local m = nn.Encoder(4, 2, 1)
    local state = nn.to_torch(m)
    state["layers.0.norm2.bias"] = nil
    state["layers.1.norm1.bias"] = heed.zeros(4)
    state["layers.0.self_attn.in_proj_weight"] = heed.zeros(8, 4)
    state["layers.0.linear1.bias"] = heed.zeros(16, {dtype = "float64"})
    local why = message(function() nn.from_torch(state, m) end)
    assert.matches("torch_spec.lua:%d+: nn.from_torch: the state does not fit", why)
    for _, line in ipairs{
      "layers.0.linear1.bias: float32 (16) expected, got float64 (16)",
      "layers.0.norm2.bias: float32 (4) is missing",
      "layers.0.self_attn.in_proj_weight: float32 (12, 4) expected, got float32 (8, 4)",
      "layers.1.norm1.bias: not expected",
    } do assert.matches(line, why, 1, true) end
  end)

  it("gives what there is with strict = false", function()
    local m = nn.MultiHeadAttention(4, 2)
    local state = nn.to_torch(m)
    state.in_proj_bias, state.extra = nil, heed.zeros(1)
    local found, missing, unexpected = nn.from_torch(state, m, {strict = false})
    assert.same({"in_proj_bias"}, missing)
    assert.same({"extra"}, unexpected)
    assert.same({"key.weight (4, 4)", "out.bias (4)", "out.weight (4, 4)", "query.weight (4, 4)",
                 "value.weight (4, 4)"}, listed(found))
    assert.same({{"key.bias", "query.bias", "value.bias"}, {}},
                {m:load_state(found, {strict = false})})
    assert.equal(1, select("#", nn.from_torch(nn.to_torch(m), m)))
  end)

  it("is told by the module already where PyTorch's layer is another one", function()
    for _, case in ipairs{
      {nn.EncoderLayer(8, 2, {kv_heads = 1}), "attend: PyTorch's MultiheadAttention has heads of "
       .. "dim / heads .* dim 8, 2 heads of 4 and 4, kv_heads 1, 8 at the end"},
      {nn.MultiHeadAttention(8, 2, {head_dim = 3}), "the module: .* 2 heads of 3"},
      {nn.MultiHeadAttention(8, 2, {value_dim = 3}), "the module: .* heads of 4 and 3"},
      {nn.MultiHeadAttention(8, 2, {out_dim = 3}), "the module: .* 3 at the end"},
      {nn.EncoderLayer(8, 2, {sink = true}), "attend.sink: PyTorch's layer has nothing like that"},
      {nn.EncoderLayer(8, 2, {memory = 2}), "attend.memory_keys: .* one at most, got 2"},
      {nn.EncoderLayer(8, 2, {qk_norm = true}), "attend.query_norm.weight: PyTorch's layer"},
      {nn.Encoder(8, 2, 1, {activation = "swiglu"}), "layers.1.mlp.gate.weight: PyTorch's layer"},
      {nn.Encoder(8, 2, 1, {norm = "sandwich"}), "layers.1.out_norm1.weight: PyTorch's layer"},
      {nn.EncoderLayer(8, 2, {layer_scale = 1}), "scale1: PyTorch's layer"},
    } do
      assert.matches("torch_spec.lua:%d+: nn.to_torch: " .. case[2],
                     message(function() nn.to_torch(case[1]) end))
      assert.matches("nn.from_torch: " .. case[2], message(nn.from_torch, {}, case[1]))
    end
    local m = nn.Module:extend("Model")()
    m.layer, m["layer.bias"] = nn.Linear(1, 1), nn.Parameter(heed.zeros(1))
    assert.matches("two tensors would be called 'layer.bias'", message(nn.to_torch, m))
  end)

  it("is none, or comes with too much", function()
    local m = nn.Linear(1, 1)
    assert.matches("nn.to_torch: a module expected, got 3", message(nn.to_torch, 3))
    assert.matches("nn.to_torch: at most 1 argument", message(nn.to_torch, m, 1))
    assert.matches("nn.from_torch: a module expected, got nil", message(nn.from_torch, {}))
    assert.matches("nn.from_torch: a table of tensors by name expected, got Linear",
                   message(nn.from_torch, m, m))
    assert.matches("unknown option 'strikt'", message(nn.from_torch, {}, m, {strikt = true}))
    assert.matches("at most 3 arguments", message(nn.from_torch, {}, m, {}, 1))
    assert.matches("weight: a tensor expected, got 1",
                   message(nn.from_torch, {weight = 1, bias = heed.zeros(1)}, m))
  end)
end)
