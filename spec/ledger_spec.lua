-- The ledger of compiled kernels (spec/ledger.lua): what is read from ptxas and from machine code,
-- that a kernel beyond its limits fails, and what is estimated.

local estimate = require "spec.support.estimate"
local files = require "spec.support.files"
local ledger = require "spec.support.ledger"
local markdown = require "spec.support.ledger_markdown"
local sass = require "spec.support.sass"
local tiles = require "spec.support.tiles"

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


describe("a turn of a loop with tensor cores", function()
  -- Of so many of their instructions; 'jumps' by where the tables' jumps are, in instructions.
  local function turn(text, mma, jumps)
    local found
    sass.each(listing(text):gmatch("[^\n]+"), function(_, _, code)
      found = sass.turn(code, jumps or {}, mma)
    end)
    return found
  end

  local LOOP <const> = [[
    again:
      LDGSTS.E.BYPASS.128 [R1], desc[UR6][R2.64]
      BAR.SYNC.DEFER_BLOCKING 0x0
      LDSM.16.M88.4 R4, [R2]
      HMMA.16816.F32.BF16 R4, R8, R10, R4
      @P0 BRA <rare>
      HMMA.16816.F32.BF16 R4, R8, R10, R4
      BRA <on>
    rare:
      HMMA.16816.F32.BF16 R4, R8, R10, R4
      HMMA.16816.F32.BF16 R4, R8, R10, R4
      HMMA.16816.F32.BF16 R4, R8, R10, R4
    on:
      BAR.SYNC.DEFER_BLOCKING 0x0
      @P2 BRA <short>
      MUFU.EX2 R4, R4
    short:
      FFMA R4, R4, R4, R4
      IADD3 R2, R2, R3, R4
      @P1 BRA <again>
      EXIT]]

  it("is the way with so many of them, cut at barriers", function()
    assert.same({
      {steps = 7, mma = 0, groups = 0, special = 1, float = 1, whole = 1, shared = 512,
       copies = 1, narrow = 0},
      {steps = 6, mma = 2, groups = 0, special = 0, float = 0, whole = 0, shared = 512,
       copies = 0, narrow = 0},
    }, turn(LOOP, 2))
    assert.equal(4, turn(LOOP, 4)[2].mma)
    assert.is_nil(turn(LOOP, 3))
    assert.is_nil(turn("HMMA.16816.F32.BF16 R4, R8, R10, R4\nEXIT", 1))
  end)

  it("takes exponentials and copies along, and of such ways the shortest", function()
    local found = turn([[
    again:
      @P0 BRA <long>
      LDGSTS.E.128 [R1], desc[UR6][R2.64]
      LDGSTS.E.64 [R1], desc[UR6][R2.64]
      BRA <on>
    long:
      LDGSTS.E.128 [R1], desc[UR6][R2.64]
      IADD3 R2, R2, R3, R4
      LDGSTS.E.128 [R1], desc[UR6][R2.64]
      BRA <on>
    on:
      HMMA.16816.F32 R4, R8, R10, R4
      @P1 BRA <again>
      EXIT]], 1)
    assert.same({steps = 6, mma = 1, groups = 0, special = 0, float = 0, whole = 0,
                 shared = 512 + 256, copies = 2, narrow = 1}, found[1])
    assert.equal(1, #found)
  end)

  -- Of 64 by 128 results a warp has 16 products of 16 by 8; a fourth of 4096 bytes of the right
  -- factor, and of 2048 of a left one in shared memory, are its share.
  it("counts a warp's share of products of warpgroups", function()
    local found = turn([[
    again:
      WARPGROUP.ARRIVE
      HGMMA.64x128x16.F32.BF16 R24, gdesc[UR16], RZ, !UPT
      HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR20], R24
      @P1 BRA <again>
      EXIT]], 2)
    assert.same({steps = 4, mma = 0, groups = 32, special = 0, float = 0, whole = 0,
                 shared = 1536 + 1024, copies = 0, narrow = 0}, found[1])
  end)

  it("passes jumps by tables, and code that nothing reaches", function()
    local text <const> = [[
    again:
      BRX R2 -0x20
      BRA <again>
    first:
      HMMA.16816.F32 R4, R8, R10, R4
    second:
      HMMA.16816.F32 R4, R8, R10, R4
      @P1 BRA <again>
      EXIT
      BRA <second>]]
    assert.equal(2, turn(text, 2, {[0] = {0x20, 0x30}})[1].mma)
    assert.equal(3, turn(text, 1, {[0] = {0x20, 0x30}})[1].steps)
    assert.is_nil(turn(text, 2))
  end)

  it("is of the smallest loop", function()
    assert.equal(2, turn([[
    again:
      IADD3 R2, R2, R3, R4
    inner:
      HMMA.16816.F32 R4, R8, R10, R4
      @P0 BRA <inner>
      @P1 BRA <again>
      EXIT]], 1)[1].steps)
  end)

  it("has the jumps of tables from the object", function()
    assert.same({["80 _Z4rows"] = {[0x20a0] = {0x21e0, 0x20b0}, [0x23a0] = {0x2dc0}}},
                sass.jumps(([[
arch = sm_80
  c   4574    384  0  4                    CUDA_INFO       40    3       21 .nv.info._Z4else
.nv.info._Z4rows
	Attribute:	EIATTR_INDIRECT_BRANCH_TARGETS
		Offset of Indirect Branch: 0x20a0	 Number of targets: 2
		Targets: 0x21e0 0x20b0

		Offset of Indirect Branch: 0x23a0	 Number of targets: 1
		Targets: 0x2dc0
]]):gmatch("[^\n]+")))
  end)
end)


describe("arithmetic of tiles", function()
  local function of(name)
    local t = tiles.of(name)
    return {t.warps, t.turn, t.mma, t.shared}
  end

  it("says how many instructions of tensor cores a kernel has", function()
    assert.same({4, 128, 136, 49152}, of "attend_tiles<bfloat16, fast<128, false> >")
    assert.same({8, 64, 68, 33536}, of "attend_tiles<float16, fast<64, true> >")
    assert.same({4, 96, 96, 66048}, of "back_tiles<bfloat16, back<128, 1, false, 4> >")
    assert.same({4, 64, 64, 99328}, of "back_tiles<float16, back<256, 4, true, 4> >")
    assert.same({8, 128, 128, 98816}, of "back_tiles<float16, back<128, 6, false, 8> >")
    assert.same({8, 16, 44, 163840}, of "attend_groups<bfloat16, groups<128> >")
    assert.same({8, 20, 60, 196608}, of "attend_groups<float16, groups<256> >")
    assert.same({8, 24, 40, 133120}, of "back_with_groups<bfloat16, back_groups<128, 6> >")
    assert.same({2, 128, 128, 70912}, of "sum_diagonals<float16, band<256> >")
    assert.same({4, 384, 384, 49152}, of "attend_tiles<float, fast_floats<64, false, 3> >")
    assert.same({4, 128, 128, 65920}, of "attend_tiles<float, fast_floats<128, true, 1> >")
    local floats = tiles.of "attend_tiles<float, fast_floats<256, false, 3> >"
    assert.equal(2 * 2 * 16 * 16 * 256, floats.operations)
    assert.is_nil(tiles.of "attend_rows<float>")
  end)

  it("says whose multiprocessors take a tile of gradients", function()
    local function takers(name)
      local list = {}
      for _, kib in ipairs{100, 164, 228} do
        if tiles.is_taken(tiles.of(name), kib) then list[#list + 1] = kib end
      end
      return list
    end
    assert.same({100, 164, 228}, takers "back_tiles<float16, back<64, 1, false, 4> >")
    assert.same({164, 228}, takers "back_tiles<float16, back<64, 6, true, 4> >")
    assert.same({100}, takers "back_tiles<float16, back<64, 6, true, 8> >")
    assert.same({164, 228}, takers "back_tiles<float16, back<128, 6, false, 4> >")
    assert.same({100}, takers "back_tiles<float16, back<128, 1, true, 8> >")
    assert.same({100, 164, 228}, takers "back_tiles<float16, back<256, 2, false, 4> >")
    assert.same({100, 164, 228}, takers "attend_tiles<bfloat16, fast<128, false> >")
    local function by_groups(name) return tiles.is_taken(tiles.of(name), 228, true) end
    assert.is_true(by_groups "attend_groups<bfloat16, groups<128> >")
    assert.is_true(by_groups "back_tiles<float16, back<256, 2, false, 4> >")
    assert.is_false(by_groups "back_tiles<float16, back<128, 1, false, 4> >")
    assert.is_false(by_groups "attend_tiles<bfloat16, fast<128, false> >")
    assert.same({}, takers "back_with_groups<bfloat16, back_groups<128, 6> >")
  end)

  local PLAIN <const> = "attend_tiles<bfloat16, fast<128, false> >"

  local function kernel(mma, phases, name, arch)
    name = name or PLAIN
    return {arch = arch or "80", file = "fast", name = name, family = name:match("^[^<]+"),
            class = "", mma = mma, registers = 200, spill = 0, shared = 0, double = 0, read = true,
            turn = phases, tile = tiles.of(name)}
  end
  local FIRST <const> = {steps = 300, mma = 64, groups = 0, special = 0, float = 0, whole = 100,
                         shared = 20480, copies = 4, narrow = 0}
  local SECOND <const> = {steps = 400, mma = 64, groups = 0, special = 32, float = 150,
                          whole = 100, shared = 20480, copies = 4, narrow = 0}

  it("is held to machine code", function()
    local where = "fast, attend_tiles<bfloat16, fast<128, false> > on 80: "
    assert.same({}, ledger.excess(kernel(136, {FIRST, SECOND}), {}))
    assert.same({where .. "135 instructions of tensor cores, arithmetic has 136"},
                ledger.excess(kernel(135, {FIRST, SECOND}), {}))
    assert.same({where .. "no way through a loop has a tile's 128 instructions of tensor cores"},
                ledger.excess(kernel(136), {}))
    assert.same({where .. "3 copies into shared memory of less than 16 bytes"},
                ledger.excess(kernel(136, {FIRST, {narrow = 3}}), {}))
  end)

  -- A block of four warps, one for each quarter of a multiprocessor: of each phase shared memory
  -- takes 4 * 20480 / 128 cycles; a warp alone takes 64 * 8 + 236 * 2 of the first, and
  -- 64 * 8 + 336 * 2 of the second.
  it("is where estimates begin", function()
    local gpu = {count = 100, clock = 1, shared = 164, threads = 2048, mma = 8, float = 2}
    local t = estimate.turn(kernel(256, {FIRST, SECOND}), gpu)
    assert.same({2, 1280, 984 + 1184 + 200}, {t.blocks, t.busy.shared, t.alone})
    assert.same({1280, "shared"}, {t.cycles, t.of})
    assert.same({700, 1024, 256, 300, 400},
                {t.busy.issue, t.busy.tensor, t.busy.special, t.busy.float, t.busy.whole})
    local large = kernel(256, {FIRST, SECOND})
    large.registers = 255
    assert.equal(2, estimate.turn(large, gpu).blocks)
    assert.near(4 * 128 * (128 * 32 / 1280) * 100 / 1000,
                estimate.speed({large}, 4 * 128, gpu), 1e-9)
    assert.near(4 * 128 * (128 * 32 / 2560) * 100 / 1000,
                estimate.speed({large, large}, 4 * 128, gpu), 1e-9)
    gpu.shared = 50
    t = estimate.turn(large, gpu)
    assert.same({1, 2368, "waiting"}, {t.blocks, t.cycles, t.of})
    local wide = kernel(256, {SECOND}, "attend_tiles<bfloat16, fast<128, true> >")
    assert.equal(8 * 20480 / 128 + 100, estimate.turn(wide, gpu).alone)
  end)

  it("and what is estimated are tables", function()
    local turn, kernels = {FIRST, SECOND}, {}
    for _, arch in ipairs{"80", "90a"} do
      for _, name in ipairs{PLAIN, PLAIN:gsub("bf", "f"),
                            "back_tiles<bfloat16, back<128, 1, false, 4> >",
                            "back_tiles<bfloat16, back<128, 6, false, 4> >",
                            "attend_tiles<float, fast_floats<128, false, 3> >",
                            "attend_tiles<float, fast_floats<64, true, 3> >",
                            "attend_tiles<float, fast_floats<64, false, 1> >"} do
        kernels[#kernels + 1] = kernel(256, turn, name, arch)
      end
    end
    kernels[9].registers, kernels[9].spill = 255, 8
    local text = markdown(kernels, {"80", "90a"}, "1234567")
    local function has(line) assert.matches(line .. "\n", text, 1, true) end
    has "wrote these tables, for 8.0, 9.0a, of the kernels at 1234567."
    assert.is_nil(text:find("files were compiled", 1, true))
    kernels[#kernels + 1] = kernel(0, nil, "add", "90a")
    kernels[#kernels].file = "rows/sum"
    assert.matches("Of 8.0 1 of 2 files were compiled, in fast.\n",
                   markdown(kernels, {"80", "90a"}, "1234567"), 1, true)
    has("### 8.0\n\n|  | n | registers | spill | warps | shared | mma | of a turn | steps | copies "
        .. "| moves |")
    has "| forward, heads of up to 128 | 2 | 200 | 0 | 4 | 48.0 | 256 | 128 | 700 | 8 | 40.0 |"
    has "| forward, heads of up to 128 | 2 | 255 | 8 | 4 | 48.0 | 256 | 128 | 700 | 8 | 40.0 |"
    has "| dq, heads of up to 128 | 1 | 200 | 0 | 4 | 64.5 | 256 | 96 | 700 | 8 | 40.0 |"
    has "| A100 | 128 | 249 | 187 | 156 | 117 | 125 | 94 |"
    has "| A100 | 64 | - | - | - | - | - | - |"
    has("| A100 | forward, heads of up to 128 | 2 | 700 | 1024 | 256 | 1280 | 2368 "
        .. "| 1280, shared |")
    has "| fast | attend_tiles |  | 5 | 200 to 255 | 0 to 8 | 0 | - | - | 0 | 256 |"
  end)
end)


describe("the ledger", function()
  it("reads what ptxas says", function()
    assert.same({{arch = "90a", name = "_Z4rowsIfEv4work", registers = 40, spill = 8,
                  shared = 3072}}, sass.usage(USAGE:format(4, 40)))
  end)

  it("names kernels", function()
    local kernel = ledger.name({name = "_Z"}, "build/nvcc/cuda/rows/softmax.cu.o",
                               "void rows<(op)0, mixed<double> >(work<(op)0>)")
    assert.same({"rows/softmax", "_Z", "rows<(op)0, mixed<double> >", "rows", "mixed"},
                {kernel.file, kernel.mangled, kernel.name, kernel.family, kernel.class})
    local function tile_on(arch)
      return ledger.name({arch = arch}, "build/nvcc/cuda/attention/fast_groups.cu.o",
                         "void attend_groups<float16, groups<64> >(attend)").tile
    end
    assert.is_nil(tile_on "89")
    assert.equal(8, tile_on "90a".warps)
    assert.equal("double", ledger.name({}, "build/nvcc/cuda/vector/map_double.cu.o",
                                       "void row<value_add>(job)").class)
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
    local command = ("CUOBJDUMP=%s.d/cuobjdump lua5.4 spec/kernels.lua %s >%s.d/kernels && "
                     .. "lua5.4 spec/ledger.lua --limits %s.d/limits.lua --table %s.d/table "
                     .. "%s.d/kernels 2>&1"):format(path, object, path, path, path, path)
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

  it("has limits of one architecture", function()
    local on = LIMITS:gsub("width = 16", "%0, on = {['90a'] = {registers = 41}}")
    assert.matches("\n1 passed, 0 failed\n", (said(CODE, 4, 41, on)))
    assert.matches("42 registers, the limit is 41 at most\n", said(CODE, 4, 42, on), 1, true)
    assert.matches("41 registers, the limit is 40 at most\n",
                   said(CODE, 4, 41, (on:gsub("90a", "80"))), 1, true)
    assert.matches("there is no limit 'wide' on 90a\n",
                   said(CODE, 4, 40, (on:gsub("registers = 41", "wide = 1"))), 1, true)
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
