-- The gradient of every operation that is no elementwise row: by differences, in float64, on
-- views as well as on dense tensors. Each case says how to call it and on what shapes.

local heed = require "heed"
local layouts = require "spec.support.layouts"

local function leaf(shape, seed, low, high)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  local list = layouts.numbers(n, low or -2, high or 2, seed)
  return heed.tensor(list, {dtype = "float64"}):reshape(shape)
end

-- {name, f, shapes...}; every tensor is also given as a view of a larger one.
local cases = {
  {"sum", function(x) return x:sum() end, {2, 3, 4}},
  {"sum of axes", function(x) return x:sum({1, -1}, true) end, {2, 3, 4}},
  {"mean", function(x) return x:mean(2) end, {2, 3, 4}},
  {"mean of all", function(x) return x:mean() end, {2, 3}},
  {"var", function(x) return x:var(2) end, {3, 5}},
  {"var of all, uncorrected", function(x) return x:var{unbiased = false} end, {3, 5}},
  {"std", function(x) return x:std(1) end, {4, 3}},
  {"max of an axis", function(x) return (x:max(2)) end, {3, 5}},
  {"min of all", function(x) return x:min() end, {3, 5}},
  {"logsumexp", function(x) return x:logsumexp(2) end, {3, 5}},
  {"norm", function(x) return x:norm() end, {3, 4}},
  {"norm 3 of an axis", function(x) return x:norm(3, 2) end, {3, 4}},
  {"norm 1", function(x) return x:norm(1, 1) end, {3, 4}},
  {"norm inf", function(x) return x:norm(math.huge, 2) end, {3, 4}},
  {"prod", function(x) return x:prod(2) end, {3, 4}},
  {"prod of all", function(x) return x:prod() end, {2, 3}},
  {"cumsum", function(x) return x:cumsum(2) end, {3, 4}},
  {"softmax", function(x) return x:softmax(-1) end, {3, 4}},
  {"softmax of the first axis", function(x) return x:softmax(1) end, {3, 4, 2}},
  {"log_softmax", function(x) return x:log_softmax(2) end, {3, 4}},
  {"matmul", heed.matmul, {3, 4}, {4, 5}},
  {"matmul of vectors", heed.matmul, {4}, {4}},
  {"matmul with a vector", heed.matmul, {3, 4}, {4}},
  {"vector with matmul", heed.matmul, {4}, {4, 3}},
  {"matmul of batches", heed.matmul, {2, 1, 3, 4}, {5, 4, 2}},
  {"bmm", heed.bmm, {2, 3, 4}, {2, 4, 5}},
  {"einsum", function(a, b) return heed.einsum("bik,bjk->bij", a, b) end, {2, 3, 4}, {2, 5, 4}},
  {"einsum, summed", function(a, b) return heed.einsum("ij,jk", a, b) end, {2, 3}, {3, 4}},
  {"einsum, diagonal", function(a) return heed.einsum("ii->i", a) end, {4, 4}},
  {"einsum, dots", function(a, b) return heed.einsum("...ij,...jk->...ik", a, b) end,
   {2, 3, 4}, {1, 4, 2}},
  {"linear", heed.linear, {2, 3, 4}, {5, 4}, {5}},
  {"linear without bias", function(x, w) return heed.linear(x, w) end, {3, 4}, {5, 4}},
  {"outer", heed.outer, {3}, {4}}, {"dot", heed.dot, {5}, {5}},
  {"view", function(x) return x:contiguous():view(3, 4) end, {2, 6}},
  {"reshape", function(x) return x:reshape(4, -1) end, {2, 6}},
  {"transpose", function(x) return x:transpose(1, 3) end, {2, 3, 4}},
  {"t", function(x) return x:t() end, {2, 3}},
  {"permute", function(x) return x:permute(3, 1, 2) end, {2, 3, 4}},
  {"expand", function(x) return x:expand(4, 3, 5) end, {3, 1}},
  {"narrow", function(x) return x:narrow(2, 2, 2) end, {2, 4}},
  {"select", function(x) return x:select(2, -1) end, {2, 4}},
  {"squeeze", function(x) return x:squeeze(2) end, {2, 1, 4}},
  {"unsqueeze", function(x) return x:unsqueeze(-1) end, {2, 4}},
  {"flatten", function(x) return x:flatten(2) end, {2, 3, 4}},
  {"unfold", function(x) return x:unfold(1, 3, 1) end, {6}},
  {"diagonal", function(x) return x:diagonal(1) end, {4, 5}},
  {"split", function(x) return heed.cat(x:split(2, 2), 1) end, {2, 4}},
  {"chunk", function(x) return x:chunk(3, 1)[2] end, {5, 2}},
  {"unbind", function(x) return x:unbind(1)[2] * x:unbind(1)[1] end, {2, 3}},
  {"index with ranges", function(x) return x[{{2, 3}, {4, 1, -2}}] end, {3, 4}},
  {"index with tensors", function(x)
    return x[{heed.tensor{1, 3, 3}, heed.tensor{2, 1, 1}}]
  end, {3, 4}},
  {"index with a mask", function(x) return x[heed.tensor{true, false, true}] end, {3, 4}},
  {"clone", function(x) return x:clone() end, {2, 3}},
  {"to", function(x) return x:to("float32"):to("float64") * 0 + x end, {2, 3}},
  {"cat", function(a, b) return heed.cat({a, b}, 2) end, {2, 3}, {2, 4}},
  {"stack", function(a, b) return heed.stack({a, b}, 2) end, {2, 3}, {2, 3}},
  {"gather", function(x) return x:gather(2, heed.tensor{{1, 1}, {4, 2}}) end, {2, 4}},
  {"scatter", function(x, s) return x:scatter(2, heed.tensor{{1, 3}, {4, 2}}, s) end,
   {2, 4}, {2, 2}},
  {"scatter_add", function(x, s) return x:scatter_add(2, heed.tensor{{1, 1}, {4, 2}}, s) end,
   {2, 4}, {2, 2}},
  {"index_select", function(x) return x:index_select(2, heed.tensor{4, 1, 1}) end, {2, 4}},
  {"masked_fill", function(x) return x:masked_fill(heed.tensor{true, false, true}, 7) end, {2, 3}},
  {"masked_select", function(x) return x:masked_select(x:detach():gt(0)) end, {3, 4}},
  {"embedding", function(w) return heed.embedding(heed.tensor{{1, 3}, {3, 2}}, w) end, {4, 3}},
  {"topk", function(x) return (x:topk(2)) end, {3, 5}},
  {"sort", function(x) return (x:sort(1, true)) end, {5, 2}},
  {"tril", function(x) return x:tril(-1) end, {4, 4}}, {"triu", function(x) return x:triu() end,
                                                        {3, 4}},
  {"roll", function(x) return x:roll(2, 2) end, {2, 5}},
  {"flip", function(x) return x:flip(1) end, {4, 2}},
  {"repeat_interleave", function(x) return x:repeat_interleave(3, 2) end, {2, 3}},
  {"tile", function(x) return x:tile(2, 3) end, {2, 3}},
  {"pad", function(x) return heed.pad(x, {1, 2, 0, 1}) end, {2, 3}},
  {"layer_norm", function(x, w, b) return heed.layer_norm(x, {4}, w, b) end, {3, 4}, {4}, {4}},
  {"layer_norm over two axes", function(x) return heed.layer_norm(x, {3, 4}) end, {2, 3, 4}},
  {"rms_norm", function(x, w) return heed.rms_norm(x, {4}, w) end, {3, 4}, {4}},
  {"mse_loss", heed.mse_loss, {3, 4}, {3, 4}}, {"l1_loss", heed.l1_loss, {3, 4}, {3, 4}},
  {"mse_loss and l1_loss, weighed", function(x, y)
    local w = heed.arange(12, {dtype = "float64"}):reshape(3, 4)
    return heed.mse_loss(x, y, {weight = w}) + heed.l1_loss(x, y, "none", w)
  end, {3, 4}, {3, 4}},
  {"smooth_l1_loss", heed.smooth_l1_loss, {3, 4}, {3, 4}},
  {"smooth_l1_loss, broadcast", heed.smooth_l1_loss, {3}, {4, 1}},
  {"cross_entropy", function(x)
    return heed.cross_entropy(x, heed.tensor{1, 4, -100}, {label_smoothing = 0.1})
  end, {3, 4}},
  {"cross_entropy, sum and weight", function(x)
    local w = heed.tensor({1, 2, 0.5, 3}, {dtype = "float64"})
    return heed.cross_entropy(x, heed.tensor{1, 4, 2}, w, {reduction = "sum"})
  end, {3, 4}},
  {"nll_loss", function(x) return heed.nll_loss(x, heed.tensor{1, 4, 2}) end, {3, 4}},
  {"binary_cross_entropy", function(x)
    return heed.binary_cross_entropy(x:sigmoid(), heed.ones(3, 4, {dtype = "float64"}))
  end, {3, 4}},
  {"bce_with_logits", function(x)
    return heed.bce_with_logits(x, heed.full({3, 4}, 0.3, {dtype = "float64"}))
  end, {3, 4}},
  {"kl_div", function(x, y)
    return heed.kl_div(x:log_softmax(-1), y:softmax(-1), {reduction = "batchmean"})
  end, {3, 4}, {3, 4}},
  {"attention", heed.attention, {2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}},
  {"attention, causal, grouped", function(q, k, v)
    return heed.attention(q, k, v, {causal = true, softcap = 3})
  end, {1, 4, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}},
  {"attention with bias", function(q, k, v, b)
    return heed.attention(q, k, v, {bias = b})
  end, {2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {2, 3, 5}},
  {"attention with lengths", function(q, k, v)
    return heed.attention(q, k, v, {lengths = heed.tensor{2, 0}})
  end, {2, 1, 3, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}},
  {"attention, weights and lse", function(q, k, v)
    local out, weights, lse = heed.attention(q, k, v, {weights = true, lse = true})
    return out, weights, lse
  end, {2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
  {"attention, composed", function(q, k, v)
    return heed.attention(q, k, v, {causal = true, fused = false})
  end, {1, 1, 3, 4}, {1, 1, 5, 4}, {1, 1, 5, 4}},
}

-- The same numbers, seen through a larger tensor: every second element, axes turned round.
local function through_views(f)
  return function(...)
    local seen = {}
    for i, x in ipairs {...} do
      local order, wide = {}, {}
      for k = 1, x:dim() do
        order[k] = x:dim() + 1 - k
        wide[k] = {1, 2 * x:size(k), 2}
      end
      local turned = x:permute(table.unpack(order)):contiguous():permute(table.unpack(order))
      for k = 1, turned:dim() do turned = turned:repeat_interleave(2, k) end
      seen[i] = turned[wide]
    end
    return f(table.unpack(seen))
  end
end


describe("gradients by differences", function()
  for i, case in ipairs(cases) do
    it("agree for " .. case[1], function()
      local xs = {}
      for k = 3, #case do xs[k - 2] = leaf(case[k], 10 * i + k) end
      layouts.on_each_level(function(level)
        for name, f in pairs {dense = case[2], views = through_views(case[2])} do
          local good, why = heed.gradcheck(f, xs, {rtol = 1e-5, atol = 1e-6})
          assert.is_true(good, ("%s, %s: %s"):format(level, name, why))
        end
      end)
    end)
  end

  it("agree for a product with zeros", function()
    for _, row in ipairs {{2.0, 0.0, 3.0}, {0.0, 0.0, 3.0}, {1.0, 2.0, 3.0}} do
      assert.is_true(heed.gradcheck(function(x) return x:prod() end, heed.tensor(row)))
    end
  end)
end)


describe("gradients of what is not smooth", function()
  it("follow PyTorch where values tie", function()
    local x = heed.tensor({2.0, 2.0, 1.0}, {requires_grad = true})
    x:max():backward()
    assert.same({0.5, 0.5, 0.0}, x.grad:totable())
    x.grad = nil
    x:max(1):backward()
    assert.same({1.0, 0.0, 0.0}, x.grad:totable())
  end)

  it("are kept by dropout for what was kept", function()
    local x = heed.ones(1000, {requires_grad = true})
    heed.manual_seed(1)
    local y = x:dropout(0.25)
    y:sum():backward()
    assert.is_true(x.grad:equal(y:detach()))
    local kept = y:detach():gt(0):sum():item()
    assert.is_true(kept > 690 and kept < 810, "kept " .. kept)
  end)
end)


describe("the walk", function()
  it("adds up what reaches a leaf on many ways", function()
    local x = heed.tensor({3.0}, {requires_grad = true})
    local y = x * x + x * 2 + x:expand(4):sum()
    y:sum():backward()
    assert.same({12.0}, x.grad:totable())
    ;(x * 5):sum():backward()
    assert.same({17.0}, x.grad:totable())
  end)

  it("takes a chain of a million operations", function()
    local x = heed.tensor({1.0}, {requires_grad = true})
    do
      local y = x
      for _ = 1, 1000000 do y = y + 1 end
      y:backward()
      assert.same({1.0}, x.grad:totable())
    end
    do
      local unused = x
      for _ = 1, 1000000 do unused = unused + 1 end
      assert.equal(1000001.0, unused:item())
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(heed.graph_nodes() < 100)
  end)

  it("frees the graph it walked, unless describe to keep it", function()
    local x = heed.tensor({2.0}, {requires_grad = true})
    local y = (x * x):sum()
    y:backward(nil, {retain_graph = true})
    y:backward()
    assert.same({8.0}, x.grad:totable())
    assert.error_matches(function() y:backward() end, "freed")
  end)

  it("refuses a value that was changed in place after it was saved", function()
    local x = heed.tensor({2.0, 3.0}, {requires_grad = true})
    local y = x:exp()
    local z = (y * 1):sum() + y:sum()
    y:add_(1)
    assert.error_matches(function() z:backward() end, "in place")
    assert.is_nil(x.grad)
  end)

  it("sees what is done in place, through views too", function()
    local x = heed.tensor({1.0, 2.0, 3.0, 4.0}, {requires_grad = true})
    local y = x * 1
    y[{{2, 3}}] = y[{{2, 3}}] * 10
    y:narrow(1, 4, 1):mul_(5)
    y:sum():backward()
    assert.same({1.0, 10.0, 10.0, 5.0}, x.grad:totable())
  end)

  it("gives a base the history of what is written into it", function()
    local w = heed.tensor({7.0, 8.0}, {requires_grad = true})
    local base = heed.zeros(2, 2)
    local row = base[2]
    row:copy_(w * 2)
    assert.is_true(base.requires_grad)
    ;(base * heed.tensor{{1.0, 1.0}, {3.0, 4.0}}):sum():backward()
    assert.same({6.0, 8.0}, w.grad:totable())
    assert.same({{0.0, 0.0}, {14.0, 16.0}}, base:detach():totable())
  end)

  it("refuses to change leaves and expanded memory in place", function()
    local x = heed.tensor({1.0, 2.0}, {requires_grad = true})
    assert.error_matches(function() x:add_(1) end, "leaf")
    assert.error_matches(function() x[1] = 5 end, "leaf")
    assert.error_matches(function() heed.zeros(1):expand(3):add_(1) end, "expanded")
    heed.no_grad(function() x:add_(1) end)
    assert.same({2.0, 3.0}, x:detach():totable())
  end)
end)


describe("gradients of what was changed in place", function()
  local function after(change)
    local x = heed.ones(2):requires_grad_()
    local y = x * 2
    change(y):sum():backward()
    return x.grad:totable()
  end

  it("reach through views that lag behind their base", function()
    assert.same({8, 8}, after(function(a)
      local v = a:view{2}
      a:mul_(2)
      return a + v
    end))
    assert.same({8, 8}, after(function(a)
      local v, w = a:view{2}, a:view{2}
      v:add_(a)
      w:add_(v)
      return a
    end))
  end)

  it("are zeros where all was written over", function()
    assert.same({0, 0}, after(function(a) return a:copy_(heed.ones(2)) end))
    assert.same({0, 0}, after(function(a) return a:fill_(3) end))
    assert.same({0, 0}, after(function(a) return a:zero_() end))
  end)

  it("do not pass through what was drawn", function()
    local y = heed.full({64}, 3.0):requires_grad_() * 1
    local mean = y:bernoulli_():mean():item()            -- p is one half, whatever y held
    assert.is_true(mean > 0 and mean < 1)
    assert.is_false(y.requires_grad)
  end)

  it("leave memory alone that a view's base has given up", function()
    local w = heed.ones(4096):requires_grad_()
    local a = heed.ones(4096) * 2
    local v = a:view{64, 64}
    a:set_(heed.zeros(2))
    v:view{4096}:mul_(w)
    assert.is_false(a.requires_grad)
    local x = heed.ones(4):requires_grad_()
    local y = (x * 2):sum()
    x:set_(heed.zeros(2))
    assert.error_matches(function() y:backward() end, "a leaf is float32 of shape %(2%) now")
  end)

  it("know that a view wants one since its base does", function()
    local a = heed.zeros(4)
    local v = a:slice(1, 1, 2)
    a:add_(heed.ones(4):requires_grad_())
    assert.is_true(v.requires_grad)
    assert.is_false(v.is_leaf)
    local whole = heed.ones(2, 2)
    local row = whole[1]:requires_grad_()
    whole:requires_grad_();
    (row * 2):sum():backward()
    assert.same({2, 2}, row.grad:totable())
  end)
end)


describe("a walk within a walk", function()
  it("takes nothing from the outer one and adds nothing to it", function()
    local x, inner = heed.tensor{3.0}:requires_grad_()
    local y = x * 2
    local z = (y * y):sum()
    local f = heed.custom {
      forward = function(_, t) return t * 1 end,
      backward = function(_, g) inner = heed.grad(z, x, {retain_graph = true}) return g end,
    };
    (f(y):sum() + (y * 10):sum()):backward{retain_graph = true}
    assert.same({24}, inner:totable())
    assert.same({22}, x.grad:totable())
  end)

  it("is refused for more tensors than a node can hold", function()
    local xs = {}
    for i = 1, 65 do xs[i] = heed.ones(1):requires_grad_() end
    local f = heed.custom {
      forward = function(_, a) return a end, backward = function() end,
    }
    assert.error_matches(function() f(table.unpack(xs)) end, "at most 64 tensors")
  end)
end)


describe("a bound", function()
  it("takes the gradient of what gradients it, a tensor half of it", function()
    local x = heed.tensor{0.0, 1.0, 2.0}:requires_grad_()
    x:clamp(0, 2):sum():backward()
    assert.same({0, 1, 0}, x.grad:totable())
    local low, high = heed.tensor{0.0, 1.0, 0.0}, heed.tensor{2.0, 1.0, 2.0}
    for _, t in ipairs{x, low, high} do t:requires_grad_().grad = nil end
    x:clamp(low, high):sum():backward()
    assert.same({0.5, 1, 0.5}, x.grad:totable())
    assert.same({0.5, 0, 0}, low.grad:totable())
    assert.same({0, 0, 0.5}, high.grad:totable())
  end)
end)
