-- Expressions of chat templates: tokens become functions of the context that the template runs in,
-- whose field `scope` has its variables. From the loosest operator to the tightest.

local calls = require "heed.models.chat.calls"
local heed = require "heed"
local lexer = require "heed.models.chat.lexer"
local Text = require "heed.models.chat.text"
local values = require "heed.models.chat.values"

---A reader of tokens.
---@class heed.chat.Reader
---@field tokens heed.chat.token[]
---@field i integer
---@field source string
---@field depth integer how many expressions it is in
local Reader = {}
Reader.__index = Reader

local DEPTH <const> = 100

local truth = values.truth


---@param source string
---@param tokens heed.chat.token[]
---@return heed.chat.Reader
function Reader.new(source, tokens)
  return setmetatable({source = source, tokens = tokens, i = 1, depth = 0}, Reader)
end


---The kind of the next token.
---@param kind string
---@param value? any
---@return boolean
function Reader:is(kind, value)
  local token = self.tokens[self.i]
  return token.kind == kind and (value == nil or token.value == value)
end


local function shown(token)
  if token.kind == "end" then return "the end of the tag" end
  return "'" .. tostring(token.value or token.kind) .. "'"
end


---Refuses the next token.
---@param expected string
function Reader:refuse(expected)
  local token = self.tokens[self.i]
  lexer.refuse(self.source, token.at, "%s expected, got %s", expected, shown(token))
end


---Takes the next token if it is of a kind.
---@param kind string
---@param value? any
---@return heed.chat.token?
function Reader:take(kind, value)
  if not self:is(kind, value) then return nil end
  self.i = self.i + 1
  return self.tokens[self.i - 1]
end


---@param kind string
---@param value? any
---@return heed.chat.token
function Reader:expect(kind, value)
  return self:take(kind, value) or self:refuse(value and "'" .. value .. "'" or
                                                kind == "name" and "a name" or "'" .. kind .. "'")
end


-- Operators ------------------------------------------------------------------------------

local function wrong(operator, a, b)
  heed.fail("chat: the template asks for %s %s %s", values.kind(a), operator, values.kind(b))
end


local function add(a, b)
  if Text.is(a) and Text.is(b) then return Text.join{a, b} end
  if values.is_list(a) and values.is_list(b) then
    return values.list(table.move(b, 1, b.n, a.n + 1, table.move(a, 1, a.n, 1, {})), a.n + b.n)
  end
  if type(a) == "number" and type(b) == "number" then return a + b end
  wrong("+", a, b)
end


local function arithmetic(operator, f)
  return function(a, b)
    if type(a) == "number" and type(b) == "number" then
      if b == 0 and operator:find("[/%%]") then heed.fail("chat: the template divides by 0") end
      return f(a, b)
    end
    wrong(operator, a, b)
  end
end


local SUMS <const> = {["+"] = add, ["-"] = arithmetic("-", function(a, b) return a - b end)}
local PRODUCTS <const> = {
  ["*"] = arithmetic("*", function(a, b) return a * b end),
  ["/"] = arithmetic("/", function(a, b) return a / b end),
  ["//"] = arithmetic("//", function(a, b) return a // b end),
  ["%"] = arithmetic("%", function(a, b) return a % b end),
}
local COMPARISONS <const> = {
  ["=="] = values.equal, ["!="] = function(a, b) return not values.equal(a, b) end,
  ["<"] = values.less, [">"] = function(a, b) return values.less(b, a) end,
  ["<="] = function(a, b) return not values.less(b, a) end,
  [">="] = function(a, b) return not values.less(a, b) end,
}


-- Operands of one strength, from left to right.
local function chain(operators, operand)
  return function(r)
    local left = operand(r)
    while operators[r.tokens[r.i].kind] do
      local f, a = operators[r.tokens[r.i].kind], left
      r.i = r.i + 1
      local b = operand(r)
      left = function(c) return f(a(c), b(c)) end
    end
    return left
  end
end


-- Primary expressions -----------------------------------------------------------------------

local expression


local function list_until(r, close)
  local parts, trailing = {}, false
  while not r:take(close) do
    parts[#parts + 1] = expression(r)
    trailing = r:take(",") ~= nil
    if not trailing and not r:is(close) then r:refuse("'" .. close .. "'") end
  end
  return parts, trailing
end


local function make_list(parts)
  return function(c)
    local items = {}
    for i, part in ipairs(parts) do items[i] = part(c) end
    return values.list(items)
  end
end


local function make_map(r)
  local names, parts = {}, {}
  while not r:take("}") do
    names[#names + 1] = r:expect("text").value
    r:expect(":")
    parts[#parts + 1] = expression(r)
    if not r:take(",") and not r:is("}") then r:refuse("'}'") end
  end
  return function(c)
    local map = values.map()
    for i, name in ipairs(names) do values.set(map, name, parts[i](c)) end
    return map
  end
end


local function constant(value)
  return function() return value end
end

local CONSTANTS <const> = {
  ["true"] = true, True = true, ["false"] = false, False = false, none = values.none,
  None = values.none,
}


local function variable(name)
  return function(c)
    local value = c.scope[name]
    if value ~= nil then return value end
    return calls.functions[name] or values.undefined("'" .. name .. "'")
  end
end


local function primary(r)
  local token = r.tokens[r.i]
  r.i = r.i + 1
  if token.kind == "text" then
    local parts = {token.value}
    while r:is("text") do parts[#parts + 1] = r:take("text").value end
    return constant(Text.of(table.concat(parts)))
  elseif token.kind == "number" then
    return constant(token.value)
  elseif token.kind == "name" then
    local value = CONSTANTS[token.value]
    if value ~= nil then return constant(value) end
    if calls.strange[token.value] then
      lexer.refuse(r.source, token.at, "'%s' is not known", token.value)
    end
    return variable(token.value)
  elseif token.kind == "[" then
    return make_list((list_until(r, "]")))
  elseif token.kind == "{" then
    return make_map(r)
  elseif token.kind == "(" then
    local parts, trailing = list_until(r, ")")
    return #parts == 1 and not trailing and parts[1] or make_list(parts)
  end
  r.i = r.i - 1
  r:refuse("a value")
end


-- What follows a value ------------------------------------------------------------------------

-- The arguments of a call: a function that gives their values, and those of the named ones.
local function arguments(r)
  local parts, named, n = {}, {}, 0
  while not r:take(")") do
    local after = r.tokens[r.i + 1]
    if r:is("name") and after.kind == "=" then
      local name = r:take("name").value
      r:expect("=")
      named[name] = expression(r)
    else
      n = n + 1
      parts[n] = expression(r)
    end
    if not r:take(",") and not r:is(")") then r:refuse("')'") end
  end
  return function(c)
    local list, by_name = {}, {}
    for i, part in ipairs(parts) do list[i] = part(c) end
    for name, part in pairs(named) do by_name[name] = part(c) end
    return list, by_name
  end
end


local function no_arguments() return {}, {} end


local function optional_arguments(r) return r:take("(") and arguments(r) or no_arguments end


-- A value's method, or nothing.
local function method_of(value, name)
  if Text.is(value) then return calls.text_methods[name] end
  return values.is_map(value) and value.at[name] == nil and calls.map_methods[name] or nil
end


-- A member by its name; or the call of a method, where parentheses follow.
local function member(r, of)
  local name = r:is("number") and r:take("number").value or r:expect("name").value
  local key = math.type(name) == "integer" and name or Text.of(name)
  local what = "'" .. name .. "'"
  local given = r:take("(") and arguments(r)
  return function(c)
    local value = of(c)
    if not given then return values.get(value, key, what) end
    local method = method_of(value, name)
    if method then return method(value, given(c)) end
    local found = values.is_map(value) and value.at[name]
    if type(found) == "function" then return found(given(c)) end
    heed.fail("chat: the template's method %s of %s is not known", what, values.kind(value))
  end
end


local function bound(r, ends)
  for _, kind in ipairs(ends) do
    if r:is(kind) then return constant(nil) end
  end
  local part = expression(r)
  return function(c)
    local value = part(c)
    if value == values.none then return nil end
    if math.type(value) == "integer" then return value end
    heed.fail("chat: the template takes a slice at %s", values.kind(value))
  end
end


local function slice(r, of)
  local first = bound(r, {":"})
  if not r:take(":") then r:expect("]") end                 -- which refuses what stands there
  local last, step = bound(r, {":", "]"}), constant(nil)
  if r:take(":") then step = bound(r, {"]"}) end
  r:expect("]")
  return function(c) return values.slice(of(c), first(c), last(c), step(c)) end
end


-- A subscript may be of any type, a bound a whole number.
local function index(r, of)
  local start, part = r.i, not r:is(":") and expression(r)
  if part and r:take("]") then
    return function(c)
      local value, key = of(c), part(c)
      return values.get(value, key, Text.is(key) and "'" .. key.bytes .. "'" or "an element")
    end
  end
  r.i = start
  return slice(r, of)
end


local function call(r, of)
  local given = arguments(r)
  return function(c)
    local f = of(c)
    if type(f) == "function" then return f(given(c)) end
    heed.fail("chat: the template calls %s", values.kind(f))
  end
end


local function postfix(r)
  local value = primary(r)
  while true do
    if r:take(".") then value = member(r, value)
    elseif r:take("[") then value = index(r, value)
    elseif r:take("(") then value = call(r, value)
    else return value end
  end
end


local function filtered(r, of)
  local name = r:expect("name").value
  local f, given = calls.filter(name), optional_arguments(r)
  return function(c) return f(of(c), given(c)) end
end


-- Whether an operand of a test without parentheses follows.
local function operand_follows(r)
  if r:is("name") then
    local word = r.tokens[r.i].value
    return not (word == "and" or word == "or" or word == "else" or word == "is" or word == "if"
                or word == "not" or word == "in")
  end
  return r:is("text") or r:is("number") or r:is("[") or r:is("{")
end


local function tested(r, of)
  local negated = r:take("name", "not") ~= nil
  local test, given = calls.test(r:expect("name").value), no_arguments
  if r:take("(") then given = arguments(r)
  elseif operand_follows(r) then
    local operand = postfix(r)
    given = function(c) return {operand(c)}, {} end
  end
  return function(c) return (test(of(c), given(c)) and true or false) ~= negated end
end


local function with_filters(r, value)
  while true do
    if r:take("|") then value = filtered(r, value)
    elseif r:take("name", "is") then value = tested(r, value)
    elseif r:take("(") then value = call(r, value)
    else return value end
  end
end


local function unary(r, plain)
  if not r:is("-") and not r:is("+") then
    local value = postfix(r)
    return plain and value or with_filters(r, value)
  end
  local sign = r:take("-") and -1 or 1
  if sign == 1 then r:expect("+") end
  local operand = unary(r, true)
  local function signed(c)
    local value = operand(c)
    if type(value) ~= "number" then wrong("*", sign, value) end
    return sign * value
  end
  return plain and signed or with_filters(r, signed)
end


-- Operators from the tightest on --------------------------------------------------------------

local product = chain(PRODUCTS, unary)


local function concatenation(r)
  local parts = {product(r)}
  while r:take("~") do parts[#parts + 1] = product(r) end
  if #parts == 1 then return parts[1] end
  return function(c)
    local texts = {}
    for i, part in ipairs(parts) do texts[i] = values.text(part(c)) end
    return Text.join(texts)
  end
end


local sum = chain(SUMS, concatenation)


-- The comparison that follows, if one does: its function.
local function comparison_of(r)
  local compare = COMPARISONS[r.tokens[r.i].kind]
  if compare then
    r.i = r.i + 1
    return compare
  elseif r:take("name", "in") then
    return function(a, b) return values.holds(b, a) end
  elseif r:is("name", "not") and r.tokens[r.i + 1].value == "in" then
    r.i = r.i + 2
    return function(a, b) return not values.holds(b, a) end
  end
end


local function comparison(r)
  local first, rest = sum(r), {}
  local compare = comparison_of(r)
  while compare do
    rest[#rest + 1] = {compare, sum(r)}
    compare = comparison_of(r)
  end
  if #rest == 0 then return first end
  return function(c)
    local a = first(c)
    for _, pair in ipairs(rest) do
      local b = pair[2](c)
      if not pair[1](a, b) then return false end
      a = b
    end
    return true
  end
end


local function negation(r)
  if not r:take("name", "not") then return comparison(r) end
  local operand = negation(r)
  return function(c) return not truth(operand(c)) end
end


local function conjunction(r)
  local left = negation(r)
  while r:take("name", "and") do
    local a, b = left, negation(r)
    left = function(c)
      local value = a(c)
      if not truth(value) then return value end
      return b(c)
    end
  end
  return left
end


local function disjunction(r)
  local left = conjunction(r)
  while r:take("name", "or") do
    local a, b = left, conjunction(r)
    left = function(c)
      local value = a(c)
      if truth(value) then return value end
      return b(c)
    end
  end
  return left
end


local function conditional(r)
  local value = disjunction(r)
  while r:take("name", "if") do
    local good, condition, other = value, disjunction(r), nil
    if r:take("name", "else") then other = conditional(r) end
    value = function(c)
      if truth(condition(c)) then return good(c) end
      if other then return other(c) end
      return values.undefined("a value without else")
    end
  end
  return value
end


function expression(r)
  r.depth = r.depth + 1
  if r.depth > DEPTH then r:refuse("a simpler expression") end
  local value = conditional(r)
  r.depth = r.depth - 1
  return value
end


---An expression, or several with commas between them, which are a list.
---@return function
function Reader:expression()
  local first = expression(self)
  if not self:is(",") then return first end
  local parts = {first}
  while self:take(",") do parts[#parts + 1] = expression(self) end
  return make_list(parts)
end


---One expression, also where a comma follows.
---@return function
function Reader:expression_alone() return expression(self) end


---An expression of a loop, in front of its condition.
---@return function
function Reader:operand() return disjunction(self) end


---Refuses what is left of a tag.
function Reader:finish()
  if not self:is("end") then self:refuse("the end of the tag") end
end


return Reader
