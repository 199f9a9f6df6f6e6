-- The same training on the CPU, on a GPU, and captured there: lua5.4 spec/training.lua [STEPS]
--
-- The counting task and a small GPT, from the same weights on the same batches. Captured steps are
-- compared with losses of plain steps, bit for bit; those of the GPU with those of the CPU, whose
-- sums have another order: within SAME in the first steps, where only rounding differs, then by the
-- loss at the end.

local close = require "spec.support.close"
local heed = require "heed"
local data, nn, optim, tasks = heed.data, heed.nn, heed.optim, heed.tasks

local STEPS <const> = math.tointeger(arg[1]) or 1500
local EARLY <const>, SAME <const> = 20, 2e-3      -- steps, and by how much of a loss
local LEARNED <const> = 0.1                       -- of the loss at the end, a mean of a tenth


local Counter = nn.Module:extend("Counter")

function Counter:init()
  self.embed = nn.Embedding(10, 5)
  self.query = nn.Parameter(heed.randn(1, 5))
  self.WK, self.WV = nn.Linear(5, 5), nn.Linear(5, 50)
  self.nn = nn.Sequential{nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid()}
end

function Counter:forward(ids)                     -- (B, T)
  local x = self.embed(ids)
  local scores = heed.einsum("ik,bjk->bij", self.query, self.WK(x))
  local gathered = heed.einsum("bij,bjk->bik", (scores / 5 ^ 0.5):softmax(-1), self.WV(x))
  return self.nn(gathered:select(2, 1))           -- (B, 1)
end


local Writer = nn.Module:extend("Writer")

function Writer:init(n)
  self.embed = nn.Embedding(n, 64)
  self.decoder = nn.Decoder(64, 4, 2, {norm = "pre", cross = false, rope = true})
  self.head = nn.Linear(64, n)
end

function Writer:forward(ids)                      -- (B, T)
  return self.head(self.decoder(self.embed(ids))) -- (B, T, n)
end


local function counting()
  return Counter(), heed.binary_cross_entropy, tasks.counting{seed = 1}
end

local function gpt()
  local file <close> = assert(io.open("examples/tales.txt"))
  local text = file:read("a")
  local chars = data.chars(text)
  local function loss(y, wanted) return heed.cross_entropy(y:flatten(1, 2), wanted:flatten()) end
  return Writer(#chars), loss, data.windows(chars:encode(text), {length = 64, size = 16, seed = 1})
end


-- The losses of a training: on the CPU, or a GPU; 'wrap' may capture its step.
local function losses_of(make, device, wrap)
  heed.manual_seed(0)
  local model, loss_of, batch = make()
  model:to(device)
  local opt = optim.AdamW(model:parameters(), {lr = 2e-3})
  local step = wrap(function(x, y)
    opt:zero_grad()
    local loss = loss_of(model(x), y)
    loss:backward()
    optim.clip_grad_norm(model:parameters(), 1)
    opt:step()
    return loss
  end)
  local losses = {}
  for i = 1, STEPS do
    local x, y = batch()
    losses[i] = step(x:to(device), y:to(device)):item()
  end
  return losses
end

local function mean_of_last(losses)
  local sum, n = 0, math.max(1, #losses // 10)
  for i = #losses - n + 1, #losses do sum = sum + losses[i] end
  return sum / n
end

local wrong = 0
local function check(good, ...)
  if good then return end
  wrong = wrong + 1
  print("wrong: " .. string.format(...))
end

local function compare(name, make)
  local function as_it_is(f) return f end
  local began = heed.clock()
  local cpu = losses_of(make, "cpu", as_it_is)
  local middle = heed.clock()
  local gpu = losses_of(make, "cuda", as_it_is)
  local ended = heed.clock()
  local captured = losses_of(make, "cuda", heed.capture)
  local all = heed.clock()
  for i = 1, math.min(EARLY, STEPS) do
    check(close(gpu[i], cpu[i], SAME), "%s: loss %d is %.9g on the CPU, %.9g on the GPU", name,
          i, cpu[i], gpu[i])
  end
  for i = 1, STEPS do
    check(captured[i] == gpu[i], "%s: loss %d is %.9g, captured %.9g", name, i, gpu[i], captured[i])
  end
  local last, on_gpu = mean_of_last(cpu), mean_of_last(gpu)
  check(close(on_gpu, last, LEARNED, 1e-3), "%s: what is learned differs", name)
  check(last < cpu[1], "%s: nothing is learned", name)
  local function milliseconds(from, to) return (to - from) / STEPS * 1e3 end
  print(("%s, %d steps: loss %.4f at first, %.4f at last on the CPU, %.4f on the GPU")
    :format(name, STEPS, cpu[1], last, on_gpu))
  print(("a step: %.2f ms on the CPU, %.2f ms on the GPU, %.2f ms captured")
    :format(milliseconds(began, middle), milliseconds(middle, ended), milliseconds(ended, all)))
end


compare("counting", counting)
compare("small GPT", gpt)
print(wrong .. " wrong")
os.exit(wrong == 0)
