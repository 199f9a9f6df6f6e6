-- Positions: against PyTorch's and transformers' tables, against the papers' formulas in plain Lua,
-- and what must hold for all ways to say where a token stands.

local close = require "spec.support.close"
local golden = require "spec.golden"
local heed = require "heed"
local json = require "heed.files.json"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"
local nn = require "heed.nn"
local position = require "heed.position"
local scaled = require "heed.attention.rope_scaling"

local tables = golden.read("positions")
local rope = position.rope


local function near(a, b, floor)
  return a:allclose(b, {rtol = 1e-5, atol = floor or 1e-6})
end


-- A tensor's numbers are those of f(row, column), both from 0, but for 'atol'.
local function assert_values(t, f, atol)
  for i, row in ipairs(t:to("float64"):totable()) do
    for j, value in ipairs(row) do
      local wanted = f(i - 1, j - 1)
      assert.is_true(close(value, wanted, 0, atol), ("%.17g expected at (%d, %d), got %.17g")
                     :format(wanted, i, j, value))
    end
  end
end


describe("sinusoidal", function()
  for _, case in ipairs(tables.sinusoidal) do
    it("gives PyTorch's table: " .. case.name, function()
      local t = position.sinusoidal(case.length, case.dim, case.options)
      assert.is_nil(golden.difference(t, case.out, 1e-5, 1e-6))
    end)
  end

  -- Vaswani et al. 2017, 3.5.
  it("is the paper's formula, of any width and far out", function()
    for _, D in ipairs{1, 2, 3, 16, 33} do
      local function wave(offset)
        return function(p, j)
          local angle = (offset + p) / 10000 ^ (j // 2 * 2 / D)
          return j % 2 == 0 and math.sin(angle) or math.cos(angle)
        end
      end
      local double = position.sinusoidal(40, D, {dtype = "float64"})
      assert_values(double, wave(0), 1e-12)
      local far = position.sinusoidal(3, D, {offset = 1000000, dtype = "float64"})
      assert_values(far, wave(1000000), 1e-9)
      assert_values(position.sinusoidal(5, D), wave(0), 1e-7)
    end
  end)

  it("has the type and the device that it is asked for, and may have no rows", function()
    assert.equal("float16", position.sinusoidal(2, 4, {dtype = "float16"}).dtype)
    assert.equal("cpu", position.sinusoidal(2, 4, {device = "cpu"}).device)
    assert.equal("(0, 4)", tostring(position.sinusoidal(0, 4).shape))
  end)

  it("refuses what it cannot mean", function()
    local make = position.sinusoidal
    assert.matches("position.sinusoidal: .* as D, got 0", message(make, 4, 0))
    assert.matches("as T, got %-1", message(make, -1, 4))
    assert.matches("a float type expected as dtype, got 'int64'", message(make, 4, 4,
                   {dtype = "int64"}))
    assert.matches("unknown layout 'interleave'; did you mean 'interleaved'",
                   message(make, 4, 4, {layout = "interleave"}))
    assert.matches("a base above 0 expected, got 0", message(make, 4, 4, {base = 0}))
    assert.matches("as offset, got %-1", message(make, 4, 4, {offset = -1}))
    assert.equal(4, #make(4, 4, {offset = 1 << 52}))
    assert.matches("an offset of at most 4503599627370496 expected, got 4503599627370497",
                   message(make, 4, 4, {offset = (1 << 52) + 1}))
    assert.matches("at most 3 arguments", message(make, 4, 4, {}, 5))
  end)
end)


-- One pair of columns (a, b) of x at position p: Su et al. 2021, 3.2.2.
local function turned(x, p, n, j, o)
  local i, first
  if o.interleaved then i, first = j // 2, j % 2 == 0 else i, first = j % (n / 2), j < n / 2 end
  local a = o.interleaved and 2 * i or i
  local b = o.interleaved and a + 1 or i + n / 2
  local angle = p * (o.base or 10000) ^ (-2 * i / n)
  a, b = x[math.tointeger(a) + 1], x[math.tointeger(b) + 1]
  if first then return a * math.cos(angle) - b * math.sin(angle) end
  return b * math.cos(angle) + a * math.sin(angle)
end


describe("rope", function()
  for _, case in ipairs(tables.rope) do
    for _, layout in ipairs{"half_split", "interleaved"} do
      it("turns as transformers: " .. case.name .. ", " .. layout, function()
        local x, p = golden.tensor(case.x), golden.tensor(case.positions)
        local o = {base = case.base, fraction = case.rotary_dim / case.head_dim,
                   interleaved = layout == "interleaved", positions = p}
        assert.is_nil(golden.difference(rope(x, o), case[layout], 0, case.tolerance))
        if case.name ~= "explicit" and case.name ~= "far" then
          o.positions, o.offset = nil, case.offset
          assert.is_nil(golden.difference(rope(x, o), case[layout], 0, case.tolerance))
        end
      end)
    end
  end

  it("is the paper's formula, for each pair alone", function()
    local x = heed.randn(7, 6, {dtype = "float64"})
    for _, o in ipairs{{}, {interleaved = true}, {offset = 1000}, {base = 50},
                       {interleaved = true, offset = 3, base = 7}} do
      local rows = x:totable()
      assert_values(rope(x, o), function(t, j)
        return turned(rows[t + 1], t + (o.offset or 0), 6, j, o)
      end, 1e-12)
    end
  end)

  it("makes products depend on distance alone", function()
    local q, k = heed.randn(1, 8, {dtype = "float64"}), heed.randn(1, 8, {dtype = "float64"})
    local function product(i, j)
      return (rope(q, {offset = i}) * rope(k, {offset = j})):sum():item()
    end
    assert.is_true(close(product(3, 1), product(903, 901), 0, 1e-12))
    assert.is_false(close(product(3, 1), product(4, 1), 0, 1e-3))
  end)

  it("warns once where an offset leads beyond the length that it was told", function()
    local told, usual = {}, rawget(_G, "warn")
    rawset(_G, "warn", function(text) told[#told + 1] = text end)
    local x = heed.ones(1, 4, 8)
    local scaling = {rope_type = "linear", factor = 2}
    rope(x, {offset = 996, max_position_embeddings = 1000})
    assert.same({}, told)
    for offset = 997, 999 do rope(x, {offset = offset, max_position_embeddings = 1000}) end
    assert.equal(1, #told)
    assert.matches("position 1000 is beyond max_position_embeddings, 1000", told[1])
    rope(x, {offset = 2000, scaling = scaling, max_position_embeddings = 2001})
    assert.equal(2, #told)
    rope(x, {offset = 2000, scaling = {rope_type = "dynamic", factor = 2},
             max_position_embeddings = 16})
    rope(x, {offset = 2000})
    rope(x, {positions = heed.arange(4) + 2000, max_position_embeddings = 16})
    assert.equal(2, #told)
    rawset(_G, "warn", nil)
    rope(x, {offset = 17, max_position_embeddings = 17})
    rawset(_G, "warn", usual)
  end)

  it("turns the first columns alone, with a fraction", function()
    local x = heed.randn(2, 5, 12)
    local y = rope(x, {fraction = 0.5})
    assert.is_true(y:narrow(-1, 7, 6):equal(x:narrow(-1, 7, 6)))
    assert.is_true(y:narrow(-1, 1, 6):equal(rope(x:narrow(-1, 1, 6))))
  end)

  it("takes features of all ranks, and positions of a sequence or of each row", function()
    local x = heed.randn(2, 3, 5, 4)
    local p = heed.tensor{{0, 0, 1, 2, 3}, {7, 8, 9, 10, 11}}
    local y = rope(x, {positions = p})
    for b = 1, 2 do
      assert.is_true(near(y[b]:unsqueeze(1), rope(x[b]:unsqueeze(1), {positions = p[b]})))
      for h = 1, 3 do assert.is_true(near(y[b][h], rope(x[b][h], {positions = p[b]}))) end
    end
    assert.is_true(near(rope(x:select(2, 1), {positions = p}), y:select(2, 1)))
    assert.is_true(near(y[2], rope(x[2], {offset = 7})))
    local one = x[1][1]
    assert.is_true(near(rope(one, {positions = p:narrow(1, 2, 1)}), rope(one, {offset = 7})))
  end)

  it("takes all layouts and float types", function()
    local x = heed.randn(2, 3, 6, 4)
    for _, interleaved in ipairs{false, true} do
      local o = {interleaved = interleaved, offset = 2}
      local wanted = rope(x, o)
      for _, name in ipairs{"transposed", "sliced", "flipped"} do
        assert.is_true(near(rope(layouts.lay[name](x), o), wanted), name)
      end
      local same = rope(layouts.expanded(x[1]:narrow(1, 1, 1), 1, 3), o)
      assert.is_true(near(same[3], wanted[1][1]))
      for dtype, floor in pairs{float16 = 1e-2, bfloat16 = 1e-1, float64 = 1e-6} do
        local y = rope(x:to(dtype), o)
        assert.equal(dtype, y.dtype)
        assert.is_true(near(y:float(), wanted, floor), dtype)
      end
    end
    for _, shape in ipairs{{0, 2, 3, 4}, {2, 0, 4}, {0, 4}} do
      assert.equal(table.concat(shape, " "), table.concat({rope(heed.zeros(shape)):size()}, " "))
    end
  end)

  it("has gradients", function()
    local p = heed.tensor{{0, 4, 5}, {1, 2, 3}}
    for _, o in ipairs{{}, {interleaved = true}, {fraction = 0.5, offset = 3}, {positions = p},
                       {scaling = {rope_type = "yarn", factor = 4}, max_position_embeddings = 8}} do
      local x = heed.randn(2, 3, 8, {dtype = "float64", requires_grad = true})
      assert.is_true(heed.gradcheck(function(t) return rope(t, o) end, {x}))
    end
    local x = heed.randn(3, 4, {dtype = "bfloat16", requires_grad = true})
    rope(x):sum():backward()
    assert.equal("bfloat16", x.grad.dtype)
  end)

  it("is the same wherever its tables begin and end, and after a scope", function()
    local x = heed.randn(1, 8)
    local function at(offset) return rope(x, {positions = heed.tensor{offset}}) end
    for _, offset in ipairs{0, 255, 256, 257, 3, 1023, 100000, 0} do
      assert.is_true(near(rope(x, {offset = offset}), at(offset)), offset)
    end
    local long = heed.randn(600, 8)
    local y = rope(long, {offset = 200})
    assert.is_true(near(y[600]:unsqueeze(1), rope(long[600]:unsqueeze(1), {offset = 799})))
    heed.scope(function() rope(x, {base = 77, offset = 5}) end)
    heed.no_grad(function() rope(x, {base = 78}) end)
    assert.is_true(near(rope(x, {base = 77, offset = 6}), rope(x, {base = 77, positions =
                        heed.tensor{6}})))
    for base = 100, 140 do rope(x, {base = base, offset = 1}) end
    assert.is_true(near(rope(x, {base = 77, offset = 6}), rope(x, {base = 77, positions =
                        heed.tensor{6}})))
  end)

  it("refuses what it cannot mean", function()
    local x = heed.zeros(2, 3, 4)
    assert.matches("position.rope: a shape such as .* as x, got a tensor of shape "
                   .. "%(3%)", message(rope, heed.zeros(3)))
    assert.matches("expected as x, got 5", message(rope, 5))
    assert.matches("a float type expected as x, got int64", message(rope, heed.tensor{{1, 2}}))
    assert.matches("at least 2, expected, got 3$", message(rope, heed.zeros(2, 3)))
    assert.matches("got 1: 0.25 of 4", message(rope, x, {fraction = 0.25}))
    for _, fraction in ipairs{0, 1.5, 0 / 0, true} do
      assert.matches("a fraction above 0, at most 1, expected", message(rope, x,
                     {fraction = fraction}))
    end
    assert.matches("unknown option 'bass'; did you mean 'base'", message(rope, x, {bass = 1}))
    assert.matches("a finite number above 0 expected as base, got 0", message(rope, x, {base = 0}))
    assert.matches("option interleaved", message(rope, x, {interleaved = 1}))
    assert.matches("positions of type int64 and shape %(3%) or %(2, 3%) expected, got a tensor of "
                   .. "shape %(4%) and type int64", message(rope, x, {positions = heed.arange(4)}))
    assert.matches("got a tensor of shape %(3, 3%)",
                   message(rope, x, {positions = heed.ones(3, 3, {dtype = "int64"})}))
    assert.matches("type float32", message(rope, x, {positions = heed.zeros(3)}))
    assert.matches("got 5$", message(rope, x, {positions = 5}))
    assert.matches("either offset or positions", message(rope, x,
                   {offset = 1, positions = heed.arange(3)}))
    assert.matches("at most 2 arguments", message(rope, x, {}, 5))
    assert.matches("did you mean 'rope'", message(function() return position.ropes end))
  end)
end)


-- The cosines and sines (T, n) by which rope turned ones and zeros.
local function turns(T, D, o)
  local x = heed.cat({heed.ones(T, D // 2), heed.zeros(T, D // 2)}, -1)
  return table.unpack(rope(x, o):split(D // 2, -1))
end


describe("rope with scaling", function()
  local function options_of(case)
    return {scaling = case.rope_parameters, max_position_embeddings = case.max_position_embeddings}
  end

  for _, case in ipairs(tables.scaling) do
    local pairs_turned = case.head_dim // 2

    it("has transformers' frequencies: " .. case.name, function()
      local rule = scaled.rule("rope", pairs_turned, case.rope_parameters.rope_theta,
                               case.rope_parameters, case.max_position_embeddings)
      local f = rule:frequencies(rule:reach(case.seq_len or 1), heed.default_device())
      assert.is_nil(golden.difference(f, case.inv_freq, 1e-5))
      assert.is_true(close(rule.attention_factor, case.attention_factor, 0, 1e-6))
    end)

    it("turns as transformers: " .. case.name, function()
      local o, p = options_of(case), golden.tensor(case.positions)
      local T = math.max(p:max():item() + 1, case.seq_len or 0)
      local cos, sin
      if T > (case.seq_len or T) or not case.seq_len and o.scaling.rope_type == "dynamic" then
        local f = golden.tensor(case.inv_freq)   -- positions beyond the length: no call says so
        local angles = p:unsqueeze(2):to("float32") * f
        cos, sin = angles:cos() * case.attention_factor, angles:sin() * case.attention_factor
      elseif T > 1000 then
        o.positions = p
        cos, sin = turns(#p, case.head_dim, o)
      else
        cos, sin = turns(T, case.head_dim, o)
        cos, sin = cos:index_select(1, p + 1), sin:index_select(1, p + 1)
      end
      assert.is_nil(golden.difference(cos, case.cos, 0, 1e-4))
      assert.is_nil(golden.difference(sin, case.sin, 0, 1e-4))
    end)
  end

  it("takes positions as it takes an offset, where the length counts", function()
    local o = {max_position_embeddings = 64, scaling = {rope_type = "dynamic", factor = 4}}
    local long = {max_position_embeddings = 128, scaling = {
      rope_type = "longrope", short_factor = {1, 1.5, 2, 3}, long_factor = {4, 5, 6, 7},
      original_max_position_embeddings = 32}}
    local x = heed.randn(5, 8)
    for _, given in ipairs{o, long} do
      for _, offset in ipairs{0, 20, 27, 28, 59, 60, 200} do
        given.offset, given.positions = offset, nil
        local y = rope(x, given)
        given.offset, given.positions = nil, heed.arange(5) - 1 + offset
        assert.is_true(near(y, rope(x, given)), offset)
      end
    end
  end)

  it("knows the old names, and what stands beside the table", function()
    local x = heed.randn(4, 8)
    local a = rope(x, {scaling = {type = "linear", factor = 2}})
    assert.is_true(a:equal(rope(x, {scaling = {rope_type = "linear", factor = 2}})))
    assert.is_true(near(a:narrow(1, 3, 1), rope(x:narrow(1, 3, 1), {offset = 1})))
    local b = rope(x, {scaling = {rope_type = "default", rope_theta = 500,
                                  partial_rotary_factor = 0.5}})
    assert.is_true(b:equal(rope(x, {base = 500, fraction = 0.5, max_position_embeddings = 9})))
    local c = rope(x, {scaling = {rope_type = "yarn", factor = 4,
                                  original_max_position_embeddings = 16}})
    assert.is_true(c:equal(rope(x, {max_position_embeddings = 64, scaling = {
      rope_type = "yarn", original_max_position_embeddings = 16}})))
    local text = '{"type": "yarn", "factor": 4, "beta_fast": null, '
                 .. '"original_max_position_embeddings": 16}'
    assert.is_true(c:equal(rope(x, {scaling = json.decode(text)})))
    assert.is_true(rope(x, {scaling = json.null}):equal(rope(x)))
    local llama = {type = "llama3", factor = 4, low_freq_factor = 1, high_freq_factor = 4}
    local d = rope(x, {scaling = llama, max_position_embeddings = 16})
    llama.original_max_position_embeddings = 16
    assert.is_true(d:equal(rope(x, {scaling = llama})))
  end)

  it("refuses what it does not know", function()
    local x = heed.zeros(2, 8)
    local function why(scaling, most)
      return message(rope, x, {scaling = scaling, max_position_embeddings = most})
    end
    assert.matches("unknown rope_type the string 'yarm' in scaling; did you mean 'yarn'",
                   why{rope_type = "yarm"})
    assert.matches("factor expected in scaling of rope_type linear, got none", why{type = "linear"})
    assert.matches("max_position_embeddings expected in scaling of rope_type dynamic",
                   why{type = "dynamic", factor = 2})
    assert.matches("scaling: unknown option 'beta_fst'; did you mean 'beta_fast'",
                   why{type = "yarn", factor = 2, beta_fst = 3})
    assert.matches("a finite number above 0 expected as factor in scaling, got %-1",
                   why{type = "linear", factor = -1})
    assert.matches("got the string '4'", why{type = "linear", factor = "4"})
    assert.matches("as factor in scaling, got an empty table", why{type = "linear", factor = {}})
    assert.matches("factor expected in scaling of rope_type yarn, got none",
                   why({type = "yarn"}, 8))
    assert.matches("a table expected as option short_factor", why{type = "longrope",
                   short_factor = 3})
    assert.matches("one rope_type expected, got .*'yarn', and type of .*'linear' in scaling",
                   why{rope_type = "yarn", type = "linear"})
    assert.matches("one base expected", message(rope, x, {base = 5, scaling = {rope_theta = 6}}))
    assert.matches("a list of 4 numbers expected as short_factor.* got 2",
                   why({type = "longrope", short_factor = {1, 2}, long_factor = {1, 2, 3, 4},
                        original_max_position_embeddings = 4}, 8))
    assert.matches("a high_freq_factor above low_freq_factor expected, got 1 and 4",
                   why{type = "llama3", factor = 2, low_freq_factor = 4, high_freq_factor = 1,
                       original_max_position_embeddings = 4})
    assert.matches("a table such as rope_scaling", why("linear"))
    assert.matches("as max_position_embeddings, got 0.5", why(nil, 0.5))
  end)
end)


describe("positions of keys", function()
  it("count the keys that are there", function()
    local keys = heed.tensor{{false, false, true, true}, {true, true, true, true},
                             {true, false, true, false}, {false, false, false, false}}
    local p = position.of_keys(keys)
    assert.equal("int64", p.dtype)
    assert.same({{0, 0, 0, 1}, {0, 1, 2, 3}, {0, 0, 1, 1}, {0, 0, 0, 0}}, p:totable())
    assert.same({0, 0, 0, 1}, position.of_keys(keys[1]):totable())
    assert.matches("keys as a bool tensor of shape %(B, T%) expected, got a tensor of shape %(2%) "
                   .. "and type float32", message(position.of_keys, heed.zeros(2)))
    assert.matches("got nil", message(position.of_keys))
  end)
end)


local MAKERS = {
  Learned = function() return position.Learned(40, 6) end,
  Sinusoidal = function() return position.Sinusoidal(4, 6) end,
}

for name, make in pairs(MAKERS) do
  describe("position." .. name, function()
    local x = heed.randn(2, 5, 6)

    -- The rows that the layer adds at positions (T), from 0.
    local function rows(layer, p)
      if name == "Learned" then return layer.weight[p + 1] end
      return position.sinusoidal(40, 6)[p + 1]
    end

    it("adds its rows, from 0 or an offset on, or at positions", function()
      local layer = make()
      local first = rows(layer, heed.arange(5) - 1)
      assert.is_true(near(layer(x), x + first))
      assert.is_true(near(layer(x[1]), x[1] + first))
      assert.is_true(near(layer(x, {offset = 7}), x + rows(layer, heed.arange(5) + 6)))
      local p = heed.tensor{{3, 1, 4, 1, 5}, {0, 0, 0, 1, 39}}
      local y = layer(x, {positions = p})
      for b = 1, 2 do
        assert.is_true(near(y[b], x[b] + rows(layer, p[b])))
        assert.is_true(near(layer(x, {positions = p[b]})[1], x[1] + rows(layer, p[b])))
      end
      assert.equal("(2, 0, 6)", tostring(layer(heed.zeros(2, 0, 6)).shape))
    end)

    it("counts the keys of padded rows, and follows a cache", function()
      local layer = make()
      local keys = heed.tensor{{false, false, true, true, true}, {true, true, true, true, true}}
      local y, plain = layer(x, {keys = keys}), layer(x)
      assert.is_true(near(y[2], plain[2]))
      assert.is_true(near(y[1]:narrow(1, 3, 3), layer(x[1]:narrow(1, 3, 3))))
      local last = x:narrow(2, 5, 1)
      assert.is_true(near(layer(last, {keys = keys}), y:narrow(2, 5, 1)))
      assert.is_true(near(layer(x, {lengths = heed.tensor{2, 5}}), plain))
      local cache = heed.nn.Cache()
      function cache.positions(_, T) return 9 + T end
      assert.is_true(near(layer(x, {cache = cache}), layer(x, {offset = 14})))
      local p = heed.tensor{{3}, {4}}
      local padding
      function cache.positions(_, _, given)
        padding = given
        return p
      end
      local lengths = heed.tensor{1, 0}
      assert.is_true(near(layer(last, {cache = cache, keys = keys, lengths = lengths}),
                          layer(last, {positions = p})))
      assert.same({keys = keys, lengths = lengths}, padding)
    end)

    it("has gradients, and the type of x", function()
      local layer = make():to("float64")
      local leaf = heed.randn(2, 5, 6, {dtype = "float64", requires_grad = true})
      local p = heed.tensor{{3, 1, 4, 1, 5}, {0, 0, 0, 1, 39}}
      for _, o in ipairs{{}, {offset = 2}, {positions = p}} do
        local function run(t) return layer(t, o) end
        assert.is_true(heed.gradcheck(run, {leaf, table.unpack(layer:parameters())}))
      end
      for _, dtype in ipairs{"float16", "bfloat16"} do
        assert.equal(dtype, make():to(dtype)(x:to(dtype)).dtype)
      end
    end)

    it("refuses what it cannot mean", function()
      local layer = make()
      local who = "position." .. name .. ": "
      assert.matches(who .. "features of shape %(B, T, D%) or %(T, D%) expected as x, got a tensor "
                     .. "of shape %(6%)", message(layer, heed.zeros(6)))
      assert.matches(who .. "6 features expected as the last dimension of x, got a tensor of shape "
                     .. "%(2, 3%)", message(layer, heed.zeros(2, 3)))
      assert.matches("either offset or positions", message(layer, x,
                     {offset = 1, positions = heed.arange(5)}))
      assert.matches("got several", message(layer, x, {offset = 1, cache = {}}))
      assert.matches("an nn.Cache expected as option cache, got 5", message(layer, x, {cache = 5}))
      assert.matches("at least 5 keys expected, got a tensor of shape %(2, 3%)",
                     message(layer, x, {keys = heed.ones(2, 3, {dtype = "bool"})}))
      assert.matches("lengths of type int64 and shape %(2%) expected, got 5",
                     message(layer, x, {lengths = 5}))
      assert.matches("shape %(2%) expected, got a tensor of shape %(1%)",
                     message(layer, x, {lengths = heed.tensor{1}}))
      assert.matches("unknown option 'ofset'", message(layer, x, {ofset = 1}))
      assert.matches("at most 2 arguments", message(layer, x, {}, 5))
      assert.matches("at most 3 arguments", message(position[name], 4, 6, {}, 5))
    end)
  end)
end


describe("position.Learned", function()
  it("draws its first weights as an nn.Embedding", function()
    heed.manual_seed(7)
    local layer = position.Learned(10, 5)
    heed.manual_seed(7)
    assert.is_true(layer.weight:equal(nn.Embedding(10, 5).weight))
    assert.equal("Learned(10, 5)  weight (10, 5)  50", tostring(layer):gsub("%s%s+", "  "), nil)
  end)

  it("names its length where a position lies beyond", function()
    local none = heed.zeros(1, 0, {dtype = "int64"})
    local single = position.Learned(1, 2)
    assert.equal(0, single(heed.zeros(1, 0, 2), {positions = none}):numel())
    assert.equal(0, single(heed.zeros(1, 0, 2)):numel())
    assert.is_true(single(heed.zeros(1, 2)):equal(single.weight))
    assert.matches("position.Learned: unknown option 'base'",
                   message(position.Learned, 4, 2, {base = 3}))
    local layer = position.Learned(4, 2)
    local wanted = "position.Learned: positions from 0 to 3 expected, since its length is 4, got "
    assert.matches(wanted .. "4", message(layer, heed.zeros(5, 2)))
    assert.matches(wanted .. "6", message(layer, heed.zeros(2, 2), {offset = 5}))
    local p = heed.tensor({1, 4}, {device = "cpu"})
    assert.matches(wanted .. "4", message(layer, heed.zeros(2, 2), {positions = p}))
    assert.matches(wanted .. "%-4", message(layer, heed.zeros(2, 2), {positions = -p}))
  end)
end)


describe("position.Sinusoidal", function()
  it("may know its sizes, its width or neither", function()
    local x = heed.zeros(1, 300, 6)
    for _, layer in ipairs{position.Sinusoidal(), position.Sinusoidal(6), position.Sinusoidal(4, 6),
                           position.Sinusoidal{}, position.Sinusoidal(6, {base = 10000})} do
      assert.is_true(near(layer(x)[1], position.sinusoidal(300, 6)))
    end
    local other = {base = 50, layout = "concatenated"}
    assert.is_true(near(position.Sinusoidal(3, 6, other)(x)[1], position.sinusoidal(300, 6, other)))
    assert.equal("Sinusoidal(4, 6)", tostring(position.Sinusoidal(4, 6)))
    assert.equal("Sinusoidal(6)", tostring(position.Sinusoidal(6)))
    assert.equal("Sinusoidal", tostring(position.Sinusoidal()))
    assert.same({}, position.Sinusoidal(4, 6):state())
  end)

  it("refuses integers and unknown layouts", function()
    assert.matches("a float type expected as x, got int64",
                   message(position.Sinusoidal(), heed.ones(2, 3, {dtype = "int64"})))
    assert.matches("unknown layout 'halves'", message(position.Sinusoidal, 4, 6,
                   {layout = "halves"}))
    assert.matches("as dim, got 0", message(position.Sinusoidal, 0))
  end)
end)


describe("a cached step with a position layer", function()
  local Model = nn.Module:extend("Model")
  function Model:init(layer)
    self.embed, self.position = nn.Embedding(9, 6), layer
    self.attend = nn.MultiHeadAttention(6, 2)
  end
  function Model:forward(ids, given)
    local x = self.position(self.embed(ids), given)
    return self.attend(x, {causal = true, cache = given.cache, keys = given.keys,
                           lengths = given.lengths})
  end

  -- Two rows of 5 and 3 tokens; the first columns hold 3 of row 1 and 1 of row 2.
  local rows = {heed.tensor{{1, 2, 3, 4, 5}}, heed.tensor{{6, 7, 8}}}
  local later = heed.tensor{{4, 5}, {7, 8}}
  local prompts = {
    ["padded at the left"] = {
      heed.tensor{{1, 2, 3}, {9, 9, 6}}, 3, 3,
      {keys = heed.tensor{{true, true, true}, {false, false, true}}},
    },
    ["padded at the right"] = {
      heed.tensor{{1, 2, 3}, {6, 9, 9}}, 3, 1, {lengths = heed.tensor{3, 1}},
    },
  }

  for name, make in pairs(MAKERS) do
    for which, prompt in pairs(prompts) do
      it("is that of each row alone: " .. name .. ", " .. which, function()
        local model = Model(make())
        local ids, last1, last2, given = table.unpack(prompt)
        given.cache = nn.Cache()
        local first = model(ids, given)
        local steps = {model(later:narrow(2, 1, 1), {cache = given.cache}),
                       model(later:narrow(2, 2, 1), {cache = given.cache})}
        for b, last in ipairs{last1, last2} do
          local alone = model(rows[b], {})[1]
          local n = #alone
          assert.is_true(near(first[b][last], alone[n - 2], 1e-5))
          for i, step in ipairs(steps) do
            assert.is_true(near(step[b][1], alone[n - 2 + i], 1e-5))
          end
        end
      end)
    end
  end
end)


describe("positions within a step that is captured", function()
  it("are those of the step itself", function()
    local layer = position.Sinusoidal()
    local function step(x, p)
      return layer(rope(x, {offset = 3}) + rope(x, {positions = p}), {positions = p})
    end
    local captured = heed.capture(step)
    for i = 1, 4 do
      local x, p = heed.randn(2, 5, 8), heed.arange(5):expand(2, 5) + i
      assert.is_true(near(captured(x, p), step(x, p)))
    end
    assert.is_true(near(rope(heed.ones(5, 8), {offset = 3}),
                        rope(heed.ones(5, 8), {positions = heed.arange(5) + 2})))
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
