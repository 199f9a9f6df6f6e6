-- What is written about the module is true: the examples of the reference (lua/heed/meta.lua),
-- the blocks of README.md, and the names, which stand in the reference if and only if they exist.

local heed = require "heed"
local device = require "spec.support.device"

local REFERENCE, README = "lua/heed/meta.lua", "README.md"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end


-- Examples ---------------------------------------------------------------

-- Lines that begin with --->: a line with == or raises ends an example.
local function examples(path)
  local list, parts, number = {}, {}, 0
  for line in io.lines(path) do
    number = number + 1
    local text = line:match("^%-%-%-> (.*)$")
    if text then
      parts[#parts + 1] = text
      if text:find(" == ", 1, true) or text:find(" raises \"", 1, true) then
        list[#list + 1] = {text = table.concat(parts, "\n"), where = path .. ":" .. number}
        parts = {}
      end
    else
      assert(#parts == 0, ("%s:%d: an example without == or raises"):format(path, number))
    end
  end
  return list
end

local scope = setmetatable({heed = heed}, {__index = _G})

local function values(text)
  return table.pack(assert(load("return " .. text, "=example", "t", scope))())
end

-- A table on the right stands for a tensor on the left; numbers agree to four digits.
local function agree(a, b)
  if heed.is_tensor(a) then a = a:totable() end
  if type(a) == "number" and type(b) == "number" then
    return a == b or (a ~= a and b ~= b) or math.abs(a - b) <= 5.1e-5 * math.max(1, math.abs(b))
  elseif type(a) ~= "table" or type(b) ~= "table" then
    return a == b
  end
  for key in pairs(a) do
    if b[key] == nil then return false end
  end
  for key, value in pairs(b) do
    if not agree(a[key], value) then return false end
  end
  return true
end

local function check(example)
  local left, wanted = example.text:match('^(.*) raises "(.*)"$')
  if left then
    local good, message = pcall(values, left)
    assert(not good, "no error")
    assert(tostring(message):find(wanted, 1, true), message)
    return
  end
  left, wanted = example.text:match("^(.*) == (.-)$")
  local got, right = values(left), values(wanted)
  for i = 1, right.n do
    assert(agree(got[i], right[i]), ("result %d is %s"):format(i, tostring(got[i])))
  end
end


describe("the reference", function()
  setup(device.cpu)
  teardown(device.back)

  local found = examples(REFERENCE)

  it("has examples", function() assert.is_true(#found > 200, #found) end)

  for _, example in ipairs(found) do
    it("is right: " .. example.text, function()
      local good, message = pcall(check, example)
      assert.is_true(good, example.where .. ": " .. tostring(message))
    end)
  end
end)


-- Names ------------------------------------------------------------------

-- The methods are the third upvalue of __index (lua_heed.c): scripts cannot reach them otherwise.
local function live_methods()
  local _, methods = debug.getupvalue(debug.getmetatable(heed.zeros(1)).__index, 3)
  return methods
end

local function names_of(t)
  local names = {}
  for name, value in pairs(t) do
    if type(value) == "function" then names[name] = true end
  end
  return names
end

local function missing(from, other)
  local list = {}
  for name in pairs(from) do
    if not other[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return table.concat(list, " ")
end


describe("names", function()
  local documented, Tensor = dofile(REFERENCE)
  for _, name in ipairs{"accuracy", "capture", "generate", "load", "sample", "save", "train"} do
    assert(heed[name])                                       -- loads them
  end

  local pairs_of_tables = {
    {"functions of the module", documented, heed},
    {"functions of the core", documented.core, require "heed.core", heed},
    {"functions of heed.cuda", documented.cuda, heed.cuda},
    {"methods of tensors", Tensor, live_methods()},
  }
  for _, entry in ipairs(pairs_of_tables) do
    local what, written, live, elsewhere = table.unpack(entry)

    it("of the " .. what .. " are all in the reference", function()
      local known = names_of(written)
      for name in pairs(elsewhere or {}) do known[name] = true end
      assert.are.equal("", missing(names_of(live), known))
    end)

    it("in the reference of the " .. what .. " all exist", function()
      assert.are.equal("", missing(names_of(written), names_of(live)))
    end)
  end
end)


-- The list of operations ------------------------------------------------

describe("docs/operations.md", function()
  local document, undocumented = assert(loadfile("docs/generate.lua"))("check")

  it("is what docs/generate.lua makes of the reference: lua5.4 docs/generate.lua", function()
    assert.is_true(read("docs/operations.md") == document)
  end)

  it("has all public functions and classes, each with a sentence", function()
    assert.equal("", table.concat(undocumented, " "))
    for line in document:gmatch("\n(%* [^\n]*)") do
      assert.matches("^%* `[%w_.:]+%([^`]*%)`: %S", line)
    end
    local listed = {}
    for name in document:gmatch("[%w_]+") do listed[name] = true end
    assert.equal("", missing(names_of(live_methods()), listed))
    for _, part in ipairs{heed, heed.nn, heed.optim, heed.plot, heed.cuda} do
      assert.equal("", missing(names_of(part), listed))
    end
  end)
end)


-- README -----------------------------------------------------------------

-- C is compiled with the objects of floors 0 to 5: what it shows works without Lua.
local function run_c(block)
  local build = package.searchpath("heed.core", package.cpath):match("^(.*)/heed/core%.so$")
  local program = os.tmpname()
  local source <close> = assert(io.open(program .. ".c", "w"))
  source:write(block, "\n")
  source:flush()
  local command = ("cc -Isrc -o %s %s.c $(find %s/src -name '*.o' ! -path '*/lua/*') %s && %s")
    :format(program, program, build, "-lm -lpthread -ldl", program)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read("a")
  os.remove(program .. ".c")
  os.remove(program)
  return output
end


-- Blocks of Lua in a document, each run as it stands.
local function check_blocks(path)
  local number = 0
  local scratch = {}                -- what blocks write goes away after them

  local function tmpname()
    scratch[#scratch + 1] = os.tmpname()
    return scratch[#scratch]
  end

  after_each(function()
    for _, name in ipairs(scratch) do
      for _, ending in ipairs{"", ".npy", ".svg"} do os.remove(name .. ending) end
    end
    scratch = {}
  end)

  for block in read(path):gmatch("\n```lua\n(.-)\n```") do
    number = number + 1
    local composed = os.getenv "HEED_BUILD" == "basic"     -- what is composed can't be captured
    local example = composed and block:find("heed.capture", 1, true) and pending or it
    example(("block %d runs: %s"):format(number, block:match("[^\n]*")), function()
      local env = setmetatable({
        io = setmetatable({write = function() end}, {__index = io}),
        os = setmetatable({tmpname = tmpname}, {__index = os}),
        print = function(...) return select("#", ...) end,
      }, {__index = _G})
      heed.manual_seed(0)
      assert(load(block, ("=%s block %d"):format(path, number), "t", env))()
    end)
  end
  return number
end


for path, least in pairs{["docs/training.md"] = 1, ["docs/transformers.md"] = 5} do
  describe(path, function()
    local number = check_blocks(path)
    it("has blocks", function() assert.is_true(number >= least, number) end)
  end)
end


describe("README.md", function()
  local text, number = read(README), check_blocks(README)

  it("has blocks", function() assert.is_true(number >= 8, number) end)

  if (os.getenv("HEED_BUILD") or "release") == "release" then     -- others need flags of theirs
    it("has a C program that runs", function()
      assert.matches("^%-?%d[%d.e-]* %-?%d[%d.e-]*\n$", run_c(text:match("\n```c\n(.-)\n```")))
    end)
  end
end)
