-- Masks and biases that are values, and sinks, of a call of heed.attention: here they become rules
-- and tensors, which C takes.

local field = require "heed.internal.field"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"
local rule = require "heed.internal.rule"

local fail, is_tensor = heed.fail, heed.is_tensor

local values = {}


---Whether a value is a bias: a module with the methods of heed.bias.
---@param value any
---@return boolean
function values.is_bias(value)
  local class = type(value) == "table" and getmetatable(value)
  return type(class) == "table" and class.__is_module == true and class.is_bias == true
end

local is_mask, is_bias = rule.is, values.is_bias

-- B, H, T and S; nil where C will refuse the queries or the keys.
local function sizes_of(q, k)
  local rank = is_tensor(q) and q:dim()
  if not rank or rank < 2 or rank > 4 or not is_tensor(k) or k:dim() ~= rank then return nil end
  return rank > 2 and q:size(1) or 1, rank > 3 and q:size(2) or 1, q:size(-2), k:size(-2), rank
end


-- Sets rule and operands in place of a mask.
local function set_mask(o, q, B, H, T, S, rank)
  local m = o.mask
  if type(m) ~= "table" and type(m) ~= "string" and type(m) ~= "function" then return end
  if not is_mask(m) then
    fail("attention: argument 'mask': a mask of heed.mask or a bool tensor expected, got %s%s",
         options.typed(m), is_bias(m) and "; what is added to the scores is called 'bias'"
         or m == "causal" and "; write causal = true, or mask = heed.mask.causal()"
         or type(m) == "function" and "; a call makes one: heed.mask.causal()" or "")
  end
  o.rule, o.operands = rule.resolve(m, B, H, T, S, rank, q.device)
  o.mask = nil
end


-- A bias that a function gives where the sizes are known.
local Computed = {}

---Wraps a function that gives a bias, as the option `bias` takes it from layers.
---@param f fun(T: integer, S: integer, q: heed.Tensor): any
---@return table
function values.computed(f)
  return setmetatable({f = f}, Computed)
end


-- Sets tensors in place of a bias: what broadcasts against the scores, and `relative`
-- (H, T + S - 1), what depends on the distance.
local function set_bias(o, q, H, T, S)
  local b = o.bias
  if type(b) ~= "table" and type(b) ~= "function" then return end
  if rawequal(getmetatable(b), Computed) then
    o.bias = T > 0 and S > 0 and b.f(T, S, q) or nil
    return set_bias(o, q, H, T, S)
  end
  if not is_bias(b) then
    fail("attention: argument 'bias': a bias of heed.bias or a float tensor expected, got %s%s",
         options.typed(b), is_mask(b) and "; who may attend is called 'mask'"
         or type(b) == "function" and "; a call makes one: heed.bias.alibi(heads)" or "")
  end
  if b.heads and b.heads ~= H and b.heads ~= 1 then
    fail("attention: argument 'bias': %s is for %d heads, got queries of shape %s", b.__name,
         field.count(b, "heads"), tostring(q.shape))
  end
  o.bias, o.relative = nil, nil
  if T > 0 and S > 0 then o.bias, o.relative = b:matrix(), b:distances(T, S, q) end
end


local function check_sink(sink, q, H)
  if not is_tensor(sink) or not sink.dtype:find("float") or sink:numel() ~= H
     or sink:dim() > 1 then
    fail("attention: argument 'sink': a float tensor of shape (%d), a number for each head, "
         .. "expected, got %s", H, options.kind(sink))
  end
  return sink:reshape(q:dim() == 4 and {H, 1} or {1})
end


-- One more logit in the denominator of each head's softmax (G. Xiao et al. 2023, "Efficient
-- streaming language models with attention sinks"; learned as in OpenAI's gpt-oss): all weights
-- times sigmoid(lse - sink). A row that may attend to nothing has lse -inf, and stays 0.
local function with_sink(attend, q, k, v, o, sink)
  local wanted = o.lse
  o.lse = true
  local y, weights, lse = attend(q, k, v, o)
  sink = sink:to(lse.dtype)
  local nothing = lse:eq(-math.huge)
  local filled = lse:masked_fill(nothing, 0)
  local more = filled - sink
  local share = more:sigmoid():unsqueeze(-1)
  y = (y * share):to(y.dtype)
  if weights then weights = (weights * share):to(weights.dtype) end
  if not wanted then return y, weights end
  return y, weights, heed.where(nothing, sink, filled - more:logsigmoid())
end


---Calls heed.attention of C's. Changes o.
---@param attend function heed.attention without values
---@param q heed.Tensor
---@param k heed.Tensor
---@param v heed.Tensor
---@param o heed.attention.options a table without a metatable
---@return heed.Tensor y
---@return heed.Tensor? weights
---@return heed.Tensor? lse
function values.attend(attend, q, k, v, o)
  local B, H, T, S, rank = sizes_of(q, k)
  if not B then return attend(q, k, v) end     -- C refuses them
  set_mask(o, q, B, H, T, S, rank)
  set_bias(o, q, H, T, S)
  local sink = o.sink
  if sink == nil then return attend(q, k, v, o) end
  o.sink = nil
  return with_sink(attend, q, k, v, o, check_sink(sink, q, H))
end


---Calls heed.attention of C's with options that a script gave.
---@param attend function heed.attention without values
---@param q heed.Tensor
---@param k heed.Tensor
---@param v heed.Tensor
---@param given heed.attention.options
---@return heed.Tensor y
---@return heed.Tensor? weights
---@return heed.Tensor? lse
function values.attend_given(attend, q, k, v, given, ...)
  options.no_more("attention", 4, ...)
  if is_mask(given) or is_bias(given) then
    fail("attention: a mask or a bias stands in a table, as in {mask = m}")
  end
  local o = {}
  for name, value in next, given do o[name] = value end
  return values.attend(attend, q, k, v, o)
end


return values
