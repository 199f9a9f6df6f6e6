-- heed.generate: with a cache and without, against loops that compute everything again; beams
-- against an exhaustive search.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local VOCABULARY = 7


-- A decoder of one layer, with attention to a context where it is made so.
local Decoder = nn.Module:extend("Decoder")

function Decoder:init(cross)
  self.embed = nn.Embedding(VOCABULARY, 8)
  self.position = heed.position.Sinusoidal()
  self.attend = nn.MultiHeadAttention(8, 2)
  self.cross = cross and nn.MultiHeadAttention(8, 2)
  self.dropout = nn.Dropout(0.5)
  self.head = nn.Linear(8, VOCABULARY)
end

function Decoder:forward(ids, context, o)
  if not self.cross then context, o = nil, context end
  o = o or {}
  local x = self.position(self.embed(ids), {cache = o.cache})
  x = x + self.attend(x, {causal = true, cache = o.cache, lengths = o.lengths})
  if self.cross then
    x = x + self.cross(x, context, {lengths = o.context_lengths, cache = o.cache})
  end
  return self.head(self.dropout(x)) * 4
end


local function decoder(cross)
  heed.manual_seed(3)
  return Decoder(cross)
end


-- The logits of the next id, by one pass over all ids.
local function logits_of(model, ids, context)
  model:eval()
  local x = heed.tensor(ids):unsqueeze(1)
  local logits = heed.no_grad(function()
    return context and model(x, context:unsqueeze(1)) or model(x)
  end)
  return logits[{1, -1}]
end


local function greedy(model, prompt, n, context)
  local ids = table.move(prompt, 1, #prompt, 1, {})
  for _ = 1, n do
    ids[#ids + 1] = logits_of(model, ids, context):argmax(1):item()
  end
  return table.move(ids, #prompt + 1, #ids, 1, {})
end


-- Every sequence of up to n ids that ends with `stop` or has n, with its score; the best first.
local function all_sequences(model, prompt, n, stop, penalty)
  local found = {}
  local function visit(new, sum)
    if #new == n or new[#new] == stop then
      found[#found + 1] = {ids = new, score = sum / (#new) ^ penalty}
      return
    end
    local ids = table.move(new, 1, #new, #prompt + 1, table.move(prompt, 1, #prompt, 1, {}))
    local logs = logits_of(model, ids):to("float64"):log_softmax(1)
    for id = 1, VOCABULARY do
      local longer = table.move(new, 1, #new, 1, {})
      longer[#new + 1] = id
      visit(longer, sum + logs[id])
    end
  end
  visit({}, 0)
  table.sort(found, function(a, b) return a.score > b.score end)
  return found
end


-- Beam search in plain Lua, by its description: no cache, no batch.
local function plain_beams(model, prompt, W, n, stop, penalty)
  local running, results = {{ids = {}, sum = 0}}, {}
  for length = 1, n do
    local list = {}
    for _, beam in ipairs(running) do
      local ids = table.move(beam.ids, 1, #beam.ids, #prompt + 1,
                             table.move(prompt, 1, #prompt, 1, {}))
      local logs = logits_of(model, ids):log_softmax(1):totable()
      for id, log in ipairs(logs) do
        local longer = table.move(beam.ids, 1, #beam.ids, 1, {})
        longer[#longer + 1] = id
        list[#list + 1] = {ids = longer, sum = beam.sum + log}
      end
    end
    table.sort(list, function(a, b) return a.sum > b.sum end)
    running = {}
    for k = 1, math.min(2 * W, #list) do
      local beam = list[k]
      local ends = beam.ids[length] == stop or length == n
      if ends and k <= W then
        results[#results + 1] = {ids = beam.ids, score = beam.sum / length ^ penalty}
      elseif not ends and #running < W then
        running[#running + 1] = beam
      end
    end
    table.sort(results, function(a, b) return a.score > b.score end)
    while #results > W do results[#results] = nil end
    local best = running[1]
    if not best or #results == W and best.sum / length ^ penalty <= results[W].score then break end
  end
  return results
end


local function check_beams(wanted, got, n)
  for k = 1, n do
    assert.same(wanted[k].ids, got[k].ids:totable())
    assert.is_true(close(wanted[k].score, got[k].score, 0, 1e-4),
                   ("beam %d: %f expected, got %f"):format(k, wanted[k].score, got[k].score))
  end
end


local PROMPTS = {{1, 2, 3}, {4}, {5, 6, 7, 1, 2}, {2, 2}}


describe("heed.generate", function()
  -- A table of transitions: the logits depend on the last id alone.
  local function model(ids)
    return (ids:to("float32"):unsqueeze(-1) * heed.arange(7):to("float32") * 1.3):sin()
  end

  local function score(ids, before)
    local last, list = before, {}
    for k, id in ipairs(ids:totable()) do
      list[k] = model(heed.tensor{{last}}):log_softmax(-1)[1][1][id]
      last = id
    end
    return list
  end

  local function same(wanted, got)
    assert.equal("float64", got.dtype)
    assert.equal(#wanted, #got)
    for k, x in ipairs(got:totable()) do assert.is_true(close(x, wanted[k], 1e-5, 1e-5)) end
  end

  it("calls a plain function with ids alone where there is nothing to say", function()
    local counts = {}
    local function plain(...)
      counts[#counts + 1] = select("#", ...)
      return (...):one_hot(5):to "float32"
    end
    assert.same({3, 3}, heed.generate(plain, {2, 3}, {max = 2, cache = false}):totable())
    assert.same({1, 1}, counts)
  end)


  it("gives the scores of what it chose", function()
    for _, o in ipairs{{}, {top_k = 3, temperature = 2, seed = 1}, {repetition_penalty = 1.5}} do
      o.cache, o.max, o.scores = false, 6, true
      local ids, scores = heed.generate(model, {1, 2}, o)
      same(score(ids, 2), scores)
      ids, scores = heed.generate(model, {{1, 2}, {4}}, o)
      same(score(ids[1], 2), scores[1])
      same(score(ids[2], 4), scores[2])
    end
    assert.is_nil(select(2, heed.generate(model, {1}, {cache = false, max = 2})))
    assert.equal(0, #select(2, heed.generate(model, {1}, {cache = false, max = 0, scores = true})))
  end)

  it("gives the scores of beams", function()
    local o = {cache = false, max = 5, beams = 3, scores = true, length_penalty = 2}
    local ids, beams = heed.generate(model, {1, 2}, o)
    assert.is_true(beams[1].ids:equal(ids))
    for _, beam in ipairs(beams) do
      same(score(beam.ids, 2), beam.scores)
      assert.is_true(close(beam.scores:sum():item() / 25, beam.score, 0, 1e-6))
    end
    function o.logits(logits) logits[5] = logits[5] + 100 end
    beams = select(2, heed.generate(model, {1, 2}, o))
    for _, beam in ipairs(beams) do same(score(beam.ids, 2), beam.scores) end
    o.scores = nil
    assert.is_nil(select(2, heed.generate(model, {1, 2}, o))[1].scores)
  end)

  it("compares the first steps with full passes where check says so", function()
    local embed, head = nn.Embedding(9, 8), nn.Linear(8, 9)
    local layers = nn.Decoder(8, 2, 1, {norm = "pre", cross = false, rope = true})
    local calls, wrong = 0, false
    local function writer(ids, o)
      calls = calls + 1
      local y = head(layers(embed(ids), o))
      return wrong and ids:size(2) == 1 and o.cache:length() > wrong and y:flip({-1}) * 2 or y
    end
    local function run(o)
      calls, o.max = 0, 8
      return message(heed.generate, writer, {1, 2, 3}, o)
    end
    local function count(o)
      calls, o.max = 0, 8
      heed.generate(writer, {1, 2, 3}, o)
      return calls
    end
    assert.equal(8, count{cache = nn.Cache()})
    assert.equal(12, count{cache = nn.Cache(), check = true})
    assert.equal(12, count{check = true})
    assert.equal(12, count{cache = nn.Cache{capacity = 20}, check = true})
    wrong = 5
    assert.equal(8, count{cache = nn.Cache()})
    assert.matches("with a cache the model gives other logits than without",
                   run{cache = nn.Cache(), check = true})
    local function advice(o) return (run(o):match "computes everything for each id; or (.*)") end
    assert.equal("no option check: without it a cache that is given is not compared",
                 advice{cache = nn.Cache(), check = true})
    for _, cache in ipairs{true, "none"} do
      assert.equal("an nn.Cache() as option cache and no option check: then it is not compared",
                   advice{cache = cache == true or nil, check = true})
    end
    wrong = false
    assert.matches("with a cache the model gives other logits than without",
                   run{cache = nn.Cache{window = 2}, check = true})
    assert.matches("option check compares a cache, but cache is false",
                   run{cache = false, check = true})
    local used = nn.Cache()
    heed.generate(writer, {1}, {cache = used, max = 1})
    assert.matches("an empty cache expected with option check, got one of 1 tokens",
                   run{cache = used, check = true})
  end)
end)


describe("greedy generation", function()
  local model = decoder()

  it("takes the best id each time, with a cache and without", function()
    local wanted = greedy(model, {1, 2, 3}, 9)
    assert.same(wanted, heed.generate(model, {1, 2, 3}, {max = 9}):totable())
    assert.same(wanted, heed.generate(model, {1, 2, 3}, {max = 9, cache = false}):totable())
    assert.same(wanted, heed.generate(model, {1, 2, 3}, {max = 9, temperature = 0}):totable())
  end)

  it("gives for a batch of different lengths what each prompt gives alone", function()
    for _, cache in ipairs{true, false} do
      local all = heed.generate(model, PROMPTS, {max = 8, cache = cache})
      assert.equal(#PROMPTS, #all)
      for b, prompt in ipairs(PROMPTS) do
        assert.same(greedy(model, prompt, 8), all[b]:totable())
        assert.same(all[b]:totable(), heed.generate(model, prompt, {max = 8}):totable())
      end
    end
  end)

  it("takes prompts as lists, tensors, and tensors with lengths", function()
    local wanted = greedy(model, {1, 2}, 5)
    local one = heed.generate(model, heed.tensor{1, 2}, {max = 5})
    assert.same({wanted, "int64"}, {one:totable(), one.dtype})
    local rows = heed.generate(model, heed.tensor{{1, 2}, {3, 4}}, {max = 5})
    assert.same(wanted, rows[1]:totable())
    rows = heed.generate(model, {heed.tensor{1, 2}, {3}}, {max = 5})
    assert.same(wanted, rows[1]:totable())
    local padded, lengths = heed.pad{{1, 2}, {3, 4, 5}}
    rows = heed.generate(model, padded, {max = 5, lengths = lengths})
    assert.same(wanted, rows[1]:totable())
    assert.same(greedy(model, {3, 4, 5}, 5), rows[2]:totable())
    assert.equal(0, #heed.generate(model, {1, 2}, {max = 0}))
  end)

  it("looks at a context, whose rows may have different lengths", function()
    local cross = decoder(true)
    local context = heed.randn(4, 5, 8)
    local lengths = {3, 5, 1, 4}
    for _, cache in ipairs{true, false} do
      local all = heed.generate(cross, PROMPTS, {
        max = 6, context = context, context_lengths = lengths, cache = cache,
      })
      for b, prompt in ipairs(PROMPTS) do
        local own = context[b]:narrow(1, 1, lengths[b])
        assert.same(greedy(cross, prompt, 6, own), all[b]:totable())
      end
    end
    for _, own in ipairs{context[2], context:narrow(1, 2, 1)} do
      local one = heed.generate(cross, {1}, {max = 4, context = own})
      assert.same(greedy(cross, {1}, 4, context[2]), one:totable())
    end
  end)

  it("multiplies down what was there", function()
    local ids, seen = {1, 2, 3}, {true, true, true}
    for _ = 1, 6 do
      local logits = logits_of(model, ids):totable()
      for id in pairs(seen) do
        logits[id] = logits[id] > 0 and logits[id] / 1.8 or logits[id] * 1.8
      end
      local best = 1
      for id, value in ipairs(logits) do best = value > logits[best] and id or best end
      ids[#ids + 1], seen[best] = best, true
    end
    local o = {max = 6, temperature = 0, repetition_penalty = 1.8}
    local got = heed.generate(model, {1, 2, 3}, o)
    assert.same(table.move(ids, 4, 9, 1, {}), got:totable())
  end)
end)


describe("the end of generation", function()
  local model, calls = decoder(), 0
  local free = greedy(model, {4}, 12)
  local stop = free[4]

  local function up_to(id)
    local list = {}
    for k, other in ipairs(free) do
      list[k] = other
      if other == id then break end
    end
    return list
  end

  it("is an id, one of several, or what a function says; the id is the last", function()
    local function ids_until(o) return heed.generate(model, {4}, {max = 12, stop = o}):totable() end
    assert.same({up_to(stop), up_to(stop)}, {ids_until(stop), ids_until{stop}})
    local hook = model:register_forward_hook(function() calls = calls + 1 end)
    local got = heed.generate(model, {4}, {max = 12, stop = stop, cache = false}):totable()
    hook:remove()
    assert.same({up_to(stop), #got}, {got, calls})
    assert.same({free[1], free[2], free[3]}, ids_until(function(ids) return #ids == 3 end))
  end)

  it("is each row's own", function()
    local all = heed.generate(model, PROMPTS, {max = 12, stop = stop})
    for b, prompt in ipairs(PROMPTS) do
      assert.same(heed.generate(model, prompt, {max = 12, stop = stop}):totable(), all[b]:totable())
    end
  end)

  it("may come from on_token, which gets every id at once", function()
    local seen = {}
    local got = heed.generate(model, {4}, {max = 12, on_token = function(id, row)
      seen[#seen + 1] = id
      assert.equal(1, row)
      return #seen < 5
    end})
    assert.same(seen, got:totable())
    assert.same(table.move(free, 1, 5, 1, {}), seen)
  end)
end)


describe("sampled generation", function()
  local model = decoder()

  it("draws the same ids from the same seed, and leaves the module's generator alone", function()
    local before = heed.rng_state()
    local function run(seed) return heed.generate(model, {1}, {max = 20, seed = seed}):totable() end
    local a = run(5)
    assert.same(a, run(5))
    assert.is_not.same(a, run(6))
    assert.is_true(before:equal(heed.rng_state()))
  end)

  it("draws as heed.sample does from the logits of each step", function()
    local o = {temperature = 0.8, top_k = 4, top_p = 0.9, min_p = 0.05}
    heed.manual_seed(8)
    local got = heed.generate(model, {1, 2}, {max = 10, temperature = 0.8, top_k = 4, top_p = 0.9,
                                              min_p = 0.05})
    heed.manual_seed(8)
    local ids = {1, 2}
    for _ = 1, 10 do ids[#ids + 1] = heed.sample(logits_of(model, ids), o):item() end
    assert.same(table.move(ids, 3, 12, 1, {}), got:totable())
  end)
end)


describe("beams", function()
  local model = decoder()

  it("find the best of all sequences where there are enough of them", function()
    for _, penalty in ipairs{0, 1, 2} do
      local wanted = all_sequences(model, {1, 2, 3}, 3, 5, penalty)
      local best, got = heed.generate(model, {1, 2, 3}, {
        max = 3, beams = 60, stop = 5, length_penalty = penalty,
      })
      check_beams(wanted, got, 5)
      assert.same(wanted[1].ids, best:totable())
    end
  end)

  it("are those of a search in plain Lua, with a cache and without, in a batch", function()
    for _, case in ipairs{{W = 2, penalty = 1}, {W = 3, penalty = 0.5}, {W = 9, penalty = 2}} do
      for _, cache in ipairs{true, false} do
        local o = {max = 6, beams = case.W, stop = 5, length_penalty = case.penalty, cache = cache}
        local _, got = heed.generate(model, PROMPTS, o)
        for b, prompt in ipairs(PROMPTS) do
          local wanted = plain_beams(model, prompt, case.W, 6, 5, case.penalty)
          assert.equal(#wanted, #got[b])
          check_beams(wanted, got[b], #wanted)
        end
      end
    end
  end)

  it("look at a context", function()
    local cross = decoder(true)
    local context = heed.randn(4, 5, 8)
    local o = {max = 5, beams = 3, context = context, context_lengths = {3, 5, 1, 4}}
    local _, all = heed.generate(cross, PROMPTS, o)
    for b, prompt in ipairs(PROMPTS) do
      local own = context[b]:narrow(1, 1, o.context_lengths[b])
      local _, alone = heed.generate(cross, prompt, {max = 5, beams = 3, context = own,
                                                     cache = false})
      for k, beam in ipairs(alone) do
        assert.same(beam.ids:totable(), all[b][k].ids:totable())
        assert.is_true(close(beam.score, all[b][k].score, 0, 1e-4))
      end
    end
  end)

  it("go on where all candidates of a prompt have ended", function()
    local stop = function(ids, row) return #ids == row + 1 end
    local o = {max = 6, beams = 3, stop = stop}
    local _, both = heed.generate(model, {{1, 2}, {3}}, o)
    for row, prompt in ipairs{{1, 2}, {3}} do
      local _, alone = heed.generate(model, prompt, {max = row + 1, beams = 3})
      for k, beam in ipairs(alone) do
        assert.equal(row + 1, #both[row][k].ids)
        assert.same(beam.ids:totable(), both[row][k].ids:totable())
        assert.is_true(close(beam.score, both[row][k].score, 0, 1e-4))
      end
    end
  end)

  it("end when no prompt is unfinished, and keep equal ones in the order of their ids", function()
    local calls, asked = 0, 0
    local function flat(ids)
      calls = calls + 1
      return heed.zeros(ids:size(1), ids:size(2), VOCABULARY)
    end
    local _, beams = heed.generate(flat, {1}, {max = 9, beams = 3, cache = false, stop = function()
      asked = asked + 1
      return true
    end})
    assert.same({1, 2 * 3, 3}, {calls, asked, #beams})
    for i, beam in ipairs(beams) do assert.same({i}, beam.ids:totable()) end
  end)

  it("with one of them is the greedy way", function()
    assert.same(greedy(model, {1, 2}, 7),
                heed.generate(model, {1, 2}, {max = 7, beams = 1}):totable())
  end)

  it("may stop with as many results as there are beams", function()
    local early = {max = 8, beams = 2, stop = {5, 6, 7}, early_stopping = true}
    local _, got = heed.generate(model, {1, 2}, early)
    assert.equal(2, #got)
    assert.is_true(got[1].score >= got[2].score)
  end)
end)


describe("a model", function()
  it("is in eval mode meanwhile, without gradients, and as it was afterwards", function()
    local model = decoder()
    model:train()
    model.attend:eval()
    local function check()
      assert.is_false(model.training or model.dropout.training)
      assert.is_false(heed.is_grad_enabled())
    end
    heed.generate(model, {1}, {max = 2, on_token = check})
    assert.is_true(model.training and model.dropout.training)
    assert.is_false(model.attend.training)
    assert.matches("enough", message(heed.generate, model, {1}, {on_token = function()
      error("enough")
    end}))
    assert.is_true(model.training and model.dropout.training)
    assert.is_true(heed.is_grad_enabled())
  end)

  it("may be a function of ids alone where nothing is cached", function()
    local function next_one(ids) return heed.one_hot(ids % 5 + 1, 5):to("float32") end
    local got = heed.generate(next_one, {1}, {max = 6, cache = false})
    assert.same({2, 3, 4, 5, 1, 2}, got:totable())
  end)

  it("that does not use its cache is refused", function()
    local function next_one(ids) return heed.one_hot(ids % 5 + 1, 5):to("float32") end
    assert.matches("the cache is empty; or cache = false", message(heed.generate, next_one, {1}))
  end)

  it("must give logits of each id", function()
    for _, shape in ipairs{{3}, {1, 1, 3}, {2, 2, 3}} do
      assert.matches("logits %(1, 2, V%) expected from the model, got a tensor of shape %(.*3%)",
                     message(heed.generate, function() return heed.ones(shape) end, {1, 2}))
    end
  end)

  it("must give numbers, of which one is the largest", function()
    for _, o in ipairs {{}, {top_k = 2}, {beams = 2}} do
      o.cache, o.max = false, 2
      for _, bad in ipairs {0 / 0, -math.huge} do
        local function next_one(ids) return heed.full({ids:size(1), ids:size(2), 5}, bad) end
        assert.matches("generate: logits with a largest number expected, got %S+ as that of row 1",
                       message(heed.generate, next_one, {1, 2}, o))
      end
      o.logits = function(logits) return logits:masked_fill(logits:eq(logits), -math.huge) end
      assert.matches("largest number expected, got %-inf as that of row 1",
                     message(heed.generate, decoder(), {1, 2}, o))
    end
  end)
end)


describe("heed.generate", function()
  local model = decoder()
  local function said(prompt, o) return message(heed.generate, model, prompt, o) end

  it("refuses what it cannot take", function()
    assert.matches("a function expected as model, got 3", message(heed.generate, 3, {1}))
    assert.matches("expected as prompt, got nil", said(nil))
    assert.matches("expected as prompt, got a tensor of shape %(2%) and type float32",
                   said(heed.ones(2)))
    assert.matches("at least one id expected in the prompt", said({}))
    assert.matches("at least one id expected in prompt 2", said({{1}, {}}))
    assert.matches("an id expected at position %(1, 2%)", said({1, "a"}))
    assert.matches("did you mean 'beams'", said({1}, {beam = 3}))
    assert.matches("ids %(T%) or %(B, T%), .* expected as prompt, got a tensor of shape %(%) and "
                   .. "type int64", said(heed.tensor(5)))
    assert.matches("a tensor %(1, S, dim%) expected as option context, got a table",
                   said({1}, {context = {1}}))
    assert.matches("no option top_k expected with beams", said({1}, {beams = 3, top_k = 3}))
    assert.matches("length_penalty is for beams", said({1}, {length_penalty = 1}))
    assert.matches("a finite number expected as option length_penalty, got inf",
                   said({1}, {beams = 2, length_penalty = math.huge}))
    assert.matches("a boolean expected as option early_stopping, got 1",
                   said({1}, {beams = 2, early_stopping = 1}))
    assert.matches("as option stop, got the string 'x'$", said({1}, {stop = "x"}))
    assert.matches("as option stop, got the string 'x' at position 2$",
                   said({1}, {stop = {1, "x"}}))
    assert.matches("expected as option max", said({1}, {max = -1}))
    assert.matches("from 1 to 1 expected for prompt 1, got 4", said({1}, {lengths = {4}}))
    assert.matches("one length for each of 1 prompts", said({1}, {lengths = {1, 1}}))
    assert.matches("option context expected beside", said({1}, {context_lengths = {1}}))
    assert.matches("a tensor %(1, S, dim%) expected as option context",
                   said({1}, {context = heed.ones(2, 3, 8)}))
    assert.matches("an nn.Cache expected as option cache", said({1}, {cache = 3}))
    assert.matches("at most 3 arguments", message(heed.generate, model, {1}, {}, 3))
  end)

  it("reads lists whole, or refuses them", function()
    assert.matches("an entry expected at position 2, since there is one at 3, got nil",
                   said({1, nil, 3}))
    assert.matches("prompt 2: an entry expected at position 1, since there is one at 2, got nil",
                   said({{1}, {nil, 3}}))
    assert.matches("generate: the prompt: a list expected, got one with the string 'x'",
                   said({1, x = 2}))
    assert.matches("option stop: an entry expected at position 2", said({1}, {stop = {5, nil, 3}}))
    assert.matches("option stop: a list expected, got one with", said({1}, {stop = {5, x = 3}}))
    assert.matches("option lengths: a list expected", said({1}, {lengths = {1, x = 3}}))
    local cross, context = decoder(true), heed.ones(1, 3, 8)
    for _, n in ipairs{1.5, 0 / 0, -1, 4, "1"} do
      assert.matches("generate: option context_lengths: a length from 0 to 3 expected for prompt 1",
                     message(heed.generate, cross, {1}, {context = context, context_lengths = {n}}))
    end
    local o = {max = 2, context = context, lengths = {2.0}, context_lengths = {2.0}}
    assert.equal(2, #heed.generate(cross, {1, 2}, o))
  end)

  it("gives the caller's functions lists of their own, and asks what can be called", function()
    local wanted = heed.generate(model, {1, 2}, {max = 6}):totable()
    local function spoil(ids) ids[1], ids[#ids + 1] = "x", 9 end
    local function forget(ids) table.remove(ids) end
    for _, f in ipairs{spoil, forget} do
      for _, beams in ipairs{false, 1} do
        local o = {max = 6, beams = beams or nil, stop = f, logits = function(_, ids) f(ids) end}
        assert.same(wanted, heed.generate(model, {1, 2}, o):totable())
      end
      assert.same(wanted, heed.generate(model, {1, 2}, {max = 6, lookup = 2, stop = f}):totable())
    end
    local stop = setmetatable({}, {__call = function(_, ids) return #ids == 3 end})
    assert.equal(3, #heed.generate(model, {1, 2}, {max = 6, stop = stop}))
  end)

  it("refuses what option logits gives where no search, or no draw, can go on with it", function()
    for _, value in ipairs{0 / 0, math.huge} do
      local function set(logits) logits[3] = value end
      assert.matches("finite log%-probabilities, or %-inf, expected for the beam of row 1",
                     said({1}, {beams = 2, logits = set}))
    end
    local function large(logits) logits[3] = math.huge end
    assert.matches("logits below inf expected, got inf as the largest of row 1",
                   said({1}, {temperature = 1, logits = large}))
    assert.matches("from option logits for row 1, got a released tensor",
                   said({1}, {logits = function(logits) logits:release() end}))
  end)
end)
