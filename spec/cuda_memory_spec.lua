-- The memory of a GPU: what is counted, kept, limited, and collected.

local heed = require "heed"
local device = require "spec.support.device"
local printed = require "spec.support.printed"

local there, reason = heed.cuda.available()


describe("the memory of a GPU", function()
  if not there then
    pending("is not here (" .. reason .. "): its own specs are skipped")
    return
  end

  local gpu = {device = "cuda"}

  setup(device.cpu)
  teardown(device.back)

  it("lets Lua's collector work for large tensors as its memory is large", function()
    local cycles = tonumber(printed("HEED_EMULATED_MEMORY=131072", [[
      local heed, cycles = require "heed", 0
      local function watch()
        setmetatable({}, {__gc = function() cycles = cycles + 1; watch() end})
      end
      watch()
      for _ = 1, 30 do heed.empty(52 << 18, {device = "cuda"}) end
      print(cycles)]]))
    assert.is_true(cycles < 15, cycles)
  end)

  it("has little garbage, however large Lua's own heap is", function()
    if heed.cuda.properties().name ~= "emulated GPU" then pending("a real GPU has its own size") end
    local peak = tonumber(printed("HEED_EMULATED_MEMORY=16384", [[
      local heed, heap = require "heed", {}
      for i = 1, 400000 do heap[i] = {i} end
      collectgarbage()
      for _ = 1, 50 do heed.empty(32 << 18, {device = "cuda"}) end
      print(heed.cuda.memory().peak >> 20)]]))
    assert.is_true(peak < 700, peak)
  end)

  it("is looked through again when it has grown by half", function()
    if heed.cuda.properties().name ~= "emulated GPU" then pending("a real GPU has its own size") end
    local peak = tonumber(printed("HEED_EMULATED_MEMORY=6400", [[
      local heed, heap = require "heed", {}
      for i = 1, 400000 do heap[i] = {i} end
      collectgarbage()
      heap[1] = heed.empty(150 << 20, {device = "cuda"})
      for _ = 1, 10 do heed.empty(25 << 20, {device = "cuda"}) end
      print(heed.cuda.memory().peak >> 20)]]))
    assert.is_true(peak > 960 and peak < 1100, peak)
  end)

  it("is looked through as soon as a part of it was taken", function()
    if heed.cuda.properties().name ~= "emulated GPU" then pending("a real GPU has its own size") end
    assert.equal("true\ttrue\tfalse\n", printed("HEED_EMULATED_MEMORY=6656", [[
      local heed, heap = require "heed", {}
      for i = 1, 200000 do heap[i] = {i} end
      heap[1] = heed.empty(26 << 20, {device = "cuda"})
      local garbage = setmetatable({{}}, {__mode = "v"})
      heap[2] = heed.empty(26 << 20, {device = "cuda"})
      local grown = garbage[1] ~= nil        -- by a sixty-fourth, and no more
      heed.empty((26 << 20) - 1, {device = "cuda"})
      local before = garbage[1] ~= nil       -- 4 bytes are left of a sixty-fourth
      heed.empty(1, {device = "cuda"})
      print(grown, before, garbage[1] ~= nil)]]))
    assert.equal("true\n", printed("HEED_EMULATED_MEMORY=6400", [[
      local heed = require "heed"
      collectgarbage("stop")
      local garbage = setmetatable({{}}, {__mode = "v"})
      for _ = 1, 3 do heed.empty(25 << 20, {device = "cuda"}) end
      print(garbage[1] ~= nil)]]))           -- a stopped collector waits for more urgent calls
  end)

  it("is counted", function()
    collectgarbage()
    local before = heed.cuda.memory().live
    local x = heed.zeros(1 << 20, gpu)
    assert.is_true(heed.cuda.memory().live >= before + (4 << 20))
    assert.is_true(heed.cuda.memory().peak >= heed.cuda.memory().live)
    x:release()
    heed.cuda.synchronize()
    assert.is_true(heed.cuda.memory().live < before + (4 << 20))
    heed.cuda.reset_peak()
    assert.is_true(heed.cuda.memory().peak < before + (4 << 20))
    heed.cuda.empty_cache()
  end)

  it("is said: what is held, kept for later, and may be held", function()
    local text = printed("", [[
      local heed = require "heed"
      local x = heed.zeros(1 << 22, {device = "cuda"})
      heed.cuda.synchronize()
      local now = heed.cuda.memory()
      print(now.total == heed.cuda.properties().memory, now.free < now.total)
      print(now.limit == 0, now.live >= 16 << 20)
      heed.cuda.limit(now.live + now.cached + (24 << 20))
      print(heed.cuda.memory().limit - now.live - now.cached)
      local y = heed.zeros(1 << 22, {device = "cuda"})
      print(select(2, pcall(heed.zeros, 1 << 22, {device = "cuda"})))
      y:release()
      heed.cuda.synchronize()
      local kept = heed.cuda.memory().cached
      heed.cuda.empty_cache()
      local most = (os.getenv "HEED_BUILD" or ""):find "asan" and 0 or 16 << 20
      print(kept >= most, heed.cuda.memory().cached < 16 << 20)     -- there nothing is kept
      for _, bytes in ipairs{0, -1} do print(select(2, pcall(heed.cuda.limit, bytes))) end
      heed.cuda.limit(1)
      print(heed.cuda.memory().limit)]])
    assert.matches("^true\ttrue\ntrue\ttrue\n25165824\n[^\n]*zeros: [^\n]*16%.0 MiB[^\n]*\n"
                   .. "true\ttrue\n[^\n]*limit: argument 'bytes': a number of bytes above 0 "
                   .. "expected, got 0\n[^\n]*above 0 expected, got %-1\n1\n$", text)
  end)
end)
