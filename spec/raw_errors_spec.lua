-- Wrong values as arguments: no message is one of Lua's own about a line of heed's.

local calls = require "spec.support.calls"
local heed = require "heed"
local message = require "spec.support.message"
local odd = require "spec.support.odd"
local substitute = require "spec.support.substitute"
local nn, data = heed.nn, heed.data

local new = calls.tensor
local x = new()                                -- some functions change it
local ODD <const>, none_raw <const>, raw <const> = odd.values, odd.none_raw, odd.raw
local COUNT <const> = ODD.n

describe("no error is one of Lua's own:", function()
  for part_name, part in pairs(calls.parts) do
    it("functions and classes of " .. part_name, function()
      for name, f in pairs(part) do
        if not calls.SKIPPED[name] and calls.is_callable(f) then
          calls.oddly(part_name .. "." .. name, f, ODD, none_raw)
          calls.options(part_name .. "." .. name, f, ODD, none_raw)
        end
      end
      odd.assert_tried(100)
    end)
  end

  for name, make in pairs(calls.objects) do
    if next(calls.methods(make())) then                  -- a mask has none
      it("methods of " .. name, function()
        calls.of_object(name, make, ODD, none_raw)
        odd.assert_tried(100)
      end)
    end
  end

  local makers = {
    MultiHeadAttention = function()
      return nn.MultiHeadAttention(4, 2, {gate = true, sink = true, memory = 2, qk_norm = true})
    end,
    EncoderLayer = function() return nn.EncoderLayer(4, 2, 8, {norm = "sandwich"}) end,
    DecoderLayer = function() return nn.DecoderLayer(4, 2) end,
    Encoder = function() return nn.Encoder(4, 2, 2, {norm = "pre"}) end,
    Decoder = function() return nn.Decoder(4, 2, 1, {cross = false}) end,
    Transformer = function() return nn.Transformer(4, 2, {layers = 1, hidden = 4}) end,
  }

  it("methods of layers that are called with a dot", function()
    x = new()
    for name, make in pairs(makers) do
      local layer = make()
      for i = 1, COUNT do
        if not nn.Module.is(ODD[i]) then
          for _, method in ipairs{"forward", "describe", "init", "train", "parameters"} do
            if type(ODD[i]) ~= "table" then none_raw(name, layer[method], ODD[i]) end
          end
        end
      end
    end
    odd.assert_tried(400)
    assert.matches("nn.Linear: a layer expected as the first argument of forward, got a tensor of "
                   .. "shape %(2, 3, 4%).*; write layer:forward%(...%)",
                   message(nn.Linear(4, 2).forward, x))
  end)

  -- The methods that an object's class lists for programs, and metamethods that they may fetch.
  local function calls_on(object, try)
    for name, f in pairs(calls.methods(object)) do try(name, f) end
    for name, f in next, debug.getmetatable(object) do
      local is_metamethod = type(name) == "string" and name:find("^__") and name ~= "__gc"
      if is_metamethod and type(f) == "function" then try(name, f) end
    end
  end

  it("methods and metamethods that are called on other objects", function()
    x = new()
    for name, make in pairs(calls.objects) do
      local object = make()
      calls_on(object, function(method, f)
        for i = 1, COUNT do
          local what = ("%s.%s(%s)"):format(name, method, odd.texts[i])
          for n = 0, 2 do none_raw(what, f, ODD[i], table.unpack({x, x}, 1, n)) end
        end
        if nn.Module.is(object) then
          local unmade = setmetatable({}, debug.getmetatable(object))
          none_raw(name .. "." .. method .. "(unmade)", f, unmade, x)
        end
      end)
    end
    odd.assert_tried(10000)
  end)

  -- But for objects that methods are called on, and errors of an example's own functions.
  it("examples with other values in the place of each argument", function()
    local list, tried = {}, 0
    substitute.run(function(what, f, arguments)
      local object = not heed.is_tensor(arguments[1]) and debug.getmetatable(arguments[1])
      for i = 1, COUNT do
        substitute.each_place(arguments, ODD[i], function(changed, place)
          if object and place == "argument 1" then return end
          tried = tried + 1
          local good, text = pcall(f, table.unpack(changed, 1, changed.n))
          local found = not good and raw(text)
          if found and not found:find("^example:") then
            list[#list + 1] = ("%s, %s: %s"):format(what, place, found)
          end
        end)
      end
    end)
    assert.equal("", table.concat(list, "\n"))
    assert.is_true(tried > 40000, tried)
  end)
end)


describe("in the place of a layer's part", function()
  before_each(function() x = new() end)

  it("a function does what the part did", function()
    local layer = nn.MultiHeadAttention(4, 2, {context_dim = 6})
    local context = heed.randn(2, 3, 6)
    local wanted = layer(x, context)
    local whole = tostring(layer):match("^[^\n]*%)")
    for _, name in ipairs{"query", "key", "value", "out"} do
      local projection = layer[name]
      layer[name] = function(y) return projection(y) end
    end
    assert.is_true(layer(x, context):equal(wanted))
    assert.equal(whole, tostring(layer):match("^[^\n]*%)"))
    assert.matches("a context of 6 features expected", message(layer, x))
    assert.matches("nn.MultiHeadAttention: reset: a layer with weights expected as field 'query', "
                   .. "got a function", message(layer.reset, layer))
    layer.value = function() end
    assert.matches("nn.MultiHeadAttention: a tensor expected from field 'value', got nil",
                   message(layer, x, context))
    layer.value = function(y) return y:narrow(3, 1, 3) end
    assert.matches("features for 2 heads expected from field 'value', got a tensor of shape "
                   .. "%(2, 3, 3%)", message(layer, x, context))
    layer.value = 5
    assert.matches("nn.MultiHeadAttention: a function expected as field 'value', got 5",
                   message(layer, x, context))
  end)

  it("a function does what a position, an encoder and a decoder did", function()
    local layer = nn.MultiHeadAttention(4, 2, {position = function(q, k) return q, k end})
    layer.position = 5
    assert.matches("nn.MultiHeadAttention: a function expected as field 'position', got 5",
                   message(layer, x))
    local model = nn.Transformer(4, 2, {layers = 1})
    local wanted, decoder = model(x, x), model.decoder
    local encoder = model.encoder
    model.encoder = function(...) return encoder(...) end
    model.decoder = function(...) return decoder(...) end
    assert.is_true(model(x, x):equal(wanted))
    assert.matches("nn.Transformer: option cache: an nn.Decoder expected as field 'decoder', got a "
                   .. "function", message(model, x, x, {cache = nn.Cache()}))
    model.decoder, model.encoder = decoder, 5
    assert.matches("nn.Transformer: a function expected as field 'encoder', got 5",
                   message(model, x, x))
    decoder.layers = 5
    assert.matches("nn.Decoder: a list of layers expected as field 'layers', got 5",
                   message(decoder, x, x))
    decoder.layers = {5}
    assert.matches("nn.Decoder: a function expected as layer 1, got 5", message(decoder, x, x))
  end)

  it("a function does what a block's MLP or attention did", function()
    local encoder = nn.Encoder(4, 2, 1)
    local wanted, layer = encoder(x), encoder.layers[1]
    local mlp, attend = layer.mlp, layer.attend
    layer.mlp = function(y) return mlp(y) end
    layer.attend = function(y, o) return attend(y, o) end
    assert.is_true(encoder(x):equal(wanted))
    assert.matches("^Encoder%(4, 2, 1%)", tostring(encoder))
    assert.matches("EncoderLayer%(4, 2, 16%)", tostring(layer))
  end)
end)


describe("a metamethod that is called by hand", function()
  local Linear = nn.Linear
  local linear = Linear(2, 2)

  it("refuses what is no module, or no class of modules", function()
    for _, value in ipairs{5, "x", {}, print, heed.zeros(2), nn.Cache()} do
      for name, f in pairs{__call = Linear.__call, __index = Linear.__index,
                           __newindex = Linear.__newindex, __pairs = Linear.__pairs} do
        assert.matches(name .. ": a module expected as the first argument, got ",
                       message(f, value, "name"))
      end
      local class = getmetatable(Linear)
      if class then                                  -- a sealed state shows none
        assert.matches("__call: a class of modules expected as the first argument, got ",
                       message(class.__call, value))
      end
    end
    local unmade = setmetatable({}, debug.getmetatable(linear))
    assert.matches("a layer that Linear%(...%) made expected", message(Linear.__call, unmade))
  end)

  it("refuses a name that none can have", function()
    assert.matches("Linear: %-?nan is no name", message(function() linear[0 / 0] = 1 end))
    assert.matches("Linear: nil is no name of a field", message(function() linear[nil] = 1 end))
  end)
end)


describe("lookup", function()
  it("takes a vocabulary for its tokens", function()
    local chars = data.chars("abc")
    assert.same({"c", "a"}, heed.lookup(chars, heed.tensor{3, 1}))
    assert.matches("lookup: id 4 lies outside of 1 to 3", message(heed.lookup, chars, 4))
  end)
end)


describe("a yield where none may be", function()
  local yield <const> = coroutine.yield
  local q = heed.ones(1, 1, 2, 2)

  local function refused(wanted, f)
    local good, why = coroutine.resume(coroutine.create(f))
    assert.is_false(good)
    assert.matches("_spec.lua:%d+: " .. wanted .. " may not yield$", why)
  end

  it("is refused by what called the function", function()
    local called = "a function that it calls"
    local mask = heed.mask.predicate(yield)
    refused("mask:dense: " .. called, function()
      local dense = mask:dense(1, 1, 2, 2)
      return dense
    end)
    refused("attention: " .. called, function()
      local y = heed.attention(q, q, q, {mask = mask})
      return y
    end)
  end)

  it("is refused in a backward pass, by the name of its function", function()
    local leaf = heed.ones(2, {requires_grad = true})
    local double = heed.custom{
      forward = function(_, t) return t * 2 end,
      backward = function() return yield() end,
    }
    refused("custom: backward", function() double(leaf):sum():backward() end)
    local y = leaf * 3
    y:register_hook(yield)
    refused("register_hook: the function", function() y:sum():backward() end)
  end)
end)
