-- The fuzzers: random calls, random graphs, damaged files, uses of objects. An item is a test,
-- which follows from the seed and its number alone.
--
--   lua5.4 spec/fuzz.lua [items] [seed]       a number of items, with this seed or the clock's
--   lua5.4 spec/fuzz.lua --call N SEED        one item again; --until N SEED: all up to it
--   lua5.4 spec/fuzz.lua --only KIND ...      all items are of one kind, as "directories"

package.path = "./?.lua;" .. package.path

local new_random = require "spec.fuzz.random"
local check = require "spec.fuzz.check"
local calls = require "spec.fuzz.calls"
local directories = require "spec.fuzz.directories"
local programs = require "spec.fuzz.programs"
local files = require "spec.fuzz.files"
local uses = require "spec.fuzz.uses"

local BATCH <const> = 64           -- items between two checks of the invariants
local MOST_FAILURES <const> = 20

local seed, found, seen, families = nil, 0, {}, {}
local only                         -- the kind of all items, nil for some of each
local done = {calls = 0, directories = 0, files = 0, programs = 0, uses = 0}


-- This file names the item that runs, for the case that the process dies.
local path = os.tmpname()

local function announce(number, source)
  local current <close> = assert(io.open(path, "w"))
  current:write(("item %d of seed %d\n%s\n"):format(number, seed, source))
end


local function fail(family, number, why, source)
  families[family] = false
  local kind = why:gsub("%d+", "N"):gsub(" a [%w.*]+ value", ""):sub(1, 60)
  if seen[kind] then return end              -- reported before
  seen[kind], found = true, found + 1
  print(("\n%s, seed %d, item %d: %s\n%s\nagain: lua5.4 spec/fuzz.lua %s--call %d %d")
    :format(family, seed, number, why, source, only and "--only " .. only .. " " or "", number,
            seed))
end


-- The kind of an item, unless all are of one: of 64, three are files, one a directory of a model,
-- one a program, of dozens of calls, and one of 128 a dozen uses of objects. Others are calls.
local MODULES <const> = {directories = directories, files = files, programs = programs, uses = uses}

local function kind_of(number)
  local place = number % 64
  if only then return only end
  if place == 4 then return "directories" end
  if number % 128 == 5 then return "uses" end
  return place == 0 and "programs" or place <= 3 and "files" or "calls"
end


local function run(number)
  local r, kind = new_random(seed, number), kind_of(number)
  done[kind] = done[kind] + 1
  local module = MODULES[kind]
  if module then return module.run(r, function(text) announce(number, text) end) end
  local family, source, judges = calls.make(r)
  announce(number, source)
  return family, source, check.run(source, judges)
end


local function run_one(number)
  local family, source, why = run(number)
  if families[family] == nil then families[family] = true end
  if why then fail(family, number, why, source) end
  return family, source
end


-- Finds the item that broke an invariant: runs each again, and checks after each.
local function blame(first, last, why)
  local n = found
  for number = first, last do
    local family, source = run_one(number)
    local again = check.invariants()
    if again then fail(family, number, again, source) end
  end
  if found == n then fail("together", first, why, ("-- items %d to %d"):format(first, last)) end
end


local function run_batch(first, last)
  for number = first, last do run_one(number) end
  local why = check.invariants()
  if why then blame(first, last, why) end
end


local function report()
  local passed, failed = 0, 0
  for _, good in pairs(families) do
    if good then passed = passed + 1 else failed = failed + 1 end
  end
  print(("seed %d: %d calls, %d files, %d directories, %d programs, %d uses")
    :format(seed, done.calls, done.files, done.directories, done.programs, done.uses))
  print(("%d passed, %d failed"):format(passed, failed))
  os.remove(path)
  files.finish()
  directories.finish()
  os.exit(failed == 0, true)
end


-- One item again, or all up to one; its source is shown if it passes too.
local function replay(option, number)
  for n = 1, option == "--until" and number - 1 or 0 do run_one(n) end
  local family, source = run_one(number)
  local why = check.invariants()
  if why then fail(family, number, why, source) end
  if found == 0 then print(source) end
  report()
end


check.start()
if arg[1] == "--only" then
  only = assert(done[arg[2]] and arg[2], "a kind of items expected")
  table.remove(arg, 1)
  table.remove(arg, 1)
end
if arg[1] == "--call" or arg[1] == "--until" then
  seed = math.tointeger(tonumber(arg[3]))
  replay(arg[1], math.tointeger(tonumber(arg[2])))
end

local items = math.tointeger(tonumber(arg[1] or 10000))
seed = math.tointeger(tonumber(arg[2])) or os.time()
print(("seed %d; what runs stands in %s"):format(seed, path))
io.stdout:flush()
local n = 0
while n < items and found < MOST_FAILURES do
  run_batch(n + 1, n + BATCH)
  n = n + BATCH
end
report()
