-- Mixed precision: the type of every operation in it, gradients, nesting, training.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

local LOW <const> = {"bfloat16", "float16"}


-- Types that operations give of float32 tensors within autocast; PyTorch's lists, copied by hand.
local CALLS <const> = {
  low = {
    matmul = {"m", "m"}, bmm = {"b", "b"}, linear = {"m", "m", "v"}, attention = {"b", "b", "b"},
    addmm = {"m", "m", "m"}, baddbmm = {"b", "b", "b"},
    einsum = {"ij,jk->ik", {"m", "m"}},
  },
  full = {
    softmax = {"m", 1}, log_softmax = {"m", 1}, sum = {"m"}, prod = {"m"}, cumsum = {"m", 1},
    cumprod = {"m", 1}, logsumexp = {"m", 1}, norm = {"m"}, exp = {"m"}, expm1 = {"m"},
    log = {"m"}, log2 = {"m"}, log1p = {"m"}, pow = {"m", 0.5}, reciprocal = {"m"}, rsqrt = {"m"},
    tan = {"m"}, asin = {"m"}, acos = {"m"}, sinh = {"m"}, cosh = {"m"}, softplus = {"m"},
    layer_norm = {"m", 3}, rms_norm = {"m", 3}, mse_loss = {"m", "m"}, l1_loss = {"m", "m"},
    smooth_l1_loss = {"m", "m"}, kl_div = {"m", "m"}, binary_cross_entropy = {"m", "m"},
    bce_with_logits = {"m", "m"}, cross_entropy = {"m", "ids"}, nll_loss = {"m", "ids"},
    huber_loss = {"m", "m"}, normalize = {"m"}, cosine_similarity = {"m", "m"}, square = {"m"},
  },
  follow = {
    add = {"m", "m"}, mul = {"m", 2}, relu = {"m"}, gelu = {"m"}, silu = {"m"}, tanh = {"m"},
    sigmoid = {"m"}, mean = {"m"}, max = {"m"}, transpose = {"m", 1, 2}, clone = {"m"},
    dot = {"v", "v"}, outer = {"v", "v"}, sqrt = {"m"}, abs = {"m"},
  },
}

local function called(name, args, dtype)
  local given = {
    m = heed.full({3, 3}, 0.5, {dtype = dtype}), v = heed.ones(3, {dtype = dtype}),
    b = heed.ones(2, 3, 3, {dtype = dtype}), ids = heed.tensor{1, 2, 3},
  }
  local function value(x)
    if type(x) ~= "table" then return given[x] or x end
    local list = {}
    for i, part in ipairs(x) do list[i] = given[part] end
    return list
  end
  local list = {}
  for i, x in ipairs(args) do list[i] = value(x) end
  return (heed[name](table.unpack(list)))
end


describe("autocast", function()
  for _, low in ipairs(LOW) do
    it("gives each operation its type: " .. low, function()
      local wanted = {low = {low, low, "float64"}, full = {"float32", "float32", "float64"},
                      follow = {"float32", low, "float64"}}
      for kind, calls in pairs(CALLS) do
        for name, args in pairs(calls) do
          for i, dtype in ipairs{"float32", low, "float64"} do
            local y = heed.autocast(low, called, name, args, dtype)
            assert.equal(wanted[kind][i], y.dtype, name .. " of " .. dtype)
            assert.equal(dtype, called(name, args, dtype).dtype)
          end
        end
      end
    end)

    it("gives masters' gradients their own type: " .. low, function()
      heed.manual_seed(7)
      local model = nn.Sequential{nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)}
      local x, target = heed.randn(6, 4), heed.tensor{1, 2, 3, 1, 2, 3}
      local function loss() return heed.cross_entropy(model(x), target) end
      local full = loss()
      full:backward()
      local wanted = {}
      for i, p in ipairs(model:parameters()) do wanted[i], p.grad = p.grad, nil end
      local mixed = heed.autocast(low, loss)
      assert.is_true(mixed:allclose(full, {rtol = 2e-2}))
      assert.is_false(mixed:equal(full))
      mixed:backward()
      for i, p in ipairs(model:parameters()) do
        assert.equal("float32", p.grad.dtype)
        assert.is_true(p.grad:allclose(wanted[i], {rtol = 0.05, atol = 0.02}))
      end
    end)
  end

  it("equals conversions that are written out", function()
    local w, x = nn.Parameter(heed.randn(3, 4)), heed.randn(5, 4)
    local y = heed.autocast("bfloat16", function()
      return heed.linear(x, w):softmax(-1):sum()
    end)
    y:backward()
    local got = w.grad
    w.grad = nil
    local z = heed.linear(x:bfloat16(), w:to("bfloat16")):float():softmax(-1):sum()
    z:backward()
    assert.equal(z:data(), y:data())
    assert.equal(w.grad:data(), got:data())
  end)

  it("passes arguments, results and errors through, nests, and ends with its function", function()
    local function count(...) return select("#", ...), ... end
    assert.same({3, 1, nil, nil, n = 4}, table.pack(heed.autocast("float16", count, 1, nil, nil)))
    local function dtype() return heed.autocast_dtype() end
    assert.is_nil(dtype())
    heed.autocast("float16", function()
      assert.equal("float16", dtype())
      assert.equal("bfloat16", heed.autocast("bfloat16", dtype))
      assert.is_nil(heed.autocast(false, dtype))
      assert.equal("float16", heed.no_grad(dtype))
      assert.is_false(heed.no_grad(heed.autocast, "bfloat16", heed.is_grad_enabled))
      assert.is_true(heed.is_grad_enabled())
      assert.matches("broken", message(heed.autocast, "bfloat16", function() error("broken") end))
      assert.equal("float16", dtype())
      assert.matches("matmul: ", message(heed.matmul, heed.ones(2, 3), heed.ones(2, 3)))
    end)
    assert.is_nil(dtype())
    local co = coroutine.wrap(function()
      heed.autocast("bfloat16", function() coroutine.yield(dtype()) end)
      return dtype() or "none"
    end)
    assert.equal("bfloat16", co())
    assert.is_nil(dtype())                     -- the region is the coroutine's
    assert.equal("none", co())
  end)

  it("ends where its coroutine is suspended, also for those it resumed", function()
    local dtype, finalised, seen, kept = heed.autocast_dtype, false, {}, nil
    local inner = coroutine.create(function()
      seen[1] = dtype()
      collectgarbage()                       -- the next cycle finds what is garbage now
      setmetatable({}, {__gc = function()
        kept = coroutine.create(heed.no_grad)
        finalised = coroutine.resume(kept, coroutine.yield)
      end})
      for _ = 1, 40 do local _ = heed.empty({1 << 20}, {device = "cpu"}) end
      seen[2] = dtype()
      coroutine.yield()
      seen[3] = dtype() or "none"
    end)
    coroutine.wrap(heed.autocast)("bfloat16", function()
      assert(coroutine.resume(inner))
      coroutine.yield()
    end)
    assert(coroutine.resume(inner))
    assert.is_true(finalised)
    assert.equal("suspended", coroutine.status(kept))
    assert.same({"bfloat16", "bfloat16", "none"}, seen)
  end)

  it("ends with its coroutine, which another one's collector finds, for that one alone", function()
    local dtype = heed.autocast_dtype
    local inner = coroutine.wrap(heed.autocast)
    inner("bfloat16", function()
      coroutine.yield()
      collectgarbage()
      coroutine.yield()
    end)
    coroutine.wrap(heed.autocast)("float16", coroutine.yield)
    assert.is_nil(dtype())
    inner()
    assert.is_nil(dtype())
    inner()
  end)

  it("refuses other types, and what is no function", function()
    for _, wrong in ipairs{"float32", "int64", "half", true, 16} do
      assert.matches("^[^:]*autocast_spec.lua:%d+: autocast: argument 'dtype': 'bfloat16', "
                     .. "'float16' or false expected, got ",
                     message(function() heed.autocast(wrong, print) end))
    end
    assert.matches("autocast: a function expected, got 3", message(heed.autocast, "float16", 3))
    assert.matches("autocast_dtype: .*no", message(heed.autocast_dtype, 1))
    assert.matches("nn.Linear: a float type expected as input, got int64",
                   message(heed.autocast, "float16", nn.Linear(1, 1), heed.tensor{1}))
  end)

  it("converts a parameter once, until it changes or a backward pass has gone by", function()
    local w, x = nn.Parameter(heed.ones(2, 2)), heed.ones(2, 2)
    heed.autocast("bfloat16", function()
      local before = heed.graph_nodes()
      local a = x:matmul(w)
      local first = heed.graph_nodes() - before
      local b = x:matmul(w)
      assert.equal(first - 1, heed.graph_nodes() - before - first)     -- no second conversion
      local both = a + b
      both:sum():backward()
      assert.same({{4, 4}, {4, 4}}, w.grad:totable())
      w.grad = nil
      x:matmul(w):sum():backward()                     -- its own graph: the first is freed
      assert.same({{2, 2}, {2, 2}}, w.grad:totable())
      heed.no_grad(w.fill_, w, 3)
      assert.equal(12, x:matmul(w):sum():item() / 2)
      heed.no_grad(function() x:matmul(w) end)         -- leaves a conversion without a graph
      w.grad = nil
      heed.no_grad(w.fill_, w, 1)
      heed.no_grad(function() assert.equal(8, x:matmul(w):sum():item()) end)
      x:matmul(w):sum():backward()                     -- and needs one with a graph
      assert.same({{2, 2}, {2, 2}}, w.grad:totable())
    end)
  end)

  it("serves a parameter that was frozen meanwhile", function()
    local w, x = nn.Parameter(heed.ones(2, 2)), heed.ones(2, 2)
    heed.autocast("bfloat16", function()
      x:matmul(w)
      w:requires_grad_(false)
      assert.is_false(x:matmul(w).requires_grad)
      w:requires_grad_()
      x:matmul(w):sum():backward()
    end)
    assert.same({{2, 2}, {2, 2}}, w.grad:totable())
  end)

  it("survives that the memory of a parameter is another's", function()
    local w, x = nn.Parameter(heed.ones(2, 2)), heed.ones(2, 2)
    heed.autocast("bfloat16", function()
      assert.equal(8, x:matmul(w):sum():item())
      heed.no_grad(w.set_, w, heed.full({2, 2}, 5.0))
      assert.equal(40, x:matmul(w):sum():item())
      w = nil
      collectgarbage()
    end)
  end)

  it("holds in what a checkpoint does again", function()
    local w, x = nn.Parameter(heed.randn(3, 3)), heed.randn(2, 3)
    local seen = {}
    local function f(t)
      local y = t:matmul(w):tanh()
      seen[#seen + 1] = y.dtype
      return y
    end
    local function gradient(run)
      w.grad = nil
      heed.autocast("bfloat16", function() return run(x):sum() end):backward()
      return w.grad
    end
    local plain = gradient(f)
    local again = gradient(function(t) return heed.checkpoint(f, t) end)
    assert.same({"bfloat16", "bfloat16", "bfloat16"}, seen)
    assert.is_true(plain:allclose(again, {rtol = 2e-2, atol = 1e-2}))
  end)

  it("is off in backward functions, also behind one of Lua's", function()
    local seen = {}
    local double = heed.custom {
      forward = function(_, t) return t * 2 end,
      backward = function(_, g)
        seen[#seen + 1] = heed.autocast_dtype() or "none"
        seen[#seen + 1] = g:matmul(heed.ones(2, 2)).dtype
        return g * 2
      end,
    }
    local x = nn.Parameter(heed.ones(2, 2))
    heed.autocast("float16", function() double(x * x):sum():backward() end)
    assert.same({"none", "float32"}, seen)
    assert.equal(16, x.grad:sum():item())
    local w, v = nn.Parameter(heed.randn(8, 2)), heed.randn(2, 8)
    local function gradient(backward_in)
      w.grad = nil
      local y = heed.autocast(false, heed.matmul, v, w)      -- its gradient is a product too
      heed.autocast(backward_in, function() double(y * y):sum():backward() end)
      return w.grad:data()
    end
    assert.equal(gradient(false), gradient("float16"))
  end)

  it("leaves numbers, integers and calls in place alone", function()
    heed.autocast("float16", function()
      local x = heed.ones(2, 2)
      x:exp_()
      assert.equal("float32", x.dtype)
      assert.equal("int64", heed.ones(2, {dtype = "int64"}):sum().dtype)
      assert.equal("float16", heed.full({1}, 2, {dtype = "float16"}):mul(2.5).dtype)
    end)
  end)
end)


describe("layers in mixed precision", function()
  local x, context = heed.randn(2, 6, 8), heed.randn(2, 5, 8)
  local lengths = heed.tensor{3, 6}
  local CASES <const> = {
    Encoder = {nn.Encoder(8, 2, 2, {norm = "pre"}), x, {lengths = lengths}},
    Decoder = {nn.Decoder(8, 2, 1), x, context},
    Classifier = {nn.Classifier(8, 3, {pool = "mean"}), x, {lengths = lengths}},
    MLP = {nn.MLP(8, 16, {activation = "swiglu"}), x},
    Patches = {nn.Patches(2, 4), heed.randn(3, 4, 4)},
    ["rotary positions"] = {nn.MultiHeadAttention(8, 2, {rope = true}), x, {causal = true}},
    ["a trained bias"] = {nn.MultiHeadAttention(8, 2, {position_bias = heed.bias.t5{heads = 2}}),
                          x},
    ["norms, shared keys and a sink"] =
      {nn.MultiHeadAttention(8, 2, {qk_norm = true, kv_heads = 1, sink = true}), x,
       {mask = heed.mask.window(2, 0), lengths = lengths}},
  }

  for name, case in pairs(CASES) do
    it("are near float32's: " .. name, function()
      local full = case[1](case[2], case[3])
      for _, low in ipairs(LOW) do
        local mixed = heed.autocast(low, function() return case[1](case[2], case[3]):float() end)
        assert.is_true(mixed:allclose(full, {rtol = 0.03, atol = 0.03}))
        assert.is_false(mixed:equal(full))
        mixed:square():sum():backward()
        for _, p in ipairs(case[1]:parameters()) do
          assert.is_true(p.grad == nil or p.grad.dtype == "float32")
        end
      end
    end)
  end

  it("go on from a cache", function()
    local decoder, steps = nn.Decoder(8, 2, 1, {cross = false}), {}
    heed.autocast("bfloat16", heed.no_grad, function()
      local cache = nn.Cache()
      for t = 1, 6 do steps[t] = decoder(x:narrow(2, t, 1), {cache = cache}):float() end
    end)
    assert.is_true(heed.cat(steps, 2):allclose(decoder(x), {rtol = 0.03, atol = 0.03}))
  end)
end)


describe("training in mixed precision", function()
  -- Losses of a small model on fixed data.
  local function losses(low, scaler)
    heed.manual_seed(1)
    local model = nn.Sequential{nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32),
                                nn.ReLU(), nn.Linear(32, 4)}
    local x, target = heed.randn(64, 8), heed.randint(1, 4, {64})
    local opt, list = optim.AdamW(model:parameters(), {lr = 1e-2}), {}
    for step = 1, 60 do
      local loss = heed.autocast(low, function() return heed.cross_entropy(model(x), target) end)
      opt:zero_grad()
      if scaler then
        scaler:scale(loss):backward()
        scaler:step(opt)
        scaler:update()
      else
        loss:backward()
        opt:step()
      end
      list[step] = loss:item()
    end
    return list
  end

  it("ends near float32's loss", function()
    local full, mixed = losses(false), losses("bfloat16")
    assert.is_true(full[60] < 0.6 * full[1])
    assert.is_true(close(mixed[60], full[60], 0, 0.05), mixed[60] .. " and " .. full[60])
    local scaled = losses("float16", optim.Scaler{init_scale = 1024})
    assert.is_true(close(scaled[60], full[60], 0, 0.05), scaled[60] .. " and " .. full[60])
  end)
end)
