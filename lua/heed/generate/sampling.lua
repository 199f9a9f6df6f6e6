-- heed.sample: draws an id by its probability, from the ids that the options leave.
--
-- Options apply in the order of their functions below: repetition_penalty (N. Keskar et al.,
-- "CTRL", 2019, section 4.1), temperature, top_k (A. Fan et al., "Hierarchical neural story
-- generation", 2018), top_p (A. Holtzman et al., "The curious case of neural text degeneration",
-- 2020), min_p (M. Nguyen et al., "Turning up the heat", 2024).

local heed = require "heed"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"

local fail, kind = heed.fail, options.kind

local sampling = {}

sampling.known = {
  min_p = options.any, repetition_penalty = options.any, temperature = options.any,
  top_k = options.any, top_p = options.any,
}


---Checks the options for sampling.
---@param who string
---@param o heed.sample.options
function sampling.check(who, o)
  if o.temperature ~= nil then options.positive(who, "option temperature", o.temperature) end
  if o.top_k ~= nil then o.top_k = options.count(who, "option top_k", o.top_k) end
  for _, name in ipairs{"top_p", "min_p"} do
    if o[name] ~= nil then options.probability(who, "option " .. name, o[name]) end
  end
  local penalty = o.repetition_penalty
  if penalty == nil then return end
  if type(penalty) ~= "number" or not (penalty > 0 and penalty < math.huge) then
    fail("%s: a finite number above 0 expected as option repetition_penalty, got %s", who,
         kind(penalty))
  end
end


---Refuses rows without a best logit: NaN, or -inf throughout.
---@param who string
---@param logits heed.Tensor (R, V)
---@return number[] best the best logit of each row
function sampling.check_best(who, logits)
  local best = logits:detach():amax(2):totable()
  for r, value in ipairs(best) do
    if not (value > -math.huge) then
      fail("%s: logits with a largest number expected, got %s as that of row %d", who, kind(value),
           r)
    end
  end
  return best
end


-- Each function below maps logits (R, V) to logits; an id with -inf cannot be drawn.

local HISTORY <const> = "sample: option history"

local function check_ids(history, V)
  for r, ids in ipairs(history) do
    for i, id in ipairs(ids) do
      if type(id) ~= "number" or not math.tointeger(id) then
        fail(HISTORY .. ": ids expected, got %s at position (%d, %d)", kind(id), r, i)
      elseif id < 1 or id > V then
        fail(HISTORY .. ": ids from 1 to %d expected, got %d", V, id)
      end
    end
  end
end


-- Bools (R, V): whether the history of a row holds an id.
local function seen(logits, history)
  local R, V = logits:size()
  local marks = heed.zeros(R, V, {device = logits.device})
  check_ids(history, V)
  for r = 1, R do
    if #history[r] > 0 then
      marks[r][heed.tensor(history[r], {dtype = "int64", device = logits.device})] = 1.0
    end
  end
  return marks:gt(0)
end


local function penalised(logits, o)
  local penalty = o.repetition_penalty
  if not penalty or penalty == 1 then return logits end
  local changed = heed.where(logits:gt(0), logits / penalty, logits * penalty)
  return heed.where(seen(logits, o.history), changed, logits)
end


local function without(logits, dropped) return logits:masked_fill(dropped, -math.huge) end


-- Keeps the best k logits, and all that equal the last of them.
local function best_k(logits, k)
  if not k or k >= logits:size(2) then return logits end
  local least = logits:topk(k, 2):narrow(2, k, 1)                    -- (R, 1)
  return without(logits, logits:lt(least))
end


-- Keeps the smallest set of ids whose probabilities add up to p, at least one.
local function nucleus(logits, p)
  if not p or p == 1 then return logits end
  local sorted, places = logits:sort(2, true)
  local probabilities = sorted:softmax(2)
  local dropped = (probabilities:cumsum(2) - probabilities):ge(p):to("float32")
  dropped:narrow(2, 1, 1):fill_(0)
  return without(logits, dropped:scatter(2, places, dropped):gt(0))
end


-- Keeps the ids that are at least p times as probable as the best.
local function likely(logits, p)
  if not p or p == 0 then return logits end
  local probabilities = logits:softmax(2)
  local best = probabilities:max(2, true)
  return without(logits, probabilities:lt(best * p))
end


-- Smaller temperatures would be 0 in a type.
local TINY <const> = {float32 = 2.0 ^ -126, float64 = 2.0 ^ -1022}
local SMALL <const> = 1e-3             -- a lesser one may take logits out of their type's range


-- Logits by a temperature. A small one, or one that takes the best of a row out of their type's
-- range, gets them as distances from the best, which stay numbers. `largest` is the best's size.
local function tempered(logits, temperature, largest)
  local fits = largest < temperature / TINY[logits.dtype]
  if temperature >= SMALL and fits then return logits / temperature end
  return (logits - logits:amax(2, true)) / math.max(temperature, TINY[logits.dtype])
end


-- Probabilities (R, V), 0 for the ids that the options exclude.
local function probabilities_of(logits, largest, o)
  local allowed = best_k(tempered(logits, o.temperature or 1, largest), o.top_k)
  return likely(nucleus(allowed, o.top_p), o.min_p):softmax(2)
end


-- Refuses rows whose best logit is inf, which has no probabilities; gives the largest size of all.
local function largest_of(best)
  local largest = 0
  for r, value in ipairs(best) do
    if value == math.huge then
      fail("sample: logits below inf expected, got inf as the largest of row %d; temperature = 0 "
           .. "takes it", r)
    end
    largest = math.max(largest, math.abs(value))
  end
  return largest
end


-- The best id of each row, whose probability is 1.
local function certain(logits, o)
  local ids = logits:argmax(2)
  if not o.probabilities then return ids end
  return ids, heed.zeros_like(logits):scatter(2, ids:unsqueeze(2), 1)
end


---Ids of rows, and what their probabilities were.
---@param logits heed.Tensor (R, V)
---@param o heed.sample.options with a history for each row
---@param best? number[] what `check_best` gave for these logits
---@return heed.Tensor ids int64 (R)
---@return heed.Tensor? probabilities (R, V); nil of the best ids, unless o.probabilities
function sampling.draw(logits, o, best)
  if logits.dtype ~= "float64" then logits = logits:to("float32") end
  local changed = penalised(logits, o)
  if o.temperature == 0 then return certain(changed, o) end
  if not best or changed ~= logits then best = sampling.check_best("sample", changed) end
  local probabilities = probabilities_of(changed, largest_of(best), o)
  return probabilities:multinomial(1):squeeze(2), probabilities
end


---The log-probabilities of ids.
---@param logits heed.Tensor (R, V)
---@param ids heed.Tensor int64 (R)
---@return heed.Tensor scores (R)
function sampling.scores(logits, ids)
  if logits.dtype ~= "float64" then logits = logits:to("float32") end
  return logits:log_softmax(2):gather(2, ids:unsqueeze(2)):squeeze(2)
end


local function check_logits(logits)
  if heed.is_tensor(logits) and logits.dtype:find("float") and logits:dim() > 0
     and logits:size(-1) > 0 then
    return
  end
  fail("sample: argument 'logits': a float tensor (..., V) expected, got %s", options.typed(logits))
end


-- Converts the history to a list for each of R rows, of ids from 1 to V.
local function rows_of(history, R, V)
  if heed.is_tensor(history) and history.dtype == "int64" and history:dim() > 0 then
    history = history:reshape(-1, history:size(-1)):totable()
  end
  if type(history) ~= "table" then
    fail("sample: ids of each row expected as option history, for repetition_penalty, got %s",
         kind(history))
  end
  local rows = options.whole(HISTORY, history)
  if R == 1 and (type(rows[1]) == "number" or #rows == 0) then rows = {rows} end
  if #rows ~= R then
    fail(HISTORY .. ": ids for each of %d rows expected, got %d", R, #rows)
  end
  for r, ids in ipairs(rows) do
    rows[r] = heed.is_tensor(ids) and ids:totable() or ids
    if type(rows[r]) ~= "table" then
      fail(HISTORY .. ": a list of ids expected for row %d, got %s", r, kind(ids))
    end
    rows[r] = options.whole(HISTORY, rows[r])
  end
  check_ids(rows, V)
  return rows
end


---@class heed.sampling.options
---@field repetition_penalty? number divides positive logits of ids that were there, and multiplies
---negative ones, once for each id of the history
---@field temperature? number logits are divided by it; 0 takes the best id; 1 unless given
---@field top_k? integer only the best k, and all that tie with the last of them
---@field top_p? number only the smallest set whose probabilities reach this
---@field min_p? number only what is at least so many times as probable as the best
---@field seed? integer of a generator of its own

---@class heed.sample.options: heed.sampling.options
---@field history? heed.Tensor|integer[]|integer[][] (…, n) the ids that were there
---@field probabilities? boolean whether these come back too

---Draws an id from each row of logits. The repetition penalty applies first, then temperature,
---top_k, top_p and min_p.
---@param logits heed.Tensor (…, V)
---@param given? heed.sample.options
---@return heed.Tensor ids int64 (…)
---@return heed.Tensor? probabilities (…, V), with option probabilities
function sampling.sample(logits, given, ...)
  options.no_more("sample", 2, ...)
  local known = {history = options.any, probabilities = false, seed = options.any}
  for name, default in pairs(sampling.known) do known[name] = default end
  local o = options.read("sample", given, known)
  sampling.check("sample", o)
  check_logits(logits)
  local shape = {logits:size()}
  local rows = logits:detach():reshape(-1, shape[#shape])
  if o.repetition_penalty or o.history ~= nil then
    o.history = rows_of(o.history, #rows, rows:size(2))
  end
  local ids, probabilities = rng.own("sample", o.seed):run(sampling.draw, rows, o)
  ids = ids:reshape({table.unpack(shape, 1, #shape - 1)})
  return ids, o.probabilities and probabilities:reshape(shape) or nil
end


return sampling
