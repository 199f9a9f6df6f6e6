-- The rows of src/op/ops.def, read from its text, for specs that go through all of them.

local INPUTS = {UNARY = 1, BINARY = 2, TERNARY = 3, OP = 0, COMPOSED = 0, PLAIN = 0}

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

-- The sections of operations, without the head, the properties, the end and all comments.
local text = read("src/op/ops.def"):match("\n/%* {== .*"):gsub("\n/%* {== Properties.*", "\n")
text = text:gsub("/%*.-%*/", "")

local rows = {list = {}, by_name = {}}

-- A row starts its line; its further lines are indented.
for line in text:gmatch("[^\n]+") do
  local kind, name = line:match("^(%u+)%s*%(([%w_]+)")
  if kind then
    assert(INPUTS[kind], "ops.def: no kind of row is called " .. kind)
    assert(not rows.by_name[name], "ops.def: two rows are called " .. name)
    local row = {kind = kind, name = name, text = line, inputs = INPUTS[kind]}
    rows.list[#rows.list + 1], rows.by_name[name] = row, row
  else
    local row = rows.list[#rows.list]
    assert(line:find("^%s") and row, "ops.def: this is no part of a row: " .. line)
    row.text = row.text .. line
  end
end

for _, row in ipairs(rows.list) do
  row.elementwise = row.inputs > 0
  row.domain = row.text:match("^%u+%s*%([%w_]+,%s*(%u+),")       -- of an elementwise row
  row.in_place = row.kind == "UNARY" or row.kind == "BINARY" or
                 row.text:find("TARGET(", 1, true) ~= nil
  row.differentiable = row.kind ~= "PLAIN" and row.domain ~= "TEST"
end

return rows
