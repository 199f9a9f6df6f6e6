-- heed.prompt: the names that stand in scope at the prompt of `heed` and of `make repl`.

local heed = require "heed"

local PARTS <const> = {"data", "mask", "nn", "optim", "plot"}

---Sets heed and its parts in a table of globals, for Lua's own prompt.
---@param globals table
---@return string banner says so
return function(globals)
  globals.heed = heed
  for _, name in ipairs(PARTS) do globals[name] = heed[name] end
  return ("%s: heed, %s are in scope\nheed.help() lists all, heed.help \"softmax\" says more")
    :format(heed._VERSION, table.concat(PARTS, ", "))
end
