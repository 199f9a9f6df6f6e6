-- heed.generate with option capture: replayed steps give the ids and scores of called ones.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured

local PROMPT <const> = {1, 2, 3, 4, 5}


local LM = nn.Module:extend "LM"

function LM:init(cross)
  self.embed = nn.Embedding(11, 8)
  self.body = nn.Decoder(8, 2, 2, {norm = "pre", cross = cross, rope = true})
  self.head = nn.Linear(8, 11)
  self.calls = 0
end

function LM:forward(ids, context, o)
  if not heed.is_tensor(context) then context, o = nil, context end
  self.calls = self.calls + 1
  local given = {cache = o and o.cache, causal = true}
  local x = self.embed(ids) * 3
  x = context and self.body(x, context, given) or self.body(x, given)
  return self.head(x) * 4
end


local function model(cross)
  heed.manual_seed(5)
  return LM(cross or false)
end

local function room(n) return nn.Cache{capacity = n} end


-- The options with others, and with a cache of its own.
local function with(o, more)
  local all = {max = 9, cache = room(20)}
  for _, list in ipairs{o, more} do
    for name, value in pairs(list) do all[name] = value end
  end
  return all
end


describe("generation with option capture", function()
  for what, o in pairs{
    ["the best ids"] = {}, ["ids drawn"] = {seed = 3, temperature = 2},
    ["ids that were punished"] = {repetition_penalty = 2}, ["guesses"] = {lookup = 2},
    ["beams"] = {beams = 3}, ["a comparison"] = {check = true},
  } do
    if_fused("gives the ids and scores that calls give: " .. what, function()
      local m = model()
      local ids, scores = heed.generate(m, PROMPT, with(o, {scores = true}))
      local again, others = heed.generate(m, PROMPT, with(o, {scores = true, capture = true}))
      if o.beams then scores, others = scores[1].scores, others[1].scores end
      assert.same(ids:totable(), again:totable())
      assert.is_true(scores:equal(others))
      assert.equal(9, #ids)
    end)
  end

  if_fused("calls the model twice behind the prompt, also for rows, with a context", function()
    local m, context = model(true), heed.randn(2, 3, 8)
    local o = {context = context}
    local ids = heed.generate(m, {PROMPT, {5, 4, 3, 2, 1}}, with(o, {}))
    assert.equal(9, m.calls)
    local again = heed.generate(m, {PROMPT, {5, 4, 3, 2, 1}}, with(o, {capture = true}))
    assert.equal(12, m.calls)
    for b = 1, 2 do assert.same(ids[b]:totable(), again[b]:totable()) end
  end)

  if_fused("gives a hook logits of its own", function()
    local kept, texts = {}, {}
    heed.generate(model(), PROMPT, with({capture = true}, {logits = function(logits)
      kept[#kept + 1] = logits
      texts[#texts + 1] = tostring(logits)
    end}))
    for i, logits in ipairs(kept) do assert.equal(texts[i], tostring(logits)) end
    assert.not_equal(texts[2], texts[3])
  end)

  for _, name in ipairs{"llama3", "gpt2", "bart"} do
    if_fused("serves a published model: " .. name, function()
      local place <close> = directories.make(name)
      local m = assert(heed.models.load(place.path, {dtype = "float32"}))
      local ids = m:generate({5, 6, 7}, {max = 8, ends = false})
      local o = {max = 8, ends = false, cache = room(16), capture = true}
      assert.same(ids:totable(), m:generate({5, 6, 7}, o):totable())
    end)
  end

  it("is refused where steps are not the same work, or have callbacks", function()
    local m = model()
    for _, cache in ipairs{nn.Cache(), nn.Cache{window = 3}, false} do
      assert.matches("generate: option capture replays one step.*nn.Cache{capacity = n},.* got .*"
                     .. " as option cache",
                     message(heed.generate, m, PROMPT, {cache = cache, capture = true}))
    end
    assert.matches("option capture: prompts of one length expected",
                   message(heed.generate, m, {PROMPT, {1, 2}}, {capture = true}), 1, true)
    local function called(...) return m(...) end
    assert.matches("needs the model whose layers a cache serves, got a function",
                   message(heed.generate, called, PROMPT, {capture = true}), 1, true)
    assert.matches("a boolean expected", message(heed.generate, m, PROMPT, {capture = 1}))
    local function why() return message(heed.generate, m, PROMPT, with({capture = true}, {})) end
    local attend = m.body.layers[1].attend
    attend:on_weights(function() end)
    assert.matches("calls no callback of weights: of 'body.layers.1.attend'", why(), 1, true)
    attend:on_weights(nil)
    local hook = m.head:register_forward_hook(function() end)
    assert.matches("calls no hook: of 'head'", why(), 1, true)
    hook:remove()
    hook = m:register_forward_hook(function() end)
    assert.matches("calls no hook: of the model itself", why(), 1, true)
    hook:remove()
    assert.equal(9, #heed.generate(m, PROMPT, with({}, {})))
  end)
end)
