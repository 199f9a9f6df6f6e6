-- Adapters of low rank beside linear layers: their classes, and how they are put into a model, for
-- nn.lora and heed.models. E. Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language
-- Models".
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
local recording = require "heed.internal.recording"

local WHO <const> = "nn.lora"

local Linear, Parameter = layers.Linear, parameter.Parameter


-- The type of A and B beside a weight: float32 beside 16-bit floats and blocks, since optimizers
-- keep their state in the type of what they train.
local function wide_type(weight) return weight.dtype == "float64" and "float64" or "float32" end


-- A and B of one layer.
local Adapter = extend("nn.Adapter", {forward = 1})

function Adapter:init(weight, rank, scale, dropout)
  if not heed.is_tensor(weight) or weight:dim() ~= 2 then
    heed.fail("%s: the weight of an nn.Linear expected, got %s", WHO, options.kind(weight))
  end
  rank, scale = options.count(WHO, "rank", rank), options.positive(WHO, "scale", scale)
  local outputs, inputs = weight:size()
  local like = {dtype = wide_type(weight), device = weight.device}
  self.down = Parameter(heed.empty(rank, inputs, like))
  self.up = Parameter(heed.zeros(outputs, rank, like))
  self.scale = scale
  self.dropout = layers.Dropout(dropout)
  local bound = 1 / math.sqrt(math.max(inputs, 1))
  parameter.draw(self.down, "uniform_", -bound, bound)
end


function Adapter:forward(x)
  local down, up = field.tensor(self, "down"), field.tensor(self, "up")
  local y = part.call("nn.Adapter", self, "dropout", x):to(down.dtype)
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


-- What `merged` was made of, and what came of it. A copy of a layer has none, and merges anew.
local sources = setmetatable({}, {__mode = "k"})

local function source_of(layer)
  local adapter = adapter_of(layer)
  local s = {layer.weight, adapter.up, adapter.down, scale = adapter.scale, version = 0}
  for _, t in ipairs(s) do s.version = s.version + core.version(t) end
  return s
end


local function sum_of(layer)
  local adapter, source = adapter_of(layer), source_of(layer)
  local weight, wide = layer.weight, wide_type(layer.weight)
  source.sum = heed.keep(heed.no_grad(heed.autocast, false, function()
    local more = adapter.up:to(wide):matmul(adapter.down:to(wide)) * adapter.scale
    local sum = weight:to(wide) + more
    return rawget(blocks, weight.dtype) and sum or sum:to(weight.dtype)
  end))
  sources[layer] = source
  recording.undo(function() sources[layer] = nil end)
  return source.sum
end


-- Whether the layer has the sum, and W, A and B are what they were when they were merged.
local function is_fresh(layer)
  local was, is = sources[layer], source_of(layer)
  return was ~= nil and rawequal(layer.merged, was.sum) and rawequal(was[1], is[1])
         and rawequal(was[2], is[2]) and rawequal(was[3], is[3]) and was.scale == is.scale
         and was.version == is.version
end


-- The weight that a merged layer uses, made anew where W, A or B have changed. A replay, which
-- reads the same tensor, is refused where there is another, or it would be made anew.
local function merged_of(layer)
  local merged = field.tensor(layer, "merged")
  if not is_fresh(layer) then
    merged = sum_of(layer)
    layer.merged = merged
  end
  recording.expect(function() return rawequal(layer.merged, merged) and is_fresh(layer) end)
  return merged
end


function LoraLinear:forward(x)
  if not self.merged then
    local y = Linear.forward(self, x)
    return y + part.call("nn.LoraLinear", self, "adapter", x):to(y.dtype)
  end
  local merged, bias = merged_of(self), self.bias or nil
  if x.dtype == merged.dtype or not rawget(blocks, self.weight.dtype) then
    return heed.linear(x, merged, bias)
  end
  return heed.linear(x:to(merged.dtype), merged, bias and bias:to(merged.dtype)):to(x.dtype)
end


---Adapters of a model's linear layers: what `nn.lora` returns. It is a module whose parameters, and
---so its state, are those of the adapters alone.
---@class heed.Lora: heed.Module
local Lora = extend("nn.Lora", {init = 2, merge = 0, unmerge = 0, unload = 1, load_state = 2})

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


-- Layers whose adapters were taken out of their model.
local left = setmetatable({}, {__mode = "k"})

local function list_of(self)
  local list = layers_of[self]
  if not list then
    heed.fail("%s: what nn.lora returned expected, got a copy; write nn.lora(model)", WHO)
  end
  for _, layer in ipairs(list) do
    if left[layer] then
      heed.fail("%s: these adapters were taken out of their model by unload; nn.lora(model, {...}) "
                .. "puts new ones in", WHO)
    end
  end
  return list
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
---by `load_state` of the model, the next call adds anew, in a captured function too.
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


-- Layers in a model ------------------------------------------------------------

-- The table and the key that a field's name, such as "heads.1", leads to from a module.
local function place_of(module, name)
  local t, key = module, nil
  if rawget(module, name) ~= nil then return module, name end
  for word in name:gmatch("[^.]+") do
    if key ~= nil then t = rawget(t, key) end
    key = word
    if rawget(t, key) == nil then key = math.tointeger(tonumber(word)) end
  end
  return t, key
end


local adapters = {}

---Whether a value is a linear layer.
---@param value any
---@return boolean
function adapters.is_linear(value)
  local class = getmetatable(value)
  return Module.is(value) and rawequal(class.forward, Linear.forward)
         and parameter.role(rawget(value, "weight")) == "parameter"
end


-- Copies values into a new adapter.
local function fill(adapter, values)
  heed.no_grad(function()
    adapter.down:copy_(values.down)
    adapter.up:copy_(values.up)
  end)
end


---Whether a value is a linear layer that can have an adapter.
---@param value any
---@return boolean
function adapters.fits(value)
  return adapters.is_linear(value) and not hooks.any(value)
end


---The layers with adapters that a model has.
---@param model heed.Module
---@return string[] paths
---@return heed.LoraLinear[] layers
function adapters.of(model)
  local paths, list = {}, {}
  for path, module in model:named_modules() do
    if rawequal(getmetatable(module), LoraLinear) then
      paths[#paths + 1], list[#list + 1] = path, module
    end
  end
  return paths, list
end


---Refuses a model that has adapters.
---@param who string
---@param model heed.Module
function adapters.check_none(who, model)
  local paths = adapters.of(model)
  if #paths == 0 then return end
  heed.fail("%s: the model has adapters already, at %s; nn.lora(model) gives them", who, paths[1])
end


---The module that holds the adapters of layers.
---@param paths string[]
---@param list heed.LoraLinear[]
---@return heed.Lora
function adapters.all(paths, list)
  return Lora(paths, list)
end


---Where the modules of a model stand, by a test of their paths and themselves.
---@param model heed.Module
---@param wanted fun(path: string, module: heed.Module): any
---@return {path: string, table: table, key: any, value: heed.Module}[]
function adapters.places(model, wanted)
  local places = {}
  for path, module in model:named_modules() do
    for _, f in ipairs(module:fields()) do
      local below = path == "" and f.name or path .. "." .. f.name
      if f.role == "module" and wanted(below, f.value) then
        local t, key = place_of(module, f.name)
        places[#places + 1] = {path = below, table = t, key = key, value = f.value}
      end
    end
  end
  return places
end


---Puts an adapter beside the layer at each place, one where a layer stands at several, and freezes
---all other parameters of the model.
---@param model heed.Module
---@param places table[] of `adapters.places`
---@param of_place fun(path: string): integer, number, number, table? rank, scale and dropout of the
---adapter at a path, and its first values {down, up}
---@return heed.Lora
function adapters.put(model, places, of_place)
  local paths, list, of, changes = {}, {}, {}, {}
  for _, place in ipairs(places) do
    local linear = place.value
    if not of[linear] then
      local rank, scale, dropout, values = of_place(place.path)
      local adapter = Adapter(linear.weight, rank, scale, dropout)
      if values then fill(adapter, values) end
      of[linear] = LoraLinear(linear, adapter)
      of[linear]:train(linear.training)
      paths[#paths + 1], list[#list + 1] = place.path, of[linear]
    end
    fields.add(changes, place.table, place.key, of[linear])
  end
  local all = Lora(paths, list)
  parameter.require_grad(model:parameters(), false, changes)
  return all
end


-- Refuses a merged layer whose weight is another layer's, too, which a sum would not be.
local function check_alone(who, model, path, layer)
  for other, module in model:named_modules() do
    for name, value in next, module do
      if rawequal(value, layer.weight) and module ~= layer then
        heed.fail("%s: the weight of the layer at %s is %s, too, and what was learnt for one would "
                  .. "part them; unmerge first, or give the layer a weight of its own before "
                  .. "nn.lora", who, path, other == "" and name or other .. "." .. tostring(name))
      end
    end
  end
end


-- The linear layer that a layer with an adapter was made of. One that is merged has the sum as its
-- weight, a parameter of its own.
local function without_adapter(layer)
  local linear = Linear(0, 0)
  for name in pairs(linear) do linear[name] = layer[name] end
  if layer.merged then
    linear.weight = Parameter(adapters.merged(layer):detach():clone())
    linear.weight:requires_grad_(layer.weight.requires_grad)
  end
  return linear:train(layer.training)
end


---Takes the adapters out of the model that they were put into: its linear layers are as before
---`nn.lora`, with the same parameters, which stay frozen; `parameter:requires_grad_()` trains one
---again, `model:freeze(false)` all. Layers that are merged keep what the adapters have learnt:
---their weights are new parameters, the sums, which optimisers and averages made before do not
---know. One whose weight other layers share is refused. The adapters are of no use then.
---@param model heed.Module
---@return heed.Module model
function Lora:unload(model)
  local who <const> = WHO .. ": unload"
  if not Module.is(model) then
    heed.fail("%s: the model with the adapters expected, got %s", who, options.kind(model))
  end
  local plain, changes = {}, {}
  for _, layer in ipairs(list_of(self)) do plain[layer] = false end
  for _, place in ipairs(adapters.places(model, function() return true end)) do
    local layer = place.value
    if plain[layer] == false then
      if hooks.any(layer) then
        heed.fail("%s: the layer at %s has hooks; remove them first", who, place.path)
      end
      if layer.merged then check_alone(who, model, place.path, layer) end
      plain[layer] = without_adapter(layer)
    end
    if plain[layer] then fields.add(changes, place.table, place.key, plain[layer]) end
  end
  for _, linear in pairs(plain) do
    if not linear then
      heed.fail("%s: the model that has the adapters expected, got another", who)
    end
  end
  core.set_fields(changes)
  for layer in pairs(plain) do left[layer] = true end
  return model
end


---The weight of a layer with what its adapter has learnt, where that is merged.
---@param layer heed.LoraLinear
---@return heed.Tensor? weight nil where it is not merged
function adapters.merged(layer)
  return layer.merged and merged_of(layer) or nil
end


return adapters
