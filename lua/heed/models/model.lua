-- The class of all models of directories: a configuration, a tokenizer, vectors of texts.

local classes = require "heed.models.classes"
local extend = require "heed.nn.extend"
local heed = require "heed"
local names = require "heed.models.names"
local Chat = require "heed.models.chat"
local options = require "heed.internal.options"
local search = require "heed.search"
require "heed.nn.quantize"
local sentences = require "heed.models.sentences"
local texts = require "heed.models.texts"
local torch_names = require "heed.internal.torch_names"
local words = require "heed.models.words"

---A model of a directory.
---@class heed.models.Model: heed.Module
---@field config table what config.json says
---@field tokenizer heed.Tokenizer where the directory's cannot be read, it raises that when used
---@field sentences heed.models.sentences|false
---@field classes heed.models.classes|false
---@field limit integer|false how many tokens a text may have
---@field chats heed.models.Chat what it says about chats
---@field generation table what generation_config.json says, which a program may change
local Model = extend("models.Model", {
  chat = 2, classify = 2, embed = 2, generate = 2, ids = 2, published = 0, score = 3,
  similarity = 2,
})

Model.writes = false                 -- whether its logits are those of the next id
Model.is_sequence = false            -- whether they are about another sequence


---Vectors of texts, as the directory says by modules.json and its folders: what
---sentence-transformers computes. Texts of a batch are sorted by their lengths, and come back in
---order.
---@param list string|(string|integer[])[] a text, or a list of texts or of their ids
---@param given? heed.models.embed.options
---@return heed.Tensor vectors (D) of one text, or (N, D)
function Model:embed(list, given)
  local plan = self.sentences
  if not plan then
    heed.fail("embed: a directory with modules.json expected, which says how features become a "
              .. "vector; model:hidden gives features of each token")
  end
  local o = options.read("embed", given, {
    batch = 32, dims = options.any, max = options.any, parse = true, prompt = options.any,
  }, torch_names.embed)
  o.batch = options.count("embed", "option batch", o.batch)
  if o.dims ~= nil then o.dims = options.count("embed", "option dims", o.dims) end
  local all, single = texts.list("embed", "a text", list)
  local vectors = heed.no_grad(sentences.embed, self, plan, all, o)
  return single and vectors[1] or vectors
end


---How alike vectors are, as the directory says: by their cosine unless it names another way.
---@param a heed.Tensor (N, D), or (D)
---@param b heed.Tensor (M, D), or (D)
---@return heed.Tensor (N, M)
function Model:similarity(a, b)
  local plan = self.sentences
  return search.similarity(a, b, {similarity = plan and plan.similarity or nil})
end


---How well each text answers a query, by a reranker: what sentence-transformers' CrossEncoder
---computes. Texts of a batch are sorted by their lengths, and come back in order.
---@param query string
---@param list string|string[] a text, or a list of them
---@param given? heed.models.score.options
---@return heed.Tensor|number scores (N), or a number of one text
function Model:score(query, list, given)
  return classes.score(self, query, list, given)
end


---The classes of texts by a classifier, with the names of config.json; option `pair` gives second
---texts. A model of classes of tokens gives a list for each text.
---@param list string|string[] a text, or a list of them
---@param given? heed.models.classify.options
---@return heed.models.class|heed.models.class[]|heed.models.class[][]
function Model:classify(list, given)
  return classes.classify(self, list, given)
end


---The tensors of the model under the names of its files. Matrices in blocks that lie otherwise
---there, several in one or transposed, are given as float32.
---@return table<string, heed.Tensor>
function Model:published()
  local origin = rawget(self, "origin")
  if type(origin) ~= "table" or origin.gguf and origin.gguf.is_paired then
    heed.fail("published: a model that models.load gave expected, not of a mapped GGUF file")
  end
  return names.collect(self, origin.source)
end


---@class heed.models.ids.options
---@field max? integer how many tokens there may be, in place of what the directory says
---@field pair? string a second text, behind the first
---@field parse? boolean whether special tokens that a text spells become those; true unless given

Model.id_options = {max = options.any, pair = options.any, parse = true}

---The ids of a text, with the tokens that the model wants around it, cut to its limit.
---@param text string
---@param given? heed.models.ids.options
---@return integer[] ids
---@return integer[] types of which text of a pair each token is, from 1
function Model:ids(text, given)
  local o = options.read("ids", given, Model.id_options, torch_names.encode)
  local ids, types = texts.tokenizer(self, "encode"):encode(text, {
    max = o.max or rawget(self, "limit") or nil, pair = o.pair, parse = o.parse, types = true,
  })
  return ids:totable(), types:totable()
end


---@class heed.models.chat.options
---@field prompt? boolean whether the reply's beginning stands at the end; false unless given
---@field ids? boolean ids (T) instead of the text, in which no message can make a special token;
---false unless given
---@field tools? table[]|string what the template gets as tools; texts are JSON, which keeps the
---order of names
---@field documents? table[]|string
---@field variables? table|string others, by their names
---@field template? string|function the name of one of the directory's templates, a template of
---Jinja, or a function of the messages and these options that gives a list of texts, those of
---messages in tables: `{"<|user|>", {m.content}, "<|end|>"}`

---What a chat is for the model, by the chat template of its directory.
---@param messages table[]|string a list of {role = "user", content = "…"}, or the same as JSON;
---tool_calls may stand in the place of content
---@param given? heed.models.chat.options
---@return string|heed.Tensor
function Model:chat(messages, given)
  local o = options.read("chat", given, Chat.known, torch_names.chat)
  local text = self.chats:render(messages, o)
  return o.ids and Chat.encode(texts.tokenizer(self, "encode"), text) or text.bytes
end


---@class heed.models.generate.options: heed.generating.options
---@field on_text? fun(piece: string, prompt: integer): boolean? gets the text as it comes, in whole
---characters; false ends all
---@field stop? string|string[]|function texts at which it ends, without them; or whether the new
---ids so far end it
---@field ends? integer|integer[]|boolean ids that the model knows and that end it, in the place of
---the directory's; false: none
---@field logits? heed.Constraint|function as heed.generate takes it
---@field config? boolean whether generation_config.json holds, true unless given; its special ids
---do anyway
---@field parse? boolean special tokens that a text spells become those, false unless given
---@field tools? table[]|string of messages, as for `chat`, with documents, variables, template

---Words of a model: texts give texts, ids give ids, messages the reply, and lists of such lists.
---Options are those of `heed.generate`, but for lengths and contexts, which follow from the
---prompts, and of `chat`; what is not given is what generation_config.json says.
---@param prompt string|integer[]|heed.Tensor|table
---@param given? heed.models.generate.options
---@return string|heed.Tensor|table result
---@return table about {ids, reason, …}: why it ended, "end", "stop", "max" or "caller"; with
---options scores, beams, lookup what heed.generate gives
function Model:generate(prompt, given) return words.generate(self, prompt, given) end


return Model
