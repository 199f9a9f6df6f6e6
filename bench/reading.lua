-- Few rows and matrices that no cache holds, for bench/reading.py. A line of input names a number
-- of threads, a type, "packed" or "plain", and a number of rows, and is answered by the bytes of a
-- pass over all matrices; the line "pass" is answered by the seconds of one.

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


-- Rows, their matrices and the bytes of those.
local function drawn(type, packed, n)
  local rows, weight = heed.randn(n, COLUMNS), heed.randn(ROWS, COLUMNS)
  if type:find "float" then rows, weight = rows:to(type), weight:to(type)
  else weight = heed.quantize(weight, type) end
  collectgarbage()                            -- nothing but the file's tensor counts below
  local before <const> = heed.memory().live
  local list = {loaded(weight)}
  local bytes <const> = heed.memory().live - before
  for i = 2, AT_LEAST // bytes + 1 do list[i] = loaded(weight) end
  for _, one in ipairs(list) do
    if packed then core.pack(one) end
    heed.linear(rows, one)
  end
  return rows, list, bytes * #list
end


local function pass(rows, list)
  local began <const> = heed.clock()
  for _, weight in ipairs(list) do heed.linear(rows, weight) end
  return heed.clock() - began
end


local function answer_lines()
  local now <const> = {}
  for line in io.lines() do
    local threads, type, how, rows = line:match "^(%d+)\t(%S+)\t(%S+)\t(%d+)$"
    if threads then
      now.rows, now.list = nil, nil           -- before there are others
      collectgarbage()
      heed.threads(tonumber(threads))
      now.rows, now.list, now.bytes = drawn(type, how == "packed", tonumber(rows))
      print(now.bytes)
    else
      print(("%.9f"):format(pass(now.rows, now.list)))
    end
  end
end


io.stdout:setvbuf "line"
print(("heed (%s)"):format(heed.level()))
heed.no_grad(answer_lines)
