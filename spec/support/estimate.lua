-- How fast attention on tensor cores may be, from machine code; cuda/README.md says what was
-- measured of it.
--
-- A multiprocessor has four quarters, each with a warp's fourth of the block. Its units are busy
-- for so many cycles in a turn of all the block's warps; shared memory moves 128 bytes in a cycle.
-- Between barriers a block takes as long as its busiest unit, or as a warp that does one thing
-- after the other; blocks of a multiprocessor fill each other's gaps.

local estimate = {}

-- Multiprocessors, GHz, KiB of shared memory and threads of each; cycles of a quarter for an
-- instruction: of tensor cores (bfloat16, or half as many products of TF32; sums of float32), and
-- of floats; for as much of a product of a 'group' of warps, where the GPU has these; 'three': are
-- floats multiplied by three products of TF32?
estimate.gpus = {
  {name = "A100", arch = "80", count = 108, clock = 1.41, mma = 8, float = 2, shared = 164,
   threads = 2048, three = true},
  {name = "H100", arch = "90a", count = 132, clock = 1.755, mma = 6.4, float = 1, shared = 228,
   threads = 2048, three = true},
  {name = "H100, warpgroups", arch = "90a", count = 132, clock = 1.755, mma = 6.4, group = 4,
   float = 1, shared = 228, threads = 2048},
  {name = "RTX 4090", arch = "89", count = 128, clock = 2.52, mma = 32, float = 1, shared = 100,
   threads = 1536},
}

local SPECIAL <const>, WHOLE <const> = 8, 2            -- cycles of a quarter for an instruction
-- Guesses: cycles for an instruction of a warp alone, and at the beginning of a phase.
local ALONE <const>, WAIT <const> = 2, 100

---How many blocks a multiprocessor holds.
function estimate.blocks(kernel, gpu)
  local threads = 32 * kernel.tile.warps
  return math.min(65536 // ((kernel.registers + 7) // 8 * 8 * threads),
                  gpu.shared * 1024 // (kernel.tile.shared + 1024), gpu.threads // threads)
end

-- The cycles of each unit for a phase of all the block's warps; and of a warp alone.
local function cycles_of(phase, warps, gpu)
  local n, of_groups = warps / 4, phase.groups * (gpu.group or 0)
  local busy = {
    issue = n * phase.steps, tensor = n * (phase.mma * gpu.mma + of_groups),
    special = n * phase.special * SPECIAL, float = n * phase.float * gpu.float,
    whole = n * phase.whole * WHOLE, shared = warps * phase.shared / 128,
  }
  return busy, phase.mma * gpu.mma
               + math.max((phase.steps - phase.mma) * ALONE, phase.special * SPECIAL, of_groups)
end

local function busiest(busy)
  local names = {}
  for name in pairs(busy) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    if busy[a] ~= busy[b] then return busy[a] > busy[b] end
    return a < b
  end)
  return busy[names[1]], names[1]
end

---The cycles of a multiprocessor for a turn of a block, and what they are: the busiest unit's, or
---those of a block that waits for itself.
---@return {cycles: number, of: string, busy: table<string, number>, alone: number, blocks: integer}
function estimate.turn(kernel, gpu)
  local blocks, alone, sum = estimate.blocks(kernel, gpu), 0, {}
  for _, phase in ipairs(kernel.turn) do
    local busy, one = cycles_of(phase, kernel.tile.warps, gpu)
    alone = alone + math.max(busiest(busy), one) + WAIT
    for unit, cycles in pairs(busy) do sum[unit] = (sum[unit] or 0) + cycles end
  end
  local cycles, unit = busiest(sum)
  if alone / blocks > cycles then cycles, unit = alone / blocks, "waiting" end
  return {cycles = cycles, of = unit, busy = sum, alone = alone, blocks = blocks}
end

---TFLOP/s at most of kernels that together do so many operations for each pair of a query and a
---key.
---@param kernels table[]
---@param operations integer
---@param gpu table
---@return number
function estimate.speed(kernels, operations, gpu)
  local cycles = 0                       -- for a pair
  for _, kernel in ipairs(kernels) do
    local tile = kernel.tile
    cycles = cycles + estimate.turn(kernel, gpu).cycles / (tile.rows * tile.warps * tile.columns)
  end
  return operations / cycles * gpu.count * gpu.clock / 1000
end

return estimate
