-- Memory: tensors drive Lua's collector, scopes free, limits hold.

local heed = require "heed"
local device = require "spec.support.device"
local message = require "spec.support.message"

local MIB = 1 << 20

-- Peak of live bytes while f runs, above what was live before.
local function peak_of(f)
  collectgarbage()
  collectgarbage()
  local before, most = heed.memory().live, 0
  f(function() most = math.max(most, heed.memory().live) end)
  return most - before
end

local function churn(look)
  for i = 1, 3000 do
    local _ = heed.zeros(256, 1024)
    if i % 10 == 0 then look() end
  end
end


describe("the collector", function()
  for _, mode in ipairs {"incremental", "generational"} do
    it("keeps 3,000 tensors of 1 MiB below 64 MiB, " .. mode, function()
      collectgarbage(mode)
      local peak = peak_of(churn)
      collectgarbage("incremental")
      assert.is_true(peak < 64 * MIB, ("peak %d MiB"):format(peak // MIB))
    end)

    it("does so beside many small objects, " .. mode, function()
      local many = {}
      for i = 1, 100000 do many[i] = {i} end
      collectgarbage(mode)
      local peak = peak_of(churn)
      collectgarbage("incremental")
      assert.is_true(peak < 64 * MIB, ("peak %d MiB"):format(peak // MIB))
      assert.equal(100000, #many)
    end)
  end

  -- In a program of its own, since the specs' own objects are more.
  it("keeps less than two training steps where a program has little but heed.nn", function()
    local command = ("LUA_PATH='%s' LUA_CPATH='%s' %s -e '%s' 2>&1"):format(
      package.path, package.cpath, os.getenv "LUA" or "lua5.4", [[
        local heed = require "heed"
        local model, x = heed.nn.Encoder(128, 4, 4, {norm = "pre"}), heed.randn(8, 64, 128)
        for i = 1, 6 do
          model(x):square():mean():backward()
          if i == 1 or i == 6 then print(heed.memory().peak // 1024) end
        end]])
    local pipe <close> = assert(io.popen(command))
    local text = pipe:read "a"
    local first, most = text:match "^(%d+)%D+(%d+)"
    assert.is_true(most and tonumber(most) < 1.75 * tonumber(first), text)
  end)

  it("counts a small tensor's handle, so that its memory is soon free for the next", function()
    collectgarbage()
    collectgarbage()
    local room, collected, n = collectgarbage("count") * 1024 + MIB, false, 0
    setmetatable({}, {__gc = function() collected = true end})
    repeat
      local _ = heed.zeros(1)
      n = n + 1
    until collected
    assert.is_true(n * 256 < room, n .. " tensors")
  end)

  it("leaves training steps with the memory they had", function()
    local w = heed.randn(64, 64, {requires_grad = true})
    local opt = heed.optim.Adam({w}, {lr = 1e-3})
    local function steps(n)
      for _ = 1, n do
        local loss = heed.randn(8, 64):matmul(w):square():mean()
        opt:zero_grad()
        loss:backward()
        opt:step()
      end
      collectgarbage()
      collectgarbage()
      return heed.memory().live, heed.graph_nodes()
    end
    local live, nodes = steps(200)
    local live_after, nodes_after = steps(3000)
    assert.equal(live, live_after)
    assert.equal(nodes, nodes_after)
  end)
end)


describe("a scope", function()
  it("frees what was made in it, but for what it returns", function()
    local inner
    local kept, list = heed.scope(function()
      inner = heed.zeros(10)
      local a = heed.ones(3)
      return a + 1, {deep = {heed.zeros(2)}}
    end)
    assert.error_matches(function() return inner + 1 end, "released")
    assert.same({2.0, 2.0, 2.0}, kept:totable())
    assert.same({0.0, 0.0}, list.deep[1]:totable())
  end)

  it("spares leaves, gradients, modules, and what heed.keep names", function()
    local w, g, named, module, result
    heed.scope(function()
      w = heed.ones(2, {requires_grad = true})
      result = w * 3
      result:sum():backward()
      g = w.grad
      named = heed.keep(heed.zeros(1))
      module = heed.nn.Linear(2, 2)
    end)
    assert.same({3.0, 3.0}, g:totable())
    assert.error_matches(function() return result + 1 end, "released")
    assert.equal(0.0, named[1])
    assert.same({1, 2}, {module(w:detach():unsqueeze(1)):size()})
    assert.same({1.0, 1.0}, w:detach():totable())
  end)

  it("frees what a scope in it gave, but what the outer one gives", function()
    local lost, kept
    kept = heed.scope(function()
      local first
      first, lost = heed.scope(function() return heed.ones(2), heed.zeros(3) end)
      assert.same({0.0, 0.0, 0.0}, lost:totable())
      return first
    end)
    assert.same({1.0, 1.0}, kept:totable())
    assert.error_matches(function() return lost + 1 end, "released")
  end)

  it("passes arguments, cycles and errors through, and frees all the same", function()
    local lost
    local cycle = {}
    cycle.self = cycle
    local a, b = heed.scope(function(...) return ..., cycle end, 5)
    assert.equal(5, a)
    assert.equal(cycle, b)
    assert.error_matches(function()
      heed.scope(function() lost = heed.zeros(2) error "stop" end)
    end, "stop")
    assert.error_matches(function() return lost + 1 end, "released")
  end)
end)


describe("a tensor", function()
  setup(device.cpu)
  teardown(device.back)

  it("is freed at once by <close> and release, twice without harm", function()
    collectgarbage()
    collectgarbage()
    local before = heed.memory().live
    do
      local x <close> = heed.zeros(1024, 1024)
      assert.is_true(heed.memory().live >= before + 4 * MIB)
      assert.equal(0.0, x:sum():item())
    end
    local y = heed.zeros(1024, 1024)
    y:release()
    y:release()
    assert.is_true(heed.memory().live < before + 4 * MIB)
  end)

  it("holds what a predicate of masks says for some shapes, not for all there were", function()
    local q, keys = heed.ones(1, 1, 1, 4), heed.ones(1, 1, 2048, 4)
    local m = heed.mask.predicate(function() return true end)
    collectgarbage()
    local before = heed.memory().live
    for n = 2048, 2048 - 255, -1 do
      local k = keys:narrow(3, 1, n)
      heed.attention(q, k, k, {mask = m})
    end
    collectgarbage()
    assert.is_true(heed.memory().live - before < 100 * 2048)
  end)

  -- Lua's memory that 50 calls take while the collector stands still.
  local function taken_by(f)
    f()
    local before = collectgarbage "count"
    for _ = 1, 50 do f() end
    return collectgarbage "count" - before
  end

  it("takes memory of Lua's only where a call gives it", function()
    local q = heed.ones(1, 1, 2, 4)
    collectgarbage "stop"
    local sum = taken_by(function() return q + q end)
    local attended = taken_by(function() return heed.attention(q, q, q) end)
    collectgarbage "restart"
    assert.equal(sum, attended)
    local y, weights, lse = heed.attention(q, q, q, {weights = true, lse = true})
    assert.same({2, 2, 4, 4}, {weights:size(3), weights:size(4), y:size(4), (q + 1):size(4)})
    assert.same({{{0.5, 0.5}, {0.5, 0.5}}}, weights:totable()[1])
    assert.is_nil((select(3, heed.attention(q, q, q, {weights = true}))))
    assert.same({1, 1, 2}, {lse:size(1), lse:size(2), lse:size(3)})
  end)

  it("is no other userdata that 'debug' puts in its place", function()
    local q = heed.ones(1, 1, 2, 4)
    if not debug or not debug.setuservalue then return pending "debug is hidden" end
    local _, binding = debug.getupvalue(heed.add, 1)
    for _, other in ipairs {q, {}, io.stdout, binding} do
      heed.attention(q, q, q)
      for n = 1, 3 do debug.setuservalue(binding, other, n) end
      assert.same({2, 2, 2, 2}, (q + q):totable()[1][1][1])
      assert.same({1, 1, 1, 1}, heed.attention(q, q, q):totable()[1][1][1])
    end
    assert.same({1, 1, 1, 1}, q:totable()[1][1][1])
  end)

  it("shares its memory with its views until the last goes", function()
    local x = heed.arange(6)
    local row = x:reshape(2, 3)[2]
    x:release()
    assert.same({4, 5, 6}, row:totable())
  end)
end)


describe("memory that was dropped", function()
  setup(device.cpu)
  teardown(device.back)

  -- Drops so many tensors of n elements that the cache is full of them.
  local function fill_cache(n)
    local held = {}
    for i = 1, (heed.memory().live + 64 * MIB) // (4 * n) + 2 do held[i] = heed.empty(n) end
    for _, x in ipairs(held) do x:release() end
  end

  -- Is a dropped block used again, though the cache is full of other sizes?
  local function assert_kept(n)
    for _ = 1, 2 do heed.empty(n):release() end
    local before = heed.memory().cached
    local x <close> = heed.empty(n)
    assert.equal(before - 4 * n, heed.memory().cached, n .. " elements")
    assert.equal(n, x:numel())
  end

  it("serves the sizes that are wanted now, whatever was wanted before", function()
    collectgarbage()
    heed.empty(MIB):release()
    if heed.memory().cached == 0 then return pending "a build without a cache" end
    fill_cache(4 * MIB)
    for _, n in ipairs {3 * MIB, 5 * MIB, 1024, 6 * MIB} do assert_kept(n) end
    fill_cache(MIB // 64)
    for _, n in ipairs {3 * MIB, 4 * MIB, 1024} do assert_kept(n) end
    assert.is_true(heed.memory().cached <= math.max(heed.memory().live, 64 * MIB))
  end)
end)


describe("a limit", function()
  it("refuses a tensor, and nothing else", function()
    local script = [[
      local heed = require "heed"
      heed.memory{limit = 64 << 20}
      local good, why = pcall(heed.zeros, 1 << 28)
      assert(not good and why:find "zeros: memory limit", why)
      assert(heed.zeros(1 << 20):sum():item() == 0)
      local held = {}
      good, why = pcall(function() for i = 1, 100 do held[i] = heed.zeros(1 << 20) end end)
      assert(not good and why:find "memory", why)
      held = nil
      assert(heed.zeros(1 << 22):sum():item() == 0)
    ]]
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(script)
    file:close()
    assert.is_truthy(os.execute("lua5.4 " .. path))
    os.remove(path)
  end)

  it("is asked for what tables of numbers hold", function()
    local x <close> = heed.zeros(1000, {device = "cpu"})      -- the limit is beyond its 4000 bytes
    for _ = 1, 2 do collectgarbage() end
    local before = heed.memory().limit
    heed.memory{limit = heed.memory().live + 10}
    local why = message(heed.tensor, {{1}, {2}})
    heed.memory{limit = before}
    assert.matches("tensor: memory limit of .*, what the tables hold needs 16 bytes more$", why)
    assert.equal(4000, #x:data())
  end)

  it("is reported as live, other, cached, peak and limit", function()
    local now = heed.memory()
    for _, key in ipairs {"live", "other", "cached", "peak", "limit"} do
      assert.equal("integer", math.type(now[key]), key)
    end
    assert.is_true(now.peak >= now.live + now.other)
  end)
end)


describe("the memory of a tensor", function()
  local if_rounded = (os.getenv "HEED_BUILD" or ""):find "asan" and pending or it
  if_rounded("has one of two sizes to a doubling from 64 bytes on, of eight from 1 MiB", function()
    for bytes, wanted in pairs {
      [1] = 64, [64] = 64, [65] = 96, [96] = 96, [97] = 128, [128] = 128, [129] = 192, [700] = 768,
      [769] = 1024, [MIB - 1] = MIB, [MIB] = MIB, [MIB + 1] = MIB + MIB // 8,
      [MIB * 9 // 8] = MIB * 9 // 8, [MIB * 15 // 8 + 1] = 2 * MIB,
      [2 * MIB + 1] = 2 * MIB + MIB // 4,
    } do
      collectgarbage()
      collectgarbage()
      local before = heed.memory().live
      local x <close> = heed.empty(bytes, {dtype = "uint8", device = "cpu"})
      assert.equal(wanted, heed.memory().live - before, ("%d bytes of %s"):format(bytes, x.dtype))
    end
  end)

  if_rounded("is whole pages alone where it is to last, until that call ends or fails", function()
    local lasting, why = require "heed.core".lasting, {}
    local function taken(f, ...)
      local before = heed.memory().live
      local x = f(...)
      local bytes = heed.memory().live - before
      x:release()
      return bytes
    end
    local bytes, o = 2 * MIB + 1, {dtype = "uint8", device = "cpu"}
    assert.equal(2 * MIB + 4096, taken(lasting, heed.empty, bytes, o))
    assert.equal(2 * MIB + MIB // 4, taken(heed.empty, bytes, o))
    local loaded = assert(heed.load "spec/golden/layers.safetensors")
    collectgarbage()
    assert.equal(2 * MIB + MIB // 4, taken(heed.empty, bytes, o))
    assert.is_table(loaded)
    assert.same({false, why}, {pcall(lasting, error, why)})
    assert.equal(2 * MIB + MIB // 4, taken(heed.empty, bytes, o))
    local function inner(...)
      lasting(heed.empty, 1):release()
      return taken(heed.empty, bytes, o), select("#", ...), ...
    end
    assert.same({2 * MIB + 4096, 2, 7, nil}, {lasting(inner, 7, nil)})
    assert.equal(0, select("#", lasting(function() end)))
    for _, bad in ipairs{{n = 0}, {5, n = 1}, {{}, n = 1}} do
      assert.matches("function", message(lasting, table.unpack(bad, 1, bad.n)))
    end
  end)
end)


describe("scratch memory", function()
  it("is had without a limit, be it so much that the machine is asked for it", function()
    local x <close> = heed.zeros(64 * MIB + 2, {dtype = "uint8", device = "cpu"})
    x[1] = 1
    x[{{2, -1}}]:copy_(x[{{1, -2}}])
    assert.same({1, 1, 0}, x[{{1, 3}}]:totable())
  end)
end)


-- Whether a program ends well.
local function runs(text)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local good = os.execute("lua5.4 " .. path .. " </dev/null") == true
  os.remove(path)
  return good
end


describe("finalisers", function()
  it("may use tensors while memory is reclaimed for others", function()
    local x, sum = heed.ones(4), 0
    local function use() sum = sum + (x + 1):sum():item() end
    for _ = 1, 50 do setmetatable({}, {__gc = use}) end
    for _ = 1, 400 do local _ = heed.zeros(256, 1024) end
    collectgarbage()
    assert.is_true(sum > 0)
  end)

  it("change no shape, since the call that they interrupt may rely on it", function()
    local x, why = heed.ones(3), nil
    do setmetatable({}, {__gc = function() why = message(x.set_, x, heed.ones(2)) end}) end
    collectgarbage()
    assert.matches("set_: a finaliser may not change what a tensor is$", why)
    assert.equal("(3)", tostring(x.shape))
    local layer = heed.nn.Linear(2, 2)
    do setmetatable({}, {__gc = function() why = message(layer.to, layer, "float64") end}) end
    collectgarbage()
    assert.matches("a finaliser may not change what a tensor is$", why)
    assert.equal("float32", layer.weight.dtype)
  end)

  it("may release tensors, whose memory is free from the next call on", function()
    collectgarbage()
    collectgarbage()
    local before = heed.memory().live
    local x = heed.zeros(1 << 20, {device = "cpu"})
    setmetatable({}, {__gc = function() x:release() end})
    assert.equal(before + (4 << 20), heed.memory().live)
    collectgarbage()
    assert.equal(before, heed.memory().live)
    assert.equal("[released tensor]", tostring(x))
  end)

  it("may bring a tensor back, which is released", function()
    local found
    do setmetatable({heed.ones(3)}, {__gc = function(t) found = t[1] end}) end
    collectgarbage()
    collectgarbage()
    assert.equal("[released tensor]", tostring(found))
    assert.error_matches(function() return found + 1 end, "add: .*released")
  end)

  it("run at the end of a state without harm", function()
    assert.is_true(runs [[
      local heed
      local function make() return heed.zeros(2) + 1 end
      local early = setmetatable({}, {__gc = function() pcall(make) end})
      heed = require "heed"
      local x = heed.ones(3, {requires_grad = true})
      local y = (x * 2):exp()
      late = setmetatable({y, early}, {__gc = function(t) pcall(t[1].sum, t[1]) end})
      held = coroutine.wrap(function()
        local z <close> = y + 1
        heed.no_grad(coroutine.yield)
        return z
      end)
      held()
      file = heed.core.open_file(arg[0])
      batches = heed.tasks.counting{size = 2}
      for _ in batches do break end
    ]])
  end)

  it("that run after the library's own are refused, whatever they call", function()
    assert.is_true(runs [[
      local core, x
      local function refused(f, ...)
        local good, why = pcall(f, ...)
        return not good and why:find "the state is closing" ~= nil
      end
      last = setmetatable({}, {__gc = function()
        local good = refused(core.public.keep, {}) and refused(core.public.zeros, 2)
                     and refused(core.operations)
        for _, functions in ipairs{core, core.public} do
          for _, f in pairs(functions) do pcall(f) pcall(f, {}) pcall(f, x) pcall(f, {x}) end
        end
        os.exit(good)
      end})
      x = require("heed").ones(2)
      core = package.loaded["heed.core"]
    ]])
  end)

  -- Functions that take a tensor are called with one; the others refuse before they look at any.
  it("that run after the library's own find every function closed that needs it", function()
    assert.is_true(runs [[
      local functions, seen, x, open = {}, {}, nil, {}
      for name in ([=[
          attempt blocks called callees capture_running check_files clock dim ended fits format
          frames has_values hint hooked is_contiguous is_tensor isatty layer_enterer mask_words
          nearest numel optimizers raise refuse_dot refuse_option release serves set_fields size
          stride tell_options watched ]=]):gmatch "[%w_]+" do open[name] = true end
      local function refused(f, ...)
        local good, why = pcall(f, ...)
        return not good and tostring(why):find "the state is closing" ~= nil
      end
      local function collect(t, path)
        seen[t] = true
        for name, value in pairs(t) do
          if type(value) == "table" and not seen[value] then collect(value, name .. ".") end
          if type(value) == "function" then functions[path .. name] = value end
        end
      end
      last = setmetatable({}, {__gc = function()
        local good = next(functions) ~= nil
        for path, f in pairs(functions) do
          local known = path:find "^readline%." or
                        open[path:match "[%w_]+$"] and path ~= "vectors.nearest"
          if not known and not refused(f) and not refused(f, x) then
            io.stderr:write(path, " is not closed\n")
            good = false
          end
        end
        os.exit(good)
      end})
      x = require("heed").ones(2)
      collect(package.loaded["heed.core"], "")
    ]])
  end)
end)


describe("tables that a finaliser changes while they are read", function()
  local LONG <const> = 200000
  local REFUSED <const> = "tensor: the table was changed while it was read"

  local function finally(f) setmetatable({}, {__gc = f}) end

  local function row() return heed.ones(LONG):totable() end

  -- A step of the collector is a whole cycle. The memory for the values starts one, after the
  -- tables were looked at.
  local function refused(values, change)
    collectgarbage("incremental", 105, 1000, 30)
    collectgarbage()
    finally(function() change(values) end)
    local good, why = pcall(heed.tensor, values)
    collectgarbage("incremental", 200, 100, 13)
    assert.is_false(good)
    assert.matches(REFUSED, why, 1, true)
  end

  it("are refused, whatever became of a value", function()
    refused(row(), function(v) v[LONG] = "7" end)
    refused(row(), function(v) v[LONG] = nil end)
    refused(row(), function(v) v[9] = {} end)
    refused(row(), function(v) v[9] = heed.ones(1) end)
  end)

  it("are refused, whatever became of a row", function()
    refused({row(), row()}, function(v) v[2] = 3 end)
    refused({row(), row()}, function(v) v[2] = nil end)
    refused({row(), row()}, function(v) v[1] = heed.ones(LONG) end)
    refused({row(), row()}, function(v) v[2][LONG] = {1} end)
  end)
end)


describe("a size that no memory has", function()
  setup(device.cpu)
  teardown(device.back)

  it("is refused where a row is only expanded", function()
    local long = heed.zeros(1):expand{329406144173384851}    -- 56 bytes for each are 40 too many
    assert.error_matches(function() long:topk(1) end, "not enough memory")
  end)

  it("may be nothing at all", function()
    assert.same({2, 3, 4}, heed.zeros(2, 3, 0):matmul(heed.zeros(2, 0, 4)).shape)
    assert.same({2, 3, 1}, heed.zeros(3, 0):matmul(heed.zeros(2, 0, 1)).shape)
  end)
end)


describe("what is read of a tensor, or written to it,", function()
  setup(device.cpu)
  teardown(device.back)

  local ROWS <const> = 512
  local READ <const> = {
    element = function(x) return x[1][2], x[{2, 3}], x[-1][-1] end,
    row = function(x) return x[1], x[{2}], x[{{1, 3}}], x[{{}, {2, -1}}] end,
    positions = function(x) return x[heed.tensor{1, 3}], x[{{}, heed.tensor{2}}] end,
    mask = function(x) return x[x:gt(0)] end,
    item = function(x) return x[1][1], x:sum():item() end,
    table = function(x) return x:totable(), x[1]:totable(), x:data() end,
    text = function(x) return tostring(x), "x" .. x:sum(), #x, x.shape end,
    loop = function(x) for _, row in ipairs(x[{{1, 3}}]) do row:sum() end end,
    assigned = function(x)
      x[1], x[{2, 3}], x[{{1, 2}}] = 0, 1, heed.ones(2, ROWS)
      x[heed.tensor{1, 3}], x[x:gt(2)] = heed.ones(2, ROWS), 0
    end,
    refused = function(x)
      for _, bad in ipairs{ROWS + 1, {1, 2, 3}, {{1, ROWS + 1}}, {}, heed.tensor{ROWS + 1}} do
        pcall(function() return x[bad] end)
        pcall(function() x[bad] = 1 end)
        pcall(function() x[1] = heed.ones(3) end)
      end
    end,
  }

  for name, f in pairs(READ) do
    it("keeps none of its memory: " .. name, function()
      local function live()
        collectgarbage()
        collectgarbage()
        return heed.memory().live
      end
      f(heed.randn(4, ROWS))
      local before = live()
      for _ = 1, 3 do f(heed.randn(ROWS, ROWS)) end
      assert.is_true(live() < before + ROWS * ROWS)      -- bytes; a tensor has four times as many
    end)
  end
end)
