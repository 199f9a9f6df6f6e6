-- heed.profile: where the time and the memory of a function go, by operation and by layer.
--
--   local p, loss = heed.profile(step, x, y)
--   print(p)

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local shown = require "heed.internal.shown"
local watch = require "heed.nn.watch"

local fail = heed.fail

local profile = {}

local HOST <const> = "Lua"               -- what runs between operations
local ROWS <const> = 20                  -- that a printed table has at most
local BAR <const> = 20                   -- characters of the longest bar
local BARS <const> = 5                   -- of a picture, whose names are to fit
local LISTS <const> = {operations = true, layers = true}

---@class heed.Profile.record
---@field name string of the operation, "… backward" for its gradient; or the path of the layer
---@field calls integer
---@field seconds number
---@field share number of all seconds, from 0 to 1
---@field bytes integer of the tensors that were made
---@field peak integer most bytes that were in use at once meanwhile

---@class heed.Profile.layer: heed.Profile.record
---@field module string what it is, such as "Linear(8, 8)"
---@field backward number of the seconds, those of gradients
---@field own number of the seconds, those outside of the layers within it

---@class heed.Profile
---@field seconds number of all
---@field bytes integer
---@field peak integer
---@field operations heed.Profile.record[] whose seconds add up to all; the longest first
---@field layers heed.Profile.layer[] with the layers within them; the longest first
local Profile = {__name = "heed.Profile"}


-- Records by name.

local function record_named(list, name)
  if not list[name] then
    local record = {name = name, calls = 0, seconds = 0.0, share = 0.0, bytes = 0, peak = 0}
    list[name], list[#list + 1] = record, record
  end
  return list[name]
end


local function add(record, cell)
  record.seconds = record.seconds + cell.seconds
  record.bytes = record.bytes + cell.bytes
  record.peak = math.max(record.peak, cell.peak)
end


-- The longest first, without names as keys.
local function ranked(list, seconds)
  local records = table.move(list, 1, #list, 1, {})
  for _, record in ipairs(records) do
    record.share = seconds > 0 and record.seconds / seconds or 0.0
  end
  table.sort(records, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.name < b.name
  end)
  return records
end


local function operations_of(cells, seconds)
  local list = {}
  for _, cell in ipairs(cells) do
    local name = cell.name or HOST
    local record = record_named(list, cell.gradient and name .. " backward" or name)
    add(record, cell)
    record.calls = record.calls + cell.calls
  end
  return ranked(list, seconds)
end


-- Layers. Each cell counts for the layer it is of and for those around that.

-- The outermost layer of a number.
local function outermost(number)
  local layer = watch.layers[number]
  while layer.parent ~= 0 do layer = watch.layers[layer.parent] end
  return layer
end


-- The name of a layer by its number, below its outermost one where there are several.
local function names_of(numbers)
  local names, roots, count = {}, {}, 0
  for number in pairs(numbers) do
    local name = outermost(number).name
    if not roots[name] then roots[name], count = true, count + 1 end
  end
  for number in pairs(numbers) do
    local layer, root = watch.layers[number], outermost(number)
    names[number] = (count == 1 or layer == root) and layer.name
                    or root.name .. "." .. layer.name
  end
  return names
end


-- The numbers of all layers that worked or were called, and of those around them.
local function numbers_of(cells, calls)
  local numbers = {}
  local function include(number)
    while number ~= 0 and not numbers[number] do
      numbers[number], number = true, watch.layers[number].parent
    end
  end
  for _, cell in ipairs(cells) do
    if watch.layers[cell.layer] then include(cell.layer) end
  end
  for number in pairs(calls) do include(number) end
  return numbers
end


local function layer_named(list, names, number)
  local record = record_named(list, names[number])
  record.module = watch.layers[number].module
  record.own, record.backward = record.own or 0.0, record.backward or 0.0
  return record
end


local function add_to_layers(list, names, cell)
  local number, counted = cell.layer, {}
  while number ~= 0 do
    local record = layer_named(list, names, number)
    if not counted[record] then
      add(record, cell)
      if cell.gradient then record.backward = record.backward + cell.seconds end
      if number == cell.layer then record.own = record.own + cell.seconds end
      counted[record] = true
    end
    number = watch.layers[number].parent
  end
end


local function layers_of(cells, calls, seconds)
  local list, names = {}, names_of(numbers_of(cells, calls))
  for number, n in pairs(calls) do
    local record = layer_named(list, names, number)
    record.calls = record.calls + n
  end
  for _, cell in ipairs(cells) do
    if names[cell.layer] then add_to_layers(list, names, cell) end
  end
  return ranked(list, seconds)
end


-- Tables.

local function as_time(seconds)
  if seconds >= 1 then return ("%.2f s"):format(seconds) end
  if seconds >= 1e-3 then return ("%.2f ms"):format(seconds * 1e3) end
  return ("%.1f us"):format(seconds * 1e6)
end


local function table_of(title, records, most)
  local width, longest = utf8.len(title) or #title, math.max(records[1].share, 1e-12)
  local rows = {}
  for i = 1, math.min(#records, most) do
    width = math.max(width, utf8.len(records[i].name) or #records[i].name)
  end
  local function row(name, ...)
    rows[#rows + 1] = (name .. (" "):rep(width - (utf8.len(name) or #name))
                       .. ("  %8s  %10s  %7s  %10s  %10s  %s"):format(...)):gsub("%s+$", "")
  end
  row(title, "calls", "time", "share", "bytes", "peak", "")
  for i = 1, math.min(#records, most) do
    local r = records[i]
    row(r.name, r.calls, as_time(r.seconds), ("%.1f %%"):format(100 * r.share),
        shown.bytes(r.bytes), shown.bytes(r.peak),
        ("#"):rep(math.floor(BAR * r.share / longest + 0.5)))
  end
  if #records > most then rows[#rows + 1] = ("and %d more"):format(#records - most) end
  return table.concat(rows, "\n")
end


---The profile as two tables.
---@param most? integer how many rows each has; 20 unless given
---@return string
function Profile:text(most)
  most = most == nil and ROWS or options.count("text", "the number of rows", most)
  local parts = {("%s, %s made, peak %s"):format(as_time(self.seconds), shown.bytes(self.bytes),
                                                 shown.bytes(self.peak))}
  parts[2] = table_of("operation", self.operations, most)
  if #self.layers > 0 then parts[3] = table_of("layer", self.layers, most) end
  return table.concat(parts, "\n\n")
end

function Profile:__tostring() return self:text() end


---The seconds of the longest records as bars, in milliseconds.
---@param by? string "operations" or "layers"; without it the former
---@param most? integer how many bars; 5 unless given
---@return heed.Plot a picture: `print` draws it, its method `save` writes a file
function Profile:plot(by, most)
  local list = by == nil and self.operations or rawget(LISTS, by) and self[by]
  if not list then
    fail("plot: 'operations' or 'layers' expected, got %s", options.kind(by))
  elseif #list == 0 then
    fail("plot: there are no %s in this profile", by)
  end
  local names, times = {}, {}
  most = most == nil and BARS or options.count("plot", "the number of bars", most)
  for i = 1, math.min(#list, most) do names[i], times[i] = list[i].name, 1e3 * list[i].seconds end
  return require("heed.plot").bars(times, {columns = names, min = 0, y = "ms"})
end


options.closed(Profile, "heed.Profile")
options.guard(Profile, {plot = 2, text = 1}, {
  is = function(value) return type(value) == "table" and rawequal(getmetatable(value), Profile) end,
  what = "a profile", variable = "p",
})


-- The profile and the results of the function.
local function summed(calls, cells, ...)
  local all = {seconds = 0.0, bytes = 0, peak = 0}
  for _, cell in ipairs(cells) do add(all, cell) end
  all.operations = operations_of(cells, all.seconds)
  all.layers = layers_of(cells, calls, all.seconds)
  return setmetatable(all, Profile), ...
end


---Calls `f(...)`, and measures where its time and memory go: by operation, and by layer, under the
---path that errors have. The first result is the profile, which `print` shows as two tables; the
---results of `f` follow. An error of `f` is raised as it is.
---
---The seconds of all operations add up to the whole: "softmax backward" is the gradient of softmax,
---"backward" what a backward pass does besides, "Lua" what runs between operations. A layer has
---its gradients too, and all that the layers within it have. `bytes` counts the tensors that were
---made, `peak` all that was in use at once, on the host and on GPUs.
---
---While it measures, GPUs are waited for after each work, so that the time is that of the one that
---took it. Steps that `heed.capture` replays on the CPU have operations and layers as well: each
---recorded work counts as a call, and modules are not called. On a GPU a replay is one operation,
---"capture". One profile runs at a time; `f` may not yield.
---
---Its fields are `seconds`, `bytes`, `peak`, and the lists `operations` and `layers`, the longest
---first. Each entry has `name`, `calls`, `seconds`, `share`, `bytes`, `peak`, that of a layer also
---`module`, `backward`, the seconds of gradients, and `own`, those outside of layers within it.
---`p:text(n)` has n rows of each list, `p:plot("layers", n)` draws them.
---> heed.profile(function(x) return x:relu() end, heed.ones(2)).operations[1].seconds > 0 == true
---> select(2, heed.profile(function(x) return x + 1 end, heed.ones(2))):totable() == {2, 2}
---> heed.profile(1) raises "a function expected as f, got 1"
---@param f fun(...): ...
---@param ... any
---@return heed.Profile
---@return any ...
function profile.profile(f, ...)
  options.callable("profile", "f", f)
  local calls
  local function counted(...)
    calls = watch.count()
    return f(...)
  end
  local function results(...) return summed(calls, ...) end
  return results(core.measured(counted, ...))
end


return profile
