-- Cases of the defaults of layers, optimisers, masks and positions: see
-- spec/support/default_ops.lua.

local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"
local position = require "heed.position"

local cases = {}

local X <const> = heed.arange(24):reshape(2, 3, 4):to("float32"):sin()
local CONTEXT <const> = heed.arange(48):reshape(2, 6, 4):to("float32"):cos()


-- Cases of a class of options: call(o) gets a table with the option, or an empty one.
local function class(name, call, others)
  for option, other in pairs(others) do
    local is = nil
    if type(other) == "table" and other.to ~= nil then is, other = other.is, other.to end
    cases[name .. "." .. option] = {function(value) return call({[option] = value}) end, other,
                                    value = is}
  end
end

-- A layer: how it is printed, its weights, and what it computes.
local function shown(module, ...)
  local weights = {}
  for name, p in module:named_parameters() do weights[name] = p:detach() end
  return {tostring(module), weights, {module(...)}}
end


-- Adapters -------------------------------------------------------------------

class("heed.lora.options", function(o)
  local model = nn.EncoderLayer(4, 2)
  for name, p in nn.lora(model, o):named_parameters() do
    if name:find("up$") then heed.no_grad(p.fill_, p, 0.1) end
  end
  return shown(model, X)
end, {alpha = {is = 8, to = 9}, dropout = 0.5, rank = 4, targets = {is = {"query", "value"},
                                                               to = {"query", "key"}}})


-- Layers ---------------------------------------------------------------------

local TINY <const> = X * 1e-3

class("heed.LayerNorm.options", function(o) return shown(nn.LayerNorm(4, o), TINY) end,
      {eps = 1.1e-5, bias = false})
class("heed.RMSNorm.options", function(o) return shown(nn.RMSNorm(4, o), TINY) end,
      {eps = {is = 0x1p-23, to = 1.2e-7}})
class("heed.MLP.options", function(o) return shown(nn.MLP(4, 6, o), X) end,
      {activation = "gelu", bias = false, dropout = 0.5, out_dim = {is = 4, to = 3}})
class("heed.GatedMLP.options", function(o) return shown(nn.GatedMLP(4, 6, o), X) end,
      {activation = "gelu", bias = false, dropout = 0.5, out_dim = {is = 4, to = 3}})
class("heed.MultiHeadAttention.options", function(o)
  local wide = o.context_dim == 5 or o.value_context_dim == 5
  local context = wide and heed.ones(2, 6, 5) or CONTEXT
  local values = wide and o.value_context_dim and {values = context} or nil
  return shown(nn.MultiHeadAttention(4, 2, o), X, values and CONTEXT or context, values)
end, {head_dim = {is = 2, to = 3}, value_dim = {is = 2, to = 3}, context_dim = {is = 4, to = 5},
      value_context_dim = {is = 4, to = 5}, out_dim = {is = 4, to = 3}, bias = false,
      dropout = 0.5})
class("heed.Classifier.options", function(o) return shown(nn.Classifier(4, 3, o), X) end,
      {pool = "max", dropout = 0.5, bias = false})
class("heed.Patches.options", function(o)
  return shown(nn.Patches(2, 4, o), heed.ones(2, o.channels or 1, 4, 4))
end, {channels = 2, bias = false})
cases["heed.Patches.options.positions"] = {function(value)
  return shown(nn.Patches(2, 4, {positions = value or nil}), heed.ones(2, 1, 4, 4))
end, 4, value = false}
class("heed.transformer.options", function(o)
  return shown(nn.EncoderLayer(4, 2, 8, o), TINY)
end, {norm = "pre", norm_type = {is = "layer", to = "rms"}, eps = {is = 1e-5, to = 1.1e-5},
      activation = "gelu", bias = false, dropout = 0.5, residual_scale = 2, branch_scale = 2})
class("heed.models.load.options", function(o)
  local m = assert(require("heed.models").load("spec/golden/models/qwen2", o))
  return {m.words.weight.device, m.words.weight.dtype}
end, {device = {is = heed.default_device(), to = "none"},
      dtype = {is = "bfloat16", to = "float32"}})

local function live()
  collectgarbage()
  collectgarbage()
  return heed.memory().live
end

-- Whether a model's weights, of 31 KB, count as memory.
cases["heed.models.load.options.mapped"] = {function(value)
  local before = live()
  local o = {device = "cpu", mapped = value}
  local m = require("heed.models").load("spec/golden/models/qwen2", o)
  return live() - before < 30000, m ~= nil
end, true, value = false}

class("heed.models.embed.options", function(o)
  local m = assert(require("heed.models").load("spec/golden/models/electra"))
  local asked = 0
  m.sentences = {
    prompts = {}, default_prompt = false, dense = {}, normalize = false, include_prompt = true,
    pool = function(x)
      asked = asked + 1
      return x:mean(2)
    end,
  }
  local rows = {}
  for i = 1, 40 do rows[i] = {5} end
  m:embed(rows, o)
  return asked
end, {batch = 10})
local function of_words()
  return assert(require("heed.models").load("spec/golden/models/llama3"))
end

class("heed.models.chat.options", function(o)
  return of_words():chat({{role = "user", content = "Hello"}}, o)
end, {prompt = true, ids = true})
class("heed.models.generate.options", function(o)
  local m = of_words()
  m.generation.max_new_tokens, o.stop = 3, {"@@@"}
  return select(2, m:generate("<|eot_id|>", o)).ids
end, {config = false, parse = true})
class("heed.constrain.json.options", function(o)
  local tok = of_words().tokenizer
  return heed.constrain.json(tok, o):apply(heed.zeros(#tok), {})
end, {object = true})
class("heed.Encoder.options", function(o)
  return shown(nn.Encoder(4, 2, 2, o), X)
end, {hidden = {is = 16, to = 8}, final_norm = {is = false, to = true}, layer_dropout = 0.9})
class("heed.Transformer.options", function(o)
  o.hidden = 4
  return shown(nn.Transformer(4, 2, o), X, CONTEXT)
end, {layers = 5, final_norm = false})

cases["heed.transformer.options.attention_dropout"] = {function(value)
  return shown(nn.EncoderLayer(4, 2, {dropout = 0.3, attention_dropout = value}), X)
end, 0.6, value = 0.3}
cases["heed.transformer.options.layer_scale"] = {function(value)
  return shown(nn.EncoderLayer(4, 2, {layer_scale = value or nil}), X)
end, 0.5, value = false}
cases["heed.transformer.call.causal"] = {function(value)
  local encoder, decoder = table.unpack(value or {})
  return nn.EncoderLayer(4, 2)(X, {causal = encoder}),
         nn.DecoderLayer(4, 2, {cross = false})(X, {causal = decoder})
end, {true, false}, value = {false, true}}
cases["EncoderLayer:init.hidden"] = {function(value)
  return shown(nn.EncoderLayer(4, 2, value), X)
end, 8, value = 16}
cases["DecoderLayer:init.hidden"] = {function(value)
  return shown(nn.DecoderLayer(4, 2, value), X, CONTEXT)
end, 8, value = 16}
cases["DecoderLayer:init.given"] = {function(value)
  local context = value == 5 and heed.ones(2, 6, 5) or CONTEXT
  return shown(nn.DecoderLayer(4, 2, {context_dim = value}), X, context)
end, 5, value = 4}
cases["Attention:init.key_dim"] = {function(value) return shown(nn.Attention(4, value), X) end, 3,
                                   value = 4}
cases["Attention:forward.given"] = {function(value)
  return {nn.Attention(4)(X, value ~= nil and {weights = value} or nil)}
end, false}
cases["Dropout:init.p"] = {function(value) return shown(nn.Dropout(value), X) end, 0.25}
cases["nn.extend.base"] = {function(value)
  local extend = require "heed.nn.extend"
  return getmetatable(extend("nn.Probe", {}, value)).__index
end, nn.Linear, value = nn.Module}
cases["init.calculate_gain.param"] = {function(value)
  return nn.init.calculate_gain("leaky_relu", value)
end, 0.02}

for name, others in pairs{
  uniform_ = {a = 0.5, b = 2}, normal_ = {mean = 1, std = 2}, xavier_uniform_ = {gain = 2},
  xavier_normal_ = {gain = 2}, orthogonal_ = {gain = 2},
  kaiming_uniform_ = {a = 1, mode = "fan_out", nonlinearity = "tanh"},
  kaiming_normal_ = {a = 1, mode = "fan_out", nonlinearity = "tanh"},
  trunc_normal_ = {mean = 1, std = 2, a = -1, b = 1},
} do
  class("init." .. name, function(o) return nn.init[name](heed.empty(20, 3), o) end, others)
end

-- Modes, and which parameters are trained.
cases["Module:train.training"] = {function(value)
  return nn.Dropout(0.5):eval():train(value).training
end, false}
cases["Module:freeze.frozen"] = {function(value)
  return nn.Linear(2, 2):freeze(value).weight.requires_grad
end, false}

-- The contents of a cache with a window after more steps than the window has.
cases["heed.Cache.options.keep"] = {function(value)
  local layer, cache = nn.MultiHeadAttention(4, 2), nn.Cache{window = 2, keep = value}
  local y
  for t = 1, 6 do y = layer(CONTEXT:narrow(2, t, 1), {cache = cache, causal = true}) end
  return y
end, 1}


-- Positions, masks and biases --------------------------------------------------

local HEADS <const> = heed.ones(1, 1, 3, 4)

class("heed.position.rope", function(o) return position.rope(HEADS, o) end,
      {base = 5000, offset = 1, fraction = 0.5})
class("heed.position.sinusoidal", function(o) return position.sinusoidal(3, 4, o) end,
      {base = 5000, offset = 1, dtype = "float64"})
class("Sinusoidal:init.given", function(o) return position.Sinusoidal(o)(X) end,
      {base = 5000, layout = "concatenated"})
cases["heed.position.call.offset"] = {function(value)
  return position.Sinusoidal()(X, {offset = value}), position.Learned(9, 4)(X, {offset = value})
end, 1}
cases["places.check_offset.text"] = {function(value)
  return require("heed.attention.places").check_offset("f", value)
end, 1, value = 0}
-- A width of its own would be refused: any other is.
cases["Sinusoidal:init.dim"] = {function(value)
  local p = position.Sinusoidal(value ~= true and value or nil)
  return p(X), pcall(p, heed.ones(1, 2, 8))
end, 4, value = true}

local function mask(name, ...)
  local list = {...}
  return function(value)
    local arguments = table.move(list, 1, #list, 1, {})
    arguments[#arguments + 1] = value
    return heed.mask[name](table.unpack(arguments)):dense(1, 1, 6, 8)
  end
end

cases["mask.causal.given.offset"] = {function(value)
  return heed.mask.causal({offset = value}):dense(1, 1, 6, 8)
end, 1, value = 2}
cases["mask.window.right"] = {mask("window", 2), 1}
cases["mask.blocks.before"] = {mask("blocks", 2), 1}
cases["mask.blocks.after"] = {mask("blocks", 2, 0), 1}
cases["bias.alibi.given.slopes"] = {function(value)
  return heed.bias.alibi(4, {slopes = value}):dense(3, 4)
end, {1, 2, 3, 4}, value = {0.25, 0.0625, 0.015625, 0.00390625}}

-- Weights of a bias say how many buckets there are; what it adds, which distances share one.
for option, pair in pairs{heads = {2, 3}, buckets = {32, 16}, distance = {128, 64},
                          bidirectional = {true, false}} do
  cases["bias.t5.given." .. option] = {function(value)
    local o = {heads = 2}
    if value ~= nil then o[option] = value end
    return heed.bias.t5(o):dense(150, 150)
  end, pair[2], value = pair[1]}
end


-- Optimisers -------------------------------------------------------------------

-- Weights after some steps along gradients small enough for eps to count.
local function steps(name)
  return function(o)
    local weights = {heed.tensor({1.0, -2, 3}, {dtype = "float64"}):requires_grad_()}
    local opt = optim[name](weights, o)
    for i = 1, 4 do
      weights[1].grad = heed.tensor({1e-6 * i, -1e-7, i == 1 and 1 or -0.03}, {dtype = "float64"})
      opt:step()
    end
    return weights[1]:detach()
  end
end

class("heed.SGD.options", steps "SGD", {lr = 0.002, momentum = 0.5, weight_decay = 0.1})
class("heed.Lion.options", steps "Lion", {lr = 0.002, betas = {0.9, 0.999}, weight_decay = 0.1})
class("heed.Adam.options", function(o)
  local adam, adamw = steps "Adam"(o), steps "AdamW"(o)
  return adam, o.weight_decay == nil and adamw
end, {lr = 0.002, betas = {0.8, 0.999}, eps = 2e-8})

cases["heed.Adam.options.weight_decay"] = {function(value)
  return steps "Adam"{weight_decay = value},
         steps "AdamW"{weight_decay = value == 0 and 0.01 or value}
end, 0.1}
cases["heed.SGD.options.dampening"] = {function(value)
  return steps "SGD"{momentum = 0.9, dampening = value}
end, 0.5}
cases["Optimizer:zero_grad.given.set_to_none"] = {function(value)
  local p = heed.ones(2):requires_grad_()
  p.grad = heed.ones(2)
  local opt = optim.SGD({p})
  if value == nil then opt:zero_grad() else opt:zero_grad{set_to_none = value} end
  return {p.grad}
end, false}
cases["clip.clip_grad_norm.norm_type"] = {function(value)
  local p = heed.ones(3):requires_grad_()
  p.grad = heed.tensor{1.0, 2, 3}
  return optim.clip_grad_norm({p}, 1, value), p.grad
end, 1}

class("heed.EMA.options", function(o)
  local p = heed.tensor({1.0}, {dtype = "float64"}):requires_grad_()
  local ema = optim.EMA({p}, o)
  heed.no_grad(p.fill_, p, 5)
  ema:update()
  return tostring(ema), ema:apply(function() return p:item() end)
end, {decay = 0.99})

-- A scale after good steps, one of which is the last of an interval, and a bad one.
class("heed.Scaler.options", function(o)
  local p = heed.ones(1):requires_grad_()
  local scaler, opt = optim.Scaler(o), optim.SGD({p})
  local scales = {scaler:get_scale()}
  if o.growth_interval ~= 3 then
    scaler:load_state{scale = heed.tensor(scaler:get_scale(), {dtype = "float64"}),
                      growth_tracker = heed.tensor(1998)}
  end
  for i, gradient in ipairs{1, 1, 1, 1, math.huge} do
    p.grad = heed.full({1}, gradient, {dtype = "float32"})
    scaler:step(opt)
    scaler:update()
    scales[i + 1] = scaler:get_scale()
  end
  return scales
end, {init_scale = 1024, growth_factor = 4, backoff_factor = 0.25, growth_interval = 3})

local function scheduled(name)
  return function(o)
    local schedule, factors = optim[name](4, o), {}
    for step = 1, 9 do factors[step] = schedule(step) end
    return factors
  end
end

class("schedules.cosine.given", scheduled "cosine", {min = 0.1})
class("schedules.linear.given", scheduled "linear", {from = 2, to = 0.5})
class("heed.one_cycle.options", function(o)
  local schedule, factors = optim.one_cycle(8, o), {}
  for step = 1, 9 do factors[step] = schedule(step) end
  return factors
end, {pct_start = 0.5, anneal_strategy = "linear", div_factor = 5, final_div_factor = 10,
      three_phase = true})

class("heed.plateau.options", function(o)
  local plateau, factors = optim.plateau(o), {}
  for i, loss in ipairs{3, 2, 1.00005, 1} do
    plateau:update(loss)
    factors[i] = plateau(1)
  end
  for i = 5, 60 do
    plateau:update(1 - i * 1e-5)
    factors[i] = plateau(1)
  end
  for i = 61, 300 do
    plateau:update(1)
    factors[i] = plateau(1)
  end
  return factors
end, {mode = "max", factor = 0.5, patience = 3, threshold = 1e-6, threshold_mode = "abs",
      cooldown = 4, min = 0.05, eps = 1e-4, warmup = 3})

class("schedules.step.given", scheduled "step", {gamma = 0.5})


return cases
