-- Pictures of all kinds, and what each looks like as text: in ASCII, in colour, and as the script
-- that gnuplot is given. `lua5.4 spec/support/pictures.lua >spec/golden/pictures.txt` writes down
-- what spec/pictures_spec.lua holds them to: look at the pictures that differ first.

local gnuplot = require "heed.plot.gnuplot"
local plot = require "heed.plot"

local nan, inf <const> = 0 / 0, math.huge

local pictures = {}

local RAMP <const> = {{0, 0.25, nan, 0.75}, {1, 0.5, 0.125, -0.25}}
local FALLING <const> = {9, 7.5, 7, 4, nan, 3.5, 3, 2.75, 2.5, 2.25, 2, 1.5, 1.25, 1.125, 1}

local RANGE <const>, BACK <const> = {}, {}             -- 1 to 30, and back
for i = 1, 30 do RANGE[i], BACK[i] = i, 31 - i end

local ZIGZAG <const>, TALL <const> = {}, {}            -- of 200 numbers, of 70 rows
local TWENTY <const> = table.move(RANGE, 1, 20, 1, {})
for i = 1, 200 do ZIGZAG[i] = i % 7 * (i < 100 and 1 or 3) - i / 20 end
for i = 1, 70 do TALL[i] = {i, 2 * i, i % 3 == 0 and nan or 70 - i} end


---{name, its parts, columns, the picture} of each; parts are a(scii), c(olour), g(nuplot), p(ng).
pictures.list = {
  {"heat", "acg", 60, plot.heat(RAMP)},
  {"heat with all options", "acgp", 60, plot.heat(RAMP, {
    title = "weights", rows = {"the first", "b"}, columns = {"key", "longer name", "c", "d"},
    cells = "%.1f", mark = {{true, false, true}, {false, true}}, min = -1, max = 2})},
  {"heat with marks alone", "ac", 40, plot.heat({{1, 2}, {3, 4}}, {mark = {{1, 0}, {0, 1}}})},
  {"heat of one cell", "ag", 40, plot.heat({{7}}, {
    title = "a title that is wider than one cell is"})},
  {"heat of equal numbers", "ag", 40, plot.heat({{3, 3}, {3, 3}}, {
    cells = true, rows = {"é", "ab"}})},
  {"heat that is too wide", "a", 24, plot.heat({RANGE, BACK}, {rows = {"r", "s"}})},
  {"heat with names that fit in its cells", "acg", 60, plot.heat({{0, 1, 0.5}, {0.25, nan, 1}}, {
    columns = {"first", "2nd", "third"}, rows = {"a", "b"}, mark = {{false, false, true}}})},
  {"heat whose names just fit", "a", 20, plot.heat({{1, 2}}, {columns = {"ab", "abc"}})},
  {"heat with texts of several lengths", "acg", 60, plot.heat({{0, 1}, {nan, 0.5}}, {
    cells = {{"a", "long"}, {"none", ""}}, mark = {{true, true}, {true, true}}})},
  {"heat of many rows", "a", 30, plot.heat(TALL, {columns = {"a", "b", "c"}})},
  {"curve", "acg", 40, plot.curve(FALLING)},
  {"curves with all options", "acgp", 60, plot.curve({FALLING, {1, 2, 3, 4}, {5, inf, 5}}, {
    title = "loss", x = "step", y = "nats", labels = {"train", "test", "é"}, every = 10, smooth = 2,
    min = 0, max = 8})},
  {"curve with logarithmic axes", "acg", 50, plot.curve({1000, 300, 100, 0, 10, 3, 1, 0.1}, {
    log = "xy"})},
  {"curve of two numbers", "ac", 30, plot.curve{2, -2}},
  {"curve of equal numbers", "ag", 30, plot.curve{5, 5, 5}},
  {"curves, the first without numbers", "ag", 30, plot.curve({{nan}, {1, 3, 2}}, {
    labels = {"a", "b"}})},
  {"curve of large numbers", "ag", 30, plot.curve{1e9, 1.00001e9, 1.00002e9}},
  {"curve of more numbers than columns", "ac", 30, plot.curve(ZIGZAG)},
  {"curve on more columns than a chart has", "ac", 100, plot.curve(FALLING, {x = "step"})},
  {"curve of large and small numbers", "acg", 40, plot.curve({1e-7, 3e-5, nan, 1234567}, {
    log = "y", every = 250})},
  {"histogram", "acg", 40, plot.hist({0, 0.5, 1, 1, 1.5, 2, 2, 2, 3, nan, -inf}, {bins = 6})},
  {"histogram with all options", "acg", 50, plot.hist({1, 2, 3, 10, 20, 100, 1000, 5000, -1}, {
    bins = 4, log = "xy", min = 1, max = 1000, title = "sizes", x = "size", y = "count"})},
  {"histogram of nothing", "ag", 30, plot.hist{nan}},
  {"points", "ag", 40, plot.scatter({1, 2, 3, 4, nan}, {4, 1, 3, -2, 1})},
  {"points with all options", "acgp", 50, plot.scatter({1, 10, 100, 1000, 0}, {1, 10, 20, 40, 7}, {
    classes = {3, 1, 3, 1, 7}, labels = {"one", nil, "three"}, log = "x", min = -10, max = 50,
    title = "features", x = "first", y = "second"})},
  {"bars", "acg", 40, plot.bars{3, -1, nan, 2}},
  {"bars with all options", "acgp", 60, plot.bars({{1, 2, 3}, {2, 4, -1}}, {
    columns = {"a", "a long name", "c"}, labels = {"before", "after"}, min = -2, max = 5,
    title = "counts", x = "kind", y = "how many"})},
  {"more bars than columns", "a", 24, plot.bars(RANGE)},
  {"bars with long names", "acg", 50, plot.bars({3, -1.5, nan, 0, 20}, {
    columns = {"layers.1.query", "layers.1.key", "c", "d", "layers.12.value"}, x = "layer",
    y = "norm", title = "bars that lie"})},
  {"bars beyond their bounds", "acg", 40, plot.bars({1, 5, 9, -3}, {min = 2, max = 6})},
  {"row", "ag", 70, plot.row{plot.heat{{1, 2}, {3, 4}}, plot.curve({3, 2, 1}, {title = "loss"}),
                       plot.bars{1, 2}}},
  {"row that is too wide", "a", 36, plot.row{plot.heat{{1, 2}, {3, 4}}, plot.curve{3, 2, 1}}},
  {"grid whose columns just fit", "a", 83, plot.grid({plot.heat{TWENTY}, plot.heat{{1}},
                                                      plot.heat{{1}}, plot.heat{TWENTY}},
                                                     {across = 2})},
  {"grid whose columns do not fit", "a", 82, plot.grid({plot.heat{TWENTY}, plot.heat{{1}},
                                                        plot.heat{{1}}, plot.heat{TWENTY}},
                                                       {across = 2})},
  {"row in a row", "agp", 90, plot.row{plot.row{plot.heat{{1, 2}}, plot.hist({1, 2, 2, 9}, {
    bins = 3, title = "bins"})}, plot.scatter({1, 2, 3}, {3, 1, 2}, {classes = {1, 2, 2}})}},
  {"grid of one column", "agp", 50, plot.grid({{{1, 2}}, {{3, 4}, {5, 6}}}, {
    across = 1, titles = {"first", "second"}, columns = {"a", "b"}, min = 0, max = 8})},
  {"grid of many heads", "ag", 64, plot.grid({{{1}}, {{2}}, {{3}}, {{4}}, {{5}}, {{6}}, {{7}}})},
  {"row of heats of several widths", "acg", 100, plot.row{
    plot.heat({RANGE}, {rows = {"row"}}), plot.heat({{1, 2}}, {rows = {"a"}, title = "title"}),
    plot.heat({{1}})}},
  {"rows of charts and heats", "agp", 80, plot.grid({
    plot.heat({RANGE}, {rows = {"row"}}), plot.curve{1, 2}, plot.curve{2, 1},
    plot.heat({{1, 2}}, {rows = {"a"}})}, {across = 2})},
  {"grid", "ag", 60, plot.grid({{{1, 2}, {3, 4}}, {{0, 1}, {1, 0}}, {{5, 5}, {5, 5}}}, {
    title = "heads", titles = {"one", "two", "three"}, rows = {"x", "y"}, cells = true})},
  {"grid of pictures", "ag", 70, plot.grid({plot.curve{1, 2}, plot.heat{{1}}, plot.hist{1, 2}},
                                     {across = 2, title = "all of them"})},
}


local function short(number) return ("%.6g"):format(number) end

-- Colours as #rrggbb, once for what has one colour; numbers in six digits; a palette by its first
-- colour.
local function readable(text)
  text = text:gsub("\27%[([%d;]*)m", function(codes)
    codes = codes:gsub("(%d+);(%d+);(%d+)$", function(r, g, b)
      return ("#%02x%02x%02x"):format(r, g, b)
    end)
    return codes == "0" and "<>" or "<" .. codes:gsub("38;2;#", "#") .. ">"
  end)
  local merged
  repeat text, merged = text:gsub("(<[^<>]+>)([^<]*)<>%1", "%1%2") until merged == 0
  text = text:gsub("(set palette defined %(.-),[^\n]*%)", "%1, ...)")
  return (text:gsub("%d+%.%d+", short))
end


---@param entry table of the list
---@return string
function pictures.text(entry)
  local name, parts, columns, picture = table.unpack(entry)
  local texts = {"== " .. name, picture:text(false, columns)}
  if parts:find "c" then table.insert(texts, readable(picture:text(true, columns))) end
  if parts:find "g" then table.insert(texts, readable(gnuplot.script(picture, "svg", "out"))) end
  if parts:find "p" then table.insert(texts, readable(gnuplot.script(picture, "png", "out"))) end
  return table.concat(texts, "\n") .. "\n"
end


if arg and arg[0] and arg[0]:find "pictures%.lua$" then
  for _, entry in ipairs(pictures.list) do io.write(pictures.text(entry)) end
end

return pictures
