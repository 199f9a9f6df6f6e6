-- Where in a model a layer stands: "layers.3.attend.query", and in words, for errors raised there,
-- "layers.3.attend.query (Linear(768, 768))".

local core = require "heed.core"
local tree = require "heed.nn.tree"

local paths = {}


-- The name that a module has below another, or nil.
local function name_below(outer, module)
  for name, found in outer:named_modules() do
    if found == module then return name end
  end
end


-- The names of the modules in another one's fields; where the module is none of them, of all below.
local function names_below(outer, module)
  local names = {}
  for name, found in outer:children() do names[found] = name end
  if names[module] then return names end
  for name, found in outer:named_modules() do
    if found ~= outer and not names[found] then names[found] = name end
  end
  return names
end


-- The names that modules had below others when they were last looked for, which many calls ask.
local seen = setmetatable({}, {__mode = "k"})         -- outer -> {[module] = name}

local function seen_below(outer, module)
  if outer == module then return "" end
  if not (seen[outer] and seen[outer][module]) then seen[outer] = names_below(outer, module) end
  return seen[outer][module]
end


---The name of what has a name below a path; "" on either side is the module itself.
---@param path string
---@param name string
---@return string
function paths.join(path, name)
  if path == "" or name == "" then return path .. name end
  return path .. "." .. name
end

local join = paths.join


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


-- The same of the innermost, where the path of the one that called it is known.
local function path_below(modules, above)
  if #modules < 2 then return "" end
  local name = seen_below(modules[2], modules[1])
  if name then return join(above, name) end
  return seen_below(modules[#modules], modules[1]) or ""
end


---The innermost of some modules: its path, "" if it is in no field; and what it is. Nothing where
---that cannot be told: a description of a module may raise an error itself.
---@param modules heed.Module[] whose calls run, innermost first
---@param above? string the path of the second of them, if that is known
---@return string? path
---@return string? title such as "Linear(768, 768)"
function paths.name(modules, above)
  return core.attempt(function()
    return above and path_below(modules, above) or path_of(modules), tree.title(modules[1])
  end)
end


---Where the innermost of some modules stands, or "" where there is nothing to say.
---@param modules heed.Module[] whose calls run, innermost first
---@return string
function paths.words(modules)
  if #modules < 2 or modules[1] == modules[#modules] then return "" end
  local name, title = paths.name(modules)
  if name == nil then return "" end
  return name == "" and title or ("%s (%s)"):format(name, title)
end


return paths
