-- Clipping of gradients, and the groups of a model's parameters.

local clip_gradients = require("heed.core").clip_gradients
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameters_of = require "heed.optim.parameters"

local fail = heed.fail

local clip = {}


---Scales the gradients down so that their norm, taken over all of them, is at most `max`.
---@param parameters heed.Tensor[]
---@param max number
---@param norm_type? number|table 2 unless given; or the options
---@param given? {norm_type: number, error_if_nonfinite: boolean} whether a norm that is infinite
---or NaN raises, which waits for a GPU
---@return heed.Tensor norm what it was, 0-dimensional
function clip.clip_grad_norm(parameters, max, norm_type, given, ...)
  options.no_more("clip_grad_norm", 4, ...)
  if given == nil and type(norm_type) ~= "number" then norm_type, given = nil, norm_type end
  local o = options.given("clip_grad_norm", given, {error_if_nonfinite = false, norm_type = 2})
  if norm_type ~= nil then
    if type(norm_type) ~= "number" then
      fail("clip_grad_norm: a number expected as norm_type, got %s", options.kind(norm_type))
    elseif o.norm_type ~= nil then
      fail("clip_grad_norm: argument 'norm_type' is given twice")
    end
  end
  o.norm_type = norm_type or o.norm_type or 2
  if heed.is_tensor(parameters) then parameters = {parameters} end
  parameters_of.check("clip_grad_norm", parameters)
  options.bound("clip_grad_norm", "max", max)
  if o.norm_type ~= o.norm_type then
    fail("clip_grad_norm: a number expected as norm_type, got %s", options.kind(o.norm_type))
  end
  if o.error_if_nonfinite and not clip_gradients(parameters, o.norm_type):isfinite():item() then
    fail("clip_grad_norm: gradients whose norm is finite expected; it is infinite or NaN")
  end
  return clip_gradients(parameters, o.norm_type, max)
end


---A model's parameters as groups for an optimiser: those with two axes or more, and the rest
---(biases, the weights of norms) without weight decay.
---
---    optim.AdamW(optim.split(model), {lr = 3e-4, weight_decay = 0.1})
---@param model heed.Module
---@return table[] groups {params = ...} and {params = ..., weight_decay = 0}, where there are such
function clip.split(model, ...)
  options.no_more("optim.split", 1, ...)
  if not Module.is(model) then
    fail("optim.split: a module expected, got %s", options.kind(model))
  end
  local matrices, others, groups = {}, {}, {}
  for _, p in ipairs(model:parameters()) do
    local list = p:dim() >= 2 and matrices or others
    list[#list + 1] = p
  end
  if #matrices > 0 then groups[1] = {params = matrices} end
  if #others > 0 then groups[#groups + 1] = {params = others, weight_decay = 0} end
  return groups
end


return clip
