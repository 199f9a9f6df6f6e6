-- Changes that must not change a bit of a result on the CPU: the batch that a row stands in, how
-- its memory lies, the number of threads, the tokens that come later, being computed again. And the
-- levels, within ulps.

local asserted = require "spec.support.asserted"
local heed = require "heed"
local cases = require "spec.support.cases"
local checks = require "spec.support.checks"
local device = require "spec.support.device"
local elementwise = require "spec.support.elementwise"
local layouts = require "spec.support.layouts"
local near = require "spec.support.near"
local reference = require "spec.support.reference"
local rows = require "spec.support.rows"

-- Attention that is composed takes small products, whose order depends on their size.
local fused = os.getenv "HEED_BUILD" == "basic" and pending or it

local ULPS = 64                            -- between two levels, of the largest element

local on_each_level = layouts.on_each_level

local function numbers(shape, seed, low, high)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return heed.tensor(layouts.numbers(n, low or -2, high or 2, seed)):reshape(shape)
end

-- The same bits, but for a NaN, which may have any; unless `signed`, zeros may have either sign.
local function same(name, wanted, got, signed)
  asserted.note()
  local equal = wanted.dtype == got.dtype and wanted.shape == got.shape
  if equal and wanted:numel() > 0 then
    local nan = wanted:isnan() & got:isnan()
    equal = (wanted:eq(got) | nan):all()
    if equal and signed ~= false and checks.is_float[wanted.dtype] then
      equal = ((1 / wanted):eq(1 / got) | nan):all()                 -- signs of zeros
    end
  end
  if not equal then error(name .. ": not the same bits", 0) end
end

-- A gradient that passes a view is added to zeros, which take the sign of theirs away.
local function all_same(name, wanted, got)
  for k, y in ipairs(wanted) do
    same(("%s, result %d"):format(name, k), y, got[k], k <= wanted.results)
  end
end

-- Results of f, and the gradients of what it was given, for weights that depend on the position.
local function forward_and_back(f, leaves, views)
  for _, x in ipairs(leaves) do x.grad = nil end
  local all, total = {f(table.unpack(views))}
  all.results = #all
  for k, y in ipairs(all) do
    if y.requires_grad then
      local w = reference.tensor(checks.weights(y:numel()), "float64", {y:size()})
      local sum = (y:double() * w):sum()
      total = total and total + sum or sum
    end
    all[k] = y:detach()
  end
  if total then total:backward() end
  for _, x in ipairs(leaves) do all[#all + 1] = x.grad or heed.zeros(1) end
  return all
end


-- The rows of the table ---------------------------------------------------------------------------

-- {name, f, inputs…} for every row that has a case without randomness, with float32 leaves.
local function subjects()
  local list = {}
  for _, case in ipairs(cases.list) do
    if not case.check and case[3] and not case[1]:find("dropout") then
      local subject = {case[1], case[2], differentiable = case.gradient}
      local types = case.types
      for k = 3, #case do
        local x = numbers(case[k], 7 * k + #case[1], case.low, case.high)
        subject[k] = type(types) == "table" and x:to(types[1]) or x
      end
      list[#list + 1] = subject
    end
  end
  for _, row in ipairs(rows.list) do
    if row.elementwise then
      local entry, subject = elementwise.entry(row), {row.name, heed[row.name]}
      for k = 1, row.inputs do
        subject[k + 2] = numbers({3, 4}, k + #row.name, entry[2], entry[3])
        if entry.condition and k == 1 then subject[3] = subject[3]:gt(0) end
      end
      subject.differentiable = row.differentiable
      list[#list + 1] = subject
    end
  end
  return list
end

-- A subject's inputs as leaves, and as views of them that lie like 'name'.
local function inputs_of(subject, name)
  local leaves, views = {}, {}
  for k = 3, #subject do
    local x = subject[k]:clone()
    if subject.differentiable and checks.is_float[x.dtype] then
      x:requires_grad_()
      leaves[#leaves + 1] = x
    end
    views[k - 2] = name and layouts.lay[name](x) or x
  end
  return leaves, views
end

local function computed(subject, layout)
  return forward_and_back(subject[2], inputs_of(subject, layout))
end


describe("every operation of the table", function()
  local all

  setup(function()
    device.cpu()
    all = subjects()
  end)
  teardown(device.back)

  it("has a subject here", function() assert.is_true(#all > 120, #all .. " subjects") end)

  it("gives the same bits again, and on every number of threads", function()
    local threads = heed.threads()
    for _, subject in ipairs(all) do
      local wanted = computed(subject)
      for _, n in ipairs {1, 2, 8} do
        heed.threads(n)
        local good, got = pcall(computed, subject)
        heed.threads(threads)
        if not good then error(got, 0) end
        all_same(("%s, %d threads"):format(subject[1], n), wanted, got)
      end
    end
  end)

  -- Views of other layouts may be summed in another order: those are compared on whole numbers,
  -- whose sums are exact, below; here are rows that sum nothing.
  it("gives the same bits for any view of its inputs, where nothing is summed", function()
    on_each_level(function(level)
      for _, subject in ipairs(all) do
        if rows.by_name[subject[1]] and rows.by_name[subject[1]].elementwise then
          local wanted = computed(subject, "dense")
          for _, name in ipairs(checks.layout_names) do
            all_same(("%s, %s, %s"):format(subject[1], level, name), wanted,
                     computed(subject, name))
          end
        end
      end
    end)
  end)

  it("is within " .. ULPS .. " ulps on every level, of its largest element", function()
    local wanted = {}
    on_each_level(function(level)
      for i, subject in ipairs(all) do
        local got = computed(subject)
        wanted[i] = wanted[i] or got
        for k, y in ipairs(got) do
          local one = wanted[i][k]
          if checks.is_float[y.dtype] and y:numel() > 0 then
            local finite = one:double():masked_fill(one:isfinite():logical_not(), 0)
            local atol = ULPS * 2 ^ -24 * math.max(finite:abs():max():item(), 2 ^ -100)
            near(one, y, 0, atol, ("%s, %s, result %d"):format(subject[1], level, k))
          end
        end
      end
    end)
  end)
end)


-- Rows and batches --------------------------------------------------------------------------------

-- Operations on the rows of a matrix, each by itself.
local row_wise = {
  softmax = function(x) return x:softmax(-1) end,
  log_softmax = function(x) return x:log_softmax(-1) end,
  logsumexp = function(x) return x:logsumexp(-1) end,
  sum = function(x) return x:sum(-1) end,
  mean = function(x) return x:mean(-1) end,
  var = function(x) return x:var(-1) end,
  std = function(x) return x:std(-1) end,
  norm = function(x) return x:norm(2, -1) end,
  ["norm of p 3"] = function(x) return x:norm(3, -1) end,
  prod = function(x) return x:prod(-1) end,
  max = function(x) return (x:max(-1)) end,
  cumsum = function(x) return x:cumsum(-1) end,
  sort = function(x) return (x:sort(-1)) end,
  layer_norm = function(x, w) return x:layer_norm({x:size(-1)}, w, w) end,
  rms_norm = function(x, w) return x:rms_norm({x:size(-1)}, w) end,
  cross_entropy = function(x)
    local labels = heed.ones(x:size(1), {dtype = "int64"})
    return heed.cross_entropy(x, labels, {reduction = "none", label_smoothing = 0.1})
  end,
  mse_loss = function(x) return heed.mse_loss(x, x:flip(2), "none") end,
  smooth_l1_loss = function(x) return heed.smooth_l1_loss(x, x:flip(2), "none") end,
  bce_with_logits = function(x)
    return heed.bce_with_logits(x, x:sigmoid(), {reduction = "none"})
  end,
}

describe("a row alone is the row in a batch", function()
  setup(device.cpu)
  teardown(device.back)

  for name, f in pairs(row_wise) do
    it("for " .. name .. ", forward and backward", function()
      on_each_level(function(level)
        for _, n in ipairs {1, 5, 33, 300} do
          local x, w = numbers({40, n}, n), numbers({n}, n + 1)
          local function run(t)
            t = t:clone():requires_grad_()
            local y = f(t, w)
            if y.requires_grad then y:sum():backward() end
            return y:detach(), t.grad or t:detach()
          end
          local ys, gs = run(x)
          for _, i in ipairs {1, 7, 40} do
            local y, g = run(x:narrow(1, i, 1))
            local which = ("%s, row %d of %d elements"):format(level, i, n)
            same(which, ys:narrow(1, i, 1), y)
            same(which .. ", gradient", gs:narrow(1, i, 1), g)
          end
        end
      end)
    end)
  end

  fused("for attention, whatever else is in the batch", function()
    on_each_level(function(level)
      for _, size in ipairs {{3, 8}, {70, 16}, {130, 40}} do
        local T, D = table.unpack(size)
        local q, k, v = numbers({3, 2, T, D}, 1), numbers({3, 2, T, D}, 2), numbers({3, 2, T, D}, 3)
        local options = {causal = true, weights = true, lse = true}
        local function run(...)
          local leaves = {}
          for i, t in ipairs {...} do leaves[i] = t:clone():requires_grad_() end
          return forward_and_back(function(a, b, c) return (heed.attention(a, b, c, options)) end,
                                  leaves, leaves)
        end
        local function sum_back(a, b, c)
          local leaves, gradients = {}, {}
          for i, t in ipairs {a, b, c} do leaves[i] = t:clone():requires_grad_() end
          heed.attention(table.unpack(leaves)):sum():backward()
          for i, t in ipairs(leaves) do gradients[i] = assert(t.grad, i) end
          return gradients
        end
        local wanted, gradients = run(q, k, v)[1], sum_back(q, k, v)
        for b = 1, 3 do
          local one = {q:narrow(1, b, 1), k:narrow(1, b, 1), v:narrow(1, b, 1)}
          same(level .. T, wanted:narrow(1, b, 1), run(table.unpack(one))[1])
          for i, g in ipairs(sum_back(table.unpack(one))) do
            same(level .. T .. ", gradient " .. i, gradients[i]:narrow(1, b, 1), g)
          end
        end
        local lines = heed.attention(q, k, v)
        for _, i in ipairs(T > 5 and {1, T - 4} or {}) do
          same(("%s, queries from %d of %d"):format(level, i, T), lines:narrow(3, i, 5),
               heed.attention(q:narrow(3, i, 5), k, v))
        end
      end
    end)
  end)

  -- Up to four queries are summed along lanes of keys: the same number but for rounding.
  fused("for attention of few queries, within rounding", function()
    on_each_level(function(level)
      local q, k = numbers({2, 2, 70, 16}, 1), numbers({2, 2, 90, 16}, 2)
      local v = numbers({2, 2, 90, 16}, 3)
      local lines = heed.attention(q, k, v)
      for _, n in ipairs {1, 4} do
        local few = heed.attention(q:narrow(3, 9, n), k, v)
        assert.is_true(few:allclose(lines:narrow(3, 9, n), {rtol = 1e-5, atol = 1e-6}), level)
      end
    end)
  end)

  -- A product with a matrix that lies row by row has one order of summing, whatever its size.
  it("for products from 400 multiplications on", function()
    on_each_level(function(level)
      for _, size in ipairs {{40, 30}, {300, 70}, {700, 130}, {300, 2100}} do
        local depth, columns = table.unpack(size)
        local x, w = numbers({60, depth}, 1), numbers({depth, columns}, 2)
        local all = x:matmul(w)
        for _, rows_taken in ipairs {1, 2, 3, 7, 24, 25} do
          same(("%s, %d rows of %d x %d"):format(level, rows_taken, depth, columns),
               all:narrow(1, 5, rows_taken), x:narrow(1, 5, rows_taken):matmul(w))
        end
        local b = heed.stack({x, x * 2, x * 3}, 1)
        same(level .. ", a batch", all, b:matmul(w:expand(3, depth, columns))[1])
      end
    end)
  end)

  -- Few rows of x in x W^T are summed along lanes: the same number but for rounding.
  it("for linear, within rounding: sums of few rows go along lanes", function()
    on_each_level(function(level)
      for _, depth in ipairs {5, 64, 300, 1000} do
        local x, w = numbers({60, depth}, 1), numbers({70, depth}, 2)
        local all, size = x:linear(w), x:abs():linear(w:abs())
        for _, rows_taken in ipairs {1, 2, 3, 7, 24, 25} do
          local part = x:narrow(1, 1, rows_taken):linear(w)
          local off = ((part - all:narrow(1, 1, rows_taken)):abs() /
                       size:narrow(1, 1, rows_taken)):max():item()
          assert.is_true(off <= 4 * 2 ^ -24 * math.sqrt(depth), level .. depth .. " " .. off)
        end
      end
    end)
  end)
end)


describe("a view is its copy", function()
  setup(device.cpu)
  teardown(device.back)

  -- On whole numbers all sums are exact, so that every operation must agree, whatever its order.
  local function whole(shape, seed) return (numbers(shape, seed) * 4):round() end

  local sums = {
    matmul = function(x, w) return x:matmul(w) end,
    ["matmul of both transposed"] = function(x, w) return w:t():matmul(x:t()) end,
    linear = function(x, w) return x:linear(w:t()) end,
    einsum = function(x, w) return heed.einsum("ij,jk->ik", x, w) end,
    sum = function(x, w) return x:sum(1), x:sum(2), w:sum() end,
    cumsum = function(x) return x:cumsum(1), x:cumsum(2) end,
    max = function(x) return (x:max(1)), (x:max(2)) end,
    squares = function(x) return (x * x):sum(1), x:norm(1) end,
    gather = function(x) return x:index_select(1, heed.tensor{3, 1, 3}) end,
  }
  for name, f in pairs(sums) do
    it("for " .. name .. ", forward and backward", function()
      on_each_level(function(level)
        for _, size in ipairs {{5, 7, 3}, {33, 40, 65}, {40, 300, 20}} do
          local subject = {name, f, whole({size[1], size[2]}, 1), whole({size[2], size[3]}, 2),
                           differentiable = true}
          local wanted = computed(subject, "dense")
          for _, layout in ipairs(checks.layout_names) do
            all_same(("%s, %s, %s, %d"):format(name, level, layout, size[1]), wanted,
                     computed(subject, layout))
          end
        end
      end)
    end)
  end

  for name, f in pairs(row_wise) do
    it("for " .. name .. ", whose rows are unbroken in any case", function()
      on_each_level(function(level)
        for _, n in ipairs {5, 70} do
          local x, w = numbers({n, 37}, n), numbers({37}, 3)
          local wide = heed.zeros(n, 80)
          wide[{{}, {2, 38}}] = x
          local back = x:flip(1)[{{n, 1, -1}}]
          for _, view in ipairs {wide[{{}, {2, 38}}], back, x:unsqueeze(1):expand(1, n, 37)[1]} do
            same(level .. n, f(x, w), f(view, w))
          end
        end
      end)
    end)
  end
end)


describe("what comes later", function()
  setup(device.cpu)
  teardown(device.back)

  fused("changes nothing of what attention gave before, forward and backward", function()
    on_each_level(function(level)
      local T, D = 140, 24
      local q, k, v = numbers({1, 2, T, D}, 4), numbers({1, 2, T, D}, 5), numbers({1, 2, T, D}, 6)
      local all = heed.attention(q, k, v, {causal = true})
      for _, t in ipairs {1, 5, 63, 64, 65, 130} do
        local part = heed.attention(q:narrow(3, 1, t), k:narrow(3, 1, t), v:narrow(3, 1, t),
                                    {causal = true})
        same(("%s, the first %d"):format(level, t), all:narrow(3, 1, t), part)
        local other = {}
        for i, x in ipairs {q, k, v} do
          other[i] = x:clone()
          if t < T then other[i]:narrow(3, t + 1, T - t):fill_(i == 3 and math.huge or 1e4) end
        end
        local y = heed.attention(other[1], other[2], other[3], {causal = true})
        same(("%s, other tokens after %d"):format(level, t), all:narrow(3, 1, t),
             y:narrow(3, 1, t))
      end
    end)
  end)

  it("changes nothing of running sums and products", function()
    local x = numbers({3, 900}, 8)
    for _, t in ipairs {1, 2, 511, 512, 513, 899} do
      same("cumsum", x:cumsum(2):narrow(2, 1, t), x:narrow(2, 1, t):cumsum(2))
      same("cumprod", x:cumprod(2):narrow(2, 1, t), x:narrow(2, 1, t):cumprod(2))
    end
  end)
end)


describe("threads", function()
  setup(device.cpu)
  teardown(device.back)

  local large = {
    matmul = function(x) return x:matmul(x:t()) end,
    linear = function(x) return x:narrow(1, 1, 3):linear(x) end,
    sum = function(x) return x:sum(), x:sum(1), x:sum(2) end,
    std = function(x) return x:std(), x:norm(), x:logsumexp({1, 2}) end,
    softmax = function(x) return x:softmax(2), x:softmax(1) end,
    layer_norm = function(x) return x:layer_norm({x:size(2)}, x[1], x[2]) end,
    attention = function(x)
      local h = x:reshape(1, 6, 100, 100)
      return heed.attention(h, h, h, {causal = true}), nil
    end,
    dot = function(x) return x:flatten():dot(x:flatten()) end,
    exp = function(x) return x:exp() end,
    few_queries = function(x)
      local h = x:reshape(1, 5, 120, 100)
      return heed.attention(h:narrow(3, 1, 2), h, h), nil
    end,
    batches = function(x)
      local h = x:reshape(60, 20, 50)
      return h:matmul(h:transpose(2, 3)), nil
    end,
    narrow = function(x) return x:reshape(-1, 5):matmul(x:narrow(1, 1, 5)), nil end,
    short_rows = function(x) return x:reshape(-1, 10):softmax(2), nil end,
    cumsum = function(x) return x:cumsum(2) end,
    transpose = function(x) return x:t():contiguous(), nil end,
    embedding = function(x)
      return heed.embedding(heed.arange(4000) % 200 + 1, x), nil
    end,
  }
  for name, f in pairs(large) do
    it("from 1 to 8 give the same " .. name .. ", forward and backward", function()
      local threads, wanted = heed.threads()
      for n = 1, 8 do
        heed.threads(n)
        local x = numbers({200, 300}, 9):requires_grad_()
        local good, got = pcall(forward_and_back, f, {x}, {x})
        heed.threads(threads)
        if not good then error(got, 0) end
        wanted = wanted or got
        all_same(("%s, %d threads"):format(name, n), wanted, got)
      end
    end)
  end
end)
