-- Gradients of gradients: of every operation by differences, and what they meet on their way.

local array = require "spec.support.array"
local cases = require "spec.support.cases"
local heed = require "heed"
local layouts = require "spec.support.layouts"
local message_of = require "spec.support.message"
local reference = require "spec.support.reference"

local CREATE <const> = {create_graph = true}
local CLOSE <const> = {order = 2, rtol = 1e-4, atol = 2e-5}

-- The cases whose gradients have none of their own.
local REFUSED <const> = {["cumprod with zeros"] = true}
for _, case in ipairs(cases.list) do
  if case.row == "attention" then REFUSED[case[1]] = true end
end


local function numbers(n, low, high, seed)
  return heed.tensor(layouts.numbers(n, low, high, seed), {dtype = "float64"})
end


local function leaf(values)
  return heed.tensor(values, {dtype = "float64", requires_grad = true})
end


-- f's float results, and their squares: with these the gradients that come to f have graphs too.
local function with_squares(f)
  return function(...)
    local results = table.pack(f(...))
    for i = 1, results.n do
      local y = results[i]
      if heed.is_tensor(y) and y.dtype:find "float" then results[#results + 1] = y * y end
    end
    return table.unpack(results, 1, #results)
  end
end


-- Recorded gradients are those that kernels give.
local function assert_same_gradients(name, f, xs)
  local leaves = {}
  for k, x in ipairs(xs) do leaves[k] = leaf(x) end
  local sum
  for _, y in ipairs {f(table.unpack(leaves))} do
    if heed.is_tensor(y) and y.requires_grad then sum = (sum or 0) + (y * (y + 1)):sum() end
  end
  local plain = heed.grad(sum, leaves, {retain_graph = true})
  for k, g in ipairs(heed.grad(sum, leaves, CREATE)) do
    assert.is_true(rawequal(g, plain[k]) or g:allclose(plain[k], 1e-9, 1e-11), name)
  end
end


local function assert_second(name, f, xs)
  xs = heed.is_tensor(xs) and {xs} or xs
  assert_same_gradients(name, f, xs)
  local good, why = heed.gradcheck(with_squares(f), xs, CLOSE)
  assert.is_true(good, ("%s: %s"):format(name, why))
end


local function sorted(rows)
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  return names
end


describe("second derivatives by differences", function()
  for _, name in ipairs(sorted(reference.unary)) do
    local row = reference.unary[name]
    it("agree for " .. name, function()
      assert_second(name, heed[name], numbers(7, row[2], row[3], 3))
      for _, call in ipairs(row.calls or {}) do
        assert_second(name, function(x) return heed[name](x, table.unpack(call[1])) end,
                      numbers(7, row[2], row[3], 5))
      end
    end)
  end

  for _, name in ipairs(sorted(reference.binary)) do
    local row = reference.binary[name]
    it("agree for " .. name, function()
      local a, b = numbers(6, row[2], row[3], 3):reshape(2, 3), numbers(3, row[2], row[3], 9)
      assert_second(name, heed[name], {a, b})
      assert_second(name, function(x) return heed[name](x, 1.5) end, a)
      if name ~= "remainder" and name ~= "fmod" and name ~= "floor_divide" then
        assert_second(name, function(x) return heed[name](1.5, x) end, b)
      end
    end)
  end

  it("agree for those of three", function()
    local a, b, w = numbers(6, -3, 3, 3), numbers(6, -3, 3, 5), numbers(6, 0.1, 0.9, 7)
    assert_second("where", function(x, y) return heed.where(x:gt(0), x * y, y * y) end, {a, b})
    assert_second("lerp", heed.lerp, {a, b, w})
    assert_second("clamp", function(x) return (x * x):clamp(0.5, 4) end, a)
  end)

  for i, case in ipairs(cases.list) do
    if case.gradient and not case.check then
      local name = case[1]
      it((REFUSED[name] and "are refused for " or "agree for ") .. name, function()
        local xs = {}
        for k = 3, #case do
          xs[k - 2] = numbers(array.numel(case[k]), case.low or -2, case.high or 2, 10 * i + k)
            :reshape(case[k])
        end
        if REFUSED[name] then
          assert.error_matches(function() heed.gradcheck(case[2], xs, CLOSE) end,
                               "grad: create_graph: " .. case.row .. "'s gradient has none of ")
        else
          assert_second(name, case[2], xs)
        end
      end)
    end
  end

  it("agree for products without zeros, which are refused by name", function()
    assert_second("prod", function(x) return x:prod() end, numbers(4, 1, 2, 3))
    assert_second("cumprod", function(x) return x:cumprod(1) end, numbers(4, 1, 2, 3))
    for _, name in ipairs {"prod", "cumprod"} do
      local x = leaf {1, 0, 2}
      assert.error_matches(function() heed.grad(heed[name](x, 1):sum(), x, CREATE) end,
                           "grad: create_graph: " .. name .. "'s gradient .* where an element is 0")
    end
  end)

  it("agree for probabilities that are, or nearly are, what they should be", function()
    local x, t = {1, 0, 1 - 1e-13, 1e-13, 0.25}, leaf {1, 0, 1, 0, 1}
    for reduction, n in pairs {sum = 1, mean = 5} do
      local p = leaf(x)
      local y = heed.binary_cross_entropy(p, t, {reduction = reduction})
      local plain = heed.grad(y, {p, t}, {retain_graph = true})
      local g = heed.grad(y, {p, t}, CREATE)
      assert.is_true(plain[1]:equal(g[1]) and plain[2]:equal(g[2]))
      local by_p, by_t = table.unpack(heed.grad((g[1] * n):sum(), {p, t}, CREATE))
      assert.is_true(by_p:allclose(leaf {1, 1, 1, 1, 16}, {rtol = 1e-9}))
      assert.is_true(by_t:allclose(leaf {-1e12, -1e12, -1e12, -1e12, -16 / 3}, {rtol = 1e-9}))
      local third = heed.grad((by_p * n):sum() / n, p)
      assert.is_true(third:allclose(leaf {-2, 2, -2, 2, -128}, {rtol = 1e-9}))
    end
    local p = leaf {1, 0}                                -- as far from the target as can be
    local g = heed.grad(heed.binary_cross_entropy(p, leaf {0, 1}, {reduction = "sum"}), p, CREATE)
    assert.same({1e12, -1e12}, g:totable())
    assert.is_true(heed.grad(g:sum(), p):allclose(leaf {1e24, 1e24}, {rtol = 1e-9}))
  end)

  it("are refused for attention by its name, and change nothing", function()
    local q = heed.randn(1, 1, 3, 4, {requires_grad = true})
    local y = q:attention(q, q):sum()
    assert.error_matches(function() heed.grad(y, q, CREATE) end,
                         "grad: create_graph: attention's gradient has none of its own")
    y:backward()
    assert.is_true(q.grad:isfinite():all())
  end)
end)


describe("gradients with graphs", function()
  it("are of any order", function()
    local x, wanted = leaf(2), {32, 48, 48, 24, 0}
    local y = x ^ 4
    for n = 1, 5 do
      y = heed.grad(y, x, CREATE)
      assert.equal(wanted[n], y:item())
    end
    for _, f in ipairs {heed.exp, heed.tanh, heed.gelu, heed.sinc} do
      assert.is_true(heed.gradcheck(f, heed.tensor {0.3, -0.8}, {order = 4, atol = 1e-4}))
    end
  end)

  it("decide by numbers what numbers decide", function()
    assert_same_gradients("atan2", function(x) return heed.atan2(1.5, x) end, {leaf {0, 1}})
    assert_same_gradients("pow", function(x) return heed.pow(0, x) end, {leaf {0.5, 1}})
  end)

  it("lead to the result that was saved, also a second one", function()
    local both = heed.custom {
      forward = function(ctx, a) ctx.a = a return a * 2, a * a end,
      backward = function(ctx, g, h) return (g and g * 2 or 0) + (h and h * ctx.a * 2 or 0) end,
    }
    assert_second("two results", function(x)
      local _, square = both(x)
      return square * square
    end, numbers(3, 1, 2, 3))
  end)

  it("stay finite where a branch that is not taken is not", function()
    for name, at in pairs {elu = 1000, softplus = 1000, sinc = 0, relu = 0} do
      local x = leaf {at}
      local g = heed.grad(heed[name](x):sum(), x, CREATE)
      local h = g.requires_grad and heed.grad(g:sum(), x)
      assert.is_true(not h or h:isfinite():all(), name)
    end
  end)

  it("go through hooks, custom functions and the first gradient", function()
    local x, v = leaf {1, 2}, leaf {3, 4}
    local cube = heed.custom {
      forward = function(ctx, a) ctx.a = a return a * a * a end,
      backward = function(ctx, g) return 3 * ctx.a * ctx.a * g end,
    }
    local y = cube(x)
    local g = heed.grad(y, x, v, CREATE)
    local by_x, by_v = table.unpack(heed.grad(g:sum(), {x, v}))
    assert.same({18, 48}, by_x:totable())
    assert.same({3, 12}, by_v:totable())
    local hooked = leaf {2}
    local square = hooked * hooked
    local hook <close> = square:register_hook(function(a) return a * hooked end)
    local first = heed.grad(square:sum(), hooked, CREATE)          -- 2 x^2
    assert.same({8}, heed.grad(first:sum(), hooked):totable())
    assert.is_true(hook ~= nil)
  end)

  it("name a custom function whose gradient has another shape", function()
    local x = leaf {1, 2}
    local bad = heed.custom{forward = function(_, a) return a * 1 end,
                            backward = function() return heed.ones(3) end}
    assert.matches("custom: backward gave input 1 a gradient of shape %(3%), not %(2%)",
                   message_of(heed.grad, bad(x):sum(), x, CREATE))
  end)

  it("go through checkpoints as without them", function()
    local x, w = leaf {0.3, -0.7}, leaf {1.5, 0.5}
    local function f(a) return (a * w):tanh() * a end
    local function seconds(y)
      local g = heed.grad(y:sum(), {x, w}, CREATE)
      local h = heed.grad((g[1]:square() + g[2]:exp()):sum(), {x, w})
      return h[1], h[2]
    end
    local a, b = seconds(f(x))
    local c, d = seconds(heed.checkpoint(f, x))
    assert.is_true(a:allclose(c, {atol = 1e-6}) and b:allclose(d, {atol = 1e-6}))
  end)

  it("follow views and changes in place, and values that were changed are refused", function()
    assert_second("in place", function(x)
      local y = x * 1
      y[1]:mul_(x[2])
      y:narrow(1, 2, 2):exp_()
      return y * y
    end, numbers(6, 0.5, 1, 3):reshape(3, 2))
    local x = leaf {1, 2}
    local y = x:exp()
    local g = heed.grad(y:sum(), x, CREATE)
    heed.no_grad(y.zero_, y)
    assert.error_matches(function() heed.grad(g:sum(), x) end, "changed in place")
  end)

  it("serve a penalty on gradients, and products with Hessians", function()
    local w, x = leaf {{0.5, -1}, {2, 0.25}}, leaf {{1, 2}, {3, -1}}
    local out = (x:matmul(w)):tanh():sum()
    local g = heed.grad(out, x, CREATE)
    local penalty = (g:norm(2, 2) - 1):square():mean()
    penalty:backward()
    assert_second("penalty", function(a, b) return a:matmul(b):tanh() end, {x:detach(), w:detach()})
    assert.is_true(w.grad:abs():sum():item() > 0)
    local v = leaf {{1, 0}, {0, 2}}
    local h = heed.grad(heed.grad((x ^ 3):sum(), x, CREATE), x, v)       -- 6 x v
    assert.same({{6, 0}, {0, -12}}, h:totable())
  end)

  it("leave nothing behind", function()
    collectgarbage() collectgarbage()
    local nodes = heed.graph_nodes()
    do
      local x = leaf {1, 2}
      local g = heed.grad((x:exp() * x):sum(), x, CREATE)
      assert.is_true(heed.graph_nodes() > nodes and g.requires_grad)
    end
    collectgarbage() collectgarbage()
    assert.equal(nodes, heed.graph_nodes())
  end)

  it("are recorded only where they are wanted", function()
    local x = leaf {1, 2}
    assert.is_false(heed.grad(x:exp():sum(), x).requires_grad)
    assert.error_matches(function() (x * 1):sum():backward(CREATE) end, "backward: create_graph: ")
  end)
end)


describe("views that are made anew after their base was changed in place", function()
  local views = {
    transposed = function(t) return t.mT end,
    ["a part"] = function(t) return t:narrow(2, 2, 2) end,
    ["a row"] = function(t) return t:narrow(1, 2, 1) end,
    flipped = function(t) return t:flip(1) end,
  }
  for n = 1, 3 do
    views["expanded " .. n .. " times"] = function(t) return t:unsqueeze(2):expand(2, n, 3) end
  end
  views.turned = function(t) return t:unsqueeze(1):expand(2, 2, 3):movedim(1, 3).mT end
  -- As many elements as there are numbers in a row, but some of them twice, and others never.
  views["overlapping windows with gaps"] = function(t)
    return t:unfold(1, 5, 2):slice(2, 1, 5, 2)
  end
  for name, view in pairs(views) do
    local x = name:find "windows" and numbers(9, -2, 2, 3) or numbers(6, -2, 2, 3):view(2, 3)
    it(name, function()
      assert_second(name, function(a)
        local y = a * 1
        local v = view(y)
        y:mul_(3)
        return (v * v):cumsum(-1)
      end, {x})
    end)
  end
end)


describe("a gradient with a graph", function()
  it("reads no value that a number leaves out", function()
    for power, wanted in pairs{[0] = {0, 0}, [3] = false} do
      local x = leaf{2, 3}
      local a = x * 1
      local y = (a ^ power):sum()
      heed.no_grad(a.add_, a, 1)
      local good, g = pcall(heed.grad, y, x, CREATE)
      assert.same(wanted, good and g:totable())
    end
  end)
end)


describe("gradcheck", function()
  it("has a tensor to check", function()
    for _, none in ipairs{{}, heed.mask.causal()} do
      assert.error_matches(function() heed.gradcheck(print, none) end,
                           "gradcheck: at least one tensor expected in xs, got none")
    end
    assert.error_matches(function() heed.gradcheck(print, {heed.ones(1), nil, heed.ones(1)}) end,
                         "gradcheck: xs: an entry expected at position 2")
  end)

  it("records within no_grad", function()
    for order = 1, 2 do
      assert.is_true(heed.no_grad(heed.gradcheck, heed.tanh, heed.tensor{0.1, 0.7},
                                  {order = order}))
    end
    assert.is_true(heed.is_grad_enabled())
  end)

  it("takes integers for numbers where there are no floats", function()
    assert.is_true(heed.gradcheck(heed.mul, {heed.tensor{1, 2}, heed.tensor{3, 4}}))
  end)

  it("gives integers and bools beside floats as they are", function()
    local function f(x, ids, seen)
      assert.equal("int64", ids.dtype)
      return x:index_select(1, ids):square():masked_fill(seen, 0)
    end
    local xs = {heed.tensor{0.5, 1.5, 2.5}, heed.tensor{3, 1}, heed.tensor{true, false}}
    for order = 1, 2 do assert.is_true(heed.gradcheck(f, xs, {order = order})) end
    assert.is_nil(xs[1].grad)
    assert.is_false((heed.gradcheck(function(ids, x) return (x:detach() * x)[ids] end,
                                    {xs[2], xs[1]})))
  end)
end)
