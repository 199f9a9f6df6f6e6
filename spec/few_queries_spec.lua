-- Attention of one to four queries, which has its own way on the CPU, against attention composed
-- from the other operations: every option that it takes, every type and layout, long rows of keys.

local heed = require "heed"
local layouts = require "spec.support.layouts"

local NAN <const> = 0 / 0

-- Rows of keys: within a tile (64), whole ones, and beyond a part (512).
local LENGTHS <const> = {1, 7, 63, 64, 65, 512, 513, 1100}

local OPTIONS = {
  plain = function() return {} end,
  causal = function() return {causal = true} end,
  ["an offset"] = function(_, _, _, S) return {causal = true, offset = S // 2} end,
  lengths = function(B, _, _, S) return {lengths = heed.randint(0, S, {B})} end,
  ["a mask"] = function(B, H, T, S) return {mask = heed.rand(B, H, T, S):gt(0.5)} end,
  ["a mask of whole tiles"] = function(_, _, T, S)
    return {mask = (heed.arange(S) // 64 % 2):eq(1):expand(T, S)}
  end,
  ["masks together"] = function(B, H, T, S)
    return {causal = true, lengths = heed.randint(0, S, {B}), mask = heed.rand(H, T, S):gt(0.3)}
  end,
  softcap = function() return {softcap = 1.5, causal = true} end,
  scale = function() return {scale = 0.7} end,
  bias = function(B, H, T, S) return {bias = heed.randn(B, H, T, S), causal = true} end,
  ["a bias of heads"] = function(_, H, _, S) return {bias = heed.randn(H, 1, S)} end,
}

local function with(options, name, value)
  local new = {[name] = value}
  for key, other in pairs(options) do new[key] = other end
  return new
end

-- Results of both ways, with weights and normalisers; asking for those changes no bit.
local function check(where, q, k, v, options, near)
  local alone = heed.attention(q, k, v, options)
  options = with(with(options, "lse", true), "weights", true)
  local found = {heed.attention(q, k, v, options)}
  local wanted = {heed.attention(q, k, v, with(options, "fused", false))}
  for i, what in ipairs {"results", "weights", "normalisers"} do
    local close = {rtol = near, atol = near, equal_nan = true}
    assert.is_true(found[i]:allclose(wanted[i], close), where .. ": " .. what .. " differ")
  end
  assert.is_true(alone:equal(found[1]), where .. ": not the same with weights")
end


describe("attention of few queries", function()
  for name, make in pairs(OPTIONS) do
    it("agrees with the composed one: " .. name, function()
      layouts.on_each_level(function(level)
        heed.manual_seed(5)
        for _, S in ipairs(LENGTHS) do
          for T = 1, 4 do
            local B, H, Hk = 2, 4, T % 2 == 0 and 2 or 4
            local q, k, v = heed.randn(B, H, T, 8), heed.randn(B, Hk, S, 8), heed.randn(B, Hk, S, 5)
            check(("%s, %d queries of %d keys"):format(level, T, S), q, k, v, make(B, H, T, S),
                  2e-5)
          end
        end
      end)
    end)
  end

  it("takes every type", function()
    for dtype, near in pairs {float64 = 1e-12, bfloat16 = 2e-2, float16 = 2e-3} do
      local q, k, v = heed.randn(2, 4, 3, 16), heed.randn(2, 2, 600, 16), heed.randn(2, 2, 600, 24)
      check(dtype, q:to(dtype), k:to(dtype), v:to(dtype), {causal = true}, near)
    end
  end)

  -- Keys and values of 16 bits are read as they lie: what float32 gives of them, rounded.
  it("reads 16-bit floats of every width and layout, of many heads that share keys", function()
    layouts.on_each_level(function(level)
      for dtype, near in pairs {bfloat16 = 8e-3, float16 = 1e-3} do
        for _, widths in ipairs {{16, 32}, {64, 64}, {20, 16}, {16, 20}, {3, 5}} do
          local D, Dv = table.unpack(widths)
          local q, k = heed.randn(1, 10, 2, D):to(dtype), heed.randn(1, 2, 130, D):to(dtype)
          local v = heed.randn(1, 2, 130, Dv):to(dtype)
          local wanted = heed.attention(q:float(), k:float(), v:float())
          local ways = {part = function(t) return heed.cat({t, t}, 4):narrow(4, 1, t:size(4)) end}
          for name, lay in pairs(layouts.lay) do ways[name] = lay end
          for name, lay in pairs(ways) do
            local y = heed.attention(q, lay(k), lay(v))
            assert.equal(dtype, y.dtype)
            assert.is_true(y:float():allclose(wanted, {rtol = near, atol = near / 4}),
                           ("%s, %s, %s, heads of %d and %d"):format(level, name, dtype, D, Dv))
          end
        end
      end
    end)
  end)

  it("takes views of every layout", function()
    local q, k, v = heed.randn(2, 2, 2, 24), heed.randn(2, 2, 90, 24), heed.randn(2, 2, 90, 24)
    local wanted = heed.attention(q, k, v)
    for name, view in pairs(layouts.lay) do
      local y = heed.attention(view(q), view(k), view(v))
      assert.is_true(y:allclose(wanted, {rtol = 1e-5, atol = 1e-6}), name)
    end
    check("expanded", q, k:narrow(2, 1, 1):expand(2, 2, 90, 24),
          v:narrow(2, 1, 1):expand(2, 2, 90, 24), {}, 1e-5)
  end)

  it("has wide and narrow heads", function()
    for _, D in ipairs {1, 3, 64, 65, 300} do
      local q, k, v = heed.randn(1, 2, 2, D), heed.randn(1, 2, 100, D), heed.randn(1, 2, 100, D + 1)
      check("heads of " .. D, q, k, v, {}, 2e-5)
    end
  end)

  it("gives 0 where nothing may be attended to", function()
    local q, k, v = heed.randn(1, 1, 2, 4), heed.randn(1, 1, 700, 4), heed.randn(1, 1, 700, 4)
    local y, _, lse = heed.attention(q, k, v, {lengths = heed.tensor{0}, lse = true})
    assert.is_true(y:eq(0):all())
    assert.is_true(lse:eq(-math.huge):all())
  end)

  it("lets nothing through a mask", function()
    for _, dtype in ipairs {"float32", "bfloat16", "float16"} do
      local function random(T) return heed.randn(1, 2, T, 16):to(dtype) end
      for _, bad in ipairs {NAN, math.huge, -math.huge} do
        local q, k, v = random(3), random(700), random(700)
        local kinds, wanted = {lengths = heed.tensor{600}, mask = heed.arange(1, 700):le(600)}, {}
        for kind, value in pairs(kinds) do
          wanted[kind] = heed.attention(q, k, v, {[kind] = value})
        end
        k[{{}, {}, {601, -1}}], v[{{}, {}, {601, -1}}] = bad, bad
        for kind, value in pairs(kinds) do
          local y = heed.attention(q, k, v, {[kind] = value})
          local close = y:allclose(wanted[kind], {rtol = 2e-2, atol = 1e-6})
          assert.is_true(close and (kind == "mask" or y:equal(wanted[kind])),
                         ("%s, %s, %s"):format(dtype, bad, kind))
        end
      end
    end
  end)

  it("has NaN where it may be attended to", function()
    for _, dtype in ipairs {"float32", "bfloat16", "float16"} do
      local function random(T) return heed.randn(1, 1, T, 16):to(dtype) end
      local q, k, v = random(1), random(700), random(700)
      v[{1, 1, 650, 3}] = NAN
      local y = heed.attention(q, k, v)
      assert.is_true(y[{1, 1, 1}]:isnan():equal(heed.arange(16):eq(3)), dtype)
    end
  end)

  it("does not depend on the number of threads", function()
    local q, k, v = heed.randn(2, 4, 2, 16), heed.randn(2, 2, 3000, 16), heed.randn(2, 2, 3000, 16)
    local threads, wanted = heed.threads(), nil
    for n = 1, 4 do
      heed.threads(n)
      local y = heed.attention(q, k, v, {causal = true})
      wanted = wanted or y
      assert.is_true(y:equal(wanted), n .. " threads")
    end
    heed.threads(threads)
  end)

  it("has the gradients of many queries", function()
    local q, k, v = heed.randn(1, 2, 4, 8), heed.randn(1, 2, 600, 8), heed.randn(1, 2, 600, 8)
    local function gradients(fused)
      local leaves = {}
      for i, t in ipairs {q, k, v} do leaves[i] = t:clone():requires_grad_() end
      local y = heed.attention(leaves[1], leaves[2], leaves[3], {causal = true, fused = fused})
      y:sin():sum():backward()
      return leaves
    end
    local found, wanted = gradients(true), gradients(false)
    for i, t in ipairs(found) do
      assert.is_true(t.grad:allclose(wanted[i].grad, {rtol = 1e-4, atol = 1e-6}))
    end
  end)
end)
