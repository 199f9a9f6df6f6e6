-- A program's own state of a run, which goes into heed.train's checkpoints: a table of numbers,
-- strings, booleans, tensors and such tables. Values become text with a letter in front, which says
-- their type; floats are written by their bits.

local core = require "heed.core"
local fields = require "heed.internal.fields"
local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"

local fail = heed.fail

local notes = {}

local DEPTH <const> = 100


local function hex(c) return ("%02x"):format(c:byte()) end
local function byte(h) return string.char(tonumber(h, 16)) end

local WRITE <const> = {
  boolean = function(b) return b and "b1" or "b0" end,
  float = function(x) return "f" .. string.pack(">d", x):gsub(".", hex) end,
  integer = function(n) return ("i%d"):format(n) end,
  string = function(s) return utf8.len(s) and "s" .. s or "x" .. s:gsub(".", hex) end,
}

local READ <const> = {
  b = function(text) return text == "1" end,
  f = function(text) return (string.unpack(">d", (text:gsub("..", byte)))) end,
  i = function(text) return math.tointeger(tonumber(text)) end,
  s = function(text) return text end,
  x = function(text) return (text:gsub("..", byte)) end,
}


local function is_plain(value)
  return type(value) == "table" and getmetatable(value) == nil
end


local function refuse(path, value, what)
  fail("train: numbers, strings, booleans, tensors and tables of them expected in option state, "
       .. "got %s as %s%s", options.kind(value), what, path)
end


local function written(value, path, tensors, depth)
  if heed.is_tensor(value) then
    tensors[#tensors + 1] = options.is_alive(value) and value:detach() or refuse(path, value, "")
    return "t" .. #tensors
  end
  local write = WRITE[math.type(value) or type(value)]
  if write then return (write(value)) end
  if not is_plain(value) then refuse(path, value, "") end
  if depth > DEPTH then fail("train: option state is nested too deep, or in a circle") end
  local object = {}
  for key, one in next, value do
    local as_text = math.type(key) ~= "float" and WRITE[math.type(key) or type(key)]
    if not as_text then refuse(path, key, "a key of ") end
    local name = ("%s.%s"):format(path, tostring(key))
    object[(as_text(key))] = written(one, name, tensors, depth + 1)
  end
  return object
end


---A state as text, and the tensors in it.
---@param state table
---@return string text
---@return heed.Tensor[] tensors
function notes.write(state)
  local tensors = {}
  if not is_plain(state) then
    fail("train: a table expected as option state, got %s", options.kind(state))
  end
  return json.encode(written(state, "state", tensors, 1)), tensors
end


local function read(value, tensors)
  if type(value) == "string" then
    local kind, text = value:sub(1, 1), value:sub(2)
    if kind == "t" then return heed.keep(tensors[text]:clone()) end
    return READ[kind](text)
  end
  local t = {}
  for key, one in next, value do t[read(key)] = read(one, tensors) end
  return t
end


---The state that a text stands for.
---@param text string
---@param tensors table<string, heed.Tensor> by their number
---@return table
function notes.read(text, tensors)
  return read(json.decode(text), tensors)
end


-- Adds the changes that give a table the entries of another one; tables within stay the same ones.
local function add(list, gone, t, wanted)
  for key in next, t do
    if wanted[key] == nil then gone[#gone + 1] = {t, key} end
  end
  for key, value in next, wanted do
    local now = rawget(t, key)
    if is_plain(value) and is_plain(now) then add(list, gone, now, value)
    else fields.add(list, t, key, value) end
  end
end


---Gives a state the entries of another one.
---@param state table
---@param wanted table
function notes.restore(state, wanted)
  local list, gone = {}, {}
  add(list, gone, state, wanted)
  core.set_fields(list)
  for _, entry in ipairs(gone) do rawset(entry[1], entry[2], nil) end
end


return notes
