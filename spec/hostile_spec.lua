-- A script's `__eq` is not run by the checks of what a value is: neither on the value nor on what
-- its `__metatable` says.

local heed = require "heed"
local json = require "heed.files.json"

local heard = 0
local hostile_meta = setmetatable({}, {__eq = function()
  heard = heard + 1
  return true
end})

-- A value whose metatable, as `getmetatable` gives it, compares equal to anything.
local function hostile()
  return setmetatable({}, {__metatable = hostile_meta, __eq = hostile_meta})
end


describe("a value whose metatable compares equal to all", function()
  local q = heed.zeros(1, 1, 2, 4)
  local calls = {
    ["a mask"] = function() heed.attention(q, q, q, {mask = hostile()}) end,
    ["an operand of a mask"] = function() return heed.mask.causal() & hostile() end,
    ["a bias"] = function() heed.attention(q, q, q, {bias = hostile()}) end,
    ["a picture"] = function() heed.plot.row{hostile()} end,
    ["a tensor"] = function() heed.exp(hostile()) end,
    ["a module"] = function() heed.nn.Sequential{hostile()} end,
    ["parameters"] = function() heed.optim.Adam(hostile(), {lr = 1}) end,
    ["a model of an average"] = function() heed.optim.EMA(hostile()) end,
    ["batches"] = function() heed.data.batches(hostile(), {}) end,
    ["JSON"] = function() json.encode(hostile()) end,
    ["a cache"] = function() heed.nn.Decoder(4, 2, 1)(heed.zeros(1, 2, 4), {cache = hostile()}) end,
  }
  for what, call in pairs(calls) do
    it("is not heard as " .. what, function()
      heard = 0
      pcall(call)
      assert.equal(0, heard)
    end)
  end

  it("is heard where Lua compares", function()
    heard = 0
    assert.is_true(getmetatable(hostile()) == {})
    assert.equal(1, heard)
  end)
end)
