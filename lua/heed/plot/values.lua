-- The contents of pictures, checked: numbers, labels and texts, from tensors or from tables.

local heed = require "heed"
local ink = require "heed.plot.ink"
local options = require "heed.internal.options"

local kind = options.kind

local values = {}


local readable = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function spell(c)
  return readable[c] or ("\\x%02x"):format(c:byte())
end


-- Whether a value has a text that says what it is, and not where it lies in memory.
local function has_text(value)
  if heed.is_tensor(value) then return value:numel() == 1 end
  return value ~= nil and not tostring(value):find(("%p"):format(value), 1, true)
end


---A label, a title or the text of a cell: one line of valid UTF-8, with numbers in few digits.
---@param who string
---@param what string "option title"
---@param value any
---@return string
function values.text(who, what, value)
  if not has_text(value) then
    heed.fail("%s: a text or a number expected as %s, got %s", who, what, kind(value))
  end
  local integer = math.type(value) == "float" and math.tointeger(value)
  local text = tostring(integer or value)
  if math.type(value) == "float" and not integer then text = ink.short(value) end
  if not utf8.len(text) then text = text:gsub("[\128-\255]", spell) end
  return (text:gsub("[\0-\31\127]", spell))
end


---Converts a tensor to nested tables and returns any other value unchanged.
---@param value any
---@return any
function values.table(value)
  if heed.is_tensor(value) then return value:detach():totable() end
  return value
end


local function number(who, value)
  if value == true then return 1.0 end
  if value == false then return 0.0 end
  if heed.is_tensor(value) and value:numel() == 1 then value = value:item() end
  if type(value) == "number" then return value + 0.0 end
  heed.fail("%s: a number expected, got %s", who, kind(value))
end


---The numbers of a list, as floats.
---@param who string
---@param list any
---@return number[]
function values.numbers(who, list)
  local given = values.table(list)
  if type(given) ~= "table" then
    heed.fail("%s: a list of numbers expected, got %s", who, kind(list))
  end
  local numbers = options.whole(who, given)
  for k, value in ipairs(numbers) do numbers[k] = number(who, value) end
  if #numbers == 0 then heed.fail("%s: a list with numbers expected, got an empty one", who) end
  return numbers
end


---The numbers of a list, or of a tensor of rank 1.
---@param who string
---@param list any
---@return number[]
function values.vector(who, list)
  if heed.is_tensor(list) and list:dim() ~= 1 then
    heed.fail("%s: a vector expected, got %s", who, kind(list))
  end
  return values.numbers(who, list)
end


---The lists of several series: a list of lists or of vectors holds some, a list of numbers one.
---@param who string
---@param list any
---@return number[][]
function values.series(who, list)
  local first = type(list) == "table" and list[1]
  local several = heed.is_tensor(first) and first:dim() > 0 or type(first) == "table"
  if not several then return {values.vector(who, list)} end
  local all = options.whole(who, list)
  for s, part in ipairs(all) do all[s] = values.vector(who, part) end
  return all
end


---Refuses a list that has an entry behind position n.
---@param who string
---@param what string
---@param list table
---@param n integer
function values.check_most(who, what, list, n)
  local last = options.last(list)
  if last > n then heed.fail("%s: at most %d %s expected, got %d", who, n, what, last) end
end


---The names of series, of which some may lack one.
---@param who string
---@param names any
---@return table<integer, string>
function values.names(who, names)
  if names == nil then return {} end
  if type(names) ~= "table" then
    heed.fail("%s: a list of names expected as option labels, got %s", who, kind(names))
  end
  options.check_list(who .. ": option labels", names)
  local texts = {}
  for s, name in next, names do
    texts[s] = values.text(who, ("entry %d of option labels"):format(s), name)
  end
  return texts
end


---A label for each of n things; nil if there are none.
---@param who string
---@param list any
---@param n integer
---@param option string
---@return string[]?
function values.labels(who, list, n, option)
  if list == nil then return nil end
  local given = values.table(list)
  if type(given) ~= "table" or #given ~= n then
    heed.fail("%s: a list of %d labels expected as option %s, got %s", who, n, option,
      type(given) == "table" and #given or kind(list))
  end
  local texts = {}
  for k = 1, n do
    texts[k] = values.text(who, ("entry %d of option %s"):format(k, option), given[k])
  end
  return texts
end


---The text of an option, if it was given.
---@param who string
---@param option string
---@param value any
---@return string?
function values.title(who, option, value)
  return value and values.text(who, "option " .. option, value) or nil
end


return values
