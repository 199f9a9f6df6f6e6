-- The tiles of attention on tensor cores, as cuda/attention/fast*.h have them, and what arithmetic
-- says of them: `make ledger` holds machine code to it, `make bytes` what is launched.

local tiles = {}

-- Of an instruction mma.m16n8k16, of halves; and of mma.m16n8k8, of TF32.
local MULTIPLICATIONS <const>, OF_TF32 <const> = 16 * 8 * 16, 16 * 8 * 8

-- Values that need not be finite have a loop over 16 keys, and in it one over 16 columns: products
-- of these, and of their marks.
local function rare_products(rows) return 2 * rows * 16 * 16 // MULTIPLICATIONS end

-- q k^T and weights times values.
local function forward(width, rich)
  local pieces = width <= 128 and not rich and 2 or 1
  local warps = (width == 256 or pieces == 2) and 4 or 8
  local t = {width = width, rich = rich, warps = warps, rows = 16 * pieces,
             columns = (width == 256 or width == 128 and pieces == 2) and 32 or 64, products = 2}
  t.rare = rare_products(t.rows)
  t.shared = (t.rows * warps + 2 * t.columns) * 2 * width
             + (rich and (t.rows * warps + t.columns) * 4 or 0)
  t.title = ("forward, heads of up to %d%s"):format(width, rich and ", options" or "")
  t.order = width + (rich and 1 or 0)
  return t
end

-- Each product of floats is of so many 'terms'. Any numbers need no tensor cores.
local function forward_floats(width, rich, terms)
  local t = {width = width, rich = rich, terms = terms, warps = 4, rows = 16,
             columns = 4096 // width, products = 2, rare = 0}
  t.shared = (64 + 2 * t.columns) * 4 * width + (rich and (64 + t.columns) * 4 or 0)
  t.title = ("forward, %d of TF32, heads of up to %d%s"):format(terms, width,
                                                                 rich and ", options" or "")
  t.order = 500 + width + (rich and 10 or 0) - terms
  return t
end

local MADE <const> = {{"dq", 3}, {"dk", 3}, [4] = {"dv", 2}, [6] = {"dk and dv", 4}}

-- Scores, and dp but for dv alone; then a product for each gradient. A tile of columns has two
-- copies, each with lse and delta, and biases by distance.
local function backward_shared(width, columns, rich, warps)
  local rows = 16 * warps
  local numbers = 2 * columns * 4 + (rich and (rows + columns) * 4 or 0)
  return 2 * rows * 2 * width + 2 * (2 * columns * 2 * width + (numbers + 127) // 128 * 128)
end

local function backward(width, makes, rich, warps)
  local name, products = table.unpack(MADE[makes])
  local t = {width = width, makes = makes, rich = rich, warps = warps, rows = 16,
             columns = width == 256 and 16 or width == 128 and 32 or 64, products = products,
             rare = 0}
  t.shared = backward_shared(width, t.columns, rich, warps)
  t.title = ("%s, heads of up to %d%s%s"):format(name, width, rich and ", options" or "",
                                                 warps == 8 and ", 8 warps" or "")
  t.order = 1000 + width + makes + (rich and 10 or 0) + (warps == 8 and 20 or 0)
  return t
end

-- Of a product of a warpgroup 16 of the depth are an instruction.
local DEPTH <const> = 16

-- Scores of the first tile, of a turn's, of any numbers; values of a turn's tile and of the last;
-- values of any numbers, as in 'forward'.
local function forward_groups(width)
  local columns = width == 256 and 64 or 128
  return {width = width, rich = false, groups = true, warps = 8, rows = 16, columns = columns,
          products = 2, turn = (width + columns) // DEPTH,
          mma = (3 * width + 2 * columns) // DEPTH + rare_products(16),
          order = 300 + width, shared = 128 * 2 * width + 4 * columns * 2 * width,
          title = ("forward by warpgroups, heads of up to %d"):format(width)}
end

-- Scores and dp, and a product for each gradient; scores and dp of any numbers.
local function backward_groups(width, makes)
  local name, products = table.unpack(MADE[makes])
  local columns <const> = 64
  local scores, turn = 2 * width // DEPTH, (2 * width + (products - 2) * columns) // DEPTH
  return {width = width, makes = makes, rich = false, groups = true, warps = 8, rows = 16,
          columns = columns, products = products, turn = turn, mma = turn + scores,
          order = 1500 + width + makes,
          shared = 2 * 128 * 2 * width + 2 * (2 * columns * 2 * width + 1024),
          title = ("%s by warpgroups, heads of up to %d"):format(name, width)}
end

-- Scores and dp; ds is summed along diagonals.
local function diagonals(width)
  local warps = width == 256 and 2 or 4
  local side = 16 * warps
  return {width = width, makes = 0, rich = true, warps = warps, rows = 16, columns = side,
          products = 2, rare = 0, order = 2000 + width,
          shared = 4 * side * 2 * width + side * (side + 8) * 4 + 2 * side * 4,
          title = ("gradients of biases by distance, heads of up to %d"):format(width)}
end

local function tile_of(name)
  local width, rich = name:match("^attend_tiles<.*fast<(%d+), (%a+)>")
  if width then return forward(width + 0, rich == "true") end
  local makes, terms, warps
  width, rich, terms = name:match("^attend_tiles<.*fast_floats<(%d+), (%a+), (%d+)>")
  if width then return forward_floats(width + 0, rich == "true", terms + 0) end
  width, makes, rich, warps = name:match("^back_tiles<.*back<(%d+), (%d+), (%a+), (%d+)>")
  if width then return backward(width + 0, makes + 0, rich == "true", warps + 0) end
  width = name:match("^attend_groups<.*groups<(%d+)>")
  if width then return forward_groups(width + 0) end
  width, makes = name:match("^back_with_groups<.*back_groups<(%d+), (%d+)>")
  if width then return backward_groups(width + 0, makes + 0) end
  width = name:match("^sum_diagonals<.*band<(%d+)>")
  return width and diagonals(width + 0)
end

-- The least KiB of shared memory of a multiprocessor; one is kept for each block.
local LEAST <const> = 100

---Is a tile the one of its kind that a multiprocessor with so many KiB of shared memory is given?
---Where it has products of warpgroups ('groups'), these but for options and the widest gradients.
---Other gradients are made in two blocks of 4 warps; where these do not fit, in one of 8 if that
---does: see run_back in cuda/attention/fast_back.h.
---@param t table
---@param kib integer
---@param groups? boolean
---@return boolean
function tiles.is_taken(t, kib, groups)
  local fits_groups = not (t.rich or t.terms or t.makes and t.width > 128)
  if (groups and fits_groups or false) ~= (t.groups or false) then return false end
  if t.groups or not t.makes or t.makes == 0 then return true end
  local function fits(warps, most)
    local bytes = backward_shared(t.width, t.columns, t.rich, warps)
    return 8 // warps * (bytes + 1024) <= most * 1024
  end
  local takes_wide = not fits(4, kib) and not fits(4, LEAST) and fits(8, LEAST)
  return takes_wide == (t.warps == 8)
end

---The tile of a kernel by its name, or nil: a warp's 'rows' and the 'columns' of a turn, of heads
---of up to 'width' numbers; the block's 'warps' and bytes of 'shared' memory; instructions of
---tensor cores of a 'turn', and in the whole code ('mma'), and the 'operations' that a turn is
---for; of a gradient, which it 'makes', of floats the 'terms' of a product; a 'title', and its
---place in the 'order' of tables.
---@param name string demangled
---@return table?
function tiles.of(name)
  local t = tile_of(name)
  if not t then return nil end
  local product = t.rows * t.columns * t.width         -- multiplications
  t.operations = 2 * product * t.products
  if t.turn then return t end
  local each = t.terms and product // OF_TF32 * t.terms or product // MULTIPLICATIONS
  t.turn, t.mma = each * t.products, each * t.products + t.rare
  return t
end

return tiles
