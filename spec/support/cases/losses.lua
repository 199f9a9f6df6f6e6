-- Cases of norms, losses and attention: see spec/support/cases.lua.

local array = require "spec.support.array"
local heed = require "heed"
local reference = require "spec.support.reference"

local along, build, map, matmul, new = array.along, array.build, array.map, array.matmul, array.new
local abs, exp, log, huge = math.abs, math.exp, math.log, math.huge

local function like(x, list) return heed.tensor(list, {dtype = x.dtype}) end

-- (x - mean) / sqrt(var + eps) of a row, or x / sqrt(mean of squares + eps).
local function normalized(centred, eps)
  return function(row)
    local mean, var, result = 0, 0, {}
    for _, v in ipairs(row) do mean = mean + (centred and v / #row or 0) end
    for _, v in ipairs(row) do var = var + (v - mean) ^ 2 / #row end
    for i, v in ipairs(row) do result[i] = (v - mean) / math.sqrt(var + eps) end
    return result
  end
end

local function scaled(x, weight, bias)
  local y = weight and map(function(a, w) return a * w end, x, weight) or x
  return bias and map(function(a, b) return a + b end, y, bias) or y
end

local function total(x)
  local sum = 0
  for _, v in ipairs(x) do sum = sum + v end
  return new({}, {sum})
end

local function mean(x) return new({}, {total(x)[1] / #x}) end

-- A loss of each element, reduced.
local function elementwise(f, reduction)
  return function(...) return (reduction or mean)(map(f, ...)) end
end

local function log_softmax(x)
  return along(x, 2, function(row)
    local top, sum, result = math.max(table.unpack(row)), 0, {}
    for _, v in ipairs(row) do sum = sum + exp(v - top) end
    for i, v in ipairs(row) do result[i] = v - top - log(sum) end
    return result
  end)
end

local function softmax(x) return map(exp, log_softmax(x)) end

-- Of rows of log-probabilities: weights of classes, an ignored target, smoothing.
local function nll(x, targets, weight, smoothing, reduction)
  local losses, weights, rows, classes = {}, 0, x.shape[1], x.shape[2]
  for i = 1, rows do
    local t = targets[i]
    local own = t < 0 and 0 or weight and weight[t] or 1
    local loss = t < 0 and 0 or -own * array.at(x, {i, t}) * (1 - smoothing)
    for c = 1, t < 0 and 0 or classes do
      loss = loss - smoothing / classes * (weight and weight[c] or 1) * array.at(x, {i, c})
    end
    losses[i], weights = loss, weights + own
  end
  if reduction == "none" then return new({rows}, losses) end
  local sum = total(losses)[1]
  return new({}, {reduction == "sum" and sum or sum / weights})
end

local function square_error(a, b) return (a - b) ^ 2 end
local function absolute_error(a, b) return abs(a - b) end

local function smooth_l1(beta)
  return function(a, b)
    local d = abs(a - b)
    return d < beta and 0.5 * d * d / beta or d - 0.5 * beta
  end
end

-- A row as a vector of length 1 by the norm p.
local function unit(p)
  return function(row)
    local sum, result = 0, {}
    for _, v in ipairs(row) do sum = sum + abs(v) ^ p end
    for i, v in ipairs(row) do result[i] = v / sum ^ (1 / p) end
    return result
  end
end

-- softmax(scale * q k' …) v for one matrix each; may(i, j) lets query i attend to key j.
local function attend(q, k, v, o)
  local scores = matmul(q, array.transpose(k, 1, 2))
  local scale, weights, lse = o.scale or 1 / math.sqrt(q.shape[2]), {}, {}
  for i = 1, q.shape[1] do
    local row, top, sum = {}, -huge, 0
    for j = 1, k.shape[1] do
      local s = array.at(scores, {i, j}) * scale
      if o.softcap then
        local e = exp(2 * s / o.softcap)
        s = o.softcap * (e - 1) / (e + 1)
      end
      if o.bias then s = s + array.at(o.bias, {i, j}) end
      row[j] = (not o.may or o.may(i, j)) and s or -huge
      top = math.max(top, row[j])
    end
    for j = 1, k.shape[1] do
      row[j] = top == -huge and 0 or exp(row[j] - top)
      sum = sum + row[j]
    end
    for j = 1, k.shape[1] do weights[#weights + 1] = sum > 0 and row[j] / sum or 0 end
    lse[i] = top == -huge and -huge or top + log(sum)
  end
  weights = new({q.shape[1], k.shape[1]}, weights)
  return matmul(weights, v), weights, new({q.shape[1]}, lse)
end

local function part(x, ...)
  local first, shape = {...}, {}
  for k = #first + 1, #x.shape do shape[#shape + 1] = x.shape[k] end
  return build(shape, function(i)
    local own = array.copy(first)
    table.move(i, 1, #i, #own + 1, own)
    return array.at(x, own)
  end)
end

-- The same over all axes before the last two; key heads may be fewer. 'which' picks the result.
local function attended(options, which)
  return function(q, k, v, bias)
    local outer, made = {table.unpack(q.shape, 1, #q.shape - 2)}, {}
    local batch = {}
    build(outer, function(i)
      local at = array.copy(i)
      local own = array.copy(at)
      if #own == 2 then own[2] = (own[2] - 1) // (q.shape[2] // k.shape[2]) + 1 end
      local o = options and options(q, k, table.unpack(at)) or {}
      o.bias = bias and part(bias, table.unpack(at))
      batch[#batch + 1] = {attend(part(q, table.unpack(at)), part(k, table.unpack(own)),
                                  part(v, table.unpack(own)), o)}
    end)
    for n = 1, which or 1 do
      local values, shape = {}, array.copy(outer)
      for _, results in ipairs(batch) do
        table.move(results[n], 1, #results[n], #values + 1, values)
      end
      local inner = batch[1][n].shape
      table.move(inner, 1, #inner, #shape + 1, shape)
      made[n] = new(shape, values)
    end
    return table.unpack(made)
  end
end

-- Pairs of columns, rotated; places(i, pairs) gives the columns of pair i.
local function rotated(places)
  return function(x, cos, sin)
    local pairs_there, rank = cos.shape[#cos.shape], #x.shape
    local other = {}
    for i = 1, pairs_there do
      local a, b = places(i, pairs_there)
      other[a], other[b] = {b, i, -1}, {a, i, 1}
    end
    local function angle(t, index, pair)
      local at = {}
      for k = 1, #t.shape do
        local i = index[rank - #t.shape + k]
        at[k] = k == #t.shape and pair or t.shape[k] == 1 and 1 or i
      end
      return array.at(t, at)
    end
    return build(x.shape, function(index)
      local own = other[index[rank]]
      if not own then return array.at(x, index) end
      local partner = array.copy(index)
      partner[rank] = own[1]
      return array.at(x, index) * angle(cos, index, own[2])
             + own[3] * array.at(x, partner) * angle(sin, index, own[2])
    end)
  end
end

local function halves(i, n) return i, n + i end
local function neighbours(i) return 2 * i - 1, 2 * i end

-- The last query sees all keys.
local function causal(q, k)
  local offset = k.shape[#k.shape - 1] - q.shape[#q.shape - 1]
  return function(i, j) return j <= i + offset end
end

local list = {
  {"layer_norm", function(x, w, b) return heed.layer_norm(x, {4}, w, b) end, {3, 4}, {4}, {4},
   value = function(x, w, b) return scaled(along(x, -1, normalized(true, 1e-5)), w, b) end,
   also = {{{4}, {4}, {4}}, {{0, 4}, {4}, {4}}}, refuses = {{{3, 3}, {3}, {3}}, {{}, {4}, {4}}}},
  {"layer_norm over two axes", function(x) return heed.layer_norm(x, {3, 4}) end, {2, 3, 4},
   value = function(x)
     return new(x.shape, along(new({2, 12}, x), 2, normalized(true, 1e-5)))
   end},
  {"layer_norm of one", function(x) return heed.layer_norm(x, {1}, {eps = 0.5}) end, {1, 1},
   value = function(x) return map(function() return 0 end, x) end},
  {"rms_norm", function(x, w) return heed.rms_norm(x, {4}, w) end, {3, 4}, {4},
   value = function(x, w) return scaled(along(x, -1, normalized(false, 0)), w) end,
   also = {{{4}, {4}}, {{0, 4}, {4}}}, refuses = {{{3, 3}, {3}}}},
  {"rms_norm without weight", function(x) return heed.rms_norm(x, {4}, {eps = 0.5}) end, {2, 3, 4},
   value = function(x) return along(x, -1, normalized(false, 0.5)) end, also = {{{1, 4}}}},

  {"mse_loss", heed.mse_loss, {3, 4}, {3, 4}, value = elementwise(square_error),
   also = {{{1, 1}, {1, 1}}, {{}, {}}}},
  {"mse_loss, summed", function(x, y) return heed.mse_loss(x, y, "sum") end, {3, 4}, {3, 4},
   value = elementwise(square_error, total), also = {{{0, 3}, {0, 3}}}},
  {"l1_loss", heed.l1_loss, {3, 4}, {3, 4}, value = elementwise(absolute_error),
   also = {{{1, 1}, {1, 1}}, {{}, {}}}},
  {"l1_loss of each", function(x, y) return heed.l1_loss(x, y, "none") end, {3, 4}, {3, 4},
   value = function(x, y) return map(absolute_error, x, y) end, also = {{{0, 3}, {0, 3}}}},
  {"mse_loss and l1_loss, weighed", function(x, y)
    local w = heed.arange(12, {dtype = x.dtype}):reshape(3, 4)
    return heed.mse_loss(x, y, {weight = w}) + heed.l1_loss(x, y, "none", w)
  end, {3, 4}, {3, 4}},
  {"smooth_l1_loss", heed.smooth_l1_loss, {3, 4}, {3, 4}, value = elementwise(smooth_l1(1)),
   also = {{{1, 1}, {1, 1}}, {{}, {}}}},
  {"smooth_l1_loss with beta", function(x, y) return heed.smooth_l1_loss(x, y, "sum", 2.5) end,
   {3, 4}, {3, 4}, value = elementwise(smooth_l1(2.5), total), also = {{{0, 3}, {0, 3}}}},
  {"huber_loss", heed.huber_loss, {3, 4}, {3, 4}, value = elementwise(smooth_l1(1)),
   also = {{{1, 1}, {1, 1}}, {{}, {}}}},
  {"huber_loss with delta, weighed", function(x, y)
    return heed.huber_loss(x, y, "sum", 2.5, like(x, {{1, 2, 0.5, 3}}):expand(3, 4))
  end, {3, 4}, {3, 4}, value = function(x, y)
    local huber = function(a, b, w) return 2.5 * w * smooth_l1(2.5)(a, b) end
    return total(map(huber, x, y, new({4}, {1, 2, 0.5, 3})))
  end},
  {"normalize", heed.normalize, {3, 4}, value = function(x) return along(x, 2, unit(2)) end,
   also = {{{1, 1}}, {{0, 3}}}, refuses = {{{3}}, {{}}}},
  {"normalize by another norm", function(x) return x:normalize(1, -2, 0.5) end, {3, 4},
   value = function(x) return along(x, 1, unit(1)) end},
  {"cosine_similarity", heed.cosine_similarity, {3, 4}, {1, 4}, value = function(x, y)
    local p = map(function(a, b) return a * b end, along(x, 2, unit(2)), along(y, 2, unit(2)))
    return array.reduce(p, {2}, function(row) return total(row)[1] end)
  end, also = {{{1, 1}, {1, 1}}}, refuses = {{{3}, {3}}, {{2, 3}, {2, 2}}}},
  {"cross_entropy", function(x)
    return heed.cross_entropy(x, heed.tensor{1, 4, -100}, {label_smoothing = 0.1})
  end, {3, 4}, value = function(x) return nll(log_softmax(x), {1, 4, -1}, nil, 0.1) end},
  {"cross_entropy, sum and weight", function(x)
    local w = like(x, {1, 2, 0.5, 3})
    return heed.cross_entropy(x, heed.tensor{1, 4, 2}, w, {reduction = "sum"})
  end, {3, 4}, value = function(x)
    return nll(log_softmax(x), {1, 4, 2}, {1, 2, 0.5, 3}, 0, "sum")
  end},
  {"cross_entropy, mean and weight", function(x)
    return heed.cross_entropy(x, heed.tensor{1, 4, 2}, like(x, {1, 2, 0.5, 3}), -100, "mean", 0.2)
  end, {3, 4}, value = function(x)
    return nll(log_softmax(x), {1, 4, 2}, {1, 2, 0.5, 3}, 0.2)
  end},
  {"cross_entropy of each", function(x)
    return heed.cross_entropy(x, heed.ones(x:size(1), {dtype = "int64"}), {reduction = "none"})
  end, {3, 4}, value = function(x)
    return nll(log_softmax(x), {1, 1, 1}, nil, 0, "none")
  end, also = {{{1, 1}}, {{0, 3}}}},
  {"cross_entropy, classes last", function(x)
    return heed.cross_entropy(x, heed.tensor{{1, 4, -100}, {2, 2, 3}}, like(x, {1, 2, 0.5, 3}),
                              {dim = -1, label_smoothing = 0.1})
  end, {2, 3, 4}, value = function(x)
    return nll(log_softmax(new({6, 4}, x)), {1, 4, -1, 2, 2, 3}, {1, 2, 0.5, 3}, 0.1)
  end},
  {"cross_entropy, classes first, with probabilities", function(x, y)
    return heed.cross_entropy(x, y:softmax(1), {dim = 1, reduction = "sum"})
  end, {4, 3, 2}, {4, 3, 2}, value = function(x, y)
    local function rows(a) return array.transpose(new({4, 6}, a), 1, 2) end
    return total(map(function(a, p) return -a * p end, log_softmax(rows(x)), softmax(rows(y))))
  end},
  {"cross_entropy with probabilities", function(x, y)
    return heed.cross_entropy(x, y:softmax(-1), {reduction = "sum"})
  end, {3, 4}, {3, 4}, value = function(x, y)
    return total(map(function(a, p) return -a * p end, log_softmax(x), softmax(y)))
  end},
  {"cross_entropy with smoothed probabilities and weight", function(x, y)
    return heed.cross_entropy(x, y:softmax(-1), like(x, {1, 2, 0.5, 3}), {label_smoothing = 0.2})
  end, {3, 4}, {3, 4}, value = function(x, y)
    return new({}, {total(map(function(a, p, w) return -w * (0.8 * p + 0.2 / 4) * a end,
                              log_softmax(x), softmax(y), new({4}, {1, 2, 0.5, 3})))[1] / 3})
  end},
  {"nll_loss", function(x) return heed.nll_loss(x, heed.tensor{1, 4, 2}) end, {3, 4},
   value = function(x) return nll(x, {1, 4, 2}, nil, 0) end},
  {"nll_loss, weighed", function(x)
    return heed.nll_loss(x, heed.tensor{1, -100, 2}, like(x, {1, 2, 0.5, 3}))
  end, {3, 4}, value = function(x) return nll(x, {1, -1, 2}, {1, 2, 0.5, 3}, 0) end},
  {"nll_loss of each", function(x)
    return heed.nll_loss(x, heed.ones(x:size(1), {dtype = "int64"}), {reduction = "none"})
  end, {3, 4}, value = function(x) return nll(x, {1, 1, 1}, nil, 0, "none") end,
   also = {{{1, 1}}, {{0, 3}}}},
  {"binary_cross_entropy", function(x)
    return heed.binary_cross_entropy(x:sigmoid(), heed.ones(x.shape, {dtype = x.dtype}))
  end, {3, 4}, value = elementwise(function(a) return -log(reference.sigmoid(a)) end),
   refuses_types = false,
   also = {{{1, 1}}, {{}}}},
  {"binary_cross_entropy of both, weighed", function(x, y)
    return heed.binary_cross_entropy(x, y, like(x, {1, 2, 0.5, 3}), "sum")
  end, {3, 4}, {3, 4}, low = 0.125, high = 0.875, value = function(x, y)
    return total(map(function(a, b, w) return -w * (b * log(a) + (1 - b) * log(1 - a)) end, x, y,
                     new({4}, {1, 2, 0.5, 3})))
  end, also = {{{0, 4}, {0, 4}}}},
  {"bce_with_logits", function(x)
    return heed.bce_with_logits(x, heed.full(x.shape, 0.25, {dtype = x.dtype}))
  end, {3, 4}, value = elementwise(function(a) return reference.softplus(a) - 0.25 * a end),
   also = {{{1, 1}}, {{}}}},
  {"bce_with_logits, weighed", function(x)
    return heed.bce_with_logits(x, heed.full(x.shape, 0.25, {dtype = x.dtype}),
                                like(x, {1, 2, 0.5, 3}), "sum", like(x, {2, 1, 4, 0.5}))
  end, {3, 4}, value = function(x)
    return total(map(function(a, w, p)
      return w * (0.25 * p * reference.softplus(-a) + 0.75 * reference.softplus(a))
    end, x, new({4}, {1, 2, 0.5, 3}), new({4}, {2, 1, 4, 0.5})))
  end, also = {{{0, 4}}}},
  {"kl_div", function(x, y)
    return heed.kl_div(x:log_softmax(-1), y:softmax(-1), {reduction = "batchmean"})
  end, {3, 4}, {3, 4}, refuses_types = false, value = function(x, y)
    local sum = total(map(function(a, p) return p * (log(p) - a) end, log_softmax(x), softmax(y)))
    return new({}, {sum[1] / 3})
  end},
  {"kl_div of logarithms", function(x, y) return heed.kl_div(x, y, "none", true) end,
   {3, 4}, {3, 4}, value = function(x, y)
     return map(function(a, b) return exp(b) * (b - a) end, x, y)
   end, also = {{{1, 1}, {1, 1}}, {{}, {}}, {{0, 3}, {0, 3}}}},

  {"rotate_pairs", heed.rotate_pairs, {2, 3, 6}, {3, 2}, {3, 2}, value = rotated(halves),
   also = {{{2}, {1}, {1}}, {{2, 3, 4}, {2, 1, 2}, {2, 1, 2}}, {{0, 3, 4}, {3, 2}, {3, 2}}},
   refuses = {{{3, 6}, {3, 4}, {3, 4}}, {{3, 6}, {3, 0}, {3, 0}}, {{3, 6}, {2, 2}, {2, 2}},
              {{3, 6}, {3, 2}, {3, 1}}, {{3}, {2}, {2}}, {{3, 6}, {1, 3, 2}, {1, 3, 2}},
              {{}, {1}, {1}}, {{2}, {}, {}}}},
  {"rotate_pairs, interleaved", function(x, c, s)
    return heed.rotate_pairs(x, c, s, {interleaved = true})
  end, {2, 2, 3, 5}, {2, 1, 3, 2}, {2, 1, 3, 2}, value = rotated(neighbours),
   also = {{{4}, {2}, {2}}, {{2, 34}, {16}, {16}}}},

  {"attention", heed.attention, {2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}, value = attended(),
   also = {{{1, 1}, {1, 1}, {1, 1}}, {{1, 1, 1, 4}, {1, 1, 1, 4}, {1, 1, 1, 1}}},
   refuses = {{{}, {}, {}}}},
  {"attention, causal, grouped", function(q, k, v)
    return heed.attention(q, k, v, {causal = true, softcap = 3})
  end, {1, 4, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4},
   value = attended(function(q, k) return {may = causal(q, k), softcap = 3} end)},
  {"attention with bias", function(q, k, v, b)
    return heed.attention(q, k, v, {bias = b})
  end, {2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {2, 3, 5}, value = attended()},
  {"attention with lengths", function(q, k, v)
    return heed.attention(q, k, v, {lengths = heed.tensor{2, 0}})
  end, {2, 1, 3, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}, value = attended(function(_, _, batch)
    return {may = function(_, j) return j <= (batch == 1 and 2 or 0) end}
  end)},
  {"attention with a mask and a scale", function(q, k, v)
    local mask = heed.tensor{{true, false, true}, {false, false, false}}
    return heed.attention(q, k, v, {mask = mask, scale = 0.25})
  end, {2, 2, 4}, {2, 3, 4}, {2, 3, 4}, value = attended(function()
    return {may = function(i, j) return i == 1 and j ~= 2 end, scale = 0.25}
  end)},
  {"attention, weights and lse", function(q, k, v)
    local out, weights, lse = heed.attention(q, k, v, {weights = true, lse = true})
    return out, weights, lse
  end, {2, 3, 4}, {2, 5, 4}, {2, 5, 4}, value = attended(nil, 3),
   gives = {"same", "same", "statistic"}},
  {"attention, composed", function(q, k, v)
    return heed.attention(q, k, v, {causal = true, fused = false})
  end, {1, 1, 3, 4}, {1, 1, 5, 4}, {1, 1, 5, 4},
   value = attended(function(q, k) return {may = causal(q, k)} end)},
}

return list
