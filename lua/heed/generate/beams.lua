-- Beam search: several sequences for each prompt, of which the best as a whole is the result.
--
-- As transformers does it: of the best candidates of each step, those among the first W that end
-- become results, and the best W of those that do not end go on; a search is over when it has W
-- results that none of what goes on can be better than, at its present length; or, with
-- early_stopping, when it has W results.

local heed = require "heed"
local sampling = require "heed.generate.sampling"
local Stepper = require "heed.generate.stepper"

---@class heed.generate.beam
---@field ids integer[] new ones
---@field score number sum of log-probabilities; of results, divided by length ^ length_penalty
---@field row integer where it stands in the batch


local function extended(ids, id)
  local longer = table.move(ids, 1, #ids, 1, {})
  longer[#ids + 1] = id
  return longer
end


-- A search begins with one beam that lives; the others are copies that nothing follows from.
local function new_search(first_row, W)
  local search = {running = {}, results = {}, over = false}
  for w = 1, W do
    search.running[w] = {ids = {}, score = w == 1 and 0 or -math.huge, row = first_row + w - 1}
  end
  return search
end


-- The best candidates of a search, the best first: beams with one more id.
local function candidates(search, scores, places, V)
  local list = {}
  for k, place in ipairs(places) do
    local parent = search.running[(place - 1) // V + 1]
    list[k] = {
      ids = extended(parent.ids, (place - 1) % V + 1), score = scores[k], row = parent.row,
    }
  end
  return list
end


-- Adds a result, of which the best W are kept; the earlier one stands before its equals.
local function add_result(search, beam, o)
  local score = beam.score / (#beam.ids) ^ o.length_penalty
  local at = #search.results + 1
  while at > 1 and score > search.results[at - 1].score do at = at - 1 end
  table.insert(search.results, at, {ids = beam.ids, score = score})
  search.results[o.beams + 1] = nil
end


-- Whether nothing that goes on can be better than the worst result.
local function is_over(search, o)
  local results, best = search.results, search.running[1]
  if #results < o.beams then return false end
  return o.early_stopping or best.score / (#best.ids) ^ o.length_penalty <= results[o.beams].score
end


-- Shares candidates out among results and beams that go on.
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
    running[#running + 1] = {ids = filler.ids, score = -math.huge, row = filler.row}
  end
  search.running = running
  search.over = last or is_over(search, o)
end


-- One step of all searches, from logits (B * W, V); whether one of them goes on.
local function step_all(searches, logits, o, last)
  local V, W = logits:size(2), o.beams
  if logits.dtype ~= "float64" then logits = logits:to("float32") end
  sampling.check_best("generate", logits)
  local scores = {}
  for _, search in ipairs(searches) do
    for _, beam in ipairs(search.running) do scores[#scores + 1] = beam.score end
  end
  scores = heed.tensor(scores, {dtype = "float64", device = logits.device}):unsqueeze(2)
  local total = (logits:log_softmax(2) + scores):reshape(#searches, W * V)
  local best, places = total:topk(math.min(W * V, W * math.max(2, 1 + o.stops)), 2)
  best, places = best:totable(), places:totable()
  local going_on = false
  for b, search in ipairs(searches) do
    if not search.over then
      advance(search, candidates(search, best[b], places[b], V), o, last)
      going_on = going_on or not search.over
    end
  end
  return going_on
end


-- The rows that beams come from, and the ids that go in next.
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


local function all_results(searches, prompt)
  local best, all = {}, {}
  for b, search in ipairs(searches) do
    best[b], all[b] = search.results[1] and search.results[1].ids or {}, {}
    for k, beam in ipairs(search.results) do
      all[b][k] = {ids = prompt:tensor(beam.ids), score = beam.score}
    end
  end
  return prompt:results(best), prompt.single and all[1] or all
end


---@param model function
---@param prompt heed.generate.Prompt
---@param o heed.generate.options with stop as a function, and stops, how many ids it may be
---@return heed.Tensor|heed.Tensor[] ids the best of each prompt
---@return heed.generate.beam[]|heed.generate.beam[][] beams all that was found, the best first
return function(model, prompt, o)
  local searches, rows = {}, {}
  for b, ids in ipairs(prompt.rows) do
    searches[b] = new_search(#rows + 1, o.beams)
    searches[b].prompt = b
    for _ = 1, o.beams do rows[#rows + 1] = ids end
  end
  local stepper = Stepper.new(model, prompt, o, o.beams)
  local logits = o.max > 0 and stepper:begin(rows)
  for n = 1, o.max do
    if not step_all(searches, logits, o, n == o.max) then break end
    local parents, ids = next_rows(searches)
    stepper:reorder(parents)
    logits = stepper:step(ids)
  end
  return all_results(searches, prompt)
end
