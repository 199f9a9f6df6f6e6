-- The ledger of compiled kernels as Markdown: attention on tensor cores by architectures, how fast
-- it may be, and all kernels by families.

local estimate = require "spec.support.estimate"
local tiles = require "spec.support.tiles"

local HEAD <const> = [[
# Machine code of the kernels

`make ledger-all TABLE=cuda/LEDGER.md` wrote these tables, for %s, of the kernels at %s.
%s
## Attention on tensor cores

Each row has the worst of *n* kernels, of bfloat16 and float16, or of float32 by products of TF32.
*registers* of a thread; *spill*, bytes that did not fit into them; *shared*, KiB of shared memory
of a block of so many *warps*; *mma*, instructions of tensor cores, which are held to arithmetic: in
the whole code, and in a *turn*, where a warp multiplies its rows with a tile. Of a turn's shortest
way without a mask (with *options* it has a softcap, but neither biases nor dropout): all its
*steps*; *copies* of 16 bytes a thread into shared memory, others fail; KiB of shared memory that
the warp *moves*.
]]

local ESTIMATES <const> = [[

## Estimates

Of bfloat16, and of float32 by three products of TF32 where GPUs take these, without a mask;
[README.md](README.md) has what was measured. For a *turn* of all warps of a block, cycles that
the units of a multiprocessor need, all four of their quarters at once: an instruction takes an
*issue* slot; one of *tensor* cores %s; as much of a product of
a warpgroup 4, beside the other work of its warps; one of *special* functions 8, of whole numbers
2, of floats 1, on 8.0 2; *shared* memory moves 128 bytes in a cycle. *alone* is what a block takes
that has the multiprocessor for itself: between two barriers as long as its busiest unit, or as one
of its warps, at 2 cycles for an instruction beside those of tensor cores; and 100 cycles for the
barrier. *blocks* are as many as registers, shared memory and threads leave room for; they fill
each other's gaps. So a turn takes the busiest unit's cycles, or *alone* divided by *blocks*,
whichever is more. Figures for `mma` (16, 8, 16) of halves with sums of floats, which (16, 8, 8) of
TF32 takes, too, for `wgmma`, and the clocks are assumed (%s);
those of a warp alone are guesses; device memory, the second level's cache, masks and the ends of
rows are left out.

A gradient counts 10 operations for each number of a pair of a query and a key, the forward pass 4,
though gradients take 14: scores are made twice. *at most* is in TFLOP/s; that three quarters of it
are reached was a guess, and is right of the forward pass of heads above 64 (README.md).
]]

local FAMILIES <const> = [[

## All kernels

From the least to the most of the architectures; a row has the worst of *n* kernels of a family.
*shared*, bytes of static shared memory. Of the loop with the widest accesses to global memory that
holds no other such loop: *width*, bytes of its widest access; *steps*, instructions for each 16
bytes that a turn reads and writes, rare ways included. *double*: the most instructions for 64-bit
floats in any loop of that kind. "-": no such loop was seen; kernels that take types as they come
jump by tables, which are not followed here.
]]


local function version(arch) return (arch:gsub("(%d)(%a?)$", ".%1%2")) end

local function row(cells) return "| " .. table.concat(cells, " | ") .. " |\n" end

local function head(names)
  local lines = {}
  for k in ipairs(names) do lines[k] = "---" end
  return "\n" .. row(names) .. row(lines)
end


-- == Attention on tensor cores ==============================================

-- Kernels with a tile, by architecture and title: lists, one kernel for each type.
local function with_tiles(kernels)
  local by_arch, titles, seen = {}, {}, {}
  for _, kernel in ipairs(kernels) do
    if kernel.tile then
      local title = kernel.tile.title
      by_arch[kernel.arch] = by_arch[kernel.arch] or {}
      by_arch[kernel.arch][title] = by_arch[kernel.arch][title] or {}
      table.insert(by_arch[kernel.arch][title], kernel)
      if not seen[title] then titles[#titles + 1] = title end
      seen[title] = kernel.tile.order
    end
  end
  table.sort(titles, function(a, b) return seen[a] < seen[b] end)
  return by_arch, titles
end

local function worst(list, name)
  local most = 0
  for _, kernel in ipairs(list) do most = math.max(most, kernel[name] or 0) end
  return most
end

local function sum(turn, name)
  local n = 0
  for _, phase in ipairs(turn) do n = n + phase[name] end
  return n
end

local function most_of_turn(list, name)
  local most = 0
  for _, kernel in ipairs(list) do
    if kernel.turn then most = math.max(most, sum(kernel.turn, name)) end
  end
  return most
end

local TILE_COLUMNS <const> = {"", "n", "registers", "spill", "warps", "shared", "mma", "of a turn",
                              "steps", "copies", "moves"}

local function tile_table(by_title, titles)
  local lines = {head(TILE_COLUMNS)}
  for _, title in ipairs(titles) do
    local list = by_title[title]
    if list then
      local tile = list[1].tile
      lines[#lines + 1] = row{
        title, #list, worst(list, "registers"), worst(list, "spill"), tile.warps,
        ("%.1f"):format(tile.shared / 1024), worst(list, "mma"), tile.turn,
        most_of_turn(list, "steps"), most_of_turn(list, "copies"),
        ("%.1f"):format(most_of_turn(list, "shared") / 1024)}
    end
  end
  return table.concat(lines)
end


-- == Estimates ==============================================================

local COLUMNS_OF_TURN <const> = {"GPU", "kernel", "blocks", "issue", "tensor", "special", "shared",
                                 "alone", "a turn takes"}

local function cell(x) return ("%.0f"):format(x) end

local function turn_row(gpu, kernel)
  local t = estimate.turn(kernel, gpu)
  return row{gpu.name, kernel.tile.title, t.blocks, cell(t.busy.issue), cell(t.busy.tensor),
             cell(t.busy.special), cell(t.busy.shared), cell(t.alone),
             ("%.0f, %s"):format(t.cycles, t.of)}
end

-- What a kernel of plain attention is for, or nil: "forward" and "backward" in bfloat16, "floats"
-- by three products.
local function use_of(kernel, gpu)
  local tile = kernel.tile
  if tile.rich or not kernel.turn then return nil end
  if tile.terms then return tile.terms == 3 and gpu.three and "floats" or nil end
  if not kernel.name:find("<bfloat16", 1, true) then return nil end
  if not tiles.is_taken(tile, gpu.shared, gpu.group ~= nil) then return nil end
  return tile.makes and "backward" or "forward"
end

-- Such kernels that a GPU runs, by width and use.
local function plain(by_title, titles, gpu)
  local found = {}
  for _, title in ipairs(titles) do
    for _, kernel in ipairs(by_title[title] or {}) do
      local width, use = kernel.tile.width, use_of(kernel, gpu)
      if use then
        found[width] = found[width] or {forward = {}, backward = {}, floats = {}}
        table.insert(found[width][use], kernel)
      end
    end
  end
  return found
end

local function speed_cells(kernels, operations, gpu)
  if #kernels == 0 then return "-", "-" end
  local speed = estimate.speed(kernels, operations, gpu)
  return cell(speed), cell(0.75 * speed)
end

local function estimates(by_arch, titles)
  local turns, speeds = {head(COLUMNS_OF_TURN)}, {head{"GPU", "heads of up to", "forward, at most",
                         "three quarters", "gradients, at most", "three quarters",
                         "forward in float32, at most", "three quarters"}}
  local cycles, clocks = {}, {}
  for _, gpu in ipairs(estimate.gpus) do
    if not gpu.group then
      cycles[#cycles + 1] = ("%g on %s"):format(gpu.mma, version(gpu.arch))
      clocks[#clocks + 1] = ("%s: %d at %g GHz"):format(gpu.name, gpu.count, gpu.clock)
    end
    local found = plain(by_arch[gpu.arch] or {}, titles, gpu)
    for _, width in ipairs{64, 128, 256} do
      local of = found[width] or {forward = {}, backward = {}, floats = {}}
      local cells = {gpu.name, width}
      for _, use in ipairs{"forward", "backward", "floats"} do
        for _, kernel in ipairs(of[use]) do turns[#turns + 1] = turn_row(gpu, kernel) end
        local operations = (use == "backward" and 10 or 4) * width
        table.move({speed_cells(of[use], operations, gpu)}, 1, 2, #cells + 1, cells)
      end
      speeds[#speeds + 1] = row(cells)
    end
  end
  return ESTIMATES:format(table.concat(cycles, ", "), table.concat(clocks, "; "))
         .. table.concat(speeds) .. table.concat(turns)
end


-- == Families ===============================================================

-- Of a column: which value of a family is the worst, and how it is written.
local COLUMNS <const> = {
  {"registers", math.max, "%d"}, {"spill", math.max, "%d"}, {"shared", math.max, "%d"},
  {"width", math.min, "%d"}, {"steps", math.max, "%.0f"}, {"double", math.max, "%d"},
  {"mma", math.max, "%d"},
}

-- The least and the most of some values, by architecture.
local function range(values, archs, format)
  local least, most
  for _, arch in ipairs(archs) do
    local x = values[arch]
    if x then least, most = math.min(least or x, x), math.max(most or x, x) end
  end
  if not least then return "-" end
  local low, high = format:format(least), format:format(most)
  return low == high and low or low .. " to " .. high
end

-- Families by their keys, and these in order.
local function families(kernels)
  local found, order = {}, {}
  for _, kernel in ipairs(kernels) do
    local key = table.concat({kernel.file, kernel.family, kernel.class}, "\0")
    if not found[key] then
      found[key] = {kernel.file, kernel.family, kernel.class, n = {}, at = {}}
      order[#order + 1] = key
    end
    local family = found[key]
    family.n[kernel.name] = true
    for _, column in ipairs(COLUMNS) do
      local name, worse, value = column[1], column[2], kernel[column[1]]
      local at = family.at[name] or {}
      family.at[name] = at
      if value then at[kernel.arch] = worse(at[kernel.arch] or value, value) end
    end
  end
  table.sort(order)
  return found, order
end

local function family_table(kernels, archs)
  local found, order = families(kernels)
  local lines = {head{"file", "kernel", "of", "n", "registers", "spill", "shared", "width", "steps",
                      "double", "mma"}}
  for _, key in ipairs(order) do
    local family, n = found[key], 0
    for _ in pairs(family.n) do n = n + 1 end
    local cells = {family[1], family[2], family[3], n}
    for _, column in ipairs(COLUMNS) do
      cells[#cells + 1] = range(family.at[column[1]], archs, column[3])
    end
    lines[#lines + 1] = row(cells)
  end
  return table.concat(lines)
end


local function count(set)
  local n = 0
  for _ in pairs(set) do n = n + 1 end
  return n
end

-- Which architectures lack files that others have, as lines.
local function gaps(kernels, archs)
  local of, all, lines = {}, {}, {}
  for _, kernel in ipairs(kernels) do
    of[kernel.arch] = of[kernel.arch] or {}
    of[kernel.arch][kernel.file], all[kernel.file] = true, true
  end
  for _, arch in ipairs(archs) do
    if count(of[arch]) < count(all) then
      local rooms = {}
      for file in pairs(of[arch]) do rooms[file:match("^[^/]+")] = true end
      local names = {}
      for room in pairs(rooms) do names[#names + 1] = room end
      table.sort(names)
      lines[#lines + 1] = ("Of %s %d of %d files were compiled, in %s.\n")
                          :format(version(arch), count(of[arch]), count(all),
                                  table.concat(names, ", "))
    end
  end
  return table.concat(lines)
end

---The tables of kernels, for these architectures in this order, of a commit.
---@param kernels table[]
---@param archs string[]
---@param commit string
---@return string
return function(kernels, archs, commit)
  local by_arch, titles = with_tiles(kernels)
  local named = {}
  for k, arch in ipairs(archs) do named[k] = version(arch) end
  local parts = {HEAD:format(table.concat(named, ", "), commit, gaps(kernels, archs))}
  for _, arch in ipairs(archs) do
    if by_arch[arch] then
      parts[#parts + 1] = "\n### " .. version(arch) .. "\n" .. tile_table(by_arch[arch], titles)
    end
  end
  parts[#parts + 1] = estimates(by_arch, titles)
  parts[#parts + 1] = FAMILIES .. family_table(kernels, archs)
  return table.concat(parts)
end
