-- Chat templates: the part of Jinja that published models use, read strictly and run without
-- anything of the host's in reach. What is not known is refused by its name, with its line.

local heed = require "heed"
local lexer = require "heed.models.chat.lexer"
local Reader = require "heed.models.chat.expression"
local Text = require "heed.models.chat.text"
local values = require "heed.models.chat.values"

local truth = values.truth

local template = {}

-- A statement is a function of the context, whose fields are
--   scope   its variables; names that it lacks are those of the scope around it
--   out     the texts written so far
--   turns   how many turns of loops and calls of macros may still come
-- and returns "break" or "continue" where that leaves a loop.

local TURNS <const> = 200000
local BYTES <const> = 1 << 28                 -- written, at most


local function spend(c)
  c.turns = c.turns - 1
  if c.turns < 0 then heed.fail("chat: the template takes too many turns") end
end


local function write(c, text)
  c.bytes = c.bytes - #text.bytes
  if c.bytes < 0 then heed.fail("chat: the template writes too much") end
  c.out[#c.out + 1] = text
end


local function inner_scope(scope) return setmetatable({}, {__index = scope}) end


-- Runs statements; what leaves a loop ends them.
local function run(body, c)
  for _, statement in ipairs(body) do
    local way = statement(c)
    if way then return way end
  end
end


-- What statements write, as a text.
local function captured(body, c)
  local out = c.out
  c.out = {}
  local way = run(body, c)
  local text = Text.join(c.out)
  c.out = out
  return text, way
end


-- Blocks --------------------------------------------------------------------------------------

-- A reader of pieces: `i` is the next one.
local function refuse_end(p, wanted)
  local piece = p.pieces[p.i]
  if #wanted == 0 then
    lexer.refuse(p.source, piece.at, "'%s' ends nothing", piece.tokens[1].value)
  end
  lexer.refuse(p.source, piece and piece.at or #p.source, "%s expected, got %s",
               "'" .. table.concat(wanted, "' or '") .. "'",
               piece and "'" .. piece.tokens[1].value .. "'" or "the end")
end


local statements

local function data(text)
  text = Text.of(text)
  return function(c) write(c, text) end
end


local function print_of(p, piece)
  local r = Reader.new(p.source, piece.tokens)
  local part = r:expression()
  r:finish()
  return function(c) write(c, values.text(part(c))) end
end


local DEPTH <const> = 60                       -- of blocks within each other


-- Statements up to one of the words that end them; returns also the reader behind that word, and
-- the word.
local function block(p, wanted)
  local body, ends = {}, {}
  for _, word in ipairs(wanted) do ends[word] = true end
  p.depth = p.depth + 1
  while p.pieces[p.i] do
    local piece = p.pieces[p.i]
    p.i = p.i + 1
    if piece.kind == "data" then body[#body + 1] = data(piece.text)
    elseif piece.kind == "print" then body[#body + 1] = print_of(p, piece)
    else
      local r = Reader.new(p.source, piece.tokens)
      if p.depth > DEPTH then r:refuse("fewer blocks within each other") end
      local word = r:expect("name").value
      if ends[word] then
        p.depth = p.depth - 1
        return body, r, word
      end
      p.i = p.i - 1
      local read = statements[word]
      if not read and word:find("^e[ln]") then refuse_end(p, wanted) end
      if not read then
        lexer.refuse(p.source, piece.at, "the statement '%s' is not known", word)
      end
      p.i = p.i + 1
      body[#body + 1] = read(p, r, word)
    end
  end
  if #wanted > 0 then refuse_end(p, wanted) end
  return body
end


-- Conditions ----------------------------------------------------------------------------------

local function read_if(p, r)
  local conditions, bodies, word = {}, {}
  repeat
    conditions[#conditions + 1] = r:expression()
    r:finish()
    bodies[#bodies + 1], r, word = block(p, {"elif", "else", "endif"})
  until word ~= "elif"
  local other
  if word == "else" then
    r:finish()
    other, r = block(p, {"endif"})
  end
  r:finish()
  return function(c)
    for i, condition in ipairs(conditions) do
      if truth(condition(c)) then return run(bodies[i], c) end
    end
    return other and run(other, c)
  end
end


-- Assignments ---------------------------------------------------------------------------------

-- One name, or several with commas between them.
local function targets_of(r)
  local names, around = {}, r:take("(")
  repeat names[#names + 1] = r:expect("name").value until not r:take(",")
  if around then r:expect(")") end
  return names
end


local function assign(scope, names, value)
  if #names == 1 then
    scope[names[1]] = value
    return
  end
  if not values.is_list(value) or value.n ~= #names then
    heed.fail("chat: the template takes %s for %d names", values.kind(value), #names)
  end
  for i, name in ipairs(names) do scope[name] = value[i] end
end


local function set_member(r, name)
  local member = r:expect("name").value
  r:expect("=")
  local part = r:expression()
  r:finish()
  return function(c)
    local map = c.scope[name]
    if not values.is_map(map) or map.mark ~= "t" then
      heed.fail("chat: the template sets a member of '%s', which is no namespace", name)
    end
    values.set(map, member, part(c))
  end
end


local function read_set(p, r)
  local names = targets_of(r)
  if #names == 1 and r:take(".") then return set_member(r, names[1]) end
  if r:take("=") then
    local part = r:expression()
    r:finish()
    return function(c) assign(c.scope, names, part(c)) end
  end
  if #names > 1 then r:refuse("'='") end
  r:finish()
  local body, last = block(p, {"endset"})
  last:finish()
  return function(c)
    local text, way = captured(body, c)
    c.scope[names[1]] = text
    return way
  end
end


-- Loops ---------------------------------------------------------------------------------------

-- The elements that the condition of a loop lets through.
local function chosen(c, list, names, condition)
  if not condition then return list end
  local items, outer = {}, c.scope
  for i = 1, list.n do
    spend(c)
    c.scope = inner_scope(outer)
    assign(c.scope, names, list[i])
    if truth(condition(c)) then items[#items + 1] = list[i] end
  end
  c.scope = outer
  return values.list(items)
end


local function go_through(c, list, names, body)
  local outer = c.scope
  for i = 1, list.n do
    spend(c)
    c.scope = inner_scope(outer)
    c.scope.loop = values.loop(list, i)
    assign(c.scope, names, list[i])
    if run(body, c) == "break" then break end
  end
  c.scope = outer
end


local function read_for(p, r)
  local names = targets_of(r)
  r:expect("name", "in")
  local of, condition, other = r:operand(), nil, nil
  if r:take("name", "if") then condition = r:expression() end
  r:finish()
  p.loops = p.loops + 1
  local body, last, word = block(p, {"else", "endfor"})
  p.loops = p.loops - 1
  if word == "else" then
    last:finish()
    other, last = block(p, {"endfor"})
  end
  last:finish()
  return function(c)
    local list = chosen(c, values.elements(of(c)), names, condition)
    if list.n == 0 then return other and run(other, c) end
    go_through(c, list, names, body)
  end
end


local function read_leaving(p, r, word)
  if p.loops == 0 then
    lexer.refuse(p.source, r.tokens[1].at, "the statement '%s' stands in no loop", word)
  end
  r:finish()
  return function() return word end
end


-- Macros --------------------------------------------------------------------------------------

local function parameters_of(r)
  local names, defaults = {}, {}
  r:expect("(")
  while not r:take(")") do
    names[#names + 1] = r:expect("name").value
    if r:take("=") then defaults[#names] = r:expression_alone() end
    if not r:take(",") and not r:is(")") then r:refuse("')'") end
  end
  r:finish()
  return names, defaults
end


local NESTED <const> = 100                     -- calls of macros within each other


local function call_macro(c, macro, args, named)
  spend(c)
  local outer = c.scope
  c.nested = c.nested + 1
  if c.nested > NESTED then heed.fail("chat: macro '%s' calls itself too often", macro.name) end
  if #args > #macro.names then
    heed.fail("chat: macro '%s' takes %d arguments, got %d", macro.name, #macro.names, #args)
  end
  c.scope = inner_scope(macro.scope)
  for i, name in ipairs(macro.names) do
    local value = args[i]
    if value == nil then value = named[name] end
    if value == nil and macro.defaults[i] then value = macro.defaults[i](c) end
    if value == nil then value = values.undefined("'" .. name .. "'") end
    c.scope[name] = value
  end
  local text = captured(macro.body, c)
  c.scope, c.nested = outer, c.nested - 1
  return text
end


local function read_macro(p, r)
  local name = r:expect("name").value
  local names, defaults = parameters_of(r)
  local loops = p.loops
  p.loops = 0
  local body, last = block(p, {"endmacro"})
  p.loops = loops
  last:finish()
  return function(c)
    local macro = {name = name, names = names, defaults = defaults, body = body, scope = c.scope}
    c.scope[name] = function(args, named) return call_macro(c, macro, args, named) end
  end
end


-- What an assistant says, where training marks it: the text is the same.
local function read_generation(p, r)
  r:finish()
  local body, last = block(p, {"endgeneration"})
  last:finish()
  return function(c) return run(body, c) end
end


statements = {
  ["break"] = read_leaving, continue = read_leaving, ["for"] = read_for,
  generation = read_generation, ["if"] = read_if, macro = read_macro, set = read_set,
}


---Reads a template.
---@param source string
---@return fun(variables: table<string, any>): heed.chat.Text render with values of heed.chat.values
function template.read(source)
  local p = {i = 1, loops = 0, depth = 0}
  p.pieces, p.source = lexer.read(source)
  local body = block(p, {})
  return function(variables)
    local c = {scope = inner_scope(variables), out = {}, turns = TURNS, bytes = BYTES, nested = 0}
    run(body, c)
    return Text.join(c.out)
  end
end


return template
