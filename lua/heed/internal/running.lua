-- Calls that change something for their own time, {running = boolean}, may overlap, in coroutines.

---A call that runs, other than the one that is given.
---@generic T: {running: boolean}
---@param calls table<T, true>
---@param call T
---@return T?
return function(calls, call)
  for other in pairs(calls) do
    if other ~= call and other.running then return other end
  end
end
