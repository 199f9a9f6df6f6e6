-- First weights by nn.init: PyTorch's numbers from its seeds, and the moments that papers ask for.

local close = require "spec.support.close"
local device = require "spec.support.device"
local golden = require "spec.golden"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local parameter = require "heed.nn.parameter"

local init = nn.init

local function seeded(f, ...)
  heed.manual_seed(3)
  return f(...)
end

local function moments(t)
  return t:mean():item(), t:var():item() ^ 0.5
end


describe("nn.init", function()
  setup(device.cpu)
  teardown(device.back)

  -- PyTorch's Linear draws by kaiming_uniform_(weight, a = sqrt(5)).
  it("draws PyTorch's kaiming_uniform_", function()
    for seed, layers in pairs(golden.part("first_weights")) do
      heed.manual_seed(seed)
      local t = init.kaiming_uniform_(heed.empty(4, 3), {a = math.sqrt(5)})
      assert.is_nil(golden.difference(t, layers["Linear(3, 4)"].weight, 1e-6))
    end
  end)

  -- Its MultiheadAttention makes a Linear, then draws by xavier_uniform_.
  it("draws PyTorch's xavier_uniform_", function()
    for seed, layers in pairs(golden.part("first_weights")) do
      heed.manual_seed(seed)
      local _ = nn.Linear(8, 8)
      local t = init.xavier_uniform_(heed.empty(24, 8))
      for name, weights in pairs(layers) do
        if name:find("^MultiHeadAttention") then
          assert.is_nil(golden.difference(t, weights.in_proj_weight, 1e-6))
        end
      end
    end
  end)

  -- One matrix of all rows of queries, keys and values.
  it("draws the weights of attention as one matrix, whatever the size of a head", function()
    local m = nn.MultiHeadAttention(6, 2, {head_dim = 10})
    local bound = (6 / (6 + 60)) ^ 0.5
    for _, name in ipairs{"query", "key", "value"} do
      local most = m[name].weight:abs():max():item()
      assert.is_true(most <= bound and most > 0.9 * bound, most)
    end
  end)

  it("draws the numbers of uniform_ and normal_, scaled by the formulas", function()
    local shape = {6, 4, 3}                            -- fans 12 and 18
    local function unit(name, ...)
      local t = heed.empty(shape)
      return seeded(t[name], t, ...)
    end
    local function near(a, b) return a:allclose(b, {rtol = 1e-5, atol = 1e-7}) end
    local normal = unit("normal_")
    local function uniform(bound) return unit("uniform_", -bound, bound) end
    local cases = {
      {"xavier_uniform_", {}, uniform((6 / 30) ^ 0.5)},
      {"xavier_uniform_", {2}, uniform(2 * (6 / 30) ^ 0.5)},
      {"xavier_normal_", {{gain = 3}}, normal * 3 * (2 / 30) ^ 0.5},
      {"kaiming_uniform_", {}, uniform((6 / 12) ^ 0.5)},
      {"kaiming_uniform_", {1, "fan_out"}, uniform((3 / 18) ^ 0.5)},
      {"kaiming_normal_", {0, {nonlinearity = "tanh"}}, normal * 5 / 3 / 12 ^ 0.5},
      {"kaiming_normal_", {{mode = "fan_out", nonlinearity = "relu"}}, normal * (2 / 18) ^ 0.5},
      {"uniform_", {-3, 5}, unit("uniform_", -3, 5)},
      {"uniform_", {}, unit("uniform_", 0, 1)},
      {"normal_", {{std = 0.02}}, normal * 0.02},
      {"normal_", {4, 2}, normal * 2 + 4},
    }
    for i, case in ipairs(cases) do
      local t = heed.empty(shape)
      assert.equal(t, seeded(init[case[1]], t, table.unpack(case[2])))
      assert.is_true(near(t, case[3]), case[1] .. " " .. i)
    end
  end)

  it("fills with what is no random number", function()
    local t = heed.empty(2, 3)
    assert.equal(6, init.ones_(t):sum():item())
    assert.equal(0, init.zeros_(t):sum():item())
    assert.equal(15, init.constant_(t, 2.5):sum():item())
    assert.equal(6, init.constant_(t, {val = 1}):sum():item())
    assert.same({{1, 0, 0}, {0, 1, 0}}, init.eye_(t):totable())
  end)

  -- Seed 3, mean, std, a and b, nine numbers of PyTorch 2.15 in float64.
  local TRUNCATED <const> = {
    {{0, 1, -2, 2}, {0.80327608, 0.17483339, 0.0889781, -0.61371801, 0.04618245, -1.36825918,
                     0.3374951, 1.01111585, -1.43517932}},
    {{1, 2, -2, 1.5}, {-1.4265725, 1.34966679, 1.17795619, -0.22743602, 1.0923649, -1.73651836,
                       0.84029136, 1.30382978, -1.87035865}},
    {{0, 1, -0.5, 0.5}, {0.49518901, 0.17483339, 0.0889781, 0.1544151, 0.04618245, 0.41921866,
                         0.3374951, 0.15191489, 0.41240638}},
    {{0, 1, 1, 3}, {1.06821639, 1.57348045, 1.41488831, 1.34985406, 1.09844806, 1.53026624,
                    1.3974543, 1.86683106, 1.02012781}},
    {{0, 1, 0, 1e-3}, {3.411e-05, 0.00028674, 0.00077291, 0.00017493, 0.00075537, 0.00060825,
                       0.00019873, 0.00043342, 0.00040484}},
  }

  it("draws PyTorch's trunc_normal_", function()
    for _, case in ipairs(TRUNCATED) do
      local t = seeded(init.trunc_normal_, heed.empty(9, {dtype = "float64"}),
                       table.unpack(case[1]))
      assert.is_true(t:allclose(heed.tensor(case[2]):double(), {rtol = 0, atol = 1e-7}))
    end
  end)

  it("keeps trunc_normal_ within its bounds, in all float types", function()
    for _, dtype in ipairs{"float32", "float64", "float16", "bfloat16"} do
      for _, case in ipairs(TRUNCATED) do
        local mean, std, a, b = table.unpack(case[1])
        local t = init.trunc_normal_(heed.empty(40, 25, {dtype = dtype}), mean, std, a, b)
        local bounds = heed.tensor({a, b}, {dtype = dtype})
        assert.is_true(t:ge(bounds[1]):all() and t:le(bounds[2]):all())
      end
    end
    local _, deviation = moments(init.trunc_normal_(heed.empty(2000, {dtype = "float64"})))
    assert.is_true(close(deviation, 0.88, 0, 0.05))
    local wide = init.trunc_normal_(heed.empty(1000), {a = -math.huge, b = math.huge})
    assert.is_true(wide:isfinite():all())
    assert.equal(2, init.trunc_normal_(heed.empty(1), {a = 2, b = 2}):item())
  end)

  -- Mean and deviation of what lies between the bounds, by sums over a fine grid.
  local function truncated(mean, std, a, b)
    a, b = math.max(a, mean - 40 * std), math.min(b, mean + 40 * std)
    local top = math.max(a, math.min(mean, b))
    b, a = math.min(b, top + 8 * std), math.max(a, top - 8 * std)
    local x = heed.linspace(a, b, 100001, {dtype = "float64"})
    local share = (((x - mean) / std):square() * -0.5 + ((top - mean) / std) ^ 2 * 0.5):exp()
    share = share / share:sum()
    local middle = (x * share):sum():item()
    return middle, ((x - middle):square() * share):sum():item() ^ 0.5
  end

  it("draws truncated numbers whatever the bounds", function()
    heed.manual_seed(4)
    for _, dtype in ipairs{"float64", "float32"} do
      for _, case in ipairs{{5, 1, -1e30, 1}, {0, 1, 2, math.huge}, {0, 1, -math.huge, -2},
                            {0, 1, 0.9, 50}, {0, 1, -0.1, 50}, {-3, 2, 7, 100}, {0, 1, 30, 31},
                            {0, 1e20, 1e20, 2e20}, {0, 1, 3, 8.5}, {1, 1e6, -2, 2},
                            {0, 1, 20, 20.125}, {0, 1, -20.125, -20}, {0, 3, -1, 1e30}} do
        local t = heed.empty(50, 80, {dtype = dtype})
        t = init.trunc_normal_(t, table.unpack(case)):double()
        local mean, deviation = truncated(table.unpack(case))
        local name = ("%s, mean %g, std %g, a %g, b %g"):format(dtype, table.unpack(case))
        assert.is_true(t:ge(case[3]):all() and t:le(case[4]):all(), name)
        local got, spread = moments(t)
        assert.is_true(close(got, mean, 0, 0.08 * deviation), name)
        assert.is_true(close(spread, deviation, 0.1), name)
      end
    end
  end)

  it("draws truncated numbers that a type can hardly tell from a bound", function()
    for _, case in ipairs{{"float16", 0, 0.002, 1, 2, 1}, {"float32", 0, 1e-20, 1, 2, 1},
                          {"float32", 0, 1e-320, -2, -1, -1}, {"float64", 0, 1e-320, 1, 2, 1},
                          {"float32", 1e10 + 511.8, 1, 1e10 + 512.2, math.huge, 1e10 + 1024}} do
      local t = init.trunc_normal_(heed.empty(2000, {dtype = case[1]}), table.unpack(case, 2, 5))
      assert.is_true(t:eq(case[6]):all(), case[1])
    end
    local half = init.trunc_normal_(heed.empty(2000, {dtype = "float16"}), 0, 1e5, -6e4, 6e4)
    assert.is_true(half:isfinite():all() and half:abs():le(6e4):all())
  end)

  it("keeps uniform numbers as often as the density there is high, by its highest", function()
    for seed = 1, 30 do
      local mean, std, a, b, mode = 1, 2, 4, 8, 4
      if seed > 10 then mean, std, a, b, mode = 0, 3, -1, 1, 0 end
      if seed > 20 then a, b, mode = -9, -4, -4 end
      local function log_density(x) return -0.5 * ((x - mean) / std) ^ 2 end
      heed.manual_seed(seed)
      local t = init.trunc_normal_(heed.empty(1, {dtype = "float64"}), mean, std, a, b)
      heed.manual_seed(seed)
      local x, share = heed.empty(1, {dtype = "float64"}), heed.empty(1, {dtype = "float64"})
      repeat
        x:uniform_(a, b)
        share:uniform_()
      until math.log(share:item()) <= log_density(x:item()) - log_density(mode)
      assert.equal(x:item(), t:item())
    end
  end)

  it("makes orthogonal rows or columns, PyTorch's by its signs", function()
    for _, shape in ipairs{{5, 5}, {3, 7}, {7, 3}, {4, 2, 3}, {1, 6}, {60, 60}} do
      local t = seeded(init.orthogonal_, heed.empty(shape, {dtype = "float64"}), 2)
      local q = t:reshape(shape[1], -1)
      local wide = #q < q:size(2)
      local a = seeded(heed.randn, shape[1], q:size(2), {dtype = "float64"})
      if wide then q, a = q.mT, a.mT end
      local n = q:size(2)
      assert.is_true(q.mT:matmul(q):allclose(heed.eye(n):double() * 4, {atol = 1e-12}))
      local r = q.mT:matmul(a)                         -- upper triangular, above 0 on the diagonal
      assert.is_true(r:tril(-1):abs():max():item() < 1e-12)
      assert.is_true(r:diagonal():gt(0):all())
    end
    assert.is_true(init.orthogonal_(heed.empty(3, 4)):norm():item() > 1.7)
  end)

  it("knows the gains of activations", function()
    for name, gain in pairs{linear = 1, sigmoid = 1, tanh = 5 / 3, relu = 2 ^ 0.5, selu = 0.75} do
      assert.equal(gain, init.calculate_gain(name))
    end
    assert.is_true(close(init.calculate_gain("leaky_relu"), (2 / 1.0001) ^ 0.5, 0, 1e-12))
    assert.equal(1, init.calculate_gain("leaky_relu", 1))
  end)

  it("draws into parameters without a graph, of all float types, and into nothing", function()
    for _, dtype in ipairs{"float32", "float64", "float16", "bfloat16"} do
      for _, name in ipairs{"xavier_uniform_", "kaiming_normal_", "trunc_normal_", "orthogonal_",
                            "normal_", "uniform_", "eye_", "zeros_"} do
        local layer = nn.Linear(4, 6):to(dtype)
        assert.equal(layer.weight, init[name](layer.weight))
        assert.is_true(layer.weight.is_leaf and layer.weight.requires_grad)
        assert.equal(dtype, layer.weight.dtype)
        assert.equal("(0, 3)", tostring(init[name](heed.empty(0, 3, {dtype = dtype})).shape))
      end
    end
    for _, name in ipairs{"xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                          "kaiming_normal_", "orthogonal_"} do
      assert.is_true(init[name](heed.zeros(1, 1)):item() ~= 0, name)
    end
    local whole = heed.zeros(4, 6)
    init.normal_(whole.mT:narrow(1, 2, 3))
    assert.equal(12, whole:ne(0):sum():item())
  end)

  it("refuses what it cannot draw", function()
    local t = heed.empty(2, 2)
    for _, name in ipairs{"uniform_", "normal_", "constant_", "zeros_", "ones_", "eye_",
                          "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                          "kaiming_normal_", "trunc_normal_", "orthogonal_"} do
      local who = "nn.init." .. name .. ": "
      assert.matches(who .. "a tensor of a float type expected, got nil", message(init[name]))
      assert.matches(who .. ".*type int64", message(init[name], heed.tensor{{1}}))
      assert.matches(who .. "unknown option 'nonsense'", message(init[name], t, {nonsense = 1}))
      assert.matches(who .. "at most %d arguments? expected", message(init[name], t, 1, 2, 3, 4, 5))
    end
    for name, most in pairs{eye_ = 1, constant_ = 2, normal_ = 3, kaiming_normal_ = 4} do
      local surplus = {1, 1, 1, 1, {}}
      local wanted = "at most %d arguments? expected, got 1 as argument %d$"
      assert.matches(wanted:format(most, most + 1),
                     message(init[name], t, table.unpack(surplus, 5 - most)))
    end
    for _, name in ipairs{"xavier_uniform_", "kaiming_normal_", "orthogonal_"} do
      assert.matches("at least two dimensions expected, got a tensor of shape %(3%)",
                     message(init[name], heed.empty(3)))
    end
    assert.matches("two dimensions expected", message(init.eye_, heed.empty(1, 2, 3)))
    assert.matches("gain was given twice", message(init.xavier_normal_, t, 1, {gain = 1}))
    assert.matches("unknown mode 'fan_on'; did you mean 'fan_", message(init.kaiming_normal_, t,
                   {mode = "fan_on"}))
    assert.matches("nonlinearity, got the string 'geluu'", message(init.kaiming_normal_, t,
                   {nonlinearity = "geluu"}))
    assert.matches("above 0 expected as std, got 0", message(init.trunc_normal_, t, {std = 0}))
    assert.matches("b at least a expected, got a 2 and b 1", message(init.trunc_normal_, t,
                   {a = 2, b = 1}))
    assert.matches("trunc_normal_: a finite number expected as mean, got inf",
                   message(init.trunc_normal_, t, {mean = math.huge}))
    assert.matches("trunc_normal_: numbers between the bounds expected, got a inf and b inf",
                   message(init.trunc_normal_, t, {a = math.huge, b = math.huge}))
    assert.matches("a number expected as val", message(init.constant_, t))
    assert.matches("as std, got %-1", message(init.normal_, t, 0, -1))
    assert.matches("as param, got 'x'", (message(init.calculate_gain, "leaky_relu", "x"):gsub(
                   "the string ", "")))
    assert.matches("at most 2 arguments expected, got 5 as argument 3",
                   message(init.calculate_gain, "relu", 0, 5))
    assert.matches("did you mean 'xavier_normal_'", message(function() return init.xavier end))
  end)

  it("are drawn for the first layer of a stack alone, also where another one fails", function()
    local function state_after(layers, fails)
      heed.manual_seed(5)
      pcall(nn.Encoder, 8, 2, layers, {each = function(i)
        if i > 1 then heed.rand(7, {device = "cpu"}) end
        if i == fails then error "no options" end
      end})
      return heed.rng_state()
    end
    local wanted = state_after(1)
    assert.is_true(wanted:equal(state_after(3)))
    assert.is_true(wanted:equal(state_after(3, 2)))
    assert.is_true(wanted:equal(state_after(3, 3)))
  end)

  it("are left out until the outermost call that asks for none ends", function()
    parameter.hollow("spec", 2, function()
      parameter.hollow("spec", 2, nn.Linear, 2, 2)
      assert.is_true(parameter.is_hollow())
      pcall(parameter.hollow, "spec", 2, error)
      assert.is_true(parameter.is_hollow())
    end)
    assert.is_false(parameter.is_hollow())
  end)
end)
