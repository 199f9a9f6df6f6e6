-- Numbers at their edges: denormals, infinities, squares beyond a type's range, long sums.

local close = require "spec.support.close"
local heed = require "heed"
local device = require "spec.support.device"
local layouts = require "spec.support.layouts"

local huge = math.huge
local TINY = 1e-40                         -- a denormal float32

local function on_each_level(f)
  if device.gpu then f(device.name) else layouts.on_each_level(f) end
end

-- The result of f for a tensor and the gradient of its sum, as two lists.
local function with_gradient(f, list, dtype)
  local x = heed.tensor(list, {dtype = dtype}):requires_grad_()
  local y = f(x)
  y:sum():backward()
  return y:detach():reshape(-1):totable(), x.grad:reshape(-1):totable()
end

local function near(wanted, got, tolerance, name)
  assert.is_true(close(got, wanted, tolerance),
                 ("%s: %.9g expected, got %.9g"):format(name, wanted, got))
end


describe("losses of two tensors", function()
  local x, column = heed.zeros(3), heed.zeros(3, 1)

  for _, name in ipairs {"mse_loss", "l1_loss", "smooth_l1_loss", "kl_div"} do
    it(name .. " refuses shapes that differ, and names both", function()
      assert.error_matches(function() heed[name](x, column) end,
                           name .. ": argument 'target': the shape %(3%).*got %(3, 1%)")
      assert.error_matches(function() heed[name](column, x) end,
                           name .. ": argument 'target': the shape %(3, 1%).*got %(3%)")
      assert.error_matches(function() heed[name](heed.zeros(1), x) end, "target.*%(1%).*%(3%)")
    end)
  end

  it("take a number for a target that is the same everywhere", function()
    assert.equal(4, heed.mse_loss(x, 2):item())
    assert.equal(2, heed.l1_loss(x, 2.0):item())
    assert.equal(1.5, heed.smooth_l1_loss(x, 2):item())
  end)
end)


describe("denormal numbers on the CPU", function()
  setup(device.cpu)
  teardown(device.back)

  -- Rows of TINY by columns of 1e10, and of TINY by ones: each product is exact but for one
  -- rounding.
  local sizes = {{1, 1, 1}, {2, 3, 2}, {1, 16, 64}, {64, 1, 16}, {3, 300, 5}, {30, 40, 300},
                 {1, 700, 200}, {70, 300, 300}}

  it("are kept by products of every size, layout and type", function()
    on_each_level(function(level)
      for _, size in ipairs(sizes) do
        local rows, depth, columns = table.unpack(size)
        for dtype, tiny in pairs {float32 = TINY, float64 = 1e-310} do
          local a = heed.zeros(rows, depth, {dtype = dtype})
          a[{{}, depth}] = tiny
          local b = heed.full({depth, columns}, 1, {dtype = dtype})
          local wanted = heed.full({rows, columns}, tiny, {dtype = dtype})
          local name = ("%s, %s, %d x %d x %d"):format(level, dtype, rows, depth, columns)
          for _, lay in pairs(layouts.lay) do
            assert.is_true(lay(a):matmul(lay(b)):equal(wanted), name)
            assert.is_true(lay(a):linear(lay(b:t())):equal(wanted), name)
          end
          assert.is_true((a:matmul(b * huge)):isinf():any() or depth > 1, name)
          near(tiny * 1e10, a:matmul(b * 1e10)[1][1], 1e-5, name)
        end
      end
    end)
  end)

  it("are kept by batches and by gradients of products", function()
    on_each_level(function(level)
      for _, n in ipairs {2, 40, 130} do
        local a = heed.zeros(3, n, n):requires_grad_()
        local b = (heed.eye(n) * TINY):requires_grad_()
        local y = a:matmul(b)
        y:backward(heed.ones_like(y))
        assert.is_true(a.grad:equal(heed.full({3, n, n}, TINY)), level .. n)
        local small = (heed.eye(n) * TINY):matmul(heed.eye(n))
        assert.is_true(small:equal(heed.eye(n) * TINY), level .. n)
      end
    end)
  end)

  it("are kept by attention, whose values they are", function()
    on_each_level(function(level)
      for _, n in ipairs {1, 5, 90} do
        local q = heed.zeros(1, 1, n, 8)
        local v = heed.full({1, 1, n, 8}, TINY)
        local y = heed.attention(q, q, v)
        assert.is_true((y - v):abs():le(1e-43):all(), level .. n)
        assert.is_true(heed.attention(q, q, v, {fused = false}):allclose(y, {atol = 1e-43}))
      end
    end)
  end)

  it("are kept by optimisers, fused and composed alike", function()
    local optim = require "heed.optim"
    for _, dtype in ipairs {"float32", "float64"} do
      local p = heed.zeros(40, {dtype = dtype}):requires_grad_()
      local tiny = dtype == "float32" and TINY or 1e-310
      local opt = optim.SGD({p}, {lr = 1})
      p.grad = heed.full({40}, tiny, {dtype = dtype})
      opt:step()
      assert.is_true(p:detach():equal(heed.full({40}, -tiny, {dtype = dtype})), dtype)
    end
  end)
end)


describe("an optimiser's means", function()
  local optim = require "heed.optim"

  it("decay to 0, not to denormals that stay", function()
    for dtype, g in pairs {float32 = 1e-36, float64 = 1e-306} do
      local least = dtype == "float32" and 2 ^ -126 or 2 ^ -1022
      for name, make in pairs {
        ["exp_avg.1"] = function(p) return optim.Adam({p}, {lr = 0.1}) end,
        ["momentum_buffer.1"] = function(p) return optim.SGD({p}, {lr = 0.1, momentum = 0.9}) end,
      } do
        local p = heed.zeros(40, {dtype = dtype}):requires_grad_()
        local opt = make(p)
        p.grad = heed.full({40}, g, {dtype = dtype})
        opt:step()
        p.grad = heed.zeros(40, {dtype = dtype})
        for _ = 1, 60 do
          opt:step()
          local mean = opt:state()[name]:abs()
          assert.is_true((mean:eq(0) | mean:ge(least)):all(), name .. " in " .. dtype)
        end
        assert.is_true(opt:state()[name]:eq(0):all(), name .. " in " .. dtype)
      end
    end
  end)
end)


describe("infinities", function()
  for _, dtype in ipairs {"float32", "float64"} do
    it("have a gradient of 1 in smooth_l1_loss, in " .. dtype, function()
      for _, beta in ipairs {0, 1, 2.5} do
        local zeros = heed.zeros(6, {dtype = dtype})
        local y, g = with_gradient(function(x)
          return heed.smooth_l1_loss(x, zeros, "none", beta)
        end, {huge, -huge, 3, -3, 1e30, 0.5}, dtype)
        assert.same({huge, huge}, {y[1], y[2]})
        assert.same({1, -1, 1, -1, 1}, {table.unpack(g, 1, 5)})
        near(beta > 0 and 0.5 / beta or 1, g[6], 1e-6, dtype)
      end
    end)

    it("are 0 below in both forms of gelu, in " .. dtype, function()
      for _, form in ipairs {"none", "tanh"} do
        local y, g = with_gradient(function(x) return x:gelu(form) end, {-huge, huge, -1e30, 0 / 0},
                                   dtype)
        assert.same({0, huge, 0}, {table.unpack(y, 1, 3)}, form)
        assert.same({0, 1, 0}, {table.unpack(g, 1, 3)}, form)
        assert.is_true(y[4] ~= y[4] and g[4] ~= g[4], form)
      end
    end)
  end

  it("stay NaN where they meet their like in smooth_l1_loss", function()
    local same = heed.tensor{huge, 0 / 0}
    local y, g = with_gradient(function(x) return heed.smooth_l1_loss(x, same, "none") end,
                               {huge, 1}, "float32")
    for i = 1, 2 do assert.is_true(y[i] ~= y[i] and g[i] ~= g[i]) end
  end)
end)


describe("squares beyond a type's range", function()
  -- Both orders of axes, long and short: they are summed in different ways.
  local function spreads(f, x)
    local long = x:reshape(-1, 1):expand(3, 600):contiguous()
    local list = {f(x), f(long, 1)[7], f(long:t():contiguous(), 2)[7]}
    return list
  end

  it("do not reach std, large or small", function()
    on_each_level(function(level)
      for dtype, scales in pairs {float32 = {1e20, 1e-25, 1}, float16 = {300, 1e-3},
                                  bfloat16 = {1e20, 1e-25}} do
        for _, scale in ipairs(scales) do
          local x = heed.tensor({scale, -scale, 0}, {dtype = dtype})
          for i, y in ipairs(spreads(function(t, dim)
            return dim and t:std(dim) or t:std():item()
          end, x)) do
            near(x[1], y, 1e-2 * (dtype == "float32" and 1e-4 or 1),
                 ("%s, %s, way %d"):format(level, dtype, i))
          end
        end
      end
    end)
    local _, g = with_gradient(function(x) return x:std() end, {1e20, -1e20, 0}, "float32")
    assert.same({0.5, -0.5, 0}, g)
  end)

  it("do not reach var before its division", function()
    local x = heed.tensor{1.5e19, -1.5e19, 0, 0}
    near(1.125e38, x:var(1, false):item(), 1e-6, "var")
    assert.equal(huge, heed.tensor{1e20, -1e20}:var():item())
  end)

  it("do not reach norms, nor their gradients", function()
    on_each_level(function(level)
      for _, p in ipairs {2, 3, 1.5} do
        for _, scale in ipairs {1e30, 1e-30} do
          local y, g = with_gradient(function(x) return x:norm(p) end, {3 * scale, -4 * scale},
                                     "float32")
          local size = (3 ^ p + 4 ^ p) ^ (1 / p)
          near(scale * size, y[1], 1e-6, level)
          near((3 / size) ^ (p - 1), g[1], 1e-5, level)
          near(-(4 / size) ^ (p - 1), g[2], 1e-5, level)
        end
      end
    end)
  end)

  it("do not reach the statistics of layer_norm and rms_norm on the CPU", function()
    device.cpu()
    finally(device.back)
    for _, n in ipairs {3, 33} do
      local list = {}
      for i = 1, n do list[i] = (i % 3 - 1) * 1e20 end
      for _, scale in ipairs {1, 1e-32} do
        local x = heed.tensor(list) * scale
        local options = {eps = 0}
        for name, f in pairs {layer_norm = heed.layer_norm, rms_norm = heed.rms_norm} do
          local y = name == "rms_norm" and f(x, {n}, nil, options) or f(x, {n}, nil, nil, options)
          near(1.2247449, y:abs():max():item(), 1e-6, name .. n)
        end
      end
    end
  end)
end)


describe("long sums on the CPU", function()
  local n, a, b, exact = 1 << 22

  setup(function()
    device.cpu()
    a = (heed.arange(n, {dtype = "float64"}) * 0.61803398875 % 1):float()
    b = (heed.arange(n, {dtype = "float64"}) * 0.41421356237 % 1):float()
    exact = (a:double() * b:double()):sum():item()
  end)
  teardown(device.back)

  it("of products are good to a millionth", function()
    on_each_level(function(level)
      near(exact, a:dot(b):item(), 1e-6, level .. ", dot")
      near(exact, heed.einsum("i,i->", a, b):item(), 1e-6, level .. ", einsum")
      near(exact, a:view(1, n):matmul(b:view(n, 1)):item(), 1e-6, level .. ", matmul")
      local two = heed.stack({a, b}, 1)
      for _, y in ipairs {two:matmul(b), two:matmul(two:t())[{{}, 2}],
                          two:t():contiguous():t():matmul(two:t():contiguous())[{{}, 2}]} do
        near(exact, y[1], 4e-6, level .. ", two rows")
      end
    end)
  end)

  it("and means, norms and variances likewise", function()
    local x = a:double()
    for name, y in pairs {sum = {a:sum(), x:sum()}, mean = {a:mean(), x:mean()},
                          norm = {a:norm(), x:norm()}, var = {a:var(), x:var()},
                          columns = {a:view(-1, 8):sum(1)[3], x:view(-1, 8):sum(1)[3]},
                          cumsum = {a:cumsum(1)[n], x:cumsum(1)[n]}} do
      local got, wanted = y[1], y[2]
      if heed.is_tensor(got) then got, wanted = got:item(), wanted:item() end
      near(wanted, got, 2e-7, name)
    end
  end)
end)


-- float64 goes by other loops and by the C library: it is the measure of float32.
describe("functions in float32", function()
  setup(device.cpu)
  teardown(device.back)

  local STEPS <const> = 20011

  -- Both signs of numbers from 2^-30 to 'most', evenly by exponent.
  local function sizes(most)
    local x = heed.exp2(heed.linspace(-30, math.log(most, 2), STEPS))
    return heed.cat({x, -x, heed.tensor{0.0, -0.0, huge, -huge}}, 1)
  end

  local function assert_ulps(ulps, name, got, exact)
    local gap = (got:double() - exact):abs()
    local good = gap:le(exact:abs() * (ulps * 2 ^ -23) + 24 * 2 ^ -149) | got:double():eq(exact)
    if not good:all() then
      local i = (gap / exact:abs()):where(good:logical_not(), 0):argmax():item()
      error(("%s: %.9g expected, got %.9g at %d"):format(name, exact[i], got[i], i))
    end
  end

  it("stay within a few ulps, in the tails too", function()
    local x = sizes(80)[{{1, -5}}]
    on_each_level(function(level)
      for name, ulps in pairs {gelu = 3.5, erf = 3.5, sigmoid = 2.5, silu = 3.5, exp = 1.5} do
        assert_ulps(ulps, level .. ", " .. name, heed[name](x), heed[name](x:double()))
      end
      local a, b = sizes(6):requires_grad_(), sizes(6):double():requires_grad_()
      a:gelu():sum():backward()
      b:gelu():sum():backward()
      local gap = (a.grad:double() - b.grad):abs()
      assert.is_true(gap[{{1, -5}}]:le(4e-7):all(), level .. ", gelu's derivative")
    end)
  end)

  -- Rows whose elements are spread over 'spread', the largest first, in the middle or last.
  local function rows(n, spread)
    local x = heed.linspace(-spread, 0, n)
    return heed.stack({x, x:flip(1), x:roll(n // 2), x + 1e3, x * 0}, 1)
  end

  local FUNCTIONS <const> = {
    softmax = function(x) return x:softmax(-1) end,
    log_softmax = function(x) return x:log_softmax(-1) end,
    logsumexp = function(x) return x:logsumexp(-1) end,
    columns = function(x) return x:t():contiguous():logsumexp(1) end,
    cross_entropy = function(x)
      return heed.cross_entropy(x, heed.ones(x:size(1), {dtype = "int64"}), {reduction = "none"})
    end,
  }

  it("of rows are right in every length, be their exponentials 0, denormal or infinite", function()
    on_each_level(function(level)
      for _, n in ipairs {1, 7, 24, 25, 64, 100, 511, 513, 1030} do
        for _, spread in ipairs {1, 90, 100, 500} do
          local x = rows(n, spread)
          for name, f in pairs(FUNCTIONS) do
            local got, exact = f(x), f(x:double())
            local text = ("%s, %s of %d, spread over %g"):format(level, name, n, spread)
            local atol = name == "softmax" and 1e-37 or 2e-7
            assert.is_true(got:double():allclose(exact, {rtol = 3e-6, atol = atol}), text)
          end
          assert_ulps(8, ("%s, softmax of %d"):format(level, n), x:softmax(-1):flatten(),
                      x:double():softmax(-1):flatten())
        end
        for _, odd in ipairs {huge, -huge, 0 / 0} do
          local x = rows(n, 5)
          x[{1, (n + 1) // 2}] = odd
          x[2] = odd
          for name, f in pairs(FUNCTIONS) do
            assert.is_true(f(x):double():allclose(f(x:double()), {rtol = 1e-5, equal_nan = true}),
                           ("%s, %s of %d with %g"):format(level, name, n, odd))
          end
        end
      end
    end)
  end)

  it("of short rows are the same where other rows stand between them", function()
    local x = (heed.arange(5 * 40 * 6) * 0.61803398875 % 1):float():view(5, 40, 6)[{{}, {1, 33}}]
    on_each_level(function(level)
      for name, f in pairs(FUNCTIONS) do
        if name:find "softmax" then
          assert.is_true(f(x):equal(f(x:contiguous())), level .. ", " .. name)
        end
      end
    end)
  end)

  it("of rows of 16 bits are all stored, in however many parts", function()
    local n <const> = (1 << 18) + 5
    for _, dtype in ipairs {"float16", "bfloat16"} do
      local x = ((heed.arange(2 * n) * 0.61803398875 % 1):float() * 8):to(dtype):view(2, n)
      for _, f in ipairs {
        function(t) return t:log_softmax(-1) end, function(t) return t:layer_norm({n}) end,
        function(t) return (t:sort(2)) end,
      } do
        assert.is_true(f(x):float():allclose(f(x:float()), {rtol = 1e-2, atol = 1e-2}), dtype)
      end
    end
  end)

  it("have a cross entropy that is right in every length, and its gradient", function()
    on_each_level(function(level)
      for _, n in ipairs {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 79} do
        for _, options in ipairs {{}, {label_smoothing = 0.2}} do
          local gradients, list = {}, rows(n, 60)
          list[4] = list[4] - 1e3          -- a float's logarithm of sums that large is not exact
          list = heed.cat({list, list, list, list}, 1)[{{1, -2}}]
          for i, dtype in ipairs {"float32", "float64"} do
            local x = list:to(dtype):clone():requires_grad_()
            local labels = heed.arange(x:size(1)) % n + 1
            local factors = heed.linspace(-1, 2, x:size(1), {dtype = dtype})
            options.reduction, options.ignore_index = "none", n > 2 and 2 or nil
            local y = heed.cross_entropy(x, labels, options)
            y:backward(factors)
            gradients[i] = heed.cat({x.grad:double(), y:detach():double():unsqueeze(2)}, 2)
          end
          assert.is_true(gradients[1]:allclose(gradients[2], {rtol = 3e-6, atol = 2e-7}),
                         ("%s, %d"):format(level, n))
        end
      end
    end)
  end)

  -- layer_norm takes one pass where its first elements are near the mean, else two.
  local function awkward(n)
    local x = (heed.arange(n) * 0.61803398875 % 1):float() - 0.5
    local outlier, drift = x:clone(), x + heed.linspace(0, 1000, n)
    outlier[1] = 1e4
    return heed.stack({x, x + 1e3, outlier, drift, x * 1e-22, x * 1e22, x * 0 + 3}, 1)
  end

  it("normalise rows with any mean and scale, forward and backward", function()
    on_each_level(function(level)
      for _, n in ipairs {3, 15, 16, 17, 33, 100, 768} do
        local list = awkward(n)
        for _, name in ipairs {"layer_norm", "rms_norm"} do
          local gradients = {}
          for i, dtype in ipairs {"float32", "float64"} do
            local x = list:clone():to(dtype):requires_grad_()
            local w = heed.linspace(-1, 2, n, {dtype = dtype}):requires_grad_()
            local b = heed.linspace(3, 1, n, {dtype = dtype}):requires_grad_()
            local eps = {eps = 1e-60}
            local y = name == "rms_norm" and x:rms_norm({n}, w, eps) or x:layer_norm({n}, w, b, eps)
            y[{{1, 6}}]:backward((heed.arange(6 * n):view(6, n) % 7 - 3):to(dtype))
            gradients[i] = {y = y[{{1, 6}}], dx = x.grad[{{1, 4}}], dw = w.grad, db = b.grad}
          end
          for part, exact in pairs(gradients[2]) do
            local size = exact:abs():max():item()
            local same = gradients[1][part]:double():allclose(exact, {rtol = 0, atol = 4e-4 * size})
            assert.is_true(same, ("%s, %s, %s of %d"):format(level, name, part, n))
          end
        end
      end
    end)
  end)

  it("normalise long rows by a weight whose elements stand apart", function()
    local count, n = 40, 8192
    local weight = heed.linspace(-1, 2, 2 * n):view(n, 2)[{{}, 1}]
    on_each_level(function(level)
      local gradients = {}
      for i, w in ipairs {weight, weight:contiguous()} do
        local x = (heed.arange(count * n) * 0.61803398875 % 1):float():view(count, n)
        x:requires_grad_():layer_norm({n}, w):square():sum():backward()
        gradients[i] = x.grad
      end
      assert.is_true(gradients[1]:equal(gradients[2]), level)
    end)
  end)

  it("fill a tensor with the same uniform numbers at every level", function()
    local first
    on_each_level(function(level)
      heed.manual_seed(5)
      local x = heed.empty(1003):uniform_(-0.3, 0.7)
      first = first or x
      assert.is_true(x:equal(first), level)
    end)
  end)
end)


describe("products of few numbers", function()
  local function single(v) return (string.unpack("f", string.pack("f", v))) end
  local function double(v) return v end

  it("are rounded step by step, whatever their shape and strides", function()
    if device.gpu then pending("a GPU rounds a product and its sum at once") end
    heed.manual_seed(5)
    for dtype, rounded in pairs{float32 = single, float64 = double} do
      for _, size in ipairs{{1, 1, 1}, {2, 3, 4}, {4, 4, 4}, {3, 5, 7}, {5, 2, 9}, {1, 9, 8},
                            {7, 7, 8}, {8, 1, 3}, {9, 11, 4}} do
        local m, k, n = table.unpack(size)
        local a = heed.randn(m, 2 * k, {dtype = dtype})[{{}, {2, 2 * k, 2}}]
        local b = heed.randn(n, k, {dtype = dtype}).T
        for _, right in ipairs{b, b:contiguous()} do
          local y, x, z = (a:matmul(right)):totable(), a:totable(), right:totable()
          for i = 1, m do
            for j = 1, n do
              local sum = 0.0
              for l = 1, k do sum = rounded(sum + rounded(x[i][l] * z[l][j])) end
              assert.equal(sum, y[i][j])
            end
          end
        end
      end
    end
  end)
end)


describe("weights at the edges of a type", function()
  local function counts(list, dtype, n, draws)
    heed.manual_seed(7)
    local w, sum = heed.tensor(list, {dtype = dtype}), heed.zeros(#list)
    if not draws then return w:multinomial(n, true):bincount{minlength = #list}:totable() end
    for _ = 1, n do sum:index_add_(1, w:multinomial(draws), heed.ones(draws)) end
    return sum:totable()
  end

  it("are drawn by their shares where their sum overflows", function()
    for _, dtype in ipairs{"float32", "bfloat16"} do
      local n = counts({1e38, 3e38, 3e38}, dtype, 3000)
      assert.is_true(close(n[1], 430, 0, 70) and close(n[2], 1285, 0, 110), table.concat(n, " "))
    end
  end)

  it("are drawn by their ratios without replacement, and those of 0 never", function()
    assert.same({0, 300}, counts({0, 5e-324}, "float64", 300, 1))
    assert.same({0, 300, 300}, counts({0, 5e-324, 1e308}, "float64", 300, 2))
    for _, weight in ipairs{8e307, 5e-324, 1e-310} do
      local n = counts({weight, weight}, "float64", 300, 1)
      assert.is_true(close(n[1], 150, 0, 30), ("%g: %d of 300"):format(weight, n[1]))
    end
    local n = counts({1.5e-323, 5e-324}, "float64", 400, 1)
    assert.is_true(close(n[1], 300, 0, 30), n[1])
  end)
end)


describe("whole numbers that no double holds", function()
  local B <const> = (1 << 53) + 1
  local T = heed.tensor

  it("are factors of add and sub", function()
    assert.equal(B, T{0}:add(T{1}, {alpha = B}):item())
    assert.equal(-B, T{0}:sub(T{1}, {alpha = B}):item())
    assert.equal(-B, T{0}:add(T{1}, {alpha = -B}):item())
    assert.equal(3 * B + 2, T{2}:add(3, {alpha = B}):item())
    assert.same({B + 5, 5}, T{5}:add(T({1, 0}, {dtype = "uint8"}), {alpha = B}):totable())
    local x = T{1, 2}
    assert.equal(x, x:add_(x, {alpha = B}))
    assert.same({B + 1, 2 * B + 2}, x:totable())
    assert.equal(2 ^ 53, T{0.0}:double():add(T{1}, {alpha = B}):item())
    assert.equal(math.maxinteger, T{0}:add(1, math.maxinteger):item())
    assert.equal(5 + math.mininteger, T{5}:add(T{1}, {alpha = math.mininteger}):item())
  end)

  it("are factors of index_add and of products", function()
    assert.same({B, 0}, T{0, 0}:index_add(1, T{1}, T{1}, {alpha = B}):totable())
    local a = T{{1}}
    assert.equal(2 * B, heed.addmm(a, a, a, {alpha = B, beta = B}):item())
    assert.equal(-1, heed.addmm(a, a, a, {alpha = math.maxinteger, beta = 1 << 63}):item())
  end)

  it("pad, and are the ends of linspace", function()
    assert.same({B, 1, B}, T{1}:pad({1, 1}, "constant", B):totable())
    assert.same({0, B}, heed.linspace(0, B, 2, {dtype = "int64"}):totable())
    assert.same({-B, 0, B}, heed.linspace(-B, B, 3, {dtype = "int64"}):totable())
    assert.same({B}, heed.linspace(B, 0, 1, {dtype = "int64"}):totable())
    assert.same({-B, 0}, heed.linspace(-B, 0, 2, {dtype = "int64"}):totable())
    local least, most = math.mininteger, math.maxinteger
    assert.same({least, 0, most},
                heed.linspace(least, most, 3, {dtype = "int64"}):totable())
    assert.same({0, 3, 6, 10}, heed.linspace(0, 10, 4, {dtype = "int64"}):totable())
  end)

  it("wrap around in narrow types, by one rule", function()
    local x = T({1}, {dtype = "uint8"})
    for _, n in ipairs{300, -1, 2.5, 300.0} do
      local wanted = heed.full({1}, n, {dtype = "uint8"}):item()
      assert.same({wanted, 1, wanted}, x:pad({1, 1}, "constant", n):totable())
    end
    assert.equal(44, x:pad({1, 0}, "constant", 300)[1])
  end)
end)


describe("random whole numbers", function()
  it("are refused where their type does not hold the bounds", function()
    local f = {dtype = "float16"}
    for dtype, ends in pairs{float16 = {-65519, 65519}, uint8 = {0, 255}, bool = {0, 1}} do
      local low, high = ends[1], ends[2]
      local function draw(a, b) return heed.randint(a, b, {2}, {dtype = dtype}) end
      assert.equal(dtype, draw(low, high).dtype)
      local why <const> = "'%s': %s%d is no number of type " .. dtype
      assert.error_matches(function() draw(low - 1, high) end, why:format("low", "%", low - 1))
      assert.error_matches(function() draw(low, high + 1) end, why:format("high", "", high + 1))
    end
    assert.error_matches(function() heed.randperm(256, {dtype = "uint8"}) end,
                         "randperm: argument 'n': 256 is no number of type uint8")
    assert.equal(65504, heed.randint(65519, 65519, {1}, f):item())
    assert.is_true(heed.randint(-65519, 65519, {2000}, f):isfinite():all())
    assert.is_true(heed.randint(math.mininteger, math.maxinteger, {9}, {dtype = "bfloat16"})
                   :isfinite():all())
  end)
end)
