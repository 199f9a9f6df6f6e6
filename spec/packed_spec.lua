-- Weights of which products keep a copy as they read it: the same numbers as without it, to the
-- last bit, also behind a change; and the copy counts as memory, and goes with the weight.

local core = require "heed.core"
local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn

local LANES <const> = ({base = 4, neon = 4, avx2 = 8, avx512 = 16})[heed.level()]

-- Rows, depth and columns: one block and several of each, whole panels and not.
local SIZES <const> = {
  {25, 256, 512}, {33, 300, 700}, {64, 37, 1100}, {120, 600, 33}, {40, 515, 1}, {30, 8, 513},
}


local function live()
  collectgarbage()
  collectgarbage()
  return heed.memory().live
end


-- The bytes of a copy of a weight (N, K).
local function bytes_of(weight)
  local panel = 2 * LANES
  return (weight:size(1) + panel - 1) // panel * panel * weight:size(2) * 4
end


local function drawn(...) return heed.randn(..., {device = "cpu"}) end


local function packed(rows, columns)
  local weight = drawn({rows, columns})
  core.pack(weight)
  return weight
end


describe("a packed weight", function()
  before_each(function() heed.manual_seed(5) end)

  it("gives the same bits as one that is not", function()
    for _, size in ipairs(SIZES) do
      local rows, depth, columns = table.unpack(size)
      local x, bias = drawn({rows, depth}), drawn({columns})
      local weight = packed(columns, depth)
      local plain = weight:clone()
      for _ = 1, 2 do
        assert.is_true(heed.linear(x, weight):equal(heed.linear(x, plain)))
        assert.is_true(heed.linear(x, weight, bias):equal(heed.linear(x, plain, bias)))
        assert.is_true(x:matmul(weight.T):equal(x:matmul(plain.T)))
      end
    end
  end)

  it("does so in float64, of three axes, of a part of the rows, and read as it lies", function()
    local x, weight = drawn({3, 20, 300}), packed(520, 300)
    local plain = weight:clone()
    assert.is_true(heed.linear(x, weight):equal(heed.linear(x, plain)))
    assert.is_true(heed.linear(x, weight:narrow(1, 3, 90)):equal(
                   heed.linear(x, plain:narrow(1, 3, 90))))
    assert.is_true(heed.linear(x, weight:narrow(1, 1, 90)):equal(
                   heed.linear(x, plain:narrow(1, 1, 90))))
    assert.is_true(drawn({40, 520}):matmul(weight):isfinite():all())
    local y = drawn({40, 520})
    assert.is_true(y:matmul(weight):equal(y:matmul(plain)))
    local wide, plain_wide = weight:to("float64"), plain:to("float64")
    core.pack(wide)
    x = x:to("float64")
    for _ = 1, 2 do assert.is_true(heed.linear(x, wide):equal(heed.linear(x, plain_wide))) end
  end)

  it("has a copy from the first product of many rows on, which counts and goes with it", function()
    local before = live()
    local x, weight = drawn({40, 256}), packed(128, 256)
    local now = live()
    heed.linear(x:narrow(1, 1, 2), weight)
    assert.equal(now, live())
    heed.linear(x, weight)
    assert.equal(now + bytes_of(weight), live())
    heed.linear(x, weight)
    assert.equal(now + bytes_of(weight), live())
    x:release()
    weight:release()
    assert.equal(before, live())
  end)

  it("has none unless it is asked for", function()
    local x, weight = drawn({40, 256}), drawn({128, 256})
    local now = live()
    heed.linear(x, weight)
    assert.equal(now, live())
  end)

  it("follows changes in place", function()
    local x, weight = drawn({40, 300}), packed(64, 300)
    local function same()
      return heed.linear(x, weight):equal(heed.linear(x, weight:clone()))
    end
    assert.is_true(same())
    for _, change in ipairs{
      function() weight:mul_(2) end,
      function() weight[3]:fill_(7) end,
      function() weight:copy_(drawn({64, 300})) end,
      function() weight.T:add_(1) end,
    } do
      local before = heed.linear(x, weight)
      change()
      assert.is_true(same())
      assert.is_false(before:equal(heed.linear(x, weight)))
    end
  end)

  it("follows an optimiser, a loaded state and another type", function()
    local layer, x = nn.Linear(300, 64), drawn({40, 300})
    layer:to("cpu")
    local function same()
      local plain = heed.linear(x, layer.weight:detach():clone(), layer.bias)
      return heed.no_grad(layer, x):equal(plain)
    end
    core.pack(layer.weight)
    assert.is_true(same())
    local opt = heed.optim.SGD(layer:parameters(), {lr = 0.5})
    layer(x):sum():backward()
    opt:step()
    assert.is_true(same())
    layer:load_state(nn.Linear(300, 64):to("cpu"):state())
    assert.is_true(same())
    layer:to("float64"):to("float32")
    assert.is_true(same())
  end)

  it("lets gradients be what they were", function()
    local x, weight = drawn({40, 300}), packed(64, 300)
    local function gradients(w)
      local a, b = x:detach():clone():requires_grad_(), w:detach():requires_grad_()
      heed.linear(a, b):square():sum():backward()
      return a.grad, b.grad
    end
    local a, b = gradients(weight)
    local c, d = gradients(weight:clone())
    assert.is_true(a:equal(c) and b:equal(d))
  end)

  it("gives the same with several threads", function()
    local before <const> = heed.threads()
    for _, size in ipairs{{200, 700, 900}, {30, 1100, 390}} do
      local rows, depth, columns = table.unpack(size)
      local x, weight = drawn({rows, depth}), packed(columns, depth)
      heed.threads(1)
      local one = heed.linear(x, weight)
      heed.threads(2)
      local two, new = heed.linear(x, weight), packed(columns, depth):copy_(weight)
      local other = heed.linear(x, new)
      heed.threads(before)
      assert.is_true(one:equal(two))
      assert.is_true(one:equal(other))
    end
  end)

  it("is read as it lies where there is no memory for a copy", function()
    local x, weight = drawn({40, 2048}), packed(4096, 2048)
    local plain = heed.linear(x, weight:clone())
    local before <const> = heed.memory().limit
    heed.memory{limit = live() + heed.memory().other + bytes_of(weight) // 2}
    local good, y = pcall(heed.linear, x, weight)
    heed.memory{limit = before}
    assert.is_true(good, y)
    assert.is_true(y:equal(plain))
    local now = live()
    assert.is_true(heed.linear(x, weight):equal(plain))
    assert.equal(now + bytes_of(weight), live())
  end)

  it("follows a captured step that changes it", function()
    local x, weight = drawn({40, 300}), packed(64, 300)
    local f = heed.capture(function(given)
      local before = heed.linear(given, weight)
      weight:mul_(-1.25)
      return before, heed.linear(given, weight)
    end)
    for _ = 1, 6 do
      local plain = heed.linear(x, weight:clone())
      local before, behind = f(x)
      assert.is_true(before:equal(plain))
      assert.is_true(behind:equal(heed.linear(x, weight:clone())))
      assert.is_true(behind:equal(heed.linear(x, weight)))
    end
  end)

  it("is followed by what was captured", function()
    local x, weight = drawn({40, 300}), packed(64, 300)
    local f = heed.capture(function(given) return heed.linear(given, weight) end)
    for _ = 1, 4 do f(x) end
    local y = f(x):clone()
    weight:mul_(3)
    assert.is_true(f(x):equal(heed.linear(x, weight:clone())))
    assert.is_false(f(x):equal(y))
  end)
end)


-- Types of blocks: elements and bytes of one, and bytes of a copy for each element: about as many
-- as blocks have, or a byte and the share of its group's numbers.
local BLOCKS <const> = {
  q8_0 = {32, 34, 34 / 32}, q4_0 = {32, 18, 18 / 32}, q4_1 = {32, 20, 20 / 32},
  q5_0 = {32, 22, 22 / 32}, q5_1 = {32, 24, 24 / 32}, q2_k = {256, 84, 1 + 8 / 16},
  q3_k = {256, 110, 1 + 4 / 16}, q4_k = {256, 144, 148 / 256}, q5_k = {256, 176, 180 / 256},
  q6_k = {256, 210, 210 / 256},
}

-- Whether products with rounded rows interleave blocks: with AVX-512 and VNNI, as gcc compiles it.
local function interleaves()
  local function has(path, text)
    local file <close> = assert(io.open(path, "rb"))
    return file:read "a":find(text, 1, true) ~= nil
  end
  return heed.level() == "avx512" and has("/proc/cpuinfo", "avx512_vnni")
         and not has(assert(package.searchpath("heed.core", package.cpath)), "clang version")
end

-- A matrix of a type of blocks: its bytes are from 32 to 47, which as scales are small floats.
local function of_blocks(type, rows, columns)
  local elements, bytes = table.unpack(BLOCKS[type])
  local list = {}
  for i = 1, rows * columns // elements * bytes do
    list[i] = string.char(32 + i * 7 % 16)
  end
  return heed.frombytes(table.concat(list), {rows, columns}, type):to "cpu"
end


describe("a packed weight in blocks", function()
  before_each(function()
    heed.manual_seed(5)
    heed.matmul_precision "high"
  end)

  after_each(function() heed.matmul_precision "highest" end)

  it("gives the same bits as one that is not", function()
    for type in pairs(BLOCKS) do
      local columns = type:find "_k" and 768 or 352
      local weight = of_blocks(type, 70, columns)
      local plain, bias = weight:clone(), drawn({70})
      core.pack(weight)
      for _, rows in ipairs{4, 13, 40, 3, 1} do
        local x = drawn({rows, columns})
        assert.is_true(heed.linear(x, weight, bias):equal(heed.linear(x, plain, bias)))
        assert.is_true(x:matmul(weight.T):equal(x:matmul(plain.T)))
        assert.is_true(heed.linear(x, weight:narrow(1, 1, 35)):equal(
                       heed.linear(x, plain:narrow(1, 1, 35))))
        assert.is_true(heed.linear(x, weight:slice(1, 1, 70, 2)):equal(
                       heed.linear(x, plain:slice(1, 1, 70, 2))))
      end
    end
  end)

  it("does so for all values of quants, of any number of rows, and in a capture", function()
    for _, type in ipairs{"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"} do
      local columns = type:find "_k" and 512 or 544
      local weight, bias = heed.quantize(drawn({75, columns}), type), drawn({75})
      local plain = weight:clone()
      core.pack(weight)
      local captured = heed.capture(function(x) return heed.linear(x, weight, bias) end)
      for _, rows in ipairs{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 19} do
        local x = drawn({rows, columns})
        local wanted = heed.linear(x, plain, bias)
        assert.is_true(wanted:equal(heed.linear(x, weight, bias)), type)
        for _ = 1, 2 do assert.is_true(wanted:equal(captured(x)), type) end
      end
    end
  end)

  it("has a copy from the first captured product on, where no other came before", function()
    local x, weight = drawn({1, 544}), heed.quantize(drawn({64, 544}), "q4_0")
    local wanted = heed.linear(x, weight)
    local captured = heed.capture(function(y) return heed.linear(y, weight) end)
    captured(x)                                    -- runs as ever; the next call is recorded
    core.pack(weight)
    local now = live()
    assert.is_true(wanted:equal(captured(x)))
    assert.equal(interleaves(), live() - now >= weight:numel() * 18 // 32)
    for _ = 1, 2 do assert.is_true(wanted:equal(captured(x))) end
  end)

  it("has a copy from the first product on, which counts and goes with it", function()
    for type, row in pairs(BLOCKS) do
      local columns = type:find "_k" and 768 or 352
      local before = live()
      local x, weight = drawn({40, columns}), of_blocks(type, 70, columns)
      core.pack(weight)
      local now = live()
      local bytes = interleaves() and 96 * columns * row[3] or 0
      for _, rows in ipairs{3, 1, 40} do
        heed.linear(x:narrow(1, 1, rows), weight)
        assert.equal(now + bytes, live(), type)
      end
      x:release()
      weight:release()
      assert.equal(before, live())
    end
  end)

  it("has none where rows are not rounded, or nobody asks for one", function()
    local x, weight = drawn({40, 352}), of_blocks("q8_0", 70, 352)
    local now = live()
    heed.linear(x, weight)
    core.pack(weight)
    heed.matmul_precision "highest"
    heed.linear(x, weight)
    assert.equal(now, live())
  end)

  it("follows what it is set to", function()
    local x, weight = drawn({40, 352}), of_blocks("q8_0", 70, 352)
    local other = heed.quantize(drawn({70, 352}), "q8_0")
    core.pack(weight)
    local before = heed.linear(x, weight)
    weight:set_(other)
    for _ = 1, 2 do
      local plain = heed.linear(x, other:clone())
      assert.is_true(heed.linear(x, weight):equal(plain))
      assert.is_false(before:equal(plain))
      core.pack(weight)
    end
  end)

  it("gives the same with several threads", function()
    local weight, before <const> = of_blocks("q4_1", 700, 2400), heed.threads()
    for _, rows in ipairs{50, 1} do
      local x = drawn({rows, 2400})
      local plain = heed.linear(x, weight)
      for _, threads in ipairs{2, 1} do
        heed.threads(threads)
        local one = weight:clone()
        core.pack(one)
        for _ = 1, 2 do assert.is_true(plain:equal(heed.linear(x, one))) end
      end
    end
    heed.threads(before)
  end)
end)


describe("models.load packs", function()
  it("matrices of products, unless it is told not to", function()
    local function taken(options)
      options.device = "cpu"
      local place <close> = directories.make("distilbert")
      local model = assert(heed.models.load(place.path, options))
      local ids = heed.ones({16, 16}, {dtype = "int64", device = "cpu"})
      local before = live()
      local y = heed.no_grad(model, ids)
      y = y:totable()
      return live() - before, y
    end
    local with, y = taken{}
    local without, plain = taken{packed = false}
    local mapped, shared = taken{mapped = true}
    assert.is_true(with > 0)
    assert.equal(0, without)
    assert.equal(0, mapped)
    assert.same(plain, y)
    assert.same(plain, shared)
  end)

  it("matrices in blocks of models that write nothing, or where it is told to", function()
    local function taken(folder, precision, options)
      options.device, options.quantize = "cpu", "q8_0"
      local place <close> = directories.make(folder)
      local model = assert(heed.models.load(place.path, options))
      local ids = heed.ones({16, 16}, {dtype = "int64", device = "cpu"})
      local before = live()
      heed.matmul_precision(precision)
      local y = heed.no_grad(model, ids)
      heed.matmul_precision "highest"
      y = y:totable()
      return live() - before, y
    end
    local of_floats = taken("distilbert", "highest", {})
    local with, y = taken("distilbert", "high", {})
    local without, plain = taken("distilbert", "high", {packed = false})
    assert.equal(interleaves(), with > of_floats)
    assert.equal(0, without)
    assert.same(plain, y)
    of_floats = taken("llama3", "highest", {})
    assert.equal(of_floats, (taken("llama3", "high", {})))
    assert.equal(interleaves(), taken("llama3", "high", {packed = true}) > of_floats)
  end)

  it("and refuses what is no boolean", function()
    assert.matches("a boolean expected as option packed, got 1",
                   message(heed.models.load, "nowhere", {packed = 1}))
  end)
end)
