-- Compares a state that was given with the one that is expected; lists all differences at once.

local heed = require "heed"
local options = require "heed.internal.options"

local state = {}

local PART <const> = 1 << 16           -- elements that are compared at once

---@class heed.state.slot
---@field names string[] what the tensor may be called; shared weights have several names
---@field value heed.Tensor


local function shown(t)
  return ("%s %s"):format(t.dtype, tostring(t.shape))
end


local function fits(wanted, given)
  return options.is_alive(given) and given.shape == wanted.shape and given.dtype == wanted.dtype
end


---@class heed.state.differences
---@field missing string[] names of slots that nothing was given for
---@field unexpected string[] names that were given and belong to no slot
---@field misfits string[] names whose tensors have another shape or type
---@field torn string[] two names each, of one tensor, that have different values
---@field wanted table<string, heed.Tensor> what should stand under missing names and misfits
---@field given table<string, any> the state

-- Bit by bit: NaN is NaN. Parts follow each other, so that no copy of a whole weight is made.
local function same_values(a, b)
  if rawequal(a, b) then return true end
  local n = a:dim() > 0 and a:size(1) or 1
  if n == 1 or a:numel() <= PART then return a:data() == b:data() end
  local half = n // 2
  return same_values(a:narrow(1, 1, half), b:narrow(1, 1, half))
         and same_values(a:narrow(1, half + 1, n - half), b:narrow(1, half + 1, n - half))
end


-- The first two names of a slot that a state has different values for; nil if there are none.
local function torn_names(slot, given)
  local first
  for _, name in ipairs(slot.names) do
    local t = given[name]
    if t ~= nil and fits(slot.value, t) then
      if first and not same_values(given[first], t) then return first .. " and " .. name end
      first = first or name
    end
  end
end


---Compares a state with slots.
---@param slots heed.state.slot[]
---@param given table<string, heed.Tensor>
---@return heed.state.differences
function state.differences(slots, given)
  local found = {missing = {}, unexpected = {}, misfits = {}, torn = {}, wanted = {}}
  found.given = given
  local expected = {}
  local function add(list, name, value) list[#list + 1], found.wanted[name] = name, value end
  for _, slot in ipairs(slots) do
    local is_given = false
    for _, name in ipairs(slot.names) do
      expected[name] = true
      if given[name] ~= nil then
        is_given = true
        if not fits(slot.value, given[name]) then add(found.misfits, name, slot.value) end
      end
    end
    if not is_given then add(found.missing, slot.names[1], slot.value) end
    found.torn[#found.torn + 1] = #slot.names > 1 and torn_names(slot, given) or nil
  end
  for name in pairs(given) do
    if not expected[name] then table.insert(found.unexpected, tostring(name)) end
  end
  for _, list in ipairs{found.missing, found.unexpected, found.misfits} do table.sort(list) end
  return found
end


local function misfit(name, wanted, given)
  if not options.is_alive(given) then
    return ("%s: a tensor expected, got %s"):format(name, options.kind(given))
  end
  return ("%s: %s expected, got %s"):format(name, shown(wanted), shown(given))
end


-- Whether the tensors that do not fit would fit each other's places.
local function is_order_alone(found)
  local counts = {}
  local function count(t, by)
    local key = options.is_alive(t) and shown(t) or "no tensor"
    counts[key] = (counts[key] or 0) + by
  end
  for _, list in ipairs{found.missing, found.misfits} do
    for _, name in ipairs(list) do count(found.wanted[name], 1) end
  end
  for _, list in ipairs{found.unexpected, found.misfits} do
    for _, name in ipairs(list) do count(found.given[name], -1) end
  end
  for _, n in pairs(counts) do
    if n ~= 0 then return false end
  end
  return next(counts) ~= nil
end


local ORDER = "the same shapes stand there under other names or in another order; an optimiser's "
              .. "order is that of parameters(), where fields come as they were first set, and Lua "
              .. "sets a, b = x, y from right to left"

-- The prefix of all missing names among those that were given; nil if they are not there.
local function prefix_of(found)
  local first = found.missing[1]
  for _, name in ipairs(first and found.unexpected or {}) do
    local prefix, all = name:sub(1, -#first - 1), name:sub(-#first) == first
    for _, other in ipairs(found.missing) do all = all and found.given[prefix .. other] ~= nil end
    if all then return prefix end
  end
end


local function hint_of(found)
  local prefix = prefix_of(found)
  if prefix then
    return ("these names stand there behind '%s', which their tensors are to be given without")
      :format(prefix)
  end
  return is_order_alone(found) and ORDER or nil
end


---Differences in words, and a hint if names or the order alone may be wrong.
---@param found heed.state.differences
---@param strict? boolean false: missing and unexpected names are no problem
---@return string[] problems empty if the state fits
---@return string? hint
function state.problems(found, strict)
  local problems = {}
  for _, name in ipairs(found.misfits) do
    problems[#problems + 1] = misfit(name, found.wanted[name], found.given[name])
  end
  for _, names in ipairs(found.torn) do
    problems[#problems + 1] = names .. ": one tensor expected, which both share, got different "
                              .. "values"
  end
  for _, name in ipairs(strict == false and {} or found.missing) do
    problems[#problems + 1] = ("%s: %s is missing"):format(name, shown(found.wanted[name]))
  end
  for _, name in ipairs(strict == false and {} or found.unexpected) do
    problems[#problems + 1] = name .. ": not expected"
  end
  table.sort(problems)
  return problems, #problems > 0 and hint_of(found) or nil
end


---Lists what is missing, what was not expected, and what has another shape or type.
---@param slots heed.state.slot[]
---@param given table<string, heed.Tensor>
---@return string[] problems empty if the state fits
---@return string? hint
function state.compare(slots, given)
  return state.problems(state.differences(slots, given))
end


---Raises one error that lists every problem, or returns if there are none.
---@param who string
---@param problems string[]
---@param hint? string
function state.refuse(who, problems, hint)
  if #problems == 0 then return end
  heed.fail("%s: the state does not fit, nothing was loaded\n  %s%s",
            who, table.concat(problems, "\n  "), hint and "\n" .. hint or "")
end


---Checks that what was given can be a state at all.
---@param who string
---@param given any
function state.check(who, given)
  if type(given) ~= "table" or getmetatable(given) then
    heed.fail("%s: a table of tensors by name expected, got %s", who, options.kind(given))
  end
end


---The tensors whose names begin with `prefix`, under their names without it.
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


-- Whether a value is what heed.load gives behind the tensors: a table of texts, often empty.
local function is_metadata(value, takes_options)
  if type(value) ~= "table" or getmetatable(value) ~= nil then return false end
  if takes_options and rawget(value, "strict") ~= nil then return false end
  local _, text = next(value)
  return type(text) == "string" or text == nil and not takes_options
end


---Refuses what heed.load gives in the place of a state, where it fails, and behind one, and more
---arguments than a function takes.
---@param who string
---@param most integer how many it takes
---@param given any the first of them
---@param ... any what was given behind it
function state.check_arguments(who, most, given, ...)
  local behind = ...
  if given == nil and type(behind) == "string" then heed.fail("%s: %s", who, behind) end
  if is_metadata(behind, most > 1) then
    heed.fail("%s: %s expected, got a file's metadata; of heed.load's results write the first "
              .. "alone: (heed.load(path))", who, most > 1 and "options" or "a state alone")
  end
  options.no_more(who, most, select(most, ...))
end


return state
