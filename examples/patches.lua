-- Learns which figure is in an image, from nine patches.
--                                                     lua5.4 examples/patches.lua [steps [picture]]
--
-- A square, a plus, a cross or a diamond of 5 x 5 pixels stands anywhere in 12 x 12, under noise.
-- The image is cut into patches of 4 x 4, and each becomes a token: A. Dosovitskiy et al., "An
-- image is worth 16x16 words", 2021. No patch shows the whole figure: they have to ask each other.

local heed = require "heed"
local nn, optim, plot, tasks = heed.nn, heed.optim, heed.plot, heed.tasks

local steps, path = tonumber(arg[1] or 2500), arg[2] or "patches.png"
assert(steps, "usage: lua5.4 examples/patches.lua [steps [picture]]")
local DIM, HEADS, LAYERS, SIDE, PATCH = 32, 4, 2, 12, 4
local NAMES = tasks.tokens.patches.y


local Viewer = nn.Module:extend("Viewer")

function Viewer:init()
  local across = SIDE // PATCH
  self.patches = nn.Patches(PATCH, DIM, {class_token = true, positions = across ^ 2})
  self.encoder = nn.Encoder(DIM, HEADS, LAYERS, {norm = "pre"})
  self.classify = nn.Classifier(DIM, #NAMES, {pool = "first"})      -- the class token
end

function Viewer:forward(images)                             -- (B, 1, SIDE, SIDE)
  return self.classify(self.encoder(self.patches(images)))  -- (B, #NAMES)
end


heed.manual_seed(0)
local model = Viewer()

heed.train{
  model = model, loss = heed.cross_entropy, steps = steps,
  batches = tasks.patches{size = 64, side = SIDE},
  optimizer = optim.AdamW(model:parameters(), {lr = 3e-3}),
  schedule = optim.warmup(50, optim.cosine(steps)),
}

model:eval()
local x, y = tasks.patches{size = 5000, side = SIDE}()
print(("%.2f %% of 5000 fresh images right"):format(
  100 * heed.accuracy(heed.no_grad(model, x), y)))


-- Where the class token looks: the patches that the figure is in.
local panels = {}
local function look(image)
  local seen
  model:on_weights(function(_, weights)                        -- (1, HEADS, 1 + N, 1 + N)
    seen = weights[{1, {}, 1, {2, -1}}]:mean(1)             -- of the last layer: (N)
  end)
  local class = heed.no_grad(model, image:unsqueeze(1)):argmax(-1):item()
  local across = SIDE // PATCH
  local spread = seen:view(across, across):repeat_interleave(PATCH, 1)
  return spread:repeat_interleave(PATCH, 2), NAMES[class]   -- (SIDE, SIDE)
end
for i = 1, 2 do
  local seen, name = look(x[i])
  panels[2 * i - 1] = plot.heat(x[{i, 1}], {title = "an image"})
  panels[2 * i] = plot.heat(seen, {title = "seen as a " .. name})
end
local picture = plot.row(panels)
print(picture)
local saved, why = picture:save(path)
print(saved and "the same as a picture: " .. path or "no picture: " .. why)
