-- data.lines, data.csv and data.json_lines: files of text as lists.
--
-- A file is read whole, after its size and the list that it becomes were compared with the limit of
-- memory. A malformed file is nil and a message that names the line.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"
local whole = require "heed.files.whole"

local texts = {}

local BOM <const> = "^\xEF\xBB\xBF"     -- some programs begin UTF-8 so


-- How often a pattern of one byte occurs.
local function count(text, pattern)
  local n = 0
  for _ in text:gmatch(pattern) do n = n + 1 end
  return n
end


-- Reads a file by `parse(text, o)`; `ends` is the pattern of what ends an entry of its lists.
local function read(who, path, ends, parse, o)
  return whole.read(who, path, function(text)
    core.check_entries(who, count(text, ends) + 1, "the entries of the file")
    return parse((text:gsub(BOM, "", 1)), o)
  end)
end


-- Lines ------------------------------------------------------------------

-- Calls f(line, number) for each line, without its end.
local function each_line(text, f)
  local n, at = 0, 1
  while at <= #text do
    local stop = text:find("\n", at, true) or #text + 1
    n = n + 1
    f(text:sub(at, text:byte(stop - 1) == 13 and stop - 2 or stop - 1), n)
    at = stop + 1
  end
end


local function split_lines(text)
  local list = {}
  each_line(text, function(line, n) list[n] = line end)
  return list
end


---The lines of a file, without their ends, which are "\n" or "\r\n".
---@param path string
---@return string[]? lines
---@return string? message
function texts.lines(path, ...)
  options.no_more("data.lines", 1, ...)
  return read("data.lines", path, "\n", split_lines)
end


-- JSON lines -------------------------------------------------------------

local function parse_json_lines(text)
  local list = {}
  each_line(text, function(line, n)
    if not line:find("[^ \t\r]") then return end
    local value, why = json.decode(line)
    if why then refuse.with("line %d: %s", n, why) end
    list[#list + 1] = value
  end)
  return list
end


---The values of a file with JSON on each line, such as `{"text": "…", "label": 1}`. Blank lines
---are none. JSON's null is a value of its own, of which `data.is_null` is true.
---@param path string
---@return any[]? values
---@return string? message
function texts.json_lines(path, ...)
  options.no_more("data.json_lines", 1, ...)
  return read("data.json_lines", path, "[\n,:]", parse_json_lines)
end


-- CSV --------------------------------------------------------------------

-- A field without quotes: a number where it is a decimal one, else its text. Names such as "007"
-- are no numbers, and neither are whole ones that no integer of Lua's can hold, of which a float
-- would lack the last digits, nor those beyond any float.
local function plain_value(text)
  local is_whole = text:match("^[+-]?%d+$")
  local digits = text:match("^[+-]?(%d*%.?%d*)$") or text:match("^[+-]?(%d*%.?%d*)[eE][+-]?%d+$")
  if not digits or not digits:find("%d") or digits:find("^0%d") then return text end
  local n = tonumber(text)
  local is_lossy = is_whole and math.type(n) ~= "integer" or n - n ~= 0
  return is_lossy and text or n
end


-- The field from `at` on, whether it stood in quotes, and the position behind it.
local function field(text, at, ends, line)
  if text:sub(at, at) ~= '"' then
    local stop = text:find(ends, at) or #text + 1
    return text:sub(at, stop - 1), false, stop
  end
  local stop = at
  repeat
    stop = text:find('"', stop + 1, true)
    if not stop then refuse.with("line %d: a quote is open at the end of the file", line) end
    local doubled = text:sub(stop + 1, stop + 1) == '"'
    if doubled then stop = stop + 1 end
  until not doubled
  return text:sub(at + 1, stop - 1):gsub('""', '"'), true, stop + 1
end


-- The end of a row at `at`: the position behind it, or nil where a separator stands there.
local function row_end(text, at, separator, line)
  local stop = text:match("^\r?\n()", at) or at > #text and at
  if stop then return stop end
  if text:sub(at, at) == "\r" then
    refuse.with('line %d: "\\n" expected behind a carriage return, got %s', line,
                at < #text and refuse.quoted(text:sub(at + 1, at + 1)) or "the end of the file")
  end
  if text:sub(at, at) ~= separator then
    refuse.with("line %d: %s or the end of the line expected behind a quote, got %s", line,
                refuse.quoted(separator), refuse.quoted(text:sub(at, at)))
  end
end


-- The row that begins at `at` on a line: its fields, and where the next one begins.
local function parse_row(text, at, o, line)
  local row, start = {}, at
  while true do
    local value, quoted, stop = field(text, at, o.ends, line)
    row[#row + 1] = quoted and value or plain_value(value)
    at = row_end(text, stop, o.separator, line)
    if at then return row, at, line + count(text:sub(start, at - 1), "\n") end
    at = stop + 1
  end
end


local function parse_csv(text, o)
  local rows, at, line, header = {}, 1, 1, nil
  while at <= #text do
    local first, wanted = line, header or rows[1]
    if wanted and #wanted > 1 and not text:find("[^\r\n]", at) then break end
    local row
    row, at, line = parse_row(text, at, o, line)
    if wanted and #row ~= #wanted then
      refuse.with("line %d: %d fields expected, as in the first line, got %d", first, #wanted, #row)
    end
    if o.header and not header then header = row else rows[#rows + 1] = row end
  end
  return rows, header
end


---Whether a value that `data.json_lines` read is JSON's null.
---@param value any
---@return boolean
function texts.is_null(value) return rawequal(value, json.null) end


---@class heed.data.csv.options
---@field header? boolean false: the first line is a row like the others; true unless given
---@field separator? string one byte between two fields; a comma unless given

---The rows of a file of comma-separated values, as lists: decimal numbers as numbers, so that
---`heed.tensor(rows)` takes rows of them, and other fields, or those in quotes, as strings. Numbers
---that Lua has no value for, as whole ones beyond 64 bits, are strings, too. Blank lines at the end
---are none where rows have several fields.
---@param path string
---@param given? heed.data.csv.options
---@return any[][]? rows
---@return any[]|string|nil header the fields of the first line, unless `header` is false; a message
function texts.csv(path, given, ...)
  options.no_more("data.csv", 2, ...)
  local o = options.read("data.csv", given, {header = true, separator = ","})
  if type(o.separator) ~= "string" or not o.separator:find('^[^"\r\n]$') then
    heed.fail('data.csv: option separator: one byte, such as ";", expected, got %s',
              options.kind(o.separator))
  end
  local ends = "[\r\n%" .. o.separator .. "]"
  return read("data.csv", path, "[\n%" .. o.separator .. "]", parse_csv,
              {ends = ends, header = o.header, separator = o.separator})
end


return texts
