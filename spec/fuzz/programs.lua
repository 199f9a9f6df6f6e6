-- Random graphs of differentiable operations on float64, with views and changes in place: their
-- gradients are compared with central differences, and results with those of two threads.

local heed = require "heed"

local programs = {}

local abs, max = math.abs, math.max
local LARGE <const> = 50           -- no step may give larger values


-- A step's text: %1 and %2 are variables, %k a dimension of %1, %i a position along it, %n its
-- size.
local UNARY = {
  "%1:sin()", "%1:cos()", "%1:tanh()", "%1:sigmoid()", "%1:tanh():exp()", "(%1 * %1 + 0.5):log()",
  "(%1:square() + 0.3):sqrt()", "%1:abs()", "%1:relu()", "%1:gelu()", "%1:gelu('tanh')",
  "%1:silu()", "%1:mish()", "%1:softplus()", "%1:elu()", "%1:erf()", "%1:atan()", "%1:neg()",
  "%1:logsigmoid()", "%1:leaky_relu(0.2)", "%1:hardtanh()", "%1:tanh():expm1()", "%1:sinc()",
  "%1:square():log1p()", "%1:clamp(-1, 0.5)", "(%1 * %1 + 1):reciprocal()", "%1 * 0.5 + 1",
  "(%1:square() + 0.2):rsqrt()", "%1:tanh():sinh()", "(%1:abs() + 0.5) ^ 1.5", "%1 / 3 - 1",
  "%1:dropout(0.3)", "%1:tan():tanh()", "(%1:tanh() * 0.9):asin()", "%1:exp2():tanh()",
  "%1:clone()",
}
local ALONG = {
  "%1:softmax(%k)", "%1:log_softmax(%k)", "%1:cumsum(%k)", "%1:tanh():cumprod(%k)", "%1:sum(%k)",
  "%1:mean(%k, true)", "%1:var(%k)", "%1:logsumexp(%k)", "%1:norm(2, %k)", "%1:norm(3, %k)",
  "%1:tanh():prod(%k)", "(%1:max(%k))", "(%1:min(%k))", "(%1:sort(%k))", "(%1:topk(1, %k))",
  "%1:layer_norm({%1:size(-1)})", "%1:rms_norm({%1:size(-1)})", "%1:layer_norm({%1:size()})",
  "%1:var(%k, false, true)", "%1:tanh():prod(%k, true)", "%1:logsumexp(%k, true)", "%1:sum()",
}
local VIEWS = {
  "%1:transpose(1, %k)", "%1:t()", "%1:reshape(-1)", "%1:unsqueeze(%k)", "%1:squeeze()",
  "%1:narrow(%k, %i, 1)", "%1:select(%k, %i)", "%1:slice(%k, %i)", "%1:slice(%k, 1, -1, 2)",
  "%1:unsqueeze(1):expand(2, %1:size())", "%1:diagonal()", "%1:unfold(%k, 1, 1)", "%1[%i]",
  "%1:flatten()", "%1:view(%1:numel())", "%1[{{}, {%n, 1, -1}}]", "%1[{{%n, 1, -1}}]",
  "%1:unfold(%k, 2, 1)",
}
local MOVES = {
  "%1:flip(%k)", "%1:roll(1, %k)", "%1:tile(2)", "%1:repeat_interleave(2, %k)", "%1:pad({1, 1})",
  "%1:tril()", "%1:triu(1)", "%1:contiguous()", "%1:index_select(%k, heed.tensor{%i, 1, %i})",
  "%1[heed.tensor{%i, %i}]", "heed.cat({%1, %1}, %k)", "heed.stack({%1, %1 * 2}, %k)",
  "%1:gather(%k, heed.ones_like(%1):to('int64'))", "%1:masked_fill(%1:detach():gt(0), 0.5)",
  "%1:put({heed.tensor{%i, %i}}, 0.25)", "%1:pad({-1, 2}, {value = 0.5})",
  "%1:scatter_add(%k, heed.ones_like(%1):to('int64'), %1)",
  "%1:put({heed.tensor{%i, 1}}, 0.5, true)",
}
local BINARY = {
  "%1 + %2", "%1 - %2", "%1 * %2", "%1 / (%2 * %2 + 1)", "%1:maximum(%2)", "%1:minimum(%2)",
  "%1:atan2(%2:square() + 1)", "%1:hypot(%2:square() + 0.5)", "%1:lerp(%2, 0.3)",
  "%1:lerp(%2, %1:sigmoid())", "heed.where(%2:detach():gt(0), %1, %2)", "%1:add(%2, {alpha = 0.5})",
  "%1:matmul(%2)", "%1:matmul(%2:t())", "heed.einsum('...i,...i->...', %1, %2)", "%1:outer(%2)",
  "%1:linear(%2)", "%1:mse_loss(%2)", "%1:smooth_l1_loss(%2, {reduction = 'none'})",
  "%1:cross_entropy(%2:softmax(-1))", "(%1:square() + 0.5) ^ %2:tanh()", "%1:expand_as(%2)",
  "heed.attention(%1, %2, %2)", "heed.attention(%1, %2, %2, {causal = true})",
  "heed.attention(%1, %2, %2, {fused = false})", "%1:bce_with_logits(%2:sigmoid())",
  "%1:clamp(%2 - 1, %2 + 1)", "%1:remainder(%2:square() + 2)", "%1:copy(%2)",
  "heed.checkpoint(function(p, q) return p:sin() * q end, %1:clone(), %2:clone())",
  "%1:masked_fill(%1:lt(0), 0.1)",
  "heed.cat({%1, %2}, %k)", "%1:layer_norm({%1:size(-1)}, %2)", "%1:kl_div(%2:softmax(-1))",
}
local IN_PLACE = {
  "%1:mul_(0.5)", "%1:add_(%2)", "%1:tanh_()", "%1:sin_()", "%1:select(%k, %i):mul_(0.5)",
  "%1:t():add_(%2)", "%1:narrow(%k, %i, 1):copy_(%2)", "%1[%i] = %2", "%1[{{}, %i}] = 0.5",
  "%1:narrow(%k, 1, 1):zero_()", "%1:tril_()", "%1:masked_fill_(%1:detach():gt(0.5), 0.1)",
  "%1:slice(%k, 1, -1, 2):sigmoid_()", "%1:cumsum_(%k)", "%1:mul_(%2:tanh())", "%1:sub_(%2)",
  "%1:put_({heed.tensor{%i}}, 0.75)", "%1:diagonal():add_(1)", "%1:view(-1):cos_()",
  "%1:select(%k, %i):add_(%1:select(%k, 1))", "%1:clamp_(-2, 2)", "%1[{{%n, 1, -1}}] = %1:clone()",
  "%1:tanh_():cumprod_(%k)", "%1:fill_(0.5)", "%1:div_(%2:square() + 1)", "%1:copy_(%2)",
}
local LISTS = {UNARY, UNARY, ALONG, VIEWS, VIEWS, MOVES, BINARY, BINARY, BINARY, IN_PLACE, IN_PLACE}


local function fill(r, format, one, two)
  local rank = one.value:dim()
  local k = rank > 0 and r:integer(1, rank) or 1
  local n = rank > 0 and one.value:size(k) or 1
  local words = {["1"] = one.name, ["2"] = two.name, k = k, n = n, i = r:integer(1, n)}
  return (format:gsub("%%(%w)", words))
end


local function is_usable(y)
  return heed.is_tensor(y) and y.dtype == "float64" and y:numel() > 0 and y:numel() < 20000
    and y:dim() < 6 and y:isfinite():all() and y:abs():max():item() < LARGE
end


local function execute(text, env)
  local f = load(text, "=step", "t", env)
  return f ~= nil and pcall(f)
end


-- One more step, if the one that was drawn can be taken.
local function step(r, p)
  local list = r:pick(LISTS)
  local from = list == IN_PLACE and p.leaves + 1 or 1
  if from > #p.variables then return end
  local one = p.variables[r:integer(from, #p.variables)]
  local two = r:pick(p.variables)
  local text, name = fill(r, r:pick(list), one, two), "v" .. #p.variables + 1
  if list == IN_PLACE then
    if execute(text, p.env) then p.lines[#p.lines + 1] = "  " .. text end
  elseif execute(name .. " = " .. text, p.env) and is_usable(p.env[name]) then
    p.lines[#p.lines + 1] = ("  local %s = %s"):format(name, text)
    p.variables[#p.variables + 1] = {name = name, value = p.env[name]}
  end
end


local WIDE = {{40, 300}, {12000}, {5, 40, 60}, {130, 90}}

local function leaf_shapes(r)
  local list, base = {}, r:list(r:integer(1, 3), function() return r:integer(1, 4) end)
  local wide = r:chance(0.2)
  if wide then base = r:pick(WIDE) end
  for i = 1, r:integer(2, 3) do
    list[i] = base
    if not wide and r:chance(0.3) then list[i] = table.move(base, 2, #base, 1, {}) end
  end
  return list
end


-- The program: source that gives its leaves and its function.
local function make(r)
  local shapes, seed = leaf_shapes(r), r:integer(0, 999)
  local p = {lines = {}, variables = {}, leaves = #shapes, env = {heed = heed}}
  local made = {}
  heed.manual_seed(seed)
  for i, shape in ipairs(shapes) do
    local text = ("heed.randn({%s}, {dtype = 'float64'})"):format(table.concat(shape, ", "))
    local x = load("return " .. text, "=leaf", "t", p.env)():requires_grad_()
    made[i], p.variables[i], p.env["v" .. i] = text, {name = "v" .. i, value = x}, x
  end
  local wanted = r:integer(5, 20)
  for _ = 1, 3 * wanted do
    if #p.lines < wanted then step(r, p) end
  end
  local names, sums = {}, {}
  for i = 1, #shapes do names[i] = "v" .. i end
  for i = max(1, #p.variables - 2), #p.variables do sums[#sums + 1] = "mix(v" .. i .. ")" end
  return ([[
local heed = require "heed"
local function mix(v)
  return (v * heed.arange(v:numel(), {dtype = "float64"}):sin():reshape({v:size()})):sum()
end
heed.manual_seed(%d)
local leaves = {%s}
local function f(%s)
  heed.manual_seed(1)
%s
  return %s
end
return f, leaves
]]):format(seed, table.concat(made, ", "), table.concat(names, ", "),
           table.concat(p.lines, "\n"), table.concat(sums, " + "))
end


-- The result and the gradients, with so many threads; or nil and a message.
local function gradients(f, leaves, threads)
  local now, xs = heed.threads(), {}
  heed.threads(threads)
  for i, x in ipairs(leaves) do xs[i] = x:detach():clone():requires_grad_() end
  local good, y, gs = pcall(function()
    local y = f(table.unpack(xs))
    if not y.requires_grad then return y, {} end
    return y, heed.grad(y, xs)
  end)
  heed.threads(now)
  if not good then return nil, y end
  return y, gs
end


local function same(a, b) return not a and not b or a and b and a:data() == b:data() end


local function difference_of_threads(f, leaves, y, gs)
  local other, others = gradients(f, leaves, 2)
  if not other then return "with two threads: " .. tostring(others) end
  if not same(y, other) then return "another result with two threads" end
  for i = 1, #leaves do
    if not same(gs[i], others[i]) then return "another gradient with two threads" end
  end
end


-- The derivative by element j of leaf i; nil where it has none, or differences are not exact.
local function numeric(f, leaves, i, j)
  local xs = table.move(leaves, 1, #leaves, 1, {})
  xs[i] = leaves[i]:clone()
  local flat = xs[i]:view(-1)
  local x = flat[j]
  local function at(h)
    flat[j] = x + h
    return heed.no_grad(f, table.unpack(xs)):item()
  end
  local low, middle, high, h = at(-1e-5), at(0), at(1e-5), 1e-5
  local d = (high - low) / (2 * h)
  local near = (at(h / 4) - at(-h / 4)) / (h / 2)
  local scale = max(1, abs(d))
  if not (abs((high - middle) / h - (middle - low) / h) < 1e-2 * scale) then return nil end
  if not (abs(d - near) < 1e-4 * scale) then return nil end
  return d
end


local function wrong_gradient(r, f, leaves, gs)
  for _ = 1, 5 do
    local i = r:integer(1, #leaves)
    local j = r:integer(1, leaves[i]:numel())
    local d = numeric(f, leaves, i, j)
    local g = gs[i] and gs[i]:reshape(-1)[j] or 0
    if d and not (abs(d - g) <= 2e-3 * max(1, abs(d))) then
      return ("wrong gradient: leaf %d, element %d: %.9g by backward, %.9g by differences")
        :format(i, j, g, d)
    end
  end
end


---Makes and checks a program.
---@return string family
---@return string source
---@return string? why what is wrong
function programs.run(r, announce)
  announce("-- a program that is being made")
  local source = make(r)
  announce(source)
  local f, leaves = load(source, "=call")()
  local y, gs = gradients(f, leaves, 1)
  if not y then
    local refused = tostring(gs):find("in place", 1, true)
    return "programs", source, not refused and "raised: " .. tostring(gs) or nil
  end
  local why = difference_of_threads(f, leaves, y, gs) or wrong_gradient(r, f, leaves, gs)
  return "programs", source, why
end

return programs
