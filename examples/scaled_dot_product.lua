-- Scaled dot-product attention with a mask, from matmul and softmax.
--                                              lua5.4 examples/scaled_dot_product.lua
--
--   Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
--
-- A. Vaswani et al., "Attention is all you need" (2017), section 3.2.1. The numbers are those
-- of the published notebook, because the same seed gives the same random numbers here.

local heed = require "heed"

-- Q (B, H, T, d_k)  K (B, H, S, d_k)  V (B, H, S, d_v)  mask (B, H, T, S), true = may attend
local function scaled_dot_product_attention(Q, K, V, mask)
  local d_k = Q:size(-1)
  local scores = Q:matmul(K:transpose(-2, -1)) / d_k ^ 0.5          -- (B, H, T, S)
  if mask then scores = scores:masked_fill(~mask, -1e9) end         -- blocked: a weight of 0
  local attn = scores:softmax(-1)
  return attn:matmul(V), attn                                       -- (B, H, T, d_v)
end

heed.manual_seed(0)
local batch, heads, seq_len, d_k, d_v = 1, 1, 4, 3, 2
local Q = heed.randn(batch, heads, seq_len, d_k)
local K = heed.randn(batch, heads, seq_len, d_k)
local V = heed.randn(batch, heads, seq_len, d_v)

local out, attn = scaled_dot_product_attention(Q, K, V)
print("Q shape:", Q.shape)
print("attn shape:", attn.shape)
print("out shape:", out.shape)
print("\nAttention matrix (q_len x k_len):")
print(attn[{1, 1}])
print("\nRow sums (should be ~1):")
print(attn[{1, 1}]:sum(-1))

-- No token may look ahead: the pairs up to the diagonal are allowed.
local causal = heed.ones(seq_len, seq_len, {dtype = "bool"}):tril()
local _, masked = scaled_dot_product_attention(Q, K, V, causal)
print("\nThe same when no one may look ahead:")
print(masked[{1, 1}])

-- heed.attention computes the same as one fused operation.
local fused, weights = heed.attention(Q, K, V, {mask = causal, weights = true})
local again = scaled_dot_product_attention(Q, K, V, causal)
print("\nheed.attention agrees: " .. tostring(
  fused:allclose(again, {atol = 1e-6}) and weights:allclose(masked, {atol = 1e-6})))
