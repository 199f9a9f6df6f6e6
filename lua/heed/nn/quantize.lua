-- A module's weights in blocks of few bits: those of its linear layers and embeddings.

local blocks = require "heed.internal.blocks"
local check_type = require "heed.internal.block_type"
local core = require "heed.core"
local heed = require "heed"
local layers = require "heed.nn.layers"
local lent = require "heed.internal.lent"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local quantize = require("heed.quantize").quantize

local Linear, Embedding = layers.Linear, layers.Embedding

local FLOATS <const> = {bfloat16 = true, float16 = true, float64 = true}    -- but float32


-- Whether a module's weight is a matrix that a product or a choice of rows alone reads.
local function has_matrix(module)
  local forward = getmetatable(module).forward
  return (rawequal(forward, Linear.forward) or rawequal(forward, Embedding.forward)
          or rawget(module, "adapter") ~= nil)
         and parameter.role(rawget(module, "weight")) == "parameter"
end


local function ends_with(path, name) return path == name or path:sub(-#name - 1) == "." .. name end


-- The name of the weight of a part of a module; it is "weight" of the module itself, "" by name.
local function weight_of(name) return name == "" and "weight" or name .. ".weight" end


-- Why a weight stays as it is; nil: it does not. `name` is that of its module.
local function reason(weight, name, type, except)
  for _, other in ipairs(except) do
    if ends_with(name, other) or ends_with(weight_of(name), other) then
      return "option except names it"
    end
  end
  local n, elements = weight:size(2), blocks[type].elements
  if not weight.dtype:find("float") then return ("of type %s"):format(weight.dtype) end
  if n % elements == 0 and n > 0 then return nil end
  return ("rows of %d elements, no multiple of %d"):format(n, elements)
end


-- Names of option except, each of which must be that of a weight.
local function check_except(except, named)
  if type(except) ~= "table" then
    heed.fail("quantize: a list of names expected as option except, got %s", options.kind(except))
  end
  local names = options.whole("quantize: option except", except)
  for _, name in ipairs(names) do
    local found = false
    if type(name) ~= "string" then
      heed.fail("quantize: names of layers expected as option except, got %s", options.kind(name))
    end
    for path in next, named do
      found = found or ends_with(path, name) or ends_with(weight_of(path), name)
    end
    if not found then heed.fail("quantize: no linear layer or embedding is called '%s'", name) end
  end
  return names
end


-- All other tensors of a module of which a table goes into blocks: what is computed of its rows is
-- float32, so those of other floating types become it.
local function others(module, of)
  local list, seen, has_table = {}, {}, false
  for _, part in module:named_modules() do
    local is_table = rawequal(getmetatable(part).forward, Embedding.forward)
    for _, f in ipairs(part:fields()) do
      has_table = has_table or is_table and of[f.value]
      if f.role ~= "module" and not of[f.value] and not seen[f.value] and FLOATS[f.value.dtype] then
        seen[f.value] = true
        list[#list + 1] = f.value
      end
    end
  end
  return has_table and list or {}
end


-- Refuses weights in which a call of `ema:apply` has the averages: their own values could not be
-- given back into blocks.
local function check_own(of)
  local weights = {}
  for weight in next, of do weights[#weights + 1] = weight end
  local why = lent.refusal(weights, true)
  if not why then return end
  heed.fail("quantize: %s; ema:apply(m.clone, m) gives a copy that may be quantized", why)
end


---Puts the weights of linear layers and embeddings into blocks of few bits (see `heed.quantize`),
---frozen. Those that do not fit, or that `except` names, such as "head", stay as they are. Where
---weights of an embedding are among them, all other floats become float32, as rows of a table in
---blocks are. Within `ema:apply` it is refused, but not of a copy: `ema:apply(m.clone, m)`.
---@param type string
---@param given? {except: string[]}
---@return table<string, string> kept why, by the names of weights that stay
function Module:quantize(type, given, ...)
  if not Module.is(self) then
    heed.fail("quantize: a module expected, as in m:quantize(type), got %s", options.kind(self))
  end
  options.no_more("quantize", 2, ...)
  check_type("quantize", type)
  local o = options.read("quantize", given, {except = options.any})
  local named = {}
  for name, part in self:named_modules() do
    if has_matrix(part) then named[name] = part.weight end
  end
  local except = o.except ~= nil and check_except(o.except, named) or {}
  local kept, of = {}, {}
  for name, weight in next, named do
    local why = reason(weight, name, type, except)
    if why then kept[weight_of(name)] = why
    else of[weight] = weight_of(name) end
  end
  for name, weight in next, named do           -- what shares a weight that is kept
    if kept[weight_of(name)] then of[weight] = nil end
  end
  check_own(of)
  local changes = parameter.moved(others(self, of), {"float32"})
  for weight, name in next, of do
    local n = #changes.takers + 1
    changes.takers[n] = weight
    changes.givers[n] = core.called("quantize: " .. name, quantize, weight, type)
    changes.gradients[n] = false
  end
  core.commit("quantize", changes)
  return kept
end


return {}
