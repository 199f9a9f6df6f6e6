-- A vector for each text, from the features of its tokens: the ways of sentence-transformers. Those
-- that a directory names are joined in this order.

local heed = require "heed"
local pool = require "heed.nn.pool"
local refuse = require "heed.internal.refuse"

local pooling = {}

-- By nn.Pool, which knows them: features (B, T, D) and keys (B, T) -> (B, D).
local function by(way)
  local layer = pool.Pool(way)
  return function(x, keys) return layer(x, {keys = keys}) end
end

local mean = by "mean"

local WAYS = {
  {"cls", "pooling_mode_cls_token", by "first"},
  {"max", "pooling_mode_max_tokens", by "max"},
  {"mean", "pooling_mode_mean_tokens", mean},
  {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", function(x, keys)
    return mean(x, keys) * keys:sum(2, true):to(x.dtype):sqrt()
  end},
  {"weightedmean", "pooling_mode_weightedmean_tokens", function(x, keys)
    local weights = keys:to(x.dtype) * heed.arange(x:size(2), {device = x.device}):to(x.dtype)
    return (x * weights:unsqueeze(3)):sum(2) / weights:sum(2, true):clamp{min = 1e-9}
  end},
  {"lasttoken", "pooling_mode_lasttoken", by "last"},
}


-- The ways that a configuration names, as a set: by words, or by a flag for each.
local function named(c)
  local words, set = c.pooling_mode, {}
  if type(words) == "string" then words = {words} end
  if type(words) == "table" then
    for _, word in ipairs(words) do set[word] = true end
    return set
  end
  for _, row in ipairs(WAYS) do
    if c[row[2]] == true then set[row[1]] = true end
  end
  return set
end


---Reads a configuration: its ways, mean where it names none.
---@param c table
---@return fun(x: heed.Tensor, keys: heed.Tensor): heed.Tensor
function pooling.read(c)
  local set, chosen, known_words = named(c), {}, {}
  for _, row in ipairs(WAYS) do
    known_words[row[1]] = true
    if set[row[1]] then chosen[#chosen + 1] = row[3] end
  end
  for word in next, set do
    if not known_words[word] then
      refuse.with("Pooling: the way %s is not known", refuse.quoted(tostring(word)))
    end
  end
  for key in next, c do
    local known = key:find("^pooling_mode") == nil
    for _, row in ipairs(WAYS) do known = known or key == row[2] end
    if not known and key ~= "pooling_mode" and c[key] ~= false then
      refuse.with("Pooling: the key %s is not known", refuse.quoted(key))
    end
  end
  if #chosen == 0 then chosen[1] = mean end
  return function(x, keys)
    local parts = {}
    for i, way in ipairs(chosen) do parts[i] = way(x, keys) end
    return #parts == 1 and parts[1] or heed.cat(parts, -1)
  end
end


return pooling
