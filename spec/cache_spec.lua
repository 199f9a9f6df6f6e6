-- nn.Cache: a step with a cache gives what the pass over all tokens gives, and each row of a padded
-- batch what it gives alone.

local heed = require "heed"

local nn = heed.nn

local NEAR <const> = {rtol = 1e-5, atol = 1e-5}

local function near(a, b)
  assert.equal(tostring(a.shape), tostring(b.shape))
  local good = a:allclose(b, NEAR)
  assert(good, good or ("differs by %g"):format((a - b):abs():max():item()))
end


-- x in chunks of so many tokens; the results, joined.
local function stepped(model, x, chunks, cache, o)
  local parts, at = {}, 1
  for i, n in ipairs(chunks) do
    local given = {cache = cache}
    for name, value in pairs(o or {}) do given[name] = value end
    parts[i] = model(x:narrow(2, at, n), given)
    at = at + n
  end
  return heed.cat(parts, 2)
end


-- Layers one after the other, which pass on their options; positions are added at the front.
local Model = nn.Module:extend("Model")

function Model:init(options, position)
  self.position = position or false
  self.layers = {nn.MultiHeadAttention(8, 4, options), nn.MultiHeadAttention(8, 4, options)}
end

function Model:forward(x, o)
  if self.position then x = self.position(x, {cache = o.cache, keys = o.keys}) end
  for _, layer in ipairs(self.layers) do x = x + layer(x, o) end
  return x
end


local LLAMA <const> = {
  rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4,
  original_max_position_embeddings = 16,
}

local function shifted(q, k, offset)
  local T, D = q:size(3), q:size(4)
  local device = {device = q.device}
  local at = heed.is_tensor(offset) and offset or heed.arange(offset, offset + T - 1, device)
  local waves = heed.sin(at:float():unsqueeze(-1) * heed.arange(D, device):float())
  if waves:dim() == 3 then waves = waves:unsqueeze(2) end
  return q + waves, k - waves
end

local models = {
  ["no positions"] = function() return Model{} end,
  ["rotary positions"] = function() return Model{rope = true} end,
  ["rotary positions that are scaled"] = function()
    return Model{rope = {base = 100, fraction = 1, scaling = LLAMA}}
  end,
  ["sinusoidal positions"] = function() return Model({}, heed.position.Sinusoidal()) end,
  ["learnt positions"] = function() return Model({}, heed.position.Learned(32, 8)) end,
  ["a position function"] = function() return Model{position = shifted} end,
  ["grouped heads"] = function() return Model{kv_heads = 2, rope = true} end,
  ["norms of queries and keys"] = function() return Model{qk_norm = true, rope = true} end,
  ["values of another size"] = function() return Model{value_dim = 3, rope = true} end,
  ["a gate"] = function() return Model{gate = true} end,
  ["memory"] = function() return Model{memory = 3, rope = true, qk_norm = true} end,
}

-- The first tokens of each row with padding on a side; the options that say so, and the column of
-- each row's first token.
local function padded(tokens, lengths, side)
  local B, T = tokens:size()
  local x, present, from = heed.randn(tokens.shape), heed.zeros(B, T), {}
  for b, n in ipairs(lengths) do
    from[b] = side == "left" and T - n + 1 or 1
    x[b]:narrow(1, from[b], n):copy_(tokens[b]:narrow(1, 1, n))
    present[b]:narrow(1, from[b], n):fill_(1)
  end
  if side == "right" then return x, {lengths = heed.tensor(lengths)}, from end
  return x, {keys = present:gt(0)}, from
end


local CAUSAL <const> = {causal = true}


describe("a step with a cache", function()
  for name, make in pairs(models) do
    it("equals the pass over all tokens, with " .. name, function()
      heed.manual_seed(1)
      local model, x = make(), heed.randn(2, 9, 8)
      local whole = model(x, CAUSAL)
      for _, chunks in ipairs{{4, 1, 1, 1, 1, 1}, {1, 3, 5}, {9}, {0, 9}} do
        near(stepped(model, x, chunks, nn.Cache(), CAUSAL), whole)
        heed.no_grad(function()
          near(stepped(model, x, chunks, nn.Cache(), CAUSAL), whole)
        end)
      end
    end)

    it("equals each row alone, padded on either side, with " .. name, function()
      heed.manual_seed(2)
      local model, tokens = make(), heed.randn(3, 5, 8)
      local nexts, lengths = heed.randn(3, 4, 8), {3, 5, 1}
      for _, side in ipairs{"left", "right", "keys on the right"} do
        local x, o, from = padded(tokens, lengths, side)
        local cache = nn.Cache()
        o.cache, o.causal = cache, true
        local first = heed.no_grad(model, x, o)
        assert.equal(5, cache:length())
        local later = heed.no_grad(stepped, model, nexts, {1, 2, 1}, cache, CAUSAL)
        for b, n in ipairs(lengths) do
          local row = heed.cat({tokens:narrow(1, b, 1):narrow(2, 1, n), nexts:narrow(1, b, 1)}, 2)
          local alone = model(row, CAUSAL)
          near(first:narrow(1, b, 1):narrow(2, from[b], n), alone:narrow(2, 1, n))
          near(later:narrow(1, b, 1), alone:narrow(2, n + 1, 4))
        end
      end
    end)
  end
end)
