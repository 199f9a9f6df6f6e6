-- Checks the lists of parameters that optimisers, clipping and averages take.

local heed = require "heed"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"

local fail = heed.fail

local parameters = {}

-- Where a parameter stands, in words.
local function place(i, group)
  return group and ("%d of group %d"):format(i, group) or tostring(i)
end


---Refuses what is no list of tensors, or has one twice.
---@param who string
---@param list heed.Tensor[]
---@param seen? table<heed.Tensor, string> those before it, and where they stand
---@param group? integer the number of the group that has it
function parameters.check(who, list, seen, group)
  if type(list) ~= "table" or getmetatable(list) or #list == 0 then
    fail("%s: a list of tensors expected%s, such as model:parameters(), got %s", who,
         group and " as params of group " .. group or "", options.kind(list))
  end
  options.check_list(who, list)
  seen = seen or {}
  for i = 1, options.last(list) do
    local p = list[i]
    if not heed.is_tensor(p) then
      fail("%s: a tensor expected as parameter %s, got %s", who, place(i, group), options.kind(p))
    elseif seen[p] then
      fail("%s: every parameter once expected, got parameter %s as %s again", who, seen[p],
           place(i, group))
    end
    seen[p] = place(i, group)
  end
end


---Refuses what no step could ever change. An nn.Parameter may be frozen for a while.
---@param who string
---@param list heed.Tensor[]
---@param group? integer
function parameters.check_trainable(who, list, group)
  for i, p in ipairs(list) do
    if not p.is_leaf then
      fail("%s: a leaf expected as parameter %s, got %s that was computed; p:detach() is one",
           who, place(i, group), options.kind(p))
    elseif not p.requires_grad and parameter.role(p) ~= "parameter" then
      fail("%s: a tensor that requires grad expected as parameter %s, got %s that does not; "
           .. "p:requires_grad_()", who, place(i, group), options.kind(p))
    end
  end
end


return parameters
