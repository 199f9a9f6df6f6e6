-- safetensors: a length, a header in JSON, and the bytes of named tensors without a gap.
-- The reader refuses all files that the format's own implementation refuses, and duplicate names
-- besides. The metadata carry a checksum over the header and the data, verified where it is present
-- unless the caller does without: the files of other programs have none, and are not summed.
-- Tensors stand in the order of the reference (large elements first, then names), so that a file
-- that is loaded and saved again has the same bytes.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local safetensors = {}

local CHECKSUM = "heed.crc32"       -- its name in the metadata
local METADATA = "__metadata__"     -- its name in the header
local MAX_HEADER = 100000000
local MAX_DEPTH = 4                 -- a header needs three

local kind_names = {
  BF16 = "bf16", BOOL = "b", F16 = "f2", F32 = "f4", F64 = "f8", I16 = "i2", I32 = "i4",
  I64 = "i8", I8 = "i1", U16 = "u2", U32 = "u4", U8 = "u1",
}
local dtype_names = {}     -- "f4" -> "F32"
for dtype, kind in pairs(kind_names) do dtype_names[kind] = dtype end

---@class heed.safetensors.entry
---@field name string
---@field kind heed.raw.kind
---@field shape integer[]
---@field first integer offset of the first byte in the data, from 0
---@field last integer offset behind the last one


-- The checksum is of the content, not of its spelling: of the header as json.encode writes it,
-- without the checksum, and then of the data. The result is the header's part.
local function header_sum(header)
  local metadata = header[METADATA]
  local stored = metadata[CHECKSUM]
  metadata[CHECKSUM] = nil
  local sum = core.crc32(json.encode(header))
  metadata[CHECKSUM] = stored
  return sum
end


local function sum_text(sum)
  return ("%08x"):format(sum)
end


-- Reading.

-- The header, and the offset of the data.
local function read_header(file)
  if #file < 8 then
    refuse.with("header too small: the file has %d bytes; this is no safetensors file", #file)
  end
  local length = string.unpack("<i8", raw.read(file, 0, 8))
  if length < 0 or length > MAX_HEADER then
    refuse.with("header too large: at most %d bytes expected, got %s; %s", MAX_HEADER,
      length < 0 and "2^63 or more" or length, "this is no safetensors file")
  end
  if length > #file - 8 then
    refuse.with("invalid header length: %d bytes in a file of %d", length, #file)
  end
  local header, why = json.decode(raw.read(file, 8, length), MAX_DEPTH)
  if why then refuse.with("invalid header: %s", why) end
  if type(header) ~= "table" or rawequal(header, json.null) or json.is_array(header) then
    refuse.with("invalid header: an object expected")
  end
  return header, 8 + length
end


local function read_metadata(header)
  local metadata = header[METADATA]
  if metadata == nil then return {} end
  if type(metadata) ~= "table" or rawequal(metadata, json.null) or json.is_array(metadata) then
    refuse.with("invalid metadata: an object expected")
  end
  for name, value in pairs(metadata) do
    if type(value) ~= "string" then
      refuse.with("invalid metadata: a string expected for %s", quoted(name))
    end
  end
  return metadata
end


local function is_offset(n)
  return math.type(n) == "integer" and n >= 0
end


local function read_entry(name, info)
  local who = "tensor " .. quoted(name)
  if type(info) ~= "table" or type(info.dtype) ~= "string" then
    refuse.with("invalid header: %s has no dtype", who)
  end
  local kind = raw.kinds[kind_names[info.dtype]]
  if not kind then refuse.with("%s has the unknown dtype %s", who, quoted(info.dtype)) end
  if not json.is_array(info.shape) then refuse.with("invalid header: %s has no shape", who) end
  raw.check_shape(info.shape, who)
  local at = info.data_offsets
  if not (json.is_array(at) and #at == 2 and is_offset(at[1]) and is_offset(at[2])) then
    refuse.with("invalid header: %s has no data_offsets", who)
  end
  return {name = name, kind = kind, shape = info.shape, first = at[1], last = at[2]}
end


local function by_key(a, b)
  if a.first ~= b.first then return a.first < b.first end
  if a.last ~= b.last then return a.last < b.last end
  return json.before(a.name, b.name)
end


local function read_entries(header)
  local entries = {}
  for name, info in pairs(header) do
    if name ~= METADATA then entries[#entries + 1] = read_entry(name, info) end
  end
  table.sort(entries, by_key)
  return entries
end


-- Each tensor begins where the last one ended and is as long as its shape says; the last one
-- ends with the file.
local function check_cover(entries, size)
  local stop = 0
  for _, entry in ipairs(entries) do
    local who = "tensor " .. quoted(entry.name)
    if entry.first ~= stop or entry.last < entry.first then
      refuse.with("invalid offset: %s stands at %d to %d, expected to begin at %d",
        who, entry.first, entry.last, stop)
    end
    local needed = raw.bytes(entry.shape, entry.kind.size, who)
    if entry.last - entry.first ~= needed then
      refuse.with("%s has %d bytes, its shape and dtype need %d",
        who, entry.last - entry.first, needed)
    end
    stop = entry.last
  end
  if stop ~= size then
    refuse.with("incomplete data: the tensors take %d bytes, the file has %d", stop, size)
  end
end


local function compare_sums(stored, sum)
  local found = sum_text(sum)
  if found == stored then return end
  refuse.with("checksum differs: %s stored, %s found; the file is damaged, or was changed by a "
    .. "program that kept %s ({verify = false} loads it)", quoted(stored), found, CHECKSUM)
end


---Reads a file; raises a refusal if it is malformed.
---@param file heed.core.file
---@param verify boolean compare the checksum, where there is one
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@return table<string, heed.Tensor> tensors
---@return table<string, string> metadata
function safetensors.read(file, verify, place)
  local header, start = read_header(file)
  local metadata = read_metadata(header)
  local entries = read_entries(header)
  check_cover(entries, #file - start)
  local stored = verify and metadata[CHECKSUM]
  if stored then core.file_sum(file, header_sum(header)) end
  local tensors = {}
  for _, entry in ipairs(entries) do
    local who = "tensor " .. quoted(entry.name)
    tensors[entry.name] = place(raw.tensor(file, start + entry.first, entry.shape, entry.kind, who))
  end
  if stored then compare_sums(stored, core.file_sum(file)) end
  metadata[CHECKSUM] = nil
  return tensors, metadata
end


-- Writing: what could not be read again is a wrong call.

local function check_name(name)
  if type(name) ~= "string" then
    heed.fail("save: strings as names of tensors expected, got %s", tostring(name))
  elseif name == METADATA then
    heed.fail("save: the name %s belongs to the file format", METADATA)
  elseif not utf8.len(name) then
    heed.fail("save: UTF-8 expected, got the name %s", quoted(name))
  end
end


local function checked_metadata(metadata)
  local copy = {}
  for name, value in pairs(metadata or {}) do
    if type(name) ~= "string" or type(value) ~= "string" then
      heed.fail("save: metadata of strings by strings expected, got %s = %s",
        tostring(name), tostring(value))
    elseif name == CHECKSUM then
      heed.fail("save: the metadata name %s belongs to heed", CHECKSUM)
    elseif not (utf8.len(name) and utf8.len(value)) then
      heed.fail("save: UTF-8 expected in the metadata of %s", quoted(name))
    end
    copy[name] = value
  end
  return copy
end


local function by_size(a, b)
  if a.kind.size ~= b.kind.size then return a.kind.size > b.kind.size end
  return json.before(a.name, b.name)
end


local function sorted_entries(tensors)
  local entries = {}
  for name, tensor in pairs(tensors) do
    check_name(name)
    if not options.is_alive(tensor) then
      heed.fail("save: a tensor expected as %s, got %s", quoted(name), options.kind(tensor))
    end
    local kind_name = raw.kind_of(tensor.dtype)
    entries[#entries + 1] = {
      name = name, tensor = tensor, kind = raw.kinds[kind_name], dtype = dtype_names[kind_name],
    }
  end
  table.sort(entries, by_size)
  return entries
end


local function header_text(header)
  local text = json.encode(header)
  text = text .. (" "):rep(-#text % 8)     -- the data begin at a multiple of 8
  if #text > MAX_HEADER then
    heed.fail("save: a header of at most %d bytes expected, got %d", MAX_HEADER, #text)
  end
  return text
end


---Writes named tensors.
---@param tensors table<string, heed.Tensor>
---@param metadata? table<string, string>
---@return (string|heed.Tensor)[] file its parts
function safetensors.encode(tensors, metadata)
  local header = {[METADATA] = checked_metadata(metadata)}
  local parts, stop = {}, 0
  for i, entry in ipairs(sorted_entries(tensors)) do
    local bytes = entry.tensor:numel() * entry.kind.size
    parts[i] = raw.written(entry.tensor)
    header[entry.name] = {
      dtype = entry.dtype,
      shape = json.array(table.move(entry.tensor.shape, 1, entry.tensor:dim(), 1, {})),
      data_offsets = json.array{stop, stop + bytes},
    }
    stop = stop + bytes
  end
  local sum = header_sum(header)
  for _, part in ipairs(parts) do sum = core.crc32(part, sum) end
  header[METADATA][CHECKSUM] = sum_text(sum)
  local text = header_text(header)
  table.insert(parts, 1, string.pack("<I8", #text) .. text)
  return parts
end


return safetensors
