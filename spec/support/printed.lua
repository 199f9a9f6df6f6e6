-- Output of a script in a process of its own, for settings that a process reads once.

---@param settings string variables of the environment, as a shell has them
---@param script string without single quotes
---@return string output and errors
return function(settings, script)
  local pipe <close> = assert(io.popen(("%s lua5.4 -e '%s' 2>&1"):format(settings, script)))
  return pipe:read("a")
end
