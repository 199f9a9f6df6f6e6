-- nn.lora: low-rank adapters beside linear layers of a model, found by their names.

local adapters = require "heed.nn.adapters"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

local WHO <const> = "nn.lora"


local function check_target(path, value)
  if adapters.fits(value) then return end
  local hooked = adapters.is_linear(value)
  heed.fail("%s: an nn.Linear%s expected at the target %s, got %s%s", WHO,
            hooked and " without hooks" or "", path,
            Module.is(value) and value.__name or options.kind(value),
            hooked and "; remove its hooks first" or "")
end


-- Whether a path ends with a name: "query", "attend.query" or all of it.
local function ends_with(path, name)
  return path == name or path:sub(-#name - 1) == "." .. name
end


-- Whether a path ends with one of the names; all that it ends with are found then.
local function is_target(path, targets, found)
  local is = false
  for _, name in ipairs(targets) do
    if ends_with(path, name) then is, found[name] = true, true end
  end
  return is
end


-- What linear layers are called in the files of most models, as libraries for adapters name them.
local PUBLISHED <const> = {
  q_proj = "query", k_proj = "key", v_proj = "value", o_proj = "out", gate_proj = "gate",
  up_proj = "up", down_proj = "down",
}

-- Places of layers whose paths end with a target.
local function places_in(model, targets)
  local found, names = {}, {}
  local places = adapters.places(model, function(path, layer)
    if adapters.is_linear(layer) then names[path:match("[^.]+$")] = true end
    return is_target(path, targets, found)
  end)
  for _, place in ipairs(places) do check_target(place.path, place.value) end
  for _, name in ipairs(targets) do
    if not found[name] then
      local own = rawget(PUBLISHED, name)
      heed.fail("%s: no linear layer is called '%s'; %s", WHO, name,
                own and names[own] and ("did you mean '%s'?"):format(own)
                or options.hint(name, options.names(names)))
    end
  end
  return places
end


local function read(given)
  local o = options.read(WHO, given, {
    alpha = options.any, dropout = 0, rank = 8, targets = options.any,
  }, torch_names.lora)
  o.rank = options.count(WHO, "rank", o.rank)
  o.alpha = o.alpha == nil and o.rank or options.positive(WHO, "alpha", o.alpha)
  o.dropout = options.probability(WHO, "dropout", o.dropout)
  if o.targets == nil then o.targets = {"query", "value"} end
  if type(o.targets) ~= "table" or next(o.targets) == nil then
    heed.fail("%s: a list of names expected as option targets, got %s", WHO,
              options.kind(o.targets))
  end
  o.targets = options.whole(WHO .. ": option targets", o.targets)
  for i, name in ipairs(o.targets) do
    if type(name) ~= "string" then
      heed.fail("%s: a name expected as target %d, got %s", WHO, i, options.kind(name))
    end
  end
  return o
end


local function check_model(model)
  if not Module.is(model) then
    heed.fail("%s: a module expected as the first argument, got %s", WHO, options.kind(model))
  end
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
---> heed.nn.lora(heed.nn.MultiHeadAttention(8, 2), {rank = 2}):numel() == 64
---@param model heed.Module
---@param given? heed.lora.options
---@return heed.Lora adapters with methods `merge`, `unmerge`, and those of modules: `parameters`,
---`state` and `load_state` are about the adapters alone
function lora.lora(model, given, ...)
  options.no_more(WHO, 2, ...)
  check_model(model)
  if given == nil then
    local paths, list = adapters.of(model)
    if #list == 0 then heed.fail("%s: options expected, since the model has no adapters", WHO) end
    return adapters.all(paths, list)
  end
  adapters.check_none(WHO, model)
  local o = read(given)
  return adapters.put(model, places_in(model, o.targets), function()
    return o.rank, o.alpha / o.rank, o.dropout
  end)
end


return lora
