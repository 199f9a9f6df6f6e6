-- Methods with arguments that none takes: refused by name, as found by spec/fuzz/uses.lua.

local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn

local PLACE <const> = "spec/golden/models/"


describe("a call is refused by name:", function()
  it("options of models that have no names, also without end", function()
    local turns = 0
    local odd = setmetatable({}, {__pairs = function()
      return function()
        turns = turns + 1
        assert(turns < 100)
        return 1, "x"
      end
    end})
    for name, call in pairs{
      llama3 = function(m) return m(heed.ones({1, 1}, {dtype = "int64"}), odd) end,
      electra = function(m) return m(heed.ones({1, 1}, {dtype = "int64"}), {5}) end,
      t5 = function(m) return m:encode(heed.ones({1, 1}, {dtype = "int64"}), odd) end,
    } do
      assert.matches("options by name expected, as in {%w+ = %.%.%.}, got one at %[1%]",
                     message(call, assert(heed.models.load(PLACE .. name))))
    end
  end)

  it("positions of a cache with lengths or keys that are no tensors", function()
    for _, odd in ipairs{true, 5, "x", {}, {size = 2}, heed.tensor(3)} do
      for _, name in ipairs{"keys", "lengths"} do
        assert.matches("positions: an int64 tensor of shape %(B%) expected as lengths, or a bool "
                       .. "tensor of shape %(B, T%) as keys, got ",
                       message(nn.Cache().positions, nn.Cache(), 2, {[name] = odd}))
      end
    end
  end)

  it("a list of layers that gets itself, by a colon", function()
    local list = nn.Sequential{nn.Linear(2, 2)}
    assert.matches("layer 1: the Sequential itself came as input; call its layer with a dot, "
                   .. "model[1](x)", message(list.forward, list, list), 1, true)
  end)

  it("learnt positions behind what is no cache", function()
    local layer, x = heed.position.Learned(4, 4), heed.randn(1, 2, 4)
    for _, odd in ipairs{true, {}, nn.Linear(1, 1), {positions = function() return 0 end}} do
      assert.matches("position.Learned: an nn.Cache expected as option cache, got ",
                     message(layer, x, {cache = odd}))
    end
  end)
end)


describe("a call of a model is refused by name:", function()
  local function model(name) return assert(heed.models.load(PLACE .. name)) end

  it("positions that are no tensor, and what is no cache", function()
    local ids = heed.tensor{{1, 2}, {3, 1}}
    local bart, roberta = model "bart", model "roberta"
    for _, odd in ipairs{{}, "x", 1.5, true} do
      local wanted = "position.Learned: positions of type int64 and shape .* expected, got "
      assert.matches(wanted, message(bart.encode, bart, ids, {positions = odd}))
      assert.matches(wanted, message(roberta.hidden, roberta, ids, {positions = odd}))
    end
    assert.matches("models.Side: an nn.Cache expected as option cache, got an empty table",
                   message(bart.encode, bart, ids, {cache = {}}))
  end)

  it("ids and texts that are none", function()
    local roberta, vectors = model "roberta", model "st/model2vec"
    assert.is_nil(message(roberta.hidden, roberta, 5):find("attempt", 1, true))
    for _, odd in ipairs{5, "x", heed.tensor{1, 2}, {}} do
      assert.matches("means: ids of shape %(B, T%) expected, got ",
                     message(vectors.means, vectors, odd, heed.tensor{1}))
      assert.matches("ids: a string expected as the text, got ",
                     message(vectors.ids, vectors, type(odd) == "string" and 5 or odd))
    end
    assert.matches("means: lengths of shape %(B%) expected, got nil",
                   message(vectors.means, vectors, heed.tensor{{1}}))
  end)

  it("init, since loaders alone know what there is", function()
    for _, name in ipairs{"gpt2", "roberta", "bart", "clip", "vit", "st/model2vec"} do
      local one = model(name)
      assert.matches("%a+Model: no argument expected, got ", message(one.init, one, {}, {}))
    end
  end)
end)


describe("a list that has an entry for any position, by __index, is read no further than it goes:",
         function()
  local function endless(first, other)
    return setmetatable({first}, {__index = function(_, i)
      return type(i) == "number" and (i < 1000 and other or error "beyond the list") or nil
    end})
  end

  it("sizes, tensors and numbers", function()
    local x = heed.arange(3)
    assert.matches("sizes that add up to 3 expected, got 1,", message(heed.split, x, endless(1, 1)))
    assert.same({3}, heed.split(x, endless(3, 1))[1].shape)
    assert.same({3}, heed.meshgrid(endless(x, x))[1].shape)
    assert.matches("argument 'tensors': a tensor expected, got nil",
                   message(heed.meshgrid, {x, nil, x}))
    assert.is_truthy(heed.plot.heat(endless({1}, {1})))
    assert.is_truthy(heed.plot.bars(endless(1, 1)))
  end)

  it("rows of a cache", function()
    local layer, cache = heed.nn.MultiHeadAttention(8, 2), heed.nn.Cache()
    layer(heed.randn(2, 3, 8), {cache = cache})
    assert.equal("Cache(3 tokens in 1 rows, 1 layers)", tostring(cache:reorder(endless(2, 1))))
  end)

  it("ids of a model's prompt, one of which is far away", function()
    local llama = assert(heed.models.load(PLACE .. "llama3"))
    local o = {max = 1, ends = false}
    assert.equal(1, #llama:generate(endless(5, 6), o))
    assert.matches("an entry expected at position 2, since there is one at 1099511627776",
                   message(llama.generate, llama, {5, [1 << 40] = 6}, o))
  end)

  it("ids of prompts and of texts, which stay as they are", function()
    local chars = heed.data.chars "abc"
    local function model(ids) return ids:one_hot(4):to "float32" end
    local o = {max = 1, cache = false}
    local given = {{2.0, 3}}
    assert.same({3}, heed.generate(model, endless(3, 1), o):totable())
    assert.same({3}, heed.generate(model, given, o)[1]:totable())
    assert.equal("float", math.type(given[1][1]))
    assert.same({"a"}, chars:decode(endless({chars:encode("a")[1]}, {1})))
    assert.matches("one length for each of 1 prompts expected",
                   message(heed.generate, model, {{1, 2}}, {max = 1, lengths = endless(nil, 1)}))
  end)
end)
