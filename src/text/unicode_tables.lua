-- Writes src/text/unicode_tables.h: lua5.4 src/text/unicode_tables.lua UnicodeData.txt
-- The file is part of Debian's package unicode-data, and of the Unicode Character Database.

local NAMES <const> = {
  "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
}

local code = {}
for i, name in ipairs(NAMES) do code[name] = i - 1 end

-- The control characters that are blanks have a number of their own, behind the categories.
local BLANKS <const> = {[9] = true, [10] = true, [11] = true, [12] = true, [13] = true,
                        [0x85] = true}

local ranges, first = {}, nil
local function add(from, to, category)
  local last = ranges[#ranges]
  if last and last.to + 1 == from and last.category == category then
    last.to = to
    return
  end
  if last and last.to + 1 < from then
    ranges[#ranges + 1] = {from = last.to + 1, to = from - 1, category = code.Cn}
  end
  if last and ranges[#ranges].category == category then ranges[#ranges].to = to
  else ranges[#ranges + 1] = {from = from, to = to, category = category} end
end

local path = assert(arg[1], "the path of UnicodeData.txt expected")
for line in io.lines(path) do
  local point, name, category = line:match("^(%x+);([^;]*);(%a%a);")
  point = tonumber(point, 16)
  local number = BLANKS[point] and #NAMES or code[category]
  if name:find(", First>$") then first = point
  else
    add(first or point, point, number)
    first = nil
  end
end
add(0x110000, 0x110000, code.Cn)

local out = assert(io.open("src/text/unicode_tables.h", "w"))
out:write([[
/*
** unicode_tables.h - the categories of Unicode 15.0, written by unicode_tables.lua: ranges by their
** ends, each (first code point << 5 | category) up to the next one's first.
*/

#define CATEGORIES \
  ]])
for i, name in ipairs(NAMES) do
  out:write(("X(%s)%s"):format(name, i == #NAMES and "\n\n" or i % 10 == 0 and " \\\n  " or " "))
end
out:write("static const uint32_t category_ranges[] = {\n")
local line = " "
for _, range in ipairs(ranges) do
  local word = (" %d,"):format(range.from << 5 | range.category)
  if #line + #word > 99 then
    out:write(line, "\n")
    line = " "
  end
  line = line .. word
end
out:write(line, "\n};\n")
out:close()
