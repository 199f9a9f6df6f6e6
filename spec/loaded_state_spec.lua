-- States whose tensors share memory with what loads them, and options of load_state.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local Model = nn.Module:extend("Model")

function Model:init()
  for i, name in ipairs{"a", "b", "c"} do
    self[name] = nn.Parameter(heed.tensor{i + 0.0, i + 0.5})
  end
end

local function values(m) return {m.a:totable(), m.b:totable(), m.c:totable()} end


describe("a state", function()
  it("is written into the memory of the module's tensors, whose gradients stay", function()
    local layer = nn.Linear(2, 2)
    local view, given = layer.weight:detach(), nn.Linear(2, 2):state()
    layer(heed.ones(1, 2)):sum():backward()
    layer:load_state(given)
    assert.is_true(view:equal(given.weight))
    assert.is_true(layer.weight.grad:equal(heed.ones(2, 2)))
  end)
end)


describe("a state whose tensors are those of the module that loads it", function()
  local A <const>, B <const>, C <const> = {1, 1.5}, {2, 2.5}, {3, 3.5}

  it("is loaded as it is, in whatever order", function()
    local m = Model()
    m:load_state{a = m.b:detach(), b = m.c:detach(), c = m.a:detach()}
    assert.same({B, C, A}, values(m))
    local state = m:state()
    m:load_state{a = state.b:view(2), b = state.a:view(2), c = state.c:flip{1}:flip{1}}
    assert.same({C, B, A}, values(m))
    m:load_state(m:state())
    assert.same({C, B, A}, values(m))
    m:load_state{a = m.a:detach(), b = m.a:detach(), c = m.a:detach()}
    assert.same({C, C, C}, values(m))
  end)

  it("is loaded as it was where elements stand in another order in the same memory", function()
    local wanted = heed.randn(67, 67)
    local m = Model()
    m.a, m.b, m.c = nn.Parameter(wanted:clone()), nn.Parameter(heed.ones(1)), nil
    m:load_state{a = m.a:detach():t(), b = m.a:detach():narrow(1, 3, 1):narrow(2, 2, 1):view(1)}
    assert.is_true(m.a:detach():equal(wanted:t()))
    assert.equal(wanted[3]:totable()[2], m.b:item())
    m:load_state{a = m.a:detach():flip{1}, b = m.b:detach()}
    assert.is_true(m.a:detach():equal(wanted:t():flip{1}))
  end)

  it("is loaded by optimisers and averages alike", function()
    local m = Model()
    local opt = heed.optim.SGD(m:parameters(), {momentum = 0.9})
    for i, p in ipairs(m:parameters()) do p.grad = heed.full({2}, i + 0.0) end
    opt:step()
    local state = opt:state()
    state["momentum_buffer.1"], state["momentum_buffer.3"] = state["momentum_buffer.3"],
                                                             state["momentum_buffer.1"]
    opt:load_state(state)
    assert.same({{3, 3}, {2, 2}, {1, 1}}, {opt:state()["momentum_buffer.1"]:totable(),
      opt:state()["momentum_buffer.2"]:totable(), opt:state()["momentum_buffer.3"]:totable()})
  end)
end)


describe("load_state", function()
  it("names the option that is wrong", function()
    local m = nn.Linear(1, 1)
    assert.matches("load_state: a boolean expected as option strict, got the string 'no'",
                   message(m.load_state, m, {}, {strict = "no"}), 1, true)
    assert.matches("load_state: options expected, got a file's metadata",
                   message(m.load_state, m, {}, {format = "pt"}), 1, true)
  end)

  it("says why a file could not be opened, and takes no other text for that", function()
    local m = nn.Linear(1, 1)
    local path = os.tmpname()
    os.remove(path)
    assert.matches("load_state: load: " .. path .. ": cannot open",
                   message(m.load_state, m, heed.load(path)), 1, true)
    assert.matches("load_state: a table of options expected, got the string 'strict'",
                   message(m.load_state, m, {}, "strict"), 1, true)
  end)
end)
