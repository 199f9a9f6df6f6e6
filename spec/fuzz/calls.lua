-- Random calls, as source: functions, methods, operators, indices, layers, optimisers, masks,
-- caches, captures. Half of the calls are plausible; in the others any argument may be anything.

local arguments = require "spec.fuzz.arguments"
local signatures = require "spec.fuzz.signatures"
local values = require "spec.fuzz.values"

local concat = table.concat

local calls = {}

local HEAD = [[
local heed = require "heed"
local nn, optim = heed.nn, heed.optim
heed.manual_seed(%d)
]]

-- Code that uses the results y and z.
local TAILS = {
  "", "", "", "tostring(y)", "tostring(y) tostring(z)", "if y ~= nil then heed.keep({y}) end",
  "if heed.is_tensor(y) and y.requires_grad and y:numel() < 1e4 then y:sum():backward() end",
  "if heed.is_tensor(y) and y.requires_grad and y:numel() < 1e4 then y:sum():backward() end",
  "if heed.is_tensor(y) and y.requires_grad then y:backward(heed.ones_like(y)) end",
  "if heed.is_tensor(y) and y:numel() < 1e4 then y:add_(1) end",
}


-- Makes some of the arguments anything at all; adds some, or takes some away.
local function spoil(r, list, from)
  for i = from, #list do
    if r:chance(0.4) then list[i] = values.nasty(r) end
  end
  if r:chance(0.15) then list[#list + 1] = values.nasty(r) end
  if r:chance(0.1) and #list >= from then list[#list] = nil end
end


-- Arguments become locals, so that a call is one line; 'call' makes it of their names.
local function statement(r, list, call)
  local lines, names = {HEAD:format(r:integer(0, 99))}, {}
  for i, text in ipairs(list) do
    names[i] = "a" .. i
    lines[#lines + 1] = ("local a%d = %s\n"):format(i, text)
  end
  local line = call(names)
  if line:find("^y, z = ") then lines[#lines + 1] = "local y, z\n" end
  if line:find("^y, z = ") and r:chance(0.05) then
    line = ("coroutine.wrap(function() %s end)()"):format(line)
  end
  lines[#lines + 1] = line .. "\n"
  if line:find("y, z = ", 1, true) then lines[#lines + 1] = r:pick(TAILS) .. "\n" end
  return concat(lines)
end


local function function_call(path)
  return function(names) return ("y, z = %s(%s)"):format(path, concat(names, ", ")) end
end

local function method_call(name)
  return function(names)
    return ("y, z = a1:%s(%s)"):format(name, concat(names, ", ", 2))
  end
end


local families = {}


-- Rows of ops.def, as functions and as methods, also in place.
local heed = require "heed"
local row_names = {}
for _, name in ipairs(signatures.names) do
  if rawget(heed, name) then row_names[#row_names + 1] = name end
end

local function row_call(r, name)
  local c = arguments.context(r)
  local list = arguments.plausible(c, name, signatures.rows[name])
  local first = signatures.rows[name][1].kind
  local method = (first == "TENSOR" or first == "TARGET") and r:chance(0.4) and #list > 0
  if #list > 0 and r:chance(0.15) and rawget(heed, name .. "_") then
    name = name .. "_"
    if r:chance(0.8) then list[1] = list[1] .. ":clone()" end
  end
  if r:chance(0.5) then spoil(r, list, method and 2 or 1) end
  return statement(r, list, method and method_call(name) or function_call("heed." .. name))
end

function families.rows(r) return row_call(r, r:pick(row_names)) end


-- A row's call again with copies that lie row by row: it must give the same, and leave all of its
-- arguments as they were.
local SAME = [[
local function map(x, f)
  if heed.is_tensor(x) then return f(x) end
  if type(x) ~= "table" then return x end
  local copy = {}
  for key, value in pairs(x) do copy[key] = map(value, f) end
  return copy
end
local function dense(x)
  return map(x, function(t) return t:detach():clone():requires_grad_(t.requires_grad) end)
end
local function bytes(x)
  local list = {}
  map(x, function(t) list[#list + 1] = t:data() end)
  return table.concat(list, ";")
end
local function near(y, z)
  if not heed.is_tensor(y) then return y == z end
  local tolerance = ({float16 = 2e-2, bfloat16 = 1e-1, float32 = 1e-4})[y.dtype] or 1e-9
  return y.dtype == z.dtype and y.shape == z.shape
    and y:allclose(z, {rtol = tolerance, atol = tolerance, equal_nan = true})
end
local args = table.pack(%s)
local copies, before = dense(args), bytes(args)
local function call(a)
  heed.manual_seed(1)
  return table.pack(pcall(heed.%s, table.unpack(a, 1, args.n)))
end
local y, z = call(args), call(copies)
if bytes(args) ~= before then return "an argument was changed" end
if y[1] ~= z[1] then return "views: " .. tostring(y[2]) .. "; copies: " .. tostring(z[2]) end
if not y[1] then return end
for i = 2, y.n do
  if not near(y[i], z[i]) then
    return ("views give %%s, copies give %%s"):format(tostring(y[i]), tostring(z[i]))
  end
end
]]
local UNLIKE = {view = true, empty = true}      -- depend on the layout, or leave values open

function families.layouts(r)
  local name = r:pick(row_names)
  if UNLIKE[name] then name = "add" end
  local c = arguments.context(r)
  c.tame = true
  local list = arguments.plausible(c, name, signatures.rows[name])
  return statement(r, list, function(names)
    return SAME:format(concat(names, ", "), name)
  end), true
end


-- The functions that are no rows; what changes settings is set back by the check.
local function listed(list, path, more)
  local names = signatures.sorted(list)
  return function(r)
    local name = r:pick(names)
    local c = arguments.context(r)
    local texts = arguments.plausible(c, more and name or "", list[name])
    if r:chance(0.5) then spoil(r, texts, path and 1 or 2) end
    if not path then return statement(r, texts, method_call(name)) end
    return statement(r, texts, function_call(path .. name))
  end
end

families.functions = listed(signatures.others, "heed.", true)
families.methods = listed(signatures.methods, nil)
families.core = listed(signatures.core, "heed.core.")
families.cuda = listed(signatures.cuda, "heed.cuda.")


-- Attention, whose options matter most; sometimes fused and composed are compared.
function families.attention(r)
  local c = arguments.context(r)
  local list = arguments.attention(c)
  if r:chance(0.25) then
    list[r:integer(1, 4)] = r:chance(0.5) and values.nasty(r)
      or ("{%s = %s}"):format(r:pick{"mask", "bias", "lengths", "scale", "dropout", "causal",
                                     "softcap", "offset", "weights"}, values.nasty(r))
  end
  return statement(r, list, function_call("heed.attention"))
end


-- Operators, fields and indices.
local OPERATORS = {"+", "-", "*", "/", "//", "%", "^", "&", "|", "~", "..", "==", "<", "<=", "<<"}

local function operator(r, c)
  local list = arguments.plausible(c, "", signatures.rows.add)
  if r:chance(0.4) then spoil(r, list, 1) end
  if #list < 2 then list = {list[1] or "nil", values.nasty(r)} end
  local signs = {r:pick(OPERATORS)}
  if r:chance(0.1) then return list, ("y, z = -a1, #a1") end
  return list, ("y, z = a1 %s a2"):format(signs[1])
end

local FIELDS = {"grad", "requires_grad", "shape", "dtype", "device", "is_leaf", "x", "exp", "size"}

local function field(r, c)
  local x = values.tensor(r, c.shape, c.dtype, {grad = true})
  local name = r:pick(FIELDS)
  if r:chance(0.3) then return {x, values.nasty(r)}, "y, z = a1.shape[a2], a1.shape == a2" end
  if r:chance(0.4) then return {x}, ("y, z = a1.%s, a1.shape"):format(name) end
  local value = r:chance(0.5) and values.nasty(r) or values.tensor(r, c.shape, c.dtype)
  return {x, value}, ("a1.%s = a2 y, z = a1:clone(), a1.%s"):format(name, name)
end

local function entry(r, size)
  local kind = r:integer(1, 8)
  if kind <= 2 then return tostring(r:integer(-size, size)) end
  if kind == 3 then return "{}" end
  if kind <= 5 then
    return ("{%d, %d, %d}"):format(r:integer(-size, size), r:integer(-size, size),
                                   r:pick{1, 1, 2, -1, -2})
  end
  if kind == 6 then return ('heed.randint(0, 1, {%d}):to("bool")'):format(size) end
  if kind == 7 then return ("heed.randint(1, %d, {2})"):format(math.max(size, 1)) end
  return values.nasty(r)
end

local function index(r, c)
  local entries = {}
  for k, size in ipairs(c.shape) do
    if k == 1 or r:chance(0.7) then entries[k] = entry(r, size) else break end
  end
  local key = "{" .. concat(entries, ", ") .. "}"
  if r:chance(0.25) then key = r:chance(0.5) and values.nasty(r) or tostring(r:integer(-3, 4)) end
  local list = {values.tensor(r, c.shape, c.dtype, {grad = c.grad}), key}
  if r:chance(0.5) then return list, "y, z = a1[a2]" end
  list[3] = r:chance(0.4) and values.nasty(r) or r:chance(0.4) and "2"
            or values.tensor(r, values.broadcast(r, c.shape), c.dtype)
  if r:chance(0.4) then list[1] = list[1] .. ":clone()" end
  return list, "a1[a2] = a3 y, z = a1, nil"
end

function families.operators(r)
  local make = r:pick{operator, field, index, index}
  local list, line = make(r, arguments.context(r))
  return statement(r, list, function()
    return line:find("^y, z") and line or "local y, z " .. line
  end)
end


-- Layers: how each is made, and what goes in.
local function small(r) return tostring(r:pick{1, 2, 3, 4, 4, 6}) end

local LAYERS = {
  Linear = function(r) return {"4", small(r), "{bias = false}"} end,
  Embedding = function(r) return {small(r), "4"} end,
  LayerNorm = function(r) return {r:pick{"4", "{4}", "{3, 4}"}, "{eps = 0.1, bias = false}"} end,
  RMSNorm = function(r) return {r:pick{"4", "{4}"}, "{elementwise_affine = false}"} end,
  Dropout = function(r) return {tostring(r:number(0, 1))} end,
  MLP = function(r)
    return {"4", small(r), ('{activation = "%s", dropout = 0.5}'):format(r:pick{"gelu", "silu"})}
  end,
  Attention = function(r) return {"4", small(r)} end,
  MultiHeadAttention = function(r)
    return {"4", r:pick{"1", "2", "4"}, r:pick{
      "{kv_heads = 1}", "{qk_norm = true}", "{bias = false}", "{dropout = 0.5}",
      "{context_dim = 2}", "{head_dim = 3}"}}
  end,
  EncoderLayer = function(r)
    return {"4", r:pick{"1", "2"}, small(r), r:pick{
      "{norm = 'sandwich'}", "{norm_type = 'rms', bias = false}", "{activation = 'swiglu'}",
      "{layer_scale = 0.1, dropout = 0.5}"}}
  end,
  DecoderLayer = function(r)
    return {"4", r:pick{"1", "2"}, small(r), r:pick{"{cross = false}", "{norm = 'pre'}"}}
  end,
  Sequential = function(r)
    return {r:pick{"{nn.Linear(4, 2), nn.Tanh(), heed.relu}", "{nn.GELU('tanh'), nn.Softmax()}",
                   "{}", "{nn.Embedding(4, 3)}"}}
  end,
  LeakyReLU = function(r) return {tostring(r:number(-1, 1))} end,
  Softmax = function(r) return {r:pick{"1", "-1"}} end,
  Softplus = function() return {"2", "3"} end, ELU = function() return {"0.5"} end,
  Parameter = function(r) return {values.any_tensor(r)} end,
  Buffer = function(r) return {values.any_tensor(r)} end,
}
local LAYER_NAMES = signatures.sorted(LAYERS)

local USES = {
  "tostring(m)", "m:parameters()", "m:state()", "m:to('float64')", "m:to(%s)", "m:load_state(%s)",
  "m:load_state(m:state())", "m:train(%s)", "m:eval()", "m:zero_grad()", "m:apply(%s)",
  "m:on_weights(%s)", "m.x = %s m:parameters()", "for _ in m:named_modules() do end",
  "m:extend(%s)", "m:fields()", "m:compare(%s)", "m:children()", "nn.Module(%s)",
  "m:load_state(nn.from_torch(nn.to_torch(m), m))", "nn.from_torch(%s, m)",
}

function families.layers(r)
  local name = r:pick(LAYER_NAMES)
  local list = LAYERS[name](r)
  if r:chance(0.5) then list[#list] = nil end
  if r:chance(0.3) then spoil(r, list, 1) end
  local ids = name == "Embedding"
  local shape = r:pick{{2, 3, 4}, {3, 4}, {4}, {0, 4}, {1, 2, 4}}
  local x = values.tensor(r, shape, ids and "int64" or "float32", {low = 1, high = 3, grad = true})
  if r:chance(0.2) then x = values.nasty(r) end
  local inputs = {x}
  if r:chance(0.3) then inputs[2] = values.tensor(r, {shape[1], 3, 4}, "float32") end
  if r:chance(0.3) then
    inputs[#inputs + 1] = r:pick{"{causal = true}", "{weights = true}", values.nasty(r)}
  end
  local use = r:chance(0.5) and r:pick(USES) or ""
  use = use:gsub("%%s", function() return values.nasty(r) end)
  return statement(r, list, function(names)
    return ("local m = nn.%s(%s)\n%s\nlocal y, z = m(%s)")
      :format(name, concat(names, ", "), use, concat(inputs, ", "))
  end)
end


local OPTIMISERS = {"SGD", "Adam", "AdamW", "Lion"}
local OPTIONS = {
  SGD = {"{lr = 0.1, momentum = 0.9, nesterov = true}", "{momentum = 0.5, dampening = 0.1}"},
  Adam = {"{amsgrad = true}", "{betas = {0, 0.5}, eps = 0}", "{amsgrad = true, maximize = true}"},
  Lion = {"{betas = {0, 0.5}}", "{weight_decay = 0.1, maximize = true}"},
  any = {"{}", "nil", "{maximize = true}", "{weight_decay = 0.1}", "{lr = 0}", "{lr = 1e300}"},
}
OPTIONS.AdamW = OPTIONS.Adam
local AFTER = {
  "", "", "", "", "", "", "", "",
  "o:zero_grad()", "o:zero_grad{set_to_none = false}", "o.lr = %s", "tostring(o)", "o:state()",
  "o:load_state(o:state())", "o:load_state(%s)", "p[1].grad = nil", "p[2]:release()",
  "o.options.betas = %s", "optim.clip_grad_norm(p, %s)",
  "optim.clip_grad_norm(p, 1, {norm_type = 1})", "o:compare(%s)", "p[1].requires_grad = false",
  "p[1]:set_(heed.ones(5))", "optim.cosine(%s)(2)", "o.groups[1].lr = %s", "o.options = %s",
  "o.options.momentum = 0.9", "o.options.amsgrad = true", "optim.EMA(p, %s):update()",
  "optim.EMA(p):apply(%s)", "optim.Scaler(%s)", "local s = optim.Scaler{} s:step(o) s:update()",
  "optim.warmup(%s, optim.linear(3))(5)", "optim.step(%s, {gamma = 0.5})(7)",
}

function families.optimisers(r)
  local dtype = r:pick(values.floats)
  local shape = values.shape(r, 3)
  local function parameter()
    return r:chance(0.05) and values.nasty(r)
      or values.tensor(r, shape, dtype, {dense = true}) .. ":requires_grad_()"
  end
  local kind = r:pick(OPTIMISERS)
  local list = {"{" .. parameter() .. ", " .. parameter() .. "}",
                r:pick(OPTIONS[r:chance(0.5) and kind or "any"])}
  if r:chance(0.2) then spoil(r, list, 1) end
  local function use()
    return (r:pick(AFTER):gsub("%%s", function() return values.nasty(r) end))
  end
  local grad = r:chance(0.9) and "heed.randn_like(x)" or values.any_tensor(r)
  return statement(r, list, function(names)
    return ([[
local o = optim.%s(%s)
local p = a1
for _, x in ipairs(p) do x.grad = %s end
o:step()
%s
o:step()
%s
for _, x in ipairs(p) do x.grad = heed.ones_like(x) end
local y, z = o:step(), o:state()]]):format(kind, concat(names, ", "), grad,
                                         use(), use())
  end)
end


-- Masks and biases: how each is made, for T queries and S keys of two sequences.
local MASKS = {
  function() return "heed.mask.causal()" end,
  function(r) return ("heed.mask.causal{offset = %d}"):format(r:integer(-3, 3)) end,
  function(r) return ("heed.mask.window(%d, %d)"):format(r:integer(0, 3), r:integer(0, 3)) end,
  function(r, _, S)
    return ("heed.mask.lengths(heed.tensor{%d, %d})"):format(r:integer(0, S), r:integer(0, S))
  end,
  function(_, _, S) return ("heed.mask.keys(heed.rand(2, %d):gt(0.3))"):format(S) end,
  function(r) return ("heed.mask.prefix(%d)"):format(r:integer(0, 4)) end,
  function(_, _, S) return ("heed.mask.documents(heed.arange(%d) // 2)"):format(S) end,
  function(r) return ("heed.mask.blocks(%d, 1, 0)"):format(r:integer(1, 4)) end,
  function(r) return ("heed.mask.every(%d)"):format(r:integer(1, 4)) end,
  function(_, T, S) return ("heed.mask.tensor(heed.rand(%d, %d):gt(0.3))"):format(T, S) end,
  function() return "heed.mask.predicate(function(b, h, i, j) return j <= i end)" end,
}
local BIASES = {
  function() return "nil" end, function() return "heed.bias.alibi(2)" end,
  function(_, T, S) return ("heed.randn(%d, %d)"):format(T, S) end,
  function() return "heed.bias.t5{heads = 2}" end,
}

local function mask_of(r, T, S, depth)
  if r:chance(0.05) then return values.nasty(r) end
  if depth == 0 or r:chance(0.4) then return r:pick(MASKS)(r, T, S) end
  local one = mask_of(r, T, S, depth - 1)
  if r:chance(0.3) then return ("~(%s)"):format(one) end
  return ("(%s) %s (%s)"):format(one, r:pick{"&", "|"}, mask_of(r, T, S, depth - 1))
end

local MASK_USES = {
  "heed.attention(a1, a2, a2, {mask = a3, bias = a4, weights = true})",
  "heed.attention(a1, a2, a2, {mask = a3, causal = true, dropout = 0.5, lse = true})",
  "heed.attention(a1, a2, a2, {mask = a3, softcap = 3, fused = false})",
  "nn.MultiHeadAttention(8, 2)(heed.randn(2, a2:size(3), 8), {mask = a3, bias = a4})",
  "tostring(a3)",
}

function families.masks(r)
  local T, S = r:integer(0, 5), r:integer(0, 6)
  local dtype = r:pick(values.floats)
  local list = {
    values.tensor(r, {2, 2, T, 4}, dtype, {grad = true}),
    values.tensor(r, {2, 2, S, 4}, dtype, {grad = true}),
    mask_of(r, T, S, 3), r:pick(BIASES)(r, T, S),
  }
  if r:chance(0.2) then spoil(r, list, 1) end
  local use = r:pick(MASK_USES)
  return statement(r, list, function() return "y, z = " .. use end)
end


local CACHES = {
  "", "", "{capacity = 9}", "{capacity = 3}", "{window = 3}", "{window = 3, keep = 1}",
  "{capacity = %s}", "%s",
}
local CACHE_USES = {
  "step(1)", "step(1)", "step(2)", "step(3)", "step(0)", "c:reorder(heed.tensor{2, 1})",
  "c:reorder(heed.tensor{1, 1})", "c:reorder(%s)", "c:truncate(1)", "c:truncate(%s)",
  "c = c:clone()", "c:length()", "c:positions(2)", "c:positions(%s)", "tostring(c)",
  "c:has_moved()", "step(1, %s)", "m(heed.randn(2, 1, 8), heed.randn(2, 4, 8), {cache = c})",
  "m(%s, {cache = c})", "m:to('float64')", "c:pass(function() return step(1) end)",
}

function families.caches(r)
  local function filled(text)
    return (text:gsub("%%s", function() return values.nasty(r) end))
  end
  local lines = {}
  for i = 1, r:integer(1, 6) do lines[i] = filled(r:pick(CACHE_USES)) end
  local cache = filled(("nn.Cache(%s)"):format(r:pick(CACHES)))
  local grads = r:chance(0.6) and "heed.no_grad(function() %s end)" or "(function() %s end)()"
  local body = concat(lines, " ")
  return statement(r, {cache, r:pick{
    "nn.MultiHeadAttention(8, 2, {rope = true})", "nn.MultiHeadAttention(8, 2)",
    "nn.EncoderLayer(8, 2)", "nn.DecoderLayer(8, 2)",
  }}, function()
    return "local c, m = a1, a2 local function step(T, o) return m(heed.randn(2, T, 8), "
           .. "o or {cache = c, causal = true}) end\n"
           .. grads:format(body) .. "\nlocal y, z = c, c:clone()"
  end)
end


local BODIES = {
  "return x * 2 + 1", "x:add_(1) return x", "return x, x:sum()", "return x:softmax(-1)",
  "return w(x)", "o:zero_grad() w(x):sum():backward() o:step() return x",
  "return w(x):mean():item()", "return {x}", "error('on purpose')",
  "heed.manual_seed(1) return x:dropout(0.5)", "return %s",
  "collectgarbage() return x + 1", "coroutine.yield(x)", "return x[1]",
  "kept = kept or x * 2 return kept",
  "o:step() return heed.optim.clip_grad_norm(w:parameters(), 1)",
}
local BETWEEN = {
  "", "", "", "w:to('float64')", "w.weight:set_(heed.ones(4, 4))", "x:add_(1)", "o.lr = %s",
  "w.weight.grad = nil", "w:eval()", "collectgarbage()", "x:release()", "f(%s)", "f()", "f(x, x)",
  "o:load_state(o:state())", "w:zero_grad()",
}

function families.captures(r)
  local function filled(text)
    return (text:gsub("%%s", function() return values.nasty(r) end))
  end
  local lines = {}
  for i = 1, r:integer(1, 5) do lines[i] = filled(r:pick(BETWEEN)) .. " y, z = f(x)" end
  return statement(r, {
    values.tensor(r, {3, 4}, r:pick{"float32", "float32", "float64"}, {grad = r:chance(0.2)}),
  }, function()
    return "local x, w, f, kept, y, z = a1, nn.Linear(4, 4)\n"
           .. "local o = optim.SGD(w:parameters(), {lr = 0.1, momentum = 0.9})\n"
           .. ("f = heed.capture(function(x) %s end)\n"):format(filled(r:pick(BODIES)))
           .. "y, z = f(x)\n" .. concat(lines, "\n")
  end)
end


local WEIGHTS = {
  rows = 12, layouts = 6, functions = 6, operators = 5, attention = 4, layers = 3, optimisers = 2,
  masks = 3, caches = 2, captures = 2, methods = 1, core = 1, cuda = 1,
}
local drawn = {}
for _, name in ipairs(signatures.sorted(WEIGHTS)) do
  for _ = 1, WEIGHTS[name] do drawn[#drawn + 1] = name end
end


---A call: the name of its family, its source, and whether the source judges by itself.
function calls.make(r)
  local name = r:pick(drawn)
  return name, families[name](r)
end

return calls
