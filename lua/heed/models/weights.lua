-- The tensors of a model's directory: model.safetensors, or the files that
-- model.safetensors.index.json names.

local core = require "heed.core"
local json = require "heed.files.json"
local raw = require "heed.files.raw"
local refuse = require "heed.internal.refuse"
local safetensors = require "heed.files.safetensors"

local quoted = refuse.quoted

local weights = {}

local SINGLE <const>, INDEX <const> = "model.safetensors", "model.safetensors.index.json"
local PICKLE <const> = "pytorch_model.bin"


-- How a file is read.
---@class heed.models.weights.way
---@field place fun(t: heed.Tensor): heed.Tensor
---@field mapped? boolean
---@field verify? boolean

-- The tensors of a file.
local function read_tensors(file, path, way)
  if way.mapped then raw.map(file, path) end
  return safetensors.read(file, way.verify, way.place)
end


-- Reads one file of tensors; nil where there is none.
local function read_file(path, way)
  local file <close>, why, missing = core.open_file(path)
  if not file then
    if missing then return nil end
    refuse.with("%s", why)
  end
  local tensors, message = refuse.try(read_tensors, file, path, way)
  return tensors or refuse.with("%s: %s", path, message)
end


-- The names of the files of an index, sorted, and the file of each tensor.
local function read_index(path, text)
  local index, why = json.decode(text)
  local map = type(index) == "table" and index.weight_map
  if type(map) ~= "table" or json.is_array(map) then
    refuse.with("%s: %s", path, why or "an object expected as weight_map")
  end
  local files, seen = {}, {}
  for name, file in next, map do
    local plain = type(file) == "string" and file:find("^[%w_][%w_.-]*%.safetensors$")
    if not plain then
      refuse.with("%s: the name of a safetensors file beside it expected for %s, got %s", path,
                  quoted(name), quoted(tostring(file)))
    end
    if not seen[file] then files[#files + 1] = file end
    seen[file] = true
  end
  table.sort(files, json.before)
  return files, map
end


-- Adds the tensors of one shard, which are those that the index says.
local function add_shard(all, path, file, map, way)
  local tensors = read_file(path .. "/" .. file, way)
  if not tensors then
    refuse.with("%s/%s: the index names this file, and it is not there", path, file)
  end
  for name, t in next, tensors do
    if all[name] then
      refuse.with("%s/%s: the tensor %s stands in another file, too", path, file, quoted(name))
    elseif map[name] ~= file then
      refuse.with("%s/%s: the index does not say that tensor %s stands here", path, file,
                  quoted(name))
    end
    all[name] = t
  end
end


local function read_shards(path, text, way)
  local files, map = read_index(path .. "/" .. INDEX, text)
  local all = {}
  for _, file in ipairs(files) do add_shard(all, path, file, map, way) end
  for name, file in next, map do
    if not all[name] then
      refuse.with("%s/%s: the tensor %s expected, as the index says", path, file, quoted(name))
    end
  end
  return all
end


-- Says what is there instead.
local function refuse_none(path)
  local pickle <close> = core.open_file(path .. "/" .. PICKLE)
  if not pickle then refuse.with("%s/%s: there is no such file", path, SINGLE) end
  refuse.with("%s/%s is a pickle of Python, which may hold code, and is not read; in Python, "
              .. "model.save_pretrained(path, safe_serialization=True) writes %s", path, PICKLE,
              SINGLE)
end


---Reads all tensors of a directory.
---@param path string
---@param place fun(t: heed.Tensor): heed.Tensor what becomes of each tensor as it was read
---@param mapped? boolean whether tensors are views of the files, as `heed.load` has it
---@param verify? boolean whether checksums are compared; unless files are mapped where it is nil
---@return table<string, heed.Tensor>
function weights.read(path, place, mapped, verify)
  if verify == nil then verify = not mapped end
  local way = {place = place, mapped = mapped, verify = verify}
  local tensors = read_file(path .. "/" .. SINGLE, way)
  if tensors then return tensors end
  local text, why, missing = core.read_file(path .. "/" .. INDEX)
  if not text and not missing then refuse.with("%s", why) end
  return text and read_shards(path, text, way) or refuse_none(path)
end


return weights
