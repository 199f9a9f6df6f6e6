-- The feed-forward part of a transformer: wider, an activation, and back to the width of the input.

local activations = require "heed.nn.activations"
local extend = require "heed.nn.extend"
local layers = require "heed.nn.layers"
local options = require "heed.internal.options"
local part = require "heed.nn.part"

local Dropout, Linear = layers.Dropout, layers.Linear
local call, count, known, read = part.call, options.count, part.known, options.read


-- The parts of both classes. First weights are drawn in this order: gate, up, down.
local function make_parts(self, who, dim, hidden, o, gated)
  dim, hidden = count(who, "dim", dim), count(who, "hidden", hidden)
  self.gate = gated and Linear(dim, hidden, {bias = o.bias})
  self.up = Linear(dim, hidden, {bias = o.bias})
  self.activation = activations.find(who, activations.of_gate(o.activation) or o.activation)
  self.dropout = Dropout(options.probability(who, "dropout", o.dropout))
  local out_dim = o.out_dim
  if out_dim == nil then out_dim = dim end
  self.down = Linear(hidden, count(who, "out_dim", out_dim), {bias = o.bias})
end


local function check_parts(who, self)
  part.of(who, self, "activation")
  part.of(who, self, "dropout")
end


---The feed-forward block of a transformer: wider, an activation, and back. Where it is gated, the
---activation is that of a gate, which what is wider is multiplied by.
---@class heed.MLP: heed.Module
---@field gate heed.Linear|false
---@field up heed.Linear
---@field down heed.Linear
---@overload fun(dim: integer, hidden: integer, options?: heed.MLP.options): heed.MLP
local MLP = extend("nn.MLP", {init = 3, forward = 1})

---@class heed.MLP.options
---@field activation? string|function "relu" unless given; "swiglu", "geglu", "reglu" and "glu" are
---gated: by silu, gelu, relu and sigmoid
---@field gated? boolean whether there is a gate
---@field bias? boolean true unless given
---@field dropout? number before the way back, while training; 0 unless given
---@field out_dim? integer `dim` unless given

---@param dim integer
---@param hidden integer the width of each of the parts: a gate adds to it
---@param given? heed.MLP.options
function MLP:init(dim, hidden, given)
  local o = read("nn.MLP", given, {
    activation = options.any, bias = true, dropout = 0, gated = false, out_dim = options.any,
  })
  if o.activation == nil then o.activation = "relu" end
  make_parts(self, "nn.MLP", dim, hidden, o, o.gated or activations.of_gate(o.activation) ~= nil)
end


---@param x heed.Tensor (..., dim)
---@return heed.Tensor y (..., out_dim)
function MLP:forward(x)
  local activation, dropout = self.activation, self.dropout
  if not (known[activation] and known[dropout]) then check_parts("nn.MLP", self) end
  local h = activation(call("nn.MLP", self, self.gate and "gate" or "up", x))
  if self.gate then h = h * call("nn.MLP", self, "up", x) end     -- (..., hidden)
  return call("nn.MLP", self, "down", dropout(h))
end


---The feed-forward block of Llama and its like: down(activation(gate(x)) * up(x)). N. Shazeer
---(2020), "GLU Variants Improve Transformer".
---@class heed.GatedMLP: heed.Module
---@field gate heed.Linear
---@field up heed.Linear
---@field down heed.Linear
---@overload fun(dim: integer, hidden: integer, options?: heed.GatedMLP.options): heed.GatedMLP
local GatedMLP = extend("nn.GatedMLP", {init = 3, forward = 1})

---@class heed.GatedMLP.options
---@field activation? string|function of the gate: "silu" unless given
---@field bias? boolean true unless given
---@field dropout? number before the way back, while training; 0 unless given
---@field out_dim? integer `dim` unless given

---@param dim integer
---@param hidden integer the width of the gate, and of what it multiplies
---@param given? heed.GatedMLP.options
function GatedMLP:init(dim, hidden, given)
  local o = read("nn.GatedMLP", given, {
    activation = options.any, bias = true, dropout = 0, out_dim = options.any,
  })
  if o.activation == nil then o.activation = "silu" end
  make_parts(self, "nn.GatedMLP", dim, hidden, o, true)
end


---@param x heed.Tensor (..., dim)
---@return heed.Tensor y (..., out_dim)
function GatedMLP:forward(x)
  local activation, dropout = self.activation, self.dropout
  if not (known[activation] and known[dropout]) then check_parts("nn.GatedMLP", self) end
  local h = activation(call("nn.GatedMLP", self, "gate", x))
  h = h * call("nn.GatedMLP", self, "up", x)                -- (..., hidden)
  return call("nn.GatedMLP", self, "down", dropout(h))
end


return {GatedMLP = GatedMLP, MLP = MLP}
