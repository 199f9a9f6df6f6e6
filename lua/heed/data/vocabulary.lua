-- data.chars and data.words: vocabularies, which turn text into ids and back.
--
--   local chars = data.chars(text)                  -- trained: every character of the text
--   local ids = chars:encode("a text")              -- int64 (T)
--   print(chars:decode(ids), #chars)
--
-- Ids 1 to n are the n special tokens in their order; the others follow, sorted by their bytes.
-- No text is ever encoded as a special token: only `id` finds those. A saved vocabulary is JSON;
-- reading one never runs code.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local whole = require "heed.files.whole"

local fail, kind = heed.fail, options.kind

local FORMAT <const> = "heed.data 1"

---@class heed.Vocabulary
---@field tokens string[] by id
---@field special string[] those that no text contains
---@field unknown integer|false the id of what training did not see
---@field kind string "chars" or "words"
local Vocabulary = {__name = "heed.Vocabulary"}
Vocabulary.__index = Vocabulary

-- For each kind the pattern of a token, and the text between tokens.
local kinds = {
  chars = {pattern = utf8.charpattern, joint = ""},
  words = {pattern = "[^ \t\r\n\v\f]+", joint = " "},     -- %S depends on the locale
}


local function is_vocabulary(value) return rawequal(getmetatable(value), Vocabulary) end


local function check_text(who, text)
  if type(text) ~= "string" then fail("%s: a string expected as text, got %s", who, kind(text)) end
  local _, bad = utf8.len(text)
  if bad then fail("%s: UTF-8 expected as text, got an invalid byte at position %d", who, bad) end
  return text
end


local function name_of(self) return "data." .. self.kind end


-- A vocabulary of tokens, of which the first are special.
local function new(which, special, tokens, unknown)
  local ids, plain = {}, {}
  for id, token in ipairs(tokens) do ids[token], plain[token] = id, id > #special and id or nil end
  return setmetatable({
    kind = which, special = special, tokens = tokens, ids = ids, plain = plain, unknown = unknown,
  }, Vocabulary)
end


-- Training ---------------------------------------------------------------

-- Counts each token of the texts.
local function counts_of(who, which, texts)
  if type(texts) == "string" then texts = {texts} end
  if type(texts) ~= "table" then
    fail("%s: a text or a list of texts expected, got %s", who, kind(texts))
  end
  options.check_list(who, texts)
  local counts = {}
  for i = 1, options.last(texts) do
    for token in check_text(who, texts[i]):gmatch(kinds[which].pattern) do
      counts[token] = (counts[token] or 0) + 1
    end
  end
  return counts
end


-- The tokens, sorted; with `most` only the most frequent, and of equally frequent ones the first.
local function choose(counts, most)
  local tokens = {}
  for token in pairs(counts) do tokens[#tokens + 1] = token end
  table.sort(tokens, json.before)
  if not most or #tokens <= most then return tokens end
  table.sort(tokens, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return json.before(a, b)
  end)
  tokens = table.move(tokens, 1, most, 1, {})
  table.sort(tokens, json.before)
  return tokens
end


local function check_special(who, o)
  local special = {}
  local function add(name, token)
    check_text(who .. ": " .. name, token)
    for _, other in ipairs(special) do
      if other == token then fail("%s: the special token '%s' is given twice", who, token) end
    end
    special[#special + 1] = token
  end
  if o.unknown ~= nil then add("option unknown", o.unknown) end
  if o.special ~= nil and type(o.special) ~= "table" then
    fail("%s: a list of strings expected as option special, got %s", who, kind(o.special))
  end
  for i, token in ipairs(o.special or {}) do add(("option special[%d]"):format(i), token) end
  return special
end


local function train(which, texts, given, ...)
  local who = "data." .. which
  options.no_more(who, 2, ...)
  local any = options.any
  local o = options.read(who, given, {most = any, special = any, unknown = any})
  local special, counts = check_special(who, o), counts_of(who, which, texts)
  for _, token in ipairs(special) do
    if counts[token] then fail("%s: the special token '%s' is in the text", who, token) end
  end
  local most = o.most ~= nil and options.count(who, "option most", o.most)
  local tokens = table.move(special, 1, #special, 1, {})
  for _, token in ipairs(choose(counts, most)) do tokens[#tokens + 1] = token end
  return new(which, special, tokens, o.unknown ~= nil and 1)
end


-- Use --------------------------------------------------------------------

---How many ids there are.
function Vocabulary:__len() return #self.tokens end


function Vocabulary:__tostring()
  return ("data.%s of %d tokens"):format(self.kind, #self.tokens)
end


---The id of a token, also of a special one. One that the vocabulary lacks is refused, where
---`encode` takes the id of `unknown`.
---@param token string
---@return integer
function Vocabulary:id(token)
  local id = type(token) == "string" and self.ids[token]
  return id or fail("%s: the token %s is not in the vocabulary", name_of(self),
                    type(token) == "string" and refuse.quoted(token) or kind(token))
end


local function refuse_token(self, token)
  if self.ids[token] then
    fail("%s: %s is a special token, which is none of a text's; its id is %s:id(%s)",
         name_of(self), refuse.quoted(token), self.kind, refuse.quoted(token))
  end
  fail("%s: %s is not in the vocabulary, which was trained without option unknown", name_of(self),
       refuse.quoted(token))
end


---The ids of a text. A token that training did not see gets the id `unknown`, or raises in a
---vocabulary without one.
---@param text string
---@return heed.Tensor ids int64 (T)
function Vocabulary:encode(text)
  local ids, n, plain, unknown = {}, 0, self.plain, self.unknown or nil
  for token in check_text(name_of(self), text):gmatch(kinds[self.kind].pattern) do
    n = n + 1
    ids[n] = plain[token] or unknown or refuse_token(self, token)
  end
  return heed.tensor(ids, {dtype = "int64"})
end


-- Converts nested lists of ids to nested lists of texts.
local function decode(self, ids)
  if type(ids[1]) == "table" then
    local texts = {}
    for i, row in options.entries(ids) do
      if type(row) ~= "table" then
        fail("%s: decode: a list of ids expected at position %d, as at 1, got %s", name_of(self), i,
             kind(row))
      end
      texts[i] = decode(self, row)
    end
    return texts
  end
  local words = {}
  for i = 1, options.last(ids) do
    words[i] = self.tokens[ids[i]]
      or fail("%s: an id from 1 to %d expected at position %d, got %s", name_of(self),
              #self.tokens, i, kind(ids[i]))
  end
  return table.concat(words, kinds[self.kind].joint)
end


---The text of ids: of words with a blank between them.
---@param ids heed.Tensor|integer[]|integer int64, of rank 2 for several texts
---@return string|string[]
function Vocabulary:decode(ids)
  if type(ids) == "number" then ids = {ids} end
  if heed.is_tensor(ids) and ids.dtype == "int64" then
    ids = ids:dim() == 0 and {ids:item()} or ids:totable()
  end
  if type(ids) ~= "table" then
    fail("%s: an int64 tensor, a list of ids or an id expected, got %s", name_of(self),
         options.typed(ids))
  end
  return decode(self, ids)
end


-- Files ------------------------------------------------------------------

---Writes the vocabulary to a file, as JSON; the file is complete or as it was before.
---@param path string
---@return true? done
---@return string? message
function Vocabulary:save(path)
  whole.check_path("save", path)
  local done, why = core.write_file(path, {json.encode{
    format = FORMAT, kind = self.kind, special = #self.special, tokens = json.array(self.tokens),
    unknown = self.unknown,
  }})
  if not done then return nil, "save: " .. why end
  return true
end


-- Refuses a file whose tokens are not texts of its kind, or not unique.
local function check_tokens(which, tokens, special)
  local seen = {}
  for id, token in ipairs(tokens) do
    if type(token) ~= "string" then refuse.with("token %d is no string", id) end
    if seen[token] then refuse.with("token %d, %s, is there twice", id, refuse.quoted(token)) end
    seen[token] = true
    local first, last = token:find(kinds[which].pattern)
    if id > special and (first ~= 1 or last ~= #token) then
      refuse.with("token %d, %s, is none of data.%s", id, refuse.quoted(token), which)
    end
  end
end


local function is_count(n, most) return math.type(n) == "integer" and n >= 0 and n <= most end


local function parse(text, which)
  local read, why = json.decode(text, 3)
  if why then refuse.with("%s", why) end
  if type(read) ~= "table" or read.format ~= FORMAT or read.kind ~= which then
    refuse.with("this is no vocabulary of data.%s", which)
  end
  local tokens, unknown = read.tokens, read.unknown
  if not json.is_array(tokens) or not is_count(read.special, #tokens) then
    refuse.with("a list of tokens and a number of special ones expected")
  end
  if unknown ~= false and not (is_count(unknown, read.special) and unknown > 0) then
    refuse.with("the id of a special token expected as unknown")
  end
  check_tokens(which, tokens, read.special)
  local plain = table.move(tokens, 1, #tokens, 1, {})
  return new(which, table.move(tokens, 1, read.special, 1, {}), plain, unknown)
end


local function load_from(which, path, ...)
  local who = ("data.%s.load"):format(which)
  options.no_more(who, 1, ...)
  return whole.read(who, path, parse, which)
end


options.guard(Vocabulary, {decode = 1, encode = 1, id = 1, save = 1},
              {is = is_vocabulary, what = "a vocabulary", variable = "chars"})
options.strict("vocabulary", Vocabulary)


---@class heed.Vocabulary.options
---@field unknown? string a token for what training does not see; its id is 1
---@field special? string[] more tokens that no text contains, such as a mask
---@field most? integer how many tokens beside the special ones: the most frequent

---@class heed.data.trainer the type of `data.chars` and `data.words`: call it, or its `train`
---@field train fun(texts: string|string[], options?: heed.Vocabulary.options): heed.Vocabulary
---@field load fun(path: string): heed.Vocabulary?, string? nil and a message if it cannot be read
---@overload fun(texts: string|string[], options?: heed.Vocabulary.options): heed.Vocabulary

-- The overload below is the call of a trainer.
---@overload fun(texts: string|string[], options?: heed.Vocabulary.options): heed.Vocabulary
local function trainer(which)
  local made = options.strict("heed.data." .. which, {
    load = function(...) return load_from(which, ...) end,
    train = function(...) return train(which, ...) end,
  })
  getmetatable(made).__call = function(_, ...) return train(which, ...) end
  return made
end


return {chars = trainer "chars", words = trainer "words"}
