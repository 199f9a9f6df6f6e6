-- The types of GGUF, by their numbers: of tensors, and of the values of metadata.

local blocks = require "heed.internal.blocks"
local heed = require "heed"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local gguf_types = {}

gguf_types.MAGIC = "GGUF"
gguf_types.VERSION = 3                 -- that is written
gguf_types.ALIGNMENT = "general.alignment"         -- the key of what offsets are multiples of
gguf_types.LONGEST_NAME = 1 << 16      -- bytes of a key
gguf_types.MOST_AXES = 4
gguf_types.MOST_LISTS = 8              -- arrays within each other
gguf_types.MOST_FLAGS = 1 << 16        -- booleans of an array

-- Types of tensors by their numbers.
local TENSORS <const> = {
  [0] = "f4", [1] = "f2", [2] = "q4_0", [3] = "q4_1", [6] = "q5_0", [7] = "q5_1", [8] = "q8_0",
  [10] = "q2_k", [11] = "q3_k", [12] = "q4_k", [13] = "q5_k", [14] = "q6_k", [24] = "i1",
  [25] = "i2", [26] = "i4", [27] = "i8", [28] = "f8", [30] = "bf16",
}
local UNKNOWN <const> = {
  [9] = "Q8_1", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
  [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S", [23] = "IQ4_XS", [29] = "IQ1_M", [34] = "TQ1_0",
  [35] = "TQ2_0", [39] = "MXFP4", [40] = "NVFP4", [41] = "Q1_0",
}
local NUMBERS <const> = {}
for number, name in next, TENSORS do NUMBERS[name] = number end


---A type of tensors as raw.tensor has it, and how many elements and bytes a block has.
---@param number integer
---@param who string names the tensor in messages
---@return heed.raw.kind
---@return integer elements
---@return integer bytes
function gguf_types.tensor(number, who)
  local name = TENSORS[number]
  if not name then
    refuse.with("%s is of type %s, which heed does not know", who,
                UNKNOWN[number] or tostring(number))
  end
  local block = blocks[name]
  if block then return {size = 1, dtype = name}, block.elements, block.bytes end
  return raw.kinds[name], 1, raw.kinds[name].size
end


---The number of a dtype, and its bytes in a file for so many elements.
---@param dtype string
---@param numel integer
---@param who string names the tensor in messages
---@return integer number
---@return integer bytes
function gguf_types.number(dtype, numel, who)
  local block = blocks[dtype]
  if block then return NUMBERS[dtype], numel // block.elements * block.bytes end
  local name = raw.kind_of(dtype)
  if not NUMBERS[name] then
    heed.fail("save: floats, int64 or blocks expected in a .gguf file, got %s as %s", dtype, who)
  end
  return NUMBERS[name], numel * raw.kinds[name].size
end


-- Values of metadata -----------------------------------------------------

---@class heed.gguf.value
---@field name string as `heed.load` gives it
---@field format? string how a number is packed
---@field size integer bytes that one takes at least

---@type table<integer, heed.gguf.value>
gguf_types.values = {
  [0] = {name = "uint8", format = "<I1", size = 1}, {name = "int8", format = "<i1", size = 1},
  {name = "uint16", format = "<I2", size = 2}, {name = "int16", format = "<i2", size = 2},
  {name = "uint32", format = "<I4", size = 4}, {name = "int32", format = "<i4", size = 4},
  {name = "float32", format = "<f", size = 4}, {name = "bool", size = 1},
  {name = "string", size = 8}, {name = "array", size = 12},
  {name = "uint64", format = "<i8", size = 8}, {name = "int64", format = "<i8", size = 8},
  {name = "float64", format = "<d", size = 8},
}
gguf_types.FLAG, gguf_types.STRING, gguf_types.ARRAY = 7, 8, 9

---The numbers of these types, by their names.
---@type table<string, integer>
gguf_types.by_name = {}
for number, value in next, gguf_types.values do gguf_types.by_name[value.name] = number end


-- The last number of 64 bits without a sign, and the first that is no integer of Lua's.
local LAST <const>, BEYOND <const> = "18446744073709551615", "9223372036854775808"

---A number of 64 bits without a sign; beyond Lua's integers its digits, as a text.
---@param bits integer
---@return integer|string
function gguf_types.unsigned(bits)
  if bits >= 0 then return bits end
  local tenth = (bits >> 1) // 5
  return ("%d%d"):format(tenth, bits - 10 * tenth)
end


---The bits of a number that stands as its digits; nil for another text.
---@param digits string
---@return integer?
function gguf_types.bits(digits)
  if not digits:find "^[1-9]%d*$" or #digits < #BEYOND or #digits > #LAST
     or #digits == #BEYOND and digits < BEYOND or #digits == #LAST and digits > LAST then
    return nil
  end
  local bits = 0
  for digit in digits:gmatch "%d" do bits = 10 * bits + math.tointeger(digit) end
  return bits
end


-- Where tensors lie -----------------------------------------------------------

---What offsets of tensors are multiples of, as the metadata say.
---@param metadata table<string, any>
---@return integer
function gguf_types.alignment(metadata)
  local key = gguf_types.ALIGNMENT
  local n = metadata[key]
  if n == nil then return 32 end
  if math.type(n) ~= "integer" or n < 1 or n > 1 << 20 or n & n - 1 ~= 0 then
    refuse.with("key %s: a power of two expected, got %s", refuse.quoted(key), tostring(n))
  end
  return n
end


---A size as it is with what is missing to a multiple.
---@param n integer
---@param alignment integer
---@return integer
function gguf_types.aligned(n, alignment) return (n + alignment - 1) // alignment * alignment end


return gguf_types
