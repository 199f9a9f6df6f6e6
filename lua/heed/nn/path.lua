-- Where in a model an error was raised, in words: "layers.3.attend.query (Linear(768, 768))".

local tree = require "heed.nn.tree"


-- The name that a module has below another, or nil.
local function name_below(outer, module)
  for name, found in outer:named_modules() do
    if found == module then return name end
  end
end


local function join(path, name)
  if path == "" or name == "" then return path .. name end
  return path .. "." .. name
end


-- The path from the outermost module to the innermost, each found below the one that called it,
-- or below the outermost; "" if it is in no field of theirs.
local function path_of(modules)
  local outermost, above, path = modules[#modules], modules[#modules], ""
  for i = #modules - 1, 1, -1 do
    local name = name_below(above, modules[i])
    if not name then path, name = "", name_below(outermost, modules[i]) or "" end
    above, path = modules[i], join(path, name)
  end
  return path
end


local function words(modules)
  if #modules < 2 or modules[1] == modules[#modules] then return "" end
  local path, title = path_of(modules), tree.title(modules[1])
  return path == "" and title or ("%s (%s)"):format(path, title)
end


local busy = false                     -- a description of a module may raise an error itself

---Where the innermost of some modules stands, or "" where there is nothing to say.
---@param modules heed.Module[] whose calls run, innermost first
---@return string
return function(modules)
  if busy then return "" end
  busy = true
  local good, text = pcall(words, modules)
  busy = false
  return good and text or ""
end
