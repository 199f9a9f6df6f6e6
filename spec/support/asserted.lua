-- Whether the test that runs has compared anything: one that has not fails (spec/output.lua). Each
-- use of `assert` notes it, and so do helpers that raise errors of their own.

local asserted = {yet = false}


---Called by a helper that compares.
function asserted.note() asserted.yet = true end


---Has each use of luassert's `assert`, as a function or as a table of such, noted.
---@param luassert table
function asserted.watch(luassert)
  local meta = getmetatable(luassert)
  for _, name in ipairs{"__call", "__index"} do
    local f = meta[name]
    meta[name] = function(...)
      asserted.yet = true
      return f(...)
    end
  end
end


return asserted
