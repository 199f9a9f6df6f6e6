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

  local tests, empty = 0, 0

  busted.subscribe({"file", "start"}, function(file)
    tests = 0
    return say("\n", file.name, " ")
  end)

  busted.subscribe({"test", "end"}, function()
    tests = tests + 1
    return nil, true
  end)

  -- A file without a test has failed, whatever made it so.
  busted.subscribe({"file", "end"}, function(file)
    if tests > 0 then return nil, true end
    empty = empty + 1
    return say(file.name, " has no test\n")
  end)

  busted.subscribe({"exit"}, function()
    local failed = handler.failuresCount + handler.errorsCount + empty
    local skipped = handler.pendingsCount
    return say(("%d passed, %d failed"):format(handler.successesCount, failed),
      skipped > 0 and (", %d skipped"):format(skipped) or "", "\n")
  end)

  return handler
end
