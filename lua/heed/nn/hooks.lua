-- Hooks of modules: functions that a module's call calls before and after its `forward`.
--
-- A call has the hooks that were registered before it began, in the order of registration; one that
-- is removed meanwhile is called no more. A list of hooks is never changed: another one takes its
-- place. The lists stand apart from the modules, so that neither copies nor files have them, and a
-- call of a module without any costs one look. While layers are watched, all modules have a list.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local watch = require "heed.nn.watch"

local pack, unpack = table.pack, table.unpack

---@class heed.nn.hooks: heed.nn.hook[] what a call finds
---@field call fun(module: heed.Module, list: heed.nn.hooks, ...: any): ... which it calls instead

---@class heed.nn.hook
---@field f function
---@field before boolean whether it is called before `forward`
---@field name string of the method that registered it

local hooks = {}

---False for all modules that a class or `clone` made.
---@type table<heed.Module, false>
hooks.made = setmetatable({}, {__mode = "k"})

---The hooks of modules that have any; false for others that were made, but while layers are
---watched an empty list.
---@type table<heed.Module, heed.nn.hooks|false>
hooks.of = setmetatable({}, {__mode = "k", __index = hooks.made})

-- A module is called that is watched and has no hooks.
local function call_watched(module, _, ...)
  local _ <close> = watch.enter(module)
  return module:forward(...)
end

local none, meta = {call = call_watched}, getmetatable(hooks.of)

local function watched(_, module)
  if hooks.made[module] == false then return none end
end

core.watched(meta, watched, hooks.made)

local owners = setmetatable({}, {__mode = "k"})         -- handle -> {module, hook}; false: removed


---The handle that a module's `register_forward_hook` and `register_forward_pre_hook` return.
---@class heed.ModuleHook
local Handle = {__name = "heed.ModuleHook"}
Handle.__index = Handle


-- Whether a module has a hook, which was not removed since.
local function is_there(module, hook)
  for _, other in ipairs(hooks.of[module] or {}) do
    if rawequal(other, hook) then return true end
  end
  return false
end


---Takes the hook off its module; nothing if it is gone. A handle in a variable `<close>` does so at
---the end of its block, also where an error ends it.
function Handle:remove()
  local owner = owners[self]
  if not owner then return end
  local left = {call = hooks.call}
  for _, hook in ipairs(hooks.of[owner.module] or {}) do
    if not rawequal(hook, owner.hook) then left[#left + 1] = hook end
  end
  hooks.of[owner.module] = #left > 0 and left or nil
  owners[self] = false
end

Handle.__close = function(self) self:remove() end

options.guard(Handle, {remove = 0}, {
  is = function(value) return type(value) == "table" and rawequal(getmetatable(value), Handle) end,
  what = "a hook", variable = "hook",
})


---Whether a module has hooks.
---@param module heed.Module
---@return boolean
function hooks.any(module) return rawget(hooks.of, module) ~= nil end


---Registers a hook of a module.
---@param module heed.Module
---@param name string of the method
---@param f function
---@param before boolean whether it is called before `forward`
---@return heed.ModuleHook
function hooks.register(module, name, f, before)
  options.callable(name, "the hook", f)
  local hook, list = {f = f, before = before, name = name}, {call = hooks.call}
  for _, other in ipairs(hooks.of[module] or {}) do list[#list + 1] = other end
  list[#list + 1] = hook
  local handle = setmetatable({}, Handle)
  owners[handle] = {module = module, hook = hook}
  hooks.of[module] = list
  return handle
end


-- A boolean in the place of a tensor is a condition that a hook returned by mistake, most often.
local function refuse_condition(hook, value, first)
  if type(first) ~= "boolean" or not heed.is_tensor(value) then return end
  heed.fail("%s: the hook returned %s in the place of a tensor; return nothing where all values "
            .. "stay", hook.name, first)
end


-- The values with those of a hook in the places of the first, if it returned any.
local function replaced(hook, values, ...)
  refuse_condition(hook, values[1], (...))
  local n = select("#", ...)
  local new = {n = math.max(n, values.n), ...}
  if (...) == nil then
    for i = 2, n do
      if new[i] ~= nil then
        heed.fail("%s: the hook returned nil before other values; return the first of them, too",
                  hook.name)
      end
    end
    return values
  end
  for i = n + 1, values.n do new[i] = values[i] end
  return new
end


-- Arguments that a hook writes to its table would be lost.
local function refuse_writes(hook, given, values)
  for i = 1, values.n do
    if not rawequal(rawget(given, i), values[i]) then
      heed.fail("%s: the hook wrote to its table of arguments, at %d; return what takes their "
                .. "places", hook.name, i)
    end
  end
end


---Calls a module that has hooks.
---@param module heed.Module
---@param list heed.nn.hooks
---@param ... any its arguments
---@return any ... its results
function hooks.call(module, list, ...)
  local _ <close> = meta.__index == watched and watch.enter(module)
  local arguments = pack(...)
  for _, hook in ipairs(list) do
    if hook.before and is_there(module, hook) then
      local given = pack(unpack(arguments, 1, arguments.n))
      local new = replaced(hook, arguments, hook.f(module, given))
      refuse_writes(hook, given, arguments)
      arguments = new
    end
  end
  local results = pack(module:forward(unpack(arguments, 1, arguments.n)))
  for _, hook in ipairs(list) do
    if not hook.before and is_there(module, hook) then
      local given = pack(unpack(arguments, 1, arguments.n))
      results = replaced(hook, results, hook.f(module, given, unpack(results, 1, results.n)))
    end
  end
  return unpack(results, 1, results.n)
end


return hooks
