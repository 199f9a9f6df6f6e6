-- heed.prompt: names in scope, completion and history at the prompt of `heed` and of `make repl`.
--
-- The prompt is Lua's own. Where it reads lines by readline, Tab completes and lines are kept.

local complete = require "heed.prompt.complete"
local core = require "heed.core"
local heed = require "heed"
local history = require "heed.prompt.history"

local PARTS <const> = {"data", "mask", "nn", "optim", "plot"}

local kept = {}                      -- live until the state is closed


-- The text that all begin with.
local function common(list)
  local first, last = list[1], list[#list]           -- sorted
  local n = 0
  while n < #first and first:byte(n + 1) == last:byte(n + 1) do n = n + 1 end
  return first:sub(1, n)
end


-- As readline wants it: what candidates have in common, then they; or the only one.
local function completer(globals)
  return function(line, position)
    local list = complete(globals, line, position)
    if #list > 1 then table.insert(list, 1, common(list)) end
    return list
  end
end


-- Reads the history, and writes what is new when the state is closed.
local function keep_history()
  local path = history.path()
  if not path then return end
  for _, line in ipairs(history.read(path)) do core.readline.add(line) end
  local old = #core.readline.lines()
  kept[#kept + 1] = setmetatable({}, {__gc = function()
    local lines = core.readline.lines()
    history.add(path, table.move(lines, old + 1, #lines, 1, {}))
  end})
end


local BANNER <const> = "%s: heed, %s are in scope\n"
  .. "heed.help() lists all, heed.help 'softmax' says more\n"

---Sets heed and its parts in a table of globals. For Lua's own prompt it also sets completion and
---history.
---@param globals table
---@param interactive? boolean whether a prompt follows
---@return string banner says what there is
return function(globals, interactive)
  globals.heed = heed
  for _, name in ipairs(PARTS) do globals[name] = heed[name] end
  local banner = BANNER:format(heed._VERSION, table.concat(PARTS, ", "))
  if not interactive then return banner end
  if not core.readline.attach(completer(globals)) then
    return banner .. "Tab completes nothing: this Lua reads its lines without readline"
  end
  keep_history()
  return banner .. "Tab completes names, methods and options"
end
