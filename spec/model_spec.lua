-- Work on a whole model: walking, counting, freezing, copying; lists of layers.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

-- A model with tied weights, a buffer, a plain tensor, a function and tables.
local function model()
  local Model = nn.Module:extend("Model")
  function Model:init()
    self.embed = nn.Embedding(5, 4)
    self.blocks = nn.List{nn.Linear(4, 4), nn.Dropout(0.5)}
    self.head = nn.Linear(4, 5, {bias = false})
    self.head.weight = self.embed.weight
    self.count = nn.Buffer(heed.tensor{3})
    self.mask = heed.ones(2)
    self.activation = heed.relu
    self.settings = {rate = 0.5, names = {"a", "b"}}
    self.again = {self.head, self.settings}
    self.late = nil
  end
  function Model:forward(ids)
    return self.head(self.activation(self.blocks[1](self.embed(ids))))
  end
  return Model()
end

local ids = heed.tensor{{1, 2, 5}}


describe("a model", function()
  it("shows its modules, each once, itself first", function()
    local names = {}
    for module in model():modules() do names[#names + 1] = module.__name end
    assert.same({"Model", "Embedding", "List", "Linear", "Dropout", "Linear"}, names)
  end)

  it("counts its numbers, shared ones once and buffers not", function()
    assert.equal(5 * 4 + 4 * 4 + 4, model():numel())
    assert.equal(0, nn.ReLU():numel())
    assert.equal(40, model():freeze():numel())
  end)
end)


describe("freeze", function()
  it("ends the training of all parameters, and begins it again", function()
    local m = model()
    assert.equal(m, m:freeze())
    for _, p in ipairs(m:parameters()) do assert.is_false(p.requires_grad) end
    assert.equal(3, #m:parameters())
    assert.is_false(m(ids).requires_grad)
    assert.equal(m, m:freeze(false))
    for _, p in ipairs(m:parameters()) do assert.is_true(p.requires_grad) end
    m:freeze():freeze(false)(ids):sum():backward()
    assert.is_truthy(m.head.weight.grad)
  end)

  it("of one part leaves the others at work, and no optimiser moves it", function()
    local m = model()
    local opt = optim.AdamW(m:parameters(), {lr = 0.1, weight_decay = 0.5})
    m(ids):sum():backward()
    opt:step()
    m(ids):square():sum():backward()            -- a gradient that waits
    m.blocks:freeze()
    assert.is_nil(m.blocks[1].weight.grad)
    local frozen, other = m.blocks[1].weight:clone(), m.embed.weight:clone()
    for _ = 1, 2 do
      opt:step()
      opt:zero_grad()
      m(ids):sum():backward()
    end
    assert.is_true(m.blocks[1].weight:equal(frozen))
    assert.is_false(m.embed.weight:equal(other))
    optim.clip_grad_norm(m:parameters(), 1)
    m.blocks:freeze(false)
    m(ids):sum():backward()
    opt:step()
    assert.is_false(m.blocks[1].weight:equal(frozen))
  end)

  it("leaves parameters alone that cannot be trained, and refuses what is no boolean", function()
    local m = nn.Module:extend("Model")()
    m.table = nn.Parameter(heed.tensor{1, 2}, {requires_grad = false})
    assert.is_false(m:freeze():freeze(false).table.requires_grad)
    assert.matches("freeze: true or false expected, got 1", message(m.freeze, m, 1))
  end)

  it("is refused for a weight that was computed meanwhile, and freezes none then", function()
    local m = nn.Linear(2, 2):freeze()
    m.weight:mul_(heed.ones(1, {requires_grad = true}))
    m.bias:requires_grad_()
    assert.matches("only a leaf can stop requiring grad", message(m.freeze, m))
    assert.is_true(m.bias.requires_grad)
  end)
end)


describe("a model's clone", function()
  it("computes the same, with tensors of its own", function()
    local m = model():to("float64"):eval()
    m.blocks[1]:freeze()
    local c = m:clone()
    assert.is_true(c(ids):equal(m(ids)))
    assert.equal(tostring(m), tostring(c))
    assert.is_false(c.training)
    for name, t in pairs(m:state()) do assert.is_true(t:equal(c:state()[name])) end
    local before = m:state().count:clone()
    heed.no_grad(function()
      for _, p in ipairs(c:parameters()) do p:zero_() end
      c.count:zero_()
      c.mask:zero_()
    end)
    assert.is_true(m.count:equal(before))
    assert.equal(2, m.mask:sum():item())
    assert.is_true(m.embed.weight:abs():sum():item() > 0)
    assert.is_false(c.blocks[1].weight.requires_grad)
    assert.is_true(c.embed.weight.requires_grad)
  end)

  it("keeps what is shared within it shared", function()
    local m = model()
    local c = m:clone()
    assert.equal(c.head.weight, c.embed.weight)
    assert.not_equal(c.head.weight, m.head.weight)
    assert.equal(c.head, c.again[1])
    assert.equal(c.settings, c.again[2])
    assert.equal(#m:parameters(), #c:parameters())
  end)

  it("has fields of its own, in the same order, and the same functions", function()
    local m = model()
    m.self = m
    local c = m:clone()
    assert.same({"a", "b"}, c.settings.names)
    c.settings.names[1] = "z"
    assert.equal("a", m.settings.names[1])
    assert.equal(heed.relu, c.activation)
    assert.equal(c, c.self)
    assert.is_nil(c.late)
    local function read() return c.embd end
    assert.matches("there is no 'embd'; did you mean 'embed'", message(read))
    c.new = nn.Linear(1, 1)
    assert.is_nil(rawget(m, "new"))
    local a, b = {}, {}
    for name in pairs(m) do a[#a + 1] = name end
    for name in pairs(c) do b[#b + 1] = name end
    assert.same(a, table.move(b, 1, #b - 1, 1, {}))
  end)

  it("has no gradients, no graph and no callback", function()
    local m = nn.Sequential{nn.MultiHeadAttention(4, 2)}
    local x, calls = heed.randn(1, 3, 4), 0
    m(x):sum():backward()
    m:on_weights(function() calls = calls + 1 end)
    m.seen = m[1].query.weight * 2
    local c = m:clone()
    for _, p in ipairs(c:parameters()) do assert.is_nil(p.grad) end
    assert.is_false(c.seen.requires_grad)
    c(x)
    assert.equal(0, calls)
    m(x)
    assert.equal(1, calls)
  end)

  it("is trained apart, and outlives a scope", function()
    local m = nn.Sequential{nn.Linear(2, 2)}
    local c = heed.scope(function() return m:clone() end)
    local before = m[1].weight:clone()
    c(heed.ones(1, 2)):sum():backward()
    optim.SGD(c:parameters(), {lr = 0.5}):step()
    assert.is_true(m[1].weight:equal(before))
    assert.is_false(c[1].weight:equal(before))
    assert.is_nil(m[1].weight.grad)
  end)
end)


describe("a state with two names of a shared weight", function()
  local function given()
    local state = model():state()
    state["head.weight"] = state["embed.weight"]:clone()
    return state
  end

  it("is loaded where both have the same values", function()
    local m, state = model(), given()
    state["embed.weight"][2][3] = 0 / 0
    state["head.weight"]:copy_(state["embed.weight"])
    assert.same({}, m:compare(state))
    m:load_state(state)
    assert.is_true((m.head.weight[1]:equal(state["head.weight"][1])))
    assert.equal(m.head.weight, m.embed.weight)
  end)

  it("is refused where they differ, of which one would be lost", function()
    local m, state = model(), given()
    local before = m.embed.weight:clone()
    state["head.weight"][5][4] = 7
    local why = "embed.weight and head.weight: one tensor expected, which both share, got "
                .. "different values"
    assert.same({why}, (m:compare(state)))
    for _, how in ipairs {false, {strict = false}} do
      assert.matches(why, message(m.load_state, m, state, how or nil), 1, true)
    end
    assert.is_true((m.embed.weight:equal(before)))
  end)

  it("is compared in parts, without copies of the whole weight", function()
    local m = nn.Module:extend("M")()
    m.a = nn.Parameter(heed.randn(3000, 700))                        -- 8.4 MB
    m.b = m.a
    local state = {a = m.a:detach(), b = m.a:detach():clone()}
    collectgarbage()
    local before = collectgarbage "count"
    assert.same({}, m:compare(state))
    assert.is_true(collectgarbage "count" - before < 8000)           -- KB
    for _, at in ipairs{1, 1511, 3000} do
      local other = state.b:clone()
      other[at][at % 700 + 1] = 0 / 0
      assert.equal(1, #m:compare{a = state.a, b = other})
    end
  end)
end)


describe("nn.List", function()
  it("is a list of layers that is a module", function()
    local list = nn.List{nn.Linear(2, 3), heed.relu}
    assert.equal(list, list:append(nn.Linear(3, 1)))
    assert.equal(3, #list)
    local x = heed.randn(4, 2)
    local y = x
    for _, layer in ipairs(list) do y = layer(y) end
    assert.is_true(y:equal(list[3](heed.relu(list[1](x)))))
    list[2] = nn.Tanh()
    local names = {}
    for name in list:named_parameters() do names[#names + 1] = name end
    assert.same({"1.weight", "1.bias", "3.weight", "3.bias"}, names)
    assert.equal(0, #nn.List())
    assert.equal(0, #nn.List{})
  end)

  it("gives the names that a table in a field gives", function()
    local a, b = nn.Module:extend("A")(), nn.Module:extend("B")()
    a.layers, b.layers = nn.List{nn.Linear(2, 2)}, {nn.Linear(2, 2)}
    b:load_state(a:state())
    assert.is_true(b.layers[1].weight:equal(a.layers[1].weight))
  end)

  it("is not called, and takes layers alone", function()
    local short = nn.List{heed.relu}
    local function put(i, layer) short[i] = layer end
    assert.matches("nn.List: 2 as the next position expected, got 3", message(put, 3, heed.relu))
    assert.matches("expected as layer 2, got 5", message(put, 2, 5))
    put(2, heed.tanh)
    assert.equal(2, #short)
    local why = message(nn.List{nn.Linear(1, 1)}, heed.zeros(1))
    assert.matches("nn.List: it is not called itself; write for _, layer", why)
    assert.matches("one list of layers expected.* got Linear", message(nn.List, nn.Linear(1, 1)))
    assert.matches("a function expected as layer 1, got 5", message(nn.List, {5}))
    assert.matches("a function expected as layer 2, got nil", message(nn.List, {[1] = print, [3] =
                   print}))
    assert.matches("a list expected, got one with the string 'a' as a key",
                   message(nn.List, {a = print}))
    local list = nn.List()
    assert.matches("as layer 1, got nil", message(list.append, list))
    assert.matches("append: at most 1 argument expected", message(list.append, list, print, 5))
  end)
end)


describe("nn.Identity", function()
  it("gives what it gets", function()
    local x = heed.randn(2)
    assert.equal(x, nn.Identity()(x))
    assert.equal("Identity", tostring(nn.Identity()))
  end)
end)
