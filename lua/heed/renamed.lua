-- Functions made of others raise errors by their own names.

local function settle(name, good, ...)
  if good then return ... end
  local message = ...
  if type(message) == "string" then
    message = message:gsub("^(.-:%d+: )[%l_]+: ", "%1" .. name .. ": ", 1)
  end
  error(message, 0)
end


---f, but with another name in its messages, which are "file:line: name: what is wrong".
---@param name string
---@param f function
---@return function
return function(name, f)
  return function(...) return settle(name, pcall(f, ...)) end
end
