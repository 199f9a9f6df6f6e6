-- Texts for a model: how many tokens one may have, and rows of ids in batches of like lengths.

local field = require "heed.internal.field"
local first_parameter = require "heed.nn.first_parameter"
local heed = require "heed"
local options = require "heed.internal.options"
local part = require "heed.nn.part"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"

local texts = {}


-- The longest text -----------------------------------------------------------

-- The file about lengths, and about case, has had several names.
local LENGTHS <const> = {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta",
                         "xlnet"}


local function is_length(n) return math.type(n) == "integer" and n > 0 and n < 1 << 31 end


-- The first value of a member of these files that is good.
local function said(path, key, is_good)
  for _, name in ipairs(LENGTHS) do
    local o = reading.json(path, ("sentence_%s_config.json"):format(name))
    if o and is_good(o[key], name) then return o[key] end
  end
end


---Whether texts lose their case before they are cut into tokens.
---@param path string
---@return boolean
function texts.is_lower(path)
  return said(path, "do_lower_case", function(value, name)
    if value == nil or type(value) == "boolean" then return value ~= nil end
    refuse.with('sentence_%s_config.json: "do_lower_case": true or false expected, got %s', name,
                refuse.quoted(tostring(value)))
  end) or false
end


---How many tokens a text may have, the model's own among them; nil where nothing says it.
---@param path string
---@param model heed.models.Model
---@return integer?
function texts.limit(path, model)
  local most_said = said(path, "max_seq_length", is_length)
  if most_said then return most_said end
  local tokenizer = reading.json(path, "tokenizer_config.json") or {}
  local own, most = tokenizer.model_max_length, model.config.max_position_embeddings
  local pad = rawget(model, "pad")
  if is_length(most) and pad then most = most - (pad + 1) end
  if not is_length(own) then return is_length(most) and most or nil end
  return is_length(most) and math.min(own, most) or own
end


---Refuses option `max` where no token of a text would be left, or a position has no row.
---@param who string
---@param model heed.models.Model
---@param max any
---@param around integer tokens that are there beside the text's own
---@return integer
function texts.check_max(who, model, max, around)
  local learnt, pad = rawget(model, "position"), rawget(model, "pad")
  local most = learnt and field.matrix(learnt, "weight"):size(1) - (pad and pad + 1 or 0)
  max = options.count(who, "option max", max)
  if max > around and not (most and max > most) then return max end
  heed.fail("%s: option max: %s expected, got %d", who,
            most and ("%d to %d"):format(around + 1, most)
            or ("at least %d"):format(around + 1), max)
end


-- Tokenizers --------------------------------------------------------------------

---The tokenizer of a model, in whose field a program may have written anything.
---@param model heed.models.Model
---@param method string that will be called
---@return heed.Tokenizer
function texts.tokenizer(model, method)
  local tok = model.tokenizer
  if type(tok) == "table" and options.is_callable(tok[method]) then return tok end
  field.refuse(model, "tokenizer", tok, "a tokenizer")
end


-- Ids ----------------------------------------------------------------------------

local function is_text(value)
  return type(value) == "string" or type(value) == "table" and type(rawget(value, 1)) == "string"
end


---The features that ids become first, in the field `words`. Texts are no ids.
---@param who string
---@param model heed.models.Model
---@param ids any
---@return heed.Tensor
function texts.embedded(who, model, ids)
  if is_text(ids) then
    heed.fail("%s: ids of shape (B, T) expected, got %s; model.tokenizer:encode gives ids, and "
              .. "texts are for model:embed, classify, score or generate", who, options.kind(ids))
  end
  return part.call(who, model, "words", ids)
end


-- Lists ----------------------------------------------------------------------

---A list of texts, and whether it was one text.
---@param who string
---@param what string|string[] "a text", say, for messages
---@param given any
---@return any[] list
---@return boolean single
function texts.list(who, what, given)
  if type(given) == "string" then return {given}, true end
  if type(given) ~= "table" or next(given) == nil then
    heed.fail("%s: %s, or a list of texts expected, got %s", who, what, options.kind(given))
  end
  options.check_list(who, given)
  return given, false
end


---The text at a position of a list.
---@param who string
---@param list any[]
---@param i integer
---@return string
function texts.at(who, list, i)
  local text = rawget(list, i)
  if type(text) == "string" then return text end
  heed.fail("%s: a text expected at position %d, got %s", who, i, options.kind(text))
end


-- Batches --------------------------------------------------------------------

-- Positions of rows, the longest first, so that rows of a batch need little padding.
local function by_length(rows)
  local order = {}
  for i = 1, #rows do order[i] = i end
  table.sort(order, function(a, b)
    if #rows[a] ~= #rows[b] then return #rows[a] > #rows[b] end
    return a < b
  end)
  return order
end


---Calls `f(batch, positions)` for batches of rows of like lengths.
---@generic T
---@param rows T[][]
---@param size integer how many of them at once
---@param f fun(batch: T[][], positions: integer[])
function texts.batches(rows, size, f)
  local order = by_length(rows)
  for first = 1, #order, size do
    local batch, positions = {}, table.move(order, first, math.min(first + size - 1, #order), 1, {})
    for k, position in ipairs(positions) do batch[k] = rows[position] end
    f(batch, positions)
  end
end


---What a function gives for batches of rows, a row each, in the order of the rows.
---@param rows any[][]
---@param size integer
---@param f fun(batch: any[][], positions: integer[]): heed.Tensor (B, ...)
---@return heed.Tensor (N, ...)
function texts.gathered(rows, size, f)
  local parts, places, n = {}, {}, 0
  texts.batches(rows, size, function(batch, positions)
    parts[#parts + 1] = f(batch, positions)
    for _, position in ipairs(positions) do
      n = n + 1
      places[position] = n
    end
  end)
  local all = heed.cat(parts, 1)
  return all:index_select(1, heed.tensor(places, {dtype = "int64", device = all.device}))
end


---The device of a model.
---@param model heed.Module
---@return heed.device
function texts.device(model)
  return first_parameter(model).device
end


return texts
