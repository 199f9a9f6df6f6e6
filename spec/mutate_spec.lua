-- The tool that plants faults (spec/mutate.lua): which ones there are, and, in a small tree of its
-- own, that it finds those that a spec sees, reports the others, and leaves all as it was.

local files = require "spec.support.files"
local mutants = require "spec.support.mutants"

local read, write = files.read, files.write

local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a")
end

-- The faults of a text as "old > new".
local function faults(text, language)
  local list = {}
  for i, fault in ipairs(mutants.of(text, language)) do
    list[i] = fault.old .. " > " .. fault.new
  end
  return list
end


describe("a fault", function()
  it("is another operator, number or word", function()
    assert.same({"< > <=", "< > >", "10 > 11", "10 > 9"}, faults("local x = a < 10 -- <", "lua"))
    assert.same({"and > or", "not > ", "0 > 1", "2.5e-3 > (2.5e-3 + 1)"},
                faults("local x = a and not b[0] ^ 2.5e-3", "lua"))
    assert.same({"true > false"},
                faults('local x <const> = f(-y, "1 < 2", true)', "lua"))
    assert.same({"1 > 2", "1 > 0", "&& > ||"}, faults("int x = a->b[1] && *p; /* 1 + 1 */", "c"))
    assert.same({"or > and", '"right" > "other"'},
                faults('local side = given.side or "right"', "lua"))
    assert.same({}, faults('--[[ 1 + 1\n2 ]] local s = [[ 1 and 2 ]]', "lua"))
    assert.same({}, faults('#include "a1.h"\n#if A == 1\n#endif\n', "c"))
    assert.same({"16 > 17", "16 > 15"}, faults("#define ROWS 16", "c"))
  end)

  it("is a condition turned round, or a statement that is gone", function()
    assert.same({"x.y > not (x.y)"}, faults("if x.y then\n", "lua"))
    assert.same({"x > not (x)", "if x then return end > "}, faults("  if x then return end", "lua"))
    assert.same({"x > !(x)", "if (x) return; > ;"}, faults("  if (x) return;", "c"))
    assert.same({"f(x) > "}, faults("local y = 'a'\n\n  f(x)\n", "lua"))
    assert.same({}, faults("int f (void) {\n  return y;\n}", "c"))
    assert.same({"return; > ;"}, faults("void f (void) {\n  return;\n}", "c"))
    assert.same({"return y; > ;"}, faults("  return y;\n  }", "c"))
    assert.same({"f(x); > ;"}, faults("  int y = x;\n  f(x);\n  g(x,\n    y);", "c"))
  end)

  it("knows its line and its bytes", function()
    local text = "-- one\nlocal s = 'a\\'b'\nreturn s, x + y\n"
    local fault = mutants.of(text, "lua")[1]
    assert.equal(3, fault.line)
    assert.equal("-- one\nlocal s = 'a\\'b'\nreturn s, x - y\n", mutants.plant(text, fault))
  end)
end)


local FILES <const> = {
  [".busted"] = 'return {default = {output = "spec/output.lua"}}',
  Makefile = [[
KIND= release
all: build/$(KIND)/heed/core.so
modules:
build/$(KIND)/heed/core.so: src/less.c
	@mkdir -p $(@D); gcc -shared -fPIC -D$(KIND) -o $@ $<
build/$(KIND)/spec/c/less: spec/c/less.c src/less.c
	@mkdir -p $(@D); gcc -D$(KIND) -o $@ $^
]],
  ["src/less.c"] = "int less (int a, int b) {\n  return a < b;\n}\n",
  ["spec/c/less.c"] = [[
int less (int a, int b);
int main (void) { return !less(1, 2) || less(2, 1) || less(2, 2); }
]],
  ["lua/count.lua"] = [[
return function(n, odd)
  local i = 0
  while i < n do i = i + 1 end
  return i, odd and 7
end
]],
  ["spec/count_spec.lua"] = [[
local count = dofile "lua/count.lua"
it("counts", function()
  local n = count(3)
  if n ~= 3 and os.getenv "GROUP" then os.execute('kill -INT -$(cat "$GROUP")') end
  assert.equal(3, n)
  assert.equal(0, count(0))
end)
]],
}

-- A small tree with a copy of the tool.
local function tree()
  local folder = os.tmpname()
  os.remove(folder)
  for _, inner in ipairs{"lua", "src", "spec/c", "spec/support"} do
    assert(os.execute("mkdir -p " .. folder .. "/" .. inner))
  end
  for path, text in pairs(FILES) do write(folder .. "/" .. path, text) end
  for _, path in ipairs{"spec/mutate.lua", "spec/output.lua", "spec/support/files.lua",
                        "spec/support/asserted.lua", "spec/support/mutants.lua",
                        "spec/support/lines.lua", "spec/support/busted.lua"} do
    write(folder .. "/" .. path, read(path))
  end
  return setmetatable({folder = folder}, {__close = function()
    os.execute("rm -r " .. folder)
  end})
end

local function check_unchanged(folder)
  for path, text in pairs(FILES) do
    assert.equal(text, read(folder .. "/" .. path), path)
    assert.equal(text, read(folder .. "/build/mutate/" .. path), path)
  end
end

local RUN <const> = "cd %s && unset HEED_DEVICE LUA_INIT_5_4 && %s lua5.4 spec/mutate.lua "
                    .. "count=99 seconds=1 %s"


describe("mutate", function()
  it("asks for specs", function()
    local at <close> = tree()
    assert.matches("no spec to find a fault", output_of(RUN:format(at.folder, "", "lua")))
  end)

  it("lists what no spec finds, or not in time, and changes nothing", function()
    local at <close> = tree()
    local said = output_of(RUN:format(at.folder, "", "spec=spec/count_spec.lua lua"))
    local survivors, late = {}, {}
    for line in said:gmatch("lua/count.lua:([^\n]+)") do
      local place = line:match("^(.*) %(found: no end in time%)$")
      if place then late[place] = true else survivors[#survivors + 1] = line end
    end
    table.sort(survivors)
    assert.same({"4:17: and -> or", "4:21: 7 -> 6", "4:21: 7 -> 8"}, survivors, said)
    assert.is_true(late["3:24: + -> -"] and late["3:26: 1 -> 0"], said)
    assert.matches("\n12 planted, 9 found %(75 %%%), %d+ of them by the end of their time, "
                   .. "3 survive; ", said)
    check_unchanged(at.folder)
  end)

  it("runs specs that execute the line of a fault, and those that may", function()
    local at <close> = tree()
    write(at.folder .. "/spec/other_spec.lua", [[
      local file = assert(io.open("build/" .. (debug.gethook() and "noted" or "runs"), "a"))
      file:write "+"
      file:close()
      it("counts nothing", function() end)]])
    write(at.folder .. "/spec/child_spec.lua", [[
      it("counts in a program of its own, in a thread", function()
        local script = "local f = coroutine.wrap(dofile 'lua/count.lua') assert(f(2) == 2)"
        assert.is_true(os.execute('lua5.4 -e "' .. script .. '"'))
      end)]])
    local run = "jobs=1 spec='spec/other_spec.lua spec/%s_spec.lua' lua"
    local said = output_of(RUN:format(at.folder, "", run:format "child"))
    assert.matches(" 5 survive; ", said)
    local function times(name) return #read(at.folder .. "/build/mutate/build/" .. name) end
    assert.same({1, 1}, {times "runs", times "noted"}, said)
    write(at.folder .. "/spec/hook_spec.lua", read(at.folder .. "/spec/other_spec.lua")
                                              .. " debug.sethook()")
    said = output_of(RUN:format(at.folder, "", "jobs=1 spec='spec/hook_spec.lua "
                                               .. "spec/count_spec.lua' lua"))
    assert.matches(" 3 survive; ", said)
    assert.is_true(times "runs" > 4, said)
  end)

  it("builds what it changed, and runs programs of C", function()
    local at <close> = tree()
    local said = output_of(RUN:format(at.folder, "", "spec=spec/c/less.c src"))
    assert.matches("^2 planted, 2 found %(100 %%%).*, 0 survive; 0 compile to nothing new\n$",
                   said)
    check_unchanged(at.folder)
  end)

  it("finds faults of what programs have for themselves, beside the module", function()
    local at <close> = tree()
    local makefile = FILES.Makefile:gsub("core%.so: src/less%.c", "core.so: src/none.c")
    write(at.folder .. "/Makefile", makefile)
    write(at.folder .. "/src/none.c", "int none;\n")
    local said = output_of(RUN:format(at.folder, "", "spec=spec/c/less.c src/less.c"))
    assert.matches("^2 planted, 2 found %(100 %%%).*, 0 survive; 0 compile to nothing new\n$",
                   said)
  end)

  it("tries what survives in other kinds of build", function()
    local at <close> = tree()
    local both = "int less (int a, int b) {\n#ifdef basic\n  return a < b;\n#else\n"
                 .. "  return b > a;\n#endif\n}\n"
    write(at.folder .. "/src/less.c", both)
    local run = RUN:format(at.folder, "", "%s spec=spec/c/less.c src")
    assert.matches("^3 planted, 3 found %(100 %%%).*, 0 survive; 3 compile to nothing new\n$",
                   output_of(run:format "kinds=basic"))
    assert.matches("^6 planted, 6 found %(100 %%%).*, 0 survive; 0 compile to nothing new\n$",
                   output_of(run:format "kinds='release basic'"))
    assert.equal(both, read(at.folder .. "/src/less.c"))
  end)

  it("restores the file when it is interrupted", function()
    local at <close> = tree()
    local run = "setsid sh -c 'echo $$ >group; export GROUP=$PWD/group; exec \"$@\"' -"
    local said = output_of(RUN:format(at.folder, run, "spec=spec/count_spec.lua lua"))
    assert.matches("mutate: interrupted", said)
    check_unchanged(at.folder)
  end)

  it("refuses what it can't begin with", function()
    local at <close> = tree()
    local function says(arguments) return output_of(RUN:format(at.folder, "", arguments)) end
    assert.equal("mutate: there is no option sped\n", says "sped=3 lua")
    assert.matches("no line to plant a fault in", says "spec=spec/count_spec.lua Makefile")
    write(at.folder .. "/spec/count_spec.lua", "it('fails', function() error 'as it is' end)")
    assert.matches("without a fault, spec/count_spec.lua fails:",
                   says "spec=spec/count_spec.lua lua")
  end)
end)
