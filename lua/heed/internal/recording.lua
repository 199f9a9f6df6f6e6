-- The recording of work that is captured now (heed.capture), for all that keeps tensors, or counts,
-- over calls: a recording that is dropped before its work was done has never been.

local core = require "heed.core"

local recording = {}

---@class heed.recording
---@field notes table[] of optimisers' steps: see optim/group.lua
---@field expected (fun(): boolean)[]
---@field undos {after: integer, undo: function}[]

---The recording that runs, or nil; false in a finaliser, whose work is done at once.
---@type fun(): heed.recording|false|nil
recording.running = core.capture_running

local running = recording.running


---May t be read now? A GPU's values stay there, and those of captured work are not there yet.
---@param t heed.Tensor
---@return boolean
function recording.reaches(t)
  return t.device == "cpu" and not running()
end


---While work is captured: a replay does the same as f only while holds() is true.
---@param holds fun(): boolean
function recording.expect(holds)
  local r = running()
  if r then r.expected[#r.expected + 1] = holds end
end


---While work is captured: calls undo() if the recording is dropped before its work was done up to
---here. A tensor that is kept over calls needs it: the tensor would never get its values.
---@param undo function
function recording.undo(undo)
  local r = running()
  if r then r.undos[#r.undos + 1] = {after = #r.notes, undo = undo} end
end


return recording
