-- Names that tensors and heed.cuda do not have: raised where they are read, with what is meant.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"
local torch_names = require "heed.internal.torch_names"

local methods = core.methods

local FIELDS = {"T", "device", "dtype", "grad", "is_leaf", "mT", "requires_grad", "shape"}

local function all_names()
  local names = {}
  for name in pairs(methods) do names[name] = true end
  for _, name in ipairs(FIELDS) do names[name] = true end
  return names
end


-- Called for what is no method and no field (src/lua/lua_tensor.c); other programs look for names
-- that begin with _.
setmetatable(methods, {
  __index = function(_, name)
    if name:find("^_") then return nil end
    if not name:find("^%a") then
      heed.fail("index: %s is no index; write {} for all and {2, -1} from 2 to the last, as in "
                .. "x[{ {}, {2, -1} }]", options.kind(name))
    end
    return options.refuse_name("tensor", name, all_names(), torch_names.tensor)
  end,
})

setmetatable(heed.cuda, {
  __index = function(_, name)
    return options.refuse_name("heed.cuda", name, heed.cuda, torch_names.cuda)
  end,
})
