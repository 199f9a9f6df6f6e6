-- heed.load with mapped = true: tensors that are views of a file. spec/c/mapped.c has threads,
-- several processes and signals.

local core = require "heed.core"
local heed = require "heed"
local nn = require "heed.nn"

local path, copy, device

-- A tensor of another device is a copy.
setup(function()
  device = heed.default_device()
  heed.default_device "cpu"
end)
teardown(function() heed.default_device(device) end)

-- The names of temporary files, whose endings say nothing.
before_each(function() path, copy = os.tmpname(), os.tmpname() end)
after_each(function()
  collectgarbage()
  os.remove(path)
  os.remove(copy)
end)

local function read(name)
  local file <close> = assert(io.open(name, "rb"))
  return file:read "a"
end

local function write(bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end

-- A safetensors file of entries that stand in JSON, and their data.
local function write_entries(entries, data)
  write(string.pack("<s8", entries) .. data)
end

-- Bytes of tensors.
local function live()
  collectgarbage()
  collectgarbage()
  return heed.memory().live
end

-- The file's length becomes 0.
local function cut() write "" end

describe("mapped files", function()
  it("have the values of read ones, for every type", function()
    local given = {scalar = heed.tensor(7), empty = heed.zeros(0, 3), bool = heed.ones(3):gt(0)}
    for _, dtype in ipairs{"float64", "float32", "float16", "bfloat16", "int64", "uint8"} do
      given[dtype] = heed.arange(1, 12):to(dtype):view(3, 4)
    end
    assert(heed.save(path, given))
    local tensors, metadata = heed.load(path, {mapped = true})
    assert.same({}, metadata)
    for name, t in next, given do
      assert.equal(t.dtype, tensors[name].dtype)
      assert.is_true(t:equal(tensors[name]), name)
    end
    for name in next, tensors do assert.is_not_nil(given[name], name) end
  end)

  it("take no memory for their tensors", function()
    local n <const> = 1 << 20
    assert(heed.save(path, {a = heed.ones(n), b = heed.ones(n)}))
    local before = live()
    local tensors = assert(heed.load(path, {mapped = true}))
    assert.is_true(heed.memory().live - before < 4096)
    assert.equal(2 * n, (tensors.a:sum() + tensors.b:sum()):item())
    tensors = assert(heed.load(path))
    assert.is_true(heed.memory().live - before >= 8 * n)
    assert.equal(n, tensors.a:sum():item())
  end)

  it("are read where a view cannot be: small integers, and what is not aligned", function()
    write_entries('{"byte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                  .. '"odd":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},'
                  .. '"small":{"dtype":"I16","shape":[2],"data_offsets":[9,13]},'
                  .. '"flag":{"dtype":"BOOL","shape":[1],"data_offsets":[13,14]}}',
                  string.pack("<Bffi2i2B", 9, 1.5, -2, -3, 4, 1))
    local t = assert(heed.load(path, {mapped = true}))
    assert.same({1.5, -2}, t.odd:totable())
    assert.same({-3, 4}, t.small:totable())
    assert.same({9}, t.byte:totable())
    assert.same({true}, t.flag:totable())
    write_entries('{"flag":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}', "\2")
    local found, why = heed.load(path, {mapped = true})
    assert.is_nil(found)
    assert.matches("a boolean is neither 0 nor 1", why)
  end)

  it("keep their bytes when a tensor is changed, trained or saved", function()
    assert(heed.save(path, {weight = heed.ones(2, 3), bias = heed.zeros(2)}))
    local before = read(path)
    local state = assert(heed.load(path, {mapped = true}))
    state.weight[1] = 5
    state.bias:add_(1)
    assert.same({{5, 5, 5}, {1, 1, 1}}, state.weight:totable())
    local layer = nn.Linear(3, 2)
    layer:load_state(state)
    heed.optim.SGD(layer:parameters(), {lr = 1}):zero_grad()
    layer(heed.ones(1, 3)):sum():backward()
    assert(heed.save(copy, state))
    assert.equal(before, read(path))
    assert.same({{5, 5, 5}, {1, 1, 1}}, heed.load(copy).weight:totable())
    assert(heed.save(path, {weight = heed.zeros(1)}))        -- another file under this name
    assert.same({1, 1}, state.bias:totable())
  end)

  it("are summed only if verify is given as true", function()
    assert(heed.save(path, {x = heed.ones(100000)}))
    local bytes = read(path)
    assert.equal(100000, assert(heed.load(path, {mapped = true, verify = true})).x:sum():item())
    write(bytes:sub(1, -2) .. "\1")
    assert.equal(100000, #assert(heed.load(path, {mapped = true})).x)
    assert.equal(100000, #assert(heed.load(path, {mapped = true, verify = false})).x)
    local found, why = heed.load(path, {mapped = true, verify = true})
    assert.is_nil(found)
    assert.matches("checksum differs", why)
    assert.error_matches(function() heed.load(path, {mapped = 1}) end,
                         "load: a boolean expected as option mapped, got 1")
  end)

  it("may be arrays, and are refused where there is nothing to map", function()
    local array = path .. ".npy"
    finally(function() os.remove(array) end)
    assert(heed.save(array, heed.arange(6):view(2, 3)))
    assert.same({{1, 2, 3}, {4, 5, 6}}, heed.load(array, {mapped = true}):totable())
    write ""
    local found, why = heed.load(path, {mapped = true})
    assert.is_nil(found)
    assert.matches(path .. ".*map: a file that is not empty expected", why)
  end)

  it("are the weights of a model that takes no memory for them", function()
    local qwen <const> = "spec/golden/models/qwen2"
    local before, bytes = live(), 0
    local mapped = assert(heed.models.load(qwen, {mapped = true}))
    for _, t in pairs(mapped:state()) do bytes = bytes + t:numel() * 2 end
    assert.is_true(live() - before < bytes / 2)
    local ids = heed.tensor{{5, 17, 3}}
    assert.is_true(mapped(ids):equal(heed.models.load(qwen)(ids)))
  end)

  it("stop all calls when they become shorter, until they are collected", function()
    assert(heed.save(path, {x = heed.ones(1 << 16), y = heed.ones(4, 4)}))
    local t = assert(heed.load(path, {mapped = true}))
    local row, gone = t.y[2], "became shorter while it was mapped, or its disk fails"
    cut()
    assert.error_matches(function() return t.x:sum() end, "sum: " .. path .. " " .. gone)
    assert.error_matches(function() return t.x[-1] end, "index: .*" .. gone)
    assert.error_matches(function() return row:totable() end, gone)
    assert.error_matches(function() return heed.ones(2) end, "ones: .*" .. gone)
    local saved, why = pcall(heed.save, copy, t)
    assert.is_false(saved)
    assert.matches(gone, why)
    t = nil
    collectgarbage()
    assert.error_matches(function() return heed.ones(2) end, gone)       -- row is a view of it
    row = nil
    collectgarbage()
    assert.is_nil(t or row)
    assert.equal(2, heed.ones(2):sum():item())
  end)

  it("stop what was begun: nothing in place is half done", function()
    assert(heed.save(path, {x = heed.ones(1 << 20)}))
    local t, y = assert(heed.load(path, {mapped = true})), heed.zeros(1 << 20)
    cut()
    assert.error_matches(function() y:add_(t.x) end, "became shorter")
    t = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(t)
    local sum = y:sum():item()
    assert.is_true(sum == 0 or sum == 1 << 20, sum)
  end)

  it("stop texts of ids that are gone", function()
    local tok = heed.tokenizer.train{kind = "bpe", text = "ab", vocabulary = 260}
    assert(heed.save(path, {ids = heed.ones({1 << 16}, {dtype = "int64"})}))
    local t = assert(heed.load(path, {mapped = true}))
    cut()
    assert.error_matches(function() return tok:decode(t.ids) end, "decode: .*became shorter")
    t = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(t)
    assert.equal(1, #tok:encode "a")
  end)

  it("are views, and no reading calls, of the file", function()
    assert(heed.save(path, {x = heed.ones(100)}))
    local original, reads = core.file_bytes, 0
    finally(function() core.file_bytes = original end)
    function core.file_bytes(...)
      local bytes, why = original(...)
      reads = reads + #bytes
      return bytes, why
    end
    assert(heed.load(path, {mapped = true}))
    assert.is_true(reads < 300, reads)
  end)
end)
