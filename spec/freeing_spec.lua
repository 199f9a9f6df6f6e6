-- Layers of stacks free what they made as they return, but for what a program may have seen of it.

local device = require "spec.support.device"
local directories = require "spec.support.directories"
local heed = require "heed"
local nn = require "heed.nn"

local LAYERS <const>, DIM <const> = 3, 64
local BYTES <const> = 4 * 65536                    -- of features of as many elements


local function new_stack(o)
  heed.manual_seed(1)
  return nn.Encoder(DIM, 4, LAYERS, o):eval()
end


local function features(length)
  heed.manual_seed(2)
  return heed.randn(8, length or 128, DIM)
end


-- The bytes that a call leaves behind where Lua's collector doesn't run, and its result.
local function left_behind(stack, x, o)
  collectgarbage()
  collectgarbage "stop"
  local before = heed.memory().live
  local good, y = pcall(heed.no_grad, stack, x, o)
  local bytes = heed.memory().live - before
  collectgarbage "restart"
  assert(good, y)
  return bytes, y
end


-- Tensors that were seen of a call can be read behind it.
local function assert_kept(stack, seen, o)
  local bytes = left_behind(stack, features(), o)
  assert.is_true(#seen > 0)
  for _, t in ipairs(seen) do assert(pcall(t.sum, t)) end
  assert.is_true(bytes > 12 * BYTES)
end


local function noting(seen)
  return function(x, ...)
    seen[#seen + 1] = x * 2
    return x, ...
  end
end


describe("a stack of layers", function()
  setup(device.cpu)
  teardown(device.back)

  it("frees what each layer made on the way, with the same numbers", function()
    local x, stack = features(), new_stack()
    local bytes, y = left_behind(stack, x)
    assert.is_true(bytes <= LAYERS * BYTES)               -- the results of the layers
    local kept = stack(x)
    assert.is_true(kept.requires_grad and y:equal(kept:detach()))
    for _, o in ipairs{
      {lengths = heed.tensor{128, 1, 2, 3, 4, 5, 6, 128}}, {mask = heed.mask.window(3, 3)},
      {mask = heed.ones(128, 128):to "bool"}, {causal = true, scale = 0.5},
      {bias = heed.bias.alibi(4)},
    } do
      bytes, y = left_behind(stack, x, o)
      assert.is_true(bytes <= LAYERS * BYTES + 4 * 128 * 128)
      assert.is_true(y:equal(stack(x, o):detach()))
    end
  end)

  it("does so for parts of heed's own, with any options", function()
    for _, o in ipairs{
      {norm = "pre", norm_type = "rms", activation = "swiglu", rope = true, kv_heads = 2},
      {activation = heed.gelu, qk_norm = true, position_bias = heed.bias.t5{heads = 4}},
      {mask = heed.mask.window(1, 1) | heed.mask.causal(), gate = true, memory = 2},
    } do
      local tables = o.rope and BYTES // 8 or 0
      assert.is_true(left_behind(new_stack(o), features()) <= (LAYERS + 1) * BYTES + tables)
    end
    local stack = nn.Decoder(DIM, 4, LAYERS, {cross = false}):eval()
    assert.is_true(left_behind(stack, features()) <= (LAYERS + 1) * BYTES)
  end)

  it("does so in models from directories", function()
    for _, name in ipairs{"albert", "gpt2", "llama3", "mpnet", "nomic_bert", "roberta"} do
      local model = heed.models.load(directories.HERE .. name)
      local large, small = heed.ones(64, 32):to "int64", heed.ones(63, 32):to "int64"
      assert.is_true(left_behind(model, large) < 0.5 * left_behind(model, small), name)
    end
  end)

  it("keeps all where features are small, or gradients recorded", function()
    assert.is_true(left_behind(new_stack(), features(127)) > 12 * BYTES)
    local stack, x = new_stack(), features()
    local w = heed.randn(x.shape)
    local g = heed.grad((stack(x) * w):sum(), stack:parameters())
    local small = heed.grad((stack(x:narrow(1, 1, 4)) * w:narrow(1, 1, 4)):sum()
                            + (stack(x:narrow(1, 5, 4)) * w:narrow(1, 5, 4)):sum(),
                            stack:parameters())
    for i = 1, #g do assert.is_true(g[i]:allclose(small[i], {rtol = 1e-3, atol = 1e-3})) end
  end)

  it("keeps all that hooks and callbacks of weights see", function()
    local stack, seen = new_stack(), {}
    local handle = stack.layers[2].mlp.up:register_forward_hook(function(_, _, y)
      seen[#seen + 1] = y
    end)
    assert_kept(stack, seen)
    assert.equal(1, #seen)
    handle:remove()
    assert.is_true(left_behind(stack, features()) < 12 * BYTES)
    local weights = {}
    stack.layers[1].attend:on_weights(function(_, w) weights[#weights + 1] = w end)
    assert_kept(stack, weights)
  end)

  it("keeps all that code of the program's may see", function()
    local seen = {}
    local note = noting(seen)
    local Part = nn.Module:extend "Part"
    function Part:forward(x) return note(x) end
    local Linear = nn.Linear:extend "Linear"
    function Linear:forward(x) return note(nn.Linear.forward(self, x)) end
    local changes = {
      class = function(stack) stack.layers[2].mlp.activation = Part() end,
      derived = function(stack) stack.layers[2].attend.out = Linear(DIM, DIM) end,
      ["function"] = function(stack) stack.layers[2].dropout = function(x) return note(x) end end,
      activation = function(stack) stack.layers[2].mlp.activation = note end,
      ["function of positions"] = function(stack) stack.layers[2].attend.position = note end,
      ["function of biases"] = function(stack)
        stack.layers[2].attend.position_bias = function(_, _, q)
          note(q)
          return heed.zeros(1, 1)
        end
      end,
      ["method of an instance"] = function(stack)
        stack.layers[2].norm1.forward = function(self, x)
          return note(nn.LayerNorm.forward(self, x))
        end
      end,
      ["layer within layers"] = function(stack)
        stack.layers[2].mlp.up = nn.Sequential{stack.layers[2].mlp.up, Part()}
      end,
      layer = function(stack)
        local layer = stack.layers[2]
        stack.layers[2] = function(...) return note((layer(...))) end
      end,
    }
    for name, change in pairs(changes) do
      local stack = new_stack()
      change(stack)
      local good, why = pcall(heed.no_grad, stack, features())
      assert(good, name .. ": " .. tostring(why))
      assert.is_true(#seen > 0, name)
      for i, t in ipairs(seen) do
        assert(pcall(t.sum, t), name)
        seen[i] = nil
      end
    end
  end)

  it("keeps all that a predicate makes", function()
    local seen = {}
    local function asks(_, _, i, j)
      if i == 1 and j == 1 then seen[#seen + 1] = heed.ones(2) end
      return i >= j
    end
    local mask = heed.mask.predicate(asks, {batch = false, heads = false})
    local stack = new_stack()
    assert_kept(stack, seen, {mask = mask})
    assert_kept(stack, seen, {mask = ~mask | heed.mask.causal()})
  end)

  it("keeps all that a method gives that a script put into a class", function()
    local stack, forward, outputs = new_stack(), nn.MLP.forward, {}
    nn.MLP.forward = function(self, x)
      outputs[#outputs + 1] = forward(self, x)
      return outputs[#outputs]
    end
    local good, why = pcall(assert_kept, stack, outputs)
    nn.MLP.forward = forward
    assert(good, why)
    assert.is_true(left_behind(stack, features()) < 12 * BYTES)
  end)

  it("keeps what a cache holds, and what is captured", function()
    local stack = nn.Decoder(DIM, 4, LAYERS, {cross = false}):eval()
    local x, cache = features(), nn.Cache()
    local together = heed.no_grad(stack, heed.cat({x, x:narrow(2, 1, 1)}, 2))
    heed.no_grad(stack, x, {cache = cache})
    local last = heed.no_grad(stack, x:narrow(2, 1, 1), {cache = cache})
    assert.is_true(last:allclose(together:narrow(2, 129, 1), {rtol = 1e-4, atol = 1e-4}))
    local fixed = nn.Cache{capacity = 129}
    heed.no_grad(stack, x, {cache = fixed})
    local encoder = new_stack()
    local f = heed.capture(function(t) return heed.no_grad(encoder, t) end)
    for i = 1, 4 do assert.is_true(f(x * i):equal(heed.no_grad(encoder, x * i))) end
  end)

  it("keeps what finalisers make, but for scopes of their own", function()
    local made, lost = {}, {}
    local function finalise()
      made[#made + 1] = heed.scope(function()
        lost[#lost + 1] = heed.ones(3)
        return heed.ones(2)
      end)
      made[#made + 1] = heed.ones(2)
    end
    local stack = new_stack()
    local function work()
      for _ = 1, 200 do setmetatable({}, {__gc = finalise}) end
      collectgarbage "step"
      return heed.ones(1)
    end
    for _ = 1, 5 do
      heed.no_grad(stack, features())
      heed.scope(work)
      heed.scope(function()
        work()
        collectgarbage()
      end)
    end
    assert.is_true(#made >= 2000)
    for _, t in ipairs(made) do assert.equal(2, t:sum():item()) end
    for _, t in ipairs(lost) do assert.is_false(pcall(t.sum, t)) end
  end)

  it("keeps what a function in the place of warn makes", function()
    local own, kept = rawget(_G, "warn"), nil
    local stack = new_stack{rope = {max_position_embeddings = 100}}
    rawset(_G, "warn", function() kept = heed.ones(2) end)
    local good, why = pcall(heed.no_grad, stack, features())
    rawset(_G, "warn", own)
    assert(good, why)
    assert.equal(2, kept:sum():item())
    assert.is_true(left_behind(stack, features()) < 12 * BYTES)
  end)

  it("keeps what a hook of Lua's makes", function()
    if not debug then return end
    local stack, x, kept = new_stack(), features(), {}
    debug.sethook(function() kept[#kept + 1] = heed.ones(2) end, "", 50)
    local good, why = pcall(heed.no_grad, stack, x)
    debug.sethook()
    assert(good, why)
    assert.is_true(#kept > 0)
    for _, t in ipairs(kept) do assert.equal(2, t:sum():item()) end
  end)

  it("looks into tables of options as far as they go", function()
    local cyclic, wide, deep = {}, {}, {}
    cyclic[1] = cyclic
    for _ = 1, 6 do                                       -- 30^6 ways lead through it
      local list = {}
      for i = 1, 30 do list[i] = wide end
      wide = list
    end
    for _ = 1, 1000000 do deep = {deep} end
    for _, t in ipairs{cyclic, wide, deep} do
      local good, why = pcall(heed.no_grad, new_stack(), features(), {mask = t})
      assert.is_false(good)
      assert.matches("mask", tostring(why))
    end
    local stack = new_stack()
    stack.layers[2].dropout = stack.layers[2].mlp.dropout              -- shared
    assert.is_true(left_behind(stack, features()) < 12 * BYTES)
    stack.layers[2].note = deep
    assert.is_true(left_behind(stack, features()) > 10 * BYTES)
  end)
end)
