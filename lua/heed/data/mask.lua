-- data.mask: hides some of the ids, which a model then learns to predict.
--
-- J. Devlin et al., "BERT" (2019), section 3.1, task 1: of the positions that are to be predicted,
-- 80 % show the mask, 10 % a random id, and 10 % stay as they are.

local heed = require "heed"
local options = require "heed.internal.options"
local within = require "heed.internal.within"

local fail, kind = heed.fail, options.kind

local IGNORED <const> = -100        -- cross_entropy's ignore_index


local function check_id(name, value)
  local id = type(value) == "number" and math.tointeger(value)
  if id and id >= 1 then return id end
  fail("data.mask: an id from 1 on expected as %s, got %s", name, kind(value))
end


local function check_shares(o)
  for _, name in ipairs{"rate", "keep", "random"} do
    options.probability("data.mask", "option " .. name, o[name])
  end
  if o.keep + o.random > 1 then
    fail("data.mask: options keep and random that add up to 1 at most expected, got %s and %s",
         o.keep, o.random)
  end
  o.mask = check_id("option mask", o.mask)
  if o.vocabulary ~= nil or o.random > 0 then
    o.vocabulary = check_id("option vocabulary, up to which random ids are drawn", o.vocabulary)
  end
end


local function check_ids(ids)
  if heed.is_tensor(ids) and ids.dtype == "int64" and ids:dim() > 0 then return end
  fail("data.mask: argument 'ids': an int64 tensor expected, got %s", options.typed(ids))
end


-- Bools (B, T): whether each position lies within its sequence.
local function shown_by(ids, lengths)
  if type(lengths) == "table" then lengths = heed.tensor(lengths, {device = "cpu"}) end
  if not heed.is_tensor(lengths) or ids:dim() ~= 2 or lengths:dim() ~= 1
     or #lengths ~= #ids or lengths.dtype ~= "int64" then
    fail("data.mask: option lengths: one whole number for each sequence of ids (B, T) expected, "
         .. "got %s for %s", kind(lengths), kind(ids))
  end
  return within("data.mask", lengths, ids:size(2)):to(ids.device)
end


-- Bools like ids: whether a position may be hidden.
local function candidates(ids, o)
  local special = o.special == nil and {} or o.special
  if type(special) ~= "table" then
    fail("data.mask: a list of ids expected as option special, got %s", kind(special))
  end
  local allowed = ids:ne(o.mask)
  for i, id in ipairs(options.whole("data.mask: option special", special)) do
    allowed = allowed & ids:ne(check_id(("option special[%d]"):format(i), id))
  end
  if o.lengths ~= nil then allowed = allowed & shown_by(ids, o.lengths) end
  return allowed
end


---@class heed.data.mask.options
---@field mask integer the id that hides another
---@field rate? number how many are to be predicted; 0.15 unless given
---@field keep? number how many of these stay as they are; 0.1 unless given
---@field random? number how many of these become a random id; 0.1 unless given
---@field vocabulary? integer random ids are from 1 to this; needed unless random is 0
---@field lengths? heed.Tensor|integer[] (B) of the sequences, where they are padded
---@field special? integer[] ids that are never to be predicted; the mask never is

---Hides ids at random, by the module's generator. Of few ids none may be chosen: a mean loss over
---none is NaN.
---@param ids heed.Tensor int64 (B, T), or another shape
---@param given heed.data.mask.options
---@return heed.Tensor inputs what a model gets, like ids
---@return heed.Tensor targets what it is to predict: ids, and -100 where nothing is
return function(ids, given, ...)
  options.no_more("data.mask", 2, ...)
  local o = options.read("data.mask", given, {
    keep = 0.1, lengths = options.any, mask = options.any, random = 0.1, rate = 0.15,
    special = options.any, vocabulary = options.any,
  })
  check_ids(ids)
  check_shares(o)
  local shape, here = {ids:size()}, ids.device
  local function drawn(t) return t:to(here) end           -- the same numbers on each device
  local chosen = drawn(heed.rand(shape, {device = "cpu"})):lt(o.rate) & candidates(ids, o)
  local how = drawn(heed.rand(shape, {device = "cpu"}))
  local others = o.vocabulary and drawn(heed.randint(1, o.vocabulary, shape, {device = "cpu"}))
  local hidden, shown = 1 - o.keep - o.random, 1 - o.keep
  local inputs = ids:masked_fill(chosen & how:lt(hidden), o.mask)
  if others then inputs = heed.where(chosen & how:ge(hidden) & how:lt(shown), others, inputs) end
  return inputs, ids:masked_fill(~chosen, IGNORED)
end
