-- heed: attention and transformers for Lua.
--
-- The module is what C defines (heed.core, documented in heed/meta.lua) with what is written in
-- Lua on top of it (heed.tensor); heed.nn and the like load when they are first touched.

local core = require "heed.core"

-- Errors blame the first line outside this folder.
core.home(debug.getinfo(1, "S").source:match("^(.*[/\\])") or "")
core.home = nil

---@class heed
local heed = {}
for name, value in pairs(core) do heed[name] = value end
heed.methods, heed.optim_step, heed.record = nil, nil, nil
heed.read_file, heed.write_file, heed.crc32, heed.widen = nil, nil, nil, nil
heed.core = core

-- heed.save and heed.load live in one file; the others are files of their own name.
local homes = {
  data = "data", load = "save", nn = "nn", optim = "optim", plot = "plot", position = "position",
  save = "save", tasks = "tasks", train = "train",
}

setmetatable(heed, {
  __index = function(_, name)
    local home = homes[name] and "heed." .. homes[name]
    if not home or not (package.preload[home] or package.searchpath(home, package.path)) then
      return nil
    end
    local part = require(home)
    if home == "heed.save" then part = part[name] end
    heed[name] = part
    return part
  end,
})

package.loaded["heed"] = heed
require "heed.tensor"
core.methods = nil       -- scripts cannot reach the methods of tensors

return heed
