-- Hooks of modules: what they see and replace, their order, and how they end.

local heed = require "heed"
local nn = require "heed.nn"
local message_of = require "spec.support.message"


local function noter(list, word)
  return function() list[#list + 1] = word end
end


local Two = nn.Module:extend("Two")

function Two:forward(a, b) return a, b end


describe("what a hook returns", function()
  local function said(...) return tostring(select(2, pcall(...))) end

  it("begins with a first value, or is nothing", function()
    local layer, x = nn.MultiHeadAttention(8, 2):eval(), heed.randn(1, 3, 8)
    local y = layer(x)
    for _, register in ipairs{"register_forward_hook", "register_forward_pre_hook"} do
      local handle = layer[register](layer, function() return nil, x end)
      assert.matches(register .. ": the hook returned nil before other values", said(layer, x))
      handle:remove()
      handle = layer[register](layer, function() return nil, nil end)
      assert.is_true(layer(x):equal(y))
      handle:remove()
      handle = layer[register](layer, function() return x:dim() == 2 end)
      assert.matches(register .. ": the hook returned false in the place of a tensor", said(layer,
                                                                                            x))
      handle:remove()
    end
  end)

  it("is a tensor where a layer adds it to its features", function()
    for _, name in ipairs{"attend", "mlp"} do
      local layer, x = nn.EncoderLayer(8, 2), heed.randn(1, 3, 8)
      layer[name]:register_forward_hook(function() return 3 end)
      assert.matches("EncoderLayer: a tensor expected from field '" .. name .. "', got 3",
                     said(layer, x))
    end
  end)
end)


describe("a hook before forward", function()
  it("gets the module and its arguments, and replaces the first by what it returns", function()
    local m, seen = Two(), nil
    m:register_forward_pre_hook(function(module, arguments)
      seen = {module, arguments.n, arguments[1], arguments[2]}
      return arguments[1] + 1
    end)
    m:register_forward_pre_hook(function(_, arguments) return arguments[1] * 10 end)
    assert.same({30, 5}, {m(2, 5)})
    assert.same({m, 2, 2, 5}, seen)
    assert.same({30, nil}, {m(2, nil)})
    assert.equal(2, seen[2])
  end)

  it("may add arguments, and leaves them all where it returns nothing or nil", function()
    local m = Two()
    local handle = m:register_forward_pre_hook(function(_, arguments) return arguments[1], 7 end)
    assert.same({1, 7}, {m(1)})
    handle:remove()
    m:register_forward_pre_hook(function() return nil end)
    m:register_forward_pre_hook(function() end)
    assert.same({1, 2}, {m(1, 2)})
    m:register_forward_pre_hook(function() return false end)
    assert.same({false, 2}, {m(1, 2)})
  end)

  it("is refused where it writes to its table, which would change nothing", function()
    local m = Two()
    m:register_forward_pre_hook(function(_, arguments) arguments[2] = 9 end)
    assert.matches("register_forward_pre_hook: the hook wrote to its table of arguments, at 2; "
                   .. "return what takes their places", message_of(m, 1, 2))
  end)
end)


describe("a hook after forward", function()
  it("gets the arguments and all results, and replaces the first by what it returns", function()
    local m, seen = Two(), nil
    m:register_forward_pre_hook(function() return 3 end)
    m:register_forward_hook(function(module, arguments, ...)
      seen = {module, arguments.n, arguments[1], select("#", ...), ...}
      return (...) + 1
    end)
    m:register_forward_hook(function(_, _, a) return a * 10 end)
    assert.same({40, 5}, {m(2, 5)})
    assert.same({m, 2, 3, 2, 3, 5}, seen)
    m(2, nil)
    assert.equal(2, seen[4])                        -- nil is a result, too
  end)

  it("may drop a result by nil, and add one", function()
    local m = Two()
    m:register_forward_hook(function(_, _, a) return a, nil, 3 end)
    local a, b, c = m(1, 2)
    assert.is_true(a == 1 and b == nil and c == 3)
  end)

  it("takes part in the gradients", function()
    local m, x = nn.Linear(3, 2, {bias = false}), heed.randn(4, 3)
    local plain = m(x)
    m:register_forward_hook(function(_, _, y) return y * 2 end)
    m(x):sum():backward()
    assert.is_true(m(x):equal(plain * 2))
    local wanted = x:sum(1):mul(2):expand(2, 3)
    assert.is_true(m.weight.grad:allclose(wanted, {atol = 1e-5}))
  end)
end)


describe("hooks", function()
  it("are called in the order of registration, and again at each call", function()
    local m, list = Two(), {}
    m:register_forward_hook(noter(list, "after 1"))
    m:register_forward_pre_hook(noter(list, "before 1"))
    m:register_forward_hook(noter(list, "after 2"))
    m:register_forward_pre_hook(noter(list, "before 2"))
    m(1)
    assert.same({"before 1", "before 2", "after 1", "after 2"}, list)
    m(1)
    assert.equal(8, #list)
  end)

  it("end by their handles alone, also twice and after a call that failed", function()
    local m, list = Two(), {}
    local first = m:register_forward_hook(noter(list, "first"))
    local second = m:register_forward_hook(noter(list, "second"))
    first:remove()
    first:remove()
    m(1)
    assert.same({"second"}, list)
    function m.fail() error("no") end
    local broken = m:register_forward_pre_hook(m.fail)
    assert.is_false(pcall(m, 1))
    broken:remove()
    second:remove()
    m(1)
    assert.same({"second"}, list)
    assert.matches("no argument expected", message_of(first.remove, first, 1))
    assert.matches("a hook expected as the first argument", message_of(first.remove, {}))
  end)

  it("end with the block of a handle, also by an error", function()
    local m, list = Two(), {}
    pcall(function()
      local handle <close> = m:register_forward_hook(noter(list, "in"))    -- luacheck: ignore
      m(1)
      error("out")
    end)
    m(1)
    assert.same({"in"}, list)
  end)

  it("that one function is twice are two", function()
    local m, list = Two(), {}
    local f = noter(list, "f")
    local one = m:register_forward_hook(f)
    m:register_forward_hook(f)
    m(1)
    one:remove()
    m(1)
    assert.equal(3, #list)
  end)

  it("that are added while a call runs begin with the next", function()
    local m, list = Two(), {}
    local function add()
      m:register_forward_pre_hook(noter(list, "before"))
      m:register_forward_hook(noter(list, "after"))
    end
    local handle
    handle = m:register_forward_pre_hook(function() handle:remove() add() end)
    m(1)
    assert.same({}, list)
    m(1)
    assert.same({"before", "after"}, list)
  end)

  it("that are removed while a call runs are called no more", function()
    local m, list = Two(), {}
    local later, after
    m:register_forward_pre_hook(function() later:remove() after:remove() end)
    later = m:register_forward_pre_hook(noter(list, "later"))
    after = m:register_forward_hook(noter(list, "after"))
    m(1)
    assert.same({}, list)
  end)

  it("do not run after a forward that failed, and the error passes through", function()
    local m, list = nn.Linear(3, 2), {}
    m:register_forward_hook(noter(list, "after"))
    assert.matches("nn.Linear", message_of(m, heed.zeros(2, 3, {dtype = "int64"})))
    assert.same({}, list)
  end)

  it("raise errors with the path of their layer", function()
    local model = nn.Sequential{nn.Linear(3, 4), nn.MLP(4, 8)}
    model[2].up:register_forward_hook(function(_, _, y) return y:matmul(heed.ones(3, 3)) end)
    assert.matches("in 2.up (Linear(4, 8))", message_of(model, heed.ones(2, 3)), 1, true)
    model = nn.Sequential{nn.Linear(3, 4), nn.MLP(4, 8)}
    model[2].up:register_forward_pre_hook(function(_, arguments) arguments[1] = 2 end)
    assert.matches("in 2.up (Linear(4, 8))", message_of(model, heed.ones(2, 3)), 1, true)
  end)

  it("stay behind where a module is cloned or saved", function()
    local m, list = nn.Linear(3, 2), {}
    local names = {}
    for name in pairs(m:state()) do names[name] = true end
    m:register_forward_hook(noter(list, "after"))
    m:clone()(heed.ones(1, 3))
    assert.same({}, list)
    for name in pairs(m:state()) do assert.is_true(names[name]) end
    assert.is_nil(tostring(m):match("hook"))
  end)

  it("do not keep their module", function()
    local alive = setmetatable({}, {__mode = "k"})
    do
      local m = Two()
      local handle
      handle = m:register_forward_hook(function() return m, handle end)
      alive[m], alive[handle] = true, true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(alive))
  end)

  it("are functions, or what can be called, and nothing besides", function()
    local m, seen = Two(), nil
    m:register_forward_hook(setmetatable({}, {__call = function(_, module) seen = module end}))
    m(1)
    assert.equal(m, seen)
    for _, name in ipairs{"register_forward_hook", "register_forward_pre_hook"} do
      assert.matches(name .. ": a function expected as the hook, got nil", message_of(m[name], m))
      assert.matches(name .. ": at most 1 argument expected",
                     message_of(m[name], m, print, {prepend = true}))
    end
  end)
end)


-- Each part of the layers, by the names below them, gets a hook; the call must reach all.
describe("a hook on each layer below", function()
  local x = heed.randn(2, 6, 8)
  local stacks = {
    Encoder = function()
      return nn.Encoder(8, 2, 2, {norm = "pre", gate = true, qk_norm = true, gated = true}), x
    end,
    Decoder = function()
      return nn.Decoder(8, 2, 2, {norm = "sandwich"}), x, heed.randn(2, 3, 8)
    end,
    Transformer = function() return nn.Transformer(8, 2, {layers = 1}), x, x end,
    Attention = function() return nn.Attention(8, 4), x end,
    GatedMLP = function() return nn.GatedMLP(8, 16), x end,
    Classifier = function() return nn.Classifier(8, 3), x end,
    Patches = function()
      return nn.Patches(2, 8, {positions = 4, class_token = true}), heed.randn(1, 4, 4)
    end,
  }

  for name, make in pairs(stacks) do
    it("of " .. name .. " is called, with and without gradients", function()
      local model, first, second = make()
      local wanted, called = {}, {}
      for path, module in model:named_modules() do
        wanted[path] = true
        module:register_forward_hook(function() called[path] = true end)
      end
      model(first, second)
      assert.same(wanted, called)
      called = {}
      heed.no_grad(model, first, second)
      assert.same(wanted, called)
    end)
  end

  it("of a step with a cache is called", function()
    local model, calls = nn.Decoder(8, 2, 1, {cross = false}), 0
    model.layers[1].attend.key:register_forward_hook(function() calls = calls + 1 end)
    local cache = nn.Cache()
    heed.no_grad(model, x, {cache = cache})
    heed.no_grad(model, x:narrow(2, 1, 1), {cache = cache})
    assert.equal(2, calls)
  end)
end)


describe("a hook that was removed", function()
  it("does not keep its module", function()
    local kept = setmetatable({}, {__mode = "k"})
    local function removed()
      local m = nn.Linear(2, 2)
      local hook = m:register_forward_hook(print)
      hook:remove()
      kept[m] = true
      return hook
    end
    local handle = removed()
    collectgarbage()
    assert.is_nil(next(kept))
    handle:remove()
  end)
end)
