-- What a program writes to a layer's fields: whatever it is, errors are heed's own, and name the
-- layer, the field and the value.

local calls = require "spec.support.calls"
local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local odd = require "spec.support.odd"
local nn = heed.nn

local ODD <const> = odd.values
local none_raw = odd.none_raw

-- Layers of each kind, with all that options give them.
local makers = {
  Attention = function() return nn.Attention(4) end,
  Classifier = function() return nn.Classifier(4, 2) end,
  Decoder = function() return nn.Decoder(4, 2, 1, {cross = false, layer_dropout = 0.5}) end,
  DecoderLayer = function() return nn.DecoderLayer(4, 2) end,
  Dropout = function() return nn.Dropout() end,
  Embedding = function() return nn.Embedding(4, 2) end,
  Encoder = function() return nn.Encoder(4, 2, 2, {norm = "pre"}) end,
  EncoderLayer = function() return nn.EncoderLayer(4, 2, 8, {norm = "sandwich"}) end,
  GatedMLP = function() return nn.GatedMLP(4, 4) end,
  Identity = function() return nn.Identity() end,
  LayerNorm = function() return nn.LayerNorm(4) end,
  Linear = function() return nn.Linear(4, 2) end,
  List = function() return nn.List{nn.Linear(4, 2)} end,
  MLP = function() return nn.MLP(4, 4, {dropout = 0.5}) end,
  MultiHeadAttention = function()
    return nn.MultiHeadAttention(4, 2, {gate = true, sink = true, memory = 2, qk_norm = true})
  end,
  Patches = function() return nn.Patches(2, 4, {class_token = true, positions = 4}) end,
  Pool = function() return nn.Pool("mean") end,
  RMSNorm = function() return nn.RMSNorm(4, {plus_one = true}) end,
  Sequential = function() return nn.Sequential{nn.Linear(4, 2), nn.GELU()} end,
  Transformer = function() return nn.Transformer(4, 2, {layers = 1, hidden = 4}) end,
}
for _, name in ipairs{
  "ELU", "GELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "ReLU", "SiLU",
  "Sigmoid", "Softmax", "Softplus", "Tanh",
} do
  makers[name] = function() return nn[name]() end
end

-- Layers with other options, and those that nn has no name for.
local more = {
  ["a rotary MultiHeadAttention"] = function()
    return nn.MultiHeadAttention(4, 2, {rope = true, scale = 2, softcap = 3, dropout = 0.5})
  end,
  ["a biased MultiHeadAttention"] = function()
    return nn.MultiHeadAttention(4, 2, {
      position_bias = heed.bias.t5{heads = 2}, mask = heed.mask.causal(), qk_norm = true,
      qk_norm_all = true,
    })
  end,
  ["a scaled EncoderLayer"] = function()
    return nn.EncoderLayer(4, 2, 8, {
      layer_scale = 0.1, residual_scale = 2, branch_scale = 2, dropout = 0.5,
    })
  end,
  ["a parallel EncoderLayer"] = function()
    return nn.EncoderLayer(4, 2, 8, {norm = "pre", parallel = true})
  end,
  ["a plain RMSNorm"] = function() return nn.RMSNorm(4) end,
  Learned = function() return heed.position.Learned(4, 4) end,
  Sinusoidal = function() return heed.position.Sinusoidal(4, 4) end,
}

local function adapted()
  local model = nn.Sequential{nn.Linear(4, 4)}
  return model, nn.lora(model, {targets = {"1"}, dropout = 0.5})
end

function more.Lora() return (select(2, adapted())) end

function more.LoraLinear() return adapted()[1] end

function more.Adapter() return adapted()[1].adapter end

more["a merged LoraLinear"] = function()
  local model, adapters = adapted()
  adapters:merge()
  return model[1]
end

local biases = {
  Alibi = function() return heed.bias.alibi(2) end,
  BiasSum = function() return heed.bias.tensor(heed.zeros(3, 3)) + heed.bias.alibi(2) end,
  Relative = function() return heed.bias.relative(heed.zeros(2, 5)) end,
  T5 = function() return heed.bias.t5{heads = 2, buckets = 4, distance = 8} end,
  TensorBias = function() return heed.bias.tensor(heed.zeros(3, 3)) end,
}

-- Models of tiny directories, which are loaded once, and what they read.
local ids, picture = heed.tensor{{2, 3, 4}}, heed.randn(1, 3, 16, 16)
local models = {
  albert = {ids}, bert_reranker = {ids}, clip = {ids, picture}, gpt2 = {ids}, roberta = {ids},
  siglip = {ids, picture}, ["st/model2vec"] = {ids}, t5 = {ids, ids}, vit = {picture},
}

-- Fields that tell about a model, and are no part of what it computes.
local ABOUT <const> = {
  chats = true, classes = true, config = true, generation = true, limit = true, sentences = true,
  tokenizer = true, typical = true,
}

-- Calls of models of texts that need a tokenizer.
local works = {
  bert_reranker = {function(m) m:score("a", "b") end, function(m) m:ids("a") end},
  qwen2 = {
    function(m) m:generate("a", {max = 1}) end,
    function(m) m:generate({1, 2}, {max = 1, stop = "a"}) end,
    function(m) m:generate({1, 2}, {max = 1, stop = "a", beams = 2}) end,
    function(m) m:generate({{role = "user", content = "a"}}, {max = 1, template = "a"}) end,
    function(m) m:chat({{role = "user", content = "a"}}, {template = "a", ids = true}) end,
  },
  ["st/bert_concat"] = {function(m) m:embed("a") end},
  ["st/model2vec"] = {function(m) m:embed("a") end, function(m) m:ids("a", {max = 4}) end},
}

local inputs = {Embedding = heed.tensor{{1, 2, 3}}, Patches = heed.randn(1, 1, 4, 4)}


-- Calls try(what, object) with each odd value in each field. Lua's own `rawset` writes it, since a
-- list refuses some.
local function each_field(name, make, try)
  for field in pairs(make()) do
    local object = make()
    for i = 1, ODD.n do
      rawset(object, field, ODD[i])
      try(("%s.%s = %s"):format(name, field, odd.texts[i]), object)
    end
  end
end


describe("no error is one of Lua's own after other values were written to the fields of", function()
  local function try_layer(name, make)
    local x = inputs[name] or calls.tensor()
    each_field(name, make, function(what, layer)
      none_raw(what, layer, x)
      none_raw(what, layer, x, x)
      none_raw(what, layer, x, {cache = nn.Cache()})
      none_raw(what, layer, x, x, {cache = nn.Cache()})
      none_raw(what, layer.state, layer)
      none_raw(what, tostring, layer)
      none_raw(what, function() layer:reset() end)      -- a name that some lack
    end)
    odd.assert_tried(name == "Identity" and 0 or 100)
  end

  for name, class in pairs(nn) do
    if type(class) == "table" and class.__is_module and name ~= "Module" then
      it("nn." .. name, function()
        assert.not_nil(makers[name], "there is no case of it")
        try_layer(name, makers[name])
      end)
    end
  end

  for name, make in pairs(more) do
    it(name, function() try_layer(name, make) end)
  end

  for name, given in pairs(models) do
    it("the model " .. name, function()
      local model = assert(heed.models.load(directories.HERE .. name, {dtype = "float32"}))
      assert.is_true(heed.is_tensor((model(table.unpack(given)))))
      for path, module in model:named_modules() do
        if path == "" or module.__kin:find("^models") then
          for field, own in pairs(module) do
            for i = 1, ABOUT[field] and 0 or ODD.n do
              rawset(module, field, ODD[i])
              local what = ("%s.%s.%s = %s"):format(name, path, field, odd.texts[i])
              none_raw(what, model, table.unpack(given))
              none_raw(what, tostring, model)
            end
            rawset(module, field, own)
          end
        end
      end
      odd.assert_tried(200)
    end)
  end

  it("a model's tokenizer", function()
    for name, does in pairs(works) do
      local model = assert(heed.models.load(directories.HERE .. name, {dtype = "float32"}))
      for i = 1, ODD.n do
        rawset(model, "tokenizer", ODD[i])
        for k, f in ipairs(does) do
          none_raw(("%s, %d: tokenizer = %s"):format(name, k, odd.texts[i]), f, model)
        end
      end
    end
    odd.assert_tried(200)
  end)

  for name, make in pairs(biases) do
    it("heed.bias's " .. name, function()
      local q, x = heed.randn(1, 2, 3, 2), heed.randn(1, 3, 4)
      each_field(name, make, function(what, bias)
        none_raw(what, heed.attention, q, q, q, {bias = bias})
        none_raw(what, bias.dense, bias, 3, 3)
        none_raw(what, tostring, bias)
        none_raw(what, function() return tostring(bias + bias) end)
        none_raw(what, function() return nn.MultiHeadAttention(4, 2, {position_bias = bias})(x) end)
        none_raw(what, function() bias:reset() end)
      end)
      odd.assert_tried(100)
    end)
  end
end)


-- The error of a call of a layer after a value was written to a field.
local function error_after(layer, field, value, ...)
  rawset(layer, field, value)
  return message(layer, ...)
end

-- The same of printing it.
local function printed_after(layer, field, value)
  rawset(layer, field, value)
  return message(tostring, layer)
end


describe("an error names the layer, the field and the value:", function()
  local x, make = calls.tensor(), makers.MultiHeadAttention

  it("sizes", function()
    for _, value in ipairs{"x", {}, print, 0, -1, 1.5, 0 / 0} do
      local words = "nn.MultiHeadAttention: a whole number of at least 1 expected as field "
      for _, name in ipairs{"heads", "kv_heads"} do
        local text = error_after(make(), name, value, x)
        assert.matches(words .. "'" .. name .. "', got ", text)
        assert.matches(words .. "'" .. name .. "', got ", printed_after(make(), name, value))
      end
      assert.matches(words .. "'dim', got ", printed_after(make(), "dim", value))
    end
    assert.matches("'heads', got the string 'x'", error_after(make(), "heads", "x", x))
    assert.matches("nn.Patches: a whole number of at least 1 expected as field 'height', got an "
                   .. "empty table", error_after(makers.Patches(), "height", {}, inputs.Patches))
    assert.matches("field 'heads' is nil now", error_after(make(), "heads", nil, x))
    assert.matches("position.Sinusoidal: a whole number of at least 1 expected as field 'dim', got "
                   .. "true", error_after(more.Sinusoidal(), "dim", true, x))
    assert.matches("nn.EncoderLayer: a whole number of at least 1 expected as field 'hidden'",
                   printed_after(makers.EncoderLayer(), "hidden", "x"))
    assert.matches("nn.Encoder: a whole number of at least 1 expected as field 'heads'",
                   printed_after(makers.Encoder(), "heads", "x"))
    assert.matches("nn.LayerNorm: a whole number of at least 1 expected as size 1 of field 'shape'",
                   printed_after(makers.LayerNorm(), "shape", {"x"}))
  end)

  it("sizes beyond a thousand", function()
    local layer = nn.MultiHeadAttention(4, 1025, {head_dim = 1})
    assert.equal("(2, 3, 4)", tostring(layer(x).shape))
    assert.matches("^MultiHeadAttention%(4, 1025%)", tostring(layer))
  end)

  it("what is called", function()
    assert.matches("nn.MLP: a function expected as field 'activation', got 3",
                   error_after(makers.MLP(), "activation", 3, x))
    assert.matches("nn.GatedMLP: a function expected as field 'dropout', got true",
                   error_after(makers.GatedMLP(), "dropout", true, x))
    assert.matches("nn.Classifier: a function expected as field 'pool', got 5",
                   error_after(makers.Classifier(), "pool", 5, x))
    assert.matches("nn.Classifier: a function expected as field 'dropout', got 5",
                   error_after(makers.Classifier(), "dropout", 5, x))
    assert.matches("nn.Patches: a function expected as field 'position', got true",
                   error_after(makers.Patches(), "position", true, inputs.Patches))
    assert.matches("nn.Sequential: a function expected as layer 1, got a tensor",
                   error_after(makers.Sequential(), 1, x, x))
    assert.matches("nn.Sequential: a function expected as layer 2, got 5",
                   error_after(makers.Sequential(), 2, 5, x))
    assert.matches("nn.LoraLinear: a function expected as field 'adapter', got 5",
                   error_after(more.LoraLinear(), "adapter", 5, x))
    assert.matches("EncoderLayer: a function expected as field 'norm1', got 5",
                   error_after(makers.EncoderLayer(), "norm1", 5, x))
  end)

  it("a tokenizer", function()
    local model = assert(heed.models.load(directories.HERE .. "qwen2"))
    for said, value in pairs{["an empty table"] = {}, ["false"] = false, ["a function"] = print} do
      model.tokenizer = value
      assert.matches("models.CausalModel: a tokenizer expected as field 'tokenizer', got " .. said,
                     message(model.generate, model, "a"))
    end
  end)

  it("what was callable before", function()
    local class = setmetatable({}, {__call = function(_, y) return y end})
    local layer = makers.MLP()
    layer.activation = class
    assert.is_true(heed.is_tensor(layer(x)))
    setmetatable(class, nil)
    assert.matches("a function expected as field 'activation', got an empty table",
                   message(layer, x))
  end)

  it("tensors", function()
    assert.matches("nn.Embedding: a matrix expected as field 'weight', got 5",
                   printed_after(makers.Embedding(), "weight", 5))
    assert.matches("nn.Linear: a matrix expected as field 'weight', got a tensor of shape %(2%)",
                   printed_after(makers.Linear(), "weight", heed.zeros(2)))
    assert.matches("position.Learned: a matrix expected as field 'weight', got true",
                   error_after(more.Learned(), "weight", true, x))
    assert.matches("nn.RMSNorm: a tensor expected as field 'weight', got true",
                   error_after(makers.RMSNorm(), "weight", true, x))
    assert.matches("nn.Patches: a tensor expected as field 'class_token', got true",
                   error_after(makers.Patches(), "class_token", true, inputs.Patches))
    assert.matches("nn.MultiHeadAttention: a tensor expected as field 'memory_values', got true",
                   error_after(make(), "memory_values", true, x))
    assert.matches("nn.Adapter: a tensor expected as field 'up', got 5",
                   error_after(more.Adapter(), "up", 5, x))
    assert.matches("nn.LoraLinear: a tensor expected as field 'merged', got 'x'",
                   (error_after(more["a merged LoraLinear"](), "merged", "x", x)
                    :gsub("the string ", "")))
    assert.matches("bias.T5: a matrix expected as field 'weight', got 5", message(function()
      local b = biases.T5()
      rawset(b, "weight", 5)
      return b:dense(3, 3)
    end))
  end)

  it("numbers, lists and words", function()
    assert.matches("nn.Encoder: a number from 0 to 1 expected as field 'layer_dropout', got 'x'",
                   (error_after(makers.Encoder(), "layer_dropout", "x", x)
                    :gsub("the string ", "")))
    assert.matches("nn.EncoderLayer: a number or a tensor expected as field 'residual_scale', got "
                   .. "an empty table", error_after(makers.EncoderLayer(), "residual_scale", {}, x))
    assert.matches("nn.EncoderLayer: a number or a tensor expected as field 'scale1', got true",
                   error_after(makers.EncoderLayer(), "scale1", true, x))
    assert.matches("nn.EncoderLayer: 'post', 'pre', 'sandwich' or 'output' expected as field "
                   .. "'place', got 5", error_after(makers.EncoderLayer(), "place", 5, x))
    assert.matches("nn.Pool: a way to pool expected as field 'kind', got 5",
                   error_after(makers.Pool(), "kind", 5, x))
    assert.matches("nn.ELU: a list of arguments expected as field 'arguments', got 5",
                   error_after(makers.ELU(), "arguments", 5, x))
    assert.matches("nn.MultiHeadAttention: a table of options expected as field 'rope', got true",
                   error_after(more["a rotary MultiHeadAttention"](), "rope", true, x))
    assert.matches("nn.LayerNorm: a list of sizes expected as field 'shape', got 5",
                   printed_after(makers.LayerNorm(), "shape", 5))
    assert.matches("nn.Encoder: a list of layers expected as field 'layers', got 5",
                   printed_after(makers.Encoder(), "layers", 5))
    assert.matches("bias.BiasSum: a bias expected as field 'a', got 5", message(function()
      local b = biases.BiasSum()
      rawset(b, "a", 5)
      return b:dense(3, 3)
    end))
  end)

  it("a description that is no text", function()
    local Odd = nn.Module:extend("Odd")
    function Odd:describe() return {} end
    assert.matches("Odd: a text expected from describe, got an empty table",
                   message(tostring, Odd()))
  end)
end)


describe("a layer's other fields", function()
  it("may be what they could be", function()
    local layer, x = makers.EncoderLayer(), calls.tensor()
    layer.residual_scale = heed.full({4}, 2.0)
    local wanted = makers.EncoderLayer()
    wanted:load_state(layer:state())
    wanted.residual_scale = 2
    assert.is_true(layer(x):equal(wanted(x)))
    local elu = nn.ELU(0.5)
    elu.arguments[1] = 2
    assert.is_true(elu(x - 5):equal(heed.elu(x - 5, 2)))
    elu.arguments = {0.25}
    assert.is_true(elu(x - 5):equal(heed.elu(x - 5, 0.25)))
    assert.equal("ELU(0.25)", tostring(elu))
    assert.is_true(nn.Softplus(nil, 10)(x):equal(heed.softplus(x, nil, 10)))
    assert.equal("Softplus(nil, 10)", tostring(nn.Softplus(nil, 10)))
  end)
end)


describe("a training mode", function()
  it("that a program wrote is a boolean, or is refused where it counts", function()
    local x = heed.randn(1, 3, 8)
    for who, case in pairs{
      Dropout = {nn.Dropout(0.5), x},
      MultiHeadAttention = {nn.MultiHeadAttention(8, 2, {dropout = 0.5}), x},
      Encoder = {nn.Encoder(8, 2, 1, {layer_dropout = 0.5}), x},
    } do
      local layer, input = case[1]:eval(), case[2]
      layer.training = "false"
      assert.matches(who .. ": a boolean expected as field 'training', got the string 'false'",
                     message(layer, input), 1, true)
      layer.training = false
      layer(input)
    end
    local decoder = nn.Decoder(8, 2, 1, {layer_dropout = 0.5, cross = false}):eval()
    decoder.training = 1
    assert.matches("a boolean expected as field 'training', got 1",
                   message(decoder, x, {cache = nn.Cache()}))
  end)
end)


describe("averages and scalers", function()
  it("refuse fields that they do not have", function()
    local ema, scaler = heed.optim.EMA{nn.Parameter(heed.ones(1))}, heed.optim.Scaler()
    assert.matches("optim.EMA: there is no 'updaet'; did you mean 'update'",
                   message(function() ema:updaet() end))
    assert.matches("optim.EMA: there is no 'decay'", message(function() ema.decay = 0.5 end))
    assert.matches("optim.Scaler: there is no 'unscale'; did you mean 'unscale_'",
                   message(function() scaler:unscale() end))
    assert.matches("optim.Scaler: there is no 'growth'",
                   message(function() scaler.growth = 0.5 end))
    assert.matches("the name of a field expected, got 1", message(function() scaler[1] = 0.5 end))
  end)
end)
