-- Builds a gnuplot script, line by line.
--
-- Coordinates are pixels of the picture at its natural size, from its top left corner. Of the
-- user's texts only letters and spaces stand between quotes unchanged; all other bytes are escaped.

local json = require "heed.files.json"

local Script = {
  INK = "#333333", PALE = "#777777",     -- the colours of text and of secondary text
  LETTER = 7,                            -- the width of a letter, at 10 points
}
Script.__index = Script


---@param width integer
---@param height integer
function Script.new(width, height)
  return setmetatable({width = width, height = height}, Script)
end


---A number as gnuplot reads it, in every locale.
---@param x number
---@return string
function Script.number(x)
  return x - x == 0 and json.encode(x) or "NaN"
end


local function octal(c) return ("\\%03o"):format(c:byte()) end

---A text as gnuplot reads it. Quotes, backquotes (a command of the shell) and all other marks
---are octal numbers, which gnuplot looks at last; digits too, lest they lengthen such a number.
---@param text string without control characters
---@return string
function Script.quote(text)
  return '"' .. text:gsub("[^A-Za-z \128-\255]", octal) .. '"'
end


---A step of 1, 2 or 5 times a power of ten that goes into `span` at most n times.
---@param span number
---@param n integer
---@return number
function Script.step(span, n)
  local unit = 10.0 ^ math.floor(math.log(span / n, 10))
  for _, times in ipairs {1, 2, 5} do
    if span / (times * unit) <= n then return times * unit end
  end
  return 10 * unit
end


---Adds a line; the format takes what string.format takes.
function Script:add(format, ...)
  self[#self + 1] = select("#", ...) > 0 and format:format(...) or format
end


---Ticks at places 1 to n of an axis: labels, or numbers as far apart as they need to be legible.
---@param axis "x"|"y"
---@param texts? string[]
---@param n integer
---@param rotated? boolean
function Script:places(axis, texts, n, rotated)
  local ticks, step = {}, 1
  if not texts and n > 20 then step = math.tointeger(Script.step(n, 8)) end
  for k = step, n, step do
    local text = texts and texts[k]:gsub("%%", "%%%%") or tostring(k)     -- labels are formats
    ticks[#ticks + 1] = ("%s %d"):format(Script.quote(text), k)
  end
  self:add("set %stics (%s) scale 0 nomirror %s font ',10' tc rgb '%s'", axis,
    table.concat(ticks, ", "), rotated and "rotate by 90 right" or "norotate",
    texts and Script.INK or Script.PALE)
end


-- gnuplot's screen runs from 0 to 1, and upwards.
function Script:x(pixels) return Script.number(pixels / self.width) end
function Script:y(pixels) return Script.number(1 - pixels / self.height) end


---Sets the margins of the next plot.
function Script:frame(box)
  self:add("set lmargin at screen %s; set rmargin at screen %s",
    self:x(box.left), self:x(box.left + box.width))
  self:add("set tmargin at screen %s; set bmargin at screen %s",
    self:y(box.top), self:y(box.top + box.height))
end


function Script:title(box, text)
  if not text then return end
  self:add("set label %s at screen %s, screen %s left font 'sans-serif:Bold,12' tc rgb '%s'",
    Script.quote(text), self:x(box.left), self:y(box.top - 16), Script.INK)
end


return Script
