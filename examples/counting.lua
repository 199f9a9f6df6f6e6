-- Learns to count by paying attention.        lua5.4 examples/counting.lua [--steps 105001]
--
--   given   3 2 8 2 0 4 7 1 5 2      more 2s than 4s?
--   wanted  1                        three against one: yes
--
-- One learned query attends to ten digits. The rest of the model sees only what the query took from
-- them, so to answer well the query has to find the digits that count.
--
--   --steps N     how long to train (3000)        --rate R    Adam's learning rate (0.002)
--   --rule harder more 2s than 4s, or as many 5s as 8s
--   --notebook    the published notebook, number by number: its seed, rate and rule
--   --out FILE    where the picture goes (counting.png), if gnuplot is there

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local settings = {
  steps = 3000, rate = 2e-3, rule = "more", than = 4, out = "counting.png", seed = 0,
}
for i, word in ipairs(arg) do
  local name = word:match("^%-%-(%a+)$")
  if name == "notebook" then           -- its text says 4s, its code counts 7s
    settings.rate, settings.than, settings.notebook = 1e-4, 7, true
  elseif name then
    settings[name] = tonumber(arg[i + 1]) or arg[i + 1]
  end
end


local Counter = nn.Module:extend("Counter")

function Counter:init()
  self.dim = 5
  self.embed = nn.Embedding(10, self.dim)                   -- a digit becomes a vector
  self.query = nn.Parameter(heed.randn(1, self.dim))        -- the learned query
  self.WK = nn.Linear(self.dim, self.dim)                   -- the key of a digit
  self.WV = nn.Linear(self.dim, 50)                         -- the value of a digit
  self.nn = nn.Sequential{nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid()}
end

function Counter:attention(x)                               -- x (B, T, dim)
  local scores = heed.einsum("ik,bjk->bij", self.query, self.WK(x))
  return (scores / self.dim ^ 0.5):softmax(-1)              -- (B, 1, T)
end

function Counter:forward(ids)                               -- ids (B, T)
  local x = self.embed(ids)
  local gathered = heed.einsum("bij,bjk->bik", self:attention(x), self.WV(x))
  return self.nn(gathered:select(2, 1))                     -- (B, 1)
end


heed.manual_seed(settings.seed)
local model = Counter()
print(model)

local batches = tasks.counting{rule = settings.rule, than = settings.than}
local run = heed.train{
  model = model, loss = heed.binary_cross_entropy, batches = batches, steps = settings.steps,
  optimizer = optim.Adam(model:parameters(), {lr = settings.rate}),
}
local losses = run.losses
print(("loss %.4f at first, %.4f at last"):format(losses[1], losses[#losses]))

local x, y = tasks.counting{size = 5000, rule = settings.rule, than = settings.than}()
local right = heed.no_grad(model, x):gt(0.5):to("float32"):eq(y):to("float32"):mean():item()
print(("right on %.2f %% of 5000 fresh sequences"):format(100 * right))


-- Where it looks: five sequences, their attention, their values, and the losses.
local ids = x[{{1, 5}}]
local digits = (ids - 1):totable()
local weights = heed.no_grad(model.attention, model, model.embed(ids)):select(2, 1)   -- (5, 10)
local values = model.WV(model.embed(ids)):detach():select(3, 1)
local shown = heed.where(weights:gt(0.1), values, 0 / 0)     -- blank where it does not look
local function counts(i, j) return digits[i][j] == 2 or digits[i][j] == settings.than end

local picture = plot.row{
  plot.heat(weights, {cells = digits, mark = counts, title = "attention"}),
  plot.heat(shown, {cells = digits, mark = counts, min = -1, max = 1, title = "values"}),
  plot.curve(losses, {title = "loss"}),
}
print(picture)
local saved, why = picture:save(settings.out)
print(saved and "the same as a picture: " .. settings.out or "no picture: " .. why)
