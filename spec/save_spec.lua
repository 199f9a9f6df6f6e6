-- Files: saved tensors are read back, a malformed file is refused by name, and an old file stays
-- whole if a new one cannot be written.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"

local pack = string.pack

local made = {}

local function new_path(ending)
  local path = os.tmpname()
  os.remove(path)
  made[#made + 1] = path .. ending
  return path .. ending
end


local function read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end


local function write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end


local function shape_of(tensor)
  return table.move(tensor.shape, 1, tensor:dim(), 1, {})
end


local function assert_same(wanted, found)
  assert.are.equal(wanted.dtype, found.dtype)
  assert.are.same(shape_of(wanted), shape_of(found))
  assert.are.equal(wanted:data(), found:data())
end


-- A safetensors file from its parts.
local function safetensors(header, data)
  local text = type(header) == "string" and header or json.encode(header)
  return pack("<I8", #text) .. text .. (data or "")
end


local function entry(dtype, shape, first, last)
  return {dtype = dtype, shape = json.array(shape), data_offsets = {first, last}}
end


-- An .npy file from its header.
local function npy(header, data, version)
  return "\x93NUMPY" .. string.char(version or 1, 0)
    .. pack((version or 1) == 1 and "<s2" or "<s4", header) .. (data or "")
end


local function descr(text)
  return "{'descr': " .. text .. ", 'fortran_order': False, 'shape': (1,), }"
end


local eight = ("\0"):rep(8)
local whole = entry("F32", {2}, 0, 8)
local huge = 1 << 62

-- Kinds of malformed files: name, ending, bytes, and what the message must say.
local malformed = {
  {"nothing", ".st", "", "header too small"},
  {"a text", ".st", "Dear reader, this is a letter.\n", "no safetensors file"},
  {"a short text", ".st", "hello", "no safetensors file"},
  {"seven bytes", ".st", "\2\0\0\0\0\0\0", "header too small"},
  {"a header above the cap", ".st", pack("<I8", 100000001) .. "{}", "header too large"},
  {"a header of 2^63 bytes", ".st", pack("<i8", math.mininteger) .. "{}", "header too large"},
  {"a header of 2^64 - 1 bytes", ".st", pack("<i8", -1) .. "{}", "header too large"},
  {"a header beyond the file", ".st", pack("<I8", 3) .. "{}", "invalid header length"},
  {"a header of no bytes", ".st", pack("<I8", 0), "invalid header: expected a value"},
  {"a header in another encoding", ".st", safetensors '{"\xff":1}', "invalid UTF-8"},
  {"a header that is no JSON", ".st", safetensors "{a}", "invalid header: expected a name"},
  {"a header that is a list", ".st", safetensors "[]", "an object expected"},
  {"a header that is null", ".st", safetensors "null", "an object expected"},
  {"a header that is a number", ".st", safetensors "1", "an object expected"},
  {"text behind the header", ".st", safetensors "{} x", "expected the end"},
  {"a zero byte behind the header", ".st", safetensors "{}\0", "expected the end"},
  {"a million brackets", ".st", safetensors(("["):rep(1000000)), "nested too deep"},
  {"duplicate names", ".st", safetensors(
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    .. '"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', "ab"), 'duplicate name "a"'},
  {"duplicate keys", ".st", safetensors(
    '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', "a"),
    'duplicate name "dtype"'},
  {"duplicate metadata", ".st", safetensors '{"__metadata__":{},"__metadata__":{}}',
    'duplicate name "__metadata__"'},
  {"an unknown dtype", ".st", safetensors({a = entry("F128", {1}, 0, 16)}, ("\0"):rep(16)),
    'tensor "a" has the unknown dtype "F128"'},
  {"a dtype that int64 cannot hold", ".st", safetensors({a = entry("U64", {1}, 0, 8)}, eight),
    "unknown dtype"},
  {"a dtype that is a number", ".st", safetensors({a = entry(1, {1}, 0, 8)}, eight), "no dtype"},
  {"a tensor that is a number", ".st", safetensors {a = 1}, "no dtype"},
  {"a tensor that is null", ".st", safetensors {a = json.null}, "no dtype"},
  {"no shape", ".st", safetensors({a = {dtype = "U8", data_offsets = {0, 8}}}, eight), "no shape"},
  {"a shape that is an object", ".st",
    safetensors({a = {dtype = "U8", shape = {}, data_offsets = {0, 8}}}, eight), "no shape"},
  {"no offsets", ".st", safetensors({a = {dtype = "U8", shape = {8}}}, eight), "no data_offsets"},
  {"three offsets", ".st",
    safetensors({a = {dtype = "U8", shape = {8}, data_offsets = {0, 8, 8}}}, eight),
    "no data_offsets"},
  {"a fraction as offset", ".st", safetensors({a = entry("U8", {8}, 0, 8.5)}, eight),
    "no data_offsets"},
  {"a negative offset", ".st", safetensors({a = entry("U8", {8}, -8, 0)}, eight),
    "no data_offsets"},
  {"an offset of 2^64", ".st",
    safetensors('{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551616]}}', eight),
    "no data_offsets"},
  {"an offset of 1e400", ".st",
    safetensors('{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,1e400]}}', eight),
    "number out of range"},
  {"a negative size", ".st", safetensors({a = entry("F32", {-1, -2}, 0, 8)}, eight),
    "the size -1"},
  {"a fraction as size", ".st", safetensors({a = entry("F32", {2.0}, 0, 8)}, eight),
    "the size 2.0"},
  {"a string as size", ".st", safetensors({a = entry("F32", {"2"}, 0, 8)}, eight), "the size 2"},
  {"a rank of nine", ".st", safetensors({a = entry("F32", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 4)},
    "\0\0\0\0"), "rank 9"},
  {"a rank of a million", ".st", safetensors('{"a":{"dtype":"F32","shape":[1' .. (",1"):rep(999999)
    .. '],"data_offsets":[0,4]}}', "\0\0\0\0"), "rank 1000000"},
  {"a shape that overflows", ".st", safetensors({a = entry("F32", {huge, huge}, 0, 8)}, eight),
    "overflows"},
  {"a shape that overflows by its dtype", ".st",
    safetensors({a = entry("F64", {huge}, 0, 8)}, eight), "overflows"},
  {"a shape that overflows around a zero", ".st",
    safetensors {a = entry("F32", {huge, 0, huge}, 0, 0)}, "overflows"},
  {"a shape too large for its bytes", ".st", safetensors({a = entry("F32", {3}, 0, 8)}, eight),
    'tensor "a" has 8 bytes, its shape and dtype need 12'},
  {"a shape too small for its bytes", ".st", safetensors({a = entry("F32", {}, 0, 8)}, eight),
    "need 4"},
  {"a declared exabyte", ".st", safetensors({a = entry("U8", {huge}, 0, huge)}, eight),
    "incomplete data"},
  {"a hole at the beginning", ".st", safetensors({a = entry("F32", {1}, 4, 8)}, eight),
    "invalid offset"},
  {"a hole", ".st", safetensors({a = entry("U8", {2}, 0, 2), b = entry("U8", {4}, 4, 8)}, eight),
    'invalid offset: tensor "b" stands at 4 to 8, expected to begin at 2'},
  {"an overlap", ".st",
    safetensors({a = entry("U8", {5}, 0, 5), b = entry("U8", {4}, 4, 8)}, eight), "invalid offset"},
  {"twice the same bytes", ".st", safetensors({a = whole, b = whole}, eight), "invalid offset"},
  {"an end before the beginning", ".st", safetensors({a = entry("U8", {0}, 8, 0)}, eight),
    "invalid offset"},
  {"bytes behind the tensors", ".st", safetensors({a = whole}, eight .. "x"), "surplus data"},
  {"bytes of no tensor", ".st", safetensors("{}", "x"), "surplus data"},
  {"missing bytes", ".st", safetensors({a = whole}, eight:sub(2)), "incomplete data"},
  {"metadata that are a list", ".st", safetensors '{"__metadata__":[]}', "invalid metadata"},
  {"metadata that are null", ".st", safetensors '{"__metadata__":null}', "invalid metadata"},
  {"a number in the metadata", ".st", safetensors '{"__metadata__":{"step":1}}',
    'a string expected for "step"'},
  {"a field of no tensor beside a checksum", ".st",
    safetensors('{"__metadata__":{"heed.crc32":"00000000"},"a":{"dtype":"U8","shape":[1],'
    .. '"data_offsets":[0,1],"odd":[{}]}}', "x"), "a field that is none of the format's"},
  {"a wrong checksum", ".st",
    safetensors({__metadata__ = {["heed.crc32"] = "00000000"}, a = whole}, eight),
    "checksum differs"},
  {"a checksum that is none", ".st",
    safetensors({__metadata__ = {["heed.crc32"] = "\u{1F600}"}, a = whole}, eight),
    "checksum differs"},
  {"a boolean of 2", ".st", safetensors({a = entry("BOOL", {2}, 0, 2)}, "\1\2"),
    "neither 0 nor 1"},

  {"nothing as .npy", ".npy", "", "not an .npy file"},
  {"another file as .npy", ".npy", safetensors "{}", "not an .npy file"},
  {"the magic alone", ".npy", "\x93NUMPY", "header too small"},
  {"no header", ".npy", "\x93NUMPY\1\0\0", "header too small"},
  {"an unknown version", ".npy", npy(descr "'<f4'", "\0\0\0\0", 4), "unknown version 4.0"},
  {"a header beyond the file", ".npy", "\x93NUMPY\1\0\255\255{}", "invalid header length"},
  {"a large header beyond the file", ".npy", "\x93NUMPY\2\0\255\255\255\255{}",
    "invalid header length"},
  {"an empty header", ".npy", npy "  ", "a dictionary expected"},
  {"an unknown type", ".npy", npy(descr "'<c8'", eight), 'unknown dtype "<c8"'},
  {"another byte order", ".npy", npy(descr "'>f4'", "\0\0\0\0"), 'unknown dtype ">f4"'},
  {"Python objects", ".npy", npy(descr "'|O'", eight), "unknown dtype"},
  {"a record", ".npy", npy(descr "[('a', '<f4')]", "\0\0\0\0"), "a string expected"},
  {"code", ".npy", npy(descr "__import__('os').system('true')", "\0\0\0\0"), "a string expected"},
  {"code as shape", ".npy", npy "{'descr': '<f4', 'fortran_order': False, 'shape': (1+1,), }",
    '"," expected'},
  {"an escape", ".npy", npy(descr "'\\x3cf4'", "\0\0\0\0"), "a string expected"},
  {"a missing key", ".npy", npy "{'descr': '<f4', 'shape': (1,), }", 'no key "fortran_order"'},
  {"a key twice", ".npy", npy "{'descr': '<f4', 'descr': '<f4', }", 'duplicate key "descr"'},
  {"an unknown key", ".npy", npy "{'a': 1}", 'unknown key "a"'},
  {"a number as order", ".npy", npy "{'fortran_order': 0}", "True or False"},
  {"a number as shape", ".npy", npy "{'shape': (3)}", "no tuple"},
  {"a list as shape", ".npy", npy "{'shape': [3]}", "a tuple expected"},
  {"a negative size in .npy", ".npy", npy "{'shape': (-1,)}", "a size expected"},
  {"a size of 10^30", ".npy", npy "{'shape': (1000000000000000000000000000000,)}",
    "a size expected"},
  {"two commas", ".npy", npy "{'shape': (1,,)}", "a size expected"},
  {"no comma", ".npy", npy "{'shape': (1 2)}", '"," expected'},
  {"an open dictionary", ".npy", npy "{'shape': (1,), ", "a string expected"},
  {"an open tuple", ".npy", npy "{'shape': (1,", "a size expected"},
  {"text behind the dictionary", ".npy", npy(descr "'<f4'" .. "x", "\0\0\0\0"),
    "text after the dictionary"},
  {"an .npy shape that overflows", ".npy",
    npy "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
    "overflows"},
  {"an .npy rank of nine", ".npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': ("
    .. ("1,"):rep(9) .. "), }", "\0"), "rank 9"},
  {"missing .npy bytes", ".npy", npy(descr "'<f4'", "\0\0\0"),
    "the array has 3 bytes, its shape and dtype need 4"},
  {"bytes behind an array", ".npy", npy(descr "'<f4'", "\0\0\0\0\0"), "has 5 bytes"},
  {"an .npy boolean of 2", ".npy", npy(descr "'|b1'", "\2"), "neither 0 nor 1"},
}

local dtypes = {
  float32 = 4, float64 = 8, float16 = 2, bfloat16 = 2, int64 = 8, uint8 = 1, bool = 1,
}
local shapes = {{}, {1}, {3}, {2, 3}, {2, 1, 3}, {0}, {2, 0, 3}, {1, 1, 1, 1, 1, 1, 1, 2}}

-- A tensor whose bytes count upwards, or alternate 0 and 1 for bools.
local function counting(dtype, shape)
  local n = dtypes[dtype]
  for _, size in ipairs(shape) do n = n * size end
  local bytes = {}
  for k = 1, n do bytes[k] = string.char(dtype == "bool" and k % 2 or k % 61) end
  return heed.frombytes(table.concat(bytes), shape, {dtype = dtype})
end


local function some_tensors()
  local tensors = {}
  for dtype in pairs(dtypes) do
    for k, shape in ipairs(shapes) do
      tensors[("%s.%d"):format(dtype, k)] = counting(dtype, shape)
    end
  end
  return tensors
end


teardown(function()
  for _, path in ipairs(made) do os.remove(path) end
end)


describe("a safetensors file", function()
  it("keeps every dtype and shape", function()
    local path, tensors = new_path ".safetensors", some_tensors()
    assert.is_true(heed.save(path, tensors))
    local loaded = assert(heed.load(path))
    for name, tensor in pairs(tensors) do assert_same(tensor, loaded[name]) end
    for name in pairs(loaded) do assert.is_truthy(tensors[name]) end
  end)

  it("is the same byte for byte when it is saved again", function()
    local a, b = new_path ".safetensors", new_path ".safetensors"
    assert(heed.save(a, some_tensors(), {step = "3", ["né\n"] = "\0"}))
    assert(heed.save(b, heed.load(a)))
    assert.are.equal(read(a), read(b))
  end)

  it("keeps metadata and names of any letters", function()
    local path = new_path ".safetensors"
    local names = {"", "a b", "日本", '"\\\0\n', ("x"):rep(10000)}
    local tensors = {}
    for k, name in ipairs(names) do tensors[name] = heed.tensor {k} end
    assert(heed.save(path, tensors, {[""] = "", ["a\0b"] = "€"}))
    local loaded, metadata = heed.load(path)
    for _, name in ipairs(names) do assert_same(tensors[name], loaded[name]) end
    assert.are.same({[""] = "", ["a\0b"] = "€"}, metadata)
  end)

  it("may hold nothing", function()
    local path = new_path ".safetensors"
    assert(heed.save(path, {}))
    local loaded, metadata = heed.load(path)
    assert.are.same({{}, {}}, {loaded, metadata})
  end)

  it("has large elements first and its data at a multiple of 8", function()
    local path = new_path ".safetensors"
    assert(heed.save(path, {b = heed.tensor {1.5}, a = counting("uint8", {3}),
      c = counting("float64", {1})}))
    local file = read(path)
    local length = string.unpack("<I8", file)
    local header = json.decode(file:sub(9, 8 + length))
    assert.are.equal(0, length % 8)
    assert.are.same({0, 8}, {table.unpack(header.c.data_offsets)})
    assert.are.same({8, 12}, {table.unpack(header.b.data_offsets)})
    assert.are.same({12, 15}, {table.unpack(header.a.data_offsets)})
  end)

  it("of another program is read", function()
    local path = new_path ".safetensors"
    write(path, safetensors(' \n{"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8],"note":{}},'
      .. '"a":{"dtype":"U32","shape":[],"data_offsets":[0,4]},'
      .. '"__metadata__":{"format":"pt"}} \t ', "\255\255\255\255\255\255\1\0"))
    local loaded, metadata = heed.load(path)
    assert.are.same({format = "pt"}, metadata)
    assert_same(heed.tensor({-1, 1}, {dtype = "int64"}), loaded.b)
    assert_same(heed.tensor(4294967295, {dtype = "int64"}), loaded.a)
  end)

  it("with small integers gives int64", function()
    local path = new_path ".safetensors"
    for dtype, case in pairs {
      I8 = {"i1", -128}, I16 = {"i2", -32768}, I32 = {"i4", -2147483648},
      U16 = {"I2", 65535}, U32 = {"I4", 4294967295},
    } do
      local data = pack("<" .. case[1], case[2]) .. pack("<" .. case[1], 7)
      write(path, safetensors({x = entry(dtype, {2}, 0, #data)}, data))
      assert_same(heed.tensor({case[2], 7}, {dtype = "int64"}), assert(heed.load(path)).x)
    end
  end)

  it("with one changed byte is refused", function()
    local path = new_path ".safetensors"
    local tensors = {weight = counting("float32", {2, 2}), bias = counting("int64", {1})}
    assert(heed.save(path, tensors, {step = "12"}))
    local file = read(path)
    local first = 8 + string.unpack("<I8", file)
    for k = 1, #file do
      local changed = string.char(file:byte(k) ~ 1)
      write(path, file:sub(1, k - 1) .. changed .. file:sub(k + 1))
      local loaded, why = heed.load(path)
      if k > first then
        assert.is_nil(loaded)
        assert.is_truthy(why:find("checksum differs", 1, true))
      elseif loaded then     -- only the name of the checksum is not covered by it
        assert.is_true(k < file:find("step", 1, true))
        for name, tensor in pairs(tensors) do assert_same(tensor, loaded[name]) end
      end
    end
  end)

  it("that is cut short is refused", function()
    local path = new_path ".safetensors"
    assert(heed.save(path, {a = counting("float32", {3})}))
    local file = read(path)
    for n = 0, #file - 1 do
      write(path, file:sub(1, n))
      local loaded, why = heed.load(path)
      assert.is_nil(loaded)
      assert.is_string(why)
    end
  end)
end)


describe("an .npy file", function()
  it("keeps every dtype and shape", function()
    local path = new_path ".npy"
    for dtype in pairs(dtypes) do
      for _, shape in ipairs(dtype ~= "bfloat16" and shapes or {}) do
        local tensor = counting(dtype, shape)
        assert.is_true(heed.save(path, tensor))
        local loaded, metadata = heed.load(path)
        assert_same(tensor, loaded)
        assert.are.same({}, metadata)
      end
    end
  end)

  it("is what NumPy writes", function()
    local path = new_path ".npy"
    assert(heed.save(path, heed.tensor({{1, 2, 3}, {4, 5, 6}}, {dtype = "int64"})))
    local header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }"
    local bytes = read(path)
    assert.are.equal("\x93NUMPY\1\0\x76\0" .. header, bytes:sub(1, 10 + #header))
    assert.are.equal(128 + 48, #bytes)
    assert.are.equal("\n", bytes:sub(128, 128))
  end)

  it("is read in versions 1 to 3, with keys in any order", function()
    local path = new_path ".npy"
    for version = 1, 3 do
      write(path, npy('{"shape":(2 , ),\n\'fortran_order\' : False , "descr":"<f4"}',
        pack("<ff", 1.5, -2), version))
      assert_same(heed.tensor {1.5, -2}, assert(heed.load(path)))
    end
  end)

  it("with columns first is transposed", function()
    local path = new_path ".npy"
    write(path, npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
      pack("<i4i4i4i4i4i4", 1, 4, 2, 5, 3, 6)))
    local loaded = assert(heed.load(path))
    assert_same(heed.tensor({{1, 2, 3}, {4, 5, 6}}, {dtype = "int64"}), loaded)
  end)

  it("is known by its content too", function()
    local path, other = new_path ".npy", new_path ".bin"
    assert(heed.save(path, heed.tensor {1.5}))
    write(other, read(path))
    assert_same(heed.tensor {1.5}, assert(heed.load(other)))
  end)
end)


describe("load", function()
  it("brings tensors to the device of its option", function()
    local one, many = new_path ".npy", new_path ".safetensors"
    assert(heed.save(one, heed.ones(2)))
    assert(heed.save(many, {a = heed.ones(2), b = heed.zeros(1)}))
    for _, device in ipairs{"cpu", heed.default_device()} do
      assert.equal(device, heed.load(one, {device = device}).device)
      local loaded = heed.load(many, {device = device})
      assert.same({device, device}, {loaded.a.device, loaded.b.device})
    end
  end)

  for _, case in ipairs(malformed) do
    local kind, ending, bytes, message = table.unpack(case)
    it("refuses " .. kind, function()
      local path = new_path(ending)
      write(path, bytes)
      local loaded, why = heed.load(path)
      assert.is_nil(loaded)
      assert.is_truthy(why:find(message, 1, true), why)
      assert.is_truthy(why:find("load: " .. path, 1, true), why)
    end)
  end

  it("takes no more memory than the file asks for", function()
    local path = new_path ".safetensors"
    write(path, safetensors({a = entry("F32", {1 << 40}, 0, 1 << 42)}, eight))
    collectgarbage()
    local before = collectgarbage "count"
    assert.is_nil(heed.load(path))
    assert.is_true(collectgarbage "count" - before < 1024)
  end)

  it("says what is wrong with the path", function()
    for _, path in ipairs {"/nonexistent/a.safetensors", "/nonexistent/a.npy", "/"} do
      local loaded, why = heed.load(path)
      assert.is_nil(loaded)
      assert.is_truthy(why:find(path, 1, true), why)
    end
  end)
end)


describe("save", function()
  local function refuses(message, ...)
    local good, why = pcall(heed.save, ...)
    assert.is_false(good)
    assert.is_truthy(tostring(why):find(message, 1, true), why)
  end

  it("refuses what load would refuse", function()
    local path, t = new_path ".safetensors", heed.tensor {1}
    refuses("__metadata__", path, {__metadata__ = t})
    refuses("UTF-8", path, {["\xff"] = t})
    refuses("strings as names", path, {t})
    refuses("strings as names", path, {[true] = t})
    refuses("a tensor expected", path, {a = 1})
    refuses("metadata", path, {a = t}, {step = 1})
    refuses("metadata", path, {a = t}, {"x"})
    refuses("metadata", path, {a = t}, "x")
    local many = {}
    for i = 1, 16384 do many["m" .. i] = "" end
    local full = new_path ".safetensors"
    assert(heed.save(full, {a = heed.quantize(heed.ones(1, 32), "q8_0")}, many))
    local loaded, metadata = heed.load(full)
    assert.same({"q8_0", many}, {loaded and loaded.a.dtype, metadata})
    many.m0 = ""
    refuses("at most 16384 entries of metadata expected, got 16385", path, {a = t}, many)
    refuses("UTF-8", path, {a = t}, {a = "\xff"})
    refuses("belongs to heed", path, {a = t}, {["heed.crc32"] = "00000000"})
    refuses("tensors by name", path, t)
    refuses("tensors by name", path, nil)
    refuses("got Linear; its tensors are m:state()", path, heed.nn.Linear(2, 2))
    refuses("got Sequential; its", path, heed.nn.Sequential{})
    refuses("m:state()", path, heed.optim.SGD({t:float():requires_grad_()}, {lr = 1}))
    refuses("one tensor expected", new_path ".npy", {a = t})
    local gone = heed.tensor {1}
    gone:release()
    refuses('save: a tensor expected as "a", got a released tensor', path, {a = gone})
    refuses("got a released tensor", new_path ".npy", gone)
    refuses("metadata", new_path ".npy", t, {})
    refuses("bfloat16", new_path ".npy", counting("bfloat16", {2}))
    refuses("path", nil, {a = t})
    refuses("path", "", {a = t})
    refuses("path", "a\0b", {a = t})
    assert.is_nil(io.open(path))
  end)

  it("leaves the old file where the new one cannot be written", function()
    local done, why = heed.save("/nonexistent/a.safetensors", {})
    assert.is_nil(done)
    assert.is_truthy(why:find("/nonexistent/a.safetensors", 1, true), why)
    local path = new_path ".safetensors"
    assert(heed.save(path, {a = heed.tensor {1}}))
    local before = read(path)
    pcall(heed.save, path, {a = heed.tensor {2}, b = 1})
    assert.are.equal(before, read(path))
  end)

  it("does not replace a directory, and leaves nothing behind", function()
    local path = new_path ""
    assert(os.execute("mkdir '" .. path .. "'"))
    assert(os.execute("mkdir '" .. path .. "/a.npy'"))
    local done, why = heed.save(path .. "/a.npy", heed.tensor {1})
    assert.is_nil(done)
    assert.is_string(why)
    local pipe = io.popen("ls -A '" .. path .. "'")
    assert.are.equal("a.npy\n", pipe:read "a")
    pipe:close()
    os.execute("rmdir '" .. path .. "/a.npy'")
  end)

  it("does not replace a pipe or a device, also through a link", function()
    local pipe, link = new_path ".npy", new_path ".npy"
    assert(os.execute(("mkfifo '%s' && ln -s '%s' '%s'"):format(pipe, pipe, link)))
    for _, path in ipairs {pipe, link} do
      local done, why = heed.save(path, heed.tensor {1})
      assert.is_nil(done)
      assert.matches("not a regular file", why)
      assert(os.execute(("test -p '%s'"):format(path)))
    end
  end)

  it("gives a new file the mode of any new file, and keeps that of an old one", function()
    local path, other = new_path ".npy", new_path ""
    local function mode_of(file)
      local pipe = io.popen(("stat -c %%a '%s'"):format(file))
      local mode = pipe:read "l"
      pipe:close()
      return mode
    end
    assert(heed.save(path, heed.tensor {1}))
    assert(io.open(other, "w")):close()
    assert.are.equal(mode_of(other), mode_of(path))
    assert(os.execute(("chmod 604 '%s'"):format(path)))
    assert(heed.save(path, heed.tensor {2}))
    assert.are.equal("604", mode_of(path))
  end)

  it("says that a file is too large for the limit of its process, which goes on", function()
    local path, script = new_path ".npy", new_path ".lua"
    assert(heed.save(path, heed.tensor {1}))
    write(script, ([[
      local heed = require "heed"
      print(heed.save("%s", heed.zeros(1 << 20)))
      print(heed.load("%s"):numel())
    ]]):format(path, path))
    local pipe <close> = assert(io.popen(("ulimit -f 64; lua5.4 %s 2>&1"):format(script)))
    local said = pipe:read "a"
    assert.are.equal(("nil\tsave: %s: cannot write: File too large\n1\n"):format(path), said)
  end)

  it("leaves the process that writes to a pipe which nobody reads", function()
    local said, script = new_path ".txt", new_path ".lua"
    write(script, [[
      local core = require "heed.core"
      local file = core.append_file "/dev/stdout"
      local done, why
      repeat done, why = core.put_file(file, "a line") until not done
      io.stderr:write(why, "\n")
    ]])
    os.execute(("lua5.4 %s 2>%s | true"):format(script, said))
    local file <close> = assert(io.open(said))
    assert.are.equal("cannot write: Broken pipe\n", file:read "a")
  end)

  it("replaces the file that was loaded", function()
    local path = new_path ".safetensors"
    assert(heed.save(path, {a = heed.tensor {1, 2, 3}}))
    local loaded = assert(heed.load(path))
    assert(heed.save(path, {a = loaded.a, b = loaded.a}))
    assert_same(loaded.a, assert(heed.load(path)).b)
  end)
end)


describe("crc32", function()
  it("is the one of the standards", function()
    assert.are.equal(0xCBF43926, core.crc32 "123456789")
    assert.are.equal(0xCBF43926, core.crc32("56789", core.crc32 "1234"))
    assert.are.equal(0, core.crc32 "")
  end)

  it("is the same by eight bytes as by one, and of a tensor as of its bytes", function()
    local bytes = heed.randint(0, 255, {100}, {dtype = "uint8"}):data()
    for from = 1, 9 do
      for to = from - 1, #bytes, 7 do
        local sum = 0
        for i = from, to do sum = core.crc32(bytes:sub(i, i), sum) end
        assert.are.equal(sum, core.crc32(bytes:sub(from, to)))
      end
    end
    local x = heed.arange(20, {device = "cpu"}):reshape(4, 5)
    assert.are.equal(core.crc32(x:data()), core.crc32(x))
    assert.is_false(pcall(core.crc32, x:t()))
    assert.is_false(pcall(core.crc32, nil))
  end)
end)
