-- The header of safetensors, read entry by entry: so that a header takes a few times its bytes,
-- whatever stands in it, only the text, names and places of entries are kept, and an entry is read
-- again where it is needed.

local core = require "heed.core"
local json = require "heed.files.json"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local header = {}

header.METADATA = "__metadata__"    -- the name of the metadata
header.MOST_METADATA = 1 << 14      -- their entries

local METADATA <const>, MOST <const> = header.METADATA, header.MOST_METADATA + 2   -- two are heed's
local MAX_DEPTH <const> = 4         -- a header needs three

header.kind_names = {
  BF16 = "bf16", BOOL = "b", F16 = "f2", F32 = "f4", F64 = "f8", I16 = "i2", I32 = "i4",
  I64 = "i8", I8 = "i1", U16 = "u2", U32 = "u4", U8 = "u1",
}

---@class heed.safetensors.entry
---@field name string
---@field dtype string of the file
---@field kind heed.raw.kind
---@field shape integer[]
---@field first integer offset of the first byte in the data, from 0
---@field last integer offset behind the last one

---@class heed.safetensors.header
---@field text string
---@field places integer[] of all entries in the text, by their first bytes
---@field names table<string, integer> place by name
---@field metadata table<string, string>
---@field odd string|false an entry with fields that the format does not have


-- Metadata --------------------------------------------------------------

local function take_metadata(text, at, all, name, name_at)
  if all.of[name] ~= nil then json.refuse_duplicate(name, name_at) end
  if text:sub(at, at) ~= '"' then
    refuse.with("invalid metadata: a string expected for %s", quoted(name))
  end
  all.n = all.n + 1
  if all.n > MOST then
    refuse.with("invalid metadata: at most %d entries expected", MOST)
  end
  all.of[name], at = json.value(text, at)
  return at
end


local function read_metadata(text, at)
  if text:sub(at, at) ~= "{" then refuse.with("invalid metadata: an object expected") end
  local all = {n = 0, of = {}}
  at = json.members(text, at, take_metadata, all)
  return all.of, at
end


-- Entries ---------------------------------------------------------------

local function is_offset(n)
  return math.type(n) == "integer" and n >= 0
end


local function check_entry(entry)
  local who = "tensor " .. quoted(entry.name)
  if not entry.dtype then refuse.with("invalid header: %s has no dtype", who) end
  entry.kind = raw.kinds[header.kind_names[entry.dtype]]
  if not entry.kind then
    refuse.with("%s has the unknown dtype %s", who, quoted(entry.dtype))
  end
  if not entry.rank then refuse.with("invalid header: %s has no shape", who) end
  raw.check_shape(entry.shape, entry.rank, who)
  local at = entry.at
  if not (entry.ends == 2 and is_offset(at[1]) and is_offset(at[2])) then
    refuse.with("invalid header: %s has no data_offsets", who)
  end
  entry.first, entry.last = at[1], at[2]
end


-- Reads an entry into the one table that all share.
local function read_entry(h, name, at)
  local entry = h.entry
  local behind, dtype, rank, ends, odd = json.entry(h.text, at, entry.shape, entry.at)
  entry.name, entry.dtype, entry.rank, entry.ends, entry.odd = name, dtype, rank, ends, odd
  check_entry(entry)
  return entry, behind
end


---@param h heed.safetensors.header
---@param place integer
---@return heed.safetensors.entry entry the next call changes it
function header.entry(h, place)
  return (read_entry(h, json.member(h.text, place)))
end


local function take_member(text, at, h, name, place)
  if h.names[name] or name == METADATA and h.metadata then json.refuse_duplicate(name, place) end
  if name == METADATA then
    h.metadata, at = read_metadata(text, at)
    return at
  end
  local n, entry, behind = #h.places + 1, read_entry(h, name, at)
  h.names[name], h.places[n], h.firsts[n] = place, place, entry.first
  h.odd = h.odd or entry.odd and name
  local later = entry.first > h.first or entry.first == h.first and entry.last > h.last
  h.ordered = h.ordered and later
  h.first, h.last = entry.first, entry.last
  return behind
end


-- Whether one entry stands before another: by first byte, last byte and name.
local function comes_before(h, i, k)
  if h.firsts[i] ~= h.firsts[k] then return h.firsts[i] < h.firsts[k] end
  local entry = header.entry(h, h.places[i])
  local last, name = entry.last, entry.name
  entry = header.entry(h, h.places[k])
  if last ~= entry.last then return last < entry.last end
  return json.before(name, entry.name)
end


local function order_places(h)
  local order, places = {}, {}
  for i = 1, #h.places do order[i] = i end
  table.sort(order, function(i, k) return comes_before(h, i, k) end)
  for i, k in ipairs(order) do places[i] = h.places[k] end
  h.places = places
end


---Reads a header; refuses one with a fault of its own.
---@param text string
---@return heed.safetensors.header
function header.read(text)
  local _, why = json.check(text, MAX_DEPTH)
  if why then refuse.with("invalid header: %s", why) end
  local start = text:find "[^ \t\r\n]"
  if text:sub(start, start) ~= "{" then refuse.with("invalid header: an object expected") end
  local h = {
    text = text, places = {}, firsts = {}, names = {}, metadata = false, odd = false,
    ordered = true, first = -1, last = -1, entry = {shape = {}, at = {}},
  }
  json.members(text, start, take_member, h)
  h.metadata = h.metadata or {}
  if not h.ordered then order_places(h) end
  h.firsts = nil
  return h
end


-- Checksum --------------------------------------------------------------

local function entry_text(entry)
  return json.encode {
    data_offsets = json.array(entry.at), dtype = entry.dtype, shape = json.array(entry.shape),
  }
end


---The checksum of a header's content, not of its spelling: of the header as json.encode writes it.
---@param h heed.safetensors.header
---@param metadata table<string, string>
---@return integer
function header.sum(h, metadata)
  local names = {METADATA}
  for name in next, h.names do names[#names + 1] = name end
  table.sort(names, json.before)
  local sum = core.crc32 "{"
  for i, name in ipairs(names) do
    local value = name == METADATA and json.encode(metadata)
                  or entry_text(header.entry(h, h.names[name]))
    sum = core.crc32((i > 1 and "," or "") .. json.encode(name) .. ":" .. value, sum)
  end
  return core.crc32("}", sum)
end


return header
