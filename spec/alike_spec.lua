-- Models that are compared: what one has and a model of a file's keys has not.

local alike = require "heed.models.alike"
local heed = require "heed"
local nn = require "heed.nn"


-- Two modules of the same fields.
local function both(make)
  local a, b = nn.Module(), nn.Module()
  make(a)
  make(b)
  return a, b
end


describe("models.alike", function()
  it("tells parameters that one model ties and the other does not", function()
    local tied, apart = both(function(m)
      m.first, m.second = nn.Linear(3, 3, {bias = false}), nn.Linear(3, 3, {bias = false})
    end)
    assert.is_nil(alike(tied, apart))
    tied.second.weight = tied.first.weight
    assert.equal("second.weight", (alike(tied, apart)))
    assert.equal("second.weight", (alike(apart, tied)))
    assert.is_nil(alike(tied, tied))
  end)

  it("compares integers whole, and floats as float32", function()
    local a, b = both(function(m) m.size, m.eps = 1 << 24, 1e-5 end)
    b.eps = 1e-5 + 1e-14
    assert.is_nil(alike(a, b))
    b.eps, a.eps = 1, 1 + 1e-12
    assert.is_nil(alike(a, b))
    assert.is_nil(alike(b, a))
    b.size = b.size + 1
    assert.equal("size", (alike(a, b)))
  end)

  it("compares ropes by their angles, and by the factor of attention", function()
    local function scaled(factor)
      return {base = 10000, scaling = {rope_type = "yarn", factor = 4, attention_factor = factor,
                                       original_max_position_embeddings = 32}}
    end
    local a, b = both(function(m) m.rope, m.head_dim = {base = 10000}, 8 end)
    for _, o in ipairs{{scaled(1.5), scaled(1.5)}, {scaled(1.5), scaled(1.25), "rope"},
                       {{base = 10000}, {base = 1e4}}, {{base = 10000}, {base = 9000}, "rope"}} do
      a.rope, b.rope = o[1], o[2]
      assert.equal(o[3], (alike(a, b)))
    end
  end)

  it("leaves out what stands beside a model, and nothing of the same name in its modules",
     function()
    local a, b = both(function(m) m.inner, m.limit = nn.Linear(2, 2), 1 end)
    b.limit, b.config, b.inner.training = 2, {}, false
    assert.is_nil(alike(a, b))
    a.inner.limit, b.inner.limit = 7, 8
    assert.same({"inner.limit", 7, 8}, {alike(a, b)})
  end)

  it("names what differs first: numbers in their order, then names in theirs", function()
    local a, b = both(function(m)
      for i = 1, 12 do m[i] = i end
      m.zeta, m.alpha = 1, 1
    end)
    b.alpha, b.zeta = 2, 2
    assert.equal("alpha", (alike(a, b)))
    for i = 2, 12 do b[i] = 0 end
    assert.equal("2", (alike(a, b)))
  end)

  it("takes a value and none for different", function()
    local a, b = both(function(m) m.scale = heed.ones(2) end)
    b.scale = nil
    assert.equal("scale", (alike(a, b)))
  end)
end)
