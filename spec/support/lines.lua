-- Notes which lines of the Lua half a program runs, for spec/mutate.lua. As LUA_INIT_5_4 it is read
-- by each Lua that a spec starts, too. At the end the file that MUTATE_LINES names gets "path:line"
-- of each, and "all" where a spec sets hooks of its own, which end the notes. The program ends
-- well.

local path = os.getenv "MUTATE_LINES"
local seen, names, all = {}, {}, false

-- The path of a source below the folder of the program; false for others.
local function name_of(source)
  return source:match "^@%./(lua/.*)" or source:match "^@.*/build/mutate/(lua/.*)"
         or source:match "^@(lua/.*)" or false
end

local getinfo, sethook = debug.getinfo, debug.sethook

-- The lines that are noted of a function's source, {line = true}; false for what is not of heed.
local lines_of = setmetatable({}, {__mode = "k"})

local function lines_in(f)
  local source = getinfo(f, "S").source
  if names[source] == nil then names[source] = name_of(source) end
  local name = names[source]
  if name and not seen[name] then seen[name] = {} end
  lines_of[f] = name and seen[name]
  return lines_of[f]
end

local function note(_, line)
  local f = getinfo(2, "f").func
  local lines = lines_of[f]
  if lines == nil then lines = lines_in(f) end
  if lines then lines[line] = true end
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
  all = true
  return sethook(...)
end)

local function finish()
  sethook()
  local file = path and io.open(path, "a")
  if not file then return end
  for name, lines in pairs(seen) do
    for line in pairs(lines) do file:write(name, ":", line, "\n") end
  end
  if all then file:write "all\n" end
  file:close()
  path = nil
end

rawset(os, "exit", function()
  finish()
  exit(true)
end)

debug.getregistry()[finish] = setmetatable({}, {__gc = finish})
sethook(note, "l")
