-- The prompt: names in scope, and the command that is installed.

local heed = require "heed"
local prompt = require "heed.prompt"

local PARTS <const> = {"data", "mask", "nn", "optim", "plot"}
local MAKE <const> = "env -u MAKEFLAGS -u MAKELEVEL make -s -j1 "     -- this may be a test of make

-- The output of a command of the shell, and whether it succeeded.
local function said(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read("a")
  return text, pipe:close() == true
end


-- Installs the module into a folder and gives that to f, with variables that hide this tree.
local function installed(f)
  local folder = os.tmpname()
  os.remove(folder)
  local kind = os.getenv "HEED_BUILD" or "release"
  local text, good = said((MAKE .. "install KIND=%s PREFIX=%s"):format(kind, folder))
  assert.is_true(good, text)
  local done, why = pcall(f, "env -u LUA_PATH -u LUA_CPATH -u LUA_PATH_5_4 -u LUA_CPATH_5_4 "
                             .. folder .. "/bin/heed")
  os.execute("rm -r " .. folder)
  assert(done, why)
end


describe("the prompt", function()
  it("has heed and its parts in scope, and says so", function()
    local globals = {print = print}
    local banner = prompt(globals)
    assert.equal(heed, globals.heed)
    for _, name in ipairs(PARTS) do
      assert.equal(heed[name], globals[name])
      assert.is_truthy(banner:find("%f[%w]" .. name .. "%f[%W]"), banner)
    end
    assert.equal(print, globals.print)
    assert.matches("^heed 0%.1: .*heed%.help%(%)", banner)
  end)
end)


describe("make repl", function()
  it("ends Lua's own banner with what is in scope", function()
    local text = said("printf 'nn.Linear(2, 3).bias:numel()\nheed' | " .. MAKE .. "repl KIND="
                      .. (os.getenv "HEED_BUILD" or "release"))
    assert.matches("are in scope\n.*\n3\n", text)
  end)
end)


describe("the command", function()
  it("runs a line, a script with its arguments, or what comes in", function()
    if os.getenv "HEED_BUILD" ~= "release" then return pending "another build needs its runtime" end
    installed(function(command)
      local line = said(command .. [[ -e 'print(nn.Linear(2, 3), data.words, mask.causal())']])
      assert.matches("^Linear%(2, 3%).*heed%.data%.words.*causal%(%)", line)
      local script = os.tmpname()
      local file <close> = assert(io.open(script, "w"))
      file:write("print(plot.curve{1, 2}:text(false, 40) ~= '', optim.AdamW ~= nil, ...)")
      file:close()
      assert.equal("true\ttrue\ta b\n", (said(command .. " " .. script .. " 'a b'")))
      os.remove(script)
      assert.equal("6\n", (said("echo 'print(heed.arange(3):sum():item())' | " .. command)))
      local text, good = said(command .. " -e 'error(42)'")
      assert.is_false(good)
      assert.matches("42", text)
    end)
  end)
end)
