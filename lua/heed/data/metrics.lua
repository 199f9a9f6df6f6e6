-- Metrics beside heed.accuracy: perplexity, the confusion matrix, precision, recall and F1.
--
-- Predictions are classes from 1, as lists or int64 tensors, or logits, whose largest one counts.

local heed = require "heed"
local options = require "heed.internal.options"

local fail, kind = heed.fail, options.kind

local metrics = {}

local NAMES <const> = {"predictions", "ids"}
local INTEGERS <const> = {int64 = true, uint8 = true}


-- A list or a tensor as a tensor without a graph.
local function as_tensor(who, name, value)
  if type(value) == "table" and getmetatable(value) == nil then
    local good, t = pcall(heed.tensor, value)
    if good then value = t end
  end
  if options.is_alive(value) then return value:detach() end
  fail("%s: argument '%s': a tensor or a list expected, got %s", who, name, kind(value))
end


-- Ids of classes as int64; integers alone are ids.
local function as_ids(who, i, t)
  if INTEGERS[t.dtype] then return t:to("int64") end
  if t:numel() == 0 then return heed.zeros(t.shape, {dtype = "int64", device = t.device}) end
  fail("%s: argument '%s': ids expected, got %s", who, NAMES[i], options.typed(t))
end


local function check_dim(who, logits, dim)
  local rank, axis = logits:dim(), math.tointeger(dim)
  if axis and axis ~= 0 and axis >= -rank and axis <= rank then return axis end
  fail("%s: option dim: an axis from 1 to %d or -%d to -1 expected, got %s for logits of shape %s",
       who, rank, rank, kind(dim), tostring(logits.shape))
end


local function check_shapes(who, shape, ids, logits)
  if shape == ids.shape then return end
  fail("%s: argument 'ids': shape %s expected, as the predictions have it, got %s%s", who,
       tostring(shape), tostring(ids.shape),
       logits and ("; floats are logits of %d classes"):format(logits) or "")
end


-- Refuses classes outside 1 to n; which argument they are is i.
local function check_classes(who, i, classes, n)
  local wrong = classes:lt(1) | classes:gt(n)
  if not wrong:any() then return end
  local id = classes[wrong][1]
  fail("%s: argument '%s': classes from 1 to %d expected, got %d%s", who, NAMES[i], n, id,
       id == 0 and "; classes count from 1: ids + 1" or "")
end


local function is_logits(t) return t.dtype:find("float") and t:dim() > 0 and t:numel() > 0 end


-- How many classes there are: those of the logits, as option classes says, or the largest id.
local function count_classes(who, given, logits, predicted, ids)
  local n = logits or given ~= nil and options.count(who, "option classes", given)
  if n and given ~= nil and n ~= given then
    fail("%s: option classes: %d expected, which the logits have, got %s", who, n, kind(given))
  end
  if n then return n end
  if ids:numel() == 0 then return 0 end
  return math.max(predicted:max():item(), ids:max():item(), 0)
end


local KNOWN <const> = {classes = options.any, dim = -1, ignore_index = -100}

local function with_known(more)
  local known = {}
  for name, default in pairs(KNOWN) do known[name] = default end
  for name, default in pairs(more) do known[name] = default end
  return known
end


-- The predicted and the right class of all that counts, both int64 (N), and how many classes there
-- are.
local function read(who, predictions, ids, o)
  local p, wanted = as_tensor(who, NAMES[1], predictions), as_tensor(who, NAMES[2], ids)
  wanted = as_ids(who, 2, wanted)
  local logits = is_logits(p) and p:size(check_dim(who, p, o.dim))
  p = logits and p:argmax(o.dim) or as_ids(who, 1, p)
  check_shapes(who, p.shape, wanted, logits)
  wanted = wanted:to(p.device)
  local counted = wanted:ne(o.ignore_index)
  p, wanted = p[counted], wanted[counted]
  local n = count_classes(who, o.classes, logits, p, wanted)
  check_classes(who, 1, p, n)
  check_classes(who, 2, wanted, n)
  return p, wanted, n
end


---Perplexity: e to the mean cross entropy of ids.
---@param logits heed.Tensor (…, V)
---@param ids heed.Tensor|any[] int64 (…), or nested lists
---@param given? {ignore_index: integer, dim: integer} -100 and -1 unless given: what ids are not
---counted, and the dimension of the classes
---@return number perplexity at least 1; NaN where no id counts
function metrics.perplexity(logits, ids, given, ...)
  options.no_more("perplexity", 3, ...)
  local o = options.read("perplexity", given, {dim = -1, ignore_index = -100})
  logits, ids = as_tensor("perplexity", "logits", logits), as_tensor("perplexity", "ids", ids)
  if not logits.dtype:find("float") or logits:dim() == 0 then
    fail("perplexity: argument 'logits': a float tensor with classes expected, got %s",
         options.typed(logits))
  end
  ids = as_ids("perplexity", 2, ids)
  local dim = check_dim("perplexity", logits, o.dim)
  local rows = logits:movedim(dim, -1)                                          -- (…, V)
  local shape = {rows:size()}
  shape[#shape] = nil
  if #shape ~= ids:dim() or rows:select(-1, 1).shape ~= ids.shape then
    fail("perplexity: argument 'ids': shape (%s) expected, for logits of shape %s with their "
         .. "classes in dimension %d, got %s", table.concat(shape, ", "), tostring(logits.shape),
         dim, tostring(ids.shape))
  end
  local V = rows:size(-1)
  if logits.dtype ~= "float64" then rows = rows:to("float32") end
  ids = ids:to(logits.device):reshape(-1)
  local counted = ids:ne(o.ignore_index)
  check_classes("perplexity", 2, ids[counted], V)
  local chosen = rows:reshape(-1, V)[counted]:log_softmax(-1)
  chosen = chosen:gather(2, ids[counted]:unsqueeze(2))                          -- (N, 1)
  return math.exp(-chosen:to("float64"):sum():item() / chosen:numel())
end


---How often each class was predicted as which one.
---@param predictions heed.Tensor|any[] classes from 1, int64 (…) or nested lists; or logits (…, V)
---@param ids heed.Tensor|any[] the right classes (…)
---@param given? heed.metrics.options
---@return heed.Tensor matrix int64 (C, C): rows are the right classes, columns the predicted ones
function metrics.confusion_matrix(predictions, ids, given, ...)
  options.no_more("confusion_matrix", 3, ...)
  local o = options.read("confusion_matrix", given, KNOWN)
  local p, wanted, n = read("confusion_matrix", predictions, ids, o)
  local counts = heed.zeros(n * n, {dtype = "int64", device = p.device})
  local cells = (wanted - 1) * n + p
  return counts:index_add(1, cells, heed.ones_like(cells)):reshape(n, n)
end


-- Precision, recall and F1 are share(hits, predicted, right) of counts, float64 (C) or (1).
local SHARES <const> = {
  precision = function(hits, predicted) return hits, predicted end,
  recall = function(hits, _, right) return hits, right end,
  f1 = function(hits, predicted, right) return 2 * hits, predicted + right end,
}

local AVERAGES <const> = {macro = true, micro = true, none = true}


---@class heed.metrics.options
---@field classes? integer how many there are; those of the logits, or the largest id, without it
---@field dim? integer the dimension of the classes of logits; -1 unless given
---@field ignore_index? integer which ids are not counted; -100 unless given

---@class heed.metrics.averages.options: heed.metrics.options
---@field average? "macro"|"micro"|"none" the mean of the classes that occur among ids or
---predictions, the share among all of them, or a share for each class; "macro" unless given
---@field zero_division? number the share of a class without any to divide by; 0 unless given

local SHARED <const> = with_known{average = "macro", zero_division = 0}

local function share(name, hits, predicted, right, o)
  local part, whole = SHARES[name](hits, predicted, right)
  return heed.where(whole:eq(0), o.zero_division, part / whole)
end


local function averaged(name, hits, predicted, right, o)
  if o.average == "none" then return share(name, hits, predicted, right, o) end
  if o.average == "micro" then
    return share(name, hits:sum(), predicted:sum(), right:sum(), o):item()
  end
  local there = (predicted + right):gt(0)
  if not there:any() then return o.zero_division end
  return share(name, hits, predicted, right, o)[there]:mean():item()
end


local function score(name, predictions, ids, given)
  local o = options.read(name, given, SHARED)
  if not AVERAGES[o.average] then
    fail("%s: 'macro', 'micro' or 'none' expected as option average, got %s", name,
         kind(o.average))
  end
  local p, wanted, n = read(name, predictions, ids, o)
  local zeros = heed.zeros(n, {dtype = "float64", device = p.device})
  local function counts(classes)
    return zeros:index_add(1, classes, heed.ones(#classes, {dtype = "float64", device = p.device}))
  end
  return averaged(name, counts(wanted[p:eq(wanted)]), counts(p), counts(wanted), o)
end


---Precision: how many of the predictions of a class are right.
---@param predictions heed.Tensor|any[] classes from 1, int64 (…) or nested lists; or logits (…, V)
---@param ids heed.Tensor|any[] the right classes (…)
---@param given? heed.metrics.averages.options
---@return number|heed.Tensor precision from 0 to 1; with average "none" float64 (C)
function metrics.precision(predictions, ids, given, ...)
  options.no_more("precision", 3, ...)
  return score("precision", predictions, ids, given)
end


---Recall: how many of a class were predicted.
---@param predictions heed.Tensor|any[] classes from 1, int64 (…) or nested lists; or logits (…, V)
---@param ids heed.Tensor|any[] the right classes (…)
---@param given? heed.metrics.averages.options
---@return number|heed.Tensor recall from 0 to 1; with average "none" float64 (C)
function metrics.recall(predictions, ids, given, ...)
  options.no_more("recall", 3, ...)
  return score("recall", predictions, ids, given)
end


---F1: the harmonic mean of precision and recall.
---@param predictions heed.Tensor|any[] classes from 1, int64 (…) or nested lists; or logits (…, V)
---@param ids heed.Tensor|any[] the right classes (…)
---@param given? heed.metrics.averages.options
---@return number|heed.Tensor f1 from 0 to 1; with average "none" float64 (C)
function metrics.f1(predictions, ids, given, ...)
  options.no_more("f1", 3, ...)
  return score("f1", predictions, ids, given)
end


return metrics
