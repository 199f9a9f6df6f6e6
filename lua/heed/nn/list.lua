-- A list of layers as a module, for those who call them one by one.
--
--   self.layers = nn.List{nn.Linear(2, 4), nn.Linear(4, 2)}
--   for _, layer in ipairs(self.layers) do x = layer(x) end
--
-- A plain table in a field is found as well, and its parameters have the same names; this one can
-- be grown with checks, called upon as a module (`freeze`, `to`, `clone`), and printed.

local heed = require "heed"
local extend = require "heed.nn.extend"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"

---Layers by number; `#list` is how many there are, `list[i] = layer` puts another in the place of
---one.
---@class heed.List: heed.Module
---@field [integer] function
---@overload fun(list?: function[]): heed.List
local List = extend("nn.List", {init = 1})


---@param list? function[] modules, or functions such as `heed.relu`
function List:init(list)
  if list == nil then list = {} end
  if type(list) ~= "table" or Module.is(list) then
    heed.fail("nn.List: one list of layers expected, as in nn.List{a, b}, got %s",
              options.kind(list))
  end
  options.check_list("nn.List", list)
  for i = 1, options.last(list) do self:append(list[i]) end
end


-- A layer behind a hole would be trained and saved, and never called.
function List:__newindex(name, value)
  if type(name) == "number" and Module.is(self) then
    local last = #self
    if name ~= last + 1 then
      heed.fail("nn.List: %d as the next position expected, got %s", last + 1, options.kind(name))
    end
    options.callable("nn.List", "layer " .. name, value)
  end
  Module.__newindex(self, name, value)
end


---Adds a layer at the end.
---@param layer function a module, or a function
---@return heed.List self
function List:append(layer, ...)
  options.no_more("append", 1, ...)
  self[#self + 1] = layer
  return self
end


function List:forward()
  heed.fail("nn.List: it is not called itself; write for _, layer in ipairs(list) do "
            .. "x = layer(x) end, or make an nn.Sequential{...}")
end


return {List = List}
