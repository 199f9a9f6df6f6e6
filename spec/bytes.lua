-- Bytes that kernels of attention move, counted on the emulated GPU: `make bytes`.
--
-- Prints a table, as Markdown, and fails where a kernel of tensor cores has a bank conflict, or
-- other threads or shared memory than spec/support/tiles.lua says, or is not the one that the GPU's
-- shared memory asks for.

package.path = "./?.lua;" .. package.path

local files = require "spec.support.files"
local tiles = require "spec.support.tiles"

local KEYS <const> = 512

-- Queries, heads, numbers of a head; 'back': the gradients of such attention, by blocks of so many
-- warps on a GPU with so many KiB of shared memory for a block.
local CASES <const> = {
  {"forward", 512, 1, 64}, {"forward", 512, 1, 128},
  {"backward", 512, 1, 64, back = 4}, {"backward", 512, 1, 128, back = 8},
  {"backward, 163 KiB", 512, 1, 128, back = 4, kib = 163},
  {"one query", 1, 4, 64}, {"one query", 1, 4, 128},
}

-- The script runs itself for a case: the counts are written when a process ends.
if arg[1] then
  local heed = require "heed"
  local case = CASES[arg[1] + 0]
  local _, T, H, D = table.unpack(case)
  local function made(rows)
    return heed.zeros(1, H, rows, D, {dtype = "bfloat16", device = "cuda",
                                      requires_grad = case.back ~= nil})
  end
  local y = heed.attention(made(T), made(KEYS), made(KEYS))
  if case.back then y:backward(y:detach()) end
  heed.cuda.synchronize()
  os.exit(true, true)
end


local LINE <const> = "^(.-): (%d+) launches, (%d+) bytes read, (%d+) written, (%d+) sectors, "
                     .. "(%d+) conflicts, at most (%d+) threads, (%d+) bytes of shared memory$"

local FORWARD <const>, BACKWARD <const> = {"^attend_", "^join_"}, {"^prepare_", "^back_"}

local function is_one_of(name, patterns)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

-- The kernels of attention that a case is about, in the order of their first launches.
local function counted(k)
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute(("HEED_EMULATED_SHARED=%d HEED_EMULATED_COUNT=%s '%s' spec/bytes.lua %d")
                    :format(CASES[k].kib or 99, path, arg[-1], k)))
  local list = {}
  for line in assert(files.read(path), "nothing was counted"):gmatch("[^\n]+") do
    local c = {line:match(LINE)}
    local name = assert(c[1], line)
    if is_one_of(name, CASES[k].back and BACKWARD or FORWARD) then
      list[#list + 1] = {name = name, bytes = c[3] + c[4], sectors = c[5] + 0,
                         conflicts = c[6] + 0, threads = c[7] + 0, shared = c[8] + 0}
    end
  end
  os.remove(path)
  return list
end

-- Every tensor of halves once: q, k, v and y; or these, the gradient of y, and those of q, k and v.
local function least(case)
  local _, T, H, D = table.unpack(case)
  return 2 * H * D * (case.back and 4 or 2) * (T + KEYS)
end


local passed, failed = 0, 0
local function check(good, ...)
  if good then
    passed = passed + 1
  else
    failed = failed + 1
    print(string.format(...))
  end
end

local function check_kernel(k, case)
  local tile = tiles.of(k.name)
  if not tile then return end
  if case.back then
    check(tile.warps == case.back, "%s: %s in blocks of %d warps", case[1], k.name, tile.warps)
  end
  check(k.conflicts == 0, "%s: %d bank conflicts", k.name, k.conflicts)
  check(k.threads == 32 * tile.warps and k.shared == tile.shared,
        "%s: %d threads and %d bytes of shared memory; spec/support/tiles.lua has %d and %d",
        k.name, k.threads, k.shared, 32 * tile.warps, tile.shared)
end

local function megabytes(bytes) return ("%.2f"):format(bytes / 1e6) end

local function print_row(...) print("| " .. table.concat({...}, " | ") .. " |") end

print_row("", "queries", "heads", "numbers", "MB", "in sectors", "least", "conflicts")
print_row("---", "---", "---", "---", "---", "---", "---", "---")
for i, case in ipairs(CASES) do
  local list, sum, sectors = counted(i), 0, 0
  check(#list > 0, "%s: no kernel of attention was counted", case[1])
  for _, k in ipairs(list) do
    sum, sectors = sum + k.bytes, sectors + k.sectors
    check_kernel(k, case)
  end
  print_row(case[1], case[2], case[3], case[4], megabytes(sum), megabytes(32 * sectors),
            megabytes(least(case)), "")
  for _, k in ipairs(list) do
    print_row("`" .. k.name .. "`", "", "", "", megabytes(k.bytes), megabytes(32 * k.sectors), "",
              k.conflicts)
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
