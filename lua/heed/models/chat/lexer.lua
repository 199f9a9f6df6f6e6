-- Cuts the source of a chat template into texts and tags, and tags into tokens. Blanks go as
-- transformers lets them: the line break behind a statement, and the blanks before one that begins
-- a line; "-" drops all blanks on its side, "+" none.

local heed = require "heed"
local Text = require "heed.models.chat.text"

local lexer = {}

---@class heed.chat.token
---@field kind string "name", "number", "text", an operator as it is written, or "end"
---@field value any of names, numbers and texts
---@field at integer where it stands in the source

---@class heed.chat.piece
---@field kind string "data", "print" or "statement"
---@field text? string of data
---@field tokens? heed.chat.token[]
---@field at integer

local MOST <const> = 4000                      -- tokens of a tag

local CLOSERS <const> = {["("] = ")", ["["] = "]", ["{"] = "}"}
local OPERATORS <const> = {
  "==", "!=", "<=", ">=", "//", "**", "<", ">", "=", "+", "-", "*", "/", "%", "~", "|", ".", ",",
  ":", "(", ")", "[", "]", "{", "}",
}
local ESCAPES <const> = {
  n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", v = "\v", a = "\a", ["\\"] = "\\", ["'"] = "'",
  ['"'] = '"', ["\n"] = "",
}


---Refuses a template for what stands at a position of its source.
---@param source string
---@param at integer
---@param format string
---@param ... any
function lexer.refuse(source, at, format, ...)
  local line = select(2, source:sub(1, at - 1):gsub("\n", "")) + 1
  heed.fail("chat: the template, line %d: " .. format, line, ...)
end


local function unescaped(source, at, body)
  return (body:gsub("\\([xuU]?)(.?)([%x]*)", function(kind, c, digits)
    if kind == "" then return (ESCAPES[c] or "\\" .. c) .. digits end
    local n = kind == "x" and 2 or kind == "u" and 4 or 8
    local hex = c .. digits
    if #hex < n or not hex:sub(1, n):find("^%x+$") then
      lexer.refuse(source, at, "a broken escape in %s", body)
    end
    return utf8.char(tonumber(hex:sub(1, n), 16)) .. hex:sub(n + 1)
  end))
end


-- The string that begins at a position; returns its value and the position behind it.
local function read_string(source, at)
  local quote, from = source:sub(at, at), at + 1
  while true do
    local stop = source:find("[\\" .. quote .. "]", from)
    if not stop then lexer.refuse(source, at, "a string has no end") end
    if source:sub(stop, stop) == quote then
      return unescaped(source, at, source:sub(at + 1, stop - 1)), stop + 1
    end
    from = stop + 2
  end
end


local function read_number(source, at)
  local digits, behind = source:match("^(%d[%d_]*%.%d+)()", at)
  if not digits then digits, behind = source:match("^(%d[%d_]*)()", at) end
  local exponent, rest = source:match("^([eE][+-]?%d+)()", behind)
  return tonumber((digits:gsub("_", "")) .. (exponent or "")), rest or behind
end


-- The token at a position; returns the position behind it.
local function read_token(source, at)
  local name = source:match("^[%a_][%w_]*", at)
  if name then return {kind = "name", value = name, at = at}, at + #name end
  local c = source:sub(at, at)
  if c:find("%d") then
    local value, behind = read_number(source, at)
    return {kind = "number", value = value, at = at}, behind
  elseif c == '"' or c == "'" then
    local value, behind = read_string(source, at)
    return {kind = "text", value = value, at = at}, behind
  end
  for _, operator in ipairs(OPERATORS) do
    if source:sub(at, at + #operator - 1) == operator then
      return {kind = operator, at = at}, at + #operator
    end
  end
  lexer.refuse(source, at, "'%s' is not known", c)
end


-- The tokens of a tag whose inside begins at a position; returns the position behind the tag, and
-- the sign before its end.
local function read_tag(source, at, close)
  local tokens, open, start = {}, {}, at
  while true do
    at = source:match("^[ \t\r\n\v\f]*()", at)
    local sign, behind = source:match("^([-+]?)" .. close .. "()", at)
    if sign and #open == 0 then
      tokens[#tokens + 1] = {kind = "end", at = at}
      return tokens, behind, sign
    elseif at > #source or #tokens == MOST then
      lexer.refuse(source, start, "a tag has no end%s", at > #source and "" or " in sight")
    end
    local token, next_at = read_token(source, at)
    if CLOSERS[token.kind] then open[#open + 1] = CLOSERS[token.kind]
    elseif token.kind == open[#open] then open[#open] = nil
    elseif token.kind:find("^[%)%]}]$") then
      lexer.refuse(source, at, "a '%s' without its opening one", token.kind)
    end
    tokens[#tokens + 1], at = token, next_at
  end
end


local KINDS <const> = {["{"] = "print", ["%"] = "statement", ["#"] = "comment"}


-- The text before a tag, less the blanks that go with it.
local function before_tag(text, kind, sign, at_line_start)
  if sign == "-" then return text:sub(Text.inner(text, nil, false, true)) end
  if sign == "+" or kind == "print" then return text end
  local line = text:match("^.*\n()") or 1
  local blank = Text.inner(text, nil, true, false, line) > #text
  return (line > 1 or at_line_start) and blank and text:sub(1, line - 1) or text
end


-- The position behind the blanks that go with the end of a tag.
local function behind_tag(source, at, kind, sign)
  if sign == "-" then
    return (Text.inner(source, nil, true, false, at))
  elseif sign == "" and kind ~= "print" then
    return source:match("^\n?()", at)
  end
  return at
end


---The pieces of a template, and its source as positions count in it.
---@param source string
---@return heed.chat.piece[]
---@return string source
function lexer.read(source)
  source = source:gsub("\r\n?", "\n"):gsub("\n$", "")
  local pieces, at, at_line_start = {}, 1, true
  while true do
    local from = source:find("{[{%%#]", at)
    local text = source:sub(at, (from or 0) - 1)
    local kind = from and KINDS[source:sub(from + 1, from + 1)]
    local sign = from and source:match("^[-+]?", from + 2)
    if from then text = before_tag(text, kind, sign, at_line_start) end
    if text ~= "" then pieces[#pieces + 1] = {kind = "data", text = text, at = at} end
    if not from then return pieces, source end
    local inside, tokens, behind, closing = from + 2 + #sign
    if kind == "comment" then
      closing, behind = source:match("([-+]?)#}()", inside)
      if not closing then lexer.refuse(source, from, "a comment has no end") end
    else
      tokens, behind, closing = read_tag(source, inside, kind == "print" and "}}" or "%%}")
      pieces[#pieces + 1] = {kind = kind, tokens = tokens, at = from}
    end
    at = behind_tag(source, behind, kind, closing)
    at_line_start = source:sub(at - 1, at - 1) == "\n"
  end
end


return lexer
