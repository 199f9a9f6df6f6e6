-- heed.search: exact search among vectors, each of which has a key.
--
--   local index = heed.search.index{dim = 384, kind = "int8"}
--   index:add({"a.txt", "b.txt"}, model:embed{"a text", "another"})
--   local keys, scores = index:query(model:embed("words", {prompt = "query"}), 10)
--   index:save("texts.index")
--
-- Vectors are kept as floats, as whole numbers of 8 bits with a scale for each vector, or as their
-- signs. All of them are compared with a query (src/search). Equal scores keep the order in which
-- vectors came.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local saving = require "heed.save"
local whole = require "heed.files.whole"

local fail, kind_of = heed.fail, options.kind
local native <const> = core.vectors

local FORMAT <const> = "heed.search 1"
local MOST <const> = 1 << 16                 -- numbers of a vector
local FIRST <const> = 64                     -- vectors that an index has room for at first

local M = {}


-- Kinds ----------------------------------------------------------------------

-- Of each kind: the type of its rows, how many elements one has, and what rows are made of vectors
-- (N, dim); also the scale of each (N).
local KINDS <const> = {}

KINDS.float32 = {dtype = "float32", width = function(dim) return dim end,
                 rows = function(x) return x end}

-- Negative numbers are what they are in two's complement.
KINDS.int8 = {dtype = "uint8", scaled = true, width = function(dim) return dim end}
function KINDS.int8.rows(x)
  local scales = x:abs():max(2, true) / 127
  local q = (x / scales:masked_fill(scales:eq(0), 1)):round():clamp(-127, 127)
  return (q + q:lt(0):to("float32") * 256):to("uint8"), scales:squeeze(2)
end

KINDS.bits = {dtype = "uint8", width = function(dim) return (dim + 63) // 64 * 8 end}
function KINDS.bits.rows(x)
  local n, dim = x:size()
  local wide = KINDS.bits.width(dim)
  local signs = x:gt(0):to("float32"):pad({0, wide * 8 - dim}):reshape(n, wide, 8)
  local powers = heed.tensor({1, 2, 4, 8, 16, 32, 64, 128}, {dtype = "float32", device = "cpu"})
  return (signs * powers):sum(3):to("uint8")
end


-- How alike vectors are. ------------------------------------------------------

local SIMILARITIES <const> = {}

function SIMILARITIES.dot(a, b) return a:matmul(b.T) end

function SIMILARITIES.cosine(a, b)
  return a:normalize(2, -1):matmul(b:normalize(2, -1).T)
end

function SIMILARITIES.euclidean(a, b)
  return -(a:unsqueeze(2) - b:unsqueeze(1)):norm(2, 3)
end

function SIMILARITIES.manhattan(a, b)
  return -(a:unsqueeze(2) - b:unsqueeze(1)):abs():sum(3)
end


-- A function by the name of a similarity, of those in a table.
local function check_word(who, what, word, known)
  if type(word) == "string" and rawget(known, word) then return word end
  local names = options.names(known)
  local near = core.nearest(tostring(word), names)
  fail("%s: %s expected as option %s, got %s%s", who, table.concat(names, ", "), what,
       kind_of(word), near and ("; did you mean '%s'?"):format(near) or "")
end


-- Vectors (N, D) of a list or (D) of one.
local function check_vectors(who, what, x)
  if not options.is_alive(x) or not x.dtype:find "float" then
    fail("%s: a tensor of a float type expected as %s, got %s", who, what, kind_of(x))
  elseif x:dim() == 0 or x:dim() > 2 then
    fail("%s: vectors (N, D), or one (D) expected as %s, got shape %s", who, what,
         tostring(x.shape))
  end
  return x:dim() == 1 and x:unsqueeze(1) or x, x:dim() == 1
end


---How alike each of some vectors is to each of others: their cosine, their product, or their
---distance times -1.
---@param a heed.Tensor (N, D), or (D)
---@param b heed.Tensor (M, D), or (D)
---@param given? {similarity: "cosine"|"dot"|"euclidean"|"manhattan"} cosine unless given
---@return heed.Tensor (N, M)
function M.similarity(a, b, given, ...)
  options.no_more("search.similarity", 3, ...)
  local o = options.read("search.similarity", given, {similarity = "cosine"})
  local f = SIMILARITIES[check_word("search.similarity", "similarity", o.similarity, SIMILARITIES)]
  local x = check_vectors("search.similarity", "a", a)
  local y = check_vectors("search.similarity", "b", b)
  if x.dtype ~= y.dtype then
    fail("search.similarity: vectors of one type expected, got %s and %s", x.dtype, y.dtype)
  elseif x:size(2) ~= y:size(2) then
    fail("search.similarity: vectors of one size expected, got shapes %s and %s", tostring(a.shape),
         tostring(b.shape))
  end
  return f(x, y)
end


-- An index -------------------------------------------------------------------

---Vectors with keys.
---@class heed.search.Index
---@field dim integer numbers of a vector
---@field kind "float32"|"int8"|"bits"
---@field similarity "cosine"|"dot"
---@field count integer how many vectors there are
---@field keys (string|integer)[] by position
---@field places table<string|integer, integer> the position of a key
---@field rows heed.Tensor (room, width)
---@field scales heed.Tensor|false (room) of int8
local Index = {__name = "heed.search.Index"}
Index.__index = Index

local function is_index(value) return rawequal(getmetatable(value), Index) end


local function new(dim, kind, similarity)
  local row, cpu = KINDS[kind], "cpu"
  return setmetatable({
    dim = dim, kind = kind, similarity = similarity, count = 0, keys = {}, places = {},
    rows = heed.keep(heed.empty({0, row.width(dim)}, {dtype = row.dtype, device = cpu})),
    scales = row.scaled and heed.keep(heed.empty({0}, {dtype = "float32", device = cpu})) or false,
  }, Index)
end


local INDEXED <const> = {cosine = true, dot = true}

---@class heed.search.index.options
---@field dim integer numbers of a vector
---@field kind? "float32"|"int8"|"bits" how vectors are kept: float32 unless given
---@field similarity? "cosine"|"dot" cosine unless given

---An index without vectors.
---@param given heed.search.index.options
---@return heed.search.Index
function M.index(given, ...)
  options.no_more("search.index", 1, ...)
  local o = options.read("search.index", given, {dim = options.any, kind = "float32",
                                                 similarity = "cosine"})
  local dim = options.count("search.index", "option dim", o.dim)
  if dim > MOST then
    fail("search.index: at most %d numbers of a vector expected as option dim, got %d", MOST, dim)
  end
  return new(dim, check_word("search.index", "kind", o.kind, KINDS),
             check_word("search.index", "similarity", o.similarity, INDEXED))
end


-- Vectors of the index's size as float32 on the CPU, (N, dim), of length 1 where their cosine
-- counts; and whether it was one.
local function prepared(self, who, vectors)
  local x, single = check_vectors(who, "vectors", vectors)
  if x:size(2) ~= self.dim then
    fail("%s: vectors of %d numbers expected, got shape %s", who, self.dim,
         tostring(vectors.shape))
  end
  x = x:detach():to("cpu")
  if not x:isfinite():all() then fail("%s: finite numbers expected in vectors", who) end
  local wide = x
  x = x:to("float32")
  if not x:isfinite():all() then
    fail("%s: numbers that float32 can hold expected in vectors, got %g", who,
         wide:masked_select(x:isfinite():logical_not())[1])
  end
  if self.similarity == "cosine" then x = x:normalize(2, -1) end
  return x:contiguous(), single
end


local function is_key(key) return type(key) == "string" or math.type(key) == "integer" end

-- A list of keys; of one key, or a list without holes.
local function check_keys(who, keys)
  if is_key(keys) then return {keys} end
  if type(keys) ~= "table" then
    fail("%s: a key, a string or an integer, or a list of keys expected, got %s", who,
         kind_of(keys))
  end
  options.check_list(who, keys)
  local list, seen = {}, {}
  for i = 1, options.last(keys) do
    local key = rawget(keys, i)
    if not is_key(key) then
      fail("%s: a string or an integer expected as key %d, got %s", who, i, kind_of(key))
    elseif seen[key] then
      fail("%s: each key once expected, got %s at positions %d and %d", who, kind_of(key),
           seen[key], i)
    end
    list[i], seen[key] = key, i
  end
  return list
end


-- Where a key's vector stands. What a failed call left behind counts for nothing.
local function place_of(self, key)
  local i = self.places[key]
  return i and i <= self.count and rawequal(self.keys[i], key) and i or nil
end


-- A tensor with room for more rows, which has the first n of another.
local function widened(t, n, room)
  local size = {t:size()}
  size[1] = room
  local own = heed.empty(size, {dtype = t.dtype, device = "cpu"})
  own:narrow(1, 1, n):copy_(t:narrow(1, 1, n))
  return heed.keep(own)
end


---Adds vectors under keys that the index does not have.
---@param keys (string|integer)[]|string|integer
---@param vectors heed.Tensor (N, dim), or (dim) of one key
---@return heed.search.Index self
function Index:add(keys, vectors)
  keys = check_keys("add", keys)
  return heed.no_grad(heed.scope, function()
    local x, n = prepared(self, "add", vectors), self.count
    if #keys ~= #x then
      fail("add: as many vectors as keys expected, %d, got %d", #keys, #x)
    end
    for i, key in ipairs(keys) do
      if place_of(self, key) then
        fail("add: a key that is not there yet expected at position %d, got %s; remove it first", i,
             kind_of(key))
      end
    end
    if #keys == 0 then return self end
    local more, scales = KINDS[self.kind].rows(x)
    local rows, own_scales, all = self.rows, self.scales, n + #keys
    if all > rows:size(1) then
      local room = math.max(all, 2 * n, FIRST)
      rows = widened(rows, n, room)
      own_scales = own_scales and widened(own_scales, n, room)
    end
    rows:narrow(1, n + 1, #keys):copy_(more)
    if scales then own_scales:narrow(1, n + 1, #keys):copy_(scales) end
    for i, key in ipairs(keys) do self.keys[n + i], self.places[key] = key, n + i end
    self.rows, self.scales, self.count = rows, own_scales, all
    return self
  end)
end


---Removes vectors by their keys, all of which are there. The others keep their order.
---@param keys (string|integer)[]|string|integer
---@return heed.search.Index self
function Index:remove(keys)
  keys = check_keys("remove", keys)
  local gone = {}
  for i, key in ipairs(keys) do
    local place = place_of(self, key)
    if not place then fail("remove: a key of the index expected at position %d, got %s", i,
                           kind_of(key)) end
    gone[place] = true
  end
  local kept, left, places = {}, {}, {}
  for i = 1, self.count do
    if not gone[i] then
      kept[#kept + 1], left[#left + 1] = i, self.keys[i]
      places[self.keys[i]] = #left
    end
  end
  local rows, scales = heed.no_grad(heed.scope, function()
    local at = heed.tensor(kept, {dtype = "int64", device = "cpu"})
    return heed.keep(self.rows:index_select(1, at)),
           self.scales and heed.keep(self.scales:index_select(1, at))
  end)
  self.rows, self.scales, self.keys, self.places, self.count = rows, scales, left, places, #left
  return self
end


---Whether the index has a key.
---@param key string|integer
---@return boolean
function Index:has(key)
  return is_key(key) and place_of(self, key) ~= nil
end


-- How many rows are scored again by a query's floats, for each one that is asked for.
local function rescored(self, o)
  if o.rescore == nil then return self.kind ~= "float32" and 4 or 0 end
  if self.kind == "float32" then
    fail("query: option rescore: vectors of kind float32 are compared as they are")
  end
  return o.rescore ~= false and options.count("query", "option rescore", o.rescore) or 0
end


-- Keys of positions, a list.
local function keys_at(self, positions)
  local list = {}
  for i, at in ipairs(positions) do list[i] = self.keys[at] end
  return list
end


---@class heed.search.query.options
---@field rescore? integer|false of int8 and bits: how many vectors, for each that is asked for, are
---compared again with the query's own numbers; 4 unless given. false: none, and scores are those of
---the numbers, or the signs, that are kept

---The keys of the vectors that are most like a query, best first, and their scores.
---@param vectors heed.Tensor (dim), or (N, dim)
---@param k? integer how many; 10 unless given, and at most as many as there are
---@param given? heed.search.query.options
---@return (string|integer)[]|(string|integer)[][] keys a list; of (N, dim) a list of lists
---@return heed.Tensor scores (k), or (N, k)
function Index:query(vectors, k, given)
  local o = options.read("query", given, {rescore = options.any})
  k = math.min(k == nil and 10 or options.count("query", "k", k), self.count)
  local again = rescored(self, o)
  return heed.no_grad(function()
    local x, single = prepared(self, "query", vectors)
    local rows, scales = KINDS[self.kind].rows(x)
    local many = again > 0 and math.min(self.count, again < MOST and k * again or self.count) or k
    local positions = heed.empty({#x, many}, {dtype = "int64", device = "cpu"})
    local scores = heed.empty({#x, many}, {dtype = "float32", device = "cpu"})
    core.called("query", native.nearest, self.kind, self.dim, many, self.count, self.rows,
                self.scales or nil, #x, rows:contiguous(), scales and scales:contiguous() or nil,
                again > 0 and x or nil, positions, scores)
    scores = scores:narrow(2, 1, k):contiguous()
    local lists = positions:narrow(2, 1, k):totable()
    for i, list in ipairs(lists) do lists[i] = keys_at(self, list) end
    if single then return lists[1], scores[1] end
    return lists, scores
  end)
end


function Index:__len() return self.count end

function Index:__tostring()
  return ("heed.search.Index(%d vectors of %d, %s, %s)"):format(self.count, self.dim, self.kind,
                                                                 self.similarity)
end


-- Files ------------------------------------------------------------------------

-- Keys as tensors: integers; or the bytes of all of them, with their ends, and which are integers.
local function keys_to_tensors(keys, tensors)
  local whole_numbers, texts, ends, numbers, stop = true, {}, {}, {}, 0
  for i, key in ipairs(keys) do
    local text = tostring(key)
    whole_numbers = whole_numbers and type(key) == "number"
    stop = stop + #text
    texts[i], ends[i], numbers[i] = text, stop, type(key) == "number"
  end
  local function list(of, dtype) return heed.tensor(of, {dtype = dtype, device = "cpu"}) end
  if whole_numbers then
    tensors.keys = list(keys, "int64")
  else
    tensors.key_bytes = native.bytes(table.concat(texts)):to("cpu")
    tensors.key_ends, tensors.key_is_integer = list(ends, "int64"), list(numbers, "bool")
  end
end


---Saves the index as one safetensors file, which is complete or as it was before.
---@param path string
---@return true? done
---@return string? message
function Index:save(path)
  saving.check_ending("save", nil, path)
  local keys = table.move(self.keys, 1, self.count, 1, {})
  local tensors = {rows = self.rows:narrow(1, 1, self.count),
                   scales = self.scales and self.scales:narrow(1, 1, self.count) or nil}
  keys_to_tensors(keys, tensors)
  return saving.save(path, tensors, {
    format = FORMAT, dim = tostring(self.dim), kind = self.kind, similarity = self.similarity,
  })
end


local function take(tensors, name, dtype, shape)
  local t = tensors[name]
  tensors[name] = nil
  if not t then refuse.with("the tensor %s of an index expected", name) end
  if t.dtype ~= dtype or tostring(t.shape) ~= shape then
    refuse.with("the tensor %s: shape %s and type %s expected, got %s and %s", name, shape, dtype,
                tostring(t.shape), t.dtype)
  end
  return t
end


-- Keys that were written as bytes.
local function keys_of_bytes(tensors, n)
  local blob = tensors.key_bytes
  if blob:dim() ~= 1 or blob.dtype ~= "uint8" then refuse.with("key_bytes: bytes expected") end
  tensors.key_bytes = nil
  local text = native.bytes(blob:contiguous())
  local ends = take(tensors, "key_ends", "int64", ("(%d)"):format(n)):totable()
  local numbers = take(tensors, "key_is_integer", "bool", ("(%d)"):format(n)):totable()
  local keys, from = {}, 0
  for i = 1, n do
    if ends[i] < from or ends[i] > #text then refuse.with("key_ends: ends in order expected") end
    local key = text:sub(from + 1, ends[i])
    if numbers[i] then
      key = key:find "^-?%d+$" and math.tointeger(tonumber(key)) or refuse.with("keys: an integer "
            .. "expected, got %s", refuse.quoted(key))
    end
    keys[i], from = key, ends[i]
  end
  if from ~= #text then refuse.with("key_ends: the last one expected at the end") end
  return keys
end


local function read_keys(tensors, n)
  if tensors.key_bytes then return keys_of_bytes(tensors, n) end
  return take(tensors, "keys", "int64", ("(%d)"):format(n)):totable()
end


-- Makes an index of what a file has.
local function assembled(tensors, metadata)
  if type(tensors) ~= "table" or metadata.format ~= FORMAT then
    refuse.with("this is no index that heed.search has saved")
  end
  local dim, row = math.tointeger(tonumber(metadata.dim)), rawget(KINDS, metadata.kind or "")
  if not (dim and dim >= 1 and dim <= MOST and row and INDEXED[metadata.similarity or ""]) then
    refuse.with("the dim, kind and similarity of an index expected")
  end
  local self = new(dim, metadata.kind, metadata.similarity)
  local n = tensors.rows and tensors.rows:dim() == 2 and tensors.rows:size(1) or 0
  local rows = take(tensors, "rows", row.dtype, ("(%d, %d)"):format(n, row.width(dim)))
  local scales = row.scaled and take(tensors, "scales", "float32", ("(%d)"):format(n)) or false
  local keys, places = read_keys(tensors, n), {}
  for i, key in ipairs(keys) do
    if places[key] then refuse.with("keys: each one once expected") end
    places[key] = i
  end
  if next(tensors) then refuse.with("the tensor %s is not known", refuse.quoted(next(tensors))) end
  self.rows, self.scales = heed.keep(rows:contiguous()), scales and heed.keep(scales:contiguous())
  self.keys, self.places, self.count = keys, places, n
  return self
end


---@class heed.search.load.options
---@field mapped? boolean whether vectors stay in the file; false unless given

---Loads an index. With `mapped = true` its vectors are read from the file when they are compared,
---and processes share them, as `heed.load` has it.
---@param path string
---@param given? heed.search.load.options
---@return heed.search.Index? index
---@return string? message
function M.load(path, given, ...)
  options.no_more("search.load", 2, ...)
  whole.check_path("search.load", path)
  local o = options.read("search.load", given, {mapped = false})
  local tensors, more = saving.load(path, {device = "cpu", mapped = o.mapped})
  if not tensors then return nil, "search." .. more:gsub(" %({verify = false}.*", "") end
  local index, why = refuse.try(assembled, tensors, more)
  if index then return index end
  return nil, ("search.load: %s: %s"):format(path, why)
end


options.guard(Index, {add = 2, has = 1, query = 3, remove = 1, save = 1},
              {is = is_index, what = "an index", variable = "index"})
options.strict("index", Index)

return options.strict("heed.search", M)
