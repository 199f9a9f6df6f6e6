-- heed.generate with positions that a model has learnt, and beyond them.

local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn

-- A decoder with learnt positions.
local Writer = nn.Module:extend("Writer")

function Writer:init(positions)
  self.embed, self.place = nn.Embedding(9, 8), heed.position.Learned(positions, 8)
  self.decoder = nn.Decoder(8, 2, 1, {norm = "pre", cross = false})
  self.head = nn.Linear(8, 9)
end

function Writer:forward(ids, o)
  local given = o and {cache = o.cache, lengths = o.lengths}
  return self.head(self.decoder(self.place(self.embed(ids), given), o))
end


describe("heed.generate", function()
  it("guesses what followed before, all of it where a text repeats", function()
    local embed, layers = nn.Embedding(5, 8), nn.Decoder(8, 2, 1, {norm = "pre", cross = false})
    local function round(ids, o)
      layers(embed(ids), o)
      return heed.eye(5)[ids % 5 + 1] * 10
    end
    local ids, _, counts = heed.generate(round, {1, 2, 3, 4, 5, 1, 2}, {max = 20, lookup = 4})
    assert.same({3, 4, 5, 1, 2, 3}, ids:narrow(1, 1, 6):totable())
    assert.equal(counts.guessed, counts.right)
    assert.is_true(counts.right >= 12 and counts.calls <= 5)
  end)

  it("guesses what followed the last three ids, the last time", function()
    local embed, layers = nn.Embedding(9, 8), nn.Decoder(8, 2, 1, {norm = "pre", cross = false})
    local function round(ids, o)
      layers(embed(ids), o)
      return heed.eye(9)[ids % 9 + 1]
    end
    for _, prompt in ipairs{{1, 2, 3, 4, 9, 2, 3, 5, 1, 2},
                            {7, 1, 2, 3, 5, 8, 1, 2, 3, 4, 7, 1, 2}} do
      local o = {cache = nn.Cache(), lookup = 1, max = 3}
      local ids, _, counts = heed.generate(round, prompt, o)
      assert.same({{3, 4, 5}, {calls = 1, guessed = 1, right = 1}}, {ids:totable(), counts})
    end
  end)

  it("looks up what followed before, as far as positions go", function()
    heed.manual_seed(3)
    local prompt, right = {1, 2, 3, 1, 2, 3, 1, 2}, 0
    for positions = 20, 44, 3 do
      local writer = Writer(positions)
      local function run(o)
        o.max = 30
        return heed.generate(writer, prompt, o)
      end
      local wanted = run{}:totable()
      for _, o in ipairs{{}, {check = true}, {capture = false}} do
        o.lookup = 4
        local ids, _, counts = run(o)
        assert.same(wanted, ids:totable())
        right = right + counts.right
      end
    end
    assert.is_true(right > 50, right)
    assert.same({calls = 0, guessed = 0, right = 0},
                select(3, heed.generate(Writer(9), prompt, {max = 0, lookup = 2})))
  end)

  it("guesses for the last position, too", function()
    local writer = Writer(8)
    local function first(logits) logits[1] = 1e6 end
    heed.generate(writer, {1}, {max = 2})                -- whose first step is compared
    local ids, _, counts = heed.generate(writer, {1, 1, 1, 1, 1, 1},
                                         {max = 3, lookup = 4, logits = first})
    assert.same({{1, 1, 1}, {calls = 1, guessed = 1, right = 1}}, {ids:totable(), counts})
  end)

  it("slides over what learnt positions have no room for", function()
    local writer = Writer(6)
    local function naive(prompt)
      local ids = table.move(prompt, 1, #prompt, 1, {})
      for _ = 1, 12 do
        local last = table.move(ids, math.max(#ids - 5, 1), #ids, 1, {})
        ids[#ids + 1] = writer(heed.tensor{last}):select(2, -1):argmax(-1)[1]
      end
      return table.move(ids, #prompt + 1, #ids, 1, {})
    end
    local one, long = {1, 2, 3}, {5, 4, 3, 2, 1, 2, 3, 4}
    for _, how in ipairs{{true, 6}, {false, 6}, {true}, {false}} do
      local function run(prompt, o)
        o.max, o.cache, o.window = 12, table.unpack(how)
        return heed.generate(writer, prompt, o)
      end
      assert.same(naive(one), run(one, {}):totable())
      assert.same(naive(long), run(long, {}):totable())
      local both = run({one, long}, {})
      assert.same({naive(one), naive(long)}, {both[1]:totable(), both[2]:totable()})
      assert.same(naive(one), run(one, {beams = 1}):totable())
    end
    local beams = heed.generate(writer, one, {max = 12, window = 6, beams = 3}):totable()
    assert.equal(12, #beams)
    assert.same(beams, heed.generate(writer, one, {max = 12, beams = 3}):totable())
    assert.same(beams, heed.generate(writer, one, {max = 12, beams = 3, cache = false}):totable())
    for _, window in ipairs{6, false} do
      local o = {max = 12, window = window or nil, check = true}
      assert.same(naive(one), heed.generate(writer, one, o):totable())
    end
    local short = {2}
    heed.generate(writer, {one, short}, {max = 2, cache = false})
    assert.same({{1, 2, 3}, {2}}, {one, short})
    assert.same(naive(short), heed.generate(writer, {long, short}, {max = 12})[2]:totable())
    assert.matches("position.Learned: positions from 0 to 5 expected",
                   message(heed.generate, writer, one, {max = 12, cache = nn.Cache()}))
    assert.matches("position.Learned: positions from 0 to 5 expected",
                   message(heed.generate, function(...) return writer(...) end, one, {max = 12}))
    assert.matches("either window, or an nn.Cache as option cache expected, got both",
                   message(heed.generate, writer, one, {window = 6, cache = nn.Cache()}))
    assert.matches("at least 1 expected as option window, got 0",
                   message(heed.generate, writer, one, {window = 0}))
  end)

  it("slides where the positions of these ids end, not those of a source", function()
    local Translator = nn.Module:extend("Translator")
    function Translator:init()
      self.embed, self.source = nn.Embedding(9, 8), heed.position.Learned(3, 8)
      self.target = heed.position.Learned(7, 8)
      self.unused = heed.position.Learned(2, 8)
      self.encoder = nn.Encoder(8, 2, 1)
      self.decoder = nn.Decoder(8, 2, 1, {norm = "pre"})
      self.head = nn.Linear(8, 9)
      self.sizes = {}
    end
    function Translator:forward(ids, given)
      local size = ids:size(2)
      self.sizes[#self.sizes + 1] = size
      local source = self.encoder(self.source(self.embed(heed.tensor{{1, 2, 3}})))
      local x = self.target(self.embed(ids), {cache = given and given.cache})
      return self.head(self.decoder(x, source:expand(ids:size(1), 3, 8), given))
    end
    local translator = Translator()
    local function sizes(prompt, o)
      translator.sizes = {}
      o.max = 9
      local ids = heed.generate(translator, prompt, o):totable()
      return table.concat(translator.sizes, " "), ids
    end
    local cached, ids = sizes({1, 2, 3}, {})
    local uncached, others = sizes({1, 2, 3}, {cache = false})
    assert.equal("1 3 1 4 1 1 1 7 7 7 7", cached)        -- 1: who is asked; 4: a step is compared
    assert.equal("1 3 4 5 6 7 7 7 7 7", uncached)
    assert.same(ids, others)
    assert.equal("1 7 7 7 7 7 7 7 7 7", (sizes({1, 2, 3, 4, 5, 6, 7, 8, 9}, {})))
    assert.equal("1 7 7 7 7 7 7 7 7 7", (sizes({1, 2, 3, 4, 5, 6, 7, 8, 9}, {cache = false})))
    translator.sizes = {}
    local short = heed.generate(translator, {1, 2}, {max = 1, cache = false})
    assert.equal(1, #short)
    assert.same({2}, translator.sizes)
  end)
end)
