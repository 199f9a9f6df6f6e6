-- The text of ids that come one by one: whole characters, up to a stop text, none of which is shown
-- before it is certain that it does not begin there.

local Speaker = {}
Speaker.__index = Speaker

---@class heed.models.Speaker
---@field stream heed.Tokenizer.Stream
---@field stops string[]
---@field say fun(piece: string) gets each piece
---@field held string what may be the start of a stop text
---@field said string[]
---@field over boolean whether a stop text came


---@param tokenizer heed.Tokenizer
---@param stops string[]
---@param say fun(piece: string)
---@param before? integer[] ids that the text goes on from, which are not said
---@return heed.models.Speaker
function Speaker.new(tokenizer, stops, say, before)
  local stream = tokenizer:stream()
  for _, id in ipairs(before or {}) do stream:push(id) end
  return setmetatable({
    stream = stream, stops = stops, say = say, held = "", said = {}, over = false,
  }, Speaker)
end


-- Where the first stop text begins, or nil.
local function first_stop(text, stops)
  local first
  for _, stop in ipairs(stops) do
    local at = text:find(stop, 1, true)
    if at and (not first or at < first) then first = at end
  end
  return first
end


-- How many bytes at the end of a text a stop text may begin with.
local function possible(text, stops)
  local most = 0
  for _, stop in ipairs(stops) do
    for n = math.min(#stop - 1, #text), most + 1, -1 do
      if text:sub(-n) == stop:sub(1, n) then
        most = n
        break
      end
    end
  end
  return most
end


local function say(self, piece)
  if piece == "" then return end
  self.said[#self.said + 1] = piece
  self.say(piece)
end


local function take(self, piece, last)
  local text = self.held .. piece
  local stop = first_stop(text, self.stops)
  local kept = stop and stop - 1 or #text - (last and 0 or possible(text, self.stops))
  self.held, self.over = stop and "" or text:sub(kept + 1), stop ~= nil
  say(self, text:sub(1, kept))
end


---Takes an id; returns whether a stop text came.
---@param id integer
---@return boolean
function Speaker:push(id)
  if not self.over then take(self, self.stream:push(id), false) end
  return self.over
end


---Says what is still held back, and gives the whole text.
---@return string
function Speaker:finish()
  if not self.over then take(self, self.stream:finish(), true) end
  return table.concat(self.said)
end


return Speaker
