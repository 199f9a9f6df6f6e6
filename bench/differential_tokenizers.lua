-- Heed's side of the differential run of tokenizers (differential_tokenizers.py).
--
--   lua5.4 bench/differential_tokenizers.lua TOKENIZER IN OUT
--
-- IN has texts, each behind its length in 4 bytes. OUT has for each of them how many ids there
-- are, the ids from 0, their first bytes and the ones behind them, and the text that they are
-- decoded to, behind its length; all numbers in 4 bytes.

local heed = require "heed"

local tok = assert(heed.tokenizer.load(arg[1]))
local input = assert(io.open(arg[2], "rb"))
local output = assert(io.open(arg[3], "wb"))
local pack, unpack = string.pack, string.unpack

-- Numbers in 4 bytes each, which a table of 100 at a time is unpacked from.
local function packed(numbers)
  local parts = {}
  for i = 1, #numbers, 100 do
    local last = math.min(i + 99, #numbers)
    parts[#parts + 1] = pack("<" .. ("i4"):rep(last - i + 1), table.unpack(numbers, i, last))
  end
  return table.concat(parts)
end

while true do
  local head = input:read(4)
  if not head then break end
  local n = unpack("<i4", head)
  local text = n == 0 and "" or input:read(n)
  local ids, offsets = tok:encode(text, {special = false, parse = true, offsets = true})
  local list, places = ids:totable(), offsets:totable()
  local numbers, count = {#list}, #list
  for i, id in ipairs(list) do
    numbers[1 + i] = id - 1
    numbers[1 + count + i] = places[i][1] - 1
    numbers[1 + 2 * count + i] = places[i][2]
  end
  output:write(packed(numbers), pack("<s4", tok:decode(ids, {special = true})))
end
output:close()
