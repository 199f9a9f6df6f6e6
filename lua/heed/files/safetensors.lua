-- safetensors: a length, a header in JSON, and the bytes of named tensors without a gap.
-- The reader refuses all files that the format's own implementation refuses, and duplicate names
-- besides. The metadata carry a checksum over the header and the data, verified where it is present
-- unless the caller does without: the files of other programs have none, and are not summed.
-- Tensors stand in the order of the reference (large elements first, then names), so that a file
-- that is loaded and saved again has the same bytes. The format has no types of blocks: such a
-- tensor is written as its bytes, and its type stands in the metadata.

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local header = require "heed.files.header"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local safetensors = {}

local CHECKSUM = "heed.crc32"       -- its name in the metadata
local BLOCKS <const> = "heed.blocks"  -- that of the types of blocks, by the tensors' names, in JSON
local MAX_HEADER = 100000000

local METADATA <const> = header.METADATA

local dtype_names = {}     -- "f4" -> "F32"
for dtype, kind in pairs(header.kind_names) do dtype_names[kind] = dtype end

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
  return header.read(raw.read(file, 8, length)), 8 + length
end


-- Each tensor begins where the last one ended and is as long as its shape says; the last one
-- ends with the file.
local function check_cover(h, size)
  local stop = 0
  for _, place in ipairs(h.places) do
    local entry = header.entry(h, place)
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
    refuse.with("%s data: the tensors take %d bytes, the file has %d",
                stop > size and "incomplete" or "surplus", stop, size)
  end
end


local function compare_sums(stored, sum)
  local found = sum_text(sum)
  if found == stored then return end
  refuse.with("checksum differs: %s stored, %s found; the file is damaged, or was changed by a "
    .. "program that kept %s", quoted(stored), found, CHECKSUM)
end


-- heed writes no other fields; a checksum beside them is not of this header.
local function begin_sum(file, h)
  if h.odd then
    refuse.with("checksum differs: tensor %s has a field that is none of the format's; the file "
      .. "was changed by a program that kept %s", quoted(h.odd), CHECKSUM)
  end
  core.file_sum(file, header.sum(h, h.metadata))
end


-- The types of blocks that the metadata name, by tensors.
local function read_blocks(metadata)
  local text = metadata[BLOCKS]
  if text == nil then return {} end
  metadata[BLOCKS] = nil
  local types, why = json.decode(text)
  if type(types) ~= "table" or json.is_array(types) then
    refuse.with("metadata %s: %s", BLOCKS, why or "an object expected")
  end
  return types
end


-- The shape in elements, and the kind, of a tensor that was written as bytes.
local function as_blocks(entry, name, who)
  local block, shape = type(name) == "string" and rawget(blocks, name), entry.shape
  local last = shape[#shape]
  if not block then refuse.with("%s is of the unknown type %s", who, quoted(tostring(name))) end
  if entry.dtype ~= "U8" or not last or last % block.bytes ~= 0 then
    refuse.with("%s is of type %s: rows of bytes expected, in multiples of %d", who, name,
                block.bytes)
  end
  local own = table.move(shape, 1, #shape, 1, {})
  own[#own] = last // block.bytes * block.elements
  return own, {size = 1, dtype = name}
end


---Reads a file; raises a refusal if it is malformed.
---@param file heed.core.file
---@param verify boolean compare the checksum, where there is one
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@return table<string, heed.Tensor> tensors
---@return table<string, string> metadata
function safetensors.read(file, verify, place)
  local h, start = read_header(file)
  check_cover(h, #file - start)
  local metadata = h.metadata
  local stored = verify and metadata[CHECKSUM]
  metadata[CHECKSUM] = nil
  if stored then begin_sum(file, h) end
  local tensors, types = {}, read_blocks(metadata)
  for _, place_of in ipairs(h.places) do
    local entry = header.entry(h, place_of)
    local who = "tensor " .. quoted(entry.name)
    local shape, kind = entry.shape, entry.kind
    if types[entry.name] ~= nil then shape, kind = as_blocks(entry, types[entry.name], who) end
    tensors[entry.name] = place(raw.tensor(file, start + entry.first, shape, kind, who))
    types[entry.name] = nil
  end
  local absent = next(types)
  if absent then refuse.with("metadata %s: there is no tensor %s", BLOCKS, quoted(absent)) end
  if stored then compare_sums(stored, core.file_sum(file)) end
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
  local copy, n = {}, 0
  for name, value in pairs(metadata or {}) do
    n = n + 1
    if type(name) ~= "string" or type(value) ~= "string" then
      heed.fail("save: metadata of strings by strings expected, got %s = %s",
        tostring(name), tostring(value))
    elseif name == CHECKSUM or name == BLOCKS then
      heed.fail("save: the metadata name %s belongs to heed", name)
    elseif not (utf8.len(name) and utf8.len(value)) then
      heed.fail("save: UTF-8 expected in the metadata of %s", quoted(name))
    end
    copy[name] = value
  end
  if n > header.MOST_METADATA then
    heed.fail("save: at most %d entries of metadata expected, got %d", header.MOST_METADATA, n)
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
    local kind_name = blocks[tensor.dtype] and "u1" or raw.kind_of(tensor.dtype)
    entries[#entries + 1] = {
      name = name, tensor = tensor, kind = raw.kinds[kind_name], dtype = dtype_names[kind_name],
    }
  end
  table.sort(entries, by_size)
  return entries
end


local function header_text(content)
  local text = json.encode(content)
  text = text .. (" "):rep(-#text % 8)     -- the data begin at a multiple of 8
  if #text > MAX_HEADER then
    heed.fail("save: a header of at most %d bytes expected, got %d", MAX_HEADER, #text)
  end
  return text
end


---How many bytes of a file a tensor takes.
---@param t heed.Tensor
---@return integer
function safetensors.bytes_of(t)
  local block = blocks[t.dtype]
  if block then return t:numel() // block.elements * block.bytes end
  return t:numel() * raw.kinds[raw.kind_of(t.dtype)].size
end


---Writes named tensors.
---@param tensors table<string, heed.Tensor>
---@param metadata? table<string, string>
---@return (string|heed.Tensor)[] file its parts
function safetensors.encode(tensors, metadata)
  local content = {[METADATA] = checked_metadata(metadata)}
  local parts, types, stop = {}, {}, 0
  for i, entry in ipairs(sorted_entries(tensors)) do
    local t = entry.tensor
    local shape, block = table.move(t.shape, 1, t:dim(), 1, {}), blocks[t.dtype]
    local bytes = safetensors.bytes_of(t)
    if block then
      shape[#shape] = shape[#shape] // block.elements * block.bytes
      types[entry.name] = t.dtype
    end
    parts[i] = raw.written(t)
    content[entry.name] = {
      dtype = entry.dtype, shape = json.array(shape), data_offsets = json.array{stop, stop + bytes},
    }
    stop = stop + bytes
  end
  if next(types) then content[METADATA][BLOCKS] = json.encode(types) end
  local sum = core.crc32(json.encode(content))
  for _, part in ipairs(parts) do sum = core.crc32(part, sum) end
  content[METADATA][CHECKSUM] = sum_text(sum)
  local text = header_text(content)
  table.insert(parts, 1, string.pack("<I8", #text) .. text)
  return parts
end


return safetensors
