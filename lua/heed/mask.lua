-- heed.mask: who may attend, as values that compose with Lua's own operators.
--
--   local mask = heed.mask.causal() & (heed.mask.window(64, 0) | heed.mask.prefix(4))
--   heed.attention(q, k, v, {mask = mask})
--   print(mask)                   -- draws it
--
-- Query i stands at position p = i + S - T among the keys j, so that the last query stands at the
-- last key: T queries behind a cache of S - T keys need nothing else. A mask is a rule, which
-- kernels ask for each tile; no T x S matrix is made but of what is given as one.

local heed = require "heed"
local options = require "heed.internal.options"
local rule = require "heed.internal.rule"

local kind, is_tensor = options.kind, heed.is_tensor
local new, check_tensor, WORD = rule.new, rule.check_tensor, rule.WORD

local FAR <const> = math.mininteger // 2     -- beyond any key

local mask = {}


---Whether a value is a mask.
---@param value any
---@return boolean
function mask.is(value) return rule.is(value) end


local function shape_text(t)
  return tostring(t.shape)
end


-- A number of keys from 0 on; math.huge for all.
local function check_reach(who, name, n)
  if n == math.huge then return -FAR end
  return options.count("mask." .. who, "argument '" .. name .. "'", n, 0)
end


local function whole(n)
  return n == math.huge and "math.huge" or ("%d"):format(n)
end


-- Masks ------------------------------------------------------------------

---Keys up to the query's position.
---@param given? {offset: integer} the first query's position; S - T unless given
---@return heed.Mask
function mask.causal(given, ...)
  options.no_more("mask.causal", 1, ...)
  local offset = options.read("mask.causal", given, {offset = options.any}).offset
  if offset == nil then return new("causal()", {WORD.band, FAR, 0}) end
  local n = type(offset) == "number" and math.tointeger(offset)
  if not n then
    heed.fail("mask.causal: a whole number expected as option offset, got %s", kind(offset))
  end
  local at = math.min(math.max(n, FAR // 8), -(FAR // 8))       -- sums of both stay in range
  return new(("causal{offset = %d}"):format(n), {WORD.band_from, at, FAR, 0})
end


---Keys from p - left to p + right, of a query at position p; math.huge is without an end.
---@param left integer|number
---@param right? integer|number 0 unless given
---@return heed.Mask
function mask.window(left, right, ...)
  options.no_more("mask.window", 2, ...)
  if right == nil then right = 0 end
  local low, high = check_reach("window", "left", left), check_reach("window", "right", right)
  return new(("window(%s, %s)"):format(whole(left), whole(right)), {WORD.band, -low, high})
end


---The first keys of each sequence: as many as there are, where the rest is padding.
---@param lengths heed.Tensor int64 (B), from 0 to S
---@return heed.Mask
function mask.lengths(lengths, ...)
  options.no_more("mask.lengths", 1, ...)
  check_tensor("lengths", "lengths", lengths, "int64", 1)
  return new("lengths" .. shape_text(lengths), {WORD.lengths}, {lengths})
end


---The keys that are there: padding on either side, or holes.
---@param keys heed.Tensor bool (B, S), or (S)
---@return heed.Mask
function mask.keys(keys, ...)
  options.no_more("mask.keys", 1, ...)
  check_tensor("keys", "keys", keys, "bool", 2)
  return new("keys" .. shape_text(keys), {WORD.keys}, {keys})
end


---The first n keys, be there as many or not: with `|`, what all may attend to.
---@param n integer|heed.Tensor of each sequence: int64 (B)
---@return heed.Mask
function mask.prefix(n, ...)
  options.no_more("mask.prefix", 1, ...)
  if is_tensor(n) then
    check_tensor("prefix", "n", n, "int64", 1)
    return new("prefix" .. shape_text(n), {WORD.prefix}, {n})
  end
  n = options.count("mask.prefix", "argument 'n'", n, 0)
  return new(("prefix(%d)"):format(n), {WORD.first, n})
end


---Keys of the query's document: those whose id is that of the query's position.
---@param ids heed.Tensor int64 (B, S), or (S)
---@return heed.Mask
function mask.documents(ids, ...)
  options.no_more("mask.documents", 1, ...)
  check_tensor("documents", "ids", ids, "int64", 2)
  return new("documents" .. shape_text(ids), {WORD.documents}, {ids})
end


---Keys in the query's block of positions, in so many blocks before it and in so many after it.
---@param size integer
---@param before? integer|number 0 unless given; math.huge for all
---@param after? integer|number 0 unless given
---@return heed.Mask
function mask.blocks(size, before, after, ...)
  options.no_more("mask.blocks", 3, ...)
  size = options.count("mask.blocks", "argument 'size'", size)
  if before == nil then before = 0 end
  if after == nil then after = 0 end
  local low, high = check_reach("blocks", "before", before), check_reach("blocks", "after", after)
  return new(("blocks(%d, %s, %s)"):format(size, whole(before), whole(after)),
             {WORD.blocks, size, -low, high})
end


---Keys at every n-th position, counted from the query's: those that a multiple of n lies between.
---With `causal` it is dilated attention, and with `window` a dilated window.
---@param n integer
---@return heed.Mask
function mask.every(n, ...)
  options.no_more("mask.every", 1, ...)
  n = options.count("mask.every", "argument 'n'", n)
  return new(("every(%d)"):format(n), {WORD.every, n})
end


---Where a tensor is true.
---@param t heed.Tensor bool, broadcasts against (B, H, T, S) less the dimensions that queries lack
---@return heed.Mask
function mask.tensor(t, ...)
  options.no_more("mask.tensor", 1, ...)
  return rule.of_tensor(t)
end


---Where a function gives true. The function is called once for each shape: use it where no rule
---does. A layer with a cache counts the query's row from the first token on.
---@param f fun(b: integer?, h: integer?, i: integer, j: integer): boolean sequence, head, row of
---the query and of the key, all from 1
---@param given? {batch: boolean, heads: boolean} false: the same for all sequences, for all heads;
---b or h is nil then
---@return heed.Mask
function mask.predicate(f, given, ...)
  options.no_more("mask.predicate", 2, ...)
  local o = options.read("mask.predicate", given, {batch = true, heads = true})
  options.callable("mask.predicate", "argument 'f'", f)
  return rule.of_predicate(f, o)
end


return options.strict("heed.mask", mask)
