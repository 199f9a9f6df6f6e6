-- Numbers at the edge of what is allowed, each with what it gives; those just beyond are in
-- spec/support/refusals_values.lua and spec/support/refusals_shapes.lua.

local heed = require "heed"
local message = require "spec.support.message"

local x = heed.arange(12, {dtype = "float32"}):reshape(3, 4)
local ids = heed.tensor{1, 2, 3}

local function ones(...) return heed.ones{...} end
local function near(t) return heed.tensor(t, {device = "cpu"}) end       -- values are checked there


describe("an option at its least or its greatest", function()
  it("pads by as many elements as there are, but for the edge of a mirror", function()
    local row = heed.tensor{1, 2, 3}
    assert.same({3, 2, 1, 2, 3, 2, 1}, row:pad({2, 2}, "reflect"):totable())
    assert.same({1, 2, 3, 1, 2, 3, 1, 2, 3}, row:pad({3, 3}, "circular"):totable())
    assert.same({1, 1, 1, 1, 1, 2, 3, 3}, row:pad({4, 1}, "replicate"):totable())
    assert.same({}, heed.zeros(0):pad({0, 0}, "replicate"):totable())
    assert.same({3}, row:pad{-2, 0}:totable())
    assert.same({}, row:pad{-3, 0}:totable())
  end)

  it("of attention", function()
    local q = heed.arange(8, {dtype = "float32"}):reshape(1, 1, 2, 4)
    local plain = heed.attention(q, q, q)
    assert.is_true(heed.attention(q, q, q, {softcap = 0}):equal(plain))
    assert.is_true(heed.attention(q, q, q, {dropout = 0}):equal(plain))
    assert.equal(0, heed.attention(q, q, q, {dropout = 1}):abs():sum():item())
    assert.equal(2, heed.attention(q, q, q, {offset = 1, causal = true}):size(3))
  end)

  it("of losses and norms", function()
    assert.equal(0, heed.smooth_l1_loss(x, x, {beta = 0}):item())
    assert.equal(1, heed.smooth_l1_loss(x, x + 1, {beta = 0}):item())
    assert.is_true(heed.huber_loss(x, x + 1, {delta = 1e-6}):item() > 0)
    assert.equal(4, heed.huber_loss(x, x + 3, {delta = 2}):item())
    assert.equal(1, heed.rms_norm(ones(1), {1}, {eps = 0}):item())
    assert.equal(1, heed.layer_norm(heed.tensor{-3.0, 3.0}, {2}, {eps = 0}):max():item())
    assert.is_true(heed.isclose(1.0, 1.0, {rtol = 0, atol = 0}):item())
    assert.equal(0, heed.norm(heed.zeros(0), 0):item())
    assert.equal(0, heed.norm(heed.zeros(0), 3):item())
  end)

  it("of draws", function()
    assert.equal(2, ones(1):normal_(2, 0):item())
    assert.equal(1, ones(1):uniform_(1, 1):item())
    local half = heed.ones({64}, {dtype = "float16"})
    for _, range in ipairs{{0, 65504}, {-65504, 0}, {-65504, -65504}, {65504, 65504}} do
      local y = half:uniform_(range[1], range[2])
      assert.is_true(y:min():item() >= range[1] and y:max():item() <= range[2])
    end
    assert.is_true(heed.ones({64}, {dtype = "float64"}):uniform_(0, 1e308):max():item() > 1e300)
    assert.is_true(heed.ones({64}, {dtype = "bfloat16"}):uniform_(0, 1e38):max():item() > 1e30)
    assert.same({0, 1}, heed.bernoulli(near{0.0, 1.0}):totable())
    assert.equal(12, heed.bernoulli(x, 1):sum():item())
    assert.equal(0, heed.bernoulli(x, 0):sum():item())
  end)

  it("of draws by weight", function()
    assert.same({1, 2, 3}, heed.multinomial(ones(3), 3):sort():totable())
    assert.equal("(4)", tostring(heed.multinomial(ones(3), 4, true).shape))
    assert.equal("(2, 0)", tostring(heed.multinomial(heed.zeros(2, 3), 0).shape))
    assert.equal("(0)", tostring(heed.multinomial(heed.zeros(3), 0, true).shape))
    assert.same({{2}, {1}}, heed.multinomial(heed.tensor{{0.0, 1.0}, {3.0, 0.0}}, 1):totable())
    assert.same({2, 2, 2}, heed.multinomial(heed.tensor{0.0, 1.0}, 3, true):totable())
  end)

  it("of classes", function()
    assert.same({{1}}, heed.one_hot(heed.tensor{1}, 1):totable())
    assert.same({{1}}, heed.one_hot(heed.tensor{1}):totable())
    assert.same({{1, 0}, {0, 1}}, heed.one_hot(heed.tensor{1, 2}, -1):totable())
    assert.matches("one_hot", message(heed.one_hot, near{2}, 1))
  end)

  it("of moments, powers and conditions", function()
    local t = heed.tensor{1.0, 2.0, 4.0}:requires_grad_()
    assert.is_true(t:var{correction = 0}:allclose(heed.tensor(14 / 9)))
    assert.is_true(t:std{correction = 2}:allclose(heed.tensor((14 / 3) ^ 0.5)))
    t:norm(0):backward()
    assert.same({0, 0, 0}, t.grad:totable())
    for _, correction in ipairs{2, 3} do                  -- the divisor is 0 at least
      local pair = heed.tensor{1.0, 3.0}:requires_grad_()
      local y = pair:var{correction = correction}
      y:backward()
      assert.same({math.huge, {-math.huge, math.huge}}, {y:item(), pair.grad:totable()})
    end
    assert.same({{2}}, heed.tensor{0.0, 2.0}:nonzero():totable())
    for type, some in pairs{float32 = 2.0 ^ -126, float64 = 2.0 ^ -1022, int64 = math.mininteger} do
      local signed = heed.tensor({0, some, type == "int64" and 0 or -0.0}, {dtype = type})
      assert.same({{2}}, signed:nonzero():totable())
    end
    assert.same({1, 0, 3}, heed.where(heed.tensor({1, 0, 2}, {dtype = "uint8"}), ids, 0):totable())
  end)

  it("of numbers beside whole tensors", function()
    assert.same({3, 6, 9}, heed.add(ids, ids, 2.0):totable())
    assert.same({1 + (1 << 61)}, heed.add(near{1}, near{1}, 2.0 ^ 61):totable())
    assert.same({1 - (1 << 61)}, heed.add(near{1}, near{1}, -2.0 ^ 61):totable())
    local one = heed.ones(1, 1, "int64")
    assert.equal(5, heed.addmm(one, one, one, {alpha = 2.0, beta = 3.0}):item())
    assert.equal(1 + (1 << 61), heed.addmm(one, one, one, {alpha = 2.0 ^ 61}):item())
  end)
end)


describe("eight dimensions", function()
  local ones5, ones8 = ones(1, 1, 1, 1, 1), ones(1, 1, 1, 1, 1, 1, 1, 1)

  it("are given by what gives the most", function()
    assert.equal(8, ones(1, 1, 1, 1, 1, 1, 1):unsqueeze(-1):dim())
    assert.equal(8, x:expand(1, 1, 1, 1, 1, 1, 3, 4):dim())
    assert.equal(8, ones(2):tile{1, 1, 1, 1, 1, 1, 1, 1}:dim())
    assert.equal(8, x:unflatten(1, {1, 1, 1, 1, 1, 1, 3}):dim())
    assert.equal(8, heed.stack({ones(1, 1, 1, 1, 1, 1, 1), ones(1, 1, 1, 1, 1, 1, 1)}):dim())
    assert.equal(8, heed.einsum("abcd,efgh->abcdefgh", ones(1, 1, 1, 1), ones(1, 1, 1, 1)):dim())
    assert.equal(1, heed.einsum("abcdefgh->", ones8):item())
    assert.equal(1, heed.einsum("abcde,fghia,bcdefghi->", ones5, ones5, ones8):item())
    assert.equal(1, heed.einsum("abcd,efgh,abcdefgh->", ones(1, 1, 1, 1), ones(1, 1, 1, 1),
                                ones8):item())
    assert.equal(8, heed.frombytes("", {1, 1, 1, 1, 1, 1, 1, 0}):dim())
  end)

  it("are the most of tables", function()
    local deep = 1
    for _ = 1, 8 do deep = {deep} end
    assert.equal(8, heed.tensor(deep):dim())
    assert.matches("tables nested more than 8 deep", message(heed.tensor, {deep}))
  end)
end)


describe("a reduction in a narrower type", function()
  local double = heed.full({3}, 2 ^ 24 + 1, {dtype = "float64"})

  it("rounds each element first", function()
    for name, wanted in pairs{sum = 3 * 2.0 ^ 24, mean = 2.0 ^ 24, prod = 2.0 ^ 72} do
      local y = heed[name](double, {dim = 1, dtype = "float32"})
      assert.equal("float32", y.dtype)
      assert.equal(wanted, y:item(), name)
      assert.is_true(heed[name](double, {dim = 1}):item() > wanted, name)
    end
    assert.same({2.0 ^ 24, 2.0 ^ 25, 3 * 2.0 ^ 24},
                double:cumsum(1, {dtype = "float32"}):totable())
    assert.same({2.0 ^ 24, 2.0 ^ 48, 2.0 ^ 72}, double:cumprod(1, {dtype = "float32"}):totable())
  end)

  it("cuts fractions off, and keeps what a byte holds", function()
    local y = heed.full({3}, 1.75)
    assert.equal(3, y:sum{dtype = "int64"}:item())
    assert.equal(1, y:prod{dtype = "int64"}:item())
    assert.equal(60000 % 256, heed.full({300}, 200, {dtype = "uint8"}):sum{dtype = "uint8"}:item())
    assert.equal(60000, heed.full({300}, 200, {dtype = "uint8"}):sum():item())
  end)
end)


describe("tables of a tensor's elements", function()
  it("hold 16777216 entries at most, those of no elements too", function()
    local none = heed.zeros(1, 0)
    assert.equal(1 << 12, #none:expand(1 << 12, 0):totable())
    assert.same({}, heed.zeros(0, 1 << 40):totable())
    for _, sizes in ipairs{{(1 << 24) + 1, 0}, {1 << 40, 0}, {1 << 12, 0, 1 << 12, 1}} do
      local t = heed.zeros(table.unpack(sizes))
      if #sizes == 2 then
        assert.matches("totable: at most 16777216 entries in all tables expected, got a tensor",
                       message(t.totable, t))
      else assert.same({}, t:totable()[1]) end
    end
    local square = heed.zeros(1, 1):expand(1 << 12, 1 << 12)
    assert.matches("totable: at most 16777216 entries", message(square.totable, square))
  end)
end)


describe("a call by names alone", function()
  it("names the first argument, too, and each of them once", function()
    assert.equal("(2, 3)", tostring(heed.zeros{size = {2, 3}}.shape))
    assert.equal(12, heed.ones{size = {3, 4}, dtype = "int64"}:sum{dim = {1, 2}}:item())
    assert.equal(78, heed.sum{input = x}:item())
    assert.same(x:sum(1):totable(), heed.sum{input = x, dim = 1}:totable())
    assert.same({2, 4, 6}, heed.add{input = ids, other = ids}:totable())
    assert.equal(6, heed.cat{tensors = {ids, ids}}:numel())
    assert.matches("sum: argument 'input' is given twice", message(x.sum, x, {input = x}))
    assert.matches("cat: argument 'tensors' is given twice",
                   message(heed.cat, {ids}, {tensors = {ids}}))
    assert.matches("zeros: argument 'size' is given twice", message(heed.zeros, 2, {size = {2}}))
  end)
end)


describe("a tensor without axes, or without elements", function()
  local function scalar() return heed.tensor(3.0):requires_grad_() end

  it("is rolled, repeated and turned as it is", function()
    assert.equal(3, scalar():roll(1, 1):item())
    assert.same({3, 3}, scalar():detach():repeat_interleave(2, 1):totable())
    assert.equal(3, scalar():movedim(1, 1):item())
    assert.same({}, heed.zeros(0):roll(1):totable())
    assert.equal("(0, 3)", tostring(heed.zeros(0, 3):roll(1, 1).shape))
    assert.equal("(1, 2, 1)", tostring(heed.zeros(1, 2, 1):squeeze{dim = {}}.shape))
    local t = scalar()
    t:transpose(1, 1):backward()
    assert.equal(1, t.grad:item())
  end)

  it("has a greatest element, with its gradient", function()
    for _, keepdim in ipairs{false, true} do
      local t = scalar()
      local y, at = t:max(1, keepdim)
      heed.backward(y * 2)
      assert.same({1, 2}, {at:item(), t.grad:item()})
    end
  end)

  it("is joined beside others, and gives its share of a batch", function()
    local none, some = heed.zeros(0):requires_grad_(), ones(2, 2):requires_grad_()
    heed.cat({none, some, none, some}, 1):sum():backward()
    assert.same({{2, 2}, {2, 2}}, some.grad:totable())
    assert.equal(2, heed.kl_div(heed.tensor(-2.0), heed.tensor(1.0), "batchmean"):item())
  end)

  it("attends to all alike, or to nothing before the first key", function()
    local mean = heed.attention(heed.zeros(2, 0), heed.zeros(3, 0), x)
    assert.is_true(mean:allclose(heed.tensor{5.0, 6.0, 7.0, 8.0}:expand(2, 4)))
    assert.equal(0, heed.attention(x, x, x, {causal = true, offset = -9}):abs():sum():item())
  end)
end)


describe("einsum", function()
  it("takes 64 operands, bools, and eight axes at once", function()
    local list, m = {}, heed.tensor{{true, false}, {true, true}}
    for i = 1, 64 do list[i] = ones(1) end
    assert.equal(1, heed.einsum(("a,"):rep(63) .. "a->", list):item())
    assert.same({{true, false}, {true, true}}, heed.einsum("ij,jk->ik", m, m):totable())
    local wide = heed.full({1, 1, 1, 1, 1, 1, 1, 3}, 2.0)
    assert.equal(12, heed.einsum("abcdefgi,abcdefgi->abcdefg", wide, wide):item())
  end)
end)


describe("a list of thousands of tensors", function()
  local MANY <const> = 4097            -- more than two levels of nodes hold, of 64 tensors each

  it("is read whole, by calls, passes and steps", function()
    local list, rows = {}, {}
    for i = 1, MANY do
      list[i] = heed.tensor({1.0}, {requires_grad = true})
      rows[i] = {heed.tensor(i)}
    end
    for _, n in ipairs{MANY, MANY - 1} do
      assert.equal(n, heed.cat({table.unpack(list, 1, n)}):numel())
    end
    assert.equal(MANY * (MANY + 1) // 2, heed.tensor(rows):sum():item())
    local gradients = heed.grad((heed.cat(list) * 2):sum(), list)
    assert.same({MANY, 2}, {#gradients, gradients[MANY]:item()})
    heed.cat(list):sum():backward()
    local opt = heed.optim.SGD(list, {lr = 0.5})
    assert.is_true(heed.optim.clip_grad_norm(list, 1e9):item() > 54)
    opt:step()
    assert.equal(MANY / 2, heed.no_grad(heed.cat, list):sum():item())
    opt:zero_grad()
    opt:step()
    assert.is_nil(list[MANY].grad)
  end)
end)


describe("a tensor", function()
  it("says of itself whether it lies dense", function()
    local rows = x:narrow(1, 2, 2)
    for _, dense in ipairs{x, rows, x[1], x:t():contiguous(), heed.zeros(0, 3)} do
      assert.is_true(dense:is_contiguous())
      assert.is_true((heed.is_contiguous(dense)))
    end
    for _, other in ipairs{x:t(), x:narrow(2, 1, 2), x[{{3, 1, -1}}], heed.ones(1):expand(3)} do
      assert.is_false(other:is_contiguous())
      assert.is_false((heed.is_contiguous(other)))
    end
  end)
end)


describe("x:to", function()
  it("gives x itself where nothing is to be done, and no copy is asked for", function()
    for _, like in ipairs{x, "float32", x.device, {}, {copy = false, non_blocking = true}} do
      assert.is_true(rawequal(x, x:to(like)))
    end
    for _, other in ipairs{{copy = true}, {dtype = "float32", copy = true}} do
      local y = x:to(other)
      assert.is_false(rawequal(x, y))
      assert.is_true(y:equal(x))
      y:zero_()
      assert.equal(78, x:sum():item())
    end
    assert.equal("int64", x:to(ids).dtype)
    assert.equal("float64", x:to{dtype = "float64", device = x.device}.dtype)
  end)
end)


describe("tables within each other", function()
  it("that stand for more elements than memory has are refused at the first of these", function()
    local row = {}
    for i = 1, 1000 do row[i] = 0 end
    for _ = 1, 7 do
      local rows = {}
      for i = 1, 1000 do rows[i] = row end
      row = rows
    end
    assert.matches("tensor: not enough memory: the tables hold more than %d+ elements",
                   message(heed.tensor, row))
  end)

  it("are told where they differ", function()
    for text, bad in pairs{
      ["a table expected at [2], got 1"] = {{1}, 1},
      ["a number expected at [2][1], got a table"] = {{1}, {{1}}},
      ["1 values expected at [2], got 2"] = {{1}, {1, 2}},
      ["a number, a boolean or a table expected at [1][2], got the string 'a'"] = {{1, "a"}},
      ["numbers or tensors of rank 0 expected, got one with dimensions at [2]"] = {1, x},
      ["a list expected, got one with the key 'a'"] = {a = 1, 2},
      ["a list without holes expected, got an entry at [4] and none at [2]"] = {1, [4] = 4},
    } do
      assert.is_truthy(message(heed.tensor, bad):find(text, 1, true),
                       text .. ": " .. message(heed.tensor, bad))
    end
  end)
end)
