-- States of generators: PyTorch's legacy layout, byte for byte; what goes on from them; bytes that
-- no generator gives. Dropout, whose numbers are Philox's.

local core = require "heed.core"
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

  it("is refused for a call that would draw from it", function()
    local function why(name, state) return message(core.with_generators, {[name] = state}, why) end
    assert.matches("a uint8 tensor of 5056 elements expected", why("rng", heed.zeros(BYTES)))
    local wrong = "an int64 tensor of 2 elements expected, got a tensor of shape "
    assert.matches(wrong .. "%(3%)", why("rng.cuda:0", heed.zeros(3, "int64")))
    assert.matches(wrong .. "%(2%)", why("rng.cuda:0", heed.zeros(2, "float64")))
    assert.matches("the name of a device expected, got 'a name that is long'",
                   why("rng.a name that is long", heed.zeros(2, "int64")))
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


-- Philox 4x32 of 10 rounds: four numbers of 32 bits.
local function philox(key, counter)
  local low <const> = 0xffffffff
  local k0, k1, a, b, c, d = key & low, key >> 32, counter & low, counter >> 32, 0, 0
  for _ = 1, 10 do
    local left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
    a, b, c, d = right >> 32 ~ b ~ k0, right & low, left >> 32 ~ d ~ k1, left & low
    k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
  end
  return {a, b, c, d}
end

-- The number that the generator makes of a word of its state.
local function tempered(word)
  word = word ~ word >> 11
  word = word ~ word << 7 & 0x9d2c5680
  word = word ~ word << 15 & 0xefc60000
  return word ~ word >> 18
end

-- Sets the generator such that it draws this key next from these words of its state.
local function draw_key_from(first, second)
  local words = ("<I4I4I4I4"):pack(first, 0, second, 0) .. ("\0"):rep(8 * N - 16)
  heed.rng_state(state_of{seed = 0, left = N, seeded = 1, next = 0, words = words, x = 0.0,
                          normal = 0.0, rho = 0.0, has_normal = 0, float = 0.0, has_float = 0})
end


describe("the numbers of dropout", function()
  setup(device.cpu)
  teardown(device.back)

  local FIRST <const>, SECOND <const> = 0x12345678, 0x9abcdef1
  local key = tempered(FIRST) << 32 | tempered(SECOND)

  -- Element i, counted from 0, stays where the probability is its number's, and not beyond.
  local function assert_number(i, dropped)
    local number = philox(key, i >> 2)[1 + (i & 3)]
    for more = 0, 1 do
      draw_key_from(FIRST, SECOND)
      local value = dropped((number + more) * 2.0 ^ -32)
      assert.equal(more == 0, value ~= 0, ("element %d, %d more"):format(i, more))
    end
  end

  it("are Philox's, for the key that is drawn and an element's place", function()
    assert.same({0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, philox(0, 0))  -- the paper's
    for _, i in ipairs{0, 1, 2, 3, 4, 63, 64, 70, 1023, 1024, 4097} do
      assert_number(i, function(p) return heed.dropout(heed.ones(4100), p)[i + 1] end)
    end
  end)

  it("are those of attention's weights", function()
    local q, k, v = heed.zeros(3, 2, 1), heed.zeros(3, 7, 1), heed.eye(7):expand(3, 7, 7)
    for _, i in ipairs{0, 1, 2, 3, 4, 6, 7, 13, 14, 40, 41} do
      assert_number(i, function(p)
        return heed.attention(q, k, v, {dropout = p}):reshape(-1)[i + 1]
      end)
    end
  end)

  -- Composed, all weights would be in memory.
  local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it
  if_fused("differ beyond 2^34 weights from those of the first", function()
    local n <const> = 1 << 17
    local q, k = heed.zeros(n + 1, 1), heed.zeros(n, 1)
    local v = heed.zeros(n, 4)
    v[{{1, 4}}] = heed.eye(4)
    for i = n * n, n * n + 3 do
      assert_number(i, function(p)
        local y = heed.attention(q, k, v, {dropout = p, mask = heed.mask.prefix(4)})
        return y[{n + 1, i % 4 + 1}]
      end)
    end
  end)
end)
