-- The ledger of compiled kernels (spec/ledger.lua): what is read from ptxas and from machine code,
-- and that a kernel beyond its limits fails.

local files = require "spec.support.files"
local ledger = require "spec.support.ledger"
local sass = require "spec.support.sass"

-- A listing as cuobjdump has it, of instructions without their addresses; "name:" is a label.
local function listing(text, name)
  local list, labels = {}, {}
  for line in text:gmatch("[^\n]+") do
    local label = line:match("^%s*(%w+):$")
    if label then
      labels[label] = ("0x%x"):format(16 * #list)
    else
      list[#list + 1] = line:match("^%s*(.-)%s*$")
    end
  end
  local lines = {"\tcode for sm_90a", "\t\tFunction : " .. (name or "kernel")}
  for k, line in ipairs(list) do
    lines[#lines + 1] = ("        /*%04x*/   %s ;   /* 0x000fe20000000800 */"):format(
      16 * (k - 1), (line:gsub("<(%w+)>", labels)))
    lines[#lines + 1] = "                      /* 0x000fe20000000800 */"
  end
  return table.concat(lines, "\n") .. "\n"
end

local function measure(text)
  local found
  sass.each(listing(text):gmatch("[^\n]+"), function(arch, name, code)
    assert.equal("90a kernel", arch .. " " .. name)
    found = sass.measure(code)
  end)
  return found
end

local function main_of(text)
  local main = measure(text).main
  return main and {main.steps, main.bytes, main.width, main.double}
end


describe("machine code", function()
  it("is read by instructions", function()
    assert.same({at = 0x160, op = "BRA", when = "!P0", operands = "P1, 0x190"},
                sass.instruction("  /*0160*/   @!P0 BRA P1, 0x190 ;  /* 0x00 */"))
    assert.same({at = 0x10, op = "LDG.E.128", operands = "R4, desc[UR6][R2.64+0x18]"},
                sass.instruction(" /*0010*/  LDG.E.128 R4, desc[UR6][R2.64+0x18] ;  /* 0x0 */"))
    assert.is_nil(sass.instruction("                          /* 0x000fe20000000800 */"))
  end)

  it("has loops, whose instructions and bytes are counted", function()
    assert.same({5, 32, 16, 1}, main_of[[
      MOV R1, 0x10
    again:
      LDG.E.128 R4, desc[UR6][R2.64]
      DADD R4, R4, R6
      STG.E.128 desc[UR6][R2.64], R4
      ISETP.LT.AND P0, PT, R1, R8, PT
      @P0 BRA <again>
      EXIT]])
    assert.is_nil(main_of "LDG.E R4, desc[UR6][R2.64]\nEXIT")
  end)

  it("counts what a loop without its rare ways does, wherever they lie", function()
    assert.same({9, 8, 4, 2}, main_of[[
    again:
      LDG.E R4, desc[UR6][R2.64]
      BSSY B0, <on>
      @P0 BRA <rare>
    back:
      BSYNC B0
    on:
      STG.E desc[UR6][R2.64], R4
      @P1 BRA <again>
      EXIT
    rare:
      F2F.F64.F32 R4, R4
      MUFU.RCP64H R4, R4
      BRA <back>]])
  end)

  it("counts the loop with the widest accesses, of those inside of which is none", function()
    local m = measure[[
    outer:
      DMUL R4, R4, R4
    wide:
      LDG.E.64 R4, desc[UR6][R2.64]
      HMMA.16816.F32 R4, R8, R10, R4
      @P0 BRA <wide>
    narrow:
      LDG.E.U16 R4, desc[UR6][R2.64]
      DADD R4, R4, R4
      DFMA R4, R4, R4, R4
      @P0 BRA <narrow>
      LDG.E.128 R4, desc[UR6][R2.64]
      @P2 BRA <outer>
      EXIT]]
    assert.same({3, 8, 8, 0}, {m.main.steps, m.main.bytes, m.main.width, m.main.double})
    assert.equal(2, m.double)
    assert.equal(1, m.mma)
  end)

  it("has no loop where a way leads back to what others reach as well", function()
    assert.is_nil(main_of[[
      @P0 BRA <second>
    first:
      LDG.E R4, desc[UR6][R2.64]
    second:
      STG.E desc[UR6][R2.64], R4
      @P1 BRA <first>
      EXIT]])
  end)
end)


local USAGE <const> = [[
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_Z4rowsIfEv4work' for 'sm_90a'
ptxas info    : Function properties for _Z4rowsIfEv4work
    48 bytes stack frame, %d bytes spill stores, 8 bytes spill loads
ptxas info    : Used %d registers, used 1 barriers, 3072 bytes smem, 48 bytes cmem[2]
ptxas info    : Function properties for _Z6reportv
    0 bytes stack frame, 96 bytes spill stores, 96 bytes spill loads
]]

local CODE <const> = [[
again:
  LDG.E.128 R4, desc[UR6][R2.64]
  FADD R4, R4, R4
  @P0 BRA <again>
  EXIT]]


describe("the ledger", function()
  it("reads what ptxas says", function()
    assert.same({{arch = "90a", name = "_Z4rowsIfEv4work", registers = 40, spill = 8,
                  shared = 3072}}, sass.usage(USAGE:format(4, 40)))
  end)

  it("names kernels", function()
    local kernel = ledger.name{object = "build/nvcc/cuda/rows/softmax.cu.o",
                               demangled = "void rows<(op)0, mixed<double> >(work<(op)0>)"}
    assert.same({"rows/softmax", "rows<(op)0, mixed<double> >", "rows", "mixed"},
                {kernel.file, kernel.name, kernel.family, kernel.class})
    assert.equal("double", ledger.name{object = "build/nvcc/cuda/vector/map_double.cu.o",
                                       demangled = "void row<value_add>(job)"}.class)
  end)

  -- The tool's output for one kernel with this code, these figures and these limits.
  local function said(code, spill, registers, limits)
    local path = os.tmpname()
    local object = path .. ".d/cuda/rows/softmax.cu.o"
    os.execute("mkdir -p " .. path .. ".d/cuda/rows")
    files.write(object .. ".usage", USAGE:format(spill, registers))
    files.write(path .. ".d/sass", listing(code, "_Z4rowsIfEv4work"))
    files.write(path .. ".d/cuobjdump", "#!/bin/sh\ncat " .. path .. ".d/sass\n")
    files.write(path .. ".d/limits.lua", limits)
    os.execute("chmod +x " .. path .. ".d/cuobjdump")
    local command = ("CUOBJDUMP=%s.d/cuobjdump lua5.4 spec/ledger.lua --limits %s.d/limits.lua "
                     .. "--table %s.d/table %s 2>&1"):format(path, path, path, object)
    local pipe <close> = assert(io.popen(command))
    local text, written = pipe:read("a"), files.read(path .. ".d/table")
    os.execute("rm -rf " .. path .. " " .. path .. ".d")
    return text, written
  end
  local LIMITS <const> = 'return {["rows/softmax"] = {{"rows", registers = 40, spill = 8, '
                         .. "steps = 4, width = 16}}}"

  it("passes what is within its limits, and has a row for it", function()
    local text, written = said(CODE, 4, 40, LIMITS)
    assert.equal("1 kernels for 90a\n1 passed, 0 failed\n", text)
    assert.matches("| rows/softmax | rows |  | 1 | 40 | 8 | 3072 | 16 | 3 | 0 | 0 |\n", written,
                   1, true)
  end)

  it("fails what is beyond them", function()
    local where = "rows/softmax, rows<float> on 90a: "
    assert.equal(where .. "41 registers, the limit is 40 at most\n1 kernels for 90a\n"
                 .. "0 passed, 1 failed\n", (said(CODE, 4, 41, LIMITS)))
    assert.matches(where .. "12 bytes of spills, the limit is 8 at most\n",
                   said(CODE, 12, 40, LIMITS), 1, true)
    local double = CODE:gsub("FADD R4", "DADD R4")
    assert.matches(where .. "1 64-bit instructions in a loop, the limit is 0 at most\n",
                   said(double, 4, 40, LIMITS), 1, true)
    local long = CODE:gsub("FADD[^\n]+\n", "%0%0%0")
    assert.matches(where .. "5 instructions for 16 bytes, the limit is 4 at most\n",
                   said(long, 4, 40, LIMITS), 1, true)
    local narrow = CODE:gsub("128", "64")
    assert.matches(where .. "8 bytes at once in its widest loop, the limit is 16 at least\n",
                   said(narrow, 4, 40, LIMITS), 1, true)
    assert.matches("no loop over memory was found", said("EXIT", 4, 40, LIMITS), 1, true)
  end)

  it("holds kernels without a row to what holds for all, and has no idle row", function()
    assert.equal("rows/softmax, rows<float> on 90a: 8 bytes of spills, the limit is 0 at most\n"
                 .. "1 kernels for 90a\n0 passed, 1 failed\n", (said(CODE, 8, 240, "return {}")))
    local text = said(CODE, 4, 40, LIMITS:gsub("}}}$", '}, {"row", registers = 1, steep = 2}}}'))
    assert.matches("cuda/limits.lua: rows/softmax, row : there is no such kernel\n", text, 1, true)
    assert.matches("there is no limit 'steep'\n", text, 1, true)
    assert.matches("\n1 passed, 2 failed\n", text, 1, true)
  end)
end)
