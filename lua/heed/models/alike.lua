-- Whether two models compute the same of the same parameters: their modules have the same fields.
-- Adapters are merged in what is written: a layer with one has a weight of its own.

local heed = require "heed"
local layers = require "heed.nn.layers"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local rope = require "heed.attention.rope"

local Dropout <const>, Linear <const> = layers.Dropout, layers.Linear

-- Fields of any module that change nothing but its training; and adapters.
local IDLE <const> = {adapter = true, merged = true, training = true}
local DROPPED <const> = {dropout = true, layer_dropout = true}      -- likewise, if they only drop

-- Fields of a model that hold no part of what is computed of ids. Fields of these names in its
-- modules are compared.
local BESIDE <const> = {
  chats = true, classes = true, config = true, generation = true, limit = true, origin = true,
  sentences = true, tokenizer = true,
}
local LENGTHS <const> = {1, 1 << 20}           -- shorter and longer than models are made for
local NEAR <const> = 1e-6                      -- of frequencies, which files have as float32


local function single(n) return string.pack("<f", n) end

-- Whether numbers are the same in files, which have floats as float32 and integers whole.
local function same_numbers(a, b)
  if math.type(a) == "integer" and math.type(b) == "integer" then return a == b end
  return single(a) == single(b)
end


-- Whether both turn pairs of columns by the same angles; how the pairs lie is not compared.
local function same_rope(a, b, head_dim)
  for _, length in ipairs(LENGTHS) do
    local x, by_x = rope.frequencies(head_dim, a, length)
    local y, by_y = rope.frequencies(head_dim, b, length)
    if #x ~= #y or math.abs(by_x - by_y) > NEAR then return false end
    if ((x - y):abs() - x * NEAR):max():item() > 0 then return false end
  end
  return true
end


-- The function that a module computes, or the class of another table. A layer with an adapter has
-- the function of the layer.
local function kind_of(t)
  if rawget(t, "adapter") ~= nil then return Linear.forward end
  local class = getmetatable(t)
  return Module.is(t) and class.forward or class
end


-- Whether a field that the other module has not is the caller's own: heed's modules have all their
-- options, and false where there is none.
local function is_note(value)
  local kind = type(value)
  return kind == "string" or kind == "number" or value == true
         or kind == "table" and not Module.is(value)
end


-- Whether a value drops features, or nothing: a probability, or a module for it.
local function only_drops(value)
  return not value or type(value) == "number"
         or Module.is(value) and rawequal(getmetatable(value), Dropout)
end


-- The names of the fields that either has, in order; `beside`: names that are left out.
local function names_of(a, b, beside)
  local seen, list = {}, {}
  for _, t in ipairs{a, b} do
    for name in next, t do
      local is_field = math.type(name) == "integer"
                       or type(name) == "string" and not IDLE[name] and not beside[name]
                          and not (rawget(b, name) == nil and is_note(rawget(a, name)))
      if is_field and not seen[name] then
        seen[name] = true
        list[#list + 1] = name
      end
    end
  end
  table.sort(list, function(x, y)
    if type(x) == type(y) then return x < y end
    return type(x) == "number"
  end)
  return list
end


-- A field as it is written.
local function field_of(t, name)
  local merged = name == "weight" and rawget(t, "adapter") ~= nil and rawget(t, "merged")
  return merged or rawget(t, name)
end


local alike

-- The first difference between the fields of two tables, as text.
local function fields(a, b, path, pairs_of, beside)
  for _, name in ipairs(names_of(a, b, beside)) do
    local x, y = field_of(a, name), field_of(b, name)
    local where, why = (path == "" and "" or path .. ".") .. name, nil
    if DROPPED[name] and only_drops(x) and only_drops(y) then why = nil
    elseif not (name == "rope" and type(x) == "table" and type(y) == "table") then
      why = alike(x, y, where, pairs_of)
    elseif not same_rope(x, y, rawget(a, "head_dim")) then
      why = where .. " turns by other angles than"
    end
    if why then return why end
  end
end


-- Compares two tensors: neither model may tie what the other does not.
local function tensors(a, b, path, pairs_of)
  local tied, parted = pairs_of.paths[a], pairs_of.paths[b]
  if tied then return ("%s and %s are one tensor, and two"):format(tied, path) end
  if parted then return ("%s and %s are two tensors, and one"):format(parted, path) end
  pairs_of.here[a], pairs_of.paths[a], pairs_of.paths[b] = b, path, path
  if a.shape == b.shape then return nil end
  return ("%s has shape %s, and %s"):format(path, a.shape, b.shape)
end


-- The difference between two values, as text; `pairs_of` has what has been compared, by those of
-- the first one (here), and where the tensors of both stand (paths).
function alike(a, b, path, pairs_of)
  if rawequal(a, b) then return nil end
  if a ~= nil and b ~= nil and rawequal(pairs_of.here[a], b) then return nil end
  if heed.is_tensor(a) and heed.is_tensor(b) then
    return tensors(a, b, path, pairs_of)
  elseif type(a) == "number" and type(b) == "number" then
    if same_numbers(a, b) then return nil end
  elseif type(a) == "table" and type(b) == "table" and rawequal(kind_of(a), kind_of(b)) then
    local class = getmetatable(a)
    if type(class) == "table" and class.__name == "heed.Mask" then
      if tostring(a) == tostring(b) then return nil end
    elseif pairs_of.here[a] == nil then
      pairs_of.here[a] = b
      return fields(a, b, path, pairs_of, {})
    end
  end
  local here, there = options.kind(a), options.kind(b)
  if here == there then return ("%s is %s other than"):format(path, here) end
  return ("%s is %s, and %s"):format(path, here, there)
end


---The first difference between a module and another.
---@param a heed.Module
---@param b heed.Module
---@return string? text nil where there is none: "NAME is VALUE, and VALUE", of `a` and of `b`;
---where the latter is so, the caller adds
return function(a, b)
  return fields(a, b, "", {here = {}, paths = {}}, BESIDE)
end
