-- The classes of the lecture notes, line by line, each equal to the library's.
--                                                        lua5.4 examples/lecture.lua [1 [picture]]
-- Each gets the weights of the library's layer, and both see the same input.

local heed = require "heed"
local data, nn, plot = heed.data, heed.nn, heed.plot
local B, L, D, H, V = 2, 6, 16, 4, 11            -- sequences, tokens, width, heads, vocabulary

local function check(what, mine, library)
  print(("%-34s largest difference %.1e"):format(what, (mine - library):abs():max():item()))
  assert(mine:allclose(library, {atol = 1e-5}), what)
end

-- I.2: PE(p, 2i) = sin(p / 10000^(2i / d)), PE(p, 2i + 1) = cos(p / 10000^(2i / d)), p from 0.
local p, i = heed.arange(0, L - 1):unsqueeze(2), heed.arange(0, D // 2 - 1)
local angles = p / 10000 ^ (2 * i / D)                      -- (L, D / 2)
local PE = heed.stack({angles:sin(), angles:cos()}, 3):flatten(2)     -- (L, D)
check("positional encodings", PE, heed.position.sinusoidal(L, D))

-- II: one head. Without a context it attends to its own input, with one it is cross-attention.
local SingleHeadAttention = nn.Module:extend("SingleHeadAttention")

function SingleHeadAttention:init(embed_dim, d_k)
  self.W_q = nn.Linear(embed_dim, d_k, {bias = false})      -- query projection
  self.W_k = nn.Linear(embed_dim, d_k, {bias = false})      -- key projection
  self.W_v = nn.Linear(embed_dim, d_k, {bias = false})      -- value projection
end

function SingleHeadAttention:forward(x, context, allowed)   -- (B, L, D), (B, S, D), (L, S)
  context = context or x
  local Q, K, V_ = self.W_q(x), self.W_k(context), self.W_v(context)  -- (B, L, d_k), (B, S, d_k)
  local scores = Q:matmul(K:transpose(2, 3)) / K.shape[-1] ^ 0.5      -- alike? (B, L, S)
  if allowed then scores = scores:masked_fill(~allowed, -math.huge) end
  scores = scores:softmax(-1)                               -- probabilities
  self.attention_weights = scores:detach()                  -- for the picture
  return scores:matmul(V_)                                  -- (B, L, d_k)
end

-- Multi-head attention: Z = Concat(Z_1, ..., Z_H) W^O.
local MultiHeadAttention = nn.Module:extend("MultiHeadAttention")

function MultiHeadAttention:init(embed_dim, heads)
  self.heads = {}
  for h = 1, heads do self.heads[h] = SingleHeadAttention(embed_dim, embed_dim // heads) end
  self.W_o = nn.Linear(embed_dim, embed_dim, {bias = false})
end

function MultiHeadAttention:forward(x, context, allowed)
  local Z = {}
  for h, head in ipairs(self.heads) do Z[h] = head(x, context, allowed) end
  return self.W_o(heed.cat(Z, -1))
end

-- III: mixing, then the same network for each token, each with a residual connection and a norm.
local TransformerLayer = nn.Module:extend("TransformerLayer")

function TransformerLayer:init(embed_dim, heads, hidden, cross)
  self.attention = MultiHeadAttention(embed_dim, heads)
  self.cross = cross and MultiHeadAttention(embed_dim, heads)         -- a decoder's
  self.mlp = nn.Sequential{nn.Linear(embed_dim, hidden), nn.ReLU(), nn.Linear(hidden, embed_dim)}
  self.norms = {nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)}
end

function TransformerLayer:forward(x, context)
  local allowed = context and heed.ones(L, L, {dtype = "bool"}):tril()      -- no one looks ahead
  x = self.norms[1](x + self.attention(x, x, allowed))
  if context then x = self.norms[2](x + self.cross(x, context)) end
  return self.norms[3](x + self.mlp(x))
end

-- The weights of library layers, for these classes; the biases of its attention are 0 at first.
local function take(mine, library)
  local q, k, v = library.query.weight, library.key.weight, library.value.weight
  q, k, v = q:chunk(H, 1), k:chunk(H, 1), v:chunk(H, 1)     -- the rows of each head
  for h, head in ipairs(mine.heads) do
    head:load_state{["W_q.weight"] = q[h], ["W_k.weight"] = k[h], ["W_v.weight"] = v[h]}
  end
  mine.W_o:load_state{weight = library.out.weight}
end

local function layer_like(library)
  local mine = TransformerLayer(D, H, 3 * D, library.cross)
  take(mine.attention, library.attend)
  if mine.cross then take(mine.cross, library.cross) end
  mine.mlp[1]:load_state(library.mlp.up:state())
  mine.mlp[3]:load_state(library.mlp.down:state())
  return mine
end

heed.manual_seed(0)
local E, W = nn.Embedding(V, D), nn.Linear(D, V)
local tokens = heed.randint(1, V - 1, {B, L})
local X, encoded = E(tokens) + PE, heed.randn(B, L + 3, D)  -- X = E[tokens] + P[position]

local one = SingleHeadAttention(D, D)
local many, library = MultiHeadAttention(D, H), nn.MultiHeadAttention(D, H)
take(many, library)
check("single-head attention", one(X), (heed.attention(one.W_q(X), one.W_k(X), one.W_v(X))))
check("multi-head attention", many(X), library(X))
check("cross-attention, other lengths", many(X, encoded), library(X, encoded))

local encoder, decoder = nn.Encoder(D, H, 2, {hidden = 3 * D}), nn.DecoderLayer(D, H, 3 * D)
local Z = layer_like(encoder.layers[2])(layer_like(encoder.layers[1])(X))
check("transformer network of two layers", Z, encoder(X))
check("decoder layer", layer_like(decoder)(X, encoded), decoder(X, encoded))

-- IV: one vector for a sequence, by pooling or a special token; and one answer for each token.
check("mean pooling", Z:sum(2) / L, nn.Pool("mean")(Z))
check("max pooling", (Z:max(2)), nn.Pool("max")(Z))
check("the first token, as [CLS]", Z[{ {}, 1 }], nn.Pool("first")(Z))
-- Masked language modelling: p(x_i) = softmax(W Z_i), and the loss counts hidden words alone.
local hidden, targets = data.mask(tokens, {mask = V, vocabulary = V - 1, rate = 0.5})
local logits, at = W(encoder(E(hidden) + PE)), targets:ne(-100)         -- (B, L, V), (B, L)
local P = logits[at]:softmax(-1):gather(2, targets[at]:unsqueeze(2))    -- of the right words
check("the loss of a masked model", -P:log():mean(),
      heed.cross_entropy(logits:flatten(1, 2), targets:flatten()))
local picture = plot.heat(one.attention_weights[1], {title = "one head"})
print(picture)
if arg[2] then assert(picture:save(arg[2])) end
