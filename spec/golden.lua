-- Reads golden numbers, which PyTorch computed, and compares with them.
--
-- A file of spec/golden holds tensors, named by case and argument. Its metadata has `tree`, all
-- else as JSON: {"tensor": name} stands for a tensor, {"numbered": ...} for a table whose keys are
-- integers. A tensor is read as {dtype =, shape =, data =}, row by row. A spec that reads a file
-- uses all of its tensors, or says golden.part; golden.assert_all_used is its last test.

local asserted = require "spec.support.asserted"
local close = require "spec.support.close"
local heed = require "heed"
local json = require "heed.files.json"

local golden = {}

-- Of each tensor that was read, as "file: tensor", whether a test used it.
local used = {}

local function expect(label)
  used[label] = used[label] or false
  return function() used[label] = true end
end


-- A number or list of numbers where the tree says so ("of"), else a golden tensor, which is used
-- when its data are.
local function leaf(t, node, use)
  local data = t:reshape(-1):totable()
  if node.of then use() end
  if node.of == "number" then return data[1] end
  if node.of == "list" then return data end
  local row = {dtype = node.dtype or t.dtype, shape = {t:size()}}
  return setmetatable(row, {__index = function(_, key)
    if key ~= "data" then return nil end
    use()
    row.data = data
    return data
  end})
end


-- The tree below a node; expected(name) gives what is called when a tensor is used.
local function restored(node, tensors, expected)
  if type(node) ~= "table" then return node end
  if node.tensor then return leaf(tensors[node.tensor], node, expected(node.tensor)) end
  local found = {}
  for key, value in pairs(node.numbered or node) do
    found[node.numbered and math.tointeger(key) or key] = restored(value, tensors, expected)
  end
  return found
end


local function load(name)
  return assert(heed.load("spec/golden/" .. name .. ".safetensors"))
end


---The contents of a file in spec/golden, of which all tensors are to be used.
---@param name string
---@return table
function golden.read(name)
  local tensors, metadata = load(name)
  return restored(json.decode(metadata.tree, 64), tensors, function(tensor)
    return expect(name .. ": " .. tensor)
  end)
end


---The same for a spec that needs some of the tensors, where another uses all of them.
---@param name string
---@return table
function golden.part(name)
  local tensors, metadata = load(name)
  return restored(json.decode(metadata.tree, 64), tensors, function() return function() end end)
end


---The tensors of a file without a tree, by name, all of which are to be used. Called with a
---prefix, the table gives those that begin so, by the rest of their names.
---@param name string
---@return table<string, heed.Tensor>
function golden.tensors(name)
  local tensors = load(name)
  local uses = {}
  for key, t in pairs(tensors) do
    uses[key], tensors[key] = expect(name .. ": " .. key), t:to(heed.default_device())
  end
  local function use(key)
    if uses[key] then uses[key]() end
    return tensors[key]
  end
  return setmetatable({}, {
    __index = function(_, key) return use(key) end,
    __call = function(_, prefix)
      local below = {}
      for key in pairs(tensors) do
        if key:sub(1, #prefix) == prefix then below[key:sub(#prefix + 1)] = use(key) end
      end
      return below
    end,
  })
end


---Fails for tensors that were read and that no test used.
function golden.assert_all_used()
  local names = {}
  asserted.note()
  for name, is_used in pairs(used) do
    if not is_used then names[#names + 1] = name end
  end
  table.sort(names)
  assert(#names == 0, "golden numbers that no test uses: " .. table.concat(names, ", "))
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
