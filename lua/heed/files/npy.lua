-- NumPy's .npy: one array. Its header is a Python dictionary, read by a parser that knows
-- three keys and nothing else; files are written byte for byte as NumPy writes them.

local heed = require "heed"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local find, match, sub = string.find, string.match, string.sub
local reject, quoted = refuse.with, refuse.quoted

local npy = {}

local MAGIC = "\x93NUMPY"
local ALIGNMENT = 64
local MAX_HEADER = 1000000
local ARRAY = "the array"          -- in messages

local kind_names = {
  ["<f2"] = "f2", ["<f4"] = "f4", ["<f8"] = "f8", ["<i2"] = "i2", ["<i4"] = "i4", ["<i8"] = "i8",
  ["<u2"] = "u2", ["<u4"] = "u4", ["|b1"] = "b", ["|i1"] = "i1", ["|u1"] = "u1",
}
local descr_names = {}     -- "f4" -> "<f4"
for descr, kind in pairs(kind_names) do descr_names[kind] = descr end


---Whether a file begins as an .npy file does; raises a refusal if it cannot be read.
---@param file heed.core.file
---@return boolean
function npy.is(file)
  return #file >= #MAGIC and raw.read(file, 0, #MAGIC) == MAGIC
end


-- Reading. The parsers of the header take it and a position, and give a value and the position
-- behind it.

local function skip(text, at)
  return match(text, "^[ \t\r\n]*()", at)
end


local function read_string(text, at)
  local value, behind = match(text, "^'([^'\\]*)'()", at)
  if not value then value, behind = match(text, '^"([^"\\]*)"()', at) end
  if not value then reject("invalid header: a string expected at byte %d of it", at) end
  return value, behind
end


local function read_boolean(text, at)
  local word, behind = match(text, "^(%a+)()", at)
  if word ~= "True" and word ~= "False" then
    reject("invalid header: True or False expected at byte %d of it", at)
  end
  return word == "True", behind
end


local function read_size(text, at)
  local digits, behind = match(text, "^(%d+)()", at)
  local size = math.tointeger(tonumber(digits))
  if not size then reject("invalid header: a size expected at byte %d of it", at) end
  return size, behind
end


-- Python's tuple: (), (3,), (3, 4), (3, 4,); without a comma (3) is a number.
local function read_tuple(text, at)
  if sub(text, at, at) ~= "(" then
    reject("invalid header: a tuple expected at byte %d of it", at)
  end
  local tuple, comma = {}, true
  at = skip(text, at + 1)
  while sub(text, at, at) ~= ")" do
    if not comma then reject('invalid header: "," expected at byte %d of it', at) end
    tuple[#tuple + 1], at = read_size(text, at)
    at = skip(text, at)
    comma = sub(text, at, at) == ","
    if comma then at = skip(text, at + 1) end
  end
  if #tuple == 1 and not comma then reject("invalid header: the shape is no tuple") end
  return tuple, at + 1
end


local field_readers = {descr = read_string, fortran_order = read_boolean, shape = read_tuple}

local function read_field(text, at, fields)
  local name, behind = read_string(text, at)
  local reader = field_readers[name]
  if not reader then reject("invalid header: unknown key %s", quoted(name)) end
  if fields[name] ~= nil then reject("invalid header: duplicate key %s", quoted(name)) end
  at = skip(text, behind)
  if sub(text, at, at) ~= ":" then reject('invalid header: ":" expected at byte %d of it', at) end
  fields[name], at = reader(text, skip(text, at + 1))
  return skip(text, at)
end


local function read_dictionary(text)
  local fields, at = {}, skip(text, 1)
  if sub(text, at, at) ~= "{" then reject("invalid header: a dictionary expected") end
  local comma = true
  at = skip(text, at + 1)
  while sub(text, at, at) ~= "}" do
    if not comma then reject('invalid header: "," expected at byte %d of it', at) end
    at = read_field(text, at, fields)
    comma = sub(text, at, at) == ","
    if comma then at = skip(text, at + 1) end
  end
  if find(text, "[^ \t\r\n]", at + 1) then reject("invalid header: text after the dictionary") end
  return fields
end


local function read_fields(text)
  local fields = read_dictionary(text)
  for name in pairs(field_readers) do
    if fields[name] == nil then reject("invalid header: no key %s", quoted(name)) end
  end
  return fields
end


-- The header's text and the offset of the data.
local function read_header(file)
  if not npy.is(file) then reject("not an .npy file") end
  if #file < 12 then reject("header too small: the file has %d bytes", #file) end
  local begin = raw.read(file, 0, 12)
  local version, minor = begin:byte(7, 8)
  if version < 1 or version > 3 or minor ~= 0 then
    reject("unknown version %d.%d", version, minor)
  end
  local length, start = string.unpack(version == 1 and "<I2" or "<I4", begin, 9)
  start = start - 1
  if length > #file - start then
    reject("invalid header length: %d bytes in a file of %d", length, #file)
  elseif length > MAX_HEADER then
    reject("header too large: at most %d bytes expected, got %d", MAX_HEADER, length)
  end
  return raw.read(file, start, length), start + length
end


-- Columns first: the transposed array of the reversed shape.
local function read_fortran(file, at, shape, kind)
  local reversed, axes = {}, {}
  for i = 1, #shape do
    reversed[i], axes[i] = shape[#shape + 1 - i], #shape + 1 - i
  end
  return raw.tensor(file, at, reversed, kind, ARRAY):permute(table.unpack(axes)):contiguous()
end


---Reads a file; raises a refusal if it is malformed.
---@param file heed.core.file
---@return heed.Tensor array
function npy.read(file)
  local header, start = read_header(file)
  local fields = read_fields(header)
  local kind = raw.kinds[kind_names[fields.descr]]
  if not kind then reject("unknown dtype %s", quoted(fields.descr)) end
  raw.check_shape(fields.shape, #fields.shape, ARRAY)
  local size, needed = #file - start, raw.bytes(fields.shape, kind.size, ARRAY)
  if size ~= needed then
    reject("the array has %d bytes, its shape and dtype need %d", size, needed)
  end
  if fields.fortran_order and #fields.shape > 1 then
    return read_fortran(file, start, fields.shape, kind)
  end
  return raw.tensor(file, start, fields.shape, kind, ARRAY)
end


-- Writing.

local function shape_text(shape)
  if #shape == 1 then return ("(%d,)"):format(shape[1]) end
  return "(" .. table.concat(shape, ", ") .. ")"
end


-- NumPy leaves space for the first size to grow to 21 digits, and pads the header to a multiple
-- of 64 bytes.
local function header_text(descr, shape)
  local text = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }")
    :format(descr, shape_text(shape))
  if #shape > 0 then text = text .. (" "):rep(21 - #tostring(shape[1])) end
  local taken = #MAGIC + 4 + #text + 1
  return text .. (" "):rep(ALIGNMENT - taken % ALIGNMENT) .. "\n"
end


---Writes one array.
---@param tensor heed.Tensor
---@return (string|heed.Tensor)[] file its parts
function npy.encode(tensor)
  local descr = descr_names[raw.kind_of(tensor.dtype)]
  if not descr then
    heed.fail('save: .npy has no %s, to("float32") or a .safetensors file expected', tensor.dtype)
  end
  local shape = table.move(tensor.shape, 1, tensor:dim(), 1, {})
  local header = header_text(descr, shape)
  return {MAGIC .. "\1\0" .. string.pack("<s2", header), raw.written(tensor)}
end


return npy
