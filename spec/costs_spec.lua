-- The costs of calls and backward passes on the CPU: operations, and the bytes of the tensors that
-- they make, where a copy more or a sum elsewhere would change no result.

local heed = require "heed"

-- Calls and bytes of the operations of f, by their names, without a collection on the way.
local function costs_of(f)
  collectgarbage()
  collectgarbage()
  collectgarbage "stop"
  local good, p = pcall(heed.profile, f)
  collectgarbage "restart"
  assert(good, p)
  local list = {}
  for _, record in ipairs(p.operations) do
    if record.name ~= "Lua" then
      list[#list + 1] = ("%s %d %d"):format(record.name, record.calls, record.bytes)
    end
  end
  table.sort(list)
  return table.concat(list, ", ")
end

local function ones(...) return heed.ones(...):to{device = "cpu"} end

-- Costs of the forward and the backward pass of f(w), for new w of 1000 elements.
local function costs_of_pass(f, g)
  local w = ones(1000):requires_grad_()
  return costs_of(function() f(w):backward(g) end)
end

local SUM <const> = ", sum 1 4, sum backward 1 0"


describe("a backward pass", function()
  local x = ones(1000)

  it("sums gradients in memory of its own: one sum for all of them", function()
    assert.equal("add 2 8000, add backward 2 0, backward 1 4, mul 3 12000, mul backward 3 12000" ..
                 SUM,
                 costs_of_pass(function(w) return (w * 2 + w * 3 + w * 4):sum() end))
    assert.equal("add 1 4000, add backward 1 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + w):sum() end))
    assert.equal("add 2 8000, add backward 2 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + w + w):sum() end))
  end)

  it("adds to the gradient that is there", function()
    local w = ones(1000):requires_grad_()
    for _ = 1, 2 do
      assert.equal("backward 1 4, mul 1 4000, mul backward 1 4000" .. SUM,
                   costs_of(function() (w * 2):sum():backward() end))
    end
  end)

  it("copies a gradient where somebody else has it", function()
    assert.equal("backward 1 0, mul 1 4000, mul backward 1 4000",
                 costs_of_pass(function(w) return w * 2 end, x))
    assert.equal("backward 1 4000, view 1 0, view backward 1 0",
                 costs_of_pass(function(w) return w:view(10, 100) end, x:view(10, 100)))
    local v = ones(1000):requires_grad_()
    assert.equal("add 1 4000, add backward 1 0, backward 1 8000",
                 costs_of_pass(function(w) return w + v end, x))
    assert.equal("backward 1 4004" .. SUM, costs_of_pass(function(w) return w:sum() end))
    assert.equal("backward 1 4000", costs_of_pass(function(w) return w end, ones(1):expand(1000)))
  end)

  it("sums over axes along which a tensor was broadcast once", function()
    local wide, tall = ones(2, 1000), ones(1000, 3)
    assert.equal("backward 1 4004, mul 1 8000, mul backward 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * wide):sum() end))
    assert.equal("add 1 12000, add backward 1 0, backward 1 4004" .. SUM ..
                 ", view 1 0, view backward 1 0",
                 costs_of_pass(function(w) return (w:view(1000, 1) + tall):sum() end))
  end)

  it("converts a gradient once, where types differ", function()
    assert.equal("backward 1 4008, sum 1 8, sum backward 1 0, to 1 8000, to backward 1 0",
                 costs_of_pass(function(w) return w:to("float64"):sum() end))
    local wide = x:to("float64")
    assert.equal("add 1 8000, add backward 1 0, backward 1 4008, sum 1 8, sum backward 1 0",
                 costs_of_pass(function(w) return (w + wide):sum() end))
  end)

  it("makes no gradient of what wants none", function()
    assert.equal("add 1 4000, add backward 1 0, backward 1 4004" .. SUM,
                 costs_of_pass(function(w) return (w + 1):sum() end))
    assert.equal("backward 1 4, mul 1 4000, mul backward 1 4000" .. SUM,
                 costs_of_pass(function(w) return (w * x):sum() end))
    local v = ones(1000):requires_grad_()
    assert.equal("backward 1 4, mul 1 4000, mul backward 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * v):sum() end))
  end)

  it("through what was changed in place takes what a copy would", function()
    assert.equal("backward 1 4, mul 1 4000, mul backward 2 8000, mul_ 1 8000" .. SUM,
                 costs_of_pass(function(w) return (w * 1):mul_(2):sum() end))
  end)

  it("through a part that was changed in place takes rows as wide as the base", function()
    local function in_part(w)
      local y = w * 1
      y:narrow(1, 11, 10):mul_(2)
      return y:sum()
    end
    local function of_part(w)
      local y = w * 1
      local part = y:narrow(1, 11, 10)
      y:mul_(2)
      return part:sum()
    end
    local function of_columns(w)
      local y = (w * 1):view(10, 100)
      local part = y:t():narrow(1, 1, 4)
      y:mul_(2)
      return part:sum()
    end
    assert.equal("backward 1 4004, mul 1 4000, mul backward 3 8088, mul_ 1 80, narrow 1 0, " ..
                 "slice backward 1 4000" .. SUM, costs_of_pass(in_part))
    assert.equal("backward 1 4, mul 1 4000, mul backward 2 8000, mul_ 1 8000, narrow 1 0" .. SUM ..
                 ", view backward 1 4000", costs_of_pass(of_part))
    assert.equal("backward 1 4004, mul 1 4000, mul backward 3 16008, mul_ 1 8000, narrow 1 0" ..
                 SUM .. ", t 1 0, view 1 0, view backward 2 4000", costs_of_pass(of_columns))
  end)

  it("through views copies nothing", function()
    assert.equal("backward 1 4, index 1 0, slice backward 1 4000" .. SUM,
                 costs_of_pass(function(w) return w[{{1, 10}}]:sum() end))
    assert.equal("backward 1 4, mean 1 400, mean backward 1 400" .. SUM ..
                 ", view 1 0, view backward 1 4000",
                 costs_of_pass(function(w) return w:view(10, 100):mean(1):sum() end))
    assert.equal("backward 1 4004, index 1 0, select backward 1 0" .. SUM ..
                 ", view 1 0, view backward 1 0",
                 costs_of_pass(function(w) return w:view(1, 1000)[1]:sum() end))
  end)
end)


describe("a call", function()
  local x = ones(1000)

  it("gives a view of what is like the result already", function()
    assert.equal("contiguous 1 0, expand 1 0, reshape 1 0", costs_of(function()
      x:to("float32")
      x:contiguous()
      x:reshape(10, 100)
      x:expand(1000)
      x:detach()
    end))
  end)

  it("in place copies an operand that overlaps it, and no other", function()
    local y = ones(1000)
    assert.equal("add_ 1 0, mul_ 1 0", costs_of(function() y:add_(1):mul_(y) end))
    local first, same = y:narrow(1, 1, 500), y:narrow(1, 1, 500)
    assert.equal("add_ 1 0", costs_of(function() first:add_(same) end))
    local shifted = y:narrow(1, 251, 500)
    assert.equal("add_ 1 2000", costs_of(function() first:add_(shifted) end))
    local other = ones(500)
    assert.equal("add_ 1 0", costs_of(function() first:add_(other) end))
  end)

  it("in place writes a copy where it may be stopped: of more positions than elements", function()
    for n, bytes in pairs{[4] = 0, [5] = 16} do
      local few, at = ones(4), heed.ones({n}, {dtype = "int64"}):to{device = "cpu"}
      local some = ones(n)
      assert.equal(("scatter_ 1 %d"):format(bytes),
                   costs_of(function() few:scatter_(1, at, some) end))
      assert.equal(("put_ 1 %d"):format(bytes), costs_of(function() few:put_({at}, some) end))
      assert.equal("put 1 16, scatter 1 16",
                   costs_of(function() return few:put({at}, some), few:scatter(1, at, some) end))
    end
  end)

  it("mixes types without conversions of their own", function()
    local h, n = x:to("bfloat16"), x:to("int64")
    assert.equal("add 1 4000", costs_of(function() return x + h end))
    assert.equal("add_ 1 0", costs_of(function() h:add_(x) end))
    assert.equal("mul 1 4000", costs_of(function() return n * 2.5 end))
    assert.equal("div 1 4000", costs_of(function() return n / n end))
  end)

  it("over rows beyond eight million elements is made of steps that can be stopped", function()
    if os.getenv "HEED_BUILD" == "basic" then return pending "all of it is made of steps" end
    local function of_row(n)
      local row = ones(1):expand(n)
      return tonumber(costs_of(function() row:softmax(1) end):match("^softmax 1 (%d+)$"))
    end
    assert.equal(4 << 23, of_row(1 << 23))
    assert.is_true(of_row((1 << 23) + 1) > 8 << 23)
    local row, label = ones(1, 1):requires_grad_():expand(1, (1 << 23) + 1), ones(1):to("int64")
    local costs = costs_of(function() row:cross_entropy(label):backward() end)
    assert.is_true(tonumber(costs:match("cross_entropy 1 (%d+)")) > 8 << 23, costs)
    assert.is_true(tonumber(costs:match("cross_entropy backward 1 (%d+)")) > 8 << 23, costs)
  end)

  it("with powers and quotients makes its result alone", function()
    assert.equal("pow 4 16000", costs_of(function() return x ^ 2, x ^ 0.5, x ^ 3, x ^ -1 end))
    assert.equal("div 3 12000", costs_of(function() return x / 2, x / x, 1 / x end))
  end)
end)


local x, wide, square = ones(10, 100), ones(100), ones(50, 100)
local ids, labels = ones(3):to("int64"), ones(10):to("int64")
local column, half = labels:view(10, 1), ones(10, 50)
local seen = x:gt(0)

-- An operation of t, which is like x; what it costs, and its backward pass.
local OPERATIONS <const> = {
  {"sum", function(t) return t:sum(1) end, "sum 1 400", "backward 1 4000, sum backward 1 0"},
  {"mean", function(t) return t:mean() end, "mean 1 4", "backward 1 4000, mean backward 1 4"},
  {"amax", function(t) return t:amax(2) end, "amax 1 40", "amax backward 1 13080, backward 1 0"},
  {"max", function(t) return (t:max(2)) end, "max 1 120", "backward 1 0, max backward 1 4000"},
  {"prod", function(t) return t:prod(2) end, "prod 1 40", "backward 1 0, prod backward 1 26120"},
  {"norm", function(t) return t:norm() end, "norm 1 20", "backward 1 0, norm backward 1 4009"},
  {"var", function(t) return t:var(2) end, "var 1 160", "backward 1 0, var backward 1 12000"},
  {"std", function(t) return t:std(2) end, "std 1 160", "backward 1 0, std backward 1 12130"},
  {"logsumexp", function(t) return t:logsumexp(2) end, "logsumexp 1 40",
   "backward 1 0, logsumexp backward 1 12000"},
  {"cumsum", function(t) return t:cumsum(1) end, "cumsum 1 4000",
   "backward 1 0, cumsum backward 1 4000"},
  {"softmax", function(t) return t:softmax(1) end, "softmax 1 4000",
   "backward 1 0, softmax backward 1 4000"},
  {"log_softmax", function(t) return t:log_softmax(2) end, "log_softmax 1 4000",
   "backward 1 0, log_softmax backward 1 4000"},
  {"layer_norm", function(t) return t:layer_norm({100}, wide, wide) end, "layer_norm 1 4080",
   "backward 1 0, layer_norm backward 1 4000"},
  {"rms_norm", function(t) return t:rms_norm({100}, wide) end, "rms_norm 1 4040",
   "backward 1 0, rms_norm backward 1 4000"},
  {"linear", function(t) return heed.linear(t, square) end, "linear 1 2000",
   "backward 1 0, linear backward 1 4000"},
  {"matmul", function(t) return t:matmul(square:t()) end, "matmul 1 2000, t 1 0",
   "backward 1 0, matmul backward 1 4000"},
  {"matmul with a vector", function(t) return t:matmul(wide) end, "matmul 1 40",
   "backward 1 0, matmul backward 1 4000"},
  {"matmul of batches", function(t) return t:view(1, 10, 100):matmul(x:view(1, 100, 10)) end,
   "matmul 1 400, view 2 0", "backward 1 0, matmul backward 1 4000, view backward 1 0"},
  {"dot", function(t) return t:select(1, 1):dot(wide) end, "dot 1 4, select 1 0",
   "backward 1 400, matmul backward 1 400, select backward 1 4000"},
  {"outer", function(t) return t:select(1, 1):outer(wide) end, "outer 1 40000, select 1 0",
   "backward 1 400, mul backward 1 40000, select backward 1 4000, unsqueeze backward 1 0"},
  {"einsum of one", function(t) return heed.einsum("ij->ji", t) end, "einsum 1 0",
   "backward 1 4000, permute backward 1 0"},
  {"einsum that sums", function(t) return heed.einsum("ij->i", t) end, "einsum 1 40",
   "backward 1 4000, sum backward 1 0"},
  {"einsum of two", function(t) return heed.einsum("ij,kj->ik", t, square) end, "einsum 1 2000",
   "backward 1 0, matmul backward 1 4000"},
  {"cat", function(t) return heed.cat({t, x}, 2) end, "cat 1 8000",
   "backward 1 4000, join backward 1 0"},
  {"stack", function(t) return heed.stack{t, x} end, "stack 1 8000",
   "backward 1 4000, join backward 1 0, unsqueeze backward 1 0"},
  {"constant_pad_nd", function(t) return t:constant_pad_nd({1, 1}) end, "constant_pad_nd 1 4088",
   "backward 1 0, constant_pad_nd backward 1 4008"},
  {"tile", function(t) return t:tile(2) end, "tile 1 8000",
   "backward 1 4000, clone backward 1 0, expand backward 1 0, view backward 2 0"},
  {"flip", function(t) return t:flip(1) end, "flip 1 4000", "backward 1 0, flip backward 1 4000"},
  {"roll", function(t) return t:roll(1, 1) end, "roll 1 4000",
   "backward 1 0, join backward 1 0, slice backward 2 8000"},
  {"select", function(t) return t:select(1, 2) end, "select 1 0",
   "backward 1 0, select backward 1 4000"},
  {"unfold", function(t) return t:unfold(2, 10, 10) end, "unfold 1 0",
   "backward 1 0, unfold backward 1 4000"},
  {"permute", function(t) return t:permute(2, 1) end, "permute 1 0",
   "backward 1 4000, permute backward 1 0"},
  {"reshape", function(t) return t:t():reshape(1000) end, "reshape 1 4000, t 1 0",
   "backward 1 4000, clone backward 1 0, transpose backward 1 0, view backward 1 0"},
  {"diagonal", function(t) return t:diagonal() end, "diagonal 1 0",
   "backward 1 0, diagonal backward 1 4000"},
  {"tril", function(t) return t:tril() end, "tril 1 13880", "backward 1 0, where backward 1 4000"},
  {"index_select", function(t) return t:index_select(1, ids) end, "index_select 1 1200",
   "backward 1 0, take backward 1 4000"},
  {"gather", function(t) return t:gather(2, column) end, "gather 1 40",
   "backward 1 0, gather backward 1 4000"},
  {"scatter", function(t) return t:scatter(2, column, 5) end, "scatter 1 4012",
   "backward 1 0, scatter backward 1 4012"},
  {"index_add", function(t) return t:index_add(1, ids, x:narrow(1, 1, 3)) end,
   "index_add 1 4000, narrow 1 0", "backward 1 4000, index_add backward 1 0"},
  {"where", function(t) return heed.where(seen, t, 0) end, "where 1 4000",
   "backward 1 0, where backward 1 4000"},
  {"masked_fill", function(t) return t:masked_fill(seen, 0) end, "masked_fill 1 4012",
   "backward 1 0, where backward 1 4000"},
  {"masked_select", function(t) return t:masked_select(seen) end, "masked_select 1 20008",
   "backward 1 0, expand backward 1 0, take backward 1 20008"},
  {"embedding", function(t) return heed.embedding(ids, t) end, "embedding 1 1200",
   "backward 1 0, embedding backward 1 4000"},
  {"sort", function(t) return (t:sort(2)) end, "sort 1 12000",
   "backward 1 0, sort backward 1 4000"},
  {"topk", function(t) return (t:topk(3)) end, "topk 1 360", "backward 1 0, topk backward 1 4000"},
  {"clamp", function(t) return t:clamp(0, 1) end, "clamp 1 4000",
   "backward 1 0, bound backward 1 4000"},
  {"lerp", function(t) return t:lerp(x, 0.5) end, "lerp 1 4000",
   "backward 1 0, lerp backward 1 4000"},
  {"dropout", function(t) return heed.dropout(t, 0.5) end, "dropout 1 8008",
   "backward 1 0, mul backward 1 4000"},
  {"cross_entropy", function(t) return heed.cross_entropy(t, labels) end, "cross_entropy 1 132",
   "backward 1 0, cross_entropy backward 1 4004"},
  {"mse_loss", function(t) return heed.mse_loss(t, x) end, "mse_loss 1 8004",
   "backward 1 0, mean backward 1 4, square backward 1 4000, sub backward 1 0"},
  {"rotate_pairs", function(t) return heed.rotate_pairs(t, half, half) end,
   "rotate_pairs 1 4000", "backward 1 0, rotate_pairs backward 1 6000"},
}


describe("an operation", function()
  for _, case in ipairs(OPERATIONS) do
    local name, f, forward, backward = table.unpack(case)
    it(name .. " makes no tensor beside those that it needs", function()
      if os.getenv "HEED_BUILD" == "basic" then return pending "it is composed" end
      assert.equal(forward, costs_of(function() f(x) end))
      local y = f(ones(10, 100):requires_grad_())
      local seed = heed.no_grad(heed.ones_like, y)
      assert.equal(backward, costs_of(function() y:backward(seed) end))
    end)
  end
end)
