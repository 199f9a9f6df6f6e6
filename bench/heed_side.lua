-- Heed's side of the comparison. Its argument is the number of threads; it says what it is, then
-- answers line by line:
--
--   make <tab> INPUTS <tab> EXPRESSION <tab> FILE    prepares a row, and writes what comes out
--   time                                             the seconds of one call of that row
--
-- Inputs are words: 4x4 is a tensor, 4x4* one that wants a gradient, 256:10 are 256 ids from 1
-- to 10, any other word is a function below. The expression sees them as a, b, c, d. Both sides
-- draw after the same seed, which gives the same numbers: heed's are PyTorch's.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local clock = heed.core.clock

local SEED = 7
local LOOP = 0.02               -- seconds that a sample's loop lasts at least

local scope = {}                -- what expressions see
for name, value in pairs(heed) do scope[name] = value end

local makers = {}

-- The counting notebook's training step, after 50 of them; gives the loss.
function makers.counting()
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

-- Four parameters of 768x768 and their step.
function makers.adam()
  local xs = {}
  for i = 1, 4 do
    xs[i] = heed.randn(768, 768):requires_grad_()
    xs[i].grad = heed.randn(768, 768)
  end
  local opt = optim.Adam(xs, {lr = 0.1})
  return function()
    opt:step()
    return xs
  end
end


local function input(word)
  if makers[word] then return makers[word]() end
  local size, ids = {}, word:match(":(%d+)")
  for n in word:gsub(":.*", ""):gmatch("%d+") do size[#size + 1] = tonumber(n) end
  if ids then return heed.randint(tonumber(ids), size) end
  return heed.randn(size, {requires_grad = word:find("*", 1, true) ~= nil})
end

local function write(path, result)
  local file <close> = assert(io.open(path, "wb"))
  for _, t in ipairs(heed.is_tensor(result) and {result} or result) do
    assert(file:write(t:to("float32"):data()))
  end
end


local current                   -- the function of the row that was made last
local calls                     -- in one sample of it

local function seconds(n)
  local began = clock()
  for _ = 1, n do current() end
  return clock() - began
end

local answers = {}

function answers.make(words, expression, path)
  local inputs = {}
  current = nil
  collectgarbage()
  heed.manual_seed(SEED)
  for word in words:gmatch("%S+") do inputs[#inputs + 1] = input(word) end
  local code = "local a, b, c, d = ... return function() return " .. expression .. " end"
  current = assert(load(code, expression, "t", scope))(table.unpack(inputs))
  write(path, (current()))
  calls = 1
  while seconds(calls) < LOOP do calls = 2 * calls end
  return "made"
end

function answers.time()
  current()                     -- the caches hold what the other side did
  return ("%.9g"):format(seconds(calls) / calls)
end

heed.threads(tonumber(arg[1]))
print(("heed (%s)"):format(heed.level()))
io.flush()
for line in io.lines() do
  local word, one, two, three = line:match("^(%a+)\t?([^\t]*)\t?([^\t]*)\t?([^\t]*)$")
  local good, answer = pcall(answers[word], one, two, three)
  print((good and "" or "error: ") .. tostring(answer):gsub("\n", " "))
  io.flush()
end
