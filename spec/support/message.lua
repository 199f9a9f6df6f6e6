-- The message of a call that must raise. Where the line matters, f makes the call in a statement.

---@param f function
---@param ... any
---@return string
return function(f, ...)
  local good, why = pcall(f, ...)
  assert(not good, "no error was raised")
  return tostring(why)
end
