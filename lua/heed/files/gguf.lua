-- GGUF, versions 2 and 3: metadata, and named tensors, also in blocks, each at its own offset.
--
-- All counts, lengths, sizes and offsets are held against the bytes that the file has before
-- anything is made of them. Values of metadata are numbers, booleans, strings and lists; an array
-- of bytes is a string.

local core = require "heed.core"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"
local types = require "heed.files.gguf_types"

local quoted, unpack = refuse.quoted, string.unpack

local gguf = {}

local WINDOW <const> = 1 << 16        -- bytes that are read at a time
local LONGEST_NAME <const> = types.LONGEST_NAME
local MOST_AXES <const>, MOST_LISTS <const> = types.MOST_AXES, types.MOST_LISTS
local MOST_FLAGS <const> = types.MOST_FLAGS
local MOST_SHARDS <const> = 1 << 12


-- Bytes in order -----------------------------------------------------------

---@class heed.gguf.reader
---@field file heed.core.file
---@field at integer offset of the next byte, from 0
---@field window string bytes of the file
---@field first integer offset of the window

local function left(r) return #r.file - r.at end


-- The next n bytes.
local function take(r, n, what)
  if n > left(r) then
    refuse.with("the file ends within %s, at byte %d", what, #r.file)
  end
  local from = r.at - r.first
  if from + n > #r.window then
    r.first, from = r.at, 0
    r.window = raw.read(r.file, r.at, math.min(math.max(n, WINDOW), left(r)))
  end
  r.at = r.at + n
  return r.window:sub(from + 1, from + n)
end


local function number(r, format, size, what)
  return (unpack(format, take(r, size, what)))
end


-- A count of things of at least `size` bytes each, which the file has room for.
local function count(r, what, size)
  local n = number(r, "<i8", 8, what)
  if n < 0 or n > left(r) // size then
    refuse.with("%s: %s does not fit into the %d bytes behind it", what,
                n < 0 and "a count of 2^63 or more" or tostring(n), left(r))
  end
  return n
end


local function text(r, what)
  return take(r, count(r, what, 1), what)
end


-- Metadata -------------------------------------------------------------------

local MAGIC <const> = types.MAGIC
local FLAG <const>, STRING <const>, ARRAY <const> = types.FLAG, types.STRING, types.ARRAY


local function flag(r, key)
  local byte = number(r, "<I1", 1, key)
  if byte > 1 then refuse.with("%s: 0 or 1 expected for a boolean, got %d", key, byte) end
  return byte == 1
end


local read_value

-- An array, and the name of its type; numbers, booleans and texts of one type, or arrays.
local function array(r, key, depth)
  local kind = number(r, "<I4", 4, key)
  local of = types.values[kind] or refuse.with("%s: a value of the unknown type %d", key, kind)
  local n, name = count(r, key, of.size), of.name .. "[]"
  if of.format and of.size == 1 then return take(r, n, key), name end
  if kind == FLAG and n > MOST_FLAGS then
    refuse.with("%s: at most %d booleans expected, got %d", key, MOST_FLAGS, n)
  end
  raw.check_room(16.0 * n, key)
  local list = {}
  for i = 1, n do list[i] = read_value(r, kind, key, depth) end
  return list, name
end


-- A value, and the name of its type.
function read_value(r, kind, key, depth)
  local of = types.values[kind]
  if not of then refuse.with("%s: a value of the unknown type %d", key, kind)
  elseif kind == STRING then return text(r, key), of.name
  elseif kind == FLAG then return flag(r, key), of.name
  elseif kind == ARRAY and depth == MOST_LISTS then
    refuse.with("%s: arrays within %d others", key, MOST_LISTS)
  elseif kind == ARRAY then return array(r, key, depth + 1)
  end
  local value = number(r, of.format, of.size, key)
  return of.name == "uint64" and types.unsigned(value) or value, of.name
end


-- A name: UTF-8, not too long.
local function name_of(r, what)
  local n = count(r, what, 1)
  local name = n <= LONGEST_NAME and take(r, n, what)
  if not name or #name == 0 or not utf8.len(name) then
    refuse.with("%s: UTF-8 of 1 to %d bytes expected, got %s", what, LONGEST_NAME,
                name and quoted(name) or n .. " bytes")
  end
  return name
end


-- The values of n keys, and the names of their types.
local function read_metadata(r, n)
  local metadata, kinds = {}, {}
  for _ = 1, n do
    local name = name_of(r, "a key")
    local key = "key " .. quoted(name)
    if metadata[name] ~= nil then refuse.with("%s stands there twice", key) end
    metadata[name], kinds[name] = read_value(r, number(r, "<I4", 4, key), key, 0)
  end
  return metadata, kinds
end


-- Tensors ----------------------------------------------------------------------

---@class heed.gguf.entry
---@field name string
---@field shape integer[] row by row
---@field kind heed.raw.kind
---@field first integer offset in the data
---@field bytes integer

-- The sizes of a tensor, which the file has from the last axis to the first.
local function read_shape(r, who)
  local rank = number(r, "<I4", 4, who)
  if rank > MOST_AXES then
    refuse.with("%s has %d dimensions, more than %d", who, rank, MOST_AXES)
  end
  local shape = {}
  for i = rank, 1, -1 do
    shape[i] = number(r, "<i8", 8, who)
    if shape[i] < 0 then refuse.with("%s has a size of 2^63 or more", who) end
  end
  return shape
end


local function read_entry(r)
  local entry = {name = name_of(r, "the name of a tensor")}
  local who = "tensor " .. quoted(entry.name)
  entry.shape = read_shape(r, who)
  local kind, elements, bytes = types.tensor(number(r, "<I4", 4, who), who)
  local row = entry.shape[#entry.shape] or 1
  if row % elements ~= 0 then
    refuse.with("%s has rows of %d elements, and %s needs a multiple of %d", who, row, kind.dtype,
                elements)
  end
  entry.kind = kind
  entry.bytes = raw.bytes(entry.shape, bytes, who) // elements
  entry.first = number(r, "<i8", 8, who)
  return entry
end


-- All tensors, each of which lies behind the one before, within the data.
local function read_entries(r, n)
  local list, known = {}, {}
  for i = 1, n do
    list[i] = read_entry(r)
    if known[list[i].name] then
      refuse.with("the tensor %s stands there twice", quoted(list[i].name))
    end
    known[list[i].name] = true
  end
  return list
end


local function check_places(list, alignment, room)
  local order = table.move(list, 1, #list, 1, {})
  table.sort(order, function(a, b)
    if a.first ~= b.first then return a.first < b.first end
    return a.bytes < b.bytes
  end)
  local stop = 0
  for _, entry in ipairs(order) do
    local who = "tensor " .. quoted(entry.name)
    if entry.first < stop or entry.first % alignment ~= 0 then
      refuse.with("%s begins at %d: a multiple of %d from %d on expected", who, entry.first,
                  alignment, stop)
    elseif entry.first > room or entry.bytes > room - entry.first then
      refuse.with("%s has %d bytes from %d on, and the data have %d", who, entry.bytes,
                  entry.first, room)
    end
    stop = entry.first + entry.bytes
  end
end


-- The file -----------------------------------------------------------------------

---Whether a file begins as GGUF does.
---@param file heed.core.file
---@return boolean
function gguf.is(file)
  return #file >= #MAGIC and raw.read(file, 0, #MAGIC) == MAGIC
end


local function check_version(version)
  if version == 2 or version == 3 then return end
  if version & 0xffff == 0 then refuse.with("the file is big-endian, which heed does not read") end
  refuse.with("version 2 or 3 of GGUF expected, got %d", version)
end


-- The metadata of a file with their types, how many tensors it has, and the reader behind them.
local function begin(file)
  local r = {file = file, at = #MAGIC, window = "", first = 0}
  check_version(number(r, "<I4", 4, "the version"))
  local n = count(r, "the number of tensors", 1)
  local metadata, kinds = read_metadata(r, count(r, "the number of keys", 1))
  return metadata, kinds, n, r
end


---The metadata of a file alone.
---@param file heed.core.file
---@return table<string, any>
function gguf.metadata(file)
  if not gguf.is(file) then refuse.with("no GGUF file") end
  return (begin(file))
end


-- One file: its tensors by name, added to those of others, their number, and its metadata.
local function read_one(file, place, tensors)
  local metadata, kinds, n, r = begin(file)
  local list = read_entries(r, n)
  local alignment = types.alignment(metadata)
  local start = types.aligned(r.at, alignment)
  if #list > 0 then check_places(list, alignment, math.max(#file - start, 0)) end
  for _, entry in ipairs(list) do
    local who = "tensor " .. quoted(entry.name)
    if tensors[entry.name] then refuse.with("%s stands in another file, too", who) end
    tensors[entry.name] = place(raw.tensor(file, start + entry.first, entry.shape, entry.kind, who))
  end
  return #list, metadata, kinds
end


-- How many files there are, by the metadata of the first one.
local function count_shards(metadata, path)
  local n, no = metadata["split.count"], metadata["split.no"]
  if n == nil or n == 1 then return 1 end
  if math.type(n) ~= "integer" or n < 1 or n > MOST_SHARDS then
    refuse.with('key "split.count": 1 to %d files expected, got %s', MOST_SHARDS, tostring(n))
  elseif no ~= 0 then
    refuse.with("this is part %s of %d files: the first one, whose name has 00001, is to be loaded",
                math.type(no) == "integer" and no + 1 or tostring(no), n)
  elseif path:sub(-20) ~= ("-00001-of-%05d.gguf"):format(n) then
    refuse.with("a name that ends in -00001-of-%05d.gguf expected, by which the others are found",
                n)
  end
  return n
end


local function read_shard(path, place, tensors, mapped, i, n)
  local name = path:gsub("00001(%-of%-%d+%.gguf)$", ("%05d%%1"):format(i))
  local file <close>, why = core.open_file(name)
  if not file then refuse.with("%s", why) end
  if not gguf.is(file) then refuse.with("%s: no GGUF file", name) end
  if mapped then raw.map(file, name) end
  local count_there, metadata = read_one(file, place, tensors)
  if metadata["split.no"] ~= i - 1 or metadata["split.count"] ~= n then
    refuse.with("%s: part %d of %d expected by its metadata", name, i, n)
  end
  return count_there
end


---Reads a file, and those that it is split into; refuses what is malformed.
---@param file heed.core.file the first one
---@param path string
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@param mapped? boolean whether tensors are views of the files
---@return table<string, heed.Tensor> tensors
---@return table<string, any> metadata of the first file
---@return table<string, string> types of the metadata, such as "uint32" or "string[]"
function gguf.read(file, path, place, mapped)
  local tensors = {}
  local all, metadata, kinds = read_one(file, place, tensors)
  local n = count_shards(metadata, path)
  for i = 2, n do all = all + read_shard(path, place, tensors, mapped, i, n) end
  local wanted = metadata["split.tensors.count"]
  if n > 1 and wanted ~= nil and wanted ~= all then
    refuse.with("%s tensors expected in all files, got %d", tostring(wanted), all)
  end
  return tensors, metadata, kinds
end


return gguf
