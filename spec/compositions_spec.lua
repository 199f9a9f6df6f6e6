-- Operations composed of others, in Lua (lua/heed/internal/compositions.lua) and in C: values,
-- ties, NaN and empty inputs are PyTorch's, beyond the cases of the table.

local heed = require "heed"
local message_of = require "spec.support.message"

local huge, nan = math.huge, 0 / 0

local function int(list) return heed.tensor(list, {dtype = "int64"}) end


describe("what is like another tensor", function()
  local x = heed.zeros(2, {dtype = "float64"})

  it("has its type, unless the options say otherwise", function()
    assert.equal("float64", x:new_zeros(3).dtype)
    assert.same({1, 1}, x:new_ones{2}:totable())
    assert.same({2, 3}, {x:new_empty(2, 3, {dtype = "bool"}):size()})
    assert.equal("bool", x:new_empty(2, 3, {dtype = "bool"}).dtype)
    assert.equal("float64", x:new_zeros({}, {requires_grad = true}).dtype)
    assert.is_true(x:new_zeros({}, {requires_grad = true}).requires_grad)
    assert.same({7, 7}, x:new_full({2}, 7):totable())
    assert.same({7}, x:new_full{size = {1}, fill_value = 7}:totable())
    assert.equal("float64", x:new_tensor{1, 2}.dtype)
    assert.equal("int64", x:new_tensor({1, 2}, {dtype = "int64"}).dtype)
    assert.equal(x.device, x:new_ones(1).device)
    assert.equal("float64", int{1}:type_as(x).dtype)
    assert.equal("int64", heed.type_as(x, int{1}).dtype)
  end)

  it("refuses what it does not take", function()
    assert.matches(": new_zeros: .*'dtyp'.*dtype", message_of(x.new_zeros, x, 2, {dtyp = "bool"}))
    assert.matches(": new_zeros: ", message_of(x.new_zeros, x, -1))
    assert.matches(": new_full: .*'fill_value'", message_of(x.new_full, x, {2}))
    assert.matches(": new_tensor: at most 2", message_of(x.new_tensor, x, {2}, {}, 3))
    assert.matches(": type_as: argument 'other': a tensor expected, got 3",
                   message_of(x.type_as, x, 3))
  end)
end)


describe("meshgrid", function()
  local a, b = heed.tensor{1.0, 2.0}, heed.tensor{3.0, 4.0, 5.0}

  it("has PyTorch's two orders", function()
    local grids = heed.meshgrid(a, b)
    assert.same({{1, 1, 1}, {2, 2, 2}}, grids[1]:totable())
    assert.same({{3, 4, 5}, {3, 4, 5}}, grids[2]:totable())
    grids = heed.meshgrid({a, b, heed.tensor(9.0)}, {indexing = "xy"})
    assert.same({3, 2, 1}, {grids[3]:size()})
    assert.same({{{1}, {2}}, {{1}, {2}}, {{1}, {2}}}, grids[1]:totable())
    assert.same({2, 0}, {heed.meshgrid{a, heed.zeros(0)}[1]:size()})
  end)

  it("has gradients", function()
    assert.is_true(heed.gradcheck(function(p, q)
      local grids = heed.meshgrid(p, q)
      return grids[1] * grids[2]
    end, {a, b}))
  end)

  it("refuses other things", function()
    assert.matches("at least one tensor", message_of(heed.meshgrid, {}))
    assert.matches("one of ij, xy expected", message_of(heed.meshgrid, {a}, {indexing = "ab"}))
    assert.matches("a list of tensors expected, got 3", message_of(heed.meshgrid, 3))
    assert.matches(": meshgrid: .*a tensor expected, got 3", message_of(heed.meshgrid, {a, 3}))
    assert.matches(": meshgrid: .*a tensor expected, got 3", message_of(heed.meshgrid, a, 3, {}))
    assert.matches("float32, and int64 as entry 2", message_of(heed.meshgrid, a, int{1}))
    assert.matches("at most 2 arguments expected, got 5 as argument 3",
                   message_of(heed.meshgrid, {a}, {}, 5))
    assert.matches("'index'", message_of(heed.meshgrid, a, {index = "ij"}))
  end)
end)


describe("positions of triangles", function()
  it("are those that triu and tril keep", function()
    for rows = 0, 4 do
      for columns = 0, 3 do
        for offset = -3, 3 do
          for _, name in ipairs {"triu", "tril"} do
            local at = heed[name .. "_indices"](rows, columns, offset)
            local mask = heed.zeros(rows, columns, {dtype = "bool"})
            mask[{at[1], at[2]}] = true
            local ones = heed.ones(rows, columns, {dtype = "bool"})
            assert.is_true(mask:equal(ones[name](ones, offset)))
            assert.equal(mask:sum():item(), at:size(2))
          end
        end
      end
    end
    assert.equal("float32", heed.triu_indices(2, 2, {dtype = "float32"}).dtype)
    assert.matches(": tril_indices: argument 'row': .*got 1.5",
                   message_of(heed.tril_indices, 1.5, 2))
  end)
end)


describe("unique", function()
  it("gives what was asked for, in this order", function()
    local x = int{{5, 2, 5}, {2, 2, 9}}
    local values, inverse, counts = x:unique{return_inverse = true, return_counts = true}
    assert.same({2, 5, 9}, values:totable())
    assert.same({{2, 1, 2}, {1, 1, 3}}, inverse:totable())
    assert.same({3, 2, 1}, counts:totable())
    assert.is_true(values[inverse:reshape(-1)]:reshape(2, 3):equal(x))
    assert.same({3, 2, 1}, select(2, x:unique(true, false, true)):totable())
    assert.equal(1, select("#", x:unique()))
  end)

  it("works on every type, with NaN equal to nothing, and on nothing", function()
    assert.same({false, true}, heed.tensor{true, false, true}:unique():totable())
    assert.same({0, 3}, heed.tensor({3, 0, 3}, {dtype = "uint8"}):unique():totable())
    assert.same({-1, 0, huge}, heed.tensor{huge, -0.0, -1, 0.0, huge}:unique():totable())
    assert.equal(3, #heed.tensor{nan, 1, nan}:unique())
    assert.same({4}, heed.tensor(4):unique():totable())
    assert.same({0, 0, 0}, {#heed.zeros(0, 3):unique(),
                            #select(2, heed.zeros(0):unique{return_inverse = true}),
                            #select(2, heed.zeros(0):unique{return_counts = true})})
  end)

  it("compares slices along a dimension", function()
    local x = int{{1, 0, 1}, {2, 3, 2}}
    local values, inverse, counts = x:unique{dim = -1, return_inverse = true, return_counts = true}
    assert.same({{0, 1}, {3, 2}}, values:totable())
    assert.same({2, 1, 2}, inverse:totable())
    assert.same({1, 2}, counts:totable())
    assert.same({{0, 5}, {0, 7}, {1, 0}}, int{{1, 0}, {0, 7}, {1, 0}, {0, 5}}:unique{dim = 1}
                :totable())
    assert.same({1, 3}, {heed.ones(4, 3):unique{dim = 1}:size()})
    assert.same({0, 3}, {heed.ones(0, 3):unique{dim = 1}:size()})
    assert.same({1, 0}, {heed.ones(3, 0):unique{dim = 1}:size()})
  end)

  it("agrees with a table of what there is", function()
    heed.manual_seed(3)
    local x = heed.randint(1, 20, {60})
    local seen, wanted = {}, {}
    for _, v in ipairs(x:totable()) do seen[v] = (seen[v] or 0) + 1 end
    for v = 1, 20 do
      if seen[v] then wanted[#wanted + 1] = v end
    end
    local values, counts = x:unique{return_counts = true}
    assert.same(wanted, values:totable())
    for i, v in ipairs(wanted) do assert.equal(seen[v], counts[i]) end
  end)

  it("passes the gradient to the first of equal elements", function()
    local x = heed.tensor({3.0, 1.0, 3.0}, {requires_grad = true});
    (x:unique() * heed.tensor{1.0, 2.0}):sum():backward()
    assert.same({2, 1, 0}, x.grad:totable())
  end)

  it("refuses what it does not take", function()
    assert.matches(": unique: argument 'dim': dimension 3",
                   message_of(heed.unique, heed.zeros(2, 2), {dim = 3}))
    assert.matches(": unique: .*'return_inverse'.*boolean",
                   message_of(heed.unique, heed.zeros(2), {return_inverse = 1}))
    assert.matches(": unique: .*'inverse'",
                   message_of(heed.unique, heed.zeros(2), {inverse = true}))
  end)
end)


describe("bincount", function()
  it("counts, or adds weights", function()
    assert.same({2, 0, 1}, int{1, 3, 1}:bincount():totable())
    assert.same({0, 1, 0, 0}, int{2}:bincount(nil, 4):totable())
    assert.same({0, 0}, int{}:bincount{minlength = 2}:totable())
    assert.same({}, int{}:bincount():totable())
    assert.same({5, 2}, int{1, 2, 1}:bincount(heed.tensor{1.0, 2.0, 4.0}):totable())
    assert.equal("float64", int{1}:bincount(int{3}).dtype)
    assert.equal("float32", int{1}:bincount(heed.ones(1)).dtype)
    assert.same({0, 1}, heed.tensor({2}, {dtype = "uint8"}):bincount():totable())
    assert.is_true(heed.gradcheck(function(w) return int{1, 3, 1}:bincount(w) end,
                                  heed.tensor{1.0, 2.0, 3.0}))
  end)

  it("refuses other things", function()
    local x = int{1, 2}
    assert.matches("count from 1, got 0; %+ 1", message_of(heed.bincount, int{1, 0}))
    assert.matches("count from 1, got %-2$", message_of(heed.bincount, int{1, -2}))
    assert.matches("vector of type int64.*float32", message_of(heed.bincount, heed.ones(2)))
    assert.matches("vector of type int64.*%(1, 2%)", message_of(heed.bincount, int{{1, 2}}))
    assert.matches("shape %(2%) of argument 'input'.*%(3%)",
                   message_of(heed.bincount, x, heed.ones(3)))
    assert.matches("'minlength': a whole number", message_of(heed.bincount, x, {minlength = -1}))
  end)
end)


describe("amax and amin", function()
  it("share the gradient among what is equal, where max gives it to the first", function()
    local x = heed.tensor({{3.0, 1.0, 3.0}, {2.0, 2.0, 2.0}}, {requires_grad = true})
    x:amax(2):backward(heed.tensor{1.0, 6.0})
    assert.same({{0.5, 0, 0.5}, {2, 2, 2}}, x.grad:totable())
    x.grad = nil
    x:amin{1, 2}:backward()
    assert.same({{0, 1, 0}, {0, 0, 0}}, x.grad:totable())
    x.grad = nil;
    (x:max(2)):sum():backward()
    assert.same({{1, 0, 0}, {1, 0, 0}}, x.grad:totable())
  end)

  it("are NaN where one element is", function()
    local x = heed.tensor{{1.0, nan}, {2.0, 3.0}}
    assert.same({true, false}, x:amax(2):isnan():totable())
    assert.same({false, true}, x:amin(1):isnan():totable())
  end)
end)


describe("isclose and allclose", function()
  it("keep infinities apart", function()
    local x = heed.tensor{huge, huge, -huge, 1, nan}
    local y = heed.tensor{huge, 1, huge, huge, nan}
    assert.same({true, false, false, false, false}, x:isclose(y):totable())
    assert.same({true, false, false, false, true}, x:isclose(y, {equal_nan = true}):totable())
    assert.is_false(heed.allclose(heed.tensor{1.0}, heed.tensor{huge}))
    assert.is_true(heed.allclose(heed.tensor{huge}, heed.tensor{huge}))
  end)

  it("measure by the second, and compare large whole numbers exactly", function()
    assert.same({true}, heed.tensor{10.0}:isclose(heed.tensor{11.0}, {rtol = 0.095}):totable())
    assert.same({false}, heed.tensor{11.0}:isclose(heed.tensor{10.0}, {rtol = 0.095}):totable())
    assert.same({false}, int{1 << 40}:isclose(int{(1 << 40) + 1}, 0, 0):totable())
    assert.same({true}, int{1 << 40}:isclose(int{(1 << 40) + 1}, 0, 1):totable())
  end)
end)


describe("the rest", function()
  it("replaces NaN and infinities by the type's largest numbers", function()
    local most = {float16 = 65504, bfloat16 = 2 ^ 127 * (2 - 2 ^ -7),
                  float32 = 2 ^ 127 * (2 - 2 ^ -23)}
    for dtype, limit in pairs(most) do
      local x = heed.tensor({nan, huge, -huge, 1}, {dtype = dtype})
      assert.same({0, limit, -limit, 1}, x:nan_to_num():totable())
      assert.equal(x, x:nan_to_num_(5))
      assert.same({5, limit, -limit, 1}, x:totable())
    end
    local x = heed.tensor({nan, 2, huge}, {requires_grad = true})
    x:nan_to_num():sum():backward()
    assert.same({0, 1, 0}, x.grad:totable())
  end)

  it("adds in place at positions, also in a part of a tensor", function()
    local x = heed.zeros(4, 2)
    local part = x[{{2, 4}}]
    assert.equal(part, part:index_add_(1, int{3, 1, 3}, heed.ones(3, 2), {alpha = 0.5}))
    assert.same({{0, 0}, {0.5, 0.5}, {0, 0}, {1, 1}}, x:totable())
    x:index_add_(1, int{1, 2, 3, 4}, x)
    assert.same({{0, 0}, {1, 1}, {0, 0}, {2, 2}}, x:totable())
    assert.matches(": index_add_: argument 'index': .*float32",
                   message_of(x.index_add_, x, 1, heed.ones(4), x))
    assert.matches(": index_add: .*int64", message_of(heed.index_add, int{1, 2}, 1, int{1},
                                                     heed.ones(1)))
  end)

  it("follows the gradient of what is added at positions", function()
    assert.is_true(heed.gradcheck(function(x, s)
      return x:index_add(-1, int{2, 2, -1}, s, {alpha = 2.5})
    end, {heed.randn(2, 3), heed.randn(2, 3)}))
    local s = heed.tensor({1.0, 2.0}, {requires_grad = true})
    local x = heed.zeros(3)
    x:index_add_(1, int{3, 3}, s)
    x:sum():backward()
    assert.same({1, 1}, s.grad:totable())
  end)

  it("leaves the first of addmm alone where beta is 0, and wants whole numbers of whole ones",
     function()
    local a, b = heed.ones(2, 3), heed.ones(3, 2)
    assert.same({{3, 3}, {3, 3}}, heed.full({2, 2}, nan):addmm(a, b, {beta = 0}):totable())
    local y = heed.ones(2, 2)
    assert.equal(y, y:addmm_(a, b, {alpha = 2}))
    assert.same({{7, 7}, {7, 7}}, y:totable())
    assert.same({{7, 7}, {7, 7}}, y:addmm(a, b, {alpha = 0}):totable())
    assert.matches(": addmm: argument 'beta': a whole number.*0.5", message_of(
      heed.addmm, int{1}, int{{1}}, int{{1}}, {beta = 0.5}))
    assert.matches(": addmm_: ", message_of(y.addmm_, heed.ones(2), a, b))
    assert.matches(": baddbmm: ", message_of(heed.baddbmm, y, a, b))
  end)

  it("pads other than by zeros in PyTorch's ways alone", function()
    local x = heed.arange(4.0)
    assert.same({2, 1, 2, 3}, x:pad({1, -1}, "reflect"):totable())
    assert.same({4, 2, 3, 4, 2}, x:pad({-1, 0}, "circular"):pad({1, 1}, "circular"):totable())
    assert.matches("at most 3 elements", message_of(x.pad, x, {4, 0}, "reflect"))
    assert.matches("at most 4 elements", message_of(x.pad, x, {0, 5}, "circular"))
    assert.matches("only mode \"constant\" pads", message_of(x.pad, x, {1, 1}, "reflect", 2))
    assert.matches("constant|reflect|replicate|circular", message_of(x.pad, x, {1, 1}, "wrap"))
    local y = x:pad({0, 0}, "reflect")
    y:zero_()
    assert.equal(1, x[1])                          -- a copy, as all padding
  end)

  it("keeps the length of tiny and huge vectors", function()
    assert.same({0, 0}, heed.normalize(heed.zeros(1, 2))[1]:totable())
    local x = heed.tensor{{1e30, 1e30}}
    assert.is_true(x:cosine_similarity(x):isclose(1)[1])
    local one, two = heed.tensor{2.0}, heed.tensor{{3.0, 4.0}}      -- one is (2, 2) beside two
    for _, y in ipairs{one:cosine_similarity(two, 2), two:cosine_similarity(one, 2)} do
      assert.is_true(y:isclose(14 / (math.sqrt(8) * 5)):all())
    end
    local zero = heed.zeros(1, 2, {requires_grad = true})
    zero:cosine_similarity(heed.ones(1, 2)):sum():backward()
    assert.is_true(zero.grad:isfinite():all())
    assert.is_true(heed.gradcheck(function(a, b) return a:cosine_similarity(b, 1) end,
                                  {heed.randn(3, 2), heed.randn(3, 1)}))
  end)

  it("has no divergence where a target is 0", function()
    local input = heed.tensor{-1.0, -2.0}
    local target = heed.tensor({0.0, 1.0}, {requires_grad = true})
    local y = heed.kl_div(input, target, "none")
    assert.same({0, 2}, y:totable())
    y:sum():backward()
    assert.same({1, 3}, target.grad:totable())        -- log 1 - input, and log 1 + 1 - input
  end)

  it("takes class axes anywhere", function()
    heed.manual_seed(0)
    local logits, ids = heed.randn(2, 5, 3, 4), heed.randint(1, 5, {2, 3, 4})
    ids[{1, 2, 3}] = -100
    local w = heed.rand(5)
    for _, o in ipairs {{}, {reduction = "none"}, {weight = w, label_smoothing = 0.2}} do
      local wanted = heed.cross_entropy(logits, ids, o)
      for dim = 1, 4 do
        for _, given in ipairs {dim, dim - 5} do
          o.dim = given
          local moved = logits:movedim(2, dim)
          assert.is_true(heed.allclose(heed.cross_entropy(moved, ids, o), wanted))
        end
      end
      o.dim = nil
    end
    assert.is_true(heed.gradcheck(function(x)
      return heed.cross_entropy(x, ids[1][1], {dim = 1})
    end, heed.randn(5, 4)))
    assert.matches(": cross_entropy: argument 'dim': dimension 5", message_of(
      heed.cross_entropy, logits, ids, {dim = 5}))
    assert.matches("labels of shape %(2, 5, 3%).*%(2, 3, 4%)", message_of(
      heed.cross_entropy, logits, ids, {dim = -1}))
  end)
end)
