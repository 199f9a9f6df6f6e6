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
    assert.equal("first.weight and second.weight are one tensor, and two", alike(tied, apart))
    assert.equal("first.weight and second.weight are two tensors, and one", alike(apart, tied))
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
    assert.equal("size is 16777216, and 16777217", alike(a, b))
  end)

  it("compares ropes by their angles, and by the factor of attention", function()
    local function scaled(factor)
      return {base = 10000, scaling = {rope_type = "yarn", factor = 4, attention_factor = factor,
                                       original_max_position_embeddings = 32}}
    end
    local a, b = both(function(m) m.rope, m.head_dim = {base = 10000}, 8 end)
    local other <const> = "rope turns by other angles than"
    for _, o in ipairs{{scaled(1.5), scaled(1.5)}, {scaled(1.5), scaled(1.25), other},
                       {{base = 10000}, {base = 1e4}}, {{base = 10000}, {base = 9000}, other}} do
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
    assert.equal("inner.limit is 7, and 8", alike(a, b))
  end)

  it("names what differs first: numbers in their order, then names in theirs", function()
    local a, b = both(function(m)
      for i = 1, 12 do m[i] = i end
      m.zeta, m.alpha = 1, 1
    end)
    b.alpha, b.zeta = 2, 2
    assert.equal("alpha is 1, and 2", alike(a, b))
    for i = 2, 12 do b[i] = 0 end
    assert.equal("2 is 2, and 0", alike(a, b))
  end)

  it("takes a value and none for different", function()
    local a, b = both(function(m) m.scale = heed.ones(2) end)
    b.scale = nil
    assert.equal("scale is a tensor of shape (2), and nil", alike(a, b))
    assert.equal("scale is nil, and a tensor of shape (2)", alike(b, a))
    a.note, a.list, a.tuned = "the caller's", setmetatable({1}, {}), true
    b.scale = a.scale
    assert.is_nil(alike(a, b))
    a.part, b.part = false, nil
    assert.equal("part is false, and nil", alike(a, b))
    a.part, b.part = nil, false
    assert.equal("part is nil, and false", alike(a, b))
    b.part, b.scale = nil, heed.ones(3)
    assert.equal("scale has shape (2), and (3)", alike(a, b))
  end)

  it("tells functions and modules apart, and leaves dropout out", function()
    local a, b = both(function(m) m.f, m.dropout, m.inner = heed.relu, 0, nn.Linear(2, 2) end)
    a.dropout = 0.5
    assert.is_nil(alike(a, b))
    a.dropout, b.dropout = nn.Dropout(0.5), nn.Dropout(0.1)
    assert.is_nil(alike(a, b))
    a.dropout = nn.Sequential{heed.tanh}
    assert.equal("dropout is Sequential, and Dropout", alike(a, b))
    b.dropout = a.dropout
    b.f = heed.gelu
    assert.equal("f is a function other than", alike(a, b))
    b.f, b.inner = heed.relu, nn.LayerNorm(2)
    assert.equal("inner is Linear, and LayerNorm", alike(a, b))
  end)

  it("takes a merged adapter for a part of a weight, which nothing else has then", function()
    local tied, apart = both(function(m) m.first, m.second = nn.Linear(3, 3), nn.Linear(3, 3) end)
    tied.second.weight = tied.first.weight
    local all = nn.lora(tied, {rank = 1, targets = {"second"}})
    assert.is_string(alike(tied, apart))
    all:merge()
    assert.is_nil(alike(tied, apart))
  end)
end)
