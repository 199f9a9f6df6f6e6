-- A call of an attention layer: what it was given, and attention with all of that.
--
-- Layers are called layer(x), layer(x, options), layer(x, context) or layer(x, context, options):
-- queries come from x, keys and values from the context, which is x itself unless given.

local Cache = require "heed.nn.cache"
local attention_values = require "heed.internal.attention_values"
local field = require "heed.internal.field"
local heed = require "heed"
local masks = require "heed.mask"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local part = require "heed.nn.part"
local places = require "heed.attention.places"
local rule = require "heed.internal.rule"
local steps = require "heed.nn.cache.steps"
local torch_names = require "heed.internal.torch_names"

---@class heed.attention.call: heed.attention.options
---@field mask? any who may attend: a value of heed.mask, or a bool tensor, true where it may, of
---shape (T, S), (B, 1, T, S) or (1, H, T, S), where 1 may stand for any size; a tensor of rank 3
---is refused, which may mean two things
---@field bias? any added to the scores: a value of heed.bias, or a tensor of such shapes
---@field keys? heed.Tensor bool (B, S): which keys are there; others are padding. With a cache
---these are the keys of x alone, or those of all calls so far
---@field values? heed.Tensor (B, S, ...) what values are made of, if not of what keys are
---@field positions? heed.Tensor int64 (T) or (B, T): where the tokens of x stand, from 0
---@field cache? heed.Cache keys and values of the calls before; of a context, those of the first
---call are used from then on
---@field weights? boolean whether the weights come back too; with a cache that has a capacity, for
---each position that it has room for
---@field lse? boolean whether the logarithms of the normalisers come back too

local attending = {}

local any = options.any
local is_bias = attention_values.is_bias
local dim, is_tensor, size = heed.dim, heed.is_tensor, heed.size
local weights_callback = Module.weights_callback

local CALL = {
  bias = any, cache = any, causal = false, dropout = any, fused = any, keys = any, lengths = any,
  lse = false, mask = any, offset = any, positions = any, scale = any, sink = any, softcap = any,
  values = any, weights = false,
}

-- Weights that layers have returned. Where a layer is called with the results of another, as in
-- b(a(x)), they come as its context.
local handed_out = setmetatable({}, {__mode = "k"})


-- The first axis of three may be that of sequences or that of heads; a layer of one head has no
-- axis of heads but in tensors of rank 4.
local function check_square(who, name, t, heads)
  if not heed.is_tensor(t) then return end
  local rank = t:dim()
  if rank ~= 3 and (rank < 4 or t:size(2) == 1 or t:size(2) == heads) then return end
  heed.fail("%s: option '%s': a shape such as (T, S), (B, 1, T, S) for sequences, or (1, H, T, S) "
            .. "for heads expected, or option 'lengths' for padding, got %s", who, name,
            options.kind(t))
end


local function rank_of(t)
  return is_tensor(t) and dim(t)
end


local function check_features(who, what, t, rank)
  if rank_of(t) == rank then return end
  if not is_tensor(t) then
    heed.fail("%s: a tensor expected as %s, got %s", who, what, options.kind(t))
  end
  heed.fail("%s: rank %d expected as %s, got %s", who, rank, what, options.kind(t))
end


local function check_context(who, context)
  if not handed_out[context] then return end
  heed.fail("%s: the weights of another layer came as context; write b((a(x))), in parentheses, or "
            .. "a(x, {weights = false})", who)
end


---Refuses what is no cache.
---@param who string
---@param cache any
function attending.check_cache(who, cache)
  if Cache.is(cache) then return end
  heed.fail("%s: an nn.Cache expected as option cache, got %s", who, options.kind(cache))
end


-- Gives the rank of x.
local function check_call(who, layer, x, context, o)
  local rank = rank_of(x)
  if rank ~= 2 and rank ~= 3 then check_features(who, "x", x, 3) end
  if context ~= nil then
    check_context(who, context)
    check_features(who, "context", context, rank)
  end
  if o.values ~= nil then check_features(who, "option values", o.values, rank) end
  if o.mask ~= nil then check_square(who, "mask", o.mask, layer.heads) end
  if o.bias ~= nil then check_square(who, "bias", o.bias, layer.heads) end
  if o.cache ~= nil then attending.check_cache(who, o.cache) end
  return rank
end


-- The keys and values of a context that a cache holds are used instead of the context, which must
-- have their shape.
local function check_stored(call)
  local B, _, S = call.stored.k:size()
  local b, s = call.context:size()
  if B == b and S == s then return end
  heed.fail("%s: a context of shape (%d, %d, ...) expected, which option cache holds, got %s; "
            .. "another context has an nn.Cache() of its own", call.who, B, S,
            options.kind(call.context))
end


-- A single sequence becomes a batch of one.
local function add_batch(call)
  call.x = call.x:unsqueeze(1)
  call.context = call.context and call.context:unsqueeze(1)
  if call.values ~= nil then call.values = call.values:unsqueeze(1) end
  if rank_of(call.keys) == 1 then call.keys = call.keys:unsqueeze(1) end
end


-- Looks up what the cache holds of the context, and whether it goes on by keys of x.
local function find_stored(call)
  call.stored = call.cache:context(call.layer) or false
  call.grows = not call.context and not call.stored
  if call.stored and call.context then check_stored(call) end
end


---@class heed.attending a call
---@field layer heed.Module
---@field who string
---@field x heed.Tensor (B, T, dim)
---@field context heed.Tensor|false (B, S, context_dim), or false where x is its own
---@field options heed.attention.options a table of the call's own
---@field cache? heed.Cache
---@field keys? heed.Tensor
---@field positions? heed.Tensor
---@field values? heed.Tensor
---@field weights boolean
---@field lse? boolean
---@field callback? function that weights go to, too
---@field stored table|false what the cache holds of the context
---@field grows boolean whether the cache goes on by keys of x itself
---@field single boolean whether x came as (T, dim)

---Makes the function that reads what a layer was called with.
---@param who string
---@param weights boolean whether weights are returned unless the call says otherwise
---@return fun(layer: heed.Module, x: any, context: any, given: any): heed.attending
function attending.reader(who, weights)
  return function(layer, x, context, given)
    if given == nil and context ~= nil and not is_tensor(context) then
      context, given = nil, context
    end
    if is_tensor(given) then
      heed.fail("%s: a table of options expected, got %s; keys and values are made of one context: "
                .. "layer(x, context, options)", who, options.kind(given))
    end
    local o = options.given(who, given, CALL, torch_names.attention)
    local rank, wanted = check_call(who, layer, x, context, o), o.weights
    if wanted == nil then wanted = weights end
    local call = {
      layer = layer, who = who, x = x, context = context ~= x and context or false, options = o,
      cache = o.cache, keys = o.keys, positions = o.positions, values = o.values,
      weights = wanted, lse = o.lse, callback = weights_callback(layer),
      stored = false, grows = false, single = rank == 2,
    }
    o.cache, o.keys, o.positions, o.values = nil, nil, nil, nil    -- heed.attention takes none
    if call.single then add_batch(call) end
    if call.cache then find_stored(call) end
    return call
  end
end


-- Two masks, or two biases, either of which may be missing.
local function both(a, b)
  if a == nil or b == nil then return a or b end
  return a & b
end


local function sum(a, b)
  if a == nil or b == nil then return a or b end
  return a + b
end


-- The mask of the keys that are there.
local function mask_of_keys(who, keys, B, S)
  local good = heed.is_tensor(keys) and keys.dtype == "bool" and keys:dim() == 2
  if not good or keys:size(1) ~= B or keys:size(2) ~= S then
    heed.fail("%s: option 'keys': a bool tensor of shape (%d, %d) expected, true where keys are, "
              .. "got %s", who, B, S, options.typed(keys))
  end
  return masks.keys(keys)
end


-- The padding of the keys, as options keys and lengths. A cache knows the padding of a context from
-- the first call.
local function padding(call)
  local keys, lengths, stored = call.keys, call.options.lengths, call.stored
  if stored and keys == nil and lengths == nil then return stored.keys, stored.lengths end
  return keys, lengths
end


---Begins the step of a cache that goes on by keys of x.
---@param call heed.attending
---@return integer|heed.Tensor? positions of the first, as the cache has them
function attending.begin(call)
  if call.grows then
    return call.cache:place(call.layer, call.x, call.options.lengths, call.keys)
  end
end


---Where queries and keys stand: integers, or tensors of positions. Queries end where keys end,
---unless the call says otherwise.
---@param call heed.attending
---@param S integer how many keys there are
---@return integer|heed.Tensor queries
---@return integer|heed.Tensor keys
function attending.places(call, S)
  local offset, at = call.options.offset, call.positions
  if call.grows then
    local place = attending.begin(call)
    if at == nil then at = place end
    return at, at
  elseif at ~= nil then
    return at, call.context and 0 or at
  elseif call.keys ~= nil and offset == nil and not call.context then
    mask_of_keys(call.who, call.keys, size(call.x, 1), S)
    at = places.of_keys(call.keys)
    return at, at
  end
  return offset ~= nil and offset or S - size(call.x, 2), 0
end


---Refuses positions where a layer has no use for them.
---@param call heed.attending
function attending.refuse_positions(call)
  if call.positions == nil then return end
  heed.fail("%s: option positions: the layer was made with neither rope nor position", call.who)
end


-- Whether a cache with a capacity can tell a mask where the queries stand: keys behind a query are
-- at no distance that it asks for.
local function fits_capacity(call, o)
  return rule.is_of_distances(o.mask) and (o.causal or size(call.x, 2) == 1)
end


-- Refuses what would count keys wrongly in a cache. One with keep does not hold what is between.
local function check_cached(call, o)
  local cache, mask = call.cache, o.mask
  local absolute = rule.is(mask) and (rule.is_absolute(mask) or rule.has_predicate(mask))
  if cache.capacity and o.bias ~= nil then
    heed.fail("%s: option bias: not with a cache that has a capacity: its keys do not end where "
              .. "the queries do", call.who)
  elseif cache.capacity and mask ~= nil and not fits_capacity(call, o) then
    heed.fail("%s: option mask: not with a cache that has a capacity, but for one of distances, "
              .. "such as a window, of one query or in a causal call: keys do not end where the "
              .. "queries do", call.who)
  elseif o.offset ~= nil then
    heed.fail("%s: option offset: the cache knows where the queries stand", call.who)
  elseif cache.keep > 0 and (mask ~= nil or o.bias ~= nil) then
    heed.fail("%s: option %s: not with a cache that keeps the first positions: those between are "
              .. "not there to be counted", call.who, mask ~= nil and "mask" or "bias")
  elseif absolute and cache:has_moved() then
    heed.fail("%s: option mask: one that counts from the query's position expected, such as causal "
              .. "or window, since keys are not where they were when they came, got %s", call.who,
              tostring(mask):match("[^\n]*"))
  end
end


-- Of x itself, with a cache.
local function attend_further(call, q, k, v, o, run)
  check_cached(call, o)
  local fixed = call.cache.capacity
  local alone = fixed and not o.weights and steps.is_new(call.cache)
  local all_k, all_v, mask = call.cache:append(call.layer, k, v, o.causal or false,
                                               fixed and not alone and o.mask or nil)
  if alone then                                            -- all other columns are empty
    all_k, all_v, mask, fixed = k, v, nil, false
  end
  if rule.is(o.mask) then o.mask = rule.behind(o.mask, size(all_k, 3) - size(k, 3)) end
  o.lengths, o.mask = nil, fixed and mask or both(mask, o.mask)
  if fixed then o.causal = false end                       -- the mask says so
  local z, weights, lse = run(q, all_k, all_v, o)
  call.cache:commit(call.layer)
  return z, weights, lse
end


-- Of x itself without a cache, or of a context.
local function attend_once(call, q, k, v, o, run)
  local keys, lengths = padding(call)
  o.lengths = lengths
  if keys ~= nil then
    o.mask = both(mask_of_keys(call.who, keys, k:size(1), k:size(3)), o.mask)
  end
  local z, weights, lse = run(q, k, v, o)
  if call.stored then
    call.cache:attended(call.layer)
  elseif call.cache then
    lengths = lengths ~= nil and lengths:expand(k:size(1)) or nil
    call.cache:store(call.layer, {k = k, v = v, keys = keys, lengths = lengths})
  end
  return z, weights, lse
end


-- The bias that a module or a function in field position_bias gives, and a bias besides.
local function computed_bias(who, f, other)
  return attention_values.computed(function(T, S, q)
    local own = f(T, S, q)
    if not is_bias(own) and not (is_tensor(own) and own.dtype:find("float")) then
      heed.fail("%s: a value of heed.bias or a float tensor expected from field 'position_bias', "
                .. "got %s", who, options.typed(own))
    end
    if is_bias(other) then own, other = other, own end
    return sum(own, other)
  end)
end


-- The layer's own mask, bias, scale, softcap, sink and dropout.
local function add_own(call, layer)
  local o, mask, bias, sink = call.options, layer.mask, layer.position_bias, layer.sink
  if mask then o.mask = both(mask, o.mask) end
  if bias and not is_bias(bias) then
    o.bias = computed_bias(call.who, part.of(call.who, layer, "position_bias"), o.bias)
  elseif bias then
    o.bias = sum(bias, o.bias)
  end
  if sink then
    if o.sink ~= nil then
      heed.fail("%s: option sink: the layer has one of its own", call.who)
    end
    o.sink = sink
  end
  if o.scale == nil then o.scale = layer.scale or nil end
  if o.softcap == nil then o.softcap = layer.softcap or nil end
  if o.dropout == nil and layer.dropout ~= 0 and field.trains(layer) then
    o.dropout = layer.dropout
  end
end


---Attention with all that the call asks for. Changes its options.
---@param call heed.attending
---@param q heed.Tensor (B, H, T, D)
---@param k heed.Tensor (B, Hk, S, D)
---@param v heed.Tensor (B, Hk, S, Dv)
---@param run fun(q: heed.Tensor, k: heed.Tensor, v: heed.Tensor, o: table): heed.Tensor, ...
---@param own? heed.Module the layer, where it has a mask, position_bias, scale, softcap, sink and
---dropout
---@return heed.Tensor z (B, H, T, Dv)
---@return heed.Tensor? weights (B, H, T, S)
---@return heed.Tensor? lse (B, H, T)
function attending.attend(call, q, k, v, run, own)
  local o = call.options
  if own then add_own(call, own) end
  if call.weights or call.callback then o.weights = true end
  return (call.grows and attend_further or attend_once)(call, q, k, v, o, run)
end


---The layer's results: y, and weights and lse where the call asks for them, each in its place.
---Weights go to the callback of `on_weights`, too.
---@param call heed.attending
---@param y heed.Tensor (B, T, dim)
---@param weights? heed.Tensor (B, H, T, S), or (B, T, S)
---@param lse? heed.Tensor (B, H, T), or (B, T)
---@return heed.Tensor y
---@return heed.Tensor? weights
---@return heed.Tensor? lse
function attending.results(call, y, weights, lse)
  if call.single then
    y, weights = y:squeeze(1), weights and weights:squeeze(1)
    lse = lse and lse:squeeze(1)
  end
  if call.callback then call.callback(weights) end
  if call.weights then handed_out[weights] = true end
  if call.lse then return y, call.weights and weights or nil, lse end
  if call.weights then return y, weights end
  return y
end


return attending
