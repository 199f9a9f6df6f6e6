-- Plausible arguments, as source: by the kind and name of a parameter, and for structured
-- functions as whole lists.

local core = require "heed.core"
local values = require "spec.fuzz.values"

local shape_text, tensor = values.shape_text, values.tensor
local concat = table.concat

local arguments = {}

local EQUATIONS = {
  "ij,jk->ik", "ij->ji", "ii", "ii->i", "...i->...", "i,j->ij", "bij,bjk->bik", "ij,ij->", "ij->",
  "a,a", "->", "ij,kj", "...ij,...jk->...ik", "iij->j", " i j -> j i ", "ij->k", "i..j", ",",
  "zzzzzzzz->z", "->i", "i->ii", "...", "ij...,jk->ik...",
}
local OPTIMIZERS = require("heed.internal.options").names(core.optimizers())
local TEXTS = {equation = EQUATIONS, device = {"cpu", "cuda", "cuda:1", "tpu"}}
local WORDS = {"base", "avx2", "cpu", "highest", "medium", "causal", "cuda:0", "SGD"}


local function size_of(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end


---The context that the arguments of one call share.
function arguments.context(r)
  local dtype = r:chance(0.6) and r:pick(values.floats) or r:pick(values.dtypes)
  return {r = r, shape = values.shape(r, 4), dtype = dtype, grad = r:chance(0.4)}
end


local function options(c) return {grad = c.grad, tame = c.tame} end

local function input(c) return tensor(c.r, c.shape, c.dtype, options(c)) end


local function operand(c)
  local r, kind = c.r, c.r:integer(1, 10)
  if kind == 1 then return c.tame and "1.5" or values.number(r) end
  if kind <= 5 then return input(c) end
  local dtype = kind <= 8 and c.dtype or r:pick(values.dtypes)
  return tensor(r, values.broadcast(r, c.shape), dtype, options(c))
end


local function axis(c)
  local rank = math.max(#c.shape, 1)
  return tostring(c.r:integer(1, rank) * c.r:pick{1, 1, -1})
end


local function axes(c)
  if c.r:chance(0.5) then return axis(c) end
  local list = {}
  for k = 1, #c.shape do
    if c.r:chance(0.5) then table.insert(list, c.r:integer(1, #list + 1), k) end
  end
  return "{" .. concat(list, ", ") .. "}"
end


local function order(c)
  local list = {}
  for k = 1, #c.shape do table.insert(list, c.r:integer(1, #list + 1), k) end
  return "{" .. concat(list, ", ") .. "}"
end


-- Another shape for as many elements.
local function reshaped(c)
  local list, n = {}, size_of(c.shape)
  for d = 2, 7 do
    if n > 0 and n % d == 0 and c.r:chance(0.6) then
      list[#list + 1] = d
      n = n // d
    end
  end
  table.insert(list, c.r:integer(1, #list + 1), c.r:chance(0.5) and -1 or n)
  return "{" .. concat(list, ", ") .. "}"
end


local SHAPES = {
  shape = reshaped,
  pad = function(c) return shape_text(c.r:list(2 * c.r:integer(0, 3), function()
    return c.r:integer(-1, 2) end)) end,
  shifts = function(c) return tostring(c.r:integer(-5, 5)) end,
  dims = function(c) return shape_text(c.r:list(c.r:integer(0, 3), function()
    return c.r:integer(0, 3) end)) end,
}


local kinds = {}

kinds.TENSOR, kinds.TARGET = operand, input

function kinds.TENSORS(c)
  return "{" .. concat(c.r:list(c.r:integer(1, 4), function() return input(c) end), ", ") .. "}"
end

function kinds.NUMBER(c) return tostring(c.r:number(-2, 3)) end

function kinds.COUNT(c) return tostring(c.r:integer(-1, 5)) end

function kinds.POSITION(c) return tostring(c.r:pick{1, 1, 2, 2, 3, -1, -2}) end

kinds.AXIS = axis

function kinds.AXES(c, p) return p.name == "dims" and c.r:chance(0.7) and order(c) or axes(c) end

function kinds.SHAPE(c, p)
  if SHAPES[p.name] then return SHAPES[p.name](c) end
  local r = c.r
  if p.name == "size" and r:chance(0.5) then return reshaped(c) end
  return r:chance(0.7) and shape_text(c.shape) or shape_text(values.shape(r, 4))
end

function kinds.FLAG(c) return tostring(c.r:chance(0.5)) end

function kinds.TEXT(c, p) return ("%q"):format(c.r:pick(TEXTS[p.name] or WORDS)) end

function kinds.CHOICE(c, p)
  local list = {}
  for word in p.words:gmatch("[^|]+") do list[#list + 1] = word end
  return ("%q"):format(c.r:pick(list))
end

function kinds.DTYPE(c) return ("%q"):format(c.r:pick(values.dtypes)) end

function kinds.ANY(c) return values.nasty(c.r) end

function kinds.CALL(c)
  if c.r:chance(0.5) then return values.callable(c.r) end
  return c.r:pick{"heed.exp", "function(x) return x:sin() * 2 end", "function(...) return ... end",
                  "function(x) return x:square():sum(), x end",
                  "function(x) return x.mT:matmul(x):softmax(1) end"}
end

function kinds.CUSTOM(c)
  return ("{forward = %s, backward = %s}"):format(values.callable(c.r), values.callable(c.r))
end

function kinds.FACTORY(c)
  return ('{dtype = %s, requires_grad = %s}'):format(kinds.DTYPE(c), kinds.FLAG(c))
end

function kinds.BYTES(c) return ('("\\1\\128"):rep(%d)'):format(c.r:integer(0, 40)) end

function kinds.CLOSE(c) return ("{rtol = %s, equal_nan = true}"):format(values.number(c.r)) end

function kinds.RETAIN() return "{retain_graph = true}" end

function kinds.FORMAT(c) return c.r:pick{'"%.3f"', '"%5.1e"', '"%+g"', '"%d"', '"%99999f"'} end

function kinds.PRINT(c)
  return ("{precision = %s, width = %s, edge = %s}")
    :format(c.r:integer(0, 9), c.r:pick{20, 80, 10000, values.number(c.r)}, c.r:integer(1, 4))
end

function kinds.ROUNDING(c) return ('{rounding_mode = "%s"}'):format(c.r:pick{"floor", "trunc"}) end

function kinds.DECIMALS(c) return ("{decimals = %s}"):format(c.r:pick{"1", "-1", "400", "-400"}) end

function kinds.WORDS(c)
  return "{" .. concat(c.r:list(c.r:integer(0, 4), function() return values.string(c.r) end), ", ")
         .. "}"
end

function kinds.WIDTH(c) return ("%q"):format(c.r:pick{"i1", "i2", "i4", "u1", "u2", "u4", "u8"}) end

local function states(c)
  return "{" .. concat(c.r:list(c.r:integer(0, 3), function() return kinds.TENSORS(c) end), ", ")
         .. "}"
end

function kinds.STEPS(c)
  local list = c.r:list(c.r:integer(1, 2), function()
    return ("%q, %s, %s, %s, {lr = 0.1, betas = {0.9, 0.99}, eps = 1e-8, weight_decay = %s}, %s")
      :format(c.r:pick(OPTIMIZERS), kinds.TENSORS(c), c.r:pick{"false", kinds.TENSORS(c)},
              states(c), kinds.NUMBER(c), c.r:pick{"1", "5", values.number(c.r)})
  end)
  return "{" .. concat(list, ", ") .. "}"
end

function kinds.CHANGES(c)
  local function tensors() return kinds.TENSORS(c) end
  return c.r:pick{
    ("{targets = %s, operands = %s}"):format(tensors(), tensors()),
    ('{op = "lerp", number = 0.5, targets = %s, operands = %s}'):format(tensors(), tensors()),
    ('{op = "mul", number = 0.5, targets = %s}'):format(tensors()),
    ("{takers = %s, givers = %s}"):format(tensors(), tensors()),
    ("{takers = %s, gradients = %s}"):format(tensors(), tensors()),
  }
end

function kinds.GENERATORS(c)
  return c.r:pick{"{rng = heed.rng_state()}", "{rng = heed.core.rng_seeded(3)}", "{}"}
end


-- Structured functions: all arguments at once, from a context.
local whole = {}

local function float(c) return c.dtype:find("float") and c.dtype or "float32" end

local function matrices(c, m, k, n)
  local batch = c.r:chance(0.5) and {} or c.r:list(c.r:integer(1, 2), function()
    return c.r:pick{1, 2, 3} end)
  local left, right = table.move(batch, 1, #batch, 1, {}), values.broadcast(c.r, batch)
  table.move({m, k}, 1, 2, #left + 1, left)
  table.move({k, n}, 1, 2, #right + 1, right)
  local o = options(c)
  return {tensor(c.r, left, c.dtype, o), tensor(c.r, right, c.dtype, o)}
end

local function sizes(c, n) return c.r:list(n, function() return c.r:pick{0, 1, 2, 3, 5, 8} end) end

function whole.matmul(c) return matrices(c, table.unpack(sizes(c, 3))) end

function whole.bmm(c)
  local b, m, k, n = table.unpack(sizes(c, 4))
  local o = options(c)
  return {tensor(c.r, {b, m, k}, float(c), o), tensor(c.r, {b, k, n}, float(c), o)}
end

function whole.linear(c)
  local b, k, n = table.unpack(sizes(c, 3))
  local o = options(c)
  return {tensor(c.r, c.r:chance(0.3) and {k} or {2, b, k}, float(c), o),
          tensor(c.r, {n, k}, float(c), o),
          c.r:chance(0.5) and tensor(c.r, {n}, float(c), o) or nil}
end

function whole.dot(c)
  local n = sizes(c, 1)
  return {tensor(c.r, n, c.dtype, options(c)), tensor(c.r, n, c.dtype, options(c))}
end

whole.outer = whole.dot

local function index_tensor(c, shape, most)
  return tensor(c.r, shape, "int64", {low = c.r:chance(0.9) and 1 or -1, high = math.max(most, 1),
                                      tame = c.r:chance(0.9)})
end

function whole.gather(c)
  if #c.shape == 0 then c.shape = {3} end
  local k = c.r:integer(1, #c.shape)
  local shape = table.move(c.shape, 1, #c.shape, 1, {})
  shape[k] = c.r:integer(0, 4)
  return {input(c), tostring(k), index_tensor(c, shape, c.shape[k]),
          tensor(c.r, shape, c.dtype, options(c))}
end

whole.scatter, whole.scatter_add = whole.gather, whole.gather

function whole.gather(c) return table.move(whole.scatter(c), 1, 3, 1, {}) end

function whole.index_select(c)
  if #c.shape == 0 then c.shape = {3} end
  local k = c.r:integer(1, #c.shape)
  return {input(c), tostring(k), index_tensor(c, {c.r:integer(0, 4)}, c.shape[k])}
end

function whole.topk(c)
  if #c.shape == 0 then c.shape = {3} end
  local k = c.r:integer(1, #c.shape)
  return {input(c), tostring(c.r:integer(0, c.shape[k])), tostring(k), kinds.FLAG(c)}
end

function whole.repeat_interleave(c)
  if #c.shape == 0 then c.shape = {3} end
  local k = c.r:integer(1, #c.shape)
  local counts = tensor(c.r, {c.shape[k]}, "int64", {low = 0, high = 3, tame = true})
  return {input(c), c.r:chance(0.6) and counts or tostring(c.r:integer(0, 3)), tostring(k)}
end

-- Weights and probabilities.
local function shares(c, shape)
  return ("heed.rand(%s, {requires_grad = %s})"):format(shape_text(shape), kinds.FLAG(c))
end

function whole.multinomial(c)
  return {shares(c, c.r:chance(0.5) and {5} or {2, 5}), tostring(c.r:integer(0, 5)), kinds.FLAG(c)}
end

function whole.binary_cross_entropy(c)
  return {shares(c, c.shape), shares(c, c.shape),
          c.r:chance(0.3) and shares(c, values.broadcast(c.r, c.shape)) or nil}
end

function whole.bernoulli(c) return {shares(c, c.shape), c.r:chance(0.5) and "0.5" or nil} end

-- A tensor that has a graph.
local function computed(c)
  local x = tensor(c.r, c.shape, float(c), {grad = true})
  return ("(%s):requires_grad_():exp()"):format(x)
end

function whole.backward(c)
  if c.r:chance(0.5) then return {computed(c) .. ":sum()", c.r:chance(0.3) and "2" or nil} end
  return {computed(c), tensor(c.r, c.shape, float(c))}
end

function whole.grad(c)
  local list = whole.backward(c)
  table.insert(list, 2, c.r:chance(0.5) and kinds.TENSORS(c) or input(c))
  return list
end

function whole.frombytes(c)
  local n = size_of(c.shape)
  return {('("\\1\\200\\63\\127"):rep(%d)'):format(n), shape_text(c.shape),
          c.r:pick{'"float32"', '{dtype = "float32", requires_grad = true}'}}
end

function whole.take(c)
  local list = {}
  for k, size in ipairs(c.shape) do
    list[k] = c.r:chance(0.3) and "false" or c.r:chance(0.2)
      and tensor(c.r, {size}, "bool", {tame = true}) or index_tensor(c, {2}, size)
  end
  return {input(c), "{" .. concat(list, ", ") .. "}"}
end

function whole.put(c)
  local list = whole.take(c)
  list[3], list[4] = c.r:chance(0.5) and "1" or operand(c), kinds.FLAG(c)
  return list
end

function whole.embedding(c)
  local n, d = c.r:integer(1, 5), c.r:integer(0, 4)
  return {index_tensor(c, values.shape(c.r, 3), n), tensor(c.r, {n, d}, float(c), options(c)),
          c.r:chance(0.3) and tostring(c.r:integer(-1, n)) or nil}
end

local function mask(c) return tensor(c.r, values.broadcast(c.r, c.shape), "bool", {tame = true}) end

function whole.masked_fill(c) return {input(c), mask(c), c.r:chance(0.5) and "2" or operand(c)} end

function whole.masked_select(c) return {input(c), mask(c)} end

function whole.where(c) return {mask(c), operand(c), operand(c)} end

function whole.layer_norm(c)
  local o = options(c)
  local inner = table.move(c.shape, c.r:integer(1, #c.shape), #c.shape, 1, {})
  local function maybe() return c.r:chance(0.6) and tensor(c.r, inner, float(c), o) or "nil" end
  return {tensor(c.r, c.shape, float(c), o), shape_text(inner), maybe(), maybe(),
          c.r:chance(0.2) and "0.5" or nil}
end

function whole.rms_norm(c)
  local list = whole.layer_norm(c)
  table.remove(list, 4)
  return list
end

function whole.rotate_pairs(c)
  local o = options(c)
  local angles = table.move(c.shape, 1, #c.shape, 1, {})
  if #angles > 0 then angles[#angles] = c.r:integer(0, angles[#angles] // 2 + 1) end
  angles = values.broadcast(c.r, angles)
  return {tensor(c.r, c.shape, float(c), o), tensor(c.r, angles, float(c), o),
          tensor(c.r, angles, float(c), o), c.r:chance(0.5) and "true" or nil}
end

function whole.cross_entropy(c)
  local r, o = c.r, options(c)
  local n, k = r:integer(0, 4), r:integer(1, 5)
  local more = r:chance(0.3) and {r:integer(1, 3)} or {}
  local labels = r:chance(0.75)
  local target = labels and index_tensor(c, {n, more[1]}, k)
                 or tensor(r, {n, k, more[1]}, float(c), o)
  return {tensor(r, {n, k, more[1]}, float(c), o), target,
          r:chance(0.5) and tensor(r, {k}, float(c)) or "nil", tostring(r:pick{-100, 1, 2}),
          ("%q"):format(r:pick{"mean", "sum", "none"}), r:chance(0.3) and "0.1" or nil}
end

function whole.nll_loss(c) return table.move(whole.cross_entropy(c), 1, 5, 1, {}) end

function whole.einsum(c)
  local r, list = c.r, {}
  local equation, letters = r:pick(EQUATIONS), {}
  for term in (equation:match("^(.-)%->") or equation):gsub("[%. ]", ""):gmatch("[^,]*") do
    local shape = {}
    for letter in term:gmatch("%a") do
      letters[letter] = letters[letter] or r:integer(0, 4)
      shape[#shape + 1] = letters[letter]
    end
    list[#list + 1] = tensor(r, shape, c.dtype, options(c))
  end
  return {("%q"):format(equation), "{" .. concat(list, ", ") .. "}"}
end

function whole.one_hot(c) return {index_tensor(c, c.shape, 4), c.r:chance(0.5) and "5" or nil} end

-- A state of the generator with some bytes that are not its own.
function whole.rng_state(c)
  return {("heed.rng_state():put({heed.tensor{%d, %d}}, heed.tensor(%d))")
    :format(c.r:integer(1, 32), c.r:integer(1, 5056), c.r:integer(0, 255))}
end

function whole.attention(c) return arguments.attention(c) end


local function attention_options(c, b, h, t, s)
  local r, list = c.r, {}
  local function add(text, ...) list[#list + 1] = text:format(...) end
  local shape = {b, h, t, s}
  local function scores()
    local part = table.move(shape, r:integer(1, 4), 4, 1, {})
    for i = 1, #part do part[i] = r:chance(0.3) and 1 or part[i] end
    return part
  end
  if r:chance(0.4) then add("mask = %s", tensor(r, scores(), "bool", {tame = true})) end
  if r:chance(0.3) then add("bias = %s", tensor(r, scores(), float(c), options(c))) end
  if r:chance(0.3) then add("lengths = %s", tensor(r, {b}, "int64", {low = 0, high = s + 1})) end
  if r:chance(0.4) then add("causal = true") end
  if r:chance(0.2) then add("offset = %d", r:integer(-3, 5)) end
  if r:chance(0.2) then add("scale = %s", r:number(-1, 2)) end
  if r:chance(0.2) then add("softcap = %s", r:number(0, 5)) end
  if r:chance(0.2) then add("dropout = %s", r:pick{"0.3", "0.0", "1", "1.0"}) end
  for _, name in ipairs {"weights", "lse"} do
    if r:chance(0.3) then add("%s = true", name) end
  end
  if r:chance(0.3) then add("fused = false") end
  return "{" .. concat(list, ", ") .. "}"
end


function arguments.attention(c)
  local r, o = c.r, options(c)
  local b, groups, kv = r:integer(1, 2), r:integer(1, 2), r:integer(1, 2)
  local t, s = r:pick{0, 1, 2, 3, 5, 9, 17, 33}, r:pick{0, 1, 2, 4, 7, 16, 40}
  local d, dv = r:pick{1, 2, 3, 4, 8, 17}, r:pick{1, 2, 4, 9}
  return {tensor(r, {b, groups * kv, t, d}, float(c), o), tensor(r, {b, kv, s, d}, float(c), o),
          tensor(r, {b, kv, s, dv}, float(c), o), attention_options(c, b, groups * kv, t, s)}
end


-- The last ones by name, in a table.
local function named(r, signature, list)
  if signature[#signature].name == "options" then return end
  local first, parts = r:integer(2, #list + 1), {}
  for i = first, #list do
    local name = signature[i].name
    if list[i] ~= "nil" then parts[#parts + 1] = ('["%s"] = %s'):format(name, list[i]) end
    list[i] = nil
  end
  list[#list + 1] = "{" .. concat(parts, ", ") .. "}"
end


---A list of arguments' texts.
function arguments.plausible(c, name, signature)
  local r, list = c.r, {}
  if whole[name] and r:chance(0.85) then return whole[name](c) end
  for i, p in ipairs(signature) do
    if p.optional and r:chance(0.35) then
      if r:chance(0.5) then break end
      list[i] = "nil"
    else
      list[i] = (i == 1 and p.kind == "TENSOR") and input(c) or kinds[p.kind](c, p)
    end
  end
  if #list > 1 and r:chance(0.2) then named(r, signature, list) end
  return list
end

return arguments
