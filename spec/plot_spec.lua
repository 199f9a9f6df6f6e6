-- Pictures: in the terminal, as scripts for gnuplot; calls that are refused.

local gnuplot = require "heed.plot.gnuplot"
local heed = require "heed"
local plot = require "heed.plot"

local nan = 0 / 0

local has_gnuplot = os.execute "gnuplot --version >/dev/null 2>&1"


local function plain(text)
  return (text:gsub("\27%[[%d;]*m", ""))
end


local function widest(text)
  local n = 0
  for line in plain(text):gmatch "[^\n]+" do n = math.max(n, utf8.len(line)) end
  return n
end


local function refuses(message, f, ...)
  local good, why = pcall(f, ...)
  assert.is_false(good)
  assert.is_truthy(tostring(why):find(message, 1, true), why)
end


-- An expected picture without the spaces that its first line begins with.
local function unindent(text)
  local margin = text:match "^ *"
  return (("\n" .. text):gsub("\n" .. margin, "\n"):gsub("\n *$", ""):sub(2))
end


describe("what a picture is not", function()
  local function why(f, ...) return select(2, pcall(f, ...)) end

  it("is no number: true and false are 1 and 0", function()
    local wanted = tostring(plot.heat{{1, 0}, {0, 1}})
    assert.equal(wanted, tostring(plot.heat{{true, false}, {false, true}}))
    assert.equal(wanted, tostring(plot.heat(heed.eye(2):gt(0))))
  end)

  it("is wider than 16 columns as a label, which is cut", function()
    local function label(n)
      return tostring(plot.heat({{1, 2}}, {rows = {("x"):rep(n)}})):match "^(x*~?) "
    end
    assert.same({"", ("x"):rep(16)}, {label(0), label(16)})
    assert.equal(("x"):rep(15) .. "~", label(17))
  end)

  it("is said with what to write", function()
    local p = plot.heat{{1, 2}}
    assert.matches("picture: there is no 'show'; write print%(picture%)",
                   why(function() p:show() end))
    assert.matches("picture: there is no 'sav'; did you mean 'save'", why(function() p:sav() end))
    assert.is_nil(p.title)
    assert.matches("heed.plot: there is no 'imshow'; write heed.plot.heat",
                   why(function() return plot.imshow end))
    assert.matches("heat: a matrix expected, .*%(2, 2, 2%); heed.plot.grid draws several",
                   why(plot.heat, heed.ones(2, 2, 2)))
    assert.matches("grid: matrices or pictures alone expected, got a tensor .* at %[1%] and a "
                   .. "picture at %[2%]", why(plot.grid, {heed.ones(2, 2), p}))
    assert.matches("curve: at most 1 labels expected, got 2",
                   why(plot.curve, {1, 2}, {labels = {"a", "b"}}))
    assert.matches("no number above 0", tostring(plot.curve({-1, -2}, {log = "y"})))
    assert.is_nil(tostring(plot.curve({-1, 2}, {log = "y"})):find "no number above 0")
  end)
end)


describe("a heat map in ASCII", function()
  it("has shades, blanks and a scale", function()
    local p = plot.heat {{0, 1}, {nan, 0.5}}
    assert.are.equal(unindent [[
      ..@@
        ++
      0 .:-=+*#%@ 1
    ]], p:text(false, 40))
  end)

  it("has labels, text in cells, and marks", function()
    local p = plot.heat({{0, 1}, {nan, 0.5}}, {
      title = "counts", rows = {"first", 2}, columns = {"a", "b"}, cells = {{2, 7}, {4, "x"}},
      mark = function(i, j) return i == j end,
    })
    assert.are.equal(unindent [[
      counts
              a    b
      first ..[2]@@ 7
          2    4 ++[x]
            0 .:-=+*#%@ 1
    ]], p:text(false, 60))
  end)

  it("has its own numbers in the cells, short or by a format", function()
    local m = heed.tensor {{0.25, 1}, {nan, 1 / 3}}
    assert.are.equal(unindent [[
      .... 0.25 @@@@@@@ 1
                :: 0.3333
      0.25 .:-=+*#%@ 1
    ]], plot.heat(m, {cells = true}):text(false, 40))
    assert.are.equal(unindent [[
      .. 0.2 @@ 1.0
             :: 0.3
      0.25 .:-=+*#%@ 1
    ]], plot.heat(m, {cells = "%.1f"}):text(false, 40))
    assert.are.equal(plot.heat(m):text(false, 40), plot.heat(m, {cells = false}):text(false, 40))
    refuses("heat: a format for 0.25, such as '%.1f', expected as option cells, got the string",
            plot.heat, m, {cells = "%d"})
  end)

  it("writes long labels downwards where they don't fit", function()
    local p = plot.heat({{1, 2, 3, 3}}, {columns = {"to", "be", "écrit", "."}, title = "a"})
    assert.are.equal(unindent [[
      a
          é
          c
          r
      t b i
      o e t .
      ..++@@@@
      1 .:-=+*#%@ 3
    ]], p:text(false, 16))
  end)

  it("takes its bounds from the options", function()
    local p = plot.heat({{-5, 0, 5}}, {min = -1, max = 1})
    assert.are.equal("..++@@\n-1 .:-=+*#%@ 1", p:text(false, 40))
  end)

  it("marks cells without text by an x", function()
    local p = plot.heat({{0, 1}}, {mark = {{true, false}}})
    assert.are.equal("..[x]@@@", p:text(false, 40):match "^[^\n ]+")
  end)

  it("averages what is too wide", function()
    local m = {}
    for i = 1, 8 do
      m[i] = {}
      for j = 1, 100 do m[i][j] = j <= 50 and 0 or 1 end
    end
    local text = plot.heat(m):text(false, 50)
    assert.is_true(widest(text) <= 50)
    assert.is_truthy(text:find("\n" .. ("%."):rep(25) .. ("@"):rep(25), 1)
      or text:find("^" .. ("%."):rep(25) .. ("@"):rep(25)))
    assert.is_truthy(text:find("mean of 1 x 2", 1, true))
    assert.are.equal(8, select(2, text:gsub("[^\n]*%.%.%.@?[^\n]*@@", "")))
  end)

  it("merges only the axis that is too long, and keeps the labels of the other", function()
    local wide, tall = {{}, {}}, {}
    for j = 1, 100 do wide[1][j], wide[2][j], tall[j] = 0, 1, {0, 1} end
    assert.are.equal(unindent [[
      zero .........................
       one @@@@@@@@@@@@@@@@@@@@@@@@@
           0 .:-=+*#%@ 1
      a cell is the mean of 1 x 4
    ]], plot.heat(wide, {rows = {"zero", "one"}, cells = true}):text(false, 30))
    local lines = {}
    local picture = plot.heat(tall, {columns = {"a", "b"}, cells = true})
    for line in picture:text(false, 30):gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.are.equal("a b", lines[1])
    assert.are.equal("..@@", lines[2])
    assert.are.equal("a cell is the mean of 2 x 1", lines[#lines])
    assert.are.equal(1 + 50 + 2, #lines)
  end)

  it("says each of up to 20 places, and some of more", function()
    local function ticks(n)
      local row = {}
      for i = 1, n do row[i] = i end
      local script = gnuplot.script(plot.heat{row}, "svg", "out")
      return select(2, script:match("set xtics (%b())"):gsub('"', "")) // 2
    end
    assert.are.same({19, 20, 4}, {ticks(19), ticks(20), ticks(21)})
  end)

  it("has texts, cells of two columns and names beside each other where they just fit", function()
    local texts, row = {}, {}
    for i = 1, 12 do texts[i], row[i] = "abc", i end
    local function first(o, columns)
      return plot.heat({row}, o):text(false, columns):match "[^\n]*"
    end
    assert.is_number(first({cells = {texts}}, 84):find("abc", 1, true))
    assert.is_nil(first({cells = {texts}}, 83):find("abc", 1, true))
    assert.equal("..::::--==++++**##%%%%@@", first(nil, 24))
    assert.equal(".::-=++*#%%@", first(nil, 23))
    local o = {columns = texts}
    assert.equal(("abc "):rep(11) .. "abc", first(o, 48))
    assert.equal("a a a a a a a a a a a a", first(o, 47))
  end)

  it("has no fewer than 20 columns", function()
    local curve = plot.curve{1, 2}
    assert.are.equal(curve:text(false, 20), curve:text(false, 1))
    assert.are_not.equal(curve:text(false, 21), curve:text(false, 20))
  end)

  it("survives numbers of all sizes", function()
    local inf = math.huge
    for _, m in ipairs {
      {{nan}}, {{inf, -inf}}, {{1e308, -1e308, 0}}, {{5e-324, 1e-323}}, {{3, 3}},
    } do
      for _, in_colour in ipairs {true, false} do
        assert.is_string(plot.heat(m):text(in_colour, 40))
      end
    end
  end)

  it("shows control characters and broken UTF-8 as what they are", function()
    local p = plot.heat({{1}}, {rows = {"\n\27[31m\xff"}, title = "a\tb"})
    local text = p:text(false, 40)
    assert.is_truthy(text:find([[\n\x1b[31m\xff]], 1, true), text)
    assert.is_truthy(text:find([[a\tb]], 1, true))
    assert.is_nil(text:find "\27")
  end)

  it("takes tensors for everything", function()
    local p = plot.heat(heed.tensor({{0, 1}}, {dtype = "float32"}), {
      cells = heed.tensor({{3, 4}}, {dtype = "int64"}), rows = heed.tensor({7}, {dtype = "int64"}),
      mark = heed.tensor({{false, true}}, {dtype = "bool"}),
    })
    assert.are.equal("7 .. 3 @@[4]", p:text(false, 40):match "^[^\n]+")
  end)
end)


describe("a heat map in colour", function()
  it("says the same", function()
    local p = plot.heat({{0, 1}}, {cells = {{2, 7}}})
    assert.are.equal(" 2  7", plain(p:text(true, 40)):match "^[^\n]-7")
  end)

  it("goes from viridis' dark end to its light one", function()
    local text = plot.heat {{0, 1}}:text(true, 40)
    assert.is_truthy(text:find("48;2;68;1;84", 1, true))
    assert.is_truthy(text:find("48;2;253;231;37", 1, true))
  end)

  it("has marked text in red on white", function()
    local text = plot.heat({{0, 1}}, {cells = {{2, 7}}, mark = {{true}}}):text(true, 40)
    assert.is_truthy(text:find("48;2;255;255;255;38;2;214;29;50m2\27", 1, true))
  end)

  it("has white text up to a brightness of 145, of 255, and dark text beyond", function()
    local text = plot.heat({{0, 0.701, 0.702, 1}}, {cells = {{2, 3, 4, 5}}}):text(true, 40)
    assert.is_truthy(text:find("48;2;71;189;111;38;2;255;255;255m", 1, true))
    assert.is_truthy(text:find("48;2;72;190;111;38;2;20;20;20m", 1, true))
  end)

  it("ends every colour that it begins", function()
    local p = plot.heat({{0, nan}, {1, 2}}, {cells = {{1, 2}, {3, 4}}, mark = {{true, true}}})
    for line in p:text(true, 60):gmatch "[^\n]+" do
      local _, begun = line:gsub("\27%[[%d;]+m", "")
      local _, ended = line:gsub("\27%[0m", "")
      assert.are.equal(begun, 2 * ended)
    end
  end)
end)


describe("a curve", function()
  it("falls where its numbers fall", function()
    local p = plot.curve({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, {x = "step", title = "loss"})
    assert.are.equal(unindent [[
      loss
      10|**
        |  **
        |    **
        |      ***
        |         **
        |           **
        |             ***
        |                **
        |                  **
       1|                    **
        +----------------------
         1       step        10
    ]], p:text(false, 25))
  end)

  it("has no labels where they do not fit", function()
    local p = plot.curve({{1, 2}, {2, 1}, {1, 1}}, {labels = {"abc", "defgh", "ijklmnopqrst"}})
    assert.is_truthy(p:text(false, 30):find("* abc  o defgh  + ijklmnopqrst", 1, true))
    assert.is_nil(p:text(false, 29):find "abc")
  end)

  it("draws the means of columns with several numbers, before their ranges", function()
    local list = {}
    for i = 1, 72 do list[i] = i <= 36 and i % 2 * 4 or 4 + i % 4 end
    assert.are.equal(unindent [[
      7|         .........
       |         .........
       |         *********
       |         *........
       |.........*........
       |.........*
       |*********
       |.........
       |.........
      0|.........
       +------------------
        1               72
    ]], plot.curve(list):text(false, 20))
  end)

  it("leaves a gap at NaN", function()
    local text = plot.curve({1, nan, nan, 1}):text(false, 24)
    assert.is_truthy(text:find("%* +%*"))
  end)

  it("names several series", function()
    local text = plot.curve({{1, 2, 3}, heed.tensor {3.5, 2.5}}, {labels = {"train", "valid"}})
      :text(false, 40)
    assert.is_truthy(text:find("* train  o valid", 1, true))
  end)

  it("counts steps between its numbers", function()
    local text = plot.curve({3, 2, 1}, {every = 100}):text(false, 40)
    assert.are.equal("300", text:match "(%d+)$")
  end)

  it("survives numbers of all sizes, and few of them", function()
    local inf = math.huge
    for _, list in ipairs {{1}, {nan}, {inf, -inf, 1}, {1e308, -1e308}, {5e-324, 0}, {2, 2, 2}} do
      for _, in_colour in ipairs {true, false} do
        local text = plot.curve(list):text(in_colour, 40)
        assert.is_true(widest(text) <= 40)
      end
    end
  end)

  it("has five colours of lines, one after the other", function()
    local p, colours = plot.curve{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}}, {}
    for colour in p:text(true, 30):gmatch "38;2;([%d;]+)m" do
      if colours[#colours] ~= colour then colours[#colours + 1] = colour end
    end
    assert.same({"58;110;196", "196;154;40", "178;80;160", "44;152;128", "221;110;60",
                 "58;110;196"}, colours)                     -- of the last line first
  end)

  it("draws a hundred thousand numbers with their range", function()
    local list = {}
    for k = 1, 100000 do list[k] = k % 2 + k / 50000 end
    local text = plot.curve(list):text(false, 60)
    assert.is_truthy(text:find("*", 1, true))
    assert.is_truthy(text:find(".", 1, true))
    assert.is_true(widest(text) <= 60)
  end)
end)


describe("a row", function()
  local p = plot.row {plot.heat({{1, 2}}, {title = "one"}), plot.heat({{1, 2}}, {title = "two"})}

  it("stands side by side where the width allows it, below where it does not", function()
    assert.is_truthy(p:text(false, 80):find "one +two")
    assert.is_truthy(p:text(false, 20):find "one\n.*\n\ntwo")
  end)

  it("gives a curve what is left", function()
    local text = plot.row {plot.heat {{1, 2}}, plot.curve {1, 2}}:text(false, 80)
    assert.is_truthy(text:match "^%.%.@@ +2|")
    assert.is_true(widest(text) > 60 and widest(text) <= 80)
  end)

  it("takes rows", function()
    assert.are.equal(p:text(false, 80), plot.row {p}:text(false, 80))
  end)

  it("is what print draws", function()
    assert.are.equal(p:text(false, math.max(20, tonumber(os.getenv "COLUMNS") or 80)), tostring(p))
    local columns, curve = math.max(20, tonumber(os.getenv "COLUMNS") or 80), plot.curve{1, 2}
    for _, last in ipairs{9, 10} do                -- one more column tells in one of these
      local wide = plot.row{plot.heat{{1, last}}, curve, curve}
      assert.equal(wide:text(false, columns), tostring(wide))
    end
  end)
end)


describe("a wrong call", function()
  it("says what was expected", function()
    refuses("a matrix expected", plot.heat, 1)
    refuses("a matrix expected", plot.heat, heed.tensor {1.5, 2})
    refuses("a matrix with elements", plot.heat, {})
    refuses("a list with numbers", plot.heat, {{}})
    refuses("a list of numbers expected", plot.heat, {1, 2})
    refuses("equal length", plot.heat, {{1, 2}, {3}})
    refuses("a number expected", plot.heat, {{"1"}})
    refuses("'rows'", plot.heat, {{1}}, {row = {}})
    refuses("1 labels expected as option rows", plot.heat, {{1}}, {rows = {1, 2}})
    refuses("option columns", plot.heat, {{1}}, {columns = "a"})
    refuses("option cells", plot.heat, {{1}}, {cells = 1})
    refuses("option mark", plot.heat, {{1}}, {mark = true})
    refuses("option min", plot.heat, {{1}}, {min = "0"})
    refuses("option max", plot.heat, {{1}}, {max = nan})
    refuses("min <= max", plot.heat, {{1}}, {min = 2, max = 1})
    refuses("a list of numbers expected", plot.curve, nil)
    refuses("a list with numbers", plot.curve, {})
    refuses("a vector expected", plot.curve, heed.tensor {{1.5}})
    refuses("option every", plot.curve, {1}, {every = 0.5})
    refuses("option smooth", plot.curve, {1}, {smooth = 0})
    refuses("option labels", plot.curve, {1}, {labels = "a"})
    refuses("a list of pictures", plot.row, {})
    refuses("a picture expected at [1]", plot.row, {1})
    refuses("curve: at most 1 numbers as option smooth expected, got 2", plot.curve, {1},
            {smooth = {1, 2}})
    local p = plot.heat {{1}}
    refuses(".png or .svg", p.save, p, "a.gif")
    refuses("a path expected", p.save, p, nil)
  end)

  it("reads lists whole, or refuses them", function()
    for name, f in pairs{curve = plot.curve, bars = plot.bars, hist = plot.hist} do
      refuses(name .. ": an entry expected at position 2, since there is one at 3, got nil", f,
              {1, nil, 3})
      refuses(name .. ": a list expected, got one with the string 'a' as a key", f, {a = 1})
    end
    refuses("curve: an entry expected at position 2", plot.curve, {{1}, nil, {3}})
    refuses("heat: an entry expected at position 2", plot.heat, {{1}, nil, {3}})
    refuses("grid: an entry expected at position 2", plot.grid, {{{1}}, nil, {{3}}})
    refuses("heat: a text or a number expected as entry 2 of option rows, got nil", plot.heat,
            {{1}, {2}, {3}}, {rows = {"a", nil, "c"}})
    refuses("curve: option labels: a list expected, got one with the string 'train' as a key",
            plot.curve, {{1}, {2}}, {labels = {train = "a"}})
  end)

  it("takes as a text what has one", function()
    refuses("curve: a text or a number expected as option x, got a table", plot.curve, {1, 2},
            {x = {10, 20}})
    refuses("curve: a text or a number expected as option x, got a tensor of shape (2)", plot.curve,
            {1, 2}, {x = heed.tensor {10, 20}})
    refuses("hist: a text or a number expected as option title, got a function", plot.hist, {1},
            {title = print})
    refuses("grid: a text or a number expected as option title", plot.grid, {{{1}}}, {title = {}})
    refuses("heat: a text or a number expected as a cell of option cells, got an empty table",
            plot.heat, {{1}}, {cells = {{{}}}})
    refuses("bars: a text or a number expected as entry 1 of option labels", plot.bars, {1},
            {labels = {{}}})
    local shape = heed.ones(2, 3).shape
    assert.matches("^%(2, 3%)\n", plot.heat({{1}}, {title = shape}):text(false))
    assert.matches("^7\n", plot.heat({{1}}, {title = heed.tensor(7)}):text(false))
  end)

  it("takes a tensor of one element as a number, and no other", function()
    assert.equal(tostring(plot.scatter({1, 2}, {3, 4})),
                 tostring(plot.scatter({heed.tensor(1), 2}, {heed.tensor{{3.0}}, 4})))
    for _, n in ipairs{0, 2} do
      refuses(("scatter: a number expected, got a tensor of shape (%d)"):format(n), plot.scatter,
              {heed.ones(n), 2}, {1, 2})
    end
  end)

  it("takes tensors of cells and marks of its own shape", function()
    for _, t in ipairs{heed.ones(1, 2), heed.ones(3, 3), heed.ones(2), heed.ones(2, 2, 2)} do
      refuses("heat: a tensor of shape (2, 2) expected as option cells, got a tensor of shape",
              plot.heat, {{1, 2}, {3, 4}}, {cells = t})
      refuses("option mark, got a tensor of shape", plot.heat, {{1, 2}, {3, 4}}, {mark = t:gt(0)})
    end
  end)
end)


describe("cells of a heat map in a file", function()
  local painter = require "heed.plot.gnuplot_heat"

  it("are squares that share the width, but where their texts are wider", function()
    local measure = painter.measure
    for n, side in pairs{[1] = 34, [12] = 34, [13] = 33, [20] = 21, [430] = 1, [600] = 1} do
      local box = measure{width = n, height = n, columns = {}}
      assert.same({side, side, n * side, n * side}, {box.cell, box.side, box.width, box.height})
      box = measure{width = n, height = 1, columns = {}}
      assert.same({side, n * side, side}, {box.cell, box.width, box.height})
    end
    local function wide(n, text)
      return measure{width = n, height = 1, columns = {}, cells = {{"", text}}}.cell
    end
    assert.same({34, 34, 34, 41.5}, {wide(2, ""), wide(2, "a"), wide(2, "ab"), wide(2, "abc")})
    assert.same({10, 24.5, 33.0}, {wide(43, ""), wide(43, "a"), wide(43, "ab")})
  end)
end)


describe("gnuplot", function()
  it("is given no character that could mean something to it", function()
    local text = "'\"`$@!;\\%{}^_~#\n"
    local p = plot.row {
      plot.heat({{1, 2}}, {title = text, rows = {text}, columns = {text, text},
        cells = {{text, text}}, mark = {{true, true}}}),
      plot.curve({{1, 2}}, {title = text, x = text, y = text, labels = {text}}),
    }
    local script = gnuplot.script(p, "png", "out")
    for quoted in script:gmatch '"([^"\n]*)"' do
      assert.is_truthy(quoted:gsub("\\%d%d%d", ""):match "^[A-Za-z ]*$", quoted)
    end
    assert.is_nil(script:find("`", 1, true))
  end)

  it("has steps of 1, 2 or 5 times a power of ten, of which six fit into a curve", function()
    for _, case in ipairs{{6, 1}, {7, 2}, {13, 5}, {31, 10}, {60, 10}, {61, 20}, {65, 20},
                          {300, 50}, {610, 200}, {3001, 1000}} do
      local script = gnuplot.script(plot.curve(heed.zeros(case[1])), "png", "out")
      assert.matches(("set xtics %d nomirror"):format(case[2]), script, 1, true)
    end
  end)

  it("draws up to 4096 cells one by one, and more as one image", function()
    local function has_image(rows)
      local script = gnuplot.script(plot.heat(heed.ones(rows, 64)), "png", "out")
      return script:find(" with image", 1, true)
    end
    assert.is_nil(has_image(64))
    assert.is_number(has_image(65))
    local script = gnuplot.script(plot.heat(heed.ones(241, 17)), "png", "out")
    assert.is_number(script:find(" with image", 1, true))               -- 4097
  end)

  it("draws up to 1500 numbers of a curve one by one, and more as at most 600 ranges", function()
    local function lines_of(n)
      local list = {}
      for i = 1, n do list[i] = i end
      local script = gnuplot.script(plot.curve(list, {smooth = 1}), "png", "out")
      local lines = {}
      for line in script:match("<< EOD\n(.-)EOD\n"):gmatch "[^\n]+" do lines[#lines + 1] = line end
      return lines
    end
    local all = lines_of(1500)
    assert.equal(1500, #all)
    assert.same({"1 1.0 1.0 1.0 NaN", "1500 1500.0 1500.0 1500.0 NaN"}, {all[1], all[1500]})
    local few = lines_of(1501)                          -- of three numbers each
    assert.equal(501, #few)
    assert.same({"2 1.0 3.0 2.0 NaN", "5 4.0 6.0 5.0 NaN", "1499 1498.0 1500.0 1499.0 NaN",
                 "1501 1501.0 1501.0 1501.0 NaN"}, {few[1], few[2], few[500], few[501]})
    assert.equal(600, #lines_of(1800))
    local most = lines_of(1801)                         -- of four numbers each
    assert.same({451, "3 1.0 4.0 3.0 NaN", "7 5.0 8.0 7.0 NaN"}, {#most, most[1], most[2]})
  end)

  it("gets no picture that is too large, of which the message tells the size", function()
    local many, sizes = {}, {}
    for i = 1, 200 do many[i] = plot.curve{1, 2} end
    for i, format in ipairs{"png", "svg"} do
      local script, why = gnuplot.script(plot.row(many), format, "out")
      assert.is_nil(script)
      sizes[i] = why:match "^a picture of (%d+) x %d+ pixels is too large$" // 1
      assert.is_string(gnuplot.script(plot.row{many[1]}, format, "out"))
    end
    assert.equal(2 * sizes[2], sizes[1])
  end)

  it("tells where it is missing, or what it says", function()
    local popen, outcome = io.popen, nil
    local pipe = {read = function() return outcome[1] end,
                  close = function() return nil, "exit", outcome[2] end}
    local function why()
      rawset(io, "popen", function() return pipe end)
      local bytes, message = gnuplot.render(plot.curve{1, 2}, "png")
      rawset(io, "popen", popen)
      assert.is_nil(bytes)
      return message
    end
    outcome = {"sh: 1: gnuplot: not found\n", 127}
    assert.equal("gnuplot: not found (apt install gnuplot-nox)", why())
    outcome = {"\n  line 3: undefined variable\n", 1}
    assert.equal("gnuplot: undefined variable", why())
    outcome = {"killed\n", 126}
    assert.equal("gnuplot: killed", why())
    outcome = {"", 1}
    assert.equal("gnuplot: no picture", why())
  end)

  it("draws PNG and SVG", function()
    if not has_gnuplot then return pending "gnuplot is not installed" end
    local p = plot.row {
      plot.heat({{1, nan}, {3, 4}}, {cells = {{"'", '"'}, {"`", "\\"}}, mark = {{true}}}),
      plot.curve({3, 2, nan, 1}, {labels = {"100%"}}),
    }
    for ending, magic in pairs {png = "^\x89PNG", svg = "<svg"} do
      local name = os.tmpname()
      os.remove(name)
      local path = name .. "." .. ending
      assert(p:save(path))
      local file = assert(io.open(path, "rb"))
      assert.is_truthy(file:read("a"):find(magic))
      file:close()
      os.remove(path)
    end
  end)

  it("or the disk may be missing: nil and a message", function()
    local done, why = plot.heat {{1}}:save "/nonexistent/a.png"
    assert.is_nil(done)
    assert.is_string(why)
  end)
end)
