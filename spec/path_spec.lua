-- Where in a model an error was raised: the end of its message, the traceback, the line.

local heed = require "heed"
local message = require "spec.support.message"
local nn = heed.nn


-- A model with layers in lists and modules within modules; `forward` is that of its blocks.
local function model_with(forward)
  local Block, Model = nn.Module:extend("Block"), nn.Module:extend("Model")
  function Block:init() self.attend = nn.MultiHeadAttention(8, 2) end
  Block.forward = forward
  function Model:init() self.layers = {Block(), Block(), Block()} end
  function Model:forward(x)
    for _, layer in ipairs(self.layers) do x = layer(x) end
    return x
  end
  return Model()
end

local function attending()
  local model = model_with(function(self, x) return x + self.attend(x) end)
  local last = model.layers[3].attend
  last.query, last.key = nn.Linear(6, 8), nn.Linear(6, 8)
  return model
end

local x = heed.zeros(1, 2, 8)


describe("an error in a model", function()
  it("ends with the path of the layer", function()
    local why = message(function() attending()(x) end)
    assert.matches("linear: .*%(1, 2, 8%)", why)
    assert.matches("\n  in layers.3.attend.query %(Linear%(6, 8%)%)$", why)
  end)

  it("names a line of the model too", function()
    local model = attending()
    local function forward(self, y) return self.attend(y) * 1 end
    getmetatable(model.layers[1]).forward = forward
    local line = debug.getinfo(forward, "S").linedefined
    local why = message(function() model(x) end)
    assert.matches("path_spec.lua:" .. line .. ": linear", why)
    assert.matches("layers.3.attend.query", why, 1, true)
    getmetatable(model.layers[1]).forward = function(self, y) return self.attend(y) end
    assert.matches("path_spec.lua:%d+: linear.*layers.3.attend.query",   -- Lua made a tail call
                   message(function() model(x) end))
  end)

  it("keeps the frames of all modules in the traceback", function()
    local _, trace = xpcall(attending(), debug.traceback, x)
    local _, calls = trace:gsub("__call", "")
    assert.is_true(calls >= 4, trace)
  end)

  it("needs no path where the outermost module raised it", function()
    assert.is_nil(message(nn.Linear(3, 4), heed.zeros(2, 5)):find("\n", 1, true))
    local model = model_with(function(_, y) return y:matmul(heed.zeros(3)) end)
    assert.matches("\n  in layers.1 %(Block%)$", message(model, x))
    local Again = nn.Module:extend("Again")
    function Again:forward(y, n)
      if n > 0 then return self(y, n - 1) end
      return y:matmul(heed.zeros(3))
    end
    assert.is_nil(message(Again(), x, 2):find("\n", 1, true))
  end)

  it("names what was called and what was not: modules between are not entered", function()
    local Model = nn.Module:extend("Model")
    function Model:init() self.inner = {deep = nn.Sequential{nn.Linear(3, 4)}} end
    function Model:forward(y) return self.inner.deep[1](y) end
    assert.matches("\n  in inner.deep.1 %(Linear%(3, 4%)%)$", message(Model(), heed.zeros(2)))
  end)

  it("follows the call where a layer is shared", function()
    local shared = nn.Linear(3, 3)
    local first, second = nn.Sequential{shared}, nn.Sequential{shared}
    local Model = nn.Module:extend("Model")
    function Model:init() self.a, self.b = first, second end
    function Model:forward(y) return self.b(y) end
    assert.matches("\n  in b.1 %(Linear%(3, 3%)%)$", message(Model(), heed.zeros(2)))
  end)

  it("names the layer alone where it is in no field", function()
    local loose = nn.Linear(3, 4)
    local model = model_with(function(_, y) return loose(y) end)
    assert.matches("\n  in Linear%(3, 4%)$", message(model, x))
  end)

  it("leaves errors of Lua as they are", function()
    local model = model_with(function() error("mine") end)
    assert.matches("^[^\n]*path_spec.lua:%d+: mine$", message(model, x))
    assert.matches("attempt to index", message(model_with(function(_, y) return y.grad.x end), x))
  end)

  it("survives a description that raises an error itself", function()
    local model = attending()
    local Odd = nn.Linear:extend("Odd")
    function Odd.describe() return heed.zeros(2):matmul(heed.zeros(3)) end
    model.layers[3].attend.query = Odd(6, 8)
    assert.matches("^[^\n]*linear: ", message(model, x))
  end)

  it("is found in stripped chunks, in coroutines, and without the debug library", function()
    local model = attending()
    local f = load(string.dump(function(m, y) return (m(y)) end, true))
    assert.matches("in layers.3.attend.query", message(f, model, x), 1, true)
    local run = coroutine.wrap(function() return pcall(model, x) end)
    assert.matches("in layers.3.attend.query", select(2, run()), 1, true)
  end)

  it("of heed.train has it too, and the line of the call", function()
    local model = attending()
    local line = debug.getinfo(1, "l").currentline + 2
    local why = message(function()
      heed.train{model = nn.Sequential{model}, loss = heed.mse_loss, steps = 1, print = false,
                 batches = function() return x, x end,
                 optimizer = heed.optim.SGD(model:parameters())}
    end)
    assert.matches("in 1.layers.3.attend.query (Linear(6, 8))", why, 1, true)
    assert.matches("path_spec.lua:%d+: linear", why)
    local two = nn.Sequential{nn.Linear(3, 4), nn.Linear(3, 4)}
    local other = message(function()
      heed.train{model = two, loss = heed.mse_loss, print = false,
                 batches = function() return heed.zeros(3), x end,
                 optimizer = heed.optim.SGD(two:parameters())}
    end)
    assert.matches(("path_spec.lua:%d: linear: .*\n  in 2 %%(Linear"):format(line + 8), other)
  end)
end)
