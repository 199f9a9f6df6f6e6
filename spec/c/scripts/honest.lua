-- An honest script: its results show whether another script in the same state can influence it. The
-- script takes nothing from the globals.

local heed, G = ...
local nn, optim = heed.nn, heed.optim

heed.manual_seed(1)
local Model = nn.Module:extend("Model")

function Model:init(dim)
  self.attend = nn.MultiHeadAttention(dim, 2)
  self.norm = nn.LayerNorm(dim)
  self.mlp = nn.MLP(dim, 8, {activation = nn.GELU})
end

function Model:forward(x) return self.mlp(self.norm(x + self.attend(x))) end

local model = Model(4)
local opt = optim.AdamW(model:parameters(), {lr = 1e-2})
local x, last = heed.randn(2, 3, 4), nil
for _ = 1, 3 do
  opt:zero_grad()
  local loss = heed.mse_loss(model(x), x)
  loss:backward()
  optim.clip_grad_norm(opt.parameters, 1)
  opt.lr = opt.groups[1].lr * 0.9
  opt:step()
  last = loss:item()
end
G.assert(G.getmetatable(model) == Model and G.getmetatable(nn.Linear(1, 1)) == nn.Linear)

-- Lists and options of a script's objects are the script's own.
local copied, gradients = model:clone(), heed.grad(model(x):sum(), opt.parameters)
G.assert(#gradients == #opt.parameters and #copied:parameters() == #gradients)
opt.groups[1].lr, opt.options.eps = 2e-2, 1e-6
for i, p in G.ipairs(opt.parameters) do G.assert(G.rawequal(p, model:parameters()[i])) end

local run = heed.train{
  model = model, loss = heed.mse_loss, optimizer = opt, steps = 2, print = false,
  batches = function() return x, x end,
}
return last + run.losses[2] + heed.softmax(x, -1):max():item(), G.tostring(model),
  G.tostring(heed.plot.heat({{1, 2}, {3, 4}}))
