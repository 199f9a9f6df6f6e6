-- heed.tasks: small tasks that show what attention can do. Each gives fresh batches for ever:
--
--   for x, y in tasks.sorting{size = 32} do … end
--
--   local batch = tasks.sorting{size = 32}
--   local x, y = batch()
--
-- What they give are ids, which count from 1: digit d is id d + 1. They draw from the module's
-- generator, or from one of their own if they get a seed. `tasks.tokens` has what ids stand for,
-- for heed.lookup: heed.lookup(tasks.tokens.tagging.y, y).

local options = require "heed.options"

local tasks, tokens = {}, {}

for _, file in ipairs{"counting", "sequences", "addition", "sentences", "seq2seq", "patches"} do
  local part = require("heed.tasks." .. file)
  for name, task in pairs(part.tasks) do tasks[name] = task end
  for name, lists in pairs(part.tokens) do tokens[name] = lists end
end

tasks.tokens = options.strict("heed.tasks.tokens", tokens)

return options.strict("heed.tasks", tasks)
