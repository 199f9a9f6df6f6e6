-- Writes unicode_tables.h, unicode_canonical.h and unicode_compatible.h in src/text:
-- lua5.4 src/text/unicode_tables.lua FOLDER
-- The folder has UnicodeData.txt and CompositionExclusions.txt of the Unicode Character Database, as
-- Debian's package unicode-data has them.

local NAMES <const> = {
  "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
}

local code = {}
for i, name in ipairs(NAMES) do code[name] = i - 1 end

-- The control characters that are blanks have a number of their own, behind the categories.
local BLANKS <const> = {[9] = true, [10] = true, [11] = true, [12] = true, [13] = true,
                        [0x85] = true}
-- Letters in circles and squares, which are symbols and parts of words, have the last one.
local function is_enclosed(point)
  return point >= 0x24b6 and point <= 0x24e9 or point >= 0x1f130 and point <= 0x1f149 or
         point >= 0x1f150 and point <= 0x1f169 or point >= 0x1f170 and point <= 0x1f189
end

local folder <const> = assert(arg[1], "the folder of UnicodeData.txt expected")


-- The rows of UnicodeData.txt, in order: point, name, category, class, decomposition, lower.
local function read_rows()
  local rows = {}
  for line in io.lines(folder .. "/UnicodeData.txt") do
    local field = {}
    for word in (line .. ";"):gmatch("([^;]*);") do field[#field + 1] = word end
    rows[#rows + 1] = {point = tonumber(field[1], 16), name = field[2], category = field[3],
                       class = tonumber(field[4]), decomposition = field[6],
                       lower = tonumber(field[14], 16)}
  end
  return rows
end

local rows <const> = read_rows()


local function points_of(text)
  local list = {}
  for word in text:gsub("^<%a+>", ""):gmatch("%x+") do list[#list + 1] = tonumber(word, 16) end
  return list
end


-- Ranges of code points with the same category, without gaps, as first << 5 | category.
local function category_ranges()
  local list, last, category, first = {}, -1, nil, nil
  local function add(from, to, number)
    if last + 1 < from and category ~= code.Cn then
      list[#list + 1] = last + 1 << 5 | code.Cn
      category = code.Cn
    end
    if number ~= category then list[#list + 1] = from << 5 | number end
    last, category = to, number
  end
  for _, row in ipairs(rows) do
    local number = BLANKS[row.point] and #NAMES or is_enclosed(row.point) and #NAMES + 1 or
                   code[row.category]
    if row.name:find(", First>$") then first = row.point
    else
      add(first or row.point, row.point, number)
      first = nil
    end
  end
  add(0x110000, 0x110000, code.Cn)
  return list
end


-- Ranges of code points with the same combining class: first, last, class.
local function class_ranges()
  local list = {}
  for _, row in ipairs(rows) do
    local n = #list
    if row.class ~= 0 then
      if n > 0 and list[n] == row.class and list[n - 1] + 1 == row.point then
        list[n - 1] = row.point
      else table.move({row.point, row.point, row.class}, 1, 3, n + 1, list) end
    end
  end
  return list
end


-- Runs (first, last, target, step) of the pairs in order: points behind each other, or every other
-- one, whose targets differ by as much, or by 'steps' times it.
local function runs_of(pairs_in_order, steps)
  local list, run = {}, nil
  for _, pair in ipairs(pairs_in_order) do
    local point, target = pair[1], pair[2]
    local step = run and point - run.last
    local fits = step and steps(step, target - run.target_last) and
                 (not run.step or run.step == step and run.rise == target - run.target_last)
    if fits then
      run.step, run.rise, run.last, run.target_last = step, target - run.target_last, point, target
    else
      run = {first = point, last = point, target = target, target_last = target}
      list[#list + 1] = run
    end
  end
  return list
end


-- Lower case: first, last, step, lower case of the first; the distance stays.
local function lower_runs()
  local found, list = {}, {}
  for _, row in ipairs(rows) do
    if row.lower then found[#found + 1] = {row.point, row.lower} end
  end
  local function near(step, rise) return step <= 2 and rise == step end
  for _, run in ipairs(runs_of(found, near)) do
    table.move({run.first, run.last, run.step or 1, run.target}, 1, 4, #list + 1, list)
  end
  return list
end


-- Canonical decompositions, one step: point, first, second or 0; and where in them the pairs stand
-- that compose, in order of their halves.
local function canonical()
  local excluded, list, order = {}, {}, {}
  for line in io.lines(folder .. "/CompositionExclusions.txt") do
    local point = line:match("^%x+")
    if point then excluded[tonumber(point, 16)] = true end
  end
  local class = {}
  for _, row in ipairs(rows) do class[row.point] = row.class end
  for _, row in ipairs(rows) do
    if row.decomposition:find("^%x") then
      local halves = points_of(row.decomposition)
      local composes = halves[2] and not excluded[row.point] and row.class == 0 and
                       class[halves[1]] == 0
      if composes then order[#order + 1] = #list // 3 end
      table.move({row.point, halves[1], halves[2] or 0}, 1, 3, #list + 1, list)
    end
  end
  table.sort(order, function(a, b)
    local first, other = list[3 * a + 2], list[3 * b + 2]
    return first < other or first == other and list[3 * a + 3] < list[3 * b + 3]
  end)
  return list, order
end


-- Compatible ones, one step: runs of single characters (first, how many, target, how much the
-- target rises), and texts (point, start << 5 | length), all the texts being one.
local function compatible()
  local singles, runs, texts, pool, known = {}, {}, {}, {}, {}
  for _, row in ipairs(rows) do
    if row.decomposition:find("^<") then
      local points = points_of(row.decomposition)
      local key = table.concat(points, " ")
      if #points == 1 then singles[#singles + 1] = {row.point, points[1]}
      else
        if not known[key] then
          known[key] = #pool
          table.move(points, 1, #points, #pool + 1, pool)
        end
        table.move({row.point, known[key] << 5 | #points}, 1, 2, #texts + 1, texts)
      end
    end
  end
  local function near(step, rise) return step == 1 and (rise == 0 or rise == 1) end
  for _, run in ipairs(runs_of(singles, near)) do
    local count = run.last - run.first + 1
    table.move({run.first, count, run.target, run.rise or 0}, 1, 4, #runs + 1, runs)
  end
  return runs, texts, pool
end


local function write_list(out, type, name, list)
  out:write(("\nstatic const %s %s[] = {\n"):format(type, name))
  local line = " "
  for _, number in ipairs(list) do
    local word = (" %d,"):format(number)
    if #line + #word > 99 then
      out:write(line, "\n")
      line = " "
    end
    line = line .. word
  end
  out:write(line, "\n};\n")
end


local function write_categories(path)
  local out = assert(io.open(path, "w"))
  out:write([[
/*
** unicode_tables.h - the categories of Unicode 15.0, combining classes and lower case, written by
** unicode_tables.lua. Ranges of categories, each (first code point << 5 | category), end where the
** next one begins. Classes: first, last, class. Lower case: first, last, step, lower case of the
** first.
*/

#define CATEGORIES \
  ]])
  for i, name in ipairs(NAMES) do
    out:write(("X(%s)%s"):format(name, i == #NAMES and "\n" or i % 10 == 0 and " \\\n  " or " "))
  end
  write_list(out, "uint32_t", "category_ranges", category_ranges())
  write_list(out, "uint32_t", "class_ranges", class_ranges())
  write_list(out, "uint32_t", "lower_runs", lower_runs())
  out:close()
end


local function write_canonical(path)
  local out = assert(io.open(path, "w"))
  local list, order = canonical()
  out:write([[
/*
** unicode_canonical.h - canonical decompositions of Unicode 15.0, one step each, written by
** unicode_tables.lua: point, first, second or 0. 'composed' has the places of the pairs that
** compose, in order of their halves.
*/
]])
  write_list(out, "uint32_t", "canonical", list)
  write_list(out, "uint16_t", "composed", order)
  out:close()
end


local function write_compatible(path)
  local out = assert(io.open(path, "w"))
  local runs, texts, pool = compatible()
  out:write([[
/*
** unicode_compatible.h - compatible decompositions of Unicode 15.0, one step each, written by
** unicode_tables.lua: runs of single characters (first, how many, target, how much the target
** rises) and texts (point, start in 'compatible_pool' << 5 | length).
*/
]])
  write_list(out, "uint32_t", "compatible_runs", runs)
  write_list(out, "uint32_t", "compatible_texts", texts)
  write_list(out, "uint16_t", "compatible_pool", pool)
  out:close()
end


write_categories("src/text/unicode_tables.h")
write_canonical("src/text/unicode_canonical.h")
write_compatible("src/text/unicode_compatible.h")
