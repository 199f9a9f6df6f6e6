-- The role of a tensor in a module's field: a parameter, a buffer, or neither.
--
--   nn.Parameter   is trained and saved
--   nn.Buffer      is saved
--   any tensor     moves with the module, and that is all; a leaf that requires grad is refused

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
  local on_cpu = t.device == "cpu" and t or heed.empty_like(t, {device = "cpu"})
  heed.no_grad(on_cpu[name], on_cpu, ...)
  if on_cpu ~= t then heed.no_grad(t.copy_, t, on_cpu) end
end


-- Only floating point tensors change their type: ids and masks stay what they are.
local function send(t, target)
  if FLOATS[target] and not FLOATS[t.dtype] then return t end
  return t:to(target)
end


local function move(t, targets)
  local moved = t:detach()
  for _, target in ipairs(targets) do moved = send(moved, target) end
  if moved.dtype == t.dtype and moved.device == t.device then return end
  local gradient = t.grad
  if gradient then t.grad = nil end
  t:set_(moved)
  if gradient then
    for _, target in ipairs(targets) do gradient = send(gradient, target) end
    t.grad = gradient
  end
end


---Moves tensors to other devices or floating point types, each within its handle.
---@param tensors heed.Tensor[]
---@param targets string[]
function parameter.move(tensors, targets)
  if #targets == 0 then heed.fail("to: a device or a floating point type expected, got nothing") end
  for i = 1, options.last(targets) do
    local target = targets[i]
    if type(target) ~= "string" or OTHERS[target] then
      heed.fail("to: a device or a floating point type expected, got %s", options.kind(target))
    end
  end
  heed.no_grad(function()
    for _, t in ipairs(tensors) do move(t, targets) end
  end)
  for owner, follow in pairs(followers) do follow(owner) end
end


---Calls `follow(owner)` after every move, for as long as `owner` lives; optimisers use it.
---@param owner table
---@param follow function
function parameter.on_move(owner, follow)
  followers[owner] = follow
end


return parameter
