-- Wrong values anywhere: no message is one of Lua's own about a line of heed's.

local heed = require "heed"
local message = require "spec.support.message"
local nn, data = heed.nn, heed.data

local function new() return heed.arange(24, {dtype = "float32"}):view(2, 3, 4) end

local x = new()                                -- some functions change it

-- Values of all sorts; nil is one of them.
local COUNT <const> = 25
local ODD <const> = {
  nil, true, false, 0, -1, 1.5, 0 / 0, "x", "", {}, {1}, {{}}, {"a"}, {x = 1}, function() end, x,
  heed.tensor{1, 2}, nn.Linear(2, 2), coroutine.create(print), io.stdout, heed.mask.causal,
  nn.Cache(), data.chars("abc"), setmetatable({}, {}), 4,
}

-- Functions that change what all specs share, or print, or wait for a person.
local SKIPPED <const> = {
  default_device = true, default_dtype = true, help = true, interrupt = true, level = true,
  load = true, manual_seed = true, memory = true, printoptions = true, release = true,
  rng_state = true, save = true, threads = true,
}


-- Lua's own error within a file of heed's, or nil. An error of the Lua half names another line.
local function raw(text)
  text = tostring(text)
  return text:match("lua/heed/[%w_/]+%.lua:%d+:.*")
         or text:find("attempt to", 1, true) and text or nil
end


local function none_raw(what, f, ...)
  local good, text = pcall(f, ...)
  if not good then assert.is_nil(raw(text), what) end
end


-- Calls with odd values, alone, in pairs, and behind good ones.
local function call_oddly(what, f)
  none_raw(what, f)
  for i = 1, COUNT do
    local odd = ODD[i]
    none_raw(what, f, odd)
    none_raw(what, f, odd, odd)
    none_raw(what, f, x, odd)
    none_raw(what, f, x, x, odd)
    none_raw(what, f, x, odd, x)
    none_raw(what, f, 4, 2, odd)
    none_raw(what, f, x, x, x, odd)
  end
end


-- The options that a function says it has, after so many arguments.
local function options_of(f, arguments)
  local list = table.pack(table.unpack(arguments))
  list[#list + 1] = {zzzzzzzz = 1}
  local _, text = pcall(f, table.unpack(list))
  local names = tostring(text):match("unknown option 'zzzzzzzz'; there are ([%w_, ]+)") or ""
  return names:gmatch("[%w_]+")
end


local function give_odd_options(what, f)
  for _, arguments in ipairs{{}, {4}, {4, 2}, {4, 2, 1}, {x}, {x, x}, {x, x, x}} do
    for name in options_of(f, arguments) do
      for i = 2, COUNT do
        local list = table.pack(table.unpack(arguments))
        list[#list + 1] = {[name] = ODD[i]}
        none_raw(what .. ": option " .. name, f, table.unpack(list))
      end
    end
  end
end


local function is_callable(value)
  local class = getmetatable(value)
  return type(value) == "function" or type(value) == "table" and class and class.__call
end


describe("no error is one of Lua's own:", function()
  local parts = {
    heed = heed, nn = nn, optim = heed.optim, data = data, mask = heed.mask, bias = heed.bias,
    position = heed.position, plot = heed.plot, tasks = heed.tasks, init = nn.init,
  }
  for part_name, part in pairs(parts) do
    it("functions and classes of " .. part_name, function()
      for name, f in pairs(part) do
        if not SKIPPED[name] and is_callable(f) then
          call_oddly(part_name .. "." .. name, f)
          give_odd_options(part_name .. "." .. name, f)
        end
      end
    end)
  end

  local makers = {
    MultiHeadAttention = function()
      return nn.MultiHeadAttention(4, 2, {gate = true, sink = true, memory = 2, qk_norm = true})
    end,
    EncoderLayer = function() return nn.EncoderLayer(4, 2, 8, {norm = "sandwich"}) end,
    DecoderLayer = function() return nn.DecoderLayer(4, 2) end,
    Encoder = function() return nn.Encoder(4, 2, 2, {norm = "pre"}) end,
  }

  it("layers with other values in the place of their parts", function()
    x = new()
    for name, make in pairs(makers) do
      for field, part in pairs(make()) do
        for i = 2, nn.Module.is(part) and COUNT or 0 do
          local layer = make()
          layer[field] = ODD[i]
          local what = name .. "." .. field .. " = " .. tostring(ODD[i])
          none_raw(what, layer, x)
          none_raw(what, layer, x, x)
          none_raw(what, layer, x, {cache = nn.Cache()})
          none_raw(what, tostring, layer)
          if name == "MultiHeadAttention" then none_raw(what, layer.reset, layer) end
        end
      end
    end
  end)

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
    assert.matches("nn.Linear: a layer expected as the first argument of forward, got a tensor of "
                   .. "shape %(2, 3, 4%).*; write layer:forward%(...%)",
                   message(nn.Linear(4, 2).forward, x))
  end)

  local methods = {
    Cache = {function() return nn.Cache() end, "append", "attended", "clone", "commit", "context",
             "has_moved", "length", "pass", "place", "positions", "reorder", "store", "truncate"},
    ["Cache with a capacity"] = {function() return nn.Cache{capacity = 4} end, "append",
      "attended", "clone", "commit", "context", "has_moved", "length", "pass", "place",
      "positions", "reorder", "store", "truncate"},
    picture = {function() return heed.plot.heat{{1, 2}, {3, 4}} end, "text"},
    vocabulary = {function() return data.chars("abc") end, "decode", "encode", "id"},
    optimizer = {function() return heed.optim.SGD(nn.Linear(2, 2):parameters()) end, "step",
                 "zero_grad", "state", "load_state"},
    average = {function() return heed.optim.EMA(nn.Linear(2, 2)) end, "apply", "update", "state",
               "load_state"},
    scaler = {function() return heed.optim.Scaler() end, "scale", "step", "state", "load_state"},
  }
  for name, list in pairs(methods) do
    it("methods of a " .. name, function()
      local made = list[1]()
      for k = 2, #list do
        local method = made[list[k]]
        none_raw(list[k], method)
        for i = 1, COUNT do
          none_raw(list[k], method, ODD[i])
          none_raw(list[k], method, list[1](), ODD[i])
          none_raw(list[k], method, list[1](), nn.Linear(2, 2), ODD[i])
          none_raw(list[k], method, list[1](), ODD[i], x)
        end
      end
    end)
  end
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


describe("lookup", function()
  it("takes a vocabulary for its tokens", function()
    local chars = data.chars("abc")
    assert.same({"c", "a"}, heed.lookup(chars, heed.tensor{3, 1}))
    assert.matches("lookup: id 4 lies outside of 1 to 3", message(heed.lookup, chars, 4))
  end)
end)
