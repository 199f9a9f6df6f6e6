-- The log of a training run: a JSON object a line, written at once, so that a kill loses none.
--
-- A run that resumes from a checkpoint cuts off the lines of later steps, which it repeats, and a
-- line that a kill or a full disk broke.

local core = require "heed.core"
local heed = require "heed"
local json = require "heed.files.json"

---@class heed.Log
---@field file heed.core.file to be closed
---@field path string
---@field stop integer its length behind the lines of the step that it was opened for, in bytes
local Log = {}
Log.__index = Log


local function check(done, path, why)
  if not done then heed.fail("train: the log cannot be written: %s: %s", path, why) end
end


-- The length of a log's complete lines up to a step, in bytes.
local function end_of(text, step, path)
  local stop = 0
  for line, next_line in text:gmatch("([^\n]*)\n()") do
    if line:byte() ~= 123 then heed.fail("train: %s is no log: its lines are no JSON", path) end
    local line_step = tonumber(line:match('"step":(%d+)'))
    if line_step and line_step > step then break end
    stop = next_line - 1
  end
  return stop
end


-- The length that a log is cut to at a step, in bytes; pipes and devices have length 0.
local function length_at(path, file, step)
  if step == 0 or #file == 0 then return 0 end
  local text, why = core.read_file(path)
  if not text then heed.fail("train: the log cannot be read: %s", why) end
  return end_of(text, step, path)
end


---Opens a log, which `cut` makes ready for the steps behind a given one.
---@param path string
---@param step integer 0 for an empty log
---@return heed.Log
function Log.open(path, step)
  local file, why = core.append_file(path)
  if not file then heed.fail("train: the log cannot be written: %s", why) end
  return setmetatable({file = file, path = path, stop = length_at(path, file, step)}, Log)
end


---Cuts it off behind the lines of the step that it was opened for.
function Log:cut()
  local done, why = core.cut_file(self.file, self.stop)
  check(done, self.path, why)
end


---Writes a line.
---@param entry table<string, number|number[]> NaN and infinities become null
function Log:add(entry)
  local done, why = core.put_file(self.file, json.encode(entry, "null") .. "\n")
  check(done, self.path, why)
end


---Makes sure that a power cut loses none of the lines.
function Log:sync()
  local done, why = core.sync_file(self.file)
  check(done, self.path, why)
end


return Log
