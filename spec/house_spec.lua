-- The architecture, as a test: which files include and call which, what is exported, lengths.

local rows = require "spec.support.rows"

-- The files that those of a folder may include, besides the system's headers; the first that fits
-- holds.
local for_kernels = {
  "heed.h", "base/aligned.h", "base/blocks.def", "base/eights.h", "base/layout.h", "base/random.h",
  "base/scalar.h", "base/view.h", "base/work.h", "base/works.def", "base/optimizer.h",
  "memory/device.h", "memory/pool.h", "op/ops.def", "op/masks.def", "op/optimizers.def",
}
local floors = {
  {"src/heed_optim%.h", {"op/optimizers.def"}},
  {"src/heed_json%.h", {"heed.h"}},
  {"src/heed_text%.h", {"heed.h"}},
  {"src/heed_models%.h", {"heed.h", "heed_text.h"}},
  {"src/heed_search%.h", {"heed.h"}},
  {"src/heed%.h", {"base/blocks.def", "heed_optim.h", "heed_profile.h", "op/ops.def",
                   "op/masks.def", "op/optimizers.def"}},
  {"src/heed%.c", {"heed.h", "memory/", "tensor/", "cpu/cpu.h", "op/op.h"}},
  {"src/base/", {"heed.h", "base/", "op/masks.def", "op/optimizers.def"}},
  {"src/memory/", {"heed.h", "base/", "memory/", "op/ops.def"}},
  {"src/tensor/", {"heed.h", "base/", "memory/", "tensor/"}},
  {"src/text/", {"heed.h", "heed_json.h", "heed_text.h", "memory/", "text/"}},
  {"src/search/", {"heed.h", "heed_search.h", "memory/", "search/"}},
  {"src/cpu/", {"cpu/", table.unpack(for_kernels)}},
  {"src/graph/", {"heed.h", "base/", "memory/", "tensor/", "graph/", "op/ops.def"}},
  {"src/op/", {"heed.h", "base/", "memory/", "tensor/", "graph/", "op/"}},
  {"src/lua/", {"heed.h", "heed_api.h", "heed_json.h", "heed_lua.h", "heed_models.h",
                "heed_search.h", "heed_text.h", "lua_", "lua.h", "lauxlib.h", "lualib.h",
                "base/blocks.def", "op/optimizers.def"}},
  {"cuda/runtime%.h", {"spec/emulated/emulate.h"}},
  {"cuda/", {"cuda/", "memory/plugin.h", "cpu/vector/math.h", table.unpack(for_kernels)}},
  {"spec/emulated/", {"cuda/", "spec/emulated/"}},
}

-- The rooms of src/, and which rooms each of them calls; all other functions are called through
-- tables that were handed down: of device.h, of a context's close, of rows. heed.c puts a context
-- together. The binding calls what heed.h declares.
local ROOMS = {
  base = {},
  memory = {"base"},
  cpu = {"base", "memory"},
  tensor = {"base", "memory"},
  graph = {"base", "memory", "tensor"},
  op = {"base", "memory", "tensor", "graph"},
  search = {"memory"},
  text = {"memory"},
  heed = {"base", "memory", "cpu", "tensor", "graph", "op"},
  lua = {"memory", "tensor", "graph", "op", "heed", "search", "text"},
}

local VENDORS = {cuda = true, gpu = true, gpus = true, nvidia = true}


local function lines_of(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function without_comments(text)
  return (text:gsub("/%*.-%*/", ""):gsub("//[^\n]*", ""))
end

local core_sources = lines_of("find src -name '*.[ch]' -o -name '*.def' | sort")
local cuda_sources = lines_of("find cuda spec/emulated -name '*.cu' -o -name '*.cc' -o -name '*.h'")
local programs = lines_of("find spec/c examples -name '*.[ch]' -o -name '*.c[cu]'")
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
  return false
end

-- Functions of src/graph that take the index of an argument, input or result behind a call or a
-- backward: arg_flag, check_axis, give ….
local function indexed()
  local names = {}
  for _, header in ipairs{"call", "check", "backward"} do
    for line in read("src/graph/" .. header .. ".h"):gmatch("[^\n]+") do
      local name = line:match("([%w_]+) %(c?o?n?s?t? ?call %*c, int i[,)]")
                   or line:match("([%w_]+) %(c?o?n?s?t? ?backward %*b, int i[,)]")
      if name then names[name] = true end
    end
  end
  return names
end

local by_index = indexed()

-- The first argument, input or result that a text finds by its number instead of its name.
local function literal_index(text)
  for _, pattern in ipairs{"%f[%w_]args%[%s*%d", "%f[%w_]b%->gs%[%s*%d", "%f[%w_]c%->out%[%s*%d"} do
    local found = text:match(pattern .. "[^\n]*")
    if found then return found end
  end
  for name, rest in text:gmatch("%f[%w_]([%a_]+)%(%s*%w+,%s*(%d[^\n]*)") do
    if by_index[name] then return name .. "(… " .. rest end
  end
end

-- The first word of a text that names a vendor of devices; gpu_memory has two words.
local function vendor_in(text)
  for word in text:gmatch("%a+") do
    if VENDORS[word:lower()] then return word end
  end
end

-- The folder with the objects of the build that runs: build/release, build/asan, ....
local function build_folder()
  return os.getenv "HEED_OBJECTS"
         or package.searchpath("heed.core", package.cpath):match("^(.*)/heed/core%.so$")
end

-- "memory" for "src/memory/pool.c", "heed" for "src/heed.c".
local function room_of(source) return source:match("^src/([^/.]+)") end

-- The objects that were made of the sources there are: {room, path, defined, used} by path, where
-- the names that an object defines for others and uses from them are keys. An object that is left
-- over from a source that is gone does not count.
local function objects()
  local build, list = build_folder(), {}
  local command = "cd '%s' && find src -name '*.o' -exec nm -A {} + 2>/dev/null"
  for _, line in ipairs(lines_of(command:format(build))) do
    local path, kind, name = line:match("^(%S+)%.o:%s*%x*%s+(%a) ([%w_]+)$")
    local file = path and io.open(path .. ".c")
    if file then
      file:close()
      list[path] = list[path] or {room = room_of(path), path = path, defined = {}, used = {}}
      if kind == "U" then list[path].used[name] = true
      elseif kind:find("%u") then list[path].defined[name] = true end
    end
  end
  return list
end

-- Calls between rooms: {from, to, text} for each call of a function of another room.
local function calls_between(list)
  local home, calls = {}, {}
  for _, object in pairs(list) do
    for name in pairs(object.defined) do home[name] = object end
  end
  for _, object in pairs(list) do
    for name in pairs(object.used) do
      local other = home[name]
      if other and other.room ~= object.room then
        calls[#calls + 1] = {from = object.room, to = other.room, name = name,
                             text = ("%s.c calls %s of %s.c"):format(object.path, name, other.path)}
      end
    end
  end
  return calls
end

local function contains(list, value)
  for _, each in ipairs(list or {}) do
    if each == value then return true end
  end
  return false
end

-- The first call that its room may not make, or nil.
local function upward(calls)
  for _, call in ipairs(calls) do
    if not contains(ROOMS[call.from], call.to) then return call.text end
    if call.from == "lua" and not call.name:find("^heed_") then return call.text end
  end
end

-- A room that reaches itself through the calls of others, or nil.
local function cycle(calls)
  local reached = {}
  for room in pairs(ROOMS) do reached[room] = {} end
  for _, call in ipairs(calls) do reached[call.from][call.to] = true end
  for middle in pairs(ROOMS) do
    for from in pairs(ROOMS) do
      for to in pairs(ROOMS) do
        if reached[from][middle] and reached[middle][to] then reached[from][to] = true end
      end
    end
  end
  for room in pairs(ROOMS) do
    if reached[room][room] then return room end
  end
end

-- Which modules of the Lua half each of its files requires, by names; a file that requires names of
-- a list requires all modules that it names. heed/init.lua loads public modules when they are first
-- touched: that is no edge, but no other file may touch them so (lazy_uses).
local function lua_requires()
  local texts, graph = {}, {}
  for _, path in ipairs(scripts) do
    local name = path:match("^lua/(.*)%.lua$")
    if name and name ~= "heed/meta" then
      texts[name:gsub("/init$", ""):gsub("/", ".")] = read(path):gsub("%-%-[^\n]*", "")
    end
  end
  for name, text in pairs(texts) do
    graph[name] = {}
    local pattern = 'require%s*%(?%s*"([%w_.]+)"'
    if text:find("require%([%a_]") or text:find('require%("[^"]*" %.%.') and name ~= "heed" then
      pattern = '"([%w_.]+)"'
    end
    for other in text:gmatch(pattern) do
      local full = texts[other] and other or texts[name .. "." .. other] and name .. "." .. other
      if full and full ~= name then graph[name][full] = true end
    end
  end
  return graph
end

-- The names of `heed` that load a module when they are first touched: {mask = true, …}.
local function lazy_names()
  local names, text = {}, read("lua/heed/init.lua")
  for list in text:gmatch("\nlocal %l+ = (%b{})") do
    for name in list:gmatch('([%w_]+) = "') do names[name] = true end
  end
  return names
end

-- Where files of the Lua half reach such a module through the table `heed`, which hides that they
-- require it: {"lua/heed/x.lua: heed.mask"}.
local function lazy_uses(names)
  local uses = {}
  for _, path in ipairs(scripts) do
    if path:find("^lua/") and not path:find("meta%.lua$") and path ~= "lua/heed/init.lua" then
      local text = read(path):gsub("%-%-[^\n]*", ""):gsub('%b""', ""):gsub("%b''", "")
      for name in text:gmatch("%f[%w_]heed%.([%w_]+)") do
        if names[name] then uses[#uses + 1] = path .. ": heed." .. name end
      end
    end
  end
  return uses
end

-- Edges between rooms: the folders of lua/heed, and the files beside them.
local function rooms_of(graph)
  local rooms = {}
  for name, others in pairs(graph) do
    local own = name:match("^heed%.([%w_]+)") or "heed"
    rooms[own] = rooms[own] or {}
    for other in pairs(others) do
      local room = other:match("^heed%.([%w_]+)") or "heed"
      if room ~= own then rooms[own][room] = true end
    end
  end
  return rooms
end

-- The nodes of a cycle, as "a -> b -> a"; nil if there is none.
local function cycle_in(graph)
  local state, stack = {}, {}
  local function visit(node)
    if state[node] == "done" then return end
    stack[#stack + 1] = node
    if state[node] == "open" then
      local text = table.concat(stack, " -> ")
      return text:sub((text:find(node, 1, true)))
    end
    state[node] = "open"
    for other in pairs(graph[node] or {}) do
      local found = visit(other)
      if found then return found end
    end
    state[node] = "done"
    stack[#stack] = nil
  end
  for node in pairs(graph) do
    local found = visit(node)
    if found then return found end
  end
end


describe("the house", function()
  it("has files that include from their own floor and below", function()
    assert.is_true(#core_sources > 30 and #cuda_sources > 30)
    for _, list in ipairs{core_sources, cuda_sources} do
      for _, path in ipairs(list) do
        for include in ("\n" .. read(path)):gmatch('\n%s*#%s*include%s+"([^"]+)"') do
          assert.is_true(allowed(path, include), path .. " includes " .. include)
        end
        for include in read(path):gmatch("#%s*include%s+<(%a+/[^>]+)>") do
          assert.is_nil(io.open("src/" .. include), path .. " includes <" .. include .. ">")
        end
        if not path:find("^src/lua/") then
          assert.is_nil(read(path):find("#include <l?u?a?u?x?l?i?b?lua[%w]*%.h>"), path)
        end
      end
    end
    assert.matches('\n#ifndef __CUDACC__\n#include "spec/emulated/emulate.h"\n#endif\n',
                   read("cuda/runtime.h"), 1, true)
    assert.is_false(allowed("src/tensor/node.c", "graph/call.h"))
    assert.is_false(allowed("src/cpu/cpu.c", "tensor/tensor.h"))
    assert.is_false(allowed("cuda/device/device.cu", "tensor/tensor.h"))
  end)

  it("has rooms that call only those below them, without a cycle", function()
    local list, seen = objects(), {}
    for _, path in ipairs(core_sources) do
      local room = room_of(path)
      if path:find("%.c$") then assert.is_table(ROOMS[room], path .. " stands in no room") end
      if path:find("%.c$") and room ~= "lua" then
        io.open(("%s/%s.o"):format(build_folder(), path:sub(1, -3)), "rb"):close()
      end
    end
    for _, object in pairs(list) do
      if next(object.defined) then seen[object.room] = true end
    end
    for room in pairs(ROOMS) do assert.is_true(seen[room], room .. " has no symbols") end
    local calls = calls_between(list)
    assert.is_true(#calls > 500, #calls)
    assert.is_nil(upward(calls))
    assert.is_nil(cycle(calls))
  end)

  it("sees a call that goes up, and a cycle", function()
    local function object(room, defined, used)
      return {room = room, path = "src/" .. room .. "/x", defined = {[defined] = true},
              used = {[used] = true}}
    end
    local up = calls_between{object("memory", "heed_trim", "heed_drop"),
                             object("tensor", "heed_drop", "heed_trim")}
    assert.equal("src/memory/x.c calls heed_drop of src/tensor/x.c", upward(up))
    assert.is_string(cycle(up))
    local down = calls_between{object("memory", "heed_trim", "malloc"),
                               object("tensor", "heed_drop", "heed_trim")}
    assert.equal(1, #down)
    assert.is_nil(upward(down))
    assert.is_nil(cycle(down))
    assert.is_string(upward{{from = "lua", to = "tensor", name = "tensor_new", text = "src/lua"}})
  end)

  it("names no vendor in its core outside the file that loads plugins", function()
    for _, path in ipairs(core_sources) do
      if (path:find("^src/base/") or path:find("^src/memory/") or path:find("^src/tensor/"))
         and path ~= "src/memory/plugin.c" then
        local found = vendor_in(without_comments(read(path)))
        assert.is_nil(found, ("%s says %s"):format(path, found))
      end
    end
    assert.equal("GPU", vendor_in("#define CORE_GPUS_OF_GPU 1"):sub(1, 3))
    assert.equal("cuda", vendor_in('if (is("cuda:0")) discard()'))
    assert.is_nil(vendor_in("discard(cardinal)"))
  end)

  it("knows no operation in its engine but those that it calls itself", function()
    local called = {add = true, arange = true, clone = true, copy = true, fill = true,
                    permute = true, put = true, reshape = true, sum = true, to = true, view = true,
                    zero = true}
    local function unknown_op(text)
      for name in text:gmatch("HEED_(%l[%w_]*)") do
        if rows.by_name[name] and not called[name] then return name end
      end
    end
    for _, path in ipairs(core_sources) do
      if path:find("^src/graph/") then
        local found = unknown_op(without_comments(read(path)))
        assert.is_nil(found, ("%s names %s: a property in ops.def?"):format(path, found))
      end
    end
    assert.equal("pow", unknown_op("if (c->op == HEED_pow) return HEED_add;"))
  end)

  it("finds arguments, inputs and results by their names", function()
    for _, path in ipairs(core_sources) do
      if path:find("^src/op/.*%.c$") or path:find("^src/graph/.*%.c$") then
        local text = without_comments(read(path))
        -- call.c makes them
        if path == "src/graph/call.c" then text = text:gsub("c%->out%[", "") end
        local found = literal_index(text)
        assert.is_nil(found, path .. ": " .. tostring(found))
      end
    end
    for _, text in ipairs{
      "x = c->args[2]", "arg_flag(c, 3)", "check_axis(c, 1, n, &axis)", "check_refuse(c, 0, \"\")",
      "g2 = input(b, 0)", "return give(b, 1, g)", "output(b, 2)", "if (wants(b, 0))", "b->gs[1]",
      "c->out[0] = t",
    } do
      assert.is_string(literal_index(text), text)
    end
    assert.is_nil(literal_index("give(b, IN(sum, input), w.out[0]); arg_flag(c, ARG(sum, dim))"))
  end)

  it("leaves no value of an enum to 'default:'", function()
    local known = {["size"] = true, ["bytes"] = true, ["scalar_sizes[to->type]"] = true}
    local function wrong_in(text)
      local found, open = {}, nil
      for line in without_comments(text):gmatch("[^\n]+") do
        open = line:match("switch %((.*)%) {") or open
        if line:find("%f[%w_]default:") and not known[open] and not open:find("^lua_type%(") then
          found[#found + 1] = open
        end
      end
      return found
    end
    assert.same({"w->kind"}, wrong_in("switch (w->kind) {\n  default: break;\n}"))
    for _, path in ipairs(lines_of("find src cuda -name '*.[ch]' -o -name '*.cu'")) do
      assert.same({}, wrong_in(read(path)), path)
    end
  end)

  it("has at its top what its users know, and nothing that a run left there", function()
    local found = lines_of("git ls-files 2>/dev/null | sed 's:/.*:/:' | sort -u")
    if #found == 0 then return pending("this is no checkout of git, or git is not here") end
    table.sort(found)
    assert.same({".busted", ".ci/", ".clang-format", ".gitignore", ".luacheckrc", "CONTRIBUTING.md",
                 "LICENSE", "Makefile", "README.md", "bench/", "cuda/", "docs/", "examples/",
                 "heed-scm-1.rockspec", "heed.in", "heed.pc.in", "lua/", "spec/", "src/"}, found)
  end)

  it("has no file beyond 600 lines and no line beyond column 100", function()
    for _, list in ipairs{core_sources, cuda_sources, programs, scripts} do
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

  -- A signal's handler gets no argument, and finds mapped files in a variable.
  local SHARED <const> = {["src/memory/mapping"] = "mapped"}

  it("has no mutable globals, and no way to end or to write to its host", function()
    local sources = table.move(cuda_sources, 1, #cuda_sources, #core_sources + 1,
                               {table.unpack(core_sources)})
    for _, path in ipairs(sources) do
      local text = without_comments(read(path)):gsub('"[^"\n]*"', '""')
      if not path:find("^spec/") then
        for _, word in ipairs{"exit", "abort", "printf", "puts", "assert"} do
          assert.is_nil(text:find("[^%w_]" .. word .. "%s*%("), path .. " calls " .. word)
        end
      end
    end
    local kept = 0
    for path in pairs(objects()) do
      local object = build_folder() .. "/" .. path .. ".o"
      kept = kept + 1
      for _, line in ipairs(lines_of("objdump -t " .. object)) do
        local section, name = line:gsub(" %.hidden ", " "):match("%s([.%w_]+)\t%x+%s+(%S+)$")
        local mutable = section and (section:find("^%.data") or section:find("^%.bss")
                                     or section:find("^%.tbss") or section:find("COM"))
                        and SHARED[path] ~= name
        mutable = mutable and not name:find("^__") and not name:find("^%.L")    -- a compiler's own
        assert.is_falsy(mutable and not section:find("%.data%.rel%.ro") and name ~= section,
                        object .. " has the mutable global " .. tostring(name))
      end
    end
    assert.is_true(kept > 50, kept)
  end)

  it("reaches files for scripts in two files of C, and in none of Lua but gnuplot's", function()
    for _, path in ipairs(core_sources) do
      local those = path == "src/lua/lua_file.c" or path == "src/lua/lua_replace.c"
      if path:find("^src/lua/") and not those then
        for _, word in ipairs{"open", "fopen", "rename", "unlink", "remove", "popen", "system"} do
          local found = without_comments(read(path)):find("%f[%w_]" .. word .. "%s*%(")
          assert.is_nil(found, path .. " calls " .. word)
        end
      end
    end
    for _, path in ipairs(scripts) do
      if path:find("^lua/") and path ~= "lua/heed/plot/gnuplot.lua" then
        for _, name in ipairs{"io.open", "io.lines", "io.popen", "os.rename", "os.remove",
                              "os.tmpname", "os.execute"} do
          assert.is_nil(read(path):find(name, 1, true), path .. " uses " .. name)
        end
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

  it("stays loaded when its state is closed, since threads may still run in it", function()
    local flags = lines_of("readelf -d " .. package.searchpath("heed.core", package.cpath))
    assert.matches("NODELETE", table.concat(flags, " "))
  end)

  it("has a Lua half whose files and rooms require each other without cycles", function()
    local graph = lua_requires()
    assert.is_true(graph["heed"]["heed.internal.surface"])
    assert.is_true(graph["heed.nn"]["heed.nn.layers"] and graph["heed.optim"]["heed.optim.clip"])
    assert.is_nil(cycle_in(graph))
    assert.is_nil(cycle_in(rooms_of(graph)))
    local lazy = lazy_names()
    assert.is_true(lazy.mask and lazy.nn and lazy.save and lazy.generate)
    assert.same({}, lazy_uses(lazy))
    graph["heed.internal.options"]["heed.nn.module"] = true
    assert.matches("heed.internal.options", cycle_in(graph), 1, true)
    assert.matches("internal", cycle_in(rooms_of(graph)), 1, true)
    assert.equal("a -> b -> a", (cycle_in{a = {b = true}, b = {a = true}}:gsub("b %-> a %-> b",
                                                                              "a -> b -> a")))
  end)

  it("asks for names of PyTorch's in places that there are", function()
    local words = read "lua/heed/internal/torch_words.lua"
    for _, path in ipairs(scripts) do
      local text = path:find "^lua/" and read(path):gsub("%-%-[^\n]*", "") or ""
      for place in text:gmatch "torch_names%.([%a_]+)" do
        assert.matches("\ntorch_words%." .. place .. " = ", words)
      end
    end
  end)

  -- Headers that are read for each type begin by including their reader, so that they need no run
  -- of their own; two headers are read by files that say what they work on, and raise #error alone.
  it("has headers of kernels that compile alone", function()
    local FRAMES <const> = {["src/cpu/for_floats.h"] = "LOOPS", ["src/cpu/level.h"] = "LEVEL"}
    local alone, bodies = {}, 0
    for _, path in ipairs(lines_of("find src/cpu -name '*.h' | sort")) do
      local owner = read(path):match('\n#ifndef T\n#include "([%w_/]+%.h)"\n#else\n')
      if owner then
        bodies = bodies + 1
        assert.matches('"' .. path:sub(#"src/" + 1) .. '"', read("src/" .. owner) ..
                       read("src/cpu/rows/reduce_loops.h"), 1, true)
      elseif FRAMES[path] then assert.matches("#error", read(path), 1, true)
      else alone[#alone + 1] = path end
    end
    assert.is_true(#alone > 20 and bodies > 15, #alone .. " " .. bodies)
    local compile = "gcc -std=gnu11 -Isrc -I. -fsyntax-only -x c -include {} /dev/null 2>&1"
    local command = ("printf '%%s\n' %s | xargs -P 2 -I{} sh -c '%s | grep -m1 error:'")
      :format(table.concat(alone, " "), compile)
    assert.same({}, lines_of(command))
    assert.is_true(#lines_of(compile:gsub("{}", "src/cpu/for_floats.h")) > 0)
  end)

  -- Does a line compare a metatable, one of `names`, in a way that a script's __eq hears? json.null
  -- is compared with scripts' values, too.
  local function is_heard(line, names)
    line = line:gsub("[=~]= nil", "")
    if line:find("getmetatable%b() [=~]=") or line:find("[=~]= getmetatable%(")
       or line:find("json%.null [=~]=") or line:find("[=~]= json%.null") then return true end
    for name in pairs(names) do
      local whole = "%f[%w_.]" .. name .. "%f[^%w_.]"
      if line:find(whole .. " [=~]=") or line:find("[=~]= " .. whole) then return true end
    end
    return false
  end

  it("compares metatables with rawequal", function()
    for _, path in ipairs(lines_of("find lua -name '*.lua' ! -name meta.lua | sort")) do
      local names, n = {}, 0
      for name in read(path):gmatch("local ([%w_]+) = [^\n]-getmetatable%(") do
        names[name] = true
      end
      for line in io.lines(path) do
        n = n + 1
        assert.is_false(is_heard(line, names), ("%s:%d: rawequal expected"):format(path, n))
      end
    end
    for _, line in ipairs{"if class == Linear then", "x = Linear ~= class", "return x == json.null",
                          "return getmetatable(x) == Mask"} do
      assert.is_true(is_heard(line, {class = true}), line)
    end
    for _, line in ipairs{"if class == nil then", "x = class.y == true", "classes == 3",
                          "rawequal(getmetatable(x), Mask)", "a == class.b"} do
      assert.is_false(is_heard(line, {class = true}), line)
    end
  end)

  it("leaves the global table alone", function()
    local script = "local n = 0 for _ in pairs(_G) do n = n + 1 end require 'heed' " ..
      "for _, m in ipairs{'nn', 'optim', 'tasks', 'plot', 'train', 'save'} do " ..
      "assert(require('heed')[m]) end for _ in pairs(_G) do n = n - 1 end os.exit(n == 0)"
    assert.is_truthy(os.execute(('lua5.4 -e "%s"'):format(script)))
  end)
end)
