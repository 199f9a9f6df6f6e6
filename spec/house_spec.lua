-- The architecture, as a test: who includes whom, what is exported, how long files are.

-- What the files of a folder may include, besides the system's headers.
local floors = {
  {"src/core/scalar%.", {"heed.h", "core/scalar.h"}},
  {"src/core/layout%.", {"heed.h", "core/layout.h"}},
  {"src/core/", {"heed.h", "core/", "op/ops.def"}},
  {"src/cpu/", {"heed.h", "core/layout.h", "core/scalar.h", "core/device.h", "core/pool.h",
                "core/random.h", "cpu/", "op/ops.def"}},
  {"src/op/", {"heed.h", "core/", "op/"}},
  {"src/lua/", {"heed.h", "heed_lua.h", "lua_", "lua.h", "lauxlib.h", "lualib.h"}},
}

local function lines_of(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

local sources = lines_of("find src -name '*.[ch]' -o -name '*.def' | sort")
local scripts = lines_of("find lua spec examples bench -name '*.lua' | sort")

local function allowed(path, include)
  for _, floor in ipairs(floors) do
    if path:find("^" .. floor[1]) then
      for _, prefix in ipairs(floor[2]) do
        if include:sub(1, #prefix) == prefix then return true end
      end
      return false
    end
  end
  return path == "src/heed.h" and include == "op/ops.def"
end


describe("the house", function()
  it("has files that include from their own floor and below", function()
    assert.is_true(#sources > 30)
    for _, path in ipairs(sources) do
      for include in read(path):gmatch('\n%s*#%s*include%s+"([^"]+)"') do
        assert.is_true(allowed(path, include), path .. " includes " .. include)
      end
      if not path:find("^src/lua/") then
        assert.is_nil(read(path):find("#include <l?u?a?u?x?l?i?b?lua[%w]*%.h>"), path)
      end
    end
  end)

  it("has no file beyond 600 lines and no line beyond column 100", function()
    for _, list in ipairs {sources, scripts} do
      for _, path in ipairs(list) do
        if not path:find("^spec/golden/") then
          local n = 0
          for line in io.lines(path) do
            n = n + 1
            assert.is_true(utf8.len(line) == nil or utf8.len(line) <= 100,
                           ("%s:%d is too wide"):format(path, n))
          end
          assert.is_true(n <= 600 or path:find("meta.lua", 1, true) ~= nil,
                         path .. " has " .. n .. " lines")
        end
      end
    end
  end)

  it("has no mutable globals, and no way to end or to write to its host", function()
    for _, path in ipairs(sources) do
      local text = read(path):gsub("/%*.-%*/", ""):gsub('"[^"\n]*"', '""')
      for _, word in ipairs {"exit", "abort", "printf", "puts", "assert"} do
        assert.is_nil(text:find("[^%w_]" .. word .. "%s*%("), path .. " calls " .. word)
      end
    end
    for _, object in ipairs(lines_of("find build/release -name '*.o' -path '*src*' | sort")) do
      for _, line in ipairs(lines_of("objdump -t " .. object)) do
        local section, name = line:match("%s([.%w_]+)\t%x+%s+(%S+)$")
        local mutable = section and (section:find("^%.data") or section:find("^%.bss")
                                     or section:find("^%.tbss") or section:find("COM"))
        assert.is_falsy(mutable and not section:find("%.data%.rel%.ro") and name ~= section,
                        object .. " has the mutable global " .. tostring(name))
      end
    end
  end)

  it("exports heed_* and luaopen_heed* alone", function()
    local path = package.searchpath("heed.core", package.cpath)
    local names = lines_of("nm -D --defined-only " .. path)
    assert.is_true(#names > 20)
    for _, line in ipairs(names) do
      local name = line:match("^%x+ %a (.+)$")
      local known = name == nil or name:find("^heed_") or name:find("^luaopen_heed")
                    or name:find("^_") or name:find("^asan") or name:find("^ubsan")
      assert.is_truthy(known, tostring(name) .. " is exported")
    end
  end)

  it("leaves the global table alone", function()
    local script = "local n = 0 for _ in pairs(_G) do n = n + 1 end require 'heed' " ..
      "for _, m in ipairs{'nn', 'optim', 'tasks', 'plot', 'train', 'save'} do " ..
      "assert(require('heed')[m]) end for _ in pairs(_G) do n = n - 1 end os.exit(n == 0)"
    assert.is_truthy(os.execute(('lua5.4 -e "%s"'):format(script)))
  end)
end)
