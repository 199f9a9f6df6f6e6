-- Calls that change state, while Lua's allocations fail: from the n-th on, until the call returns.
-- fail_after(n) begins that, and fail_after(-1) ends it and says whether any has failed.

local fail_after = ...
local changes = require "spec.support.changes"

local tried = 0
for _, case in ipairs(changes.cases) do
  local before, after = changes.whole(case)
  local n = 0
  repeat
    local good, failed = changes.keeps(case, before, after, function(f)
      fail_after(n)
      pcall(f)
      return fail_after(-1)
    end)
    assert(good, ("allocation %d: %s"):format(n, case.name))
    n, tried = n + 1 + n // 2, tried + 1
  until not failed
end
return tried
