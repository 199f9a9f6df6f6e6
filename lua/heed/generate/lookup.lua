-- Guesses of the ids to come: those that followed the last few ids where these stood before.

local Lookup = {}
Lookup.__index = Lookup

local LONGEST <const> = 3                   -- ids that are looked up, at most

---@class heed.generate.Lookup
---@field most integer how many ids a guess has
---@field ids integer[] all ids so far
---@field behind table<string, integer> where some ids ended last, less the end of all: the position
---behind them


-- The last n ids as a key.
local function key_of(ids, n)
  return table.concat(ids, ",", #ids - n + 1)
end


---@param most integer
---@param prompt integer[]
---@return heed.generate.Lookup
function Lookup.new(most, prompt)
  local self = setmetatable({
    most = most, ids = {}, behind = {}, calls = 0, guessed = 0, right = 0,
  }, Lookup)
  for _, id in ipairs(prompt) do self:add(id) end
  return self
end


---@param id integer
function Lookup:add(id)
  local ids = self.ids
  for n = 1, math.min(LONGEST, #ids) do self.behind[key_of(ids, n)] = #ids + 1 end
  ids[#ids + 1] = id
end


---The ids that may follow: what stood behind the most ids that are the last ones now.
---@param room integer how many at most
---@return integer[]
function Lookup:guess(room)
  local ids, most = self.ids, math.min(self.most, room)
  for n = math.min(LONGEST, #ids), 1, -1 do
    local from = self.behind[key_of(ids, n)]
    if from then return table.move(ids, from, math.min(from + most - 1, #ids), 1, {}) end
  end
  return {}
end


---Counts what came of a guess.
---@param guessed integer
---@param right integer
function Lookup:count(guessed, right)
  self.calls = self.calls + 1
  self.guessed, self.right = self.guessed + guessed, self.right + right
end


---@return {calls: integer, guessed: integer, right: integer}
function Lookup:counts()
  return {calls = self.calls, guessed = self.guessed, right = self.right}
end


return Lookup
