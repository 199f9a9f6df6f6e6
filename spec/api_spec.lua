-- C and C++ modules of others take and give tensors without being linked against heed: two modules
-- (spec/c/modules) beside the ordinary core.so. Programs compile with heed's headers.

local heed = require "heed"
local device = require "spec.support.device"

local build = package.searchpath("heed.core", package.cpath):match("^(.*)/heed/core%.so$")
local modules = build .. "/spec/c/modules/?.so"

local INCLUDE = os.getenv("LUA_INCDIR") or "/usr/include/lua5.4"

local function loaded(name)
  local open = assert(package.loadlib(modules:gsub("?", name), "luaopen_" .. name))
  return open()
end

local function output_of(command)
  local pipe <close> = assert(io.popen("{ " .. command .. "; } 2>&1"))
  return pipe:read("a")
end


describe("a C module that is not linked against heed", function()
  local third = loaded("third")
  setup(device.cpu)                -- the program reads tensors' memory
  teardown(device.back)

  it("uses no symbol of heed's", function()
    for _, name in ipairs{"third", "third_cc"} do
      local names = output_of("nm -D --undefined-only " .. modules:gsub("?", name))
      assert.is_nil(names:find(" heed_"), names)
    end
  end)

  it("takes tensors and gives tensors, with their graph", function()
    local x = heed.tensor({1.0, 2, 3, 4}, {requires_grad = true})
    local y = third.mean_square(x)
    assert.are.equal(7.5, y:item())
    y:backward()
    assert.are.same({0.5, 1, 1.5, 2}, x.grad:totable())
  end)

  it("reads a tensor where it lies", function()
    local x = heed.tensor{{1.0, 2, 3}, {4, 5, 6}}
    assert.are.equal(21, third.sum(x))
    assert.are.equal(16, third.sum(x:t():narrow(1, 2, 2)))
  end)

  it("lends its memory, and has it back", function()
    local before = third.given_back()
    do
      local lent <close> = third.lend()
      assert.are.same({2, 4, 6}, (lent + lent):totable())
    end
    assert.are.equal(before + 1, third.given_back())
  end)

  it("calls operations by their names", function()
    assert.are.same({1, 2, 3}, third.call("sort", heed.tensor{3.0, 1, 2}):totable())
    local _, message = pcall(function() third.call("sofmax", heed.ones(1)) end)
    assert.matches("api_spec.lua:%d+: heed: there is no operation 'sofmax'", message)
    assert.error_matches(function() third.call("matmul", heed.ones(2, 2)) end, "matmul: ")
    assert.error_matches(function() third.sum(5) end, "'sum' %(a tensor expected, got 5%)")
    assert.are.equal(1, third.call("abs", heed.tensor{-1.0}):item())
  end)

  it("changes tensors in place by operations' names", function()
    local x = heed.tensor{-1.0, 2}
    assert.is_true(rawequal(x, third.change("abs", x)))
    assert.are.same({1, 2}, x:totable())
    local _, message = pcall(function() third.change("sofmax", x) end)
    assert.matches("api_spec.lua:%d+: heed: there is no operation 'sofmax'", message)
    assert.error_matches(function() third.change("softmax", x) end, "softmax")
    assert.error_matches(function() third.change("neg", heed.tensor{true}) end,
                         "neg_: not defined for tensors of type bool")
  end)

  it("is told where heed is another version, or an older one", function()
    local size = 4096
    assert.is_nil(third.other(1, size))
    assert.matches("built for version 1 of heed's interface .* has version 2", third.other(2, size))
    assert.matches("has version 1 %(8 bytes%)", third.other(1, 8))
  end)

  it("is told where heed is not loaded", function()
    local script = ("local open = package.loadlib(%q, 'luaopen_third') print(pcall(open))")
      :format((modules:gsub("?", "third")))
    local preload = os.getenv("LD_PRELOAD") and "" or "env "
    local said = output_of(("%slua5.4 -e %q"):format(preload, script))
    assert.matches('heed is not loaded in this state: require "heed" first', said, 1, true)
  end)
end)


describe("a C++ module that is not linked against heed", function()
  setup(device.cpu)
  teardown(device.back)

  local third = loaded("third_cc")

  it("takes tensors and gives tensors", function()
    assert.are.same({1.5, 3}, third.smooth(heed.tensor{1.0, 2, 4}):totable())
    assert.are.equal("float64", third.smooth(heed.tensor{1.0, 2}).dtype)
  end)

  it("has gradients of its own", function()
    local x = heed.tensor({1.0, 2}, {requires_grad = true});
    (third.reverse_gradient(x) * 3):sum():backward()
    assert.are.same({-3, -3}, x.grad:totable())
  end)
end)


describe("heed's headers", function()
  it("declare no function that nobody calls", function()
    local function code_of(path)
      local file <close> = assert(io.open(path))
      return (file:read("a"):gsub("/%*.-%*/", ""))
    end
    local function each(files, visit)
      for path in output_of("ls " .. files):gmatch("%S+") do visit(code_of(path)) end
    end
    local used, declared = {}, 0
    each("src/*.c src/*/*.c src/*/*/*.h spec/c/*.c spec/c/*.h spec/c/*/*.c", function(text)
      for name, rest in text:gmatch("%f[%w_](heed_[%w_]+)(.?.?)") do
        if rest ~= " (" then used[name] = true end            -- no definition
      end
    end)
    each("src/heed*.h src/lua/heed_*.h", function(text)
      for name in text:gmatch("HEED_API%s[^;(]-%f[%w_](heed_[%w_]+) %(") do
        assert.is_true(used[name], name .. " has no caller and no test")
        declared = declared + 1
      end
    end)
    assert.is_true(declared > 150)
  end)

  local function compile(language, body)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write('#include "heed_lua.h"\n#include "heed_api.h"\n', body, "\n")
    file:close()
    local command = "gcc -Isrc -Isrc/lua -I%s -Wall -Wextra -fsyntax-only -x %s %s && echo fine"
    local said = output_of(command:format(INCLUDE, language, path))
    os.remove(path)
    return said
  end

  local USE = "heed_context *f (lua_State *L, heed_tensor *t, const heed_tensor *c) { (void)%s; "
              .. "return %s; }"

  for _, language in ipairs{"c", "c++"} do
    it("refuse a Lua state where a tensor is expected, in " .. language, function()
      for _, right in ipairs{"heed_lua_context(L)", "heed_context_of(t)", "heed_context_of(c)"} do
        local use = USE:format("L, (void)t, (void)c", right)
        assert.are.equal("fine\n", compile(language, use))
      end
      local use = USE:format("L, (void)t, (void)c", "heed_context_of(L)")
      assert.matches("error", compile(language, use))
    end)
  end
end)
