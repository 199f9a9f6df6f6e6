-- Makes the stubs in lua/heed/meta.lua of the table of operations (docs/stubs.lua), and
-- docs/operations.md of what is written above heed's functions: make && lua5.4 docs/generate.lua,
-- in the repository's folder. spec/docs_spec.lua fails where either is out of date.

if not package.loaded.heed then
  package.path = "./?.lua;./lua/?.lua;./lua/?/init.lua;" .. package.path
  package.cpath = "./build/release/?.so;" .. package.cpath
end

local heed = require "heed"
local reference = require "heed.internal.reference"
local stubs = require "docs.stubs"

local PATH, REFERENCE = "docs/operations.md", "lua/heed/meta.lua"

local HEAD = [[
# Operations

One line for each function; `heed.help("softmax")` prints the whole of what is written about it. A
`?` marks what may be left out; options stand in one table at the end, by PyTorch's names. `x:f(…)`
is `heed.f(x, …)` too. Dimensions, positions and ids count from 1. Behind a line stand other names:
`neg_` writes into its tensor.

This file is made by `docs/generate.lua` of `lua/heed/meta.lua` and the comments of the files beside
it.
]]


local function read(name)
  local path = package.searchpath(name, package.path)
  local file <close> = path and io.open(path)
  return file and file:read("a")
end


local function line_of(entry)
  local names = table.concat(entry.aliases, "`, `")
  return ("* `%s`: %s%s"):format(entry.call, reference.sentence(entry.text),
                                 names ~= "" and " Also `" .. names .. "`." or "")
end


local function document(groups)
  local lines = {HEAD}
  for _, group in ipairs(groups) do
    lines[#lines + 1] = "## " .. group.title .. "\n"
    for _, entry in ipairs(group) do lines[#lines + 1] = line_of(entry) end
    lines[#lines + 1] = ""
  end
  return table.concat(lines, "\n")
end


local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end


if ... ~= "check" then write(REFERENCE, stubs.renew(read("heed.meta"))) end
local groups, missing = reference.all(heed, read)
if ... == "check" then return document(groups), missing end
write(PATH, document(groups))
for _, path in ipairs(missing) do print("nothing is written about heed." .. path) end
