-- Parameters that a run's optimizer changes besides the model's, such as those of a loss: a part of
-- checkpoints. As in the optimizer's state, their names are their numbers in its list.

local core = require "heed.core"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local state = require "heed.files.state"

local Others = {}
Others.__index = Others


function Others:state()
  local tensors = {}
  for i, p in pairs(self.parameters) do tensors[tostring(i)] = p:detach() end
  return tensors
end


function Others:compare(given)
  local slots = {}
  for i, p in pairs(self.parameters) do slots[#slots + 1] = {names = {tostring(i)}, value = p} end
  return state.compare(slots, given)
end


function Others:load_state(given)
  local targets, operands = {}, {}
  for i, p in pairs(self.parameters) do
    targets[#targets + 1], operands[#operands + 1] = p, given[tostring(i)]:to(p.device)
  end
  core.commit("load_state", {targets = targets, operands = operands})
end


---The parameters of an optimizer that are not a model's, but for weights in blocks, which no step
---changes.
---@param model heed.Module
---@param optimizer heed.Optimizer
---@return {parameters: table<integer, heed.Tensor>} others with state, compare and load_state
return function(model, optimizer)
  local own, parameters = {}, {}
  for _, p in ipairs(model:parameters()) do own[p] = true end
  local list = optimizer.parameters
  for i, p in ipairs(type(list) == "table" and list or {}) do
    if options.is_alive(p) and not own[p] and not parameter.in_blocks(p) then parameters[i] = p end
  end
  return setmetatable({parameters = parameters}, Others)
end
