-- model:generate: texts, ids or messages in, words out. What the directory says in
-- generation_config.json holds unless an option says otherwise.

local Chat = require "heed.models.chat"
local Constraint = require "heed.constrain.constraint"
local Cache = require "heed.nn.cache"
local evaluating = require "heed.nn.evaluating"
local generate = require "heed.generate"
local generation = require "heed.models.generation"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local processors = require "heed.models.processors"
local Prompt = require "heed.generate.prompt"
local Speaker = require "heed.models.speaker"
local texts = require "heed.models.texts"
local torch_names = require "heed.internal.torch_names"

local fail, kind = heed.fail, options.kind

local words = {}

-- Options of heed.generate, which get them as they are.
local PASSED <const> = {
  "beams", "cache", "capture", "check", "early_stopping", "length_penalty", "lookup", "max",
  "min_p", "repetition_penalty", "scores", "seed", "temperature", "top_k", "top_p", "window",
}
local CHAT <const> = {"documents", "template", "tools", "variables"}

local known = {
  config = true, ends = options.any, logits = options.any, on_text = options.any,
  on_token = options.any, parse = false, stop = options.any,
}
for _, list in ipairs{PASSED, CHAT} do
  for _, name in ipairs(list) do known[name] = options.any end
end


-- Prompts ------------------------------------------------------------------------------------

---@class heed.models.prompt
---@field form string "text", "ids" or "chat": what the result is like
---@field ids integer[]

local function is_message(value) return type(value) == "table" and rawget(value, "role") ~= nil end


-- What a prompt is: "text", "ids" or "chat"; "list" of several; nil for what is none.
local function form_of(prompt)
  if type(prompt) == "string" then return "text" end
  if options.is_alive(prompt) then
    return prompt.dtype == "int64" and (prompt:dim() == 1 and "ids" or prompt:dim() == 2 and "list")
  end
  if type(prompt) ~= "table" then return nil end
  local first = rawget(prompt, 1)
  if type(first) == "number" then return "ids" end
  if is_message(first) then return "chat" end
  return first ~= nil and "list" or nil
end


local function refuse(prompt, where, cache)
  local is_empty = type(prompt) == "table" and next(prompt) == nil
  local advice = is_message(prompt) and "; write {message}"
                 or type(prompt) == "table" and rawget(prompt, "content") ~= nil
                    and "; a message has a role, too"
                 or is_empty and Prompt.advice(cache) or ""
  fail("generate: a text, ids, messages, or a list of such expected as prompt%s, got %s%s", where,
       kind(prompt), advice)
end


-- How many tokens a cache has from before, which the prompt goes on from.
local function cached(o) return Cache.is(o.cache) and o.cache:length() or 0 end


local function encoded(model, text, o)
  local goes_on = cached(o) > 0
  local tok = texts.tokenizer(model, "encode")
  local ids = tok:encode(text, {special = not goes_on, parse = o.parse})
  if #ids > 0 then return ids:totable() end
  local start = not goes_on and generation.ids(o.own, "bos_token_id", o.most)[1]
  return {start or fail("generate: a text of at least one token expected, got '%s'%s", text,
                        Prompt.advice(o.cache))}
end


local function read_one(model, prompt, o, where)
  local form = form_of(prompt)
  for _, name in ipairs(form ~= "chat" and CHAT or {}) do
    if o[name] ~= nil then
      fail("generate: option %s: messages expected as the prompt%s, got %s", name, where,
           options.kind(prompt))
    end
  end
  if form == "text" then return {form = form, ids = encoded(model, prompt, o)} end
  if form == "chat" then
    local given = {prompt = true}
    for _, name in ipairs(CHAT) do given[name] = o[name] end
    local ids = Chat.encode(texts.tokenizer(model, "encode"), model.chats:render(prompt, given))
    return {form = form, ids = ids:totable()}
  elseif form == "ids" then
    if heed.is_tensor(prompt) then return {form = form, ids = prompt:totable()} end
    return {form = form, ids = options.whole("generate: the prompt" .. where, prompt)}
  end
  refuse(prompt, where, o.cache)
end


-- The prompts, and whether there was but one.
local function read_prompts(model, prompt, o)
  local form, list = form_of(prompt), {}
  if form ~= "list" then return {read_one(model, prompt, o, "")}, true end
  local all = heed.is_tensor(prompt) and prompt or options.whole("generate: the prompt", prompt)
  for i = 1, #all do list[i] = read_one(model, all[i], o, (" %d"):format(i)) end
  return list, false
end


-- Options ------------------------------------------------------------------------------------

-- Texts that end the words, and functions of the caller's.
local function read_stops(o)
  local list = {}
  if options.is_callable(o.stop) then return list, o.stop end
  local given = o.stop == nil and {} or type(o.stop) == "table" and o.stop or {o.stop}
  if o.stop == nil and o.own.stop_strings ~= nil then
    given = type(o.own.stop_strings) == "table" and o.own.stop_strings or {o.own.stop_strings}
  end
  for i, text in ipairs(options.whole("generate: option stop", given)) do
    list[i] = text
    if type(list[i]) ~= "string" or list[i] == "" then
      fail("generate: a text, a list of texts or a function expected as option stop, got %s; "
           .. "ids that end a sequence are option ends", kind(list[i]))
    end
  end
  return list, nil
end


-- How many ids a model knows; no bound where its own table of features has another one's place.
local function most_of(model)
  local layer = rawget(model, "words")
  local weight = Module.is(layer) and rawget(layer, "weight")
  local is_table = options.is_alive(weight) and weight:dim() == 2
  return is_table and weight:size(1) or math.maxinteger
end


-- Ids that end the words: the file's, of which some may never come, unless the caller gives some,
-- or false for none.
local function read_ends(o)
  if o.ends == nil then return generation.known(generation.ids(o.own, "eos_token_id"), o.most) end
  local given = type(o.ends) == "table" and o.ends or o.ends and {o.ends} or {}
  local list = options.whole("generate: option ends", given)
  for i, id in ipairs(list) do
    list[i] = options.count("generate", "option ends", id)
    if list[i] > o.most then
      fail("generate: an id of at most %d expected as option ends, got %d", o.most, list[i])
    end
  end
  return list
end


local function read_options(model, given)
  local o = options.read("generate", given, known, torch_names.words)
  o.own, o.most = generation.used(generation.of(model), o.config), most_of(model)
  for _, name in ipairs{"on_text", "on_token"} do
    if o[name] ~= nil then options.callable("generate", "option " .. name, o[name]) end
  end
  if Constraint.is(o.logits) then o.logits:check_tokenizer("generate", model.tokenizer) end
  o.stops, o.stop = read_stops(o)
  o.ends = read_ends(o)
  return o
end


-- Running -------------------------------------------------------------------------------------

-- Follows the new ids of one prompt: their text, and why they ended.
local function follower(model, prompt, b, o, run)
  local self, is_end = {reason = "max"}, {}
  for _, id in ipairs(o.ends) do is_end[id] = true end
  local function say(piece)
    if o.on_text and o.on_text(piece, b) == false then run.broken = true end
  end
  local shown = prompt.form ~= "ids" or #o.stops > 0 or o.on_text
  local before = prompt.form == "text" and not model.is_sequence and prompt.ids or nil
  self.speaker = shown and Speaker.new(texts.tokenizer(model, "stream"), o.stops, say, before)
  -- Whether the ids so far are complete; each call brings one more.
  function self.stop(ids)
    local id = ids[#ids]
    if is_end[id] then
      self.reason = "end"
    elseif self.speaker and self.speaker:push(id) then
      self.reason = "stop"
    elseif o.stop and o.stop(ids, b) or o.constraint and o.constraint:over(ids) then
      self.reason = "stop"
    else
      return false
    end
    if self.speaker then self.speaker:finish() end
    return true
  end
  return self
end


-- Whether ids of a beam end it.
local function beam_ends(model, o)
  local is_end = {}
  for _, id in ipairs(o.ends) do is_end[id] = true end
  return function(ids, b)
    if is_end[ids[#ids]] or o.stop and o.stop(ids, b) then return true end
    if o.constraint and o.constraint:over(ids) then return true end
    local text = #o.stops > 0 and texts.tokenizer(model, "decode"):decode(ids)
    for _, stop in ipairs(o.stops) do
      if text:find(stop, 1, true) then return true end
    end
    return false
  end
end


-- The hook that heed.generate gets: the file's, a constraint with the ids that end it, or the
-- caller's.
local function hook_of(o, rows)
  local more = o.logits
  if more ~= nil then options.callable("generate", "option logits", more) end
  o.constraint = Constraint.is(more) and more or nil
  if o.constraint then
    more = function(logits, ids) return o.constraint:apply(logits, ids, o.ends) end
  end
  return processors({
    own = o.own, before = cached(o), ends = o.ends, max = o.max or generate.most, most = o.most,
    rows = rows,
  }, more)
end


-- Rows as heed.generate gets them, and what it calls.
local function source_of(model, prompts, o)
  local rows = {}
  for b, prompt in ipairs(prompts) do rows[b] = prompt.ids end
  if not model.is_sequence then return model, rows, {} end
  if cached(o) > 0 then
    fail("generate: an empty cache expected beside another source, got one of %d positions",
         cached(o))
  end
  local start = generation.ids(o.own, "decoder_start_token_id", o.most)[1]
                or fail("generate: decoder_start_token_id expected in generation_config.json")
  local ids, lengths = heed.pad(rows)
  local device = model.words.weight.device
  ids, lengths = ids:to(device), lengths:to(device)
  local context = model:encode(ids, {lengths = lengths})
  for b in ipairs(prompts) do rows[b] = {start} end
  return function(...) return model:decode(...) end, rows,
         {context = context, context_lengths = lengths}
end


-- The text of ids that a search gave, up to a stop text.
local function text_of(model, prompt, ids, o)
  local before = prompt.form == "text" and not model.is_sequence and prompt.ids or nil
  local speaker = Speaker.new(texts.tokenizer(model, "stream"), o.stops, function() end, before)
  local is_end = {}
  for _, id in ipairs(o.ends) do is_end[id] = true end
  for _, id in ipairs(ids:totable()) do
    if not is_end[id] then speaker:push(id) end
  end
  return speaker:finish()
end


-- What the caller gets of each prompt, and more about it.
local function results_of(model, prompts, followers, ids, o, more, lookup)
  local results, about = {}, {}
  for b, prompt in ipairs(prompts) do
    local one = followers[b]
    about[b] = {ids = ids[b], reason = one and one.reason, lookup = lookup}
    if o.beams then about[b].beams = more[b]
    elseif more then about[b].scores = more[b] end
    if prompt.form == "ids" then
      results[b] = ids[b]
      if one and one.speaker then one.speaker:finish() end
    else
      results[b] = one and one.speaker:finish() or text_of(model, prompt, ids[b], o)
    end
  end
  return results, about
end


local function run(model, prompts, o)
  local called, rows, given = source_of(model, prompts, o)
  local longest, followers, state = 0, {}, {broken = false}
  for _, row in ipairs(rows) do longest = math.max(longest, #row) end
  generation.fill(o.own, o, cached(o) + longest)
  given.logits = hook_of(o, rows)
  for _, name in ipairs(PASSED) do given[name] = o[name] end
  if o.beams then
    for _, name in ipairs{"on_text", "on_token"} do
      if o[name] then fail("generate: no option %s expected with beams", name) end
    end
    given.stop = beam_ends(model, o)
  else
    for b, prompt in ipairs(prompts) do followers[b] = follower(model, prompt, b, o, state) end
    given.stop = function(ids, b) return followers[b].stop(ids) end
    given.on_token = function(id, b)
      if o.on_token and o.on_token(id, b) == false then state.broken = true end
      if state.broken and followers[b].reason == "max" then followers[b].reason = "caller" end
      return not state.broken
    end
  end
  local ids, more, lookup = generate.generate(called, rows, given)
  return results_of(model, prompts, followers, ids, o, more, lookup)
end


---@param model heed.models.Model
---@param prompt any
---@param given? table
---@return any result
---@return table about
function words.generate(model, prompt, given)
  if not model.writes then
    fail("generate: a model with logits of the next id expected; this one (%s) has none",
         model.config.model_type)
  end
  local o = read_options(model, given)
  local prompts, single = read_prompts(model, prompt, o)
  local function extended() return run(model, prompts, o) end
  local results, about
  -- An encoder runs before heed.generate, which evaluates all other models by itself.
  if model.is_sequence then results, about = evaluating("generate", model, extended)
  else results, about = extended() end
  if single then return results[1], about[1] end
  return results, about
end


return words
