-- The blocks of README.md and docs/*.md: read, and run without a trace.

local heed = require "heed"

local blocks = {}


---Iterates over kinds, such as "lua", and texts of a page's blocks.
---@param page string
---@return fun(): string, string
function blocks.of(page)
  local file <close> = assert(io.open(page))
  return file:read("a"):gmatch("\n```(%l+)\n(.-)\n```")
end


---Runs a block of Lua in globals of its own: nothing is printed, and its files go away after it.
---@param block string
---@param name string
---@return boolean good
---@return any why
function blocks.run(block, name)
  local files = {}
  local function tmpname()
    files[#files + 1] = os.tmpname()
    return files[#files]
  end

  local env = setmetatable({
    io = setmetatable({write = function() end}, {__index = io}),
    os = setmetatable({tmpname = tmpname}, {__index = os}),
    print = function(...) return select("#", ...) end,
  }, {__index = _G})
  local f, wrong = load(block, "=" .. name, "t", env)
  if not f then return false, wrong end
  heed.manual_seed(0)
  local good, why = pcall(f)
  for _, file in ipairs(files) do
    for _, ending in ipairs{"", ".npy", ".svg"} do os.remove(file .. ending) end
  end
  return good, why
end


return blocks
