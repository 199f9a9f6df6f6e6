-- The files of sentence-transformers beside a model: how features become a vector for each text
-- (modules.json), prompts, and how many tokens a text may have.

local layers = require "heed.nn.layers"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local heed = require "heed"
local parameter = require "heed.nn.parameter"
local pooling = require "heed.models.pooling"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local weights = require "heed.models.weights"

local quoted = refuse.quoted

local sentences = {}


-- Modules ----------------------------------------------------------------

local ACTIVATIONS <const> = {
  GELU = heed.gelu, Identity = function(x) return x end, ReLU = heed.relu, SiLU = heed.silu,
  Sigmoid = heed.sigmoid, Tanh = heed.tanh,
}

-- A linear layer in a folder of its own, and its activation: Tanh where it says nothing.
local function read_dense(path, place)
  local c = reading.json(path, "config.json") or refuse.with("%s/config.json expected", path)
  local word = c.activation_function or "torch.nn.modules.activation.Tanh"
  local f = type(word) == "string" and ACTIVATIONS[word:match("%w+$")]
  if not f then refuse.with("Dense: the activation %s is not known", quoted(tostring(word))) end
  if c.use_residual == true then refuse.with("Dense: use_residual is not known") end
  local sizes = {c.in_features, c.out_features}
  if math.type(sizes[1]) ~= "integer" or math.type(sizes[2]) ~= "integer" then
    refuse.with("Dense: in_features and out_features expected")
  end
  local tensors = weights.read(path, place)
  local linear = parameter.hollow("models.load", layers.Linear, sizes[1], sizes[2],
                                  {bias = tensors["linear.bias"] ~= nil})
  names.assign(linear, {{"linear.weight", "weight"}, {"linear.bias", "bias"}}, tensors)
  return {linear = linear, activation = f}
end


-- Each kind of module, behind the model itself: adds what it does to a plan.
local KINDS = {}

function KINDS.Pooling(plan, path)
  local c = reading.json(path, "config.json") or refuse.with("%s/config.json expected", path)
  plan.pool, plan.include_prompt = pooling.read(c), c.include_prompt ~= false
end

function KINDS.Dense(plan, path, place)
  if not plan.pool then refuse.with("modules.json: Dense before Pooling is not known") end
  table.insert(plan.dense, read_dense(path, place))
end

function KINDS.Normalize(plan) plan.normalize = true end


-- The kind of an entry, and its folder: one beside the file.
local function read_entry(entry)
  if type(entry) ~= "table" or type(entry.type) ~= "string" or type(entry.path) ~= "string" then
    refuse.with("modules.json: a list of objects with type and path expected")
  end
  local folder = entry.path
  if not folder:find("^[%w_-]*$") then
    refuse.with("modules.json: the name of a folder beside it expected, got %s", quoted(folder))
  end
  return entry.type:match("%w+$") or "", folder
end


local function read_modules(path, place)
  local list = reading.json(path, "modules.json", true)
  if not list then return nil end
  local plan = {pool = false, dense = {}, normalize = false, include_prompt = true}
  for i, entry in ipairs(list) do
    local kind, folder = read_entry(entry)
    if i == 1 and kind == "Transformer" and folder == "" then
      plan.begun = true
    elseif plan.begun and KINDS[kind] then
      KINDS[kind](plan, path .. "/" .. folder, place)
    else
      refuse.with("modules.json: the module %s is not known at position %d", quoted(kind), i)
    end
  end
  if not plan.pool then refuse.with("modules.json: Pooling expected") end
  return plan
end


-- Prompts and lengths ------------------------------------------------------

-- The file about lengths has had several names.
local LENGTHS <const> = {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta",
                         "xlnet"}


local function is_length(n) return math.type(n) == "integer" and n > 0 and n < 1 << 31 end


-- How many tokens a text may have, the model's own among them; nil where nothing says it.
local function limit_of(path, model)
  for _, name in ipairs(LENGTHS) do
    local o = reading.json(path, ("sentence_%s_config.json"):format(name))
    if o and is_length(o.max_seq_length) then return o.max_seq_length end
  end
  local tokenizer = reading.json(path, "tokenizer_config.json") or {}
  local own, most = tokenizer.model_max_length, model.config.max_position_embeddings
  local pad = rawget(model, "pad")
  if is_length(most) and pad then most = most - (pad + 1) end
  if not is_length(own) then return is_length(most) and most or nil end
  return is_length(most) and math.min(own, most) or own
end


local function read_prompts(path)
  local c = reading.json(path, "config_sentence_transformers.json") or {}
  local prompts, default = c.prompts or {}, c.default_prompt_name
  if type(prompts) ~= "table" then refuse.with("prompts: an object expected") end
  for name, text in next, prompts do
    if type(text) ~= "string" then
      refuse.with("prompts: a string expected as %s", quoted(name))
    end
  end
  if default ~= nil and prompts[default] == nil then
    refuse.with("default_prompt_name: one of the prompts expected, got %s",
                quoted(tostring(default)))
  end
  return prompts, default or false
end


---@class heed.models.sentences
---@field pool fun(x: heed.Tensor, keys: heed.Tensor): heed.Tensor
---@field dense {linear: heed.Linear, activation: function}[]
---@field normalize boolean
---@field include_prompt boolean
---@field prompts table<string, string>
---@field default_prompt string|false
---@field limit integer|false

---Reads what a directory says about vectors of texts; false where it says nothing.
---@param path string
---@param model heed.models.Model
---@param place fun(t: heed.Tensor): heed.Tensor
---@return heed.models.sentences|false
function sentences.read(path, model, place)
  local plan = read_modules(path, place)
  if not plan then return false end
  plan.prompts, plan.default_prompt = read_prompts(path)
  plan.limit = limit_of(path, model) or false
  return plan
end


-- Texts ---------------------------------------------------------------------

---@class heed.models.embed.options
---@field prompt? string|false the name of a prompt of the directory, which stands in front of each
---text; false for none, where the directory has a default
---@field dims? integer the first numbers of each vector alone, normed again where the directory
---norms them
---@field batch? integer how many texts are computed at once; 32 unless given

-- The prompt's text, and how many tokens of it are left out of the vectors.
local function prompt_of(model, plan, o)
  local name = o.prompt
  if name == nil then name = plan.default_prompt end
  if name == false then return "", 0 end
  local text = type(name) == "string" and plan.prompts[name]
  if not text then
    heed.fail("embed: the name of a prompt expected as option prompt, got %s; %s",
              options.kind(name), options.hint(tostring(name), options.names(plan.prompts)))
  end
  if plan.include_prompt or text == "" then return text, 0 end
  local tok = model.tokenizer
  local all, plain = tok:encode(text), tok:encode(text, {special = false})
  local ends = #all > #plain and (#plain == 0 or all[-1] ~= plain[-1])
  return text, #all - (ends and 1 or 0)
end


-- The ids of a text, or of a list of ids.
local function ids_of(model, plan, text, prompt, i)
  if type(text) == "string" then
    local o = plan.limit and {max = plan.limit} or nil
    return model.tokenizer:encode(prompt .. text, o):totable()
  end
  if heed.is_tensor(text) then return text:totable() end
  if type(text) == "table" then return text end
  heed.fail("embed: a text or a list of ids expected at position %d, got %s", i, options.kind(text))
end


-- The vectors of some rows, (B, D).
local function vectors(model, plan, rows, skipped)
  local ids, lengths = heed.pad(rows)
  local device = model:parameters()[1].device
  ids, lengths = ids:to(device), lengths:to(device)
  local x = model:hidden(ids, {lengths = lengths})
  if x.dtype ~= "float64" then x = x:to("float32") end
  local at = heed.arange(ids:size(2), {device = device})
  local keys = at:le(lengths:unsqueeze(2)) & at:gt(skipped)
  x = plan.pool(x, keys)
  for _, dense in ipairs(plan.dense) do
    local linear = dense.linear
    x = dense.activation(linear(x:to(linear.weight.dtype)))
  end
  return plan.normalize and x:normalize(2, -1) or x
end


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


---The vectors of texts, in their order.
---@param model heed.models.Model
---@param plan heed.models.sentences
---@param texts (string|integer[])[]
---@param o heed.models.embed.options
---@return heed.Tensor (N, D)
function sentences.embed(model, plan, texts, o)
  local prompt, skipped = prompt_of(model, plan, o)
  local rows = {}
  for i = 1, options.last(texts) do rows[i] = ids_of(model, plan, texts[i], prompt, i) end
  local order, parts, places = by_length(rows), {}, {}
  for first = 1, #order, o.batch do
    local batch = {}
    for k = first, math.min(first + o.batch - 1, #order) do
      batch[#batch + 1], places[order[k]] = rows[order[k]], k
    end
    parts[#parts + 1] = vectors(model, plan, batch, skipped)
  end
  local all = heed.cat(parts, 1)
  all = all:index_select(1, heed.tensor(places, {dtype = "int64", device = all.device}))
  if not o.dims then return all end
  if o.dims > all:size(2) then
    heed.fail("embed: at most %d expected as option dims, got %d", all:size(2), o.dims)
  end
  all = all:narrow(2, 1, o.dims)
  return plan.normalize and all:normalize(2, -1) or all:contiguous()
end


return sentences
