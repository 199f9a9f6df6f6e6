-- The names of a module's fields, in the order of first setting; messages about other names, and
-- about values that are no modules.

local heed = require "heed"
local kin = require "heed.nn.kin"
local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

local type, getmetatable = type, getmetatable   -- walks over a model's modules take them from here

local field_names = {}

-- The key of an instance's names: a function, since scripts find it by `next`, and could write to a
-- table.
local function NAMES() end

field_names.KEY = NAMES


---Whether a value is an instance of a module's class.
---@param value any
---@return boolean
function field_names.is_module(value)
  local class = type(value) == "table" and getmetatable(value)
  return type(class) == "table" and class.__is_module == true
end

local is_module = field_names.is_module


-- The names of a module's fields and methods, as keys.
local function all_names(module)
  local known, class = {}, getmetatable(module)
  for name in pairs(rawget(module, NAMES).known) do known[name] = true end
  while type(class) == "table" do
    for name in next, class do known[name] = true end
    class = (getmetatable(class) or {}).__index
  end
  return known
end


-- A table that has a class as its metatable, and was not made by calling it.
local function refuse_unmade(module)
  heed.fail("%s: a layer that %s(...) made expected, got a table with its metatable", module.__name,
            module.__name)
end


---Refuses the first argument of a metamethod that was called by hand: it is no module, or none that
---a call of its class made.
---@param self any
---@param metamethod string
function field_names.refuse_self(self, metamethod)
  if is_module(self) then refuse_unmade(self) end
  heed.fail("%s: a module expected as the first argument, got %s", metamethod, options.kind(self))
end


-- A field of heed's own layers that a program has set to nil. A part that they may lack is false.
local function refuse_nil(module, name)
  local role = rawget(module, NAMES).known[name]
  heed.fail("%s: field '%s' is nil now%s; false says that there is none", module.__name, name,
            type(role) == "string" and ", and was a " .. role or "")
end


---The value of a name that neither fields nor classes have: nil if the field was set once.
---@param module heed.Module
---@param name any
---@return nil
function field_names.absent(module, name)
  if not is_module(module) then field_names.refuse_self(module, "__index") end
  local names, plain = rawget(module, NAMES), type(name) == "string" and name:find("^%a")
  if names == nil then return plain and refuse_unmade(module) or nil end
  if not names.known[name] then
    return options.refuse_name(module.__name, name, all_names(module), torch_names.module)
  end
  if plain and kin.is_own(getmetatable(module)) then refuse_nil(module, name) end
  return nil
end


return field_names
