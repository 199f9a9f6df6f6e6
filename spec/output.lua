-- The output of busted: its plain report, with the name of each file before its dots, so that a
-- crash shows the file, and one line for CI at the end. A test that compares nothing has failed.

local asserted = require "spec.support.asserted"

return function(options)
  local handler = require "busted.outputHandlers.plainTerminal"(options)
  local busted = require "busted"

  local function say(...)
    io.write(...)
    io.flush()          -- a sanitizer ends the process without doing so
    return nil, true
  end

  local tests, empty, idle = 0, 0, 0

  busted.subscribe({"file", "start"}, function(file)
    tests = 0
    return say("\n", file.name, " ")
  end)

  asserted.watch(require "luassert")

  busted.subscribe({"test", "start"}, function()
    asserted.yet = false
    return nil, true
  end)

  busted.subscribe({"test", "end"}, function(test, _, status)
    tests = tests + 1
    if asserted.yet or status ~= "success" then return nil, true end
    idle = idle + 1
    return say("\n", test.name, ": nothing is asserted\n")
  end)

  -- A file without a test has failed, whatever made it so.
  busted.subscribe({"file", "end"}, function(file)
    if tests > 0 then return nil, true end
    empty = empty + 1
    return say(file.name, " has no test\n")
  end)

  busted.subscribe({"exit"}, function()
    local failed = handler.failuresCount + handler.errorsCount + empty + idle
    local skipped = handler.pendingsCount
    return say(("%d passed, %d failed"):format(handler.successesCount - idle, failed),
      skipped > 0 and (", %d skipped"):format(skipped) or "", "\n")
  end)

  return handler
end
