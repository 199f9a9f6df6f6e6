-- Notes which lines of the Lua half a program runs, for spec/mutate.lua. As LUA_INIT_5_4 it is read
-- by each Lua that a spec starts, too. At the end the file that MUTATE_LINES names gets "path:line"
-- of each, and "all" where a spec sets hooks of its own, which end the notes. The program ends
-- well.

local path = os.getenv "MUTATE_LINES"
local seen, names = {}, {}

-- The path of a source below the folder of the program; false for others.
local function name_of(source)
  return source:match "^@%./(lua/.*)" or source:match "^@.*/build/mutate/(lua/.*)"
         or source:match "^@(lua/.*)" or false
end

local getinfo, sethook = debug.getinfo, debug.sethook

local function note(_, line)
  local source = getinfo(2, "S").source
  local name = names[source]
  if name == nil then
    name = name_of(source)
    names[source] = name
  end
  if name then seen[name .. ":" .. line] = true end
end

-- Threads have hooks of their own.
local function noted(f)
  return type(f) ~= "function" and f or function(...)
    sethook(note, "l")
    return f(...)
  end
end

local create, wrap, exit = coroutine.create, coroutine.wrap, os.exit

rawset(coroutine, "create", function(f) return create(noted(f)) end)

rawset(coroutine, "wrap", function(f) return wrap(noted(f)) end)

rawset(debug, "sethook", function(...)
  seen.all = true
  return sethook(...)
end)

local function finish()
  sethook()
  local file = path and io.open(path, "a")
  if not file then return end
  for line in pairs(seen) do file:write(line, "\n") end
  file:close()
  path = nil
end

rawset(os, "exit", function()
  finish()
  exit(true)
end)

debug.getregistry()[finish] = setmetatable({}, {__gc = finish})
sethook(note, "l")
