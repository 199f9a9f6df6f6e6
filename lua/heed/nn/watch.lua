-- The number of the layer that works, for heed.profile and for works that heed.capture records.
--
-- A layer is what a path leads to below the layer that called it: numbers are never given anew, so
-- that nodes and recorded works may keep them.

local core = require "heed.core"
local paths = require "heed.nn.path"

local watch = {}

---@class heed.nn.watched
---@field name string its path; or what it is, where it is in no field
---@field path string "" where it is in no field
---@field module string what it is, such as "Linear(8, 8)"
---@field parent integer the number of the layer that called it; 0: none

---The layers by their numbers.
---@type heed.nn.watched[]
watch.layers = {}

local numbers = {}                                    -- parent, path and title as text -> number
local known = setmetatable({}, {__mode = "k"})        -- module -> {[parent] = number}
local calls = {}                                      -- number -> how many since `count`


-- The number of a module whose call has begun, below the layer that called it.
local function new_number(module, parent)
  local above = watch.layers[parent]
  local path, title = paths.name(core.callees(), above and above.path)
  path, title = path or "", title or module.__name
  local name = path == "" and title or path
  local key = ("%d %s %s"):format(parent, name, title)
  if not numbers[key] then
    watch.layers[#watch.layers + 1] = {name = name, path = path, module = title, parent = parent}
    numbers[key] = #watch.layers
  end
  return numbers[key]
end


---A call of a module begins: what it works on is its own until the frame is closed.
---@type fun(module: heed.Module): userdata
watch.enter = core.layer_enterer(known, calls, new_number)


---Counts calls from now on.
---@return table<integer, integer> calls by the layer's number
function watch.count()
  for number in pairs(calls) do calls[number] = nil end
  return calls
end


return watch
