-- The output of busted: its plain report, with the name of each file before its dots, so that a
-- crash shows the file, and one line for CI at the end.

return function(options)
  local handler = require "busted.outputHandlers.plainTerminal"(options)
  local busted = require "busted"

  local function say(...)
    io.write(...)
    io.flush()          -- a sanitizer ends the process without doing so
    return nil, true
  end

  busted.subscribe({"file", "start"}, function(file) return say("\n", file.name, " ") end)

  busted.subscribe({"exit"}, function()
    local failed = handler.failuresCount + handler.errorsCount
    local skipped = handler.pendingsCount
    return say(("%d passed, %d failed"):format(handler.successesCount, failed),
      skipped > 0 and (", %d skipped"):format(skipped) or "", "\n")
  end)

  return handler
end
