-- Parts of pictures in a terminal: text of a known width, colours, blocks of lines.
--
-- A block is a list of lines that look equally wide, `width` columns each.

local ink = {}

---Columns that a text takes.
---@type fun(text: string): integer
ink.width = utf8.len

local width = ink.width


function ink.right(text, n)
  return (" "):rep(n - width(text)) .. text
end


function ink.centre(text, n)
  local free = n - width(text)
  return (" "):rep(free // 2) .. text .. (" "):rep(free - free // 2)
end


---The text, or as much of it as fits in n columns.
function ink.cut(text, n)
  if width(text) <= n then return text end
  return text:sub(1, utf8.offset(text, n) - 1) .. "~"
end


---The letter at a position, or a space where there is none.
function ink.letter(text, at)
  if at < 1 or at > width(text) then return " " end
  local from = utf8.offset(text, at)
  return text:sub(from, utf8.offset(text, 2, from) - 1)
end


---The width of the widest text of a list.
function ink.longest(texts)
  local n = 0
  for _, text in ipairs(texts or {}) do n = math.max(n, width(text)) end
  return n
end


---A number in few digits, without those that are negligible beside `span`; with a point in every
---locale.
---@param x number finite
---@param span? number
---@return string
function ink.short(x, span)
  if span and span > 0 then
    local unit = 10.0 ^ (math.floor(math.log(span, 10)) - 2)
    local steps = math.floor(x / unit + 0.5)
    if unit > 0 and steps - steps == 0 then x = steps * unit end
  end
  local text = ("%.4g"):format(x):gsub(",", ".")
  return text == "-0" and "0" or text
end


-- Colours.

---Text under codes of "select graphic rendition".
function ink.paint(codes, text)
  return "\27[" .. codes .. "m" .. text .. "\27[0m"
end


function ink.front(rgb)
  return ("38;2;%d;%d;%d"):format(rgb[1], rgb[2], rgb[3])
end


function ink.back(rgb)
  return ("48;2;%d;%d;%d"):format(rgb[1], rgb[2], rgb[3])
end


-- Blocks.

---Adds a line to a block.
---@param text string
---@param n integer its width, without its colours
function ink.add(block, text, n)
  block[#block + 1] = text .. (" "):rep(block.width - n)
end


---Adds a line of plain text, cut to the block's width.
---@param codes? string
function ink.add_text(block, text, codes)
  text = ink.cut(text, block.width)
  ink.add(block, codes and ink.paint(codes, text) or text, width(text))
end


---Makes a block as wide as given, if it is narrower.
function ink.widen(block, n)
  local more = math.max(0, n - block.width)
  for i, line in ipairs(block) do block[i] = line .. (" "):rep(more) end
  block.width = block.width + more
end


---Two blocks beside each other.
function ink.beside(a, b, gap)
  local joined = {width = a.width + gap + b.width}
  for i = 1, math.max(#a, #b) do
    local left, right = a[i] or (" "):rep(a.width), b[i] or (" "):rep(b.width)
    joined[i] = left .. (" "):rep(gap) .. right
  end
  return joined
end


return ink
