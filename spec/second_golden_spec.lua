-- Second derivatives beside PyTorch's (bench/second.py, which says what the numbers are).

local golden = require "spec.golden"
local heed = require "heed"

local CREATE <const> = {create_graph = true}
local CLASSES <const> = {2, 1, -100, 4}

-- y's gradient by x, with a graph.
local function slope(y, x) return heed.grad(y:sum(), x, CREATE) end

local function labels() return heed.tensor(CLASSES, {dtype = "int64"}) end

-- The functions, by name.
local f = {
  softmax = function(x) return x:softmax(-1) end,
  ["softmax of the first axis"] = function(x) return x:softmax(1) end,
  log_softmax = function(x) return x:log_softmax(-1) end,
  logsumexp = function(x) return x:logsumexp(-1) end,
  layer_norm = function(x, w, b) return x:layer_norm({4}, w, b, 1e-5) end,
  rms_norm = function(x, w) return x:rms_norm({4}, w, 1e-5) end,
  matmul = heed.matmul,
  einsum = function(a, b) return heed.einsum("bij,bjk->bik", a, b) end,
  cross_entropy = function(x) return x:cross_entropy(labels()) end,
  ["smoothed cross_entropy"] = function(x)
    return x:cross_entropy(labels(), {label_smoothing = 0.2, reduction = "none"})
  end,
  gelu = heed.gelu,
  ["gelu by tanh"] = function(x) return x:gelu "tanh" end,
  silu = heed.silu,
  ["a chain of tanh"] = function(x) return ((x * x:tanh()):tanh() * 2):tanh() end,
  cumsum = function(x) return x:cumsum(-1):sin() end,
  prod = function(x) return x:prod(-1) end,
  cumprod = function(x) return x:cumprod(-1) end,
  var = function(x) return x:var(-1) end,
  norm = function(x) return x:norm(2, -1) end,
  ["indexed and joined"] = function(x, y)
    return heed.cat({x[{{}, {2, 4}}] * y, x:narrow(2, 1, 2):exp()}, 2).mT
  end,
  ["a perceptron"] = function(x, w1, b1, w2, b2)
    return (x:matmul(w1) + b1):gelu():matmul(w2) + b2
  end,
  ["attention of products"] = function(q, k, v)
    return (q:matmul(k.mT) / q:size(-1) ^ 0.5):softmax(-1):matmul(v)
  end,
  ["a penalty on gradients"] = function(x, w1, w2)
    return (slope(x:matmul(w1):tanh():matmul(w2), x):norm(2, 2) - 1):square():mean()
  end,
  ["a third derivative"] = function(x) return slope(x ^ 3 * x:sin(), x) end,
}


local function tensors(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = golden.tensor(row) end
  return list
end


local function assert_near(name, got, rows)
  assert.equal(#rows, #got)
  for i, row in ipairs(rows) do
    local why = golden.difference(got[i], row, 1e-9, 1e-11)
    assert.is_nil(why, ("%s %d: %s"):format(name, i, why))
  end
end


describe("second derivatives beside PyTorch", function()
  local left = {}
  for name in pairs(f) do left[name] = true end
  for _, case in ipairs(golden.read "second") do
    left[case.name] = nil
    it("agree for " .. case.name, function()
      local xs, along = tensors(case.xs), 0
      for _, x in ipairs(xs) do x:requires_grad_() end
      local first = heed.grad(f[case.name](table.unpack(xs)):square():sum(), xs, CREATE)
      assert_near("gradient", first, case.first)
      for i, v in ipairs(tensors(case.directions)) do along = along + (first[i] * v):sum() end
      assert_near("second", heed.grad(along, xs), case.second)
    end)
  end

  it("were made for each function here", function() assert.same({}, left) end)
  it("are all used", golden.assert_all_used)
end)
