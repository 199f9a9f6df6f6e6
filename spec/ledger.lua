-- Holds compiled kernels against cuda/limits.lua: `make ledger`.
--
--   CUOBJDUMP=cuobjdump lua5.4 spec/ledger.lua [--table FILE] [--limits FILE] OBJECT...
--
-- Beside each object is what ptxas said of it. Without cuobjdump, machine code is not read, and
-- what is said of loops counts as skipped. --table: the figures of all kernels, as Markdown.

package.path = "./?.lua;" .. package.path

local files = require "spec.support.files"
local ledger = require "spec.support.ledger"
local sass = require "spec.support.sass"

local cuobjdump = os.getenv("CUOBJDUMP")
if cuobjdump == "" then cuobjdump = nil end

-- The kernels of an object, by architecture and mangled name; in 'list', in order.
local function usage_of(object, list)
  local found = {}
  for _, kernel in ipairs(sass.usage(files.read(object .. ".usage"))) do
    kernel.object = object
    found[kernel.arch .. " " .. kernel.name] = kernel
    list[#list + 1] = kernel
  end
  return found
end

local function add_measures(object, found)
  local pipe <close> = assert(io.popen(("'%s' -sass '%s'"):format(cuobjdump, object)))
  sass.each(pipe:lines(), function(arch, name, code)
    local kernel, m = found[arch .. " " .. name], sass.measure(code)
    assert(kernel, name .. " is not in what ptxas said")
    kernel.read, kernel.double, kernel.mma = true, m.double, m.mma
    if m.main then
      kernel.width, kernel.steps = m.main.width, m.main.steps * 16 / m.main.bytes
    end
  end)
end

local function demangle(kernels)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  for _, kernel in ipairs(kernels) do file:write(kernel.name, "\n") end
  file:close()
  local pipe <close> = assert(io.popen("c++filt <" .. path))
  for _, kernel in ipairs(kernels) do
    kernel.demangled = assert(pipe:read("l"), "c++filt says nothing")
    ledger.name(kernel)
  end
  os.remove(path)
end


local objects, options = {}, {limits = "cuda/limits.lua"}
do
  local k = 1
  while arg[k] do
    local name = arg[k]:match("^%-%-(.*)")
    if name then
      options[name], k = arg[k + 1], k + 1
    else
      objects[#objects + 1] = arg[k]
    end
    k = k + 1
  end
end

local kernels = {}
for _, object in ipairs(objects) do
  local found = usage_of(object, kernels)
  if cuobjdump and next(found) then add_measures(object, found) end
end
demangle(kernels)

local archs, known = {}, {}
for _, kernel in ipairs(kernels) do
  if not known[kernel.arch] then
    known[kernel.arch] = true
    archs[#archs + 1] = kernel.arch
  end
end
table.sort(archs, function(a, b) return a:match("%d+") + 0 < b:match("%d+") + 0 end)

if options.table then files.write(options.table, ledger.markdown(kernels, archs)) end

local limits = dofile(options.limits)
local failed = 0
for _, kernel in ipairs(kernels) do
  local excess = ledger.excess(kernel, limits)
  for _, line in ipairs(excess) do print(line) end
  if #excess > 0 then failed = failed + 1 end
end
local idle = ledger.idle(kernels, limits)
for _, line in ipairs(idle) do print("cuda/limits.lua: " .. line) end
failed = failed + #idle
print(("%d kernels for %s"):format(#kernels, table.concat(archs, ", ")))
if not cuobjdump then print("no cuobjdump is here: loops were not read") end
print(("%d passed, %d failed%s"):format(math.max(#kernels + #idle - failed, 0), failed,
                                        cuobjdump and "" or ", 1 skipped"))
os.exit(failed == 0 and #kernels > 0)
