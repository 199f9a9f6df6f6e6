-- A script that tries to reach files, to change what other scripts see, and to lift the host's
-- limits. An error says what it managed.

local heed, path, most = ...

local function refuses(wanted, f, ...)
  local good, message = pcall(f, ...)
  assert(not good, "not refused: " .. wanted)
  assert(tostring(message):find(wanted, 1, true), message)
end


-- Files ------------------------------------------------------------------

local FILES = "has taken files from this state"
local new = path .. ".new"               -- the host finds it if something writes there
local x = heed.ones(2, 2)
local model = heed.nn.Linear(2, 2)

refuses("save: the host " .. FILES, heed.save, path, {x = x})
refuses("load: the host " .. FILES, heed.load, path)
refuses(FILES, function() heed.plot.heat({{1}}):save(path .. ".svg") end)
refuses(FILES, function() heed.data.chars("a"):save(path) end)
refuses(FILES, heed.data.words.load, path)
for _, option in ipairs{"checkpoint", "log"} do
  refuses("train: the host " .. FILES, heed.train, {
    model = model, loss = heed.mse_loss, steps = 1, [option] = path,
    optimizer = heed.optim.SGD(model:parameters()), batches = function() return x, x end,
  })
end
for _, name in ipairs{"core", "options", "save", "raw", "nn.module", "plot.gnuplot"} do
  local good, part = pcall(require, "heed." .. name)
  assert(not good or type(part) == "function", "heed." .. name .. " can be required")
end
refuses("there is no 'core'", function() return heed.core end)


-- Limits -----------------------------------------------------------------

refuses("can only be lowered", heed.memory, {limit = most + 1})
assert(heed.memory().limit == most)
heed.memory{limit = most - 1}
refuses("can only be lowered", heed.memory, {limit = most})
refuses("2 threads that the host allows", heed.threads, 3)
assert(heed.threads(1) == 1 and heed.threads(2) == 2)
refuses("only its host", heed.level, "base")


-- Everything that can be reached -----------------------------------------

local ODD_KEYS = {
  "__index", "__newindex", "__call", "__metatable", "__pairs", "__gc", "core", "methods", "home",
  "read_file", "write_file", "loaded", "__is_module", "extend", "init", "forward",
}

local function is_proxy(value) return type(value) == "userdata" and not heed.is_tensor(value) end

local function read(value, key)
  local good, found = pcall(function() return value[key] end)
  return good and found or nil
end

-- Calls visit(value, path) for each table and proxy that leads from a value.
local function walk(value, name, visit, seen)
  if seen[value] or type(value) ~= "table" and not is_proxy(value) then return end
  seen[value] = true
  visit(value, name)
  assert(read(value, 1) ~= "secret", "a file was read: " .. name)
  walk(getmetatable(value), name .. "'s metatable", visit, seen)
  for _, key in ipairs(ODD_KEYS) do walk(read(value, key), name .. "." .. key, visit, seen) end
  for key, found in pairs(value) do walk(found, name .. "." .. tostring(key), visit, seen) end
  if type(value) == "table" then
    for key, found in next, value do
      walk(key, name .. "'s key " .. tostring(key), visit, seen)
      walk(found, name .. "." .. tostring(key), visit, seen)
    end
  end
end

-- Objects of every class, and what functions give for arguments of all sorts.
local function objects()
  local nn, optim, plot = heed.nn, heed.optim, heed.plot
  local made, t = {}, heed.arange(4, {dtype = "float32"}):view(2, 2)
  local linear = nn.Linear(2, 2)
  local arguments = {
    {}, {2}, {2, 2}, {4, 2}, {4, 2, 8}, {t}, {t, t}, {t, 1}, {{linear}}, {linear:parameters()},
    {linear:parameters(), {lr = 0.1, momentum = 0.9}}, {{{1, 2}, {3, 4}}}, {"mean"}, {linear},
    {{plot.heat{{1}}}}, {function() return t end}, {path}, {new, {t = t}}, {t, new}, {new, "x"},
  }
  local parts = {heed, nn, optim, plot, heed.tasks, heed.cuda, read(nn, "init"), read(heed, "mask"),
                 heed.data}
  for _, part in pairs(parts) do
    for name, f in pairs(part) do
      for _, list in ipairs(arguments) do
        if name ~= "memory" and name ~= "train" then
          made[#made + 1] = table.pack(select(2, pcall(f, table.unpack(list))))
        end
      end
    end
  end
  made[#made + 1] = nn.Module:extend("Own")()
  for _, of in ipairs{"state", "fields", "parameters", "children", "describe"} do
    made[#made + 1] = {linear[of](linear)}
  end
  return made
end

local shared, proxies = {}, {}
for _, name in ipairs{"nn", "optim", "plot", "tasks", "train"} do
  assert(require("heed." .. name) == heed[name], name)
end
walk({heed, package.preload, package.loaded.heed}, "reachable", function(value, name)
  if is_proxy(value) then proxies[#proxies + 1] = value else shared[value] = name end
end, {})
shared[package.preload] = nil
for value, name in next, shared do
  assert(value[1] == heed, "a table of the library's: " .. name)
end
assert(#proxies > 20, #proxies)

local first = {}
walk(objects(), "objects", function(value, name) first[value] = name end, {})
walk(objects(), "objects", function(value, name)
  assert(is_proxy(value) or not first[value], "two objects share a table: " .. name)
end, {})


-- Writing ----------------------------------------------------------------

local error, rawset = error, rawset

local function evil() error("evil") end

for _, proxy in ipairs(proxies) do
  refuses("read-only", function() proxy.hacked = 1 end)
  refuses("table expected", rawset, proxy, "hacked", 1)
  refuses("table expected", setmetatable, proxy, {})
  for key in pairs(proxy) do refuses("read-only", function() proxy[key] = evil end) end
  assert(not read(proxy, "hacked") and not getmetatable(proxy))
end
refuses("protected metatable", setmetatable, model, {__index = evil})
refuses("table expected", setmetatable, x, {})
assert(getmetatable(model) == heed.nn.Linear)
refuses("got a table", heed.nn.Linear, heed.nn, 2)

-- A class of its own is its own; one that is made of it cannot reach up.
local Own = heed.nn.Linear:extend("Own")
function Own:forward(...) return 2 * heed.nn.Linear.forward(self, ...) end
local own = Own(2, 2)
assert(own(x):equal(2 * heed.nn.Linear.forward(own, x)) and getmetatable(own) == Own)
assert(Own:extend("Further")(2, 2)(x):dim() == 2)
refuses("a layer expected", heed.nn.Linear.init, heed.nn.Linear, 2, 2)
pcall(heed.nn.Module.train, heed.nn.Linear, false)
pcall(heed.nn.Module.__newindex, heed.nn.Linear, "hacked", 1)

for _, library in ipairs{string, math, table, utf8, package.preload, package.loaded, _G} do
  for key in next, library do rawset(library, key, evil) end
end
