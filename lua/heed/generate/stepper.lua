-- Calls a model for the logits of the next id, with a cache of keys and values or without.
--
-- A model may give other logits with a cache than without, silently: what it adds by position knows
-- nothing of the cache unless it is told. The first step of a model with a cache that nobody asked
-- for is therefore compared with a full pass, once for each model.

local Cache = require "heed.nn.cache"
local core = require "heed.core"
local foreign = require "heed.nn.foreign"
local heed = require "heed"
local MultiHeadAttention = require "heed.nn.multihead"
local options = require "heed.internal.options"
local positions = require "heed.nn.positions"
local Replay = require "heed.generate.replay"
local rng = require "heed.internal.rng"
local rope = require "heed.attention.rope"

local fail, kind = heed.fail, options.kind

---@class heed.generate.Stepper
---@field rows integer[][]|false all ids, where there is no cache, it is still checked, or positions
---may end; of a window, its own
---@field modules heed.Module[] of the model
---@field room integer|false how many ids any model has positions for, while nobody asked which of
---them it uses
---@field replay heed.generate.Replay|false how steps are replayed; false where they are called
---@field checks integer how many steps with the cache are still to be compared with full passes
---@field asked boolean whether the caller asked for comparisons
local Stepper = {}
Stepper.__index = Stepper

-- Models that gave the same logits with a cache as without: "padded" also for prompts of different
-- lengths, "whole" for others.
local agreed = setmetatable({}, {__mode = "k"})

-- How far logits may be apart, as a part of their range, where rounding alone differs: by their
-- type, where products do not round more.
local APART = {float32 = 2e-3, float64 = 2e-3}
local APART_ROUNDED <const> = 0.05

local CHECKS <const> = 4             -- steps that option check compares


local function lengths_of(rows)
  for _, row in ipairs(rows) do
    if #row ~= #rows[1] then return "padded" end
  end
  return "whole"
end


local function longest_of(rows)
  local longest = 0
  for _, row in ipairs(rows) do longest = math.max(longest, #row) end
  return longest
end


local function cache_of(cache, replay, longest)
  if cache == false then return false end
  if cache == nil or cache == true then return replay and replay:cache_for(longest) or Cache() end
  if type(cache) == "table" and cache.reorder then return cache end
  fail("generate: a boolean or an nn.Cache expected as option cache, got %s", kind(cache))
end


-- A callback of `on_weights` would be called for the full pass, too.
local function is_watched(modules)
  for _, module in ipairs(modules) do
    if module:weights_callback() then return true end
  end
  return false
end


-- Whether no step with the cache needs a comparison.
local function is_trusted(model, modules, lengths, o)
  return o.cache ~= nil and o.cache ~= true or agreed[model] == "padded"
         or agreed[model] == lengths or is_watched(modules)
end


-- How many steps are compared with full passes.
local function checks_of(model, modules, lengths, o)
  if not o.check then return is_trusted(model, modules, lengths, o) and 0 or 1 end
  if o.cache == false then fail("generate: option check compares a cache, but cache is false") end
  if type(o.cache) == "table" and o.cache:length() > 0 then
    fail("generate: an empty cache expected with option check, got one of %d tokens",
         o.cache:length())
  end
  return CHECKS
end


-- How a cache would go without a comparison.
local function unchecked(self)
  if not self.asked then return "an nn.Cache() as option cache, which is not compared" end
  if not self.own then
    return "no option check: without it a cache that is given is not compared"
  end
  return "an nn.Cache() as option cache and no option check: then it is not compared"
end


-- The layers of learnt positions.
local function learned_in(modules)
  local list = {}
  for _, module in ipairs(modules) do
    if rawequal(getmetatable(module), positions.Learned) then list[#list + 1] = module end
  end
  return list
end


-- The least of their lengths; false for none.
local function least_length(list)
  local least = false
  for _, layer in ipairs(list) do
    least = math.min(least or math.maxinteger, layer.weight:size(1))
  end
  return least
end


---@param model function
---@param modules heed.Module[] of the model: none of a plain function
---@param prompt heed.generate.Prompt
---@param o heed.generate.options
---@param copies integer how many rows each prompt has
---@return heed.generate.Stepper
function Stepper.new(model, modules, prompt, o, copies)
  local lengths, longest = lengths_of(prompt.rows), longest_of(prompt.rows)
  local replay = Replay.choose(model, modules, o, longest + o.max, lengths == "whole")
  local function repeated(t) return t and (copies == 1 and t or t:repeat_interleave(copies, 1)) end
  return setmetatable({
    model = model, prompt = prompt, cache = cache_of(o.cache, replay, longest),
    rows = false, replay = replay,
    context = repeated(prompt.context),
    context_lengths = repeated(prompt.context_lengths),
    lengths = lengths, modules = modules, checks = checks_of(model, modules, lengths, o),
    own = not Cache.is(o.cache), asked = o.check, window = o.window or false,
    room = not o.window and not Cache.is(o.cache) and least_length(learned_in(modules)),
  }, Stepper)
end


-- The layers whose rope may turn all keys anew where the number of positions grows.
local function turning_layers(modules)
  local list = {}
  for _, module in ipairs(modules) do
    local is_attention = rawequal(getmetatable(module), MultiHeadAttention)
    if is_attention and rope.depends_on_length(module.rope or {}) then list[#list + 1] = module end
  end
  return list
end


-- Whether the keys in the cache are turned by other angles than those with one more id.
local function has_turned(self)
  local longest = longest_of(self.rows or {})
  for _, layer in ipairs(self.turning) do
    if not layer:turns_alike(longest - 1, longest) then return true end
  end
  return false
end


-- Calls the model, without an empty table of options: a plain function may take ids alone.
local function call(self, ids, lengths, last)
  local o = {
    cache = self.cache or nil, context_lengths = self.context_lengths or nil, last = last or nil,
    lengths = lengths,
  }
  if Cache.is(self.cache) then
    if self.context then return self.cache:pass(self.model, ids, self.context, o) end
    return self.cache:pass(self.model, ids, o)
  end
  if self.context then return self.model(ids, self.context, o) end
  if next(o) == nil then return self.model(ids) end
  return self.model(ids, o)
end


-- Whether logits behind the last ids may be asked for alone: no code of the caller's sees that
-- there are no others.
local function may_ask_last(self)
  for _, module in ipairs(self.modules) do
    if not foreign.is_own(module) then return false end
  end
  local gives_last = #self.modules > 0 and rawget(getmetatable(self.model), "gives_last")
  return gives_last and gives_last(self.model) or false
end


local function checked(logits, B, T)
  if heed.is_tensor(logits) and logits:dim() == 3 and logits.dtype:find("float")
     and logits:size(1) == B and logits:size(2) == T then
    return logits
  end
  fail("generate: logits (%d, %d, V) expected from the model, got %s", B, T, kind(logits))
end


-- The logits behind the last id of each row, (R, V); rows are padded on the right.
local function last_logits(self, rows)
  local ids, lengths = heed.pad(rows)
  ids, lengths = ids:to(self.prompt.device), lengths:to(self.prompt.device)
  local B, T = ids:size()
  local equal, last = lengths:min():item() == T, may_ask_last(self)
  local logits = call(self, ids, not equal and lengths or nil, last)
  if last then return checked(logits, B, 1):select(2, 1) end
  checked(logits, B, T)
  if equal then return logits:select(2, T) end
  return logits[{heed.arange(#ids, {device = ids.device}), lengths}]
end


-- The positions that the model adds where it is called with one id for each row; it may have
-- others, of an encoder.
local function layers_asked(self, rows)
  local cache, firsts = self.cache, {}
  for r, row in ipairs(rows) do firsts[r] = {row[1]} end
  local on = {fields = {self, "cache", cache and Cache()}}
  local back = {fields = {self, "cache", cache}}
  return positions.asked(1, core.commit_during, "generate", on, back, core.with_generators,
                         rng.states(), last_logits, self, firsts)
end


-- The rows that the model is to see, and whether all of them are whole. Where ids are more than any
-- positions, those that the model uses say how many it sees from then on.
local function within(self, rows)
  local longest, cut = longest_of(rows), {}
  if self.room and longest > self.room then
    self.window, self.room = least_length(layers_asked(self, rows)), false
  end
  if not self.window or longest <= self.window then return rows, true end
  for r, row in ipairs(rows) do
    cut[r] = table.move(row, math.max(#row - self.window, 0) + 1, #row, 1, {})
  end
  return cut, false
end


-- Whether ids are kept beside the cache.
local function needs_rows(self)
  return self.window or self.room or not self.cache or self.checks > 0 or #self.turning > 0
end


local function copied(rows)
  local copies = {}
  for r, row in ipairs(rows) do copies[r] = table.move(row, 1, #row, 1, {}) end
  return copies
end


---The logits behind prompts.
---@param rows integer[][]
---@return heed.Tensor logits (R, V)
function Stepper:begin(rows)
  rows = within(self, copied(rows))
  self.turning = self.cache and self.cache:length() == 0 and turning_layers(self.modules) or {}
  local logits = last_logits(self, rows)
  if self.cache and self.cache:length() == 0 then
    fail("generate: a model that passes its cache on to its layers expected, the cache is empty; "
         .. "or cache = false, which computes everything for each id")
  end
  self.rows = needs_rows(self) and rows
  return logits
end


-- How far two tensors of logits are apart, and how far they may be.
local function distance(a, b)
  local part = heed.matmul_precision() == "highest" and APART[a.dtype] or APART_ROUNDED
  a, b = a:to("cpu", "float64"), b:to("cpu", "float64")
  local known = b[b:isfinite()]
  local range = known:numel() > 0 and (known:max() - known:min()):item() or 0
  return heed.where(a:eq(b), 0, (a - b):abs()):max():item(), part * range
end


-- Refuses logits of a step that a full pass, in a cache of its own, does not give. What is
-- no number is refused elsewhere.
local function compare(self, logits)
  local cache = self.cache
  self.cache = Cache()
  local _, apart, allowed = core.with_generators(rng.states(), function()
    return distance(logits, last_logits(self, self.rows))
  end)
  self.cache = cache
  if apart > allowed then
    fail("generate: with a cache the model gives other logits than without, %.3g apart: positions "
         .. "need the cache, as in heed.position.Sinusoidal()(x, {cache = cache}) or "
         .. "cache:positions(T), and layers the lengths of padded prompts; or cache = false, which "
         .. "computes everything for each id; or %s", apart, unchecked(self))
  end
  if self.own then agreed[self.model] = self.lengths end
  self.checks = self.checks - 1
  self.rows = needs_rows(self) and self.rows
end


-- The logits behind ids (R, 1), by a replay where steps are replayed.
local function call_or_replay(self, t)
  local function logits_of(ids) return checked(call(self, ids), #ids, 1):select(2, 1) end
  if not self.replay then return logits_of(t) end
  if self.replay:is_due() then
    self.cache = self.replay:roomy(self.cache, 1)
    local logits = self.replay:call(logits_of, t)
    if logits then return logits end
  end
  self.cache, self.replay = self.replay:growing(self.cache), false
  return logits_of(t)
end


---The logits behind one more id for each row, which hold until the next step.
---@param ids integer[]
---@return heed.Tensor logits (R, V)
function Stepper:step(ids)
  if self.rows then
    local whole
    for r, row in ipairs(self.rows) do row[#row + 1] = ids[r] end
    self.rows, whole = within(self, self.rows)
    self.cache = whole and self.cache       -- its keys stand at positions that the window leaves
  end
  if not self.cache then return last_logits(self, self.rows) end
  if has_turned(self) then           -- all ids again, for which one of fixed capacity may lack room
    if self.own and Cache.is(self.cache) then self.cache = Cache() else self.cache:truncate(0) end
    return last_logits(self, self.rows)
  end
  local t = self.prompt:tensor(ids):unsqueeze(2)
  local logits = call_or_replay(self, t)
  if self.checks > 0 then compare(self, logits) end
  return logits
end


---How many guesses may follow the next id of the only row. Wrong ones are taken back, which serves
---where all that the model needs is in a cache, and ids are kept for learnt positions alone: as
---many as these are.
---@return number
function Stepper:most_guesses()
  if not Cache.is(self.cache) then return 0 end
  if not self.rows then return math.huge end
  if self.window or self.checks > 0 or #self.turning > 0 then return 0 end
  return self.room - #self.rows[1] - 1
end


---The logits behind an id of the only row, and behind each of those that may follow it.
---@param id integer
---@param guesses integer[]
---@return heed.Tensor logits (1 + #guesses, V)
function Stepper:steps(id, guesses)
  if #guesses == 0 then return self:step{id} end
  local ids, row = table.move(guesses, 1, #guesses, 2, {id}), self.rows and self.rows[1]
  if row then table.move(ids, 1, #ids, #row + 1, row) end
  local t = self.prompt:tensor(ids):unsqueeze(1)
  if self.replay then self.cache = self.replay:roomy(self.cache, #ids) end
  return checked(call(self, t), t:size())[1]
end


---Takes back the last ids that the model saw.
---@param n integer
function Stepper:forget(n)
  if n > 0 then self.cache:truncate(self.cache:length() - n) end
  local row = self.rows and self.rows[1]
  for _ = 1, row and n or 0 do row[#row] = nil end
end


---Replaces each row by a copy of another row, its parent.
---@param parents integer[]
function Stepper:reorder(parents)
  if self.cache then self.cache:reorder(self.prompt:tensor(parents)) end
  if not self.rows then return end
  local rows = {}
  for r, parent in ipairs(parents) do rows[r] = self.rows[parent] end
  self.rows = copied(rows)
end


return Stepper
