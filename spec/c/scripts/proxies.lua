-- The library that a script sees in a sealed state stands for the tables themselves, and no script
-- changes them. The state has debug.

local heed = ...
local nn = heed.nn
local proxies = debug.getmetatable(heed)

local function refuses(wanted, f, ...)
  local good, message = pcall(f, ...)
  assert(not good, "not refused: " .. wanted)
  assert(tostring(message):find(wanted, 1, true), message)
end


-- A table has one stand-in, whichever way it is reached.
assert(type(heed) == "userdata" and type(nn) == "userdata" and type(heed.ones) == "function")
assert(rawequal(heed.nn, nn) and rawequal(require "heed.nn", nn) and rawequal(require "heed", heed))
assert(rawequal(nn.Linear, nn.Linear) and not rawequal(nn.Linear, nn.Module))
assert(rawequal(getmetatable(nn.Linear(1, 1)), nn.Linear))
assert(not pcall(require, "heed.none"))
assert(not getmetatable(heed))

-- A stand-in has their text, length, fields and pairs.
assert(tostring(heed):find "^heed %d" and tostring(nn):find "^heed.nn\n")
assert(tostring(nn.Linear) == "class Linear")
assert(#heed == 0 and #nn.List == 0 and #nn == 0)
assert(nn.Linear.__name == "Linear" and nn.Module.__index ~= nil)
local seen = {}
for name, value in pairs(heed) do
  assert(rawequal(heed[name], value) and type(value) ~= "table", name)
  seen[name] = true
end
assert(seen.ones and seen.nn and not seen.core)
local own_pairs = proxies.__pairs
local go_on, copy = own_pairs(heed)
assert(type(copy) == "table" and copy ~= heed)
copy.ones = nil                                         -- a copy's loss is nobody else's
assert(heed.ones and go_on(copy) ~= nil)
assert(select("#", go_on({})) == 1 and go_on({}) == nil)
assert(go_on({a = 1}, nil, "more") == "a")

-- Reads and calls pass through, whatever a call gives, also where a coroutine waits.
assert(select("#", nn.Linear(2, 3)(heed.ones(1, 2))) == 1)
refuses("nn.Linear", nn.Linear)
local x, model = heed.ones(1, 1), nn.Linear(1, 1)
local waiting = coroutine.create(function()
  return heed.train{
    model = model, loss = heed.mse_loss, steps = 2, print = false,
    optimizer = heed.optim.SGD(model:parameters()),
    batches = function() coroutine.yield "wait" return x, x end,
  }
end)
for _ = 1, 2 do
  local good, why = coroutine.resume(waiting)
  assert(good and why == "wait", why)
end
local good, run = coroutine.resume(waiting)
assert(good and #run.losses == 2, run)

-- Nothing is written, and the message says to what.
refuses("heed is read-only in this state, got an assignment to the string 'ones'",
        function() heed.ones = 1 end)
refuses("heed is read-only in this state, got an assignment to 5", function() nn[5] = 1 end)
refuses("string expected, got a part of heed", string.rep, heed)

-- The functions of its metatable take nothing else.
for _, value in ipairs{5, "x", {}, io.stdout, heed.ones(1), print} do
  for _, name in ipairs{"__index", "__len", "__pairs", "__call", "__tostring"} do
    refuses("a module of heed expected, got ", proxies[name], value, "x")
  end
end
refuses("a module of heed expected, got nothing", proxies.__len)

-- The library takes a stand-in for the table: a class, a layer's part, a list.
assert(nn.Module.is(model) and not nn.Module.is(nn))
refuses("got a table", nn.Linear, nn, 2)
assert(nn.Linear:extend("Own")(1, 1):describe())

-- A class of the script's own is written to, and has the fields of the library's.
local Own = nn.Module:extend("Own")
Own.size = 3
function Own.forward(_, y) return 2 * y end
assert(type(Own) == "table" and Own.size == 3 and Own().size == 3)
assert(Own()(x):item() == 2 and rawequal(getmetatable(Own()), Own))
assert(Own.parameters == nn.Module.parameters)
local Cached = nn.Linear:extend("Cached")
refuses("Cached: there is no 'size'", function() return Cached(2, 2).size end)
assert(Cached(2, 2)(heed.ones(1, 2)):size(2) == 2)
