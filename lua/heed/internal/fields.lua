-- Fields of tables that core.commit sets together: a list of a table, a key, a value, the next
-- table, and so on. It sets keys that are there already, since a new one may take memory.

local fields = {}


---Adds a field to a list. A key that is not there is set at once, to what it counts as without.
---@param list any[]
---@param t table
---@param key any
---@param value any not nil
---@param otherwise? any nil: false
function fields.add(list, t, key, value, otherwise)
  if rawget(t, key) == nil then rawset(t, key, otherwise or false) end
  local n = #list
  list[n + 1], list[n + 2], list[n + 3] = t, key, value
end


return fields
