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
local function blocks_of(code)
  local leads, at = {[1] = true}, {}
  for k, i in ipairs(code) do at[i.at] = k end
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
local function connect(code, blocks, block_at, first, seen)
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

---Of a kernel's instructions: how many are tensor core's, and what a turn of its loops does. 'main'
---is the loop with the widest accesses to global memory, of those that hold no other loop with any;
---'double' is the most 64-bit instructions of a loop with such accesses.
---@param code table[]
---@return table
function sass.measure(code)
  local m = {instructions = #code, mma = 0, double = 0, main = nil}
  if #code == 0 then return m end
  for _, i in ipairs(code) do
    if i.op:find("^[HIQDOU]?[HIQDBT]?G?MMA") then m.mma = m.mma + 1 end
  end
  local blocks, block_at = blocks_of(code)
  local seen, roots = {}, {1}
  connect(code, blocks, block_at, 1, seen)
  for b in ipairs(blocks) do             -- functions that are called, and ways of tables of jumps
    if not seen[b] then
      roots[#roots + 1] = b
      connect(code, blocks, block_at, b, seen)
    end
  end
  local found = {}
  for _, loop in pairs(loops_of(blocks, dominators(blocks, roots))) do
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

return sass
