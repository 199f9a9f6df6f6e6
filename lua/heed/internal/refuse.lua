-- Refusing a malformed file: raised where the fault is found, `nil, message` from the reader.
--
-- A reader is then written as if every file were right; any other error passes through as it was.

local refuse = {}

local Refusal = {__name = "heed.refusal"}


---Gives up the reading in hand, with a message for the one who called `refuse.try`.
---@param format string
---@param ... any
function refuse.with(format, ...)
  error(setmetatable({message = format:format(...)}, Refusal), 0)
end


local function outcome(ok, result, ...)
  if ok then return result, ... end
  if not rawequal(getmetatable(result), Refusal) then error(result, 0) end
  return nil, result.message
end


---Calls a reader: its results, or nil and why it refused.
---@param reader function
---@param ... any
---@return any, any
function refuse.try(reader, ...)
  return outcome(pcall(reader, ...))
end


local function hex(c) return ("\\x%02x"):format(c:byte()) end

---A name from a file, fit for a message: in quotes, on one line, not too long.
---@param name string
---@return string
function refuse.quoted(name)
  if #name > 80 then name = name:sub(1, utf8.offset(name, 0, 78) - 1) .. "..." end
  return '"' .. name:gsub('[\0-\31"\\\127]', hex) .. '"'
end


return refuse
