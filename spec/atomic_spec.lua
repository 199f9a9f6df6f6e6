-- A call that changes state and is broken off, wherever that is, leaves all as before the call or
-- as after it: by an error of a hook that counts instructions, some of them, or with HEED_SWEEP=1
-- each; or where heed's memory ends, and stays out until the call returns. spec/c/lua_memory.c does
-- that with Lua's memory.

local changes = require "spec.support.changes"
local heed = require "heed"

local POINTS <const> = 60              -- of a call


-- Calls f, which an error ends at an instruction; whether it came so far.
local function strike_at(f, instruction)
  local struck = false
  local function strike()
    debug.sethook()
    struck = true
    error("struck", 0)
  end
  pcall(function()
    debug.sethook(strike, "", instruction)
    f()
    debug.sethook()
  end)
  return struck
end


local function instructions_of(case)
  local n, call = 0, case.make()
  debug.sethook(function() n = n + 1 end, "", 1)
  call()
  debug.sethook()
  return n
end


-- Calls f, for which there are so many bytes of memory; whether these were not enough.
local function starve(f, bytes)
  collectgarbage()
  local now = heed.memory()
  heed.memory{limit = now.live + now.other + bytes}
  local good = pcall(f)
  heed.memory{limit = 1 << 40}
  return not good
end


describe("A call that changes state", function()
  local all = os.getenv "HEED_SWEEP" == "1"
  local limit = heed.memory().limit
  teardown(function() heed.memory{limit = limit} end)

  for which, case in ipairs(changes.cases) do
    it(("is all or nothing where a hook's error ends it: %s"):format(case.name), function()
      local before, after = changes.whole(case)
      local n, wrong = instructions_of(case), {}
      local step = all and 1 or math.max(1, n // POINTS)
      for i = 1 + which % step, n, step do
        local good = changes.keeps(case, before, after, function(f) return strike_at(f, i) end)
        if not good then wrong[#wrong + 1] = i end
      end
      assert.equal("", table.concat(wrong, " "), ("of %d instructions"):format(n))
    end)

    it(("is all or nothing where heed's memory ends: %s"):format(case.name), function()
      local before, after = changes.whole(case)
      local bytes, wrong, starved = 0, {}, true
      local function starving(f)
        starved = starve(f, bytes)
        return starved
      end
      while starved do
        if not changes.keeps(case, before, after, starving) then wrong[#wrong + 1] = bytes end
        bytes = bytes + 64 + bytes // 8
      end
      assert.equal("", table.concat(wrong, " "))
    end)
  end
end)
