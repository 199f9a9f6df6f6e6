-- heed.mask: who may attend, as values that compose with Lua's own operators.
--
--   local mask = heed.mask.causal() & (heed.mask.window(64, 0) | heed.mask.prefix(4))
--   heed.attention(q, k, v, {mask = mask})
--   print(mask)                   -- draws it
--
-- Query i stands at position p = i + S - T among the keys j, so that the last query stands at the
-- last key: T queries behind a cache of S - T keys need nothing else. A mask is a rule, which
-- kernels ask for each tile; no T x S matrix is made but of what is given as one.
--
-- A rule is a list of words and numbers in postfix order: src/op/masks.def is the table of words.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"

local kind = options.kind

local mask = {}

-- Words by name, and by number their grammar.
local WORD <const> = options.strict("a rule's word", core.mask_words())

local FAR <const> = math.mininteger // 2     -- beyond any key
-- A rule of more numbers or of more tensors is made dense in parts.
local LONGEST <const> = 200
local MOST <const> = 32
local REMEMBERED <const> = 64                -- shapes that a predicate was made dense for
local DRAWN <const> = 32                     -- most rows and columns of a picture
local USUAL <const> = 8                      -- rows and columns where no tensor gives sizes

---@class heed.Mask: who may attend
---@operator band(heed.Mask|heed.Tensor): heed.Mask
---@operator bor(heed.Mask|heed.Tensor): heed.Mask
---@operator bnot: heed.Mask
local Mask = {__name = "heed.Mask"}

local methods = {}

-- The contents of a mask: its rule; the operands of the rule's words, tensors or tables for
-- predicates; its text; parts, the masks that an operator joined.
local inside = setmetatable({}, {__mode = "k"})

function Mask.__index(_, name)
  return methods[name] or options.refuse_name("mask", name, methods)
end

function Mask.__newindex(_, name)
  heed.fail("mask: a mask stays as it is; field %s cannot be set", kind(name))
end


---Whether a value is a mask.
---@param value any
---@return boolean
function mask.is(value)
  return rawequal(getmetatable(value), Mask)
end

local is_mask, is_tensor = mask.is, heed.is_tensor


local function new(text, rule, operands, parts)
  local m = setmetatable({}, Mask)
  inside[m] = {text = text, rule = rule, operands = operands or {}, parts = parts or {}}
  return m
end


-- Arguments --------------------------------------------------------------

local function shape_text(t)
  return tostring(t.shape)
end


-- A tensor of one type and at most so many dimensions.
local function check_tensor(who, name, t, dtype, most)
  if is_tensor(t) and t.dtype == dtype and t:dim() <= most then return t end
  local hint = is_tensor(t) and t.dtype:find("float") and dtype == "bool"
               and "; what is added to the scores is called 'bias'" or ""
  heed.fail("mask.%s: argument '%s': %s tensor of at most %d dimensions expected, got %s%s%s", who,
            name, dtype == "bool" and "a bool" or "an int64", most, kind(t),
            is_tensor(t) and " and type " .. t.dtype or "", hint)
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
  check_tensor("tensor", "t", t, "bool", 4)
  return new("tensor" .. shape_text(t), {WORD.tensor}, {t})
end


---Where a function gives true. The function is called once for each shape: use it where no rule
---does.
---@param f fun(b: integer?, h: integer?, i: integer, j: integer): boolean sequence, head, row of
---the query and of the key, all from 1
---@param given? {batch: boolean, heads: boolean} false: the same for all sequences, for all heads;
---b or h is nil then
---@return heed.Mask
function mask.predicate(f, given, ...)
  options.no_more("mask.predicate", 2, ...)
  local o = options.read("mask.predicate", given, {batch = true, heads = true})
  options.callable("mask.predicate", "argument 'f'", f)
  local predicate = {f = f, batch = o.batch, heads = o.heads, dense = {}, n = 0}
  return new("predicate(f)", {WORD.tensor}, {predicate})
end


-- Predicates -------------------------------------------------------------

local function ask(f, b, h, i, j)
  local may = f(b, h, i, j)
  if type(may) == "boolean" then return may end
  heed.fail("mask.predicate: f(%s, %s, %d, %d): a boolean expected, got %s", tostring(b),
            tostring(h), i, j, kind(may))
end


-- The answers, (B or 1, H or 1, T, S).
local function answers(p, B, H, T, S)
  local list, n = {}, 0
  for b = 1, B do
    for h = 1, H do
      for i = 1, T do
        for j = 1, S do
          n = n + 1
          list[n] = ask(p.f, p.batch and b or nil, p.heads and h or nil, i, j)
        end
      end
    end
  end
  if n == 0 then return heed.empty(B, H, T, S, {dtype = "bool"}) end
  return heed.tensor(list, {dtype = "bool"}):view(B, H, T, S)
end


-- The same, made once for each shape and device.
local function remembered(p, B, H, T, S, device)
  B, H = p.batch and B or 1, p.heads and H or 1
  local key = ("%d %d %d %d %s"):format(B, H, T, S, device)
  if not p.dense[key] then
    if p.n == REMEMBERED then p.dense, p.n = {}, 0 end
    p.dense[key], p.n = heed.keep(answers(p, B, H, T, S):to(device)), p.n + 1
  end
  return p.dense[key]
end


-- Operators --------------------------------------------------------------

local function as_mask(value)
  if is_mask(value) then return value end
  if is_tensor(value) then return mask.tensor(value) end
  heed.fail("mask: a mask or a bool tensor expected, got %s", kind(value))
end


local function append(list, more)
  for _, value in ipairs(more) do list[#list + 1] = value end
  return list
end


local function in_parentheses(m)
  return #m.parts == 2 and "(" .. m.text .. ")" or m.text
end


local function join(a, b, word, sign)
  local parts = {as_mask(a), as_mask(b)}
  a, b = inside[parts[1]], inside[parts[2]]
  local rule = append(append(append({}, a.rule), b.rule), {word})
  return new(("%s %s %s"):format(in_parentheses(a), sign, in_parentheses(b)), rule,
             append(append({}, a.operands), b.operands), parts)
end

function Mask.__band(a, b) return join(a, b, WORD["and"], "&") end

function Mask.__bor(a, b) return join(a, b, WORD["or"], "|") end

function Mask.__bnot(m)
  local a = inside[m]
  return new("~" .. in_parentheses(a), append(append({}, a.rule), {WORD["not"]}), a.operands, {m})
end


-- For attention ----------------------------------------------------------

-- A predicate's answers have as many dimensions as the queries.
local function without_dimensions(t, rank)
  if rank == 4 then return t end
  t = t:squeeze(2)
  return rank == 3 and t or t:squeeze(1)
end


local function check_device(m, device)
  for _, one in ipairs(m.operands) do
    if is_tensor(one) and one.device ~= device then
      heed.fail("attention: argument 'mask': a tensor of %s is on %s, the queries are on %s; make "
                .. "the mask of tensors there", m.text, one.device, device)
    end
  end
end


local function tensors_of(m, B, H, T, S, rank, device)
  local tensors = m.operands
  for n, one in ipairs(m.operands) do
    if not is_tensor(one) then
      if tensors == m.operands then tensors = append({}, tensors) end
      tensors[n] = without_dimensions(remembered(one, B, H, T, S, device), rank)
    end
  end
  return tensors
end


-- Where the tensors of a mask are, or else where new ones are made.
local function device_of(m)
  for _, one in ipairs(m.operands) do
    if is_tensor(one) then return one.device end
  end
  return heed.empty(0).device
end


-- A rule that is too long for one call is joined from the dense parts of it.
local function dense(value, B, H, T, S, device)
  local m = inside[value]
  if #m.rule <= LONGEST and #m.operands <= MOST then
    local tensors = tensors_of(m, B, H, T, S, 4, device)
    return core.attention_mask({B, H, T, S}, m.rule, tensors):to(device)
  end
  local a, b = m.parts[1], m.parts[2]
  a, b = dense(a, B, H, T, S, device), b and dense(b, B, H, T, S, device)
  local word = m.rule[#m.rule]
  if word == WORD["not"] then return ~a end
  return word == WORD["and"] and a & b or a | b
end


---A mask as attention takes it: a rule and its tensors.
---@param value heed.Mask
---@param B integer
---@param H integer
---@param T integer
---@param S integer
---@param rank integer of the queries
---@param device heed.device
---@return integer[] rule
---@return heed.Tensor[] operands
---@package
function mask.resolve(value, B, H, T, S, rank, device)
  local m = inside[value]
  check_device(m, device)
  if #m.rule > LONGEST or #m.operands > MOST then
    return {WORD.tensor}, {without_dimensions(dense(value, B, H, T, S, device), rank)}
  end
  return m.rule, tensors_of(m, B, H, T, S, rank, device)
end


-- Methods ----------------------------------------------------------------

---The mask as a tensor of bools (B, H, T, S), true where one may attend.
---@param B integer
---@param H integer
---@param T integer
---@param S integer
---@return heed.Tensor
function methods:dense(B, H, T, S, ...)
  if not is_mask(self) then
    heed.fail("mask:dense: a mask expected, got %s; write m:dense(B, H, T, S)", kind(self))
  end
  options.no_more("mask:dense", 4, ...)
  local sizes = {B, H, T, S}
  for n, name in ipairs {"B", "H", "T", "S"} do
    sizes[n] = options.count("mask:dense", "argument '" .. name .. "'", sizes[n], 0)
  end
  B, H, T, S = sizes[1], sizes[2], sizes[3], sizes[4]
  return core.called("mask:dense", dense, self, B, H, T, S, device_of(inside[self]))
end


-- Printing ---------------------------------------------------------------

-- Sizes that the tensors of a rule have, at least those of `size`.
local function grow(size, t, dims)
  for n = 1, #dims do
    local at = t:dim() - #dims + n
    if at > 0 then size[dims[n]] = math.max(size[dims[n]] or 1, t:size(at)) end
  end
end


-- Calls f(word, grammar) for each word of a rule.
local function each_word(rule, f)
  local at = 1
  while at <= #rule do
    local grammar = WORD[rule[at]]
    f(rule[at], grammar)
    at = at + 1 + grammar.numbers
  end
end


-- B, H, T and S for a picture.
local function sizes_of(m)
  local size, operand = {}, 0
  each_word(m.rule, function(word, grammar)
    if not grammar.dims then return end
    operand = operand + 1
    local t = m.operands[operand]
    if is_tensor(t) then grow(size, t, grammar.dims) end
    if word == WORD.lengths and t:numel() > 0 then
      size.least = math.max(size.least or 0, t:max():item())
    end
  end)
  local S = size.S or math.max(size.T or USUAL, size.least or 0)
  local T = size.T
  if not T or T == 1 then T = S end
  return size.B or 1, size.H or 1, T, S == 1 and T or S
end


local function draw(m)
  local B, H, T, S = sizes_of(inside[m])
  local square = m:dense(B, H, T, S):select(1, 1):select(1, 1):totable()
  local lines = {}
  for i = 1, math.min(T, DRAWN) do
    local line = {}
    for j = 1, math.min(S, DRAWN) do line[j] = square[i][j] and "■" or "·" end
    lines[i] = "  " .. table.concat(line, " ") .. (S > DRAWN and " …" or "")
  end
  if T > DRAWN then lines[#lines + 1] = "  …" end
  if B > 1 or H > 1 then
    lines[#lines + 1] = ("  sequence 1 of %d, head 1 of %d"):format(B, H)
  end
  return table.concat(lines, "\n")
end


-- The rule, and below it who may attend: queries down, keys across.
function Mask.__tostring(m)
  local good, picture = pcall(draw, m)         -- sizes of tensors may not fit together
  return inside[m].text .. (good and "\n" .. picture or "")
end


---Whether a mask numbers keys from the first one on, so that it means something else where others
---come first: `prefix` does, `causal` and `window` do not.
---@param m heed.Mask
---@return boolean
---@package
function mask.is_absolute(m)
  local absolute = false
  each_word(inside[m].rule, function(_, grammar) absolute = absolute or grammar.absolute end)
  return absolute
end


return options.strict("heed.mask", mask)
