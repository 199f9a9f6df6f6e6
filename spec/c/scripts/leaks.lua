-- Calls of all parts of heed that hold memory of their own, and calls that fail, run by
-- spec/c/lua_leaks.c, which counts the blocks of memory that are left behind.

local failing, held = ...
local changes = require "spec.support.changes"
local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"
local nn = heed.nn

local GOLDEN <const> = "spec/golden/"

local function fails(f, ...) assert(not pcall(f, ...)) end

-- A function that is given to heed, and fails.
local function bad() error "no" end


local function tensors()
  local x = heed.randn(3, 4)
  for _ = 1, 50 do x = (x * 2 + 1):t():contiguous():tanh() end
  fails(function() return x + heed.ones(5) end)
  fails(heed.tensor, {{1, 2}, {3}})
  fails(heed.zeros, 1 << 40, 1 << 40)
  fails(heed.scope, bad)
  heed.scope(function() return {x, x + 1} end)
  local y <close> = x:clone()
  y[{1, {1, 2}}] = 0
  y:release()
  return #(tostring(x) .. x:format "%.1f") > 0 and heed.cat{x, x}:totable()
end


local function graphs()
  local w = heed.ones(3, {requires_grad = true})
  local double = heed.custom{forward = function(_, a) return a * 2 end,
                             backward = function(_, g) return g * 2 end}
  local wrong = heed.custom{forward = function(_, a) return a * 2 end, backward = bad}
  local hook = w:register_hook(function(g) return g * 2 end)
  double(double(w)):sum():backward()
  fails(function() wrong(w):sum():backward() end)
  hook:remove()
  w:register_hook(bad)
  fails(function() (w * 2):sum():backward() end)
  fails(w.register_hook, heed.ones(3), bad)
  local v = heed.ones(3, {requires_grad = true})
  heed.grad(heed.grad((v * v * v):sum(), v, {create_graph = true}):sum(), {v, w})
  heed.checkpoint(heed.exp, v):sum():backward()
  fails(heed.checkpoint, bad, v)
  fails(heed.grad, v, w)
end


local function calls()
  local w = heed.ones(2, {requires_grad = true})
  local f = heed.capture(function(t) return (w * t):sum() end)
  for _ = 1, 3 do f(heed.ones(2)) end
  fails(heed.capture(bad), w)
  heed.profile(function() return w * 2 end)
  fails(heed.profile, bad)
  heed.autocast("bfloat16", function() return heed.ones(2, 2):matmul(heed.ones(2, 2)) end)
  for _, case in ipairs(changes.cases) do pcall((case.make())) end
end


local function words()
  for _, name in ipairs{"bpe_gpt2", "unigram", "wordpiece_uncased"} do
    local tok = assert(heed.tokenizer.load(GOLDEN .. "tokenizers/" .. name))
    local ids = tok:encode("one two, three", {offsets = true, types = true, pair = "four"})
    local stream = tok:stream()
    for i = 1, #ids do stream:push(ids[i]) end
    stream:finish()
    fails(tok.decode, tok, heed.tensor({-1}, {dtype = "int64"}))
    pcall(tok.encode, tok, "x", {max = 1, pair = "y z"})
    assert(tok:decode(ids))
  end
  for _, kind in ipairs{"bpe", "wordpiece", "unigram"} do
    pcall(heed.tokenizer.train, {kind = kind, text = ("some text "):rep(20), vocabulary = 60})
    pcall(heed.tokenizer.train, {kind = kind, text = "\xff", vocabulary = 1})
  end
  pcall(heed.tokenizer.load, "spec/golden/second.safetensors")
  local value = json.decode '{"a": [1, 2.5, null, "\\u00e9"], "b": {"c": true}}'
  for _, text in ipairs{'{"a": [1, 2', '["\\ud800', "[1e999]", "{1}", ""} do
    pcall(json.decode, text)
  end
  return value
end


local function models()
  local model = assert(heed.models.load(GOLDEN .. "models/llama3"))
  local rule = heed.constrain.json(model.tokenizer, {object = true})
  model:generate("a b", {max = 3, logits = rule})
  fails(model.generate, model, "a b", {max = 3, logits = bad})
  model:generate("a b a b", {max = 4, lookup = 2})
  pcall(heed.generate, model, heed.tensor{{2, 3}}, {max = 3, beams = 2})
  assert(heed.load(GOLDEN .. "gguf/q4_k.gguf"))
  assert(heed.load(GOLDEN .. "layers.safetensors"))
  pcall(heed.models.load, GOLDEN .. "models")
  pcall(heed.load, "spec/c/lua_leaks.c")
end


local function files()
  local path = os.tmpname()
  local index = heed.search.index{dim = 4}:add({1, 2, 3}, heed.randn(3, 4))
  index:query(heed.randn(4), 2)
  assert(index:save(path))
  assert(heed.search.load(path))
  assert(heed.save(path .. ".safetensors", {x = heed.ones(70, 70), y = heed.ones(2)}))
  local mapped = assert(heed.load(path .. ".safetensors"))
  assert(heed.save(path .. ".npy", mapped.x:t()))
  assert(not heed.save("/nonexistent/a.npy", mapped.x))
  assert(heed.plot.heat(mapped.x):save(path .. ".png"))
  os.remove(path)
  for _, kind in ipairs{"safetensors", "npy", "png"} do os.remove(path .. "." .. kind) end
  local layer = nn.MultiHeadAttention(4, 2)
  local cache = nn.Cache()
  for _ = 1, 3 do layer(heed.randn(1, 2, 4), {cache = cache, mask = heed.mask.causal()}) end
  fails(layer, heed.randn(1, 2, 3))
end


-- Whether malloc failed in f(x), which fails behind n calls, and the message where f was refused.
local function attempt(n, f, x)
  local struck, good, why = failing(n, function() return f(x) end)
  assert(good or struck)
  return struck, not good and tostring(why)
end


-- A call for which malloc fails once is refused, names itself, and works the next time.
local function starved()
  local double = heed.custom{forward = function(_, a) return a * 2 end,
                             backward = function(_, g) return g * 2 end}
  for name, call in pairs{
    register_hook = function(x) return x:register_hook(function(g) return g * 2 end) and x end,
    custom = double,
  } do
    local n, named, struck, why = 0, false
    repeat
      local x = heed.ones(3, {requires_grad = true})
      assert(#(x * 1) == 3)                      -- x has a node of its own from now on
      for _ = 1, 2 do collectgarbage() end
      local nodes = heed.graph_nodes()
      struck, why = attempt(n, call, x)
      if why then
        assert(why:find("not enough memory", 1, true), why)
        named = named or why:find(name .. ": not enough memory", 1, true)
        for _ = 1, 2 do collectgarbage() end
        assert(heed.graph_nodes() == nodes)
        call(x):sum():backward()
        assert(x.grad[1] == 2)
      end
      n = n + 1
    until not struck
    assert(named)
  end
end


-- Records that a profile has no memory for are no failure of a later call.
local function unrecorded()
  local list, x, n = {}, heed.ones(1, 2), 0
  for i = 1, 70 do list[i] = nn.Linear(2, 2) end
  local model = nn.Sequential(list)
  local function f()
    model(x)
    error "no"
  end
  repeat
    local struck = failing(n, function() fails(heed.profile, f) end)
    assert(core.crc32 "abc" == 0x352441c2)
    n = n + 1
  until not struck
end


-- Files are closed at once where there is no more to them, whenever the collector comes.
local function closed()
  local path = os.tmpname()
  local _, before = held()
  collectgarbage "stop"
  for _, open in ipairs{core.open_file, core.read_file} do assert(not open "/tmp") end
  assert(core.read_file(path) == "")
  assert(select(2, held()) == before)
  collectgarbage "restart"
  os.remove(path)
end


-- Rows of a picture as zlib has them, stored as they are, leave no memory behind.
local function pictures()
  local rows = "\x78\x01\x01\x04\x00\xfb\xff\x00\x01\x02\x03\x00\x0e\x00\x07"
  local short, x, before = rows:sub(1, -2), heed.zeros({4}, {dtype = "uint8"}), nil
  local here, why = core.png_rows(x, rows, 1, 3, 3)
  if not here and why:find("zlib", 1, true) then return print("leaks: no zlib") end
  for i = 1, 5 do
    assert(core.png_rows(x, rows, 1, 3, 3) and x[3] == 3)
    assert(not core.png_rows(x, short, 1, 3, 3))
    if i == 1 then
      collectgarbage "stop"
      before = held()
    end
  end
  assert(held() == before)
  collectgarbage "restart"
end


for _, f in ipairs{tensors, graphs, calls, words, models, files, starved, unrecorded, closed,
                   pictures} do
  f()
end
