-- Compares a state that was given with the one that is expected; lists all differences at once.

local heed = require "heed"
local options = require "heed.options"

local state = {}

---@class heed.state.slot
---@field names string[] what the tensor may be called; shared weights have several names
---@field value heed.Tensor


local function shown(t)
  return ("%s %s"):format(t.dtype, tostring(t.shape))
end


local function compare_one(problems, name, wanted, given)
  if not options.is_alive(given) then
    problems[#problems + 1] = ("%s: a tensor expected, got %s"):format(name, options.kind(given))
  elseif given.shape ~= wanted.shape or given.dtype ~= wanted.dtype then
    problems[#problems + 1] = ("%s: %s expected, got %s"):format(name, shown(wanted), shown(given))
  end
end


---Lists what is missing, what was not expected, and what has another shape or type.
---@param slots heed.state.slot[]
---@param given table<string, heed.Tensor>
---@return string[] problems empty if the state fits
function state.compare(slots, given)
  local problems, expected = {}, {}
  for _, slot in ipairs(slots) do
    local found = false
    for _, name in ipairs(slot.names) do
      expected[name] = true
      if given[name] ~= nil then
        found = true
        compare_one(problems, name, slot.value, given[name])
      end
    end
    if not found then
      problems[#problems + 1] = ("%s: %s is missing"):format(slot.names[1], shown(slot.value))
    end
  end
  for name in pairs(given) do
    if not expected[name] then
      problems[#problems + 1] = ("%s: not expected"):format(tostring(name))
    end
  end
  table.sort(problems)
  return problems
end


---Raises one error that lists every problem, or returns if there are none.
---@param who string
---@param problems string[]
function state.refuse(who, problems)
  if #problems == 0 then return end
  heed.fail("%s: the state does not fit, nothing was loaded\n  %s",
            who, table.concat(problems, "\n  "))
end


---Checks that what was given can be a state at all.
---@param who string
---@param given any
function state.check(who, given)
  if type(given) ~= "table" then
    heed.fail("%s: a table of tensors by name expected, got %s", who, options.kind(given))
  end
end


---Those of the tensors whose names begin with `prefix`, without it.
---@param tensors table<string, heed.Tensor>
---@param prefix string
---@return table<string, heed.Tensor>
function state.below(tensors, prefix)
  local found = {}
  for name, t in pairs(tensors) do
    if name:sub(1, #prefix) == prefix then found[name:sub(#prefix + 1)] = t end
  end
  return found
end


---Adds tensors to others, with a prefix before their names.
---@param tensors table<string, heed.Tensor>
---@param prefix string
---@param more table<string, heed.Tensor>
function state.put_below(tensors, prefix, more)
  for name, t in pairs(more) do tensors[prefix .. name] = t end
end


return state
