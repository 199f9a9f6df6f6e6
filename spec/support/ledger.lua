-- The ledger of compiled kernels: what each takes, held against limits, and as a table.

local ledger = {}

---Adds to a kernel its file's room and name, its own name, its family's, and its class: "mixed",
---"double" or "". Kernels of a file for doubles are all of that class.
---@param kernel table with 'object' and 'demangled'
function ledger.name(kernel)
  local name = kernel.demangled:gsub("^void ", ""):gsub("%b()$", "")
  kernel.file = kernel.object:match("cuda/(.-)%.cu%.o$") or kernel.object
  kernel.name, kernel.family = name, name:match("^[^<]+")
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
  {"mma", "instructions of tensor cores", least = true, read = true},
}

local KNOWN <const> = {}
for _, field in ipairs(FIELDS) do KNOWN[field[1]] = true end

---The row of limits that a kernel is held to: of its file, the first of its family and class.
function ledger.limits_of(kernel, limits)
  for _, row in ipairs(limits[kernel.file] or {}) do
    if (row[1] == kernel.family or row[1] == "*") and (row[2] or kernel.class) == kernel.class then
      return row
    end
  end
end

---What a kernel takes beyond its limits, as lines.
---@return string[]
function ledger.excess(kernel, limits)
  local row, said = ledger.limits_of(kernel, limits) or {}, {}
  local function say(format, ...)
    said[#said + 1] = ("%s, %s on %s: "):format(kernel.file, kernel.name, kernel.arch)
                      .. format:format(...)
  end
  for _, field in ipairs(FIELDS) do
    local name, text = field[1], field[2]
    local limit, value = row[name], kernel[name]
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
      for name in pairs(row) do
        if math.type(name) ~= "integer" and not KNOWN[name] then
          said[#said + 1] = what .. ": there is no limit '" .. tostring(name) .. "'"
        end
      end
    end
    if not files[file] then said[#said + 1] = file .. ": there is no such file with kernels" end
  end
  table.sort(said)
  return said
end


-- == As a table =============================================================

-- One value where all architectures have the same, else one for each.
local function joined(values, format)
  local texts, same = {}, true
  for k, value in ipairs(values) do
    texts[k] = value ~= false and format:format(value) or "-"
    same = same and texts[k] == texts[1]
  end
  return same and texts[1] or table.concat(texts, " ")
end

-- Each with the worst of the kernels of a row.
local COLUMNS <const> = {
  {"registers", math.max, "%d"}, {"spill", math.max, "%d"}, {"shared", math.max, "%d"},
  {"width", math.min, "%d"}, {"steps", math.max, "%.0f"}, {"double", math.max, "%d"},
  {"mma", math.max, "%d"},
}

local HEAD <const> = [[
# Machine code of the kernels

`make ledger TABLE=cuda/LEDGER.md` wrote this table, for %s: one value where all of them have
the same, else one for each in this order. A row has the worst of *n* kernels of a family.
*registers* of a thread; *spill*, bytes that did not fit into them; *shared*, bytes of static
shared memory. Of the loop with the widest accesses to global memory that holds no other such
loop: *width*, bytes of its widest access; *steps*, instructions for each 16 bytes that a turn
reads and writes, rare ways included. *double*: the most instructions for 64-bit floats in any
loop of that kind. *mma*: instructions of tensor cores. "-": no such loop was seen; kernels that
take types as they come jump by tables, which the reader does not follow.

]]

---A row for each family and class of kernels, with the worst values for each architecture.
---@param kernels table[]
---@param archs string[] in this order
---@return string
function ledger.markdown(kernels, archs)
  local rows, order = {}, {}
  for _, kernel in ipairs(kernels) do
    local key = table.concat({kernel.file, kernel.family, kernel.class}, "\0")
    if not rows[key] then
      rows[key] = {kernel.file, kernel.family, kernel.class, n = {}}
      order[#order + 1] = key
    end
    local row = rows[key]
    row.n[kernel.name] = true
    row[kernel.arch] = row[kernel.arch] or {}
    for _, column in ipairs(COLUMNS) do
      local name, worst, value = column[1], column[2], kernel[column[1]]
      if value then
        row[kernel.arch][name] = worst(row[kernel.arch][name] or value, value)
      end
    end
  end
  table.sort(order)
  local lines = {
    "| file | kernel | of | n | registers | spill | shared | width | steps | double | mma |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
  }
  for _, key in ipairs(order) do
    local row, n = rows[key], 0
    for _ in pairs(row.n) do n = n + 1 end
    local cells = {row[1], row[2], row[3], tostring(n)}
    for _, column in ipairs(COLUMNS) do
      local values = {}
      for k, arch in ipairs(archs) do values[k] = row[arch] and row[arch][column[1]] or false end
      cells[#cells + 1] = joined(values, column[3])
    end
    lines[#lines + 1] = "| " .. table.concat(cells, " | ") .. " |"
  end
  local named = {}
  for k, arch in ipairs(archs) do named[k] = arch:gsub("(%d)(%a?)$", ".%1%2") end
  return HEAD:format(table.concat(named, ", ")) .. table.concat(lines, "\n") .. "\n"
end

return ledger
