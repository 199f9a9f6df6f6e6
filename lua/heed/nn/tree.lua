-- Draws a module as a tree: what stands in its fields, shapes, and how many numbers are trained.
--
--   Model                                                     10,716
--     embed   Embedding(10, 5)  weight (10, 5)                    50
--     query   Parameter         (1, 5)                             5
--     nn      Sequential                                      10,401
--       1     Linear(50, 200)   weight (200, 50)  bias (200)  10,200
--       2     ReLU
--       3     Linear(200, 1)    weight (1, 200)  bias (1)        201
--
-- Shared weights are counted where they are met first, and named there.

local heed = require "heed"
local options = require "heed.internal.options"

local tree = {}

-- 10716 -> "10,716"
local function grouped(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end


-- The text between a module's parentheses; "?" where a weight was released.
local function description(module)
  local good, inside = pcall(module.describe, module)
  if good and type(inside) == "string" then return inside end
  if good then
    heed.fail("%s: a text expected from describe, got %s", module.__name, options.kind(inside))
  end
  if tostring(inside):find("was released", 1, true) then return "?" end
  error(inside, 0)
end


---A module in one line: "Linear(3, 4)".
---@param module heed.Module
---@return string
function tree.title(module)
  local inside = description(module)
  return module.__name .. (inside ~= "" and "(" .. inside .. ")" or "")
end


-- The shape of a tensor, and its type unless that is float32; or where it was met before. Behind
-- them how many numbers it adds.
local function shape(self, path, t, role)
  if self.first[t] then return "= " .. self.first[t], 0 end
  self.first[t] = path
  if not pcall(heed.numel, t) then return "[released]", 0 end
  local text = tostring(t.shape) .. (t.dtype ~= "float32" and " " .. t.dtype or "")
  if role ~= "parameter" then return text, 0 end
  return t.requires_grad and text or text .. " frozen", t:numel()
end


local function add_row(self, depth, name, kind, shapes)
  local row = {name = ("  "):rep(depth) .. name, kind = kind, shapes = shapes, count = 0}
  table.insert(self.rows, row)
  return row
end


local function add_tensor(self, depth, path, field)
  local text, n = shape(self, path, field.value, field.role)
  local kind = field.role == "buffer" and "Buffer" or "Parameter"
  add_row(self, depth, field.name, kind, text).count = n
  return n
end


local add_module

-- The fields of a module that has others within it: one row for each.
local function add_fields(self, depth, path, fields)
  local count = 0
  for _, field in ipairs(fields) do
    local below = path .. field.name
    local add = field.role == "module" and add_module or add_tensor
    if field.role ~= "tensor" then count = count + add(self, depth, below, field) end
  end
  return count
end


-- The tensors of a module that has no other within it: all in its own row.
local function shapes_inline(self, path, fields)
  local texts, count = {}, 0
  for _, field in ipairs(fields) do
    if field.role ~= "tensor" then
      local text, n = shape(self, path .. field.name, field.value, field.role)
      texts[#texts + 1], count = field.name .. " " .. text, count + n
    end
  end
  return table.concat(texts, "  "), count
end


local function has_modules(fields)
  for _, field in ipairs(fields) do
    if field.role == "module" then return true end
  end
  return false
end


function add_module(self, depth, path, field)
  local module = field.value
  local row = add_row(self, depth, field.name, tree.title(module), "")
  if self.first[module] then
    row.shapes = "= " .. self.first[module]
    return 0
  end
  self.first[module] = path
  local fields, prefix = module:fields(), path == "" and "" or path .. "."
  if has_modules(fields) then
    row.count = add_fields(self, depth + 1, prefix, fields)
  else
    row.shapes, row.count = shapes_inline(self, prefix, fields)
  end
  return row.count
end


-- The width of a column; `format` takes two digits of it.
local function widest(rows, column)
  local width = 1
  for _, row in ipairs(rows) do width = math.max(width, #row[column]) end
  return math.min(width, 99)
end


local function format(rows)
  for _, row in ipairs(rows) do row.count = row.count > 0 and grouped(row.count) or "" end
  local columns = ("%%-%ds  %%-%ds  %%-%ds  %%%ds"):format(
    widest(rows, "name"), widest(rows, "kind"), widest(rows, "shapes"), widest(rows, "count"))
  local lines = {}
  for i, row in ipairs(rows) do
    lines[i] = columns:format(row.name, row.kind, row.shapes, row.count):match("^.*%S") or ""
  end
  return table.concat(lines, "\n")
end


---The tree of a module, as text.
---@param module heed.Module
---@return string
function tree.draw(module)
  local self = {rows = {}, first = {}}
  add_module(self, 0, "", {name = "", value = module})
  local top = self.rows[1]
  top.name, top.kind = top.kind, ""
  return format(self.rows)
end


return tree
