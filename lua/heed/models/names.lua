-- Tensors of a file take the places of a module's parameters, by a table of names:
--
--   {"layers.%d.self_attn.q_proj", "body.layers.%d.attend.query"}
--
-- says that q_proj.weight of layer 0 is attend.query.weight of layer 1, and the same of biases. A
-- list of modules divides the rows of one tensor. `transposed` matrices are (inputs, outputs);
-- `heads` divides the rows of each head. A tensor that the module lacks, one that it expects and
-- does not get, and one of another shape are refused by name: nothing is left as it was.

local adapters = require "heed.nn.adapters"
local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local heed = require "heed"
local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local names = {}

---@class heed.models.rule
---@field [1] string the name in the file, without .weight and .bias
---@field [2] string|string[] the module, or those that share the rows; or a parameter
---@field transposed? boolean
---@field heads? integer
---@field bare? boolean whether it never has the prefix
---@field as? fun(t: heed.Tensor): heed.Tensor gives a tensor of the file the module's shape

---@class heed.models.names
---@field prefix? string[] what may stand before all names, the first that fits
---@field ignored? string[] patterns of names that are no weights, or of parts that are not used


-- The part of a rule's name that numbers layers, for layer i, from 0 in files and from 1 here.
local function numbered(pattern, i)
  return (pattern:gsub("%%d", tostring(i), 1))
end


-- Whether what has this path is in the module's file of tensors: layers of its sentences have files
-- of their own.
local function is_inside(path) return not path:find("^sentences%.") end


-- The parameters of a module that its file of tensors has, by their names.
local function parameters_of(module)
  local parameters = {}
  for path, p in module:named_parameters() do
    if is_inside(path) then parameters[path] = p end
  end
  return parameters
end


-- The path of what has a path below another one; "" is no step.
local function below(path, name)
  return path .. (path ~= "" and name ~= "" and "." or "") .. name
end


-- Parameters without adapters: weights with what merged ones have added to them. `at` is the
-- module's own path.
local function values_of(module, who, at)
  local values = parameters_of(module)
  local paths, layers = adapters.of(module)
  for i, path in ipairs(paths) do
    if is_inside(path) then
      values[below(path, "adapter.down")], values[below(path, "adapter.up")] = nil, nil
      values[below(path, "weight")] = adapters.merged(layers[i]) or heed.fail(
        "%s: the adapter at '%s' is not merged; its module's merge() adds what it has learnt to "
        .. "the weights, and models.save_adapters saves adapters alone", who, below(at, path))
    end
  end
  return values
end


-- The rules for all layers that these parameters are of: {name, modules, rule}.
local function rows_of(parameters, all)
  local rows, last = {}, 1
  for path in next, parameters do
    last = math.max(last, math.tointeger(path:match("%.(%d+)%.")) or 0)
  end
  for _, rule in ipairs(all) do
    for i = 0, rule[1]:find("%d", 1, true) and last - 1 or 0 do
      local modules = {}
      for n, module in ipairs(type(rule[2]) == "table" and rule[2] or {rule[2]}) do
        modules[n] = numbered(module, i + 1)
      end
      rows[#rows + 1] = {name = numbered(rule[1], i), modules = modules, rule = rule}
    end
  end
  return rows
end


-- Adds what a row expects: for weight, bias or the tensor itself the parameters that its rows
-- become.
local function expect(expected, parameters, row)
  for _, suffix in ipairs{"", ".weight", ".bias"} do
    local parts = {}
    for _, module in ipairs(row.modules) do
      local path = module .. suffix
      parts[#parts + 1] = parameters[path]
      if parameters[path] then expected.covered[path] = true end
    end
    if #parts > 0 then
      table.insert(expected, {name = row.name .. suffix, parts = parts, rule = row.rule})
    end
  end
end


-- Tensors that parameters expect: {name, parts, rule}.
local function expectations(parameters, all, who)
  local expected = {covered = {}}
  for _, row in ipairs(rows_of(parameters, all)) do expect(expected, parameters, row) end
  for path in next, parameters do
    if not expected.covered[path] then heed.fail("%s: no name for '%s'", who, path) end
  end
  return expected
end


-- The first prefix by which the file has a tensor that is expected.
local function prefix_of(expected, all, tensors)
  for _, prefix in ipairs(all.prefix or {}) do
    for _, entry in ipairs(expected) do
      if tensors[prefix .. entry.name] and not entry.rule.bare then return prefix end
    end
  end
  return ""
end


-- Old names of the parameters of norms.
local function old_name(name)
  return (name:gsub("%.weight$", ".gamma"):gsub("%.bias$", ".beta"))
end


-- The name that an expected tensor has in the file.
local function name_there(entry, prefix, tensors)
  local name = entry.rule.bare and entry.name or prefix .. entry.name
  local old = old_name(name)
  return not tensors[name] and tensors[old] and old or name
end


local function shape_text(sizes) return "(" .. table.concat(sizes, ", ") .. ")" end

local function check_shape(name, t, sizes)
  local got = {t:size()}
  local good = #got == #sizes
  for i, n in ipairs(sizes) do good = good and got[i] == n end
  if good then return end
  refuse.with("the tensor %s has shape %s, and %s is expected", quoted(name), shape_text(got),
              shape_text(sizes))
end


local function check_type(name, t)
  if t.dtype:find("float") or blocks[t.dtype] then return end
  refuse.with("the tensor %s has type %s, and floats are expected", quoted(name), t.dtype)
end


-- The shape that a tensor of several parts has.
local function shape_of(parts, transposed)
  local sizes = {parts[1]:size()}
  for i = 2, #parts do sizes[1] = sizes[1] + parts[i]:size(1) end
  if transposed and #sizes == 2 then sizes[1], sizes[2] = sizes[2], sizes[1] end
  return sizes
end


-- Rows of heads, each with its part of every result -> the rows of each result.
local function by_heads(t, heads, n)
  local sizes = {t:size()}
  local rows = t:reshape(heads, n, sizes[1] // (heads * n), sizes[2] or 1)
  local all = {}
  for i = 1, n do
    local part = rows:select(2, i):reshape(sizes[1] // n, sizes[2] or 1)
    all[i] = sizes[2] and part or part:squeeze(2)
  end
  return all
end


-- The tensors that the parts of an entry become.
local function divided(entry, t)
  local parts, rule = entry.parts, entry.rule
  if rule.transposed and t:dim() == 2 then t = t.T:contiguous() end
  if rule.heads then return by_heads(t, rule.heads, #parts) end
  if #parts == 1 then return {t} end
  local all, at = {}, 1
  for i, p in ipairs(parts) do
    all[i] = t:narrow(1, at, p:size(1))
    at = at + p:size(1)
  end
  return all
end


local function is_ignored(name, patterns)
  for _, pattern in ipairs(patterns or {}) do
    if name:find(pattern) then return true end
  end
  return false
end


local function refuse_surplus(tensors, used, patterns)
  local surplus = {}
  for name in next, tensors do
    if not used[name] and not is_ignored(name, patterns) then surplus[#surplus + 1] = name end
  end
  if #surplus == 0 then return end
  table.sort(surplus)
  refuse.with("the file has tensors that this model has no place for: %s%s", quoted(surplus[1]),
              #surplus > 1 and (", and %d more"):format(#surplus - 1) or "")
end


---A table of names in which some rules replace those of the same modules.
---@param all heed.models.names
---@param rules heed.models.rule[]
---@return heed.models.names
function names.with(all, rules)
  local replaced, own = {}, {}
  for key, value in next, all do
    if type(key) == "string" then own[key] = value end
  end
  for _, rule in ipairs(rules) do
    for _, module in ipairs(type(rule[2]) == "table" and rule[2] or {rule[2]}) do
      replaced[module] = true
    end
  end
  for _, rule in ipairs(all) do
    if not replaced[rule[2]] then own[#own + 1] = rule end
  end
  return table.move(rules, 1, #rules, #own + 1, own)
end


---What says which tensors of a file a module's parameters are.
---@class heed.models.source
---@field names heed.models.names
---@field prefix string
---@field shapes table<string, integer[]> of tensors whose shape was changed

---Gives the parameters of a module the tensors of a file.
---@param module heed.Module
---@param all heed.models.names
---@param tensors table<string, heed.Tensor>
---@return heed.models.source
function names.assign(module, all, tensors)
  local expected = expectations(parameters_of(module), all, "models.load")
  local prefix, used = prefix_of(expected, all, tensors), {}
  local shapes = {}
  local changes = {takers = {}, givers = {}, gradients = {}}
  for _, entry in ipairs(expected) do
    local name = name_there(entry, prefix, tensors)
    local t = tensors[name]
    if not t then refuse.with("the tensor %s is missing", quoted(name)) end
    if entry.rule.as then
      shapes[entry.name] = {t:size()}
      t = entry.rule.as(t)
    end
    check_type(name, t)
    check_shape(name, t, shape_of(entry.parts, entry.rule.transposed))
    used[name] = true
    for i, part in ipairs(divided(entry, t)) do
      local n = #changes.takers + 1
      changes.takers[n], changes.givers[n], changes.gradients[n] = entry.parts[i], part, false
    end
  end
  refuse_surplus(tensors, used, all.ignored)
  core.commit("models.load", changes)
  return {names = all, prefix = prefix, shapes = shapes}
end


---A module of a model, and its name in files.
---@class heed.models.named
---@field path string in the model
---@field name string in files, without a prefix
---@field rule heed.models.rule
---@field columns integer|false of its weight, where that is a matrix
---@field shares string[] the modules that divide the rows of one tensor
---@field rows integer[] of the weight of each of them

---The modules with a weight that the rules name, in the order of the rules.
---@param module heed.Module
---@param all heed.models.names
---@return heed.models.named[]
function names.modules(module, all)
  local parameters, list = parameters_of(module), {}
  for _, row in ipairs(rows_of(parameters, all)) do
    local rows = {}
    for i, path in ipairs(row.modules) do
      local weight = parameters[path .. ".weight"]
      rows[i] = weight and weight:size(1) or 0
      list[#list + 1] = weight and {
        path = path, name = row.name, rule = row.rule, shares = row.modules, rows = rows,
        columns = weight:dim() == 2 and weight:size(2),
      }
    end
  end
  return list
end


-- The inverse of by_heads: the rows of each part, head by head.
local function side_by_side(parts, heads)
  local rows, columns = table.unpack({parts[1]:size()})
  local all = {}
  for i, p in ipairs(parts) do all[i] = p:reshape(heads, 1, rows // heads, columns or 1) end
  local t = heed.cat(all, 2):reshape(rows * #parts, columns or 1)
  return columns and t or t:squeeze(2)
end


local function has_blocks(parts)
  for _, p in ipairs(parts) do
    if blocks[p.dtype] then return true end
  end
  return false
end


-- Parts as values of one type, where one is in blocks.
local function values_in(parts)
  if not has_blocks(parts) then return parts end
  local all = {}
  for i, p in ipairs(parts) do all[i] = p:to("float32") end
  return all
end


-- The tensor of a file that the parts of an entry are.
local function joined(entry, shapes)
  local parts, rule, size = entry.parts, entry.rule, shapes[entry.name]
  if #parts == 1 and not (rule.heads or rule.transposed or size) then return parts[1] end
  parts = values_in(parts)
  local t = parts[1]
  if rule.heads then t = side_by_side(parts, rule.heads)
  elseif #parts > 1 then t = heed.cat(parts, 1) end
  if rule.transposed and t:dim() == 2 then t = t.T end
  return size and t:reshape(size) or t
end


---The tensors of a file that a module's parameters are, by the names that it had there. Matrices
---that lie otherwise in the file have values, float32, where the module has blocks.
---@param module heed.Module
---@param source heed.models.source
---@param at? string the path of the module in the model; none: it is the model
---@return table<string, heed.Tensor>
function names.collect(module, source, at)
  local who, tensors = "models.save", {}
  for _, entry in ipairs(expectations(values_of(module, who, at or ""), source.names, who)) do
    local prefix = entry.rule.bare and "" or source.prefix
    tensors[prefix .. entry.name] = joined(entry, source.shapes):detach():to("cpu"):contiguous()
  end
  return tensors
end


return names
