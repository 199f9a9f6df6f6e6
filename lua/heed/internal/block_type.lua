-- Checks the name of a type of blocks that values are converted to.

local blocks = require "heed.internal.blocks"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"


---@param who string
---@param name any
---@return string name
return function(who, name)
  local block = type(name) == "string" and rawget(blocks, name)
  if block and block.written then return name end
  local known = {}
  for kind, row in next, blocks do
    if row.written then known[#known + 1] = kind end
  end
  table.sort(known)
  heed.fail("%s: one of %s expected as type, got %s", who, table.concat(known, ", "),
            type(name) == "string" and ("'%s'"):format(name:sub(1, 40)) or options.kind(name))
end
