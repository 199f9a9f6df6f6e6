-- States of generators: PyTorch's legacy layout, byte for byte; what goes on from them; bytes that
-- no generator gives.

local device = require "spec.support.device"
local heed = require "heed"
local message = require "spec.support.message"

local BYTES <const>, N <const>, SEED <const> = 5056, 624, 1234567890123
local HEAD <const>, TAIL <const> = "<I8i4i4I8", "<dddi4fBxxxxxxx"
local TAIL_AT <const> = 1 + 24 + 8 * N

-- The numbers of a state by name.
local function parts(state)
  local bytes, p = state:data(), {}
  p.seed, p.left, p.seeded, p.next = HEAD:unpack(bytes)
  p.x, p.normal, p.rho, p.has_normal, p.float, p.has_float = TAIL:unpack(bytes, TAIL_AT)
  p.words = bytes:sub(25, TAIL_AT - 1)
  return p
end

-- A state of such numbers.
local function state_of(p)
  local bytes = HEAD:pack(p.seed, p.left, p.seeded, p.next) .. p.words
                .. TAIL:pack(p.x, p.normal, p.rho, p.has_normal, p.float, p.has_float)
  local list = {bytes:byte(1, 2500)}
  for i = 2501, BYTES, 1000 do table.move({bytes:byte(i, i + 999)}, 1, 1000, i, list) end
  return heed.tensor(list, {dtype = "uint8"})
end


describe("the state of a generator", function()
  setup(device.cpu)
  teardown(device.back)

  it("is what PyTorch has: seed, place in the block, block, the normal number kept", function()
    heed.manual_seed(SEED)
    local p = parts(heed.rng_state())
    assert.same({SEED, 1, 1, 0}, {p.seed, p.left, p.seeded, p.next})
    local low = SEED & 0xffffffff
    local first, second = ("<I8I8"):unpack(p.words)
    assert.same({low, 1812433253 * (low ~ low >> 30) + 1 & 0xffffffff}, {first, second})
    assert.same({0, 0.0}, {p.has_normal, p.normal})
    heed.randn(1, {dtype = "float64"})                 -- two numbers of 64 bits, one of them kept
    p = parts(heed.rng_state())
    assert.same({SEED, N - 3, 1, 4, 1}, {p.seed, p.left, p.seeded, p.next, p.has_normal})
    assert.equal(p.normal, heed.randn(1, {dtype = "float64"}):item())
    p = parts(heed.rng_state())
    assert.same({N - 3, 4, 0, 0.0}, {p.left, p.next, p.has_normal, p.normal})
    assert.same({0.0, 0.0, 0.0, 0}, {p.x, p.rho, p.float, p.has_float})
  end)

  it("comes back as it went, wherever in a block that was", function()
    for _, drawn in ipairs{0, 1, N - 2, N - 1, N, N + 1, N + 2, 2 * N - 1, 2 * N, 2 * N + 1} do
      heed.manual_seed(SEED)
      if drawn > 0 then heed.rand(drawn) end
      local state = heed.rng_state()
      local wanted = {heed.rand(7), heed.randn(1, {dtype = "float64"}), heed.rand(N + 3)}
      local behind = heed.rng_state()
      heed.manual_seed(1)
      heed.randn(1, {dtype = "float64"})
      heed.rng_state(state)
      assert.is_true(heed.rng_state():equal(state))
      assert.equal(SEED, parts(heed.rng_state()).seed)
      for i, n in ipairs{7, false, N + 3} do
        local got = n and heed.rand(n) or heed.randn(1, {dtype = "float64"})
        assert.is_true(got:equal(wanted[i]))
      end
      assert.is_true(heed.rng_state():equal(behind))
      heed.manual_seed(SEED)                            -- one by one as all at once
      for _ = 1, drawn do heed.rand(1) end
      assert.is_true(heed.rng_state():equal(state))
    end
  end)

  it("is refused where no generator has it, and changes nothing", function()
    heed.manual_seed(SEED)
    heed.rand(3)
    local before = heed.rng_state()
    local function with(changes)
      local p = parts(before)
      for name, value in pairs(changes) do p[name] = value end
      return state_of(p)
    end
    assert.is_true(with{}:equal(before))
    for _, bad in ipairs{{seeded = 0}, {seeded = 2}, {left = 0}, {left = -1},
                         {left = N + 1, next = 0}, {left = 1, next = N + 1},
                         {left = N, next = 2}, {left = 2, next = N}, {next = 1 << 40},
                         {next = -1 & math.maxinteger}} do
      assert.matches("rng_state: this is no state of a generator",
                     message(heed.rng_state, with(bad)))
      assert.is_true(heed.rng_state():equal(before))
    end
    for _, good in ipairs{{left = 1, next = N}, {left = N, next = 1}, {left = N, next = 0},
                          {left = 1, next = 0}, {has_normal = 1, normal = 0.25}} do
      heed.rng_state(with(good))
      assert.is_true(heed.rng_state():equal(with(good)))
    end
    assert.equal(0.25, heed.randn(1, {dtype = "float64"}):item())
  end)

  it("moves on by a word of 32 bits for an integer, and by two from a width of 2^28 on", function()
    for _, case in ipairs{{2, 5}, {(1 << 28) - 1, 5}, {1 << 28, 10}, {1 << 40, 10}} do
      heed.manual_seed(SEED)
      local drawn = heed.randint(0, case[1] - 1, {5})
      assert.equal(case[2], parts(heed.rng_state()).next)
      assert.is_true(drawn:ge(0):all() and drawn:lt(case[1]):all())
    end
  end)
end)
