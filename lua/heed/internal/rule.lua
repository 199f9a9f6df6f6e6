-- A mask as a value: a rule with the tensors that it speaks of, its operators, what heed.attention
-- takes of it, its picture. heed.mask has the functions that make masks.
--
-- A rule is a list of words and numbers in postfix order: src/op/masks.def is the table of words.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"
local recording = require "heed.internal.recording"

local kind, is_tensor = options.kind, heed.is_tensor

local rule = {}

-- Words by name, and by number their grammar.
rule.WORD = options.strict("a rule's word", core.mask_words())

local WORD <const> = rule.WORD

-- A rule of more numbers or of more tensors stays in parts, which are made dense one by one.
local LONGEST <const> = 200
local MOST <const> = 32
local DEEPEST <const> = 10001                -- operators within each other, and what they join
local WORDIEST <const> = 1 << 20             -- words and numbers of all parts
local REMEMBERED <const> = 64                -- shapes that a predicate was made dense for
local POLLED <const> = 4096                  -- answers of a predicate between two polls
local DRAWN <const> = 32                     -- most rows and columns of a picture
local USUAL <const> = 8                      -- rows and columns where no tensor gives sizes

---@class heed.Mask: who may attend
---@operator band(heed.Mask|heed.Tensor): heed.Mask
---@operator bor(heed.Mask|heed.Tensor): heed.Mask
---@operator bnot: heed.Mask
local Mask = {__name = "heed.Mask"}

local methods = {}

-- The contents of a mask. One that was made has a text, a rule, and operands of the rule's words:
-- tensors, or tables for predicates. One that operators joined has parts, the sign and the word of
-- the operator, and rule and operands unless they are long, so that a chain of operators takes
-- memory by its length. `words`, `count` and `depth` say how long rule and operands are or would
-- be, and how deep the parts are nested.
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
function rule.is(value)
  return rawequal(getmetatable(value), Mask)
end

local is_mask = rule.is


local function of_contents(contents)
  local m = setmetatable({}, Mask)
  inside[m] = contents
  return m
end


---Makes a mask.
---@param text string how its maker was called
---@param words integer[] words and their numbers
---@param operands? table[] a tensor, or the table of a predicate, for each word that takes one
---@return heed.Mask
function rule.new(text, words, operands)
  operands = operands or {}
  return of_contents {
    text = text, rule = words, operands = operands, parts = {}, words = #words, count = #operands,
    depth = 1,
  }
end

local new = rule.new


---A tensor of one type and at most `most` dimensions.
---@param who string
---@param name string of the argument
---@param t any
---@param dtype heed.dtype
---@param most integer
---@return heed.Tensor
function rule.check_tensor(who, name, t, dtype, most)
  if is_tensor(t) and t.dtype == dtype and t:dim() <= most then return t end
  local hint = is_tensor(t) and t.dtype:find("float") and dtype == "bool"
               and "; what is added to the scores is called 'bias'" or ""
  heed.fail("mask.%s: argument '%s': %s tensor of at most %d dimensions expected, got %s%s", who,
            name, dtype == "bool" and "a bool" or "an int64", most, options.typed(t), hint)
end


---The mask of a tensor.
---@param t heed.Tensor bool
---@return heed.Mask
function rule.of_tensor(t)
  rule.check_tensor("tensor", "t", t, "bool", 4)
  return new("tensor" .. tostring(t.shape), {WORD.tensor}, {t})
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
  core.check_entries("mask.predicate", 1.0 * B * H * T * S, "answers of f")
  local list, n = {}, 0
  for b = 1, B do
    for h = 1, H do
      for i = 1, T do
        for j = 1, S do
          n = n + 1
          if n % POLLED == 0 then core.poll("mask.predicate") end
          list[n] = ask(p.f, p.batch and b or nil, p.heads and h or nil, i, j)
        end
      end
    end
  end
  if n == 0 then return heed.empty(B, H, T, S, {dtype = "bool"}) end
  return heed.tensor(list, {dtype = "bool"}):view(B, H, T, S)
end


-- The answers, made once for each shape and device.
local function remembered(p, B, H, T, S, device)
  B, H = p.batch and B or 1, p.heads and H or 1
  local key = ("%d %d %d %d %s"):format(B, H, T, S, device)
  if not p.dense[key] then
    if p.n == REMEMBERED then p.dense, p.n = {}, 0 end
    local dense, n = p.dense, p.n
    recording.undo(function() dense[key], p.n = nil, n end)
    dense[key], p.n = heed.keep(answers(p, B, H, T, S):to(device)), n + 1
  end
  return p.dense[key]
end


---The mask of a predicate.
---@param f fun(b: integer?, h: integer?, i: integer, j: integer): boolean
---@param o {batch: boolean, heads: boolean}
---@return heed.Mask
function rule.of_predicate(f, o)
  local predicate = {f = f, batch = o.batch, heads = o.heads, dense = {}, n = 0}
  return new("predicate(f)", {WORD.tensor}, {predicate})
end


-- The predicate of queries that stand n positions further on. The layers of a step ask for the same
-- one, so that the last one is kept.
local function predicate_behind(p, n)
  if not p.moved or p.moved_by ~= n then
    local f = p.f
    p.moved = {f = function(b, h, i, j) return f(b, h, i + n, j) end, batch = p.batch,
               heads = p.heads, dense = {}, n = 0}
    p.moved_by = n
  end
  return p.moved
end


-- Operators --------------------------------------------------------------

local function as_mask(value)
  if is_mask(value) then return value end
  if is_tensor(value) then return rule.of_tensor(value) end
  heed.fail("mask: a mask or a bool tensor expected, got %s", kind(value))
end


local function append(list, more)
  for _, value in ipairs(more) do list[#list + 1] = value end
  return list
end


-- Calls f with the contents of each mask that has a rule, in the order of their words.
local function each_rule(m, f)
  if m.rule then f(m) return end
  for _, part in ipairs(m.parts) do each_rule(inside[part], f) end
end


-- Appends the text of a mask to a list.
local function spell(m, list)
  if m.text then list[#list + 1] = m.text end
  for i, part in ipairs(m.parts) do
    local joined = #inside[part].parts == 2
    list[#list + 1] = i == 2 and " " .. m.sign .. " " or #m.parts == 1 and m.sign or ""
    list[#list + 1] = joined and "(" or ""
    spell(inside[part], list)
    list[#list + 1] = joined and ")" or ""
  end
end


local function text_of(m)
  local list = {}
  spell(m, list)
  return table.concat(list)
end


local function flatten(m)
  m.rule, m.operands = {}, {}
  for _, part in ipairs(m.parts) do
    append(m.rule, inside[part].rule)
    append(m.operands, inside[part].operands)
  end
  m.rule[m.words] = m.word
end


local function join(parts, word, sign)
  local m = {parts = parts, word = word, sign = sign, words = 1, count = 0, depth = 0}
  for _, part in ipairs(parts) do
    local contents = inside[part]
    m.words, m.count = m.words + contents.words, m.count + contents.count
    m.depth = math.max(m.depth, contents.depth)
  end
  m.depth = m.depth + 1
  if m.depth > DEEPEST then
    heed.fail("mask: at most %d operators within each other expected", DEEPEST - 1)
  elseif m.words > WORDIEST then
    heed.fail("mask: operators that join at most %d words and numbers expected, got %d", WORDIEST,
              m.words)
  end
  if m.words <= LONGEST and m.count <= MOST then flatten(m) end
  return of_contents(m)
end

function Mask.__band(a, b) return join({as_mask(a), as_mask(b)}, WORD["and"], "&") end

function Mask.__bor(a, b) return join({as_mask(a), as_mask(b)}, WORD["or"], "|") end

function Mask.__bnot(m) return join({as_mask(m)}, WORD["not"], "~") end


---Whether a mask asks a predicate.
---@param value heed.Mask
---@return boolean
function rule.has_predicate(value)
  local found = false
  each_rule(inside[value], function(contents)
    for _, one in ipairs(contents.operands) do found = found or not is_tensor(one) end
  end)
  return found
end


-- Contents whose predicates are those of queries n positions further on.
local function contents_behind(m, n)
  local moved = {}
  for name, part in pairs(m) do moved[name] = part end
  for i, one in ipairs(m.operands or {}) do
    if moved.operands == m.operands then moved.operands = append({}, m.operands) end
    if not is_tensor(one) then moved.operands[i] = predicate_behind(one, n) end
  end
  if not m.rule then
    moved.parts = {}
    for i, part in ipairs(m.parts) do
      moved.parts[i] = of_contents(contents_behind(inside[part], n))
    end
  end
  return moved
end


---A mask of queries that stand n positions further on: i of its predicates counts from there. What
---its other words say of queries follows from where keys end.
---@param value heed.Mask
---@param n integer
---@return heed.Mask
function rule.behind(value, n)
  if n == 0 or not rule.has_predicate(value) then return value end
  return of_contents(contents_behind(inside[value], n))
end


-- For attention ----------------------------------------------------------

-- A predicate's answers have as many dimensions as the queries.
local function without_dimensions(t, rank)
  if rank == 4 then return t end
  t = t:squeeze(2)
  return rank == 3 and t or t:squeeze(1)
end


local function check_device(m, device)
  each_rule(m, function(contents)
    for _, one in ipairs(contents.operands) do
      if is_tensor(one) and one.device ~= device then
        heed.fail("attention: argument 'mask': a tensor of %s is on %s, the queries are on %s; "
                  .. "make the mask of tensors there", text_of(m), one.device, device)
      end
    end
  end)
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
  local device
  each_rule(m, function(contents)
    for _, one in ipairs(contents.operands) do
      if is_tensor(one) then device = device or one.device end
    end
  end)
  return device or heed.empty(0).device
end


-- A rule that is too long for one call is joined from the dense parts of it.
local function dense(value, B, H, T, S, device)
  local m = inside[value]
  if m.rule then
    local tensors = tensors_of(m, B, H, T, S, 4, device)
    return core.attention_mask({B, H, T, S}, m.rule, tensors):to(device)
  end
  local a, b = m.parts[1], m.parts[2]
  a, b = dense(a, B, H, T, S, device), b and dense(b, B, H, T, S, device)
  if m.word == WORD["not"] then return ~a end
  return m.word == WORD["and"] and a & b or a | b
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
function rule.resolve(value, B, H, T, S, rank, device)
  local m = inside[value]
  check_device(m, device)
  if not m.rule then
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
local function each_word(words, f)
  local at = 1
  while at <= #words do
    local grammar = WORD[words[at]]
    f(words[at], grammar)
    at = at + 1 + grammar.numbers
  end
end


-- Sizes that a rule's tensors have.
local function grow_by_rule(size, words, operands)
  local operand = 0
  each_word(words, function(word, grammar)
    if not grammar.dims then return end
    operand = operand + 1
    local t = operands[operand]
    if is_tensor(t) then grow(size, t, grammar.dims) end
    if word == WORD.lengths and t:numel() > 0 then
      size.least = math.max(size.least or 0, t:max():item())
    end
  end)
end


-- B, H, T and S for a picture.
local function sizes_of(m)
  local size = {}
  each_rule(m, function(contents) grow_by_rule(size, contents.rule, contents.operands) end)
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
  return text_of(inside[m]) .. (good and "\n" .. picture or "")
end


options.guard(Mask, {}, {is = is_mask, what = "a mask", variable = "mask"})


---Whether a mask numbers keys from the first one on, so that it means something else where others
---come first: `prefix` does, `causal` and `window` do not.
---@param m heed.Mask
---@return boolean
function rule.is_absolute(m)
  local absolute = false
  each_rule(inside[m], function(contents)
    each_word(contents.rule, function(_, grammar) absolute = absolute or grammar.absolute end)
  end)
  return absolute
end


---Whether a value is a mask of which the distance from a query to a key alone says whether it lets
---the query attend, such as a window.
---@param value any
---@return boolean
function rule.is_of_distances(value)
  if not is_mask(value) then return false end
  local m, others = inside[value], 0
  if m.is_of_distances == nil then
    each_rule(m, function(contents) others = others + #contents.operands end)
    m.is_of_distances = others == 0 and not rule.is_absolute(value)
  end
  return m.is_of_distances
end


return rule
