-- Faults that can be planted in a text of C or Lua, one token or statement at a time: operators,
-- numbers, words, conditions, statements. Operators count where spaces stand around them, which
-- pointers, signs and attributes have not.

local mutants = {}

local COMPARISONS <const> = {
  ["<"] = {"<=", ">"}, ["<="] = {"<", ">"}, [">"] = {">=", "<"}, [">="] = {">", "<"},
  ["+"] = {"-"}, ["-"] = {"+"}, ["*"] = {"/"}, ["/"] = {"*"}, ["%"] = {"*"},
}

local function with(more)
  for token, others in pairs(COMPARISONS) do more[token] = others end
  return more
end

-- The tokens that take the place of a token.
local TOKENS <const> = {
  lua = with{["=="] = {"~="}, ["~="] = {"=="}, ["//"] = {"*"}, ["and"] = {"or"}, ["or"] = {"and"},
             ["not"] = {""}, ["true"] = {"false"}, ["false"] = {"true"}},
  c = with{["=="] = {"!="}, ["!="] = {"=="}, ["&&"] = {"||"}, ["||"] = {"&&"}, ["&"] = {"|"},
           ["|"] = {"&"}, ["+="] = {"-="}, ["-="] = {"+="}, ["*="] = {"+="}, ["<<"] = {">>"},
           ["true"] = {"false"}, ["false"] = {"true"}},
}

-- Text that is no code: comments, strings, directives that are no definition. A pattern matches
-- from where it begins to its end.
local HIDDEN <const> = {
  lua = {"^%-%-%[(=*)%[.-%]%1%]", "^%-%-[^\n]*", "^%[(=*)%[.-%]%1%]", '^""', "^''",
         '^".-[^\\]"', "^'.-[^\\]'"},
  c = {"^/%*.-%*/", "^//[^\n]*", '^""', '^".-[^\\]"', "^'\\?[^\n]'", "^#%s*in[^\n]*",
       "^#%s*if[^\n]*", "^#%s*e[^\n]*", "^#%s*undef[^\n]*", "^#%s*pragma[^\n]*"},
}


---A text of the same length in which comments, strings and directives are blanks.
---@param text string
---@param language "c"|"lua"
---@return string
function mutants.code(text, language)
  local parts, at = {}, 1
  while at <= #text do
    local stop
    for _, pattern in ipairs(HIDDEN[language]) do
      stop = stop or select(2, text:find(pattern, at))
    end
    if stop then parts[#parts + 1] = text:sub(at, stop):gsub("[^\n]", " ")
    else
      stop = select(2, text:find("^[%w_]+", at)) or at
      parts[#parts + 1] = text:sub(at, stop)
    end
    at = stop + 1
  end
  return table.concat(parts)
end


-- Other numbers than a number, as text: its neighbours; of a fraction, one.
local function other_numbers(number)
  local n = number:find("^%d+$") and math.tointeger(tonumber(number))
  if not n then return {("(%s + 1)"):format(number)} end
  return n == 0 and {"1"} or {tostring(n + 1), tostring(n - 1)}
end


-- Calls give(from, to, others) for each token of a line of code that others can replace.
local function each_token(line, language, give)
  local at = 1
  while at <= #line do
    local from, to = line:find("[%w_.]+", at)
    local first, last = line:find("%f[^%s%z]%p+%f[%s%z]", at)
    if first and (not from or first < from) then from, to = first, last end
    if not from then return end
    local token = line:sub(from, to)
    if token:find("^%.?%d") then
      to = select(2, line:find("^%.?%d[%w.]*[eEpP][+-]%d+", from)) or to
      give(from, to, other_numbers(line:sub(from, to)))
    elseif TOKENS[language][token] then give(from, to, TOKENS[language][token]) end
    at = to + 1
  end
end


-- Where the condition of an `if`, `elseif` or `while` stands, if all of it is on the line.
local function condition(line, language)
  if language == "c" then
    local at = select(2, line:find("%f[%w_]if ")) or select(2, line:find("%f[%w_]while "))
    local from, to = line:find("^%b()", (at or #line) + 1)
    if from then return from + 1, to - 1 end
  else
    local from, to = line:match("%f[%w_]if ()[^;]-() then")
    if not from then from, to = line:match("%f[%w_]while ()[^;]-() do") end
    if from then return from, to - 1 end
  end
end


-- Where a statement stands that can be dropped: in Lua, what compiles alone and declares nothing;
-- in C no result that ends a function, which compilers demand. 'next' is the line behind.
local function statement(line, language, next)
  local from, to = line:match("^%s*()%S.-()%s*$")
  if not from then return end
  local text = line:sub(from, to - 1)
  if language == "lua" then
    local declares = text:find("^local ") or text:find("^function ")
    if not declares and load("while true do " .. text .. " end") then return from, to - 1 end
  else
    local depth = select(2, text:gsub("[({]", "")) - select(2, text:gsub("[)}]", ""))
    local first = text:match("^([%a_][%w_]*) %**[%a_]")
    local declares = first and first ~= "return" and first ~= "else" and first ~= "goto"
    local whole = from > 1 and text:find("^[%a_*(]") and text:find(";$") and depth == 0
    if text:find("^return .") and next:find("^}") then return end
    if whole and not declares then return from, to - 1 end
  end
end


-- The words that stand behind `=` and `or`: the defaults of options, mostly.
local function each_word(line, code, give)
  for from, to in line:gmatch('()"%l+"()') do
    local before = line:sub(1, from - 1)
    if code:sub(from, from) == " " and (before:find("= $") or before:find(" or $")) then
      give(from, to - 1, {'"other"'})
    end
  end
end


---The faults that can be planted in a text: {at, to, line, column, old, new}, where `at` and `to`
---are the first and the last byte that `new` replaces.
---@param text string
---@param language "c"|"lua"
---@return table[]
function mutants.of(text, language)
  local list, number, start = {}, 0, 1
  for code, next in (mutants.code(text, language) .. "\n"):gmatch("([^\n]*)\n()") do
    number = number + 1
    local line, base = text:sub(start, start + #code - 1), start - 1
    local function give(from, to, others)
      for _, new in ipairs(others) do
        list[#list + 1] = {at = base + from, to = base + to, line = number, column = from,
                           old = line:sub(from, to), new = new}
      end
    end
    each_token(code, language, give)
    if language == "lua" then each_word(line, code, give) end
    local from, to = condition(code, language)
    if from then
      give(from, to, {(language == "c" and "!(%s)" or "not (%s)"):format(line:sub(from, to))})
    end
    from, to = statement(code, language, text:match("[^\n]*", next) or "")
    if from then give(from, to, {language == "c" and ";" or ""}) end
    start = start + #code + 1
  end
  return list
end


---A text with a fault in it.
---@param text string
---@param fault table
---@return string
function mutants.plant(text, fault)
  return text:sub(1, fault.at - 1) .. fault.new .. text:sub(fault.to + 1)
end


return mutants
