-- heed.data: from texts and lists to batches of ids. Batches are functions, for heed.train and for
-- a `for`:
--
--   local chars = data.chars(text)
--   for x, y in data.windows(chars:encode(text), {length = 64, size = 32}) do … end

local accuracy = require "heed.data.accuracy"
local batches = require "heed.data.batches"
local image = require "heed.data.image"
local mask = require "heed.data.mask"
local metrics = require "heed.data.metrics"
local options = require "heed.internal.options"
local texts = require "heed.data.texts"
local torch_names = require "heed.internal.torch_names"
local vocabulary = require "heed.data.vocabulary"
local windows = require "heed.data.windows"

return options.strict("heed.data", {
  accuracy = accuracy, batches = batches, chars = vocabulary.chars,
  confusion_matrix = metrics.confusion_matrix, csv = texts.csv, f1 = metrics.f1,
  image = image, is_null = texts.is_null, json_lines = texts.json_lines, lines = texts.lines,
  mask = mask, perplexity = metrics.perplexity, precision = metrics.precision,
  recall = metrics.recall,
  windows = windows, words = vocabulary.words,
}, torch_names.data)
