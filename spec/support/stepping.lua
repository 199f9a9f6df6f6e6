-- Models called in steps, with a cache, and batches that are padded.

local asserted = require "spec.support.asserted"
local heed = require "heed"
local nn = heed.nn

local stepping = {}

local NEAR <const> = {rtol = 1e-5, atol = 1e-5}


---Asserts that two tensors agree to 1e-5.
function stepping.near(a, b)
  asserted.note()
  local same = tostring(a.shape) == tostring(b.shape)
  assert(same, ("shapes %s and %s"):format(tostring(a.shape), tostring(b.shape)))
  if a:allclose(b, NEAR) then return end
  error(("differs by %g"):format((a - b):abs():max():item()), 2)
end


---x in chunks of so many tokens; the results, joined.
function stepping.stepped(model, x, chunks, cache, o)
  local parts, at = {}, 1
  for i, n in ipairs(chunks) do
    local given = {cache = cache}
    for name, value in pairs(o or {}) do given[name] = value end
    parts[i] = model(x:narrow(2, at, n), given)
    at = at + n
  end
  return heed.cat(parts, 2)
end


---Layers one after the other, which pass on their options; positions are added at the front.
local Model = nn.Module:extend("Model")
stepping.Model = Model

function Model:init(options, position)
  self.position = position or false
  self.layers = {nn.MultiHeadAttention(8, 4, options), nn.MultiHeadAttention(8, 4, options)}
end

function Model:forward(x, o)
  if self.position then x = self.position(x, {cache = o.cache, keys = o.keys}) end
  for _, layer in ipairs(self.layers) do x = x + layer(x, o) end
  return x
end


---The first tokens of each row with padding on a side; the options that say so, and the column of
---each row's first token.
function stepping.padded(tokens, lengths, side)
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


return stepping
