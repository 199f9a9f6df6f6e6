-- heed.plot: heat maps, curves, histograms, points and bars, as values. Printing one draws it in
-- the terminal; `save` writes a PNG or SVG through gnuplot.
--
--   print(plot.heat(weights, {rows = words, columns = words}))
--   plot.row{plot.heat(weights, {cells = digits}), plot.curve(losses)}:save "training.png"

local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

return options.strict("heed.plot", {
  bars = require "heed.plot.bars",
  curve = require "heed.plot.curve",
  grid = require "heed.plot.grid",
  heat = require "heed.plot.heat",
  hist = require "heed.plot.hist",
  row = require "heed.plot.row",
  scatter = require "heed.plot.scatter",
}, torch_names.plot)
