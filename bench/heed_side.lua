-- Heed's side of the comparison on the CPU; side.lua has the protocol. Its argument is the number
-- of threads.

local heed = require "heed"
local serve = dofile(arg[0]:gsub("[^/]*$", "side.lua"))
local nn, optim = heed.nn, heed.optim

local clock = heed.core.clock

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


-- GPT-2, the small one: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
local WIDTH <const>, HEADS <const>, LAYERS <const> = 768, 12, 12
local VOCABULARY <const>, LENGTH <const> = 50257, 1024
local CAUSAL = {causal = true}

local function block_and_input(T)
  local block = nn.EncoderLayer(WIDTH, HEADS, 4 * WIDTH, {norm = "pre", activation = "gelu"})
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

function GPT2:init()
  self.embed = nn.Embedding(VOCABULARY, WIDTH)
  self.position = nn.Embedding(LENGTH, WIDTH)
  self.blocks = nn.Encoder(WIDTH, HEADS, LAYERS, {norm = "pre", activation = "gelu"})
  heed.no_grad(function()
    self.embed.weight:normal_(0, 0.02)
    self.position.weight:normal_(0, 0.02)
  end)
end


function GPT2:forward(ids)                                               -- (B, T)
  local x = self.embed(ids) + self.position(heed.arange(ids:size(2)))    -- (B, T, WIDTH)
  return heed.linear(self.blocks(x, CAUSAL), self.embed.weight)          -- (B, T, VOCABULARY)
end


-- The model on T ids; gives the logits of the last.
function factories.gpt2(size)
  local model, ids = GPT2(), heed.randint(VOCABULARY, {1, size[1]})
  model:eval()
  return function() return heed.no_grad(model, ids):select(2, -1) end
end


-- The loss of T ids and the gradients of all weights; gives the loss and some of them.
function factories.gpt2_backward(size)
  local model, ids = GPT2(), heed.randint(VOCABULARY, {1, size[1] + 1})
  local x, y = ids:narrow(2, 1, size[1]), ids:narrow(2, 2, size[1])
  return function()
    model:zero_grad()
    local loss = heed.cross_entropy(model(x):flatten(1, 2), y:flatten())
    loss:backward()
    return {loss, model.blocks.layers[1].attend.out.weight.grad}
  end
end


local function seconds(f, n)
  local began = clock()
  for _ = 1, n do f() end
  return clock() - began
end

serve{
  name = ("heed (%s)"):format(heed.level()), factories = factories, seconds = seconds,
  place = function(x) return x end,
}
