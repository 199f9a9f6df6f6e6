-- The defaults that the comments of the Lua half and the reference state: "N unless given", or
-- "; N" at the end; of arguments with names, "... any a 0, b 1".

local documented = {}

local FILES <const> = "find lua/heed -name '*.lua' | sort"

-- A text about no option: the mark of options without a default.
local OTHERS <const> = {["options.any"] = true}

local LITERALS <const> = {["true"] = true, ["false"] = false, once = 1}


-- The value of a word: a number, a string, a boolean, a list of numbers.
local function literal(text)
  if LITERALS[text] ~= nil then return LITERALS[text] end
  if text:find("^{[%d., ]+}$") or text:find('^"[%w_]*"$') then return load("return " .. text)() end
  return tonumber(text)
end

-- The words before "unless given" that are values: the last one, or all of a list "1, 2 and 3".
local function values(text)
  local before, list = text:match("^(.-) unless given"), {}
  before = before and before:gsub("^.*[;:] ", "")
  for word in (before or ""):gsub("%b{}", function(t) return (t:gsub(" ", "")) end)
                            :gmatch('[^%s,]?[^%s]*[^%s,]') do
    local value = literal((word:gsub("^(.-),$", "%1")))
    if value ~= nil then list[#list + 1] = value end
  end
  return list
end


-- The fields of a type such as {eps: number, atol: number}, in order.
local function fields(text)
  local list = {}
  for name in (text:match("^{([^}]*:[^}]*)}") or ""):gmatch("([%w_]+): ") do
    list[#list + 1] = name
  end
  return list
end

-- The type and the description of an annotation; a type may hold spaces in brackets.
local function split(text)
  local kind, rest = text:match("^(%b{}%S*)%s*(.*)$")
  if not kind then kind, rest = text:match("^(fun%b():?%s?%S*)%s*(.*)$") end
  if not kind then kind, rest = text:match("^(%S+)%s*(.*)$") end
  return kind or "", rest or ""
end


local function add_value(list, key, path, says, value)
  list[#list + 1] = {key = key, path = path, says = says, value = value}
end

-- Adds what a comment says of one option, or of each field of a table.
local function add(list, owner, name, text, path)
  text = text:gsub("; (%-?[%d.]+)$", "; %1 unless given")
  if not text:find("unless given", 1, true) then return end
  local kind, rest = split(text)
  local found, names = values(rest), fields(kind)
  local last = #names == 0 and found[#found]
  for i = 1, math.max(#names, 1) do
    local key = ("%s.%s%s"):format(owner, name, names[i] and "." .. names[i] or "")
    local value = nil
    if names[i] and #found == #names then value = found[i]
    elseif not names[i] and #found > 0 then value = last end
    add_value(list, key, path, rest, value)
  end
end


-- One comment block, whose lines are joined where a sentence goes on.
local function add_block(list, block, owner, class, path)
  local sentences = {}
  for _, line in ipairs(block) do
    if line:find("^%-%-%-[@>]") or #sentences == 0 then sentences[#sentences + 1] = line
    else
      sentences[#sentences] = sentences[#sentences] .. " " .. line:sub(#"---" + 1)
    end
  end
  for _, line in ipairs(sentences) do
    local named = line:match("^%-%-%-@param %.%.%. any(.*)$") or ""
    for name, word in named:gmatch(" (%l+) ([^%s,]+)") do
      local value = literal(word)
      if value ~= nil then add_value(list, owner .. "." .. name, path, line, value) end
    end
    local tag, name, text = line:match("^%-%-%-@(%l+) ([%w_.]+)%??%s+(.*)$")
    if tag == "field" then add(list, class, name, text, path)
    elseif tag == "param" then add(list, owner, name, text, path)
    elseif not tag and not OTHERS[owner] and line:find("unless given", 1, true) then
      add_value(list, owner .. ".text", path, line:sub(#"---" + 1))
    end
  end
end


-- The name of the function below a comment, or the file's for the value that it returns.
local function owner_of(line, path)
  return line:match("^function ([%w_.:]+)") or line:match("^local function ([%w_]+)")
         or line:match("^([%w_.]+) = ") or path:match("^lua/heed/(.*)%.lua$"):gsub("/", ".")
end


local function read(list, path)
  local block, class = {}, nil
  for line in io.lines(path) do
    if line:find("^%-%-%-") then
      block[#block + 1] = line
      class = line:match("^%-%-%-@class ([%w_.]+)") or class
    else
      add_block(list, block, owner_of(line, path), class, path)
      block = {}
    end
  end
end


---All defaults that comments state: {key, path, says, value}, in the order of the files. A key is
---the class or the function, and the option: heed.SGD.options.lr, Tensor:gelu.approximate. `value`
---is there where the comment has it as a literal.
---@return table[]
function documented.defaults()
  local list, files <close> = {}, assert(io.popen(FILES))
  for path in files:lines() do read(list, path) end
  return list
end


return documented
