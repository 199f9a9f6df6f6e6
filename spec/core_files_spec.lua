-- Functions of heed.core that reach files, which the Lua half alone calls: what they give, and what
-- they refuse by themselves.

local core = require "heed.core"
local heed = require "heed"
local message = require "spec.support.message"

local paths = {}

local function new_path(text)
  local path = os.tmpname()
  paths[#paths + 1] = path
  if text then
    local file <close> = assert(io.open(path, "wb"))
    assert(file:write(text))
  end
  return path
end

local function opened(text) return assert(core.open_file(new_path(text))) end

local function text_of(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

teardown(function() for _, path in ipairs(paths) do os.remove(path) end end)


describe("an open file", function()
  it("has a length, and gives its bytes from any offset on", function()
    local file = opened "abcdef"
    assert.equal(6, #file)
    assert.equal(0, #opened "")
    assert.equal("", core.file_bytes(opened "", 0, 0))
    for from = 0, 6 do
      for n = 0, 6 - from do
        assert.equal(("abcdef"):sub(from + 1, from + n), core.file_bytes(file, from, n))
      end
    end
    local wanted = "file_bytes: a part of the file's 6 bytes expected, got %d from %d on"
    for _, bad in ipairs{{-1, 1}, {0, -1}, {0, 7}, {7, 0}, {6, 1}, {5, 2}, {1 << 62, 1 << 62}} do
      assert.matches(wanted:format(bad[2], bad[1]),
                     message(core.file_bytes, file, bad[1], bad[2]), 1, true)
    end
    assert.matches("argument 'at': a whole number expected", message(core.file_bytes, file, "0", 1))
    assert.matches("argument 'n': a whole number expected", message(core.file_bytes, file, 0, 1.5))
  end)

  it("is no other thing, and none that was closed", function()
    local file = opened "abc"
    debug.getmetatable(file).__close(file)
    for _, bad in ipairs{file, 5, "x", {}, io.stdout, heed.ones(1)} do
      for _, name in ipairs{"file_bytes", "file_sum", "map_file", "file_tensor", "put_file",
                            "cut_file", "sync_file"} do
        assert.matches(name .. ": an open file expected, got ",
                       message(core[name], bad, 0, "x", {1}, "uint8"))
      end
    end
    assert.matches("an open file expected", message(function() return #file end))
  end)

  it("is a regular one that is there, or there is a message", function()
    local path = os.tmpname()
    os.remove(path)
    for _, open in ipairs{core.open_file, core.read_file} do
      assert.same({nil, path .. ": cannot open: No such file or directory", true}, {open(path)})
      assert.same({nil, "/tmp: not a regular file"}, {open "/tmp"})
      assert.same({nil, "/dev/null: not a regular file"}, {open "/dev/null"})
      local _, why, missing = open(new_path "" .. "/x")
      assert.matches("cannot open: Not a directory$", why)
      assert.is_false(missing)
    end
    assert.equal("a\0b", core.read_file(new_path "a\0b"))
    assert.equal("", core.read_file(new_path ""))
    local long = ("0123456789"):rep(100000)
    assert.equal(long, core.read_file(new_path(long)))
  end)

  it("that became shorter is said to be", function()
    local path = new_path "abcdef"
    local file = assert(core.open_file(path))
    assert(io.open(path, "wb")):close()
    assert.same({nil, "cannot read: the file became shorter"}, {core.file_bytes(file, 0, 6)})
    assert.same({nil, "x: cannot read: the file became shorter"},
                {core.file_tensor(file, 0, "x", {6}, "uint8")})
  end)
end)


describe("a tensor of a file", function()
  local BYTES <const> = "\1\2\3\4\5\6\7\8\255\254\253\252\251\250\249\248"

  it("is read from its offset on, whether the file is mapped or not", function()
    for _, mapped in ipairs{false, true} do
      local file = opened(BYTES)
      if mapped then assert.is_true(core.map_file(file, "name")) end
      for _, dtype in ipairs{"uint8", "int64", "float32", "float64", "float16", "bfloat16"} do
        local size = heed.zeros({1}, {dtype = dtype, device = "cpu"}):data()
        for at = 0, 16 - #size do
          local n = (16 - at) // #size
          local t = assert(core.file_tensor(file, at, "x", {n}, dtype))
          assert.equal(dtype, t.dtype)
          assert.equal(BYTES:sub(at + 1, at + n * #size), t:data())
        end
      end
      local t = assert(core.file_tensor(file, 2, "x", {2, 3}, "uint8"))
      assert.same({{3, 4, 5}, {6, 7, 8}}, t:totable())
      assert.same({}, assert(core.file_tensor(file, 16, "x", {0}, "float32")):totable())
    end
  end)

  it("is made of small integers", function()
    local file = opened(BYTES)
    for widen, wanted in pairs{
      i1 = {8, -1}, u1 = {8, 255}, i2 = {0x0807, -257}, u2 = {0x0807, 0xfeff},
      i4 = {0x08070605, -50462977}, u4 = {0x08070605, 0xfcfdfeff},
    } do
      local bytes = tonumber(widen:sub(2))
      local t = assert(core.file_tensor(file, 8 - bytes, "x", {2}, "int64", widen))
      assert.same(wanted, t:totable(), widen)
      assert.equal("int64", t.dtype)
      assert.same({}, assert(core.file_tensor(file, 16, "x", {0}, "int64", widen)):totable())
    end
    assert.matches("argument 'dtype': int64 expected, got the string 'uint8'",
                   message(core.file_tensor, file, 0, "x", {1}, "uint8", "u1"))
    assert.matches("invalid option 'i8'",
                   message(core.file_tensor, file, 0, "x", {1}, "int64", "i8"))
  end)

  it("has booleans that are 0 or 1", function()
    local file = opened "\0\1\2\255"
    assert.same({false, true},
                assert(core.file_tensor(file, 0, "x", {2}, "bool")):totable())
    for _, mapped in ipairs{false, true} do
      if mapped then assert(core.map_file(file, "name")) end
      assert.same({nil, "x: a boolean is neither 0 nor 1"},
                  {core.file_tensor(file, 0, "x", {3}, "bool")})
      assert.same({nil, "x: a boolean is neither 0 nor 1"},
                  {core.file_tensor(file, 3, "x", {1}, "bool")})
    end
  end)

  it("lies in the file", function()
    local file = opened(BYTES)
    local function refused(text, ...) assert.matches(text, message(core.file_tensor, file, ...)) end
    for _, mapped in ipairs{false, true} do
      if mapped then assert(core.map_file(file, "name")) end
      refused("a part of the file's 16 bytes expected, got 20 from 0 on", 0, "x", {5}, "float32")
      refused("a part of the file's 16 bytes expected, got 16 from 1 on", 1, "x", {2}, "int64")
      refused("a part of the file's 16 bytes expected, got 0 from 17 on", 17, "x", {0}, "uint8")
      refused("a part of the file's 16 bytes expected, got 1 from %-1 on", -1, "x", {1}, "uint8")
      refused("argument 'shape': too many elements", 0, "x", {1 << 32, 1 << 32}, "uint8")
      refused("argument 'shape': too many elements", 0, "x", {1 << 60}, "int64")
      refused("argument 'shape': a table of sizes expected, got 5", 0, "x", 5, "uint8")
      refused("argument 'shape': sizes of at least 0 expected, got %-1", 0, "x", {-1}, "uint8")
      refused("no type is called 'x'", 0, "x", {1}, "x")
    end
  end)

  it("of blocks has whole ones", function()
    local bytes = heed.ones({2, 32}, {device = "cpu"}):to("q8_0"):data()
    local file = opened(bytes .. "x")
    local t = assert(core.file_tensor(file, 0, "x", {2, 32}, "q8_0"))
    assert.equal(bytes, t:data())
    assert.matches("a part of the file's", message(core.file_tensor, file, 2, "x", {2, 32}, "q8_0"))
    assert(core.map_file(file, "name"))
    assert.equal(bytes, assert(core.file_tensor(file, 0, "x", {2, 32}, "q8_0")):data())
  end)

  it("is summed from where the sum begins", function()
    for _, mapped in ipairs{false, true} do
      local text = ("0123456789abcdef"):rep(1 << 17)       -- of several parts
      local file = opened(text)
      if mapped then assert(core.map_file(file, "name")) end
      assert(core.file_tensor(file, 0, "x", {4}, "uint8"))
      assert.equal(0, core.file_sum(file))
      assert.equal(core.crc32 "xy", core.file_sum(file, core.crc32 "xy"))
      assert(core.file_tensor(file, 2, "x", {4}, "uint8"))
      assert.equal(core.crc32 "xy2345", core.file_sum(file))
      assert(core.file_tensor(file, 0, "x", {#text // 8}, "int64"))
      assert.equal(core.crc32(text, core.crc32 "xy2345"), core.file_sum(file))
      assert(core.file_tensor(file, 0, "x", {4}, "int64", "u1"))
      assert.equal(core.crc32("0123", core.crc32(text, core.crc32 "xy2345")), core.file_sum(file))
    end
  end)

  it("that the memory does not hold is a message", function()
    local limit = heed.memory().limit
    local file = opened(("x"):rep(1 << 20))
    heed.memory{limit = 1 << 16}
    local t, why = core.file_tensor(file, 0, "name", {1 << 20}, "uint8")
    heed.memory{limit = limit}
    assert.is_nil(t)
    assert.matches("^name: memory limit of 64.0 KiB: ", why)
    assert.equal(1 << 20, #assert(core.file_tensor(file, 0, "name", {1 << 20}, "uint8")))
  end)
end)


describe("a file that is written at its end", function()
  it("grows with each text, is cut, and is synced", function()
    local path = new_path "old "
    local file = assert(core.append_file(path))
    assert.equal(4, #file)
    assert.is_true(core.put_file(file, "a\0"))
    assert.is_true(core.put_file(file, ""))
    assert.is_true(core.put_file(file, "b"))
    assert.equal("old a\0b", text_of(path))
    assert.is_true(core.sync_file(file))
    for _, n in ipairs{4, 9} do                            -- no more than the file had
      assert.is_true(core.cut_file(file, n))
      assert.equal("old a\0b", text_of(path))
    end
    assert.is_true(core.cut_file(file, 3))
    assert.equal("old", text_of(path))
    assert.is_true(core.put_file(file, "er"))
    assert.equal("older", text_of(path))
    assert.is_true(core.cut_file(file, 0))
    assert.equal("", text_of(path))
    assert.matches("argument 'n': a number of at least 0 expected, got %-1",
                   message(core.cut_file, file, -1))
    assert.matches("string expected", message(core.put_file, file, {}))
  end)

  it("is made, unless there is no place for it", function()
    local path = os.tmpname()
    os.remove(path)
    assert.equal(0, #assert(core.append_file(path)))
    assert.equal("", text_of(path))
    os.remove(path)
    assert.same({nil, path .. "/x: cannot open: No such file or directory"},
                {core.append_file(path .. "/x")})
    assert.same({nil, "/tmp: cannot open: Is a directory"}, {core.append_file "/tmp"})
    local null = assert(core.append_file "/dev/null")
    assert.equal(0, #null)
    assert.is_true(core.put_file(null, "a") and core.sync_file(null))
    assert.matches("append_file: a path expected, got 5", message(core.append_file, 5))
  end)

  it("that only reads takes no text", function()
    assert.same({nil, "cannot write: Bad file descriptor"}, {core.put_file(opened "a", "b")})
    assert.same({nil, "cannot cut: Invalid argument"}, {core.cut_file(opened "ab", 1)})
    assert.is_true(core.cut_file(opened "ab", 2))
  end)
end)


describe("a folder", function()
  it("is made, or is there already", function()
    local path = os.tmpname()
    local wanted = path .. ": cannot make this folder: Not a directory"
    assert.same({nil, wanted}, {core.make_folder(path)})
    os.remove(path)
    assert.is_true(core.make_folder(path))
    assert.is_true(core.make_folder(path))
    assert.same({nil, path .. "/x/y: cannot make this folder: No such file or directory"},
                {core.make_folder(path .. "/x/y")})
    assert.is_true(os.remove(path))
    assert.matches("make_folder: a path expected, got nothing", message(core.make_folder))
  end)
end)
