-- States of PyTorch's names, from and to those of heed's modules.
--
--   model:load_state(nn.from_torch(heed.load("from_pytorch.safetensors"), model))
--   heed.save("for_pytorch.safetensors", nn.to_torch(model))
--
-- A module is walked field by field. Fields that PyTorch has get PyTorch's names; other
-- fields keep their names, and positions count from 0 there.

local heed = require "heed"
local Module = require "heed.nn.module"
local MultiHeadAttention = require "heed.nn.multihead"
local block = require "heed.nn.block"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local state = require "heed.files.state"
local tree = require "heed.nn.tree"

local torch = {}

-- PyTorch's names of a layer's fields: a name; a table for a module that is none there, whose
-- fields stand in the layer itself; false for what `add_projections` adds.
local LAYER = {
  attend = "self_attn", cross = "multihead_attn", norm1 = "norm1", norm2 = "norm2",
  norm3 = "norm3", mlp = {activation = "activation", down = "linear2", up = "linear1"},
}
local NAMES = {
  [block.DecoderLayer] = LAYER,
  [block.EncoderLayer] = LAYER,
  [MultiHeadAttention] = {
    key = false, memory_keys = false, memory_values = false, out = "out_proj", query = false,
    value = false,
  },
}


-- The names for a module of one of those classes, or of one made from it.
local function names_for(module)
  local class = getmetatable(module)
  while type(class) == "table" do
    for known, names in pairs(NAMES) do
      if rawequal(class, known) then return names, known end
    end
    class = (getmetatable(class) or {}).__index
  end
end


-- "layers.1" -> "layers.0": what a list's or a Sequential's field is called.
local function from_zero(name)
  return (name:gsub("%f[^.\0]%d+%f[.\0]", function(n) return ("%d"):format(n - 1) end))
end


---@class heed.torch.entry what stands under one of PyTorch's names
---@field torch string
---@field names string[] heed's names of the tensors that it consists of, by rows
---@field values heed.Tensor[] these tensors
---@field shape? integer[] what it has there, if another one

local function add(self, name, names, values, shape)
  if self.known[name] then
    heed.fail("%s: two tensors would be called '%s'", self.who, name)
  end
  self.known[name] = {torch = name, names = names, values = values, shape = shape}
  table.insert(self.entries, self.known[name])
end


-- PyTorch's projections are linear layers: what an adapter adds would be lost.
local function check_linear(self, path, m)
  for _, name in ipairs{"query", "key", "value", "out"} do
    local good = Module.is(m[name]) and parameter.role(rawget(m[name], "weight")) == "parameter"
    for _, field in ipairs(good and m[name]:fields() or {}) do
      good = good and (field.name == "weight" or field.name == "bias")
    end
    if not good then
      heed.fail("%s: %s: PyTorch's MultiheadAttention has a linear layer there, got %s", self.who,
                path == "" and name or path .. "." .. name,
                Module.is(m[name]) and tree.title(m[name]) or options.kind(m[name]))
    end
  end
end


-- PyTorch's attention has as many heads of keys as of queries, and heads that share dim.
local function check_heads(self, path, m)
  local dim = m.query.weight:size(2)
  local same = m.kv_heads == m.heads and m.value_dim == m.head_dim
  if same and m.head_dim * m.heads == dim and m.out.weight:size(1) == dim then return end
  heed.fail("%s: %s: PyTorch's MultiheadAttention has heads of dim / heads features, as many for "
            .. "keys as for queries, and dim at the end; got dim %d, %d heads of %d and %d, "
            .. "kv_heads %d, %d at the end", self.who, path == "" and "the module" or path, dim,
            m.heads, m.head_dim, m.value_dim, m.kv_heads, m.out.weight:size(1))
end


-- A key and a value that are learnt: `add_bias_kv` there.
local function add_memory(self, path, prefix, m)
  if not m.memory_keys then return end
  if m.memory_keys:size(2) > 1 then
    heed.fail("%s: %smemory_keys: PyTorch's MultiheadAttention has one at most, got %d", self.who,
              path, m.memory_keys:size(2))
  end
  local shape = {1, 1, m.query.weight:size(2)}
  add(self, prefix .. "bias_k", {path .. "memory_keys"}, {m.memory_keys}, shape)
  add(self, prefix .. "bias_v", {path .. "memory_values"}, {m.memory_values}, shape)
end


-- Queries, keys and values: one tensor where all are made of the same features.
local function add_projections(self, path, prefix, m)
  check_linear(self, path, m)
  check_heads(self, path, m)
  path = path == "" and "" or path .. "."
  local function all(part)
    local names, values = {}, {}
    for i, field in ipairs{"query", "key", "value"} do
      names[i], values[i] = path .. field .. "." .. part, m[field][part]
    end
    return names, values
  end
  local names, weights = all("weight")
  local inputs = weights[1]:size(2)
  if weights[2]:size(2) == inputs and weights[3]:size(2) == inputs then
    add(self, prefix .. "in_proj_weight", names, weights)
  else
    for i, letter in ipairs{"q", "k", "v"} do
      add(self, ("%s%s_proj_weight"):format(prefix, letter), {names[i]}, {weights[i]})
    end
  end
  if m.query.bias then add(self, prefix .. "in_proj_bias", all("bias")) end
  add_memory(self, path, prefix, m)
end


local walk

-- A field: its path here, its name there, which is nil where PyTorch's layer has no such field.
local function add_field(self, path, name, field)
  if field.role == "module" then
    walk(self, path, name, field.value)
  elseif field.role ~= "tensor" then
    if not name then
      heed.fail("%s: %s: PyTorch's layer has nothing like that", self.who, path)
    end
    add(self, name, {path}, {field.value})
  end
end


-- Adds all tensors below a module: `path` leads to it here, `name` there.
function walk(self, path, name, module, names)
  if self.above[module] then return end
  self.above[module] = true
  local class
  if not names then names, class = names_for(module) end
  local prefix = name and (name == "" and "" or name .. ".")
  if name and rawequal(class, MultiHeadAttention) then
    add_projections(self, path, prefix, module)
  end
  for _, field in ipairs(module:fields()) do
    local below = path == "" and field.name or path .. "." .. field.name
    local there
    if names then there = names[field.name] else there = from_zero(field.name) end
    if type(there) == "table" then
      walk(self, below, name, field.value, there)
    elseif there ~= false then
      add_field(self, below, prefix and there and prefix .. there, field)
    end
  end
  self.above[module] = nil
end


-- All of a module's tensors under PyTorch's names.
local function entries_of(who, module)
  if not Module.is(module) then
    heed.fail("%s: a module expected, got %s", who, options.kind(module))
  end
  local self = {who = who, entries = {}, known = {}, above = {}}
  walk(self, "", "", module)
  return self.entries
end


-- A tensor of the shape that an entry has there, in no memory.
local function shape_of(entry)
  local first = entry.values[1]
  local sizes = entry.shape or {first:size()}
  for i = 2, #entry.values do sizes[1] = sizes[1] + entry.values[i]:size(1) end
  return heed.zeros({}, {dtype = first.dtype, device = first.device}):expand(sizes)
end


-- The entries that a state should have: shared tensors once, with all their names.
local function slots_of(entries)
  local slots, alone, packed = {}, {}, {}
  for _, entry in ipairs(entries) do
    local of, value = #entry.values == 1 and alone or packed, entry.values[1]
    if not of[value] then
      of[value] = {names = {}, value = shape_of(entry)}
      slots[#slots + 1] = of[value]
    end
    table.insert(of[value].names, entry.torch)
  end
  return slots
end


-- The rows of a tensor that belong to each of an entry's.
local function unpack_rows(result, entry, t)
  if #entry.values == 1 then
    result[entry.names[1]] = entry.shape and t:reshape(entry.values[1].shape) or t
    return
  end
  local first = 1
  for i, value in ipairs(entry.values) do
    result[entry.names[i]] = t:narrow(1, first, value:size(1))
    first = first + value:size(1)
  end
end


---A state of PyTorch's names under heed's names, for `module:load_state`. The tensors share their
---values with the state. If anything does not fit, one error lists all that doesn't.
---@param given table<string, heed.Tensor> `state_dict()`, as heed.load reads it
---@param module heed.Module
---@param how? {strict: boolean} false: names may be missing or unexpected; these are returned
---@return table<string, heed.Tensor> state
---@return string[]? missing names of PyTorch's, with strict = false
---@return string[]? unexpected
function torch.from_torch(given, module, how, ...)
  options.no_more("nn.from_torch", 3, ...)
  state.check("nn.from_torch", given)
  local strict = options.read("nn.from_torch", how, {strict = true}).strict
  local entries = entries_of("nn.from_torch", module)
  local found = state.differences(slots_of(entries), given)
  state.refuse("nn.from_torch", state.problems(found, strict))
  local result = {}
  for _, entry in ipairs(entries) do
    if given[entry.torch] then unpack_rows(result, entry, given[entry.torch]:detach()) end
  end
  if strict then return result end
  return result, found.missing, found.unexpected
end


---The state of a module under PyTorch's names, for `load_state_dict` there; shared tensors stand
---under each of their names. A tensor of PyTorch's that heed has in several parts is a copy, all
---others share their values with the module.
---@param module heed.Module
---@return table<string, heed.Tensor> state
function torch.to_torch(module, ...)
  options.no_more("nn.to_torch", 1, ...)
  local result = {}
  for _, entry in ipairs(entries_of("nn.to_torch", module)) do
    local values = entry.values
    local t = #values == 1 and values[1]:detach() or heed.no_grad(heed.cat, values, 1)
    result[entry.torch] = entry.shape and t:reshape(entry.shape) or t
  end
  return result
end


return torch
