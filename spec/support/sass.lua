-- Reads what cuobjdump and ptxas say of compiled kernels: registers, spills, shared memory, and of
-- the machine code, loops with what a turn of them does.

local sass = {}

---What a kernel takes, by architecture and mangled name, in the output of ptxas -v.
---@param text string
---@return {arch: string, name: string, registers: integer, spill: integer, shared: integer}[]
function sass.usage(text)
  local list, now = {}, nil
  for line in text:gmatch("[^\n]+") do
    local name, arch = line:match("Compiling entry function '([^']+)' for 'sm_(%w+)'")
    if name then
      now = {arch = arch, name = name, registers = 0, spill = 0, shared = 0}
      list[#list + 1] = now
    elseif now and line:find("Function properties for", 1, true) then
      now.own = line:find(now.name, 1, true) ~= nil
    elseif now and now.own and line:find("bytes spill stores", 1, true) then
      now.spill = math.max(line:match("(%d+) bytes spill stores") + 0,
                           line:match("(%d+) bytes spill loads") + 0)
    elseif now and line:find("Used %d+ registers") then
      now.registers = line:match("Used (%d+) registers") + 0
      now.shared = (line:match("(%d+) bytes smem") or 0) + 0
    end
  end
  for _, kernel in ipairs(list) do kernel.own = nil end
  return list
end


-- == Instructions ===========================================================

local WIDTHS <const> = {["8"] = 1, ["16"] = 2, ["64"] = 8, ["128"] = 16, ["256"] = 32}

-- Bytes that a thread reads or writes of global memory; nil where it does neither.
local function global_bytes(op)
  local name = op:match("^[A-Z]+")
  if name ~= "LDG" and name ~= "STG" and name ~= "LD" and name ~= "ST" and name ~= "LDGSTS" then
    return nil
  end
  return WIDTHS[op:match("%.[US]?(%d+)%f[^%d]") or ""] or 4
end

-- Do the 64-bit units work on this one?
local function is_double(op)
  return op:find("^D[AMFS][A-Z]+") ~= nil and not op:find("^DEPBAR") and not op:find("^DMMA")
         or op:find("^MUFU%.%w*64H") ~= nil
         or op:find("^[FI]2[FI]") ~= nil and op:find("%.F64") ~= nil
end

---An instruction of a line of cuobjdump -sass, or nil: where, what, by which predicate, operands.
---@param line string
---@return table?
function sass.instruction(line)
  local at, text = line:match("^%s*/%*(%x+)%*/%s+(.-)%s*;")
  if not at then return nil end
  local when, rest = text:match("^@(!?U?P%w+)%s+(.*)")
  local op, operands = (rest or text):match("^{?%s*([A-Z][%w_.]*)%s*(.*)")
  return op and {at = tonumber(at, 16), op = op, when = when, operands = operands}
end


-- == Control flow ===========================================================

local function target_of(i) return tonumber((i.operands:match(".*%f[%w]0x(%x+)")), 16) end

-- Does control come to the instruction behind this one, too?
local function goes_on(i)
  if i.when and i.when ~= "PT" then return true end
  local name = i.op:match("^[A-Z]+")
  if name == "BRA" then return i.operands:find("^!?U?P%d") ~= nil or i.op:find("DIV") ~= nil end
  return not (name == "EXIT" or name == "RET" or name == "BRX" or name == "BRXU" or name == "JMP"
              or name == "BSYNC" or name == "KILL")
end

-- Blocks, each from one instruction to another, and at which block an address is.
local function blocks_of(code, jumps)
  local leads, at = {[1] = true}, {}
  for k, i in ipairs(code) do at[i.at] = k end
  for _, targets in pairs(jumps) do
    for _, target in ipairs(targets) do leads[at[target]] = true end
  end
  for k, i in ipairs(code) do
    local name = i.op:match("^[A-Z]+")
    if name == "BRA" or name == "BSSY" or name == "CALL" then
      local to = at[target_of(i) or -1]
      if to then leads[to] = true end
    end
    if name == "BRA" or name == "BSYNC" or not goes_on(i) then leads[k + 1] = true end
  end
  local blocks, of = {}, {}
  for k in ipairs(code) do
    if leads[k] then blocks[#blocks + 1] = {from = k, next = {}, before = {}} end
    blocks[#blocks].to = k
    of[k] = #blocks
  end
  return blocks, function(address) return of[at[address or -1]] end
end

-- Where each BSYNC goes: to the address that the BSSY of its register gave, which is looked for on
-- the way from block 'first'. Returns the blocks that are reached.
local function connect(code, blocks, block_at, jumps, first, seen)
  local waiting = {{first, {}}}
  while #waiting > 0 do
    local b, barriers = table.unpack(table.remove(waiting))
    if not seen[b] then
      seen[b] = true
      local block = blocks[b]
      local function to(other)
        if not other then return end
        block.next[#block.next + 1] = other
        blocks[other].before[#blocks[other].before + 1] = b
        waiting[#waiting + 1] = {other, barriers}
      end
      for k = block.from, block.to do
        local i = code[k]
        if i.op:find("^BSSY") then
          barriers = setmetatable({[i.operands:match("B%d+")] = target_of(i)}, {__index = barriers})
        end
      end
      local last = code[block.to]
      if last.op:find("^BRA%f[^A-Z]") then to(block_at(target_of(last))) end
      for _, target in ipairs(jumps[last.at] or {}) do to(block_at(target)) end
      if last.op:find("^BSYNC") then
        local there = barriers[last.operands:match("B%d+")]
        if there then to(block_at(there)) elseif blocks[b + 1] then to(b + 1) end
      end
      if goes_on(last) and blocks[b + 1] then to(b + 1) end
    end
  end
end

-- Blocks in an order in which those that lead to a block come first, but for loops; from 'roots'.
local function ordered(blocks, roots)
  local order, seen = {}, {}
  local function visit(first)
    local stack = {{first, 0}}
    seen[first] = true
    while #stack > 0 do
      local top = stack[#stack]
      top[2] = top[2] + 1
      local other = blocks[top[1]].next[top[2]]
      if not other then
        table.insert(order, top[1])
        stack[#stack] = nil
      elseif not seen[other] then
        seen[other] = true
        stack[#stack + 1] = {other, 0}
      end
    end
  end
  for k = #roots, 1, -1 do
    if not seen[roots[k]] then visit(roots[k]) end
  end
  local turned = {}
  for k = #order, 1, -1 do turned[#turned + 1] = order[k] end
  return turned
end

-- The block that each block's ways all lead through last (K. Cooper, T. Harvey, K. Kennedy, 2001);
-- 0 is before all roots.
local function dominators(blocks, roots)
  local order, number, up = ordered(blocks, roots), {[0] = 0}, {[0] = 0}
  for k, b in ipairs(order) do number[b] = k end
  for _, b in ipairs(roots) do up[b] = 0 end
  local function meet(a, b)
    while a ~= b do
      while number[a] > number[b] do a = up[a] end
      while number[b] > number[a] do b = up[b] end
    end
    return a
  end
  local is_root = {}
  for _, b in ipairs(roots) do is_root[b] = true end
  repeat
    local changed = false
    for _, b in ipairs(order) do
      local new = is_root[b] and 0 or nil
      for _, p in ipairs(blocks[b].before) do
        if up[p] then new = new and meet(p, new) or p end
      end
      if up[b] ~= new then up[b], changed = new, true end
    end
  until not changed
  return up
end

local function leads_through(up, a, b)     -- does every way to b lead through a?
  while b ~= 0 and b ~= a do b = up[b] end
  return b == a
end

---The loops of a kernel's code: each a set of blocks, by its first one.
local function loops_of(blocks, up)
  local loops = {}
  for b, block in ipairs(blocks) do
    for _, head in ipairs(block.next) do
      if up[b] and leads_through(up, head, b) then
        local loop = loops[head] or {[head] = true}
        loops[head] = loop
        local waiting = {b}
        while #waiting > 0 do
          local x = table.remove(waiting)
          if not loop[x] then
            loop[x] = true
            for _, p in ipairs(blocks[x].before) do waiting[#waiting + 1] = p end
          end
        end
      end
    end
  end
  return loops
end


-- == What a turn of a loop does =============================================

local function sums_of(code, blocks, loop)
  local s = {steps = 0, bytes = 0, width = 0, double = 0}
  for b in pairs(loop) do
    for k = blocks[b].from, blocks[b].to do
      local op = code[k].op
      local bytes = global_bytes(op)
      if not op:find("^NOP") then s.steps = s.steps + 1 end
      if bytes then
        s.bytes = s.bytes + bytes
        s.width = math.max(s.width, bytes)
      end
      if is_double(op) then s.double = s.double + 1 end
    end
  end
  return s
end

local function holds(loop, other)
  for b in pairs(other) do
    if not loop[b] then return false end
  end
  return true
end

-- A kernel's blocks and its loops, of its instructions. Where its tables of jumps are not known,
-- all that no way leads to may be reached by them; else it is dead, or a function that is called.
local function flow_of(code, jumps)
  local known = jumps ~= nil
  jumps = jumps or {}
  local blocks, block_at = blocks_of(code, jumps)
  local seen, roots = {}, {1}
  connect(code, blocks, block_at, jumps, 1, seen)
  for b in ipairs(blocks) do
    if not seen[b] and not known then
      roots[#roots + 1] = b
      connect(code, blocks, block_at, jumps, b, seen)
    end
  end
  return blocks, loops_of(blocks, dominators(blocks, roots))
end

local function is_group(op) return op:find("^HGMMA") ~= nil end
local function is_tensor(op) return op:find("^[HIQDOU]?[HIQDBT]?G?MMA") ~= nil end

---Of a kernel's instructions: how many are tensor core's, and what a turn of its loops does. 'main'
---is the loop with the widest accesses to global memory, of those that hold no other loop with any;
---'double' is the most 64-bit instructions of a loop with such accesses.
---@param code table[]
---@return table
function sass.measure(code)
  local m = {instructions = #code, mma = 0, double = 0, main = nil}
  if #code == 0 then return m end
  for _, i in ipairs(code) do
    if is_tensor(i.op) then m.mma = m.mma + 1 end
  end
  local blocks, loops = flow_of(code)
  local found = {}
  for _, loop in pairs(loops) do
    local s = sums_of(code, blocks, loop)
    if s.bytes > 0 then
      s.loop = loop
      found[#found + 1] = s
    end
  end
  for _, s in ipairs(found) do
    local inner = true
    for _, other in ipairs(found) do
      inner = inner and (other == s or not holds(s.loop, other.loop))
    end
    if inner then
      m.double = math.max(m.double, s.double)
      local best = m.main
      if not best or s.width > best.width or s.width == best.width and
         (s.bytes > best.bytes or s.bytes == best.bytes and s.steps < best.steps) then
        m.main = s
      end
    end
  end
  return m
end


-- == The best way through a loop ============================================

-- The weights by which a way through a block is chosen: instructions of tensor cores; copies into
-- shared memory and exponentials, which each turn is to have; all.
local function weight_of(code, block, counts)
  local w = {mma = 0, due = 0, steps = 0}
  for k = block.from, block.to do
    local op = code[k].op
    if counts(op) then w.mma = w.mma + 1 end
    if op:find("^LDGSTS") or op:find("^MUFU%.EX2") then w.due = w.due + 1 end
    if not op:find("^NOP") then w.steps = w.steps + 1 end
  end
  return w
end

local function is_better(way, other)
  return not other or way.due > other.due or way.due == other.due and way.steps < other.steps
end

-- A loop's blocks with the ways between them but those back to its head.
local function inside_of(blocks, loop, head)
  local inside = {}
  for b in pairs(loop) do
    local list = {}
    for _, other in ipairs(blocks[b].next) do
      if loop[other] and other ~= head then list[#list + 1] = other end
    end
    inside[b] = {next = list}
  end
  return inside
end

-- The best way with so many 'mma', which 'counts' tells, from a loop's head back to it, inner loops
-- passed once: its last block, which leads to those before, or nil.
local function way_through(code, blocks, loop, head, mma, counts)
  local inside = inside_of(blocks, loop, head)
  local order, place, best = ordered(inside, {head}), {}, nil
  for k, b in ipairs(order) do place[b] = k end
  local reached = {[head] = {[0] = {due = 0, steps = 0}}}    -- by block and 'mma' so far
  for k, b in ipairs(order) do
    local w, ends = weight_of(code, blocks[b], counts), false
    for _, other in ipairs(blocks[b].next) do ends = ends or other == head end
    for so_far, before in pairs(reached[b] or {}) do
      local now = {block = b, before = before, due = before.due + w.due,
                   steps = before.steps + w.steps}
      local sum = so_far + w.mma
      if ends and sum == mma and is_better(now, best) then best = now end
      for _, other in ipairs(inside[b].next) do
        if place[other] > k and sum <= mma then
          reached[other] = reached[other] or {}
          if is_better(now, reached[other][sum]) then reached[other][sum] = now end
        end
      end
    end
  end
  return best
end

-- The unit that works on an instruction is the first that fits; whole numbers, comparisons and
-- conversions fit none. 'none' only takes an issue slot.
local UNITS <const> = {
  {"^HMMA", "mma"}, {"^HGMMA", "none"}, {"^MUFU", "special"},
  {"^FFMA", "float"}, {"^FMUL", "float"}, {"^FADD", "float"},
  {"^LDSM", "none"}, {"^LDS", "none"}, {"^STS", "none"}, {"^LDG", "none"}, {"^STG", "none"},
  {"^SHFL", "none"}, {"^B", "none"}, {"^WARP", "none"}, {"^DEPBAR", "none"},
  {"^U", "none"}, {"^R2UR", "none"}, {"^S2U?R", "none"}, {"^CS2R", "none"}, {"^LDC", "none"},
  {"^EXIT", "none"},
}

local function unit_of(op)
  for _, row in ipairs(UNITS) do
    if op:find(row[1]) then return row[2] end
  end
  return "whole"
end

-- Bytes of shared memory that a warp's instruction moves.
local function shared_bytes(op)
  if op:find("^LDSM") then return 128 * (op:match("%.(%d)$") or 1) end
  if op:find("^SHFL") then return 128 end
  if not (op:find("^LDS") or op:find("^STS") or op:find("^LDGSTS")) then return 0 end
  return 32 * (WIDTHS[op:match("%.[US]?(%d+)%f[^%d]") or ""] or 4)
end

-- A product of a warpgroup, 64 by N by 16 halves, is N / 8 products of each of its four warps; the
-- right factor comes from shared memory, and the left one if it is not in registers.
local function add_group(phase, i)
  local columns = i.op:match("^HGMMA%.64x(%d+)x16")
  if not columns then return end
  local in_registers = i.operands:find("^R%d+, R%d+, gdesc")
  phase.groups = phase.groups + columns // 8
  phase.shared = phase.shared + (columns * 32 + (in_registers and 0 or 64 * 32)) // 4
end

local function add_to_phase(phase, i)
  local op = i.op
  if op:find("^NOP") then return end
  local unit = unit_of(op)
  phase.steps = phase.steps + 1
  phase.shared = phase.shared + shared_bytes(op)
  add_group(phase, i)
  if op:find("^LDGSTS") then
    phase.copies = phase.copies + 1
    if not op:find("%.128") then phase.narrow = phase.narrow + 1 end
  end
  if unit ~= "none" then phase[unit] = phase[unit] + 1 end
end

local function new_phase()
  return {steps = 0, mma = 0, groups = 0, special = 0, float = 0, whole = 0, shared = 0,
          copies = 0, narrow = 0}
end

-- The work on a way, cut at barriers of the block; the part behind the last goes on at the head.
local function phases_of(code, blocks, way)
  local list, phases = {}, {new_phase()}
  while way.block do
    table.insert(list, 1, way.block)
    way = way.before
  end
  for _, b in ipairs(list) do
    for k = blocks[b].from, blocks[b].to do
      add_to_phase(phases[#phases], code[k])
      if code[k].op:find("^BAR") then phases[#phases + 1] = new_phase() end
    end
  end
  if #phases > 1 then
    for name, value in pairs(table.remove(phases)) do phases[1][name] = phases[1][name] + value end
  end
  return phases
end

---A turn of the smallest loop with a way of so many instructions of tensor cores, or nil; where a
---kernel has products of warpgroups, these count alone, as others are for rare numbers. Of such
---ways it is the shortest of those with the most copies into shared memory and exponentials; the
---block's barriers cut it into phases. Of a phase: all 'steps'; those of tensor cores ('mma'), and
---as many as products of warpgroups are worth to a warp ('groups'); those of 'special' functions,
---of 'float's and of 'whole' numbers; the bytes of 'shared' memory that a warp moves, 'copies' into
---it, and those that are 'narrow', of less than 16 bytes.
---@param code table[]
---@param jumps table<integer, integer[]> where the jumps of tables lead, see sass.jumps
---@param mma integer
---@return table[]?
function sass.turn(code, jumps, mma)
  local blocks, loops = flow_of(code, jumps)
  local best, least, counts = nil, math.huge, is_tensor
  for _, i in ipairs(code) do
    if is_group(i.op) then counts = is_group end
  end
  for head, loop in pairs(loops) do
    local size = 0
    for _ in pairs(loop) do size = size + 1 end
    local way = size < least and way_through(code, blocks, loop, head, mma, counts)
    if way then best, least = way, size end
  end
  return best and phases_of(code, blocks, best)
end

---For each kernel of cuobjdump's output, by lines(): f(architecture, mangled name, instructions).
function sass.each(lines, f)
  local arch, name, code
  local function done()
    if name then f(arch, name, code) end
    name, code = nil, nil
  end
  for line in lines do
    local i = code and sass.instruction(line)
    if i then
      code[#code + 1] = i
    elseif line:find("Function : ", 1, true) then
      done()
      name, code = line:match("Function : (%S+)"), {}
    elseif line:find("code for sm_", 1, true) then
      done()
      arch = line:match("code for sm_(%w+)")
    end
  end
  done()
end

---The targets of jumps by tables in the output of cuobjdump -elf, by lines(): by architecture and
---mangled name, then by the address of the jump.
---@return table<string, table<integer, integer[]>>
function sass.jumps(lines)
  local found, arch, name, at = {}, nil, nil, nil
  for line in lines do
    arch = line:match("^arch = sm_(%w+)") or arch
    name = line:match("^%.nv%.info%.(%S+)") or name
    at = line:match("Offset of Indirect Branch: 0x(%x+)") or at
    local targets = line:match("^%s*Targets: (.*)")
    if targets then
      local key, list = arch .. " " .. name, {}
      for target in targets:gmatch("0x(%x+)") do list[#list + 1] = tonumber(target, 16) end
      found[key] = found[key] or {}
      found[key][tonumber(at, 16)] = list
    end
  end
  return found
end

return sass
