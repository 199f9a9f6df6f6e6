-- heed.tasks: small tasks that show what attention can do. Each gives fresh batches for ever:
--
--   for x, y in tasks.sorting{size = 32} do … end
--
--   local batch = tasks.sorting{size = 32}
--   local x, y = batch()
--
-- Batches hold ids, which count from 1: digit d is id d + 1. A task draws from the module's
-- generator, or with a seed from one of its own. `tasks.tokens` lists the tokens of each task's ids
-- for heed.lookup: heed.lookup(tasks.tokens.tagging.y, y).

local options = require "heed.internal.options"

local tasks, tokens = {}, {}

for _, file in ipairs{"counting", "sequences", "addition", "sentences", "seq2seq", "patches"} do
  local part = require("heed.tasks." .. file)
  for name, task in pairs(part.tasks) do tasks[name] = task end
  for name, lists in pairs(part.tokens) do tokens[name] = lists end
end

tasks.tokens = options.strict("heed.tasks.tokens", tokens)

return options.strict("heed.tasks", tasks)
