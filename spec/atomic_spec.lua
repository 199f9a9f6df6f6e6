-- A call that changes state and is broken off, wherever that is, leaves all as before the call or
-- as after it: here by an error of a hook that counts instructions. HEED_SWEEP=1 tries each of
-- them, else some are.

local heed = require "heed"
local cases = require "spec.support.changes"

local POINTS <const> = 60              -- of a call


-- All that a value holds, as text.
local function digest(value)
  if heed.is_tensor(value) then
    return ("%s %s %s"):format(value.dtype, value.device, value:format("%.17g"))
  elseif type(value) == "function" then
    return digest(value())
  elseif type(value) ~= "table" then
    return tostring(value)
  end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = tostring(key) .. " = " .. digest(value[key]) end
  return "{" .. table.concat(parts, "\n") .. "}"
end


-- Calls f, which an error ends at an instruction; whether it came so far.
local function broken_off(f, instruction)
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


local function text_of(state)
  local good, text = pcall(digest, state)
  return good and text or "wrong: " .. tostring(text)
end


-- The number of instructions of a call, and its states before and after.
local function whole(make)
  local call, state = make()
  local before, n = text_of(state), 0
  debug.sethook(function() n = n + 1 end, "", 1)
  call()
  debug.sethook()
  return n, before, text_of(state)
end


describe("A call that is broken off", function()
  local all = os.getenv "HEED_SWEEP" == "1"
  for which, case in ipairs(cases) do
    it(("leaves all as before or as after it: %s"):format(case.name), function()
      case.make()()                    -- what is made once is made now
      local n, before, after = whole(case.make)
      local step = all and 1 or math.max(1, n // POINTS)
      local wrong = {}
      for i = 1 + which % step, n, step do
        local call, state = case.make()
        local struck = broken_off(call, i)
        local now = text_of(state)
        if now ~= before and now ~= after then wrong[#wrong + 1] = i end
        assert.is_true(struck or now == after)
      end
      assert.equal("", table.concat(wrong, " "), ("of %d instructions"):format(n))
    end)
  end
end)
