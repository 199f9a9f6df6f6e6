-- Heed's side of the rows in differential_models.py: layers, optimisers, first weights, sampling
-- and beams. Each function does what its namesake there does, from the same seed and options.

local heed = require "heed"
local nn = heed.nn

local models = {}


local function sorted_names(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end


-- A module's state, or what else it has for each weight, in PyTorch's order and form: one vector.
local function flattened(state)
  local parts = {}
  for i, name in ipairs(sorted_names(state)) do parts[i] = state[name]:detach():flatten() end
  return heed.cat(parts, 1)
end


-- Weights that are not those at first: no bias is 0, no norm's weight 1.
local function stirred(m, o, dtype)
  heed.manual_seed(o.seed + 1)
  local state = nn.to_torch(m)
  for _, name in ipairs(sorted_names(state)) do
    local noise = (heed.rand(state[name].shape) - 0.5) * 0.75      -- exact, unlike randn
    state[name] = o.memory and noise or state[name]:detach() + noise
  end
  m:load_state(nn.from_torch(state, m))
  return m:to(dtype)
end


-- The results, and the gradients of all weights.
local function with_gradients(m, y, ...)
  local parameters = m:parameters()
  local gradients = heed.grad(y:sin():sum(), parameters, nil, {retain_graph = true})
  local holder = m:clone()
  heed.no_grad(function()
    for i, p in ipairs(holder:parameters()) do p:copy_(gradients[i]) end
  end)
  return y, flattened(nn.to_torch(holder)), ...
end


-- No row is without a key: the first is always there.
local function with_first(t)
  return t and t:logical_or(heed.arange(t:size(-1)):eq(1)) or nil
end


function models.attention(o, x, context, keys, mask)
  heed.manual_seed(o.seed)
  local m = nn.MultiHeadAttention(x:size(3), o.heads, {
    bias = o.bias, context_dim = context and context:size(3), memory = o.memory and 1 or nil,
    value_context_dim = o.vdim, qk_norm = false,
  })
  m = stirred(m, o, x.dtype)
  local call = {causal = o.causal, weights = o.weights}
  if mask then
    if o.form == "bias" then call.bias = mask
    elseif o.form == "heads" then call.mask = with_first(mask):unsqueeze(1)
    elseif o.form == "rows" then call.mask = with_first(mask):unsqueeze(2)
    else call.mask = with_first(mask) end
  end
  if o.padding == "keys" then call.keys = with_first(keys)
  elseif o.padding == "lengths" then call.lengths = keys:to("int64"):sum(2):clamp{min = 1} end
  if o.vdim then call.values = context:narrow(3, 1, o.vdim) * 2 end
  local y, weights = m(x, context, call)
  return with_gradients(m, y, weights)
end


local function options_of(o)
  return {
    norm = o.first and "pre" or "post", activation = o.activation, bias = o.bias, eps = o.eps,
    hidden = o.hidden, final_norm = o.final,
  }
end


local function new_transformer(o, dim)
  local given = options_of(o)
  if o.kind == "Transformer" then
    given.layers, given.final_norm = {o.layers, o.layers2}, nil
    return nn.Transformer(dim, o.heads, given)
  elseif o.kind:find("Layer") then
    given.hidden, given.final_norm = nil, nil
    return nn[o.kind](dim, o.heads, o.hidden, given)
  end
  return nn[o.kind](dim, o.heads, o.layers, given)
end


-- One of the layers and stacks by its name: features, context, which keys of the context are
-- there (in an encoder, of x), mask.
function models.transformer(o, x, context, keys, mask)
  heed.manual_seed(o.seed)
  local m = stirred(new_transformer(o, x:size(3)), o, x.dtype)
  keys, mask = with_first(keys), with_first(mask)
  if o.kind:find("Encoder") then
    return with_gradients(m, (m(x, {keys = keys, mask = mask, causal = o.causal})))
  elseif o.kind == "Transformer" then
    return with_gradients(m, (m(context, x, {context_keys = keys, mask = mask, causal = o.causal})))
  end
  return with_gradients(m, (m(x, context, {context_keys = keys, mask = mask, causal = o.causal})))
end


-- Steps of an optimiser from two parameters, whose second is in a group of its own if there are
-- options for it.
function models.optimised(o, a, b)
  local leaves = {a:detach():clone():requires_grad_(), b:detach():clone():requires_grad_()}
  local groups = leaves
  if o.group then
    local second = {params = {leaves[2]}}
    for name, value in pairs(o.group) do second[name] = value end
    groups = {{params = {leaves[1]}}, second}
  end
  local opt, norm = heed.optim[o.kind](groups, o.options), nil
  for i = 1, 5 do
    opt:zero_grad()
    local loss = (leaves[1] * 3):sin():sum()
    if i ~= o.without then loss = loss + ((leaves[2] - 0.3) ^ 2 * i):sum() end
    loss:backward()
    if o.clip then norm = heed.optim.clip_grad_norm(leaves, o.clip, o.norm) end
    opt:step()
    if i == 3 then opt.groups[1].lr = opt.groups[1].lr / 2 end
  end
  return leaves[1], leaves[2], norm
end


function models.first_weights(o, like)
  heed.manual_seed(o.seed)
  local t = heed.empty(o.size, {dtype = like.dtype})
  return nn.init[o.name](t, o.options), heed.rand(3)
end


function models.sampled(o, logits, history)
  local _, p = heed.sample(logits, {
    temperature = o.temperature, top_k = o.top_k, top_p = o.top_p, min_p = o.min_p,
    repetition_penalty = o.penalty, history = o.penalty and history or nil, probabilities = true,
  })
  return p
end


-- The best of all sequences: by so many beams that none is left out; and by fewer. A model's next
-- id depends on the last two.
function models.searched(o, last, before)
  local function model(ids)
    local y = heed.embedding(ids, last)
    if ids:size(2) == 1 then return y end
    local none = heed.zeros(ids:size(1), 1, y:size(3), {dtype = y.dtype})
    return y + heed.cat({none, heed.embedding(ids:narrow(2, 1, ids:size(2) - 1), before)}, 2)
  end
  local _, beams = heed.generate(model, o.prompt, {
    max = o.max, beams = o.beams, stop = o.stop, length_penalty = o.penalty, cache = false,
    early_stopping = o.early,
  })
  local ids, scores = {}, {}
  for i = 1, math.min(o.show, #beams) do
    ids[i] = heed.cat({beams[i].ids, heed.zeros(o.max - #beams[i].ids, {dtype = "int64"})}, 1)
    scores[i] = beams[i].score
  end
  return heed.stack(ids, 1), heed.tensor(scores, {dtype = "float64"})
end


function models.turned(o, x, positions)
  return heed.position.rope(x, {
    base = o.base, fraction = o.fraction, interleaved = o.interleaved, offset = o.offset,
    positions = positions,
  })
end


function models.sinusoidal(o, like)
  return heed.position.sinusoidal(o.T, o.D, {base = o.base, offset = o.offset, dtype = like.dtype})
end


local CODES <const> = {
  bool = 1, uint8 = 2, int64 = 3, float16 = 4, bfloat16 = 5, float32 = 6, float64 = 7,
}

-- The types of what a function gives in mixed precision, as numbers.
function models.mixed(dtype, f, ...)
  local codes = {}
  for i, y in ipairs{heed.autocast(dtype, f, ...)} do codes[i] = CODES[y.dtype] end
  return heed.tensor(codes, {dtype = "int64"})
end


return models
