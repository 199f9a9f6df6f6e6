-- Transformer layers and stacks: equal to PyTorch's, and to computations written out by hand.

local close = require "spec.support.close"
local golden = require "spec.golden"
local heed = require "heed"
local near = require "spec.support.near"
local nn = require "heed.nn"


local function message(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end


-- Gradients of a module under PyTorch's names: those of a state whose values they are.
local function torch_gradients(m)
  heed.no_grad(function()
    for _, p in ipairs(m:parameters()) do p:copy_(p.grad) end
  end)
  return nn.to_torch(m)
end


describe("PyTorch's numbers:", function()
  -- PyTorch's masks, (B, S) or (T, S), are true for keys that are not to be seen.
  local function padding(t) return t:logical_not():unsqueeze(2):unsqueeze(2) end

  local function both(a, b) return a and b and a & b or a or b end

  local function self_options(found, name)
    local mask, is_padding = found["mask." .. name .. "mask"], found["mask." .. name .. "padding"]
    if mask and mask.dtype ~= "bool" then return {bias = mask, causal = false} end
    return {
      mask = both(mask and mask:logical_not(), is_padding and padding(is_padding)), causal = false,
    }
  end

  local function encode(m, found) return m(found["input.src"], self_options(found, "")) end

  local function decode(m, found)
    local o, memory = self_options(found, "tgt_"), found["mask.memory_padding"]
    o.context_mask = memory and padding(memory)
    return m(found["input.tgt"], found["input.memory"], o)
  end

  local function translate(m, found)
    local o = self_options(found, "tgt_")
    o.source_mask = padding(found["mask.src_padding"])
    o.context_mask = o.source_mask
    return m(found["input.src"], found["input.tgt"], o)
  end

  local function encoder_layer(o) return nn.EncoderLayer(16, 4, 32, o) end
  local function decoder_layer(o) return nn.DecoderLayer(16, 4, 32, o) end

  local function encoder(o)
    o.hidden = 32
    return nn.Encoder(16, 4, 2, o)
  end

  local function model(o)
    o.hidden, o.layers = 32, 2
    return nn.Transformer(16, 4, o)
  end

  -- PyTorch's seed, its file, functions that make and call the module, options.
  local cases = {
    {0, "encoder_layer_post_relu_padding", encoder_layer, encode, {}},
    {3, "decoder_layer_post_relu_causal_padding", decoder_layer, decode, {}},
    {7, "encoder_layer_post_nobias", encoder_layer, encode,
     {activation = "gelu", bias = false, eps = 1e-3}},
    {11, "encoder_layer_pre_relu_float", encoder_layer, encode, {norm = "pre"}},
    {12, "decoder_layer_pre_relu_none", decoder_layer, decode, {norm = "pre"}},
    {15, "encoder_layer_pre_gelu_causal", encoder_layer, encode,
     {norm = "pre", activation = "gelu"}},
    {18, "encoder_2_pre", encoder, encode, {norm = "pre"}},
    {19, "transformer_2_2_pre_gelu", model, translate, {norm = "pre", activation = "gelu"}},
  }

  local function made(case)
    heed.manual_seed(case[1])
    local o = {}
    for name, value in pairs(case[5]) do o[name] = value end
    return case[3](o)
  end

  for _, case in ipairs(cases) do
    it(case[2], function()
      local found, m = golden.tensors("transformer/" .. case[2]), made(case)
      local first = found "first."
      for name, t in pairs(nn.to_torch(m)) do
        near(first[name], t, 0, 1e-6, "first weights, " .. name)
        first[name] = found["weight." .. name] or t
      end
      m:load_state(nn.from_torch(first, m))
      for _, name in ipairs{"input.src", "input.tgt", "input.memory"} do
        if found[name] then found[name]:requires_grad_() end
      end
      local y = case[4](m, found)
      near(found.output, y, 1e-5, 1e-5, "output")
      y:backward(found.grad_output)
      for name, wanted in pairs(found "grad_input.") do
        near(wanted, found["input." .. name].grad, 5e-5, 1e-5, name)
      end
      local gradients = torch_gradients(m)
      for name, wanted in pairs(found "grad.") do
        near(wanted, gradients[name], 5e-5, 1e-5, name)
      end
    end)
  end
end)


-- Attention of several heads, written out: head by head, by matmul and softmax.
local function attention_by_hand(m, x, context, allowed)
  local q, k, v = m.query(x), m.key(context), m.value(context)
  local D, heads = m.head_dim, {}
  for h = 1, m.heads do
    local function part(t) return t:narrow(-1, (h - 1) * D + 1, D) end
    local scores = part(q):matmul(part(k):transpose(-2, -1)) / math.sqrt(D)
    if allowed then scores = scores:masked_fill(allowed:logical_not(), -math.huge) end
    heads[h] = scores:softmax(-1):matmul(part(v))
  end
  return m.out(heed.cat(heads, -1))
end


local function layer_norm(norm, x)
  local mean = x:mean(-1, true)
  local variance = ((x - mean) ^ 2):mean(-1, true)
  return (x - mean) / (variance + norm.options.eps):sqrt() * norm.weight + norm.bias
end


local function mlp_by_hand(mlp, x)
  local up = x:matmul(mlp.up.weight:t()) + mlp.up.bias
  return up:relu():matmul(mlp.down.weight:t()) + mlp.down.bias
end


local function causal(T) return heed.ones(T, T):tril():gt(0) end


describe("a layer equals what is written out by hand:", function()
  local function parts_of(layer, context)
    local parts = {function(x) return attention_by_hand(layer.attend, x, x, causal(x:size(-2))) end}
    if context then
      parts[2] = function(x) return attention_by_hand(layer.cross, x, context) end
    end
    parts[#parts + 1] = function(x) return mlp_by_hand(layer.mlp, x) end
    return parts
  end

  local formulas = {
    post = function(layer, i, part, x) return layer_norm(layer["norm" .. i], x + part(x)) end,
    pre = function(layer, i, part, x) return x + part(layer_norm(layer["norm" .. i], x)) end,
    sandwich = function(layer, i, part, x)
      local y = part(layer_norm(layer["norm" .. i], x))
      return x + layer_norm(layer["out_norm" .. i], y)
    end,
    scaled = function(layer, i, part, x)
      return layer_norm(layer["norm" .. i], x * 1.5 + part(x) * layer["scale" .. i])
    end,
  }

  local function run(f, layer, x, context)
    layer:zero_grad()
    x.grad, context.grad = nil, nil
    local y = f()
    ;(y * heed.linspace(-1, 2, 8)):sum():backward()
    local gradients = {x.grad:clone(), context.grad and context.grad:clone()}
    for _, p in ipairs(layer:parameters()) do gradients[#gradients + 1] = p.grad:clone() end
    return y, gradients
  end

  -- Norms and biases that are not 1 and 0.
  local function shaken(layer)
    heed.no_grad(function()
      for _, p in ipairs(layer:parameters()) do
        if p:dim() == 1 then p:add_(heed.randn(p:size()) / 4) end
      end
    end)
    return layer
  end

  it("keeps nothing of its input with a residual scale of 0", function()
    local layer = nn.EncoderLayer(8, 2, 12, {norm = "pre", residual_scale = 0})
    heed.no_grad(function() for _, p in ipairs(layer:parameters()) do p:fill_(0) end end)
    assert.equal(0, layer(heed.ones(1, 3, 8)):abs():max():item())
  end)

  for name, formula in pairs(formulas) do
    for _, cross in ipairs{true, false} do
      it(name .. (cross and ", with cross-attention" or ""), function()
        heed.manual_seed(3)
        local o = {cross = cross, norm = name}
        if name == "scaled" then
          o = {cross = cross, residual_scale = 1.5, layer_scale = 0.1}
        end
        local layer = shaken(nn.DecoderLayer(8, 2, 12, o))
        local x = heed.randn(2, 5, 8, {requires_grad = true})
        local context = heed.randn(2, 3, 8, {requires_grad = true})
        local y, gradients = run(function()
          if cross then return layer(x, context) end
          return layer(x)
        end, layer, x, context)
        local by_hand, wanted = run(function()
          local h = x
          for i, part in ipairs(parts_of(layer, cross and context)) do
            h = formula(layer, i, part, h)
          end
          return h
        end, layer, x, context)
        near(by_hand, y, 1e-5, 2e-6, "output")
        assert.equal(#wanted, #gradients)
        for i, g in pairs(wanted) do near(g, gradients[i], 1e-4, 1e-5, "gradient " .. i) end
      end)
    end
  end

  it("the gated MLPs", function()
    local x = heed.randn(3, 4)
    for name, f in pairs{swiglu = heed.silu, geglu = heed.gelu, reglu = heed.relu,
                         glu = heed.sigmoid} do
      local m = nn.MLP(4, 6, {activation = name})
      local gate = f(x:matmul(m.gate.weight:t()) + m.gate.bias)
      local up = x:matmul(m.up.weight:t()) + m.up.bias
      local wanted = (gate * up):matmul(m.down.weight:t()) + m.down.bias
      near(wanted, m(x), 1e-5, 1e-6, name)
    end
    local m = nn.MLP(4, 6, {activation = nn.GELU("tanh"), gated = true, bias = false})
    local gated = heed.gelu(m.gate(x), "tanh") * m.up(x)
    near(m.down(gated), m(x), 1e-5, 1e-6, "gated")
    assert.is_false(nn.MLP(4, 6).gate)
    heed.manual_seed(3)
    local whole = nn.GatedMLP(4, 6, {bias = false, out_dim = 5})
    heed.manual_seed(3)
    local same = nn.MLP(4, 6, {activation = "swiglu", bias = false, out_dim = 5})
    assert.is_true(whole(x):equal(same(x)))
    local written = (heed.silu(x:matmul(whole.gate.weight.T)) * x:matmul(whole.up.weight.T))
    near(written:matmul(whole.down.weight.T), whole(x), 1e-5, 1e-6, "GatedMLP")
    assert.same({3, 5}, {whole(x):size()})
    assert.matches("nn.GatedMLP: unknown activation 'gleu'",
                   message(nn.GatedMLP, 4, 6, {activation = "gleu"}), 1, true)
    assert.matches("nn.GatedMLP", message(nn.GatedMLP, 4, 6, {gated = true}), 1, true)
    assert.matches("hidden", message(nn.GatedMLP, 4, 0), 1, true)
    assert.matches("did you mean 'swiglu'", message(nn.MLP, 4, 6, {activation = "swigl"}))
    local layer = nn.EncoderLayer(4, 2, {activation = "swiglu", norm_type = "rms", bias = false})
    assert.equal("RMSNorm", layer.norm2.__name)
    assert.same({16, 4}, {layer.mlp.gate.weight:size()})
    assert.equal(9, #layer:parameters())
  end)
end)


describe("a stack", function()
  it("is its layers one upon the other, and a norm unless they are post", function()
    local x = heed.randn(2, 3, 8)
    for norm, final in pairs{post = false, pre = true, sandwich = true} do
      local m = nn.Encoder(8, 2, 2, {norm = norm, hidden = 12, eps = 1e-3})
      local y = m.layers[2](m.layers[1](x))
      near(final and heed.layer_norm(y, {8}, nil, nil, {eps = 1e-3}) or y, m(x), 1e-5, 1e-6,
                  norm)
      assert.equal(final, m.norm ~= false)
      assert.is_true(nn.Decoder(8, 2, 1, {norm = norm, final_norm = not final}).norm ~= final)
    end
  end)

  it("begins with copies of one layer, which draws alone; a Transformer with none", function()
    heed.manual_seed(5)
    local one, after_one = nn.DecoderLayer(8, 2), heed.rand(1):item()
    heed.manual_seed(5)
    local m, after = nn.Decoder(8, 2, 3), heed.rand(1):item()
    assert.equal(after_one, after)
    for i = 1, 3 do
      for name, t in pairs(one:state()) do assert.is_true(t:equal(m.layers[i]:state()[name])) end
    end
    local names = {}
    for name in nn.Decoder(8, 2, 1):named_parameters() do names[#names + 1] = name end
    assert.equal("layers.1.attend.query.weight layers.1.norm3.bias",
                 names[1] .. " " .. names[#names])
    local t = nn.Transformer(8, 2, {layers = {1, 2}})
    assert.same({1, 2}, {#t.encoder.layers, #t.decoder.layers})
    local layers = t.decoder.layers
    assert.is_false(layers[1].mlp.up.weight:equal(layers[2].mlp.up.weight))
    assert.is_false(layers[1].attend.query.weight:equal(layers[2].attend.query.weight))
  end)

  it("sees no future where it is causal", function()
    local x, other = heed.randn(1, 6, 8), heed.randn(1, 6, 8)
    other[{{}, {1, 4}}] = x[{{}, {1, 4}}]
    local function same_beginning(m, o)
      return m(x, o):narrow(2, 1, 4):allclose(m(other, o):narrow(2, 1, 4), {atol = 1e-6})
    end
    local decoder, encoder = nn.Decoder(8, 2, 2, {cross = false}), nn.Encoder(8, 2, 2)
    assert.is_true(same_beginning(decoder))
    assert.is_false(same_beginning(decoder, {causal = false}))
    assert.is_false(same_beginning(encoder))
    assert.is_true(same_beginning(encoder, {causal = true}))
    encoder:load_state(decoder:state())
    assert.is_true(encoder(x, {causal = true}):allclose(decoder(x)))
    assert.is_true(encoder(x[1]):allclose(encoder(x)[1], {atol = 1e-6}))
  end)

  it("of a padded batch equals its rows alone", function()
    local lengths, source_lengths = {4, 2}, {2, 5}
    local x, source = heed.randn(2, 4, 8), heed.randn(2, 5, 8)
    local m = nn.Transformer(8, 2, {layers = 2, norm = "pre"})
    local y = m(source, x, {
      lengths = heed.tensor(lengths), context_lengths = heed.tensor(source_lengths),
    })
    for i = 1, 2 do
      local alone = m(source[{i, {1, source_lengths[i]}}], x[{i, {1, lengths[i]}}])
      near(alone, y[{i, {1, lengths[i]}}], 1e-5, 2e-6, "row " .. i)
    end
    local context = m.encoder(source, {lengths = heed.tensor(source_lengths)})
    local steps = m.decoder(x, context, {
      lengths = heed.tensor(lengths), context_lengths = heed.tensor(source_lengths),
    })
    assert.is_true(steps:equal(y))
  end)

  it("takes every float type, views, and batches of nothing", function()
    for _, dtype in ipairs{"float64", "float32", "float16", "bfloat16"} do
      local m = nn.Decoder(8, 2, 1, {norm = "sandwich", activation = "geglu"}):to(dtype)
      local x = heed.randn(3, 2, 8):to(dtype):transpose(1, 2)
      local context = heed.randn(1, 4, 8):to(dtype):expand(2, 4, 8)
      local y = m(x, context)
      assert.same({dtype, x.shape}, {y.dtype, y.shape})
      assert.is_true(y:equal(m(x:contiguous(), context:contiguous())))
      y:sum():backward()
      for _, shape in ipairs{{0, 3, 8}, {2, 0, 8}, {0, 8}} do
        local none = heed.zeros(shape, {dtype = dtype})
        local z = m(none, #shape == 2 and context[1] or context:narrow(1, 1, shape[1]))
        assert.same(none.shape, z.shape)
        z:sum():backward()
      end
    end
  end)

  it("gives the weights of each layer where they are asked for, and to capture", function()
    local m = nn.Transformer(8, 2, {layers = {3, 2}})
    local source, x = heed.randn(1, 5, 8), heed.randn(1, 4, 8)
    assert.equal(1, select("#", m(source, x)))
    local y, weights, cross, of_source = m(source, x, {weights = true})
    assert.is_true(y:equal(m(source, x)))
    assert.same({2, 2, 3}, {#weights, #cross, #of_source})
    assert.equal("(1, 2, 4, 4)(1, 2, 4, 5)(1, 2, 5, 5)", tostring(weights[2].shape)
                 .. tostring(cross[2].shape) .. tostring(of_source[3].shape))
    local seen = {}
    m:on_weights(function(name, w) seen[name] = w end)
    m(source, x)
    m:on_weights()
    assert.is_true(seen["decoder.layers.2.cross"]:equal(cross[2]))
    assert.is_true(seen["encoder.layers.3.attend"]:equal(of_source[3]))
    assert.equal(2, select("#", nn.Decoder(8, 2, 1, {cross = false})(x, {weights = true})))
    assert.equal(2, select("#", m.encoder(x, {weights = true})))
  end)

  it("shows what it is", function()
    local text = tostring(nn.Decoder(8, 2, 1, {norm = "pre", cross = false}))
    assert.matches("^Decoder%(8, 2, 1%)", text)
    assert.matches("layers.1 +DecoderLayer%(8, 2, 32, norm = pre%)", text)
    assert.matches("attend +MultiHeadAttention%(8, 2%)", text)
    assert.is_nil(text:find("cross"))
  end)
end)


describe("dropout", function()
  it("is at work in three places, while training", function()
    local layer = nn.EncoderLayer(8, 2, {dropout = 0.25, norm = "pre"})
    assert.same({0.25, 0.25, 0.25}, {layer.attend.dropout, layer.mlp.dropout.p, layer.dropout.p})
    local x = heed.randn(2, 3, 8)
    assert.is_false(layer(x):equal(layer(x)))
    layer:eval()
    assert.is_true(layer(x):equal(layer(x)))
    layer = nn.DecoderLayer(8, 2, {dropout = 1, attention_dropout = 0.5, norm = "pre"})
    assert.same({0.5, 0.5, 1}, {layer.attend.dropout, layer.cross.dropout, layer.dropout.p})
    assert.is_true(layer(x, x):equal(x))
  end)

  it("of layers leaves out a share of them, and none in evaluation", function()
    heed.manual_seed(1)
    local m = nn.Encoder(8, 2, 2, {layer_dropout = 0.25, hidden = 8, norm = "pre",
                                   final_norm = false})
    local x = heed.randn(1, 3, 8)
    local first, second = m.layers[1](x), m.layers[2](x)
    local whole = m.layers[2](first)
    m:eval()
    assert.is_true(m(x):equal(whole))
    m:train()
    local results, counts, runs = {x, first, second, whole}, {0, 0, 0, 0}, 1000
    for _ = 1, runs do
      local y = m(x)
      for i, result in ipairs(results) do
        if y:equal(result) then
          counts[i] = counts[i] + 1
          break
        end
      end
    end
    assert.equal(runs, counts[1] + counts[2] + counts[3] + counts[4])
    -- first and second are equal: the layers are copies; 5 standard deviations
    for i, p in ipairs{0.0625, 0.375, 0, 0.5625} do
      local deviation = math.sqrt(runs * p * (1 - p))
      assert.is_true(close(counts[i], runs * p, 0, 5 * deviation), i .. ": " .. counts[i])
    end
    m.layer_dropout = 1
    local y, weights = m(x, {weights = true})
    assert.is_true(y:equal(x))
    for i = 1, 2 do                                    -- the CPU does not call them: no weights
      local got = weights[i] and weights[i]:eq(0):all()
      assert.equal(heed.default_device() ~= "cpu", got)
    end
    local one = nn.Encoder(8, 2, 1, {hidden = 8, norm = "pre", final_norm = false})
    heed.manual_seed(7)
    local drawn = heed.rand(1):item()              -- a number below the share leaves a layer out
    for share, left_out in pairs{[drawn] = false, [drawn + 2 ^ -24] = true} do
      one.layer_dropout = share
      heed.manual_seed(7)
      assert.equal(left_out, one(x):equal(x))
    end
  end)

  it("of layers is decided anew by each replay of a GPU, and not captured on the CPU", function()
    heed.manual_seed(4)
    local m = nn.Encoder(8, 2, 1, {layer_dropout = 0.5, hidden = 8})
    local x, left_out = heed.randn(1, 3, 8), 0
    local step = heed.capture(function(input) return heed.no_grad(m, input) end)
    if heed.default_device() == "cpu" then
      step(x)
      assert.error_matches(function() step(x) end, "nn.Encoder: layer_dropout while training "
                           .. "cannot be captured on the CPU: set it to 0")
      return
    end
    for _ = 1, 40 do
      if step(x):equal(x) then left_out = left_out + 1 end
    end
    assert.is_true(left_out >= 5 and left_out <= 35, left_out)
    m.layer_dropout = 1
    local y, weights = m(x, {weights = true})
    assert.is_true(y:equal(x) and weights[1]:eq(0):all())
  end)
end)


describe("a GPT of two layers", function()
  local GPT = nn.Module:extend("GPT")

  function GPT:init(vocabulary, length, dim)
    self.embed = nn.Embedding(vocabulary, dim)
    self.positions = nn.Embedding(length, dim)
    self.decoder = nn.Decoder(dim, 2, 2, {cross = false, norm = "pre", activation = "gelu"})
    self.head = nn.Linear(dim, vocabulary, {bias = false})
    self.head.weight = self.embed.weight
    nn.init.normal_(self.embed.weight, {std = 0.02})
  end

  function GPT:forward(ids)
    local T = ids:size(2)
    return self.head(self.decoder(self.embed(ids) + self.positions(heed.arange(T))))
  end

  it("ties its head to its embedding", function()
    local m = GPT(7, 4, 8)
    assert.equal(m.head.weight, m.embed.weight)
    assert.is_nil(m:state()["head.weight"])
    local before = m.embed.weight:clone()
    m:to("float64"):to("float32")
    assert.equal(m.head.weight, m.embed.weight)
    local ids = heed.tensor{{1, 2, 3}}
    m(ids):sum():backward()
    heed.optim.SGD(m:parameters(), {lr = 0.1}):step()
    assert.is_false(m.head.weight:equal(before))
    assert.equal(m.head.weight, m.embed.weight)
    local torch_state = nn.to_torch(m)
    assert.is_true(torch_state["head.weight"]:equal(torch_state["embed.weight"]))
    local other = GPT(7, 4, 8)
    torch_state["head.weight"] = nil
    other:load_state(nn.from_torch(torch_state, other))
    assert.is_true(other(ids):equal(m(ids)))
  end)

  local function train(wrap, steps)
    heed.manual_seed(2)
    local m, losses = GPT(7, 6, 64), {}
    local opt = heed.optim.AdamW(m:parameters(), {lr = 1e-2})
    local step = wrap(function(x, y)
      opt:zero_grad()
      local loss = heed.cross_entropy(m(x):flatten(1, 2), y:flatten())
      loss:backward()
      opt:step()
      return loss
    end)
    for i = 1, steps do
      local ids = (heed.arange(14) * (i % 3 + 1) % 7 + 1):view(2, 7)
      losses[i] = step(ids:narrow(2, 1, 6):contiguous(), ids:narrow(2, 2, 6):contiguous()):item()
    end
    return losses
  end

  -- Composed operations read values back.
  local captures = os.getenv "HEED_BUILD" == "basic" and pending or it

  captures("trains in a capture to the losses that it has without one", function()
    local eager = train(function(f) return f end, 20)
    local captured = train(heed.capture, 20)
    assert.is_true(eager[20] < eager[1] / 2, eager[1] .. " to " .. eager[20])
    for i = 1, 20 do assert.is_true(close(captured[i], eager[i], 1e-4)) end
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
