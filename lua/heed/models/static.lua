-- Static tables, as Model2Vec and StaticEmbedding have them: the vector of a text is the mean of
-- its tokens' rows. No layer works on them.

local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local heed = require "heed"
local json = require "heed.files.json"
local layers = require "heed.nn.layers"
local maker = require "heed.models.maker"
local Model = require "heed.models.model"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local sentences = require "heed.models.sentences"
local texts = require "heed.models.texts"
local torch_names = require "heed.internal.torch_names"
local weights = require "heed.models.weights"

local quoted = refuse.quoted

local static = {}


---A table of vectors, one for each token, or for those that share one.
---@class heed.StaticModel: heed.models.Model
---@field words heed.Embedding
---@field weight heed.Tensor|false (V) of tokens; Model2Vec's
---@field mapping heed.Tensor|false int64 (V): the row of each token, from 1
---@field leaves_unknown boolean whether tokens of unknown text do not count, as Model2Vec has it
local StaticModel = extend("models.StaticModel", {hidden = 2, ids = 2, means = 2,
                                                  published = 0}, Model)


---@param config table
---@param o {rows: integer, dim: integer, weight: heed.Tensor?, mapping: heed.Tensor?,
---leaves_unknown: boolean}
local function fill(self, config, o)
  self.config, self.tokenizer, self.sentences = config, false, false
  self.words = layers.Embedding(o.rows, o.dim)
  self.weight = o.weight and parameter.Buffer(o.weight) or false
  self.mapping = o.mapping and parameter.Buffer(o.mapping) or false
  self.leaves_unknown, self.typical = o.leaves_unknown, false
end

local make = maker(StaticModel, "models.StaticModel", fill)


---The rows of tokens.
---@param ids heed.Tensor (B, T), or (T); from 1
---@return heed.Tensor features (B, T, dim), or (T, dim)
function StaticModel:hidden(ids, given)
  local given_ids = ids
  if given ~= nil then
    heed.fail("models.StaticModel: no options expected, got %s", options.kind(given))
  end
  if self.mapping then ids = field.tensor(self, "mapping")[ids] end
  local x = texts.embedded("models.StaticModel", self, ids)
  return self.weight and x * field.tensor(self, "weight")[given_ids]:unsqueeze(-1) or x
end

StaticModel.forward = StaticModel.hidden


---Means of rows; zeros where a row has no token.
---@param ids heed.Tensor (B, T)
---@param lengths heed.Tensor int64 (B)
---@return heed.Tensor (B, dim)
function StaticModel:means(ids, lengths)
  if not heed.is_tensor(ids) or ids:dim() ~= 2 then
    heed.fail("means: ids of shape (B, T) expected, got %s", options.typed(ids))
  elseif not heed.is_tensor(lengths) or lengths:dim() ~= 1 then
    heed.fail("means: lengths of shape (B) expected, got %s", options.typed(lengths))
  end
  local x, n = self:hidden(ids), lengths:unsqueeze(2)
  if x.dtype ~= "float64" then x = x:to("float32") end
  local there = heed.arange(ids:size(2), {device = ids.device}):le(n)
  return x:masked_fill(~there:unsqueeze(3), 0):sum(2) / n:clamp{min = 1}:to(x.dtype)
end


-- How many characters the token in the middle has, of all sorted by that.
local function typical_length(tok)
  local list = {}
  for id = 1, #tok do
    local name = tok:token(id)
    list[#list + 1] = name and (utf8.len(name) or #name)
  end
  table.sort(list)
  local n = #list
  return n > 0 and (list[(n + 1) // 2] + list[n // 2 + 1]) // 2 or 1
end


-- The first characters of a text, as many as Model2Vec reads.
local function cut(self, text, most)
  if #text <= most then return text end          -- no token has fewer than one
  self.typical = self.typical or math.max(typical_length(self.tokenizer), 1)
  local n = utf8.len(text, 1, -1, true) or 0
  if n <= most * self.typical then return text end
  return text:sub(1, utf8.offset(text, most * self.typical + 1) - 1)
end


---The ids of a text: no tokens around it; those that stand for unknown text are left out by
---Model2Vec.
---@param text string
---@param given? heed.models.ids.options without a pair
---@return integer[]
function StaticModel:ids(text, given)
  local o = options.read("ids", given, Model.id_options, torch_names.encode)
  if o.pair ~= nil then heed.fail("ids: option pair: a table of vectors takes one text") end
  local tok, most = texts.tokenizer(self, "encode"), o.max or self.limit or nil
  options.text("ids", "the text", text)
  if self.leaves_unknown and most then text = cut(self, text, most) end
  local all = tok:encode(text, {special = false, parse = o.parse, max = most}):totable()
  local unknown, kept = self.leaves_unknown and tok:unknown(), {}
  if not unknown then return all end
  for _, id in ipairs(all) do
    if id ~= unknown then kept[#kept + 1] = id end
  end
  return kept
end


---The tensors of its file.
---@return table<string, heed.Tensor>
function StaticModel:published()
  local tensors = Model.published(self)
  tensors.weights, tensors.mapping = self.weight or nil, self.mapping and self.mapping - 1 or nil
  return tensors
end


function StaticModel:describe()
  return self.leaves_unknown and "model2vec" or "StaticEmbedding"
end


-- Reading --------------------------------------------------------------------

-- Keys of Model2Vec's config.json about how the table was made.
local IDLE = {}
for name in ([[
  apply_pca apply_zipf architectures embedding_dtype hidden_dim language model_name model_type
  pca_dims pooling seq_length sif_coefficient tokenizer_name token_remove_pattern
  vocabulary_quantization
]]):gmatch "%S+" do IDLE[name] = true end


---The folder of a directory's table, or nil where it has none.
---@param path string
---@return string? folder
function static.folder(path)
  local kind, folder = sentences.first(path)
  if kind == "StaticEmbedding" then return path .. (folder == "" and "" or "/" .. folder) end
  local c = kind == nil and reading.json(path, "config.json")
  local is = c and (c.model_type == "model2vec" or c.model_type == nil and c.tokenizer_name)
  return is and path or nil
end


-- What Model2Vec's configuration says.
local function read_config(path)
  local c = reading.json(path, "config.json") or {}
  for name, value in next, c do
    if not IDLE[name] and name ~= "normalize" and name ~= "max_length" then
      refuse.with("config.json: the key %s is not known in tables of Model2Vec", quoted(name))
    elseif name == "normalize" and type(value) ~= "boolean" then
      refuse.with("config.json: true or false expected as normalize, got %s",
                  options.kind(value))
    end
  end
  return c
end


-- How many tokens Model2Vec reads of a text; null: all.
local function read_limit(path)
  local n = (reading.json(path, "config.json", false, true) or {}).max_length
  if n == nil then return 512 end
  if rawequal(n, json.null) then return false end
  if math.type(n) == "integer" and n > 0 and n < 1 << 31 then return n end
  refuse.with("config.json: a length expected as max_length, got %s", options.kind(n))
end


-- The tensor of a file by its name, which has some shape.
local function take(tensors, name, rank, n)
  local t = tensors[name]
  tensors[name] = nil
  if t and (t:dim() ~= rank or n and t:size(1) ~= n) then
    refuse.with("the tensor %s has shape %s, and %s is expected", quoted(name), tostring(t.shape),
                n and ("(%d)"):format(n) or "(tokens, features)")
  end
  return t
end


-- Rows by the ids of tokens, from 1.
local function read_mapping(t, rows)
  if not t then return nil end
  if t.dtype ~= "int64" or t:numel() == 0 or t:min():item() < 0 or t:max():item() >= rows then
    refuse.with('the tensor "mapping" is to hold rows from 0 to %d', rows - 1)
  end
  return t + 1
end


local function build(o)
  return make(o.config, o)
end


---Loads a table.
---@param path string
---@param folder string where its tensors and its tokenizer are
---@param place fun(t: heed.Tensor): heed.Tensor
---@param mapped? boolean
---@param verify? boolean as `weights.read` takes them
---@return heed.StaticModel
---@return heed.models.source
function static.load(path, folder, place, mapped, verify)
  local tensors = weights.read(folder, place, mapped, verify)
  local published = tensors.embeddings ~= nil
  local rows = take(tensors, published and "embeddings" or "embedding.weight", 2)
  if not rows then refuse.with("the tensor embedding.weight, or embeddings is missing") end
  if rows.dtype == "int64" then rows = rows:to("float32") end
  local mapping = published and take(tensors, "mapping", 1)
  local weight = published and take(tensors, "weights", 1, mapping and mapping:size(1))
  local other = next(tensors)
  if other then refuse.with("the tensor %s has no place in a table", quoted(other)) end
  local c = published and read_config(folder) or reading.json(path, "config.json") or {}
  local model = parameter.hollow("models.load", math.huge, build, {
    config = c, rows = rows:size(1), dim = rows:size(2), leaves_unknown = published,
    mapping = read_mapping(mapping, rows:size(1)),
    weight = weight or nil,
  })
  local table_name = published and "embeddings" or "embedding.weight"
  local source = names.assign(model, {{table_name, "words.weight"}}, {[table_name] = rows})
  source.folder = folder
  model.limit = published and read_limit(folder)
  model.sentences = sentences.read(path, place, "StaticEmbedding")
  if published then model.sentences.normalize = c.normalize or false end
  return model, source
end


return static
