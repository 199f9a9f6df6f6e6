-- heed.accuracy: the share of ids whose logit is the largest.

local heed = require "heed"
local options = require "heed.internal.options"

local fail, kind = heed.fail, options.kind


local function check_tensors(logits, ids)
  if not heed.is_tensor(logits) or not logits.dtype:find("float") or logits:dim() == 0 then
    local are_ids = heed.is_tensor(logits) and logits.dtype == "int64"
    fail("accuracy: argument 'logits': a float tensor with classes expected, got %s%s",
         options.typed(logits), are_ids and "; of predicted ids, p:eq(ids):float():mean()" or "")
  elseif not heed.is_tensor(ids) or ids.dtype ~= "int64" and ids.dtype ~= "uint8" then
    fail("accuracy: argument 'ids': an int64 tensor expected, got %s", options.typed(ids))
  end
end


local function check_dim(logits, dim)
  local rank, axis = logits:dim(), math.tointeger(dim)
  if axis and axis ~= 0 and axis >= -rank and axis <= rank then return axis end
  fail("accuracy: option dim: an axis from 1 to %d or -%d to -1 expected, got %s for logits of "
       .. "shape %s", rank, rank, kind(dim), tostring(logits.shape))
end


-- The classes of the largest logits, in the shape of ids.
local function predictions(logits, ids, dim)
  local predicted = logits:detach():argmax(dim)
  if predicted.shape == ids.shape then return predicted end
  fail("accuracy: argument 'ids': shape %s expected, for logits of shape %s with their classes in "
       .. "dimension %d, got %s", tostring(predicted.shape), tostring(logits.shape), dim,
       tostring(ids.shape))
end


-- Whether each id counts, as bools: not those that are `ignore`.
local function counted_ids(ids, classes, ignore)
  local counted = ids:ne(ignore)
  local wrong = counted & (ids:lt(1) | ids:gt(classes))
  if not wrong:any() then return counted end
  local id = ids[wrong][1]
  fail("accuracy: argument 'ids': ids from 1 to %d expected, got %d%s", classes, id,
       id == 0 and "; ids count from 1: ids + 1" or "")
end


---How many of the ids have the largest of their logits: 1 where all have.
---@param logits heed.Tensor (…, V)
---@param ids heed.Tensor int64 (…)
---@param given? {ignore_index: integer, dim: integer} -100 and -1 unless given: what ids are not
---counted, and the dimension of the classes
---@return number share from 0 to 1; NaN where no id counts
return function(logits, ids, given, ...)
  options.no_more("accuracy", 3, ...)
  local o = options.read("accuracy", given, {dim = -1, ignore_index = -100})
  check_tensors(logits, ids)
  local dim = check_dim(logits, o.dim)
  local predicted = predictions(logits, ids, dim)
  local counted = counted_ids(ids, logits:size(dim), o.ignore_index)
  return (predicted:eq(ids) & counted):sum():item() / counted:sum():item()
end
