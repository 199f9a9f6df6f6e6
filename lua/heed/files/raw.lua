-- Arrays in files: how large one must be, how it becomes a tensor, and how a tensor is written.

local core = require "heed.core"
local heed = require "heed"
local refuse = require "heed.internal.refuse"

local raw = {}

local MAX_RANK = 8
local SMALL <const> = 1 << 16       -- bytes that are read whatever the limit of memory

---@class heed.raw.kind
---@field size integer bytes of one element in the file
---@field dtype string what it becomes
---@field widen? string the integer type in the file, where int64 must be made of it


---How a type of a file is read; the names are those of `string.pack`, and "b" for a boolean.
---@type table<string, heed.raw.kind>
raw.kinds = {
  b = {size = 1, dtype = "bool"},
  bf16 = {size = 2, dtype = "bfloat16"},
  f2 = {size = 2, dtype = "float16"},
  f4 = {size = 4, dtype = "float32"},
  f8 = {size = 8, dtype = "float64"},
  i1 = {size = 1, dtype = "int64", widen = "i1"},
  i2 = {size = 2, dtype = "int64", widen = "i2"},
  i4 = {size = 4, dtype = "int64", widen = "i4"},
  i8 = {size = 8, dtype = "int64"},
  u1 = {size = 1, dtype = "uint8"},
  u2 = {size = 2, dtype = "int64", widen = "u2"},
  u4 = {size = 4, dtype = "int64", widen = "u4"},
}


-- The name of the kind that holds a dtype as it is.
local kind_of = {}
for name, kind in pairs(raw.kinds) do
  if not kind.widen then kind_of[kind.dtype] = name end
end

---@param dtype string of a tensor
---@return string name in `raw.kinds`
function raw.kind_of(dtype)
  return kind_of[dtype] or heed.fail("save: a dtype that files can hold expected, got %s", dtype)
end


---Refuses a shape that no tensor can have.
---@param shape any
---@param rank integer of which the first sizes are there
---@param who string names the array in messages
function raw.check_shape(shape, rank, who)
  if rank > MAX_RANK then refuse.with("%s has rank %d, more than %d", who, rank, MAX_RANK) end
  for _, n in ipairs(shape) do
    if math.type(n) ~= "integer" or n < 0 then
      refuse.with("%s has the size %s in its shape", who, tostring(n))
    end
  end
end


---How many bytes an array takes; refuses one that no memory could hold, also where another size
---is 0 and nothing is stored.
---@param shape integer[]
---@param size integer bytes of one element
---@param who string
---@return integer
function raw.bytes(shape, size, who)
  local empty = false
  for _, n in ipairs(shape) do
    empty = empty or n == 0
    if n > math.maxinteger // size then
      refuse.with("%s is too large: its shape overflows", who)
    end
    if n > 0 then size = size * n end
  end
  return empty and 0 or size
end


---Refuses what the limit of memory has no room for, before it is made of a file.
---@param bytes number
---@param what string names it in messages
function raw.check_room(bytes, what)
  local good, why = pcall(core.check_room, "load", bytes, what)
  if not good then refuse.with("%s", why:match "load: (.*)" or why) end
end


---Bytes of an open file.
---@param file heed.core.file
---@param at integer offset of the first one
---@param n integer
---@return string
function raw.read(file, at, n)
  if n > SMALL then raw.check_room(2.0 * n, "a part of the file") end
  local bytes, why = core.file_bytes(file, at, n)
  return bytes or refuse.with("%s", why)
end


---Maps an open file: tensors of it are views, which are read when they are used. Booleans, integers
---that become int64, and what does not stand at a multiple of its size are read all the same.
---@param file heed.core.file
---@param path string
function raw.map(file, path)
  local done, why = core.map_file(file, path)
  if not done then refuse.with("%s", why) end
end


---Makes a tensor of an array in an open file, on the CPU.
---@param file heed.core.file
---@param at integer offset of its first byte
---@param shape integer[]
---@param kind heed.raw.kind
---@param who string
---@return heed.Tensor
function raw.tensor(file, at, shape, kind, who)
  local tensor, why = core.file_tensor(file, at, who, shape, kind.dtype, kind.widen)
  return tensor or refuse.with("%s", why)
end


---A tensor as it is written: dense, on the CPU; itself where it is so.
---@param tensor heed.Tensor
---@return heed.Tensor
function raw.written(tensor)
  return tensor:detach():to("cpu"):contiguous()
end


return raw
