-- heed.generate: extends a prompt by a model, id by id; heed.sample: draws one id from each row.
--
--   local new = heed.generate(model, chars:encode("Once "), {max = 100, top_k = 10})
--   print(chars:decode(new))

local beams = require "heed.generate.beams"
local Cache = require "heed.nn.cache"
local evaluating = require "heed.nn.evaluating"
local heed = require "heed"
local hook = require "heed.generate.hook"
local Lookup = require "heed.generate.lookup"
local Prompt = require "heed.generate.prompt"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"
local sampling = require "heed.generate.sampling"
local Stepper = require "heed.generate.stepper"
local torch_names = require "heed.internal.torch_names"

local fail, kind = heed.fail, options.kind

local KNOWN = {
  beams = options.any, cache = options.any, capture = options.any, check = false,
  context = options.any, context_lengths = options.any, early_stopping = options.any,
  length_penalty = options.any, lengths = options.any, logits = options.any,
  lookup = options.any, max = 100, on_token = options.any, scores = false, seed = options.any,
  stop = options.any, window = options.any,
}
for name, default in pairs(sampling.known) do KNOWN[name] = default end

-- Options that ask for random ids; beams take none of them.
local DRAWN = {"temperature", "top_k", "top_p", "min_p", "seed"}


-- Options --------------------------------------------------------------

local function check_beams(o)
  if not o.beams then
    for _, name in ipairs{"early_stopping", "length_penalty"} do
      if o[name] ~= nil then fail("generate: option %s is for beams: beams = 4", name) end
    end
    return
  end
  o.beams = options.count("generate", "option beams", o.beams)
  o.length_penalty = o.length_penalty == nil and 1 or o.length_penalty
  if type(o.length_penalty) ~= "number" or o.length_penalty - o.length_penalty ~= 0 then
    fail("generate: a finite number expected as option length_penalty, got %s",
         kind(o.length_penalty))
  elseif o.early_stopping ~= nil and type(o.early_stopping) ~= "boolean" then
    fail("generate: a boolean expected as option early_stopping, got %s", kind(o.early_stopping))
  end
  for _, name in ipairs{"lookup", "min_p", "on_token", "repetition_penalty", "seed",
                        "temperature", "top_k", "top_p"} do
    if o[name] ~= nil and not (name == "temperature" and o[name] == 0) then
      fail("generate: no option %s expected with beams: they are the best that was found, none is "
           .. "drawn", name)
    end
  end
end


local function check_window(o)
  if o.window == nil then return end
  o.window = options.count("generate", "option window", o.window)
  if type(o.cache) == "table" then
    fail("generate: either window, or an nn.Cache as option cache expected, got both")
  end
end


local function check_lookup(o)
  if o.lookup == nil then return end
  o.lookup = options.count("generate", "option lookup", o.lookup)
  local other = o.window ~= nil and "window" or o.cache == false and "cache = false"
                or type(o.cache) == "table" and not Cache.is(o.cache) and "a cache of another kind"
                or Cache.is(o.cache) and o.cache.window and "a cache with a window"
  if other then
    fail("generate: option lookup takes back what it guessed wrong, which %s does not let it",
         other)
  end
end


local function check_capture(o)
  if o.capture ~= nil and type(o.capture) ~= "boolean" then
    fail("generate: a boolean expected as option capture, got %s", kind(o.capture))
  elseif not o.capture or o.cache == nil or o.cache == true
         or Cache.is(o.cache) and o.cache.capacity then
    return
  end
  fail("generate: option capture replays one step, which is the same work each time with "
       .. "cache = nn.Cache{capacity = n}, or a cache that is made here, got %s as option cache",
       kind(o.cache))
end


local function asks_for_draws(o)
  for _, name in ipairs(DRAWN) do
    if o[name] ~= nil then return true end
  end
  return false
end


-- Makes a function that tells whether the ids so far are complete; returns also how many ids end
-- a sequence. A function of the caller's gets a list of its own.
local function stop_of(stop)
  if options.is_callable(stop) then
    return function(ids, row) return stop(options.copied(ids), row) end, 1
  end
  local list = type(stop) == "table" and stop or {stop}
  local ends = {}
  list = options.whole("generate: option stop", list)
  for i, id in ipairs(list) do
    local whole = type(id) == "number" and math.tointeger(id)
    if not whole or whole < 1 then
      fail("generate: an id, a list of ids or a function expected as option stop, got %s%s",
           kind(id), type(stop) == "table" and " at position " .. i or "")
    end
    ends[whole] = true
  end
  return function(ids) return ends[ids[#ids]] end, #list
end


local function check(given)
  local o = options.read("generate", given, KNOWN, torch_names.generate)
  o.max = options.count("generate", "option max", o.max, 0)
  check_window(o)
  check_beams(o)
  check_lookup(o)
  check_capture(o)
  if o.temperature == nil and not asks_for_draws(o) then o.temperature = 0 end
  sampling.check("generate", o)
  if o.logits ~= nil then options.callable("generate", "option logits", o.logits) end
  if o.on_token ~= nil then options.callable("generate", "option on_token", o.on_token) end
  o.stop, o.stops = stop_of(o.stop)
  return o
end


-- One id at a time -----------------------------------------------------

-- Adds an id with its score to a row; returns whether generation continues.
local function add(o, rows, b, id, score)
  local row, scores = rows[b], rows.scores[b]
  row[#row + 1], scores[#scores + 1] = id, score
  rows.done[b] = o.stop(row, b) and true or false
  return not (o.on_token and o.on_token(id, b) == false)
end


local function all_done(rows)
  for b = 1, #rows do
    if not rows.done[b] then return false end
  end
  return true
end


-- All ids of each row, prompt and new ones, for the repetition penalty.
local function histories(prompt, rows)
  local all = {}
  for b, ids in ipairs(prompt.rows) do
    all[b] = table.move(rows[b], 1, #rows[b], #ids + 1, table.move(ids, 1, #ids, 1, {}))
  end
  return all
end


-- Adds one id to each row that is not done; returns the ids of the next step, or nil at the end.
local function advance(o, prompt, rows, logits, generator)
  o.history = o.repetition_penalty and histories(prompt, rows) or nil
  local changed = o.logits and hook.apply(o.logits, logits, rows) or logits
  local best = sampling.check_best("generate", changed)
  local ids, next_ids = generator:run(sampling.draw, changed, o, best), {}
  local drawn, scores = ids:totable(), o.scores and sampling.scores(logits, ids):totable() or {}
  for b = 1, #rows do
    next_ids[b] = drawn[b]
    if not rows.done[b] and not add(o, rows, b, drawn[b], scores[b]) then return nil end
  end
  return not all_done(rows) and next_ids or nil
end


local function plain(stepper, prompt, o, next_ids)
  local ids = next_ids(stepper:begin(prompt.rows))
  for _ = 2, o.max do
    if not ids then return end
    ids = next_ids(stepper:step(ids))
  end
end


-- Calls the model for an id and for those that may follow it as they did before: what it draws
-- behind each of them is what it would have drawn one by one, as long as they are right.
local function with_lookup(stepper, prompt, o, rows, next_ids)
  local lookup = Lookup.new(o.lookup, prompt.rows[1])
  local ids = next_ids(stepper:begin(prompt.rows))
  while ids and #rows[1] < o.max do
    lookup:add(ids[1])
    local guesses = lookup:guess(math.min(stepper:most_guesses(), o.max - #rows[1] - 1))
    local logits, right = stepper:steps(ids[1], guesses), 0            -- (1 + #guesses, V)
    repeat
      ids = next_ids(logits:narrow(1, right + 1, 1))
      local as_guessed = ids and ids[1] == guesses[right + 1]
      if as_guessed then
        lookup:add(ids[1])
        right = right + 1
      end
    until not as_guessed or #rows[1] == o.max
    lookup:count(#guesses, right)
    stepper:forget(#guesses - right)
  end
  return lookup:counts()
end


-- Rows of new ids, and what lookup guessed.
local function one_by_one(stepper, prompt, o)
  local generator = rng.own("generate", o.seed)
  local rows = {done = {}, scores = {}}
  for b = 1, #prompt.rows do rows[b], rows.scores[b] = {}, {} end
  local function next_ids(logits) return advance(o, prompt, rows, logits, generator) end
  if not o.lookup then return rows, o.max > 0 and plain(stepper, prompt, o, next_ids) or nil end
  if #rows > 1 then fail("generate: one prompt expected with option lookup, got %d", #rows) end
  if o.max == 0 then return rows, Lookup.new(o.lookup, {}):counts() end
  return rows, with_lookup(stepper, prompt, o, rows, next_ids)
end


---@class heed.generating.options: heed.sampling.options
---@field max? integer how many ids at most; 100 unless given
---@field temperature? number 0 takes the best id each time, as it is unless given; where top_k,
---top_p, min_p or seed is given, 1
---@field beams? integer search with so many sequences at once, for the best as a whole
---@field length_penalty? number scores of beams are divided by their length to this power; 1
---@field early_stopping? boolean end with as many results as beams, also if others may be better
---@field lookup? integer guess so many ids at most, which followed the last ones before (A. Saxena,
---"Prompt lookup decoding", 2023): the ids stay the same, and come faster where texts repeat
---@field on_token? fun(id: integer, row: integer): boolean? gets each id at once; false ends all
---@field window? integer the model sees so many ids at most, the last ones, at positions from 0;
---without it, as many as its `heed.position.Learned` has rows. Behind them there is no cache: all
---is computed for each id
---@field scores? boolean whether the log-probabilities of the new ids come back too, as the model
---gives them, before temperature and the like; of beams in the field scores of each
---@field capture? boolean record the step of one more id and replay it without Lua, as
---`heed.capture` does: with a cache of fixed capacity, the caller's or one that is made here.
---Unless given, a model of heed's own classes without hooks and callbacks of weights is replayed
---where many ids may come and rows are of one length, without beams, lookup, window, context and a
---cache of the caller's
---@field check? boolean compare the first steps with a cache with full passes, whatever the cache
---is, and refuse where they differ
---@field cache? boolean|table false: everything is computed again for each id; or a cache. The
---first step with one that is made here is compared with a full pass, once for each model, and
---refused where they differ

---@class heed.generate.options: heed.generating.options
---@field stop? integer|integer[]|fun(ids: integer[], row: integer): any ids that end a sequence,
---of which they are the last; or whether its new ids so far do
---@field logits? fun(logits: heed.Tensor, ids: integer[], row: integer): heed.Tensor? gets the
---logits (V) of the next id and the new ids so far, and may change them or give others; of beams,
---log-probabilities. `heed.constrain` has some
---@field lengths? heed.Tensor|integer[] (B) of prompts that are padded on the right
---@field context? heed.Tensor (B, S, dim) what a decoder looks at, such as an encoder's output
---@field context_lengths? heed.Tensor|integer[] (B)

---Extends a prompt by new ids from a model, which is called `model(ids, {cache = cache, lengths =
---lengths})`, or `model(ids, context, {…})` with a context, and gives logits (B, T, V). Rows of
---different lengths get the same ids as each row alone. Meanwhile gradients are off and the model
---is in eval mode; while the call is suspended in a coroutine, steps of its optimiser are refused.
---> heed.generate(function(x) return heed.eye(9)[x + 1] end, {1}, {max = 3, cache = false})[3] == 4
---@param model fun(ids: heed.Tensor, ...): heed.Tensor
---@param prompt heed.Tensor|integer[]|(integer[]|heed.Tensor)[] ids (T) or (B, T), a list of ids,
---or a list of such for several prompts
---@param given? heed.generate.options
---@return heed.Tensor|heed.Tensor[] ids int64, the new ones alone: a tensor for one prompt (T) or a
---list of ids, else a list of tensors
---@return heed.Tensor|table[]|nil more with option scores a score for each id, float64, in the form
---of the ids; with beams {ids, score, scores}, the best first, for each prompt
---@return {calls: integer, guessed: integer, right: integer}? lookup with option lookup: calls of
---the model behind the prompt, ids that it was given as guesses, and those that were right
local function generate(model, prompt, given, ...)
  options.no_more("generate", 3, ...)
  options.callable("generate", "model", model)
  local o = check(given)
  local read = Prompt.read(model, prompt, o)
  return evaluating("generate", model, function(modules)
    if o.beams then return beams(model, modules, read, o) end
    local rows, lookup = one_by_one(Stepper.new(model, modules, read, o, 1), read, o)
    return read:results(rows), o.scores and read:results(rows.scores, "float64") or nil, lookup
  end)
end


return {generate = generate, most = KNOWN.max, sample = sampling.sample}
