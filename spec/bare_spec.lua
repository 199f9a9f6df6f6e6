-- heed loads in programs without the libraries 'debug', 'io' and 'os', and refuses other versions
-- of Lua; its rock is complete.

local here = "LUA_PATH='./lua/?.lua;./lua/?/init.lua'"

local function output_of(command, ...)
  local pipe <close> = assert(io.popen("{ " .. command:format(...) .. "; } 2>&1"))
  return (pipe:read("a"):gsub("%s+$", ""))
end

local function is_here(program)
  return os.execute("command -v " .. program .. " >/dev/null 2>&1") == true
end

-- Runs a script in a process of its own, without some of Lua's libraries.
local function run_without(libraries, script)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  for name in libraries:gmatch("%a+") do
    file:write(("%s, package.loaded.%s = nil\n"):format(name, name))
  end
  file:write(script)
  file:close()
  local said = output_of("lua5.4 %s", path)
  os.remove(path)
  return said
end

local TRAINING = [[
local heed = require "heed"
local model = heed.nn.Sequential{heed.nn.Linear(2, 2), heed.nn.ReLU()}
local x = heed.ones(1, 2)
heed.train{
  model = model, loss = heed.mse_loss, batches = function() return x, x end, steps = 2,
  optimizer = heed.optim.AdamW(model:parameters()),
}
assert(tostring(heed.plot.heat{{1, 2}}) and tostring(model))
assert(heed.plot.heat{{1, 2}}:text():find("%d"))
local saved, why = heed.plot.curve{1, 2}:save("picture.svg")
print(pcall(heed.zeros, 2, "x"))
]]


describe("a program without some of Lua's libraries", function()
  for _, libraries in ipairs{"debug", "io", "os", "debug, io, os"} do
    it("loads heed and trains without " .. libraries, function()
      local picture = os.tmpname()
      local said = run_without(libraries, (TRAINING:gsub("picture", picture)))
      os.remove(picture)
      os.remove(picture .. ".svg")
      assert.matches("step 2/2  loss", said)
      assert.matches("false\t[^:]*:%d+: zeros: [^\n]*$", said)     -- no line of heed's own
      assert.is_nil(said:find("lua/heed"), said)
    end)
  end
end)


describe("a program that requires heed twice", function()
  it("has tensors of one kind where package.loaded forgot the first", function()
    local said = run_without("", [[
local first = require "heed"
for name in pairs(package.loaded) do
  if name:find "^heed" then package.loaded[name] = nil end
end
local second = require "heed"
print((first.ones(2) + second.ones(2)):sum():item(), first == second)
]])
    assert.equal("4.0\tfalse", said)
  end)

  it("is told so where the second is a copy of the library", function()
    local copy = os.tmpname()
    local said = run_without("", ([[
local heed, path = require "heed", %q
assert(os.execute("cp '" .. package.searchpath("heed.core", package.cpath) .. "' " .. path))
local core = assert(package.loadlib(path, "luaopen_heed_core"))().public
print(pcall(heed.add, heed.ones(2), core.ones{2}))
print(pcall(core.add, heed.ones(2), core.ones{2}))
print(core.sum(core.ones{2}):item())
]]):format(copy))
    os.remove(copy)
    local refused = "false\t[^\n]*add: [^\n]*expected, got a userdata\n"
    assert.matches("^" .. refused .. refused .. "2%.0$", said)
  end)
end)


describe("another Lua", function()
  local others = {["lua5.1"] = "Lua 5.1", ["lua5.3"] = "Lua 5.3", luajit = "LuaJIT 2"}
  for program, version in pairs(others) do
    it("is told that heed needs Lua 5.4: " .. program, function()
      if not is_here(program) then return pending(program .. " is not here") end
      local said = output_of("%s %s -e 'require \"heed\"'", here, program)
      assert.matches(program .. ": heed needs Lua 5.4, this is " .. version, said, 1, true)
    end)
  end
end)


describe("another version of Lua", function()
  it("is named, be it older or newer", function()
    for _, version in ipairs{"Lua 5.5", "Lua 5.3", "Lua 6.0"} do
      local said = output_of("lua5.4 -e '_VERSION = \"%s\" require \"heed\"'", version)
      assert.matches("heed needs Lua 5.4, this is " .. version, said, 1, true)
    end
  end)

  it("is refused by the compiler, with its headers", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local header <close> = assert(io.open(folder .. "/lua.h", "w"))
    header:write("#include_next <lua.h>\n#undef LUA_VERSION_NUM\n#define LUA_VERSION_NUM 505\n")
    header:flush()
    local said = output_of("cc -fsyntax-only -I%s -Isrc -I%s src/lua/lua_options.c", folder,
                           os.getenv "LUA_INCDIR" or "/usr/include/lua5.4")
    os.execute("rm -r " .. folder)
    assert.matches("error: .*heed needs Lua 5.4: set LUA_INCDIR", said)
  end)
end)


describe("an environment variable that is empty", function()
  it("is one that is not set: HEED_LEVEL", function()
    local script = "lua5.4 -e 'print(require(\"heed\").level())'"
    assert.matches("^%l+", output_of("HEED_LEVEL= " .. script))
    assert.matches("no level 'none' here", output_of("HEED_LEVEL=none " .. script))
  end)

  it("is one that is not set: the level is the widest that this CPU has", function()
    local said = output_of("HEED_LEVEL= lua5.4 -e '%s'", [[
      local heed = require "heed"
      local here, widest = heed.level(), "base"
      for _, name in ipairs{"neon", "avx2", "avx512"} do
        if pcall(heed.level, name) then widest = name end
      end
      print(here == widest, here, widest)]])
    assert.matches("^true", said)
  end)
end)


-- The program script runs another one in a terminal of its own.
local in_terminal = os.execute "script -qec true /dev/null >/dev/null 2>&1 </dev/null" and it
                    or pending

describe("a picture that is printed", function()
  local DRAW <const> = [[lua5.4 -e 'print(require("heed").plot.heat{{1, 2}})']]

  local function has_colour(environment, command)
    return output_of(environment .. " " .. command):find("\27[48;2;", 1, true) ~= nil
  end

  in_terminal("has colours in a terminal that has them, unless they are refused", function()
    local drawn = ("script -qec %q /dev/null </dev/null"):format(DRAW)
    for environment, wanted in pairs{
      ["COLORTERM=truecolor NO_COLOR="] = true, ["COLORTERM=24bit NO_COLOR="] = true,
      ["COLORTERM=24bit NO_COLOR=1"] = false, ["COLORTERM=yes NO_COLOR="] = false,
      ["COLORTERM="] = false,
    } do
      assert.equal(wanted, has_colour(environment, drawn), environment)
    end
  end)

  it("has none in a file", function()
    assert.is_false(has_colour("COLORTERM=24bit NO_COLOR=", DRAW))
  end)
end)


local MAKE <const> = "env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory "

describe("make install", function()
  it("says where it installs, and nothing of how", function()
    local place = os.tmpname()
    os.remove(place)
    local said = output_of(MAKE .. "install -o all KIND=%s DESTDIR=%s PREFIX=/p",
                           os.getenv "HEED_BUILD" or "release", place)
    local there = output_of("cd %s && find . -type f", place)
    os.execute("rm -rf " .. place)
    assert.equal("install " .. place .. "/p", said)
    for _, path in ipairs{"share/lua/5.4/heed/init.lua", "share/lua/5.4/heed/nn/init.lua",
                          "lib/lua/5.4/heed/core.so", "bin/heed"} do
      assert.is_truthy(there:find("/p/" .. path, 1, true), path .. " is missing")
    end
  end)
end)


describe("make rock", function()
  local make = MAKE .. "rock "

  it("asks where the source is", function()
    assert.matches("where is the source%? make rock URL=", output_of(make))
  end)

  it("writes a rockspec that names its source and tag, and packs what is there", function()
    if not is_here("luarocks") then return pending("luarocks is not here") end
    if not is_here("git") or not os.execute("git rev-parse HEAD >/dev/null 2>&1") then
      return pending("no repository is here")
    end
    local clone = os.tmpname()
    os.remove(clone)
    local version = require("heed")._VERSION:match("%S+$")
    output_of("git clone -q . %s && git -C %s tag v%s", clone, clone, version)
    local said = output_of(make .. "URL=git+file://%s", clone)
    os.execute("rm -rf " .. clone)
    local rock = "build/rock/heed-" .. version .. "-1"
    local spec = {}
    assert(loadfile(rock .. ".rockspec", "t", spec))()
    assert.are.same({url = "git+file://" .. clone, tag = "v" .. version}, spec.source)
    assert.are.equal(version .. "-1", spec.version)
    assert.is_truthy(io.open(rock .. ".src.rock"), said)
  end)
end)
