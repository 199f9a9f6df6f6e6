-- The ledger of compiled kernels: what each takes, held against limits.

local tiles = require "spec.support.tiles"

local ledger = {}

---Adds to a kernel its file's room and name, its own name, its family's, and its class: "mixed",
---"double" or "". Kernels of a file for doubles are all of that class. Those of attention on tensor
---cores have a tile; where there are no warpgroups, theirs are empty.
---@param kernel table
---@param object string the object that it is in
---@param demangled string
function ledger.name(kernel, object, demangled)
  local name = demangled:gsub("^void ", ""):gsub("%b()$", "")
  kernel.file = object:match("cuda/(.-)%.cu%.o$") or object
  kernel.mangled, kernel.name, kernel.family = kernel.name, name, name:match("^[^<]+")
  kernel.tile = tiles.of(name)
  if kernel.tile and kernel.tile.groups and kernel.arch ~= "90a" then kernel.tile = nil end
  local double = (kernel.file .. name):find("double", 1, true)
  kernel.class = name:find("mixed", 1, true) and "mixed" or double and "double" or ""
  return kernel
end


-- == Limits =================================================================

-- The measures that have limits: the value may be that of a limit at most, or 'least' at least;
-- 'otherwise' holds where a row has none, for kernels of the class 'of' where that is said. One of
-- instructions can't be held where nothing has 'read' them.
local FIELDS <const> = {
  {"registers", "registers", otherwise = 255},
  {"spill", "bytes of spills", otherwise = 0},
  {"shared", "bytes of shared memory", otherwise = 49152},
  {"double", "64-bit instructions in a loop", otherwise = 0, of = "", read = true},
  {"steps", "instructions for 16 bytes", read = true},
  {"width", "bytes at once in its widest loop", least = true, read = true},
}

local KNOWN <const> = {on = true}
for _, field in ipairs(FIELDS) do KNOWN[field[1]] = true end

---The row of limits that a kernel is held to: of its file, the first of its family and class.
function ledger.limits_of(kernel, limits)
  for _, row in ipairs(limits[kernel.file] or {}) do
    if (row[1] == kernel.family or row[1] == "*") and (row[2] or kernel.class) == kernel.class then
      return row
    end
  end
end

-- Says where the code of attention on tensor cores is not what arithmetic has (see tiles.lua).
local function compare_tile(kernel, say)
  local tile, turn = kernel.tile, kernel.turn
  if kernel.mma ~= tile.mma then
    say("%d instructions of tensor cores, arithmetic has %d", kernel.mma, tile.mma)
  end
  if not turn then
    say("no way through a loop has a tile's %d instructions of tensor cores", tile.turn)
    return
  end
  local narrow = 0
  for _, phase in ipairs(turn) do narrow = narrow + phase.narrow end
  if narrow > 0 then say("%d copies into shared memory of less than 16 bytes", narrow) end
end

---What a kernel takes beyond its limits, as lines.
---@return string[]
function ledger.excess(kernel, limits)
  local row, said = ledger.limits_of(kernel, limits) or {}, {}
  local on = row.on and row.on[kernel.arch] or {}
  local function say(format, ...)
    said[#said + 1] = ("%s, %s on %s: "):format(kernel.file, kernel.name, kernel.arch)
                      .. format:format(...)
  end
  if kernel.tile and kernel.read then compare_tile(kernel, say) end
  for _, field in ipairs(FIELDS) do
    local name, text = field[1], field[2]
    local limit, value = on[name] or row[name], kernel[name]
    if (field.of or kernel.class) == kernel.class then limit = limit or field.otherwise end
    if not limit or field.read and not kernel.read then goto next end
    if value == nil then
      say("no loop over memory was found, whose %s were to be counted", text)
    elseif field.least and value < limit or not field.least and value > limit then
      say("%g %s, the limit is %g at %s", value, text, limit, field.least and "least" or "most")
    end
    ::next::
  end
  return said
end

local function add_unknown(said, what, row, where)
  for name in pairs(row) do
    if math.type(name) ~= "integer" and not KNOWN[name] then
      said[#said + 1] = ("%s: there is no limit '%s'%s"):format(what, name, where)
    end
  end
end

---Names in rows of limits that mean nothing, and rows that hold no kernel, as lines.
---@return string[]
function ledger.idle(kernels, limits)
  local used, said, files = {}, {}, {}
  for _, kernel in ipairs(kernels) do
    files[kernel.file] = true
    local row = ledger.limits_of(kernel, limits)
    if row then used[row] = true end
  end
  for file, rows in pairs(limits) do
    for _, row in ipairs(rows) do
      local what = ("%s, %s %s"):format(file, row[1], row[2] or "")
      if files[file] and not used[row] then
        said[#said + 1] = what .. ": there is no such kernel"
      end
      add_unknown(said, what, row, "")
      for arch, limit in pairs(row.on or {}) do add_unknown(said, what, limit, " on " .. arch) end
    end
    if not files[file] then said[#said + 1] = file .. ": there is no such file with kernels" end
  end
  table.sort(said)
  return said
end

return ledger
