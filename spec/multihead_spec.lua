-- nn.MultiHeadAttention: equal to PyTorch's, and what it has besides to products and softmaxes
-- written out by hand; what both attention layers take and refuse at a call.

local device = require "spec.support.device"
local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn

local function near(wanted, got, relative, floor, what)
  assert.equal(tostring(wanted.shape), tostring(got.shape), what)
  local over = (got - wanted):abs() - wanted:abs() * relative
  assert(over:le(floor):all(), ("%s: off by %s"):format(what or "values", over:max()))
end

local function close(a, b) near(b, a, 1e-5, 1e-5) end


describe("PyTorch's numbers:", function()
  local folder = "spec/golden/multihead/"

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

  -- What a run takes: a mask there says what is not to be looked at, (B, S) or (T, S).
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
      local found = assert(heed.load(folder .. file .. ".safetensors"))
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
      near(found.weights_per_head, weights, 1e-5, 1e-5, "weights")
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
