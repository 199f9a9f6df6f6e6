-- Self-attention by hand, one vector at a time, then as matrices, then with two heads.
--                                              lua5.4 examples/by_hand.lua
-- Tokens are columns here, as in the published notebook, whose numbers these are.

local heed = require "heed"
local matmul = heed.matmul

-- Every column of x adds up to one.
local function softmax_columns(x) return x:exp() / x:exp():sum(1, true) end

local N, D = 3, 4                                -- tokens, and the length of each
heed.manual_seed(3)
local all_x = {}
for n = 1, N do all_x[n] = heed.randn(D, 1) end

heed.manual_seed(0)
local W_q, W_k, W_v = heed.randn(D, D), heed.randn(D, D), heed.randn(D, D)
local b_q, b_k, b_v = heed.randn(D, 1), heed.randn(D, 1), heed.randn(D, 1)


print("Step 1: every token gets a query, a key and a value")
local queries, keys, values = {}, {}, {}
for n, x in ipairs(all_x) do
  queries[n] = matmul(W_q, x) + b_q
  keys[n] = matmul(W_k, x) + b_k
  values[n] = matmul(W_v, x) + b_v
  print(("x_%d is"):format(n), x:t())
end

print("\nStep 2: how well each query matches each key")
local scores = {}
for i, query in ipairs(queries) do
  local row = {}
  for j, key in ipairs(keys) do row[j] = matmul(query:t(), key):squeeze() / D ^ 0.5 end
  scores[i] = heed.stack(row)
  print(scores[i])
end

print("\nStep 3: the scores of a token become weights that add up to one")
local attention = {}
for i, row in ipairs(scores) do
  attention[i] = row:exp() / row:exp():sum()
  print(("for x_%d"):format(i), attention[i]:format(i < 3 and "%.4f" or "%.4e"))
end

print("\nStep 4: each token takes that much of every value")
for i = 1, N do
  local sum = heed.zeros(D, 1)
  for j = 1, N do sum = sum + attention[i]:select(1, j) * values[j] end
  print(("x'_%d is"):format(i), sum:t())
end


print("\nAll at once: X holds the tokens as columns")
local X = heed.cat(all_x, 2)                     -- (D, N)
local function self_attention(x, wq, wk, wv, bq, bk, bv)
  local Q, K, V = matmul(wq, x) + bq, matmul(wk, x) + bk, matmul(wv, x) + bv
  local weights = softmax_columns(matmul(K:t(), Q) / K:size(1) ^ 0.5)   -- (N, N)
  return matmul(V, weights)
end
print(self_attention(X, W_q, W_k, W_v, b_q, b_k, b_v))


print("\nTwo heads: each works on half the width, and one more matrix joins them")
N, D = 6, 8
local H = 2
heed.manual_seed(3)
X = heed.randn(D, N)
heed.manual_seed(0)
local heads = {}
for h = 1, H do
  local wq, wk, wv = heed.randn(D // H, D), heed.randn(D // H, D), heed.randn(D // H, D)
  local bq, bk, bv = heed.randn(D // H, 1), heed.randn(D // H, 1), heed.randn(D // H, 1)
  heads[h] = self_attention(X, wq, wk, wv, bq, bk, bv)                  -- (D / H, N)
end
local W_c = heed.randn(D, D)
print(matmul(W_c, heed.cat(heads, 1)):format("%.3f"))
