-- Plants faults one at a time in lines of C and Lua, builds, runs specs, and lists the faults that
-- no spec finds. `make mutate` calls it.
--
--   lua5.4 spec/mutate.lua [count=50] [seed=1] [since=REVISION] [spec="SPECS"] [FILE|FOLDER...]
--
-- jobs=2 specs run at once; each has ten times what it takes without a fault, and seconds=20 more.
-- kinds="release basic" are kinds of build: what survives in one is tried in the next, faults of C
-- alone. make="ARGUMENTS" goes to make:
-- "-o build/release/src/cpu/level_avx2.o" saves compiling a level.
-- All happens in a copy of the tree, build/mutate, which each run first makes like the tree again.
-- A spec is a path of spec/*_spec.lua or spec/c/*.c; those with the fewest seconds run first, and
-- those that have found faults before them. Of a fault in Lua, those run that execute its line, or
-- else one near it: spec/support/lines.lua notes that first. What hangs is ended, and counts as
-- found; such faults are listed, too, since a machine that others use may be slow.

local files = require "spec.support.files"
local mutants = require "spec.support.mutants"

local read, write = files.read, files.write

local COPY <const> = "build/mutate"
local LANGUAGES <const> = {lua = "lua", c = "c", h = "c", def = "c", cu = "c"}
local FAR <const> = 8                        -- lines from a fault
local INTERRUPTED <const> = 130              -- what a shell says of a program that Ctrl-C ended,
local LATE <const> = 124                     -- and `timeout` of one that it ended

local options = {count = 50, seed = 1, spec = "", since = "", jobs = 2, seconds = 20, make = "",
                 kinds = "release"}


local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function lines_of(command)
  local pipe <close>, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

-- Runs a command in the copy; whether it ended well. Ctrl-C ends this program too.
local function run(command)
  local good, why, code = os.execute(("cd %s && %s"):format(COPY, command))
  if why == "signal" or code == INTERRUPTED then error("interrupted", 0) end
  return good == true
end


-- The files of a folder that are neither built nor of git, and what their owner may do.
local function files_of(folder)
  local list = lines_of(("cd %s && find . \\( -path ./build -o -path ./.git \\) -prune -o -type f "
                         .. "-printf '%%m %%P\\n' | sort"):format(quoted(folder)))
  local modes = {}
  for _, line in ipairs(list) do
    local mode, path = line:match("^(%d+) (.*)$")
    modes[path] = mode
  end
  return modes
end

-- Makes the copy like the tree. What is the same keeps its time, so that little is built again.
local function copy_tree()
  assert(os.execute("mkdir -p " .. COPY))
  local wanted = files_of "."
  for path in pairs(files_of(COPY)) do
    if not wanted[path] then os.remove(COPY .. "/" .. path) end
  end
  for path, mode in pairs(wanted) do
    local text, copy = read(path), COPY .. "/" .. path
    if read(copy) ~= text then
      if path:find "/" then
        assert(os.execute("mkdir -p " .. quoted(copy:match("^(.*)/"))))
      end
      write(copy, text)
      os.execute(("chmod %s %s"):format(mode, quoted(copy)))
    end
  end
end


-- Builds what the specs of a kind need.
local function build(kind, specs)
  local targets = {"all", "modules"}
  for _, spec in ipairs(specs) do
    if spec.program then targets[#targets + 1] = spec.program end
  end
  return run(("env -u MAKEFLAGS -u MAKELEVEL make -s -j%d KIND=%s %s %s >build/log 2>&1")
             :format(options.jobs, kind, options.make, table.concat(targets, " ")))
end

-- The specs of a list of paths, for a kind of build: {path, command, log, seconds, found}.
local function specs_of(paths, kind)
  local list = {}
  for path in paths:gmatch("%S+") do
    local name = path:match("^spec/c/(.*)%.c$")
    local program = name and ("build/%s/spec/c/%s"):format(kind, name)
    list[#list + 1] = {path = path, program = program, found = 0,
                       command = program or "lua5.4 spec/support/busted.lua " .. path,
                       log = "build/" .. path:gsub("/", "-") .. ".log"}
  end
  return list
end

-- A shell's script that runs specs, some at once, until one fails. A line of its input is a log,
-- how many seconds the spec may take, and its command. What `timeout` starts is in a group of its
-- own, which Ctrl-C does not reach.
local SCRIPT <const> = [[
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;$LUA_PATH"
export HEED_BUILD=%s
export LUA_CPATH="$PWD/build/$HEED_BUILD/?.so;$LUA_CPATH"
export one='timeout -k 1 "$@" & p=$!; trap "kill $p" INT TERM; wait $p'
rm -f build/found
xargs -P %d -d '\n' -n 1 sh -c 'set -- $1; log=$1; shift; begun=$(date +%%s)
  (eval "$one") >$log 2>&1 </dev/null; code=$?
  echo $(($(date +%%s) - begun)) >$log.seconds
  test $code = 0 || { echo $log $code >>build/found; exit 255; }' - 2>/dev/null]]

-- The spec that fails first, or nil, and whether its time ended. One whose time is not known yet
-- has ten minutes.
local function failing(kind, specs)
  local list = {}
  for i, spec in ipairs(specs) do
    local limit = spec.seconds and options.seconds + 10 * spec.seconds // 1 or 600
    list[i] = ("%s %d %s"):format(spec.log, limit, spec.command)
  end
  write(COPY .. "/build/specs", table.concat(list, "\n") .. "\n")
  write(COPY .. "/build/run", SCRIPT:format(kind, options.jobs))
  if run "sh build/run <build/specs" then return nil end
  local found = read(COPY .. "/build/found")
  if not found then error("interrupted", 0) end
  for _, spec in ipairs(specs) do
    local code = found:match(spec.log:gsub("%p", "%%%0") .. " (%d+)")
    if code then return spec, tonumber(code) == LATE end
  end
end

-- Runs all specs without a fault, and notes how long each took.
local function try_all(kind, specs)
  local bad = failing(kind, specs)
  if bad then
    error(("without a fault, %s fails:\n%s"):format(bad.path, read(COPY .. "/" .. bad.log)), 0)
  end
  for _, spec in ipairs(specs) do
    local busted = read(COPY .. "/" .. spec.log):match(": ([%d.]+) seconds")
    spec.seconds = tonumber(busted or read(COPY .. "/" .. spec.log .. ".seconds"))
  end
end


-- Runs specs of Lua once more, and notes the lines that each executes: {"path:line" = true}. A spec
-- without them may execute any line.
local function note_lines(kind, specs)
  local list = {}
  local recorder = assert(package.searchpath("spec.support.lines", package.path))
  for _, spec in ipairs(specs) do
    if not spec.program then
      local path = spec.log:gsub("%.log$", ".lines")
      os.remove(COPY .. "/" .. path)
      local command = ("env LUA_INIT_5_4=@%s MUTATE_LINES=%s %s"):format(
        recorder:gsub("^%./", os.getenv "PWD" .. "/"), path, spec.command)
      list[#list + 1] = {log = spec.log, command = command, lines = path, spec = spec}
    end
  end
  failing(kind, list)                      -- they all end well
  for _, one in ipairs(list) do
    local text = read(COPY .. "/" .. one.lines)
    if text and not ("\n" .. text):find("\nall\n", 1, true) then
      one.spec.lines = {}
      for line in text:gmatch "[^\n]+" do one.spec.lines[line] = true end
    end
  end
end

-- The specs of a list that execute the line of a fault, or, if there are none, one near it.
local function specs_for(fault, specs)
  for radius = 0, FAR do
    local list, any = {}, false
    for _, spec in ipairs(specs) do
      local runs = not spec.lines
      for line = fault.line - radius, fault.line + radius do
        local there = spec.lines and spec.lines[fault.path .. ":" .. line]
        runs, any = runs or there, any or there
      end
      if runs then list[#list + 1] = spec end
    end
    if any then return list end
  end
  return specs
end


-- The files of the command line, and those that were changed since a revision.
local function paths_of(given)
  local paths = {}
  for _, path in ipairs(given) do
    for _, file in ipairs(lines_of("find " .. quoted(path) .. " -type f | sort")) do
      paths[#paths + 1] = file
    end
  end
  if options.since ~= "" then
    local command = "git diff --name-only --diff-filter=d %s -- lua src"
    for _, file in ipairs(lines_of(command:format(quoted(options.since)))) do
      paths[#paths + 1] = file
    end
  end
  return paths
end

-- All faults of these files, in an order that the seed makes.
local function faults_of(paths)
  local list = {}
  for _, path in ipairs(paths) do
    local language = LANGUAGES[path:match("%.(%w+)$")]
    for _, fault in ipairs(language and mutants.of(assert(read(path)), language) or {}) do
      fault.path, fault.language = path, language
      list[#list + 1] = fault
    end
  end
  math.randomseed(options.seed)
  for i = #list, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end


-- Plants a fault in the copy, until the value that is returned is closed.
local function planted(fault)
  local path = COPY .. "/" .. fault.path
  local text = read(path)
  write(path, mutants.plant(text, fault))
  return setmetatable({}, {__close = function() write(path, text) end})
end

-- The module and the programs that were built, which have parts of their own.
local function object_of(kind, specs)
  local parts = {read(("%s/build/%s/heed/core.so"):format(COPY, kind))}
  for _, spec in ipairs(specs) do
    if spec.program then parts[#parts + 1] = read(COPY .. "/" .. spec.program) end
  end
  return table.concat(parts)
end

-- The fate of a fault in one kind of build: "found", "late" where a spec did not end in time,
-- "survives", or "void" where the fault does not compile, or compiles to the same as before.
local function try_in(kind, fault, specs, object)
  if fault.language == "lua" then
    if not loadfile(COPY .. "/" .. fault.path) then return "void" end
  elseif not build(kind, specs) or object_of(kind, specs) == object then
    return "void"
  end
  table.sort(specs, function(a, b)
    if a.found ~= b.found then return a.found > b.found end
    return a.seconds < b.seconds
  end)
  local list = fault.language == "lua" and specs_for(fault, specs) or specs
  local spec, is_late = failing(kind, list)
  if not spec then return "survives" end
  spec.found = spec.found + 1
  return is_late and "late" or "found"
end

-- The fate of a fault in all kinds, which are {kind, specs, object}.
local function try(fault, kinds)
  local _ <close> = planted(fault)
  local fate = "void"
  for i, one in ipairs(kinds) do
    if fault.language == "lua" and i > 1 then break end
    local outcome = try_in(one.kind, fault, one.specs, one.object)
    if outcome == "found" or outcome == "late" then return outcome end
    if outcome == "survives" then fate = outcome end
  end
  return fate
end

local function shown(text) return (text:gsub("%s+", " ")) end

local function report(fault, outcome)
  print(("%s:%d:%d: %s -> %s%s"):format(fault.path, fault.line, fault.column, shown(fault.old),
                                        fault.new == "" and "nothing" or shown(fault.new),
                                        outcome == "late" and " (found: no end in time)" or ""))
  io.stdout:flush()
end

-- Plants as many of these faults as were asked for.
local function try_faults(faults, kinds)
  local n = {found = 0, late = 0, survives = 0, void = 0}
  local function planted_ones() return n.found + n.late + n.survives end
  local _ <close> = setmetatable({}, {__close = function()
    local found, late = n.found + n.late, ""
    if n.late > 0 then late = (", %d of them by the end of their time"):format(n.late) end
    print(("%d planted, %d found (%.0f %%)%s, %d survive; %d compile to nothing new"):format(
      planted_ones(), found, 100 * found / math.max(planted_ones(), 1), late, n.survives, n.void))
  end})
  for _, fault in ipairs(faults) do
    if planted_ones() == options.count then break end
    local outcome = try(fault, kinds)
    n[outcome] = n[outcome] + 1
    if outcome == "survives" or outcome == "late" then report(fault, outcome) end
  end
end


local function has_lua(faults)
  for _, fault in ipairs(faults) do
    if fault.language == "lua" then return true end
  end
end


local function main(arguments)
  local given = {}
  for _, text in ipairs(arguments) do
    local name, value = text:match("^(%l+)=(.*)$")
    if not name then given[#given + 1] = text
    elseif options[name] == nil then error("there is no option " .. name, 0)
    else
      options[name] = math.type(options[name]) == "integer" and math.tointeger(tonumber(value))
                      or value
    end
  end
  local faults = faults_of(paths_of(given))
  if #faults == 0 then error("no line to plant a fault in: give files, or since=REVISION", 0) end
  copy_tree()
  assert(os.execute("mkdir -p " .. COPY .. "/build"))
  local kinds = {}
  for kind in options.kinds:gmatch("%S+") do
    local specs = specs_of(options.spec, kind)
    if #specs == 0 then error("no spec to find a fault: give spec=\"SPECS\"", 0) end
    if not build(kind, specs) then error(read(COPY .. "/build/log"), 0) end
    try_all(kind, specs)
    if #kinds == 0 and has_lua(faults) then note_lines(kind, specs) end
    kinds[#kinds + 1] = {kind = kind, specs = specs, object = object_of(kind, specs)}
  end
  try_faults(faults, kinds)
end

local good, message = xpcall(main, function(text) return text end, arg)
if not good then
  io.stderr:write("mutate: ", tostring(message), "\n")
  os.exit(1, true)
end
