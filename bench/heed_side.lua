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


local function seconds(f, n)
  local began = clock()
  for _ = 1, n do f() end
  return clock() - began
end

serve{
  name = ("heed (%s)"):format(heed.level()), factories = factories, seconds = seconds,
  place = function(x) return x end,
}
