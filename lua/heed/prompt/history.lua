-- The history of the prompt, kept in a file: $HEED_HISTORY, or ~/.heed_history. An empty
-- HEED_HISTORY keeps none. A file that cannot be read or written is no error.

local core = require "heed.core"

local MOST <const> = 1000            -- lines that are kept

local history = {}


---The file, nil where none is kept.
---@return string?
function history.path()
  if not (os and os.getenv) then return nil end
  local path, home = os.getenv "HEED_HISTORY", os.getenv "HOME"
  if not path and home and home ~= "" then path = home .. "/.heed_history" end
  return path ~= "" and path or nil
end


---The lines of the file, from the oldest on.
---@param path string
---@return string[]
function history.read(path)
  local lines = {}
  for line in (core.read_file(path) or ""):gmatch "[^\n]+" do
    if not line:find("\0", 1, true) then lines[#lines + 1] = line end
  end
  return lines
end


---Adds lines to the file, which may have got others meanwhile, and drops the oldest.
---@param path string
---@param new string[]
function history.add(path, new)
  if #new == 0 then return end
  local lines = history.read(path)
  for _, text in ipairs(new) do
    for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  end
  local kept = table.move(lines, math.max(1, #lines - MOST + 1), #lines, 1, {})
  core.write_file(path, {table.concat(kept, "\n"), "\n"})
end


return history
