-- The ranks that operations take, up to the most that a tensor has, and no other; the axes of dots.

local heed = require "heed"

local MOST <const> = 8

local one, two = heed.ones(1), heed.ones(1, 1)

-- An operation of t, whose sizes are 1; the least and the greatest rank.
local OPERATIONS <const> = {
  {"tril", function(t) return t:tril() end, 2, 8},
  {"triu", function(t) return t:triu() end, 2, 8},
  {"cross_entropy", function(t) return heed.cross_entropy(t, heed.ones_like(t)) end, 1, 8},
  {"one_hot", function(t) return heed.one_hot(t:to("int64"), 2) end, 0, 7},
  {"matmul", function(t) return t:matmul(one) end, 1, 8},
  {"matmul, the other", function(t) return one:matmul(t) end, 1, 8},
  {"linear", function(t) return heed.linear(t, two) end, 1, 8},
  {"linear, weight", function(t) return heed.linear(two, t) end, 2, 2},
  {"bmm", function(t) return t:bmm(t) end, 3, 3},
  {"dot", function(t) return t:dot(t) end, 1, 1},
  {"outer", function(t) return t:outer(t) end, 1, 1},
  {"trace", function(t) return t:trace() end, 2, 2},
  {"addmm", function(t) return heed.addmm(two, t, t) end, 2, 2},
  {"baddbmm", function(t) return heed.baddbmm(heed.ones(1, 1, 1), t, t) end, 3, 3},
  {"multinomial", function(t) return t:multinomial(1) end, 1, 2},
  {"index_select", function(t) return t:index_select(1, one:to("int64")) end, 1, 8},
  {"index_select, index", function(t) return one:index_select(1, t:to("int64")) end, 0, 1},
  {"embedding, weight", function(t) return heed.embedding(one:to("int64"), t) end, 2, 2},
  {"masked_fill, value", function(t) return one:masked_fill(one:gt(0), t) end, 0, 0},
  {"fill_, value", function(t) return one:clone():fill_(t) end, 0, 0},
  {"unflatten", function(t) return t:unflatten(1, {1}) end, 1, 8},
  {"unflatten to two", function(t) return t:unflatten(1, {1, 1}) end, 1, 7},
  {"unsqueeze", function(t) return t:unsqueeze(1) end, 0, 7},
  {"t", function(t) return t:t() end, 0, 2},
  {"unfold", function(t) return t:unfold(1, 1, 1) end, 1, 7},
  {"select", function(t) return t:select(1, 1) end, 1, 8},
  {"slice", function(t) return t:slice(1, 1, 1) end, 1, 8},
  {"narrow", function(t) return t:narrow(1, 1, 1) end, 1, 8},
  {"diagonal", function(t) return t:diagonal() end, 2, 8},
  {"diag_embed", function(t) return t:diag_embed() end, 1, 7},
  {"diag", function(t) return t:diag() end, 1, 2},
  {"stack", function(t) return heed.stack{t, t} end, 0, 7},
  {"cat", function(t) return heed.cat{t, t} end, 1, 8},
  {"attention", function(t) return heed.attention(t, t, t) end, 2, 4},
  {"softmax", function(t) return t:softmax(-1) end, 0, 8},
  {"sort", function(t) return (t:sort()) end, 0, 8},
  {"topk", function(t) return (t:topk(1)) end, 0, 8},
  {"flip", function(t) return t:flip(-1) end, 0, 8},
  {"gather", function(t) return t:gather(1, t:to("int64")) end, 0, 8},
  {"sum", function(t) return t:sum(-1) end, 0, 8},
  {"cumsum", function(t) return t:cumsum(-1) end, 0, 8},
  {"layer_norm", function(t) return t:layer_norm({1}) end, 1, 8},
  {"rotate_pairs", function(t)
    local x = heed.cat({t, t}, -1)
    return heed.rotate_pairs(x, t, t)
  end, 1, 8},
  {"tile", function(t) return t:tile(1, 1) end, 0, 8},
  {"tile of eight", function(t) return t:tile(1, 1, 1, 1, 1, 1, 1, 1) end, 0, 8},
  {"expand", function(t) return t:expand(2, 1, 1, 1, 1, 1, 1, 1) end, 0, 8},
}

-- Ends of the messages that refuse others.
local REASONS <const> = {
  "a tensor of rank [%l%d ]+ expected, got one of shape %([1, ]*%)$",
  "tensor 1 has rank 0; use stack", "tensors of rank 8 cannot be stacked$",
  "a result of rank 9; there are at most 8 dimensions$",
  "what the shape %(%) of argument 'input' ends with$",
}


-- A tensor of a rank, of one element.
local function of_rank(rank)
  local sizes = {}
  for i = 1, rank do sizes[i] = 1 end
  return rank == 0 and heed.tensor(1.0):clone() or heed.ones(sizes)
end


describe("an operation", function()
  for _, case in ipairs(OPERATIONS) do
    local name, f, least, most = table.unpack(case)
    it(name .. " takes tensors of some ranks, and no others", function()
      for rank = 0, MOST do
        local good, why = pcall(f, of_rank(rank))
        assert.equal(rank >= least and rank <= most, good, ("rank %d: %s"):format(rank, why))
        local said = good
        for _, text in ipairs(REASONS) do said = said or why:find(text) ~= nil end
        assert.is_true(said, why)
      end
    end)
  end
end)


describe("einsum", function()
  it("keeps the axes of dots where no result is said, be they of one operand or of both", function()
    local a, b = heed.ones(2, 3, 4), heed.ones(4)
    assert.equal("(2, 3)", tostring(heed.einsum("...i,i", a, b).shape))
    assert.equal("(2, 3)", tostring(heed.einsum("i,...i", b, a).shape))
    assert.equal("(2, 3)", tostring(heed.einsum("...i,...i", a, a).shape))
    assert.equal("(2, 3, 4)", tostring(heed.einsum("...i", a).shape))
    assert.equal("(2, 4, 3)", tostring(heed.einsum("...ji", a).shape))
    assert.equal("(4)", tostring(heed.einsum("i...", b).shape))
  end)
end)


describe("movedim", function()
  it("refuses dimensions that there are not, or twice, in either list", function()
    local x = heed.ones(2, 3, 4)
    for _, lists in ipairs{{{4}, {1}}, {{1}, {4}}, {{1, 1}, {1, 2}}, {{1, 2}, {3, 3}}} do
      assert.error_matches(function() return x:movedim(table.unpack(lists)) end, "^.*movedim: ")
    end
    assert.equal("(3, 4, 2)", tostring(x:movedim(1, 3).shape))
  end)
end)
