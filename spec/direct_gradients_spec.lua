-- Gradients with kernels of their own, beside those of the same operations composed of others.

local heed = require "heed"


-- Elements of a tensor in other layouts, by name: each takes a dense one to one that is not.
local layouts = {
  dense = function(t) return t end,
  transposed = function(t) return t.mT:contiguous().mT end,
  flipped = function(t) return t:flip(-1):contiguous():flip(-1) end,
  apart = function(t) return heed.stack({t, t * 0}, -1):select(-1, 1) end,
  ["batch last"] = function(t)
    local last = t:movedim(1, -1):contiguous()
    return last:movedim(-1, 1)
  end,
}

local function grads(f, xs, g)
  local leaves = {}
  for i, x in ipairs(xs) do leaves[i] = x:detach():clone():requires_grad_() end
  f(table.unpack(leaves)):backward(g)
  for i, x in ipairs(leaves) do leaves[i] = x.grad end
  return leaves
end


describe("gradients of products, whatever the ranks and layouts,", function()
  -- Each pair of elements is multiplied, and the pairs are summed.
  local function by_pairs(a, b)
    local row, column = a:dim() == 1, b:dim() == 1
    if row then a = a:unsqueeze(1) end
    if column then b = b:unsqueeze(-1) end
    local y = (a:unsqueeze(-1) * b:unsqueeze(-3)):sum(-2)
    if column then y = y:squeeze(-1) end
    return row and y:squeeze(column and -1 or -2) or y
  end

  local pairs_of_shapes = {
    {{3}, {3}}, {{3}, {3, 4}}, {{2, 3}, {3}}, {{2, 3}, {3, 4}}, {{5, 2, 3}, {3, 4}},
    {{5, 2, 3}, {3}}, {{3}, {5, 3, 4}}, {{1, 3}, {5, 3, 4}}, {{2, 3}, {5, 3, 4}},
    {{1, 1, 3}, {5, 3, 4}}, {{5, 2, 3}, {5, 3, 4}}, {{1, 2, 3}, {5, 3, 4}},
    {{5, 1, 2, 3}, {4, 3, 2}}, {{1, 3}, {2, 5, 3, 4}}, {{3}, {2, 5, 3, 1}},
    {{2, 0}, {0, 3}}, {{0, 3}, {3, 2}}, {{5, 0, 3}, {3, 2}}, {{1, 3}, {0, 3, 4}},
    {{1, 3}, {5, 3, 0}}, {{1, 0}, {5, 0, 3}}, {{3}, {0, 3, 2}},
  }

  local function check(one, other, name, lay)
    local function laid(t) return t:dim() > 1 and lay(t) or t end
    local a, b = heed.randn(one, {dtype = "float64"}), heed.randn(other, {dtype = "float64"})
    local g = heed.randn_like(by_pairs(a, b))
    local got = grads(function(x, y) return laid(x):matmul(laid(y)) end, {a, b}, laid(g))
    local want = grads(by_pairs, {a, b}, g)
    for i = 1, 2 do
      local what = ("%s, %s by %s: input %d"):format(name, table.concat(one, "x"),
                                                    table.concat(other, "x"), i)
      assert.same({(i == 1 and a or b):size()}, {got[i]:size()}, what)
      assert.is_true(got[i]:allclose(want[i], {rtol = 1e-12, atol = 1e-12}), what)
    end
  end

  it("are those of the pairs that are summed", function()
    for name, lay in pairs(layouts) do
      for _, shapes in ipairs(pairs_of_shapes) do check(shapes[1], shapes[2], name, lay) end
    end
  end)

  it("are those of matmul and a sum, for linear", function()
    for name, lay in pairs(layouts) do
      for _, shape in ipairs{{3}, {2, 3}, {4, 2, 3}, {2, 4, 2, 3}, {0, 3}, {2, 0, 3}} do
        local x = heed.randn(shape, {dtype = "float64"})
        local w, bias = heed.randn(5, 3, {dtype = "float64"}), heed.randn(5, {dtype = "float64"})
        local function laid(t) return t:dim() > 1 and lay(t) or t end
        local g = laid(heed.randn_like(heed.linear(x, w)))
        local got = grads(function(a, b, c) return heed.linear(laid(a), laid(b), c) end,
                          {x, w, bias}, g)
        local want = grads(function(a, b, c) return by_pairs(a, b.T) + c end, {x, w, bias}, g)
        for i = 1, 3 do
          local what = ("%s, %s: input %d"):format(name, table.concat(shape, "x"), i)
          assert.is_true(got[i]:allclose(want[i], {rtol = 1e-12, atol = 1e-12}), what)
        end
      end
    end
  end)
end)


describe("gradients of an embedding", function()
  it("are sums of rows, wherever ids lie", function()
    local two = heed.tensor{{1, 3, 3}, {2, 1, 3}}
    for what, ids in pairs{
      one = heed.tensor(2), list = heed.tensor{1, 4, 4, 1}, matrix = two, transposed = two.T,
      column = two:select(2, 3), expanded = heed.tensor{{4}, {1}}:expand(2, 3),
      flipped = two:flip(2), none = heed.empty(0, {dtype = "int64"}),
    } do
      for _, dtype in ipairs{"float64", "float32", "bfloat16"} do
        local weight = heed.randn(4, 5, {dtype = dtype}):requires_grad_()
        local y = heed.embedding(ids, weight)
        local g = heed.randint(-4, 4, {y:size()}):to(dtype)    -- sums of which are exact
        y:backward(g)
        local chosen = heed.one_hot(ids:reshape(-1), 4):to("float64")
        local want = chosen.T:matmul(g:reshape(-1, 5):to("float64"))
        assert.is_true(weight.grad:to("float64"):equal(want), what .. " in " .. dtype)
        assert.equal(dtype, weight.grad.dtype)
      end
    end
  end)

  it("leave the padding's row out", function()
    local weight = heed.randn(3, 2):requires_grad_()
    heed.embedding(heed.tensor{1, 2, 2, 3}, weight, 2):sum():backward()
    assert.same({{1, 1}, {0, 0}, {1, 1}}, weight.grad:totable())
  end)
end)


describe("gradients of views", function()
  local moves = {
    function(t) return t.T end, function(t) return t:view(3, 2) end,
    function(t) return t:permute(2, 1) end, function(t) return t:unsqueeze(2) end,
    function(t) return t:view(1, 2, 3):select(1, 1) end, function(t) return t.T:reshape(6) end,
    function(t) return t:view(2, 1, 3):squeeze(2) end, function(t) return t end,
  }

  it("are the leaf's own memory, and of no other gradient", function()
    for i, move in ipairs(moves) do
      local a, b = heed.randn(2, 3):requires_grad_(), heed.randn(2, 3):requires_grad_()
      local y = move(a) + move(b)
      local g = heed.randn_like(y:detach())
      local kept = g:clone()
      y:backward(g)
      assert.is_true(move(a.grad):equal(g), "move " .. i)
      a.grad:zero_()
      assert.is_true(move(b.grad):equal(g), "move " .. i)
      b.grad:zero_()
      assert.is_true(kept:equal(g), "move " .. i)
    end
  end)

  it("add up where a tensor is used in several ways", function()
    for i, move in ipairs(moves) do
      local x = heed.randn(2, 3, {dtype = "float64"})
      local weights = heed.randn_like(move(x))
      local got = grads(function(t) return (move(t) * weights):sum() + (t * t):sum() end, {x})
      local own = x:clone():requires_grad_()
      local plain = grads(function(t) return (move(t) * weights):sum() end, {x})[1]
      assert.is_true(got[1]:allclose(plain + own:detach() * 2, {rtol = 1e-14}), "move " .. i)
    end
  end)
end)


describe("gradients of attention", function()
  -- Splits (B, T, n * D) into heads, as parts of rows or as copies that lie apart.
  local B, H, D = 2, 4, 8
  local function attend(kv, lay)
    return function(q, k, v)
      local function heads(t, n) return lay(t:view(B, t:size(2), n, D):transpose(2, 3)) end
      return heed.attention(heads(q, H), heads(k, kv), heads(v, kv), {causal = true})
    end
  end

  it("are the same for heads that are parts of rows", function()
    for _, dtype in ipairs{"float32", "float64"} do
      local close = dtype == "float32" and 1e-5 or 1e-12
      for _, T in ipairs{1, 3, 7, 130} do
        for _, kv in ipairs{4, 2} do
          local function rows(n) return heed.randn(B, T, n * D, {dtype = dtype}) end
          local xs, g = {rows(H), rows(kv), rows(kv)}, heed.randn(B, H, T, D, {dtype = dtype})
          local got = grads(attend(kv, function(t) return t end), xs, g)
          local want = grads(attend(kv, function(t) return t:contiguous() end), xs, g)
          for i = 1, 3 do
            local what = ("%s, T = %d, %d heads of keys: input %d"):format(dtype, T, kv, i)
            assert.is_true(got[i]:allclose(want[i], {rtol = close, atol = close}), what)
          end
        end
      end
    end
  end)
end)
