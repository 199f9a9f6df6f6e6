-- heed.save and heed.load: tensors in files, as safetensors or GGUF, or as .npy for a single one.
--
-- A file is written whole under another name, `path.heed-tmp`, and then renamed, so that the path
-- always holds the old file or the new one. Reading never runs code and never takes more than the
-- file's size asks for: tensors are read where they stay. A malformed file is nil and a message.

local core = require "heed.core"
local gguf = require "heed.files.gguf"
local gguf_writer = require "heed.files.gguf_writer"
local heed = require "heed"
local npy = require "heed.files.npy"
local options = require "heed.internal.options"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"
local safetensors = require "heed.files.safetensors"
local whole = require "heed.files.whole"

local clock = heed.clock

local M = {}

local PATIENCE = 10        -- seconds in which another process may end what it writes there

-- Endings of files that hold pickles or archives, and what to write instead.
local foreign = {
  npz = "an archive of arrays: end the path in .safetensors for many tensors, in .npy for one",
  pickle = "a pickle: end the path in .safetensors, which Python reads by "
    .. "safetensors.torch.load_file",
}
foreign.pt, foreign.pth, foreign.pkl = foreign.pickle, foreign.pickle, foreign.pickle

-- How files of other formats begin: a pickle with its protocol and an opcode.
local ZIP <const>, PICKLE <const> = "^PK\3\4", "^\x80[\2-\5][c(}%]X\x8a\x95]"
local IN_PYTHON <const> = "safetensors.torch.save_file(state, path) writes what heed reads"


local function ends_in(path, ending) return path:sub(-#ending):lower() == ending end

local function is_npy(path) return ends_in(path, ".npy") end


-- Refuses a path whose ending promises another format than those that heed writes.
local function check_ending(path)
  local ending = path:lower():match("%.(%w+)$")
  local why = ending and foreign[ending]
  if why then heed.fail("save: heed writes no .%s file, which is %s", ending, why) end
end


-- Whether a file is a pickle. Its first bytes could be those of safetensors, whose header is as
-- long as they say.
local function is_pickle(file)
  if not raw.read(file, 0, math.min(#file, 3)):find(PICKLE) then return false end
  return #file < 8 or math.ult(#file - 8, (string.unpack("<i8", raw.read(file, 0, 8))))
end


-- Refuses a pickle of Python or an archive, by its first bytes.
local function refuse_foreign(file)
  if is_pickle(file) then
    refuse.with("this is a pickle of Python, which may hold code, and is not read; in Python, %s",
                IN_PYTHON)
  elseif raw.read(file, 0, math.min(#file, 4)):find(ZIP) then
    refuse.with("this is a zip archive, such as PyTorch's .pt with a pickle in it or NumPy's .npz; "
                .. "in Python, %s", IN_PYTHON)
  end
end


-- A message that names its file.
local function about(where, path, message)
  if message:find(path .. ": ", 1, true) == 1 then return ("%s: %s"):format(where, message) end
  return ("%s: %s: %s"):format(where, path, message)
end


local function npy_parts(tensor, metadata)
  if not options.is_alive(tensor) then
    heed.fail("save: one tensor expected for an .npy file, got %s", options.kind(tensor))
  elseif metadata ~= nil then
    heed.fail("save: an .npy file has no place for metadata, a .safetensors file expected")
  end
  return npy.encode(tensor)
end


-- Refuses an object whose tensors are not its fields, such as a module, and names the method that
-- lists them.
local function refuse_object(value)
  local class = getmetatable(value)
  if type(class) ~= "table" or type(class.state) ~= "function" then return end
  heed.fail("save: a table of tensors by name expected, got %s; its tensors are m:state()",
    options.kind(value))
end


local function check_tensors(tensors)
  if heed.is_tensor(tensors) then
    heed.fail("save: a table of tensors by name expected, or a path that ends in .npy")
  elseif type(tensors) ~= "table" then
    heed.fail("save: a table of tensors by name expected, got %s", type(tensors))
  end
  refuse_object(tensors)
end


local function safetensors_parts(tensors, metadata)
  check_tensors(tensors)
  if metadata ~= nil and type(metadata) ~= "table" then
    heed.fail("save: a table of strings expected as metadata, got %s", type(metadata))
  end
  return safetensors.encode(tensors, metadata)
end


local function gguf_parts(tensors, metadata, types)
  check_tensors(tensors)
  return gguf_writer.encode(tensors, metadata, types)
end


-- What makes the parts of a file, by the ending of its path.
local function maker_of(path, types)
  if ends_in(path, ".gguf") then return gguf_parts end
  if types ~= nil then
    heed.fail("save: metadata have types in a .gguf file alone, got %s", options.kind(types))
  end
  return is_npy(path) and npy_parts or safetensors_parts
end


local function write(path, parts)
  local stop = clock() + PATIENCE
  local done, why, busy
  repeat
    done, why, busy = core.called("save", core.write_file, path, parts)
  until not busy or clock() > stop
  return done, why
end


---Refuses a path whose ending would make another file of it than safetensors.
---@param who string
---@param what string|nil an option's name
---@param path string
function M.check_ending(who, what, path)
  whole.check_path(who, path, what)
  check_ending(path)
  if is_npy(path) or ends_in(path, ".gguf") then
    heed.fail("%s: a path that ends in .safetensors expected%s, got %s", who,
              what and " as " .. what or "", path)
  end
end


---Refuses a path to which heed.save could not save tensors as safetensors. One that another process
---writes to is good.
---@param who string
---@param what string an option's name
---@param path string
function M.check_path(who, what, path)
  M.check_ending(who, what, path)
  local good, why, busy = core.write_file(path)
  if not good and not busy then heed.fail("%s: option %s: %s", who, what, why) end
end


---Saves tensors by name as safetensors, as GGUF if the path ends in `.gguf`, or one tensor if it
---ends in `.npy`. Metadata of GGUF are numbers, booleans, strings and lists; `types` names those of
---GGUF, such as `"uint32"` or `"string[]"`, by keys, as `heed.load` gives them. Others follow from
---the values: the first of uint32, int32, int64, and of float32, float64 that holds them.
---A path that ends in `.pt`, `.pth`, `.pkl` or `.npz` is refused: heed writes no such files.
---A file that is there is written over; what is no regular file is refused, and so is a path whose
---folder is missing. The file is complete or as it was before, also after a crash; a symbolic link
---stays one.
---Where another process saves to the same path, this one waits for it, ten seconds at most.
---@param path string
---@param tensors table<string, heed.Tensor>|heed.Tensor
---@param metadata? table<string, any> strings, at most 16384; of any kind in GGUF
---@param types? table<string, string> of a .gguf file
---@return true? done
---@return string? message
function M.save(path, tensors, metadata, types, ...)
  options.no_more("save", 4, ...)
  if type(path) ~= "string" and type(tensors) == "string" then
    heed.fail("save: the path comes first: heed.save(path, tensors)")
  end
  whole.check_path("save", path)
  check_ending(path)
  local parts = core.called("save", maker_of(path, types), tensors, metadata, types)
  local done, why = write(path, parts)
  if not done then return nil, about("save", path, why) end
  return true
end


-- A function that moves each tensor to its device before the next one is read.
local function placed_on(device)
  device = device or heed.default_device()
  return function(t) return t:to(device) end
end


local function read(file, is_array, o, path)
  local place = placed_on(o.device)
  refuse_foreign(file)
  if o.mapped then raw.map(file, path) end
  if gguf.is(file) then return gguf.read(file, path, place, o.mapped) end
  if is_array or npy.is(file) then return place(npy.read(file)), {} end
  return safetensors.read(file, o.verify, place)
end


---Loads what `heed.save`, or another program, has saved: safetensors as tensors by name, .npy
---as one tensor, GGUF as tensors by name, also in blocks, and metadata of any kind, with their
---types; a uint64 that is no integer of Lua's comes as its digits, as a text. Integers of other
---widths become int64. A safetensors file that heed saved has a checksum, which is compared unless
---`verify` is false.
---
---With `mapped = true` the tensors are views of the file: opening costs nothing whatever its size,
---a tensor is read when it is used, and processes that map the same file share its memory. Changes
---of such tensors stay in this process; the file keeps its bytes. The checksum is compared only
---where `verify` is given as true. Other programs must not write into the file meanwhile: where it
---becomes shorter, all calls fail until its tensors are collected, but bytes that go within a page
---of 4096 are read as zeros. `heed.save` may replace the file.
---@param path string
---@param given? {device: heed.device, verify: boolean, mapped: boolean} the default device, true,
---false unless given
---@return table<string, heed.Tensor>|heed.Tensor|nil tensors
---@return table<string, any>|string metadata empty if there are none; or a message
---@return boolean|table<string, string>|nil missing after a message: whether there is no such file;
---else the types of GGUF's metadata, as `heed.save` takes them
function M.load(path, given, ...)
  options.no_more("load", 2, ...)
  whole.check_path("load", path)
  local o = options.read("load", given, {device = options.any, mapped = false, verify = true})
  if o.mapped and not rawget(given, "verify") then o.verify = false end
  local file <close>, why, missing = core.open_file(path)
  if not file then return nil, about("load", path, why), missing end
  local tensors, metadata, types = refuse.try(read, file, is_npy(path), o, path)
  if not tensors then
    local more = metadata:find("^checksum differs") and " ({verify = false} loads it)" or ""
    return nil, about("load", path, metadata .. more), false
  end
  return tensors, metadata, types
end


return M
