-- Holds compiled kernels against cuda/limits.lua: `make ledger`.
--
--   lua5.4 spec/ledger.lua [--table FILE] [--limits FILE] KERNELS...
--
-- KERNELS are what spec/kernels.lua said of objects. Where it had no cuobjdump, what is said of
-- loops counts as skipped. --table: the figures of all kernels, as Markdown.

package.path = "./?.lua;" .. package.path

local files = require "spec.support.files"
local ledger = require "spec.support.ledger"
local markdown = require "spec.support.ledger_markdown"

local kernels, options = {}, {limits = "cuda/limits.lua"}
do
  local k = 1
  while arg[k] do
    local name = arg[k]:match("^%-%-(.*)")
    if name then
      options[name], k = arg[k + 1], k + 1
    else
      table.move(dofile(arg[k]), 1, 999, #kernels + 1, kernels)
    end
    k = k + 1
  end
end

local archs, known, all_read = {}, {}, true
for _, kernel in ipairs(kernels) do
  all_read = all_read and kernel.read
  if not known[kernel.arch] then
    known[kernel.arch] = true
    archs[#archs + 1] = kernel.arch
  end
end
table.sort(archs, function(a, b) return a:match("%d+") + 0 < b:match("%d+") + 0 end)

-- The last commit of what is compiled.
local function commit()
  local pipe <close> = assert(io.popen("git log -1 --format=%h -- cuda src ':!*.md' ':!*.lua'"))
  return pipe:read("l") or "an unknown commit"
end

if options.table then files.write(options.table, markdown(kernels, archs, commit())) end

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
if not all_read then print("no cuobjdump is here: loops were not read") end
print(("%d passed, %d failed%s"):format(math.max(#kernels + #idle - failed, 0), failed,
                                        all_read and "" or ", 1 skipped"))
os.exit(failed == 0 and #kernels > 0)
