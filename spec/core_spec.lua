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
    for _, bad in ipairs{{{0, 1}}, {{1, 4}}, {{3, 1}}, {{1, 2}, {2, 3}}, {{2, 3}, {1, 1}}} do
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
    for _, name in ipairs{"push", "finish"} do
      for _, bad in ipairs{5, {}, tok} do
        assert.matches("a stream expected, got ", message(text[name], tok, bad, 1), 1, true)
      end
    end
    for _, name in ipairs{"feed", "make"} do
      for _, bad in ipairs{5, {}, tok} do
        assert.matches("a trainer expected, got ", message(text[name], bad, "a"), 1, true)
      end
    end
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
    assert.is_nil((core.png_rows(uint8(6), "", 2, 2, 1)))
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
