-- The models of the comparison, on heed's side: factories of what a row calls, by name, each called
-- with the sizes of its word. models.py has them in PyTorch's words, with the same numbers drawn in
-- the same order. Gives the factories, and for the GPU's side the functions that make training
-- steps of the small GPT and of GPT-2.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local factories = {}


-- The counting notebook's training step, after 50 of them; gives the loss.
function factories.counting()
  local embed, query = nn.Embedding(10, 5), nn.Parameter(heed.randn(1, 5))
  local WK, WV = nn.Linear(5, 5), nn.Linear(5, 50)
  local last = nn.Sequential{nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid()}
  local parameters = nn.Sequential{embed, WK, WV, last}:parameters()
  parameters[#parameters + 1] = query
  local opt = optim.Adam(parameters)
  local ids, y = heed.randint(1, 9, {100, 10}), heed.randint(0, 1, {100, 1}):to("float32")

  local function step()
    local x = embed(ids)                                                 -- (B, T, 5)
    local scores = heed.einsum("ik,bjk->bij", query, WK(x))
    local weights = (scores / 5 ^ 0.5):softmax(-1)                       -- (B, 1, T)
    local gathered = heed.einsum("bij,bjk->bik", weights, WV(x))
    local loss = heed.binary_cross_entropy(last(gathered:select(2, 1)), y)
    loss:backward()
    opt:step()
    opt:zero_grad()
    return loss
  end

  for _ = 1, 50 do step() end
  return step
end

factories.counting_fused = factories.counting


-- f captured, after the calls that this takes; an error where heed.capture only calls it.
local function captured(f)
  local count = 0
  local g = heed.capture(function()
    count = count + 1
    return f()
  end)
  for _ = 1, 4 do g() end
  if count == 4 then error("heed.capture is not there for the CPU", 0) end
  return g
end

function factories.counting_captured() return captured(factories.counting()) end


-- A small GPT -------------------------------------------------------------------

local WORDS <const>, HEADS <const> = 256, 4

local function split(y)                                          -- (B, T, W) to (B, H, T, D)
  return y:reshape(y:size(1), y:size(2), HEADS, -1):transpose(2, 3)
end

local Block = nn.Module:extend("Block")

function Block:init(width)
  self.norm = nn.LayerNorm(width)
  self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
  self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
  self.norm2 = nn.LayerNorm(width)
  self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
end


-- Without a store the tokens attend to each other; with one, to its last place, which is x's own,
-- and to all before.
function Block:forward(x, store)
  local h = self.norm(x)                                         -- (B, T, W)
  local q, k, v = split(self.query(h)), split(self.key(h)), split(self.value(h))
  if store then
    store.key:narrow(3, store.key:size(3), 1):copy_(k)
    store.value:narrow(3, store.value:size(3), 1):copy_(v)
    k, v = store.key, store.value
  end
  local y = heed.attention(q, k, v, {causal = true})             -- (B, H, T, D)
  x = x + self.out(y:transpose(2, 3):reshape(x.shape))
  return x + self.down(self.up(self.norm2(x)):gelu())
end


-- Layers, and how many.
local function small_gpt(layers, width)
  local list = {nn.Embedding(WORDS, width)}
  for _ = 1, layers do list[#list + 1] = Block(width) end
  list[#list + 1] = nn.LayerNorm(width)
  list[#list + 1] = nn.Linear(width, WORDS)
  return nn.Sequential(list), #list
end


-- A training step on L blocks, B sequences of T words and width W, which gives the loss; and what
-- it is called with.
local function training(size, device)
  local layers, B, T, width = table.unpack(size)
  local model = small_gpt(layers, width)
  model:to(device or "cpu")
  local opt = optim.Adam(model:parameters(), {lr = 1e-3})
  local ids = heed.randint(WORDS, {B, T + 1}):to(device or "cpu")
  local x, y = ids[{{}, {1, T}}]:contiguous(), ids[{{}, {2, T + 1}}]:contiguous()
  return function(given, wanted)
    opt:zero_grad()
    local loss = heed.cross_entropy(model(given):reshape(-1, WORDS), wanted:reshape(-1))
    loss:backward()
    opt:step()
    return loss
  end, x, y
end

function factories.training(size)
  local step, x, y = training(size)
  for _ = 1, 2 do step(x, y) end
  return function() return step(x, y) end
end

factories.training_fused = factories.training

function factories.training_profiled(size)
  local step = factories.training(size)
  return function() return select(2, heed.profile(step)) end
end


-- A token through L blocks of width W, behind S - 1 others; gives the logits.
function factories.decoding(size)
  local layers, width, S = table.unpack(size)
  local model, count = small_gpt(layers, width)
  local id, stores = heed.randint(WORDS, {1, 1}), {}
  for i = 1, layers do
    local shape = {1, HEADS, S, width // HEADS}
    stores[i] = {key = heed.randn(shape), value = heed.randn(shape)}
  end
  local function step()
    local x = model[1](id)
    for i = 1, layers do x = model[i + 1](x, stores[i]) end
    return model[count](model[count - 1](x))
  end
  return function() return heed.no_grad(step) end
end

function factories.decoding_captured(size) return captured(factories.decoding(size)) end


-- GPT-2, the small one: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
local WIDTH <const>, GPT2_HEADS <const>, LAYERS <const> = 768, 12, 12
local VOCABULARY <const>, LENGTH <const> = 50257, 1024
local CAUSAL = {causal = true}

local function block_and_input(T)
  local block = nn.EncoderLayer(WIDTH, GPT2_HEADS, 4 * WIDTH, {norm = "pre", activation = "gelu"})
  return block, heed.randn(1, T, WIDTH)
end


-- A block of T positions.
function factories.gpt2_block(size)
  local block, x = block_and_input(size[1])
  block:eval()
  return function() return heed.no_grad(block, x, CAUSAL) end
end


-- And back, to all weights and to x.
function factories.gpt2_block_backward(size)
  local block, x = block_and_input(size[1])
  local g = heed.randn(1, size[1], WIDTH)
  x:requires_grad_()
  return function()
    block:zero_grad()
    x.grad = nil
    block(x, CAUSAL):backward(g)
    return {x.grad, block.attend.out.weight.grad}
  end
end


local GPT2 = nn.Module:extend("GPT2")

function GPT2:init(layers, words)
  self.embed = nn.Embedding(words or VOCABULARY, WIDTH)
  self.position = nn.Embedding(LENGTH, WIDTH)
  self.blocks = nn.Encoder(WIDTH, GPT2_HEADS, layers or LAYERS, {norm = "pre", activation = "gelu"})
  heed.no_grad(function()
    self.embed.weight:normal_(0, 0.02)
    self.position.weight:normal_(0, 0.02)
  end)
end


function GPT2:forward(ids)                                               -- (B, T)
  local at = heed.arange(ids:size(2), {device = ids.device})
  local x = self.embed(ids) + self.position(at)                          -- (B, T, WIDTH)
  return heed.linear(self.blocks(x, CAUSAL), self.embed.weight)          -- (B, T, VOCABULARY)
end


-- The model on T ids; gives the logits of the last.
function factories.gpt2(size)
  local model, ids = GPT2(), heed.randint(VOCABULARY, {1, size[1]})
  model:eval()
  return function() return heed.no_grad(model, ids):select(2, -1) end
end


-- The loss of B sequences of T ids, the gradients of all weights, and with an optimiser its step;
-- gives the loss and some of the gradients. The model is moved to a type and a device first.
local function gpt2_training(size, make_optimiser, dtype, device)
  local B, T, layers, words = table.unpack(size)
  local model = GPT2(layers, words)
  local ids = heed.randint(words or VOCABULARY, {B, T + 1}):to(device or "cpu")
  model:to(dtype or "float32", device or "cpu")
  local x, y = ids:narrow(2, 1, T), ids:narrow(2, 2, T)
  local opt = make_optimiser and make_optimiser(model:parameters())
  return function()
    model:zero_grad()
    local loss = heed.cross_entropy(model(x):flatten(1, 2), y:flatten())
    loss:backward()
    if opt then opt:step() end
    return {loss, model.blocks.layers[1].attend.out.weight.grad}
  end
end

function factories.gpt2_backward(size) return gpt2_training{1, size[1]} end

function factories.gpt2_step(size) return gpt2_training({1, size[1]}, optim.AdamW) end


-- Makes the model; gives weights from its begin and its end.
function factories.gpt2_build()
  return function()
    local model = GPT2()
    return {model.embed.weight[1], model.blocks.layers[LAYERS].attend.out.weight}
  end
end


-- Clips the gradients of N parameters of R by C, far below their norm at first; gives the first.
function factories.clip(size)
  local n, rows, columns = table.unpack(size)
  local xs = {}
  for i = 1, n do
    xs[i] = heed.zeros(rows, columns, {requires_grad = true})
    xs[i].grad = heed.randn(rows, columns)
  end
  return function()
    optim.clip_grad_norm(xs, 1)
    return xs[1].grad
  end
end


-- The keys that queries see at L positions: their own and W - 1 before it.
function factories.window(size) return heed.mask.window(size[2] - 1, 0) end


-- Models of published shapes, whose directories directories.py makes --------------

local FOLDER <const> = arg[0]:gsub("[^/]*$", "") .. "../build/bench/"

local function is_in_blocks(name) return name:find "_q%d_%d$" ~= nil end

local function loaded(name, packed)
  if name == "minilm_q8_0" then
    return assert(heed.models.load(FOLDER .. "minilm", {quantize = "q8_0"}))
  end
  local path = FOLDER .. name .. (is_in_blocks(name) and ".gguf" or "")
  return assert(heed.models.load(path, {packed = packed}))
end

-- f without gradients. What is multiplied by blocks is rounded to 8 bits, as llama.cpp has it.
local function inferring(name, f)
  if not is_in_blocks(name) then return function() return heed.no_grad(f) end end
  return function()
    heed.matmul_precision "high"
    local y = heed.no_grad(f)
    heed.matmul_precision "highest"
    return y
  end
end

-- MiniLM's shape on B x T ids; gives features of all of them.
for _, name in ipairs{"minilm", "minilm_q8_0"} do
  factories[name] = function(size)
    local model = loaded(name)
    local ids = heed.randint(model.config.vocab_size, size)
    return inferring(name, function() return model(ids) end)
  end
end


-- The decoder on N ids, so many at a time, behind an empty cache; gives the logits of the last.
local function reading(name, N, some)
  local model = loaded(name)
  local ids = heed.randint(model.config.vocab_size, {1, N})
  local function read()
    local cache, y = nn.Cache(), nil
    for at = 1, N, some do
      y = model.head(model:hidden(ids:narrow(2, at, some), {cache = cache}):select(2, -1))
    end
    return y
  end
  return inferring(name, read)
end

-- The same of single ids, whose step is captured.
local function replayed(name, N)
  local model, cache = loaded(name), nn.Cache{capacity = N}
  local ids = heed.randint(model.config.vocab_size, {1, N})
  local step = heed.capture(function(id) return model(id, {cache = cache}) end)
  local function read()
    if cache:length() > 0 then cache:truncate(0) end
    local y
    for at = 1, N do y = step(ids:narrow(2, at, 1)) end
    return y:select(2, -1)
  end
  return inferring(name, read)
end

-- The same by model:generate, which is made to choose these ids; weights have copies if `packed`.
local function generated(name, N, packed)
  local model = loaded(name, packed)
  local words = model.config.vocab_size
  local ids, last = heed.randint(words, {N + 1}), nil
  local choice = ids:one_hot(words):to "float32"
  local function choose(logits, new)
    last = logits
    return choice[#new + 2]
  end
  local o = {max = N, temperature = 0, ends = false, logits = choose}
  return inferring(name, function()
    model:generate({ids[1]}, o)
    return last
  end)
end

for _, ending in ipairs{"", "_bfloat16", "_q8_0", "_q4_0", "_large_bfloat16", "_large_q8_0",
                        "_large_q4_0"} do
  local name = "decoder" .. ending
  factories["tokens_generated" .. ending] = function(size) return generated(name, size[1]) end
  factories["tokens_packed" .. ending] = function(size) return generated(name, size[1], true) end
  factories["tokens" .. ending] = function(size) return replayed(name, size[1]) end
  factories["tokens_called" .. ending] = function(size) return reading(name, size[1], 1) end
  factories["prompt" .. ending] = function(size) return reading(name, size[1], size[1]) end
end

return factories, training, gpt2_training
