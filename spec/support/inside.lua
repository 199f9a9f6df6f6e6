-- The tables and functions of the library, found by `debug`: all that a walk from the module comes
-- to over fields, metatables, upvalues and user values. Lua's own libraries are not among them.

local heed = require "heed"

local LIBRARIES <const> = {"", "coroutine", "debug", "io", "math", "os", "string", "table", "utf8"}
local PARTS <const> = {
  "accuracy", "bias", "capture", "confusion_matrix", "data", "f1", "generate", "help", "load",
  "mask", "nn", "optim", "perplexity", "plot", "position", "precision", "recall", "sample", "save",
  "tasks", "train",
}

local inside = {}

local names = {}                   -- value -> the way to it
local seen = {[_G] = true, [package] = true}


local function leave_out()
  for _, name in ipairs(LIBRARIES) do
    local library = name == "" and _G or package.loaded[name]
    seen[library] = true
    for _, value in next, library do
      if type(value) == "function" or type(value) == "table" then seen[value] = true end
    end
  end
  for _, value in next, package do
    if type(value) ~= "string" then seen[value] = true end
  end
end


local walk

local function walk_function(f, way)
  local i, name, value = 1, debug.getupvalue(f, 1)
  while name do
    walk(value, way .. "^" .. name)
    i = i + 1
    name, value = debug.getupvalue(f, i)
  end
end


function walk(value, way)
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" and kind ~= "userdata" or seen[value] then return end
  seen[value], names[value] = true, kind ~= "userdata" and way or nil
  walk(debug.getmetatable(value), way .. "'s metatable")
  if kind == "function" then return walk_function(value, way) end
  if kind == "userdata" then return walk(debug.getuservalue(value, 1), way) end
  for key, field in next, value do
    walk(key, way .. "'s key " .. tostring(key))
    walk(field, way .. "." .. tostring(key))
  end
end


---The module's own table, also in a sealed state.
inside.heed = type(heed) == "userdata" and debug.getuservalue(heed, 1) or heed

---How the library leads to a table or a function of its own; nil for others.
---@param value any
---@return string?
function inside.way(value)
  return names[value]
end


for _, name in ipairs(PARTS) do assert(heed[name]) end   -- loads them
leave_out()
walk(heed, "heed")

return inside
