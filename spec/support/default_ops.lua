-- Cases of the defaults of operations, as spec/defaults_spec.lua reads them: by a key of
-- spec/support/documented.lua, {f, other}, where f(value) is the call with the option, f() the call
-- without it, and `other` a value with which it gives another result. `value` stands where the
-- comment has a formula; `same` where no value changes a result that can be seen here.

local heed = require "heed"

local cases = {}

local X <const> = heed.tensor{{0.5, -1.25, 3}, {2.5, -0.75, 25}}
local CUBE <const> = heed.arange(24):reshape(2, 3, 4):to("float32")
local SMALL <const> = heed.full({2, 3}, 1e-7) * X


-- Cases of an operation whose options stand in a table: of their names with other values.
local function op(name, arguments, others, owner)
  for option, other in pairs(others) do
    cases[("%s%s.%s"):format(owner or "Tensor:", name, option)] = {function(value)
      local list = arguments()
      if value ~= nil then list[#list + 1] = {[option] = value} end
      return heed[name](table.unpack(list))
    end, other}
  end
end

local function on(...)
  local list = {...}
  return function() return {table.unpack(list)} end
end


op("leaky_relu", on(X), {negative_slope = 0.02})
op("elu", on(X), {alpha = 2})
op("gelu", on(X), {approximate = "tanh"})
op("softplus", on(X), {beta = 2})
op("hardtanh", on(X), {min_val = -0.5, max_val = 0.75})
op("add", on(X, X), {alpha = 2})
op("sub", on(X, X), {alpha = 2})
op("nan_to_num", on(heed.tensor{0 / 0, 1.0}), {nan = 3})
op("norm", on(X), {p = 1})
op("addmm", on(heed.ones(2, 2), X, X:t()), {beta = 2, alpha = 2})
op("baddbmm", on(heed.ones(2, 3, 3), CUBE, CUBE:transpose(2, 3)), {beta = 2, alpha = 2})
op("flatten", on(CUBE), {start_dim = 2})
op("diagonal", on(CUBE), {offset = 1})
op("tril", on(X), {diagonal = 1})
op("triu", on(X), {diagonal = 1})
op("diag", on(heed.ones(3, 3):tril()), {diagonal = -1})
op("diag_embed", on(X), {offset = 1, dim1 = 1, dim2 = 1})
op("pad", on(X, {1, 1}), {value = 5})
op("put", on(X, {heed.tensor{1}}, 4.0), {accumulate = true})
op("index_add", on(X, 1, heed.tensor{1}, heed.ones(1, 3)), {alpha = 2})
op("one_hot", on(heed.tensor{2, 1}), {num_classes = 5})
op("sort", on(X), {dim = 1, descending = true})
op("argsort", on(X), {dim = 1, descending = true})
op("topk", on(X, 2), {dim = 1, largest = false})
op("layer_norm", on(SMALL, {3}), {eps = 1e-6})
op("normalize", on(X), {p = 1, dim = 1, eps = 100})
op("cosine_similarity", on(X, X + 1), {dim = 1, eps = 1e4})
op("dropout", on(heed.ones(50)), {p = 0.4, training = false})
op("multinomial", on(heed.ones(20, 4), 4), {replacement = true})
op("cat", on({X, X}), {dim = 2}, "heed.")
op("join", on({X, X}), {dim = 2}, "heed.")
op("stack", on({X, X}), {dim = 2}, "heed.")

for _, name in ipairs{"sum", "mean", "amax", "amin", "argmax", "argmin", "logsumexp", "prod"} do
  op(name, on(X, 2), {keepdim = true})
end
for _, name in ipairs{"any", "all"} do op(name, on(X:gt(0), 2), {keepdim = true}) end

cases["Tensor:softplus.threshold"] = {function(value)
  local x = heed.tensor({19.0, 20.5, 25}, {dtype = "float64"})
  return x:softplus(value and {threshold = value})
end, 18}
cases["Tensor:nan_to_num.text"] = {function(value)
  local x = heed.tensor{math.huge, -math.huge}
  return value and x:nan_to_num{posinf = value, neginf = -value} or x:nan_to_num()
end, 7, value = 0x1.fffffep127}
cases["Tensor:var.unbiased"] = {function(value)
  return X:var(2, value ~= nil and {unbiased = value} or nil)
end, false, value = true}
cases["Tensor:slice.start"] = {function(value) return X:slice(2, value) end, 2}
cases["Tensor:slice.stop"] = {function(value) return X:slice(2, 1, value) end, 2}
cases["Tensor:slice.step"] = {function(value) return X:slice(2, 1, -1, value) end, 2}
cases["Tensor:flatten.end_dim"] = {function(value) return CUBE:flatten(1, value) end, 2}
cases["Tensor:diagonal.dim1"] = {function(value) return CUBE:diagonal(0, value) end, 3}
cases["Tensor:diagonal.dim2"] = {function(value) return CUBE:diagonal(0, 1, value) end, 3}
cases["Tensor:split.dim"] = {function(value) return X:split(1, value) end, 2}
cases["Tensor:chunk.dim"] = {function(value) return X:chunk(2, value) end, 2}
cases["Tensor:unbind.dim"] = {function(value) return X:unbind(value) end, 2}
cases["Tensor:constant_pad_nd.value"] = {function(value)
  return X:constant_pad_nd({1, 1}, value)
end, 5}
cases["Tensor:requires_grad_.yes"] = {function(value)
  return heed.zeros(2):requires_grad_(value).requires_grad
end, false}
cases["heed.factory.dtype"] = {function(value) return heed.zeros(2, {dtype = value}) end, "float64"}
cases["heed.eye.m"] = {function(value) return heed.eye(2, value) end, 3, value = 2}

for _, name in ipairs{"sort", "argsort"} do
  cases[("Tensor:%s.stable"):format(name)] = {function(value)
    return heed.tensor{2, 1, 2, 1}[name](heed.tensor{2, 1, 2, 1}, {stable = value})
  end, same = true}
end
cases["Tensor:topk.sorted"] = {function(value) return X:topk(3, {sorted = value}) end, same = true}
cases["heed.isatty.descriptor"] = {function(value) return heed.isatty(value) end, same = true}

-- Numbers around the tolerances: which of them are close says what the tolerances are.
local function near(name)
  return function(option)
    return function(value)
      local list = {}
      for i = 1, 40 do
        local x = heed.tensor({option == "atol" and 0.0 or 1.0}, {dtype = "float64"})
        local y = x + (option == "atol" and i * 5e-10 or i * 5e-7)
        if option == "equal_nan" then x, y = x / 0 - x / 0, x / 0 - x / 0 end
        list[i] = x[name](x, y, value ~= nil and {[option] = value} or nil)
      end
      return list
    end
  end
end

for option, other in pairs{rtol = 1.1e-5, atol = 1.1e-8, equal_nan = true} do
  cases["Tensor:isclose." .. option] = {near "isclose"(option), other}
  cases["Tensor:allclose.options." .. option] = {near "allclose"(option), other}
end


-- The smallest float32 above 1, less 1.
cases["Tensor:rms_norm.eps"] = {function(value)
  return (X * 1e-4):rms_norm({3}, value and {eps = value})
end, 1.2e-7, value = 0x1p-23}

cases["Tensor:rotate_pairs.interleaved"] = {function(value)
  local half = heed.tensor{0.5, 0.25}
  return heed.tensor{1.0, 2.0, 3.0, 4.0}:rotate_pairs(half, half, {interleaved = value})
end, true}

local Q <const> = heed.tensor{{{{1, 2, 3, 4}, {4, 1, 0, 2}}}} / 3
local K <const> = heed.tensor{{{{1, 0, 3, 4}, {4, 1, 0, 1}, {1, 1, 0, 2}, {0, 3, 0, 2}}}} / 2

cases["heed.attention.options.offset"] = {function(value)
  return heed.attention(Q, K, K, {causal = true, offset = value})
end, 0, value = 2}
cases["heed.attention.options.scale"] = {function(value)
  return heed.attention(Q, K, K, {scale = value})
end, 0.4, value = 0.5}
cases["heed.attention.options.dropout"] = {function(value)
  return heed.attention(Q, K, K, {dropout = value})
end, 0.5}


-- Losses -------------------------------------------------------------------

local Y <const> = heed.tensor{{0.25, 1, 3}, {2, -3, 20}}
local P <const> = X:sigmoid()
local LABELS <const> = heed.tensor{2, 3}

for name, pair in pairs{
  cross_entropy = {X, LABELS}, nll_loss = {X, LABELS}, binary_cross_entropy = {P, P / 2},
  bce_with_logits = {X, P}, mse_loss = {X, Y}, l1_loss = {X, Y}, smooth_l1_loss = {X, Y},
  huber_loss = {X, Y}, kl_div = {P:log(), P / 2},
} do
  op(name, on(table.unpack(pair)), {reduction = "sum"})
end

op("cross_entropy", on(X, LABELS), {label_smoothing = 0.1})
op("smooth_l1_loss", on(X, Y), {beta = 2})
op("huber_loss", on(X, Y), {delta = 2})
op("kl_div", on(P:log(), P / 2), {log_target = true})

for _, name in ipairs{"cross_entropy", "nll_loss"} do
  op(name, on(X, heed.tensor{2, -100}), {ignore_index = -7})   -- then -100 is refused
end


-- Random numbers -------------------------------------------------------------

local function drawn(name, at)
  return function(value)
    local arguments = {}
    if at == 2 then arguments[1] = 0 end
    arguments[at] = value
    local t = heed.zeros(20)
    return t[name](t, table.unpack(arguments, 1, at))
  end
end

cases["Tensor:uniform_.from"] = {drawn("uniform_", 1), 0.5}
cases["Tensor:uniform_.to"] = {drawn("uniform_", 2), 2}
cases["Tensor:normal_.mean"] = {drawn("normal_", 1), 1}
cases["Tensor:normal_.std"] = {drawn("normal_", 2), 2}
cases["Tensor:bernoulli.text"] = {drawn("bernoulli_", 1), 0.25, value = 0.5}


-- The rest of the reference ----------------------------------------------------

-- Gradients that are wrong by a share or by a sum, around the tolerances: which of them pass says
-- what the tolerances are; and where f is called, what the width of a difference is.
local WRONG <const> = {
  rtol = function(x, i) return 100 * x + 0.005 * i * x:detach() end,
  atol = function(x, i) return 5e-7 * i * (x - x:detach()) end,
  order = function(x)                  -- x^2, whose second derivative is 0
    local d = x:detach()
    return 2 * x * d - d * d + 0 * x:pow(3)
  end,
}

local function checked(option)
  return function(value)
    local given, list = value and {[option] = value} or nil, {}
    local wrong = WRONG[option]
    for i = 1, wrong and 40 or 0 do
      list[i] = heed.gradcheck(function(x) return wrong(x, i) end, heed.tensor{1.0}, given)
    end
    if wrong then return list end
    heed.gradcheck(function(x)
      list[#list + 1] = x:item()
      return x * 1
    end, heed.tensor{1.0}, given)
    return list
  end
end

for _, name in ipairs{"options", "given"} do
  for option, other in pairs{eps = 1e-5, atol = 1.2e-5, order = 2, rtol = 1.2e-3} do
    cases[("heed.gradcheck.%s.%s"):format(name, option)] = {checked(option), other}
  end
end

-- The first GPU, where there is one; else the same refusal.
cases["heed.cuda.properties.device"] = {function(value)
  local good, properties = pcall(heed.cuda.properties, value)
  return {good, good and properties.name}
end, value = 0, same = true}


return cases
