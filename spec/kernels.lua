-- The figures of an object's machine code, kernel by kernel, as a Lua table: for `make ledger`.
--
--   CUOBJDUMP=cuobjdump lua5.4 spec/kernels.lua OBJECT >OBJECT.kernels
--
-- Beside the object is what ptxas said of it. Without cuobjdump, machine code is not read.

package.path = "./?.lua;" .. package.path

local files = require "spec.support.files"
local ledger = require "spec.support.ledger"
local sass = require "spec.support.sass"

local cuobjdump = os.getenv("CUOBJDUMP")
if cuobjdump == "" then cuobjdump = nil end
local object <const> = arg[1]

local function add_names(kernels)
  if #kernels == 0 then return end    -- c++filt would open a file that is gone
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  for _, kernel in ipairs(kernels) do file:write(kernel.name, "\n") end
  file:close()
  local pipe <close> = assert(io.popen("c++filt <" .. path))
  for _, kernel in ipairs(kernels) do
    ledger.name(kernel, object, assert(pipe:read("l"), "c++filt says nothing"))
  end
  os.remove(path)
end

local function lines_of(option, f)
  local pipe <close> = assert(io.popen(("'%s' %s '%s'"):format(cuobjdump, option, object)))
  return f(pipe:lines())
end

local function add_measures(kernels)
  local known, jumps, tiled = {}, {}, false
  for _, kernel in ipairs(kernels) do
    known[kernel.arch .. " " .. kernel.mangled] = kernel
    tiled = tiled or kernel.tile ~= nil
  end
  if tiled then jumps = lines_of("-elf", sass.jumps) end
  lines_of("-sass", function(lines)
    sass.each(lines, function(arch, name, code)
      local key = arch .. " " .. name
      local kernel, m = known[key], sass.measure(code)
      assert(kernel, name .. " is not in what ptxas said")
      kernel.read, kernel.double, kernel.mma = true, m.double, m.mma
      if m.main then
        kernel.width, kernel.steps = m.main.width, m.main.steps * 16 / m.main.bytes
      end
      if kernel.tile then kernel.turn = sass.turn(code, jumps[key] or {}, kernel.tile.turn) end
    end)
  end)
end

local function write(value)
  if type(value) ~= "table" then return ("%q"):format(value) end
  local list = {}
  for key, x in pairs(value) do list[#list + 1] = ("[%q]=%s"):format(key, write(x)) end
  table.sort(list)
  return "{" .. table.concat(list, ",") .. "}\n"
end


local kernels = sass.usage(files.read(object .. ".usage"))
add_names(kernels)
if cuobjdump and #kernels > 0 then add_measures(kernels) end
io.write("return ", write(kernels))
