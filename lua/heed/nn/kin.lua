-- The classes whose layers a method serves: the class that has it, and those that extend this one.
-- The sets stand apart from the classes, whose fields scripts may write to; a class has the name of
-- its nearest ancestor of heed's own as its field __kin.

local kin = {}

local WEAK <const> = {__mode = "k"}

local sets = {}                             -- by name: those that a class joins which extends it
local own = setmetatable({}, WEAK)
local forwards = setmetatable({}, WEAK)    -- the methods `forward` that heed's own classes define


---Notes that a class extends another, whose name of an ancestor it has.
---@param class table
function kin.derive(class)
  for _, set in ipairs(sets[class.__kin] or {}) do set[class] = true end
end


---The set of a class of heed's own and of all that will extend it.
---@param class table
---@param who string as messages name it
---@return table<table, boolean>
function kin.found(class, who)
  local set = setmetatable({[class] = true}, WEAK)
  sets[who] = {set, table.unpack(sets[class.__kin] or {})}
  class.__kin, own[class] = who, true
  return set
end


---Notes that a class is one of heed's own, whose methods are those of the class that it extends.
---@param class table
function kin.adopt(class) own[class] = true end


---Whether a class is one of heed's own, and not one that extends it.
---@param class any
---@return boolean
function kin.is_own(class) return own[class] == true end


---Notes the method `forward` of a class of heed's own.
---@param f function
function kin.adopt_forward(f) forwards[f] = true end


---Whether a function is the method `forward` of a class of heed's own.
---@param f any
---@return boolean
function kin.is_own_forward(f) return forwards[f] == true end


return kin
