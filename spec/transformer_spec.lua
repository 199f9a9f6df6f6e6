-- Transformer layers and stacks: equal to PyTorch's, and to what is written out by hand.

local heed = require "heed"
local nn = require "heed.nn"
local device = require "spec.support.device"
local state = require "heed.state"


local function message(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end


local function assert_near(wanted, got, relative, floor, what)
  assert.same(wanted.shape, got.shape, what)
  local difference = (got - wanted):abs() - wanted:abs() * relative
  assert.is_true(difference:le(floor):all(), ("%s: off by %s"):format(what, difference:max()))
end


-- Gradients of a module under PyTorch's names: those of a state whose values they are.
local function torch_gradients(m)
  heed.no_grad(function()
    for _, p in ipairs(m:parameters()) do p:copy_(p.grad) end
  end)
  return nn.to_torch(m)
end


describe("PyTorch's numbers:", function()
  -- A mask there says what is not to be looked at, (B, S) or (T, S).
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

  -- PyTorch's seed, its file, what makes the module, what calls it, options.
  local cases = {
    {0, "encoder_layer_post_relu_padding", encoder_layer, encode, {}},
    {1, "encoder_layer_post_relu_float", encoder_layer, encode, {}},
    {2, "decoder_layer_post_relu_none", decoder_layer, decode, {}},
    {3, "decoder_layer_post_relu_causal_padding", decoder_layer, decode, {}},
    {4, "encoder_layer_post_gelu_none", encoder_layer, encode, {activation = "gelu"}},
    {5, "encoder_layer_post_gelu_causal", encoder_layer, encode, {activation = "gelu"}},
    {6, "decoder_layer_post_gelu_causal", decoder_layer, decode, {activation = "gelu"}},
    {7, "encoder_layer_post_nobias", encoder_layer, encode,
     {activation = "gelu", bias = false, eps = 1e-3}},
    {8, "encoder_2_post", encoder, encode, {}},
    {9, "transformer_2_2_post_relu", model, translate, {}},
    {10, "encoder_layer_pre_relu_padding", encoder_layer, encode, {norm = "pre"}},
    {11, "encoder_layer_pre_relu_float", encoder_layer, encode, {norm = "pre"}},
    {12, "decoder_layer_pre_relu_none", decoder_layer, decode, {norm = "pre"}},
    {13, "decoder_layer_pre_relu_causal_padding", decoder_layer, decode, {norm = "pre"}},
    {14, "encoder_layer_pre_gelu_none", encoder_layer, encode, {norm = "pre", activation = "gelu"}},
    {15, "encoder_layer_pre_gelu_causal", encoder_layer, encode,
     {norm = "pre", activation = "gelu"}},
    {16, "decoder_layer_pre_gelu_causal", decoder_layer, decode,
     {norm = "pre", activation = "gelu"}},
    {17, "encoder_layer_pre_nobias", encoder_layer, encode,
     {norm = "pre", activation = "gelu", bias = false, eps = 1e-3}},
    {18, "encoder_2_pre", encoder, encode, {norm = "pre"}},
    {19, "transformer_2_2_pre_gelu", model, translate, {norm = "pre", activation = "gelu"}},
  }

  local function read(name)
    local found = assert(heed.load("spec/golden/transformer/" .. name .. ".safetensors"))
    for key, t in pairs(found) do found[key] = t:to(device.name) end
    return found
  end

  local function made(case)
    heed.manual_seed(case[1])
    local o = {}
    for name, value in pairs(case[5]) do o[name] = value end
    return case[3](o)
  end

  for _, case in ipairs(cases) do
    it(case[2], function()
      local found, m = read(case[2]), made(case)
      local first = state.below(found, "first.")
      for name, t in pairs(nn.to_torch(m)) do
        assert_near(first[name], t, 0, 1e-6, "first weights, " .. name)
        first[name] = found["weight." .. name] or t
      end
      m:load_state(nn.from_torch(first, m))
      for _, name in ipairs{"input.src", "input.tgt", "input.memory"} do
        if found[name] then found[name]:requires_grad_() end
      end
      local y = case[4](m, found)
      assert_near(found.output, y, 1e-5, 1e-5, "output")
      y:backward(found.grad_output)
      for name, wanted in pairs(state.below(found, "grad_input.")) do
        assert_near(wanted, found["input." .. name].grad, 5e-5, 1e-5, name)
      end
      local gradients = torch_gradients(m)
      for name, wanted in pairs(state.below(found, "grad.")) do
        assert_near(wanted, gradients[name], 5e-5, 1e-5, name)
      end
    end)
  end
end)
