-- The class of all models of directories: a configuration, a tokenizer, vectors of texts.

local extend = require "heed.nn.extend"
local heed = require "heed"
local options = require "heed.internal.options"
local sentences = require "heed.models.sentences"

---A model of a directory.
---@class heed.models.Model: heed.Module
---@field config table what config.json says
---@field tokenizer heed.Tokenizer where the directory's cannot be read, it raises that when used
---@field sentences heed.models.sentences|false
local Model = extend("models.Model", {embed = 2})


---Vectors of texts, as the directory says by modules.json and its folders: what
---sentence-transformers computes. Texts of a batch are sorted by their lengths, and come back in
---order.
---@param texts string|(string|integer[])[] a text, or a list of texts or of their ids
---@param given? heed.models.embed.options
---@return heed.Tensor vectors (D) of one text, or (N, D)
function Model:embed(texts, given)
  local plan = self.sentences
  if not plan then
    heed.fail("embed: a directory with modules.json expected, which says how features become a "
              .. "vector; model:hidden gives features of each token")
  end
  local o = options.read("embed", given, {batch = 32, dims = options.any, prompt = options.any})
  o.batch = options.count("embed", "option batch", o.batch)
  if o.dims ~= nil then o.dims = options.count("embed", "option dims", o.dims) end
  local single = type(texts) == "string"
  if single then texts = {texts} end
  if type(texts) ~= "table" or next(texts) == nil then
    heed.fail("embed: a text, or a list of texts expected, got %s", options.kind(texts))
  end
  options.check_list("embed", texts)
  local vectors = heed.no_grad(sentences.embed, self, plan, texts, o)
  return single and vectors[1] or vectors
end


return Model
