-- Heed's side of the comparison on a GPU; side.lua describes its requests. Words of its own:
--
--   float32, bfloat16, float16    the type of the tensors that follow; times are the GPU's
--   host                          times are the host's: of launching the work, not of doing it
--   training:LxBxTxW              a training step of a small language model: L blocks, B sequences
--                                 of T words, width W; captured:LxBxTxW does it in one go
--   gpt2:BxT                      a training step of GPT-2 of 124M numbers on B sequences of T ids,
--                                 or, as gpt2:BxTxLxN, of L layers and N words; gpt2_compiled is
--                                 captured here, and compiled by PyTorch
--   lengths:BxS                   a mask of B sequences whose keys end between S / 2 and S

local heed = require "heed"

local here = arg[0]:gsub("[^/]*$", "")
local serve = dofile(here .. "side.lua")
local _, training, gpt2_training = dofile(here .. "models.lua")

local clock = heed.clock

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


-- Two steps go ahead in both, since what is captured has run before.
function factories.training(size)
  local step, x, y = training(size, "cuda")
  for _ = 1, 2 do step(x, y) end
  return function() return step(x, y) end
end

function factories.captured(size)
  local step, x, y = training(size, "cuda")
  step = heed.capture(step)
  for _ = 1, 2 do step(x, y) end
  return function() return step(x, y) end
end

-- Gradients of GPT-2 differ by the steps that went ahead, so that both sides take as many.
local function gpt2(size, wrap)
  local step = wrap(gpt2_training(size, heed.optim.AdamW, dtype, "cuda"))
  for _ = 1, 2 do step() end
  return function() return step()[1] end
end

function factories.gpt2(size) return gpt2(size, function(step) return step end) end

function factories.gpt2_compiled(size) return gpt2(size, heed.capture) end


function factories.lengths(size)
  local B, S = table.unpack(size)
  return heed.mask.lengths(heed.randint(S // 2, S, {B}):to("cuda"))
end


local gpu = heed.cuda.properties()

serve{
  name = ("heed (%s, %s)"):format(gpu.name, gpu.capability), factories = factories, place = place,
  seconds = function(f, n) return seconds(f, n) end,
}
