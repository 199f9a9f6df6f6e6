-- Heed's side of the comparison on a GPU; side.lua describes its requests. Words of its own:
--
--   float32, bfloat16, float16    the type of the tensors that follow; times are the GPU's
--   host                          times are the host's: of launching the work, not of doing it
--   training:LxBxTxW              a training step of a small language model: L blocks, B sequences
--                                 of T words, width W; captured:LxBxTxW does it in one go

local heed = require "heed"
local serve = dofile(arg[0]:gsub("[^/]*$", "side.lua"))
local nn, optim = heed.nn, heed.optim

local clock = heed.core.clock

local WORDS <const>, HEADS <const> = 256, 4
local QUEUED <const> = 256      -- operations that surely fit in a stream's queue

local dtype, seconds            -- of this row
local factories = {}


-- n calls by the GPU's clock.
local function gpu_seconds(f, n)
  return (heed.cuda.elapsed(function()
    for _ = 1, n do f() end
  end))
end

-- n calls by the host's clock; its waits for the GPU do not count.
local function host_seconds(f, n)
  local sum = 0
  for first = 1, n, QUEUED do
    heed.cuda.synchronize()
    local began = clock()
    for _ = first, math.min(first + QUEUED - 1, n) do f() end
    sum = sum + clock() - began
  end
  return sum
end

local function place(x)
  return x:to(x.dtype == "float32" and dtype or x.dtype, "cuda")
end


for _, name in ipairs{"bfloat16", "float16", "float32"} do
  factories[name] = function() dtype, seconds = name, gpu_seconds end
end

function factories.host() seconds = host_seconds end


local Block = nn.Module:extend("Block")

function Block:init(width)
  self.norm = nn.LayerNorm(width)
  self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
  self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
  self.norm2 = nn.LayerNorm(width)
  self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
end

function Block:forward(x)
  local B, T, W = x:size()
  local h = self.norm(x)                                          -- (B, T, W)
  local function split(y) return y:reshape(B, T, HEADS, -1):transpose(2, 3) end
  local y = heed.attention(split(self.query(h)), split(self.key(h)), split(self.value(h)),
                           {causal = true})                       -- (B, H, T, D)
  x = x + self.out(y:transpose(2, 3):reshape(B, T, W))
  return x + self.down(self.up(self.norm2(x)):gelu())
end

-- The step, which gives the loss, and what it is called with.
local function training(size)
  local layers, B, T, width = table.unpack(size)
  local list = {nn.Embedding(WORDS, width)}
  for _ = 1, layers do list[#list + 1] = Block(width) end
  list[#list + 1] = nn.LayerNorm(width)
  list[#list + 1] = nn.Linear(width, WORDS)
  local model = nn.Sequential(list)
  model:to("cuda")
  local opt = optim.Adam(model:parameters(), {lr = 1e-3})
  local ids = heed.randint(WORDS, {B, T + 1}):to("cuda")
  local x, y = ids[{{}, {1, T}}]:contiguous(), ids[{{}, {2, T + 1}}]:contiguous()
  return function(given, wanted)
    opt:zero_grad()
    local loss = heed.cross_entropy(model(given):reshape(-1, WORDS), wanted:reshape(-1))
    loss:backward()
    opt:step()
    return loss
  end, x, y
end

-- Two steps go ahead in both, since what is captured has run before.
function factories.training(size)
  local step, x, y = training(size)
  for _ = 1, 2 do step(x, y) end
  return function() return step(x, y) end
end

function factories.captured(size)
  local step, x, y = training(size)
  step = heed.capture(step)
  for _ = 1, 2 do step(x, y) end
  return function() return step(x, y) end
end


local gpu = heed.cuda.properties()

serve{
  name = ("heed (%s, %s)"):format(gpu.name, gpu.capability), factories = factories, place = place,
  seconds = function(f, n) return seconds(f, n) end,
}
