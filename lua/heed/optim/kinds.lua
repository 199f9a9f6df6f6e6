-- The optimisers: src/op/optimizers.def has their options, defaults and states.
--
-- Denormal numbers in an optimiser's state become 0, where they would stay for ever.

local core = require "heed.core"
local make = require("heed.optim.optimizer").make
local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

local kinds = {}

local ROWS <const> = core.optimizers()


local function optimizer(name, parameters, given, ...)
  local who, defaults = "optim." .. name, {}
  options.no_more(who, 2, ...)
  for option, o in pairs(ROWS[name].options) do
    local value = o.default
    defaults[option] = type(value) == "table" and table.move(value, 1, #value, 1, {}) or value
  end
  return make(name, who, parameters,
              options.read(who, given, defaults, torch_names.optimizer_options))
end


---Parameters, or groups of them with options of their own: {params = list, lr = ...}.
---@alias heed.Optimizer.parameters heed.Tensor[]|table[]

---@class heed.SGD.options
---@field lr? number 0.001 unless given
---@field momentum? number 0 unless given
---@field dampening? number of the momentum; 0 unless given
---@field nesterov? boolean
---@field weight_decay? number 0 unless given
---@field maximize? boolean

---Stochastic gradient descent, with momentum if it is given.
---@param parameters heed.Optimizer.parameters
---@param given? heed.SGD.options
---@return heed.Optimizer
function kinds.SGD(parameters, given, ...)
  return optimizer("SGD", parameters, given, ...)
end


---@class heed.Adam.options
---@field lr? number 0.001 unless given
---@field betas? number[] {0.9, 0.999} unless given
---@field eps? number 1e-8 unless given
---@field weight_decay? number 0 unless given, for AdamW 0.01
---@field amsgrad? boolean
---@field maximize? boolean

---Adam; its weight decay is added to the gradients. Without eps, an element whose squares were all
---0, or denormal, stays.
---@param parameters heed.Optimizer.parameters
---@param given? heed.Adam.options
---@return heed.Optimizer
function kinds.Adam(parameters, given, ...)
  return optimizer("Adam", parameters, given, ...)
end


---Adam whose weight decay shrinks the weights themselves.
---@param parameters heed.Optimizer.parameters
---@param given? heed.Adam.options
---@return heed.Optimizer
function kinds.AdamW(parameters, given, ...)
  return optimizer("AdamW", parameters, given, ...)
end


---@class heed.Lion.options
---@field lr? number 0.0001 unless given
---@field betas? number[] {0.9, 0.99} unless given: of the step, and of the state
---@field weight_decay? number 0 unless given; it shrinks the weights themselves
---@field maximize? boolean

---Lion (Chen et al. 2023, algorithm 2): every element goes by lr, along the sign of a mean. Rates
---are 3 to 10 times smaller than AdamW's, and its weight decay larger by that.
---@param parameters heed.Optimizer.parameters
---@param given? heed.Lion.options
---@return heed.Optimizer
function kinds.Lion(parameters, given, ...)
  return optimizer("Lion", parameters, given, ...)
end


return kinds
