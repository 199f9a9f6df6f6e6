-- One row and matrices that no cache holds, for bench/reading.py. A line of input names a number
-- of threads, a type and "packed" or "plain", and is answered by the bytes of a pass over all
-- matrices; the line "pass" is answered by the seconds of one.

local core = require "heed.core"
local heed = require "heed"

local ROWS <const>, COLUMNS <const> = 8192, 2048
local AT_LEAST <const> = 130e6                -- bytes of a pass

heed.matmul_precision "high"                  -- blocks are multiplied by rounded rows


-- A weight as heed.load makes it, which shares huge pages.
local function loaded(weight)
  local path <const> = os.tmpname()
  heed.save(path, {weight = weight})
  local result = heed.load(path).weight
  assert(os.remove(path))
  return result
end


-- A row, its matrices and their bytes.
local function drawn(type, packed)
  local row, weight = heed.randn(1, COLUMNS), heed.randn(ROWS, COLUMNS)
  if type:find "float" then row, weight = row:to(type), weight:to(type)
  else weight = heed.quantize(weight, type) end
  local before <const> = heed.memory().live
  local list = {loaded(weight)}
  local bytes <const> = heed.memory().live - before
  for i = 2, AT_LEAST // bytes + 1 do list[i] = loaded(weight) end
  for _, one in ipairs(list) do
    if packed then core.pack(one) end
    heed.linear(row, one)
  end
  return row, list, bytes * #list
end


local function pass(row, list)
  local began <const> = heed.clock()
  for _, weight in ipairs(list) do heed.linear(row, weight) end
  return heed.clock() - began
end


local function answer_lines()
  local now <const> = {}
  for line in io.lines() do
    local threads, type, how = line:match "^(%d+)\t(%S+)\t(%S+)$"
    if threads then
      now.row, now.list = nil, nil            -- before there are others
      collectgarbage()
      heed.threads(tonumber(threads))
      now.row, now.list, now.bytes = drawn(type, how == "packed")
      print(now.bytes)
    else
      print(("%.9f"):format(pass(now.row, now.list)))
    end
  end
end


io.stdout:setvbuf "line"
print(("heed (%s)"):format(heed.level()))
heed.no_grad(answer_lines)
