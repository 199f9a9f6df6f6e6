-- Texts of a chat template, of which each byte is either the template's or a message's: whatever is
-- done to a text, its bytes keep their marks.

local heed = require "heed"

local rep, sub = string.rep, string.sub

---@class heed.chat.Text
---@field bytes string
---@field marks string a letter for each byte: "t" of the template, "m" of a message
local Text = {}
Text.__index = Text

local MOST <const> = 1 << 26                  -- bytes of a text


---Whether a value is a text.
---@param value any
---@return boolean
function Text.is(value) return rawequal(getmetatable(value), Text) end


local function new(bytes, marks) return setmetatable({bytes = bytes, marks = marks}, Text) end


---@param bytes string
---@param mark? string whose it is; without one, the template's
---@return heed.chat.Text
function Text.of(bytes, mark) return new(bytes, rep(mark or "t", #bytes)) end


---@param list heed.chat.Text[]
---@return heed.chat.Text
function Text.join(list)
  local bytes, marks, n = {}, {}, 0
  for i, text in ipairs(list) do
    bytes[i], marks[i], n = text.bytes, text.marks, n + #text.bytes
  end
  if n > MOST then heed.fail("chat: a template makes a text of %d bytes", n) end
  return new(table.concat(bytes), table.concat(marks))
end


---The bytes from one position to another.
---@param i integer
---@param j? integer
---@return heed.chat.Text
function Text:sub(i, j) return new(sub(self.bytes, i, j), sub(self.marks, i, j)) end


---Another text of the same length, with the marks of this one.
---@param bytes string
---@return heed.chat.Text
function Text:with(bytes) return new(bytes, self.marks) end


-- Blanks ---------------------------------------------------------------------

-- What Python's str.strip() drops.
local BLANKS <const> = {}
for point = 9, 13 do BLANKS[utf8.char(point)] = true end
for point = 0x1c, 0x20 do BLANKS[utf8.char(point)] = true end
for point = 0x2000, 0x200a do BLANKS[utf8.char(point)] = true end
for _, point in ipairs{0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000} do
  BLANKS[utf8.char(point)] = true
end


---The characters of a string as a set.
---@param s string
---@return table<string, true>
function Text.set(s)
  local set = {}
  for c in s:gmatch("[\0-\x7f\xc0-\xff][\x80-\xbf]*") do set[c] = true end
  return set
end


---Where the text without the characters of a set begins and ends.
---@param bytes string
---@param set? table<string, true> without one, blanks
---@param left boolean whether those at its start go
---@param right boolean
---@param first? integer where it is taken to begin
---@return integer first
---@return integer last
function Text.inner(bytes, set, left, right, first)
  local last = #bytes
  first = first or 1
  set = set or BLANKS
  while left and first <= last do
    local c = bytes:match("^[\0-\x7f\xc0-\xff][\x80-\xbf]*", first)
    if not c or not set[c] then break end
    first = first + #c
  end
  while right and last >= first do
    local from = last
    while from > first and bytes:byte(from) & 0xc0 == 0x80 do from = from - 1 end
    if not set[sub(bytes, from, last)] then break end
    last = from - 1
  end
  return first, last
end


---@param set? table<string, true>
---@param left boolean
---@param right boolean
---@return heed.chat.Text
function Text:strip(set, left, right) return self:sub(Text.inner(self.bytes, set, left, right)) end


-- Parts ----------------------------------------------------------------------

-- Parts between blanks.
local function words(text)
  local list, at = {}, 1
  while true do
    at = Text.inner(text.bytes, nil, true, false, at)
    if at > #text.bytes then return list end
    local last = at
    while last <= #text.bytes do
      local behind = text.bytes:match("^[\0-\x7f\xc0-\xff]?[\x80-\xbf]*()", last)
      if BLANKS[sub(text.bytes, last, behind - 1)] then break end
      last = behind
    end
    list[#list + 1], at = text:sub(at, last - 1), last
  end
end


---The parts between separators.
---@param by? string without one, blanks
---@param most? integer how often it is cut; below 0, at each of them
---@return heed.chat.Text[]
function Text:split(by, most)
  if not by then return words(self) end
  local list, at = {}, 1
  while not most or most < 0 or #list < most do
    local from, to = self.bytes:find(by, at, true)
    if not from then break end
    list[#list + 1], at = self:sub(at, from - 1), to + 1
  end
  list[#list + 1] = self:sub(at)
  return list
end


---@param old string
---@param by heed.chat.Text
---@param most? integer
---@return heed.chat.Text
function Text:replace(old, by, most)
  local list = {}
  for i, part in ipairs(self:split(old, most)) do
    if i > 1 then list[#list + 1] = by end
    list[#list + 1] = part
  end
  return Text.join(list)
end


---How many characters it has.
---@return integer
function Text:length() return utf8.len(self.bytes, 1, -1, true) or #self.bytes end


---Where character i begins, from 1; behind the text for the one behind the last.
---@param i integer
---@return integer
function Text:offset(i)
  return utf8.len(self.bytes, 1, -1, true) and utf8.offset(self.bytes, i) or i
end


---The bytes of the template, as pairs of first and last.
---@return integer[][]
function Text:own_parts()
  local list, at = {}, 1
  while true do
    local from, to = self.marks:find("t+", at)
    if not from then return list end
    list[#list + 1], at = {from, to}, to + 1
  end
end


return Text
