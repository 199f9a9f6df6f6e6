-- The keys of a table in a module's field below which a module or a tensor may stand, in order:
-- numbers before names, each in their own order.

local function before(a, b)
  local a_number, b_number = type(a) == "number", type(b) == "number"
  if a_number ~= b_number then return a_number end
  return a < b
end


---@param t table
---@return (number|string)[]
return function(t)
  local keys = {}
  for key, value in next, t do
    local named = type(key) == "number" or type(key) == "string"
    if named and (type(value) == "table" or type(value) == "userdata") then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, before)
  return keys
end
