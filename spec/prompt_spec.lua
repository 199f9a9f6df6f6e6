-- The prompt: names in scope, and the command that is installed.

local heed = require "heed"
local prompt = require "heed.prompt"

local PARTS <const> = {"data", "mask", "nn", "optim", "plot"}
local lua = arg and arg[-1] and not arg[-1]:find("busted") and arg[-1] or "lua5.4"
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


describe("an interactive prompt", function()
  local core, history = require "heed.core", require "heed.prompt.history"

  it("says whether Tab completes", function()
    local attach = core.readline.attach
    core.readline.attach = function(f) assert.is_function(f) return false end
    local banner = prompt({}, true)
    core.readline.attach = attach
    assert.matches("Tab completes nothing: this Lua reads its lines without readline", banner, 1,
                   true)
    assert.is_nil(prompt({}):find("Tab", 1, true))
  end)

  it("completes by what candidates have in common, then they, or by the only one", function()
    local attach, candidates = core.readline.attach, nil
    core.readline.attach = function(f) candidates = f return true end
    prompt({}, true)
    core.readline.attach = attach
    local function after(line) return candidates(line, #line + 1) end
    assert.same({"Linear"}, after "nn.Linea")
    assert.same({}, after "nn.Zz")
    assert.same({"LogS", "LogSigmoid", "LogSoftmax"}, after "nn.Log")
  end)

  it("has a history in a file that the environment names, or in none", function()
    local getenv, whole = os.getenv, os
    local function path_of(variables)
      rawset(os, "getenv", function(name) return variables[name] end)
      local path = history.path()
      rawset(os, "getenv", getenv)
      return path
    end
    assert.equal("/a/b", path_of{HEED_HISTORY = "/a/b", HOME = "/home"})
    assert.equal("/home/.heed_history", path_of{HOME = "/home"})
    for _, none in ipairs{{HEED_HISTORY = "", HOME = "/home"}, {HOME = ""}, {}} do
      assert.is_nil(path_of(none))
    end
    for _, other in ipairs{false, {}} do           -- states without the functions of processes
      _G.os = other or nil
      local good, path = pcall(history.path)
      _G.os = whole
      assert.is_true(good)
      assert.is_nil(path)
    end
  end)

  it("keeps the newest thousand lines of all that write to the file", function()
    local path = os.tmpname()
    history.add(path, {"first", "a\nb"})
    assert.same({"first", "a", "b"}, history.read(path))
    history.add(path, {})
    local many = {}
    for i = 1, 999 do many[i] = "line " .. i end
    history.add(path, many)
    local lines = history.read(path)
    assert.same({1000, "b", "line 999"}, {#lines, lines[1], lines[1000]})
    local file <close> = assert(io.open(path, "w"))
    file:write("a\0b\n\nlast")
    file:close()
    assert.same({"last"}, history.read(path))
    os.remove(path)
    assert.same({}, history.read(path))
    history.add("/nonexistent/history", {"a"})
  end)

  -- Types at a terminal of its own: keys, and what the shell says of it.
  local function typed(keys, path)
    local command = ("printf '%s%s' | TERM=dumb HEED_HISTORY=%s script -qec "
      .. "'%s -i -e \"print(require([[heed.prompt]])(_G, true))\"' /dev/null")
      :format(keys, "os.exit(true, true)\\n", path, lua)
    return (said(command))
  end

  it("completes at Tab, and has the lines of earlier prompts", function()
    if os.getenv "HEED_BUILD" ~= "release" then return pending "another build needs its runtime" end
    if not os.execute "script --version >/dev/null 2>&1" then
      return pending "script is not installed"
    end
    local path = os.tmpname()
    local text = typed("print(nn.Lin\\t(2, 3))\\nheed.manual_s\\t(3)\\n", path)
    if text:find "Tab completes nothing" then return pending "this Lua has no readline" end
    assert.matches("Linear(2, 3)     weight (3, 2)", text, 1, true)
    assert.matches("Tab completes names, methods and options", text, 1, true)
    assert.same({"print(nn.Linear(2, 3))", "heed.manual_seed(3)", "os.exit(true, true)"},
                history.read(path))
    text = typed("\\020\\020\\020\\n", path)           -- three lines up: ^P
    assert.matches("Linear(2, 3)     weight (3, 2)", text, 1, true)
    assert.same("print(nn.Linear(2, 3))", history.read(path)[4])
    os.remove(path)
    text = typed("x = 5\\nprint(x * 2)\\n", "/nonexistent/a")
    assert.matches("\n10\r?\n", text)
    assert.is_nil(text:find "[Nn]o such file")
  end)
end)


describe("make repl", function()
  it("ends Lua's own banner with what is in scope", function()
    local typed = "printf 'nn.Linear(2, 3).bias:numel()\nheed' | HEED_HISTORY= "
    local text = said(typed .. MAKE .. "repl KIND=" .. (os.getenv "HEED_BUILD" or "release"))
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
