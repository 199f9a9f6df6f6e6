-- The objects that items of spec/fuzz/uses.lua use, and what each of its calls is held to.

local calls = require "spec.support.calls"
local check = require "spec.fuzz.check"
local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local using = {}

local MODELS <const> = {
  "albert", "bart", "clip", "bert_reranker", "gpt2", "llama3", "modernbert_classifier", "qwen3",
  "roberta", "t5", "vit", "st/bert_concat", "st/model2vec", "st/cross_encoder",
}
local PLACE <const> = "spec/golden/models/"
local KINDS <const> = {"SGD", "Adam", "AdamW", "Lion"}


-- A model and all that serves one.
local function training(make, kind)
  return function()
    local model = make()
    return {
      model = model, optimizer = optim[kind](model:parameters(), {lr = 0.01}),
      average = optim.EMA(model), cache = nn.Cache(), scaler = optim.Scaler(),
      plateau = optim.plateau(),
    }
  end
end

local scenes = {}
for name, make in pairs(calls.objects) do
  scenes[name] = function() return {object = make()} end
end
for i, name in ipairs{"Linear", "MultiHeadAttention", "EncoderLayer", "Decoder", "Transformer",
                      "Sequential"} do
  scenes["training " .. name] = training(calls.objects[name], KINDS[(i - 1) % #KINDS + 1])
end
scenes["a cached decoder"] = function()
  return {model = nn.Decoder(4, 2, 2, {cross = false, norm = "pre"}), cache = nn.Cache(),
          fixed = nn.Cache{capacity = 6}, window = nn.Cache{window = 3, keep = 1}}
end
for _, name in ipairs(MODELS) do
  scenes["model " .. name] = function()
    return {model = assert(heed.models.load(PLACE .. name)), cache = nn.Cache()}
  end
end

---The scenes' names.
using.names = {}
for name in pairs(scenes) do using.names[#using.names + 1] = name end
table.sort(using.names)

---The objects of a scene, by name.
---@param name string
---@return table<string, any>
function using.scene(name) return scenes[name]() end


---Whether an object has a method.
function using.has(object, method)
  local good, f = pcall(function() return object[method] end)
  return good and type(f) == "function"
end

local OWNERS <const> = {
  cache = "cache", fixed = "cache", window = "cache", optimizer = "optimizer", average = "ema",
  scaler = "scaler", plateau = "plateau", model = "model",
}

---Whether a method that the reference has as owner:method is of an object of a scene.
function using.is_of(owner, scene, name)
  return owner == (OWNERS[name] or scene:lower():match("^%a+")) or owner:find "model$" ~= nil
end


function using.tensor() return heed.randn(2, 3, 4) end
function using.ids() return heed.tensor{{1, 2}, {3, 1}} end


-- What a call must not have changed when it raised -------------------------

local function bytes_of(tensors, list)
  local names = {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local t = tensors[name]
    list[#list + 1] = ("%s %s %s"):format(name, t.dtype, t:data())
  end
end

-- Readings of an object, as a text: its state, of a cache its length, of an index its answers.
local function reading(object, list)
  local class = debug.getmetatable(object)
  local kind = type(class) == "table" and rawget(class, "__name") or type(object)
  list[#list + 1] = tostring(kind)
  if nn.Module.is(object) then
    bytes_of(object:state(), list)
    for name, module in object:named_modules() do
      list[#list + 1] = ("%s %s"):format(name, tostring(module.training))
    end
  elseif using.has(object, "length") then list[#list + 1] = object:length()
  elseif using.has(object, "state") then bytes_of(object:state(), list)
  elseif using.has(object, "query") then
    list[#list + 1] = heed.is_tensor(object) and "" or #object
  end
end

local function readings(objects)
  local names, list = {}, {}
  for name in pairs(objects) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    list[#list + 1] = name
    local good, why = pcall(reading, objects[name], list)
    if not good then list[#list + 1] = tostring(why) end
  end
  return table.concat(list, "\n")
end


-- Odd arguments -----------------------------------------------------------

local EVENTS <const> = {
  "__add", "__band", "__bnot", "__call", "__close", "__concat", "__div", "__eq", "__index", "__le",
  "__len", "__lt", "__mul", "__newindex", "__pairs", "__sub", "__tostring", "__unm",
}
local RAISED <const> = "raised on purpose"

-- A table whose metamethods give it, or raise.
local function trap(generous)
  local class, left = {__name = "trap"}, 8
  local value = setmetatable({}, class)
  for _, event in ipairs(EVENTS) do
    class[event] = function()
      left = left - 1
      if not generous or left < 0 then error(RAISED, 0) end
      return event == "__tostring" and "trap" or event == "__len" and 2 or value
    end
  end
  return value
end

-- An item's tool ------------------------------------------------------------

local Use = {}
Use.__index = Use

-- Whether a message with a place of the item's says what was called, and more; an item's functions
-- have messages of Lua's.
local function is_named(text)
  local said = text:match("^call:%d+: (.*)$")
  return not said or (said:find("^[%a_][%w_.:'?!%- ()]*: .") or said:find("^attempt to")) ~= nil
end

function Use:judge(what, text)
  if type(text) == "string" and text:find(RAISED, 1, true) then return end
  if type(text) == "string" and text:find("not enough memory", 1, true) then return end
  local why = check.bad_error(text, "")
  if not why and not is_named(tostring(text)) then why = "an error without a name: " .. text end
  if why then self.why = self.why or ("%s: %s"):format(what, why) end
end

function Use:__call(name, method, call, make)
  local object = self.objects[name]
  self.name = name
  check.limit_steps()
  local given = table.pack(pcall(make))
  if not given[1] or not using.has(object, method) then return end
  local before = readings(self.objects)
  check.limit_steps()
  local good, text = pcall(call, object[method], object, table.unpack(given, 2, given.n))
  if good then return end
  self:judge(name .. ":" .. method, text)
  check.limit_steps()
  if readings(self.objects) ~= before then
    self.why = self.why or ("%s:%s changed something and raised: %s"):format(name, method, text)
  end
end


---Makes the objects of a scene for an item.
---@param scene string
---@param seed integer
function using.start(scene, seed)
  heed.manual_seed(seed)
  local self = setmetatable({objects = using.scene(scene)}, Use)
  local tool = {objects = self.objects, tensor = using.tensor, ids = using.ids, trap = trap}
  local others = {}
  for name in pairs(calls.objects) do others[#others + 1] = name end
  table.sort(others)
  function tool.own() return self.objects[self.name] end
  function tool.any() return calls.objects[others[heed.randint(1, #others):item()]]() end
  function tool.twice()
    local x = heed.randn(2, 3, 4)
    return x, x
  end
  function tool.half() return heed.randn(2, 3, 4):to "float16" end
  function tool.far()
    return heed.randn(2, 3, 4, {device = heed.cuda.available() and "cuda" or "cpu"})
  end
  function tool.released()
    local x = heed.randn(2, 3, 4)
    x:release()
    return x
  end
  function tool.part()
    local model = self.objects.model
    local parts = model and nn.Module.is(model) and model:modules() or {nn.Linear(4, 4)}
    return parts[heed.randint(1, #parts):item()]
  end
  function tool.state()
    local object = self.objects[self.name]
    return using.has(object, "state") and object:state() or {}
  end
  function tool.wrong() return self.why end
  return setmetatable(tool, {__call = function(_, ...) return self(...) end})
end

return using
