-- Files under attack: kills, full disks, two processes at once, links, files that shrink or claim
-- terabytes. Afterwards the old or the new file is whole; a failed call gives nil and a message.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"

local LUA = os.getenv "LUA" or "lua5.4"
local PLAIN = (os.getenv "HEED_BUILD" or "release") == "release"

local folder

local function quoted(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function shell(command, ...)
  return os.execute(command:format(...))
end

-- The output of a command.
local function output(command, ...)
  local pipe <close> = assert(io.popen(command:format(...)))
  return pipe:read "a"
end

before_each(function() folder = output("mktemp -d"):match("[^\n]+") end)
after_each(function() shell("rm -r '%s'", folder) end)

local function names() return output("ls -A '%s'", folder) end

local function in_folder(name) return folder .. "/" .. name end

-- The command that runs a script in a process of its own, which finds the module as this one does.
local function apart(script, ...)
  return ("LUA_PATH=%s LUA_CPATH=%s %s -e %s"):format(
    quoted(package.path), quoted(package.cpath), LUA, quoted(script:format(...)))
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(path, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end

-- A safetensors file's beginning, of one tensor of float32.
local function header_of(n, metadata)
  local text = json.encode{
    x = {dtype = "F32", shape = json.array{n}, data_offsets = json.array{0, 4 * n}},
    __metadata__ = metadata,
  }
  return string.pack("<s8", text)
end

-- A file of these bytes, and then zeros that take no place up to a size.
local function sparse(path, bytes, size)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
  file:seek("set", size - 1)
  return file:write("\0") and file:flush() and true
end


local has_strace = shell("strace -o /dev/null true 2>/dev/null")

-- Runs code in a process in which a system call about path, its temporary name or its folder fails;
-- gives its output. Sanitizers cannot look for leaks there.
local function with_fault(fault, path, expression)
  local script = ("local heed = require 'heed' local path = %q print(%s)"):format(path, expression)
  local strace = ("strace -f -o /dev/null -P '%s' -P '%s.heed-tmp' -P '%s' -e inject=%s")
    :format(path, path, folder, fault)
  return output("env ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" LUA_PATH=%s LUA_CPATH=%s "
                .. "%s %s -e %s 2>&1", quoted(package.path), quoted(package.cpath), strace, LUA,
                quoted(script))
end


describe("a save", function()
  it("goes through symbolic links, also to what is not there yet", function()
    local path = in_folder "a.npy"
    assert(shell("cd '%s' && mkdir b c && ln -s ../c/two b/one && ln -s three.npy c/two && ln -s "
                 .. "'%s/b/one' a.npy", folder, folder))
    for i = 1, 2 do
      assert(heed.save(path, heed.tensor{i}))
      assert.equal(i, heed.load(in_folder "c/three.npy"):item())
      assert(shell("test -L '%s' -a -L '%s/b/one' -a -L '%s/c/two'", path, folder, folder))
      assert.equal("three.npy\ntwo\n", output("ls -A '%s/c'", folder))
    end
  end)

  it("refuses links in a circle", function()
    local path = in_folder "a.npy"
    assert(shell("ln -s a.npy '%s'", path))
    local done, why = heed.save(path, heed.tensor{1})
    assert.is_nil(done)
    assert.matches("a.npy: cannot write: Too many levels of symbolic links", why)
  end)

  it("goes through as many symbolic links as a load", function()
    local function link(i) return in_folder(i .. ".npy") end
    assert(heed.save(link(0), heed.tensor{0}))
    for i = 1, 41 do assert(shell("ln -s %d.npy '%s'", i - 1, link(i))) end
    assert(heed.save(link(40), heed.tensor{7}))
    assert.equal(7, heed.load(link(40)):item())
    local done, why = heed.save(link(41), heed.tensor{1})
    assert.is_nil(done)
    assert.matches("Too many levels of symbolic links", why)
    assert.is_nil((heed.load(link(41))))
  end)

  it("removes what a kill left, and leaves nothing itself", function()
    local path = in_folder "a.safetensors"
    local script = "local heed = require 'heed' local x = heed.rand(1 << 20) "
                   .. "for i = 1, 1000 do assert(heed.save(%q, {x = x, y = heed.tensor(i)})) end"
    local newest = 0
    for _ = 1, 4 do
      shell("timeout -s KILL 0.6 sh -c %s 2>/dev/null", quoted("exec env " .. apart(script, path)))
      local found = {}
      for name in names():gmatch("[^\n]+") do found[#found + 1] = name end
      assert.is_true(#found <= 2, names())
      local tensors = heed.load(path)
      if tensors then newest = math.max(newest, tensors.y:item()) end
    end
    assert.is_true(newest > 0 or not PLAIN)
    write(path .. ".heed-tmp", "what a kill left")
    assert(heed.save(path, {x = heed.tensor{1}}))
    assert.equal("a.safetensors\n", names())
  end)

  it("never writes into what another put in its way", function()
    local path, other = in_folder "a.npy", in_folder "other"
    write(other, "precious")
    for _, how in ipairs{"ln", "ln -s"} do
      assert(shell("%s '%s' '%s.heed-tmp'", how, other, path))
      assert(heed.save(path, heed.tensor{1}))
      assert.equal("precious", read(other))
      assert.equal("a.npy\nother\n", names())
    end
    assert(shell("mkdir '%s.heed-tmp'", path))
    local done, why = heed.save(path, heed.tensor{2})
    assert.is_nil(done)
    assert.matches("cannot make a file beside it", why)
    assert.equal(1, heed.load(path):item())
  end)

  it("says which folder is missing", function()
    local done, why = heed.save(in_folder "no/such/a.npy", heed.tensor{2})
    assert.is_nil(done)
    assert.matches("/no/such/a.npy: there is no folder .*/no/such/$", why)
  end)

  it("of two processes to one path at once never leaves a torn file", function()
    local path = in_folder "a.safetensors"
    local script = "local heed = require 'heed' local x = heed.full({1 << 16}, %d) "
                   .. "for i = 1, 150 do assert(heed.save(%q, {x = x})) end"
    assert(heed.save(path, {x = heed.ones(1)}))
    local pipe = io.popen(("(%s) & (%s); a=$?; wait $! && test $a = 0 && echo good")
                          :format(apart(script, 7, path), apart(script, 8, path)))
    for _ = 1, 100 do
      local x = assert(heed.load(path)).x
      assert.is_true(x:eq(x[1]):all())
    end
    assert.equal("good\n", pipe:read "a")
    pipe:close()
    assert.equal("a.safetensors\n", names())
  end)

  it("says so where another process does not end its own", function()
    local path, ready = in_folder "a.npy", in_folder "ready"
    if not shell("flock -n '%s' true 2>/dev/null", folder) then return pending("no flock here") end
    assert(heed.save(path, heed.tensor{1}))
    local other = io.popen(("flock '%s.heed-tmp' sh -c ': >%s; cat'"):format(path, ready), "w")
    while not shell("test -e '%s' || { sleep 0.05; false; }", ready) do end
    local done, why, busy = core.write_file(path, {"new"})
    assert.same({nil, path .. ": another process is writing it", true}, {done, why, busy})
    other:close()                              -- the lock ends with the process
    assert(heed.save(path, heed.tensor{2}))
    assert.equal(2, heed.load(path):item())
    assert.equal("a.npy\nready\n", names())
  end)

  it("writes views as they read", function()
    local path, x = in_folder "a.safetensors", heed.arange(24):reshape(2, 3, 4)
    local views = {
      columns = x:transpose(1, 3), part = x[{2, {2, 3}}], many = x[{{}, {1, 1}}]:expand(2, 3, 4),
      scalar = x[{1, 1}]:select(1, 2),
    }
    assert(heed.save(path, views))
    local found = assert(heed.load(path))
    for name, view in pairs(views) do
      assert.is_true(found[name].shape == view.shape and found[name]:equal(view), name)
    end
  end)

  it("leaves an old file's owner and mode", function()
    if output("id -u") ~= "0\n" then return pending("root alone can give files away") end
    local path = in_folder "a.npy"
    assert(heed.save(path, heed.tensor{1}))
    assert(shell("chown 1:1 '%s' && chmod 640 '%s'", path, path))
    assert(heed.save(path, heed.tensor{2}))
    assert.equal("1 1 640\n", output("stat -c '%%u %%g %%a' '%s'", path))
  end)

  -- Saves over an old file in a process with a fault: its output, and whether the new file is there
  -- now. The file is the new or the old one, whole.
  local function save_with(fault, path)
    assert(heed.save(path, {x = heed.ones(500)}))
    local said = with_fault(fault, path, "heed.save(path, {x = heed.full({1000}, 2)})")
    local x = assert(heed.load(path)).x
    assert.is_true(x:eq(#x == 500 and 1 or 2):all())
    return said, #x == 1000
  end

  for _, fault in ipairs{
    "openat:error=EACCES:when=1", "write:error=ENOSPC:when=1", "write:error=EIO:when=2",
    "write:retval=10:when=2", "fsync:error=EIO:when=1", "fchown:error=EIO:when=1",
    "fchmod:error=EIO:when=1", "rename:error=EACCES:when=1", "fsync:error=EIO:when=2",
  } do
    it("tells what failed, and leaves nothing: " .. fault, function()
      if not has_strace then return pending("strace cannot be used here") end
      local path = in_folder "a.safetensors"
      local said, is_new = save_with(fault, path)
      assert.matches("^nil\tsave: .*a.safetensors: ", said)
      assert.equal("a.safetensors\n", names())
      assert.equal(fault == "fsync:error=EIO:when=2", is_new)     -- the folder's, after the rename
    end)
  end

  it("that is killed at any of its system calls keeps the old file or has the new one", function()
    if not has_strace then return pending("strace cannot be used here") end
    local path, kills = in_folder "a.safetensors", 0
    for _, name in ipairs{"readlink", "openat", "flock", "newfstatat", "write", "fsync", "fchown",
                          "fchmod", "rename", "close"} do
      local when = 1
      while save_with(("%s:signal=KILL:when=%d"):format(name, when), path) ~= "true\n" do
        when, kills = when + 1, kills + 1
        assert.is_true(when < 20)
        assert.is_true(select(2, names():gsub("\n", "")) <= 2, names())
      end
    end
    assert.is_true(kills > 15, kills)
    assert.equal("a.safetensors\n", names())
  end)
end)


describe("a load", function()
  it("is not disturbed by signals, and tells what cannot be read", function()
    if not has_strace then return pending("strace cannot be used here") end
    local path = in_folder "a.safetensors"
    assert(heed.save(path, {x = heed.ones(500)}))
    local expression = "assert(heed.load(path)).x:sum():item()"
    assert.equal("500.0\n", with_fault("pread64:error=EINTR:when=1..3", path, expression))
    for when = 1, 3 do
      assert.matches("load: .*a.safetensors: .*cannot read: Input/output error",
                     with_fault("pread64:error=EIO:when=" .. when, path, expression))
    end
  end)

  it("of a file that claims a terabyte, and has it, gives nil and a message", function()
    local path, n = in_folder "a.safetensors", 1 << 38
    local header = header_of(n)
    if not sparse(path, header, #header + 4 * n) then return pending("no room for holes") end
    local limit = heed.memory().limit
    heed.memory{limit = 1 << 30}
    local found, why = heed.load(path)
    heed.memory{limit = limit}
    assert.is_nil(found)
    assert.matches('a.safetensors: tensor "x": memory limit of', why)
    header = "\x93NUMPY\1\0" .. string.pack("<s2",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (" .. n .. ",), }")
    sparse(path, header, #header + 4 * n)
    heed.memory{limit = 1 << 30}
    found, why = heed.load(path)
    heed.memory{limit = limit}
    assert.is_nil(found)
    assert.matches("a.safetensors: the array: memory limit of", why)
  end)

  it("whose header, texts or lists are beyond the limit gives nil and a message", function()
    local path, limit = in_folder "a.gguf", heed.memory().limit
    local key = "GGUF" .. string.pack("<I4i8i8s8", 3, 0, 1, "a key")
    local files = {
      ["memory limit of 64.0 MiB.*a part of the file"] = string.pack("<i8", 90000000),
      ["a part of the file needs 8.0 GiB"] = key .. string.pack("<I4i8", 8, 1 << 32),
      ['key "a key" needs 64.0 GiB'] = key .. string.pack("<I4I4i8", 9, 4, 1 << 32),
      ["a key: UTF%-8 of 1 to 65536 bytes expected, got 4294967296 bytes"] =
        "GGUF" .. string.pack("<I4i8i8i8", 3, 0, 1, 1 << 32),
    }
    for message, bytes in pairs(files) do
      if not sparse(path, bytes, 1 << 40) then return pending("no room for holes") end
      heed.memory{limit = 64 << 20}
      local found, why = heed.load(path)
      heed.memory{limit = limit}
      assert.is_nil(found)
      assert.matches(message, why)
    end
  end)

  -- The peak memory of this process, in kilobytes.
  local function peak()
    return tonumber(read("/proc/self/status"):match("VmHWM:%s*(%d+)"))
  end

  it("refuses a malformed file after its header, whatever its size", function()
    local path = in_folder "a.safetensors"
    local files = {
      ["need 400"] = header_of(100):gsub("%[0,400%]", "[0,404]"),
      ["header too large"] = string.pack("<I8", 1 << 40),
      ["invalid header"] = string.pack("<s8", "{}}"),
      ["unknown version"] = "\x93NUMPY\9\0xxxx",
      ["a dictionary expected"] = "\x93NUMPY\1\0\2\0xx",
    }
    heed.load(path)
    local before = peak()
    for message, bytes in pairs(files) do
      if not sparse(path, bytes, 1 << 40) then return pending("no room for holes") end
      local found, why = heed.load(path)
      assert.is_nil(found)
      assert.matches(message, why, 1, true)
    end
    assert.is_true(peak() - before < 64 * 1024)
  end)

  if PLAIN then                       -- sanitizers take memory of their own
    it("and a save take hardly more memory than the file has bytes", function()
      local path = in_folder "a.safetensors"
      local script = [[
        local heed = require "heed"
        local function peak()
          for line in io.lines "/proc/self/status" do
            local n = line:match("VmHWM:%%s*(%%d+)")
            if n then return n * 1024 end
          end
        end
        local tensors, before = {}, peak()
        if arg[1] == "save" then
          for i = 1, 8 do tensors["x" .. i] = heed.ones(1 << 22) end
          assert(heed.save(%q, tensors))
        else
          tensors = assert(heed.load(%q))
        end
        print((peak() - before) / (1 << 27))
      ]]
      for _, what in ipairs{"save", "load"} do
        local taken = tonumber(output("%s", apart("arg = {%q} " .. script, what, path, path)))
        assert.is_true(taken > 0.9 and taken < 1.15, what .. " takes " .. taken)
      end
    end)
  end

  it("counts against the memory limit", function()
    local path = in_folder "a.safetensors"
    assert(heed.save(path, {a = heed.ones(1 << 20), b = heed.ones(1 << 20)}))
    collectgarbage()
    local limit = heed.memory().limit
    heed.memory{limit = heed.memory().live + heed.memory().other + (6 << 20)}
    local found, why = heed.load(path, {device = "cpu"})
    heed.memory{limit = limit}
    assert.is_nil(found)
    assert.matches('load: .*a.safetensors: tensor "b": memory limit of', why)
    collectgarbage()
    assert.is_truthy(heed.load(path))
  end)

  it("of a file that shrinks while it is read gives nil and a message", function()
    local path, original = in_folder "a.safetensors", core.file_tensor
    finally(function() core.file_tensor = original end)
    for _, metadata in ipairs{false, {note = "x"}} do
      if metadata then assert(heed.save(path, {x = heed.ones(1000)}, metadata))
      else write(path, header_of(1000) .. ("\0"):rep(4000)) end
      function core.file_tensor(...)
        write(path, read(path):sub(1, 3000))
        return original(...)
      end
      local found, why = heed.load(path)
      core.file_tensor = original
      assert.is_nil(found)
      assert.matches('tensor "x": cannot read: the file became shorter', why)
    end
  end)

  it("compares the checksum of heed's own files, unless it shall not", function()
    local path = in_folder "a.safetensors"
    assert(heed.save(path, {x = heed.ones(1000)}, {note = "n"}))
    local bytes = read(path)
    write(path, bytes:sub(1, -2) .. "\1")
    local found, why = heed.load(path)
    assert.is_nil(found)
    assert.matches("checksum differs: .*{verify = false} loads it", why)
    local metadata
    found, metadata = heed.load(path, {verify = false})
    assert.equal(1000, #found.x)
    assert.same({note = "n"}, metadata)
    assert.error_matches(function() heed.load(path, {verify = 1}) end,
                         "load: a boolean expected as option verify, got 1")
  end)

  it("leaves no name of a save for the failures of later calls", function()
    local x = heed.ones(2, 3)
    assert(heed.save(in_folder "a.safetensors", {x = x}))
    assert.error_matches(function() x:matmul(x) end, "^matmul: ")
  end)

  it("does not sum files of other programs", function()
    local path, original, sums = in_folder "a.safetensors", core.file_sum, 0
    finally(function() core.file_sum = original end)
    function core.file_sum(...)
      sums = sums + 1
      return original(...)
    end
    write(path, header_of(2, {format = "pt"}) .. ("\0"):rep(8))
    assert(heed.load(path))
    assert.equal(0, sums)
    assert(heed.save(path, {x = heed.ones(2)}))
    assert(heed.load(path))
    assert.equal(2, sums)
  end)

  it("tells a missing file from one that cannot be read", function()
    local path = in_folder "a.safetensors"
    local found, why, missing = heed.load(path)
    assert.is_nil(found)
    assert.matches("load: .*a.safetensors: cannot open: No such file or directory", why)
    assert.is_true(missing)
    for _, command in ipairs{"ln -s a.safetensors '%s'", "mkdir '%s'", "mkfifo '%s'", ": >'%s'"} do
      assert(shell("rm -rf '%s'; " .. command, path, path))
      found, why, missing = heed.load(path)
      assert.is_nil(found)
      assert.matches("load: .*a.safetensors: ", why)
      assert.is_falsy(missing)
    end
  end)
end)


describe("a path", function()
  local data, vocabulary = heed.data, heed.data.chars "a"
  local takes_path = {
    {"data.chars.load", data.chars.load}, {"data.csv", data.csv}, {"data.image", data.image},
    {"data.json_lines", data.json_lines}, {"data.lines", data.lines},
    {"data.words.load", data.words.load}, {"tokenizer.load", heed.tokenizer.load},
    {"load", heed.load},
    {"save", function(path) return heed.save(path, {}) end},
    {"save", function(path) return vocabulary:save(path) end},
  }

  it("that is none is described", function()
    local cases = {
      {3, "3"}, {{}, "an empty table"}, {heed.ones(2), "a tensor of shape (2)"}, {true, "true"},
      {"", "the string ''"}, {"a\0b", "the string 'a\\x00b'"},
    }
    for _, case in ipairs(cases) do
      local path, words = table.unpack(case)
      for _, taker in ipairs(takes_path) do
        local good, why = pcall(taker[2], path)
        assert.is_false(good)
        assert.matches(taker[1] .. ": a path expected, got " .. words, why, 1, true)
      end
    end
  end)

  it("of no file is named by the message", function()
    for _, taker in ipairs(takes_path) do
      local found, why = taker[2] "/nonexistent/a.json"
      assert.is_nil(found, taker[1])
      assert.matches(taker[1] .. ": /nonexistent/a.json: ", why, 1, true)
    end
  end)
end)


describe("a message about a file", function()
  it("names it, however short its name is", function()
    write(in_folder "e", "nothing")
    local script = "local heed = require 'heed' print(select(2, heed.load 'e'))"
    assert.matches("^load: e: header too small: ", output("cd '%s' && LUA_INIT_5_4= %s", folder,
                                                         apart(script)))
  end)
end)


describe("an open file", function()
  it("gives no more than it has", function()
    local path = in_folder "a"
    write(path, "12345678")
    local file <close> = core.open_file(path)
    assert.equal(8, #file)
    assert.equal("345", core.file_bytes(file, 2, 3))
    assert.equal("", core.file_bytes(file, 8, 0))
    assert.is_true(core.file_tensor(file, 0, "x", {2}, "float32"):numel() == 2)
    for _, part in ipairs{{0, 9}, {8, 1}, {-1, 1}, {0, -1}, {9, 0}, {1 << 62, 1 << 62}} do
      assert.is_false(pcall(core.file_bytes, file, table.unpack(part)))
    end
    for _, shape in ipairs{{3}, {1 << 62, 8}, {-1}} do
      assert.is_false(pcall(core.file_tensor, file, 0, "x", shape, "float32"))
    end
    assert.is_false(pcall(core.file_tensor, file, 0, "x", {1}, "float32", "i2"))
  end)

  it("that is closed, or none, is refused", function()
    local path = in_folder "a"
    local closed
    write(path, "12345678")
    do
      local file <close> = core.open_file(path)
      closed = file
    end
    for _, file in ipairs{closed, io.stdout, heed.ones(1), 1} do
      local good, why = pcall(core.file_bytes, file, 0, 1)
      assert.is_false(good)
      assert.matches("an open file expected, got", why)
    end
  end)
end)
