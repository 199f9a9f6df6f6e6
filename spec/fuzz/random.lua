-- Random numbers of the fuzzers' own: splitmix64, so that a seed gives the same calls everywhere.

local Random = {}
Random.__index = Random


---@param seed integer
---@param item integer
---@return table
local function new(seed, item)
  return setmetatable({state = seed * 0x2545f4914f6cdd1d ~ item * 0x9e3779b97f4a7c15}, Random)
end


local function mixed(z)
  z = (z ~ z >> 30) * 0xbf58476d1ce4e5b9
  z = (z ~ z >> 27) * 0x94d049bb133111eb
  return z ~ z >> 31
end


---An integer from low to high, both included; low, if there is none.
function Random:integer(low, high)
  if high <= low then return low end
  self.state = self.state + 0x9e3779b97f4a7c15
  return low + (mixed(self.state) >> 11) % (high - low + 1)
end


---A number from low to below high, with few digits, so that its text is exact.
function Random:number(low, high)
  return low + (high - low) * self:integer(0, 1023) / 1024
end


function Random:chance(p) return self:integer(0, 9999) < p * 10000 end


function Random:pick(list) return list[self:integer(1, #list)] end


---A list of n values that f gives.
function Random:list(n, f)
  local list = {}
  for i = 1, n do list[i] = f(i) end
  return list
end

return new
