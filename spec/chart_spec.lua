-- Charts and grids of heed.plot: histograms, points, bars, logarithmic axes, pictures of heads.

local close = require "spec.support.close"
local heed = require "heed"
local plot = require "heed.plot"
local gnuplot = require "heed.plot.gnuplot"

local nan, inf <const> = 0 / 0, math.huge

local function refuses(message, f, ...)
  local good, why = pcall(f, ...)
  assert.is_false(good, message)
  assert.is_truthy(tostring(why):find(message, 1, true), why)
end

-- An expected picture without the spaces that its first line begins with.
local function unindent(text)
  local margin = text:match "^ *"
  return (("\n" .. text):gsub("\n" .. margin, "\n"):gsub("\n *$", ""):sub(2))
end

local function lines_of(picture, columns, in_colour)
  local lines = {}
  for line in (picture:text(in_colour or false, columns) .. "\n"):gmatch "([^\n]*)\n" do
    lines[#lines + 1] = line
  end
  return lines
end

-- The numbers of a histogram's bins, as it draws them.
local function counts_of(picture)
  local list = {}
  for k, box in ipairs(picture.lines[1][1].series[1].boxes) do list[k] = box.value end
  return list
end

-- The data that gnuplot is given for a picture of one series.
local function data_of(picture)
  return gnuplot.script(picture, "png", "out"):match "<< EOD\n(.-)EOD\n"
end


describe("a histogram", function()
  it("counts numbers in bins of equal width; the last one has both of its ends", function()
    assert.are.equal(unindent [[
      values
      how often
      3|            ******
       |            ******
       |            ******
       |******      ******
       |******      ******
       |******      ******
       |******************
       |******************
       |******************
      0|******************
       +------------------
        0       x        3
    ]], plot.hist({0, 0.5, 1, 2, 2, 3}, {bins = 3, title = "values", x = "x", y = "how often"})
          :text(false, 20))
  end)

  it("takes lists, and tensors of each type and layout", function()
    local x = heed.tensor{{3, 0, 1}, {1, 1, 2}}
    local expected = {1, 3, 1, 1}
    assert.are.same(expected, counts_of(plot.hist({3, 0, 1, true, 1, 2}, {bins = 4})))
    for _, dtype in ipairs{"float64", "float16", "bfloat16", "int64", "uint8"} do
      assert.are.same(expected, counts_of(plot.hist(x:to(dtype), {bins = 4})))
    end
    assert.are.same(expected, counts_of(plot.hist(x.T, {bins = 4})))
    assert.are.same({5, 1}, counts_of(plot.hist(x:eq(2), {bins = 2})))
    assert.are.same({0, 4}, counts_of(plot.hist(heed.ones(1):expand(4), {bins = 2})))
    local w = x:to("float32"):requires_grad_()
    assert.are.same(expected, counts_of(plot.hist(w * 1, {bins = 4})))
  end)

  it("says which numbers are in no bin", function()
    local p = plot.hist({nan, 1, 2, inf, -inf, 5, 6, nan, 1e308}, {min = 1, max = 5, bins = 2})
    assert.are.same({2, 1}, counts_of(p))
    local lines = lines_of(p, 60)
    assert.are.equal("left out: 2 NaN, 3 infinite, 1 outside", lines[#lines])
    assert.matches('"left out\\072 \\062 NaN', gnuplot.script(p, "png", "out"), 1, true)
    p = plot.hist({-1, 0, 1, 10}, {log = "x", bins = 2})
    assert.are.same({1, 1}, counts_of(p))
    assert.matches("left out: 2 not above 0", p:text(false, 60), 1, true)
    assert.is_nil(plot.hist{1, 2}:text(false, 60):find "left out")
  end)

  it("keeps to a bound that no number lies beyond", function()
    local function bins_of(list, o)
      local p = plot.hist(list, o)
      local boxes, sum = p.lines[1][1].series[1].boxes, 0
      for _, box in ipairs(boxes) do sum = sum + box.value end
      return {boxes[1].low, boxes[#boxes].high, sum}, p:text(false, 60):match "left out: [^\n]*"
    end
    local out = "left out: 3 outside"
    for _, case in ipairs{
      {{min = 5}, {5, 7.5, 0}, out}, {{max = 0}, {-0.5, 0, 0}, out}, {{min = 3}, {3, 4.5, 1}},
      {{max = 1}, {0.5, 1, 1}}, {{min = 5, log = "x"}, {5, 10, 0}, out},
      {{max = 0.5, log = "x"}, {0.25, 0.5, 0}, out}, {{min = 2, max = 2}, {1, 3, 1}},
      {{min = 5, max = 5}, {2.5, 7.5, 0}, out},
    } do
      local o, wanted, note = table.unpack(case)
      o.bins = 5
      local got, said = bins_of({1, 2, 3}, o)
      assert.are.same(wanted, got)
      assert.are.equal(note or "left out: 2 outside", said)
    end
  end)

  it("has powers of ten in bins of equal width on a logarithmic axis", function()
    local p = plot.hist({1, 3, 10, 40, 100, 1000}, {log = "x", bins = 3})
    assert.are.same({2, 2, 2}, counts_of(p))
    local boxes = p.lines[1][1].series[1].boxes
    assert.is_true(close(boxes[2].low, 10, 1e-12) and close(boxes[2].high, 100, 1e-12))
    assert.matches("set logscale x\n", gnuplot.script(p, "png", "out"), 1, true)
  end)

  it("has straight lines on a logarithmic axis, and a gap at 0", function()
    local rows = 0
    for stars in tostring(plot.curve({1, 0.1, 0.01, 0.001}, {log = "y"})):gmatch "%*+" do
      rows = rows + 1
      assert.is_true(#stars >= 4 and #stars <= 8, stars)
    end
    assert.equal(10, rows)
    local _, stars = tostring(plot.curve({1, 0, 0.01}, {log = "y"})):gsub("%*", "")
    assert.equal(2, stars)
  end)

  it("shows a count of 1 on a logarithmic axis, and none of 0", function()
    local list = {1, 3}
    for i = 3, 1000 do list[i] = 1 end
    local p = plot.hist(list, {log = "y", bins = 3})
    local lines = lines_of(p, 20)
    assert.are.equal("0.5|*****      *****", lines[10])
    assert.are.equal("999|*****", lines[1])
    assert.matches("\n1%.666%d* 2%.333%d* 0%.5 0%.5\n", data_of(p))
  end)

  it("survives any numbers, and no more than it can draw", function()
    for _, list in ipairs{{nan}, {inf}, {0}, {5e-324}, {1e299, -1e299}, {7, 7, 7}, {-1}} do
      for _, log in ipairs{"x", "y", "xy"} do
        for _, o in ipairs{{}, {log = log}} do
          local p = plot.hist(list, o)
          assert.is_string(p:text(true, 40))
          assert.is_nil(data_of(p):find "[^%d%s.e+-]", data_of(p))
        end
      end
    end
    assert.matches("\n66 bars share a column", plot.hist({1, 2}, {bins = 1500}):text(false, 25), 1,
                   true)
  end)

  it("has ends without digits that are negligible between them", function()
    assert.matches("\n  0 +12%.3$", plot.hist({0.0012, 12.3456}):text(false, 40))
  end)

  it("counts a million numbers", function()
    heed.manual_seed(3)
    local list, sum = counts_of(plot.hist(heed.rand(1000, 1000), {bins = 10})), 0
    for _, n in ipairs(list) do
      assert.is_true(close(n, 1e5, 0.02))
      sum = sum + n
    end
    assert.are.equal(1e6, sum)
  end)

  it("refuses what it does not take", function()
    refuses("hist: a list of numbers expected, got 3", plot.hist, 3)
    refuses("hist: a list with numbers expected, got an empty one", plot.hist, {})
    refuses("hist: numbers expected, got an empty tensor", plot.hist, heed.zeros(0, 3))
    refuses("hist: a number expected, got the string 'a'", plot.hist, {"a"})
    refuses("hist: a whole number of at least 1 expected as option bins", plot.hist, {1},
            {bins = 0})
    refuses("hist: at most 10000 expected as option bins, got 10001", plot.hist, {1},
            {bins = 10001})
    refuses("'x', 'y' or 'xy' expected as option log, got true", plot.hist, {1}, {log = true})
    refuses("above 0 expected as option min beside a logarithmic axis, got 0", plot.hist, {1},
            {log = "x", min = 0})
    refuses("hist: min <= max expected", plot.hist, {1}, {min = 3, max = 2})
    refuses("did you mean 'bins'", plot.hist, {1}, {bin = 3})
    refuses("hist: at most 2 arguments", plot.hist, {1}, {}, 3)
  end)
end)


describe("a chart of points", function()
  it("has points where their coordinates are, in the letter of their class", function()
    assert.are.equal(unindent [[
      9|                 o
       |
       |
       |         +
       |
       |
       |
       |
       |
      0|*                *
       +------------------
        0                2
      * 1  o 2  + c
    ]], plot.scatter({0, 1, 2, 2}, {0, 6, 9, 0}, {classes = {1, 4, 2, 1}, labels = {[4] = "c"}})
          :text(false, 20))
  end)

  it("takes tensors, and leaves out what has no place", function()
    local x = heed.tensor({1, nan, 3, inf}, {requires_grad = true})
    local p = plot.scatter(x * 1, heed.tensor({1, 2, 3, 4}, {dtype = "int64"}))
    assert.are.equal("1.0 1.0\n3.0 3.0\n", data_of(p))
    assert.matches("\nleft out: 2$", p:text(false, 40))
    assert.are.equal(2, select(2, p:text(false, 40):gsub("%*", "")))
    p = plot.scatter({0.1, 1, 10, -1}, {1, 2, 3, 4}, {log = "x"})
    assert.are.equal(3, select(2, p:text(false, 40):gsub("%*", "")))
    assert.are.equal(3, select(2, data_of(p):gsub("\n", "")))
    local lines = lines_of(p, 23)                  -- powers of ten are equally far apart
    assert.are.same({"3|                    *", "1|*"}, {lines[1], lines[10]})
    assert.is_truthy(lines[5]:find("^ |          %*$") or lines[6]:find("^ |          %*$"))
  end)

  it("draws points beyond the bounds of y nowhere", function()
    local p = plot.scatter({1, 2, 3}, {0, 50, 100}, {max = 60, min = -10})
    assert.are.equal(2, select(2, p:text(false, 40):gsub("%*", "")))
  end)

  it("takes integers as bounds that are further apart than an integer can say", function()
    local function with(min, max)
      return plot.scatter({1, 2}, {0, 1}, {min = min, max = max}):text(false, 40)
    end
    assert.equal(with(-0x1p63, 0x1p63), with(math.mininteger, math.maxinteger))
  end)

  it("draws nothing in the middle where all numbers are beyond one bound", function()
    for _, bounds in ipairs{{min = 200}, {max = -5}} do
      for _, p in ipairs{plot.scatter({1, 2, 3}, {0, 50, 100}, bounds),
                         plot.curve({0, 50, 100}, bounds)} do
        assert.is_nil(p:text(false, 40):find("*", 1, true))
      end
    end
  end)

  it("gives gnuplot one point for those that share a pixel", function()
    heed.manual_seed(1)
    local p = plot.scatter(heed.rand(200000), heed.zeros(200000))
    local _, n = data_of(p):gsub("\n", "")
    assert.is_true(n > 500 and n <= 681, n)
  end)

  it("refuses what it does not take", function()
    refuses("scatter: as many numbers in y as in x expected, got 3 and 2", plot.scatter, {1, 2},
            {1, 2, 3})
    refuses("scatter: a vector expected", plot.scatter, heed.zeros(2, 2), {1})
    refuses("scatter: 2 classes expected, as there are points, got 1", plot.scatter, {1, 2}, {1, 2},
            {classes = {1}})
    refuses("scatter: a whole number of at least 1 expected as class 2, got 0", plot.scatter,
            {1, 2}, {1, 2}, {classes = {1, 0}})
    refuses("scatter: a list of numbers expected, got nil", plot.scatter, {1, 2})
    refuses("'class'", plot.scatter, {1}, {1}, {class = {1}})
    refuses("scatter: at most 3 arguments", plot.scatter, {1}, {1}, {}, 4)
  end)
end)


describe("a chart of bars", function()
  it("has a bar from 0 for each number, above or below its name", function()
    assert.are.equal(unindent [[
      top
       3| ************
        | ************
        | ************
        | ************
        | ************
        | ************
        | ************
        | ************  ************
        |               ************
      -1|               ************
        +----------------------------
               up           down
    ]], plot.bars({3, -1}, {columns = {"up", "down"}, y = "top"}):text(false, 32))
  end)

  it("has those of several lists beside each other, with their names", function()
    local lines = lines_of(plot.bars({{1, 2}, {2, 1}}, {labels = {"a", "b"}}), 24)
    assert.is_truthy(lines[1]:find("^2| +o+ +%*+$"), lines[1])
    assert.is_truthy(lines[10]:find("^0| +%*+o+ +%*+o+$"), lines[10])
    assert.are.equal("* a  o b", lines[#lines])
    assert.is_truthy(lines[#lines - 1]:find("^  1 +2$"))
  end)

  it("leaves a gap at NaN and infinities, and begins at 0 or at min", function()
    local p = plot.bars{5, nan, inf, 4}
    assert.are.equal(0.0, p.lines[1][1].y.min)
    local lines = lines_of(p, 30)
    assert.is_truthy(lines[10]:find("^0| *%*+ +%*+$"), lines[10])
    assert.matches("\n1%.6 2%.4%d* 0%.0 0%.0\n2%.6 3%.4%d* 0%.0 0%.0\n", data_of(p))
    assert.is_truthy(lines_of(plot.bars({5, 6}, {min = 4}), 30)[10]:find "^4| *%*+ +%*+$")
    for _, list in ipairs{{0}, {nan}, {-1}, {1e299, -1e299}} do
      assert.is_string(plot.bars(list):text(true, 30))
      assert.is_string(gnuplot.script(plot.bars(list), "svg", "out"))
    end
  end)

  it("lies behind its name, with its number, where that is longer than a bar is wide", function()
    local names = {"up the road", "down", "nothing", "lost"}
    local p = plot.bars({3, -1, 0, nan}, {columns = names, title = "ways", y = "top"})
    assert.are.equal(unindent [[
      ways
      up the road|     **************  3
             down|******              -1
          nothing|                     0
             lost|
                 +-------------------
                  -1      top       3
    ]], p:text(false, 34))
    local ends = lines_of(plot.bars({-1, 234567}, {columns = {"a long name", "b"}}), 20)[4]
    assert.equal("           0 2.35e+~", ends)
    local coloured = lines_of(p, 34, true)
    assert.equal(7, #coloured)
    assert.matches("up the road│ +\27.*\u{283f}.*  3$", coloured[2])
    local function first_names(...)
      local list = {}
      for _, line in ipairs(lines_of(plot.bars(...), 20)) do
        list[#list + 1] = line:match "^ *(.-)|"
      end
      return table.concat(list, " ")
    end
    assert.equal("~ers.query ~yers.key_",
                 first_names({1, 2}, {columns = {"layers.layers.query", "layers.layers.key_"}}))
    assert.equal("layers.lay a", first_names({1, 2}, {columns = {"layers.layers", "a"}}))
    assert.equal("a23456789 b", first_names({1, 2}, {columns = {"a23456789", "b"}}))
    assert.equal(12, #lines_of(plot.bars({1, 2}, {columns = {"a2345678", "b"}}), 20))
    names = {}
    for i = 1, 25 do names[i] = "bar " .. i end
    local ones = heed.ones(25)
    assert.equal(11 + 6, #lines_of(plot.bars(ones, {columns = names}), 60))
    names[25] = nil
    assert.equal(24 + 2, #lines_of(plot.bars(ones:narrow(1, 1, 24), {columns = names}), 60))
  end)

  it("has a title below it where blanks fit around that", function()
    local p = plot.scatter({-12345.678, -12345.679}, {-1e-5, 2e-5}, {x = "t"})
    local function last(columns) return p:text(false, columns):match "([^\n]*)$" end
    assert.equal("       -1.235e+04   -1.235e+04", last(30))
    assert.equal("       -1.235e+04 t  -1.235e+04", last(31))
  end)

  it("stands beside another one where both have 30 columns", function()
    local p = plot.row{plot.curve({1, 2}, {title = "a"}), plot.curve({1, 2}, {title = "b"})}
    assert.is_nil(lines_of(p, 62)[1]:find "b")
    assert.is_number(lines_of(p, 63)[1]:find "b")
  end)

  it("has long names downwards, and numbers where there are more bars than columns", function()
    local p = plot.bars({{1, 2, 3}, {3, 2, 1}}, {columns = {"a", "a very long name", "c"}})
    local lines = lines_of(p, 20)
    assert.are.equal(11 + 12, #lines)
    assert.matches("rotate by 90 right", gnuplot.script(p, "png", "out"), 1, true)
    local function downwards(names)
      local text = {}
      for k, line in ipairs(lines_of(plot.bars({{1, 2, 3}, {1, 2, 3}}, {columns = names}), 16)) do
        if k > 11 then text[#text + 1] = line:gsub("%s", "") end
      end
      return table.concat(text)
    end
    assert.equal("abcdefghijklx", downwards{"abcdefghijklm", "", "x"})
    assert.equal("~~gghhiijjkkllmmnnoopqpq",
                 downwards{"abcdefghijklmnopp", "abcdefghijklmnoqq", ""})
    lines = lines_of(plot.bars(heed.rand(100), {x = "row", columns = heed.arange(100)}), 30)
    assert.is_truthy(lines[12]:find("^ +1 +row +100$"), lines[12])
    local many = {x = ("rows "):rep(9), columns = heed.arange(100)}
    lines = lines_of(plot.bars(heed.rand(100), many), 30)
    assert.is_truthy(lines[12]:find("^ +1 rows [rows ]+~ 100$"), lines[12])
    assert.is_truthy(lines[13]:find("^%d bars share a column$"), lines[13])
  end)

  it("refuses what it does not take", function()
    refuses("bars: lists of equal length expected, got 2 and 1", plot.bars, {{1, 2}, {1}})
    refuses("bars: a list of 2 labels expected as option columns, got 1", plot.bars, {1, 2},
            {columns = {1}})
    refuses("bars: a list of names expected as option labels", plot.bars, {1}, {labels = "a"})
    refuses("bars: at most 1 labels expected, got 2", plot.bars, {1, 2}, {labels = {"a", "b"}})
    refuses("bars: a list with numbers expected", plot.bars, {})
    refuses("bars: a vector expected", plot.bars, heed.zeros(2, 2))
    refuses("'log'", plot.bars, {1}, {log = "y"})
  end)
end)


describe("a curve with logarithmic axes", function()
  it("is a line where it falls by powers of ten", function()
    local list = {}
    for i = 1, 10 do list[i] = 10.0 ^ -i end
    local lines = lines_of(plot.curve(list, {log = "y"}), 45)
    for i = 1, 10 do
      local middle = (4 * i - 2) + #"  0.1|"
      assert.are.equal("*", lines[i]:sub(middle, middle), table.concat(lines, "\n"))
    end
  end)

  it("is one, too, where both axes are logarithmic", function()
    local list, places = {}, {}
    for i = 1, 1000 do list[i] = 1 / i end
    local lines = lines_of(plot.curve(list, {log = "xy"}), 46)
    for i = 1, 10 do places[i] = lines[i]:find "*" end
    for i = 2, 10 do
      assert.is_true(close(places[i], places[i - 1] + 4, 0, 2), table.concat(lines, "\n"))
    end
    assert.matches("^ +1 +1000$", lines[12])
  end)

  it("leaves gaps at numbers up to 0, and none of them sets its bounds", function()
    local p = plot.curve({100, 0, -5, 1}, {log = "y", smooth = 1})
    local panel = p.lines[1][1]
    assert.are.same({1.0, 100.0}, {panel.y.min, panel.y.max})
    assert.are.equal("1 100 100 100 100\n2 NaN NaN NaN NaN\n3 NaN NaN NaN NaN\n4 1 1 1 1\n",
                     (data_of(p):gsub("%.0", "")))
    for _, list in ipairs{{0}, {-1, -2}, {nan}, {1}, {5e-324, 1e299}} do
      for _, log in ipairs{"x", "y", "xy", "yx"} do
        assert.is_string(plot.curve(list, {log = log}):text(true, 40))
        assert.is_nil(gnuplot.script(plot.curve(list, {log = log}), "png", "o"):find "nan]")
      end
    end
  end)

  it("begins at the first step that has a number", function()
    local p = plot.curve({{1, 2}, {1, 2}}, {every = {20, 10}, log = "x"})
    assert.are.same({10, 40}, {p.lines[1][1].x.min, p.lines[1][1].x.max})
    assert.are.equal(0, plot.curve({1, 2}, {every = 10}).lines[1][1].x.min)
  end)

  it("refuses bounds that it has no place for", function()
    refuses("curve: 'x', 'y' or 'xy' expected as option log, got the string 'z'", plot.curve, {1},
            {log = "z"})
    refuses("above 0 expected as option max beside a logarithmic axis, got -1", plot.curve, {1},
            {log = "y", max = -1})
  end)
end)


describe("a grid", function()
  local weights = heed.arange(24):to("float32"):view(3, 2, 4)

  it("has a heat map for each head, all of one scale", function()
    assert.are.equal(unindent [[
      heads

      [1]              [2]
      ....::::         ======++
      ::------         ++******
      1 .:-=+*#%@ 24   1 .:-=+*#%@ 24

      [3]
      ######%%
      %%%%@@@@
      1 .:-=+*#%@ 24
    ]], plot.grid(weights, {title = "heads"}):text(false, 40))
  end)

  it("has the batch downwards and the heads across of a tensor of rank 4", function()
    for shape, wanted in pairs{[{3, 2, 2, 2}] = {3, 2}, [{1, 6, 2, 2}] = {1, 6},
                               [{7, 3, 2}] = {3, 3}} do
      local lines = plot.grid(heed.ones(shape)).lines
      assert.same(wanted, {#lines, #lines[1]})
    end
    local p = plot.grid(weights:view(1, 3, 2, 4):expand(2, 3, 2, 4))
    assert.are.equal(2, #p.lines)
    assert.are.equal(3, #p.lines[2])
    assert.are.equal("[2, 3]", p.lines[2][3].title)
    assert.are.same(weights[3]:totable(), p.lines[2][3].values)
  end)

  it("hands the options of heat maps to each, and takes lists of matrices", function()
    local o = {rows = {"a", "b"}, columns = {1, 2, 3, 4}, titles = {"x", "y", "z"}, cells = "%.0f",
               mark = function(i, j) return i == j end, across = 3, min = 0, max = 9}
    local p = plot.grid({weights[1], weights[2]:totable(), weights[3]}, o)
    for h, panel in ipairs(p.lines[1]) do
      local alone = plot.heat(weights[h], {rows = o.rows, columns = o.columns, cells = "%.0f",
                                           mark = o.mark, min = 0, max = 9, title = o.titles[h]})
      assert.are.same(alone.lines[1][1], panel)
    end
  end)

  it("takes pictures, whose columns stand below each other", function()
    local one, wide = plot.heat{{1, 2}}, plot.heat{{1, 2, 3, 4, 5, 6, 7, 8, 9}}
    local lines = lines_of(plot.grid({one, one, wide, one}, {across = 2}), 60)
    assert.are.equal(lines[1]:find("%S", 10), lines[4]:find("%S", 21))
    assert.are.equal(2, #plot.grid{plot.row{one, wide}, one}.lines)
    local charts = lines_of(plot.grid({plot.curve{1, 2}, plot.hist{1, 2}}, {across = 2}), 80)
    assert.matches("|.*|", charts[1])
  end)

  it("is drawn line by line by gnuplot, its columns on one edge", function()
    local p = plot.grid(weights, {title = "50%", across = 2})
    local script = gnuplot.script(p, "svg", "out")
    local left, top = {}, {}
    for x in script:gmatch "set lmargin at screen (%S+);" do left[#left + 1] = x end
    for y in script:gmatch "set tmargin at screen (%S+);" do top[#top + 1] = y end
    assert.are.equal(3, #left)
    assert.are.equal(left[1], left[3])
    assert.are_not.equal(left[1], left[2])
    assert.are.equal(top[1], top[2])
    assert.is_true(tonumber(top[3]) < tonumber(top[1]))
    assert.matches('set label "\\065\\060\\045" at screen', script, 1, true)
  end)

  it("refuses what it does not take", function()
    refuses("grid: a tensor of rank 3 or 4 with elements expected, got a tensor of shape (2, 4)",
            plot.grid, weights[1])
    refuses("grid: a tensor of rank 3 or 4 with elements expected", plot.grid, heed.zeros(0, 2, 2))
    refuses("grid: a tensor of rank 3 or 4 or a list of pictures expected, got 5", plot.grid, 5)
    refuses("grid: a tensor of rank 3 or 4 or a list of pictures", plot.grid, {})
    refuses("grid: a matrix expected at [2], got 3", plot.grid, {weights[1], 3})
    refuses("grid: an entry expected at position 1", plot.grid, {nil, weights[1]})
    refuses("grid: a picture expected at [2], got 3", plot.grid, {plot.heat{{1}}, 3})
    refuses("grid: option rows is one of matrices, but pictures are given", plot.grid,
            {plot.heat{{1}}}, {rows = {1}})
    refuses("grid: a list of 3 labels expected as option titles, got 1", plot.grid, weights,
            {titles = {1}})
    refuses("grid: a whole number of at least 1 expected as option across", plot.grid, weights,
            {across = 0})
    refuses("did you mean 'across'", plot.grid, weights, {acros = 1})
    local grid = plot.grid(weights)
    refuses("row: a picture of one line expected at [1], got a grid", plot.row, {grid})
    refuses("grid: a picture of one line expected at [1], got a grid", plot.grid, {grid})
  end)
end)


describe("gnuplot", function()
  it("draws a number that no line leads to as a point", function()
    local values = {1, 2, nan, 3, nan, nan, 4, 5, inf, 6}
    local function column(picture)
      local list = {}
      for last in data_of(picture):gmatch "(%S+)\n" do list[#list + 1] = tonumber(last) or "-" end
      return list
    end
    local picture = plot.curve(values, {smooth = 1})
    assert.same({"-", "-", "-", 3, "-", "-", "-", "-", "-", 6}, column(picture))
    local points = "using 1:5 with points pt 7 ps 0.5 lc rgb '#%x+' notitle, "
    assert.matches(points .. "%S+ using 1:4 with lines", gnuplot.script(picture, "png", "out"))
    assert.same({7}, column(plot.curve{7}))
    assert.same({"-", "-"}, column(plot.curve{7, 8}))
    assert.is_nil(gnuplot.script(plot.curve{7, 8}, "png", "out"):find("using 1:5", 1, true))
    local many, lone = {}, 0
    for k = 1, 3000 do many[k] = k == 1500 and 1 or nan end
    many[1], many[2] = 0, 2
    for _, value in ipairs(column(plot.curve(many, {smooth = 1}))) do
      if value ~= "-" then lone = lone + 1 end
    end
    assert.is_true(lone <= 2)
  end)

  it("draws every chart", function()
    if not os.execute "gnuplot --version >/dev/null 2>&1" then
      return pending "gnuplot is not installed"
    end
    local path = os.tmpname() .. ".svg"
    assert(plot.grid{
      plot.hist({1, nan, 3}, {log = "xy"}), plot.hist{0},
      plot.bars({1, -2}, {columns = {"%", "'"}}),
      plot.bars{{0}, {nan}}, plot.scatter({1, 2}, {nan, 1}, {classes = {1, 2}, log = "y"}),
      plot.curve({1, 0.1, 0}, {log = "xy"}), plot.heat{{1, 2}},
    }:save(path))
    os.remove(path)
  end)
end)


describe("a heat map in a file", function()
  it("has up to 8 numbers along an axis of more than 20 places", function()
    for n, first in pairs{[20] = [["\061" 1]], [40] = [["\065" 5]], [41] = [["\061\060" 10]]} do
      assert.matches("set xtics (" .. first .. ", ",
                     gnuplot.script(plot.heat(heed.ones(1, n)), "png", "out"), 1, true)
    end
  end)

  it("has a step of its scale for 34 pixels of its height", function()
    for rows, step in pairs{[4] = "5.0", [5] = "2.0", [9] = "2.0", [10] = "1.0"} do
      local list = {}
      for i = 1, rows do list[i] = {i == 1 and 0 or 10} end
      assert.matches(("\nset cbtics %s scale"):format(step),
                     gnuplot.script(plot.heat(list), "png", "out"), 1, true)
    end
    assert.matches("\nset cbtics 0.2 ", gnuplot.script(plot.heat{{0, 0.21}}, "png", "out"), 1, true)
  end)
end)


describe("a picture", function()
  it("takes so many arguments, and no more", function()
    for name, most in pairs{heat = 2, curve = 2, bars = 2, hist = 2, grid = 2, row = 1} do
      local given = name == "row" and {plot.curve{1}} or name == "heat" and {{1}}
                    or name == "grid" and {{{1}}} or {1}
      refuses(("%s: at most %d argument"):format(name, most), plot[name], given,
              table.unpack({{}, {}}, 1, most))
    end
  end)
end)
