-- Options of an optimizer's groups that a run has changed, such as weight_decay: a part of its
-- checkpoints. Rates are no part of it.

local heed = require "heed"
local optimizers = require "heed.optim.optimizer"

local group_options = {}


---The options of each group now; none of an optimizer of a program's own.
---@param optimizer heed.Optimizer
---@return table<string, number|boolean|number[]>[]
function group_options.now(optimizer)
  local all = optimizers.is(optimizer) and optimizers.options_of(optimizer) or {}
  for _, options in ipairs(all) do options.lr = nil end
  return all
end


local function same(a, b)
  if type(a) ~= "table" then return a == b end
  return a[1] == b[1] and a[2] == b[2]
end


---The options that have changed, as tensors by the group's number and the name.
---@param optimizer heed.Optimizer
---@param before table[] what `now` gave
---@return table<string, heed.Tensor>
function group_options.changed(optimizer, before)
  local tensors = {}
  for i, options in ipairs(group_options.now(optimizer)) do
    for name, value in pairs(options) do
      if not same(value, before[i][name]) then
        local dtype = type(value) == "boolean" and "bool" or "float64"
        tensors[i .. "." .. name] = heed.tensor(value, {dtype = dtype})
      end
    end
  end
  return tensors
end


---Options that a checkpoint has, which are checked.
---@param optimizer heed.Optimizer
---@param tensors table<string, heed.Tensor>
---@return table<integer, table<string, any>>? values by the groups' numbers; nil where these are
---others
function group_options.read(optimizer, tensors)
  local values = {}
  local groups = #group_options.now(optimizer)
  for key, t in pairs(tensors) do
    local number, name = key:match("^(%d+)%.(.+)$")
    local i = math.tointeger(tonumber(number))
    if not i or i < 1 or i > groups then return nil end
    values[i] = values[i] or {}
    if t:dim() == 0 then values[i][name] = t:item() else values[i][name] = t:totable() end
  end
  if groups > 0 then optimizers.option_fields(optimizer, values) end
  return values
end


return group_options
