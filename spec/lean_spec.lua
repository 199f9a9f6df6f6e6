-- The functions of C that small calls call, and their instructions of Lua, which most of their time
-- goes to: counted, with bounds that are a tenth above what is needed. Where make bare hides a
-- library from heed, each of its globals is a call more, so instructions are not counted there.

local heed = require "heed"
local json = require "heed.files.json"
local nn = require "heed.nn"

local COUNTS <const> = os.getenv "HEED_WITHOUT" == nil


-- The functions of C that f calls, and the instructions of Lua, from its second call on.
local function cost_of(f)
  local calls, instructions = 0, 0
  local function count(event)
    if event == "count" then
      instructions = instructions + 1
    elseif debug.getinfo(2, "S").what == "C" then
      calls = calls + 1
    end
  end
  f()
  debug.sethook(count, "c", 1)
  f()
  debug.sethook()
  return calls, instructions
end


local function assert_cost(f, calls, instructions)
  local c, n = cost_of(f)
  assert.is_true(c <= calls, ("%d functions of C, at most %d expected"):format(c, calls))
  assert.is_true(not COUNTS or n <= instructions,
                 ("%d instructions, at most %d expected"):format(n, instructions))
end


describe("a small call", function()
  local x = heed.randn(1, 4, 16)

  local function without_grad(layer, given)
    return function() heed.no_grad(layer, x, given) end
  end

  it("of attention copies its options once, and asks for nothing twice", function()
    local attention = nn.MultiHeadAttention(16, 2):eval()
    assert_cost(without_grad(attention), 60, 830)
    assert_cost(without_grad(attention, {causal = true}), 70, 890)
  end)

  it("of an encoder's layer looks at the options that are given alone", function()
    assert_cost(without_grad(nn.EncoderLayer(16, 2):eval()), 128, 1700)
  end)

  it("of a linear layer compares types by one function", function()
    assert_cost(without_grad(nn.Linear(16, 16)), 11, 170)
  end)

  it("of train looks for parts where they can be alone", function()
    local model = nn.Sequential{nn.EncoderLayer(16, 2), nn.EncoderLayer(16, 2)}
    assert_cost(function() model:train() end, 1160, 13200)
  end)

  it("of json.decode looks once for each element", function()
    local text = "[" .. ("[1, 2, 3], "):rep(49) .. "[1, 2, 3]]"
    assert_cost(function() json.decode(text) end, 1500, 22000)
  end)
end)
