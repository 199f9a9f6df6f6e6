-- heed.save and heed.load: tensors in files, as safetensors, or as .npy for a single one.
--
-- A file is written whole under another name and then renamed, so that the path always holds
-- the old file or the new one. Reading never runs code and never takes more than the file's
-- size asks for; a malformed file is nil and a message.

local core = require "heed.core"
local heed = require "heed"
local npy = require "heed.npy"
local options = require "heed.options"
local safetensors = require "heed.safetensors"

local M = {}


local function check_path(where, path)
  if type(path) ~= "string" then
    heed.fail("%s: a path expected, got %s", where, type(path))
  elseif path == "" or path:find("\0", 1, true) then
    heed.fail("%s: a path expected, got an empty string or a zero byte in it", where)
  end
end


local function is_npy(path)
  return path:sub(-4):lower() == ".npy"
end


-- A message that names its file.
local function about(where, path, message)
  if message:find(path, 1, true) then return ("%s: %s"):format(where, message) end
  return ("%s: %s: %s"):format(where, path, message)
end


local function npy_pieces(tensor, metadata)
  if not options.is_alive(tensor) then
    heed.fail("save: one tensor expected for an .npy file, got %s", options.kind(tensor))
  elseif metadata ~= nil then
    heed.fail("save: an .npy file has no place for metadata, a .safetensors file expected")
  end
  return npy.encode(tensor)
end


-- What has fields that are not its tensors, such as a module, has a method that lists these.
local function refuse_object(value)
  local class = getmetatable(value)
  if type(class) ~= "table" or type(class.state) ~= "function" then return end
  heed.fail("save: a table of tensors by name expected, got %s; its tensors are m:state()",
    options.kind(value))
end


local function safetensors_pieces(tensors, metadata)
  if heed.is_tensor(tensors) then
    heed.fail("save: a table of tensors by name expected, or a path that ends in .npy")
  elseif type(tensors) ~= "table" then
    heed.fail("save: a table of tensors by name expected, got %s", type(tensors))
  end
  refuse_object(tensors)
  if metadata ~= nil and type(metadata) ~= "table" then
    heed.fail("save: a table of strings expected as metadata, got %s", type(metadata))
  end
  return safetensors.encode(tensors, metadata)
end


---Saves tensors by name as safetensors, or one tensor if the path ends in `.npy`.
---The file is complete or as it was before, also after a crash.
---@param path string
---@param tensors table<string, heed.Tensor>|heed.Tensor
---@param metadata? table<string, string>
---@return true? done
---@return string? message
function M.save(path, tensors, metadata)
  check_path("save", path)
  local pieces = (is_npy(path) and npy_pieces or safetensors_pieces)(tensors, metadata)
  local done, why = core.write_file(path, pieces)
  if not done then return nil, about("save", path, why) end
  return true
end


local function moved(tensors, device)
  if heed.is_tensor(tensors) then return tensors:to(device) end
  for name, t in pairs(tensors) do tensors[name] = t:to(device) end
  return tensors
end


---Loads what `heed.save`, or another program, has saved: safetensors as tensors by name, .npy
---as one tensor. Integers of other widths become int64.
---@param path string
---@param given? {device: heed.device} the default device unless given
---@return table<string, heed.Tensor>|heed.Tensor|nil tensors
---@return table<string, string>|string metadata empty if there are none; or a message
function M.load(path, given)
  check_path("load", path)
  local device = options.read("load", given, {device = options.any}).device
  local file, why = core.read_file(path)
  if not file then return nil, about("load", path, why) end
  local format = (is_npy(path) or npy.is(file)) and npy or safetensors
  local tensors, metadata = format.decode(file)
  if not tensors then return nil, about("load", path, metadata) end
  return device and moved(tensors, device) or tensors, metadata or {}
end


return M
