-- heed.data: padding, accuracy, vocabularies, masks, batches and windows, against plain Lua.

local close = require "spec.support.close"
local device = require "spec.support.device"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local data = heed.data


describe("heed.pad of lists", function()
  it("gives ids and lengths", function()
    local ids, lengths = heed.pad{{3, 1, 2}, {}, {4}}
    assert.same({{3, 1, 2}, {1, 1, 1}, {4, 1, 1}}, ids:totable())
    assert.same({3, 0, 1}, lengths:totable())
    assert.equal("int64", ids.dtype)
    assert.equal("int64", lengths.dtype)
    assert.equal("(1, 0)", tostring(heed.pad{{}}.shape))
  end)

  it("pads on either side, with any id, to any length", function()
    local ids = heed.pad({{3, 2}, heed.tensor{4}}, {side = "left", value = -100, length = 4})
    assert.same({{-100, -100, 3, 2}, {-100, -100, -100, 4}}, ids:totable())
    assert.same({{3, 2, 1}}, (heed.pad({{3.0, 2}}, {length = 3}):totable()))
    assert.same({{1, 1}, {1, 1}}, (heed.pad({{}, {}}, {length = 2}):totable()))
    assert.matches("memory", message(heed.pad, {{1}}, {length = 2 ^ 50}))
  end)

  -- On a GPU: tensors of the other device say where the result is, lists alone the default.
  local it_on_both = device.gpu and it or pending
  it_on_both("is where the first tensor is", function()
    for _, where in ipairs{"cpu", heed.default_device()} do
      local ids, lengths = heed.pad{{1}, heed.tensor({4, 5}, {device = where}), {2}}
      assert.same({where, where}, {ids.device, lengths.device})
    end
    assert.equal(heed.default_device(), heed.pad{{1}}.device)
  end)

  it("leaves heed.pad of tensors, and the method, as they were", function()
    assert.same({0, 1, 2, 0}, heed.pad(heed.tensor{1, 2}, {1, 1}):totable())
    assert.same({9, 1, 2}, heed.tensor{1, 2}:pad({1, 0}, {value = 9}):totable())
    assert.matches("x:pad", message(heed.tensor{1}.pad, {1, 1}))
  end)

  it("refuses what it cannot pad", function()
    local function said(...) return message(heed.pad, ...) end
    assert.matches("at least one list", said{})
    assert.matches("a list of ids expected at position 2, got 3", said{{1}, 3})
    assert.matches("an id expected at position %(1, 2%), got 1.5", said{{1, 1.5}})
    assert.matches("an id expected at position %(1, 1%), got nil", said{{nil, 2}})
    assert.matches("a list expected, got one with the string 'a'", said{a = {1}})
    assert.matches("int64 tensor of rank 1 expected at position 1", said{heed.ones(2)})
    assert.matches("length of at least 3 expected", said({{1, 2, 3}}, {length = 2}))
    assert.matches("'right' or 'left' expected as option side", said({{1}}, {side = "top"}))
    assert.matches("an id expected as option value, got 0.5", said({{1}}, {value = 0.5}))
    assert.matches("did you mean 'value'", said({{1}}, {values = 2}))
    assert.matches("at most 2 arguments", said({{1}}, {}, 2))
  end)
end)


describe("heed.accuracy", function()
  local logits = heed.tensor{{{1, 2.0}, {3, 1.0}}, {{0, 1.0}, {2, 5.0}}}     -- (2, 2, 2)

  it("is how many ids have the largest logit", function()
    assert.equal(0.75, heed.accuracy(logits, heed.tensor{{2, 1}, {2, 1}}))
    assert.equal(1.0, heed.accuracy(heed.tensor{1, 3.0, 2}, heed.tensor(2)))
  end)

  it("leaves out what is ignored", function()
    assert.equal(0.5, heed.accuracy(logits, heed.tensor{{2, -100}, {-100, 1}}))
    assert.equal(1.0, heed.accuracy(logits, heed.tensor{{2, 1}, {2, 1}}, {ignore_index = 1}))
    local none = heed.accuracy(logits, heed.full({2, 2}, -100))
    assert.is_true(none ~= none)
  end)

  it("has its classes in any dimension", function()
    local ids = heed.randint(1, 5, {4, 3})
    local x = heed.randn(4, 5, 3)
    local right, got = 0, x:totable()
    for i, row in ipairs(ids:totable()) do
      for j, id in ipairs(row) do
        local best = 1
        for c = 2, 5 do best = got[i][c][j] > got[i][best][j] and c or best end
        right = right + (best == id and 1 or 0)
      end
    end
    assert.equal(right / 12, heed.accuracy(x, ids, {dim = 2}))
  end)

  it("refuses what has no answer", function()
    local function said(...) return message(heed.accuracy, ...) end
    assert.matches("ids from 1 to 2 expected, got 0; ids count from 1: ids %+ 1",
                   said(logits, heed.zeros(2, 2, {dtype = "int64"})))
    assert.matches("ids from 1 to 2 expected, got 3", said(logits, heed.full({2, 2}, 3)))
    assert.matches("shape %(2, 2%) expected, for logits of shape %(2, 2, 2%)",
                   said(logits, heed.tensor{1, 2}))
    assert.matches("a float tensor with classes", said(heed.tensor{1, 2}, heed.tensor(1)))
    assert.matches("an int64 tensor expected, got a tensor of shape %(2%) and type float32",
                   said(logits, heed.ones(2)))
    assert.matches("an axis from 1 to 3", said(logits, heed.tensor{1}, {dim = 4}))
  end)
end)


for _, kind in ipairs{"chars", "words"} do
  describe("data." .. kind, function()
    local path
    before_each(function() path = os.tmpname() end)
    after_each(function() os.remove(path) end)

    it("gives ids of a text, and the text again", function()
      local text = kind == "chars" and "hällo wörld €😀\n" or "wo sind die wörter"
      local v = data[kind](text)
      local ids = v:encode(text)
      assert.equal("int64", ids.dtype)
      assert.equal(text, v:decode(ids))
      assert.equal(text, v:decode(ids:totable()))
      assert.equal(v.tokens[2], v:decode(2))
      assert.equal("(0)", tostring(v:encode("").shape))
      assert.equal("", v:decode(v:encode("")))
    end)

    it("has its tokens sorted by their bytes, whatever the order of the texts", function()
      local v = data[kind]{"b a", "ä b"}
      assert.same(kind == "chars" and {" ", "a", "b", "ä"} or {"a", "b", "ä"}, v.tokens)
      assert.equal(#v.tokens, #v)
      assert.same(v.tokens, data[kind].train("ä b b a").tokens)
    end)

    it("maps what it does not know to unknown, or refuses it", function()
      local v = data[kind]("a b", {unknown = "?", special = {"<mask>"}})
      assert.equal("?", v.tokens[1])
      assert.equal(2, v:id("<mask>"))
      assert.equal(1, v.unknown)
      local ids = v:encode("a z")
      assert.equal("a ?", v:decode(ids))
      assert.matches('"z" is not in the vocabulary', message(function()
        data[kind]("a b"):encode("a z")
      end))
    end)

    it("never finds a special token in a text", function()
      local v = data[kind]("a b", {unknown = "?", special = {"c"}})
      assert.equal(1, v:encode("c")[1])
    end)

    it("keeps the most frequent tokens", function()
      local v = data[kind]("a a b b c d a", {most = kind == "chars" and 3 or 2})
      assert.same(kind == "chars" and {" ", "a", "b"} or {"a", "b"}, v.tokens)
      v = data[kind]("z z f e d c b a g h i", {most = kind == "chars" and 3 or 2})
      assert.same(kind == "chars" and {" ", "a", "z"} or {"a", "z"}, v.tokens)
    end)

    it("is saved and loaded", function()
      local v = data[kind]('a "b"\\ ü', {unknown = "?"})
      assert.is_true(v:save(path))
      local again = assert(data[kind].load(path))
      assert.same(v.tokens, again.tokens)
      assert.same(v:encode("a ü q"):totable(), again:encode("a ü q"):totable())
      assert.equal(#v, #again)
    end)

    it("is nil and a message where a file is none", function()
      local function loaded(text)
        local file <close> = assert(io.open(path, "w"))
        file:write(text)
        file:close()
        local v, why = data[kind].load(path)
        assert.is_nil(v)
        return why
      end
      assert.matches("cannot open", select(2, data[kind].load(path .. "/none")))
      assert.matches("no vocabulary of data%." .. kind, loaded "{}")
      assert.matches("bad number", loaded "-")
      assert.matches("no vocabulary", loaded "3")
      local function json(rest)
        return ('{"format":"heed.data 1","kind":"%s",%s}'):format(kind, rest)
      end
      for rest, why in pairs{
        ['"tokens":{}'] = "a list of tokens", ['"tokens":[1],"special":0'] = "as unknown",
        ['"tokens":["a"],"special":2,"unknown":false'] = "a number of special ones",
        ['"tokens":["a"],"special":-1,"unknown":false'] = "a number of special ones",
        ['"tokens":["a"],"special":0,"unknown":1'] = "as unknown",
        ['"tokens":[1],"special":0,"unknown":false'] = "token 1 is no string",
        ['"tokens":["a","a"],"special":0,"unknown":false'] = "is there twice",
        ['"tokens":[""],"special":0,"unknown":false'] = "is none of data",
        ['"tokens":["a\\u0020b"],"special":0,"unknown":false'] = "is none of data",
      } do assert.matches(why, loaded(json(rest))) end
      local other = kind == "chars" and "words" or "chars"
      assert.matches("no vocabulary", loaded(json('"tokens":[]'):gsub(kind, other)))
      local v, why = data[kind]("a"):save(path .. "/none")
      assert.is_nil(v)
      assert.is_string(why)
    end)

    it("refuses what is no text and no id", function()
      local v = data[kind]("a b")
      assert.matches("invalid byte at position 2", message(data[kind], "a\xff"))
      assert.matches("a string expected as text, got 3", message(v.encode, v, 3))
      assert.matches("a text or a list of texts expected, got nil", message(data[kind]))
      assert.matches("an id from 1 to %d+ expected at position 2, got 99",
                     message(v.decode, v, {1, 99}))
      assert.matches("an int64 tensor", message(v.decode, v, heed.ones(2)))
      assert.matches("decode: a list of ids expected at position 2, as at 1, got 2",
                     message(v.decode, v, {{1}, 2}))
      assert.matches("chars:encode", message(v.encode, "a b"))
      assert.matches("did you mean 'decode'", message(function() return v.decod end))
      assert.matches("is in the text", message(data[kind], "a b", {special = {"a"}}))
      assert.matches("given twice", message(data[kind], "a", {special = {"?", "?"}}))
      assert.matches("did you mean 'unknown'", message(data[kind], "a", {unknwn = "?"}))
      assert.matches("not in the vocabulary", message(v.id, v, "x"))
    end)

    it("decodes several texts at once", function()
      local v = data[kind]("a b")
      local a, b = v:id("a"), v:id("b")
      local joint = kind == "words" and " " or ""
      assert.same({"a" .. joint .. "b", "b" .. joint .. "b"}, v:decode(heed.tensor{{a, b}, {b, b}}))
    end)
  end)
end


describe("data.mask", function()
  setup(device.cpu)
  teardown(device.back)

  local function drawn(o)
    heed.manual_seed(2)
    local ids = heed.randint(1, 8, {200, 50})
    return ids, data.mask(ids, o)
  end

  local function share(t) return t:to("float32"):mean():item() end

  it("hides 80 %, changes 10 % and keeps 10 % of what is to be predicted", function()
    local ids, inputs, targets = drawn{mask = 9, vocabulary = 8, rate = 0.3}
    local chosen = targets:ne(-100)
    assert.is_true(close(share(chosen), 0.3, 0, 0.02))
    assert.is_true(targets[chosen]:equal(ids[chosen]))
    assert.is_true(inputs[~chosen]:equal(ids[~chosen]))
    local shown, wanted = inputs[chosen], targets[chosen]
    assert.is_true(close(share(shown:eq(9)), 0.8, 0, 0.02))
    -- Of 10 % random ids, one in eight is the same as before.
    assert.is_true(close(share(shown:eq(wanted)), 0.1 + 0.1 / 8, 0, 0.02))
    assert.equal(8, shown[shown:ne(9)]:max():item())
  end)

  it("takes other shares, and no vocabulary without random ids", function()
    local _, inputs, targets = drawn{mask = 9, keep = 0, random = 0, rate = 0.5}
    assert.is_true(inputs:eq(9):equal(targets:ne(-100)))
    _, inputs, targets = drawn{mask = 9, keep = 1, random = 0, rate = 1}
    assert.is_true(inputs:equal(targets))
    assert.is_false(inputs:eq(9):any())
  end)

  it("leaves padding and special ids alone", function()
    local ids = heed.tensor{{1, 2, 3, 3}, {2, 2, 9, 3}}
    for _, lengths in ipairs{{3, 4}, heed.tensor{3, 4}} do
      local _, targets = data.mask(ids, {mask = 9, special = {1}, lengths = lengths, rate = 1,
                                         vocabulary = 8})
      assert.same({{-100, 2, 3, -100}, {2, 2, -100, 3}}, targets:totable())
    end
  end)

  it("draws from the module's generator", function()
    local _, a = drawn{mask = 9, vocabulary = 8}
    local _, b = drawn{mask = 9, vocabulary = 8}
    assert.is_true(a:equal(b))
  end)

  it("refuses what it cannot take", function()
    local ids = heed.tensor{{1, 2}}
    local function said(o, x) return message(data.mask, x or ids, o) end
    assert.matches("an id from 1 on expected as option mask, got nil", said{vocabulary = 3})
    assert.matches("option vocabulary, up to which random ids are drawn", said{mask = 3})
    assert.matches("0 to 1 expected as option rate, got 2", said{mask = 3, rate = 2})
    assert.matches("add up to 1", said{mask = 3, vocabulary = 3, keep = 0.6, random = 0.6})
    assert.matches("an int64 tensor", said({mask = 3, vocabulary = 3}, heed.ones(2)))
    assert.matches("one whole number for each sequence",
                   said{mask = 3, vocabulary = 3, lengths = {1, 2}})
    assert.matches("a list of ids expected as option special",
                   said{mask = 3, vocabulary = 3, special = 1})
    for wanted, special in pairs{
      ["an entry expected at position 1, since there is one at 2, got nil"] = {nil, 7},
      ["a list expected, got one with the string 'x' as a key"] = {1, x = 7},
      ["got nan"] = {0 / 0},
    } do
      assert.matches("data.mask: .*option special.*" .. wanted,
                     said{mask = 3, vocabulary = 3, special = special})
    end
    ids = heed.tensor{{1, 2}, {2, 1}}
    for n, lengths in pairs{[3] = {1, 3}, [-1] = heed.tensor{-1, 2}} do
      assert.matches("data.mask: lengths from 0 to 2 expected, got " .. n,
                     said({mask = 3, vocabulary = 3, lengths = lengths}, ids), 1, true)
    end
  end)
end)


describe("data.batches", function()
  local function why(...) return tostring(select(2, pcall(...))) end

  it("tells how many there are in an epoch, and that it is called", function()
    local x = heed.arange(5)
    assert.equal(3, #data.batches(x, {size = 2}))
    assert.equal(2, #data.batches(x, {size = 2, drop_last = true, epochs = 7}))
    assert.equal(1, #data.batches(x, {size = 9}))
    local b = data.batches(x, {size = 2})
    assert.matches("batches: they are called: for x, y in batches do; got position 1",
                   why(function() for _ in ipairs(b) do error "a batch" end end))
    assert.matches("state: batches expected as the first argument, got an empty table",
                   why(b.state, {}))
    assert.matches("batches: there is no 'statte'; did you mean 'state'",
                   why(function() return b.statte end))
  end)

  local function numbers(n) return heed.arange(n) end

  -- All that came in one loop, one behind the other.
  local function all(batches)
    local list, sizes = {}, {}
    for x in batches do
      sizes[#sizes + 1] = #x
      table.move(x:totable(), 1, #x, #list + 1, list)
    end
    return list, sizes
  end

  it("has every example once in an epoch, in an order of its own", function()
    local batches = data.batches(numbers(10), {size = 4, seed = 1})
    local first, sizes = all(batches)
    assert.same({4, 4, 2}, sizes)
    local second = all(batches)
    assert.is_not.same(first, second)
    table.sort(first)
    assert.same(numbers(10):totable(), first)
    assert.same({4, 4}, select(2, all(data.batches(numbers(10), {size = 4, drop_last = true}))))
    assert.same(numbers(10):totable(), (all(data.batches(numbers(10), {shuffle = false}))))
  end)

  it("keeps rows together, of tensors and lists", function()
    local names = {"a", "b", "c", "d", "e"}
    local n = 0
    for x, word in data.batches(numbers(5):view(5, 1) * 2, names, {size = 2, seed = 3}) do
      for i, row in ipairs(x:totable()) do
        assert.equal(names[row[1] // 2], word[i])
        n = n + 1
      end
    end
    assert.equal(5, n)
  end)

  it("makes of lists what collate makes of them", function()
    local lists = {{1}, {2, 3}, {4, 5, 6}}
    local ids, lengths = data.batches(lists, {size = 3, shuffle = false, collate = heed.pad})()
    assert.same({{1, 1, 1}, {2, 3, 1}, {4, 5, 6}}, ids:totable())
    assert.same({1, 2, 3}, lengths:totable())
  end)

  it("ends by no batch that collate does not give", function()
    for _, collate in ipairs{function() end, function(x) return nil, x end} do
      local batches = data.batches(numbers(3), {collate = collate})
      for _ = 1, 2 do
        assert.matches("_spec.lua:%d+: data.batches: a batch expected from option collate, got nil",
                       message(function() batches() end))
      end
      assert.same({0, 0}, batches:state().place:totable())
    end
  end)

  it("comes several times, or for ever", function()
    local list = all(data.batches(numbers(3), {size = 2, epochs = 4}))
    assert.equal(12, #list)
    local n = 0
    for _ in data.batches(numbers(3), {epochs = math.huge}) do
      n = n + 1
      if n == 20 then break end
    end
    assert.equal(20, n)
  end)

  it("draws from its own generator if it has a seed, else from the module's", function()
    heed.manual_seed(1)
    local untouched = heed.rng_state()
    local a = all(data.batches(numbers(20), {seed = 2}))
    assert.is_true(untouched:equal(heed.rng_state()))
    assert.same(a, (all(data.batches(numbers(20), {seed = 2}))))
    local order = all(data.batches(numbers(20)))
    heed.manual_seed(1)
    assert.same(heed.randperm(20, {device = "cpu"}):totable(), order)
  end)

  it("goes on from its state", function()
    for _, seed in ipairs{4, false} do
      local o = {size = 3, seed = seed or nil, epochs = 3}
      heed.manual_seed(9)
      local batches = data.batches(numbers(10), o)
      for _ = 1, 5 do batches() end
      local state, generator = batches:state(), heed.rng_state()
      local rest = all(batches)
      local again = data.batches(numbers(10), o)
      again:load_state(state)
      heed.rng_state(generator)
      assert.same(rest, (all(again)))
    end
  end)

  it("gives a batch whose call failed to the next one", function()
    for _, seed in ipairs{4, false} do
      local fails = false
      local o = {size = 3, seed = seed or nil, epochs = 3}
      heed.manual_seed(9)
      local wanted = all(data.batches(numbers(10), o))
      heed.manual_seed(9)
      function o.collate(x)
        fails = not fails
        return fails and error("no batch", 0) or x
      end
      local batches, got = data.batches(numbers(10), o), {}
      repeat
        local first, second = pcall(batches), nil
        if not first then second = batches() end
        for _, i in ipairs(second and second:totable() or {}) do got[#got + 1] = i end
      until not second
      assert.same(wanted, got)
    end
  end)

  it("gives a batch for which memory was lacking to the next call", function()
    local x = heed.arange(1 << 17):view(4, -1)
    local batches = data.batches(x, {size = 3, shuffle = false})
    local limit = heed.memory().limit
    heed.memory{limit = heed.memory().live + 1000}
    local said = message(batches)
    heed.memory{limit = limit}
    assert.matches("memory", said)
    assert.is_true(batches():equal(x:narrow(1, 1, 3)))
    assert.is_true(batches():equal(x:narrow(1, 4, 1)))
  end)

  it("takes part in a run that goes on bit for bit", function()
    local path = os.tmpname()
    local function run(steps, resume, seed)
      heed.manual_seed(5)
      local model = nn.Linear(3, 1)
      local x = heed.randn(10, 3)
      local got = heed.train{
        model = model, loss = heed.mse_loss, steps = steps, print = false, resume = resume,
        batches = data.batches(x, x:sum(2, true), {size = 4, epochs = math.huge, seed = seed}),
        optimizer = heed.optim.SGD(model:parameters(), {lr = 0.01}), checkpoint = path,
      }
      return got.losses
    end
    for _, seed in ipairs{3, false} do
      local wanted = run(11, false, seed or nil)
      run(5, false, seed or nil)
      assert.same(wanted, run(11, true, seed or nil))
    end
    os.remove(path)
  end)

  it("refuses what it cannot take", function()
    local function said(...) return message(data.batches, ...) end
    assert.matches("at least one tensor or list", said())
    assert.matches("at least one tensor or list", said({size = 3}))
    assert.matches("a tensor with rows or a list expected as argument 1, got 3", said(3, {}))
    assert.matches("a tensor with rows", said(heed.tensor(1)))
    assert.matches("in argument 1 expected, 3, got 2", said(numbers(3), {1, 2}))
    assert.matches("at least one example", said(heed.zeros(0, 2)))
    assert.matches("examples of one kind expected in the list that is argument 1",
                   said({heed.ones(3, 2), numbers(3)}, {size = 2}))
    assert.matches("at least 1 expected as option size", said(numbers(3), {size = 0}))
    assert.matches("option size of at most 3 expected with drop_last",
                   said(numbers(3), {drop_last = true}))
    assert.matches("did you mean 'shuffle'", said(numbers(3), {shufle = true}))
    local batches = data.batches(numbers(3))
    assert.matches("the state of batches of 3 examples", message(batches.load_state, batches, {}))
    local other = data.batches(numbers(4))
    other()
    assert.matches("the state of batches", message(batches.load_state, batches, other:state()))
    assert.matches("load_state: at most 1 argument expected, got 5 as argument 2$",
                   message(batches.load_state, batches, batches:state(), 5))
  end)
end)


describe("data.windows", function()
  it("gives pieces of a text, and the same one id further on", function()
    local ids = heed.arange(101, 130)
    local seen = {}
    for x, y in data.windows(ids, {length = 4, size = 50, seed = 1}) do
      assert.equal("(50, 4)", tostring(x.shape))
      assert.is_true(y:equal(x + 1))
      assert.is_true((x:narrow(2, 2, 3) - x:narrow(2, 1, 3)):eq(1):all())
      for _, start in ipairs(x:select(2, 1):totable()) do seen[start] = true end
      if seen[101] and seen[126] then break end
    end
    assert.is_nil(seen[127])
  end)

  it("draws from its own generator if it has a seed", function()
    local ids = heed.arange(100)
    local a, b = data.windows(ids, {seed = 1}), data.windows(ids, {seed = 1})
    assert.is_true(a():equal((b())))
  end)

  it("refuses a text that is too short, and what is none", function()
    assert.matches("more than 64 ids expected, the option length, got 5",
                   message(data.windows, heed.arange(5)))
    assert.matches("an int64 tensor of rank 1", message(data.windows, heed.ones(9)))
    assert.matches("at least 1 expected as option length",
                   message(data.windows, heed.arange(5), {length = 0}))
  end)
end)


describe("heed.data", function()
  it("says what PyTorch's names are here", function()
    assert.matches("write heed.data.batches", message(function() return data.DataLoader end))
    assert.matches("write heed.pad%(lists%)", message(function() return heed.pad_sequence end))
    assert.matches("did you mean 'windows'", message(function() return data.window end))
  end)
end)
