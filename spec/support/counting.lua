-- Prints the losses of the counting notebook's first 1,000 steps, one on a line.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

heed.manual_seed(0)
local embed = nn.Embedding(10, 5)
local query = nn.Parameter(heed.randn(1, 5))
local WK, WV = nn.Linear(5, 5), nn.Linear(5, 50)
local last = nn.Sequential{nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid()}

local parameters = {embed.weight, query}
for _, layer in ipairs {WK, WV, last} do
  for _, p in ipairs(layer:parameters()) do parameters[#parameters + 1] = p end
end
local opt = optim.Adam(parameters, {lr = 1e-4})

local function count(x, digit) return x:eq(digit):sum(2, true) end

for _ = 1, tonumber(arg[1]) or 1000 do
  local digits = heed.randint(0, 8, {100, 10})
  local y = count(digits, 2):gt(count(digits, 7)):to("float32")      -- (100, 1)
  local x = embed(digits + 1)
  local scores = heed.einsum("ik,bjk->bij", query, WK(x))
  local attention = (scores / 5 ^ 0.5):softmax(-1)
  local gathered = heed.einsum("bij,bjk->bik", attention, WV(x))
  local loss = heed.binary_cross_entropy(last(gathered:select(2, 1)), y)
  loss:backward()
  print(("%.9g"):format(loss:item()))
  opt:step()
  opt:zero_grad()
end
