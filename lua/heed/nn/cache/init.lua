-- nn.Cache: the keys and values that a model's attention layers have computed, so that a step
-- computes those of new tokens alone.
--
--   local cache = nn.Cache()
--   local logits = model(prompt, {cache = cache})     -- (B, T)
--   logits = model(next, {cache = cache})             -- (B, 1), and so on
--
-- One cache serves a whole model. A call of the model is one *pass*, and one *step*, in which every
-- *use* of a layer takes part once: a layer that a model calls several times in a pass, as ALBERT
-- does, has a *slot* for each of these calls. The pass is the call of the outermost module that
-- began after the cache was made; what is no module is called by `cache:pass`. The first step shows
-- which uses there are. A later step is whole when all of them are done; where one is missing, the
-- call failed on its way, and the slots do not hold the same tokens.
--
-- A cache keeps columns in one of two stores, which have this interface (`cache` is the cache):
--
--   check_capture()                          refuses captured work, where the store cannot serve it
--   check_call(cache, slot, x, lengths, keys)   refuses what a call must not bring
--   new_step(cache, x, lengths, keys)        a step of x's tokens: {T, first, done, positions, ...}
--   check_same(cache, x, lengths, keys)      refuses a layer's call that differs from its step
--   append(cache, slot, k, v, causal, mask)  the slot to commit, all keys and values, and a mask
--   written(step, done, uses)                where it ends a step: a tensor, and its value then
--   has_moved(cache)                         whether columns are not numbered as tokens are
--   length(cache), positions(cache, T, given)   of the tokens before the next step
--   reorder(cache, ids), truncate(cache, n, length)
--   clone(cache, copy)                       fills a copy, which has the contexts already
--   alignment(cache), limit(cache)           how columns of whole steps are aligned, nil for none;
--                                            how many it keeps
--   read(cache, slot)                        keys and values of whole steps
--   fill(cache, slots, held, to, device)     makes slots of {k, v} by uses: a step, and `at`
--   own(t)                                   a context's tensor, as the cache keeps it

local recording = require "heed.internal.recording"
local columns = require "heed.nn.cache.columns"
local core = require "heed.core"
local fixed = require "heed.nn.cache.fixed"
local growing = require "heed.nn.cache.growing"
local heed = require "heed"
local options = require "heed.internal.options"
local steps = require "heed.nn.cache.steps"

local fail = heed.fail
local getmetatable, rawequal, type = getmetatable, rawequal, type   -- calls of layers take them

---@class heed.Cache
---> heed.nn.Cache{capacity = 8}:length() == 0
---> tostring(heed.nn.Cache()) == tostring(heed.nn.Cache():clone())
---@field window integer|false how many of the last positions are kept
---@field keep integer how many of the first positions are kept besides
---@field capacity integer|false how many positions there is room for
---@overload fun(options?: heed.Cache.options): heed.Cache
local Cache = {__name = "Cache"}

---@class heed.Cache.options
---@field window? integer a query sees itself and the window - 1 positions before it, as
---`mask.window(window - 1, 0)` says of a whole pass; those further back are forgotten
---@field keep? integer the first positions, which a window does not forget: G. Xiao et al. (2023),
---"Efficient streaming language models with attention sinks"; 0 unless given
---@field capacity? integer room for so many positions, made once: then the work of a step is always
---the same, and `heed.capture` can keep it. Without gradients, padding, masks and biases. Weights
---of attention then have a column for each of these positions, 0 where no key is yet. A rope that
---turns all keys by other angles behind some number of positions takes no more than that

local SELF <const> = "nn.Cache"


function Cache:__index(name)
  local value = Cache[name]
  if value == nil then return options.refuse_name(SELF, name, Cache) end
  return value
end


---Whether a value is a cache.
---@param value any
---@return boolean
function Cache.is(value)
  return type(value) == "table" and rawequal(getmetatable(value), Cache)
end


-- The store of a cache. A field would show scripts a table that all caches share.
local function store_of(cache)
  return cache.capacity and fixed or growing
end


local function new(window, keep, capacity)
  return setmetatable({
    window = window, keep = keep, capacity = capacity,
    uses = {},                       -- layer -> its uses in a pass, in order
    slots = {},                      -- use -> its columns, or {context = ...}
    order = {},                      -- uses that attend to their own input, in the order of calls
    contexts = {},                   -- uses that attend to a context
    born = core.pass(),              -- modules whose calls began before are no passes
    inside = false,                  -- the call of `pass` that runs
    last_pass = false,               -- the pass of the last use,
    done = {},                       -- and how many uses of each layer it has done
    step = false,                    -- the present step, or the last one
    turn = false,                    -- the use between `place` and `commit`
    pending = false,                 -- the slot that the use has appended to
    at = false,                      -- with a capacity: int64 (1), the tokens before the next step
  }, Cache)
end


local function construct(_, given, ...)
  options.no_more(SELF, 1, ...)
  local o = options.read(SELF, given, {capacity = options.any, keep = 0, window = options.any})
  if o.capacity ~= nil then
    if o.window ~= nil then fail("%s: either capacity or window expected, got both", SELF) end
    return new(false, 0, options.count(SELF, "capacity", o.capacity))
  end
  local keep = options.count(SELF, "keep", o.keep, 0)
  if o.window == nil and keep > 0 then fail("%s: option keep: it goes with a window", SELF) end
  return new(o.window ~= nil and options.count(SELF, "window", o.window), keep, false)
end


-- For layers --------------------------------------------------------------

---Begins a layer's part of a step, with T new tokens. A layer that attends to its own input calls
---`place`, then `append`, then, when all went well, `commit`.
---@param layer heed.Module
---@param x heed.Tensor (B, T, ...)
---@param lengths? heed.Tensor (B) how many of a sequence's T columns are tokens; others follow them
---@param keys? heed.Tensor bool (B, T) which columns are tokens; others stand at either side. The
---columns of the calls before may stand in front of them
---@return integer|heed.Tensor positions of the first, from 0, where all sequences agree; or (B, T)
function Cache:place(layer, x, lengths, keys)
  local store, use = store_of(self), steps.use_of(self, layer)
  if not heed.is_tensor(x) or x:dim() < 2 then
    fail("place: a tensor of shape (B, T, ...) expected as x, got %s", options.kind(x))
  end
  store.check_capture()
  store.check_call(self, steps.slot_of(self, use, false), x, lengths, keys)
  self.turn, self.pending = use, false
  if steps.joined(self, use) then
    store.check_same(self, x, lengths, keys)
  else
    local step = store.new_step(self, x, lengths, keys)
    step.pass = self.last_pass
    self.step = step
  end
  return self.step.positions
end


---All keys and values, stored ones first, and the mask that joins that of the call.
---@param layer heed.Module
---@param k heed.Tensor (B, Hk, T, D)
---@param v heed.Tensor (B, Hk, T, Dv)
---@param causal? boolean whether the call is: asked for by a cache with a capacity, whose mask says
---so, since its keys do not end where the queries do
---@param own? heed.Mask of distances, the call's: for a cache with a capacity, whose mask is both
---@return heed.Tensor k (B, Hk, S + T, D); with a capacity (B, Hk, capacity, D)
---@return heed.Tensor v (B, Hk, S + T, Dv); with a capacity (B, Hk, capacity, Dv)
---@return heed.Mask? mask
function Cache:append(layer, k, v, causal, own)
  local mask
  steps.check_appended(self, layer, k, v, causal, own)
  local slot = steps.slot_of(self, self.turn, false)
  self.pending, k, v, mask = store_of(self).append(self, slot, k, v, causal, own)
  return k, v, mask
end


---Ends a layer's part of a step: the cache keeps what was appended.
---@param layer heed.Module
function Cache:commit(layer)
  steps.check_order(self, "commit", layer, self.pending)
  steps.commit(self, store_of(self))
end


---Whether the columns of the present step are not numbered as tokens are: the cache moved sequences
---to their ends, or has forgotten some columns.
---@return boolean
function Cache:has_moved() return self.step and store_of(self).has_moved(self) end


---The keys and values that a layer made of its context for the use that begins; nil before its
---first call.
---@param layer heed.Module
---@return {k: heed.Tensor, v: heed.Tensor, lengths: heed.Tensor?, keys: heed.Tensor?}?
function Cache:context(layer)
  store_of(self).check_capture()
  if #self.contexts == 0 and type(layer) == "table" then return nil end      -- none was stored
  local slot = self.slots[steps.use_of(self, layer)]
  return slot and slot.context or nil
end


---A layer has attended to what `context` gave: its next use in this pass is another.
---@param layer heed.Module
function Cache:attended(layer)
  steps.finish(self, steps.use_of(self, layer))
end


local function check_context(context)
  local given = options.read("store", context, {
    k = options.any, keys = options.any, lengths = options.any, v = options.any,
  })
  for _, name in ipairs{"k", "v", "keys", "lengths"} do
    local t, may_lack = given[name], name ~= "k" and name ~= "v"
    if not heed.is_tensor(t) and not (t == nil and may_lack) then
      fail("store: a tensor expected as %s of the context, got %s", name, options.kind(t))
    end
  end
end


local function add_context(cache, use, context)
  local own = {}
  for name, t in pairs(context) do own[name] = store_of(cache).own(t) end
  steps.add_context(cache, use, own)
end


---Keeps the keys and values that a layer made of its context; copies of them with a capacity, where
---`reorder` changes them in place.
---@param layer heed.Module
---@param context {k: heed.Tensor, v: heed.Tensor, lengths: heed.Tensor?, keys: heed.Tensor?}
function Cache:store(layer, context)
  if recording.running() then
    fail("%s: what a layer makes of its context is kept from the first call, which cannot be "
         .. "captured; call the model once before with this cache", SELF)
  end
  local use = steps.use_of(self, layer)
  check_context(context)
  steps.slot_of(self, use, true)
  add_context(self, use, context)
end


-- For models --------------------------------------------------------------

local function finish(pass, ...)
  pass.ended = true
  return ...
end


---Calls `f(...)` as one pass, in which a layer may be used several times: a plain function, or a
---module that is called in a loop of a module's own. Calls of modules are passes by themselves.
---@param f fun(...): ...
---@return any ... what f returns
function Cache:pass(f, ...)
  options.callable("pass", "f", f)
  local pass = {ended = false}
  local on, back = {fields = {self, "inside", pass}}, {fields = {self, "inside", self.inside}}
  return finish(pass, core.commit_during("pass", on, back, f, ...))
end


---How many tokens it has seen: those of the longest sequence.
---@return integer
function Cache:length() return store_of(self).length(self) end


---Where the next T tokens stand, from 0; in a pass whose step has begun, those of the step.
---@param T integer
---@param given? {lengths: heed.Tensor, keys: heed.Tensor} the padding of the call to come
---@return integer|heed.Tensor positions of the first token where all sequences agree; or int64
---(B, T)
function Cache:positions(T, given)
  T = options.count("positions", "the number of tokens", T, 0)
  if steps.runs(self) and self.step.T == T then return self.step.positions end
  return store_of(self).positions(self, T, given)
end


---Puts sequences into another order, as a search with beams does; a sequence may come several
---times, or not at all.
---@param ids heed.Tensor|integer[] which sequence each new one continues, from 1
---@return heed.Cache self
function Cache:reorder(ids)
  store_of(self).reorder(self, ids)
  return self
end


---Keeps the first n tokens and forgets those behind them. Tokens that a window has forgotten do not
---come back: a call that needs them is refused.
---@param n integer how many remain, of the longest sequence
---@return heed.Cache self
function Cache:truncate(n)
  local length = self:length()
  n = options.count("truncate", "the number of tokens", n, 0)
  if n > length then fail("truncate: at most %d tokens expected, got %d", length, n) end
  store_of(self).truncate(self, n, length)
  return self
end


-- A slot whose tensors have no graph.
local function detached(slot)
  local function cut(t) return heed.keep(t:detach()) end
  if slot.held then return {held = columns.map(slot.held, cut), step = slot.step} end
  if not slot.context then return slot end
  local context = {}
  for name, t in pairs(slot.context) do context[name] = cut(t) end
  return {context = context}
end


---Cuts the graph of what it holds, of contexts too: a later backward pass ends there. So
---Transformer-XL (Z. Dai et al., 2019) trains, segment by segment.
---@return heed.Cache self
function Cache:detach()
  steps.is_started(self, store_of(self))
  local slots = {}
  for use, slot in pairs(self.slots) do slots[use] = slot and detached(slot) end
  core.set_fields{self, "slots", slots}
  return self
end


---A copy, which goes on by itself.
---@return heed.Cache
function Cache:clone()
  local copy = new(self.window, self.keep, self.capacity)
  steps.is_started(self, store_of(self))
  for layer, uses in pairs(self.uses) do copy.uses[layer] = table.move(uses, 1, #uses, 1, {}) end
  for _, use in ipairs(self.contexts) do add_context(copy, use, self.slots[use].context) end
  for i, use in ipairs(self.order) do copy.order[i] = use end
  store_of(self).clone(self, copy)
  return copy
end


---What it holds, as tensors under names: those of the model's layers. Saved and loaded, they let a
---long prompt be read once.
---@param model heed.Module whose layers it serves
---@return table<string, heed.Tensor> state
function Cache:state(model)
  local store = store_of(self)
  steps.is_started(self, store)
  return require("heed.nn.cache.saved").state(self, model, store)
end


---Fills an empty cache with what `state` gave: calls go on as if the model had read the tokens. A
---state of other layers, of another shape, or of a type that neither they nor autocast make, is
---refused. A cache with a capacity takes the state of one that grows, without a window and
---padding, and the other way round.
---@param state table<string, heed.Tensor>
---@param model heed.Module the model, or another one of the same layers
---@return heed.Cache self
function Cache:load_state(state, model)
  local store = store_of(self)
  if steps.is_started(self, store) or #self.contexts > 0 then
    fail("load_state: an empty cache expected, as nn.Cache() makes, got one of %d tokens",
         self:length())
  end
  require("heed.nn.cache.saved").load(self, state, model, store)
  return self
end


-- What a cache with a capacity holds, where its length can be read now.
local function filled(self)
  local n = steps.is_empty(self) and 0 or recording.reaches(self.at) and self.at:item()
  if not n then return ("capacity %d"):format(self.capacity) end
  return ("%d of %d tokens"):format(math.min(n, self.capacity), self.capacity)
end


function Cache:__tostring()
  local layers = ("%d layers"):format(#self.order + #self.contexts)
  if self.capacity then return ("Cache(%s, %s)"):format(filled(self), layers) end
  local now = self.step and self.step.done > 0 and self.step.to
  local texts = {("%d tokens in %d rows"):format(now and now.length or 0, now and now.batch or 0)}
  texts[2] = layers
  if #self.contexts > 0 then texts[2] = layers .. (", %d of a context"):format(#self.contexts) end
  if self.window then texts[3] = "window " .. self.window end
  if self.keep > 0 then texts[4] = "keep " .. self.keep end
  return "Cache(" .. table.concat(texts, ", ") .. ")"
end


options.guard(Cache, {
  append = 5, attended = 1, clone = 0, commit = 1, context = 1, detach = 0, has_moved = 0,
  length = 0, load_state = 2, pass = math.huge, place = 4, positions = 2, reorder = 1, state = 1,
  store = 2, truncate = 1,
}, {is = Cache.is, what = "a cache", variable = "cache"})


return setmetatable(Cache, {__call = construct, __name = "class Cache"})
