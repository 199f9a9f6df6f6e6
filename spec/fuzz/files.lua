-- Damaged files: a reader gives tensors, or nil and a message. Readers never raise, and never take
-- much more memory than the file has bytes, also if the file shrinks meanwhile, or ends with a
-- sparse terabyte of zeros.

local heed = require "heed"
local check = require "spec.fuzz.check"
local json = require "heed.files.json"

local files = {}

local path = os.tmpname()
local pack = string.pack

local function entry(dtype, shape, first, last)
  return {dtype = dtype, shape = json.array(shape), data_offsets = {first, last}}
end


local function read(name)
  local file <close> = assert(io.open(name, "rb"))
  return file:read("a")
end


local function saved(ending, what, metadata)
  assert(heed.save(path .. ending, what, metadata))
  local bytes = read(path .. ending)
  os.remove(path .. ending)
  return bytes
end


-- safetensors without a checksum, which would refuse every change.
local function plain_safetensors()
  local header = json.encode {
    a = entry("F32", {2, 3}, 0, 24), b = entry("I8", {5}, 24, 29), c = entry("BF16", {}, 29, 31),
    d = entry("U32", {1, 2}, 31, 39), e = entry("BOOL", {2, 0}, 39, 39),
    ["é"] = entry("F64", {1}, 39, 47),
  }
  return pack("<I8", #header) .. header .. ("\1\0\128\63"):rep(12):sub(1, 47)
end


local function npy(descr, fortran, shape, data)
  local header = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }")
    :format(descr, fortran, shape)
  return "\x93NUMPY\1\0" .. pack("<s2", header) .. data
end


local TEXTS = {
  '{"a":[1,2.5,-3e-7,"\\u00e9\\ud834\\udd1e",null,true,{"b":{}}],"c":"\\"\\\\/\\b"}',
  '[[[[1]]],[],{},"x",-0,0.1e+5,123456789012345678901234567890]', '"text"', "null", "[1,[2,[3]]]",
}


local function checkpoint()
  heed.manual_seed(1)
  local model = heed.nn.Sequential{heed.nn.Embedding(4, 3), heed.nn.Linear(3, 2)}
  local optimizer = heed.optim.AdamW(model:parameters())
  model(heed.tensor{1, 2}):sum():backward()
  optimizer:step()
  local tensors = {}
  for name, t in pairs(model:state()) do tensors["model." .. name] = t end
  for name, t in pairs(optimizer:state()) do tensors["optimizer." .. name] = t end
  return saved(".st", tensors, {step = "1"})
end


-- Whole files: their bytes, the ending of their names.
local whole

local function make_whole()
  local x = heed.arange(6, {dtype = "float32"}):reshape(2, 3)
  whole = {
    {plain_safetensors(), ".st"}, {plain_safetensors(), ".st"}, {checkpoint(), ".st"},
    {saved(".st", {x = x, y = heed.tensor{true}}, {about = "it"}), ".st"},
    {saved(".npy", x), ".npy"},
    {npy("<i2", "True", "(2, 3)", ("\1\255"):rep(6)), ".npy"},
    {npy("|u1", "False", "(7,)", "\0\1\2\3\4\5\6"), ".npy"},
    {npy("<f8", "True", "(1, 2, 2)", ("\0\0\0\0\0\0\240\63"):rep(4)), ".npy"},
    {npy("|b1", "False", "()", "\1"), ".npy"},
    {read("spec/golden/gguf/q4_k.gguf"), ".gguf"}, {read("spec/golden/gguf/f16.gguf"), ".gguf"},
    {saved(".st", {q = heed.quantize(heed.ones(2, 32), "q4_0")}), ".st"},
  }
  for i, text in ipairs(TEXTS) do whole[#whole + 1] = {text, ".json", i} end
end


-- Ways to damage a file; 'at' is a position in it.
local PIECES = {
  "\0", "\xff", "{", "}", "[", "]", '"', ",", ":", "-", "0", "9", "e", ".", " ", "\\", "\n", "(",
  "9223372036854775807", "18446744073709551616", "-1", "1e999", "null", "true", "\\u0000", "'",
  "\\ud800",
  "[[[[[[[[", '{"a":', "F16", "F128", "I64", "__metadata__", "4294967296", "(9999999999,)", "True",
}

---Damages bytes in one place.
---@return string
function files.damage(r, bytes)
  local kind, at = r:integer(1, 9), r:integer(1, #bytes)
  local before, behind = bytes:sub(1, at - 1), bytes:sub(at + 1)
  local byte = bytes:byte(at) or 0
  if kind == 1 then return before .. string.char(byte ~ (1 << r:integer(0, 7))) .. behind end
  if kind == 2 then return before .. string.char(r:integer(0, 255)) .. behind end
  if kind == 3 then return before .. r:pick(PIECES) .. bytes:sub(at) end
  if kind == 4 then return before .. r:pick(PIECES) .. behind end
  if kind == 5 then return before .. bytes:sub(at + r:integer(1, 8)) end
  if kind == 6 then return before end
  if kind == 7 then return before .. bytes:sub(at, at + 20):rep(r:integer(2, 4)) .. behind end
  if kind == 8 then
    return pack("<i8", r:pick{0, 1, -1, #bytes, #bytes - 8, #bytes - 9, 1 << 62, math.mininteger})
           .. bytes:sub(9)
  end
  local others = {"0", "1", "2", "-3", "7", "1.5", "4611686018427387904"}
  return (bytes:gsub("%d+", function(digits)
    return r:chance(0.1) and r:pick(others) or digits
  end))
end


-- Source that reads a file of these bytes, lengthened by zeros and cut while it is read; the source
-- gives the fault that it found.
local LOAD = [[
local heed = require "heed"
local path, bytes, long, short = %q, %q, %d, %d
local file = assert(io.open(path, "wb"))
file:write(bytes)
if long > #bytes then
  file:seek("set", long - 1)
  file:write("\0")
end
file:close()
local read = heed.core.file_bytes
local function shrink(...)
  local file = assert(io.open(path, "wb"))
  file:write(bytes:sub(1, short))
  file:close()
  return read(...)
end
collectgarbage()
collectgarbage("stop")
local before = collectgarbage("count") * 1024
heed.memory{limit = heed.memory().live + heed.memory().other + 20 * #bytes + 65536}
if short < #bytes then heed.core.file_bytes = shrink end
local good, found, why = pcall(heed.load, path, {verify = #bytes %% 2 == 0})
heed.core.file_bytes = read
local taken = collectgarbage("count") * 1024 - before
collectgarbage("restart")
heed.memory{limit = 256 << 20}
os.remove(path)
if not good then return "load raised: " .. tostring(found) end
if taken > 300 * #bytes + 300000 then return "load took much memory" end
if found == nil then return type(why) ~= "string" and "load gave no message" or nil end
if heed.is_tensor(found) then found = {found} end
for name, t in pairs(found) do
  if not heed.is_tensor(t) then return "load gave no tensor" end
  tostring(t)
  if #t:data() > 64 * #bytes then return "load gave more than the file holds" end
  if t:numel() > 0 then t:to("float64"):sum():item() end
end
local model = heed.nn.Sequential{heed.nn.Embedding(4, 3), heed.nn.Linear(3, 2)}
local optimizer = heed.optim.AdamW(model:parameters())
local part, own = {}, {}
for name, t in pairs(found) do
  if type(name) == "string" then
    part[name:gsub("^model%%.", "")], own[name:gsub("^optimizer%%.", "")] = t, t
  end
end
pcall(model.load_state, model, part)
pcall(optimizer.load_state, optimizer, own)
]]

local DECODE = [[
local heed = require "heed"
local json = require "heed.files.json"
local text = %q
local good, value, why = pcall(json.decode, text)
if not good then return "decode raised: " .. tostring(value) end
if value == nil then return type(why) ~= "string" and "decode gave no message" or nil end
local again = json.encode(value)
if json.encode(json.decode(again)) ~= again then return "another value is read back" end
]]


---Damages a file and reads it.
---@return string family
---@return string source
---@return string? why what is wrong
function files.run(r, announce)
  if not whole then make_whole() end
  local base = r:pick(whole)
  local bytes = base[1]
  for _ = 1, r:integer(0, 4) do bytes = files.damage(r, bytes) end
  local text = base[2] == ".json"
  local long = r:chance(0.1) and r:pick{#bytes + 1, 1 << 32, 1 << 40} or 0
  local short = r:chance(0.1) and r:integer(0, #bytes) or #bytes
  local source = text and DECODE:format(bytes)
                 or LOAD:format(path .. base[2], bytes, long, short)
  announce(source)
  return text and "json" or "files", source, check.run(source, true)
end


function files.finish() os.remove(path) end

return files
