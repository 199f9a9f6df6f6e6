-- Specs of what is written about the module: the examples of the reference (lua/heed/meta.lua) and
-- the blocks of README.md and docs run; names stand in the reference if and only if they exist.

local blocks = require "spec.support.blocks"
local close = require "spec.support.close"
local heed = require "heed"
local device = require "spec.support.device"

local REFERENCE = "lua/heed/meta.lua"
local ELSEWHERE = {                                    -- files with examples
  "lua/heed/generate.lua", "lua/heed/nn/cache/init.lua", "lua/heed/nn/lora.lua",
  "lua/heed/profile.lua", "lua/heed/quantize.lua",
}

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
    return close(a, b, 0, 5.1e-5 * math.max(1, math.abs(b)))
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

  it("has them in files that are read here", function()
    local find <close> = assert(io.popen("grep -rl '^---> ' lua/heed"))
    local files = {REFERENCE, table.unpack(ELSEWHERE)}
    for path in find:lines() do
      local known = false
      for _, other in ipairs(files) do known = known or other == path end
      assert.is_true(known, path)
    end
  end)

  for _, path in ipairs(ELSEWHERE) do
    local more = examples(path)
    assert(#more > 0, path)
    table.move(more, 1, #more, #found + 1, found)
  end

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
  for _, name in ipairs{"accuracy", "capture", "confusion_matrix", "f1", "generate", "load",
                        "perplexity", "precision", "recall", "sample", "save", "train"} do
    assert(heed[name])                                       -- loads them
  end

  local pairs_of_tables = {
    {"functions of the module", documented, heed},
    {"functions of the core", documented.core, require "heed.core"},
    {"functions of heed.cuda", documented.cuda, heed.cuda},
    {"methods of tensors", Tensor, live_methods()},
  }
  for _, entry in ipairs(pairs_of_tables) do
    local what, written, live = table.unpack(entry)

    it("of the " .. what .. " are all in the reference", function()
      assert.are.equal("", missing(names_of(live), names_of(written)))
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


-- Blocks of the pages ----------------------------------------------------

-- Every page of docs, and how many blocks it has that run, at least.
local PAGES = {
  ["README.md"] = 2, ["docs/attention.md"] = 2, ["docs/embedding.md"] = 1,
  ["docs/from-pytorch.md"] = 1, ["docs/gpu.md"] = 1, ["docs/howto.md"] = 15,
  ["docs/memory.md"] = 2, ["docs/numbers.md"] = 1, ["docs/operations.md"] = 0,
  ["docs/models.md"] = 1,
  ["docs/tokenizers.md"] = 2,
  ["docs/tour.md"] = 6, ["docs/training.md"] = 3, ["docs/transformers.md"] = 6,
}

-- The C program is linked with the objects of all floors below the binding: it works without Lua.
local function run_c(block)
  local build = package.searchpath("heed.core", package.cpath):match("^(.*)/heed/core%.so$")
  local program = os.tmpname()
  local source <close> = assert(io.open(program .. ".c", "w"))
  source:write(block, "\n")
  source:flush()
  local sources = "$(find src -name '*.c' ! -path '*/lua/*' | sed 's:^\\(.*\\)c$:%s/\\1o:')"
  local command = ("cc -Isrc -o %s %s.c " .. sources .. " %s && %s")
    :format(program, program, build, "-lm -lpthread -ldl", program)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read("a")
  os.remove(program .. ".c")
  os.remove(program)
  return output
end


-- The output of lua.c after a line: the values of an expression, or an error without its trace.
local function answer(line, env)
  local f = load("return " .. line, "=stdin", "t", env) or assert(load(line, "=stdin", "t", env))
  local results = table.pack(pcall(f))
  for i = 2, results.n do results[i] = tostring(results[i]) end
  return results.n > 1 and table.concat(results, "\t", 2) .. "\n" or ""
end


-- A dialogue: lines that begin with '> ', each followed by what the prompt prints.
local function run_dialogue(block)
  local env = setmetatable({heed = heed}, {__index = _G})
  local shown = {}
  for line in block:gmatch("[^\n]+") do
    local input = line:match("^> (.*)$")
    if input then shown[#shown + 1] = line .. "\n" .. answer(input, env) end
  end
  assert.are.equal(block .. "\n", table.concat(shown))
end


-- Composed operations can't be captured.
local function when(block)
  local captures = block:find("heed.capture", 1, true) or block:find("capture = true", 1, true)
  return os.getenv "HEED_BUILD" == "basic" and captures and pending or it
end


for page, least in pairs(PAGES) do
  describe(page, function()
    local number = 0

    for kind, block in blocks.of(page) do
      number = number + 1
      local name = ("%s block %d"):format(page, number)
      local title = ("block %d runs: %s"):format(number, block:match("[^\n]*"))
      if kind == "lua" then
        when(block)(title, function()
          assert(blocks.run(block, name))
        end)
      elseif kind == "repl" then
        it(title, function()
          device.cpu()
          local good, message = pcall(run_dialogue, block)
          device.back()
          assert(good, message)
        end)
      elseif kind == "c" and (os.getenv("HEED_BUILD") or "release") == "release" then
        it(title, function()                             -- other builds need flags of theirs
          assert.matches("^%-?%d[%d.e-]* %-?%d[%d.e-]*\n$", run_c(block))
        end)
      end
    end

    it("has all its blocks", function() assert.is_true(number >= least, number) end)
  end)
end


-- Pages and links --------------------------------------------------------

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end


describe("the pages", function()
  local written = lines_of("ls README.md docs/*.md")

  it("of docs are all known here", function()
    for _, page in ipairs(written) do assert.is_truthy(PAGES[page], page) end
  end)

  it("link to files that exist", function()
    for _, page in ipairs{"CONTRIBUTING.md", "examples/README.md", table.unpack(written)} do
      local folder = page:match("^.*/") or ""
      for link in read(page):gmatch("%]%(([^)#]+)[^)]*%)") do
        assert.is_true(link:find("^https?:") or exists(folder .. link), page .. ": " .. link)
      end
    end
  end)

  -- Names in capitals and stars stand for others, and x_spec for any spec.
  it("name files of the repository that exist", function()
    for _, page in ipairs{"CONTRIBUTING.md", table.unpack(written)} do
      for path in read(page):gmatch("`(%l+/[%w_./-]+)`") do
        local folder = path:match("^%l+")
        local ours = exists(folder) and folder ~= "build" and not path:find("%u%u%u")
        assert.is_true(not ours or exists(path), page .. ": " .. path)
      end
    end
  end)

  -- A row of a table names files, and how many lines they have, or how many of them are to be read.
  it("say how long files are, to a tenth", function()
    local rows = 0
    for names, count, text in read("CONTRIBUTING.md"):gmatch("\n| ([^|]+) | (%d+) | ([^\n]+)") do
      local lines, folder = 0, ""
      for name in names:gmatch("`([^`]+)`") do
        if not name:find("/") then name = folder .. name end
        folder = name:match("^.*/")
        lines = lines + select(2, read(name):gsub("\n", ""))
      end
      rows = rows + 1
      lines = tonumber(text:match("read the first (%d+) lines")) or lines
      assert.is_true(close(tonumber(count), lines, 0.1, 0), names .. " has " .. lines)
    end
    assert.is_true(rows > 8, rows)
  end)

  it("that are read first are short", function()
    local _, words = read("README.md"):gsub("%S+", "")
    assert.is_true(words <= 1800, words)
  end)
end)
