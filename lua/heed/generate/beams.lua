-- Beam search: keeps the W best sequences for each prompt.
--
-- A step extends every running beam, as in transformers. Of the best candidates, those among the
-- first W that end become results, and the best W of the others run on. A search is over when it
-- has W results and no running beam, at its present length, scores better than the worst of them;
-- or, with early_stopping, as soon as it has W results.

local core = require "heed.core"
local heed = require "heed"
local hook = require "heed.generate.hook"
local options = require "heed.internal.options"
local sampling = require "heed.generate.sampling"
local Stepper = require "heed.generate.stepper"

local ENTRIES <const> = 16.0                 -- of the tables of a beam, roughly

---@class heed.generate.beam
---@field ids integer[] new ones
---@field score number sum of log-probabilities; of results, divided by length ^ length_penalty
---@field sums number[] what the score was behind each id
---@field row integer where it stands in the batch


local function extended(list, value)
  local longer = table.move(list, 1, #list, 1, {})
  longer[#list + 1] = value
  return longer
end


-- Begins a search with one beam of score 0; the others score -inf, and no candidate descends from
-- them.
local function new_search(first_row, W)
  local search = {running = {}, results = {}, over = false}
  for w = 1, W do
    search.running[w] = {
      ids = {}, scores = {}, score = w == 1 and 0 or -math.huge, row = first_row + w - 1,
    }
  end
  return search
end


-- The best candidates of a search, the best first: beams with one more id, by the sums of their
-- scores; that id's own are kept where they are asked for.
local function candidates(search, sums, own, positions, V)
  local list = {}
  for k, position in ipairs(positions) do
    local parent = search.running[(position - 1) // V + 1]
    list[k] = {
      ids = extended(parent.ids, (position - 1) % V + 1), score = sums[k],
      scores = own and extended(parent.scores, own[k]) or parent.scores, row = parent.row,
    }
  end
  return list
end


-- Inserts a result by its score, behind results of equal score, and keeps the best W.
local function add_result(search, beam, o)
  local score = beam.score / (#beam.ids) ^ o.length_penalty
  local at = #search.results + 1
  while at > 1 and score > search.results[at - 1].score do at = at - 1 end
  table.insert(search.results, at, {ids = beam.ids, scores = beam.scores, score = score})
  search.results[o.beams + 1] = nil
end


-- Whether no running beam can replace the worst result.
local function is_over(search, o)
  local results, best = search.results, search.running[1]
  if #results < o.beams then return false end
  return o.early_stopping or best.score / (#best.ids) ^ o.length_penalty <= results[o.beams].score
end


-- Divides candidates into results and running beams.
local function advance(search, list, o, last)
  local running = {}
  for k, beam in ipairs(list) do
    local dead = beam.score == -math.huge
    local ends = not dead and (last or o.stop(beam.ids, search.prompt))
    if ends and k <= o.beams then add_result(search, beam, o) end
    if not ends and #running < o.beams then running[#running + 1] = beam end
  end
  while #running < o.beams do
    local filler = list[1]
    running[#running + 1] = {
      ids = filler.ids, scores = filler.scores, score = -math.huge, row = filler.row,
    }
  end
  search.running = running
  search.over = last or is_over(search, o)
end


-- Refuses log-probabilities that no search can add up. Those of -inf forbid ids.
local function check_sums(scores)
  if scores:lt(math.huge):all() then return scores end
  for r, best in ipairs(scores:amax(2):totable()) do
    if not (best < math.huge) then
      heed.fail("generate: finite log-probabilities, or -inf, expected for the beam of row %d, got "
                .. "%s", r, options.kind(best))
    end
  end
end


-- Log-probabilities (B * W, V) as the hook leaves them.
local function hooked(searches, scores, o)
  if not o.logits then return scores end
  local lists = {done = {}}
  for _, search in ipairs(searches) do
    for _, beam in ipairs(search.running) do
      lists[#lists + 1] = beam.ids
      lists.done[#lists] = search.over or beam.score == -math.huge
    end
  end
  return hook.apply(o.logits, scores, lists, o.beams)
end


-- Advances all searches by logits (B * W, V); returns whether one of them continues.
local function step_all(searches, logits, o, last)
  local V, W = logits:size(2), o.beams
  if logits.dtype ~= "float64" then logits = logits:to("float32") end
  sampling.check_best("generate", logits)
  local scores = {}
  for _, search in ipairs(searches) do
    for _, beam in ipairs(search.running) do scores[#scores + 1] = beam.score end
  end
  scores = heed.tensor(scores, {dtype = "float64", device = logits.device}):unsqueeze(2)
  local own = logits:log_softmax(2)
  local changed = check_sums(hooked(searches, own, o))
  local total = (changed + scores):reshape(#searches, W * V)
  local best, positions = total:topk(math.min(W * V, W * (1 + o.stops)), 2)
  own = o.scores and own:reshape(#searches, W * V):gather(2, positions):totable() or {}
  best, positions = best:totable(), positions:totable()
  local unfinished = false
  for b, search in ipairs(searches) do
    if not search.over and best[b][1] == -math.huge and #search.results == 0 then
      heed.fail("generate: logits with a largest number expected, got -inf as that of row %d", b)
    elseif not search.over then
      advance(search, candidates(search, best[b], own[b], positions[b], V), o, last)
      unfinished = unfinished or not search.over
    end
  end
  return unfinished
end


-- The cache row that each running beam continues, and the id that it adds.
local function next_rows(searches)
  local parents, ids = {}, {}
  for _, search in ipairs(searches) do
    for _, beam in ipairs(search.running) do
      parents[#parents + 1], ids[#ids + 1] = beam.row, beam.ids[#beam.ids]
      beam.row = #parents
    end
  end
  return parents, ids
end


local function all_results(searches, prompt, o)
  local best, all = {}, {}
  for b, search in ipairs(searches) do
    best[b], all[b] = search.results[1] and search.results[1].ids or {}, {}
    for k, beam in ipairs(search.results) do
      all[b][k] = {ids = prompt:tensor(beam.ids), score = beam.score,
                   scores = o.scores and prompt:tensor(beam.scores, "float64") or nil}
    end
  end
  return prompt:results(best), prompt.single and all[1] or all
end


---@param model function
---@param modules heed.Module[] of the model: none of a plain function
---@param prompt heed.generate.Prompt
---@param o heed.generate.options with stop as a function, and stops, how many ids it may be
---@return heed.Tensor|heed.Tensor[] ids the best of each prompt
---@return heed.generate.beam[]|heed.generate.beam[][] beams all results, the best first
return function(model, modules, prompt, o)
  core.check_entries("generate", ENTRIES * o.beams * #prompt.rows, "beams of all prompts")
  local searches, rows = {}, {}
  for b, ids in ipairs(prompt.rows) do
    searches[b] = new_search(#rows + 1, o.beams)
    searches[b].prompt = b
    for _ = 1, o.beams do rows[#rows + 1] = ids end
  end
  local stepper = Stepper.new(model, modules, prompt, o, o.beams)
  local logits = o.max > 0 and stepper:begin(rows)
  for n = 1, o.max do
    if not step_all(searches, logits, o, n == o.max) then break end
    local parents, ids = next_rows(searches)
    stepper:reorder(parents)
    logits = stepper:step(ids)
  end
  return all_results(searches, prompt, o)
end
