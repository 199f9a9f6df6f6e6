-- nn.lora: low-rank adapters beside linear layers, whose own weights stay as they are. E. Hu et al.
-- (2021), "LoRA: Low-Rank Adaptation of Large Language Models".
--
-- A layer y = x W^T + b becomes y = x W^T + b + (alpha / rank) x A^T B^T, where A is `down` and B
-- is `up`, which is 0 at first. W and b are the same parameters as before, under the same names, so
-- that what shares them goes on. A merged layer has W + (alpha / rank) B A besides; W stays.

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local hooks = require "heed.nn.hooks"
local layers = require "heed.nn.layers"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"

local WHO <const> = "nn.lora"

local Linear, Parameter = layers.Linear, parameter.Parameter


-- A and B of one layer.
local Adapter = extend("nn.Adapter", {forward = 1})

function Adapter:init(weight, rank, scale, dropout)
  if not heed.is_tensor(weight) or weight:dim() ~= 2 then
    heed.fail("%s: the weight of an nn.Linear expected, got %s", WHO, options.kind(weight))
  end
  rank, scale = options.count(WHO, "rank", rank), options.positive(WHO, "scale", scale)
  local outputs, inputs = weight:size()
  local dtype = rawget(blocks, weight.dtype) and "float32" or weight.dtype
  local like = {dtype = dtype, device = weight.device}
  self.down = Parameter(heed.empty(rank, inputs, like))
  self.up = Parameter(heed.zeros(outputs, rank, like))
  self.scale = scale
  self.dropout = layers.Dropout(dropout)
  local bound = 1 / math.sqrt(math.max(inputs, 1))
  parameter.draw(self.down, "uniform_", -bound, bound)
end


function Adapter:forward(x)
  local down, up = field.tensor(self, "down"), field.tensor(self, "up")
  local y = part.call("nn.Adapter", self, "dropout", x)
  return y:matmul(down.T):matmul(up.T) * field.positive(self, "scale")
end


function Adapter:describe()
  return ("rank = %d"):format(field.tensor(self, "down"):size(1))
end


-- A linear layer with an adapter.
local LoraLinear = extend("nn.LoraLinear", {init = 2, forward = 1}, Linear)

function LoraLinear:init(linear, adapter)
  if not (Module.is(linear) and Module.is(adapter)) then
    heed.fail("%s: an nn.Linear and an adapter expected, got %s and %s; nn.lora makes such layers",
              WHO, options.kind(linear), options.kind(adapter))
  end
  for name, value in pairs(linear) do self[name] = value end
  self.adapter = adapter
  self.merged = false                       -- W + scale B A, (outputs, inputs)
end


-- The adapter, where its numbers are read.
local function adapter_of(layer)
  local adapter = layer.adapter
  if not rawequal(getmetatable(adapter), Adapter) then
    field.refuse(layer, "adapter", adapter, "an adapter")
  end
  field.tensor(layer, "weight")
  for _, name in ipairs{"up", "down"} do field.tensor(adapter, name) end
  field.positive(adapter, "scale")
  return adapter
end


-- The tensors that `merged` was made of, and their versions. A copy of a layer has none, and merges
-- anew.
local sources = setmetatable({}, {__mode = "k"})

local function source_of(layer)
  local adapter = adapter_of(layer)
  local s = {layer.weight, adapter.up, adapter.down, scale = adapter.scale, version = 0}
  for _, t in ipairs(s) do s.version = s.version + core.version(t) end
  return s
end


local function sum_of(layer)
  local adapter = adapter_of(layer)
  sources[layer] = source_of(layer)
  return heed.keep(heed.no_grad(function()
    return layer.weight:to(adapter.up.dtype) + adapter.up:matmul(adapter.down) * adapter.scale
  end))
end


-- Whether W, A and B are what they were when they were merged.
local function is_fresh(layer)
  local was, is = sources[layer], source_of(layer)
  return was ~= nil and rawequal(was[1], is[1]) and rawequal(was[2], is[2])
         and rawequal(was[3], is[3]) and was.scale == is.scale and was.version == is.version
end


function LoraLinear:forward(x)
  if not self.merged then
    return Linear.forward(self, x) + part.call("nn.LoraLinear", self, "adapter", x)
  end
  if not is_fresh(self) then self.merged = sum_of(self) end
  return heed.linear(x, field.tensor(self, "merged"), self.bias or nil)
end


---Adapters of a model's linear layers: what `nn.lora` returns. It is a module whose parameters, and
---so its state, are those of the adapters alone.
---@class heed.Lora: heed.Module
local Lora = extend("nn.Lora", {init = 2, merge = 0, unmerge = 0, load_state = 2})

-- The layers of each: as fields they would be among the adapters' parameters.
local layers_of = setmetatable({}, {__mode = "k"})

local function refuse_parts(path, layer)
  heed.fail("%s: paths and layers with adapters expected, got %s and %s; nn.lora(model) makes such "
            .. "a module", WHO, options.kind(path), options.kind(layer))
end


function Lora:init(paths, list)
  if type(paths) ~= "table" or type(list) ~= "table" then refuse_parts(paths, list) end
  for i, layer in ipairs(list) do
    if not rawequal(getmetatable(layer), LoraLinear) or type(paths[i]) ~= "string" then
      refuse_parts(paths[i], layer)
    end
    self[paths[i]] = layer.adapter
  end
  layers_of[self] = list
end


function Lora:forward()
  heed.fail("%s: adapters are called by their model: model(x)", WHO)
end


local function list_of(self)
  return layers_of[self] or heed.fail("%s: what nn.lora returned expected, got a copy; write "
                                      .. "nn.lora(model)", WHO)
end


-- Sets what each layer has merged: a function of it gives that.
local function set_merged(self, value_of)
  local list = {}
  for _, layer in ipairs(list_of(self)) do fields.add(list, layer, "merged", value_of(layer)) end
  core.set_fields(list)
  return self
end


---Adds what the adapters have learnt to a copy of the weights, which calls use from now on: they
---cost what they did without adapters, and train none. Where weights or adapters change later, as
---by `load_state` of the model, the next call adds anew.
---@return heed.Lora self
function Lora:merge()
  return set_merged(self, sum_of)
end


---Goes back to the weights as they were, bit for bit, and the adapters beside them.
---@return heed.Lora self
function Lora:unmerge()
  return set_merged(self, function() return false end)
end


---Copies the values of a state into the adapters.
---@param given table<string, heed.Tensor>
---@param how? {strict: boolean}
---@return heed.Lora|string[] self; or the names that are missing
---@return string[]? unexpected
function Lora:load_state(given, how)
  list_of(self)
  return Module.load_state(self, given, how)
end


-- Where the linear layers stand ------------------------------------------

-- The table and the key that a field's name, such as "heads.1", leads to from a module.
local function place_of(module, name)
  local t, key = module, nil
  for word in name:gmatch("[^.]+") do
    if key ~= nil then t = rawget(t, key) end
    key = word
    if rawget(t, key) == nil then key = math.tointeger(tonumber(word)) end
  end
  return t, key
end


local function is_linear(value)
  local class = getmetatable(value)
  return Module.is(value) and rawequal(class.forward, Linear.forward)
         and parameter.role(rawget(value, "weight")) == "parameter"
end


local function check_target(path, value)
  if is_linear(value) and not hooks.any(value) then return end
  heed.fail("%s: an nn.Linear%s expected at the target %s, got %s", WHO,
            is_linear(value) and " without hooks" or "", path,
            Module.is(value) and value.__name or options.kind(value))
end


-- Whether a path ends with a name: "query", "attend.query" or all of it.
local function ends_with(path, name)
  return path == name or path:sub(-#name - 1) == "." .. name
end


-- The first of the names that a path ends with.
local function target_of(path, targets)
  for _, name in ipairs(targets) do
    if ends_with(path, name) then return name end
  end
end


-- All places of modules whose paths end with a target: {path, table, key, value}.
local function places_in(model, targets)
  local places, found, names = {}, {}, {}
  for path, module in model:named_modules() do
    for _, f in ipairs(module:fields()) do
      local below = path == "" and f.name or path .. "." .. f.name
      local target = f.role == "module" and target_of(below, targets)
      if f.role == "module" then names[f.name] = true end
      if target then
        check_target(below, f.value)
        local t, key = place_of(module, f.name)
        places[#places + 1] = {path = below, table = t, key = key, value = f.value}
        found[target] = true
      end
    end
  end
  for _, name in ipairs(targets) do
    if not found[name] then
      heed.fail("%s: no layer is called '%s'; %s", WHO, name,
                options.hint(name, options.names(names)))
    end
  end
  return places
end


-- Adapters -----------------------------------------------------------------

-- The layers with adapters that a model has, and their paths.
local function adapted(model)
  local paths, list = {}, {}
  for path, module in model:named_modules() do
    if rawequal(getmetatable(module), LoraLinear) then
      paths[#paths + 1], list[#list + 1] = path, module
    end
  end
  return paths, list
end


local function read(given)
  local o = options.read(WHO, given, {
    alpha = options.any, dropout = 0, rank = 8, targets = options.any,
  })
  o.rank = options.count(WHO, "rank", o.rank)
  o.alpha = o.alpha == nil and o.rank or options.positive(WHO, "alpha", o.alpha)
  o.dropout = options.probability(WHO, "dropout", o.dropout)
  if o.targets == nil then o.targets = {"query", "value"} end
  if type(o.targets) ~= "table" or #o.targets == 0 then
    heed.fail("%s: a list of names expected as option targets, got %s", WHO,
              options.kind(o.targets))
  end
  options.check_list(WHO, o.targets)
  for i = 1, options.last(o.targets) do
    if type(o.targets[i]) ~= "string" then
      heed.fail("%s: a name expected as target %d, got %s", WHO, i, options.kind(o.targets[i]))
    end
  end
  return o
end


local function check_model(model)
  if not Module.is(model) then
    heed.fail("%s: a module expected as the first argument, got %s", WHO, options.kind(model))
  end
end


-- Layers with adapters for all places; one that stands at several has one.
local function new_layers(places, o)
  local paths, list, of, changes = {}, {}, {}, {}
  for _, place in ipairs(places) do
    local linear = place.value
    if not of[linear] then
      local adapter = Adapter(linear.weight, o.rank, o.alpha / o.rank, o.dropout)
      of[linear] = LoraLinear(linear, adapter)
      of[linear]:train(linear.training)
      paths[#paths + 1], list[#list + 1] = place.path, of[linear]
    end
    fields.add(changes, place.table, place.key, of[linear])
  end
  return paths, list, changes
end


---@class heed.lora.options
---@field rank? integer of the adapters; 8 unless given
---@field alpha? number their results are multiplied by alpha / rank; `rank` unless given
---@field targets? string[] names of linear layers, or ends of their paths, such as "attend.query";
---{"query", "value"} unless given
---@field dropout? number of the adapters' input, while training; 0 unless given

local lora = {}

---Puts adapters of low rank beside linear layers of a model, and freezes all other parameters.
---Without options: the adapters that a model has, as a copy of one does. A model that has some
---is refused otherwise.
---@param model heed.Module
---@param given? heed.lora.options
---@return heed.Lora adapters with methods `merge`, `unmerge`, and those of modules: `parameters`,
---`state` and `load_state` are about the adapters alone
function lora.lora(model, given, ...)
  options.no_more(WHO, 2, ...)
  check_model(model)
  local paths, list = adapted(model)
  if given == nil then
    if #list == 0 then heed.fail("%s: options expected, since the model has no adapters", WHO) end
    return Lora(paths, list)
  elseif #list > 0 then
    heed.fail("%s: the model has adapters already, at %s; nn.lora(model) gives them", WHO, paths[1])
  end
  local o = read(given)
  local changes
  paths, list, changes = new_layers(places_in(model, o.targets), o)
  local adapters = Lora(paths, list)
  parameter.require_grad(model:parameters(), false, changes)
  return adapters
end


return lora
