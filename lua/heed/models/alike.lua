-- Whether two models compute the same of the same parameters: their modules have the same fields.

local heed = require "heed"
local Linear = require("heed.nn.layers").Linear
local Module = require "heed.nn.module"
local rope = require "heed.attention.rope"

-- Fields of any module that change nothing; and adapters, which are merged in what is written.
local IDLE <const> = {adapter = true, merged = true, training = true}

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


-- The names of the fields that either has, in order; `beside`: names that are left out.
local function names_of(a, b, beside)
  local seen, list = {}, {}
  for _, t in ipairs{a, b} do
    for name in next, t do
      local is_field = type(name) == "string" and not IDLE[name] and not beside[name]
                       or math.type(name) == "integer"
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


local alike

-- The first field in which two tables differ: its path, and both values.
local function fields(a, b, path, pairs_of, beside)
  for _, name in ipairs(names_of(a, b, beside)) do
    local x, y = rawget(a, name), rawget(b, name)
    local turns = name == "rope" and type(x) == "table" and type(y) == "table"
    local where, p, q = path .. "." .. name, x, y
    if not turns then where, p, q = alike(x, y, where, pairs_of)
    elseif same_rope(x, y, rawget(a, "head_dim")) then where = nil
    end
    if where then return where, p, q end
  end
end


-- Compares two values; `pairs_of` has what has been compared, by those of the first one (here), and
-- tensors by those of the other one, too (there): neither may tie what the other does not.
function alike(a, b, path, pairs_of)
  if rawequal(a, b) then return nil end
  if pairs_of.here[a] ~= nil then
    if rawequal(pairs_of.here[a], b) then return nil end
  elseif heed.is_tensor(a) and heed.is_tensor(b) and pairs_of.there[b] == nil then
    pairs_of.here[a], pairs_of.there[b] = b, a
    if a.shape == b.shape then return nil end
  elseif type(a) == "number" and type(b) == "number" then
    if same_numbers(a, b) then return nil end
  elseif type(a) == "table" and type(b) == "table" and rawequal(kind_of(a), kind_of(b)) then
    local class = getmetatable(a)
    if type(class) == "table" and class.__name == "heed.Mask" then
      if tostring(a) == tostring(b) then return nil end
    else
      pairs_of.here[a] = b
      return fields(a, b, path, pairs_of, {})
    end
  end
  return path, a, b
end


---The first field in which one module differs from another.
---@param a heed.Module
---@param b heed.Module
---@return string? path nil where there is none
---@return any a
---@return any b
return function(a, b)
  local path, x, y = fields(a, b, "", {here = {}, there = {}}, BESIDE)
  return path and path:sub(2), x, y
end
