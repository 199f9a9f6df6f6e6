-- The optimisers: options, with PyTorch's defaults, and the states of each.
--
-- Denormal numbers in an optimiser's state become 0, where they would stay for ever.

local make = require("heed.optim.optimizer").make
local options = require "heed.internal.options"

local kinds = {}

local SGD <const> = {
  name = "sgd", fills = true,
  states = function(o) return o.momentum ~= 0 and {"momentum_buffer"} or {} end,
}

local function adam_states(o)
  return {"exp_avg", "exp_avg_sq", o.amsgrad and "max_exp_avg_sq" or nil}
end

local ADAM <const> = {name = "adam", states = adam_states}
local ADAMW <const> = {name = "adamw", states = adam_states}
local LION <const> = {name = "lion", states = function() return {"exp_avg"} end}


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
  options.no_more("optim.SGD", 2, ...)
  return make(SGD, "optim.SGD", parameters, options.read("optim.SGD", given, {
    lr = 1e-3, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0, maximize = false,
  }))
end


local function adam(kind, who, weight_decay, parameters, given, ...)
  options.no_more(who, 2, ...)
  return make(kind, who, parameters, options.read(who, given, {
    lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = weight_decay, amsgrad = false,
    maximize = false,
  }))
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
  return adam(ADAM, "optim.Adam", 0, parameters, given, ...)
end


---Adam whose weight decay shrinks the weights themselves.
---@param parameters heed.Optimizer.parameters
---@param given? heed.Adam.options
---@return heed.Optimizer
function kinds.AdamW(parameters, given, ...)
  return adam(ADAMW, "optim.AdamW", 1e-2, parameters, given, ...)
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
  options.no_more("optim.Lion", 2, ...)
  return make(LION, "optim.Lion", parameters, options.read("optim.Lion", given, {
    lr = 1e-4, betas = {0.9, 0.99}, weight_decay = 0, maximize = false,
  }))
end


return kinds
