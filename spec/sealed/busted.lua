-- Runs busted in a sealed state, but for a spec that cannot run there.

local reason = require("spec.support.sealed").reason(arg[1])
if reason then
  print(("%s is skipped: %s\n0 passed, 0 failed, 1 skipped"):format(arg[1], reason))
else
  dofile "spec/support/busted.lua"
end
