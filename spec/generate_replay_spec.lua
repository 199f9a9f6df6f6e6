-- Generation replays its steps where nothing tells: in a cache of fixed capacity that it makes, and
-- that gives way to a larger one.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local Replay = require "heed.generate.replay"

local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured

local PROMPT <const> = {5, 6, 7}


local function load(name)
  local place <close> = directories.make(name)
  return assert(heed.models.load(place.path, {dtype = "float32"}))
end


-- f(), and how often a step was replayed or recorded meanwhile.
local function counting(f)
  local call, n = Replay.call, 0
  Replay.call = function(...)
    local logits = call(...)
    if logits then n = n + 1 end
    return logits
  end
  local results = table.pack(pcall(f))
  Replay.call = call
  assert(results[1], results[2])
  return n, table.unpack(results, 2, results.n)
end


-- Logits (R, V) of ids, moved by a part of their range in a step with a cache.
local Moved = nn.Module:extend "Moved"

function Moved:init(part, range, dtype)
  self.embed, self.body = nn.Embedding(7, 4), nn.Decoder(4, 1, 1, {cross = false})
  self.part, self.range, self.dtype = part, range or 2, dtype or "float32"
end

function Moved:forward(ids, o)
  self.body(self.embed(ids), {cache = o.cache, causal = true})
  local logits = ids:one_hot(7):to(self.dtype) * self.range
  return ids:size(2) == 1 and logits + self.part * self.range or logits
end


describe("replayed generation", function()
  if_fused("is what a model from a directory does, with the ids and scores of calls", function()
    for _, name in ipairs{"llama3", "gpt2", "qwen3", "mistral", "gemma2"} do
      local model = load(name)
      for _, o in ipairs{{}, {temperature = 1, seed = 3}, {repetition_penalty = 2}} do
        o.max, o.ends, o.scores, o.capture = 40, false, true, false
        local none, ids, calls = counting(function() return model:generate(PROMPT, o) end)
        o.capture = nil
        local n, again, replays = counting(function() return model:generate(PROMPT, o) end)
        assert.same({0, 39}, {none, n})                    -- all but the prompt
        assert.same(ids:totable(), again:totable())
        assert.is_true(calls.scores:allclose(replays.scores, {atol = 1e-5}))
      end
    end
  end)

  if_fused("serves rows of one length", function()
    local model = load "llama3"
    local rows = {PROMPT, {9, 8, 7}}
    local n, ids = counting(function() return model:generate(rows, {max = 40, ends = false}) end)
    assert.equal(39, n)
    for r, row in ipairs(rows) do
      local alone = model:generate(row, {max = 40, ends = false, capture = false})
      assert.same(alone:totable(), ids[r]:totable())
    end
  end)

  if_fused("goes on where its cache is full", function()
    local model = load "llama3"
    local o = {max = 600, ends = false, capture = false, temperature = 1, seed = 4}
    local ids = model:generate(PROMPT, o)
    o.capture = nil
    local n, again = counting(function() return model:generate(PROMPT, o) end)
    assert.equal(599, n)
    assert.same(ids:totable(), again:totable())
    o = {max = 520, ends = false, lookup = 4}
    ids, o.capture = model:generate(PROMPT, o), true
    assert.same(ids:totable(), model:generate(PROMPT, o):totable())
  end)

  if_fused("is asked for by option capture, with what else takes one id each time", function()
    local model = load "llama3"
    for _, o in ipairs{{beams = 3}, {lookup = 2}, {cache = true}, {check = true}} do
      o.max, o.ends, o.capture = 9, false, false
      local ids = model:generate(PROMPT, o)
      o.capture = true
      local n, again = counting(function() return model:generate(PROMPT, o) end)
      assert.is_true(n > 0)
      assert.same(ids:totable(), again:totable())
    end
  end)

  it("is not chosen where something tells, or a fixed capacity does not serve", function()
    local model = load "llama3"
    local function chosen(o, other, differ)
      o = o or {}
      o.max = o.max or 32
      local modules = {}
      for m in (nn.Module.is(other or model) and (other or model):modules() or function() end) do
        modules[#modules + 1] = m
      end
      local replay = Replay.choose(other or model, modules, o, 9, not differ)
      return replay and replay:is_due()
    end
    assert.is_true(chosen())
    assert.is_true(chosen{cache = true})
    assert.is_false(chosen{max = 31})
    for _, o in ipairs{{capture = false}, {cache = false}, {cache = nn.Cache()}, {beams = 2},
                       {lookup = 2}, {window = 4}, {context = heed.zeros(1, 1, 32)}} do
      assert.is_false(chosen(o))
    end
    assert.is_false(chosen(nil, nil, true))
    assert.is_false(chosen(nil, function() end))
    assert.is_false(chosen(nil, nn.Sequential{Moved(0)}))
    assert.is_false(chosen(nil, load "phi3_partial"))
    local attend = model.body.layers[1].attend
    attend:on_weights(function() end)
    assert.is_false(chosen())
    attend:on_weights(nil)
    local hook = attend:register_forward_hook(function() end)
    assert.is_false(chosen())
    hook:remove()
    model.head.forward = function(self, x) return nn.Linear.forward(self, x) end
    assert.is_false(chosen())
    model.head.forward = nil
    attend.position_bias = heed.bias.alibi(4)
    assert.is_false(chosen())
    attend.position_bias = false
    attend.mask = heed.mask.prefix(4)
    assert.is_false(chosen())
    attend.mask = heed.mask.window(3)
    assert.is_true(chosen())
    attend.rope, attend.position = false, function(q, k) return q, k end
    assert.is_false(chosen())
  end)

  if_fused("reads the prompt into the cache of its steps", function()
    local model, load_state = load "llama3", nn.Cache.load_state
    local o, moved = {max = 512, ends = false}, {}         -- how many tokens went to another cache
    nn.Cache.load_state = function(...)
      local cache = load_state(...)
      moved[#moved + 1] = cache:length()
      return cache
    end
    local done, n = pcall(counting, function() return model:generate(PROMPT, o) end)
    o.max = 513
    local also, more, ids = pcall(counting, function() return model:generate(PROMPT, o) end)
    nn.Cache.load_state = load_state
    assert(done and also, n)
    assert.same({511, 512, {#PROMPT + 256}}, {n, more, moved})     -- at the end of the first room
    o.capture = false
    assert.same(model:generate(PROMPT, o):totable(), ids:totable())
  end)

  if_fused("reads the prompt into a cache that grows where a model's own code sees it", function()
    local model, seen = Moved(0), {}
    function model:forward(ids, o)
      seen[#seen + 1] = {ids:size(2), o.cache.capacity or false}
      return Moved.forward(self, ids, o)
    end
    heed.generate(model, {1, 2}, {max = 4, capture = true})
    assert.same({{2, false}, {1, 6}}, {seen[1], seen[2]})
  end)

  if_fused("runs the model's code for the prompt and one step, on a GPU for two", function()
    local model, calls = load "llama3", 0
    local forward, o = nn.Embedding.forward, {max = 40, ends = false}
    model:generate(PROMPT, o)                              -- compares the first step once
    nn.Embedding.forward = function(...)
      calls = calls + 1
      return forward(...)
    end
    local done, why = pcall(model.generate, model, PROMPT, o)
    nn.Embedding.forward = forward
    assert(done, why)
    assert.equal(heed.default_device() == "cpu" and 2 or 3, calls)
  end)

  it("sees hooks that callbacks of the first ids add", function()
    local model, seen, hook = load "llama3", 0, nil
    local o = {max = 40, ends = false, capture = false}
    local ids = model:generate(PROMPT, o)
    o.capture = nil
    o.on_token = function()
      hook = hook or model.head:register_forward_hook(function() seen = seen + 1 end)
    end
    local n, again = counting(function() return model:generate(PROMPT, o) end)
    hook:remove()
    assert.same({0, 39}, {n, seen})
    assert.same(ids:totable(), again:totable())
  end)

  it("gives way to calls where the work cannot be recorded, unless it was asked for", function()
    local model, scale, calls = load "llama3", heed.ones(1), 0
    local forward = nn.RMSNorm.forward
    nn.RMSNorm.forward = function(self, x)
      calls = calls + 1
      return forward(self, x) * scale:item()
    end
    local function generated(o)
      calls, o.max, o.ends = 0, 520, false                 -- more than the first cache has room for
      return model:generate(PROMPT, o):totable()
    end
    local done, why = pcall(function()
      local wanted, once = generated{capture = false}, calls
      assert.same(wanted, generated{})
      assert.is_true(calls < once + 10, calls)             -- one attempt to record, not 519
      assert.matches("while work is captured", message(generated, {capture = true}))
    end)
    nn.RMSNorm.forward = forward
    assert(done, why)
  end)

  it("passes on errors that come while it records", function()
    local model, calls = load "llama3", 0
    local forward = nn.RMSNorm.forward
    nn.RMSNorm.forward = function(self, x)
      calls = calls + 1
      if calls == 7 + 3 then error "no more" end           -- while the first step is recorded
      return forward(self, x)
    end
    local why = message(model.generate, model, PROMPT, {max = 40, ends = false})
    nn.RMSNorm.forward = forward
    assert.matches("no more", why)
    assert.equal(40, #model:generate(PROMPT, {max = 40, ends = false}))
  end)

  it("compares the first step where no logit is finite", function()
    local embed, body = nn.Embedding(7, 4), nn.Decoder(4, 1, 1, {cross = false})
    local function model(ids, o)
      local x = body(embed(ids), {cache = o.cache, causal = true})
      return heed.full({x:size(1), x:size(2), 7}, math.huge)
    end
    assert.same({1, 1, 1}, heed.generate(model, {1, 2}, {max = 3}):totable())
  end)

  it("compares the first step as narrowly as products round", function()
    for _, dtype in ipairs{"float32", "float64"} do
      for _, range in ipairs{0.02, 2} do
        assert.matches("other logits than without",
                       message(heed.generate, Moved(0.01, range, dtype), {1, 2}, {max = 3}))
      end
    end
    local before = heed.matmul_precision "high"
    local same, ids = pcall(heed.generate, Moved(0.01), {1, 2}, {max = 3})
    local different = message(heed.generate, Moved(0.2), {1, 2}, {max = 3})
    heed.matmul_precision(before)
    assert(same, ids)
    assert.matches("other logits than without", different)
  end)
end)
