-- Pooling, classifiers and patches, against sums and loops over tokens.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local NAN <const> = 0 / 0
local KINDS <const> = {"first", "last", "max", "mean"}

-- The result of each kind of pooling over the tokens of a sequence, as lists of numbers.
local pooled = {}

function pooled.first(tokens) return tokens[1] end

function pooled.last(tokens) return tokens[#tokens] end

local function fold(tokens, f)
  local y = {table.unpack(tokens[1])}
  for i = 2, #tokens do
    for j, value in ipairs(tokens[i]) do y[j] = f(y[j], value) end
  end
  return y
end

function pooled.max(tokens) return fold(tokens, math.max) end

function pooled.mean(tokens)
  local y = fold(tokens, function(a, b) return a + b end)
  for j in ipairs(y) do y[j] = y[j] / #tokens end
  return y
end

local function wanted(kind, x, keys)
  local rows = {}
  for b, row in ipairs(x:totable()) do
    local tokens = {}
    for t, token in ipairs(row) do
      if not keys or keys[b][t] then tokens[#tokens + 1] = token end
    end
    rows[b] = #tokens > 0 and pooled[kind](tokens) or heed.zeros(x:size(3)):totable()
  end
  return heed.tensor(rows, {dtype = x.dtype})
end

local keys = heed.tensor{
  {true, true, true, true, true}, {false, false, true, true, true},
  {true, false, true, false, false}, {false, false, false, false, false},
}
local lengths = heed.tensor{5, 2, 0, 1}

local function keys_of_lengths()
  return heed.arange(5):le(lengths:unsqueeze(2)):totable()
end

local function near(a, b) return a:allclose(b, {rtol = 1e-5, atol = 1e-6}) end


for _, kind in ipairs(KINDS) do
  describe("nn.Pool of the " .. kind, function()
    local pool = nn.Pool(kind)
    local x = heed.randn(4, 5, 3)

    it("is that of the tokens that are there", function()
      assert.is_true(near(pool(x), wanted(kind, x)))
      assert.is_true(near(pool(x, {keys = keys}), wanted(kind, x, keys:totable())))
      assert.is_true(near(pool(x, {lengths = lengths}), wanted(kind, x, keys_of_lengths())))
      local both = keys & heed.tensor(keys_of_lengths())
      assert.is_true(near(pool(x, {keys = keys, lengths = lengths}),
                          wanted(kind, x, both:totable())))
      assert.is_true(near(pool(x.mT.mT - 20, {keys = keys}),
                          wanted(kind, x - 20, keys:totable())))
    end)

    it("is 0 without tokens, and hears nothing of the others", function()
      local dirty = x:masked_fill(~keys:unsqueeze(3), NAN)
      local y = pool(dirty, {keys = keys})
      assert.is_true(near(y, wanted(kind, x, keys:totable())))
      assert.equal(0, y[4]:abs():sum():item())
      dirty = dirty:masked_fill(dirty:isnan(), math.huge):requires_grad_()
      pool(dirty, {keys = keys}):sum():backward()
      assert.is_true(dirty.grad:isfinite():all())
      local elsewhere = dirty.grad:masked_fill(keys:unsqueeze(3), 0)
      assert.equal(0, elsewhere:abs():sum():item())
      assert.same({{0, 0}, {0, 0}}, pool(heed.zeros(2, 0, 2)):totable())
      assert.equal("(0, 2)", tostring(pool(heed.zeros(0, 3, 2)).shape))
    end)

    it("takes a single sequence", function()
      assert.is_true(near(pool(x[2]), pool(x)[2]))
      assert.is_true(near(pool(x[2], {keys = keys[2]}), pool(x, {keys = keys})[2]))
      assert.is_true(near(pool(x[2], {lengths = heed.tensor{2}}), pool(x, {lengths = lengths})[2]))
    end)

    it("has gradients and all float types", function()
      local leaf = heed.randn(4, 5, 3, {dtype = "float64", requires_grad = true})
      for _, o in ipairs{{}, {keys = keys}, {lengths = lengths}} do
        assert.is_true(heed.gradcheck(function(t) return pool(t, o) end, {leaf}))
      end
      for _, dtype in ipairs{"float16", "bfloat16", "float64"} do
        local y = pool(x:to(dtype), {keys = keys})
        assert.equal(dtype, y.dtype)
        local floor = dtype == "bfloat16" and 4e-2 or 4e-3
        assert.is_true(y:float():allclose(pool(x, {keys = keys}), {atol = floor}))
      end
      local large = heed.full({1, 400, 1}, 300, {dtype = "float16"})
      assert.equal(300, pool(large, {lengths = heed.tensor{400}}):item())
    end)
  end)
end


describe("nn.Pool", function()
  it("refuses what it cannot pool", function()
    local pool, x = nn.Pool("mean"), heed.zeros(2, 3, 4)
    assert.equal("Pool(mean)", tostring(pool))
    assert.matches("a way to pool expected, got the string 'men'; did you mean 'mean'",
                   message(nn.Pool, "men"))
    assert.matches("a way to pool expected, got nil", message(nn.Pool))
    assert.matches("nn.Pool: unknown option", message(nn.Pool, "mean", {x = 1}))
    assert.matches("features of shape %(B, T, D%) or %(T, D%) expected as x, got a tensor of shape "
                   .. "%(4%)", message(pool, heed.zeros(4)))
    assert.matches("lengths of type int64 and shape %(2%) expected, got a tensor of shape %(3%) "
                   .. "and type int64", message(pool, x, {lengths = heed.tensor{1, 2, 3}}))
    assert.matches("type float32", message(pool, x, {lengths = heed.zeros(2)}))
    assert.matches("expected, got 3", message(pool, x, {lengths = 3}))
    local function outside(list)
      return message(pool, x, {lengths = heed.tensor(list, {device = "cpu"})})
    end
    assert.matches("lengths from 0 to 3 expected, got 4", outside{4, 1})
    assert.matches("lengths from 0 to 3 expected, got %-1", outside{3, -1})
    assert.matches("lengths from 0 to 3 expected, got 4",
                   message(pool, x[1], {lengths = heed.tensor({4}, {device = "cpu"})}))
    assert.matches("keys of type bool and shape %(2, 3%) expected, got a tensor of shape %(3, 2%) "
                   .. "and type bool", message(pool, x, {keys = heed.ones(3, 2):gt(0)}))
    assert.matches("type int64", message(pool, x, {keys = heed.tensor{{1, 1, 1}, {1, 1, 1}}}))
    assert.matches("did you mean 'lengths'", message(pool, x, {length = lengths}))
  end)
end)


describe("nn.Classifier", function()
  it("is a linear layer over what is pooled", function()
    local x = heed.randn(4, 5, 6)
    for _, kind in ipairs(KINDS) do
      local layer = nn.Classifier(6, 3, {pool = kind})
      local features = nn.Pool(kind)(x, {keys = keys})
      local logits = features:matmul(layer.out.weight.mT) + layer.out.bias
      assert.is_true(near(layer(x, {keys = keys}), logits))
      assert.is_true(near(layer(x[1]), layer(x)[1]))
      assert.is_true(near(layer(x, {lengths = lengths}),
                          layer.out(nn.Pool(kind)(x, {lengths = lengths}))))
    end
    local mean = nn.Classifier(6, 3)
    assert.is_true(near(mean(x), mean.out(x:mean(2))))
  end)

  it("draws as a Linear, has options, and refuses others", function()
    heed.manual_seed(1)
    local layer = nn.Classifier(6, 3)
    heed.manual_seed(1)
    assert.is_true(layer.out.weight:equal(nn.Linear(6, 3).weight))
    assert.is_false(nn.Classifier(6, 3, {bias = false}).out.bias)
    local dropping = nn.Classifier(6, 3, {dropout = 1, bias = false})
    local x = heed.randn(2, 5, 6)
    assert.equal(0, dropping(x):abs():sum():item())
    assert.is_true(dropping:eval()(x):abs():sum():item() > 0)
    assert.matches("a way to pool expected", message(nn.Classifier, 6, 3, {pool = "sum"}))
    assert.matches("nn.Classifier: unknown option 'pol'", message(nn.Classifier, 6, 3, {pol = 1}))
    assert.matches("as classes, got nil", message(nn.Classifier, 6))
  end)
end)


describe("nn.Patches", function()
  -- Patch (i, j) of image b, its pixels by channel, row, column.
  local function patch(x, b, i, j, h, w)
    local pixels = {}
    for c = 1, x:size(2) do
      for row = 1, h do
        for column = 1, w do
          pixels[#pixels + 1] = x[{b, c, (i - 1) * h + row, (j - 1) * w + column}]
        end
      end
    end
    return heed.tensor(pixels)
  end

  it("maps the pixels of each patch, in reading order", function()
    local layer = nn.Patches({2, 3}, 5, {channels = 2})
    local x = heed.randn(2, 2, 4, 9)
    local y = layer(x)
    assert.equal("(2, 6, 5)", tostring(y.shape))
    for b = 1, 2 do
      for n = 1, 6 do
        local pixels = patch(x, b, (n - 1) // 3 + 1, (n - 1) % 3 + 1, 2, 3)
        assert.is_true(near(y[b][n], layer.project(pixels)))
      end
    end
    assert.is_true(near(layer(x.mT.mT), y))
    assert.equal("Patches({2, 3}, 5, channels = 2)", tostring(layer):match("^[^\n]*%)%f[ \n]"))
    assert.matches("^Patches%({2, 2}, 4%)", tostring(nn.Patches(2, 4)))
  end)

  it("takes images of one channel without that axis", function()
    local layer, x = nn.Patches(2, 3), heed.randn(2, 4, 6)
    assert.is_true(near(layer(x), layer(x:unsqueeze(2))))
    assert.equal("(0, 6, 3)", tostring(layer(heed.zeros(0, 4, 6)).shape))
  end)

  it("may have a class token, first, and positions", function()
    local layer, x = nn.Patches(2, 3, {class_token = true, positions = 4}), heed.randn(2, 4, 4)
    local y, plain = layer(x), layer.project
    assert.equal("(2, 5, 3)", tostring(y.shape))
    local rows = layer.position.weight
    assert.is_true(near(y[2][1], rows[1]))
    heed.no_grad(function() layer.class_token:fill_(7) end)
    assert.is_true(near(layer(x)[1][1], rows[1] + 7))
    assert.is_true(near(y[1][3], plain(patch(x:unsqueeze(2), 1, 1, 2, 2, 2)) + rows[3]))
    layer(x):sum():backward()
    assert.equal(2, layer.class_token.grad:mean():item())
    assert.equal(4, #nn.Patches(2, 3, {positions = 4}).position.weight)
    for _, W in ipairs{8, 2} do
      assert.matches("images of 4 patches expected, as option positions says, got " .. W,
                     message(layer, heed.zeros(1, 4, W)))
    end
  end)

  it("has gradients", function()
    local layer = nn.Patches(2, 3, {class_token = true}):to("float64")
    local x = heed.randn(1, 4, 4, {dtype = "float64", requires_grad = true})
    local function run(t) return layer(t) end
    assert.is_true(heed.gradcheck(run, {x, table.unpack(layer:parameters())}))
  end)

  it("refuses images that are not whole patches", function()
    local layer = nn.Patches({2, 3}, 4)
    assert.matches("whole patches of %(2, 3%) expected in images, got a tensor of shape "
                   .. "%(1, 1, 4, 4%)", message(layer, heed.zeros(1, 1, 4, 4)))
    assert.matches("images of shape %(B, 1, H, W%) or %(B, H, W%) expected, got a tensor of shape "
                   .. "%(1, 2, 4, 6%)", message(layer, heed.zeros(1, 2, 4, 6)))
    assert.matches("images of shape %(B, 3, H, W%) expected, got a tensor of shape %(3, 4, 4%)",
                   message(nn.Patches(2, 4, {channels = 3}), heed.zeros(3, 4, 4)))
    assert.matches("got 5", message(layer, 5))
    assert.matches("a size, or {height, width} expected, got 3 sizes",
                   message(nn.Patches, {1, 2, 3}, 4))
    assert.matches("as size, got 0", message(nn.Patches, 0, 4))
    assert.matches("as dim, got nil", message(nn.Patches, 2))
    assert.matches("as positions, got 0", message(nn.Patches, 2, 4, {positions = 0}))
    assert.matches("unknown option 'chanels'", message(nn.Patches, 2, 4, {chanels = 1}))
  end)
end)
