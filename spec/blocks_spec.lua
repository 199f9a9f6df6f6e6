-- Types of blocks: values, views by whole rows, products and their gradients, modules; and all that
-- refuses them.

local blocks = require "heed.internal.blocks"
local heed = require "heed"
local message = require "spec.support.message"
local layouts = require "spec.support.layouts"
local nn = require "heed.nn"
local rows = require "spec.support.rows"

-- Relative errors of a product's norm: of the type's own rounding, and of x rounded to 8 bits.
local ERRORS <const> = {
  q8_0 = 0.007, q4_0 = 0.1, q4_1 = 0.09, q5_0 = 0.05, q5_1 = 0.045, q4_k = 0.09, q5_k = 0.045,
  q6_k = 0.025,
}
local ROUNDED <const> = 0.01

-- On a GPU a row has the same bits beside up to seven others, and nothing is rounded to 8 bits.
local on_cpu
setup(function() on_cpu = heed.default_device() == "cpu" end)
before_each(function() heed.manual_seed(1) end)


local function each_written(f)
  for name, row in next, blocks do
    if row.written then f(name, row) end
  end
end


local function on_each_level(f)
  if on_cpu then layouts.on_each_level(f) else f("GPU ") end
end


local function far(a, b) return ((a - b):norm() / b:norm()):item() end


describe("heed.quantize", function()
  it("keeps values as well as its bits allow, in as many bytes as its blocks take", function()
    each_written(function(name, row)
      local x = heed.randn(6, 512)
      local q = heed.quantize(x, name)
      assert.equal(name, q.dtype)
      assert.equal("(6, 512)", tostring(q.shape))
      assert.equal(6 * 512 // row.elements * row.bytes, #q:data())
      local e = far(q:to("float32"), x)
      assert.is_true(e < ERRORS[name] and e > ERRORS[name] / 3, name .. ": " .. e)
      assert.is_true(heed.frombytes(q:data(), {6, 512}, name):to("float32")
                     :equal(q:to("float32")))
    end)
  end)

  it("holds rows of one number, zeros, and 16-bit values of any layout", function()
    each_written(function(name)
      for _, value in ipairs{0, 1, -1, 100} do
        local x = heed.full({2, 256}, value, {dtype = "float32"})
        assert.is_true(heed.quantize(x, name):to("float32"):allclose(x, 0.02), name .. value)
      end
      local wide = heed.randn(256, 4):to("bfloat16")
      local q = heed.quantize(wide:t(), name)
      assert.is_true(q:to("float32"):equal(heed.quantize(wide:t():float():contiguous(), name)
                                           :to("float32")))
    end)
  end)

  it("refuses what it cannot hold", function()
    local x = heed.randn(2, 64)
    for _, case in ipairs{
      {"one of q4_0, .*, q8_0 expected as type, got 'q8'", x, "q8"},
      {"one of q4_0, .* expected as type, got 'q2_k'", x, "q2_k"},
      {"one of q4_0, .* expected as type, got 7", x, 7},
      {"a tensor expected, got an empty table", {}, "q8_0"},
      {"expected, got int64; t:to%(\"float32\"%) gives one", heed.ones(2, 32):long(), "q8_0"},
      {"quantize: q8_0 has rows of a multiple of 32 elements, got the shape %(2, 33%)",
       heed.randn(2, 33), "q8_0"},
      {"q6_k has rows of a multiple of 256 elements", x, "q6_k"},
      {"quantize: finite values of at most 65504 expected for q4_0", x / 0, "q4_0"},
      {"finite values of at most 65504 expected for q8_0", x * (0 / 0), "q8_0"},
      {"finite values of at most 65504 expected for q5_1", x * 1e6, "q5_1"},
    } do
      assert.matches(case[1], message(heed.quantize, case[2], case[3]))
    end
    assert.matches("float type expected for q4_0, got q8_0; x:to%(\"float32\"%) gives one",
                   message(x.to, heed.quantize(x, "q8_0"), "q4_0"))
    local p = heed.randn(2, 32, {requires_grad = true})
    assert.matches("it requires grad", message(p.to, p, "q8_0"))
    assert.equal("q8_0", heed.no_grad(p.to, p, "q8_0").dtype)
    assert.matches("which is only read", message(x.to, x, "q3_k"))
  end)
end)


describe("a tensor of blocks", function()
  local q, x

  before_each(function()
    q = heed.quantize(heed.randn(6, 64), "q4_0")
    x = q:to("float32")
  end)

  local function same(view, wanted)
    assert.equal("q4_0", view.dtype)
    assert.is_true(view:to("float32"):equal(wanted))
    assert.is_true(view:to("float64"):equal(wanted:double()))
  end

  it("has views of whole rows", function()
    same(q[2], x[2])
    same(q[{{2, 5, 2}}], x[{{2, 5, 2}}])
    same(q:narrow(1, 3, 2), x:narrow(1, 3, 2))
    same(q:view(12, 32), x:view(12, 32))
    same(q:view(-1), x:view(-1))
    same(q:reshape(2, 3, 64):transpose(1, 2), x:reshape(2, 3, 64):transpose(1, 2))
    same(q:unsqueeze(1):unsqueeze(4):squeeze(1), x:unsqueeze(3))
    same(q:t(), x:t())
    same(q:t()[{{}, 4}], x:t()[{{}, 4}])
    same(q:reshape(2, 3, 64):permute(2, 1, 3):clone(), x:reshape(2, 3, 64):permute(2, 1, 3))
    same(q:reshape(2, 3, 64):transpose(1, 2):contiguous(), x:reshape(2, 3, 64):transpose(1, 2))
    same(q:index_select(1, heed.tensor{6, 1, -1}), x:index_select(1, heed.tensor{6, 1, -1}))
    same(q:narrow(2, 33, 32), x:narrow(2, 33, 32))
  end)

  it("has no views of parts of a block", function()
    for _, f in ipairs{
      function() return q[1][3] end, function() return q:narrow(2, 17, 32) end,
      function() return q:view(24, 16) end, function() return q:select(2, 1) end,
      function() return q:view(2, 3, 64):permute(3, 1, 2):reshape(64, 6):contiguous() end,
      function() return q:t():clone() end, function() return q:index_select(2, heed.tensor{1}) end,
    } do
      local why = message(f)
      assert.is_truthy(why:find("whole", 1, true) or why:find("a multiple of 32", 1, true), why)
    end
  end)

  it("is copied as blocks where its rows lie along the last dimension, and else refused", function()
    local path = os.tmpname()
    for _, name in ipairs{"q8_0", "q4_0"} do
      local square = heed.quantize(heed.randn(2, 32, 32), name)
      local turned = square:transpose(2, 3)
      for where, f in next, {
        clone = turned.clone, contiguous = turned.contiguous, data = turned.data,
        flatten = function() return turned:flatten(1, 2) end,
        reshape = function() return turned:reshape(64, 32) end,
        save = function() return heed.save(path, {w = turned}) end,
      } do
        assert.matches(("%s: rows of type %s stay whole, and lie along dimension 2 of the shape "
                        .. "%%(2, 32, 32%%), not along the last one"):format(where, name),
                       message(f, turned))
      end
      assert.is_true(turned:to("float32"):equal(square:to("float32"):transpose(2, 3)))
      assert.equal(square:data(), turned:transpose(2, 3):data())
      local swapped = square:transpose(1, 2)
      assert.equal(swapped:clone():data(), swapped:data())
      assert.is_true(swapped:clone():to("float32"):equal(square:to("float32"):transpose(1, 2)))
      local empty = heed.quantize(heed.zeros(0, 32), name):t()
      assert.equal("", empty:data())
    end
    os.remove(path)
  end)

  it("is no argument of what is captured, but may be found by it", function()
    local w = heed.quantize(heed.randn(8, 64), "q4_0")
    local given = heed.capture(heed.linear)
    assert.matches("capture: values expected in arguments, got blocks of type q4_0",
                   message(given, heed.randn(2, 64), w))
    local found = heed.capture(function(a) return heed.linear(a, w) end)
    for _ = 1, 3 do
      local a = heed.randn(2, 64)
      assert.is_true(found(a):equal(heed.linear(a, w)))
    end
  end)

  it("is printed, listed and read as its values", function()
    assert.equal((tostring(x):gsub("float32", "q4_0")), tostring(q))
    assert.same(x:totable(), q:totable())
    local large = heed.quantize(heed.randn(40, 64), "q8_0")
    assert.equal((tostring(large:to("float32")):gsub("float32", "q8_0")), tostring(large))
    assert.equal((tostring(large:t():to("float32")):gsub("float32", "q8_0")), tostring(large:t()))
  end)

  it("is never changed", function()
    local before = q:data()
    for _, f in ipairs{
      function() q:zero_() end, function() q:copy_(x) end, function() q[1] = 0 end,
      function() q:copy_(q:clone()) end, function() q:add_(1) end, function() q:uniform_() end,
      function() q:requires_grad_() end,
    } do
      local why = message(f)
      assert.is_truthy(why:find("q4_0", 1, true), why)
    end
    assert.equal(before, q:data())
  end)

  -- The rows of ops.def that take blocks, beside those that have no tensor first.
  local TAKES <const> = {
    clone = true, contiguous = true, flatten = true, index_select = true, movedim = true,
    narrow = true, permute = true, reshape = true, select = true, slice = true, squeeze = true,
    t = true, to = true, transpose = true, unflatten = true, unsqueeze = true, view = true,
  }

  it("is refused by name by each operation that does not take it", function()
    local public, internal = heed.core.public, heed.core
    local tries = {{q}, {q, 1}, {q, q}, {q, 1, q}, {q, q, q}, {q, 1, 1}, {q, 1, q, q}, {q, {1}},
                   {q, {1}, q}}
    for _, row in ipairs(rows.list) do
      local f, refused = public[row.name] or internal[row.name], false
      local has_tensor = row.elementwise or row.text:find("^%u+%([%w_]+,%s*TARGET%(")
                         or row.text:find("^%u+%([%w_]+,%s*TENSORS?%(")
      for _, given in ipairs(has_tensor and not TAKES[row.name] and tries or {}) do
        local good, why = pcall(f, table.unpack(given))
        assert.is_false(good, row.name)
        refused = refused or why:find("blocks of type q4_0", 1, true) ~= nil
      end
      assert.is_true(refused or not has_tensor or TAKES[row.name] == true, row.name)
    end
    for _, name in ipairs{"exp", "softmax", "sum", "gather", "cumsum", "sort", "norm", "max"} do
      assert.matches("argument 'input': values expected, got blocks of type q4_0; "
                     .. 'x:to%("float32"%)',
                     message(public[name], q, name ~= "exp" and 1 or nil), name)
    end
    for _, f in ipairs{
      function() return heed.cat{q, q} end, function() return heed.stack{q, q} end,
      function() return heed.einsum("ij,kj->ik", x, q) end, function() return x + q end,
      function() return q:matmul(x:t()) end, function() return heed.linear(q, x) end,
      function() return heed.linear(x, x, q[1]) end, function() return q:eq(q) end,
      function() return heed.where(q, q, q) end, function() return heed.attention(q, q, q) end,
    } do
      assert.matches("values expected, got blocks of type q4_0", message(f))
    end
    assert.matches("a type of values expected, got q4_0", message(heed.zeros, 2, 32, "q4_0"))
  end)

  it("is converted to the same bits on every level", function()
    for name, row in next, blocks do
      local w = row.written and heed.quantize(heed.randn(5, 768), name)
                or assert(heed.load("spec/golden/gguf/" .. name .. ".gguf"))["t.3x256"]
      local wanted = w:to "float32"
      on_each_level(function(level)
        assert.is_true(w:to("float32"):equal(wanted), level .. " " .. name)
      end)
    end
  end)

  it("is a weight of products, on every level: exact, and the same in any batch", function()
    on_each_level(function(level)
      for name, row in next, blocks do
        local n = row.elements == 256 and 768 or 416
        local w = row.written and heed.quantize(heed.randn(9, n), name)
                  or assert(heed.load("spec/golden/gguf/" .. name .. ".gguf"))["t.3x256"]
        n = w:size(2)
        local a, bias = heed.randn(19, n), heed.randn(w:size(1))
        local wide = w:to("float32")
        local wanted = heed.linear(a, wide, bias)
        local y = heed.linear(a, w, bias)
        assert.is_true(far(y, wanted) < 1e-6, level .. name)
        assert.is_true(far(a:matmul(w:t()), a:matmul(wide:t())) < 1e-6)
        assert.is_true(far(heed.randn(3, 2, w:size(1)):mul(0):add(1):matmul(w),
                           heed.ones(3, 2, w:size(1)):matmul(wide)) < 1e-6)
        heed.matmul_precision "high"
        local rounded = heed.linear(a, w, bias)
        local one = heed.linear(a[7], w, bias)
        heed.matmul_precision "highest"
        local e = far(rounded, wanted)
        assert.is_true(e < ROUNDED and e > (on_cpu and 1e-5 or -1),
                       ("%s %s: %g"):format(level, name, e))
        assert.is_true(one:equal(on_cpu and rounded[7] or heed.linear(a[7], w, bias)))
        local few = on_cpu and y or heed.linear(a[{{1, 8}}], w, bias)
        assert.is_true(heed.linear(a[7], w, bias):equal(few[7]), level .. name)
        assert.is_true(heed.linear(a[{{2, 8}}], w, bias):equal(few[{{2, 8}}]), level .. name)
        heed.threads(1)
        assert.is_true(heed.linear(a, w, bias):equal(y))
        heed.threads(2)
        assert.is_true(heed.linear(a, w, bias):equal(y))
      end
    end)
  end)

  it("has the same rows whatever stands beside them, for all sizes of tiles", function()
    on_each_level(function(level)
      for _, case in ipairs{
        {"q4_0", {64, 384, 448, 576}}, {"q5_1", {32, 288, 320, 384, 1024}}, {"q6_k", {256, 768}},
        {"q8_0", {64, 448, 512}}, {"q4_1", {320}}, {"q5_0", {192}},
      } do
        local name, sizes = table.unpack(case)
        for _, n in ipairs(sizes) do
          for _, columns in ipairs{1, 2, 31, 33, 70} do
            local w, a = heed.quantize(heed.randn(columns, n), name), heed.randn(30, n)
            local bias = columns % 2 == 1 and heed.randn(columns) or nil
            for _, precision in ipairs{"highest", "high"} do
              heed.matmul_precision(precision)
              local what = ("%s %s %s (%d, %d)"):format(level, precision, name, columns, n)
              local y = heed.linear(a, w, bias)
              local few = on_cpu and y or heed.cat{y[{{1, 3}}], heed.linear(a[{{4, 11}}], w, bias)}
              for _, m in ipairs(on_cpu and {1, 3, 4, 5, 8, 11, 12, 13} or {1, 3, 5}) do
                local some = heed.linear(a[{{4, 3 + m}}], w, bias)
                assert.is_true(some:equal(few[{{4, 3 + m}}]), what)
              end
              heed.matmul_precision "highest"
              assert.is_true(far(y, heed.linear(a, w:to("float32"), bias)) < ROUNDED, what)
            end
          end
        end
      end
    end)
  end)

  it("gives gradients to what it is multiplied with, those of its values", function()
    for _, name in ipairs{"q8_0", "q4_1", "q6_k"} do
      local w = heed.quantize(heed.randn(7, 512), name)
      local wide = w:to("float32")
      for _, shape in ipairs{{512}, {3, 512}, {2, 11, 512}} do
        local function gradient(f, weight)
          heed.manual_seed(3)
          local a = heed.randn(shape, {requires_grad = true})
          f(a, weight):square():sum():backward()
          return a.grad
        end
        local function product(a, weight) return a:matmul(weight:t()) end
        assert.is_true(far(gradient(heed.linear, w), gradient(heed.linear, wide)) < 1e-5)
        assert.is_true(far(gradient(product, w), gradient(product, wide)) < 1e-5)
      end
      local a = heed.randn(4, 512, {requires_grad = true, dtype = "bfloat16"})
      local y = heed.linear(a, w)
      assert.equal("bfloat16", y.dtype)
      y:sum():backward()
      assert.equal("bfloat16", a.grad.dtype)
      assert.is_true(far(a.grad:float(), wide:sum(1):expand(4, 512)) < 0.01)
    end
  end)

  local if_cpu = on_cpu and it or pending
  if_cpu("rounds activations to the nearest of 8 bits, halves away from zero", function()
    local below = 0x1.fffffep-2
    local w = heed.quantize(heed.eye(32), "q8_0")
    local a, wanted = heed.zeros(5, 32), heed.zeros(5, 32)
    for i, row in ipairs{{127, 127}, {below, 0}, {-below, 0}, {0.5, 1}, {-0.5, -1}, {2.5, 3},
                         {2.4999998, 2}, {-126.5, -127}} do
      a[{{}, i}], wanted[{{}, i}] = row[1], row[2]
    end
    on_each_level(function(level)
      heed.matmul_precision "high"
      local all, one = heed.linear(a, w), heed.linear(a[2], w)
      heed.matmul_precision "highest"
      assert.is_true((all - wanted):abs():max():item() < 0.05, level)
      assert.is_true(one:equal(all[2]), level)
    end)
  end)

  it("turns what is not finite into NaN where it is rounded", function()
    heed.matmul_precision "high"
    local y = heed.linear(heed.tensor{{1, 1 / 0}, {1, 0 / 0}, {1, 1}}:repeat_interleave(32, 2), q)
    heed.matmul_precision "highest"
    assert.is_true(y[1]:isnan():all() and y[2]:isnan():all() and y[3]:isfinite():all())
  end)

  it("is refused beside types that float32 does not hold, and in other shapes", function()
    assert.matches("argument 'input': float32, .* or bfloat16 expected beside q4_0, got float64",
                   message(heed.linear, heed.randn(2, 64, {dtype = "float64"}), q))
    assert.matches("the last sizes of both", message(heed.linear, heed.randn(2, 32), q))
    assert.matches("a tensor of rank 2 expected", message(heed.matmul, heed.randn(2, 64),
                                                          q:view(2, 3, 64)))
    assert.equal("(0, 6)", tostring(heed.linear(heed.randn(0, 64), q).shape))
  end)

  it("is saved, and loaded again, also mapped", function()
    local path = os.tmpname()
    local sixes = heed.quantize(heed.randn(3, 512), "q6_k")
    local all = {q = q, rows = q[{{2, 3}}], sixes = sixes, x = x}
    assert(heed.save(path, all, {about = "it"}))
    for _, mapped in ipairs{false, true} do
      local tensors, metadata = assert(heed.load(path, {mapped = mapped, verify = true}))
      assert.same({about = "it"}, metadata)
      for name, t in next, all do
        assert.equal(t.dtype, tensors[name].dtype)
        assert.equal(tostring(t.shape), tostring(tensors[name].shape))
        assert.equal(t:contiguous():data(), tensors[name]:data())
      end
    end
    local why = message(heed.save, path, all, {["heed.blocks"] = "{}"})
    assert.matches("heed.blocks belongs to heed", why)
    for _, case in ipairs{
      {"an object expected", "[]"}, {"unknown type \"q9\"", '{"x":"q9"}'},
      {"in multiples of 34", '{"x":"q8_0"}'}, {"there is no tensor \"y\"", '{"y":"q4_0"}'},
      {"unknown type \"7\"", '{"x":7}'},
    } do
      local header = heed.core and require("heed.files.json").encode{
        __metadata__ = {["heed.blocks"] = case[2]},
        x = {dtype = "U8", shape = {2, 18}, data_offsets = {0, 36}},
      }
      local file = assert(io.open(path, "wb"))
      file:write(string.pack("<s8", header), ("\0"):rep(36))
      file:close()
      local found, reason = heed.load(path)
      assert.is_nil(found)
      assert.matches(case[1], reason)
    end
    -- More bytes than one copy takes to a GPU, at an odd place of the file.
    local bytes = ("0123456789abc"):rep(117185):sub(1, 1400 * 1088)
    local odd = require("heed.files.json").encode{
      __metadata__ = {["heed.blocks"] = '{"y":"q8_0"}'},
      x = {dtype = "U8", shape = {3}, data_offsets = {0, 3}},
      y = {dtype = "U8", shape = {1400, 1088}, data_offsets = {3, 3 + #bytes}},
    }
    local file = assert(io.open(path, "wb"))
    file:write(string.pack("<s8", odd), "abc", bytes)
    file:close()
    for _, mapped in ipairs{true, false} do
      local y = assert(heed.load(path, {mapped = mapped})).y:to(heed.default_device())
      assert.equal(q.device, y.device)
      assert.is_true(bytes == y:data())
    end
    os.remove(path)
  end)

  it("is a table of rows", function()
    local ids = heed.tensor{{1, 6}, {3, 3}}
    local y = heed.embedding(ids, q)
    assert.equal("float32", y.dtype)
    assert.is_true(y:equal(heed.embedding(ids, x)))
    assert.matches("7", message(heed.embedding, heed.tensor{7}, q))
    assert.matches("it is transposed", message(heed.embedding, ids, q:t()))
  end)
end)


describe("module:quantize", function()
  local Model = nn.Module:extend("Model")
  function Model:init()
    self.embed = nn.Embedding(10, 64)
    self.first = nn.Linear(64, 64)
    self.norm = nn.LayerNorm(64)
    self.second = nn.Linear(64, 33)
    self.third = nn.Linear(33, 10)
    self.head = nn.Linear(64, 10, {bias = false})
    self.head.weight = self.embed.weight
  end
  function Model:forward(ids)
    local x = self.norm(self.first(self.embed(ids)))
    return self.head(x) + self.third(self.second(x))
  end

  it("puts weights of linear layers and embeddings into blocks, and says which stay", function()
    local m, ids = Model(), heed.tensor{{1, 5}, {9, 2}}
    local wanted = m(ids)
    local kept = m:quantize("q8_0")
    assert.same({["third.weight"] = "rows of 33 elements, no multiple of 32"}, kept)
    assert.equal("q8_0", m.first.weight.dtype)
    assert.equal("q8_0", m.embed.weight.dtype)
    assert.is_true(rawequal(m.head.weight, m.embed.weight))
    assert.equal("float32", m.norm.weight.dtype)
    assert.is_false(m.first.weight.requires_grad)
    assert.is_true(far(m(ids), wanted) < 0.02)
    m(ids):sum():backward()
    assert.is_truthy(m.norm.weight.grad)
    local same, frozen = m:freeze():freeze(false)
    assert.is_true(rawequal(m, same) and m.norm.weight.requires_grad)
    assert.same({"in blocks of type q8_0", nil}, {frozen["first.weight"], frozen["norm.weight"]})
    assert.is_nil(select(2, m:freeze()))
    local bare = nn.Linear(32, 32, {bias = false})
    bare:quantize "q8_0"
    assert.matches("freeze: weights that can be trained expected, but weight is in blocks of type "
                   .. "q8_0, and so are all others", message(bare.freeze, bare, false))
    for _, dtype in ipairs{"bfloat16", "float16", "float64"} do
      assert.matches("to: float32 expected beside embed.weight in blocks of q8_0, whose rows are "
                     .. "float32, got '" .. dtype .. "'$", message(m.to, m, "cpu", dtype))
    end
    assert.equal("q8_0", m:to("cpu", "float32").first.weight.dtype)
    assert.matches("Linear%(64, 64%) +weight %(64, 64%) q8_0 frozen", tostring(m))
  end)

  it("names the weight that blocks cannot hold, and leaves the module", function()
    local m = Model()
    heed.no_grad(function() m.second.weight[1][1] = math.huge end)
    assert.matches(" quantize: second.weight: finite values of at most 65504 expected for q8_0",
                   message(m.quantize, m, "q8_0"))
    assert.equal("float32", m.first.weight.dtype)
    assert.same({weight = "rows of 33 elements, no multiple of 32"},
                nn.Linear(33, 2):quantize("q8_0"))
    assert.same({weight = "option except names it"},
                nn.Linear(32, 2):quantize("q8_0", {except = {"weight"}}))
  end)

  it("leaves what is named, and what shares it", function()
    local m = Model()
    local kept = m:quantize("q4_0", {except = {"head", "first.weight"}})
    assert.equal("option except names it", kept["head.weight"])
    assert.equal("option except names it", kept["first.weight"])
    assert.equal("float32", m.embed.weight.dtype)
    assert.equal("q4_0", m.second.weight.dtype)
    assert.is_true(m.embed.weight.requires_grad)
    assert.matches("no linear layer or embedding is called 'tail'",
                   message(m.quantize, m, "q4_0", {except = {"tail"}}))
    assert.matches("names of layers expected as option except, got 3",
                   message(m.quantize, m, "q4_0", {except = {3}}))
    assert.matches("a list of names expected as option except, got the string 'head'",
                   message(m.quantize, m, "q4_0", {except = "head"}))
    assert.matches("unknown option 'exept'", message(m.quantize, m, "q4_0", {exept = {}}))
    assert.matches("expected as type, got 'q7'", message(m.quantize, m, "q7"))
  end)

  it("makes modules that load states of the same types, also of files, and no others", function()
    local ids, path = heed.tensor{{1, 5}, {9, 2}}, os.tmpname()
    local m, other, third = Model(), Model(), Model()
    for _, model in ipairs{m, other} do model:quantize("q4_0") end
    third:quantize("q8_0")
    local run = heed.capture(function(x) return m(x) end)
    for _ = 1, 3 do heed.no_grad(run, ids) end
    local before, wanted = m.first.weight:data(), heed.no_grad(other, ids)
    assert.matches("first.weight: q4_0 %(.-%) expected, got q8_0",
                   message(m.load_state, m, third:state()))
    assert.equal(before, m.first.weight:data())
    assert.equal(m, m:load_state(other:state()))
    assert.is_false(m.first.weight.requires_grad)
    assert.is_true(rawequal(m.head.weight, m.embed.weight))
    assert.is_true(heed.no_grad(m, ids):equal(wanted))
    assert.is_true(heed.no_grad(run, ids):equal(wanted))
    assert(heed.save(path, other:state()))
    m = Model()
    m:quantize("q4_0")
    m:load_state((heed.load(path, {mapped = true})))
    os.remove(path)
    assert.is_true(heed.no_grad(m, ids):equal(wanted))
  end)

  it("leaves no other floats beside a table in blocks, whose rows are float32", function()
    local ids = heed.tensor{{1, 5}, {9, 2}}
    local m = Model():to("bfloat16")
    local opt = heed.optim.Adam(m:parameters(), {lr = 0.01})
    local norm = m.norm.weight
    m(ids):sum():backward()
    m:quantize("q8_0")
    assert.same({"float32", "float32"}, {norm.dtype, norm.grad.dtype})
    assert.is_true(norm.requires_grad)
    assert.equal("float32", m(ids).dtype)
    opt:step()
    m = Model():to("float64")
    m:quantize("q8_0")
    assert.equal("float32", m(ids).dtype)
    m = Model():to("bfloat16")
    m:quantize("q8_0", {except = {"head", "embed"}})
    assert.equal("bfloat16", m.norm.weight.dtype)
    assert.equal("q8_0", m.first.weight.dtype)
    assert.equal("bfloat16", m(ids).dtype)
  end)

  it("is what models.load gives where option quantize asks for it", function()
    local ids = heed.tensor{{5, 9, 2}}
    for _, path in ipairs{"models/llama3", "models/st/bert_concat", "gguf/llama.gguf"} do
      path = "spec/golden/" .. path
      local m, kept = heed.models.load(path, {quantize = "q4_0"})
      local other = assert(heed.models.load(path))
      assert.same(other:quantize "q4_0", kept)
      for name, p in other:named_parameters() do
        assert.equal(p.dtype, m:state()[name].dtype, name)
      end
      assert.is_true(heed.no_grad(m.hidden, m, ids):equal(heed.no_grad(other.hidden, other, ids)))
    end
    local half = assert(heed.models.load("spec/golden/models/qwen2", {quantize = "q8_0"}))
    assert.equal("float32", half.body.layers[1].attend.query.bias.dtype)
    assert.equal("float32", heed.no_grad(half, ids).dtype)
    assert.matches("float32 expected as option dtype beside quantize, got bfloat16",
                   message(heed.models.load, "spec/golden/models/qwen2",
                           {quantize = "q8_0", dtype = "bfloat16"}))
    local plain, none = heed.models.load "spec/golden/models/llama3"
    assert.equal("float32", plain.words.weight.dtype)
    assert.is_nil(none)
    assert.matches("models.load: one of q4_0, .* expected as type, got 'q9'",
                   message(heed.models.load, "spec/golden/models/llama3", {quantize = "q9"}))
    assert.matches("expected as type, got false",
                   message(heed.models.load, "spec/golden/models/llama3", {quantize = false}))
  end)

  it("is a base for adapters, with the gradients of its values", function()
    local function adapted(change)
      heed.manual_seed(5)
      local m = nn.Sequential{nn.Linear(64, 96), nn.Linear(96, 8)}
      m:quantize("q8_0")
      change(m)
      local lora = nn.lora(m, {rank = 4, targets = {"1", "2"}})
      for _, p in ipairs(lora:parameters()) do heed.no_grad(p.uniform_, p, -0.1, 0.1) end
      return m, lora
    end
    local m, lora = adapted(function() end)
    local other, same_lora = adapted(function(model)
      for _, p in ipairs(model:parameters()) do
        if p.dtype == "q8_0" then p:set_(p:to("float32")) end
      end
    end)
    local x, y = heed.randn(5, 64), heed.tensor{1, 2, 3, 4, 5}
    for _, model in ipairs{m, other} do heed.cross_entropy(model(x), y):backward() end
    local wanted = same_lora:parameters()
    for i, p in ipairs(lora:parameters()) do
      assert.is_true(far(p.grad, wanted[i].grad) < 1e-4, i)
    end
    local before = m(x)
    lora:merge()
    assert.is_true(far(m(x), before) < 1e-5)
  end)
end)
