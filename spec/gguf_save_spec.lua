-- heed.save into GGUF files: tensors of every type, metadata of every type, and what is refused.

local blocks = require "heed.internal.blocks"
local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"

local HERE <const> = "spec/golden/gguf/"
local FILES <const> = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k",
                       "q4_k", "q5_k", "q6_k", "llama"}

local path

before_each(function() path = os.tmpname() .. ".gguf" end)
after_each(function()
  os.remove(path)
  os.remove((path:gsub("%.gguf$", "")))
end)


local function same_tensors(wanted, got)
  for name, t in next, wanted do
    assert.equal(t.dtype, got[name].dtype, name)
    assert.equal(tostring(t.shape), tostring(got[name].shape), name)
    assert.equal(t:contiguous():data(), got[name]:data(), name)
  end
  for name in next, got do assert.is_truthy(wanted[name], name) end
end


describe("heed.save into a GGUF file", function()
  for _, name in ipairs(FILES) do
    it("writes what was loaded: " .. name, function()
      local tensors, metadata, types = assert(heed.load(HERE .. name .. ".gguf"))
      assert.is_true(heed.save(path, tensors, metadata, types))
      for _, mapped in ipairs{false, true} do
        local again, own, own_types = assert(heed.load(path, {mapped = mapped}))
        same_tensors(tensors, again)
        assert.same(metadata, own)
        assert.same(types, own_types)
      end
    end)
  end

  it("writes floats, integers, views and blocks by name", function()
    local x = heed.randn(4, 64)
    local all = {
      x = x, t = x:t(), part = x[{{}, {3, 7}}], one = heed.tensor(2.5), half = x:half(),
      brain = x:to("bfloat16"), double = x:double(), ids = heed.tensor{1, -5, 1 << 40},
      cube = heed.randn(2, 3, 4, 5), ["blk.10.w"] = x[1], ["blk.9.w"] = x[2],
    }
    for name, row in next, blocks do
      if row.written then all[name] = heed.quantize(heed.randn(3, 512), name) end
    end
    all.rows = all.q8_0[{{2, 3}}]
    assert(heed.save(path, all))
    local again, metadata, types = assert(heed.load(path))
    same_tensors(all, again)
    assert.same({}, metadata)
    assert.same({}, types)
    assert.equal(0, #directories.read(path) % 32)
  end)

  it("is laid out as the format has it, byte for byte", function()
    local pack = string.pack
    assert(heed.save(path, {
      ["blk.10.b"] = heed.tensor{3, -4}, ["blk.9.a"] = heed.tensor{{1.5, 2.5, 3.5}},
      c = heed.quantize(heed.zeros(1, 32), "q8_0"),
    }, {b = {"x", "yz"}, a = 7, c = 0.5}))
    local head = "GGUF" .. pack("<I4i8i8", 3, 3, 3)
      .. pack("<s8I4I4", "a", 4, 7) .. pack("<s8I4I4i8s8s8", "b", 9, 8, 2, "x", "yz")
      .. pack("<s8I4f", "c", 6, 0.5)
      .. pack("<s8I4i8i8I4i8", "blk.9.a", 2, 3, 1, 0, 0)
      .. pack("<s8I4i8I4i8", "blk.10.b", 1, 2, 27, 32)
      .. pack("<s8I4i8i8I4i8", "c", 2, 32, 1, 8, 64)
    head = head .. ("\0"):rep(-#head % 32)
    assert.equal(head .. pack("<fff", 1.5, 2.5, 3.5) .. ("\0"):rep(20) .. pack("<i8i8", 3, -4)
                 .. ("\0"):rep(16) .. ("\0"):rep(34) .. ("\0"):rep(30), directories.read(path))
  end)

  it("writes metadata of the types that are said, or that hold the values", function()
    local metadata = {
      a = 255, b = -128, c = 65535, d = -32768, e = 7, f = -7, g = 1.5, h = true, i = "text",
      j = math.maxinteger, k = math.mininteger, l = 0.1, m = "\1\2\255", n = "\128", o = {"x", ""},
      p = {true, false}, q = {{1, 2}, {"a"}, {}}, r = {0.5, 2}, s = {}, t = 1 / 0, u = 3,
      v = {-1, 1}, w = {1 << 40}, x = {0.1}, y = "", z = false, A = "18446744073709551615",
      B = {"9223372036854775808", 1, "10000000000000000000"},
    }
    local types = {
      a = "uint8", b = "int8", c = "uint16", d = "int16", j = "uint64", k = "int64", m = "uint8[]",
      n = "int8[]", s = "float64[]", u = "float32", gone = "uint8", A = "uint64", B = "uint64[]",
    }
    assert(heed.save(path, {}, metadata, types))
    local tensors, own, own_types = assert(heed.load(path))
    assert.same({}, tensors)
    metadata.u = 3.0
    assert.same(metadata, own)
    assert.same({
      a = "uint8", b = "int8", c = "uint16", d = "int16", e = "uint32", f = "int32", g = "float32",
      h = "bool", i = "string", j = "uint64", k = "int64", l = "float64", m = "uint8[]",
      n = "int8[]", o = "string[]", p = "bool[]", q = "array[]", r = "float32[]", s = "float64[]",
      t = "float32", u = "float32", v = "int32[]", w = "int64[]", x = "float64[]", y = "string",
      z = "bool", A = "uint64", B = "uint64[]",
    }, own_types)
    assert.equal("float", math.type(own.u))
    assert.truthy(directories.read(path):find(string.pack("<s8I4i8", "A", 10, -1), 1, true))
    assert.truthy(directories.read(path):find(
      string.pack("<i8i8i8", math.mininteger, 1, -8446744073709551616), 1, true))
  end)

  it("lays tensors where the key of alignment says", function()
    assert(heed.save(path, {a = heed.ones(3)}, {}, {["general.alignment"] = "uint64"}))
    assert.is_nil(select(2, heed.load(path))["general.alignment"])   -- the type of no key
    assert(heed.save(path, {a = heed.ones(3), b = heed.ones(5)}, {["general.alignment"] = 256}))
    assert.equal(0, #directories.read(path) % 256)
    local tensors = assert(heed.load(path))
    assert.equal(8, tensors.a:sum():item() + tensors.b:sum():item())
  end)

  it("refuses by name what files cannot hold, and leaves the file", function()
    local x = heed.ones(2)
    assert(heed.save(path, {x = x}))
    local before = directories.read(path)
    local nested = {1}
    for _ = 1, 9 do nested = {nested} end
    local loop = {}
    loop[1] = loop
    for _, case in ipairs{
      {"floats, int64 or blocks expected in a .gguf file, got bool as \"x\"", {x = x:gt(0)}},
      {"got uint8 as \"x\"", {x = x:to("uint8")}},
      {"at least one element expected in a .gguf file, got a tensor of shape (0, 2)",
       {x = heed.zeros(0, 2)}},
      {"at most 4 dimensions", {x = heed.ones(1, 1, 1, 1, 2)}},
      {"UTF-8 of 1 to 63 bytes expected as a tensor's name", {[("n"):rep(64)] = x}},
      {"as a tensor's name in a .gguf file, got \"\"", {[""] = x}},
      {"as a tensor's name in a .gguf file, got 1", {x}},
      {"a tensor expected as \"x\", got 1", {x = 1}},
      {"a table of tensors by name expected", x},
      {"a table expected as metadata, got 1", {}, 1},
      {"a table expected as types of metadata, got the string", {}, {}, "uint8"},
      {"as a key in a .gguf file, got 1", {}, {"a"}},
      {"key \"a\": a number, a boolean, a string or a list expected, got a function", {},
       {a = print}},
      {"key \"a\": values of one type expected", {}, {a = {1, "x"}}},
      {"a list expected, got one with the string 'b' as a key", {}, {a = {1, b = 2}}},
      {"key \"a\": arrays within at most 8 others expected", {}, {a = nested}},
      {"key \"a\": arrays within at most 8 others expected", {}, {a = loop}},
      {"key \"a\": uint8 expected, got 256", {}, {a = 256}, {a = "uint8"}},
      {"key \"a\": uint8 expected, got -1", {}, {a = -1}, {a = "uint8"}},
      {"key \"a\": uint64 expected, got -1", {}, {a = -1}, {a = "uint64"}},
      {"key \"a\": uint64 expected, got the string '18446744073709551616'", {},
       {a = "18446744073709551616"}, {a = "uint64"}},
      {"key \"a\": uint64 expected, got the string '9223372036854775807'", {},
       {a = "9223372036854775807"}, {a = "uint64"}},
      {"key \"a\": uint32 expected, got 1.5", {}, {a = 1.5}, {a = "uint32"}},
      {"key \"a\": float32 expected, got 1e+300", {}, {a = 1e300}, {a = "float32"}},
      {"key \"a\": int32 expected, got the string 'x'", {}, {a = {"x"}}, {a = "int32[]"}},
      {"key \"a\": a list of int32 expected, got the string 'x'", {}, {a = "x"}, {a = "int32[]"}},
      {"key \"a\": a string expected, got 1", {}, {a = 1}, {a = "string"}},
      {"key \"a\": a boolean expected, got 1", {}, {a = 1}, {a = "bool"}},
      {"key \"a\": the type \"uint9\" is not known", {}, {a = 1}, {a = "uint9"}},
      {"key \"a\": the type \"array\" is not known", {}, {a = {1}}, {a = "array"}},
      {"key \"a\": the type \"uint8[][]\" is not known", {}, {a = {{1}}}, {a = "uint8[][]"}},
      {"key \"a\": a list of lists expected, got 1", {}, {a = {1}}, {a = "array[]"}},
      {"key \"a\": the name of a type expected, got 1", {}, {a = 1}, {a = 1}},
      {"key \"general.alignment\": a uint32 of at least 8 expected, got uint32 4", {},
       {["general.alignment"] = 4}},
      {"key \"general.alignment\": a uint32 of at least 8 expected, got uint64 64", {},
       {["general.alignment"] = 64}, {["general.alignment"] = "uint64"}},
      {"key \"general.alignment\": a power of two expected, got 3", {},
       {["general.alignment"] = 3}},
      {"key \"split.count\": 1 expected, since one file is written, got 2", {},
       {["split.count"] = 2}},
    } do
      local why = message(heed.save, path, table.unpack(case, 2, 4))
      assert.is_truthy(why:find(case[1], 1, true), why)
      assert.matches("save: ", why)
      assert.equal(before, directories.read(path))
    end
    assert.matches("metadata have types in a .gguf file alone, got an empty table",
                   message(heed.save, "x.safetensors", {x = x}, {}, {}))
    assert.matches("save", message(heed.save, path, {}, {}, {}, 1))
  end)

  it("takes names of as many bytes as the format and llama.cpp read", function()
    local tensor, key = ("n"):rep(63), ("k"):rep(1 << 16)
    assert(heed.save(path, {[tensor] = heed.ones(2)}, {[key] = "x"}))
    local loaded, metadata = assert(heed.load(path))
    assert.is_truthy(loaded[tensor])
    assert.equal("x", metadata[key])
    assert.matches("UTF%-8 of 1 to 65536 bytes expected as a key",
                   message(heed.save, path, {x = heed.ones(2)}, {[key .. "k"] = "x"}))
  end)

  it("takes no keys and types from metatables that hide", function()
    local function hidden(value)
      return setmetatable({}, {__metatable = false, __index = function(_, key)
        return key ~= "split.count" and value or nil
      end})
    end
    local x, aligned = heed.tensor{1.0, 2, 3}, hidden(64)
    assert.is_true(heed.save(path, {x = x, y = x + 1}, aligned))
    local tensors, metadata = assert(heed.load(path))
    same_tensors({x = x, y = x + 1}, tensors)
    assert.is_nil(metadata["general.alignment"])
    assert.is_true(heed.save(path, {x = x}, {a = 1}, hidden "float64"))
    local _, _, types = assert(heed.load(path))
    assert.equal("uint32", types.a)
  end)
end)
