-- Pictures as they are drawn, letter by letter: spec/support/pictures.lua has what is drawn, and
-- says how spec/golden/pictures.txt is made.

local files = require "spec.support.files"
local gnuplot = require "heed.plot.gnuplot"
local heed = require "heed"
local pictures = require "spec.support.pictures"
local plot = require "heed.plot"

-- The drawings, by the name in their first lines.
local golden, names = {}, {}
for line in files.read("spec/golden/pictures.txt"):gmatch "[^\n]*\n" do
  local name = line:match "^== (.*)\n"
  if name then names[#names + 1] = name end
  local last = names[#names]
  golden[last] = (golden[last] or "") .. line
end

-- The first line that differs, for messages.
local function difference(wanted, got)
  local n, next_line = 0, got:gmatch "([^\n]*)\n"
  for line in wanted:gmatch "([^\n]*)\n" do
    local own = next_line()
    n = n + 1
    if own ~= line then return ("line %d: %s expected, got %s"):format(n, line, own) end
  end
  return next_line() and "more lines" or nil
end


describe("a picture", function()
  it("has a golden drawing, and each drawing its picture", function()
    local wanted = {}
    for i, entry in ipairs(pictures.list) do wanted[i] = entry[1] end
    assert.same(wanted, names)
  end)

  for _, entry in ipairs(pictures.list) do
    it(("is drawn as it was: %s"):format(entry[1]), function()
      assert.is_nil(difference(golden[entry[1]], pictures.text(entry)))
    end)
  end
end)


describe("a heat map in a row", function()
  it("is as wide as its scale, also where that has few steps", function()
    local small = plot.heat{{-1.234e-100, 1.234e-100}}
    local p = plot.row{small, plot.heat{{0, 1}}}
    for columns, steps in pairs{[22] = "", [23] = ".@", [24] = ".+@"} do
      local text = p:text(false, columns)
      assert.equal(steps, text:match "1%.23e%-100 (%p+) " or "")
      assert.equal(steps == "" and "..@@   ..@@\n       0 .:-=+*#%@ 1"
                   or small:text(false, columns) .. "\n\n..@@\n0 .:-=+*#%@ 1", text)
    end
  end)
end)


describe("a picture's script", function()
  it("turns the names of columns where they are as wide as a cell, but for 5 pixels", function()
    for name, way in pairs{abcd = "norotate", abcde = "rotate by 90 right"} do
      local script = gnuplot.script(plot.heat({{1}}, {columns = {name}}), "png", "out")
      assert.matches("set xtics %b() scale 0 nomirror " .. way, script)
    end
  end)

  it("is made up to 20000 pixels in width or height", function()
    local function drawn(format, ...)
      local script, why = gnuplot.script(plot.heat(heed.zeros(...)), format, "out")
      if script then return script:match "size (%d+), (%d+)" end
      return why:match "(%d+) x (%d+) pixels"
    end
    local function larger(a, b) return math.max(a // 1, b // 1) end
    for format, scale in pairs{svg = 1, png = 2} do
      for _, shape in ipairs{{0, 1}, {1, 0}} do
        local function at(n) return format, shape[1] * n + 1, shape[2] * n + 1 end
        local most = 11000 - larger(drawn(at(11000))) // scale + 20000 // scale
        assert.equal(20000, larger(drawn(at(most))))
        assert.is_string(gnuplot.script(plot.heat(heed.zeros(select(2, at(most)))), format, "out"))
        assert.equal(20000 + scale, larger(drawn(at(most + 1))))
        assert.is_nil(gnuplot.script(plot.heat(heed.zeros(select(2, at(most + 1)))), format, "out"))
      end
    end
  end)
end)
