-- One head of self-attention, and the shapes that go through it.   lua5.4 examples/single_head.lua
--
-- Every token asks a question (query), says what it is (key) and has something to give (value):
--
--   q_i = Wq x_i    k_i = Wk x_i    v_i = Wv x_i
--   a_i = softmax over j of q_i . k_j / sqrt(d_k)         how much token i attends to each j
--   z_i = sum over j of a_ij v_j                          what it gets
--
-- nn.Attention is this layer ready-made; here it is in full, and the two agree.

local heed = require "heed"
local nn = heed.nn

local Attention = nn.Module:extend("Attention")

function Attention:init(embed_dim, key_dim)
  self.key_dim = key_dim
  self.Wq = nn.Linear(embed_dim, key_dim)
  self.Wk = nn.Linear(embed_dim, key_dim)
  self.Wv = nn.Linear(embed_dim, key_dim)
  self.Wc = nn.Linear(key_dim, embed_dim)       -- back to the width of the tokens
end

function Attention:forward(x)                   -- x (B, n, d)
  local Q, K, V = self.Wq(x), self.Wk(x), self.Wv(x)                    -- (B, n, d_k)
  local A = (Q:matmul(K:transpose(-2, -1)) / self.key_dim ^ 0.5):softmax(-1)   -- (B, n, n)
  return self.Wc(A:matmul(V)), A                -- (B, n, d)
end


local embed_dim, key_dim, batch_size, seq_len = 4, 2, 10, 20

heed.manual_seed(0)
local layer = Attention(embed_dim, key_dim)
local x = heed.randn(batch_size, seq_len, embed_dim)
print("The shape of our input is " .. tostring(x.shape))

local y, A = layer(x)
print("The shape of our output is " .. tostring(y.shape))
print("The shape of our attention matrices is " .. tostring(A.shape))

heed.manual_seed(0)                             -- the same first weights, drawn in the same order
local ready_made = nn.Attention(embed_dim, key_dim)
local y2, A2 = ready_made(x)
print("nn.Attention gives the same: " .. tostring(y:allclose(y2, {atol = 1e-6})
                                                  and A:allclose(A2, {atol = 1e-6})))
