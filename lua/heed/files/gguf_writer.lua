-- Writing GGUF, version 3: metadata with their types, and tensors, each at its own offset. What
-- heed or llama.cpp could not read again is a wrong call.

local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"
local types = require "heed.files.gguf_types"

local fail, pack, quoted = heed.fail, string.pack, refuse.quoted

local gguf_writer = {}

local LONGEST_TENSOR <const> = 63      -- bytes of a tensor's name, which llama.cpp takes
local ALIGNMENT <const>, LEAST_ALIGNMENT <const> = types.ALIGNMENT, 8


local function text(s) return pack("<s8", s) end


-- Values of metadata -----------------------------------------------------

-- Whether a float32 holds a number as it is.
local function is_single(value)
  return value ~= value or string.unpack("<f", pack("<f", value)) == value
end


-- The type of numbers, the smallest of those that programs expect.
local function type_of_numbers(list)
  local least, most, whole, single = 0, 0, true, true
  for i = 1, rawlen(list) do
    local value = rawget(list, i)
    whole, single = whole and math.type(value) == "integer", single and is_single(value)
    least, most = math.min(least, value), math.max(most, value)
  end
  if not whole then return single and "float32" or "float64" end
  if least >= 0 and most < 1 << 32 then return "uint32" end
  return least >= -1 << 31 and most < 1 << 31 and "int32" or "int64"
end


-- The type of a value whose type nobody has said.
local function type_of(key, value)
  if type(value) == "string" then return "string" end
  if type(value) == "boolean" then return "bool" end
  if type(value) == "number" then return type_of_numbers{value} end
  if type(value) ~= "table" then
    fail("save: %s: a number, a boolean, a string or a list expected, got %s", key,
         options.kind(value))
  end
  local kind = type(rawget(value, 1))
  for i = 1, rawlen(value) do
    if type(rawget(value, i)) ~= kind then fail("save: %s: values of one type expected", key) end
  end
  if kind == "number" or kind == "nil" then return type_of_numbers(value) .. "[]" end
  return kind == "table" and "array[]" or type_of(key, rawget(value, 1)) .. "[]"
end


local function wrong(key, name, value)
  fail("save: %s: %s expected, got %s", key, name, options.kind(value))
end


-- A number as bytes, nil where the type lacks it; of 64 bits without a sign it may be a text of
-- digits.
local function packed(of, value)
  local bits = of.name == "uint64" and type(value) == "string" and types.bits(value)
  if bits then return pack(of.format, bits) end
  if type(value) ~= "number" then return nil end
  if of.name:find("^float") then
    local bytes = pack(of.format, value)
    local there = string.unpack(of.format, bytes)
    return (value - value ~= 0 or there - there == 0) and bytes or nil
  end
  local n = math.tointeger(value)
  local good, bytes = pcall(pack, of.format, n)
  return n and good and (of.name ~= "uint64" or n >= 0) and bytes or nil
end


local function number_bytes(key, of, value)
  return packed(of, value) or wrong(key, of.name, value)
end


---Whether a type of numbers has a value.
---@param name string of the type
---@param value any
---@return boolean
function gguf_writer.holds(name, value)
  return packed(types.values[types.by_name[name]], value) ~= nil
end


local value_bytes

local function array_bytes(key, name, value, depth)
  local of = types.values[types.by_name[name] or -1]
  if not of then fail("save: %s: the type %s is not known", key, quoted(name .. "[]")) end
  local head = pack("<I4", types.by_name[name])
  if type(value) == "string" and of.format and of.size == 1 then return head .. text(value) end
  if type(value) ~= "table" then wrong(key, "a list of " .. name, value) end
  if depth > types.MOST_LISTS then
    fail("save: %s: arrays within at most %d others expected", key, types.MOST_LISTS)
  end
  options.check_list("save", value)
  local parts, n = {}, rawlen(value)
  if of.name == "bool" and n > types.MOST_FLAGS then
    fail("save: %s: at most %d booleans expected, got %d", key, types.MOST_FLAGS, n)
  end
  for i = 1, n do
    local one = rawget(value, i)
    local inner = name == "array" and type_of(key, one) or name
    if name == "array" and not inner:find("%[%]$") then wrong(key, "a list of lists", one) end
    parts[i] = value_bytes(key, inner, one, depth + 1)
  end
  return head .. pack("<i8", n) .. table.concat(parts)
end


-- The bytes of a value of a type.
function value_bytes(key, name, value, depth)
  local element = name:match("^(.*)%[%]$")
  if element then return array_bytes(key, element, value, depth) end
  local of = types.values[types.by_name[name] or -1]
  if not of or name == "array" then
    fail("save: %s: the type %s is not known", key, quoted(name))
  end
  if of.format then return number_bytes(key, of, value) end
  if name == "bool" then
    return type(value) == "boolean" and (value and "\1" or "\0") or wrong(key, "a boolean", value)
  end
  return type(value) == "string" and text(value) or wrong(key, "a string", value)
end


local function check_name(name, what, longest)
  if type(name) == "string" and #name > 0 and #name <= longest and utf8.len(name) then return end
  fail("save: UTF-8 of 1 to %d bytes expected as %s in a .gguf file, got %s", longest, what,
       type(name) == "string" and quoted(name) or options.kind(name))
end


-- Keys of the format itself, whose values say something of the file. heed reads alignments of any
-- power of two; other readers want a uint32 of at least 8.
local function check_own_keys(metadata, kinds)
  local alignment, why = refuse.try(types.alignment, metadata)
  if why then fail("save: %s", why) end
  local is_there = metadata[ALIGNMENT] ~= nil
  if is_there and (alignment < LEAST_ALIGNMENT or (kinds[ALIGNMENT] or "uint32") ~= "uint32") then
    fail("save: key %s: a uint32 of at least %d expected, got %s %d", quoted(ALIGNMENT),
         LEAST_ALIGNMENT, kinds[ALIGNMENT] or "uint32", alignment)
  end
  local n = metadata["split.count"]
  if n ~= nil and n ~= 1 then
    fail('save: key "split.count": 1 expected, since one file is written, got %s', options.kind(n))
  end
end


-- What a table holds itself: a metatable that hides would answer for keys that are not written.
local function check_table(value, what)
  if value == nil then return {} end
  if type(value) == "table" and not getmetatable(value) then
    local own = {}
    for key, each in next, value do own[key] = each end
    return own
  end
  fail("save: a table expected as %s, got %s", what, options.kind(value))
end


-- The bytes of all metadata, and how many there are. Types of keys that are not there are those of
-- metadata that the caller has taken out.
local function metadata_bytes(metadata, kinds)
  local names, parts = {}, {}
  for name in next, metadata do
    check_name(name, "a key", types.LONGEST_NAME)
    names[#names + 1] = name
  end
  table.sort(names, json.before)
  for i, name in ipairs(names) do
    local key, value = "key " .. quoted(name), metadata[name]
    local kind = kinds[name]
    if kind == nil then kind = type_of(key, value) end
    if type(kind) ~= "string" then
      fail("save: %s: the name of a type expected, got %s", key, options.kind(kind))
    end
    local number = kind:find("%[%]$") and types.ARRAY or types.by_name[kind] or 0
    parts[i] = text(name) .. pack("<I4", number) .. value_bytes(key, kind, value, 1)
  end
  return table.concat(parts), #names
end


-- Tensors ----------------------------------------------------------------------

-- Names in order, numbers in them by their size.
local function before(a, b)
  local function key(s)
    return (s:gsub("%d+", function(n) return ("%012d"):format(math.tointeger(n) or 0) end))
  end
  local x, y = key(a), key(b)
  if x ~= y then return json.before(x, y) end
  return json.before(a, b)
end


local function check_tensor(name, t)
  check_name(name, "a tensor's name", LONGEST_TENSOR)
  if not options.is_alive(t) then
    fail("save: a tensor expected as %s, got %s", quoted(name), options.kind(t))
  elseif t:dim() > types.MOST_AXES or t:numel() == 0 then
    fail("save: at most %d dimensions and at least one element expected in a .gguf file, got a "
         .. "tensor of shape %s as %s", types.MOST_AXES, tostring(t.shape), quoted(name))
  end
end


-- Where a tensor lies; sizes stand from the last axis to the first.
local function entry_bytes(name, t, number, offset)
  local sizes = {}
  for i = t:dim(), 1, -1 do sizes[#sizes + 1] = pack("<i8", t:size(i)) end
  return text(name) .. pack("<I4", #sizes) .. table.concat(sizes) .. pack("<I4i8", number, offset)
end


---The parts of a file.
---@param tensors table<string, heed.Tensor>
---@param metadata? table<string, any>
---@param kinds? table<string, string> types of the metadata; others follow from their values
---@return (string|heed.Tensor)[]
function gguf_writer.encode(tensors, metadata, kinds)
  metadata, kinds = check_table(metadata, "metadata"), check_table(kinds, "types of metadata")
  local names, entries, parts, stop = {}, {}, {}, 0
  for name, t in next, tensors do
    check_tensor(name, t)
    names[#names + 1] = name
  end
  table.sort(names, before)
  local keys, count = metadata_bytes(metadata, kinds)
  check_own_keys(metadata, kinds)
  local alignment = types.alignment(metadata)
  for i, name in ipairs(names) do
    local t = tensors[name]
    local number, bytes = types.number(t.dtype, t:numel(), quoted(name))
    entries[i] = entry_bytes(name, t, number, stop)
    stop = types.aligned(stop + bytes, alignment)
    parts[2 * i], parts[2 * i + 1] = raw.written(t), ("\0"):rep(-bytes % alignment)
  end
  local head = types.MAGIC .. pack("<I4i8i8", types.VERSION, #names, count) .. keys
               .. table.concat(entries)
  parts[1] = head .. ("\0"):rep(-#head % alignment)
  return parts
end


return gguf_writer
