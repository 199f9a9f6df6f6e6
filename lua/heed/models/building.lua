-- Models of configurations and tensors, without values: those that are read, and those that would
-- be read of what is written.

local alike = require "heed.models.alike"
local Config = require "heed.models.config"
local families = require "heed.models.families"
local parameter = require "heed.nn.parameter"

local building = {}

-- Names of what refuses sizes of a configuration, as messages begin with them.
local MAKERS <const> = {"nn%.%u%w+", "models%.%u%w+", "bias%.%l%w+"}

-- Parameters of a model for each tensor of its files: fused ones are a few, and layers that share
-- their tensors several times as many.
local MOST_PARTS <const> = 64


---Makes the model of a family; what its layers refuse, the file is at fault for.
---@param who string
---@param c heed.models.Config
---@param tensors table<string, heed.Tensor> by their names, of which those that it does not use are
---taken out
---@return heed.models.Model model
---@return heed.models.names
function building.model(who, c, tensors)
  local family, most = families.of(c), MOST_PARTS
  for _ in next, tensors do most = most + MOST_PARTS end
  local good, model, own_names = pcall(parameter.hollow, who, most, family.build, c, tensors)
  if good then return model, own_names or family.names end
  local why = model
  local message
  for _, maker in ipairs(type(why) == "string" and MAKERS or {}) do
    message = message or why:match(maker .. ": .*")
  end
  if not message then error(why, 0) end
  c:fail("%s", message)
end


---A configuration that a family has read, and the model that it asks for.
---@param who string
---@param values table<string, any> of config.json
---@param tensors table<string, heed.Tensor>
---@param source? heed.models.config.source
---@return heed.models.Config c
---@return heed.models.Model model
function building.read(who, values, tensors, source)
  local c, own = Config.new(values, source), {}
  for name, t in next, tensors do own[name] = t end
  return c, (building.model(who, c, own))
end


---The first difference between a model and the one that a configuration and tensors become.
---@param who string
---@param model heed.models.Model
---@param values table<string, any> of config.json
---@param tensors table<string, heed.Tensor>
---@param source? heed.models.config.source
---@return string? text as `alike` has it; nil: none
function building.difference(who, model, values, tensors, source)
  local _, other = building.read(who, values, tensors, source)
  return alike(model, other)
end


return building
