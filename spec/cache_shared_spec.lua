-- nn.Cache where a layer is used several times in a pass: weights that several layers share, as in
-- Z. Lan et al. (2019), "ALBERT", and in M. Dehghani et al. (2018), "Universal transformers".

local heed = require "heed"
local message = require "spec.support.message"
local stepping = require "spec.support.stepping"

local nn = heed.nn
local near, stepped = stepping.near, stepping.stepped

local CAUSAL <const> = {causal = true}
local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured


-- One layer, used so many times, between two that are used once; positions are added before each.
local Shared = nn.Module:extend("Shared")

function Shared:init(times, layer, positions)
  self.first, self.last = nn.MultiHeadAttention(8, 2), nn.MultiHeadAttention(8, 2)
  self.layer, self.times = layer, times
  self.positions = positions and heed.position.Sinusoidal() or false
end

function Shared:forward(x, o)
  x = x + self.first(x, o)
  for i = 1, self.times do
    if i > 1 and self.fails then error("it fails") end
    if self.positions then x = self.positions(x, {cache = o.cache, lengths = o.lengths}) end
    x = x + self.layer(x, o)
  end
  return x + self.last(x, o)
end


-- Ids to logits, by the models above.
local LM = nn.Module:extend("LM")

function LM:init(model)
  self.embed, self.model, self.head = nn.Embedding(7, 8), model, nn.Linear(8, 7)
end

function LM:forward(ids, o)
  local given = {cache = o.cache, causal = true, lengths = o.lengths}
  return self.head(self.model(self.embed(ids), given))
end


describe("a layer that is used several times in a pass has, in a cache,", function()
  local makers = {
    attention = function() return nn.MultiHeadAttention(8, 2, {rope = true}) end,
    ["a block"] = function() return nn.EncoderLayer(8, 2, 16, {norm = "pre", rope = true}) end,
    ["a decoder"] = function() return nn.Decoder(8, 2, 2, {cross = false}) end,
  }

  local function model_and_x(make, positions)
    heed.manual_seed(4)
    local model = Shared(3, make(), positions):to("float64")
    model.fails = false
    return model, heed.randn(2, 9, 8, {dtype = "float64"})
  end

  for name, make in pairs(makers) do
    for _, positions in ipairs{false, true} do
      local title = name .. (positions and ", with positions added each time" or "")

      it("a place for each use: " .. title, function()
        local model, x = model_and_x(make, positions)
        local whole = model(x, CAUSAL)
        near(stepped(model, x, {4, 1, 1, 3}, nn.Cache(), CAUSAL), whole)
        near(stepped(model, x, {1, 1, 1, 1, 1, 1, 1, 1, 1}, nn.Cache(), CAUSAL), whole)
        heed.no_grad(function()
          near(stepped(model, x, {4, 1, 1, 3}, nn.Cache{capacity = 9}, CAUSAL), whole)
        end)
      end)

      if_fused("a place for each use while it is captured: " .. title, function()
        local model, x = model_and_x(make, positions)
        heed.no_grad(function()
          local whole, cache = model(x, CAUSAL), nn.Cache{capacity = 9}
          model(x:narrow(2, 1, 4), {cache = cache, causal = true})
          local step = heed.capture(function(token)
            return model(token, {cache = cache, causal = true})
          end)
          for t = 5, 9 do near(step(x:narrow(2, t, 1)), whole:narrow(2, t, 1)) end
          assert.equal(9, cache:length())
        end)
      end)
    end
  end

  it("places that a window cuts, copies, other orders and truncation treat alike", function()
    local model, x = model_and_x(makers.attention)
    heed.no_grad(function()
      local local_mask = {causal = true, mask = heed.mask.window(2, 0)}
      near(stepped(model, x, {4, 1, 1, 3}, nn.Cache{window = 3}, CAUSAL), model(x, local_mask))
      local whole = model(x, CAUSAL)
      local cache = nn.Cache()
      stepped(model, x, {4, 2}, cache, CAUSAL)
      local copy = cache:clone()
      near(model(x:narrow(2, 7, 3), {cache = copy, causal = true}), whole:narrow(2, 7, 3))
      cache:truncate(5)
      near(model(x:narrow(2, 6, 1), {cache = cache, causal = true}), whole:narrow(2, 6, 1))
      cache:reorder{2}
      near(model(x:narrow(2, 7, 1):narrow(1, 2, 1), {cache = cache, causal = true}),
           whole:narrow(2, 7, 1):narrow(1, 2, 1))
    end)
  end)

  it("refuses another number of tokens than in the layers before", function()
    local first, second = nn.MultiHeadAttention(8, 2), nn.MultiHeadAttention(8, 2)
    local x = heed.randn(2, 3, 8)
    for _, options in ipairs{{}, {capacity = 8}, {window = 4}} do
      local cache = nn.Cache(options)
      local o = {cache = cache, causal = true}
      heed.no_grad(function()
        assert.matches("3 tokens expected, as in the layers before, got 2",
                       message(cache.pass, cache, function()
                         first(x, o)
                         second(x:narrow(2, 1, 2), o)
                       end))
      end)
    end
  end)

  it("places that a failed pass spoils, which is said", function()
    local model, x = model_and_x(makers.attention)
    local cache = nn.Cache()
    stepped(model, x:narrow(2, 1, 4), {3, 1}, cache, CAUSAL)
    model.fails = true
    pcall(model, x:narrow(2, 5, 1), {cache = cache, causal = true})
    model.fails = false
    assert.matches("nn.Cache: the last call did not reach use 2 of MultiHeadAttention",
                   message(model, x:narrow(2, 5, 1), {cache = cache, causal = true}))
    cache = nn.Cache()
    stepped(model, x:narrow(2, 1, 4), {3, 1}, cache, CAUSAL)
    model.times = 4
    assert.matches("use 4 of MultiHeadAttention was not there when it began",
                   message(model, x:narrow(2, 5, 1), {cache = cache, causal = true}))
  end)

  it("a context for each use", function()
    heed.manual_seed(5)
    local Both = nn.Module:extend("Both")
    function Both:init() self.layer = nn.MultiHeadAttention(8, 2) end
    function Both:forward(x, a, b, o)
      x = x + self.layer(x, o)
      x = x + self.layer(x, a, {cache = o.cache})
      return x + self.layer(x, b, {cache = o.cache})
    end
    local model, x = Both(), heed.randn(2, 6, 8)
    local a, b = heed.randn(2, 3, 8), heed.randn(2, 3, 8)
    local whole = model(x, a, b, CAUSAL)
    for _, given in ipairs{{}, {capacity = 6}} do
      local cache = nn.Cache(given)
      heed.no_grad(function()
        for _, part in ipairs{{1, 4}, {5, 1}, {6, 1}} do
          local y = model(x:narrow(2, part[1], part[2]), a, b, {cache = cache, causal = true})
          near(y, whole:narrow(2, part[1], part[2]))
        end
        cache:truncate(4)
        near(model(x:narrow(2, 5, 2), a, b, {cache = cache:clone(), causal = true}),
             whole:narrow(2, 5, 2))
      end)
    end
  end)

  it("a place for each use in a plain function, as one pass", function()
    heed.manual_seed(6)
    local layer, x = nn.MultiHeadAttention(8, 2), heed.randn(1, 5, 8)
    local function model(y, o) return layer(y + layer(y, o), o) end
    local whole, cache = model(x, CAUSAL), nn.Cache()
    for t = 1, 5 do
      near(cache:pass(model, x:narrow(2, t, 1), {cache = cache, causal = true}),
           whole:narrow(2, t, 1))
    end
    assert.matches("pass: a function expected as f, got 3", message(cache.pass, cache, 3))
    assert.is_false(pcall(cache.pass, cache, error, "x"))
    near(cache:truncate(4):pass(model, x:narrow(2, 5, 1), {cache = cache, causal = true}),
         whole:narrow(2, 5, 1))
  end)

  it("a place for each use, where a module makes the cache and steps by itself", function()
    local Loop = nn.Module:extend("Loop")
    function Loop:init(model) self.model = model end
    function Loop:forward(x) return stepped(self.model, x, {4, 1, 1, 3}, nn.Cache(), CAUSAL) end
    local model, x = model_and_x(makers.attention)
    near(Loop(model)(x), model(x, CAUSAL))
  end)
end)


describe("heed.generate", function()
  local function agrees(model, prompt, o)
    local given = {max = 6, cache = false}
    for name, value in pairs(o or {}) do given[name] = value end
    local wanted = heed.generate(model, prompt, given)
    given.cache = nil
    local got = heed.generate(model, prompt, given)
    for i = 1, #prompt do assert.same(wanted[i]:totable(), got[i]:totable()) end
  end

  local PROMPTS <const> = {{1, 2, 3}, {4, 5}}

  it("gives what a full pass gives where a layer is used several times", function()
    for seed = 1, 4 do
      heed.manual_seed(seed)
      local shared = Shared(3, nn.MultiHeadAttention(8, 2, {rope = true}), true)
      shared.fails = false
      local model = LM(shared)
      agrees(model, PROMPTS)
      agrees(model, PROMPTS, {beams = 2})
      agrees(function(ids, o) return model(ids, o or {}) end, PROMPTS)
      local embed, layer, head = model.embed, shared.layer, model.head
      agrees(function(ids, o)
        o = {cache = o and o.cache, causal = true}
        local x = embed(ids)
        for _ = 1, 3 do x = x + layer(x, o) end
        return head(x)
      end, {{1, 2, 3}, {4, 5, 6}})
    end
  end)

  local Misplaced = nn.Module:extend("Misplaced")

  function Misplaced:init(position)
    self.embed, self.position, self.head = nn.Embedding(7, 8), position, nn.Linear(8, 7)
    self.layer, self.calls = nn.MultiHeadAttention(8, 2), 0
  end

  function Misplaced:forward(ids, o)
    self.calls = self.calls + 1
    local x = self.position(self.embed(ids))
    local given = {cache = o and o.cache, causal = true, lengths = o and o.lengths}
    return self.head(x + self.layer(x, given))
  end

  local wanted = "generate: with a cache the model gives other logits than without, .* apart: "
                 .. ".*; or an nn%.Cache%(%) as option cache, which is not compared$"

  it("refuses positions that were not given the cache", function()
    for _, position in ipairs{
      heed.position.Sinusoidal(), heed.position.Learned(20, 8),
      function(x) return x + heed.position.sinusoidal(20, 8):narrow(1, 1, x:size(2)) end,
    } do
      for _, o in ipairs{{max = 4}, {max = 4, beams = 3}, {max = 4, top_k = 2, cache = true}} do
        heed.manual_seed(1)
        local model = Misplaced(position)
        assert.matches(wanted, message(heed.generate, model, PROMPTS, o))
        o.cache = false
        heed.generate(model, PROMPTS, o)
      end
    end
  end)

  it("compares a model once more where prompts are padded", function()
    heed.manual_seed(4)
    local embed, layer, head = nn.Embedding(7, 8), nn.MultiHeadAttention(8, 2), nn.Linear(8, 7)
    local function model(ids, o)         -- without lengths, padding is attended to
      return head(layer(embed(ids), {cache = o and o.cache, causal = true}))
    end
    heed.generate(model, {{1, 2}, {3, 4}}, {max = 3})
    assert.matches(wanted, message(heed.generate, model, PROMPTS, {max = 3}))
  end)

  it("compares a model once, and draws as without the comparison", function()
    heed.manual_seed(2)
    local model = Misplaced(function(x) return x end)
    heed.generate(model, PROMPTS, {max = 4})
    assert.equal(5, model.calls)
    heed.generate(model, PROMPTS, {max = 4})
    assert.equal(9, model.calls)
    local function drawn(identity)
      heed.manual_seed(3)
      heed.generate(Misplaced(identity), PROMPTS, {max = 4})
      return heed.rand(1):item()
    end
    local function silent(x) return x end
    local function drawing(x)            -- 4 calls draw; what the comparison draws is undone
      heed.rand(1)
      return x
    end
    heed.manual_seed(3)
    Misplaced(silent)
    for _ = 1, 4 do heed.rand(1) end
    assert.equal(heed.rand(1):item(), drawn(drawing))
    assert.not_equal(drawn(silent), drawn(drawing))
  end)

  it("takes a cache of the caller's own as it is, and calls no callback twice", function()
    heed.manual_seed(2)
    local model, seen = Misplaced(heed.position.Sinusoidal()), 0
    assert.equal(4, #heed.generate(model, {1, 2}, {max = 4, cache = nn.Cache()}))
    model:on_weights(function() seen = seen + 1 end)
    heed.generate(model, {1, 2}, {max = 4})
    assert.equal(4, seen)
  end)
end)
