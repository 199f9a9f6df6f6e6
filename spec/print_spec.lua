-- Tensors as text.

local heed = require "heed"
local message = require "spec.support.message"
local device = require "spec.support.device"

local function text(...) return tostring(heed.tensor(...)) end


describe("a printed matrix", function()
  setup(device.cpu)
  teardown(device.back)

  it("has aligned columns, and says what it is below", function()
    assert.equal("   1.0000  -2.0000\n" ..
                 "   3.0000   4.5000\n[float32 (2, 2) cpu]", text{{1, -2}, {3, 4.5}})
    assert.equal("  10.0000  -0.1250\n[float64 (1, 2) cpu]",
                 text({{10, -0.125}}, {dtype = "float64"}))
  end)

  it("has no decimals where all numbers are whole", function()
    assert.equal("    1  -20\n   30    4\n[int64 (2, 2) cpu]", text{{1, -20}, {30, 4}})
    assert.equal("    1  -20\n[float32 (1, 2) cpu]", text{{1.0, -20}})
    assert.equal("  255\n[uint8 (1, 1) cpu]", text({{255}}, {dtype = "uint8"}))
    assert.equal("  -9223372036854775808\n[int64 (1, 1) cpu]", text{{math.mininteger}})
  end)

  it("shows bools as words", function()
    assert.equal("   true  false\n[bool (1, 2) cpu]", text{{true, false}})
  end)

  it("aligns NaN and infinities with the rest", function()
    assert.equal("  1.5000     inf\n    -inf     nan\n[float32 (2, 2) cpu]",
                 text{{1.5, math.huge}, {-math.huge, 0 / 0}})
    assert.equal("  nan  inf\n[float32 (1, 2) cpu]", text{{0 / 0, math.huge}})
  end)

  it("that is too wide stands in blocks of columns", function()
    local lines = {}
    for line in tostring(heed.arange(40):reshape(2, 20) + 0.5):gmatch("[^\n]+") do
      lines[#lines + 1] = line
      assert.is_true(#line <= 80)
    end
    assert.equal("columns 1 to 8:", lines[1])
    assert.matches("^ +1%.5000 +2%.5000 .* 8%.5000$", lines[2])
    assert.equal("columns 17 to 20:", lines[7])
    assert.equal("[float32 (2, 20) cpu]", lines[#lines])
    assert.equal(10, #lines)
  end)

  it("wants a gradient visibly", function()
    assert.matches("%[float32 %(1, 1%) cpu grad%]$", text({{1}}, {requires_grad = true,
                                                                  dtype = "float32"}))
    local w = heed.ones(2, {requires_grad = true})
    assert.matches("grad%]$", tostring(w * 2))
    assert.equal("1  1 [float32 (2) cpu]", tostring(w:detach()))
  end)
end)


describe("a printed vector", function()
  setup(device.cpu)
  teardown(device.back)

  after_each(function() heed.printoptions{width = 80, edge = 3} end)

  it("stands on one line with its footer where it fits the width", function()
    assert.equal(" 1   2  30 [int64 (3) cpu]", text{1, 2, 30})
    assert.equal(" 0.5000  -1.2500 [float32 (2) cpu]", text{0.5, -1.25})
    heed.printoptions{width = 22}
    assert.equal("0.5000  1.5000  2.5000 [float32 (3) cpu]", text{0.5, 1.5, 2.5})
  end)

  it("goes on in further lines where it does not", function()
    heed.printoptions{width = 21}
    assert.equal("0.5000  1.5000\n2.5000\n[float32 (3) cpu]", text{0.5, 1.5, 2.5})
    assert.equal("    0.5000000000000\n    1.5000000000000\n[float32 (2) cpu]",
                 heed.tensor{0.5, 1.5}:format("%19.13f"))
    heed.printoptions{width = 80}
    for line in tostring(heed.randn(300)):gmatch("[^\n]+") do assert.is_true(#line <= 80) end
  end)

  it("wraps its summary, too", function()
    heed.printoptions{width = 20, edge = 5}
    assert.equal("   1     2     3\n   4     5   ...\n1997  1998  1999\n2000  2001\n" ..
                 "[int64 (2001) cpu]", tostring(heed.arange(2001)))
  end)

  it("of no elements is its footer", function()
    assert.equal("[float32 (0) cpu]", tostring(heed.zeros(0)))
    assert.equal("[float32 (2, 0, 3) cpu]", tostring(heed.zeros(2, 0, 3)))
  end)
end)


describe("a printed tensor without axes", function()
  setup(device.cpu)
  teardown(device.back)

  it("is its number", function()
    assert.equal("0.5000", text(0.5))
    assert.equal("-7", text(-7))
    assert.equal("true", text(true))
    assert.equal("nan", (text(0 / 0):gsub("^-", "")))
    assert.equal("-inf", text(-math.huge))
    assert.equal("12345678.0000", text(12345678.0))
    assert.equal("1.2346e+09", text(1234567890.0))
    assert.equal("-1.0000e-05", text(-0.00001))
    assert.equal("99999.0000", text(99999.0))
    assert.equal("0.0001", text(0.0001))
    assert.equal("0.0000", text(0.0))
  end)

  it("joins text", function()
    assert.equal("loss 0.2500", "loss " .. heed.tensor(0.25))
    assert.equal("0.2500!", heed.tensor(0.25) .. "!")
    assert.equal("0.25001", heed.tensor(0.25) .. 1)
  end)
end)


describe("a printed tensor of many axes", function()
  setup(device.cpu)
  teardown(device.back)

  it("is shown slice by slice", function()
    assert.equal("(1, ., .) =\n  1  2\n(2, ., .) =\n  3  4\n[int64 (2, 1, 2) cpu]",
                 text{{{1, 2}}, {{3, 4}}})
    local four = tostring(heed.arange(4):reshape(2, 2, 1, 1))
    assert.matches("^%(1, 1, %., %.%) =\n  1\n%(1, 2, %., %.%) =\n  2\n%(2, 1", four)
  end)
end)


-- The rule is PyTorch's: sizes that differ more than a thousandfold, or lie beyond 1e-4 and 1e8.
describe("exponents", function()
  setup(device.cpu)
  teardown(device.back)

  it("stand where four digits would hide small numbers among large ones", function()
    assert.equal("3.0824e-01  3.0549e-04  6.9145e-01 [float32 (3) cpu]",
                 text{0.30824, 0.00030549, 0.69145})
    assert.equal("0.0010  1.0000 [float32 (2) cpu]", text{0.001001, 1.0})
    assert.equal("9.9900e-04  1.0000e+00 [float32 (2) cpu]", text{0.000999, 1.0})
    assert.equal("   5.0000e-01  -1.0000e+09\n   1.2500e+00   0.0000e+00\n[float32 (2, 2) cpu]",
                 text{{0.5, -1e9}, {1.25, 0}})
    assert.equal("2.0000e-04  9.0005e+03 [float32 (2) cpu]", text{2e-4, 9000.5})
    assert.equal("1234567.5000     1500.5000 [float32 (2) cpu]", text{1234567.5, 1500.5})
  end)

  it("stand for what is too small or too large for them", function()
    assert.equal("1.0000e-05  -2.5000e-05 [float32 (2) cpu]", (text{1e-5, -2.5e-5}:gsub("^ +", "")))
    assert.equal("2.0000e-05         nan  1.5000e-04 [float32 (3) cpu]", text{2e-5, 0 / 0, 1.5e-4})
    assert.equal("1.0000e-05 [float32 (1) cpu]", text{1e-5})
    assert.equal("5.0001e+09 [float32 (1) cpu]", text{5000050000.0})
    assert.equal("1.5000e-320 [float64 (1) cpu]", text({1.5e-320}, {dtype = "float64"}))
    assert.equal("100000000.5000  1.0000e+08",
                 heed.tensor(1e8 + 0.5, {dtype = "float64"}):format("%.4f") .. "  " ..
                 heed.tensor(1e8 + 0.5, {dtype = "float64"}))
  end)

  it("stand nowhere else", function()
    assert.equal("99999.5000 [float32 (1) cpu]", text{99999.5})
    assert.equal("0.0001  0.0002 [float32 (2) cpu]", text{1e-4, 2e-4})
    assert.equal("100000  250000 [float32 (2) cpu]", text{1e5, 2.5e5})
    assert.equal("     1  250000 [float32 (2) cpu]", text{1.0, 2.5e5})
    assert.equal("0  0 [float32 (2) cpu]", tostring(heed.zeros(2)))
    assert.equal("inf [float32 (1) cpu]", text{math.huge})
    assert.equal("0.0000  0.5000     inf [float32 (3) cpu]", text{0, 0.5, math.huge})
  end)
end)


describe("exponents and digits change", function()
  setup(device.cpu)
  teardown(device.back)

  local function body(...)
    return (tostring(heed.tensor({...}, {dtype = "float64"})):match("^ *(.-) *%["))
  end

  it("at the numbers of the rule", function()
    assert.equal("99999999.5000  99999998.5000", body(1e8 - 0.5, 1e8 - 1.5))
    assert.equal("1.0000e+08  1.0000e+08", body(1e8 + 0.5, 1e8))
    assert.equal("0.5000  500.0000", body(0.5, 500))
    assert.equal("5.0000e-01  5.0010e+02", body(0.5, 500.1))
    assert.equal("0.0010  1.0000", body(0.001, 1))
    assert.equal("1.0000e-03  1.0001e+00", body(0.001, 1.0001))
    assert.equal("0.0001  0.0500", body(0.9999999e-4, 0.05))
    assert.equal("9.9999e-05  5.0000e-02", body(0.99999e-4, 0.05))
    assert.equal("999999999          1", body(999999999, 1))
    assert.equal("1.0000e+09  1.0000e+00", body(1e9, 1))
    assert.equal("-1.0000e+09   1.0000e+00", body(-1e9, 1))
    assert.equal("100000000.0000", tostring(heed.tensor(100000000.0)))
    assert.equal("9.0000e-05", tostring(heed.tensor(0.00009)))
  end)

  it("by a format of one float, of sixteen letters at most", function()
    local x = heed.tensor{1.5}
    for format, wanted in pairs{
      ["%f"] = "1.500000", ["%.3f"] = "1.500", ["%.f"] = "2", ["%e"] = "1.500000e+00",
      ["%E"] = "1.500000E+00", ["%F"] = "1.500000", ["%g"] = "1.5", ["%G"] = "1.5",
      ["%-+ #0f"] = "+1.500000", ["%-+ #0-+ #0-+ #f"] = "+1.500000", ["%9.1f"] = "      1.5",
      ["%99.99f"] = "1.5" .. ("0"):rep(98),
    } do assert.equal(wanted .. " [float32 (1) cpu]", x:format(format)) end
    for _, bad in ipairs{"%100f", "%.100f", "%5", "%", "f", "", "%ff", "%d", "%s", "%1.2.3f", "%a",
                         "%-+ #0-+ #0-+ #0f", "%f%f"} do
      assert.matches("format: a format of one float such as '%.3f' expected, got the string '"
                     .. bad .. "'", message(x.format, x, bad), 1, true)
    end
    assert.matches("got a string with a zero byte$", message(x.format, x, "%f\0"))
    assert.matches("got 5$", message(x.format, x, 5))
  end)

  it("by options within their bounds", function()
    for name, range in pairs{precision = {0, 17}, width = {20, 10000}, edge = {1, 100}} do
      local wanted = ("printoptions: argument '%s': a number from %d to %d expected, got "):format(
        name, range[1], range[2])
      for _, bad in ipairs{range[1] - 1, range[2] + 1, -1, 1 << 40} do
        assert.matches(wanted .. bad, message(heed.printoptions, {[name] = bad}), 1, true)
      end
      for _, good in ipairs(range) do heed.printoptions{[name] = good} end
    end
    heed.printoptions{precision = 0}
    assert.equal("2 [float32 (1) cpu]", tostring(heed.tensor{1.5}))
    heed.printoptions{precision = 4, width = 80, edge = 3}
  end)
end)


describe("a large tensor", function()
  setup(device.cpu)
  teardown(device.back)

  it("is summarised by its ends", function()
    local big = tostring(heed.arange(1000000):reshape(1000, 1000))
    assert.equal(8, select(2, big:gsub("\n", "\n")) + 1)
    assert.matches("^ +1 +2 +3  %.%.%. +998 +999 +1000\n", big)
    assert.matches("\n  %.%.%.\n", big)
    assert.matches("999998 +999999 +1000000\n%[int64 %(1000, 1000%) cpu%]$", big)
    assert.matches("^ +1 +2 +3  %.%.%. +4998 +4999 +5000 %[", tostring(heed.arange(5000)))
  end)

  it("names the slices as they are", function()
    local big = tostring(heed.zeros(50, 30, 20))
    assert.matches("%(3, %., %.%) =.-\n%.%.%.\n%(48, %., %.%) =", big)
    assert.is_nil(big:find("(4, ., .)", 1, true))
  end)

  it("of which no machine could hold a copy is read where it is shown", function()
    local big = tostring(heed.arange(3):reshape(3, 1):expand(3, 1 << 40))
    assert.matches("^ +1 +1 +1  %.%.%. +1 +1 +1\n +2 .*\n +3 .*\n%[int64 %(3, 1099511627776%)", big)
    big = tostring(heed.zeros(1, 1):expand(1000, 1 << 40))
    assert.matches("\n  %.%.%.\n.*%[float32 %(1000, 1099511627776%) cpu%]$", big)
    assert.matches("%(1099511627776, 0%)", tostring(heed.zeros(1, 0):expand(1 << 40, 0)))
  end)

  it("adds nothing to its graph", function()
    local w = heed.ones(2000, {requires_grad = true})
    local nodes = heed.graph_nodes()
    assert.matches("grad%]$", tostring(w))
    assert.equal(nodes, heed.graph_nodes())
  end)
end)


describe("format", function()
  setup(device.cpu)
  teardown(device.back)

  it("writes floats by a format", function()
    assert.equal("0.333  1.000 [float32 (2) cpu]", heed.tensor{1 / 3, 1}:format("%.3f"))
    assert.equal("1e+01 [float32 (1) cpu]", heed.tensor{12.0}:format("%.0e"))
    assert.equal("0.10", heed.tensor(0.1):format("%.2f"))
    assert.equal("3.00 [int64 (1) cpu]", heed.tensor{3}:format("%.2f"))
    assert.equal(309 + 1 + 99, #heed.tensor(1.797e308, {dtype = "float64"}):format("%99.99f"))
  end)

  it("takes one float and nothing else", function()
    local x = heed.tensor{1.0}
    for _, format in ipairs {"%d", "%s", "%", "", "f", "%f%f", "%.3f ", "%*f", "%n", "%.999f",
                             "%999f", "%lf", "%f\0%s", "%'f"} do
      assert.error_matches(function() x:format(format) end, "format: .*expected")
    end
    assert.error_matches(function() x:format() end, "format")
    assert.error_matches(function() x:format(3) end, "format")
  end)
end)


describe("printoptions", function()
  setup(device.cpu)
  teardown(device.back)

  after_each(function() heed.printoptions{precision = 4, width = 80, edge = 3} end)

  it("set digits, the width of a matrix and the edge of a summary", function()
    heed.printoptions{precision = 2}
    assert.equal("0.33 [float32 (1) cpu]", text{1 / 3})
    assert.equal("0.33", text(1 / 3))
    heed.printoptions{width = 20}
    assert.matches("^columns 1 to 3:", text{{0.5, 1, 2, 3}})
    assert.matches("^columns 1 to 1:\n +1%.0\ncolumns 2 to 2:\n +2%.0\n%[",
                   heed.tensor{{1.0, 2.0}}:format "%30.1f")
    assert.equal("2.51e+06  1.50e+03 [float32 (2) cpu]", text{2505000.5, 1500.5})
    heed.printoptions{edge = 1}
    assert.matches("^ +1  %.%.%. +2000 %[", tostring(heed.arange(2000)))
  end)

  it("are refused when they make no sense", function()
    for _, wrong in ipairs {{precision = -1}, {precision = 18}, {width = 5}, {edge = 0},
                            {edge = 1.5}, {precision = "4"}, {colour = true}, {3}} do
      assert.error_matches(function() heed.printoptions(wrong) end, "printoptions")
    end
    assert.error_matches(function() heed.printoptions() end, "printoptions")
    assert.equal("0.3333 [float32 (1) cpu]", text{1 / 3})
  end)
end)


describe("a shape", function()
  setup(device.cpu)
  teardown(device.back)

  it("prints as sizes in parentheses", function()
    assert.equal("(2, 3)", tostring(heed.zeros(2, 3).shape))
    assert.equal("(3)", tostring(heed.zeros(3).shape))
    assert.equal("()", tostring(heed.tensor(1).shape))
  end)

  it("is the script's own table, which may hold anything", function()
    local shape = heed.zeros(2, 3).shape
    shape[1] = {}
    shape[2] = print
    assert.matches("^%(table: .*, function: ", tostring(shape))
    assert.is_false(getmetatable(shape))
  end)
end)


describe("a printed module", function()
  it("counts the numbers of parameters, and of nothing else", function()
    local m = heed.nn.Module()
    m.weight = heed.nn.Parameter(heed.zeros(3))
    m.mean, m.plain = heed.nn.Buffer(heed.zeros(2)), heed.zeros(4)
    assert.equal("Module weight (3) mean (2) 3", (tostring(m):gsub(" +", " ")))
  end)
end)


describe("other objects that are printed", function()
  it("say what they are", function()
    local batches = heed.data.batches(heed.zeros(5, 1), {size = 2})
    assert.equal("batches of 2 of 5 examples", tostring(batches))
    assert.equal("schedule of plateaus, factor = 1", tostring(heed.optim.plateau()))
    local tok = assert(heed.tokenizer.load "spec/golden/tokenizers/bpe_gpt2")
    assert.equal("heed.Tokenizer.Stream", tostring(tok:stream()))
  end)

  it("show a mask as a picture of its rows, or of a square where it has one row", function()
    for rows, wanted in pairs{
      [1] = "\n  ■ · ·\n  ■ · ·\n  ■ · ·", [2] = "\n  ■ · ·\n  ■ ■ ·",
      [3] = "\n  ■ · ·\n  ■ ■ ·\n  ■ ■ ■",
    } do
      local may = heed.ones(3, 3):tril():narrow(1, 1, rows):gt(0)
      assert.equal(wanted, tostring(heed.mask.tensor(may)):match "\n.*")
    end
  end)
end)


describe("a printed tensor of blocks", function()
  setup(device.cpu)
  teardown(device.back)

  it("becomes numbers at its corners alone", function()
    local q = heed.quantize(heed.zeros(1024, 4096), "q8_0")
    local wanted = tostring(heed.zeros(1024, 4096)):gsub("float32", "q8_0")
    collectgarbage()
    local now, limit = heed.memory(), heed.memory().limit
    heed.memory{limit = now.live + now.other + (4 << 20)}
    local good, got = pcall(tostring, q)
    heed.memory{limit = limit}
    assert.is_true(good, got)
    assert.equal(wanted, got)
  end)
end)


describe("a released tensor", function()
  setup(device.cpu)
  teardown(device.back)

  it("can still be printed", function()
    local x = heed.zeros(2)
    x:release()
    assert.equal("[released tensor]", tostring(x))
    assert.equal("x: [released tensor]", "x: " .. x)
  end)
end)


describe("a printed module", function()
  it("shows the types that are not float32", function()
    local m = heed.nn.Sequential{heed.nn.Linear(64, 100), heed.nn.Linear(100, 10)}
    m:quantize("q4_0")
    assert.matches("Linear%(64, 100%) +weight %(100, 64%) q4_0 frozen  bias %(100%)", tostring(m))
    assert.matches("Linear%(100, 10%) +weight %(10, 100%)  bias %(10%)", tostring(m))
    assert.matches("weight %(2, 2%) bfloat16  bias %(2%) bfloat16 ",
                   tostring(heed.nn.Linear(2, 2):to "bfloat16"))
  end)
end)
