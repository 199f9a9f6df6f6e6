-- heed.position: where tokens stand, told to a model. Positions count from 0.
--
--   local position = require "heed.position"
--   x = x + position.sinusoidal(T, D)                  -- (T, D): Vaswani et al. 2017, 3.5
--   local pos = position.Learned(512, 64)              -- a layer: pos(x) adds its rows to x
--   q, k = position.rope(q), position.rope(k)          -- rotated by angles: Su et al. 2021

local layers = require "heed.nn.positions"
local options = require "heed.internal.options"
local places = require "heed.attention.places"
local rope = require "heed.attention.rope"
local sinusoids = require "heed.attention.sinusoids"

return options.strict("heed.position", {
  Learned = layers.Learned,
  Sinusoidal = layers.Sinusoidal,
  of_keys = places.of_keys,
  rope = rope.rope,
  sinusoidal = sinusoids.sinusoidal,
})
