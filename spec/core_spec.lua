-- Functions of heed.core that the Lua half alone calls: what they refuse by themselves, since they
-- read memory.

local core = require "heed.core"
local heed = require "heed"
local message = require "spec.support.message"

local function int64(...) return heed.zeros({...}, {dtype = "int64", device = "cpu"}) end
local function uint8(...) return heed.zeros({...}, {dtype = "uint8", device = "cpu"}) end
local function float(...) return heed.zeros({...}, {device = "cpu"}) end


describe("heed.core.text", function()
  local text = core.text
  local tok = assert(heed.tokenizer.load "spec/golden/tokenizers/bpe_gpt2").native

  it("takes ids as dense int64 tensors alone", function()
    local wanted = "decode: argument 'ids': a dense int64 tensor on the CPU expected, got "
    for _, bad in ipairs{("\1"):rep(16), 5, {}, int64(4, 2):t()} do
      assert.matches(wanted, message(text.decode, tok, bad, true), 1, true)
    end
    assert.equal("", text.decode(tok, int64(0), true))
  end)

  it("takes parts of a text in order, as pairs of bytes", function()
    local function refused(parts)
      return message(text.encode, tok, "abc", nil, true, parts)
    end
    for _, bad in ipairs{int64(1), int64(3), int64(2, 2, 3):transpose(1, 3)} do
      assert.matches("argument 'parse': a dense int64 tensor of shape (N, 2) on the CPU expected",
                     refused(bad), 1, true)
    end
    for _, bad in ipairs{{{0, 1}}, {{1, 4}}, {{3, 1}}, {{1, 2}, {2, 3}}, {{2, 3}, {1, 1}},
                         {{1, 1}, {2, 3}, {3, 3}}} do
      assert.matches("first and last bytes of parts of the text, in order",
                     refused(heed.tensor(bad, {dtype = "int64", device = "cpu"})), 1, true)
    end
    for _, good in ipairs{{{1, 3}}, {{1, 2}, {3, 3}}, {{1, 1}, {2, 2}, {3, 3}}} do
      local parts = heed.tensor(good, {dtype = "int64", device = "cpu"})
      assert.is_true(pcall(text.encode, tok, "abc", nil, true, parts))
    end
  end)

  it("takes objects of its own kinds alone", function()
    for _, bad in ipairs{5, "x", {}, io.stdout, text.stream(true)} do
      for _, name in ipairs{"decode", "encode", "token", "find", "unknown", "padding", "left"} do
        assert.matches("a tokenizer expected, got ", message(text[name], bad, "a"), 1, true)
      end
    end
    local others = {["5"] = 5, ["a table"] = {}, ["a userdata"] = tok}
    for _, name in ipairs{"push", "finish"} do
      for kind, bad in pairs(others) do
        assert.matches("a stream expected, got " .. kind .. "$", message(text[name], tok, bad, 1))
      end
    end
    for _, name in ipairs{"feed", "make"} do
      for kind, bad in pairs(others) do
        assert.matches("a trainer expected, got " .. kind .. "$", message(text[name], bad, "a"))
      end
    end
  end)
end)


describe("heed.core.json", function()
  local json = core.json

  it("takes depths up to a thousand", function()
    local function nested(n) return ("["):rep(n) .. ("]"):rep(n) end
    local wanted <const> = "argument 'depth': 0 to 1000 expected, got "
    for _, name in ipairs{"decode", "check"} do
      for _, bad in ipairs{-1, 1001} do
        assert.matches(name .. ": " .. wanted .. bad, message(json[name], "1", bad), 1, true)
      end
      assert.matches("argument 'depth': a whole number expected", message(json[name], "1", "1"))
      assert.truthy(json[name]("1", 0))
      assert.same({nil, "nested too deep at byte 1"}, {json[name]("[]", 0)})
      assert.truthy(json[name](nested(1000), 1000))
      assert.same({nil, "nested too deep at byte 1001"}, {json[name](nested(1001), 1000)})
    end
  end)

  it("takes positions in the text alone", function()
    for _, name in ipairs{"another", "behind", "entry", "first", "member", "value"} do
      for _, bad in ipairs{0, -1, 4, 1 << 62} do
        assert.matches(name .. ": argument 'at': a position in the text expected, got " .. bad,
                       message(json[name], "[1]", bad, nil, {}, {}), 1, true)
      end
      assert.matches("argument 'at': a whole number expected, got 1.5$",
                     message(json[name], "[1]", 1.5, nil, {}, {}))
    end
    assert.matches("#4 to .*table expected", message(json.entry, "{}", 1, nil, 1, {}))
    assert.matches("#5 to .*table expected", message(json.entry, "{}", 1, nil, {}, 1))
  end)

  it("goes from one element to the next, and behind them all", function()
    for text, wanted in pairs{["[1]"] = {2}, ['{"a":1}'] = {2}, ["[]"] = {nil, 3},
                              ["{}"] = {nil, 3}} do
      assert.same(wanted, {json.first(text, 1)})
    end
    assert.same({4}, {json.another("[1,2]", 3)})
    assert.same({nil, 4}, {json.another("[1]", 3, false)})
    assert.same({8}, {json.another('{"a":1,"b":2}', 7, true)})
    assert.same({nil, 8}, {json.another('{"a":1}', 7, true)})
    assert.same({"a", 6}, {json.member('{"a":1}', 2)})
    assert.same({1, 3}, {json.value("[1,2]", 2)})
    assert.equal(4, json.behind("[12]", 2))
  end)

  it("says where a text goes wrong that nobody checked", function()
    for text, wanted in pairs{
      ["first [1] 3"] = 'first: the text was not checked: expected a value at byte 3, got "]"',
      ["first 1 1"] = "first: the text was not checked: ",
      ["another [1; 3"] = 'another: the text was not checked: expected "," or "]" at byte 3, '
                          .. 'got ";"',
      ["member {a:1} 2"] = 'member: the text was not checked: expected a name in quotes at byte 2',
      ["behind [x] 2"] = 'behind: the text was not checked: expected a value at byte 2, got "x"',
      ["behind [1e999] 2"] = "behind: the text was not checked: number out of range",
      ["behind [1E999] 2"] = "behind: the text was not checked: number out of range",
      ["entry {x} 1"] = 'entry: the text was not checked: expected a name in quotes at byte 2',
      ['entry {"dtype":x} 1'] = 'entry: the text was not checked: expected a value at byte 10',
    } do
      local name, json_text, at = text:match("(%l+) (%S+) (%d)")
      local why = message(json[name], json_text, tonumber(at), nil, {}, {})
      assert.is_truthy(why:find(wanted, 1, true), why)
    end
    assert.same({nil, "number out of range at byte 2"}, {json.value("[1e999]", 2)})
    assert.same({nil, "", "dtype", 16},
                {json.entry('{"dtype":"F32","dtype":"F32"}', 1, nil, {}, {})})
  end)

  it("goes over long numbers that 64 bits hold as floats", function()
    for _, n in ipairs{299, 300, 308} do
      assert.equal(n + 1, json.behind(("9"):rep(n) .. "]", 1))
    end
    assert.matches("number out of range", message(json.behind, ("9"):rep(309) .. "]", 1))
  end)

  it("gives of a tensor's entry nine elements of a list, and how many there are", function()
    local sizes, offsets = {0, 0, 0}, {}
    local text <const> = '{"shape":[1,[2],3,4,5,6,7,8,9,10],"x":1,"data_offsets":7,"dtype":"U8"}'
    assert.same({#text + 1, "U8", 10, nil, "x"}, {json.entry(text, 1, nil, sizes, offsets)})
    assert.same({1, "a list", 3, 4, 5, 6, 7, 8, 9}, sizes)
    assert.same({34, nil, 0, 2, nil},
                {json.entry('{"shape":[],"data_offsets":[0,4]}', 1, nil, sizes, offsets)})
    assert.same({}, sizes)
    assert.same({0, 4}, offsets)
  end)
end)


describe("heed.core.crc32", function()
  it("takes strings and dense tensors, also those of no elements", function()
    assert.equal(0x352441c2, core.crc32("abc"))
    assert.equal(0x352441c2, core.crc32("c", core.crc32("ab")))
    assert.equal(0, core.crc32(""))
    assert.equal(0, core.crc32(float(0)))
    assert.equal(7, core.crc32(float(0), 7))
    for _, bad in ipairs{5, {}, float(2, 2):t()} do
      assert.matches("argument 'bytes': a string or a dense tensor on the CPU expected",
                     message(core.crc32, bad))
    end
  end)
end)


describe("heed.core.nearest, hint and refuse_option", function()
  it("take lists of names, of which there may be none", function()
    assert.equal("abd", core.nearest("abc", {"xyz", "abd"}))
    assert.is_nil(core.nearest("abc", {}))
    assert.equal("there are none", core.hint("abc", {}))
    assert.equal("there are abc, def", core.hint("zzz", {"abc", "def"}))
    assert.equal("did you mean 'abc'?", core.hint("abd", {"abc", "def"}))
    for _, name in ipairs{"nearest", "hint"} do
      assert.matches("list of names expected", message(core[name], "abc", {"abd", 5}))
      assert.matches("table expected", message(core[name], "abc", 5))
    end
    assert.matches("f: no options expected, got one at [5]",
                   message(core.refuse_option, "f", 5, {}), 1, true)
    assert.matches("f: options by name expected, as in {a = ...}, got one at [5]",
                   message(core.refuse_option, "f", 5, {"a"}), 1, true)
    assert.matches("f: unknown option 'x'; there are none",
                   message(core.refuse_option, "f", "x", {}), 1, true)
  end)

  it("find words in which a third of the letters is wrong, and no more", function()
    local function near(word, name) return core.nearest(word, {name}) == name end
    assert.is_true(near("abc", "abd") and near("abc", "acb") and near("abc", "ab"))
    assert.is_true(near("abc", "abcd") and near("abc", "abcdefgh"))       -- its beginning
    assert.is_false(near("ab", "ac") or near("ab", "abcd") or near("abc", "axy"))
    assert.is_true(near("abcdef", "abxxef") and near("abcdef", "badcef"))
    assert.is_false(near("abcdef", "axxxef") or near("abcde", "abxxe"))
    assert.equal("abcdex", core.nearest("abcdef", {"abcdxy", "abcdex", "abcdxe"}))
    assert.equal("abcx", core.nearest("abce", {"abcx", "abcd"}))          -- the first of two
    local long = ("a"):rep(39)
    assert.is_true(near(long .. "b", long .. "c"))
    assert.is_false(near(long .. "bb", long .. "bc") or near(long .. "b", long .. "cc"))
  end)
end)


describe("heed.core.fits", function()
  it("finds the metatable of a value that stands alone", function()
    local A, B = {}, {}
    local classes, a = {[A] = true}, setmetatable({}, A)
    assert.is_true(core.fits(a, classes))
    assert.is_false(core.fits(setmetatable({}, B), classes))
    assert.is_false(core.fits({}, classes))
    assert.is_false(core.fits(nil, classes))
    assert.is_false(core.fits("x", classes))
    assert.is_false(core.fits(a, classes, nil))
    assert.is_false(core.fits(a, classes, a))
    assert.is_true(core.fits(5, {[debug.getmetatable "x"] = true}) == false)
    assert.matches("#2 to .*table expected", message(core.fits, a, 5))
    assert.matches("#2 to .*table expected", message(core.fits, a))
  end)
end)


describe("heed.core.serves", function()
  it("tells which weights go with which tensors", function()
    local types <const> = {"float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"}
    local blocks = float(1, 32):to("q8_0")
    for i, one in ipairs(types) do
      for k, other in ipairs(types) do
        assert.equal(i == k, core.serves(float(1):to(one), float(1):to(other)))
      end
      assert.equal(i <= 4, core.serves(blocks, float(1):to(one)), one)
      assert.is_false(core.serves(float(1):to(one), blocks))
    end
    assert.is_true(core.serves(blocks, blocks))
    for _, bad in ipairs{5, "x", {}} do
      assert.is_false(core.serves(bad, float(1)))
      assert.is_false(core.serves(float(1), bad))
    end
    assert.is_false(core.serves())
  end)
end)


describe("heed.core.has_values", function()
  it("finds masks and biases that are no tensors, and sinks", function()
    local t = float(1)
    for _, yes in ipairs{
      {mask = {}}, {mask = print}, {mask = "x"}, {bias = {}}, {bias = print}, {sink = t},
      {sink = false}, setmetatable({}, {}),
    } do assert.truthy(core.has_values(yes)) end
    for _, no in ipairs{{}, {mask = t}, {mask = 5}, {bias = t}, {bias = "x"}, {causal = true}} do
      assert.falsy(core.has_values(no))
    end
    assert.is_false(core.has_values())
    assert.is_false(core.has_values(5))
    assert.is_false(core.has_values({}, {mask = {}}))
  end)
end)


describe("heed.core.with_generators", function()
  local function drawn() return heed.rand({3}, {device = "cpu"}):totable() end

  it("draws from other states, gives what they became, and puts the own ones back", function()
    heed.manual_seed(1)
    local wanted = drawn()
    heed.manual_seed(2)
    local own = drawn()
    heed.manual_seed(2)
    local left, values, more = core.with_generators({rng = core.rng_seeded(1)}, function(...)
      return drawn(), ...
    end, 7)
    assert.same(wanted, values)
    assert.equal(7, more)
    assert.same(own, drawn())
    heed.manual_seed(1)
    drawn()
    assert.is_true(left:equal(heed.rng_state()))
    heed.manual_seed(2)
    local before = heed.rng_state()
    assert.is_false(pcall(core.with_generators, {rng = core.rng_seeded(1)}, function()
      drawn()
      error "mine"
    end))
    assert.is_true(before:equal(heed.rng_state()))
    assert.equal(2, select("#", core.with_generators({other = 5, [1] = 6}, drawn)))
  end)

  it("refuses other states before it calls", function()
    local called = 0
    local function f() called = called + 1 end
    for text, states in pairs{
      ["a uint8 tensor of %d+ elements expected, got a tensor of shape %(3%) of uint8"] =
        {rng = uint8(3)},
      ["a uint8 tensor of %d+ elements expected, got a tensor of shape %(2%) of int64"] =
        {rng = int64(2)},
      ["a tensor expected, got 5"] = {rng = 5},
      ["the name of a device expected, got 'a name that is too long'"] =
        {["rng.a name that is too long"] = int64(2)},
      ["the name of a device expected, got 'abcdefghijklmnop'"] =
        {["rng.abcdefghijklmnop"] = int64(2)},
      ["an int64 tensor of 2 elements expected, got a tensor of shape %(3%)"] =
        {["rng.cuda:0"] = int64(3)},
      ["an int64 tensor of 2 elements expected, got a tensor of shape %(2%)"] =
        {["rng.abcdefghijklmno"] = uint8(2)},
    } do
      assert.matches("rng_state: " .. text, message(core.with_generators, states, f))
    end
    assert.matches("table expected", message(core.with_generators, 5, f))
    assert.matches("a function expected, got 5", message(core.with_generators, {}, 5))
    assert.equal(0, called)
    assert.matches("a uint8 tensor of %d+ elements expected", message(heed.rng_state, uint8(3)))
  end)
end)


describe("heed.core.check_entries and check_room", function()
  it("let pass what fits", function()
    core.check_entries("f", 1 << 24, "words")
    core.check_room("f", 1, "words")
    assert.matches("f: words: at most 16777216 entries in all tables expected, got 16777217$",
                   message(core.check_entries, "f", (1 << 24) + 1, "words"))
    assert.matches("entries in all tables expected, got 9223372036854775807$",
                   message(core.check_entries, "f", 1e300, "words"))
    assert.matches("f: memory limit of .* in use, words needs 1.0 PiB more$",
                   message(core.check_room, "f", 1 << 50, "words"))
  end)
end)


describe("heed.core.write_file and read_file", function()
  it("refuse what is no path, and no parts of a file", function()
    local path = os.tmpname()
    for _, name in ipairs{"read_file", "write_file"} do
      assert.matches(name .. ": a path expected, got a table", message(core[name], {}, {}))
      assert.matches(name .. ": the path holds a zero byte", message(core[name], "a\0b", {}))
    end
    assert.matches("write_file: a list of strings and tensors expected",
                   message(core.write_file, path, 5))
    for _, bad in ipairs{5, {}, float(2, 2):t()} do
      assert.matches("write_file: a list of strings and dense tensors on the CPU expected",
                     message(core.write_file, path, {"a", bad}))
    end
    assert.is_true(core.write_file(path, {"ab", float(0), "", uint8(2)}))
    local file <close> = assert(io.open(path, "rb"))
    assert.equal("ab\0\0", file:read "a")
    os.remove(path)
  end)
end)


describe("heed.core.called", function()
  it("calls what can be called alone", function()
    for _, bad in ipairs{3, "f", {}} do
      assert.matches("a function expected, got ", message(core.called, "name", bad), 1, true)
    end
    assert.matches("a function expected, got nothing", message(core.called, "name"), 1, true)
    assert.same({4, 5}, {core.called("name", function(...) return ... end, 4, 5)})
    local object = setmetatable({}, {__call = function(_, x) return x end})
    assert.equal(6, core.called("name", object, 6))
  end)
end)


-- A parameter of one number, with a gradient or without.
local function leaf(value, gradient)
  local p = heed.tensor({value}, {requires_grad = true, device = "cpu"})
  if gradient then p.grad = heed.tensor({gradient}, {device = "cpu"}) end
  return p
end


describe("heed.core.optim_step", function()
  local step = core.optim_step

  it("makes any number of steps, or none where a gradient is missing", function()
    for n = 0, 9 do
      local steps, ps = {}, {}
      for k = 1, n do
        ps[k] = leaf(k + 0.0, 2.0)
        table.move({"SGD", {ps[k]}, false, {}, {lr = 0.5}, 1}, 1, 6, #steps + 1, steps)
      end
      assert.is_true(step(steps))
      for k = 1, n do
        assert.equal(k - 1, ps[k]:item())
        assert.equal(2, steps[6 * k])
      end
      if n > 0 then
        ps[n].grad = nil
        local t = {a = 1}
        assert.is_false(step(steps, {t, "a", 2}))
        assert.equal(1, t.a)
        for k = 1, n do
          assert.equal(k - 1, ps[k]:item())
          assert.equal(2, steps[6 * k])
        end
      end
    end
    assert.is_false(step{"SGD", {5}, false, {}, {lr = 1}, 1})
  end)

  it("takes gradients beside the parameters, whose count stays", function()
    local p = leaf(1.0, 8.0)
    local steps = {"SGD", {p}, {heed.tensor({4.0}, {device = "cpu"})}, {}, {lr = 0.5}, 1}
    assert.is_true(step(steps))
    assert.equal(-1, p:item())
    assert.equal(1, steps[6])
  end)

  it("writes targets and fields behind the steps", function()
    local p, q, t = leaf(1.0), leaf(3.0), {a = 1, b = 2}
    assert.is_true(step({}, {t, "a", 5, t, "b", 6}, {p, q}, {leaf(7.0), leaf(9.0)}))
    assert.same({7, 9, 5, 6}, {p:item(), q:item(), t.a, t.b})
  end)

  it("refuses what is no list of steps, of fields, or of targets", function()
    local p = leaf(1.0, 1.0)
    local function refused(wanted, ...)
      assert.matches(wanted, message(step, ...), 1, true)
      assert.equal(1, p:item())
    end
    local function one(changes)
      local list = {"SGD", {p}, false, {}, {lr = 0.5}, 1}
      for i, value in pairs(changes) do list[i] = value end
      return list
    end
    assert.is_true(step(one{[2] = {}, [4] = {{}, {}, {}}}))
    refused("step: at most 3 states expected, got 4", one{[4] = {{}, {}, {}, {}}})
    refused("invalid option 'SGO'", one{[1] = "SGO"})
    for _, i in ipairs{2, 4, 5} do refused("table expected, got number", one{[i] = 7}) end
    refused("argument 'step': a whole number expected, got the string '1'", one{[6] = "1"})
    refused("argument 'lr': a number expected, got the string 'a'", one{[5] = {lr = "a"}})
    refused("step: a tensor expected, got 5", one{[3] = {5}})
    refused("step: a tensor expected, got 5", one{[4] = {{5}}})
    refused("table expected", 5)
    refused("#2 to ", {}, 5)
    refused("step: a key that is there expected", {}, {{}, "a", 1})
    refused("table expected, got number", {}, {5, "a", 1})
    refused("step: lists of one length expected", {}, nil, {p}, {})
    refused("step: lists of one length expected", {}, nil, {}, {p})
    refused("#4 to ", {}, nil, {p})
    refused("#3 to ", {}, nil, 5, {p})
  end)
end)


describe("heed.core.commit", function()
  local commit = core.commit

  it("writes by copying, by going along, by a factor", function()
    local p, from = leaf(2.0), leaf(6.0)
    commit("f", {targets = {p}, operands = {from}})
    assert.equal(6, p:item())
    commit("f", {targets = {p}, op = "mul", number = 2})
    assert.equal(12, p:item())
    commit("f", {targets = {p}, operands = {from}, op = "lerp", number = 0.25})
    assert.equal(10.5, p:item())
  end)

  it("reads all operands as they were before", function()
    local p, q = leaf(1.0), leaf(2.0)
    commit("f", {targets = {p, q}, operands = {q, p}})
    assert.same({2, 1}, {p:item(), q:item()})
    commit("f", {targets = {p, q}, operands = {q, p}, op = "lerp", number = 0.5})
    assert.same({1.5, 1.5}, {p:item(), q:item()})
  end)

  it("gives tensors what others are, with gradients or none, and fields values", function()
    local p, q, t = leaf(2.0, 1.0), leaf(3.0, 1.0), {a = 1}
    commit("f", {takers = {p, q}, givers = {leaf(5.0), leaf(6.0)},
                 gradients = {leaf(7.0):detach(), false}, fields = {t, "a", 9}})
    assert.same({5, 6, 7, 9}, {p:item(), q:item(), p.grad:item(), t.a})
    assert.is_nil(q.grad)
    commit("f", {takers = {p}})
    assert.is_nil(p.grad)
  end)

  it("makes changes for a call, which end with it, however it ends", function()
    local p, during, t = leaf(1.0), nil, {a = 1}
    local on = {targets = {p}, operands = {leaf(5.0)}, fields = {t, "a", 5}}
    local back = {targets = {p}, operands = {leaf(1.0)}, fields = {t, "a", 1}}
    local function f(...)
      during = {p:item(), t.a}
      return ...
    end
    local function both() return {p:item(), t.a} end
    assert.same({7, nil, 8}, {core.commit_during("f", on, back, f, 7, nil, 8)})
    assert.same({{5, 5}, {1, 1}}, {during, both()})
    assert.matches("mine", message(core.commit_during, "f", on, back, error, "mine"))
    assert.same({1, 1}, both())
    local waits = coroutine.wrap(function()
      return core.commit_during("f", on, back, coroutine.yield, 3)
    end)
    assert.same({3, {5, 5}}, {waits(), both()})
    assert.same({4, {1, 1}}, {waits(4), both()})
    local left = coroutine.create(function() core.commit_during("f", on, back, coroutine.yield) end)
    coroutine.resume(left)
    assert.same({5, 5}, both())
    coroutine.close(left)
    assert.same({1, 1}, both())
  end)

  it("refuses other words, and lists that do not go together", function()
    local p = leaf(1.0)
    local function refused(wanted, changes)
      assert.matches(wanted, message(commit, "f", changes), 1, true)
    end
    refused("an unknown kind of changes: the string 'target'", {target = {p}})
    refused("an unknown kind of changes: 1", {5})
    for _, name in ipairs{"targets", "operands", "takers", "givers", "gradients", "fields"} do
      refused("table expected, got number", {[name] = 5})
    end
    local two, one = {p, p}, {p}
    refused("lists of one length expected", {targets = two, operands = one})
    refused("lists of one length expected", {operands = one})
    refused("lists of one length expected", {takers = two, givers = one})
    refused("lists of one length expected", {takers = two, gradients = one})
    refused("invalid option 'add'", {targets = one, operands = one, op = "add"})
    refused("a tensor expected, got 5", {targets = {5}, operands = one})
    refused("f: ", {targets = one, operands = {heed.ones({2}, {device = "cpu"})}})
    refused("table expected", 5)
    assert.matches("string expected", message(commit, {}))
    for _, bad in ipairs{5, "f", {}} do
      assert.matches("a function expected, got ", message(core.commit_during, "f", {}, {}, bad),
                     1, true)
    end
  end)
end)


describe("heed.core.pass", function()
  it("has no stamp where no module's call runs, at the bottom of a coroutine too", function()
    local function pass(since) return (core.pass(since)) end
    heed.nn.Linear(2, 2)(heed.ones(2))           -- modules have told the core of their calls
    assert.is_nil(pass(0))
    assert.is_nil(coroutine.wrap(pass)(0))
    assert.is_nil(coroutine.wrap(core.pass)(0))
  end)
end)


describe("metatables of objects of heed.core", function()
  it("are hidden from scripts", function()
    local tokens = assert(heed.tokenizer.load "spec/golden/tokenizers/bpe_gpt2").native
    for _, object in ipairs{tokens, core.text.stream(true), heed.zeros(2)} do
      assert.is_false(getmetatable(object))
    end
  end)
end)


describe("heed.core.png_rows", function()
  it("fills bytes of rows and their filters alone", function()
    local wanted = "uint8 of rows * (row + 1) elements expected"
    for _, bad in ipairs{
      {uint8(5), 2, 2, 1}, {uint8(7), 2, 2, 1}, {int64(6), 2, 2, 1}, {float(6), 2, 2, 1},
      {uint8(6), 0, 5, 1}, {uint8(6), -2, 2, 1}, {uint8(6), 2, 0, 1}, {uint8(6), 6, 0, 1},
      {uint8(6), 2, 2, 0}, {uint8(2, 3):t(), 2, 2, 1}, {uint8(6), 1 << 62, 2, 1},
    } do
      assert.matches(wanted, message(core.png_rows, bad[1], "", table.unpack(bad, 2)), 1, true)
    end
    for _, good in ipairs{{6, 2, 2, 1}, {3, 1, 2, 1}, {4, 2, 1, 1}, {2, 1, 1, 9}} do
      assert.is_nil((core.png_rows(uint8(good[1]), "", table.unpack(good, 2))))
    end
  end)
end)


describe("heed.core.vectors", function()
  local kind, DIM <const>, N <const>, Q <const>, K <const> = "float32", 4, 3, 2, 2

  -- The arguments of a good call, with others at some positions.
  local function call(changes)
    local arguments = {
      kind, DIM, K, N, float(N, DIM), nil, Q, float(Q, DIM), nil, nil, int64(Q, K), float(Q, K),
    }
    for i, value in pairs(changes) do arguments[i] = value end
    return core.vectors.nearest(table.unpack(arguments, 1, 12))
  end

  it("reads and fills memory that is large enough alone", function()
    call{}
    call{[3] = N, [11] = int64(Q, N), [12] = float(Q, N)}
    call{[3] = 0}
    local large = "a dense tensor on the CPU that is large enough expected"
    for i, bad in pairs{
      [5] = float(N * DIM - 1), [6] = float(N - 1), [8] = float(Q * DIM - 1), [9] = float(Q - 1),
      [10] = float(Q * DIM - 1), [11] = int64(Q * K - 1), [12] = float(Q * K - 1),
    } do
      assert.matches(large, message(call, {[i] = bad}), 1, true)
      assert.matches(large, message(call, {[i] = ("x"):rep(1000)}), 1, true)
    end
    assert.matches(large, message(call, {[7] = -1}), 1, true)
    for _, dim in ipairs{0, -1, (1 << 16) + 1} do
      assert.matches("from 1 to 65536 numbers of a row expected", message(call, {[2] = dim}))
    end
    for _, k in ipairs{-1, N + 1} do
      assert.matches("at most as many as there are rows expected", message(call, {[3] = k}))
    end
  end)
end)
