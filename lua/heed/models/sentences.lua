-- The files of sentence-transformers beside a model: how features become a vector for each text
-- (modules.json), prompts, and how many tokens a text may have.

local blocks = require "heed.internal.blocks"
local layers = require "heed.nn.layers"
local lower = require "heed.models.lower"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local heed = require "heed"
local parameter = require "heed.nn.parameter"
local pooling = require "heed.models.pooling"
local reading = require "heed.models.reading"
local json = require "heed.files.json"
local refuse = require "heed.internal.refuse"
local texts = require "heed.models.texts"
local weights = require "heed.models.weights"

local quoted = refuse.quoted

local sentences = {}


-- Modules ----------------------------------------------------------------

local ACTIVATIONS <const> = {
  GELU = heed.gelu, Identity = function(x) return x end, ReLU = heed.relu, SiLU = heed.silu,
  Sigmoid = heed.sigmoid, Tanh = heed.tanh,
}

---The function of an activation by its name in PyTorch.
---@param what string what has it, for messages
---@param word any such as "torch.nn.modules.activation.Tanh"
---@return fun(x: heed.Tensor): heed.Tensor
function sentences.activation(what, word)
  local f = type(word) == "string" and rawget(ACTIVATIONS, word:match("%w+$"))
  if f then return f end
  refuse.with("%s: the activation %s is not known", what, quoted(tostring(word)))
end


-- A linear layer in a folder of its own, and its activation: Tanh where it says nothing.
local function read_dense(path, place)
  local c = reading.json(path, "config.json") or refuse.with("%s/config.json expected", path)
  local f = sentences.activation("Dense", c.activation_function or "torch.nn.Tanh")
  if c.use_residual == true then refuse.with("Dense: use_residual is not known") end
  local inputs, outputs = c.in_features, c.out_features
  if math.type(inputs) ~= "integer" or math.type(outputs) ~= "integer" then
    refuse.with("Dense: in_features and out_features expected")
  end
  local tensors = weights.read(path, place)
  local weight = tensors["linear.weight"] or refuse.with("%s: no tensor linear.weight", path)
  if weight:dim() ~= 2 or weight:size(1) ~= outputs or weight:size(2) ~= inputs then
    refuse.with("%s: linear.weight of shape (%d, %d) expected, as out_features and in_features "
                .. "say, got %s", path, outputs, inputs, weight.shape)
  end
  local linear = parameter.hollow("models.load", 2, layers.Linear, inputs, outputs,
                                  {bias = tensors["linear.bias"] ~= nil})
  local source = names.assign(linear, {{"linear.weight", "weight"}, {"linear.bias", "bias"}},
                              tensors)
  return {linear = linear, activation = f, source = source, folder = path:match "[^/]*$"}
end


-- Each kind of module, behind the model itself: adds what it does to a plan.
local KINDS = {}

function KINDS.Pooling(plan, path)
  local c = reading.json(path, "config.json") or refuse.with("%s/config.json expected", path)
  if plan.pooled then refuse.with("modules.json: one Pooling expected") end
  plan.pooled, plan.pool, plan.include_prompt = true, pooling.read(c), c.include_prompt ~= false
end

function KINDS.Dense(plan, path, place)
  if not plan.pooled then refuse.with("modules.json: Dense before Pooling is not known") end
  table.insert(plan.dense, read_dense(path, place))
end

function KINDS.Normalize(plan) plan.normalize = true end


-- The kind of an entry, and its folder: one beside the file.
local function read_entry(entry)
  if type(entry) ~= "table" or type(entry.type) ~= "string" or type(entry.path) ~= "string" then
    refuse.with("modules.json: a list of objects with type and path expected")
  end
  local folder = entry.path == "." and "" or entry.path
  if not folder:find("^[%w_-]*$") then
    refuse.with("modules.json: the name of a folder beside it expected, got %s", quoted(folder))
  end
  return entry.type:match("%w+$") or "", folder
end


---The kind of the first module of a directory, which makes features, and its folder; nil where
---there is no modules.json.
---@param path string
---@return string? kind
---@return string? folder
function sentences.first(path)
  local list = reading.json(path, "modules.json", true)
  if list and #list == 0 then refuse.with("modules.json: a model expected as the first module") end
  if list then return read_entry(list[1]) end
end


---The folders that modules.json names, beside the file.
---@param path string
---@return string[]
function sentences.folders(path)
  local list = {}
  for _, entry in ipairs(reading.json(path, "modules.json", true) or {}) do
    local _, folder = read_entry(entry)
    if folder ~= "" then list[#list + 1] = folder end
  end
  return list
end


-- What the modules behind the first one do with its features, or with its vectors.
local function read_modules(path, place, first)
  local list = reading.json(path, "modules.json", true)
  local plan = {pool = false, pooled = first == "StaticEmbedding", dense = {}, normalize = false,
                include_prompt = true}
  if not list then return plan.pooled and plan or nil end
  for i, entry in ipairs(list) do
    local kind, folder = read_entry(entry)
    local begins = i == 1 and kind == first and (folder == "" or plan.pooled)
    if i > 1 and KINDS[kind] then
      KINDS[kind](plan, path .. "/" .. folder, place)
    elseif not begins then
      refuse.with("modules.json: the module %s is not known at position %d", quoted(kind), i)
    end
  end
  if not plan.pooled then refuse.with("modules.json: Pooling expected") end
  return plan
end


-- Prompts ------------------------------------------------------------------

local SIMILARITIES <const> = {cosine = true, dot = true, euclidean = true, manhattan = true}

-- How alike vectors are told.
local function read_similarity(c)
  local name = c.similarity_fn_name or "cosine"
  if type(name) == "string" and SIMILARITIES[name] then return name end
  refuse.with("similarity_fn_name: cosine, dot, euclidean or manhattan expected, got %s",
              quoted(tostring(name)))
end


-- The prompts of a directory, beside those that sentence-transformers has in any: empty ones.
local function read_prompts(c)
  local given, default = c.prompts or {}, c.default_prompt_name
  local prompts = {query = "", document = ""}
  if type(given) ~= "table" or json.is_array(given) then
    refuse.with("prompts: an object expected")
  end
  for name, text in next, given do
    if type(text) ~= "string" then
      refuse.with("prompts: a string expected as %s", quoted(name))
    end
    prompts[name] = text
  end
  if default ~= nil and prompts[default] == nil then
    refuse.with("default_prompt_name: one of the prompts expected, got %s",
                quoted(tostring(default)))
  end
  return prompts, default or false
end


---@class heed.models.sentences
---@field pool (fun(x: heed.Tensor, keys: heed.Tensor): heed.Tensor)|false false: the model gives
---vectors
---@field dense {linear: heed.Linear, activation: function}[]
---@field normalize boolean
---@field include_prompt boolean
---@field lower boolean whether texts lose their case before they are cut into tokens
---@field prompts table<string, string>
---@field default_prompt string|false
---@field similarity "cosine"|"dot"|"euclidean"|"manhattan"

---Reads what a directory says about vectors of texts; false where it says nothing.
---@param path string
---@param place fun(t: heed.Tensor): heed.Tensor
---@param first? string the kind of its first module; nil: Transformer
---@return heed.models.sentences|false
function sentences.read(path, place, first)
  local plan = read_modules(path, place, first or "Transformer")
  if not plan then return false end
  local c = reading.json(path, "config_sentence_transformers.json") or {}
  plan.prompts, plan.default_prompt = read_prompts(c)
  plan.similarity = read_similarity(c)
  plan.lower = texts.is_lower(path)
  return plan
end


-- Texts ---------------------------------------------------------------------

---@class heed.models.embed.options
---@field prompt? string|false the name of a prompt of the directory, which stands in front of each
---text; false for none, where the directory has a default
---@field dims? integer the first numbers of each vector alone, normed again where the directory
---norms them
---@field batch? integer how many texts are computed at once; 32 unless given
---@field max? integer how many tokens a text may have, in place of what the directory says; lists
---of ids are taken as they are, and refused where they have more
---@field parse? boolean whether special tokens that a text spells become those, as
---sentence-transformers has it; true unless given

-- The prompt's text, how many tokens of it are left out of the vectors, and the text whose tokens
-- are there beside those that count.
local function prompt_of(model, plan, o)
  local name = o.prompt
  if name == nil then name = plan.default_prompt end
  if name == false then return "", 0, "" end
  local text = type(name) == "string" and rawget(plan.prompts, name)
  if not text then
    heed.fail("embed: the name of a prompt expected as option prompt, got %s; %s",
              options.kind(name), options.hint(tostring(name), options.names(plan.prompts)))
  end
  if plan.include_prompt or text == "" then return text, 0, "" end
  local tok, parse = texts.tokenizer(model, "encode"), o.parse
  local own = plan.lower and lower(text) or text
  local all, plain = tok:encode(own, {parse = parse}),
                     tok:encode(own, {special = false, parse = parse})
  local ends = #all > #plain and (#plain == 0 or all[-1] ~= plain[-1])
  return text, #all - (ends and 1 or 0), own
end


local function has_texts(list)
  for i = 1, options.last(list) do
    if type(rawget(list, i)) == "string" then return true end
  end
  return false
end


-- The ids of a text, or of a list of ids.
local function ids_of(model, plan, text, prompt, i, o)
  if type(text) == "string" then
    text = prompt .. text
    return (model:ids(plan.lower and lower(text) or text, {max = o.max, parse = o.parse}))
  end
  if heed.is_tensor(text) and text:dim() == 1 then text = text:totable() end
  if type(text) == "table" then
    if next(text) == nil then heed.fail("embed: text %d: at least one id expected, got none", i) end
    local ids = options.ids(("embed: text %d"):format(i), text)
    if not o.max or #ids <= o.max then return ids end
    heed.fail("embed: text %d: at most %d ids expected with option max, got %d", i, o.max, #ids)
  end
  heed.fail("embed: a text or a list of ids expected at position %d, got %s", i, options.kind(text))
end


-- The vectors of some rows, (B, D), as the model gives them or from its features.
local function pooled(model, plan, rows, skipped)
  local ids, lengths = heed.pad(rows)
  local device = texts.device(model)
  ids, lengths = ids:to(device), lengths:to(device)
  if not plan.pool then return model:means(ids, lengths) end
  local x = model:hidden(ids, {lengths = lengths})
  if x.dtype ~= "float64" then x = x:to("float32") end
  local at = heed.arange(ids:size(2), {device = device})
  return plan.pool(x, at:le(lengths:unsqueeze(2)) & at:gt(skipped))
end


-- The results of the other modules.
local function finished(plan, x)
  for _, dense in ipairs(plan.dense) do
    local type = dense.linear.weight.dtype
    x = dense.activation(dense.linear(x:to(blocks[type] and "float32" or type)))
  end
  return plan.normalize and x:normalize(2, -1) or x
end


---The vectors of texts, in their order.
---@param model heed.models.Model
---@param plan heed.models.sentences
---@param list (string|integer[])[]
---@param o heed.models.embed.options
---@return heed.Tensor (N, D)
function sentences.embed(model, plan, list, o)
  local prompt, skipped, beside = prompt_of(model, plan, o)
  local rows = {}
  if o.max ~= nil then
    local around = has_texts(list) and #model:ids(beside, {parse = o.parse}) or 0
    o.max = texts.check_max("embed", model, o.max, around)
  end
  for i = 1, options.last(list) do
    rows[i] = ids_of(model, plan, rawget(list, i), prompt, i, o)
  end
  local all = texts.gathered(rows, o.batch, function(batch)
    return finished(plan, pooled(model, plan, batch, skipped))
  end)
  if not o.dims then return all end
  if o.dims > all:size(2) then
    heed.fail("embed: at most %d expected as option dims, got %d", all:size(2), o.dims)
  end
  all = all:narrow(2, 1, o.dims)
  return plan.normalize and all:normalize(2, -1) or all:contiguous()
end


return sentences
