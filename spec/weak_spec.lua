-- Values that a script made and dropped are collected, whatever heed has noted about them: notes
-- stand in weak tables.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local noted                          -- object -> its name, weak

local function note(name, value)
  noted[value] = name
  return value
end

local function tensor(name, ...) return note(name, heed.randn(...)) end

local uses = {}

uses["classes and their layers"] = function()
  for class, make in pairs{
    [nn.Linear] = function(Own) return Own(2, 2) end,
    [nn.MultiHeadAttention] = function(Own) return Own(4, 2) end,
    [nn.Module] = function(Own) return Own() end,
  } do
    local Own = note("class", class:extend "Own")
    function Own:forward(x) return x end
    local layer = note("layer", make(Own))
    note("state", layer:state())
    assert.equal(2, layer(2))
    assert.is_string(tostring(layer))
  end
end

uses["hooks"] = function()
  local layer = note("layer", nn.Sequential{nn.Linear(2, 2), nn.ReLU()})
  local handles = {}
  for _, name in ipairs{"register_forward_hook", "register_forward_pre_hook"} do
    handles[#handles + 1] = note("handle", layer[name](layer, note("hook", function() end)))
  end
  layer:on_weights(note("follower", function() return layer end))
  layer(heed.ones(1, 2))
  handles[1]:remove()
  layer:to "float64"
end

uses["parameters, optimisers and averages"] = function()
  local layer = note("layer", nn.Linear(2, 2))
  local opt = note("optimiser", optim.Adam(layer:parameters(), {lr = 0.1}))
  local average = note("average", optim.EMA(layer, {decay = 0.5}))
  note("parameter", layer.weight)
  layer(tensor("x", 1, 2)):sum():backward()
  opt:step()
  layer:to "float64"
  layer.own = note("buffer", nn.Parameter(heed.ones(2)))
  layer.again = layer.own
  layer:parameters()
  layer:load_state(layer:state())
  average:update()
end

uses["attention, positions and caches"] = function()
  local layer = note("layer", nn.MultiHeadAttention(4, 2, {rope = {base = 100}}))
  local x, positions = tensor("x", 1, 3, 4), note("positions", heed.arange(1, 3):to "int64")
  local _, weights = layer(x, {weights = true})
  note("weights", weights)
  for _ = 1, 2 do heed.position.rope(tensor("q", 1, 2, 3, 4), {positions = positions}) end
  local one = tensor("x", 1, 1, 4)
  for _, o in ipairs{{}, {capacity = 9}, {window = 2}} do
    local cache = note("cache", nn.Cache(o))
    for _ = 1, 3 do heed.no_grad(layer, one, {cache = cache}) end
    cache = note("cache", nn.Cache(o))
    local mask = not o.window and note("mask", heed.mask.window(2)) or nil
    for _ = 1, 3 do heed.no_grad(layer, one, {cache = cache, mask = mask}) end
  end
  local context = layer(x, tensor("context", 1, 3, 4), {weights = true})
  note("context", context)
  note("joined", heed.mask.causal() & heed.mask.window(2) | heed.mask.prefix(1)):dense(1, 1, 3, 3)
  note("predicate", heed.mask.predicate(note("f", function() return true end))):dense(1, 1, 2, 2)
end

uses["lists of arguments, and functions in the place of parts"] = function()
  local layer = note("layer", nn.MultiHeadAttention(4, 2))
  layer.query = note("part", function(x) return x end)
  layer(tensor("x", 1, 3, 4))
  for _, activation in ipairs{nn.LeakyReLU(0.1), nn.Softmax(-1), nn.GELU()} do
    note("activation", activation)(heed.ones(2))
    if activation.arguments then note("arguments", activation.arguments) end
  end
end

uses["adapters"] = function()
  local model = note("model", nn.Sequential{nn.Linear(4, 4), nn.Linear(4, 4)})
  local adapters = note("adapters", nn.lora(model, {rank = 2, targets = {"1", "2"}}))
  model(heed.ones(1, 4))
  note("layer", model[1])
  adapters:merge()
  model(heed.ones(1, 4))
  adapters:unmerge()
  adapters:unload(model)
end

uses["captured functions"] = function()
  local w = tensor("w", 2)
  local f = note("captured", heed.capture(note("function", function(x) return x * w end)))
  for _ = 1, 3 do f(tensor("x", 2)) end
  local layer = note("layer", nn.Linear(2, 2))
  local g = note("captured", heed.capture(function(x, l) return l(x) end))
  for _ = 1, 3 do g(tensor("x", 1, 2), layer) end
end

uses["names of layers, in errors and in profiles"] = function()
  local model = note("model", nn.Sequential{nn.Linear(2, 2), nn.Sequential{nn.Linear(3, 2)}})
  note("layer", model[2])
  assert(not pcall(model, heed.ones(1, 2)))
  model[2][1] = note("layer", nn.Linear(2, 2))
  heed.profile(function() return model(heed.ones(1, 2)) end)
end

uses["generated words"] = function()
  local model = note("model", assert(heed.models.load "spec/golden/models/llama3"))
  note("tokenizer", model.tokenizer)
  local rule = note("rule", heed.constrain.json(model.tokenizer, {object = true}))
  model:generate("a b", {max = 2, logits = rule})
  local again = note("model", assert(heed.models.load "spec/golden/models/llama3"))
  note("tokenizer", again.tokenizer)
  again:generate("a b", {max = 2, logits = rule})
  heed.generate(model, heed.tensor{{2, 3}}, {max = 2, check = true})
  heed.generate(model, heed.tensor{{2, 3}}, {max = 2, beams = 2})
  heed.no_grad(model, heed.tensor{{2, 3}})
end

uses["batches"] = function()
  local next_batch = note("task", heed.tasks.addition())
  next_batch()
  note("batches", heed.data.batches(tensor("rows", 4, 2), {size = 2}))
end


describe("what was made and dropped is collected:", function()
  before_each(function() noted = setmetatable({}, {__mode = "k"}) end)

  for name, use in pairs(uses) do
    it(name, function()
      use()
      assert.is_truthy(next(noted))
      for _ = 1, 4 do collectgarbage() end
      local left = {}
      for _, what in pairs(noted) do left[#left + 1] = what end
      table.sort(left)
      assert.equal("", table.concat(left, ", "))
    end)
  end
end)
