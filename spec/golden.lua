-- Reads golden numbers, which PyTorch computed, and compares with them.
--
-- A file of spec/golden holds tensors, named by case and argument. Its metadata has `tree`, all
-- else as JSON: {"tensor": name} stands for a tensor, {"numbered": ...} for a table whose keys are
-- integers. A tensor is read as {dtype =, shape =, data =}, row by row.

local close = require "spec.support.close"
local heed = require "heed"
local json = require "heed.files.json"

local golden = {}


-- A number or list of numbers where the tree says so ("of"), else a golden tensor.
local function leaf(t, node)
  local data = t:reshape(-1):totable()
  if node.of == "number" then return data[1] end
  if node.of == "list" then return data end
  return {dtype = node.dtype or t.dtype, shape = {t:size()}, data = data}
end


local function restored(node, tensors)
  if type(node) ~= "table" then return node end
  if node.tensor then return leaf(tensors[node.tensor], node) end
  local found = {}
  for key, value in pairs(node.numbered or node) do
    found[node.numbered and math.tointeger(key) or key] = restored(value, tensors)
  end
  return found
end


---The contents of a file in spec/golden.
---@param name string
---@return table
function golden.read(name)
  local tensors, metadata = assert(heed.load("spec/golden/" .. name .. ".safetensors"))
  return restored(json.decode(metadata.tree, 64), tensors)
end


---A golden tensor as a tensor.
---@param row {dtype: string, shape: integer[], data: number[]}
---@return heed.Tensor
function golden.tensor(row)
  return heed.tensor(row.data, {dtype = row.dtype}):view(row.shape)
end


local function flat(t)
  return t:detach():to("cpu"):to("float64"):reshape(-1):totable()
end


---Why a tensor differs from a golden one by more than relative * |golden| + floor; or nil.
---@param t heed.Tensor
---@param row {dtype: string, shape: integer[], data: number[]}
---@param relative number
---@param floor? number 0 unless given
---@return string?
function golden.difference(t, row, relative, floor)
  local shape = "(" .. table.concat(row.shape, ", ") .. ")"
  if tostring(t.shape) ~= shape then
    return ("shape %s expected, got %s"):format(shape, tostring(t.shape))
  end
  for i, got in ipairs(flat(t)) do
    local wanted = row.data[i]
    if not close(got, wanted, relative, floor) then
      return ("element %d: %.9g expected, got %.9g"):format(i, wanted, got)
    end
  end
end


-- Rows from..to of a golden tensor.
local function rows(row, from, to)
  local width, data = #row.data // row.shape[1], {}
  table.move(row.data, (from - 1) * width + 1, to * width, 1, data)
  return {dtype = row.dtype, shape = {to - from + 1, table.unpack(row.shape, 2)}, data = data}
end


---PyTorch's packed weights of a MultiheadAttention, under our names.
---@param weights table<string, table>
---@return table<string, table>
function golden.unpack_heads(weights)
  local dim, named = weights["out_proj.weight"].shape[1], {}
  for i, child in ipairs{"query", "key", "value"} do
    named[child .. ".weight"] = rows(weights.in_proj_weight, (i - 1) * dim + 1, i * dim)
    named[child .. ".bias"] = rows(weights.in_proj_bias, (i - 1) * dim + 1, i * dim)
  end
  named["out.weight"], named["out.bias"] = weights["out_proj.weight"], weights["out_proj.bias"]
  return named
end


return golden
