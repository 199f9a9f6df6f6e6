-- The role of a tensor in a module's field: a parameter, a buffer, or neither.
--
--   nn.Parameter   is trained and saved
--   nn.Buffer      is saved
--   any tensor     moves with the module, and that is all; a leaf that requires grad is refused

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local options = require "heed.internal.options"

local parameter = {}

local roles = setmetatable({}, {__mode = "k"})   -- tensor -> "parameter" | "buffer"
local followers = setmetatable({}, {__mode = "k"})
local FLOATS = {float16 = true, bfloat16 = true, float32 = true, float64 = true}
local OTHERS = {int64 = true, uint8 = true, bool = true}


-- A handle of its own over the values of `t`, that outlives any `heed.scope`.
local function mark(who, t, role)
  if not heed.is_tensor(t) then
    heed.fail("%s: a tensor expected, got %s", who, options.kind(t))
  end
  local own = t:detach()
  roles[own] = role
  heed.keep(own)
  return own
end


-- How many parameters may be made, where they are made without values; else false.
local making = {hollow = false}


---Calls `f(...)`, in which modules are made whose parameters have sizes, and neither values nor
---memory: others take their places. A call within another one ends as it began, in hollowness.
---@param who string
---@param most number of parameters: a file that asks for more is refused before they are made
---@param f fun(...): ...
---@param ... any
---@return any ... what f returns
function parameter.hollow(who, most, f, ...)
  local on, back = {fields = {making, "hollow", most}}, {fields = {making, "hollow", making.hollow}}
  return core.commit_during(who, on, back, f, ...)
end


---@return boolean
function parameter.is_hollow() return making.hollow ~= false end


local function count_hollow()
  if making.hollow < 1 then heed.fail("nn.Parameter: too many for the tensors of the file") end
  making.hollow = making.hollow - 1
end


-- A tensor of a shape in the memory of one element.
local function hollowed(shape, given)
  return heed.empty({}, given):expand(shape)
end


---A parameter whose values are to be drawn: hollow where modules are.
---@param ... integer its sizes
---@return heed.Tensor
function parameter.empty(...)
  return parameter.Parameter(making.hollow and hollowed{...} or heed.empty(...))
end


---A tensor that a module trains, with the values of `t`, which both share.
---@param t heed.Tensor
---@param given? {requires_grad: boolean} false for a frozen one
---@return heed.Tensor
function parameter.Parameter(t, given, ...)
  options.no_more("nn.Parameter", 2, ...)
  local o = options.read("nn.Parameter", given, {requires_grad = true})
  if o.requires_grad and heed.is_tensor(t) and not FLOATS[t.dtype] then
    heed.fail("nn.Parameter: a float type expected, got %s; t:float(), or nn.Buffer(t)", t.dtype)
  end
  if making.hollow then
    count_hollow()
    t = hollowed(t.shape, {device = t.device, dtype = t.dtype})
  end
  local own = mark("nn.Parameter", t, "parameter")
  own:requires_grad_(o.requires_grad)
  return own
end


---A tensor that a module saves and moves, but does not train, with the values of `t`, which both
---share.
---@param t heed.Tensor
---@return heed.Tensor
function parameter.Buffer(t, ...)
  options.no_more("nn.Buffer", 1, ...)
  return mark("nn.Buffer", t, "buffer")
end


---The role of a value in a field.
---@param value any
---@return "parameter"|"buffer"|"tensor"|nil
function parameter.role(value)
  return roles[value] or heed.is_tensor(value) and "tensor" or nil
end


---Whether a tensor lies in blocks, which nothing trains; a released one does not.
---@param t heed.Tensor
---@return boolean
function parameter.in_blocks(t) return options.is_alive(t) and blocks[t.dtype] ~= nil end


---A tensor of its own with the same values: a parameter of a parameter, and so on. No tensor: nil.
---@param t any
---@return heed.Tensor?
function parameter.copy(t)
  if not heed.is_tensor(t) then return nil end
  local own = mark("clone", t:detach():clone(), roles[t])
  if roles[t] == "parameter" then own:requires_grad_(t.requires_grad) end
  return own
end


---First weights: t filled by one of its methods, with numbers of the CPU's generator, so
---that a seed gives the same model everywhere.
---@param t heed.Tensor
---@param name string "uniform_" or "normal_"
---@param ... number
function parameter.draw(t, name, ...)
  if making.hollow then return end
  local on_cpu = t.device == "cpu" and t or heed.empty_like(t, {device = "cpu"})
  heed.no_grad(on_cpu[name], on_cpu, ...)
  if on_cpu ~= t then heed.no_grad(t.copy_, t, on_cpu) end
end


---Weights in blocks, which nothing trains; refused where all weights are such.
---@param each fun(): string?, heed.Tensor names and parameters
---@return table<string, string>? kept why, by their names; nil: none is in blocks
function parameter.untrained(each)
  local kept, trained, last = {}, false, nil
  for name, p in each do
    if blocks[p.dtype] then kept[name], last = ("in blocks of type %s"):format(p.dtype), name
    else trained = trained or FLOATS[p.dtype] end
  end
  if not last then return nil end
  if trained then return kept end
  heed.fail("freeze: weights that can be trained expected, but %s is %s, and so are all others; "
            .. "nn.lora trains adapters beside them", last, kept[last])
end


---Lets parameters require gradients, or not; integers never do.
---@param list heed.Tensor[]
---@param yes boolean
---@param changes? any[] of fields, which are set together with that: see `core.set_fields`
function parameter.require_grad(list, yes, changes)
  local floats = {}
  for _, p in ipairs(list) do
    if p.dtype:find("float") then floats[#floats + 1] = p end
  end
  core.require_grad(floats, yes, changes)
end


-- Only floating point tensors change their type: ids and masks stay what they are.
local function send(t, target)
  if FLOATS[target] and not FLOATS[t.dtype] then return t end
  return t:to(target)
end


local function send_all(t, targets)
  for _, target in ipairs(targets) do t = send(t, target) end
  return t
end


-- Adds to the changes what tensors become that are sent to targets; gives those by the tensors.
local function add_moved(changes, tensors, targets)
  local becomes = {}
  for _, t in ipairs(tensors) do
    local moved = send_all(t:detach(), targets)
    if moved.dtype ~= t.dtype or moved.device ~= t.device then
      local n = #changes.takers + 1
      changes.takers[n], changes.givers[n], becomes[t] = t, moved, moved
      changes.gradients[n] = t.grad and send_all(t.grad, targets) or false
    end
  end
  return becomes
end


---What changes where tensors move to other devices or floating point types, each within its handle:
---for `core.commit`.
---@param tensors heed.Tensor[]
---@param targets string[]
---@return table changes
function parameter.moved(tensors, targets)
  if #targets == 0 then heed.fail("to: a device or a floating point type expected, got nothing") end
  for i = 1, options.last(targets) do
    local target = targets[i]
    if type(target) ~= "string" or OTHERS[target] then
      heed.fail("to: a device or a floating point type expected, got %s", options.kind(target))
    elseif rawget(blocks, target) then
      heed.fail("to: a device or a floating point type expected, got '%s'; "
                .. "m:quantize '%s' puts weights into blocks", target, target)
    end
  end
  local changes = {takers = {}, givers = {}, gradients = {}, fields = {}}
  heed.no_grad(function()
    local becomes = add_moved(changes, tensors, targets)
    for owner, follow in pairs(followers) do follow(owner, becomes, changes.fields) end
  end)
  return changes
end


---Moves tensors so.
---@param tensors heed.Tensor[]
---@param targets string[]
function parameter.move(tensors, targets) core.commit("to", parameter.moved(tensors, targets)) end


---Calls `follow(owner, becomes, list)` at every move, for as long as `owner` lives: it adds to the
---list the fields of its own that go with what tensors become. Optimisers use it.
---@param owner table
---@param follow fun(owner: table, becomes: table<heed.Tensor, heed.Tensor>, list: any[])
function parameter.on_move(owner, follow)
  followers[owner] = follow
end


-- A tensor like another one, for as long as that lives; false: it needs no other memory, or was
-- released, as the garbage collector does before it takes the owner.
local function like(t, other, dtype)
  if not options.is_alive(t) then return false end
  local sent = t:to(other.device):to(dtype)
  return not rawequal(sent, t) and heed.keep(sent)
end


---Adds to a list of fields the entries that follow tensors: those that become others, and then lie
---on other devices or are of other types. The types of entries beside blocks stay.
---@param list any[]
---@param entries (heed.Tensor|false)[]
---@param tensors heed.Tensor[] released ones are followed no more, and released entries stay
---@param becomes table<heed.Tensor, heed.Tensor>
---@param type_of? fun(t: heed.Tensor): string the type of an entry for one like this
function parameter.follow(list, entries, tensors, becomes, type_of)
  for i, t in ipairs(tensors) do
    if entries[i] and options.is_alive(t) then
      local now = becomes[t] or t
      local dtype = blocks[now.dtype] and entries[i].dtype or type_of and type_of(now) or now.dtype
      local sent = like(entries[i], now, dtype)
      if sent then fields.add(list, entries, i, sent) end
    end
  end
end


return parameter
