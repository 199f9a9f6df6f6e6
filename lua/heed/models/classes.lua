-- What models with classes say about texts: scores of pairs, and classes of texts, of pairs and of
-- single tokens, with their names.

local heads = require "heed.models.heads"
local heed = require "heed"
local options = require "heed.internal.options"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local sentences = require "heed.models.sentences"
local texts = require "heed.models.texts"
local torch_names = require "heed.internal.torch_names"

local quoted = refuse.quoted

local classes = {}


-- The directory ---------------------------------------------------------------

-- Classes of tokenizers that give a model no types, though it has some.
local UNTYPED <const> = {PreTrainedTokenizerFast = true, PreTrainedTokenizer = true,
                         TokenizersBackend = true}

-- Whether the directory's tokenizer says of which text of a pair a token is, in transformers.
local function gives_types(path)
  local c = reading.json(path, "tokenizer_config.json") or {}
  local inputs = c.model_input_names
  if type(inputs) ~= "table" then return not UNTYPED[c.tokenizer_class] end
  for _, name in ipairs(inputs) do
    if name == "token_type_ids" then return true end
  end
  return false
end


-- Names of classes, from "0" on.
local function read_labels(c)
  local named, list = c.id2label, {}
  if type(named) ~= "table" then return nil end
  for i, name in next, named do
    local k = type(i) == "string" and i:find "^%d+$" and math.tointeger(tonumber(i))
    if not k or type(name) ~= "string" then
      refuse.with('config.json: "id2label": names of classes by their numbers expected')
    end
    list[k + 1] = name
  end
  return list
end


-- What a score is made of a logit by, where the file says it, in its new place or the old one.
local function read_activation(c)
  local own = c.sentence_transformers
  local word = type(own) == "table" and own.activation_fn or c.sbert_ce_default_activation_function
  if type(word) ~= "string" then return false end
  return sentences.activation("config.json", word)
end


-- Refuses names that two classes have: probabilities are told by them.
local function check_names(names, n)
  local seen = {}
  for i = 1, n do
    local name = names[i]
    if seen[name] then
      refuse.with('config.json: "id2label": a name of its own expected for each class, got %s for '
                  .. '%d and %d', quoted(name), seen[name] - 1, i - 1)
    end
    seen[name] = i
  end
end


---@class heed.models.classes
---@field names string[]
---@field types boolean whether pairs have types
---@field activation (fun(x: heed.Tensor): heed.Tensor)|false of scores, where the file has one
---@field kind string|false problem_type

---Reads what a directory says about classes; false where the model has none.
---@param path string
---@param model heed.models.Model
---@return heed.models.classes|false
function classes.read(path, model)
  local head, c = rawget(model, "head"), model.config
  if not head or not heads.is_of_classes(head, rawget(model, "words")) then return false end
  local names, n = read_labels(c) or {}, head.out.weight:size(1)
  for i = 1, n do names[i] = names[i] or ("LABEL_%d"):format(i - 1) end
  if options.last(names) > n then
    refuse.with('config.json: "id2label": names of %d classes expected, got one more, %s', n,
                quoted(names[options.last(names)]))
  end
  check_names(names, n)
  local kinds = rawget(model, "types")
  return {
    names = names, activation = read_activation(c),
    types = kinds and kinds.weight:size(1) > 1 and gives_types(path) or false,
    kind = type(c.problem_type) == "string" and c.problem_type or false,
  }
end


-- Logits ------------------------------------------------------------------------

local KNOWN <const> = {
  classify = {batch = 32, max = options.any, pair = options.any, parse = true},
  score = {batch = 32, max = options.any, parse = true},
}

-- The options of a call, checked. Two texts have more tokens around them than one.
local function read(who, model, given)
  local o = options.read(who, given, KNOWN[who], torch_names[who])
  o.batch = options.count(who, "option batch", o.batch)
  if o.max ~= nil then
    local pair = (who == "score" or o.pair ~= nil) and "" or nil
    o.max = texts.check_max(who, model, o.max, #model:ids("", {pair = pair}))
  end
  return o
end


-- Logits of a batch of rows, and of their types.
local function logits_of(model, plan, rows, kinds)
  local device = texts.device(model)
  local ids, lengths = heed.pad(rows)
  local o = {lengths = lengths:to(device)}
  if plan.types then o.types = heed.pad(kinds):to(device) end
  local x = model(ids:to(device), o)
  return x.dtype == "float64" and x or x:to("float32")
end


-- The logits of texts, each of which may have a second one: (N, classes), in their order.
local function all_logits(model, plan, first, second, o)
  local rows, kinds = {}, {}
  for i, text in ipairs(first) do
    rows[i], kinds[i] = model:ids(text, {max = o.max, pair = second[i], parse = o.parse})
    if #rows[i] == 0 then heed.fail("%s: a text with tokens expected at position %d", o.who, i) end
  end
  return texts.gathered(rows, o.batch, function(batch, positions)
    local types = {}
    for k, position in ipairs(positions) do types[k] = kinds[position] end
    return logits_of(model, plan, batch, types)
  end)
end


local function checked(who, list)
  local all = {}
  for i = 1, options.last(list) do all[i] = texts.at(who, list, i) end
  return all
end


local function repeated(text, n)
  local list = {}
  for i = 1, n do list[i] = text end
  return list
end


-- Scores ------------------------------------------------------------------------

---@class heed.models.score.options
---@field batch? integer how many pairs are computed at once; 32 unless given
---@field max? integer how many tokens a pair may have, in place of what the directory says
---@field parse? boolean whether special tokens that a text spells become those, as transformers has
---it; true unless given

---How well each text answers a query.
---@param model heed.models.Model
---@param query string
---@param list string|string[]
---@param given? heed.models.score.options
---@return heed.Tensor|number scores (N), or a number of one text
function classes.score(model, query, list, given)
  local plan = rawget(model, "classes")
  if not plan or not model.head.pool then
    heed.fail("score: a reranker expected, whose class ends in ForSequenceClassification with one "
              .. "label, got one that gives no classes of texts")
  elseif #plan.names > 1 then
    heed.fail("score: a model with one label expected, got %d: %s; model:classify(text, {pair = "
              .. "...}) gives them", #plan.names, table.concat(plan.names, ", "))
  end
  local o = read("score", model, given)
  if type(query) ~= "string" then
    heed.fail("score: a string expected as query, got %s", options.kind(query))
  end
  o.who = "score"
  local all, single = texts.list("score", "a text", list)
  all = checked("score", all)
  local x = heed.no_grad(all_logits, model, plan, repeated(query, #all), all, o)
  local f = plan.activation or heed.sigmoid
  x = heed.no_grad(f, x:squeeze(2))
  return single and x[1] or x
end


-- Classes -------------------------------------------------------------------------

---@class heed.models.class
---@field label string the class that is most probable
---@field probability number its probability
---@field probabilities table<string, number> that of each class, by its name
---@field first? integer of a token's class: its first byte, as `s:sub` has it
---@field last? integer its last byte

---@class heed.models.classify.options: heed.models.score.options
---@field pair? string|string[] second texts, one for each

-- Probabilities of logits (..., classes): of classes of which one is right, or each by itself.
local function probabilities(plan, x)
  if plan.kind == "regression" then
    heed.fail("classify: this model gives numbers, not classes (problem_type is regression): they "
              .. "are model(ids)")
  end
  local each = plan.kind == "multi_label_classification" or #plan.names == 1
  return each and x:sigmoid() or x:softmax(-1)
end


-- The class of one row of probabilities.
local function class_of(plan, row)
  local best, all = 1, {}
  for i, p in ipairs(row) do
    if p > row[best] then best = i end
    all[plan.names[i]] = p
  end
  return {label = plan.names[best], probability = row[best], probabilities = all}
end


-- The classes of a text's tokens, less those around it.
local function tokens_of(model, plan, text, o)
  local ids, offsets = texts.tokenizer(model, "encode"):encode(text, {
    max = o.max or rawget(model, "limit") or nil, offsets = true, parse = o.parse,
  })
  local list, at = {}, offsets:totable()
  if #ids == 0 then return list end
  local x = model(ids:to(texts.device(model)):unsqueeze(1))
  local rows = probabilities(plan, x[1]:to("float32")):totable()
  for i, row in ipairs(rows) do
    if at[i][2] >= at[i][1] then
      local class = class_of(plan, row)
      class.first, class.last = at[i][1], at[i][2]
      list[#list + 1] = class
    end
  end
  return list
end


-- The second texts of a call, a list; none: an empty one.
local function read_pairs(pair, n)
  if pair == nil then return {} end
  local list = texts.list("classify", "a text as option pair", pair)
  if options.last(list) ~= n then
    heed.fail("classify: option pair: %d text%s expected, got %d", n, n == 1 and "" or "s",
              options.last(list))
  end
  return checked("classify: option pair", list)
end


-- The classes of texts.
local function of_texts(model, plan, all, o)
  local x = all_logits(model, plan, all, read_pairs(o.pair, #all), o)
  local list = probabilities(plan, x):totable()
  for i, row in ipairs(list) do list[i] = class_of(plan, row) end
  return list
end


-- The classes of the tokens of each text.
local function of_tokens(model, plan, all, o)
  if o.pair ~= nil then
    heed.fail("classify: option pair: this model gives classes of a text's tokens")
  end
  local list = {}
  for i, text in ipairs(all) do list[i] = tokens_of(model, plan, text, o) end
  return list
end


---The classes of texts, or of their tokens.
---@param model heed.models.Model
---@param list string|string[]
---@param given? heed.models.classify.options
---@return heed.models.class|heed.models.class[]|heed.models.class[][]
function classes.classify(model, list, given)
  local plan = rawget(model, "classes")
  if not plan then
    heed.fail("classify: a model with classes expected, whose class ends in "
              .. "ForSequenceClassification or ForTokenClassification")
  end
  local o = read("classify", model, given)
  o.who = "classify"
  local all, single = texts.list("classify", "a text", list)
  all = checked("classify", all)
  local f = model.head.pool and of_texts or of_tokens
  local found = heed.no_grad(f, model, plan, all, o)
  return single and found[1] or found
end


return classes
