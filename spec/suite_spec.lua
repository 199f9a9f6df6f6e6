-- What runs the specs: a file without tests and a test without a comparison have failed, and
-- `make bare` hides what it says.

local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a")
end

-- What busted says of a file with this text.
local function run(text)
  local path = os.tmpname()
  local file <close> = assert(io.open(path .. "_spec.lua", "w"))
  file:write(text)
  file:flush()
  local said = output_of("lua5.4 spec/support/busted.lua " .. path .. "_spec.lua")
  os.remove(path)
  os.remove(path .. "_spec.lua")
  return said
end


describe("a spec", function()
  it("fails without a test", function()
    for _, text in ipairs{"", "describe('x', function() end)",
                          "describe('x', function() if false then it('y', function() end) end end)"}
    do
      local said = run(text)
      assert.matches("_spec.lua has no test\n", said)
      assert.matches("\n0 passed, 1 failed\n$", said)
    end
  end)

  it("is counted", function()
    assert.matches("\n1 passed, 0 failed\n$", run "it('x', function() assert(true) end)")
    assert.matches("\n1 passed, 0 failed, 1 skipped\n$",
                   run "it('x', function() assert(1) end) it('y', function() pending('') end)")
    assert.matches("\n1 passed, 2 failed\n$", run [[
      it('x', function() assert.is_true(true) end)
      it('y', function() error() end)
      it('z', function() assert(false) end)
    ]])
    assert.matches("\n0 passed, [12] failed\n$", run "local = 3")
  end)
end)


describe("the Makefile's lists of specs", function()
  it("name specs that are there", function()
    local lists = {"LONG", "EARLY", "NOT_emulated", "NOT_emulated-asan", "NEON", "NO_KERNELS",
                   "ALONE"}
    for _, list in ipairs(lists) do
      local said = output_of(("env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory " ..
                              "--eval 'shown:; @echo $(%s)' shown"):format(list))
      local n = 0
      for name in said:gmatch("%S+") do
        local path = name:find("_spec%.lua$") and name or name:match("spec/c/.*") .. ".c"
        local file <close> = io.open(path)
        assert.is_truthy(file, ("%s: there is no %s"):format(list, path))
        n = n + 1
      end
      assert.is_true(n > 2, list .. " is empty: " .. said)
    end
  end)
end)


describe("a test", function()
  it("fails where it compares nothing, whatever those before it did", function()
    local said = run [[
      it('one', function() assert.equal(1, 1) end)
      it('two', function() local list = {} for _, x in ipairs(list) do assert(x) end end)
      it('three', function() assert.is_nil(nil) end)
    ]]
    assert.matches("two: nothing is asserted\n", said)
    assert.not_matches("one: nothing", said)
    assert.not_matches("three: nothing", said)
    assert.matches("\n2 passed, 1 failed\n$", said)
  end)

  it("compares by the helpers that raise errors, too", function()
    assert.matches("\n1 passed, 0 failed\n$", run [[
      local close = require "spec.support.close"
      it('one', function() if not close(1, 1, 0) then error() end end)
    ]])
  end)
end)


describe("HEED_WITHOUT", function()
  -- What a file of heed's Lua half finds under global names, in a process with these settings.
  local function seen(settings)
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir -p " .. folder .. "/heed"))
    local file <close> = assert(io.open(folder .. "/heed/probe.lua", "w"))
    file:write "return type(debug) .. ' ' .. type(io) .. ' ' .. type(print)"
    file:flush()
    local said = output_of(("%s lua5.4 -e 'package.path = package.path .. \";%s/?.lua\" " ..
                            "io.write((require \"heed.probe\"))'"):format(settings, folder))
    os.execute("rm -r " .. folder)
    return said
  end

  it("hides libraries from the Lua half", function()
    local first = "LUA_INIT_5_4=\"require 'spec.support.without'\" HEED_WITHOUT="
    assert.equal("nil table function", seen(first .. "debug"))
    assert.equal("nil nil function", seen(first .. "debug,io"))
    assert.equal("table table function", seen(first))
  end)

  it("holds in this run", function()
    local hides = (os.getenv "HEED_WITHOUT" or ""):find "debug"
    assert.equal((hides and "nil" or "table") .. " table function", seen "")
  end)
end)
