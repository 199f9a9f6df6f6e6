-- The state of a cache as tensors under the names of a model's layers, so that a long prompt is
-- read once: heed.save(path, cache:state(model)), and cache:load_state(heed.load(path), model).
--
--   body.layers.1.attend.k       (B, Hk, S, D)       keys of a layer's own input, and values
--   body.layers.1.cross.context.k                    those of its context; lengths, keys
--   cache.pad                    int64 (B)           for each sequence, how many tokens it has less
--   cache.tokens                 int64 (3)           of the longest; columns that came; were moved
--   cache.window                 int64 (2)           where there is one: window, keep
--
-- The second use of a layer in a pass has "2." in front of the last word, and so on.

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local first_parameter = require "heed.nn.first_parameter"
local heed = require "heed"
local kin = require "heed.nn.kin"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"

local fail = heed.fail

local saved = {}

local PAD <const>, TOKENS <const>, WINDOW <const> = "cache.pad", "cache.tokens", "cache.window"


local function check_model(who, model)
  if Module.is(model) then return end
  fail("%s: the model whose layers the cache serves expected, got %s", who, options.kind(model))
end


-- The name of a use in a state, less the last word.
local function name_of(names, use)
  local name = names[use.layer]
  if not name then
    fail("state: the cache holds keys of a layer that the model does not have: %s",
         use.layer.__name)
  end
  return name .. "." .. (use.index > 1 and use.index .. "." or "")
end


local function numbers(list) return heed.tensor(list, {dtype = "int64", device = "cpu"}) end


---@param cache heed.Cache
---@param model heed.Module
---@param store table the store of the cache
---@param read? fun(cache: heed.Cache, slot: table): heed.Tensor, heed.Tensor instead of the store's
---@return table<string, heed.Tensor>
function saved.state(cache, model, store, read)
  check_model("state", model)
  local now = store.alignment(cache)
  local names, state = {}, {}
  for name, module in model:named_modules() do names[module] = names[module] or name end
  for _, use in ipairs(cache.order) do
    local name = name_of(names, use)
    local k, v = (read or store.read)(cache, cache.slots[use])
    state[name .. "k"], state[name .. "v"] = k:detach(), v:detach()
  end
  for _, use in ipairs(cache.contexts) do
    local name = name_of(names, use) .. "context."
    for part, t in pairs(cache.slots[use].context) do state[name .. part] = t:detach() end
  end
  if now then
    state[PAD] = numbers(now.pad)
    state[TOKENS] = numbers{now.length, now.came, now.moved and 1 or 0}
  end
  if cache.window then state[WINDOW] = numbers{cache.window, cache.keep} end
  return state
end


-- Reading ------------------------------------------------------------------------------------

local PARTS <const> = {k = "held", v = "held"}
local CONTEXT <const> = {k = true, v = true, lengths = true, keys = true}


-- The layer that a name belongs to, the index of its use, and what the tensor is; nil for others.
local function read_name(name, layers)
  local path, part = name:match("^(.*)%.context%.(%a+)$")
  local kind = path and CONTEXT[part] and "context"
  if not kind then
    path, part = name:match("^(.*)%.(%a)$")
    kind = path and PARTS[part]
  end
  if not kind then return nil end
  local before, index = path:match("^(.*)%.(%d+)$")
  if layers[path] then return layers[path], 1, kind, part end
  return layers[before], math.tointeger(index), kind, part
end


-- Other layers than nn.MultiHeadAttention do not tell how many heads they have.
local function check_shape(name, layer, part, t)
  if not rawget(layer, "kv_heads") then
    if t:dim() == 4 and t.dtype:find("float") then return end
    fail("load_state: %s: keys and values (B, H, S, D) expected, got %s", name, options.typed(t))
  end
  local width = part == "k" and layer.head_dim or layer.value_dim
  if t:dim() == 4 and t:size(2) == layer.kv_heads and t:size(4) == width
     and t.dtype:find("float") then
    return
  end
  fail("load_state: %s: keys and values (B, %d, S, %d) expected by the model's layer, got %s", name,
       layer.kv_heads, width, options.kind(t))
end


-- Whether a module is attention of ours.
local function attends(module) return rawget(module, "kv_heads") or rawget(module, "Wk") end


local HALVES <const> = {bfloat16 = true, float16 = true}

-- Keys and values have the type of a layer's weights, or that of `heed.autocast`, which leaves
-- float64 alone. Beside blocks they are no float64. Classes of the caller's choose theirs.
local function check_type(name, layer, t)
  local first = attends(layer) and first_parameter(layer)
  if not first then return end
  local wanted = blocks[first.dtype] and "float32" or first.dtype
  if t.dtype == wanted or HALVES[t.dtype] and wanted ~= "float64" then return end
  fail("load_state: %s: keys and values of type %s expected by the model's layer, got %s", name,
       wanted, t.dtype)
end


-- Whether a module may have keys in a cache: attention, and classes of the caller's.
local function may_attend(module)
  return attends(module) or not kin.is_own(getmetatable(module))
end


local function layers_of(model)
  local layers = {}
  for name, module in model:named_modules() do
    if may_attend(module) then layers[name] = module end
  end
  return layers
end


local function device_of(model)
  local first = first_parameter(model)
  return first and first.device or heed.default_device()
end


-- Uses by their layers and indices, with what the state has of each.
local function read_uses(state, model)
  local layers, uses, found = layers_of(model), {}, {}
  local device = device_of(model)
  for _, name in ipairs(options.names(state)) do
    local t = state[name]
    if name ~= PAD and name ~= TOKENS and name ~= WINDOW then
      local layer, index, kind, part = read_name(name, layers)
      if not layer or not index then
        fail("load_state: the model has no layer for '%s'; the state is another model's", name)
      elseif part == "k" or part == "v" then
        check_shape(name, layer, part, t)
        check_type(name, layer, t)
      end
      uses[layer] = uses[layer] or {}
      uses[layer][index] = uses[layer][index] or {layer = layer, index = index}
      local use = uses[layer][index]
      found[use] = found[use] or {}
      found[use][kind] = found[use][kind] or {}
      found[use][kind][part] = t:to(device)
    end
  end
  return uses, found, device
end


-- The tensors that a table holds itself.
local function read_tensors(state)
  if type(state) ~= "table" or getmetatable(state) ~= nil and rawget(state, TOKENS) == nil then
    fail("load_state: a table of tensors expected, got %s", options.kind(state))
  end
  local own = {}
  for name, t in next, state do
    if type(name) ~= "string" or not options.is_alive(t) then
      fail("load_state: tensors under names expected, got %s as %s", options.kind(t),
           options.kind(name))
    end
    own[name] = t
  end
  return own
end


local function list_of(state, name, n)
  local t = state[name]
  if t == nil or t.dtype ~= "int64" or t:dim() ~= 1 or n and #t ~= n then
    fail("load_state: int64 of rank 1 expected as '%s', got %s", name, options.kind(t))
  end
  return t:totable()
end


-- How the columns are aligned; nil where no step was whole.
local function read_alignment(state, batch, columns_of)
  if batch == nil and state[TOKENS] == nil then return nil end
  local pad, tokens = list_of(state, PAD, batch), list_of(state, TOKENS, 3)
  local length, came = tokens[1], tokens[2]
  local least = math.huge
  for _, n in ipairs(pad) do
    if n < 0 or n > length then
      fail("load_state: '%s': numbers from 0 to %d expected", PAD, length)
    end
    least = math.min(least, n)
  end
  if length < columns_of or came < length or length > 0 and least > 0 then
    fail("load_state: '%s' and '%s' do not go with the keys", TOKENS, PAD)
  end
  return {batch = #pad, length = length, pad = pad, came = came, moved = tokens[3] ~= 0}
end


local function check_window(cache, state)
  local window = state[WINDOW] and list_of(state, WINDOW, 2)
  local same = (window and window[1] or false) == cache.window
  if same and (not window or window[2] == cache.keep) then return end
  fail("load_state: a cache of window %s and keep %d expected, got one of window %s and keep %d",
       window and window[1] or "false", window and window[2] or 0, cache.window or "false",
       cache.keep)
end


-- Refuses one layer's keys and values where they are not as many as those of the other layers.
local function check_held(held, batch, count)
  if not held.k or not held.v then fail("load_state: keys and values expected of each layer") end
  local B, _, S = held.k:size()
  if held.v:size(1) ~= B or held.v:size(3) ~= S or batch and B ~= batch or count and S ~= count then
    fail("load_state: keys and values of as many sequences and tokens in each layer expected")
  end
  return B, S
end


local function kept(context, own_copy)
  local own = {}
  if not context.k or not context.v then
    fail("load_state: keys and values expected of each context")
  end
  for part, t in pairs(context) do own[part] = own_copy(t) end
  return {context = own}
end


---Fills an empty cache.
---@param cache heed.Cache
---@param state table<string, heed.Tensor>
---@param model heed.Module
---@param store table the store of the cache
function saved.load(cache, state, model, store)
  check_model("load_state", model)
  state = read_tensors(state)
  check_window(cache, state)
  local uses, found, device = read_uses(state, model)
  local order, contexts, slots, held, batch, count = {}, {}, {}, {}, nil, nil
  for _, module in model:named_modules() do
    for _, use in ipairs(uses[module] or {}) do
      local has = found[use]
      if has.held then
        order[#order + 1] = use
        batch, count = check_held(has.held, batch, count)
        held[use] = has.held
      end
      if has.context then
        contexts[#contexts + 1] = use
        slots[use] = kept(has.context, store.own)
      end
      found[use] = nil
    end
  end
  if next(found) then fail("load_state: uses of a layer from the first on expected") end
  local to = read_alignment(state, batch, count or 0)
  local limit = store.limit(cache)
  if to and count ~= math.min(to.length, limit) then
    fail("load_state: keys of %d tokens expected, got those of %d", math.min(to.length, limit),
         count or 0)
  end
  local step, at = false, false
  if to then step, at = store.fill(cache, slots, held, to, device) end
  if step then step.done, step.first = #order, false end
  for _, use in ipairs(order) do slots[use].step = step end
  core.set_fields{
    cache, "uses", uses, cache, "order", order, cache, "contexts", contexts, cache, "slots", slots,
    cache, "step", step, cache, "at", at or false,
  }
end


return saved
