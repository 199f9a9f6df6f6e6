-- Calls of every public function, and of every method of heed's objects, with odd values as
-- arguments: alone, in pairs, behind good ones, as options. `values` is a list of them, of length
-- n, in which nil may stand; try(what, f, ...) makes each call.

local heed = require "heed"
local nn, data = heed.nn, heed.data

local calls = {}

---A tensor; some functions change theirs.
function calls.tensor() return heed.arange(24, {dtype = "float32"}):view(2, 3, 4) end

---Functions that change what all specs share, write files, print, or wait for a person.
calls.SKIPPED = {
  default_device = true, default_dtype = true, help = true, interrupt = true, level = true,
  load = true, manual_seed = true, memory = true, printoptions = true, release = true,
  rng_state = true, save = true, threads = true,
}

---The tables of functions and classes, by name.
calls.parts = {
  heed = heed, nn = nn, optim = heed.optim, data = data, mask = heed.mask, bias = heed.bias,
  position = heed.position, plot = heed.plot, tasks = heed.tasks, init = nn.init,
  constrain = heed.constrain, search = heed.search, tokenizer = heed.tokenizer,
}

local function new_tokenizer()
  return heed.tokenizer.train{kind = "bpe", text = "low low lower", vocabulary = 270}
end

local tokenizer = new_tokenizer()

local function adapted()
  local model = nn.Sequential{nn.Linear(4, 4)}
  return nn.lora(model, {targets = {"1"}}), model
end

---Makers of objects.
calls.objects = {
  Attention = function() return nn.Attention(4) end,
  Cache = function() return nn.Cache() end,
  ["Cache with a capacity"] = function() return nn.Cache{capacity = 4} end,
  Decoder = function() return nn.Decoder(4, 2, 1) end,
  EncoderLayer = function() return nn.EncoderLayer(4, 2, 8, {norm = "sandwich"}) end,
  Linear = function() return nn.Linear(4, 2) end,
  List = function() return nn.List{nn.Linear(4, 2)} end,
  MultiHeadAttention = function() return nn.MultiHeadAttention(4, 2) end,
  Pool = function() return nn.Pool("mean") end,
  Sequential = function() return nn.Sequential{nn.Linear(4, 2), nn.GELU()} end,
  Transformer = function() return nn.Transformer(4, 2, {layers = 1}) end,
  adapters = function() return (adapted()) end,
  adapter = function() return select(2, adapted())[1].adapter end,
  ["an adapted layer"] = function() return select(2, adapted())[1] end,
  average = function() return heed.optim.EMA(nn.Linear(2, 2)) end,
  batches = function() return data.batches(heed.zeros(2, 2)) end,
  bias = function() return heed.bias.t5{heads = 2} end,
  constraint = function() return heed.constrain.answers(tokenizer, {"low", "lower"}) end,
  hook = function() return nn.Linear(4, 4):register_forward_hook(print) end,
  index = function()
    local index = heed.search.index{dim = 2}
    index:add({"a", "b"}, heed.eye(2))
    return index
  end,
  mask = function() return heed.mask.causal() end,
  optimizer = function() return heed.optim.SGD(nn.Linear(2, 2):parameters()) end,
  picture = function() return heed.plot.heat{{1, 2}, {3, 4}} end,
  plateau = function() return heed.optim.plateau() end,
  positions = function() return heed.position.Learned(4, 4) end,
  profile = function() return (heed.profile(nn.Linear(4, 4), heed.ones(2, 4))) end,
  scaler = function() return heed.optim.Scaler() end,
  stream = function() return tokenizer:stream() end,
  tokenizer = new_tokenizer,
  vocabulary = function() return data.chars("abc") end,
}


-- The methods of layers that programs call: those of all modules, and these.
local OF_LAYERS <const> = {forward = true, reset = true}

local function is_public(object, name)
  if type(name) ~= "string" or name:find("^_") or calls.SKIPPED[name] then return false end
  return not nn.Module.is(object) or OF_LAYERS[name] or nn.Module[name] ~= nil
end


---The methods of an object, also those that its class has from others, by name.
---@param object any
---@return table<string, function>
function calls.methods(object)
  local list, class = {}, debug.getmetatable(object)
  while type(class) == "table" do
    for name, f in next, class do
      if type(f) == "function" and is_public(object, name) then list[name] = list[name] or f end
    end
    class = (debug.getmetatable(class) or {}).__index
  end
  return list
end


---A function with odd values.
function calls.oddly(what, f, values, try)
  local x = calls.tensor()
  try(what, f)
  for i = 1, values.n do
    local odd = values[i]
    try(what, f, odd)
    try(what, f, odd, odd)
    try(what, f, x, odd)
    try(what, f, x, x, odd)
    try(what, f, x, odd, x)
    try(what, f, 4, 2, odd)
    try(what, f, x, x, x, odd)
  end
end


-- The options that a function says it has, after so many arguments.
local function options_of(f, arguments)
  local given = table.pack(table.unpack(arguments))
  given[#given + 1] = {zzzzzzzz = 1}
  local _, text = pcall(f, table.unpack(given))
  local names = tostring(text):match("unknown option 'zzzzzzzz'; there are ([%w_, ]+)") or ""
  local list = {}
  for name in names:gmatch("[%w_]+") do list[#list + 1], list[name] = name, true end
  return list
end


---Each option of a function with odd values. Where it says how many layers there are, they are few.
function calls.options(what, f, values, try)
  local x = calls.tensor()
  local layer = nn.Sequential{nn.Linear(4, 4)}
  for _, arguments in ipairs{{}, {4}, {4, 2}, {4, 2, 1}, {x}, {x, x}, {x, x, x}, {layer}} do
    local names = options_of(f, arguments)
    for _, name in ipairs(names) do
      for i = 1, values.n do
        local list, given = table.pack(table.unpack(arguments)), {}
        if names.layers then given.layers = 1 end
        given[name] = values[i]
        list[#list + 1] = given
        try(what .. ": option " .. name, f, table.unpack(list))
      end
    end
  end
end


---Each method of an object with odd values. The object is made anew after each call, unless try
---returns false: a call that was refused has changed nothing.
function calls.of_object(what, make, values, try)
  local x, other = calls.tensor(), nn.Linear(2, 2)
  local object
  local function on_object(who, method, ...)
    object = object or make()
    if try(who, method, object, ...) ~= false then object = nil end
  end
  for name, method in pairs(calls.methods(make())) do
    local who = what .. ":" .. name
    on_object(who, method)
    for i = 1, values.n do
      local odd = values[i]
      on_object(who, method, odd)
      on_object(who, method, odd, odd)
      on_object(who, method, odd, x)
      on_object(who, method, x, odd)
      on_object(who, method, x, x, odd)
      on_object(who, method, other, odd)
    end
  end
end


---Whether a value can be called: of a proxy, what it stands for.
---@param value any
---@return boolean
function calls.is_callable(value)
  if type(value) == "userdata" then value = debug.getuservalue(value, 1) end
  local class = debug.getmetatable(value)
  return type(value) == "function" or type(class) == "table" and class.__call ~= nil
end


return calls
